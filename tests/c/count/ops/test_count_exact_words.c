/* SPDX-License-Identifier: Apache-2.0
 *
 * Every word of an operator has a rule or only calls others, and no arguments, however odd, make a rule
 * fail. */
#include "kit/oom.h"

#include "kit/op_build.h"

static void every_word_has_a_rule(void **state) {
    (void)state;
    const lmi_convention *exact = lmi_convention_named("exact", NULL),
                         *layers = lmi_convention_named("layers", NULL);
    for (int32_t w = 0; lam_word_op_name(w); w++) {
        assert_int_equal(lam_word_op(lam_word_op_name(w)), w);
        const lmi_rule *r = lmi_rule_for_op(exact, w, lam_word_op_name(w));
        if (lmi_op_kind(w) == LMI_K_composite) {
            assert_null(r);
            continue;
        }
        if (!r) fail_msg("%s: no rule for %s", lam_word_op_name(w), lam_word_op_kind(w));
        assert_int_equal(r->kind, lmi_op_kind(w));
        for (int i = 0; i < LAM_N_METRICS; i++) assert_non_null(r->formula[i]);
        if (!r->note) fail_msg("%s has no note", lam_word_op_kind(w));
        assert_null(lmi_rule_for_op(layers, w, lam_word_op_name(w))); /* it counts calls */
    }
    assert_null(lmi_rule_for_op(exact, -1, "x"));
    assert_null(lmi_rule_for_op(exact, 1 << 20, "x"));
}

static void every_rule_has_a_word(void **state) {
    (void)state;
    lam_rule r;
    int32_t exact = lam_convention_find("exact");
    for (int32_t i = 0; lam_convention_rule(exact, i, &r, NULL) == LAM_OK; i++) {
        bool found = false;
        for (int32_t w = 0; lam_word_op_name(w) && !found; w++) found = !strcmp(lam_word_op_kind(w), r.kind);
        if (!found) fail_msg("no operator has the rule of %s", r.kind);
        for (int k = 0; k < LAM_N_METRICS; k++) {
            lmi_formula f;
            assert_int_equal(lmi_formula_parse(&f, r.formula[k], NULL), LAM_OK);
        }
    }
}

static int64_t odd_size(void) {
    static const int64_t sizes[] = {0, 1, 2, 3, 7, 1 << 20, INT64_C(1) << 40, INT64_MAX};
    return sizes[pick(0, 7)];
}

static void odd_argument(int32_t position) {
    int64_t s[LAYER_NDIM];
    int32_t n = (int32_t)pick(0, 5);
    for (int32_t i = 0; i < n; i++) s[i] = odd_size();
    switch (pick(0, 7)) {
    case 0: in_none(position); break;
    case 1: in_bool(position, coin()); break;
    case 2: in_int(position, coin() ? odd_size() : -odd_size()); break;
    case 3: in_float(position, coin() ? NAN : -1e300); break;
    case 4: in_ints(position, n, s); break;
    case 5: in_text(position, "tanh"); break;
    default: in_tensor(position, n, s); break;
    }
    if (the.in[the.n_in - 1].is_tensor && pick(0, 9) == 0) the.in[the.n_in - 1].ndim = -1;
}

/* Whatever comes in: a number that is not negative, or unknown. */
static void odd_arguments(void **state) {
    (void)state;
    int32_t n_words = 0;
    while (lam_word_op_name(n_words)) n_words++;
    for (int i = 0; i < 20000; i++) {
        reseed((uint64_t)i);
        op_new(lam_word_op_name((int32_t)pick(0, n_words - 1)));
        int32_t n = (int32_t)pick(0, 10), outs = (int32_t)pick(0, 3);
        for (int32_t k = 0; k < n; k++) odd_argument((int32_t)pick(0, 18));
        for (int32_t k = 0; k < outs; k++) {
            int64_t s[3] = {odd_size(), odd_size(), odd_size()};
            coin() ? out_tensor(k, (int32_t)pick(0, 3), s) : out_none(k);
        }
        lam_count got[LAM_N_METRICS];
        op_counts(got);
        for (int k = 0; k < LAM_N_METRICS; k++)
            if (got[k].state != LAM_UNKNOWN && got[k].n < 0)
                fail_msg("%s of %s%s is %lld", lam_metric_name((lam_metric)k), the.name, the.text,
                         (long long)got[k].n);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_word_has_a_rule),
        cmocka_unit_test(every_rule_has_a_word),
        cmocka_unit_test(odd_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
