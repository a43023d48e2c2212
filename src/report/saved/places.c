/* SPDX-License-Identifier: Apache-2.0
 *
 * The tree of a saved report, whose rows name their places by path. A report does not tell which places share
 * a module, so each has one of its own. */
#include "report/saved/saved.h"

#include <stdio.h>

/* Deeper than any model, and still so shallow that a path has few prefixes. */
enum { DEEPEST = 2000, MOST_PLACES = 1 << 24 };

typedef struct node {
    const char *name;
    uint32_t entry; /* the position of its row, or else of its place in the tree; 0: neither */
    int32_t parent, first, last, next; /* children in the order in which they are named; -1 none */
    int32_t index;                     /* in the model: depth-first */
    bool row, called;                  /* `entry` is a row, of a call */
} node;

typedef struct growing {
    lmi_saved *s;
    lmi_vec nodes;
    lmi_map by_path, tensors; /* tensors: by the module that owns them and their name there */
    lmi_arena arena;          /* of paths */
    int32_t n;                /* places in the model so far */
} growing;

static node *at(const growing *g, int32_t i) { return lmi_vec_at(&g->nodes, (size_t)i); }

static lam_status add_node(growing *g, int32_t parent, const char *name, const char *path, uint32_t from,
                           int32_t *out) {
    lam_error *e = g->s->e;
    int32_t i = (int32_t)g->nodes.n;
    if (i >= MOST_PLACES) return lmi_saved_wrong(g->s, from, "is of more modules than any model has");
    LAM_TRY(lmi_vec_put(&g->nodes,
                        &(node){.name = name, .parent = parent, .first = -1, .last = -1, .next = -1}, e));
    node *up = parent < 0 ? NULL : at(g, parent);
    if (up && up->last >= 0) at(g, up->last)->next = i;
    if (up && up->first < 0) up->first = i;
    if (up) up->last = i;
    *out = i;
    return lmi_map_put(&g->by_path, path, i, e);
}

/* The node of the path of the value at `from`; it and all nodes above it are made if they are new. */
static lam_status find_node(growing *g, const char *path, uint32_t from, int32_t *out) {
    int64_t known = lmi_map_get(&g->by_path, path);
    int32_t up = 0, depth = 0;
    if (known >= 0) {
        *out = (int32_t)known;
        return LAM_OK;
    }
    for (const char *name = path;;) {
        size_t n = (size_t)(name - path) + strcspn(name, ".");
        if (++depth > DEEPEST) return lmi_saved_wrong(g->s, from, "has a path that is deeper than any model");
        char *prefix = lmi_strndup(&g->arena, path, n);
        if (!prefix) return lmi_nomem(g->s->e);
        known = lmi_map_get(&g->by_path, prefix);
        if (known < 0)
            LAM_TRY(add_node(g, up, prefix + (name - path), prefix, from, &up));
        else
            up = (int32_t)known;
        if (!path[n]) break;
        name = path + n + 1;
    }
    *out = up;
    return LAM_OK;
}

/* Adds the places of a list: of rows, or of the tree, which gives their order; an older lamina wrote no tree.
 * `of`: the place of each, NULL: they are of the tree. The first call's row tells most of a place. */
static lam_status grow_by(growing *g, uint32_t list, int32_t *of) {
    const lmi_json *j = &g->s->j;
    LMI_JSON_EACH(j, list, i) {
        const char *path = lmi_json_as_text(j, lmi_json_get(j, i, "path"));
        const bool called = of && lmi_json_equals(j, lmi_json_get(j, i, "status"), "called");
        int32_t k;
        if (!path) return lmi_saved_wrong(g->s, i, "has no path");
        LAM_TRY(find_node(g, path, i, &k));
        node *to = at(g, k);
        if (!to->entry || (of && !to->row) || (called && !to->called)) to->entry = i;
        to->row = to->row || of;
        to->called = to->called || called;
        if (of) *of++ = k;
    }
    return LAM_OK;
}

/* Adds the place whose path stands under `name` in the value at a position, if there is one. */
static lam_status grow_by_name(growing *g, uint32_t from, const char *name) {
    const char *path = lmi_json_as_text(&g->s->j, lmi_json_get(&g->s->j, from, name));
    int32_t unused;
    return path ? find_node(g, path, from, &unused) : LAM_OK;
}

/* Adds the places that may have no row: those that modules were at first, those that own a tensor of another,
 * and those that held memory. */
static lam_status grow_by_others(growing *g) {
    const lmi_json *j = &g->s->j;
    LMI_JSON_EACH(j, g->s->rows, i) {
        LAM_TRY(grow_by_name(g, i, "same_module"));
        LMI_JSON_EACH(j, lmi_json_get(j, i, "tied"), k) LAM_TRY(grow_by_name(g, k, "owner"));
    }
    LMI_JSON_EACH(j, lmi_saved_top(g->s, "memory.places"), i) LAM_TRY(grow_by_name(g, i, "path"));
    return LAM_OK;
}

/* Fails if a row is there twice: one call, or one place without a call. */
static lam_status check_repeated(lmi_saved *s, lmi_map *known, lmi_buf *key, lmi_arena *a) {
    const lmi_json *j = &s->j;
    LMI_JSON_EACH(j, s->rows, i) {
        const char *status = lmi_json_as_text(j, lmi_json_get(j, i, "status"));
        int64_t call = -1;
        if (!status) continue;
        (void)lmi_json_as_int(j, lmi_json_get(j, i, "call"), &call);
        lmi_buf_clear(key);
        lmi_putf(key, "%lld %s ", (long long)call, status);
        lmi_put(key, lmi_json_as_text(j, lmi_json_get(j, i, "path")));
        LAM_TRY(lmi_buf_status(key, s->e));
        if (lmi_map_get(known, lmi_buf_text(key)) >= 0)
            return lmi_saved_wrong(s, i, "is the second row of one call");
        const char *kept = lmi_strndup(a, key->s, key->n);
        if (!kept) return lmi_nomem(s->e);
        LAM_TRY(lmi_map_put(known, kept, i, s->e));
    }
    return LAM_OK;
}

static lam_status grow(growing *g) {
    lmi_saved *s = g->s;
    lmi_map known;
    lmi_buf key;
    int32_t root;
    LAM_TRY(add_node(g, -1, "", "", 0, &root));
    LAM_TRY(grow_by(g, lmi_saved_top(s, "tree"), NULL));
    LAM_TRY(grow_by(g, s->rows, s->row_place));
    LAM_TRY(grow_by_others(g));
    lmi_map_init(&known);
    lmi_buf_init(&key);
    lam_status status = check_repeated(s, &known, &key, &g->arena);
    lmi_map_free(&known);
    lmi_buf_free(&key);
    return status;
}

/* -- the model's ----------------------------------------------------------------------------------------- */

/* Takes a list of whole numbers; false: it is a list of something else. */
static bool take_ints(const lmi_saved *s, uint32_t list, int64_t *ints, lam_value *v) {
    *v = (lam_value){.type = LAM_INTS, .ints = ints};
    LMI_JSON_EACH(&s->j, list, i) if (!lmi_json_as_int(&s->j, i, &ints[v->n++])) return false;
    return true;
}

/* Takes a value; *told is false if a module has none like it. */
static lam_status take_value(const lmi_saved *s, uint32_t i, lmi_arena *a, lam_value *v, bool *taken) {
    const lmi_json *j = &s->j;
    const lmi_json_kind kind = lmi_json_is(j, i);
    *v = (lam_value){.type = LAM_NONE};
    *taken = kind != LMI_JSON_OBJECT;
    if (kind == LMI_JSON_TRUE || kind == LMI_JSON_FALSE) {
        *v = (lam_value){.type = LAM_BOOL, .i = kind == LMI_JSON_TRUE};
    } else if (kind == LMI_JSON_TEXT) {
        *v = (lam_value){.type = LAM_TEXT, .text = lmi_json_as_text(j, i)};
    } else if (kind == LMI_JSON_NUMBER && lmi_json_as_int(j, i, &v->i)) {
        v->type = LAM_INT;
    } else if (kind == LMI_JSON_NUMBER) {
        v->type = LAM_FLOAT;
        *taken = lmi_json_as_real(j, i, &v->f);
    } else if (kind == LMI_JSON_LIST) {
        int64_t *ints = lmi_alloc(a, lmi_json_size(j, i), sizeof *ints);
        if (!ints) return lmi_nomem(s->e);
        *taken = take_ints(s, i, ints, v);
    }
    return LAM_OK;
}

/* A report of an older lamina has no attributes. */
static lam_status add_attributes(growing *g, lam_builder *b, const node *n) {
    const lmi_saved *s = g->s;
    LMI_JSON_NAMES(&s->j, lmi_saved_get(s, n->entry, "attributes"), k) {
        lam_value v;
        bool taken;
        LAM_TRY(take_value(s, k + 1, &g->arena, &v, &taken));
        if (taken) LAM_TRY(lam_build_attr(b, n->index, lmi_json_as_text(&s->j, k), &v, s->e));
    }
    return LAM_OK;
}

static lam_status add_place(growing *g, lam_builder *b, node *n) {
    const lmi_saved *s = g->s;
    const uint32_t status = lmi_saved_get(s, n->entry, "status");
    lam_module_info mod = {.word = -1, .flags = n->first < 0 ? LAM_MODULE_LEAF : 0};
    n->index = g->n++;
    LAM_TRY(lmi_saved_word(s, lmi_saved_get(s, n->entry, "type"), &mod.type));
    LAM_TRY(lmi_saved_text(s, lmi_saved_get(s, n->entry, "type_path"), &mod.type_path));
    if (n->parent < 0 && !*mod.type) LAM_TRY(lmi_saved_word(s, lmi_saved_top(s, "model.type"), &mod.type));
    if (n->parent < 0 && !mod.type_path)
        LAM_TRY(lmi_saved_text(s, lmi_saved_top(s, "model.type_path"), &mod.type_path));
    if (!mod.type_path) mod.type_path = "";
    LAM_TRY(lam_build_module(b, &mod, NULL, s->e));
    LAM_TRY(lam_build_place(b, n->parent < 0 ? -1 : at(g, n->parent)->index, n->name, n->index, NULL, s->e));
    if (lmi_json_equals(&s->j, status, "called elsewhere"))
        LAM_TRY(lam_build_called_elsewhere(b, n->index, s->e));
    return add_attributes(g, b, n);
}

/* Adds the nodes in depth-first order. */
static lam_status add_places(growing *g, lam_builder *b) {
    for (int32_t id = 0; id >= 0;) {
        LAM_TRY(add_place(g, b, at(g, id)));
        int32_t to = at(g, id)->first;
        for (; to < 0 && id >= 0; id = at(g, id)->parent) to = at(g, id)->next;
        id = to;
    }
    return LAM_OK;
}

/* -- ties ------------------------------------------------------------------------------------------------ */

/* The module of the path at a position. */
static lam_status find_owner(const growing *g, uint32_t path, int32_t *out) {
    const char *text = lmi_json_as_text(&g->s->j, path);
    int64_t id = text ? lmi_map_get(&g->by_path, text) : -1;
    if (id < 0) return lmi_saved_wrong(g->s, path ? path : g->s->rows, "is the path of no row");
    *out = at(g, (int32_t)id)->index;
    return LAM_OK;
}

/* The tensor of this name that the module owns; a new one if none was named before. */
static lam_status find_tensor(growing *g, lam_builder *b, int32_t owner, const char *name, int32_t *out) {
    const lam_tensor_info unknown = {.dtype = -1, .ndim = -1, .bytes = -1};
    char number[16];
    snprintf(number, sizeof number, "%d ", (int)owner);
    char *key = lmi_alloc(&g->arena, strlen(number) + strlen(name) + 1, 1);
    if (!key) return lmi_nomem(g->s->e);
    strcat(strcpy(key, number), name);
    const int64_t known = lmi_map_get(&g->tensors, key);
    *out = (int32_t)known;
    if (known >= 0) return LAM_OK;
    LAM_TRY(lam_build_tensor(b, &unknown, out, g->s->e));
    LAM_TRY(lam_build_owns(b, owner, name, *out, false, g->s->e));
    LAM_TRY(lmi_vec_put(&g->s->owners, &owner, g->s->e));
    return lmi_map_put(&g->tensors, key, *out, g->s->e);
}

/* Adds the tensors of a place that another owns. */
static lam_status add_ties(growing *g, lam_builder *b, const node *n) {
    const lmi_saved *s = g->s;
    LMI_JSON_EACH(&s->j, lmi_saved_get(s, n->entry, "tied"), i) {
        int32_t owner = -1, tensor;
        const char *name, *as;
        LAM_TRY(find_owner(g, lmi_saved_get(s, i, "owner"), &owner));
        LAM_TRY(lmi_saved_word(s, lmi_saved_get(s, i, "name"), &name));
        LAM_TRY(lmi_saved_word(s, lmi_saved_get(s, i, "owner_name"), &as));
        LAM_TRY(find_tensor(g, b, owner, as, &tensor));
        LAM_TRY(lam_build_owns(b, n->index, name, tensor, false, s->e));
    }
    return LAM_OK;
}

/* Notes the place that a place's module was at first. */
static lam_status note_same(growing *g, const node *n) {
    const uint32_t path = lmi_saved_get(g->s, n->entry, "same_module");
    if (!lmi_saved_has(g->s, path)) return LAM_OK;
    return find_owner(g, path, &g->s->first_place[n->index]);
}

static lam_status take_ties(growing *g, lam_builder *b) {
    g->s->first_place = lmi_saved_room(g->s, g->nodes.n, sizeof *g->s->first_place);
    if (!g->s->first_place) return lmi_nomem(g->s->e);
    for (size_t i = 0; i < g->nodes.n; i++) {
        const node *n = at(g, (int32_t)i);
        g->s->first_place[n->index] = n->index;
        LAM_TRY(add_ties(g, b, n));
        LAM_TRY(note_same(g, n));
    }
    return LAM_OK;
}

lam_status lmi_saved_ties(lmi_saved *s) {
    const int32_t *owner = s->owners.data;
    for (int32_t i = 0; i < s->m->n_tensors; i++) s->m->tensors[i].owner = owner[i];
    for (int32_t i = 0; i < s->m->n_places; i++) {
        if (s->first_place[i] == i) continue;
        int32_t *both = lmi_saved_room(s, 2, sizeof *both);
        if (!both) return lmi_nomem(s->e);
        both[0] = s->first_place[i];
        both[1] = i;
        s->m->modules[i].places = both;
        s->m->modules[i].n_places = 2;
    }
    return LAM_OK;
}

static lam_status take(growing *g, lam_builder *b) {
    lmi_saved *s = g->s;
    const uint32_t n = lmi_json_size(&s->j, s->rows);
    s->row_place = lmi_saved_room(s, n, sizeof *s->row_place);
    if (!s->row_place) return lmi_nomem(s->e);
    LAM_TRY(grow(g));
    LAM_TRY(add_places(g, b));
    LAM_TRY(take_ties(g, b));
    for (uint32_t i = 0; i < n; i++) s->row_place[i] = at(g, s->row_place[i])->index;
    return LAM_OK;
}

lam_status lmi_saved_places(lmi_saved *s, lam_builder *b) {
    growing g = {.s = s};
    lmi_vec_init(&g.nodes, sizeof(node));
    lmi_map_init(&g.by_path);
    lmi_map_init(&g.tensors);
    lmi_arena_init(&g.arena, UINT64_MAX);
    lam_status status = take(&g, b);
    lmi_vec_free(&g.nodes);
    lmi_map_free(&g.by_path);
    lmi_map_free(&g.tensors);
    lmi_arena_free(&g.arena);
    return status;
}
