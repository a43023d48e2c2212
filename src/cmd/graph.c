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

static lam_status write_drawing(const lmi_cli *c, const lam_model *m, lam_error *e) {
    const lam_plot_options o = {.kind = "graph"};
    const lam_cost_options by = lmi_cost_options(c, NULL);
    lam_costs *costs = NULL;
    lam_status s = lam_costs_new(&costs, m, &by, e);
    if (s == LAM_OK && strcmp(c->args.format, "html") == 0) s = lmi_page_head(c->out, "graph", e);
    if (s == LAM_OK) s = lam_plot_write(costs, &o, c->out, e);
    lam_costs_free(costs);
    return s;
}

static bool format_known(lmi_cli *c) {
    const char *format = c->args.format;
    bool dot = !format || strcmp(format, "dot") == 0;
    if (!dot && !lmi_is_json(&c->args) && strcmp(format, "svg") != 0 && strcmp(format, "html") != 0) {
        lmi_complain(c, "there are: dot, svg, html, json", "--format %s: a graph has no such format", format);
        return false;
    }
    if (dot || !c->args.ops) return true;
    lmi_complain(
        c, "leave --ops out; an operator has its own numbers in `lamina why`",
        "--ops is for dot: a drawing has one node for what a layer does, and JSON has all operators");
    return false;
}

int lmi_run_graph(lmi_cli *c) {
    lam_error e = {0}, drawn = {0};
    lam_model *m;
    if (!format_known(c)) return LMI_EXIT_USAGE;
    lam_live what = lmi_live_request(c, lam_convention_of(NULL));
    what.ops = true;
    lam_status live = lmi_live_model(c, &what, &m, &e);
    int code = LMI_EXIT_OK;
    if (m) {
        bool dot = !c->args.format || strcmp(c->args.format, "dot") == 0;
        lam_status s = dot                     ? write_dot(c, m, &drawn)
                       : lmi_is_json(&c->args) ? write_json(c, m, &drawn)
                                               : write_drawing(c, m, &drawn);
        if (s != LAM_OK && c->out_status == LAM_OK) code = lmi_complain_of(c, &drawn, s);
    }
    lam_model_free(m);
    return live == LAM_OK ? code : lmi_complain_of(c, &e, live);
}
