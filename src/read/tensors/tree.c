/* SPDX-License-Identifier: Apache-2.0
 *
 * The tree of modules that the names of tensors tell: `layers.0.up.weight` is the parameter `weight` of the
 * module `layers.0.up`. Their order is that of the file, but numbered siblings are in the order of their
 * numbers. Their classes are unknown. */
#include "model/model.h"
#include "read/tensors/tensors.h"

#include <stdlib.h>

enum { DEEPEST = 32 };

typedef struct node {
    const char *name; /* its `n` bytes, in the name of a tensor or the path of a module */
    int32_t n, parent, n_children, module;
    int32_t told;   /* the module of the list that tells its class; -1: none */
    int32_t number; /* that the name is; -1: it is none */
    int32_t anchor; /* the first numbered sibling, of a numbered one; else itself */
    int32_t first;  /* its first numbered child; 0: it has none */
} node;

/* The modules in the name that was looked up last: most names begin as the one before. */
typedef struct chain {
    const char *name;
    int n;
    int32_t node[DEEPEST];
    size_t end[DEEPEST]; /* in the name, behind the dot */
} chain;

typedef struct growing {
    lmi_tensors *t;
    lam_builder *b;
    lam_error *e;
    lmi_vec nodes;    /* node */
    lmi_map children; /* nodes, by a hash of their parent and their name */
    int32_t *of;      /* of each tensor: its node */
    int32_t *made;    /* of each tensor: its index in the model */
    lmi_buf name;     /* of a place that is added */
    chain last;
    lmi_arena arena;
} growing;

static node *at(const growing *g, int32_t i) { return (node *)g->nodes.data + i; }

/* The number that a name is, without leading zeros; -1: it is none. */
static int32_t number_of(const char *name, size_t n) {
    int32_t number = 0;
    if (n == 0 || n > 9 || (n > 1 && name[0] == '0')) return -1;
    for (size_t i = 0; i < n; i++) {
        if (name[i] < '0' || name[i] > '9') return -1;
        number = number * 10 + (name[i] - '0');
    }
    return number;
}

static lam_status add_node(growing *g, int32_t parent, const char *name, size_t n, int32_t *out) {
    const int32_t id = (int32_t)g->nodes.n;
    node x = {.name = name,
              .n = (int32_t)n,
              .parent = parent,
              .told = -1,
              .number = number_of(name, n),
              .anchor = id};
    if (lmi_tensors_are_many(g->t, g->t->at.n + g->nodes.n))
        return lmi_fail(g->e, LAM_LIMIT, NULL,
                        "it has more tensors, and modules in their names, than a file of its size should");
    if (x.number >= 0 && parent >= 0) {
        int32_t *first = &at(g, parent)->first;
        if (*first == 0) *first = id;
        x.anchor = *first;
    }
    *out = id;
    return lmi_vec_put(&g->nodes, &x, g->e);
}

/* The child of node *up with a name, which is added if there is none; *up becomes it. */
static lam_status find_child(growing *g, int32_t *up, const char *name, size_t n) {
    const int32_t parent = *up;
    const uint64_t hash = lmi_hash(name, n) ^ lmi_hash_u64((uint64_t)parent);
    size_t next = (size_t)hash;
    for (int64_t i; (i = lmi_map_next(&g->children, hash, &next)) >= 0;) {
        const node *x = at(g, (int32_t)i);
        if (x->parent == parent && (size_t)x->n == n && memcmp(x->name, name, n) == 0)
            return *up = (int32_t)i, LAM_OK;
    }
    LAM_TRY(add_node(g, parent, name, n, up));
    return lmi_map_add(&g->children, hash, *up, g->e);
}

/* The node of the modules in a tensor's name, which must stay; *last is what remains of the name. */
static lam_status find_node(growing *g, const char *name, int32_t *out, const char **last) {
    chain *c = &g->last;
    size_t from = 0;
    int depth = 0;
    while (depth < c->n && strncmp(name + from, c->name + from, c->end[depth] - from) == 0 &&
           name[c->end[depth]])
        from = c->end[depth++];
    int32_t up = depth ? c->node[depth - 1] : 0;
    for (; depth < DEEPEST; depth++) {
        const char *dot = strchr(name + from, '.');
        if (!dot || dot == name + from || !dot[1]) break; /* an empty part names no module */
        const size_t end = (size_t)(dot + 1 - name);
        LAM_TRY(find_child(g, &up, name + from, end - 1 - from));
        c->node[depth] = up;
        c->end[depth] = from = end;
    }
    c->name = name;
    c->n = depth;
    *out = up;
    *last = name + from;
    return LAM_OK;
}

/* The modules whose classes are told, also those that own nothing. The path of one ends where a tensor's name
 * would follow. */
static lam_status add_classes(growing *g) {
    for (size_t i = 0; i < g->t->modules.n; i++) {
        const lmi_stored_module *m = lmi_vec_at(&g->t->modules, i);
        char *name = lmi_alloc(&g->arena, strlen(m->path) + 3, 1);
        const char *last;
        int32_t id = 0;
        if (!name) return lmi_nomem(g->e);
        if (*m->path) {
            strcat(strcpy(name, m->path), ".x");
            LAM_TRY(find_node(g, name, &id, &last));
            if (strcmp(last, "x") != 0) continue; /* deeper than modules are told apart */
        }
        at(g, id)->told = (int32_t)i;
    }
    return LAM_OK;
}

/* -- the order ------------------------------------------------------------------------------------------- */

typedef struct sibling {
    int32_t anchor, id, number;
} sibling;

static int by_order(const void *a, const void *b) {
    const sibling *x = a, *y = b;
    if (x->anchor != y->anchor) return x->anchor < y->anchor ? -1 : 1;
    if (x->number != y->number) return x->number < y->number ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static lam_status add_place(growing *g, int32_t id) {
    node *x = at(g, id);
    const lmi_stored_module *told = x->told < 0 ? NULL : lmi_vec_at(&g->t->modules, (size_t)x->told);
    const char *type = told ? told->type : id == 0 && g->t->of.type ? g->t->of.type : "?";
    const bool torchs = told && strncmp(told->type_path, "torch.nn.", 9) == 0;
    const lam_module_info mod = {.type = type,
                                 .type_path = told ? told->type_path : type,
                                 .word = torchs ? lam_word_module(type) : -1,
                                 .flags = (x->n_children ? 0u : LAM_MODULE_LEAF) |
                                          (torchs ? LAM_MODULE_EXACT : 0u)};
    LAM_TRY(lam_build_module(g->b, &mod, &x->module, g->e));
    lmi_buf_clear(&g->name);
    lmi_putn(&g->name, x->name, (size_t)x->n);
    LAM_TRY(lmi_buf_status(&g->name, g->e));
    /* A place has the number of its module, since each module has one place. */
    return lam_build_place(g->b, x->parent < 0 ? -1 : at(g, x->parent)->module, lmi_buf_text(&g->name),
                           x->module, NULL, g->e);
}

/* The nodes by their parents, siblings in their order: that of most files, so that few are sorted. */
static lam_status order_siblings(growing *g, lmi_groups *by, sibling **out) {
    const int32_t n = (int32_t)g->nodes.n;
    int32_t *parents = lmi_alloc_unset(&g->arena, (uint64_t)n, sizeof *parents);
    sibling *all = *out = lmi_alloc_unset(&g->arena, (uint64_t)n, sizeof *all);
    if (!parents || !all) return lmi_nomem(g->e);
    for (int32_t i = 0; i < n; i++) parents[i] = at(g, i)->parent;
    if (!lmi_group_by(&g->arena, parents, n, n, by)) return lmi_nomem(g->e);
    for (int32_t up = 0; up < n; up++) {
        const int32_t from = by->start[up], to = by->start[up + 1];
        bool sorted = true;
        at(g, up)->n_children = to - from;
        for (int32_t k = from; k < to; k++) {
            const node *x = at(g, by->order[k]);
            all[k] = (sibling){x->anchor, by->order[k], x->number};
            sorted = sorted && (k == from || by_order(&all[k - 1], &all[k]) < 0);
        }
        if (!sorted) qsort(all + from, (size_t)(to - from), sizeof *all, by_order);
    }
    return LAM_OK;
}

/* Adds the places, parents first and siblings in their order, which is all that the model needs. */
static lam_status add_places(growing *g) {
    lmi_groups by;
    sibling *all;
    int32_t depth = 0;
    LAM_TRY(order_siblings(g, &by, &all));
    int32_t *stack = lmi_alloc_unset(&g->arena, g->nodes.n, sizeof *stack); /* positions in `all` */
    if (!stack) return lmi_nomem(g->e);
    LAM_TRY(add_place(g, 0));
    if (at(g, 0)->n_children) stack[depth++] = by.start[0];
    while (depth) {
        const int32_t pos = stack[--depth], id = all[pos].id;
        LAM_TRY(add_place(g, id));
        if (pos + 1 < by.start[at(g, id)->parent + 1]) stack[depth++] = pos + 1;
        if (at(g, id)->n_children) stack[depth++] = by.start[id];
    }
    return LAM_OK;
}

/* -- tensors --------------------------------------------------------------------------------------------- */

bool lmi_is_buffer(const lmi_stored_tensor *x) {
    static const char *const names[] = {"running_mean", "running_var", "num_batches_tracked"};
    if (x->role_known) return x->buffer;
    const char *dot = strrchr(x->name, '.'), *last = dot ? dot + 1 : x->name;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(last, names[i]) == 0) return true;
    /* torch gives no gradient to whole numbers, so a layer registers them as buffers unless they are packed,
     * or of one of torch's quantised types, whose names begin with a q */
    if (x->packed || x->dtype < 0 || lam_dtype_is_float(x->dtype)) return false;
    const char *type = lam_dtype_name(x->dtype);
    return *type != 'q' && strncmp(type, "float", 5) != 0 && lam_dtype_bits(x->dtype) > 0;
}

/* A part of a packed weight has a name behind that of the module: "qweight" is the weight. */
static const char *owned_name(const lmi_stored_tensor *x, const char *last) {
    static const char *const packed[] = {"qweight", "weight_packed"};
    for (size_t i = 0; x->packed && i < sizeof packed / sizeof *packed; i++)
        if (strcmp(last, packed[i]) == 0) return "weight";
    return last;
}

static lam_status add_tensor(growing *g, int32_t i, const char *last) {
    const lmi_stored_tensor *x = lmi_tensors_at(g->t, i);
    const int32_t module = at(g, g->of[i])->module;
    if (x->in >= 0) return LAM_OK; /* its bytes are those of the weight */
    if (x->same < 0) {
        const lam_tensor_info info = {.dtype = x->dtype,
                                      .ndim = x->ndim,
                                      .sizes = x->sizes,
                                      .bytes = x->bytes};
        LAM_TRY(lam_build_tensor(g->b, &info, &g->made[i], g->e));
        if (x->elsewhere > 0) LAM_TRY(lam_build_elsewhere(g->b, g->made[i], x->elsewhere, g->e));
        if (x->bytes < 0 || x->elsewhere > 0)
            LAM_TRY(lam_build_wraps(g->b, g->made[i], x->bytes, x->elsewhere > 0 ? x->here : -1, g->e));
    } else {
        g->made[i] = g->made[x->same];
    }
    return lam_build_owns(g->b, module, owned_name(x, last), g->made[i], lmi_is_buffer(x), g->e);
}

/* -- values ---------------------------------------------------------------------------------------------- */

static const char *last_of(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot && dot[1] ? dot + 1 : name;
}

/* -Inf alone is mostly a mask, where a layer registers it as a buffer. */
static bool is_mask(const lmi_stored_tensor *x) {
    return x->found.nan == 0 && x->found.inf == x->found.negative && lmi_is_buffer(x);
}

static lam_status add_bad(const lmi_stored_tensor *x, int32_t place, lam_builder *b, lam_error *e) {
    const bool bad = x->found.nan || x->found.inf;
    if (x->same >= 0 || place < 0 || (!x->unseen && (!bad || is_mask(x)))) return LAM_OK;
    const lam_bad found = {.side = x->unseen ? LAM_BAD_UNSEEN : LAM_BAD_OWNED,
                           .phase = LAM_FORWARD,
                           .call = -1,
                           .from = -1,
                           .index = -1,
                           .place = place,
                           .name = last_of(x->name),
                           .found = x->found,
                           .dtype = x->raw.dtype,
                           .ndim = x->raw.ndim,
                           .sizes = x->raw.sizes};
    return lam_build_bad(b, &found, e);
}

lam_status lmi_tensors_health(const lmi_tensors *t, const int32_t *place, lam_builder *b, lam_error *e) {
    lam_checked looked = {0};
    for (int32_t i = 0; i < lmi_tensors_n(t); i++) {
        const lmi_stored_tensor *x = lmi_tensors_at(t, i);
        if (x->same >= 0) continue;
        looked.unseen += x->unseen != NULL;
        looked.tensors += x->unseen == NULL;
        looked.bytes += x->unseen || x->raw.bytes < 0 ? 0 : x->raw.bytes;
    }
    LAM_TRY(lam_build_checked(b, &looked, e));
    for (int32_t i = 0; i < lmi_tensors_n(t); i++) LAM_TRY(add_bad(lmi_tensors_at(t, i), place[i], b, e));
    return LAM_OK;
}

/* A part of a packed weight belongs to the module of the weight. A place has the number of its module. */
static lam_status add_health(growing *g) {
    if (!g->t->checked) return LAM_OK;
    int32_t *place = lmi_alloc_none(&g->t->arena, lmi_tensors_n(g->t));
    if (!place) return lmi_nomem(g->e);
    for (int32_t i = 0; i < lmi_tensors_n(g->t); i++) {
        const int32_t in = lmi_tensors_at(g->t, i)->in, owner = g->of[in < 0 ? i : in];
        if (owner >= 0) place[i] = at(g, owner)->module;
    }
    return lmi_tensors_health(g->t, place, g->b, g->e);
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The types of a module's tensors, each once: "float32 q4_K". They are in the order of the alphabet, since
 * that of the tensors differs from file to file. */
static lam_status add_types(growing *g, int32_t *type_of, lmi_vec *types, int32_t from, int32_t to) {
    const char *first = NULL; /* of most modules the one type */
    lmi_buf text;
    types->n = 0;
    for (int32_t i = from; i < to; i++) {
        const lmi_stored_tensor *x = lmi_tensors_at(g->t, type_of[i]);
        if (x->in >= 0 || x->type == first) continue;
        if (!first) first = x->type;
        LAM_TRY(lmi_vec_put(types, &x->type, g->e));
    }
    if (!first || !*first) return LAM_OK;
    lmi_buf_init(&text);
    const char *const *type = types->data;
    if (types->n > 1) qsort(types->data, types->n, sizeof first, by_text);
    for (size_t i = 0; types->n > 1 && i < types->n; i++)
        if (i == 0 || strcmp(type[i], type[i - 1]) != 0) lmi_putf(&text, "%s%s", i ? " " : "", type[i]);
    const lam_value v = {.type = LAM_TEXT, .text = types->n > 1 ? lmi_buf_text(&text) : first};
    lam_status s = lmi_buf_status(&text, g->e);
    if (s == LAM_OK) s = lam_build_attr(g->b, at(g, g->of[type_of[from]])->module, "dtype", &v, g->e);
    lmi_buf_free(&text);
    return s;
}

static lam_status add_attrs(growing *g, lmi_vec *types) {
    const int32_t n = lmi_tensors_n(g->t);
    lmi_groups by;
    for (size_t i = 0; i < g->t->attrs.n; i++) {
        const lam_attr *a = lmi_vec_at(&g->t->attrs, i);
        LAM_TRY(lam_build_attr(g->b, 0, a->name, &a->value, g->e));
    }
    if (!lmi_group_by(&g->arena, g->of, n, (int32_t)g->nodes.n, &by)) return lmi_nomem(g->e);
    for (size_t k = 0; k < g->nodes.n; k++)
        if (by.start[k + 1] > by.start[k])
            LAM_TRY(add_types(g, by.order, types, by.start[k], by.start[k + 1]));
    return LAM_OK;
}

static lam_status grow(growing *g) {
    const int32_t n = lmi_tensors_n(g->t);
    const char **last = lmi_alloc(&g->arena, (uint64_t)n, sizeof *last);
    int32_t root;
    lmi_vec types;
    g->of = lmi_alloc_none(&g->arena, n);
    g->made = lmi_alloc_none(&g->arena, n);
    if (!last || !g->of || !g->made) return lmi_nomem(g->e);
    LAM_TRY(lmi_map_reserve(&g->children, (size_t)n, g->e)); /* few files have more modules */
    LAM_TRY(add_node(g, -1, "", 0, &root));
    LAM_TRY(add_classes(g));
    for (int32_t i = 0; i < n; i++) {
        const lmi_stored_tensor *x = lmi_tensors_at(g->t, i);
        if (x->in < 0) LAM_TRY(find_node(g, x->name, &g->of[i], &last[i]));
    }
    LAM_TRY(lmi_builder_reserve(g->b, (int32_t)g->nodes.n, n, g->e));
    LAM_TRY(add_places(g));
    for (int32_t i = 0; i < n; i++)
        if (g->of[i] >= 0) LAM_TRY(add_tensor(g, i, last[i]));
    LAM_TRY(add_health(g));
    lmi_vec_init(&types, sizeof(const char *));
    lam_status s = add_attrs(g, &types);
    lmi_vec_free(&types);
    return s;
}

lam_status lmi_tensors_tree(lmi_tensors *t, lam_builder *b, lam_error *e) {
    growing g = {.t = t, .b = b, .e = e};
    lmi_vec_init(&g.nodes, sizeof(node));
    lmi_map_init(&g.children);
    lmi_buf_init(&g.name);
    lmi_arena_init(&g.arena, UINT64_MAX);
    lam_status s = grow(&g);
    lmi_vec_free(&g.nodes);
    lmi_map_free(&g.children);
    lmi_buf_free(&g.name);
    lmi_arena_free(&g.arena);
    return s;
}
