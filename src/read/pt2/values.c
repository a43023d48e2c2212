/* SPDX-License-Identifier: Apache-2.0
 *
 * The tensors of a graph, and arguments and results of its nodes. Each name of a tensor stands for one
 * tensor; an operator in place, and a view, are told by what the operator is. */
#include "read/pt2/pt2.h"

#include <math.h>

/* JSON of 4 GB has fewer tensors than FIRST_WEIGHT, and no program is longer. */
enum { MOST_AXES = 32, FIRST_WEIGHT = 1 << 30, AFTER_ALL = 64 };

/* -- tensors --------------------------------------------------------------------------------------------- */

/* torch's number of a type, of the number that the file has for it. */
static int32_t dtype_of(int64_t number) {
    static const int8_t later[] = {27, 24, 23, 26, 25, 44, 28, 29}; /* from 28 on */
    if (number >= 1 && number <= 12) return (int32_t)number - 1;
    if (number == 13) return 15;
    return number >= 28 && number < 28 + (int64_t)sizeof later ? later[number - 28] : -1;
}

static int32_t device_of(const lmi_json *j, uint32_t at) {
    static const struct {
        const char *name;
        int32_t number;
    } all[] = {{"cpu", 0}, {"cuda", 1}, {"xpu", 12}, {"mps", 13}, {"meta", 14}, {"hpu", 15}, {"xla", 9}};
    const char *type = lmi_json_as_text(j, lmi_json_get(j, at, "type"));
    for (size_t i = 0; type && i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].name, type) == 0) return all[i].number;
    return -1;
}

/* Whether the strides that the file tells are others than those of elements one after the other. */
static lam_status find_scattered(lmi_pt2 *p, uint32_t at, lmi_pt2_value *v) {
    const uint32_t strides = lmi_json_get(&p->j, at, "strides");
    int64_t all[MOST_AXES], want = 1;
    int32_t k = 0;
    if (v->ndim < 0 || lmi_json_size(&p->j, strides) != (uint32_t)v->ndim) return LAM_OK;
    LMI_JSON_EACH(&p->j, strides, i) LAM_TRY(lmi_pt2_size(p, i, &all[k++]));
    v->apart = v->ndim > 0 && all[v->ndim - 1] > 1;
    for (int32_t i = v->ndim - 1; i >= 0 && !v->scattered; i--) {
        v->scattered = v->sizes[i] != 1 && all[i] >= 0 && all[i] != want;
        if (lmi_mul_over(want, v->sizes[i], &want)) break;
    }
    return LAM_OK;
}

lam_status lmi_pt2_tensor(lmi_pt2 *p, uint32_t at, lmi_pt2_value *out) {
    const lmi_json *j = &p->j;
    const uint32_t sizes = lmi_json_get(j, at, "sizes");
    int64_t all[MOST_AXES], dtype = -1;
    int32_t n = 0;
    bool known = true;
    *out = (lmi_pt2_value){.weight = -1, .call = -1, .step = -1};
    if (lmi_json_is(j, sizes) != LMI_JSON_LIST) return lmi_pt2_bad(p, at, "a tensor without sizes");
    if (lmi_json_size(j, sizes) > MOST_AXES) return lmi_pt2_bad(p, sizes, "a tensor of more than 32 axes");
    LMI_JSON_EACH(j, sizes, i) {
        LAM_TRY(lmi_pt2_size(p, i, &all[n]));
        if (all[n] < 0 && lmi_json_is(j, lmi_json_get(j, i, "as_int")) == LMI_JSON_NUMBER)
            return lmi_pt2_bad(p, i, "a size below 0");
        known = known && all[n] >= 0;
        n++;
    }
    lmi_json_as_int(j, lmi_json_get(j, at, "dtype"), &dtype);
    out->dtype = dtype_of(dtype);
    out->device = device_of(j, lmi_json_get(j, at, "device"));
    out->ndim = known ? n : -1;
    out->requires_grad = lmi_json_is(j, lmi_json_get(j, at, "requires_grad")) == LMI_JSON_TRUE;
    out->sizes = lmi_copy(&p->arena, all, (uint64_t)(known ? n : 0), sizeof *all);
    return out->sizes ? find_scattered(p, at, out) : lmi_nomem(p->e);
}

static uint64_t identity(int64_t number) { return (uint64_t)(number + 1) << 4; }

void lmi_pt2_identify(lmi_pt2 *p) {
    for (int32_t i = 0; i < (int32_t)p->values.n; i++) {
        lmi_pt2_value *v = lmi_pt2_value_at(p, i);
        if (v->weight < 0) continue;
        v->weight = lmi_pt2_first(p, v->weight);
        v->storage = v->object = identity(FIRST_WEIGHT + v->weight);
    }
}

lam_status lmi_pt2_scope_of(lmi_pt2 *p, uint32_t graph, int32_t *out) {
    const lmi_json *j = &p->j;
    const uint32_t values = lmi_json_get(j, graph, "tensor_values");
    lmi_pt2_scope fresh = {.graph = graph}, *s;
    lmi_map_init(&fresh.by_name);
    lmi_map_init(&fresh.sized);
    *out = (int32_t)p->scopes.n;
    LAM_TRY(lmi_vec_put(&p->scopes, &fresh, p->e));
    s = lmi_vec_at(&p->scopes, (size_t)*out);
    LMI_JSON_NAMES(j, values, i) {
        const char *name = lmi_json_as_text(j, i);
        lmi_pt2_value v;
        LAM_TRY(lmi_pt2_tensor(p, i + 1, &v));
        v.storage = v.object = identity((int64_t)p->values.n);
        const size_t known = s->by_name.n;
        LAM_TRY(lmi_map_put(&s->by_name, name, (int64_t)p->values.n, p->e));
        if (s->by_name.n == known) return lmi_pt2_bad(p, i, "a second tensor of this name");
        LAM_TRY(lmi_vec_put(&p->values, &v, p->e));
    }
    const uint32_t sized = lmi_json_get(j, graph, "sym_int_values");
    if (lmi_json_is(j, sized) != LMI_JSON_OBJECT) return LAM_OK;
    lmi_map_free(&s->sized);
    return lmi_pt2_index(p, sized, &s->sized);
}

int32_t lmi_pt2_named(const lmi_pt2 *p, int32_t scope, const char *name) {
    const lmi_pt2_scope *s = lmi_vec_at(&p->scopes, (size_t)scope);
    return name ? (int32_t)lmi_map_get(&s->by_name, name) : -1;
}

/* -- operators ------------------------------------------------------------------------------------------- */

static lam_status read_operator(lmi_pt2 *p, uint32_t node) {
    static const char head[] = "torch.ops.";
    const uint32_t target = lmi_json_get(&p->j, node, "target");
    const char *text = lmi_json_as_text(&p->j, target);
    if (!text) return lmi_pt2_bad(p, node, "a node without a target");
    if (strncmp(text, head, sizeof head - 1) != 0) return LAM_OK;
    text += sizeof head - 1;
    const size_t room = strcspn(text, "."), at = room + (text[room] == '.');
    const size_t n = strcspn(text + at, ".");
    if (room == 0 || n == 0) return lmi_pt2_bad(p, target, "a target that names no operator");
    if (strncmp(text + at, "sym_", 4) == 0) return LAM_OK;
    char *op = lmi_alloc(&p->arena, room + 2 + n + 1, 1);
    if (!op) return lmi_nomem(p->e);
    memcpy(op, text, room);
    memcpy(op + room, "::", 2);
    memcpy(op + room + 2, text + at, n);
    p->now.op = op;
    return LAM_OK;
}

/* -- arguments ------------------------------------------------------------------------------------------- */

/* Where an entry is put. */
typedef struct target {
    int32_t scope, position;
} target;

static lam_status put(lmi_pt2 *p, const lam_op_arg *a, int32_t value) {
    LAM_TRY(lmi_vec_put(&p->args, a, p->e));
    return lmi_vec_put(&p->arg_value, &value, p->e);
}

static lam_status put_value(lmi_pt2 *p, const target *t, lam_value v) {
    const lam_op_arg a = {.position = t->position, .dtype = -1, .device = -1, .ndim = -1, .value = v};
    return put(p, &a, -1);
}

static lam_status put_tensor(lmi_pt2 *p, const target *t, uint32_t at) {
    const uint32_t name = lmi_json_get(&p->j, at, "name");
    const char *text = lmi_json_as_text(&p->j, name);
    const int32_t index = lmi_pt2_named(p, t->scope, text);
    if (index < 0) return lmi_pt2_bad(p, name ? name : at, "a tensor that the graph does not have");
    const lmi_pt2_value *v = lmi_pt2_value_at(p, index);
    const lam_op_arg a = {.position = t->position,
                          .is_tensor = true,
                          .dtype = v->dtype,
                          .device = v->device,
                          .ndim = v->ndim,
                          .sizes = v->sizes,
                          .storage = v->storage,
                          .object = v->object};
    return put(p, &a, index);
}

static lam_status put_tensors(lmi_pt2 *p, const target *t, uint32_t list) {
    LMI_JSON_EACH(&p->j, list, i) {
        uint32_t at = i;
        const uint32_t inside = lmi_json_get(&p->j, i, "as_tensor");
        if (!inside && !lmi_json_get(&p->j, i, "name")) continue; /* None */
        if (inside && lmi_json_is(&p->j, inside) == LMI_JSON_NULL) continue;
        if (inside) at = inside;
        LAM_TRY(put_tensor(p, t, at));
    }
    return LAM_OK;
}

/* A size that a node computed, by its name, or a number. False: it is not known. */
static bool sized(lmi_pt2 *p, int32_t scope, uint32_t at, int64_t *out, lam_status *s) {
    const lmi_pt2_scope *in = lmi_vec_at(&p->scopes, (size_t)scope);
    const char *name = lmi_json_as_text(&p->j, lmi_json_get(&p->j, at, "as_name"));
    const int64_t value = name ? lmi_map_get(&in->sized, name) : -1;
    if (!name) {
        if (lmi_json_as_int(&p->j, at, out)) return true;
        return lmi_json_as_int(&p->j, lmi_json_get(&p->j, at, "as_int"), out);
    }
    if (value < 0) return false;
    *s = lmi_pt2_size(p, (uint32_t)value, out);
    return *out >= 0;
}

static lam_status put_ints(lmi_pt2 *p, const target *t, uint32_t list, bool bools) {
    const uint32_t n = lmi_json_size(&p->j, list);
    int64_t *ints = lmi_alloc(&p->arena, n, sizeof *ints);
    lam_status s = LAM_OK;
    int32_t k = 0;
    if (!ints) return lmi_nomem(p->e);
    LMI_JSON_EACH(&p->j, list, i) {
        if (bools)
            ints[k++] = lmi_json_is(&p->j, i) == LMI_JSON_TRUE;
        else if (!sized(p, t->scope, i, &ints[k++], &s))
            return s; /* entries that are unknown are left out */
    }
    return put_value(p, t, (lam_value){.type = LAM_INTS, .n = k, .ints = ints});
}

/* A number, or the name of one that JSON has no number for. */
static bool real(const lmi_pt2 *p, uint32_t at, double *out) {
    const char *text = lmi_json_as_text(&p->j, at);
    if (!text) return lmi_json_as_real(&p->j, at, out);
    *out = strcmp(text, "NaN") == 0 ? NAN : text[0] == '-' ? -INFINITY : INFINITY;
    return strcmp(text, "NaN") == 0 || strcmp(text + (text[0] == '-'), "Infinity") == 0;
}

static lam_status put_scalar(lmi_pt2 *p, const target *t, const char *kind, uint32_t at) {
    lam_value v = {.type = LAM_INT};
    lam_status s = LAM_OK;
    if (strcmp(kind, "as_int") == 0 && lmi_json_as_int(&p->j, at, &v.i)) return put_value(p, t, v);
    if (strcmp(kind, "as_scalar_type") == 0 && lmi_json_as_int(&p->j, at, &v.i)) {
        v.i = dtype_of(v.i);
        return v.i < 0 ? LAM_OK : put_value(p, t, v);
    }
    if (strcmp(kind, "as_sym_int") == 0) return sized(p, t->scope, at, &v.i, &s) ? put_value(p, t, v) : s;
    if (strcmp(kind, "as_bool") == 0) {
        v = (lam_value){.type = LAM_BOOL, .i = lmi_json_is(&p->j, at) == LMI_JSON_TRUE};
        return put_value(p, t, v);
    }
    v.type = LAM_FLOAT;
    if (strcmp(kind, "as_float") == 0 && real(p, at, &v.f)) return put_value(p, t, v);
    if (strcmp(kind, "as_string") != 0 || !lmi_json_as_text(&p->j, at)) return LAM_OK;
    return put_value(p, t, (lam_value){.type = LAM_TEXT, .text = lmi_json_as_text(&p->j, at)});
}

/* No rule reads them as arguments. */
static lam_status keep_floats(lmi_pt2 *p, uint32_t list) {
    double f;
    LMI_JSON_EACH(&p->j, list, i)
    if (real(p, i, &f)) LAM_TRY(lmi_vec_put(&p->floats, &f, p->e));
    return LAM_OK;
}

static lam_status put_argument(lmi_pt2 *p, const target *t, uint32_t argument) {
    const char *kind;
    const uint32_t at = lmi_pt2_union(p, argument, &kind);
    if (!at || strcmp(kind, "as_none") == 0) return put_value(p, t, (lam_value){.type = LAM_NONE});
    if (strcmp(kind, "as_tensor") == 0) return put_tensor(p, t, at);
    if (strcmp(kind, "as_tensors") == 0 || strcmp(kind, "as_optional_tensors") == 0)
        return put_tensors(p, t, at);
    if (strcmp(kind, "as_optional_tensor") == 0) return put_argument(p, t, at);
    if (strcmp(kind, "as_ints") == 0 || strcmp(kind, "as_sym_ints") == 0) return put_ints(p, t, at, false);
    if (strcmp(kind, "as_bools") == 0) return put_ints(p, t, at, true);
    if (strcmp(kind, "as_floats") == 0) return keep_floats(p, at);
    if (strcmp(kind, "as_graph") != 0) return put_scalar(p, t, kind, at);
    p->now.graphs += lmi_json_is(&p->j, lmi_json_get(&p->j, at, "graph")) == LMI_JSON_OBJECT;
    return LAM_OK;
}

/* Keywords that the schema's table lacks have no role: they come after all positions. */
static lam_status position_of(lmi_pt2 *p, uint32_t input, int32_t index, int32_t *out) {
    const char *name = lmi_json_as_text(&p->j, lmi_json_get(&p->j, input, "name"));
    int64_t kind = 1;
    *out = -1;
    if (p->now.op && name) *out = lmi_pt2_position(p, name);
    lmi_json_as_int(&p->j, lmi_json_get(&p->j, input, "kind"), &kind);
    if (*out < 0) *out = kind == 2 ? AFTER_ALL + index : index;
    return LAM_OK;
}

static lam_status read_inputs(lmi_pt2 *p, uint32_t node, int32_t scope) {
    target t = {scope, 0};
    int32_t index = 0;
    LMI_JSON_EACH(&p->j, lmi_json_get(&p->j, node, "inputs"), i) {
        LAM_TRY(position_of(p, i, index++, &t.position));
        LAM_TRY(put_argument(p, &t, lmi_json_get(&p->j, i, "arg")));
    }
    return LAM_OK;
}

static lam_status read_outputs(lmi_pt2 *p, uint32_t node, int32_t scope) {
    target t = {scope, 0};
    LMI_JSON_EACH(&p->j, lmi_json_get(&p->j, node, "outputs"), i) {
        const char *kind;
        const uint32_t at = lmi_pt2_union(p, i, &kind);
        if (at && strcmp(kind, "as_tensor") == 0) LAM_TRY(put_tensor(p, &t, at));
        if (at && (strcmp(kind, "as_tensors") == 0 || strcmp(kind, "as_optional_tensors") == 0))
            LAM_TRY(put_tensors(p, &t, at));
        t.position++;
    }
    return LAM_OK;
}

/* -- views and operators in place ------------------------------------------------------------------------ */

static const lam_op_arg *first_tensor(const lmi_pt2 *p) {
    for (int32_t i = 0; i < p->now.n_in; i++) {
        const lam_op_arg *a = lmi_pt2_arg(p, &p->now, i);
        if (a->is_tensor) return a;
    }
    return NULL;
}

/* A result of a view has the memory of its first argument, one in place is it. */
static void share(lmi_pt2 *p) {
    const lam_op_arg *from = first_tensor(p);
    const char *op = p->now.op;
    const size_t n = strlen(op);
    const bool in_place = op[n - 1] == '_' && op[n - 2] != '_';
    const int32_t word = lam_word_op(op);
    const char *kind = lam_word_op_kind(word);
    const bool view = kind && strcmp(kind, "free") == 0 && !strstr(op, "empty");
    if (!from || !(view || in_place)) return;
    for (int32_t i = 0; i < p->now.n_out; i++) {
        lam_op_arg *a = lmi_pt2_arg(p, &p->now, p->now.n_in + i);
        lmi_pt2_value *v = lmi_pt2_value_at(p, lmi_pt2_arg_value(p, &p->now, p->now.n_in + i));
        if (a->dtype != from->dtype || a->device != from->device) continue;
        v->storage = a->storage = from->storage;
        if (in_place && i == 0) v->object = a->object = from->object;
    }
}

static int32_t since(const lmi_vec *v, size_t first) { return (int32_t)(v->n - first); }

lam_status lmi_pt2_node(lmi_pt2 *p, uint32_t node, int32_t scope) {
    lmi_pt2_step *s = &p->now;
    *s = (lmi_pt2_step){
        .node = node, .scope = scope, .call = -1, .first = p->args.n, .first_float = p->floats.n};
    LAM_TRY(read_operator(p, node));
    if (s->op) LAM_TRY(lmi_pt2_schema(p));
    LAM_TRY(read_inputs(p, node, scope));
    s->n_in = since(&p->args, s->first);
    s->n_floats = since(&p->floats, s->first_float);
    if (s->op) LAM_TRY(lmi_pt2_defaults(p));
    LAM_TRY(read_outputs(p, node, scope));
    s->n_out = since(&p->args, s->first) - s->n_in;
    if (s->op) share(p);
    return LAM_OK;
}

void lmi_pt2_drop(lmi_pt2 *p) {
    p->args.n = p->arg_value.n = p->now.first;
    p->floats.n = p->now.first_float;
}
