/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of ONNX files in another order, number or size than exporters write them: what is of no matter is
 * read, and the rest is refused with the place, or unknown. */
#include "kit/onnx.h"

static void save_and_free(const char *file, lmi_buf *b) {
    save_bytes(file, b);
    lmi_buf_free(b);
}

/* A graph of one operator: "Relu x y -". */
static lmi_buf graph_of(const char *words) {
    lmi_buf g = begun();
    put_node(&g, words);
    put_stated(&g, 11, "x 3,4");
    put_stated(&g, 12, "y 3,4");
    return g;
}

/* -- is it one? ------------------------------------------------------------------------------------------ */

static void is_known_as(lmi_buf *b, const char *format) {
    save_and_free("head.bin", b);
    const char *got = lam_read_format("head.bin");
    if (format ? !got || strcmp(got, format) != 0 : got != NULL) fail_msg("%s", got ? got : "nothing");
}

static void a_file_is_known_by_its_first_fields(void **state) {
    (void)state;
    static const char padding[1 << 17];
    lmi_buf b = begun(), g = graph_of("Relu x y -");
    put_number(&b, 1, 8);
    put_bytes(&b, 2, padding, sizeof padding); /* what follows is beyond the head */
    is_known_as(&b, "ONNX");
    refused("head.bin", LAM_FAILED, "it is damaged: it has no graph");

    b = begun();
    put_bytes(&b, 2, padding, sizeof padding); /* no version before it */
    is_known_as(&b, NULL);

    b = begun();
    put_number(&b, 1, 8);
    put_varint(&b, 7 << 3 | 2);
    put_varint(&b, 1000); /* a graph that is cut off at once, or behind its first byte */
    is_known_as(&b, NULL);
    b = begun();
    put_number(&b, 1, 8);
    put_varint(&b, 7 << 3 | 2);
    put_varint(&b, 1000);
    put_varint(&b, 1 << 3 | 2);
    is_known_as(&b, "ONNX");
    refused("head.bin", LAM_FAILED, "a field that is longer than its message, at byte 2");
    b = begun();
    put_number(&b, 1, 8);
    put_varint(&b, 7 << 3 | 2);
    put_varint(&b, 1000);
    put_varint(&b, 3 << 3 | 2); /* no field of a graph */
    is_known_as(&b, NULL);

    b = begun();
    put_number(&b, 1, 8);
    lmi_putn(&b, "\x3a\x08\x82\x01\x02\x0a\x00\x0a\x01g", 10); /* notes of the graph come first */
    is_known_as(&b, "ONNX");

    b = begun();
    put_number(&b, 1, 8);
    put_message(&b, 7, &g);
    b.s[1] = (char)0x80; /* a version that does not end */
    b.n = 2;
    is_known_as(&b, NULL);
    b = begun();
    lmi_putn(&b, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12); /* one of more than 64 bits */
    is_known_as(&b, NULL);
}

/* The graph begins about where the head ends, on either side and in its key. */
static void a_graph_may_begin_where_the_head_ends(void **state) {
    (void)state;
    static const char padding[1 << 16];
    for (size_t less = 0; less < 16; less++) {
        lmi_buf b = begun(), g = graph_of("Relu x y -"), opset = begun();
        put_number(&b, 1, 8);
        put_number(&opset, 2, 17);
        put_message(&b, 8, &opset);
        put_bytes(&b, 2, padding, sizeof padding - less);
        put_message(&b, 7, &g);
        is_known_as(&b, "ONNX");
        lam_model_free(opened("head.bin"));
    }
}

static void a_version_that_is_none_is_told_as_0(void **state) {
    (void)state;
    lmi_buf g = graph_of("Relu x y -"), b = begun(), opset = begun();
    put_number(&b, 1, 8);
    put_number(&b, 1, 1 << 20);
    put_number(&opset, 2, 17);
    put_message(&b, 8, &opset);
    put_message(&b, 7, &g);
    save_and_free("version.onnx", &b);
    lam_model *m = opened("version.onnx");
    assert_string_equal(lam_model_told(m, "format"), "ONNX 0, opset 17");
    lam_model_free(m);
}

static void a_limit_of_memory_is_kept(void **state) {
    (void)state;
    static const lam_read_options o = {.memory_limit = 64};
    lam_model *m = NULL;
    lmi_buf g = graph_of("Relu x y -");
    save_graph("limit.onnx", &g);
    last = (lam_error){.at = -1};
    assert_int_equal(lam_read(&m, "limit.onnx", &o, &last), LAM_NOMEM);
    assert_null(m);
    assert_true(*last.text);
}

/* -- axes and types -------------------------------------------------------------------------------------- */

/* An initialiser, or with `sparse` a sparse one, of so many axes of 1. */
static void put_axes(lmi_buf *graph, int n, bool packed, bool sparse) {
    lmi_buf t = begun(), all = begun(), data = begun(), around = begun();
    for (int i = 0; i < n; i++)
        if (packed)
            put_varint(&all, 1);
        else
            put_number(sparse ? &around : &t, sparse ? 3 : 1, 1);
    if (packed)
        put_message(sparse ? &around : &t, sparse ? 3 : 1, &all);
    else
        lmi_buf_free(&all);
    put_number(&t, 2, 1);
    put_word(&t, 8, "w");
    lmi_pad(&data, '\0', 4);
    put_message(&t, 9, &data);
    if (sparse) put_message(&around, 1, &t);
    put_message(graph, sparse ? 15 : 5, sparse ? &around : &t);
    lmi_buf_free(sparse ? &t : &around);
}

static void more_axes_than_operators_take_are_refused(void **state) {
    (void)state;
    for (int packed = 0; packed < 2; packed++) {
        lmi_buf g = graph_of("Add x,w y -");
        put_axes(&g, 64, packed, false);
        refused_graph(&g, LAM_LIMIT, "axes of a tensor, at byte");
        g = graph_of("Relu x y -");
        put_axes(&g, 64, packed, true);
        refused_graph(&g, LAM_LIMIT, "axes of a tensor, at byte");
    }
}

/* The numbers of an attribute: 2^20 are read, and one more is not. */
static void an_attribute_of_too_many_numbers_is_refused(void **state) {
    (void)state;
    enum { MOST = 1 << 20 };
    for (int field = 7; field <= 8; field++) {
        lmi_buf g = begun(), n = node_of("Relu x y -"), a = begun(), all = begun();
        lmi_pad(&all, '\0', field == 7 ? 4 * (MOST + 1) : MOST);
        put_word(&a, 1, "own");
        put_message(&a, (uint64_t)field, &all);
        if (field == 8) put_number(&a, 8, 1); /* the last one is not packed */
        put_message(&n, 5, &a);
        put_message(&g, 1, &n);
        put_stated(&g, 11, "x 3,4");
        refused_graph(&g, LAM_LIMIT, "it has more than 1048576");
    }
    lmi_buf g = begun(), n = node_of("Relu x y -"), a = begun(), all = begun();
    lmi_pad(&all, '\0', MOST + 1);
    put_word(&a, 1, "own");
    put_message(&a, 8, &all);
    put_message(&n, 5, &a);
    put_message(&g, 1, &n);
    refused_graph(&g, LAM_LIMIT, "whole numbers in an attribute");
    g = begun(), n = node_of("Relu x y -"), a = begun(), all = begun();
    lmi_pad(&all, '\0', 4 * MOST);
    put_word(&a, 1, "own");
    put_message(&a, 7, &all);
    put_varint(&a, 7 << 3 | 5);
    put_le(&a, 0, 4);
    put_message(&n, 5, &a);
    put_message(&g, 1, &n);
    refused_graph(&g, LAM_LIMIT, "numbers in an attribute");
}

/* An input whose type is this message. */
static lmi_buf graph_of_type(lmi_buf *type) {
    lmi_buf g = begun(), v = begun();
    put_node(&g, "Relu x y -");
    put_word(&v, 1, "x");
    put_message(&v, 2, type);
    put_message(&g, 11, &v);
    return g;
}

static void a_type_may_be_a_sequence_or_have_any_number_of_axes(void **state) {
    (void)state;
    lmi_buf t = begun(), inner = begun(), sizes = begun();
    put_word(&t, 4, ""); /* a sequence of what is not told */
    lmi_buf g = graph_of_type(&t);
    save_graph("type.onnx", &g);
    lam_model_free(opened("type.onnx"));

    put_number(&inner, 3, 1); /* a field that no type has */
    put_message(&t, 4, &inner);
    g = graph_of_type(&t);
    save_graph("type.onnx", &g);
    lam_model_free(opened("type.onnx"));

    put_number(&t, 4, 1);
    g = graph_of_type(&t);
    refused_graph(&g, LAM_FAILED, "a type of another kind than ONNX's at byte");

    put_word(&t, 4, "\x0a"); /* that of the elements is cut off */
    g = graph_of_type(&t);
    refused_graph(&g, LAM_FAILED, "a number that does not end in its message, at byte");
    put_word(&inner, 1, "\x08"); /* and so is its type */
    put_message(&t, 4, &inner);
    g = graph_of_type(&t);
    refused_graph(&g, LAM_FAILED, "a number that does not end in its message, at byte");

    for (int i = 0; i < 64; i++) put_word(&sizes, 1, "");
    put_number(&inner, 1, 1);
    put_message(&inner, 2, &sizes);
    put_message(&t, 1, &inner);
    g = graph_of_type(&t);
    save_graph("type.onnx", &g);
    lam_model *m = opened("type.onnx");
    assert_non_null(strstr(lam_model_note(m, 0), "x"));
    lam_model_free(m);
}

/* -- names ----------------------------------------------------------------------------------------------- */

/* An input that an initialiser gives a value may come before it or after it; a third thing may not have its
 * name. */
static void an_input_may_have_a_value(void **state) {
    (void)state;
    for (int first = 0; first < 2; first++) {
        for (int n = 1; n <= 2; n++) {
            lmi_buf g = begun();
            put_node(&g, "MatMul x,w y -");
            put_stated(&g, 11, "x 3,4");
            if (first) put_stated(&g, 11, "w 4,4");
            for (int i = 0; i < (first ? n : 1); i++) put_tensor(&g, 5, "w 1 4,4 64");
            for (int i = 0; i < (first ? 0 : n); i++) put_stated(&g, 11, "w 4,4");
            if (n == 2) {
                refused_graph(&g, LAM_FAILED, "two things have the name 'w'");
                continue;
            }
            save_graph("twice.onnx", &g);
            lam_model *m = opened("twice.onnx");
            lam_costs *c = costs_of(m);
            is_exactly(lam_costs_params(c).params, 16);
            is_exactly(lam_costs_total(c, LAM_MACS), 3 * 4 * 4);
            lam_costs_free(c);
            lam_model_free(m);
        }
    }
}

/* A function F of a domain: a in, `out` out, a node, and what an attribute is where a call leaves it out. */
static void put_function(lmi_buf *model, const char *domain, const char *out, lmi_buf *nodes,
                         lmi_buf *otherwise, lmi_buf *unused) {
    lmi_buf f = begun();
    put_word(&f, 1, "F");
    put_word(&f, 4, "a");
    put_word(&f, 5, out);
    put_word(&f, 10, domain);
    put_message(&f, 7, nodes);
    if (unused) put_message(&f, 11, unused);
    if (otherwise) put_message(&f, 11, otherwise);
    put_message(model, 25, &f);
}

static lmi_buf call_of(const char *words, const char *domain) {
    lmi_buf n = node_of(words);
    put_word(&n, 7, domain);
    return n;
}

static void what_is_made_from_itself_is_refused(void **state) {
    (void)state;
    static const char *const readers[] = {"Relu v y -", "Relu x y -", NULL};
    for (int i = 0; i < 3; i++) { /* a node reads it, an inner graph's result is it, the graph's is */
        lmi_buf g = begun(), call = call_of("F v v call", "own"), body = node_of("Identity a c -");
        if (i == 1) {
            lmi_buf branch = begun(), a = begun(), node = node_of("If cond z -");
            put_stated(&branch, 12, "v 3,4");
            put_word(&a, 1, "then_branch");
            put_message(&a, 6, &branch);
            put_message(&node, 5, &a);
            put_message(&g, 1, &node);
            put_stated(&g, 11, "cond 1");
        }
        put_message(&g, 1, &call);
        if (readers[i]) put_node(&g, readers[i]);
        put_stated(&g, 11, "x 3,4");
        put_stated(&g, 12, i == 2 ? "v 3,4" : "y 3,4");
        lmi_buf m = model_of(&g);
        put_function(&m, "own", "a", &body, NULL, NULL);
        save_and_free("itself.onnx", &m);
        refused("itself.onnx", LAM_FAILED, "'v' is made from itself");
    }
}

/* A function of the standard's domain, by either of its names; and an attribute that the call leaves out. */
static void a_function_may_be_of_the_standard_and_have_defaults(void **state) {
    (void)state;
    static const char *const domains[] = {"", "ai.onnx", "own"};
    for (size_t i = 0; i < 3; i++) {
        for (int given = 0; given < 2; given++) {
            lmi_buf g = begun(), call = call_of("F x y -", domains[i]), body = node_of("Concat a,a b -"),
                    a = begun(), otherwise = begun(), of = begun();
            put_word(&a, 1, "axis");
            put_word(&a, 21, "along");
            put_number(&a, 20, 2);
            put_message(&body, 5, &a);
            lmi_buf unused = begun();
            put_word(&unused, 1, "unread");
            put_number(&unused, 3, 7);
            put_word(&otherwise, 1, "along");
            put_number(&otherwise, 3, 1);
            put_number(&otherwise, 20, 2);
            put_word(&of, 1, given ? "along" : "other");
            put_number(&of, 3, 0);
            put_number(&of, 20, 2);
            put_message(&call, 5, &of);
            put_message(&g, 1, &call);
            put_node(&g, "MatMul y,w z -");
            put_tensor(&g, 5, given ? "w 1 4,5 80" : "w 1 8,5 160");
            put_stated(&g, 11, "x 3,4");
            lmi_buf m = model_of(&g);
            put_function(&m, domains[i], "b", &body, &otherwise, &unused);
            save_and_free("function.onnx", &m);
            lam_model *model = opened("function.onnx");
            lam_costs *c = costs_of(model);
            is_exactly(lam_costs_total(c, LAM_MACS), given ? 6 * 4 * 5 : 3 * 8 * 5);
            lam_costs_free(c);
            lam_model_free(model);
        }
    }
    oom_sweep_parts(read_once, "function.onnx");
    oom_sweep_takes(read_once, "function.onnx", 1);
}

/* Functions of one name are told apart by their overloads; a call of none of them has no rule. */
static void a_call_is_of_the_function_of_its_overload(void **state) {
    (void)state;
    static const char *const overloads[] = {"", "square", "other"};
    for (int i = 0; i < 3; i++) {
        lmi_buf g = begun(), call = call_of("F x y -", "own"), one = node_of("Relu a b -"),
                two = node_of("MatMul a,a b -"), f = begun();
        if (i) put_word(&call, 8, overloads[i]);
        put_message(&g, 1, &call);
        put_stated(&g, 11, "x 4,4");
        put_stated(&g, 12, "y 4,4");
        lmi_buf m = model_of(&g);
        put_function(&m, "own", "b", &one, NULL, NULL);
        put_word(&f, 1, "F");
        put_word(&f, 4, "a");
        put_word(&f, 5, "b");
        put_word(&f, 10, "own");
        put_word(&f, 13, "square");
        put_message(&f, 7, &two);
        put_message(&m, 25, &f);
        save_and_free("overload.onnx", &m);
        const lam_count macs = macs_of("overload.onnx");
        assert_int_equal(macs.state, i < 2 ? LAM_EXACT : LAM_UNKNOWN);
        if (i < 2) assert_int_equal(macs.n, i ? 4 * 4 * 4 : 0);
    }
    oom_sweep_parts(read_once, "overload.onnx");
}

/* A function whose result is its argument, and one whose second argument the call leaves out. */
static void a_function_may_hand_on_or_lack_an_argument(void **state) {
    (void)state;
    for (int lacks = 0; lacks < 2; lacks++) { /* the second one runs a graph that reads the argument */
        lmi_buf g = begun(), call = call_of("F x y -", "own"), f = begun(),
                body = node_of(lacks ? "Clip a,c b -" : "Relu a other -");
        put_message(&g, 1, &call);
        put_node(&g, "MatMul y,w z -");
        put_tensor(&g, 5, "w 1 4,5 80");
        put_stated(&g, 11, "x 3,4");
        lmi_buf m = model_of(&g);
        put_word(&f, 1, "F");
        put_word(&f, 4, "a");
        if (lacks) put_word(&f, 4, "c");
        put_word(&f, 5, lacks ? "b" : "a");
        put_word(&f, 10, "own");
        put_message(&f, 7, &body);
        if (lacks) {
            lmi_buf n = node_of("If a d -"), branch = begun(), a = begun();
            put_node(&branch, "Relu a e -");
            put_stated(&branch, 12, "e 3,4");
            put_word(&a, 1, "then_branch");
            put_message(&a, 6, &branch);
            put_message(&n, 5, &a);
            put_message(&f, 7, &n);
        }
        put_message(&m, 25, &f);
        save_and_free("function.onnx", &m);
        assert_int_equal(macs_of("function.onnx").n, 3 * 4 * 5);
        oom_sweep_parts(read_once, "function.onnx");
    }
}

/* Each call goes over the whole function again. */
static void a_long_function_that_is_called_too_often_is_refused(void **state) {
    (void)state;
    static char text[1 << 18];
    lmi_buf g = begun(), f = begun(), body = node_of("Relu a b -");
    memset(text, 'x', sizeof text - 1);
    for (int i = 0; i < 100; i++) {
        char words[32];
        snprintf(words, sizeof words, "F x y%d -", i);
        lmi_buf call = call_of(words, "own");
        put_message(&g, 1, &call);
    }
    put_stated(&g, 11, "x 3,4");
    lmi_buf m = model_of(&g);
    put_word(&f, 1, "F");
    put_word(&f, 4, "a");
    put_word(&f, 5, "b");
    put_word(&f, 8, text); /* what it does, in words */
    put_word(&f, 10, "own");
    put_message(&f, 7, &body);
    put_message(&m, 25, &f);
    save_and_free("often.onnx", &m);
    refused("often.onnx", LAM_LIMIT, "its functions call each other too often, at byte ");
}

/* Each of 500 nodes reads 500 tensors, in a module that is 28 deep in others. */
static void modules_pass_as_many_tensors_as_a_file_has_room_for(void **state) {
    (void)state;
    lmi_buf g = begun();
    put_stated(&g, 11, "x 3,4");
    for (int i = 0; i < 500; i++) {
        char words[32];
        snprintf(words, sizeof words, "Relu x v%d -", i);
        put_node(&g, words);
    }
    for (int i = 0; i < 500; i++) {
        lmi_buf n = begun(), name = begun();
        lmi_putf(&name, "/m%d", i);
        for (int k = 0; k < 28; k++) lmi_put(&name, "/a");
        lmi_put(&name, "/Sum");
        for (int k = 0; k < 500; k++) {
            char text[16];
            snprintf(text, sizeof text, "v%d", k);
            put_word(&n, 1, text);
        }
        put_word(&n, 3, lmi_buf_text(&name));
        put_word(&n, 4, "Sum");
        lmi_buf_free(&name);
        put_message(&g, 1, &n);
    }
    refused_graph(&g, LAM_LIMIT, "more tensors go into and out of its modules (");
}

/* An attribute that is one of a function's call, in a node that no function has, is left out. */
static void an_attribute_of_no_call_is_left_out(void **state) {
    (void)state;
    lmi_buf g = begun(), n = node_of("Concat x,x y -"), a = begun();
    put_word(&a, 1, "axis");
    put_word(&a, 21, "along");
    put_message(&n, 5, &a);
    put_message(&g, 1, &n);
    put_node(&g, "MatMul y,w z -");
    put_tensor(&g, 5, "w 1 4,5 80");
    put_stated(&g, 11, "x 3,4");
    save_graph("reference.onnx", &g);
    is_exactly(macs_of("reference.onnx"), 6 * 4 * 5); /* axis 0 */
}

/* A value may be stated twice: the first shape counts. */
static void the_first_stated_shape_counts(void **state) {
    (void)state;
    static const char *const stated[][2] = {{"v 3,4", "v 5,4"}, {NULL, "v 3,4"}};
    for (int i = 0; i < 2; i++) {
        lmi_buf g = begun(), v = begun();
        put_node(&g, "Unheard x v -");
        put_node(&g, "MatMul v,w y -");
        put_tensor(&g, 5, "w 1 4,5 80");
        put_stated(&g, 11, "x 3,4");
        put_word(&v, 1, "v"); /* a name and nothing else */
        if (!stated[i][0])
            put_message(&g, 13, &v);
        else
            put_stated(&g, 13, stated[i][0]);
        put_stated(&g, 13, stated[i][1]);
        put_stated(&g, 13, "nobody 7");
        save_graph("stated.onnx", &g);
        lam_model *m = opened("stated.onnx");
        lam_costs *c = costs_of(m);
        is_exactly(row_of(c, "y")->metric[LAM_MACS], 3 * 4 * 5);
        lam_costs_free(c);
        lam_model_free(m);
        if (stated[i][0]) lmi_buf_free(&v);
    }
    oom_sweep_parts(read_once, "stated.onnx");
}

/* -- bodies ---------------------------------------------------------------------------------------------- */

/* What a Scan, or a Loop without a body, costs is unknown; and so is a choice of a branch that is not there.
 */
static void a_body_that_is_not_followed_is_unknown(void **state) {
    (void)state;
    static const struct {
        const char *node, *attribute;
    } all[] = {{"Scan x y -", "body"},
               {"Loop n,-,x y -", NULL},
               {"Loop n,-,x y -", "other"},
               {"If cond y -", "then_branch"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        lmi_buf g = begun();
        put_running(&g, all[i].node, all[i].attribute, "MatMul x,w v /in/MatMul", "v 3,4");
        put_node(&g, "MatMul x,w z /out/MatMul");
        put_tensor(&g, 5, "w 1 4,4 64");
        put_constant(&g, "n", "=3");
        put_stated(&g, 11, "x 3,4");
        put_stated(&g, 11, "cond 1");
        put_stated(&g, 12, "z 3,4");
        save_graph("body.onnx", &g);
        const lam_count n = macs_of("body.onnx");
        if (n.state == LAM_EXACT) fail_msg("%s: %lld", all[i].node, (long long)n.n);
        assert_int_equal(n.n, n.state == LAM_UNKNOWN ? n.n : 3 * 4 * 4);
        oom_sweep_parts(read_once, "body.onnx");
    }
}

/* What a file states of a result is not true of it where its branches give other numbers of axes. */
static void a_shape_of_two_branches_is_not_as_stated(void **state) {
    (void)state;
    static const struct {
        const char *then, *other;
        int64_t macs; /* -1: unknown */
    } all[] = {{"Identity x v -", "Relu x v -", 3 * 4 * 2}, {"Identity x v -", "Gather x,zero v -", -1}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        lmi_buf g = begun(), n = node_of("If cond y -");
        for (int b = 0; b < 2; b++) {
            lmi_buf body = begun(), a = begun(), out = begun();
            put_node(&body, b ? all[i].other : all[i].then);
            put_word(&out, 1, "v");
            put_message(&body, 12, &out);
            put_word(&a, 1, b ? "else_branch" : "then_branch");
            put_message(&a, 6, &body);
            put_message(&n, 5, &a);
        }
        put_message(&g, 1, &n);
        put_node(&g, "Abs y u -");
        put_node(&g, "MatMul u,w z /fc/MatMul");
        put_tensor(&g, 5, "w 1 4,2 32");
        put_constant(&g, "zero", "=0");
        put_stated(&g, 11, "x 3,4");
        put_stated(&g, 11, "cond 1");
        put_stated(&g, 13, "y 3,4");
        put_stated(&g, 13, "u 3,4");
        put_stated(&g, 12, "z 3,2");
        save_graph("torn.onnx", &g);
        lam_model *m = opened("torn.onnx");
        lam_costs *c = costs_of(m);
        const lam_count macs = row_of(c, "fc")->metric[LAM_MACS];
        assert_int_equal(macs.state == LAM_EXACT ? macs.n : -1, all[i].macs);
        lam_costs_free(c);
        lam_model_free(m);
    }
}

/* Nodes in another order than they run in, one of which runs graphs that read what the others make. */
static void nodes_with_bodies_are_put_in_order(void **state) {
    (void)state;
    lmi_buf g = begun();
    put_running(&g, "If cond y -", "then_branch", "MatMul b,w v /in/MatMul", "b 3,4");
    put_node(&g, "MatMul x,w b /out/MatMul");
    put_tensor(&g, 5, "w 1 4,4 64");
    put_stated(&g, 11, "x 3,4");
    put_stated(&g, 11, "cond 1");
    save_graph("order.onnx", &g);
    lam_model *m = opened("order.onnx");
    assert_int_equal(lam_model_find(m, "out"), 1 + (lam_model_find(m, "in") == 1));
    lam_model_free(m);
    oom_sweep_parts(read_once, "order.onnx");
}

/* In a graph of its own too. */
static void a_circle_in_a_body_is_refused(void **state) {
    (void)state;
    lmi_buf g = begun(), n = node_of("If cond y -"), body = begun(), a = begun();
    put_node(&body, "Relu x u first");
    put_node(&body, "Add w,x v second");
    put_node(&body, "Relu v w -");
    put_stated(&body, 12, "v 3,4");
    put_word(&a, 1, "then_branch");
    put_message(&a, 6, &body);
    put_message(&n, 5, &a);
    put_message(&g, 1, &n);
    put_stated(&g, 11, "x 3,4");
    put_stated(&g, 11, "cond 1");
    refused_graph(&g, LAM_FAILED, "node 'second' (Add) reads what is made from its own result");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_known_by_its_first_fields),
        cmocka_unit_test(a_graph_may_begin_where_the_head_ends),
        cmocka_unit_test(a_version_that_is_none_is_told_as_0),
        cmocka_unit_test(a_limit_of_memory_is_kept),
        cmocka_unit_test(more_axes_than_operators_take_are_refused),
        cmocka_unit_test(an_attribute_of_too_many_numbers_is_refused),
        cmocka_unit_test(a_type_may_be_a_sequence_or_have_any_number_of_axes),
        cmocka_unit_test(an_input_may_have_a_value),
        cmocka_unit_test(what_is_made_from_itself_is_refused),
        cmocka_unit_test(a_function_may_be_of_the_standard_and_have_defaults),
        cmocka_unit_test(a_call_is_of_the_function_of_its_overload),
        cmocka_unit_test(a_function_may_hand_on_or_lack_an_argument),
        cmocka_unit_test(a_long_function_that_is_called_too_often_is_refused),
        cmocka_unit_test(modules_pass_as_many_tensors_as_a_file_has_room_for),
        cmocka_unit_test(an_attribute_of_no_call_is_left_out),
        cmocka_unit_test(the_first_stated_shape_counts),
        cmocka_unit_test(a_body_that_is_not_followed_is_unknown),
        cmocka_unit_test(a_shape_of_two_branches_is_not_as_stated),
        cmocka_unit_test(nodes_with_bodies_are_put_in_order),
        cmocka_unit_test(a_circle_in_a_body_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
