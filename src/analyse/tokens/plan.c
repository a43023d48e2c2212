/* SPDX-License-Identifier: Apache-2.0
 *
 * The runs of a language model that its costs need, and the sequences that it generates in each. */
#include "analyse/tokens/tokens.h"

#include <string.h>

enum { MOST_STEPS = 4 }; /* as many are run, or else these: the first, the second, the middle and the last */
/* Tokens at which it is looked whether a cache still grows: of so many a dry run knows the ids. */
enum { LONGEST = 65536 };

static const char SAMPLE[] = "sample", EVERY[] = "every", LENGTHS[] = "lengths", FIRST[] = "first";

bool lam_tokens_next(lam_token_run *out, int32_t made, const lam_tokens *t, const lam_token_plan *plan) {
    if (made > 0 && !plan->memory) made++;
    const bool sample = plan->dry && !plan->time;
    switch (made) {
    case 0:
        *out = (lam_token_run){LAM_RUN_STEPS, sample ? SAMPLE : EVERY, .dry = plan->dry, .time = plan->time};
        return true;
    case 1: *out = (lam_token_run){LAM_RUN_MEMORY, FIRST, .dry = true, .follow = true}; return true;
    case 2: *out = (lam_token_run){LAM_RUN_LENGTHS, LENGTHS, .dry = true, .tells = true}; return true;
    case 3:
        *out = (lam_token_run){LAM_RUN_STEPS, EVERY, .dry = plan->dry, .time = plan->time, .tells = true};
        return t && t->bent;
    default: return false;
    }
}

/* A sequence whose first step is the `step`-th of one with that prompt: a step that sees n tokens costs the
 * same after a prefill of n - 1 tokens as after a shorter one and further steps. */
static lam_token_sequence from_step(int64_t prompt, int64_t step, bool encoder) {
    return encoder ? (lam_token_sequence){prompt, 2, step} : (lam_token_sequence){prompt + step - 1, 2, 0};
}

int32_t lam_tokens_sequences(lam_token_sequence out[LAM_TOKEN_SEQUENCES], const char *which, int64_t prompt,
                             int64_t fresh, bool encoder, int64_t limit) {
    if (strcmp(which, LENGTHS) == 0) {
        const int64_t ends[] = {2, limit > 0 && limit < LONGEST ? limit : LONGEST};
        for (int i = 0; i < 2; i++)
            out[i] = encoder ? (lam_token_sequence){prompt, 1, ends[i]} : (lam_token_sequence){ends[i], 1, 0};
        return 2;
    }
    out[0] = (lam_token_sequence){prompt, fresh, 0};
    if (strcmp(which, FIRST) == 0 && fresh > 2) out[0].fresh = 2;
    if (strcmp(which, FIRST) == 0) return 1;
    if (strcmp(which, EVERY) == 0 || fresh - 1 <= MOST_STEPS) return 1;
    out[0].fresh = 3; /* the prefill and two steps */
    out[1] = from_step(prompt, fresh / 2, encoder);
    out[2] = from_step(prompt, fresh - 1, encoder);
    return 3;
}
