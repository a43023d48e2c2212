/* SPDX-License-Identifier: Apache-2.0
 * Tensors by their handles: their memory, sparse forms, and where their values are. */
#include "native/handles.h"

bool lmx_data_of(const lmx_shim *s, const void *handle, uint64_t *out) {
    void *h = (void *)(uintptr_t)handle, *data = NULL;
    const void *peeked = NULL;
    *out = 0;
    if (!s->peek && !s->data) return false;
    if (s->peek ? s->peek(h, &peeked) : s->data(h, &data)) return false;
    *out = (uint64_t)(uintptr_t)(s->peek ? peeked : data);
    return true;
}

/* If the location of the memory is unknown, the address of its first element identifies it. */
uint64_t lmx_memory_of(const lmx_layout *l, const lmx_shim *s, const void *handle) {
    uint64_t object = lmx_word_at(handle, 0);
    if (!object) return 0;
    if (l->storage >= 0) return lmx_word_at((const void *)(uintptr_t)object, (size_t)l->storage);
    void *at = (void *)(uintptr_t)handle;
    uint64_t data;
    int64_t first = 0;
    int32_t dtype = -1;
    if (!s->offset || !lmx_data_of(s, at, &data) || s->offset(at, &first) || s->dtype(at, &dtype)) return 0;
    return data - (uint64_t)first * (uint64_t)lam_dtype_bits(dtype) / 8;
}

uint64_t lmx_span(int32_t dtype, int32_t ndim, const int64_t *sizes, const int64_t *strides) {
    int64_t last = 0, part;
    for (int32_t i = 0; i < ndim; i++) {
        if (sizes[i] == 0) return 0;
        if (__builtin_mul_overflow(sizes[i] - 1, strides[i], &part)) return 0;
        if (part < 0 || __builtin_add_overflow(last, part, &last)) return 0;
    }
    if (__builtin_add_overflow(last, 1, &last)) return 0;
    if (__builtin_mul_overflow(last, lam_dtype_bits(dtype), &part)) return 0;
    return ((uint64_t)part + 7) / 8;
}

/* == sparse ============================================================================================== */

static const lmx_sparse untold = {-1, -1, -1};

void lmx_sparse_add(lmx_sparse *out, int64_t elements, int64_t item) {
    int64_t bytes;
    if (elements < 0 || item <= 0 || __builtin_mul_overflow(elements, item, &bytes) ||
        __builtin_add_overflow(out->stored, elements, &out->stored) ||
        __builtin_add_overflow(out->bytes, bytes, &out->bytes))
        *out = untold;
    else
        out->values = elements;
}

static const void *class_of(const void *handle) {
    const void *object = (const void *)(uintptr_t)lmx_word_at(handle, 0);
    return (const void *)(uintptr_t)lmx_word_at(object, 0);
}

/* torch.func's wrappers of a sparse tensor have its layout, but are of another class: as one of its own they
 * would be read beyond their end. */
static bool has_parts(const lmx_shim *s, const struct lmx_form *form, const void *handle) {
    return s->room && (!form->table || class_of(handle) == form->table);
}

static void *new_part(const lmx_shim *s, const struct lmx_form *form, int i, const void *tensor) {
    void *part = s->room(sizeof(void *));
    form->parts[i](part, tensor);
    return part;
}

static void part_of(const lmx_shim *s, const struct lmx_form *form, int i, const void *tensor,
                    lmx_sparse *out) {
    void *part = new_part(s, form, i, tensor);
    int64_t dims = -1, *sizes, n = 1;
    int32_t dtype = -1;
    if (s->dim(part, &dims) || s->sizes(part, &sizes) || s->dtype(part, &dtype)) dims = -1;
    for (int64_t k = 0; k < dims; k++)
        if (__builtin_mul_overflow(n, sizes[k], &n)) dims = -1;
    lmx_sparse_add(out, dims < 0 ? -1 : n, lam_dtype_bits(dtype) / 8);
    s->release(part);
}

/* The form of a sparse tensor in a torch that has no function for its layout. COO is form 0; the compressed
 * ones have the same key, so all of them are LMX_FORMS + 1, which has no entry in `forms`. */
static int form_by_keys(const lmx_layout *l, const void *handle) {
    if (l->keys < 0) return LMX_FORMS;
    const void *object = (const void *)(uintptr_t)lmx_word_at(handle, 0);
    uint64_t keys = lmx_word_at(object, (size_t)l->keys);
    if (l->coo >= 0 && keys >> l->coo & 1) return 0;
    return l->compressed >= 0 && keys >> l->compressed & 1 ? LMX_FORMS + 1 : LMX_FORMS;
}

static int form_of(const lmx_layout *l, const lmx_shim *s, const void *handle) {
    int32_t layout = -1;
    int i = 0;
    if (!s->layout) return form_by_keys(l, handle);
    if (s->layout((void *)(uintptr_t)handle, &layout)) return LMX_FORMS;
    while (i < LMX_FORMS && s->forms[i].layout != layout) i++;
    return i;
}

bool lmx_sparse_of(const lmx_layout *l, const lmx_shim *s, const void *handle, lmx_sparse *out) {
    int i = form_of(l, s, handle);
    if (i == LMX_FORMS) return false;
    *out = i < LMX_FORMS && has_parts(s, &s->forms[i], handle) ? (lmx_sparse){0} : untold;
    for (int k = 0; k < LMX_PARTS && out->bytes >= 0 && s->forms[i].parts[k]; k++)
        part_of(s, &s->forms[i], k, handle, out);
    return true;
}

void *lmx_stored_values(const lmx_layout *l, const lmx_shim *s, const void *handle) {
    const struct lmx_form *form = &s->nested;
    int k = 0;
    if (lmx_has_sizes(l, handle)) {
        const int i = lmx_has_memory(l, handle) ? LMX_FORMS : form_of(l, s, handle);
        if (i >= LMX_FORMS) return NULL;
        form = &s->forms[i];
        while (k + 1 < LMX_PARTS && form->parts[k + 1]) k++;
    }
    return form->table && form->parts[k] && has_parts(s, form, handle) ? new_part(s, form, k, handle) : NULL;
}

/* == values ============================================================================================== */

static int64_t item_bytes(int32_t dtype) { return lam_dtype_bits(dtype) / 8; }

/* True if the last element lies inside the tensor's memory. */
static bool inside(const lam_values *v, int64_t offset, int64_t storage) {
    int64_t last = offset, reach;
    if (offset < 0) return false;
    for (int32_t i = 0; i < v->ndim; i++) {
        if (v->strides[i] < 0 || __builtin_mul_overflow(v->sizes[i] - 1, v->strides[i], &reach)) return false;
        if (__builtin_add_overflow(last, reach, &last)) return false;
    }
    return !__builtin_mul_overflow(last + 1, item_bytes(v->dtype), &reach) && reach <= storage;
}

int64_t lmx_count_values(const lam_values *v) {
    int64_t n = 1;
    for (int32_t i = 0; i < v->ndim; i++)
        if (__builtin_mul_overflow(n, v->sizes[i], &n)) return -1;
    return n;
}

uint64_t lmx_begin_of_values(const lmx_where_values *at) {
    return (uint64_t)(uintptr_t)at->v.data - (uint64_t)(at->offset * item_bytes(at->v.dtype));
}

bool lmx_has_values(const lmx_where_values *at) {
    return at->v.data && inside(&at->v, at->offset, at->storage) && lmx_begin_of_values(at);
}

/* The GPU that has the tensor, or -1 for the CPU; false: neither. */
static bool find_device(const lmx_shim *s, const lmx_streams *gpu, void *h, int32_t *out) {
    int32_t type, index = -1;
    *out = -1;
    if (s->device(h, &type)) return false;
    if (!gpu || type != gpu->device_type) return type == LMX_CPU;
    if (!s->device_index || s->device_index(h, &index)) return false;
    *out = index < 0 ? 0 : index;
    return true;
}

bool lmx_find_values(const lmx_layout *l, const lmx_shim *s, const lmx_streams *gpu, void *h, int32_t dtype,
                     lmx_where_values *out) {
    int64_t ndim, *sizes, *strides;
    uint64_t data;
    if (!find_device(s, gpu, h, &out->gpu) || !lmx_has_sizes(l, h)) return false;
    if (s->dim(h, &ndim) || ndim < 0 || ndim > LMX_DIMS || s->sizes(h, &sizes)) return false;
    out->v = (lam_values){NULL, dtype, (int32_t)ndim, sizes, NULL};
    if (!lmx_has_memory(l, h)) return false;
    if (s->strides(h, &strides) || s->storage(h, &out->storage) || s->offset(h, &out->offset)) return false;
    if (!lmx_data_of(s, h, &data)) return false;
    out->v.strides = strides;
    out->v.data = (const void *)(uintptr_t)data;
    return true;
}

/* In a dry run some tensors have values, outside of the others' addresses. Those that became unknown have
 * all bits set, which is no number, no bool and no end of a group. */
static bool has_own(const lmx_where_values *at, lmx_is_fake nowhere) {
    static const unsigned char lost[8] = {255, 255, 255, 255, 255, 255, 255, 255};
    const int64_t item = lam_dtype_bits(at->v.dtype) / 8;
    if (nowhere((uintptr_t)at->v.data)) return false;
    return lmx_count_values(&at->v) == 0 || (item <= 8 && memcmp(at->v.data, lost, (size_t)item) != 0);
}

bool lmx_mask_at(const lmx_layout *l, const lmx_shim *s, const void *handle, lmx_is_fake nowhere,
                 lam_mask *out) {
    enum { INT32 = 3, INT64 = 4 };
    void *h = (void *)(uintptr_t)handle;
    int32_t dtype;
    lmx_where_values at;
    /* In a negated tensor -Inf is +Inf. A conjugated tensor is complex, and no mask. */
    if (!s->negated || s->negated(h)) return false;
    if (s->dtype(h, &dtype) || !lmx_find_values(l, s, NULL, h, dtype, &at)) return false;
    int64_t n = lmx_count_values(&at.v);
    if (n < 0 || (n > 0 && !lmx_has_values(&at))) return false;
    const bool ends = dtype == INT32 || dtype == INT64;
    if (nowhere && !has_own(&at, nowhere)) return false;
    return (ends ? lam_values_ends : lam_values_mask)(&at.v, out, NULL) == LAM_OK;
}
