/* SPDX-License-Identifier: Apache-2.0
 *
 * Levels of the graph: what stands in a container, and what goes where. */
#include "kit/oom.h"

#include "analyse/flow/levels.h"
#include "kit/draw.h"
#include "kit/ops_net.h"

#include <stdio.h>

static lam_model *model;
static lam_graph *graph;
static lmi_insides found;

static void take(lam_model *m) {
    lam_error e = {0};
    model = m;
    if (lam_graph_new(&graph, m, &e) != LAM_OK) fail_msg("lam_graph_new: %s", e.text);
    if (lmi_insides_find(&found, graph, &e) != LAM_OK) fail_msg("lmi_insides_find: %s", e.text);
}

static int forget(void **state) {
    (void)state;
    lmi_insides_free(&found);
    lam_graph_free(graph);
    lam_model_free(model);
    found = (lmi_insides){0};
    graph = NULL;
    model = NULL;
    return 0;
}

static const lmi_inside *inside_of(const char *path) {
    int32_t place = lam_model_find(model, path);
    assert_true(place >= 0);
    return found.of_place[place] < 0 ? NULL : &found.at[found.of_place[place]];
}

static void put_unit(lmi_buf *b, const lmi_inside *in, const lmi_unit *u) {
    if (u->type == LMI_UNIT_IN) lmi_putf(b, "[%s]", u->name);
    if (u->type == LMI_UNIT_MODULE) lmi_put(b, u->name);
    if (u->times > 1) lmi_putf(b, ":%d/%d", (int)u->nth, (int)u->times);
    for (int32_t i = 0; i < u->n_ops; i++)
        lmi_putf(b, "%s%s", i ? "," : "", lam_model_op(model, u->ops[i])->sig->name + strlen("aten::"));
    if (u->type == LMI_UNIT_MORE) lmi_putf(b, "(%d)", (int)in->cut);
    if (u->type == LMI_UNIT_OUT) lmi_put(b, "[out]");
}

/* "[input] a relu,neg [out] | a>relu ...": units, and ways by their numbers. */
static void expect(const char *path, const char *text) {
    const lmi_inside *in = inside_of(path);
    lmi_buf b;
    lmi_buf_init(&b);
    for (int32_t i = 0; in && i < in->n; i++) {
        put_unit(&b, in, &in->unit[i]);
        lmi_putc(&b, ' ');
    }
    lmi_putc(&b, '|');
    for (int32_t i = 0; in && i < in->n_ways; i++) {
        assert_true(in->way[i].from < in->way[i].to && in->way[i].to < in->n);
        lmi_putf(&b, " %d>%d", (int)in->way[i].from, (int)in->way[i].to);
    }
    assert_string_equal(lmi_buf_text(&b), text);
    lmi_buf_free(&b);
}

/* -- one container ----------------------------------------------------------------------------- */

/* Net(a, b, c), each a place of the root. */
static int32_t three(net *n) {
    int32_t root = level_place(n, -1, "", "Net");
    level_place(n, root, "a", "A");
    level_place(n, root, "b", "B");
    level_place(n, root, "c", "C");
    return level_call(n, root, -1, 1, 9);
}

static void a_chain(void **state) {
    (void)state;
    net n = net_new();
    int32_t r = three(&n);
    level_leaf(&n, 1, r, 1, 2);
    level_leaf(&n, 2, r, 2, 3);
    level_leaf(&n, 3, r, 3, 9);
    take(net_done(&n));
    expect("", "[input] a b c [out] | 0>1 1>2 2>3 3>4");
    assert_int_equal(found.n, 1);
    assert_int_equal(found.at[0].place, 0);
    assert_int_equal(found.at[0].unit[2].place, 2);
    assert_null(inside_of("a")); /* it has no children */
}

static void a_residual(void **state) {
    (void)state;
    net n = net_new();
    int32_t r = three(&n);
    level_leaf(&n, 1, r, 1, 2);
    level_leaf(&n, 2, r, 2, 3);
    OP(&n, "add", r, 9, 3, 1);
    take(net_done(&n));
    expect("", "[input] a b add [out] | 0>1 0>3 1>2 2>3 3>4");
    assert_int_equal(found.at[0].unit[3].shape.ndim, 2);
}

/* An operator that reads nothing, and one that reads it and what came in. */
static void what_is_made_of_nothing(void **state) {
    (void)state;
    net n = net_new();
    int32_t r = three(&n);
    level_op(&n, "aten::ones", r, LAM_FORWARD, 5, 0, NULL);
    OP(&n, "mul", r, 6, 5, 1);
    level_leaf(&n, 1, r, 6, 9);
    take(net_done(&n));
    expect("", "[input] ones mul a [out] | 0>2 1>2 2>3 3>4");
}

/* A part of a memory that nobody was seen to make is cleared; what reads all of it reads nothing of the
 * operator that ran first. */
static void a_part_of_unseen_memory(void **state) {
    (void)state;
    net n = net_new();
    int32_t r = three(&n);
    const lam_op_arg all = level_tensor(0, 50), part = V(0, 51, 50, 2, 1), y = level_tensor(0, 9);
    const op_at at = {r, -1, LAM_FORWARD, 0};
    level_leaf(&n, 1, r, 1, 5);
    net_op_args(&n, "aten::slice", at, IN(all, N(1, 1), N(2, 1), N(3, 2), N(4, 1)), OUT(part));
    net_op_args(&n, "aten::zero_", at, IN(part), OUT(part));
    level_leaf(&n, 2, r, 5, 6);
    net_op_args(&n, "aten::neg", at, IN(all), OUT(level_tensor(0, 7)));
    net_op_args(&n, "aten::add", at, IN(level_tensor(0, 6), level_tensor(1, 7)), OUT(y));
    take(net_done(&n));
    expect("", "[input] a zero_ b neg add [out] | 0>1 1>3 3>5 4>5 5>6");
}

static void a_module_that_is_called_twice(void **state) {
    (void)state;
    net n = net_new();
    int32_t r = three(&n);
    level_leaf(&n, 1, r, 1, 2);
    level_leaf(&n, 2, r, 2, 3);
    level_leaf(&n, 1, r, 3, 9);
    take(net_done(&n));
    expect("", "[input] a:1/2 b a:2/2 [out] | 0>1 1>2 2>3 3>4");
}

/* A line is one unit; it ends where two read it, where one reads two, and where it leaves. */
static void operators_in_a_line(void **state) {
    (void)state;
    net n = net_new();
    int32_t r = three(&n);
    level_leaf(&n, 1, r, 1, 2);
    OP(&n, "relu", r, 3, 2);
    OP(&n, "neg", r, 4, 3);
    OP(&n, "exp", r, 5, 4); /* read by both that follow */
    OP(&n, "sin", r, 6, 5);
    OP(&n, "cos", r, 7, 5);
    OP(&n, "mul", r, 8, 6, 7);
    level_leaf(&n, 2, r, 8, 10);
    OP(&n, "abs", r, 9, 10);
    take(net_done(&n));
    expect("", "[input] a relu,neg,exp sin cos mul b abs [out] | 0>1 1>2 2>3 2>4 3>5 4>5 5>6 6>7 7>8");
}

/* Twelve are one unit, so 30 are three. */
static void a_long_line(void **state) {
    (void)state;
    net n = net_new();
    int32_t r = three(&n);
    level_leaf(&n, 1, r, 1, 100);
    for (uint64_t i = 0; i < 30; i++) OP(&n, "relu", r, i == 29 ? 9 : 101 + i, 100 + i);
    take(net_done(&n));
    const lmi_inside *in = inside_of("");
    assert_int_equal(in->n, 2 + 3 + 1);
    assert_int_equal(in->unit[2].n_ops, 12);
    assert_int_equal(in->unit[4].n_ops, 6);
    assert_int_equal(in->n_ways, 5);
}

/* What reads the input begins a line of its own, since another thing comes in. */
static void lines_begin_where_something_comes_in(void **state) {
    (void)state;
    net n = net_new();
    int32_t r = three(&n);
    OP(&n, "relu", r, 2, 1);
    OP(&n, "neg", r, 3, 2);
    OP(&n, "add", r, 9, 3, 1);
    take(net_done(&n));
    expect("", "[input] relu,neg add [out] | 0>1 0>2 1>2 2>3");
}

static void two_inputs(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = level_place(&n, -1, "", "Net"), index;
    level_place(&n, root, "a", "A");
    static const int64_t sizes[] = {2, 3};
    const lam_arg in[] = {{"image", -1, NET_FLOAT32, 0, 2, sizes, 1, 1, 1},
                          {"mask", -1, NET_FLOAT32, 0, 2, sizes, 2, 2, 2}};
    const lam_arg out = {NULL, 0, NET_FLOAT32, 0, 2, sizes, 9, 9, 9};
    lam_call_info c = {.module = root, .parent = -1, .n_in = 2, .in = in, .n_out = 1, .out = &out};
    NET_OK(&n, lam_build_call(n.b, &c, &index, &n.e));
    level_leaf(&n, 1, index, 1, 3);
    OP(&n, "mul", index, 9, 3, 2);
    take(net_done(&n));
    expect("", "[image] [mask] a mul [out] | 0>2 1>3 2>3 3>4");
}

/* What the backward does is not drawn. */
static void the_forward_alone(void **state) {
    (void)state;
    net n = net_new();
    int32_t r = three(&n);
    level_leaf(&n, 1, r, 1, 9);
    level_op(&n, "aten::mul", r, LAM_BACKWARD, 20, 1, (uint64_t[]){9});
    level_op(&n, "aten::relu", r, LAM_RECOMPUTE, 21, 1, (uint64_t[]){1});
    take(net_done(&n));
    expect("", "[input] a [out] | 0>1 1>2");
}

/* -- containers in containers ------------------------------------------------------------------ */

/* The list is never called: the root calls what is in it. All blocks have one inside. */
static void equal_blocks_have_one_inside(void **state) {
    (void)state;
    take(level_blocks(6));
    assert_int_equal(found.n, 4);
    expect("", "[input] blocks head [out] | 0>1 1>2 2>3");
    expect("blocks", "[input] 0 1 2 3 4 5 [out] | 0>1 1>2 2>3 3>4 4>5 5>6 6>7");
    expect("blocks.0", "[input] act fc add [out] | 0>1 0>3 1>2 2>3 3>4");
    expect("blocks.1", "[in] act fc add [out] | 0>1 0>3 1>2 2>3 3>4");
    for (int32_t k = 2; k < 6; k++) {
        char path[16];
        snprintf(path, sizeof path, "blocks.%d", (int)k);
        assert_ptr_equal(inside_of(path), inside_of("blocks.1"));
    }
    assert_int_equal(found.at[0].place, 0); /* the outermost first */
    assert_int_equal(found.at[1].place, 1);
    assert_int_equal(inside_of("blocks.1")->place, 5);
}

/* A list whose modules and others run in turns is a unit for each piece: no way goes back. */
static void pieces_of_a_list(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = level_place(&n, -1, "", "Net"), convs = level_place(&n, root, "convs", "ModuleList");
    int32_t pool = level_place(&n, root, "pool", "Pool");
    for (int i = 0; i < 3; i++) level_place(&n, convs, (const char *[]){"0", "1", "2"}[i], "Conv");
    int32_t r = level_call(&n, root, -1, 1, 9);
    level_leaf(&n, 3, r, 1, 2);
    level_leaf(&n, 4, r, 2, 3);
    level_leaf(&n, pool, r, 3, 4);
    OP(&n, "tanh", level_call(&n, 5, r, 4, 9), 9, 4, 2);
    take(net_done(&n));
    expect("", "[input] convs:1/2 pool convs:2/2 [out] | 0>1 1>2 1>3 2>3 3>4");
    expect("convs", "[input] [pool] 0 1 2 [out] | 0>2 1>4 2>3 2>4 3>5 4>5");
}

/* What comes in is named by the module beside the container, or by the input; a number in a name is of no
 * use. */
static void ends_are_named(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = level_place(&n, -1, "", "Net"), rope = level_place(&n, root, "rope", "Rope");
    int32_t list = level_place(&n, root, "layers", "ModuleList"), first = level_place(&n, list, "0", "Layer");
    level_place(&n, first, "attention", "A");
    int32_t conv = level_place(&n, root, "conv1", "Conv");
    int32_t r = level_call(&n, root, -1, 1, 9);
    level_leaf(&n, rope, r, 1, 2);
    level_leaf(&n, conv, r, 1, 3);
    OP(&n, "neg", r, 4, 3);
    int32_t layer = level_call(&n, first, r, 4, 9);
    OP(&n, "tanh", level_call(&n, 4, layer, 4, 5), 5, 2, 3, 4, 1);
    OP(&n, "add", layer, 9, 5, 4);
    take(net_done(&n));
    expect("", "[input] rope conv1 neg layers [out] | 0>1 0>2 0>4 1>4 2>3 2>4 3>4 4>5");
    expect("layers.0", "[input] [rope] [in] [in] attention add [out] | 0>4 1>4 2>4 3>4 3>5 4>5 5>6");
}

/* Net(block: Block(a)), whose root makes `n` tensors. The block computes with each of them if `each`; then a
 * reads all of them. */
static void take_sources(int32_t many, bool each) {
    uint64_t made[20];
    net n = net_new();
    int32_t root = level_place(&n, -1, "", "Net"), block = level_place(&n, root, "block", "Block");
    level_place(&n, block, "a", "A");
    int32_t r = level_call(&n, root, -1, 1, 9);
    for (int32_t i = 0; i < many; i++) OP(&n, "neg", r, made[i] = 100 + (uint64_t)i, 1);
    int32_t b = level_call(&n, block, r, 100, 9);
    for (uint64_t i = 0; i < (uint64_t)many && each; i++) OP(&n, "exp", b, 200 + i, 100 + i);
    level_op(&n, "aten::cat", level_call(&n, 2, b, 100, 9), LAM_FORWARD, 9, many, made);
    take(net_done(&n));
}

/* Sources of one name and the same readers are one; more than twelve of different ones too. */
static void many_ends(void **state) {
    (void)state;
    take_sources(20, false);
    expect("block", "[in] a [out] | 0>1 1>2");
    forget(NULL);
    take_sources(12, true);
    assert_int_equal(inside_of("block")->n, 12 + 12 + 1 + 1);
    assert_int_equal(inside_of("block")->n_ways, 2 * 12 + 1);
    forget(NULL);
    take_sources(13, true);
    const lmi_inside *in = inside_of("block");
    assert_int_equal(in->n, 1 + 13 + 1 + 1);
    assert_string_equal(in->unit[0].name, "in");
    assert_int_equal(in->unit[1].type, LMI_UNIT_OPS);
    assert_int_equal(in->n_ways, 13 + 1 + 1);
}

/* A second call of a container, and a child that somebody else calls, are not in its inside. */
static void the_first_call_alone(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = level_place(&n, -1, "", "Net"), block = level_place(&n, root, "block", "Block");
    level_place(&n, block, "a", "A");
    level_place(&n, block, "b", "B");
    int32_t r = level_call(&n, root, -1, 1, 9), b = level_call(&n, block, r, 1, 2);
    level_leaf(&n, 2, b, 1, 2);
    b = level_call(&n, block, r, 2, 4);
    level_leaf(&n, 2, b, 2, 3);
    level_leaf(&n, 3, b, 3, 4);
    level_leaf(&n, 3, r, 4, 9);
    take(net_done(&n));
    expect("block", "[input] a [out] | 0>1 1>2");
    expect("", "[input] block:1/3 block:2/3 block:3/3 [out] | 0>1 1>2 2>3 3>4");
}

/* A child that runs before its container does so for somebody else: what it makes comes from outside. */
static void a_child_without_its_container(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = level_place(&n, -1, "", "Net"), block = level_place(&n, root, "block", "Block");
    level_place(&n, block, "a", "A");
    level_place(&n, block, "b", "B");
    int32_t r = level_call(&n, root, -1, 1, 9);
    level_leaf(&n, 3, r, 1, 2);
    level_leaf(&n, 2, level_call(&n, block, r, 2, 9), 2, 9);
    take(net_done(&n));
    expect("block", "[b] a [out] | 0>1 1>2");
    expect("", "[input] block:1/2 block:2/2 [out] | 0>1 1>2 2>3");
}

/* A list in a container that is called twice: what it gives to itself in the second call leaves it. */
static void a_list_in_two_calls(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = level_place(&n, -1, "", "Net"), block = level_place(&n, root, "block", "Block");
    level_place(&n, level_place(&n, block, "list", "ModuleList"), "a", "A");
    int32_t r = level_call(&n, root, -1, 1, 9);
    level_leaf(&n, 3, level_call(&n, block, r, 1, 2), 1, 2);
    level_leaf(&n, 3, level_call(&n, block, r, 2, 9), 2, 9);
    take(net_done(&n));
    expect("block.list", "[input] a [out] | 0>1 1>2");
    expect("block", "[input] list [out] | 0>1 1>2");
}

/* What leaves the container ends a line, though one operator alone reads it inside. */
static void a_line_ends_where_it_leaves(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = level_place(&n, -1, "", "Net"), block = level_place(&n, root, "block", "Block");
    level_place(&n, block, "a", "A");
    int32_t r = level_call(&n, root, -1, 1, 9), b = level_call(&n, block, r, 1, 4);
    level_leaf(&n, 2, b, 1, 2);
    OP(&n, "relu", b, 3, 2);
    OP(&n, "neg", b, 4, 3);
    OP(&n, "add", r, 9, 3, 4);
    take(net_done(&n));
    expect("block", "[input] a relu neg [out] | 0>1 1>2 2>3 2>4 3>4");
}

/* A module that stands elsewhere in the tree has its whole path. */
static void a_module_from_elsewhere(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = level_place(&n, -1, "", "Net"), bank = level_place(&n, root, "bank", "Bank");
    int32_t p = level_place(&n, root, "p", "Block"), q = level_place(&n, root, "q", "Block");
    int32_t a = level_place(&n, level_place(&n, bank, "inner", "Inner"), "a", "A");
    level_place(&n, p, "b", "B");
    level_place(&n, q, "b", "B");
    int32_t r = level_call(&n, root, -1, 1, 9), inner = level_call(&n, p, r, 1, 3);
    level_leaf(&n, 6, inner, 1, 2);
    level_leaf(&n, a, inner, 2, 3);
    inner = level_call(&n, q, r, 1, 9);
    level_leaf(&n, 7, inner, 1, 4);
    level_leaf(&n, a, inner, 4, 9);
    take(net_done(&n));
    expect("p", "[input] b bank.inner.a | 0>1 1>2");
    expect("q", "[input] b bank.inner.a [out] | 0>1 1>2 2>3");
    expect("bank", "|");
    expect("bank.inner", "|");
}

/* The root was never called, and its modules by the program itself. */
static void calls_without_a_root(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = level_place(&n, -1, "", "Net");
    level_place(&n, root, "a", "A");
    level_place(&n, root, "b", "B");
    level_leaf(&n, 1, -1, 1, 2);
    OP(&n, "neg", -1, 3, 2);
    level_leaf(&n, 2, -1, 3, 4);
    take(net_done(&n));
    const lmi_inside *in = inside_of("");
    assert_int_equal(in->n, 5);
    expect("", "[input] [in] a b [out] | 0>2 1>3 2>4 3>4");
}

static void too_many_units(void **state) {
    (void)state;
    enum { MANY = 300 };
    net n = net_new();
    int32_t root = level_place(&n, -1, "", "Net");
    for (int32_t i = 0; i < MANY; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", (int)i);
        level_place(&n, root, name, "A");
    }
    int32_t r = level_call(&n, root, -1, 1, MANY + 1);
    for (int32_t i = 0; i < MANY; i++) level_leaf(&n, i + 1, r, (uint64_t)i + 1, (uint64_t)i + 2);
    take(net_done(&n));
    const lmi_inside *in = inside_of("");
    assert_int_equal(in->n, LMI_INSIDE_UNITS);
    assert_int_equal(in->cut, MANY - 197); /* with what comes in, the rest, and what leaves they are 200 */
    assert_int_equal(in->unit[198].type, LMI_UNIT_MORE);
    assert_int_equal(in->unit[199].type, LMI_UNIT_OUT);
    assert_int_equal(in->n_ways, 199);
    for (int32_t i = 0; i < in->n_ways; i++) {
        assert_int_equal(in->way[i].from, i);
        assert_int_equal(in->way[i].to, i + 1);
    }
}

/* Blocks that differ in one thing have insides of their own. */
static void unequal_blocks(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = level_place(&n, -1, "", "Net");
    for (int k = 0; k < 4; k++) {
        int32_t block = level_place(&n, root, (const char *[]){"p", "q", "r", "s"}[k], "Block");
        level_place(&n, block, k == 1 ? "other" : "a", k == 2 ? "Other" : "A");
    }
    int32_t r = level_call(&n, root, -1, 1, 9);
    for (uint64_t k = 0; k < 4; k++) {
        int32_t block = 1 + 2 * (int32_t)k, b = level_call(&n, block, r, 1, 10 + k);
        level_leaf(&n, block + 1, b, 1, 20 + k);
        if (k < 3) OP(&n, "neg", b, 10 + k, 20 + k);
        if (k == 3) OP(&n, "exp", b, 10 + k, 20 + k);
    }
    OP(&n, "cat", r, 9, 10, 11, 12, 13);
    take(net_done(&n));
    assert_int_equal(found.n, 5);
    expect("p", "[input] a neg [out] | 0>1 1>2 2>3");
    expect("q", "[input] other neg [out] | 0>1 1>2 2>3");
    expect("s", "[input] a exp [out] | 0>1 1>2 2>3");
}

/* Blocks of equal parts, of which one reads another. */
static void unequal_ways(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = level_place(&n, -1, "", "Net");
    for (int k = 0; k < 2; k++) {
        int32_t block = level_place(&n, root, k ? "q" : "p", "Block");
        level_place(&n, block, "a", "A");
        level_place(&n, block, "b", "B");
    }
    int32_t r = level_call(&n, root, -1, 1, 9);
    for (uint64_t k = 0; k < 2; k++) {
        int32_t block = 1 + 3 * (int32_t)k, b = level_call(&n, block, r, 1, 40 + k);
        level_leaf(&n, block + 1, b, 1, 20 + k);
        level_leaf(&n, block + 2, b, k ? 1 : 20 + k, 30 + k);
        OP(&n, "add", b, 40 + k, 20 + k, 30 + k);
    }
    OP(&n, "cat", r, 9, 40, 41);
    take(net_done(&n));
    expect("p", "[input] a b add [out] | 0>1 1>2 1>3 2>3 3>4");
    expect("q", "[input] a b add [out] | 0>1 0>2 1>3 2>3 3>4");
}

/* -- any model --------------------------------------------------------------------------------- */

enum { PLACES = 14 };

/* Calls made at random, and operators that read what is there. `tensors`: how many there are. */
static void run_at_random(net *n, int32_t call, int32_t depth, uint64_t *tensors) {
    for (int64_t k = draw(1, 6); k > 0; k--) {
        uint64_t reads[3];
        for (int32_t i = 0; i < 3; i++)
            reads[i] = (uint64_t)draw(draw(0, 1) ? 1 : (int64_t)*tensors, (int64_t)*tensors);
        if (depth < 5 && draw(0, 2) == 0) {
            int32_t inner = level_call(n, (int32_t)draw(0, PLACES - 1), call, reads[0], ++*tensors);
            run_at_random(n, inner, depth + 1, tensors);
        }
        level_op(n, draw(0, 1) ? "aten::add" : "aten::mul", call, LAM_FORWARD, ++*tensors,
                 (int32_t)draw(1, 3), reads);
    }
}

/* An inside is within its bounds, and has each of the container's own operators at most once. `unit`: of each
 * operator, from 1. */
static void check_inside(const lmi_inside *in, int32_t *unit) {
    assert_in_range(in->n, 1, LMI_INSIDE_UNITS);
    for (int32_t i = 0; i < in->n; i++) {
        const lmi_unit *u = &in->unit[i];
        assert_true((u->type == LMI_UNIT_MODULE) == (u->place >= 0));
        assert_true((u->type == LMI_UNIT_OPS) == (u->n_ops > 0));
        if (i > 0) assert_true((u->type == LMI_UNIT_IN) <= (in->unit[i - 1].type == LMI_UNIT_IN));
        if (u->type == LMI_UNIT_OUT) assert_int_equal(i, in->n - 1);
        if (u->place >= 0) assert_true(u->nth >= 1 && u->nth <= u->times);
        for (int32_t k = 0; k < u->n_ops; k++) {
            assert_int_equal(unit[u->ops[k]], 0);
            unit[u->ops[k]] = i + 1;
            assert_int_equal(lmi_inside_op(graph, u->ops[k]), u->ops[k]);
            assert_int_equal(lam_model_event(model, lam_model_op(model, u->ops[k])->call)->place, in->place);
        }
    }
    for (int32_t i = 0; i < in->n_ways; i++) {
        const lmi_way *way = &in->way[i];
        assert_true(way->from >= 0 && way->from < way->to && way->to < in->n);
        assert_true(in->unit[way->to].type != LMI_UNIT_IN && in->unit[way->from].type != LMI_UNIT_OUT);
        if (i > 0)
            assert_true(way->from > way[-1].from || (way->from == way[-1].from && way->to > way[-1].to));
    }
}

static bool has_way(const lmi_inside *in, int32_t from, int32_t to) {
    for (int32_t i = 0; i < in->n_ways; i++)
        if (in->way[i].from == from && in->way[i].to == to) return true;
    return false;
}

/* What an operator gives to another of its call stays in one unit or goes from unit to unit. What it reads
 * from elsewhere comes from a module, or from outside. */
static void check_edges(const int32_t *unit) {
    for (int32_t i = 0; i < lam_graph_n_edges(graph); i++) {
        const lam_edge *e = lam_graph_edge(graph, i);
        const lam_node *from = lam_graph_node(graph, e->from), *to = lam_graph_node(graph, e->to);
        int32_t b = to->type == LAM_NODE_OP ? unit[to->index] : 0;
        if (b == 0) continue;
        const lmi_inside *in = &found.at[found.of_place[lam_model_event(model, to->call)->place]];
        int32_t a = from->type == LAM_NODE_OP && from->call == to->call ? unit[from->index] : 0;
        bool told = a ? a == b || has_way(in, a - 1, b - 1) : from->type == LAM_NODE_TENSOR;
        for (int32_t k = 0; !a && k < b - 1 && !told; k++) /* from a module, or from outside */
            told = in->unit[k].type != LMI_UNIT_OPS && has_way(in, k, b - 1);
        assert_true(told);
    }
}

static void any_model(void **state) {
    (void)state;
    seed = 5;
    for (int32_t round = 0; round < rounds(150); round++) {
        net n = net_new();
        uint64_t tensors = 1;
        int32_t unit[4096] = {0};
        level_place(&n, -1, "", "Net");
        for (int32_t i = 1; i < PLACES; i++) {
            char name[8];
            snprintf(name, sizeof name, "%c", 'a' + (char)i);
            level_place(&n, (int32_t)draw(0, i - 1), name, draw(0, 1) ? "A" : "B");
        }
        run_at_random(&n, level_call(&n, 0, -1, 1, 2), 0, &tensors);
        take(net_done(&n));
        assert_true(lam_model_n_ops(model) <= 4096);
        for (int32_t k = 0; k < found.n; k++) check_inside(&found.at[k], unit);
        check_edges(unit);
        for (int32_t p = 0; p < PLACES; p++) assert_in_range(found.of_place[p] + 1, 0, found.n);
        forget(NULL);
    }
}

/* -- memory ------------------------------------------------------------------------------------ */

static void try_to_find(void *unused, bool *ok) {
    (void)unused;
    lam_error e = {0};
    lmi_insides again;
    *ok = oom_check(lmi_insides_find(&again, graph, &e), &e);
    lmi_insides_free(&again);
}

static void memory_that_runs_out(void **state) {
    (void)state;
    take(level_blocks(3));
    oom_sweep(try_to_find, NULL);
}

#define LEVELS(test) cmocka_unit_test_teardown(test, forget)

int main(void) {
    const struct CMUnitTest tests[] = {
        LEVELS(a_chain),
        LEVELS(a_residual),
        LEVELS(what_is_made_of_nothing),
        LEVELS(a_part_of_unseen_memory),
        LEVELS(a_module_that_is_called_twice),
        LEVELS(operators_in_a_line),
        LEVELS(a_long_line),
        LEVELS(lines_begin_where_something_comes_in),
        LEVELS(two_inputs),
        LEVELS(the_forward_alone),
        LEVELS(equal_blocks_have_one_inside),
        LEVELS(pieces_of_a_list),
        LEVELS(ends_are_named),
        LEVELS(many_ends),
        LEVELS(the_first_call_alone),
        LEVELS(a_child_without_its_container),
        LEVELS(a_list_in_two_calls),
        LEVELS(a_line_ends_where_it_leaves),
        LEVELS(a_module_from_elsewhere),
        LEVELS(calls_without_a_root),
        LEVELS(too_many_units),
        LEVELS(unequal_blocks),
        LEVELS(unequal_ways),
        LEVELS(any_model),
        LEVELS(memory_that_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
