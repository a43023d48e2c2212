/* SPDX-License-Identifier: Apache-2.0
 * facts_op_ctc: connectionist temporal classification, by the length and the number of labels of each
 * sequence. */
#include "count/ops/facts_op.h"

static const lam_value *lengths(const lmi_slots *s, lmi_slot_id id) {
    const lam_value *v = s->at[id].value;
    return v && v->type == LAM_INTS ? v : NULL;
}

static bool take(int64_t *sum, int64_t n) { return n >= 0 && !lmi_add_over(*sum, n, sum); }

void lmi_op_ctc(const lam_model *m, const lam_op *op, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    (void)m;
    (void)op;
    const lam_value *steps = lengths(s, LMI_S_used), *labels = lengths(s, LMI_S_labels);
    int64_t advances = 0, moves = 0, places = 0, labelled = 0;
    bool zeroed = false;
    if (k == LMI_K_ctc_loss_backward && lmi_op_bool(s, LMI_S_zeroed, &zeroed))
        lmi_fact_set(f, LMI_FACT_zeroed, zeroed);
    if (k == LMI_K_ctc_loss_backward && !s->at[LMI_S_zeroed].present) lmi_fact_set(f, LMI_FACT_zeroed, 0);
    if (!steps || !labels || steps->n != labels->n) return;
    for (int32_t i = 0; i < steps->n; i++) {
        int64_t on = steps->ints[i] - 1, both = lmi_times(2, labels->ints[i]);
        if (!take(&advances, on) || !take(&moves, lmi_times(on, both)) || !take(&places, both)) return;
        if (!take(&places, 1)) return;
        labelled += both > 0;
    }
    lmi_fact_set(f, LMI_FACT_seqs, steps->n);
    lmi_fact_set(f, LMI_FACT_labelled, labelled);
    lmi_fact_set(f, LMI_FACT_advances, advances);
    lmi_fact_set(f, LMI_FACT_moves, moves);
    lmi_fact_set(f, LMI_FACT_places, places);
}
