/* SPDX-License-Identifier: Apache-2.0
 *
 * The place of a call. A call has a module and a call around it; if the module has several places, this file
 * chooses one of them. */
#include "model/builder.h"

/* Places in the order of the tree, parents first, which may differ from the order of pushing. */
typedef struct tree {
    int32_t *first;      /* number of a place in that order */
    int32_t *after;      /* one past the number of the last place below it */
    int32_t *order;      /* the place of a number */
    lmi_groups holding;  /* per module: the numbers of its places, ascending */
    int32_t *twin;       /* the next child of the same parent that holds the same module; -1 none */
    lmi_map child, last; /* (place, module) -> its first such child; (call, module) -> the place used last */
} tree;

/* Parents are pushed before children, so a backward loop sums the sizes and a forward loop assigns
 * numbers. */
static bool number_places(tree *t, lmi_arena *scratch, const lam_model *m) {
    int32_t n = m->n_places, *free_number = lmi_alloc(scratch, (uint64_t)n, sizeof *free_number);
    t->first = lmi_alloc(scratch, (uint64_t)n, sizeof *t->first);
    t->after = lmi_alloc(scratch, (uint64_t)n, sizeof *t->after);
    t->order = lmi_alloc(scratch, (uint64_t)n, sizeof *t->order);
    int32_t *modules = lmi_alloc(scratch, (uint64_t)n, sizeof *modules);
    if (!free_number || !t->first || !t->after || !t->order || !modules) return false;
    for (int32_t i = n - 1; i >= 0; i--) {
        t->after[i]++; /* the size of the subtree, until numbers are known */
        if (i > 0) t->after[m->places[i].parent] += t->after[i];
    }
    for (int32_t i = 0; i < n; i++) {
        int32_t up = m->places[i].parent, size = t->after[i];
        t->first[i] = up < 0 ? 0 : free_number[up];
        if (up >= 0) free_number[up] += size;
        free_number[i] = t->first[i] + 1;
        t->after[i] = t->first[i] + size;
        t->order[t->first[i]] = i;
    }
    for (int32_t i = 0; i < n; i++) modules[i] = m->places[t->order[i]].module;
    return lmi_group_by(scratch, modules, n, m->n_modules, &t->holding);
}

static uint64_t pair(int32_t a, int32_t b) { return (uint64_t)(uint32_t)a << 32 | (uint32_t)b; }

/* Links the children of one parent that hold the same module, first to last. */
static lam_status link_twins(tree *t, lmi_arena *scratch, const lam_model *m, lam_error *e) {
    t->twin = lmi_alloc(scratch, (uint64_t)m->n_places, sizeof *t->twin);
    if (!t->twin) return lmi_nomem(e);
    for (int32_t i = m->n_places - 1; i > 0; i--) {
        const lam_place *p = &m->places[i];
        t->twin[i] = -1;
        if (m->modules[p->module].n_places == 1) continue;
        uint64_t key = pair(p->parent, p->module);
        t->twin[i] = (int32_t)lmi_map_get_u64(&t->child, key);
        LAM_TRY(lmi_map_put_u64(&t->child, key, i, e));
    }
    return LAM_OK;
}

/* The k-th call of a module from one call is at its k-th child place there; all further calls are at the last
 * one. */
static lam_status among_twins(tree *t, int32_t parent, int32_t module, int32_t *place, lam_error *e) {
    if (t->twin[*place] < 0) return LAM_OK;
    uint64_t key = pair(parent, module);
    int32_t last = (int32_t)lmi_map_get_u64(&t->last, key);
    if (last >= 0) *place = t->twin[last] >= 0 ? t->twin[last] : last;
    return lmi_map_put_u64(&t->last, key, *place, e);
}

/* The first place of `module` at or below the nearest ancestor of `from` that has one. */
static int32_t nearest(const tree *t, const lam_model *m, int32_t from, int32_t module) {
    const int32_t *numbers = t->holding.order + t->holding.start[module];
    size_t n = (size_t)m->modules[module].n_places;
    for (int32_t up = from; up > 0; up = m->places[up].parent) {
        size_t i = lmi_lower_bound(numbers, n, sizeof *numbers, t->first[up]);
        if (i < n && numbers[i] < t->after[up]) return t->order[numbers[i]];
    }
    return t->order[numbers[0]]; /* the module's first place in the tree */
}

/* Finds the place of a call. `t` NULL: no module has several places. */
static lam_status place_call(tree *t, lam_model *m, lam_event *c, lam_error *e) {
    const lam_module *mod = &m->modules[c->module];
    if (mod->n_places == 0) {
        return lmi_fail(e, LAM_RANGE, mod->type,
                        "it was called but has no place in the tree; push its place");
    }
    c->place = mod->places[0];
    if (!t || mod->n_places == 1 || c->parent < 0) return LAM_OK;
    int32_t from = m->events[c->parent].place;
    int64_t child = lmi_map_get_u64(&t->child, pair(from, c->module));
    c->place = child >= 0 ? (int32_t)child : nearest(t, m, from, c->module);
    return child >= 0 ? among_twins(t, c->parent, c->module, &c->place, e) : LAM_OK;
}

static lam_status place_all(tree *t, lam_model *m, lam_error *e) {
    for (int32_t i = 0; i < m->n_events; i++) {
        lam_event *c = &m->events[i];
        LAM_TRY(place_call(t, m, c, e));
        c->ordinal = m->modules[c->module].n_calls++;
        m->places[c->place].n_calls++;
        if (c->parent >= 0) m->events[c->parent].n_children_called++;
    }
    return LAM_OK;
}

/* What no source observed may have run inside something that shows no calls: so is all of a model that is
 * only described. A call of an opaque module without calls in it hides those of the modules below, and so
 * does one that ran compiled code. */
static lam_status find_inside(lam_model *m, lmi_arena *scratch, lam_error *e) {
    bool any = false;
    for (int32_t i = 0; m->described && i < m->n_modules; i++) m->modules[i].flags |= LAM_MODULE_INSIDE;
    for (int32_t i = 0; i < m->n_modules && !any; i++) any = m->modules[i].flags & LAM_MODULE_OPAQUE;
    for (int32_t i = 0; i < m->n_ops && !any; i++) any = m->ops[i].flags & LAM_OP_HIDES;
    if (!any) return LAM_OK;
    bool *hides = lmi_alloc(scratch, (uint64_t)m->n_modules, sizeof *hides);
    bool *inside = lmi_alloc(scratch, (uint64_t)m->n_places, sizeof *inside);
    if (!hides || !inside) return lmi_nomem(e);
    for (int32_t i = 0; i < m->n_events; i++) {
        const lam_event *c = &m->events[i];
        if ((m->modules[c->module].flags & LAM_MODULE_OPAQUE) && c->n_children_called == 0)
            hides[c->module] = true;
    }
    for (int32_t i = 0; i < m->n_ops; i++)
        if ((m->ops[i].flags & LAM_OP_HIDES) && m->ops[i].call >= 0)
            hides[m->events[m->ops[i].call].module] = true;
    for (int32_t i = 0; i < m->n_places; i++) {
        const lam_place *p = &m->places[i];
        inside[i] = p->parent >= 0 && (inside[p->parent] || hides[m->places[p->parent].module]);
        if (inside[i] && m->modules[p->module].n_calls == 0) m->modules[p->module].flags |= LAM_MODULE_INSIDE;
    }
    return LAM_OK;
}

lam_status lmi_place_calls(lam_model *m, lmi_arena *scratch, lam_error *e) {
    tree t = {0};
    bool shared = false;
    for (int32_t i = 0; i < m->n_modules; i++) shared = shared || m->modules[i].n_places > 1;
    lam_status s = LAM_OK;
    if (shared) s = number_places(&t, scratch, m) ? link_twins(&t, scratch, m, e) : lmi_nomem(e);
    if (s == LAM_OK) s = place_all(shared ? &t : NULL, m, e);
    if (s == LAM_OK) s = find_inside(m, scratch, e);
    lmi_map_free(&t.child);
    lmi_map_free(&t.last);
    return s;
}
