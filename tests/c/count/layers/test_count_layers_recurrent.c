/* SPDX-License-Identifier: Apache-2.0
 *
 * Proofs of `layers` for RNN, LSTM, GRU and their cells: every step of every sequence through every layer,
 * both ways. */
#include "kit/oom.h"

#include "kit/layer_build.h"

enum { MAX_UNITS = 4, MAX_STEPS = 5, MAX_BATCH = 3, MAX_WIDTH = 2 * MAX_UNITS };

typedef struct weights {
    cells *ih, *hh, *b_ih, *b_hh, *hr;
    int64_t in;
} weights;

typedef struct net {
    char kind; /* 'r'nn, 'l'stm, 'g'ru */
    bool relu, bias, cell, given_state, packed, training;
    int64_t in, hidden, proj, layers, dirs, gates;
    int64_t batch, length[MAX_BATCH]; /* steps of each sequence */
    double p;
    weights w[3][2];
    cells *x, *y, *h0, *c0, *h_n, *c_n;
} net;

static int64_t state_size(const net *r) { return r->proj ? r->proj : r->hidden; }

/* -- one step
 * ----------------------------------------------------------------------------------------------------------
 */

/* W v + b for one row of one gate. */
static double dot(cells *w, cells *b, int64_t row, const double *v, int64_t n) {
    double acc = b ? rd(b, row) : 0;
    for (int64_t i = 0; i < n; i++) acc = mac(acc, rd(w, row * n + i), v[i]);
    return acc;
}

static void gate(const net *r, const weights *w, int64_t g, int64_t u, const double *x, const double *h,
                 double two[2]) {
    two[0] = dot(w->ih, w->b_ih, g * r->hidden + u, x, w->in);
    two[1] = dot(w->hh, w->b_hh, g * r->hidden + u, h, state_size(r));
}

static double gate_sum(const net *r, const weights *w, int64_t g, int64_t u, const double *x,
                       const double *h) {
    double two[2];
    gate(r, w, g, u, x, h, two);
    return add(two[0], two[1]);
}

static double lstm_unit(const net *r, const weights *w, int64_t u, const double *x, const double *h,
                        double *c) {
    double i = sigmoid1(gate_sum(r, w, 0, u, x, h)), f = sigmoid1(gate_sum(r, w, 1, u, x, h));
    double g = tanh1(gate_sum(r, w, 2, u, x, h)), o = sigmoid1(gate_sum(r, w, 3, u, x, h));
    *c = add(mul(f, *c), mul(i, g));
    return mul(o, tanh1(*c));
}

static double gru_unit(const net *r, const weights *w, int64_t u, const double *x, const double *h) {
    double reset = sigmoid1(gate_sum(r, w, 0, u, x, h)), z = sigmoid1(gate_sum(r, w, 1, u, x, h)), two[2];
    gate(r, w, 2, u, x, h, two);
    double n = tanh1(add(two[0], mul(reset, two[1])));
    return add(mul(sub(1, z), n), mul(z, h[u]));
}

/* The next state from input x; h and c are replaced. */
static void step(const net *r, const weights *w, const double *x, double *h, double *c) {
    double fresh[MAX_UNITS], out[MAX_UNITS];
    for (int64_t u = 0; u < r->hidden; u++) {
        if (r->kind == 'l')
            fresh[u] = lstm_unit(r, w, u, x, h, &c[u]);
        else if (r->kind == 'g')
            fresh[u] = gru_unit(r, w, u, x, h);
        else
            fresh[u] = r->relu ? max2(0, gate_sum(r, w, 0, u, x, h)) : tanh1(gate_sum(r, w, 0, u, x, h));
    }
    for (int64_t k = 0; k < r->proj; k++) out[k] = dot(w->hr, NULL, k, fresh, r->hidden);
    memcpy(h, r->proj ? out : fresh, (size_t)state_size(r) * sizeof *h);
}

/* -- a stack
 * -----------------------------------------------------------------------------------------------------------
 */

/* Where step t of sequence b lies: by steps and then by sequences that reach so far, as packed data do;
 * without packing all reach, and the order of axes makes no difference to what is counted. */
static int64_t position(const net *r, int64_t t, int64_t b) {
    int64_t n = 0;
    for (int64_t i = 0; i <= t; i++)
        for (int64_t k = 0; k < r->batch && (i < t || k < b); k++) n += r->length[k] > i;
    return n;
}

static void start(const net *r, int64_t level, int64_t dir, int64_t b, double *h, double *c) {
    int64_t first = ((level * r->dirs + dir) * r->batch + b), n = state_size(r);
    for (int64_t u = 0; u < n; u++) h[u] = r->h0 ? rd(r->h0, first * n + u) : 0;
    for (int64_t u = 0; u < r->hidden; u++) c[u] = r->c0 ? rd(r->c0, first * r->hidden + u) : 0;
}

static void finish(const net *r, int64_t level, int64_t dir, int64_t b, const double *h, const double *c) {
    int64_t first = ((level * r->dirs + dir) * r->batch + b), n = state_size(r);
    for (int64_t u = 0; r->h_n && u < n; u++) wr(r->h_n, first * n + u, h[u]);
    for (int64_t u = 0; r->c_n && u < r->hidden; u++) wr(r->c_n, first * r->hidden + u, c[u]);
}

/* One layer over one sequence: v[t] holds its inputs and then its outputs, the two directions side by side.
 */
static void run_layer(const net *r, int64_t level, int64_t b, double v[MAX_STEPS][MAX_WIDTH]) {
    double out[MAX_STEPS][MAX_WIDTH], h[MAX_UNITS], c[MAX_UNITS];
    int64_t n = state_size(r), length = r->length[b];
    for (int64_t dir = 0; dir < r->dirs; dir++) {
        start(r, level, dir, b, h, c);
        for (int64_t k = 0; k < length; k++) {
            int64_t t = dir ? length - 1 - k : k;
            step(r, &r->w[level][dir], v[t], h, c);
            memcpy(&out[t][dir * n], h, (size_t)n * sizeof *h);
        }
        finish(r, level, dir, b, h, c);
    }
    memcpy(v, out, sizeof out);
}

static double dropped(const net *r, double v) {
    if (!r->training || r->p == 0) return v;
    return r->p >= 1 ? mul(v, 0) : mul(v, dvd(1, 1 - r->p));
}

static void run(const net *r) {
    int64_t width = r->dirs * state_size(r);
    for (int64_t b = 0; b < r->batch; b++) {
        double v[MAX_STEPS][MAX_WIDTH] = {{0}};
        for (int64_t t = 0; t < r->length[b]; t++)
            for (int64_t i = 0; i < r->in; i++) v[t][i] = rd(r->x, position(r, t, b) * r->in + i);
        for (int64_t level = 0; level < r->layers; level++) {
            run_layer(r, level, b, v);
            for (int64_t t = 0; level + 1 < r->layers && t < r->length[b]; t++)
                for (int64_t i = 0; i < width; i++) v[t][i] = dropped(r, v[t][i]);
        }
        for (int64_t t = 0; t < r->length[b]; t++)
            for (int64_t i = 0; i < width; i++) wr(r->y, position(r, t, b) * width + i, v[t][i]);
    }
}

/* -- the layers
 * ---------------------------------------------------------------------------------------------------------
 */

static void random_net(net *r, bool cell) {
    static const char kinds[] = {'r', 'l', 'g'};
    *r = (net){.kind = kinds[pick(0, 2)],
               .relu = coin(),
               .bias = coin(),
               .cell = cell,
               .given_state = coin(),
               .training = coin(),
               .in = pick(1, 4),
               .hidden = pick(2, MAX_UNITS),
               .layers = 1,
               .dirs = 1};
    r->gates = r->kind == 'l' ? 4 : r->kind == 'g' ? 3 : 1;
    r->batch = pick(1, MAX_BATCH);
    for (int64_t b = 0; b < r->batch; b++) r->length[b] = 1;
    if (cell) return;
    r->layers = pick(1, 3);
    r->dirs = pick(1, 2);
    r->proj = r->kind == 'l' && coin() ? pick(1, r->hidden - 1) : 0;
    r->packed = pick(0, 2) == 0;
    r->p = pick(0, 1) ? 0 : pick(0, 2) ? 0.5 : 1;
    for (int64_t b = 0; b < r->batch; b++)
        r->length[b] = b == 0 ? pick(1, MAX_STEPS) : r->packed ? pick(1, r->length[b - 1]) : r->length[0];
}

static void parameter(layer *l, const net *r, const char *what, int64_t level, int64_t dir, int64_t rows,
                      int64_t columns, cells **to) {
    char name[64];
    if (r->cell)
        snprintf(name, sizeof name, "%s", what);
    else
        snprintf(name, sizeof name, "%s_l%d%s", what, (int)level, dir ? "_reverse" : "");
    if (columns)
        has_param(l, name, SIZES(rows, columns));
    else
        has_param(l, name, SIZES(rows));
    *to = cells_of(rows * (columns ? columns : 1));
}

static void parameters(layer *l, net *r) {
    for (int64_t level = 0; level < r->layers; level++)
        for (int64_t dir = 0; dir < r->dirs; dir++) {
            weights *w = &r->w[level][dir];
            int64_t rows = r->gates * r->hidden;
            w->in = level ? r->dirs * state_size(r) : r->in;
            parameter(l, r, "weight_ih", level, dir, rows, w->in, &w->ih);
            parameter(l, r, "weight_hh", level, dir, rows, state_size(r), &w->hh);
            if (r->bias) parameter(l, r, "bias_ih", level, dir, rows, 0, &w->b_ih);
            if (r->bias) parameter(l, r, "bias_hh", level, dir, rows, 0, &w->b_hh);
            if (r->proj) parameter(l, r, "weight_hr", level, dir, r->proj, r->hidden, &w->hr);
        }
}

static void attributes(layer *l, const net *r) {
    has_int(l, "input_size", r->in);
    has_int(l, "hidden_size", r->hidden);
    has_bool(l, "bias", r->bias);
    if (r->kind == 'r') has_text(l, "nonlinearity", r->relu ? "relu" : "tanh");
    in_training(l, r->training);
    if (r->cell) return;
    has_int(l, "num_layers", r->layers);
    has_bool(l, "bidirectional", r->dirs == 2);
    has_int(l, "proj_size", r->proj);
    has_float(l, "dropout", r->p);
}

static const char *word_of(const net *r) {
    static const char *const names[2][3] = {{"RNN", "LSTM", "GRU"}, {"RNNCell", "LSTMCell", "GRUCell"}};
    return names[r->cell][r->kind == 'r' ? 0 : r->kind == 'l' ? 1 : 2];
}

/* A sequence's input or output: (T, B, n), (B, T, n), (T, n) for one sequence, or packed (all steps, n) and
 * sizes. */
static void sequence(layer *l, const net *r, int64_t n, int64_t steps, bool batch_first, bool unbatched,
                     bool out) {
    int64_t time = r->length[0];
    int64_t s[] = {batch_first ? r->batch : time, batch_first ? time : r->batch, n};
    void (*put)(layer *, int32_t, const int64_t *) = out ? gives : takes;
    if (r->packed) {
        put(l, SIZES(steps, n));
        put(l, SIZES(time));
        cells *sizes = cells_of(time);
        if (out)
            wr_all(sizes);
        else
            rd_all(sizes);
    } else if (unbatched) {
        put(l, SIZES(time, n));
    } else {
        put(l, 3, s);
    }
}

static void states(layer *l, net *r, bool out) {
    int64_t each = r->layers * r->dirs * r->batch, n = state_size(r);
    cells **h = out ? &r->h_n : &r->h0, **c = out ? &r->c_n : &r->c0;
    void (*put)(layer *, int32_t, const int64_t *) = out ? gives : takes;
    put(l, SIZES(r->layers * r->dirs, r->batch, n));
    *h = cells_of(each * n);
    if (r->kind != 'l') return;
    put(l, SIZES(r->layers * r->dirs, r->batch, r->hidden));
    *c = cells_of(each * r->hidden);
    /* A pair of states is one argument. */
    if (!out) l->in[l->n_in - 1].position = l->in[l->n_in - 2].position;
}

static void stacks(void **state) {
    (void)state;
    for (int i = 0; more(i, 700); i++) {
        reseed((uint64_t)i);
        net r;
        layer l;
        random_net(&r, false);
        bool batch_first = coin(), unbatched = r.batch == 1 && coin();
        int64_t steps = 0, width = r.dirs * state_size(&r);
        for (int64_t b = 0; b < r.batch; b++) steps += r.length[b];
        layer_new(&l, word_of(&r));
        attributes(&l, &r);
        has_bool(&l, "batch_first", batch_first);
        parameters(&l, &r);
        r.x = cells_of(steps * r.in);
        r.y = cells_of(steps * width);
        sequence(&l, &r, r.in, steps, batch_first, unbatched, false);
        if (r.packed) l.in[1].position = 0; /* one argument of several tensors */
        if (r.given_state) states(&l, &r, false);
        sequence(&l, &r, width, steps, batch_first, unbatched, true);
        states(&l, &r, true);
        run(&r);
        proves(&l);
    }
}

static void one_cell(void **state) {
    (void)state;
    for (int i = 0; more(i, 500); i++) {
        reseed((uint64_t)i);
        net r;
        layer l;
        random_net(&r, true);
        bool unbatched = r.batch == 1 && coin();
        layer_new(&l, word_of(&r));
        attributes(&l, &r);
        parameters(&l, &r);
        const int64_t x[] = {r.batch, r.in}, h[] = {r.batch, r.hidden};
        int32_t skip = unbatched;
        takes(&l, 2 - skip, x + skip);
        r.x = cells_of(r.batch * r.in);
        for (int k = 0; k < (r.kind == 'l' ? 2 : 1); k++) {
            if (r.given_state) takes(&l, 2 - skip, h + skip);
            if (r.given_state) *(k ? &r.c0 : &r.h0) = cells_of(r.batch * r.hidden);
            gives(&l, 2 - skip, h + skip);
        }
        r.y = cells_of(r.batch * r.hidden); /* is the new state */
        if (r.kind == 'l') r.c_n = cells_of(r.batch * r.hidden);
        run(&r);
        proves(&l);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(stacks), cmocka_unit_test(one_cell)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
