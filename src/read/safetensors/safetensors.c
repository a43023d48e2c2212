/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the header of a safetensors file, by the rules of the format's own reader: no byte of the data is
 * outside a tensor, or in two of them. Of the data only what tells a shape is read. */
#include "read/safetensors/safetensors.h"

#include <stdlib.h>

enum { LENGTH = 8, MOST_HEADER = 100000000, DEEPEST = 16 };
/* What the header has of a tensor at least: "":{"dtype":"","shape":[],"data_offsets":[0,0]} */
enum { LEAST_ENTRY = 48 };

typedef struct known_type {
    const char *name, *dtype; /* of the format; of torch, NULL: it has none */
    int bits;
} known_type;
static const known_type types[] = {{"F32", "float32", 32},
                                   {"F16", "float16", 16},
                                   {"BF16", "bfloat16", 16},
                                   {"F64", "float64", 64},
                                   {"I64", "int64", 64},
                                   {"I32", "int32", 32},
                                   {"I16", "int16", 16},
                                   {"I8", "int8", 8},
                                   {"U8", "uint8", 8},
                                   {"U16", "uint16", 16},
                                   {"U32", "uint32", 32},
                                   {"U64", "uint64", 64},
                                   {"BOOL", "bool", 8},
                                   {"F8_E4M3", "float8_e4m3fn", 8},
                                   {"F8_E5M2", "float8_e5m2", 8},
                                   {"F8_E8M0", "float8_e8m0fnu", 8},
                                   {"F8_E4M3FNUZ", "float8_e4m3fnuz", 8},
                                   {"F8_E5M2FNUZ", "float8_e5m2fnuz", 8},
                                   {"C64", "complex64", 64},
                                   {"F4", NULL, 4},
                                   {"F6_E2M3", NULL, 6},
                                   {"F6_E3M2", NULL, 6}};

/* The type that the tensor before had, and most have: it is found once (bench/files.py). */
typedef struct named_type {
    const char *name;     /* as the header has it; NULL: there is none yet */
    const known_type *of; /* NULL: it is not known */
    int32_t dtype;        /* -1: torch has none */
} named_type;

/* Where a tensor's bytes are in the data, to check that they fill it. */
typedef struct extent {
    int64_t from, to;
    uint32_t at; /* where its name is in the header */
} extent;

typedef struct reading {
    lmi_tensors *t;
    const lmi_bytes *of;
    lmi_json j;    /* the entry of one tensor: bench/files.py has headers of 100,000 */
    uint64_t data; /* where the tensors' bytes begin in the file */
    lmi_vec extents;
    named_type last;
    lam_error *e;
} reading;

bool lmi_is_safetensors(const unsigned char *head, size_t n, uint64_t size) {
    if (n < LENGTH + 1 || head[LENGTH] != '{') return false;
    const uint64_t header = lmi_le64(head);
    return header <= MOST_HEADER && header <= size - LENGTH;
}

/* Fails: what begins at a byte of the header is not what it should be. */
static lam_status wrong_at(const reading *r, uint64_t at, const char *path, const char *what) {
    return lmi_fail_at(r->e, LAM_SYNTAX, (int64_t)(LENGTH + at), r->of->name,
                       "it is damaged: %.200s %s, at byte %llu of the file", path, what,
                       (unsigned long long)(LENGTH + at));
}

/* Fails: the value at a position is not what it should be. */
static lam_status wrong(const reading *r, uint32_t at, const char *what) {
    lmi_buf path;
    lmi_buf_init(&path);
    lmi_json_put_path(&r->j, at, &path);
    lam_status s = wrong_at(r, r->j.v[at].at, path.n ? lmi_buf_text(&path) : "its header", what);
    lmi_buf_free(&path);
    return s;
}

/* The same of a tensor whose entry was read before. */
static lam_status wrong_tensor(const reading *r, const extent *x, const char *what) {
    lmi_buf path;
    lmi_buf_init(&path);
    lmi_put_clean(&path, r->j.text + x->at);
    lam_status s = wrong_at(r, x->at, path.n ? lmi_buf_text(&path) : "its header", what);
    lmi_buf_free(&path);
    return s;
}

/* Finds a type by its name, into r->last. */
static void find_type(reading *r, const char *name) {
    if (r->last.name && strcmp(r->last.name, name) == 0) return;
    r->last = (named_type){.name = name, .dtype = -1};
    for (size_t i = 0; !r->last.of && i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, name) == 0) r->last.of = &types[i];
    if (r->last.of && r->last.of->dtype) r->last.dtype = lam_dtype_by_name(r->last.of->dtype);
}

static lam_status take_ints(const reading *r, uint32_t owner, const char *name, int32_t most, int64_t *out,
                            int32_t *n) {
    const uint32_t list = lmi_json_get(&r->j, owner, name);
    if (lmi_json_is(&r->j, list) != LMI_JSON_LIST)
        return wrong(r, owner, "has no list of numbers where it should");
    if (lmi_json_size(&r->j, list) > (uint32_t)most) return wrong(r, list, "has too many numbers");
    *n = 0;
    LMI_JSON_EACH(&r->j, list, i) {
        if (!lmi_json_as_int(&r->j, i, &out[*n]) || out[*n] < 0)
            return wrong(r, i, "is no whole number of at least 0");
        ++*n;
    }
    return LAM_OK;
}

/* The bytes that so many elements take, in whole bytes; -1: unknown, or too many. */
static int64_t bytes_of(const known_type *type, const int64_t *sizes, int32_t n) {
    int64_t numel;
    if (!type || !lmi_product(sizes, n, &numel)) return -1;
    const lmi_int128 bits = (lmi_int128)numel * type->bits;
    return bits % 8 || bits / 8 > INT64_MAX ? -1 : (int64_t)(bits / 8);
}

static lam_status take_tensor(reading *r, uint32_t name, uint32_t value) {
    const char *dtype = lmi_json_as_text(&r->j, lmi_json_get(&r->j, value, "dtype"));
    int64_t sizes[LMI_MOST_AXES], where[2];
    int32_t n = 0;
    if (lmi_json_is(&r->j, value) != LMI_JSON_OBJECT) return wrong(r, value, "is no object");
    if (!dtype) return wrong(r, value, "has no text \"dtype\"");
    if (lmi_json_size(&r->j, value) > 3) /* it needs three, and may have one of them twice */
        LAM_TRY(lmi_json_unique(&r->j, value, r->of->name, r->e));
    find_type(r, dtype);
    const known_type *type = r->last.of;
    LAM_TRY(take_ints(r, value, "data_offsets", 2, where, &n));
    if (n != 2 || where[1] < where[0])
        return wrong(r, value, "has no \"data_offsets\" of a begin and an end");
    const extent place = {where[0], where[1], r->j.v[name].at};
    LAM_TRY(lmi_vec_put(&r->extents, &place, r->e));
    LAM_TRY(take_ints(r, value, "shape", LMI_MOST_AXES, sizes, &n));
    const int64_t bytes = bytes_of(type, sizes, n);
    if (type && bytes != where[1] - where[0])
        return wrong(r, value, "has other bytes than its shape and type take");
    lmi_stored_tensor x = {.name = lmi_json_as_text(&r->j, name),
                           .type = type ? type->dtype ? type->dtype : type->name : dtype,
                           .dtype = r->last.dtype,
                           .ndim = n,
                           .sizes = sizes,
                           .bytes = where[1] - where[0],
                           .placed = true,
                           .at = r->data + (uint64_t)where[0]};
    if (where[1] <= (int64_t)(r->of->size - r->data)) LAM_TRY(lmi_tensors_values(r->t, &x, r->of, r->e));
    return lmi_tensors_put(r->t, &x, r->of, LENGTH + r->j.v[name].at, r->e);
}

static int by_place(const void *a, const void *b) {
    const extent *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return (x->to > y->to) - (x->to < y->to);
}

static lam_status check_filled(reading *r) {
    const int64_t all = (int64_t)(r->of->size - r->data);
    extent *extents = r->extents.data;
    const size_t n = r->extents.n;
    int64_t at = 0;
    bool sorted = true; /* as most writers leave them */
    for (size_t i = 1; sorted && i < n; i++) sorted = by_place(&extents[i - 1], &extents[i]) <= 0;
    if (!sorted) qsort(extents, n, sizeof *extents, by_place);
    for (size_t i = 0; i < n; i++) {
        const extent *x = &extents[i];
        if (x->to > all)
            return wrong_tensor(r, x, "is a tensor whose bytes would be behind the end of the file");
        if (x->from != at)
            return wrong_tensor(r, x, "is a tensor that overlaps another, or leaves a gap before it");
        at = x->to;
    }
    if (at == all) return LAM_OK;
    return lmi_fail_at(
        r->e, LAM_SYNTAX, (int64_t)(r->data + (uint64_t)at), r->of->name,
        "it is damaged: behind its last tensor are %lld bytes that belong to none, at byte %llu",
        (long long)(all - at), (unsigned long long)(r->data + (uint64_t)at));
}

static lam_status take_entry(void *of, uint32_t name) {
    reading *r = of;
    return lmi_json_equals(&r->j, name, "__metadata__") ? LAM_OK : take_tensor(r, name, name + 1);
}

/* Makes room for the tensors: the header has an object for each. */
static lam_status reserve(reading *r, const char *text, size_t n) {
    const size_t most = n / LEAST_ENTRY;
    size_t objects = 0;
    for (const char *p = text; objects < most && (p = memchr(p, '{', (size_t)(text + n - p))) != NULL; p++)
        objects++;
    LAM_TRY(lmi_vec_reserve(&r->extents, objects, r->e));
    return lmi_tensors_reserve(r->t, objects, r->e);
}

static lam_status take_header(reading *r, char *text, size_t n) {
    static const lmi_json_limits limits = {.depth = DEEPEST, .size = MOST_HEADER};
    LAM_TRY(reserve(r, text, n));
    LAM_TRY(lmi_json_read_each(&r->j, text, n, &limits, take_entry, r, r->of->name, r->e));
    const bool object = lmi_json_is(&r->j, LMI_JSON_ROOT) == LMI_JSON_OBJECT;
    const lam_status s = object ? check_filled(r) : wrong_at(r, 0, "its header", "is no JSON object");
    lmi_json_free(&r->j);
    return s;
}

lam_status lmi_safetensors_read(lmi_tensors *t, const lmi_bytes *of, lam_error *e) {
    reading r = {.t = t, .of = of, .e = e};
    unsigned char length[LENGTH];
    lmi_bytes header;
    LAM_TRY(lmi_bytes_read(of, 0, length, sizeof length, e));
    if (lmi_le64(length) > MOST_HEADER) return lmi_bytes_bad(of, 0, e, "a header of more than 100 MB");
    LAM_TRY(lmi_bytes_part(of, LENGTH, lmi_le64(length), NULL, &header, e));
    r.data = LENGTH + header.size;
    char *text = lmi_alloc_unset(&t->arena, header.size + 1, 1); /* names stay in it */
    if (!text) return lmi_nomem(e);
    LAM_TRY(lmi_bytes_read(&header, 0, text, (size_t)header.size, e));
    lmi_vec_init(&r.extents, sizeof(extent));
    const lam_status s = take_header(&r, text, (size_t)header.size);
    lmi_vec_free(&r.extents);
    return s;
}
