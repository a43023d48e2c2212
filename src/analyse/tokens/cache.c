/* SPDX-License-Identifier: Apache-2.0
 *
 * What a language model keeps from one call to the next, and how that grows. A cached tensor is one that a
 * call gives, that the next call is given and an operator of it reads. No table of models is needed: runs on
 * prompts of several lengths show which tensors grow, and where they stop. */
#include "analyse/tokens/tokens.h"

#include <stdlib.h>

enum { MOST_OUT = 64 };

const char lmi_token_no_longer[] = "no longer run shows whether it goes on";

/* -- the results that hold the cache ------------------------------------------------------------------ */

/* Entries of a call's results, by their number among them, that hold the cache. */
typedef struct holders {
    uint64_t bits;
} holders;

static bool holds(const holders *h, const lam_arg *a) {
    return a->position >= 0 && a->position < MOST_OUT && h->bits >> a->position & 1;
}

/* Finds the holders by a call and the one before it. */
static bool find_holders(const lmi_token_run *r, int32_t k, holders *h) {
    const lam_event *before = &r->m->events[lmi_token_at(r, k - 1)->event];
    const lam_event *now = &r->m->events[lmi_token_at(r, k)->event];
    bool *read = lmi_token_read(r, k);
    if (!read) return false;
    for (int32_t j = 0; j < before->n_out; j++) {
        const lam_arg *gave = &before->out[j];
        bool given = false;
        for (int32_t i = 0; i < now->n_in && !given; i++) given = lmi_token_same(&now->in[i], gave);
        int32_t from = lam_model_call_output_source(r->m, lmi_token_at(r, k - 1)->event, j);
        if (given && gave->position >= 0 && gave->position < MOST_OUT && (from < 0 || read[from]))
            h->bits |= UINT64_C(1) << gave->position;
    }
    free(read);
    return true;
}

/* Whole numbers in a cache count its tokens. */
static bool is_counter(const lam_arg *a) { return a->dtype == 3 || a->dtype == 4; }

/* == the memory in which it lies ======================================================================== */

/* The argument whose memory all results of an operator share; -1: their memory is new; -2: it is
 * not known. */
static int32_t shared_by(const lam_op_sig *sig) {
    int32_t with = -2;
    for (int32_t i = 0; i < sig->n_out; i++) {
        if (!sig->out[i].is_tensor) continue;
        if (with != -2 && with != sig->out[i].shares) return -2;
        with = sig->out[i].shares < 0 ? -1 : sig->out[i].shares;
    }
    return with;
}

/* The operator that took the memory in which the results of `op` lie; -1: it was not seen. `known`, per
 * operator of the model: 0, or what was found, plus two. */
static int32_t taker_of(const lmi_token_run *r, int32_t op, int32_t *known) {
    int32_t at = op, with;
    while (at >= 0 && !known[at] && (with = shared_by(r->m->ops[at].sig)) != -1)
        at = with < 0 ? -1 : lam_model_source(r->m, at, with);
    const int32_t taker = at < 0 ? -1 : known[at] ? known[at] - 2 : at;
    for (int32_t next = op; next >= 0 && !known[next];
         next = with < 0 ? -1 : lam_model_source(r->m, next, with)) {
        known[next] = taker + 2;
        with = shared_by(r->m->ops[next].sig);
    }
    return taker;
}

/* Bytes that an operator took for its only result; -1: it has several. */
static int64_t taken_by(const lam_op_sig *sig) {
    int64_t bytes = -1;
    for (int32_t i = 0; i < sig->n_out; i++) {
        if (!sig->out[i].is_tensor) continue;
        if (bytes >= 0) return -1;
        bytes = lmi_stored(lmi_op_arg_numel(&sig->out[i]), lam_dtype_bits(sig->out[i].dtype));
    }
    return bytes;
}

typedef struct lying {
    int32_t *known;   /* of taker_of() */
    int32_t *counted; /* per operator: the call, plus one, for which its memory was counted last */
} lying;

/* Adds the memory in which result `out` of call `k` lies, once. */
static void add_storage(const lmi_token_run *r, int32_t k, int32_t out, const lmi_token_entry *entry,
                        const lying *l, lmi_token_held *held) {
    const int32_t from = lam_model_call_output_source(r->m, lmi_token_at(r, k)->event, out);
    const int32_t taker = from < 0 ? -1 : taker_of(r, from, l->known);
    const int64_t bytes = taker < 0 ? -1 : taken_by(r->m->ops[taker].sig);
    if (bytes < lmi_stored(entry->numel, lam_dtype_bits(entry->dtype)) || held->storage < 0) {
        held->storage = -1;
    } else if (l->counted[taker] != k + 1) {
        l->counted[taker] = k + 1;
        held->storage += entry->shared || held->batch < 1 ? bytes : bytes / held->batch;
    }
}

static lam_status keep(lmi_token_run *r, int32_t k, const holders *h, const lying *l, lam_error *e) {
    const lmi_token_call *call = lmi_token_at(r, k);
    const lam_event *ev = &r->m->events[call->event];
    const bool kept = h->bits || call->stores;
    lmi_token_held held = {.first = (int32_t)r->entries.n,
                           .n = kept ? 0 : -1,
                           .keys = call->keys,
                           .batch = call->batch,
                           .storage = kept ? 0 : -1};
    for (int32_t i = 0; i < ev->n_out; i++) {
        const lam_arg *a = &ev->out[i];
        int64_t n = lmi_numel((lam_shape){a->ndim, a->sizes});
        bool again = false;
        for (int32_t j = 0; j < i && !again; j++) again = a->object && a->object == ev->out[j].object;
        if (!holds(h, a) || n <= 0 || is_counter(a) || again) continue;
        const lmi_token_entry entry = {n, a->dtype, call->batch > 1 ? n % call->batch != 0 : a->ndim == 0};
        LAM_TRY(lmi_vec_put(&r->entries, &entry, e));
        add_storage(r, k, i, &entry, l, &held);
        held.n++;
    }
    held.results = held.n;
    for (int32_t i = 0; call->stores && i < r->m->n_tensors; i++) {
        const lam_tensor *t = &r->m->tensors[i];
        const lmi_token_entry entry = {t->numel, t->dtype, call->batch > 1 && t->numel % call->batch != 0};
        if (!r->stored[i] || t->numel <= 0) continue;
        LAM_TRY(lmi_vec_put(&r->entries, &entry, e));
        const int64_t bytes = lmi_stored(t->numel, lam_dtype_bits(t->dtype));
        if (held.storage >= 0) held.storage += entry.shared || held.batch < 1 ? bytes : bytes / held.batch;
        held.n++;
    }
    return lmi_vec_put(&r->held, &held, e);
}

lam_status lmi_token_kept(lmi_token_run *r, lam_error *e) {
    const int32_t n = (int32_t)r->calls.n;
    holders h = {0};
    for (int32_t k = 1; k < n; k++)
        if (lmi_token_at(r, k)->given && !find_holders(r, k, &h)) return lmi_nomem(e);
    /* Without a further call it is not seen what is kept: what other runs of the model show is passed on. */
    if (!h.bits) h.bits = r->holders;
    r->holders = h.bits;
    const uint64_t ops = (uint64_t)(r->m->n_ops ? r->m->n_ops : 1);
    const lying l = {calloc(ops, sizeof *l.known), calloc(ops, sizeof *l.counted)};
    lam_status s = l.known && l.counted ? LAM_OK : lmi_nomem(e);
    for (int32_t k = 0; s == LAM_OK && k < n; k++) s = keep(r, k, &h, &l, e);
    free(l.known);
    free(l.counted);
    return s;
}

/* -- how it grows ------------------------------------------------------------------------------------- */

/* The sizes of one cached tensor, for one sequence, at several numbers of tokens. */
typedef struct sample {
    int64_t keys, bytes;
} sample;

static int by_keys(const void *a, const void *b) {
    const sample *x = a, *y = b;
    return (x->keys > y->keys) - (x->keys < y->keys);
}

typedef struct growth {
    int64_t fixed, slope, cap; /* cap -1: none */
    bool known;
} growth;

static bool follows(const sample *s, int32_t n, const growth *g) {
    for (int32_t i = 0; i < n; i++) {
        int64_t tokens = g->cap >= 0 && s[i].keys > g->cap ? g->cap : s[i].keys, all;
        if (lmi_mul_over(g->slope, tokens, &all) || all + g->fixed != s[i].bytes) return false;
    }
    return true;
}

/* The growth that all samples follow: none, a number of bytes a token, or that until a cap. */
static growth growth_of(sample *s, int32_t n) {
    qsort(s, (size_t)n, sizeof *s, by_keys);
    growth g = {s[0].bytes, 0, -1, true};
    if (follows(s, n, &g)) {
        g.known = n > 1 && s[0].keys < s[n - 1].keys;
        return g;
    }
    g = (growth){0, s[0].keys > 0 ? s[0].bytes / s[0].keys : 0, -1, true};
    if (follows(s, n, &g)) return g;
    if (g.slope > 0) {
        g.cap = s[n - 1].bytes / g.slope;
        if (follows(s, n, &g)) return g;
    }
    int32_t k = 1;
    while (k < n && s[k].keys == s[0].keys) k++;
    g = (growth){.cap = -1};
    if (k == n) return g;
    g.slope = (s[k].bytes - s[0].bytes) / (s[k].keys - s[0].keys);
    g.fixed = s[0].bytes - g.slope * s[0].keys;
    g.known = g.slope > 0 && g.fixed >= 0 && follows(s, n, &g);
    return g;
}

static int64_t bytes_of(const lmi_token_run *r, const lmi_token_held *h, int32_t i) {
    const lmi_token_entry *entry = lmi_vec_at(&r->entries, (size_t)(h->first + i));
    int64_t bytes = lmi_stored(entry->numel, lam_dtype_bits(entry->dtype));
    return entry->shared || h->batch < 1 ? bytes : bytes / h->batch;
}

typedef struct growing {
    const lmi_token_run *run[2];
    sample *samples;
    lmi_vec pieces; /* lam_token_piece */
    lam_token_cache *out;
    int32_t entries; /* of each call */
    int64_t largest;
} growing;

static bool usable(const lmi_token_held *h) { return h->n > 0 && h->keys > 0; }

/* The calls of all runs whose cache is known; false if they don't keep equally many tensors. */
static bool alike(growing *g, int32_t *n) {
    g->entries = -1;
    *n = 0;
    for (int i = 0; i < 2; i++) {
        for (size_t k = 0; g->run[i] && k < g->run[i]->held.n; k++) {
            const lmi_token_held *h = lmi_vec_at(&g->run[i]->held, k);
            if (!usable(h)) continue;
            if (g->entries >= 0 && h->n != g->entries) return false;
            g->entries = h->n;
            if (h->keys > g->out->tried) g->out->tried = h->keys;
            ++*n;
        }
    }
    return *n > 0;
}

static int32_t sample_entry(const growing *g, int32_t entry) {
    int32_t n = 0;
    for (int i = 0; i < 2; i++)
        for (size_t k = 0; g->run[i] && k < g->run[i]->held.n; k++) {
            const lmi_token_held *h = lmi_vec_at(&g->run[i]->held, k);
            if (usable(h)) g->samples[n++] = (sample){h->keys, bytes_of(g->run[i], h, entry)};
        }
    return n;
}

static lam_status add_piece(growing *g, int64_t slope, int64_t cap, lam_error *e) {
    for (size_t i = 0; i < g->pieces.n; i++) {
        lam_token_piece *p = lmi_vec_at(&g->pieces, i);
        if (p->cap != cap) continue;
        p->bytes += slope;
        p->tensors++;
        return LAM_OK;
    }
    const lam_token_piece piece = {slope, cap, 1};
    return lmi_vec_put(&g->pieces, &piece, e);
}

static lam_status add_entry(growing *g, int32_t i, lam_error *e) {
    const lmi_token_run *r = g->run[0];
    const lmi_token_held *last = NULL;
    for (size_t k = 0; k < r->held.n; k++) {
        const lmi_token_held *h = lmi_vec_at(&r->held, k);
        if (usable(h)) last = h;
    }
    if (!last) return LAM_OK;
    const lmi_token_entry *entry = lmi_vec_at(&r->entries, (size_t)(last->first + i));
    const growth w = growth_of(g->samples, sample_entry(g, i));
    if (!w.known) g->out->gap = "its tensors were seen at too few lengths, or do not grow by the token";
    if (entry->shared)
        g->out->shared += w.fixed;
    else
        g->out->fixed += w.fixed;
    if (bytes_of(r, last, i) > g->largest) {
        g->largest = bytes_of(r, last, i);
        g->out->dtype = entry->dtype;
    }
    return w.slope > 0 ? add_piece(g, w.slope, w.cap, e) : LAM_OK;
}

static int by_cap(const void *a, const void *b) {
    const lam_token_piece *x = a, *y = b;
    uint64_t p = (uint64_t)x->cap, q = (uint64_t)y->cap; /* no cap is the largest */
    return (p > q) - (p < q);
}

static bool keeps(const lmi_token_run *r) {
    for (size_t k = 0; k < r->held.n; k++)
        if (((const lmi_token_held *)lmi_vec_at(&r->held, k))->n > 0) return true;
    return false;
}

static lam_status grow(growing *g, lmi_arena *to, lam_error *e) {
    int32_t n;
    if (!alike(g, &n)) {
        for (size_t k = 0; k < g->run[0]->calls.n; k++)
            if (lmi_token_at(g->run[0], (int32_t)k)->carries)
                g->out->gap = "the model keeps it in tensors that are no buffers, and returns none";
        if (g->entries >= 0)
            g->out->gap = "its calls keep different numbers of tensors";
        else if (keeps(g->run[0]))
            g->out->gap = "how many tokens its calls see is not known";
        g->out->seen = g->entries > 0 || keeps(g->run[0]);
        return LAM_OK;
    }
    g->out->seen = true;
    g->samples = calloc((size_t)n, sizeof *g->samples);
    if (!g->samples) return lmi_nomem(e);
    for (int32_t i = 0; i < g->entries; i++) LAM_TRY(add_entry(g, i, e));
    if (g->pieces.n) qsort(g->pieces.data, g->pieces.n, sizeof(lam_token_piece), by_cap);
    g->out->pieces = lmi_copy(to, g->pieces.data, g->pieces.n, sizeof(lam_token_piece));
    g->out->n_pieces = (int32_t)g->pieces.n;
    if (!g->out->gap && g->pieces.n && !g->run[1]) g->out->gap = lmi_token_no_longer;
    return g->out->pieces || !g->pieces.n ? LAM_OK : lmi_nomem(e);
}

lam_status lmi_token_growth(const lmi_token_run *r, const lmi_token_run *other, lmi_arena *to,
                            lam_token_cache *out, lam_error *e) {
    growing g = {.run = {r, other}, .out = out};
    *out = (lam_token_cache){.dtype = -1, .storage = lmi_unknown()};
    lmi_vec_init(&g.pieces, sizeof(lam_token_piece));
    lam_status s = grow(&g, to, e);
    lmi_vec_free(&g.pieces);
    free(g.samples);
    return s;
}
