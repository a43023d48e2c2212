/* SPDX-License-Identifier: Apache-2.0
 *
 * Models from ONNX files: whole ones, damaged ones, and such that lie. */
#include "kit/onnx.h"

/* -- what is read ------------------------------------------------------------------------------------------
 */

static void the_layers_of_a_file_have_their_costs(void **state) {
    (void)state;
    const char *file = LAMINA_TEST_DATA "/files/image.onnx";
    assert_string_equal(lam_read_format(file), "ONNX");
    lam_model *m = opened(file);
    lam_costs *c = costs_of(m);
    is_exactly(lam_costs_total(c, LAM_MACS), 8 * 8 * 8 * 27 + 10 * 128);
    is_exactly(row_of(c, "stem.conv")->metric[LAM_MACS], 8 * 8 * 8 * 27);
    is_exactly(row_of(c, "stem.conv")->params, 8 * 27 + 8);
    is_exactly(row_of(c, "head")->params, 1290);
    is_exactly(lam_costs_params(c).params, 224 + 1290);
    assert_int_equal(lam_costs_params(c).grad_params.state, LAM_UNKNOWN);
    assert_string_equal(lam_model_told(m, "format"), "ONNX 9, opset 20");
    lam_costs_free(c);
    lam_model_free(m);
}

/* Parameters in initialisers, in a Constant, sparse, in fields of their type, and in another file. */
static void what_a_file_leaves_open_is_unknown(void **state) {
    (void)state;
    lam_model *m = opened(LAMINA_TEST_DATA "/files/odd.onnx");
    lam_costs *c = costs_of(m);
    is_exactly(lam_costs_params(c).params, 16 + 4 + 16 + 20 + 8);
    assert_int_equal(lam_costs_total(c, LAM_MACS).state, LAM_UNKNOWN);
    assert_non_null(strstr(lam_model_note(m, 0), "x (n×4)"));
    assert_non_null(strstr(lam_model_note(m, 1), "other files"));
    lam_costs_free(c);
    lam_model_free(m);
}

static void nodes_are_put_after_what_they_read(void **state) {
    (void)state;
    lmi_buf g = begun();
    put_node(&g, "Relu b c -");
    put_node(&g, "MatMul a,w b -");
    put_tensor(&g, 5, "w 1 4,2 32");
    put_stated(&g, 11, "a 3,4");
    put_stated(&g, 12, "c 3,2");
    save_graph("order.onnx", &g);
    lam_model *m = opened("order.onnx");
    lam_costs *c = costs_of(m);
    is_exactly(lam_costs_total(c, LAM_MACS), 3 * 2 * 4);
    is_exactly(lam_costs_total(c, LAM_FLOPS), 2 * 3 * 2 * 4 + 6);
    assert_string_equal(lam_model_module(m, row_of(c, "b")->module)->type, "MatMul");
    lam_costs_free(c);
    lam_model_free(m);
}

/* An initialiser that two modules read is one tensor of both. */
static void a_shared_initialiser_counts_once(void **state) {
    (void)state;
    lmi_buf g = begun();
    put_node(&g, "MatMul a,w b /one/MatMul");
    put_node(&g, "MatMul b,w c /two/MatMul");
    put_tensor(&g, 5, "w 1 4,4 64");
    put_stated(&g, 11, "a 3,4");
    put_stated(&g, 12, "c 3,4");
    save_graph("shared.onnx", &g);
    lam_model *m = opened("shared.onnx");
    lam_costs *c = costs_of(m);
    is_exactly(lam_costs_params(c).params, 16);
    is_exactly(lam_costs_total(c, LAM_MACS), 2 * 3 * 4 * 4);
    is_exactly(row_of(c, "one")->params, 16);
    assert_true(row_of(c, "two")->shared);
    lam_costs_free(c);
    lam_model_free(m);
}

/* -- bodies ------------------------------------------------------------------------------------------------
 */

/* Adds a graph that a node runs, and frees it. */
static void put_body(lmi_buf *node, const char *name, lmi_buf *graph) {
    lmi_buf a = begun();
    put_word(&a, 1, name);
    put_message(&a, 6, graph);
    put_message(node, 5, &a);
}

/* A constant of one element, without axes: BOOL or INT64. */
static void put_scalar(lmi_buf *graph, const char *name, int type, uint64_t n) {
    lmi_buf t = begun(), data = begun();
    put_le(&data, n, type == 9 ? 1 : 8);
    put_number(&t, 2, (uint64_t)type);
    put_word(&t, 8, name);
    put_message(&t, 9, &data);
    put_message(graph, 5, &t);
}

enum { BOOL = 9, INT64 = 7, AN_INPUT = -1 };

/* "cond", or a constant of its value; "in" names the data, and "out" the result. */
static lmi_buf choice(const char *cond, const char *in, const char *out) {
    char words[64];
    snprintf(words, sizeof words, "If %s %s -", cond, out);
    lmi_buf node = node_of(words), then = begun(), other = begun();
    snprintf(words, sizeof words, "MatMul %s,a.weight %s_t /a/MatMul", in, out);
    put_node(&then, words);
    snprintf(words, sizeof words, "%s_t 3,4", out);
    put_stated(&then, 12, words);
    snprintf(words, sizeof words, "MatMul %s,b.weight %s_u /b/MatMul", in, out);
    put_node(&other, words);
    snprintf(words, sizeof words, "MatMul %s_u,c.weight %s_e /c/MatMul", out, out);
    put_node(&other, words);
    snprintf(words, sizeof words, "%s_e 3,4", out);
    put_stated(&other, 12, words);
    put_body(&node, "then_branch", &then);
    put_body(&node, "else_branch", &other);
    return node;
}

static void put_weights(lmi_buf *g) {
    put_tensor(g, 5, "a.weight 1 4,4 64");
    put_tensor(g, 5, "b.weight 1 4,8 128");
    put_tensor(g, 5, "c.weight 1 8,4 128");
    put_stated(g, 11, "x 3,4");
    put_stated(g, 12, "y 3,4");
}

static void is_called(lam_costs *c, const char *path, int calls, bool inside) {
    const lam_module *m = lam_model_module(lam_costs_model(c), row_of(c, path)->module);
    assert_int_equal(m->n_calls, calls);
    if (!calls) assert_int_equal((m->flags & LAM_MODULE_INSIDE) != 0, inside);
}

/* The branch that is not taken is never called. Where values choose, neither branch is seen, and the cost is
 * unknown. */
static void a_branch_that_constants_choose_counts_alone(void **state) {
    (void)state;
    for (int cond = AN_INPUT; cond < 2; cond++) {
        lmi_buf g = begun(), node = choice("cond", "x", "y");
        put_message(&g, 1, &node);
        put_weights(&g);
        if (cond == AN_INPUT)
            put_stated(&g, 11, "cond 1");
        else
            put_scalar(&g, "cond", BOOL, (uint64_t)cond);
        save_graph("if.onnx", &g);
        lam_model *m = opened("if.onnx");
        lam_costs *c = costs_of(m);
        is_exactly(lam_costs_params(c).params, 16 + 32 + 32);
        if (cond == AN_INPUT)
            assert_int_equal(lam_costs_total(c, LAM_MACS).state, LAM_UNKNOWN);
        else
            is_exactly(lam_costs_total(c, LAM_MACS), cond ? 3 * 4 * 4 : 2 * 3 * 4 * 8);
        is_called(c, "a", cond == 1, cond == AN_INPUT);
        is_called(c, "b", cond == 0, cond == AN_INPUT);
        is_called(c, "c", cond == 0, cond == AN_INPUT);
        assert_int_equal(lam_model_event(m, 0)->n_in, cond == AN_INPUT ? 2 : 1);
        lam_costs_free(c);
        lam_model_free(m);
    }
}

/* A branch in a branch: in the one that is taken values may choose; what is in the other one never runs. */
static void branches_in_branches_are_chosen_alike(void **state) {
    (void)state;
    for (int cond = 0; cond < 2; cond++) {
        lmi_buf g = begun(), node = node_of("If outer y -"), then = begun(), other = begun();
        lmi_buf inner = choice("cond", "x", "z");
        put_message(&then, 1, &inner);
        put_stated(&then, 12, "z 3,4");
        put_node(&other, "MatMul x,a.weight v /a/MatMul_1");
        put_stated(&other, 12, "v 3,4");
        put_body(&node, "then_branch", &then);
        put_body(&node, "else_branch", &other);
        put_message(&g, 1, &node);
        put_weights(&g);
        put_stated(&g, 11, "cond 1");
        put_scalar(&g, "outer", BOOL, (uint64_t)cond);
        save_graph("if.onnx", &g);
        lam_model *m = opened("if.onnx");
        lam_costs *c = costs_of(m);
        if (cond)
            assert_int_equal(lam_costs_total(c, LAM_MACS).state, LAM_UNKNOWN);
        else
            is_exactly(lam_costs_total(c, LAM_MACS), 3 * 4 * 4);
        is_called(c, "a", cond == 0, true);
        is_called(c, "b", 0, cond == 1);
        lam_costs_free(c);
        lam_model_free(m);
    }
}

/* A loop around a product, n times; its condition is a constant, or what the body gives it. */
static lmi_buf repeated(const char *trips, const char *cond, const char *in, const char *out,
                        lmi_buf *inner) {
    char words[64];
    snprintf(words, sizeof words, "Loop %s,%s,%s %s -", trips, cond, in, out);
    lmi_buf node = node_of(words), body = begun();
    snprintf(words, sizeof words, "%s_i 1", out);
    put_stated(&body, 11, words);
    snprintf(words, sizeof words, "%s_c 1", out);
    put_stated(&body, 11, words);
    snprintf(words, sizeof words, "%s_h 3,4", out);
    put_stated(&body, 11, words);
    snprintf(words, sizeof words, "Identity %s_c %s_on -", out, out);
    put_node(&body, words);
    if (inner) {
        put_message(&body, 1, inner);
    } else {
        snprintf(words, sizeof words, "MatMul %s_h,a.weight %s_r /a/MatMul", out, out);
        put_node(&body, words);
    }
    snprintf(words, sizeof words, "%s_on 1", out);
    put_stated(&body, 12, words);
    snprintf(words, sizeof words, "%s_r 3,4", out);
    put_stated(&body, 12, words);
    put_body(&node, "body", &body);
    return node;
}

/* MACs of a file whose loop's trips, and the trips of a loop in it unless they are 0, are constants; -1:
 * unknown. */
static int64_t macs_of_loops(uint64_t trips, uint64_t within) {
    lmi_buf g = begun(), inner = repeated("m", "yes", "y_h", "y_r", NULL);
    lmi_buf node = repeated("n", "yes", "x", "y", within ? &inner : NULL);
    if (!within) lmi_buf_free(&inner);
    put_message(&g, 1, &node);
    put_tensor(&g, 5, "a.weight 1 4,4 64");
    put_stated(&g, 11, "x 3,4");
    put_stated(&g, 12, "y 3,4");
    put_scalar(&g, "n", INT64, trips);
    put_scalar(&g, "m", INT64, within);
    put_scalar(&g, "yes", BOOL, 1);
    save_graph("loop.onnx", &g);
    lam_model *m = opened("loop.onnx");
    lam_costs *c = costs_of(m);
    const lam_count n = lam_costs_total(c, LAM_MACS);
    is_called(c, "a", n.state == LAM_EXACT && trips > 0, n.state == LAM_UNKNOWN);
    lam_costs_free(c);
    lam_model_free(m);
    return n.state == LAM_EXACT ? n.n : -1;
}

/* Loops that run more often than is followed are unknown, and the rest of the file is read. */
static void a_loop_of_constant_trips_counts_each_of_them(void **state) {
    (void)state;
    static const uint64_t trips[] = {0, 1, 2, 1000, 5000, 20000};
    for (size_t i = 0; i < sizeof trips / sizeof *trips; i++)
        assert_int_equal(macs_of_loops(trips[i], 0), trips[i] * 3 * 4 * 4);
    assert_int_equal(macs_of_loops(3, 5), 3 * 5 * 3 * 4 * 4);
    assert_int_equal(macs_of_loops(1, 5), 5 * 3 * 4 * 4);
    assert_int_equal(macs_of_loops(0, 5), 0);
    assert_int_equal(macs_of_loops(30000, 0), -1);
    assert_int_equal(macs_of_loops(4000, 6), -1);
    assert_int_equal(macs_of_loops(UINT64_C(1) << 62, 0), -1);
    assert_int_equal(macs_of_loops(1000, UINT64_C(1) << 62), -1);
}

/* -- what is refused ---------------------------------------------------------------------------------------
 */

static void refused_bytes(const char *bytes, size_t n, lam_status how, const char *part) {
    lmi_buf b = begun();
    lmi_putn(&b, bytes, n);
    save_bytes("bad.onnx", &b);
    lmi_buf_free(&b);
    refused("bad.onnx", how, part);
}

static void wires_that_are_damaged_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
        const char *part;
    } cases[] = {
        {"\x08\x08\x3a\x7f\x0a", 5, "longer than its message, at byte 2"},
        {"\x08\x08\x3a\x03\x0a\x7f\x01", 7, "longer than its message, at byte 4"},
        {"\x08\x08\x3a\x04\x0a\x02\x0b\x00", 8, "such as a group"},
        {"\x08\x08\x3a\x03\x0a\x01\x80", 7, "does not end in its message"},
        {"\x08\x08\x3a\x0e\x0a\x0c\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 18, "more than 64 bits"},
        {"\x08\x08\x3a\x04\x0a\x02\x00\x01", 8, "without a number"},
        {"\x08\x08\x3a\x04\x0a\x02\x08\x01", 8, "another kind"},
        {"\x08\x08\x3a\x02\x0a\x00", 6, "has no operator"},
        {"\x08\x08\x3a\x00\x3a\x00", 6, "two graphs"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused_bytes(cases[i].bytes, cases[i].n, LAM_FAILED, cases[i].part);
}

static void texts_are_no_models(void **state) {
    (void)state;
    static const char *const texts[] = {":\n", ":0", "\x08\x08", "plain", "::::"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        save_words("text", texts[i]);
        assert_null(lam_read_format("text"));
    }
}

static void graphs_that_lie_are_refused(void **state) {
    (void)state;
    lmi_buf g = begun();
    put_node(&g, "Relu a b -");
    put_node(&g, "Relu b a -");
    refused_graph(&g, LAM_FAILED, "reads what is made from its own result");
    g = begun();
    put_node(&g, "Relu nowhere b -");
    refused_graph(&g, LAM_FAILED, "nothing makes 'nowhere'");
    g = begun();
    put_stated(&g, 11, "a 1");
    put_node(&g, "Relu a b -");
    put_node(&g, "Abs a b -");
    refused_graph(&g, LAM_FAILED, "two things have the name 'b'");
    g = begun();
    put_tensor(&g, 5, "w 1 2,3 20");
    refused_graph(&g, LAM_FAILED, "'w' has 20 bytes, and its type and shape take 24");
    g = begun();
    put_tensor(&g, 5, "w 1 -3 20");
    refused_graph(&g, LAM_FAILED, "an axis of -3");
    g = begun();
    put_tensor(&g, 5, "w 1 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1 4");
    save_graph("many.onnx", &g);
    lam_model_free(opened("many.onnx"));
    g = begun();
    put_tensor(&g, 5, "w 1 4611686018427387904,4611686018427387904 0");
    refused_graph(&g, LAM_FAILED, "has data, but its type or shape can't have any");
}

/* A graph in the branch of an If, n times. */
static lmi_buf nested(int n) {
    lmi_buf g = begun();
    put_node(&g, "Abs x y -");
    for (int i = 0; i < n; i++) {
        lmi_buf node = node_of("If c y -"), a = begun(), outer = begun();
        put_word(&a, 1, "then_branch");
        put_message(&a, 6, &g);
        put_message(&node, 5, &a);
        put_message(&outer, 1, &node);
        g = outer;
    }
    return g;
}

static void graphs_in_graphs_have_a_limit(void **state) {
    (void)state;
    lmi_buf g = nested(40);
    put_stated(&g, 11, "x 1");
    put_stated(&g, 11, "c 1");
    refused_graph(&g, LAM_FAILED, "at a depth of more than 32");
    g = nested(8);
    put_stated(&g, 11, "x 1");
    put_stated(&g, 11, "c 1");
    save_graph("nested.onnx", &g);
    lam_model_free(opened("nested.onnx"));
}

/* A function whose nodes are calls of another one, or of Relu. */
static void put_function(lmi_buf *model, const char *name, const char *calls, int times) {
    lmi_buf f = begun();
    put_word(&f, 1, name);
    put_word(&f, 4, "a");
    put_word(&f, 5, "b");
    put_word(&f, 10, "own");
    for (int i = 0; i < times; i++) {
        char text[64], out[16] = "b";
        if (i) snprintf(out, sizeof out, "b%d", i);
        snprintf(text, sizeof text, "%s a %s -", calls, out);
        lmi_buf n = node_of(text);
        put_word(&n, 7, strncmp(text, "Relu", 4) ? "own" : "");
        put_message(&f, 7, &n);
    }
    put_message(model, 25, &f);
}

/* Where each argument of a Concat stands follows from all before it, so of very many none is followed. */
static void a_node_with_thousands_of_arguments_is_read(void **state) {
    (void)state;
    lmi_buf g = begun(), n = begun(), axis = begun();
    put_stated(&g, 11, "x 2,4");
    for (int i = 0; i < 5000; i++) put_word(&n, 1, "x");
    put_word(&n, 2, "y");
    put_word(&n, 4, "Concat");
    put_word(&axis, 1, "axis");
    put_number(&axis, 3, 0);
    put_message(&n, 5, &axis);
    put_message(&g, 1, &n);
    put_stated(&g, 12, "y 10000,4");
    save_graph("wide.onnx", &g);
    lam_model *m = opened("wide.onnx");
    lam_costs *c = costs_of(m);
    lam_rf_axis x;
    assert_int_equal(lam_costs_rf_axis(c, 0, 0, &x, NULL), LAM_OK);
    assert_int_equal(x.reach, LAM_REACH_UNKNOWN);
    assert_string_equal(x.why, "onnx::Concat has more arguments than are followed");
    lam_costs_free(c);
    lam_model_free(m);
}

static void a_model_has_as_much_memory_as_its_file_has_room_for(void **state) {
    (void)state;
    lmi_buf g = begun(), n = begun();
    put_stated(&g, 11, "x 2,4");
    for (int i = 0; i < 400000; i++) put_word(&n, 1, "x");
    put_word(&n, 2, "y");
    put_word(&n, 4, "Sum");
    put_message(&g, 1, &n);
    refused_graph(&g, LAM_LIMIT, "takes more memory than a file of its size may");
}

static void functions_have_limits(void **state) {
    (void)state;
    for (int many = 0; many < 3; many++) {
        lmi_buf g = begun(), n = node_of("F x y -");
        put_word(&n, 7, "own");
        put_message(&g, 1, &n);
        put_stated(&g, 11, "x 1");
        lmi_buf m = model_of(&g);
        if (many == 2) {
            put_function(&m, "F", "Relu", 0);
        } else if (many) { /* each calls the next one 40 times */
            put_function(&m, "F", "G", 40);
            put_function(&m, "G", "H", 40);
            put_function(&m, "H", "I", 40);
            put_function(&m, "I", "J", 40);
            put_function(&m, "J", "Relu", 40);
        } else {
            put_function(&m, "F", "F", 1);
        }
        save_bytes("calls.onnx", &m);
        lmi_buf_free(&m);
        if (many == 1)
            refused("calls.onnx", LAM_LIMIT, "more nodes and names than a file of its size");
        else
            refused("calls.onnx", LAM_FAILED,
                    many ? "does not make its result 0" : "at a depth of more than 32");
    }
}

/* The names of nodes in functions grow with each function that calls the next. */
static void names_in_functions_have_a_limit(void **state) {
    (void)state;
    lmi_buf g = begun(), n = node_of("F0 x y -");
    put_word(&n, 7, "own");
    put_message(&g, 1, &n);
    put_stated(&g, 11, "x 1");
    lmi_buf m = model_of(&g);
    for (int i = 0; i < 20; i++) {
        char name[8], calls[8];
        snprintf(name, sizeof name, "F%d", i);
        snprintf(calls, sizeof calls, i < 19 ? "F%d" : "Relu", i + 1);
        put_function(&m, name, calls, 10);
    }
    save_bytes("names.onnx", &m);
    lmi_buf_free(&m);
    refused("names.onnx", LAM_LIMIT, "takes more memory than a file of its size may");
}

/* What costs a look at each of many for each of many is refused, or is looked up. */
static void many_of_a_kind_are_bounded(void **state) {
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        lmi_buf g = begun(), m, n;
        lmi_buf text;
        lmi_buf_init(&text);
        for (int i = 0; kind == 0 && i < 30000; i++) { /* a node and a function each */
            lmi_buf_clear(&text);
            lmi_putf(&text, "Relu x y%d -", i);
            n = node_of(lmi_buf_text(&text));
            put_message(&g, 1, &n);
        }
        for (int i = 0; kind == 1 && i < 1000; i++) { /* each in 32 modules of its own */
            lmi_buf_clear(&text);
            lmi_putf(&text, "Relu x y%d -", i);
            n = node_of(lmi_buf_text(&text));
            lmi_buf_clear(&text);
            lmi_putf(&text, "m%d", i);
            for (int k = 0; k < 30; k++) lmi_put(&text, "/a");
            put_word(&n, 3, lmi_buf_text(&text));
            put_message(&g, 1, &n);
        }
        if (kind == 2) { /* a node of many arguments and results */
            n = node_of("Own x y -");
            for (int i = 0; i < 2000; i++) {
                lmi_buf_clear(&text);
                lmi_putf(&text, "z%d", i);
                put_word(&n, 1, "x");
                put_word(&n, 2, lmi_buf_text(&text));
            }
            put_message(&g, 1, &n);
        }
        put_stated(&g, 11, "x 1");
        m = model_of(&g);
        for (int i = 0; kind == 0 && i < 30000; i++) {
            lmi_buf_clear(&text);
            lmi_putf(&text, "F%d", i);
            put_function(&m, lmi_buf_text(&text), "Relu", 0);
        }
        for (int i = 0; kind == 3 && i < 300; i++) {
            lmi_buf set;
            lmi_buf_init(&set);
            put_word(&set, 1, "own");
            put_message(&m, 8, &set);
        }
        save_bytes("many.onnx", &m);
        lmi_buf_free(&m);
        lmi_buf_free(&text);
        if (kind == 0) lam_model_free(opened("many.onnx"));
        if (kind == 1) refused("many.onnx", LAM_LIMIT, "names more modules than a file of its size should");
        if (kind == 2) refused("many.onnx", LAM_LIMIT, "more arguments and results than are read, at byte ");
        if (kind == 3) refused("many.onnx", LAM_LIMIT, "it has more than 256 operator sets, at byte ");
    }
}

static void an_opset_that_is_not_known_is_told(void **state) {
    (void)state;
    static const struct {
        uint64_t opset;
        const char *format, *note;
    } cases[] = {{7, "ONNX 8, opset 7", NULL},
                 {1, "ONNX 8, opset 1", "read as those of opset 7, and it has opset 1"},
                 {UINT64_C(1) << 40, "ONNX 8", "its opset is not known"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lmi_buf g = begun();
        put_stated(&g, 11, "x 1");
        put_node(&g, "Relu x y -");
        lmi_buf b = model_at(&g, cases[i].opset);
        save_bytes("opset.onnx", &b);
        lmi_buf_free(&b);
        lam_model *m = opened("opset.onnx");
        assert_string_equal(lam_model_told(m, "format"), cases[i].format);
        if (cases[i].note)
            assert_non_null(strstr(lam_model_note(m, 0), cases[i].note));
        else
            assert_null(lam_model_note(m, 0));
        lam_model_free(m);
    }
}

/* -- when memory runs out ----------------------------------------------------------------------------------
 */

static void grow_once(void *path, bool *ok) {
    static const lam_read_size size = {"n", 2};
    static const char *const inputs[] = {"flag=scalar:bool=1", "x=2x4"};
    const lam_read_options grow = {
        .growth = true, .sizes = &size, .n_sizes = 1, .inputs = inputs, .n_inputs = 2};
    lam_model *m = NULL;
    lam_costs *c = NULL;
    lam_error e = {.at = -1};
    lam_status s = lam_read(&m, path, &grow, &e);
    if (s == LAM_OK) s = lam_costs_new(&c, m, NULL, &e);
    *ok = oom_check(s, &e);
    if (*ok) assert_int_equal(lam_costs_growth(c, 0)->metric[LAM_MACS].each, 32);
    lam_costs_free(c);
    lam_model_free(m);
}

static void memory_may_run_out_anywhere(void **state) {
    (void)state;
    oom_sweep_parts(grow_once, (void *)LAMINA_TEST_DATA "/files/odd.onnx");
    oom_sweep_parts(read_once, (void *)LAMINA_TEST_DATA "/files/image.onnx");
    oom_sweep_parts(read_once, (void *)LAMINA_TEST_DATA "/files/odd.onnx");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_layers_of_a_file_have_their_costs),
        cmocka_unit_test(what_a_file_leaves_open_is_unknown),
        cmocka_unit_test(nodes_are_put_after_what_they_read),
        cmocka_unit_test(a_shared_initialiser_counts_once),
        cmocka_unit_test(a_branch_that_constants_choose_counts_alone),
        cmocka_unit_test(branches_in_branches_are_chosen_alike),
        cmocka_unit_test(a_loop_of_constant_trips_counts_each_of_them),
        cmocka_unit_test(wires_that_are_damaged_are_refused),
        cmocka_unit_test(texts_are_no_models),
        cmocka_unit_test(graphs_that_lie_are_refused),
        cmocka_unit_test(graphs_in_graphs_have_a_limit),
        cmocka_unit_test(a_node_with_thousands_of_arguments_is_read),
        cmocka_unit_test(a_model_has_as_much_memory_as_its_file_has_room_for),
        cmocka_unit_test(functions_have_limits),
        cmocka_unit_test(names_in_functions_have_a_limit),
        cmocka_unit_test(many_of_a_kind_are_bounded),
        cmocka_unit_test(an_opset_that_is_not_known_is_told),
        cmocka_unit_test(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
