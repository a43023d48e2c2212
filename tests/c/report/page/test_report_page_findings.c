/* SPDX-License-Identifier: Apache-2.0
 *
 * Each rule for findings, on outlines written by hand; numbers are worked out by hand. */
#include "kit/paged.h"

#define NARROW "\u202f"

static void findings_of(paged *p) { paged_part(p, NULL, lmi_page_findings); }

/* c has 250 of 500 parameters and no MACs; b.0 to b.2 do 600 of 1,000 MACs. */
static void heavy_module_and_equal_blocks(void **state) {
    (void)state;
    paged *p = paged_net();
    findings_of(p);
    assert_int_equal(shown_times("<li"), 2);
    show_has("<b><a class=\"link\" href=\"#layer=c\"><code><bdi>c</bdi></code></a> holds 50" NARROW
             "% of the parameters</b>, 250, and does 0.0" NARROW "% of the MACs.");
    show_has("Tie it to the output layer");
    show_has("<b>3 equal blocks are 60" NARROW "% of the MACs</b>: <a class=\"link\" href=\"#layer=b\">");
    show_has("has 3 × <bdi>Linear</bdi>, 200 each.");
    assert_true(strstr(shown, "holds 50") < strstr(shown, "equal blocks")); /* rank 3 before 1 */
    free(p);
}

/* Exactly 30 % is not more than 30 %. */
static void at_the_limits(void **state) {
    (void)state;
    paged *p = paged_new();
    paged_place(p, -1, "", "Net");
    static const char *const names[] = {"0", "1", "2", "a", "b"};
    for (int i = 0; i < 5; i++) {
        int32_t x = paged_place(p, 0, names[i], "Linear");
        paged_add(p, LMI_OWN_PARAMS, x, i == 3 ? 30 : i == 4 ? 25 : 15);
        paged_add(p, LMI_OWN_MACS, x, i < 3 ? 10 : 35);
    }
    paged_run(p, 1, 3);
    findings_of(p);
    assert_int_equal(shown_times("<li"), 0);
    paged_add(p, LMI_OWN_PARAMS, 4, 1); /* 31 of 101 */
    findings_of(p);
    assert_int_equal(shown_times("<li"), 1);
    show_has("Quantising this one layer saves most.");
    free(p);
}

/* 640 of 1,000 bytes are activations: of these b holds 340, and b.0 300, which has no parts: b is named. */
static void activations(void **state) {
    (void)state;
    paged *p = paged_net();
    paged_hold(p, 0, LAM_HELD_PARAMETER, 360);
    paged_hold(p, 1, LAM_HELD_ACTIVATION, 290);
    paged_hold(p, 3, LAM_HELD_ACTIVATION, 310);
    paged_hold(p, 4, LAM_HELD_ACTIVATION, 40);
    p->o.peak_place = 1;
    p->memory.peak_phase = LAM_BACKWARD;
    p->o.backward = true;
    findings_of(p);
    assert_int_equal(shown_times("<li"), 3);
    show_has("<b>Activations are 64" NARROW "% of the peak</b>, 640" NARROW "B of 1000" NARROW
             "B; <a class=\"link\" href=\"#layer=b\"><code><bdi>b</bdi></code></a> alone holds 350" NARROW
             "B.");
    show_has("The peak is reached in the backward of <a class=\"link\" href=\"#layer=a\">");
    show_has("Checkpointing <bdi>b</bdi> would free at most that and cost its forward again: 600 MACs.");
    p->o.backward = false;
    findings_of(p);
    show_has("A smaller batch or a smaller input makes it smaller.");
    show_lacks("Checkpointing");
    free(p);
}

/* Of eight layers each holds an eighth: none is to be named. */
static void activations_that_are_spread(void **state) {
    (void)state;
    static const char *const names[] = {"0", "1", "2", "3", "4", "5", "6", "7"};
    paged *p = paged_new();
    paged_place(p, -1, "", "Net");
    for (int i = 0; i < 8; i++)
        paged_hold(p, paged_place(p, 0, names[i], "Linear"), LAM_HELD_ACTIVATION, 100);
    findings_of(p);
    show_has("<b>Activations are 100" NARROW "% of the peak</b>, 800" NARROW "B of 800" NARROW "B.");
    show_lacks("alone holds");
    free(p);
}

static void parameters_hold_the_peak(void **state) {
    (void)state;
    paged *p = paged_net();
    paged_hold(p, 1, LAM_HELD_PARAMETER, 900);
    paged_hold(p, 1, LAM_HELD_ACTIVATION, 100);
    findings_of(p);
    show_has("<b>Parameters are 90" NARROW "% of the peak</b>, 900" NARROW "B of 1000" NARROW "B.");
    show_has("bfloat16");
    free(p);
}

/* The roof is 1,000 FLOP/s and 1,000 bytes/s. a runs 10 FLOPs and 10 bytes in 1 s: a hundredth of both. */
static void overhead(void **state) {
    (void)state;
    const int64_t second = 1000000000;
    paged *p = paged_net();
    p->o.timed = true;
    p->o.roof = (lam_peak){1000, 1000};
    p->o.time[LAM_TIME_FORWARD] = (lam_spread){.n = 5, .median = 5 * second, .deviation = second};
    for (int32_t i = 1; i <= 6; i += 5) {
        paged_add(p, LMI_OWN_FLOPS, i, i == 1 ? 10 : 3000);
        paged_add(p, LMI_OWN_READ, i, 10);
        paged_add(p, LMI_OWN_TIME, i, i == 1 ? second : 4 * second);
    }
    findings_of(p); /* the deviation is a fifth of the median, and no more */
    show_has("<b>20" NARROW "% of the forward's time is overhead:</b> 1 layer reaches less than a tenth");
    show_has("#layer=a\"><code><bdi>a</bdi></code></a> (1.00" NARROW "s, 20" NARROW "%).");
    const char *unused[1][2] = {{"c", "it was never called"}};
    p->o.unused = unused;
    p->o.n_unused = 1;
    findings_of(p);
    assert_true(strstr(shown, "is not used") < strstr(shown, "overhead:")); /* rank 8 before 4.7 */
    p->o.time[LAM_TIME_FORWARD].deviation++;
    findings_of(p);
    show_lacks("overhead");
    show_has("<b>The machine was busy:</b> the time of a run varies by 1.00" NARROW "s around 5.00" NARROW
             "s");
    free(p);
}

static void values(void **state) {
    (void)state;
    paged *p = paged_net();
    paged_health(p, "NaN first in b.0 (Linear)", 1592, 0);
    findings_of(p);
    show_has("<li class=\"ok\">");
    show_has("<b>No NaN or Inf</b> in 1" NARROW "592 tensors.");
    paged_health(p, "NaN first in b.0 (Linear)", 1592, 1);
    p->o.finding_place = 3;
    findings_of(p);
    show_has("<ul class=\"find\"><li class=\"bad\">"); /* it is the first */
    show_has("<bdi>NaN first in b.0 (Linear)</bdi>");
    show_has("Look at <a class=\"link\" href=\"#layer=b.0\">");
    show_lacks("No NaN or Inf");
    p->o.finding_place = -1;
    findings_of(p);
    show_lacks("Look at");
    free(p);
}

static void unused_and_without_gradient(void **state) {
    (void)state;
    paged *p = paged_net();
    const char *unused[][2] = {{"b.1", "it was never called"}, {"x", "y"}};
    const char *no_gradient[][2] = {{"a.weight", "<cut> off"}};
    p->o.n_no_gradient = 1;
    p->o.no_gradient = no_gradient;
    findings_of(p);
    show_has(
        "<b>1 parameter gets no gradient.</b> <code><bdi>a.weight</bdi></code>: <bdi>&lt;cut&gt; off</bdi>.");
    p->o.n_unused = 2;
    p->o.unused = unused;
    findings_of(p);
    show_has("<b>2 modules are not used.</b> <a class=\"link\" "
             "href=\"#layer=b.1\"><code><bdi>b.1</bdi></code></a>: "
             "<bdi>it was never called</bdi>; it holds 50 parameters.");
    show_lacks("no gradient");
    assert_int_equal(shown_times("<li"), 3);
    /* What would have come later is not unused. */
    paged_part(p, &(lam_page_options){.ran = "it raised"}, lmi_page_findings);
    show_lacks("not used");
    free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heavy_module_and_equal_blocks),
        cmocka_unit_test(at_the_limits),
        cmocka_unit_test(activations),
        cmocka_unit_test(activations_that_are_spread),
        cmocka_unit_test(parameters_hold_the_peak),
        cmocka_unit_test(overhead),
        cmocka_unit_test(values),
        cmocka_unit_test(unused_and_without_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
