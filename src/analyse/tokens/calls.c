/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls of a language model: which of them belong to one sequence of tokens, and how many tokens each was
 * given. A call is given whole numbers that a table reads, and may be given tensors that the call before it
 * gave: its cache. */
#include "analyse/tokens/tokens.h"

#include <stdlib.h>

/* -- the ids that a call is given ---------------------------------------------------------------------- */

static bool is_whole(int32_t dtype) {
    enum { INT32 = 3, INT64 = 4 };
    return dtype == INT32 || dtype == INT64;
}

static bool same_shape(int32_t ndim, const int64_t *a, int32_t other, const int64_t *b) {
    return ndim == other && (ndim <= 0 || memcmp(a, b, (size_t)ndim * sizeof *a) == 0);
}

/* True if an operator of call `k` looks rows up by a tensor of this shape and type. */
static bool is_looked_up(const lmi_token_run *r, int32_t k, const lam_arg *a) {
    for (int32_t i = r->ops.start[k]; i < r->ops.start[k + 1]; i++) {
        const lam_op *o = &r->m->ops[r->ops.order[i]];
        lmi_slots slots;
        if (lmi_op_kind(o->sig->word) != LMI_K_embedding) continue;
        lmi_bind_op(o->sig, &slots);
        const lam_op_arg *index = slots.at[LMI_S_index].tensor;
        if (index && is_whole(index->dtype) && same_shape(a->ndim, a->sizes, index->ndim, index->sizes))
            return true;
    }
    return false;
}

/* Of several tensors of whole numbers the tokens are those that are named so; positions, types and masks are
 * none. Of two names of tokens the decoder's are the new ones. */
int lmi_token_rank(const lam_arg *a) {
    if (!is_whole(a->dtype) || a->ndim < 1 || a->ndim > 2) return 0;
    if (!a->name) return 1;
    if (strcmp(a->name, "decoder_input_ids") == 0) return 4;
    if (strcmp(a->name, "input_ids") == 0) return 3;
    static const char *const others[] = {"position", "mask", "type", "labels"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strstr(a->name, others[i])) return 0;
    return 2;
}

static void find_ids(const lmi_token_run *r, int32_t k, lmi_token_call *call) {
    const lam_event *ev = &r->m->events[call->event];
    int best = 0;
    call->batch = call->fresh = call->source = -1;
    for (int32_t i = 0; i < ev->n_in; i++) {
        const lam_arg *a = &ev->in[i];
        int rank = lmi_token_rank(a);
        if (rank == 0 || !is_looked_up(r, k, a)) continue;
        if (rank == 4 && best == 3) call->source = call->fresh;
        if (rank == 3 && best == 4) call->source = a->sizes[a->ndim - 1];
        if (rank <= best) continue;
        best = rank;
        call->batch = a->ndim == 2 ? a->sizes[0] : 1;
        call->fresh = a->sizes[a->ndim - 1];
        call->ids = lmi_token_memory(a);
    }
}

/* -- what one call gives to the next ------------------------------------------------------------------- */

/* True for the same tensor: memory alone may have been freed and given to another. */
bool lmi_token_same(const lam_arg *a, const lam_arg *b) {
    return lmi_token_memory(a) && lmi_token_memory(a) == lmi_token_memory(b) && a->dtype == b->dtype &&
           same_shape(a->ndim, a->sizes, b->ndim, b->sizes);
}

bool *lmi_token_read(const lmi_token_run *r, int32_t k) {
    const lam_model *m = r->m;
    bool *out = calloc((size_t)(m->n_ops ? m->n_ops : 1), sizeof *out);
    for (int32_t i = r->ops.start[k]; out && i < r->ops.start[k + 1]; i++) {
        const int32_t op = r->ops.order[i];
        for (int32_t in = 0; in < m->ops[op].sig->n_in; in++) {
            int32_t from = m->ops[op].sig->in[in].is_tensor ? lam_model_source(m, op, in) : -1;
            if (from >= 0) out[from] = true;
        }
    }
    return out;
}

/* True if the event was given what the one before it gave as its result `j`. */
static bool gives(const lam_event *before, int32_t j, const lam_event *now) {
    for (int32_t i = 0; i < now->n_in; i++)
        if (!is_whole(now->in[i].dtype) && lmi_token_same(&now->in[i], &before->out[j])) return true;
    return false;
}

/* Sets `out` if call `k` was given a tensor that the call before it gave, other than token ids, and read it.
 * A tensor that was made anew, as by an encoder for another sequence, may be at the same address. */
static lam_status is_given(const lmi_token_run *r, int32_t k, bool *out, lam_error *e) {
    const int32_t event = lmi_token_at(r, k - 1)->event;
    const lam_event *before = &r->m->events[event], *now = &r->m->events[lmi_token_at(r, k)->event];
    bool *read = NULL;
    *out = false;
    for (int32_t j = 0; j < before->n_out && !*out; j++) {
        if (!gives(before, j, now)) continue;
        const int32_t from = lam_model_call_output_source(r->m, event, j);
        if (from >= 0 && !read && !(read = lmi_token_read(r, k))) return lmi_nomem(e);
        *out = from < 0 || read[from];
    }
    free(read);
    return LAM_OK;
}

/* -- the calls ------------------------------------------------------------------------------------------- */

static bool is_within(const lmi_token_run *r, int32_t event) {
    for (int32_t up = r->m->events[event].parent; up >= 0; up = r->m->events[up].parent)
        if (r->m->events[up].module == r->module) return true;
    return false;
}

static lam_status list_calls(lmi_token_run *r, lam_error *e) {
    for (int32_t i = 0; i < r->m->n_events; i++) {
        const lam_event *ev = &r->m->events[i];
        if (ev->module != r->module || ev->flags & LAM_CALL_AGAIN || is_within(r, i)) continue;
        lmi_token_call call = {.event = i, .failed = ev->flags & LAM_CALL_FAILED};
        LAM_TRY(lmi_vec_put(&r->calls, &call, e));
    }
    return LAM_OK;
}

/* True for a call around one of the language model's, as of a module that generates. */
static bool *around(const lmi_token_run *r) {
    bool *out = lmi_alloc(r->arena, (uint64_t)r->m->n_events, sizeof *out);
    for (size_t k = 0; out && k < r->calls.n; k++)
        for (int32_t up = r->m->events[lmi_token_at(r, (int32_t)k)->event].parent; up >= 0;
             up = r->m->events[up].parent)
            out[up] = true;
    return out;
}

const char *lam_stage_name(lam_stage s) { return s == LAM_PREFILL ? "prefill" : "decode"; }

/* What the user said of calls, by provenance: "0 prefill, 3 decode, 7 -" says that calls from number 0 are of
 * prefill, those from 3 of decode, and that the user said nothing of those from 7. */
static void say_stages(lmi_token_run *r) {
    const char *at = lam_model_told(r->m, "stages");
    lam_stage said = LAM_N_STAGES;
    for (size_t k = 0; k < r->calls.n; k++) {
        lmi_token_call *call = lmi_token_at(r, (int32_t)k);
        while (at && *at) {
            char *name = NULL;
            if (strtoll(at, &name, 10) > call->event) break;
            while (*name == ' ') name++;
            const size_t n = strcspn(name, ",");
            said = LAM_N_STAGES;
            for (int s = 0; s < LAM_N_STAGES; s++)
                if (strlen(lam_stage_name((lam_stage)s)) == n &&
                    strncmp(name, lam_stage_name((lam_stage)s), n) == 0)
                    said = (lam_stage)s;
            at = name + n + strspn(name + n, ", ");
        }
        call->said = said;
    }
}

static bool any_given(const lmi_token_run *r) {
    for (size_t k = 0; k < r->calls.n; k++)
        if (lmi_token_at(r, (int32_t)k)->given) return true;
    return false;
}

/* Tokens of a sequence after call `k`. A decode step to which no cache is seen to be given has one out of
 * sight, and how long that is is not known; or, if no call of the run has one, it is given all tokens so far
 * again: so it is with one token more. */
static int64_t keys_after(lmi_token_run *r, int32_t k, bool caches) {
    lmi_token_call *call = lmi_token_at(r, k), *before = k ? call - 1 : NULL;
    const int64_t past = before && call->given ? before->keys : 0;
    if (call->said == LAM_DECODE && !call->given) {
        const bool longer = before && call->batch == before->batch && call->fresh > before->keys;
        if (caches || !longer || before->keys < 0) return -1;
        call->again = call->fresh == before->keys + 1 ? before->keys : -1;
        if (call->again < 0) return -1;
    }
    return past < 0 || call->fresh < 0 ? -1 : past + call->fresh;
}

/* A call inside one of the model's belongs to it. Another, such as of its encoder by a function that
 * generates, belongs to the next one. */
static lam_status assign(lmi_token_run *r, lam_error *e) {
    const lam_model *m = r->m;
    const int32_t n = (int32_t)r->calls.n;
    r->call_of = lmi_alloc_none(r->arena, m->n_events);
    int32_t *keys = lmi_alloc_none(r->arena, m->n_ops);
    const bool *holds = around(r);
    if (!r->call_of || !keys || !holds) return lmi_nomem(e);
    for (int32_t i = 0, next = 0; i < m->n_events; i++) {
        const int32_t up = m->events[i].parent;
        if (next < n && lmi_token_at(r, next)->event == i)
            r->call_of[i] = next++;
        else if (up >= 0 && r->call_of[up] >= 0)
            r->call_of[i] = r->call_of[up];
        else if (!holds[i] && next < n)
            r->call_of[i] = next;
    }
    for (int32_t i = 0; i < m->n_ops; i++)
        if (m->ops[i].call >= 0 && m->ops[i].phase == LAM_FORWARD) keys[i] = r->call_of[m->ops[i].call];
    return lmi_group_by(r->arena, keys, m->n_ops, n, &r->ops) ? LAM_OK : lmi_nomem(e);
}

/* Sets what a call is given of what the call before it left. A cache in the model is given to each call:
 * whether that begins a prompt its length tells, or the user. */
static lam_status find_given(const lmi_token_run *r, int32_t k, lam_error *e) {
    lmi_token_call *call = lmi_token_at(r, k), *before = k ? call - 1 : NULL;
    if (before) LAM_TRY(is_given(r, k, &call->given, e));
    if (!before || call->given || (call->fresh != 1 && call->said == LAM_N_STAGES)) return LAM_OK;
    const bool may = call->fresh == 1 && (before->fresh > 1 || before->carries) && !call->stores;
    call->carries = may && lmi_token_carries(r, k);
    call->given = call->carries || (call->stores && before->stores);
    return LAM_OK;
}

/* True if a call was given whole numbers that may be tokens, whether a table read them or not. */
static bool gets_whole(const lmi_token_run *r) {
    for (size_t k = 0; k < r->calls.n; k++) {
        const lam_event *ev = &r->m->events[lmi_token_at(r, (int32_t)k)->event];
        for (int32_t i = 0; i < ev->n_in; i++)
            if (lmi_token_rank(&ev->in[i]) > 0) return true;
    }
    return false;
}

lam_status lmi_token_calls(lmi_token_run *r, const char *path, lam_error *e) {
    LAM_TRY(lmi_model_index(r->m, e));
    const int32_t place = lam_model_find(r->m, path ? path : "");
    bool any = false;
    if (place < 0) return lmi_fail(e, LAM_USAGE, "tokens", "the model has no layer '%s'", path);
    r->module = r->m->places[place].module;
    LAM_TRY(list_calls(r, e));
    LAM_TRY(assign(r, e));
    const int32_t n = (int32_t)r->calls.n;
    for (int32_t k = 0; k < n; k++) {
        find_ids(r, k, lmi_token_at(r, k));
        any = any || lmi_token_at(r, k)->fresh >= 0;
    }
    if (!any)
        return lmi_fail(e, LAM_USAGE, "tokens",
                        n == 0 ? "the language model was not called"
                        : gets_whole(r)
                            ? "no call of the model was given whole numbers that a table reads as "
                              "they are, so how many tokens a call has is not known"
                            : "it is no language model: no call of it was given whole numbers");
    say_stages(r);
    LAM_TRY(lmi_token_stores(r, e));
    for (int32_t k = 0, sequence = -1; k < n; k++) {
        lmi_token_call *call = lmi_token_at(r, k);
        LAM_TRY(find_given(r, k, e));
        if (!call->given && (k == 0 || call->said != LAM_DECODE)) sequence++;
        call->sequence = sequence;
    }
    const bool caches = any_given(r);
    for (int32_t k = 0; k < n; k++) lmi_token_at(r, k)->keys = keys_after(r, k, caches);
    return LAM_OK;
}

/* True if each call that goes on from call `k` is given one token, and there are two or more. The last of
 * several steps of more tokens, as of a draft that is checked, may be given a single one. */
static bool singles_follow(const lmi_token_run *r, int32_t k) {
    int32_t n = 0;
    for (int32_t i = k + 1; i < (int32_t)r->calls.n && lmi_token_at(r, i)->given; i++, n++)
        if (lmi_token_at(r, i)->fresh != 1) return false;
    return n > 1;
}

bool lmi_token_prefills(const lmi_token_run *r, int32_t k) {
    const lmi_token_call *call = lmi_token_at(r, k), *first = call;
    if (call->said != LAM_N_STAGES) return call->said == LAM_PREFILL;
    if (!call->given) return true;
    while (first->given) first--;
    if (first->said == LAM_DECODE) return false;
    /* A prompt in chunks: calls of the first one's size, and what is left after them. */
    if (first->fresh <= 1 || call->fresh <= 1 || call->fresh > first->fresh) return false;
    for (const lmi_token_call *at = first + 1; at < call; at++)
        if (at->fresh != first->fresh || at->said == LAM_DECODE) return false;
    return call->fresh == first->fresh || call > first + 1 || singles_follow(r, k);
}
