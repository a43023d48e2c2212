/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole of a file: which fields of the model there are, the names that graphs share, and the order of
 * nodes. */
#include "read/onnx/onnx.h"
#include "read/onnx/source.h"

/* What a model may take, beside three times the size of its file. */
#define LEAST_MEMORY (UINT64_C(32) << 20)

/* -- is it one? --------------------------------------------------------------------------------------------
 */

/* One number of the head; false: it does not end there. */
static bool head_varint(const unsigned char *head, size_t n, size_t *at, uint64_t *out) {
    *out = 0;
    for (int shift = 0; shift < 63 && *at < n; shift += 7) {
        const unsigned char byte = head[(*at)++];
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return true;
    }
    return false;
}

/* True for the key of a field that a graph has. */
static bool graph_key(unsigned char key) {
    static const unsigned char fields[] = {1, 2, 5, 10, 11, 12, 13, 14, 15};
    for (size_t i = 0; i < sizeof fields; i++)
        if (key == (fields[i] << 3 | LMI_WIRE_LENGTH)) return true;
    return false;
}

bool lmi_is_onnx(const unsigned char *head, size_t n, uint64_t size) {
    enum { VERSION = 1, MODEL_VERSION = 5, GRAPH = 7, OPSETS = 8, META = 14, LAST = 26 };
    bool version = false;
    size_t at = 0;
    while (at < n) {
        uint64_t key, value;
        if (!head_varint(head, n, &at, &key) || !head_varint(head, n, &at, &value)) break;
        const uint64_t field = key >> 3, type = key & 7;
        if (field == 0 || field > LAST || (type != LMI_WIRE_VARINT && type != LMI_WIRE_LENGTH)) return false;
        if ((type == LMI_WIRE_VARINT) != (field == VERSION || field == MODEL_VERSION)) return false;
        if (field == VERSION) version = value < 1000;
        if (type == LMI_WIRE_VARINT) continue;
        if (value > size - at) return version && field == GRAPH && at < n && graph_key(head[at]);
        if (field == GRAPH && value && at < n) return graph_key(head[at]) || head[at] == 0x82;
        if (field == GRAPH || value > n - at) return version;
        at += (size_t)value;
    }
    return version && at == n && n < size; /* what follows is beyond the head */
}

/* -- the fields of a model ---------------------------------------------------------------------------------
 */

typedef struct parts {
    lmi_vec opsets, meta;
    lmi_field graph; /* number 0: none */
} parts;

static lam_status function(lmi_onnx_reader *r, const lmi_field *of, lam_error *e) {
    lmi_onnx_function fn = {.name = "", .domain = "", .overload = "", .start = of->start, .end = of->end};
    lmi_field f = {0};
    bool more;
    LAM_TRY(lmi_wire_is(&r->c, of, LMI_WIRE_LENGTH, "a function", e));
    for (;;) {
        LAM_TRY(lmi_wire_next(&r->c, of->end, &f, &more, e));
        if (!more) break;
        if (f.number == 1) LAM_TRY(lmi_wire_text(&r->c, &f, &r->m->arena, &fn.name, e));
        if (f.number == 10) LAM_TRY(lmi_wire_text(&r->c, &f, &r->m->arena, &fn.domain, e));
        if (f.number == 13) LAM_TRY(lmi_wire_text(&r->c, &f, &r->m->arena, &fn.overload, e));
    }
    if (strcmp(fn.domain, "ai.onnx") == 0) fn.domain = "";
    return lmi_onnx_function_add(r, &fn, e);
}

static lam_status entry(lmi_onnx_reader *r, const lmi_field *f, lmi_vec *to, lam_error *e) {
    lmi_onnx_text t;
    LAM_TRY(lmi_onnx_entry_read(r, f, &t, e));
    return lmi_vec_put(to, &t, e);
}

static lam_status model_fields(lmi_onnx_reader *r, parts *p, lam_error *e) {
    lmi_onnx_model *m = r->m;
    lmi_field f = {0};
    bool more;
    for (;;) {
        lam_status status = LAM_OK;
        LAM_TRY(lmi_wire_next(&r->c, m->file->size, &f, &more, e));
        if (!more) return LAM_OK;
        switch (f.number) {
        case 1:
            status = lmi_wire_is(&r->c, &f, LMI_WIRE_VARINT, "a version", e);
            m->ir_version = f.value < 1000000 ? (int64_t)f.value : 0;
            break;
        case 2: status = lmi_wire_text(&r->c, &f, &m->arena, &m->producer, e); break;
        case 3: status = lmi_wire_text(&r->c, &f, &m->arena, &m->producer_version, e); break;
        case 7:
            status = lmi_wire_is(&r->c, &f, LMI_WIRE_LENGTH, "the graph", e);
            if (p->graph.number) status = lmi_onnx_bad(r, f.at, e, "it has two graphs");
            p->graph = f;
            break;
        case 8: status = lmi_onnx_opset_read(r, &f, &p->opsets, e); break;
        case 14: status = entry(r, &f, &p->meta, e); break;
        case 25: status = function(r, &f, e); break;
        default: break;
        }
        LAM_TRY(status);
    }
}

/* -- names that are of outer graphs ------------------------------------------------------------------------
 */

static lam_status final_value(const lmi_onnx_reader *r, int32_t *value, lam_error *e) {
    int32_t v = *value;
    for (int32_t steps = 0; v >= 0; steps++) {
        const lmi_onnx_naming *n = lmi_vec_at(&r->namings, (size_t)v);
        if (n->same == -1) break;
        if (steps > 4 * LMI_ONNX_DEEPEST)
            return lmi_fail(e, LAM_SYNTAX, r->m->file->name, "it is damaged: '%s' is made from itself",
                            lmi_onnx_value_at(r->m, *value)->name);
        v = n->same;
    }
    *value = v < 0 ? -1 : v;
    return LAM_OK;
}

static lam_status final_list(const lmi_onnx_reader *r, const int32_t *list, int32_t n, lam_error *e) {
    int32_t *mine = (int32_t *)(uintptr_t)list; /* the arena's */
    for (int32_t i = 0; i < n; i++) LAM_TRY(final_value(r, &mine[i], e));
    return LAM_OK;
}

static lam_status final_graph(const lmi_onnx_reader *r, const lmi_onnx_graph *g,
                              lam_error *e) { /* NOLINT(misc-no-recursion) */
    LAM_TRY(final_list(r, g->outputs, g->n_outputs, e));
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const lmi_onnx_node *n = lmi_onnx_node_at(r->m, g->nodes[i]);
        LAM_TRY(final_list(r, n->in, n->n_in, e));
        for (int32_t k = 0; k < n->n_attrs; k++)
            if (n->attrs[k].graph) LAM_TRY(final_graph(r, n->attrs[k].graph, e));
    }
    return LAM_OK;
}

/* -- the order of nodes ------------------------------------------------------------------------------------
 */

/* Of one graph: who reads whom. Files have nodes after those whose results they read; where one has not, they
 * are put in order. */
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

/* Puts the nodes of a graph and of all in it after those whose results they read. LAM_SYNTAX: there is none
 * such order. */
static lam_status put_in_order(lmi_onnx_model *m, lmi_onnx_graph *g, lam_error *e) {
    lmi_arena a;
    lmi_arena_init(&a, m->arena.limit);
    int32_t *local = lmi_alloc_none(&a, (int32_t)m->nodes.n);
    lam_status s = local ? order_all(m, &a, local, g, e) : lmi_nomem(e);
    lmi_arena_free(&a);
    return s;
}

/* -- all of it ---------------------------------------------------------------------------------------------
 */

static lam_status parse(lmi_onnx_reader *r, parts *p, lam_error *e) {
    lmi_onnx_model *m = r->m;
    LAM_TRY(model_fields(r, p, e));
    if (!p->graph.number)
        return lmi_fail(
            e, LAM_SYNTAX, m->file->name,
            "it is damaged: it has no graph; a model of TensorFlow is not read: convert it to ONNX");
    m->opset_domains = lmi_copy(&m->arena, p->opsets.data, p->opsets.n, sizeof(lmi_onnx_text));
    m->meta = lmi_copy(&m->arena, p->meta.data, p->meta.n, sizeof(lmi_onnx_text));
    if (!m->opset_domains || !m->meta) return lmi_nomem(e);
    m->n_opsets = (int32_t)p->opsets.n;
    m->n_meta = (int32_t)p->meta.n;
    r->c.at = p->graph.start;
    LAM_TRY(lmi_onnx_graph_read(r, NULL, p->graph.end, &m->graph, e));
    LAM_TRY(final_graph(r, m->graph, e));
    return put_in_order(m, m->graph, e);
}

lam_status lmi_onnx_parse(lmi_onnx_model *m, const lmi_bytes *file, lam_error *e) {
    lmi_onnx_reader r = {.m = m};
    parts p = {0};
    const uint64_t most = (UINT64_C(16) << 20) + file->size;
    *m = (lmi_onnx_model){.file = file, .producer = "", .producer_version = ""};
    lmi_arena_init(&m->arena, most);
    lmi_vec_init(&m->values, sizeof(lmi_onnx_value));
    lmi_vec_init(&m->nodes, sizeof(lmi_onnx_node));
    lmi_vec_init(&m->symbols, sizeof(lmi_onnx_symbol));
    lmi_map_init(&m->by_symbol);
    lmi_vec_init(&r.namings, sizeof(lmi_onnx_naming));
    lmi_vec_init(&r.functions, sizeof(lmi_onnx_function));
    lmi_map_init(&r.by_name);
    lmi_vec_init(&p.opsets, sizeof(lmi_onnx_text));
    lmi_vec_init(&p.meta, sizeof(lmi_onnx_text));
    r.work = (INT64_C(16) << 20) + 4 * (int64_t)(file->size < (UINT64_C(1) << 40) ? file->size : 0);
    m->piece = lmi_alloc(&m->arena, LMI_PIECE, 1);
    r.c = lmi_cursor_of(file, m->piece);
    lam_status s = m->piece ? parse(&r, &p, e) : lmi_nomem(e);
    lmi_vec_free(&r.namings);
    lmi_vec_free(&r.functions);
    lmi_map_free(&r.by_name);
    lmi_vec_free(&p.opsets);
    lmi_vec_free(&p.meta);
    return s;
}

void lmi_onnx_free(lmi_onnx_model *m) {
    lmi_vec_free(&m->values);
    lmi_vec_free(&m->nodes);
    lmi_vec_free(&m->symbols);
    lmi_map_free(&m->by_symbol);
    lmi_arena_free(&m->arena);
}

lam_status lmi_onnx_model_of(lam_model **out, const lmi_bytes *file, const lam_read_options *o,
                             const lam_read_size *other, lam_error *e) {
    const uint64_t limit = o && o->memory_limit ? o->memory_limit : LEAST_MEMORY + 3 * file->size;
    lmi_onnx_model m;
    lmi_vec open;
    lmi_vec_init(&open, sizeof(lmi_onnx_axis));
    lam_status s = lmi_onnx_parse(&m, file, e);
    if (s == LAM_OK) s = lmi_onnx_open_axes(&m, &open, e);
    if (s == LAM_OK) s = lmi_onnx_infer_with(&m, o, other, e);
    if (s == LAM_OK) s = lmi_onnx_build(out, &m, o, limit, e);
    if (s == LAM_OK && (s = lmi_onnx_open_sizes(&m, &open, *out, e)) != LAM_OK) {
        lam_model_free(*out);
        *out = NULL;
    }
    s = lmi_bytes_limit(file, m.arena.full, s, e);
    lmi_vec_free(&open);
    lmi_onnx_free(&m);
    return s;
}
