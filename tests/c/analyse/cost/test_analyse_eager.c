/* SPDX-License-Identifier: Apache-2.0
 *
 * Effective counts of an attention that a program writes as products around a softmax: 2 heads of 3 queries
 * and 5 keys, 4 wide, and values that are 6 wide. */
#include "kit/oom.h"

#include "kit/ops_net.h"

#include <float.h>
#include <math.h>

enum { SCORES = 2 * 3 * 5, BEFORE = SCORES * 4, AFTER = SCORES * 6 };
enum { QUERIES = 1, KEYS = 2, VALUES = 3, MADE = 10, MASKED = 20, JOINED = 30, WEIGHTS = 40, OUT = 50 };

typedef struct written {
    net n;
    op_at at;
    lam_model *m;
    lam_costs *c;
} written;

/* Mine(inner), whose call computes an attention. */
static written begin(void) {
    written w = {.n = net_new()};
    const int32_t root = net_module(&w.n, "Mine", 0);
    net_place(&w.n, -1, "", root);
    const int32_t r = net_call(&w.n, root, -1, SH(2, 3, 4), 0, SH(2, 3, 6), 0);
    w.at = (op_at){r, -1, LAM_FORWARD, 0};
    return w;
}

static void op1(written *w, const char *name, lam_op_arg in, lam_op_arg out) {
    net_op_args(&w->n, name, w->at, IN(in), OUT(out));
}

static void op2(written *w, const char *name, lam_op_arg a, lam_op_arg b, lam_op_arg out) {
    net_op_args(&w->n, name, w->at, IN(a, b), OUT(out));
}

/* An argument whose values were read: `open` are no -Inf, in `rows` of its rows. */
static lam_op_arg read_as(lam_op_arg a, int64_t open, int64_t rows) {
    a.masks = true;
    a.open = open;
    a.open_rows = rows;
    return a;
}

static void scores(written *w) {
    op2(w, "aten::bmm", D(0, QUERIES, 2, 3, 4), D(1, KEYS, 2, 4, 5), D(0, MADE, 2, 3, 5));
}

static void weigh(written *w, lam_op_arg given) {
    op2(w, "aten::_softmax", given, N(1, -1), D(0, WEIGHTS, 2, 3, 5));
    op2(w, "aten::bmm", D(0, WEIGHTS, 2, 3, 5), D(1, VALUES, 2, 5, 6), D(0, OUT, 2, 3, 6));
}

static void end(written *w, int64_t effective, lam_state state) {
    w->m = net_done(&w->n);
    w->c = net_costs(w->m, "exact", false);
    net_expect(lam_costs_total(w->c, LAM_MACS), BEFORE + AFTER, LAM_EXACT);
    net_expect(lam_costs_total(w->c, LAM_EFFECTIVE_MACS), effective, state);
}

static void drop(written *w) {
    lam_costs_free(w->c);
    lam_model_free(w->m);
}

static int64_t left(int64_t open) { return open * 4 + open * 6; }

/* What the softmax is given was read. */
static void a_softmax_whose_scores_were_read_tells_which_are_hidden(void **state) {
    (void)state;
    written w = begin();
    scores(&w);
    op2(&w, "aten::add", D(0, MADE, 2, 3, 5), T(1, 3, 5), D(0, MASKED, 2, 3, 5));
    weigh(&w, read_as(D(0, MASKED, 2, 3, 5), 18, 6));
    end(&w, left(18), LAM_EXACT);
    /* One addition for each of them, and of a softmax 3 for each, less one a row. */
    net_expect(lam_costs_total(w.c, LAM_EFFECTIVE_FLOPS), 2 * left(18) + 18 + 3 * 18 - 6, LAM_EXACT);
    drop(&w);
}

/* In a dry run the softmax's values are not known, and the mask's may be: it is repeated over the heads. */
static void a_mask_that_is_added_tells_the_same(void **state) {
    (void)state;
    written w = begin();
    scores(&w);
    op2(&w, "aten::mul", D(0, MADE, 2, 3, 5), T(1, 1), D(0, MASKED, 2, 3, 5));
    op2(&w, "aten::add", D(0, MASKED, 2, 3, 5), read_as(T(1, 3, 5), 9, 3), D(0, MASKED + 1, 2, 3, 5));
    weigh(&w, D(0, MASKED + 1, 2, 3, 5));
    end(&w, left(18), LAM_EXACT);
    drop(&w);
}

static void without_a_mask_no_score_is_hidden(void **state) {
    (void)state;
    written w = begin();
    scores(&w);
    op2(&w, "aten::div", D(0, MADE, 2, 3, 5), T(1, 1), D(0, MASKED, 2, 3, 5));
    weigh(&w, D(0, MASKED, 2, 3, 5));
    end(&w, left(SCORES), LAM_EXACT);
    drop(&w);
    w = begin();
    scores(&w);
    weigh(&w, read_as(D(0, MADE, 2, 3, 5), SCORES, 6));
    end(&w, left(SCORES), LAM_EXACT);
    drop(&w);
}

/* A mask whose values nobody knows, one that is not added, two of them, or one of other sizes. */
static void what_an_unknown_mask_hides_is_not_known(void **state) {
    (void)state;
    for (int which = 0; which < 4; which++) {
        written w = begin();
        scores(&w);
        const lam_op_arg unread = T(1, 3, 5), column = T(1, 3, 1);
        const lam_op_arg mask = which == 0   ? unread
                                : which == 3 ? read_as(column, 2, 2)
                                             : read_as(unread, 9, 3);
        op2(&w, which == 1 ? "aten::mul" : "aten::add", D(0, MADE, 2, 3, 5), mask, D(0, MASKED, 2, 3, 5));
        if (which == 2)
            op2(&w, "aten::add", D(0, MASKED, 2, 3, 5), read_as(T(1, 3, 5), 9, 3), D(0, MASKED + 1, 2, 3, 5));
        weigh(&w, D(0, which == 2 ? MASKED + 1 : MASKED, 2, 3, 5));
        end(&w, 0, LAM_UNKNOWN);
        drop(&w);
    }
}

/* A bool mask names what is hidden, if a number that softmax gives no weight is filled in. How many rows it
 * leaves is not known, and so no FLOPs of the softmax. */
static void a_mask_by_which_scores_are_filled_tells_the_rest(void **state) {
    (void)state;
    written w;
    const double values[] = {-INFINITY, -FLT_MAX, -1e9};
    for (int i = 0; i < 3; i++) {
        const lam_op_arg by = {.position = 2,
                               .dtype = -1,
                               .device = -1,
                               .ndim = -1,
                               .value = {.type = LAM_FLOAT, .f = values[i]}};
        w = begin();
        scores(&w);
        net_op_args(&w.n, "aten::masked_fill", w.at, IN(D(0, MADE, 2, 3, 5), read_as(T(1, 3, 5), 6, 2), by),
                    OUT(D(0, MASKED, 2, 3, 5)));
        weigh(&w, D(0, MASKED, 2, 3, 5));
        end(&w, i < 2 ? left(18) : 0, i < 2 ? LAM_EXACT : LAM_UNKNOWN);
        if (i < 2) assert_int_equal(lam_costs_total(w.c, LAM_EFFECTIVE_FLOPS).state, LAM_AT_LEAST);
        drop(&w);
    }
}

/* A bias of positions is added, by the product or after it, and hides nothing: the mask does. */
static void a_bias_that_hides_nothing_is_no_mask(void **state) {
    (void)state;
    for (int in_product = 0; in_product < 2; in_product++)
        for (int known = 0; known < 2; known++) {
            written w = begin();
            const lam_op_arg raw = T(0, 2, 1, 5), bias = known ? read_as(raw, 10, 2) : raw;
            if (in_product) {
                net_op_args(&w.n, "aten::baddbmm", w.at,
                            IN(bias, D(1, QUERIES, 2, 3, 4), D(2, KEYS, 2, 4, 5)), OUT(D(0, MADE, 2, 3, 5)));
            } else {
                lam_op_arg second = bias;
                second.position = 1;
                op2(&w, "aten::bmm", D(0, QUERIES, 2, 3, 4), D(1, KEYS, 2, 4, 5), D(0, MADE + 1, 2, 3, 5));
                op2(&w, "aten::add", D(0, MADE + 1, 2, 3, 5), second, D(0, MADE, 2, 3, 5));
            }
            op2(&w, "aten::add", D(0, MADE, 2, 3, 5), read_as(T(1, 3, 5), 9, 3), D(0, MASKED, 2, 3, 5));
            weigh(&w, D(0, MASKED, 2, 3, 5));
            end(&w, known ? left(18) : 0, known ? LAM_EXACT : LAM_UNKNOWN);
            drop(&w);
        }
}

/* A sink: a score for each query that is no key's. It is open, and its weight is dropped. */
static void a_sink_beside_the_scores_is_open(void **state) {
    (void)state;
    written w = begin();
    scores(&w);
    op2(&w, "aten::add", D(0, MADE, 2, 3, 5), read_as(T(1, 3, 5), 9, 3), D(0, MASKED, 2, 3, 5));
    op2(&w, "aten::cat", D(0, MASKED, 2, 3, 5), D(0, JOINED, 2, 3, 1), D(0, JOINED + 1, 2, 3, 6));
    op1(&w, "aten::_softmax", D(0, JOINED + 1, 2, 3, 6), D(0, WEIGHTS, 2, 3, 6));
    op1(&w, "aten::slice", D(0, WEIGHTS, 2, 3, 6), V(0, WEIGHTS + 1, WEIGHTS, 2, 3, 5));
    op2(&w, "aten::bmm", V(0, WEIGHTS + 1, WEIGHTS, 2, 3, 5), D(1, VALUES, 2, 5, 6), D(0, OUT, 2, 3, 6));
    end(&w, left(18), LAM_EXACT);
    drop(&w);
}

/* Weights that no product takes are no attention's, as those of a router. */
static void a_softmax_of_no_attention_hides_nothing(void **state) {
    (void)state;
    written w = begin();
    scores(&w);
    op1(&w, "aten::_softmax", read_as(D(0, MADE, 2, 3, 5), 18, 6), D(0, WEIGHTS, 2, 3, 5));
    op2(&w, "aten::bmm", D(0, MADE, 2, 3, 5), D(1, VALUES, 2, 5, 6), D(0, OUT, 2, 3, 6));
    end(&w, left(SCORES), LAM_EXACT);
    drop(&w);
}

/* Weights of scores that no product made: how many of them are hidden was read, or it is not known. */
static void scores_that_come_from_elsewhere_are_those_of_the_softmax(void **state) {
    (void)state;
    for (int known = 0; known < 2; known++) {
        written w = begin();
        scores(&w);
        const lam_op_arg given = D(0, 99, 2, 3, 5);
        weigh(&w, known ? read_as(given, 18, 6) : given);
        end(&w, known ? BEFORE + 18 * 6 : BEFORE, known ? LAM_EXACT : LAM_AT_LEAST);
        drop(&w);
    }
}

/* The gradient of a softmax hides what that hid, and so do the products around it. */
static void a_backward_pass_hides_the_same(void **state) {
    (void)state;
    written w = begin();
    scores(&w);
    weigh(&w, read_as(D(0, MADE, 2, 3, 5), 18, 6));
    w.at.phase = LAM_BACKWARD;
    op2(&w, "aten::bmm", D(0, 60, 2, 3, 6), D(1, 61, 2, 6, 5), D(0, 62, 2, 3, 5));
    op2(&w, "aten::_softmax_backward_data", D(0, 62, 2, 3, 5), D(1, WEIGHTS, 2, 3, 5), D(0, 63, 2, 3, 5));
    op2(&w, "aten::bmm", D(0, 63, 2, 3, 5), D(1, 64, 2, 5, 4), D(0, 65, 2, 3, 4));
    end(&w, left(18), LAM_EXACT);
    net_expect(lam_costs_phase_total(w.c, LAM_BACKWARD, LAM_MACS), SCORES * 6 + SCORES * 4, LAM_EXACT);
    net_expect(lam_costs_phase_total(w.c, LAM_BACKWARD, LAM_EFFECTIVE_MACS), left(18), LAM_EXACT);
    drop(&w);
}

static void memory_may_run_out_while_scores_are_looked_for(void **state) {
    (void)state;
    written w = begin();
    scores(&w);
    op2(&w, "aten::add", D(0, MADE, 2, 3, 5), read_as(T(1, 3, 5), 9, 3), D(0, MASKED, 2, 3, 5));
    weigh(&w, D(0, MASKED, 2, 3, 5));
    w.m = net_done(&w.n);
    oom_sweep(net_try_costs, &(net_costing){w.m, "exact", false});
    lam_model_free(w.m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_softmax_whose_scores_were_read_tells_which_are_hidden),
        cmocka_unit_test(a_mask_that_is_added_tells_the_same),
        cmocka_unit_test(without_a_mask_no_score_is_hidden),
        cmocka_unit_test(what_an_unknown_mask_hides_is_not_known),
        cmocka_unit_test(a_mask_by_which_scores_are_filled_tells_the_rest),
        cmocka_unit_test(a_bias_that_hides_nothing_is_no_mask),
        cmocka_unit_test(a_sink_beside_the_scores_is_open),
        cmocka_unit_test(a_softmax_of_no_attention_hides_nothing),
        cmocka_unit_test(scores_that_come_from_elsewhere_are_those_of_the_softmax),
        cmocka_unit_test(a_backward_pass_hides_the_same),
        cmocka_unit_test(memory_may_run_out_while_scores_are_looked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
