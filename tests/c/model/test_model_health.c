/* SPDX-License-Identifier: Apache-2.0
 *
 * What was seen of values is kept as it was told, and nonsense is refused. */
#include "kit/oom.h"

#include "model/model.h"

#include <math.h>

static const int64_t sizes[] = {2, 3};

static bool looked_first; /* what was looked at may be told before or after what was found */

static lam_status build(lam_model **out) {
    const lam_module_info mod = {.type = "Linear", .word = -1};
    const lam_arg x = {.position = 0, .dtype = 6, .device = 0, .ndim = 2, .sizes = sizes};
    const lam_call_info call = {.parent = -1, .n_in = 1, .n_out = 1, .in = &x, .out = &x};
    const lam_checked looked = {.tensors = 4, .bytes = 96, .unseen = 1, .gradients = true};
    char name[] = "weight", text[] = "a text";
    const lam_bad bad = {.side = LAM_BAD_OUTPUT,
                         .calls = 1,
                         .from = -1,
                         .name = name,
                         .text = text,
                         .found = {.nan = 2, .inf = 1, .negative = 1, .first = 4},
                         .dtype = 6,
                         .ndim = 2,
                         .sizes = sizes};
    const lam_stats s = {.numbers = 6, .mean = 0.5};
    int32_t i;
    lam_error e = {0};
    lam_builder *b;
    *out = NULL;
    LAM_TRY(lam_builder_new(&b, 0, &e));
    lam_status st = lam_build_module(b, &mod, &i, &e);
    if (st == LAM_OK) st = lam_build_place(b, -1, "", 0, &i, &e);
    if (st == LAM_OK) st = lam_build_call(b, &call, &i, &e);
    if (st == LAM_OK && looked_first) st = lam_build_checked(b, &looked, &e);
    if (st == LAM_OK) st = lam_build_bad(b, &bad, &e);
    name[0] = text[0] = '?'; /* the model has copies */
    if (st == LAM_OK && !looked_first) st = lam_build_checked(b, &looked, &e);
    if (st == LAM_OK) st = lam_build_stats(b, 0, 0, &s, &e);
    if (st == LAM_OK) return lam_builder_finish(b, out, &e);
    lam_builder_free(b);
    return st;
}

static void kept_as_told(void **state) {
    (void)state;
    lam_model *m;
    assert_int_equal(build(&m), LAM_OK);
    const lam_checked *l = lam_model_checked(m);
    assert_true(l->tensors == 4 && l->bytes == 96 && l->unseen == 1 && l->gradients && !l->operators);
    assert_int_equal(lam_model_n_bad(m), 1);
    const lam_bad *bad = lam_model_bad(m, 0);
    assert_string_equal(bad->name, "weight");
    assert_string_equal(bad->text, "a text");
    assert_null(bad->inside);
    int64_t at[LAM_MAX_AXES];
    assert_int_equal(lam_bad_first(bad, at), 2);
    assert_true(at[0] == 1 && at[1] == 1);
    assert_string_equal(lam_bad_kind(bad), "NaN");
    assert_null(lam_model_bad(m, 1));
    assert_null(lam_model_bad(m, -1));
    assert_true(lam_model_stats(m, 0, 0)->mean == 0.5);
    assert_null(lam_model_stats(m, 0, 1));
    lam_model_free(m);
}

static void kinds(void **state) {
    (void)state;
    lam_bad bad = {.ndim = 1, .sizes = (const int64_t[]){0}, .found = {.first = 0}};
    int64_t at[LAM_MAX_AXES];
    assert_null(lam_bad_kind(&bad));
    assert_int_equal(lam_bad_first(&bad, at), -1);
    bad.found = (lam_nonfinite){.inf = 2, .negative = 2};
    assert_string_equal(lam_bad_kind(&bad), "-Inf");
    bad.found.negative = 1;
    assert_string_equal(lam_bad_kind(&bad), "Inf");
    bad.ndim = -1;
    assert_int_equal(lam_bad_first(&bad, at), -1);
}

static void node(lam_builder *b, int32_t call, int32_t pass) {
    lam_op_info op = {.name = "MulBackward0",
                      .call = call,
                      .parent = -1,
                      .phase = LAM_BACKWARD,
                      .flags = LAM_OP_NODE,
                      .t0_ns = 10,
                      .t1_ns = 20,
                      .pass = pass};
    lam_bad bad = {.side = LAM_BAD_NODE,
                   .call = call,
                   .from = -1,
                   .pass = pass,
                   .found.nan = 1,
                   .dtype = -1,
                   .ndim = -1};
    assert_int_equal(lam_build_op(b, &op, NULL, NULL), LAM_OK);
    assert_int_equal(lam_build_bad(b, &bad, NULL), LAM_OK);
}

/* Of four passes the second is another model's; the last two can't be told from others. */
static void passes_of_others(void **state) {
    (void)state;
    const lam_module_info mod = {.type = "Linear", .word = -1};
    const lam_call_info call = {.parent = -1};
    const int32_t whose[][2] = {{-1, 1}, {0, 1}, {-1, 2}, {-1, 2}, {0, 3}, {-1, 0}, {-1, LMI_PASSES}};
    const int32_t n = (int32_t)(sizeof whose / sizeof *whose);
    lam_builder *b;
    lam_model *m;
    int32_t i, left = 0;
    assert_int_equal(lam_builder_new(&b, 0, NULL), LAM_OK);
    assert_int_equal(lam_build_module(b, &mod, &i, NULL), LAM_OK);
    assert_int_equal(lam_build_place(b, -1, "", 0, &i, NULL), LAM_OK);
    assert_int_equal(lam_build_call(b, &call, &i, NULL), LAM_OK);
    for (i = 0; i < n; i++) node(b, whose[i][0], whose[i][1]);
    /* An operator is no node, and says nothing of whose a pass is. */
    const lam_op_info op = {
        .name = "aten::mul", .parent = -1, .phase = LAM_BACKWARD, .t0_ns = 10, .t1_ns = 20, .pass = 2};
    assert_int_equal(lam_build_op(b, &op, NULL, NULL), LAM_OK);
    assert_int_equal(lam_builder_finish(b, &m, NULL), LAM_OK);
    lmi_leave_out_passes(m);
    for (i = 0; i < n; i++) {
        const bool others = whose[i][1] == 2;
        assert_int_equal(lam_model_op(m, i)->t1_ns, others ? 0 : 20);
        if (!others) assert_int_equal(lam_model_bad(m, left++)->pass, whose[i][1]);
    }
    assert_int_equal(lam_model_n_bad(m), left);
    assert_int_equal(lam_model_op(m, n)->t1_ns, 20);
    lam_model_free(m);
    assert_int_equal(build(&m), LAM_OK); /* nothing went backward */
    lmi_leave_out_passes(m);
    assert_int_equal(lam_model_n_bad(m), 1);
    lam_model_free(m);
}

static void nonsense(void **state) {
    (void)state;
    lam_builder *b;
    lam_error e = {0};
    assert_int_equal(lam_builder_new(&b, 0, &e), LAM_OK);
    lam_bad bad = {.side = LAM_N_BAD_SIDES, .call = -1, .from = -1, .ndim = -1};
    const lam_stats s = {0};
    assert_int_equal(lam_build_bad(b, &bad, NULL), LAM_RANGE);
    bad.side = LAM_BAD_INPUT;
    bad.call = 3;
    assert_int_equal(lam_build_bad(b, &bad, NULL), LAM_RANGE);
    bad.call = -1;
    bad.calls = 1;
    assert_int_equal(lam_build_bad(b, &bad, NULL), LAM_RANGE);
    bad.calls = 0;
    bad.from = 0;
    assert_int_equal(lam_build_bad(b, &bad, NULL), LAM_RANGE);
    bad.from = -1;
    bad.ndim = 1;
    bad.sizes = (const int64_t[]){-1};
    assert_int_equal(lam_build_bad(b, &bad, NULL), LAM_RANGE);
    assert_int_equal(lam_build_bad(b, NULL, NULL), LAM_USAGE);
    assert_int_equal(lam_build_stats(b, 0, 0, &s, NULL), LAM_RANGE);
    assert_int_equal(lam_build_checked(b, NULL, NULL), LAM_USAGE);
    bad.ndim = -1;
    bad.phase = LAM_N_PHASES;
    assert_int_equal(lam_build_bad(b, &bad, NULL), LAM_RANGE);
    bad.phase = LAM_FORWARD;
    bad.origin = -1;
    assert_int_equal(lam_build_bad(b, &bad, NULL), LAM_RANGE);
    bad.origin = (1 << 24) + 1;
    assert_int_equal(lam_build_bad(b, &bad, NULL), LAM_RANGE);
    bad.origin = 0;
    bad.calls = -1;
    assert_int_equal(lam_build_bad(b, &bad, NULL), LAM_RANGE);
    lam_builder_free(b);
}

/* Entries are those of the call, arguments and results apart. */
static void entries_that_no_call_has(void **state) {
    (void)state;
    const lam_module_info mod = {.type = "Linear", .word = -1};
    const lam_arg x = {.dtype = 6, .ndim = 2, .sizes = sizes};
    const lam_call_info call = {.parent = -1, .n_in = 1, .in = &x};
    const lam_stats s = {0};
    int32_t i;
    lam_builder *b;
    assert_int_equal(lam_builder_new(&b, 0, NULL), LAM_OK);
    assert_int_equal(lam_build_module(b, &mod, &i, NULL), LAM_OK);
    assert_int_equal(lam_build_place(b, -1, "", 0, &i, NULL), LAM_OK);
    assert_int_equal(lam_build_call(b, &call, &i, NULL), LAM_OK);
    assert_int_equal(lam_build_grad(b, &(lam_grad){.is_input = true}, NULL), LAM_OK);
    assert_int_equal(lam_build_grad(b, &(lam_grad){.is_input = true, .index = 1}, NULL), LAM_RANGE);
    assert_int_equal(lam_build_grad(b, &(lam_grad){.is_input = true, .index = -1}, NULL), LAM_RANGE);
    assert_int_equal(lam_build_grad(b, &(lam_grad){.is_input = false}, NULL), LAM_RANGE);
    assert_int_equal(lam_build_grad(b, &(lam_grad){.call = 1}, NULL), LAM_RANGE);
    assert_int_equal(lam_build_grad(b, NULL, NULL), LAM_USAGE);
    assert_int_equal(lam_build_stats(b, 0, 0, &s, NULL), LAM_RANGE);
    assert_int_equal(lam_build_stats(b, 0, -1, &s, NULL), LAM_RANGE);
    assert_int_equal(lam_build_stats(b, 0, 0, NULL, NULL), LAM_USAGE);
    lam_builder_free(b);
}

static void build_once(void *arg, bool *ok) {
    (void)arg;
    lam_model *m;
    lam_status s = build(&m);
    *ok = s == LAM_OK;
    assert_true(*ok || s == LAM_NOMEM);
    lam_model_free(m);
}

static void no_memory(void **state) {
    (void)state;
    for (int first = 0; first < 2; first++) {
        looked_first = first;
        oom_sweep(build_once, NULL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_as_told),
        cmocka_unit_test(kinds),
        cmocka_unit_test(passes_of_others),
        cmocka_unit_test(nonsense),
        cmocka_unit_test(entries_that_no_call_has),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
