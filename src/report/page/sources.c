/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables behind the pictures, and how it was measured: what ran, how, where, and what was left out. */
#include "report/page/page.h"

enum { HOLDERS = 12, SPEEDS = 20, LINES = 60, TYPE = 30, STACK = 1120, SMALL = 260, TEXT = 500 };

/* -- what holds the peak --------------------------------------------------------------------------------- */

/* Draws a bar of the parts of `held`; `whole` bytes are `width` units. */
static void put_stack(lmi_buf *b, const int64_t *held, double whole, int width, int height) {
    double at = 0;
    for (int k = 0; k < LAM_N_HELD && whole > 0; k++) {
        double w = width * ((double)held[lmi_held_order[k]] / whole);
        if (!(w > 0)) continue;
        lmi_putf(b, "<rect class=\"k%d\" x=\"%.1f\" width=\"%.1f\" height=\"%d\"/>", k, at, w < .5 ? .5 : w,
                 height);
        at += w;
    }
}

static int64_t sum_of(const int64_t *held) {
    int64_t sum = 0;
    for (int h = 0; h < LAM_N_HELD; h++) sum = lmi_add_capped(sum, held[h]);
    return sum;
}

static void put_legend(lmi_page *p) {
    const int64_t *held = p->o->memory->held;
    double sum = (double)sum_of(held);
    lmi_put(&p->out, "<div class=\"leg\">");
    for (int k = 0; k < LAM_N_HELD; k++) {
        double v = (double)held[lmi_held_order[k]];
        if (v <= .001 * sum) continue;
        lmi_putf(&p->out, "<span><i class=\"g%d\"></i>%s <b class=\"num\">", k,
                 lam_held_name(lmi_held_order[k]));
        lmi_put_iec(&p->out, v);
        lmi_put(&p->out, "</b> ");
        lmi_put_share(&p->out, v, sum);
        lmi_put(&p->out, "</span>");
    }
    lmi_put(&p->out, "</div>");
}

static void put_holder(lmi_page *p, int32_t i, double most) {
    const int64_t *held = p->o->held[i];
    const char *comma = "";
    lmi_putf(&p->out, "<tr data-i=\"%d\"><th scope=\"row\">", (int)i);
    lmi_page_link(p, i);
    lmi_put(&p->out, "<span class=\"ty\">");
    lmi_page_name(p, p->o->at[i].type, TYPE);
    lmi_putf(&p->out,
             "</span></th><td class=\"l\"><svg width=\"%d\" height=\"12\" viewBox=\"0 0 %d 12\" "
             "aria-hidden=\"true\">",
             SMALL, SMALL);
    put_stack(&p->out, held, most, SMALL, 12);
    lmi_put(&p->out, "</svg><span class=\"vh\">");
    for (int k = 0; k < LAM_N_HELD; k++) {
        if (held[lmi_held_order[k]] <= 0) continue;
        lmi_putf(&p->out, "%s%s ", comma, lam_held_name(lmi_held_order[k]));
        lmi_put_iec(&p->out, (double)held[lmi_held_order[k]]);
        comma = ", ";
    }
    lmi_put(&p->out, "</span></td><td>");
    lmi_put_iec(&p->out, (double)sum_of(held));
    lmi_put(&p->out, "</td><td>");
    lmi_put_share(&p->out, (double)sum_of(held), (double)p->o->memory->peak);
    lmi_put(&p->out, "</td></tr>\n");
}

/* Adds a number to a list of `n` entries, at most `most`, the largest first; of equal ones the first stays
 * first. */
typedef struct ranked {
    int32_t place;
    int64_t v;
} ranked;
static void rank(ranked *list, int32_t *n, int32_t most, int32_t place, int64_t v) {
    int32_t at = *n;
    while (at > 0 && list[at - 1].v < v) at--;
    if (at >= most) return;
    if (*n < most) (*n)++;
    for (int32_t i = *n - 1; i > at; i--) list[i] = list[i - 1];
    list[at] = (ranked){place, v};
}

void lmi_page_holders(lmi_page *p) {
    const lmi_outline *o = p->o;
    ranked list[HOLDERS];
    int32_t n = 0, holders = 0;
    lmi_putf(&p->out,
             "<h3>Who holds the peak</h3><div class=\"fig\"><svg viewBox=\"0 0 %d 18\" role=\"img\" "
             "aria-label=\"What the peak is made of\">",
             STACK);
    put_stack(&p->out, o->memory->held, (double)sum_of(o->memory->held), STACK, 18);
    lmi_put(&p->out, "</svg></div>");
    put_legend(p);
    for (int32_t i = 0; o->held && i < o->n; i++) {
        int64_t v = sum_of(o->held[i]);
        if (v <= 0) continue;
        holders++;
        rank(list, &n, HOLDERS, i, v);
    }
    if (!n) return;
    lmi_putf(
        &p->out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Holders of the peak\">"
        "<table><caption>The %d modules that hold most at the peak, of %d</caption><thead><tr><th "
        "scope=\"col\"><span>module</span></th><th scope=\"col\" class=\"l\"><span>made of</span></th><th "
        "scope=\"col\"><span>held</span></th><th scope=\"col\"><span>of the peak</span></th></tr></thead>"
        "<tbody>\n",
        (int)n, (int)holders);
    for (int32_t i = 0; i < n; i++) put_holder(p, list[i].place, (double)list[0].v);
    lmi_put(&p->out, "</tbody></table></div>");
}

/* -- speeds ---------------------------------------------------------------------------------------------- */

static bool speed_of(const lmi_page *p, int32_t place, lam_speed *out) {
    return lmi_place_speed_of(p->o, place, &p->o->roof, out);
}

bool lmi_page_has_speeds(const lmi_page *p) {
    lam_speed s;
    for (int32_t i = 0; i < p->o->n; i++)
        if (speed_of(p, i, &s)) return true;
    return false;
}

void lmi_page_speeds_say(lmi_page *p) {
    double time[LAM_BOUND_NEITHER + 1] = {0}, sum = 0;
    for (int32_t i = 0; i < p->o->n; i++) {
        lam_speed s;
        if (!speed_of(p, i, &s)) continue;
        time[s.bound] += (double)s.ns;
        sum += (double)s.ns;
    }
    lmi_put(&p->out, "Each circle is a module's own forward work; its area is its time. ");
    lmi_put_share(&p->out, time[LAM_BOUND_COMPUTE], sum);
    lmi_put(&p->out, " of the time is bound by compute, ");
    lmi_put_share(&p->out, time[LAM_BOUND_MEMORY], sum);
    lmi_put(&p->out, " by memory, ");
    lmi_put_share(&p->out, time[LAM_BOUND_NEITHER], sum);
    lmi_put(&p->out, " is overhead.");
}

void lmi_page_speeds(lmi_page *p) {
    ranked list[SPEEDS];
    int32_t n = 0, all = 0;
    lam_speed s;
    for (int32_t i = 0; i < p->o->n; i++)
        if (speed_of(p, i, &s)) rank(list, &n, SPEEDS, i, s.ns), all++;
    lmi_putf(&p->out,
             "<table><caption>The %d of %d modules that take longest</caption><thead><tr><th "
             "scope=\"col\"><span>module</span></th><th scope=\"col\"><span>time</span></th><th "
             "scope=\"col\"><span>FLOP/s</span></th><th scope=\"col\"><span>FLOP/byte</span></th><th "
             "scope=\"col\" class=\"l\"><span>bound by</span></th><th scope=\"col\"><span>of that "
             "roof</span></th></tr></thead><tbody>\n",
             (int)n, (int)all);
    for (int32_t i = 0; i < n; i++) {
        if (!speed_of(p, list[i].place, &s)) continue;
        lmi_putf(&p->out, "<tr data-i=\"%d\"><th scope=\"row\">", (int)list[i].place);
        lmi_page_link(p, list[i].place);
        lmi_put(&p->out, "</th><td>");
        lmi_put_ns(&p->out, (double)s.ns);
        lmi_put(&p->out, "</td><td>");
        lmi_put_si(&p->out, s.flops);
        lmi_put(&p->out, "</td><td>");
        lmi_put_digits(&p->out, s.intensity);
        lmi_putf(&p->out, "</td><td class=\"l\">%s</td><td>", lmi_speed_bound(&s));
        lmi_put_share(&p->out, s.share, 1);
        lmi_put(&p->out, "</td></tr>\n");
    }
    lmi_put(&p->out, "</tbody></table>");
}

/* -- the graph's top level ------------------------------------------------------------------------------- */

const lmi_level *lmi_page_top_level(const lmi_page *p) {
    int32_t level = p->o->n ? p->o->at[0].level : -1;
    return level >= 0 && level < p->o->n_levels ? &p->o->level[level] : NULL;
}

void lmi_page_lines(lmi_page *p) {
    const lmi_level *l = lmi_page_top_level(p);
    lmi_put(&p->out,
            "<table><caption>What goes where, top level</caption><thead><tr><th scope=\"col\"><span>from"
            "</span></th><th scope=\"col\" class=\"l\"><span>to</span></th></tr></thead><tbody>\n");
    for (int32_t i = 0; i < l->n_lines && i < LINES; i++) {
        lmi_put(&p->out, "<tr><th scope=\"row\">");
        lmi_page_name(p, l->node[l->line[i].from].label, LMI_PAGE_LINK);
        lmi_put(&p->out, "</th><td class=\"l\">");
        lmi_page_name(p, l->node[l->line[i].to].label, LMI_PAGE_LINK);
        lmi_put(&p->out, "</td></tr>\n");
    }
    lmi_put(&p->out, "</tbody></table>");
    if (l->n_lines > LINES) lmi_putf(&p->out, "<p class=\"dim\">%d more</p>", (int)l->n_lines - LINES);
}

/* -- how it was measured --------------------------------------------------------------------------------- */

static void put_text(lmi_page *p, const char *term, const char *text) {
    if (!text || !*text) return;
    lmi_put(&p->out, "<dt>");
    lmi_put_name(&p->out, term, LMI_PAGE_CELL);
    lmi_put(&p->out, "</dt><dd>");
    lmi_page_name(p, text, TEXT);
    lmi_put(&p->out, "</dd>");
}

/* Begins an item whose text follows; `end_item` ends it. */
static void begin_item(lmi_page *p, const char *term) { lmi_putf(&p->out, "<dt>%s</dt><dd>", term); }
static void end_item(lmi_page *p) { lmi_put(&p->out, "</dd>"); }

static bool is_dry(const lmi_page *p) {
    const char *dry = lmi_outline_provenance(p->o, "dry");
    return dry && strcmp(dry, "yes") == 0;
}

/* Writes what was not measured, and the option that measures it. */
static void put_missing(lmi_page *p, const char *term, const char *option, const char *argument) {
    begin_item(p, term);
    if (lmi_outline_provenance(p->o, "format"))
        lmi_put(&p->out, "not measured: nothing of a file is run");
    else if (is_dry(p))
        lmi_put(&p->out, "not measured: a dry run computes nothing");
    else
        lmi_putf(&p->out, "not measured; <code>%s</code> measures it",
                 p->options->command ? option : argument);
    end_item(p);
}

/* The labels of the provenance that say what ran; the others say where. */
static const char *const about_the_run[] = {"target", "build", "inputs", "mode", "dry", "backward", "stages"};
static bool is_about_the_run(const char *label) {
    for (size_t i = 0; i < sizeof about_the_run / sizeof *about_the_run; i++)
        if (strcmp(about_the_run[i], label) == 0) return true;
    return false;
}

/* Names the saved report that the page was made of. */
static void put_saved(lmi_page *p, const lmi_outline *o, const char *given) {
    const char *target = lmi_outline_provenance(o, "target");
    if (target && given && strcmp(target, given) != 0) put_text(p, "saved report", given);
}

static void put_what_ran(lmi_page *p) {
    const lmi_outline *o = p->o;
    lmi_put(&p->out, "<div><h3>What ran</h3><dl>");
    put_text(p, "model", o->type_path ? o->type_path : o->name);
    if (!lmi_outline_provenance(p->o, "target")) put_text(p, "target", p->options->target);
    put_saved(p, o, p->options->target);
    for (int32_t i = 0; i < o->n_provenance; i++)
        if (is_about_the_run(o->provenance[i][0])) put_text(p, o->provenance[i][0], o->provenance[i][1]);
    put_text(p, "input", o->at[0].in);
    put_text(p, "output", o->at[0].out);
    if (!lmi_outline_provenance(p->o, "mode")) put_text(p, "mode", o->mode);
    begin_item(p, "convention");
    lmi_page_name(p, o->convention, LMI_PAGE_CELL);
    lmi_put(&p->out, ": ");
    lmi_page_name(p, o->source, TEXT);
    end_item(p);
    lmi_put(&p->out, "</dl></div>\n");
}

static void put_times(lmi_page *p) {
    const lmi_outline *o = p->o;
    begin_item(p, "time");
    lmi_putf(&p->out, "median of %d run%s; ± is the median deviation", (int)o->repeats,
             o->repeats == 1 ? "" : "s");
    if (o->outliers)
        lmi_putf(&p->out, "; %d run%s took much longer", (int)o->outliers, o->outliers == 1 ? "" : "s");
    end_item(p);
}

static void put_memory(lmi_page *p) {
    const lam_memory_info *info = &p->o->memory->info;
    put_text(p, "memory", info->source);
    if (info->rss_peak <= 0) return;
    begin_item(p, "resident");
    lmi_put_iec(&p->out, (double)info->rss_peak);
    lmi_put(&p->out, " of the process at its peak");
    end_item(p);
}

static void put_roof(lmi_page *p) {
    begin_item(p, "roof");
    lmi_put_si(&p->out, p->o->roof.flops);
    lmi_put(&p->out, "FLOP/s, ");
    lmi_put_iec(&p->out, p->o->roof.bytes);
    lmi_put(&p->out, "/s");
    end_item(p);
}

static void put_how(lmi_page *p) {
    const lmi_outline *o = p->o;
    lmi_put(&p->out, "<div><h3>How it was measured</h3><dl>");
    put_text(p, "counts",
             o->ops_ran > 0 ? "of each operator that ran, by its own shapes"
                            : "of each call of a layer, by its shapes");
    if (o->timed)
        put_times(p);
    else
        put_missing(p, "time", "--time", "time=True");
    if (o->memory)
        put_memory(p);
    else
        put_missing(p, "memory", "--memory", "memory=True");
    if (o->roof.flops > 0)
        put_roof(p);
    else
        put_missing(p, "roof", "--roof", "roof=lamina.roof()");
    if (o->health)
        put_text(p, "values", lam_health_sentence(o->health));
    else
        put_missing(p, "values", "--health", "health=True");
    const char *asked = lmi_outline_provenance(o, "backward");
    if (!o->backward && asked && strcmp(asked, "yes") == 0)
        put_text(p, "backward", "requested, but none ran to its end");
    else if (!o->backward)
        put_missing(p, "backward", "--backward", "backward=True");
    lmi_put(&p->out, "</dl></div>\n");
}

static void put_where(lmi_page *p) {
    lmi_put(&p->out, "<div><h3>Where</h3><dl>");
    put_text(p, "lamina", p->o->version);
    for (int32_t i = 0; i < p->o->n_provenance; i++)
        if (!is_about_the_run(p->o->provenance[i][0]))
            put_text(p, p->o->provenance[i][0], p->o->provenance[i][1]);
    lmi_put(&p->out, "</dl></div>\n");
}

static void put_sentence(lmi_page *p, const char *sentence) {
    lmi_put(&p->out, "<li>");
    lmi_page_name(p, sentence, TEXT);
    lmi_put(&p->out, "</li>");
}

static void put_before(lmi_page *p) {
    const lmi_outline *was = p->o->was;
    if (!was) return;
    lmi_put(&p->out, "<div><h3>What it is compared with</h3><dl>");
    put_text(p, "model", was->type_path ? was->type_path : was->name);
    if (!lmi_outline_provenance(was, "target")) put_text(p, "target", p->options->before);
    put_saved(p, was, p->options->before);
    put_text(p, "input", was->at[0].in);
    put_text(p, "output", was->at[0].out);
    if (!lmi_outline_provenance(was, "mode")) put_text(p, "mode", was->mode);
    put_text(p, "convention", was->convention);
    put_text(p, "time", was->timed ? "measured" : "not measured");
    put_text(p, "memory", was->memory ? was->memory->info.source : "not measured");
    put_text(p, "lamina", was->version);
    for (int32_t i = 0; i < was->n_provenance; i++) put_text(p, was->provenance[i][0], was->provenance[i][1]);
    lmi_put(&p->out, "</dl></div>\n");
}

static void put_left_out(lmi_page *p) {
    const lmi_outline *o = p->o;
    size_t before;
    lmi_put(&p->out, "<div><h3>What was left out</h3><ul>");
    before = p->out.n;
    lmi_page_put_unlike(p);
    for (int32_t i = 0; i < o->n_notes; i++) put_sentence(p, o->note[i]);
    for (int32_t i = 0; i < o->n_left; i++) put_sentence(p, o->left[i]);
    if (p->out.n == before) lmi_put(&p->out, "<li>nothing</li>");
    lmi_put(&p->out, "</ul></div>");
}

void lmi_page_sources(lmi_page *p) {
    lmi_put(&p->out, "<div class=\"prov\" id=\"pbody\">");
    put_what_ran(p);
    put_before(p);
    put_how(p);
    put_where(p);
    put_left_out(p);
    lmi_put(&p->out, "</div>");
}
