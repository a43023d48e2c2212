/* SPDX-License-Identifier: Apache-2.0
 *
 * Receptive fields of made-up chains of operators against what each element really depends on: sets of input
 * elements that are carried along by the operators' definitions. What is told holds all of them, and no more
 * where it says that it is exact. */
#include "kit/oom.h"

#include "kit/draw.h"
#include "kit/graph_net.h"

#include <stdio.h>
#include <stdlib.h>

enum { AXES = 5, ELEMENTS = 192, LONGEST = 7, ARGS = 10 };

/* A tensor, and for each element the input's elements (64 at most) that it depends on. */
typedef struct tensor {
    uint64_t number;
    int32_t ndim;
    int64_t sizes[AXES];
    uint64_t deps[ELEMENTS];
} tensor;

static int64_t count(const tensor *t) {
    int64_t n = 1;
    for (int32_t i = 0; i < t->ndim; i++) n *= t->sizes[i];
    return n;
}

static void place_in(const tensor *t, int64_t element, int64_t at[AXES]) {
    for (int32_t i = t->ndim - 1; i >= 0; i--) {
        at[i] = element % t->sizes[i];
        element /= t->sizes[i];
    }
}

static int64_t element_at(const tensor *t, const int64_t at[AXES]) {
    int64_t element = 0;
    for (int32_t i = 0; i < t->ndim; i++) element = element * t->sizes[i] + at[i];
    return element;
}

static lam_op_arg arg_of(int32_t position, const tensor *t) {
    return data_of(position, t->number, t->number, t->sizes, t->ndim);
}

/* -- the operators ----------------------------------------------------------------------------- */

typedef struct chain {
    net n;
    int32_t call, length;
    tensor was, now; /* before the last operator, and after it */
    bool padded;     /* what is told of an element that is padding alone, or comes of it, may be too much */
    char text[512];
    lam_op_arg in[ARGS];
    int32_t n_in;
    int64_t ints[ARGS][AXES * 2];
} chain;

static void put_ints(chain *c, int32_t position, int32_t n, ...) {
    va_list more;
    va_start(more, n);
    for (int32_t i = 0; i < n; i++) c->ints[c->n_in][i] = va_arg(more, int64_t);
    va_end(more);
    c->in[c->n_in] = ints_at(position, c->ints[c->n_in], n);
    c->n_in++;
}

static void put_int(chain *c, int32_t position, int64_t i) { c->in[c->n_in++] = int_at(position, i); }
static void put_tensor(chain *c, int32_t position, const tensor *t) {
    c->in[c->n_in++] = arg_of(position, t);
}

/* The operator ran on what was put; `now` is its result, of which the sizes are told. */
static void ran(chain *c, const char *name) {
    const lam_op_arg out = arg_of(0, &c->now);
    net_op_args(&c->n, name, (op_at){c->call, -1, LAM_FORWARD, 0}, c->in, c->n_in, &out, 1);
    snprintf(c->text + strlen(c->text), sizeof c->text - strlen(c->text), " %s", name + 6);
}

/* Element `from` of the one argument, found for each of the result's. */
typedef bool (*reads)(const chain *c, const int64_t out[AXES], const int64_t in[AXES]);

static void carry(chain *c, reads r) {
    int64_t out[AXES], in[AXES];
    for (int64_t o = 0; o < count(&c->now); o++) {
        c->now.deps[o] = 0;
        place_in(&c->now, o, out);
        for (int64_t i = 0; i < count(&c->was); i++) {
            place_in(&c->was, i, in);
            if (r(c, out, in)) c->now.deps[o] |= c->was.deps[i];
        }
    }
}

/* What the operator in hand was drawn to do. */
static int32_t dim;
static int64_t first, step, window, by[AXES];

static void start(chain *c) {
    c->was = c->now;
    c->now.number = c->was.number + 1;
    c->n_in = 0;
    dim = (int32_t)draw(0, c->was.ndim - 1);
    put_tensor(c, 0, &c->was);
}

static bool by_order(const chain *c, const int64_t *out, const int64_t *in) {
    return element_at(&c->now, out) == element_at(&c->was, in);
}

/* Two axes become one, one becomes two, or one of one element comes or goes. */
static bool view(chain *c) {
    tensor *t = &c->now;
    int32_t rest = t->ndim - dim - 1;
    int64_t part = draw(1, 4);
    if (draw(0, 1) && rest > 0) {
        t->sizes[dim] *= t->sizes[dim + 1];
        memmove(&t->sizes[dim + 1], &t->sizes[dim + 2], sizeof *t->sizes * (size_t)(rest - 1));
        t->ndim--;
    } else if (t->ndim < AXES && t->sizes[dim] % part == 0) {
        memmove(&t->sizes[dim + 1], &t->sizes[dim], sizeof *t->sizes * (size_t)(rest + 1));
        t->sizes[dim] /= part;
        t->sizes[dim + 1] = part;
        t->ndim++;
    } else {
        return false;
    }
    memcpy(c->ints[1], t->sizes, sizeof t->sizes);
    c->in[c->n_in++] = ints_at(1, c->ints[1], t->ndim);
    ran(c, "aten::view");
    carry(c, by_order);
    return true;
}

static bool permuted(const chain *c, const int64_t *out, const int64_t *in) {
    for (int32_t i = 0; i < c->now.ndim; i++)
        if (out[i] != in[by[i]]) return false;
    return true;
}

static bool permute(chain *c) {
    for (int32_t i = 0; i < c->was.ndim; i++) by[i] = i;
    for (int32_t i = c->was.ndim - 1; i > 0; i--) {
        int64_t k = draw(0, i), t = by[i];
        by[i] = by[k];
        by[k] = t;
    }
    for (int32_t i = 0; i < c->was.ndim; i++) c->now.sizes[i] = c->was.sizes[by[i]];
    memcpy(c->ints[1], by, sizeof by);
    c->in[c->n_in++] = ints_at(1, c->ints[1], c->was.ndim);
    ran(c, "aten::permute");
    carry(c, permuted);
    return true;
}

/* All axes but `dim` are the same; along it element o reads i where a function says so. */
static bool others_same(const chain *c, const int64_t *out, const int64_t *in) {
    for (int32_t i = 0; i < c->now.ndim; i++)
        if (i != dim && out[i] != in[i]) return false;
    return true;
}
static bool windowed(const chain *c, const int64_t *out, const int64_t *in) {
    int64_t at = in[dim] - out[dim] * step - first;
    return others_same(c, out, in) && at >= 0 && at < window;
}

static bool slice(chain *c) {
    int64_t n = c->was.sizes[dim];
    first = draw(0, n - 1);
    step = draw(1, 2);
    window = 1;
    c->now.sizes[dim] = (n - first + step - 1) / step;
    put_int(c, 1, dim);
    put_int(c, 2, first);
    put_int(c, 3, INT64_MAX);
    put_int(c, 4, step);
    ran(c, "aten::slice");
    carry(c, windowed);
    return true;
}

static bool flip(chain *c) {
    first = c->was.sizes[dim] - 1;
    step = -1;
    window = 1;
    put_ints(c, 1, 1, (int64_t)dim);
    ran(c, "aten::flip");
    carry(c, windowed);
    return true;
}

static bool pad(chain *c) {
    dim = c->was.ndim - 1;
    first = -draw(0, 2);
    step = window = 1;
    c->now.sizes[dim] += -first + 1;
    put_ints(c, 1, 2, -first, INT64_C(1));
    c->padded = true;
    ran(c, "aten::constant_pad_nd");
    carry(c, windowed);
    return true;
}

static bool pool(chain *c) {
    dim = c->was.ndim - 1;
    window = draw(1, 3);
    step = draw(1, 3);
    first = 0;
    if (dim < 2 || c->was.sizes[dim] < window) return false;
    c->now.sizes[dim] = (c->was.sizes[dim] - window) / step + 1;
    put_ints(c, 1, 1, window);
    put_ints(c, 2, 1, step);
    ran(c, "aten::avg_pool1d");
    carry(c, windowed);
    return true;
}

static bool softmax(chain *c) {
    put_int(c, 1, dim);
    ran(c, "aten::_softmax");
    carry(c, others_same);
    return true;
}

static bool sum(chain *c) {
    const lam_op_arg keep = {.position = 2, .ndim = -1, .value = {.type = LAM_BOOL, .i = 1}};
    put_ints(c, 1, 1, (int64_t)dim);
    c->in[c->n_in++] = keep;
    c->now.sizes[dim] = 1;
    ran(c, "aten::sum");
    carry(c, others_same);
    return true;
}

static bool without_dim(const chain *c, const int64_t *out, const int64_t *in) {
    for (int32_t i = 0; i < c->was.ndim; i++)
        if (i == dim ? in[i] != first : in[i] != out[i < dim ? i : i - 1]) return false;
    return true;
}

static bool select_one(chain *c) {
    if (c->was.ndim < 3 || dim == 0) return false;
    first = draw(0, c->was.sizes[dim] - 1);
    memmove(&c->now.sizes[dim], &c->was.sizes[dim + 1],
            sizeof *c->now.sizes * (size_t)(c->was.ndim - dim - 1));
    c->now.ndim--;
    put_int(c, 1, dim);
    put_int(c, 2, first);
    ran(c, "aten::select");
    carry(c, without_dim);
    return true;
}

static bool expand(chain *c) {
    if (c->was.sizes[dim] != 1) return false;
    c->now.sizes[dim] = draw(2, 3);
    ran(c, "aten::expand");
    carry(c, others_same);
    return true;
}

static bool put_beside(const chain *c, const int64_t *out, const int64_t *in) {
    return others_same(c, out, in) && out[dim] % c->was.sizes[dim] == in[dim];
}

static bool cat(chain *c) {
    put_tensor(c, 0, &c->was);
    put_int(c, 1, dim);
    c->now.sizes[dim] *= 2;
    ran(c, "aten::cat");
    carry(c, put_beside);
    return true;
}

static bool repeat(chain *c) {
    for (int32_t i = 0; i < c->was.ndim; i++) c->ints[c->n_in][i] = i == dim ? 2 : 1;
    c->in[c->n_in] = ints_at(1, c->ints[c->n_in], c->was.ndim);
    c->n_in++;
    c->now.sizes[dim] *= 2;
    ran(c, "aten::repeat");
    carry(c, put_beside);
    return true;
}

static bool stretched(const chain *c, const int64_t *out, const int64_t *in) {
    return others_same(c, out, in) && out[dim] * c->was.sizes[dim] / c->now.sizes[dim] == in[dim];
}

static bool upsample(chain *c) {
    dim = 2;
    if (c->was.ndim != 3) return false;
    c->now.sizes[dim] = draw(1, 9);
    put_ints(c, 1, 1, c->now.sizes[dim]);
    ran(c, "aten::upsample_nearest1d");
    carry(c, stretched);
    return true;
}

static bool linear(chain *c) {
    dim = c->was.ndim - 1;
    c->now.sizes[dim] = draw(1, 4);
    const int64_t w[] = {c->now.sizes[dim], c->was.sizes[dim]};
    memcpy(c->ints[0], w, sizeof w);
    c->in[c->n_in++] = data_of(1, 1000, 1000, c->ints[0], 2);
    ran(c, "aten::linear");
    carry(c, others_same);
    return true;
}

/* The sum of two paths: what is there, and another tensor of that shape. */
static bool add(chain *c, const tensor *other) {
    tensor one = c->now;
    c->now.number++;
    c->n_in = 0;
    put_tensor(c, 0, &one);
    put_tensor(c, 1, other);
    ran(c, "aten::add");
    for (int64_t i = 0; i < count(&c->now); i++) c->now.deps[i] = one.deps[i] | other->deps[i];
    return true;
}

static bool meet_flipped(chain *c) {
    tensor before = c->was;
    return flip(c) && add(c, &before);
}

/* Every other element, and the first half: two jumps that differ. */
static bool meet_at_two_paces(chain *c) {
    tensor before = c->was;
    int64_t half = before.sizes[dim] / 2;
    if (half < 1) return false;
    first = 0;
    step = 2;
    window = 1;
    c->now.sizes[dim] = half;
    put_int(c, 1, dim);
    put_int(c, 2, 0);
    put_int(c, 3, 2 * half);
    put_int(c, 4, 2);
    ran(c, "aten::slice");
    carry(c, windowed);
    tensor thinned = c->now;
    c->n_in = 0;
    c->now.number++;
    step = 1;
    put_tensor(c, 0, &before);
    put_int(c, 1, dim);
    put_int(c, 2, 0);
    put_int(c, 3, half);
    ran(c, "aten::slice");
    carry(c, windowed);
    return add(c, &thinned);
}

/* A square and itself turned over: what is seen along one axis comes along another. */
static bool meet_turned(chain *c) {
    tensor before = c->was;
    if (dim + 1 >= before.ndim || before.sizes[dim] != before.sizes[dim + 1]) return false;
    for (int32_t i = 0; i < before.ndim; i++) by[i] = i == dim ? dim + 1 : i == dim + 1 ? dim : i;
    put_int(c, 1, dim);
    put_int(c, 2, dim + 1);
    ran(c, "aten::transpose");
    carry(c, permuted);
    return add(c, &before);
}

static bool stacked(const chain *c, const int64_t *out, const int64_t *in) {
    for (int32_t i = 0; i < c->was.ndim; i++)
        if (in[i] != out[i < dim ? i : i + 1]) return false;
    return true;
}

static bool stack(chain *c) {
    if (c->was.ndim == AXES) return false;
    memmove(&c->now.sizes[dim + 1], &c->was.sizes[dim], sizeof *c->now.sizes * (size_t)(c->was.ndim - dim));
    c->now.sizes[dim] = 2;
    c->now.ndim++;
    put_tensor(c, 0, &c->was);
    put_int(c, 1, dim);
    ran(c, "aten::stack");
    carry(c, stacked);
    return true;
}

static bool unfolded(const chain *c, const int64_t *out, const int64_t *in) {
    for (int32_t i = 0; i < c->was.ndim; i++)
        if (in[i] != (i == dim ? out[i] * step + out[c->was.ndim] : out[i])) return false;
    return true;
}

static bool unfold(chain *c) {
    window = draw(1, 3);
    step = draw(1, 2);
    if (c->was.ndim == AXES || c->was.sizes[dim] < window) return false;
    c->now.sizes[dim] = (c->was.sizes[dim] - window) / step + 1;
    c->now.sizes[c->now.ndim++] = window;
    put_int(c, 1, dim);
    put_int(c, 2, window);
    put_int(c, 3, step);
    ran(c, "aten::unfold");
    carry(c, unfolded);
    return true;
}

/* The first part of two. */
static bool chunk(chain *c) {
    first = 0;
    step = window = 1;
    if (c->was.sizes[dim] < 2) return false;
    c->now.sizes[dim] = (c->was.sizes[dim] + 1) / 2;
    put_int(c, 1, 2);
    put_int(c, 2, dim);
    ran(c, "aten::chunk");
    carry(c, windowed);
    return true;
}

/* Any elements along an axis: those in reverse. */
static bool index_select(chain *c) {
    first = c->was.sizes[dim] - 1;
    step = -1;
    window = 1;
    put_int(c, 1, dim);
    c->in[c->n_in++] = data_of(2, 1001, 1001, &c->was.sizes[dim], 1);
    ran(c, "aten::index_select");
    carry(c, windowed);
    return true;
}

typedef bool (*operator_of)(chain *c);
static const operator_of operators[] = {view,        view,    permute,      slice,      flip,
                                        pad,         pool,    softmax,      select_one, expand,
                                        cat,         repeat,  meet_flipped, sum,        meet_at_two_paces,
                                        meet_turned, stack,   unfold,       chunk,      index_select,
                                        linear,      upsample};

/* -- chains ------------------------------------------------------------------------------------ */

static lam_model *made_up(chain *c) {
    *c = (chain){.n = net_new(), .now = {.number = 1, .ndim = (int32_t)draw(2, 4)}};
    int32_t root = net_module(&c->n, "Net", 0);
    net_numbered(&c->n, root, "weight", 1000, true, SH(1, 1));
    net_numbered(&c->n, root, "index", 1001, false, SH(1));
    net_place(&c->n, -1, "", root);
    c->now.sizes[0] = draw(1, 2);
    for (int32_t i = 1; i < c->now.ndim; i++) c->now.sizes[i] = draw(1, c->now.ndim == 4 ? 3 : 5);
    for (int64_t i = 0; i < count(&c->now); i++) c->now.deps[i] = UINT64_C(1) << i;
    tensor input = c->now;
    /* The operators are pushed after the call, whose result is only known when all were drawn: so the call is
     * told the input, and a last call, inside, the result. */
    uint32_t from = seed;
    tensor last = c->now;
    for (int pass = 0; pass < 2; pass++) {
        chain *to = c, rehearsal;
        if (pass == 0) {
            rehearsal = *c;
            rehearsal.n = net_new();
            rehearsal.call = -1;
            to = &rehearsal;
        } else {
            const lam_op_arg x = arg_of(0, &input), y = arg_of(0, &last);
            c->call = net_step_of(&c->n, root, -1, &x, &y);
        }
        seed = from;
        for (int64_t k = draw(1, LONGEST); k > 0; k--) {
            chain undo = *to;
            start(to);
            if (!operators[draw(0, sizeof operators / sizeof *operators - 1)](to)) *to = undo;
            if (count(&to->now) * 4 > ELEMENTS) break;
        }
        if (pass == 0) {
            last = rehearsal.now;
            lam_builder_free(rehearsal.n.b);
        }
    }
    NET_OK(&c->n, lam_build_ops_seen(c->n.b, &c->n.e)); /* there may be none */
    return net_done(&c->n);
}

/* The hull of what the elements depend on that have number `o` along `axis` (-1: all), along an axis of the
 * input. */
static bool hull(const chain *c, const tensor *input, int32_t axis, int64_t o, int32_t along, int64_t *lo,
                 int64_t *hi) {
    int64_t at[AXES], from[AXES];
    bool any = false;
    for (int64_t i = 0; i < count(&c->now); i++) {
        place_in(&c->now, i, at);
        if (axis >= 0 && at[axis] != o) continue;
        for (int64_t k = 0; k < count(input); k++) {
            if (!(c->now.deps[i] >> k & 1)) continue;
            place_in(input, k, from);
            if (!any || from[along] < *lo) *lo = from[along];
            if (!any || from[along] > *hi) *hi = from[along];
            any = true;
        }
    }
    return any;
}

static void check_axis(const chain *c, const tensor *input, const lam_costs *k, int32_t i,
                       const lam_rf_axis *x) {
    int64_t n = x->out_axis < 0 ? 1 : c->now.sizes[x->out_axis];
    for (int64_t o = 0; o < n; o++) {
        int64_t lo = 0, hi = -1, told_lo, told_hi;
        bool any = hull(c, input, x->out_axis, o, x->axis, &lo, &hi);
        assert_int_equal(lam_costs_rf_seen(k, 0, i, o, &told_lo, &told_hi, NULL), LAM_OK);
        bool holds = !any || (told_lo <= lo && told_hi >= hi);
        bool exact = any ? told_lo == lo && told_hi == hi : told_hi < told_lo;
        if (!holds || (!x->at_most && !c->padded && !exact))
            fail_msg("%s: axis %d, element %d of axis %d sees %d to %d, and %d to %d%s is told", c->text,
                     (int)x->axis, (int)o, (int)x->out_axis, (int)lo, (int)hi, (int)told_lo, (int)told_hi,
                     x->at_most ? " at most" : "");
    }
}

static void made_up_chains(void **state) {
    (void)state;
    int exact = 0, followed = 0;
    seed = 11;
    for (int round = 0; round < rounds(4000); round++) {
        chain c;
        uint32_t begin = seed;
        lam_model *m = made_up(&c);
        uint32_t next = seed;
        seed = begin; /* the input again */
        tensor input = {.ndim = (int32_t)draw(2, 4)};
        input.sizes[0] = draw(1, 2);
        for (int32_t i = 1; i < input.ndim; i++) input.sizes[i] = draw(1, input.ndim == 4 ? 3 : 5);
        seed = next;
        lam_costs *k = net_costs(m, "exact", false);
        lam_rf_axis x;
        for (int32_t i = 0; lam_costs_rf_axis(k, 0, i, &x, NULL) == LAM_OK; i++) {
            if (x.state != LAM_EXACT) fail_msg("%s: %s", c.text, lam_state_name(x.state));
            check_axis(&c, &input, k, i, &x);
            exact += !x.at_most && !c.padded;
            followed += x.reach == LAM_REACH_WINDOW;
        }
        lam_costs_free(k);
        lam_model_free(m);
    }
    assert_true(exact > 0 && followed > 0);
}

static void cost(void *arg, bool *ok) {
    lam_costs *k = NULL;
    lam_error e = {0};
    lam_rf_axis x;
    lam_cost_options o = {.convention = "exact"};
    *ok = oom_check(lam_costs_new(&k, arg, &o, &e), &e) && oom_check(lam_costs_rf_axis(k, 0, 0, &x, &e), &e);
    lam_costs_free(k);
}

static void memory_may_run_out(void **state) {
    (void)state;
    seed = 5;
    for (int round = 0; round < 20; round++) {
        chain c;
        lam_model *m = made_up(&c);
        if (lam_model_n_ops(m) > 3) oom_sweep(cost, m);
        lam_model_free(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(made_up_chains),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
