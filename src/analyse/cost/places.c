/* SPDX-License-Identifier: Apache-2.0
 *
 * Places that have a row although no call was made at them: layers that were never called, so that their
 * parameters are shown, and containers that hold tensors but are not called themselves. */
#include "analyse/cost/work.h"

typedef struct scan {
    bool *holds;       /* the subtree owns tensors */
    bool *alias;       /* nothing ran here, but the module ran elsewhere or has an earlier place */
    int32_t *first_in; /* first event at or below the place, -1 none */
    int32_t *last_in;  /* last event inside the first calls at or below the place, -1 none */
    int32_t *end;      /* per event: last event inside it */
    int32_t *after_tail, *before_tail;
} scan;

static lam_status allocate(lmi_work *w, lmi_spare *s, scan *k, lam_error *e) {
    int32_t places = w->m->n_places, events = w->m->n_events;
    s->shown = lmi_alloc(&w->scratch, (uint64_t)places, sizeof *s->shown);
    s->unit = lmi_alloc_none(&w->scratch, places);
    s->next = lmi_alloc_none(&w->scratch, places);
    s->after = lmi_alloc_none(&w->scratch, events);
    s->before = lmi_alloc_none(&w->scratch, events);
    k->holds = lmi_alloc(&w->scratch, (uint64_t)places, sizeof *k->holds);
    k->alias = lmi_alloc(&w->scratch, (uint64_t)places, sizeof *k->alias);
    k->first_in = lmi_alloc_none(&w->scratch, places);
    k->last_in = lmi_alloc_none(&w->scratch, places);
    k->end = lmi_alloc_none(&w->scratch, events);
    k->after_tail = lmi_alloc_none(&w->scratch, events);
    k->before_tail = lmi_alloc_none(&w->scratch, events);
    bool ok = s->shown && s->unit && s->next && s->after && s->before && k->holds && k->alias &&
              k->first_in && k->last_in && k->end && k->after_tail && k->before_tail;
    return ok ? LAM_OK : lmi_nomem(e);
}

static void measure_events(const lmi_work *w, scan *k) {
    for (int32_t i = w->m->n_events - 1; i >= 0; i--) {
        int32_t parent = w->m->events[i].parent;
        if (k->end[i] < i) k->end[i] = i;
        if (parent >= 0 && k->end[parent] < k->end[i]) k->end[parent] = k->end[i];
    }
}

static void measure_places(const lmi_work *w, const lmi_spare *s, scan *k) {
    for (int32_t i = w->m->n_places - 1; i >= 0; i--) {
        const lam_place *p = &w->m->places[i];
        int32_t first = w->tree.first_event[i];
        if (first >= 0) {
            k->last_in[i] = k->end[first];
            if (k->first_in[i] < 0 || first < k->first_in[i]) k->first_in[i] = first;
        }
        k->holds[i] = k->holds[i] || w->m->modules[p->module].n_owned > 0;
        if (p->parent < 0) continue;
        int32_t up = p->parent;
        k->holds[up] = k->holds[up] || k->holds[i];
        if (k->first_in[i] >= 0 && (k->first_in[up] < 0 || k->first_in[i] < k->first_in[up]))
            k->first_in[up] = k->first_in[i];
        if (k->last_in[i] > k->last_in[up]) k->last_in[up] = k->last_in[i];
    }
    for (int32_t i = 0; i < w->m->n_places; i++) {
        const lam_place *p = &w->m->places[i];
        const lam_module *mod = &w->m->modules[p->module];
        s->unit[i] = p->n_calls > 0 ? i : p->parent >= 0 ? s->unit[p->parent] : -1;
        bool seen = p->parent < 0 || w->tree.live[p->parent] || k->alias[p->parent];
        k->alias[i] = seen && !w->tree.live[i] && (mod->n_calls > 0 || mod->places[0] != i);
    }
}

/* True for a layer with a rule. If operators are counted, calls have no rules; the kind of the layer
 * decides. */
static bool is_known_layer(const lmi_work *w, int32_t event) {
    const lmi_call_cost *p = &w->c->prices[event];
    if (!lmi_by_ops(w->c)) return p->counted && p->rule;
    lmi_kind kind = lmi_word_kind(w->m->modules[w->m->events[event].module].word);
    return p->counted && kind < LMI_N_KINDS && lmi_kind_family(kind) != LMI_F_hold;
}

bool lmi_covers(const lmi_work *w, int32_t place) {
    int32_t event = w->tree.first_event[place];
    return event >= 0 && w->m->events[event].n_children_called == 0 && is_known_layer(w, event);
}

/* True for the topmost place of a part that never ran. A part without tensors is shown only if its parent
 * ran. Aliases are ignored when the places under them are examined. */
static bool never_ran(const lmi_work *w, const lmi_spare *s, const scan *k, int32_t i) {
    const lam_place *p = &w->m->places[i];
    if (w->tree.live[i] || k->alias[i]) return false;
    if (p->parent < 0) return true;
    if (!w->tree.live[p->parent] && !k->alias[p->parent]) return false;
    int32_t unit = s->unit[i];
    if (unit >= 0 && lmi_covers(w, unit)) return false;
    return k->holds[i] || (unit == p->parent && !lmi_plain_holder(&w->m->modules[p->module]));
}

static bool holds_uncalled(const lmi_work *w, int32_t i) {
    const lam_place *p = &w->m->places[i];
    const lam_module *mod = &w->m->modules[p->module];
    return w->tree.live[i] && mod->n_calls == 0 && mod->n_owned > 0 && mod->places[0] == i;
}

static void append(const lmi_spare *s, int32_t *head, int32_t *tail, int32_t event, int32_t place) {
    if (head[event] < 0)
        head[event] = place;
    else
        s->next[tail[event]] = place;
    tail[event] = place;
}

/* Puts each child that never ran after its previous sibling, or directly under its parent. */
static void place_children(const lmi_work *w, const lmi_spare *s, const scan *k, int32_t parent) {
    const lam_place *p = &w->m->places[parent];
    int32_t at = w->tree.first_event[parent];
    int32_t end = at < 0 ? w->m->n_events - 1 : k->end[at];
    for (int32_t i = 0; i < p->n_children; i++) {
        int32_t child = p->children[i];
        int32_t last = k->last_in[child];
        if (w->tree.live[child]) {
            if (last > at && last <= end) at = last;
        } else if (s->shown[child] && at >= 0) {
            append(s, s->after, k->after_tail, at, child);
        } else if (s->shown[child]) {
            append(s, s->before, k->before_tail, k->first_in[parent], child);
        }
    }
}

static void place_under_alias(const lmi_work *w, const lmi_spare *s, const scan *k, int32_t i) {
    int32_t unit = s->unit[i];
    if (unit >= 0)
        append(s, s->after, k->after_tail, w->tree.first_event[unit], i);
    else if (w->tree.live[0])
        append(s, s->before, k->before_tail, k->first_in[0], i);
}

static void place_all(const lmi_work *w, const lmi_spare *s, const scan *k) {
    for (int32_t pos = 0; pos < w->m->n_places; pos++) {
        int32_t i = w->tree.order[pos];
        int32_t parent = w->m->places[i].parent;
        if (s->shown[i] && parent >= 0 && k->alias[parent]) place_under_alias(w, s, k, i);
        if (s->shown[i] && w->tree.live[i]) append(s, s->before, k->before_tail, k->first_in[i], i);
        if (w->tree.live[i] && w->tree.first_event[i] < 0) place_children(w, s, k, i);
    }
    /* Deeper parents first: if two parts end at the same call, the inner one ends before the outer one. */
    for (int32_t pos = w->m->n_places - 1; pos >= 0; pos--) {
        int32_t i = w->tree.order[pos];
        if (w->tree.first_event[i] >= 0) place_children(w, s, k, i);
    }
}

/* Of a model that is only described, every place has a row. */
static lam_status show_all(lmi_work *w, lmi_spare *s, lam_error *e) {
    s->n = w->m->n_places;
    s->shown = lmi_alloc(&w->scratch, (uint64_t)s->n, sizeof *s->shown);
    s->next = lmi_alloc_none(&w->scratch, s->n);
    s->after = lmi_alloc_none(&w->scratch, w->m->n_events);
    s->before = lmi_alloc_none(&w->scratch, w->m->n_events);
    if (!s->shown || !s->next || !s->after || !s->before) return lmi_nomem(e);
    for (int32_t pos = 0; pos < s->n; pos++) {
        int32_t i = w->tree.order[pos];
        s->shown[i] = true;
        if (pos) s->next[w->tree.order[pos - 1]] = i;
    }
    return LAM_OK;
}

lam_status lmi_spare_find(lmi_work *w, lmi_spare *s, lam_error *e) {
    scan k;
    if (w->m->described) return show_all(w, s, e);
    LAM_TRY(allocate(w, s, &k, e));
    measure_events(w, &k);
    measure_places(w, s, &k);
    s->n = 0;
    for (int32_t i = 0; i < w->m->n_places; i++) {
        s->shown[i] = never_ran(w, s, &k, i) || holds_uncalled(w, i);
        s->n += s->shown[i];
    }
    place_all(w, s, &k);
    return LAM_OK;
}
