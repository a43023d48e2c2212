/* SPDX-License-Identifier: Apache-2.0
 *
 * Building operators. A training step runs tens of thousands, and most have the name, arguments and results
 * of an earlier one: these are stored once for all that share them, as a signature. */
#include "model/builder.h"

#include <stdlib.h>

/* -- names ----------------------------------------------------------------------------------------------- */

/* Equal texts may be at several addresses, and an address may hold another text later, so bytes are
 * compared. */
static lam_status name_of(lam_builder *b, const char *name, lmi_op_name *out, lam_error *e) {
    LAM_TRY(lmi_needs(name, "an operator's name", e));
    int32_t *slot = &b->op_at_address[((uintptr_t)name ^ (uintptr_t)name >> 8) % LMI_RECENT];
    if (*slot) {
        const lmi_op_name *last = lmi_vec_at(&b->op_names, (size_t)*slot - 1);
        *out = *last;
        if (strcmp(last->name, name) == 0) return LAM_OK;
    }
    int64_t at = lmi_map_get(&b->op_by_name, name);
    if (at < 0) {
        lmi_op_name fresh = {lmi_strdup(&b->arena, name), lam_word_op(name)};
        if (!fresh.name) return lmi_nomem(e);
        at = (int64_t)b->op_names.n;
        LAM_TRY(lmi_push(b, &b->op_names, "operators' names", &fresh, e));
        LAM_TRY(lmi_map_put(&b->op_by_name, fresh.name, at, e));
    }
    *out = *(const lmi_op_name *)lmi_vec_at(&b->op_names, (size_t)at);
    *slot = (int32_t)at + 1;
    return LAM_OK;
}

/* -- arguments ------------------------------------------------------------------------------------------- */

/* Ends of groups, which are whole numbers. */
static bool is_ends(const lam_op_arg *a) { return a->dtype == 3 || a->dtype == 4; }

/* Each counted row has at least one open element, and at most as many as it is long. A group that is not
 * empty has at least one row. */
static lam_status check_mask(const lam_op_arg *a, const char *name, lam_error *e) {
    int64_t all = 0, wide = a->ndim > 0 ? a->sizes[a->ndim - 1] : 1;
    bool fits = a->open_rows >= 0 && a->open >= a->open_rows;
    if (fits && is_ends(a)) {
        fits = (a->ndim < 0 || a->open_rows <= wide) && (a->open_rows > 0 || a->open == 0);
    } else if (fits && a->ndim >= 0) {
        fits = lmi_product(a->sizes, a->ndim, &all) && a->open <= all;
        if (fits && a->open) fits = a->open_rows <= all / wide && a->open <= a->open_rows * wide;
    }
    if (fits) return LAM_OK;
    return lmi_fail(e, LAM_RANGE, name, "a mask of its shape can't have %lld elements open in %lld rows",
                    (long long)a->open, (long long)a->open_rows);
}

static lam_status check_args(const lam_op_arg *from, int32_t n, const char *name, lam_error *e) {
    if (n < 0) return lmi_fail(e, LAM_RANGE, name, "there can't be %d arguments or results", n);
    if (n > 0) LAM_TRY(lmi_needs(from, name, e));
    for (int32_t i = 0; i < n; i++) {
        if (from[i].position < 0)
            return lmi_fail(e, LAM_RANGE, name, "an argument can't have position %d; count from 0",
                            from[i].position);
        LAM_TRY(from[i].is_tensor ? lmi_check_sizes(from[i].ndim, from[i].sizes, name, e)
                                  : lmi_check_value(&from[i].value, name, e));
        if (!from[i].is_tensor || !from[i].masks) continue;
        if (from[i].sparse)
            return lmi_fail(e, LAM_RANGE, name, "a sparse tensor can't be a mask that was read");
        LAM_TRY(check_mask(&from[i], name, e));
    }
    return LAM_OK;
}

static lam_status copy_arg(lam_builder *b, const lam_op_arg *from, int32_t shares, const char *name,
                           lam_op_arg *to, lam_error *e) {
    if (!from->is_tensor) {
        *to =
            (lam_op_arg){.position = from->position, .dtype = -1, .device = -1, .ndim = -1, .shares = shares};
        return lmi_copy_value(b, &from->value, name, &to->value, e);
    }
    *to = *from;
    to->value = (lam_value){0};
    to->storage = to->object = 0;
    to->shares = shares;
    return lmi_copy_ints(b, from->sizes, from->ndim > 0 ? from->ndim : 0, &to->sizes, e);
}

static uint64_t memory_of(const lam_op_arg *a) { return a->is_tensor ? a->storage : 0; }

static int32_t last_with(const lam_op_info *o, uint64_t storage) {
    for (int32_t i = o->n_in - 1; storage && i >= 0; i--)
        if (memory_of(&o->in[i]) == storage) return i;
    return -1;
}

enum { FEW_PAIRS = 4096 }; /* the most pairs of an argument and a result that are compared one by one */

/* Finds shared memory of long lists by a map. */
static lam_status shares_of_many(const lam_op_info *o, int32_t *shares, lam_error *e) {
    lmi_map last;
    lam_status s = LAM_OK;
    lmi_map_init(&last);
    for (int32_t i = 0; s == LAM_OK && i < o->n_in; i++)
        if (memory_of(&o->in[i])) s = lmi_map_put_u64(&last, memory_of(&o->in[i]), i, e);
    for (int32_t k = 0; s == LAM_OK && k < o->n_out; k++)
        if (memory_of(&o->out[k])) shares[k] = (int32_t)lmi_map_get_u64(&last, memory_of(&o->out[k]));
    lmi_map_free(&last);
    return s;
}

/* Stores in b->shares for each result the last argument with the same memory, -1 none. */
static lam_status find_shares(lam_builder *b, const lam_op_info *o, lam_error *e) {
    b->shares.n = 0;
    for (int32_t k = 0; k < o->n_out; k++) {
        int32_t *to = lmi_vec_push(&b->shares);
        if (!to) return lmi_nomem(e);
        *to = -1;
    }
    int32_t *shares = b->shares.data;
    if ((int64_t)o->n_in * o->n_out > FEW_PAIRS) return shares_of_many(o, shares, e);
    for (int32_t k = 0; k < o->n_out; k++) shares[k] = last_with(o, memory_of(&o->out[k]));
    return LAM_OK;
}

static int32_t shared(const lam_builder *b, int32_t k) { return ((const int32_t *)b->shares.data)[k]; }

/* -- signatures ------------------------------------------------------------------------------------------ */

static uint64_t mix(uint64_t h, uint64_t word) {
    h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15); /* 2^64 over the golden ratio */
    return h ^ h >> 29;
}

static uint64_t bits_of(double f) {
    uint64_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static uint64_t hash_value(uint64_t h, const lam_value *v) {
    uint64_t bits = 0;
    switch (v->type) {
    case LAM_NONE: break;
    case LAM_BOOL: bits = v->i != 0; break;
    case LAM_INT: bits = (uint64_t)v->i; break;
    case LAM_FLOAT: bits = bits_of(v->f); break;
    case LAM_TEXT: bits = lmi_hash_text(v->text); break;
    case LAM_INTS: bits = v->n ? lmi_hash(v->ints, (size_t)v->n * sizeof *v->ints) : 0; break;
    }
    return mix(mix(h, (uint64_t)v->type), bits);
}

static uint64_t hash_arg(uint64_t h, const lam_op_arg *a) {
    h = mix(h, (uint64_t)(uint32_t)a->position << 1 | a->is_tensor);
    if (!a->is_tensor) return hash_value(h, &a->value);
    h = mix(h, (uint64_t)(uint32_t)a->dtype << 32 | (uint32_t)a->ndim);
    if (a->sparse) h = mix(h, (uint64_t)a->stored);
    if (a->masks) h = mix(h, (uint64_t)a->open);
    for (int32_t i = 0; i < a->ndim; i++) h = mix(h, (uint64_t)a->sizes[i]);
    return mix(h, (uint64_t)(uint32_t)a->device);
}

static bool same_value(const lam_value *a, const lam_value *b) {
    if (a->type != b->type) return false;
    switch (a->type) {
    case LAM_NONE: return true;
    case LAM_BOOL: return (a->i != 0) == (b->i != 0);
    case LAM_INT: return a->i == b->i;
    case LAM_FLOAT: return bits_of(a->f) == bits_of(b->f); /* NaN too */
    case LAM_TEXT: return strcmp(a->text, b->text) == 0;
    case LAM_INTS:
        return a->n == b->n && (a->n == 0 || memcmp(a->ints, b->ints, (size_t)a->n * sizeof *a->ints) == 0);
    }
    return false;
}

static bool same_stored(const lam_op_arg *a, const lam_op_arg *b) {
    return a->values == b->values && a->stored == b->stored && a->stored_bytes == b->stored_bytes;
}

static bool same_mask(const lam_op_arg *a, const lam_op_arg *b) {
    return a->open == b->open && a->open_rows == b->open_rows;
}

static bool same_arg(const lam_op_arg *a, const lam_op_arg *b) {
    if (a->position != b->position || a->is_tensor != b->is_tensor) return false;
    if (!a->is_tensor) return same_value(&a->value, &b->value);
    if (a->sparse != b->sparse || (a->sparse && !same_stored(a, b))) return false;
    if (a->masks != b->masks || (a->masks && !same_mask(a, b))) return false;
    return a->dtype == b->dtype && a->device == b->device && a->ndim == b->ndim &&
           (a->ndim <= 0 || memcmp(a->sizes, b->sizes, (size_t)a->ndim * sizeof *a->sizes) == 0);
}

static bool is_like(const lam_builder *b, const lam_op_sig *s, const char *name, const lam_op_info *o) {
    if (s->name != name || s->n_in != o->n_in || s->n_out != o->n_out) return false;
    for (int32_t i = 0; i < o->n_in; i++)
        if (!same_arg(&s->in[i], &o->in[i])) return false;
    for (int32_t i = 0; i < o->n_out; i++)
        if (!same_arg(&s->out[i], &o->out[i]) || s->out[i].shares != shared(b, i)) return false;
    return true;
}

static uint64_t hash_of(const lam_builder *b, const char *name, const lam_op_info *o) {
    uint64_t h = mix((uint64_t)(uintptr_t)name, (uint64_t)(uint32_t)o->n_in << 32 | (uint32_t)o->n_out);
    for (int32_t i = 0; i < o->n_in; i++) h = hash_arg(h, &o->in[i]);
    for (int32_t i = 0; i < o->n_out; i++) h = mix(hash_arg(h, &o->out[i]), (uint32_t)shared(b, i));
    return h ^ h >> 32;
}

static lam_op_sig *sig_at(const lam_builder *b, size_t i) { return ((lam_op_sig **)b->sigs.data)[i]; }

/* The signature with its arguments and results in one piece of the arena. */
static lam_status make(lam_builder *b, const lmi_op_name *name, const lam_op_info *o, lam_op_sig **out,
                       lam_error *e) {
    uint64_t n = (uint64_t)o->n_in + (uint64_t)o->n_out;
    lam_op_sig *s = lmi_alloc(&b->arena, 1, sizeof *s + n * sizeof(lam_op_arg));
    if (!s) return lmi_nomem(e);
    lam_op_arg *args = (lam_op_arg *)(s + 1);
    *s = (lam_op_sig){.name = name->name,
                      .word = name->word,
                      .index = (int32_t)b->sigs.n,
                      .n_in = o->n_in,
                      .n_out = o->n_out,
                      .in = args,
                      .out = args + o->n_in};
    for (int32_t i = 0, tensors = 0; i < o->n_in; i++, args++) {
        LAM_TRY(copy_arg(b, &o->in[i], -1, name->name, args, e));
        args->before = tensors;
        tensors += args->is_tensor;
    }
    for (int32_t i = 0; i < o->n_out; i++)
        LAM_TRY(copy_arg(b, &o->out[i], shared(b, i), name->name, args++, e));
    for (int32_t i = 0; i < (int32_t)n; i++) s->n_tensors += s->in[i].is_tensor;
    *out = s;
    return LAM_OK;
}

/* -- operators like an earlier one ----------------------------------------------------------------------- */

static lam_status not_like(const lam_op_info *o, const lam_op_sig *s, lam_error *e) {
    return lmi_fail(e, LAM_RANGE, s->name, "an operator that is not like number %d is said to be",
                    o->like - 1);
}

/* True if the same entries are tensors as before: sources are indexed by the number of tensors. */
static bool has_tensors_alike(const lam_op_arg *a, const lam_op_arg *before, int32_t n) {
    for (int32_t i = 0; i < n; i++)
        if (a[i].is_tensor != before[i].is_tensor) return false;
    return true;
}

/* The last argument with the memory of a result, -1 none. */
static int32_t shared_by(const lam_op_sig *s, const lam_identity *tensors, uint64_t storage) {
    int32_t last = -1;
    for (int32_t i = 0; storage && i < s->n_in; i++) {
        if (!s->in[i].is_tensor) continue;
        if (tensors++->storage == storage) last = i;
    }
    return last;
}

/* True if each result shares its memory with the same argument as before; false for long lists, which are not
 * compared. */
static bool shares_alike(const lam_op_sig *s, const lam_identity *tensors) {
    const lam_identity *t = tensors + s->n_tensors;
    if ((int64_t)s->n_in * s->n_out > FEW_PAIRS) return false;
    for (int32_t i = s->n_out - 1; i >= 0; i--)
        if (shared_by(s, tensors, s->out[i].is_tensor ? (--t)->storage : 0) != s->out[i].shares) return false;
    return true;
}

/* Restores the arguments and results of an operator that was pushed with identities only. */
static lam_status tell_again(lam_builder *b, const lam_op_sig *s, const lam_op_info *from, lam_op_info *to,
                             lam_error *e) {
    const lam_identity *t = from->tensors;
    *to = *from;
    b->again.n = 0;
    for (int32_t i = 0; i < s->n_in + s->n_out; i++) {
        lam_op_arg *a = lmi_vec_push(&b->again);
        if (!a) return lmi_nomem(e);
        *a = s->in[i];
        if (!a->is_tensor) continue;
        a->storage = t->storage;
        a->object = t++->object;
    }
    to->n_in = s->n_in;
    to->n_out = s->n_out;
    to->in = b->again.data;
    to->out = to->in ? to->in + s->n_in : NULL;
    to->tensors = NULL;
    return LAM_OK;
}

/* The signature of the operator that `like` names; NULL if this one shares memory in another way: then
 * `*info` has arguments and results. */
static lam_status like(lam_builder *b, const lam_op_info **info, lam_op_info *again, const lam_op_sig **out,
                       lam_error *e) {
    const lam_op_info *o = *info;
    LAM_TRY(
        lmi_in_range(&b->ops, o->like < 0 ? o->like : o->like - 1, "the operator that another is like", e));
    const lam_op_sig *s = ((const lam_op *)b->ops.data)[o->like - 1].sig;
    if (o->tensors) {
        if (o->n_tensors != s->n_tensors) return not_like(o, s, e);
        if (shares_alike(s, o->tensors)) {
            *out = s;
            return LAM_OK;
        }
        LAM_TRY(tell_again(b, s, o, again, e));
        *info = o = again;
    }
    if (s->n_in != o->n_in || s->n_out != o->n_out) return not_like(o, s, e);
    if (s->n_in) LAM_TRY(lmi_needs(o->in, s->name, e));
    if (s->n_out) LAM_TRY(lmi_needs(o->out, s->name, e));
    if (!has_tensors_alike(o->in, s->in, s->n_in) || !has_tensors_alike(o->out, s->out, s->n_out))
        return not_like(o, s, e);
    LAM_TRY(find_shares(b, o, e));
    bool same = true;
    for (int32_t i = 0; i < o->n_out; i++) same = same && s->out[i].shares == shared(b, i);
    *out = same ? s : NULL;
    return LAM_OK;
}

static lam_status intern(lam_builder *b, const lmi_op_name *name, const lam_op_info *o,
                         const lam_op_sig **out, lam_error *e) {
    LAM_TRY(find_shares(b, o, e));
    uint64_t hash = hash_of(b, name->name, o);
    int64_t i;
    for (size_t at = (size_t)hash; (i = lmi_map_next(&b->by_sig, hash, &at)) >= 0;)
        if (is_like(b, sig_at(b, (size_t)i), name->name, o)) break;
    if (i < 0) {
        lam_op_sig *fresh;
        LAM_TRY(make(b, name, o, &fresh, e));
        LAM_TRY(lmi_push(b, &b->sigs, "operators' signatures", &fresh, e));
        i = fresh->index;
        LAM_TRY(lmi_map_add(&b->by_sig, hash, i, e));
    }
    *out = sig_at(b, (size_t)i);
    return LAM_OK;
}

/* -- pushing --------------------------------------------------------------------------------------------- */

static lam_status check_op(const lam_builder *b, const lam_op_info *o, lam_error *e) {
    if (o->call != -1) LAM_TRY(lmi_in_range(&b->events, o->call, "the call of an operator", e));
    if (o->parent != -1) LAM_TRY(lmi_in_range(&b->ops, o->parent, "the operator around an operator", e));
    if (o->thread < 0) return lmi_fail(e, LAM_RANGE, o->name, "a thread can't have number %d", o->thread);
    if (o->tensors && !o->like)
        return lmi_fail(e, LAM_USAGE, o->name, "identities alone tell it only where it is like another");
    if ((unsigned)o->phase >= LAM_N_PHASES)
        return lmi_fail(e, LAM_RANGE, o->name, "its phase %d is not one of lam_phase", (int)o->phase);
    return LAM_OK;
}

lam_status lam_build_op(lam_builder *b, const lam_op_info *info, int32_t *index, lam_error *e) {
    lmi_op_name name;
    lam_op o = {.call = info->call,
                .parent = info->parent,
                .phase = (uint8_t)info->phase,
                .flags = (uint8_t)info->flags,
                .thread = (uint16_t)(info->thread < UINT16_MAX ? info->thread : UINT16_MAX),
                .pass = info->pass,
                .t0_ns = info->t0_ns,
                .t1_ns = info->t1_ns};
    lam_op_info again;
    LAM_TRY(check_op(b, info, e));
    if (info->like) LAM_TRY(like(b, &info, &again, &o.sig, e));
    if (!o.sig) {
        LAM_TRY(name_of(b, info->name, &name, e));
        LAM_TRY(check_args(info->in, info->n_in, name.name, e));
        LAM_TRY(check_args(info->out, info->n_out, name.name, e));
        LAM_TRY(intern(b, &name, info, &o.sig, e));
    }
    LAM_TRY(lmi_push_sized(b, &b->ops, "operators", &o, sizeof o, LMI_MOST_OPS, e));
    lam_op *all = b->ops.data, *op = &all[b->ops.n - 1];
    lam_status s = lmi_keep_ties(b, info, o.sig, &op->ties_, e);
    if (s != LAM_OK) {
        lmi_vec_pop(&b->ops);
        return s;
    }
    if (o.parent >= 0) all[o.parent].n_children++;
    if (!(o.flags & LAM_OP_NODE)) b->ops_seen = true;
    if (index) *index = (int32_t)b->ops.n - 1;
    return LAM_OK;
}

lam_status lam_build_ops_seen(lam_builder *b, lam_error *e) {
    if (!b) return lmi_fail(e, LAM_USAGE, "lam_build_ops_seen", "there is no builder; make one first");
    b->ops_seen = true;
    return LAM_OK;
}

lam_status lam_build_nodes_seen(lam_builder *b, lam_error *e) {
    if (!b) return lmi_fail(e, LAM_USAGE, "lam_build_nodes_seen", "there is no builder; make one first");
    b->nodes_seen = true;
    return LAM_OK;
}

lam_status lam_build_timed(lam_builder *b, lam_error *e) {
    if (!b) return lmi_fail(e, LAM_USAGE, "lam_build_timed", "there is no builder; make one first");
    b->timed = true;
    return LAM_OK;
}

lam_status lam_build_described(lam_builder *b, const char *why, lam_error *e) {
    if (!b) return lmi_fail(e, LAM_USAGE, "lam_build_described", "there is no builder; make one first");
    return lmi_copy_text(b, why, "why nothing ran", &b->described, e);
}

lam_status lam_build_trainable_unknown(lam_builder *b, lam_error *e) {
    if (!b)
        return lmi_fail(e, LAM_USAGE, "lam_build_trainable_unknown", "there is no builder; make one first");
    b->trainable_unknown = true;
    return LAM_OK;
}

lam_status lam_build_no_backward(lam_builder *b, lam_error *e) {
    if (!b) return lmi_fail(e, LAM_USAGE, "lam_build_no_backward", "there is no builder; make one first");
    b->no_backward = true;
    return LAM_OK;
}

lam_status lam_build_backward_raised(lam_builder *b, lam_error *e) {
    if (!b) return lmi_fail(e, LAM_USAGE, "lam_build_backward_raised", "there is no builder; make one first");
    b->backward_raised = true;
    return LAM_OK;
}

/* A later reason does not replace the first one. */
lam_status lam_build_cut(lam_builder *b, const char *why, bool calls, int64_t from_ns, lam_error *e) {
    if (!b) return lmi_fail(e, LAM_USAGE, "lam_build_cut", "there is no builder; make one first");
    LAM_TRY(lmi_needs(why, "why a capture was cut short", e));
    uint64_t more = b->arena.limit / 4;
    b->arena.limit = b->arena.limit > UINT64_MAX - more ? UINT64_MAX : b->arena.limit + more;
    const char *kept = b->cut ? b->cut : lmi_strdup(&b->arena, why);
    if (!kept) return lmi_nomem(e);
    b->cut_ns = b->cut && b->cut_ns < from_ns ? b->cut_ns : from_ns;
    b->cut = kept;
    b->calls_cut = b->calls_cut || calls;
    return LAM_OK;
}
