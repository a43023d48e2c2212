/* SPDX-License-Identifier: Apache-2.0
 * Effective counts of operators that run inside another: a flag or a mask by which some of their work has no
 * effect is an argument of the operator around them. */
#include "analyse/cost/tally.h"

/* True if the numbers say that some of the work has no effect. */
static bool has_idle_work(const lam_count n[LAM_N_METRICS]) {
    return n[LAM_EFFECTIVE_MACS].state == LAM_EXACT && n[LAM_EFFECTIVE_MACS].n < n[LAM_MACS].n;
}

/* Finds the effective counts that the signature alone determines, for any layer that runs it. */
static lam_status learn_effective(lmi_work *w, const lam_op_sig *sig, lam_error *e) {
    lmi_sig_cost *kept = &w->by_sig[sig->index];
    const lmi_rule *rule = lmi_rule_for_op(w->cv, sig->word, sig->name);
    lmi_outcome got;
    kept->attributes = LMI_ATTRIBUTES_NOTHING;
    if (!rule || rule->formula[LAM_EFFECTIVE_MACS] == rule->formula[LAM_MACS]) return LAM_OK;
    LAM_TRY(lmi_outcome_of_sig(w, sig, rule, &got, e));
    kept->attributes = got.all ? LMI_ATTRIBUTES_WHOLE : LMI_ATTRIBUTES_OF_LAYER;
    if (!got.all || !has_idle_work(got.n)) return LAM_OK;
    kept->effective = lmi_copy(&w->scratch, got.n, LAM_N_METRICS, sizeof *got.n);
    kept->attributes = LMI_ATTRIBUTES_SELF;
    return kept->effective ? LAM_OK : lmi_nomem(e);
}

/* True if the operator called one fused kernel, which has arguments for its effective counts itself, in the
 * forward and the backward. */
static bool runs_fused(const lam_model *m, int32_t op) {
    for (int32_t i = op + 1; i < m->n_ops && m->ops[i].parent >= op; i++) {
        int32_t word = m->ops[i].sig->word;
        lmi_kind k = lmi_op_kind(word);
        bool attends = k == LMI_K_attend || k == LMI_K_attend_flash || k == LMI_K_attend_efficient;
        if (attends && !lam_word_op_wraps(word)) return true;
    }
    return false;
}

/* An operator that leaves the count to the operators inside it may have a flag or a mask by which some of
 * their work has no effect: an attention that runs as matrix products. Its effective counts replace theirs,
 * also if unknown. In the backward pass it is unknown which products belong to it. */
lam_status lmi_attribute_effective(lmi_work *w, lmi_tally *t, int32_t op, lam_error *e) {
    const lam_op *o = &w->m->ops[op];
    lmi_sig_cost *kept = &w->by_sig[o->sig->index];
    if (o->flags & (LAM_OP_FAILED | LAM_OP_NODE)) return LAM_OK;
    if (kept->attributes == LMI_ATTRIBUTES_NEW) LAM_TRY(learn_effective(w, o->sig, e));
    if (kept->attributes == LMI_ATTRIBUTES_WHOLE) t->attributed[op] = LMI_ATTRIBUTED_WHOLE;
    if (kept->attributes == LMI_ATTRIBUTES_NOTHING || kept->attributes == LMI_ATTRIBUTES_WHOLE) return LAM_OK;
    const lam_count *effective = kept->effective;
    bool fused = runs_fused(w->m, op);
    lmi_outcome got;
    if (kept->attributes == LMI_ATTRIBUTES_OF_LAYER) {
        LAM_TRY(lmi_outcome_of_op(w, op, lmi_rule_for_op(w->cv, o->sig->word, o->sig->name), &got, e));
        effective = got.n;
        bool known = effective[LAM_EFFECTIVE_MACS].state == LAM_EXACT;
        if (known && !has_idle_work(effective)) t->attributed[op] = LMI_ATTRIBUTED_WHOLE;
        if (known && !has_idle_work(effective)) return LAM_OK;
        int64_t masks = lmi_fact_get(&got.facts, LMI_FACT_masks);
        if (!known && (fused || (effective[LAM_MACS].state != LAM_EXACT && masks != 1))) return LAM_OK;
    }
    lmi_op_sum *sum = lmi_sum_of(w, op);
    for (int i = LAM_EFFECTIVE_MACS; i < LAM_N_METRICS; i++)
        sum->n[o->phase][i] = lmi_count_add(sum->n[o->phase][i], effective[i]);
    if (!fused) sum->masked |= 1u << LAM_BACKWARD;
    t->attributed[op] = LMI_ATTRIBUTED_SUM;
    return LAM_OK;
}

/* -- masks without an operator around them ------------------------------------------------------- */

static lmi_weighs weighs(const lmi_work *w, int32_t op) {
    const lam_op_sig *sig = w->m->ops[op].sig;
    lmi_weighs *kept = &w->by_sig[sig->index].weighs;
    if (*kept != LMI_WEIGHS_NEW) return *kept;
    bool any = strcmp(sig->name, "aten::softmax") == 0 || strcmp(sig->name, "aten::_softmax") == 0;
    bool safely = strcmp(sig->name, "aten::_safe_softmax") == 0;
    return *kept = any ? LMI_WEIGHS_ANY : safely ? LMI_WEIGHS_SAFELY : LMI_WEIGHS_NONE;
}

/* The operator that ran directly before, in the same parent; NULL: none. */
static const lam_op *op_before(const lam_model *m, int32_t op) {
    const lam_op *o = &m->ops[op];
    int32_t at = op - 1;
    while (at >= 0 && m->ops[at].parent != o->parent) at = m->ops[at].parent;
    const lam_op *last = at >= 0 ? &m->ops[at] : NULL;
    return last && last->call == o->call && last->thread == o->thread && last->phase == o->phase ? last
                                                                                                 : NULL;
}

/* True for baddbmm with beta 0, which adds nothing, as bmm. */
static bool adds_nothing(const lam_op_sig *sig) {
    enum { BETA = 3 };
    const lam_value *v = lmi_sig_value(sig, BETA);
    return v && (v->type == LAM_FLOAT ? v->f == 0 : v->type == LAM_INT && v->i == 0);
}

/* True for the softmax of an attention that torch runs as separate operators, if a mask is added right before
 * it. torch does so under a dispatch mode, in an nn.MultiheadAttention that returns its weights too, and in
 * flex_attention in inference mode. */
static bool adds_mask(const lmi_work *w, int32_t op) {
    lmi_weighs how = weighs(w, op);
    const lam_op *last = how == LMI_WEIGHS_NONE ? NULL : op_before(w->m, op);
    if (!last) return false;
    const char *name = last->sig->name;
    /* flex_attention finds the greatest score before, or in an older torch the rows without any. */
    bool flex = strcmp(name, "aten::max") == 0 || strcmp(name, "aten::where") == 0;
    if (how == LMI_WEIGHS_SAFELY && flex) return !lmi_in_flex(w->m, op);
    if (how == LMI_WEIGHS_SAFELY) return strcmp(name, "aten::add") == 0 || strcmp(name, "aten::add_") == 0;
    return strcmp(name, "aten::baddbmm") == 0 && !adds_nothing(last->sig);
}

void lmi_note_mask(lmi_work *w, const lmi_tally *t, int32_t op) {
    const lam_op *o = &w->m->ops[op];
    if (t->attributed[op] == LMI_ATTRIBUTED_NOTHING && !(o->flags & LAM_OP_FAILED) && adds_mask(w, op))
        lmi_sum_of(w, op)->masked |= (uint8_t)(1u << o->phase | 1u << LAM_BACKWARD);
}

void lmi_forget_effective(lmi_work *w) {
    for (int32_t k = 0; k <= w->m->n_events; k++) {
        lmi_op_sum *sum = &w->by_call[k];
        for (int p = 0; sum->masked && p < LAM_N_PHASES; p++) {
            bool works = !lmi_is_nothing(sum->n[p][LAM_MACS]) || !lmi_is_nothing(sum->n[p][LAM_FLOPS]);
            for (int i = LAM_EFFECTIVE_MACS; works && sum->masked >> p & 1 && i < LAM_N_METRICS; i++)
                sum->n[p][i] = lmi_unknown();
        }
    }
}
