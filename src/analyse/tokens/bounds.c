/* SPDX-License-Identifier: Apache-2.0
 *
 * What the peak of a device allows: the least time of each stage, what limits it, and the share of the peak
 * that a timed run reached. */
#include "analyse/tokens/tokens.h"

/* The time of a call of the model, by the device's clock if it was read: that call's own, or the median of
 * the runs that were timed apart. */
static int64_t time_of(const lam_costs *c, int32_t event) {
    const lam_event *ev = lam_model_event(c->model, event);
    const lam_times *t = lam_costs_device_times(c);
    lam_spread s;
    lam_time own;
    if (!t) t = lam_costs_times(c);
    if (!t || !ev) return -1;
    if (!c->model->timed_by) return lam_times_event(t, event, &own) ? own.total[LAM_FORWARD] : -1;
    return lam_times_place(t, ev->place, ev->ordinal, LAM_FORWARD, true, &s) ? s.median : -1;
}

static lam_count work_of(const lam_token_macs *m) {
    return m->effective.state == LAM_EXACT ? m->effective : m->executed;
}

/* Seconds that `n` takes at a speed; -1: not known. */
static double seconds(lam_count n, double times, double speed) {
    return n.state == LAM_UNKNOWN || speed <= 0 ? -1 : lmi_count_double(n) * times / speed;
}

static void bound_stage(const lam_tokens *t, const lam_costs *c, lam_stage which, const lam_peak *best,
                        lam_token_limit *to) {
    *to = (lam_token_limit){.mfu = -1, .mbu = -1, .least = 0, .ns = 0};
    for (int32_t i = 0; i < t->n_steps; i++) {
        const lam_token_step *step = &t->steps[i];
        const lam_token_cost *s = &step->cost;
        if (step->stage != which) continue;
        const double compute = seconds(work_of(&s->macs), 2, best->flops);
        const double memory = seconds(lmi_count_add(s->weights, s->cache_read), 1, best->bytes);
        const int64_t ns = time_of(c, step->event);
        to->calls++;
        to->compute = compute < 0 || to->compute < 0 ? -1 : to->compute + compute;
        to->memory = memory < 0 || to->memory < 0 ? -1 : to->memory + memory;
        to->least = compute < 0 || memory < 0 || to->least < 0
                        ? -1
                        : to->least + (compute > memory ? compute : memory);
        to->ns = ns < 0 || to->ns < 0 ? -1 : to->ns + ns;
    }
    if (to->calls == 0) to->compute = to->memory = to->least = -1;
    if (to->calls == 0 || to->ns == 0) to->ns = -1;
    if (to->least >= 0) to->bound = to->compute > to->memory ? LAM_BOUND_COMPUTE : LAM_BOUND_MEMORY;
    if (to->ns > 0 && to->compute >= 0) to->mfu = to->compute * 1e9 / (double)to->ns;
    if (to->ns > 0 && to->memory >= 0) to->mbu = to->memory * 1e9 / (double)to->ns;
    const lam_token_cost *s = &t->stage[which].cost;
    to->exact_flops = work_of(&s->macs).state == LAM_EXACT;
    to->exact_bytes = s->weights.state == LAM_EXACT && s->cache_read.state == LAM_EXACT;
}

/* Of a step whose weights are read once whatever the batch is, and whose products and cache are each
 * sequence's own: the batch from which computing takes longer than reading. */
static int64_t critical(const lam_tokens *t, const lam_peak *best, int64_t *keys) {
    const lam_token_step *last = t->n_steps ? &t->steps[t->n_steps - 1] : NULL;
    *keys = -1;
    if (!last || last->stage != LAM_DECODE || last->batch < 1 || t->params.experts > 0) return -1;
    const lam_token_cost *s = &last->cost;
    const lam_count work = work_of(&s->macs);
    if (work.state != LAM_EXACT || s->weights.state != LAM_EXACT || s->cache_read.state != LAM_EXACT)
        return -1;
    *keys = last->keys;
    const double own =
        (2 * lmi_count_double(work) / best->flops - lmi_count_double(s->cache_read) / best->bytes) /
        (double)last->batch;
    if (own <= 0) return INT64_MAX;
    const double n = lmi_count_double(s->weights) / best->bytes / own;
    if (n >= 1e15) return INT64_MAX;
    const int64_t floor = (int64_t)n;
    return (double)floor < n ? floor + 1 : floor > 0 ? floor : 1;
}

lam_status lam_tokens_bound(const lam_tokens *t, const lam_costs *c, const char *peak, lam_token_bound *out,
                            lam_error *e) {
    *out = (lam_token_bound){0};
    LAM_TRY(lam_peak_named(peak, t->dtype >= 0 ? lam_dtype_name(t->dtype) : NULL, &out->peak, e));
    for (int s = 0; s < LAM_N_STAGES; s++) bound_stage(t, c, (lam_stage)s, &out->peak.best, &out->stage[s]);
    out->critical = critical(t, &out->peak.best, &out->keys);
    return LAM_OK;
}
