/* SPDX-License-Identifier: Apache-2.0
 * facts_op_list: operators on lists of tensors, and the steps of optimisers. */
#include "count/ops/facts_op.h"

/* Elements of the tensors of the first argument, and the same without one element of each. */
static void firsts(const lam_op *op, lmi_facts *f) {
    int64_t sum = 0, rest = 0, bytes = 0;
    int32_t at = 0;
    for (const lam_op_arg *a; (a = lmi_op_next(op, 0, &at)) != NULL;) {
        int64_t n = lmi_op_arg_numel(a);
        if (n < 0 || lmi_add_over(sum, n, &sum)) return;
        rest += n > 0 ? n - 1 : 0;
        n = lmi_stored(n, lam_dtype_bits(a->dtype));
        bytes = lmi_plus(bytes, n);
    }
    lmi_fact_set(f, LMI_FACT_firsts, sum);
    lmi_fact_set(f, LMI_FACT_rest, rest);
    lmi_fact_set(f, LMI_FACT_firsts_bytes, bytes);
}

/* A list of factors, one for each tensor, is not read. If the line of the word says that there always is a
 * factor, a missing one is such a list. */
static int64_t factors(const lam_op *op, const lmi_slots *s) {
    return s->at[LMI_S_alpha].present ? lmi_op_factors(s) : lmi_op_last(op->sig->word);
}

/* -- products pair by pair ------------------------------------------------------------------------------- */

static void products(const lam_op *op, lmi_facts *f) {
    int32_t left = 0, right = 0;
    int64_t sum = 0;
    const lam_op_arg *a, *b = NULL;
    while ((a = lmi_op_next(op, 0, &left)) != NULL && (b = lmi_op_next(op, 1, &right)) != NULL) {
        if (a->ndim != 2 || b->ndim != 2 || a->sizes[1] != b->sizes[0]) return;
        sum = lmi_plus(sum, lmi_times(lmi_op_arg_numel(a), b->sizes[1]));
    }
    bool paired = !a && !lmi_op_next(op, 1, &right);
    lmi_fact_set(f, LMI_FACT_pairs_red, paired ? sum : -1);
}

/* -- optimisers ------------------------------------------------------------------------------------------ */

/* 1 if the number is not 0, 0 if it is; -1: unknown. */
static int64_t acts(const lmi_slots *s, lmi_slot_id id) {
    const lam_value *v = s->at[id].value;
    if (!v || (v->type != LAM_FLOAT && v->type != LAM_INT && v->type != LAM_BOOL)) return -1;
    return v->type == LAM_FLOAT ? v->f != 0 : v->i != 0;
}

static void step(const lam_op *op, const lmi_slots *s, lmi_facts *f) {
    lmi_fact_set(f, LMI_FACT_each, lmi_op_each(op->sig->word));
    lmi_fact_set(f, LMI_FACT_decays, acts(s, LMI_S_decay));
    lmi_fact_set(f, LMI_FACT_amsgrad, acts(s, LMI_S_amsgrad));
    lmi_fact_set(f, LMI_FACT_maximizes, acts(s, LMI_S_maximize));
    lmi_fact_set(f, LMI_FACT_momentum, acts(s, LMI_S_momentum));
    lmi_fact_set(f, LMI_FACT_nesterov, acts(s, LMI_S_nesterov));
    lmi_fact_set(f, LMI_FACT_damps, acts(s, LMI_S_damp));
    lmi_fact_set(f, LMI_FACT_first_step, acts(s, LMI_S_first_step));
}

void lmi_op_list(const lam_model *m, const lam_op *op, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    (void)m;
    firsts(op, f);
    switch (k) {
    case LMI_K_map_list: lmi_fact_set(f, LMI_FACT_extra, factors(op, s)); break;
    case LMI_K_norm_list: lmi_op_power(op, s, f); break;
    case LMI_K_product_list: products(op, f); break;
    case LMI_K_fused_adam:
    case LMI_K_fused_sgd:
    case LMI_K_fused_adagrad: step(op, s, f); break;
    default: break;
    }
}
