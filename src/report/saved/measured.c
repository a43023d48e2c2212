/* SPDX-License-Identifier: Apache-2.0
 *
 * What a saved report has of times, memory and health. */
#include "analyse/run/health.h"
#include "analyse/run/memory.h"
#include "analyse/run/times.h"
#include "report/saved/saved.h"

static const char *const phases[LAM_N_PHASES] = {"forward", "backward", "recompute"};

/* -- times ----------------------------------------------------------------------------------------------- */

static lam_status take_spread(const lmi_saved *s, uint32_t at, lam_spread *out) {
    LAM_TRY(lmi_saved_small(s, lmi_saved_get(s, at, "n"), &out->n));
    LAM_TRY(lmi_saved_small(s, lmi_saved_get(s, at, "most_run"), &out->most_run));
    LAM_TRY(lmi_saved_int(s, lmi_saved_get(s, at, "median"), &out->median));
    LAM_TRY(lmi_saved_int(s, lmi_saved_get(s, at, "deviation"), &out->deviation));
    LAM_TRY(lmi_saved_int(s, lmi_saved_get(s, at, "least"), &out->least));
    return lmi_saved_int(s, lmi_saved_get(s, at, "most"), &out->most);
}

static lam_status take_time(const lmi_saved *s, uint32_t at, lam_time *out) {
    for (int p = 0; p < LAM_N_PHASES; p++) {
        const uint32_t of = lmi_saved_get(s, at, phases[p]);
        LAM_TRY(lmi_saved_int(s, lmi_saved_get(s, of, "self"), &out->self[p]));
        LAM_TRY(lmi_saved_int(s, lmi_saved_get(s, of, "total"), &out->total[p]));
    }
    return LAM_OK;
}

static lam_status take_outliers(lmi_saved *s, uint32_t list, lam_times *t) {
    t->outliers = lmi_saved_room(s, lmi_saved_size(s, list), sizeof *t->outliers);
    if (!t->outliers) return lmi_nomem(s->e);
    LMI_JSON_EACH(&s->j, list, i) {
        lam_outlier *o = &t->outliers[t->n_outliers++];
        const uint32_t path = lmi_saved_get(s, i, "path");
        o->place = -1;
        LAM_TRY(lmi_saved_small(s, lmi_saved_get(s, i, "run"), &o->run));
        LAM_TRY(lmi_saved_int(s, lmi_saved_get(s, i, "whole"), &o->whole));
        LAM_TRY(lmi_saved_int(s, lmi_saved_get(s, i, "median"), &o->median));
        LAM_TRY(lmi_saved_int(s, lmi_saved_get(s, i, "late"), &o->late));
        if (lmi_saved_has(s, path)) LAM_TRY(lmi_saved_place(s, path, &o->place));
    }
    return LAM_OK;
}

/* Takes the times of the host, or those below "device" of a device. */
static lam_status take_times(lmi_saved *s, uint32_t at, bool device, lam_times **out) {
    lam_times *t = lmi_saved_room(s, 1, sizeof *t);
    lam_spread *given = lmi_saved_room(s, LAM_N_TIME_PARTS, sizeof *given);
    int64_t *shown = lmi_saved_room(s, LAM_N_TIME_PARTS, sizeof *shown);
    const uint32_t run = lmi_saved_get(s, at, "shown");
    if (!t || !given || !shown) return lmi_nomem(s->e);
    t->m = s->m;
    t->given = given;
    t->given_shown = lmi_saved_has(s, run) ? shown : NULL;
    t->of_event = lmi_saved_room(s, (uint64_t)s->m->n_events, sizeof *t->of_event);
    if (!t->of_event) return lmi_nomem(s->e);
    LAM_TRY(lmi_saved_small(s, lmi_saved_top(s, "time.runs"), &t->slots.n_runs));
    LAM_TRY(lmi_saved_between(s, lmi_saved_get(s, run, "run"), -1, (int64_t)t->slots.n_runs - 1,
                              "is none of its runs", &t->shown));
    for (int p = 0; p < LAM_N_TIME_PARTS; p++) {
        const char *name = lmi_time_part_name((lam_time_part)p);
        LAM_TRY(take_spread(s, lmi_saved_get(s, at, name), &given[p]));
        LAM_TRY(lmi_saved_int(s, lmi_saved_get(s, run, name), &shown[p]));
        bool back = p != LAM_TIME_FORWARD && p != LAM_TIME_WHOLE && given[p].most > 0;
        t->back = t->back || back;
    }
    LMI_SAVED_EACH_CALL(s, row, call) {
        const uint32_t of = lmi_json_find(&s->j, row, device ? "time.device" : "time");
        LAM_TRY(take_time(s, of, &t->of_event[call]));
    }
    *out = t;
    return take_outliers(s, lmi_saved_get(s, at, "outliers"), t);
}

lam_status lmi_saved_times(lmi_saved *s) {
    const uint32_t at = lmi_saved_top(s, "time"), device = lmi_saved_get(s, at, "device");
    if (!lmi_saved_has(s, lmi_saved_get(s, at, "runs"))) return LAM_OK;
    LAM_TRY(take_times(s, at, false, &s->given.costs.times));
    if (lmi_json_is(&s->j, device) != LMI_JSON_OBJECT) return LAM_OK;
    return take_times(s, device, true, &s->given.costs.device_times);
}

/* -- memory ---------------------------------------------------------------------------------------------- */

/* Adds the bytes of each category in an object. */
static lam_status add_held(const lmi_saved *s, uint32_t all, int64_t held[LAM_N_HELD]) {
    LMI_JSON_NAMES(&s->j, all, i) {
        int64_t n, *to = &held[lmi_saved_held_of(lmi_json_as_text(&s->j, i))];
        LAM_TRY(lmi_saved_int(s, i + 1, &n));
        if (n > 0) *to = lmi_add_capped(*to, n);
    }
    return LAM_OK;
}

static lam_status take_uses(const lmi_saved *s, uint32_t at, lam_memory *y,
                            lam_memory_use use[LAM_N_PHASES]) {
    for (int p = 0; p < LAM_N_PHASES; p++) {
        const uint32_t of = lmi_saved_get(s, at, phases[p]);
        lam_memory_use *u = &use[p];
        int64_t *const to[] = {&u->allocated, &u->freed, &u->retained, &u->peak};
        static const char *const names[] = {"allocated", "freed", "retained", "peak"};
        if (!lmi_saved_has(s, of)) continue; /* it is not known of this phase */
        y->back = y->back || p != LAM_FORWARD;
        for (int i = 0; i < 4; i++) {
            const uint32_t bytes = lmi_saved_get(s, of, names[i]);
            if (y->by_device && lmi_json_as_int(&s->j, bytes, to[i])) continue; /* it may have lost some */
            LAM_TRY(lmi_saved_int(s, bytes, to[i]));
            if (*to[i] < 0) *to[i] = 0;
        }
    }
    return LAM_OK;
}

static lam_status take_calls(lmi_saved *s, lam_memory *y) {
    const char *const of = y->by_device ? "device_memory" : "memory";
    y->calls = lmi_saved_room(s, (uint64_t)s->m->n_events, sizeof *y->calls);
    y->places = lmi_saved_room(s, (uint64_t)s->m->n_places, sizeof *y->places);
    y->held = lmi_saved_room(s, (uint64_t)s->m->n_places, sizeof *y->held);
    y->below = lmi_saved_room(s, (uint64_t)s->m->n_places, sizeof *y->below);
    if (!y->calls || !y->places || !y->held || !y->below) return lmi_nomem(s->e);
    LMI_SAVED_EACH_CALL(s, row, call) {
        const uint32_t at = lmi_saved_get(s, row, of);
        if (!lmi_saved_has(s, lmi_json_find(&s->j, at, "own.forward")))
            return lmi_saved_wrong(s, row, "has no memory, which was measured");
        LAM_TRY(take_uses(s, lmi_saved_get(s, at, "own"), y, y->calls[call].own));
        LAM_TRY(take_uses(s, lmi_saved_get(s, at, "total"), y, y->calls[call].total));
    }
    const bool back = y->back;
    lmi_memory_places(y);
    y->back = back;
    return LAM_OK;
}

static lam_status take_held(lmi_saved *s, lam_memory *y) {
    LMI_JSON_EACH(&s->j, lmi_saved_top(s, "memory.places"), i) {
        int32_t place;
        LAM_TRY(lmi_saved_place(s, lmi_saved_get(s, i, "path"), &place));
        LAM_TRY(add_held(s, lmi_saved_get(s, i, "held"), y->held[place]));
    }
    for (int32_t i = s->m->n_places - 1; i >= 0; i--) {
        const int32_t up = s->m->places[i].parent;
        for (int h = 0; h < LAM_N_HELD; h++) {
            y->below[i][h] = lmi_add_capped(y->below[i][h], y->held[i][h]);
            if (up >= 0) y->below[up][h] = lmi_add_capped(y->below[up][h], y->below[i][h]);
        }
    }
    return LAM_OK;
}

/* Takes what had the most memory: a call of the place, in a phase. */
static lam_status take_peak(const lmi_saved *s, uint32_t at, lam_memory_totals *y) {
    const uint32_t phase = lmi_saved_get(s, at, "peak_phase"), in = lmi_saved_get(s, at, "peak_in");
    int32_t place;
    y->peak_call = -1;
    y->peak_order = lmi_saved_has(s, phase); /* the peak came after the beginning, in a known phase */
    if (y->peak_order) LAM_TRY(lmi_saved_phase(s, phase, &y->peak_phase));
    if (!lmi_saved_has(s, in)) return LAM_OK;
    LAM_TRY(lmi_saved_place(s, in, &place));
    for (int32_t i = s->m->n_events - 1; i >= 0; i--)
        if (s->m->events[i].place == place) y->peak_call = i;
    return LAM_OK;
}

static lam_status take_memory(lmi_saved *s, const char *name, lam_memory **out) {
    const uint32_t at = lmi_saved_top(s, name);
    lam_memory *y = lmi_saved_room(s, 1, sizeof *y);
    if (!y) return lmi_nomem(s->e);
    lam_memory_totals *t = &y->total;
    int64_t *const to[] = {&t->peak, &t->before, &t->peak_allocated, &t->allocated, &t->freed, &t->elsewhere};
    static const char *const names[] = {"peak",      "before", "peak_allocated",
                                        "allocated", "freed",  "elsewhere"};
    y->m = s->m;
    y->by_device = out == &s->given.device_memory;
    for (int i = 0; i < 6; i++) LAM_TRY(lmi_saved_int(s, lmi_saved_get(s, at, names[i]), to[i]));
    LAM_TRY(take_peak(s, at, t));
    LAM_TRY(add_held(s, lmi_saved_get(s, at, "held"), t->held));
    LAM_TRY(add_held(s, lmi_saved_get(s, at, "unplaced"), y->unplaced));
    LAM_TRY(take_calls(s, y));
    if (!y->by_device) LAM_TRY(take_held(s, y));
    *out = y;
    return LAM_OK;
}

lam_status lmi_saved_memory(lmi_saved *s) {
    if (lam_model_memory_seen(s->m)) LAM_TRY(take_memory(s, "memory", &s->given.memory));
    s->m->device_given = lmi_saved_has(s, lmi_saved_top(s, "device_memory.peak"));
    return s->m->device_given ? take_memory(s, "device_memory", &s->given.device_memory) : LAM_OK;
}

/* -- health ---------------------------------------------------------------------------------------------- */

static uint8_t state_of(const lmi_saved *s, uint32_t name) {
    for (int i = LAM_HEALTH_UNKNOWN; i <= LAM_HEALTH_BORN; i++)
        if (lmi_json_equals(&s->j, name, lam_health_name((lam_health_state)i))) return (uint8_t)i;
    return LAM_HEALTH_UNKNOWN;
}

static lam_status take_finding(const lmi_saved *s, uint32_t at, lam_finding *f) {
    const uint32_t phase = lmi_saved_get(s, at, "phase"), path = lmi_saved_get(s, at, "path");
    uint8_t p = LAM_FORWARD;
    *f = (lam_finding){.bad = -1, .call = -1, .place = -1, .before = -1, .after = -1};
    LAM_TRY(lmi_saved_word(s, lmi_saved_get(s, at, "text"), &f->text));
    LAM_TRY(lmi_saved_truth(s, lmi_saved_get(s, at, "own"), &f->own));
    LAM_TRY(lmi_saved_truth(s, lmi_saved_get(s, at, "input"), &f->input));
    if (lmi_saved_has(s, phase)) LAM_TRY(lmi_saved_phase(s, phase, &p));
    f->phase = (lam_phase)p;
    return lmi_saved_has(s, path) ? lmi_saved_place(s, path, &f->place) : LAM_OK;
}

static lam_status take_findings(lmi_saved *s, uint32_t list, lmi_vec *out) {
    const uint32_t n = lmi_saved_size(s, list);
    lam_finding *all = lmi_saved_room(s, n, sizeof *all);
    if (!all) return lmi_nomem(s->e);
    *out = (lmi_vec){.data = all, .n = n, .cap = n, .size = sizeof *all};
    LMI_JSON_EACH(&s->j, list, i) LAM_TRY(take_finding(s, i, all++));
    return LAM_OK;
}

static const char *const health_paths[2] = {"health.forward", "health.backward"};

/* The states of places of a file, by their rows. */
static void take_places(const lmi_saved *s, lam_health *h) {
    int32_t n = 0;
    LMI_JSON_EACH(&s->j, s->rows, row) {
        const int32_t place = s->row_place[n++];
        for (int p = 0; p < 2; p++)
            h->places[p][place] = state_of(s, lmi_json_find(&s->j, row, health_paths[p]));
    }
}

lam_status lmi_saved_health(lmi_saved *s) {
    if (!lam_model_checked(s->m)) return LAM_OK;
    lam_health *h = lmi_saved_room(s, 1, sizeof *h);
    if (!h) return lmi_nomem(s->e);
    h->m = s->m;
    h->forward = lmi_saved_room(s, (uint64_t)s->m->n_events, 1);
    h->backward = lmi_saved_room(s, (uint64_t)s->m->n_events, 1);
    for (int p = 0; p < 2; p++) h->places[p] = lmi_saved_room(s, (uint64_t)s->m->n_places, 1);
    if (!h->forward || !h->backward || !h->places[0] || !h->places[1]) return lmi_nomem(s->e);
    LMI_SAVED_EACH_CALL(s, row, call) {
        for (int p = 0; p < 2; p++)
            (p ? h->backward : h->forward)[call] = state_of(s, lmi_json_find(&s->j, row, health_paths[p]));
    }
    lmi_health_places(h);
    if (lmi_of_weights(s->m)) take_places(s, h);
    s->given.health = h;
    LAM_TRY(lmi_saved_word(s, lmi_saved_top(s, "health.sentence"), &h->sentence));
    return take_findings(s, lmi_saved_top(s, "health.findings"), &h->findings);
}
