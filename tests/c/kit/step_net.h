/* SPDX-License-Identifier: Apache-2.0
 *
 * One step of a small model, with times that are known, and files for recordings. */
#ifndef LAMINA_TEST_STEP_NET_H
#define LAMINA_TEST_STEP_NET_H

#include "kit/net.h"

#include <fts.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    STEP_ROOT_SELF = 100,
    STEP_FIRST = 1000,
    STEP_SECOND = 400,
    STEP_BACK_SECOND = 700,
    STEP_BACK_FIRST = 1500
};

static int32_t step_call(net *n, int32_t module, int32_t parent, int64_t t0, int64_t t1, uint32_t flags) {
    static const int64_t sizes[] = {1, 4};
    const lam_arg x = {.position = 0, .dtype = NET_FLOAT32, .device = 0, .ndim = 2, .sizes = sizes};
    lam_call_info c = {.module = module,
                       .parent = parent,
                       .flags = flags,
                       .t0_ns = t0,
                       .t1_ns = t1,
                       .n_in = 1,
                       .n_out = 1,
                       .in = &x,
                       .out = &x};
    int32_t index = -1;
    NET_OK(n, lam_build_call(n->b, &c, &index, &n->e));
    return index;
}

/* Net(first: Linear 4x4, second: Linear 4x2): first takes STEP_FIRST * slow ns and second STEP_SECOND; with
 * `back` a backward pass follows. */
OOM_UNUSED static lam_model *step_model(int64_t slow, bool back) {
    net n = net_new();
    int32_t root = net_module(&n, "Net", LAM_MODULE_TRAINING), a = net_linear(&n, 4, 4),
            b = net_linear(&n, 4, 2);
    int32_t p = net_place(&n, -1, "", root);
    net_place(&n, p, "first", a);
    net_place(&n, p, "second", b);
    int64_t t = 1000000, first = STEP_FIRST * slow;
    int32_t r = step_call(&n, root, -1, t, t + STEP_ROOT_SELF + first + STEP_SECOND, LAM_CALL_TRAINING);
    int32_t one = step_call(&n, a, r, t + 50, t + 50 + first, LAM_CALL_TRAINING);
    int32_t two = step_call(&n, b, r, t + 60 + first, t + 60 + first + STEP_SECOND, LAM_CALL_TRAINING);
    t += 100000 * slow;
    NET_OK(&n, lam_build_timed(n.b, &n.e));
    if (back) {
        NET_OK(&n, lam_build_nodes_seen(n.b, &n.e));
        net_node(&n, "AddmmBackward0", two, t, t + STEP_BACK_SECOND);
        net_node(&n, "AddmmBackward0", one, t + STEP_BACK_SECOND + 5,
                 t + STEP_BACK_SECOND + 5 + STEP_BACK_FIRST);
    }
    return net_done(&n);
}

static struct {
    char path[64];
    pid_t made_by; /* a child that was forked leaves it alone */
} step_folder;

static void step_remove_folder(void) {
    char *const roots[] = {step_folder.path, NULL};
    FTS *all = getpid() == step_folder.made_by ? fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL) : NULL;
    for (FTSENT *at; all && (at = fts_read(all));)
        if (at->fts_info != FTS_D) remove(at->fts_path);
    if (all) fts_close(all);
}

/* A new name in a folder of the test's own, which goes with the test. */
OOM_UNUSED static const char *step_file(const char *name) {
    static char path[8][160];
    static int n;
    if (!step_folder.made_by) {
        snprintf(step_folder.path, sizeof step_folder.path, "%s/lamina_test_XXXXXX", P_tmpdir);
        assert_non_null(mkdtemp(step_folder.path));
        step_folder.made_by = getpid();
        assert_int_equal(atexit(step_remove_folder), 0);
    }
    char *to = path[n++ % 8];
    snprintf(to, sizeof path[0], "%s/%s", step_folder.path, name);
    unlink(to);
    return to;
}

OOM_UNUSED static lam_recorder *step_recorder(const char *file, int32_t rank, int32_t world) {
    lam_error e = {0};
    lam_recorder *r = NULL;
    lam_run_info info = {.command = "python train.py",
                         .host = "here",
                         .torch = "2.13.0",
                         .rank = rank,
                         .world = world,
                         .every = 100,
                         .unix_ns = INT64_C(1700000000000000000)};
    if (lam_recorder_new(&r, file, &info, &e) != LAM_OK) fail_msg("%s: %s", e.where, e.text);
    return r;
}

OOM_UNUSED static void step_put(lam_recorder *r, int64_t number, int64_t slow, bool training) {
    lam_error e = {0};
    lam_model *m = step_model(slow, training);
    lam_step_info info = {.name = "Net",
                          .number = number,
                          .training = training,
                          .gradients = training,
                          .unix_ns = INT64_C(1700000000000000000) + number * 5000000,
                          .t0_ns = 1 + number * 5000000};
    if (lam_recorder_step(r, m, &info, &e) != LAM_OK) fail_msg("%s: %s", e.where, e.text);
}

enum { STEP_CALLS = 3, STEP_NODES = 2 };

/* What step_model() has, without its tree. */
OOM_UNUSED static void step_parts(int64_t slow, lam_call_info calls[STEP_CALLS],
                                  lam_op_info nodes[STEP_NODES]) {
    int64_t t = 1000000, first = STEP_FIRST * slow, back = t + 100000 * slow + STEP_BACK_SECOND;
    static char name[] = "AddmmBackward0";
    calls[0] = (lam_call_info){.parent = -1, .t0_ns = t, .t1_ns = t + STEP_ROOT_SELF + first + STEP_SECOND};
    calls[1] = (lam_call_info){.module = 1, .t0_ns = t + 50, .t1_ns = t + 50 + first};
    calls[2] = (lam_call_info){.module = 2, .t0_ns = t + 60 + first, .t1_ns = t + 60 + first + STEP_SECOND};
    nodes[0] = (lam_op_info){.name = name, .call = 2, .t0_ns = back - STEP_BACK_SECOND, .t1_ns = back};
    nodes[1] = (lam_op_info){.name = name, .call = 1, .t0_ns = back + 5, .t1_ns = back + 5 + STEP_BACK_FIRST};
    for (int i = 0; i < STEP_CALLS; i++) calls[i].flags = LAM_CALL_TRAINING;
    for (int i = 0; i < STEP_NODES; i++) {
        nodes[i].parent = -1;
        nodes[i].phase = LAM_BACKWARD;
        nodes[i].flags = LAM_OP_NODE;
    }
}

/* The same, of which only calls and nodes are handed over. */
OOM_UNUSED static bool put_again(lam_recorder *w, int32_t root, int64_t number, int64_t slow, bool back) {
    lam_call_info calls[STEP_CALLS];
    lam_op_info nodes[STEP_NODES];
    lam_step_info info = {.name = "Net",
                          .root = root,
                          .number = number,
                          .training = back,
                          .gradients = back,
                          .unix_ns = INT64_C(1700000000000000000) + number * 5000000,
                          .t0_ns = 1 + number * 5000000};
    bool known = false;
    step_parts(slow, calls, nodes);
    assert_int_equal(lam_recorder_again(w, &info, calls, STEP_CALLS, nodes, back ? STEP_NODES : -1, &known,
                                        NULL),
                     LAM_OK);
    memset(calls, 0xFF, sizeof calls); /* it was copied */
    memset(nodes, 0xFF, sizeof nodes);
    return known;
}

/* A finished run: steps 0, 100, ..., of which the first is ten times as slow, and one in eval mode. */
OOM_UNUSED static const char *step_recording(const char *name, int32_t rank, int32_t world, int64_t slow) {
    const char *file = step_file(name);
    lam_recorder *r = step_recorder(file, rank, world);
    step_put(r, 0, 10 * slow, true);
    for (int64_t i = 1; i <= 5; i++) step_put(r, 100 * i, slow, true);
    step_put(r, 0, 1, false);
    assert_int_equal(lam_recorder_close(r, NULL), LAM_OK);
    return file;
}

#endif
