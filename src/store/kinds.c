/* SPDX-License-Identifier: Apache-2.0
 *
 * Separates the steps of a model by their kinds, since unlike steps are not summed up together. A kind is the
 * mode, whether torch made graphs, whether compiled code ran, the number of calls, and whether a backward
 * pass was seen. */
#include "store/read.h"

#include <stdlib.h>

/* Steps that differ only in the number of their calls make up to this many kinds, one for each number. With
 * more numbers, as where each call is a word of a sentence, there are two kinds: one call, and several. */
enum { NUMBERS = 3 };

/* Steps that differ at most in the number of calls. The kinds are reported in the order of in_order(). */
typedef struct base {
    int64_t training, gradients, compiled;
    int64_t calls[NUMBERS];
    int32_t n_calls; /* above NUMBERS: too many to be separate kinds */
    bool went_back;
} base;
enum { MOST_BASES = 2 * 3 * 3 * 2 };

static bool is_like(const base *b, const lmi_step *s) {
    return b->training == s->training && b->gradients == s->gradients;
}

/* The index of the step's base; `n` if there is none. */
static int32_t base_of(const base *of, int32_t n, const lmi_step *s) {
    for (int32_t k = 0; k < n; k++)
        if (is_like(&of[k], s) && of[k].compiled == s->compiled && of[k].went_back == (s->backward >= 0))
            return k;
    for (int32_t k = 0; k < n && !lmi_speaks(s); k++)
        if (is_like(&of[k], s)) return k;
    return n;
}

static void add_calls(base *b, int64_t calls) {
    for (int32_t i = 0; i < b->n_calls && i < NUMBERS; i++)
        if (b->calls[i] == calls) return;
    if (b->n_calls < NUMBERS) b->calls[b->n_calls] = calls;
    if (b->n_calls <= NUMBERS) b->n_calls++;
}

/* Steps that are not typical (lmi_speaks) are added to others of their mode, and make a base only if there
 * are none. */
static int32_t find_bases(const lmi_root *root, base of[MOST_BASES]) {
    int32_t n = 0;
    for (int pass = 0; pass < 3; pass++)
        for (int64_t i = 0; i < root->n_steps; i++) {
            const lmi_step *s = &root->steps[i];
            int32_t k = base_of(of, n, s);
            if (pass != (s->failed ? 2 : !lmi_speaks(s)) || (pass && k < n) || k == MOST_BASES) continue;
            if (k == n)
                of[n++] = (base){.training = s->training,
                                 .gradients = s->gradients,
                                 .compiled = s->compiled,
                                 .went_back = s->backward >= 0};
            add_calls(&of[k], s->calls);
        }
    return n;
}

static int in_order(const void *x, const void *y) {
    const base *a = x, *b = y;
    if (a->training != b->training) return a->training > b->training ? -1 : 1;
    if (a->gradients != b->gradients) return a->gradients > b->gradients ? -1 : 1;
    if (a->compiled != b->compiled) return a->compiled > b->compiled ? -1 : 1;
    return (int)b->went_back - (int)a->went_back;
}

/* The index of a step's kind among those of its base. */
static int32_t kind_in(const base *b, const lmi_step *s) {
    if (b->n_calls > NUMBERS) return s->calls != 1 && s->calls != 0; /* a rollup of several numbers has -1 */
    for (int32_t i = 0; i < b->n_calls; i++)
        if (b->calls[i] == s->calls) return i;
    return 0;
}

static int32_t kinds_of(const base *b) { return b->n_calls > NUMBERS ? 2 : b->n_calls; }

/* == one kind ========================================================================================== */

/* True if all steps of that mode have the same number of calls: then the time between calls gives the time
 * between steps. */
static bool is_uniform(const lmi_root *whole, const lmi_root *kind) {
    for (int64_t i = 0; i < whole->n_steps; i++) {
        const lmi_step *s = &whole->steps[i];
        bool same = (s->training == 1) == kind->info.training && s->gradients == kind->info.gradients;
        if (same && lmi_speaks(s) && s->calls != kind->info.least_calls) return false;
    }
    return kind->info.least_calls == kind->info.most_calls;
}

static void note_calls(lam_recorded_model *m, int64_t calls) {
    if (m->most_calls < calls) m->most_calls = calls;
    if (m->least_calls > calls || m->least_calls < 0) m->least_calls = calls;
}

static bool is_kind(const base *bases, int32_t n, int32_t k, int32_t nth, const lmi_step *s) {
    return base_of(bases, n, s) == k && kind_in(&bases[k], s) == nth;
}

static lam_status take_steps(lam_recording *r, const lmi_root *whole, const base *bases, int32_t n, int32_t k,
                             int32_t nth, lmi_root *out, lam_error *e) {
    int64_t steps = 0;
    for (int64_t i = 0; i < whole->n_steps; i++) steps += is_kind(bases, n, k, nth, &whole->steps[i]);
    out->n_steps = steps;
    if (steps == whole->n_steps) return LAM_OK; /* most models have steps of one kind */
    LAM_TRY(lmi_may_take(r, (uint64_t)steps * sizeof *out->steps, e));
    out->steps = lmi_alloc(&r->arena, (uint64_t)steps, sizeof *out->steps);
    if (!out->steps) return lmi_nomem(e);
    for (int64_t i = 0, to = 0; i < whole->n_steps; i++)
        if (is_kind(bases, n, k, nth, &whole->steps[i])) out->steps[to++] = whole->steps[i];
    return LAM_OK;
}

static lam_status take_rollups(lam_recording *r, const lmi_root *whole, const base *bases, int32_t n,
                               int32_t k, int32_t nth, lmi_root *out, lam_error *e) {
    LAM_TRY(lmi_may_take(r, (uint64_t)whole->n_rollups * sizeof *out->rollups, e));
    out->rollups = lmi_alloc(&r->arena, (uint64_t)whole->n_rollups, sizeof *out->rollups);
    if (!out->rollups) return lmi_nomem(e);
    out->n_rollups = 0;
    for (int64_t i = 0; i < whole->n_rollups; i++)
        if (is_kind(bases, n, k, nth, &whole->rollups[i].like))
            out->rollups[out->n_rollups++] = whole->rollups[i];
    return lmi_check_rollups(r, out, e);
}

/* Takes kind `nth` of base `k`. `*out` has no steps if the kind has none. `first`: no other kind has the
 * places of `whole` yet, so they are not copied. */
static lam_status take(lam_recording *r, const lmi_root *whole, const base *bases, int32_t n, int32_t k,
                       int32_t nth, bool first, lmi_root *out, lam_error *e) {
    const base *b = &bases[k];
    *out = *whole;
    out->info.training = b->training == 1;
    out->info.gradients = (int32_t)b->gradients;
    out->info.compiled = (int32_t)b->compiled;
    out->info.went_back = b->went_back;
    out->info.least_calls = -1;
    LAM_TRY(take_steps(r, whole, bases, n, k, nth, out, e));
    if (!out->n_steps && n) return LAM_OK;
    LAM_TRY(take_rollups(r, whole, bases, n, k, nth, out, e));
    const uint64_t places = first ? 0 : (uint64_t)whole->info.n_places;
    LAM_TRY(lmi_may_take(r, places * sizeof *out->places, e));
    if (!first) out->places = lmi_copy(&r->arena, whole->places, places, sizeof *out->places);
    if (!out->places) return lmi_nomem(e);
    for (int64_t i = 0; i < out->n_steps; i++)
        if (lmi_speaks(&out->steps[i])) note_calls(&out->info, out->steps[i].calls);
    for (int64_t i = 0; i < out->n_steps && !out->info.most_calls; i++)
        note_calls(&out->info, out->steps[i].calls);
    if (out->info.least_calls < 0) out->info.least_calls = 0;
    out->uniform = is_uniform(whole, out);
    return LAM_OK;
}

/* A model without steps has one kind, of which nothing is known. */
static lam_status take_all(lam_recording *r, const lmi_root *whole, lmi_vec *to, lam_error *e) {
    const size_t before = to->n;
    base bases[MOST_BASES] = {{.gradients = -1, .compiled = -1}};
    int32_t n = find_bases(whole, bases);
    for (int32_t k = 0; k < n; k++) {
        int32_t numbers = bases[k].n_calls < NUMBERS ? bases[k].n_calls : NUMBERS;
        qsort(bases[k].calls, (size_t)numbers, sizeof *bases[k].calls, lmi_by_size);
    }
    qsort(bases, (size_t)n, sizeof *bases, in_order);
    for (int32_t k = 0; k < (n ? n : 1); k++)
        for (int32_t nth = 0; nth < (n ? kinds_of(&bases[k]) : 1); nth++) {
            lmi_root kind, *at;
            LAM_TRY(take(r, whole, bases, n, k, nth, to->n == before, &kind, e));
            if (n && !kind.n_steps) continue;
            if (!(at = lmi_vec_push(to))) return lmi_nomem(e);
            *at = kind;
        }
    return LAM_OK;
}

static lam_status split(lam_recording *r, const lmi_root *whole, lmi_vec *to, lam_error *e) {
    const size_t first = to->n;
    LAM_TRY(take_all(r, whole, to, e));
    for (size_t k = first; k < to->n; k++) {
        lmi_root *kind = lmi_vec_at(to, k);
        kind->info.kind = (int32_t)(k - first);
        kind->info.n_kinds = (int32_t)(to->n - first);
    }
    return LAM_OK;
}

lam_status lmi_split_kinds(lam_recording *r, lam_error *e) {
    lmi_vec all;
    lmi_vec_init(&all, sizeof(lmi_root));
    lam_status s = LAM_OK;
    for (int32_t i = 0; s == LAM_OK && i < r->run.n_models; i++) s = split(r, &r->roots[i], &all, e);
    if (s == LAM_OK) s = lmi_may_take(r, all.n * all.size, e);
    lmi_root *roots = s == LAM_OK ? lmi_copy(&r->arena, all.data, all.n, sizeof *roots) : NULL;
    if (s == LAM_OK && !roots) s = lmi_nomem(e);
    if (s == LAM_OK) {
        r->run.n_models = all.n < INT32_MAX ? (int32_t)all.n : INT32_MAX;
        r->roots = roots;
    }
    lmi_vec_free(&all);
    return s;
}
