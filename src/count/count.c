/* SPDX-License-Identifier: Apache-2.0
 * count: which rule serves a module, and what it says of one call. */
#include "count/count.h"

/* Is `word` one of the words in `list`, which are separated by spaces? */
static bool listed(const char *list, const char *word) {
    size_t n = strlen(word);
    for (const char *p = list; (p = strstr(p, word)) != NULL; p++)
        if ((p == list || p[-1] == ' ') && (p[n] == ' ' || !p[n])) return true;
    return false;
}

const lmi_rule *lmi_rule_for(const lmi_convention *c, const lam_module *mod) {
    lmi_kind kind = lmi_word_kind(mod->word);
    if (kind >= LMI_N_KINDS || (int32_t)kind >= c->n_rules || !c->rules[kind].given) return NULL;
    if (c->match == LMI_CLASS && !(mod->flags & LAM_MODULE_EXACT)) return NULL;
    const lmi_rule *r = &c->rules[kind];
    return !r->only || listed(r->only, lam_word_name(mod->word)) ? r : NULL;
}

static lam_count evaluate(const char *text, const lmi_facts *facts) {
    lmi_formula f;
    return text && lmi_formula_parse(&f, text, NULL) == LAM_OK ? lmi_formula_run(&f, facts) : lmi_unknown();
}

lam_count lmi_rule_count(const lmi_rule *r, lam_metric metric, bool released, const lmi_facts *facts) {
    if (released && r->released[metric]) {
        lam_count c = evaluate(r->released[metric], facts);
        if (c.state != LAM_UNKNOWN) return c;
    }
    return evaluate(r->formula[metric], facts);
}

/* What a class of the user's own does besides the layer that it extends is not seen. */
static lam_count doubt(const lmi_convention *c, const lam_module *mod, lam_count n) {
    if (c->hidden == LMI_TRUST || n.state == LAM_UNKNOWN) return n;
    if (mod->flags & LAM_MODULE_OPAQUE) return lmi_unknown();
    if (mod->flags & LAM_MODULE_OWN_FORWARD) n.state = LAM_AT_LEAST;
    return n;
}

void lmi_count_event(const lmi_convention *c, const lam_model *m, int32_t event, bool released,
                     lam_count out[LAM_N_METRICS]) {
    for (int i = 0; i < LAM_N_METRICS; i++) out[i] = lmi_unknown();
    const lam_event *ev = lam_model_event(m, event);
    const lam_module *mod = ev ? lam_model_module(m, ev->module) : NULL;
    const lmi_rule *rule = mod ? lmi_rule_for(c, mod) : NULL;
    if (!rule) return;
    lmi_facts facts;
    lmi_facts_of(m, event, &facts);
    for (int i = 0; i < LAM_N_METRICS; i++)
        out[i] = doubt(c, mod, lmi_rule_count(rule, (lam_metric)i, released, &facts));
}

/* -- operators ------------------------------------------------------------------------------------------- */

const lmi_rule *lmi_rule_for_op(const lmi_convention *c, int32_t op_word) {
    lmi_kind kind = lmi_op_kind(op_word);
    if (c->which != LMI_OPS || kind >= LMI_N_KINDS || (int32_t)kind >= c->n_rules) return NULL;
    return c->rules[kind].given ? &c->rules[kind] : NULL;
}

void lmi_count_op(const lmi_convention *c, const lam_model *m, int32_t op, lam_count out[LAM_N_METRICS]) {
    for (int i = 0; i < LAM_N_METRICS; i++) out[i] = lmi_unknown();
    const lam_op *o = lam_model_op(m, op);
    const lmi_rule *rule = o ? lmi_rule_for_op(c, o->word) : NULL;
    if (!rule) return;
    lmi_facts facts;
    lmi_facts_of_op(m, op, &facts);
    for (int i = 0; i < LAM_N_METRICS; i++)
        out[i] = lmi_op_count(lmi_rule_count(rule, (lam_metric)i, false, &facts));
}
