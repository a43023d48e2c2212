/* SPDX-License-Identifier: Apache-2.0
 *
 * The verdict: what the model is, what it costs and where most of that is, what to do, and how exact the
 * numbers are. */
#include "report/page/page.h"

enum { TARGET = 160, WHERE = 22, GAPS = 6 };

/* -- the line below the heading -------------------------------------------------------------------------- */

static void put_count(lmi_page *p, int64_t n, const char *what) {
    lmi_put_full(&p->out, n);
    lmi_putf(&p->out, " %s%s", what, n == 1 ? "" : "s");
}

static void put_subject(lmi_page *p) {
    const char *dry = lmi_outline_provenance(p->o, "dry"), *target = lmi_outline_provenance(p->o, "target");
    const lmi_outline *was = p->o->was;
    if (!target) target = p->options->target;
    lmi_put(&p->out, "<p class=\"sub\">");
    if (target) {
        lmi_put(&p->out, "<code>");
        lmi_page_put_both(p, was ? lmi_outline_provenance(was, "target") : NULL, target, TARGET);
        lmi_put(&p->out, "</code> · ");
    }
    if (*p->o->at[0].in) {
        lmi_put(&p->out, "input <span class=\"num\">");
        lmi_page_put_both(p, was ? was->at[0].in : NULL, p->o->at[0].in, TARGET);
        lmi_put(&p->out, "</span> · ");
    }
    if (p->o->mode) {
        lmi_page_put_both(p, was ? was->mode : NULL, p->o->mode, TARGET);
        lmi_put(&p->out, " mode · ");
    }
    const char *why = lmi_outline_provenance(p->o, "dry_because");
    if (dry && strcmp(dry, "yes") == 0) {
        lmi_put(&p->out, "dry run, nothing was computed");
        if (why) lmi_put(&p->out, ": ");
        if (why) lmi_put_html(&p->out, why);
        lmi_put(&p->out, " · ");
    }
    put_count(p, p->o->modules, "module");
    lmi_put(&p->out, ", ");
    put_count(p, p->o->calls, "call");
    lmi_put(&p->out, "</p>\n");
}

/* -- tiles ----------------------------------------------------------------------------------------------- */

/* The child with the largest number; -1: none has any. */
static int32_t largest_child(const lmi_page *p, const lmi_picture_options *of, int32_t place) {
    const lmi_outline_place *at = p->o->at;
    int32_t best = -1;
    int64_t most = 0;
    for (int32_t i = place + 1; i < at[place].end; i = at[i].end) {
        int64_t v = lmi_shown_total(p->o, of, i);
        if (v > most) most = v, best = i;
    }
    return best;
}

/* Writes where most of a number is: down from the root while one child has three fifths of the whole. */
static void put_most(lmi_page *p, const lmi_picture_options *of) {
    const double whole = (double)lmi_shown_total(p->o, of, 0);
    int32_t best = largest_child(p, of, 0);
    for (int32_t next = best; next >= 0; next = largest_child(p, of, best)) {
        if (next != best && (double)lmi_shown_total(p->o, of, next) < .6 * whole) break;
        best = next;
    }
    if (best < 0) return;
    lmi_page_path(p, best, WHERE);
    lmi_putc(&p->out, ' ');
    lmi_put_share(&p->out, (double)lmi_shown_total(p->o, of, best), whole);
}

static void put_bytes(lmi_page *p, const char *before, lam_count n) {
    bool bound = n.state != LAM_EXACT, none = bound && n.n == 0 && n.over == 0;
    lmi_putf(&p->out, "%s%s", before, none ? "?" : bound ? "\u2265" LMI_NARROW : "");
    if (!none) lmi_put_iec(&p->out, lmi_count_double(n));
}

static void put_parameters(lmi_page *p) {
    const lam_param_totals *t = &p->o->params;
    put_bytes(p, "", t->param_bytes);
    if (lmi_has_logical(t)) put_bytes(p, ", logical size ", t->logical_bytes);
    if (!lmi_is_same(t->local_bytes, t->param_bytes)) put_bytes(p, ", in this process ", t->local_bytes);
    if (t->grad_params.state == LAM_UNKNOWN) return;
    if (t->nograd_params.n == 0 && t->nograd_params.state == LAM_EXACT)
        lmi_put(&p->out, ", all trainable");
    else {
        lmi_put(&p->out, ", ");
        lmi_put_si(&p->out, lmi_count_double(t->grad_params));
        lmi_put(&p->out, " trainable");
    }
}

/* A step's time, if whole steps were timed. */
static bool is_of_a_step(const lmi_page *p, const lmi_page_number *n) {
    return n->of.backward && p->o->time[LAM_TIME_WHOLE].n > 0;
}

static void put_spread(lmi_page *p, const lmi_page_number *n) {
    const lam_spread *time = &p->o->time[is_of_a_step(p, n) ? LAM_TIME_WHOLE : LAM_TIME_FORWARD];
    lmi_put(&p->out, "±" LMI_NARROW);
    lmi_put_ns(&p->out, (double)time->deviation);
    lmi_put(&p->out, ", ");
    put_count(p, time->n, "run");
}

static void put_name(lmi_page *p, const lmi_page_number *n) {
    if (n->of.by == LMI_FIGURE_TIME)
        lmi_put(&p->out, is_of_a_step(p, n) ? "time of a step" : "time, forward");
    else
        lmi_putf(&p->out, "%s%s", lmi_figures[n->of.by].title, lmi_page_phase(n));
}

static void put_tile(lmi_page *p, const lmi_page_number *n, bool pressed) {
    bool part = p->options->part;
    if (part)
        lmi_put(&p->out, "<div class=\"tile\">");
    else
        lmi_putf(&p->out, "<button class=\"tile\" data-by=\"%s\" aria-pressed=\"%s\">", n->key,
                 pressed ? "true" : "false");
    lmi_put(&p->out, "<span class=\"k\">");
    put_name(p, n);
    lmi_put(&p->out, "</span><span class=\"v\">");
    lmi_page_put_total(p, n);
    lmi_put(&p->out, "</span><span class=\"w\">");
    if (p->o->was)
        lmi_page_put_was(p, n);
    else if (n->of.by == LMI_FIGURE_PARAMS)
        put_parameters(p);
    else if (n->of.by == LMI_FIGURE_TIME)
        put_spread(p, n);
    else
        put_most(p, &n->of);
    lmi_put(&p->out, part ? "</span></div>" : "</span></button>");
}

/* The script shows the tiles of a step in the place of the others. */
static void put_tiles(lmi_page *p) {
    bool step = false;
    lmi_put(&p->out, "<div class=\"tiles\">");
    for (int32_t k = 0; k < p->n_numbers; k++) {
        put_tile(p, &p->number[k], k == p->by);
        step = step || lmi_page_has_step(p->o, &p->number[k]);
    }
    lmi_put(&p->out, "</div>\n");
    if (p->options->part || !step) return;
    lmi_put(&p->out, "<template id=\"steps\">");
    for (int32_t k = 0; k < p->n_numbers; k++) {
        lmi_page_number n = lmi_page_step(&p->number[k]);
        put_tile(p, &n, k == p->by);
    }
    lmi_put(&p->out, "</template>\n");
}

/* -- exact or not ---------------------------------------------------------------------------------------- */

static void put_gaps(lmi_page *p) {
    lmi_put(&p->out, "<b class=\"warn\">≥ Not every number is exact.</b><ul>");
    for (int32_t i = 0; i < p->o->n_gaps && i < GAPS; i++) {
        lmi_put(&p->out, "<li>");
        lmi_page_name(p, p->o->gap[i], LMI_PAGE_LONG);
        lmi_put(&p->out, "</li>");
    }
    if (p->o->n_gaps > GAPS) lmi_putf(&p->out, "<li>%d more</li>", (int)p->o->n_gaps - GAPS);
    lmi_put(&p->out, "</ul>");
}

static void put_exact(lmi_page *p) {
    const lmi_outline *o = p->o;
    lmi_put(&p->out, "<b>All counts are exact.</b>");
    if (o->ops_ran > 0) {
        lmi_putc(&p->out, ' ');
        lmi_put_full(&p->out, o->ops_ruled);
        lmi_put(&p->out, " of ");
        lmi_put_full(&p->out, o->ops_counted);
        lmi_put(&p->out, " operators that count have a formula; ");
        lmi_put_full(&p->out, o->ops_ran);
        lmi_put(&p->out, lmi_outline_provenance(o, "format") ? " are in the file." : " ran.");
    }
    if (o->timed || o->memory)
        lmi_putf(&p->out, " %s measured.",
                 o->timed && o->memory ? "Times and memory are"
                 : o->timed            ? "Times are"
                                       : "Memory is");
}

static void put_growth(lmi_page *p) {
    if (!p->o->n_growth) return;
    lmi_put(&p->out, "<br>Totals grow with sizes that the file leaves open: ");
    for (int32_t i = 0; i < p->o->n_growth; i++) {
        if (i) lmi_put(&p->out, "; ");
        lmi_page_name(p, p->o->growth[i], LMI_PAGE_LONG);
    }
    lmi_put(&p->out, ".");
}

void lmi_page_verdict(lmi_page *p) {
    const bool part = p->options->part;
    lmi_put(&p->out, part ? "<p class=\"h1\">" : "<h1 id=\"h-verdict\">");
    lmi_page_put_names(p, TARGET);
    lmi_put(&p->out, part ? "</p>" : "</h1>");
    put_subject(p);
    if (p->options->ran) {
        lmi_put(&p->out, "<div class=\"exact\"><b class=\"warn\">Only a part of the model ran.</b> ");
        lmi_page_name(p, p->options->ran, LMI_PAGE_LONG);
        lmi_put(&p->out, "</div>\n");
    }
    put_tiles(p);
    if (!part) lmi_put(&p->out, "<h2 class=\"vh\">Findings</h2>");
    lmi_page_findings(p);
    lmi_put(&p->out, "<div class=\"exact\">");
    if (p->o->n_gaps)
        put_gaps(p);
    else
        put_exact(p);
    put_growth(p);
    lmi_put(&p->out, "</div>\n");
}
