/* SPDX-License-Identifier: Apache-2.0
 *
 * Which places the nodes and initialisers of an ONNX file are of: by notes, by the names of nodes, by those
 * of weights, and where none of them tells it. */
#include "kit/onnx.h"

/* The paths of all places but the root, with the types of their modules: "a:Conv a.b:?". */
static const char *places(const lam_model *m) {
    static char text[8192];
    size_t n = 0;
    *text = 0;
    for (int32_t i = 1; i < lam_model_n_places(m); i++) {
        const lam_place *p = lam_model_place(m, i);
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s:%s", i > 1 ? " " : "", p->path,
                              lam_model_module(m, p->module)->type);
    }
    return text;
}

/* A node with the notes of torch's newer exporter. */
static void put_noted(lmi_buf *graph, const char *words, const char *names, const char *types) {
    static const char *const keys[] = {"pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy"};
    const char *const texts[] = {names, types};
    lmi_buf n = node_of(words);
    for (int i = 0; i < 2; i++) {
        lmi_buf entry = begun();
        put_word(&entry, 1, keys[i]);
        put_word(&entry, 2, texts[i]);
        put_message(&n, 9, &entry);
    }
    put_message(graph, 1, &n);
}

/* A name of a letter, so often. */
static const char *long_name(char letter, size_t n) {
    static char text[2048];
    assert_true(n < sizeof text);
    memset(text, letter, n);
    text[n] = 0;
    return text;
}

/* A node with a name that node_of has no room for. */
static void put_long(lmi_buf *graph, const char *op, const char *in, const char *out, const char *name) {
    lmi_buf n = begun();
    if (in) put_word(&n, 1, in);
    if (out) put_word(&n, 2, out);
    put_word(&n, 3, name);
    put_word(&n, 4, op);
    put_message(graph, 1, &n);
}

/* y = x times a weight of 4x4. */
static void put_product(lmi_buf *graph, const char *weight, const char *name) {
    lmi_buf n = begun(), t = begun(), data = begun();
    put_word(&n, 1, "x");
    put_word(&n, 1, weight);
    put_word(&n, 2, "y");
    put_word(&n, 3, name);
    put_word(&n, 4, "MatMul");
    put_message(graph, 1, &n);
    put_number(&t, 1, 4);
    put_number(&t, 1, 4);
    put_number(&t, 2, 1);
    put_word(&t, 8, weight);
    lmi_pad(&data, '\0', 64);
    put_message(&t, 9, &data);
    put_message(graph, 5, &t);
}

/* Saves the graph of 3x4 in and out, and says which places it has. */
static const char *places_of(lmi_buf *g, const char *out) {
    char stated[64];
    static char told[8192];
    snprintf(stated, sizeof stated, "%s 3,4", out);
    put_stated(g, 11, "x 3,4");
    put_stated(g, 12, stated);
    save_graph("scopes.onnx", g);
    lam_model *m = opened("scopes.onnx");
    snprintf(told, sizeof told, "%s", places(m));
    lam_costs_free(costs_of(m));
    lam_model_free(m);
    return told;
}

/* -- no module is named ---------------------------------------------------------------------------------- */

static void a_node_without_a_module_is_a_place_by_its_name(void **state) {
    (void)state;
    lmi_buf g = begun();
    put_node(&g, "Relu x a first.one");     /* a dot would be a module inside another */
    put_node(&g, "Relu a b first_one");     /* as the name before it then is */
    put_node(&g, "Identity table t names"); /* names what is stored once again: no place */
    put_node(&g, "Add b,t y -");
    put_long(&g, "Sink", "b", NULL, ""); /* neither a name nor a result */
    put_tensor(&g, 5, "table 1 3,4 48");
    const char *told = places_of(&g, "y");
    assert_string_equal(told, "first_one:Relu first_one_1:Relu y:Add Sink:Sink");
}

/* Names of more than 1,023 bytes are cut, and those that are then alike are one place. */
static void names_that_are_too_long_are_cut(void **state) {
    (void)state;
    lmi_buf g = begun();
    put_long(&g, "Relu", "x", "a", long_name('n', 1100));
    put_long(&g, "Relu", "a", "y", long_name('n', 1200));
    const char *told = places_of(&g, "y");
    assert_int_equal(strlen(told), 1023 + strlen(":Relu"));
    assert_string_equal(told + 1020, "nnn:Relu");
}

/* -- names of nodes -------------------------------------------------------------------------------------- */

static void the_name_of_a_node_tells_its_modules(void **state) {
    (void)state;
    static const struct {
        const char *name, *told;
    } all[] = {
        {"/a//b/Relu", "a:? a.b:?"},  /* an empty part is none */
        {"/a/a.0/Relu", "a:? a.0:?"}, /* a part repeats the one before it */
        {"/a/ab/Relu", "a:? a.ab:?"}, /* and this only begins like it */
        {"/a/a./Relu", "a:?"},        /* nothing behind the dot */
        {"/a_/Relu", "a_:?"},         /* no number behind the mark of a further call */
        {"/a_b/Relu", "a_b:?"},
        {"/a_1/Relu", "a_1:?"}, /* which has no first call */
        {"/0/1/2/3/4/5/6/7/8/9/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t/u/v/Relu", NULL},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        lmi_buf g = begun();
        put_long(&g, "Relu", "x", "y", all[i].name);
        const char *told = places_of(&g, "y");
        if (all[i].told)
            assert_string_equal(told, all[i].told);
        else /* 31 modules are told apart, beside the whole model */
            assert_string_equal(strrchr(told, ' '),
                                " 0.1.2.3.4.5.6.7.8.9.a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t.u:?");
    }
}

/* A further call has a number behind the name of the first one; where another module has that name, or
 * weights tell so, it is none. */
static void a_number_behind_a_name_is_a_further_call(void **state) {
    (void)state;
    lmi_buf g = begun();
    put_node(&g, "Relu x a /act/Relu");
    put_node(&g, "Relu a b /act_1/Relu");
    put_node(&g, "Relu b c /actor/Relu");
    put_node(&g, "Relu c y /act_x/Relu");
    assert_string_equal(places_of(&g, "y"), "act:? actor:? act_x:?");

    g = begun();
    put_node(&g, "MatMul x,fc.weight a /fc_2/MatMul");
    put_node(&g, "MatMul a,fc.weight y /fc_x/MatMul");
    put_tensor(&g, 5, "fc.weight 1 4,4 64");
    assert_string_equal(places_of(&g, "y"), "fc:? fc_x:?");
}

/* A part that makes a path longer than 1,023 bytes, and a mark in such a key. */
static void long_parts_of_names_are_left_out(void **state) {
    (void)state;
    char name[1300];
    lmi_buf g = begun();
    snprintf(name, sizeof name, "/a/%s_1/b/Relu", long_name('n', 1100));
    put_long(&g, "Relu", "x", "y", name);
    assert_string_equal(places_of(&g, "y"), "a:? a.b:?");
}

/* -- names of weights ------------------------------------------------------------------------------------ */

static void a_weight_is_of_the_module_that_reads_it_where_its_name_is_no_path(void **state) {
    (void)state;
    char weight[1200];
    lmi_buf g = begun();
    snprintf(weight, sizeof weight, "%s.weight", long_name('w', 1100));
    put_product(&g, weight, "/fc/MatMul");
    assert_string_equal(places_of(&g, "y"), "fc:?");

    /* one that looks like a path, of another module than the nodes have */
    g = begun();
    put_node(&g, "MatMul x,fcs.weight y /fc/MatMul");
    put_tensor(&g, 5, "fcs.weight 1 4,4 64");
    assert_string_equal(places_of(&g, "y"), "fc:?");
    lam_model *m = opened("scopes.onnx");
    lam_costs *c = costs_of(m);
    is_exactly(row_of(c, "fc")->params, 16);
    lam_costs_free(c);
    lam_model_free(m);
}

/* A weight is followed through the nodes that name it again, up to a limit. */
static void a_weight_may_be_named_again(void **state) {
    (void)state;
    for (int n = 3; n <= 40; n += 37) {
        lmi_buf g = begun();
        char words[64] = "Identity fc.weight v0 -";
        for (int i = 0; i < n; i++) {
            put_node(&g, words);
            snprintf(words, sizeof words, "Identity v%d v%d -", i, i + 1);
        }
        snprintf(words, sizeof words, "MatMul x,v%d y -", n - 1);
        put_node(&g, words);
        put_tensor(&g, 5, "fc.weight 1 4,4 64");
        const char *told = places_of(&g, "y");
        if (n == 3)
            assert_string_equal(told, "fc:?");
        else
            assert_non_null(strstr(told, "y:MatMul"));
    }
}

/* Both read the weight of one, the second one twice. */
static void a_weight_that_another_module_reads_twice_is_of_it_once(void **state) {
    (void)state;
    lmi_buf g = begun();
    put_node(&g, "MatMul x,one.weight a /one/MatMul");
    put_node(&g, "MatMul a,one.weight b /two/MatMul");
    put_node(&g, "MatMul b,one.weight y /two/MatMul_1");
    put_tensor(&g, 5, "one.weight 1 4,4 64");
    assert_string_equal(places_of(&g, "y"), "one:? two:?");
    lam_model *m = opened("scopes.onnx");
    lam_costs *c = costs_of(m);
    is_exactly(lam_costs_params(c).params, 16);
    assert_true(row_of(c, "two")->shared);
    lam_costs_free(c);
    lam_model_free(m);
    oom_sweep_parts(read_once, "scopes.onnx");
}

/* -- notes ----------------------------------------------------------------------------------------------- */

#define TYPES "['net.Net', 'torch.nn.Sequential', 'torch.nn.Linear', 'aten.linear.default']"

/* One name inside two modules is one of each. */
static void a_name_in_two_modules_is_two_places(void **state) {
    (void)state;
    lmi_buf g = begun();
    put_noted(&g, "Relu x a -", "['', 'left', 'act', 'relu']", TYPES);
    put_noted(&g, "Relu a y -", "['', 'right', 'act', 'relu']", TYPES);
    assert_string_equal(places_of(&g, "y"), "left:Sequential act:Linear right:Sequential");
}

/* The module is left and entered again: by what it made itself it is one call, else another. */
static void a_module_that_reads_what_it_made_is_one_call(void **state) {
    (void)state;
    for (int own = 0; own < 2; own++) {
        int calls = 0;
        lmi_buf g = begun();
        put_noted(&g, "MatMul x,fc.weight a -", "['', 'body', 'fc', 'linear']", TYPES);
        put_noted(&g, "Relu a b -", "['', 'act', 'relu']", TYPES);
        put_noted(&g, own ? "Add b,a y -" : "Add b,b y -", "['', 'body', 'add']", TYPES);
        put_tensor(&g, 5, "fc.weight 1 4,4 64");
        places_of(&g, "y");
        lam_model *m = opened("scopes.onnx");
        for (int32_t i = 0; i < lam_model_n_events(m); i++)
            calls += strcmp(lam_model_place(m, lam_model_event(m, i)->place)->path, "body") == 0;
        assert_int_equal(calls, own ? 1 : 2);
        lam_model_free(m);
    }
}

/* A class without a name, and more modules in each other than are told apart. */
static void odd_notes_are_read(void **state) {
    (void)state;
    lmi_buf g = begun(), names = begun();
    put_noted(&g, "Relu x a -", "['', 'act', 'relu']", "['', 'torch.nn.', 'aten.relu.default']");
    put_noted(&g, "Relu a b -", "['', 'bare', 'relu']", "['', '', 'aten.relu.default']");
    lmi_put(&names, "[''");
    for (int i = 0; i < 40; i++) lmi_putf(&names, ", 'm%d'", i);
    lmi_put(&names, "]");
    put_noted(&g, "Relu b y -", lmi_buf_text(&names), "");
    const char *told = places_of(&g, "y");
    assert_int_equal(strncmp(told, "act:? bare:? m0:? m1:? ", 23), 0);
    assert_string_equal(strrchr(told, ' '), " m29:?");
    lmi_buf_free(&names);

    g = begun(); /* all ran in the model itself, whose class is not told: each node is a place */
    put_noted(&g, "Relu x y own", "['', 'relu']", "");
    assert_string_equal(places_of(&g, "y"), "own:Relu");
}

/* Where the nodes ran in the model itself, a weight is of the module that its name tells. */
static void a_weight_may_tell_modules_that_no_node_has(void **state) {
    (void)state;
    lmi_buf g = begun();
    put_noted(&g, "MatMul x,deep.er.weight y -", "['', 'linear']", TYPES);
    put_tensor(&g, 5, "deep.er.weight 1 4,4 64");
    assert_string_equal(places_of(&g, "y"), "deep:? deep.er:?");
    oom_sweep_parts(read_once, "scopes.onnx");

    g = begun();
    put_product(&g, "a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t.u.v.w.x.y.z.A.B.C.D.E.F.G.H.weight", "");
    const char *told = places_of(&g, "y"); /* of so many modules in each other 31 are called */
    assert_non_null(strstr(told, " a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t.u.v.w.x.y.z.A.B.C.D.E:?"));
    lam_model *m = opened("scopes.onnx");
    assert_int_equal(lam_model_n_events(m), 1 + 31);
    lam_model_free(m);
}

/* The convolution that a normalisation was folded into: beside it, around it, or of a module with a like
 * name. */
static void a_folded_normalisation_gives_its_place_to_the_convolution(void **state) {
    (void)state;
    static const struct {
        const char *weight, *told;
    } all[] = {
        {"body.conv.weight", "body:Sequential body.conv:?"},
        {"body.weight", "body:Sequential"},
        {"bodyguard.conv.weight", "bodyguard:? bodyguard.conv:?"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char words[64];
        lmi_buf g = begun();
        snprintf(words, sizeof words, "MatMul x,%s y -", all[i].weight);
        put_noted(&g, words, "['', 'body', 'body.bn', 'batch_norm']",
                  "['net.Net', 'torch.nn.Sequential', 'torch.nn.BatchNorm1d', 'aten.batch_norm.default']");
        snprintf(words, sizeof words, "%s 1 4,4 64", all[i].weight);
        put_tensor(&g, 5, words);
        assert_string_equal(places_of(&g, "y"), all[i].told);
        lam_model *m = opened("scopes.onnx");
        assert_int_equal(lam_model_n_events(m), lam_model_n_places(m));
        lam_model_free(m);
    }
    lmi_buf g = begun(); /* one that is called twice is one normalisation */
    for (int i = 0; i < 2; i++)
        put_noted(&g, i ? "MatMul a,conv.weight y -" : "MatMul x,conv.weight a -", "['', 'bn', 'batch_norm']",
                  "['net.Net', 'torch.nn.BatchNorm1d', 'aten.batch_norm.default']");
    put_tensor(&g, 5, "conv.weight 1 4,4 64");
    assert_string_equal(places_of(&g, "y"), "conv:?");
    lam_model *m = opened("scopes.onnx");
    assert_non_null(strstr(lam_model_note(m, 0), "1 batch normalisation"));
    lam_model_free(m);
}

/* -- results that nothing names -------------------------------------------------------------------------- */

/* A node whose first result is left out: what it makes counts nevertheless. */
static void a_result_may_be_left_out(void **state) {
    (void)state;
    lmi_buf g = begun(), n = begun();
    put_word(&n, 1, "x");
    put_word(&n, 2, "");
    put_word(&n, 2, "half");
    put_word(&n, 4, "Split");
    put_message(&g, 1, &n);
    put_node(&g, "Concat half,half,half y -");
    assert_string_equal(places_of(&g, "y"), "Split:Split y:Concat");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_without_a_module_is_a_place_by_its_name),
        cmocka_unit_test(names_that_are_too_long_are_cut),
        cmocka_unit_test(the_name_of_a_node_tells_its_modules),
        cmocka_unit_test(a_number_behind_a_name_is_a_further_call),
        cmocka_unit_test(long_parts_of_names_are_left_out),
        cmocka_unit_test(a_weight_is_of_the_module_that_reads_it_where_its_name_is_no_path),
        cmocka_unit_test(a_weight_may_be_named_again),
        cmocka_unit_test(a_weight_that_another_module_reads_twice_is_of_it_once),
        cmocka_unit_test(a_name_in_two_modules_is_two_places),
        cmocka_unit_test(a_module_that_reads_what_it_made_is_one_call),
        cmocka_unit_test(odd_notes_are_read),
        cmocka_unit_test(a_weight_may_tell_modules_that_no_node_has),
        cmocka_unit_test(a_folded_normalisation_gives_its_place_to_the_convolution),
        cmocka_unit_test(a_result_may_be_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
