/* SPDX-License-Identifier: Apache-2.0
 *
 * The sizes of what operators give, against windows that are slid one by one, and what no rule answers. */
#include "kit/oom.h"

#include "kit/shape_args.h"

#include <stdlib.h>

enum { NONE = -1, HALF = 5, BOOLEAN = 11, INT64 = 4 };

static void is_sizes(const lam_result *r, const int64_t *sizes, int32_t ndim) {
    assert_int_equal(r->ndim, ndim);
    for (int32_t i = 0; i < ndim; i++) assert_int_equal(r->sizes[i], sizes[i]);
}

#define ASK(name, ...)                                                                                       \
    shapes_of(name, (lam_op_arg[]){__VA_ARGS__},                                                             \
              (int32_t)(sizeof((lam_op_arg[]){__VA_ARGS__}) / sizeof(lam_op_arg)))
#define GIVES(i, ...) is_sizes(&got[i], SH(__VA_ARGS__))

/* -- element by element ------------------------------------------------------------------------------ */

static void elements(void **state) {
    (void)state;
    assert_int_equal(ASK("aten::relu", T(0, 2, 3)), 1);
    GIVES(0, 2, 3);
    assert_int_equal(got->in, NONE);
    assert_int_equal(ASK("aten::relu_", T(0, 2, 3)), 1);
    assert_int_equal(got->in, 0);
    assert_int_equal(ASK("aten::add", T(0, 4, 1, 3), T(1, 5, 1)), 1);
    GIVES(0, 4, 5, 3);
    assert_int_equal(ASK("aten::add", T(0, 3), T(1, 5, 1)), 1);
    GIVES(0, 5, 3);
    assert_int_equal(ASK("aten::mul", T(0, 3), real(1, 0.5)), 1);
    assert_int_equal(ASK("aten::eq", of_type(T(0, 3), INT64), whole(1, 2)), 1);
    assert_int_equal(got->dtype, BOOLEAN);
    assert_int_equal(lam_shape_order(lam_shape_rule("aten::add")), LAM_ORDER_BOTH);
    assert_int_equal(lam_shape_order(lam_shape_rule("aten::mm")), LAM_ORDER_FRESH);
}

/* Pictures that keep their pixels, with more around them or in other places. */
static void pictures(void **state) {
    (void)state;
    assert_int_equal(ASK("aten::reflection_pad2d", T(0, 2, 3, 5, 7), LIST(1, 1, 2, 3, 4)), 1);
    GIVES(0, 2, 3, 12, 10);
    assert_int_equal(ASK("aten::reflection_pad2d", T(0, 2, 3, 5, 7), LIST(1, 7, 0, 0, 0)), 0); /* too far */
    assert_int_equal(ASK("aten::replication_pad2d", T(0, 3, 5, 7), LIST(1, 1, 0, 0, 1)), 1);
    GIVES(0, 3, 6, 8);
    assert_int_equal(ASK("aten::replication_pad2d", T(0, 3, 5, 7), LIST(1, -1, 0, 0, 1)), 0);
    assert_int_equal(ASK("aten::max_unpool2d", T(0, 2, 3, 2), of_type(T(1, 2, 3, 2), INT64), LIST(2, 6, 5)),
                     1);
    GIVES(0, 2, 6, 5);
    assert_int_equal(ASK("aten::max_unpool2d", T(0, 2, 3, 2), of_type(T(1, 2, 3, 2), INT64), LIST(2, 0, 5)),
                     0);
    /* Of a list that is too short the last size doesn't stand for all, as that of a window does. */
    assert_int_equal(ASK("aten::reflection_pad2d", T(0, 2, 3, 5, 7), LIST(1, 1)), 0);
    assert_int_equal(ASK("aten::max_unpool2d", T(0, 2, 3, 2), of_type(T(1, 2, 3, 2), INT64), LIST(2, 6)), 0);
    assert_int_equal(ASK("aten::roll", T(0, 2, 3), LIST(1, 4, -1), LIST(2, -1, 0)), 1);
    GIVES(0, 2, 3);
    assert_int_equal(ASK("aten::roll", T(0, 2, 3), LIST(1, 3), LIST(2, 1)), 0); /* all the way round */
    assert_int_equal(ASK("aten::roll", T(0, 2, 3), LIST(1, 1), LIST(2, 2)), 0); /* no such axis */
    assert_int_equal(ASK("aten::roll", T(0, 2, 0), LIST(1, 1), LIST(2, 1)), 0);
    assert_int_equal(ASK("aten::log_sigmoid_forward", T(0, 2, 3)), 2);
    GIVES(1, 2, 3);
    assert_int_equal(ASK("aten::rrelu_with_noise", T(0, 2, 3), T(1, 2, 3), real(2, 0.1), real(3, 0.3),
                         flag(4, true)),
                     1);
    assert_int_equal(ASK("aten::rsub", T(0, 3), T(1, 3)), 0);
    assert_int_equal(ASK("aten::rsub", T(0, 3), real(1, 2)), 1);
}

static void elements_unknown(void **state) {
    (void)state;
    assert_int_equal(ASK("aten::add", T(0, 2, 3), T(1, 2)), 0);                   /* they don't fit */
    assert_int_equal(ASK("aten::add_", T(0, 3), T(1, 2, 3)), 0);                  /* it would grow */
    assert_int_equal(ASK("aten::add", T(0, 3), of_type(T(1, 3), HALF)), 0);       /* two types */
    assert_int_equal(ASK("aten::mul", of_type(T(0, 3), INT64), real(1, 0.5)), 0); /* becomes a float */
    assert_int_equal(ASK("aten::sigmoid", of_type(T(0, 3), INT64)), 0);           /* becomes a float */
    assert_int_equal(ASK("aten::eq_", T(0, 3), T(1, 3)), 0);                      /* keeps its type */
    assert_int_equal(ASK("aten::relu", T_UNSEEN(0)), 0);
    assert_int_equal(ASK("aten::relu", T(0, 1, 1, 1, 1, 1, 1, 1, 1, 1)), 0); /* nine axes */
    assert_int_equal(ASK("aten::relu", real(0, 1)), 0);
    assert_int_equal(ASK("aten::bitwise_and", T(0, 3), T(1, 3)), 0);
    assert_int_equal(lam_shape_rule("aten::no_such_thing"), -1);
    assert_int_equal(lam_shape_rule("aten::__and__"), -1);
    assert_int_equal(lam_shape_rule("aten::ad"), -1);
    assert_int_equal(lam_shape_rule(""), -1);
    assert_int_equal(lam_shape_rule(NULL), -1);
    assert_int_equal(lam_shape_run(-1, NULL, 0, got), 0);
    assert_int_equal(lam_shape_run(1 << 20, NULL, 0, got), 0);
    assert_int_equal(lam_shape_run(lam_shape_rule("aten::relu"), NULL, 0, got), 0);
}

/* -- products, norms, tables --------------------------------------------------------------------------- */

static void products(void **state) {
    (void)state;
    assert_int_equal(ASK("aten::mm", T(0, 2, 3), T(1, 3, 4)), 1);
    GIVES(0, 2, 4);
    assert_int_equal(ASK("aten::addmm", T(0, 4), T(1, 2, 3), T(2, 3, 4)), 1);
    GIVES(0, 2, 4);
    assert_int_equal(ASK("aten::bmm", T(0, 5, 2, 3), T(1, 5, 3, 4)), 1);
    GIVES(0, 5, 2, 4);
    assert_int_equal(ASK("aten::baddbmm", T(0, 1, 2, 4), T(1, 5, 2, 3), T(2, 5, 3, 4)), 1);
    GIVES(0, 5, 2, 4);
    assert_int_equal(ASK("aten::_grouped_mm", T(0, 6, 4), T(1, 3, 4, 8), T(2, 3)), 1);
    GIVES(0, 6, 8);
    assert_int_equal(ASK("aten::_grouped_mm", T(0, 6, 4), T(1, 4, 8), T(2, 3)), 1);
    GIVES(0, 3, 6, 8);
    assert_int_equal(ASK("aten::_grouped_mm", T(0, 3, 6, 4), T(1, 4, 8), T(2, 3)), 1);
    GIVES(0, 6, 8);
    assert_int_equal(ASK("aten::_grouped_mm", T(0, 3, 6, 4), T(1, 3, 4, 8)), 1);
    GIVES(0, 3, 6, 8);
    assert_int_equal(ASK("aten::_transform_bias_rescale_qkv", T(0, 2, 5, 24), T(1, 24), whole(2, 4)), 3);
    GIVES(2, 2, 4, 5, 2);
    assert_int_equal(ASK("aten::mm", T(0, 2, 3), T(1, 4, 3)), 0);
    assert_int_equal(ASK("aten::mm", T(0, 3), T(1, 3, 4)), 0);
    assert_int_equal(ASK("aten::bmm", T(0, 5, 2, 3), T(1, 6, 3, 4)), 0);
    assert_int_equal(ASK("aten::addmm", T(0, 3), T(1, 2, 3), T(2, 3, 4)), 0);
    assert_int_equal(ASK("aten::addmm", T(0, 7, 2, 4), T(1, 2, 3), T(2, 3, 4)), 0);
    assert_int_equal(ASK("aten::_grouped_mm", T(0, 6, 4), T(1, 3, 4, 7), T(2, 3)), 0);
    assert_int_equal(ASK("aten::_grouped_mm", T(0, 6, 4), T(1, 3, 4, 8)), 0); /* where do they end? */
    assert_int_equal(ASK("aten::_grouped_mm", T(0, 6, 4), T(1, 3, 4, 8), T(2, 4)), 0);
    assert_int_equal(ASK("aten::_grouped_mm", T(0, 6, 4), T(1, 3, 5, 8), T(2, 3)), 0);
    assert_int_equal(ASK("aten::_grouped_mm", T(0, 3, 6, 4), T(1, 4, 4, 8)), 0);
    assert_int_equal(ASK("aten::_grouped_mm", T(0, 6), T(1, 3, 4, 8), T(2, 3)), 0);
    assert_int_equal(ASK("aten::_transform_bias_rescale_qkv", T(0, 2, 5, 24), T(1, 24), whole(2, 5)), 0);
}

static void norms(void **state) {
    (void)state;
    assert_int_equal(ASK("aten::native_batch_norm", T(0, 2, 3, 4), T(1, 3), T(2, 3), T(3, 3), T(4, 3),
                         flag(5, false), real(6, 0.1), real(7, 1e-5)),
                     3);
    GIVES(0, 2, 3, 4);
    GIVES(1, 0);
    assert_int_equal(ASK("aten::native_batch_norm", T(0, 2, 3, 4), nothing(1), nothing(2), nothing(3),
                         nothing(4), flag(5, true)),
                     3);
    GIVES(2, 3);
    assert_int_equal(ASK("aten::native_batch_norm", T(0, 2, 3), nothing(1), nothing(2), nothing(3),
                         nothing(4), flag(5, false)),
                     0);
    assert_int_equal(ASK("aten::native_batch_norm", T(0, 2, 3), T(1, 4), nothing(2), nothing(3), nothing(4),
                         flag(5, true)),
                     0);
    assert_int_equal(ASK("aten::native_layer_norm", T(0, 2, 3, 4), LIST(1, 3, 4), T(2, 3, 4), nothing(3)), 3);
    GIVES(1, 2, 1, 1);
    assert_int_equal(ASK("aten::native_layer_norm", T(0, 2, 3, 4), LIST(1, 2, 4), nothing(2), nothing(3)), 0);
    assert_int_equal(ASK("aten::native_layer_norm", T(0, 2, 3, 4), LIST(1, 4), T(2, 3), nothing(3)), 0);
    assert_int_equal(ASK("aten::native_group_norm", T(0, 2, 6, 5), T(1, 6), T(2, 6), whole(3, 2), whole(4, 6),
                         whole(5, 5), whole(6, 3)),
                     3);
    GIVES(2, 2, 3);
    assert_int_equal(ASK("aten::native_group_norm", T(0, 2, 6, 5), T(1, 6), T(2, 6), whole(3, 2), whole(4, 6),
                         whole(5, 5), whole(6, 4)),
                     0);
}

static void tables(void **state) {
    (void)state;
    assert_int_equal(ASK("aten::embedding", T(0, 10, 4), of_type(T(1, 2, 3), INT64)), 1);
    GIVES(0, 2, 3, 4);
    assert_int_equal(got->dtype, NET_FLOAT32);
    assert_int_equal(ASK("aten::embedding", of_type(T(0, 10, 4), HALF), of_type(T(1, 2, 3), INT64)), 1);
    assert_int_equal(got->dtype, HALF);
    assert_int_equal(ASK("aten::embedding", T(0, 10), of_type(T(1, 2, 3), INT64)), 0);
    lam_op_arg bags[] = {T(0, 10, 4),
                         of_type(T(1, 12), INT64),
                         of_type(T(2, 3), INT64),
                         flag(3, false),
                         whole(4, 0),
                         flag(5, false),
                         nothing(6),
                         flag(7, true),
                         whole(8, -1)};
    assert_int_equal(shapes_of("aten::_embedding_bag", bags, 9), 4);
    GIVES(0, 2, 4);
    GIVES(1, 0);
    GIVES(3, 2);
    assert_int_equal(shapes_of("aten::_embedding_bag_forward_only", bags, 9), 4);
    GIVES(2, 3);
    bags[0] = of_type(bags[0], HALF);
    assert_int_equal(shapes_of("aten::_embedding_bag", bags, 9), 4);
    GIVES(1, 0);
    bags[0] = of_type(bags[0], 7); /* float64 has no fast path */
    assert_int_equal(shapes_of("aten::_embedding_bag", bags, 9), 4);
    GIVES(1, 12);
    bags[0] = T(0, 10, 4);
    bags[6] = T(6, 12);
    assert_int_equal(shapes_of("aten::_embedding_bag", bags, 9), 4);
    GIVES(1, 0);
    bags[4] = whole(4, 1);
    assert_int_equal(shapes_of("aten::_embedding_bag", bags, 9), 0); /* only a sum is weighted */
    bags[6] = nothing(6);
    bags[4] = whole(4, 2); /* the largest */
    assert_int_equal(shapes_of("aten::_embedding_bag", bags, 9), 4);
    GIVES(1, 12);
    GIVES(3, 2, 4);
    bags[4] = whole(4, 3);
    assert_int_equal(shapes_of("aten::_embedding_bag", bags, 9), 0);
    assert_int_equal(ASK("aten::cat", T(0, 2, 3), T(0, 2, 4), T(0, 2, 5), whole(1, -1)), 1);
    GIVES(0, 2, 12);
    assert_int_equal(ASK("aten::cat", T(0, 2, 3), T(0, 3, 3), whole(1, 1)), 0);
    assert_int_equal(ASK("aten::cat", T(0, 2, 3), T(0, 0), whole(1, 0)), 0); /* an empty one is left out */
    assert_int_equal(ASK("aten::cat", T(0, 2, 3), whole(1, 2)), 0);
    assert_int_equal(ASK("aten::mean", T(0, 2, 3, 4), LIST(1, -1, 0), flag(2, true)), 1);
    GIVES(0, 1, 3, 1);
    assert_int_equal(ASK("aten::sum", T(0, 2, 3)), 1);
    assert_int_equal(got->ndim, 0);
    assert_int_equal(ASK("aten::amax", T(0, 2, 3), LIST(1, 1, -1)), 0);
    assert_int_equal(ASK("aten::mean", T(0, 2, 0), LIST(1, 1)), 0);
}

/* -- windows against loops ----------------------------------------------------------------------------- */

static int64_t roll(int64_t from, int64_t to) { return from + rand() % (to - from + 1); }

/* How many windows begin at a multiple of the stride and end in the padded input. */
static int64_t slid(int64_t size, int64_t window, int64_t stride, int64_t pad, int64_t dilation) {
    int64_t n = 0;
    for (int64_t at = -pad; at + dilation * (window - 1) < size + pad; at += stride) n++;
    return n;
}

static void convolutions(void **state) {
    (void)state;
    srand(7);
    for (int i = 0; i < 3000; i++) {
        int64_t h = roll(1, 12), w = roll(1, 12), g = roll(1, 3), k = roll(1, 4), s = roll(1, 3),
                p = roll(0, 3), d = roll(1, 3);
        int64_t rows = slid(h, k, s, p, d), columns = slid(w, 1, s, p, d);
        int32_t n = ASK("aten::convolution", T(0, 2, 2 * g, h, w), T(1, 5 * g, 2, k, 1), T(2, 5 * g),
                        LIST(3, s), LIST(4, p, p), LIST(5, d), flag(6, false), LIST(7, 0), whole(8, g));
        assert_int_equal(n, rows > 0 && columns > 0);
        if (n) GIVES(0, 2, 5 * g, rows, columns);
    }
}

/* A transposed one reaches as far as the last window that it writes. */
static void transposed(void **state) {
    (void)state;
    srand(8);
    for (int i = 0; i < 3000; i++) {
        int64_t h = roll(1, 9), k = roll(1, 4), s = roll(1, 3), p = roll(0, 2), d = roll(1, 3),
                more = roll(0, s - 1), end = 0;
        for (int64_t at = 0; at < h; at++) end = at * s + d * (k - 1) + 1;
        int64_t rows = end - 2 * p + more;
        int32_t n = ASK("aten::convolution", T(0, 2, 4, h), T(1, 4, 3, k), nothing(2), LIST(3, s), LIST(4, p),
                        LIST(5, d), flag(6, true), LIST(7, more), whole(8, 2));
        assert_int_equal(n, rows > 0);
        if (n) GIVES(0, 2, 6, rows);
    }
}

static void convolutions_unknown(void **state) {
    (void)state;
    lam_op_arg in[] = {T(0, 2, 4, 8), T(1, 6, 2, 3),  T(2, 6),    LIST(3, 1), LIST(4, 0),
                       LIST(5, 1),    flag(6, false), LIST(7, 0), whole(8, 2)};
    assert_int_equal(shapes_of("aten::convolution", in, 9), 1);
    const lam_op_arg wrong[] = {T(0, 2, 5, 8),
                                T(0, 4, 8),
                                T(0, 0, 4, 8),
                                T(1, 5, 2, 3),
                                T(1, 6, 2, 9),
                                T(2, 5),
                                LIST(3, 0),
                                LIST(4, -1),
                                LIST(5, 0),
                                LIST(3, 1, 1),
                                whole(8, 0),
                                T(0, 2, 4, INT64_MAX / 2),
                                LIST(5, INT64_MAX / 2)};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        lam_op_arg *at = &in[wrong[i].position], was = *at;
        *at = wrong[i];
        assert_int_equal(shapes_of("aten::convolution", in, 9), 0);
        *at = was;
    }
    assert_int_equal(shapes_of("aten::convolution", in, 5), 0); /* cut short */
}

static void pools(void **state) {
    (void)state;
    srand(9);
    for (int i = 0; i < 3000; i++) {
        int64_t h = roll(1, 12), k = roll(1, 4), s = roll(1, 3), p = roll(0, k / 2);
        int64_t rows = slid(h, k, s, p, 1);
        int32_t n = ASK("aten::avg_pool2d", T(0, 2, 3, h, 4), LIST(1, k, 1), LIST(2, s, 1), LIST(3, p, 0));
        assert_int_equal(n, rows > 0);
        if (n) GIVES(0, 2, 3, rows, 4);
        /* Rounded up, a window may hang over the end, if it begins before the right padding. */
        int64_t up = 0;
        for (int64_t at = -p; at < h + p && (at == -p || at - s + k < h + p); at += s) up += at < h;
        n = ASK("aten::max_pool2d_with_indices", T(0, 3, h, 4), LIST(1, k, 1), LIST(2, s, 1), LIST(3, p, 0),
                LIST(4, 1), flag(5, true));
        if (h + 2 * p >= k) {
            assert_int_equal(n, 2);
            GIVES(1, 3, up, 4);
            assert_int_equal(got[1].dtype, INT64);
        }
    }
    assert_int_equal(ASK("aten::max_pool2d_with_indices", T(0, 3, 8, 8), LIST(1, 3, 3)), 2);
    GIVES(0, 3, 2, 2); /* its stride is its window */
    assert_int_equal(ASK("aten::avg_pool2d", T(0, 3, 8, 8), LIST(1, 3), LIST(2, 1), LIST(3, 2)), 0);
    assert_int_equal(ASK("aten::avg_pool2d", T(0, 8, 8), LIST(1, 3)), 0);
    assert_int_equal(ASK("aten::_adaptive_avg_pool2d", T(0, 2, 3, 8, 8), LIST(1, 1, 5)), 1);
    GIVES(0, 2, 3, 1, 5);
    assert_int_equal(ASK("aten::_adaptive_avg_pool2d", T(0, 2, 3, 8, 0), LIST(1, 1, 5)), 0);
    assert_int_equal(ASK("aten::_adaptive_avg_pool2d", T(0, 2, 3, 8, 8), LIST(1, 5)), 0);
}

/* The lines are in the order that the search needs. */
static void every_line_is_found(void **state) {
    (void)state;
    static const char *const names[] = {
#define SHAPE(spelling, rule, types, layout) spelling,
#include "vocab/shapes.def"
#undef SHAPE
    };
    for (int32_t i = 0; i < (int32_t)(sizeof names / sizeof *names); i++)
        assert_int_equal(lam_shape_rule(names[i]), 2 * i);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements),
        cmocka_unit_test(pictures),
        cmocka_unit_test(elements_unknown),
        cmocka_unit_test(products),
        cmocka_unit_test(norms),
        cmocka_unit_test(tables),
        cmocka_unit_test(convolutions),
        cmocka_unit_test(transposed),
        cmocka_unit_test(convolutions_unknown),
        cmocka_unit_test(pools),
        cmocka_unit_test(every_line_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
