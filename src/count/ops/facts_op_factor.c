/* SPDX-License-Identifier: Apache-2.0
 * facts_op_factor: factorisations of matrices, and systems solved with them. */
#include "count/ops/facts_op.h"

/* The value of a flag, 1 or 0; `otherwise` if it was left out; -1: unknown. */
static int64_t flag(const lmi_slots *s, lmi_slot_id id, bool otherwise) {
    bool known = otherwise;
    return lmi_op_bool(s, id, &known) ? known : s->at[id].present ? -1 : otherwise;
}

/* Columns of the orthogonal matrix: the only result of reflections, the first one of a qr. It is empty in
 * mode "r". */
static int64_t formed(const lam_op *op) {
    lam_shape q = lmi_op_out(op, 0);
    int64_t n = lmi_numel(q);
    return n <= 0 ? n : lmi_axis(q, -1);
}

/* Reflections from the left work on columns, from the right on rows. */
static void reflected(const lmi_slots *s, lmi_facts *f) {
    lam_shape x = s->at[LMI_S_x].shape, tau = s->at[LMI_S_x2].shape;
    int64_t left = flag(s, LMI_S_left, true), many = lmi_axis(tau, -1);
    if (x.ndim < 2 || left < 0 || many < 0) return;
    int64_t length = lmi_axis(x, left ? -2 : -1);
    lmi_fact_set(f, LMI_FACT_mats, lmi_numel(x) > 0 ? lmi_axes(x, 0, -2) : 0);
    lmi_fact_set(f, LMI_FACT_length, length);
    lmi_fact_set(f, LMI_FACT_columns_of, lmi_axis(x, left ? -1 : -2));
    lmi_fact_set(f, LMI_FACT_reflectors, many < length ? many : length > 0 ? length - 1 : 0);
}

/* A matrix and its transpose have the same singular values, so columns are the shorter side. */
static void diagonals(int64_t tall, int64_t few, lmi_facts *f) {
    lmi_fact_set(f, LMI_FACT_tall, tall);
    lmi_fact_set(f, LMI_FACT_steps_of_qr, tall > few ? few : few > 0 ? few - 1 : 0);
    lmi_fact_set(f, LMI_FACT_rows_of_qr, few > 2 ? few - 2 : 0);
}

/* The right sides of a least squares problem: matrices, or vectors if there is one axis less. */
static void right_sides(const lmi_slots *s, int32_t ndim, lmi_facts *f) {
    lam_shape b = s->at[LMI_S_x2].shape;
    lmi_fact_set(f, LMI_FACT_columns_of, b.ndim == ndim ? lmi_axis(b, -1) : b.ndim == ndim - 1 ? 1 : -1);
}

void lmi_op_factor(const lam_model *m, const lam_op *op, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    (void)m;
    lam_shape w = s->at[LMI_S_w].shape;
    int64_t high = lmi_axis(w, -2), wide = lmi_axis(w, -1), few = high < wide ? high : wide;
    if (k == LMI_K_reflected) reflected(s, f);
    if (k == LMI_K_reflected || w.ndim < 2 || few < 0) return;
    lmi_fact_set(f, LMI_FACT_mats, few > 0 ? lmi_axes(w, 0, -2) : 0);
    lmi_fact_set(f, LMI_FACT_high, high);
    lmi_fact_set(f, LMI_FACT_wide, wide);
    lmi_fact_set(f, LMI_FACT_few, few);
    lmi_fact_set(f, LMI_FACT_steps_of_qr, high > wide ? wide : few > 0 ? high - 1 : 0);
    int64_t tall = high > wide ? high : wide;
    if (k == LMI_K_singular_values || k == LMI_K_eigenvalues) diagonals(tall, few, f);
    if (k == LMI_K_least_squares) right_sides(s, w.ndim, f);
    lmi_fact_set(f, LMI_FACT_pivots, flag(s, LMI_S_pivots, true));
    lmi_fact_set(f, LMI_FACT_unit, flag(s, LMI_S_unit, false));
    if (k == LMI_K_qr || k == LMI_K_reflections) lmi_fact_set(f, LMI_FACT_formed, formed(op));
    int64_t reflectors = k == LMI_K_reflections ? lmi_axis(s->at[LMI_S_x2].shape, -1) : few;
    lmi_fact_set(f, LMI_FACT_reflectors, reflectors < high ? reflectors : high > 0 ? high - 1 : 0);
}
