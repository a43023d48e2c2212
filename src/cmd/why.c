/* SPDX-License-Identifier: Apache-2.0
 *
 * `lamina why`: each number of a layer with its formula and the values put in. */
#include "cmd/cmd.h"

#include <stdio.h>
#include <string.h>

enum { MAX_CALLS = 4, TEXT = 160 }; /* calls of one layer that are told in full */

static void say_args(lmi_cli *c, const char *label, const lam_arg *args, int32_t n) {
    for (int32_t i = 0; i < n; i++) {
        char shape[TEXT];
        lam_text_shape(shape, sizeof shape, (lam_shape){args[i].ndim, args[i].sizes}, "x");
        const char *name = args[i].name ? args[i].name : "", *equals = args[i].name ? "=" : "";
        lmi_say(c, "  %-8s %s%s%s %s\n", i ? "" : label, name, equals, shape, lam_dtype_name(args[i].dtype));
    }
    if (n == 0) lmi_say(c, "  %-8s no tensor\n", label);
}

const char *lmi_metric_title(lam_metric metric) {
    static const char *const titles[LAM_N_METRICS] = {[LAM_BYTES_READ] = "read",
                                                      [LAM_BYTES_WRITTEN] = "written",
                                                      [LAM_EFFECTIVE_MACS] = "eff.macs",
                                                      [LAM_EFFECTIVE_FLOPS] = "eff.flops"};
    return titles[metric] ? titles[metric] : lam_metric_name(metric);
}

/* Effective counts are told where they are not the dense ones. */
static bool is_told(const lam_costs *costs, const lam_why *w, const lam_count value[LAM_N_METRICS]) {
    if (w->metric <= LAM_DMAS) return true;
    if (!lam_convention_counts(lam_costs_convention(costs), w->metric)) return false;
    if (w->metric < LAM_EFFECTIVE_MACS) return true;
    const lam_count *dense = &value[w->metric - LAM_EFFECTIVE_MACS];
    return w->value.n != dense->n || w->value.over != dense->over || w->value.state != dense->state;
}

static void say_metric(lmi_cli *c, const lam_costs *costs, const lam_why *w, lam_count value[LAM_N_METRICS]) {
    char text[64];
    value[w->metric] = w->value;
    if (!is_told(costs, w, value)) return;
    lam_text_digits(text, sizeof text, w->value);
    lmi_say(c, "  %-8s %s%s\n", lmi_metric_title(w->metric), text,
            w->metric == LAM_BYTES_READ || w->metric == LAM_BYTES_WRITTEN ? " bytes" : "");
    if (w->formula) lmi_say(c, "  %8s = %s\n  %8s = %s\n", "", w->formula, "", w->substituted);
}

/* What comes after the metrics: the operators that a row is the sum of, by name, and then the same of its
 * backward and of what that did again. */
static void say_parts(lmi_cli *c, const lam_costs *costs, int32_t row) {
    static const char *const heads[] = {"forward", "backward", "recomputed"};
    lam_why w;
    lam_count value[LAM_N_METRICS];
    for (int32_t i = LAM_N_METRICS; lam_costs_why(costs, row, i, &w, NULL) == LAM_OK; i++) {
        if (i % LAM_N_METRICS == 0) lmi_say(c, "%s\n", w.op < 0 ? heads[w.phase] : w.note);
        say_metric(c, costs, &w, value);
    }
}

static const char *meaning(const char *fact) {
    for (int32_t i = 0; lam_fact_name(i); i++)
        if (strcmp(lam_fact_name(i), fact) == 0) return lam_fact_meaning(i);
    return "";
}

static void say_facts(lmi_cli *c, const lam_costs *costs, int32_t row) {
    const char *name;
    int64_t value;
    for (int32_t i = 0; lam_costs_fact(costs, row, i, &name, &value); i++)
        lmi_say(c, "%s  %-14s %14lld  %s\n", i ? "" : "facts\n", name, (long long)value, meaning(name));
}

static void say_sums(lmi_cli *c, const lam_costs *costs, const lam_cost_row *r) {
    char text[LAM_N_METRICS][64], params[64];
    for (int i = 0; i < LAM_N_METRICS; i++) lam_text_digits(text[i], sizeof text[i], r->total[i]);
    lam_text_digits(params, sizeof params, r->total_params);
    lmi_say(c, "  %-8s %s\n", "params", params);
    if (r->leaf) return;
    lmi_say(c, "  %-8s macs %s, flops %s, dmas %s", "in all", text[0], text[1], text[2]);
    if (lam_convention_counts(lam_costs_convention(costs), LAM_BYTES_READ))
        lmi_say(c, ", bytes read %s, written %s", text[LAM_BYTES_READ], text[LAM_BYTES_WRITTEN]);
    lmi_say(c, "\n");
}

static lam_status say_row(lmi_cli *c, const lam_costs *costs, int32_t row, bool facts, lam_error *e) {
    const lam_model *m = lam_costs_model(costs);
    const lam_cost_row *r = lam_costs_row(costs, row);
    const lam_event *ev = lam_model_event(m, r->event);
    const lam_place *p = lam_model_place(m, r->place);
    const lam_module *mod = lam_model_module(m, r->module);
    lmi_say(c, "%s (%s)", *p->path ? p->path : "the whole model", mod->type);
    if (ev) lmi_say(c, ", call %d of %d", (int)ev->ordinal + 1, (int)mod->n_calls);
    lmi_say(c, "%s%s\n", r->rule_kind ? ", rule " : "", r->rule_kind ? r->rule_kind : "");
    if (ev) {
        say_args(c, "in", ev->in, ev->n_in);
        say_args(c, "out", ev->out, ev->n_out);
    }
    const char *note = NULL;
    lam_count value[LAM_N_METRICS];
    for (int32_t i = 0; i < LAM_N_METRICS; i++) {
        lam_why w;
        lam_status s = lam_costs_why(costs, row, i, &w, e);
        if (s != LAM_OK) return s;
        say_metric(c, costs, &w, value);
        if (w.note) note = w.note;
    }
    say_sums(c, costs, r);
    if (note) lmi_say(c, "  %-8s %s\n", "note", note);
    say_parts(c, costs, row);
    if (facts) say_facts(c, costs, row);
    return LAM_OK;
}

static int no_such_layer(lmi_cli *c, const lam_model *m, const char *layer) {
    lmi_near near = lmi_near_start(layer);
    for (int32_t i = 0; i < lam_model_n_places(m); i++) lmi_near_put(&near, lam_model_place(m, i)->path);
    char hint[TEXT] = "`lamina show` lists the layers; `.` is the whole model";
    if (near.best && *near.best) snprintf(hint, sizeof hint, "did you mean %s?", near.best);
    lmi_complain(c, hint, "%s: the model has no such layer", layer);
    return LMI_EXIT_USAGE;
}

static int explain(lmi_cli *c, const lam_model *m, const lam_costs *costs, lam_error *e) {
    const char *layer = c->args.operands[1];
    int32_t place = lam_model_find(m, strcmp(layer, ".") == 0 ? "" : layer), told = 0, left = 0;
    lam_why first;
    if (place < 0) return no_such_layer(c, m, layer);
    /* What rows need is found when it is first asked for; here memory that ran out is told. */
    if (lam_costs_n_rows(costs) > 0) {
        lam_status s = lam_costs_why(costs, 0, 0, &first, e);
        if (s != LAM_OK) return lmi_complain_of(c, e, s);
    }
    for (int32_t i = 0; i < lam_costs_n_rows(costs); i++) {
        if (lam_costs_row(costs, i)->place != place) continue;
        left += told == MAX_CALLS;
        if (told == MAX_CALLS) continue;
        lam_status s = say_row(c, costs, i, told == 0, e);
        if (s != LAM_OK) return lmi_complain_of(c, e, s);
        told++;
    }
    if (left) lmi_say(c, "and %d more calls\n", (int)left);
    if (told) return LMI_EXIT_OK;
    lmi_say(c,
            "%s has no row under this convention: it was not called, or the layer above it counts its work\n",
            layer);
    return LMI_EXIT_OK;
}

int lmi_run_why(lmi_cli *c) {
    lmi_output_narrow(c);
    const char *convention = c->args.convention;
    lam_rules *own = NULL;
    int code = lmi_convention_known(c, convention) ? lmi_rules_wanted(c, &own) : LMI_EXIT_USAGE;
    if (code != LMI_EXIT_OK) return code;
    lam_error e = {0}, of_costs = {0};
    lam_model *m;
    lam_live what = lmi_live_request(c, convention);
    lam_status live = lmi_live_model(c, &what, &m, &e);
    if (m) {
        lam_cost_options o = {.convention = convention, .released = c->args.released, .own = own};
        lam_costs *costs = NULL;
        lam_status s = lam_costs_new(&costs, m, &o, &of_costs);
        code = s == LAM_OK ? explain(c, m, costs, &of_costs) : lmi_complain_of(c, &of_costs, s);
        lam_costs_free(costs);
    }
    lam_model_free(m);
    lam_rules_free(own);
    return live == LAM_OK ? code : lmi_complain_of(c, &e, live);
}
