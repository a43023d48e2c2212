/* SPDX-License-Identifier: Apache-2.0
 *
 * The values of packed weights whose numbers lie row by row: (number - zero point) * scale + bias. A scale is
 * of a group of a row's values, of a row, of a block of rows and columns, or of all. layouts.def says which
 * tensors hold the parts. A weight that fits none of its lines, or has other parts, is not computed. */
#include "read/weights/unpack.h"

#include <stdio.h>
#include <stdlib.h>

/* Blocks of 8-bit floats have so many rows and columns if their number fits. */
enum { BLOCK = 128, TABLE_N = 16, NESTED_N = 256, WORD = 32 };

typedef enum form {
    BYTES,  /* of a type that is known */
    STREAM, /* whole numbers of `bits` that follow each other through a row, the lowest bits first */
    WORDS,  /* the same, but each number of 32 bits holds whole ones alone */
    FLOATS, /* 4-bit floats, the lower half of a byte first */
    TABLE   /* places in a table of the file, the upper half of a byte first; the weight is one long row */
} form;

typedef struct layout {
    const char *tail, *type;
    form form;
    const char *scales, *scale_type, *number_type, *zeros, *biases, *index, *times, *over;
    double most; /* 0: 1 */
} layout;

static const layout layouts[] = {
#define LAYOUT(tail_, type_, form_, ...) {.tail = tail_, .type = type_, .form = form_, .scales = __VA_ARGS__},
#include "read/weights/layouts.def"
#undef LAYOUT
};

/* A number for each scale, or the scales themselves: read whole, and kept as numbers of one row. */
typedef struct grid {
    const lmi_stored_tensor *of; /* NULL: the weight has none */
    lmi_stored_type type;
    unsigned char *bytes;
    double *row;
} grid;

enum { SCALES, ZEROS, BIASES, N_GRIDS };

/* Scales of bitsandbytes that are places in a table themselves, and have scales. */
typedef struct nested {
    const lmi_stored_tensor *table, *scales;
    int64_t block;
    double offset, *values, *scale;
} nested;

typedef struct by_rows {
    lmi_unpack base;
    const layout *by;
    const lmi_stored_tensor *x, *index, *table, *one; /* `one`: the number of .times or .over */
    lmi_stored_type number;
    int32_t bits;
    double times, over; /* that all scales are multiplied by, divided by */
    double offset;      /* of all zero points */
    double values[TABLE_N];
    int64_t n_rows, columns, row_bytes;
    int64_t rows_each, columns_each; /* that have a scale in common */
    int64_t before, down, across;    /* scales are [times, down, across]; a time has `before` rows */
    grid grids[N_GRIDS];
    nested nested;
    bool packed_zeros; /* in numbers of 32 bits that hold those of rows */
    unsigned char *index_bytes, *bytes;
    size_t room;
    int64_t at; /* the row of the scales that grids[].row are of; -1: none yet */
} by_rows;

/* -- where numbers are ------------------------------------------------------------------------------------
 */

/* The byte of a row from which the numbers from `column` on are read; *skip of those there are before it. */
static int64_t begin_of(const by_rows *u, int64_t column, int64_t *skip) {
    const int64_t each = u->by->form == BYTES    ? 1
                         : u->by->form == STREAM ? WORD
                         : u->by->form == WORDS  ? WORD / u->bits
                                                 : 2;
    const int64_t bytes = u->by->form == BYTES    ? u->number.bytes
                          : u->by->form == STREAM ? u->bits * (WORD / 8)
                          : u->by->form == WORDS  ? WORD / 8
                                                  : 1;
    *skip = column % each;
    return column / each * bytes;
}

/* The bytes of a row that its first columns take. */
static int64_t end_of(const by_rows *u, int64_t columns) {
    int64_t skip;
    const int64_t begin = begin_of(u, columns, &skip);
    if (u->by->form == STREAM) return begin + (skip * u->bits + WORD - 1) / WORD * (WORD / 8);
    return skip ? begin + (u->by->form == WORDS ? WORD / 8 : 1) : begin;
}

/* -- what there is ----------------------------------------------------------------------------------------
 */

static lmi_stored_type type_named(const char *name) {
    const int32_t dtype = lam_dtype_by_name(name);
    return (lmi_stored_type){.name = name, .elements = 1, .bytes = lam_dtype_bits(dtype) / 8, .dtype = dtype};
}

/* The type of a part; of plain bytes it is `stated`. */
static lmi_stored_type type_of(const lmi_stored_tensor *x, const char *stated) {
    const lmi_stored_type type = lmi_stored_type_of(x);
    return stated && !lam_dtype_is_float(type.dtype) ? type_named(stated) : type;
}

/* How many of n rows or columns have one of so many scales in common; 0: unknown. */
static int64_t share(const by_rows *u, int64_t n, int64_t scales) {
    const int64_t stated = u->base.t->of.group;
    if (scales < 1 || n < 1) return 0;
    if (scales == 1 || scales == n) return scales == 1 ? n : 1;
    if (stated > 0 && (n - 1) / stated + 1 == scales) return stated;
    if (u->by->form == BYTES && (n - 1) / BLOCK + 1 == scales) return BLOCK;
    return n % scales ? 0 : n / scales;
}

static int64_t size_at(const lmi_stored_tensor *x, int32_t from_last) {
    return x->raw.ndim > from_last ? x->raw.sizes[x->raw.ndim - 1 - from_last] : 1;
}

/* Scales as [experts, down, across]. False: they are of another shape. */
static bool shape_scales(by_rows *u, const lmi_stored_tensor *scales, int64_t rows) {
    const int64_t all = scales->raw.numel, experts = u->n_rows / rows;
    const bool fewer = scales->raw.ndim < u->x->ndim;
    u->before = rows;
    u->down = size_at(scales, 1);
    u->across = size_at(scales, 0);
    if (all == 1) { /* of all */
        u->before = u->n_rows;
        return true;
    }
    if (all == u->n_rows && (fewer || u->across == 1)) { /* of a row each */
        u->before = u->down = all;
        u->across = 1;
        return true;
    }
    if (fewer) { /* of an expert each */
        u->down = u->across = 1;
        return scales->raw.ndim == 1 && all == experts;
    }
    return scales->raw.ndim == u->x->ndim && all == experts * u->down * u->across;
}

/* The weight as rows, and which of its values have a scale in common. */
static bool place_scales(by_rows *u, const lmi_stored_tensor *scales) {
    const lmi_stored_tensor *x = u->x;
    u->columns = x->sizes[x->ndim - 1];
    u->n_rows = x->numel / u->columns;
    if (!shape_scales(u, scales, x->ndim > 1 ? x->sizes[x->ndim - 2] : 1)) return false;
    u->rows_each = share(u, u->before, u->down);
    u->columns_each = share(u, u->columns, u->across);
    return u->rows_each > 0 && u->columns_each > 0;
}

static bool has_grid(const by_rows *u, const lmi_stored_tensor *x) {
    return x->raw.numel == u->grids[SCALES].of->raw.numel;
}

/* The zero points: of each scale, or of compressed-tensors eight rows or so in a number of 32 bits. */
static bool place_zeros(by_rows *u, grid *g) {
    const bool wide = g->of->raw.dtype == lam_dtype_by_name("int32");
    if (u->by->form == WORDS && wide) {
        const int64_t each = WORD / u->bits;
        u->packed_zeros = true;
        u->offset = 0;
        return u->rows_each == 1 && g->of->raw.ndim == 2 && g->of->raw.sizes[1] == u->across &&
               g->of->raw.sizes[0] == (u->n_rows - 1) / each + 1;
    }
    return has_grid(u, g->of);
}

static bool place_grid(by_rows *u, int which, const char *end, const char *type) {
    grid *g = &u->grids[which];
    g->of = end ? lmi_part(u->base.t, u->x, u->by->tail, end) : NULL;
    if (!g->of) return which != SCALES;
    g->type = type_of(g->of, type);
    if (!lmi_part_is_plain(g->of) || !lmi_is_number(&g->type)) return false;
    if (g->type.bytes != lmi_stored_type_of(g->of).bytes) return false;
    if (which != ZEROS && u->by->form != TABLE && !lam_dtype_is_float(g->type.dtype)) return false;
    return which == SCALES || (which == ZEROS ? place_zeros(u, g) : has_grid(u, g->of));
}

/* A number that all scales have in common. */
static bool place_one(by_rows *u, const char *end) {
    if (!end) return true;
    u->one = lmi_part(u->base.t, u->x, u->by->tail, end);
    if (!u->one) return true;
    return lmi_part_is_plain(u->one) && u->one->raw.numel == 1 && lam_dtype_is_float(u->one->raw.dtype);
}

/* Groups in another order than that of the columns. A list that is not set has -1 (compressed-tensors). */
static bool place_index(by_rows *u) {
    u->index = u->by->index ? lmi_part(u->base.t, u->x, u->by->tail, u->by->index) : NULL;
    if (!u->index) return true;
    return lmi_part_is_plain(u->index) && u->index->raw.dtype == lam_dtype_by_name("int32") &&
           u->index->raw.numel == u->columns;
}

/* -- bitsandbytes -----------------------------------------------------------------------------------------
 */

static bool has_floats(const lmi_stored_tensor *x, int64_t n) {
    return lmi_part_is_plain(x) && x->raw.numel == n && x->raw.dtype == lam_dtype_by_name("float32");
}

/* Takes the blocks from the text of the state. */
static void take_state(by_rows *u, const lmi_json *j) {
    int64_t block = 0;
    if (lmi_json_as_int(j, lmi_json_get(j, LMI_JSON_ROOT, "blocksize"), &block)) u->columns_each = block;
    if (lmi_json_as_int(j, lmi_json_get(j, LMI_JSON_ROOT, "nested_blocksize"), &block) &&
        lmi_json_as_real(j, lmi_json_get(j, LMI_JSON_ROOT, "nested_offset"), &u->nested.offset))
        u->nested.block = block;
}

static lam_status read_state(by_rows *u, lam_error *e) {
    char end[64];
    const lmi_json_limits limits = {.depth = 8, .size = 1 << 16};
    snprintf(end, sizeof end, ".weight.quant_state.bitsandbytes__%s", u->by->type);
    const lmi_stored_tensor *state = lmi_part(u->base.t, u->x, u->by->tail, end);
    const size_t n = state && state->text ? strlen(state->text) : 0;
    lmi_json j;
    char *text = malloc(n + 1);
    if (!text) return lmi_nomem(e);
    memcpy(text, n ? state->text : "", n + 1);
    const lam_status s = lmi_json_read(&j, text, n, &limits, u->x->name, NULL);
    if (s == LAM_OK) {
        take_state(u, &j);
        lmi_json_free(&j);
    }
    free(text);
    return s == LAM_NOMEM ? lmi_nomem(e) : LAM_OK;
}

static bool place_nested(by_rows *u, int64_t scales) {
    nested *n = &u->nested;
    n->table = lmi_part(u->base.t, u->x, u->by->tail, ".weight.nested_quant_map");
    n->scales = lmi_part(u->base.t, u->x, u->by->tail, ".weight.nested_absmax");
    return n->block > 0 && has_floats(n->table, NESTED_N) &&
           has_floats(n->scales, (scales - 1) / n->block + 1);
}

/* The whole weight is one row, in blocks that have the largest of their values as a scale. */
static bool place_table(by_rows *u) {
    const lmi_stored_tensor *scales = u->grids[SCALES].of;
    u->columns = u->x->numel;
    u->n_rows = u->before = u->down = u->rows_each = 1;
    u->table = lmi_part(u->base.t, u->x, u->by->tail, ".weight.quant_map");
    u->across = u->columns_each > 0 ? (u->columns - 1) / u->columns_each + 1 : 0;
    if (u->across != scales->raw.numel || !has_floats(u->table, TABLE_N)) return false;
    return lam_dtype_is_float(scales->raw.dtype) ||
           (scales->raw.dtype == lam_dtype_by_name("uint8") && place_nested(u, u->across));
}

/* -- all of a weight --------------------------------------------------------------------------------------
 */

/* True for a part that says nothing of the values, or what is known anyway. */
static bool is_beside(const lmi_stored_tensor *x) {
    static const char *const ends[] = {"input_scale", "output_scale", "input_global_scale", ".weight_shape"};
    const size_t n = strlen(x->name);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t tail = strlen(ends[i]);
        if (n >= tail && strcmp(x->name + n - tail, ends[i]) == 0) return true;
    }
    return strstr(x->name, ".quant_state.") || x->raw.numel == 0;
}

static bool is_taken(const by_rows *u, const lmi_stored_tensor *x) {
    for (int i = 0; i < N_GRIDS; i++)
        if (x == u->grids[i].of) return true;
    return x == u->x || x == u->index || x == u->one || x == u->table || x == u->nested.table ||
           x == u->nested.scales;
}

/* True if a part of the weight is not known, so that its values may be others. */
static bool has_other_parts(const by_rows *u) {
    const lmi_tensors *t = u->base.t;
    for (int32_t i = 0; i < lmi_tensors_n(t); i++) {
        const lmi_stored_tensor *x = lmi_tensors_at(t, i);
        if (x->in >= 0 && lmi_tensors_at(t, x->in) == u->x && !is_taken(u, x) && !is_beside(x)) return true;
    }
    return false;
}

static bool place_numbers(by_rows *u) {
    const lmi_stored_tensor *x = u->x;
    u->bits = 4;
    if (u->by->form == STREAM || u->by->form == WORDS) {
        const char *digits = x->type + strlen(u->by->type);
        if (*digits < '1' || *digits > '8' || digits[1]) return false;
        u->bits = *digits - '0';
        u->offset = u->by->form == WORDS ? (double)(1 << (u->bits - 1)) : 0;
    }
    u->number = type_of(x, u->by->number_type);
    return lmi_part_is_plain(x) && x->numel <= INT64_MAX / 64 &&
           (u->by->form != BYTES || lmi_is_number(&u->number));
}

/* *can: all parts of the layout are there, and fit each other. */
static lam_status describe(by_rows *u, bool *can, lam_error *e) {
    const layout *by = u->by;
    u->times = 1;
    u->over = by->most > 0 ? by->most : 1;
    *can = place_numbers(u) && place_grid(u, SCALES, by->scales, by->scale_type);
    if (!*can) return LAM_OK;
    if (by->form == TABLE) LAM_TRY(read_state(u, e));
    *can = (by->form == TABLE ? place_table(u) : place_scales(u, u->grids[SCALES].of)) &&
           place_grid(u, ZEROS, by->zeros, NULL) && place_grid(u, BIASES, by->biases, NULL) &&
           place_one(u, by->times ? by->times : by->over) && place_index(u) && !has_other_parts(u);
    u->row_bytes = *can ? end_of(u, u->columns) : 0;
    *can = *can && u->x->raw.bytes / u->n_rows == u->row_bytes && u->x->raw.bytes % u->n_rows == 0;
    return LAM_OK;
}

/* -- reading ------------------------------------------------------------------------------------------- */

static lam_status take_grid(by_rows *u, grid *g, lam_error *e) {
    if (!g->of) return LAM_OK;
    g->row = malloc((size_t)u->across * sizeof *g->row);
    return g->row ? lmi_part_take(u->base.t, g->of, &g->bytes, e) : lmi_nomem(e);
}

static lam_status take_floats(const by_rows *u, const lmi_stored_tensor *x, double *to, lam_error *e) {
    unsigned char *bytes = NULL;
    const lmi_stored_type type = lmi_stored_type_of(x);
    const lam_status s = lmi_part_take(u->base.t, x, &bytes, e);
    if (s == LAM_OK) lmi_stored_numbers(&type, bytes, x->raw.numel, to);
    free(bytes);
    return s;
}

static lam_status take_nested(by_rows *u, lam_error *e) {
    nested *n = &u->nested;
    if (!n->scales) return LAM_OK;
    n->values = malloc(NESTED_N * sizeof *n->values);
    n->scale = malloc((size_t)n->scales->raw.numel * sizeof *n->scale);
    if (!n->values || !n->scale) return lmi_nomem(e);
    LAM_TRY(take_floats(u, n->table, n->values, e));
    return take_floats(u, n->scales, n->scale, e);
}

static lam_status take_index(by_rows *u, lam_error *e) {
    LAM_TRY(lmi_part_take(u->base.t, u->index, &u->index_bytes, e));
    for (int64_t i = 0; i < u->columns; i++)
        if (lmi_le32(u->index_bytes + 4 * i) == UINT32_MAX) {
            u->index = NULL;
            return LAM_OK;
        }
    return lmi_part_groups(u->base.t, u->index, u->index_bytes, u->across, e);
}

static lam_status prepare(lmi_unpack *base, lam_error *e) {
    static const double floats[TABLE_N] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6};
    by_rows *u = (by_rows *)base;
    memcpy(u->values, floats, sizeof floats);
    for (int i = 0; i < N_GRIDS; i++) LAM_TRY(take_grid(u, &u->grids[i], e));
    if (u->table) LAM_TRY(take_floats(u, u->table, u->values, e));
    if (u->one) LAM_TRY(take_floats(u, u->one, u->by->over ? &u->over : &u->times, e));
    LAM_TRY(take_nested(u, e));
    return u->index ? take_index(u, e) : LAM_OK;
}

static void release(lmi_unpack *base) {
    by_rows *u = (by_rows *)base;
    for (int i = 0; i < N_GRIDS; i++) {
        free(u->grids[i].bytes);
        free(u->grids[i].row);
    }
    free(u->nested.values);
    free(u->nested.scale);
    free(u->index_bytes);
    free(u->bytes);
    free(u);
}

static void turn_packed(const by_rows *u, const grid *g, int64_t row) {
    const int64_t each = WORD / u->bits;
    const uint32_t mask = (1u << u->bits) - 1;
    for (int64_t i = 0; i < u->across; i++)
        g->row[i] = lmi_le32(g->bytes + 4 * (row / each * u->across + i)) >> row % each * u->bits & mask;
}

/* The row of the scales that a row of the weight has. */
static int64_t row_of_scales(const by_rows *u, int64_t row) {
    const bool same = u->grids[SCALES].of->raw.numel == u->down * u->across; /* of each expert */
    return (same ? 0 : row / u->before * u->down) + row % u->before / u->rows_each;
}

/* Scales, zero points and biases of a row of the weight. */
static void turn_to(by_rows *u, int64_t row) {
    const int64_t of = row_of_scales(u, row);
    if (of == u->at && !u->packed_zeros) return;
    for (int i = 0; i < N_GRIDS; i++) {
        const grid *g = &u->grids[i];
        if (g->of && i == ZEROS && u->packed_zeros)
            turn_packed(u, g, row);
        else if (g->of)
            lmi_stored_numbers(&g->type, g->bytes + of * u->across * g->type.bytes, u->across, g->row);
    }
    for (int64_t i = 0; u->nested.scales && i < u->across; i++) {
        double *scale = &u->grids[SCALES].row[i];
        *scale = u->nested.values[(int)*scale] * u->nested.scale[i / u->nested.block] + u->nested.offset;
    }
    u->at = of;
}

/* -- values -----------------------------------------------------------------------------------------------
 */

/* n numbers of a row, of which `skip` others are before them in `p`. */
static void put_numbers(const by_rows *u, const unsigned char *p, int64_t skip, int64_t n, double *to) {
    const int64_t each = WORD / u->bits;
    const uint32_t mask = (1u << u->bits) - 1;
    switch (u->by->form) {
    case BYTES: lmi_stored_numbers(&u->number, p, n, to); break;
    case STREAM:
        for (int64_t i = 0; i < n; i++) to[i] = lmi_bits_at(p, WORD / 8, u->bits, skip + i);
        break;
    case WORDS:
        for (int64_t i = 0; i < n; i++)
            to[i] = lmi_le32(p + (skip + i) / each * 4) >> (skip + i) % each * u->bits & mask;
        break;
    default:
        for (int64_t i = 0; i < n; i++) {
            const bool upper = ((skip + i) % 2 == 0) == (u->by->form == TABLE);
            const unsigned char both = p[(skip + i) / 2];
            to[i] = u->values[upper ? both >> 4 : both & 15];
        }
    }
}

/* Makes values of n numbers from a column on of the row that is turned to. */
static void scale_numbers(const by_rows *u, int64_t column, int64_t n, double *to) {
    const double *scale = u->grids[SCALES].row, *zero = u->grids[ZEROS].row, *bias = u->grids[BIASES].row;
    for (int64_t i = 0; i < n;) {
        const int64_t c = column + i, g = u->index ? lmi_le32(u->index_bytes + 4 * c) : c / u->columns_each;
        const int64_t last = u->index ? i + 1 : (g + 1) * u->columns_each - column;
        const double by = scale[g] * u->times / u->over, less = u->offset + (zero ? zero[g] : 0);
        for (; i < last && i < n; i++) to[i] = (to[i] - less) * by + (bias ? bias[g] : 0);
    }
}

/* Reads the bytes of all numbers from one to before another. */
static lam_status fetch(by_rows *u, int64_t from, int64_t to, int64_t *begin, lam_error *e) {
    int64_t skip;
    *begin = from / u->columns * u->row_bytes + begin_of(u, from % u->columns, &skip);
    const int64_t end = (to - 1) / u->columns * u->row_bytes + end_of(u, (to - 1) % u->columns + 1);
    const size_t n = (size_t)(end - *begin);
    if (n > u->room) {
        unsigned char *bytes = realloc(u->bytes, n);
        if (!bytes) return lmi_nomem(e);
        u->bytes = bytes;
        u->room = n;
    }
    return lmi_part_read(u->base.t, u->x, (uint64_t)*begin, u->bytes, n, e);
}

static lam_status read_values(lmi_unpack *base, int64_t from, int64_t n, double *to, lam_error *e) {
    by_rows *u = (by_rows *)base;
    int64_t begin, skip;
    LAM_TRY(fetch(u, from, from + n, &begin, e));
    for (int64_t done = 0, some; done < n; done += some) {
        const int64_t row = (from + done) / u->columns, column = (from + done) % u->columns;
        const int64_t at = row * u->row_bytes + begin_of(u, column, &skip) - begin;
        some = u->columns - column < n - done ? u->columns - column : n - done;
        turn_to(u, row);
        put_numbers(u, u->bytes + at, skip, some, to + done);
        scale_numbers(u, column, some, to + done);
    }
    return LAM_OK;
}

static bool fits(const layout *by, const lmi_tensors *t, const lmi_stored_tensor *x) {
    return strncmp(x->type, by->type, strlen(by->type)) == 0 && lmi_part(t, x, by->tail, by->scales);
}

lam_status lmi_unpack_rows(lmi_unpack **out, const lmi_tensors *t, const lmi_stored_tensor *x, lam_error *e) {
    size_t i = 0;
    bool can;
    while (i < sizeof layouts / sizeof *layouts && !fits(&layouts[i], t, x)) i++;
    if (i == sizeof layouts / sizeof *layouts) return LAM_OK;
    by_rows *u = calloc(1, sizeof *u);
    if (!u) return lmi_nomem(e);
    *u = (by_rows){.by = &layouts[i], .x = x, .at = -1};
    u->base = (lmi_unpack){.t = t, .prepare = prepare, .read = read_values, .free = release};
    const lam_status s = describe(u, &can, e);
    if (s != LAM_OK || !can) {
        free(u);
        return s;
    }
    *out = &u->base;
    return LAM_OK;
}
