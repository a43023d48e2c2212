/* SPDX-License-Identifier: Apache-2.0
 * What a table's rule says of the first call of a model, without the doubts of the costs. */
#ifndef LAMINA_TEST_RULE_COUNT_H
#define LAMINA_TEST_RULE_COUNT_H

#include "count/count.h"
#include "kit/oom.h"

/* `released`: by the released formula, or the rule's if that gives no number. */
OOM_UNUSED static lam_count count_by(const lmi_rule *r, lam_metric metric, bool released,
                                     const lmi_facts *of) {
    lmi_rule form = {.kind = r->kind};
    form.formula[metric] = released ? r->released[metric] : NULL;
    lam_count n = lmi_rule_count(&form, metric, of);
    return n.state == LAM_UNKNOWN ? lmi_rule_count(r, metric, of) : n;
}

OOM_UNUSED static void count_first(const char *convention, const lam_model *m, bool released,
                                   lam_count out[LAM_N_METRICS]) {
    const lmi_convention *c = lmi_convention_named(convention, NULL);
    assert_non_null(c);
    const lmi_rule *rule = lmi_rule_for(c, lam_model_module(m, lam_model_event(m, 0)->module));
    lmi_facts its;
    lmi_facts_of(m, 0, &its);
    for (int i = 0; i < LAM_N_METRICS; i++)
        out[i] = rule ? count_by(rule, (lam_metric)i, released, &its) : lmi_unknown();
}

#endif
