/* SPDX-License-Identifier: Apache-2.0
 *
 * FLOPs of a token as others define them: what is counted of a net with a table, a norm that does not run and
 * a head; what formulas take of a configuration, and what they lack. */
#include "kit/oom.h"

#include "kit/ops_net.h"

enum { INT64 = 4, TABLE = 1, HEAD = 2, NORM = 3, PLACES = 4, IDS = 5, ROWS = 6 };

/* 2 sequences of 3 tokens, a table of 10 rows of 4, a head of the same size: 240 MACs. `places`: with a table
 * of 20 positions too, which no input looks up. */
static lam_model *talk_with(const char *config, bool trains, bool places) {
    net n = net_new();
    const int32_t root = net_module(&n, "Talk", 0), table = net_leaf(&n, "Embedding");
    const int32_t norm = net_leaf(&n, "LayerNorm"), head = net_leaf(&n, "Linear");
    net_numbered(&n, table, "weight", TABLE, true, SH(10, 4));
    net_numbered(&n, norm, "weight", NORM, true, SH(4));
    net_numbered(&n, head, "weight", HEAD, true, SH(10, 4));
    const int32_t p = net_place(&n, -1, "", root), more = net_leaf(&n, "Embedding");
    if (places) net_numbered(&n, more, "weight", PLACES, true, SH(20, 4));
    net_place(&n, p, "more", more);
    net_place(&n, p, "table", table);
    net_place(&n, p, "norm", norm);
    net_place(&n, p, "head", head);
    lam_arg ids = {NULL, 0, INT64, 0, 2, (const int64_t[]){2, 3}, IDS, 0, 0};
    lam_arg out = {NULL, 0, NET_FLOAT32, 0, 2, (const int64_t[]){6, 10}, 0, 0, 0};
    lam_call_info call = {.module = root, .parent = -1, .n_in = 1, .in = &ids, .n_out = 1, .out = &out};
    int32_t r = -1;
    NET_OK(&n, lam_build_call(n.b, &call, &r, &n.e));
    const int32_t inside = net_call(&n, head, r, SH(6, 4), 0, SH(6, 10), 0);
    const op_at at = {r, -1, LAM_FORWARD, 0}, in_head = {inside, -1, LAM_FORWARD, 0};
    lam_op_arg index = D(1, IDS, 2, 3);
    index.dtype = INT64;
    net_op_args(&n, "aten::embedding", at, IN(D(0, TABLE, 10, 4), index), OUT(D(0, ROWS, 6, 4)));
    lam_op_arg counted = D(1, 30, 1, 3);
    counted.dtype = INT64;
    if (places) net_op_args(&n, "aten::embedding", at, IN(D(0, PLACES, 20, 4), counted), OUT(D(0, 31, 3, 4)));
    net_op_args(&n, "aten::mm", in_head, IN(D(0, ROWS, 6, 4), V(1, 20, HEAD, 4, 10)), OUT(D(0, 21, 6, 10)));
    if (trains) {
        const int32_t node = net_op(&n, "MmBackward0", (op_at){inside, -1, LAM_BACKWARD, LAM_OP_NODE});
        const op_at back = {inside, node, LAM_BACKWARD, 0};
        net_op_args(&n, "aten::mm", back, IN(T(0, 10, 6), T(1, 6, 4)), OUT(T(0, 10, 4)));
    }
    if (config) NET_OK(&n, lam_build_provenance(n.b, "config", config, &n.e));
    NET_OK(&n, lam_build_ops_seen(n.b, &n.e));
    return net_done(&n);
}

static lam_model *talk(const char *config, bool trains) { return talk_with(config, trains, false); }

typedef struct held {
    lam_model *m;
    lam_costs *costs;
    lam_comparison *c;
} held;

static held compare_in(lam_model *m, const char *name, bool trains) {
    held h = {.m = m};
    lam_error e = {0};
    const lam_token_compare o = {.conventions = &name, .n = name != NULL, .training = trains};
    h.costs = net_costs(h.m, NULL, false);
    if (lam_compare_tokens(&h.c, h.costs, &o, &e) != LAM_OK) fail_msg("%s", e.text);
    return h;
}

static held compare(const char *config, const char *name, bool trains) {
    return compare_in(talk(config, trains), name, trains);
}

static void drop(held *h) {
    lam_compare_free(h->c);
    lam_costs_free(h->costs);
    lam_model_free(h->m);
}

/* Row 1 has this number, and the one reason with its part. */
static void expect(const held *h, int64_t flops, int32_t n, const char *text, int64_t part) {
    const lam_compared *counted = lam_compare_row(h->c, 0), *row = lam_compare_row(h->c, 1);
    int64_t sum = 0;
    bool found = false;
    net_expect(row->flops, flops, LAM_EXACT);
    assert_true(row->told);
    assert_int_equal(row->n_causes, n);
    for (int32_t i = 0; i < n; i++) {
        sum += row->causes[i].difference;
        if (strcmp(row->causes[i].text, text) != 0) continue;
        assert_int_equal(row->causes[i].difference, part);
        found = true;
    }
    assert_true(found);
    assert_int_equal(sum, row->difference);
    assert_int_equal(row->difference, flops - counted->flops.n);
}

static void what_is_counted_is_two_for_each_product(void **state) {
    (void)state;
    held h = compare(NULL, "hf", false);
    net_expect(lam_compare_row(h.c, 0)->macs, 240, LAM_EXACT);
    net_expect(lam_compare_row(h.c, 0)->flops, 480, LAM_EXACT);
    expect(&h, 2 * 6 * 44, 1, "counts parameters that the run did not use", 48);
    drop(&h);
}

static void a_table_and_scores_that_are_none_are_reasons(void **state) {
    (void)state;
    const char *config = "hidden_size=4 num_attention_heads=2 num_hidden_layers=1";
    held h = compare(config, "palm", false);
    expect(&h, 2 * 6 * 84 + 4 * 6 * 4 * 3, 3, "counts scores of attention, which the run does not have", 288);
    drop(&h);
    h = compare(config, "llm-foundry", false);
    expect(&h, 2 * 6 * 44 + 288, 2, "counts parameters that the run did not use", 48);
    drop(&h);
}

static void the_table_of_tokens_is_the_one_that_the_input_looks_up(void **state) {
    (void)state;
    const char *config = "hidden_size=4 num_attention_heads=2 num_hidden_layers=1";
    held h = compare_in(talk_with(config, false, true), "palm", false);
    expect(&h, 2 * 6 * 84 + 288, 3, "counts the table of tokens as a product; a token looks up one row", 480);
    drop(&h);
    h = compare_in(talk_with(config, false, true), "llm-foundry", false);
    expect(&h, 2 * 6 * (44 + 80) + 288, 3, "counts other tables, as of positions, as products", 960);
    drop(&h);
}

static void a_backward_pass_that_is_less_than_twice_the_forward_is_a_reason(void **state) {
    (void)state;
    held h = compare(NULL, "hf", true);
    net_expect(lam_compare_row(h.c, 0)->flops, 960, LAM_EXACT);
    expect(&h, 3 * 2 * 6 * 44, 2,
           "takes the backward pass as twice the forward, and less ran, as where layers are frozen", 480);
    drop(&h);
}

static void what_a_configuration_does_not_tell_is_named(void **state) {
    (void)state;
    static const struct {
        const char *config, *name, *gap;
    } all[] = {
        {NULL, "palm",
         "it needs num_hidden_layers, num_attention_heads, hidden_size, and the model has no configuration"},
        {"hidden_size=4 num_hidden_layers=1", "palm",
         "it needs num_attention_heads, which the model's configuration does not tell"},
        {"hidden_size=4x num_hidden_layers=1", "llm-foundry",
         "it needs hidden_size, which the model's configuration does not tell"},
        {"hidden_size= num_hidden_layers=-1 n_layer=99999999999999999999", "llm-foundry",
         "it needs num_hidden_layers, hidden_size, which the model's configuration does not tell"},
        {"hidden_size=4 num_hidden_layers=1 num_attention_heads=0", "palm",
         "it needs numbers that it can be computed with, which the model's configuration does not tell"},
        {"hidden_size=4 num_hidden_layers=2 num_attention_heads=2 layer_types=full_attention,mamba", "titan",
         "it needs a term for layers of another kind than attention, which the model's configuration does "
         "not "
         "tell"},
        {"hidden_size=4 num_hidden_layers=1 num_attention_heads=2 num_experts=4 vocab_size=10", "vllm",
         "it needs num_experts_per_tok, which the model's configuration does not tell"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        held h = compare(all[i].config, all[i].name, false);
        assert_string_equal(lam_compare_row(h.c, 1)->gap, all[i].gap);
        assert_false(lam_compare_row(h.c, 1)->told);
        drop(&h);
    }
}

/* vLLM's formula of one layer of hidden size 4, 2 heads and 10 words, with so many layers of experts. */
static void layers_with_experts_are_those_that_the_configuration_lists(void **state) {
    (void)state;
    const char *all = "hidden_size=4 num_attention_heads=2 num_hidden_layers=6 vocab_size=10 num_experts=3 "
                      "num_experts_per_tok=2 moe_intermediate_size=5 intermediate_size=7";
    static const struct {
        const char *more;
        int64_t layers;
    } cases[] = {{"", 6},
                 {"first_k_dense_replace=2", 6},
                 {"first_k_dense_replace=2 moe_layer_freq=1", 4},
                 {"first_k_dense_replace=1 moe_layer_freq=2", 2},
                 {"first_k_dense_replace=9 moe_layer_freq=1", 0},
                 {"interleave_moe_layer_step=2", 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char config[256];
        snprintf(config, sizeof config, "%s %s", all, cases[i].more);
        held h = compare(config, "vllm", false);
        const int64_t layers = cases[i].layers, scores = 2 * 6 * 2 * 4 * 6 * 3;
        const int64_t flops =
            2 * 6 * 6 * 4 * 16 + scores + 6 * 6 * 4 * (7 * (6 - layers) + 10 * layers) + 2 * 2 * 40;
        net_expect(lam_compare_row(h.c, 1)->flops, flops, LAM_EXACT);
        drop(&h);
    }
}

static void every_convention_is_a_row_and_no_other_is_known(void **state) {
    (void)state;
    lam_error e = {0};
    held h = compare(NULL, NULL, false);
    for (int32_t i = 0; i < lam_n_token_conventions(); i++) {
        assert_string_equal(lam_compare_row(h.c, i + 1)->convention, lam_token_convention(i));
        assert_non_null(lam_compare_row(h.c, i + 1)->formula);
        assert_non_null(lam_compare_row(h.c, i + 1)->source);
        assert_int_equal(lam_token_convention_known(lam_token_convention(i), NULL), LAM_OK);
    }
    assert_null(lam_compare_row(h.c, lam_n_token_conventions() + 1));
    assert_null(lam_token_convention(lam_n_token_conventions()));
    assert_int_equal(lam_token_convention_known("torch", &e), LAM_USAGE);
    assert_non_null(strstr(e.text, "llm-foundry"));
    const char *name = "torch";
    const lam_token_compare o = {.conventions = &name, .n = 1};
    lam_comparison *c;
    assert_int_equal(lam_compare_tokens(&c, h.costs, &o, &e), LAM_USAGE);
    assert_null(c);
    assert_int_equal(lam_compare_tokens(NULL, h.costs, NULL, &e), LAM_USAGE);
    drop(&h);
}

static void try_all(void *arg, bool *ok) {
    lam_error e = {0};
    lam_costs *costs = NULL;
    lam_comparison *c = NULL;
    lam_status s = lam_costs_new(&costs, arg, NULL, &e);
    if (s == LAM_OK) s = lam_compare_tokens(&c, costs, NULL, &e);
    *ok = oom_check(s, &e);
    lam_compare_free(c);
    lam_costs_free(costs);
}

static void memory_may_run_out_anywhere(void **state) {
    (void)state;
    lam_model *m = talk("hidden_size=4 num_attention_heads=2 num_hidden_layers=1 vocab_size=10", true);
    lam_error e = {0};
    assert_int_equal(lam_model_find_sources(m, &e), LAM_OK);
    oom_sweep(try_all, m);
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_counted_is_two_for_each_product),
        cmocka_unit_test(a_table_and_scores_that_are_none_are_reasons),
        cmocka_unit_test(the_table_of_tokens_is_the_one_that_the_input_looks_up),
        cmocka_unit_test(a_backward_pass_that_is_less_than_twice_the_forward_is_a_reason),
        cmocka_unit_test(what_a_configuration_does_not_tell_is_named),
        cmocka_unit_test(layers_with_experts_are_those_that_the_configuration_lists),
        cmocka_unit_test(every_convention_is_a_row_and_no_other_is_known),
        cmocka_unit_test(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
