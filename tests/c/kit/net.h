/* SPDX-License-Identifier: Apache-2.0
 *
 * Small models for tests, pushed through the public builder as a live source would. */
#ifndef LAMINA_TEST_NET_H
#define LAMINA_TEST_NET_H

#include "kit/oom.h"

#include <stdio.h>
#include <string.h>

typedef struct net {
    lam_builder *b;
    lam_error e;
} net;

/* Sizes of a shape as two arguments: the array and how many. */
#define SH(...) (const int64_t[]){__VA_ARGS__}, (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

enum { NET_FLOAT32 = 6, NET_INT64 = 4 };

#define NET_OK(n, call)                                                                                      \
    do {                                                                                                     \
        lam_status net_s_ = (call);                                                                          \
        if (net_s_ != LAM_OK) fail_msg("%s: %s", #call, (n)->e.text);                                        \
    } while (0)

OOM_UNUSED static net net_new(void) {
    net n = {0};
    NET_OK(&n, lam_builder_new(&n.b, 0, &n.e));
    return n;
}

OOM_UNUSED static lam_model *net_done(net *n) {
    lam_model *m = NULL;
    NET_OK(n, lam_builder_finish(n->b, &m, &n->e));
    return m;
}

/* A module of a torch.nn class, or of a user's own where `type` is no word. */
OOM_UNUSED static int32_t net_module(net *n, const char *type, uint32_t flags) {
    char path[96];
    int32_t index = -1, word = lam_word_module(type);
    snprintf(path, sizeof path, "%s.%s", word >= 0 ? "torch.nn" : "user", type);
    lam_module_info info = {.type = type, .type_path = path, .word = word, .flags = flags};
    if (word >= 0) info.flags |= LAM_MODULE_EXACT;
    NET_OK(n, lam_build_module(n->b, &info, &index, &n->e));
    return index;
}

/* A subclass called `type` of the torch.nn class `base`. */
OOM_UNUSED static int32_t net_subclass(net *n, const char *type, const char *base, uint32_t flags) {
    int32_t index = -1;
    lam_module_info info = {.type = type, .type_path = type, .word = lam_word_module(base), .flags = flags};
    NET_OK(n, lam_build_module(n->b, &info, &index, &n->e));
    return index;
}

OOM_UNUSED static int32_t net_place(net *n, int32_t parent, const char *name, int32_t module) {
    int32_t index = -1;
    NET_OK(n, lam_build_place(n->b, parent, name, module, &index, &n->e));
    return index;
}

OOM_UNUSED static void net_int(net *n, int32_t module, const char *name, int64_t value) {
    lam_value v = {.type = LAM_INT, .i = value};
    NET_OK(n, lam_build_attr(n->b, module, name, &v, &n->e));
}

OOM_UNUSED static void net_bool(net *n, int32_t module, const char *name, bool value) {
    lam_value v = {.type = LAM_BOOL, .i = value};
    NET_OK(n, lam_build_attr(n->b, module, name, &v, &n->e));
}

OOM_UNUSED static void net_ints(net *n, int32_t module, const char *name, const int64_t *ints,
                                int32_t count) {
    lam_value v = {.type = LAM_INTS, .n = count, .ints = ints};
    NET_OK(n, lam_build_attr(n->b, module, name, &v, &n->e));
}

OOM_UNUSED static void net_text(net *n, int32_t module, const char *name, const char *text) {
    lam_value v = {.type = LAM_TEXT, .text = text};
    NET_OK(n, lam_build_attr(n->b, module, name, &v, &n->e));
}

OOM_UNUSED static int32_t net_tensor(net *n, bool grad, const int64_t *sizes, int32_t ndim) {
    int32_t index = -1;
    lam_tensor_info t = {
        .dtype = NET_FLOAT32, .ndim = ndim, .sizes = sizes, .bytes = -1, .requires_grad = grad};
    NET_OK(n, lam_build_tensor(n->b, &t, &index, &n->e));
    return index;
}

OOM_UNUSED static void net_owns(net *n, int32_t module, const char *name, int32_t tensor) {
    NET_OK(n, lam_build_owns(n->b, module, name, tensor, false, &n->e));
}

OOM_UNUSED static void net_param(net *n, int32_t module, const char *name, const int64_t *sizes,
                                 int32_t ndim) {
    net_owns(n, module, name, net_tensor(n, true, sizes, ndim));
}

OOM_UNUSED static void net_buffer(net *n, int32_t module, const char *name, const int64_t *sizes,
                                  int32_t ndim) {
    NET_OK(n, lam_build_owns(n->b, module, name, net_tensor(n, false, sizes, ndim), true, &n->e));
}

/* -- layers ------------------------------------------------------------------------------------ */

OOM_UNUSED static int32_t net_leaf(net *n, const char *type) { return net_module(n, type, LAM_MODULE_LEAF); }

OOM_UNUSED static int32_t net_linear(net *n, int64_t in, int64_t out) {
    int32_t m = net_leaf(n, "Linear");
    net_int(n, m, "in_features", in);
    net_int(n, m, "out_features", out);
    net_param(n, m, "weight", SH(out, in));
    net_param(n, m, "bias", SH(out));
    return m;
}

/* Conv1d, Conv2d, ConvTranspose2d, ... of `rank` axes, square, with a bias. */
OOM_UNUSED static int32_t net_conv(net *n, const char *type, int32_t rank, int64_t in, int64_t out, int64_t k,
                                   int64_t stride, int64_t pad) {
    const int64_t ks[] = {k, k, k}, ss[] = {stride, stride, stride}, ps[] = {pad, pad, pad}, ds[] = {1, 1, 1};
    bool transposed = strstr(type, "Transpose") != NULL;
    const int64_t w[] = {transposed ? in : out, transposed ? out : in, k, k, k};
    int32_t m = net_leaf(n, type);
    net_ints(n, m, "kernel_size", ks, rank);
    net_ints(n, m, "stride", ss, rank);
    net_ints(n, m, "padding", ps, rank);
    net_ints(n, m, "dilation", ds, rank);
    net_int(n, m, "groups", 1);
    net_int(n, m, "in_channels", in);
    net_int(n, m, "out_channels", out);
    net_param(n, m, "weight", w, rank + 2);
    net_param(n, m, "bias", SH(out));
    return m;
}

OOM_UNUSED static int32_t net_pool(net *n, const char *type, int64_t k, int64_t stride) {
    int32_t m = net_leaf(n, type);
    net_int(n, m, "kernel_size", k);
    net_int(n, m, "stride", stride);
    net_int(n, m, "padding", 0);
    net_int(n, m, "dilation", 1);
    return m;
}

/* -- calls ------------------------------------------------------------------------------------- */

/* One float32 tensor in, one out; `from` and `to` are the identities of their data, 0 unknown. */
OOM_UNUSED static int32_t net_call_flags(net *n, int32_t module, int32_t parent, uint32_t flags,
                                         const int64_t *in, int32_t n_in, uint64_t from, const int64_t *out,
                                         int32_t n_out, uint64_t to) {
    int32_t index = -1;
    lam_arg x = {NULL, 0, NET_FLOAT32, 0, n_in, in, from, 0, 0};
    lam_arg y = {NULL, 0, NET_FLOAT32, 0, n_out, out, to, 0, 0};
    lam_call_info c = {.module = module, .parent = parent, .flags = flags, .n_in = 1, .in = &x};
    if (!(flags & LAM_CALL_FAILED)) {
        c.n_out = 1;
        c.out = &y;
    }
    NET_OK(n, lam_build_call(n->b, &c, &index, &n->e));
    return index;
}

#define net_call(n, module, parent, ...) net_call_flags(n, module, parent, 0, __VA_ARGS__)

/* A node of a call's backward, with times that are known. */
OOM_UNUSED static int32_t net_node(net *n, const char *name, int32_t call, int64_t t0, int64_t t1) {
    int32_t index = -1;
    const lam_op_info o = {.name = name,
                           .call = call,
                           .parent = -1,
                           .phase = LAM_BACKWARD,
                           .flags = LAM_OP_NODE,
                           .t0_ns = t0,
                           .t1_ns = t1,
                           .pass = 1};
    NET_OK(n, lam_build_op(n->b, &o, &index, &n->e));
    return index;
}

/* -- times --------------------------------------------------------------------------------------- */

/* Net(a: Linear, b: Linear): modules 0, 1, 2, places 0, 1, 2. */
OOM_UNUSED static net timed_layers(void) {
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), a = net_linear(&n, 3, 4), b = net_linear(&n, 4, 5);
    int32_t p = net_place(&n, -1, "", root);
    net_place(&n, p, "a", a);
    net_place(&n, p, "b", b);
    return n;
}

OOM_UNUSED static int32_t timed_call(net *n, int32_t module, int32_t parent, int64_t t0, int64_t t1,
                                     uint32_t flags) {
    int32_t index = -1;
    lam_call_info c = {.module = module, .parent = parent, .flags = flags, .t0_ns = t0, .t1_ns = t1};
    NET_OK(n, lam_build_call(n->b, &c, &index, &n->e));
    return index;
}

/* -- whole models ------------------------------------------------------------------------------ */

/* Sequential(a: Sequential(fc, act), b: Sequential(fc, act)), the two fc one object: torchscan's
 * shared_two_parents. With `tied`, two Linear that share a weight instead. */
OOM_UNUSED static lam_model *net_two_parents(bool tied) {
    net n = net_new();
    int32_t root = net_module(&n, "Sequential", 0), a = net_module(&n, "Sequential", 0);
    int32_t b = net_module(&n, "Sequential", 0), fc = net_leaf(&n, "Linear"), fc2 = fc;
    int32_t act_a = net_leaf(&n, "ReLU"), act_b = net_leaf(&n, "ReLU"), w = net_tensor(&n, true, SH(4, 4));
    net_int(&n, fc, "in_features", 4);
    net_int(&n, fc, "out_features", 4);
    net_owns(&n, fc, "weight", w);
    net_param(&n, fc, "bias", SH(4));
    if (tied) {
        fc2 = net_leaf(&n, "Linear");
        net_int(&n, fc2, "in_features", 4);
        net_int(&n, fc2, "out_features", 4);
        net_owns(&n, fc2, "weight", w);
        net_param(&n, fc2, "bias", SH(4));
    }
    net_bool(&n, act_a, "inplace", false);
    net_bool(&n, act_b, "inplace", false);
    int32_t p = net_place(&n, -1, "", root), pa = net_place(&n, p, "a", a);
    net_place(&n, pa, "fc", fc);
    net_place(&n, pa, "act", act_a);
    int32_t pb = net_place(&n, p, "b", b);
    net_place(&n, pb, "fc", fc2);
    net_place(&n, pb, "act", act_b);
    int32_t r = net_call(&n, root, -1, SH(1, 4), 1, SH(1, 4), 5);
    int32_t ca = net_call(&n, a, r, SH(1, 4), 1, SH(1, 4), 3);
    net_call(&n, fc, ca, SH(1, 4), 1, SH(1, 4), 2);
    net_call(&n, act_a, ca, SH(1, 4), 2, SH(1, 4), 3);
    int32_t cb = net_call(&n, b, r, SH(1, 4), 3, SH(1, 4), 5);
    net_call(&n, fc2, cb, SH(1, 4), 3, SH(1, 4), 4);
    net_call(&n, act_b, cb, SH(1, 4), 4, SH(1, 4), 5);
    return net_done(&n);
}

OOM_UNUSED static inline lam_costs *net_costs(const lam_model *m, const char *convention, bool released) {
    lam_costs *c = NULL;
    lam_error e = {0};
    lam_cost_options o = {.convention = convention, .released = released};
    if (lam_costs_new(&c, m, &o, &e) != LAM_OK) fail_msg("lam_costs_new: %s", e.text);
    return c;
}

/* For oom_sweep: the costs of a model. */
typedef struct net_costing {
    const lam_model *model;
    const char *convention;
    bool released;
} net_costing;

OOM_UNUSED static inline void net_try_costs(void *costing, bool *ok) {
    const net_costing *j = costing;
    lam_costs *c = NULL;
    lam_error e = {0};
    lam_cost_options o = {.convention = j->convention, .released = j->released};
    *ok = oom_check(lam_costs_new(&c, j->model, &o, &e), &e);
    lam_costs_free(c);
}

/* The count is exactly this one. */
OOM_UNUSED static inline void net_expect(lam_count got, int64_t n, lam_state state) {
    if (got.n != n || got.over || got.state != state)
        fail_msg("%lld %s, expected %lld %s", (long long)got.n, lam_state_name(got.state), (long long)n,
                 lam_state_name(state));
}

/* The row of a call. */
OOM_UNUSED static inline const lam_cost_row *net_row_of(const lam_costs *c, int32_t event) {
    for (int32_t i = 0; i < lam_costs_n_rows(c); i++)
        if (lam_costs_row(c, i)->event == event) return lam_costs_row(c, i);
    fail_msg("there is no row of event %d", (int)event);
    return NULL;
}

/* True if an operator is counted itself. */
OOM_UNUSED static inline bool net_counted(const lam_costs *c, int32_t op) {
    lam_count n[LAM_N_METRICS];
    bool yes = false;
    assert_int_equal(lam_costs_op(c, op, n, &yes, NULL), LAM_OK);
    return yes;
}

#endif
