/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints of trainings: weights whose values are in other files, states of optimizers that have the
 * weights again, and the same model twice. */
#include "kit/pickled.h"

static const pk_view six = {"FloatStorage", "0", 6, 0, 2, {2, 3}, {3, 1}};
static const pk_view other = {"FloatStorage", "1", 6, 0, 2, {2, 3}, {3, 1}};
static const pk_view four = {"FloatStorage", "1", 6, 0, 1, {4}, {1}};
static const pk_view empty = {"FloatStorage", "2", 0, 0, 1, {0}, {1}};
static const size_t bytes[] = {24, 24, 0};

static void has(int64_t params, int64_t stored, const char *note) {
    lam_model *m = opened("split_training.pt");
    lam_costs *c = costs_of(m);
    const lam_param_totals p = lam_costs_params(c);
    bool told = false;
    for (int32_t i = 0; i < lam_model_n_notes(m); i++) told = told || strcmp(lam_model_note(m, i), note) == 0;
    is_exactly(p.params, params);
    is_exactly(p.param_bytes, stored);
    assert_true(told || !*note);
    if (!*note)
        for (int32_t i = 0; i < lam_model_n_notes(m); i++)
            assert_null(strstr(lam_model_note(m, i), "both count"));
    lam_costs_free(c);
    lam_model_free(m);
}

/* The shapes of parameters: a list of dicts, where each name has a torch.Size. */
static void put_shapes(lmi_buf *b, const char *name, int64_t rows) {
    const int64_t sizes[] = {rows, 3};
    lmi_put(b, "](");
    pk_global(b, "collections", "OrderedDict");
    lmi_put(b, ")R(");
    pk_text(b, name);
    pk_global(b, "torch", "Size");
    lmi_putc(b, '(');
    pk_ints(b, 2, sizes);
    lmi_put(b, "tR");
    pk_int(b, 7);       /* no name */
    lmi_put(b, "NuNe"); /* and no dict */
}

static void shapes_are_told_of_weights_in_other_files(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t rows, params;
        const char *note;
    } all[] = {
        {"fc.weight", 2, 6 + 6, "the values of 1 tensor are in other files: its shape is here"},
        {"fc.weight", 0, 6, "its tensors are under 'module'"},
        {"fc.full", 5, 6, "its tensors are under 'module'"}, /* it is here */
        {"none", 2, 6, "its tensors are under 'module'"},
        {"fc.weight", -2, 6, "its tensors are under 'module'"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        lmi_buf b = pk_begin();
        lmi_put(&b, "}(");
        pk_text(&b, "module");
        lmi_put(&b, "}(");
        pk_text(&b, "fc.weight");
        pk_tensor(&b, &empty);
        pk_text(&b, "fc.full");
        pk_tensor(&b, &six);
        lmi_putc(&b, 'u');
        pk_text(&b, "param_shapes");
        put_shapes(&b, all[i].name, all[i].rows);
        lmi_put(&b, "u.");
        save_zip("split_training.pt", &b, 3, bytes);
        has(all[i].params, all[i].params * 4, all[i].note);
        if (i == 0) oom_sweep_parts(read_once, (void *)"split_training.pt");
    }
}

/* An optimizer may have the weights again, in pieces. */
static void weights_of_an_optimizer_are_left_out(void **state) {
    (void)state;
    static const char *const beside[] = {"loss_scaler", "other"};
    for (int i = 0; i < 2; i++) {
        lmi_buf b = pk_begin();
        lmi_put(&b, "}(");
        pk_text(&b, "optimizer_state_dict");
        lmi_put(&b, "}(");
        pk_text(&b, "zero_stage");
        pk_int(&b, 2);
        pk_text(&b, beside[i]);
        lmi_putc(&b, 'N');
        pk_text(&b, "single_partition_of_fp32_groups");
        lmi_put(&b, "](");
        pk_tensor(&b, &six);
        lmi_put(&b, "euu.");
        save_zip("split_training.pt", &b, 3, bytes);
        has(i ? 6 : 0, i ? 24 : 0,
            i ? "its tensors are under 'optimizer_state_dict'" : "the state of an optimizer is left out");
    }
}

/* A part with two tensors, or one. `wrapped`: as AveragedModel has the model, 1 with its counter. */
static void put_part(lmi_buf *b, const char *name, int wrapped, const pk_view *one, const pk_view *two) {
    pk_text(b, name);
    lmi_put(b, "}(");
    if (wrapped == 1) pk_text(b, "n_averaged");
    if (wrapped == 1) pk_tensor(b, &(pk_view){"LongStorage", "2", 1, 0, 0, {0}, {0}});
    pk_text(b, wrapped ? "module.fc.weight" : "fc.weight");
    pk_tensor(b, one);
    if (two) pk_text(b, wrapped ? "module.fc.bias" : "fc.bias");
    if (two) pk_tensor(b, two);
    lmi_putc(b, 'u');
}

static void the_same_model_twice_is_told(void **state) {
    (void)state;
    static const char twice[] =
        "the tensors under 'ema' have the names and shapes of those under 'model', and both count";
    static const pk_view row = {"FloatStorage", "0", 6, 2, 1, {4}, {1}};
    static const size_t counted[] = {24, 24, 8};
    static const struct {
        int wrapped;
        const pk_view *one, *two; /* of the second part */
        int64_t params;
        const char *note;
    } all[] = {
        {0, &other, &four, 2 * (6 + 4), twice},
        {1, &other, &four, 2 * (6 + 4), twice},
        {2, &other, &four, 2 * (6 + 4), twice},
        {0, &other, &other, 6 + 4 + 6, ""}, /* another shape; the two of it share their memory */
        {1, &other, &other, 6 + 4 + 6, ""},
        {0, &six, &row, 6 + 4, ""}, /* both parts share their memory */
        {0, &other, NULL, 6 + 4 + 6, ""},
        {1, &other, NULL, 6 + 4 + 6, ""},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        for (int alone = 0; alone < 2; alone++) { /* a tensor at the root is between them */
            lmi_buf b = pk_begin();
            lmi_put(&b, "}(");
            put_part(&b, "model", 0, &six, &row);
            if (alone) pk_text(&b, "center");
            if (alone) pk_tensor(&b, &(pk_view){"FloatStorage", "1", 6, 5, 1, {1}, {1}});
            put_part(&b, "ema", all[i].wrapped, all[i].one, all[i].two);
            lmi_put(&b, "u.");
            save_zip("split_training.pt", &b, 3, counted);
            has(all[i].params + alone, (all[i].params + alone) * 4, all[i].note);
            if (i == 0) oom_sweep_parts(read_once, (void *)"split_training.pt");
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_are_told_of_weights_in_other_files),
        cmocka_unit_test(weights_of_an_optimizer_are_left_out),
        cmocka_unit_test(the_same_model_twice_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
