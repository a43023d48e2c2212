/* SPDX-License-Identifier: Apache-2.0
 *
 * What no rule of shapes answers: each of a good call's arguments in turn is replaced by one that does not
 * fit (tests/py/test_dry_shapes.py holds the answers against torch's own). */
#include "kit/oom.h"

#include "kit/near_args.h"
#include "kit/shown.h"

enum { BYTE = 0, INT64 = 4, HALF = 5, COMPLEX = 9, BOOLEAN = 11, BFLOAT16 = 15, FLOAT8 = 23 };
static const int64_t HUGE_SIZE = INT64_C(1) << 34;

#define SCALAR(at) net_op_tensor(at, NULL, 0)

#define EMPTY(at) list(at, NULL, 0)

enum { MOST = 12 };

/* What is told of the calls near each good one. */
static char told[1 << 20];
static size_t n_told;

static void tell(const char *format, ...) LAM_PRINTF(1, 2);
static void tell(const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    n_told += (size_t)vsnprintf(told + n_told, sizeof told - n_told, format, ap);
    va_end(ap);
    assert_true(n_told < sizeof told);
}

static void tell_shapes(const char *name, const lam_op_arg *in, int32_t n, const char *how) {
    const int32_t many = shapes_of(name, in, n);
    if (many == 0) return; /* of most nothing is */
    tell("%s, %s:", name + 6, how);
    for (int32_t i = 0; i < many; i++) {
        tell(" %d %d", (int)got[i].in, (int)got[i].dtype);
        for (int32_t k = 0; k < got[i].ndim; k++) tell("%c%lld", k ? 'x' : ' ', (long long)got[i].sizes[k]);
    }
    tell("\n");
}

/* `good` is answered; with any of `wrong` in the place of the first argument of its position, it is not. */
static void refuses(const char *name, const lam_op_arg *good, int32_t n, const lam_op_arg *wrong,
                    int32_t n_wrong) {
    lam_op_arg in[MOST];
    if (shapes_of(name, good, n) < 1) fail_msg("%s is not answered", name);
    near_calls(name, good, n, tell_shapes);
    for (int32_t i = 0; i < n_wrong; i++) {
        int32_t at = 0;
        memcpy(in, good, sizeof *in * (size_t)n);
        while (at < n && in[at].position != wrong[i].position) at++;
        assert_true(at < MOST);
        in[at] = wrong[i];
        if (shapes_of(name, in, at < n ? n : n + 1) != 0)
            fail_msg("%s is answered with wrong argument %d, at position %d", name, (int)i,
                     (int)wrong[i].position);
    }
}

/* Nor is it without the argument at `position`, nor with one that is neither tensor nor number. */
static void needs(const char *name, const lam_op_arg *good, int32_t n, int32_t position) {
    lam_op_arg in[MOST];
    int32_t kept = 0;
    for (int32_t i = 0; i < n; i++)
        if (good[i].position != position) in[kept++] = good[i];
    if (shapes_of(name, in, kept) != 0) fail_msg("%s is answered without argument %d", name, (int)position);
    in[kept] = nothing(position);
    if (shapes_of(name, in, kept + 1) != 0) fail_msg("%s is answered with none for %d", name, (int)position);
}

#define GOOD(...)                                                                                            \
    (const lam_op_arg[]){__VA_ARGS__}, (int32_t)(sizeof((lam_op_arg[]){__VA_ARGS__}) / sizeof(lam_op_arg))
#define WRONG(...)     GOOD(__VA_ARGS__)
#define ASK(name, ...) shapes_of(name, GOOD(__VA_ARGS__))

static void pairs(void **state) {
    (void)state;
    refuses("aten::add", GOOD(T(0, 3), T(1, 3)),
            WRONG(T(2, 3), nothing(1), flag(1, true), T(1, 2), T_UNSEEN(1), of_type(T(1, 3), -1), nothing(0),
                  EMPTY(1)));
    needs("aten::add", GOOD(T(0, 3), T(1, 3)), 1);
    assert_int_equal(ASK("aten::add", of_type(T(0, 3), BFLOAT16), real(1, 0.5)), 1);
    assert_int_equal(got->dtype, BFLOAT16);
    assert_int_equal(ASK("aten::add", of_type(T(0, 3), BOOLEAN), whole(1, 1)), 0); /* becomes a number */
    assert_int_equal(ASK("aten::add_", T(0, 1), T(1, 3)), 0);                      /* it would grow */
    assert_int_equal(ASK("aten::add_", T(0, 3), T(1, 1)), 1);
    assert_int_equal(got->in, 0);
    refuses("aten::log_sigmoid_forward", GOOD(T(0, 3)), WRONG(T(1, 3), T_UNSEEN(0)));
    assert_int_equal(ASK("aten::log_sigmoid_forward_", T(0, 3)), 0); /* it gives two */
    refuses("aten::rrelu_with_noise", GOOD(T(0, 3), T(1, 3)), WRONG(nothing(1), T(2, 3), nothing(0)));
    assert_int_equal(lam_shape_order(-1), LAM_ORDER_ROWS);
    assert_int_equal(lam_shape_order(1 << 20), LAM_ORDER_ROWS);
    assert_int_equal(lam_shape_rule("_"), -1);
}

static void types(void **state) {
    (void)state;
    refuses("aten::sigmoid", GOOD(T(0, 3)),
            WRONG(of_type(T(0, 3), INT64), of_type(T(0, 3), BOOLEAN), of_type(T(0, 3), COMPLEX),
                  of_type(T(0, 3), FLOAT8), of_type(T(0, 3), -1)));
    refuses("aten::maximum", GOOD(of_type(T(0, 3), BYTE), of_type(T(1, 3), BYTE)),
            WRONG(of_type(T(1, 3), INT64), of_type(T(0, 3), COMPLEX)));
    refuses("aten::bitwise_not", GOOD(of_type(T(0, 3), BOOLEAN)), WRONG(T(0, 3), of_type(T(0, 3), HALF)));
    refuses("aten::native_layer_norm", GOOD(T(0, 2, 3), LIST(1, 3)), WRONG(of_type(T(0, 2, 3), HALF)));
    assert_int_equal(ASK("aten::relu_", T(0, 3)), 1);
    assert_int_equal(ASK("aten::relu_", nothing(0), T(1, 3)), 0);
}

static void products(void **state) {
    (void)state;
    refuses("aten::mm", GOOD(T(0, 2, 3), T(1, 3, 4)),
            WRONG(nothing(0), nothing(1), T(1, 3), T(0, 2, 2, 3), T(0, 2, 4), T(1, 3, 3, 4)));
    refuses("aten::bmm", GOOD(T(0, 5, 2, 3), T(1, 5, 3, 4)), WRONG(T(1, 6, 3, 4), T(1, 5, 4, 3)));
    refuses("aten::addmm", GOOD(T(0, 1, 4), T(1, 1, 3), T(2, 3, 4)),
            WRONG(nothing(0), T(0, 3, 4), T(0, 1, 1, 4), T(0, 5), T(1, 1, 4)));
    refuses("aten::_grouped_mm", GOOD(T(0, 6, 4), T(1, 3, 4, 8), T(2, 3), nothing(4)),
            WRONG(nothing(0), nothing(1), T(0, 4), T(0, 1, 1, 6, 4), T(1, 4), T(1, 1, 3, 4, 8), T(4, 1),
                  whole(4, 6), T(1, 3, 5, 8), T(1, 3, 4, 9), nothing(2), T(2, 1, 3), T(2, 2)));
    refuses("aten::_grouped_mm", GOOD(T(0, 3, 6, 4), T(1, 4, 8), T(2, 3)), WRONG(T(2, 2)));
    refuses("aten::_grouped_mm", GOOD(T(0, 3, 6, 4), T(1, 3, 4, 8)), WRONG(T(2, 3), T(1, 2, 4, 8)));
    refuses("aten::_transform_bias_rescale_qkv", GOOD(T(0, 2, 5, 24), T(1, 24), whole(2, 4)),
            WRONG(nothing(0), nothing(1), T(0, 5, 24), T(1, 1, 24), whole(2, 0), T(1, 23), T(0, 2, 5, 25),
                  whole(2, 3), real(2, 4)));
    refuses("aten::_transform_bias_rescale_qkv", GOOD(T(0, 2, 5, 24), T(1, 24), whole(2, 4)),
            WRONG(whole(2, -4), whole(2, 16)));
    assert_int_equal(ASK("aten::_transform_bias_rescale_qkv", T(0, 2, 5, 25), T(1, 25), whole(2, 1)), 0);
}

static void convolutions(void **state) {
    (void)state;
    const lam_op_arg good[] = {T(0, 2, 4, 8), T(1, 6, 2, 3),  T(2, 6),     whole(3, 1), whole(4, 0),
                               whole(5, 1),   flag(6, false), whole(7, 0), whole(8, 2)};
    const lam_op_arg wrong[] = {
        T(0, 2, 4),         T(0, 2, 4, 8, 1, 1, 1), T(1, 6, 2),   real(2, 1), T(2, 6, 1), T(3, 1),
        nothing(4),         LIST(5, 1, 1),          whole(8, -1), nothing(0), nothing(1), whole(3, HUGE_SIZE),
        T(1, 6, 2, 1 << 30)};
    refuses("aten::convolution", good, 9, wrong, sizeof wrong / sizeof *wrong);
    for (int32_t p = 3; p < 6; p++) needs("aten::convolution", good, 9, p);
    needs("aten::convolution", good, 9, 7);
    const lam_op_arg turned[] = {T(0, 2, 4, 8), T(1, 4, 3, 3), nothing(2),  whole(3, 2), whole(4, 0),
                                 whole(5, 1),   flag(6, true), whole(7, 1), whole(8, 2)};
    refuses("aten::convolution", turned, 9,
            WRONG(whole(3, 0), whole(5, 0), whole(4, -1), T(0, 2, 4, 0), whole(3, HUGE_SIZE),
                  T(0, 2, 4, HUGE_SIZE), whole(5, HUGE_SIZE), T(1, 4, 3, HUGE_SIZE), whole(4, 100),
                  T(1, 6, 3, 3)));
    /* The largest of each that is answered, and the next. */
    const lam_op_arg most[] = {T(0, 1, 1, 1), T(1, 1, 1, 1), nothing(2),  whole(3, 1), whole(4, 0),
                               whole(5, 1),   flag(6, true), whole(7, 0), whole(8, 1)};
    const lam_op_arg large[][2] = {{T(0, 1, 1, INT32_MAX), T(0, 1, 1, INT64_C(1) << 31)},
                                   {T(1, 1, 1, INT32_MAX), T(1, 1, 1, INT64_C(1) << 31)},
                                   {whole(3, INT32_MAX), whole(3, INT64_C(1) << 31)},
                                   {whole(5, INT32_MAX), whole(5, INT64_C(1) << 31)}};
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        lam_op_arg in[9];
        memcpy(in, most, sizeof most);
        in[large[i][0].position] = large[i][0];
        assert_int_equal(shapes_of("aten::convolution", in, 9), 1);
        assert_int_equal(got->sizes[2], i < 2 ? INT32_MAX : 1);
        refuses("aten::convolution", most, 9, &large[i][1], 1);
    }
}

static void pictures(void **state) {
    (void)state;
    refuses("aten::reflection_pad2d", GOOD(T(0, 3, 5, 7), LIST(1, 1, 2, 3, 4)),
            WRONG(T(0, 5, 7), T(0, 1, 1, 3, 5, 7), nothing(0), LIST(1, 1, 2, 3), T(2, 1),
                  LIST(1, 1, -1, 0, 0), LIST(1, 0, 7, 0, 0), LIST(1, 0, 0, 5, 0), LIST(1, 0, 0, 0, 5),
                  nothing(1), LIST(1, 0, 0, 0, -2)));
    refuses("aten::roll", GOOD(T(0, 2, 3), LIST(1, 1), LIST(2, 1)),
            WRONG(nothing(0), whole(1, 1), EMPTY(1), nothing(2), whole(2, 1), LIST(2, 0, 1), LIST(2, -3),
                  LIST(2, 2), LIST(1, -3)));
    needs("aten::roll", GOOD(T(0, 2, 3), LIST(1, 1), LIST(2, 1)), 1);
    needs("aten::roll", GOOD(T(0, 2, 3), LIST(1, 1), LIST(2, 1)), 2);
    refuses("aten::max_unpool2d", GOOD(T(0, 2, 3, 2), of_type(T(1, 2, 3, 2), INT64), LIST(2, 6, 5)),
            WRONG(T(0, 3, 2), nothing(1), nothing(0), LIST(2, 6, 0), LIST(2, 1, 2, 3)));
    refuses("aten::_adaptive_avg_pool2d", GOOD(T(0, 3, 8, 8), LIST(1, 1, 5)),
            WRONG(nothing(0), T(0, 8, 8), T(0, 1, 1, 3, 8, 8), nothing(1), LIST(1, 0, 5), LIST(1, 1, 0),
                  T(0, 0, 8, 8), LIST(1, 1, 2, 3)));
}

static void pools(void **state) {
    (void)state;
    refuses("aten::avg_pool2d", GOOD(T(0, 3, 8, 8), LIST(1, 3), LIST(2, 1), LIST(3, 1), flag(4, true)),
            WRONG(nothing(0), T(5, 1), T(0, 8, 8), T(0, 1, 1, 3, 8, 8), nothing(1), LIST(1, 1, 2, 3),
                  LIST(2, 1, 2, 3), LIST(2, 0), LIST(1, 0), LIST(3, -1), LIST(3, 1, 1, 1), LIST(1, HUGE_SIZE),
                  LIST(2, HUGE_SIZE), T(0, 3, HUGE_SIZE, 8), real(3, 1)));
    refuses("aten::avg_pool2d", GOOD(T(0, 3, 8, 8), LIST(1, 3), EMPTY(2)), WRONG(LIST(1, 9)));
    assert_int_equal(ASK("aten::avg_pool2d", T(0, 3, 8, 8), LIST(1, HUGE_SIZE), LIST(2, 1),
                         LIST(3, HUGE_SIZE / 2)),
                     0);
    /* The greatest that torch's own pools take. */
    refuses("aten::avg_pool2d", GOOD(T(0, 1, 1, INT32_MAX), LIST(1, 1, INT32_MAX), LIST(2, 1, INT32_MAX)),
            WRONG(LIST(1, 1, INT64_C(1) << 31), LIST(2, 1, INT64_C(1) << 31), T(0, 1, 1, INT64_C(1) << 31)));
    assert_int_equal(ASK("aten::avg_pool2d", T(0, 1, 1, INT32_MAX), LIST(1, 1, INT32_MAX), EMPTY(2)), 1);
    assert_int_equal(got[0].sizes[2], 1);
    refuses("aten::max_pool2d_with_indices",
            GOOD(T(0, 3, 8, 8), LIST(1, 3), LIST(2, 1), LIST(3, 1), LIST(4, 1), flag(5, true)),
            WRONG(LIST(4, 0), LIST(4, HUGE_SIZE), LIST(4, 1, 1, 1), LIST(4, 8)));
}

static void norms(void **state) {
    (void)state;
    const lam_op_arg bn[] = {T(0, 2, 3), T(1, 3), T(2, 3), T(3, 3), T(4, 3), flag(5, false)};
    refuses("aten::native_batch_norm", bn, 6,
            WRONG(nothing(0), T(0, 3), nothing(5), whole(5, 1), T(1, 4), T(2, 1, 3), T(3, 4), nothing(3),
                  nothing(4), real(1, 1)));
    needs("aten::native_batch_norm", bn, 6, 5);
    const lam_op_arg training[] = {T(0, 2, 3), T(1, 3), T(2, 3), T(3, 3), T(4, 3), flag(5, true)};
    refuses("aten::native_batch_norm", training, 6, WRONG(of_type(T(1, 3), HALF), of_type(T(0, 2, 3), HALF)));
    const lam_op_arg doubles[] = {of_type(T(0, 2, 3), 7), nothing(1), nothing(2), nothing(3), nothing(4),
                                  flag(5, true)};
    assert_int_equal(shapes_of("aten::native_batch_norm", doubles, 6), 3);
    assert_int_equal(got[1].dtype, 7);
    refuses("aten::native_layer_norm", GOOD(T(0, 2, 3, 4), LIST(1, 3, 4), T(2, 3, 4), nothing(3)),
            WRONG(nothing(0), nothing(1), whole(1, 4), EMPTY(1), LIST(1, 1, 2, 3, 4), LIST(1, 3, 3), T(2, 4),
                  T(2, 3, 3), T(3, 4, 3), real(3, 1)));
    needs("aten::native_layer_norm", GOOD(T(0, 2, 3, 4), LIST(1, 3, 4)), 1);
    refuses("aten::native_group_norm",
            GOOD(T(0, 2, 6, 5), T(1, 6), T(2, 6), whole(3, 2), whole(4, 6), whole(5, 5), whole(6, 3)),
            WRONG(nothing(0), whole(3, -1), whole(6, 0), whole(6, 4), T(1, 5), T(2, 5), nothing(3),
                  nothing(6)));
}

static void axes(void **state) {
    (void)state;
    refuses("aten::sum", GOOD(T(0, 2, 3), LIST(1, 1), flag(2, true)),
            WRONG(nothing(0), T(3, 1), T(0, 2, 0), whole(1, 1), LIST(1, 2), LIST(1, -3), LIST(1, 0, -2)));
    assert_int_equal(ASK("aten::sum", T(0, 2, 3), EMPTY(1), flag(2, true)), 1);
    assert_int_equal(got->ndim, 2);
    assert_true(got->sizes[0] == 1 && got->sizes[1] == 1);
    assert_int_equal(ASK("aten::sum", T(0, 2, 3), nothing(1)), 1);
    assert_int_equal(got->ndim, 0);
    refuses("aten::cat", GOOD(T(0, 2, 3), T(0, 2, 4), whole(1, 1)),
            WRONG(T(0, 2), T(0, 3, 3), whole(1, 2), whole(1, -3), whole(0, 1)));
    const lam_op_arg mixed[] = {T(0, 2, 3), whole(0, 4)};
    assert_int_equal(shapes_of("aten::cat", mixed, 2), 0);
    assert_int_equal(ASK("aten::cat", SCALAR(0), whole(1, 0)), 0);
    assert_int_equal(ASK("aten::cat", T(0, INT64_MAX), T(0, 1), whole(1, 0)), 0);
}

static void tables(void **state) {
    (void)state;
    refuses("aten::embedding", GOOD(T(0, 10, 4), of_type(T(1, 2, 3), INT64)),
            WRONG(nothing(0), nothing(1), of_type(T(1, 1, 1, 1, 1, 1, 1, 1, 1), INT64), T(0, 10)));
    const lam_op_arg bag[] = {T(0, 10, 4),
                              of_type(T(1, 12), INT64),
                              of_type(T(2, 3), INT64),
                              flag(3, false),
                              whole(4, 0),
                              flag(5, false),
                              nothing(6),
                              flag(7, true),
                              whole(8, 2)};
    refuses("aten::_embedding_bag", bag, 9,
            WRONG(nothing(0), nothing(1), nothing(2), T(0, 10), of_type(T(1, 3, 4), INT64),
                  of_type(T(2, 1, 3), INT64), T(3, 1), of_type(T(6, 12), HALF), whole(4, -1), whole(4, 3),
                  of_type(T(2, 0), INT64)));
    assert_int_equal(shapes_of("aten::_embedding_bag", bag, 9), 4);
    assert_int_equal(got[1].sizes[0], 12); /* one is left out: each index's bag is told */
}

/* Comes last: what the others gathered is as it was before. */
static void near_ones(void **state) {
    (void)state;
    (void)show_sink();
    assert_int_equal(show_put(NULL, told, n_told), LAM_OK);
    show_golden("shapes", true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs),        cmocka_unit_test(types), cmocka_unit_test(products),
        cmocka_unit_test(convolutions), cmocka_unit_test(pools), cmocka_unit_test(pictures),
        cmocka_unit_test(norms),        cmocka_unit_test(axes),  cmocka_unit_test(tables),
        cmocka_unit_test(near_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
