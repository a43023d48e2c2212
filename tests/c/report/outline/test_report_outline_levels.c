/* SPDX-License-Identifier: Apache-2.0
 *
 * Levels of an outline: texts, sizes and numbers of nodes, and how many levels there are. */
#include "kit/oom.h"

#include "kit/ops_net.h"
#include "report/outline/work.h"

#include <stdio.h>

static lam_model *model;
static lam_costs *costs;
static lmi_outline o;
static int32_t *of_place;

static int forget(void **state) {
    (void)state;
    lam_graph_free(o.graph);
    lmi_arena_free(&o.arena);
    lam_costs_free(costs);
    lam_model_free(model);
    o = (lmi_outline){0};
    model = NULL;
    costs = NULL;
    return 0;
}

/* An outline without its levels, whose places are those of the model. */
static void begin(lam_model *m, const char *convention) {
    model = m;
    costs = net_costs(m, convention, false);
    lmi_arena_init(&o.arena, UINT64_MAX);
    o.n = lam_model_n_places(m);
    o.at = __real_lmi_alloc(&o.arena, (uint64_t)o.n, sizeof *o.at);
    of_place = __real_lmi_alloc(&o.arena, (uint64_t)o.n, sizeof *of_place);
    for (int32_t i = 0; i < o.n; i++) of_place[i] = i;
}

/* An outline's places have no level before. */
static lam_status take_levels(lmi_outline *to, lam_error *e) {
    lmi_filling w = {.o = to, .c = costs, .m = model, .of_place = of_place, .e = e};
    for (int32_t i = 0; i < to->n; i++) to->at[i].level = -1;
    lmi_arena_init(&w.scratch, UINT64_MAX);
    lmi_buf_init(&w.text);
    lam_status s = lmi_take_levels(&w);
    lmi_buf_free(&w.text);
    lmi_arena_free(&w.scratch);
    return s;
}

static void take(lam_model *m, const char *convention) {
    lam_error e = {0};
    begin(m, convention);
    if (take_levels(&o, &e) != LAM_OK) fail_msg("lmi_take_levels: %s", e.text);
    if (lmi_outline_draw(&o, &e) != LAM_OK) fail_msg("lmi_outline_draw: %s", e.text);
}

static const lmi_level *level_of(const char *path) {
    int32_t place = lam_model_find(model, path);
    assert_true(place >= 0);
    return o.at[place].level < 0 ? NULL : &o.level[o.at[place].level];
}

static const lmi_level_node *node_of(const lmi_level *l, const char *label) {
    for (int32_t i = 0; i < l->n; i++)
        if (strcmp(l->node[i].label, label) == 0) return &l->node[i];
    fail_msg("there is no node %s", label);
    return NULL;
}

/* -- levels ------------------------------------------------------------------------------------ */

static void equal_containers_share_a_drawing(void **state) {
    (void)state;
    take(level_blocks(5), "exact");
    assert_int_equal(o.n_levels, 4);
    assert_int_equal(o.n_left, 0);
    assert_int_equal(o.at[0].level, 0);
    assert_int_equal(o.at[1].level, 1); /* of the list, which was never called */
    assert_int_equal(o.at[3].level, -1);
    assert_ptr_equal(level_of("blocks.1"), level_of("blocks.4"));
    assert_ptr_not_equal(level_of("blocks.0"), level_of("blocks.1")); /* it reads the input itself */
    const lmi_level *l = level_of("blocks.4");
    assert_int_equal(l->n, 5);
    assert_int_equal(l->at.n, 5);
    assert_int_equal(l->at.crossings, 0);
    assert_int_equal(l->n_lines, 5);
    assert_int_equal(node_of(l, "act")->place, lam_model_find(model, "blocks.1.act"));
    assert_int_equal(node_of(l, "act")->look, LMI_NODE_MODULE);
    assert_int_equal(node_of(l, "add")->look, LMI_NODE_OPERATORS);
    assert_int_equal(node_of(l, "add")->place, -1);
    assert_int_equal(node_of(l, "out")->look, LMI_NODE_END);
    assert_int_equal(node_of(l, "in")->look, LMI_NODE_END);
}

/* Net(a) that also computes mm of (2, 3) and (3, 4), then relu and neg in a line, and exp. */
static lam_model *of_operators(void) {
    net n = net_new();
    int32_t root = level_place(&n, -1, "", "Net");
    level_place(&n, root, "a", "A");
    net_numbered(&n, root, "weight", 50, true, SH(3, 4));
    const lam_op_arg x = level_tensor(0, 1), y = D(0, 5, 2, 4);
    int32_t r = net_step_of(&n, root, -1, &x, &y);
    level_leaf(&n, 1, r, 1, 2);
    level_leaf(&n, 1, r, 2, 3);
    net_op_args(&n, "aten::mm", (op_at){r, -1, LAM_FORWARD, 0}, IN(level_tensor(0, 3), D(1, 50, 3, 4)),
                OUT(D(0, 4, 2, 4)));
    net_op_args(&n, "aten::exp", (op_at){r, -1, LAM_FORWARD, 0}, IN(D(0, 4, 2, 4)), OUT(D(0, 5, 2, 4)));
    OP(&n, "relu", r, 6, 3);
    OP(&n, "_softmax", r, 7, 6);
    OP(&n, "neg", r, 8, 7);
    return net_done(&n);
}

static void texts_of_nodes(void **state) {
    (void)state;
    take(of_operators(), "exact");
    const lmi_level *l = level_of("");
    assert_string_equal(l->node[1].label, "a");
    assert_string_equal(l->node[1].note, "1/2");
    assert_string_equal(l->node[2].note, "2/2");
    assert_string_equal(node_of(l, "mm, exp")->note, "mm \u2192 exp");
    assert_string_equal(node_of(l, "relu \u2026 neg")->note, "relu \u2192 softmax \u2192 neg");
    assert_string_equal(node_of(l, "input")->note, "");
    forget(NULL);
    take(level_blocks(1), "exact");
    assert_string_equal(node_of(level_of("blocks.0"), "add")->note, "2\u00d73");
    assert_string_equal(node_of(level_of("blocks.0"), "act")->note, "");
}

/* 2 * 3 * 4 MACs. mm reads 6 and 12 and writes 8 elements of four bytes, exp reads and writes 8. */
static void numbers_of_nodes(void **state) {
    (void)state;
    take(of_operators(), "exact");
    const lmi_level_node *node = node_of(level_of(""), "mm, exp");
    net_expect(node->macs, 24, LAM_EXACT);
    net_expect(node->bytes, 4 * (6 + 12 + 8 + 8 + 8), LAM_EXACT);
    lam_count mm[LAM_N_METRICS], ex[LAM_N_METRICS];
    assert_int_equal(lam_costs_op(costs, 2, mm, NULL, NULL), LAM_OK);
    assert_int_equal(lam_costs_op(costs, 3, ex, NULL, NULL), LAM_OK);
    net_expect(node->flops, mm[LAM_FLOPS].n + ex[LAM_FLOPS].n, LAM_EXACT);
    assert_true(node->flops.n >= 48);
    forget(NULL);
    take(of_operators(), "layers"); /* it counts no operators */
    net_expect(node_of(level_of(""), "mm, exp")->macs, 0, LAM_UNKNOWN);
}

/* What is not counted itself counts by what it called. */
static void numbers_of_what_is_inside(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = level_place(&n, -1, "", "Net");
    level_place(&n, root, "a", "A");
    net_numbered(&n, root, "weight", 50, true, SH(3, 4));
    const lam_op_arg x = level_tensor(0, 1), y = D(0, 5, 2, 4);
    int32_t r = net_step_of(&n, root, -1, &x, &y);
    int32_t outer = net_op_args(&n, "my::op", (op_at){r, -1, LAM_FORWARD, 0}, IN(x, D(1, 50, 3, 4)), OUT(y));
    net_op_args(&n, "aten::mm", (op_at){r, outer, LAM_FORWARD, 0}, IN(x, D(1, 50, 3, 4)), OUT(y));
    take(net_done(&n), "exact");
    net_expect(node_of(level_of(""), "my::op")->macs, 24, LAM_EXACT);
}

static lmi_box_size size_of(const lmi_level *l, const char *label) {
    return l->size[node_of(l, label) - l->node];
}

/* Net(name: type) that computes `op` of what it gives. */
static lmi_box_size module_size(const char *name, const char *type) {
    net n = net_new();
    int32_t root = level_place(&n, -1, "", "Net");
    level_place(&n, root, name, type);
    level_leaf(&n, 1, level_call(&n, root, -1, 1, 9), 1, 9);
    take(net_done(&n), "exact");
    lmi_box_size size = size_of(level_of(""), name);
    forget(NULL);
    return size;
}

static void sizes_of_nodes(void **state) {
    (void)state;
    assert_int_equal(module_size("act", "ReLU").h, 46);
    assert_int_equal(module_size("act", "ReLU").w, 132);              /* 21.9 + 25.6 + 50 */
    assert_int_equal(module_size("downsample", "Sequential").w, 187); /* 73 + 64 + 50 */
    assert_int_equal(module_size("self_attention", "MultiheadAttention").w, 230);
    /* two columns each: 8 of 7.3, 12 of 6.4, 50 */
    assert_int_equal(module_size("\u5377\u7a4d\u5c64\u4e00", "\u5377\u7a4d\u5c64\u5377\u7a4d\u5c64").w, 185);
    /* U+0301 takes none */
    assert_int_equal(module_size("downsamplee\u0301", "Sequential").w, 194);
    take(of_operators(), "exact");
    const lmi_level *l = level_of("");
    assert_int_equal(size_of(l, "mm, exp").w, 71); /* 7 * 7 + 22 */
    assert_int_equal(size_of(l, "mm, exp").h, 24);
    assert_int_equal(size_of(l, "out").w, 43); /* 19.8 + 24 */
    assert_int_equal(size_of(l, "out").h, 20);
}

/* A module whose place the outline does not have. */
static void places_that_are_left_out(void **state) {
    (void)state;
    lam_error e = {0};
    begin(level_blocks(3), "exact");
    of_place[lam_model_find(model, "head")] = -2;
    of_place[lam_model_find(model, "blocks.2")] = -2 - lam_model_find(model, "blocks.1");
    assert_int_equal(take_levels(&o, &e), LAM_OK);
    assert_int_equal(node_of(level_of(""), "head")->place, -1);
    assert_int_equal(node_of(level_of(""), "blocks")->place, 1);
    assert_int_equal(o.at[lam_model_find(model, "blocks.2")].level, -1);
}

/* -- what there is no room or no reason for ----------------------------------------------------- */

static void no_operators(void **state) {
    (void)state;
    take(net_two_parents(false), "layers");
    assert_int_equal(o.n_levels, 0);
    assert_int_equal(o.at[0].level, -1);
    assert_int_equal(o.n_left, 1);
    assert_non_null(strstr(o.left[0], "There is no graph: the graph is made of operators"));
}

static void no_sources(void **state) {
    (void)state;
    net n = net_new();
    net_calls c = net_plain(&n);
    const lam_op_arg in[] = {T(0, 4)}, out[] = {T(0, 4)};
    net_op_args(&n, "aten::relu", (op_at){c.act, -1, LAM_FORWARD, 0}, in, 1, out, 1);
    take(net_done(&n), "exact");
    assert_int_equal(o.n_levels, 0);
    assert_int_equal(o.n_left, 1);
    assert_non_null(strstr(o.left[0], "There is no graph: "));
}

/* An operator that reads nothing, and whose result nothing reads. */
static void no_lines(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = level_place(&n, -1, "", "Net");
    level_place(&n, root, "a", "A");
    int32_t r = level_call(&n, root, -1, 1, 9);
    level_op(&n, "aten::arange", r, LAM_FORWARD, 5, 0, (uint64_t[]){0});
    take(net_done(&n), "exact");
    assert_int_equal(o.n_levels, 0);
    assert_int_equal(o.n_left, 1);
    assert_string_equal(o.left[0], "There is no graph: nothing was seen of where data comes from.");
}

/* Containers that all differ are drawn until there are about 500,000 bytes, the outermost first. */
static void a_page_has_a_size(void **state) {
    (void)state;
    enum { BLOCKS = 6000 };
    net n = net_new();
    int32_t root = level_place(&n, -1, "", "Net"), deep = level_place(&n, root, "deep", "Deep");
    for (int32_t k = 0; k < BLOCKS; k++) {
        char name[16];
        snprintf(name, sizeof name, "%c%d", k % 2 ? 'a' : 'b', (int)k);
        level_place(&n, level_place(&n, k % 2 ? deep : root, name, "Block"), name, "A");
    }
    int32_t r = level_call(&n, root, -1, 1, 2), d = level_call(&n, deep, r, 1, 2);
    for (int32_t k = 0; k < BLOCKS; k++) {
        int32_t b = level_call(&n, 2 + 2 * k, k % 2 ? d : r, 1, 100 + (uint64_t)k);
        level_leaf(&n, 3 + 2 * k, b, 1, 100 + (uint64_t)k);
    }
    take(net_done(&n), "exact");
    assert_int_equal(o.n_left, 1);
    assert_non_null(strstr(o.left[0], "of 6002 different ones"));
    assert_in_range(o.n_levels, 1500, 6001);
    for (int32_t k = 0; k < BLOCKS; k += 2) assert_true(o.at[2 + 2 * k].level >= 0); /* not so deep */
    assert_int_equal(o.at[2 + 2 * (BLOCKS - 1)].level, -1);
    assert_int_equal(o.level[0].cut, BLOCKS / 2 + 1 - 198); /* beside them are what comes in, and the rest */
}

static void try_to_take(void *unused, bool *ok) {
    (void)unused;
    lam_error e = {0};
    lmi_outline own = {.n = o.n, .at = o.at};
    lmi_arena_init(&own.arena, UINT64_MAX);
    *ok = oom_check(take_levels(&own, &e), &e);
    lam_graph_free(own.graph);
    lmi_arena_free(&own.arena);
}

static void memory_that_runs_out(void **state) {
    (void)state;
    begin(level_blocks(2), "exact");
    oom_sweep(try_to_take, NULL);
    forget(NULL);
    begin(net_two_parents(false), "layers");
    oom_sweep(try_to_take, NULL);
}

#define LEVELS(test) cmocka_unit_test_teardown(test, forget)

int main(void) {
    const struct CMUnitTest tests[] = {
        LEVELS(equal_containers_share_a_drawing),
        LEVELS(texts_of_nodes),
        LEVELS(numbers_of_nodes),
        LEVELS(numbers_of_what_is_inside),
        LEVELS(sizes_of_nodes),
        LEVELS(places_that_are_left_out),
        LEVELS(no_operators),
        LEVELS(no_sources),
        LEVELS(no_lines),
        LEVELS(a_page_has_a_size),
        LEVELS(memory_that_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
