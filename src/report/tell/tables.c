/* SPDX-License-Identifier: Apache-2.0
 *
 * The built-in tables: conventions, their rules and facts. */
#include "report/tell/tell.h"

static void tell_conventions(lmi_teller *t) {
    tell_list(t, NULL);
    for (int32_t i = 0; i < lam_n_conventions(); i++) {
        tell_object(t, NULL);
        tell_text(t, "name", lam_convention_name(i));
        tell_text(t, "source", lam_convention_source(i));
        tell_truth(t, "default", i == lam_convention_find(lam_convention_of(NULL)));
        tell_truth(t, "counts_ops", lam_convention_counts_ops(i));
        tell_truth(t, "unfused", lam_convention_unfused(i));
        tell_end(t);
    }
    tell_list_end(t);
}

static void tell_formulas(lmi_teller *t, const char *name, const char *const formula[LAM_N_METRICS]) {
    tell_object(t, name);
    for (int i = 0; i < LAM_N_METRICS; i++) tell_text(t, lam_metric_name((lam_metric)i), formula[i]);
    tell_end(t);
}

static void tell_rules(lmi_teller *t, int32_t convention) {
    lam_rule r;
    tell_list(t, NULL);
    for (int32_t i = 0; lam_convention_rule(convention, i, &r, NULL) == LAM_OK; i++) {
        tell_object(t, NULL);
        tell_text(t, "kind", r.kind);
        tell_formulas(t, "formula", r.formula);
        tell_formulas(t, "released", r.released);
        tell_text(t, "note", r.note);
        tell_truth(t, "of_op", r.of_op);
        tell_text(t, "only", r.only);
        tell_end(t);
    }
    tell_list_end(t);
}

static void tell_facts(lmi_teller *t) {
    const char *name;
    tell_object(t, NULL);
    for (int32_t i = 0; (name = lam_fact_name(i)) != NULL; i++) tell_text(t, name, lam_fact_meaning(i));
    tell_end(t);
}

/* Names that a row's fields have elsewhere. What is of each thing in a list has no path. */
static void tell_row_names(lmi_teller *t) {
    tell_list(t, NULL);
    for (int32_t i = 0; i < LMI_N_ROW_NAMES; i++) {
        const lmi_row_name *of = &lmi_row_names[i];
        if (!of->name[LMI_IN_PYTHON][0] || of->form == LMI_ROW_FIRST) continue;
        tell_record(t, NULL);
        tell_text(t, "name", of->name[LMI_IN_PYTHON]);
        tell_text(t, "path", of->form == LMI_ROW_EACH ? "" : of->path);
        tell_text(t, "csv", of->name[LMI_IN_CSV]);
        tell_end(t);
    }
    tell_list_end(t);
}

void lam_rules_tell(const lam_rules *rules, lam_receiver to) {
    lmi_teller t = lmi_tell_to(to);
    lam_rule r;
    tell_list(&t, NULL);
    for (int32_t i = 0; lam_rules_at(rules, i, &r); i++) {
        tell_record(&t, NULL);
        tell_text(&t, "kind", r.kind);
        tell_object(&t, "formula");
        for (int k = 0; k < LAM_N_METRICS; k++)
            if (r.formula[k]) tell_text(&t, lam_metric_name((lam_metric)k), r.formula[k]);
        tell_end(&t);
        tell_end(&t);
    }
    tell_list_end(&t);
}

void lam_tables_tell(lam_tables_part part, int32_t i, lam_receiver to) {
    lmi_teller t = lmi_tell_to(to);
    switch (part) {
    case LAM_TABLES_CONVENTIONS: tell_conventions(&t); break;
    case LAM_TABLES_RULES: tell_rules(&t, i); break;
    case LAM_TABLES_FACTS: tell_facts(&t); break;
    case LAM_TABLES_ROW: tell_row_names(&t); break;
    }
}
