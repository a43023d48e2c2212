/* SPDX-License-Identifier: Apache-2.0
 *
 * Receptive fields of made-up chains of operators against what each element really depends on: sets of input
 * elements that are carried along by the operators' definitions. What is told holds all of them, and no more
 * where it says that it is exact. */
#include "kit/reach_chains.h"
#include "kit/shown.h"

/* The hull of what the elements depend on that have number `o` along `axis` (-1: all), along an axis of the
 * input. */
static bool hull(const chain *c, const tensor *input, int32_t axis, int64_t o, int32_t along, int64_t *lo,
                 int64_t *hi) {
    int64_t at[AXES], from[AXES];
    bool any = false;
    for (int64_t i = 0; i < count(&c->now); i++) {
        place_in(&c->now, i, at);
        if (axis >= 0 && at[axis] != o) continue;
        for (int64_t k = 0; k < count(input); k++) {
            if (!(c->now.deps[i] >> k & 1)) continue;
            place_in(input, k, from);
            if (!any || from[along] < *lo) *lo = from[along];
            if (!any || from[along] > *hi) *hi = from[along];
            any = true;
        }
    }
    return any;
}

static void check_axis(const chain *c, const tensor *input, const lam_costs *k, int32_t i,
                       const lam_rf_axis *x) {
    int64_t n = x->out_axis < 0 ? 1 : c->now.sizes[x->out_axis];
    for (int64_t o = 0; o < n; o++) {
        int64_t lo = 0, hi = -1, told_lo, told_hi;
        bool any = hull(c, input, x->out_axis, o, x->axis, &lo, &hi);
        assert_int_equal(lam_costs_rf_seen(k, 0, i, o, &told_lo, &told_hi, NULL), LAM_OK);
        bool holds = !any || (told_lo <= lo && told_hi >= hi);
        bool exact = any ? told_lo == lo && told_hi == hi : told_hi < told_lo;
        if (!holds || (!x->at_most && !exact))
            fail_msg("%s: axis %d, element %d of axis %d sees %d to %d, and %d to %d%s is told", c->text,
                     (int)x->axis, (int)o, (int)x->out_axis, (int)lo, (int)hi, (int)told_lo, (int)told_hi,
                     x->at_most ? " at most" : "");
    }
}

static void made_up_chains(void **state) {
    (void)state;
    int exact = 0, followed = 0;
    seed = 11;
    for (int round = 0; round < rounds(4000); round++) {
        chain c;
        uint32_t begin = seed;
        lam_model *m = made_up(&c);
        uint32_t next = seed;
        seed = begin; /* the input again */
        tensor input = {.ndim = (int32_t)draw(2, 4)};
        input.sizes[0] = draw(1, 2);
        for (int32_t i = 1; i < input.ndim; i++) input.sizes[i] = draw(1, input.ndim == 4 ? 3 : 5);
        seed = next;
        lam_costs *k = net_costs(m, "exact", false);
        lam_rf_axis x;
        for (int32_t i = 0; lam_costs_rf_axis(k, 0, i, &x, NULL) == LAM_OK; i++) {
            if (x.state != LAM_EXACT) fail_msg("%s: %s", c.text, lam_state_name(x.state));
            check_axis(&c, &input, k, i, &x);
            exact += !x.at_most;
            followed += x.reach == LAM_REACH_WINDOW;
        }
        lam_costs_free(k);
        lam_model_free(m);
    }
    assert_true(exact > 0 && followed > 0);
}

/* -- a transcript ------------------------------------------------------------------------------ */

enum { TOLD = 150 };

static void show_line(const char *text) { (void)show_put(NULL, text, strlen(text)); }

static void tell_axis(const lam_costs *k, int32_t i, const lam_rf_axis *x) {
    char line[256];
    int64_t lo, hi;
    snprintf(line, sizeof line,
             "  %d of %d: reach %d along %d, %d, narrow %d, by %d/%d, %d/%d to %d/%d%s%s%s;", (int)x->axis,
             (int)x->positions, x->reach, (int)x->out_axis, (int)x->size, (int)x->narrow, (int)x->jump[0],
             (int)x->jump[1], (int)x->start[0], (int)x->start[1], (int)x->end[0], (int)x->end[1],
             x->shown ? ", shown" : "", x->paths ? ", paths" : "", x->at_most ? ", at most" : "");
    show_line(line);
    for (int64_t o = 0; o < 6 && lam_costs_rf_seen(k, 0, i, o, &lo, &hi, NULL) == LAM_OK; o++) {
        snprintf(line, sizeof line, " %d..%d", (int)lo, (int)hi);
        show_line(line);
        if (x->out_axis < 0) break;
    }
    show_line("\n");
}

/* All that is told of some chains, as it was told before. */
static void all_is_told_as_before(void **state) {
    (void)state;
    seed = 23;
    (void)show_sink();
    for (int i = 0; i < TOLD; i++) {
        chain c;
        char line[200];
        lam_rf_axis x;
        lam_model *m = made_up(&c);
        lam_costs *k = net_costs(m, "exact", false);
        show_line(c.text[0] ? c.text + 1 : "nothing");
        show_line(":\n");
        for (int32_t a = 0; lam_costs_rf_axis(k, 0, a, &x, NULL) == LAM_OK; a++) tell_axis(k, a, &x);
        const lam_cost_row *r = lam_costs_row(k, 0);
        snprintf(line, sizeof line, "  row: %g %g %g %s%s%s\n", r->rf, r->rf_stride, r->rf_padding,
                 lam_state_name(r->rf_state), r->rf_at_most ? ", at most" : "", r->rf_whole ? ", whole" : "");
        show_line(line);
        lam_costs_free(k);
        lam_model_free(m);
    }
    show_golden("reach-chains", true);
}

static void cost(void *arg, bool *ok) {
    lam_costs *k = NULL;
    lam_error e = {0};
    lam_rf_axis x;
    lam_cost_options o = {.convention = "exact"};
    *ok = oom_check(lam_costs_new(&k, arg, &o, &e), &e) && oom_check(lam_costs_rf_axis(k, 0, 0, &x, &e), &e);
    lam_costs_free(k);
}

static void memory_may_run_out(void **state) {
    (void)state;
    seed = 5;
    for (int round = 0; round < 20; round++) {
        chain c;
        lam_model *m = made_up(&c);
        if (lam_model_n_ops(m) > 3) oom_sweep(cost, m);
        lam_model_free(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(made_up_chains),
        cmocka_unit_test(all_is_told_as_before),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
