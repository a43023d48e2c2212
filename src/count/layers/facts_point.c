/* SPDX-License-Identifier: Apache-2.0
 * facts_point: activations, softmax and dropout. */
#include "count/layers/layers.h"

/* Dropout2d draws one factor for each channel of each sample. Dropout1d and Dropout3d treat an input with one
 * axis less as unbatched; Dropout2d does not, its axis 1 is the channels in this case too. */
static int64_t noise(lmi_kind k, const lam_shape x, const lmi_facts *f) {
    if (k != LMI_K_dropout_nd && k != LMI_K_alpha_dropout_nd) return lmi_numel(x);
    int64_t rank = lmi_fact_get(f, LMI_FACT_rank);
    bool unbatched = (rank == 1 && x.ndim == 2) || (rank == 3 && x.ndim == 4);
    return unbatched ? lmi_axis(x, 0) : lmi_times(lmi_axis(x, 0), lmi_axis(x, 1));
}

static void dropout(const lam_model *m, int32_t event, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    double p = lmi_value_number(s->at[LMI_S_p].value, -1.0);
    lmi_fact_set(f, LMI_FACT_drops, p < 0 ? -1 : p > 0);
    lmi_fact_set(f, LMI_FACT_drops_all, p < 0 ? -1 : p >= 1);
    lmi_fact_set(f, LMI_FACT_noise, noise(k, lmi_input(m, event, s), f));
}

/* Without a given axis, torch's softmax uses axis 0 for inputs of 0, 1 and 3 axes, else axis 1. */
static void softmax(const lmi_slots *s, lam_shape x, lmi_facts *f) {
    const lam_value *dim = s->at[LMI_S_dim].value;
    bool given = dim && dim->type != LAM_NONE;
    int64_t axis = given ? lmi_value_int(dim, INT32_MAX) : x.ndim == 0 || x.ndim == 1 || x.ndim == 3 ? 0 : 1;
    int64_t per_row = x.ndim == 0 ? 1 : axis < -x.ndim || axis >= x.ndim ? -1 : lmi_axis(x, (int32_t)axis);
    lmi_fact_set(f, LMI_FACT_per_row, per_row);
    lmi_fact_set(f, LMI_FACT_rows, per_row > 0 && lmi_numel(x) >= 0 ? lmi_numel(x) / per_row : -1);
}

void lmi_facts_point(const lam_model *m, int32_t event, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    const lam_value *approximate = s->at[LMI_S_approximate].value;
    switch (k) {
    case LMI_K_dropout:
    case LMI_K_dropout_nd:
    case LMI_K_alpha_dropout:
    case LMI_K_alpha_dropout_nd: dropout(m, event, k, s, f); break;
    case LMI_K_softmax:
    case LMI_K_softmin:
    case LMI_K_log_softmax: softmax(s, lmi_input(m, event, s), f); break;
    case LMI_K_prelu:
        lmi_fact_set(f, LMI_FACT_slopes,
                     lmi_filled(s, LMI_S_w) ? lmi_numel(s->at[LMI_S_w].shape)
                                            : lmi_value_int(s->at[LMI_S_slopes].value, -1));
        break;
    case LMI_K_gelu:
        lmi_fact_set(f, LMI_FACT_by_tanh,
                     approximate && approximate->type == LAM_TEXT && !strcmp(approximate->text, "tanh"));
        break;
    default: break;
    }
}
