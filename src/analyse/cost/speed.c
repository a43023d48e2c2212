/* SPDX-License-Identifier: Apache-2.0
 *
 * The speed of a row and its bound: its own work over its own time, compared with the machine's roof
 * (Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", 2009). */
#include "analyse/cost/numbers.h"

static const lam_count *work_of(const lam_cost_row *row, lam_phase phase) {
    return phase == LAM_FORWARD    ? row->metric
           : phase == LAM_BACKWARD ? row->phases->backward
                                   : row->phases->recompute;
}

static double rate(lam_count work, int64_t ns) {
    return work.state == LAM_EXACT && ns > 0 ? lmi_count_double(work) * 1e9 / (double)ns : -1;
}

/* A row that reaches less than this share of its limit spends its time on other things: calls, allocation,
 * work that is not arithmetic. */
static const double LEAST_SHARE = 0.1;

static double share_of(double speed, double peak) {
    if (peak <= 0 || speed < 0) return -1;
    return speed < peak ? speed / peak : 1; /* the median of a whole may be less than the sum of its parts' */
}

static void find_bound(const lam_peak *peak, lam_speed *s) {
    double compute = share_of(s->flops, peak->flops), memory = share_of(s->bytes, peak->bytes);
    if (compute < 0 || memory < 0) return;
    s->share = compute > memory ? compute : memory;
    s->bound = s->share < LEAST_SHARE ? LAM_BOUND_NEITHER
               : compute > memory     ? LAM_BOUND_COMPUTE
                                      : LAM_BOUND_MEMORY;
}

lam_speed lmi_speed_of(const lam_count work[LAM_N_METRICS], int64_t ns, const lam_peak *peak) {
    lam_speed s = {.flops = rate(work[LAM_FLOPS], ns),
                   .bytes = rate(lam_metric_bytes(work), ns),
                   .intensity = lam_metric_intensity(work),
                   .share = -1,
                   .ns = ns};
    if (peak) find_bound(peak, &s);
    return s;
}

/* If a device's clock was read, it gives the time of the row: the host only launches the work. */
static bool time_of(const lam_costs *c, int32_t row, lam_time *out) {
    return c->device_times ? lam_costs_device_time(c, row, out) : lam_costs_time(c, row, out);
}

static bool speed_of(const lam_count *work, int64_t ns, const lam_peak *peak, lam_speed *out) {
    lam_count bytes = lam_metric_bytes(work);
    bool any = work[LAM_FLOPS].n > 0 || work[LAM_FLOPS].over > 0 || bytes.n > 0 || bytes.over > 0;
    if (ns <= 0 || !any) return false;
    *out = lmi_speed_of(work, ns, peak);
    return true;
}

bool lam_costs_speed(const lam_costs *c, int32_t row, lam_phase phase, const lam_peak *peak, lam_speed *out) {
    lam_time t;
    if ((unsigned)phase >= LAM_N_PHASES || !time_of(c, row, &t)) return false;
    return speed_of(work_of(&c->rows[row], phase), t.self[phase], peak, out);
}

bool lam_costs_speed_inside(const lam_costs *c, int32_t row, lam_phase phase, const lam_peak *peak,
                            lam_speed *out) {
    lam_time t;
    if ((unsigned)phase >= LAM_N_PHASES || !time_of(c, row, &t)) return false;
    (void)lmi_below_need(c, NULL);
    const lam_cost_row *r = &c->rows[row];
    const lam_count *const all[] = {r->below->total, r->phases->total_backward, r->phases->total_recompute};
    return speed_of(all[phase], t.total[phase], peak, out);
}

lam_peak lam_costs_peak(const lam_costs *c, lam_peak measured) {
    lam_speed s;
    for (int32_t i = 0; i < lam_costs_n_rows(c) * LAM_N_PHASES; i++) {
        if (!lam_costs_speed(c, i / LAM_N_PHASES, (lam_phase)(i % LAM_N_PHASES), NULL, &s)) continue;
        if (measured.flops > 0 && s.flops > measured.flops) measured.flops = s.flops;
        if (measured.bytes > 0 && s.bytes > measured.bytes) measured.bytes = s.bytes;
    }
    return measured;
}

const char *lam_bound_name(lam_bound b) {
    static const char *const names[] = {"unknown", "compute", "memory", "neither"};
    return (unsigned)b < sizeof names / sizeof *names ? names[b] : names[0];
}
