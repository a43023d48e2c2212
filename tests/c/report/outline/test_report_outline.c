/* SPDX-License-Identifier: Apache-2.0
 *
 * The outline of small models: places and the sums of each, runs of equal siblings, totals. */
#include "kit/oom.h"

#include "kit/full_net.h"
#include "kit/ops_net.h"

#include "report/outline/outline.h"

#include <string.h>

typedef struct outlined {
    lam_model *m;
    lam_costs *c;
    lmi_outline o;
} outlined;

static const lmi_outline_options everything = {.formulas = true, .course = true};

static outlined outline(lam_model *m, const char *convention) {
    outlined x = {.m = m, .c = net_costs(m, convention, false)};
    lam_error e = {0};
    if (lmi_outline_new(&x.o, x.c, &everything, &e) != LAM_OK) fail_msg("%s", e.text);
    return x;
}

static void leave(outlined *x) {
    lmi_outline_free(&x->o);
    lam_costs_free(x->c);
    lam_model_free(x->m);
}

/* The place with a path. */
static int32_t find(const lmi_outline *o, const char *path) {
    lmi_buf b;
    lmi_buf_init(&b);
    int32_t found = -1;
    for (int32_t i = 0; i < o->n && found < 0; i++) {
        lmi_buf_clear(&b);
        lmi_outline_path(o, i, &b);
        if (strcmp(lmi_buf_text(&b), path) == 0) found = i;
    }
    lmi_buf_free(&b);
    if (found < 0) fail_msg("there is no place '%s'", path);
    return found;
}

static void own_is(const lmi_outline *o, const char *path, lmi_own_number k, int64_t n, lam_state state) {
    int32_t i = find(o, path);
    assert_non_null(o->own[k]);
    assert_int_equal(o->own[k][i], n);
    assert_int_equal(o->state[k] ? o->state[k][i] : LAM_EXACT, state);
}

/* -- sums ------------------------------------------------------------------------------------------------ */

static void test_numbers_are_those_of_the_rows(void **unused) {
    (void)unused;
    outlined x = outline(net_step(), NULL);
    const lmi_outline *o = &x.o;
    assert_int_equal(o->n, 5);
    assert_string_equal(o->name, "Net");
    own_is(o, "", LMI_OWN_MACS, 6, LAM_EXACT); /* outside every call */
    own_is(o, "fc", LMI_OWN_MACS, 24, LAM_EXACT);
    own_is(o, "act", LMI_OWN_MACS, 0, LAM_EXACT);
    own_is(o, "mine", LMI_OWN_MACS, 40, LAM_AT_LEAST); /* my::op has no rule */
    own_is(o, "fc", LMI_OWN_BACK_MACS, 48 + 24, LAM_EXACT);
    own_is(o, "fc", LMI_OWN_PARAMS, 16, LAM_EXACT);
    own_is(o, "fc", LMI_OWN_PARAM_BYTES, 64, LAM_EXACT);
    own_is(o, "mine.inner", LMI_OWN_PARAMS, 25, LAM_EXACT);
    own_is(o, "fc", LMI_OWN_CALLS, 1, LAM_EXACT);
    assert_int_equal(o->total[LMI_OWN_MACS][0], 70);
    assert_int_equal(o->total[LMI_OWN_PARAMS][find(o, "mine")], 25);
    net_expect(o->macs[LAM_FORWARD], 70, LAM_AT_LEAST);
    net_expect(o->macs[LAM_BACKWARD], 48, LAM_EXACT);
    net_expect(o->params.params, 41, LAM_EXACT);
    assert_true(o->backward);
    leave(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_are_those_of_the_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
