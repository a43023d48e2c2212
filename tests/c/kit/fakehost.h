/* SPDX-License-Identifier: Apache-2.0
 *
 * A host for lam_command whose live side builds small models and whose streams are kept. */
#ifndef LAMINA_TEST_FAKEHOST_H
#define LAMINA_TEST_FAKEHOST_H

#include "kit/ops_net.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct stream {
    char text[1 << 18];
    size_t n;
    int fails_with; /* errno; 0: never */
} stream;

static stream fake_out, fake_err;
static int fake_lives;         /* how often a model was asked for */
static lam_live fake_asked;    /* the last request; its pointers are the command's */
static char fake_request[512]; /* that as text */

OOM_UNUSED static lam_status fake_put(void *to, const char *bytes, size_t n) {
    stream *s = to;
    if (s->fails_with) {
        errno = s->fails_with;
        return LAM_IO;
    }
    if (s->n + n >= sizeof s->text) return LAM_IO;
    memcpy(s->text + s->n, bytes, n);
    s->n += n;
    s->text[s->n] = '\0';
    return LAM_OK;
}

static void fake_note(const lam_live *what) {
    char *s = fake_request;
    size_t left = sizeof fake_request;
    fake_lives++;
    fake_asked = *what;
    int n = snprintf(s, left, "%s mode=%s", what->target, what->mode ? what->mode : "-");
    for (int32_t i = 0; what->inputs[i]; i++)
        n += snprintf(s + n, left - (size_t)n, " -i %s", what->inputs[i]);
    if (what->ops) n += snprintf(s + n, left - (size_t)n, " ops");
    if (what->backward) n += snprintf(s + n, left - (size_t)n, " backward");
    for (int32_t i = 0; what->build[i]; i++) n += snprintf(s + n, left - (size_t)n, " %s", what->build[i]);
}

static lam_status fake_fail(lam_error *e, const char *where, const char *text) {
    if (e->status == LAM_OK) {
        e->status = LAM_FAILED;
        snprintf(e->where, sizeof e->where, "%s", where);
        snprintf(e->text, sizeof e->text, "%s", text);
    }
    return LAM_FAILED;
}

/* Sequential(0: Linear, 1: Linear) that raised in its second layer. */
static lam_model *fake_partial(void) {
    net n = net_new();
    int32_t root = net_module(&n, "Sequential", 0), a = net_linear(&n, 2, 3), b = net_linear(&n, 4, 1);
    int32_t p = net_place(&n, -1, "", root);
    net_place(&n, p, "0", a);
    net_place(&n, p, "1", b);
    int32_t r = net_call_flags(&n, root, -1, LAM_CALL_FAILED, SH(1, 2), 1, SH(1, 2), 0);
    net_call(&n, a, r, SH(1, 2), 1, SH(1, 3), 2);
    net_call_flags(&n, b, r, LAM_CALL_FAILED, SH(1, 3), 2, SH(1, 1), 0);
    return net_done(&n);
}

/* A model whose costs can be chosen: a Linear of `params` weights without a bias, a convolution of window
 * `window` with `conv_out` outputs, a Tanh of `tanh_in` elements and an average pool of `pool_out`
 * outputs. */
static lam_model *fake_sized(int64_t params, int64_t window, int64_t conv_out, int64_t tanh_in,
                             int64_t pool_out) {
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), fc = net_leaf(&n, "Linear"), act = net_leaf(&n, "Tanh");
    int32_t pool = net_pool(&n, "AvgPool2d", 1, 1), conv = net_leaf(&n, "Conv1d");
    net_int(&n, fc, "in_features", 1000);
    net_int(&n, fc, "out_features", params / 1000);
    net_param(&n, fc, "weight", SH(params / 1000, 1000));
    net_ints(&n, conv, "kernel_size", SH(window));
    net_int(&n, conv, "in_channels", 1);
    net_int(&n, conv, "out_channels", 1);
    net_int(&n, conv, "groups", 1);
    net_param(&n, conv, "weight", SH(1, 1, window));
    int32_t p = net_place(&n, -1, "", root);
    net_place(&n, p, "fc", fc);
    net_place(&n, p, "conv", conv);
    net_place(&n, p, "act", act);
    net_place(&n, p, "pool", pool);
    int32_t r = net_call(&n, root, -1, SH(1, 1000), 0, SH(1, 1), 0);
    net_call(&n, fc, r, SH(1, 1000), 0, SH(1, params / 1000), 0);
    if (conv_out) net_call(&n, conv, r, SH(1, 1, conv_out), 0, SH(1, 1, conv_out), 0);
    if (tanh_in) net_call(&n, act, r, SH(1, tanh_in), 0, SH(1, tanh_in), 0);
    if (pool_out) net_call(&n, pool, r, SH(1, 1, 1, pool_out), 0, SH(1, 1, 1, pool_out), 0);
    return net_done(&n);
}

/* A layer of two products and of `idle` operators without work, the first of them twice. */
static lam_model *fake_idle(int32_t idle) {
    static const char *const names[] = {"aten::clone",  "aten::flip", "aten::roll",
                                        "aten::stack",  "aten::tril", "aten::triu",
                                        "aten::gather", "aten::cat",  "aten::index_select"};
    net n = net_new();
    int32_t root = net_leaf(&n, "Layer");
    net_place(&n, -1, "", root);
    const op_at at = {net_call(&n, root, -1, SH(2, 3), 0, SH(2, 4), 0), -1, LAM_FORWARD, 0};
    net_mm(&n, at, 2, 3, 4);
    net_mm(&n, at, 2, 4, 4);
    const lam_op_arg t[] = {T(0, 2, 4)};
    for (int32_t i = -1; i < idle; i++) net_op_args(&n, names[i < 0 ? 0 : i], at, t, 1, t, 1);
    return net_done(&n);
}

/* What the published tables know; any other torchvision model is one that nobody published. */
static lam_model *fake_torchvision(const char *name) {
    if (strcmp(name, "shufflenet_v2_x0_5") == 0) return fake_sized(1370000, 10, 4200000, 1000000, 0);
    if (strcmp(name, "mobilenet_v2") == 0) return fake_sized(3500000, 30, 10300000, 2500000, 0);
    if (strcmp(name, "squeezenet1_0") == 0) return fake_sized(1250000, 1, 0, 0, 408840000);
    if (strcmp(name, "alexnet") == 0) return fake_sized(7000, 1, 0, 0, 0);
    return NULL;
}

static lam_status fake_build(const lam_live *what, lam_model **out, lam_error *e) {
    const char *t = what->target;
    if (strncmp(t, "torchvision.models:", 19) == 0) {
        *out = fake_torchvision(t + 19);
        return *out ? LAM_OK : fake_fail(e, t, "this torchvision has no such model");
    }
    if (strcmp(t, "m:partial") == 0) {
        *out = fake_partial();
        return fake_fail(e, "1", "mat1 and mat2 shapes cannot be multiplied");
    }
    if (strcmp(t, "m:broken") == 0) return fake_fail(e, t, "the module m has no name broken");
    if (strcmp(t, "m:two") == 0) *out = net_two_parents(false);
    if (strcmp(t, "m:step") == 0) *out = net_step();
    if (strncmp(t, "m:idle", 6) == 0) *out = fake_idle(t[6] - '0');
    return LAM_OK;
}

/* The test's own allocations are none of the library's. */
OOM_UNUSED static lam_status fake_live(void *self, const lam_live *what, lam_model **out, lam_error *e) {
    int64_t seen = oom_seen, fail_at = oom_fail_at;
    bool injected = oom_injected;
    (void)self;
    oom_fail_at = -1;
    fake_note(what);
    lam_status s = fake_build(what, out, e);
    oom_seen = seen;
    oom_fail_at = fail_at;
    oom_injected = injected;
    return s;
}

static lam_status fake_roof(void *self, const char *dtype, int32_t device, lam_peak *out, lam_error *e) {
    (void)self, (void)dtype, (void)device, (void)e;
    *out = (lam_peak){2e9, 4e9};
    return LAM_OK;
}

/* A row a line, with its depth, below the layout and the format. */
static lam_status fake_lay_out(void *self, const lam_costs *c, const lam_report_options *o, lam_sink to,
                               lam_error *e) {
    char line[128];
    const lam_model *m = lam_costs_model(c);
    int n = snprintf(line, sizeof line, "%s %s%s\n", o->layout, o->format, o->receptive_field ? " rf" : "");
    lam_status s = to.put(to.to, line, (size_t)n);
    (void)self, (void)e;
    for (int32_t i = 0; s == LAM_OK && i < lam_costs_n_rows(c); i++) {
        const lam_cost_row *row = lam_costs_row(c, i);
        n = snprintf(line, sizeof line, "%d %s\n", (int)row->depth, lam_model_place(m, row->place)->path);
        s = to.put(to.to, line, (size_t)n);
    }
    return s;
}

OOM_UNUSED static lam_host fake_host(void) {
    memset(&fake_out, 0, sizeof fake_out);
    memset(&fake_err, 0, sizeof fake_err);
    fake_lives = 0;
    return (lam_host){.out = {fake_put, &fake_out},
                      .err = {fake_put, &fake_err},
                      .out_is_utf8 = true,
                      .live = fake_live,
                      .roof = fake_roof,
                      .lay_out = fake_lay_out};
}

/* Runs `lamina a b c`; the words are separated by blanks. */
OOM_UNUSED static int fake_run(const lam_host *host, const char *line) {
    static char words[1024];
    const char *argv[64] = {"lamina"};
    int argc = 1;
    snprintf(words, sizeof words, "%s", line);
    for (char *s = strtok(words, " "); s && argc < 64; s = strtok(NULL, " ")) argv[argc++] = s;
    return lam_command(argc, argv, host);
}

OOM_UNUSED static int lamina(const char *line) {
    lam_host h = fake_host();
    return fake_run(&h, line);
}

static void fake_has(const char *what, const char *text, const char *part) {
    if (!strstr(text, part)) fail_msg("%s lacks '%s':\n%s", what, part, text);
}
#define OUT_HAS(part)  fake_has("the output", fake_out.text, part)
#define ERR_HAS(part)  fake_has("the error stream", fake_err.text, part)
#define OUT_IS_EMPTY() assert_string_equal(fake_out.text, "")
#define ERR_IS_EMPTY() assert_string_equal(fake_err.text, "")

/* For oom_sweep: what a row's receptive field needs is asked for again where memory ran out the first time,
 * so a line may succeed after a refusal. */
OOM_UNUSED static void run_again(void *line, bool *ok) {
    int code = lamina(line);
    *ok = code == 0 && !oom_injected;
    if (code == 0) return;
    assert_int_equal(code, 4);
    ERR_HAS("memory ran out");
}

#endif
