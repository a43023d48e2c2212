/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors in a pickle: the call that would rebuild one has its storage, shape and strides as arguments. Each
 * is held against the storage, which must be in the file. */
#include "read/torch/checkpoint.h"

#include <stdio.h>

enum { MOST_WRAPPED = 8, MOST_INSIDE = 64 };

/* The arguments of a call, by the name of the function in torch._utils. */
typedef struct rebuilding {
    lmi_tensors *t;
    const lmi_pickle *p;
    const lmi_storages *in;
    lmi_stored_tensor *out;
    uint64_t *identity;
    lam_error *e;
} rebuilding;

static bool is(const char *a, const char *b) { return strcmp(a, b) == 0; }

/* One of which nothing is known yet. */
static lmi_stored_tensor unknown_tensor(void) {
    static const int64_t none[1] = {0};
    return (lmi_stored_tensor){.dtype = -1, .ndim = -1, .bytes = -1, .sizes = none};
}

static lam_status bad(const rebuilding *r, const char *what, const char *name) {
    return lmi_fail(r->e, LAM_SYNTAX, r->in->of->name, "it is damaged: a tensor %s%s%.100s%s", what,
                    name ? " '" : "", name ? name : "", name ? "'" : "");
}

int32_t lmi_torch_storage_type(const lmi_pickled_global *g) {
    static const struct {
        const char *name, *dtype;
    } all[] = {{"FloatStorage", "float32"},
               {"HalfStorage", "float16"},
               {"BFloat16Storage", "bfloat16"},
               {"DoubleStorage", "float64"},
               {"LongStorage", "int64"},
               {"IntStorage", "int32"},
               {"ShortStorage", "int16"},
               {"CharStorage", "int8"},
               {"ByteStorage", "uint8"},
               {"BoolStorage", "bool"},
               {"ComplexFloatStorage", "complex64"},
               {"ComplexDoubleStorage", "complex128"},
               {"QInt8Storage", "qint8"},
               {"QUInt8Storage", "quint8"},
               {"QInt32Storage", "qint32"},
               {"QUInt4x2Storage", "quint4x2"},
               {"QUInt2x4Storage", "quint2x4"}};
    for (size_t i = 0; g && i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].name, g->name) == 0) return lam_dtype_by_name(all[i].dtype);
    return -1;
}

/* The type of torch that a global such as torch.float16 is; -1: none. */
static int32_t dtype_of(const lmi_pickle *p, int32_t value) {
    const lmi_pickled_global *g = lmi_pickled_global_of(p, value);
    return g && is(g->module, "torch") ? lam_dtype_by_name(g->name) : -1;
}

/* Whole numbers of a tuple, or of the torch.Size that a call makes of one. */
bool lmi_torch_sizes(const lmi_pickle *p, int32_t value, int64_t *out, int32_t *n) {
    const lmi_pickled_call *size = lmi_pickled_call_of(p, value, "torch", "Size");
    if (size) value = lmi_pickled_item(p, size->arguments, 0);
    if (value < 0) return false;
    const lmi_pickled kind = lmi_pickled_at(p, value)->kind;
    const lmi_pickled_items items = lmi_pickled_items_of(p, value);
    if ((kind != LMI_PICKLED_TUPLE && kind != LMI_PICKLED_LIST) || items.n > LMI_MOST_AXES) return false;
    *n = 0;
    for (int32_t c = items.first; c >= 0; c = lmi_pickled_cell_at(p, c)->next)
        if (!lmi_pickled_int(p, lmi_pickled_cell_at(p, c)->value, &out[(*n)++])) return false;
    return true;
}

/* -- storages -------------------------------------------------------------------------------------------- */

typedef struct storage {
    const char *name;
    int64_t elements;
    int32_t dtype;
    const lmi_zip_entry *entry; /* of a zip file, once it was found */
} storage;

static bool take_storage(const rebuilding *r, int32_t value, storage *out) {
    const lmi_pickled_value *v = value < 0 ? NULL : lmi_pickled_at(r->p, value);
    if (!v || v->kind != LMI_PICKLED_KEPT) return false;
    const char *what = lmi_pickled_text(r->p, lmi_pickled_item(r->p, v->id, 0));
    out->name = lmi_pickled_text(r->p, lmi_pickled_item(r->p, v->id, 2));
    out->dtype = lmi_torch_storage_type(lmi_pickled_global_of(r->p, lmi_pickled_item(r->p, v->id, 1)));
    return what && strcmp(what, "storage") == 0 && out->name &&
           lmi_pickled_int(r->p, lmi_pickled_item(r->p, v->id, 4), &out->elements) && out->elements >= 0;
}

/* Holds a storage of so many bytes against what the file has. */
static lam_status check_storage(const rebuilding *r, storage *s, int64_t bytes) {
    char name[512];
    if (!r->in->zip) {
        const int64_t there = lmi_map_get(&r->in->elements, s->name);
        return there >= s->elements ? LAM_OK
                                    : bad(r, "is in a storage that the file does not have whole:", s->name);
    }
    const int n = snprintf(name, sizeof name, "%.*s/%s/%s", (int)r->in->folder, r->in->folder_name,
                           r->in->storages, s->name);
    const lmi_zip_entry *entry = n > 0 && (size_t)n < sizeof name ? lmi_zip_find(r->in->zip, name) : NULL;
    if (!entry) return bad(r, "is in a storage that the file does not have:", s->name);
    if (entry->size < (uint64_t)bytes) return bad(r, "is in a storage whose entry is too short:", name);
    s->entry = entry;
    return LAM_OK;
}

/* The byte of the file that a storage begins at; *found is false if it is compressed, or damaged. */
static lam_status find_storage(const rebuilding *r, const storage *s, uint64_t *at, bool *found) {
    if (!s->entry) {
        const int64_t place = lmi_map_get(&r->in->places, s->name);
        *at = (uint64_t)place;
        *found = place >= 0;
        return LAM_OK;
    }
    return lmi_zip_place(r->in->zip, s->entry, at, found, r->e);
}

/* Says where the values of a view are. */
static lam_status place_view(const rebuilding *r, const storage *s, const int64_t *strides, int64_t offset) {
    lmi_stored_tensor *x = r->out;
    uint64_t at = 0;
    bool found = false;
    if ((!r->t->keep && !lmi_may_tell(x)) || x->unread) return LAM_OK;
    LAM_TRY(find_storage(r, s, &at, &found));
    if (r->in->turned) x->unread = "its numbers are in the other byte order";
    if (!x->unread && !found) x->unread = LMI_PACKED_STORAGE;
    return x->unread ? LAM_OK : lmi_tensors_view(r->t, x, at, strides, offset, r->e);
}

static lam_status take_shape(const rebuilding *r, const int64_t *sizes, int32_t n) {
    r->out->ndim = n;
    r->out->sizes = lmi_copy(&r->t->arena, sizes, (uint64_t)n, sizeof *sizes);
    return r->out->sizes ? LAM_OK : lmi_nomem(r->e);
}

/* (storage, offset, size, stride, ...), with a type of its own for a storage of bytes. */
static lam_status take_view(const rebuilding *r, int32_t arguments, int32_t dtype) {
    int64_t sizes[LMI_MOST_AXES], strides[LMI_MOST_AXES], offset = -1, numel;
    int32_t n = 0, n_strides = 0;
    storage s = {0};
    if (!take_storage(r, lmi_pickled_item(r->p, arguments, 0), &s)) return bad(r, "has no storage", NULL);
    const bool known = lmi_pickled_int(r->p, lmi_pickled_item(r->p, arguments, 1), &offset) &&
                       lmi_torch_sizes(r->p, lmi_pickled_item(r->p, arguments, 2), sizes, &n) &&
                       lmi_torch_sizes(r->p, lmi_pickled_item(r->p, arguments, 3), strides, &n_strides);
    if (!known || n != n_strides) return bad(r, "has no shape and strides; its storage is", s.name);
    const int32_t of_storage = s.dtype >= 0 ? lam_dtype_bits(s.dtype) : 8;
    if (dtype < 0) dtype = s.dtype;
    const int32_t bits = lam_dtype_bits(dtype);
    const int64_t spanned = lmi_view_span(sizes, strides, n, offset);
    if (spanned < 0 || !lmi_product(sizes, n, &numel))
        return bad(r, "has a shape that can't be; its storage is", s.name);
    const lmi_int128 needed = (lmi_int128)spanned * bits, has = (lmi_int128)s.elements * of_storage;
    if (has > (lmi_int128)INT64_MAX * 8) return bad(r, "has a storage that can't be:", s.name);
    if (needed > has) return bad(r, "reaches behind the end of its storage", s.name);
    LAM_TRY(check_storage(r, &s, (int64_t)(has / 8)));
    r->out->dtype = dtype;
    LAM_TRY(take_shape(r, sizes, n));
    r->out->bytes = bits ? (int64_t)(((lmi_int128)numel * bits + 7) / 8) : -1;
    const uint64_t parts[] = {lmi_hash_text(s.name), (uint64_t)offset, (uint64_t)dtype,
                              lmi_hash(sizes, (size_t)n * sizeof *sizes),
                              lmi_hash(strides, (size_t)n * sizeof *strides)};
    *r->identity = lmi_hash(parts, sizeof parts) | 1;
    return place_view(r, &s, strides, offset);
}

/* A tensor on no device has a shape and no bytes. */
static lam_status take_meta(const rebuilding *r, int32_t arguments) {
    int64_t sizes[LMI_MOST_AXES];
    int32_t n = 0;
    if (!lmi_torch_sizes(r->p, lmi_pickled_item(r->p, arguments, 1), sizes, &n))
        return bad(r, "on the meta device has no shape", NULL);
    r->out->dtype = dtype_of(r->p, lmi_pickled_item(r->p, arguments, 0));
    r->out->bytes = 0;
    r->out->unread = "it is on the meta device and has no values";
    return take_shape(r, sizes, n);
}

/* -- tensors that hold others ---------------------------------------------------------------------------- */

/* What the tensors inside another one add up to. */
typedef struct inside {
    int32_t left; /* values that are still looked at: there are few, and the work for each name is bounded */
    int64_t bytes, numel;
    uint64_t identity;
    bool plain;    /* there is one, which holds no others */
    int32_t dtype; /* of the last one */
} inside;

static lam_status take_value(const rebuilding *r, int32_t value, inside *in, bool *is_tensor);

static lam_status take_dict(const rebuilding *r, int32_t dict, inside *in) { /* NOLINT(misc-no-recursion) */
    bool is_tensor;
    if (dict < 0 || lmi_pickled_at(r->p, dict)->kind != LMI_PICKLED_DICT) return LAM_OK;
    int32_t c = lmi_pickled_items_of(r->p, dict).first;
    for (int32_t i = 0; c >= 0 && in->left >= 0; c = lmi_pickled_cell_at(r->p, c)->next, i++)
        if (i % 2) LAM_TRY(take_value(r, lmi_pickled_cell_at(r->p, c)->value, in, &is_tensor));
    return LAM_OK;
}

/* A state is a dict of attributes or, of an object with slots, two of them. */
static lam_status take_state(const rebuilding *r, int32_t state, inside *in) { /* NOLINT(misc-no-recursion) */
    if (state >= 0 && lmi_pickled_at(r->p, state)->kind == LMI_PICKLED_TUPLE)
        for (int32_t i = 0; i < 2; i++) LAM_TRY(take_dict(r, lmi_pickled_item(r->p, state, i), in));
    return take_dict(r, state, in);
}

/* (class, type, size, ...) and the state, which has the tensors that hold its values. A DTensor has the size
 * of the whole, and in its state what one process has of it. */
static lam_status take_wrapper(const rebuilding *r, int32_t arguments, int32_t state,
                               inside *in) { /* NOLINT(misc-no-recursion) */
    static const char sharded[] = "torch.distributed.";
    const lmi_pickled_global *made = lmi_pickled_global_of(r->p, lmi_pickled_item(r->p, arguments, 0));
    lmi_stored_tensor *x = r->out;
    int64_t sizes[LMI_MOST_AXES], numel;
    int32_t n = 0;
    x->unread = "other tensors hold its values";
    x->dtype = dtype_of(r->p, lmi_pickled_item(r->p, arguments, 1));
    x->bytes = -1;
    if (!lmi_torch_sizes(r->p, lmi_pickled_item(r->p, arguments, 2), sizes, &n)) return LAM_OK;
    if (!lmi_product(sizes, n, &numel))
        return bad(r, "has a shape that can't be; it is of the class", made ? made->name : "?");
    LAM_TRY(take_state(r, state, in));
    LAM_TRY(take_shape(r, sizes, n));
    const bool known = in->left >= 0 && in->bytes >= 0 && in->identity;
    x->bytes = known ? in->bytes : -1;
    if (known) *r->identity = in->identity;
    const bool part =
        made && strncmp(made->module, sharded, sizeof sharded - 1) == 0 && is(made->name, "DTensor");
    if (!part && made) x->type = made->name;
    if (!part || !known || in->numel < 0 || in->numel >= numel) return LAM_OK;
    x->elsewhere = numel - in->numel;
    x->here = in->bytes;
    const lmi_int128 bits = (lmi_int128)numel * lam_dtype_bits(x->dtype);
    x->bytes = in->plain && bits > 0 && bits / 8 < INT64_MAX ? (int64_t)((bits + 7) / 8) : -1;
    return LAM_OK;
}

/* (layout, (indices, values, size, ...)) or, of rows or columns that are compressed, (layout, (two of
 * indices, values, size)): the type is that of the values. */
static lam_status take_sparse(const rebuilding *r, int32_t arguments,
                              inside *in) { /* NOLINT(misc-no-recursion) */
    const int32_t data = lmi_pickled_item(r->p, arguments, 1);
    lmi_stored_tensor *x = r->out;
    int64_t sizes[LMI_MOST_AXES], numel;
    int32_t n = 0, at = 2;
    bool is_tensor;
    x->ndim = x->dtype = -1;
    x->bytes = -1;
    x->unread = "it is kept in a way that is not read";
    while (at < 4 && !lmi_torch_sizes(r->p, lmi_pickled_item(r->p, data, at), sizes, &n)) at++;
    if (at == 4) return LAM_OK;
    if (!lmi_product(sizes, n, &numel)) return bad(r, "that is sparse has a shape that can't be", NULL);
    for (int32_t i = 0; i < at; i++) LAM_TRY(take_value(r, lmi_pickled_item(r->p, data, i), in, &is_tensor));
    LAM_TRY(take_shape(r, sizes, n));
    x->dtype = in->dtype;
    x->bytes = in->left >= 0 && in->identity ? in->bytes : -1;
    if (x->bytes >= 0) *r->identity = in->identity;
    return LAM_OK;
}

/* What torch._utils.NAME makes of its arguments; *found is false if that is no tensor. */
static lam_status rebuild(const rebuilding *r, const char *name, int32_t arguments, int32_t state, inside *in,
                          bool *found) { /* NOLINT(misc-no-recursion) */
    static const char *const others[] = {"_rebuild_nested_tensor", "_rebuild_device_tensor_from_numpy",
                                         "_rebuild_device_tensor_from_cpu_tensor", "_rebuild_xla_tensor"};
    *found = true;
    if (is(name, "_rebuild_qtensor")) r->out->unread = "its scales are not read";
    if (is(name, "_rebuild_tensor") || is(name, "_rebuild_tensor_v2") || is(name, "_rebuild_qtensor"))
        return take_view(r, arguments, -1);
    if (is(name, "_rebuild_tensor_v3"))
        return take_view(r, arguments, dtype_of(r->p, lmi_pickled_item(r->p, arguments, 6)));
    if (is(name, "_rebuild_meta_tensor_no_storage")) return take_meta(r, arguments);
    if (is(name, "_rebuild_sparse_tensor") || is(name, "_rebuild_sparse_csr_tensor"))
        return take_sparse(r, arguments, in);
    if (is(name, "_rebuild_wrapper_subclass")) return take_wrapper(r, arguments, state, in);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (!is(name, others[i])) continue;
        r->out->ndim = r->out->dtype = -1;
        r->out->bytes = -1;
        r->out->unread = "it is kept in a way that is not read";
        return LAM_OK;
    }
    *found = false;
    return LAM_OK;
}

/* The tensor that a value is, with those inside of it. */
static lam_status find(const rebuilding *r, int32_t value, inside *in,
                       bool *is_tensor) { /* NOLINT(misc-no-recursion) */
    const lmi_pickle *p = r->p;
    for (int depth = 0; depth < MOST_WRAPPED; depth++) {
        const lmi_pickled_call *call = lmi_pickled_call_of(p, value, NULL, NULL);
        const lmi_pickled_global *f = call ? lmi_pickled_global_of(p, call->function) : NULL;
        if (!f) return LAM_OK;
        const bool class = is(f->module, "torch.nn.parameter") && is(f->name, "Parameter"); /* of old torch */
        if (class || (is(f->module, "torch._utils") && strncmp(f->name, "_rebuild_parameter", 18) == 0)) {
            r->out->role_known = true; /* not a buffer */
            value = lmi_pickled_item(p, call->arguments, 0);
        } else if (is(f->module, "torch._tensor") && is(f->name, "_rebuild_from_type_v2")) {
            const lmi_pickled_global *g = lmi_pickled_global_of(p, lmi_pickled_item(p, call->arguments, 0));
            const int32_t arguments = lmi_pickled_item(p, call->arguments, 2);
            const int32_t state = lmi_pickled_item(p, call->arguments, 3);
            return g && is(g->module, "torch._utils") ? rebuild(r, g->name, arguments, state, in, is_tensor)
                                                      : LAM_OK;
        } else {
            return is(f->module, "torch._utils") ? rebuild(r, f->name, call->arguments, -1, in, is_tensor)
                                                 : LAM_OK;
        }
    }
    return LAM_OK;
}

/* Adds the tensor that a value is, if it is one, to those inside of another. */
static lam_status take_value(const rebuilding *r, int32_t value, inside *in,
                             bool *is_tensor) { /* NOLINT(misc-no-recursion) */
    lmi_stored_tensor x = unknown_tensor();
    uint64_t identity = 0;
    x.unread = r->out->unread;
    const rebuilding inner = {r->t, r->p, r->in, &x, &identity, r->e};
    inside more = {.left = in->left - 1, .dtype = -1};
    int64_t numel;
    *is_tensor = false;
    if (in->left <= 0) {
        in->left = -1;
        return LAM_OK;
    }
    LAM_TRY(find(&inner, value, &more, is_tensor));
    in->left = more.left;
    if (!*is_tensor) return LAM_OK;
    in->plain = in->identity == 0 && x.type == NULL;
    in->dtype = x.dtype;
    if (x.ndim < 0 || !lmi_product(x.sizes, x.ndim, &numel)) numel = -1;
    in->numel = in->identity == 0 ? numel : -1;
    if (x.bytes < 0 || lmi_add_over(in->bytes, x.bytes, &in->bytes)) in->bytes = -1;
    const uint64_t parts[] = {in->identity, identity, (uint64_t)numel};
    in->identity = lmi_hash(parts, sizeof parts) | 1;
    return LAM_OK;
}

lam_status lmi_torch_tensor(lmi_tensors *t, const lmi_pickle *p, const lmi_storages *in, int32_t value,
                            lmi_stored_tensor *out, uint64_t *identity, bool *is_tensor, lam_error *e) {
    const rebuilding r = {t, p, in, out, identity, e};
    inside more = {.left = MOST_INSIDE, .dtype = -1};
    *out = unknown_tensor();
    *is_tensor = false;
    *identity = 0;
    return find(&r, value, &more, is_tensor);
}
