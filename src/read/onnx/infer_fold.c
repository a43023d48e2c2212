/* SPDX-License-Identifier: Apache-2.0
 * The elements of small tensors: arithmetic, comparisons, conversions, sums, and moves. An element that is
 * unknown, or that engines may round differently, makes an unknown one. */
#include "read/onnx/infer.h"

#include <math.h>

/* -- elements that are computed ------------------------------------------------------------------------- */

void lmi_fold_none(lmi_node_at *s) { (void)s; }

/* True if the elements of an argument may be known: those of weights are not read for nothing. */
static bool may_fold(const lmi_infer *c, const lmi_onnx_value *v) {
    return v && (v->where != LMI_ONNX_NOWHERE || lmi_known_of(c, v)->cells);
}

/* The element of `from` that is broadcast to element k of `to`. */
static int64_t source_of(const lmi_onnx_value *to, const lmi_onnx_value *from, int64_t k) {
    int64_t at = 0, step = 1;
    for (int32_t d = to->ndim - 1, f = from->ndim - 1; f >= 0 && d >= 0; d--, f--) {
        if (from->sizes[f] != 1) at += k % to->sizes[d] * step;
        k /= to->sizes[d];
        step *= from->sizes[f];
    }
    return at;
}

/* True if an argument can be broadcast to the result. */
static bool spreads(const lmi_onnx_value *to, const lmi_onnx_value *from) {
    for (int32_t d = to->ndim - 1, f = from->ndim - 1; f >= 0; d--, f--)
        if (d < 0 || (from->sizes[f] != 1 && from->sizes[f] != to->sizes[d])) return false;
    return true;
}

/* Elements of one argument, with the type of its numbers. */
typedef struct lmi_operand {
    const lmi_onnx_value *v;
    const lmi_cell *cells;
    bool real;
} lmi_operand;

static bool operand(lmi_node_at *s, int32_t i, lmi_operand *out) {
    out->v = lmi_arg(s, i);
    out->cells = lmi_cells(s->all, out->v);
    out->real = out->v && lmi_is_real(out->v->type);
    return out->cells != NULL;
}

/* A node is folded only where it has a first result. */
static const lmi_onnx_value *first_result(const lmi_node_at *s) {
    return lmi_onnx_value_at(s->all->m, s->n->out[0]);
}

/* How many elements there are of the first result, which is small where this runs, or of one with cells. */
static int64_t count_of(const lmi_onnx_value *v) { return lmi_size_all(v->sizes, v->ndim); }

/* Rounds an element to the type of the result; one that does not fit is unknown. */
static void fit(int32_t type, lmi_cell *c) {
    if (!c->known) return;
    c->known = lmi_is_real(type) ? lmi_fit_real(type, &c->f) : lmi_fit_int(type, &c->i);
}

/* -- one argument ---------------------------------------------------------------------------------------- */

static bool unary_int(lmi_onnx_operator op, int64_t x, int64_t *out) {
    switch (op) {
    case LMI_OP_Abs: *out = x; return x >= 0 || !lmi_sub_over(0, x, out);
    case LMI_OP_Neg: return !lmi_sub_over(0, x, out);
    case LMI_OP_Not: *out = !x; return true;
    case LMI_OP_BitwiseNot: *out = ~x; return true;
    case LMI_OP_Relu: *out = x < 0 ? 0 : x; return true;
    case LMI_OP_Sign: *out = (x > 0) - (x < 0); return true;
    default: return false;
    }
}

static bool unary_real(lmi_onnx_operator op, double x, double *out) {
    switch (op) {
    case LMI_OP_Abs: *out = fabs(x); return true;
    case LMI_OP_Neg: *out = -x; return true;
    case LMI_OP_Ceil: *out = ceil(x); return true;
    case LMI_OP_Floor: *out = floor(x); return true;
    case LMI_OP_Round: *out = nearbyint(x); return true;
    case LMI_OP_Relu: *out = x < 0 ? 0 : x; return true;
    case LMI_OP_Sign: *out = (x > 0) - (x < 0); return !isnan(x);
    case LMI_OP_Sqrt: *out = sqrt(x); return true;
    case LMI_OP_Reciprocal: *out = 1 / x; return true;
    default: return false;
    }
}

void lmi_fold_unary(lmi_node_at *s) {
    const lmi_onnx_value *y = first_result(s);
    const int64_t n = count_of(y);
    lmi_operand x;
    if (!operand(s, 0, &x)) return;
    lmi_cell *cells = lmi_cells_new(s->all, n);
    for (int64_t i = 0; cells && i < n; i++) {
        lmi_cell *c = &cells[i];
        c->known = x.cells[i].known && (x.real ? unary_real(s->rule->op, x.cells[i].f, &c->f)
                                               : unary_int(s->rule->op, x.cells[i].i, &c->i));
        fit(y->type, c);
    }
    lmi_cells_set(s, 0, cells);
}

void lmi_fold_cast(lmi_node_at *s) {
    const lmi_onnx_value *y = first_result(s);
    const int64_t n = count_of(y);
    lmi_operand x;
    if (!operand(s, 0, &x)) return;
    bool real = lmi_is_real(y->type);
    lmi_cell *cells = lmi_cells_new(s->all, n);
    for (int64_t i = 0; cells && i < n; i++) {
        lmi_cell *c = &cells[i];
        *c = x.cells[i];
        if (real && !x.real)
            c->f = (double)c->i;
        else if (!real && x.real && y->type == LMI_ONNX_BOOL)
            c->i = x.cells[i].f != 0;
        else if (!real && x.real) {
            double f = trunc(c->f);
            c->known = c->known && fabs(f) <= 4611686018427387904.0;
            int64_t before = c->known ? (int64_t)f : 0;
            c->i = before;
            fit(y->type, c);
            c->known = c->known && c->i == before; /* what does not fit is not defined */
            continue;
        }
        fit(y->type, c);
    }
    lmi_cells_set(s, 0, cells);
}

/* -- two arguments --------------------------------------------------------------------------------------- */

static bool power_int(int64_t x, int64_t y, int64_t *out) {
    int64_t all = 1;
    if (y < 0 || y > 64) return false;
    for (int64_t i = 0; i < y; i++)
        if (lmi_mul_over(all, x, &all)) return false;
    *out = all;
    return true;
}

static bool divide(const lmi_node_at *s, int64_t a, int64_t b, int64_t *out) {
    if (b == 0 || (a == INT64_MIN && b == -1)) return false;
    int64_t rest = a % b;
    bool mixed = rest != 0 && (rest < 0) != (b < 0);
    if (s->rule->op == LMI_OP_Div) {
        *out = a / b;
        return !mixed; /* engines round it down, or to zero */
    }
    *out = lmi_onnx_int(s->n, "fmod", 0) || !mixed ? rest : rest + b;
    return true;
}

static bool binary_int(const lmi_node_at *s, int64_t a, int64_t b, int64_t *out) {
    switch (s->rule->op) {
    case LMI_OP_Add: return !lmi_add_over(a, b, out);
    case LMI_OP_Sub: return !lmi_sub_over(a, b, out);
    case LMI_OP_Mul: return !lmi_mul_over(a, b, out);
    case LMI_OP_Div:
    case LMI_OP_Mod: return divide(s, a, b, out);
    case LMI_OP_Pow: return power_int(a, b, out);
    case LMI_OP_And: *out = a && b; return true;
    case LMI_OP_Or: *out = a || b; return true;
    case LMI_OP_Xor: *out = !a != !b; return true;
    case LMI_OP_BitwiseAnd: *out = a & b; return true;
    case LMI_OP_BitwiseOr: *out = a | b; return true;
    case LMI_OP_BitwiseXor: *out = a ^ b; return true;
    case LMI_OP_Equal: *out = a == b; return true;
    case LMI_OP_Less: *out = a < b; return true;
    case LMI_OP_LessOrEqual: *out = a <= b; return true;
    case LMI_OP_Greater: *out = a > b; return true;
    case LMI_OP_GreaterOrEqual: *out = a >= b; return true;
    default: return false;
    }
}

/* Where the result is a bool it is in out->i, else in out->f. */
static bool binary_real(lmi_onnx_operator op, double a, double b, lmi_cell *out) {
    switch (op) {
    case LMI_OP_Add: out->f = a + b; return true;
    case LMI_OP_Sub: out->f = a - b; return true;
    case LMI_OP_Mul: out->f = a * b; return true;
    case LMI_OP_Div: out->f = a / b; return true;
    case LMI_OP_Pow: out->f = pow(a, b); return fabs(out->f) < 0x1p24 && out->f == floor(out->f);
    case LMI_OP_Equal: out->i = a == b; return true;
    case LMI_OP_Less: out->i = a < b; return true;
    case LMI_OP_LessOrEqual: out->i = a <= b; return true;
    case LMI_OP_Greater: out->i = a > b; return true;
    case LMI_OP_GreaterOrEqual: out->i = a >= b; return true;
    default: return false;
    }
}

void lmi_fold_binary(lmi_node_at *s) {
    const lmi_onnx_value *y = first_result(s);
    const int64_t n = count_of(y);
    lmi_operand a, b;
    if (!may_fold(s->all, lmi_arg(s, 0)) || !may_fold(s->all, lmi_arg(s, 1))) return;
    if (!operand(s, 0, &a) || !operand(s, 1, &b) || a.real != b.real) return;
    if (!spreads(y, a.v) || !spreads(y, b.v)) return;
    lmi_cell *cells = lmi_cells_new(s->all, n);
    for (int64_t i = 0; cells && i < n; i++) {
        const lmi_cell *one = &a.cells[source_of(y, a.v, i)], *two = &b.cells[source_of(y, b.v, i)];
        lmi_cell *c = &cells[i];
        c->known =
            one->known && two->known &&
            (a.real ? binary_real(s->rule->op, one->f, two->f, c) : binary_int(s, one->i, two->i, &c->i));
        fit(y->type, c);
    }
    lmi_cells_set(s, 0, cells);
}

/* -- more arguments -------------------------------------------------------------------------------------- */

void lmi_fold_where(lmi_node_at *s) {
    const lmi_onnx_value *y = first_result(s), *v[2] = {lmi_arg(s, 1), lmi_arg(s, 2)};
    const int64_t n = count_of(y);
    lmi_operand c;
    if (!may_fold(s->all, lmi_arg(s, 0)) || !operand(s, 0, &c)) return;
    const lmi_cell *of[2] = {lmi_cells(s->all, v[0]), lmi_cells(s->all, v[1])};
    if ((!of[0] && !of[1]) || !spreads(y, c.v)) return;
    if ((of[0] && !spreads(y, v[0])) || (of[1] && !spreads(y, v[1]))) return;
    lmi_cell *cells = lmi_cells_new(s->all, n);
    for (int64_t i = 0; cells && i < n; i++) {
        const lmi_cell *chosen = &c.cells[source_of(y, c.v, i)];
        int which = chosen->i ? 0 : 1;
        if (chosen->known && of[which]) cells[i] = of[which][source_of(y, v[which], i)];
    }
    lmi_cells_set(s, 0, cells);
}

/* Takes b instead of a if it is larger, or smaller. NaN makes an unknown element. */
static void extreme(lmi_cell *a, const lmi_cell *b, bool real, bool larger) {
    if (!a->known || !b->known || (real && (isnan(a->f) || isnan(b->f)))) {
        a->known = false;
        return;
    }
    bool more = real ? b->f > a->f : b->i > a->i, same = real ? b->f == a->f : b->i == a->i;
    if (!same && more == larger) *a = *b;
}

static void fold_extreme(lmi_node_at *s, const int32_t *args, const bool *larger, int32_t n_args) {
    const lmi_onnx_value *y = first_result(s);
    const int64_t n = count_of(y);
    lmi_cell *cells = NULL;
    for (int32_t k = 0; k < n_args; k++) {
        if (!may_fold(s->all, lmi_onnx_in(s->all->m, s->n, args[k]))) return;
    }
    for (int32_t k = 0; k < n_args; k++) {
        const lmi_onnx_value *x = lmi_onnx_in(s->all->m, s->n, args[k]);
        const lmi_cell *of = lmi_cells(s->all, x);
        if (!x || !of || lmi_is_real(x->type) != lmi_is_real(y->type) || !spreads(y, x)) return;
        if (!cells && !(cells = lmi_cells_new(s->all, n))) return;
        for (int64_t i = 0; i < n; i++) {
            const lmi_cell *c = &of[source_of(y, x, i)];
            if (k == 0)
                cells[i] = *c;
            else
                extreme(&cells[i], c, lmi_is_real(y->type), larger[k]);
        }
    }
    lmi_cells_set(s, 0, cells);
}

void lmi_fold_extreme(lmi_node_at *s) {
    int32_t args[LMI_MOST_INTS];
    bool larger[LMI_MOST_INTS];
    if (s->n->n_in > LMI_MOST_INTS) return;
    for (int32_t i = 0; i < s->n->n_in; i++) {
        args[i] = i;
        larger[i] = s->rule->op == LMI_OP_Max;
    }
    fold_extreme(s, args, larger, s->n->n_in);
}

void lmi_fold_clip(lmi_node_at *s) {
    int32_t args[3] = {0}, n = 1;
    bool larger[3] = {0};
    if (lmi_onnx_attr(s->n, "min") || lmi_onnx_attr(s->n, "max")) return; /* of older versions, for floats */
    for (int32_t i = 1; i < 3; i++) {
        if (!lmi_onnx_in(s->all->m, s->n, i)) continue;
        larger[n] = i == 1;
        args[n++] = i;
    }
    fold_extreme(s, args, larger, n);
}

/* Adds an element to a sum, product or extreme. */
static void gather_up(lmi_onnx_operator op, lmi_cell *all, const lmi_cell *c, bool real) {
    bool sum = op == LMI_OP_ReduceSum;
    if (op == LMI_OP_ReduceMax || op == LMI_OP_ReduceMin) {
        extreme(all, c, real, op == LMI_OP_ReduceMax);
        return;
    }
    all->known = all->known && c->known;
    if (!all->known) return;
    if (!real)
        all->known = sum ? !lmi_add_over(all->i, c->i, &all->i) : !lmi_mul_over(all->i, c->i, &all->i);
    else {
        all->f = sum ? all->f + c->f : all->f * c->f;
        all->known = c->f == floor(c->f) && fabs(all->f) < 0x1p24; /* exact in any order */
    }
}

void lmi_fold_reduce(lmi_node_at *s) {
    const lmi_onnx_value *y = first_result(s);
    lmi_operand x;
    bool reduced[LMI_ONNX_MOST_AXES];
    if (!may_fold(s->all, lmi_arg(s, 0)) || !operand(s, 0, &x)) return;
    const int64_t n = count_of(y), all = count_of(x.v);
    if (!lmi_reduced_axes(s, x.v, reduced) || (all == 0 && n > 0) || !lmi_afford(s->all, all)) return;
    lmi_cell *cells = lmi_cells_new(s->all, n);
    for (int64_t i = 0; cells && i < all; i++) {
        int64_t at = 0, step = 1, k = i;
        bool first = true; /* of those that make one element */
        for (int32_t d = x.v->ndim - 1; d >= 0; d--) {
            int64_t place = k % x.v->sizes[d];
            k /= x.v->sizes[d];
            if (reduced[d])
                first = first && place == 0;
            else {
                at += place * step;
                step *= x.v->sizes[d];
            }
        }
        if (first)
            cells[at] = x.cells[i];
        else
            gather_up(s->rule->op, &cells[at], &x.cells[i], x.real);
    }
    for (int64_t i = 0; cells && i < n; i++) fit(y->type, &cells[i]);
    lmi_cells_set(s, 0, cells);
}

/* -- elements that are moved ---------------------------------------------------------------------------- */

/* Where the elements of a result come from: a first element, and a step an axis. */
typedef struct lmi_moves {
    int64_t first;
    int64_t step[LMI_ONNX_MOST_AXES];
    int64_t wrap[LMI_ONNX_MOST_AXES]; /* the size after which an axis begins anew; 0: never */
} lmi_moves;

/* Distances between neighbours along each axis. */
static void steps_of(const lmi_onnx_value *x, int64_t *step) {
    int64_t all = 1;
    for (int32_t d = x->ndim - 1; d >= 0; d--) {
        step[d] = all;
        all *= x->sizes[d];
    }
}

/* Result k of elements of the first argument. */
static void move(lmi_node_at *s, int32_t k, const lmi_moves *by) {
    const lmi_onnx_value *x = lmi_arg(s, 0), *y = lmi_onnx_out(s->all->m, s->n, k);
    const lmi_cell *from = lmi_cells(s->all, x);
    int64_t n;
    if (!from || !lmi_few(y, &n)) return;
    const int64_t all = count_of(x);
    lmi_cell *cells = lmi_cells_new(s->all, n);
    for (int64_t i = 0; cells && i < n; i++) {
        int64_t at = by->first, rest = i;
        for (int32_t d = y->ndim - 1; d >= 0; d--) {
            int64_t place = rest % y->sizes[d];
            rest /= y->sizes[d];
            at += (by->wrap[d] ? place % by->wrap[d] : place) * by->step[d];
        }
        if (at >= 0 && at < all) cells[i] = from[at];
    }
    lmi_cells_set(s, k, cells);
}

/* The same elements in the same order. */
void lmi_fold_same(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_arg(s, 0), *y = first_result(s);
    const lmi_cell *from = lmi_cells(s->all, x);
    if (!from || count_of(y) != count_of(x)) return;
    lmi_cells_set(s, 0, from);
    if (y) lmi_known_of(s->all, y)->like = x;
}

void lmi_fold_transpose(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_arg(s, 0);
    int64_t step[LMI_ONNX_MOST_AXES] = {0};
    lmi_moves by = {0};
    steps_of(x, step);
    for (int32_t i = 0; i < x->ndim; i++) {
        int64_t from = lmi_nth(s, "perm", i, x->ndim - 1 - i);
        if (!lmi_axis_of(&from, x->ndim)) return;
        by.step[i] = step[from];
    }
    move(s, 0, &by);
}

/* Expand and Tile: an axis of the argument begins anew. */
void lmi_fold_repeat(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_arg(s, 0), *y = first_result(s);
    int64_t step[LMI_ONNX_MOST_AXES] = {0};
    lmi_moves by = {0};
    if (!lmi_whole(x)) return;
    steps_of(x, step);
    for (int32_t d = 0; d < x->ndim; d++) {
        by.step[y->ndim - x->ndim + d] = step[d];
        by.wrap[y->ndim - x->ndim + d] = x->sizes[d];
    }
    move(s, 0, &by);
}

void lmi_fold_slice(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_arg(s, 0);
    lmi_slices of = lmi_slices_of(s);
    lmi_moves by = {0};
    if (!lmi_whole(x) || !of.from.all || !of.to.all || !of.axes.all || !of.steps.all) return;
    steps_of(x, by.step);
    for (int32_t i = 0; i < of.from.n; i++) {
        int64_t axis = of.axes.given ? of.axes.at[i] : i, step = of.steps.given ? of.steps.at[i] : 1, first;
        if (!lmi_axis_of(&axis, x->ndim) || step < -LMI_MOST_CELLS || step > LMI_MOST_CELLS) return;
        if (lmi_slice(x->sizes[axis], of.from.at[i], of.to.at[i], step, &first) < 0) return;
        by.first += first * by.step[axis];
        by.step[axis] *= step;
    }
    move(s, 0, &by);
}

void lmi_fold_split(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_arg(s, 0);
    int64_t axis = lmi_onnx_int(s->n, "axis", 0), at = 0;
    if (!lmi_whole(x) || !lmi_axis_of(&axis, x->ndim)) return;
    for (int32_t k = 0; k < s->n->n_out && at >= 0; k++) {
        const lmi_onnx_value *y = lmi_onnx_out(s->all->m, s->n, k);
        lmi_moves by = {0};
        if (!y) return;
        steps_of(x, by.step);
        by.first = at * by.step[axis];
        move(s, k, &by);
        at = lmi_plus(at, y->ndim == x->ndim ? y->sizes[axis] : -1);
    }
}

void lmi_fold_concat(lmi_node_at *s) {
    const lmi_onnx_value *y = first_result(s);
    int64_t axis = lmi_onnx_int(s->n, "axis", s->n->opset < 4 ? 1 : 0), at = 0;
    const int64_t n = count_of(y);
    bool any = false;
    if (!lmi_axis_of(&axis, y->ndim)) return;
    for (int32_t i = 0; i < s->n->n_in && !any; i++) {
        const lmi_onnx_value *x = lmi_onnx_in(s->all->m, s->n, i);
        any = x && lmi_known_of(s->all, x)->cells; /* constants alone are mostly weights */
        any = any || (x && x->where != LMI_ONNX_NOWHERE && y->ndim <= 1);
    }
    lmi_cell *cells = any ? lmi_cells_new(s->all, n) : NULL;
    int64_t inner = lmi_size_all(y->sizes + axis + 1, y->ndim - (int32_t)axis - 1),
            wide = inner * y->sizes[axis];
    for (int32_t i = 0; cells && i < s->n->n_in; i++) {
        const lmi_onnx_value *x = lmi_onnx_in(s->all->m, s->n, i);
        const lmi_cell *from = lmi_cells(s->all, x);
        int64_t all, own;
        if (!x || x->ndim != y->ndim || !lmi_few(x, &all)) return;
        own = inner * x->sizes[axis];
        if (own == 0) continue;
        for (int64_t k = 0; from && k < all; k++) {
            int64_t to = k / own * wide + at + k % own;
            if (to < n) cells[to] = from[k];
        }
        at += own;
    }
    lmi_cells_set(s, 0, cells);
}

void lmi_fold_fill(lmi_node_at *s) {
    const lmi_onnx_value *y = first_result(s);
    const lmi_onnx_attribute *a = lmi_onnx_attr(s->n, "value");
    const lmi_onnx_value *t = a ? lmi_onnx_value_at(s->all->m, a->tensor) : NULL;
    lmi_cell zero = {.known = true};
    const lmi_cell *with = t ? lmi_cells(s->all, t) : &zero;
    const int64_t n = count_of(y);
    if (!with || (t && count_of(t) != 1)) return;
    lmi_cell *cells = lmi_cells_new(s->all, n);
    for (int64_t i = 0; cells && i < n; i++) cells[i] = *with;
    lmi_cells_set(s, 0, cells);
}

/* -- by indices ------------------------------------------------------------------------------------------ */

void lmi_fold_gather(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_arg(s, 0), *i = lmi_arg(s, 1), *y = first_result(s);
    int64_t axis = lmi_onnx_int(s->n, "axis", 0);
    if (!may_fold(s->all, x) || !may_fold(s->all, i) || !lmi_axis_of(&axis, x->ndim)) return;
    const lmi_cell *at = lmi_cells(s->all, i), *from = at ? lmi_cells(s->all, x) : NULL;
    if (!from) return;
    const int64_t n = count_of(y), n_i = count_of(i);
    int64_t inner = lmi_size_all(x->sizes + axis + 1, x->ndim - (int32_t)axis - 1), size = x->sizes[axis];
    lmi_cell *cells = lmi_cells_new(s->all, n);
    for (int64_t k = 0; cells && k < n; k++) {
        int64_t in = k % inner, of = k / inner % n_i, out = k / inner / n_i, index = at[of].i;
        if (index < 0) index += size;
        if (at[of].known && index >= 0 && index < size) cells[k] = from[(out * size + index) * inner + in];
    }
    lmi_cells_set(s, 0, cells);
}

/* The element of x that index k of `i` names along the axis: all other axes are those of k. */
static int64_t element_along(const lmi_onnx_value *x, const lmi_onnx_value *i, int64_t axis, int64_t k,
                             int64_t index) {
    int64_t at = 0, step = 1;
    if (index < 0) index += x->sizes[axis];
    for (int32_t d = x->ndim - 1; d >= 0; d--) {
        int64_t place = d == axis ? index : k % i->sizes[d];
        if (place < 0 || place >= x->sizes[d]) return -1;
        at += place * step;
        k /= i->sizes[d];
        step *= x->sizes[d];
    }
    return at;
}

void lmi_fold_gather_elements(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_arg(s, 0), *i = lmi_arg(s, 1);
    int64_t axis = lmi_onnx_int(s->n, "axis", 0);
    const lmi_cell *from = lmi_cells(s->all, x), *index = from ? lmi_cells(s->all, i) : NULL;
    if (!index || x->ndim != i->ndim || !lmi_axis_of(&axis, x->ndim)) return;
    const int64_t n = count_of(i);
    lmi_cell *cells = lmi_cells_new(s->all, n);
    for (int64_t k = 0; cells && k < n; k++) {
        int64_t at = index[k].known ? element_along(x, i, axis, k, index[k].i) : -1;
        if (at >= 0) cells[k] = from[at];
    }
    lmi_cells_set(s, 0, cells);
}

/* The first element of the part that a row of indices names; -1: unknown, or out of range. */
static int64_t part_at(const lmi_onnx_value *x, int32_t from, const lmi_cell *row, int64_t n) {
    int64_t at = 0;
    for (int64_t d = 0; d < n; d++) {
        int64_t size = x->sizes[from + d], index = row[d].i < 0 ? row[d].i + size : row[d].i;
        if (!row[d].known || index < 0 || index >= size) return -1;
        at = at * size + index;
    }
    return at;
}

void lmi_fold_gather_nd(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_arg(s, 0), *i = lmi_arg(s, 1), *y = first_result(s);
    const lmi_cell *from = lmi_cells(s->all, x), *index = from ? lmi_cells(s->all, i) : NULL;
    if (!index || lmi_onnx_int(s->n, "batch_dims", 0) != 0) return;
    const int64_t n = count_of(y), row = i->sizes[i->ndim - 1]; /* as the rule of shapes has seen */
    int64_t part = lmi_size_all(x->sizes + row, x->ndim - (int32_t)row);
    lmi_cell *cells = lmi_cells_new(s->all, n);
    for (int64_t k = 0; cells && part > 0 && k < n; k++) {
        int64_t at = part_at(x, 0, index + k / part * row, row);
        if (at >= 0) cells[k] = from[at * part + k % part];
    }
    lmi_cells_set(s, 0, cells);
}

/* A copy of n elements, to write others into. */
static lmi_cell *copied(lmi_node_at *s, const lmi_cell *from, int64_t n) {
    lmi_cell *cells = lmi_cells_new(s->all, n);
    if (cells && n) memcpy(cells, from, (size_t)n * sizeof *cells);
    return cells;
}

static bool replaces(const lmi_node_at *s) {
    const lmi_onnx_attribute *a = lmi_onnx_attr(s->n, "reduction");
    return !a || lmi_attr_is(s, "reduction", "none");
}

void lmi_fold_scatter_nd(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_arg(s, 0), *i = lmi_onnx_in(s->all->m, s->n, 1),
                         *u = lmi_onnx_in(s->all->m, s->n, 2);
    const lmi_cell *from = lmi_cells(s->all, x), *index = from ? lmi_cells(s->all, i) : NULL;
    const lmi_cell *with = index ? lmi_cells(s->all, u) : NULL;
    int64_t n;
    if (!index || !replaces(s) || !lmi_few(u, &n) || i->ndim < 1) return;
    int64_t row = i->sizes[i->ndim - 1];
    if (row > x->ndim || row < 1) return;
    int64_t part = lmi_size_all(x->sizes + row, x->ndim - (int32_t)row);
    if (n != count_of(i) / row * part) return;
    lmi_cell *cells = copied(s, from, count_of(x));
    for (int64_t k = 0; cells && k < n; k++) {
        int64_t at = part_at(x, 0, index + k / part * row, row);
        if (at < 0) return; /* any element may be the one that is replaced */
        cells[at * part + k % part] = with ? with[k] : (lmi_cell){0};
    }
    lmi_cells_set(s, 0, cells);
}

void lmi_fold_scatter_elements(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_arg(s, 0), *i = lmi_onnx_in(s->all->m, s->n, 1),
                         *u = lmi_onnx_in(s->all->m, s->n, 2);
    const lmi_cell *from = lmi_cells(s->all, x), *index = from ? lmi_cells(s->all, i) : NULL;
    const lmi_cell *with = index ? lmi_cells(s->all, u) : NULL;
    int64_t axis = lmi_onnx_int(s->n, "axis", 0), n_u;
    if (!index || !replaces(s) || !lmi_few(u, &n_u) || x->ndim != i->ndim) return;
    const int64_t n = count_of(i);
    if (n != n_u || !lmi_axis_of(&axis, x->ndim)) return;
    lmi_cell *cells = copied(s, from, count_of(x));
    for (int64_t k = 0; cells && k < n; k++) {
        int64_t at = index[k].known ? element_along(x, i, axis, k, index[k].i) : -1;
        if (at < 0) return;
        cells[at] = with ? with[k] : (lmi_cell){0};
    }
    lmi_cells_set(s, 0, cells);
}

/* -- by values ------------------------------------------------------------------------------------------- */

static bool is_set(const lmi_onnx_value *x, const lmi_cell *c) {
    return lmi_is_real(x->type) ? c->f != 0 : c->i != 0;
}

/* The indices of elements that are not zero, an axis a row. The rule of shapes has seen that all are known.
 */
void lmi_fold_nonzero(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_arg(s, 0), *y = first_result(s);
    const lmi_cell *from = lmi_cells(s->all, x);
    int64_t found = 0;
    if (!from) return;
    const int64_t n = count_of(y), all = count_of(x);
    if (!lmi_afford(s->all, all)) return;
    lmi_cell *cells = lmi_cells_new(s->all, n);
    for (int64_t i = 0; cells && i < all; i++) {
        if (!is_set(x, &from[i])) continue;
        int64_t rest = i;
        for (int32_t d = x->ndim - 1; d >= 0; d--) {
            if (found < y->sizes[1])
                cells[d * y->sizes[1] + found] = (lmi_cell){.i = rest % x->sizes[d], .known = true};
            rest /= x->sizes[d];
        }
        found++;
    }
    lmi_cells_set(s, 0, cells);
}

void lmi_fold_compress(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_arg(s, 0), *c = lmi_arg(s, 1), *y = first_result(s);
    const lmi_cell *from = lmi_cells(s->all, x), *take = from ? lmi_cells(s->all, c) : NULL;
    int64_t found = 0;
    if (!take || lmi_onnx_attr(s->n, "axis")) return;
    const int64_t n = count_of(y), all = count_of(x), n_c = count_of(c);
    lmi_cell *cells = lmi_cells_new(s->all, n);
    for (int64_t i = 0; cells && i < all && i < n_c && found < n; i++)
        if (take[i].i) cells[found++] = from[i];
    lmi_cells_set(s, 0, cells);
}
