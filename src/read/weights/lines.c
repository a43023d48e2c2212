/* SPDX-License-Identifier: Apache-2.0
 *
 * The differences by module: a line for each module that has a tensor that differs. A module that was added
 * or removed with all that is in it is one line, and so is all below the depth. */
#include "read/weights/weights.h"

#include <math.h>
#include <stdlib.h>

enum { DEEPEST = 32, LEAST_MODULES = 1 << 18 };

/* The tensors in a module, at any depth. */
typedef struct module {
    const char *path; /* its first `wide` bytes, of the name of a tensor in it */
    size_t wide;
    int32_t n, alone[2]; /* alone: added, removed */
} module;

typedef struct listing {
    lmi_weights_lines *to;
    const lam_weights_diff *d;
    lmi_map modules; /* of `module`, by a hash of its path */
    lmi_vec of;
    lmi_map lines; /* of lines, by path */
    int32_t depth, tensors;
    lam_error *e;
} listing;

static const char *const names[] = {"relative", "norm", "largest", "differ", "elements"};

const char *lam_weights_metric(int32_t i) { return i >= 0 && i < LMI_N_WEIGHTS_BY ? names[i] : NULL; }

double lmi_weights_value(const lam_tensor_change *c, lmi_weights_by by) {
    if (by == LMI_WEIGHTS_ELEMENTS) return (double)c->elements;
    if (!c->compared) return -1;
    switch (by) {
    case LMI_WEIGHTS_RELATIVE:
        return c->before > 0 ? sqrt(c->squares / c->before) : c->squares > 0 ? INFINITY : 0;
    case LMI_WEIGHTS_NORM: return sqrt(c->squares);
    case LMI_WEIGHTS_LARGEST: return c->largest;
    default: return c->elements > 0 ? (double)c->differ / (double)c->elements : 0;
    }
}

/* -- modules --------------------------------------------------------------------------------------------- */

static const char *name_of(const lam_tensor_change *c) { return c->name ? c->name : c->was; }

/* The end of the n-th module of a tensor's name, or of its last one if it has fewer; 0: the whole. */
static size_t end_of(const char *name, int32_t n) {
    size_t end = 0;
    for (const char *dot = strchr(name, '.'); dot && n > 0; dot = strchr(dot + 1, '.'), n--)
        if (dot[1]) end = (size_t)(dot - name);
    return end;
}

static int32_t depth_of(const listing *k) { return k->depth >= 0 && k->depth < DEEPEST ? k->depth : DEEPEST; }

static lam_status find_module(listing *k, const char *name, size_t n, module **out) {
    const uint64_t hash = lmi_hash(name, n);
    int64_t i;
    for (size_t at = (size_t)hash; (i = lmi_map_next(&k->modules, hash, &at)) >= 0;) {
        *out = lmi_vec_at(&k->of, (size_t)i);
        if ((*out)->wide == n && memcmp((*out)->path, name, n) == 0) return LAM_OK;
    }
    if (k->of.n >= LEAST_MODULES + 2 * (size_t)k->tensors)
        return lmi_fail(k->e, LAM_LIMIT, k->d->name[1],
                        "the names of its tensors, and of those before, have more modules than are compared");
    LAM_TRY(lmi_map_add(&k->modules, hash, (int64_t)k->of.n, k->e));
    *out = lmi_vec_push(&k->of);
    if (!*out) return lmi_nomem(k->e);
    (*out)->path = name;
    (*out)->wide = n;
    return LAM_OK;
}

/* Counts a tensor in each module that it is in. */
static lam_status count(listing *k, const lam_tensor_change *c) {
    const char *name = name_of(c);
    size_t before = 0;
    for (int32_t n = 1; n <= depth_of(k); n++) {
        const size_t end = end_of(name, n);
        module *m;
        if (end == before) return LAM_OK;
        before = end;
        LAM_TRY(find_module(k, name, end, &m));
        m->n++;
        m->alone[0] += c->change == LAM_WEIGHTS_ADDED;
        m->alone[1] += c->change == LAM_WEIGHTS_REMOVED;
    }
    return LAM_OK;
}

/* Where the path of a tensor's line ends. */
static lam_status place(listing *k, const lam_tensor_change *c, size_t *end, bool *whole) {
    const char *name = name_of(c);
    const bool alone = c->change == LAM_WEIGHTS_ADDED || c->change == LAM_WEIGHTS_REMOVED;
    *whole = false;
    *end = end_of(name, depth_of(k));
    for (int32_t n = 1; alone && n <= depth_of(k) && !*whole; n++) {
        module *m;
        const size_t at = end_of(name, n);
        if (!at) return LAM_OK;
        LAM_TRY(find_module(k, name, at, &m));
        if (m->alone[c->change == LAM_WEIGHTS_REMOVED] != m->n) continue;
        *end = at;
        *whole = true;
    }
    return LAM_OK;
}

/* Whole numbers, such as counts and positions, are no part of the norm of a model. */
static bool is_whole_number(const lam_tensor_change *c) {
    static const char *const whole[] = {"int", "uint", "bool"};
    for (size_t i = 0; c->type[0] && i < sizeof whole / sizeof *whole; i++)
        if (strncmp(c->type[0], whole[i], strlen(whole[i])) == 0) return true;
    return false;
}

/* -- lines ----------------------------------------------------------------------------------------------- */

static void add(lmi_weights_line *l, const lam_tensor_change *c) {
    lam_tensor_change *sum = &l->sum;
    const int32_t n = l->n[LAM_WEIGHTS_CHANGED];
    l->n[c->change]++;
    for (int i = 0; c->change == LAM_WEIGHTS_CHANGED && i < 2; i++)
        if (n == 0)
            l->type[i] = c->type[i];
        else if (!l->type[0] || !l->type[1] || strcmp(l->type[i], c->type[i]) != 0)
            l->type[0] = l->type[1] = NULL;
    if (!c->compared || c->change != LAM_WEIGHTS_CHANGED || is_whole_number(c)) return;
    sum->compared = true;
    sum->elements += c->elements;
    sum->differ += c->differ;
    sum->before += c->before;
    sum->squares += c->squares;
    if (c->largest > sum->largest) sum->largest = c->largest;
    for (int i = 0; i < 2; i++) sum->nonfinite[i] += c->nonfinite[i];
}

static lam_status add_line(listing *k, const lam_tensor_change *c, int32_t id) {
    size_t end;
    bool whole;
    LAM_TRY(place(k, c, &end, &whole));
    char *path = lmi_strndup(&k->to->arena, name_of(c), end);
    if (!path) return lmi_nomem(k->e);
    int64_t i = lmi_map_get(&k->lines, path);
    if (i < 0) {
        lmi_weights_line *l = lmi_vec_push(&k->to->at);
        if (!l) return lmi_nomem(k->e);
        *l = (lmi_weights_line){.path = path, .first = id, .whole = whole};
        i = (int64_t)k->to->at.n - 1;
        LAM_TRY(lmi_map_put(&k->lines, path, i, k->e));
    }
    add(lmi_vec_at(&k->to->at, (size_t)i), c);
    return LAM_OK;
}

/* Whole numbers are shown where nothing else differs. */
static void take_only(const listing *k, lmi_weights_line *l) {
    int32_t n = 0;
    for (int i = LAM_WEIGHTS_CHANGED; i < LAM_N_WEIGHTS_CHANGES; i++) n += l->n[i];
    if (n == 1 && l->n[LAM_WEIGHTS_CHANGED]) l->sum = *lam_weights_tensor(k->d, l->first);
}

static lam_status add_all(listing *k) {
    const lam_tensor_change *c;
    while (lam_weights_tensor(k->d, k->tensors)) k->tensors++;
    for (int32_t i = 0; i < k->tensors; i++) LAM_TRY(count(k, lam_weights_tensor(k->d, i)));
    for (int32_t i = 0; (c = lam_weights_tensor(k->d, i)); i++) {
        add(&k->to->all, c);
        if (c->change != LAM_WEIGHTS_EQUAL) LAM_TRY(add_line(k, c, i));
    }
    for (size_t i = 0; i < k->to->at.n; i++) take_only(k, lmi_vec_at(&k->to->at, i));
    return LAM_OK;
}

/* -- order ----------------------------------------------------------------------------------------------- */

typedef struct ranked {
    double value;
    int32_t at;
} ranked;

/* The elements of a line, also of one whose values are not compared. */
static double elements_of(const lam_weights_diff *d, const lmi_weights_line *l) {
    const lam_tensor_change *first = lam_weights_tensor(d, l->first);
    return l->sum.compared ? (double)l->sum.elements : (double)first->elements;
}

static int by_value(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->value != y->value) return x->value < y->value ? 1 : -1;
    return x->at < y->at ? -1 : 1;
}

static lam_status sort(listing *k, lmi_weights_by by) {
    lmi_weights_line *all = k->to->at.data;
    const size_t n = k->to->at.n;
    ranked *order = calloc(n + 1, sizeof *order);
    lmi_weights_line *sorted = calloc(n + 1, sizeof *sorted);
    for (size_t i = 0; order && sorted && i < n; i++)
        order[i] = (ranked){by == LMI_WEIGHTS_ELEMENTS ? elements_of(k->d, &all[i])
                                                       : lmi_weights_value(&all[i].sum, by),
                            (int32_t)i};
    if (order && sorted && n) {
        qsort(order, n, sizeof *order, by_value);
        for (size_t i = 0; i < n; i++) sorted[i] = all[order[i].at];
        memcpy(all, sorted, n * sizeof *all);
    }
    const bool ok = order && sorted;
    free(order);
    free(sorted);
    return ok ? LAM_OK : lmi_nomem(k->e);
}

lam_status lmi_weights_list(lmi_weights_lines *l, const lam_weights_diff *d, const char *by, int32_t depth,
                            lam_error *e) {
    listing k = {.to = l, .d = d, .depth = depth, .e = e};
    lmi_weights_by metric = LMI_WEIGHTS_RELATIVE;
    *l = (lmi_weights_lines){.all = {.path = "", .first = -1}};
    lmi_arena_init(&l->arena, UINT64_MAX);
    lmi_vec_init(&l->at, sizeof(lmi_weights_line));
    while (by && metric < LMI_N_WEIGHTS_BY && strcmp(by, names[metric]) != 0) metric++;
    if (metric == LMI_N_WEIGHTS_BY)
        return lmi_no_such(e, "metric", by, "weights", names, sizeof *names, LMI_N_WEIGHTS_BY);
    lmi_map_init(&k.modules);
    lmi_map_init(&k.lines);
    lmi_vec_init(&k.of, sizeof(module));
    lam_status s = add_all(&k);
    if (s == LAM_OK) s = sort(&k, metric);
    lmi_map_free(&k.modules);
    lmi_map_free(&k.lines);
    lmi_vec_free(&k.of);
    return s;
}

void lmi_weights_lines_free(lmi_weights_lines *l) {
    lmi_vec_free(&l->at);
    lmi_arena_free(&l->arena);
}
