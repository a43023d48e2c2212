/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory in outlines: what is held at the peak, the course, the places at work below it; and formulas. */
#include "kit/oom.h"

#include "kit/full_net.h"
#include "kit/outlined.h"

enum { KIB = 1024 };

/* -- at the peak ----------------------------------------------------------------------------------------- */

/* 64 KiB of input and the packed weight of idle, 60 bytes, were there before; conv allocates 4, fc 2, which
 * it frees again. */
static void test_memory_by_place(void **unused) {
    (void)unused;
    outlined x = outline_of(full_step(), NULL);
    const lmi_outline *o = &x.o;
    assert_int_equal(o->memory->peak, 70 * KIB + 60);
    assert_int_equal(o->memory->before, 64 * KIB + 60);
    assert_int_equal(o->peak_place, outline_find(o, "fc"));
    assert_string_equal(o->memory->info.source, "a test");
    outline_own(o, "conv", LMI_OWN_ALLOCATED, 4 * KIB, LAM_EXACT);
    outline_own(o, "conv", LMI_OWN_RETAINED, 4 * KIB, LAM_EXACT);
    outline_own(o, "conv", LMI_OWN_PEAK, 4 * KIB, LAM_EXACT);
    outline_own(o, "fc", LMI_OWN_ALLOCATED, 2 * KIB, LAM_EXACT); /* its backward is not in it */
    outline_own(o, "", LMI_OWN_ALLOCATED, 0, LAM_EXACT);
    outline_own(o, "", LMI_OWN_PEAK, 6 * KIB, LAM_EXACT);
    outline_own(o, "conv", LMI_OWN_HELD, 4 * KIB, LAM_EXACT);
    outline_own(o, "fc", LMI_OWN_HELD, 2 * KIB, LAM_EXACT);
    outline_own(o, "idle", LMI_OWN_HELD, 60, LAM_EXACT);
    outline_total(o, "", LMI_OWN_HELD, 6 * KIB + 60);
    outline_total(o, "", LMI_OWN_ALLOCATED, 6 * KIB);
    outline_total(o, "", LMI_OWN_PEAK, 6 * KIB);
    assert_int_equal(o->held[outline_find(o, "conv")][LAM_HELD_ACTIVATION], 4 * KIB);
    assert_int_equal(o->held_total[0][LAM_HELD_ACTIVATION], 6 * KIB);
    assert_int_equal(o->held_total[0][LAM_HELD_INPUT], 0); /* no place holds the model's input */
    for (int32_t i = 0; i < o->n; i++)
        for (int h = 0; h < LAM_N_HELD; h++)
            assert_int_equal(o->held_total[i][h], lam_memory_held_below(o->use, i)[h]);
    outline_leave(&x);
}

/* What a layer that is not shown by itself holds is told of the one around it: the projection of an attention
 * that runs as one. */
static void test_hidden_layers_are_told_above(void **unused) {
    (void)unused;
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), mha = net_module(&n, "MultiheadAttention", 0),
            out = net_linear(&n, 4, 4);
    int32_t p = net_place(&n, -1, "", root);
    net_place(&n, net_place(&n, p, "mha", mha), "out_proj", out);
    int32_t r = net_call(&n, root, -1, SH(1, 4), 0, SH(1, 4), 0);
    net_call(&n, mha, r, SH(1, 4), 0, SH(1, 4), 0);
    const lam_block weight = {
        .bytes = 64, .call = -1, .freed_call = -1, .tensor = 0, .held = LAM_HELD_PARAMETER};
    NET_OK(&n, lam_build_block(n.b, &weight, &n.e));
    NET_OK(&n, lam_build_memory(n.b, &(lam_memory_info){"a test", -1, -1, -1, false}, &n.e));
    outlined x = outline_of(net_done(&n), "layers");
    assert_int_equal(x.o.n, 2);
    assert_int_equal(outline_at(&x.o, "mha")->family, LMI_ATTENTION);
    outline_own(&x.o, "mha", LMI_OWN_HELD, 64, LAM_EXACT);
    assert_int_equal(x.o.held[1][LAM_HELD_PARAMETER], 64);
    outline_leave(&x);
}

/* -- the course ------------------------------------------------------------------------------------------ */

/* "path phase:from+length@depth ..." of all, in their order. */
static const char *work_of(const lmi_outline *o) {
    static char text[2000];
    size_t n = 0;
    text[0] = '\0';
    lmi_buf path;
    lmi_buf_init(&path);
    for (int32_t i = 0; i < o->n_at_work; i++) {
        const lmi_active *w = &o->at_work[i];
        lmi_buf_clear(&path);
        lmi_outline_path(o, w->place, &path);
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s %c:%d+%d@%d", i ? ", " : "",
                              lmi_buf_text(&path), "fbr"[w->phase], (int)w -> us, (int)w -> length,
                              (int)w -> depth);
    }
    lmi_buf_free(&path);
    return text;
}

/* Microseconds from the first call on: Net(a: Pair(x, y), b: Linear). a 0 to 400 (x to 150, y 200 to 390), b
 * 500 to 900. Backward: b, y, a itself, x in one pass, x in another. */
static net laned_with(int64_t b0, int64_t b1) {
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), a = net_module(&n, "Pair", 0), x = net_linear(&n, 2, 2),
            y = net_linear(&n, 2, 2), b = net_linear(&n, 2, 2);
    int32_t p = net_place(&n, -1, "", root), pa = net_place(&n, p, "a", a);
    net_place(&n, pa, "x", x);
    net_place(&n, pa, "y", y);
    net_place(&n, p, "b", b);
    const struct {
        int32_t module, parent;
        int64_t t0, t1;
    } calls[] = {{root, -1, 0, 1000}, {a, 0, 0, 400}, {x, 1, 0, 150}, {y, 1, 200, 390}, {b, 0, b0, b1}};
    for (int i = 0; i < 5; i++) {
        int32_t index;
        lam_call_info c = {.module = calls[i].module,
                           .parent = calls[i].parent,
                           .t0_ns = 1000000 + 1000 * calls[i].t0,
                           .t1_ns = 1000000 + 1000 * calls[i].t1};
        NET_OK(&n, lam_build_call(n.b, &c, &index, &n.e));
    }
    const struct {
        int32_t call;
        int64_t t0, t1;
        int32_t pass;
    } nodes[] = {
        {4, 1100, 1200, 1}, {3, 1210, 1300, 1}, {1, 1300, 1310, 1}, {2, 1320, 1400, 1}, {2, 1500, 1600, 2}};
    for (int i = 0; i < 5; i++) {
        int32_t index;
        const lam_op_info o = {.name = "AddmmBackward0",
                               .call = nodes[i].call,
                               .parent = -1,
                               .phase = LAM_BACKWARD,
                               .flags = LAM_OP_NODE,
                               .t0_ns = 1000000 + 1000 * nodes[i].t0,
                               .t1_ns = 1000000 + 1000 * nodes[i].t1,
                               .pass = nodes[i].pass};
        NET_OK(&n, lam_build_op(n.b, &o, &index, &n.e));
    }
    NET_OK(&n, lam_build_nodes_seen(n.b, &n.e));
    return n;
}

static net laned(void) { return laned_with(500, 900); }

static void allocate(net *n, int64_t bytes, int64_t order, int64_t us) {
    const lam_block k = {.bytes = bytes,
                         .order = order,
                         .t0_ns = 1000000 + 1000 * us,
                         .call = 0,
                         .freed_call = -1,
                         .tensor = -1};
    NET_OK(n, lam_build_block(n->b, &k, &n->e));
}

static void test_places_at_work(void **unused) {
    (void)unused;
    net n = laned();
    allocate(&n, 100, 1, 50);
    allocate(&n, 30, 2, 600);
    NET_OK(&n, lam_build_memory(n.b, &(lam_memory_info){"a test", -1, -1, -1, false}, &n.e));
    outlined x = outline_of(net_done(&n), "layers");
    const lmi_outline *o = &x.o;
    /* Of the backward a is at work in one pass for y, itself and x, and again in another. */
    assert_string_equal(work_of(o), "a f:0+400@1, a.x f:0+150@2, a.y f:200+190@2, b f:500+400@1, "
                                    "b b:1100+100@1, a b:1210+190@1, a.y b:1210+90@2, a.x b:1320+80@2, "
                                    "a b:1500+100@1, a.x b:1500+100@2");
    assert_int_equal(o->backward_us, 1100);
    assert_int_equal(o->n_points, 3);
    const lmi_course_point points[] = {{0, 0}, {50, 100}, {600, 130}};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(o->point[i].us, points[i].us);
        assert_int_equal(o->point[i].bytes, points[i].bytes);
    }
    outline_leave(&x);
}

/* Of those that begin at once the outermost comes first, however long they are. */
static void test_places_at_work_are_in_order(void **unused) {
    (void)unused;
    net n = laned_with(200, 300);
    allocate(&n, 100, 1, 50);
    NET_OK(&n, lam_build_memory(n.b, &(lam_memory_info){"a test", -1, -1, -1, false}, &n.e));
    outlined x = outline_of(net_done(&n), "layers");
    const char *forward = "a f:0+400@1, a.x f:0+150@2, b f:200+100@1, a.y f:200+190@2, b b:";
    if (strncmp(work_of(&x.o), forward, strlen(forward)) != 0) fail_msg("%s", work_of(&x.o));
    outline_leave(&x);
}

/* 3,000 moments of which each fifth is greater: 600 points, all of them great. */
static void test_points_are_the_most_of_their_pieces(void **unused) {
    (void)unused;
    net n = laned();
    for (int i = 1; i < 3000; i++) {
        const lam_block k = {.bytes = i % 5 == 3 ? 500 : 1,
                             .order = 2 * i - 1,
                             .freed_order = 2 * i,
                             .t0_ns = 1000000 + 1000 * i,
                             .t1_ns = 1000000 + 1000 * i,
                             .call = 0,
                             .freed_call = 0,
                             .tensor = -1};
        NET_OK(&n, lam_build_block(n.b, &k, &n.e));
    }
    NET_OK(&n, lam_build_memory(n.b, &(lam_memory_info){"a test", -1, -1, -1, false}, &n.e));
    outlined x = outline_of(net_done(&n), "layers");
    assert_int_equal(x.o.n_points, 600);
    for (int i = 0; i < 600; i++) {
        assert_int_equal(x.o.point[i].bytes, 500);
        if (i) assert_true(x.o.point[i - 1].us < x.o.point[i].us);
    }
    outline_leave(&x);
}

static void test_the_shortest_spans_are_dropped(void **unused) {
    (void)unused;
    enum { CALLS = 4500 };
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), a = net_leaf(&n, "ReLU"), p = net_place(&n, -1, "", root), index;
    net_place(&n, p, "a", a);
    lam_call_info c = {.module = root, .parent = -1, .t0_ns = 1000, .t1_ns = 1000 + INT64_C(100000000000)};
    NET_OK(&n, lam_build_call(n.b, &c, &index, &n.e));
    for (int i = 0; i < CALLS; i++) {
        c = (lam_call_info){.module = a, .parent = 0, .t0_ns = 1000 + INT64_C(10000000) * i};
        c.t1_ns = c.t0_ns + 1000 * (1 + (i * 7) % CALLS); /* all lengths from 1 to 4,500 us */
        NET_OK(&n, lam_build_call(n.b, &c, &index, &n.e));
    }
    NET_OK(&n, lam_build_memory(n.b, &(lam_memory_info){"a test", -1, -1, -1, false}, &n.e));
    outlined x = outline_of(net_done(&n), "layers");
    assert_int_equal(x.o.n_at_work, 4000);
    for (int i = 0; i < 4000; i++) assert_true(x.o.at_work[i].length > CALLS - 4000);
    assert_int_equal(x.o.n_left, 1);
    assert_string_equal(x.o.left[0], "Below the memory over time the longest 4000 of 4500 spans are shown.");
    outline_leave(&x);
}

static void test_without_memory_there_is_no_course(void **unused) {
    (void)unused;
    net n = laned();
    outlined x = outline_of(net_done(&n), "layers");
    assert_null(x.o.memory);
    assert_null(x.o.held);
    assert_int_equal(x.o.n_points + x.o.n_at_work, 0);
    assert_int_equal(x.o.peak_place, -1);
    assert_int_equal(x.o.backward_us, -1);
    outline_leave(&x);
}

/* -- formulas -------------------------------------------------------------------------------------------- */

static const lmi_formula_group *group_of(const lmi_outline *o, const char *path, int32_t i) {
    const lmi_outline_place *at = outline_at(o, path);
    assert_true(at->formulas >= 0);
    const lmi_formulas *f = &o->formulas[at->formulas];
    assert_true(i < f->n);
    return &f->at[i];
}

static void test_formulas_of_operators(void **unused) {
    (void)unused;
    outlined x = outline_of(net_step(), NULL);
    const lmi_outline *o = &x.o;
    const lmi_formula_group *g = group_of(o, "fc", 0);
    assert_string_equal(g->name, "aten::mm");
    assert_int_equal(g->phase, LAM_FORWARD);
    assert_int_equal(g->n_equal, 1);
    assert_int_equal(g->n, 4); /* MACs, FLOPs, bytes read, bytes written */
    assert_int_equal(g->at[0].metric, LAM_MACS);
    assert_string_equal(g->at[0].formula, "out*red");
    assert_string_equal(g->at[0].filled, "8 \u00d7 3");
    assert_int_equal(g->at[0].value, 24);
    assert_int_equal(g->at[3].metric, LAM_BYTES_WRITTEN);
    assert_int_equal(g->at[3].value, 32);
    g = group_of(o, "fc", 1);
    assert_int_equal(g->phase, LAM_BACKWARD);
    assert_int_equal(outline_at(o, "")->formulas, -1); /* it runs nothing itself */
    outline_leave(&x);
}

static void test_formulas_of_layers(void **unused) {
    (void)unused;
    outlined x = outline_of(net_two_parents(false), "layers");
    const lmi_outline *o = &x.o;
    const lmi_formula_group *g = group_of(o, "a.fc", 0);
    assert_string_equal(g->name, "linear");
    assert_int_equal(g->at[0].value, 16);
    /* the second call of the same layer has the same formulas, and both activations have theirs */
    assert_int_equal(outline_at(o, "a.fc")->formulas, outline_at(o, "b.fc")->formulas);
    assert_int_equal(outline_at(o, "a.act")->formulas, outline_at(o, "b.act")->formulas);
    assert_int_equal(o->n_formulas, 2);
    outline_leave(&x);
}

/* The factors of the formula are exact; their product would not fit. */
static void test_value_beyond_63_bits(void **unused) {
    (void)unused;
    net n = net_new();
    int32_t root = net_module(&n, "Linear", LAM_MODULE_LEAF);
    net_place(&n, -1, "", root);
    int32_t call = net_call(&n, root, -1, SH(1), 0, SH(1), 0);
    net_mm(&n, (op_at){call, -1, LAM_FORWARD, 0}, 1 << 21, 1 << 22, 1 << 21);
    outlined x = outline_of(net_done(&n), NULL);
    const lmi_formula_group *g = group_of(&x.o, "", 0);
    assert_string_equal(g->at[0].filled, "4,398,046,511,104 \u00d7 4,194,304");
    assert_int_equal(g->at[0].value, -1);
    outline_leave(&x);
}

/* Layers of 1 to `n` columns, each with a formula of its own. */
static void test_too_many_formulas(void **unused) {
    (void)unused;
    enum { LAYERS = 12000 };
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), p = net_place(&n, -1, "", root);
    int32_t r = net_call(&n, root, -1, SH(1), 0, SH(1), 0), calls[LAYERS];
    for (int i = 0; i < LAYERS; i++) {
        char name[32];
        int32_t fc = net_leaf(&n, "Linear");
        snprintf(name, sizeof name, "%d", i);
        net_place(&n, p, name, fc);
        calls[i] = net_call(&n, fc, r, SH(1), 0, SH(1), 0);
    }
    for (int i = 0; i < LAYERS; i++) net_mm(&n, (op_at){calls[i], -1, LAM_FORWARD, 0}, 2, 3, 1 + i);
    outlined x = outline_of(net_done(&n), NULL);
    const lmi_outline *o = &x.o;
    assert_true(o->n_formulas > 1000 && o->n_formulas < LAYERS);
    /* the largest have theirs, the smallest do not */
    assert_int_equal(o->at[o->n - 1].formulas, 0);
    assert_int_equal(o->at[1].formulas, -1);
    char text[160];
    snprintf(
        text, sizeof text,
        "Formulas of %d modules are left out, those with the fewest MACs; `lamina why PATH` prints them.",
        (int)(LAYERS - o->n_formulas));
    assert_int_equal(o->n_left, 1);
    assert_string_equal(o->left[0], text);
    outline_leave(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_by_place),
        cmocka_unit_test(test_hidden_layers_are_told_above),
        cmocka_unit_test(test_places_at_work),
        cmocka_unit_test(test_places_at_work_are_in_order),
        cmocka_unit_test(test_points_are_the_most_of_their_pieces),
        cmocka_unit_test(test_the_shortest_spans_are_dropped),
        cmocka_unit_test(test_without_memory_there_is_no_course),
        cmocka_unit_test(test_formulas_of_operators),
        cmocka_unit_test(test_formulas_of_layers),
        cmocka_unit_test(test_value_beyond_63_bits),
        cmocka_unit_test(test_too_many_formulas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
