/* SPDX-License-Identifier: Apache-2.0
 *
 * What is given of an ONNX file's inputs: shapes, types and values, and sizes by name. */
#include "kit/onnx.h"

/* Rows of x, n by 4, times a weight of 4 by 2; "batch" and "length" are names of the file. */
static void save_rows(const char *file, const char *shape) {
    char words[64];
    lmi_buf g = begun(), y = begun();
    put_node(&g, "MatMul x,w y -");
    put_tensor(&g, 5, "w 1 4,2 32");
    snprintf(words, sizeof words, "x %s", shape);
    put_stated(&g, 11, words);
    put_word(&y, 1, "y");
    put_message(&g, 12, &y);
    save_graph(file, &g);
}

/* A shape that an input gives: the result has as many elements as `x:0`, of one axis, says. */
static void save_filled(const char *file, int type) {
    lmi_buf g = begun(), in = begun(), t = begun(), tensor = begun(), sizes = begun(), axis = begun(),
            y = begun();
    lmi_buf cast = node_of("Cast x:0 c -"), to = begun();
    put_word(&to, 1, "to");
    put_number(&to, 3, 7);
    put_message(&cast, 5, &to);
    put_message(&g, 1, &cast);
    put_node(&g, "ConstantOfShape c z -");
    put_node(&g, "MatMul z,w y -");
    put_tensor(&g, 5, "w 1 4,2 32");
    put_word(&axis, 2, "axes");
    put_message(&sizes, 1, &axis);
    put_number(&tensor, 1, (uint64_t)type);
    put_message(&tensor, 2, &sizes);
    put_message(&t, 1, &tensor);
    put_word(&in, 1, "x:0");
    put_message(&in, 2, &t);
    put_message(&g, 11, &in);
    put_word(&y, 1, "y");
    put_message(&g, 12, &y);
    save_graph(file, &g);
}

/* The MACs with an input and a size, NULL: none; -1: unknown. */
static int64_t macs_with(const char *file, const char *input, const char *name, int64_t value) {
    const lam_read_size size = {name, value};
    const lam_read_options o = {.inputs = &input,
                                .n_inputs = input ? 1 : 0,
                                .sizes = &size,
                                .n_sizes = name ? 1 : 0};
    lam_model *m;
    last = (lam_error){.at = -1};
    if (lam_read(&m, file, &o, &last) != LAM_OK) fail_msg("%s: %s", input ? input : name, last.text);
    lam_costs *c = costs_of(m);
    const lam_count n = lam_costs_total(c, LAM_MACS);
    lam_costs_free(c);
    lam_model_free(m);
    return n.state == LAM_EXACT ? n.n : -1;
}

static void refused_with(const char *file, const char *input, const char *name, const char *part) {
    const lam_read_size size = {name, 3};
    const lam_read_options o = {.inputs = &input,
                                .n_inputs = input ? 1 : 0,
                                .sizes = &size,
                                .n_sizes = name ? 1 : 0};
    lam_model *m = NULL;
    last = (lam_error){.at = -1};
    assert_int_equal(lam_read(&m, file, &o, &last), LAM_USAGE);
    if (!strstr(last.text, part))
        fail_msg("%s: \"%s\" does not say \"%s\"", input ? input : name, last.text, part);
    assert_null(m);
}

/* -- shapes ---------------------------------------------------------------------------------------------- */

static void a_shape_is_given_by_name_or_by_order(void **state) {
    (void)state;
    save_rows("rows.onnx", "n,4");
    assert_int_equal(macs_with("rows.onnx", NULL, NULL, 0), -1);
    assert_int_equal(macs_with("rows.onnx", "x=5x4", NULL, 0), 5 * 4 * 2);
    assert_int_equal(macs_with("rows.onnx", "5x4", NULL, 0), 5 * 4 * 2);
    assert_int_equal(macs_with("rows.onnx", "x=5x4:float32", NULL, 0), 5 * 4 * 2);
    assert_int_equal(macs_with("rows.onnx", "x=0x4", NULL, 0), 0);
    assert_int_equal(macs_with("rows.onnx", NULL, "n", 7), 7 * 4 * 2);
    assert_int_equal(macs_with("rows.onnx", NULL, "batch", 7), 7 * 4 * 2);
    assert_int_equal(macs_with("rows.onnx", NULL, "x.0", 7), 7 * 4 * 2);
    save_rows("rows.onnx", "?,n,4");
    assert_int_equal(macs_with("rows.onnx", "x=3x5x4", NULL, 0), 3 * 5 * 4 * 2);
    assert_int_equal(macs_with("rows.onnx", "x=3x5x4", "n", 5), 3 * 5 * 4 * 2);
    assert_int_equal(macs_with("rows.onnx", NULL, "n", 7), -1);
}

static void what_is_no_shape_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *input, *part;
    } all[] = {
        {"x=", "is ?x4 in the file, and can't be no axes"},
        {"x=5x", "a shape ends in a size"},
        {"x=x4", "a shape is sizes with x between them"},
        {"x=-5x4", "a shape is sizes with x between them"},
        {"x=+5x4", "a shape is sizes with x between them"},
        {"x=-0x4", "a shape is sizes with x between them"},
        {"x=5x4:bfloat16=1", "values can be given of whole numbers, float32, float64 and bool"},
        {"x=9223372036854775807x4:float32=1", "there are fewer values than the shape has elements"},
        {"x=5,4", "a shape is sizes with x between them"},
        {"x=5x4x", "a shape ends in a size"},
        {"x="
         "1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1"
         "x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1",
         "it has too many axes"},
        {"x=9223372036854775808x4", "a size is larger than any can be"},
        {"x=5x4:complex", "its type is not known"},
        {"x=5x4:int64", "has another element type"},
        {"x=5x3", "is ?x4 in the file, and can't be 5x3"},
        {"x=5x4x1", "is ?x4 in the file, and can't be 5x4x1"},
        {"z=5x4", "the model has no input 'z'; its inputs: x"},
        {"x=5x4:float32=1", "than the shape has elements"},
        {"x=5x4:float16=1", "values can be given of whole numbers, float32, float64 and bool"},
        {"x=1x4:float32=1,2,3,", "values are numbers with commas between them"},
        {"x=1x4:float32=1,2,3,4,5", "there are not as many values as the shape has elements"},
        {"x=1x4:float32=1,2;3,4", "values are numbers with commas between them"},
        {"x=1x4:float32=a,b,c,d", "values are numbers with commas between them"}};
    save_rows("rows.onnx", "n,4");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        refused_with("rows.onnx", all[i].input, NULL, all[i].part);
    refused_with("rows.onnx", NULL, "m", "leaves no size of this name open");
    refused_with("rows.onnx", NULL, "x.1", "leaves no size of this name open");
    refused_with("rows.onnx", NULL, "x.9", "leaves no size of this name open");
    refused_with("rows.onnx", NULL, "z.0", "leaves no size of this name open");
    refused_with("rows.onnx", NULL, "x.", "leaves no size of this name open");
    refused_with("rows.onnx", NULL, "x.0x", "leaves no size of this name open");
    refused_with("rows.onnx", "x=5x4", "n", "the size 'n' is given as 3, and as another too");
    refused_with("rows.onnx", "x=5x4", "batch", "the size 'n' is given as 3, and as another too");
    assert_int_equal(macs_with("rows.onnx", "x=3x4", "n", 3), 3 * 4 * 2);
}

static void a_value_is_one_of_its_type(void **state) {
    (void)state;
    static const struct {
        int type;
        const char *name, *least, *most, *less, *more;
    } all[] = {{3, "int8", "-128", "127", "-129", "128"},
               {2, "uint8", "0", "255", "-1", "256"},
               {9, "bool", "0", "1", "-1", "2"},
               {6, "int32", "-2147483648", "2147483647", "-2147483649", "2147483648"},
               {7, "int64", "-9223372036854775808", "9223372036854775807", "-9223372036854775809",
                "9223372036854775808"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const char *const fit[] = {all[i].least, all[i].most}, *const not [] = {all[i].less, all[i].more};
        save_filled("type.onnx", all[i].type);
        for (int k = 0; k < 2; k++) {
            char text[64];
            snprintf(text, sizeof text, "x:0=1:%s=%s", all[i].name, fit[k]);
            macs_with("type.onnx", text, NULL, 0);
            snprintf(text, sizeof text, "x:0=1:%s=%s", all[i].name, not [k]);
            refused_with("type.onnx", text, NULL, "a value is none of its type");
        }
    }
}

/* -- values ---------------------------------------------------------------------------------------------- */

/* Each type in which sizes can be given: three rows of four numbers. A name may have a colon. */
static void values_decide_shapes(void **state) {
    (void)state;
    static const struct {
        int type;
        const char *input;
        bool known;
    } all[] = {{7, "x:0=2:int64=3,4", true},
               {7, "x:0=2:long=3,4", true},
               {6, "x:0=2:int32=3,4", true},
               {6, "x:0=2:int=3,4", true},
               {5, "x:0=2:int16=3,4", true},
               {3, "x:0=2:int8=3,4", true},
               {2, "x:0=2:uint8=3,4", true},
               {4, "x:0=2:uint16=3,4", true},
               {12, "x:0=2:uint32=3,4", true},
               {13, "x:0=2:uint64=3,4", true},
               {1, "x:0=2:float=3,4.5", true},
               {1, "x:0=2:float32=3,4", true},
               {11, "x:0=2:double=3,4", true},
               {11, "x:0=2:float64=3.9,4", true},
               {7, "2:int64=3,4", true},
               {7, "x:0=2:int64", false},
               {7, "x:0=2", false}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        save_filled("filled.onnx", all[i].type);
        const int64_t macs = macs_with("filled.onnx", all[i].input, NULL, 0);
        if (macs != (all[i].known ? 3 * 4 * 2 : -1)) fail_msg("%s: %lld MACs", all[i].input, (long long)macs);
    }
}

static void values_that_make_no_shape_leave_it_unknown(void **state) {
    (void)state;
    save_filled("filled.onnx", 7);
    assert_int_equal(macs_with("filled.onnx", "x:0=2:int64=3,-4", NULL, 0), -1);
    assert_int_equal(macs_with("filled.onnx", "x:0=2:int64=3,5", NULL, 0), -1);
    assert_int_equal(macs_with("filled.onnx", "x:0=2:int64=4611686018427387904,4", NULL, 0), -1);
}

/* -- growth ---------------------------------------------------------------------------------------------- */

/* A size is followed by the name that the file has, else as the batch or as an axis of the input. */
/* What runs is decided by `node`, from two inputs of so many elements and a type. */
static void save_decided(const char *node, const char *attribute, const char *before, const char *shape,
                         int type) {
    lmi_buf g = begun(), y = begun();
    char words[64];
    put_running(&g, node, attribute, "MatMul x,w v -", "v 3,2");
    if (before) put_node(&g, before);
    put_tensor(&g, 5, "w 1 4,2 32");
    put_constant(&g, "one", "=1");
    put_stated(&g, 11, "x 3,4");
    for (int i = 0; i < 2; i++) {
        snprintf(words, sizeof words, "%c %s", "ab"[i], shape);
        put_typed(&g, 11, words, (uint64_t)type);
    }
    put_word(&y, 1, "y");
    put_message(&g, 12, &y);
    save_graph("decided.onnx", &g);
}

static void the_inputs_that_decide_what_runs_are_named(void **state) {
    (void)state;
    static const char decide[] = "values decide what runs, which -i or `inputs` gives: ";
    static const struct {
        const char *node, *attribute, *before, *shape;
        int type;
        const char *named; /* NULL: nothing is */
    } all[] = {
        {"If a y -", "then_branch", NULL, ".", 9, "a=scalar:bool=VALUE"},
        {"If c y -", "then_branch", "Equal a,one c -", ".", 7, "a=scalar:int64=VALUE"},
        {"If c y -", "then_branch", "Equal a,b c -", "1", 6, "a=1:int32=VALUE, b=1:int32=VALUE"},
        {"If c y -", "then_branch", "Equal a,b c -", "2,3", 7, "a=2x3:int64=VALUE, b=2x3:int64=VALUE"},
        {"If c y -", "then_branch", "Equal a,b c -", "20", 7, NULL}, /* more than anybody types */
        {"If c y -", "then_branch", "Equal a,b c -", "n", 7, NULL},
        {"If c y -", "then_branch", "Equal a,x c -", ".", 7, NULL},
        {"If c y -", "then_branch", "Equal one,one c -", ".", 7, NULL},
        {"If a y -", "then_branch", NULL, ".", 1, NULL},
        {"Loop a,-,x y -", "body", NULL, ".", 7, "a=scalar:int64=VALUE"},
        {"Loop a,b,x y -", "body", NULL, ".", 7, "a=scalar:int64=VALUE, b=scalar:int64=VALUE"},
        {"Relu x y -", NULL, NULL, ".", 7, NULL},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        save_decided(all[i].node, all[i].attribute, all[i].before, all[i].shape, all[i].type);
        lam_model *m = opened("decided.onnx");
        const char *said = NULL;
        for (int32_t k = 0; !said && k < lam_model_n_notes(m); k++)
            said = strstr(lam_model_note(m, k), decide);
        said = said ? said + sizeof decide - 1 : "";
        if (strcmp(said, all[i].named ? all[i].named : "") != 0) fail_msg("case %d: '%s'", (int)i, said);
        lam_model_free(m);
        oom_sweep_parts(read_once, "decided.onnx");
    }
}

static void growth_names_the_size(void **state) {
    (void)state;
    static const struct {
        const char *shape, *input, *size;
        int64_t each;
    } all[] = {{"n,4", "x=5x4", "n", 8},
               {"?,4", "x=5x4", "batch", 8},
               {"?,3,4", "x=5x3x4", "batch", 24},
               {"2,n,4", "2x5x4", "n", 16},
               {"2,?,4", "2x5x4", "x.1", 16}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const lam_read_options grow = {.growth = true, .inputs = &all[i].input, .n_inputs = 1};
        lam_model *m;
        save_rows("rows.onnx", all[i].shape);
        last = (lam_error){.at = -1};
        assert_int_equal(lam_read(&m, "rows.onnx", &grow, &last), LAM_OK);
        lam_costs *c = costs_of(m);
        const lam_growth *g = lam_costs_growth(c, 0);
        assert_non_null(g);
        assert_string_equal(g->size, all[i].size);
        assert_int_equal(g->metric[LAM_MACS].how, LAM_GROWS_LINEAR);
        assert_int_equal(g->metric[LAM_MACS].each, all[i].each);
        lam_costs_free(c);
        lam_model_free(m);
    }
}

/* -- when memory runs out -------------------------------------------------------------------------------- */

static void read_filled(void *input, bool *ok) {
    const char *text = input;
    const lam_read_options o = {.inputs = &text, .n_inputs = 1};
    lam_model *m = NULL;
    lam_error e = {.at = -1};
    *ok = oom_check(lam_read(&m, "filled.onnx", &o, &e), &e);
    lam_model_free(m);
}

static void read_sized(void *name, bool *ok) {
    const lam_read_size size = {name, 3};
    const lam_read_options o = {.sizes = &size, .n_sizes = 1, .growth = true};
    lam_model *m = NULL;
    lam_error e = {.at = -1};
    *ok = oom_check(lam_read(&m, "sized.onnx", &o, &e), &e);
    lam_model_free(m);
}

/* An input that an initialiser gives a value leaves no size open, and a name as long as an input's is
 * another. */
static void sizes_are_of_inputs_without_a_value(void **state) {
    (void)state;
    lmi_buf g = begun();
    put_node(&g, "MatMul x,w y -");
    put_stated(&g, 11, "w 4,2");
    put_tensor(&g, 5, "w 1 4,2 32");
    put_stated(&g, 11, "x ?,4");
    save_graph("sized.onnx", &g);
    assert_int_equal(macs_with("sized.onnx", NULL, "batch", 7), 7 * 4 * 2);
    assert_int_equal(macs_with("sized.onnx", NULL, "x.0", 7), 7 * 4 * 2);
    refused_with("sized.onnx", NULL, "z.0", "the file leaves no size of this name open");
    refused_with("sized.onnx", NULL, "w.0", "the file leaves no size of this name open");
    oom_sweep_parts(read_sized, "x.0");
    oom_sweep_parts(read_sized, "batch");
}

/* What is refused is refused with the same words, or for want of memory. */
static void refusals_may_run_short_of_memory(void **state) {
    (void)state;
    static const char *const inputs[] = {"z=5x4", "x=5x3", "z=5x4:int64", "1x2,3"};
    static const int kinds[] = {OOM_PIECES, OOM_PARTS};
    save_rows("rows.onnx", "n,4");
    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
            bool injected = true;
            oom_kind = kinds[k];
            for (int64_t at = 0; injected; at++) {
                const lam_read_options o = {.inputs = &inputs[i], .n_inputs = 1};
                lam_model *m = NULL;
                lam_error e = {.at = -1};
                oom_arm(at, false);
                const lam_status s = lam_read(&m, "rows.onnx", &o, &e);
                injected = oom_injected;
                oom_disarm();
                assert_null(m);
                if (s != (injected ? LAM_NOMEM : LAM_USAGE) && s != LAM_USAGE)
                    fail_msg("%d: %s", (int)s, e.text);
                assert_true(*e.text);
            }
        }
    }
    oom_kind = OOM_PIECES;
}

static void memory_may_run_out_anywhere(void **state) {
    (void)state;
    save_filled("filled.onnx", 7);
    oom_sweep_parts(read_filled, "x:0=2:int64=3,4");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shape_is_given_by_name_or_by_order),
        cmocka_unit_test(what_is_no_shape_is_refused),
        cmocka_unit_test(a_value_is_one_of_its_type),
        cmocka_unit_test(values_decide_shapes),
        cmocka_unit_test(values_that_make_no_shape_leave_it_unknown),
        cmocka_unit_test(the_inputs_that_decide_what_runs_are_named),
        cmocka_unit_test(growth_names_the_size),
        cmocka_unit_test(sizes_are_of_inputs_without_a_value),
        cmocka_unit_test(refusals_may_run_short_of_memory),
        cmocka_unit_test(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
