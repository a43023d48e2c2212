/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of oneDNN's LSTM on a CPU, laid out as in oneDNN's rnn_utils.cpp: each array starts a page, and
 * the length of a row is a multiple of a cache line but never of 256 elements. */
#include "predict/workspace.h"

typedef struct lstm {
    int64_t steps, examples, in, hidden, item;
} lstm;

/* The position of the data (steps, examples, features); its weights and those of the state follow. */
static bool look_at(const lmi_asked *a, lstm *r) {
    const lam_op_arg *x = lmi_asked_tensor(a, 0), *w = lmi_asked_tensor(a, 1),
                     *of_state = lmi_asked_tensor(a, 2);
    if (!x || !w || !of_state || x->ndim != 3 || w->ndim != 2 || of_state->ndim != 2) return false;
    *r = (lstm){x->sizes[0], x->sizes[1], x->sizes[2], of_state->sizes[1], lmi_item(x)};
    return r->steps > 0 && r->examples > 0 && r->in > 0 && r->hidden > 0;
}

static int64_t pages(int64_t bytes) { return lmi_up(bytes, 4096); }

/* The padded length of a row of n elements. */
static int64_t row(const lstm *r, int64_t n) {
    int64_t line = 64 / r->item, up = lmi_up(n, line);
    return up % 256 == 0 ? up + line : up;
}

static int64_t gates(const lstm *r) { return row(r, lmi_limited_times(4, r->hidden)); }

static int64_t rows(const lstm *r, int64_t n, int64_t width) {
    return pages(lmi_limited_times(lmi_limited_times(n, r->examples), lmi_limited_times(width, r->item)));
}

/* The sums before the gates, the states, and the bias. */
static int64_t scratch(const lstm *r) {
    enum { ALIGNED = 568 };
    int64_t bias = pages(lmi_limited_times(4 * r->item, r->hidden));
    return rows(r, r->steps, gates(r)) + rows(r, 1, row(r, r->hidden)) + rows(r, 1, r->hidden) + bias +
           ALIGNED;
}

static int64_t weights(const lstm *r, int64_t in, int64_t out) {
    return lmi_limited_times(lmi_limited_times(in, out), r->item);
}

static int64_t bias(const lstm *r) { return lmi_limited_times(4 * r->item, r->hidden); }

/* Both weights in another order. */
static int64_t reordered(const lstm *r) {
    return weights(r, r->in, gates(r)) + weights(r, r->hidden, gates(r));
}

/* For inference: the hidden part in blocks of 32, and longer data copied. */
static int64_t inference(const lstm *r) {
    int64_t out = lmi_limited_times(4, lmi_up(r->hidden, 32));
    int64_t states = 2 * rows(r, 2, r->hidden) + pages(1);
    return weights(r, r->in, out) + weights(r, r->hidden, out) + bias(r) + scratch(r) + states +
           (r->in > r->hidden ? rows(r, r->steps, r->in) : 0);
}

int64_t lmi_recurrent(const lmi_asked *a) {
    enum { TRAIN = 15 };
    lstm r;
    if (!look_at(a, &r)) return 0;
    return lmi_asked_number(a, TRAIN, 0, 0) ? reordered(&r) + bias(&r) + scratch(&r) : inference(&r);
}

/* The weights if their rows are padded, both gradients in the other order, and the gradients of the
 * previous states. In 16 bits those of the weights, which are results in 32, are copied as well: this was
 * measured (to 6 % of a step), and is not from the source. */
int64_t lmi_recurrent_backward(const lmi_asked *a) {
    lstm r;
    if (!look_at(a, &r)) return 0;
    int64_t out = lmi_limited_times(4, r.hidden), before = 0;
    if (row(&r, r.in) != r.in) before += weights(&r, row(&r, r.in), out);
    if (row(&r, r.hidden) != r.hidden) before += weights(&r, row(&r, r.hidden), out);
    int64_t states = lmi_limited_times(3 * r.item, lmi_limited_times(r.examples, r.hidden));
    if (r.item == 2) before = 2 * (weights(&r, r.in, out) + weights(&r, r.hidden, out));
    return before + reordered(&r) + bias(&r) + scratch(&r) + states;
}

/* Kept by a forward for its backward: gates and states of every step. */
int64_t lmi_recurrent_kept(const lmi_asked *a) {
    lstm r;
    if (!look_at(a, &r)) return 0;
    int64_t wide = row(&r, lmi_most(r.in, r.hidden)), both = lmi_limited_times(2, r.steps) + 2;
    return rows(&r, r.steps, gates(&r)) + rows(&r, r.steps, row(&r, r.hidden)) +
           2 * rows(&r, both, r.hidden) + 3 * rows(&r, both, wide);
}
