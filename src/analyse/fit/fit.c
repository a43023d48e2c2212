/* SPDX-License-Identifier: Apache-2.0
 *
 * Predicts the peak memory. A dry run recorded the lifetime of each tensor's memory; one walk over the
 * operators keeps the sums. The model's own memory, and that of an optimizer, is added. */
#include "analyse/flow/flow.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct optimizer {
    const char *name;
    int64_t state, sums, each, held, working;
    const char *what;
} optimizer;

static const optimizer optimizers[] = {
#define OPTIMIZER(name, state, sums, each, held, working, what)                                              \
    {name, state, sums, each, held, working, what},
#include "analyse/fit/optimizers.def"
#undef OPTIMIZER
};
enum { N_OPTIMIZERS = sizeof optimizers / sizeof *optimizers };

typedef struct fit {
    lam_fit f; /* first: the public part */
    lmi_arena arena;
    lmi_arena scratch;
    const lam_model *m;
    const optimizer *with;
    int64_t *change; /* per operator, one ahead: bytes allocated while it ran, then (at n + 1) freed */
    int64_t fixed[LAM_N_HELD];
    int64_t all;     /* bytes of all lifetimes together, so that no sum overflows */
    lam_fit_row *of; /* per place, and one for memory outside */
    bool *is_buffer; /* per tensor */
} fit;

const char *lam_optimizer_name(int32_t i, const char **what) {
    if (i < 0 || i >= N_OPTIMIZERS) return NULL;
    if (what) *what = optimizers[i].what;
    return optimizers[i].name;
}

static lam_status find_optimizer(const char *name, const optimizer **out, lam_error *e) {
    for (int32_t i = 0; i < N_OPTIMIZERS; i++)
        if (strcmp(optimizers[i].name, name) == 0) return *out = &optimizers[i], LAM_OK;
    return lmi_no_such(e, "optimizer", name, NULL, &optimizers[0].name, sizeof *optimizers, N_OPTIMIZERS);
}

/* == memory that is held throughout ==================================================================== */

static lam_status hold(fit *w, lam_held as, int32_t place, int64_t bytes, lam_error *e) {
    if (bytes < 0 || lmi_add_over(w->all, bytes, &w->all))
        return lmi_fail(e, LAM_RANGE, lam_held_name(as), "more bytes than a number holds");
    w->fixed[as] += bytes;
    w->of[place < 0 ? w->m->n_places : place].part[as] += bytes;
    return LAM_OK;
}

static int32_t place_of(const fit *w, int32_t module) {
    const lam_module *mod = module >= 0 ? &w->m->modules[module] : NULL;
    return mod && mod->n_places > 0 ? mod->places[0] : -1;
}

static void find_buffers(fit *w) {
    for (int32_t i = 0; i < w->m->n_modules; i++) {
        const lam_module *mod = &w->m->modules[i];
        for (int32_t k = 0; k < mod->n_owned; k++)
            w->is_buffer[mod->owned[k].tensor] |= mod->owned[k].is_buffer;
    }
}

static lam_status hold_tensors(fit *w, lam_error *e) {
    for (int32_t i = 0; i < w->m->n_tensors; i++) {
        const lam_tensor *t = &w->m->tensors[i];
        if (t->local_bytes < 0) {
            w->f.gap = "the size of some parameter or buffer is not known";
            continue;
        }
        bool buffer = w->is_buffer[i] && !t->packed;
        LAM_TRY(
            hold(w, buffer ? LAM_HELD_BUFFER : LAM_HELD_PARAMETER, place_of(w, t->owner), t->local_bytes, e));
    }
    return LAM_OK;
}

static bool seen_before(const lam_event *ev, int32_t i) {
    for (int32_t k = 0; k < i; k++)
        if (ev->in[k].storage && ev->in[k].storage == ev->in[i].storage) return true;
    return false;
}

/* The inputs of the first call; later calls are assumed to receive them too. */
static lam_status hold_inputs(fit *w, lam_error *e) {
    const lam_event *ev = w->m->n_events > 0 ? &w->m->events[0] : NULL;
    for (int32_t i = 0; ev && i < ev->n_in; i++) {
        int64_t bytes = lmi_arg_bytes(&ev->in[i]);
        if (bytes < 0)
            w->f.gap = "the size of some input is not known";
        else if (!seen_before(ev, i))
            LAM_TRY(hold(w, LAM_HELD_INPUT, 0, bytes, e));
    }
    return LAM_OK;
}

/* == lifetimes ========================================================================================= */

static bool at_end(const lam_lifetime *l) { return l->freed < 0; }

static lam_held held_as(const fit *w, const lam_lifetime *l) {
    if (l->what >= LAM_TAKEN_WORKSPACE) return LAM_HELD_WORKSPACE;
    if (l->what == LAM_TAKEN_SEED) return LAM_HELD_BACKWARD;
    if (l->made < 0 || w->m->ops[l->made].phase != LAM_BACKWARD) return LAM_HELD_ACTIVATION;
    return at_end(l) ? LAM_HELD_GRADIENT : LAM_HELD_BACKWARD;
}

/* A free counts from the next operator on; after the last one nothing counts. */
static lam_status sum_up(fit *w, lam_error *e) {
    for (int32_t i = 0; i < w->m->n_lifetimes; i++) {
        const lam_lifetime *l = &w->m->lifetimes[i];
        if (lmi_add_over(w->all, l->bytes, &w->all))
            return lmi_fail(e, LAM_RANGE, "lifetimes", "more bytes than a number holds");
        w->change[l->made + 1] += l->bytes;
        if (l->freed >= 0) w->change[l->freed + 2] -= l->bytes;
    }
    return LAM_OK;
}

static int64_t find_peak(const fit *w, int32_t *step) {
    int64_t now = 0, most = -1;
    for (int32_t i = 0; i <= w->m->n_ops; i++) {
        now += w->change[i];
        if (now <= most) continue;
        most = now;
        *step = i;
    }
    return most;
}

/* `step`: the operator plus one; n_ops + 1: after the last one. */
static bool is_there(const fit *w, const lam_lifetime *l, int32_t step) {
    if (step > w->m->n_ops) return at_end(l) && l->what == LAM_TAKEN_TENSOR;
    return l->made + 1 <= step && (l->freed < 0 || l->freed + 1 >= step);
}

static int32_t place_at(const fit *w, int32_t op) {
    int32_t call = op >= 0 ? w->m->ops[op].call : -1;
    return call >= 0 ? w->m->events[call].place : -1;
}

static int64_t left_at_end(const fit *w) {
    int64_t n = 0;
    for (int32_t i = 0; i < w->m->n_lifetimes; i++)
        if (is_there(w, &w->m->lifetimes[i], w->m->n_ops + 1)) n += w->m->lifetimes[i].bytes;
    return n;
}

static void give_out(fit *w, int32_t step) {
    for (int32_t i = 0; i < w->m->n_lifetimes; i++) {
        const lam_lifetime *l = &w->m->lifetimes[i];
        int32_t place = place_at(w, l->made);
        if (!is_there(w, l, step)) continue;
        w->fixed[held_as(w, l)] += l->bytes;
        w->of[place < 0 ? w->m->n_places : place].part[held_as(w, l)] += l->bytes;
    }
}

/* == an optimizer ====================================================================================== */

/* Bytes of the gradient in this process. That of a tensor that wraps others has the type of the tensor, not
 * those of the others. */
static int64_t gradient_of(const lam_tensor *t) {
    int64_t all = t->wraps ? lmi_logical_bytes(t) : t->local_bytes;
    if (!t->wraps || all < 0 || t->elsewhere == 0) return all;
    return (int64_t)((lmi_wide)all * (t->numel - t->elsewhere) / t->numel);
}

static bool gets_gradient(const fit *w, const lam_tensor *t, int32_t i) {
    return !w->is_buffer[i] && t->requires_grad && gradient_of(t) >= 0;
}

/* The optimizer keeps nothing for parameters without a gradient. Collects the bytes of the gradients by
 * the place whose backward made them; outside of all places last. */
static void find_gradients(const fit *w, int64_t *got) {
    for (int32_t i = 0; i < w->m->n_lifetimes; i++) {
        const lam_lifetime *l = &w->m->lifetimes[i];
        int32_t place = place_at(w, l->made);
        if (l->what == LAM_TAKEN_TENSOR && held_as(w, l) == LAM_HELD_GRADIENT)
            got[place < 0 ? w->m->n_places : place] += l->bytes;
    }
}

/* For the part of a parameter whose gradient has `bytes`. */
static int64_t state_of(const fit *w, const lam_tensor *t, int64_t bytes) {
    const lam_shape *s = &t->shape;
    bool by_sums = w->with->sums && s->ndim > 1;
    int64_t kept = by_sums ? 0 : bytes * w->with->state;
    for (int32_t i = s->ndim - 2; by_sums && i < s->ndim; i++)
        if (s->sizes[i] > 0) kept += bytes / s->sizes[i];
    return kept + w->with->each;
}

/* Adds the state of a parameter that has none so far, for the gradients that are left. */
static lam_status hold_state(fit *w, const lam_tensor *t, bool *done, int64_t *left, lam_error *e) {
    int64_t bytes = gradient_of(t) < *left ? gradient_of(t) : *left;
    if (*done || bytes <= 0) return LAM_OK;
    *done = true;
    *left -= bytes;
    return hold(w, LAM_HELD_OPTIMIZER, place_of(w, t->owner), state_of(w, t, bytes), e);
}

/* Gradients belong to the parameters of the layer that made them; those of tied parameters of other
 * layers to any parameters that are left. */
static lam_status hold_states(fit *w, lam_error *e) {
    int64_t *got = lmi_alloc(&w->scratch, (uint64_t)w->m->n_places + 1, sizeof *got), rest = 0;
    bool *done = lmi_alloc(&w->scratch, (uint64_t)w->m->n_tensors, sizeof *done);
    if (!got || !done) return lmi_nomem(e);
    find_gradients(w, got);
    for (int32_t i = 0; i < w->m->n_tensors; i++) {
        const lam_tensor *t = &w->m->tensors[i];
        int32_t place = place_of(w, t->owner);
        if (gets_gradient(w, t, i) && place >= 0) LAM_TRY(hold_state(w, t, &done[i], &got[place], e));
    }
    for (int32_t i = 0; i <= w->m->n_places; i++) rest += got[i];
    for (int32_t i = 0; i < w->m->n_tensors; i++)
        if (gets_gradient(w, &w->m->tensors[i], i))
            LAM_TRY(hold_state(w, &w->m->tensors[i], &done[i], &rest, e));
    return LAM_OK;
}

/* Adds the state that is kept between steps, and returns the working memory of a step. */
static lam_status hold_optimizer(fit *w, int64_t *working, lam_error *e) {
    int64_t before = 0;
    *working = 0;
    for (int32_t i = 0; i < w->m->n_tensors; i++) {
        const lam_tensor *t = &w->m->tensors[i];
        if (!gets_gradient(w, t, i)) continue;
        int64_t now = w->with->held * before + w->with->working * gradient_of(t);
        if (now > *working) *working = now;
        before = gradient_of(t);
    }
    return hold_states(w, e);
}

/* == the whole prediction ============================================================================== */

static int more_bytes(const void *a, const void *b) {
    const lam_fit_row *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes)
                                : (x->place > y->place) - (x->place < y->place);
}

static lam_status list_rows(fit *w, lam_error *e) {
    int32_t n = 0, places = w->m->n_places + 1;
    lam_fit_row *rows = lmi_alloc(&w->arena, (uint64_t)places, sizeof *rows);
    if (!rows) return lmi_nomem(e);
    for (int32_t i = 0; i < places; i++) {
        lam_fit_row *row = &w->of[i];
        row->place = i < w->m->n_places ? i : -1;
        for (int k = 0; k < LAM_N_HELD; k++) row->bytes += row->part[k];
        if (row->bytes > 0) rows[n++] = *row;
    }
    qsort(rows, (size_t)n, sizeof *rows, more_bytes);
    w->f.rows = rows;
    w->f.n_rows = n;
    return LAM_OK;
}

/* Keeps "what aten::mm takes beside its results is not known". */
static lam_status say(fit *w, const char **to, const char *before, const char *name, const char *after,
                      lam_error *e) {
    char text[200];
    snprintf(text, sizeof text, "%s %s %s", before, name, after);
    *to = lmi_strdup(&w->arena, text);
    return *to ? LAM_OK : lmi_nomem(e);
}

/* The workspace of a user-defined operator is unknown. */
static lam_status find_gap(fit *w, lam_error *e) {
    for (int32_t i = 0; i < w->m->n_ops; i++) {
        const lam_op *o = &w->m->ops[i];
        bool ours = lmi_is_torchs(o->sig->name) || !strstr(o->sig->name, "::");
        if (o->sig->word >= 0 || ours || o->n_children > 0 || o->flags & LAM_OP_NODE) continue;
        return say(w, &w->f.gap, "what", o->sig->name, "takes beside its results is not known", e);
    }
    return LAM_OK;
}

/* The first operator whose workspace was not measured. */
static lam_status find_unmeasured(fit *w, lam_taken what, const char *says, const char **out, lam_error *e) {
    for (int32_t i = 0; !*out && i < w->m->n_lifetimes; i++) {
        const lam_lifetime *l = &w->m->lifetimes[i];
        if (l->what == what && l->made >= 0)
            LAM_TRY(say(w, out, "what", w->m->ops[l->made].sig->name, says, e));
    }
    return LAM_OK;
}

/* The first node whose operators depend on values that a dry run does not have. */
static lam_status find_decided(fit *w, lam_error *e) {
    for (int32_t i = 0; !w->f.rough && i < w->m->n_ops; i++) {
        const lam_op *o = &w->m->ops[i];
        if (o->flags & LAM_OP_VALUES && o->flags & LAM_OP_NODE)
            LAM_TRY(say(w, &w->f.rough, "values decide what", o->sig->name, "runs", e));
    }
    return LAM_OK;
}

static void tell(fit *w, int32_t step) {
    lam_fit *f = &w->f;
    int64_t all = 0;
    for (int32_t i = 0; i < w->m->n_ops; i++) f->backward = f->backward || w->m->ops[i].phase == LAM_BACKWARD;
    f->op = step > 0 && step <= w->m->n_ops ? step - 1 : -1;
    f->at = f->op >= 0 ? w->m->ops[f->op].sig->name
            : step > 0 ? "the optimizer's step"
                       : "before the first operator";
    f->optimizer = w->with ? w->with->name : NULL;
    for (int i = 0; i < LAM_N_HELD; i++) {
        f->part[i] = f->gap ? lmi_at_least(w->fixed[i]) : lmi_exact(w->fixed[i]);
        all += w->fixed[i];
    }
    f->peak = f->gap ? lmi_at_least(all) : lmi_exact(all);
}

static lam_status build(fit *w, lam_error *e) {
    int64_t working = 0;
    int32_t step = 0;
    w->change = lmi_alloc(&w->scratch, (uint64_t)w->m->n_ops + 2, sizeof *w->change);
    w->of = lmi_alloc(&w->scratch, (uint64_t)w->m->n_places + 1, sizeof *w->of);
    w->is_buffer = lmi_alloc(&w->scratch, (uint64_t)w->m->n_tensors, sizeof *w->is_buffer);
    if (!w->change || !w->of || !w->is_buffer) return lmi_nomem(e);
    find_buffers(w);
    LAM_TRY(hold_tensors(w, e));
    LAM_TRY(hold_inputs(w, e));
    LAM_TRY(sum_up(w, e));
    LAM_TRY(find_gap(w, e));
    LAM_TRY(find_unmeasured(w, LAM_TAKEN_UNKNOWN, "takes beside its results was not measured", &w->f.gap, e));
    LAM_TRY(find_decided(w, e));
    LAM_TRY(
        find_unmeasured(w, LAM_TAKEN_ROUGHLY, "takes beside its results is known roughly", &w->f.rough, e));
    int64_t peak = find_peak(w, &step);
    if (w->with) LAM_TRY(hold_optimizer(w, &working, e));
    if (w->with && left_at_end(w) + working > peak) {
        step = w->m->n_ops + 1;
        LAM_TRY(hold(w, LAM_HELD_WORKSPACE, -1, working, e));
    }
    give_out(w, step);
    LAM_TRY(lam_model_find_sources(w->m, e));
    lmi_find_cache(w->m, &w->f);
    tell(w, step);
    return list_rows(w, e);
}

lam_status lam_fit_new(lam_fit **out, const lam_model *m, const char *name, lam_error *e) {
    const optimizer *with = NULL;
    if (!out) return lmi_fail(e, LAM_USAGE, "lam_fit_new", "there is nowhere to put the result");
    *out = NULL;
    if (!m || m->n_lifetimes == 0)
        return lmi_fail(e, LAM_USAGE, "fit",
                        "no memory was followed in this run; only a dry run for it does that");
    if (name) LAM_TRY(find_optimizer(name, &with, e));
    fit *w = calloc(1, sizeof *w);
    if (!w) return lmi_nomem(e);
    w->m = m;
    w->with = with;
    lmi_arena_init(&w->arena, UINT64_MAX);
    lmi_arena_init(&w->scratch, UINT64_MAX);
    lam_status s = build(w, e);
    lmi_arena_free(&w->scratch);
    if (s == LAM_OK)
        *out = &w->f;
    else
        lam_fit_free(&w->f);
    return s;
}

void lam_fit_free(lam_fit *f) {
    if (!f) return;
    fit *w = (fit *)(void *)f;
    lmi_arena_free(&w->arena);
    free(w);
}
