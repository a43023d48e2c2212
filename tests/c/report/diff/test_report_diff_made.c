/* SPDX-License-Identifier: Apache-2.0
 *
 * Differences of made-up networks in every format, against a transcript: two that are unlike, one and the
 * same with another layer or another name, a model and a saved report. */
#include "kit/oom.h"

#include "kit/made_net.h"
#include "kit/show.h"

enum { PAIRS = 32 };

static const char FILE_NAME[] = "test_report_diff_made.json";

static lam_model *model_of(uint32_t from, int32_t other, int32_t renamed) {
    seed = from;
    made_other = other;
    made_renamed = renamed;
    lam_model *m = made_step();
    made_other = made_renamed = -1;
    return m;
}

static void write_one(int i) {
    static const char *const formats[] = {"text", "text", "json", "md"}, *const by[] = {NULL, "params",
                                                                                        "calls"};
    const uint32_t from = 100 + 7 * (uint32_t)i;
    lam_error e = {0};
    lam_diff *d = NULL;
    lam_model *m[2] = {model_of(from, -1, -1), i % 3 == 0 ? model_of(from + 1, -1, -1)
                                                          : model_of(from, i % 3 == 1 ? 2 : -1, 3 + i % 4)};
    lam_costs *c[2] = {net_costs(m[0], i % 5 ? "exact" : "layers", false),
                       net_costs(m[1], i % 10 ? "exact" : "layers", false)};
    lam_diff_side was = {.costs = c[0], .name = "old"}, now = {.costs = c[1], .name = "new"};
    if (i % 4 == 3) {
        show_save(c[0], FILE_NAME);
        was = (lam_diff_side){.file = FILE_NAME};
    }
    if (lam_diff_new(&d, &was, &now, &e) != LAM_OK) fail_msg("%s", e.text);
    const lam_diff_options o = {.format = formats[i % 4],
                                .by = by[i / 3 % 3],
                                .width = i % 2 ? 30 + 5 * i : 0,
                                .rows = i % 6 == 4 ? 3 : -1,
                                .depth = i % 6 == 5 ? 1 : -1,
                                .exact = i % 2,
                                .ascii = i % 8 == 5,
                                .command = i % 7 == 3};
    if (lam_diff_write(d, &o, (lam_sink){show_put, NULL}, &e) != LAM_OK) fail_msg("%s", e.text);
    lam_diff_free(d);
    for (int k = 0; k < 2; k++) {
        lam_costs_free(c[k]);
        lam_model_free(m[k]);
    }
}

static void in_every_format(void **state) {
    (void)state;
    (void)show_sink();
    for (int i = 0; i < PAIRS; i++) write_one(i);
    remove(FILE_NAME);
    show_golden("made-diff", true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_every_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
