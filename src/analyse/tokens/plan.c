/* SPDX-License-Identifier: Apache-2.0
 *
 * The runs of a language model that its costs need, and the sequences that it generates in each. */
#include "analyse/tokens/tokens.h"

#include <string.h>

enum { MOST_STEPS = 4 }; /* as many are run, or else these: the first, the second, the middle and the last */
/* Tokens at which it is looked whether a cache still grows: of so many a dry run knows the ids. */
enum { LONGEST = 65536 };
enum { MOST_OPS = 1 << 17 }; /* of a prompt of that length, or four times as many as the run had */

static const char SAMPLE[] = "sample", EVERY[] = "every", FIRST[] = "first";
static const char LENGTHS[] = "lengths", OWN[] = "own";

/* True if a step between those that ran is not known to be on their line. */
static bool lacks_steps(const lam_tokens *t) {
    for (int32_t i = 0; t && t->bent && i < t->n_steps; i++)
        if (t->steps[i].event < 0) return true;
    return false;
}

/* No prompt of other lengths was followed: as of a model that refuses more tokens than it is made for. */
static bool lacks_lengths(const lam_tokens *t) { return t && t->cache.gap == lmi_token_no_longer; }

bool lam_tokens_next(lam_token_run *out, int32_t made, const lam_tokens *t, const lam_token_plan *plan) {
    if (made > 0 && !plan->memory) made++;
    const bool sample = plan->dry && !plan->time;
    const lam_token_run every = {LAM_RUN_STEPS, EVERY, .dry = plan->dry, .time = plan->time, .tells = true};
    switch (made) {
    case 0:
        *out = (lam_token_run){LAM_RUN_STEPS, sample ? SAMPLE : EVERY, .dry = plan->dry, .time = plan->time};
        return true;
    case 1: *out = (lam_token_run){LAM_RUN_MEMORY, FIRST, .dry = true, .follow = true}; return true;
    case 2: *out = (lam_token_run){LAM_RUN_LENGTHS, LENGTHS, .dry = true, .tells = true}; return true;
    case 3:
        *out = (lam_token_run){LAM_RUN_LENGTHS, OWN, .dry = true, .tells = true};
        if (lacks_lengths(t)) return true;
        *out = every;
        return lacks_steps(t);
    case 4: *out = every; return lacks_steps(t);
    default: return false;
    }
}

/* A sequence whose first step is the `step`-th of one with that prompt: a step that sees n tokens costs the
 * same after a prefill of n - 1 tokens as after a shorter one and further steps. */
static lam_token_sequence from_step(int64_t prompt, int64_t step, bool encoder) {
    return encoder ? (lam_token_sequence){prompt, 2, step} : (lam_token_sequence){prompt + step - 1, 2, 0};
}

int32_t lam_tokens_sequences(lam_token_sequence out[LAM_TOKEN_SEQUENCES], const char *which, int64_t prompt,
                             int64_t fresh, const lam_token_limits *of) {
    if (strcmp(which, LENGTHS) == 0 || strcmp(which, OWN) == 0) {
        const int64_t limits[] = {of->table, of->longest, strcmp(which, OWN) == 0 ? of->own : 0};
        int64_t ends[] = {2, LONGEST};
        for (int i = 0; i < 3; i++)
            if (limits[i] > 0 && limits[i] < ends[1]) ends[1] = limits[i];
        for (int i = 0; i < 2; i++)
            out[i] =
                of->encoder ? (lam_token_sequence){prompt, 1, ends[i]} : (lam_token_sequence){ends[i], 1, 0};
        return 2;
    }
    out[0] = (lam_token_sequence){prompt, fresh, 0};
    if (strcmp(which, FIRST) == 0 && fresh > 2) out[0].fresh = 2;
    if (strcmp(which, FIRST) == 0) return 1;
    if (strcmp(which, EVERY) == 0 || fresh - 1 <= MOST_STEPS) return 1;
    out[0].fresh = 3; /* the prefill and two steps */
    out[1] = from_step(prompt, fresh / 2, of->encoder);
    out[2] = from_step(prompt, fresh - 1, of->encoder);
    return 3;
}

/* The length at which the operators of a prompt are as many as are followed: by those of the first call, and
 * of a later one of fewer tokens. */
static int64_t longest_of(const lmi_token_run *r) {
    const lmi_token_call *first = lmi_token_at(r, 0), *last = lmi_token_at(r, (int32_t)r->calls.n - 1);
    const int64_t tokens = first->fresh - last->fresh, many = r->ops.start[1] - r->ops.start[0];
    const int32_t end = (int32_t)r->calls.n;
    const int64_t more = many - (r->ops.start[end] - r->ops.start[end - 1]);
    if (first->fresh < 1 || last->fresh < 1 || tokens < 1 || more < 1) return 0;
    const int64_t reached = MOST_OPS / more * tokens + MOST_OPS % more * tokens / more;
    const int64_t least = last->keys > 0 ? 4 * last->keys : 4 * first->fresh;
    return reached >= LONGEST ? 0 : reached > least ? reached : least;
}

int64_t lam_tokens_longest(lam_costs *c, const char *path) {
    lam_error e = {.at = -1};
    lmi_arena arena;
    lmi_token_run r = {.c = c, .m = c->model, .arena = &arena};
    lmi_arena_init(&arena, UINT64_MAX);
    lmi_vec_init(&r.calls, sizeof(lmi_token_call));
    const bool found = lam_costs_settle(c, &e) == LAM_OK && lmi_token_calls(&r, path, &e) == LAM_OK;
    const int64_t longest = found ? longest_of(&r) : 0;
    lmi_vec_free(&r.calls);
    lmi_arena_free(&arena);
    return longest;
}
