/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators share a signature when, and only when, name, arguments and results are equal, identities aside.
 */
#include "kit/oom.h"

#include "kit/ops_net.h"

#include <math.h>

static lam_op_arg value(lam_value v) {
    return (lam_op_arg){.position = 1, .dtype = -1, .device = -1, .ndim = -1, .value = v};
}

static lam_op_arg stored(lam_op_arg a, int64_t values, int64_t n, int64_t bytes) {
    a.sparse = true;
    a.values = values;
    a.stored = n;
    a.stored_bytes = bytes;
    return a;
}

static lam_op_arg masking(lam_op_arg a, int64_t open, int64_t rows) {
    a.masks = true;
    a.open = open;
    a.open_rows = rows;
    return a;
}

static lam_op_arg with(lam_op_arg a, int32_t dtype, int32_t device) {
    a.dtype = dtype;
    a.device = device;
    return a;
}

enum { VARIANTS = 30 };

/* Each differs from every other in what makes an operator another one. */
static void variants(lam_op_arg to[VARIANTS]) {
    static const int64_t ab[] = {1, 2}, ac[] = {1, 3}, s23[] = {2, 3}, s32[] = {3, 2}, s6[] = {6};
    const lam_op_arg all[VARIANTS] = {
        value((lam_value){.type = LAM_NONE}),
        value((lam_value){.type = LAM_BOOL, .i = 0}),
        value((lam_value){.type = LAM_BOOL, .i = 1}),
        value((lam_value){.type = LAM_INT, .i = 0}),
        value((lam_value){.type = LAM_INT, .i = 1}),
        value((lam_value){.type = LAM_FLOAT, .f = 0}),
        value((lam_value){.type = LAM_FLOAT, .f = -0.0}),
        value((lam_value){.type = LAM_FLOAT, .f = 1}),
        value((lam_value){.type = LAM_FLOAT, .f = (double)NAN}),
        value((lam_value){.type = LAM_TEXT, .text = "mean"}),
        value((lam_value){.type = LAM_TEXT, .text = "sum"}),
        value((lam_value){.type = LAM_INTS}),
        value((lam_value){.type = LAM_INTS, .n = 1, .ints = ab}),
        value((lam_value){.type = LAM_INTS, .n = 2, .ints = ab}),
        value((lam_value){.type = LAM_INTS, .n = 2, .ints = ac}),
        net_op_tensor(1, s23, 2),
        net_op_tensor(1, s32, 2),
        net_op_tensor(1, s6, 1),
        net_op_tensor(2, s23, 2),
        T_UNSEEN(1),
        with(net_op_tensor(1, s23, 2), NET_INT64, 0),
        with(net_op_tensor(1, s23, 2), NET_FLOAT32, 1),
        stored(net_op_tensor(1, s23, 2), 4, 4, 48),
        stored(net_op_tensor(1, s23, 2), 5, 4, 48),
        stored(net_op_tensor(1, s23, 2), 4, 5, 48),
        stored(net_op_tensor(1, s23, 2), 4, 4, 49),
        masking(net_op_tensor(1, s23, 2), 0, 0),
        masking(net_op_tensor(1, s23, 2), 3, 1),
        masking(net_op_tensor(1, s23, 2), 3, 2),
        masking(net_op_tensor(1, s23, 2), 4, 2),
    };
    memcpy(to, all, sizeof all);
}

static void only_equal_ones_share(void **state) {
    (void)state;
    lam_op_arg all[VARIANTS];
    variants(all);
    for (int as_result = 0; as_result < 2; as_result++) {
        net n = net_new();
        net_place(&n, -1, "", net_leaf(&n, "Tanh"));
        int32_t call = net_call(&n, 0, -1, SH(2, 3), 0, SH(2, 3), 0);
        const op_at at = {call, -1, LAM_FORWARD, 0};
        const lam_op_arg x = T(0, 2, 3);
        for (int twice = 0; twice < 2; twice++)
            for (int i = 0; i < VARIANTS; i++) {
                const lam_op_arg both[] = {x, all[i]};
                net_op_args(&n, "my::op", at, both, as_result ? 1 : 2, as_result ? &all[i] : &x, 1);
            }
        net_op_args(&n, "my::other", at, &x, 1, &x, 1); /* other names, fewer arguments, no result */
        net_op_args(&n, "my::op", at, &x, 1, &x, 0);
        net_op_args(&n, "my::op", at, NULL, 0, NULL, 0);
        lam_model *m = net_done(&n);
        assert_int_equal(lam_model_n_ops(m), 2 * VARIANTS + 3);
        assert_int_equal(lam_model_n_op_sigs(m), VARIANTS + 3);
        for (int32_t i = 0; i < VARIANTS; i++)
            assert_ptr_equal(lam_model_op(m, i)->sig, lam_model_op(m, i + VARIANTS)->sig);
        lam_model_free(m);
    }
}

/* What a result shares with an argument is part of it, also where there are too many to search. */
static void what_is_shared_is_told_apart(void **state) {
    (void)state;
    enum { MANY = 80 };
    static lam_op_arg in[MANY], out[MANY];
    static const int64_t sizes[] = {2, 3};
    net n = net_new();
    net_place(&n, -1, "", net_leaf(&n, "Tanh"));
    int32_t call = net_call(&n, 0, -1, SH(2, 3), 0, SH(2, 3), 0);
    const op_at at = {call, -1, LAM_FORWARD, 0};
    for (uint64_t i = 0; i < MANY; i++) {
        in[i] = data_of(0, 100 + i, 100 + i, sizes, 2);
        uint64_t number = i % 2 ? 100 + i : 900 + i;
        out[i] = data_of((int32_t)i, number, number, sizes, 2);
    }
    in[7].storage = in[7].object = 0; /* nobody knows its memory */
    net_op_args(&n, "my::list", at, in, MANY, out, MANY);
    net_op_args(&n, "my::list", at, in, MANY, in, MANY);
    net_op_args(&n, "my::list", at, in, 2, out, 2);
    net_op_args(&n, "my::list", at, in, 2, in, 2);
    lam_model *m = net_done(&n);
    assert_int_equal(lam_model_n_op_sigs(m), 4);
    const lam_op_sig *some = lam_model_op(m, 0)->sig, *all = lam_model_op(m, 1)->sig;
    for (int32_t i = 0; i < MANY; i++) {
        assert_int_equal(some->out[i].shares, i % 2 && i != 7 ? i : -1);
        assert_int_equal(all->out[i].shares, i != 7 ? i : -1);
    }
    assert_int_equal(lam_model_op(m, 2)->sig->out[0].shares, -1);
    assert_int_equal(lam_model_op(m, 3)->sig->out[1].shares, 1);
    lam_model_free(m);
}

static lam_status push(net *n, lam_op_info o) { return lam_build_op(n->b, &o, NULL, &n->e); }

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    const lam_op_arg x = T(0, 2, 3);
    net n = net_new();
    const lam_op_info good = {
        .name = "aten::relu", .call = -1, .parent = -1, .n_in = 1, .n_out = 1, .in = &x, .out = &x};
    assert_int_equal(push(&n, good), LAM_OK);
    lam_op_info o = good;
    o.call = 3;
    assert_int_equal(push(&n, o), LAM_RANGE);
    assert_string_equal(n.e.where, "the call of an operator");
    o = good;
    o.parent = 9;
    assert_int_equal(push(&n, o), LAM_RANGE);
    o = good;
    o.thread = -1;
    assert_int_equal(push(&n, o), LAM_RANGE);
    o = good;
    o.phase = LAM_N_PHASES;
    assert_int_equal(push(&n, o), LAM_RANGE);
    o = good;
    o.like = 7;
    assert_int_equal(push(&n, o), LAM_RANGE);
    o.like = 1;
    o.n_out = 0;
    assert_int_equal(push(&n, o), LAM_RANGE);
    o = good;
    o.name = NULL;
    assert_int_not_equal(push(&n, o), LAM_OK);
    o = good;
    o.like = 1;
    o.thread = 1 << 20;
    assert_int_equal(push(&n, o), LAM_OK);
    assert_int_equal(lam_build_ops_seen(NULL, &n.e), LAM_USAGE);
    assert_int_equal(lam_build_nodes_seen(NULL, &n.e), LAM_USAGE);
    assert_int_equal(lam_build_timed(NULL, &n.e), LAM_USAGE);
    assert_int_equal(lam_build_cut(NULL, "why", true, 0, &n.e), LAM_USAGE);
    lam_model *m = net_done(&n);
    assert_int_equal(lam_model_n_ops(m), 2);
    assert_int_equal(lam_model_n_op_sigs(m), 1);
    assert_int_equal(lam_model_op(m, 1)->thread, UINT16_MAX);
    lam_model_free(m);
}

static void build_many(void *arg, bool *ok) {
    lam_builder *b = NULL;
    lam_error e = {0};
    const lam_op_arg *all = arg;
    *ok = lam_builder_new(&b, 0, &e) == LAM_OK;
    for (int i = 0; *ok && i < 300; i++) { /* more than the table begins with */
        const int64_t sizes[] = {i};
        lam_op_arg x[] = {all[i % VARIANTS], net_op_tensor(2, sizes, 1)};
        lam_op_info o = {.name = "my::op", .call = -1, .parent = -1, .n_in = 2, .in = x};
        *ok = lam_build_op(b, &o, NULL, &e) == LAM_OK;
    }
    if (!*ok) assert_int_equal(e.status, LAM_NOMEM);
    lam_builder_free(b);
}

static void memory_may_run_out(void **state) {
    (void)state;
    lam_op_arg all[VARIANTS];
    variants(all);
    oom_sweep(build_many, all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_equal_ones_share),
        cmocka_unit_test(what_is_shared_is_told_apart),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
