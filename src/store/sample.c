/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns a model into the rows of one step: what each place did in it. */
#include "model/model.h"
#include "store/store.h"

#include <stdlib.h>

enum { UNKNOWN = -1 };

static lmi_packet *packet_new(void) {
    lmi_packet *p = calloc(1, sizeof *p);
    if (p) lmi_arena_init(&p->arena, INT64_MAX);
    return p;
}

void lmi_packet_free(lmi_packet *p) {
    if (!p) return;
    lmi_arena_free(&p->arena);
    free(p);
}

/* -- the tree ---------------------------------------------------------------------------------- */

/* Adds `n`; the sum is unknown if either is. */
static void add(int64_t *sum, int64_t n) {
    if (*sum >= 0) *sum = n < 0 || lmi_add_over(*sum, n, sum) ? UNKNOWN : *sum;
}

static bool is_parameter(const lam_owned *o, const lam_tensor *t) { return !o->is_buffer || t->packed; }

/* Counts the parameters that the place itself owns; a tied one counts at its first owner. */
static void count_params(const lam_model *m, const lam_place *p, lmi_place_row *to) {
    const lam_module *module = lam_model_module(m, p->module);
    to->params = to->local = 0;
    if (module->n_places && lam_model_place(m, module->places[0]) != p) return;
    for (int32_t i = 0; i < module->n_owned; i++) {
        const lam_tensor *t = lam_model_tensor(m, module->owned[i].tensor);
        if (!is_parameter(&module->owned[i], t) || t->owner != p->module) continue;
        add(&to->params, t->numel);
        add(&to->local, t->numel < 0 ? UNKNOWN : t->numel - t->elsewhere);
    }
}

uint64_t lmi_tree_hash(const lam_model *m) {
    uint64_t hash = (uint64_t)lam_model_n_places(m);
    for (int32_t i = 0; i < lam_model_n_places(m); i++) {
        const lam_place *p = lam_model_place(m, i);
        const char *type = lam_model_module(m, p->module)->type;
        lmi_place_row own;
        count_params(m, p, &own);
        uint64_t all[4] = {hash, lmi_hash_text(p->name) ^ (uint64_t)p->parent, lmi_hash_text(type),
                           (uint64_t)own.params};
        hash = lmi_hash(all, sizeof all);
    }
    return hash;
}

static void count_bytes(const lam_model *m, lmi_packet *p) {
    for (int32_t i = 0; i < p->n_places; i++) {
        const lam_place *place = lam_model_place(m, i);
        const lam_module *module = lam_model_module(m, place->module);
        if (!module->n_places || module->places[0] != i) continue;
        for (int32_t k = 0; k < module->n_owned; k++) {
            const lam_tensor *t = lam_model_tensor(m, module->owned[k].tensor);
            if (!is_parameter(&module->owned[k], t) || t->owner != place->module) continue;
            add(&p->param_bytes, t->bytes);
            add(&p->local_bytes, t->local_bytes);
            add(&p->logical_bytes, lmi_logical_bytes(t));
        }
    }
}

lmi_packet *lmi_packet_tree(const lam_model *m, const lam_step_info *info) {
    lmi_packet *p = packet_new();
    if (!p) return NULL;
    p->n_places = lam_model_n_places(m);
    p->root = info->root;
    p->name = lmi_strdup(&p->arena, info->name ? info->name : "model");
    lmi_place_row *rows = lmi_alloc(&p->arena, (uint64_t)p->n_places, sizeof *rows);
    bool ok = rows && p->name;
    for (int32_t i = 0; ok && i < p->n_places; i++) {
        const lam_place *place = lam_model_place(m, i);
        rows[i] = (lmi_place_row){.parent = place->parent, .depth = place->depth};
        rows[i].path = lmi_strdup(&p->arena, place->path);
        rows[i].type = lmi_strdup(&p->arena, lam_model_module(m, place->module)->type);
        count_params(m, place, &rows[i]);
        add(&p->params, rows[i].params);
        add(&p->local, rows[i].local);
        ok = rows[i].path && rows[i].type;
    }
    p->places = rows;
    if (ok) count_bytes(m, p);
    uint64_t tree = 0;
    for (int32_t i = 0; ok && i < p->n_places; i++) tree = lmi_like_layers(tree, rows[i].path, rows[i].type);
    p->tree = (int64_t)(tree >> LMI_LIKE_SHIFT);
    if (ok) return p;
    lmi_packet_free(p);
    return NULL;
}

/* -- a step ------------------------------------------------------------------------------------ */

static int64_t length_of(const lam_event *e) {
    return e->t0_ns > 0 && e->t1_ns >= e->t0_ns ? e->t1_ns - e->t0_ns : UNKNOWN;
}

static void take(int64_t *from, int64_t n) {
    if (*from >= 0) *from = n < 0 || n > *from ? UNKNOWN : *from - n;
}

/* Calls are in the order in which they were entered, so a call's self time is set before its children
 * subtract theirs from it. */
static void add_call(const lam_model *m, const lam_event *e, lmi_measure *all, lmi_packet *p) {
    lmi_measure *at = &all[e->place];
    int64_t ns = length_of(e);
    bool again = (e->flags & LAM_CALL_AGAIN) != 0;
    if (again) {
        if (!lmi_inside_itself(m, e)) add(&at->recompute, ns);
        return;
    }
    at->calls++;
    add(&at->regions, e->regions);
    if (!lmi_inside_itself(m, e)) add(&at->forward, ns);
    add(&at->self, ns);
    if (e->parent >= 0) {
        take(&all[lam_model_event(m, e->parent)->place].self, ns);
        return;
    }
    if (e->place == 0) p->calls++; /* the loop may also call a layer itself */
    add(&p->forward, ns);
    p->failed = p->failed || (e->flags & LAM_CALL_FAILED);
}

/* -- times, memory, health --------------------------------------------------------------------- */

/* The time of all of a step's passes, without repeated forward work. */
static int64_t passes_of(const lam_times *t) {
    static const lam_time_part parts[] = {LAM_TIME_BACKWARD, LAM_TIME_ENGINE, LAM_TIME_OUTSIDE};
    int64_t sum = 0;
    for (int32_t run = 0; run < lam_times_n_runs(t); run++)
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) add(&sum, lam_times_run(t, run, parts[i]));
    return sum > 0 ? sum : UNKNOWN; /* a step without a pass has no time of passes */
}

static lam_status add_times(const lam_model *m, lmi_measure *all, lmi_packet *p, lam_error *e) {
    lam_times *t;
    lam_time of;
    LAM_TRY(lam_times_new(&t, m, e));
    p->backward = passes_of(t);
    for (int32_t i = 0; i < lam_model_n_places(m); i++) all[i].backward = p->backward < 0 ? UNKNOWN : 0;
    for (int32_t i = 0; i < lam_model_n_events(m); i++)
        if (lam_times_event(t, i, &of))
            add(&all[lam_model_event(m, i)->place].backward, of.self[LAM_BACKWARD]);
    lam_times_free(t);
    return LAM_OK;
}

static int longer_first(const void *x, const void *y) {
    const lam_step_span *a = x, *b = y;
    if (a->t0_ns != b->t0_ns) return a->t0_ns < b->t0_ns ? -1 : 1;
    return (a->t1_ns < b->t1_ns) - (a->t1_ns > b->t1_ns);
}

/* The time of a layer in which a moment was: that of its innermost call, or of its node; NULL: of none. */
static int64_t *time_at(const lam_model *m, int64_t t0, int64_t t1, lmi_measure *all) {
    for (int32_t i = lam_model_n_events(m) - 1; i >= 0; i--) {
        const lam_event *e = lam_model_event(m, i);
        if (e->t0_ns > 0 && e->t0_ns <= t0 && e->t1_ns >= t1)
            return e->flags & LAM_CALL_AGAIN ? NULL : &all[e->place].self;
    }
    for (int32_t i = m->n_ops - 1; i >= 0; i--) {
        const lam_op *o = &m->ops[i];
        const lam_event *e = o->flags & LAM_OP_NODE ? lam_model_event(m, o->call) : NULL;
        if (e && o->t0_ns > 0 && o->t0_ns <= t0 && o->t1_ns >= t1) return &all[e->place].backward;
    }
    return NULL;
}

/* Where processes wait for each other inside a layer, as under FSDP2, one that is slow has all others take as
 * long: a layer's own times are without such waits. */
static lam_status take_waits(const lam_model *m, const lam_step_info *info, lmi_measure *all, lam_error *e) {
    int32_t n = 0;
    int64_t end = 0; /* of the last wait: others lie inside it */
    lam_step_span *waits = malloc(((size_t)info->n_spans + 1) * sizeof *waits);
    if (!waits) return lmi_nomem(e);
    for (int32_t i = 0; i < info->n_spans; i++)
        if (info->spans[i].kind == LAM_SPAN_WAIT) waits[n++] = info->spans[i];
    qsort(waits, (size_t)n, sizeof *waits, longer_first);
    for (int32_t i = 0; i < n; i++) {
        const int64_t t0 = waits[i].t0_ns, t1 = waits[i].t1_ns;
        int64_t *of = t0 >= end && t1 > t0 ? time_at(m, t0, t1, all) : NULL;
        if (t1 > end) end = t1;
        if (of && *of >= 0) *of = *of > t1 - t0 ? *of - (t1 - t0) : 0;
    }
    free(waits);
    return LAM_OK;
}

static void add_device_call(const lam_model *m, const lam_event *e, const lam_time *of, bool passes,
                            lmi_measure *at, lmi_packet *p) {
    lam_phase phase = lmi_call_phase(e);
    if (!lmi_inside_itself(m, e))
        add(phase == LAM_FORWARD ? &at->device_forward : &at->device_recompute, of->total[phase]);
    if (phase == LAM_FORWARD) add(&at->device_self, of->self[phase]);
    if (phase == LAM_FORWARD && e->parent < 0) add(&p->device_forward, of->total[phase]);
    if (passes) add(&at->device_backward, of->self[LAM_BACKWARD]);
}

static lam_status add_device_times(const lam_model *m, lmi_measure *all, lmi_packet *p, lam_error *e) {
    lam_times *t;
    lam_time of;
    LAM_TRY(lam_device_times_new(&t, m, e));
    p->device_backward = passes_of(t);
    p->device_forward = 0;
    for (int32_t i = 0; i < lam_model_n_places(m); i++) {
        all[i].device_forward = all[i].device_self = all[i].device_recompute = 0;
        if (p->device_backward >= 0) all[i].device_backward = 0;
    }
    for (int32_t i = 0; i < lam_model_n_events(m); i++)
        if (lam_times_event(t, i, &of))
            add_device_call(m, lam_model_event(m, i), &of, p->device_backward >= 0,
                            &all[lam_model_event(m, i)->place], p);
    lam_times_free(t);
    return LAM_OK;
}

static lam_status add_memory(const lam_model *m, bool device, lmi_measure *all, lmi_packet *p, lam_error *e) {
    lam_memory *y;
    LAM_TRY(device ? lam_device_memory_new(&y, m, e) : lam_memory_new(&y, m, e));
    *(device ? &p->device_peak : &p->peak) = lam_memory_total(y)->peak;
    for (int32_t i = 0; i < lam_model_n_places(m); i++) {
        const lam_memory_row *row = lam_memory_place(y, i);
        if (!row) continue;
        *(device ? &all[i].device_retained : &all[i].retained) = row->own[LAM_FORWARD].retained;
        *(device ? &all[i].device_peak : &all[i].peak) = row->total[LAM_FORWARD].peak;
        if (device) continue;
        all[i].allocated = 0;
        for (int phase = 0; phase < LAM_N_PHASES; phase++) add(&all[i].allocated, row->own[phase].allocated);
    }
    lam_memory_free(y);
    return LAM_OK;
}

/* Counts the values that are not finite in a layer's results and in the gradients of its outputs. */
static void add_bad(const lam_model *m, lmi_measure *all) {
    for (int32_t i = 0; i < lam_model_n_places(m); i++)
        if (all[i].calls > 0) all[i].nan = all[i].inf = 0;
    for (int32_t i = 0; i < lam_model_n_bad(m); i++) {
        const lam_bad *bad = lam_model_bad(m, i);
        const lam_event *e = lam_model_event(m, bad->call);
        if (e && bad->side == LAM_BAD_UNSEEN) all[e->place].nan = all[e->place].inf = UNKNOWN;
        bool gave = bad->side == LAM_BAD_OUTPUT || bad->side == LAM_BAD_WRITTEN;
        if (!e || (!gave && bad->side != LAM_BAD_GRAD_OUTPUT)) continue;
        add(&all[e->place].nan, bad->found.nan);
        add(&all[e->place].inf, bad->found.inf);
    }
}

static lam_status add_health(const lam_model *m, lmi_measure *all, lmi_packet *p, lam_error *e) {
    lam_health *h;
    LAM_TRY(lam_health_new(&h, m, e));
    const lam_finding *first = lam_health_finding(h, 0);
    p->looked = first || lam_model_checked(m)->tensors > 0;
    if (first) {
        const char *kind = first->bad >= 0 ? lam_bad_kind(lam_model_bad(m, first->bad)) : NULL;
        p->first_bad = first->input ? UNKNOWN : first->place; /* an input of the model is made by no layer */
        p->bad = lmi_strdup(&p->arena, kind ? kind : "check");
    }
    lam_health_free(h);
    add_bad(m, all);
    return first && !p->bad ? lmi_nomem(e) : LAM_OK;
}

/* -- all of it --------------------------------------------------------------------------------- */

static void start_row(lmi_measure *at, int32_t place, int32_t compiled) {
    *at = (lmi_measure){.place = place};
    at->backward = at->allocated = at->retained = at->peak = at->nan = at->inf = UNKNOWN;
    at->device_forward = at->device_self = at->device_backward = at->device_recompute = UNKNOWN;
    at->device_retained = at->device_peak = UNKNOWN;
    at->regions = compiled < 0 ? UNKNOWN : 0;
}

static lam_status add_measured(const lam_model *m, lmi_measure *all, lmi_packet *p, lam_error *e) {
    if (lam_model_timed(m)) LAM_TRY(add_times(m, all, p, e));
    if (lam_model_device_timed(m)) LAM_TRY(add_device_times(m, all, p, e));
    if (lam_model_memory_seen(m)) LAM_TRY(add_memory(m, false, all, p, e));
    if (lam_model_device_memory_seen(m)) LAM_TRY(add_memory(m, true, all, p, e));
    return lam_model_checked(m) ? add_health(m, all, p, e) : LAM_OK;
}

static bool has_something(const lmi_measure *at) {
    return at->calls > 0 || at->recompute > 0 || at->backward > 0;
}

lmi_packet *lmi_packet_step(const lam_model *m, const lam_step_info *info) {
    lmi_packet *p = packet_new();
    int32_t n = lam_model_n_places(m);
    lmi_measure *all = p ? lmi_alloc(&p->arena, (uint64_t)n, sizeof *all) : NULL;
    if (!all) {
        lmi_packet_free(p);
        return NULL;
    }
    p->number = info->number;
    p->unix_ns = info->unix_ns;
    p->t0_ns = info->t0_ns;
    p->training = info->training;
    p->gradients = info->gradients;
    p->compiled = info->compiled;
    p->backward = p->peak = p->first_bad = UNKNOWN;
    p->device_forward = p->device_backward = p->device_peak = UNKNOWN;
    p->whole = info->t1_ns > info->t0_ns ? info->t1_ns - info->t0_ns : UNKNOWN;
    p->work = info->work;
    p->processor_wait = p->whole < 0 || info->processor_wait_ns < 0 ? UNKNOWN : info->processor_wait_ns;
    /* 0 is known only where torch records collectives, or where there can be none. */
    const bool known = info->alone || info->spans_seen & UINT32_C(1) << LAM_SPAN_COLLECTIVE;
    p->collectives = known && p->whole >= 0 && info->collectives >= 0 ? info->collectives : UNKNOWN;
    p->collectives_hash = p->collectives < 0 ? UNKNOWN : info->collectives_hash;
    p->rows = all;
    for (int32_t i = 0; i < n; i++) start_row(&all[i], i, info->compiled);
    for (int32_t i = 0; i < lam_model_n_events(m); i++) add_call(m, lam_model_event(m, i), all, p);
    lam_error e = {0};
    if (add_measured(m, all, p, &e) != LAM_OK || take_waits(m, info, all, &e) != LAM_OK ||
        lmi_step_phases(m, info, p->phases, &e) != LAM_OK) {
        lmi_packet_free(p);
        return NULL;
    }
    for (int32_t i = 0; i < n; i++)
        if (has_something(&all[i])) all[p->n_rows++] = all[i];
    return p;
}
