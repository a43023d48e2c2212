/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that are not in a traced graph, which some tools count on: those that reach no output, and
 * those inside a torch.autograd.Function, which is one node of such a graph. */
#include "analyse/flow/graph.h"

bool lmi_in_function(const lam_model *m, int32_t op) {
    for (int32_t i = op; i >= 0; i = m->ops[i].parent)
        if (m->ops[i].flags & LAM_OP_NODE && m->ops[i].phase == LAM_FORWARD &&
            !strstr(m->ops[i].sig->name, "::"))
            return true;
    return false;
}

/* An operator is needed if any operator inside it is. */
static void leave_out_dead(const lam_model *m, bool *needed, bool *out) {
    for (int32_t i = m->n_ops - 1; i >= 0; i--)
        if (m->ops[i].parent >= 0) needed[m->ops[i].parent] = needed[m->ops[i].parent] || needed[i];
    for (int32_t i = 0; i < m->n_ops; i++)
        if (m->ops[i].parent < 0 && m->ops[i].phase == LAM_FORWARD) out[i] = !needed[i];
}

lam_status lmi_untraced(const lam_model *m, lmi_arena *a, bool **out, lam_error *e) {
    bool *needed = lmi_alloc(a, (uint64_t)m->n_ops, sizeof *needed), known = false;
    *out = lmi_alloc(a, (uint64_t)m->n_ops, sizeof **out);
    if (!needed || !*out) return lmi_nomem(e);
    if (m->traced) LAM_TRY(lmi_live_ops(m, needed, &known, e));
    if (known) leave_out_dead(m, needed, *out);
    for (int32_t i = 0; i < m->n_ops; i++) (*out)[i] = (*out)[i] || lmi_in_function(m, i);
    return LAM_OK;
}
