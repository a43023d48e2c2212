/* SPDX-License-Identifier: Apache-2.0
 * The numbers of one operator, by the formulas of its rule. */
#include "analyse/cost/tally.h"

static lam_status own_code_of(lmi_work *w, const lmi_rule *r, const lmi_rule_code **out, lam_error *e) {
    int64_t at = lmi_map_get_u64(&w->own_by_rule, (uint64_t)(uintptr_t)r);
    if (at < 0) {
        at = (int64_t)w->own_code.n;
        lmi_rule_code **to = lmi_vec_push(&w->own_code);
        if (!to) return lmi_nomem(e);
        LAM_TRY(lmi_rule_code_new(to, r, e));
        LAM_TRY(lmi_map_put_u64(&w->own_by_rule, (uint64_t)(uintptr_t)r, at, e));
    }
    *out = *(lmi_rule_code **)lmi_vec_at(&w->own_code, (size_t)at);
    return LAM_OK;
}

lam_status lmi_code_of(lmi_work *w, const lmi_rule *r, const lmi_rule_code **out, lam_error *e) {
    return r->name ? own_code_of(w, r, out, e) : lmi_rule_code_of(w->cv, r, out, e);
}

static void evaluate(const lmi_rule_code *code, lmi_outcome *out) {
    lam_count *n = out->n;
    out->known = out->all = true;
    for (int i = 0; i < LAM_N_METRICS; i++) {
        int like = lmi_is_effective(i) ? i - LAM_EFFECTIVE_MACS : i; /* mostly has the same formula */
        if (like != i && code->formula[i] == code->formula[like])
            n[i] = n[like];
        else
            n[i] = code->formula[i] ? lmi_op_count(lmi_formula_run(code->formula[i], &out->facts))
                                    : lmi_unknown();
        bool missing = n[i].state != LAM_EXACT && code->formula[i];
        out->known = out->known && (!missing || lmi_is_effective(i));
        out->all = out->all && !missing;
    }
}

lam_status lmi_outcome_of_op(lmi_work *w, int32_t op, const lmi_rule *rule, lmi_outcome *out, lam_error *e) {
    const lmi_rule_code *code;
    LAM_TRY(lmi_code_of(w, rule, &code, e));
    lmi_facts_of_op(w->m, op, &out->facts);
    evaluate(code, out);
    return LAM_OK;
}

lam_status lmi_outcome_of_sig(lmi_work *w, const lam_op_sig *sig, const lmi_rule *rule, lmi_outcome *out,
                              lam_error *e) {
    const lmi_rule_code *code;
    LAM_TRY(lmi_code_of(w, rule, &code, e));
    lmi_facts_of_sig(w->m, sig, &out->facts);
    evaluate(code, out);
    return LAM_OK;
}
