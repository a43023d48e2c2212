/* SPDX-License-Identifier: Apache-2.0
 *
 * The sources of data. Each tensor among an operator's arguments has two addresses: that of the object, and
 * that of its memory, which its views share. They are stored when operators are pushed. To find the sources,
 * one pass over the operators in this order keeps for each address which operator returned the tensor, and
 * which one wrote to the memory last; the later of the two is the source.
 *
 * Addresses are reused. A result replaces all that was known of its address. A tensor of unobserved origin
 * (made from numpy) may have the address of a freed one: its source is unknown unless it is the observed
 * object, of the same size and type. Only in a backward pass may a new object be on known memory, since
 * autograd creates the tensors that it had saved anew. */
#include "model/builder.h"
#include "model/view.h"

#include <stdlib.h>

/* What an address holds at this point of the pass: the memory of tensors, or one tensor. */
typedef struct lmi_known {
    uint64_t storage; /* of a tensor: its memory */
    int64_t numel;    /* elements; -1 unknown */
    int32_t dtype;
    int32_t op;          /* the operator that returned or wrote it, -1 */
    uint32_t when;       /* a counter: larger is later */
    int32_t root, input; /* the outermost call whose argument it is, and the argument; -1 */
    int32_t made;        /* of a tensor: the operator whose result `nth` is this object, -1 */
    int32_t write;       /* of memory: the last write into it, -1 */
    int16_t nth;
} lmi_known;

/* A tensor that exists when its operator ends. */
typedef struct lmi_result {
    uint64_t storage, object;
    int64_t numel;
    int32_t dtype;
    bool fresh, in_place; /* its memory is new; it is an argument that was written to */
    int16_t nth;          /* the index of the result; 0 for an operator in place without results */
    const lam_op_arg *arg;
    int32_t owner; /* in place: the owner of its memory, as in lmi_edge */
} lmi_result;

typedef struct lmi_data {
    const lam_model *m;
    lmi_edge *edges;
    lmi_edge *out_sources; /* as in lam_model */
    int32_t *out_sources_at;
    lmi_vec writes; /* lmi_write */
    lmi_map at;     /* of an address, as memory or as a tensor: its entry in `known` */
    lmi_vec known;  /* lmi_known */
    uint32_t when;
    lmi_vec open;       /* lmi_open: operators that have not ended, each inside the previous one */
    lmi_vec results;    /* lmi_result: their results */
    lmi_map tensors;    /* addresses of parameters and buffers, and of their memory */
    int32_t call, root; /* of the last operator: its call, and the outermost call around it */
    int32_t entered;    /* the last outermost call whose arguments are known, -1 */
    int64_t t0_ns;      /* of the last operator */
    int32_t *by_end;    /* calls in the order in which they ended */
    int32_t ended;      /* how many of `by_end` are settled */
    bool *settled;      /* per call: the sources of its results were found */
    int32_t reached;    /* without times: the last call in which an operator ran; -1 */
    int32_t left;       /* without times: the innermost call of the previous operator; -1 */
} lmi_data;

/* An operator that has not ended. */
typedef struct lmi_open {
    int32_t op;
    size_t results; /* the index of its first result */
} lmi_open;

/* -- pushing --------------------------------------------------------------------------------------------- */

lam_status lmi_keep_identity(lam_builder *b, uint64_t storage, uint64_t object, int32_t tensor,
                             lam_error *e) {
    const lmi_identity one = {storage, object, tensor};
    return storage || object ? lmi_push(b, &b->identities, "parameters", &one, e) : LAM_OK;
}

static lam_status check_address(uint64_t address, const char *name, lam_error *e) {
    if (address >> 48 == 0) return LAM_OK;
    return lmi_fail(e, LAM_RANGE, name, "a tensor's identity is an address, of 48 bits at most");
}

static lam_status keep_tie(lam_builder *b, uint64_t s, uint64_t o, const char *name, lam_error *e) {
    LAM_TRY(check_address(s | o, name, e));
    const lmi_tie tie = {{(uint32_t)s, (uint32_t)o, (uint32_t)(s >> 32) | (uint32_t)(o >> 32) << 16}};
    return lmi_push_sized(b, &b->ties, "operators' tensors", &tie, sizeof tie, UINT32_MAX, e);
}

static lam_status keep_all(lam_builder *b, const lam_op_arg *a, int32_t n, const char *name, lam_error *e) {
    for (int32_t i = 0; i < n; i++)
        if (a[i].is_tensor) LAM_TRY(keep_tie(b, a[i].storage, a[i].object, name, e));
    return LAM_OK;
}

static lam_status keep_identities(lam_builder *b, const lam_op_info *o, const lam_op_sig *sig, lam_error *e) {
    int32_t results = 0;
    for (int32_t i = 0; i < sig->n_out; i++) results += sig->out[i].is_tensor;
    for (int32_t i = 0; i < o->n_tensors; i++) {
        const lam_identity *t = &o->tensors[i];
        if (i >= o->n_tensors - results && (t->storage || t->object)) b->identified = true;
        LAM_TRY(keep_tie(b, t->storage, t->object, sig->name, e));
    }
    return LAM_OK;
}

lam_status lmi_keep_ties(lam_builder *b, const lam_op_info *o, const lam_op_sig *sig, uint32_t *at,
                         lam_error *e) {
    *at = (uint32_t)b->ties.n;
    if (o->tensors) return keep_identities(b, o, sig, e);
    LAM_TRY(keep_all(b, o->in, o->n_in, o->name, e));
    for (int32_t i = 0; i < o->n_out; i++)
        b->identified = b->identified || o->out[i].storage || o->out[i].object;
    return keep_all(b, o->out, o->n_out, o->name, e);
}

static uint64_t storage_of(const lmi_tie *t) { return t->id[0] | (uint64_t)(t->id[2] & 0xFFFF) << 32; }
static uint64_t object_of(const lmi_tie *t) { return t->id[1] | (uint64_t)(t->id[2] >> 16) << 32; }

/* -- state of addresses ---------------------------------------------------------------------------------- */

/* The last bit separates keys of memory from keys of tensors. */
static uint64_t memory_key(uint64_t storage) { return storage << 1 | 1; }
static uint64_t tensor_key(uint64_t object) { return object << 1; }

static lmi_known *get(const lmi_data *d, uint64_t key) {
    int64_t i = lmi_map_get_u64(&d->at, key);
    return i < 0 ? NULL : (lmi_known *)d->known.data + i;
}

/* The entry of a key; a new one is empty. It moves when another is put. NULL: memory ran out. */
static lmi_known *put(lmi_data *d, uint64_t key) {
    lmi_known *k = get(d, key);
    if (k) return k;
    k = lmi_vec_add(&d->known, 1);
    if (!k || lmi_map_add(&d->at, lmi_hash_u64(key), (int64_t)d->known.n - 1, NULL) != LAM_OK) return NULL;
    *k = (lmi_known){.numel = -1, .op = -1, .root = -1, .input = -1, .made = -1, .write = -1};
    return k;
}

/* -- sources of tensors ---------------------------------------------------------------------------------- */

/* A tensor whose source is searched. `seen`: only operators that were observed to return this object
 * count. */
typedef struct met {
    uint64_t storage, object;
    int64_t numel;
    int32_t dtype;
    bool seen;
    int32_t ndim;
    const int64_t *sizes;
} met;

static bool fits(const lmi_known *k, const met *t, bool whole) {
    if (k->op < 0 || k->dtype != t->dtype) return false;
    if (k->numel < 0 || t->numel < 0) return true;
    return whole ? k->numel == t->numel : t->numel <= k->numel;
}

static int32_t owner_of(const lmi_data *d, const met *t, int32_t root) {
    int64_t i = t->object ? lmi_map_get_u64(&d->tensors, tensor_key(t->object)) : -1;
    if (i < 0 && t->storage) i = lmi_map_get_u64(&d->tensors, memory_key(t->storage));
    if (i >= 0) return (int32_t)i;
    const lmi_known *s = t->storage && root >= 0 ? get(d, memory_key(t->storage)) : NULL;
    return s && s->root == root ? -2 - s->input : -1;
}

/* The last write after `since` into a part of the memory that the tensor covers; -1 none. */
static int32_t last_write(const lmi_data *d, const lmi_edge *t, const met *shape, int32_t write,
                          uint32_t since) {
    lmi_place mine, other;
    const lmi_write *w;
    bool known = !(t->made < 0 && t->owner == -1) &&
                 lmi_place_of(d->m, d->edges, t->made, t->nth, shape->ndim, shape->sizes, &mine);
    for (; write >= 0; write = w->prev) {
        w = lmi_vec_at(&d->writes, (size_t)write);
        if (w->when <= since) return -1;
        bool apart = known && !(w->made < 0 && w->owner == -1) &&
                     lmi_place_of(d->m, d->edges, w->made, w->nth, w->ndim, w->sizes, &other) &&
                     !lmi_places_meet(&mine, &other);
        if (!apart) return write;
    }
    return -1;
}

/* The source of a tensor: by its object or by its memory, the later of the two. */
static lmi_edge edge_of_met(const lmi_data *d, const met *t, int32_t root) {
    lmi_edge e = {.op = LAM_SOURCE_NONE, .owner = owner_of(d, t, root), .made = -1, .write = -1, .maybe = -1};
    const lmi_known *o = t->object ? get(d, tensor_key(t->object)) : NULL;
    const lmi_known *s = t->storage ? get(d, memory_key(t->storage)) : NULL;
    if (o && (o->storage != t->storage || !fits(o, t, true))) o = NULL;
    if (s && !fits(s, t, false)) s = NULL;
    if (s && t->seen && t->object && !o && e.owner == -1) {
        e.maybe = s->op;
        s = NULL;
    }
    if (o) {
        e.made = o->made;
        e.nth = o->nth;
    }
    e.as_data = e.owner >= 0 && e.made < 0 && t->seen && t->object &&
                lmi_map_get_u64(&d->tensors, tensor_key(t->object)) < 0;
    if (s) e.write = s->write;
    if (o && s && s->when > o->when) {
        int32_t write = s->write >= 0 ? last_write(d, &e, t, s->write, o->when) : -1;
        e.through = s->write < 0 || write >= 0;
        e.op = write >= 0  ? ((const lmi_write *)lmi_vec_at(&d->writes, (size_t)write))->op
               : e.through ? s->op
                           : o->op;
    } else if (o || s) {
        e.op = o ? o->op : s->op;
        e.through = !o;
    }
    return e;
}

static lam_status know_tensor(lmi_map *m, const lmi_identity *i, lam_error *e) {
    if (i->object) LAM_TRY(lmi_map_put_u64(m, tensor_key(i->object), i->tensor, e));
    if (!i->storage || lmi_map_get_u64(m, memory_key(i->storage)) >= 0) return LAM_OK;
    return lmi_map_put_u64(m, memory_key(i->storage), i->tensor, e);
}

/* -- ends of operators ----------------------------------------------------------------------------------- */

/* Sets the operator that created an object. A write into an existing tensor does not change it, nor does an
 * operator that returns the result of an operator inside it. */
static void note_made(lmi_known *k, const lmi_result *r, bool was_there, int32_t op) {
    if (was_there && (r->in_place || k->made > op)) return;
    k->made = r->in_place ? -1 : op;
    k->nth = r->nth;
}

static bool note(lmi_data *d, uint64_t key, const lmi_result *r, int32_t op) {
    lmi_known *k = put(d, key);
    if (!k) return false;
    bool was_there = k->op >= 0 && k->storage == r->storage && k->dtype == r->dtype && k->numel == r->numel;
    note_made(k, r, was_there, op);
    k->storage = r->storage;
    k->dtype = r->dtype;
    k->numel = r->numel;
    k->op = op;
    k->when = d->when;
    return true;
}

/* Adds a write. If an operator inside created the memory and wrote to it, those writes are kept. */
static bool note_write(lmi_data *d, const lmi_result *r, int32_t op, lmi_known *k) {
    const lmi_known *object = r->object ? get(d, tensor_key(r->object)) : NULL;
    const lmi_write *last = lmi_vec_at(&d->writes, k->write < 0 ? SIZE_MAX : (size_t)k->write);
    bool inside = last && last->op > op;
    lmi_write w = {.op = op,
                   .made = object ? object->made : -1,
                   .nth = object ? object->nth : 0,
                   .ndim = r->arg->ndim,
                   .sizes = r->arg->sizes,
                   .owner = r->owner,
                   .prev = r->fresh && !inside ? -1 : k->write,
                   .when = d->when};
    lmi_write *to = lmi_vec_push(&d->writes);
    if (!to) return false;
    *to = w;
    k->write = (int32_t)d->writes.n - 1;
    return true;
}

/* Notes that an operator created or wrote memory. A write in place may cover a part of it; the size of the
 * whole is known from its creation. */
static bool note_memory(lmi_data *d, const lmi_result *r, int32_t op) {
    const lmi_known *before = get(d, memory_key(r->storage));
    lmi_known was = before ? *before : (lmi_known){.numel = -1};
    if (!note(d, memory_key(r->storage), r, op)) return false;
    lmi_known *k = get(d, memory_key(r->storage));
    if (r->fresh)
        k->root = k->input = -1;
    else
        k->numel = was.numel < 0 || was.dtype != r->dtype ? -1 : was.numel > r->numel ? was.numel : r->numel;
    if (r->fresh || r->in_place) return note_write(d, r, op, k);
    k->write = -1;
    return true;
}

/* Notes a result. A view does not change the entry of its memory, unless objects have no addresses. */
static bool give(lmi_data *d, const lmi_result *r, int32_t op) {
    bool writes = r->fresh || r->in_place || !r->object;
    d->when++;
    return (!r->object || note(d, tensor_key(r->object), r, op)) &&
           (!r->storage || !writes || note_memory(d, r, op));
}

/* Ends the open operators inside `parent`, the innermost first. */
static lam_status end_above(lmi_data *d, int32_t parent, lam_error *e) {
    while (d->open.n > 0) {
        const lmi_open *top = lmi_vec_at(&d->open, d->open.n - 1);
        if (top->op <= parent) break;
        for (size_t i = top->results; i < d->results.n; i++)
            if (!give(d, lmi_vec_at(&d->results, i), top->op)) return lmi_nomem(e);
        d->results.n = top->results;
        lmi_vec_pop(&d->open);
    }
    return LAM_OK;
}

/* -- calls ----------------------------------------------------------------------------------------------- */

static uint64_t memory_of(const lam_arg *a) { return a->memory ? a->memory : a->storage; }

static met met_arg(const lam_arg *a) {
    return (met){memory_of(a), a->object, lmi_numel((lam_shape){a->ndim, a->sizes}), a->dtype, true,
                 a->ndim,      a->sizes};
}

static int32_t root_of(const lam_model *m, int32_t call) {
    while (call >= 0 && m->events[call].parent >= 0) call = m->events[call].parent;
    return call;
}

/* Notes the arguments of an outermost call that has begun. An operator is the source of an argument only if
 * it was observed to create it. */
static lam_status enter(lmi_data *d, int32_t root, lam_error *e) {
    const lam_event *ev = &d->m->events[root];
    d->entered = root;
    for (int32_t i = 0; i < ev->n_in; i++) {
        met t = met_arg(&ev->in[i]);
        if (!t.storage) continue;
        bool made = edge_of_met(d, &t, root).op >= 0;
        lmi_known *k = put(d, memory_key(t.storage));
        if (!k) return lmi_nomem(e);
        if (k->root == root) continue; /* the first argument with this memory */
        if (!made) k->op = k->write = -1;
        k->root = root;
        k->input = i;
    }
    return LAM_OK;
}

static int64_t end_of(const lam_event *ev) { return ev->t1_ns > 0 ? ev->t1_ns : INT64_MAX; }

typedef struct ending {
    int64_t at;
    int32_t call;
} ending;

static int by_time(const void *a, const void *b) {
    const ending *x = a, *y = b;
    return x->at != y->at ? (x->at > y->at) - (x->at < y->at) : (x->call < y->call) - (x->call > y->call);
}

/* Sorts the calls by their end, and allocates the sources of their results. */
static lam_status list_calls(lmi_data *d, lam_error *e) {
    const lam_model *m = d->m;
    uint64_t n = (uint64_t)m->n_events, all = 0;
    ending *ends = malloc((size_t)(n ? n : 1) * sizeof *ends);
    for (uint64_t i = 0; i < n; i++) all += (uint64_t)m->events[i].n_out;
    d->by_end = malloc((size_t)(n ? n : 1) * sizeof *d->by_end);
    d->out_sources_at = malloc((size_t)(n ? n : 1) * sizeof *d->out_sources_at);
    d->out_sources = malloc((size_t)(all ? all : 1) * sizeof *d->out_sources);
    d->settled = calloc((size_t)(n ? n : 1), sizeof *d->settled);
    bool ok = ends && d->by_end && d->out_sources_at && d->out_sources && d->settled;
    int32_t at = 0;
    for (uint64_t i = 0; ok && i < n; at += m->events[i++].n_out) {
        ends[i] = (ending){end_of(&m->events[i]), (int32_t)i};
        d->out_sources_at[i] = at;
    }
    for (int32_t i = 0; ok && i < at; i++)
        d->out_sources[i] =
            (lmi_edge){.op = LAM_SOURCE_NONE, .owner = -1, .made = -1, .write = -1, .maybe = -1};
    if (ok && n) qsort(ends, (size_t)n, sizeof *ends, by_time);
    for (uint64_t i = 0; ok && i < n; i++) d->by_end[i] = ends[i].call;
    free(ends);
    return ok ? LAM_OK : lmi_nomem(e);
}

static void settle_call(lmi_data *d, int32_t call) {
    const lam_event *ev = &d->m->events[call];
    for (int32_t k = 0; k < ev->n_out && !d->settled[call]; k++) {
        met t = met_arg(&ev->out[k]);
        d->out_sources[d->out_sources_at[call] + k] = edge_of_met(d, &t, root_of(d->m, call));
    }
    d->settled[call] = true;
}

/* Finds the sources of the results of calls that ended until `now`. */
static void end_calls(lmi_data *d, int64_t now) {
    const lam_model *m = d->m;
    for (; d->ended < m->n_events; d->ended++) {
        int32_t call = d->by_end[d->ended];
        if (end_of(&m->events[call]) > now) break;
        settle_call(d, call);
    }
}

/* Calls are in the order in which they began, so one is around another only if it has the smaller index. */
static bool is_around(const lam_model *m, int32_t call, int32_t inner) {
    while (inner > call) inner = m->events[inner].parent;
    return inner == call;
}

static void leave(lmi_data *d, int32_t call) {
    if (d->m->events[call].t1_ns == 0) settle_call(d, call);
}

/* Without times, as in a dry run, a call has ended when an operator runs outside of it. Operators of a
 * backward pass run after all calls have ended. */
static void leave_calls(lmi_data *d, const lam_op *o) {
    const lam_model *m = d->m;
    int32_t call = o->phase == LAM_FORWARD ? o->call : -1;
    for (; d->left >= 0 && !is_around(m, d->left, call); d->left = m->events[d->left].parent)
        leave(d, d->left);
    int32_t around = call >= 0 ? m->events[call].parent : -1;
    for (int32_t c = call - 1; c > d->reached; c--) { /* calls in which no operator ran */
        if (c == around)
            around = m->events[c].parent;
        else
            leave(d, c);
    }
    if (call > d->reached) d->reached = call;
    d->left = call;
}

/* -- one operator ---------------------------------------------------------------------------------------- */

static bool ends_with(const char *name, char c) {
    size_t n = strlen(name);
    return n > 0 && name[n - 1] == c;
}

static bool note_result(lmi_data *d, const lam_op_arg *a, const lmi_tie *tie, bool fresh, bool in_place,
                        int32_t nth) {
    lmi_result *r = lmi_vec_push(&d->results);
    met t = {storage_of(tie), object_of(tie), lmi_op_arg_numel(a), a->dtype, true, a->ndim, a->sizes};
    if (!r) return false;
    *r = (lmi_result){.storage = t.storage,
                      .object = t.object,
                      .numel = t.numel,
                      .dtype = t.dtype,
                      .fresh = fresh,
                      .in_place = in_place,
                      .nth = (int16_t)nth,
                      .arg = a,
                      .owner = in_place ? owner_of(d, &t, d->root) : -1};
    return true;
}

/* An operator in place without results writes to its first argument, usually a list. */
static bool note_written(lmi_data *d, const lam_op_sig *sig, const lmi_tie *tie) {
    bool ok = true;
    for (int32_t i = 0; ok && i < sig->n_in; i++) {
        if (!sig->in[i].is_tensor) continue;
        if (sig->in[i].position == 0) ok = note_result(d, &sig->in[i], tie, false, true, 0);
        tie++;
    }
    return ok;
}

/* The tie of the i-th argument, or with n_in of the first result. */
static const lmi_tie *tie_of(const lam_op_sig *sig, const lmi_tie *tie, int32_t i) {
    for (int32_t k = 0; k < i; k++) tie += sig->in[k].is_tensor;
    return tie;
}

/* The argument that is this object, -1 none. */
static int32_t argument_of(const lam_op_sig *sig, const lmi_tie *tie, uint64_t object) {
    for (int32_t i = 0; i < sig->n_in; i++)
        if (sig->in[i].is_tensor && object_of(tie++) == object) return i;
    return -1;
}

/* True for an operator on a tensor that Python passes for the first time ("lift", in torch.tensor): no
 * observed operator created it. */
static bool is_lift(const char *name) {
    return !strcmp(name, "aten::lift_fresh") || !strcmp(name, "aten::lift");
}

/* True if an operator that returns its argument `from` wrote to it. Torch's operators do if their names end
 * in "_" ("relu_", "__iadd__"), or if the argument is not the first one (`out`); others (contiguous, dropout
 * in eval) return an unchanged argument. */
static bool wrote(const char *name, int32_t from) {
    return from > 0 || !lmi_is_torchs(name) || ends_with(name, '_');
}

static bool note_results(lmi_data *d, const lam_op *o) {
    const lam_op_sig *sig = o->sig;
    const lmi_tie *ties = d->m->ties + o->ties_, *tie = tie_of(sig, ties, sig->n_in);
    bool lift = is_lift(sig->name);
    if (o->flags & LAM_OP_FAILED) return true;
    if (sig->n_out == 0 && ends_with(sig->name, '_')) return note_written(d, sig, ties);
    for (int32_t i = 0; i < sig->n_out; i++) {
        const lam_op_arg *a = &sig->out[i];
        if (!a->is_tensor) continue;
        const lmi_tie *mine = tie++;
        uint64_t object = object_of(mine);
        if (!storage_of(mine) && !object) continue;
        int32_t from = lift || !object || a->shares < 0 ? -1 : argument_of(sig, ties, object);
        bool same = from >= 0;
        if (same && !wrote(sig->name, from)) continue;
        bool moved =
            same && lmi_op_kind(sig->word) == LMI_K_free; /* unsqueeze_: the object becomes another view */
        if (!note_result(d, a, mine, lift || a->shares < 0, same && !moved, i)) return false;
    }
    return true;
}

static bool note_open(lmi_data *d, int32_t index, const lam_op *o) {
    size_t before = d->results.n;
    lmi_open *open = note_results(d, o) ? lmi_vec_push(&d->open) : NULL;
    if (open) *open = (lmi_open){index, before};
    return open != NULL;
}

static void find_edges(lmi_data *d, const lam_op *o) {
    const lam_op_sig *sig = o->sig;
    const lmi_tie *tie = d->m->ties + o->ties_;
    lmi_edge *edge = d->edges + o->ties_;
    bool lift = is_lift(sig->name);
    for (int32_t i = 0; i < sig->n_in; i++) {
        const lam_op_arg *a = &sig->in[i];
        if (!a->is_tensor) continue;
        met t = {storage_of(tie), object_of(tie), lmi_op_arg_numel(a), a->dtype, o->phase == LAM_FORWARD,
                 a->ndim,         a->sizes};
        *edge = edge_of_met(d, &t, d->root);
        if (lift) edge->op = edge->write = edge->made = LAM_SOURCE_NONE;
        edge++;
        tie++;
    }
}

static lam_status see_op(lmi_data *d, int32_t index, lam_error *e) {
    const lam_op *o = &d->m->ops[index];
    LAM_TRY(end_above(d, o->parent, e));
    /* If time runs backwards, this operator is another thread's: those follow after all of the first
     * thread. */
    end_calls(d, o->t0_ns && o->t0_ns < d->t0_ns ? INT64_MAX : o->t0_ns);
    d->t0_ns = o->t0_ns;
    leave_calls(d, o);
    if (o->call != d->call) d->root = root_of(d->m, o->call);
    d->call = o->call;
    if (d->root > d->entered) LAM_TRY(enter(d, d->root, e));
    if (!note_open(d, index, o)) return lmi_nomem(e);
    find_edges(d, o);
    return LAM_OK;
}

static lam_status see_all(lmi_data *d, lam_error *e) {
    const lam_model *m = d->m;
    d->edges = malloc((size_t)(m->n_ties ? m->n_ties : 1) * sizeof *d->edges);
    if (!d->edges) return lmi_nomem(e);
    LAM_TRY(lmi_map_reserve(&d->at, 2 * (size_t)m->n_ops, e)); /* mostly a new object and its memory each */
    LAM_TRY(list_calls(d, e));
    for (int32_t i = 0; i < m->n_identities; i++) LAM_TRY(know_tensor(&d->tensors, &m->identities[i], e));
    for (int32_t i = 0; i < m->n_ops; i++) LAM_TRY(see_op(d, i, e));
    LAM_TRY(end_above(d, -1, e));
    end_calls(d, INT64_MAX);
    return LAM_OK;
}

/* Stores the edges in the model; they replace the identities. */
static void settle(lam_model *m, lmi_data *d) {
    free(m->storage[0]);
    m->ties = NULL;
    m->storage[0] = m->edges = d->edges;
    m->storage[m->n_storage++] = m->out_sources_at = d->out_sources_at;
    m->storage[m->n_storage++] = m->out_sources = d->out_sources;
    m->storage[m->n_storage++] = m->writes = d->writes.data;
    m->n_out_sources_at = m->n_events;
    d->writes.data = NULL;
    d->edges = NULL;
    d->out_sources_at = NULL;
    d->out_sources = NULL;
}

lam_status lam_model_find_sources(const lam_model *m, lam_error *e) {
    if (m->edges || m->n_ops == 0) return LAM_OK;
    lmi_data d = {.m = m, .call = -1, .root = -1, .entered = -1, .reached = -1, .left = -1};
    lmi_map_init(&d.at);
    lmi_vec_init(&d.known, sizeof(lmi_known));
    lmi_vec_init(&d.open, sizeof(lmi_open));
    lmi_vec_init(&d.results, sizeof(lmi_result));
    lmi_vec_init(&d.writes, sizeof(lmi_write));
    lmi_map_init(&d.tensors);
    lam_status s = see_all(&d, e);
    /* The model looks constant to callers: sources are found at their first use. */
    if (s == LAM_OK) settle((lam_model *)(uintptr_t)m, &d);
    free(d.edges);
    free(d.out_sources_at);
    free(d.out_sources);
    lmi_map_free(&d.at);
    lmi_vec_free(&d.known);
    free(d.by_end);
    free(d.settled);
    lmi_vec_free(&d.open);
    lmi_vec_free(&d.results);
    lmi_vec_free(&d.writes);
    lmi_map_free(&d.tensors);
    return s;
}

/* -- reading --------------------------------------------------------------------------------------------- */

const lmi_edge *lmi_model_edge(const lam_model *m, int32_t op, int32_t in) {
    const lam_op *o = lam_model_op(m, op);
    if (!o || in < 0 || in >= o->sig->n_in || !o->sig->in[in].is_tensor) return NULL;
    if (!m->edges && lam_model_find_sources(m, NULL) != LAM_OK) return NULL;
    return m->edges + o->ties_ + o->sig->in[in].before;
}

const lmi_edge *lmi_model_out_edge(const lam_model *m, int32_t event, int32_t out) {
    const lam_event *ev = lam_model_event(m, event);
    if (!ev || lam_model_find_sources(m, NULL) != LAM_OK || event >= m->n_out_sources_at || out < 0 ||
        out >= ev->n_out)
        return NULL;
    return &m->out_sources[m->out_sources_at[event] + out];
}

int32_t lam_model_source(const lam_model *m, int32_t op, int32_t in) {
    const lmi_edge *edge = lmi_model_edge(m, op, in);
    return edge ? edge->op : LAM_SOURCE_NONE;
}

int32_t lam_model_source_tensor(const lam_model *m, int32_t op, int32_t in) {
    const lmi_edge *edge = lmi_model_edge(m, op, in);
    return edge && edge->owner >= 0 ? edge->owner : LAM_SOURCE_NONE;
}

int32_t lam_model_source_input(const lam_model *m, int32_t op, int32_t in) {
    const lmi_edge *edge = lmi_model_edge(m, op, in);
    return edge && edge->owner <= -2 ? -2 - edge->owner : LAM_SOURCE_NONE;
}

int32_t lam_model_call_output_source(const lam_model *m, int32_t event, int32_t out) {
    const lmi_edge *edge = lmi_model_out_edge(m, event, out);
    return edge ? edge->op : LAM_SOURCE_NONE;
}
