/* SPDX-License-Identifier: Apache-2.0
 *
 * For the proofs of `exact`: a model of one operator. What it costs by its rule is held against a machine
 * that does the work one scalar at a time (layer_build.h). */
#ifndef LAMINA_TEST_OP_BUILD_H
#define LAMINA_TEST_OP_BUILD_H

#include "kit/layer_build.h"

enum { OP_ARGS = 96 };

typedef struct op_case {
    const char *name;
    int32_t n_in, n_out, n_shapes;
    lam_op_arg in[OP_ARGS], out[OP_ARGS];
    int64_t sizes[OP_ARGS][LAYER_NDIM];
    int32_t dtype; /* of the tensors that are told next */
    char text[400];
} op_case;

static op_case the; /* the operator that is being put together */

MAYBE static void note(const char *fmt, ...) LAM_PRINTF(1, 2);
MAYBE static void note(const char *fmt, ...) {
    size_t n = strlen(the.text);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(the.text + n, sizeof the.text - n, fmt, ap);
    va_end(ap);
}

MAYBE static void op_new(const char *name) {
    memset(&the, 0, sizeof the);
    static const int32_t dtypes[] = {6, 15, 1, 7}; /* float32, bfloat16, int8, float64 */
    static int turn;
    the.name = name;
    the.dtype = dtypes[turn++ % 4];
    if (lam_word_op(name) < 0) fail_msg("there is no word %s", name);
}

static lam_op_arg tensor_arg(int32_t position, int32_t ndim, const int64_t *sizes) {
    assert_true(the.n_shapes < OP_ARGS && ndim <= LAYER_NDIM);
    int64_t *own = the.sizes[the.n_shapes++];
    note(" %d:(", (int)position);
    for (int32_t i = 0; i < ndim; i++) {
        own[i] = sizes[i];
        note("%lld,", (long long)sizes[i]);
    }
    note(")");
    return (lam_op_arg){.position = position,
                        .is_tensor = true,
                        .dtype = the.dtype,
                        .device = 0,
                        .ndim = ndim,
                        .sizes = own,
                        .storage = 100u + (uint64_t)the.n_shapes};
}

static lam_op_arg *next_in(int32_t position) {
    assert_true(the.n_in < OP_ARGS);
    lam_op_arg *a = &the.in[the.n_in++];
    *a = (lam_op_arg){.position = position, .dtype = -1, .device = -1, .ndim = -1};
    return a;
}

/* An argument at a position of the schema. */
MAYBE static void in_tensor(int32_t position, int32_t ndim, const int64_t *sizes) {
    *next_in(position) = tensor_arg(position, ndim, sizes);
}
MAYBE static void in_bool(int32_t position, bool v) {
    note(" %d:%s", (int)position, v ? "true" : "false");
    next_in(position)->value = (lam_value){.type = LAM_BOOL, .i = v};
}
MAYBE static void in_int(int32_t position, int64_t v) {
    note(" %d:%lld", (int)position, (long long)v);
    next_in(position)->value = (lam_value){.type = LAM_INT, .i = v};
}
MAYBE static void in_float(int32_t position, double v) {
    note(" %d:%g", (int)position, v);
    next_in(position)->value = (lam_value){.type = LAM_FLOAT, .f = v};
}
MAYBE static void in_text(int32_t position, const char *v) {
    note(" %d:%s", (int)position, v);
    next_in(position)->value = (lam_value){.type = LAM_TEXT, .text = v};
}
MAYBE static void in_none(int32_t position) { (void)next_in(position); }
MAYBE static void in_ints(int32_t position, int32_t n, const int64_t *v) {
    assert_true(the.n_shapes < OP_ARGS && n <= LAYER_NDIM);
    int64_t *own = the.sizes[the.n_shapes++];
    memcpy(own, v, (size_t)n * sizeof *own);
    note(" %d:[", (int)position);
    for (int32_t i = 0; i < n; i++) note("%lld,", (long long)v[i]);
    note("]");
    next_in(position)->value = (lam_value){.type = LAM_INTS, .n = n, .ints = own};
}

/* A tensor that comes out, or none where the result is undefined. */
MAYBE static void out_tensor(int32_t position, int32_t ndim, const int64_t *sizes) {
    assert_true(the.n_out < OP_ARGS);
    note(" ->");
    the.out[the.n_out++] = tensor_arg(position, ndim, sizes);
}
MAYBE static void out_none(int32_t position) {
    the.out[the.n_out++] = (lam_op_arg){.position = position, .dtype = -1, .device = -1, .ndim = -1};
}

MAYBE static int64_t elements_of(int32_t ndim, const int64_t *sizes) {
    int64_t n = 1;
    for (int32_t i = 0; i < ndim; i++) n *= sizes[i];
    return n;
}

/* A tensor that is read or written whole; how many elements it has. */
MAYBE static int64_t in_whole(int32_t position, int32_t ndim, const int64_t *sizes) {
    int64_t n = elements_of(ndim, sizes);
    in_tensor(position, ndim, sizes);
    rd_all(cells_of(n));
    return n;
}
MAYBE static int64_t out_whole(int32_t position, int32_t ndim, const int64_t *sizes) {
    int64_t n = elements_of(ndim, sizes);
    out_tensor(position, ndim, sizes);
    wr_all(cells_of(n));
    return n;
}

/* A model of this operator alone; the caller frees it. */
MAYBE static lam_model *op_model(void) {
    lam_builder *b;
    lam_model *m = NULL;
    int32_t index;
    lam_op_info info = {.name = the.name,
                        .call = -1,
                        .parent = -1,
                        .n_in = the.n_in,
                        .n_out = the.n_out,
                        .in = the.in,
                        .out = the.out};
    assert_int_equal(lam_builder_new(&b, 0, NULL), LAM_OK);
    assert_int_equal(lam_build_ops_seen(b, NULL), LAM_OK);
    assert_int_equal(lam_build_op(b, &info, &index, NULL), LAM_OK);
    assert_int_equal(lam_builder_finish(b, &m, NULL), LAM_OK);
    return m;
}

MAYBE static void op_counts(lam_count out[LAM_N_METRICS]) {
    lam_model *m = op_model();
    lmi_count_op(lmi_convention_named("exact", NULL), m, 0, out);
    lam_model_free(m);
}

static void op_same(lam_metric metric, lam_count got, int64_t want) {
    if (got.state == LAM_EXACT && got.over == 0 && got.n == want) return;
    fail_msg("%s of %s%s: the rule says %lld (%s), the loop did %lld", lam_metric_name(metric), the.name,
             the.text, (long long)got.n, lam_state_name(got.state), (long long)want);
}

/* A count that must be a lower bound, for what compares numbers. */
static lam_count op_bound(lam_metric metric, lam_count got) {
    if (got.state != LAM_AT_LEAST)
        fail_msg("%s of %s%s is %s", lam_metric_name(metric), the.name, the.text, lam_state_name(got.state));
    got.state = LAM_EXACT;
    return got;
}

/* The rule must say exactly what the machine did, but for the metrics named in `unknown` (bits 1 << metric),
 * of which it must say that they are not known, and those in `least`, of which it must say that there may be
 * more. Forgets the machine's work. */
static void op_proves_as(int unknown, int least) {
    int64_t item = lam_dtype_bits(the.dtype) / 8;
    const int64_t did_[LAM_N_METRICS] = {now.macs,
                                         now.flops,
                                         moved_elements(),
                                         moved_bytes(false, item),
                                         moved_bytes(true, item),
                                         now.macs - now.idle_macs,
                                         now.flops - now.idle_flops};
    for (int i = LAM_MACS; i <= LAM_FLOPS; i++)
        if (unknown >> i & 1) unknown |= 1 << (i + LAM_EFFECTIVE_MACS);
    for (int i = LAM_MACS; i <= LAM_FLOPS; i++)
        if (least >> i & 1) least |= 1 << (i + LAM_EFFECTIVE_MACS);
    if (unknown >> LAM_DMAS & 1) unknown |= 1 << LAM_BYTES_READ;
    lam_count got[LAM_N_METRICS];
    op_counts(got);
    for (int i = 0; i < LAM_N_METRICS; i++) {
        if (least >> i & 1) got[i] = op_bound((lam_metric)i, got[i]);
        if (!(unknown >> i & 1)) op_same((lam_metric)i, got[i], did_[i]);
        if ((unknown >> i & 1) && got[i].state != LAM_UNKNOWN)
            fail_msg("%s of %s%s is %s", lam_metric_name((lam_metric)i), the.name, the.text,
                     lam_state_name(got[i].state));
    }
    proved("exact", lam_word_op_kind(lam_word_op(the.name)));
    forget();
}
MAYBE static void op_proves_but(int unknown) { op_proves_as(unknown, 0); }
MAYBE static void op_proves(void) { op_proves_as(0, 0); }
/* Of these metrics as lower bounds. */
MAYBE static void op_proves_least(int least) { op_proves_as(0, least); }

/* The rule must say these numbers; -1: unknown. */
MAYBE static void op_says(int64_t macs, int64_t flops, int64_t dmas) {
    const int64_t want[LAM_N_METRICS] = {macs, flops, dmas};
    lam_count got[LAM_N_METRICS];
    op_counts(got);
    for (int i = 0; i <= LAM_DMAS; i++) {
        if (want[i] >= 0) op_same((lam_metric)i, got[i], want[i]);
        if (want[i] < 0 && got[i].state != LAM_UNKNOWN)
            fail_msg("%s of %s%s is %s", lam_metric_name((lam_metric)i), the.name, the.text,
                     lam_state_name(got[i].state));
    }
}

/* All of a tensor is read, or written. */
MAYBE static void read_cells(int64_t n) {
    if (n > 0) rd_all(cells_of(n));
}
MAYBE static void wrote_cells(int64_t n) {
    if (n > 0) wr_all(cells_of(n));
}

/* n elements times their weights, added up. */
MAYBE static void weigh(int64_t n) {
    for (int64_t k = 0; k < n; k++) {
        (void)mul(1, 2);
        if (k) (void)add(1, 2);
    }
}

/* A random shape of ndim axes, sometimes empty. */
MAYBE static int32_t random_shape(int32_t least, int32_t most, int64_t *sizes) {
    int32_t ndim = (int32_t)pick(least, most);
    for (int32_t i = 0; i < ndim; i++) sizes[i] = pick(0, 40) == 0 ? 0 : pick(1, 5);
    return ndim;
}

#endif
