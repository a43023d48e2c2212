/* SPDX-License-Identifier: Apache-2.0
 *
 * Archives of torch.export: the samples, which have the three ways in which weights are kept, and programs
 * that are made here, whole ones and damaged ones. */
#include "kit/archive.h"

static lam_model *sample(const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/files/%s", LAMINA_TEST_DATA, name);
    assert_string_equal(lam_read_format(path), "pt2");
    return opened(path);
}

/* Row i: its path, its type, its output's shape as "2x4", parameters and MACs; -1: unknown. */
static void is_row(lam_costs *c, int32_t i, const char *path, const char *type, const char *shape,
                   int64_t params, int64_t macs) {
    const lam_model *m = lam_costs_model(c);
    const lam_cost_row *r = lam_costs_row(c, i);
    const lam_event *ev = r->event < 0 ? NULL : lam_model_event(m, r->event);
    char text[64] = "";
    assert_string_equal(lam_model_place(m, r->place)->path, path);
    assert_string_equal(lam_model_module(m, r->module)->type, type);
    for (int32_t k = 0; ev && ev->n_out && k < ev->out[0].ndim; k++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%lld", k ? "x" : "",
                 (long long)ev->out[0].sizes[k]);
    assert_string_equal(text, shape);
    assert_int_equal(r->params.n, params);
    assert_int_equal(r->metric[LAM_MACS].state == LAM_UNKNOWN ? -1 : r->metric[LAM_MACS].n, macs);
}

/* -- samples --------------------------------------------------------------------------------------------- */

static void a_program_is_a_table(void **state) {
    (void)state;
    lam_model *m = sample("net.pt2");
    lam_costs *c = costs_of(m);
    is_row(c, 0, "", "Net", "2x10", 0, 0);
    is_row(c, 1, "conv", "Conv2d", "2x4x8x8", 148, 18432);
    is_row(c, 2, "bn", "BatchNorm2d", "2x4x8x8", 8, 0);
    is_row(c, 3, "act", "?", "", 0, 0);
    is_row(c, 4, "conv", "Conv2d", "2x4x8x8", 0, 18432);
    is_row(c, 5, "head", "Linear", "2x10", 2560, 5120);
    is_row(c, 6, "tied", "?", "", 0, 0);
    is_row(c, 7, "spare", "?", "", 15, 0);
    assert_int_equal(lam_costs_n_rows(c), 8);
    lam_param_totals p = lam_costs_params(c);
    assert_int_equal(p.params.n, 2731);
    assert_int_equal(p.buffers.n, 8);
    const lam_module *conv = lam_model_module(m, lam_costs_row(c, 1)->module);
    assert_string_equal(conv->type_path, "torch.nn.modules.conv.Conv2d");
    assert_true(conv->flags & LAM_MODULE_EXACT);
    assert_string_equal(lam_model_told(m, "torch"), "2.13.0");
    lam_costs_free(c);
    lam_model_free(m);
}

/* Tied weights are told by a checkpoint in the archive alone. */
static void an_older_program_is_a_table(void **state) {
    (void)state;
    lam_model *m = sample("old.pt2");
    lam_costs *c = costs_of(m);
    is_row(c, 0, "", "Old", "3x5", 0, 0);
    is_row(c, 1, "emb", "Embedding", "3x4", 20, 0);
    is_row(c, 2, "blocks.0", "Block", "3x4", 0, 0);
    is_row(c, 3, "blocks.0.fc", "Linear", "3x4", 16, 96);
    is_row(c, 4, "head", "Linear", "3x5", 0, 60);
    assert_int_equal(lam_costs_params(c).params.n, 36);
    lam_costs_free(c);
    lam_model_free(m);
}

/* One graph runs once; which of two, and how often another, is unknown and a lower bound. */
static void graphs_in_a_graph_are_walked_or_named(void **state) {
    (void)state;
    lam_model *m = sample("branch.pt2");
    lam_costs *c = costs_of(m);
    const lam_cost_row *root = lam_costs_row(c, 0);
    assert_int_equal(root->metric[LAM_MACS].state, LAM_AT_LEAST);
    assert_int_equal(root->metric[LAM_MACS].n, 128);
    assert_int_equal(lam_model_n_ops(m), 5); /* a linear layer calls mm */
    assert_non_null(strstr(lam_model_note(m, 0), "higher_order::cond runs one of its graphs"));
    assert_non_null(strstr(lam_model_note(m, 1), "as often as"));
    lam_costs_free(c);
    lam_model_free(m);
}

/* What operators read is told as that of a run is: by the parameter, by the operator that made it, or as an
 * input. */
static void sources_are_told(void **state) {
    (void)state;
    lam_model *m = sample("net.pt2");
    const lam_op *conv = lam_model_op(m, 0);
    const lam_module *owner = lam_model_module(m, lam_model_event(m, conv->call)->module);
    assert_string_equal(conv->sig->name, "aten::conv2d");
    assert_int_equal(owner->n_owned, 2);
    assert_int_equal(lam_model_source_input(m, 0, 0), 0);
    for (int32_t i = 0; i < 2; i++)
        assert_int_equal(lam_model_source_tensor(m, 0, 1 + i), owner->owned[i].tensor);
    int32_t norm = 1;
    while (lam_model_op(m, norm)->parent >= 0) norm++;
    assert_int_equal(lam_model_source(m, norm, 0), 0);
    assert_int_equal(lam_model_source_tensor(m, norm, 0), -1);
    lam_model_free(m);
}

/* -- programs that are made here ------------------------------------------------------------------------- */

#define TENSOR(name, sizes)    "\"" name "\":{\"dtype\":7,\"sizes\":[" sizes "],\"requires_grad\":false}"
#define INT(n)                 "{\"as_int\":" n "}"
#define EXPRESSION(text, hint) "{\"as_expr\":{\"expr_str\":\"" text "\",\"hint\":" hint "}}"
#define STACK                  "\"metadata\":{\"nn_module_stack\":\"L__self__,,net.Net\"}"
#define RELU                                                                                                 \
    "{\"target\":\"torch.ops.aten.relu.default\",\"inputs\":[{\"name\":\"self\",\"arg\":{\"as_tensor\":"     \
    "{\"name\":\"x\"}},\"kind\":1}],\"outputs\":[{\"as_tensor\":{\"name\":\"y\"}}]," STACK "}"

static void save_program(const char *file, const char *nodes, const char *values, const char *modules) {
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_putf(
        &b,
        "{\"graph_module\":{\"graph\":{\"inputs\":[{\"as_tensor\":{\"name\":\"x\"}}],\"outputs\":"
        "[{\"as_tensor\":{\"name\":\"y\"}}],\"nodes\":[%s],\"tensor_values\":{%s},"
        "\"sym_int_values\":{}},\"signature\":{\"input_specs\":[{\"user_input\":{\"arg\":{"
        "\"as_tensor\":{\"name\":\"x\"}}}}],\"output_specs\":[{\"user_output\":{\"arg\":{\"as_tensor\":"
        "{\"name\":\"y\"}}}}]},\"module_call_graph\":[%s]},\"schema_version\":{\"major\":8,\"minor\":20}}",
        nodes, values, modules);
    save_archive(file, "m/models/model.json", b.s);
    lmi_buf_free(&b);
}

/* Sizes, and what they are where s0 is 3; -1: unknown. */
static const struct sized {
    const char *text;
    int64_t n;
} sized[] = {
    {"12*s0 + 1", 37},
    {"2*(s0 + 1) - 3", 5},
    {"s0**2", 9},
    {"((s0 - 1)//2)", 1},
    {"Mod(s0, 2)", 1},
    {"Symbol('s0', positive=True, integer=True)", 3},
    {"Add(FloorDiv(Add(Symbol('s0', positive=True, integer=True), Integer(-1)), Integer(2)), Integer(1))", 2},
    {"Mul(Integer(2), Pow(Symbol('s0', integer=True), Integer(2)))", 18},
    {"Max(s0, 7)", 7},
    {"CeilDiv(s0, 2)", 2},
    {"u0", -1},
    {"s0 + u0", -1},
    {"s0//0", -1},
    {"s0**99", -1},
    {"s0 - 9", -1},
    {"Add(s0", -1},
    {"((((((((s0))))))))", 3},
    {"s0 > 2", 1},
    {"s0 < 3", 0},
    {"s0 >= 3", 1},
    {"s0 <= 2", 0},
    {"Eq(s0, 3)", 1},
    {"Ne(s0, 3)", 0},
    {"(s0 > 2) & (s0 < 3)", 0},
    {"(s0 > 2) | (s0 < 3)", 1},
    {"~(s0 > 2)", 0},
    {"Not(StrictGreaterThan(Symbol('s0'), Integer(3)))", 1},
    {"And(GreaterThan(s0, 1), LessThan(s0, 3), Unequality(s0, 2))", 1},
    {"Or(StrictLessThan(s0, 3), Equality(s0, 3))", 1},
    {"u0 > 2", -1},
    {"Not(u0)", -1},
    {"Not(s0, s0)", -1},
    {"LShift(s0, 2) + RShift(s0, 1)", 13},
    {"LShift(s0, 99)", -1},
    {"LShift(s0, 62)", -1},
    {"RShift(s0, 99)", -1},
    {"6*s0/2", 9},
    {"s0/2", -1},
    {"s0/0", -1},
    {"CleanDiv(6*s0, 2)", 9},
    {"Mod(s0, 0)", -1},
    {"Min(s0, 2) + Min(2, s0)", 4},
    {"Max(s0, 2) + Max(2, s0)", 6},
    {"TruncToInt(floor(s0))", 3},
    {"-s0 + 4", 1},
    {"--s0", 3},
    {"~~(s0 > 2)", 1},
    {"(s0 > 9) | (s0 > 8)", 0},
    {"(s0 > 1) & (s0 > 2)", 1},
    {"s0 +", -1},
    {"s0 3", -1},
    {"(s0", -1},
    {"$", -1},
    {"3.5", -1},
    {"99999999999999999999", -1},
    {"9223372036854775806 + s0", -1},
    {"9223372036854775806 * s0", -1},
    {"s0 - (-9223372036854775806 - 2)", -1},
    {"-(-9223372036854775806 - 2)", -1},
    {"(-9223372036854775806 - 2)/(0 - 1)", -1},
    {"(-9223372036854775806 - 2)//(0 - 1)", -1},
    {"CeilDiv(-9223372036854775806 - 2, 2)", -1},
    {"s0**s0**s0", -1},
    {"Symbol", -1},
    {"Symbol(s0)", -1},
    {"Symbol('s0'", -1},
    {"Pow(s0, 2, 2)", -1},
    {"Add(s0, 2", -1},
    {"Add s0", -1},
    {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", -1},
    {"((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((s0"
     "))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))",
     -1},
    {"(-9223372036854775806 - 2)//(-2305843009213693952)", 4},
    {"s0**(0 - 1)", -1},
    {"9223372036854775806**2", -1},
    {"And(s0 > 9, s0 > 1)", 0},
    {"Add(1, s0, 2)", 6},
    {"Mul(2, s0, 2)", 12},
    {"Max(1, s0, 2)", 3},
    {"Min(1, s0, 2)", 1},
    {"Or(s0 > 9, s0 > 8, s0 > 1)", 1},
    {"FloorDiv(s0, 2, 2)", -1},
    {"Add(sin(s0), 2)", -1},
    {"Add", -1},
    {"sin(s0)", -1}};

/* An expression whose value the file does not have is computed from its symbols. */
static void sizes_are_computed_in_both_grammars(void **state) {
    (void)state;
    const struct sized *all = sized;
    for (size_t i = 0; i < sizeof sized / sizeof *sized; i++) {
        char values[1024];
        snprintf(values, sizeof values,
                 TENSOR("x", EXPRESSION("s0", "{\"as_int\":3}")) "," TENSOR("y", EXPRESSION("%s", "null")),
                 all[i].text);
        save_program("sized.pt2", RELU, values, "{\"fqn\":\"\"}");
        lam_model *m = opened("sized.pt2");
        const lam_arg *out = lam_model_event(m, 0)->out;
        assert_int_equal(out->ndim, all[i].n < 0 ? -1 : 1);
        if (all[i].n >= 0) assert_int_equal(out->sizes[0], all[i].n);
        lam_costs *c = costs_of(m);
        assert_int_equal(lam_costs_row(c, 0)->metric[LAM_FLOPS].state,
                         all[i].n < 0 ? LAM_UNKNOWN : LAM_EXACT);
        lam_costs_free(c);
        lam_model_free(m);
    }
}

/* Signs are no deeper than other parts. */
static void a_long_row_of_signs_is_unknown(void **state) {
    (void)state;
    enum { SIGNS = 1 << 20 };
    lmi_buf values;
    lmi_buf_init(&values);
    for (int i = 0; i < 2; i++) {
        lmi_buf_clear(&values);
        lmi_put(&values, TENSOR("x", EXPRESSION("s0", "{\"as_int\":3}")) ",\"y\":{\"dtype\":7,\"sizes\":[{"
                                                                         "\"as_expr\":{\"expr_str\":\"");
        lmi_pad(&values, i ? '~' : '-', SIGNS);
        lmi_put(&values, "s0\",\"hint\":null}}]}");
        save_program("signs.pt2", RELU, values.s, "{\"fqn\":\"\"}");
        lam_model *m = opened("signs.pt2");
        assert_int_equal(lam_model_event(m, 0)->out->ndim, -1);
        lam_model_free(m);
    }
    lmi_buf_free(&values);
}

#define GRAPH(node)                                                                                          \
    "{\"inputs\":[{\"as_tensor\":{\"name\":\"a\"}}],\"outputs\":[{\"as_tensor\":{\"name\":\"b\"}}],"         \
    "\"nodes\":[" node "],\"tensor_values\":{" TENSOR("a", INT("3")) "," TENSOR("b", INT("3")) "}}"
#define UNARY(name)                                                                                          \
    "{\"target\":\"torch.ops.aten." name ".default\",\"inputs\":[{\"name\":\"self\",\"arg\":{\"as_tensor\":" \
    "{\"name\":\"a\"}}}],\"outputs\":[{\"as_tensor\":{\"name\":\"b\"}}],\"metadata\":{}}"
#define CONDITION                                                                                            \
    "{\"target\":\"torch.ops.higher_order.cond\",\"inputs\":[{\"name\":\"pred\",\"arg\":%s},"                \
    "{\"name\":\"true_fn\",\"arg\":{\"as_graph\":{\"name\":\"yes\",\"graph\":" GRAPH(                        \
        UNARY("relu")) "}}},{"                                                                               \
                       "\"name"                                                                              \
                       "\":"                                                                                 \
                       "\"fals"                                                                              \
                       "e_"                                                                                  \
                       "fn\","                                                                               \
                       "\"arg"                                                                               \
                       "\":{"                                                                                \
                       "\"as_"                                                                               \
                       "graph"                                                                               \
                       "\":{"                                                                                \
                       "\"name"                                                                              \
                       "\":"                                                                                 \
                       "\"no\""                                                                              \
                       ",\"gra"                                                                              \
                       "ph\""                                                                                \
                       ":" GRAPH(UNARY("ta"                                                                  \
                                       "n"                                                                   \
                                       "h")) "}}},{\"name\":\"operands\",\"arg\":{\"as_tensors\":[{"         \
                                             "\"name\":\"x\"}]}}],\"outputs\":[{\"as_tensor\":"              \
                                             "{\"name\":\"y\"}}]," STACK "}"

/* Sizes and truth values decide; what is not known, or is the value of a tensor, leaves both graphs out. */
static void conditions_of_sizes_choose_a_graph(void **state) {
    (void)state;
    static const struct {
        const char *condition, *op;
    } all[] = {{"{\"as_sym_bool\":{\"as_name\":\"more\"}}", "aten::relu"},
               {"{\"as_sym_bool\":{\"as_name\":\"less\"}}", "aten::tanh"},
               {"{\"as_sym_bool\":{\"as_name\":\"given\"}}", "aten::tanh"},
               {"{\"as_sym_bool\":{\"as_bool\":true}}", "aten::relu"},
               {"{\"as_bool\":false}", "aten::tanh"},
               {"{\"as_sym_bool\":{\"as_name\":\"hidden\"}}", "higher_order::cond"},
               {"{\"as_sym_bool\":{\"as_name\":\"number\"}}", "higher_order::cond"},
               {"{\"as_sym_bool\":{\"as_name\":\"none\"}}", "higher_order::cond"},
               {"{\"as_tensor\":{\"name\":\"x\"}}", "higher_order::cond"}};
    lmi_buf values;
    lmi_buf_init(&values);
    lmi_put(&values, TENSOR("x", EXPRESSION("s0", "{\"as_int\":3}")) "," TENSOR("y", INT("3")) "},");
    lmi_put(&values, "\"sym_bool_values\":{\"more\":" EXPRESSION("s0 > 2", "null") ",\"less\":");
    lmi_put(&values, EXPRESSION("StrictLessThan(Symbol('s0'), Integer(3))", "null"));
    lmi_put(&values, ",\"hidden\":" EXPRESSION("u0 > 2", "null") ",\"number\":" EXPRESSION("s0 + 4", "null"));
    lmi_put(&values, ",\"given\":{\"as_bool\":false}},\"rest\":{\"a\":0");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char node[4096];
        snprintf(node, sizeof node, CONDITION, all[i].condition);
        save_program("condition.pt2", node, values.s, "{\"fqn\":\"\"}");
        lam_model *m = opened("condition.pt2");
        assert_string_equal(lam_model_op(m, 0)->sig->name, all[i].op);
        assert_null(lam_model_op(m, 1));
        lam_model_free(m);
    }
    lmi_buf_free(&values);
}

/* A graph that runs for each entry of x, (s0, 3) or what else `values` says, with a number as argument behind
 * x. */
#define REPEATED(op, before)                                                                                 \
    "{\"target\":\"torch.ops.higher_order." op "\",\"inputs\":[{\"name\":\"\",\"arg\":{\"as_graph\":"        \
    "{\"name\":\"f\",\"graph\":" GRAPH(                                                                      \
        UNARY("relu")) "}}}," before "{\"name\":\"\",\"arg\":{\"as_tensors\":[{\"name\":\"x\"}]}},{"         \
                       "\"name\":\"\",\"arg\":{\"as_int\":%d}}],"                                            \
                       "\"outputs\":[{\"as_tensor\":{\"name\":\"y\"}}]," STACK "}"
#define NOTHING "{\"name\":\"\",\"arg\":{\"as_none\":true}},"

/* It counts as often as it runs; more than can be followed, or an unknown number, is left out by its name. */
static void graphs_run_for_each_entry(void **state) {
    (void)state;
    static const struct {
        const char *node, *x;
        int axis, runs; /* -1: the operator itself */
        const char *op;
    } all[] = {
        {REPEATED("map_impl", ""), TENSOR("x", INT("5") "," INT("3")), 0, 5, "aten::relu"},
        {REPEATED("scan", NOTHING), TENSOR("x", INT("4") "," INT("3")), 0, 4, "aten::relu"},
        {REPEATED("scan", NOTHING), TENSOR("x", INT("4") "," INT("3")), 1, -1, "higher_order::scan"},
        {REPEATED("map_impl", ""), TENSOR("x", INT("0") "," INT("3")), 0, 0, "aten::relu"},
        {REPEATED("map_impl", ""), TENSOR("x", INT("100000") "," INT("3")), 0, -1, "higher_order::map_impl"},
        {REPEATED("map_impl", ""), TENSOR("x", ""), 0, -1, "higher_order::map_impl"},
        {REPEATED("map_impl", ""), TENSOR("x", EXPRESSION("u0", "null") "," INT("3")), 0, -1,
         "higher_order::map_impl"},
        {REPEATED("associative_scan", NOTHING), TENSOR("x", INT("4") "," INT("3")), 0, -1,
         "higher_order::associative_scan"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char node[4096], values[1024];
        snprintf(node, sizeof node, all[i].node, all[i].axis);
        snprintf(values, sizeof values, "%s,%s", all[i].x, TENSOR("y", INT("5") "," INT("3")));
        save_program("each.pt2", node, values, "{\"fqn\":\"\"}");
        lam_model *m = opened("each.pt2");
        lam_costs *c = costs_of(m);
        const lam_count flops = lam_costs_total(c, LAM_FLOPS);
        const int32_t n = all[i].runs < 0 ? 1 : all[i].runs;
        for (int32_t k = 0; k < n; k++) assert_string_equal(lam_model_op(m, k)->sig->name, all[i].op);
        assert_null(lam_model_op(m, n));
        assert_int_equal(flops.state == LAM_EXACT, all[i].runs >= 0);
        if (all[i].runs >= 0) assert_int_equal(flops.n, 3 * all[i].runs);
        assert_int_equal(lam_model_event(m, 0)->n_in, 1); /* its parts are no inputs */
        lam_costs_free(c);
        lam_model_free(m);
    }
    oom_sweep_parts(read_once, "each.pt2");
}

/* What runs once inside of a graph that runs for each entry counts with its own nodes each time. */
static void graphs_inside_of_repeated_ones_have_a_limit(void **state) {
    (void)state;
    enum { ENTRIES = 10000, INSIDE = 200, MOST = 1 << 16 };
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_put(
        &b,
        "{\"target\":\"torch.ops.higher_order.map_impl\",\"inputs\":[{\"name\":\"\",\"arg\":{\"as_graph\":"
        "{\"name\":\"f\",\"graph\":{\"inputs\":[{\"as_tensor\":{\"name\":\"a\"}}],\"outputs\":[{\"as_"
        "tensor\":"
        "{\"name\":\"b\"}}],\"tensor_values\":{" TENSOR("a", INT("3")) "," TENSOR(
            "b", INT("3")) "},"
                           "\"nodes\":[{\"target\":\"torch.ops.higher_order.wrap\",\"inputs\":[{\"name\":"
                           "\"\",\"arg\":{\"as_graph\":"
                           "{\"name\":\"g\",\"graph\":{\"inputs\":[{\"as_tensor\":{\"name\":\"a\"}}],"
                           "\"outputs\":[{\"as_tensor\":"
                           "{\"name\":\"b\"}}],\"tensor_values\":{" TENSOR("a", INT("3")) "," TENSOR(
                               "b", INT("3")) "},\"nodes\":[");
    for (int i = 0; i < INSIDE; i++) lmi_putf(&b, "%s%s", i ? "," : "", UNARY("relu"));
    lmi_put(&b, "]}}}},{\"name\":\"\",\"arg\":{\"as_tensor\":{\"name\":\"a\"}}}],\"outputs\":[{\"as_tensor\":"
                "{\"name\":\"b\"}}],\"metadata\":{}}]}}}},{\"name\":\"\",\"arg\":{\"as_tensors\":[{\"name\":"
                "\"x\"}]}}],"
                "\"outputs\":[{\"as_tensor\":{\"name\":\"y\"}}]," STACK "}");
    save_program("inside.pt2", lmi_buf_text(&b),
                 TENSOR("x", INT("10000") "," INT("3")) "," TENSOR("y", INT("10000") "," INT("3")),
                 "{\"fqn\":\"\"}");
    lmi_buf_free(&b);
    lam_model *m = opened("inside.pt2");
    assert_string_equal(lam_model_op(m, 0)->sig->name, "aten::relu");
    assert_non_null(lam_model_op(m, ENTRIES - 1));
    assert_null(lam_model_op(m, MOST));
    lam_model_free(m);
}

/* A file at other values of its open sizes, and how the FLOPs of its one operator grow with the size of x. */
static void totals_grow_with_open_sizes(void **state) {
    (void)state;
    static const lam_read_options grow = {.growth = true};
    static const struct {
        const char *text;
        lam_grows how;
        int64_t each, fixed;
    } all[] = {{"12*s0 + 1", LAM_GROWS_LINEAR, 12, 1},
               {"s0", LAM_GROWS_LINEAR, 1, 0},
               {"5*s0 - 4", LAM_GROWS_LINEAR, 5, -4},
               {"100 - 7*s0", LAM_GROWS_LINEAR, -7, 100},
               {"s0 - s0 + 7", LAM_GROWS_LINEAR, 0, 7},
               {"s0**2", LAM_GROWS_OTHERWISE, 0, 0},
               {"s0//2", LAM_GROWS_OTHERWISE, 0, 0},
               {"CeilDiv(s0, 2)", LAM_GROWS_OTHERWISE, 0, 0},
               {"Max(s0, 7)", LAM_GROWS_OTHERWISE, 0, 0},
               {"s0 * 2000000000000000000", LAM_GROWS_UNKNOWN, 0, 0}, /* beyond 64 bits at 8 */
               {"s0 + u0", LAM_GROWS_UNKNOWN, 0, 0},
               {"12//(s0 - 4)", LAM_GROWS_UNKNOWN, 0, 0}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char values[1024];
        lam_model *m;
        last = (lam_error){.at = -1};
        snprintf(values, sizeof values,
                 TENSOR("x", EXPRESSION("s0", "{\"as_int\":3}")) "," TENSOR("y", EXPRESSION("%s", "null")),
                 all[i].text);
        save_program("grows.pt2", RELU, values, "{\"fqn\":\"\"}");
        assert_int_equal(lam_read(&m, "grows.pt2", &grow, &last), LAM_OK);
        lam_costs *c = costs_of(m);
        const lam_growth *g = lam_costs_growth(c, 0);
        assert_non_null(g);
        assert_string_equal(g->size, "batch");
        assert_int_equal(g->value, 3);
        assert_int_equal(g->metric[LAM_FLOPS].how, all[i].how);
        assert_int_equal(g->metric[LAM_FLOPS].each, all[i].each);
        assert_int_equal(g->metric[LAM_FLOPS].fixed, all[i].fixed);
        assert_null(lam_costs_growth(c, 1));
        lam_costs_free(c);
        lam_model_free(m);
        m = opened("grows.pt2");
        c = costs_of(m);
        assert_null(lam_costs_growth(c, 0));
        lam_costs_free(c);
        lam_model_free(m);
    }
}

static void refused_program(const char *nodes, const char *values, const char *part) {
    save_program("bad.pt2", nodes, values, "{\"fqn\":\"\"}");
    refused("bad.pt2", LAM_FAILED, part);
}

#define TWO TENSOR("x", INT("2")) "," TENSOR("y", INT("2"))

static void damaged_programs_are_refused_with_the_place(void **state) {
    (void)state;
    refused_program("7", TWO, "a node without a target, at graph_module.graph.nodes[0], byte");
    refused_program("{\"target\":\"torch.ops.\"}", TWO, "names no operator");
    refused_program(RELU, TENSOR("x", INT("2")),
                    "that the graph does not have, at graph_module.graph.nodes[0].outputs[0]");
    refused_program(RELU, TENSOR("x", INT("-2")) "," TENSOR("y", INT("2")), "a size below 0");
    refused_program(RELU, TENSOR("x", INT("\"a\"")) "," TENSOR("y", INT("2")), "no whole number");
    refused_program(RELU, TENSOR("x", "7.5") "," TENSOR("y", INT("2")), "a size should be here");
    refused_program(RELU, TWO "," TENSOR("x", INT("2")), "a second tensor of this name");
    refused_program(RELU, "\"x\":{\"sizes\":7}", "a tensor without sizes");
    save_program("bad.pt2", RELU, TWO, "{}");
    refused("bad.pt2", LAM_FAILED, "a module without a name");
    save_archive("bad.pt2", "m/models/model.json", "{\"graph_module\":{}}");
    refused("bad.pt2", LAM_FAILED, "it has no graph");
    save_archive("bad.pt2", "serialized_exported_program.json", "[1,");
    refused("bad.pt2", LAM_FAILED, "serialized_exported_program.json");
    save_archive("bad.pt2", "m/models/model.json", "{\"graph_module\":{},\"graph_module\":{}}");
    refused("bad.pt2", LAM_FAILED, "the name 'graph_module' stands twice");
    save_archive("bad.pt2", "m/models/model.json",
                 "{\"graph_module\":{\"graph\":{\"nodes\":[],\"nodes\":[]}}}");
    refused("bad.pt2", LAM_FAILED, "the name 'nodes' stands twice");
    save_archive("bad.pt2", "m/models/a/model.json", "{}");
    refused("bad.pt2", LAM_UNSUPPORTED, "neither a checkpoint nor an archive");
}

static void a_schema_that_is_not_known_is_told(void **state) {
    (void)state;
    for (int version = 8; version <= 9; version++) {
        char text[512];
        snprintf(text, sizeof text,
                 "{\"schema_version\":{\"major\":%d},\"graph_module\":{\"graph\":{\"nodes\":[],"
                 "\"tensor_values\":{}},\"signature\":{}}}",
                 version);
        save_archive("schema.pt2", "m/models/model.json", text);
        lam_model *m = opened("schema.pt2");
        const char *note = lam_model_note(m, 0);
        assert_true(version == 8 ? !note : note && strstr(note, "has version 9, and 8 is the newest"));
        lam_model_free(m);
    }
}

/* Arguments that no operator takes are read as unknown, or as what they say. */
static void odd_arguments_are_read(void **state) {
    (void)state;
    static const char *const all[] = {
        "einsum.default\",\"inputs\":[{\"arg\":{\"as_string\":\"......->\"}},{\"arg\":{\"as_tensors\":[{"
        "\"name\":\"x\"}]}}]",
        "einsum.default\",\"inputs\":[{\"arg\":{\"as_string\":\"a...b...,a->\"}},"
        "{\"arg\":{\"as_tensors\":[{\"name\":\"x\"},{\"name\":\"x\"}]}}]",
        "max_pool1d.default\",\"inputs\":[{\"arg\":{\"as_tensor\":{\"name\":\"x\"}}},{\"arg\":{\"as_ints\":[]"
        "}},"
        "{\"arg\":{\"as_ints\":[]}}]",
        "conv1d.default\",\"inputs\":[{\"arg\":{\"as_tensor\":{\"name\":\"x\"}}}]"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char node[512];
        snprintf(node, sizeof node,
                 "{\"target\":\"torch.ops.aten.%s,\"outputs\":[{\"as_tensor\":{\"name\":\"y\"}}]}", all[i]);
        save_program("odd.pt2", node, TWO, "{\"fqn\":\"\"}");
        lam_model *m = opened("odd.pt2");
        lam_costs *c = costs_of(m);
        assert_true(lam_costs_row(c, 0)->metric[LAM_FLOPS].state != LAM_EXACT ||
                    lam_costs_row(c, 0)->metric[LAM_FLOPS].n <= 2 * 2);
        lam_costs_free(c);
        lam_model_free(m);
    }
}

/* Stacks, graphs and paths in each other have a limit, and so have sizes. */
static void depths_are_bounded(void **state) {
    (void)state;
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_put(&b, "{\"target\":\"torch.ops.aten.relu.default\",\"metadata\":{\"nn_module_stack\":\"k,,R");
    for (int i = 0; i < 300; i++) lmi_putf(&b, ";k%d,m%d,T", i, i);
    lmi_put(&b, "\"}}");
    refused_program(b.s, TWO, "more than 256 modules in each other");
    lmi_buf_clear(&b);
    for (int i = 0; i < 60; i++)
        lmi_put(&b, "{\"target\":\"torch.ops.higher_order.wrap.default\",\"inputs\":[{\"arg\":{\"as_graph\":{"
                    "\"graph\":"
                    "{\"tensor_values\":{},\"nodes\":[");
    lmi_put(&b, "7");
    for (int i = 0; i < 60; i++) lmi_put(&b, "]}}}}]}");
    refused_program(b.s, TWO, "more than 48 graphs in each other");
    lmi_buf_clear(&b);
    for (int i = 0; i < 3000; i++) {
        lmi_putf(&b, "%s{\"fqn\":\"", i ? "," : "");
        for (int k = 0; k < 60; k++) lmi_putf(&b, "%s%x", k ? "." : "", i + k);
        lmi_put(&b, "\"}");
    }
    save_program("bad.pt2", RELU, TWO, b.s);
    refused("bad.pt2", LAM_LIMIT, "names or calls more modules");
    lmi_buf_free(&b);
}

static void grow_once(void *path, bool *ok) {
    static const lam_read_options grow = {.growth = true};
    lam_model *m = NULL;
    lam_costs *c = NULL;
    lam_error e = {.at = -1};
    lam_status s = lam_read(&m, path, &grow, &e);
    if (s == LAM_OK) s = lam_costs_new(&c, m, NULL, &e);
    *ok = oom_check(s, &e);
    lam_costs_free(c);
    lam_model_free(m);
}

static void no_allocation_is_needed(void **state) {
    (void)state;
    oom_sweep_parts(read_once, (void *)LAMINA_TEST_DATA "/files/net.pt2");
    oom_sweep_parts(read_once, (void *)LAMINA_TEST_DATA "/files/old.pt2");
    oom_sweep_parts(read_once, (void *)LAMINA_TEST_DATA "/files/branch.pt2");
    oom_sweep_parts(grow_once, (void *)LAMINA_TEST_DATA "/files/net.pt2");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_is_a_table),
        cmocka_unit_test(an_older_program_is_a_table),
        cmocka_unit_test(graphs_in_a_graph_are_walked_or_named),
        cmocka_unit_test(sources_are_told),
        cmocka_unit_test(sizes_are_computed_in_both_grammars),
        cmocka_unit_test(a_long_row_of_signs_is_unknown),
        cmocka_unit_test(conditions_of_sizes_choose_a_graph),
        cmocka_unit_test(graphs_run_for_each_entry),
        cmocka_unit_test(graphs_inside_of_repeated_ones_have_a_limit),
        cmocka_unit_test(totals_grow_with_open_sizes),
        cmocka_unit_test(damaged_programs_are_refused_with_the_place),
        cmocka_unit_test(a_schema_that_is_not_known_is_told),
        cmocka_unit_test(odd_arguments_are_read),
        cmocka_unit_test(depths_are_bounded),
        cmocka_unit_test(no_allocation_is_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
