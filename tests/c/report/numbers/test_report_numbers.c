/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of numbers: each has its own name, and each list has each of its positions once. */
#include "kit/oom.h"

#include "report/numbers/numbers.h"

static void names_differ(void **state) {
    (void)state;
    for (int a = 0; a < LMI_N_FIGURES; a++)
        for (int b = 0; b < a; b++) assert_string_not_equal(lmi_figures[a].name, lmi_figures[b].name);
}

/* A list whose positions have a hole would lose what stands after it. */
static void lists_are_whole(void **state) {
    (void)state;
    for (int list = 0; list < LMI_N_LISTS; list++) {
        int listed = 0, found = 0;
        for (int k = 0; k < LMI_N_FIGURES; k++) listed += lmi_figures[k].at[list] > 0;
        while (lmi_figure_at((lmi_figure_list)list, found) != LMI_FIGURE_NO) found++;
        assert_int_equal(found, listed);
        assert_true(listed > 0);
    }
}

/* A picture or a budget needs parts that it can add up, a column that the share stands beside. */
static void lists_have_what_they_need(void **state) {
    (void)state;
    for (int k = 0; k < LMI_N_FIGURES; k++) {
        const lmi_figure_info *f = &lmi_figures[k];
        if (f->at[LMI_DRAWN] || f->at[LMI_PAGED]) assert_int_not_equal(f->part[0], LMI_OWN_NO);
        if (f->at[LMI_SORTED]) assert_non_null(f->column);
        if (f->back != LMI_FIGURE_NO) assert_int_equal(lmi_figures[f->back].unit, f->unit);
    }
}

static void a_name_is_found_in_its_lists(void **state) {
    (void)state;
    assert_int_equal(lmi_figure_find(LMI_DRAWN, "bytes=2", 5), LMI_FIGURE_MOVED);
    assert_int_equal(lmi_figure_find(LMI_LIMITED, "peak", 4), LMI_FIGURE_PEAK);
    assert_int_equal(lmi_figure_find(LMI_SORTED, "peak", 4), LMI_FIGURE_NO);
    assert_int_equal(lmi_figure_find(LMI_DRAWN, "mac", 3), LMI_FIGURE_NO);
    assert_string_equal(lmi_part_title(LMI_FIGURE_PEAK), "at peak");
    assert_string_equal(lmi_part_title(LMI_FIGURE_MOVED), "bytes moved");
    assert_int_equal(lam_number_needs("peak"), LAM_NEEDS_MEMORY);
    assert_int_equal(lam_number_needs("backward_macs"), LAM_NEEDS_BACKWARD);
    assert_int_equal(lam_number_needs("colour"), LAM_NEEDS_NOTHING);
}

static void a_list_as_text(void **state) {
    (void)state;
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_put_figures(&b, LMI_DRAWN);
    assert_string_equal(lmi_buf_text(&b), "params, param_bytes, macs, flops, bytes, time, memory, peak");
    lmi_buf_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_differ),
        cmocka_unit_test(lists_are_whole),
        cmocka_unit_test(lists_have_what_they_need),
        cmocka_unit_test(a_name_is_found_in_its_lists),
        cmocka_unit_test(a_list_as_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
