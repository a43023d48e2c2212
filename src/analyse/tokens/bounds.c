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
        const double most = seconds(lmi_count_add(s->weights_most, s->cache_read), 1, best->bytes);
        const int64_t ns = time_of(c, step->event);
        to->calls++;
        to->compute = compute < 0 || to->compute < 0 ? -1 : to->compute + compute;
        to->memory = memory < 0 || to->memory < 0 ? -1 : to->memory + memory;
        to->memory_most = most < 0 || to->memory_most < 0 ? -1 : to->memory_most + most;
        to->least = compute < 0 || memory < 0 || to->least < 0
                        ? -1
                        : to->least + (compute > memory ? compute : memory);
        to->ns = ns < 0 || to->ns < 0 ? -1 : to->ns + ns;
    }
    if (to->calls == 0) to->compute = to->memory = to->memory_most = to->least = -1;
    if (to->calls == 0 || to->ns == 0) to->ns = -1;
    if (to->least >= 0 && (to->compute > to->memory) == (to->compute > to->memory_most))
        to->bound = to->compute > to->memory ? LAM_BOUND_COMPUTE : LAM_BOUND_MEMORY;
    if (to->ns > 0 && to->compute >= 0) to->mfu = to->compute * 1e9 / (double)to->ns;
    if (to->ns > 0 && to->memory >= 0) to->mbu = to->memory * 1e9 / (double)to->ns;
    const lam_token_cost *s = &t->stage[which].cost;
    to->exact_flops = work_of(&s->macs).state == LAM_EXACT;
    to->exact_bytes = s->weights.state == LAM_EXACT && s->cache_read.state == LAM_EXACT;
}

/* Seconds by which a step of a batch computes longer than it reads; each sequence has its own products and
 * cache, and `apart`: other experts than the rest. */
static double longer(const lam_token_reads *r, double batch, double own, bool apart, const lam_peak *best) {
    double dealt = (double)r->routed;
    if (apart) dealt = batch * dealt < (double)r->all ? batch * dealt : (double)r->all;
    return batch * own - ((double)(apart ? r->fixed_most : r->fixed) + dealt) / best->bytes;
}

/* The least batch of which a step computes longer than it reads. The bytes that it reads grow slower and
 * slower, so from there on it does so at every batch. */
static int64_t from_batch(const lam_token_reads *r, double own, bool apart, const lam_peak *best) {
    int64_t low = 0, high = INT64_C(1) << 50; /* low reads longer, high does not */
    if (own <= 0 || longer(r, (double)high, own, apart, best) < 0) return INT64_MAX;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (longer(r, (double)middle, own, apart, best) < 0)
            low = middle;
        else
            high = middle;
    }
    return high;
}

static void find_critical(const lam_tokens *t, const lam_peak *best, lam_token_bound *out) {
    const lam_token_step *last = t->n_steps ? &t->steps[t->n_steps - 1] : NULL;
    const bool step = last && last->stage == LAM_DECODE && last->batch > 0;
    out->critical = out->critical_most = out->keys = -1;
    if (!step)
        out->why = "no decode step ran";
    else if (work_of(&last->cost.macs).state != LAM_EXACT)
        out->why = "what a step multiplies is not known";
    else if (last->cost.cache_read.state != LAM_EXACT)
        out->why = "what a step reads of a cache is not known";
    else
        out->why = t->reads.why;
    if (out->why) return;
    const double compute = seconds(work_of(&last->cost.macs), 2, best->flops);
    const double own = (compute - seconds(last->cost.cache_read, 1, best->bytes)) / (double)last->batch;
    out->keys = last->keys;
    out->critical = from_batch(&t->reads, own, false, best);
    out->critical_most = from_batch(&t->reads, own, true, best);
}

void lam_tokens_bound(const lam_tokens *t, const lam_costs *c, const lam_named_peak *peak,
                      lam_token_bound *out) {
    *out = (lam_token_bound){.peak = *peak};
    for (int s = 0; s < LAM_N_STAGES; s++) bound_stage(t, c, (lam_stage)s, &peak->best, &out->stage[s]);
    find_critical(t, &peak->best, out);
}
