/* SPDX-License-Identifier: Apache-2.0
 *
 * The builder: a source pushes its observations. All are checked here, so other code may trust a model's
 * indices. */
#include "model/builder.h"

enum { MOST_AXES = 64, MOST_NOTES = 64, MOST_PROVENANCE = 64 };

/* What is above the limit is refused where it is pushed. */
static lam_status reserve(const lam_builder *b, lmi_vec *v, int32_t n, lam_error *e) {
    if ((uint64_t)n * v->size > b->arena.limit - b->arena.used) return LAM_OK;
    return lmi_vec_reserve(v, (size_t)n, e);
}

lam_status lmi_builder_reserve(lam_builder *b, int32_t modules, int32_t tensors, lam_error *e) {
    LAM_TRY(reserve(b, &b->modules, modules, e));
    LAM_TRY(reserve(b, &b->places, modules, e));
    LAM_TRY(reserve(b, &b->tensors, tensors, e));
    LAM_TRY(reserve(b, &b->owned.items, tensors, e));
    return reserve(b, &b->owned.modules, tensors, e);
}

bool lmi_builder_full(const lam_builder *b) { return b->arena.full; }

/* Appends the module of the last item of p->items; removes the item if there is no room. */
static lam_status push_owner(lam_builder *b, lmi_pushed *p, int32_t module, const char *what, lam_error *e) {
    lam_status s = lmi_push(b, &p->modules, what, &module, e);
    if (s != LAM_OK) lmi_vec_pop(&p->items);
    return s;
}

lam_status lmi_in_range(const lmi_vec *v, int32_t i, const char *what, lam_error *e) {
    if (i >= 0 && (size_t)i < v->n) return LAM_OK;
    return lmi_fail(e, LAM_RANGE, what, "there is no number %d among the %zu pushed so far; push it first", i,
                    v->n);
}

lam_status lmi_needs(const void *p, const char *what, lam_error *e) {
    return p ? LAM_OK : lmi_fail(e, LAM_USAGE, what, "it is missing; give one");
}

/* A copy of n bytes, or a recent copy of the same bytes. Layers repeat: most class names, shapes and settings
 * equal those of a layer that was pushed just before. */
static const void *keep(lam_builder *b, const void *bytes, uint64_t n) {
    if (n == 0) return lmi_alloc(&b->arena, 0, 1);
    lmi_recent *r = &b->recent[lmi_hash(bytes, (size_t)n) % LMI_RECENT];
    if (r->n == n && memcmp(r->bytes, bytes, (size_t)n) == 0) return r->bytes;
    const void *copy = lmi_copy(&b->arena, bytes, n, 1);
    if (copy) *r = (lmi_recent){copy, (size_t)n};
    return copy;
}

/* Copies a text that is required. Sources often pass the same text at the same address, so the last text at
 * the address is compared first. */
lam_status lmi_copy_text(lam_builder *b, const char *s, const char *what, const char **out, lam_error *e) {
    LAM_TRY(lmi_needs(s, what, e));
    const char **known = &b->at_address[((uintptr_t)s ^ (uintptr_t)s >> 8) % LMI_RECENT];
    if (!*known || strcmp(*known, s) != 0) {
        const char *copy = keep(b, s, (uint64_t)strlen(s) + 1);
        if (!copy) return lmi_nomem(e);
        *known = copy;
    }
    *out = *known;
    return LAM_OK;
}

lam_status lmi_copy_ints(lam_builder *b, const int64_t *from, int32_t n, const int64_t **out, lam_error *e) {
    *out = keep(b, from, (uint64_t)n * sizeof *from);
    return *out ? LAM_OK : lmi_nomem(e);
}

lam_status lam_build_module(lam_builder *b, const lam_module_info *info, int32_t *index, lam_error *e) {
    lam_module m = {.word = info->word, .flags = info->flags};
    if (info->word != -1 && !lam_word_name(info->word)) {
        return lmi_fail(e, LAM_RANGE, info->type, "its word %d does not exist; use lam_word_module or -1",
                        info->word);
    }
    LAM_TRY(lmi_copy_text(b, info->type, "a module's class name", &m.type, e));
    m.type_path = m.type;
    if (info->type_path && info->type_path != info->type)
        LAM_TRY(lmi_copy_text(b, info->type_path, "a module's class path", &m.type_path, e));
    if (info->extra) LAM_TRY(lmi_copy_text(b, info->extra, "", &m.extra, e));
    LAM_TRY(lmi_push(b, &b->modules, "modules", &m, e));
    if (index) *index = (int32_t)b->modules.n - 1;
    return LAM_OK;
}

lam_status lmi_check_value(const lam_value *v, const char *name, lam_error *e) {
    if ((unsigned)v->type > LAM_TEXT)
        return lmi_fail(e, LAM_RANGE, name, "its type %d is not one of lam_value_type", (int)v->type);
    if (v->type == LAM_TEXT) return lmi_needs(v->text, name, e);
    if (v->type != LAM_INTS) return LAM_OK;
    if (v->n < 0) return lmi_fail(e, LAM_RANGE, name, "a list can't have %d numbers", v->n);
    return v->n > 0 ? lmi_needs(v->ints, name, e) : LAM_OK;
}

lam_status lmi_copy_value(lam_builder *b, const lam_value *from, const char *name, lam_value *to,
                          lam_error *e) {
    *to = (lam_value){.type = from->type};
    switch (from->type) {
    case LAM_NONE: break;
    case LAM_BOOL: to->i = from->i != 0; break;
    case LAM_INT: to->i = from->i; break;
    case LAM_FLOAT: to->f = from->f; break;
    case LAM_TEXT: return lmi_copy_text(b, from->text, name, &to->text, e);
    case LAM_INTS: to->n = from->n; return lmi_copy_ints(b, from->ints, from->n, &to->ints, e);
    }
    return LAM_OK;
}

lam_status lam_build_attr(lam_builder *b, int32_t module, const char *name, const lam_value *v,
                          lam_error *e) {
    lam_attr a;
    LAM_TRY(lmi_in_range(&b->modules, module, "the module of an attribute", e));
    LAM_TRY(lmi_copy_text(b, name, "an attribute's name", &a.name, e));
    LAM_TRY(lmi_check_value(v, a.name, e));
    LAM_TRY(lmi_copy_value(b, v, name, &a.value, e));
    LAM_TRY(lmi_push(b, &b->attrs.items, "attributes", &a, e));
    return push_owner(b, &b->attrs, module, "attributes", e);
}

char *lmi_join_path(lmi_arena *a, const char *parent, const char *name) {
    size_t before = strlen(parent), n = strlen(name);
    if (before == 0) return lmi_strndup(a, name, n);
    char *path = lmi_alloc_unset(a, (uint64_t)before + n + 2, 1);
    if (!path) return NULL;
    memcpy(path, parent, before + 1);
    path[before] = '.';
    memcpy(path + before + 1, name, n + 1);
    return path;
}

/* The last component of a path is the place's name, so one copy is used for both. */
static lam_status name_place(lam_builder *b, const char *parent, const char *name, lam_place *p,
                             lam_error *e) {
    char *path = lmi_join_path(&b->arena, parent, name);
    if (!path) return lmi_nomem(e);
    p->path = path;
    p->name = *parent ? path + strlen(parent) + 1 : path;
    return LAM_OK;
}

lam_status lam_build_place(lam_builder *b, int32_t parent, const char *name, int32_t module, int32_t *index,
                           lam_error *e) {
    lam_place p = {.name = "", .path = "", .parent = parent, .module = module};
    LAM_TRY(lmi_needs(name, "a place's name", e));
    LAM_TRY(lmi_in_range(&b->modules, module, "the module of a place", e));
    if (b->places.n > 0) {
        LAM_TRY(lmi_in_range(&b->places, parent, "the parent of a place", e));
        const lam_place *up = lmi_vec_at(&b->places, (size_t)parent);
        p.depth = up->depth + 1;
        LAM_TRY(name_place(b, up->path, name, &p, e));
    } else if (parent != -1) {
        return lmi_fail(e, LAM_RANGE, name, "the first place is the root and its parent is -1, not %d",
                        parent);
    }
    LAM_TRY(lmi_push(b, &b->places, "places", &p, e));
    if (index) *index = (int32_t)b->places.n - 1;
    return LAM_OK;
}

lam_status lmi_check_sizes(int32_t ndim, const int64_t *sizes, const char *what, lam_error *e) {
    if (ndim < -1)
        return lmi_fail(e, LAM_RANGE, what, "a shape can't have %d axes; -1 says that it is unknown", ndim);
    if (ndim > MOST_AXES) return lmi_fail(e, LAM_LIMIT, what, "%d axes are more than %d", ndim, MOST_AXES);
    if (ndim > 0) LAM_TRY(lmi_needs(sizes, what, e));
    for (int32_t i = 0; i < ndim; i++) {
        if (sizes[i] < 0) {
            return lmi_fail(e, LAM_RANGE, what, "axis %d can't have %lld elements", i, (long long)sizes[i]);
        }
    }
    return LAM_OK;
}

static lam_status check_bytes(int64_t bytes, const char *what, lam_error *e) {
    if (bytes >= -1) return LAM_OK;
    return lmi_fail(e, LAM_RANGE, what, "%lld can't be; -1 says that they are unknown", (long long)bytes);
}

lam_status lam_build_tensor(lam_builder *b, const lam_tensor_info *info, int32_t *index, lam_error *e) {
    lam_tensor t = {.dtype = info->dtype,
                    .shape = {.ndim = info->ndim},
                    .numel = -1,
                    .bytes = info->bytes,
                    .storage = info->storage,
                    .storage_bytes = info->storage_bytes,
                    .requires_grad = info->requires_grad,
                    .owner = -1};
    LAM_TRY(lmi_check_sizes(info->ndim, info->sizes, "a tensor's shape", e));
    LAM_TRY(check_bytes(info->bytes, "a tensor's bytes", e));
    LAM_TRY(check_bytes(info->storage_bytes, "the bytes of a tensor's memory", e));
    if (info->ndim >= 0) {
        LAM_TRY(lmi_copy_ints(b, info->sizes, info->ndim, &t.shape.sizes, e));
        t.numel = lmi_numel(t.shape);
    }
    if (t.bytes == -1) t.bytes = lmi_stored(t.numel, lam_dtype_bits(t.dtype));
    t.local_bytes = t.bytes;
    LAM_TRY(lmi_keep_identity(b, info->storage, info->object, (int32_t)b->tensors.n, e));
    LAM_TRY(lmi_push(b, &b->tensors, "tensors", &t, e));
    if (index) *index = (int32_t)b->tensors.n - 1;
    return LAM_OK;
}

lam_status lam_build_elsewhere(lam_builder *b, int32_t tensor, int64_t elements, lam_error *e) {
    LAM_TRY(lmi_in_range(&b->tensors, tensor, "a tensor that is spread over processes", e));
    lam_tensor *t = (lam_tensor *)b->tensors.data + tensor;
    if (elements < 0 || elements > t->numel)
        return lmi_fail(e, LAM_RANGE, "a tensor's part elsewhere", "%lld elements can't be, of %lld",
                        (long long)elements, (long long)t->numel);
    t->elsewhere = elements;
    if (elements > 0 && t->bytes >= 0)
        t->local_bytes = (int64_t)((lmi_int128)t->bytes * (t->numel - elements) / t->numel);
    return LAM_OK;
}

lam_status lam_build_wraps(lam_builder *b, int32_t tensor, int64_t bytes, int64_t local_bytes, lam_error *e) {
    LAM_TRY(lmi_in_range(&b->tensors, tensor, "a tensor that wraps others", e));
    LAM_TRY(check_bytes(bytes, "a tensor's bytes", e));
    LAM_TRY(check_bytes(local_bytes, "a tensor's bytes in this process", e));
    lam_tensor *t = (lam_tensor *)b->tensors.data + tensor;
    t->wraps = true;
    t->bytes = bytes;
    t->local_bytes = local_bytes;
    return LAM_OK;
}

lam_status lam_build_alias(lam_builder *b, int32_t tensor, uint64_t storage, uint64_t object, lam_error *e) {
    LAM_TRY(lmi_in_range(&b->tensors, tensor, "a tensor that another stands for", e));
    return lmi_keep_identity(b, storage, object, tensor, e);
}

lam_status lam_build_called_elsewhere(lam_builder *b, int32_t module, lam_error *e) {
    LAM_TRY(lmi_in_range(&b->modules, module, "the module that another thread called", e));
    ((lam_module *)lmi_vec_at(&b->modules, (size_t)module))->flags |= LAM_MODULE_ELSEWHERE;
    return LAM_OK;
}

lam_status lam_build_packed(lam_builder *b, int32_t tensor, lam_error *e) {
    LAM_TRY(lmi_in_range(&b->tensors, tensor, "the tensor that is packed", e));
    ((lam_tensor *)lmi_vec_at(&b->tensors, (size_t)tensor))->packed = true;
    return LAM_OK;
}

lam_status lam_build_gradient(lam_builder *b, int32_t tensor, bool came, lam_error *e) {
    LAM_TRY(lmi_in_range(&b->tensors, tensor, "the tensor that wants a gradient", e));
    ((lam_tensor *)lmi_vec_at(&b->tensors, (size_t)tensor))->gradient = came ? 1 : -1;
    return LAM_OK;
}

lam_status lam_build_owns(lam_builder *b, int32_t module, const char *name, int32_t tensor, bool is_buffer,
                          lam_error *e) {
    lam_owned o = {.tensor = tensor, .is_buffer = is_buffer};
    LAM_TRY(lmi_in_range(&b->modules, module, "the owner of a tensor", e));
    LAM_TRY(lmi_in_range(&b->tensors, tensor, "the tensor that a module owns", e));
    LAM_TRY(lmi_copy_text(b, name, "an owned tensor's name", &o.name, e));
    LAM_TRY(lmi_push(b, &b->owned.items, "owned tensors", &o, e));
    return push_owner(b, &b->owned, module, "owned tensors", e);
}

static lam_status copy_args(lam_builder *b, const lam_arg *from, int32_t n, const char *what,
                            const lam_arg **out, lam_error *e) {
    if (n < 0) return lmi_fail(e, LAM_RANGE, what, "there can't be %d", n);
    if (n > 0) LAM_TRY(lmi_needs(from, what, e));
    for (int32_t i = 0; i < n; i++) LAM_TRY(lmi_check_sizes(from[i].ndim, from[i].sizes, what, e));
    lam_arg *args = lmi_copy(&b->arena, from, (uint64_t)n, sizeof *args);
    if (!args) return lmi_nomem(e);
    for (int32_t i = 0; i < n; i++) {
        LAM_TRY(lmi_copy_ints(b, from[i].sizes, from[i].ndim > 0 ? from[i].ndim : 0, &args[i].sizes, e));
        if (from[i].name) LAM_TRY(lmi_copy_text(b, from[i].name, what, &args[i].name, e));
    }
    *out = args;
    return LAM_OK;
}

lam_status lam_build_call(lam_builder *b, const lam_call_info *info, int32_t *index, lam_error *e) {
    lam_event c = {.module = info->module,
                   .place = -1,
                   .parent = info->parent,
                   .flags = info->flags,
                   .regions = info->regions,
                   .t0_ns = info->t0_ns,
                   .t1_ns = info->t1_ns,
                   .n_in = info->n_in,
                   .n_out = info->n_out,
                   .thread = info->thread};
    if (c.thread < 0) return lmi_fail(e, LAM_RANGE, "a call", "a thread can't have number %d", c.thread);
    LAM_TRY(lmi_in_range(&b->modules, info->module, "the module of a call", e));
    if (info->parent != -1) LAM_TRY(lmi_in_range(&b->events, info->parent, "the call around a call", e));
    LAM_TRY(copy_args(b, info->in, info->n_in, "a call's inputs", &c.in, e));
    LAM_TRY(copy_args(b, info->out, info->n_out, "a call's outputs", &c.out, e));
    LAM_TRY(lmi_push(b, &b->events, "calls", &c, e));
    if (index) *index = (int32_t)b->events.n - 1;
    return LAM_OK;
}

lam_status lam_build_note(lam_builder *b, const char *text, lam_error *e) {
    const char *copy;
    if (b->notes.n >= MOST_NOTES) return LAM_OK; /* further notes are dropped */
    LAM_TRY(lmi_copy_text(b, text, "a note", &copy, e));
    return lmi_push(b, &b->notes, "notes", &copy, e);
}

lam_status lam_build_input_origin(lam_builder *b, const char *text, lam_error *e) {
    const char *copy;
    LAM_TRY(lmi_copy_text(b, text, "how an input was made up", &copy, e));
    return lmi_push(b, &b->made, "inputs that were made up", &copy, e);
}

lam_status lam_build_provenance(lam_builder *b, const char *name, const char *text, lam_error *e) {
    lmi_named_text t, *known = b->provenance.data;
    LAM_TRY(lmi_copy_text(b, name, "the name of a fact of the provenance", &t.name, e));
    if (!*name || name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")])
        return lmi_fail(e, LAM_USAGE, name,
                        "a fact's name has no other characters than a to z, 0 to 9 and _");
    LAM_TRY(lmi_copy_text(b, text, name, &t.text, e));
    for (size_t i = 0; i < b->provenance.n; i++) {
        if (strcmp(known[i].name, name) != 0) continue;
        known[i].text = t.text;
        return LAM_OK;
    }
    if (b->provenance.n >= MOST_PROVENANCE)
        return lmi_fail(e, LAM_LIMIT, name, "there are more than %d facts of the provenance; leave some out",
                        MOST_PROVENANCE);
    return lmi_push(b, &b->provenance, "facts of the provenance", &t, e);
}
