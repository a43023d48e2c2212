/* SPDX-License-Identifier: Apache-2.0
 *
 * The tree of places: depth-first positions, subtree sizes and common ancestors. Parents have smaller indices
 * than their children, so a forward and a backward loop replace recursion. */
#include "analyse/tree/tree.h"

static lam_status allocate(lmi_tree *t, const lam_model *m, lmi_arena *a, lam_error *e) {
    uint64_t n = (uint64_t)m->n_places;
    t->pre = lmi_alloc(a, n, sizeof *t->pre);
    t->order = lmi_alloc_unset(a, n, sizeof *t->order);
    t->size = lmi_alloc(a, n, sizeof *t->size);
    t->first_event = lmi_alloc_unset(a, n, sizeof *t->first_event);
    t->jump = lmi_alloc(a, n, sizeof *t->jump);
    t->live = lmi_alloc(a, n, sizeof *t->live);
    if (!t->pre || !t->order || !t->size || !t->first_event || !t->jump || !t->live) return lmi_nomem(e);
    return LAM_OK;
}

static void sizes_and_life(const lam_model *m, lmi_tree *t) {
    for (int32_t i = m->n_places - 1; i >= 0; i--) {
        const lam_place *p = &m->places[i];
        t->size[i] += 1;
        t->live[i] = t->live[i] || p->n_calls > 0;
        t->first_event[i] = -1;
        if (p->parent < 0) continue;
        t->size[p->parent] += t->size[i];
        t->live[p->parent] = t->live[p->parent] || t->live[i];
    }
}

static void positions(const lam_model *m, lmi_tree *t) {
    for (int32_t i = 0; i < m->n_places; i++) { /* the root is at 0 */
        const lam_place *p = &m->places[i];
        t->order[t->pre[i]] = i;
        int32_t at = t->pre[i] + 1;
        for (int32_t k = 0; k < p->n_children; k++) {
            t->pre[p->children[k]] = at;
            at += t->size[p->children[k]];
        }
    }
}

/* Jump pointers (Myers, "An applicative random-access stack", 1983): each place knows its parent and one far
 * ancestor, chosen so that any ancestor is reached in O(log depth) steps with one number a place. */
static void jumps(const lam_model *m, lmi_tree *t) {
    const lam_place *p = m->places;
    for (int32_t i = 1; i < m->n_places; i++) { /* the root's is itself */
        int32_t up = p[i].parent, a = t->jump[up], b = t->jump[a];
        t->jump[i] = p[up].depth - p[a].depth == p[a].depth - p[b].depth ? b : up;
    }
}

int32_t lmi_tree_common(const lmi_tree *t, const lam_model *m, int32_t a, int32_t b) {
    const lam_place *p = m->places;
    const int32_t *jump = t->jump;
    if (p[a].depth < p[b].depth) {
        int32_t swap = a;
        a = b;
        b = swap;
    }
    while (p[a].depth > p[b].depth) a = p[jump[a]].depth >= p[b].depth ? jump[a] : p[a].parent;
    while (a != b) {
        bool far = jump[a] != jump[b];
        a = far ? jump[a] : p[a].parent;
        b = far ? jump[b] : p[b].parent;
    }
    return a;
}

lam_status lmi_tree_build(lmi_tree *t, const lam_model *m, lmi_arena *arena, lam_error *e) {
    LAM_TRY(allocate(t, m, arena, e));
    sizes_and_life(m, t);
    positions(m, t);
    jumps(m, t);
    for (int32_t i = m->n_events - 1; i >= 0; i--) t->first_event[m->events[i].place] = i;
    return LAM_OK;
}

lam_status lmi_tree_weigh(const lmi_tree *t, const lam_model *m, lmi_arena *scratch,
                          void (*weigh)(void *self, int32_t place, const lam_tensor *tensor, int sign),
                          void *self, lam_error *e) {
    int32_t *last = lmi_alloc(scratch, (uint64_t)m->n_tensors, sizeof *last); /* place + 1; 0: none yet */
    if (!last) return lmi_nomem(e);
    for (int32_t pos = 0; pos < m->n_places; pos++) {
        int32_t place = t->order[pos];
        const lam_module *mod = &m->modules[m->places[place].module];
        for (int32_t i = 0; i < mod->n_owned; i++) {
            int32_t tensor = mod->owned[i].tensor, before = last[tensor] - 1;
            const lam_tensor *owned = &m->tensors[tensor];
            if ((mod->owned[i].is_buffer && !owned->packed) || before == place) continue;
            weigh(self, place, owned, 1);
            if (before >= 0) weigh(self, lmi_tree_common(t, m, before, place), owned, -1);
            last[tensor] = place + 1;
        }
    }
    return LAM_OK;
}

/* The first run of a repeated call is the last call at its place that is no repetition. `last` 0: there was
 * none, and call 0 has no parent either. */
int32_t *lmi_callers(lmi_arena *arena, const lam_model *m) {
    int32_t *caller = lmi_alloc(arena, (uint64_t)m->n_events, sizeof *caller);
    int32_t *last = lmi_alloc(arena, (uint64_t)m->n_places, sizeof *last);
    if (!caller || !last) return NULL;
    for (int32_t i = 0; i < m->n_events; i++) {
        const lam_event *ev = &m->events[i];
        bool again = ev->flags & LAM_CALL_AGAIN;
        caller[i] = ev->parent < 0 && again ? m->events[last[ev->place]].parent : ev->parent;
        if (!again) last[ev->place] = i;
    }
    return caller;
}
