/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the header of a safetensors file, by the rules of the format's own reader: no byte of the data is
 * outside a tensor, or in two of them. Of the data only what tells a shape is read. */
#include "read/safetensors/safetensors.h"

#include <stdlib.h>

enum { LENGTH = 8, MOST_HEADER = 100000000, DEEPEST = 16, MOST_TOLD = 1 << 14 };
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

/* Where a tensor's bytes are in the data, to check that they fill it. */
typedef struct extent {
    int64_t from, to;
    uint32_t at; /* of its name in the header */
} extent;

typedef struct reading {
    lmi_tensors *t;
    const lmi_bytes *of;
    lmi_json j;
    uint64_t data; /* where the tensors' bytes begin in the file */
    extent *extents;
    size_t n;
    lam_error *e;
} reading;

bool lmi_is_safetensors(const unsigned char *head, size_t n, uint64_t size) {
    if (n < LENGTH + 1 || head[LENGTH] != '{') return false;
    const uint64_t header = lmi_le64(head);
    return header <= MOST_HEADER && header <= size - LENGTH;
}

/* Fails: the value at a position of the header is not what it should be. */
static lam_status wrong(const reading *r, uint32_t at, const char *what) {
    lmi_buf path;
    lmi_buf_init(&path);
    if (at) lmi_json_put_path(&r->j, at, &path);
    const uint64_t byte = LENGTH + (at ? r->j.v[at].at : 0);
    lam_status s = lmi_fail_at(r->e, LAM_SYNTAX, (int64_t)byte, r->of->name,
                               "it is damaged: %.200s %s, at byte %llu of the file",
                               path.n ? lmi_buf_text(&path) : "its header", what, (unsigned long long)byte);
    lmi_buf_free(&path);
    return s;
}

static const known_type *type_of(const char *name) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, name) == 0) return &types[i];
    return NULL;
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

/* Some tensors tell about others: a shape of two numbers, or a text. */
static lam_status take_values(const reading *r, lmi_stored_tensor *x, const extent *place) {
    static const char *const shapes = ".weight_shape", *const states = ".weight.quant_state.";
    const size_t n = strlen(x->name), tail = strlen(shapes);
    unsigned char two[16];
    const bool wide = strcmp(x->type, "int64") == 0 && x->bytes == sizeof two;
    const bool narrow = strcmp(x->type, "int32") == 0 && x->bytes == sizeof two / 2;
    if (n >= tail && strcmp(x->name + n - tail, shapes) == 0 && (wide || narrow)) {
        LAM_TRY(lmi_bytes_read(r->of, r->data + (uint64_t)place->from, two, (size_t)x->bytes, r->e));
        for (int i = 0; i < 2; i++)
            x->shape[i] = wide ? (int64_t)lmi_le64(two + 8 * i) : (int64_t)(int32_t)lmi_le32(two + 4 * i);
    }
    if (strstr(x->name, states) && strcmp(x->type, "uint8") == 0 && x->bytes <= MOST_TOLD) {
        char *text = lmi_alloc(&r->t->arena, (uint64_t)x->bytes + 1, 1);
        if (!text) return lmi_nomem(r->e);
        LAM_TRY(lmi_bytes_read(r->of, r->data + (uint64_t)place->from, text, (size_t)x->bytes, r->e));
        x->text = text;
    }
    return LAM_OK;
}

static lam_status take_tensor(reading *r, uint32_t name, uint32_t value) {
    const char *dtype = lmi_json_as_text(&r->j, lmi_json_get(&r->j, value, "dtype"));
    int64_t sizes[LMI_MOST_AXES], where[2];
    int32_t n = 0;
    extent *place = &r->extents[r->n++];
    if (lmi_json_is(&r->j, value) != LMI_JSON_OBJECT) return wrong(r, value, "is no object");
    if (!dtype) return wrong(r, value, "has no text \"dtype\"");
    if (lmi_json_size(&r->j, value) > 3) /* it needs three, and may have one of them twice */
        LAM_TRY(lmi_json_unique(&r->j, value, r->of->name, r->e));
    const known_type *type = type_of(dtype);
    LAM_TRY(take_ints(r, value, "data_offsets", 2, where, &n));
    if (n != 2 || where[1] < where[0])
        return wrong(r, value, "has no \"data_offsets\" of a begin and an end");
    *place = (extent){where[0], where[1], name};
    LAM_TRY(take_ints(r, value, "shape", LMI_MOST_AXES, sizes, &n));
    const int64_t bytes = bytes_of(type, sizes, n);
    if (type && bytes != where[1] - where[0])
        return wrong(r, value, "has other bytes than its shape and type take");
    lmi_stored_tensor x = {.name = lmi_json_as_text(&r->j, name),
                           .type = type ? type->dtype ? type->dtype : type->name : dtype,
                           .dtype = type && type->dtype ? lam_dtype_by_name(type->dtype) : -1,
                           .ndim = n,
                           .sizes = sizes,
                           .bytes = where[1] - where[0],
                           .placed = true,
                           .at = r->data + (uint64_t)where[0]};
    if (where[1] <= (int64_t)(r->of->size - r->data)) LAM_TRY(take_values(r, &x, place));
    return lmi_tensors_put(r->t, &x, r->of, LENGTH + r->j.v[name].at, r->e);
}

static int by_place(const void *a, const void *b) {
    const extent *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return (x->to > y->to) - (x->to < y->to);
}

static lam_status check_filled(reading *r) {
    const int64_t all = (int64_t)(r->of->size - r->data);
    int64_t at = 0;
    bool sorted = true; /* as most writers leave them */
    for (size_t i = 1; sorted && i < r->n; i++) sorted = by_place(&r->extents[i - 1], &r->extents[i]) <= 0;
    if (!sorted) qsort(r->extents, r->n, sizeof *r->extents, by_place);
    for (size_t i = 0; i < r->n; i++) {
        const extent *x = &r->extents[i];
        if (x->to > all)
            return wrong(r, x->at, "is a tensor whose bytes would be behind the end of the file");
        if (x->from != at)
            return wrong(r, x->at, "is a tensor that overlaps another, or leaves a gap before it");
        at = x->to;
    }
    if (at == all) return LAM_OK;
    return lmi_fail_at(
        r->e, LAM_SYNTAX, (int64_t)(r->data + (uint64_t)at), r->of->name,
        "it is damaged: behind its last tensor are %lld bytes that belong to none, at byte %llu",
        (long long)(all - at), (unsigned long long)(r->data + (uint64_t)at));
}

static lam_status take_header(reading *r) {
    if (lmi_json_is(&r->j, LMI_JSON_ROOT) != LMI_JSON_OBJECT) return wrong(r, 0, "is no JSON object");
    const size_t n = lmi_json_size(&r->j, LMI_JSON_ROOT), most = (size_t)(r->data / LEAST_ENTRY);
    r->extents = calloc(n + 1, sizeof *r->extents);
    if (!r->extents) return lmi_nomem(r->e);
    LAM_TRY(lmi_tensors_reserve(r->t, n < most ? n : most, r->e));
    LMI_JSON_NAMES(&r->j, LMI_JSON_ROOT, name)
    if (!lmi_json_equals(&r->j, name, "__metadata__")) LAM_TRY(take_tensor(r, name, name + 1));
    return check_filled(r);
}

lam_status lmi_safetensors_read(lmi_tensors *t, const lmi_bytes *of, lam_error *e) {
    static const lmi_json_limits limits = {.depth = DEEPEST, .size = MOST_HEADER};
    reading r = {.t = t, .of = of, .e = e};
    unsigned char length[LENGTH];
    lmi_bytes header;
    LAM_TRY(lmi_bytes_read(of, 0, length, sizeof length, e));
    if (lmi_le64(length) > MOST_HEADER) return lmi_bytes_bad(of, 0, e, "a header of more than 100 MB");
    LAM_TRY(lmi_bytes_part(of, LENGTH, lmi_le64(length), NULL, &header, e));
    r.data = LENGTH + header.size;
    char *text = lmi_alloc(&t->arena, header.size + 1, 1); /* names stay in it */
    if (!text) return lmi_nomem(e);
    LAM_TRY(lmi_bytes_read(&header, 0, text, (size_t)header.size, e));
    LAM_TRY(lmi_json_read(&r.j, text, (size_t)header.size, &limits, of->name, e));
    const lam_status s = take_header(&r);
    lmi_json_free(&r.j);
    free(r.extents);
    return s;
}
