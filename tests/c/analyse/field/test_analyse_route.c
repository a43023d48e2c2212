/* SPDX-License-Identifier: Apache-2.0
 *
 * What each operator does to positions, written as text: for every axis of an argument the axis of the result
 * that it leads to ("*": every element of the result depends on all of it, "=k": on element k), and in braces
 * what an element along it reads, {period shift step: lo..hi ...}. Windows and interpolation are held against
 * the formulas of PyTorch's documentation. */
#include "kit/oom.h"

#include "kit/ops_net.h"

#include "analyse/field/route.h"

#include <math.h>
#include <stdio.h>

enum { MOST_ARGS = 12 };

typedef struct call_of {
    const char *name;
    lam_op_arg in[MOST_ARGS], out;
} call_of;

static lam_op_sig sig_of(const call_of *call) {
    lam_op_sig s = {.name = call->name, .word = lam_word_op(call->name), .in = call->in, .out = &call->out};
    while (s.n_in < MOST_ARGS && (call->in[s.n_in].is_tensor || call->in[s.n_in].value.type != LAM_NONE))
        s.n_in++;
    s.n_out = call->out.is_tensor;
    return s;
}

static void put_taps(char *to, size_t size, const lmi_taps *t, int64_t length) {
    size_t n = strlen(to);
    n += (size_t)snprintf(to + n, size - n, "{%d %d %d:", (int)t->period, (int)t->shift, (int)t->step);
    for (int32_t i = 0; i < t->period; i++)
        n += (size_t)snprintf(to + n, size - n, " %d..%d", (int)t->lo[i], (int)t->hi[i]);
    const int64_t last = t->each ? length : 0;
    if (last) n += (size_t)snprintf(to + n, size - n, " =");
    for (int64_t i = 0; i < last; i++) {
        const lmi_reach at = t->each[i];
        const char *how = at.hi < at.lo ? " -" : at.hi == at.lo ? " %d" : " %d..%d";
        n += (size_t)snprintf(to + n, size - n, how, (int)at.lo, (int)at.hi);
    }
    snprintf(to + n, size - n, "}");
}

/* One step; with more of them, the sizes that it leads to follow in parentheses, then the next step. */
static void put_step(char *to, size_t size, const lmi_route *r, int32_t n_axes, lam_shape out) {
    for (int32_t i = 0; i < n_axes && i < LMI_AXES; i++) {
        char axis[24];
        snprintf(axis, sizeof axis, r->to[i] == LMI_TO_ONE ? "=%d" : "%d",
                 r->to[i] == LMI_TO_ONE ? (int)r->one[i] : r->to[i]);
        if (i) strcat(to, " ");
        strcat(to, r->to[i] == LMI_TO_ALL ? "*" : axis);
        if (r->taps[i]) put_taps(to, size, r->taps[i], out.sizes[r->to[i]]);
    }
    const struct {
        bool on;
        const char *word;
    } flags[] = {{r->unread, " unread"},   {r->view, " view"},          {r->spatial != 0, " spatial"},
                 {r->loose, " loose"},     {r->unsure != 0, " unsure"}, {r->some, " some"},
                 {r->among >= 0, " among"}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (flags[i].on) strcat(to, flags[i].word);
}

static void put_route(char *to, size_t size, const lmi_route *r, int32_t n_axes, lam_shape out) {
    to[0] = 0;
    for (; r->then; r = r->then) {
        put_step(to, size, r, n_axes, r->mid);
        n_axes = r->mid.ndim;
        strcat(to, " (");
        for (int32_t i = 0; i < n_axes; i++)
            snprintf(to + strlen(to), size - strlen(to), i ? " %d" : "%d", (int)r->mid.sizes[i]);
        strcat(to, ") ");
    }
    put_step(to, size, r, n_axes, out);
}

static lmi_arena arena;
static lmi_ways ways;

static int set_up(void **state) {
    (void)state;
    lmi_arena_init(&arena, UINT64_MAX);
    return lmi_ways_build(&ways, &arena) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    lmi_arena_free(&arena);
    return 0;
}

/* The way of argument `in`. */
static lmi_route route_of(const lam_op_sig *s, int32_t in) {
    lmi_route r = {.among = -1};
    if (s->word < 0 || !ways.by_word[s->word]) fail_msg("%s leads nowhere", s->name);
    assert_true(ways.by_word[s->word](&arena, s, in, &r));
    return r;
}

static void expect(const call_of *call, int32_t in, const char *want) {
    char got[1200];
    lam_op_sig s = sig_of(call);
    lmi_route r = route_of(&s, in);
    put_route(got, sizeof got, &r, call->in[in].ndim, lmi_result_shape(&s));
    if (strcmp(got, want) != 0)
        fail_msg("%s, argument %d: \"%s\", not \"%s\"", call->name, (int)in, got, want);
}
/* The arguments and the result of an operator. */
#define CALL(name, y, ...) (&(const call_of){name, {__VA_ARGS__}, y})

#define SCALAR(at) net_op_tensor(at, NULL, 0)

static const lam_op_arg no_tensor = {.ndim = -1};

/* -- element by element, and not at all -------------------------------------------------------- */

static void elements_follow_elements(void **state) {
    (void)state;
    expect(CALL("aten::relu", T(0, 2, 3), T(0, 2, 3)), 0, "0 1");
    expect(CALL("aten::add", T(0, 5, 2, 3), T(0, 5, 2, 3), T(1, 3)), 1, "2"); /* broadcast from the right */
    expect(CALL("aten::add", T(0, 3), T(0, 2, 3)), 0, "* 0");                 /* more axes than came out */
    expect(CALL("aten::zeros_like", T(0, 2), T(0, 2)), 0, "0 unread");
    expect(CALL("aten::copy_", T(0, 2), T(0, 2), T(1, 2)), 0, "0 unread");
    expect(CALL("aten::copy_", T(0, 2), T(0, 2), T(1, 2)), 1, "0");
    expect(CALL("aten::dot", SCALAR(0), T(0, 4), T(1, 4)), 1, "*");
    expect(CALL("aten::index", T(0, 4), T(0, 4, 3)), 0, "* * loose");
    expect(CALL("aten::view", T(0, 6), T(0, 2, 3), I(1, 6)), 0, "* 0 view");
    expect(CALL("aten::view_as", T(0, 6), T(0, 2, 3), T(1, 6)), 1, "0 unread");
    expect(CALL("aten::expand_as", T(0, 2, 3), T(0, 3), T(1, 2, 3)), 0, "1");
    expect(CALL("aten::expand_as", T(0, 2, 3), T(0, 3), T(1, 2, 3)), 1, "0 1 unread");
    expect(CALL("aten::type_as", T(0, 2, 3), T(0, 2, 3), T(1, 2, 3)), 1, "0 1 unread");
}

static void axes_change_places(void **state) {
    (void)state;
    expect(CALL("aten::permute", T(0, 4, 2, 3), T(0, 2, 3, 4), I(1, 2, 0, 1)), 0, "1 2 0");
    expect(CALL("aten::permute", T(0, 4, 2, 3), T(0, 2, 3, 4), I(1, -1, 0, -2)), 0, "1 2 0");
    expect(CALL("aten::permute", T(0, 2, 3), T(0, 2, 3), I(1, 5, 1)), 0, "* 1"); /* no such axis */
    expect(CALL("aten::t", T(0, 3, 2), T(0, 2, 3)), 0, "1 0");
    expect(CALL("aten::t", T(0, 3), T(0, 3)), 0, "0");
    expect(CALL("aten::transpose", T(0, 2, 4, 3), T(0, 2, 3, 4), N(1, 1), N(2, -1)), 0, "0 2 1");
    expect(CALL("aten::transpose", T(0, 2, 4, 3), T(0, 2, 3, 4), N(1, 7), N(2, 1)), 0, "0 1 2");
    expect(CALL("aten::select", T(0, 2, 4), T(0, 2, 3, 4), N(1, 1), N(2, -1)), 0, "0 =2 1");
    expect(CALL("aten::select", T(0, 2, 4), T(0, 2, 3, 4), N(1, 1), N(2, 1)), 0, "0 =1 1");
    expect(CALL("aten::select", T(0, 2, 4), T(0, 2, 3, 4), N(1, 1), N(2, 0)), 0, "0 =0 1");
    expect(CALL("aten::select", T(0, 2, 4), T(0, 2, 3, 4), N(1, 5), N(2, 1)), 0, "* * *");
    expect(CALL("aten::unbind", T(0, 2, 4), T(0, 2, 3, 4), N(1, -2)), 0, "0 1 2");
}

static void parts_of_axes(void **state) {
    (void)state;
    expect(CALL("aten::slice", T(0, 2, 3), T(0, 2, 8), N(1, 1), N(2, 2), N(3, 8), N(4, 2)), 0,
           "0 1{1 2 1: 2..2}");
    expect(CALL("aten::slice", T(0, 2, 3), T(0, 2, 8), N(1, -1), N(2, -3)), 0, "0 1{1 1 1: 5..5}");
    expect(CALL("aten::slice", T(0, 2, 8), T(0, 2, 8), N(1, 1), N(2, -30)), 0, "0 1{1 1 1: 0..0}");
    expect(CALL("aten::slice", T(0, 2, 0), T(0, 2, 8), N(1, 1), N(2, 30)), 0, "0 1{1 1 1: 8..8}");
    expect(CALL("aten::slice", T(0, 2, 8), T(0, 2, 8), N(1, 6)), 0, "0 1");
    expect(CALL("aten::split", T(0, 2, 4), T(0, 2, 8), N(1, 4), N(2, -1)), 0, "0 1");
    expect(CALL("aten::chunk", T(0, 2, 4), T(0, 2, 8), N(1, 2), N(2, 9)), 0, "0 1");
    expect(CALL("aten::flip", T(0, 2, 8), T(0, 2, 8), I(1, -1)), 0, "0 1{1 -1 1: 7..7}");
    expect(CALL("aten::flip", T(0, 2, 8), T(0, 2, 8), I(1, 0, 4)), 0, "0{1 -1 1: 1..1} 1");
    expect(CALL("aten::flip", T(0, 2, 8), T(0, 2, 8)), 0, "0 1");
    expect(CALL("aten::roll", T(0, 2, 8), T(0, 2, 8), I(1, 3), I(2, -1)), 0,
           "0 1{1 1 1: -3..-3 = 5 6 7 0 1 2 3 4}");
    expect(CALL("aten::roll", T(0, 2, 8), T(0, 2, 8), I(1, 3), I(2, 4)), 0, "0 1");
    /* in one row first */
    expect(CALL("aten::roll", T(0, 2, 3), T(0, 2, 3), I(1, 2)), 0,
           "0 1 view (6) 0{1 1 1: -2..-2 = 4 5 0 1 2 3} (6) 0 view");
    expect(CALL("aten::roll", T(0, 4), T(0, 4), I(1, 3, -2), I(2, 0, 0)), 0, "0{1 1 1: -1..-1 = 3 0 1 2}");
    expect(CALL("aten::repeat", T(0, 3, 2, 8), T(0, 2, 4), I(1, 3, 1, 2)), 0,
           "1 2{1 1 1: 0..0 = 0 1 2 3 0 1 2 3}");
    expect(CALL("aten::repeat", T(0, 2, 8), T(0, 2, 1), I(1, 1, 8)), 0, "0 1");
}

static void tensors_side_by_side(void **state) {
    (void)state;
    expect(CALL("aten::cat", T(0, 2, 9), T(0, 2, 4), T(0, 2, 5), N(1, 1)), 0,
           "0 1{1 1 1: 0..0 = 0 1 2 3 - - - - -} among");
    expect(CALL("aten::cat", T(0, 2, 9), T(0, 2, 4), T(0, 2, 5), N(1, -1)), 1,
           "0 1{1 1 1: -4..-4 = - - - - 0 1 2 3 4} among");
    expect(CALL("aten::cat", T(0, 2, 5), T(0, 0), T(0, 2, 5), N(1, 1)), 1,
           "0 1{1 1 1: 0..0 = 0 1 2 3 4} among");
    expect(CALL("aten::cat", T(0, 2, 9), T(0, 2, 9), N(1, 5)), 0, "0 1");
    expect(CALL("aten::stack", T(0, 2, 2, 4), T(0, 2, 4), T(0, 2, 4), N(1, 1)), 1, "0 2 among");
    expect(CALL("aten::stack", T(0, 2, 4, 2), T(0, 2, 4), T(0, 2, 4), N(1, -1)), 0, "0 1 among");
}

static void axes_are_mixed(void **state) {
    (void)state;
    const lam_op_arg stable = {.position = 1, .ndim = -1, .value = {.type = LAM_BOOL, .i = 1}};
    expect(CALL("aten::_softmax", T(0, 2, 3, 4), T(0, 2, 3, 4), N(1, 1)), 0, "0 * 2");
    expect(CALL("aten::_softmax", T(0, 2, 3), T(0, 2, 3), N(1, 9)), 0, "0 1");
    expect(CALL("aten::_masked_softmax", T(0, 2, 3, 4), T(0, 2, 3, 4), T(1, 2, 3, 4), N(2, 1)), 0, "0 * 2");
    expect(CALL("aten::sort", T(0, 2, 3), T(0, 2, 3), N(1, 0)), 0, "* 1");
    expect(CALL("aten::sort", T(0, 2, 3), T(0, 2, 3), stable, N(2, 0)), 0, "* 1");
    expect(CALL("aten::sort", T(0, 2, 3), T(0, 2, 3)), 0, "0 *");
    expect(CALL("aten::topk", T(0, 2, 3), T(0, 2, 8), N(1, 3)), 0, "0 *");
    expect(CALL("aten::gather", T(0, 2, 3, 4), T(0, 2, 5, 4), N(1, 1), T(2, 2, 3, 4)), 0,
           "0{1 1 1: 0..0} * 2{1 1 1: 0..0} loose");
    expect(CALL("aten::gather", T(0, 2, 3), T(0, 2, 8), N(1, 1), T(2, 2, 3)), 0, "0{1 1 1: 0..0} * loose");
    expect(CALL("aten::gather", T(0, 2, 3), T(0, 2, 8), N(1, 1), T(2, 2, 3)), 2, "0 1");
    expect(CALL("aten::channel_shuffle", T(0, 2, 6, 4), T(0, 2, 6, 4), N(1, 2)), 0,
           "0 1 2 view (2 2 3 4) 0 2 1 3 (2 3 2 4) 0 1 2 3 view");
}

static void axes_go(void **state) {
    (void)state;
    expect(CALL("aten::sum", SCALAR(0), T(0, 2, 3)), 0, "* *");
    expect(CALL("aten::sum", SCALAR(0), T(0, 2, 3), ints_at(1, NULL, 0)), 0, "* *");
    expect(CALL("aten::sum", T(0, 2, 4), T(0, 2, 3, 4), I(1, -2)), 0, "0 * 1");
    expect(CALL("aten::sum", T(0, 2, 1, 4), T(0, 2, 3, 4), N(1, 1)), 0, "0 * 2"); /* kept, with one element */
    expect(CALL("aten::sum", T(0, 3), T(0, 2, 3, 4), I(1, 0, 2)), 0, "* 0 *");
    expect(CALL("aten::max", T(0, 2, 3), T(0, 2, 3), T(1, 2, 3)), 1, "0 1"); /* of two tensors */
    expect(CALL("aten::max", T(0, 3), T(0, 2, 3), N(1, 0)), 0, "* 0");
    expect(CALL("aten::linalg_vector_norm", T(0, 2), T(0, 2, 3), N(1, 2), I(2, 1)), 0, "0 *");
}

static void normalisation_sees_what_it_takes_its_numbers_from(void **state) {
    (void)state;
    const lam_op_arg x = T(0, 2, 3, 4), w = T(1, 3), b = T(2, 3), mean = T(3, 3), var = T(4, 3);
    expect(CALL("aten::native_batch_norm", T(0, 2, 3, 4), x, w, b, mean, var), 0, "0 1 2");
    expect(CALL("aten::native_batch_norm", T(0, 2, 3, 4), x, w, b, mean, var), 1, "*");
    expect(CALL("aten::native_batch_norm", T(0, 2, 3, 4), x, w, b), 0, "* 1 *");
    expect(CALL("aten::native_layer_norm", T(0, 2, 3, 4), x, I(1, 3, 4), T(2, 3, 4)), 0, "0 * *");
    expect(CALL("aten::native_layer_norm", T(0, 2, 3, 4), x, I(1, 3, 4), T(2, 3, 4)), 2, "* *");
    expect(CALL("aten::native_layer_norm", T(0, 2, 3, 4), x, I(1, 1, 1, 2, 3, 4)), 0, "* * *");
    expect(CALL("aten::native_layer_norm", T(0, 2, 3, 4), x), 0, "0 1 *");
    expect(CALL("aten::native_group_norm", T(0, 2, 3, 4), x, w), 0, "0 * *");
    expect(CALL("aten::native_group_norm", T(0, 2, 3, 4), x, w), 1, "*");
}

static void products_follow_rows_and_columns(void **state) {
    (void)state;
    expect(CALL("aten::mm", T(0, 2, 4), T(0, 2, 3), T(1, 3, 4)), 0, "0 *");
    expect(CALL("aten::mm", T(0, 2, 4), T(0, 2, 3), T(1, 3, 4)), 1, "* 1");
    expect(CALL("aten::bmm", T(0, 5, 2, 4), T(0, 5, 2, 3), T(1, 5, 3, 4)), 1, "0 * 2");
    expect(CALL("aten::mv", T(0, 2), T(0, 2, 3), T(1, 3)), 0, "0 *");
    expect(CALL("aten::mv", T(0, 2), T(0, 2, 3), T(1, 3)), 1, "*");
    expect(CALL("aten::addmm", T(0, 2, 4), T(0, 4), T(1, 2, 3), T(2, 3, 4)), 0, "1");
    expect(CALL("aten::addmm", T(0, 2, 4), T(0, 4), T(1, 2, 3), T(2, 3, 4)), 1, "0 *");
    expect(CALL("aten::addmm", T(0, 2, 4), T(0, 4), T(1, 2, 3), T(2, 3, 4)), 2, "* 1");
    expect(CALL("aten::linear", T(0, 2, 4), T(0, 2, 3), T(1, 4, 3), T(2, 4)), 0, "0 *");
    expect(CALL("aten::linear", T(0, 2, 4), T(0, 2, 3), T(1, 4, 3), T(2, 4)), 1, "1 *");
    expect(CALL("aten::linear", T(0, 2, 4), T(0, 2, 3), T(1, 4, 3), T(2, 4)), 2, "1");
    expect(CALL("aten::linear", T(0, 2), T(0, 2, 3), T(1, 3)), 1, "*");
}

static void equations_name_axes(void **state) {
    (void)state;
    static const struct {
        const char *equation, *left, *right; /* of tensors of 3 and 2 axes */
        int32_t out;
    } all[] = {{"bij,jk->bik", "0 1 *", "* 2", 3},
               {"b i j, j k -> k b i", "1 2 *", "* 0", 3},
               {"ijb,jk", "1 * 0", "* 2", 3},
               {"...j,jk->...k", "0 1 *", "* 2", 3},
               {"...j,jk", "0 1 *", "* 2", 3},
               {"...j,...j->...", "0 1 *", "1 *", 2},
               {"iij,jk->ik", "0 0 *", "* 1", 2},
               {"bij,jk->", "* * *", "* *", 0},
               {"bi,jk->bik", "* * * loose", "* 2", 3},
               {"bij->bij", "0 1 2", "* * loose", 3},
               {"bij->bik", "* * * loose", "* * loose", 3},
               {"b?ij,jk->bik", "* * * loose", "* * loose", 3}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        lam_op_arg out = T(0, 2, 3, 4), text = N(0, 0);
        out.ndim = all[i].out;
        text.value = (lam_value){.type = LAM_TEXT, .text = all[i].equation};
        expect(CALL("aten::einsum", out, text, T(1, 2, 2, 3), T(1, 3, 4)), 1, all[i].left);
        expect(CALL("aten::einsum", out, text, T(1, 2, 2, 3), T(1, 3, 4)), 2, all[i].right);
    }
    expect(CALL("aten::einsum", T(0, 2, 4), N(0, 0), T(1, 2, 3), T(1, 3, 4)), 1, "* * loose");
}

static void an_axis_is_seen_from_its_beginning(void **state) {
    (void)state;
    const lam_op_arg x = T(0, 5, 2, 3), h = T(1, 1, 2, 4), w = T(2, 16, 3);
    expect(CALL("aten::cumsum", T(0, 2, 4), T(0, 2, 4), N(1, -1)), 0, "0 1{1 1 1: -3..0}");
    expect(CALL("aten::_cummax_helper", T(0, 2, 4), T(0, 2, 4), T(1, 2, 4), T(2, 2, 4), N(3, 0)), 0,
           "0{1 1 1: -1..0} 1");
    expect(CALL("onnx::GRU", T(0, 5, 1, 2, 4), x, w, N(13, 0)), 0, "0{1 1 1: -4..0} 2 *");
    expect(CALL("onnx::GRU", T(0, 5, 1, 2, 4), x, w, N(13, 0)), 1, "* *");
    expect(CALL("onnx::LSTM", T(0, 5, 2, 2, 4), x, w, N(13, 1)), 0, "* 2 *");
    expect(CALL("onnx::RNN", T(0, 5, 2, 1, 4), x, w, N(10, 1), N(13, 0)), 0, "0 1{1 1 1: -1..0} *");
    expect(CALL("aten::lstm", T(0, 5, 2, 4), x, h, w, N(7, 0), N(8, 0)), 0, "0{1 1 1: -4..0} 1 *");
    expect(CALL("aten::lstm", T(0, 5, 2, 4), x, h, w, N(7, 0), N(8, 0)), 1, "* 1 *");
    expect(CALL("aten::lstm", T(0, 5, 2, 4), x, h, w, N(7, 0), N(8, 0)), 2, "* *");
    expect(CALL("aten::gru", T(0, 5, 2, 8), x, h, w, N(7, 1), N(8, 1)), 0, "0 * *"); /* backward too */
    expect(CALL("aten::gru", T(0, 10, 8), T(0, 10, 3), h, w), 0, "* * loose");       /* packed */
    const lam_op_arg q = T(0, 2, 6, 5), k = T(1, 2, 6, 5), v = T(2, 2, 6, 7), y = T(0, 2, 6, 7);
    const lam_op_arg mask = T(3, 6, 6);
    expect(CALL("aten::scaled_dot_product_attention", y, q, k, v, N(5, 1)), 1, "0 1{1 1 1: -5..0} *");
    expect(CALL("aten::scaled_dot_product_attention", y, q, k, v, mask), 2, "0 * 2 loose");
}

static void some_axes_are_transformed(void **state) {
    (void)state;
    expect(CALL("aten::_fft_r2c", T(0, 2, 5), T(0, 2, 8), I(1, 1), N(2, 0)), 0, "0 *");
    expect(CALL("aten::_fft_r2c", T(0, 2, 5), T(0, 2, 8), N(2, 0)), 0,
           "* *"); /* along all, for all we know */
    expect(CALL("aten::instance_norm", T(0, 1, 2, 4), T(0, 1, 2, 4), N(5, 0)), 0, "0 1 2");
    expect(CALL("aten::view_as_complex", T(0, 3), T(0, 3, 2)), 0, "0 *");
    expect(CALL("aten::view_as_real", T(0, 3, 2), T(0, 3)), 0, "0");
    expect(CALL("aten::repeat_interleave", T(0, 2, 6), T(0, 2, 3), N(1, 2), N(2, 1)), 0,
           "0 1{2 1 1: 0..0 0..0}");
}

static void what_is_written_at_an_index_may_be_anywhere(void **state) {
    (void)state;
    expect(CALL("aten::scatter", T(0, 2, 4), T(0, 2, 4), N(1, 1), T(2, 2, 1), T(3, 2, 1)), 0, "0 1 some");
    expect(CALL("aten::scatter", T(0, 2, 4), T(0, 2, 4), N(1, 1), T(2, 2, 1), T(3, 2, 1)), 3, "0 * some");
    expect(CALL("aten::index_add", T(0, 4), T(0, 4), N(1, 0), T(2, 3), T(3, 3)), 0, "0");
    expect(CALL("aten::index_add", T(0, 4), T(0, 4), N(1, 0), T(2, 3), T(3, 3)), 3, "* some");
    expect(CALL("aten::masked_fill", T(0, 4), T(0, 4), T(1, 4), SCALAR(2)), 0, "0 some");
    expect(CALL("aten::masked_fill", T(0, 4), T(0, 4), T(1, 4), SCALAR(2)), 1, "0");
    expect(CALL("aten::where", T(0, 4), T(0, 4), T(1, 4), T(2, 4)), 1, "0 some");
}

static void padding_copies(void **state) {
    (void)state;
    const lam_op_arg x = T(0, 1, 4), y = T(0, 1, 7), by = I(1, 2, 1);
    expect(CALL("aten::reflection_pad1d", y, x, by), 0, "0 1{1 1 1: -2..-2 = 2 1 0 1 2 3 2} spatial");
    expect(CALL("aten::replication_pad1d", y, x, by), 0, "0 1{1 1 1: -2..-2 = 0 0 0 1 2 3 3} spatial");
    expect(CALL("aten::_pad_circular", y, x, by), 0, "0 1{1 1 1: -2..-2 = 2 3 0 1 2 3 0} spatial");
    expect(CALL("aten::_pad_circular", T(0, 2, 3), T(0, 2, 0), by), 0, "0 1{1 1 1: -2..-2 = - - -} spatial");
    expect(CALL("aten::reflection_pad1d", T(0, 2, 3), T(0, 2, 0), by), 0,
           "0 1{1 1 1: -2..-2 = - - -} spatial");
}

static void attention_sees_every_key(void **state) {
    (void)state;
    const lam_op_arg q = T(0, 2, 8, 5, 4), k = T(1, 2, 8, 6, 4), v = T(2, 2, 8, 6, 3), y = T(0, 2, 8, 5, 3);
    expect(CALL("aten::scaled_dot_product_attention", y, q, k, v), 0, "0 1 2 *");
    expect(CALL("aten::scaled_dot_product_attention", y, q, k, v), 1, "0 1 * *");
    expect(CALL("aten::scaled_dot_product_attention", y, q, k, v), 2, "0 1 * 3");
    expect(CALL("aten::scaled_dot_product_attention", T(0, 4), T(0, 4)), 0, "0");
    expect(CALL("aten::_transformer_encoder_layer_fwd", T(0, 2, 5, 4), T(0, 2, 5, 4), T(1, 4)), 0, "0 * *");
    expect(CALL("aten::_transformer_encoder_layer_fwd", T(0, 2, 5, 4), T(0, 2, 5, 4), T(1, 4, 4)), 1, "* *");
    expect(CALL("aten::embedding", T(0, 2, 7, 3), T(0, 9, 3), T(1, 2, 7)), 0, "* *");
    expect(CALL("aten::embedding", T(0, 2, 7, 3), T(0, 9, 3), T(1, 2, 7)), 1, "0 1");
}

static void elements_are_rearranged(void **state) {
    (void)state;
    expect(CALL("aten::constant_pad_nd", T(0, 2, 8, 9), T(0, 2, 6, 4), I(1, 2, 3, 1, 1)), 0,
           "0 1{1 1 1: -1..-1} 2{1 1 1: -2..-2}");
    expect(CALL("aten::constant_pad_nd", T(0, 2, 4), T(0, 2, 4)), 0, "0 1");
    expect(CALL("aten::pixel_shuffle", T(0, 2, 1, 6, 6), T(0, 2, 4, 3, 3), N(1, 2)), 0,
           "0 1 2 3 view spatial (2 1 2 2 3 3) 0 1 3 5 2 4 (2 1 3 2 3 2) 0 1 2 3 4 5 view");
    expect(CALL("aten::pixel_unshuffle", T(0, 2, 4, 3, 3), T(0, 2, 1, 6, 6), N(1, 2)), 0,
           "0 1 2 3 view spatial (2 1 3 2 3 2) 0 1 4 2 5 3 (2 1 2 2 3 3) 0 1 2 3 4 5 view");
    expect(CALL("aten::pixel_shuffle", T(0, 3, 3), T(0, 3, 3), N(1, 2)), 0, "* * loose");
    expect(CALL("aten::pixel_shuffle", T(0, 2, 1, 6, 6), T(0, 2, 4, 3, 3), N(1, 0)), 0, "* * * * loose");
    expect(CALL("aten::unfold", T(0, 2, 3, 4), T(0, 2, 8), N(1, 1), N(2, 4), N(3, 2)), 0,
           "0 1{4 2 1: 0..0 1..1 2..2 3..3} (2 12) 0 1 view (2 3 4) 0 1 2");
    expect(CALL("aten::unfold", T(0, 2, 8), T(0, 2, 8), N(1, 9)), 0, "* * loose");
    expect(CALL("aten::grid_sampler_2d", T(0, 2, 3, 5, 6), T(0, 2, 3, 8, 8), T(1, 2, 5, 6, 2)), 0,
           "0 1 * * loose");
    expect(CALL("aten::grid_sampler_2d", T(0, 2, 3, 5, 6), T(0, 2, 3, 8, 8), T(1, 2, 5, 6, 2)), 1,
           "0 2 3 * loose");
    expect(CALL("aten::im2col", T(0, 2, 12, 9), T(0, 2, 3, 4, 4)), 0, "* * * * loose");
    expect(CALL("aten::relu", no_tensor, T(0, 2)), 0, "*"); /* nothing came out */
}

/* -- windows ------------------------------------------------------------------------------------ */

/* conv(x, w, b, stride, padding, dilation, transposed, output_padding, groups) of a 1-d kernel of k taps. */
typedef struct conv_of {
    int64_t k, stride, pad, dil, transposed, groups, channels;
} conv_of;

static lmi_route conv_route(const conv_of *c, int64_t n, int64_t out) {
    const lam_op_arg x = T(0, 1, c->channels, n), w = T(1, c->channels, 1, c->k),
                     y = T(0, 1, c->channels, out);
    const lam_op_arg transposed = {.position = 6,
                                   .ndim = -1,
                                   .value = {.type = LAM_BOOL, .i = c->transposed}};
    const call_of call = {"aten::convolution",
                          {x, w, I(3, c->stride), I(4, c->pad), I(5, c->dil), transposed, N(8, c->groups)},
                          y};
    lam_op_sig s = sig_of(&call);
    lmi_route r = route_of(&s, 0);
    assert_true(r.spatial && r.to[0] == 0 && r.to[2] == 2);
    assert_int_equal(r.to[1], c->groups > 1 ? 1 : LMI_TO_ALL);
    return r;
}

/* The first and last input that element o reads, by the definition. */
static bool conv_reads(const conv_of *c, int64_t n, int64_t o, int64_t *first, int64_t *last) {
    bool any = false;
    for (int64_t i = -n; i < 4 * n; i++)
        for (int64_t k = 0; k < c->k; k++) {
            int64_t lands = c->transposed ? i * c->stride + k * c->dil - c->pad : i;
            int64_t wants = c->transposed ? o : o * c->stride + k * c->dil - c->pad;
            if (lands != wants) continue;
            if (!any) *first = i;
            *last = i;
            any = true;
        }
    return any;
}

static void convolutions_read_their_windows(void **state) {
    (void)state;
    uint32_t seed = 7;
    for (int round = 0; round < rounds(300); round++) {
        conv_of c;
        int64_t *const fields[] = {&c.k, &c.stride, &c.pad, &c.dil};
        for (int i = 0; i < 4; i++) {
            seed = seed * 1664525u + 1013904223u;
            *fields[i] = (i != 2) + (seed >> 10) % 4;
        }
        c.transposed = round % 2;
        c.channels = round % 3 ? 4 : 1;
        c.groups = c.channels;
        const int64_t n = 40, out = 20;
        lmi_route r = conv_route(&c, n, out);
        const lmi_taps *t = r.taps[2];
        for (int64_t o = 0; o < out; o++) {
            int64_t q = o / t->period, p = o % t->period, first = 0, last = 0;
            bool any = conv_reads(&c, n, o, &first, &last);
            assert_int_equal(any, t->lo[p] <= t->hi[p]);
            if (any) assert_true(t->lo[p] + q * t->shift == first && t->hi[p] + q * t->shift == last);
        }
    }
}

static void convolutions_without_a_window(void **state) {
    (void)state;
    const lam_op_arg x = T(0, 1, 2, 8), w = T(1, 4, 2, 3), y = T(0, 1, 4, 8);
    expect(CALL("aten::convolution", y, x, w, I(3, 1), I(4, 1), I(5, 1)), 1, "* * *");
    expect(CALL("aten::convolution", y, x), 0, "* * *"); /* no kernel was seen */
    expect(CALL("aten::convolution", T(0, 1, 4, 8), x, T(1, 4, 2)), 0, "* * * spatial");
    expect(CALL("aten::convolution", y, x, w, I(3, 0), I(4, 1), I(5, 1)), 0, "0 * * spatial unsure");
    /* two groups of two channels each: a channel sees another */
    expect(CALL("aten::convolution", T(0, 1, 4, 4), T(0, 1, 4, 4), T(1, 4, 2, 1), I(3, 1), I(4, 0), I(5, 1),
                N(8, 2)),
           0, "0 1{2 2 1: 0..1 0..1} 2{1 1 1: 0..0} spatial");
    /* each axis has a step, padding and dilation of its own */
    expect(CALL("aten::convolution", T(0, 1, 4, 8, 4), T(0, 1, 2, 8, 8), T(1, 4, 2, 3, 2), I(3, 1, 2),
                I(4, 2, 0), I(5, 2, 1)),
           0, "0 * 2{1 1 2: -2..2} 3{1 2 1: 0..1} spatial");
}

static void pools_read_their_windows(void **state) {
    (void)state;
    expect(CALL("aten::avg_pool2d", T(0, 1, 2, 3, 2), T(0, 1, 2, 6, 6), I(1, 2, 3)), 0,
           "0 1 2{1 2 1: 0..1} 3{1 3 1: 0..2} spatial");
    expect(CALL("aten::max_pool2d_with_indices", T(0, 2, 3, 3), T(0, 2, 6, 6), I(1, 3), I(2, 2), I(3, 1),
                I(4, 2)),
           0, "0 1{1 2 2: -1..3} 2{1 2 2: -1..3} spatial");
    expect(CALL("aten::avg_pool1d", T(0, 8), T(0, 8), I(1, 2)), 0, "* spatial");
    expect(CALL("aten::_adaptive_avg_pool2d", T(0, 2, 2, 1), T(0, 2, 5, 6), I(1, 2, 1)), 0,
           "0 1{2 5 1: 0..2 2..4} * spatial");
    expect(CALL("aten::_adaptive_avg_pool2d", T(0, 2), T(0, 2, 5, 6)), 0, "* * * spatial");
    expect(CALL("aten::_adaptive_avg_pool2d", T(0, 2, 4099, 1), T(0, 2, 8191, 6)), 0, "0 * * spatial unsure");
}

/* -- interpolation ------------------------------------------------------------------------------ */

/* The positions whose values an element is made of that lies at `source`. */
typedef void (*sampler)(double source, int64_t *lo, int64_t *hi);

static void by_floor(double source, int64_t *lo, int64_t *hi) { *lo = *hi = (int64_t)floor(source + 1e-9); }
static void by_rounding(double source, int64_t *lo, int64_t *hi) { by_floor(source + 0.5, lo, hi); }
static void by_neighbours(double source, int64_t *lo, int64_t *hi) {
    *lo = (int64_t)floor(source + 1e-9);
    *hi = (int64_t)ceil(source - 1e-9);
}
static void by_four(double source, int64_t *lo, int64_t *hi) {
    by_neighbours(source, lo, hi);
    *lo -= *hi > *lo;
    *hi += *hi > *lo;
}

typedef struct resize {
    const char *name;
    int32_t scales; /* position of the first factor */
    bool corners, half;
    sampler reads;
} resize;

static double source_of(const resize *z, int64_t o, int64_t n, int64_t out) {
    if (z->corners) return out > 1 ? (double)o * (double)(n - 1) / (double)(out - 1) : 0;
    double scale = (double)n / (double)out;
    return z->half ? ((double)o + 0.5) * scale - 0.5 : (double)o * scale;
}

static void try_resize(const resize *z, int64_t n, int64_t out) {
    const lam_op_arg corners = {.position = 2, .ndim = -1, .value = {.type = LAM_BOOL, .i = z->corners}};
    const call_of call = {z->name, {T(0, 1, 2, n), I(1, out), corners}, T(0, 1, 2, out)};
    lam_op_sig s = sig_of(&call);
    s.n_in -= z->scales == 2; /* the nearest ones have no such word */
    lmi_route r = route_of(&s, 0);
    assert_true(r.spatial && r.to[2] == 2);
    const lmi_taps *t = r.taps[2];
    for (int64_t o = 0; o < out; o++) {
        int64_t q = o / t->period, p = o % t->period, lo, hi;
        z->reads(source_of(z, o, n, out), &lo, &hi);
        if (t->lo[p] + q * t->shift != lo || t->hi[p] + q * t->shift != hi)
            fail_msg("%s of %d to %d: element %d reads %d to %d, not %d to %d", z->name, (int)n, (int)out,
                     (int)o, (int)(t->lo[p] + q * t->shift), (int)(t->hi[p] + q * t->shift), (int)lo,
                     (int)hi);
    }
}

static void resizing_reads_what_the_formulas_say(void **state) {
    (void)state;
    static const resize sizes[] = {
        {"aten::upsample_nearest1d", 2, false, false, by_floor},
        {"aten::_upsample_nearest_exact1d", 2, false, true, by_rounding},
        {"aten::upsample_linear1d", 3, false, true, by_neighbours},
        {"aten::upsample_linear1d", 3, true, false, by_neighbours},
        {"aten::upsample_bicubic2d", 3, false, true, by_four},
        {"aten::upsample_bicubic2d", 3, true, false, by_four},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int64_t n = 2; n < 12; n++)
            for (int64_t out = 2; out < 24; out++) try_resize(&sizes[i], n, out);
}

/* Where a position is a whole number, the rounding of torch's arithmetic decides what is read. What
 * torch 2.13 reads on x86-64, found by tensors of ones and zeros. `sure`: so it is in every build. */
static void rounding_decides_at_whole_positions(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t n, out, o, lo, hi;
        bool corners, sure;
    } known[] = {
        {"aten::upsample_nearest1d", 26, 22, 11, 12, 12, false, true}, /* 11 * 26/22 is a little below 13 */
        {"aten::_upsample_nearest_exact1d", 26, 11, 5, 12, 12, false, true},
        {"aten::_upsample_nearest_exact1d", 2, 41, 20, 0, 1, false, false},
        {"aten::upsample_linear1d", 26, 22, 5, 5, 6, false, true},
        {"aten::upsample_linear1d", 3, 19, 9, 0, 2, false, false},
        {"aten::upsample_linear1d", 2, 6, 1, 0, 1, false, true}, /* the next one has a weight of 1.5e-8 */
        {"aten::upsample_linear1d", 22, 40, 13, 7, 8, true, true},
        {"aten::upsample_bicubic2d", 13, 22, 21, 11, 12, true, true},
        {"aten::upsample_linear1d", 7, 7, 3, 3, 3, false, true},
        {"aten::_upsample_bicubic2d_aa", 26, 18, 6, 6, 11, false, true},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const lam_op_arg corners = {.position = 2,
                                    .ndim = -1,
                                    .value = {.type = LAM_BOOL, .i = known[i].corners}};
        lam_op_arg x = T(0, 1, 2, known[i].n), y = T(0, 1, 2, known[i].out);
        x.dtype = 6; /* float32 */
        const call_of call = {known[i].name, {x, I(1, known[i].out), corners}, y};
        lam_op_sig s = sig_of(&call);
        s.n_in -= strstr(known[i].name, "nearest") != NULL;
        lmi_route r = route_of(&s, 0);
        lmi_reach at = lmi_taps_at(r.taps[2], known[i].o, known[i].n);
        if (at.lo != known[i].lo || at.hi != known[i].hi || (r.unsure == 0) != known[i].sure)
            fail_msg("%s of %d to %d: element %d reads %d to %d", known[i].name, (int)known[i].n,
                     (int)known[i].out, (int)known[i].o, (int)at.lo, (int)at.hi);
    }
}

static lam_op_arg factor_at(int32_t position, double f) {
    return (lam_op_arg){.position = position, .ndim = -1, .value = {.type = LAM_FLOAT, .f = f}};
}

static void factors_that_were_given_are_used(void **state) {
    (void)state;
    const lam_op_arg no = {.position = 2, .ndim = -1, .value = {.type = LAM_BOOL}},
                     yes = {.position = 2, .ndim = -1, .value = {.type = LAM_BOOL, .i = 1}};
    const lam_op_arg x = T(0, 1, 1, 5);
    /* 5 * 2.5 is 12, not 12.5: in steps of 2/5 and not of 5/12 */
    expect(CALL("aten::upsample_nearest1d", T(0, 1, 1, 12), x, I(1, 12), factor_at(2, 2.5)), 0,
           "0 1 2{5 2 1: 0..0 0..0 0..0 1..1 1..1 = 0 0 0 1 1 2 2 2 3 3 4 4} spatial");
    expect(CALL("aten::upsample_nearest1d", T(0, 1, 1, 10), x, I(1, 10), factor_at(2, 2.0)), 0,
           "0 1 2{2 1 1: 0..0 0..0 = 0 0 1 1 2 2 3 3 4 4} spatial");
    expect(CALL("aten::upsample_nearest1d", T(0, 1, 1, 15), x, I(1, 15), factor_at(2, 3.14159265358979)), 0,
           "0 1 2{1 0 1: 0..4 = 0 0 0 0 1 1 1 2 2 2 3 3 3 4 4} spatial"); /* no period */
    expect(CALL("aten::upsample_nearest1d", T(0, 1, 1, 10), x, I(1, 10), factor_at(2, -1)), 0,
           "0 1 2{2 1 1: 0..0 0..0 = 0 0 1 1 2 2 3 3 4 4} spatial");
    expect(CALL("aten::_upsample_nearest_exact1d", T(0, 1, 1, 3), T(0, 1, 1, 6)), 0,
           "0 1 2{1 2 1: 1..1 = 1 3 5} spatial"); /* the middle of two, as torch rounds it */
    expect(CALL("aten::upsample_linear1d", T(0, 1, 1, 4), T(0, 1, 1, 1), I(1, 4), no), 0,
           "0 1 2{1 0 1: 0..0} spatial"); /* one position: nothing beside it */
    expect(CALL("aten::upsample_linear1d", T(0, 1, 1, 1), x, I(1, 1), yes), 0, "0 1 2{1 0 1: 0..0} spatial");
    expect(CALL("aten::upsample_linear1d", T(0, 5, 5), T(0, 5, 5)), 0, "* *");
    /* without aliasing: all within one source position (two, cubic) of the centre, stretched by 2 */
    expect(CALL("aten::_upsample_bilinear2d_aa", T(0, 1, 1, 2, 4), T(0, 1, 1, 4, 4), I(1, 2, 4), no), 0,
           "0 1 2{1 2 1: -1..2 = 0..2 1..4} 3{1 1 1: 0..0 = 0 1 2 3} spatial");
    expect(CALL("aten::_upsample_bicubic2d_aa", T(0, 1, 1, 2, 4), T(0, 1, 1, 4, 4), I(1, 2, 4), no), 0,
           "0 1 2{1 2 1: -3..4 = 0..4 0..6} 3{1 1 1: 0..0 = 0 1 2 3} spatial");
    expect(CALL("aten::_upsample_bilinear2d_aa", T(0, 1, 1, 2, 4), T(0, 1, 1, 4, 4), I(1, 2, 4), yes), 0,
           "* * * * spatial loose");
    expect(CALL("aten::_upsample_bicubic2d_aa", T(0, 1, 1, 2, 4), T(0, 1, 1, 4, 4), I(1, 2, 4), yes), 0,
           "* * * * spatial loose");
}

/* -- memory ------------------------------------------------------------------------------------- */

static void every_way(void *arg, bool *ok) {
    const call_of *const calls = arg;
    lmi_arena a;
    lmi_ways w;
    lmi_arena_init(&a, UINT64_MAX);
    *ok = lmi_ways_build(&w, &a);
    for (const call_of *c = calls; *ok && c->name; c++) {
        lmi_route r = {.among = -1};
        lam_op_sig s = sig_of(c);
        *ok = w.by_word[s.word](&a, &s, 0, &r);
    }
    lmi_arena_free(&a);
}

/* Periods so long that each call needs a block of its own. */
static void memory_may_run_out(void **state) {
    (void)state;
    const lam_op_arg transposed = {.position = 6, .ndim = -1, .value = {.type = LAM_BOOL, .i = 1}};
    const call_of calls[] = {
        {"aten::upsample_nearest1d", {T(0, 1, 1, 4093), I(1, 4091)}, T(0, 1, 1, 4091)},
        {"aten::_adaptive_avg_pool2d", {T(0, 2, 4093, 4093)}, T(0, 2, 4091, 4091)},
        {"aten::roll", {T(0, 2, 8), I(1, 3), I(2, -1)}, T(0, 2, 8)},
        {"aten::repeat", {T(0, 2, 4), I(1, 3, 1, 2)}, T(0, 3, 2, 8)},
        {"aten::pixel_shuffle", {T(0, 4000000, 3, 3), N(1, 2000)}, T(0, 1, 6000, 6000)},
        {"aten::convolution", {T(0, 1, 1, 8), T(1, 1, 1, 3), I(3, 4000), transposed}, T(0, 1, 1, 28003)},
        {"aten::convolution", {T(0, 1, 1, 8), T(1, 1, 1, 3), I(3, 4000), transposed}, T(0, 1, 1, 28003)},
        {.name = NULL},
    };
    oom_sweep(every_way, (void *)(uintptr_t)calls);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_follow_elements),
        cmocka_unit_test(axes_change_places),
        cmocka_unit_test(parts_of_axes),
        cmocka_unit_test(tensors_side_by_side),
        cmocka_unit_test(axes_are_mixed),
        cmocka_unit_test(axes_go),
        cmocka_unit_test(normalisation_sees_what_it_takes_its_numbers_from),
        cmocka_unit_test(products_follow_rows_and_columns),
        cmocka_unit_test(attention_sees_every_key),
        cmocka_unit_test(equations_name_axes),
        cmocka_unit_test(an_axis_is_seen_from_its_beginning),
        cmocka_unit_test(some_axes_are_transformed),
        cmocka_unit_test(what_is_written_at_an_index_may_be_anywhere),
        cmocka_unit_test(padding_copies),
        cmocka_unit_test(elements_are_rearranged),
        cmocka_unit_test(convolutions_read_their_windows),
        cmocka_unit_test(convolutions_without_a_window),
        cmocka_unit_test(pools_read_their_windows),
        cmocka_unit_test(resizing_reads_what_the_formulas_say),
        cmocka_unit_test(rounding_decides_at_whole_positions),
        cmocka_unit_test(factors_that_were_given_are_used),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
