/* SPDX-License-Identifier: Apache-2.0
 *
 * The data-flow graph: operators that count or move something, the inputs and outputs of the model, its
 * parameters and buffers, and the edges between them. Views and composites are transparent. */
#include "analyse/flow/graph.h"

#include <stdio.h>
#include <stdlib.h>

/* -- names --------------------------------------------------------------------------------------- */

/* "layer1.0.conv1.weight": the first place of the first owner. */
static lam_status name_tensors(lam_graph *g, lam_error *e) {
    const lam_model *m = g->m;
    g->tensor_name = lmi_alloc(&g->arena, (uint64_t)m->n_tensors, sizeof *g->tensor_name);
    if (!g->tensor_name) return lmi_nomem(e);
    for (int32_t i = 0; i < m->n_modules; i++) {
        const lam_module *mod = &m->modules[i];
        const char *path = mod->n_places ? m->places[mod->places[0]].path : "";
        for (int32_t k = 0; k < mod->n_owned; k++) {
            int32_t t = mod->owned[k].tensor;
            if (g->tensor_name[t]) continue;
            g->tensor_name[t] = lmi_join_path(&g->arena, path, mod->owned[k].name);
            if (!g->tensor_name[t]) return lmi_nomem(e);
        }
    }
    for (int32_t t = 0; t < m->n_tensors; t++)
        if (!g->tensor_name[t]) g->tensor_name[t] = "?";
    return LAM_OK;
}

/* The name of an argument or result of the model: its keyword, or its position. */
static const char *name_arg(lam_graph *g, const lam_arg *a, const char *what, int32_t i, int32_t n) {
    char text[64];
    if (a->name) return a->name;
    if (n == 1)
        snprintf(text, sizeof text, "%s", what);
    else
        snprintf(text, sizeof text, "%s %d", what, (int)i);
    return lmi_strdup(&g->arena, text);
}

/* -- nodes --------------------------------------------------------------------------------------- */

static lam_status add_node(lam_graph *g, lam_node node, int32_t *index, lam_error *e) {
    if (!node.name) return lmi_nomem(e);
    LAM_TRY(lmi_vec_put(&g->nodes, &node, e));
    *index = (int32_t)g->nodes.n - 1;
    return LAM_OK;
}

static lam_status add_args(lam_graph *g, int32_t call, bool out, lam_error *e) {
    const lam_event *ev = &g->m->events[call];
    int32_t n = out ? ev->n_out : ev->n_in, *first = out ? g->outputs : g->inputs, node;
    const lam_arg *args = out ? ev->out : ev->in;
    for (int32_t i = 0; i < n; i++) {
        lam_node arg = {.type = out ? LAM_NODE_OUTPUT : LAM_NODE_INPUT,
                        .index = i,
                        .call = call,
                        .phase = LAM_FORWARD,
                        .name = name_arg(g, &args[i], out ? "output" : "input", i, n),
                        .shape = {args[i].ndim, args[i].sizes}};
        LAM_TRY(add_node(g, arg, &node, e));
        if (i == 0) first[call] = node;
    }
    return LAM_OK;
}

static lam_status add_tensor(lam_graph *g, int32_t t, lam_error *e) {
    if (g->of_tensor[t] >= 0) return LAM_OK;
    lam_node node = {.type = LAM_NODE_TENSOR,
                     .index = t,
                     .call = -1,
                     .phase = LAM_FORWARD,
                     .name = g->tensor_name[t],
                     .shape = g->m->tensors[t].shape};
    return add_node(g, node, &g->of_tensor[t], e);
}

/* True for an operator that is a node: a unit that is not a view, and that reads or returns a tensor. */
static bool is_node(const lam_graph *g, int32_t op) {
    const lam_op *o = &g->m->ops[op];
    if (g->flow.unit[op] != op || lmi_only_view(o)) return false;
    bool any = lmi_first_tensor(o) >= 0;
    for (int32_t i = 0; i < o->sig->n_out; i++) any = any || o->sig->out[i].is_tensor;
    return any && lmi_op_kind(o->sig->word) != LMI_K_free;
}

static lam_status add_ops(lam_graph *g, lam_error *e) {
    for (int32_t i = 0; i < g->m->n_ops; i++) {
        const lam_op *o = &g->m->ops[i];
        if (!is_node(g, i)) continue;
        lam_node node = {.type = LAM_NODE_OP,
                         .index = i,
                         .call = o->call,
                         .phase = (lam_phase)o->phase,
                         .name = o->sig->name,
                         .shape = lmi_result_shape(o->sig)};
        LAM_TRY(add_node(g, node, &g->of_op[i], e));
    }
    return LAM_OK;
}

/* -- edges --------------------------------------------------------------------------------------- */

/* An operator comes after its arguments, so the source of a view is known when the view is reached. */
static void look_behind(lam_graph *g) {
    for (int32_t i = 0; i < g->m->n_ops; i++) {
        g->behind[i] = (lmi_source){LMI_BY_OP, i};
        if (g->flow.unit[i] != i || !lmi_only_view(&g->m->ops[i])) continue;
        lmi_source s = lmi_flow_from(&g->flow, i, lmi_first_tensor(&g->m->ops[i]));
        g->behind[i] = s.by == LMI_BY_OP && s.index < i ? g->behind[s.index] : s;
    }
}

lmi_source lmi_graph_from(const lam_graph *g, int32_t op, int32_t in) {
    lmi_source s = lmi_flow_from(&g->flow, op, in);
    return s.by == LMI_BY_OP ? g->behind[s.index] : s;
}

int32_t lmi_graph_node(const lam_graph *g, lmi_source s, int32_t call) {
    int32_t root = call >= 0 ? g->root[call] : g->m->n_events > 0 ? 0 : -1;
    switch (s.by) {
    case LMI_BY_OP: return g->of_op[s.index];
    case LMI_BY_TENSOR: return g->of_tensor[s.index];
    case LMI_BY_INPUT:
        if (root < 0 || s.index >= g->m->events[root].n_in) return -1;
        return g->inputs[root] + s.index;
    default: return -1;
    }
}

static lam_status add_edge(lam_graph *g, lmi_source s, int32_t call, int32_t to, int32_t arg, lam_shape shape,
                           lam_error *e) {
    if (s.by == LMI_BY_TENSOR) LAM_TRY(add_tensor(g, s.index, e));
    int32_t from = lmi_graph_node(g, s, call);
    if (from < 0) return LAM_OK;
    return lmi_vec_put(&g->edges, &(lam_edge){from, to, arg, shape}, e);
}

/* One edge from each source of a part of the tensor. */
static lam_status add_edges(lam_graph *g, lmi_givers *givers, int32_t call, int32_t to, int32_t arg,
                            lam_shape shape, lam_error *e) {
    lmi_source s, last = {LMI_BY_NOTHING, -1};
    while (lmi_flow_next(givers, &s)) {
        if (s.by == LMI_BY_OP) s = g->behind[s.index];
        if (s.by == last.by && s.index == last.index) continue;
        last = s;
        LAM_TRY(add_edge(g, s, call, to, arg, shape, e));
    }
    return LAM_OK;
}

static lam_status link_ops(lam_graph *g, lam_error *e) {
    for (int32_t i = 0; i < g->m->n_ops; i++) {
        const lam_op *o = &g->m->ops[i];
        for (int32_t k = 0; g->of_op[i] >= 0 && k < o->sig->n_in; k++) {
            const lam_op_arg *a = &o->sig->in[k];
            if (!a->is_tensor) continue;
            lmi_givers from = lmi_flow_givers(&g->flow, i, k);
            LAM_TRY(add_edges(g, &from, o->call, g->of_op[i], k, (lam_shape){a->ndim, a->sizes}, e));
        }
    }
    return LAM_OK;
}

static lam_status link_outputs(lam_graph *g, lam_error *e) {
    for (int32_t i = 0; i < g->m->n_events; i++) {
        const lam_event *ev = &g->m->events[i];
        for (int32_t k = 0; ev->parent < 0 && k < ev->n_out; k++) {
            lmi_givers from = lmi_flow_result_givers(&g->flow, i, k);
            lam_shape shape = {ev->out[k].ndim, ev->out[k].sizes};
            LAM_TRY(add_edges(g, &from, i, g->outputs[i] + k, k, shape, e));
        }
    }
    return LAM_OK;
}

/* the whole graph */

static lam_status build(lam_graph *g, bool edges, lam_error *e) {
    const lam_model *m = g->m;
    g->of_op = lmi_alloc_none(&g->arena, m->n_ops);
    g->of_tensor = lmi_alloc_none(&g->arena, m->n_tensors);
    g->inputs = lmi_alloc_none(&g->arena, m->n_events);
    g->outputs = lmi_alloc_none(&g->arena, m->n_events);
    g->behind = lmi_alloc(&g->arena, (uint64_t)m->n_ops, sizeof *g->behind);
    if (!g->of_op || !g->of_tensor || !g->inputs || !g->outputs || !g->behind) return lmi_nomem(e);
    if (!lmi_flow_roots(m, &g->arena, &g->root)) return lmi_nomem(e);
    LAM_TRY(lmi_flow_build(&g->flow, m, &g->arena, lmi_flow_counts, NULL, e));
    LAM_TRY(name_tensors(g, e));
    look_behind(g);
    for (int32_t i = 0; i < m->n_events; i++)
        if (m->events[i].parent < 0) LAM_TRY(add_args(g, i, false, e));
    LAM_TRY(add_ops(g, e));
    for (int32_t i = 0; i < m->n_events; i++)
        if (m->events[i].parent < 0) LAM_TRY(add_args(g, i, true, e));
    if (edges) LAM_TRY(link_ops(g, e));
    if (edges) LAM_TRY(link_outputs(g, e));
    return lmi_graph_findings(g, e);
}

static lam_status take_findings(lmi_vec *to, int32_t n, const char *const (*from)[2], lam_error *e) {
    for (int32_t i = 0; i < n; i++) LAM_TRY(lmi_vec_put(to, &(lmi_finding){from[i][0], from[i][1]}, e));
    return LAM_OK;
}

/* Of a report that was saved: its findings alone, without a node. */
static lam_status take_given(lam_graph *g, const lmi_given *from, lam_error *e) {
    LAM_TRY(take_findings(&g->unused, from->n_unused, (const char *const(*)[2])from->unused, e));
    return take_findings(&g->no_gradient, from->n_no_gradient, (const char *const(*)[2])from->no_gradient, e);
}

static lam_status make(lam_graph **out, const lam_model *m, bool edges, lam_error *e) {
    if (!out) return lmi_fail(e, LAM_USAGE, "lam_graph_new", "there is nowhere to put the result");
    *out = NULL;
    if (!m) return lmi_fail(e, LAM_USAGE, "lam_graph_new", "there is no model to draw");
    if (!m->ops_seen)
        return lmi_fail(e, LAM_USAGE, "graph",
                        "the graph is made of operators and none were watched; capture with ops=True");
    if (!m->traced)
        return lmi_fail(e, LAM_UNSUPPORTED, "graph",
                        "which operator gave what to which is not known: this torch does not tell whose "
                        "memory a tensor has; a newer one does");
    lam_graph *g = calloc(1, sizeof *g);
    if (!g) return lmi_nomem(e);
    lmi_arena_init(&g->arena, UINT64_MAX);
    lmi_vec_init(&g->nodes, sizeof(lam_node));
    lmi_vec_init(&g->edges, sizeof(lam_edge));
    lmi_vec_init(&g->unused, sizeof(lmi_finding));
    lmi_vec_init(&g->no_gradient, sizeof(lmi_finding));
    g->m = m;
    lam_status s = m->given ? take_given(g, m->given, e) : build(g, edges, e);
    if (s == LAM_OK)
        *out = g;
    else
        lam_graph_free(g);
    return s;
}

lam_status lam_graph_new(lam_graph **out, const lam_model *m, lam_error *e) { return make(out, m, true, e); }
lam_status lmi_graph_found(lam_graph **out, const lam_model *m, lam_error *e) {
    return make(out, m, false, e);
}

void lam_graph_free(lam_graph *g) {
    if (!g) return;
    lmi_vec_free(&g->nodes);
    lmi_vec_free(&g->edges);
    lmi_vec_free(&g->unused);
    lmi_vec_free(&g->no_gradient);
    lmi_arena_free(&g->arena);
    free(g);
}

int32_t lam_graph_n_nodes(const lam_graph *g) { return (int32_t)g->nodes.n; }
int32_t lam_graph_n_edges(const lam_graph *g) { return (int32_t)g->edges.n; }

const lam_node *lam_graph_node(const lam_graph *g, int32_t i) {
    return i >= 0 ? lmi_vec_at(&g->nodes, (size_t)i) : NULL;
}
const lam_edge *lam_graph_edge(const lam_graph *g, int32_t i) {
    return i >= 0 ? lmi_vec_at(&g->edges, (size_t)i) : NULL;
}
