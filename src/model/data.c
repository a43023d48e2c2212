/* SPDX-License-Identifier: Apache-2.0
 *
 * Where data comes from. Each tensor that goes into an operator has two addresses: its own, and that of its
 * memory, which its views share. What is known of both is kept as operators are pushed: who gave a tensor,
 * and who last wrote to its memory; the later of the two is the source.
 *
 * Addresses are used again. What an operator gives replaces what was known of its address. A tensor that
 * nobody saw coming (made from numpy) may have the address of one that is gone: its source is not told where
 * it is not the very tensor that was seen, in size and type too. Only a backward pass meets tensors that are
 * new objects on memory that is known, for autograd makes one anew of each it had saved. */
#include "model/builder.h"

#include <stdlib.h>

/* An operator that has not ended. */
typedef struct lmi_open {
    int32_t op;
    size_t results; /* where its own begin */
} lmi_open;

void lmi_data_init(lmi_data *d) {
    *d = (lmi_data){.call = -1, .root = -1, .entered = -1};
    lmi_vec_init(&d->open, sizeof(lmi_open));
    lmi_vec_init(&d->results, sizeof(lmi_result));
    lmi_vec_init(&d->edges, sizeof(lmi_edge));
    lmi_map_init(&d->tensors);
    lmi_vec_init(&d->by_end, sizeof(int32_t));
    lmi_vec_init(&d->out_at, sizeof(int32_t));
    lmi_vec_init(&d->out_sources, sizeof(int32_t));
}

void lmi_data_free(lmi_data *d) {
    free(d->slots);
    lmi_vec_free(&d->open);
    lmi_vec_free(&d->results);
    lmi_vec_free(&d->edges);
    lmi_map_free(&d->tensors);
    lmi_vec_free(&d->by_end);
    lmi_vec_free(&d->out_at);
    lmi_vec_free(&d->out_sources);
}

/* -- what is known of addresses -------------------------------------------------------------------------- */

/* Addresses of objects are even, so memory and tensors have keys of their own. */
static uint64_t memory_key(uint64_t storage) { return storage << 1 | 1; }
static uint64_t tensor_key(uint64_t object) { return object << 1; }

static size_t probe(const lmi_known *slots, size_t cap, uint64_t key) {
    size_t i = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (cap - 1);
    while (slots[i].key && slots[i].key != key) i = (i + 1) & (cap - 1);
    return i;
}

static lmi_known *get(const lmi_data *d, uint64_t key) {
    lmi_known *k = d->cap ? &d->slots[probe(d->slots, d->cap, key)] : NULL;
    return k && k->key ? k : NULL;
}

static bool widen(lmi_data *d) {
    size_t cap = d->cap ? d->cap * 2 : 512;
    lmi_known *slots = calloc(cap, sizeof *slots);
    if (!slots) return false;
    for (size_t i = 0; i < d->cap; i++)
        if (d->slots[i].key) slots[probe(slots, cap, d->slots[i].key)] = d->slots[i];
    free(d->slots);
    d->slots = slots;
    d->cap = cap;
    return true;
}

/* The entry of a key, new ones empty; NULL when memory ran out. */
static lmi_known *put(lmi_data *d, uint64_t key) {
    if (d->n * 2 >= d->cap && !widen(d)) return NULL;
    lmi_known *k = &d->slots[probe(d->slots, d->cap, key)];
    if (!k->key) {
        d->n++;
        *k = (lmi_known){.key = key, .numel = -1, .op = -1, .root = -1, .input = -1};
    }
    return k;
}

/* -- who gave it ----------------------------------------------------------------------------------------- */

static int64_t numel_of(const lam_op_arg *a) {
    int64_t n;
    return a->ndim >= 0 && lmi_product(a->sizes, a->ndim, &n) ? n : -1;
}

/* One tensor as it is met. `seen`: only what was seen to become this very object counts. */
typedef struct met {
    uint64_t storage, object;
    int64_t numel;
    int32_t dtype;
    bool seen;
} met;

static bool fits(const lmi_known *k, const met *t, bool whole) {
    if (k->op < 0 || k->dtype != t->dtype) return false;
    if (k->numel < 0 || t->numel < 0) return true;
    return whole ? k->numel == t->numel : t->numel <= k->numel;
}

static int32_t source_of(const lmi_data *d, const met *t) {
    const lmi_known *o = t->object ? get(d, tensor_key(t->object)) : NULL;
    const lmi_known *s = t->storage ? get(d, memory_key(t->storage)) : NULL;
    if (o && (o->storage != t->storage || !fits(o, t, true))) o = NULL;
    if (s && (!fits(s, t, false) || (t->seen && t->object && !o))) s = NULL;
    if (o && s) return o->when > s->when ? o->op : s->op;
    return o ? o->op : s ? s->op : LAM_SOURCE_NONE;
}

static int32_t owner_of(const lmi_data *d, const met *t, int32_t root) {
    int64_t i = t->object ? lmi_map_get_u64(&d->tensors, tensor_key(t->object)) : -1;
    if (i < 0 && t->storage) i = lmi_map_get_u64(&d->tensors, memory_key(t->storage));
    if (i >= 0) return (int32_t)i;
    const lmi_known *s = t->storage && root >= 0 ? get(d, memory_key(t->storage)) : NULL;
    return s && s->root == root ? -2 - s->input : -1;
}

lam_status lmi_data_tensor(lam_builder *b, uint64_t storage, uint64_t object, int32_t index, lam_error *e) {
    lmi_map *m = &b->data.tensors;
    if (object) LAM_TRY(lmi_map_put_u64(m, tensor_key(object), index, e));
    if (!storage || lmi_map_get_u64(m, memory_key(storage)) >= 0) return LAM_OK;
    return lmi_map_put_u64(m, memory_key(storage), index, e);
}

/* -- operators end --------------------------------------------------------------------------------------- */

static bool note(lmi_data *d, uint64_t key, const lmi_result *r, int32_t op) {
    lmi_known *k = put(d, key);
    if (!k) return false;
    k->storage = r->storage;
    k->dtype = r->dtype;
    k->numel = r->numel;
    k->op = op;
    k->when = d->when;
    return true;
}

/* What is written to in place may be a part of the memory, whose whole size is known where it was new. */
static bool note_memory(lmi_data *d, const lmi_result *r, int32_t op) {
    const lmi_known *before = get(d, memory_key(r->storage));
    lmi_known was = before ? *before : (lmi_known){.numel = -1};
    if (!note(d, memory_key(r->storage), r, op)) return false;
    lmi_known *k = get(d, memory_key(r->storage));
    if (r->fresh)
        k->root = k->input = -1;
    else
        k->numel = was.numel < 0 || was.dtype != r->dtype ? -1 : was.numel > r->numel ? was.numel : r->numel;
    return true;
}

/* A view says nothing of its memory, unless nothing else tells views apart. */
static bool give(lmi_data *d, const lmi_result *r, int32_t op) {
    bool writes = r->fresh || r->in_place || !r->object;
    d->when++;
    return (!r->object || note(d, tensor_key(r->object), r, op)) &&
           (!r->storage || !writes || note_memory(d, r, op));
}

/* Ends the operators that are open above `parent`, the innermost first. */
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
    int64_t n;
    return (met){memory_of(a), a->object, a->ndim >= 0 && lmi_product(a->sizes, a->ndim, &n) ? n : -1,
                 a->dtype, true};
}

static int32_t root_of(const lam_builder *b, int32_t call) {
    const lam_event *events = b->events.data;
    while (call >= 0 && events[call].parent >= 0) call = events[call].parent;
    return call;
}

/* The outermost call has begun: what is handed to it is there, and who made it counts only if that was seen.
 */
static lam_status enter(lam_builder *b, int32_t root, lam_error *e) {
    lmi_data *d = &b->data;
    const lam_event *ev = lmi_vec_at(&b->events, (size_t)root);
    d->entered = root;
    for (int32_t i = 0; i < ev->n_in; i++) {
        met t = met_arg(&ev->in[i]);
        if (!t.storage) continue;
        bool made = source_of(d, &t) >= 0;
        lmi_known *k = put(d, memory_key(t.storage));
        if (!k) return lmi_nomem(e);
        if (k->root == root) continue; /* the first argument with this memory */
        if (!made) k->op = -1;
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

/* Calls in the order in which they ended, and room for the sources of their results. */
static lam_status list_calls(lam_builder *b, lam_error *e) {
    lmi_data *d = &b->data;
    size_t n = b->events.n;
    ending *ends = n ? malloc(n * sizeof *ends) : NULL;
    lam_status s = n && !ends ? lmi_nomem(e) : LAM_OK;
    int32_t at = 0;
    const int32_t none = LAM_SOURCE_NONE;
    for (size_t i = 0; s == LAM_OK && i < n; i++) {
        const lam_event *ev = lmi_vec_at(&b->events, i);
        ends[i] = (ending){end_of(ev), (int32_t)i};
        s = lmi_push(b, &d->out_at, "calls", &at, e);
        for (int32_t k = 0; s == LAM_OK && k < ev->n_out; k++, at++)
            s = lmi_push(b, &d->out_sources, "results of calls", &none, e);
    }
    if (s == LAM_OK && n) qsort(ends, n, sizeof *ends, by_time);
    for (size_t i = 0; s == LAM_OK && i < n; i++) s = lmi_push(b, &d->by_end, "calls", &ends[i].call, e);
    free(ends);
    d->begun = s == LAM_OK;
    return s;
}

/* Settles the results of the calls that ended by then. */
static void end_calls(lam_builder *b, int64_t now) {
    lmi_data *d = &b->data;
    const int32_t *order = d->by_end.data, *at = d->out_at.data;
    for (; d->ended < d->by_end.n; d->ended++) {
        int32_t call = order[d->ended];
        const lam_event *ev = lmi_vec_at(&b->events, (size_t)call);
        if (end_of(ev) > now) break;
        for (int32_t k = 0; k < ev->n_out; k++) {
            met t = met_arg(&ev->out[k]);
            ((int32_t *)d->out_sources.data)[at[call] + k] = source_of(d, &t);
        }
    }
}

/* -- one operator ---------------------------------------------------------------------------------------- */

static bool ends_with(const char *name, char c) {
    size_t n = strlen(name);
    return n > 0 && name[n - 1] == c;
}

static bool note_result(lmi_data *d, const lam_op_arg *a, bool fresh, bool in_place) {
    lmi_result *r = lmi_vec_push(&d->results);
    if (r) *r = (lmi_result){a->storage, a->object, numel_of(a), a->dtype, fresh, in_place};
    return r != NULL;
}

/* An operator in place that gives nothing back writes to what comes first, a list mostly. */
static bool note_written(lmi_data *d, const lam_op_info *o) {
    bool ok = true;
    for (int32_t i = 0; ok && i < o->n_in; i++)
        if (o->in[i].is_tensor && o->in[i].position == 0) ok = note_result(d, &o->in[i], false, true);
    return ok;
}

/* What Python hands over for the first time ("lift": torch.tensor made it) was made by nobody who was seen.
 */
static bool is_lift(const char *name) {
    return !strcmp(name, "aten::lift_fresh") || !strcmp(name, "aten::lift");
}

/* Whether an operator that gives its own argument `from` back wrote to it. Of torch's own, those do whose
 * names end so ("relu_", "__iadd__"), and what takes a result comes after the first argument; the others
 * (contiguous, dropout in eval) had nothing to do. */
static bool wrote(const char *name, int32_t from) {
    static const char ours[] = "aten::";
    return from > 0 || strncmp(name, ours, sizeof ours - 1) != 0 || ends_with(name, '_');
}

static bool note_results(lmi_data *d, const lam_op_info *o, const lam_op_sig *sig) {
    bool lift = is_lift(sig->name);
    if (o->flags & LAM_OP_FAILED) return true;
    if (o->n_out == 0 && ends_with(sig->name, '_')) return note_written(d, o);
    for (int32_t i = 0; i < o->n_out; i++) {
        const lam_op_arg *a = &o->out[i];
        int32_t from = sig->out[i].shares;
        if (!a->is_tensor || (!a->storage && !a->object)) continue;
        bool same = !lift && from >= 0 && a->object && a->object == o->in[from].object;
        if (same && !wrote(sig->name, from)) continue;
        if (!note_result(d, a, lift || from < 0, same)) return false;
    }
    return true;
}

static bool note_open(lmi_data *d, int32_t index, const lam_op_info *o, const lam_op_sig *sig) {
    size_t before = d->results.n;
    lmi_open *open = note_results(d, o, sig) ? lmi_vec_push(&d->open) : NULL;
    if (open)
        *open = (lmi_open){index, before};
    else
        d->results.n = before;
    return open != NULL;
}

static lam_status find_edges(lam_builder *b, const lam_op_info *o, const lam_op_sig *sig, uint32_t *edges,
                             lam_error *e) {
    lmi_data *d = &b->data;
    bool lift = is_lift(sig->name);
    if (d->edges.n > UINT32_MAX - (uint32_t)o->n_in) return lmi_nomem(e);
    *edges = (uint32_t)d->edges.n;
    for (int32_t i = 0; i < o->n_in; i++) {
        const lam_op_arg *a = &sig->in[i];
        if (!a->is_tensor) continue;
        met t = {o->in[i].storage, o->in[i].object, numel_of(a), a->dtype, o->phase == LAM_FORWARD};
        lmi_edge edge = {lift ? LAM_SOURCE_NONE : source_of(d, &t), owner_of(d, &t, d->root)};
        if ((d->edges.n + 1) * sizeof edge > b->arena.limit - b->arena.used) return lmi_nomem(e);
        lmi_edge *to = lmi_vec_push(&d->edges);
        if (!to) return lmi_nomem(e);
        *to = edge;
    }
    return LAM_OK;
}

lam_status lmi_data_op(lam_builder *b, int32_t index, const lam_op_info *o, const lam_op_sig *sig,
                       uint32_t *edges, lam_error *e) {
    lmi_data *d = &b->data;
    if (!d->begun) LAM_TRY(list_calls(b, e));
    LAM_TRY(end_above(d, o->parent, e));
    /* Time that runs backwards is that of another thread, whose operators come when the first one's are over.
     */
    end_calls(b, o->t0_ns && o->t0_ns < d->t0_ns ? INT64_MAX : o->t0_ns);
    d->t0_ns = o->t0_ns;
    if (o->call != d->call) d->root = root_of(b, o->call);
    d->call = o->call;
    if (d->root > d->entered) LAM_TRY(enter(b, d->root, e));
    LAM_TRY(find_edges(b, o, sig, edges, e));
    return note_open(d, index, o, sig) ? LAM_OK : lmi_nomem(e);
}

lam_status lmi_data_end(lam_builder *b, lam_error *e) {
    LAM_TRY(end_above(&b->data, -1, e));
    end_calls(b, INT64_MAX);
    return LAM_OK;
}

/* -- reading --------------------------------------------------------------------------------------------- */

static const lmi_edge *edge_of(const lam_model *m, int32_t op, int32_t in) {
    const lam_op *o = lam_model_op(m, op);
    if (!o || in < 0 || in >= o->sig->n_in || !o->sig->in[in].is_tensor) return NULL;
    const lmi_edge *edge = m->edges + o->edges_;
    for (int32_t i = 0; i < in; i++) edge += o->sig->in[i].is_tensor;
    return edge;
}

int32_t lam_model_source(const lam_model *m, int32_t op, int32_t in) {
    const lmi_edge *edge = edge_of(m, op, in);
    return edge ? edge->op : LAM_SOURCE_NONE;
}

int32_t lam_model_source_tensor(const lam_model *m, int32_t op, int32_t in) {
    const lmi_edge *edge = edge_of(m, op, in);
    return edge && edge->owner >= 0 ? edge->owner : LAM_SOURCE_NONE;
}

int32_t lam_model_source_input(const lam_model *m, int32_t op, int32_t in) {
    const lmi_edge *edge = edge_of(m, op, in);
    return edge && edge->owner <= -2 ? -2 - edge->owner : LAM_SOURCE_NONE;
}

int32_t lam_model_call_output_source(const lam_model *m, int32_t event, int32_t out) {
    const lam_event *ev = lam_model_event(m, event);
    if (!ev || event >= m->n_out_sources_at || out < 0 || out >= ev->n_out) return LAM_SOURCE_NONE;
    return m->out_sources[m->out_sources_at[event] + out];
}
