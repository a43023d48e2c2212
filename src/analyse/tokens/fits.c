/* SPDX-License-Identifier: Apache-2.0
 *
 * What fits into a memory beside the weights: caches of sequences of some length, and how much less with what
 * calls take beside them. */
#include "analyse/tokens/tokens.h"

static const int64_t END = INT64_C(1) << 40; /* tokens beyond which a cache that still fits has no end */

/* Bytes of one sequence's own cache; as a wide number, which can't overflow: bytes and tokens are of 63 bits.
 */
static lmi_int128 sequence(const lam_token_cache *c, int64_t tokens) {
    lmi_int128 sum = c->fixed;
    for (int32_t i = 0; i < c->n_pieces; i++) {
        const lam_token_piece *p = &c->pieces[i];
        sum += (lmi_int128)p->bytes * (p->cap >= 0 && tokens > p->cap ? p->cap : tokens);
    }
    return sum;
}

/* True if the growth is known up to so many tokens. */
static bool known_to(const lam_tokens *t, int64_t tokens) {
    if (!t->cache.gap) return true;
    return t->cache.gap == lmi_token_no_longer && tokens <= t->cache.tried;
}

lam_count lam_tokens_cache_at(const lam_tokens *t, int64_t tokens, int64_t batch) {
    if (tokens < 0 || batch < 1 || (!t->cache.seen && !t->cacheless)) return lmi_unknown();
    lam_count n = lmi_of_wide(sequence(&t->cache, tokens) * batch + (t->cache.seen ? t->cache.shared : 0));
    if (known_to(t, tokens)) return n;
    return t->cache.gap == lmi_token_no_longer ? lmi_unknown() : lmi_at_least(n.n);
}

/* Bytes that are left for caches; false: not known. */
static bool room(const lam_tokens *t, lmi_int128 memory, lmi_int128 *out) {
    *out = memory - t->weights - t->cache.shared;
    const bool grows = !t->cache.gap || t->cache.gap == lmi_token_no_longer;
    return t->weights >= 0 && grows && (t->cache.seen || t->cacheless);
}

/* As lam_tokens_context, if each sequence takes `more` bytes besides. */
static int64_t context_with(const lam_tokens *t, int64_t memory, int64_t batch, int64_t more) {
    lmi_int128 left;
    if (batch < 1 || !room(t, memory - (lmi_int128)more * batch, &left)) return -1;
    if (sequence(&t->cache, 1) * batch > left) return 0;
    if (sequence(&t->cache, END) * batch <= left) return INT64_MAX;
    int64_t low = 1, high = END; /* low fits, high does not */
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (sequence(&t->cache, middle) * batch <= left)
            low = middle;
        else
            high = middle;
    }
    return known_to(t, low) ? low : -1;
}

/* As lam_tokens_batch, if each sequence takes `more` bytes besides. */
static int64_t batch_with(const lam_tokens *t, int64_t memory, int64_t tokens, int64_t more) {
    lmi_int128 left, each;
    if (tokens < 1 || !known_to(t, tokens) || !room(t, memory, &left)) return -1;
    each = sequence(&t->cache, tokens) + more;
    if (left < each || left < 0) return 0;
    if (each == 0) return INT64_MAX;
    const lmi_int128 n = left / each;
    return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

int64_t lam_tokens_context(const lam_tokens *t, int64_t memory, int64_t batch) {
    return context_with(t, memory, batch, 0);
}

int64_t lam_tokens_batch(const lam_tokens *t, int64_t memory, int64_t tokens) {
    return batch_with(t, memory, tokens, 0);
}

lam_token_capacity lam_tokens_capacity(const lam_tokens *t, int64_t memory) {
    lam_token_capacity x = {.memory = memory, .context = lam_tokens_context(t, memory, 1)};
    x.tokens = t->prompt > 0 && t->fresh > 0 ? t->prompt + t->fresh - 1 : t->cache.tried;
    x.batch = lam_tokens_batch(t, memory, x.tokens);
    for (int s = 0; s < LAM_N_STAGES; s++) {
        const lam_count taken = t->stage[s].activations;
        x.context_less[s] = x.batch_less[s] = -1;
        if (taken.state == LAM_UNKNOWN || t->batch < 1) continue;
        const int64_t each = taken.n / t->batch + (taken.n % t->batch != 0);
        const int64_t context = context_with(t, memory, 1, each),
                      batch = batch_with(t, memory, x.tokens, each);
        if (x.context >= 0 && x.context < INT64_MAX && context >= 0) x.context_less[s] = x.context - context;
        if (x.batch >= 0 && x.batch < INT64_MAX && batch >= 0) x.batch_less[s] = x.batch - batch;
    }
    return x;
}
