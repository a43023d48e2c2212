/* SPDX-License-Identifier: Apache-2.0
 * count: finds the rule of a module or operator, and applies it to one call. */
#include "count/count.h"

const lmi_rule *lmi_rule_for(const lmi_convention *c, const lam_module *mod) {
    const lmi_rule *own = lmi_own_of_module(c, mod);
    if (own) return own;
    const lmi_rule *any = lmi_rule_at(c->rules, LMI_K_any);
    const lmi_rule *r = lmi_rule_at(c->rules, lmi_word_kind(mod->word));
    if (any || !r) return any;
    if (c->match == LMI_CLASS && !(mod->flags & LAM_MODULE_EXACT)) return NULL;
    return !r->only || lmi_listed(r->only, lam_word_name(mod->word)) ? r : NULL;
}

lam_count lmi_rule_count(const lmi_rule *r, lam_metric metric, const lmi_facts *facts) {
    const char *text = r->formula[metric];
    lmi_formula f;
    return text && lmi_formula_parse(&f, text, NULL) == LAM_OK ? lmi_formula_run(&f, facts) : lmi_unknown();
}

/* -- operators ------------------------------------------------------------------------------------------- */

const lmi_rule *lmi_rule_for_op(const lmi_convention *c, int32_t op_word, const char *name) {
    const lmi_rule *r = lmi_rule_at(c->op_rules, lmi_op_kind(op_word));
    return r && (!r->only || lmi_listed(r->only, name)) ? r : NULL;
}

/* Names without "::" are marks that a program sets around its work. */
static bool is_operator(const lam_op *o) { return o->sig->word >= 0 || strstr(o->sig->name, "::"); }

/* Without a word, an operator of torch only calls others, and a custom one is a single kernel. */
static bool calls_others(const lam_op *o) {
    return o->sig->word >= 0 ? lam_word_op_wraps(o->sig->word) : lmi_is_torchs(o->sig->name);
}

bool lmi_op_opens(const lmi_convention *c, const lam_op *o, const lmi_rule *rule) {
    if (c->sees != LMI_SEES_RULES && !is_operator(o)) return true;
    if (o->n_children == 0) return false;
    switch (c->sees) {
    case LMI_SEES_CALLED:
    case LMI_SEES_TRACED: return rule && rule->open;
    case LMI_SEES_DISPATCHED: return !(rule && rule->whole) && calls_others(o);
    default: return !rule || lam_word_op_wraps(o->sig->word);
    }
}

const lmi_rule *lmi_rule_of_op(const lmi_convention *c, const lam_op *op) {
    const lmi_rule *own = lmi_own_of_op(c, op->sig->name);
    return own ? own : lmi_rule_for_op(c, op->sig->word, op->sig->name);
}

void lmi_count_op(const lmi_convention *c, const lam_model *m, int32_t op, lam_count out[LAM_N_METRICS]) {
    lmi_set_unknown(out);
    const lam_op *o = lam_model_op(m, op);
    const lmi_rule *rule = o ? lmi_rule_of_op(c, o) : NULL;
    bool nothing = !rule && c->op_rules && c->no_rule == LMI_NR_NOTHING;
    for (int i = 0; nothing && i < LAM_N_METRICS; i++)
        if (lmi_convention_tells(c, (lam_metric)i)) out[i] = lmi_exact(0);
    if (!rule) return;
    lmi_facts facts;
    lmi_facts_of_op(m, op, &facts);
    for (int i = 0; i < LAM_N_METRICS; i++)
        out[i] = lmi_op_count(lmi_rule_count(rule, (lam_metric)i, &facts));
}
