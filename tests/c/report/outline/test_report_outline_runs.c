/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs of equal siblings, families, and outlines of so many places that only those that matter are kept. */
#include "kit/oom.h"

#include "kit/ops_net.h"
#include "kit/outlined.h"
#include "kit/text_net.h"

/* -- runs ------------------------------------------------------------------------------------------------ */

/* Net(h0 ... h<n - 1>: Block(fc: Linear(4, 4), act: ReLU), tail: Linear). `odd`: that block's Linear has no
 * bias; `name`: what all begin with. */
static net blocks(int n, int odd, const char *name) {
    char text[1024] = "Net(";
    for (int i = 0; i < n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text),
                 "%s%d: Block(fc: Linear 4 4 %s; act: ReLU); ", name, i, i == odd ? "nobias" : "");
    snprintf(text + strlen(text), sizeof text - strlen(text), "tail: Linear 4 4)");
    return net_of_text(text, false, SH(1, 4));
}

static void test_equal_siblings_are_a_run(void **unused) {
    (void)unused;
    net n = blocks(5, -1, "h");
    outlined x = outline_of(net_done(&n), "layers");
    int32_t first = outline_find(&x.o, "h0");
    assert_int_equal(x.o.at[first].n_run, 5);
    for (int i = 0; i < 5; i++) {
        char path[32];
        snprintf(path, sizeof path, "h%d", i);
        assert_int_equal(outline_at(&x.o, path)->run, first);
        if (i) assert_int_equal(outline_at(&x.o, path)->n_run, 1);
    }
    assert_int_equal(outline_at(&x.o, "tail")->run, outline_find(&x.o, "tail"));
    assert_int_equal(outline_at(&x.o, "h3.fc")->run, outline_find(&x.o, "h3.fc"));
    assert_int_equal(x.o.n, 1 + 5 * 3 + 1);
    outline_leave(&x);
}

/* One that differs inside parts a run; two are enough for one. */
static void test_a_different_inside_parts_a_run(void **unused) {
    (void)unused;
    net n = blocks(6, 2, "h");
    outlined x = outline_of(net_done(&n), "layers");
    assert_int_equal(outline_at(&x.o, "h0")->n_run, 2);
    assert_int_equal(outline_at(&x.o, "h1")->run, outline_find(&x.o, "h0"));
    assert_int_equal(outline_at(&x.o, "h2")->n_run, 1);
    assert_int_equal(outline_at(&x.o, "h3")->n_run, 3);
    assert_int_equal(outline_at(&x.o, "h5")->run, outline_find(&x.o, "h3"));
    assert_int_equal(lmi_run_last(x.o.at, outline_find(&x.o, "h3")), outline_find(&x.o, "h5"));
    assert_int_equal(lmi_run_end(x.o.at, outline_find(&x.o, "h3")), outline_find(&x.o, "tail"));
    outline_leave(&x);
}

static void test_names_of_a_run_count_on(void **unused) {
    (void)unused;
    static const struct {
        const char *names[3];
        int32_t n_run[3];
    } all[] = {{{"a", "b", "c"}, {1, 1, 1}},    {{"x1", "y1", "z1"}, {1, 1, 1}},
               {{"x", "x1", "x2"}, {1, 2, 1}},  {{"9", "10", "11"}, {3, 1, 1}},
               {{"h1", "h3", "h4"}, {1, 2, 1}}, {{"h08", "h09", "h10"}, {3, 1, 1}},
               {{"h2", "h1", "h0"}, {1, 1, 1}}, {{"99", "100", "102"}, {2, 1, 1}}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        net n = net_new();
        int32_t root = net_module(&n, "Net", 0), p = net_place(&n, -1, "", root);
        int32_t r = net_call(&n, root, -1, SH(1), 0, SH(1), 0);
        for (int k = 0; k < 3; k++) {
            int32_t act = net_leaf(&n, "ReLU");
            net_place(&n, p, all[i].names[k], act);
            net_call(&n, act, r, SH(1), 0, SH(1), 0);
        }
        outlined x = outline_of(net_done(&n), "layers");
        for (int k = 0; k < 3; k++) assert_int_equal(x.o.at[1 + k].n_run, all[i].n_run[k]);
        outline_leave(&x);
    }
}

/* A layer that is tied to another, has a buffer or is called twice is not equal to its siblings. */
static void test_equal_siblings_are_equal_in_all_counts(void **unused) {
    (void)unused;
    for (int odd = 0; odd < 4; odd++) {
        net n = net_new();
        int32_t root = net_module(&n, "Net", 0), p = net_place(&n, -1, "", root), weight = -1;
        int32_t r = net_call(&n, root, -1, SH(1, 4), 0, SH(1, 4), 0);
        for (int k = 0; k < 4; k++) {
            char name[8];
            int32_t fc = net_leaf(&n, "Linear");
            if (k != 2 || odd != 1) weight = net_tensor(&n, true, SH(4, 4));
            net_owns(&n, fc, "weight", weight);
            if (k == 2 && odd == 2) net_buffer(&n, fc, "mask", SH(4));
            snprintf(name, sizeof name, "%d", k);
            net_place(&n, p, name, fc);
            net_call(&n, fc, r, SH(1, 4), 0, SH(1, 4), 0);
            if (k == 2 && odd == 3) net_call(&n, fc, r, SH(1, 4), 0, SH(1, 4), 0);
        }
        outlined x = outline_of(net_done(&n), "layers");
        assert_int_equal(x.o.at[1].n_run, odd ? 2 : 4);
        assert_int_equal(x.o.at[3].n_run, 1);
        outline_leave(&x);
    }
}

/* -- families -------------------------------------------------------------------------------------------- */

static int32_t family_of(const lmi_outline *o, const char *path) { return outline_at(o, path)->family; }

static void test_families_come_from_kinds(void **unused) {
    (void)unused;
    static const struct {
        const char *type;
        lmi_layer_family family;
    } leaves[] = {{"Conv2d", LMI_CONVOLUTION},
                  {"Linear", LMI_LINEAR},
                  {"Bilinear", LMI_LINEAR},
                  {"GRU", LMI_ATTENTION},
                  {"MultiheadAttention", LMI_ATTENTION},
                  {"LayerNorm", LMI_NORMALISATION},
                  {"GELU", LMI_ACTIVATION},
                  {"Dropout", LMI_ACTIVATION},
                  {"Identity", LMI_OTHER_FAMILY},
                  {"MaxPool2d", LMI_OTHER_FAMILY},
                  {"Embedding", LMI_EMBEDDING},
                  {"LlamaRMSNorm", LMI_NORMALISATION},
                  {"SwiGLU", LMI_OTHER_FAMILY}};
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), p = net_place(&n, -1, "", root);
    int32_t r = net_call(&n, root, -1, SH(1), 0, SH(1), 0);
    for (size_t i = 0; i < sizeof leaves / sizeof *leaves; i++) {
        int32_t leaf = net_leaf(&n, leaves[i].type);
        net_place(&n, p, leaves[i].type, leaf);
        net_call(&n, leaf, r, SH(1), 0, SH(1), 0);
    }
    outlined x = outline_of(net_done(&n), "layers");
    assert_int_equal(family_of(&x.o, ""), LMI_CONTAINER);
    for (size_t i = 0; i < sizeof leaves / sizeof *leaves; i++)
        if (family_of(&x.o, leaves[i].type) != (int32_t)leaves[i].family)
            fail_msg("%s is %s", leaves[i].type, lmi_family_title[family_of(&x.o, leaves[i].type)]);
    outline_leave(&x);
}

/* Of a class that is no known layer the operators tell: softmax between two products is an attention, with
 * parts or without; a product alone is a linear layer. */
static void test_families_come_from_operators(void **unused) {
    (void)unused;
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), mix = net_module(&n, "Mixer", 0), q = net_linear(&n, 4, 4),
            mine = net_module(&n, "Mine", LAM_MODULE_LEAF);
    int32_t p = net_place(&n, -1, "", root);
    net_place(&n, net_place(&n, p, "mix", mix), "q", q);
    net_place(&n, p, "mine", mine);
    int32_t r = net_call(&n, root, -1, SH(4, 4), 0, SH(4, 4), 0),
            m = net_call(&n, mix, r, SH(4, 4), 0, SH(4, 4), 0);
    int32_t c = net_call(&n, q, m, SH(4, 4), 0, SH(4, 4), 0),
            d = net_call(&n, mine, r, SH(4, 4), 0, SH(4, 4), 0);
    const lam_op_arg x[] = {T(0, 4, 4)}, y[] = {T(0, 4, 4)};
    net_mm(&n, (op_at){c, -1, LAM_FORWARD, 0}, 4, 4, 4);
    net_mm(&n, (op_at){m, -1, LAM_FORWARD, 0}, 4, 4, 4);
    net_op_args(&n, "aten::_softmax", (op_at){m, -1, LAM_FORWARD, 0}, x, 1, y, 1);
    net_mm(&n, (op_at){m, -1, LAM_FORWARD, 0}, 4, 4, 4);
    net_mm(&n, (op_at){d, -1, LAM_FORWARD, 0}, 4, 4, 4);
    outlined o = outline_of(net_done(&n), NULL);
    assert_int_equal(family_of(&o.o, "mix"), LMI_ATTENTION);
    assert_int_equal(family_of(&o.o, "mix.q"), LMI_LINEAR);
    assert_int_equal(family_of(&o.o, "mine"), LMI_LINEAR);
    outline_leave(&o);
}

/* -- very many places ------------------------------------------------------------------------------------ */

/* `wide` stages of `deep` Linear each, with weights of `size(i)` elements. */
static net stages(int wide, int deep, int64_t (*size)(int i)) {
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), p = net_place(&n, -1, "", root);
    int32_t r = net_call(&n, root, -1, SH(1), 0, SH(1), 0);
    for (int i = 0; i < wide; i++) {
        char name[32];
        int32_t stage = net_module(&n, "Stage", 0);
        snprintf(name, sizeof name, "stage%d", i);
        int32_t s = net_place(&n, p, name, stage), c = net_call(&n, stage, r, SH(1), 0, SH(1), 0);
        for (int k = 0; k < deep; k++) {
            int32_t fc = net_leaf(&n, "Linear");
            net_param(&n, fc, "weight", SH(size(i * deep + k)));
            snprintf(name, sizeof name, "%d", k);
            net_place(&n, s, name, fc);
            net_call(&n, fc, c, SH(1), 0, SH(1), 0);
        }
    }
    return n;
}

static int64_t always_five(int i) {
    (void)i;
    return 5;
}

/* 300 equal stages of 100 equal layers: one stage, one layer, and what stands for the others of each. */
static void test_runs_are_folded(void **unused) {
    (void)unused;
    net n = stages(300, 100, always_five);
    outlined x = outline_of(net_done(&n), "layers");
    const lmi_outline *o = &x.o;
    assert_int_equal(o->n, 5);
    assert_string_equal(o->at[1].name, "stage0");
    assert_string_equal(o->at[2].name, "0");
    assert_string_equal(o->at[3].name, "1\u202699 (99 equal)");
    assert_string_equal(o->at[4].name, "stage1\u2026299 (299 equal)");
    assert_string_equal(o->at[4].type, "Stage");
    assert_int_equal(o->at[3].others, 98);
    assert_int_equal(o->at[4].others, 299 * 101 - 1);
    assert_int_equal(o->at[4].n_children, 0);
    assert_int_equal(o->at[0].n_children, 2);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(o->at[i].n_run, 1);
        assert_int_equal(o->at[i].run, i);
    }
    assert_int_equal(o->own[LMI_OWN_PARAMS][2], 5);
    assert_int_equal(o->own[LMI_OWN_PARAMS][3], 99 * 5);
    assert_int_equal(o->own[LMI_OWN_PARAMS][4], 299 * 100 * 5);
    assert_int_equal(o->own[LMI_OWN_CALLS][4], 299 * 101);
    assert_int_equal(o->total[LMI_OWN_PARAMS][0], 300 * 100 * 5);
    assert_int_equal(o->total[LMI_OWN_PARAMS][0], o->params.params.n);
    assert_int_equal(o->n_left, 1);
    outline_leave(&x);
}

/* 100 different stages of 250 layers, of which 5 have 1/500 of the parameters each and the others together
 * less than 1e-4 of a stage's: these become one place of each stage. */
static int64_t all_different(int i) {
    int stage = i / 250, layer = i % 250;
    return layer % 50 == 1 ? 1000000 + stage : 1 + layer;
}

static void test_others_have_the_sums(void **unused) {
    (void)unused;
    net n = stages(100, 250, all_different);
    outlined x = outline_of(net_done(&n), "layers");
    const lmi_outline *o = &x.o;
    int64_t small = 0;
    for (int k = 0; k < 250; k++) small += k % 50 == 1 ? 0 : 1 + k;
    assert_int_equal(o->n, 1 + 100 * (1 + 5 + 1));
    const lmi_outline_place *stage = outline_at(o, "stage7");
    assert_int_equal(stage->n_children, 6);
    int32_t others = outline_find(o, "stage7.others (245)");
    assert_int_equal(o->at[others].others, 244);
    assert_string_equal(o->at[others].type, "Linear");
    assert_int_equal(o->at[others].family, LMI_LINEAR);
    assert_int_equal(o->own[LMI_OWN_PARAMS][others], small);
    assert_int_equal(o->own[LMI_OWN_CALLS][others], 245);
    outline_own(o, "stage7.51", LMI_OWN_PARAMS, 1000007, LAM_EXACT);
    outline_total(o, "stage7", LMI_OWN_PARAMS, small + 5 * 1000007);
    assert_int_equal(o->total[LMI_OWN_PARAMS][0], o->params.params.n);
    assert_int_equal(o->n_left, 1);
    /* Each has one call of 25101, 0.00398 %: the least that leaves few enough out. */
    assert_non_null(strstr(o->left[0], "24500 of 25101 modules, each with less than 0.00418 % of every"));
    for (int32_t i = 1; i < o->n; i++) {
        assert_true(o->at[i].parent < i && o->at[o->at[i].parent].end >= o->at[i].end);
        assert_int_equal(o->at[i].depth, o->at[o->at[i].parent].depth + 1);
    }
    outline_leave(&x);
}

/* The last two of each stage are equal, and small: together with the others they are no run. */
static int64_t last_two_equal(int i) { return all_different(i % 250 == 249 ? i - 1 : i); }

static void test_two_equal_ones_are_among_the_others(void **unused) {
    (void)unused;
    net n = stages(100, 250, last_two_equal);
    outlined x = outline_of(net_done(&n), "layers");
    assert_int_equal(x.o.n, 1 + 100 * (1 + 5 + 1));
    assert_int_equal(outline_at(&x.o, "stage7.others (245)")->others, 244);
    for (int32_t i = 0; i < x.o.n; i++) assert_int_equal(x.o.at[i].run, i);
    outline_leave(&x);
}

/* A chain has no siblings to put together, and stays as long as it is. */
static void test_a_chain_stays_whole(void **unused) {
    (void)unused;
    enum { LONG = 20100 };
    net n = net_new();
    int32_t p = -1, r = -1;
    for (int i = 0; i < LONG; i++) {
        int32_t module = net_module(&n, "Link", 0);
        p = net_place(&n, p, i ? "next" : "", module);
        r = net_call(&n, module, r, SH(1), 0, SH(1), 0);
    }
    outlined x = outline_of(net_done(&n), "layers");
    lmi_buf path;
    assert_int_equal(x.o.n, LONG);
    lmi_buf_init(&path);
    lmi_outline_path(&x.o, LONG - 1, &path);
    assert_int_equal(path.n, (LONG - 1) * 5 - 1);
    assert_int_equal(strncmp(path.s, "next.next.", 10), 0);
    lmi_buf_free(&path);
    outline_leave(&x);
}

static int64_t one_more(int i) { return 1 + i; }

static void try_places(void *costs, bool *ok) {
    lmi_outline o;
    lam_error e = {0};
    const lmi_outline_options places = {0};
    *ok = oom_check(lmi_outline_new(&o, costs, &places, &e), &e);
    lmi_outline_free(&o);
}

/* Of layers and stages that all differ and are too many. What comes before places are put together is swept
 * in other tests: the last allocations are refused here. */
static void test_no_memory(void **unused) {
    (void)unused;
    enum { LAST = 60 };
    bool ok = false;
    net n = stages(2, 10050, one_more);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "layers", false);
    oom_arm(-1, false);
    try_places(c, &ok);
    int64_t all = oom_seen;
    assert_true(ok && all > LAST);
    for (int64_t i = all - rounds(LAST); i < all; i++) {
        oom_arm(i, false);
        try_places(c, &ok);
        oom_disarm();
        assert_false(ok);
    }
    lam_costs_free(c);
    lam_model_free(m);
}

/* One of what stands for several is not known: they are at least what the others are. */
static void test_others_are_at_least(void **unused) {
    (void)unused;
    net n = stages(2, 10050, one_more);
    const lam_tensor_info lazy = {.dtype = NET_FLOAT32, .ndim = -1, .bytes = -1};
    int32_t tensor;
    NET_OK(&n, lam_build_tensor(n.b, &lazy, &tensor, &n.e));
    net_owns(&n, 3, "bias", tensor); /* of stage0.1, which is module 3 */
    outlined x = outline_of(net_done(&n), "layers");
    int32_t others = -1;
    for (int32_t i = 0; i < x.o.n && others < 0; i++)
        if (x.o.at[i].others) others = i;
    assert_true(others > 0);
    assert_int_equal(strncmp(x.o.at[others].name, "others (", 8), 0);
    assert_int_equal(x.o.state[LMI_OWN_PARAMS][others], LAM_AT_LEAST);
    assert_int_equal(x.o.total[LMI_OWN_PARAMS][0], INT64_C(20100) * 20101 / 2);
    assert_true(x.o.n <= 20000);
    outline_leave(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_siblings_are_a_run),
        cmocka_unit_test(test_a_different_inside_parts_a_run),
        cmocka_unit_test(test_names_of_a_run_count_on),
        cmocka_unit_test(test_equal_siblings_are_equal_in_all_counts),
        cmocka_unit_test(test_families_come_from_kinds),
        cmocka_unit_test(test_families_come_from_operators),
        cmocka_unit_test(test_runs_are_folded),
        cmocka_unit_test(test_others_have_the_sums),
        cmocka_unit_test(test_two_equal_ones_are_among_the_others),
        cmocka_unit_test(test_a_chain_stays_whole),
        cmocka_unit_test(test_others_are_at_least),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
