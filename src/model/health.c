/* SPDX-License-Identifier: Apache-2.0
 *
 * Observations of values: non-finite ones, in the order in which they were found, and statistics of
 * results. */
#include "model/builder.h"

#include <stdlib.h>

enum { MOST_ORIGINS = 1 << 24 };

typedef struct stat {
    int32_t call, out;
    lam_stats s;
} stat;

struct lmi_seen {
    lam_checked looked;
    lmi_vec bad;   /* lam_bad */
    lmi_vec stats; /* stat, by call and then by result once the model is frozen */
    lmi_vec grads; /* lam_grad, likewise */
};

static lmi_seen *seen_of(lam_builder *b) {
    if (b->seen || !(b->seen = calloc(1, sizeof *b->seen))) return b->seen;
    lmi_vec_init(&b->seen->bad, sizeof(lam_bad));
    lmi_vec_init(&b->seen->stats, sizeof(stat));
    lmi_vec_init(&b->seen->grads, sizeof(lam_grad));
    return b->seen;
}

void lmi_seen_free(lmi_seen *s) {
    if (!s) return;
    lmi_vec_free(&s->bad);
    lmi_vec_free(&s->stats);
    lmi_vec_free(&s->grads);
    free(s);
}

bool lmi_of_weights(const lam_model *m) { return m->described || m->of_file; }

lam_status lam_build_checked(lam_builder *b, const lam_checked *looked, lam_error *e) {
    LAM_TRY(lmi_needs(looked, "what was checked", e));
    lmi_seen *s = seen_of(b);
    if (!s) return lmi_nomem(e);
    s->looked = *looked;
    return LAM_OK;
}

static lam_status copy_or_null(lam_builder *b, const char *from, const char **to, lam_error *e) {
    *to = NULL;
    return from ? lmi_copy_text(b, from, "what is not finite", to, e) : LAM_OK;
}

lam_status lam_build_bad(lam_builder *b, const lam_bad *bad, lam_error *e) {
    static const char what[] = "what is not finite";
    LAM_TRY(lmi_needs(bad, what, e));
    lam_bad to = *bad;
    if ((unsigned)bad->side >= LAM_N_BAD_SIDES || (unsigned)bad->phase >= LAM_N_PHASES)
        return lmi_fail(e, LAM_RANGE, what, "there is no side %d or no phase %d", (int)bad->side,
                        (int)bad->phase);
    if (bad->call != -1) LAM_TRY(lmi_in_range(&b->events, bad->call, "the call of what is not finite", e));
    if (bad->call == -1 && (bad->side == LAM_BAD_OWNED || bad->side == LAM_BAD_UNSEEN))
        LAM_TRY(lmi_in_range(&b->places, bad->place, "the place of what is not finite", e));
    if (bad->from != -1) LAM_TRY(lmi_in_range(&b->events, bad->from, "the call of the node before", e));
    if (bad->calls < 0 || (size_t)bad->calls > b->events.n)
        return lmi_fail(e, LAM_RANGE, what, "it can't have been met after %d calls of %zu", bad->calls,
                        b->events.n);
    if (bad->origin < 0 || bad->origin > MOST_ORIGINS)
        return lmi_fail(e, LAM_RANGE, what, "it can't come of number %d; there may be %d", bad->origin,
                        MOST_ORIGINS);
    LAM_TRY(lmi_check_sizes(bad->ndim, bad->sizes, what, e));
    LAM_TRY(lmi_copy_ints(b, bad->sizes, bad->ndim > 0 ? bad->ndim : 0, &to.sizes, e));
    LAM_TRY(copy_or_null(b, bad->name, &to.name, e));
    LAM_TRY(copy_or_null(b, bad->inside, &to.inside, e));
    LAM_TRY(copy_or_null(b, bad->text, &to.text, e));
    lmi_seen *s = seen_of(b);
    if (!s) return lmi_nomem(e);
    return lmi_push(b, &s->bad, what, &to, e);
}

lam_status lam_build_stats(lam_builder *b, int32_t call, int32_t out, const lam_stats *s, lam_error *e) {
    static const char what[] = "statistics";
    LAM_TRY(lmi_needs(s, what, e));
    LAM_TRY(lmi_in_range(&b->events, call, "the call of statistics", e));
    const lam_event *c = lmi_vec_at(&b->events, (size_t)call);
    if (out < 0 || out >= c->n_out)
        return lmi_fail(e, LAM_RANGE, what, "the call has no result %d of %d", out, c->n_out);
    lmi_seen *seen = seen_of(b);
    if (!seen) return lmi_nomem(e);
    const stat put = {call, out, *s};
    return lmi_push(b, &seen->stats, what, &put, e);
}

lam_status lam_build_grad(lam_builder *b, const lam_grad *grad, lam_error *e) {
    static const char what[] = "gradients";
    LAM_TRY(lmi_needs(grad, what, e));
    LAM_TRY(lmi_in_range(&b->events, grad->call, "the call of a gradient", e));
    const lam_event *c = lmi_vec_at(&b->events, (size_t)grad->call);
    if (grad->index < 0 || grad->index >= (grad->is_input ? c->n_in : c->n_out))
        return lmi_fail(e, LAM_RANGE, what, "the call has no %s %d", grad->is_input ? "argument" : "result",
                        grad->index);
    lmi_seen *seen = seen_of(b);
    if (!seen) return lmi_nomem(e);
    return lmi_push(b, &seen->grads, what, grad, e);
}

static int by_call(const void *a, const void *b) {
    const stat *x = a, *y = b;
    return x->call != y->call ? (x->call > y->call) - (x->call < y->call)
                              : (x->out > y->out) - (x->out < y->out);
}

static int by_entry(const void *a, const void *b) {
    const lam_grad *x = a, *y = b;
    if (x->call != y->call) return x->call < y->call ? -1 : 1;
    if (x->is_input != y->is_input) return x->is_input ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

void lmi_seen_finish(lmi_seen *s) {
    if (s && s->stats.n) qsort(s->stats.data, s->stats.n, sizeof(stat), by_call);
    if (s && s->grads.n) qsort(s->grads.data, s->grads.n, sizeof(lam_grad), by_entry);
}

void lmi_seen_leave_out(lmi_seen *s, const lmi_passes *others) {
    size_t n = 0;
    if (!s) return;
    lam_bad *all = s->bad.data;
    for (size_t i = 0; i < s->bad.n; i++)
        if (all[i].side != LAM_BAD_NODE || !lmi_is_pass(others, all[i].pass)) all[n++] = all[i];
    s->bad.n = n;
}

const lam_checked *lam_model_checked(const lam_model *m) { return m->seen ? &m->seen->looked : NULL; }

int32_t lam_model_n_bad(const lam_model *m) { return m->seen ? (int32_t)m->seen->bad.n : 0; }

const lam_bad *lam_model_bad(const lam_model *m, int32_t i) {
    return m->seen && i >= 0 ? lmi_vec_at(&m->seen->bad, (size_t)i) : NULL;
}

int32_t lam_bad_first(const lam_bad *bad, int64_t at[LAM_MAX_AXES]) {
    int64_t rest = bad->found.first;
    if (rest < 0 || bad->ndim < 0 || bad->ndim > LAM_MAX_AXES) return -1;
    for (int32_t i = bad->ndim - 1; i >= 0; i--) {
        if (bad->sizes[i] == 0) return -1;
        at[i] = rest % bad->sizes[i];
        rest /= bad->sizes[i];
    }
    return bad->ndim;
}

const char *lam_bad_kind(const lam_bad *bad) {
    const lam_nonfinite *f = &bad->found;
    if (f->nan) return "NaN";
    if (!f->inf) return NULL;
    return f->inf == f->negative ? "-Inf" : "Inf";
}

const lam_stats *lam_model_stats(const lam_model *m, int32_t call, int32_t out) {
    const stat key = {.call = call, .out = out};
    if (!m->seen || !m->seen->stats.n) return NULL;
    const stat *found = bsearch(&key, m->seen->stats.data, m->seen->stats.n, sizeof key, by_call);
    return found ? &found->s : NULL;
}

const lam_grad *lam_model_grad(const lam_model *m, int32_t i) {
    return m->seen && i >= 0 ? lmi_vec_at(&m->seen->grads, (size_t)i) : NULL;
}

int32_t lam_model_first_grad(const lam_model *m, int32_t call) {
    const lmi_vec *grads = m->seen ? &m->seen->grads : NULL;
    return grads ? (int32_t)lmi_lower_bound(grads->data, grads->n, sizeof(lam_grad), call) : 0;
}
