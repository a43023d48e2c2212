/* SPDX-License-Identifier: Apache-2.0
 * Peaks of devices: by a name of the table, by the name that a driver has for them, and as a number. */
#include "kit/oom.h"

#include <string.h>

static lam_named_peak read_peak(const char *text, const char *dtype) {
    lam_named_peak p;
    lam_error e = {0};
    if (lam_peak_flops(text, dtype, &p, &e) != LAM_OK) fail_msg("%s: %s", text, e.text);
    return p;
}

static void a_peak_is_a_number_or_a_device(void **state) {
    (void)state;
    lam_named_peak p = read_peak("9.89e14", "float32");
    assert_true(p.best.flops == 9.89e14 && p.best.bytes == 0);
    assert_string_equal(p.name, "given");
    assert_null(p.dtype);
    p = read_peak("h200-sxm", "bfloat16");
    assert_true(p.best.flops == 989e12);
    assert_string_equal(p.dtype, "bfloat16");
    p = read_peak("h200-sxm:float32", "bfloat16");
    assert_true(p.best.flops == 67e12);
    assert_string_equal(p.name, "h200-sxm");
}

static void what_is_no_peak_is_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {
        "",         "0",     "-1e12", "0.5",           "nan",      "inf",
        "1e12 x",   "1e999", "h200",  "h200-sxm:int8", "measured", "measured:float32",
        "h200-sxm:"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        lam_named_peak p;
        lam_error e = {0};
        assert_int_equal(lam_peak_flops(wrong[i], "float32", &p, &e), LAM_USAGE);
        assert_true(*e.text != '\0');
    }
}

static void a_driver_has_other_names(void **state) {
    (void)state;
    lam_named_peak p;
    assert_true(lam_peak_of_device("NVIDIA H200", "bfloat16", &p));
    assert_string_equal(p.name, "h200-sxm");
    assert_true(p.best.flops == 989e12);
    assert_true(lam_peak_of_device("Tesla V100-SXM2-32GB", "float16", &p));
    assert_true(p.best.flops == 125e12);
    assert_true(lam_peak_of_device("NVIDIA A100-PCIE-40GB", "float32", &p));
    assert_true(p.best.flops == 19.5e12);
    assert_false(lam_peak_of_device("NVIDIA H200", "float64", &p));
    assert_false(lam_peak_of_device("NVIDIA H200 NVL", "bfloat16", &p));
    assert_false(lam_peak_of_device("h200-sxm", "bfloat16", &p));
    assert_false(lam_peak_of_device("", "bfloat16", &p));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peak_is_a_number_or_a_device),
        cmocka_unit_test(what_is_no_peak_is_refused),
        cmocka_unit_test(a_driver_has_other_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
