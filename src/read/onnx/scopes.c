/* SPDX-License-Identifier: Apache-2.0
 *
 * Which module a node is of. Exporters tell it in three ways, of which a file has one or two: torch's newer
 * one notes for each node the names and classes of the modules around it; the older one and TensorFlow's put
 * them into the node's name, "/layer1/layer1.0/conv1/Conv"; and initialisers keep the names that they have in
 * the model, "layer1.0.conv1.weight". The last of these wins: a convolution that a batch normalisation was
 * folded into has the names of the latter. Where nothing is told each node is a place. */
#include "read/onnx/source.h"

#include <ctype.h>
#include <stdio.h>

enum { MOST_PARTS = LMI_ONNX_MOST_PARTS, MOST_PATH = 1024 };

/* The modules around a node, outermost first. */
typedef struct chain {
    int32_t n;
    const char *path[MOST_PARTS], *type[MOST_PARTS], *key[MOST_PARTS];
} chain;

static lmi_onnx_scope_of *at(const lmi_onnx_scopes *s, int32_t i) { return lmi_vec_at(&s->at, (size_t)i); }

/* -- scopes ------------------------------------------------------------------------------------------------
 */

lam_status lmi_onnx_too_many_modules(const lmi_onnx_model *m, lam_error *e) {
    return lmi_fail(e, LAM_LIMIT, m->file->name, "it names more modules than a file of its size should");
}

/* The call of a module inside that of its parent, by a key; with `again` a further one, which the key then
 * names. */
static lam_status add_scope(lmi_onnx_scopes *s, const lmi_onnx_model *m, int32_t parent, const char *key,
                            const char *path, const char *type, bool again, int32_t *out, lam_error *e) {
    const lmi_onnx_scope_of fresh = {parent, path, type};
    *out = (int32_t)lmi_map_get(&s->by_key, key);
    if (*out >= 0 && at(s, *out)->parent == parent && !again) {
        lmi_onnx_scope_of *known = at(s, *out);
        if (!known->type) known->type = type;
        return LAM_OK;
    }
    if (lmi_onnx_modules_are_many(m, s->at.n)) return lmi_onnx_too_many_modules(m, e);
    *out = (int32_t)s->at.n;
    LAM_TRY(lmi_vec_put(&s->at, &fresh, e));
    return lmi_map_put(&s->by_key, key, *out, e);
}

/* True if a node reads only results from outside a scope, and some of these: if the scope was left before,
 * its module is called again. */
static bool reads_from_outside(const lmi_onnx_scopes *s, const lmi_onnx_model *m, const lmi_onnx_node *n,
                               int32_t scope) {
    bool any = false;
    for (int32_t i = 0; i < n->n_in; i++) {
        const lmi_onnx_value *v = lmi_onnx_in(m, n, i);
        if (!v || v->where != LMI_ONNX_NOWHERE || lmi_onnx_stored(m, n->in[i]) >= 0) continue;
        int32_t from = v->producer >= 0 ? s->of[v->producer] : -1;
        while (from >= 0 && from != scope) from = at(s, from)->parent;
        if (from >= 0) return false;
        any = true;
    }
    return any;
}

/* -- what a node's notes tell ------------------------------------------------------------------------------
 */

/* The next text of a list as Python prints it, "['', 'layer1', 'layer1.0']"; *out NULL: there is none. */
static lam_status next_quoted(const char **p, lmi_arena *a, const char **out, lam_error *e) {
    const char *begin = *p + strcspn(*p, "'\""), *end = *begin ? strchr(begin + 1, *begin) : NULL;
    *out = NULL;
    if (!end) return LAM_OK;
    *p = end + 1;
    *out = lmi_strndup(a, begin + 1, (size_t)(end - begin - 1));
    return *out ? LAM_OK : lmi_nomem(e);
}

static const char *note(const lmi_onnx_node *n, const char *key) {
    for (int32_t i = 0; i < n->n_meta; i++)
        if (strcmp(n->meta[i].key, key) == 0) return n->meta[i].value;
    return NULL;
}

/* The last name is the operator's own. */
static lam_status chain_of_notes(const lmi_onnx_node *n, lmi_arena *a, chain *c, lam_error *e) {
    const char *names = note(n, "pkg.torch.onnx.name_scopes"),
               *types = note(n, "pkg.torch.onnx.class_hierarchy");
    c->n = 0;
    if (!names) return LAM_OK;
    while (c->n < MOST_PARTS) {
        const char *path, *type = NULL;
        LAM_TRY(next_quoted(&names, a, &path, e));
        if (types) LAM_TRY(next_quoted(&types, a, &type, e));
        if (!path) break;
        if (c->n > 0 && !*path) break;
        c->path[c->n] = c->key[c->n] = path;
        c->type[c->n++] = type;
    }
    if (c->n > 0) c->n--;
    if (c->n > 0 && *c->path[0]) c->n = 0; /* it does not begin with the whole model */
    return LAM_OK;
}

/* -- what a node's name tells ------------------------------------------------------------------------------
 */

/* A part of a name is the path from the part before it, or repeats the end of that one: "layer1/layer1.0". */
static const char *joined(lmi_arena *a, const char *path, const char *last, const char *part) {
    const size_t n = strlen(last);
    const bool repeats = n && strncmp(part, last, n) == 0 && part[n] == '.';
    const char *rest = repeats ? part + n + 1 : part;
    const size_t room = strlen(path) + strlen(rest) + 2;
    if (room > MOST_PATH) return path;
    char *text = lmi_alloc(a, room, 1);
    return text ? strcat(strcat(strcpy(text, path), *path && *rest ? "." : ""), rest) : NULL;
}

static lam_status chain_of_name(const lmi_onnx_node *n, lmi_arena *a, chain *c, lam_error *e) {
    const char *p = n->name + strspn(n->name, "/"), *last = "";
    c->n = 1;
    c->path[0] = c->key[0] = "";
    c->type[0] = NULL;
    for (const char *slash; (slash = strchr(p, '/')) && c->n < MOST_PARTS; p = slash + 1) {
        const char *part = lmi_strndup(a, p, (size_t)(slash - p));
        if (!part) return lmi_nomem(e);
        if (!*part) continue;
        c->path[c->n] = joined(a, c->path[c->n - 1], last, part);
        c->key[c->n] = lmi_strndup(a, n->name, (size_t)(slash - n->name));
        if (!c->path[c->n] || !c->key[c->n]) return lmi_nomem(e);
        c->type[c->n++] = NULL;
        last = part;
    }
    return LAM_OK;
}

/* -- what initialisers tell --------------------------------------------------------------------------------
 */

lam_status lmi_onnx_owner_path(const char *name, lmi_arena *a, const char **out, lam_error *e) {
    const char *dot = strrchr(name, '.');
    *out = "";
    if (!dot || dot == name || !dot[1] || strpbrk(name, "/: ") || strlen(name) >= MOST_PATH) return LAM_OK;
    for (const char *p = name; p < dot; p++)
        if (p[0] == '.' && p[1] == '.') return LAM_OK;
    *out = lmi_strndup(a, name, (size_t)(dot - name));
    return *out ? LAM_OK : lmi_nomem(e);
}

/* torch's exporter names a tensor that it stored once again by such a node. */
static bool is_identity(const lmi_onnx_node *n) {
    return !*n->domain && strcmp(n->op, "Identity") == 0 && n->n_in == 1;
}

bool lmi_onnx_names_stored(const lmi_onnx_model *m, const lmi_onnx_node *n) {
    return is_identity(n) && lmi_onnx_stored(m, n->in[0]) >= 0;
}

int32_t lmi_onnx_stored(const lmi_onnx_model *m, int32_t value) {
    for (int32_t steps = 0; value >= 0 && steps < LMI_ONNX_DEEPEST; steps++) {
        const lmi_onnx_value *v = lmi_onnx_value_at(m, value);
        if (v->initialiser || (v->where != LMI_ONNX_NOWHERE && v->producer < 0 && !v->input)) return value;
        const lmi_onnx_node *n = lmi_onnx_node_at(m, v->producer);
        if (!n || !is_identity(n)) return -1;
        value = n->in[0];
    }
    return -1;
}

/* The path of the module whose tensors a node reads; "": they tell none. */
static lam_status told_by_weights(const lmi_onnx_model *m, const lmi_onnx_node *n, lmi_arena *a,
                                  const char **out, lam_error *e) {
    *out = "";
    for (int32_t i = 0; i < n->n_in && !**out; i++) {
        const int32_t v = lmi_onnx_stored(m, n->in[i]);
        if (v >= 0) LAM_TRY(lmi_onnx_owner_path(lmi_onnx_value_at(m, v)->name, a, out, e));
    }
    return LAM_OK;
}

/* True if `path` is `base` and behind it a number that an exporter adds at a further call: "conv_1" of
 * "conv". */
static bool is_again(const char *path, const char *base) {
    const size_t n = strlen(base);
    if (strncmp(path, base, n) != 0 || path[n] != '_' || !isdigit((unsigned char)path[n + 1])) return false;
    return path[n + 1 + strspn(path + n + 1, "0123456789")] == '\0';
}

static bool is_inside(const char *path, const char *around) {
    const size_t n = strlen(around);
    return strncmp(path, around, n) == 0 && (path[n] == '.' || path[n] == '\0');
}

/* Adds the module of a path, and those around it that the chain does not have. */
static lam_status add_path(chain *c, const char *path, lmi_arena *a, lam_error *e) {
    const bool noted = c->type[0] != NULL; /* then the key of a module is its path */
    while (c->n > 1 && !is_inside(path, c->path[c->n - 1])) c->n--;
    for (const char *dot = path + strlen(c->path[c->n - 1]); dot && *dot && c->n < MOST_PARTS;) {
        char key[MOST_PATH + 8];
        dot = strchr(*dot == '.' ? dot + 1 : dot, '.');
        const char *part = dot ? lmi_strndup(a, path, (size_t)(dot - path)) : path;
        if (!part) return lmi_nomem(e);
        snprintf(key, sizeof key, "%s%s", noted ? "" : "|", part);
        c->path[c->n] = part;
        c->type[c->n] = NULL;
        c->key[c->n] = lmi_strdup(a, key);
        if (!c->key[c->n]) return lmi_nomem(e);
        c->n++;
    }
    return LAM_OK;
}

/* Corrects the innermost module by the one that the weights tell. Others that read a weight, as a module that
 * shares it, keep their names. */
static lam_status by_weights(lmi_onnx_scopes *s, const char *path, chain *c, lmi_arena *a, lam_error *e) {
    const char *last = c->path[c->n - 1], *type = c->type[c->n - 1];
    const bool norm = type && strstr(type, "BatchNorm");
    if (!*path || strcmp(last, path) == 0) return LAM_OK;
    if (is_again(last, path)) {
        c->path[c->n - 1] = path;
        return LAM_OK;
    }
    if ((c->n > 1 || type) && !norm) return LAM_OK; /* notes tell that it ran in the root */
    if (norm && lmi_map_get(&s->folded_by, last) < 0) {
        LAM_TRY(lmi_map_put(&s->folded_by, last, s->folded, e));
        s->folded++;
    }
    return add_path(c, path, a, e);
}

/* A module without weights that is called again has a number behind its name, where the first call has none.
 */
static void by_name_again(const lmi_onnx_scopes *s, chain *c) {
    char text[MOST_PATH];
    for (int32_t i = 1; i < c->n; i++) {
        const char *key = c->key[i], *mark = strrchr(key, '_');
        if (!mark || strlen(key) >= sizeof text || strspn(mark + 1, "0123456789") != strlen(mark + 1) ||
            !mark[1])
            continue;
        snprintf(text, sizeof text, "%.*s", (int)(mark - key), key);
        const int64_t first = lmi_map_get(&s->by_key, text);
        if (first >= 0 && is_again(c->path[i], at(s, (int32_t)first)->path))
            c->path[i] = at(s, (int32_t)first)->path;
    }
}

/* -- all nodes ---------------------------------------------------------------------------------------------
 */

static lam_status place_node(lmi_onnx_scopes *s, const lmi_onnx_model *m, int32_t node, lmi_arena *a,
                             bool *any, lam_error *e) {
    const lmi_onnx_node *n = lmi_onnx_node_at(m, node);
    const char *path;
    int32_t scope = 0;
    chain c;
    s->of[node] = 0;
    if (lmi_onnx_names_stored(m, n)) return LAM_OK;
    LAM_TRY(chain_of_notes(n, a, &c, e));
    const bool noted = c.n > 0;
    if (!noted) LAM_TRY(chain_of_name(n, a, &c, e));
    LAM_TRY(told_by_weights(m, n, a, &path, e));
    LAM_TRY(by_weights(s, path, &c, a, e));
    if (!noted) by_name_again(s, &c);
    *any = *any || c.n > 1 || (noted && c.type[0]);
    for (int32_t i = 1; i < c.n; i++) {
        const int32_t known = (int32_t)lmi_map_get(&s->by_key, c.key[i]);
        const bool left = noted && known >= 0 && (i >= s->n_open || s->open[i] != known);
        const bool again = left && reads_from_outside(s, m, n, known);
        LAM_TRY(add_scope(s, m, scope, c.key[i], c.path[i], c.type[i], again, &scope, e));
        s->open[i] = scope;
    }
    s->n_open = c.n;
    if (noted && c.type[0] && !at(s, 0)->type) at(s, 0)->type = c.type[0];
    s->of[node] = scope;
    return LAM_OK;
}

/* Each node is a place of its own, by its name or that of its result. */
static lam_status place_alone(lmi_onnx_scopes *s, const lmi_onnx_model *m, int32_t node, lmi_arena *a,
                              lam_error *e) {
    const lmi_onnx_node *n = lmi_onnx_node_at(m, node);
    const lmi_onnx_value *made = lmi_onnx_out(m, n, 0);
    const char *from = *n->name ? n->name : made ? made->name : "";
    char text[MOST_PATH];
    s->of[node] = 0;
    if (lmi_onnx_names_stored(m, n)) return LAM_OK;
    snprintf(text, sizeof text, "%s", *from ? from : n->op);
    for (char *p = text; *p; p++)
        if (*p == '.' || *p == '/') *p = '_'; /* a dot would be read as a module inside another */
    while (lmi_map_get(&s->by_key, text) >= 0 && strlen(text) + 16 < sizeof text)
        snprintf(text + strlen(text), sizeof text - strlen(text), "_%d", (int)node);
    const char *name = lmi_strdup(a, text);
    if (!name) return lmi_nomem(e);
    return add_scope(s, m, 0, name, name, n->op, false, &s->of[node], e);
}

lam_status lmi_onnx_scopes_of(lmi_onnx_scopes *s, const lmi_onnx_model *m, lmi_arena *a, lam_error *e) {
    const int32_t n = (int32_t)m->nodes.n;
    bool any = false;
    int32_t root;
    *s = (lmi_onnx_scopes){0};
    lmi_vec_init(&s->at, sizeof(lmi_onnx_scope_of));
    lmi_map_init(&s->by_key);
    lmi_map_init(&s->folded_by);
    s->of = lmi_alloc_none(a, n);
    if (!s->of) return lmi_nomem(e);
    LAM_TRY(add_scope(s, m, -1, "", "", NULL, false, &root, e));
    for (int32_t i = 0; i < n; i++) LAM_TRY(place_node(s, m, i, a, &any, e));
    any = any || lmi_onnx_modules_are_many(m, (size_t)n);
    for (int32_t i = 0; i < n && !any; i++) LAM_TRY(place_alone(s, m, i, a, e));
    return LAM_OK;
}

void lmi_onnx_scopes_free(lmi_onnx_scopes *s) {
    lmi_vec_free(&s->at);
    lmi_map_free(&s->by_key);
    lmi_map_free(&s->folded_by);
}
