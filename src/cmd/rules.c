/* SPDX-License-Identifier: Apache-2.0
 *
 * `lamina rules` and `lamina conventions`: what is counted, as text and as JSON. */
#include "cmd/cmd.h"

#include <string.h>

static void say_metric(lmi_cli *c, const lam_rule *r, lam_metric i) {
    const char *formula = r->formula[i] ? r->formula[i] : "no opinion", *released = r->released[i];
    lmi_say(c, "  %-8s %s\n", lmi_metric_title(i), formula);
    if (released) lmi_say(c, "  %8s released: %s\n", "", released);
}

/* Prints as many spellings on a line as fit, also where the output has no width. */
static void say_only(lmi_cli *c, const char *only) {
    enum { LABEL = 11, LINE = 101 };
    lmi_buf b;
    lmi_flow f;
    if (!only) return;
    lmi_buf_init(&b);
    lmi_flow_start(&f, &b, c->host->width > LABEL ? (size_t)c->host->width : LINE, LABEL);
    f.whole = true;
    lmi_flow_label(&f, NULL, "  only", 0);
    lmi_flow_words(&f, NULL, only);
    lmi_flow_end(&f);
    lmi_say_text(c, &b);
}

/* Prints the effective counts that differ from the dense ones. */
static void say_effective(lmi_cli *c, const lam_rule *r) {
    for (int k = LAM_EFFECTIVE_MACS; k < LAM_N_METRICS; k++) {
        const char *dense = r->formula[k - LAM_EFFECTIVE_MACS];
        if (r->formula[k] && (!dense || strcmp(r->formula[k], dense) != 0)) say_metric(c, r, (lam_metric)k);
    }
}

static void say_facts(lmi_cli *c) {
    lmi_say(c, "\nfacts\n");
    for (int32_t i = 0; lam_fact_name(i); i++)
        lmi_say(c, "  %-14s %s\n", lam_fact_name(i), lam_fact_meaning(i));
}

static int json_rules(lmi_cli *c, int32_t convention) {
    int code = lmi_json_begin(c, "rules");
    if (code != LMI_EXIT_OK) return code;
    lmi_json_text(c, "convention", lam_convention_name(convention));
    lmi_json_text(c, "source", lam_convention_source(convention));
    lam_tables_tell(LAM_TABLES_RULES, convention, lam_json_field(c->json, "rules"));
    lam_tables_tell(LAM_TABLES_FACTS, 0, lam_json_field(c->json, "facts"));
    return lmi_json_end(c, code);
}

int lmi_run_rules(lmi_cli *c) {
    const char *name = c->args.n_operands ? c->args.operands[0] : lam_convention_of(NULL);
    if (!lmi_convention_known(c, name)) return LMI_EXIT_USAGE;
    int32_t convention = lam_convention_find(name);
    if (lmi_is_json(&c->args)) return json_rules(c, convention);
    lmi_output_narrow(c);
    lmi_say(c, "convention %s: %s\n", name, lam_convention_source(convention));
    lam_rule r;
    bool both = false; /* rules of layers came before those of operators */
    for (int32_t i = 0; lam_convention_rule(convention, i, &r, NULL) == LAM_OK; i++) {
        lmi_say(c, "\n%s%s\n", r.kind, r.of_op && both ? ", as an operator" : "");
        both = both || !r.of_op;
        say_only(c, r.only);
        for (int k = 0; k <= LAM_DMAS; k++) say_metric(c, &r, (lam_metric)k);
        for (int k = LAM_DMAS + 1; k < LAM_EFFECTIVE_MACS; k++)
            if (lam_convention_counts(convention, (lam_metric)k)) say_metric(c, &r, (lam_metric)k);
        say_effective(c, &r);
        if (r.note) lmi_say(c, "  %-8s %s\n", "note", r.note);
    }
    say_facts(c);
    return LMI_EXIT_OK;
}

static int json_conventions(lmi_cli *c) {
    int code = lmi_json_begin(c, "conventions");
    if (code != LMI_EXIT_OK) return code;
    lam_tables_tell(LAM_TABLES_CONVENTIONS, 0, lam_json_field(c->json, "conventions"));
    return lmi_json_end(c, code);
}

int lmi_run_conventions(lmi_cli *c) {
    if (lmi_is_json(&c->args)) return json_conventions(c);
    lmi_output_narrow(c);
    for (int32_t i = 0; i < lam_n_conventions(); i++)
        lmi_say(c, "%-12s %s%s\n", lam_convention_name(i), lam_convention_source(i),
                i ? "" : " (the default)");
    return LMI_EXIT_OK;
}
