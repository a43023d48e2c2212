/* SPDX-License-Identifier: Apache-2.0
 * facts_op_tools: facts for the tables of other counters: products inside an equation, and numbers that
 * become tensors. */
#include "count/ops/facts_op.h"

#include "model/model.h"

/* Products of one operator that multiplies matrices; 0 for other operators, -1 if its shapes are unknown. */
static int64_t products(const lam_model *m, int32_t op) {
    const lam_op *o = lam_model_op(m, op);
    lmi_facts f;
    if (lmi_op_kind(o->sig->word) != LMI_K_product || lam_word_op_wraps(o->sig->word)) return 0;
    lmi_facts_of_op(m, op, &f);
    return lmi_times(lmi_fact_get(&f, LMI_FACT_out), lmi_fact_get(&f, LMI_FACT_red));
}

/* Operators inside an operator were pushed after it. `left` counts those not visited yet. */
void lmi_op_inside(const lam_model *m, const lam_op *op, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    (void)k, (void)s;
    int32_t first = (int32_t)(op - m->ops), last = first;
    int64_t left = op->n_children, sum = 0;
    for (int32_t i = first + 1; left > 0 && i < m->n_ops; i++) {
        const lam_op *o = &m->ops[i];
        bool inside = false;
        for (int32_t p = lmi_op_owner(o); p >= first && !inside; p = lmi_op_owner(&m->ops[p]))
            inside = p == first;
        if (!inside) continue;
        left += o->n_children - 1;
        last = i;
        sum = lmi_plus(sum, products(m, i));
    }
    if (last > first) lmi_fact_set(f, LMI_FACT_inside, sum);
}

/* Numbers among the two operands to choose from, which come after the mask. */
void lmi_op_made(const lam_model *m, const lam_op *op, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    (void)m, (void)k, (void)s;
    int64_t n = 0;
    for (int32_t i = 0; i < op->sig->n_in; i++) {
        const lam_op_arg *a = &op->sig->in[i];
        bool number = a->value.type == LAM_INT || a->value.type == LAM_FLOAT || a->value.type == LAM_BOOL;
        n += !a->is_tensor && number && (a->position == 1 || a->position == 2);
    }
    lmi_fact_set(f, LMI_FACT_made, n);
}
