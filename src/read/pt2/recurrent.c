/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers and cells with a state: each layer in each direction is one operator for all steps. */
#include "read/pt2/inner.h"

/* The shape of what goes into layers: steps and sequences, or all steps of packed sequences on one axis. */
typedef struct sequence {
    int64_t steps, batch;
    int32_t x, hx, params, next; /* positions */
    bool turned;                 /* its sequences come first, and are turned: products then add no biases */
} sequence;

/* The weights of one direction of a layer among the list of all. */
typedef struct matrices {
    const lam_op_arg *in, *hidden, *proj;
    bool adds; /* the bias of the input's product is added by an operator of its own */
} matrices;

static bool is_matrix(const lam_op_arg *a) { return a && a->is_tensor && a->ndim == 2; }

/* Operators on every element of a state, one after the other. Behind the name stands what the second argument
 * is: the gates of the state, the state, the cell of an LSTM; without a mark it is what was made before. "!":
 * the result is the new cell. */
static const char *const
    gates_lstm[] = {"add_ gates", "sigmoid_", "sigmoid_", "tanh_", "sigmoid_", "mul cell",
                    "mul",        "add_ !",   "tanh",     "mul",   NULL},
    *const gates_gru[] = {"add_ gates", "sigmoid_", "add_", "sigmoid_",   "mul_", "add_",
                          "tanh_",      "sub",      "mul_", "add_ state", NULL},
    *const gates_tanh[] = {"add_ gates", "tanh", NULL}, *const gates_relu[] = {"add_ gates", "relu", NULL};

static const char *const *gates_of(const char *op) {
    return strstr(op, "lstm")   ? gates_lstm
           : strstr(op, "gru")  ? gates_gru
           : strstr(op, "tanh") ? gates_tanh
                                : gates_relu;
}

static lam_status linear(lmi_pt2 *p, const lam_op_info *op, int32_t index, const lam_op_arg *x,
                         const lam_op_arg *w, lam_op_arg *out) {
    int64_t sizes[3];
    memcpy(sizes, x->sizes, (size_t)x->ndim * sizeof *sizes);
    sizes[x->ndim - 1] = w->sizes[0];
    LAM_TRY(lmi_inner_made(p, x, sizes, x->ndim, out));
    lmi_inner_begin(p);
    LAM_TRY(lmi_inner_give(p, x, 0));
    LAM_TRY(lmi_inner_give(p, w, 1));
    LAM_TRY(lmi_inner_result(p, out));
    return lmi_inner_push(p, op, index, "aten::linear", NULL);
}

/* Pushes one operator on elements. */
static lam_status on_elements(lmi_pt2 *p, const lam_op_info *op, int32_t index, const char *gate,
                              const lam_op_arg *first, const lam_op_arg *second, const lam_op_arg *out) {
    char whole[32] = "aten::";
    const bool pair =
        strncmp(gate, "add", 3) == 0 || strncmp(gate, "mul", 3) == 0 || strncmp(gate, "sub", 3) == 0;
    strncat(whole, gate, strcspn(gate, " "));
    lmi_inner_begin(p);
    LAM_TRY(lmi_inner_give(p, first, 0));
    if (pair) LAM_TRY(lmi_inner_give(p, second, 1));
    LAM_TRY(lmi_inner_result(p, out));
    return lmi_inner_push(p, op, index, whole, NULL);
}

/* Where a step's results go and its state comes from; NULL: nowhere, as of all steps of a layer at once. */
typedef struct ends {
    const lam_op_arg *state, *cell, *out, *out_cell;
} ends;

/* Both products and the gates, as torch computes them where it has no operator for the layer. */
static lam_status push_gates(lmi_pt2 *p, const lam_op_info *op, int32_t index, const lam_op_arg *x,
                             const matrices *m, const ends *e) {
    int64_t sizes[3];
    lam_op_arg h, now, other, next;
    memcpy(sizes, x->sizes, (size_t)x->ndim * sizeof *sizes);
    sizes[x->ndim - 1] = m->hidden->sizes[1];
    LAM_TRY(lmi_inner_made(p, x, sizes, x->ndim, &h));
    if (e->state && e->state->ndim == x->ndim) h = *e->state;
    LAM_TRY(linear(p, op, index, x, m->in, &now));
    if (m->adds) LAM_TRY(on_elements(p, op, index, "add_", &now, &now, &now));
    LAM_TRY(linear(p, op, index, &h, m->hidden, &other));
    for (const char *const *gate = gates_of(op->name); *gate; gate++) {
        const bool all = gate == gates_lstm; /* four gates at once */
        const lam_op_arg *second = strstr(*gate, "gates")             ? &other
                                   : strstr(*gate, "state")           ? &h
                                   : strstr(*gate, "cell") && e->cell ? e->cell
                                                                      : &now;
        /* The state's width, which a projection makes smaller. */
        sizes[x->ndim - 1] = m->proj ? m->proj->sizes[1] : m->hidden->sizes[1];
        if (all && lmi_mul_over(4, sizes[x->ndim - 1], &sizes[x->ndim - 1])) return LAM_OK;
        LAM_TRY(lmi_inner_made(p, x, sizes, x->ndim, &next));
        if (strchr(*gate, '!') && e->out_cell) next = *e->out_cell;
        if (!gate[1] && e->out) next = *e->out;
        LAM_TRY(on_elements(p, op, index, *gate, &now, second, &next));
        now = next;
    }
    return m->proj ? linear(p, op, index, &now, m->proj, &other) : LAM_OK;
}

/* One direction of a layer. torch has an operator for an LSTM's. */
static lam_status push_layer(lmi_pt2 *p, const lam_op_info *op, int32_t index, const sequence *q,
                             int64_t width, const matrices *m) {
    const lam_op_arg *x = lmi_inner_at(op, q->x, 0);
    const int64_t in[3] = {q->steps, q->batch, width}, state[3] = {q->steps, q->batch, m->hidden->sizes[1]};
    lam_op_arg from, to;
    LAM_TRY(lmi_inner_made(p, x, in, 3, &from));
    const ends nowhere = {0};
    if (m->proj || !strstr(op->name, "lstm")) return push_gates(p, op, index, &from, m, &nowhere);
    LAM_TRY(lmi_inner_made(p, x, state, 3, &to));
    lmi_inner_begin(p);
    LAM_TRY(lmi_inner_give(p, &from, 0));
    LAM_TRY(lmi_inner_give(p, m->in, 1));
    LAM_TRY(lmi_inner_give(p, m->hidden, 2));
    LAM_TRY(lmi_inner_result(p, &to));
    return lmi_inner_push(p, op, index, "aten::mkldnn_rnn_layer", NULL);
}

/* Between layers in training. */
static lam_status push_dropout(lmi_pt2 *p, const lam_op_info *op, int32_t index, const sequence *q,
                               int64_t width) {
    const int64_t sizes[3] = {q->steps, q->batch, width};
    lam_op_arg x;
    int32_t inner;
    LAM_TRY(lmi_inner_made(p, lmi_inner_at(op, q->x, 0), sizes, 3, &x));
    lmi_inner_begin(p);
    LAM_TRY(lmi_inner_give(p, &x, 0));
    LAM_TRY(lmi_inner_give(p, lmi_inner_at(op, q->next + 2, 0), 1));
    LAM_TRY(lmi_inner_value(p, 2, (lam_value){.type = LAM_BOOL, .i = 1}));
    LAM_TRY(lmi_inner_result(p, &x));
    const lam_op_arg args[3] = {x, *(lam_op_arg *)lmi_vec_at(&p->more_in, 1),
                                *(lam_op_arg *)lmi_vec_at(&p->more_in, 2)};
    LAM_TRY(lmi_inner_push(p, op, index, "aten::dropout", &inner));
    lam_op_info drop = *op;
    drop.name = "aten::dropout";
    drop.n_in = 3;
    drop.in = args;
    drop.n_out = 1;
    drop.out = &x;
    return lmi_pt2_inner(p, &drop, inner);
}

/* Reads where the arguments are: packed sequences have a list of their lengths in front of the state. */
static bool read_sequence(const lam_op_info *op, sequence *q) {
    const lam_op_arg *x = lmi_inner_at(op, 0, 0), *second = lmi_inner_at(op, 1, 0),
                     *third = lmi_inner_at(op, 2, 0);
    if (!x || !x->is_tensor || x->ndim < 2 || !second || !third) return false;
    const bool packed =
        x->ndim == 2 && third->is_tensor && lmi_inner_at(op, 3, 0) && lmi_inner_at(op, 3, 0)->is_tensor;
    const int32_t after = packed ? 4 : 3;
    *q = (sequence){.x = 0, .hx = packed ? 2 : 1, .params = packed ? 3 : 2, .next = after};
    if (packed || x->ndim == 2) {
        q->steps = packed ? 1 : x->sizes[0];
        q->batch = packed ? x->sizes[0] : 1;
        return true;
    }
    const bool first = lmi_inner_int(op, after + 5, 0) != 0;
    q->turned = first && x->sizes[0] > 1 && x->sizes[1] > 1;
    q->steps = x->sizes[first ? 1 : 0];
    q->batch = x->sizes[first ? 0 : 1];
    return x->ndim == 3;
}

lam_status lmi_inner_recurrent(lmi_pt2 *p, const lam_op_info *op, int32_t index) {
    sequence q;
    if (!read_sequence(op, &q)) return LAM_OK;
    const bool biases = lmi_inner_int(op, q.next, 1) != 0, train = lmi_inner_int(op, q.next + 3, 0) != 0;
    const int64_t layers = lmi_inner_int(op, q.next + 1, 1);
    const int32_t dirs = lmi_inner_int(op, q.next + 4, 0) ? 2 : 1;
    const lam_op_arg *x = lmi_inner_at(op, q.x, 0), *rate = lmi_inner_at(op, q.next + 2, 0);
    const bool drops =
        train && rate && !rate->is_tensor && rate->value.type == LAM_FLOAT && rate->value.f > 0;
    int32_t n = 0;
    while (lmi_inner_at(op, q.params, n)) n++;
    if (layers < 1 || layers > n || n % (layers * dirs) != 0) return LAM_OK;
    const int32_t each = (int32_t)(n / (layers * dirs)), plain = biases ? 4 : 2;
    int64_t width = x->sizes[x->ndim - 1];
    if (each != plain && each != plain + 1) return LAM_OK;
    for (int32_t i = 0; i < n; i += each) {
        const matrices m = {lmi_inner_at(op, q.params, i), lmi_inner_at(op, q.params, i + 1),
                            each > plain ? lmi_inner_at(op, q.params, i + plain) : NULL,
                            q.turned && biases && i < each * dirs};
        if (!is_matrix(m.in) || !is_matrix(m.hidden) || (m.proj && !is_matrix(m.proj))) return LAM_OK;
        LAM_TRY(push_layer(p, op, index, &q, width, &m));
        if (i / each % dirs < dirs - 1) continue;
        if (lmi_mul_over(m.hidden->sizes[1], dirs, &width)) return LAM_OK;
        if (drops && i + each < n) LAM_TRY(push_dropout(p, op, index, &q, width));
    }
    return LAM_OK;
}

lam_status lmi_inner_cell(lmi_pt2 *p, const lam_op_info *op, int32_t index) {
    const lam_op_arg *x = lmi_inner_at(op, 0, 0);
    const matrices m = {.in = lmi_inner_at(op, 2, 0), .hidden = lmi_inner_at(op, 3, 0)};
    if (!x || !x->is_tensor || x->ndim < 1 || x->ndim > 2 || !is_matrix(m.in) || !is_matrix(m.hidden))
        return LAM_OK;
    const ends e = {.state = lmi_inner_tensor(op, 1),
                    .cell = lmi_inner_at(op, 1, 1),
                    .out = op->n_out ? &op->out[0] : NULL,
                    .out_cell = op->n_out > 1 ? &op->out[1] : NULL};
    return push_gates(p, op, index, x, &m, &e);
}
