/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of the tensors of a file, and the model that is made of them. */
#include "read/tensors/tensors.h"
#include "base/system.h"

#include <stdio.h>

void lmi_tensors_init(lmi_tensors *t, uint64_t size) {
    *t = (lmi_tensors){.of = {.method = "", .dtype = -1}, .format = "", .size = size};
    lmi_arena_init(&t->arena, UINT64_MAX);
    lmi_vec_init(&t->at, sizeof(lmi_stored_tensor));
    lmi_map_init(&t->by_name);
    lmi_vec_init(&t->attrs, sizeof(lam_attr));
    lmi_vec_init(&t->notes, sizeof(const char *));
    lmi_vec_init(&t->modules, sizeof(lmi_stored_module));
    lmi_vec_init(&t->files, sizeof(lmi_bytes));
    lmi_vec_init(&t->layers, sizeof(lmi_quantised_by));
    lmi_map_init(&t->by_layer);
}

void lmi_tensors_free(lmi_tensors *t) {
    for (size_t i = 0; i < t->files.n; i++) lmi_bytes_close(lmi_vec_at(&t->files, i));
    lmi_vec_free(&t->files);
    lmi_vec_free(&t->layers);
    lmi_map_free(&t->by_layer);
    lmi_vec_free(&t->at);
    lmi_map_free(&t->by_name);
    lmi_vec_free(&t->attrs);
    lmi_vec_free(&t->notes);
    lmi_vec_free(&t->modules);
    lmi_arena_free(&t->arena);
}

lam_status lmi_tensors_in(lmi_tensors *t, const lmi_bytes *of, lam_error *e) {
    lmi_bytes kept = *of;
    if (!t->keep) return LAM_OK;
    kept.name = lmi_strdup(&t->arena, of->name);
    if (!kept.name) return lmi_nomem(e);
    if (kept.fd >= 0 && (kept.fd = dup(of->fd)) < 0)
        return lmi_fail(e, LAM_IO, of->name, "it can't be kept open: %s", strerror(errno));
    lam_status s = lmi_vec_put(&t->files, &kept, e);
    if (s != LAM_OK) lmi_bytes_close(&kept);
    return s;
}

static int32_t find(const lmi_tensors *t, const char *name, uint64_t hash) {
    const lmi_stored_tensor *first = t->at.data;
    return first ? (int32_t)lmi_map_find(&t->by_name, hash, name, &first->name, sizeof *first) : -1;
}

int32_t lmi_tensors_find(const lmi_tensors *t, const char *name) {
    return name ? find(t, name, lmi_hash_text(name)) : -1;
}

lam_status lmi_tensors_renamed(lmi_tensors *t, lam_error *e) {
    lmi_map_clear(&t->by_name);
    for (int32_t i = 0; i < lmi_tensors_n(t); i++)
        LAM_TRY(lmi_map_add(&t->by_name, lmi_hash_text(lmi_tensors_at(t, i)->name), i, e));
    return LAM_OK;
}

lam_status lmi_tensors_reserve(lmi_tensors *t, size_t more, lam_error *e) {
    LAM_TRY(lmi_map_reserve(&t->by_name, t->at.n + more, e));
    return lmi_vec_reserve(&t->at, more, e);
}

lam_status lmi_tensors_add(lmi_tensors *t, const lmi_stored_tensor *info, const lmi_bytes *where, uint64_t at,
                           lam_error *e) {
    lmi_stored_tensor x = *info;
    x.name = lmi_strdup(&t->arena, x.name);
    x.type = lmi_strdup(&t->arena, x.type ? x.type : lam_dtype_name(x.dtype));
    return x.name && x.type ? lmi_tensors_put(t, &x, where, at, e) : lmi_nomem(e);
}

lam_status lmi_tensors_put(lmi_tensors *t, const lmi_stored_tensor *info, const lmi_bytes *where, uint64_t at,
                           lam_error *e) {
    lmi_stored_tensor x = *info;
    const uint64_t hash = lmi_hash_text(x.name);
    if (find(t, x.name, hash) >= 0)
        return lmi_fail_at(e, LAM_SYNTAX, (int64_t)at, where->name, "it has two tensors '%s'", x.name);
    x.numel = -1;
    if (x.ndim >= 0 && !lmi_product(x.sizes, x.ndim, &x.numel))
        return lmi_fail_at(e, LAM_SYNTAX, (int64_t)at, where->name,
                           "it is damaged: the tensor '%s' has more elements than can be", x.name);
    x.sizes = lmi_copy(&t->arena, x.sizes, x.ndim > 0 ? (uint64_t)x.ndim : 0, sizeof *x.sizes);
    if (!x.sizes) return lmi_nomem(e);
    x.same = x.in = -1;
    x.file = x.placed && t->files.n ? (int32_t)t->files.n - 1 : -1;
    x.raw = (lmi_raw){x.type, x.dtype, x.ndim, x.sizes, x.numel, x.bytes};
    if (lmi_tensors_are_many(t, t->at.n))
        return lmi_fail_at(e, LAM_LIMIT, (int64_t)at, where->name,
                           "it has more tensors than a file of its size should, at byte %llu",
                           (unsigned long long)at);
    LAM_TRY(lmi_map_add(&t->by_name, hash, (int64_t)t->at.n, e));
    return lmi_vec_put(&t->at, &x, e);
}

static bool is_by_rows(const int64_t *sizes, const int64_t *strides, int32_t n) {
    lmi_int128 step = 1;
    for (int32_t i = n - 1; i >= 0; i--) {
        if (sizes[i] > 1 && strides[i] != step) return false;
        step *= sizes[i];
    }
    return true;
}

int64_t lmi_view_span(const int64_t *sizes, const int64_t *strides, int32_t n, int64_t offset) {
    lmi_int128 last = offset;
    bool none = false;
    if (offset < 0) return -1;
    for (int32_t i = 0; i < n; i++) {
        if (sizes[i] < 0 || strides[i] < 0) return -1;
        none = none || sizes[i] == 0;
        last += (lmi_int128)(sizes[i] ? sizes[i] - 1 : 0) * strides[i];
        if (last > INT64_MAX - 1) return -1;
    }
    return none ? offset : (int64_t)last + 1;
}

lam_status lmi_tensors_view(lmi_tensors *t, lmi_stored_tensor *x, uint64_t at, const int64_t *strides,
                            int64_t offset, lam_error *e) {
    const int32_t bits = lam_dtype_bits(x->dtype);
    int64_t numel = 0;
    if (bits % 8 || bits == 0)
        x->unread = "its elements are no whole bytes";
    else if (!lmi_product(x->sizes, x->ndim, &numel) ||
             numel > lmi_view_span(x->sizes, strides, x->ndim, offset) - offset)
        x->unread = "it has elements of its storage several times";
    if (x->unread) return LAM_OK;
    x->placed = true;
    x->at = at + (uint64_t)offset * (uint64_t)(bits / 8);
    if (is_by_rows(x->sizes, strides, x->ndim)) return LAM_OK;
    x->strides = lmi_copy(&t->arena, strides, (uint64_t)x->ndim, sizeof *strides);
    return x->strides ? LAM_OK : lmi_nomem(e);
}

lam_status lmi_tensors_module(lmi_tensors *t, const char *path, const char *type, const char *type_path,
                              lam_error *e) {
    const lmi_stored_module m = {path, type, type_path};
    return lmi_vec_put(&t->modules, &m, e);
}

lam_status lmi_tensors_attr(lmi_tensors *t, const char *name, const lam_value *v, lam_error *e) {
    lam_attr a = {.name = lmi_strdup(&t->arena, name), .value = *v};
    if (v->type == LAM_TEXT) a.value.text = lmi_strdup(&t->arena, v->text);
    if (!a.name || (v->type == LAM_TEXT && !a.value.text)) return lmi_nomem(e);
    return lmi_vec_put(&t->attrs, &a, e);
}

lam_status lmi_tensors_note(lmi_tensors *t, lam_error *e, const char *fmt, ...) {
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const char *kept = lmi_strdup(&t->arena, text);
    return kept ? lmi_vec_put(&t->notes, &kept, e) : lmi_nomem(e);
}

/* -- the model ------------------------------------------------------------------------------------------- */

/* What torch's layers register as a buffer beside another tensor, by the ends of the names of both: of a
 * quantised layer the scale of its results, ranges that an observer saw, masks of pruning, and vectors of a
 * spectral norm. `dotted`: the end is all behind the last dot. */
#define BESIDE(end, other, dotted)                                                                           \
    { end, sizeof end - 1, other, dotted }
static const struct beside {
    const char *end;
    size_t n; /* its bytes */
    const char *other;
    bool dotted;
} besides[] = {
    BESIDE("scale", "zero_point", true),
    BESIDE("min_val", "max_val", true),
    BESIDE("max_val", "min_val", true),
    BESIDE("eps", "min_val", true),
    BESIDE("_u", "_v", true),
    BESIDE("_v", "_u", true),
    BESIDE("_mask", "_orig", false),
    BESIDE("_u", "_orig", false),
    BESIDE("_v", "_orig", false),
};

static bool has_beside(const lmi_tensors *t, const char *name, size_t all, const struct beside *k,
                       lmi_buf *room) {
    const size_t n = k->n;
    if (all < n || name[all - 1] != k->end[n - 1] || memcmp(name + all - n, k->end, n) != 0) return false;
    if (k->dotted ? all > n && name[all - n - 1] != '.' : all == n || name[all - n - 1] == '.') return false;
    lmi_buf_clear(room);
    lmi_putn(room, name, all - n);
    lmi_put(room, k->other);
    const int32_t other = room->bad ? -1 : lmi_tensors_find(t, lmi_buf_text(room));
    if (other < 0) return false;
    /* a zero point that is learnt has a scale that is, too */
    return strcmp(k->other, "zero_point") != 0 || !lam_dtype_is_float(lmi_tensors_at(t, other)->dtype);
}

static bool is_beside(const lmi_tensors *t, const lmi_stored_tensor *x, lmi_buf *room) {
    const size_t all = strlen(x->name);
    for (size_t k = 0; k < sizeof besides / sizeof *besides; k++)
        if (has_beside(t, x->name, all, &besides[k], room)) return true;
    return false;
}

/* Names and types alone tell which tensors a model's layers would register as buffers. */
static lam_status find_buffers(lmi_tensors *t, lam_error *e) {
    bool any = false;
    lmi_buf room;
    lmi_buf_init(&room);
    for (int32_t i = 0; i < lmi_tensors_n(t); i++) {
        lmi_stored_tensor *x = lmi_tensors_at(t, i);
        if (x->in >= 0 || x->role_known) continue;
        x->buffer = lmi_is_buffer(x) || is_beside(t, x, &room);
        x->role_known = true;
        any = any || x->buffer;
    }
    lam_status s = lmi_buf_status(&room, e);
    lmi_buf_free(&room);
    if (s == LAM_OK && any)
        s = lmi_tensors_note(t, e, "which tensors are buffers is told by their names and types");
    return s;
}

lam_status lmi_tensors_tell(const lmi_tensors *t, lam_builder *b, lam_error *e) {
    for (size_t i = 0; i < t->notes.n; i++)
        LAM_TRY(lam_build_note(b, *(const char **)lmi_vec_at(&t->notes, i), e));
    return LAM_OK;
}

static lam_status tell_format(lmi_tensors *t, lam_builder *b, const char *why, lam_error *e) {
    const char *mix = lmi_tensors_mix(t);
    if (!mix) return lmi_nomem(e);
    LAM_TRY(lam_build_described(b, why, e));
    LAM_TRY(lam_build_ops_seen(b, e));
    LAM_TRY(lam_build_provenance(b, "format", t->format, e));
    if (*mix) LAM_TRY(lam_build_provenance(b, "weights", mix, e));
    return lmi_tensors_tell(t, b, e);
}

lam_status lmi_tensors_model(lmi_tensors *t, const char *why, lam_model **out, lam_error *e) {
    lam_builder *b;
    LAM_TRY(lmi_tensors_join(t, e));
    LAM_TRY(find_buffers(t, e));
    LAM_TRY(lam_builder_new(&b, t->limit, e));
    lam_status s = lmi_tensors_tree(t, b, e);
    if (s == LAM_OK) s = tell_format(t, b, why, e);
    if (s == LAM_OK) return lam_builder_finish(b, out, e);
    lam_builder_free(b);
    return s;
}
