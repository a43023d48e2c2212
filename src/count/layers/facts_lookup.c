/* SPDX-License-Identifier: Apache-2.0
 * facts_lookup: embeddings. Facts tell when the work depends on values of indices or rows, which can't be
 * counted. */
#include "count/layers/layers.h"

static bool given(const lmi_slots *s, lmi_slot_id id) {
    const lam_value *v = s->at[id].value;
    return v && v->type != LAM_NONE;
}

static bool bag_is(const lmi_slots *s, const char *mode) {
    const lam_value *v = s->at[LMI_S_bag_mode].value;
    return v && v->type == LAM_TEXT && !strcmp(v->text, mode);
}

void lmi_facts_lookup(const lam_model *m, int32_t event, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    int64_t row = lmi_value_int(s->at[LMI_S_embed].value, -1);
    if (row < 0) row = lmi_axis(s->at[LMI_S_w].shape, 1);
    lmi_fact_set(f, LMI_FACT_row, row >= 0 ? row : lmi_axis(lmi_output(m, event), -1));
    lmi_fact_set(f, LMI_FACT_renorm, given(s, LMI_S_max_norm));
    if (k != LMI_K_embedding_bag) return;
    lmi_fact_set(f, LMI_FACT_skips, given(s, LMI_S_padding_idx));
    lmi_fact_set(f, LMI_FACT_weighted, lmi_filled(s, LMI_S_per_sample));
    /* The divisions are unknown if the mode is. */
    if (bag_is(s, "mean") || bag_is(s, "sum") || bag_is(s, "max"))
        lmi_fact_set(f, LMI_FACT_divides, bag_is(s, "mean"));
}
