/* SPDX-License-Identifier: Apache-2.0
 * facts_op_packed: operators with a weight in an object that is no tensor. The sizes are those of the packed
 * weights of the calling layer, if that calls no other layer: else it is unknown whose weight it is. */
#include "count/ops/facts_op.h"

void lmi_op_packed(const lam_model *m, const lam_op *op, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    const lam_event *call = lam_model_event(m, op->call);
    lam_shape x = lmi_op_in(op, s);
    if (k == LMI_K_rnn_packed) /* (steps, batch, features), or the steps of all sequences in one axis */
        lmi_fact_set(f, LMI_FACT_steps,
                     x.ndim == 3   ? lmi_times(x.sizes[0], x.sizes[1])
                     : x.ndim == 2 ? x.sizes[0]
                                   : -1);
    lmi_fact_set(f, LMI_FACT_out_channels, lmi_axis(lmi_op_out(op, -1), 1));
    if (!call || call->n_children_called > 0) return;
    lmi_packed packed = lmi_packed_under(m, call->place);
    lmi_fact_set(f, LMI_FACT_packed, packed.all);
    lmi_fact_set(f, LMI_FACT_packed_weights, packed.matrices);
    lmi_fact_set(f, LMI_FACT_packed_bytes, packed.bytes);
}
