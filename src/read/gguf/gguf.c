/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads GGUF of version 2 and 3, by docs/gguf.md of ggml. Every count is held against the bytes that are left
 * before anything is done as often; of the tensors' bytes none is read. */
#include "read/gguf/gguf.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    MOST_DIMENSIONS = 4,
    MOST_NESTED = 4,
    MOST_ATTRS = 64,
    MOST_TEXT = 256, /* of a value that is kept */
    LEAST_KEY = 13,
    LEAST_INFO = 24,
    LEAST_STRING = 8, /* bytes of the shortest key with its value, ... */
    ALIGNMENT = 32
};
enum { TEXT = 8, LIST = 9, N_VALUES = 13 };
/* Bytes of each type of value; 0: it has a length of its own. */
static const uint8_t value_size[N_VALUES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

typedef struct known_type {
    uint32_t number;
    const char *name;
    int64_t elements, bytes;
    const char *dtype;
} known_type;
static const known_type types[] = {
#define TYPE(number, name, elements, bytes, dtype) {number, name, elements, bytes, dtype},
#include "read/gguf/types.def"
#undef TYPE
};

/* Where a tensor's bytes are, from the beginning of the data. */
typedef struct extent {
    uint64_t from, bytes;
    int32_t id;
} extent;

typedef struct reading {
    lmi_tensors *t;
    lmi_cursor c;
    lmi_gguf *file;
    uint64_t alignment;
    char *architecture; /* NULL: not yet told */
    lmi_map keys;
    lmi_arena arena; /* of the keys */
    lmi_vec extents; /* extent */
    int32_t n_attrs;
    lam_error *e;
} reading;

bool lmi_is_gguf(const unsigned char *head, size_t n) { return n >= 4 && memcmp(head, "GGUF", 4) == 0; }

static lam_status bad(const reading *r, uint64_t at, const char *what) {
    return lmi_bytes_bad(r->c.of, at, r->e, what);
}

/* -- numbers and texts ----------------------------------------------------------------------------------- */

static lam_status take_number(reading *r, size_t n, uint64_t *out) {
    const unsigned char *b;
    LAM_TRY(lmi_cursor_take(&r->c, n, &b, r->e));
    *out = n == 8 ? lmi_le64(b) : n == 4 ? lmi_le32(b) : n == 2 ? lmi_le16(b) : b[0];
    return LAM_OK;
}

/* A count of things that take at least `least` bytes each. */
static lam_status take_count(reading *r, uint64_t least, uint64_t *out, const char *what) {
    const uint64_t at = r->c.at;
    LAM_TRY(take_number(r, 8, out));
    return *out <= lmi_cursor_left(&r->c) / least ? LAM_OK : bad(r, at, what);
}

/* A text of the arena; no byte of it is NUL. */
static lam_status take_text(reading *r, lmi_arena *arena, const char **out) {
    const uint64_t at = r->c.at;
    uint64_t n;
    LAM_TRY(take_count(r, 1, &n, "a text that is longer than the file"));
    char *text = lmi_alloc(arena, n + 1, 1);
    if (!text) return lmi_nomem(r->e);
    for (uint64_t done = 0; done < n;) {
        const unsigned char *piece;
        size_t there = 0;
        LAM_TRY(lmi_cursor_peek(&r->c, &piece, &there, r->e));
        if (there > n - done) there = (size_t)(n - done);
        memcpy(text + done, piece, there);
        LAM_TRY(lmi_cursor_skip(&r->c, there, r->e));
        done += there;
    }
    *out = text;
    return strlen(text) == n ? LAM_OK : bad(r, at, "a text with a NUL in it");
}

static lam_status skip_text(reading *r) {
    uint64_t n;
    LAM_TRY(take_count(r, 1, &n, "a text that is longer than the file"));
    return lmi_cursor_skip(&r->c, n, r->e);
}

/* -- keys ------------------------------------------------------------------------------------------------ */

/* Passes over a list; lists in it are counted down in turn. */
static lam_status skip_list(reading *r) {
    uint64_t left[MOST_NESTED];
    int depth = 0;
    do {
        uint64_t at = r->c.at, kind, n;
        LAM_TRY(take_number(r, 4, &kind));
        if (kind >= N_VALUES) return bad(r, at, "a list of a type that is not known");
        const uint64_t least = kind == LIST ? 12 : kind == TEXT ? LEAST_STRING : value_size[kind];
        LAM_TRY(take_count(r, least, &n, "a list that is longer than the file"));
        if (kind == LIST && n) {
            if (depth == MOST_NESTED) return bad(r, at, "lists that are too deep in each other");
            left[depth++] = n;
            continue;
        }
        for (uint64_t i = 0; kind == TEXT && i < n; i++) LAM_TRY(skip_text(r));
        if (kind != TEXT && kind != LIST) LAM_TRY(lmi_cursor_skip(&r->c, n * value_size[kind], r->e));
        while (depth && --left[depth - 1] == 0) depth--;
    } while (depth);
    return LAM_OK;
}

static double as_double(uint64_t bits, size_t n) {
    double d = 0;
    float f = 0;
    const uint32_t low = (uint32_t)bits;
    if (n == sizeof d) memcpy(&d, &bits, sizeof d);
    if (n == sizeof f) memcpy(&f, &low, sizeof f);
    return n == sizeof f ? (double)f : d;
}

/* The value of a number's bits; false: it does not fit. */
static bool as_value(uint64_t kind, uint64_t bits, lam_value *v) {
    static const uint8_t is_signed[N_VALUES] = {[1] = 8, [3] = 16, [5] = 32, [11] = 64};
    v->type = LAM_INT;
    v->i = (int64_t)bits;
    if (is_signed[kind] == 8) v->i = (int8_t)bits;
    if (is_signed[kind] == 16) v->i = (int16_t)bits;
    if (is_signed[kind] == 32) v->i = (int32_t)bits;
    if (kind == 7) *v = (lam_value){.type = LAM_BOOL, .i = bits != 0};
    if (kind == 6 || kind == 12) *v = (lam_value){.type = LAM_FLOAT, .f = as_double(bits, value_size[kind])};
    return kind != 10 || bits <= INT64_MAX;
}

static lam_status take_alignment(reading *r, uint64_t at, const lam_value *v) {
    if (v->type != LAM_INT || v->i <= 0 || v->i > 1 << 30 || (v->i & (v->i - 1)))
        return bad(r, at, "an alignment that is no power of 2");
    r->alignment = (uint64_t)v->i;
    return LAM_OK;
}

/* Keeps what tells about the model itself: its architecture, and the numbers under that name. */
static lam_status keep(reading *r, uint64_t at, const char *key, const lam_value *v) {
    const size_t n = r->architecture ? strlen(r->architecture) : 0;
    if (strcmp(key, "general.alignment") == 0) return take_alignment(r, at, v);
    if (strcmp(key, "split.no") == 0 && v->type == LAM_INT) r->file->part = v->i;
    if (strcmp(key, "split.count") == 0 && v->type == LAM_INT) r->file->parts = v->i;
    if (strcmp(key, "general.architecture") == 0 && v->type == LAM_TEXT && !r->architecture) {
        r->architecture = lmi_strdup(&r->t->arena, v->text);
        if (!r->architecture) return lmi_nomem(r->e);
        if (!r->t->of.type) r->t->of.type = r->architecture;
        return LAM_OK;
    }
    const bool own = n && strncmp(key, r->architecture, n) == 0 && key[n] == '.';
    if (r->file->part > 0 || r->n_attrs == MOST_ATTRS || (!own && strcmp(key, "general.name") != 0))
        return LAM_OK;
    r->n_attrs++;
    return lmi_tensors_attr(r->t, own ? key + n + 1 : "name", v, r->e);
}

static lam_status take_key(reading *r) {
    const uint64_t at = r->c.at;
    const char *key, *text;
    uint64_t kind, bits;
    lam_value v = {.type = LAM_NONE};
    LAM_TRY(take_text(r, &r->arena, &key));
    if (lmi_map_get(&r->keys, key) >= 0) return bad(r, at, "a key that stands there twice");
    LAM_TRY(lmi_map_put(&r->keys, key, 0, r->e));
    LAM_TRY(take_number(r, 4, &kind));
    if (kind >= N_VALUES) return bad(r, r->c.at - 4, "a value of a type that is not known");
    if (kind == LIST) return skip_list(r);
    if (kind == TEXT) {
        LAM_TRY(take_text(r, &r->arena, &text));
        v = (lam_value){.type = LAM_TEXT, .text = text};
        return strlen(text) <= MOST_TEXT ? keep(r, at, key, &v) : LAM_OK;
    }
    LAM_TRY(take_number(r, value_size[kind], &bits));
    return as_value(kind, bits, &v) ? keep(r, at, key, &v) : LAM_OK;
}

/* -- tensors --------------------------------------------------------------------------------------------- */

static const known_type *type_of(uint64_t number) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].number == number) return &types[i];
    return NULL;
}

/* The sizes, the last axis first in the file, in torch's order. */
static lam_status take_sizes(reading *r, int64_t *sizes, int32_t *n) {
    const uint64_t at = r->c.at;
    uint64_t axes, size;
    LAM_TRY(take_number(r, 4, &axes));
    if (axes > MOST_DIMENSIONS) return bad(r, at, "a tensor of more than 4 axes");
    *n = (int32_t)axes;
    for (int32_t i = *n - 1; i >= 0; i--) {
        LAM_TRY(take_number(r, 8, &size));
        if (size > INT64_MAX) return bad(r, r->c.at - 8, "a size of more than 63 bits");
        sizes[i] = (int64_t)size;
    }
    return LAM_OK;
}

static lam_status take_tensor(reading *r) {
    const uint64_t at = r->c.at;
    int64_t sizes[MOST_DIMENSIONS], numel;
    uint64_t number, offset;
    const char *name;
    int32_t n = 0;
    LAM_TRY(take_text(r, &r->arena, &name));
    LAM_TRY(take_sizes(r, sizes, &n));
    LAM_TRY(take_number(r, 4, &number));
    const known_type *type = type_of(number);
    if (!type)
        return lmi_fail_at(r->e, LAM_UNSUPPORTED, (int64_t)r->c.at - 4, r->c.of->name,
                           "its tensor '%.100s' has type %u, which is not known, at byte %llu", name,
                           (unsigned)number, (unsigned long long)r->c.at - 4);
    LAM_TRY(take_number(r, 8, &offset));
    if (!lmi_product(sizes, n, &numel)) return bad(r, at, "a tensor of more elements than can be");
    const int64_t row = n ? sizes[n - 1] : 1;
    if (row % type->elements) return bad(r, at, "a tensor whose rows are no whole blocks of its type");
    const lmi_int128 bytes = (lmi_int128)numel / type->elements * type->bytes;
    if (bytes > INT64_MAX) return bad(r, at, "a tensor of more bytes than can be");
    const extent x = {offset, (uint64_t)bytes, lmi_tensors_n(r->t)};
    LAM_TRY(lmi_vec_put(&r->extents, &x, r->e));
    const lmi_stored_tensor info = {.name = name,
                                    .type = type->name,
                                    .dtype = type->dtype ? lam_dtype_by_name(type->dtype) : -1,
                                    .ndim = n,
                                    .sizes = sizes,
                                    .bytes = (int64_t)bytes,
                                    .placed = true,
                                    .at = offset};
    return lmi_tensors_add(r->t, &info, r->c.of, at, r->e);
}

static int by_place(const void *a, const void *b) {
    const extent *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* A file without tensors, such as one of a vocabulary, may end before its data would begin. */
static lam_status check_extents(reading *r) {
    const uint64_t size = r->c.of->size, data = (r->c.at + r->alignment - 1) & ~(r->alignment - 1);
    const uint64_t room = data < size ? size - data : 0;
    uint64_t end = 0;
    if (r->extents.n) qsort(r->extents.data, r->extents.n, sizeof(extent), by_place);
    for (size_t i = 0; i < r->extents.n; i++) {
        const extent *x = lmi_vec_at(&r->extents, i);
        const char *what = x->from % r->alignment ? "is not where its alignment says"
                           : x->bytes > room || x->from > room - x->bytes
                               ? "reaches behind the end of the file"
                           : x->bytes && x->from < end ? "overlaps another"
                                                       : NULL;
        if (what)
            return lmi_fail_at(r->e, LAM_SYNTAX, (int64_t)data, r->c.of->name,
                               "it is damaged or cut off: the tensor '%.100s', at byte %llu of the data, %s",
                               lmi_tensors_at(r->t, x->id)->name, (unsigned long long)x->from, what);
        end = x->from + x->bytes;
        lmi_tensors_at(r->t, x->id)->at += data;
    }
    return LAM_OK;
}

static lam_status read_all(reading *r) {
    uint64_t version, tensors, keys;
    LAM_TRY(lmi_cursor_skip(&r->c, 4, r->e));
    LAM_TRY(take_number(r, 4, &version));
    r->file->version = (uint32_t)version;
    if (version != 2 && version != 3)
        return lmi_fail_at(r->e, LAM_UNSUPPORTED, 4, r->c.of->name,
                           "it is GGUF of version %u%s, and 2 and 3 are known", (unsigned)version,
                           version & 0xffff ? "" : " (of the other byte order)");
    LAM_TRY(take_count(r, LEAST_INFO, &tensors, "more tensors than the file has room for"));
    LAM_TRY(take_count(r, LEAST_KEY, &keys, "more keys than the file has room for"));
    for (uint64_t i = 0; i < keys; i++) LAM_TRY(take_key(r));
    for (uint64_t i = 0; i < tensors; i++) LAM_TRY(take_tensor(r));
    return check_extents(r);
}

lam_status lmi_gguf_read(lmi_tensors *t, const lmi_bytes *of, lmi_gguf *out, lam_error *e) {
    reading r = {.t = t, .file = out, .alignment = ALIGNMENT, .e = e};
    unsigned char *piece = malloc(LMI_PIECE);
    *out = (lmi_gguf){0};
    if (!piece) return lmi_nomem(e);
    lmi_map_init(&r.keys);
    lmi_arena_init(&r.arena, UINT64_MAX);
    lmi_vec_init(&r.extents, sizeof(extent));
    r.c = lmi_cursor_of(of, piece);
    lam_status s = read_all(&r);
    lmi_map_free(&r.keys);
    lmi_arena_free(&r.arena);
    lmi_vec_free(&r.extents);
    free(piece);
    return s;
}

lam_status lmi_gguf_part(const char *first, int64_t part, int64_t parts, char **out, lam_error *e) {
    char tail[64];
    const size_t n = strlen(first);
    const int k = snprintf(tail, sizeof tail, "-00001-of-%05lld.gguf", (long long)parts);
    *out = NULL;
    if (n <= (size_t)k || strcmp(first + n - (size_t)k, tail) != 0)
        return lmi_fail(
            e, LAM_FAILED, first,
            "it is the first of %lld files, and its name does not end in %s, so the others can't be "
            "found",
            (long long)parts, tail);
    *out = malloc(n + sizeof tail);
    if (!*out) return lmi_nomem(e);
    memcpy(*out, first, n - (size_t)k);
    snprintf(*out + n - (size_t)k, sizeof tail, "-%05lld-of-%05lld.gguf", (long long)part + 1,
             (long long)parts);
    return LAM_OK;
}
