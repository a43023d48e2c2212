/* SPDX-License-Identifier: Apache-2.0
 *
 * Made-up chains of operators, and what each element of their results depends on. */
#ifndef LAMINA_TEST_REACH_CHAINS_H
#define LAMINA_TEST_REACH_CHAINS_H

#include "kit/reach_images.h"
#include "kit/reach_tensors.h"

/* -- the operators ----------------------------------------------------------------------------- */

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

/* What is there after the last operator, and another tensor of that shape, along a new axis or one after the
 * other: half of the elements of each, in this order. */
static void join_halves(chain *c, const tensor *other, bool fresh) {
    tensor one = c->now;
    c->now.number++;
    c->n_in = 0;
    put_tensor(c, 0, &one);
    put_tensor(c, 0, other);
    put_int(c, 1, dim);
    if (fresh) {
        memmove(&c->now.sizes[dim + 1], &one.sizes[dim], sizeof *one.sizes * (size_t)(one.ndim - dim));
        c->now.ndim++;
    }
    c->now.sizes[dim] = fresh ? 2 : 2 * one.sizes[dim];
    ran(c, fresh ? "aten::stack" : "aten::cat");
    for (int64_t o = 0; o < count(&c->now); o++) {
        int64_t at[AXES], part = fresh ? 1 : one.sizes[dim];
        place_in(&c->now, o, at);
        const tensor *of = at[dim] / part ? other : &one;
        at[dim] %= part;
        if (fresh) memmove(&at[dim], &at[dim + 1], sizeof *at * (size_t)(AXES - dim - 1));
        c->now.deps[o] = of->deps[element_at(of, at)];
    }
}

static bool cat_flipped(chain *c) {
    tensor before = c->was;
    if (!flip(c)) return false;
    dim = (int32_t)draw(0, before.ndim - 1);
    join_halves(c, &before, false);
    return true;
}

static bool stack_flipped(chain *c) {
    tensor before = c->was;
    if (before.ndim == AXES || !flip(c)) return false;
    dim = (int32_t)draw(0, before.ndim);
    join_halves(c, &before, true);
    return true;
}

static bool rolled(const chain *c, const int64_t *out, const int64_t *in) {
    int64_t n = count(&c->was);
    return element_at(&c->now, out) == (element_at(&c->was, in) + first) % n;
}

/* Elements in one row. */
static bool roll(chain *c) {
    first = draw(0, 3);
    put_ints(c, 1, 1, first);
    ran(c, "aten::roll");
    carry(c, rolled);
    return true;
}

static bool gated(const chain *c, const int64_t *out, const int64_t *in) {
    return others_same(c, out, in) && in[dim] % c->now.sizes[dim] == out[dim];
}

static bool glu(chain *c) {
    if (c->was.sizes[dim] % 2) return false;
    c->now.sizes[dim] /= 2;
    put_int(c, 1, dim);
    ran(c, "aten::glu");
    carry(c, gated);
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

/* -- memory that is written in parts --------------------------------------------------------- */

/* The operator ran; its result is a view of the memory of tensor `of`. */
static void ran_as_view(chain *c, const char *name, uint64_t of) {
    const lam_op_arg out = data_of(0, c->now.number, of, c->now.sizes, c->now.ndim);
    net_op_args(&c->n, name, (op_at){c->call, -1, LAM_FORWARD, 0}, c->in, c->n_in, &out, 1);
    snprintf(c->text + strlen(c->text), sizeof c->text - strlen(c->text), " %s", name + 6);
}

/* The next operator reads `from`, an own tensor or a view, and gives number `number`. */
static void read_from(chain *c, const tensor *from, uint64_t memory, uint64_t number) {
    c->was = c->now = *from;
    c->now.number = number;
    c->n_in = 0;
    c->in[c->n_in++] = data_of(0, from->number, memory, c->was.sizes, c->was.ndim);
}

static void slice_put(chain *c, int64_t n) {
    c->now.sizes[dim] = n;
    window = 1;
    put_int(c, 1, dim);
    put_int(c, 2, first);
    put_int(c, 3, first + (n - 1) * step + 1);
    put_int(c, 4, step);
}

/* What is to be written: as many positions of the tensor from another one on, as they are, in reverse, or all
 * of them mixed. */
static tensor source_of(chain *c, const tensor *from, int64_t n) {
    const int64_t was_first = first, was_step = step;
    const int32_t was_dim = dim;
    first = draw(0, from->sizes[dim] - n);
    step = 1;
    read_from(c, from, from->number, from->number + 1);
    slice_put(c, n);
    ran(c, "aten::slice");
    carry(c, windowed);
    const tensor part = c->now;
    read_from(c, &part, part.number, part.number + 1);
    dim = (int32_t)draw(0, part.ndim - 1);
    const int64_t what = draw(0, 2);
    if (what == 0)
        softmax(c);
    else if (what == 1)
        flip(c);
    else
        c->now = part;
    first = was_first;
    step = was_step;
    dim = was_dim;
    return c->now;
}

/* Reads what `view` shows now: its elements are those of `of`, which was written. */
static void read_late(chain *c, const tensor *of, tensor *view, reads shows) {
    c->was = *of;
    c->now = *view;
    carry(c, shows);
    *view = c->now;
    read_from(c, view, of->number, of->number + 1);
    ran(c, "aten::relu");
}

/* A part of a copy is written, some positions of an axis or of one after another; then it is read, by itself
 * or through a view that was made before. */
static bool write_part(chain *c) {
    const tensor from = c->was;
    const int64_t length = from.sizes[dim];
    const int64_t late = draw(0, 2);
    if (length < 2) return false;
    first = draw(0, length - 1);
    step = draw(1, 2);
    const int64_t n = draw(1, (length - first + step - 1) / step), at = first, pace = step;
    const int32_t along = dim;
    const tensor source = source_of(c, &from, n);
    read_from(c, &from, from.number, from.number + 8);
    ran(c, "aten::relu");
    tensor base = c->now;
    tensor view = base;
    if (late) {
        dim = (int32_t)draw(0, base.ndim - 1);
        first = draw(0, base.sizes[dim] - 1);
        step = 1;
        if (late == 2 && (base.ndim < 3 || dim == 0)) return false;
        read_from(c, &base, base.number, from.number + 5);
        if (late == 1) {
            slice_put(c, draw(1, base.sizes[dim] - first));
        } else {
            memmove(&c->now.sizes[dim], &c->was.sizes[dim + 1],
                    sizeof *c->now.sizes * (size_t)(c->was.ndim - dim - 1));
            c->now.ndim--;
            put_int(c, 1, dim);
            put_int(c, 2, first);
        }
        ran_as_view(c, late == 1 ? "aten::slice" : "aten::select", base.number);
        view = c->now;
    }
    const int64_t view_first = first;
    const int32_t view_dim = dim;
    dim = along;
    first = at;
    step = pace;
    read_from(c, &base, base.number, from.number + 3);
    slice_put(c, n);
    ran_as_view(c, "aten::slice", base.number);
    const tensor target = c->now;
    read_from(c, &target, base.number, target.number);
    put_tensor(c, 1, &source);
    ran_as_view(c, "aten::copy_", base.number);
    for (int64_t i = 0; i < count(&target); i++) {
        int64_t to[AXES];
        place_in(&target, i, to);
        to[dim] = first + to[dim] * step;
        base.deps[element_at(&base, to)] = source.deps[i];
    }
    c->now = base;
    dim = view_dim;
    first = view_first;
    step = 1;
    if (late) read_late(c, &base, &view, late == 1 ? windowed : without_dim);
    return true;
}

typedef bool (*operator_of)(chain *c);
static const operator_of operators[] = {
    view,        view,     permute,        slice,         flip,
    pad,         pool,     softmax,        select_one,    expand,
    cat,         repeat,   meet_flipped,   sum,           meet_at_two_paces,
    meet_turned, stack,    unfold,         chunk,         index_select,
    linear,      upsample, write_part,     write_part,    cat_flipped,
    cat_flipped, conv,     stack_flipped,  stack_flipped, roll,
    glu,         conv,     group_norm,     shuffle,       shuffle,
    columns,     columns,  channel_shuffle};

/* -- chains ------------------------------------------------------------------------------------ */

OOM_UNUSED static lam_model *made_up(chain *c) {
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
            if (count(&to->now) > 48) break;
        }
        if (pass == 0) {
            last = rehearsal.now;
            lam_builder_free(rehearsal.n.b);
        }
    }
    NET_OK(&c->n, lam_build_ops_seen(c->n.b, &c->n.e)); /* there may be none */
    return net_done(&c->n);
}

#endif
