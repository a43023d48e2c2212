/* SPDX-License-Identifier: Apache-2.0
 *
 * The last end of groups whose values were not read: from the operators that computed it. */
#include "kit/oom.h"

#include "kit/ops_net.h"

enum { INT32 = 3, INT64 = 4, CHOSEN = 20, EXPERTS = 4 };

static net n;
static uint64_t made;

/* The tensor that the last operator gave as its result `nth`. */
static lam_op_arg last(int32_t position, int32_t nth, const int64_t *sizes, int32_t ndim) {
    lam_op_arg a = net_op_tensor(position, sizes, ndim);
    a.storage = a.object = made * 8 + (uint64_t)nth;
    return a;
}
#define LAST(nth, ...) last(0, nth, SH(__VA_ARGS__))

static lam_op_arg number(int32_t position, int64_t v) {
    return (lam_op_arg){.position = position, .value = {.type = LAM_INT, .i = v}};
}

static void run(const char *name, const lam_op_arg *in, int32_t n_in, lam_op_arg *out, int32_t n_out) {
    made++;
    for (int32_t i = 0; i < n_out; i++) {
        out[i].position = i;
        out[i].storage = out[i].object = made * 8 + (uint64_t)i;
    }
    net_op_args(&n, name, (op_at){-1, -1, LAM_FORWARD, 0}, in, n_in, out, n_out);
}

static void start(void) {
    n = net_new();
    net_place(&n, -1, "", net_module(&n, "Net", 0));
    made = 100;
}

/* Indices of the chosen two of `experts` for ten tokens. */
static void choose(const char *name, int64_t experts) {
    bool all = strcmp(name, "aten::sort") == 0; /* its axis is at 1, after no number */
    const lam_op_arg in[] = {T(0, 10, experts), number(1, all ? 1 : 2), number(2, all ? 0 : -1)};
    lam_op_arg out[] = {T(0, 10, 2), T(1, 10, 2)};
    run(name, in, 3, out, 2);
}

static void move(const char *name, int32_t nth) {
    const lam_op_arg in[] = {LAST(nth, CHOSEN)};
    lam_op_arg out[] = {T(0, CHOSEN)};
    run(name, in, 1, out, 1);
}

static void count_them(const char *name, double high) {
    lam_op_arg in[] = {LAST(0, CHOSEN), number(1, EXPERTS), number(2, 0), number(3, 0)};
    in[3].value = (lam_value){.type = LAM_FLOAT, .f = high};
    lam_op_arg out[] = {T(0, EXPERTS)};
    run(name, in, strcmp(name, "aten::histc") == 0 ? 4 : 2, out, 1);
}

static void add_up(const char *name) {
    const lam_op_arg in[] = {LAST(0, EXPERTS), number(1, 0)};
    lam_op_arg out[] = {T(0, EXPERTS)};
    run(name, in, 2, out, 1);
}

/* The product of 24 rows whose ends are the last result: its MACs a row are 4 x 8. */
static void rows_are(int64_t rows) {
    const lam_op_arg in[] = {T(0, 24, 4), T(1, EXPERTS, 4, 8), last(2, 0, SH(EXPERTS))};
    lam_op_arg out[] = {T(0, 24, 8)};
    run("aten::_grouped_mm", in, 3, out, 1);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "exact", false);
    lam_count macs[LAM_N_METRICS];
    assert_int_equal(lam_costs_op(c, lam_model_n_ops(m) - 1, macs, NULL, NULL), LAM_OK);
    assert_int_equal(macs[LAM_MACS].state, rows < 0 ? LAM_UNKNOWN : LAM_EXACT);
    if (rows >= 0) assert_int_equal(macs[LAM_MACS].n, rows * 4 * 8);
    if (rows < 0)
        assert_string_equal(lam_costs_gap(c, 0), "the operator aten::_grouped_mm: where its groups end are "
                                                 "values that were not read (1 run, at most 768 MACs)");
    if (rows > 0)
        assert_string_equal(lam_costs_gap(c, 0), "the operator aten::_grouped_mm: which of its groups are "
                                                 "empty, and so what it reads, was not seen (1 run)");
    lam_costs_free(c);
    lam_model_free(m);
}

/* What a mixture of experts does before its products. */
static void histograms(void **state) {
    (void)state;
    start();
    choose("aten::topk", EXPERTS);
    move("aten::reshape", 1);
    move("aten::sort", 0);
    move("aten::to", 0);
    count_them("aten::histc", EXPERTS - 1);
    add_up("aten::cumsum");
    add_up("aten::to");
    rows_are(CHOSEN);
    start();
    choose("aten::sort", EXPERTS);
    move("aten::transpose", 1);
    count_them("aten::histc", EXPERTS);
    add_up("aten::cumsum");
    rows_are(CHOSEN);
    start();
    choose("aten::topk", EXPERTS);
    move("aten::flatten", 1);
    count_them("aten::bincount", 0);
    add_up("aten::cumsum");
    rows_are(CHOSEN);
}

static void not_all_are_counted(void **state) {
    (void)state;
    start(); /* more experts than places of the histogram */
    choose("aten::topk", EXPERTS + 1);
    move("aten::view", 1);
    count_them("aten::histc", EXPERTS - 1);
    add_up("aten::cumsum");
    rows_are(-1);
    start(); /* the values, not the indices */
    choose("aten::topk", EXPERTS);
    move("aten::view", 0);
    count_them("aten::histc", EXPERTS - 1);
    add_up("aten::cumsum");
    rows_are(-1);
    start(); /* indices that were changed */
    choose("aten::topk", EXPERTS);
    move("aten::add", 1);
    count_them("aten::histc", EXPERTS - 1);
    add_up("aten::cumsum");
    rows_are(-1);
    start(); /* no histogram */
    choose("aten::topk", EXPERTS);
    add_up("aten::cumsum");
    rows_are(-1);
    start(); /* ends that were changed */
    choose("aten::topk", EXPERTS);
    move("aten::view", 1);
    count_them("aten::histc", EXPERTS - 1);
    add_up("aten::cumsum");
    move("aten::add", 0);
    rows_are(-1);
    start(); /* no running sum */
    choose("aten::topk", EXPERTS);
    move("aten::view", 1);
    count_them("aten::histc", EXPERTS - 1);
    rows_are(-1);
    start(); /* nothing is known of the ends */
    rows_are(-1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(histograms),
        cmocka_unit_test(not_all_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
