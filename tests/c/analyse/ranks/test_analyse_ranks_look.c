/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank, a node or all layers of a run beside their peers. */
#include "kit/ranked.h"

#include "analyse/ranks/ranks.h"

static lam_ranks *looked(const ranked *of, lam_ranks_look what) {
    lam_error e = {.at = -1};
    lam_ranks *r = ranked_judged(of, NULL, &e);
    if (!r || lam_ranks_look_at(r, &what, ranked_layers, (void *)of, &e) != LAM_OK)
        fail_msg("%s: %s", e.where, e.text);
    return r;
}

static lam_ranks_look rank_of(int64_t rank) { return (lam_ranks_look){.rank = rank}; }
static lam_ranks_look node_of(const char *node) {
    return (lam_ranks_look){.rank = LAM_NOT_KNOWN, .node = node};
}

static const char *layer_at(const lam_ranks *r, int32_t i) { return r->look.layers[i].name; }

static ranked slow_run(void) {
    ranked of = ranked_run();
    of.slow = 11;
    of.more_us = 20000;
    of.from = 48;
    of.layer = "blocks.0.mlp";
    return of;
}

static void test_a_late_rank_stands_beside_its_peers(void **state) {
    (void)state;
    const ranked of = slow_run();
    lam_ranks *r = looked(&of, rank_of(11));
    const lmi_look *k = &r->look;
    assert_int_equal(k->n_ranks, 1);
    assert_int_equal(k->n_peers, 15);
    assert_true(k->alike);
    assert_int_equal(k->n_late, 1);
    assert_int_equal(k->since_step, 4800);
    assert_true(k->late > 0.15 && k->late < 0.25);
    assert_true(k->last_in >= 48);
    assert_int_equal(k->n_rows, 2);
    const double more = k->rows[1].of[LMI_US_BACKWARD] - k->rows[0].of[LMI_US_BACKWARD];
    assert_true(more > 19000 && more < 21000);
    assert_true(fabs(k->rows[1].of[LMI_US_INPUT] / k->rows[0].of[LMI_US_INPUT] - 1) < 0.02);
    assert_int_equal(k->n_layers, 3);
    assert_string_equal(layer_at(r, 0), "blocks.0.mlp");
    assert_true(k->layers[0].own - k->layers[0].peer == 20000);
    assert_true(k->wins[0].late < 0.02 && k->wins[r->n_wins - 1].late > 0.15);
    lam_ranks_free(r);
}

static void test_a_rank_like_all_others_is_not_late(void **state) {
    (void)state;
    const ranked of = slow_run();
    lam_ranks *r = looked(&of, rank_of(2));
    assert_int_equal(r->look.when.n, 0);
    assert_int_equal(r->look.n_late, 0);
    assert_int_equal(r->look.since_step, LAM_NOT_KNOWN);
    assert_true(fabs(r->look.late) < 0.01);
    lam_ranks_free(r);
}

static void test_a_node_has_a_row_for_each_rank(void **state) {
    (void)state;
    const ranked of = slow_run();
    lam_ranks *r = looked(&of, node_of("n01"));
    const lmi_look *k = &r->look;
    assert_int_equal(k->n_ranks, 8);
    assert_int_equal(k->n_peers, 8);
    assert_int_equal(k->n_late, 1);
    assert_int_equal(k->n_rows, 10);
    assert_true(k->rows[1].rank < 0 && k->rows[1].node >= 0);
    for (int32_t i = 2; i < k->n_rows; i++) assert_int_equal(k->rows[i].rank, 6 + i);
    lam_ranks_free(r);
}

static void test_peers_have_the_same_layers_or_are_all_others(void **state) {
    (void)state;
    ranked of = slow_run();
    of.trees = 2;
    lam_ranks *r = looked(&of, rank_of(3));
    assert_int_equal(r->look.n_peers, 7);
    assert_true(r->look.alike);
    lam_ranks_free(r);
    of.trees = 16;
    r = looked(&of, rank_of(3));
    assert_int_equal(r->look.n_peers, 15);
    assert_false(r->look.alike);
    lam_ranks_free(r);
}

/* Each layer of four ranks. */
static lam_status all_layers(void *self, const lam_layers_wanted *w, lam_ranks *to, lam_error *e) {
    static const char *const names[] = {"a", "b", "c"};
    lam_status s = LAM_OK;
    (void)self;
    if (w->n_ranks) return LAM_OK; /* the verdict's own question */
    for (int32_t rank = 0; rank < 4; rank++)
        for (int k = 0; s == LAM_OK && k < 3; k++) {
            const double own = k == 2 ? NAN : 100 + (rank == 1 + k ? 10 * (k + 1) : 0);
            s = lam_ranks_add_layer(to, &(lam_rank_layer){rank, own, 100, names[k]}, e);
        }
    return s;
}

static void test_all_layers_are_told_by_their_slowest_rank(void **state) {
    (void)state;
    const ranked of = ranked_run();
    lam_error e = {.at = -1};
    lam_ranks *r = ranked_judged(&of, NULL, &e);
    const lam_ranks_look what = {.rank = LAM_NOT_KNOWN, .layers = true};
    assert_int_equal(lam_ranks_look_at(r, &what, all_layers, NULL, &e), LAM_OK);
    assert_int_equal(r->look.n_layers, 3);
    assert_string_equal(layer_at(r, 0), "b");
    assert_int_equal(r->look.layers[0].rank, 2);
    assert_string_equal(layer_at(r, 1), "a");
    assert_int_equal(r->look.layers[1].rank, 1);
    assert_string_equal(layer_at(r, 2), "c"); /* unknown comes last, and is not 0 */
    assert_true(isnan(r->look.layers[2].own));
    assert_int_equal(r->layers.n, 0); /* what was asked for a look is no part of the verdict */
    lam_ranks_free(r);
}

static void test_a_run_of_few_steps_can_be_looked_at(void **state) {
    (void)state;
    ranked of = ranked_run();
    of.steps = 12;
    lam_ranks *r = looked(&of, rank_of(3));
    assert_true(isnan(r->look.late));
    assert_true(r->look.rows[1].of[LMI_US_OWN] > 0);
    lam_ranks_free(r);
}

static void refused(lam_ranks *r, lam_ranks_look what, lam_status status, const char *says) {
    lam_error e = {.at = -1};
    assert_int_equal(lam_ranks_look_at(r, &what, NULL, NULL, &e), status);
    if (!strstr(e.text, says)) fail_msg("'%s' is not in '%s'", says, e.text);
}

static void test_what_is_not_there_is_told_with_what_is(void **state) {
    (void)state;
    ranked of = ranked_run();
    of.ranks = 40;
    of.missing = 5;
    lam_error e = {.at = -1};
    lam_ranks *r = ranked_judged(&of, NULL, &e);
    refused(r, rank_of(40), LAM_RANGE, "there is no rank 40 in this run: its ranks are 0..39");
    refused(r, rank_of(INT64_C(1) << 40), LAM_RANGE, "its ranks are 0..39");
    refused(r, rank_of(37), LAM_RANGE,
            "rank 37 of this run has no recorded steps that can be compared; 0..34 have");
    refused(r, node_of("n1"), LAM_RANGE, "there is no node 'n1' in this run; nearest are: n01, n00, n02");
    refused(r, node_of(""), LAM_RANGE, "there is no node ''");
    refused(r, (lam_ranks_look){.rank = 1, .layers = true}, LAM_USAGE, "a rank, at a node, or at all layers");
    refused(r, (lam_ranks_look){.rank = LAM_NOT_KNOWN}, LAM_USAGE, "a rank, at a node, or at all layers");
    assert_int_equal(lam_ranks_look_at(r, &(lam_ranks_look){.rank = 1}, NULL, NULL, &e), LAM_OK);
    assert_false(r->look.has_layers);
    refused(r, rank_of(1), LAM_USAGE, "it looks once");
    lam_ranks_free(r);
}

static void test_ranks_are_told_as_ranges(void **state) {
    static const struct {
        int32_t v[16], n;
        const char *text;
    } cases[] = {
        {{0}, 0, ""},
        {{5}, 1, "5"},
        {{5, 6}, 2, "5..6"},
        {{1, 3, 4, 5, 9}, 5, "1, 3..5, 9"},
        {{0, 2, 4, 6, 8, 10, 12, 13}, 8, "0, 2, 4, 6, 8, 10 and 2 more"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lmi_buf b;
        lmi_buf_init(&b);
        lmi_put_ranges(&b, cases[i].v, cases[i].n);
        assert_string_equal(lmi_buf_text(&b), cases[i].text);
        lmi_buf_free(&b);
    }
}

static void look_short(void *arg, bool *ok) {
    ranked *of = arg;
    lam_error e = {.at = -1};
    lam_ranks *r = ranked_judged(of, NULL, &e);
    lam_status s = r ? LAM_OK : e.status;
    if (r) s = lam_ranks_look_at(r, &(lam_ranks_look){LAM_NOT_KNOWN, "n01", false}, ranked_layers, of, &e);
    *ok = oom_check(s, &e);
    lam_ranks_free(r);
}

static void test_memory_that_runs_out_is_told(void **state) {
    (void)state;
    ranked of = slow_run();
    of.ranks = 8;
    of.per_node = 2;
    of.steps = 24;
    of.slow = 3;
    of.from = 0;
    oom_sweep(look_short, &of);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_late_rank_stands_beside_its_peers),
        cmocka_unit_test(test_a_rank_like_all_others_is_not_late),
        cmocka_unit_test(test_a_node_has_a_row_for_each_rank),
        cmocka_unit_test(test_peers_have_the_same_layers_or_are_all_others),
        cmocka_unit_test(test_all_layers_are_told_by_their_slowest_rank),
        cmocka_unit_test(test_a_run_of_few_steps_can_be_looked_at),
        cmocka_unit_test(test_what_is_not_there_is_told_with_what_is),
        cmocka_unit_test(test_ranks_are_told_as_ranges),
        cmocka_unit_test(test_memory_that_runs_out_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
