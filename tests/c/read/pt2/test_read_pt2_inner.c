/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators of torch.export's programs that call others: which ones are told inside them, and what a call
 * costs with them. */
#include "kit/program.h"

/* The operators inside the first one, in the order in which they run. */
static void names_inside(const lam_model *m, char *text, size_t room) {
    *text = '\0';
    for (int32_t i = 1; i < lam_model_n_ops(m); i++) {
        const char *name = lam_model_op(m, i)->sig->name;
        assert_true(lam_model_op(m, i)->parent >= 0);
        if (strncmp(name, "aten::", 6) == 0) name += 6;
        snprintf(text + strlen(text), room - strlen(text), "%s%s", *text ? " " : "", name);
    }
}

typedef struct told {
    const char *node, *tensors, *inside;
    int64_t macs; /* -1: unknown, at least, or beyond 64 bits */
} told;

/* The words of a node, in which one argument is another. False: there are not so many. */
static bool put_other(char *to, size_t room, const char *node, int which, const char *other) {
    char copy[512];
    bool found = false;
    snprintf(copy, sizeof copy, "%s", node);
    *to = '\0';
    const char *word = strtok(copy, " ");
    for (int i = 0; word; word = strtok(NULL, " "), i++) {
        if (strcmp(word, "->") == 0) which = -1; /* results stay */
        found = found || i == which;
        snprintf(to + strlen(to), room - strlen(to), "%s%s", i ? " " : "", i == which ? other : word);
    }
    return found;
}

/* The operator itself is there, whatever is inside it. */
static void is_read(const char *node, const told *t) {
    char tensors[512];
    snprintf(tensors, sizeof tensors, "%s none_ - seven_ 7 open_ u0=null", t->tensors);
    save_program("other.pt2", &(program){.nodes = node, .tensors = tensors});
    lam_model *m = opened("other.pt2");
    assert_non_null(lam_model_op(m, 0));
    assert_int_equal(lam_model_op(m, 0)->parent, -1);
    lam_costs_free(costs_of(m));
    lam_model_free(m);
}

/* The same operator with each argument something else in turn, with its first ones alone, and without results
 * or with one of unknown sizes: what is inside is left out, or told as far as it is known. */
static void may_have_other_arguments(const told *t) {
    static const char *const others[] = {"none", "3",     "-1",    "{1,2}",          "{}",   "true",
                                         "0.5",  "'add'", "none_", "[seven_,none_]", "open_"};
    char node[512];
    const char *const arrow = strstr(t->node, " ->");
    for (size_t k = 0; k < sizeof others / sizeof *others; k++)
        for (int which = 1; put_other(node, sizeof node, t->node, which, others[k]); which++)
            is_read(node, t);
    for (const char *end = strchr(t->node, ' '); end <= arrow; end = strchr(end + 1, ' ')) {
        snprintf(node, sizeof node, "%.*s%s", (int)(end - t->node), t->node, arrow);
        is_read(node, t);
    }
    for (int open = 0; open < 2; open++) {
        snprintf(node, sizeof node, "%.*s%s", (int)(arrow - t->node), t->node, open ? " -> open_" : "");
        is_read(node, t);
    }
}

/* Also where memory runs out. */
static void are_told(const told *all, size_t n) {
    for (size_t i = 0; i < n; i++) {
        char text[1024];
        save_program("inner.pt2", &(program){.nodes = all[i].node, .tensors = all[i].tensors});
        lam_model *m = opened("inner.pt2");
        lam_costs *c = costs_of(m);
        const lam_count macs = lam_costs_total(c, LAM_MACS);
        names_inside(m, text, sizeof text);
        assert_string_equal(text, all[i].inside);
        if ((macs.state == LAM_EXACT && !macs.over ? macs.n : -1) != all[i].macs)
            fail_msg("%s (%s): %lld MACs, state %d", all[i].node, all[i].tensors, (long long)macs.n,
                     macs.state);
        lam_costs_free(c);
        lam_model_free(m);
        oom_sweep_parts(read_once, "inner.pt2");
        may_have_other_arguments(&all[i]);
    }
}

#define ARE_TOLD(all) are_told(all, sizeof(all) / sizeof *(all))

/* -- states ---------------------------------------------------------------------------------------------- */

#define LSTM_GATES "add_ sigmoid_ sigmoid_ tanh_ sigmoid_ mul mul add_ tanh mul"
/* The norms of a weight, the places of the largest. */
static void results_that_a_program_leaves_out_are_made(void **state) {
    (void)state;
    static const told all[] = {
        {"_weight_norm x g 0 -> y", "x 6,4 g 6,1 y 6,4", "_weight_norm_interface", 0},
        {"_weight_norm x 3 0 -> y", "x 6,4 y 6,4", "", -1},
        {"max_pool2d x {2,2} {2,2} -> y", "x 1,3,8,8 y 1,3,4,4", "max_pool2d_with_indices", 0},
        {"max_pool3d x {2,2,2} {2,2,2} -> y", "x 1,3,4,4,4 y 1,3,2,2,2", "max_pool3d_with_indices", 0},
        {"max_pool2d x {2,2} {2,2} -> y z", "x 1,3,8,8 y 1,3,4,4 z 1", "", 0},
    };
    ARE_TOLD(all);
}

#define GRU_GATES "add_ sigmoid_ add_ sigmoid_ mul_ add_ tanh_ sub mul_ add_"
#define STATES    " h 1,5,4 c 1,5,4 y 2,5,4 hn 1,5,4 cn 1,5,4"
#define LSTM      "x 2,5,3 wi 16,3 wh 16,4 bi 16 bh 16" STATES

/* Two steps of five sequences, 3 numbers in and 4 out. */
static void layers_with_a_state_have_an_operator_each(void **state) {
    (void)state;
    static const told all[] = {
        {"lstm x [h,c] [wi,wh,bi,bh] true 1 0.0 false false false -> y hn cn", LSTM, "mkldnn_rnn_layer",
         2 * 5 * 16 * (3 + 4)},
        {"lstm x [h,c] [wi,wh] false 1 0.0 false false false -> y hn cn", LSTM, "mkldnn_rnn_layer",
         2 * 5 * 16 * (3 + 4)},
        /* batch first: five steps of two sequences */
        {"lstm x [h,c] [wi,wh,bi,bh] true 1 0.0 false false true -> y hn cn", LSTM, "mkldnn_rnn_layer",
         5 * 2 * 16 * (3 + 4)},
        {"gru x h [wi,wh,bi,bh] true 1 0.0 false false false -> y hn",
         "x 2,5,3 wi 12,3 wh 12,4 bi 12 bh 12" STATES, "linear linear " GRU_GATES, 2 * 5 * 12 * (3 + 4)},
        {"rnn_tanh x h [wi,wh,bi,bh] true 1 0.0 false false false -> y hn",
         "x 2,5,3 wi 4,3 wh 4,4 bi 4 bh 4" STATES, "linear linear add_ tanh", 2 * 5 * 4 * (3 + 4)},
        {"rnn_relu x h [wi,wh,bi,bh] true 1 0.0 false false false -> y hn",
         "x 2,5,3 wi 4,3 wh 4,4 bi 4 bh 4" STATES, "linear linear add_ relu", 2 * 5 * 4 * (3 + 4)},
        /* without an axis of sequences */
        {"rnn_tanh x h [wi,wh,bi,bh] true 1 0.0 false false false -> y hn",
         "x 2,3 wi 4,3 wh 4,4 bi 4 bh 4 h 1,4 y 2,4 hn 1,4", "linear linear add_ tanh", 2 * 4 * (3 + 4)},
        /* packed: six steps of all sequences */
        {"gru x n h [wi,wh,bi,bh] true 1 0.0 false false -> y hn",
         "x 6,3 n ;3 wi 12,3 wh 12,4 bi 12 bh 12 h 1,3,4 y 6,4 hn 1,3,4", "linear linear " GRU_GATES,
         6 * 12 * (3 + 4)},
        /* both directions, and a second layer of what both gave */
        {"lstm x [h,c] [wi,wh,wi,wh,w2,wh,w2,wh] false 2 0.0 false true false -> y hn cn",
         "x 2,5,3 wi 16,3 wh 16,4 w2 16,8 h 4,5,4 c 4,5,4 y 2,5,8 hn 4,5,4 cn 4,5,4",
         "mkldnn_rnn_layer mkldnn_rnn_layer mkldnn_rnn_layer mkldnn_rnn_layer",
         2 * 2 * 5 * 16 * (3 + 4 + 8 + 4)},
        /* a dropout between layers, in training alone */
        {"lstm x [h,c] [wi,wh,w2,wh] false 2 0.5 true false false -> y hn cn",
         "x 2,5,3 wi 16,3 wh 16,4 w2 16,4" STATES,
         "mkldnn_rnn_layer dropout empty_like bernoulli_ div_ mul mkldnn_rnn_layer",
         2 * 5 * 16 * (3 + 4 + 4 + 4)},
        {"lstm x [h,c] [wi,wh,w2,wh] false 2 0.5 false false false -> y hn cn",
         "x 2,5,3 wi 16,3 wh 16,4 w2 16,4" STATES, "mkldnn_rnn_layer mkldnn_rnn_layer",
         2 * 5 * 16 * (3 + 4 + 4 + 4)},
        /* batch first: biases are added behind the product of what was turned */
        {"gru x h [wi,wh,bi,bh] true 1 0.0 false false true -> y hn",
         "x 2,5,3 wi 12,3 wh 12,4 bi 12 bh 12" STATES, "linear add_ linear " GRU_GATES, 2 * 5 * 12 * (3 + 4)},
        {"gru x h [wi,wh] false 1 0.0 false false true -> y hn", "x 2,5,3 wi 12,3 wh 12,4 bi 12 bh 12" STATES,
         "linear linear " GRU_GATES, 2 * 5 * 12 * (3 + 4)},
        /* a projection of the state to two numbers */
        {"lstm x [h,c] [wi,wh,bi,bh,wp] true 1 0.0 false false false -> y hn cn",
         "x 2,5,3 wi 16,3 wh 16,2 bi 16 bh 16 wp 2,4 h 1,5,2 c 1,5,4 y 2,5,2 hn 1,5,2 cn 1,5,4",
         "linear linear " LSTM_GATES " linear", 2 * 5 * (16 * (3 + 2) + 2 * 4)},
        /* one sequence is turned without a copy; of two layers the second has another width */
        {"gru x h [wi,wh,bi,bh] true 1 0.0 false false true -> y hn",
         "x 1,5,3 wi 12,3 wh 12,4 bi 12 bh 12 h 1,1,4 y 1,5,4 hn 1,1,4", "linear linear " GRU_GATES,
         5 * 12 * (3 + 4)},
        {"gru x h [wi,wh,bi,bh,w2,wh,bi,bh] true 2 0.0 false false true -> y hn",
         "x 2,5,3 wi 12,3 wh 12,4 w2 12,4 bi 12 bh 12 h 2,2,4 y 2,5,4 hn 2,2,4",
         "linear add_ linear " GRU_GATES " linear linear " GRU_GATES, 2 * 5 * 12 * (3 + 4 + 4 + 4)},
    };
    ARE_TOLD(all);
}

static void layers_whose_weights_do_not_fit_are_not_opened(void **state) {
    (void)state;
    static const told all[] = {
        {"lstm x [h,c] [wi,wh,bi] true 1 0.0 false false false -> y hn cn", LSTM, "", -1},
        {"lstm x [h,c] [wi,wh,bi,bh] true 3 0.0 false false false -> y hn cn", LSTM, "", -1},
        {"lstm x [h,c] [wi,wh,bi,bh] true 0 0.0 false false false -> y hn cn", LSTM, "", -1},
        {"lstm x [h,c] [wi,wh,bi,bh] true -1 0.0 false true false -> y hn cn", LSTM, "", -1},
        {"lstm x [h,c] [bi,bh,wi,wh] true 1 0.0 false false false -> y hn cn", LSTM, "", -1},
        {"lstm x [h,c] [wi,wh,bi,bh,bi] true 1 0.0 false false false -> y hn cn", LSTM, "", -1},
        {"lstm x [h,c] [wi,wh,bi,bh,wi,wh] true 1 0.0 false false false -> y hn cn", LSTM, "", -1},
        {"lstm 3 [h,c] [wi,wh,bi,bh] true 1 0.0 false false false -> y hn cn", LSTM, "", -1},
        {"lstm x -> y hn cn", LSTM, "", -1},
        {"lstm bi [h,c] [wi,wh,bi,bh] true 1 0.0 false false false -> y hn cn", LSTM, "", -1},
        {"lstm z [h,c] [wi,wh,bi,bh] true 1 0.0 false false false -> y hn cn", LSTM " z 1,2,5,3", "", -1},
        {"lstm x [h,c] [wi,wh,bi,bh,bi] true 1 0.0 false false false -> y hn cn", LSTM, "", -1},
    };
    ARE_TOLD(all);
}

static void cells_are_both_products_and_their_gates(void **state) {
    (void)state;
    static const told all[] = {
        {"lstm_cell x [h,c] wi wh bi bh -> y cn",
         "x 5,3 h 5,4 c 5,4 wi 16,3 wh 16,4 bi 16 bh 16 y 5,4 cn 5,4", "linear linear " LSTM_GATES,
         5 * 16 * (3 + 4)},
        {"gru_cell x h wi wh bi bh -> y", "x 5,3 h 5,4 wi 12,3 wh 12,4 bi 12 bh 12 y 5,4",
         "linear linear " GRU_GATES, 5 * 12 * (3 + 4)},
        {"rnn_tanh_cell x h wi wh -> y", "x 5,3 h 5,4 wi 4,3 wh 4,4 y 5,4", "linear linear add_ tanh",
         5 * 4 * (3 + 4)},
        {"rnn_relu_cell x h wi wh -> y", "x 3 h 4 wi 4,3 wh 4,4 y 4", "linear linear add_ relu", 4 * (3 + 4)},
        {"rnn_relu_cell x h wi b -> y", "x 3 h 4 wi 4,3 b 4 y 4", "", -1},
        {"rnn_relu_cell x h -> y", "x 3 h 4 y 4", "", -1},
        {"rnn_relu_cell x h wi wh -> y", "x 1,5,3 h 5,4 wi 4,3 wh 4,4 y 5,4", "", -1},
    };
    ARE_TOLD(all);
}

/* -- products -------------------------------------------------------------------------------------------- */

static void equations_are_products_from_the_left(void **state) {
    (void)state;
    static const told all[] = {
        {"einsum 'ij,jk->ik' [x,w] -> y", "x 2,3 w 3,4 y 2,4", "as_strided as_strided bmm as_strided",
         2 * 3 * 4},
        {"einsum 'ij,jk' [x,w] -> y", "x 2,3 w 3,4 y 2,4", "as_strided as_strided bmm as_strided", 2 * 3 * 4},
        {"einsum 'bij,bjk->bik' [x,w] -> y", "x 5,2,3 w 5,3,4 y 5,2,4",
         "as_strided as_strided bmm as_strided", 5 * 2 * 3 * 4},
        {"einsum '...ij,...jk->...ik' [x,w] -> y", "x 5,7,2,3 w 5,7,3,4 y 5,7,2,4",
         "as_strided as_strided bmm as_strided", 5 * 7 * 2 * 3 * 4},
        /* one of a batch for all */
        {"einsum 'bij,bjk->bik' [x,w] -> y", "x 5,2,3 w 1,3,4 y 5,2,4",
         "as_strided as_strided bmm as_strided", 5 * 2 * 3 * 4},
        /* of elements: nothing is summed */
        {"einsum 'i,j->ij' [x,w] -> y", "x 2 w 3 y 2,3", "as_strided as_strided mul as_strided", 0},
        {"einsum 'I,J->IJ' [x,w] -> y", "x 2 w 3 y 2,3", "as_strided as_strided mul as_strided", 0},
        /* an axis of one operand alone is summed first */
        {"einsum 'ijz,jk->ik' [x,w] -> y", "x 2,3,6 w 3,4 y 2,4",
         "as_strided sum as_strided as_strided bmm as_strided", 2 * 3 * 4},
        {"einsum 'ij,jkz->ik' [x,w] -> y", "x 2,3 w 3,4,6 y 2,4",
         "as_strided sum as_strided as_strided bmm as_strided", 2 * 3 * 4},
        /* of one operand: a sum, a diagonal, another order */
        {"einsum 'ij->i' [x] -> y", "x 2,3 y 2", "as_strided sum as_strided", 0},
        {"einsum 'ii->i' [x] -> y", "x 3,3 y 3", "as_strided", 0},
        {"einsum 'ij->ji' [x] -> y", "x 2,3 y 3,2", "as_strided", 0},
        /* three operands: the first two, then their product with the third */
        {"einsum 'ij,jk,kl->il' [x,w,v] -> y", "x 2,3 w 3,4 v 4,5 y 2,5",
         "as_strided as_strided bmm as_strided as_strided bmm as_strided", 2 * 3 * 4 + 2 * 4 * 5},
    };
    ARE_TOLD(all);
}

static void equations_that_do_not_fit_are_not_opened(void **state) {
    (void)state;
    static const told all[] = {
        {"einsum 'ijk,jk->ik' [x,w] -> y", "x 2,3 w 3,4 y 2,4", "", -1},
        {"einsum 'i,jk->ik' [x,w] -> y", "x 2,3 w 3,4 y 2,4", "", -1},
        {"einsum 'i?,jk->ik' [x,w] -> y", "x 2,3 w 3,4 y 2,4", "", -1},
        {"einsum 'ij,jk->ik' [x] -> y", "x 2,3 y 2,4", "", -1},
        {"einsum 'ij->i' [x,w] -> y", "x 2,3 w 3,4 y 2", "", -1},
        {"einsum '......->' [x] -> y", "x 2,3 y -", "", -1},
        {"einsum '......ab->ab' [x] -> y", "x 2,3,4,5 y 4,5", "", -1},
        {"einsum 'ab.->ab' [x] -> y", "x 2,3 y 2,3", "", -1},
        {"einsum 'ab.c->ab' [x] -> y", "x 2,3,4 y 2,3", "", -1},
        {"einsum 'ab..c->ab' [x] -> y", "x 2,3,4 y 2,3", "", -1},
        {"einsum 'a[b->ab' [x] -> y", "x 2,3 y 2,3", "", -1},
        {"einsum 'a{b->ab' [x] -> y", "x 2,3 y 2,3", "", -1},
        {"einsum 7 [x] -> y", "x 2,3 y 2", "", -1},
    };
    ARE_TOLD(all);
}

/* Products beyond 64 bits are unknown from there on, and nothing is 0. */
static void equations_beyond_64_bits_are_unknown(void **state) {
    (void)state;
    static const told all[] = {
        {"einsum 'ab,ab->' [x,w] -> y", "x 4000000000,4000000000 w 4000000000,4000000000 y -", "einsum", -1},
        {"einsum 'ab,cb->' [x,w] -> y", "x 4000000000,4000000000 w 4000000000,4000000000 y -", "einsum", -1},
        {"einsum 'ab->' [x] -> y", "x 4000000000,4000000000 y -", "einsum", -1},
        {"einsum 'a,b,c->abc' [x,w,v] -> y", "x 4000000000 w 4000000000 v 4 y 4000000000,4000000000,4",
         "as_strided as_strided mul einsum", -1},
        {"einsum 'abc,ab->c' [x,w] -> y", "x 4000000000,4000000000,4 w 4000000000,4000000000 y 4", "einsum",
         -1},
        {"einsum 'abc,abc->abc' [x,w] -> y", "x 4000000000,4000000000,4 w 4000000000,4000000000,4 y 4",
         "einsum", -1},
        {"einsum 'abc,cd->d' [x,w] -> y", "x 4000000000,4000000000,4 w 4,2 y 2", "einsum", -1},
        {"einsum 'c,abc->c' [w,x] -> y", "x 4000000000,4000000000,4 w 4 y 4", "einsum", -1},
    };
    ARE_TOLD(all);
}

static void products_of_rows_and_batches_are_one(void **state) {
    (void)state;
    static const told all[] = {
        {"linear x w b -> y", "x 2,3 w 4,3 b 4 y 2,4", "addmm", 2 * 3 * 4},
        /* rows that do not lie one after the other: the bias is added afterwards */
        {"linear x w b -> y", "x 2,5,3/3,6,1 w 4,3 b 4 y 2,5,4", "mm add_", 2 * 5 * 3 * 4},
        {"linear x w b -> y", "x 2,5,3/15,3,1 w 4,3 b 4 y 2,5,4", "addmm", 2 * 5 * 3 * 4},
        {"linear x w b -> y", "x 2,1,3/3,99,1 w 4,3 b 4 y 2,1,4", "addmm", 2 * 3 * 4},
        {"linear x w b -> y", "x 2,5,3/u0=null,3,1 w 4,3 b 4 y 2,5,4", "addmm", 2 * 5 * 3 * 4},
        {"linear x w b -> y", "x 2,5,3/9,1 w 4,3 b 4 y 2,5,4", "addmm", 2 * 5 * 3 * 4},
        {"linear x w b -> y", "x 2,5,3 w 4,7 b 4 y 2,5,4", "", 2 * 5 * 3 * 4},
        {"linear x w -> y", "x 4000000000,4000000000,1 w 4,1 y 4000000000,4", "", INT64_C(4000000000) * 4},
        {"linear x w -> y", "x 4000000000,4000000000,4/1,4000000000,1 w 4,4 y 4000000000,4", "",
         INT64_C(4000000000) * 4 * 4},
        {"matmul x w -> y", "x 2,3 w 3,4 y 2,4", "view view mm view", 2 * 3 * 4},
        {"matmul x w -> y", "x 5,2,3 w 3,4 y 5,2,4", "view view mm view", 5 * 2 * 3 * 4},
        {"matmul x w -> y", "x 7,5,2,3 w 7,5,3,4 y 7,5,2,4", "view view bmm view", 7 * 5 * 2 * 3 * 4},
        {"matmul x w -> y", "x 3 w 3 y -", "", 3},
        {"matmul x w -> y", "x 7,1,2,3 w 7,5,3,4 y 7,5,2,4", "", 7 * 5 * 2 * 3 * 4},
        {"matmul x w -> y", "x 7,2,3 w 5,7,3,4 y 5,7,2,4", "", 5 * 7 * 2 * 3 * 4},
        {"matmul x w -> y", "x 2,3 w 5,3,4 y 5,2,4", "", 5 * 2 * 3 * 4},
        {"matmul x w -> y", "x 2,3 w 5,4 y 2,4", "", 2 * 3 * 4},
        {"matmul x w -> y", "x 4000000000,4000000000,2,3 w 3,4 y 4000000000,4", "",
         INT64_C(4000000000) * 3 * 4},
        {"matmul x w -> y", "x 4000000000,4000000000,2,3 w 4000000000,4000000000,3,4 y 2,4", "", 2 * 3 * 4},
        {"linalg_matmul x w -> y", "x 2,3 w 3,4 y 2,4", "matmul view view mm view", 2 * 3 * 4},
        {"bilinear x z w b -> y", "x 5,2 z 5,3 w 4,2,3 b 4 y 5,4",
         "as_strided bmm as_strided bmm as_strided add_ add_", 5 * 4 * (2 * 3 + 3)},
        {"bilinear x z w -> y", "x 5,2 z 5,3 w 4,2,3 y 5,4", "as_strided bmm as_strided bmm as_strided add_",
         5 * 4 * (2 * 3 + 3)},
        {"bilinear x z w -> y", "x 5,2 z 5,3 w 4,2 y 5,4", "", -1},
        {"bilinear x z w -> y", "x 4000000000,4000000000,2 z 5,3 w 4,2,3 y 5,4", "", -1},
        {"bilinear x z w -> y", "x 4000000000,2 z 4000000000,3 w 4000000000,2,3 y 5,4", "", -1},
    };
    ARE_TOLD(all);
}

/* -- other layers ---------------------------------------------------------------------------------------- */

static void layers_call_what_torch_calls(void **state) {
    (void)state;
    static const told all[] = {
        {"conv2d x w b {1,1} {1,1} {1,1} 1 -> y", "x 1,2,8,8 w 4,2,3,3 b 4 y 1,4,8,8", "convolution",
         8 * 8 * 4 * 2 * 9},
        {"conv2d x w b {1,1} 'same' {1,1} 1 -> y", "x 1,2,8,8 w 4,2,3,3 b 4 y 1,4,8,8", "convolution",
         8 * 8 * 4 * 2 * 9},
        {"conv1d x w none {1} 'same' {1} 1 -> y", "x 1,2,8 w 4,2,4 y 1,4,8", "constant_pad_nd convolution",
         8 * 4 * 2 * 4},
        {"conv_transpose2d x w none {2,2} {0,0} {0,0} 1 {1,1} -> y", "x 1,2,4,4 w 2,3,2,2 y 1,3,8,8",
         "convolution", 4 * 4 * 2 * 3 * 4},
        {"conv2d x -> y", "x 1,2,8,8 y 1,4,8,8", "", -1},
        {"pad x {1,1} 'constant' 0.0 -> y", "x 2,3 y 2,5", "constant_pad_nd", 0},
        {"pad x {1,1} 'circular' -> y", "x 2,3 y 2,5", "_pad_circular clone", 0},
        {"pad x {1,1} 'reflect' -> y", "x 2,3 y 2,5", "reflection_pad1d", 0},
        {"pad x {1,1,1,1} 'replicate' -> y", "x 1,3,3 y 1,5,5", "replication_pad2d", 0},
        {"pad x {} 'replicate' -> y", "x 1,3,3 y 1,5,5", "", -1},
        {"dropout x 0.5 true -> y", "x 2,3 y 2,3", "empty_like bernoulli_ div_ mul", 0},
        {"dropout x 0.0 true -> y", "x 2,3 y 2,3", "", 0},
        {"dropout x 0.5 false -> y", "x 2,3 y 2,3", "", 0},
        {"group_norm x 2 w b 0.00001 -> y", "x 2,4,3,3 w 4 b 4 y 2,4,3,3", "native_group_norm", 0},
        {"group_norm x 0 w b 0.00001 -> y", "x 2,4,3,3 w 4 b 4 y 2,4,3,3", "", 0},
        {"instance_norm x w b none none true 0.1 0.00001 true -> y", "x 2,4,3,3 w 4 b 4 y 2,4,3,3",
         "view native_batch_norm view", 0},
        {"upsample_nearest2d x none <2.0,2.0> -> y", "x 1,2,4,4 y 1,2,8,8", "upsample_nearest2d", 0},
        {"upsample_bilinear2d x none false <2.0,2.0> -> y", "x 1,2,4,4 y 1,2,8,8", "upsample_bilinear2d", 0},
        {"upsample_nearest2d x {8,8} none -> y", "x 1,2,4,4 y 1,2,8,8", "", 0},
        {"one_hot x 3 -> y", "x ;5 y ;5,3", "aminmax scatter_", 0},
        {"diff x 1 -> y", "x 5 y 4", "sub", 0},
        {"diff x 2 -> y", "x 5 y 3", "", -1},
        {"conv1d x w none {1} 'valid' {1} 1 -> y", "x 1,2,8 w 4,2,4 y 1,4,5", "convolution", 5 * 4 * 2 * 4},
        {"conv2d x w none {1,1} 'same' {1,1} 1 -> y", "x 1,2,8,8 w 4,2,4,2 y 1,4,8,8",
         "constant_pad_nd convolution", 8 * 8 * 4 * 2 * 8},
        /* windows whose padding is none, or beyond 64 bits */
        {"conv1d x w none {1} 'same' {1} 1 -> y", "x 1,2,8 w 4,2,0 y 1,4,8", "convolution", 0},
        {"conv1d x w none {1} 'same' {-9} 1 -> y", "x 1,2,8 w 4,2,4 y 1,4,8", "convolution", 8 * 4 * 2 * 4},
        {"conv1d x w none {1} 'same' {9223372036854775807} 1 -> y", "x 1,2,8 w 4,2,3 y 1,4,8", "convolution",
         8 * 4 * 2 * 3},
        {"conv1d x w none {1} 'same' {1} 1 -> y", "x 1,2,9223372036854775807 w 4,2,2 y 1,4,8", "convolution",
         8 * 4 * 2 * 2},
        {"pad x {1,1,1,1,1,1,1,1} 'replicate' -> y", "x 1,3,3,3,3 y 3,5,5,5,5", "", -1},
        {"instance_norm x w b none none true 0.1 0.00001 true -> y",
         "x 4000000000,4000000000,1 w 4000000000 b 4000000000 y 4000000000,4000000000,1", "", 0},
        {"upsample_nearest3d x none <2.0,2.0,2.0> -> y", "x 1,2,4,4,4 y 1,2,8,8,8", "upsample_nearest3d", 0},
        {"upsample_nearest1d x none <2.0,2.0> -> y", "x 1,2,4 y 1,2,8", "", 0},
        {"upsample_nearest1d x none <2.0> -> y", "x 1,2,4 y 1,16", "", 0},
        {"upsample_nearest3d x none <2.0> -> y", "x 1,2,3,4,5,6 y 1,2,3,4,5,12", "", 0},
    };
    ARE_TOLD(all);
}

static void losses_call_what_torch_calls(void **state) {
    (void)state;
    static const told all[] = {
        {"cross_entropy_loss x t none 1 -100 0.0 -> y", "x 5,3 t ;5 y -", "_log_softmax nll_loss_forward", 0},
        {"cross_entropy_loss x t none 1 -100 0.0 -> y", "x 5,3,2,2 t ;5,2,2 y -",
         "_log_softmax nll_loss2d_forward", 0},
        {"cross_entropy_loss x t none 1 -100 0.1 -> y", "x 5,3 t ;5 y -", "", -1},
        {"nll_loss_nd x t none 1 -100 -> y", "x 5,3 t ;5 y -", "nll_loss_forward", 0},
        {"nll_loss x t none 1 -100 -> y", "x 5,3,2,2 t ;5,2,2 y -", "nll_loss2d_forward", 0},
        {"binary_cross_entropy_with_logits x t none none 1 -> y", "x 5 t 5 y -",
         "log_sigmoid_forward sub_ mul_ sub_ mean", 0},
        {"binary_cross_entropy_with_logits x t none none 2 -> y", "x 5 t 5 y -",
         "log_sigmoid_forward sub_ mul_ sub_ sum", 0},
        {"binary_cross_entropy_with_logits x t none none 0 -> y", "x 5 t 5 y 5",
         "log_sigmoid_forward sub_ mul_ sub_", 0},
        {"binary_cross_entropy_with_logits x t w none 0 -> y", "x 5 t 5 w 5 y 5", "", -1},
    };
    ARE_TOLD(all);
}

static void attention_is_one_kernel_unless_it_drops_or_shares_heads(void **state) {
    (void)state;
    static const told all[] = {
        {"scaled_dot_product_attention x k v -> y", "x 1,2,5,4 k 1,2,6,4 v 1,2,6,4 y 1,2,5,4",
         "_scaled_dot_product_flash_attention_for_cpu", 2 * (5 * 6 * 4 + 5 * 6 * 4)},
        {"scaled_dot_product_attention x k v m 0.0 false -> y",
         "x 1,2,5,4 k 1,2,6,4 v 1,2,6,4 m 5,6 y 1,2,5,4", "_scaled_dot_product_flash_attention_for_cpu",
         2 * (5 * 6 * 4 + 5 * 6 * 4)},
        {"scaled_dot_product_attention x k v none 0.5 false -> y", "x 1,2,5,4 k 1,2,6,4 v 1,2,6,4 y 1,2,5,4",
         "", 2 * (5 * 6 * 4 + 5 * 6 * 4)},
        {"scaled_dot_product_attention x k v none 0.0 false none true -> y",
         "x 1,4,5,4 k 1,2,6,4 v 1,2,6,4 y 1,4,5,4", "", 4 * (5 * 6 * 4 + 5 * 6 * 4)},
        {"scaled_dot_product_attention x k v -> y", "x 2,5,4 k 2,6,4 v 2,6,4 y 2,5,4",
         "mul mul bmm _softmax isneginf all bmm", 2 * (5 * 6 * 4 + 5 * 6 * 4)},
        {"scaled_dot_product_attention x k v m -> y", "x 1,2,5,4 k 1,1,6,4 v 1,1,6,3 m 5,6 y 1,2,5,3",
         "mul mul bmm add_ _softmax isneginf all bmm", 2 * (5 * 6 * 4 + 5 * 6 * 3)},
        {"scaled_dot_product_attention x k v none 0.0 true -> y", "x 5,4 k 6,4 v 6,4 y 5,4",
         "mul mul bmm add_ _softmax isneginf all bmm", 5 * 6 * 4 + 5 * 6 * 4},
        {"softmax x -1 -> y", "x 2,3 y 2,3", "_softmax", 0},
        {"mT x -> y", "x 2,3,4 y 2,4,3", "transpose", 0},
    };
    ARE_TOLD(all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_that_a_program_leaves_out_are_made),
        cmocka_unit_test(layers_with_a_state_have_an_operator_each),
        cmocka_unit_test(layers_whose_weights_do_not_fit_are_not_opened),
        cmocka_unit_test(cells_are_both_products_and_their_gates),
        cmocka_unit_test(equations_are_products_from_the_left),
        cmocka_unit_test(equations_that_do_not_fit_are_not_opened),
        cmocka_unit_test(equations_beyond_64_bits_are_unknown),
        cmocka_unit_test(products_of_rows_and_batches_are_one),
        cmocka_unit_test(layers_call_what_torch_calls),
        cmocka_unit_test(losses_call_what_torch_calls),
        cmocka_unit_test(attention_is_one_kernel_unless_it_drops_or_shares_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
