/* SPDX-License-Identifier: Apache-2.0
 *
 * Proofs of `exact` for recurrences, forward and backward: one layer and direction, all of them in one
 * operator, and the gates of one step. */
#include "kit/oom.h"

#include "kit/op_build.h"

/* -- one layer and direction --------------------------------------------------------------------------- */

static double dots(cells *w, int64_t row, int64_t n, double acc) {
    for (int64_t i = 0; i < n; i++) acc = mac(acc, rd(w, row * n + i), 1);
    return acc;
}

/* One unit of one step: its gates' sums, then the cell. */
static void unit(int64_t gates, double *g, double c) {
    for (int64_t k = 0; k < gates; k++) (void)add(g[k], g[k]); /* of the input's and the state's products */
    if (gates == 1) (void)tanh1(1);
    if (gates == 3) { /* h = (1-z)*n + z*h; the sum inside n is r times the state's products, then added */
        double r = sigmoid1(g[0]), z = sigmoid1(g[1]);
        double n = tanh1(mul(r, g[2]));
        (void)add(mul(sub(1, z), n), mul(z, c));
    }
    if (gates == 4) {
        double i = sigmoid1(g[0]), f = sigmoid1(g[1]), o = sigmoid1(g[2]), n = tanh1(g[3]);
        c = add(mul(f, c), mul(i, n));
        (void)mul(o, tanh1(c));
    }
}

static void rnn_layer(void **state) {
    (void)state;
    static const int64_t kinds[] = {1, 3, 4};
    for (int i = 0; more(i, 3000); i++) {
        reseed((uint64_t)i);
        int64_t steps = pick(0, 3), batch = pick(1, 3), in = pick(1, 4), hidden = pick(1, 3);
        int64_t gates = kinds[pick(0, 2)], rows = gates * hidden;
        op_new("aten::mkldnn_rnn_layer");
        cells *x = cells_of(steps * batch * in), *wi = cells_of(rows * in), *wh = cells_of(rows * hidden);
        cells *y = cells_of(steps * batch * hidden), *h = cells_of(batch * hidden);
        for (int64_t n = 0; n < steps * batch; n++)
            for (int64_t u = 0; u < hidden; u++) {
                double g[4] = {0};
                for (int64_t k = 0; k < gates; k++)
                    g[k] = dots(wh, k * hidden + u, hidden, dots(wi, k * hidden + u, in, 0));
                unit(gates, g, 1);
            }
        rd_all(x), rd_all(wi), rd_all(wh), rd_all(h), wr_all(y), wr_all(h);
        in_tensor(0, SIZES(steps, batch, in));
        in_tensor(1, SIZES(rows, in));
        in_tensor(2, SIZES(rows, hidden));
        in_tensor(5, SIZES(batch, hidden));
        out_tensor(0, SIZES(steps, batch, hidden));
        out_tensor(1, SIZES(batch, hidden));
        op_proves();
    }
}

/* a * y * (1 - y) and a * (1 - y^2) */
static double sigmoid_grad(double a, double y) { return mul(mul(a, y), sub(1, y)); }
static double tanh_grad(double a, double y) { return mul(a, sub(1, mul(y, y))); }

/* The gradients of one unit of an LSTM at one step, without the sum of the gradients of h. */
static void lstm_unit_grad(void) {
    double dh = 1, i = 1, f = 1, o = 1, g = 1, last = 1, tc = tanh1(1);
    double d_o = mul(dh, tc);
    double dc = add(1, mul(mul(dh, o), sub(1, mul(tc, tc))));
    double di = mul(dc, g), dg = mul(dc, i), df = mul(dc, last);
    (void)mul(dc, f);
    (void)sigmoid_grad(di, i), (void)sigmoid_grad(df, f), (void)sigmoid_grad(d_o, o), (void)tanh_grad(dg, g);
}

static void lstm_backward(void **state) {
    (void)state;
    for (int i = 0; more(i, 2000); i++) {
        reseed((uint64_t)i);
        int64_t steps = pick(1, 3), batch = pick(1, 3), in = pick(1, 4), hidden = pick(1, 3),
                rows = 4 * hidden;
        op_new("aten::mkldnn_rnn_layer_backward");
        cells *x = cells_of(steps * batch * in), *wi = cells_of(rows * in), *wh = cells_of(rows * hidden);
        rd_all(x), rd_all(wi), rd_all(wh);
        for (int64_t n = 0; n < steps * batch; n++) {
            for (int64_t u = 0; u < hidden; u++) (void)add(1, 1), lstm_unit_grad();
            for (int64_t r = 0; r < rows; r++) { /* into the inputs, and into the matrices */
                (void)dots(wi, r, in, 0), (void)dots(wi, r, in, 0);
                (void)dots(wh, r, hidden, 0), (void)dots(wh, r, hidden, 0);
                if (n) (void)add(1, 1); /* into the bias */
            }
        }
        in_tensor(0, SIZES(steps, batch, in));
        in_tensor(1, SIZES(rows, in));
        in_tensor(2, SIZES(rows, hidden));
        out_tensor(0, SIZES(steps, batch, in));
        wr_all(cells_of(x->n));
        op_proves();
    }
    op_new("aten::mkldnn_rnn_layer_backward"); /* of a GRU: its products only */
    in_tensor(0, SIZES(5, 2, 4));
    in_tensor(1, SIZES(9, 4));
    in_tensor(2, SIZES(9, 3));
    out_tensor(0, SIZES(5, 2, 4));
    op_says(2 * 10 * (36 + 27), -1, 40 + 36 + 27 + 40);
}

/* -- all layers and directions ------------------------------------------------------------------------- */

/* What cuDNN and MIOpen are asked for. */
typedef struct stack {
    int64_t mode, gates, steps, batch, rows, in, hidden, state, layers, dirs;
    bool projects, biased, packed, training, miopen, autocast;
    double p;
} stack;

static int64_t projection(const stack *r) { return r->projects ? r->state : 0; }
static int64_t width(const stack *r, int64_t level) { return level ? r->dirs * r->state : r->in; }

static stack random_stack(void) {
    static const int64_t gates[] = {1, 1, 4, 3}; /* relu, tanh, LSTM, GRU */
    static const double chances[] = {0, 0.5, 1};
    stack r = {.mode = pick(0, 3),
               .steps = pick(0, 3),
               .batch = pick(1, 2),
               .in = pick(1, 3),
               .hidden = pick(1, 3),
               .layers = pick(1, 3),
               .dirs = pick(1, 2),
               .biased = coin(),
               .packed = coin(),
               .training = coin(),
               .miopen = coin(),
               .autocast = coin(),
               .p = chances[pick(0, 2)]};
    r.gates = gates[r.mode];
    r.projects = r.mode == 2 && !r.miopen && r.hidden > 1 && coin();
    r.state = r.projects ? pick(1, r.hidden - 1) : r.hidden;
    r.rows = r.steps * r.batch;
    if (r.packed && r.rows > 1) r.rows--; /* one sequence is shorter */
    return r;
}

/* One weight, as an argument or as a gradient. Autocast makes a column of each. */
static int64_t weight(const stack *r, int32_t position, bool gradient, int64_t rows, int64_t columns) {
    int64_t sizes[] = {r->autocast ? rows * columns : rows, r->autocast ? 1 : columns};
    gradient ? out_tensor(position, 2, sizes) : in_tensor(position, 2, sizes);
    return rows * columns;
}

/* The list of all weights; how many numbers they are. */
static int64_t weights(const stack *r, int32_t position, bool gradient) {
    int64_t n = 0, rows = r->gates * r->hidden;
    for (int64_t l = 0; l < r->layers; l++)
        for (int64_t d = 0; d < r->dirs; d++) {
            n += weight(r, position, gradient, rows, width(r, l));
            n += weight(r, position, gradient, rows, r->state);
            for (int k = 0; k < (r->biased ? 2 : 0); k++) n += weight(r, position, gradient, rows, 1);
            if (r->projects) n += weight(r, position, gradient, r->state, r->hidden);
        }
    return n;
}

static void in_rows(const stack *r, int32_t position, int64_t wide) {
    if (r->packed)
        in_tensor(position, SIZES(r->rows, wide));
    else
        in_tensor(position, SIZES(r->steps, r->batch, wide));
}
static void out_rows(const stack *r, int32_t position, int64_t wide) {
    if (r->packed)
        out_whole(position, SIZES(r->rows, wide));
    else
        out_whole(position, SIZES(r->steps, r->batch, wide));
}

/* Both states, of which only an LSTM has the second. */
static void in_states(const stack *r, int32_t position) {
    in_whole(position, SIZES(r->layers * r->dirs, r->batch, r->state));
    if (r->mode == 2)
        in_whole(position + 1, SIZES(r->layers * r->dirs, r->batch, r->hidden));
    else
        in_none(position + 1);
}
static void out_states(const stack *r, int32_t position) {
    out_whole(position, SIZES(r->layers * r->dirs, r->batch, r->state));
    if (r->mode == 2)
        out_whole(position + 1, SIZES(r->layers * r->dirs, r->batch, r->hidden));
    else
        out_none(position + 1);
}

/* From the mode to the sizes of batches; the next position. */
static int32_t in_settings(const stack *r, int32_t position) {
    in_int(position++, r->mode);
    in_int(position++, r->hidden);
    if (!r->miopen) in_int(position++, projection(r));
    in_int(position++, r->layers);
    in_bool(position++, false);
    in_float(position++, r->p);
    in_bool(position++, r->training);
    in_bool(position++, r->dirs == 2);
    if (r->packed)
        in_ints(position, SIZES(r->batch, r->rows - r->batch));
    else
        in_none(position);
    return position + 1;
}

/* Elements between the layers lose their value, or are scaled. */
static void drop(const stack *r, int64_t level) {
    if (!r->training || r->p == 0 || level + 1 == r->layers) return;
    for (int64_t i = 0; i < r->rows * r->dirs * r->state; i++) {
        (void)mul(1, 0);
        if (r->p < 1) (void)mul(1, 2);
    }
}

/* n numbers, each times a weight, added up. */
static double dot(int64_t n, double acc) {
    for (int64_t i = 0; i < n; i++) acc = mac(acc, 1, 2);
    return acc;
}

static void run_stack(const stack *r) {
    for (int64_t l = 0; l < r->layers; l++) {
        for (int64_t k = 0; k < r->dirs * r->rows; k++) {
            for (int64_t u = 0; u < r->hidden; u++) {
                double g[4] = {0};
                for (int64_t i = 0; i < r->gates; i++) g[i] = dot(r->state, dot(width(r, l), 0));
                unit(r->gates, g, 1);
            }
            for (int64_t i = 0; i < projection(r); i++) (void)dot(r->hidden, 0);
        }
        drop(r, l);
    }
}

/* Tells the operator, whose weights are read from the list, or from a buffer that holds them once more. */
static void tell_stack(const stack *r) {
    bool given = !r->miopen && coin();
    op_new(r->miopen ? "aten::miopen_rnn" : "aten::_cudnn_rnn");
    in_rows(r, 0, r->in);
    rd_all(cells_of(r->rows * r->in));
    int64_t n = weights(r, 1, false);
    rd_all(cells_of(n));
    in_int(2, (r->biased ? 4 : 2) + r->projects);
    if (given)
        in_tensor(3, SIZES(n));
    else if (!r->miopen)
        in_none(3);
    uint64_t buffer = given ? the.in[the.n_in - 1].storage : 0;
    in_states(r, r->miopen ? 3 : 4);
    (void)in_settings(r, r->miopen ? 5 : 6);
    out_rows(r, 0, r->dirs * r->state);
    out_states(r, 1);
    out_whole(3, SIZES(7)); /* what the backward needs */
    out_tensor(4, SIZES(n));
    if (given && coin())
        the.out[the.n_out - 1].storage = buffer; /* what came in is returned: nothing is written */
    else
        wr_all(cells_of(n));
}

static void stacks(void **state) {
    (void)state;
    for (int i = 0; more(i, 3000); i++) {
        reseed((uint64_t)i);
        stack r = random_stack();
        tell_stack(&r);
        run_stack(&r);
        op_proves();
    }
}

/* A layer that is one operator costs the same by its own rule. */
static void stacks_are_layers(void **state) {
    (void)state;
    static const char *const words[] = {"RNN", "RNN", "LSTM", "GRU"};
    for (int i = 0; i < 2000; i++) {
        reseed((uint64_t)i);
        stack r = random_stack();
        lam_count got[LAM_N_METRICS], want[LAM_N_METRICS];
        layer l;
        tell_stack(&r);
        op_counts(got);
        forget();
        layer_new(&l, words[r.mode]);
        has_int(&l, "hidden_size", r.hidden);
        has_int(&l, "num_layers", r.layers);
        has_int(&l, "proj_size", projection(&r));
        has_float(&l, "dropout", r.p);
        has_bool(&l, "bidirectional", r.dirs == 2);
        takes(&l, SIZES(r.rows, r.in));
        gives(&l, SIZES(r.rows, r.dirs * r.state));
        in_training(&l, r.training);
        layer_counts(&l, 0, NULL, want);
        op_same(LAM_MACS, got[LAM_MACS], want[LAM_MACS].n);
        op_same(LAM_FLOPS, got[LAM_FLOPS], want[LAM_FLOPS].n);
    }
}

/* The gradients of one unit of a GRU at one step, without the sum of the gradients of h. */
static void gru_unit_grad(void) {
    double dh = 1, r = 1, z = 1, n = 1, h = 1, sum = 1; /* of the state's products */
    double dz = mul(dh, sub(h, n)), dn = mul(dh, sub(1, z));
    (void)mul(dh, z);
    double before = tanh_grad(dn, n);
    (void)mul(before, r);
    (void)sigmoid_grad(mul(before, sum), r), (void)sigmoid_grad(dz, z);
}

/* The gradients of a unit of h, which came from above and from the next step, and of what is inside it. */
static void step_grad(const stack *r) {
    for (int64_t s = 0; s < r->state; s++) (void)add(1, 1);
    for (int64_t u = 0; u < r->hidden; u++) {
        if (r->mode == 0) (void)less(0, 1);
        if (r->mode == 1) (void)tanh_grad(1, 1);
        if (r->mode == 2) lstm_unit_grad();
        if (r->mode == 3) gru_unit_grad();
    }
}

/* All products of one step with the matrices of a layer and direction, forward or for one gradient. */
static void step_dots(const stack *r, int64_t level) {
    for (int64_t i = 0; i < r->gates * r->hidden; i++) (void)dot(width(r, level), 0), (void)dot(r->state, 0);
    for (int64_t i = 0; i < projection(r); i++) (void)dot(r->hidden, 0);
}

static void run_backward(const stack *r, bool want) {
    int64_t sums = (r->gates + (r->mode == 3)) * r->hidden; /* a GRU's n has two different ones */
    for (int64_t l = 0; l < r->layers; l++) {
        for (int64_t k = 0; k < r->dirs * r->rows; k++) {
            step_grad(r);
            step_dots(r, l);
            if (want) step_dots(r, l);
            for (int64_t i = 0; want && r->biased && k % r->rows && i < sums; i++) (void)add(1, 1);
        }
        for (int64_t i = 0; r->dirs == 2 && i < r->rows * width(r, l); i++) (void)add(1, 1);
        drop(r, l);
    }
}

/* Tells the operator; which gradients of weights are returned, the last argument says. */
static void tell_backward(const stack *r, bool want) {
    op_new(r->miopen ? "aten::miopen_rnn_backward" : "aten::_cudnn_rnn_backward");
    in_rows(r, 0, r->in);
    cells *x = cells_of(r->rows * r->in);
    if (want) rd_all(x);
    int64_t n = weights(r, 1, false);
    rd_all(cells_of(n));
    in_int(2, (r->biased ? 4 : 2) + r->projects);
    in_tensor(3, SIZES(n)); /* the same once more */
    in_states(r, 4);
    in_rows(r, 6, r->dirs * r->state);
    in_rows(r, 7, r->dirs * r->state);
    for (int k = 0; k < 2; k++) rd_all(cells_of(r->rows * r->dirs * r->state));
    in_none(8), in_none(9);
    int32_t after = in_settings(r, 10);
    in_none(after);
    in_whole(after + 1, SIZES(7));
    in_ints(after + 2, SIZES(1, 0, 0, want));
    out_rows(r, 0, r->in);
    out_states(r, 1);
    if (want) wr_all(cells_of(weights(r, 3, true)));
}

static void stacks_backward(void **state) {
    (void)state;
    for (int i = 0; more(i, 3000); i++) {
        reseed((uint64_t)i);
        stack r = random_stack();
        bool want = coin();
        tell_backward(&r, want);
        run_backward(&r, want);
        op_proves();
    }
}

/* As oneDNN's operators of a CPU say of nn.LSTM(32, 64, 2, bidirectional=True) together: 6311424 and, with
 * the sums of both directions' gradients, 12539168 FLOPs. */
static void stacks_by_hand(void **state) {
    (void)state;
    stack r = {
        .mode = 2, .gates = 4, .steps = 7, .batch = 3, .rows = 21, .in = 32, .hidden = 64, .state = 64};
    r.layers = r.dirs = 2;
    r.biased = r.training = true;
    int64_t weights_ = 4 * 64 * (2 * (32 + 64) + 2 * (128 + 64)) + 16 * 256 / 2, states = 4 * 3 * 64;
    for (int k = 0; k < 2; k++) {
        r.packed = k;
        r.autocast = k;
        tell_stack(&r);
        lam_count got[LAM_N_METRICS];
        op_counts(got);
        op_same(LAM_MACS, got[LAM_MACS], 3096576);
        op_same(LAM_FLOPS, got[LAM_FLOPS], 6311424);
        forget();
        tell_backward(&r, true);
        op_says(6193152, 12539168, 2 * 21 * 32 + 2 * weights_ + 4 * states + 2 * 21 * 128 + 7);
        forget();
        tell_backward(&r, false);
        op_says(3096576, 2 * 3096576 + 24 * 21 * 256 + 21 * 160,
                21 * 32 + weights_ + 4 * states + 2 * 21 * 128 + 7);
        forget();
    }
}

/* What can't be told must be unknown. */
static void stacks_untold(void **state) {
    (void)state;
    stack r = {.mode = 2, .gates = 4, .steps = 5, .batch = 2, .rows = 10, .in = 4, .hidden = 3, .state = 3};
    r.layers = 2, r.dirs = 1;
    r.training = r.biased = true;
    r.p = 0.5;
    static const int32_t needed[] = {0, 4, 6, 7, 9, 13}; /* the input, h, mode, hidden, layers, directions */
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        lam_count got[LAM_N_METRICS];
        tell_stack(&r);
        for (int32_t k = 0; k < the.n_in; k++)
            if (the.in[k].position == needed[i])
                the.in[k] = (lam_op_arg){.position = needed[i], .dtype = -1, .device = -1, .ndim = -1};
        op_counts(got);
        assert_int_equal(got[LAM_MACS].state, LAM_UNKNOWN);
        assert_int_equal(got[LAM_FLOPS].state, LAM_UNKNOWN);
        forget();
    }
    for (int32_t position = 11; position <= 12; position++) { /* only the dropout between layers */
        lam_count got[LAM_N_METRICS];
        tell_stack(&r);
        for (int32_t k = 0; k < the.n_in; k++)
            if (the.in[k].position == position) the.in[k].value = (lam_value){.type = LAM_NONE};
        op_counts(got);
        op_same(LAM_MACS, got[LAM_MACS], 10 * 12 * (4 + 3 + 3 + 3));
        assert_int_equal(got[LAM_FLOPS].state, LAM_UNKNOWN);
        forget();
    }
    tell_stack(&r);
    for (int32_t k = 0; k < the.n_in; k++)
        if (the.in[k].position == 6) the.in[k].value.i = 4; /* there is no such mode */
    lam_count odd[LAM_N_METRICS];
    op_counts(odd);
    assert_int_equal(odd[LAM_MACS].state, LAM_UNKNOWN);
    forget();
    tell_backward(&r, false); /* the list of gradients was requested, and was not read */
    the.in[the.n_in - 1].value.ints = (const int64_t[]){1, 1, 1, 1};
    op_says(-1, -1, -1);
    the.in[the.n_in - 1].value = (lam_value){.type = LAM_NONE};
    op_says(-1, -1, -1);
    forget();
    tell_backward(&r, true); /* nobody wants anything: nothing runs */
    the.n_out = 0;
    for (int32_t k = 0; k < 3; k++) out_none(k);
    the.in[the.n_in - 1].value.ints = (const int64_t[]){0, 0, 0, 0};
    op_says(0, 0, 0);
    forget();
}

/* -- the gates of one step ----------------------------------------------------------------------------- */

/* One unit: of each gate the products of input and state and both biases; then the states. */
static void fused_unit(int64_t gates, bool biased) {
    double g[4], both[2] = {1, 1};
    for (int64_t i = 0; i < gates; i++) {
        for (int k = 0; k < 2 && biased; k++) both[k] = add(both[k], 1);
        g[i] = gates == 3 && i == 2 ? 0 : add(both[0], both[1]);
    }
    if (gates == 4) {
        double c = add(mul(sigmoid1(g[0]), 1), mul(sigmoid1(g[1]), tanh1(g[2])));
        (void)mul(sigmoid1(g[3]), tanh1(c));
    } else { /* n = tanh(x + r*h), h = n + z*(h-n) */
        double r = sigmoid1(g[0]), z = sigmoid1(g[1]), n = tanh1(add(both[0], mul(r, both[1])));
        (void)add(n, mul(z, sub(1, n)));
    }
}

static void fused_steps(void **state) {
    (void)state;
    for (int i = 0; more(i, 3000); i++) {
        reseed((uint64_t)i);
        int64_t batch = pick(0, 4), hidden = pick(1, 5), gates = pick(3, 4);
        bool biased = coin();
        op_new(gates == 4 ? "aten::_thnn_fused_lstm_cell" : "aten::_thnn_fused_gru_cell");
        for (int32_t k = 0; k < 2; k++) in_whole(k, SIZES(batch, gates * hidden));
        in_whole(2, SIZES(batch, hidden));
        for (int32_t k = 3; k < 5 && biased; k++) in_whole(k, SIZES(gates * hidden));
        for (int32_t k = 3; k < 5 && !biased; k++) in_none(k);
        out_whole(0, SIZES(batch, hidden));
        if (gates == 4) out_whole(1, SIZES(batch, hidden));
        out_whole(gates - 2, SIZES(batch, (gates == 4 ? 4 : 5) * hidden));
        for (int64_t u = 0; u < batch * hidden; u++) fused_unit(gates, biased);
        op_proves();
    }
}

/* A sum over the batch for each bias that is not the same as another. */
static void bias_sums(int64_t batch, int64_t n) {
    for (int64_t b = 1; b < batch; b++)
        for (int64_t i = 0; i < n; i++) (void)add(1, 1);
}

static void lstm_step_backward(int64_t batch, int64_t hidden, bool biased) {
    op_new("aten::_thnn_fused_lstm_cell_backward_impl");
    bool of_h = coin(), of_c = coin() || !of_h;
    of_h ? (void)in_whole(0, SIZES(batch, hidden)) : in_none(0);
    of_c ? (void)in_whole(1, SIZES(batch, hidden)) : in_none(1);
    for (int32_t k = 2; k < 4; k++) in_whole(k, SIZES(batch, hidden));
    in_whole(4, SIZES(batch, 4 * hidden));
    in_bool(5, biased);
    out_whole(0, SIZES(batch, 4 * hidden));
    out_whole(1, SIZES(batch, hidden));
    biased ? (void)out_whole(2, SIZES(4 * hidden)) : out_none(2);
    for (int64_t u = 0; u < batch * hidden; u++) lstm_unit_grad();
    if (biased) bias_sums(batch, 4 * hidden);
}

static void gru_step_backward(int64_t batch, int64_t hidden, bool biased) {
    op_new("aten::_thnn_fused_gru_cell_backward");
    in_whole(0, SIZES(batch, hidden));
    in_whole(1, SIZES(batch, 5 * hidden));
    in_bool(2, biased);
    for (int32_t k = 0; k < 2; k++) out_whole(k, SIZES(batch, 3 * hidden));
    out_whole(2, SIZES(batch, hidden));
    for (int32_t k = 3; k < 5; k++) biased ? (void)out_whole(k, SIZES(3 * hidden)) : out_none(k);
    for (int64_t u = 0; u < batch * hidden; u++) gru_unit_grad();
    for (int k = 0; k < 2 && biased; k++) bias_sums(batch, 3 * hidden);
}

static void fused_steps_backward(void **state) {
    (void)state;
    for (int i = 0; more(i, 3000); i++) {
        reseed((uint64_t)i);
        int64_t batch = pick(0, 4), hidden = pick(1, 5);
        bool biased = coin();
        coin() ? lstm_step_backward(batch, hidden, biased) : gru_step_backward(batch, hidden, biased);
        op_proves();
    }
}

static void fused_steps_untold(void **state) {
    (void)state;
    op_new("aten::_thnn_fused_lstm_cell_backward_impl"); /* without gradients nothing runs */
    in_none(0), in_none(1);
    for (int32_t k = 2; k < 4; k++) in_tensor(k, SIZES(3, 5));
    in_bool(5, true);
    for (int32_t k = 0; k < 3; k++) out_none(k);
    op_says(0, 0, 0);
    op_new("aten::_thnn_fused_gru_cell_backward"); /* whether there are biases is not told */
    in_tensor(0, SIZES(3, 5));
    in_tensor(1, SIZES(3, 25));
    in_none(2);
    out_tensor(0, SIZES(3, 15));
    op_says(0, -1, 15 + 75 + 45);
    op_new("aten::_thnn_fused_gru_cell"); /* of what size the state is */
    for (int32_t k = 0; k < 2; k++) in_tensor(k, SIZES(3, 15));
    in_none(2);
    out_tensor(0, SIZES(3, 5));
    op_says(0, -1, 45 + 45 + 15);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rnn_layer),
        cmocka_unit_test(lstm_backward),
        cmocka_unit_test(stacks),
        cmocka_unit_test(stacks_are_layers),
        cmocka_unit_test(stacks_backward),
        cmocka_unit_test(stacks_by_hand),
        cmocka_unit_test(stacks_untold),
        cmocka_unit_test(fused_steps),
        cmocka_unit_test(fused_steps_backward),
        cmocka_unit_test(fused_steps_untold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
