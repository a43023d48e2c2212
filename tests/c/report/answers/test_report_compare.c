/* SPDX-License-Identifier: Apache-2.0
 *
 * Conventions side by side: the numbers, causes that add up to each difference, every format, and every
 * allocation failing in turn. */
#include "kit/oom.h"

#include "kit/ops_net.h"
#include "kit/pages.h"
#include "kit/shown.h"

static op_at in(int32_t call, int32_t parent) { return (op_at){call, parent, LAM_FORWARD, 0}; }

/* Net(fc: Linear 3 to 4 for (2, 5, 3), bn) that also attends, and multiplies outside every call. */
static lam_model *mixed(void) {
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), fc = net_linear(&n, 3, 4), p = net_place(&n, -1, "", root);
    net_place(&n, p, "fc", fc);
    int32_t c = net_call(&n, root, -1, SH(2, 5, 3), 0, SH(2, 5, 4), 0);
    int32_t k = net_call(&n, fc, c, SH(2, 5, 3), 0, SH(2, 5, 4), 0);
    const lam_op_arg lin[] = {T(0, 2, 5, 3), T(1, 4, 3), T(2, 4)}, lout[] = {T(0, 2, 5, 4)};
    int32_t linear = net_op_args(&n, "aten::linear", in(k, -1), lin, 3, lout, 1);
    net_mm(&n, in(k, linear), 10, 3, 4); /* 120 */
    const lam_op_arg qkv[] = {T(0, 1, 2, 5, 8), T(1, 1, 2, 5, 8), T(2, 1, 2, 5, 8)}, o[] = {T(0, 1, 2, 5, 8)};
    int32_t sdpa = net_op_args(&n, "aten::scaled_dot_product_attention", in(c, -1), qkv, 3, o, 1);
    net_op_args(&n, "aten::_scaled_dot_product_flash_attention_for_cpu", in(c, sdpa), qkv, 3, o, 1); /* 800 */
    const lam_op_arg x[] = {T(0, 2, 5, 4), T(2, 4), T(3, 4)}, y[] = {T(0, 2, 5, 4)};
    net_op_args(&n, "aten::layer_norm", in(c, -1), x, 3, y, 1);
    net_mm(&n, in(-1, -1), 1, 2, 3); /* 6 */
    return net_done(&n);
}

static lam_comparison *compared(const lam_model *m, const char *const *names, int32_t n) {
    lam_comparison *c = NULL;
    lam_error e = {0};
    lam_compare_options o = {.conventions = names, .n = n};
    if (lam_compare_new(&c, m, names ? &o : NULL, &e) != LAM_OK) fail_msg("%s", e.text);
    return c;
}

static const lam_compared *row_of(const lam_comparison *c, const char *convention) {
    for (int32_t i = 0; lam_compare_row(c, i); i++)
        if (!strcmp(lam_compare_row(c, i)->convention, convention)) return lam_compare_row(c, i);
    fail_msg("no row of %s", convention);
    return NULL;
}

static void causes_add_up(void **state) {
    (void)state;
    static const char *const all[] = {"all"};
    lam_model *m = mixed();
    lam_comparison *c = compared(m, all, 1);
    assert_string_equal(lam_compare_row(c, 0)->convention, "exact");
    assert_int_equal(lam_compare_row(c, 0)->macs.n, 120 + 800 + 6);
    int32_t n = 0;
    for (; lam_compare_row(c, n); n++) {
        const lam_compared *row = lam_compare_row(c, n);
        int64_t sum = 0;
        for (int32_t k = 0; k < row->n_causes; k++) sum += row->causes[k].difference;
        if (row->told) assert_int_equal(sum, row->difference);
        assert_int_equal(row->told, row->macs.state != LAM_UNKNOWN);
    }
    assert_int_equal(n, lam_n_conventions());
    assert_null(lam_compare_row(c, n));
    assert_null(lam_compare_row(c, -1));
    lam_compare_free(c);
    lam_model_free(m);
}

static void reasons(void **state) {
    (void)state;
    static const char *const names[] = {"torch", "fvcore", "torchinfo", "exact"};
    lam_model *m = mixed();
    lam_comparison *c = compared(m, names, 4);
    const lam_compared *torch = row_of(c, "torch"), *fvcore = row_of(c, "fvcore"),
                       *torchinfo = row_of(c, "torchinfo");
    assert_null(lam_compare_row(c, 4)); /* the reference once */
    assert_int_equal(torch->difference, -800);
    assert_int_equal(torch->n_causes, 1);
    assert_string_equal(torch->causes[0].text, "leaves out attention in Net");
    assert_non_null(strstr(torch->causes[0].note, "the CPU's attention kernel"));
    assert_int_equal(torch->causes[0].calls, 1);
    assert_int_equal(lam_compare_write(c, "text", 0, false, show_sink(), NULL), LAM_OK);
    show_has("leaves out attention in Net (1 call): FlopCounterMode has no formula for\n"
             "                         the CPU's attention kernel\n"); /* a name stays as it is written */
    show_has("leaves out attention in Net (1 call): fvcore has no handle for it\n");
    show_has("counts Linear as 32; exact is 120 (1 call): a layer's weight and bias\n");
    /* Norms count 5 an element, and the product is counted by the operator that was called. */
    assert_int_equal(fvcore->difference, -800 + 5 * 40);
    assert_string_equal(fvcore->causes[1].text,
                        "counts layer_norm in Net, although it has no multiply-accumulate");
    assert_int_equal(fvcore->causes[1].difference, 200);
    /* 12 weights and 4 biases for each of two samples. */
    assert_int_equal(torchinfo->macs.n, 2 * 16);
    assert_string_equal(torchinfo->causes[1].text, "counts Linear as 32; exact is 120");
    assert_string_equal(torchinfo->causes[2].text, "leaves out mm outside every layer");
    assert_int_equal(torchinfo->difference, 32 - 926);
    lam_compare_free(c);
    lam_model_free(m);
}

/* Where an operator has no rule, no number is known to be the same, or to differ by so much; the causes that
 * are known are told. */
static void an_unknown_reference(void **state) {
    (void)state;
    static const char *const names[] = {"torch", "ptflops"};
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), fc = net_linear(&n, 3, 4), p = net_place(&n, -1, "", root);
    net_place(&n, p, "fc", fc);
    int32_t c = net_call(&n, root, -1, SH(2, 3), 0, SH(2, 4), 0);
    net_mm(&n, in(net_call(&n, fc, c, SH(2, 3), 0, SH(2, 4), 0), -1), 2, 3, 4); /* 24 */
    const lam_op_arg x[] = {T(0, 2, 4)};
    net_op_args(&n, "my::op", in(c, -1), x, 1, x, 1);
    lam_model *m = net_done(&n);
    lam_comparison *t = compared(m, names, 2);
    assert_int_equal(lam_compare_row(t, 0)->macs.state, LAM_AT_LEAST);
    assert_int_equal(row_of(t, "torch")->macs.state, LAM_EXACT);
    assert_false(row_of(t, "torch")->told);
    assert_int_equal(row_of(t, "ptflops")->n_causes, 1);
    assert_int_equal(lam_compare_write(t, "text", 0, false, show_sink(), NULL), LAM_OK);
    show_has("\ntorch       24       ?  not known, as exact is not\n"
             "ptflops     40       ?  counts Linear as 40; exact is 24 (1 call)\n");
    assert_int_equal(lam_compare_write(t, "json", 0, false, show_sink(), NULL), LAM_OK);
    assert_null(strstr(shown, "\"difference\": 0"));
    assert_int_equal(lam_compare_write(t, "csv", 0, false, show_sink(), NULL), LAM_OK);
    show_has("\ntorch,,,24,exact,48,exact,16,exact,\n");
    lam_compare_free(t);
    lam_model_free(m);
}

/* Three layers of unlike types attend, and each is a cause with the same note. */
static void a_note_is_told_once(void **state) {
    (void)state;
    static const char *const names[] = {"torch"}, *const types[] = {"A", "B", "C"};
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), p = net_place(&n, -1, "", root), module[3], times = 0;
    for (int i = 0; i < 3; i++) {
        module[i] = net_module(&n, types[i], 0);
        net_place(&n, p, types[i], module[i]);
    }
    int32_t c = net_call(&n, root, -1, SH(1, 2), 0, SH(1, 2), 0), k[3];
    for (int i = 0; i < 3; i++) k[i] = net_call(&n, module[i], c, SH(1, 2), 0, SH(1, 2), 0);
    const lam_op_arg qkv[] = {T(0, 1, 2, 5, 8), T(1, 1, 2, 5, 8), T(2, 1, 2, 5, 8)}, o[] = {T(0, 1, 2, 5, 8)};
    for (int i = 0; i < 3; i++)
        net_op_args(&n, "aten::_scaled_dot_product_flash_attention_for_cpu", in(k[i], -1), qkv, 3, o, 1);
    lam_model *m = net_done(&n);
    lam_comparison *t = compared(m, names, 1);
    assert_int_equal(row_of(t, "torch")->n_causes, 3);
    assert_int_equal(lam_compare_write(t, "text", 300, false, show_sink(), NULL), LAM_OK);
    for (const char *s = shown; (s = strstr(s, "FlopCounterMode")) != NULL; s++) times++;
    assert_int_equal(times, 1);
    lam_compare_free(t);
    lam_model_free(m);
}

/* A linear layer's step: its bias is added up in the backward, its ReLU thresholded. */
static lam_model *step(void) {
    net n = net_new();
    int32_t fc = net_linear(&n, 3, 4);
    net_place(&n, -1, "", fc);
    int32_t c = net_call(&n, fc, -1, SH(2, 3), 0, SH(2, 4), 0);
    net_mm(&n, in(c, -1), 2, 3, 4); /* 24 */
    net_relu(&n, in(c, -1), 8);
    int32_t node = net_op(&n, "ReluBackward0", (op_at){c, -1, LAM_BACKWARD, LAM_OP_NODE});
    net_relu(&n, (op_at){c, node, LAM_BACKWARD, 0}, 8);
    node = net_op(&n, "MmBackward0", (op_at){c, -1, LAM_BACKWARD, LAM_OP_NODE});
    net_mm(&n, (op_at){c, node, LAM_BACKWARD, 0}, 3, 2, 4); /* 24 */
    net_mm(&n, (op_at){c, node, LAM_BACKWARD, 0}, 2, 4, 3); /* 24 */
    net_mm(&n, (op_at){c, node, LAM_RECOMPUTE, 0}, 2, 3, 4);
    return net_done(&n);
}

/* What a Function of the user's own runs is not in a traced graph, and only that tool leaves it out. */
static void functions(void **state) {
    (void)state;
    static const char *const names[] = {"fvcore", "ptflops"};
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0);
    net_place(&n, -1, "", root);
    int32_t c = net_call(&n, root, -1, SH(2, 3), 0, SH(2, 4), 0);
    const lam_op_arg x[] = {T(0, 2, 3)}, y[] = {T(0, 2, 4)};
    int32_t mark = net_op_args(&n, "Double", (op_at){c, -1, LAM_FORWARD, LAM_OP_NODE}, x, 1, y, 1);
    net_mm(&n, in(c, mark), 2, 3, 4); /* 24 */
    const lam_op_arg a[] = {T(0, 2, 4), T(1, 2, 4)};
    net_op_args(&n, "aten::add", in(c, -1), a, 2, y, 1);
    lam_model *m = net_done(&n);
    lam_comparison *compared_all = compared(m, names, 2);
    const lam_compared *fvcore = row_of(compared_all, "fvcore"), *ptflops = row_of(compared_all, "ptflops");
    assert_int_equal(fvcore->macs.n, 0);
    assert_int_equal(fvcore->macs.state, LAM_EXACT);
    assert_non_null(strstr(fvcore->causes[0].note, "is one node of the tool's graph"));
    assert_null(fvcore->limits);
    assert_int_equal(ptflops->macs.n, 24);
    assert_non_null(strstr(ptflops->limits, "torch.add"));
    assert_null(strstr(ptflops->limits, "x @ y"));
    lam_compare_free(compared_all);
    lam_model_free(m);
    /* What a layer of torch calls is known: of the first word too. */
    for (int32_t word = 0; word < 2; word++) {
        n = net_new();
        root = net_leaf(&n, lam_word_name(word));
        net_place(&n, -1, "", root);
        c = net_call(&n, root, -1, SH(1, 1, 2, 3), 0, SH(1, 1, 2, 4), 0);
        net_op_args(&n, "aten::add", in(c, -1), a, 2, y, 1);
        m = net_done(&n);
        compared_all = compared(m, names, 2);
        assert_null(row_of(compared_all, "ptflops")->limits);
        lam_compare_free(compared_all);
        lam_model_free(m);
    }
}

static void other_metrics_and_phases(void **state) {
    (void)state;
    static const char *const some[] = {"torch", "fvcore", "layers"};
    static const struct {
        lam_compare_options o;
        int64_t macs, flops, torch;
        const char *cause, *text;
    } cases[] = {
        {{NULL, 0, LAM_FLOPS, LAM_FORWARD},
         24,
         56,
         -8,
         "leaves out relu in Linear",
         "tool   FLOPs  off by  because\n"},
        {{NULL, 0, LAM_MACS, LAM_BACKWARD}, 48, 104, 0, NULL, "bwd MACs  off by  because\n"},
        {{some, 3, LAM_FLOPS, LAM_BACKWARD},
         48,
         104,
         -8,
         "leaves out relu in Linear",
         "torch          96      -8  leaves out relu in Linear (1 call)\n"},
        {{some, 3, LAM_FLOPS, LAM_BACKWARD},
         48,
         104,
         -8,
         "leaves out relu in Linear",
         "-       -  does not count a backward pass\n"},
    };
    lam_model *m = step();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lam_comparison *c = NULL;
        lam_error e = {0};
        assert_int_equal(lam_compare_new(&c, m, &cases[i].o, &e), LAM_OK);
        const lam_compared *ref = lam_compare_row(c, 0), *torch = row_of(c, "torch");
        assert_int_equal(ref->macs.n, cases[i].macs);
        assert_int_equal(ref->flops.n, cases[i].flops);
        assert_int_equal(torch->difference, cases[i].torch);
        assert_int_equal(torch->n_causes, cases[i].cause != NULL);
        if (cases[i].cause) assert_string_equal(torch->causes[0].text, cases[i].cause);
        assert_int_equal(lam_compare_write(c, "text", 0, false, show_sink(), &e), LAM_OK);
        show_has(cases[i].text);
        bool back = cases[i].o.phase == LAM_BACKWARD;
        for (int32_t k = 0; lam_compare_row(c, k);
             k++) { /* who knows no backward is not asked, or has no answer */
            const lam_compared *row = lam_compare_row(c, k);
            bool knows = !strcmp(row->convention, "exact") || !strcmp(row->convention, "torch");
            if (back) assert_int_equal(row->told, knows);
            if (back && !cases[i].o.n) assert_true(knows);
            if (!row->told && back) assert_null(row->gap);
        }
        lam_compare_free(c);
    }
    lam_model_free(m);
}

static void formats(void **state) {
    (void)state;
    static const char *const names[] = {"torchinfo", "layers"};
    static const struct {
        const char *format, *part;
    } cases[] = {{NULL, "torchinfo      32    -894  -800  leaves out attention in Net (1 call)\n"},
                 {"text", "at least: Net (1 call)"},
                 {"md", "| torchinfo | 32 | - | 16 | -894 | -800 leaves out attention in Net"},
                 {"json",
                  "\"difference\": -88, \"calls\": 1, \"text\": \"counts Linear as 32; exact is 120\""},
                 {"csv", "torchinfo,leaves out mm outside every layer,1,,,,,,,-6\n"},
                 {"html", "<td>-894</td><td class=\"l wr\">-800 leaves out attention in Net (1 call)"},
                 {"html", "<p class=\"h1\">exact: 926 MACs</p>"},
                 {"html", "<span>because</span></th></tr></thead><tbody>\n<tr><th scope=\"row\">exact</th>"},
                 {"csv", "exact,,,926,exact,"}};
    lam_model *m = mixed();
    lam_comparison *c = compared(m, names, 2);
    lam_error e = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(lam_compare_write(c, cases[i].format, 0, false, show_sink(), &e), LAM_OK);
        show_has(cases[i].part);
    }
    assert_int_equal(lam_compare_write(c, "text", 1000, true, show_sink(), &e), LAM_OK);
    char *wide = strdup(shown);
    for (int32_t width = 24; width <= 140; width++) {
        assert_int_equal(lam_compare_write(c, "text", width, true, show_sink(), &e), LAM_OK);
        page_fits(shown, (size_t)width, true);
        if (width >= 30) page_same_words(wide, shown, true); /* names are whole */
    }
    free(wide);
    assert_int_equal(lam_compare_write(c, "json", 0, false, show_sink(), &e), LAM_OK);
    show_has("\"conventions\": [\n{\"convention\": \"exact\", \"macs\": 926, \"macs_state\": \"exact\", ");
    show_has(",\n{\"convention\": \"torchinfo\", \"macs\": 32, ");
    /* What follows the parts of a difference has none before it. */
    assert_int_equal(lam_compare_write(c, "text", 60, true, show_sink(), &e), LAM_OK);
    show_has("\n      -6  leaves out mm outside every layer (1 call)\n"
             "                           at least: Net (1 call): what its\n");
    assert_int_equal(lam_compare_write(c, "xml", 0, false, show_sink(), &e), LAM_USAGE);
    assert_non_null(strstr(e.text, "there are: text, md, json, csv, html"));
    lam_compare_free(c);
    lam_model_free(m);
}

/* On a narrow screen a single reason begins a line of its own, and goes on below its beginning. */
static void narrow(void **state) {
    (void)state;
    static const char *const names[] = {"torch"};
    lam_model *m = mixed();
    lam_comparison *c = compared(m, names, 1);
    assert_int_equal(lam_compare_write(c, "text", 48, false, show_sink(), NULL), LAM_OK);
    show_has("\ntorch   126    -800\n"
             "    leaves out attention in Net (1 call):\n"
             "    FlopCounterMode has no formula for the CPU's\n");
    lam_compare_free(c);
    lam_model_free(m);
}

/* One reason more than the largest is shown: a line on the rest would be as long. */
static void one_more(void **state) {
    (void)state;
    static const char *const acts[] = {"aten::relu", "aten::tanh", "aten::sigmoid", "aten::exp"};
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0);
    net_place(&n, -1, "", root);
    int32_t c = net_call(&n, root, -1, SH(2, 3), 0, SH(2, 3), 0);
    const lam_op_arg x[] = {T(0, 2, 3)}, y[] = {T(0, 2, 3)};
    for (int i = 0; i < 4; i++) net_op_args(&n, acts[i], in(c, -1), x, 1, y, 1);
    lam_model *m = net_done(&n);
    const lam_compare_options o = {.metric = LAM_FLOPS};
    lam_comparison *t = NULL;
    assert_int_equal(lam_compare_new(&t, m, &o, NULL), LAM_OK);
    assert_int_equal(row_of(t, "torch")->n_causes, 4);
    assert_int_equal(lam_compare_write(t, "text", 0, false, show_sink(), NULL), LAM_OK);
    for (int i = 0; i < 4; i++) show_has(acts[i] + 6);
    assert_null(strstr(shown, "smaller difference"));
    lam_compare_free(t);
    lam_model_free(m);
}

/* Many reasons: a tool that nobody named has its three largest and the sum of the rest, one that was named
 * all. */
static void how_many(void **state) {
    (void)state;
    static const char *const acts[] = {"aten::relu", "aten::tanh", "aten::sigmoid", "aten::exp", "aten::neg"};
    static const char *const named[] = {"torch"}, *const all[] = {"torch", "all"};
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), p = net_place(&n, -1, "", root);
    int32_t c = net_call(&n, root, -1, SH(2, 3), 0, SH(2, 3), 0);
    (void)p;
    for (int i = 0; i < 5; i++)
        for (int k = 0; k <= i; k++) {
            const lam_op_arg x[] = {T(0, 2, 3)}, y[] = {T(0, 2, 3)};
            net_op_args(&n, acts[i], in(c, -1), x, 1, y, 1);
        }
    lam_model *m = net_done(&n);
    const lam_compare_options o[] = {{.metric = LAM_FLOPS},
                                     {named, 1, LAM_FLOPS, LAM_FORWARD},
                                     {all, 2, LAM_FLOPS, LAM_FORWARD}};
    static const char *const said[] = {"  2 smaller differences\n\n-c all shows every tool", "(1 call)\n",
                                       "\n-c NAME shows every difference of one tool"};
    static const char *const unsaid[] = {"relu", "-c all", "-c all"}, *const next[] = {"\n\n", "",
                                                                                       "\nfvcore"};
    for (int i = 0; i < 3; i++) {
        lam_comparison *t = NULL;
        lam_error e = {0};
        assert_int_equal(lam_compare_new(&t, m, &o[i], &e), LAM_OK);
        assert_int_equal(row_of(t, "torch")->n_causes, 5); /* the data have all of them */
        assert_int_equal(lam_compare_write(t, "text", 0, false, show_sink(), &e), LAM_OK);
        show_has(said[i]);
        char *from = strstr(shown, "\ntorch"), *to = from ? strstr(from, next[i]) : NULL;
        assert_non_null(to);
        if (i != 1) *to = '\0';
        assert_null(strstr(from, unsaid[i]));
        lam_compare_free(t);
    }
    lam_model_free(m);
}

static void what_can_not_be(void **state) {
    (void)state;
    static const char *const wrong[] = {"torch", "nobody"};
    lam_model *m = mixed();
    lam_comparison *c = NULL;
    lam_error e = {0};
    const lam_compare_options o[] = {{.conventions = wrong, .n = 2},
                                     {.metric = LAM_DMAS},
                                     {.phase = LAM_RECOMPUTE}};
    static const char *const why[] = {"'nobody'", "MACs and FLOPs", "the backward pass"};
    for (int i = 0; i < 3; i++) {
        e = (lam_error){0};
        assert_int_equal(lam_compare_new(&c, m, &o[i], &e), LAM_USAGE);
        assert_non_null(strstr(e.text, why[i]));
        assert_null(c);
    }
    assert_int_equal(lam_compare_new(&c, NULL, NULL, NULL), LAM_USAGE);
    assert_int_equal(lam_compare_new(NULL, m, NULL, NULL), LAM_USAGE);
    lam_compare_free(NULL);
    lam_model_free(m);
    net n = net_new();
    int32_t root = net_linear(&n, 3, 4);
    net_place(&n, -1, "", root);
    net_call(&n, root, -1, SH(2, 3), 0, SH(2, 4), 0);
    m = net_done(&n);
    e = (lam_error){0};
    assert_int_equal(lam_compare_new(&c, m, NULL, &e), LAM_USAGE);
    assert_non_null(strstr(e.text, "ops=True"));
    lam_model_free(m);
}

static void compare_it(void *model, bool *ok) {
    static const char *const names[] = {"torch", "ptflops", "torchinfo", "layers"};
    lam_comparison *c = NULL;
    lam_error e = {0};
    lam_compare_options o = {.conventions = names, .n = 4, .metric = LAM_FLOPS};
    lam_status s = lam_compare_new(&c, model, &o, &e);
    if (s == LAM_OK) s = lam_compare_write(c, "text", 0, false, show_sink(), &e);
    if (s == LAM_OK) s = lam_compare_write(c, "md", 0, false, show_sink(), &e);
    if (s == LAM_OK) s = lam_compare_write(c, "html", 0, false, show_sink(), &e);
    *ok = oom_check(s, &e);
    lam_compare_free(c);
}

static void memory_runs_out(void **state) {
    (void)state;
    lam_model *m = mixed();
    oom_sweep(compare_it, m);
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(causes_add_up),
        cmocka_unit_test(reasons),
        cmocka_unit_test(formats),
        cmocka_unit_test(what_can_not_be),
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(other_metrics_and_phases),
        cmocka_unit_test(how_many),
        cmocka_unit_test(functions),
        cmocka_unit_test(an_unknown_reference),
        cmocka_unit_test(a_note_is_told_once),
        cmocka_unit_test(narrow),
        cmocka_unit_test(one_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
