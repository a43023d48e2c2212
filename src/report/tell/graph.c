/* SPDX-License-Identifier: Apache-2.0
 *
 * The data-flow graph, and its findings on layers and parameters. */
#include "analyse/flow/graph.h"

#include "report/tell/tell.h"

static bool is_buffer(const lam_model *m, int32_t tensor) {
    for (int32_t i = 0; i < m->n_modules; i++)
        for (int32_t k = 0; k < m->modules[i].n_owned; k++)
            if (m->modules[i].owned[k].tensor == tensor) return m->modules[i].owned[k].is_buffer;
    return false;
}

static const char *type_of(const lam_model *m, const lam_node *n) {
    static const char *const types[] = {"input", "parameter", "operator", "output"};
    return n->type == LAM_NODE_TENSOR && is_buffer(m, n->index) ? "buffer" : types[n->type];
}

static void tell_shapes(lmi_teller *t, const char *name, const lam_op_arg *args, int32_t n) {
    tell_tuple(t, name);
    for (int32_t i = 0; i < n; i++)
        if (args[i].is_tensor) lmi_tell_sizes(t, NULL, args[i].ndim, args[i].sizes);
    tell_list_end(t);
}

static void tell_node(lmi_teller *t, const lam_graph *g, int32_t i) {
    const lam_node *n = lam_graph_node(g, i);
    const lam_op *o = n->type == LAM_NODE_OP ? lam_model_op(g->m, n->index) : NULL;
    tell_object(t, NULL);
    tell_int(t, "id", i);
    tell_text(t, "type", type_of(g->m, n));
    tell_text(t, "name", n->name);
    tell_int(t, "index", n->index);
    tell_text(t, "path", lmi_path_of_call(g->m, n->call));
    tell_int(t, "call", n->call);
    tell_text(t, "phase", lam_phase_name(n->phase));
    lmi_tell_sizes(t, "shape", n->shape.ndim, n->shape.sizes);
    if (o) {
        tell_text(t, "kind", lam_word_op_kind(o->sig->word));
        tell_shapes(t, "in_shapes", o->sig->in, o->sig->n_in);
        tell_shapes(t, "out_shapes", o->sig->out, o->sig->n_out);
    }
    tell_end(t);
}

static void tell_edge(lmi_teller *t, const lam_edge *e) {
    tell_object(t, NULL);
    tell_int(t, "from", e->from);
    tell_int(t, "to", e->to);
    tell_int(t, "arg", e->arg);
    lmi_tell_sizes(t, "shape", e->shape.ndim, e->shape.sizes);
    tell_end(t);
}

static void tell_data(lmi_teller *t, const lam_graph *g) {
    tell_list(t, "nodes");
    for (int32_t i = 0; i < lam_graph_n_nodes(g); i++) tell_node(t, g, i);
    tell_list_end(t);
    tell_list(t, "edges");
    for (int32_t i = 0; i < lam_graph_n_edges(g); i++) tell_edge(t, lam_graph_edge(g, i));
    tell_list_end(t);
}

static void tell_findings(lmi_teller *t, const char *name, const lam_graph *g,
                          const char *(*at)(const lam_graph *, int32_t, const char **)) {
    const char *path, *reason;
    tell_list(t, name);
    for (int32_t i = 0; (path = at(g, i, &reason)) != NULL; i++) {
        tell_record(t, NULL);
        tell_text(t, "path", path);
        tell_text(t, "reason", reason);
        tell_end(t);
    }
    tell_list_end(t);
}

void lmi_unused_fields(lmi_teller *t, const lam_graph *g) { tell_findings(t, "unused", g, lam_graph_unused); }

void lmi_no_gradient_fields(lmi_teller *t, const lam_graph *g) {
    tell_findings(t, "no_gradient", g, lam_graph_no_gradient);
}

void lam_graph_tell(const lam_graph *g, lam_graph_part part, lam_receiver to) {
    lmi_teller t = lmi_tell_to(to);
    tell_object(&t, NULL);
    if (part == LAM_GRAPH_DATA) {
        tell_data(&t, g);
    } else {
        lmi_unused_fields(&t, g);
        lmi_no_gradient_fields(&t, g);
    }
    tell_end(&t);
}
