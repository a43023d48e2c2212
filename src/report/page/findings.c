/* SPDX-License-Identifier: Apache-2.0
 *
 * Findings: at most three sentences, the gravest first, each with what to do. Every rule that applies notes
 * its finding with a rank; if the finding has a share of the whole, that is added to the rank. */
#include "analyse/run/health.h"
#include "report/page/page.h"

enum { SHOWN = 3, NOTED = 8, REASON = 200 };
#define BUSY_TIMES    .20 /* of the median: if times vary more, times of single layers mean nothing */
#define MUCH_OVERHEAD .15
#define MUCH_OF_ONE   .3
#define MOST          .6  /* of its container's, for a module to be named instead */
#define ENOUGH        .15 /* of the whole, for any module to be named */

typedef enum sign { BAD, WARN, INFO, FINE } sign;
typedef struct finding {
    double rank;
    sign sign;
    size_t what, next, end; /* where its two texts begin in the page's buffer, and end */
} finding;

/* The rules write into the page's buffer, after all of its text, and findings that are shown are copied from
 * there. */
typedef struct findings {
    lmi_page *p;
    int32_t n;
    finding at[NOTED];
} findings;

static finding *begin(findings *f, double rank, sign how) {
    finding *x = &f->at[f->n++];
    *x = (finding){.rank = rank, .sign = how, .what = f->p->out.n};
    return x;
}

static void go_on(findings *f, finding *x) { x->next = f->p->out.n; }
static void end(findings *f, finding *x) { x->end = f->p->out.n; }

/* -- values, modules, gradients -------------------------------------------------------------------------- */

static void find_bad_values(findings *f) {
    lmi_page *p = f->p;
    if (!p->o->health || !lmi_n_findings(p->o->health)) return;
    int32_t place = p->o->finding_place;
    finding *x = begin(f, 10, BAD);
    lmi_put(&p->out, "<b>NaN or Inf.</b> ");
    lmi_page_name(p, lam_health_sentence(p->o->health), LMI_PAGE_LONG);
    go_on(f, x);
    if (place >= 0) {
        lmi_put(&p->out, "Look at ");
        lmi_page_link(p, place);
        lmi_put(&p->out, " first: what comes after it only passes it on.");
    }
    end(f, x);
}

static void find_unused(findings *f) {
    lmi_page *p = f->p;
    if (!p->o->n_unused || p->options->ran) return; /* only a part ran: the rest may be used */
    const char *path = p->o->unused[0][0];
    int32_t place = lmi_page_find(p, path);
    const lmi_page_number *params = lmi_page_number_of(p, LMI_FIGURE_PARAMS);
    finding *x = begin(f, 8, WARN);
    if (p->o->n_unused == 1)
        lmi_put(&p->out, "<b>A module is not used.</b> ");
    else
        lmi_putf(&p->out, "<b>%d modules are not used.</b> ", (int)p->o->n_unused);
    lmi_page_link_to(p, path);
    lmi_put(&p->out, ": ");
    lmi_page_name(p, p->o->unused[0][1], REASON);
    if (place >= 0 && params && lmi_shown_total(p->o, &params->of, place) > 0) {
        lmi_put(&p->out, "; it holds ");
        lmi_put_si(&p->out, (double)lmi_shown_total(p->o, &params->of, place));
        lmi_put(&p->out, " parameters");
    }
    lmi_putc(&p->out, '.');
    go_on(f, x);
    lmi_put(&p->out, "Remove it, or use what it returns.");
    end(f, x);
}

static void find_no_gradient(findings *f) {
    lmi_page *p = f->p;
    if (!p->o->n_no_gradient || p->o->n_unused || p->options->ran) return;
    finding *x = begin(f, 7, WARN);
    lmi_putf(&p->out, "<b>%d parameter%s no gradient.</b> <code>", (int)p->o->n_no_gradient,
             p->o->n_no_gradient == 1 ? " gets" : "s get");
    lmi_page_name(p, p->o->no_gradient[0][0], LMI_PAGE_LINK);
    lmi_put(&p->out, "</code>: ");
    lmi_page_name(p, p->o->no_gradient[0][1], REASON);
    lmi_putc(&p->out, '.');
    go_on(f, x);
    lmi_put(&p->out, "If that is meant, freeze them: the optimizer then keeps no state for them.");
    end(f, x);
}

static void find_no_bad_values(findings *f) {
    lmi_page *p = f->p;
    if (!p->o->health || lmi_n_findings(p->o->health)) return;
    const int64_t n = p->o->health->checked->tensors;
    finding *x = begin(f, 0, FINE);
    lmi_put(&p->out, "<b>No NaN or Inf</b> in ");
    lmi_put_full(&p->out, n);
    lmi_putf(&p->out, " tensor%s%s.", n == 1 ? "" : "s", p->o->backward ? ", forward and backward" : "");
    go_on(f, x);
    end(f, x);
}

/* -- memory ---------------------------------------------------------------------------------------------- */

/* The module with most activations at the peak; the root if no single one is to be named. A leaf is replaced
 * by its container, which can be checkpointed. */
static int32_t holder_of_activations(const lmi_outline *o) {
    int32_t at = 0;
    for (;;) {
        int32_t best = -1;
        for (int32_t i = at + 1; i < o->at[at].end; i = o->at[i].end)
            if (best < 0 || o->held_total[i][LAM_HELD_ACTIVATION] > o->held_total[best][LAM_HELD_ACTIVATION])
                best = i;
        if (best < 0 || (double)o->held_total[best][LAM_HELD_ACTIVATION] <
                            (at ? MOST : ENOUGH) * (double)o->held_total[at][LAM_HELD_ACTIVATION])
            break;
        at = best;
    }
    return o->at[at].n_children == 0 && o->at[at].parent > 0 ? o->at[at].parent : at;
}

static void put_share_of_peak(lmi_page *p, lam_held held) {
    const lam_memory_totals *t = p->o->memory;
    const char *name = lam_held_name(held);
    const char first = (char)(*name >= 'a' && *name <= 'z' ? *name - 'a' + 'A' : *name);
    lmi_putf(&p->out, "<b>%c%s %s ", first, name + 1, name[strlen(name) - 1] == 's' ? "are" : "is");
    lmi_put_share(&p->out, (double)t->held[held], (double)t->peak);
    lmi_put(&p->out, " of the peak</b>, ");
    lmi_put_iec(&p->out, (double)t->held[held]);
    lmi_put(&p->out, " of ");
    lmi_put_iec(&p->out, (double)t->peak);
}

static void find_activations(findings *f, double share) {
    lmi_page *p = f->p;
    const lmi_outline *o = p->o;
    const lmi_page_number *macs = lmi_page_number_of(p, LMI_FIGURE_MACS);
    int32_t holder = o->held_total ? holder_of_activations(o) : 0;
    finding *x = begin(f, 5 + share, WARN);
    put_share_of_peak(p, LAM_HELD_ACTIVATION);
    if (holder > 0) {
        lmi_put(&p->out, "; ");
        lmi_page_link(p, holder);
        lmi_put(&p->out, " alone holds ");
        lmi_put_iec(&p->out, (double)o->held_total[holder][LAM_HELD_ACTIVATION]);
    }
    lmi_putc(&p->out, '.');
    if (o->peak_place >= 0) {
        lmi_putf(&p->out, " The peak is reached in the %s of ",
                 o->memory->peak_phase == LAM_FORWARD ? "forward" : "backward");
        lmi_page_link(p, o->peak_place);
        lmi_putc(&p->out, '.');
    }
    go_on(f, x);
    if (holder > 0 && o->backward && macs && o->at[holder].n_children) {
        lmi_put(&p->out, "Checkpointing ");
        lmi_page_name(p, o->at[holder].name, LMI_PAGE_CELL);
        lmi_put(&p->out, " would free at most that and cost its forward again: ");
        lmi_put_shown_of(&p->out, o, &macs->of, holder);
        lmi_put(&p->out, " MACs.");
    } else
        lmi_put(&p->out, "A smaller batch or a smaller input makes it smaller.");
    end(f, x);
}

static void find_peak(findings *f) {
    const lam_memory_totals *t = f->p->o->memory;
    int most = 0;
    if (!t || t->peak <= 0) return;
    for (int h = 1; h < LAM_N_HELD; h++)
        if (t->held[h] > t->held[most]) most = h;
    double share = (double)t->held[most] / (double)t->peak;
    if (most == LAM_HELD_ACTIVATION) {
        find_activations(f, share);
        return;
    }
    finding *x = begin(f, 4 + share, INFO);
    put_share_of_peak(f->p, (lam_held)most);
    lmi_putc(&f->p->out, '.');
    go_on(f, x);
    if (most == LAM_HELD_PARAMETER)
        lmi_put(&f->p->out, "A smaller batch will not help much; a smaller type (bfloat16) halves it.");
    end(f, x);
}

/* -- time ------------------------------------------------------------------------------------------------ */

static void find_busy(findings *f, const lam_spread *time) {
    lmi_page *p = f->p;
    finding *x = begin(f, 4.5, INFO);
    lmi_put(&p->out, "<b>The machine was busy:</b> the time of a run varies by ");
    lmi_put_ns(&p->out, (double)time->deviation);
    lmi_put(&p->out, " around ");
    lmi_put_ns(&p->out, (double)time->median);
    lmi_put(&p->out, ", so the times of single layers tell little.");
    go_on(f, x);
    lmi_put(&p->out, "Measure again when nothing else runs, or with more runs.");
    end(f, x);
}

static void find_overhead(findings *f) {
    lmi_page *p = f->p;
    const lmi_outline *o = p->o;
    const lam_spread *time = &o->time[LAM_TIME_FORWARD];
    double sum = 0, slow = 0;
    int64_t slowest = 0;
    int32_t n = 0, worst = -1;
    if (!o->timed || !o->own[LMI_OWN_TIME]) return;
    if ((double)time->deviation > BUSY_TIMES * (double)time->median) {
        find_busy(f, time);
        return;
    }
    for (int32_t i = 0; i < o->n; i++) {
        lam_speed s;
        if (o->own[LMI_OWN_TIME][i] > 0) sum += (double)o->own[LMI_OWN_TIME][i];
        if (!lmi_place_speed_of(o, i, &o->roof, &s) || s.bound != LAM_BOUND_NEITHER) continue;
        slow += (double)s.ns;
        n++;
        if (s.ns > slowest) slowest = s.ns, worst = i;
    }
    if (worst < 0 || slow <= MUCH_OVERHEAD * sum) return;
    finding *x = begin(f, 4.5 + slow / sum, WARN);
    lmi_put(&p->out, "<b>");
    lmi_put_share(&p->out, slow, sum);
    lmi_putf(&p->out,
             " of the forward's time is overhead:</b> %d layer%s less than a tenth of what this machine "
             "can compute or move; most of it in ",
             (int)n, n == 1 ? " reaches" : "s reach");
    lmi_page_link(p, worst);
    lmi_put(&p->out, " (");
    lmi_put_ns(&p->out, (double)slowest);
    lmi_put(&p->out, ", ");
    lmi_put_share(&p->out, (double)slowest, sum);
    lmi_put(&p->out, ").");
    go_on(f, x);
    lmi_put(&p->out, "Fuse small operators (torch.compile), use a larger batch, or fewer and wider layers.");
    end(f, x);
}

/* -- where parameters and work are ----------------------------------------------------------------------- */

static void find_heavy_module(findings *f) {
    lmi_page *p = f->p;
    const lmi_outline *o = p->o;
    const lmi_page_number *params = lmi_page_number_of(p, LMI_FIGURE_PARAMS);
    const lmi_page_number *macs = lmi_page_number_of(p, LMI_FIGURE_MACS);
    double whole = params ? (double)lmi_shown_total(o, &params->of, 0) : 0, most = MUCH_OF_ONE * whole;
    int32_t heavy = -1;
    for (int32_t i = 1; params && i < o->n; i++) {
        double v = (double)lmi_shown_total(o, &params->of, i);
        if (o->at[i].n_children == 0 && v > most) most = v, heavy = i;
    }
    if (heavy < 0) return;
    finding *x = begin(f, 3, INFO);
    lmi_put(&p->out, "<b>");
    lmi_page_link(p, heavy);
    lmi_put(&p->out, " holds ");
    lmi_put_share(&p->out, most, whole);
    lmi_put(&p->out, " of the parameters</b>, ");
    lmi_put_si(&p->out, most);
    if (macs && lmi_shown_state(o, &macs->of, 0) == LAM_EXACT) {
        lmi_put(&p->out, ", and does ");
        lmi_put_share(&p->out, (double)lmi_shown_total(o, &macs->of, heavy),
                      (double)lmi_shown_total(o, &macs->of, 0));
        lmi_put(&p->out, " of the MACs");
    }
    lmi_putc(&p->out, '.');
    go_on(f, x);
    lmi_put(&p->out, o->at[heavy].family == LMI_EMBEDDING ? "Tie it to the output layer, or make it narrower."
                                                          : "Quantising this one layer saves most.");
    end(f, x);
}

static void find_equal_blocks(findings *f) {
    lmi_page *p = f->p;
    const lmi_outline *o = p->o;
    const lmi_page_number *macs = lmi_page_number_of(p, LMI_FIGURE_MACS);
    double whole = macs ? (double)lmi_shown_total(o, &macs->of, 0) : 0, most = MUCH_OF_ONE * whole;
    int32_t first = -1;
    for (int32_t i = 1; macs && i < o->n; i++) {
        double v = (double)lmi_shown_total(o, &macs->of, i) * o->at[i].n_run;
        if (o->at[i].n_run > 2 && v > most) most = v, first = i;
    }
    if (first < 0) return;
    finding *x = begin(f, 1, INFO);
    lmi_putf(&p->out, "<b>%d equal blocks are ", (int)o->at[first].n_run);
    lmi_put_share(&p->out, most, whole);
    lmi_put(&p->out, " of the MACs</b>: ");
    lmi_page_link(p, o->at[first].parent);
    lmi_putf(&p->out, " has %d × ", (int)o->at[first].n_run);
    lmi_page_name(p, o->at[first].type, LMI_PAGE_CELL);
    lmi_put(&p->out, ", ");
    lmi_put_shown_of(&p->out, o, &macs->of, first);
    lmi_put(&p->out, " each.");
    go_on(f, x);
    lmi_put(&p->out, "What helps one of them helps all: look at one.");
    end(f, x);
}

/* -- a difference ---------------------------------------------------------------------------------------- */

static void find_changes(findings *f) {
    finding *x = begin(f, 9, INFO);
    lmi_page_changes_say(f->p);
    go_on(f, x);
    lmi_put(&f->p->out, "Rows carry the same signs: + added, − removed, ~ changed, &gt; renamed.");
    end(f, x);
}

static void find_unlike(findings *f) {
    if (lmi_page_is_alike(f->p->o)) return;
    finding *x = begin(f, 9.5, WARN);
    lmi_page_unlike_say(f->p);
    go_on(f, x);
    lmi_put(&f->p->out, "Count both by one convention.");
    end(f, x);
}

/* -- all of them ----------------------------------------------------------------------------------------- */

static void put_finding(lmi_buf *b, const char *noted, const finding *x) {
    static const char *const class[] = {"bad", "warn", "info", "ok"};
    static const char *const mark[] = {"✕", "!", "i", "✓"};
    static const char *const word[] = {"problem", "finding", "note", "fine"};
    lmi_putf(b,
             "<li class=\"%s\"><span class=\"ic\" aria-hidden=\"true\">%s</span><div><span class=\"vh\">%s: "
             "</span>",
             class[x->sign], mark[x->sign], word[x->sign]);
    lmi_putn(b, noted + x->what, x->next - x->what);
    lmi_put(b, "</div>");
    if (x->end > x->next) {
        lmi_put(b, "<div class=\"nx\">→ ");
        lmi_putn(b, noted + x->next, x->end - x->next);
        lmi_put(b, "</div>");
    }
    lmi_put(b, "</li>");
}

/* The gravest finding that is not written yet; of equal ranks the first in the order of the rules. */
static finding *gravest(findings *f) {
    finding *best = NULL;
    for (int32_t i = 0; i < f->n; i++)
        if (f->at[i].rank >= 0 && (!best || f->at[i].rank > best->rank)) best = &f->at[i];
    return best;
}

void lmi_page_findings(lmi_page *p) {
    static void (*const of_one[NOTED + 1])(findings *) = {
        find_bad_values, find_unused,       find_no_gradient,  find_peak,
        find_overhead,   find_heavy_module, find_equal_blocks, find_no_bad_values,
    };
    static void (*const of_a_difference[NOTED + 1])(findings *) = {
        find_bad_values, find_unlike, find_changes, find_unused, find_no_gradient, find_no_bad_values,
    };
    void (*const *rules)(findings *) = p->o->was ? of_a_difference : of_one;
    findings f = {.p = p};
    lmi_buf page = p->out;
    lmi_buf_init(&p->out);
    for (int i = 0; rules[i]; i++) rules[i](&f);
    lmi_buf noted = p->out;
    p->out = page;
    if (f.n && !p->out.bad && !noted.bad) {
        lmi_put(&p->out, "<ul class=\"find\">");
        for (int i = 0; i < SHOWN && i < f.n; i++) {
            finding *x = gravest(&f);
            put_finding(&p->out, noted.s, x);
            x->rank = -1;
        }
        lmi_put(&p->out, "</ul>\n");
    }
    lmi_buf_used(&noted, &p->out);
}
