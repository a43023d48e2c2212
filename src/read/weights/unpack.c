/* SPDX-License-Identifier: Apache-2.0
 *
 * The values of weights that GPTQ and AWQ pack: (number - zero point) * scale. The numbers of 32 bits hold
 * values of inputs that follow each other (GPTQ), or of outputs (AWQ). Each group of inputs has a scale and a
 * zero point for each output. A row of the weight is a column of the file, so that of many columns a strip is
 * read at once. */
#include "read/weights/weights.h"

#include <stdio.h>
#include <stdlib.h>

enum { STRIP = 4 << 20, AWQ_BITS = 4, AWQ_WORD = 8 };

struct lmi_unpack {
    const lmi_tensors *t;
    const lmi_stored_tensor *numbers, *zeros, *scales, *index; /* `index` NULL: groups follow each other */
    bool awq;
    bool less; /* zero points are stored less 1 */
    int32_t bits;
    int64_t in, out, groups, group; /* `group`: the inputs of each */
    unsigned char *zero_bytes, *scale_bytes, *index_bytes, *strip;
    double *scale, *zero;                  /* of the groups, of one output */
    int64_t of;                            /* this output; -1: none yet */
    int64_t strip_at, strip_n, strip_room; /* columns of the numbers */
};

/* -- what there is ----------------------------------------------------------------------------------------
 */

static const lmi_stored_tensor *part(const lmi_tensors *t, const lmi_stored_tensor *x, const char *end) {
    static const char tail[] = ".qweight";
    char name[1024];
    const size_t n = strlen(x->name), less = sizeof tail - 1;
    if (n < less || strcmp(x->name + n - less, tail) != 0) return NULL;
    const int all = snprintf(name, sizeof name, "%.*s%s", (int)(n - less), x->name, end);
    const int64_t i = all > 0 && (size_t)all < sizeof name ? lmi_map_get(&t->by_name, name) : -1;
    return i < 0 ? NULL : lmi_tensors_at(t, (int32_t)i);
}

/* True for a matrix of the file, or, with columns 0, a list of these sizes, which lies in it row by row. */
static bool is_matrix(const lmi_stored_tensor *x, int64_t rows, int64_t columns) {
    if (!x || lmi_unread(x) || x->strides || x->raw.ndim != 1 + (columns > 0)) return false;
    return x->raw.sizes[0] == rows && (columns == 0 || x->raw.sizes[1] == columns) && x->raw.numel > 0;
}

/* The numbers of 32 bits that so many values fill; -1: none does. */
static int64_t words_of(int64_t n, int32_t bits) {
    return n > INT64_MAX / 8 || n * bits % 32 ? -1 : n * bits / 32;
}

static bool is_int32(const lmi_stored_tensor *x) { return x->raw.dtype == lam_dtype_by_name("int32"); }

/* Fills in what the tensors of a packed weight tell. False: its values can't be computed. */
static bool describe(lmi_unpack *u, const lmi_tensors *t, const lmi_stored_tensor *x) {
    const lmi_stored_tensor *scales = part(t, x, ".scales"), *index = part(t, x, ".g_idx");
    const char *mode = t->of.mode ? t->of.mode : "";
    int bits = 0;
    if (!x->packed || !scales || x->ndim != 2 || scales->raw.ndim != 2) return false;
    *u = (lmi_unpack){.t = t, .numbers = x, .zeros = part(t, x, ".qzeros"), .scales = scales, .of = -1};
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

bool lmi_can_unpack(const lmi_tensors *t, const lmi_stored_tensor *x) {
    lmi_unpack u;
    return describe(&u, t, x);
}

/* -- reading ----------------------------------------------------------------------------------------------
 */

static lam_status fetch(const lmi_unpack *u, const lmi_stored_tensor *x, uint64_t at, unsigned char *to,
                        size_t n, lam_error *e) {
    const lmi_bytes *file = lmi_vec_at(&u->t->files, (size_t)x->file);
    return lmi_bytes_read(file, x->at + at, to, n, e);
}

static lam_status take(const lmi_unpack *u, const lmi_stored_tensor *x, unsigned char **to, lam_error *e) {
    const size_t n = (size_t)x->raw.numel * (size_t)lmi_stored_type_of(x).bytes;
    *to = malloc(n);
    return *to ? fetch(u, x, 0, *to, n, e) : lmi_nomem(e);
}

static int64_t columns_of(const lmi_unpack *u) { return u->numbers->raw.sizes[1]; }
static int64_t rows_of(const lmi_unpack *u) { return u->numbers->raw.sizes[0]; }

static lam_status check_index(const lmi_unpack *u, lam_error *e) {
    for (int64_t i = 0; u->index && i < u->in; i++) {
        const uint32_t group = lmi_le32(u->index_bytes + 4 * i);
        const lmi_bytes *file = lmi_vec_at(&u->t->files, (size_t)u->index->file);
        const uint64_t at = u->index->at + 4 * (uint64_t)i;
        if (group >= u->groups)
            return lmi_fail_at(e, LAM_SYNTAX, (int64_t)at, file->name,
                               "it is damaged: in %.200s input %lld is of group %d, and there are %lld, at "
                               "byte %llu of the file",
                               u->index->name, (long long)i, (int)group, (long long)u->groups,
                               (unsigned long long)at);
    }
    return LAM_OK;
}

static lam_status prepare(lmi_unpack *u, lam_error *e) {
    const int64_t most = STRIP / 4 / rows_of(u);
    u->strip_room = most < 1 ? 1 : most < columns_of(u) ? most : columns_of(u);
    u->strip = malloc((size_t)(u->strip_room * rows_of(u)) * 4);
    u->scale = malloc((size_t)u->groups * sizeof *u->scale);
    u->zero = malloc((size_t)u->groups * sizeof *u->zero);
    if (!u->strip || !u->scale || !u->zero) return lmi_nomem(e);
    LAM_TRY(take(u, u->zeros, &u->zero_bytes, e));
    LAM_TRY(take(u, u->scales, &u->scale_bytes, e));
    if (u->index) LAM_TRY(take(u, u->index, &u->index_bytes, e));
    return check_index(u, e);
}

lam_status lmi_unpack_open(lmi_unpack **out, const lmi_tensors *t, const lmi_stored_tensor *x, lam_error *e) {
    lmi_unpack *u = calloc(1, sizeof *u);
    *out = u;
    if (!u) return lmi_nomem(e);
    if (!describe(u, t, x)) return lmi_fail(e, LAM_UNSUPPORTED, x->name, "its values can't be computed");
    return prepare(u, e);
}

void lmi_unpack_free(lmi_unpack *u) {
    if (!u) return;
    free(u->zero_bytes);
    free(u->scale_bytes);
    free(u->index_bytes);
    free(u->strip);
    free(u->scale);
    free(u->zero);
    free(u);
}

/* Reads the strip of the numbers that begins at a column. */
static lam_status read_strip(lmi_unpack *u, int64_t from, lam_error *e) {
    const int64_t left = columns_of(u) - from;
    u->strip_at = from;
    u->strip_n = left < u->strip_room ? left : u->strip_room;
    if (u->strip_n == columns_of(u))
        return fetch(u, u->numbers, 0, u->strip, (size_t)u->numbers->raw.numel * 4, e);
    for (int64_t row = 0; row < rows_of(u); row++)
        LAM_TRY(fetch(u, u->numbers, (uint64_t)(row * columns_of(u) + from) * 4,
                      u->strip + row * u->strip_n * 4, (size_t)u->strip_n * 4, e));
    return LAM_OK;
}

/* -- values -----------------------------------------------------------------------------------------------
 */

/* The k-th value of `bits` in numbers of 32 bits that are `step` bytes apart. One of 3, 5, 6 or 7 bits may
 * begin in a number and end in the next. */
static uint32_t value_at(const unsigned char *numbers, int64_t step, int32_t bits, int64_t k) {
    const int64_t at = k * bits;
    const int shift = (int)(at % 32);
    const unsigned char *p = numbers + at / 32 * step;
    uint64_t both = lmi_le32(p);
    if (shift + bits > 32) both |= (uint64_t)lmi_le32(p + step) << 32;
    return (uint32_t)(both >> shift) & ((1u << bits) - 1);
}

/* AWQ puts the values of eight outputs into a number in the order 0, 2, 4, 6, 1, 3, 5, 7. */
static int64_t place_of(const lmi_unpack *u, int64_t output) {
    const int64_t in_word = output % AWQ_WORD;
    return u->awq ? output - in_word + in_word / 2 + in_word % 2 * (AWQ_WORD / 2) : output;
}

/* Scales and zero points of an output. */
static void turn_to(lmi_unpack *u, int64_t output) {
    const lmi_stored_type type = lmi_stored_type_of(u->scales);
    const int64_t words = u->zeros->raw.sizes[1], mask = (1 << u->bits) - 1;
    for (int64_t g = 0; g < u->groups; g++) {
        const int64_t z = value_at(u->zero_bytes + g * words * 4, 4, u->bits, place_of(u, output));
        u->zero[g] = (double)(u->less ? (z + 1) & mask : z);
        lmi_stored_numbers(&type, u->scale_bytes + (g * u->out + output) * type.bytes, 1, &u->scale[g]);
    }
    u->of = output;
}

/* Values of the output that is turned to, whose numbers are in the strip. */
static void put_row(const lmi_unpack *u, int64_t column, int64_t input, int64_t n, double *to) {
    const unsigned char *at = u->strip + (column - u->strip_at) * 4;
    const int64_t step = u->strip_n * 4, within = place_of(u, u->of) % AWQ_WORD;
    for (int64_t i = input; i < input + n; i++) {
        const uint32_t q =
            u->awq ? value_at(at + i * step, 4, u->bits, within) : value_at(at, step, u->bits, i);
        const int64_t g = u->index ? lmi_le32(u->index_bytes + 4 * i) : i / u->group;
        *to++ = (q - u->zero[g]) * u->scale[g];
    }
}

lam_status lmi_unpack_read(lmi_unpack *u, int64_t from, int64_t n, double *to, lam_error *e) {
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
