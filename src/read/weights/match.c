/* SPDX-License-Identifier: Apache-2.0
 *
 * Which tensors of two files belong together, and what became of each: by equal names; by the names of other
 * programs for the same part; of the rest those with the same bytes. */
#include "read/weights/weights.h"

#include <stdio.h>
#include <stdlib.h>

enum { LEAST_BYTES = 64 << 20, MOST_TIMES = 4 };

typedef struct matching {
    lam_weights_diff *d;
    const lmi_tensors *t[2];
    int32_t *mate[2]; /* of each tensor of a side: that of the other; -1: none */
    bool *renamed;    /* of each tensor after: it has its mate by its bytes */
    lmi_watching w;
    uint64_t used, most; /* bytes that comparing may read: tensors of a file may share its bytes */
    lam_error *e;
} matching;

static int32_t n_of(const matching *k, int side) { return lmi_tensors_n(k->t[side]); }
static lmi_stored_tensor *at(const matching *k, int side, int32_t i) { return lmi_tensors_at(k->t[side], i); }

static void join(matching *k, int side, int32_t i, int32_t j) {
    k->mate[side][i] = j;
    k->mate[!side][j] = i;
}

/* The tensor of a side with a name, if it has no mate; -1: none. */
static int32_t single(const matching *k, int side, const char *name) {
    const int32_t i = lmi_tensors_find(k->t[side], name);
    return i >= 0 && k->mate[side][i] < 0 ? i : -1;
}

/* -- by names -------------------------------------------------------------------------------------------- */

static void by_name(matching *k) {
    for (int32_t i = 0; i < n_of(k, 0); i++) {
        const int32_t j = single(k, 1, at(k, 0, i)->name);
        if (j >= 0) join(k, 0, i, j);
    }
}

/* The name of a weight that is packed in several tensors: "up.weight" of "up.qweight"; NULL: it is none. */
static const char *owner_of(const lmi_stored_tensor *x, char *room, size_t size) {
    static const char *const ends[][2] = {{".qweight", ".weight"},
                                          {".weight_packed", ".weight"},
                                          {".W_q", ".weight"},
                                          {".weight._data._data", ".weight"},
                                          {".weight._data", ".weight"},
                                          {"_blocks", ""}};
    const size_t n = strlen(x->name);
    for (size_t i = 0; x->packed && i < sizeof ends / sizeof *ends; i++) {
        const size_t tail = strlen(ends[i][0]);
        if (n <= tail || strcmp(x->name + n - tail, ends[i][0]) != 0) continue;
        const int all = snprintf(room, size, "%.*s%s", (int)(n - tail), x->name, ends[i][1]);
        return (size_t)all < size ? room : NULL;
    }
    return NULL;
}

/* The packed tensor of a side without a mate that is of this weight; -1: none. */
static int32_t packed_of(const matching *k, int side, const char *owner, const lmi_map *owners) {
    const int64_t i = lmi_map_get(owners, owner);
    return i >= 0 && k->mate[side][i] < 0 ? (int32_t)i : -1;
}

/* Joins packed weights with plain ones, and with those that are packed in another way. */
static lam_status by_owner(matching *k, lmi_map *owners) {
    char room[1024];
    for (int side = 1; side >= 0; side--)
        for (int32_t i = 0; i < n_of(k, side); i++) {
            const char *name = k->mate[side][i] < 0 ? owner_of(at(k, side, i), room, sizeof room) : NULL;
            int32_t j = name ? single(k, !side, name) : -1;
            if (name && side && j < 0) LAM_TRY(lmi_map_put(owners, name, i, k->e));
            if (name && !side && j < 0) j = packed_of(k, 1, name, owners);
            if (j >= 0) join(k, side, i, j);
        }
    return LAM_OK;
}

static bool is_gguf(const lmi_tensors *t) { return strncmp(t->format, "GGUF", 4) == 0; }

/* Gemma's norms are stored less 1 by one of the two, so they are other values. */
static bool is_shifted(const matching *k, int side, const char *name) {
    const char *type = k->t[side]->of.type;
    return type && strncmp(type, "gemma", 5) == 0 && strstr(name, "norm");
}

static void by_word(matching *k, int side) {
    static const char *const before[] = {"model.", "", "language_model.model.", "model.language_model."};
    char word[512], room[600];
    if (!is_gguf(k->t[side]) || is_gguf(k->t[!side])) return;
    for (int32_t i = 0; i < n_of(k, side); i++) {
        const char *name = at(k, side, i)->name;
        if (k->mate[side][i] >= 0 || is_shifted(k, side, name) || !lmi_weights_word(name, word, sizeof word))
            continue;
        for (size_t b = 0; b < sizeof before / sizeof *before && k->mate[side][i] < 0; b++) {
            snprintf(room, sizeof room, "%s%s", before[b], word);
            const int32_t j = single(k, !side, room);
            if (j >= 0) join(k, side, i, j);
        }
    }
}

/* -- by bytes -------------------------------------------------------------------------------------------- */

static uint64_t form_of(const lmi_stored_tensor *x) {
    const uint64_t parts[] = {lmi_hash_text(x->raw.type), (uint64_t)x->raw.bytes,
                              x->raw.ndim > 0 ? lmi_hash(x->raw.sizes, (size_t)x->raw.ndim * sizeof(int64_t))
                                              : (uint64_t)x->raw.ndim};
    return lmi_hash(parts, sizeof parts);
}

static bool is_open(const matching *k, int side, int32_t i) {
    const lmi_stored_tensor *x = at(k, side, i);
    return k->mate[side][i] < 0 && !lmi_unread(x) && x->raw.bytes > 0;
}

static bool may_read(matching *k, const lmi_stored_tensor *x) {
    k->used += (uint64_t)x->raw.bytes;
    return k->used <= k->most;
}

static bool same_form(const lmi_stored_tensor *a, const lmi_stored_tensor *b) {
    return strcmp(a->raw.type, b->raw.type) == 0 && a->raw.ndim == b->raw.ndim &&
           a->raw.bytes == b->raw.bytes &&
           (a->raw.ndim <= 0 ||
            memcmp(a->raw.sizes, b->raw.sizes, (size_t)a->raw.ndim * sizeof(int64_t)) == 0);
}

/* The forms of the tensors of a side without a mate. */
static lam_status forms_of(const matching *k, int side, lmi_map *to) {
    for (int32_t i = 0; i < n_of(k, side); i++)
        if (is_open(k, side, i)) LAM_TRY(lmi_map_put_u64(to, form_of(at(k, side, i)), i, k->e));
    return LAM_OK;
}

/* Joins a tensor after with the first before that has its bytes. */
static lam_status find_bytes(matching *k, int32_t j, uint64_t hash, const lmi_map *content) {
    const lmi_stored_tensor *x[2] = {NULL, at(k, 1, j)};
    size_t slot = hash;
    for (int64_t i; (i = lmi_map_next(content, hash, &slot)) >= 0;) {
        lam_tensor_change c = {0};
        x[0] = at(k, 0, (int32_t)i);
        if (k->mate[0][i] >= 0 || !same_form(x[0], x[1]) || !may_read(k, x[0])) continue;
        LAM_TRY(lmi_weights_compare(k->t, x, false, &c, &k->w, k->e));
        if (c.change != LAM_WEIGHTS_EQUAL) continue;
        join(k, 0, (int32_t)i, j);
        k->renamed[j] = true;
        return LAM_OK;
    }
    return LAM_OK;
}

static lam_status by_content(matching *k, lmi_map form[2], lmi_map *content) {
    uint64_t hash;
    for (int side = 0; side < 2; side++) LAM_TRY(forms_of(k, side, &form[side]));
    for (int side = 0; side < 2; side++)
        for (int32_t i = 0; i < n_of(k, side); i++) {
            const lmi_stored_tensor *x = at(k, side, i);
            if (!is_open(k, side, i) || lmi_map_get_u64(&form[!side], form_of(x)) < 0 || !may_read(k, x))
                continue;
            LAM_TRY(lmi_weights_hash(k->t[side], x, &hash, &k->w, k->e));
            if (side)
                LAM_TRY(find_bytes(k, i, hash, content));
            else
                LAM_TRY(lmi_map_add(content, hash, i, k->e));
        }
    return LAM_OK;
}

static lam_status by_bytes(matching *k) {
    lmi_map form[2], content;
    for (int i = 0; i < 2; i++) lmi_map_init(&form[i]);
    lmi_map_init(&content);
    lam_status s = by_content(k, form, &content);
    for (int i = 0; i < 2; i++) lmi_map_free(&form[i]);
    lmi_map_free(&content);
    return s;
}

/* -- what became of a tensor ----------------------------------------------------------------------------- */

static bool same_sizes(const lmi_stored_tensor *a, const lmi_stored_tensor *b) {
    return a->ndim == b->ndim && a->ndim >= 0 &&
           memcmp(a->sizes, b->sizes, (size_t)a->ndim * sizeof *a->sizes) == 0;
}

/* Rows of the queries and keys of Llama are in another order in GGUF: of each head first the two halves in
 * turn. The other tensor is then read in that order, as one of 4 axes. False: it has no such heads. */
static bool in_turns(const matching *k, int gguf, const lmi_stored_tensor *x, lmi_stored_tensor view[2],
                     int64_t room[8]) {
    static const char *const counts[] = {"attention.head_count_kv", "attention.head_count"};
    int64_t heads = 0;
    for (size_t i = 0; i < k->t[gguf]->attrs.n; i++) {
        const lam_attr *a = lmi_vec_at(&k->t[gguf]->attrs, i);
        const bool key = strstr(x->name, "attn_k.") != NULL;
        if (a->value.type == LAM_INT && strcmp(a->name, counts[!key]) == 0) heads = a->value.i;
    }
    const bool is_one = strstr(x->name, "attn_q.") || strstr(x->name, "attn_k.");
    if (!is_one || x->raw.ndim != 2 || heads <= 0 || x->raw.sizes[0] % (2 * heads) || view[!gguf].strides)
        return false;
    const int64_t half = x->raw.sizes[0] / heads / 2, in = x->raw.sizes[1];
    const int64_t sizes[] = {heads, half, 2, in}, strides[] = {2 * half * in, in, half * in, 1};
    memcpy(room, sizes, sizeof sizes);
    memcpy(room + 4, strides, sizeof strides);
    view[!gguf].raw.sizes = room;
    view[!gguf].raw.ndim = 4;
    view[!gguf].strides = room + 4;
    return true;
}

static bool is_closer(const lam_tensor_change *c, const lam_tensor_change *than) {
    return c->compared && than->compared && c->squares * than->before < than->squares * c->before / 4;
}

/* "values of iq2_xxs are not read" */
static lam_status name_type(matching *k, const lmi_stored_tensor *const x[2], lam_tensor_change *c) {
    char text[128];
    const lmi_stored_type type = lmi_stored_type_of(x[0]);
    snprintf(text, sizeof text, "values of %.64s are not read", x[lmi_is_number(&type)]->raw.type);
    c->why = lmi_strdup(&k->d->arena, text);
    return c->why ? LAM_OK : lmi_nomem(k->e);
}

static lam_status compare_values(matching *k, const lmi_stored_tensor *const x[2], lam_tensor_change *c) {
    lmi_stored_tensor view[2] = {*x[0], *x[1]};
    const lmi_stored_tensor *const seen[2] = {&view[0], &view[1]};
    const int gguf = is_gguf(k->t[1]);
    lam_tensor_change turned = *c;
    int64_t room[8];
    LAM_TRY(lmi_weights_compare(k->t, x, false, c, &k->w, k->e));
    if (c->why) return name_type(k, x, c);
    if (is_gguf(k->t[0]) == is_gguf(k->t[1]) || c->change != LAM_WEIGHTS_CHANGED ||
        !in_turns(k, gguf, x[gguf], view, room) || !may_read(k, x[0]) || !may_read(k, x[1]))
        return LAM_OK;
    LAM_TRY(lmi_weights_compare(k->t, seen, false, &turned, &k->w, k->e));
    if (is_closer(&turned, c)) *c = turned;
    return LAM_OK;
}

/* *known false: the values of a side are packed in a way that is not read. */
static lam_status has_values(const matching *k, const lmi_stored_tensor *const x[2], bool *known) {
    *known = true;
    for (int side = 0; side < 2 && *known; side++)
        if (x[side]->packed) LAM_TRY(lmi_can_unpack(k->t[side], x[side], known, k->e));
    return LAM_OK;
}

/* Experts in blocks (gpt-oss) have outputs before inputs, where transformers has them the other way round:
 * the plain tensor is then read so, as one with strides. */
static bool is_turned(const lmi_stored_tensor *packed, lmi_stored_tensor *plain, int64_t room[8]) {
    const int32_t n = packed->ndim;
    const char *end = strrchr(packed->name, '_');
    if (!packed->packed || plain->packed || !end || strcmp(end, "_blocks") != 0) return false;
    if (n < 2 || n > 4 || plain->raw.ndim != n || plain->strides || lmi_stored_type_of(plain).elements != 1)
        return false;
    int64_t *sizes = room, *strides = room + 4, step = 1;
    for (int32_t i = n - 1; i >= 0; i--) {
        const int32_t to = i < n - 2 ? i : 2 * n - 3 - i; /* the last two change places */
        sizes[to] = plain->raw.sizes[i];
        strides[to] = step;
        step *= plain->raw.sizes[i];
        if (sizes[to] != packed->sizes[to]) return false;
    }
    plain->raw.sizes = sizes;
    plain->strides = strides;
    return true;
}

static lam_status compare_unpacked(matching *k, const lmi_stored_tensor *const x[2], lam_tensor_change *c) {
    lmi_stored_tensor view[2] = {*x[0], *x[1]};
    const lmi_stored_tensor *const seen[2] = {&view[0], &view[1]};
    int64_t room[8];
    const bool same = same_sizes(x[0], x[1]);
    const bool turned = is_turned(x[0], &view[1], room) || is_turned(x[1], &view[0], room);
    lam_tensor_change other = *c;
    if (!same && !turned) {
        c->change = LAM_WEIGHTS_CHANGED;
        c->why = "its shape is another";
        return LAM_OK;
    }
    LAM_TRY(lmi_weights_compare(k->t, same ? x : seen, true, c, &k->w, k->e));
    if (c->why) return name_type(k, x, c);
    if (!same || !turned || !may_read(k, x[0]) || !may_read(k, x[1])) return LAM_OK;
    LAM_TRY(lmi_weights_compare(k->t, seen, true, &other, &k->w, k->e));
    if (is_closer(&other, c)) *c = other;
    return LAM_OK;
}

/* Packed weights of one kind are equal or not by the bytes of their numbers: their scales are tensors of
 * their own. How much differs is computed from the values, where these can be. */
static lam_status compare_packed(matching *k, const lmi_stored_tensor *const x[2], lam_tensor_change *c) {
    const bool alike =
        x[0]->packed && x[1]->packed && strcmp(x[0]->type, x[1]->type) == 0 && same_form(x[0], x[1]);
    const lam_tensor_change before = *c;
    bool known;
    if (alike) {
        LAM_TRY(lmi_weights_compare(k->t, x, false, c, &k->w, k->e));
        if (c->change == LAM_WEIGHTS_EQUAL) return LAM_OK;
        *c = before;
    }
    c->change = alike ? LAM_WEIGHTS_CHANGED : LAM_WEIGHTS_UNKNOWN;
    LAM_TRY(has_values(k, x, &known));
    if (!known) {
        c->why = "its values are packed, and can't be computed from the tensors that hold them";
        return LAM_OK;
    }
    return compare_unpacked(k, x, c);
}

static lam_status compare_pair(matching *k, const lmi_stored_tensor *const x[2], lam_tensor_change *c) {
    const char *why = lmi_unread(x[0]) ? lmi_unread(x[0]) : lmi_unread(x[1]);
    c->change = LAM_WEIGHTS_UNKNOWN;
    c->why = why;
    if (why) return LAM_OK;
    if (!x[0]->packed && !x[1]->packed && !same_sizes(x[0], x[1])) {
        c->change = LAM_WEIGHTS_CHANGED;
        c->why = "its shape is another";
        return LAM_OK;
    }
    c->why = "the tensors of its file have the same bytes so often that not all are read";
    if (!may_read(k, x[0]) || !may_read(k, x[1])) return LAM_OK;
    c->why = NULL;
    return x[0]->packed || x[1]->packed ? compare_packed(k, x, c) : compare_values(k, x, c);
}

/* -- the list -------------------------------------------------------------------------------------------- */

/* Sets what a tensor is on one side, in memory of the difference. */
static lam_status describe(matching *k, const lmi_stored_tensor *x, int side, lam_tensor_change *c) {
    lmi_arena *a = &k->d->arena;
    const char *name = lmi_strdup(a, x->name);
    *(side ? &c->name : &c->was) = name;
    c->type[side] = lmi_strdup(a, x->type);
    c->ndim[side] = x->ndim;
    c->sizes[side] = lmi_copy(a, x->sizes, x->ndim > 0 ? (uint64_t)x->ndim : 0, sizeof *x->sizes);
    c->elements = x->numel;
    return name && c->type[side] && c->sizes[side] ? LAM_OK : lmi_nomem(k->e);
}

/* A part of a packed weight is a part of what becomes of that, if the other has it in one tensor or packed in
 * another way. */
static bool is_within(const matching *k, int side, int32_t i) {
    const int32_t in = at(k, side, i)->in, mate = in < 0 ? -1 : k->mate[side][in];
    if (k->mate[side][i] >= 0 || mate < 0 || k->renamed[side ? in : mate]) return false;
    const lmi_stored_tensor *x = at(k, side, in), *other = at(k, !side, mate);
    return strcmp(x->type, other->type) != 0 || strcmp(x->name, other->name) != 0;
}

static lam_status add(matching *k, int32_t before, int32_t after) {
    const lmi_stored_tensor *const x[2] = {before < 0 ? NULL : at(k, 0, before),
                                           after < 0 ? NULL : at(k, 1, after)};
    lam_tensor_change c = {.change = x[0] ? LAM_WEIGHTS_REMOVED : LAM_WEIGHTS_ADDED, .ndim = {-1, -1}};
    for (int side = 0; side < 2; side++)
        if (x[side]) LAM_TRY(describe(k, x[side], side, &c));
    if (x[0] && x[1] && k->renamed[after]) {
        c.change = LAM_WEIGHTS_RENAMED;
        c.compared = true;
    } else if (x[0] && x[1]) {
        LAM_TRY(compare_pair(k, x, &c));
    }
    return lmi_vec_put(&k->d->tensors, &c, k->e);
}

static lam_status list(matching *k) {
    for (int32_t j = 0; j < n_of(k, 1); j++)
        if (!is_within(k, 1, j)) LAM_TRY(add(k, k->mate[1][j], j));
    for (int32_t i = 0; i < n_of(k, 0); i++)
        if (k->mate[0][i] < 0 && !is_within(k, 0, i)) LAM_TRY(add(k, i, -1));
    return LAM_OK;
}

static uint64_t bytes_of(const matching *k) {
    uint64_t all = 0;
    for (int side = 0; side < 2; side++)
        for (int32_t i = 0; i < n_of(k, side); i++)
            if (at(k, side, i)->raw.bytes > 0) all += (uint64_t)at(k, side, i)->raw.bytes;
    return all;
}

static lam_status match(matching *k) {
    lmi_arena *a = &k->d->arena;
    for (int side = 0; side < 2; side++)
        if (!(k->mate[side] = lmi_alloc_none(a, n_of(k, side)))) return lmi_nomem(k->e);
    if (!(k->renamed = lmi_alloc(a, (uint64_t)n_of(k, 1), sizeof *k->renamed))) return lmi_nomem(k->e);
    k->w.all = bytes_of(k);
    by_name(k);
    lmi_map owners;
    lmi_map_init(&owners);
    const lam_status s = by_owner(k, &owners);
    lmi_map_free(&owners);
    if (s != LAM_OK) return s;
    for (int side = 0; side < 2; side++) by_word(k, side);
    LAM_TRY(by_bytes(k));
    return list(k);
}

lam_status lmi_weights_match(lam_weights_diff *d, const lmi_tensors *const t[2], const lam_watcher *o,
                             lam_error *e) {
    matching k = {.d = d, .t = {t[0], t[1]}, .w = {.o = o}, .e = e};
    k.most = LEAST_BYTES + MOST_TIMES * (t[0]->size + t[1]->size);
    return match(&k);
}
