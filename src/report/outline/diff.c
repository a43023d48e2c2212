/* SPDX-License-Identifier: Apache-2.0
 *
 * Two outlines as one. Places are matched by their paths; then remaining places whose subtrees have equal
 * types, shapes and counts, as far as both outlines have them (with other inputs, equal types and
 * parameters); then the containers of places matched so, and places of equal paths in these. The union's tree
 * is that of `after`, with each removed place behind the sibling that it followed. */
#include "report/outline/work.h"

#include <string.h>

typedef struct match {
    const lmi_outline *a, *b; /* before, after */
    lmi_arena *arena;
    int32_t *of_a, *of_b;            /* the matching place of the other outline; -1: none */
    uint64_t *key_a, *key_b;         /* of a place's subtree, without the name of its first place */
    lmi_map names;                   /* places of `b` by parent and name */
    bool shapes, counted[LMI_N_OWN]; /* what both have, by the same rules */
    bool other_inputs;               /* other inputs: then shapes and most counts differ */
    lam_error *e;
} match;

/* -- matching -------------------------------------------------------------------------------------------- */

/* Counts that the same layer has in every run. */
static const lmi_own_number counts[] = {LMI_OWN_PARAMS, LMI_OWN_PARAM_BYTES, LMI_OWN_MACS,
                                        LMI_OWN_FLOPS,  LMI_OWN_READ,        LMI_OWN_WRITTEN};
enum { N_COUNTS = sizeof counts / sizeof *counts, N_PARAMETERS = 2 }; /* the first ones are of parameters */

static int64_t own_of(const lmi_outline *o, lmi_own_number k, int32_t i) {
    return o->own[k] ? o->own[k][i] : 0;
}

static lam_state state_at(const lmi_outline *o, lmi_own_number k, int32_t i) {
    return o->state[k] ? (lam_state)o->state[k][i] : LAM_EXACT;
}

/* True if each parameter is in one row: some conventions count a shared one in several rows, or in another
 * row. */
static bool gives_each_once(const lmi_outline *o) {
    return o->params.in_rows.n == o->params.params.n && o->params.in_rows.over == o->params.params.over;
}

bool lmi_outlines_agree(const lmi_outline *a, const lmi_outline *b, lmi_own_number k) {
    bool counted = a->convention && b->convention, alike = counted && !strcmp(a->convention, b->convention);
    if (k == LMI_OWN_PARAMS) return alike || (gives_each_once(a) && gives_each_once(b));
    if (k == LMI_OWN_PARAM_BYTES || k == LMI_OWN_LOGICAL_BYTES || k == LMI_OWN_LOCAL_BYTES)
        return alike || (counted && gives_each_once(a) && gives_each_once(b));
    return alike;
}

/* Saved numbers have nine digits. */
static bool same_real(double a, double b) {
    double size = (a < 0 ? -a : a) + (b < 0 ? -b : b), off = a < b ? b - a : a - b;
    return off <= 1e-9 * size;
}

/* kernel_size=3 equals (3, 3). */
static bool all_are(const lam_value *ints, int64_t n) {
    for (int32_t i = 0; i < ints->n; i++)
        if (ints->ints[i] != n) return false;
    return ints->n > 0;
}

static bool is_number(const lam_value *v) { return v->type == LAM_INT || v->type == LAM_FLOAT; }
static double real_of(const lam_value *v) { return v->type == LAM_INT ? (double)v->i : v->f; }

static bool same_value(const lam_value *a, const lam_value *b) {
    if (a->type == LAM_INTS && b->type == LAM_INT) return all_are(a, b->i);
    if (a->type == LAM_INT && b->type == LAM_INTS) return all_are(b, a->i);
    if (a->type != b->type) return is_number(a) && is_number(b) && same_real(real_of(a), real_of(b));
    switch (a->type) {
    case LAM_BOOL:
    case LAM_INT: return a->i == b->i;
    case LAM_INTS:
        return a->n == b->n && (!a->n || !memcmp(a->ints, b->ints, (size_t)a->n * sizeof *a->ints));
    case LAM_FLOAT: return same_real(a->f, b->f);
    case LAM_TEXT: return strcmp(a->text, b->text) == 0;
    default: return true;
    }
}

bool lmi_unlike_types(const lmi_outline_place *was, const lmi_outline_place *now) {
    static const char unknown[] = "?";
    return strcmp(was->type, now->type) != 0 && strcmp(was->type, unknown) != 0 &&
           strcmp(now->type, unknown) != 0;
}

bool lmi_changed_attr(const lmi_outline_place *was, const lmi_outline_place *now, int32_t i,
                      lam_attr out[2]) {
    for (int32_t j = 0; j < now->n_attrs; j++) {
        const lam_attr *b = &now->attrs[j], *a = NULL;
        for (int32_t k = 0; k < was->n_attrs && !a; k++)
            if (strcmp(was->attrs[k].name, b->name) == 0) a = &was->attrs[k];
        if (!a || same_value(&a->value, &b->value) || i-- > 0) continue;
        out[0] = *a;
        out[1] = *b;
        return true;
    }
    return false;
}

static void find_common(match *t) {
    t->shapes = lmi_has_shapes(t->a) && lmi_has_shapes(t->b);
    t->other_inputs = t->shapes && strcmp(t->a->at[0].in, t->b->at[0].in) != 0;
    for (int k = 0; k < N_COUNTS; k++)
        t->counted[counts[k]] = (k < N_PARAMETERS || t->shapes) && lmi_outlines_agree(t->a, t->b, counts[k]);
}

/* Children come after their parent, so in reverse order each key is complete before it is added to its
 * parent's. */
static lam_status find_keys(match *t, const lmi_outline *o, uint64_t **out) {
    uint64_t *key = lmi_alloc(t->arena, (uint64_t)o->n, sizeof *key);
    if (!key) return lmi_nomem(t->e);
    for (int32_t i = o->n - 1; i >= 0; i--) {
        const lmi_outline_place *p = &o->at[i];
        uint64_t h = lmi_mix_text(key[i], p->type);
        if (t->shapes && !t->other_inputs) h = lmi_mix_text(lmi_mix_text(h, p->in), p->out);
        for (int k = 0; k < N_COUNTS; k++)
            if (t->counted[counts[k]] && (k < N_PARAMETERS || !t->other_inputs))
                h = lmi_mix(h, (uint64_t)own_of(o, counts[k], i));
        key[i] = lmi_mix(h, (uint64_t)p->n_children);
        if (p->parent >= 0) key[p->parent] = lmi_mix(key[p->parent], lmi_mix_text(key[i], p->name));
    }
    *out = key;
    return LAM_OK;
}

static void pair(match *t, int32_t i, int32_t j) {
    t->of_a[i] = j;
    t->of_b[j] = i;
}

/* The key of a child: its parent in `after` and its name. */
static lam_status put_child(lmi_buf *key, int32_t parent, const char *name, lam_error *e) {
    key->n = 0;
    lmi_putf(key, "%d/%s", (int)parent, name);
    return lmi_buf_status(key, e);
}

static lam_status note_names(match *t) {
    lmi_buf key;
    lam_status s = LAM_OK;
    lmi_buf_init(&key);
    for (int32_t j = 1; j < t->b->n && s == LAM_OK; j++) {
        s = put_child(&key, t->b->at[j].parent, t->b->at[j].name, t->e);
        char *kept = s == LAM_OK ? lmi_strndup(t->arena, key.s, key.n) : NULL;
        if (s == LAM_OK) s = kept ? lmi_map_put(&t->names, kept, j, t->e) : lmi_nomem(t->e);
    }
    lmi_buf_free(&key);
    return s;
}

/* Matches children of equal names of matched parents. */
static lam_status pair_paths(match *t) {
    lmi_buf key;
    lam_status s = LAM_OK;
    lmi_buf_init(&key);
    for (int32_t i = 1; i < t->a->n && s == LAM_OK; i++) {
        int32_t up = t->of_a[t->a->at[i].parent];
        if (up < 0 || t->of_a[i] >= 0) continue;
        s = put_child(&key, up, t->a->at[i].name, t->e);
        int64_t j = s == LAM_OK ? lmi_map_get(&t->names, key.s) : -1;
        if (j >= 0 && t->of_b[j] < 0) pair(t, i, (int32_t)j);
    }
    lmi_buf_free(&key);
    return s;
}

/* Matches a container with the container of its child's match, if both are unmatched and of the same type.
 * Children come first, so that containers of such containers are matched too. */
static void pair_holders(match *t) {
    for (int32_t i = t->a->n - 1; i > 0; i--) {
        int32_t up = t->a->at[i].parent, to = t->of_a[i] < 0 ? -1 : t->b->at[t->of_a[i]].parent;
        if (to <= 0 || up <= 0 || t->of_a[up] >= 0 || t->of_b[to] >= 0) continue;
        if (strcmp(t->a->at[up].type, t->b->at[to].type) == 0) pair(t, up, to);
    }
}

/* True if the subtrees are unmatched and equal. Equal keys mean equal subtrees, whose places have the same
 * order. */
static bool free_and_equal(const match *t, int32_t i, int32_t j) {
    int32_t n = t->a->at[i].end - i;
    if (n != t->b->at[j].end - j) return false;
    for (int32_t k = 0; k < n; k++)
        if (t->of_a[i + k] >= 0 || t->of_b[j + k] >= 0 || t->key_a[i + k] != t->key_b[j + k]) return false;
    return true;
}

/* False for places that nothing identifies, such as an activation: they say nothing about a new name. */
static bool telling(const lmi_outline *o, int32_t i) {
    for (int32_t k = i; k < o->at[i].end; k++)
        if (own_of(o, LMI_OWN_PARAMS, k) || own_of(o, LMI_OWN_MACS, k)) return true;
    return false;
}

static uint64_t key_of(const lmi_outline *o, const uint64_t *key, int32_t i, bool named) {
    return named ? lmi_mix_text(key[i], o->at[i].name) : key[i];
}

/* Matches the remaining places by key: the first of `before` with the first of `after`. `named`: only those
 * of equal names. */
static lam_status pair_renamed(match *t, bool named) {
    const lmi_outline *a = t->a, *b = t->b;
    int32_t *next = lmi_alloc(t->arena, (uint64_t)b->n, sizeof *next); /* the next free place of that key */
    lmi_map first;
    lam_status s = next ? LAM_OK : lmi_nomem(t->e);
    lmi_map_init(&first);
    for (int32_t j = b->n - 1; j > 0 && s == LAM_OK; j--) {
        if (t->of_b[j] >= 0) continue;
        next[j] = (int32_t)lmi_map_get_u64(&first, key_of(b, t->key_b, j, named));
        s = lmi_map_put_u64(&first, key_of(b, t->key_b, j, named), j, t->e);
    }
    for (int32_t i = 1; i < a->n && s == LAM_OK;) {
        uint64_t key = key_of(a, t->key_a, i, named);
        int32_t j = t->of_a[i] < 0 && telling(a, i) ? (int32_t)lmi_map_get_u64(&first, key) : -1;
        while (j >= 0 && !free_and_equal(t, i, j)) j = next[j];
        if (j < 0) {
            i++;
            continue;
        }
        for (int32_t k = 0, n = a->at[i].end - i; k < n; k++) pair(t, i + k, j + k);
        s = lmi_map_put_u64(&first, key, next[j], t->e);
        i = a->at[i].end;
    }
    lmi_map_free(&first);
    return s;
}

/* -- the union's tree --------------------------------------------------------------------------------------
 */

/* Ids: a place j of `after` is j, a removed place i is after->n + i. */
typedef struct chain {
    int32_t *first, *next, *up;
} chain;

static int32_t id_of(const match *t, int32_t i) { return t->of_a[i] >= 0 ? t->of_a[i] : t->b->n + i; }

static lam_status chain_up(match *t, chain *c) {
    const lmi_outline *a = t->a, *b = t->b;
    uint64_t n = (uint64_t)a->n + (uint64_t)b->n;
    int32_t *last = lmi_alloc(t->arena, n, sizeof *last); /* for each place of `before`, its previous child */
    c->first = lmi_alloc(t->arena, n, sizeof *c->first);
    c->next = lmi_alloc(t->arena, n, sizeof *c->next);
    c->up = lmi_alloc(t->arena, n, sizeof *c->up);
    if (!last || !c->first || !c->next || !c->up) return lmi_nomem(t->e);
    for (uint64_t i = 0; i < n; i++) c->first[i] = c->next[i] = c->up[i] = last[i] = -1;
    for (int32_t j = b->n - 1; j > 0; j--) {
        int32_t up = b->at[j].parent;
        c->up[j] = up;
        c->next[j] = c->first[up];
        c->first[up] = j;
    }
    for (int32_t i = 1; i < a->n; i++) {
        int32_t parent = a->at[i].parent, me = id_of(t, i), before = last[parent];
        last[parent] = me;
        if (me < b->n) continue;
        int32_t up = id_of(t, parent);
        bool beside = before >= 0 && c->up[before] == up;
        c->up[me] = up;
        c->next[me] = beside ? c->next[before] : c->first[up];
        *(beside ? &c->next[before] : &c->first[up]) = me;
    }
    return LAM_OK;
}

/* Writes the places in depth-first order; `order` has the id of each. */
static lam_status walk(lmi_outline *o, match *t, const chain *c, int32_t *order) {
    int32_t nb = t->b->n, *index = lmi_alloc(t->arena, (uint64_t)nb + (uint64_t)t->a->n, sizeof *index);
    if (!index) return lmi_nomem(t->e);
    int32_t n = 0;
    for (int32_t id = 0; id >= 0;) {
        const lmi_outline_place *from = id < nb ? &t->b->at[id] : &t->a->at[id - nb];
        lmi_outline_place *p = &o->at[n];
        order[n] = id;
        index[id] = n;
        *p = *from;
        p->parent = c->up[id] < 0 ? -1 : index[c->up[id]];
        p->depth = p->parent < 0 ? 0 : o->at[p->parent].depth + 1;
        p->n_children = 0;
        p->run = n;
        p->n_run = 1;
        if (p->parent >= 0) o->at[p->parent].n_children++;
        n++;
        int32_t to = c->first[id];
        while (to < 0 && id >= 0) { /* up to the next sibling */
            o->at[index[id]].end = n;
            to = c->next[id];
            id = c->up[id];
        }
        id = to;
    }
    return LAM_OK;
}

static bool differs(const match *t, int32_t i, int32_t j) {
    const lmi_outline_place *p = &t->a->at[i], *q = &t->b->at[j];
    for (int k = 0; k < N_COUNTS; k++) {
        lmi_own_number c = counts[k];
        if (!t->counted[c]) continue;
        if (own_of(t->a, c, i) != own_of(t->b, c, j) || state_at(t->a, c, i) != state_at(t->b, c, j))
            return true;
    }
    if (t->shapes && (strcmp(p->in, q->in) != 0 || strcmp(p->out, q->out) != 0)) return true;
    lam_attr changed[2];
    return lmi_unlike_types(p, q) || lmi_changed_attr(p, q, 0, changed);
}

static void judge(lmi_outline *o, const match *t) {
    const lmi_outline *a = t->a, *b = t->b;
    for (int32_t k = o->n - 1; k >= 0; k--) {
        int32_t i = o->was_at[k], j = o->now_at[k];
        lmi_change found = i < 0                                            ? LMI_ADDED
                           : j < 0                                          ? LMI_REMOVED
                           : differs(t, i, j)                               ? LMI_CHANGED
                           : k && strcmp(a->at[i].name, b->at[j].name) != 0 ? LMI_RENAMED
                                                                            : LMI_SAME;
        o->differs[k] = found == LMI_CHANGED;
        if (o->change[k] == LMI_CHANGED && (found == LMI_SAME || found == LMI_RENAMED)) found = LMI_CHANGED;
        o->change[k] = (uint8_t)found;
        if (found != LMI_SAME && o->at[k].parent >= 0) o->change[o->at[k].parent] = LMI_CHANGED;
    }
}

/* -- numbers -----------------------------------------------------------------------------------------------
 */

/* Copies the numbers of `after` into the union's order; removed places have none. */
static lam_status spread(lmi_outline *o, const lmi_outline *b, lam_error *e) {
    for (int k = 0; k < LMI_N_OWN; k++) {
        if (b->own[k]) o->own[k] = lmi_alloc(&o->arena, (uint64_t)o->n, sizeof *o->own[k]);
        if (b->total[k]) o->total[k] = lmi_alloc(&o->arena, (uint64_t)o->n, sizeof *o->total[k]);
        if (b->state[k]) o->state[k] = lmi_alloc(&o->arena, (uint64_t)o->n, sizeof *o->state[k]);
        if ((b->own[k] && !o->own[k]) || (b->total[k] && !o->total[k]) || (b->state[k] && !o->state[k]))
            return lmi_nomem(e);
        for (int32_t i = 0; i < o->n; i++) {
            int32_t j = o->now_at[i];
            if (j < 0) continue;
            if (b->own[k]) o->own[k][i] = b->own[k][j];
            if (b->total[k]) o->total[k][i] = b->total[k][j];
            if (b->state[k]) o->state[k][i] = b->state[k][j];
        }
    }
    if (!b->held) return LAM_OK;
    o->held = lmi_alloc(&o->arena, (uint64_t)o->n, sizeof *o->held);
    o->held_total = lmi_alloc(&o->arena, (uint64_t)o->n, sizeof *o->held_total);
    if (!o->held || !o->held_total) return lmi_nomem(e);
    for (int32_t i = 0; i < o->n; i++) {
        if (o->now_at[i] < 0) continue;
        memcpy(o->held[i], b->held[o->now_at[i]], sizeof o->held[i]);
        memcpy(o->held_total[i], b->held_total[o->now_at[i]], sizeof o->held_total[i]);
    }
    return LAM_OK;
}

/* Converts indices of places of `after` that are not stored by place. */
static lam_status renumber(lmi_outline *o, const lmi_outline *b, lam_error *e) {
    int32_t *to = lmi_alloc(&o->arena, (uint64_t)b->n, sizeof *to);
    if (!to) return lmi_nomem(e);
    for (int32_t i = 0; i < o->n; i++)
        if (o->now_at[i] >= 0) to[o->now_at[i]] = i;
    if (b->peak_place >= 0) o->peak_place = to[b->peak_place];
    if (b->finding_place >= 0) o->finding_place = to[b->finding_place];
    if (b->n_at_work) {
        o->at_work = lmi_copy(&o->arena, b->at_work, (uint64_t)b->n_at_work, sizeof *b->at_work);
        if (!o->at_work) return lmi_nomem(e);
    }
    for (int32_t i = 0; i < b->n_at_work; i++) o->at_work[i].place = to[b->at_work[i].place];
    if (!b->n_levels) return LAM_OK;
    o->level = lmi_copy(&o->arena, b->level, (uint64_t)b->n_levels, sizeof *b->level);
    if (!o->level) return lmi_nomem(e);
    for (int32_t i = 0; i < b->n_levels; i++) {
        lmi_level *l = &o->level[i];
        l->node = lmi_copy(&o->arena, l->node, (uint64_t)l->n, sizeof *l->node);
        if (!l->node) return lmi_nomem(e);
        for (int32_t k = 0; k < l->n; k++)
            if (l->node[k].place >= 0) l->node[k].place = to[l->node[k].place];
    }
    return LAM_OK;
}

static lam_status unite(lmi_outline *o, match *t) {
    const lmi_outline *a = t->a, *b = t->b;
    chain c;
    int32_t removed = 0, *order;
    for (int32_t i = 0; i < a->n; i++) removed += t->of_a[i] < 0;
    o->n = b->n + removed;
    uint64_t n = (uint64_t)o->n;
    o->at = lmi_alloc(&o->arena, n, sizeof *o->at);
    o->was_at = lmi_alloc(&o->arena, n, sizeof *o->was_at);
    o->now_at = lmi_alloc(&o->arena, n, sizeof *o->now_at);
    o->change = lmi_alloc(&o->arena, n, sizeof *o->change);
    o->differs = lmi_alloc(&o->arena, n, sizeof *o->differs);
    order = lmi_alloc(t->arena, n, sizeof *order);
    if (!o->at || !o->was_at || !o->now_at || !o->change || !o->differs || !order) return lmi_nomem(t->e);
    LAM_TRY(chain_up(t, &c));
    LAM_TRY(walk(o, t, &c, order));
    for (int32_t i = 0; i < o->n; i++) {
        bool gone = order[i] >= b->n;
        o->now_at[i] = gone ? -1 : order[i];
        o->was_at[i] = gone ? order[i] - b->n : t->of_b[order[i]];
        if (gone) o->at[i].level = o->at[i].formulas = -1; /* they are indices of `before` */
    }
    judge(o, t);
    LAM_TRY(spread(o, b, t->e));
    return renumber(o, b, t->e);
}

bool lmi_outline_moved(const lmi_outline *both, int32_t i) {
    int32_t was = both->was_at[i];
    if (i == 0 || was < 0 || both->now_at[i] < 0) return false;
    const lmi_outline_place *a = &both->was->at[was], *b = &both->at[i];
    return strcmp(a->name, b->name) != 0 || a->parent != both->was_at[b->parent];
}

lmi_change lmi_outline_change(const lmi_outline *both, int32_t i, bool moved) {
    return both->was_at[i] < 0   ? LMI_ADDED
           : both->now_at[i] < 0 ? LMI_REMOVED
           : both->differs[i]    ? LMI_CHANGED
           : moved               ? LMI_RENAMED
                                 : LMI_SAME;
}

void lmi_outline_count(const lmi_outline *both, int32_t n[LMI_RENAMED + 1]) {
    for (int32_t i = 0; i < both->n; i++) {
        bool moved = false;
        for (int32_t up = i; up >= 0 && !moved; up = both->at[up].parent) moved = lmi_outline_moved(both, up);
        n[lmi_outline_change(both, i, moved)]++;
    }
}

lam_status lmi_outline_diff(lmi_outline *o, const lmi_outline *before, const lmi_outline *after,
                            lam_error *e) {
    lmi_arena scratch;
    match t = {.a = before, .b = after, .arena = &scratch, .e = e};
    *o = *after;
    lmi_arena_init(&o->arena, UINT64_MAX);
    memset(o->own, 0, sizeof o->own);
    memset(o->total, 0, sizeof o->total);
    memset(o->state, 0, sizeof o->state);
    o->held = o->held_total = NULL;
    o->costs = NULL; /* `after` owns these */
    o->model = NULL;
    o->graph = NULL;
    o->use = NULL;
    o->looks = NULL;
    o->was = before;
    lmi_arena_init(&scratch, UINT64_MAX);
    lmi_map_init(&t.names);
    t.of_a = lmi_alloc_none(&scratch, before->n);
    t.of_b = lmi_alloc_none(&scratch, after->n);
    lam_status s = t.of_a && t.of_b ? LAM_OK : lmi_nomem(e);
    if (s == LAM_OK) {
        find_common(&t);
        s = find_keys(&t, before, &t.key_a);
        pair(&t, 0, 0);
    }
    if (s == LAM_OK) s = find_keys(&t, after, &t.key_b);
    if (s == LAM_OK) s = note_names(&t);
    if (s == LAM_OK) s = pair_paths(&t);
    for (int named = 1; named >= 0 && s == LAM_OK; named--) {
        s = pair_renamed(&t, named != 0);
        pair_holders(&t);
        if (s == LAM_OK) s = pair_paths(&t);
    }
    if (s == LAM_OK) s = unite(o, &t);
    if (s == LAM_OK) s = lmi_find_runs_of_both(o, e);
    if (s == LAM_OK) s = lmi_outline_join_levels(o, e);
    lmi_map_free(&t.names);
    lmi_arena_free(&scratch);
    return s;
}
