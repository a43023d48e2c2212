/* SPDX-License-Identifier: Apache-2.0
 *
 * A graph as calls of lam_build_*: modules and their places, the tensors that they own, their calls with what
 * goes in and out, and an operator for each node. */
#include "read/onnx/source.h"

#include <stdio.h>
#include <stdlib.h>

/* Values that may go into and out of calls, beside one for so many bytes of the file. */
enum { LEAST_PASSES = 1 << 17, BYTES_A_PASS = 16 };

/* What is known of a node: it runs, it may run in a body that values decide on, or it runs in no case. */
typedef enum running { NEVER, HIDDEN, RUNS } running;

typedef struct source {
    lmi_onnx_model *m;
    const lam_read_options *o;
    lam_builder *b;
    lmi_arena a;
    lmi_onnx_scopes s;
    lmi_onnx_use *uses;
    lmi_map places;  /* of paths */
    lmi_vec modules; /* int32_t: of each place */
    running *node;   /* of each node */
    bool *followed;  /* of each node: its body is pushed, as often as it runs */
    running *run;    /* of each scope: the most of its nodes */
    lmi_map hidden;  /* paths of modules of nodes that may run */
    int32_t *call;   /* of each scope; -1: it is not called */
    int32_t *depth;  /* of each scope */
    lmi_map by_name; /* of values, once it is needed (`named`) */
    bool named;
    lmi_map shared;  /* a place and a value that it owns beside another one */
    lmi_map passed;  /* a value and a call that it goes into or out of */
    lmi_vec in, out; /* pass */
    int64_t work;    /* operators that may still be added by bodies that run several times */
    lam_error *e;
} source;

/* A value that goes into or out of the call of a scope. */
typedef struct pass {
    int32_t scope, value;
} pass;

static lmi_onnx_scope_of *scope(const source *g, int32_t i) { return lmi_vec_at(&g->s.at, (size_t)i); }
static int32_t n_scopes(const source *g) { return (int32_t)g->s.at.n; }

/* -- what runs ---------------------------------------------------------------------------------------------
 */

/* The graph that a node runs, and how often; NULL: values decide on it, or it has none. */
static const lmi_onnx_graph *body_of(const lmi_onnx_node *n, int64_t *times) {
    const bool branch = strcmp(n->op, "If") == 0,
               loop = strcmp(n->op, "Loop") == 0 || strcmp(n->op, "Scan") == 0;
    *times = branch ? 1 : n->times;
    if (*n->domain || !(branch || loop) || *times < 0 || (branch && n->taken < 0)) return NULL;
    const lmi_onnx_attribute *a = lmi_onnx_attr(n, loop ? "body" : n->taken ? "then_branch" : "else_branch");
    return a ? a->graph : NULL;
}

static lam_status find_running(source *g, const lmi_onnx_graph *graph, running how, int64_t runs);

/* The body that a node is known to run is followed unless it runs too often: each run adds its operators. */
static lam_status find_body(source *g, int32_t node, running how,
                            int64_t runs) { /* NOLINT(misc-no-recursion) */
    const lmi_onnx_node *n = lmi_onnx_node_at(g->m, node);
    int64_t times, all, added;
    const lmi_onnx_graph *body = how == RUNS ? body_of(n, &times) : NULL;
    if (body && !lmi_mul_over(runs, times, &all) && !lmi_mul_over(all, body->n_nodes + 1, &added)) {
        if (all <= 1) added = 0; /* the file has them */
        g->followed[node] = added <= g->work;
        if (g->followed[node]) {
            g->work -= added;
            return all ? find_running(g, body, RUNS, all) : LAM_OK;
        }
    }
    for (int32_t k = 0; k < n->n_attrs; k++)
        if (n->attrs[k].graph) LAM_TRY(find_running(g, n->attrs[k].graph, HIDDEN, 1));
    return LAM_OK;
}

/* As deep as graphs are in each other, which is bounded. */
static lam_status find_running(source *g, const lmi_onnx_graph *graph, running how,
                               int64_t runs) { /* NOLINT(misc-no-recursion) */
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const int32_t node = graph->nodes[i];
        g->node[node] = how;
        for (int32_t s = g->s.of[node]; s >= 0; s = scope(g, s)->parent) {
            if (g->run[s] < how) g->run[s] = how;
            if (how == HIDDEN && s > 0) LAM_TRY(lmi_map_put(&g->hidden, scope(g, s)->path, 0, g->e));
        }
        LAM_TRY(find_body(g, node, how, runs));
    }
    return LAM_OK;
}

/* -- places ------------------------------------------------------------------------------------------------
 */

/* A class by its whole name; an operator is a type too, where each node is a place. */
static lam_status add_module(source *g, const char *path, const char *type, int32_t *out) {
    const char *dot = type ? strrchr(type, '.') : NULL, *short_name = dot ? dot + 1 : type;
    const bool torchs = type && strncmp(type, "torch.nn.", 9) == 0;
    const lam_module_info info = {.type = short_name && *short_name ? short_name : "?",
                                  .type_path = type && *type ? type : "?",
                                  .word = torchs ? lam_word_module(short_name) : -1,
                                  .flags = (torchs ? LAM_MODULE_EXACT : 0u) |
                                           (lmi_map_get(&g->hidden, path) >= 0 ? LAM_MODULE_INSIDE : 0u)};
    LAM_TRY(lam_build_module(g->b, &info, out, g->e));
    return lmi_vec_put(&g->modules, out, g->e);
}

/* The place of a path, made with those around it. */
static lam_status place_of(source *g, const char *path, const char *type,
                           int32_t *out) { /* NOLINT(misc-no-recursion) */
    int32_t parent = -1, module;
    *out = (int32_t)lmi_map_get(&g->places, path);
    if (*out >= 0) return LAM_OK;
    if (lmi_onnx_modules_are_many(g->m, g->modules.n)) return lmi_onnx_too_many_modules(g->m, g->e);
    const char *dot = strrchr(path, '.');
    if (*path) {
        const char *around = dot ? lmi_strndup(&g->a, path, (size_t)(dot - path)) : "";
        if (!around) return lmi_nomem(g->e);
        LAM_TRY(place_of(g, around, NULL,
                         &parent)); /* as deep as a path has dots: MOST_PARTS of scopes.c, or 1,024 */
    }
    LAM_TRY(add_module(g, path, type, &module));
    LAM_TRY(lam_build_place(g->b, parent, dot ? dot + 1 : path, module, out, g->e));
    return lmi_map_put(&g->places, path, *out, g->e);
}

static int32_t module_at(const source *g, int32_t place) {
    return *(int32_t *)lmi_vec_at(&g->modules, (size_t)place);
}

/* The place of a scope, once all have theirs. */
static int32_t place_at(const source *g, int32_t i) {
    return (int32_t)lmi_map_get(&g->places, scope(g, i)->path);
}

/* The class that any scope tells of a path. */
static lam_status types_by_path(const source *g, lmi_map *types) {
    for (int32_t i = 0; i < n_scopes(g); i++) {
        const lmi_onnx_scope_of *s = scope(g, i);
        if (s->type && lmi_map_get(types, s->path) < 0) LAM_TRY(lmi_map_put(types, s->path, i, g->e));
    }
    return LAM_OK;
}

static lam_status add_places(source *g) {
    lmi_map types;
    lmi_map_init(&types);
    lam_status s = types_by_path(g, &types);
    for (int32_t i = 0; s == LAM_OK && i < n_scopes(g); i++) {
        const char *path = scope(g, i)->path;
        const int64_t known = lmi_map_get(&types, path);
        int32_t place;
        s = place_of(g, path, known >= 0 ? scope(g, (int32_t)known)->type : NULL, &place);
    }
    lmi_map_free(&types);
    return s;
}

/* -- tensors -----------------------------------------------------------------------------------------------
 */

static lam_status own(source *g, int32_t place, const char *name, int32_t tensor, lmi_onnx_role role) {
    return lam_build_owns(g->b, module_at(g, place), name, tensor, role == LMI_ONNX_BUFFER, g->e);
}

static lam_status add_tensor(source *g, int32_t value, int32_t *out) {
    lam_tensor_info info;
    LAM_TRY(lmi_onnx_weight(g->m, value, &g->uses[value], &info, &g->a, g->e));
    LAM_TRY(lam_build_tensor(g->b, &info, out, g->e));
    return info.bytes >= 0 ? LAM_OK : lam_build_wraps(g->b, *out, -1, -1, g->e);
}

/* The last part of a name, which is the module's own for its tensor. */
static const char *last_part(const char *name, const char *path) {
    const size_t n = strlen(path);
    return n && strncmp(name, path, n) == 0 && name[n] == '.' ? name + n + 1 : name;
}

/* The value of a name, by a map that is made when it is first needed. */
static lam_status find_named(source *g, const char *name, bool *found) {
    for (int32_t i = 0; !g->named && i < (int32_t)g->m->values.n; i++)
        LAM_TRY(lmi_map_put(&g->by_name, lmi_onnx_value_at(g->m, i)->name, i, g->e));
    g->named = true;
    *found = lmi_map_get(&g->by_name, name) >= 0;
    return LAM_OK;
}

/* True for the scale of a tensor beside it, as ONNX Runtime names what it quantises: "a.weight_quantized" has
 * "a.weight_scale", which some node may multiply by. */
static lam_status is_scale(source *g, const lmi_onnx_value *v, bool *is) {
    static const char *const ends[] = {"_scale", "_zero_point"};
    const size_t n = strlen(v->name);
    *is = false;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t wide = strlen(ends[i]);
        if (!lmi_ends_in(v->name, ends[i])) continue;
        char *other = lmi_alloc(&g->a, n + sizeof "_quantized", 1);
        if (!other) return lmi_nomem(g->e);
        snprintf(other, n + sizeof "_quantized", "%.*s_quantized", (int)(n - wide), v->name);
        return find_named(g, other, is);
    }
    return LAM_OK;
}

/* Owned by the module that its name tells, else by those of the nodes that read it. */
static lam_status add_weight(source *g, int32_t value) {
    const lmi_onnx_value *v = lmi_onnx_value_at(g->m, value);
    const lmi_onnx_use *u = &g->uses[value];
    const char *path;
    int32_t tensor, place = 0;
    LAM_TRY(lmi_onnx_owner_path(v->name, &g->a, &path, g->e));
    bool scale = false;
    LAM_TRY(*path ? is_scale(g, v, &scale) : LAM_OK);
    const lmi_onnx_role role = lmi_onnx_role_of(v, u, *path != '\0' && !scale);
    if (role == LMI_ONNX_NO_WEIGHT) return LAM_OK;
    const int32_t at = u->first >= 0 ? g->s.of[u->first] : -1;
    if (*path && at >= 0 && strcmp(scope(g, at)->path, path) != 0 && lmi_map_get(&g->places, path) < 0) {
        /* a name that only looks like a module's, where the nodes have others */
        const char *inner = scope(g, at)->path;
        if (*inner) path = inner;
    }
    if (*path)
        LAM_TRY(place_of(g, path, NULL, &place));
    else if (at >= 0)
        place = place_at(g, at);
    LAM_TRY(add_tensor(g, value, &tensor));
    LAM_TRY(own(g, place, last_part(v->name, path), tensor, role));
    g->uses[value].tensor = 1 + tensor;
    g->uses[value].place = place;
    return LAM_OK;
}

/* A module whose operators read the tensor of another one owns it too. */
static lam_status add_shared(source *g, int32_t node) {
    const lmi_onnx_node *n = lmi_onnx_node_at(g->m, node);
    const int32_t place = place_at(g, g->s.of[node]);
    if (lmi_onnx_names_stored(g->m, n)) return LAM_OK;
    for (int32_t i = 0; i < n->n_in; i++) {
        const int32_t v = lmi_onnx_stored(g->m, n->in[i]);
        if (v < 0 || !g->uses[v].tensor) continue;
        const uint64_t key = (uint64_t)place << 32 | (uint32_t)v;
        if (place == g->uses[v].place || place == 0 || lmi_map_get_u64(&g->shared, key) >= 0) continue;
        LAM_TRY(lmi_map_put_u64(&g->shared, key, 0, g->e));
        LAM_TRY(own(g, place, last_part(lmi_onnx_value_at(g->m, v)->name, ""), g->uses[v].tensor - 1,
                    LMI_ONNX_PARAMETER));
    }
    return LAM_OK;
}

static lam_status add_tensors(source *g) {
    const int32_t n = (int32_t)g->m->values.n, n_nodes = (int32_t)g->m->nodes.n;
    g->uses = lmi_alloc(&g->a, (uint64_t)n, sizeof *g->uses);
    if (!g->uses) return lmi_nomem(g->e);
    for (int32_t i = 0; i < n; i++) g->uses[i] = (lmi_onnx_use){.first = -1};
    for (int32_t i = 0; i < n_nodes; i++) lmi_onnx_look_at(g->m, g->uses, i);
    for (int32_t i = 0; i < n; i++) {
        const lmi_onnx_value *v = lmi_onnx_value_at(g->m, i);
        if (v->graph && lmi_onnx_stored(g->m, i) == i) LAM_TRY(add_weight(g, i));
    }
    for (int32_t i = 0; i < n_nodes; i++) LAM_TRY(add_shared(g, i));
    return LAM_OK;
}

/* -- what goes in and out of calls -------------------------------------------------------------------------
 */

static lam_status note_pass(source *g, lmi_vec *to, int32_t s, int32_t value, bool out) {
    const pass p = {s, value};
    const uint64_t key = (uint64_t)s << 33 | (uint64_t)out << 32 | (uint32_t)value;
    if (lmi_map_get_u64(&g->passed, key) >= 0) return LAM_OK;
    if (g->passed.n >= LEAST_PASSES + g->m->file->size / BYTES_A_PASS)
        return lmi_fail(
            g->e, LAM_LIMIT, g->m->file->name,
            "more tensors go into and out of its modules (%zu) than a file of its size should have",
            g->passed.n);
    LAM_TRY(lmi_map_put_u64(&g->passed, key, 0, g->e));
    return lmi_vec_put(to, &p, g->e);
}

/* A value goes from one scope to another: out of all that are around the first one alone, into all that are
 * around the second one alone. -1: outside the model. */
static lam_status goes(source *g, int32_t value, int32_t from, int32_t to) {
    while (from != to) {
        if (to >= 0 && (from < 0 || g->depth[to] >= g->depth[from])) {
            LAM_TRY(note_pass(g, &g->in, to, value, false));
            to = scope(g, to)->parent;
        } else {
            LAM_TRY(note_pass(g, &g->out, from, value, true));
            from = scope(g, from)->parent;
        }
    }
    return LAM_OK;
}

/* False for constants, and for what has no source that is seen. */
static bool is_data(const source *g, int32_t value, int32_t *from) {
    const lmi_onnx_value *v = lmi_onnx_value_at(g->m, value);
    if (!v || v->where != LMI_ONNX_NOWHERE || lmi_onnx_stored(g->m, value) >= 0) return false;
    *from = v->producer >= 0 ? g->s.of[v->producer] : -1;
    return v->producer >= 0 || (v->input && v->graph == g->m->graph);
}

/* What only nodes that run in no case read goes no further than into the model. */
static lam_status passes_of_node(source *g, int32_t node) {
    const lmi_onnx_node *n = lmi_onnx_node_at(g->m, node);
    const int32_t to = g->s.of[node];
    int64_t times;
    int32_t from;
    for (int32_t i = 0; i < n->n_in; i++)
        if (is_data(g, n->in[i], &from) && (g->node[node] != NEVER || from < 0))
            LAM_TRY(goes(g, n->in[i], from, g->node[node] == NEVER ? 0 : to));
    for (int32_t k = 0; k < n->n_attrs && g->node[node] != NEVER; k++) {
        const lmi_onnx_graph *inner = n->attrs[k].graph;
        if (g->followed[node] && inner != body_of(n, &times)) continue;
        for (int32_t i = 0; inner && i < inner->n_outputs; i++)
            if (is_data(g, inner->outputs[i], &from)) LAM_TRY(goes(g, inner->outputs[i], from, to));
    }
    return LAM_OK;
}

static lam_status find_passes(source *g) {
    int32_t from;
    for (int32_t i = 0; i < (int32_t)g->m->nodes.n; i++) LAM_TRY(passes_of_node(g, i));
    for (int32_t i = 0; i < g->m->graph->n_outputs; i++)
        if (is_data(g, g->m->graph->outputs[i], &from)) LAM_TRY(goes(g, g->m->graph->outputs[i], from, -1));
    return LAM_OK;
}

/* -- calls -------------------------------------------------------------------------------------------------
 */

typedef struct sides {
    lmi_groups in, out;
    lam_arg *args;
} sides;

static const lam_arg *args_of(const source *g, const lmi_vec *all, const lmi_groups *by, int32_t s,
                              lam_arg *to, int32_t *n) {
    *n = 0;
    for (int32_t i = by->start[s]; i < by->start[s + 1]; i++, (*n)++) {
        const pass *p = lmi_vec_at(all, (size_t)by->order[i]);
        const lam_op_arg a = lmi_onnx_arg(g->m, p->value, *n);
        /* those of the model have names, by which they are given */
        to[*n] = (lam_arg){.name = s == 0 && all == &g->in ? lmi_onnx_value_at(g->m, p->value)->name : NULL,
                           .position = s == 0 && all == &g->in ? -1 : *n,
                           .dtype = a.dtype,
                           .device = -1,
                           .ndim = a.ndim,
                           .sizes = a.sizes,
                           .storage = a.storage,
                           .object = a.object};
    }
    return to;
}

static lam_status add_call(source *g, const sides *by, int32_t i) {
    const lmi_onnx_scope_of *s = scope(g, i);
    const int32_t n = by->in.start[i + 1] - by->in.start[i];
    lam_call_info info = {.parent = s->parent < 0 ? -1 : g->call[s->parent]};
    info.module = module_at(g, (int32_t)lmi_map_get(&g->places, s->path));
    info.in = args_of(g, &g->in, &by->in, i, by->args, &info.n_in);
    info.out = args_of(g, &g->out, &by->out, i, by->args + n, &info.n_out);
    return lam_build_call(g->b, &info, &g->call[i], g->e);
}

static bool group(source *g, const lmi_vec *all, lmi_groups *by) {
    int32_t *keys = lmi_alloc(&g->a, all->n, sizeof *keys);
    for (size_t i = 0; keys && i < all->n; i++) keys[i] = ((const pass *)lmi_vec_at(all, i))->scope;
    return keys && lmi_group_by(&g->a, keys, (int32_t)all->n, n_scopes(g), by);
}

static lam_status add_calls(source *g) {
    sides by;
    if (g->in.n + g->out.n > INT32_MAX / 2)
        return lmi_fail(g->e, LAM_LIMIT, g->m->file->name, "too many tensors go from module to module");
    by.args = lmi_alloc(&g->a, g->in.n + g->out.n, sizeof *by.args);
    g->call = lmi_alloc_none(&g->a, n_scopes(g));
    if (!by.args || !g->call || !group(g, &g->in, &by.in) || !group(g, &g->out, &by.out))
        return lmi_nomem(g->e);
    for (int32_t i = 0; i < n_scopes(g); i++)
        if (g->run[i] == RUNS || i == 0) LAM_TRY(add_call(g, &by, i));
    return LAM_OK;
}

/* -- operators ---------------------------------------------------------------------------------------------
 */

static lam_status push(source *g, const char *name, const lmi_vec *in, const lmi_vec *out, int32_t call) {
    const lam_op_info info = {.name = name,
                              .call = call,
                              .parent = -1,
                              .n_in = (int32_t)in->n,
                              .n_out = (int32_t)out->n,
                              .in = in->data,
                              .out = out->data};
    return lam_build_op(g->b, &info, NULL, g->e);
}

static lam_status put_results(const source *g, const int32_t *values, int32_t n, lmi_vec *to) {
    for (int32_t i = 0; i < n; i++) {
        if (values[i] < 0) continue;
        const lam_op_arg a = lmi_onnx_arg(g->m, values[i], i);
        LAM_TRY(lmi_vec_put(to, &a, g->e));
    }
    return LAM_OK;
}

/* What follows from shapes alone, or only names a stored tensor again, is no work of a run. */
static bool is_known_before(const source *g, const lmi_onnx_node *n) {
    if (lmi_onnx_names_stored(g->m, n)) return true;
    for (int32_t i = 0; i < n->n_out; i++) {
        const lmi_onnx_value *v = lmi_onnx_out(g->m, n, i);
        if (v && v->where == LMI_ONNX_NOWHERE) return false;
    }
    return n->n_out > 0;
}

static lam_status push_graph(source *g, lmi_onnx_op *o, const lmi_onnx_graph *graph);

/* The body, and then a node without work that hands its results on. */
static lam_status push_body(source *g, lmi_onnx_op *o, const lmi_onnx_node *n, const lmi_onnx_graph *body,
                            int64_t times, int32_t call) {
    lmi_vec in, out;
    for (int64_t i = 0; i < times; i++) LAM_TRY(push_graph(g, o, body));
    lmi_vec_init(&in, sizeof(lam_op_arg));
    lmi_vec_init(&out, sizeof(lam_op_arg));
    lam_status s = put_results(g, body->outputs, body->n_outputs, &in);
    if (s == LAM_OK) s = put_results(g, n->out, n->n_out, &out);
    lmi_buf_clear(&o->name);
    lmi_putf(&o->name, "onnx::%s.results", n->op);
    if (s == LAM_OK) s = lmi_buf_status(&o->name, g->e);
    if (s == LAM_OK) s = push(g, o->name.s, &in, &out, call);
    lmi_vec_free(&in);
    lmi_vec_free(&out);
    return s;
}

static lam_status push_node(source *g, lmi_onnx_op *o, int32_t node) {
    const lmi_onnx_node *n = lmi_onnx_node_at(g->m, node);
    const int32_t call = g->call[g->s.of[node]];
    int64_t times;
    lmi_vec out;
    if (is_known_before(g, n)) return LAM_OK;
    const lmi_onnx_graph *body = g->followed[node] ? body_of(n, &times) : NULL;
    if (body) return push_body(g, o, n, body, times, call);
    LAM_TRY(lmi_onnx_op_of(o, n));
    lmi_vec_init(&out, sizeof(lam_op_arg));
    lam_status s = put_results(g, n->out, n->n_out, &out);
    if (s == LAM_OK) s = push(g, o->name.s, &o->in, &out, call);
    lmi_vec_free(&out);
    return s;
}

/* As deep as graphs are in each other, which is bounded. */
static lam_status push_graph(source *g, lmi_onnx_op *o,
                             const lmi_onnx_graph *graph) { /* NOLINT(misc-no-recursion) */
    for (int32_t i = 0; i < graph->n_nodes; i++) LAM_TRY(push_node(g, o, graph->nodes[i]));
    return LAM_OK;
}

static lam_status add_operators(source *g) {
    lmi_onnx_op o;
    LAM_TRY(lam_build_ops_seen(g->b, g->e));
    lmi_onnx_op_init(&o, g->m, &g->a, g->e);
    lam_status s = push_graph(g, &o, g->m->graph);
    lmi_onnx_op_free(&o);
    return s;
}

/* -- all of it ---------------------------------------------------------------------------------------------
 */

static lam_status build(source *g) {
    LAM_TRY(lmi_onnx_scopes_of(&g->s, g->m, &g->a, g->e));
    g->depth = lmi_alloc(&g->a, (uint64_t)n_scopes(g), sizeof *g->depth);
    g->run = lmi_alloc(&g->a, (uint64_t)n_scopes(g), sizeof *g->run);
    g->node = lmi_alloc(&g->a, g->m->nodes.n, sizeof *g->node);
    g->followed = lmi_alloc(&g->a, g->m->nodes.n, sizeof *g->followed);
    if (!g->depth || !g->run || !g->node || !g->followed) return lmi_nomem(g->e);
    for (int32_t i = 1; i < n_scopes(g); i++) g->depth[i] = 1 + g->depth[scope(g, i)->parent];
    LAM_TRY(find_running(g, g->m->graph, RUNS, 1));
    LAM_TRY(add_places(g));
    LAM_TRY(add_tensors(g));
    if (g->o && g->o->health) LAM_TRY(lmi_onnx_check(g->m, g->uses, g->o->watcher, g->b, g->e));
    LAM_TRY(find_passes(g));
    LAM_TRY(add_calls(g));
    LAM_TRY(add_operators(g));
    return lmi_onnx_tell(g->m, g->s.folded, g->b, g->e);
}

lam_status lmi_onnx_build(lam_model **out, lmi_onnx_model *m, const lam_read_options *o,
                          uint64_t memory_limit, lam_error *e) {
    source g = {.m = m, .o = o, .e = e};
    g.work = INT64_C(1) << 16;
    lmi_arena_init(&g.a, m->arena.limit);
    lmi_map_init(&g.places);
    lmi_map_init(&g.hidden);
    lmi_map_init(&g.passed);
    lmi_map_init(&g.shared);
    lmi_map_init(&g.by_name);
    lmi_vec_init(&g.modules, sizeof(int32_t));
    lmi_vec_init(&g.in, sizeof(pass));
    lmi_vec_init(&g.out, sizeof(pass));
    lam_status s = lam_builder_new(&g.b, memory_limit, e);
    if (s == LAM_OK) s = build(&g);
    lmi_onnx_scopes_free(&g.s);
    lmi_map_free(&g.places);
    lmi_map_free(&g.hidden);
    lmi_map_free(&g.passed);
    lmi_map_free(&g.shared);
    lmi_map_free(&g.by_name);
    lmi_vec_free(&g.modules);
    lmi_vec_free(&g.in);
    lmi_vec_free(&g.out);
    const bool given = o && o->memory_limit; /* the user's limit is no fault of the file */
    s = lmi_bytes_limit(m->file, g.a.full || (g.b && !given && lmi_builder_full(g.b)), s, e);
    lmi_arena_free(&g.a);
    if (s == LAM_OK) return lam_builder_finish(g.b, out, e);
    lam_builder_free(g.b);
    return s;
}
