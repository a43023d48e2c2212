/* SPDX-License-Identifier: Apache-2.0
 *
 * What `--strict` finds, of operators and of layers, rules that a model's code registers, and which numbers
 * `why` leaves out. */
#include "kit/oom.h"

#include "kit/net.h"

#include "kit/fakehost.h"

/* Net(a: Snake, b: Snake, c: Swish): classes that no table knows. */
static lam_model *strange(void) {
    static const char *const names[] = {"a", "b", "c"}, *const types[] = {"Snake", "Snake", "Swish"};
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), p = net_place(&n, -1, "", root);
    int32_t r = net_call(&n, root, -1, SH(1, 4), 0, SH(1, 4), 0);
    for (int i = 0; i < 3; i++) {
        int32_t layer = net_leaf(&n, types[i]);
        net_place(&n, p, names[i], layer);
        net_call(&n, layer, r, SH(1, 4), 0, SH(1, 4), 0);
    }
    return net_done(&n);
}

/* Net, whose attention looks at no later key. */
static lam_model *masked(void) {
    net n = net_new();
    net_calls k = net_plain(&n);
    lam_op_arg in[] = {T(0, 1, 1, 3, 2), T(1, 1, 1, 3, 2), T(2, 1, 1, 3, 2), T_UNSEEN(5)};
    const lam_op_arg out[] = {T(0, 1, 1, 3, 2)};
    in[3].is_tensor = false;
    in[3].value = (lam_value){.type = LAM_BOOL, .i = 1};
    net_op_args(&n, "aten::scaled_dot_product_attention", (op_at){k.fc, -1, LAM_FORWARD, 0}, in, 4, out, 1);
    return net_done(&n);
}

static lam_status live(void *self, const lam_live *what, lam_model **out, lam_error *e) {
    *out = strcmp(what->target, "m:strange") == 0  ? strange()
           : strcmp(what->target, "m:masked") == 0 ? masked()
                                                   : NULL;
    return *out ? LAM_OK : fake_live(self, what, out, e);
}

static int run(const char *line) {
    lam_host h = fake_host();
    h.live = live;
    return fake_run(&h, line);
}

static void strict_names_layers_too(void **state) {
    (void)state;
    assert_int_equal(run("m:strange -c layers"), 0);
    assert_int_equal(run("m:strange -c layers --strict"), 1);
    ERR_HAS("no rule for the layer Snake (2 calls)");
    ERR_HAS("no rule for the layer Swish (1 call)");
    assert_int_equal(run("m:two -c layers --strict"), 0);
    ERR_IS_EMPTY();
}

/* Effective counts are told where they are not the dense ones. */
static void effective_counts_that_differ(void **state) {
    (void)state;
    assert_int_equal(run("why m:step fc -c exact"), 0);
    OUT_HAS("  MACs                    24 = ");
    assert_null(strstr(fake_out.text, "eff. MACs"));
    assert_int_equal(run("why m:masked fc -c exact"), 0);
    OUT_HAS("  eff. MACs               24 = ");
}

/* What the code of a model registers: formulas for Snake, and a function for Swish. */
static lam_status registered(void *self, lam_rules *to, lam_error *e) {
    (void)self;
    const char *const snake[LAM_N_METRICS] = {[LAM_MACS] = "in", [LAM_FLOPS] = "in", [LAM_DMAS] = "in"};
    const char *const swish[LAM_N_METRICS] = {[LAM_FLOPS] = "0", [LAM_DMAS] = "0"};
    lam_status s = lam_rules_add(to, "Snake", snake, false, e);
    return s == LAM_OK ? lam_rules_add(to, "Swish", swish, true, e) : s;
}

static bool answer(void *self, const lam_model *m, int32_t op, int32_t event, const char *name,
                   lam_count out[LAM_N_METRICS]) {
    (void)self, (void)m, (void)op, (void)event;
    out[LAM_MACS] = (lam_count){.n = 70};
    return strcmp(name, "Swish") == 0;
}

static lam_status broken(void *self, lam_rules *to, lam_error *e) {
    (void)self, (void)to;
    return fake_fail(e, "Snake", "its rule is malformed");
}

static int run_with(lam_status (*rules)(void *, lam_rules *, lam_error *), const char *line) {
    lam_host h = fake_host();
    h.live = live;
    h.rules = rules;
    h.ask = answer;
    return fake_run(&h, line);
}

static void what_the_model_registers_counts(void **state) {
    (void)state;
    assert_int_equal(run_with(registered, "m:strange -c layers --strict"), 0);
    OUT_HAS("78 MACs"); /* twice 4, and 70 */
    ERR_IS_EMPTY();
    assert_int_equal(run_with(broken, "m:strange -c layers"), 3);
    ERR_HAS("Snake: its rule is malformed");
    assert_int_equal(run_with(broken, "m:partial -c layers"), 3);
    ERR_HAS("mat1 and mat2"); /* why the run failed says more */
    assert_null(strstr(fake_err.text, "malformed"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strict_names_layers_too),
        cmocka_unit_test(effective_counts_that_differ),
        cmocka_unit_test(what_the_model_registers_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
