/* SPDX-License-Identifier: Apache-2.0
 * facts_op_roles: reads the roles of an operator's arguments. */
#include "count/ops/facts_op.h"

static lam_shape nth_tensor(const lam_op_arg *args, int32_t n, int32_t position) {
    for (int32_t i = 0; i < n; i++)
        if (args[i].is_tensor && (position < 0 || args[i].position == position))
            return (lam_shape){args[i].ndim, args[i].sizes};
    return (lam_shape){-1, NULL};
}

lam_shape lmi_op_in(const lam_op *op, const lmi_slots *s) {
    if (lmi_op_tensor(s, LMI_S_x)) return s->at[LMI_S_x].shape;
    if (lmi_op_tensor(s, LMI_S_q)) return s->at[LMI_S_q].shape;
    return nth_tensor(op->sig->in, op->sig->n_in, -1);
}

lam_shape lmi_op_out(const lam_op *op, int32_t position) {
    return nth_tensor(op->sig->out, op->sig->n_out, position);
}

const lam_op_arg *lmi_op_next(const lam_op *op, int32_t position, int32_t *at) {
    while (*at < op->sig->n_in) {
        const lam_op_arg *a = &op->sig->in[(*at)++];
        if (a->is_tensor && a->position == position) return a;
    }
    return NULL;
}

bool lmi_op_tensor(const lmi_slots *s, lmi_slot_id id) { return s->at[id].present && !s->at[id].value; }

int64_t lmi_op_numel(const lmi_slots *s, lmi_slot_id id) { return lmi_numel(s->at[id].shape); }

/* Elements of a role that may be empty: 0 then. */
int64_t lmi_op_optional(const lmi_slots *s, lmi_slot_id id) {
    return lmi_op_tensor(s, id) ? lmi_numel(s->at[id].shape) : 0;
}

int64_t lmi_op_bytes(const lmi_slots *s, lmi_slot_id id) {
    return lmi_stored(lmi_op_numel(s, id), s->at[id].bits);
}

bool lmi_op_bool(const lmi_slots *s, lmi_slot_id id, bool *out) {
    const lam_value *v = s->at[id].value;
    if (v && v->type == LAM_BOOL) *out = v->i != 0;
    return v && v->type == LAM_BOOL;
}

double lmi_op_number(const lmi_slots *s, lmi_slot_id id, double fallback) {
    return lmi_value_number(s->at[id].value, fallback);
}
