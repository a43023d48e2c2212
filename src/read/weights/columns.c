/* SPDX-License-Identifier: Apache-2.0
 *
 * The values of weights that GPTQ and AWQ pack: (number - zero point) * scale. The numbers of 32 bits hold
 * values of inputs that follow each other (GPTQ), or of outputs (AWQ). Each group of inputs has a scale and a
 * zero point for each output. A row of the weight is a column of the file, so that of many columns a strip is
 * read at once. */
#include "read/weights/unpack.h"

#include <stdio.h>
#include <stdlib.h>

enum { STRIP = 4 << 20, AWQ_BITS = 4, AWQ_WORD = 8 };

typedef struct by_columns {
    lmi_unpack base;
    const lmi_stored_tensor *numbers, *zeros, *scales, *index; /* `index` NULL: groups follow each other */
    bool awq;
    bool less; /* zero points are stored less 1 */
    int32_t bits;
    int64_t in, out, groups, group; /* `group`: the inputs of each */
    unsigned char *zero_bytes, *scale_bytes, *index_bytes, *strip;
    double *scale, *zero;                  /* of the groups, of one output */
    int64_t of;                            /* this output; -1: none yet */
    int64_t strip_at, strip_n, strip_room; /* columns of the numbers */
} by_columns;

/* -- what there is ----------------------------------------------------------------------------------------
 */

/* True for a matrix of the file, or, with columns 0, a list of these sizes, which lies in it row by row. */
static bool is_matrix(const lmi_stored_tensor *x, int64_t rows, int64_t columns) {
    if (!x || !lmi_part_is_plain(x) || x->raw.ndim != 1 + (columns > 0)) return false;
    return x->raw.sizes[0] == rows && (columns == 0 || x->raw.sizes[1] == columns);
}

/* The numbers of 32 bits that so many values fill; -1: none does. */
static int64_t words_of(int64_t n, int32_t bits) {
    return n > INT64_MAX / 8 || n * bits % 32 ? -1 : n * bits / 32;
}

static bool is_int32(const lmi_stored_tensor *x) { return x->raw.dtype == lam_dtype_by_name("int32"); }

/* Fills in what the tensors of a packed weight tell. False: its values can't be computed. */
static bool describe(by_columns *u, const lmi_tensors *t, const lmi_stored_tensor *x) {
    static const char tail[] = ".qweight";
    const lmi_stored_tensor *scales = lmi_part(t, x, tail, ".scales"),
                            *index = lmi_part(t, x, tail, ".g_idx");
    const char *mode = t->of.mode ? t->of.mode : "";
    int bits = 0;
    if (!scales || x->ndim != 2 || scales->raw.ndim != 2) return false;
    u->numbers = x;
    u->zeros = lmi_part(t, x, tail, ".qzeros");
    u->scales = scales;
    u->of = -1;
    u->awq = strncmp(x->type, "awq", 3) == 0;
    if (sscanf(x->type, u->awq ? "awq-int%d" : "gptq-int%d", &bits) != 1) return false;
    u->bits = bits;
    u->less = !u->awq && strcmp(mode, "gptq_v2") != 0;
    u->out = x->sizes[0];
    u->in = x->sizes[1];
    u->groups = scales->raw.sizes[0];
    if (u->bits < 2 || u->bits > 8 || (u->awq && u->bits != AWQ_BITS) || u->groups < 1) return false;
    const bool even = u->in % u->groups == 0;
    u->group = even ? u->in / u->groups : t->of.group;
    if (!even && (u->group < 1 || (u->in - 1) / u->group + 1 != u->groups)) return false;
    if (!u->awq && index && index->raw.numel > 0) u->index = index;
    const int64_t words = words_of(u->out, u->bits), rows = u->awq ? u->in : words_of(u->in, u->bits);
    const lmi_stored_type type = lmi_stored_type_of(scales);
    return is_matrix(x, rows, u->awq ? words : u->out) && is_int32(x) &&
           is_matrix(u->zeros, u->groups, words) && is_int32(u->zeros) &&
           is_matrix(scales, u->groups, u->out) && lmi_is_number(&type) &&
           (!u->index || (is_matrix(index, u->in, 0) && is_int32(index)));
}

/* -- reading ----------------------------------------------------------------------------------------------
 */

static int64_t columns_of(const by_columns *u) { return u->numbers->raw.sizes[1]; }
static int64_t rows_of(const by_columns *u) { return u->numbers->raw.sizes[0]; }

static lam_status prepare(lmi_unpack *base, lam_error *e) {
    by_columns *u = (by_columns *)base;
    const int64_t most = STRIP / 4 / rows_of(u);
    u->strip_room = most < 1 ? 1 : most < columns_of(u) ? most : columns_of(u);
    u->strip = malloc((size_t)(u->strip_room * rows_of(u)) * 4);
    u->scale = malloc((size_t)u->groups * sizeof *u->scale);
    u->zero = malloc((size_t)u->groups * sizeof *u->zero);
    if (!u->strip || !u->scale || !u->zero) return lmi_nomem(e);
    LAM_TRY(lmi_part_take(u->base.t, u->zeros, &u->zero_bytes, e));
    LAM_TRY(lmi_part_take(u->base.t, u->scales, &u->scale_bytes, e));
    if (u->index) LAM_TRY(lmi_part_take(u->base.t, u->index, &u->index_bytes, e));
    return u->index ? lmi_part_groups(u->base.t, u->index, u->index_bytes, u->groups, e) : LAM_OK;
}

static void release(lmi_unpack *base) {
    by_columns *u = (by_columns *)base;
    free(u->zero_bytes);
    free(u->scale_bytes);
    free(u->index_bytes);
    free(u->strip);
    free(u->scale);
    free(u->zero);
    free(u);
}

/* Reads the strip of the numbers that begins at a column. */
static lam_status read_strip(by_columns *u, int64_t from, lam_error *e) {
    const int64_t left = columns_of(u) - from;
    u->strip_at = from;
    u->strip_n = left < u->strip_room ? left : u->strip_room;
    if (u->strip_n == columns_of(u))
        return lmi_part_read(u->base.t, u->numbers, 0, u->strip, (size_t)u->numbers->raw.numel * 4, e);
    for (int64_t row = 0; row < rows_of(u); row++)
        LAM_TRY(lmi_part_read(u->base.t, u->numbers, (uint64_t)(row * columns_of(u) + from) * 4,
                              u->strip + row * u->strip_n * 4, (size_t)u->strip_n * 4, e));
    return LAM_OK;
}

/* -- values -----------------------------------------------------------------------------------------------
 */

/* AWQ puts the values of eight outputs into a number in the order 0, 2, 4, 6, 1, 3, 5, 7. */
static int64_t place_of(const by_columns *u, int64_t output) {
    const int64_t in_word = output % AWQ_WORD;
    return u->awq ? output - in_word + in_word / 2 + in_word % 2 * (AWQ_WORD / 2) : output;
}

/* Scales and zero points of an output. */
static void turn_to(by_columns *u, int64_t output) {
    const lmi_stored_type type = lmi_stored_type_of(u->scales);
    const int64_t words = u->zeros->raw.sizes[1], mask = (1 << u->bits) - 1;
    for (int64_t g = 0; g < u->groups; g++) {
        const int64_t z = lmi_bits_at(u->zero_bytes + g * words * 4, 4, u->bits, place_of(u, output));
        u->zero[g] = (double)(u->less ? (z + 1) & mask : z);
        lmi_stored_numbers(&type, u->scale_bytes + (g * u->out + output) * type.bytes, 1, &u->scale[g]);
    }
    u->of = output;
}

/* Values of the output that is turned to, whose numbers are in the strip. */
static void put_row(const by_columns *u, int64_t column, int64_t input, int64_t n, double *to) {
    const unsigned char *at = u->strip + (column - u->strip_at) * 4;
    const int64_t step = u->strip_n * 4, within = place_of(u, u->of) % AWQ_WORD;
    for (int64_t i = input; i < input + n; i++) {
        const uint32_t q =
            u->awq ? lmi_bits_at(at + i * step, 4, u->bits, within) : lmi_bits_at(at, step, u->bits, i);
        const int64_t g = u->index ? lmi_le32(u->index_bytes + 4 * i) : i / u->group;
        *to++ = (q - u->zero[g]) * u->scale[g];
    }
}

static lam_status read_values(lmi_unpack *base, int64_t from, int64_t n, double *to, lam_error *e) {
    by_columns *u = (by_columns *)base;
    for (int64_t done = 0, some; done < n; done += some) {
        const int64_t output = (from + done) / u->in, input = (from + done) % u->in;
        const int64_t column = u->awq ? output / AWQ_WORD : output;
        some = u->in - input < n - done ? u->in - input : n - done;
        if (output != u->of) turn_to(u, output);
        if (column < u->strip_at || column >= u->strip_at + u->strip_n) LAM_TRY(read_strip(u, column, e));
        put_row(u, column, input, some, to + done);
    }
    return LAM_OK;
}

lam_status lmi_unpack_columns(lmi_unpack **out, const lmi_tensors *t, const lmi_stored_tensor *x,
                              lam_error *e) {
    by_columns *u = calloc(1, sizeof *u);
    if (!u) return lmi_nomem(e);
    u->base = (lmi_unpack){.t = t, .prepare = prepare, .read = read_values, .free = release};
    if (!describe(u, t, x)) {
        free(u);
        return LAM_OK;
    }
    *out = &u->base;
    return LAM_OK;
}
