/* SPDX-License-Identifier: Apache-2.0
 * facts_pair: similarity and distance of two inputs that are broadcast against each other. */
#include "count/layers/layers.h"

#include <math.h>

/* The broadcast size of two shapes along an axis that is counted from the end; -1: they don't fit. */
static int64_t broadcast(lam_shape a, lam_shape b, int32_t from_end) {
    int64_t x = from_end <= a.ndim ? a.sizes[a.ndim - from_end] : 1;
    int64_t y = from_end <= b.ndim ? b.sizes[b.ndim - from_end] : 1;
    return x == 1 ? y : y == 1 || y == x ? x : -1;
}

static int64_t reduced_axis(lmi_kind k, const lmi_slots *s, int32_t ndim) {
    if (k == LMI_K_pairwise_distance) return 1; /* the last axis */
    int64_t dim = lmi_value_int(s->at[LMI_S_dim].value, 1);
    if (dim < -ndim || dim >= ndim) return -1;
    return dim < 0 ? -dim : ndim - dim;
}

void lmi_facts_pair(const lam_model *m, int32_t event, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    lam_shape a = s->at[LMI_S_x].shape, b = s->at[LMI_S_x2].shape;
    const lam_value *power = s->at[LMI_S_norm].value;
    double p = power && power->type == LAM_FLOAT ? power->f : (double)lmi_value_int(power, 0);
    if (k == LMI_K_pairwise_distance) lmi_fact_set(f, LMI_FACT_finite, p != 0 && isfinite(p));
    if (!s->at[LMI_S_x].present || !s->at[LMI_S_x2].present || a.ndim < 0 || b.ndim < 0) return;
    int64_t from_end = reduced_axis(k, s, a.ndim > b.ndim ? a.ndim : b.ndim);
    int64_t n = from_end > 0 ? broadcast(a, b, (int32_t)from_end) : -1;
    /* Unknown without elements along the axis: the formulas' n - 1 additions would be -1. */
    lmi_fact_set(f, LMI_FACT_per_row, n > 0 ? n : -1);
    lmi_fact_set(f, LMI_FACT_rows, lmi_numel(lmi_output(m, event)));
}
