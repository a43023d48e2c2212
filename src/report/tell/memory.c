/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory in a run: of the host, and of a device, of which less is known. */
#include "report/tell/tell.h"

#include "analyse/run/course.h"
#include "analyse/run/memory.h"

static void tell_use(lmi_teller *t, const char *name, const lam_memory_use *use) {
    tell_record(t, name);
    tell_int(t, "allocated", use->allocated);
    tell_int(t, "freed", use->freed);
    tell_int(t, "retained", use->retained);
    tell_int(t, "peak", use->peak);
    tell_end(t);
}

static void tell_uses(lmi_teller *t, const char *name, const lam_memory *y, const lam_memory_use *use) {
    tell_object(t, name);
    for (int p = 0; p < LAM_N_PHASES; p++) {
        if (lmi_memory_tells(y, (lam_phase)p))
            tell_use(t, lam_phase_name((lam_phase)p), &use[p]);
        else
            tell_none(t, lam_phase_name((lam_phase)p));
    }
    tell_end(t);
}

static void tell_row(lmi_teller *t, const lam_memory *y, const lam_memory_row *row) {
    tell_uses(t, "own", y, row->own);
    tell_uses(t, "total", y, row->total);
}

/* What a backward held is part of the unknown contents if only the forward's memory is known. */
static void tell_held(lmi_teller *t, const char *name, const lam_memory *y, const int64_t held[LAM_N_HELD]) {
    tell_object(t, name);
    for (int h = 0; h < LAM_N_HELD; h++) {
        bool shown = h != LAM_HELD_BACKWARD || !y->total.info.forward_only;
        if (t->brief ? held[h] != 0 : shown) tell_int(t, lam_held_name((lam_held)h), held[h]);
    }
    tell_end(t);
}

static bool holds_any(const int64_t held[LAM_N_HELD]) {
    for (int h = 0; h < LAM_N_HELD; h++)
        if (held[h]) return true;
    return false;
}

static void tell_place(lmi_teller *t, const lam_memory *y, int32_t i) {
    const lam_place *p = &y->m->places[i];
    const int64_t *held = lam_memory_held(y, i);
    if (t->brief && !holds_any(held)) return;
    tell_object(t, NULL);
    tell_text(t, "path", p->path);
    if (!t->brief) {
        tell_text(t, "type", y->m->modules[p->module].type);
        tell_int(t, "calls", p->n_calls);
        tell_row(t, y, lam_memory_place(y, i));
    }
    if (held) tell_held(t, "held", y, held);
    if (held && !t->brief) tell_held(t, "held_below", y, lam_memory_held_below(y, i));
    tell_end(t);
}

/* Writes fields of the host's memory only. */
static void tell_holders(lmi_teller *t, const lam_memory *y) {
    const lam_memory_totals *x = &y->total;
    if (!t->brief) tell_int(t, "old_gradients", x->old_gradients);
    tell_object(t, "rss");
    tell_known(t, "open", x->info.rss_open);
    tell_known(t, "peak", x->info.rss_peak);
    tell_known(t, "close", x->info.rss_close);
    tell_end(t);
    tell_held(t, "held", y, x->held);
    tell_held(t, "unplaced", y, y->unplaced);
}

/* -- over time ------------------------------------------------------------------------------------------- */

enum { POINTS = 600, US = 1000 };

/* Microseconds after the run began. An unknown moment is the one before it; the first is not later than the
 * run's beginning. */
static int64_t moment(int64_t began, int64_t t_ns, int64_t before) {
    return t_ns ? (t_ns - began) / US : before;
}

static int64_t first_moment(const lam_memory *y, int64_t began) {
    lam_memory_point p = {0};
    for (int32_t i = 0; !p.t_ns && lam_memory_at(y, POINTS, i, &p, NULL) == LAM_OK;) i++;
    int64_t us = moment(began, p.t_ns, 0);
    return us < 0 ? us : 0;
}

static void tell_parts(lmi_teller *t, const lam_memory *y) {
    int64_t held[LAM_N_HELD];
    tell_object(t, "course_held");
    for (int h = 0; h < LAM_N_HELD; h++) {
        bool any = false;
        for (int32_t i = 0; !any && lam_memory_held_at(y, POINTS, i, held, NULL) == LAM_OK; i++)
            any = held[h] != 0;
        if (!any) continue;
        tell_list(t, lam_held_name((lam_held)h));
        for (int32_t i = 0; lam_memory_held_at(y, POINTS, i, held, NULL) == LAM_OK; i++)
            tell_int(t, NULL, held[h]);
        tell_list_end(t);
    }
    tell_end(t);
}

static void tell_course(lmi_teller *t, const lam_memory *y) {
    lam_memory_point p;
    int64_t began = lmi_run_began(y->m), us = first_moment(y, began);
    tell_list(t, "course");
    for (int32_t i = 0; lam_memory_at(y, POINTS, i, &p, NULL) == LAM_OK; i++) {
        us = moment(began, p.t_ns, us);
        lmi_tell_pair(t, NULL, us, p.bytes);
    }
    tell_list_end(t);
    tell_parts(t, y);
}

void lmi_span_fields(lmi_teller *t, const lam_model *m, const lmi_vec *spans, int32_t call) {
    const lam_event *ev = lam_model_event(m, call);
    int64_t began = lmi_run_began(m);
    if (ev && ev->t1_ns)
        lmi_tell_pair(t, "span", (ev->t0_ns - began) / US, (ev->t1_ns - began) / US);
    else
        tell_none(t, "span");
    tell_list(t, "backward_spans");
    for (size_t i = ev ? lmi_first_span(spans, call) : spans->n; i < spans->n; i++) {
        const lmi_work_span *s = (const lmi_work_span *)spans->data + i;
        if (s->call != call) break;
        lmi_tell_pair(t, NULL, (s->t0 - began) / US, (s->t1 - began) / US);
    }
    tell_list_end(t);
}

void lmi_memory_fields(lmi_teller *t, const char *name, const lam_memory *y) {
    const lam_memory_totals *x = &y->total;
    bool host = !y->by_device;
    tell_object(t, name);
    tell_text(t, "source", x->info.source);
    tell_int(t, "peak", x->peak);
    tell_int(t, "peak_allocated", x->peak_allocated);
    tell_int(t, "allocated", x->allocated);
    tell_int(t, "freed", x->freed);
    tell_int(t, "before", x->before);
    if (host) tell_int(t, "elsewhere", x->elsewhere);
    tell_text(t, "peak_in", lmi_path_of_call(y->m, x->peak_call));
    tell_text(t, "peak_phase", lmi_peak_phase(x));
    if (host) tell_holders(t, y);
    if (host || !t->brief) {
        tell_list(t, "places");
        for (int32_t i = 0; i < y->m->n_places; i++) tell_place(t, y, i);
        tell_list_end(t);
    }
    if (host && t->brief) tell_course(t, y);
    tell_end(t);
}

void lmi_memory_call_fields(lmi_teller *t, const char *name, const lam_memory *y, int32_t call) {
    const lam_memory_row *row = lam_memory_call(y, call);
    if (!row) {
        tell_none(t, name);
        return;
    }
    tell_object(t, name);
    tell_row(t, y, row);
    tell_end(t);
}

void lam_memory_tell(const lam_memory *y, lam_receiver to) {
    lmi_teller t = lmi_tell_to(to);
    lmi_memory_fields(&t, NULL, y);
}
