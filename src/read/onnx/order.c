/* SPDX-License-Identifier: Apache-2.0
 *
 * The nodes of a graph after those whose results they read. Files have them so; where one has not, they are
 * put in order, and a circle is refused. */
#include "read/onnx/reader.h"

/* Of one graph: who reads whom. */
typedef struct edges {
    lmi_onnx_model *m;
    const lmi_onnx_graph *g;
    int32_t *local;   /* of a node of the model its position in the graph; -1: it is of another one */
    lmi_vec from, to; /* int32_t: positions */
    bool sorted;
} edges;

/* Notes that the node at a position reads a value. */
static lam_status reads(edges *d, int32_t value, int32_t by, lam_error *e) {
    const lmi_onnx_value *v = lmi_onnx_value_at(d->m, value);
    const int32_t made = v->producer >= 0 ? d->local[v->producer] : -1;
    if (made < 0) return LAM_OK;
    if (made >= by) d->sorted = false;
    LAM_TRY(lmi_vec_put(&d->from, &made, e));
    return lmi_vec_put(&d->to, &by, e);
}

/* What a node and the graphs in it read. The depth is that of graphs in graphs, which is bounded. */
static lam_status reads_of(edges *d, const lmi_onnx_node *n, int32_t by,
                           lam_error *e) { /* NOLINT(misc-no-recursion) */
    for (int32_t i = 0; i < n->n_in; i++)
        if (n->in[i] >= 0) LAM_TRY(reads(d, n->in[i], by, e));
    for (int32_t k = 0; k < n->n_attrs; k++) {
        const lmi_onnx_graph *inner = n->attrs[k].graph;
        for (int32_t i = 0; inner && i < inner->n_nodes; i++)
            LAM_TRY(reads_of(d, lmi_onnx_node_at(d->m, inner->nodes[i]), by, e));
        for (int32_t i = 0; inner && i < inner->n_outputs; i++)
            if (inner->outputs[i] >= 0) LAM_TRY(reads(d, inner->outputs[i], by, e));
    }
    return LAM_OK;
}

static lam_status circle(const edges *d, const int32_t *waits, lam_error *e) {
    int32_t i = 0;
    while (waits[i] == 0) i++;
    const lmi_onnx_node *n = lmi_onnx_node_at(d->m, d->g->nodes[i]);
    return lmi_fail(e, LAM_SYNTAX, d->m->file->name,
                    "it is damaged: node '%s' (%s) reads what is made from its own result (at byte %llu)",
                    n->name, n->op, (unsigned long long)n->at);
}

static lam_status sort(edges *d, lmi_arena *a, int32_t *order, lam_error *e) {
    const int32_t n = d->g->n_nodes;
    const int32_t *from = d->from.data, *to = d->to.data;
    int32_t *waits = lmi_alloc(a, (uint64_t)n, sizeof *waits), first = 0, last = 0;
    lmi_groups by;
    if (!waits || !lmi_group_by(a, from, (int32_t)d->from.n, n, &by)) return lmi_nomem(e);
    for (size_t i = 0; i < d->to.n; i++) waits[to[i]]++;
    for (int32_t i = 0; i < n; i++)
        if (waits[i] == 0) order[last++] = i;
    while (first < last) {
        const int32_t node = order[first++];
        for (int32_t k = by.start[node]; k < by.start[node + 1]; k++)
            if (--waits[to[by.order[k]]] == 0) order[last++] = to[by.order[k]];
    }
    if (last < n) return circle(d, waits, e);
    for (int32_t i = 0; i < n; i++) order[i] = d->g->nodes[order[i]];
    return LAM_OK;
}

static lam_status order_in(edges *d, lmi_arena *a, lmi_onnx_graph *g, lam_error *e) {
    for (int32_t i = 0; i < g->n_nodes; i++) d->local[g->nodes[i]] = i;
    for (int32_t i = 0; i < g->n_nodes; i++) LAM_TRY(reads_of(d, lmi_onnx_node_at(d->m, g->nodes[i]), i, e));
    if (!d->sorted && d->from.n > INT32_MAX / 2)
        return lmi_fail(e, LAM_LIMIT, d->m->file->name, "it has too many nodes to put them in order");
    if (!d->sorted) {
        int32_t *order = lmi_alloc(&d->m->arena, (uint64_t)g->n_nodes, sizeof *order);
        if (!order) return lmi_nomem(e);
        LAM_TRY(sort(d, a, order, e));
        g->nodes = order;
    }
    for (int32_t i = 0; i < g->n_nodes; i++) d->local[g->nodes[i]] = -1;
    return LAM_OK;
}

static lam_status order_one(lmi_onnx_model *m, lmi_arena *a, int32_t *local, lmi_onnx_graph *g,
                            lam_error *e) {
    edges d = {.m = m, .g = g, .local = local, .sorted = true};
    lmi_vec_init(&d.from, sizeof(int32_t));
    lmi_vec_init(&d.to, sizeof(int32_t));
    lam_status s = order_in(&d, a, g, e);
    lmi_vec_free(&d.from);
    lmi_vec_free(&d.to);
    return s;
}

static lam_status order_all(lmi_onnx_model *m, lmi_arena *a, int32_t *local, lmi_onnx_graph *g,
                            lam_error *e) { /* NOLINT(misc-no-recursion) */
    LAM_TRY(order_one(m, a, local, g, e));
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const lmi_onnx_node *n = lmi_onnx_node_at(m, g->nodes[i]);
        for (int32_t k = 0; k < n->n_attrs; k++)
            if (n->attrs[k].graph) LAM_TRY(order_all(m, a, local, n->attrs[k].graph, e));
    }
    return LAM_OK;
}

lam_status lmi_onnx_order(lmi_onnx_model *m, lmi_onnx_graph *g, lam_error *e) {
    lmi_arena a;
    lmi_arena_init(&a, m->arena.limit);
    int32_t *local = lmi_alloc_none(&a, (int32_t)m->nodes.n);
    lam_status s = local ? order_all(m, &a, local, g, e) : lmi_nomem(e);
    lmi_arena_free(&a);
    return s;
}
