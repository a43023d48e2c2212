/* SPDX-License-Identifier: Apache-2.0
 *
 * What a call takes at its peak beside the weights and the cache: activations and the workspace of operators.
 * A dry run recorded how long each tensor's memory was held. The cache that the call leaves is not among
 * them, and what it held twice meanwhile is. */
#include "analyse/tokens/tokens.h"

#include <stdlib.h>

static const char UNSEEN[] = "which of the memory is a cache was not seen";
static const char ELSEWHERE[] = "its cache is not among the memory that was followed";

/* Bytes in use while each operator runs, without weights and inputs; to be freed. lam_fit_new() found that no
 * sum of them overflows. */
static int64_t *in_use(const lam_model *m) {
    int64_t *out = calloc((size_t)m->n_ops + 2, sizeof *out); /* changes first; the operator plus one */
    for (int32_t i = 0; out && i < m->n_lifetimes; i++) {
        const lam_lifetime *l = &m->lifetimes[i];
        out[l->made + 1] += l->bytes;
        if (l->freed >= 0) out[l->freed + 2] -= l->bytes;
    }
    for (int32_t i = 1; out && i <= m->n_ops; i++) out[i] += out[i - 1];
    return out;
}

/* Bytes of the cache that call `k` leaves in memory that was followed, which buffers are not in; -1: it is
 * not known what is a cache. */
static int64_t left_by(const lmi_token_run *r, int32_t k, bool cacheless) {
    const lmi_token_held *held = lmi_vec_at(&r->held, (size_t)k);
    int64_t bytes = 0;
    if (cacheless) return 0;
    for (int32_t i = 0; i < held->results; i++) {
        const lmi_token_entry *entry = lmi_vec_at(&r->entries, (size_t)(held->first + i));
        bytes += lmi_stored(entry->numel, lam_dtype_bits(entry->dtype));
    }
    return held->n < 0 ? -1 : bytes;
}

static void add_call(const lmi_token_run *r, int32_t k, const int64_t *use, lam_state state, lam_tokens *t) {
    const lmi_token_call *call = lmi_token_at(r, k);
    const bool again = t->cacheless && call->keys > lmi_token_at(r, 0)->keys; /* a step over all tokens */
    lam_token_stage *stage = &t->stage[lmi_token_prefills(r, k) && !again ? LAM_PREFILL : LAM_DECODE];
    int64_t most = 0, left = left_by(r, k, t->cacheless);
    for (int32_t i = r->ops.start[k]; i < r->ops.start[k + 1]; i++)
        if (use[r->ops.order[i] + 1] > most) most = use[r->ops.order[i] + 1];
    if (left < 0 || most < left) {
        t->why_activations = left < 0 ? UNSEEN : ELSEWHERE;
        return;
    }
    if (stage->activations.state != LAM_UNKNOWN && stage->activations.n >= most - left) return;
    stage->activations = (lam_count){most - left, 0, state};
    stage->followed_keys = call->keys;
}

static lam_status keep(lmi_arena *to, const char *text, const char **out, lam_error *e) {
    if (text) *out = lmi_strdup(to, text);
    return text && !*out ? lmi_nomem(e) : LAM_OK;
}

lam_status lmi_token_space(const lmi_token_run *r, lam_tokens *t, lmi_arena *to, lam_error *e) {
    lam_fit *fit = NULL;
    LAM_TRY(lam_fit_new(&fit, r->m, e));
    lam_status s = keep(to, fit->gap, &t->why_activations, e);
    if (s == LAM_OK) s = keep(to, fit->rough, &t->rough_activations, e);
    const lam_state state = fit->gap ? LAM_AT_LEAST : LAM_EXACT;
    lam_fit_free(fit);
    int64_t *use = s == LAM_OK ? in_use(r->m) : NULL;
    if (s == LAM_OK && !use) s = lmi_nomem(e);
    for (int32_t k = 0; s == LAM_OK && k < (int32_t)r->calls.n; k++) add_call(r, k, use, state, t);
    free(use);
    return s;
}
