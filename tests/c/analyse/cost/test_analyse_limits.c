/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a tool itself may print another number: each case with what it takes, and without. */
#include "kit/oom.h"

#include "kit/ops_net.h"

/* A case by a tool, and the beginning of what is then told. */
typedef struct told {
    const char *tool;
    lam_metric metric;
    const char *text;
} told;

static const told training = {"ptflops", LAM_MACS, "The tool always runs in eval mode"},
                  also_training = {"torchinfo", LAM_MACS, "The tool runs in eval mode unless"},
                  stretched = {"ptflops", LAM_MACS, "The tool multiplies by the factors"},
                  also_stretched = {"deepspeed", LAM_FLOPS, "The tool multiplies by the factors"},
                  sized = {"deepspeed", LAM_FLOPS, "For an interpolation with one size"},
                  unbatched = {"ptflops", LAM_MACS, "The tool takes the first axis as the batch"},
                  uneven = {"ptflops", LAM_MACS, "The tool divides the sum by the batch"},
                  mapped = {"ptflops", LAM_MACS, "In torch.vmap"},
                  also_mapped = {"deepspeed", LAM_MACS, "In torch.vmap"},
                  tied = {"torchinfo", LAM_MACS, "The tool counts a shared parameter"},
                  relu = {"ptflops", LAM_MACS, "The tool counts F.relu"},
                  also_relu = {"deepspeed", LAM_FLOPS, "The tool counts F.relu"};

/* Finishes the model: is it told of? */
static void expect(net *n, const told *t, bool wanted) {
    lam_error e = {0};
    lam_comparison *c = NULL;
    NET_OK(n, lam_build_ops_seen(n->b, &n->e));
    lam_model *m = net_done(n);
    const lam_compare_options o = {.conventions = &t->tool, .n = 1, .metric = t->metric};
    if (lam_compare_new(&c, m, &o, &e) != LAM_OK) fail_msg("%s", e.text);
    const char *limits = lam_compare_row(c, 1)->limits;
    if ((limits && strstr(limits, t->text)) != wanted)
        fail_msg("%s: '%s' is %s in '%s'", t->tool, t->text, wanted ? "not" : "", limits ? limits : "");
    lam_compare_free(c);
    lam_model_free(m);
}

/* Net, a class of the user's own, around one layer; the call of it, and of the layer. */
typedef struct two {
    net n;
    int32_t root, layer, net_call, layer_call;
} two;

static two around(const char *type, uint32_t flags, const int64_t *sizes, int32_t ndim) {
    two t = {.n = net_new()};
    t.root = net_module(&t.n, "Net", 0);
    t.layer = net_module(&t.n, type, LAM_MODULE_LEAF | flags);
    net_place(&t.n, net_place(&t.n, -1, "", t.root), "layer", t.layer);
    t.net_call = net_call(&t.n, t.root, -1, SH(2, 4), 0, SH(2, 4), 0);
    t.layer_call = net_call(&t.n, t.layer, t.net_call, sizes, ndim, 0, sizes, ndim, 0);
    return t;
}

static void layers_in_train_mode(void **state) {
    (void)state;
    for (int called = 0; called < 2; called++)
        for (int trains = 0; trains < 2; trains++)
            for (int which = 0; which < 2; which++) {
                net n = net_new();
                int32_t root = net_module(&n, "Net", 0);
                int32_t fc = net_module(&n, "Linear", LAM_MODULE_LEAF | (trains ? LAM_MODULE_TRAINING : 0));
                net_place(&n, net_place(&n, -1, "", root), "fc", fc);
                int32_t r = net_call(&n, root, -1, SH(2, 4), 0, SH(2, 4), 0);
                if (called) net_call(&n, fc, r, SH(2, 4), 0, SH(2, 4), 0);
                expect(&n, which ? &also_training : &training, called && trains);
            }
}

/* From 2 x 4 to 2 x `wide` or `high` x 4, by a factor or to a size. */
static void interpolations(void **state) {
    (void)state;
    static const struct {
        int64_t high, wide;
        bool by_size, whole;
    } all[] = {{2, 8, false, true}, {2, 6, false, false}, {3, 4, false, false},
               {4, 4, false, true}, {2, 6, true, false},  {2, 8, true, true}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int which = 0; which < 3; which++) {
            two t = around("ReLU", 0, SH(2, 4));
            const int64_t size[] = {all[i].wide};
            const lam_op_arg x[] = {T(0, 2, 4),
                                    {.position = all[i].by_size ? 1 : 3,
                                     .dtype = -1,
                                     .device = -1,
                                     .ndim = -1,
                                     .value = {.type = LAM_INTS, .n = 1, .ints = size}}},
                             y[] = {T(0, all[i].high, all[i].wide)};
            net_op_args(&t.n, "aten::upsample_nearest1d", (op_at){t.net_call, -1, LAM_FORWARD, 0}, x, 2, y,
                        1);
            if (which == 2)
                expect(&t.n, &sized, all[i].by_size);
            else
                expect(&t.n, which ? &also_stretched : &stretched, !all[i].by_size && !all[i].whole);
        }
    two t = around("ReLU", 0, SH(2, 4)); /* of which not enough is known */
    const lam_op_arg x[] = {T(0, 2, 4)}, y[] = {T(0, 2, 1, 6)};
    net_op_args(&t.n, "aten::upsample_nearest1d", (op_at){t.net_call, -1, LAM_FORWARD, 0}, x, 1, NULL, 0);
    net_op_args(&t.n, "aten::upsample_nearest1d", (op_at){t.net_call, -1, LAM_FORWARD, 0}, NULL, 0, y, 1);
    net_op_args(&t.n, "aten::upsample_nearest1d", (op_at){t.net_call, -1, LAM_FORWARD, 0}, x, 1, y, 1);
    expect(&t.n, &stretched, false);
}

/* The user's own forward called it, and no other operator did; nor did a layer of torch. */
static void functions_that_the_program_called(void **state) {
    (void)state;
    enum { BY_NET, BY_LAYER, BY_OWN_FORWARD, INSIDE, IN_A_NODE, IN_BACKWARD, OUTSIDE, N_WAYS };
    static const bool wanted[N_WAYS] = {true, false, true, false, true, false, true};
    for (int way = 0; way < N_WAYS; way++)
        for (int which = 0; which < 2; which++) {
            two t = around("Linear", way == BY_OWN_FORWARD ? LAM_MODULE_OWN_FORWARD : 0, SH(2, 4));
            op_at at = {way == BY_NET || way > BY_OWN_FORWARD ? t.net_call : t.layer_call, -1, LAM_FORWARD,
                        0};
            if (way == OUTSIDE) at.call = -1;
            if (way == INSIDE) at.parent = net_op(&t.n, "aten::gelu", at);
            if (way == IN_A_NODE) {
                at.flags = LAM_OP_NODE;
                at.parent = net_op(&t.n, "Function", at);
                at.flags = 0;
            }
            if (way == IN_BACKWARD) at.phase = LAM_BACKWARD;
            net_relu(&t.n, at, 8);
            expect(&t.n, which ? &also_relu : &relu, wanted[way]);
        }
}

static void images_without_a_batch(void **state) {
    (void)state;
    static const struct {
        const char *type;
        int32_t ndim;
        bool wanted;
    } all[] = {{"Conv2d", 4, false},    {"Conv2d", 3, true},    {"MaxPool2d", 3, true},
               {"MaxPool2d", 4, false}, {"Conv1d", 2, true},    {"Conv1d", 3, false},
               {"Linear", 3, false},    {"AvgPool3d", 4, true}, {"BatchNorm2d", 3, false}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const int64_t sizes[] = {2, 4, 4, 4};
        two t = around(all[i].type, 0, sizes, all[i].ndim);
        expect(&t.n, &unbatched, all[i].wanted);
    }
}

/* The model's batch is 2. */
static void batches_that_are_no_multiple(void **state) {
    (void)state;
    for (int64_t batch = 1; batch < 5; batch++)
        for (int unknown = 0; unknown < 2; unknown++) {
            two t = around(unknown ? "Mine" : "Linear", 0, SH(batch, 4));
            expect(&t.n, &uneven, batch % 2 && !unknown);
        }
}

static void operators_of_a_map(void **state) {
    (void)state;
    for (int way = 0; way < 5; way++) {
        two t = around("Linear", 0, SH(2, 4)), u = around("Linear", 0, SH(2, 4));
        const op_at at = {t.net_call, -1, way == 1 ? LAM_BACKWARD : LAM_FORWARD, way == 2 ? 0 : LAM_OP_NODE};
        const lam_op_arg one = T(0, 4), all = way == 4 ? T(0, 4) : T(0, 2, 4); /* 4: as by autocast */
        for (int which = 0; which < 2; which++) {
            net *n = which ? &u.n : &t.n;
            int32_t outer = net_op_args(n, way == 3 ? "Function" : "aten::mul", at, &one, 1, &one, 1);
            net_op_args(n, "aten::mul", (op_at){t.net_call, outer, at.phase, 0}, &all, 1, &all, 1);
        }
        expect(&t.n, &mapped, way == 0);
        expect(&u.n, &also_mapped, way == 0);
    }
}

/* By a module at two places, by two modules, or by one; of buffers there is nothing to tell. */
static void shared_parameters(void **state) {
    (void)state;
    for (int way = 0; way < 5; way++) {
        net n = net_new();
        const bool buffer = way > 2;
        int32_t root = net_module(&n, "Net", 0), a = net_leaf(&n, "Linear"), b = net_leaf(&n, "Linear");
        int32_t top = net_place(&n, -1, "", root), w = net_tensor(&n, !buffer, SH(4, 4));
        net_place(&n, top, "a", a);
        net_place(&n, top, "b", b);
        if (way == 1 || way == 4) net_place(&n, top, "c", a);
        NET_OK(&n, lam_build_owns(n.b, a, "weight", w, buffer, &n.e));
        if (way == 2 || way == 3) NET_OK(&n, lam_build_owns(n.b, b, "weight", w, buffer, &n.e));
        net_call(&n, root, -1, SH(2, 4), 0, SH(2, 4), 0);
        expect(&n, &tied, way == 1 || way == 2);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_in_train_mode),
        cmocka_unit_test(interpolations),
        cmocka_unit_test(functions_that_the_program_called),
        cmocka_unit_test(images_without_a_batch),
        cmocka_unit_test(batches_that_are_no_multiple),
        cmocka_unit_test(operators_of_a_map),
        cmocka_unit_test(shared_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
