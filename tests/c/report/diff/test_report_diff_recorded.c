/* SPDX-License-Identifier: Apache-2.0
 *
 * Differences of recordings: medians by layer, beside another recording and beside a model. */
#include "kit/oom.h"

#include "kit/recorded.h"
#include "kit/show.h"

static const char *written(const lam_diff_side *a, const lam_diff_side *b, const lam_diff_options *o) {
    lam_error e = {0};
    lam_diff *d = NULL;
    lam_status s = lam_diff_new(&d, a, b, &e);
    if (s == LAM_OK) s = lam_diff_write(d, o, show_sink(), &e);
    if (s != LAM_OK) fail_msg("%s: %s", e.where, e.text);
    lam_diff_free(d);
    return shown;
}

/* The first layer takes 1,000 ns a unit of slowness, and all others always the same. */
static void a_slower_layer(void **state) {
    (void)state;
    char file[2][200];
    snprintf(file[0], sizeof file[0], "%s", step_recording("fast.lamina", 0, 1, 1));
    snprintf(file[1], sizeof file[1], "%s", step_recording("slow.lamina", 0, 1, 3));
    lam_diff_side a = {.file = file[0], .name = "a"}, b = {.file = file[1], .name = "b"};
    written(&a, &b, NULL);
    show_has("~ first (Linear)          1.00 us  3.00 us  +2.00 us  +200%\n");
    show_lacks("second");
    show_has("a: medians of ");
    show_has(" training steps of Net; 1 other kind of steps is left out.\n");
    show_has("time ");
    show_has("time of a step");
    show_lacks("MACs");
    show_lacks("peak memory");
    written(&a, &a, NULL);
    show_has("Nothing differs: 3 modules are equal.\n");
    written(&a, &b, &(lam_diff_options){.format = "json", .depth = -1});
    show_has("\"kind\": \"recording\"");
    show_has("\"modules\": 3, \"steps\": 5}");
    show_has("\"before_deviation\": 0");
}

/* What a recording does not have is said by name. */
static void beside_a_model(void **state) {
    (void)state;
    char file[200];
    snprintf(file, sizeof file, "%s", step_recording("model.lamina", 0, 1, 1));
    lam_model *m = step_model(1, true);
    lam_costs *c = net_costs(m, "layers", false);
    lam_diff_side a = {.file = file, .name = "run.lamina"}, b = {.costs = c, .name = "m:Net"};
    written(&a, &b, NULL);
    show_has("run.lamina has no MACs, FLOPs and no shapes, so they are not compared.\n");
    show_has("time             1.50 us  1.50 us           0\n");
    show_has("params ");
    show_lacks("removed");
    show_lacks("added");
    lam_costs_free(c);
    lam_model_free(m);
}

static void no_recording(void **state) {
    (void)state;
    char file[200];
    lam_error e = {0};
    lam_diff *d = NULL;
    snprintf(file, sizeof file, "%s", step_file("none.lamina"));
    lam_diff_side a = {.file = file};
    assert_int_equal(lam_diff_new(&d, &a, &a, &e), LAM_IO);
    assert_null(d);
    snprintf(file, sizeof file, "%s", step_file("none.json"));
    e = (lam_error){0};
    assert_int_equal(lam_diff_new(&d, &a, &a, &e), LAM_IO);
    snprintf(file, sizeof file, "%s", step_recording("empty.lamina", 0, 1, 1));
    change_recording(file, "DELETE FROM layers; DELETE FROM steps;");
    e = (lam_error){0};
    assert_int_equal(lam_diff_new(&d, &a, &a, &e), LAM_FAILED);
    assert_string_equal(e.text, "it has no step that counts, so there is nothing to compare");
}

static void compare_once(void *arg, bool *ok) {
    const char *file = arg;
    lam_error e = {0};
    lam_diff *d = NULL;
    lam_diff_side a = {.file = file};
    lam_status s = lam_diff_new(&d, &a, &a, &e);
    lam_diff_free(d);
    *ok = oom_check(s, &e);
}

static void without_memory(void **state) {
    (void)state;
    char file[200];
    snprintf(file, sizeof file, "%s", step_recording("oom.lamina", 0, 1, 1));
    oom_sweep(compare_once, file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slower_layer),
        cmocka_unit_test(beside_a_model),
        cmocka_unit_test(no_recording),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
