/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs, nodes and functions. A call of a function that the model defines becomes the nodes of the function.
 */
#include "read/onnx/reader.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_OPSETS = 256 }; /* each node looks for its own */

/* -- values ---------------------------------------------------------------------------------------------- */

static lmi_onnx_naming *naming(const lmi_onnx_reader *r, int32_t value) {
    return lmi_vec_at(&r->namings, (size_t)value);
}

/* The value that a graph defines by that name. */
static lam_status define(lmi_onnx_reader *r, lmi_onnx_scope *s, const char *name, uint64_t at, int32_t *out,
                         lam_error *e) {
    LAM_TRY(lmi_onnx_name(r, s, name, out, e));
    if (*out < 0) return LAM_OK;
    if (naming(r, *out)->defined) return lmi_onnx_bad(r, at, e, "two things have the name '%s'", name);
    naming(r, *out)->defined = true;
    lmi_onnx_value_at(r->m, *out)->graph = s->graph;
    return LAM_OK;
}

/* Takes what is stated of a value, unless a tensor tells it. */
static void state(lmi_onnx_value *v, const lmi_onnx_value *is) {
    if (v->initialiser || v->where != LMI_ONNX_NOWHERE || (v->stated && v->ndim >= 0)) return;
    v->kind = is->kind;
    v->type = is->type;
    v->ndim = is->ndim;
    v->sizes = is->sizes;
    v->symbols = is->symbols;
    v->stated = true;
}

/* -- nodes ----------------------------------------------------------------------------------------------- */

/* A node while its fields are read. */
typedef struct draft {
    lmi_vec in, out, attrs, meta;
    const char *overload; /* of the function that it calls; never NULL */
} draft;

static void draft_free(draft *d) {
    lmi_vec_free(&d->in);
    lmi_vec_free(&d->out);
    lmi_vec_free(&d->attrs);
    lmi_vec_free(&d->meta);
}

static lam_status put_name(lmi_onnx_reader *r, const lmi_field *f, lmi_vec *to, lam_error *e) {
    const char *name;
    LAM_TRY(lmi_wire_text(&r->c, f, &r->m->arena, &name, e));
    return lmi_vec_put(to, &name, e);
}

/* Of what exporters note of a node, that which tells its module. */
static bool tells_module(const char *key) {
    static const char *const keys[] = {"pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy",
                                       "namespace"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i]) == 0) return true;
    return false;
}

static lam_status put_meta(lmi_onnx_reader *r, const lmi_field *f, lmi_vec *to, lam_error *e) {
    lmi_onnx_text t;
    LAM_TRY(lmi_onnx_entry_read(r, f, &t, e));
    return tells_module(t.key) ? lmi_vec_put(to, &t, e) : LAM_OK;
}

static lam_status put_attr(lmi_onnx_reader *r, lmi_onnx_scope *s, const lmi_field *f, lmi_vec *to,
                           lam_error *e) {
    lmi_onnx_attribute a;
    bool is;
    LAM_TRY(lmi_onnx_attribute_read(r, s, f, &a, &is, e));
    return is ? lmi_vec_put(to, &a, e) : LAM_OK;
}

static lam_status node_fields(lmi_onnx_reader *r, lmi_onnx_scope *s, const lmi_field *of, draft *d,
                              lmi_onnx_node *n, lam_error *e) {
    lmi_arena *a = &r->m->arena;
    lmi_field f = {0};
    bool more;
    for (;;) {
        lam_status status = LAM_OK;
        LAM_TRY(lmi_wire_next(&r->c, of->end, &f, &more, e));
        if (!more) return LAM_OK;
        switch (f.number) {
        case 1: status = put_name(r, &f, &d->in, e); break;
        case 2: status = put_name(r, &f, &d->out, e); break;
        case 3: status = lmi_wire_text(&r->c, &f, a, &n->name, e); break;
        case 4: status = lmi_wire_text(&r->c, &f, a, &n->op, e); break;
        case 5: status = put_attr(r, s, &f, &d->attrs, e); break;
        case 7: status = lmi_wire_text(&r->c, &f, a, &n->domain, e); break;
        case 8: status = lmi_wire_text(&r->c, &f, a, &d->overload, e); break;
        case 9: status = put_meta(r, &f, &d->meta, e); break;
        default: break;
        }
        LAM_TRY(status);
    }
}

static const char *domain_of(const char *text) { return strcmp(text, "ai.onnx") == 0 ? "" : text; }

static int32_t opset_of(const lmi_onnx_scope *s, const char *domain) {
    for (int32_t i = 0; i < s->n_opsets; i++)
        if (strcmp(s->opsets[i].key, domain) == 0) return (int32_t)strtol(s->opsets[i].value, NULL, 10);
    return 0;
}

/* The arguments and results as values; results are defined here. */
static lam_status node_values(lmi_onnx_reader *r, lmi_onnx_scope *s, const draft *d, lmi_onnx_node *n,
                              lam_error *e) {
    int32_t *in = lmi_alloc(&r->m->arena, d->in.n, sizeof *in);
    int32_t *out = lmi_alloc(&r->m->arena, d->out.n, sizeof *out);
    if (!in || !out) return lmi_nomem(e);
    if (lmi_too_many_pairs(d->in.n, d->out.n))
        return lmi_fail(e, LAM_LIMIT, r->m->file->name,
                        "a node has more arguments and results than are read, at byte %llu",
                        (unsigned long long)n->at);
    for (size_t i = 0; i < d->in.n; i++) {
        LAM_TRY(lmi_onnx_name(r, s, *(const char **)lmi_vec_at(&d->in, i), &in[i], e));
        if (in[i] >= 0) naming(r, in[i])->used = true;
    }
    for (size_t i = 0; i < d->out.n; i++)
        LAM_TRY(define(r, s, *(const char **)lmi_vec_at(&d->out, i), n->at, &out[i], e));
    n->in = in;
    n->out = out;
    n->n_in = (int32_t)d->in.n;
    n->n_out = (int32_t)d->out.n;
    n->attrs = lmi_copy(&r->m->arena, d->attrs.data, d->attrs.n, sizeof(lmi_onnx_attribute));
    n->meta = lmi_copy(&r->m->arena, d->meta.data, d->meta.n, sizeof(lmi_onnx_text));
    n->n_attrs = (int32_t)d->attrs.n;
    n->n_meta = (int32_t)d->meta.n;
    return n->attrs && n->meta ? LAM_OK : lmi_nomem(e);
}

/* The result of a Constant is what its attribute holds. */
static lam_status constant(lmi_onnx_reader *r, const lmi_onnx_node *n, lam_error *e) {
    const lmi_onnx_attribute *a = n->n_attrs ? &n->attrs[0] : NULL;
    lmi_onnx_value *v = lmi_onnx_out(r->m, n, 0);
    if (n->n_attrs != 1 || !v)
        return lmi_onnx_bad(r, n->at, e, "a Constant has %d attributes and not one", (int)n->n_attrs);
    if (a->tensor >= 0) {
        const lmi_onnx_value *from = lmi_onnx_value_at(r->m, a->tensor);
        v->type = from->type;
        v->ndim = from->ndim;
        v->sizes = from->sizes;
        v->symbols = NULL;
        v->where = from->where;
        v->memory = from->memory;
        v->at = from->at;
        v->bytes = from->bytes;
        return LAM_OK;
    }
    return lmi_onnx_constant_of(r, a, v, e);
}

static lam_status add_node(lmi_onnx_reader *r, lmi_onnx_scope *s, const lmi_onnx_node *n, lam_error *e) {
    const int32_t index = (int32_t)r->m->nodes.n;
    if (!*n->domain && strcmp(n->op, "Constant") == 0) return constant(r, n, e);
    for (int32_t i = 0; i < n->n_out; i++)
        if (n->out[i] >= 0) lmi_onnx_value_at(r->m, n->out[i])->producer = index;
    LAM_TRY(lmi_onnx_room(r, e));
    LAM_TRY(lmi_vec_put(&r->m->nodes, n, e));
    return lmi_vec_put(s->nodes, &index, e);
}

static lam_status node(lmi_onnx_reader *r, lmi_onnx_scope *s, const lmi_field *of, lam_error *e);

/* -- functions ------------------------------------------------------------------------------------------- */

static uint64_t hash_of(const char *name, const char *domain, const char *overload) {
    const uint64_t all[] = {lmi_hash_text(name), lmi_hash_text(domain), lmi_hash_text(overload)};
    return lmi_hash(all, sizeof all);
}

/* The function that the model defines by that name; NULL: there is none. */
static const lmi_onnx_function *function_of(const lmi_onnx_reader *r, const char *name, const char *domain,
                                            const char *overload) {
    if (r->functions.n == 0) return NULL;
    const uint64_t hash = hash_of(name, domain, overload);
    size_t at = hash;
    for (int64_t i; (i = lmi_map_next(&r->by_name, hash, &at)) >= 0;) {
        const lmi_onnx_function *f = lmi_vec_at(&r->functions, (size_t)i);
        if (strcmp(f->name, name) == 0 && strcmp(f->domain, domain) == 0 &&
            strcmp(f->overload, overload) == 0)
            return f;
    }
    return NULL;
}

lam_status lmi_onnx_function_add(lmi_onnx_reader *r, const lmi_onnx_function *fn, lam_error *e) {
    if (function_of(r, fn->name, fn->domain, fn->overload)) return LAM_OK;
    LAM_TRY(
        lmi_map_add(&r->by_name, hash_of(fn->name, fn->domain, fn->overload), (int64_t)r->functions.n, e));
    return lmi_vec_put(&r->functions, fn, e);
}

lam_status lmi_onnx_opset_read(lmi_onnx_reader *r, const lmi_field *of, lmi_vec *to, lam_error *e) {
    lmi_onnx_text t = {"", "0"};
    lmi_field f = {0};
    char digits[24];
    bool more;
    LAM_TRY(lmi_wire_is(&r->c, of, LMI_WIRE_LENGTH, "an operator set", e));
    for (;;) {
        LAM_TRY(lmi_wire_next(&r->c, of->end, &f, &more, e));
        if (!more) break;
        if (f.number == 1) LAM_TRY(lmi_wire_text(&r->c, &f, &r->m->arena, &t.key, e));
        if (f.number != 2) continue;
        LAM_TRY(lmi_wire_is(&r->c, &f, LMI_WIRE_VARINT, "a version", e));
        snprintf(digits, sizeof digits, "%d", f.value < 100000 ? (int)f.value : 0);
        t.value = lmi_strdup(&r->m->arena, digits);
        if (!t.value) return lmi_nomem(e);
    }
    t.key = domain_of(t.key);
    if (to->n == MOST_OPSETS)
        return lmi_fail(e, LAM_LIMIT, r->m->file->name, "it has more than %d operator sets, at byte %llu",
                        MOST_OPSETS, (unsigned long long)of->at);
    return lmi_vec_put(to, &t, e);
}

/* The lists of a function. */
typedef struct formal {
    lmi_vec in, out, opsets, otherwise;
} formal;

static lam_status formals(lmi_onnx_reader *r, lmi_onnx_scope *s, const lmi_onnx_function *fn, formal *l,
                          lam_error *e) {
    lmi_field f = {0};
    bool more;
    for (;;) {
        lam_status status = LAM_OK;
        LAM_TRY(lmi_wire_next(&r->c, fn->end, &f, &more, e));
        if (!more) return LAM_OK;
        if (f.number == 4) status = put_name(r, &f, &l->in, e);
        if (f.number == 5) status = put_name(r, &f, &l->out, e);
        if (f.number == 9) status = lmi_onnx_opset_read(r, &f, &l->opsets, e);
        if (f.number == 11) status = put_attr(r, s, &f, &l->otherwise, e);
        LAM_TRY(status);
    }
}

/* The names of the function's arguments and results are those of the call. */
static lam_status bind(lmi_onnx_reader *r, lmi_onnx_scope *s, const formal *l, const lmi_onnx_node *call,
                       lam_error *e) {
    for (size_t i = 0; i < l->in.n; i++) {
        const char *name = *(const char **)lmi_vec_at(&l->in, i);
        int32_t value = i < (size_t)call->n_in ? call->in[i] : -1;
        if (value < 0) {
            LAM_TRY(lmi_onnx_new_value(r, "", &value, e));
            naming(r, value)->same = LMI_ONNX_ABSENT;
        }
        if (*name) LAM_TRY(lmi_map_put(&s->names, name, value, e));
    }
    for (size_t i = 0; i < l->out.n && i < (size_t)call->n_out; i++) {
        const char *name = *(const char **)lmi_vec_at(&l->out, i);
        if (call->out[i] < 0 || !*name) continue;
        const int64_t given = lmi_map_get(&s->names, name);
        if (given >= 0) { /* an argument is a result */
            naming(r, call->out[i])->same = (int32_t)given;
            continue;
        }
        naming(r, call->out[i])->defined = false;
        LAM_TRY(lmi_map_put(&s->names, name, call->out[i], e));
    }
    return LAM_OK;
}

static lam_status function_nodes(lmi_onnx_reader *r, lmi_onnx_scope *s, const lmi_onnx_function *fn,
                                 const lmi_onnx_node *call, lam_error *e) {
    const size_t first = r->m->values.n;
    lmi_field f = {0};
    bool more;
    r->c.at = fn->start;
    for (;;) {
        LAM_TRY(lmi_wire_next(&r->c, fn->end, &f, &more, e));
        if (!more) break;
        if (f.number == 7) LAM_TRY(node(r, s, &f, e));
    }
    for (size_t i = first; i < r->m->values.n; i++) {
        const lmi_onnx_naming *n = naming(r, (int32_t)i);
        if (n->used && !n->defined && n->same == -1)
            return lmi_onnx_bad(r, call->at, e, "nothing in function '%s' makes '%s', which is read",
                                fn->name, lmi_onnx_value_at(r->m, (int32_t)i)->name);
    }
    for (int32_t i = 0; i < call->n_out; i++)
        if (call->out[i] >= 0 && !naming(r, call->out[i])->defined)
            return lmi_onnx_bad(r, call->at, e, "function '%s' does not make its result %d", fn->name,
                                (int)i);
    return LAM_OK;
}

static lam_status inline_in(lmi_onnx_reader *r, lmi_onnx_scope *s, const lmi_onnx_function *fn, formal *l,
                            const lmi_onnx_node *call, lam_error *e) {
    char within[240];
    r->c.at = fn->start;
    LAM_TRY(formals(r, s, fn, l, e));
    LAM_TRY(bind(r, s, l, call, e));
    snprintf(within, sizeof within, "%s%s/", s->within, *call->name ? call->name : call->op);
    s->within = lmi_strdup(&r->m->arena, within);
    if (!s->within) return lmi_nomem(e);
    s->opsets = l->opsets.data;
    s->n_opsets = (int32_t)l->opsets.n;
    s->otherwise = l->otherwise.data;
    s->n_otherwise = (int32_t)l->otherwise.n;
    return function_nodes(r, s, fn, call, e);
}

static lam_status put_inline(lmi_onnx_reader *r, lmi_onnx_scope *around, const lmi_onnx_function *fn,
                             const lmi_onnx_node *call, lam_error *e) {
    const uint64_t back = r->c.at;
    lmi_onnx_scope s = {.graph = around->graph,
                        .nodes = around->nodes,
                        .call = call,
                        .within = around->within};
    formal l;
    if (r->depth >= LMI_ONNX_DEEPEST)
        return lmi_onnx_bad(r, call->at, e, "function '%s' is called at a depth of more than %d", fn->name,
                            LMI_ONNX_DEEPEST);
    r->work -= 64 + (int64_t)(fn->end - fn->start);
    if (r->work < 0)
        return lmi_fail(e, LAM_LIMIT, r->m->file->name,
                        "its functions call each other too often, at byte %llu",
                        (unsigned long long)call->at);
    lmi_map_init(&s.names);
    lmi_vec_init(&l.in, sizeof(char *));
    lmi_vec_init(&l.out, sizeof(char *));
    lmi_vec_init(&l.opsets, sizeof(lmi_onnx_text));
    lmi_vec_init(&l.otherwise, sizeof(lmi_onnx_attribute));
    r->depth++;
    lam_status status = inline_in(r, &s, fn, &l, call, e);
    r->depth--;
    r->c.at = back;
    lmi_map_free(&s.names);
    lmi_vec_free(&l.in);
    lmi_vec_free(&l.out);
    lmi_vec_free(&l.opsets);
    lmi_vec_free(&l.otherwise);
    return status;
}

static lam_status whole_name(lmi_onnx_reader *r, const lmi_onnx_scope *s, lmi_onnx_node *n, lam_error *e) {
    char text[480];
    if (!*s->within) return LAM_OK;
    snprintf(text, sizeof text, "%s%s", s->within, n->name);
    n->name = lmi_strdup(&r->m->arena, text);
    return n->name ? LAM_OK : lmi_nomem(e);
}

static lam_status node(lmi_onnx_reader *r, lmi_onnx_scope *s, const lmi_field *of, lam_error *e) {
    lmi_onnx_node n = {
        .op = "", .domain = "", .name = "", .at = of->at, .graph = s->graph, .taken = -1, .times = 1};
    draft d = {.overload = ""};
    LAM_TRY(lmi_wire_is(&r->c, of, LMI_WIRE_LENGTH, "a node", e));
    lmi_vec_init(&d.in, sizeof(char *));
    lmi_vec_init(&d.out, sizeof(char *));
    lmi_vec_init(&d.attrs, sizeof(lmi_onnx_attribute));
    lmi_vec_init(&d.meta, sizeof(lmi_onnx_text));
    lam_status status = node_fields(r, s, of, &d, &n, e);
    if (status == LAM_OK && !*n.op) status = lmi_onnx_bad(r, of->at, e, "node '%s' has no operator", n.name);
    if (status == LAM_OK) { /* a text that could not be read is none */
        n.domain = domain_of(n.domain);
        n.opset = opset_of(s, n.domain);
        status = node_values(r, s, &d, &n, e);
    }
    draft_free(&d);
    LAM_TRY(status);
    const lmi_onnx_function *fn = function_of(r, n.op, n.domain, d.overload);
    LAM_TRY(whole_name(r, s, &n, e));
    return fn ? put_inline(r, s, fn, &n, e) : add_node(r, s, &n, e);
}

/* -- graphs ---------------------------------------------------------------------------------------------- */

typedef struct lists {
    lmi_vec nodes, inputs, outputs, initialisers;
} lists;

static lam_status initialiser(lmi_onnx_reader *r, lmi_onnx_scope *s, const lmi_field *f, lists *l,
                              lam_error *e) {
    lmi_onnx_value is;
    const char *name;
    int32_t i;
    LAM_TRY(lmi_onnx_tensor_read(r, f, f->number == 15, &is, &name, e));
    LAM_TRY(lmi_onnx_name(r, s, name, &i, e));
    if (i < 0) return lmi_onnx_bad(r, f->at, e, "an initialiser has no name");
    lmi_onnx_value *v = lmi_onnx_value_at(r->m, i);
    if (naming(r, i)->defined && !(v->input && !v->initialiser))
        return lmi_onnx_bad(r, f->at, e, "two things have the name '%s'", name);
    is.name = v->name;
    is.input = v->input;
    is.initialiser = true;
    is.graph = s->graph;
    *v = is;
    naming(r, i)->defined = true;
    return lmi_vec_put(&l->initialisers, &i, e);
}

static lam_status input(lmi_onnx_reader *r, lmi_onnx_scope *s, const lmi_field *f, lists *l, lam_error *e) {
    lmi_onnx_value is;
    const char *name;
    int32_t i;
    LAM_TRY(lmi_onnx_stated_read(r, f, &is, &name, e));
    LAM_TRY(lmi_onnx_name(r, s, name, &i, e));
    if (i < 0) return lmi_onnx_bad(r, f->at, e, "an input of the graph has no name");
    lmi_onnx_value *v = lmi_onnx_value_at(r->m, i);
    if (naming(r, i)->defined && !(v->initialiser && !v->input))
        return lmi_onnx_bad(r, f->at, e, "two things have the name '%s'", name);
    v->input = true;
    v->graph = s->graph;
    state(v, &is);
    naming(r, i)->defined = true;
    return lmi_vec_put(&l->inputs, &i, e);
}

static lam_status stated(lmi_onnx_reader *r, lmi_onnx_scope *s, const lmi_field *f, lists *l, lam_error *e) {
    lmi_onnx_value is;
    const char *name;
    int32_t i;
    LAM_TRY(lmi_onnx_stated_read(r, f, &is, &name, e));
    LAM_TRY(lmi_onnx_name(r, s, name, &i, e));
    if (i >= 0) state(lmi_onnx_value_at(r->m, i), &is);
    if (f->number != 12) return LAM_OK;
    if (i >= 0) naming(r, i)->used = true;
    return lmi_vec_put(&l->outputs, &i, e);
}

static lam_status graph_fields(lmi_onnx_reader *r, lmi_onnx_scope *s, uint64_t end, lists *l, lam_error *e) {
    lmi_field f = {0};
    bool more;
    for (;;) {
        lam_status status = LAM_OK;
        LAM_TRY(lmi_wire_next(&r->c, end, &f, &more, e));
        if (!more) return LAM_OK;
        switch (f.number) {
        case 1: status = node(r, s, &f, e); break;
        case 2: status = lmi_wire_text(&r->c, &f, &r->m->arena, &s->graph->name, e); break;
        case 5:
        case 15: status = initialiser(r, s, &f, l, e); break;
        case 11: status = input(r, s, &f, l, e); break;
        case 12:
        case 13: status = stated(r, s, &f, l, e); break;
        default: break;
        }
        LAM_TRY(status);
    }
}

static int by_number(const void *a, const void *b) {
    const int32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The values of a scope's names, in the order in which they were read. */
static lam_status named_values(const lmi_onnx_scope *s, lmi_vec *out, lam_error *e) {
    for (size_t k = 0; k < s->names.cap; k++) {
        const int32_t i = (int32_t)(s->names.slots[k].value - 1);
        if (i >= 0) LAM_TRY(lmi_vec_put(out, &i, e));
    }
    if (out->n) qsort(out->data, out->n, sizeof(int32_t), by_number);
    return LAM_OK;
}

/* Names that the graph does not define are of the graph around it. */
static lam_status take_outer(lmi_onnx_reader *r, lmi_onnx_scope *s, const lmi_vec *values, lam_error *e) {
    for (size_t k = 0; k < values->n; k++) {
        const int32_t i = *(const int32_t *)lmi_vec_at(values, k);
        const lmi_onnx_naming *n = naming(r, i);
        if (n->defined || !n->used) continue;
        const char *name = lmi_onnx_value_at(r->m, i)->name;
        int32_t outer;
        if (!s->parent)
            return lmi_fail(e, LAM_SYNTAX, r->m->file->name,
                            "it is damaged: nothing makes '%s', which is read", name);
        LAM_TRY(lmi_onnx_name(r, s->parent, name, &outer, e));
        naming(r, i)->same = outer;
        naming(r, outer)->used = true;
    }
    return LAM_OK;
}

static lam_status outer_names(lmi_onnx_reader *r, lmi_onnx_scope *s, lam_error *e) {
    lmi_vec values;
    lmi_vec_init(&values, sizeof(int32_t));
    lam_status status = named_values(s, &values, e);
    if (status == LAM_OK) status = take_outer(r, s, &values, e);
    lmi_vec_free(&values);
    return status;
}

static lam_status keep_lists(lmi_onnx_reader *r, lmi_onnx_graph *g, const lists *l, lam_error *e) {
    lmi_arena *a = &r->m->arena;
    g->nodes = lmi_copy(a, l->nodes.data, l->nodes.n, sizeof(int32_t));
    g->inputs = lmi_copy(a, l->inputs.data, l->inputs.n, sizeof(int32_t));
    g->outputs = lmi_copy(a, l->outputs.data, l->outputs.n, sizeof(int32_t));
    g->initialisers = lmi_copy(a, l->initialisers.data, l->initialisers.n, sizeof(int32_t));
    g->n_nodes = (int32_t)l->nodes.n;
    g->n_inputs = (int32_t)l->inputs.n;
    g->n_outputs = (int32_t)l->outputs.n;
    g->n_initialisers = (int32_t)l->initialisers.n;
    return g->nodes && g->inputs && g->outputs && g->initialisers ? LAM_OK : lmi_nomem(e);
}

lam_status lmi_onnx_graph_read(lmi_onnx_reader *r, lmi_onnx_scope *parent, uint64_t end, lmi_onnx_graph **out,
                               lam_error *e) {
    lmi_onnx_scope s = {.parent = parent,
                        .within = "",
                        .opsets = r->m->opset_domains,
                        .n_opsets = r->m->n_opsets};
    lists l;
    if (r->depth >= LMI_ONNX_DEEPEST)
        return lmi_onnx_bad(r, r->c.at, e, "graphs are in each other at a depth of more than %d",
                            LMI_ONNX_DEEPEST);
    lmi_onnx_graph *g = lmi_alloc(&r->m->arena, 1, sizeof *g);
    if (!g) return lmi_nomem(e);
    g->name = "";
    s.graph = g;
    if (parent) {
        s.call = parent->call;
        s.otherwise = parent->otherwise;
        s.n_otherwise = parent->n_otherwise;
        s.opsets = parent->opsets;
        s.n_opsets = parent->n_opsets;
        s.within = parent->within;
        g->parent = parent->graph;
        g->depth = parent->graph->depth + 1;
    }
    lmi_map_init(&s.names);
    lmi_vec_init(&l.nodes, sizeof(int32_t));
    lmi_vec_init(&l.inputs, sizeof(int32_t));
    lmi_vec_init(&l.outputs, sizeof(int32_t));
    lmi_vec_init(&l.initialisers, sizeof(int32_t));
    s.nodes = &l.nodes;
    r->depth++;
    lam_status status = graph_fields(r, &s, end, &l, e);
    r->depth--;
    if (status == LAM_OK) status = outer_names(r, &s, e);
    if (status == LAM_OK) status = keep_lists(r, g, &l, e);
    lmi_map_free(&s.names);
    lmi_vec_free(&l.nodes);
    lmi_vec_free(&l.inputs);
    lmi_vec_free(&l.outputs);
    lmi_vec_free(&l.initialisers);
    *out = g;
    return status;
}
