/* SPDX-License-Identifier: Apache-2.0
 *
 * Effective counts of attention that a program writes as products around a softmax. What the softmax is given
 * says which scores a mask hides: they are -Inf, or the lowest number of their type. The products before and
 * after it, and what works element by element between them, count for the others only. Where these values
 * were not read, as on a GPU and in a dry run, the mask itself may be known. */
#include "analyse/cost/work.h"
#include "analyse/flow/flow.h"

#include <float.h>
#include <math.h>

enum { FAR = 16 };

typedef struct eager {
    const lam_model *m;
    lmi_stream flow;
    lmi_left *left; /* per operator; of a softmax and its gradient before any is used */
    bool *used;     /* per operator: a product takes the weights of this softmax */
} eager;

/* Operators between two products of an attention, the last first. */
typedef struct way {
    int32_t op[FAR], n;
} way;

static lmi_kind kind_of(const lam_model *m, int32_t op) { return lmi_op_kind(m->ops[op].sig->word); }

static bool is_softmax(const lam_model *m, int32_t op) {
    return strcmp(m->ops[op].sig->name, "aten::_softmax") == 0;
}

static bool is_gradient(const lam_model *m, int32_t op) {
    return strcmp(m->ops[op].sig->name, "aten::_softmax_backward_data") == 0;
}

static bool is_weights(const lam_model *m, int32_t op) { return is_softmax(m, op) || is_gradient(m, op); }
static bool is_product(const lam_model *m, int32_t op) { return kind_of(m, op) == LMI_K_product; }

/* An attention of torch's own counts by its own mask. */
static bool is_torchs_own(const lam_model *m, int32_t op) {
    for (int32_t up = m->ops[op].parent; up >= 0; up = m->ops[up].parent)
        if (kind_of(m, up) == LMI_K_attend || lmi_is_flex(m->ops[up].sig->name)) return true;
    return false;
}

/* -- the way back ---------------------------------------------------------------------------------------- */

/* The argument that the result is made of, one element of each; of several that are joined, the largest. */
static int32_t made_of(const lam_op *o) {
    const lam_op_sig *sig = o->sig;
    const int64_t n = sig->n_out > 0 ? lmi_op_arg_numel(&sig->out[0]) : -1;
    const bool joins = lmi_op_kind(sig->word) == LMI_K_join;
    int32_t best = -1;
    if (lmi_only_view(o)) return lmi_first_tensor(o);
    for (int32_t i = 0; n >= 0 && i < sig->n_in; i++) {
        const int64_t own = sig->in[i].is_tensor ? lmi_op_arg_numel(&sig->in[i]) : -1;
        if (!joins && own == n) return i;
        if (joins && own >= 0 && (best < 0 || own > lmi_op_arg_numel(&sig->in[best]))) best = i;
    }
    return best;
}

/* The operator that argument `in` comes from, before the next product; -1: none. */
static int32_t back(const eager *g, int32_t op, int32_t in, bool (*is)(const lam_model *, int32_t), way *w) {
    w->n = 0;
    for (int32_t i = 0; i < FAR && in >= 0; i++) {
        const lmi_source s = lmi_flow_from(&g->flow, op, in);
        if (s.by != LMI_BY_OP) return -1;
        op = s.index;
        if (is(g->m, op)) return op;
        if (is_product(g->m, op)) return -1;
        w->op[w->n++] = op;
        in = made_of(&g->m->ops[op]);
    }
    return -1;
}

/* -- which scores are left ------------------------------------------------------------------------------- */

static bool scales(const lam_op *o) {
    const char *name = o->sig->name;
    return strcmp(name, "aten::mul") == 0 || strcmp(name, "aten::div") == 0;
}

/* The argument that may be a mask: a tensor of two axes or more that is not the scores; NULL: none. What is
 * joined to them, as a sink, or taken off a whole row, as its greatest score, hides none; nor does what
 * scales a whole matrix of them, as a temperature. */
static const lam_op_arg *mask_of(const lam_op *o) {
    const int32_t own = made_of(o);
    const bool lowers = strcmp(o->sig->name, "aten::sub") == 0;
    if (lmi_op_kind(o->sig->word) == LMI_K_join) return NULL;
    for (int32_t i = 0; i < o->sig->n_in; i++) {
        const lam_op_arg *a = &o->sig->in[i];
        if (i == own || !a->is_tensor || a->ndim < 2 || (lowers && a->sizes[a->ndim - 1] == 1)) continue;
        if (scales(o) && a->sizes[a->ndim - 1] == 1 && a->sizes[a->ndim - 2] == 1) continue;
        return a;
    }
    return NULL;
}

static bool adds(const lam_op *o) {
    const char *name = o->sig->name;
    return strcmp(name, "aten::add") == 0 || strcmp(name, "aten::add_") == 0;
}

/* The lowest finite number of a type, to which softmax gives the weight 0 as to -Inf. */
static double lowest(int32_t dtype) {
    enum { HALF = 5, FLOAT = 6, DOUBLE = 7, BFLOAT16 = 15 };
    switch (dtype) {
    case HALF: return -65504;
    case FLOAT: return -FLT_MAX;
    case DOUBLE: return -DBL_MAX;
    case BFLOAT16: return -0x1.FEp127;
    default: return -INFINITY;
    }
}

/* True if the scores that a bool mask names are filled with a number that hides them. */
static bool fills(const lam_op *o) {
    enum { VALUE = 2 };
    const lam_value *v = lmi_sig_value(o->sig, VALUE);
    const bool known = v && v->type == LAM_FLOAT && o->sig->n_out > 0;
    return known && lmi_is_masked_fill(o->sig->name) && v->f <= lowest(o->sig->out[0].dtype);
}

/* True for what is added to scores and hides none of them, as a bias of positions. */
static bool hides_none(const lam_op_arg *a) { return a->masks && a->open == lmi_op_arg_numel(a); }

/* What a mask leaves of all scores, over which it is repeated; `open` and `rows` -1: not known. */
static void leave(lmi_left *left, const lam_op *o, const lam_op_arg *scores, const lam_op_arg *mask) {
    const int64_t n = lmi_op_arg_numel(mask), all = lmi_op_arg_numel(scores);
    const int32_t last = scores->ndim - 1;
    const bool adds_it = adds(o), fits = n >= 1 && last >= 0 && all >= 0 && all % n == 0;
    if ((!adds_it && !fills(o)) || !mask->masks || !fits || all > left->scores) return;
    if (mask->sizes[mask->ndim - 1] != scores->sizes[last]) return;
    const int64_t open = adds_it ? mask->open : n - mask->open;
    left->open = lmi_times(open, all / n) + left->scores - all; /* what is joined to them is open */
    left->rows = adds_it ? lmi_times(mask->open_rows, all / n) : -1;
    if (left->scores > all) left->rows = all / scores->sizes[last];
}

/* The scores that a softmax is given, from its values; else from the one mask on the way to them. */
static lmi_left left_of(const eager *g, int32_t op) {
    const lam_op_arg *x = &g->m->ops[op].sig->in[0];
    lmi_left left = {lmi_op_arg_numel(x), -1, -1};
    way w;
    if (x->masks) return (lmi_left){left.scores, x->open, x->open_rows};
    const int32_t product = back(g, op, 0, is_product, &w);
    const lam_op_sig *made = product >= 0 ? g->m->ops[product].sig : NULL;
    int32_t masks =
        made && made->n_in > 0 && strcmp(made->name, "aten::baddbmm") == 0 && !hides_none(&made->in[0]);
    for (int32_t i = 0; i < w.n; i++) {
        const lam_op *o = &g->m->ops[w.op[i]];
        const lam_op_arg *mask = mask_of(o);
        if (!mask || lmi_only_view(o) || (adds(o) && hides_none(mask))) continue;
        if (++masks == 1 && o->sig->n_out > 0) leave(&left, o, &o->sig->out[0], mask);
    }
    if (masks == 0 && product >= 0) left.open = left.scores;
    if (masks > 1) left.open = -1;
    return left;
}

/* -- marking --------------------------------------------------------------------------------------------- */

/* Of `scores` scores of a product: what the softmax was given beside them is open, as a sink. */
static lmi_left of_scores(const lmi_left *left, int64_t scores) {
    const int64_t more = left->scores - scores;
    const bool known = left->open >= 0 && scores > 0 && more >= 0 && left->open >= more;
    return (lmi_left){scores, known ? left->open - more : -1, -1};
}

static void mark(eager *g, int32_t op, const lmi_left *left, int64_t scores) {
    if (left->open == left->scores) return;
    g->left[op] = of_scores(left, scores);
}

static void mark_way(eager *g, const way *w, const lmi_left *left) {
    for (int32_t i = 0; i < w->n; i++) {
        const lam_op *o = &g->m->ops[w->op[i]];
        if (o->sig->n_out > 0 && !lmi_only_view(o))
            mark(g, w->op[i], left, lmi_op_arg_numel(&o->sig->out[0]));
    }
}

/* Products with an attention's weights, or with the gradient of its scores. */
static void mark_users(eager *g, int32_t op) {
    const lam_op_sig *sig = g->m->ops[op].sig;
    for (int32_t i = 0; i < sig->n_in; i++) {
        way w;
        const int32_t from = sig->in[i].is_tensor ? back(g, op, i, is_weights, &w) : -1;
        if (from < 0 || g->left[from].scores <= 0) continue;
        g->used[from] = true;
        mark(g, op, &g->left[from], lmi_op_arg_numel(&sig->in[i]));
        mark_way(g, &w, &g->left[from]);
    }
}

/* The product that made the scores, or the gradient of the weights. */
static void mark_maker(eager *g, int32_t op) {
    way w;
    const lmi_left left = g->left[op];
    const int32_t from = back(g, op, 0, is_product, &w);
    if (from >= 0 && g->m->ops[from].sig->n_out > 0) {
        mark(g, from, &left, lmi_op_arg_numel(&g->m->ops[from].sig->out[0]));
        mark_way(g, &w, &left);
    } else if (left.open != left.scores) {
        g->left[op].open = -1; /* its scores come from elsewhere: what it hides is not known */
    }
}

/* -- all of them ----------------------------------------------------------------------------------------- */

/* True for a softmax of scores that may hide some. */
static bool may_hide(const lam_model *m, int32_t op) {
    const lam_op_sig *sig = m->ops[op].sig;
    if (!is_softmax(m, op) || sig->n_in < 1 || !sig->in[0].is_tensor || sig->in[0].ndim < 3) return false;
    if (sig->in[0].masks && sig->in[0].open == lmi_op_arg_numel(&sig->in[0])) return false;
    return !is_torchs_own(m, op);
}

static bool any_hides(const lam_model *m) {
    for (int32_t i = 0; i < m->n_ops; i++)
        if (may_hide(m, i)) return true;
    return false;
}

/* A gradient hides what its softmax hid, which is its second argument. */
static void start(eager *g, int32_t op) {
    enum { OUTPUT = 1 };
    way w;
    if (may_hide(g->m, op)) g->left[op] = left_of(g, op);
    const int32_t of = is_gradient(g->m, op) ? back(g, op, OUTPUT, is_softmax, &w) : -1;
    if (of >= 0) g->left[op] = g->left[of];
}

lam_status lmi_find_left(lmi_work *w, lam_error *e) {
    const int32_t n = w->m->n_ops;
    if (!any_hides(w->m)) return LAM_OK;
    eager g = {.m = w->m, .left = lmi_alloc(&w->c->arena, (uint64_t)n, sizeof *g.left)};
    g.used = lmi_alloc(&w->scratch, (uint64_t)n, sizeof *g.used);
    if (!g.left || !g.used) return lmi_nomem(e);
    LAM_TRY(lmi_flow_build(&g.flow, w->m, &w->scratch, lmi_flow_counts, NULL, e));
    for (int32_t i = 0; i < n; i++) start(&g, i);
    for (int32_t i = 0; i < n; i++)
        if (is_product(w->m, i) && g.flow.unit[i] == i) mark_users(&g, i);
    for (int32_t i = 0; i < n; i++) {
        if (!is_weights(w->m, i)) continue;
        if (g.used[i])
            mark_maker(&g, i);
        else
            g.left[i] = (lmi_left){0};
    }
    w->c->left = g.left;
    return LAM_OK;
}

/* -- the counts ------------------------------------------------------------------------------------------ */

/* FLOPs of a softmax are `each` an element, less one a row. */
static lam_count less(lam_count all, int64_t each, const lmi_left *left, int64_t wide) {
    const int64_t hidden = left->scores - left->open, rows = wide > 0 ? left->scores / wide : 0;
    if (left->open < 0 || left->rows < 0 || all.state != LAM_EXACT || all.over) return lmi_unknown();
    return lmi_exact(all.n - each * hidden + rows - left->rows);
}

void lmi_left_effective(const lam_costs *c, int32_t op, lam_count n[LAM_N_METRICS]) {
    const lmi_left *left = c->left ? &c->left[op] : NULL;
    if (!left || left->scores <= 0 || left->open == left->scores) return;
    const lam_op_sig *sig = c->model->ops[op].sig;
    const bool weights = is_weights(c->model, op);
    for (int i = LAM_EFFECTIVE_MACS; i < LAM_N_METRICS; i++) {
        if (n[i].n == 0 && n[i].state == LAM_EXACT) continue;
        const int32_t last = sig->in[0].ndim - 1;
        n[i] = weights ? less(n[i], is_softmax(c->model, op) ? 3 : 4, left, sig->in[0].sizes[last])
                       : lmi_part_of(n[i], left->open, left->scores);
    }
}
