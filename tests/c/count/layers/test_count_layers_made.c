/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts of layers with attributes, parameters and shapes of any sort, most of which no layer has: what is
 * told of each class, against a transcript. */
#include "kit/oom.h"

#include "kit/draw.h"
#include "kit/net.h"
#include "kit/shown.h"

#include "count/layers/layers.h"

enum { TRIES = 6, FIRST_FACT = LMI_FACT_rank, AXES = 5 };

static void show_line(const char *text) { (void)show_put(NULL, text, strlen(text)); }

static int32_t a_shape(int64_t sizes[AXES]) {
    for (int32_t i = 0; i < AXES; i++) sizes[i] = draw(0, 20) ? draw(1, 6) : 0;
    return (int32_t)draw(draw(0, 15) ? 1 : -1, AXES);
}

static void an_attribute(net *n, int32_t module, const char *name) {
    int64_t ints[3];
    lam_value v = {.type = LAM_NONE};
    for (int32_t i = 0; i < 3; i++) ints[i] = draw(0, 9) ? draw(1, 4) : draw(-1, 0);
    switch (draw(0, 8)) {
    case 0: break;
    case 1:
    case 2: v = (lam_value){.type = LAM_BOOL, .i = ints[0] > 2}; break;
    case 3: v = (lam_value){.type = LAM_FLOAT, .f = 0.5 * (double)ints[0]}; break;
    case 4: v = (lam_value){.type = LAM_TEXT, .text = ints[0] > 2 ? "same" : "mean"}; break;
    case 5: v = (lam_value){.type = LAM_INTS, .n = (int32_t)draw(0, 3), .ints = ints}; break;
    default: v = (lam_value){.type = LAM_INT, .i = ints[0]}; break;
    }
    NET_OK(n, lam_build_attr(n->b, module, name, &v, &n->e));
}

static lam_model *made_up(int32_t word) {
    static const char *const owned[] = {"weight",       "bias",         "in_proj_weight", "weight_ih_l0",
                                        "weight_hh_l0", "running_mean", "running_var"};
    net n = net_new();
    const bool trains = draw(0, 1);
    const int32_t module = net_module(&n, lam_word_name(word), trains ? LAM_MODULE_TRAINING : 0);
    int64_t x[2][AXES], y[AXES];
    const char *name;
    for (int32_t i = 0; (name = lam_word_attr(word, i)) != NULL; i++)
        if (draw(0, 9)) an_attribute(&n, module, name);
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) {
        if (draw(0, 1)) continue;
        const int32_t ndim = a_shape(x[0]);
        NET_OK(&n, lam_build_owns(n.b, module, owned[i], net_tensor(&n, true, x[0], ndim), i > 4, &n.e));
    }
    net_place(&n, -1, "", module);
    lam_arg in[2] = {{.dtype = NET_FLOAT32, .sizes = x[0]},
                     {.dtype = NET_FLOAT32, .sizes = x[1], .position = 1}},
            out = {.dtype = NET_FLOAT32, .sizes = y};
    for (int32_t i = 0; i < 2; i++) in[i].ndim = a_shape(x[i]);
    out.ndim = a_shape(y);
    lam_call_info c = {.module = module, .parent = -1, .flags = trains ? LAM_CALL_TRAINING : 0};
    c.n_in = (int32_t)draw(draw(0, 9) > 0, 2);
    c.n_out = draw(0, 9) > 0;
    c.in = in;
    c.out = &out;
    NET_OK(&n, lam_build_call(n.b, &c, NULL, &n.e));
    return net_done(&n);
}

static void tell(int32_t word, int k) {
    lmi_facts facts;
    char line[96];
    lam_model *m = made_up(word);
    lmi_facts_of(m, 0, &facts);
    snprintf(line, sizeof line, "%s %d:", lam_word_name(word), k);
    show_line(line);
    for (int32_t i = FIRST_FACT; i < LMI_N_FACTS; i++) {
        if (!facts.known[i] || lam_fact_name(i)[1] <= '9') continue; /* no sizes of axes */
        snprintf(line, sizeof line, " %s %lld", lam_fact_name(i), (long long)facts.v[i]);
        show_line(line);
    }
    show_line("\n");
    lam_model_free(m);
}

/* Of each kind the first two classes. */
static void all_is_told_as_before(void **state) {
    (void)state;
    const char *kind;
    (void)show_sink();
    for (int32_t word = 0; lam_word_name(word) != NULL; word++) {
        int before = 0;
        if (!(kind = lam_word_kind(word))) continue;
        for (int32_t other = 0; other < word && before < 2; other++) {
            const char *its = lam_word_kind(other);
            before += its && strcmp(its, kind) == 0;
        }
        seed = 77 + (uint32_t)word;
        for (int k = 0; k < TRIES && before < 2; k++) tell(word, k);
    }
    show_golden("layer-facts", true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_is_told_as_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
