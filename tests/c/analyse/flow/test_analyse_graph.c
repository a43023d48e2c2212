/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph of the data: which nodes there are, who gave what to whom, and the text of it. */
#include "kit/oom.h"

#include "kit/ops_net.h"
#include "kit/shown.h"
#include "kit/stored_net.h"

#include <stdlib.h>

static lam_graph *graph_of(const lam_model *m) {
    lam_error e = {0};
    lam_graph *g = NULL;
    if (lam_graph_new(&g, m, &e) != LAM_OK) fail_msg("lam_graph_new: %s", e.text);
    return g;
}

static const char *name(const lam_graph *g, int32_t node) { return lam_graph_node(g, node)->name; }

/* "a>b c>d": every edge by the names of its ends. */
static void edges_of(const lam_graph *g, char *text, size_t size) {
    size_t n = 0;
    text[0] = '\0';
    for (int32_t i = 0; i < lam_graph_n_edges(g) && n < size; i++) {
        const lam_edge *e = lam_graph_edge(g, i);
        n += (size_t)snprintf(text + n, size - n, "%s%s>%s", i ? " " : "", name(g, e->from), name(g, e->to));
    }
}

static void views_and_wrappers_are_looked_through(void **state) {
    (void)state;
    lam_model *m = net_residual();
    lam_graph *g = graph_of(m);
    char text[1024];
    edges_of(g, text, sizeof text);
    assert_string_equal(text, "input>aten::convolution conv.weight>aten::convolution "
                              "aten::convolution>aten::relu_ aten::relu_>aten::add input>aten::add "
                              "fc.bias>aten::addmm aten::add>aten::addmm fc.weight>aten::addmm "
                              "aten::add>aten::neg aten::addmm>output");
    lam_graph_free(g);
    lam_model_free(m);
}

/* The first half of the input is written before anything else runs; the sum reads all of it. */
static void a_part_that_was_written_comes_from_its_writer(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0);
    net_place(&n, -1, "", root);
    const lam_op_arg x = D(0, 1, 2, 4), half = V(0, 2, 1, 1, 4), y = D(0, 30, 1);
    int32_t r = net_step_of(&n, root, -1, &x, &y);
    const op_at at = {r, -1, LAM_FORWARD, 0};
    net_op_args(&n, "aten::slice", at, IN(x, I(1, 0), I(2, 0), I(3, 1), I(4, 1)), OUT(half));
    net_op_args(&n, "aten::relu_", at, IN(half), OUT(half));
    net_op_args(&n, "aten::sum", at, IN(x), OUT(y));
    lam_model *m = net_done(&n);
    lam_graph *g = graph_of(m);
    char text[1024];
    edges_of(g, text, sizeof text);
    assert_string_equal(text, "input>aten::relu_ aten::relu_>aten::sum input>aten::sum aten::sum>output");
    lam_graph_free(g);
    lam_model_free(m);
}

static void nodes_tell_what_they_are(void **state) {
    (void)state;
    lam_model *m = net_residual();
    lam_graph *g = graph_of(m);
    const lam_node *in = lam_graph_node(g, 0), *conv = lam_graph_node(g, 1);
    assert_int_equal(in->type, LAM_NODE_INPUT);
    assert_int_equal(in->shape.ndim, 3);
    assert_int_equal(conv->type, LAM_NODE_OP);
    assert_int_equal(conv->call, 1);
    assert_int_equal(conv->phase, LAM_FORWARD);
    assert_int_equal(conv->shape.sizes[1], 4);
    assert_string_equal(lam_model_op(m, conv->index)->sig->name, "aten::convolution");
    assert_null(lam_graph_node(g, -1));
    assert_null(lam_graph_node(g, lam_graph_n_nodes(g)));
    assert_null(lam_graph_edge(g, lam_graph_n_edges(g)));
    lam_graph_free(g);
    lam_model_free(m);
}

/* -- as text ----------------------------------------------------------------------------------- */

static void dot_of(bool ops) {
    lam_model *m = net_residual();
    lam_graph *g = graph_of(m);
    assert_int_equal(lam_graph_dot(g, ops, show_sink(), NULL), LAM_OK);
    lam_graph_free(g);
    lam_model_free(m);
}

static void names_of_strangers_are_quoted(void **state) {
    (void)state;
    dot_of(false);
    show_has("digraph \"Odd \\\"net\\\"\\\\?\" {");
    show_has("[label=\"Odd \\\"net\\\"\\\\?\\nrelu_, add, view\"]");
    assert_string_equal(shown + shown_n - 2, "}\n");
}

static void a_node_is_what_a_call_did_between_others(void **state) {
    (void)state;
    dot_of(false);
    show_has("m0 [label=\"conv\\nConv1d\"]");
    show_has("m2 [label=\"fc\\nLinear\"]");
    show_has("m0 -> m1 [label=\"1×4×8\"]");
    show_has("n0 -> m1 ");
    show_has("m1 -> m2 [label=\"1×32\"]");
    show_has("m2 -> n");
    assert_null(strstr(shown, "m1 -> m1"));
}

/* Net(a, its), whose root does six kinds of work between two calls of `a` and one of `its`; a loss outside of
 * every call, and its backward pass. */
static lam_model *of_everything(void) {
    static const char *const names[] = {"aten::relu",    "aten::exp", "aten::exp", "aten::neg",
                                        "aten::sigmoid", "my::odd",   "aten::tanh"};
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), a = net_leaf(&n, "A"), its = net_module(&n, "It\"s", 0);
    int32_t p = net_place(&n, -1, "", root);
    net_place(&n, p, "a", a);
    net_place(&n, p, "it\"s", its);
    net_numbered(&n, root, "scale", 100, true, NULL, 0);
    lam_op_arg at[16];
    static const int64_t sizes[] = {2, 3};
    for (uint64_t i = 0; i < 16; i++) at[i] = data_of(0, 10 + i, 10 + i, sizes, 2);
    int32_t r = net_step_of(&n, root, -1, &at[0], &at[11]);
    const op_at mine = {r, -1, LAM_FORWARD, LAM_OP_GRAD};
    int32_t one = net_step_of(&n, a, r, &at[0], &at[1]), two = net_step_of(&n, a, r, &at[8], &at[9]),
            three = net_step_of(&n, its, r, &at[9], &at[10]);
    net_op_args(&n, "aten::mm", (op_at){one, -1, LAM_FORWARD, LAM_OP_GRAD}, IN(at[0]), OUT(at[1]));
    for (int i = 0; i < 7; i++) net_op_args(&n, names[i], mine, IN(at[1 + i]), OUT(at[2 + i]));
    net_op_args(&n, "aten::mm", (op_at){two, -1, LAM_FORWARD, LAM_OP_GRAD}, IN(at[8]), OUT(at[9]));
    net_op_args(&n, "aten::add", (op_at){three, -1, LAM_FORWARD, LAM_OP_GRAD}, IN(at[9], at[9]), OUT(at[10]));
    lam_op_arg scale = data_of(1, 100, 100, NULL, 0);
    net_op_args(&n, "aten::mul", mine, IN(at[10], scale), OUT(at[11]));
    lam_op_arg loss = data_of(0, 40, 40, NULL, 0);
    net_op_args(&n, "aten::sum", (op_at){-1, -1, LAM_FORWARD, LAM_OP_GRAD}, IN(at[11]), OUT(loss));
    net_op_args(&n, "aten::expand", (op_at){r, -1, LAM_BACKWARD, 0}, IN(loss), OUT(V(0, 41, 40, 2, 3)));
    net_op_args(&n, "aten::mul", (op_at){r, -1, LAM_BACKWARD, 0}, IN(V(0, 41, 40, 2, 3)), OUT(at[12]));
    net_op_args(&n, "aten::mm", (op_at){one, -1, LAM_RECOMPUTE, 0}, IN(at[0]), OUT(at[13]));
    return net_done(&n);
}

static void whole_drawings(void **state) {
    (void)state;
    lam_model *m = of_everything();
    lam_graph *g = graph_of(m);
    for (int ops = 0; ops < 2; ops++) {
        assert_int_equal(lam_graph_dot(g, ops, show_sink(), NULL), LAM_OK);
        show_golden(ops ? "graph-operators" : "graph-modules", true);
    }
    lam_graph_free(g);
    lam_model_free(m);
}

/* Each of a model's results has a node of its own. */
static void two_results(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), a = net_leaf(&n, "A"), b = net_leaf(&n, "B"), calls[3];
    int32_t p = net_place(&n, -1, "", root);
    net_place(&n, p, "a", a);
    net_place(&n, p, "b", b);
    const lam_op_arg x = D(0, 1, 2, 3), y = D(0, 2, 2, 3), z = D(0, 3, 5);
    const lam_arg in = {NULL, 0, NET_FLOAT32, 0, 2, x.sizes, 1, 1, 1};
    const lam_arg out[] = {{NULL, 0, NET_FLOAT32, 0, 2, y.sizes, 2, 2, 2},
                           {NULL, 1, NET_FLOAT32, 0, 1, z.sizes, 3, 3, 3}};
    for (int i = 0; i < 3; i++) {
        const lam_call_info c = {.module = i,
                                 .parent = i ? calls[0] : -1,
                                 .n_in = 1,
                                 .in = &in,
                                 .n_out = i ? 1 : 2,
                                 .out = i ? &out[i - 1] : out};
        NET_OK(&n, lam_build_call(n.b, &c, &calls[i], &n.e));
    }
    net_op_args(&n, "aten::neg", (op_at){calls[1], -1, LAM_FORWARD, 0}, IN(x), OUT(y));
    net_op_args(&n, "aten::sum", (op_at){calls[2], -1, LAM_FORWARD, 0}, IN(x), OUT(z));
    lam_model *m = net_done(&n);
    lam_graph *g = graph_of(m);
    int32_t results[2], found = 0;
    for (int32_t i = 0; i < lam_graph_n_nodes(g); i++)
        if (lam_graph_node(g, i)->type == LAM_NODE_OUTPUT) results[found++ % 2] = i;
    assert_int_equal(found, 2);
    for (int i = 0; i < 2; i++) assert_string_equal(name(g, results[i]), i ? "output 1" : "output 0");
    assert_int_equal(lam_graph_dot(g, false, show_sink(), NULL), LAM_OK);
    for (int i = 0; i < 2; i++) {
        char edge[80];
        snprintf(edge, sizeof edge, "m%d -> n%d [label=\"%s\"]", i, (int)results[i], i ? "5" : "2×3");
        show_has(edge);
    }
    lam_graph_free(g);
    lam_model_free(m);
}

static void operators_are_nodes_too(void **state) {
    (void)state;
    dot_of(true);
    show_has("[label=\"aten::convolution\\nconv\"]");
    show_has("[label=\"fc.weight\\n2×32\", shape=cylinder");
    show_has("[label=\"1×4×8\"]");
}

/* A layer may be called by itself, before the model: its operators say where they ran too. */
static void the_first_call_is_not_the_models(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), a = net_leaf(&n, "A");
    net_place(&n, net_place(&n, -1, "", root), "a", a);
    const lam_op_arg x = D(0, 1, 2), y = D(0, 2, 2), z = D(0, 3, 2);
    int32_t alone = net_step_of(&n, a, -1, &x, &y), all = net_step_of(&n, root, -1, &y, &z);
    net_op_args(&n, "aten::neg", (op_at){alone, -1, LAM_FORWARD, 0}, IN(x), OUT(y));
    net_op_args(&n, "aten::exp", (op_at){all, -1, LAM_FORWARD, 0}, IN(y), OUT(z));
    lam_model *m = net_done(&n);
    lam_graph *g = graph_of(m);
    assert_int_equal(lam_graph_dot(g, true, show_sink(), NULL), LAM_OK);
    show_has("[label=\"aten::neg\\na\"]");
    show_has("[label=\"aten::exp\"]");
    lam_graph_free(g);
    lam_model_free(m);
}

/* -- what is in vain --------------------------------------------------------------------------- */

static void expect_unused(const lam_graph *g, const char *path, const char *part) {
    const char *at, *reason = NULL;
    for (int32_t i = 0; (at = lam_graph_unused(g, i, &reason)) != NULL; i++)
        if (strcmp(at, path) == 0) break;
    if (!at) fail_msg("'%s' is not among the unused", path);
    if (!strstr(reason, part)) fail_msg("'%s' is unused because %s", path, reason);
}

static void expect_deaf(const lam_graph *g, const char *name_of, const char *part) {
    const char *at, *reason = NULL;
    for (int32_t i = 0; (at = lam_graph_no_gradient(g, i, &reason)) != NULL; i++)
        if (strcmp(at, name_of) == 0) break;
    if (!part && !at) return;
    if (!part || !at) fail_msg("%s %s", name_of, at ? reason : "gets a gradient");
    if (!strstr(reason, part)) fail_msg("%s gets none because %s", name_of, reason);
}

/* Net(weight): neg(weight) + x, where operators read tensor `number` in the weight's place. */
static lam_graph *wrapped_graph(uint64_t number, bool alias, bool detached, lam_model **m) {
    net n = net_new();
    int32_t root = net_leaf(&n, "Net");
    net_place(&n, -1, "", root);
    int32_t t = net_wrapped(&n, root, "weight", 100, SH(2, 8), 16, 16);
    if (alias) NET_OK(&n, lam_build_alias(n.b, t, number, number, &n.e));
    const lam_op_arg x = D(0, 1, 2, 8), y = D(0, 5, 2, 8);
    const op_at at = {net_step_of(&n, root, -1, &x, &y), -1, LAM_FORWARD, LAM_OP_GRAD};
    net_op_args(&n, detached ? "aten::detach" : "aten::neg", at, IN(D(0, number, 2, 8)), OUT(D(0, 3, 2, 8)));
    net_op_args(&n, "aten::add", at, IN(x, D(1, 3, 2, 8)), OUT(y));
    /* The optimizer reads the tensor itself, outside every call. */
    net_op_args(&n, "aten::add_", (op_at){-1, -1, LAM_FORWARD, 0}, IN(D(0, 100, 2, 8)), OUT(D(0, 100, 2, 8)));
    *m = net_done(&n);
    return graph_of(*m);
}

/* Whether a tensor that wraps others gets a gradient is known only if it was read itself, or in its alias. */
static void what_wraps_others_may_be_read_in_them(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        lam_model *m;
        lam_graph *g = wrapped_graph(i == 3 ? 100 : 200, i == 1 || i == 2, i >= 2, &m);
        expect_deaf(g, "weight", i < 2 ? NULL : "aten::detach in the model's own work passes no gradient on");
        lam_graph_free(g);
        lam_model_free(m);
    }
}

static void results_that_nothing_uses(void **state) {
    (void)state;
    lam_model *m = net_residual();
    lam_graph *g = graph_of(m);
    const char *reason;
    expect_unused(g, "", "what aten::neg gives in it reaches no output");
    assert_null(lam_graph_unused(g, 1, &reason));
    expect_deaf(g, "fc.bias", "requires_grad is False");
    assert_null(lam_graph_no_gradient(g, 1, NULL));
    assert_null(lam_graph_no_gradient(g, -1, NULL));
    lam_graph_free(g);
    lam_model_free(m);
}

/* A kernel inside linear may read what linear was given by a way that nobody saw, so that is needed. */
static void what_a_wrapper_was_given_is_used(void **state) {
    (void)state;
    for (int read = 0; read < 2; read++) {
        net n = net_new();
        int32_t root = net_leaf(&n, "Linear");
        net_numbered(&n, root, "weight", 100, true, SH(2, 2));
        net_place(&n, -1, "", root);
        const lam_op_arg x = D(0, 1, 2, 2), h = D(0, 10, 2, 2), y = D(0, 14, 2, 2), w = D(1, 100, 2, 2);
        const op_at at = {net_step_of(&n, root, -1, &x, &y), -1, LAM_FORWARD, 0};
        net_op_args(&n, "aten::neg", at, IN(x), OUT(h));
        int32_t outer = net_op_args(&n, "aten::linear", at, IN(read ? h : x, w), OUT(y));
        net_op_args(&n, "aten::addmm", (op_at){at.call, outer, LAM_FORWARD, 0}, IN(w), OUT(y));
        lam_model *m = net_done(&n);
        lam_graph *g = graph_of(m);
        if (read)
            assert_null(lam_graph_unused(g, 0, NULL));
        else
            expect_unused(g, "", "what aten::neg gives in it reaches no output");
        lam_graph_free(g);
        lam_model_free(m);
    }
}

/* Net(a, b, c, d, spare): a(x) is the output; b's goes nowhere; c's is detached, d's made a number. */
static lam_model *in_vain(bool output_seen) {
    static const char *const names[] = {"a", "b", "c", "d", "spare"};
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), p = net_place(&n, -1, "", root), of[5];
    for (int i = 0; i < 5; i++) {
        of[i] = net_leaf(&n, "Linear");
        net_numbered(&n, of[i], "weight", 100 + (uint64_t)i, true, SH(2, 2));
        net_place(&n, p, names[i], of[i]);
    }
    const lam_op_arg x = D(0, 1, 2, 2), out = D(0, output_seen ? 50u : 0u, 2, 2);
    int32_t r = net_step_of(&n, root, -1, &x, &out), call[4];
    static const int64_t square[] = {2, 2};
    lam_op_arg y[4];
    for (int i = 0; i < 4; i++) {
        y[i] = data_of(0, 10 + (uint64_t)i, 10 + (uint64_t)i, square, 2);
        call[i] = net_step_of(&n, of[i], r, &x, &y[i]);
    }
    for (int i = 0; i < 4; i++)
        net_op_args(&n, "aten::mm", (op_at){call[i], -1, LAM_FORWARD, 0},
                    IN(x, D(1, 100 + (uint64_t)i, 2, 2)), OUT(y[i]));
    const op_at mine = {r, -1, LAM_FORWARD, 0};
    lam_op_arg index = D(0, 41, 2, 2);
    index.dtype = NET_INT64;
    net_op_args(&n, "aten::detach", mine, IN(D(0, 12, 2, 2)), OUT(V(0, 40, 12, 2, 2)));
    net_op_args(&n, "aten::argmax", mine, IN(D(0, 13, 2, 2)), OUT(index));
    index.position = 2;
    net_op_args(&n, "aten::where", mine, IN(index, D(1, 10, 2, 2), V(2, 40, 12, 2, 2)), OUT(out));
    return net_done(&n);
}

/* What a forward differentiates itself, for a penalty, may be what nothing else reads. */
static void a_backward_inside_a_forward(void **state) {
    (void)state;
    for (int inside = 0; inside < 2; inside++) {
        net n = net_new();
        int32_t root = net_leaf(&n, "Net");
        net_place(&n, -1, "", root);
        const lam_op_arg x = D(0, 1, 2), y = D(0, 5, 2);
        lam_arg in = {NULL, 0, NET_FLOAT32, 0, 1, x.sizes, 1, 1, 1},
                out = {NULL, 0, NET_FLOAT32, 0, 1, y.sizes, 5, 5, 5};
        const lam_call_info call = {.module = root,
                                    .parent = -1,
                                    .t0_ns = 1,
                                    .t1_ns = 9,
                                    .n_in = 1,
                                    .in = &in,
                                    .n_out = 1,
                                    .out = &out};
        int32_t r;
        NET_OK(&n, lam_build_call(n.b, &call, &r, &n.e));
        net_op_args(&n, "aten::exp", (op_at){r, -1, LAM_FORWARD, 0}, IN(x), OUT(D(0, 2, 2)));
        net_op_args(&n, "aten::mul", (op_at){r, -1, inside ? LAM_BACKWARD : LAM_FORWARD, 0},
                    IN(D(0, 1, 2), D(1, 1, 2)), OUT(D(0, 3, 2)));
        net_op_args(&n, "aten::add", (op_at){r, -1, LAM_FORWARD, 0}, IN(D(0, 3, 2), D(1, 1, 2)), OUT(y));
        lam_model *m = net_done(&n);
        lam_graph *g = graph_of(m);
        if (inside)
            assert_null(lam_graph_unused(g, 0, NULL));
        else
            expect_unused(g, "", "what aten::exp gives in it reaches no output");
        lam_graph_free(g);
        lam_model_free(m);
    }
}

/* What is cleared in place still comes from the parameter, the whole of it too: torch passes on a gradient.
 */
static void what_is_cleared_in_place(void **state) {
    (void)state;
    for (int whole = 0; whole < 2; whole++) {
        net n = net_new();
        int32_t root = net_leaf(&n, "Net");
        net_place(&n, -1, "", root);
        net_numbered(&n, root, "weight", 100, true, SH(2, 8));
        const lam_op_arg x = D(0, 1, 2, 8), y = D(0, 5, 2, 8), part = V(0, 3, 2, 2, 1);
        const op_at at = {net_step_of(&n, root, -1, &x, &y), -1, LAM_FORWARD, LAM_OP_GRAD};
        net_op_args(&n, "aten::clone", at, IN(D(0, 100, 2, 8)), OUT(D(0, 2, 2, 8)));
        if (!whole)
            net_op_args(&n, "aten::slice", at, IN(D(0, 2, 2, 8), N(1, 1), N(2, 0), N(3, 1), N(4, 1)),
                        OUT(part));
        net_op_args(&n, "aten::zero_", at, IN(whole ? D(0, 2, 2, 8) : part),
                    OUT(whole ? D(0, 2, 2, 8) : part));
        net_op_args(&n, "aten::add", at, IN(x, D(1, 2, 2, 8)), OUT(y));
        lam_model *m = net_done(&n);
        lam_graph *g = graph_of(m);
        assert_null(lam_graph_no_gradient(g, 0, NULL));
        assert_null(lam_graph_unused(g, 0, NULL));
        lam_graph_free(g);
        lam_model_free(m);
    }
}

/* The first forward of a lazy layer makes the memory of its parameter, and fills it without gradients. */
static void a_parameter_that_the_forward_makes(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_leaf(&n, "Net");
    net_place(&n, -1, "", root);
    net_numbered(&n, root, "weight", 100, true, SH(2, 8));
    const lam_op_arg x = D(0, 1, 2, 8), y = D(0, 5, 2, 8), weight = V(0, 100, 50, 2, 8);
    const op_at at = {net_step_of(&n, root, -1, &x, &y), -1, LAM_FORWARD, LAM_OP_GRAD},
                quiet = {at.call, -1, LAM_FORWARD, 0};
    net_op_args(&n, "aten::empty", quiet, IN(I(0, 2, 8)), OUT(D(0, 50, 2, 8)));
    net_op_args(&n, "aten::uniform_", quiet, IN(weight, N(1, 0), N(2, 1)), OUT(weight));
    net_op_args(&n, "aten::mul", at, IN(x, V(1, 100, 50, 2, 8)), OUT(y));
    lam_model *m = net_done(&n);
    lam_graph *g = graph_of(m);
    expect_deaf(g, "weight", NULL);
    lam_graph_free(g);
    lam_model_free(m);
}

static void reasons_without_a_gradient(void **state) {
    (void)state;
    lam_model *m = in_vain(true);
    lam_graph *g = graph_of(m);
    expect_unused(g, "b", "its output reaches no output");
    expect_unused(g, "spare", "never called");
    expect_deaf(g, "a.weight", NULL);
    expect_deaf(g, "b.weight", "what is computed from it reaches no output");
    expect_deaf(g, "c.weight", "aten::detach");
    expect_deaf(g, "d.weight", "aten::argmax in the model's own work");
    expect_deaf(g, "spare.weight", "its module was never called");
    lam_graph_free(g);
    lam_model_free(m);
}

/* x goes through `a` and `b` beside it, and both are added up; `flags` are of what `b` runs. Its operator is
 * inside one of somebody's own if `inside`. What is written in place keeps its gradient. */
static lam_model *blocks(uint32_t a_flags, uint32_t b_flags, bool inside) {
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), a = net_leaf(&n, "Linear"), b = net_leaf(&n, "Linear");
    net_numbered(&n, a, "weight", 100, true, SH(4, 4));
    net_numbered(&n, b, "weight", 101, true, SH(4, 4));
    int32_t p = net_place(&n, -1, "", root);
    net_place(&n, p, "a", a);
    net_place(&n, p, "b", b);
    const lam_op_arg x = D(0, 1, 4, 4), h = D(0, 10, 4, 4), k = D(0, 11, 4, 4), y = D(0, 12, 4, 4);
    int32_t r = net_step_of(&n, root, -1, &x, &y), in_a = net_step_of(&n, a, r, &x, &h),
            in_b = net_step_of(&n, b, r, &x, &k), around = -1;
    net_op_args(&n, "aten::mm", (op_at){in_a, -1, LAM_FORWARD, a_flags}, IN(x, D(1, 100, 4, 4)), OUT(h));
    net_op_args(&n, "aten::clamp_", (op_at){r, -1, LAM_FORWARD, 0}, IN(h), OUT(h));
    if (inside) around = net_op(&n, "Mine", (op_at){in_b, -1, LAM_FORWARD, LAM_OP_NODE | LAM_OP_GRAD});
    net_op_args(&n, "aten::mm", (op_at){in_b, around, LAM_FORWARD, b_flags}, IN(x, D(1, 101, 4, 4)), OUT(k));
    net_op_args(&n, "aten::add", (op_at){r, -1, LAM_FORWARD, a_flags}, IN(h, D(1, 11, 4, 4)), OUT(y));
    return net_done(&n);
}

static void what_runs_without_gradients(void **state) {
    (void)state;
    static const struct {
        uint32_t a, b;
        bool inside;
        const char *reason;
    } cases[] = {
        {LAM_OP_GRAD, 0, false, "aten::mm in b ran without gradients (no_grad)"},
        {LAM_OP_GRAD, LAM_OP_GRAD, false, NULL},
        {LAM_OP_GRAD, 0, true, NULL},
        {0, 0, false, NULL}, /* nobody wanted any: a block is not told from the rest */
        {0, 0, true, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lam_model *m = blocks(cases[i].a, cases[i].b, cases[i].inside);
        lam_graph *g = graph_of(m);
        expect_deaf(g, "a.weight", NULL);
        expect_deaf(g, "b.weight", cases[i].reason);
        lam_graph_free(g);
        lam_model_free(m);
    }
}

/* Where an output's origin was not seen, only what needs no graph is told. */
static void without_the_outputs_little_is_told(void **state) {
    (void)state;
    lam_model *m = in_vain(false);
    lam_graph *g = graph_of(m);
    const char *reason;
    expect_unused(g, "spare", "never called");
    assert_null(lam_graph_unused(g, 1, &reason));
    assert_null(lam_graph_no_gradient(g, 0, &reason));
    lam_graph_free(g);
    lam_model_free(m);
}

/* relu(x) * w, and a backward pass that gave w a gradient, or none, or nobody looked; no operator reads the
 * other parameter, which had one too. */
static lam_graph *shown_by(int came, lam_model **m) {
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0);
    int32_t w = net_numbered(&n, root, "w", 100, true, SH(2)),
            odd = net_numbered(&n, root, "odd", 101, true, SH(2));
    net_place(&n, -1, "", root);
    lam_op_arg x = D(0, 1, 2), y = D(0, 2, 2), z = D(0, 3, 2);
    int32_t call = net_step_of(&n, root, -1, &x, &z);
    const op_at mine = {call, -1, LAM_FORWARD, 0};
    net_op_args(&n, "aten::relu", mine, IN(x), OUT(y));
    net_op_args(&n, "aten::mul", mine, IN(y, D(1, 100, 2)), OUT(z));
    if (came) NET_OK(&n, lam_build_gradient(n.b, w, came > 0, &n.e));
    if (came) NET_OK(&n, lam_build_gradient(n.b, odd, true, &n.e));
    assert_int_equal(lam_build_gradient(n.b, 2, true, &n.e), LAM_RANGE);
    *m = net_done(&n);
    assert_int_equal(lam_model_tensor(*m, w)->gradient, came);
    return graph_of(*m);
}

static void a_backward_pass_shows_more_than_the_graph(void **state) {
    (void)state;
    for (int came = -1; came <= 1; came++) {
        lam_model *m;
        lam_graph *g = shown_by(came, &m);
        expect_deaf(g, "w", came < 0 ? "the backward pass brought it none" : NULL);
        expect_deaf(g, "odd", came ? NULL : "no operator of the forward reads it");
        lam_graph_free(g);
        lam_model_free(m);
    }
}

/* -- where there is none ----------------------------------------------------------------------- */

static void without_operators_there_is_a_sentence(void **state) {
    (void)state;
    lam_error e = {0};
    lam_model *m = net_two_parents(false), *seen = net_residual();
    lam_graph *g = graph_of(seen), *before = g;
    assert_int_equal(lam_graph_new(&g, m, &e), LAM_USAGE);
    assert_non_null(strstr(e.text, "ops=True"));
    assert_null(g);
    lam_graph_free(before);
    lam_model_free(seen);
    assert_int_equal(lam_graph_new(NULL, m, NULL), LAM_USAGE);
    assert_int_equal(lam_graph_new(&g, NULL, NULL), LAM_USAGE);
    lam_model_free(m);
}

/* Nothing tells one tensor from another, so there is no graph, and not an empty one. */
static void blind_operators_have_none(void **state) {
    (void)state;
    lam_error e = {0};
    lam_graph *g = NULL;
    net n = net_new();
    net_relu(&n, (op_at){-1, -1, LAM_FORWARD, 0}, 4);
    lam_model *m = net_done(&n), *seen = net_residual();
    assert_false(lam_model_traced(m));
    assert_true(lam_model_traced(seen));
    assert_int_equal(lam_graph_new(&g, m, &e), LAM_UNSUPPORTED);
    assert_non_null(strstr(e.text, "this torch does not tell"));
    assert_null(g);
    lam_model_free(m);
    lam_model_free(seen);
}

static void an_empty_model_has_an_empty_graph(void **state) {
    (void)state;
    net n = net_new();
    NET_OK(&n, lam_build_ops_seen(n.b, &n.e));
    lam_model *m = net_done(&n);
    lam_graph *g = graph_of(m);
    assert_int_equal(lam_graph_n_nodes(g), 0);
    assert_int_equal(lam_graph_dot(g, false, show_sink(), NULL), LAM_OK);
    assert_int_equal(lam_graph_dot(g, true, show_sink(), NULL), LAM_OK);
    lam_graph_free(g);
    lam_model_free(m);
}

static void draw(void *arg, bool *ok) {
    lam_graph *g = NULL;
    lam_error e = {0};
    lam_status s = lam_graph_new(&g, arg, &e);
    if (s == LAM_OK) s = lam_graph_dot(g, false, show_sink(), &e);
    if (s == LAM_OK) s = lam_graph_dot(g, true, show_sink(), &e);
    *ok = oom_check(s, &e);
    lam_graph_free(g);
}

static void memory_may_run_out(void **state) {
    (void)state;
    lam_model *m = net_residual();
    oom_sweep(draw, m);
    lam_model_free(m);
}

static void a_sink_may_refuse(void **state) {
    (void)state;
    lam_model *m = net_residual();
    lam_graph *g = graph_of(m);
    assert_int_equal(lam_graph_dot(g, false, show_refusing(), NULL), LAM_IO);
    lam_graph_free(g);
    lam_model_free(m);
    lam_graph_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_and_wrappers_are_looked_through),
        cmocka_unit_test(a_part_that_was_written_comes_from_its_writer),
        cmocka_unit_test(nodes_tell_what_they_are),
        cmocka_unit_test(names_of_strangers_are_quoted),
        cmocka_unit_test(a_node_is_what_a_call_did_between_others),
        cmocka_unit_test(operators_are_nodes_too),
        cmocka_unit_test(whole_drawings),
        cmocka_unit_test(two_results),
        cmocka_unit_test(the_first_call_is_not_the_models),
        cmocka_unit_test(a_backward_inside_a_forward),
        cmocka_unit_test(what_is_cleared_in_place),
        cmocka_unit_test(a_parameter_that_the_forward_makes),
        cmocka_unit_test(what_wraps_others_may_be_read_in_them),
        cmocka_unit_test(results_that_nothing_uses),
        cmocka_unit_test(what_a_wrapper_was_given_is_used),
        cmocka_unit_test(reasons_without_a_gradient),
        cmocka_unit_test(what_runs_without_gradients),
        cmocka_unit_test(without_the_outputs_little_is_told),
        cmocka_unit_test(a_backward_pass_shows_more_than_the_graph),
        cmocka_unit_test(without_operators_there_is_a_sentence),
        cmocka_unit_test(blind_operators_have_none),
        cmocka_unit_test(an_empty_model_has_an_empty_graph),
        cmocka_unit_test(memory_may_run_out),
        cmocka_unit_test(a_sink_may_refuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
