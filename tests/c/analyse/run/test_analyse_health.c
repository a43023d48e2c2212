/* SPDX-License-Identifier: Apache-2.0
 *
 * Where NaN and Inf come from, on made-up runs: who gave birth, who passed it on, what is a mask. */
#include "kit/oom.h"

#include "analyse/run/health.h"

/* net calls a, b (which calls b.c and b.d), e. Calls: 0 net, 1 a, 2 b, 3 b.c, 4 b.d, 5 e. */
enum { NET, A, B, C, D, E, N_CALLS };

typedef struct met {
    lam_bad_side side;
    int32_t call, calls;
    int64_t nan, inf, negative;
    const char *name;
    bool fed, gave;
    int32_t from;
    const char *inside;
    int32_t index, origin;
    bool gone, doubt;
    int32_t dtype;
} met;

static const int64_t sizes[] = {2, 3};

static lam_status build_tree(lam_builder *b, bool softmax, lam_error *e) {
    static const char *const names[] = {"", "a", "b", "c", "d", "e"};
    static const int32_t parents[] = {-1, 0, 0, 2, 2, 0};
    int32_t at;
    for (int32_t i = 0; i < N_CALLS; i++) {
        const char *type = i == NET ? "Net" : i == B ? "Block" : i == E && softmax ? "Softmax" : "Layer";
        const lam_module_info mod = {.type = type, .word = lam_word_module(type)};
        LAM_TRY(lam_build_module(b, &mod, &at, e));
        LAM_TRY(lam_build_place(b, parents[i], names[i], i, &at, e));
    }
    for (int32_t i = 0; i < N_CALLS; i++) {
        const lam_arg in[] = {{.position = 0, .dtype = 6, .ndim = 2, .sizes = sizes},
                              {.position = 1, .dtype = 6, .ndim = 2, .sizes = sizes}};
        const lam_arg last[] = {{.position = 0, .dtype = 6, .ndim = 1, .sizes = sizes},
                                {.position = 1, .dtype = 6, .ndim = 0}},
                      unseen = {.dtype = 6, .ndim = -1};
        const lam_call_info call = {.module = i,
                                    .parent = parents[i],
                                    .flags = i == NET ? LAM_CALL_UNSEEN : 0, /* it is not over */
                                    .n_in = 2,
                                    .n_out = 1,
                                    .in = i == E ? last : in,
                                    .out = i == E ? &unseen : in};
        LAM_TRY(lam_build_call(b, &call, &at, e));
    }
    return LAM_OK;
}

static lam_status build(const met *all, int n, bool softmax, bool gradients, lam_model **m, lam_error *e) {
    const lam_checked looked = {.tensors = 12, .bytes = 288, .gradients = gradients};
    lam_builder *b;
    *m = NULL;
    LAM_TRY(lam_builder_new(&b, 0, e));
    lam_status s = build_tree(b, softmax, e);
    if (s == LAM_OK) s = lam_build_checked(b, &looked, e);
    for (int i = 0; s == LAM_OK && i < n; i++) {
        bool back = all[i].side == LAM_BAD_NODE;
        const lam_bad bad = {
            .side = all[i].side,
            .phase = back ? LAM_BACKWARD : LAM_FORWARD,
            .call = all[i].call,
            .calls = all[i].calls,
            .index = all[i].index,
            .fed = all[i].fed,
            .gave = all[i].gave,
            .origin = all[i].origin,
            .gone = all[i].gone,
            .doubt = all[i].doubt,
            .from = back && all[i].fed ? all[i].from : -1,
            .name = all[i].name,
            .inside = all[i].inside,
            .text = all[i].side == LAM_BAD_CHECK ? "too large" : NULL,
            .found = {.nan = all[i].nan, .inf = all[i].inf, .negative = all[i].negative, .first = 4},
            .dtype = all[i].dtype ? all[i].dtype : 6,
            .ndim = 2,
            .sizes = sizes,
        };
        s = lam_build_bad(b, &bad, e);
    }
    if (s == LAM_OK) return lam_builder_finish(b, m, e);
    lam_builder_free(b);
    return s;
}

typedef struct run {
    lam_model *m;
    lam_health *h;
} run;

static run look_at(const met *all, int n, bool softmax) {
    run r = {0};
    lam_error e = {0};
    assert_int_equal(build(all, n, softmax, true, &r.m, &e), LAM_OK);
    assert_int_equal(lam_health_new(&r.h, r.m, &e), LAM_OK);
    return r;
}

static void drop(run *r) {
    lam_health_free(r->h);
    lam_model_free(r->m);
}

#define LOOK(...)                                                                                            \
    look_at((const met[]){__VA_ARGS__}, (int)(sizeof((const met[]){__VA_ARGS__}) / sizeof(met)), false)

static void says(const run *r, const char *text) { assert_string_equal(lam_health_sentence(r->h), text); }

static void nothing(void **state) {
    (void)state;
    run r = look_at(NULL, 0, false);
    says(&r, "no NaN or Inf in 12 tensors");
    assert_null(lam_health_finding(r.h, 0));
    assert_int_equal(lam_health_of(r.h, A, LAM_FORWARD), LAM_HEALTH_FINE);
    assert_int_equal(lam_health_of(r.h, 99, LAM_FORWARD), LAM_HEALTH_UNKNOWN);
    drop(&r);
    lam_error e = {0};
    assert_int_equal(build(NULL, 0, false, false, &r.m, &e), LAM_OK);
    assert_int_equal(lam_health_new(&r.h, r.m, &e), LAM_OK);
    says(&r, "no NaN or Inf in 12 tensors; no gradient was checked");
    assert_int_equal(lam_health_of(r.h, A, LAM_BACKWARD), LAM_HEALTH_UNKNOWN);
    drop(&r);
}

static void in_a_leaf(void **state) {
    (void)state;
    run r = LOOK({.side = LAM_BAD_OUTPUT, .call = C, .calls = 4, .nan = 2},
                 {.side = LAM_BAD_INPUT, .call = D, .calls = 5, .nan = 2},
                 {.side = LAM_BAD_OUTPUT, .call = D, .calls = 5, .nan = 6},
                 {.side = LAM_BAD_OUTPUT, .call = B, .calls = 5, .nan = 6},
                 {.side = LAM_BAD_INPUT, .call = E, .calls = 6, .nan = 6},
                 {.side = LAM_BAD_OUTPUT, .call = E, .calls = 6, .nan = 6},
                 {.side = LAM_BAD_OUTPUT, .call = NET, .calls = 6, .nan = 6});
    says(&r, "NaN first in b.c (Layer), forward call 1: 2 of 6 elements, first at [1, 1]; 2 later layers "
             "pass it on");
    assert_null(lam_health_finding(r.h, 1));
    assert_int_equal(lam_health_of(r.h, C, LAM_FORWARD), LAM_HEALTH_BORN);
    assert_int_equal(lam_health_of(r.h, B, LAM_FORWARD), LAM_HEALTH_PASSED);
    assert_int_equal(lam_health_of(r.h, NET, LAM_FORWARD), LAM_HEALTH_PASSED);
    assert_int_equal(lam_health_of(r.h, A, LAM_FORWARD), LAM_HEALTH_FINE);
    drop(&r);
}

/* Layers that have nothing to do with each other are found each. */
static void in_two_leaves(void **state) {
    (void)state;
    run r = LOOK({.side = LAM_BAD_OUTPUT, .call = A, .calls = 2, .nan = 2},
                 {.side = LAM_BAD_OUTPUT, .call = E, .calls = 6, .nan = 2});
    for (int32_t i = 0; i < 2; i++) {
        assert_int_equal(lam_health_finding(r.h, i)->call, i ? E : A);
        assert_int_equal(lam_health_finding(r.h, i)->times, 1);
    }
    assert_null(lam_health_finding(r.h, 2));
    drop(&r);
}

static void between(void **state) {
    (void)state;
    run r = LOOK({.side = LAM_BAD_INPUT, .call = D, .calls = 5, .inf = 3, .negative = 1},
                 {.side = LAM_BAD_OUTPUT, .call = D, .calls = 5, .nan = 6});
    says(&r, "Inf first in what b (Block) does itself between b.c (Layer) and b.d (Layer), forward call 1: "
             "3 of 6 elements, first at [1, 1]; 1 later layer passes it on");
    assert_int_equal(lam_health_finding(r.h, 0)->before, C);
    assert_int_equal(lam_health_finding(r.h, 0)->after, D);
    drop(&r);
    r = LOOK({.side = LAM_BAD_INPUT, .call = A, .calls = 2, .nan = 1});
    says(&r, "NaN first in what the model (Net) does itself before a (Layer), forward call 1: 1 of 6 "
             "elements, first at [1, 1]");
    drop(&r);
    r = LOOK({.side = LAM_BAD_OUTPUT, .call = B, .calls = 5, .nan = 1, .inf = 2});
    says(&r,
         "NaN first in what b (Block) does itself after b.d (Layer), forward call 1: 1 NaN and 2 Inf of 6 "
         "elements, first at [1, 1]");
    drop(&r);
}

/* An argument that a call wrote to is as a result of its. */
static void written(void **state) {
    (void)state;
    run r = LOOK({LAM_BAD_WRITTEN, C, 4, .nan = 3}, {LAM_BAD_INPUT, E, 6, .nan = 3},
                 {LAM_BAD_OUTPUT, E, 6, .nan = 3}, {LAM_BAD_OUTPUT, NET, 6, .nan = 3});
    says(&r, "NaN first in b.c (Layer), forward call 1: 3 of 6 elements, first at [1, 1]; 1 later layer "
             "passes it on");
    assert_null(lam_health_finding(r.h, 1));
    drop(&r);
    r = LOOK({LAM_BAD_INPUT, C, 4, .nan = 3}, {LAM_BAD_WRITTEN, C, 4, .nan = 3});
    assert_string_equal(lam_health_finding(r.h, 0)->text, lam_health_sentence(r.h));
    assert_int_equal(lam_health_of(r.h, C, LAM_FORWARD), LAM_HEALTH_PASSED);
    drop(&r);
    r = LOOK({LAM_BAD_WRITTEN, C, 4, .inf = 3, .negative = 3},
             {LAM_BAD_INPUT, D, 5, .inf = 3, .negative = 3});
    says(&r, "no NaN or Inf in 12 tensors");
    drop(&r);
}

static void from_outside(void **state) {
    (void)state;
    run r = LOOK({.side = LAM_BAD_INPUT, .call = NET, .calls = 1, .nan = 1},
                 {.side = LAM_BAD_INPUT, .call = A, .calls = 2, .nan = 1},
                 {.side = LAM_BAD_OUTPUT, .call = A, .calls = 2, .nan = 1});
    says(&r, "NaN came in with an input of the model (Net), number 0, forward call 1: 1 of 6 elements, first "
             "at [1, 1]; 1 later layer passes it on");
    assert_true(lam_health_finding(r.h, 0)->input);
    drop(&r);
}

static void owned(void **state) {
    (void)state;
    run r = LOOK({.side = LAM_BAD_OWNED, .call = A, .calls = 2, .nan = 1, .name = "weight"},
                 {.side = LAM_BAD_OUTPUT, .call = A, .calls = 2, .nan = 6},
                 {.side = LAM_BAD_OWNED, .call = E, .calls = 6, .nan = 1, .name = "bias"},
                 {.side = LAM_BAD_OUTPUT, .call = E, .calls = 6, .nan = 6});
    says(&r, "NaN first in a (Layer), which has it in its weight, forward call 1: 1 of 6 elements, first at "
             "[1, 1]");
    assert_true(lam_health_finding(r.h, 1)->explained);
    assert_null(lam_health_finding(r.h, 2));
    drop(&r);
}

/* -Inf alone waits until something comes of it. */
static void masks(void **state) {
    (void)state;
    const met mask[] = {{.side = LAM_BAD_OUTPUT, .call = A, .calls = 2, .inf = 3, .negative = 3},
                        {.side = LAM_BAD_INPUT, .call = B, .calls = 3, .inf = 3, .negative = 3, .index = 1}};
    run r = look_at(mask, 2, false);
    assert_null(lam_health_finding(r.h, 0));
    drop(&r);
    /* All of a row was left out: the softmax makes NaN of it. */
    const met row[] = {{.side = LAM_BAD_INPUT, .call = E, .calls = 6, .inf = 3, .negative = 3},
                       {.side = LAM_BAD_OUTPUT, .call = E, .calls = 6, .nan = 3}};
    r = look_at(row, 2, true);
    assert_int_equal(lam_health_finding(r.h, 0)->call, E);
    drop(&r);
    /* Anything else that makes NaN of it got no mask: it was born before, in what the model does itself, */
    r = look_at(row, 2, false);
    says(&r,
         "-Inf first in what the model (Net) does itself between b (Block) and e (Layer), forward call 1: "
         "3 of 6 elements, first at [1, 1]; 1 later layer passes it on");
    drop(&r);
    /* or in the layer that gave it, */
    const met layer[] = {{.side = LAM_BAD_OUTPUT, .call = A, .calls = 2, .inf = 3, .negative = 3},
                         {.side = LAM_BAD_INPUT, .call = B, .calls = 3, .inf = 3, .negative = 3},
                         {.side = LAM_BAD_INPUT, .call = C, .calls = 4, .inf = 3, .negative = 3},
                         {.side = LAM_BAD_OUTPUT, .call = C, .calls = 4, .nan = 3}};
    r = look_at(layer, 4, false);
    says(&r,
         "-Inf first in a (Layer), forward call 1: 3 of 6 elements, first at [1, 1]; 1 later layer passes "
         "it on");
    drop(&r);
    /* and what comes out of the model is no mask. */
    const met out[] = {{.side = LAM_BAD_OUTPUT, .call = E, .calls = 6, .inf = 1, .negative = 1},
                       {.side = LAM_BAD_OUTPUT, .call = NET, .calls = 6, .inf = 1, .negative = 1}};
    r = look_at(out, 2, false);
    assert_int_equal(lam_health_finding(r.h, 0)->call, E);
    drop(&r);
}

/* -Inf is not blamed for what did not come of it, and who hands it on did not make it. */
static void masks_of_others(void **state) {
    (void)state;
    const met eaten[] = {{.side = LAM_BAD_OUTPUT, .call = A, .calls = 2, .inf = 3, .negative = 3},
                         {.side = LAM_BAD_INPUT, .call = E, .calls = 6, .inf = 3, .negative = 3},
                         {.side = LAM_BAD_OUTPUT, .call = NET, .calls = 6, .nan = 2}};
    run r = look_at(eaten, 3, true);
    says(&r,
         "NaN first in what the model (Net) does itself after e (Softmax), forward call 1: 2 of 6 elements, "
         "first at [1, 1]");
    drop(&r);
    met beside[3]; /* what is not what the softmax is taken of is no mask of its */
    memcpy(beside, eaten, sizeof beside);
    beside[1].index = 1;
    r = look_at(beside, 3, true);
    says(&r, "-Inf first in a (Layer), forward call 1: 3 of 6 elements, first at [1, 1]");
    drop(&r);
    r = LOOK({.side = LAM_BAD_OUTPUT, .call = A, .calls = 2, .inf = 3, .negative = 3},
             {.side = LAM_BAD_INPUT, .call = E, .calls = 6, .inf = 1});
    says(&r, "Inf first in what the model (Net) does itself between b (Block) and e (Layer), forward call 1: "
             "1 of 6 elements, first at [1, 1]");
    drop(&r);
    r = LOOK({.side = LAM_BAD_INPUT, .call = E, .calls = 6, .inf = 3, .negative = 3},
             {.side = LAM_BAD_OUTPUT, .call = E, .calls = 6, .inf = 3, .negative = 3},
             {.side = LAM_BAD_OUTPUT, .call = NET, .calls = 6, .inf = 3, .negative = 3});
    says(&r,
         "-Inf first in what the model (Net) does itself between b (Block) and e (Layer), forward call 1: "
         "3 of 6 elements, first at [1, 1]");
    drop(&r);
}

static void operators(void **state) {
    (void)state;
    run r = LOOK({.side = LAM_BAD_OP, .call = B, .calls = 4, .inf = 1, .name = "aten::exp"},
                 {.side = LAM_BAD_OP, .call = B, .calls = 4, .nan = 1, .name = "aten::sub", .fed = true},
                 {.side = LAM_BAD_INPUT, .call = D, .calls = 5, .nan = 1});
    says(&r, "Inf first in what b (Block) does itself between b.c (Layer) and b.d (Layer) by aten::exp, "
             "forward call 1: 1 of 6 elements, first at [1, 1]");
    drop(&r);
    r = LOOK(
        {.side = LAM_BAD_OP, .call = A, .calls = 2, .nan = 1, .name = "aten::log"}); /* nothing came of it */
    assert_null(lam_health_finding(r.h, 0));
    drop(&r);
    /* What c gave could not be seen, and its operator could. */
    r = LOOK({.side = LAM_BAD_OP, .call = C, .calls = 4, .nan = 1, .name = "aten::log"},
             {.side = LAM_BAD_INPUT, .call = D, .calls = 5, .nan = 1});
    assert_int_equal(lam_health_finding(r.h, 0)->call, C);
    assert_string_equal(lam_health_finding(r.h, 0)->op, "aten::log");
    drop(&r);
    r = LOOK({.side = LAM_BAD_OP, .call = -1, .calls = 6, .nan = 1, .name = "aten::log"});
    says(&r, "NaN first outside of every layer by aten::log: 1 of 6 elements, first at [1, 1]");
    drop(&r);
}

static void doubts(void **state) {
    (void)state;
    enum { COMPLEX64 = 9 };
    run r = LOOK({.side = LAM_BAD_OUTPUT, .call = A, .calls = 2, .nan = 1, .doubt = true});
    says(&r, "NaN first in a (Layer), forward call 1: 1 of 6 elements, first at [1, 1]; it may be older: an "
             "input there could not be checked");
    drop(&r);
    r = LOOK({.side = LAM_BAD_OUTPUT, .call = A, .calls = 2, .nan = 1, .dtype = COMPLEX64});
    says(&r, "NaN first in a (Layer), forward call 1: 1 of 12 real and imaginary parts, first at [1, 1]");
    drop(&r);
}

/* A mask is made first, in A or in B; what is bad comes of another operator, which is named wherever it is.
 */
static void origins(void **state) {
    (void)state;
    const met mask = {.side = LAM_BAD_OP,
                      .call = B,
                      .calls = 3,
                      .inf = 3,
                      .negative = 3,
                      .name = "aten::log",
                      .origin = 1,
                      .gone = true};
    const met fault = {.side = LAM_BAD_OP, .call = B, .calls = 4, .nan = 1, .name = "aten::div", .origin = 2};
    run r = LOOK(mask, fault, {.side = LAM_BAD_OUTPUT, .call = B, .calls = 5, .nan = 1, .origin = 2});
    says(&r, "NaN first in what b (Block) does itself between b.c (Layer) and b.d (Layer) by aten::div, "
             "forward call 1: 1 of 6 elements, first at [1, 1]");
    drop(&r);
    /* Where nobody knows whose the result is, it is not the mask's that left no trace. */
    r = LOOK(mask, fault, {.side = LAM_BAD_OUTPUT, .call = B, .calls = 5, .nan = 1});
    assert_string_equal(lam_health_finding(r.h, 0)->op, "aten::div");
    drop(&r);
    /* It was no mask: e, which is given it, makes NaN of it, and only hands it on. */
    r = LOOK({.side = LAM_BAD_OP,
              .call = A,
              .calls = 2,
              .inf = 3,
              .negative = 3,
              .name = "aten::log",
              .origin = 7},
             {.side = LAM_BAD_OUTPUT, .call = A, .calls = 2, .inf = 3, .negative = 3, .origin = 7},
             {.side = LAM_BAD_INPUT, .call = E, .calls = 6, .inf = 3, .negative = 3, .origin = 7},
             {.side = LAM_BAD_OUTPUT, .call = E, .calls = 6, .nan = 3, .origin = 7});
    says(&r, "-Inf first in a (Layer) by aten::log, forward call 1: 3 of 6 elements, first at [1, 1]; "
             "1 later layer passes it on");
    assert_int_equal(lam_health_of(r.h, E, LAM_FORWARD), LAM_HEALTH_PASSED);
    drop(&r);
    /* A layer that is given a mask and does something wrong beside it. */
    r = LOOK({.side = LAM_BAD_INPUT, .call = E, .calls = 6, .inf = 3, .negative = 3, .origin = 1},
             {.side = LAM_BAD_OP, .call = E, .calls = 6, .nan = 1, .name = "aten::sqrt", .origin = 4},
             {.side = LAM_BAD_OUTPUT, .call = E, .calls = 6, .nan = 3, .origin = 4});
    says(&r, "NaN first in e (Layer) by aten::sqrt, forward call 1: 1 of 6 elements, first at [1, 1]");
    drop(&r);
    r = LOOK({.side = LAM_BAD_OP,
              .call = -1,
              .calls = 6,
              .inf = 1,
              .negative = 1,
              .name = "aten::log",
              .origin = 1,
              .gone = true});
    assert_null(lam_health_finding(r.h, 0));
    drop(&r);
}

static void origins_of_gradients(void **state) {
    (void)state;
    const met mask = {.side = LAM_BAD_NODE,
                      .call = D,
                      .calls = 6,
                      .inf = 2,
                      .negative = 2,
                      .gave = true,
                      .name = "LogsumexpBackward0",
                      .inside = "aten::sub",
                      .origin = 1};
    const met fault = {.side = LAM_BAD_NODE,
                       .call = C,
                       .calls = 6,
                       .nan = 2,
                       .gave = true,
                       .name = "SqrtBackward0",
                       .inside = "aten::div",
                       .origin = 2};
    const met fed = {.side = LAM_BAD_NODE,
                     .call = A,
                     .calls = 6,
                     .nan = 2,
                     .fed = true,
                     .from = C,
                     .name = "AddmmBackward0",
                     .origin = 2};
    run r = LOOK(mask, fault, fed, fed);
    assert_string_equal(lam_health_finding(r.h, 0)->op, "SqrtBackward0");
    assert_int_equal(lam_health_finding(r.h, 0)->times, 1);
    assert_null(lam_health_finding(r.h, 1));
    drop(&r);
    /* Of a sum of gradients nobody knows whose it is: rather the one's of which something is left. */
    met sum = fed, gone = mask;
    sum.origin = 3;
    gone.gone = true;
    r = LOOK(gone, fault, sum);
    assert_string_equal(lam_health_finding(r.h, 0)->op, "SqrtBackward0");
    assert_null(lam_health_finding(r.h, 1));
    drop(&r);
    r = LOOK(gone, sum);
    assert_string_equal(lam_health_finding(r.h, 0)->op, "LogsumexpBackward0");
    drop(&r);
}

static void backward(void **state) {
    (void)state;
    run r = LOOK({.side = LAM_BAD_NODE,
                  .call = D,
                  .calls = 6,
                  .inf = 2,
                  .name = "SqrtBackward0",
                  .gave = true,
                  .inside = "aten::div"},
                 {.side = LAM_BAD_NODE,
                  .call = C,
                  .calls = 6,
                  .nan = 2,
                  .name = "AddmmBackward0",
                  .fed = true,
                  .from = E},
                 {.side = LAM_BAD_NODE,
                  .call = A,
                  .calls = 6,
                  .nan = 2,
                  .name = "AddmmBackward0",
                  .fed = true,
                  .from = C});
    says(&r, "Inf first in the backward of b.d (Layer) by aten::div in SqrtBackward0 of call 1: 2 of 6 "
             "elements of a gradient, first at [1, 1]; 2 later layers pass it on");
    assert_int_equal(lam_health_of(r.h, D, LAM_BACKWARD), LAM_HEALTH_BORN);
    assert_int_equal(lam_health_of(r.h, A, LAM_BACKWARD), LAM_HEALTH_PASSED);
    assert_int_equal(lam_health_of(r.h, E, LAM_BACKWARD), LAM_HEALTH_FINE);
    drop(&r);
    /* Nothing in a node was seen to give it: the node before did. */
    r = LOOK({.side = LAM_BAD_NODE,
              .call = C,
              .calls = 6,
              .nan = 2,
              .name = "AddmmBackward0",
              .fed = true,
              .from = D,
              .inside = "MyBackward"});
    assert_int_equal(lam_health_finding(r.h, 0)->call, D);
    assert_string_equal(lam_health_finding(r.h, 0)->op, "MyBackward");
    says(&r, "NaN first in the backward of b.d (Layer) by MyBackward of call 1: 2 of 6 elements of a "
             "gradient, first "
             "at [1, 1]; 1 later layer passes it on");
    drop(&r);
    r = LOOK({.side = LAM_BAD_NODE,
              .call = C,
              .calls = 6,
              .nan = 2,
              .name = "AddmmBackward0",
              .fed = true,
              .from = -1});
    says(&r, "NaN came in with the gradient that the backward pass began with: 2 of 6 elements, first at "
             "[1, 1]");
    drop(&r);
    /* What came of a bad forward is explained by it. */
    r = LOOK({.side = LAM_BAD_OUTPUT, .call = A, .calls = 2, .nan = 1},
             {.side = LAM_BAD_NODE,
              .call = A,
              .calls = 6,
              .inf = 2,
              .name = "LogBackward0",
              .gave = true,
              .inside = "aten::div"},
             {.side = LAM_BAD_NODE,
              .call = NET,
              .calls = 6,
              .nan = 2,
              .name = "AddmmBackward0",
              .fed = true,
              .from = E});
    assert_true(lam_health_finding(r.h, 1)->explained);
    drop(&r);
}

/* An operator of the loss, which ran since the last call, began it; one that ran before did not. */
static void losses(void **state) {
    (void)state;
    for (int32_t calls = 6; calls >= 5; calls--) {
        run r = LOOK({.side = LAM_BAD_OP, .call = -1, .calls = calls, .nan = 1, .name = "aten::log"},
                     {.side = LAM_BAD_NODE,
                      .call = -1,
                      .calls = 6,
                      .nan = 2,
                      .name = "LogBackward0",
                      .gave = true,
                      .inside = "aten::div"},
                     {.side = LAM_BAD_NODE,
                      .call = C,
                      .calls = 6,
                      .nan = 2,
                      .name = "AddmmBackward0",
                      .fed = true,
                      .from = -1});
        assert_int_equal(lam_health_finding(r.h, 0)->phase, calls == 6 ? LAM_FORWARD : LAM_BACKWARD);
        assert_int_equal(lam_health_finding(r.h, 1)->explained, calls == 6);
        drop(&r);
    }
}

static void checks(void **state) {
    (void)state;
    run r = LOOK({.side = LAM_BAD_CHECK, .call = C, .calls = 4, .name = "b.*"});
    says(&r, "b.c (Layer), call 1, b.*: too large");
    assert_int_equal(lam_health_finding(r.h, 0)->before, -1);
    assert_int_equal(lam_health_finding(r.h, 0)->after, -1);
    assert_int_equal(lam_health_of(r.h, C, LAM_FORWARD), LAM_HEALTH_FINE);
    drop(&r);
}

static lam_status put(void *to, const char *bytes, size_t n) {
    char *text = to;
    strncat(text, bytes, n);
    return LAM_OK;
}

static void tail(void **state) {
    (void)state;
    char text[1024] = "";
    run r = LOOK({.side = LAM_BAD_OUTPUT, .call = C, .calls = 4, .nan = 2});
    assert_int_equal(lam_health_tail(r.h, 2, (lam_sink){put, text}, NULL), LAM_OK);
    assert_string_equal(text, "b (Block) call 1: 2x3, 2x3 -> 2x3  fine\n"
                              "b.c (Layer) call 1: 2x3, 2x3 -> 2x3  born here\n");
    *text = '\0';
    assert_int_equal(lam_health_tail(r.h, 4, (lam_sink){put, text}, NULL), LAM_OK);
    assert_memory_equal(text, "the model (Net) call 1: 2x3, 2x3 -> 2x3  not over\n", 50);
    drop(&r);
    *text = '\0';
    r = LOOK({.side = LAM_BAD_OUTPUT, .call = E, .calls = 6, .nan = 2});
    assert_int_equal(lam_health_tail(r.h, 1, (lam_sink){put, text}, NULL), LAM_OK);
    assert_string_equal(text, "e (Layer) call 1: 2, () -> ?  born here\n");
    drop(&r);
}

static void nobody_looked(void **state) {
    (void)state;
    lam_builder *b;
    lam_model *m;
    lam_health *h;
    lam_error e = {0};
    assert_int_equal(lam_builder_new(&b, 0, &e), LAM_OK);
    assert_int_equal(lam_builder_finish(b, &m, &e), LAM_OK);
    assert_int_equal(lam_health_new(&h, m, &e), LAM_USAGE);
    assert_null(h);
    lam_model_free(m);
}

static void once(void *arg, bool *ok) {
    lam_health *h;
    lam_error e = {0};
    lam_status s = lam_health_new(&h, arg, &e);
    *ok = s == LAM_OK;
    assert_true(*ok || s == LAM_NOMEM);
    lam_health_free(h);
}

static void no_memory(void **state) {
    (void)state;
    run r = LOOK({.side = LAM_BAD_OUTPUT, .call = C, .calls = 4, .nan = 2},
                 {.side = LAM_BAD_INPUT, .call = D, .calls = 5, .nan = 2},
                 {.side = LAM_BAD_CHECK, .call = C, .calls = 5, .name = "b.*"});
    oom_sweep(once, r.m);
    drop(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing),   cmocka_unit_test(in_a_leaf),     cmocka_unit_test(in_two_leaves),
        cmocka_unit_test(between),   cmocka_unit_test(from_outside),  cmocka_unit_test(written),
        cmocka_unit_test(owned),     cmocka_unit_test(masks),         cmocka_unit_test(masks_of_others),
        cmocka_unit_test(operators), cmocka_unit_test(origins),       cmocka_unit_test(origins_of_gradients),
        cmocka_unit_test(backward),  cmocka_unit_test(losses),        cmocka_unit_test(checks),
        cmocka_unit_test(tail),      cmocka_unit_test(nobody_looked), cmocka_unit_test(no_memory),
        cmocka_unit_test(doubts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
