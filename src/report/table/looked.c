/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells for the health of values, if they were checked. */
#include "report/table/looked.h"

static int32_t call_of(const lmi_line *l) {
    return l->event && l->job->health ? (int32_t)(l->event - lam_model_event(l->job->m, 0)) : -1;
}

static void put_state(const lmi_line *l, lam_phase phase, lmi_buf *out) {
    int32_t call = call_of(l);
    if (call >= 0) lmi_put(out, lam_health_name(lam_health_of(l->job->health, call, phase)));
}

void lmi_cell_health(const lmi_line *l, lmi_buf *out) { put_state(l, LAM_FORWARD, out); }
void lmi_cell_backward_health(const lmi_line *l, lmi_buf *out) { put_state(l, LAM_BACKWARD, out); }

static const lam_stats *stats_of(const lmi_line *l) {
    int32_t call = call_of(l);
    return call >= 0 && l->event->n_out > 0 ? lam_model_stats(l->job->m, call, 0) : NULL;
}

static void put_real(lmi_buf *out, const lam_stats *s, double v) {
    if (s && v - v == 0) lmi_put_nine(out, v);
}

void lmi_cell_least(const lmi_line *l, lmi_buf *out) {
    const lam_stats *s = stats_of(l);
    put_real(out, s, s ? s->least : 0);
}

void lmi_cell_greatest(const lmi_line *l, lmi_buf *out) {
    const lam_stats *s = stats_of(l);
    put_real(out, s, s ? s->greatest : 0);
}

void lmi_cell_mean(const lmi_line *l, lmi_buf *out) {
    const lam_stats *s = stats_of(l);
    put_real(out, s, s ? s->mean : 0);
}

void lmi_cell_headroom(const lmi_line *l, lmi_buf *out) {
    const lam_stats *s = stats_of(l);
    put_real(out, s, s ? s->headroom : 0);
}

void lmi_cell_zeros(const lmi_line *l, lmi_buf *out) {
    const lam_stats *s = stats_of(l);
    if (s) lmi_putf(out, "%lld", (long long)s->zeros);
}

void lmi_cell_subnormal(const lmi_line *l, lmi_buf *out) {
    const lam_stats *s = stats_of(l);
    if (s) lmi_putf(out, "%lld", (long long)s->subnormal);
}
