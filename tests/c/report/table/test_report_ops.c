/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports of counted operators: the backward pass and recomputation in every format, and nothing of them
 * where calls are counted. */
#include "kit/oom.h"

#include "kit/ops_net.h"
#include "kit/show.h"

static void show_as(const lam_costs *c, const char *format, int32_t width) {
    lam_report_options o = show_options(NULL, format);
    o.width = width;
    show(c, &o);
}

static void transcripts(void **state) {
    (void)state;
    static const struct {
        const char *name, *format;
        int32_t width;
    } cases[] = {{"ops-step", "text", 100},
                 {"ops-step-70", "text", 70},
                 {"ops-step-csv", "csv", 0},
                 {"ops-step-json", "json", 0},
                 {"ops-step-md", "md", 0}};
    lam_model *m = net_step();
    lam_costs *c = net_costs(m, "exact", false);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        show_as(c, cases[i].format, cases[i].width);
        show_golden(cases[i].name, true);
    }
    lam_costs_free(c);
    lam_model_free(m);
}

/* Where nothing tells one tensor from another, JSON says nothing of what goes where. */
static void untraced(void **state) {
    (void)state;
    net n = net_new();
    net_relu(&n, (op_at){-1, -1, LAM_FORWARD, 0}, 4);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "exact", false);
    show_as(c, "json", 0);
    show_lacks("\"unused\"");
    show_has("\"notes\"");
    lam_costs_free(c);
    lam_model_free(m);
}

/* What the page has no room for goes, FLOPs first, and is named; the lines under the table stay. */
static void narrow(void **state) {
    (void)state;
    lam_model *m = net_step();
    lam_costs *c = net_costs(m, "exact", false);
    show_as(c, "text", 100);
    show_has("bwd MACs");
    show_has("bwd FLOPs");
    show_lacks("DMAs");
    show_lacks("not shown");
    show_as(c, "text", 85);
    show_has("FLOPs  bwd MACs\n");
    show_has("\nnot shown  bwd FLOPs (85 columns): a larger width shows all\n");
    show_as(c, "text", 70);
    show_has("%  bwd MACs\n");
    show_has("\nnot shown  FLOPs, bwd FLOPs (70 columns)");
    show_has("\nbackward   48 MACs \u00b7 96 FLOPs\n");
    show_has("\nrecomputed 24 MACs \u00b7 48 FLOPs\n");
    show_has(
        "\nincomplete 2 of 10 operators have no rule: my::op (2)\n           1 layer was never called\n");
    show_has("\n           docs/your-own-rules.md shows how to give one\n");
    show_lacks("layers have");
    lam_costs_free(c);
    lam_model_free(m);
}

/* What is not there takes no room. */
static void forward_alone(void **state) {
    (void)state;
    net n = net_new();
    net_calls k = net_plain(&n);
    net_mm(&n, (op_at){k.fc, -1, LAM_FORWARD, 0}, 2, 3, 4);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "exact", false);
    show_as(c, "text", 120);
    show_lacks("bwd");
    show_lacks("backward");
    show_lacks("recomputed");
    show_has("\ncomplete   every operator that ran is counted (1 of 1)");
    show_as(c, "csv", 0);
    show_has(",recompute_dmas_state,bytes_read,");
    show_has(",recompute_effective_flops_state,subtotal_backward_macs,");
    show_has("fc,fc,Linear,1,0,");
    show_has(
        ",,unknown,,unknown,,unknown,,unknown,,unknown,,unknown\n"); /* no backward is not one for nothing */
    show_as(c, "json", 0);
    show_has("\"operators\": {\"ran\": 1, \"counted\": 1, \"known\": 1, \"unruled\": []}");
    show_lacks("\"backward\"");
    show_lacks("\"recompute\"");
    lam_costs_free(c);
    lam_model_free(m);
}

/* A backward that was asked for and did not run is unknown, and nothing else is. */
static void no_backward(void **state) {
    (void)state;
    net n = net_new();
    net_calls k = net_plain(&n);
    net_mm(&n, (op_at){k.fc, -1, LAM_FORWARD, 0}, 2, 3, 4);
    NET_OK(&n, lam_build_no_backward(n.b, &n.e));
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "exact", false);
    assert_int_equal(lam_costs_phase_total(c, LAM_BACKWARD, LAM_MACS).state, LAM_UNKNOWN);
    assert_int_equal(lam_costs_phase_total(c, LAM_FORWARD, LAM_MACS).state, LAM_EXACT);
    for (int32_t i = 0; i < lam_costs_n_rows(c); i++)
        assert_int_equal(lam_costs_row(c, i)->phases->total_backward[LAM_FLOPS].state, LAM_UNKNOWN);
    show_as(c, "json", 0);
    show_lacks("\"backward\"");
    lam_costs_free(c);
    lam_model_free(m);
    assert_int_equal(lam_build_no_backward(NULL, NULL), LAM_USAGE);
    lam_model *step = net_step(); /* where one ran it is known */
    c = net_costs(step, "exact", false);
    assert_int_equal(lam_costs_phase_total(c, LAM_BACKWARD, LAM_MACS).state, LAM_EXACT);
    lam_costs_free(c);
    lam_model_free(step);
}

/* A pass that raised is a lower bound, and the node in which it raised is named with its layer. */
static void half_a_backward(void **state) {
    (void)state;
    for (int with_node = 0; with_node < 2; with_node++) {
        net n = net_new();
        net_calls k = net_plain(&n);
        net_mm(&n, (op_at){k.mine, -1, LAM_FORWARD, 0}, 2, 4, 5);
        net_mm(&n, (op_at){k.mine, -1, LAM_BACKWARD, 0}, 2, 5, 4);
        const op_at raised = {k.act, -1, LAM_BACKWARD, LAM_OP_NODE | LAM_OP_FAILED};
        int32_t node = with_node ? net_op(&n, "ReluBackward0", raised) : -1;
        if (!with_node) NET_OK(&n, lam_build_backward_raised(n.b, &n.e));
        lam_model *m = net_done(&n);
        lam_costs *c = net_costs(m, "exact", false);
        assert_int_equal(lam_model_failed_node(m), node);
        net_expect(lam_costs_phase_total(c, LAM_FORWARD, LAM_MACS), 40, LAM_EXACT);
        net_expect(lam_costs_phase_total(c, LAM_BACKWARD, LAM_MACS), 40, LAM_AT_LEAST);
        assert_string_equal(
            lam_costs_gap(c, 0),
            with_node ? "the backward pass raised in ReluBackward0 of act (ReLU), and what was left "
                        "of it to run is not counted"
                      : "the backward pass raised, and what was left of it to run is not counted");
        show_as(c, "text", 0);
        show_has("incomplete the backward pass raised");
        lam_costs_free(c);
        lam_model_free(m);
    }
    assert_int_equal(lam_build_backward_raised(NULL, NULL), LAM_USAGE);
}

/* The program may catch the exception and go on: then no layer failed in the end. */
static void caught_in_a_backward(void **state) {
    (void)state;
    for (int later = 0; later < 3; later++) {
        net n = net_new();
        net_calls k = net_plain(&n);
        lam_op_info o = {.name = "ReluBackward0",
                         .call = k.act,
                         .parent = -1,
                         .phase = LAM_BACKWARD,
                         .flags = LAM_OP_NODE | LAM_OP_FAILED,
                         .pass = 1};
        NET_OK(&n, lam_build_op(n.b, &o, NULL, &n.e));
        if (later == 1) net_mm(&n, (op_at){k.mine, -1, LAM_FORWARD, 0}, 2, 4, 5);
        o.flags = LAM_OP_NODE;
        o.pass = 2;
        if (later == 2) NET_OK(&n, lam_build_op(n.b, &o, NULL, &n.e));
        net_mm(&n, (op_at){-1, -1, LAM_FORWARD, 0}, 1, 1, 1); /* of no call, such as an optimizer's */
        lam_model *m = net_done(&n);
        assert_int_equal(lam_model_failed_node(m), later ? -1 : 0);
        lam_model_free(m);
    }
}

/* Where calls are counted every report is as if no operator had been watched. */
static void calls_as_before(void **state) {
    (void)state;
    static const char *const formats[] = {"text", "csv", "json", "md"};
    static char before[sizeof shown];
    net n = net_new();
    net_plain(&n);
    lam_model *with = net_step(), *without = net_done(&n);
    lam_costs *a = net_costs(without, "layers", false), *b = net_costs(with, "layers", false);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        show_as(a, formats[i], 120);
        memcpy(before, shown, shown_n + 1);
        show_as(b, formats[i], 120);
        assert_string_equal(shown, before);
        show_lacks("backward");
    }
    lam_costs_free(a);
    lam_costs_free(b);
    lam_model_free(with);
    lam_model_free(without);
}

/* Copies of bytes: work of none, which is known; a type whose number is 0; a tool that has no rule for them.
 */
static void copies(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_leaf(&n, "Mine"), call;
    net_place(&n, -1, "", root);
    const lam_arg x = {.dtype = 0, .ndim = 2, .sizes = (const int64_t[]){2, 3}, .device = -1};
    const lam_call_info info = {.module = root, .parent = -1, .n_in = 1, .in = &x, .n_out = 1, .out = &x};
    NET_OK(&n, lam_build_call(n.b, &info, &call, &n.e));
    const lam_op_arg in[] = {T(0, 2, 3)}, out[] = {T(0, 2, 3)};
    net_op_args(&n, "aten::clone", (op_at){call, -1, LAM_FORWARD, 0}, in, 1, out, 1);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "exact", false);
    lam_report_options o = show_options(NULL, "text");
    o.width = 120;
    o.bytes = true;
    show(c, &o);
    show_has("input 2x3 uint8");
    show_has(" \u00b7 0.00 FLOPs/byte\n");
    show_has("      0.00"); /* in its row too, and not as unknown */
    lam_costs_free(c);
    c = net_costs(m, "torch", false);
    o.bytes = false;
    show(c, &o);
    show_has("counted    torch takes what it has no rule for as 0\n");
    lam_costs_free(c);
    lam_model_free(m);
}

/* Bytes are shown where they are asked for, and the question is refused where nobody counts them. */
static void bytes_asked_for(void **state) {
    (void)state;
    lam_model *m = net_step();
    lam_costs *c = net_costs(m, "exact", false);
    lam_error e = {0};
    lam_report_options o = show_options(NULL, "text");
    o.width = 120;
    show(c, &o);
    show_lacks("bytes");
    show_lacks("written");
    show_lacks("DMAs");
    o.bytes = true;
    o.width = 140;
    show(c, &o);
    show_has("    read   written  FLOPs/byte  bwd MACs  bwd FLOPs\n");
    show_has("  72 B      32 B        0.46  ");
    show_has(" \u00b7 read >= 248 B \u00b7 written >= 116 B\n");
    show_has(" \u00b7 read 136 B \u00b7 written 72 B \u00b7 0.46 FLOPs/byte\n");
    o.exact = true;
    show(c, &o);
    show_has(" \u00b7 read >= 248 \u00b7 written >= 116\n");
    show_lacks("72 B");
    show_has("  72 ");
    show_as(c, "json", 0);
    show_has("\"bytes_read\": {\"value\": 72, \"state\": \"exact\"}, \"bytes_written\": {\"value\": 32, ");
    show_has("\"bytes\": {\"value\": 104, \"state\": \"exact\"}, \"intensity\": 0.461538");
    lam_costs_free(c);
    c = net_costs(m, "layers", false);
    o.exact = false;
    show(c, &o); /* it counts elements */
    show_has("DMAs");
    show_lacks("read");
    show_as(c, "json", 0);
    show_lacks("bytes_read");
    show_lacks("effective");
    lam_costs_free(c);
    c = net_costs(m, "fvcore", false);
    assert_int_equal(lam_report_write(c, &o, show_sink(), &e), LAM_USAGE);
    assert_string_equal(e.text, "the convention fvcore does not count bytes; ask for exact");
    lam_costs_free(c);
    lam_model_free(m);
}

/* Effective counts stand in the foot where they differ from the others, and say why. */
static void effective_foot(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        net n = net_new();
        net_calls k = net_plain(&n);
        lam_op_arg in[] = {T(0, 1, 1, 3, 2), T(1, 1, 1, 4, 2), T(2, 1, 1, 4, 2), T(3, 3, 4), T_UNSEEN(5)};
        const lam_op_arg out[] = {T(0, 1, 1, 3, 2)};
        in[4].is_tensor = false;
        in[4].value = (lam_value){.type = LAM_BOOL, .i = i == 1};
        if (i < 2) in[3].is_tensor = false;
        net_op_args(&n, "aten::scaled_dot_product_attention", (op_at){k.fc, -1, LAM_FORWARD, 0}, in, 5, out,
                    1);
        lam_model *m = net_done(&n);
        lam_costs *c = net_costs(m, "exact", false);
        show_as(c, "text", 120);
        if (i == 0) show_lacks("masked");
        if (i == 1) show_has(" \u00b7 24 MACs if masked attention scores are left out\n");
        if (i == 2)
            show_has("MACs not known if masked attention scores are left out; values of some masks are not "
                     "known\n");
        show_has("\n           48 MACs \u00b7 ");
        lam_costs_free(c);
        lam_model_free(m);
    }
}

/* They name sparse factors only if there is one. */
static void sparse_foot(void **state) {
    (void)state;
    net n = net_new();
    net_calls k = net_plain(&n);
    lam_op_arg in[] = {T(0, 10, 10), T(1, 10, 2)};
    const lam_op_arg out[] = {T(0, 10, 2)};
    in[0].sparse = true;
    in[0].values = 10, in[0].stored = 30, in[0].stored_bytes = 200;
    net_op_args(&n, "aten::mm", (op_at){k.fc, -1, LAM_FORWARD, 0}, in, 2, out, 1);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "exact", false);
    show_as(c, "text", 120);
    show_has(" 20 MACs if masked attention scores and zeros of sparse factors are left out\n");
    lam_costs_free(c);
    lam_model_free(m);
}

/* An unknown part of the backward is a lower bound, and an unknown whole a question mark. */
static void not_known(void **state) {
    (void)state;
    net n = net_new();
    net_calls k = net_plain(&n);
    net_mm(&n, (op_at){k.fc, -1, LAM_BACKWARD, 0}, 2, 3, 4);
    net_op(&n, "my::\"op\"", (op_at){k.act, -1, LAM_BACKWARD, 0});
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "exact", false);
    show_as(c, "text", 120);
    show_has("\nbackward   >= 24 MACs \u00b7 >= 48 FLOPs");
    lam_report_options o = show_options(NULL, "text");
    o.color = true;
    show(c, &o);
    show_has("\033[2mbackward\033[0m");
    show_as(c, "json", 0);
    show_has("\"backward\": {\"macs\": {\"value\": null, \"state\": \"unknown\"}");
    show_has("\"unruled\": [{\"name\": \"my::\\\"op\\\"\", \"runs\": 1}]");
    show_as(c, "csv", 0);
    show_has(",,unknown,,unknown,,unknown,0,exact,0,exact,0,exact,");
    lam_costs_free(c);
    lam_model_free(m);
}

/* Sequential of four equal Linear layers; the backward of the last one or of none differs. */
static lam_model *net_row(bool differs) {
    static const char *const names[] = {"0", "1", "2", "3"};
    net n = net_new();
    int32_t root = net_module(&n, "Sequential", 0), p = net_place(&n, -1, "", root), call[4], fc[4];
    for (int i = 0; i < 4; i++) {
        fc[i] = net_linear(&n, 10, 10);
        net_place(&n, p, names[i], fc[i]);
    }
    int32_t r = net_call(&n, root, -1, SH(1, 10), 0, SH(1, 10), 0);
    for (int i = 0; i < 4; i++) call[i] = net_call(&n, fc[i], r, SH(1, 10), 0, SH(1, 10), 0);
    for (int i = 0; i < 4; i++) {
        net_mm(&n, (op_at){call[i], -1, LAM_FORWARD, 0}, 1, 10, 10);
        net_mm(&n, (op_at){call[i], -1, differs && i == 3 ? LAM_RECOMPUTE : LAM_BACKWARD, 0}, 1, 10, 20);
    }
    return net_done(&n);
}

static void folded(void **state) {
    (void)state;
    lam_model *m = net_row(false);
    lam_costs *c = net_costs(m, "exact", false);
    show_as(c, "text", 120);
    show_has("0..3 x4");
    show_has("     200        400  each\n");
    lam_costs_free(c);
    lam_model_free(m);
    m = net_row(true);
    c = net_costs(m, "exact", false);
    show_as(c, "text", 120);
    show_has("0..2 x3");
    lam_costs_free(c);
    lam_model_free(m);
}

/* Work outside every call of a model that was never called still shows. */
static void never_called(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), p = net_place(&n, -1, "", root);
    net_place(&n, p, "fc", net_linear(&n, 2, 3));
    net_mm(&n, (op_at){-1, -1, LAM_BACKWARD, 0}, 1, 2, 3);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "exact", false);
    show_as(c, "text", 120);
    show_has("Net ");
    show_has("\nNet  ");
    show_has("        6         12\n");
    show_has("\nincomplete no layer of the model was called while the capture was open\n");
    show_lacks("[never called]");
    show_has("\u2514\u2500 [outside calls] ");
    show_lacks("[own work]");
    show_as(c, "csv", 0);
    show_has(",outside calls,");
    lam_costs_free(c);
    lam_model_free(m);
}

/* A field behind an operator that nobody knows is a question mark. */
static void a_field_that_is_not_known(void **state) {
    (void)state;
    for (int known = 0; known < 2; known++) {
        net n = net_new();
        int32_t root = net_module(&n, "Net", 0), fc = net_leaf(&n, "Mine");
        net_place(&n, net_place(&n, -1, "", root), "fc", fc);
        const lam_op_arg x = D(0, 1, 1, 4, 8), y = D(0, 2, 1, 4, 8);
        int32_t call = net_step_of(&n, fc, net_step_of(&n, root, -1, &x, &y), &x, &y);
        net_op_args(&n, known ? "aten::relu" : "my::op", (op_at){call, -1, LAM_FORWARD, 0}, IN(x), OUT(y));
        lam_model *m = net_done(&n);
        lam_costs *c = net_costs(m, "exact", false);
        lam_report_options o = show_options(NULL, NULL);
        o.receptive_field = true;
        show(c, &o);
        const char *row = strstr(shown, "fc (Mine)");
        assert_non_null(row);
        size_t end = strcspn(row, "\n");
        while (row[end - 1] == ' ') end--;
        assert_memory_equal(row + end - 2, known ? " 1" : " ?", 2);
        lam_costs_free(c);
        lam_model_free(m);
    }
}

static void write_all(void *arg, bool *ok) {
    static const char *const formats[] = {"text", "csv", "json", "html"};
    lam_status s = LAM_OK;
    lam_error e = {0};
    for (size_t i = 0; i < sizeof formats / sizeof *formats && s == LAM_OK; i++) {
        lam_report_options o = show_options(NULL, formats[i]);
        s = lam_report_write(arg, &o, show_sink(), &e);
    }
    *ok = s == LAM_OK;
    assert_int_equal(s == LAM_OK ? LAM_OK : LAM_NOMEM, s);
}

static void out_of_memory(void **state) {
    (void)state;
    lam_model *m = net_step();
    lam_costs *c = net_costs(m, "exact", false);
    oom_sweep(write_all, c);
    lam_costs_free(c);
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transcripts),
        cmocka_unit_test(untraced),
        cmocka_unit_test(narrow),
        cmocka_unit_test(forward_alone),
        cmocka_unit_test(no_backward),
        cmocka_unit_test(half_a_backward),
        cmocka_unit_test(caught_in_a_backward),
        cmocka_unit_test(calls_as_before),
        cmocka_unit_test(not_known),
        cmocka_unit_test(folded),
        cmocka_unit_test(never_called),
        cmocka_unit_test(out_of_memory),
        cmocka_unit_test(a_field_that_is_not_known),
        cmocka_unit_test(bytes_asked_for),
        cmocka_unit_test(copies),
        cmocka_unit_test(effective_foot),
        cmocka_unit_test(sparse_foot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
