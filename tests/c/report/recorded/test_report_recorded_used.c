/* SPDX-License-Identifier: Apache-2.0
 * The share of the device's peak that steps reach, in words. */
#include "kit/oom.h"
#include "report/recorded/recorded.h"

#include <math.h>

static void says(lam_utilization u, const char *want) {
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_put_used(&b, &u);
    assert_string_equal(lmi_buf_text(&b), want);
    lmi_buf_free(&b);
}

static const lam_utilization known = {.mfu = .412,
                                      .hfu = .52,
                                      .flops_per_s = 407.4e12,
                                      .flops = 3210000000000,
                                      .hardware_flops = 4050000000000,
                                      .peak = 989e12,
                                      .device = "NVIDIA H200",
                                      .dtype = "bfloat16",
                                      .peak_of = "h200-sxm:bfloat16"};

static void what_is_known(void **state) {
    (void)state;
    lam_utilization u = known;
    says(u, "MFU 41.2 %, HFU 52 % of 989 TFLOP/s (NVIDIA H200, bfloat16); 3.21 TFLOP a step, 407 TFLOP/s");
    u.device = NULL;
    u.hfu = NAN;
    says(u, "MFU 41.2 % of 989 TFLOP/s; 3.21 TFLOP a step, 407 TFLOP/s");
    u.mfu = 2e-9;
    says(u, "MFU 2e-07 % of 989 TFLOP/s; 3.21 TFLOP a step, 407 TFLOP/s");
}

static void what_is_a_lower_bound(void **state) {
    (void)state;
    lam_utilization u = known;
    u.at_least = true;
    u.why = "1 operator has no rule";
    says(u, "MFU >= 41.2 %, HFU >= 52 % of 989 TFLOP/s (NVIDIA H200, bfloat16); >= 3.21 TFLOP a step, >= 407 "
            "TFLOP/s (1 operator has no rule)");
}

static void what_is_unknown(void **state) {
    (void)state;
    lam_utilization u = known;
    u.mfu = u.hfu = u.peak = NAN;
    u.why_peak = "no table has it";
    says(u, "MFU ?; 3.21 TFLOP a step, 407 TFLOP/s (no table has it)");
    u.flops_per_s = NAN;
    u.why_peak = NULL;
    u.why = "how long a step takes is not known";
    says(u, "MFU ?; 3.21 TFLOP a step (how long a step takes is not known)");
    u.flops = -1;
    u.why = "it was not counted";
    u.why_peak = "no table has it";
    says(u, "MFU ? (it was not counted)");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_known),
        cmocka_unit_test(what_is_a_lower_bound),
        cmocka_unit_test(what_is_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
