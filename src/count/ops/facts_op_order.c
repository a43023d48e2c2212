/* SPDX-License-Identifier: Apache-2.0
 * facts_op_order: sorting and searching, counted as the comparisons of binary insertion, and Fourier
 * transforms. */
#include "count/ops/facts_op.h"

#include <math.h>

/* log2(n), rounded up: the comparisons that find one of n positions. */
static int64_t halvings(int64_t n) {
    int64_t count = 0;
    for (uint64_t reach = 1; reach < (uint64_t)n; reach *= 2) count++;
    return count;
}

/* The i-th element is inserted into the i - 1 before it by binary search: the sum of halvings over 1 to n. */
static int64_t inserted(int64_t n) {
    int64_t k = halvings(n), all = lmi_times(n, k);
    return n < 1 ? 0 : all < 0 ? -1 : all - (int64_t)((UINT64_C(1) << k) - 1);
}

/* Comparisons that keep the k first in order of n elements: each further element is inserted into k, or left
 * out. */
static int64_t kept(int64_t n, int64_t k) {
    if (n - 1 <= k) return inserted(n);
    return lmi_plus(inserted(k + 1), lmi_times(n - k - 1, halvings(k + 1)));
}

/* The size of the axis that an argument names; of the last one if there is no such argument. */
static int64_t axis_of(const lam_op *op, const lmi_slots *s, lam_shape x, lmi_kind k) {
    const lam_value *v = k == LMI_K_sort ? NULL : s->at[LMI_S_dim].value;
    for (int32_t i = 0; k == LMI_K_sort && i < op->sig->n_in && !v; i++)
        if (!op->sig->in[i].is_tensor && op->sig->in[i].value.type == LAM_INT) v = &op->sig->in[i].value;
    if (x.ndim == 0) return 1;
    if (v && v->type != LAM_INT) return -1;
    int64_t axis = v ? v->i : -1;
    return axis >= -x.ndim && axis < x.ndim ? lmi_axis(x, (int32_t)axis) : -1;
}

static void ordered(const lam_op *op, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    lam_shape x = lmi_op_in(op, s);
    bool chooses = k == LMI_K_choose, numbered = chooses && s->at[LMI_S_num].present;
    bool whole = k == LMI_K_sort_all || (chooses && !numbered && !s->at[LMI_S_dim].present);
    int64_t in = lmi_numel(x), n = whole ? in : axis_of(op, s, x, k);
    if (in < 0 || n < 0) return;
    int64_t rows = n > 0 ? in / n : 0;
    int64_t wanted = !chooses ? n : numbered ? lmi_value_int(s->at[LMI_S_num].value, -1) : n / 2 + n % 2;
    if (wanted < 0 || wanted > n) return;
    /* A single value is found from the nearer end. */
    if (chooses && lmi_op_last(op->sig->word) && n - wanted < wanted - 1) wanted = n - wanted + 1;
    lmi_fact_set(f, LMI_FACT_rows, rows);
    lmi_fact_set(f, LMI_FACT_compares, lmi_times(rows, kept(n, wanted)));
}

static void searched(const lmi_slots *s, lmi_facts *f) {
    lam_shape w = s->at[LMI_S_w].shape;
    int64_t n = w.ndim < 1 ? -1 : lmi_axis(w, -1);
    lmi_fact_set(f, LMI_FACT_tries, n < 0 || n == INT64_MAX ? -1 : halvings(n + 1));
}

/* n elements are put in order, then neighbours are compared. */
static int64_t in_order(int64_t n) {
    int64_t all = inserted(n);
    return n < 1 || all < 0 || lmi_add_over(all, n - 1, &all) ? (n < 1 ? 0 : -1) : all;
}

/* Elements of an argument that may be a number. */
static int64_t elements_of(const lmi_slots *s, lmi_slot_id role) {
    return lmi_op_tensor(s, role) ? lmi_op_numel(s, role) : s->at[role].present ? 1 : -1;
}

/* torch compares each with each if there are few, and sorts else. */
static void found(const lmi_slots *s, lmi_facts *f) {
    int64_t n = elements_of(s, LMI_S_x), others = elements_of(s, LMI_S_x2), all = 0;
    if (n < 0 || others < 0) return;
    const lam_value *distinct = s->at[LMI_S_distinct].value;
    if (n == 0 || (double)others < 10 * pow((double)n, 0.145)) {
        all = lmi_times(n, others);
    } else if (lmi_add_over(n, others, &all)) {
        all = -1;
    } else {
        int64_t alone = 0, either = in_order(n), other = in_order(others);
        bool once = distinct && distinct->type == LAM_BOOL && distinct->i;
        if (!once && (either < 0 || other < 0 || lmi_add_over(either, other, &alone))) return;
        all = in_order(all);
        if (all < 0 || lmi_add_over(all, alone, &all)) all = -1;
    }
    lmi_fact_set(f, LMI_FACT_compares, all);
}

/* With an axis the count is unknown: a comparison of slices stops at the first difference. */
static void looked(const lmi_slots *s, lmi_facts *f) {
    const lam_value *dim = s->at[LMI_S_dim].value;
    if (dim && dim->type != LAM_NONE) lmi_fact_set(f, LMI_FACT_each, -1);
}

/* The number of transformed elements is that of the real side; if both sides are complex, that of either. */
static void transformed(const lam_op *op, const lmi_slots *s, lmi_facts *f) {
    lam_shape x = lmi_op_in(op, s), y = lmi_op_out(op, 0);
    bool to_real = lmi_op_last(op->sig->word) == 1;
    lam_shape signal = to_real ? y : x;
    const lam_value *axes = s->at[LMI_S_dim].value;
    int64_t all = lmi_numel(signal), one = 1;
    lmi_fact_set(f, LMI_FACT_each, lmi_op_each(op->sig->word));
    lmi_fact_set(f, LMI_FACT_last, lmi_op_last(op->sig->word));
    double norm = lmi_op_number(s, LMI_S_norm, -1);
    lmi_fact_set(f, LMI_FACT_scaled, norm < 0 ? -1 : norm != 0);
    if (!axes || axes->type != LAM_INTS || all < 0) return;
    for (int32_t i = 0; i < axes->n; i++) {
        if (axes->ints[i] < -signal.ndim || axes->ints[i] >= signal.ndim) return;
        one = lmi_times(one, lmi_axis(signal, (int32_t)axes->ints[i]));
    }
    const double exact = 9007199254740992.0; /* 2^53: a double can't hold all larger whole numbers */
    double work = one > 0 ? (double)all * log2((double)one) : 0;
    lmi_fact_set(f, LMI_FACT_nlogn, one < 0 || work >= exact ? -1 : llround(work));
}

void lmi_op_order(const lam_model *m, const lam_op *op, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    (void)m;
    switch (k) {
    case LMI_K_search: searched(s, f); break;
    case LMI_K_among: found(s, f); break;
    case LMI_K_look: looked(s, f); break;
    case LMI_K_fourier: transformed(op, s, f); break;
    case LMI_K_histogram: lmi_fact_set(f, LMI_FACT_each, lmi_op_each(op->sig->word)); break;
    default: ordered(op, k, s, f); break;
    }
}
