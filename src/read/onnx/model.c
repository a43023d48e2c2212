/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole of a file: which fields of the model there are, and the names that graphs share. */
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
    return lmi_vec_put(&r->functions, &fn, e);
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
    return lmi_onnx_order(m, m->graph, e);
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
    lmi_vec_init(&p.opsets, sizeof(lmi_onnx_text));
    lmi_vec_init(&p.meta, sizeof(lmi_onnx_text));
    r.work = (INT64_C(16) << 20) + 4 * (int64_t)(file->size < (UINT64_C(1) << 40) ? file->size : 0);
    m->piece = lmi_alloc(&m->arena, LMI_PIECE, 1);
    r.c = lmi_cursor_of(file, m->piece);
    lam_status s = m->piece ? parse(&r, &p, e) : lmi_nomem(e);
    lmi_vec_free(&r.namings);
    lmi_vec_free(&r.functions);
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
    s = lmi_bytes_limit(file, &m.arena, s, e);
    lmi_vec_free(&open);
    lmi_onnx_free(&m);
    return s;
}
