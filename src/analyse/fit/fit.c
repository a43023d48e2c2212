/* SPDX-License-Identifier: Apache-2.0
 *
 * Predicts the peak memory. A dry run recorded the lifetime of each tensor's memory, of an optimizer's state
 * and step too; one walk over the operators keeps the sums. The model's own memory is added. */
#include "analyse/flow/flow.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct fit {
    lam_fit f; /* first: the public part */
    lmi_arena arena;
    lmi_arena scratch;
    const lam_model *m;
    int64_t *change; /* per operator, one ahead: bytes allocated while it ran, then (at n + 1) freed */
    int64_t fixed[LAM_N_HELD];
    int64_t all;     /* bytes of all lifetimes together, so that no sum overflows */
    lam_fit_row *of; /* per place, and one for memory outside */
    bool *is_buffer; /* per tensor */
} fit;

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

static bool shares(const lam_tensor *t) {
    return t->storage && t->storage_bytes > 0 && !t->wraps && !t->elsewhere && !t->packed;
}

/* The bytes that a tensor adds to those of the tensors before it, which may have the same memory. `left`: of
 * each memory, the bytes that none of them has. */
static lam_status added_by(const lam_tensor *t, lmi_map *left, int64_t *bytes, lam_error *e) {
    *bytes = t->local_bytes;
    if (!shares(t)) return LAM_OK;
    int64_t rest = lmi_map_get_u64(left, t->storage);
    if (rest < 0) rest = t->storage_bytes;
    if (*bytes > rest) *bytes = rest;
    return lmi_map_put_u64(left, t->storage, rest - *bytes, e);
}

/* Adds the rest of a memory, which no tensor of the model has, to its first tensor. */
static lam_status rest_of(const lam_tensor *t, lmi_map *left, int64_t *bytes, lam_error *e) {
    *bytes = shares(t) ? lmi_map_get_u64(left, t->storage) : 0;
    return *bytes > 0 ? lmi_map_put_u64(left, t->storage, 0, e) : LAM_OK;
}

static lam_status hold_tensor(fit *w, int32_t i, int64_t bytes, lam_error *e) {
    const lam_tensor *t = &w->m->tensors[i];
    const bool buffer = w->is_buffer[i] && !t->packed;
    return hold(w, buffer ? LAM_HELD_BUFFER : LAM_HELD_PARAMETER, place_of(w, t->owner), bytes, e);
}

static lam_status hold_each(fit *w, lmi_map *left, lam_error *e) {
    const lam_tensor *t = w->m->tensors;
    int64_t bytes;
    for (int32_t i = 0; i < w->m->n_tensors; i++) {
        if (t[i].local_bytes < 0) {
            w->f.gap = "the size of some parameter or buffer is not known";
            continue;
        }
        LAM_TRY(added_by(&t[i], left, &bytes, e));
        LAM_TRY(hold_tensor(w, i, bytes, e));
    }
    for (int32_t i = 0; i < w->m->n_tensors; i++) {
        if (t[i].local_bytes < 0) continue;
        LAM_TRY(rest_of(&t[i], left, &bytes, e));
        LAM_TRY(hold_tensor(w, i, bytes, e));
    }
    return LAM_OK;
}

static lam_status hold_tensors(fit *w, lam_error *e) {
    lmi_map left = {0};
    lam_status s = hold_each(w, &left, e);
    lmi_map_free(&left);
    return s;
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

/* True if the memory is still there when the optimizer's step begins, or after the last operator. */
static bool outlives(const lam_lifetime *l, int32_t step) { return l->freed < 0 || l->freed >= step; }

static lam_held held_as(const fit *w, const lam_lifetime *l) {
    switch (l->what) {
    case LAM_TAKEN_SEED: return LAM_HELD_BACKWARD;
    case LAM_TAKEN_STATE: return LAM_HELD_OPTIMIZER;
    case LAM_TAKEN_GRADIENT: return LAM_HELD_GRADIENT;
    case LAM_TAKEN_TENSOR: break;
    default: return LAM_HELD_WORKSPACE;
    }
    if (l->made >= w->m->step) return l->freed < 0 ? LAM_HELD_OPTIMIZER : LAM_HELD_WORKSPACE;
    if (l->made < 0 || w->m->ops[l->made].phase != LAM_BACKWARD) return LAM_HELD_ACTIVATION;
    return outlives(l, w->m->step) ? LAM_HELD_GRADIENT : LAM_HELD_BACKWARD;
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

static void find_peak(const fit *w, int32_t *step) {
    int64_t now = 0, most = -1;
    for (int32_t i = 0; i <= w->m->n_ops; i++) {
        now += w->change[i];
        if (now <= most) continue;
        most = now;
        *step = i;
    }
}

/* `step`: the operator plus one. */
static bool is_there(const lam_lifetime *l, int32_t step) {
    return l->made + 1 <= step && (l->freed < 0 || l->freed + 1 >= step);
}

static int32_t place_at(const fit *w, int32_t op) {
    int32_t call = op >= 0 ? w->m->ops[op].call : -1;
    return call >= 0 ? w->m->events[call].place : -1;
}

/* The layer that memory belongs to: the one of the parameter that state is kept for, else the one whose
 * operator took it. */
static int32_t place_of_lifetime(const fit *w, const lam_lifetime *l) {
    if (l->what != LAM_TAKEN_STATE) return place_at(w, l->made);
    return l->tensor >= 0 ? place_of(w, w->m->tensors[l->tensor].owner) : -1;
}

static void give_out(fit *w, int32_t step) {
    for (int32_t i = 0; i < w->m->n_lifetimes; i++) {
        const lam_lifetime *l = &w->m->lifetimes[i];
        int32_t place = place_of_lifetime(w, l);
        if (!is_there(l, step)) continue;
        w->fixed[held_as(w, l)] += l->bytes;
        w->of[place < 0 ? w->m->n_places : place].part[held_as(w, l)] += l->bytes;
    }
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

/* The first node whose operators depend on values that a dry run does not have; or an optimizer's step. */
static lam_status find_decided(fit *w, lam_error *e) {
    if (w->m->decided)
        LAM_TRY(say(w, &w->f.rough, "values may decide what the step of", w->m->optimizer, "does", e));
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
    f->op = step > 0 && step <= w->m->step ? step - 1 : -1;
    f->at = f->op >= 0 ? w->m->ops[f->op].sig->name
            : step > 0 ? "the optimizer's step"
                       : "before the first operator";
    f->optimizer = w->m->optimizer;
    for (int i = 0; i < LAM_N_HELD; i++) {
        f->part[i] = f->gap ? lmi_at_least(w->fixed[i]) : lmi_exact(w->fixed[i]);
        all += w->fixed[i];
    }
    f->peak = f->gap ? lmi_at_least(all) : lmi_exact(all);
}

static lam_status build(fit *w, lam_error *e) {
    int32_t step = 0;
    w->change = lmi_alloc(&w->scratch, (uint64_t)w->m->n_ops + 2, sizeof *w->change);
    w->of = lmi_alloc(&w->scratch, (uint64_t)w->m->n_places + 1, sizeof *w->of);
    w->is_buffer = lmi_alloc(&w->scratch, (uint64_t)w->m->n_tensors, sizeof *w->is_buffer);
    if (!w->change || !w->of || !w->is_buffer) return lmi_nomem(e);
    find_buffers(w);
    LAM_TRY(hold_tensors(w, e));
    LAM_TRY(hold_inputs(w, e));
    LAM_TRY(sum_up(w, e));
    if (w->m->more) w->f.gap = w->m->more;
    LAM_TRY(find_gap(w, e));
    LAM_TRY(find_unmeasured(w, LAM_TAKEN_UNKNOWN, "takes beside its results was not measured", &w->f.gap, e));
    LAM_TRY(find_decided(w, e));
    LAM_TRY(
        find_unmeasured(w, LAM_TAKEN_ROUGHLY, "takes beside its results is known roughly", &w->f.rough, e));
    find_peak(w, &step);
    give_out(w, step);
    LAM_TRY(lam_model_find_sources(w->m, e));
    lmi_find_cache(w->m, &w->f);
    tell(w, step);
    return list_rows(w, e);
}

lam_status lam_fit_new(lam_fit **out, const lam_model *m, lam_error *e) {
    if (!out) return lmi_fail(e, LAM_USAGE, "lam_fit_new", "there is nowhere to put the result");
    *out = NULL;
    if (!m || m->n_lifetimes == 0)
        return lmi_fail(e, LAM_USAGE, "fit",
                        "no memory was followed in this run; only a dry run for it does that");
    fit *w = calloc(1, sizeof *w);
    if (!w) return lmi_nomem(e);
    w->m = m;
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
