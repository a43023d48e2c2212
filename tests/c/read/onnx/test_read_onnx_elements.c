/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements of ONNX tensors: in which fields they are, which are searched for NaN, what tensors may lack, and
 * which of them are parameters. */
#include "kit/onnx.h"

/* An initialiser of one axis whose elements are in `field`, one after another. */
static void put_field(lmi_buf *graph, const char *name, int64_t size, int type, uint64_t field, int n) {
    lmi_buf t = begun();
    put_number(&t, 1, (uint64_t)size);
    put_number(&t, 2, (uint64_t)type);
    put_word(&t, 8, name);
    for (int i = 0; i < n; i++) {
        put_varint(&t, field << 3 | (field == 4 ? 5 : field == 10 ? 1 : 0));
        if (field == 4)
            put_le(&t, 0x7fc00000, 4); /* NaN */
        else if (field == 10)
            put_le(&t, UINT64_C(0x7ff8000000000000), 8);
        else
            put_varint(&t, 2);
    }
    put_message(graph, 5, &t);
}

static lam_model *checked(const char *file) {
    static const lam_read_options o = {.health = true};
    lam_model *m = NULL;
    last = (lam_error){.at = -1};
    if (lam_read(&m, file, &o, &last) != LAM_OK) fail_msg("%s", last.text);
    return m;
}

static const char *notes_of(const lam_model *m) {
    static char text[4096];
    size_t n = 0;
    *text = 0;
    for (int32_t i = 0; lam_model_note(m, i) && n < sizeof text; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s\n", lam_model_note(m, i));
    return text;
}

/* Numbers of each field are searched for NaN; those that are too few, too many or of no size are not. */
static void numbers_in_fields_are_searched(void **state) {
    (void)state;
    static const struct {
        int64_t size;
        int type, n;
        uint64_t field;
        bool read;
    } all[] = {
        {3, 1, 3, 4, true},   {2, 1, 3, 4, false},  {4, 1, 3, 4, false}, {2, 14, 4, 4, true},
        {2, 11, 2, 10, true}, {2, 15, 4, 10, true}, {1, 1, 4, 4, false}, {INT64_C(1) << 40, 1, 3, 4, false},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        lmi_buf g = begun();
        put_node(&g, "Add x,fc.weight y -");
        put_field(&g, "fc.weight", all[i].size, all[i].type, all[i].field, all[i].n);
        put_stated(&g, 11, "x 3");
        save_graph("fields.onnx", &g);
        lam_model *m = checked("fields.onnx");
        const bool unread = strstr(notes_of(m), "fc.weight") != NULL;
        if (unread == all[i].read) fail_msg("type %d, %d of them: %s", all[i].type, all[i].n, notes_of(m));
        lam_model_free(m);
    }
    lmi_buf g = begun(), t = begun();
    put_node(&g, "Add x,fc.weight y -");
    put_number(&t, 1, 2);
    put_number(&t, 2, 1);
    put_word(&t, 8, "fc.weight");
    put_bytes(&t, 4, "\0\0\0\0\0\0\0", 7);
    put_message(&g, 5, &t);
    put_stated(&g, 11, "x 2");
    save_graph("cut.onnx", &g);
    const lam_read_options o = {.health = true};
    lam_model *m = NULL;
    last = (lam_error){.at = -1};
    assert_int_equal(lam_read(&m, "cut.onnx", &o, &last), LAM_FAILED);
    if (!strstr(last.text, "a number that does not end in its message, at byte")) fail_msg("%s", last.text);
}

/* What a tensor lacks: its data, its type, a size that memory could have. And names that are there twice, in
 * graphs of their own. */
static void tensors_that_lack_something_are_told(void **state) {
    (void)state;
    static const struct {
        int type;
        int64_t sizes[2];
        bool data;
    } all[] = {
        {1, {2, 3}, false},
        {60, {2, 3}, true},
        {1, {INT64_C(1) << 40, INT64_C(1) << 40}, false},
        {1, {INT64_C(1) << 60, 1}, false},
        {22, {(INT64_C(1) << 61) - 1, 1}, false},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        lmi_buf g = begun(), t = begun();
        put_node(&g, "Add x,fc.weight y -");
        put_number(&t, 1, (uint64_t)all[i].sizes[0]);
        put_number(&t, 1, (uint64_t)all[i].sizes[1]);
        put_number(&t, 2, (uint64_t)all[i].type);
        put_word(&t, 8, "fc.weight");
        if (all[i].data) put_bytes(&t, 4, "\0\0\0\0", 4);
        put_word(&t, 12, "a text of no matter");
        put_message(&g, 5, &t);
        put_stated(&g, 11, "x 3");
        save_graph("lacks.onnx", &g);
        lam_model *m = checked("lacks.onnx");
        if (!strstr(notes_of(m), "fc.weight")) fail_msg("case %d: %s", (int)i, notes_of(m));
        lam_model_free(m);
    }
}

static void values_of_one_name_are_searched_each(void **state) {
    (void)state;
    lmi_buf g = begun(), n = node_of("If cond y -");
    for (int i = 0; i < 2; i++) {
        lmi_buf body = begun(), a = begun();
        put_node(&body, "Add x,fc.weight v -");
        put_field(&body, "fc.weight", 3, 1, 4, 3);
        put_stated(&body, 12, "v 3");
        put_word(&a, 1, i ? "else_branch" : "then_branch");
        put_message(&a, 6, &body);
        put_message(&n, 5, &a);
    }
    put_message(&g, 1, &n);
    put_stated(&g, 11, "x 3");
    put_stated(&g, 11, "cond 1");
    save_graph("names.onnx", &g);
    lam_model *m = checked("names.onnx");
    assert_non_null(lam_model_find(m, "fc") > 0 ? m : NULL);
    lam_model_free(m);
    oom_sweep_parts(check_once, "names.onnx");
    oom_sweep_takes(check_once, "names.onnx", 1);
}

/* Of tensors that have a module's name, those that a layer could learn are its parameters. */
static void what_is_a_parameter_is_told_by_its_type_and_use(void **state) {
    (void)state;
    static const struct {
        const char *node, *tensor;
        int64_t params, buffers;
    } all[] = {
        {"Add x,fc.w y -", "fc.w 1 3 12", 3, 0},
        {"Add x,fc.w y -", "fc.w 1 1 4", 1, 0},
        {"Add x,fc.w y -", "fc.w 7 3 24", 0, 3}, /* whole numbers are a buffer */
        {"Add x,fc.w y -", "fc.w 7 1 8", 0, 0},  /* a single one is none */
        {"Relu x y -", "fc.w 7 3 24", 0, 0},     /* nor is one that nobody reads */
        {"Add x,fc.w y -", NULL, 0, 0},          /* nor are texts */
        {"DequantizeLinear fc.w,x y -", "fc.w 6 3 12", 3, 0},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        for (int twice = 0; twice < 2; twice++) {
            lmi_buf g = begun();
            put_node(&g, all[i].node);
            char words[64];
            snprintf(words, sizeof words, "%.*s z -", (int)strlen(all[i].node) - 4, all[i].node);
            if (twice) put_node(&g, words);
            if (all[i].tensor)
                put_tensor(&g, 5, all[i].tensor);
            else
                put_field(&g, "fc.w", 3, 8, 6, 3);
            put_stated(&g, 11, "x 3");
            save_graph("role.onnx", &g);
            lam_model *m = opened("role.onnx");
            lam_costs *c = costs_of(m);
            const lam_param_totals p = lam_costs_params(c);
            if (p.params.n != all[i].params || p.buffers.n != all[i].buffers)
                fail_msg("case %d: %d, %d", (int)i, (int)p.params.n, (int)p.buffers.n);
            lam_costs_free(c);
            lam_model_free(m);
        }
    }
}

/* A Constant may hold a sparse tensor, and an axis of an input may say what it is. */
static void a_constant_may_be_sparse(void **state) {
    (void)state;
    lmi_buf g = begun(), n = node_of("Constant - fc.weight -"), a = begun(), sparse = begun(),
            values = begun(), x = begun(), type = begun(), tensor = begun(), sizes = begun(), axis = begun();
    put_number(&values, 1, 2);
    put_number(&values, 2, 1);
    put_bytes(&values, 9, "\0\0\0\0\0\0\0\0", 8);
    put_message(&sparse, 1, &values);
    put_number(&sparse, 3, 6);
    put_word(&a, 1, "sparse_value");
    put_message(&a, 22, &sparse);
    put_message(&n, 5, &a);
    put_message(&g, 1, &n);
    put_node(&g, "Add x,fc.weight y -");
    put_number(&axis, 1, 6);
    put_word(&axis, 3, "DATA_FEATURE");
    put_message(&sizes, 1, &axis);
    put_number(&tensor, 1, 1);
    put_message(&tensor, 2, &sizes);
    put_message(&type, 1, &tensor);
    put_word(&x, 1, "x");
    put_message(&x, 2, &type);
    put_message(&g, 11, &x);
    save_graph("sparse.onnx", &g);
    lam_model *m = checked("sparse.onnx");
    lam_costs *c = costs_of(m);
    is_exactly(lam_costs_params(c).params, 6);
    assert_non_null(strstr(notes_of(m), "it is sparse"));
    lam_costs_free(c);
    lam_model_free(m);
}

/* A list of a Constant takes more memory than the file. */
static void a_long_list_of_a_constant_is_searched(void **state) {
    (void)state;
    lmi_buf g = begun(), n = node_of("Constant - fc.weight -"), a = begun(), all = begun();
    lmi_pad(&all, '\1', 4000);
    put_word(&a, 1, "value_ints");
    put_message(&a, 8, &all);
    put_number(&a, 20, 7);
    put_message(&n, 5, &a);
    put_message(&g, 1, &n);
    put_node(&g, "Add x,fc.weight y -");
    put_stated(&g, 11, "x 4000");
    save_graph("list.onnx", &g);
    lam_model *m = checked("list.onnx");
    assert_null(strstr(notes_of(m), "fc.weight"));
    lam_model_free(m);
}

/* INT4 has one of its numbers in each entry of the field. */
static void small_numbers_have_an_entry_each(void **state) {
    (void)state;
    lmi_buf g = begun(), n = node_of("Cast told shape -"), a = begun();
    put_word(&a, 1, "to");
    put_number(&a, 3, 7);
    put_message(&n, 5, &a);
    put_message(&g, 1, &n);
    put_node(&g, "Reshape x,shape y -");
    put_node(&g, "MatMul y,w z -");
    put_field(&g, "told", 2, 22, 5, 2);
    put_tensor(&g, 5, "w 1 2,5 40");
    put_stated(&g, 11, "x 2,2");
    save_graph("small.onnx", &g);
    assert_int_not_equal(macs_of("small.onnx").state, LAM_EXACT); /* two entries are one byte too many */

    g = begun(), n = node_of("Cast told shape -"), a = begun(); /* and far fewer than the shape says */
    put_word(&a, 1, "to");
    put_number(&a, 3, 7);
    put_message(&n, 5, &a);
    put_message(&g, 1, &n);
    put_node(&g, "Gather shape,zero y -");
    put_field(&g, "told", 60000, 7, 7, 2);
    put_constant(&g, "zero", "=0");
    put_stated(&g, 11, "x 2,2");
    save_graph("small.onnx", &g);
    lam_model *m = opened("small.onnx");
    assert_int_equal(lam_model_n_ops(m), 2); /* nothing of it is known before it runs */
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_in_fields_are_searched),
        cmocka_unit_test(tensors_that_lack_something_are_told),
        cmocka_unit_test(values_of_one_name_are_searched_each),
        cmocka_unit_test(what_is_a_parameter_is_told_by_its_type_and_use),
        cmocka_unit_test(a_constant_may_be_sparse),
        cmocka_unit_test(a_long_list_of_a_constant_is_searched),
        cmocka_unit_test(small_numbers_have_an_entry_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
