/* SPDX-License-Identifier: Apache-2.0
 *
 * `lamina graph`: the flow of data between operators or layers, as DOT or JSON; or its top level as a
 * drawing. */
#include "cmd/cmd.h"

#include <string.h>

static lam_status write_dot(const lmi_cli *c, const lam_model *m, lam_error *e) {
    lam_graph *g = NULL;
    lam_status s = lam_graph_new(&g, m, e);
    if (s == LAM_OK) s = lam_graph_dot(g, c->args.ops, c->out, e);
    lam_graph_free(g);
    return s;
}

/* Writes everything: a node for each operator, the layer it is in, and the graph's findings on layers. */
static lam_status write_json(lmi_cli *c, const lam_model *m, lam_error *e) {
    lam_graph *g = NULL;
    lam_status s = lam_graph_new(&g, m, e);
    if (s == LAM_OK) s = lam_json_new(&c->json, "graph", 1, e);
    if (s == LAM_OK) {
        lam_graph_tell(g, LAM_GRAPH_DATA, lam_json_field(c->json, "data"));
        lam_graph_tell(g, LAM_GRAPH_FINDINGS, lam_json_field(c->json, "findings"));
        s = lam_json_write(c->json, c->out, e);
    }
    lam_graph_free(g);
    return s;
}

static lam_status write_drawing(lmi_cli *c, const lam_model *m, lam_error *e) {
    const lam_plot_options o = {.kind = "graph"};
    const lam_cost_options by = lmi_cost_options(c, NULL);
    lam_costs *costs = NULL;
    lam_status s = lam_costs_new(&costs, m, &by, e);
    if (s == LAM_OK) s = lmi_page_head(c, "graph", e);
    if (s == LAM_OK) s = lam_plot_write(costs, &o, c->out, e);
    lam_costs_free(costs);
    return s;
}

static bool is_dot(const lmi_args *a) { return !a->format || lmi_is_format(a, "dot"); }

static bool format_known(lmi_cli *c) {
    const lmi_args *a = &c->args;
    if (!lmi_format_known(c, "a graph")) return false;
    if (is_dot(a) || !a->ops) return true;
    lmi_complain(
        c, "leave --ops out; an operator has its own numbers in `lamina why`",
        "--ops is for dot: a drawing has one node for what a layer does, and JSON has all operators");
    return false;
}

static int write_graph(lmi_cli *c, const lam_model *m, const char *ran, void *self) {
    lam_error e = {0};
    (void)ran, (void)self;
    lmi_say_dry(c, m);
    lam_status s = is_dot(&c->args)        ? write_dot(c, m, &e)
                   : lmi_is_json(&c->args) ? write_json(c, m, &e)
                                           : write_drawing(c, m, &e);
    return lmi_written(c, &e, s, LMI_EXIT_OK);
}

int lmi_run_graph(lmi_cli *c) {
    if (!format_known(c)) return LMI_EXIT_USAGE;
    lam_live what = lmi_live_request(c, lam_convention_of(NULL));
    what.ops = true;
    return lmi_with_model(c, &what, write_graph, NULL);
}
