/* SPDX-License-Identifier: Apache-2.0
 *
 * How totals grow with the sizes that a model's file leaves open: the model is counted at three values of
 * each, and a total whose counts lie on one line is linear. */
#include "analyse/cost/work.h"

typedef struct point {
    int64_t size;
    lam_count total[LAM_N_METRICS];
} point;

const char *lam_grows_name(lam_grows how) {
    static const char *const names[] = {"unknown", "linear", "otherwise"};
    return (unsigned)how < sizeof names / sizeof *names ? names[how] : "unknown";
}

/* The line through three points whose sizes differ; false: there is none in whole numbers of 64 bits. */
static bool line_of(const point p[3], int m, int64_t *each, int64_t *fixed) {
    int64_t rise[2], run[2], left, right, up;
    for (int i = 0; i < 2; i++)
        if (lmi_sub_over(p[i + 1].total[m].n, p[0].total[m].n, &rise[i]) ||
            lmi_sub_over(p[i + 1].size, p[0].size, &run[i]))
            return false;
    if (lmi_mul_over(rise[0], run[1], &left) || lmi_mul_over(rise[1], run[0], &right)) return false;
    if (left != right || rise[0] % run[0] != 0) return false;
    *each = rise[0] / run[0];
    return !lmi_mul_over(*each, p[0].size, &up) && !lmi_sub_over(p[0].total[m].n, up, fixed);
}

static void find(const point p[3], lam_growth *g) {
    for (int m = 0; m < LAM_N_METRICS; m++) {
        bool exact = true;
        for (int i = 0; i < 3; i++)
            exact = exact && p[i].total[m].state == LAM_EXACT && p[i].total[m].over == 0;
        if (!exact) continue;
        g->metric[m].how = LAM_GROWS_LINEAR;
        if (line_of(p, m, &g->metric[m].each, &g->metric[m].fixed)) continue;
        g->metric[m].how = LAM_GROWS_OTHERWISE;
        g->metric[m].each = g->metric[m].fixed = 0;
    }
}

static lam_status count(point *p, const lam_model *m, const lam_cost_options *o, lam_error *e) {
    lam_costs *c;
    lam_cost_options totals = *o;
    for (int k = 0; k < LAM_N_METRICS; k++) p->total[k] = lmi_unknown();
    if (!m) return LAM_OK;
    totals.totals_only = true;
    totals.ask = NULL; /* the caller's functions are for the model that the caller has */
    LAM_TRY(lam_costs_new(&c, m, &totals, e));
    for (int k = 0; k < LAM_N_METRICS; k++) p->total[k] = lam_costs_total(c, (lam_metric)k);
    lam_costs_free(c);
    return LAM_OK;
}

lam_status lmi_find_growth(lam_costs *c, const lam_cost_options *o, lam_error *e) {
    const size_t n = c->model->open_sizes.n;
    bool any = false;
    for (size_t i = 0; i < n; i++) any = any || lmi_open_size_at(c->model, i)->n_others > 0;
    if (!any) return LAM_OK;
    c->growth = lmi_alloc(&c->arena, n, sizeof *c->growth);
    if (!c->growth) return lmi_nomem(e);
    for (size_t i = 0; i < n; i++) {
        const lmi_open_size *s = lmi_open_size_at(c->model, i);
        lam_growth *g = &c->growth[c->n_growth++];
        point p[LMI_OTHER_SIZES] = {{.size = s->value}};
        const int32_t own = s->value >= 0;
        *g = (lam_growth){.size = s->name, .value = s->value};
        if (o->custom || s->n_others + own < LMI_OTHER_SIZES) continue;
        memcpy(p->total, c->total, sizeof p->total);
        for (int32_t k = 0; k < s->n_others; k++) {
            p[k + own].size = s->other[k];
            LAM_TRY(count(&p[k + own], s->at[k], o, e));
        }
        find(p, g);
    }
    return LAM_OK;
}

const lam_growth *lam_costs_growth(const lam_costs *c, int32_t i) {
    return i >= 0 && i < c->n_growth ? &c->growth[i] : NULL;
}
