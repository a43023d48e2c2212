/* SPDX-License-Identifier: Apache-2.0
 *
 * Where data comes from: edges between operators, parameters, arguments and results of calls; addresses that
 * are used again; signatures that are shared. */
#include "kit/oom.h"

#include "kit/ops_net.h"

static lam_op_arg at(int32_t position, uint64_t storage, uint64_t object, int64_t size) {
    static int64_t sizes[64];
    static int next;
    int64_t *own = &sizes[next++ % 64];
    *own = size;
    lam_op_arg a = net_op_tensor(position, own, 1);
    a.storage = storage;
    a.object = object;
    return a;
}

static int64_t clock_ns;

static int32_t run(net *n, const char *name, op_at where, const lam_op_arg *in, int32_t n_in,
                   const lam_op_arg *out, int32_t n_out) {
    int32_t index = -1;
    lam_op_info o = {.name = name,
                     .call = where.call,
                     .parent = where.parent,
                     .phase = where.phase,
                     .flags = where.flags,
                     .t0_ns = ++clock_ns,
                     .n_in = n_in,
                     .n_out = n_out,
                     .in = in,
                     .out = out};
    NET_OK(n, lam_build_op(n->b, &o, &index, &n->e));
    return index;
}

#define RUN(n, name, where, ins, outs)                                                                       \
    run(n, name, where, ins, (int32_t)(sizeof(ins) / sizeof *(ins)), outs,                                   \
        (int32_t)(sizeof(outs) / sizeof *(outs)))
#define INS(...)  ((const lam_op_arg[]){__VA_ARGS__})
#define OUTS(...) ((const lam_op_arg[]){__VA_ARGS__})
/* An operator that gives nothing back. */
#define RUN_ONLY(n, name, where, ins)                                                                        \
    run(n, name, where, ins, (int32_t)(sizeof(ins) / sizeof *(ins)), NULL, 0)

static const op_at OUTSIDE = {-1, -1, LAM_FORWARD, 0};

static lam_op_arg whole_number(int32_t position, int64_t i) {
    return (lam_op_arg){
        .position = position, .dtype = -1, .device = -1, .ndim = -1, .value = {.type = LAM_INT, .i = i}};
}

/* Two halves of y, and one that overlaps both, were made before they are written: who writes one half gives
 * nothing to who reads the other. */
static void views_that_were_made_before(void **state) {
    (void)state;
    net n = net_new();
    RUN(&n, "aten::relu", OUTSIDE, INS(at(0, 2, 20, 8)), OUTS(at(0, 4, 40, 8)));
    const int64_t from[] = {0, 4, 2};
    for (int i = 0; i < 3; i++)
        RUN(&n, "aten::slice", OUTSIDE,
            INS(at(0, 4, 40, 8), whole_number(1, 0), whole_number(2, from[i]), whole_number(3, from[i] + 4),
                whole_number(4, 1)),
            OUTS(at(0, 4, (uint64_t)(42 + 2 * i), 4)));
    int32_t first = RUN(&n, "aten::mul_", OUTSIDE, INS(at(0, 4, 42, 4)), OUTS(at(0, 4, 42, 4)));
    int32_t second = RUN(&n, "aten::mul_", OUTSIDE, INS(at(0, 4, 44, 4)), OUTS(at(0, 4, 44, 4)));
    int32_t one = RUN(&n, "aten::neg", OUTSIDE, INS(at(0, 4, 42, 4)), OUTS(at(0, 6, 60, 4)));
    int32_t other = RUN(&n, "aten::neg", OUTSIDE, INS(at(0, 4, 46, 4)), OUTS(at(0, 8, 80, 4)));
    lam_model *m = net_done(&n);
    assert_int_equal(lam_model_source(m, one, 0), first);
    assert_int_equal(lam_model_source(m, other, 0), second);
    lam_model_free(m);
}

/* y = relu(x); two views of y, each used; y written to in place; y used. */
static void views_and_writes(void **state) {
    (void)state;
    net n = net_new();
    int32_t made = RUN(&n, "aten::relu", OUTSIDE, INS(at(0, 2, 20, 8)), OUTS(at(0, 4, 40, 8)));
    int32_t first = RUN(&n, "aten::select", OUTSIDE, INS(at(0, 4, 40, 8)), OUTS(at(0, 4, 42, 4)));
    int32_t second = RUN(&n, "aten::select", OUTSIDE, INS(at(0, 4, 40, 8)), OUTS(at(0, 4, 44, 4)));
    int32_t both =
        RUN(&n, "aten::add", OUTSIDE, INS(at(0, 4, 42, 4), at(1, 4, 44, 4)), OUTS(at(0, 6, 60, 4)));
    int32_t kept = RUN(&n, "aten::contiguous", OUTSIDE, INS(at(0, 4, 40, 8)), OUTS(at(0, 4, 40, 8)));
    int32_t part = RUN(&n, "aten::mul_", OUTSIDE, INS(at(0, 4, 42, 4)), OUTS(at(0, 4, 42, 4)));
    int32_t used = RUN(&n, "aten::neg", OUTSIDE, INS(at(0, 4, 40, 8)), OUTS(at(0, 8, 80, 8)));
    int32_t given =
        RUN(&n, "aten::exp", OUTSIDE, INS(at(0, 8, 80, 8), at(1, 4, 40, 8)), OUTS(at(0, 4, 40, 8)));
    int32_t last = RUN(&n, "aten::neg", OUTSIDE, INS(at(0, 4, 44, 4)), OUTS(at(0, 10, 100, 4)));
    lam_model *m = net_done(&n);
    assert_int_equal(lam_model_source(m, made, 0), LAM_SOURCE_NONE);
    assert_int_equal(lam_model_source(m, first, 0), made);
    assert_int_equal(lam_model_source(m, second, 0), made); /* not the other view */
    assert_int_equal(lam_model_source(m, both, 0), first);
    assert_int_equal(lam_model_source(m, both, 1), second);
    assert_int_equal(lam_model_source(m, kept, 0), made);
    assert_int_equal(lam_model_source(m, part, 0), first); /* contiguous gave back what was there */
    assert_int_equal(lam_model_source(m, used, 0), part);
    assert_int_equal(lam_model_source(m, given, 0), used);
    assert_int_equal(lam_model_source(m, given, 1), part);
    assert_int_equal(lam_model_source(m, last, 0), given);
    assert_int_equal(lam_model_op(m, first)->sig->out[0].shares, 0);
    assert_int_equal(lam_model_op(m, given)->sig->out[0].shares, 1);
    assert_int_equal(lam_model_op(m, made)->sig->out[0].shares, -1);
    assert_int_equal(lam_model_source(m, both, 2), LAM_SOURCE_NONE);
    assert_int_equal(lam_model_source(m, both, -1), LAM_SOURCE_NONE);
    assert_int_equal(lam_model_source(m, 99, 0), LAM_SOURCE_NONE);
    lam_model_free(m);
}

/* What gives its own argument back and wrote nothing to it is nobody's source; torch's in place, one by
 * somebody else and one that was handed its result wrote to it. */
static void given_back_or_written(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int wrote, given; /* which of its arguments it gives back */
    } ops[] = {{"aten::dropout", 0, 0},  {"aten::contiguous", 0, 0}, {"aten::dropout_", 1, 0},
               {"aten::__iadd__", 1, 0}, {"my::dropout", 1, 0},      {"aten::exp", 1, 1}};
    net n = net_new();
    int32_t made = RUN(&n, "aten::relu", OUTSIDE, INS(at(0, 2, 20, 8)), OUTS(at(0, 4, 40, 8))), used[6],
            by[6];
    for (int i = 0; i < 6; i++) {
        lam_op_arg first = ops[i].given ? at(0, 8, 80, 8) : at(0, 4, 40, 8);
        by[i] = RUN(&n, ops[i].name, OUTSIDE, INS(first, at(1, 4, 40, 8)), OUTS(at(0, 4, 40, 8)));
        used[i] = RUN(&n, "aten::neg", OUTSIDE, INS(at(0, 4, 40, 8)), OUTS(at(0, 6, 60, 8)));
    }
    lam_model *m = net_done(&n);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(lam_model_source(m, used[i], 0), ops[i].wrote ? by[i] : made);
        if (ops[i].wrote) made = by[i];
    }
    lam_model_free(m);
}

/* Inside each other: what is inside sees what was before; what comes after sees the outermost. */
static void nesting(void **state) {
    (void)state;
    net n = net_new();
    int32_t x = RUN(&n, "aten::relu", OUTSIDE, INS(at(0, 2, 20, 8)), OUTS(at(0, 4, 40, 8)));
    int32_t outer = RUN(&n, "aten::relu_", OUTSIDE, INS(at(0, 4, 40, 8)), OUTS(at(0, 4, 40, 8)));
    int32_t inner = RUN(&n, "aten::clamp_", ((op_at){-1, outer, LAM_FORWARD, 0}), INS(at(0, 4, 40, 8)),
                        OUTS(at(0, 4, 40, 8)));
    int32_t beside = RUN(&n, "aten::neg", ((op_at){-1, outer, LAM_FORWARD, 0}), INS(at(0, 4, 40, 8)),
                         OUTS(at(0, 6, 60, 8)));
    int32_t after = RUN(&n, "aten::neg", OUTSIDE, INS(at(0, 4, 40, 8)), OUTS(at(0, 8, 80, 8)));
    int32_t raised =
        RUN_ONLY(&n, "aten::mul_", ((op_at){-1, -1, LAM_FORWARD, LAM_OP_FAILED}), INS(at(0, 8, 80, 8)));
    int32_t sure = RUN(&n, "aten::neg", OUTSIDE, INS(at(0, 8, 80, 8)), OUTS(at(0, 10, 100, 8)));
    int32_t silent = RUN_ONLY(&n, "aten::_foreach_add_", OUTSIDE,
                              INS(at(0, 8, 80, 8), at(0, 10, 100, 8), at(1, 4, 40, 8)));
    int32_t end = RUN(&n, "aten::cat", OUTSIDE, INS(at(0, 8, 80, 8), at(0, 10, 100, 8), at(0, 4, 40, 8)),
                      OUTS(at(0, 12, 120, 24)));
    lam_model *m = net_done(&n);
    assert_int_equal(lam_model_source(m, outer, 0), x);
    assert_int_equal(lam_model_source(m, inner, 0), x);
    assert_int_equal(lam_model_source(m, beside, 0), inner);
    assert_int_equal(lam_model_source(m, after, 0), outer);
    assert_int_equal(lam_model_source(m, raised, 0), after);
    assert_int_equal(lam_model_source(m, sure, 0), after);
    assert_int_equal(lam_model_source(m, silent, 1), sure);
    assert_int_equal(lam_model_source(m, end, 0), silent);
    assert_int_equal(lam_model_source(m, end, 1), silent);
    assert_int_equal(lam_model_source(m, end, 2), outer);
    lam_model_free(m);
}

/* An address that comes back: as another result, as a tensor that nobody made, as an autograd's copy. */
static void addresses_come_back(void **state) {
    (void)state;
    net n = net_new();
    RUN(&n, "aten::relu", OUTSIDE, INS(at(0, 2, 20, 8)), OUTS(at(0, 4, 40, 8)));
    int32_t again = RUN(&n, "aten::exp", OUTSIDE, INS(at(0, 2, 20, 8)), OUTS(at(0, 4, 40, 8)));
    int32_t used = RUN(&n, "aten::neg", OUTSIDE, INS(at(0, 4, 40, 8)), OUTS(at(0, 6, 60, 8)));
    int32_t other = RUN(&n, "aten::neg", OUTSIDE, INS(at(0, 4, 46, 8)), OUTS(at(0, 6, 60, 8)));
    int32_t size = RUN(&n, "aten::neg", OUTSIDE, INS(at(0, 4, 40, 9)), OUTS(at(0, 6, 60, 9)));
    lam_op_arg ints = at(0, 4, 40, 8);
    ints.dtype = 4;
    int32_t type = RUN(&n, "aten::neg", OUTSIDE, INS(ints), OUTS(at(0, 6, 60, 8)));
    const op_at backward = {-1, -1, LAM_BACKWARD, 0};
    int32_t saved = RUN(&n, "aten::neg", backward, INS(at(0, 4, 48, 8)), OUTS(at(0, 6, 60, 8)));
    int32_t larger = RUN(&n, "aten::neg", backward, INS(at(0, 4, 48, 800)), OUTS(at(0, 6, 60, 800)));
    int32_t lift = RUN(&n, "aten::lift_fresh", OUTSIDE, INS(at(0, 4, 40, 8)), OUTS(at(0, 4, 40, 8)));
    int32_t lifted = RUN(&n, "aten::neg", OUTSIDE, INS(at(0, 4, 40, 8)), OUTS(at(0, 6, 60, 8)));
    lam_model *m = net_done(&n);
    assert_int_equal(lam_model_source(m, used, 0), again);
    assert_int_equal(lam_model_source(m, other, 0), LAM_SOURCE_NONE);
    assert_int_equal(lam_model_source(m, size, 0), LAM_SOURCE_NONE);
    assert_int_equal(lam_model_source(m, type, 0), LAM_SOURCE_NONE);
    assert_int_equal(lam_model_source(m, saved, 0), again);
    assert_int_equal(lam_model_source(m, larger, 0), LAM_SOURCE_NONE);
    assert_int_equal(lam_model_source(m, lift, 0), LAM_SOURCE_NONE);
    assert_int_equal(lam_model_source(m, lifted, 0), lift);
    lam_model_free(m);
}

/* A source that tells memory only: views write too. */
static void memory_alone(void **state) {
    (void)state;
    net n = net_new();
    int32_t a = RUN(&n, "aten::relu", OUTSIDE, INS(at(0, 0, 0, 8)), OUTS(at(0, 4, 0, 8)));
    int32_t b = RUN(&n, "aten::view", OUTSIDE, INS(at(0, 4, 0, 8)), OUTS(at(0, 4, 0, 8)));
    int32_t c = RUN(&n, "aten::neg", OUTSIDE, INS(at(0, 4, 0, 8)), OUTS(at(0, 6, 60, 8)));
    int32_t d = RUN(&n, "aten::view", OUTSIDE, INS(at(0, 6, 60, 8)), OUTS(at(0, 6, 0, 8)));
    int32_t e = RUN(&n, "aten::neg", OUTSIDE, INS(at(0, 6, 60, 8)), OUTS(at(0, 0, 0, 8)));
    lam_model *m = net_done(&n);
    assert_int_equal(lam_model_source(m, a, 0), LAM_SOURCE_NONE);
    assert_int_equal(lam_model_source(m, b, 0), a);
    assert_int_equal(lam_model_source(m, c, 0), b);
    assert_int_equal(lam_model_source(m, d, 0), c);
    assert_int_equal(lam_model_source(m, e, 0), d); /* it may have been written through the view */
    lam_model_free(m);
}

/* Net(fc: Linear): calls root and fc, twice, with times; x has memory 2, the weight 4. */
static void calls_and_tensors(void **state) {
    (void)state;
    net n = net_new();
    const int64_t sizes[] = {8};
    int32_t root = net_module(&n, "Net", 0), fc = net_leaf(&n, "Linear"), p = net_place(&n, -1, "", root);
    net_place(&n, p, "fc", fc);
    lam_tensor_info w = {.dtype = NET_FLOAT32, .ndim = 1, .sizes = sizes, .bytes = -1, .storage = 4};
    int32_t weight, bias;
    NET_OK(&n, lam_build_tensor(n.b, &w, &weight, &n.e));
    w.object = 46; /* another tensor in the same memory */
    NET_OK(&n, lam_build_tensor(n.b, &w, &bias, &n.e));
    int32_t calls[4];
    for (int i = 0; i < 2; i++) {
        lam_arg x[] = {{NULL, 0, NET_FLOAT32, 0, 1, sizes, 99, 2, 0},
                       {NULL, 1, NET_FLOAT32, 0, 1, sizes, 6, 0, 0}};
        lam_arg mid = {NULL, 0, NET_FLOAT32, 0, 1, sizes, 10, 0, 0},
                y = {NULL, 0, NET_FLOAT32, 0, 1, sizes, 12, 0, 0};
        lam_call_info outer = {.module = root,
                               .parent = -1,
                               .t0_ns = 100 + 50 * i,
                               .t1_ns = 140 + 50 * i,
                               .n_in = 2,
                               .n_out = 1,
                               .in = x,
                               .out = &y};
        NET_OK(&n, lam_build_call(n.b, &outer, &calls[2 * i], &n.e));
        lam_call_info inner = {.module = fc,
                               .parent = calls[2 * i],
                               .t0_ns = 102 + 50 * i,
                               .t1_ns = 120 + 50 * i,
                               .n_in = 1,
                               .n_out = 1,
                               .in = x,
                               .out = &mid};
        NET_OK(&n, lam_build_call(n.b, &inner, &calls[2 * i + 1], &n.e));
    }
    int32_t mm[2], add[2], before;
    clock_ns = 90;
    before = RUN(&n, "aten::mul", OUTSIDE, INS(at(0, 2, 0, 8)), OUTS(at(0, 6, 0, 8)));
    for (int i = 0; i < 2; i++) {
        clock_ns = 110 + 50 * i;
        mm[i] = RUN(&n, "aten::mm", ((op_at){calls[2 * i + 1], -1, LAM_FORWARD, 0}),
                    INS(at(0, 2, 0, 8), at(1, 4, 0, 8), at(2, 4, 46, 8)), OUTS(at(0, 10, 0, 8)));
        clock_ns = 130 + 50 * i;
        add[i] = RUN(&n, "aten::add_", ((op_at){calls[2 * i], -1, LAM_FORWARD, 0}),
                     INS(at(0, 10, 0, 8), at(1, 6, 0, 8)), OUTS(at(0, 10, 0, 8)));
        RUN(&n, "aten::neg", ((op_at){calls[2 * i], -1, LAM_FORWARD, 0}), INS(at(0, 10, 0, 8)),
            OUTS(at(0, 12, 0, 8)));
    }
    clock_ns = 200;
    int32_t late = RUN(&n, "aten::neg", OUTSIDE, INS(at(0, 2, 0, 8)), OUTS(at(0, 12, 0, 8)));
    lam_model *m = net_done(&n);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(lam_model_source_input(m, mm[i], 0), 0);
        assert_int_equal(lam_model_source_tensor(m, mm[i], 0), LAM_SOURCE_NONE);
        assert_int_equal(lam_model_source_tensor(m, mm[i], 1), weight);
        assert_int_equal(lam_model_source_tensor(m, mm[i], 2), bias);
        assert_int_equal(lam_model_source_input(m, mm[i], 1), LAM_SOURCE_NONE);
        assert_int_equal(lam_model_source_input(m, add[i], 1), 1);
        assert_int_equal(lam_model_source(m, add[i], 1), before);
        assert_int_equal(lam_model_source(m, add[i], 0), mm[i]);
        assert_int_equal(lam_model_call_output_source(m, calls[2 * i + 1], 0), mm[i]); /* not add_, later */
        assert_int_equal(lam_model_call_output_source(m, calls[2 * i], 0), add[i] + 1);
    }
    assert_int_equal(lam_model_source_input(m, late, 0), LAM_SOURCE_NONE); /* it is in no call */
    assert_int_equal(lam_model_call_output_source(m, calls[0], 1), LAM_SOURCE_NONE);
    assert_int_equal(lam_model_call_output_source(m, 77, 0), LAM_SOURCE_NONE);
    lam_model_free(m);
}

/* Without times, as in a dry run, a call is over when something runs outside of it: who has its result's
 * address later did not give it. One that ran nothing handed on what was there. */
static void calls_without_times(void **state) {
    (void)state;
    net n = net_new();
    const int64_t sizes[] = {8};
    int32_t root = net_module(&n, "Net", 0), fc = net_leaf(&n, "Linear"), p = net_place(&n, -1, "", root);
    net_place(&n, p, "fc", fc);
    lam_arg out = {NULL, 0, NET_FLOAT32, 0, 1, sizes, 10, 0, 100};
    lam_call_info info = {.module = root, .parent = -1, .n_out = 1, .out = &out};
    int32_t calls[6], ops[6];
    NET_OK(&n, lam_build_call(n.b, &info, &calls[0], &n.e));
    for (int i = 1; i < 6; i++) { /* of which the third lies inside the second */
        info.module = fc;
        info.parent = calls[i == 3 ? 2 : 0];
        NET_OK(&n, lam_build_call(n.b, &info, &calls[i], &n.e));
    }
    static const int caller[] = {1, 3, 2, 5, 0, 0}; /* the fourth runs nothing */
    clock_ns = 0;
    for (int i = 0; i < 6; i++)
        ops[i] = RUN(&n, "aten::neg", ((op_at){calls[caller[i]], -1, LAM_FORWARD, 0}), INS(at(0, 2, 20, 8)),
                     OUTS(at(0, 10, 100, 8)));
    RUN(&n, "aten::neg", ((op_at){calls[1], -1, LAM_BACKWARD, 0}), INS(at(0, 2, 20, 8)),
        OUTS(at(0, 10, 100, 8)));
    lam_model *m = net_done(&n);
    assert_int_equal(lam_model_call_output_source(m, calls[1], 0), ops[0]);
    assert_int_equal(lam_model_call_output_source(m, calls[3], 0), ops[1]);
    assert_int_equal(lam_model_call_output_source(m, calls[2], 0), ops[2]);
    assert_int_equal(lam_model_call_output_source(m, calls[4], 0), ops[2]);
    assert_int_equal(lam_model_call_output_source(m, calls[5], 0), ops[3]);
    assert_int_equal(lam_model_call_output_source(m, calls[0], 0), ops[5]);
    lam_model_free(m);
}

/* -- signatures -------------------------------------------------------------------------------- */

static void signatures_are_shared(void **state) {
    (void)state;
    enum { TIMES = 600 };
    net n = net_new();
    for (int32_t i = 0; i < TIMES; i++) {
        const int64_t ints[] = {1, i % 3};
        const lam_op_arg value[] = {
            T(0, 2, 3),
            {.position = 1, .value = {.type = LAM_INTS, .n = 2, .ints = ints}},
            {.position = 2, .value = {.type = LAM_FLOAT, .f = i % 2 ? 0.0 : -0.0}},
            {.position = 3, .value = {.type = LAM_TEXT, .text = i % 2 ? "tanh" : "none"}},
        };
        net_op_args(&n, "my::op", (op_at){-1, -1, LAM_FORWARD, 0}, value, 4, NULL, 0);
    }
    lam_model *m = net_done(&n);
    assert_int_equal(lam_model_n_ops(m), TIMES);
    assert_int_equal(lam_model_n_op_sigs(m), 6);
    for (int32_t i = 6; i < TIMES; i++) {
        const lam_op_sig *s = lam_model_op(m, i)->sig;
        assert_ptr_equal(s, lam_model_op(m, i - 6)->sig);
        assert_in_range(s->index, 0, 5);
        assert_int_equal(s->in[1].value.ints[1], i % 3);
        assert_string_equal(s->in[3].value.text, i % 2 ? "tanh" : "none");
    }
    lam_model_free(m);
}

/* What a source says to be like another is not looked for; memory that is shared otherwise makes it another.
 */
static void like_another(void **state) {
    (void)state;
    net n = net_new();
    lam_op_arg in = at(0, 2, 20, 8), out = at(0, 4, 40, 8);
    lam_op_info o = {
        .name = "aten::relu", .call = -1, .parent = -1, .n_in = 1, .n_out = 1, .in = &in, .out = &out};
    int32_t first, second, third;
    NET_OK(&n, lam_build_op(n.b, &o, &first, &n.e));
    o.like = first + 1;
    in = at(0, 4, 40, 8);
    out = at(0, 6, 60, 8);
    NET_OK(&n, lam_build_op(n.b, &o, &second, &n.e));
    in = at(0, 6, 60, 8);
    out = at(0, 6, 62, 8);
    NET_OK(&n, lam_build_op(n.b, &o, &third, &n.e));
    lam_error e = {0};
    o.like = 4;
    assert_int_equal(lam_build_op(n.b, &o, NULL, &e), LAM_RANGE);
    o.like = 1;
    o.n_in = 0;
    assert_int_equal(lam_build_op(n.b, &o, NULL, NULL), LAM_RANGE);
    lam_model *m = net_done(&n);
    assert_ptr_equal(lam_model_op(m, second)->sig, lam_model_op(m, first)->sig);
    assert_ptr_not_equal(lam_model_op(m, third)->sig, lam_model_op(m, first)->sig);
    assert_int_equal(lam_model_op(m, third)->sig->out[0].shares, 0);
    assert_int_equal(lam_model_source(m, second, 0), first);
    assert_int_equal(lam_model_source(m, third, 0), second);
    lam_model_free(m);
}

static lam_status push_like(net *n, int32_t like, const lam_identity *tensors, int32_t n_tensors,
                            int32_t *op) {
    lam_op_info o = {.name = "aten::relu",
                     .call = -1,
                     .parent = -1,
                     .like = like,
                     .n_tensors = n_tensors,
                     .tensors = tensors};
    return lam_build_op(n->b, &o, op, &n->e);
}

/* The identities of its tensors are enough to say of one that is like another: the same comes of it as of all
 * its arguments. */
static void like_another_by_identities(void **state) {
    (void)state;
    net n = net_new();
    lam_op_arg in[3] = {at(0, 2, 20, 8),
                        {.position = 1, .value = {.type = LAM_INT, .i = 5}},
                        at(2, 3, 30, 8)};
    lam_op_arg out[2] = {at(0, 4, 40, 8), {.position = 1, .value = {.type = LAM_BOOL, .i = 1}}};
    lam_op_info o = {
        .name = "aten::relu", .call = -1, .parent = -1, .n_in = 3, .n_out = 2, .in = in, .out = out};
    const lam_identity second[] = {{4, 40}, {3, 30}, {6, 60}}, third[] = {{6, 60}, {3, 30}, {6, 62}},
                       fourth[] = {{6, 62}, {3, 30}, {6, 64}}, fifth[] = {{1, 10}, {6, 60}, {6, 66}};
    int32_t ops[5];
    NET_OK(&n, lam_build_op(n.b, &o, &ops[0], &n.e));
    NET_OK(&n, push_like(&n, ops[0] + 1, second, 3, &ops[1]));
    NET_OK(&n, push_like(&n, ops[1] + 1, third, 3, &ops[2])); /* its result lies in its first argument */
    NET_OK(&n, push_like(&n, ops[2] + 1, fourth, 3, &ops[3]));
    NET_OK(&n, push_like(&n, ops[0] + 1, fifth, 3, &ops[4])); /* in its third one */
    assert_int_equal(push_like(&n, 9, second, 3, NULL), LAM_RANGE);
    assert_int_equal(push_like(&n, 1, second, 2, NULL), LAM_RANGE);
    assert_int_equal(push_like(&n, 0, second, 3, NULL), LAM_USAGE);
    const lam_identity far[] = {{4, 40}, {UINT64_C(1) << 50, 30}, {6, 60}};
    assert_int_equal(push_like(&n, 1, far, 3, NULL), LAM_RANGE);
    lam_model *m = net_done(&n);
    assert_int_equal(lam_model_n_ops(m), 5);
    const lam_op_sig *sig = lam_model_op(m, ops[0])->sig, *inside = lam_model_op(m, ops[2])->sig,
                     *third_one = lam_model_op(m, ops[4])->sig;
    assert_int_equal(sig->n_tensors, 3);
    assert_ptr_equal(lam_model_op(m, ops[1])->sig, sig);
    assert_ptr_not_equal(inside, sig);
    assert_ptr_equal(lam_model_op(m, ops[3])->sig, inside);
    assert_int_equal(sig->out[0].shares, -1);
    assert_int_equal(inside->out[0].shares, 0);
    assert_int_equal(inside->in[1].value.i, 5);
    assert_int_equal(inside->out[1].shares, -1);
    assert_int_equal(third_one->out[0].shares, 2);
    assert_int_equal(lam_model_source(m, ops[1], 0), ops[0]);
    assert_int_equal(lam_model_source(m, ops[2], 0), ops[1]);
    assert_int_equal(lam_model_source(m, ops[3], 0), ops[2]);
    assert_int_equal(lam_model_source(m, ops[4], 2), ops[1]); /* views of it write nothing */
    lam_model_free(m);
}

/* What is said to be like another has tensors where that one has them: edges are kept by their number. */
static void not_like_another(void **state) {
    (void)state;
    net n = net_new();
    lam_op_arg in[2] = {at(0, 2, 20, 8), at(1, 3, 30, 8)}, out = at(0, 4, 40, 8);
    const lam_op_arg good[2] = {in[0], in[1]}, number = {.position = 1, .value = {.type = LAM_INT, .i = 5}};
    lam_op_info o = {
        .name = "aten::relu", .call = -1, .parent = -1, .n_in = 2, .n_out = 1, .in = in, .out = &out};
    NET_OK(&n, lam_build_op(n.b, &o, NULL, &n.e));
    o.like = 1;
    in[1] = number;
    assert_int_equal(lam_build_op(n.b, &o, NULL, &n.e), LAM_RANGE);
    in[1] = good[1];
    out = number;
    assert_int_equal(lam_build_op(n.b, &o, NULL, &n.e), LAM_RANGE);
    out = at(0, 4, 40, 8);
    o.in = NULL;
    assert_int_equal(lam_build_op(n.b, &o, NULL, &n.e), LAM_USAGE);
    o.in = in;
    o.out = NULL;
    assert_int_equal(lam_build_op(n.b, &o, NULL, &n.e), LAM_USAGE);
    o.out = &out;
    o.like = INT32_MIN;
    assert_int_equal(lam_build_op(n.b, &o, NULL, &n.e), LAM_RANGE);
    lam_model *m = net_done(&n);
    assert_int_equal(lam_model_n_ops(m), 1);
    assert_int_equal(lam_model_find_sources(m, NULL), LAM_OK);
    lam_model_free(m);
}

/* Lists as an optimizer has them, of which pairs are not compared one by one. */
static void long_lists_by_identities(void **state) {
    (void)state;
    enum { LONG = 100 };
    net n = net_new();
    lam_op_arg in[LONG], out[LONG];
    lam_identity same[2 * LONG], other[2 * LONG];
    for (int32_t i = 0; i < LONG; i++) {
        in[i] = at(0, 1000 + (uint64_t)i, 5000 + (uint64_t)i, 8);
        out[i] = at(0, i % 2 ? in[i].storage : 2000 + (uint64_t)i, 6000 + (uint64_t)i, 8);
        same[i] = (lam_identity){3000 + (uint64_t)i, 7000 + (uint64_t)i};
        same[LONG + i] = (lam_identity){i % 2 ? same[i].storage : 4000 + (uint64_t)i, 8000 + (uint64_t)i};
    }
    memcpy(other, same, sizeof other);
    other[2 * LONG - 1].storage = 9999;
    lam_op_info o = {
        .name = "aten::relu", .call = -1, .parent = -1, .n_in = LONG, .n_out = LONG, .in = in, .out = out};
    NET_OK(&n, lam_build_op(n.b, &o, NULL, &n.e));
    NET_OK(&n, push_like(&n, 1, same, 2 * LONG, NULL));
    NET_OK(&n, push_like(&n, 1, other, 2 * LONG, NULL));
    lam_model *m = net_done(&n);
    const lam_op_sig *sig = lam_model_op(m, 0)->sig, *last = lam_model_op(m, 2)->sig;
    assert_ptr_equal(lam_model_op(m, 1)->sig, sig);
    assert_ptr_not_equal(last, sig);
    for (int32_t i = 0; i < LONG; i++) {
        assert_int_equal(sig->out[i].shares, i % 2 ? i : -1);
        assert_int_equal(last->out[i].shares, i % 2 && i < LONG - 1 ? i : -1);
    }
    lam_model_free(m);
}

/* Each difference makes another signature. */
static void signatures_differ(void **state) {
    (void)state;
    net n = net_new();
    static const int64_t turned[] = {3, 2};
    lam_op_arg base[2] = {T(0, 2, 3), {.position = 1, .value = {.type = LAM_INT, .i = 5}}}, in[2];
    int32_t made = 0;
    for (int how = 0; how < 12; how++) {
        memcpy(in, base, sizeof in);
        switch (how) {
        case 1: in[0].dtype = 5; break;
        case 2: in[0].device = 1; break;
        case 3: in[0].sizes = turned; break;
        case 4: in[0] = T_UNSEEN(0); break;
        case 5: in[0].position = 2; break;
        case 6: in[1].value.i = 6; break;
        case 7: in[1].value.type = LAM_BOOL; break;
        case 8: in[1].value.type = LAM_NONE; break;
        case 9: in[0] = in[1]; break;
        default: break; /* 10: one argument fewer; 11: the first again */
        }
        net_op_args(&n, "my::op", (op_at){-1, -1, LAM_FORWARD, 0}, in, how == 10 ? 1 : 2, NULL, 0);
        made += how != 11;
    }
    lam_model *m = net_done(&n);
    assert_int_equal(lam_model_n_op_sigs(m), made);
    lam_model_free(m);
}

/* Long lists on both sides. */
static void long_lists(void **state) {
    (void)state;
    enum { LONG = 200 };
    static lam_op_arg in[LONG], out[LONG];
    net n = net_new();
    for (int32_t i = 0; i < LONG; i++) {
        in[i] = at(0, 2 + 2 * (uint64_t)i, 0, 4);
        out[i] = at(0, 2 + 2 * (uint64_t)(i + 7), 0, 4);
    }
    int32_t op = run(&n, "my::op_list", OUTSIDE, in, LONG, out, LONG);
    int32_t next = RUN_ONLY(&n, "aten::neg", OUTSIDE, INS(at(0, 2 + 2 * 7, 0, 4)));
    lam_model *m = net_done(&n);
    const lam_op_sig *s = lam_model_op(m, op)->sig;
    assert_int_equal(s->out[0].shares, 7);
    assert_int_equal(s->out[LONG - 8].shares, LONG - 1);
    assert_int_equal(s->out[LONG - 7].shares, -1);
    assert_int_equal(lam_model_source(m, next, 0), op);
    lam_model_free(m);
}

/* -- memory ------------------------------------------------------------------------------------ */

static void push_chain(void *arg, bool *ok) {
    (void)arg;
    const int64_t sizes[] = {8};
    lam_builder *b;
    lam_model *m = NULL;
    lam_error e = {0};
    lam_status s = lam_builder_new(&b, 0, &e);
    lam_module_info module = {.type = "Net", .type_path = "Net", .word = -1};
    lam_tensor_info w = {.dtype = 6, .ndim = 1, .sizes = sizes, .bytes = -1, .storage = 4, .object = 6};
    lam_arg x = {NULL, 0, 6, 0, 1, sizes, 0, 2, 0};
    lam_call_info call = {.parent = -1, .n_in = 1, .n_out = 1, .in = &x, .out = &x};
    if (s == LAM_OK) s = lam_build_module(b, &module, NULL, &e);
    if (s == LAM_OK) s = lam_build_place(b, -1, "", 0, NULL, &e);
    if (s == LAM_OK) s = lam_build_tensor(b, &w, NULL, &e);
    if (s == LAM_OK) s = lam_build_call(b, &call, NULL, &e);
    for (uint64_t i = 0; s == LAM_OK && i < 400; i++) {
        const lam_op_arg in[] = {at(0, 2 * i + 10, 0, 8)}, out[] = {at(0, 2 * i + 12, 2 * i + 1000, 8)};
        lam_op_info o = {.name = "aten::relu",
                         .call = 0,
                         .parent = (int32_t)i - 1,
                         .n_in = 1,
                         .n_out = 1,
                         .in = in,
                         .out = out};
        if (i % 20 == 0) o.parent = -1;
        s = lam_build_op(b, &o, NULL, &e);
    }
    const lam_identity in_place[] = {{4000, 0}, {4000, 4002}};
    const lam_op_info like = {
        .name = "aten::relu", .parent = -1, .like = 1, .n_tensors = 2, .tensors = in_place};
    if (s == LAM_OK) s = lam_build_op(b, &like, NULL, &e);
    if (s == LAM_OK)
        s = lam_builder_finish(b, &m, &e);
    else
        lam_builder_free(b);
    if (s == LAM_OK && (s = lam_model_find_sources(m, &e)) != LAM_OK) {
        assert_int_equal(e.status, LAM_NOMEM);
        oom_disarm();
        assert_int_equal(lam_model_source(m, 20, 0), 19); /* it is tried again */
    }
    *ok = s == LAM_OK;
    assert_int_equal(s == LAM_OK ? LAM_OK : LAM_NOMEM, s);
    if (s == LAM_OK) assert_int_equal(lam_model_source(m, 20, 0), 19);
    lam_model_free(m);
}

static void out_of_memory(void **state) {
    (void)state;
    oom_sweep(push_chain, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_and_writes),
        cmocka_unit_test(views_that_were_made_before),
        cmocka_unit_test(given_back_or_written),
        cmocka_unit_test(nesting),
        cmocka_unit_test(addresses_come_back),
        cmocka_unit_test(memory_alone),
        cmocka_unit_test(calls_and_tensors),
        cmocka_unit_test(calls_without_times),
        cmocka_unit_test(signatures_are_shared),
        cmocka_unit_test(signatures_differ),
        cmocka_unit_test(like_another),
        cmocka_unit_test(like_another_by_identities),
        cmocka_unit_test(not_like_another),
        cmocka_unit_test(long_lists_by_identities),
        cmocka_unit_test(long_lists),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
