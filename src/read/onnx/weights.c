/* SPDX-License-Identifier: Apache-2.0
 *
 * Which constants of a graph are parameters, and whose. A file stores weights, statistics, shapes and factors
 * alike, as initialisers or as results of Constant nodes. A parameter is
 *   - a floating-point tensor of more than one element, or one whose name is that of a module's tensor, and
 *   - a tensor of 8 bits or fewer an element, or of 32-bit integers where an operator takes such a bias,
 * that some node reads as other than a setting (operators.def), or that none reads. Statistics of a batch
 * normalisation, and whole numbers that have the name of a module's tensor, are buffers. NaN and Inf in them
 * are found by the search that files of weights have. */
#include "read/weights/weights.h"
#include "read/onnx/source.h"

#include <ctype.h>
#include <stdio.h>

static bool is_float(int32_t type) {
    return type == LMI_ONNX_FLOAT || type == LMI_ONNX_FLOAT16 || type == LMI_ONNX_DOUBLE ||
           type == LMI_ONNX_BFLOAT16 || type == LMI_ONNX_COMPLEX64 || type == LMI_ONNX_COMPLEX128;
}

/* True for an operator that takes the bias, or a weight, as 32-bit integers at that argument. */
static bool takes_int32(const lmi_onnx_node *n, int32_t i) {
    if (strcmp(n->op, "DequantizeLinear") == 0) return i == 0;
    if (strcmp(n->op, "QLinearConv") == 0) return i == 8;
    if (strcmp(n->op, "QGemm") == 0) return i == 6;
    return false;
}

static bool is_statistic(const lmi_onnx_node *n, int32_t i) {
    return strcmp(n->op, "BatchNormalization") == 0 && (i == 3 || i == 4);
}

/* A state of zeros is made by repeating a constant, as a token of a vision transformer is made of a
 * parameter: only the latter has a name, of a module's tensor or, by torch, of the model's. torch's exporters
 * end names that they make up in a number: "onnx::Expand_42", "val_7". */
static bool is_fill(const lmi_onnx_node *n) {
    return strcmp(n->op, "Expand") == 0 || strcmp(n->op, "Tile") == 0;
}
static bool is_named(const lmi_onnx_model *m, const lmi_onnx_value *v) {
    const size_t n = strlen(v->name);
    const bool made_up = n == 0 || isdigit((unsigned char)v->name[n - 1]);
    return v->initialiser && (strchr(v->name, '.') || (strcmp(m->producer, "pytorch") == 0 && !made_up));
}

void lmi_onnx_look_at(const lmi_onnx_model *m, lmi_onnx_use *uses, int32_t node) {
    const lmi_onnx_node *n = lmi_onnx_node_at(m, node);
    if (lmi_onnx_names_stored(m, n)) return;
    for (int32_t i = 0; i < n->n_in; i++) {
        const int32_t v = lmi_onnx_stored(m, n->in[i]);
        if (v < 0) continue;
        lmi_onnx_use *u = &uses[v];
        if (u->first < 0) u->first = node;
        if (is_statistic(n, i))
            u->statistic = true;
        else if (lmi_onnx_is_setting(n, i) || (is_fill(n) && !is_named(m, lmi_onnx_value_at(m, v))))
            u->setting = true;
        else
            u->weight = true;
        u->int32 = u->int32 || takes_int32(n, i);
    }
}

lmi_onnx_role lmi_onnx_role_of(const lmi_onnx_value *v, const lmi_onnx_use *u, bool named) {
    int64_t n = -1;
    const int32_t bits = lmi_onnx_bits(v->type);
    const bool few = bits > 0 && bits <= 8 && v->type != LMI_ONNX_BOOL;
    if (v->kind != LMI_ONNX_TENSOR || v->type == LMI_ONNX_STRING) return LMI_ONNX_NO_WEIGHT;
    const bool sized = v->ndim >= 0 && lmi_product(v->sizes, v->ndim, &n);
    if (u->first >= 0 && !u->weight && !u->statistic) return LMI_ONNX_NO_WEIGHT;
    if (sized && n <= 1 && !(named && is_float(v->type))) return LMI_ONNX_NO_WEIGHT;
    if (u->statistic && !u->weight) return LMI_ONNX_BUFFER;
    if (is_float(v->type) || few || (v->type == LMI_ONNX_INT32 && u->int32)) return LMI_ONNX_PARAMETER;
    return named && u->first >= 0 ? LMI_ONNX_BUFFER : LMI_ONNX_NO_WEIGHT;
}

/* -- packed weights -------------------------------------------------------------------------------------- */

/* An operator of com.microsoft that takes a weight of few bits, in bytes: at which argument, and where the
 * first scales of it are. Source: its schemas in ONNX Runtime 1.32. */
static const struct packed {
    const char *op;
    int32_t at, scales, zeros;
} packed[] = {{"MatMulNBits", 1, 2, 3}, {"MatMulBnb4", 1, 2, -1}, {"QMoE", 2, 3, 11},
              {"QMoE", 5, 6, 12},       {"QMoE", 8, 9, 13},       {"GatherBlockQuantized", 0, 2, 3}};

static const struct packed *packed_at(const lmi_onnx_node *n, int32_t i) {
    for (size_t k = 0; k < sizeof packed / sizeof *packed; k++)
        if (packed[k].at == i && strcmp(packed[k].op, n->op) == 0 && strcmp(n->domain, "com.microsoft") == 0)
            return &packed[k];
    return NULL;
}

/* How many numbers there are along the last axis: as many as their bits say, which are whole in a row. */
static bool spread(const lmi_onnx_value *v, int64_t bits, int64_t sizes[3]) {
    int64_t all;
    if (v->type != LMI_ONNX_UINT8 || v->ndim < 1 || v->ndim > 3 || bits < 1 || bits > 8) return false;
    memcpy(sizes, v->sizes, (size_t)v->ndim * sizeof *sizes);
    if (sizes[v->ndim - 1] < 0 || lmi_mul_over(sizes[v->ndim - 1], 8, &all)) return false;
    sizes[v->ndim - 1] = all / bits;
    return true;
}

int32_t lmi_onnx_unpacked(const lmi_onnx_model *m, const lmi_onnx_node *n, int32_t i, int64_t sizes[3]) {
    static const char *const own[] = {"fc1_expert_weight_bits", "fc2_expert_weight_bits",
                                      "fc3_expert_weight_bits"};
    const struct packed *p = packed_at(n, i);
    const lmi_onnx_value *v = lmi_onnx_in(m, n, i);
    if (!p || !v) return -1;
    if (strncmp(n->op, "MatMul", 6) == 0) {
        sizes[0] = lmi_onnx_int(n, "N", -1);
        sizes[1] = lmi_onnx_int(n, "K", -1);
        return sizes[0] > 0 && sizes[1] > 0 ? 2 : -1;
    }
    int64_t bits = lmi_onnx_int(n, "bits", 4);
    if (i >= 2) bits = lmi_onnx_int(n, own[(i - 2) / 3], lmi_onnx_int(n, "expert_weight_bits", 4));
    return spread(v, bits, sizes) ? v->ndim : -1;
}

/* Adds the bytes of scales or zero points; -1: they are not known. */
static int64_t with(int64_t bytes, const lmi_onnx_value *v) {
    uint64_t more;
    int64_t all;
    if (!v || bytes < 0) return bytes;
    return lmi_onnx_raw_bytes(v, &more) && !lmi_add_over(bytes, (int64_t)more, &all) ? all : -1;
}

lam_status lmi_onnx_weight(lmi_onnx_model *m, int32_t value, const lmi_onnx_use *u, lam_tensor_info *to,
                           lmi_arena *a, lam_error *e) {
    const lmi_onnx_value *v = lmi_onnx_value_at(m, value);
    const lmi_onnx_node *n = lmi_onnx_node_at(m, u->first);
    const lam_op_arg as = lmi_onnx_arg(m, value, 0);
    uint64_t bytes;
    const bool known = lmi_onnx_raw_bytes(v, &bytes);
    *to = (lam_tensor_info){.dtype = as.dtype,
                            .ndim = as.ndim,
                            .sizes = as.sizes,
                            .bytes = v->where == LMI_ONNX_SPARSE ? (int64_t)v->bytes
                                     : known                     ? (int64_t)bytes
                                                                 : -1,
                            .storage = as.storage,
                            .object = as.object};
    for (size_t k = 0; n && k < sizeof packed / sizeof *packed; k++) {
        const struct packed *p = &packed[k];
        int64_t sizes[3];
        const bool here = p->at < n->n_in && lmi_onnx_stored(m, n->in[p->at]) == value;
        const int32_t ndim = here ? lmi_onnx_unpacked(m, n, p->at, sizes) : -1;
        if (ndim < 0 || packed_at(n, p->at) != p) continue;
        const lmi_onnx_value *scales = lmi_onnx_in(m, n, p->scales);
        to->ndim = ndim;
        to->sizes = lmi_copy(a, sizes, (uint64_t)ndim, sizeof *sizes);
        if (!to->sizes) return lmi_nomem(e);
        to->bytes = with(with(to->bytes, scales), p->zeros < 0 ? NULL : lmi_onnx_in(m, n, p->zeros));
        if (scales && scales->type) to->dtype = lmi_onnx_dtype(scales->type);
        return LAM_OK;
    }
    return LAM_OK;
}

/* -- NaN and Inf ----------------------------------------------------------------------------------------- */

/* Where the values of a weight are: in the model's file, or in memory that is another one of the list. */
static lam_status place_of(lmi_onnx_model *m, int32_t value, lmi_tensors *t, lmi_stored_tensor *x,
                           lam_error *e) {
    lmi_onnx_value *v = lmi_onnx_value_at(m, value);
    const void *memory = NULL;
    x->placed = true;
    x->at = v->at;
    if (v->where == LMI_ONNX_RAW) return LAM_OK;
    if (v->where == LMI_ONNX_MEMORY || v->where == LMI_ONNX_FIELDS)
        LAM_TRY(lmi_onnx_elements(m, v, m->file->size * 2, &memory, e));
    x->placed = memory != NULL;
    x->at = 0;
    if (!memory)
        x->unread = v->where == LMI_ONNX_EXTERNAL ? "they are in another file, which is not opened"
                    : v->where == LMI_ONNX_SPARSE ? "it is sparse"
                                                  : "its numbers are not those of its type and shape";
    const lmi_bytes held = lmi_bytes_of(memory, v->bytes, m->file->name);
    return memory ? lmi_tensors_in(t, &held, e) : LAM_OK;
}

/* A constant of -Inf alone is mostly a mask, but not as what layers name so. */
static bool may_be_mask(const char *name) {
    const char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name;
    return strcmp(last, "weight") != 0 && strcmp(last, "bias") != 0;
}

/* Values of functions and bodies may have the names of others. */
static lam_status add(lmi_onnx_model *m, int32_t value, lmi_tensors *t, lam_error *e) {
    const lmi_onnx_value *v = lmi_onnx_value_at(m, value);
    const lam_op_arg as = lmi_onnx_arg(m, value, 0);
    uint64_t bytes = 0;
    char other[300];
    lmi_stored_tensor x = {.name = v->name,
                           .dtype = as.dtype,
                           .ndim = as.ndim,
                           .sizes = as.sizes,
                           .role_known = true,
                           .buffer = may_be_mask(v->name)};
    x.bytes = lmi_onnx_raw_bytes(v, &bytes) ? (int64_t)bytes : -1;
    snprintf(other, sizeof other, "%.250s (value %d)", v->name, (int)value);
    if (lmi_tensors_find(t, v->name) >= 0) x.name = other;
    LAM_TRY(place_of(m, value, t, &x, e));
    LAM_TRY(lmi_tensors_add(t, &x, m->file, v->at, e));
    if (v->where == LMI_ONNX_RAW) lmi_tensors_at(t, lmi_tensors_n(t) - 1)->file = 0;
    return LAM_OK;
}

static lam_status check(lmi_onnx_model *m, const lmi_onnx_use *uses, lmi_tensors *t,
                        const lam_watcher *watcher, lam_builder *b, lam_error *e) {
    int32_t n = 0, *place = lmi_alloc_none(&t->arena, (int32_t)m->values.n);
    if (!place) return lmi_nomem(e);
    LAM_TRY(lmi_tensors_in(t, m->file, e)); /* the first file of the list */
    for (int32_t i = 0; i < (int32_t)m->values.n; i++) {
        if (!uses[i].tensor) continue;
        place[n++] = uses[i].place;
        LAM_TRY(add(m, i, t, e));
    }
    LAM_TRY(lmi_weights_check(t, watcher, e));
    LAM_TRY(lmi_tensors_health(t, place, b, e));
    return lmi_tensors_tell(t, b, e);
}

lam_status lmi_onnx_check(lmi_onnx_model *m, const lmi_onnx_use *uses, const lam_watcher *watcher,
                          lam_builder *b, lam_error *e) {
    lmi_tensors t;
    lmi_tensors_init(&t, m->file->size);
    t.keep = true;
    lam_status s = check(m, uses, &t, watcher, b, e);
    lmi_tensors_free(&t);
    return s;
}
