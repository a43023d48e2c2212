/* SPDX-License-Identifier: Apache-2.0
 *
 * The tree of modules: those of the program's list, in its order, and what the nodes and the names of weights
 * tell beyond it. Only the nodes tell classes. */
#include "read/pt2/pt2.h"

enum { DEEPEST = 64, LEAST_NAMES = 16 << 20 };

lam_status lmi_pt2_check_modules(const lmi_pt2 *p) {
    if (p->modules.n + p->calls.n < 2 * lmi_bytes_modules(p->of) && p->names < LEAST_NAMES + 2 * p->of->size)
        return LAM_OK;
    return lmi_fail(p->e, LAM_LIMIT, p->of->name,
                    "its program names or calls more modules than a file of its size should");
}

/* The module at a path of n bytes; -1: there is none. */
static int32_t known(const lmi_pt2 *p, const char *path, size_t n) {
    const uint64_t hash = lmi_hash(path, n);
    int64_t i;
    for (size_t at = (size_t)hash; (i = lmi_map_next(&p->by_path, hash, &at)) >= 0;) {
        const char *there = lmi_pt2_module_at(p, (int32_t)i)->path;
        if (strncmp(there, path, n) == 0 && !there[n]) break;
    }
    return (int32_t)i;
}

/* Adds the module at a path of n bytes, of which its name are those from `name` on. */
static lam_status add(lmi_pt2 *p, int32_t parent, const char *path, size_t n, size_t name, int32_t *out) {
    const char *kept = lmi_strndup(&p->arena, path, n);
    if (!kept) return lmi_nomem(p->e);
    const lmi_pt2_module m = {.path = kept, .name = kept + name, .parent = parent, .index = -1};
    p->names += n + 1;
    LAM_TRY(lmi_pt2_check_modules(p));
    *out = (int32_t)p->modules.n;
    LAM_TRY(lmi_map_add(&p->by_path, lmi_hash(path, n), *out, p->e));
    return lmi_vec_put(&p->modules, &m, p->e);
}

lam_status lmi_pt2_module_of(lmi_pt2 *p, const char *path, size_t n, int32_t *out) {
    int32_t up = 0, depth = 0;
    *out = known(p, path, n);
    if (*out >= 0) return LAM_OK;
    for (size_t from = 0; from < n; depth++) {
        const char *dot = depth + 1 < DEEPEST ? memchr(path + from, '.', n - from) : NULL;
        const size_t end = dot ? (size_t)(dot - path) : n;
        const int32_t there = known(p, path, end);
        if (there >= 0)
            up = there;
        else
            LAM_TRY(add(p, up, path, end, from, &up));
        from = end + 1;
    }
    *out = up;
    return LAM_OK;
}

/* A shared module has a place for each of its paths, and the first one alone is called. */
lam_status lmi_pt2_modules(lmi_pt2 *p) {
    const lmi_json *j = &p->j;
    int32_t m;
    LAM_TRY(add(p, -1, "", 0, 0, &m));
    LMI_JSON_EACH(j, lmi_json_get(j, p->module, "module_call_graph"), i) {
        const char *path = lmi_json_as_text(j, lmi_json_get(j, i, "fqn"));
        if (!path) return lmi_pt2_bad(p, i, "a module without a name");
        LAM_TRY(lmi_pt2_module_of(p, path, strlen(path), &m));
    }
    for (size_t i = 0; i < p->weights.n; i++) {
        lmi_pt2_weight *w = lmi_pt2_weight_at(p, (int32_t)i);
        const char *dot = strrchr(w->name, '.');
        LAM_TRY(lmi_pt2_module_of(p, w->name, dot ? (size_t)(dot - w->name) : 0, &w->module));
    }
    return LAM_OK;
}

/* -- into the model -------------------------------------------------------------------------------------- */

static lam_status push(lmi_pt2 *p, int32_t i) {
    lmi_pt2_module *m = lmi_pt2_module_at(p, i);
    const char *path = m->type_path ? m->type_path : "?", *dot = strrchr(path, '.');
    const char *type = dot && dot[1] ? dot + 1 : path;
    const bool torchs = strncmp(path, "torch.nn.", 9) == 0;
    const lam_module_info info = {.type = type,
                                  .type_path = path,
                                  .word = lam_word_module(torchs ? type : path),
                                  .flags = (m->n ? 0u : LAM_MODULE_LEAF) | (torchs ? LAM_MODULE_EXACT : 0u) |
                                           (p->training ? LAM_MODULE_TRAINING : 0u) |
                                           ((p->stack && !p->hides) || i == 0 ? 0u : LAM_MODULE_INSIDE)};
    LAM_TRY(lam_build_module(p->b, &info, &m->index, p->e));
    /* A place has the number of its module, since each module has one place. */
    return lam_build_place(p->b, m->parent < 0 ? -1 : lmi_pt2_module_at(p, m->parent)->index, m->name,
                           m->index, NULL, p->e);
}

/* Parents first, and siblings in their order. */
lam_status lmi_pt2_places(lmi_pt2 *p) {
    const int32_t n = (int32_t)p->modules.n;
    int32_t *parent = lmi_alloc(&p->arena, (uint64_t)n, sizeof *parent),
            *stack = lmi_alloc(&p->arena, (uint64_t)n, sizeof *stack), depth = 0;
    lmi_groups by;
    if (!parent || !stack) return lmi_nomem(p->e);
    for (int32_t i = 0; i < n; i++) parent[i] = lmi_pt2_module_at(p, i)->parent;
    if (!lmi_group_by(&p->arena, parent, n, n, &by)) return lmi_nomem(p->e);
    for (int32_t i = 0; i < n; i++) lmi_pt2_module_at(p, i)->n = by.start[i + 1] - by.start[i];
    stack[depth++] = 0;
    while (depth) {
        const int32_t i = stack[--depth];
        LAM_TRY(push(p, i));
        for (int32_t k = by.start[i + 1]; k-- > by.start[i];) stack[depth++] = by.order[k];
    }
    return LAM_OK;
}
