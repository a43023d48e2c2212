/* SPDX-License-Identifier: Apache-2.0
 *
 * `lamina fit` and `lamina graph`: what they ask of the host, what they print, and what they say where either
 * fails; and prose in lines as wide as the terminal. */
#include "kit/oom.h"

#include "kit/net.h"

#include "kit/fakehost.h"
#include "kit/ops_net.h"
#include "kit/pages.h"

static void took(net *n, int64_t bytes, int32_t made, int32_t freed) {
    const lam_lifetime l = {bytes, made, freed, LAM_TAKEN_TENSOR, -1};
    NET_OK(n, lam_build_lifetime(n->b, &l, &n->e));
}

/* Net(fc, act, mine) of ops_net.h: its memory in a forward, or in a step of an optimizer. */
static lam_model *followed(bool step, const char *optimizer) {
    net n = net_new();
    net_calls c = net_plain(&n);
    net_mm(&n, (op_at){c.fc, -1, LAM_FORWARD, 0}, 2, 3, 4);
    net_relu(&n, (op_at){c.act, -1, LAM_FORWARD, 0}, 8);
    if (step) net_mm(&n, (op_at){c.fc, -1, LAM_BACKWARD, 0}, 3, 2, 4);
    took(&n, 1000, 0, 1);
    took(&n, 2000, 1, -1);
    if (step) took(&n, 164, 2, -1);
    const lam_lifetime state = {344, -1, -1, LAM_TAKEN_STATE, 0};
    if (optimizer) NET_OK(&n, lam_build_lifetime(n.b, &state, &n.e));
    if (optimizer) NET_OK(&n, lam_build_step(n.b, *optimizer ? optimizer : "adamw", 2 + step, false, &n.e));
    return net_done(&n);
}

static lam_live asked[2]; /* of the two runs of one command */

/* m:fits; m:frozen, whose step has no backward; m:raises and m:trains_not, of which the forward or the step
 * raises; m:blind, which is not followed; m:drawn. */
static lam_status build(void *self, const lam_live *what, lam_model **out, lam_error *e) {
    const char *t = what->target;
    (void)self;
    asked[fake_lives++ % 2] = *what;
    if (what->optimizer && strcmp(what->optimizer, "adm") == 0) return fake_fail(e, "", "no optimizer 'adm'");
    if (strcmp(t, "m:raises") == 0) return fake_fail(e, "fc", "it raised");
    if (strcmp(t, "m:trains_not") == 0 && what->backward) return fake_fail(e, "fc", "the backward raised");
    if (strcmp(t, "m:blind") == 0 || strcmp(t, "m:two") == 0)
        *out = net_two_parents(false);
    else if (strcmp(t, "m:drawn") == 0 || strcmp(t, "m:half") == 0)
        *out = net_residual();
    else
        *out =
            followed(what->backward && strcmp(t, "m:frozen") != 0, what->backward ? what->optimizer : NULL);
    return strcmp(t, "m:half") == 0 ? fake_fail(e, "fc", "it raised in the end") : LAM_OK;
}

static lam_status live(void *self, const lam_live *what, lam_model **out, lam_error *e) {
    int64_t seen = oom_seen, fail_at = oom_fail_at;
    bool injected = oom_injected;
    oom_fail_at = -1;
    lam_status s = build(self, what, out, e);
    oom_seen = seen;
    oom_fail_at = fail_at;
    oom_injected = injected;
    return s;
}

static int run(const char *line) {
    lam_host h = fake_host();
    h.live = live;
    return fake_run(&h, line);
}

static void both_runs_are_asked_for(void **state) {
    (void)state;
    assert_int_equal(run("fit m:fits --batch 4 --dtype float16 -i 1,3"), 0);
    assert_int_equal(fake_lives, 2);
    for (int i = 0; i < 2; i++) {
        assert_true(asked[i].ops && asked[i].dry && asked[i].follow);
        assert_int_equal(asked[i].batch, 4);
        assert_null(asked[i].inputs[1]);
    }
    assert_true(!asked[0].backward && asked[1].backward);
    OUT_HAS("forward");
    OUT_HAS("training step");
    OUT_HAS("adamw");
    ERR_IS_EMPTY();
    for (int i = 0; i < 2; i++) assert_string_equal(asked[i].optimizer, "");
    assert_int_equal(run("fit m:fits --optimizer sgd --exact"), 0);
    OUT_HAS("sgd");
    assert_string_equal(asked[1].optimizer, "sgd");
    assert_int_equal(asked[0].batch, 0); /* as the inputs are */
    assert_int_equal(run("fit m:fits --format json"), 0);
    OUT_HAS("\"forward\":{\"peak\":3188");
    OUT_HAS("\"step\":{\"peak\":3532");
}

static void the_forward_alone(void **state) {
    (void)state;
    assert_int_equal(run("fit m:fits --no-step"), 0);
    assert_int_equal(fake_lives, 1);
    assert_false(asked[0].backward);
    assert_null(asked[0].optimizer);
    OUT_HAS("forward pass");
    assert_null(strstr(fake_out.text, "training step"));
    assert_int_equal(run("fit m:fits --no-step --format json"), 0);
    OUT_HAS("\"step\":null");
    assert_int_equal(run("fit m:fits --no-step --optimizer sgd"), 2);
    ERR_HAS("leave it or --optimizer out");
    assert_int_equal(fake_lives, 0);
}

static void a_model_that_is_not_trained(void **state) {
    (void)state;
    assert_int_equal(run("fit m:frozen"), 0);
    OUT_HAS("no training step: no parameter gets a gradient from the output\n");
    assert_int_equal(run("fit m:frozen --format json"), 0);
    OUT_HAS("\"step\":null");
    assert_null(strstr(fake_out.text, "no training step"));
}

static void what_goes_wrong_is_said(void **state) {
    (void)state;
    assert_int_equal(run("fit m:fits --optimizer adm"), 3);
    ERR_HAS("no optimizer 'adm'");
    assert_int_equal(fake_lives, 1);
    assert_int_equal(run("fit m:raises"), 3);
    ERR_HAS("it raised");
    OUT_IS_EMPTY();
    assert_int_equal(fake_lives, 1);
    /* The forward's peak is told although the step has none. */
    assert_int_equal(run("fit m:trains_not"), 3);
    OUT_HAS("forward");
    ERR_HAS("the backward raised");
    assert_int_equal(run("fit m:blind"), 2);
    ERR_HAS("no memory was followed");
    assert_int_equal(run("fit m:fits --format md"), 2);
    ERR_HAS("md");
}

static void an_output_that_fails(void **state) {
    (void)state;
    lam_host h = fake_host();
    h.live = live;
    fake_out.fails_with = ENOSPC;
    assert_int_not_equal(fake_run(&h, "fit m:fits"), 0);
    h = fake_host();
    h.live = live;
    fake_out.fails_with = ENOSPC;
    assert_int_not_equal(fake_run(&h, "graph m:drawn"), 0);
}

static void graphs_are_drawn(void **state) {
    (void)state;
    assert_int_equal(run("graph m:drawn"), 0);
    assert_true(asked[0].ops);
    OUT_HAS("digraph");
    OUT_HAS("conv");
    assert_null(strstr(fake_out.text, "aten::relu"));
    assert_int_equal(run("graph m:drawn --ops"), 0);
    OUT_HAS("relu");
    assert_int_equal(run("graph m:half"), 3); /* what there is is drawn */
    OUT_HAS("digraph");
    ERR_HAS("it raised in the end");
    assert_int_equal(run("graph m:raises"), 3);
    OUT_IS_EMPTY();
    assert_int_equal(run("graph m:two"), 2);
    ERR_HAS("operators");
}

static lam_status doctor(void *self, lam_sink to, lam_error *e) {
    static const char text[] =
        "operators: observed; the layout of torch's records was found, and checked with "
        "operators that are known\ncapture: wor";
    (void)self, (void)e;
    lam_status s = to.put(to.to, text, sizeof text - 1);
    return s == LAM_OK ? to.put(to.to, "ks\n", 3) : s;
}

static void prose_fits_a_terminal(void **state) {
    (void)state;
    static const char *const lines[] = {"rules exact", "rules layers", "conventions",    "doctor",
                                        "fit m:fits",  "fit m:frozen", "why m:two a.fc", "why m:two ."};
    static char wide[sizeof fake_out.text];
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        for (int32_t width = 0; width <= 140; width += width < 20 ? 20 : 3) {
            lam_host h = fake_host();
            h.live = live;
            h.doctor = doctor;
            h.width = i == 3 ? 0 : width; /* it tells the width */
            assert_int_equal(fake_run(&h, lines[i]), 0);
            if (width == 0) memcpy(wide, fake_out.text, sizeof wide);
            page_same_words(wide, fake_out.text, true);
            if (h.width) page_fits(fake_out.text, (size_t)width, true);
        }
    }
    lam_host h = fake_host();
    h.doctor = doctor;
    h.width = 60;
    assert_int_equal(fake_run(&h, "doctor"), 0);
    OUT_HAS("operators: observed; the layout of torch's records was\n  found, and checked with operators "
            "that are "
            "known\ncapture: works\n");
    h.width = 30;
    assert_int_equal(fake_run(&h, "conventions"), 0);
    OUT_HAS("layers       multiplies and\n             adds of each\n             layer type,\n");
}

/* What is read by programs, and files, have lines as long as they come. */
static void only_prose_for_eyes_is_broken(void **state) {
    (void)state;
    lam_host h = fake_host();
    h.live = live;
    h.width = 20;
    assert_int_equal(fake_run(&h, "fit m:fits --format json"), 0);
    assert_ptr_equal(strchr(fake_out.text, '\n') + 1, fake_out.text + fake_out.n);
    assert_int_equal(fake_run(&h, "why m:two a.fc -f -o test_cmd_fit.out"), 0);
    FILE *f = fopen("test_cmd_fit.out", "rb");
    assert_non_null(f);
    static char text[1 << 14];
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    remove("test_cmd_fit.out");
    assert_non_null(strstr(text, "elements of the first input\n"));
}

/* Every refusal is an exit code other than 0, and no output that ends early is called whole. */
static void try_line(void *arg, bool *ok) {
    lam_host h = fake_host();
    h.live = live;
    *ok = fake_run(&h, arg) == 0;
}

static void memory_may_run_out(void **state) {
    (void)state;
    static char fit[] = "fit m:fits", graph[] = "graph m:drawn";
    oom_sweep(try_line, fit);
    oom_sweep(try_line, graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_runs_are_asked_for),     cmocka_unit_test(the_forward_alone),
        cmocka_unit_test(a_model_that_is_not_trained), cmocka_unit_test(what_goes_wrong_is_said),
        cmocka_unit_test(an_output_that_fails),        cmocka_unit_test(graphs_are_drawn),
        cmocka_unit_test(prose_fits_a_terminal),       cmocka_unit_test(only_prose_for_eyes_is_broken),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
