/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts a page, and finds the numbers that it can be viewed by. */
#include "report/page/page.h"

bool lmi_page_is_measured(const lmi_page_number *n) {
    lam_needs needs = lmi_figures[n->of.by].needs;
    return needs == LAM_NEEDS_TIMES || needs == LAM_NEEDS_MEMORY;
}

static bool is_there(const lmi_outline *o, const lmi_picture_options *of) {
    return o->n && (lmi_shown_total(o, of, 0) > 0 || lmi_shown_state(o, of, 0) != LAM_EXACT);
}

void lmi_page_start(lmi_page *p, const lmi_outline *o, const lam_page_options *options, lam_sink to,
                    lam_error *e) {
    *p = (lmi_page){.o = o, .options = options, .to = to, .e = e};
    lmi_buf_init(&p->out);
    lmi_figure k;
    for (int i = 0; o->n && (k = lmi_figure_at(LMI_PAGED, i)) != LMI_FIGURE_NO; i++) {
        lmi_page_number n = {lmi_figures[k].name, {.width = LMI_PAGE_PICTURE, .by = k}};
        bool counted = !lmi_page_is_measured(&n); /* not measured is not 0 */
        if (!is_there(o, &n.of) && !(counted && o->was && is_there(o->was, &n.of))) continue;
        if (k == LMI_FIGURE_MACS) p->by = p->n_numbers;
        p->number[p->n_numbers++] = n;
    }
}

lam_status lmi_page_flush(lmi_page *p) { return lmi_buf_flush_much(&p->out, p->to, p->e); }

const lmi_page_number *lmi_page_number_of(const lmi_page *p, lmi_figure by) {
    for (int32_t k = 0; k < p->n_numbers; k++)
        if (p->number[k].of.by == by) return &p->number[k];
    return NULL;
}

lmi_page_number lmi_page_step(const lmi_page_number *n) {
    lmi_page_number step = *n;
    step.of.backward = true;
    return step;
}

bool lmi_page_has_step(const lmi_outline *o, const lmi_page_number *n) {
    lmi_figure back = lmi_figures[n->of.by].back;
    for (int i = 0; i < 2 && back != LMI_FIGURE_NO; i++)
        if (lmi_figures[back].part[i] != LMI_OWN_NO && o->own[lmi_figures[back].part[i]]) return true;
    return false;
}

/* That of the run which the rows show; of a model that was not called itself, the median of its runs. Of a
 * step it is the median too. */
static lam_count time_of(const lmi_outline *o, bool step) {
    const int64_t *whole = o->own[LMI_OWN_TOTAL_TIME];
    if (!o->timed) return lmi_unknown();
    if (step && o->time[LAM_TIME_WHOLE].n) return lmi_exact(o->time[LAM_TIME_WHOLE].median);
    return lmi_exact(!step && whole && whole[0] > 0 ? whole[0] : o->time[LAM_TIME_FORWARD].median);
}

lam_count lmi_page_total_of(const lmi_outline *o, const lmi_page_number *n) {
    lmi_figure back = n->of.backward ? lmi_figures[n->of.by].back : LMI_FIGURE_NO;
    if (n->of.by == LMI_FIGURE_TIME) return time_of(o, n->of.backward);
    lam_count whole = lmi_figure_whole(o, n->of.by);
    return back == LMI_FIGURE_NO ? whole : lmi_sum(whole, lmi_figure_whole(o, back));
}

lam_count lmi_page_count(const lmi_outline *o, const lmi_page_number *n, int32_t place) {
    if (place < 0) return lmi_exact(0);
    if (place == 0 && !lmi_page_is_measured(n)) return lmi_page_total_of(o, n);
    int64_t v = lmi_shown_total(o, &n->of, place);
    return (lam_count){v, v == INT64_MAX, lmi_shown_state(o, &n->of, place)};
}

lam_count lmi_page_total(const lmi_page *p, const lmi_page_number *n) { return lmi_page_total_of(p->o, n); }

void lmi_page_put_total(lmi_page *p, const lmi_page_number *n) {
    lam_count c = lmi_page_total(p, n);
    if (c.state != LAM_EXACT) lmi_put(&p->out, "<span class=\"q\">");
    if (c.state != LAM_EXACT && !c.n && !c.over) {
        lmi_put(&p->out, "?</span>");
        return;
    }
    if (c.state != LAM_EXACT) lmi_put(&p->out, "≥</span>" LMI_NARROW);
    lmi_put_shown(&p->out, n->of.by, lmi_count_double(c));
}

const char *lmi_page_phase(const lmi_page_number *n) {
    if (lmi_figures[n->of.by].back == LMI_FIGURE_NO) return "";
    return n->of.backward ? ", forward + backward" : ", forward";
}
