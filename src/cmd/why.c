/* SPDX-License-Identifier: Apache-2.0
 *
 * `lamina why`: each number of a layer with its formula and the values put in. */
#include "cmd/cmd.h"

#include <stdio.h>
#include <string.h>

enum { MAX_CALLS = 4 }; /* calls of a layer shown in full */

const char *lmi_metric_title(lam_metric metric) {
    static const char *const titles[LAM_N_METRICS] = {[LAM_BYTES_READ] = "read",
                                                      [LAM_BYTES_WRITTEN] = "written",
                                                      [LAM_EFFECTIVE_MACS] = "eff.macs",
                                                      [LAM_EFFECTIVE_FLOPS] = "eff.flops"};
    return titles[metric] ? titles[metric] : lam_metric_name(metric);
}

/* A module that its parent registers twice has places under its first name alone, and a note on each other
 * name. Complains of such a name, or of a path through one; false if it is none. */
static bool is_other_name(lmi_cli *c, const lam_model *m, const char *layer) {
    static const char also[] = " is also registered as ";
    for (int32_t i = 0; i < lam_model_n_notes(m); i++) {
        const char *note = lam_model_note(m, i), *end = strstr(note, also);
        const char *other = end ? end + sizeof also - 1 : note;
        size_t n = strlen(other);
        if (!end || strncmp(layer, other, n) != 0 || (layer[n] && layer[n] != '.')) continue;
        char hint[320];
        snprintf(hint, sizeof hint, "name it %.*s%s", (int)(end - note), note, layer + n);
        lmi_complain(c, hint, "%s: %s", layer, note);
        return true;
    }
    return false;
}

static int no_such_layer(lmi_cli *c, const lam_model *m, const char *layer) {
    if (is_other_name(c, m, layer)) return LMI_EXIT_USAGE;
    lmi_near near = lmi_near_start(layer);
    for (int32_t i = 0; i < lam_model_n_places(m); i++) lmi_near_put(&near, lam_model_place(m, i)->path);
    lmi_complain(c, lmi_near_hint(&near, "`lamina show` lists the layers; `.` is the whole model"),
                 "%s: the model has no such layer", layer);
    return LMI_EXIT_USAGE;
}

static lam_status json_row(lmi_cli *c, lam_costs *costs, int32_t row, lam_error *e) {
    const lam_model *m = lam_costs_model(costs);
    const lam_cost_row *r = lam_costs_row(costs, row);
    const lam_event *ev = lam_model_event(m, r->event);
    const lam_field counts[] = {
        {.name = "params", .type = LAM_FIELD_COUNT, .count = r->below->params},
        {.name = "param_bytes", .type = LAM_FIELD_COUNT, .count = r->below->param_bytes},
        {.name = "logical_bytes", .type = LAM_FIELD_COUNT, .count = r->below->logical_bytes},
        {.name = "local_bytes", .type = LAM_FIELD_COUNT, .count = r->below->local_bytes}};
    lam_receiver to = lam_json_field(c->json, NULL);
    lmi_json_open(c, NULL, LAM_FIELD_OBJECT);
    lmi_json_text(c, "type", lam_model_module(m, r->module)->type);
    if (ev)
        lmi_json_int(c, "call", ev->ordinal);
    else
        lmi_json_text(c, "call", NULL);
    lmi_json_text(c, "rule", r->rule_kind);
    lmi_json_text(c, "reason", r->reason);
    for (int i = 0; i < 4; i++)
        if (i < 2 || !lmi_is_same(counts[i].count, r->below->param_bytes))
            (void)to.field(to.self, &counts[i]);
    lam_status s = lam_costs_tell(costs, LAM_COSTS_WHY, row, lam_json_field(c->json, "why"), e);
    if (s == LAM_OK) s = lam_costs_tell(costs, LAM_COSTS_FACTS, row, lam_json_field(c->json, "facts"), e);
    lmi_json_close(c);
    return s;
}

/* Writes every call of the layer, with all that is known of it. */
static int json_why(lmi_cli *c, lam_costs *costs, int32_t place, lam_error *e) {
    int code = lmi_json_begin(c, "why");
    if (code != LMI_EXIT_OK) return code;
    lmi_json_text(c, "path", lam_model_place(lam_costs_model(costs), place)->path);
    lmi_json_text(c, "convention", lam_convention_name(lam_costs_convention(costs)));
    lmi_json_truth(c, "released", c->args.released);
    lmi_json_open(c, "rows", LAM_FIELD_LIST);
    lam_status s = LAM_OK;
    for (int32_t i = 0; i < lam_costs_n_rows(costs) && s == LAM_OK; i++)
        if (lam_costs_row(costs, i)->place == place) s = json_row(c, costs, i, e);
    lmi_json_close(c);
    return s == LAM_OK ? lmi_json_end(c, code) : lmi_complain_of(c, e, s);
}

static lam_status put_text(void *to, const char *bytes, size_t n) {
    lmi_cli *c = to;
    lmi_say(c, "%.*s", (int)n, bytes);
    return LAM_OK;
}

static int explain(lmi_cli *c, const lam_model *m, lam_costs *costs, lam_error *e) {
    const char *layer = c->args.operands[1];
    int32_t place = lam_model_find(m, strcmp(layer, ".") == 0 ? "" : layer), n_shown = 0, left = 0;
    lam_why first;
    if (place < 0) return no_such_layer(c, m, layer);
    /* Rows are computed on first use; running out of memory is reported here. */
    if (lam_costs_n_rows(costs) > 0) {
        lam_status s = lam_costs_why(costs, 0, 0, &first, e);
        if (s != LAM_OK) return lmi_complain_of(c, e, s);
    }
    if (lmi_is_json(&c->args)) return json_why(c, costs, place, e);
    for (int32_t i = 0; i < lam_costs_n_rows(costs); i++) {
        if (lam_costs_row(costs, i)->place != place) continue;
        left += n_shown == MAX_CALLS;
        if (n_shown == MAX_CALLS) continue;
        const bool ascii = !c->host->out_is_utf8 && !c->args.output;
        lam_status s = lam_why_write(costs, i, c->args.facts, ascii, (lam_sink){put_text, c}, e);
        if (s != LAM_OK) return lmi_complain_of(c, e, s);
        n_shown++;
    }
    if (left) lmi_say(c, "and %d more calls\n", (int)left);
    if (n_shown && !c->args.facts) lmi_say(c, "--facts shows each rule's own text and every fact\n");
    if (n_shown) return LMI_EXIT_OK;
    lmi_say(c,
            "%s has no row under this convention: it was not called, or the layer above it counts its work\n",
            layer);
    return LMI_EXIT_OK;
}

static int why(lmi_cli *c, const lam_model *m, const char *ran, void *self) {
    const lam_cost_options o = lmi_cost_options(c, c->args.convention);
    lam_error e = {0};
    lam_costs *costs = NULL;
    (void)ran, (void)self;
    lmi_say_dry(c, m);
    lam_status s = lam_costs_new(&costs, m, &o, &e);
    int code = s == LAM_OK ? explain(c, m, costs, &e) : lmi_complain_of(c, &e, s);
    lam_costs_free(costs);
    return code;
}

int lmi_run_why(lmi_cli *c) {
    lmi_output_narrow(c);
    const char *convention = c->args.convention;
    if (!lmi_file_takes(c, c->args.operands[0])) return LMI_EXIT_USAGE;
    int code = lmi_convention_fits(c, convention) ? lmi_rules_wanted(c) : LMI_EXIT_USAGE;
    if (code != LMI_EXIT_OK) return code;
    lam_live what = lmi_live_request(c, convention);
    return lmi_with_model(c, &what, why, NULL);
}
