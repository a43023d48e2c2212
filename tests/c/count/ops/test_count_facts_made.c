/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts of operators with arguments of any sort, most of which no operator has: what is told of each kind,
 * against a transcript. */
#include "kit/oom.h"

#include "kit/draw.h"
#include "kit/ops_net.h"
#include "kit/shown.h"

#include "count/ops/facts_op.h"

enum { MOST_ARGS = 10, TRIES = 8, FIRST_FACT = LMI_FACT_red };

static int64_t numbers[2 * MOST_ARGS][4];
static lam_op_arg in[MOST_ARGS], out[2];

static void show_line(const char *text) { (void)show_put(NULL, text, strlen(text)); }

static lam_op_arg a_tensor(int32_t position, int64_t *sizes) {
    const int32_t ndim = (int32_t)draw(draw(0, 15) ? 1 : -1, 4);
    for (int32_t i = 0; i < 4; i++) sizes[i] = draw(0, 20) ? draw(1, 4) : 0;
    lam_op_arg a = net_op_tensor(position, sizes, ndim);
    if (draw(0, 7) == 0) a.dtype = 9; /* complex64 */
    return a;
}

static lam_op_arg a_value(int32_t position, int64_t *ints) {
    lam_op_arg a = {.position = position, .dtype = -1, .device = -1, .ndim = -1};
    for (int32_t i = 0; i < 4; i++) ints[i] = draw(0, 9) ? draw(0, 3) : -1;
    switch (draw(0, 7)) {
    case 0: break;
    case 1: a.value = (lam_value){.type = LAM_BOOL, .i = ints[0] > 1}; break;
    case 2: a.value = (lam_value){.type = LAM_FLOAT, .f = 0.5 * (double)ints[0]}; break;
    case 3: a.value = (lam_value){.type = LAM_TEXT, .text = ints[0] > 1 ? "mean" : "tanh"}; break;
    case 4:
    case 5: a.value = (lam_value){.type = LAM_INT, .i = ints[0]}; break;
    default: a.value = (lam_value){.type = LAM_INTS, .n = (int32_t)draw(0, 3), .ints = ints}; break;
    }
    return a;
}

/* The first arguments are mostly tensors, as they mostly are. */
static lam_model *made_up(const char *name) {
    net n = net_new();
    int32_t n_in = 0;
    for (int32_t i = 0; i < MOST_ARGS; i++) {
        if (draw(0, 11) == 0) continue;
        const bool tensor = draw(0, 4 + i) < 5 - i;
        in[n_in] = tensor ? a_tensor(i, numbers[i]) : a_value(i, numbers[i]);
        n_in++;
    }
    const int32_t n_out = (int32_t)draw(draw(0, 9) > 0, 2);
    for (int32_t i = 0; i < n_out; i++) out[i] = a_tensor(i, numbers[MOST_ARGS + i]);
    NET_OK(&n, lam_build_ops_seen(n.b, &n.e));
    net_op_args(&n, name, (op_at){-1, -1, LAM_FORWARD, 0}, in, n_in, out, n_out);
    return net_done(&n);
}

/* What any operator has; of one in four it is told. */
static bool is_common(const char *fact) {
    static const char *const names[] = {"complex", "step",   "pair", "want_x", "want_w",
                                        "want_b",  "sparse", "each", "last"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(fact, names[i]) == 0) return true;
    return strncmp(fact, "arg", 3) == 0 || strstr(fact, "_bytes") || strstr(fact, "_item");
}

static void tell(const char *name, int k) {
    lmi_facts facts;
    char line[96];
    lam_model *m = made_up(name);
    lmi_facts_of_op(m, 0, &facts);
    bool any = false;
    for (int32_t i = FIRST_FACT; i < LMI_N_FACTS; i++) {
        if (!facts.known[i] || (k % 4 && is_common(lam_fact_name(i)))) continue;
        if (!any) snprintf(line, sizeof line, "%s %d:", name + 6, k);
        if (!any) show_line(line);
        any = true;
        snprintf(line, sizeof line, " %s %lld", lam_fact_name(i), (long long)facts.v[i]);
        show_line(line);
    }
    if (any) show_line("\n");
    lam_model_free(m);
}

/* Of each kind the first two names. */
static void all_is_told_as_before(void **state) {
    (void)state;
    const char *name, *kind;
    (void)show_sink();
    for (int32_t word = 0; (name = lam_word_op_name(word)) != NULL; word++) {
        int before = 0;
        if (strncmp(name, "aten::", 6) != 0 || !(kind = lam_word_op_kind(word))) continue;
        for (int32_t other = 0; other < word && before < 2; other++) {
            const char *its = lam_word_op_kind(other);
            before += its && strcmp(its, kind) == 0;
        }
        seed = (uint32_t)lam_word_op(name);
        for (int k = 0; k < TRIES && before < 2; k++) tell(name, k);
    }
    show_golden("op-facts", true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_is_told_as_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
