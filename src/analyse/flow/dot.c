/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph in Graphviz' DOT. At the level of operators each node is one; at the level of modules a node
 * is a sequence of operators of one call. */
#include "analyse/flow/graph.h"

enum { NAMES_AT_MOST = 4 }; /* operators named in a node of the modules' level */

/* -- quoting ------------------------------------------------------------------------------------- */

/* Inside double quotes. Characters that could control a terminal are replaced; a backslash is escaped. */
static void put_quoted(lmi_buf *b, const char *s) {
    lmi_buf clean;
    lmi_buf_init(&clean);
    lmi_put_clean(&clean, s);
    for (const char *c = lmi_buf_text(&clean); *c; c++) {
        if (*c == '"' || *c == '\\') lmi_putc(b, '\\');
        lmi_putc(b, *c);
    }
    b->bad = b->bad || clean.bad;
    lmi_buf_free(&clean);
}

/* `"a" -> "b" [label="1×3×8×8"];` */
static void put_edge(lmi_buf *b, const char *from_prefix, int32_t from, const char *to_prefix, int32_t to,
                     lam_shape shape) {
    lmi_putf(b, "  %s%d -> %s%d", from_prefix, (int)from, to_prefix, (int)to);
    if (shape.ndim >= 0) {
        lmi_put(b, " [label=\"");
        lmi_put_sizes(b, shape.ndim, shape.sizes);
        lmi_put(b, "\"]");
    }
    lmi_put(b, ";\n");
}

static void put_head(const lam_graph *g, lmi_buf *b) {
    const lam_place *root = g->m->n_places ? &g->m->places[0] : NULL;
    lmi_put(b, "digraph \"");
    put_quoted(b, root ? g->m->modules[root->module].type : "operators");
    lmi_put(b,
            "\" {\n  rankdir=TB;\n  node [shape=box, style=rounded, fontname=\"sans-serif\", fontsize=11];\n"
            "  edge [fontname=\"sans-serif\", fontsize=9];\n");
}

/* nodes of both levels */

static void put_end(const lam_graph *g, lmi_buf *b, int32_t i) {
    const lam_node *n = lam_graph_node(g, i);
    lmi_putf(b, "  n%d [label=\"", (int)i);
    put_quoted(b, n->name);
    if (n->shape.ndim >= 0) lmi_put(b, "\\n");
    lmi_put_sizes(b, n->shape.ndim, n->shape.sizes);
    lmi_putf(b, "\", shape=%s, style=filled, fillcolor=\"%s\"];\n",
             n->type == LAM_NODE_TENSOR ? "cylinder" : "oval",
             n->type == LAM_NODE_TENSOR ? "#eeeeee" : "#dce9f7");
}

static const lam_place *place_of(const lam_graph *g, int32_t call) {
    return call >= 0 ? &g->m->places[g->m->events[call].place] : NULL;
}

/* -- operators ----------------------------------------------------------------------------------- */

static void put_op(const lam_graph *g, lmi_buf *b, int32_t i) {
    static const char *const colour[LAM_N_PHASES] = {"", ", color=\"#b04a2f\"", ", color=\"#7a4fb0\""};
    const lam_node *n = lam_graph_node(g, i);
    const lam_place *p = place_of(g, n->call);
    lmi_putf(b, "  n%d [label=\"", (int)i);
    put_quoted(b, n->name);
    if (p && *p->path) {
        lmi_put(b, "\\n");
        put_quoted(b, p->path);
    }
    lmi_putf(b, "\"%s];\n", colour[n->phase]);
}

static void put_ops(const lam_graph *g, lmi_buf *b) {
    for (int32_t i = 0; i < lam_graph_n_nodes(g); i++) {
        if (lam_graph_node(g, i)->type == LAM_NODE_OP)
            put_op(g, b, i);
        else
            put_end(g, b, i);
    }
    for (int32_t i = 0; i < lam_graph_n_edges(g); i++) {
        const lam_edge *edge = lam_graph_edge(g, i);
        put_edge(b, "n", edge->from, "n", edge->to, edge->shape);
    }
}

/* -- modules ------------------------------------------------------------------------------------- */

typedef struct run { /* a sequence of operators of one call */
    int32_t call, first;
} run;

typedef struct runs {
    const lam_graph *g;
    lmi_vec all;   /* run */
    int32_t *of;   /* per operator: its run, -1 */
    lmi_map drawn; /* edges that were written */
} runs;

static bool is_drawn(const lam_graph *g, int32_t op) {
    const lam_op *o = &g->m->ops[op];
    return g->flow.unit[op] == op && o->phase == LAM_FORWARD && (g->of_op[op] >= 0 || lmi_only_view(o));
}

static lam_status find_runs(runs *r, lmi_arena *scratch, lam_error *e) {
    const lam_model *m = r->g->m;
    int32_t last = -2;
    r->of = lmi_alloc(scratch, (uint64_t)m->n_ops, sizeof *r->of);
    if (!r->of) return lmi_nomem(e);
    for (int32_t i = 0; i < m->n_ops; i++) {
        r->of[i] = -1;
        if (!is_drawn(r->g, i)) continue;
        if (m->ops[i].call != last || r->all.n == 0)
            LAM_TRY(lmi_vec_put(&r->all, &(run){m->ops[i].call, i}, e));
        last = m->ops[i].call;
        r->of[i] = (int32_t)r->all.n - 1;
    }
    return LAM_OK;
}

/* The names of the first operators of a sequence, if the call has other calls and its class does not
 * describe it. */
static void put_names(const runs *r, int32_t at, lmi_buf *b) {
    const lam_model *m = r->g->m;
    const char *before = "";
    int32_t put = 0;
    for (int32_t i = ((run *)lmi_vec_at(&r->all, (size_t)at))->first; i < m->n_ops; i++) {
        if (r->of[i] != at) {
            if (r->of[i] >= 0) break;
            continue;
        }
        const char *name = strstr(m->ops[i].sig->name, "::"),
                   *short_name = name ? name + 2 : m->ops[i].sig->name;
        if (strcmp(short_name, before) == 0) continue;
        lmi_put(b, put == 0 ? "\\n" : ", ");
        if (put == NAMES_AT_MOST) lmi_put(b, "...");
        if (put++ == NAMES_AT_MOST) break;
        put_quoted(b, short_name);
        before = short_name;
    }
}

static void put_run(const runs *r, int32_t at, lmi_buf *b) {
    const run *it = lmi_vec_at(&r->all, (size_t)at);
    const lam_model *m = r->g->m;
    const lam_event *ev = it->call >= 0 ? &m->events[it->call] : NULL;
    const lam_place *p = place_of(r->g, it->call);
    lmi_putf(b, "  m%d [label=\"", (int)at);
    if (p && *p->path) {
        put_quoted(b, p->path);
        lmi_put(b, "\\n");
    }
    put_quoted(b, ev ? m->modules[ev->module].type : "outside every call");
    if (ev && m->modules[ev->module].n_calls > 1 && ev->parent >= 0)
        lmi_putf(b, ", call %d", (int)ev->ordinal + 1);
    if (!ev || !(m->modules[ev->module].flags & LAM_MODULE_LEAF)) put_names(r, at, b);
    lmi_put(b, "\"];\n");
}

/* One edge, however many tensors it has. */
static lam_status draw(runs *r, lmi_buf *b, lmi_source s, int32_t call, const char *to_prefix, int32_t to,
                       lam_shape shape, lam_error *e) {
    bool input = s.by == LMI_BY_INPUT;
    int32_t from = s.by == LMI_BY_OP ? r->of[s.index] : input ? lmi_graph_node(r->g, s, call) : -1;
    bool self = s.by == LMI_BY_OP && *to_prefix == 'm' && from == to;
    uint64_t key = ((uint64_t)(uint32_t)from * 2 + input) << 32 | ((uint32_t)to * 2 + (*to_prefix == 'm'));
    if (from < 0 || self || lmi_map_get_u64(&r->drawn, key) >= 0) return LAM_OK;
    put_edge(b, input ? "n" : "m", from, to_prefix, to, shape);
    return lmi_map_put_u64(&r->drawn, key, 1, e);
}

static lam_status put_run_edges(runs *r, lmi_buf *b, lam_error *e) {
    const lam_model *m = r->g->m;
    for (int32_t i = 0; i < m->n_ops; i++) {
        const lam_op_sig *sig = m->ops[i].sig;
        for (int32_t k = 0; r->of[i] >= 0 && k < sig->n_in; k++) {
            if (!sig->in[k].is_tensor) continue;
            lam_shape shape = {sig->in[k].ndim, sig->in[k].sizes};
            lmi_givers from = lmi_flow_givers(&r->g->flow, i, k);
            for (lmi_source s; lmi_flow_next(&from, &s);)
                LAM_TRY(draw(r, b, s, m->ops[i].call, "m", r->of[i], shape, e));
        }
    }
    for (int32_t i = 0; i < m->n_events; i++) {
        const lam_event *ev = &m->events[i];
        for (int32_t k = 0; ev->parent < 0 && k < ev->n_out; k++) {
            lam_shape shape = {ev->out[k].ndim, ev->out[k].sizes};
            lmi_givers from = lmi_flow_result_givers(&r->g->flow, i, k);
            for (lmi_source s; lmi_flow_next(&from, &s);)
                LAM_TRY(draw(r, b, s, i, "n", r->g->outputs[i] + k, shape, e));
        }
    }
    return LAM_OK;
}

static lam_status put_modules(const lam_graph *g, lmi_buf *b, lam_error *e) {
    runs r = {.g = g};
    lmi_arena scratch;
    lmi_arena_init(&scratch, UINT64_MAX);
    lmi_vec_init(&r.all, sizeof(run));
    lmi_map_init(&r.drawn);
    lam_status s = find_runs(&r, &scratch, e);
    for (int32_t i = 0; s == LAM_OK && i < lam_graph_n_nodes(g); i++) {
        const lam_node *n = lam_graph_node(g, i);
        if (n->type == LAM_NODE_INPUT || n->type == LAM_NODE_OUTPUT) put_end(g, b, i);
    }
    for (int32_t i = 0; s == LAM_OK && i < (int32_t)r.all.n; i++) put_run(&r, i, b);
    if (s == LAM_OK) s = put_run_edges(&r, b, e);
    lmi_map_free(&r.drawn);
    lmi_vec_free(&r.all);
    lmi_arena_free(&scratch);
    return s;
}

lam_status lam_graph_dot(const lam_graph *g, bool ops, lam_sink to, lam_error *e) {
    lmi_buf b;
    lmi_buf_init(&b);
    put_head(g, &b);
    lam_status s = LAM_OK;
    if (ops)
        put_ops(g, &b);
    else
        s = put_modules(g, &b, e);
    lmi_put(&b, "}\n");
    if (s == LAM_OK) s = lmi_buf_status(&b, e);
    if (s == LAM_OK) s = lmi_buf_flush(&b, to, e);
    lmi_buf_free(&b);
    return s;
}
