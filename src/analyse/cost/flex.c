/* SPDX-License-Identifier: Apache-2.0
 *
 * Effective counts of flex_attention where torch runs it operator by operator, as on the CPU: it multiplies
 * all queries and keys, and a mask then selects the scores that count. */
#include "analyse/cost/work.h"

/* The flex_attention that an operator is in, -1: none. What its functions of scores compute, on the tensors
 * of a transform, is no part of it. */
static int32_t flex_around(const lam_model *m, int32_t op) {
    for (int32_t i = lmi_op_owner(&m->ops[op]); i >= 0; i = lmi_op_owner(&m->ops[i])) {
        if (lmi_is_flex(m->ops[i].sig->name)) return i;
        if (m->ops[i].flags & LAM_OP_NODE) return -1;
    }
    return -1;
}

bool lmi_in_flex(const lam_model *m, int32_t op) { return flex_around(m, op) >= 0; }

/* The mask of all scores, the last one that selects some; NULL: its values were not read. */
static const lam_op_arg *mask_of(const lam_model *m, int32_t flex) {
    enum { AXES = 4 }; /* sequences, heads, queries, keys */
    const lam_op_arg *mask = NULL;
    for (int32_t i = flex + 1; i < m->n_ops && m->ops[i].parent >= flex; i++) {
        const lam_op_sig *sig = m->ops[i].sig;
        if (m->ops[i].parent != flex || strcmp(sig->name, "aten::where") != 0 || sig->n_in < 1) continue;
        if (sig->in[0].is_tensor && sig->in[0].ndim == AXES) mask = &sig->in[0];
    }
    return mask && mask->masks ? mask : NULL;
}

lam_count lmi_part_of(lam_count all, int64_t open, int64_t scores) {
    const bool known = all.state == LAM_EXACT && !all.over && open >= 0;
    const bool whole = known && scores > 0 && all.n % scores == 0;
    return whole ? lmi_exact(all.n / scores * open) : lmi_unknown();
}

void lmi_flex_effective(const lam_model *m, int32_t op, lam_count n[LAM_N_METRICS]) {
    const int32_t flex = flex_around(m, op);
    if (flex < 0) return;
    const lam_op_arg *mask = mask_of(m, flex);
    const int64_t scores = mask ? lmi_op_arg_numel(mask) : 0, open = mask ? mask->open : 0;
    const bool product = lmi_kind_multiplies(lmi_op_kind(m->ops[op].sig->word));
    if (scores > 0 && open == scores) return;
    for (int i = LAM_EFFECTIVE_MACS; i < LAM_N_METRICS; i++)
        if (product)
            n[i] = lmi_part_of(n[i], open, scores);
        else if (n[i].n > 0 || n[i].state != LAM_EXACT)
            n[i] = lmi_unknown(); /* softmax and others: it depends on which scores their elements are */
}
