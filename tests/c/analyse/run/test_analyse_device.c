/* SPDX-License-Identifier: Apache-2.0
 *
 * A device's memory from what its allocator says at moments: whose it is between two of them, and peaks. */
#include "kit/oom.h"

#include "kit/net.h"

/* Net(a: Linear, b: Linear), called once each. */
static net two_calls(int32_t c[3]) {
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), a = net_linear(&n, 3, 4), b = net_linear(&n, 4, 5);
    int32_t p = net_place(&n, -1, "", root);
    net_place(&n, p, "a", a);
    net_place(&n, p, "b", b);
    const int32_t modules[] = {root, a, b};
    for (int i = 0; i < 3; i++) {
        lam_call_info info = {.module = modules[i], .parent = i ? c[0] : -1, .t0_ns = 10 + i, .t1_ns = 20};
        NET_OK(&n, lam_build_call(n.b, &info, &c[i], &n.e));
    }
    return n;
}

static void said(net *n, int64_t now, int64_t peak, int64_t allocated, int64_t freed) {
    const lam_device_bytes b = {now, peak, allocated, freed, 1000 + allocated};
    NET_OK(n, lam_build_device_bytes(n->b, &b, &n->e));
}

static void use(net *n, int32_t call, lam_phase phase, int64_t first, int64_t last) {
    const lam_span s = {first, last, call, (uint8_t)phase};
    NET_OK(n, lam_build_device_use(n->b, &s, &n->e));
}

static bool is(const lam_memory_use *u, int64_t allocated, int64_t freed, int64_t retained, int64_t peak) {
    if (u->allocated == allocated && u->freed == freed && u->retained == retained && u->peak == peak)
        return true;
    print_error("%lld %lld %lld %lld\n", (long long)u->allocated, (long long)u->freed, (long long)u->retained,
                (long long)u->peak);
    return false;
}

/* Moments:  0 opening, 1 root, 2 a, 3 a left, 4 b, 5 b left, 6 root left, 7 node of b, 8 left, 9 closing */
static lam_model *one_step(int32_t c[3]) {
    net n = two_calls(c);
    said(&n, 100, 500, 1000, 900);
    said(&n, 110, 110, 1010, 900);
    said(&n, 120, 130, 1030, 910);
    said(&n, 150, 200, 1130, 980); /* a: 100 handed out, 70 back, at most 200 */
    said(&n, 145, 150, 1130, 985);
    said(&n, 165, 165, 1150, 985); /* b: 20 */
    said(&n, 160, 165, 1150, 990);
    said(&n, 160, 160, 1150, 990);
    said(&n, 90, 260, 1250, 1160); /* b's node: 100 handed out, 170 back */
    said(&n, 90, 90, 1250, 1160);
    use(&n, c[0], LAM_FORWARD, 1, 6);
    use(&n, c[1], LAM_FORWARD, 2, 3);
    use(&n, c[2], LAM_FORWARD, 4, 5);
    use(&n, c[2], LAM_BACKWARD, 7, 8);
    return net_done(&n);
}

static lam_memory *memory_of(const lam_model *m) {
    lam_memory *y = NULL;
    lam_error e = {0};
    if (lam_device_memory_new(&y, m, &e) != LAM_OK) fail_msg("lam_device_memory_new: %s", e.text);
    return y;
}

static void between_two_moments(void **state) {
    (void)state;
    int32_t c[3];
    lam_model *m = one_step(c);
    lam_memory *y = memory_of(m);
    const lam_memory_totals *t = lam_memory_total(y);
    assert_true(is(&lam_memory_call(y, c[1])->own[LAM_FORWARD], 100, 70, 30, 80));
    assert_true(is(&lam_memory_call(y, c[2])->own[LAM_FORWARD], 20, 0, 20, 20));
    assert_true(is(&lam_memory_call(y, c[0])->own[LAM_FORWARD], 20, 20, 0, 90));
    assert_true(is(&lam_memory_call(y, c[0])->total[LAM_FORWARD], 140, 90, 50, 90));
    assert_true(is(&lam_memory_call(y, c[2])->own[LAM_BACKWARD], 100, 170, -70, 100));
    assert_true(is(&lam_memory_call(y, c[0])->total[LAM_BACKWARD], 100, 170, -70, 100));
    assert_true(is(&lam_memory_place(y, 0)->total[LAM_FORWARD], 140, 90, 50, 90));
    assert_int_equal(t->before, 100);
    assert_int_equal(t->allocated, 250);
    assert_int_equal(t->freed, 260);
    assert_int_equal(t->peak, 260); /* what was before the opening is nobody's peak here */
    assert_int_equal(t->peak_allocated, 160);
    assert_int_equal(t->peak_call, c[2]);
    assert_int_equal(t->peak_phase, LAM_BACKWARD);
    assert_int_equal(t->peak_ns, 2250);
    static const int64_t live[] = {100, 110, 130, 200, 150, 165, 165, 160, 260, 90};
    for (int32_t i = 0; i < 10; i++) { /* the most until each moment; what is there at the first */
        lam_memory_point p;
        assert_int_equal(lam_memory_at(y, 10, i, &p, NULL), LAM_OK);
        assert_int_equal(p.bytes, live[i]);
        if (i == 0) assert_int_equal(p.t_ns, 2000);
        if (i == 9) assert_int_equal(p.t_ns, 2250);
    }
    assert_null(lam_memory_held(y, 0));
    assert_null(lam_memory_held_below(y, 0));
    assert_null(lam_memory_unplaced(y));
    assert_null(lam_memory_call(y, 99));
    lam_memory_free(y);
    lam_model_free(m);
}

/* Two threads' nodes may overlap: what happens is the one's that began last and goes on. */
static void what_began_last_has_it(void **state) {
    (void)state;
    int32_t c[3];
    net n = two_calls(c);
    for (int i = 0; i < 5; i++) said(&n, 10 * i, 10 * i, 10 * i, 0);
    use(&n, c[1], LAM_BACKWARD, 0, 2);
    use(&n, c[2], LAM_BACKWARD, 1, 4);
    use(&n, -1, LAM_BACKWARD, 3, 4); /* the loss's */
    lam_model *m = net_done(&n);
    lam_memory *y = memory_of(m);
    assert_true(is(&lam_memory_call(y, c[1])->own[LAM_BACKWARD], 10, 0, 10, 20));
    assert_true(is(&lam_memory_call(y, c[2])->own[LAM_BACKWARD], 20, 0, 20, 30));
    assert_int_equal(lam_memory_total(y)->peak_call, -1);
    lam_memory_free(y);
    lam_model_free(m);
}

static void what_cannot_be_is_refused(void **state) {
    static const lam_device_bytes bytes[] = {{-1, 0, 100, 50, 0}, {5, 4, 100, 50, 0}, {5, 5, -1, 50, 0},
                                             {5, 5, 100, -1, 0},  {5, 5, 90, 50, 0},  {5, 5, 100, 40, 0}};
    static const lam_span spans[] = {{0, 1, 0, 0}, {1, 0, 0, 0}, {-1, 0, 0, 0}, {0, 0, 9, 0}, {0, 0, 0, 7}};
    (void)state;
    int32_t c[3];
    net n = two_calls(c);
    for (size_t i = 0; i < 4; i++) /* the first moment too */
        assert_int_equal(lam_build_device_bytes(n.b, &bytes[i], NULL), LAM_RANGE);
    said(&n, 5, 5, 100, 50);
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++)
        assert_int_equal(lam_build_device_bytes(n.b, &bytes[i], NULL), LAM_RANGE);
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++)
        assert_int_equal(lam_build_device_use(n.b, &spans[i], NULL), LAM_RANGE);
    use(&n, c[0], LAM_FORWARD, 0, 0);
    lam_model *m = net_done(&n);
    assert_true(lam_model_device_memory_seen(m));
    assert_false(lam_model_device_timed(m));
    lam_memory *y = memory_of(m);
    assert_int_equal(lam_memory_total(y)->peak, 5);
    lam_memory_free(y);
    lam_model_free(m);
    n = two_calls(c);
    m = net_done(&n);
    assert_int_equal(lam_device_memory_new(&y, m, NULL), LAM_USAGE);
    assert_int_equal(lam_device_memory_new(&y, NULL, NULL), LAM_USAGE);
    assert_int_equal(lam_build_device_bytes(NULL, &bytes[0], NULL), LAM_USAGE);
    assert_int_equal(lam_build_device_use(NULL, &spans[0], NULL), LAM_USAGE);
    lam_model_free(m);
}

static void take(void *arg, bool *ok) {
    lam_memory *y = NULL;
    lam_error e = {0};
    *ok = oom_check(lam_device_memory_new(&y, arg, &e), &e);
    lam_memory_free(y);
}

static void build(void *arg, bool *ok) {
    lam_builder *b = NULL;
    lam_error e = {0};
    const lam_device_bytes said_so = {1, 2, 3, 2, 0};
    const lam_span of = {0, 0, -1, LAM_BACKWARD};
    (void)arg;
    *ok = oom_check(lam_builder_new(&b, 0, &e), &e) &&
          oom_check(lam_build_device_bytes(b, &said_so, &e), &e) &&
          oom_check(lam_build_device_use(b, &of, &e), &e);
    lam_builder_free(b);
}

static void memory_may_run_out(void **state) {
    (void)state;
    int32_t c[3];
    lam_model *m = one_step(c);
    oom_sweep(take, m);
    oom_sweep(build, NULL);
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(between_two_moments),
        cmocka_unit_test(what_began_last_has_it),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
