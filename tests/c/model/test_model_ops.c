/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators pushed and read: what is kept, what is refused, how much it takes, and every allocation failing
 * in turn. */
#include "kit/oom.h"

#include "kit/ops_net.h"

#include <stdio.h>
#include <time.h>

static void read_back(void **state) {
    (void)state;
    const int64_t pads[] = {1, 2};
    char name[] = "aten::mm";
    net n = net_new();
    net_calls c = net_plain(&n);
    lam_op_arg in[] =
        {T(0, 2, 3),
         T(1, 3, 4),
         {.position = 2, .value = {.type = LAM_INTS, .n = 2, .ints = pads}, .ndim = 7, .dtype = 3},
         {.position = 3, .value = {.type = LAM_FLOAT, .f = 0.5}},
         {.position = 4},
         T_UNSEEN(5)},
               out[] = {T(0, 2, 4)};
    in[1].storage = 77;
    in[0].value.type = LAM_BOOL; /* of no meaning for a tensor */
    lam_op_info o = {.name = name,
                     .call = c.fc,
                     .parent = -1,
                     .phase = LAM_RECOMPUTE,
                     .flags = LAM_OP_NODE,
                     .t0_ns = 5,
                     .t1_ns = 9,
                     .n_in = 6,
                     .n_out = 1,
                     .in = in,
                     .out = out};
    int32_t first = -1;
    NET_OK(&n, lam_build_op(n.b, &o, &first, &n.e));
    name[0] = 'b'; /* what was pushed is a copy, and this is another name */
    o.parent = first;
    NET_OK(&n, lam_build_op(n.b, &o, NULL, &n.e));
    o.name = "aten::mm";
    o.call = -1;
    o.flags = 0;
    NET_OK(&n, lam_build_op(n.b, &o, NULL, &n.e));
    lam_model *m = net_done(&n);
    assert_true(lam_model_ops_seen(m));
    assert_int_equal(lam_model_n_ops(m), 3);
    assert_null(lam_model_op(m, -1));
    assert_null(lam_model_op(m, 3));
    const lam_op *a = lam_model_op(m, 0), *b = lam_model_op(m, 1), *d = lam_model_op(m, 2);
    assert_string_equal(a->sig->name, "aten::mm");
    assert_int_equal(a->sig->word, lam_word_op("aten::mm"));
    assert_true(a->sig->word >= 0);
    assert_string_equal(b->sig->name, "bten::mm");
    assert_int_equal(b->sig->word, -1);
    assert_ptr_equal(a->sig->name, d->sig->name);
    assert_int_equal(a->call, c.fc);
    assert_int_equal(d->call, -1);
    assert_int_equal(a->parent, -1);
    assert_int_equal(b->parent, 0);
    assert_int_equal(a->n_children, 2);
    assert_int_equal(b->n_children, 0);
    assert_int_equal(a->phase, LAM_RECOMPUTE);
    assert_int_equal(a->flags, LAM_OP_NODE);
    assert_int_equal(a->t0_ns, 5);
    assert_int_equal(a->t1_ns, 9);
    assert_int_equal(a->sig->n_in, 6);
    for (int32_t i = 0, tensors = 0; i < a->sig->n_in; tensors += a->sig->in[i++].is_tensor)
        assert_int_equal(a->sig->in[i].before, tensors);
    assert_true(a->sig->in[5].before > 0);
    assert_int_equal(a->sig->in[0].value.type, LAM_NONE);
    assert_int_equal(a->sig->in[1].sizes[1], 4);
    assert_int_equal(a->sig->in[1].storage, 0); /* told by lam_model_source and its like */
    assert_int_equal(a->sig->in[2].value.n, 2);
    assert_int_equal(a->sig->in[2].value.ints[1], 2);
    assert_ptr_not_equal(a->sig->in[2].value.ints, pads);
    assert_int_equal(a->sig->in[2].ndim, -1);
    assert_int_equal(a->sig->in[2].dtype, -1);
    assert_true(a->sig->in[3].value.f == 0.5);
    assert_int_equal(a->sig->in[4].value.type, LAM_NONE);
    assert_int_equal(a->sig->in[5].ndim, -1);
    assert_int_equal(a->sig->n_out, 1);
    assert_int_equal(a->sig->out[0].sizes[1], 4);
    assert_ptr_equal(a->sig->out[0].sizes, d->sig->out[0].sizes); /* equal shapes are one copy */
    lam_model_free(m);
}

static void seen_or_not(void **state) {
    (void)state;
    for (int seen = 0; seen < 2; seen++) {
        net n = net_new();
        net_plain(&n);
        if (seen) NET_OK(&n, lam_build_ops_seen(n.b, &n.e));
        lam_model *m = net_done(&n);
        assert_int_equal(lam_model_ops_seen(m), seen);
        assert_int_equal(lam_model_n_ops(m), 0);
        assert_null(lam_model_op(m, 0));
        lam_model_free(m);
    }
    lam_error e = {0};
    assert_int_equal(lam_build_ops_seen(NULL, &e), LAM_USAGE);
}

/* Nodes do not tell that operators were watched: what these cost stays unknown. */
static void nodes_alone(void **state) {
    (void)state;
    for (int seen = 0; seen < 2; seen++) {
        net n = net_new();
        net_calls c = net_plain(&n);
        lam_op_info o = {.name = "AddmmBackward0",
                         .call = c.fc,
                         .parent = -1,
                         .flags = LAM_OP_NODE,
                         .thread = 70000,
                         .pass = 3};
        if (seen) {
            NET_OK(&n, lam_build_op(n.b, &o, NULL, &n.e));
            NET_OK(&n, lam_build_nodes_seen(n.b, &n.e));
            NET_OK(&n, lam_build_timed(n.b, &n.e));
        }
        lam_model *m = net_done(&n);
        assert_false(lam_model_ops_seen(m));
        assert_int_equal(lam_model_nodes_seen(m), seen);
        assert_int_equal(lam_model_timed(m), seen);
        if (seen) assert_int_equal(lam_model_op(m, 0)->thread, UINT16_MAX);
        if (seen) assert_int_equal(lam_model_op(m, 0)->pass, 3);
        lam_model_free(m);
    }
    lam_error e = {0};
    assert_int_equal(lam_build_nodes_seen(NULL, &e), LAM_USAGE);
    e = (lam_error){0};
    assert_int_equal(lam_build_timed(NULL, &e), LAM_USAGE);
}

/* -- what is refused --------------------------------------------------------------------------- */

static void refused(net *n, const lam_op_info *o, lam_status want, const char *part) {
    lam_error e = {0};
    int32_t index = 41;
    assert_int_equal(lam_build_op(n->b, o, &index, &e), want);
    assert_int_equal(e.status, want);
    assert_int_equal(index, 41);
    if (!strstr(e.text, part)) fail_msg("'%s' lacks '%s'", e.text, part);
}

/* As many elements open as there are, in as few rows. */
static void masks_that_fit(void **state) {
    (void)state;
    net n = net_new();
    lam_op_arg x;
    const lam_op_info o = {.name = "aten::mm", .call = -1, .parent = -1, .n_in = 1, .in = &x};
    const struct {
        lam_op_arg of;
        int64_t open, rows;
    } fit[] = {{T(0, 2, 3), 3, 1}, {T(0, 2, 3), 6, 2}, {T(0, 4), 4, 1}, {{0}, 1, 1}}; /* the last: no axis */
    for (size_t i = 0; i < sizeof fit / sizeof *fit; i++) {
        x = fit[i].of.ndim ? fit[i].of : net_op_tensor(0, NULL, 0);
        x.masks = true;
        x.open = fit[i].open;
        x.open_rows = fit[i].rows;
        NET_OK(&n, lam_build_op(n.b, &o, NULL, &n.e));
    }
    x = T(0, 2); /* ends of groups, of any size */
    x.dtype = NET_INT64;
    x.masks = true;
    x.open = 1000;
    x.open_rows = 2;
    NET_OK(&n, lam_build_op(n.b, &o, NULL, &n.e));
    x.open = x.open_rows = 0;
    NET_OK(&n, lam_build_op(n.b, &o, NULL, &n.e));
    x.ndim = -1;
    NET_OK(&n, lam_build_op(n.b, &o, NULL, &n.e));
    lam_model_free(net_done(&n));
}

static void ends_that_cannot_be(void **state) {
    (void)state;
    net n = net_new();
    lam_op_arg x;
    const lam_op_info o = {.name = "aten::mm", .call = -1, .parent = -1, .n_in = 1, .in = &x};
    static const int64_t no_ends[][2] = {{-1, 0}, {1, -1}, {5, 0}, {1, 2}, {9, 3}};
    for (size_t i = 0; i < sizeof no_ends / sizeof *no_ends; i++) {
        x = T(0, 2);
        x.dtype = 3;
        x.masks = true;
        x.open = no_ends[i][0];
        x.open_rows = no_ends[i][1];
        refused(&n, &o, LAM_RANGE, "a mask of its shape");
    }
    lam_model_free(net_done(&n));
}

static void refusals(void **state) {
    (void)state;
    net n = net_new();
    net_plain(&n);
    const lam_op_info good = {.name = "aten::mm", .call = -1, .parent = -1};
    lam_op_info o = good;
    o.name = NULL;
    refused(&n, &o, LAM_USAGE, "missing");
    o = good;
    o.call = 4;
    refused(&n, &o, LAM_RANGE, "no number 4");
    o.call = -2;
    refused(&n, &o, LAM_RANGE, "no number -2");
    o = good;
    o.parent = 0; /* itself, at best */
    refused(&n, &o, LAM_RANGE, "no number 0");
    o = good;
    o.phase = LAM_N_PHASES;
    refused(&n, &o, LAM_RANGE, "lam_phase");
    o = good;
    o.thread = -1;
    refused(&n, &o, LAM_RANGE, "number -1");
    o = good;
    o.n_in = -1;
    refused(&n, &o, LAM_RANGE, "-1 arguments");
    o = good;
    o.n_out = 1;
    refused(&n, &o, LAM_USAGE, "missing");
    lam_op_arg x = T(-1, 2);
    o = good;
    o.n_in = 1;
    o.in = &x;
    refused(&n, &o, LAM_RANGE, "position -1");
    x = T(0, 2, -3);
    refused(&n, &o, LAM_RANGE, "axis 1");
    x = (lam_op_arg){.ndim = -1, .value.type = (lam_value_type)(LAM_TEXT + 1)};
    refused(&n, &o, LAM_RANGE, "its type 6 is not one of lam_value_type");
    x.value.type = (lam_value_type)-1;
    refused(&n, &o, LAM_RANGE, "its type -1 is not one of lam_value_type");
    static const int64_t too_many[][2] = {{-1, 0}, {1, -1}, {1, 2}, {7, 2}, {4, 1}, {3, 3}, {1, 0}};
    for (size_t i = 0; i < sizeof too_many / sizeof *too_many; i++) {
        x = T(0, 2, 3);
        x.masks = true;
        x.open = too_many[i][0];
        x.open_rows = too_many[i][1];
        refused(&n, &o, LAM_RANGE, "a mask of its shape");
    }
    x = T(0, 2, 0);
    x.masks = true;
    x.open = x.open_rows = 1;
    refused(&n, &o, LAM_RANGE, "1 elements open in 1 rows");
    x = T_UNSEEN(0);
    x.masks = true;
    x.open = 1;
    x.open_rows = 2;
    refused(&n, &o, LAM_RANGE, "1 elements open in 2 rows");
    x = T(0, 2, 3);
    x.masks = x.sparse = true;
    refused(&n, &o, LAM_RANGE, "can't be a mask");
    x = (lam_op_arg){.value = {.type = (lam_value_type)99}};
    refused(&n, &o, LAM_RANGE, "lam_value_type");
    x = (lam_op_arg){.value = {.type = LAM_INTS, .n = 1}};
    refused(&n, &o, LAM_USAGE, "missing");
    o = good;
    o.n_out = 1;
    o.out = &x;
    refused(&n, &o, LAM_USAGE, "missing");
    lam_model *m = net_done(&n);
    assert_int_equal(lam_model_n_ops(m), 0);
    assert_false(lam_model_ops_seen(m)); /* nothing was pushed after all */
    lam_model_free(m);
}

/* Names at one address, one after the other, and one name at many addresses: each is itself, once. */
static void names_are_shared(void **state) {
    (void)state;
    enum { NAMES = 700 };
    static char texts[2][NAMES][24];
    char same_place[24];
    net n = net_new();
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < NAMES; i++) {
            snprintf(texts[round][i], sizeof texts[round][i], "my::op%d", i);
            net_op(&n, texts[round][i], (op_at){-1, -1, LAM_FORWARD, 0});
            memcpy(same_place, texts[round][i], sizeof same_place);
            net_op(&n, same_place, (op_at){-1, -1, LAM_FORWARD, 0});
        }
    lam_model *m = net_done(&n);
    for (int i = 0; i < NAMES; i++) {
        const char *name = lam_model_op(m, 2 * i)->sig->name;
        assert_string_equal(name, texts[0][i]);
        assert_ptr_equal(lam_model_op(m, 2 * i + 1)->sig->name, name);
        assert_ptr_equal(lam_model_op(m, 2 * (NAMES + i))->sig->name, name);
        assert_ptr_equal(lam_model_op(m, 2 * (NAMES + i) + 1)->sig->name, name);
    }
    lam_model_free(m);
}

/* -- room and time ----------------------------------------------------------------------------- */

static void limits(void **state) {
    (void)state;
    lam_builder *b;
    lam_error e = {0};
    assert_int_equal(lam_builder_new(&b, 64 << 10, &e), LAM_OK);
    const lam_op_arg in[] = {T(0, 2, 3), T(1, 3, 4)};
    lam_op_info o = {.name = "aten::mm", .call = -1, .parent = -1, .n_in = 2, .in = in};
    lam_status s = LAM_OK;
    int32_t n = 0;
    for (; s == LAM_OK; n++) s = lam_build_op(b, &o, NULL, &e);
    assert_int_equal(s, LAM_NOMEM);
    assert_in_range(n, 500, 2000);
    lam_builder_free(b);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A chain of 5,000, each inside the one before. The bound is loose: the build that is tested is not the one
 * that ships. */
static void many(void **state) {
    (void)state;
    enum { MANY = 5000 };
    net n = net_new();
    double t = now();
    for (int32_t i = 0; i < MANY; i++) {
        const lam_op_arg in[] = {T(0, 64, 128), T(1, 128, 256 + i % 7), {.position = 2}},
                         out[] = {T(0, 64, 256 + i % 7)};
        net_op_args(&n, i % 2 ? "aten::mm" : "aten::relu", (op_at){-1, i - 1, LAM_FORWARD, 0}, in, 3, out, 1);
    }
    t = now() - t;
    lam_model *m = net_done(&n);
    print_message("%d operators pushed in %.2f ms\n", MANY, 1e3 * t);
    assert_true(t < 0.25);
    assert_int_equal(lam_model_n_ops(m), MANY);
    assert_int_equal(lam_model_op(m, MANY - 2)->n_children, 1);
    assert_int_equal(lam_model_op(m, MANY - 1)->n_children, 0);
    lam_model_free(m);
}

/* -- memory ------------------------------------------------------------------------------------ */

static void push_some(void *arg, bool *ok) {
    (void)arg;
    lam_builder *b;
    lam_model *m = NULL;
    lam_error e = {0};
    lam_status s = lam_builder_new(&b, 0, &e);
    for (int32_t i = 0; s == LAM_OK && i < 40; i++) {
        char name[24];
        static const int64_t ints[3000] = {1};
        const lam_op_arg in[] = {T(0, 64, 128 + i),
                                 {.position = 1, .value = {.type = LAM_INTS, .n = 3000 - i, .ints = ints}}};
        snprintf(name, sizeof name, "my::op%d", i);
        lam_op_info o = {.name = name, .call = -1, .parent = i - 1, .n_in = 2, .in = in};
        s = lam_build_op(b, &o, NULL, &e);
    }
    if (s == LAM_OK)
        s = lam_builder_finish(b, &m, &e);
    else
        lam_builder_free(b);
    *ok = oom_check(s, &e);
    if (s == LAM_OK) assert_int_equal(lam_model_n_ops(m), 40);
    lam_model_free(m);
}

static void out_of_memory(void **state) {
    (void)state;
    oom_sweep(push_some, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read_back),
        cmocka_unit_test(seen_or_not),
        cmocka_unit_test(nodes_alone),
        cmocka_unit_test(masks_that_fit),
        cmocka_unit_test(refusals),
        cmocka_unit_test(ends_that_cannot_be),
        cmocka_unit_test(names_are_shared),
        cmocka_unit_test(limits),
        cmocka_unit_test(many),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
