/* SPDX-License-Identifier: Apache-2.0
 * facts_op_ends: where the last group of a grouped product ends, if its values were not read: in a dry run,
 * on a GPU. A mixture of experts computes the ends from the chosen experts as a running sum of their
 * histogram; the last end is then the number of choices. */
#include "count/ops/facts_op.h"

enum { FAR = 64 }; /* operators that are followed */

/* A result of an operator. */
typedef struct made {
    int32_t op; /* -1: unknown */
    int32_t nth;
} made;

static made maker_of(const lam_model *m, int32_t op, int32_t in) {
    const lmi_edge *edge = lmi_model_edge(m, op, in);
    if (!edge || edge->op < 0 || edge->op >= op) return (made){-1, 0};
    return (made){edge->op, edge->made == edge->op ? edge->nth : 0};
}

static bool is_one_of(const char *name, const char *const *names) {
    while (*names && strcmp(name, *names) != 0) names++;
    return *names != NULL;
}

/* True for results with the elements of the first argument, in the same order. */
static bool copies(const lam_op_sig *s) {
    static const char *const names[] = {"aten::to",         "aten::_to_copy",     "aten::clone",
                                        "aten::contiguous", "aten::detach",       "aten::view",
                                        "aten::reshape",    "aten::_unsafe_view", "aten::flatten",
                                        "aten::ravel",      "aten::squeeze",      "aten::_reshape_alias",
                                        "aten::alias",      "aten::unsqueeze",    NULL};
    return is_one_of(s->name, names);
}

/* True for results whose every element is one of the first argument. */
static bool picks(const lam_op_sig *s, int32_t nth) {
    static const char *const names[] = {"aten::index",     "aten::index_select",  "aten::gather",
                                        "aten::transpose", "aten::permute",       "aten::t",
                                        "aten::slice",     "aten::select",        "aten::expand",
                                        "aten::take",      "aten::masked_select", NULL};
    return copies(s) || is_one_of(s->name, names) || (nth == 0 && strcmp(s->name, "aten::sort") == 0);
}

static int64_t whole(const lam_op_sig *s, int32_t position, int64_t fallback) {
    const lam_value *v = lmi_sig_value(s, position);
    if (v && v->type == LAM_FLOAT && v->f == (double)(int64_t)v->f) return (int64_t)v->f;
    return v && v->type == LAM_INT ? v->i : fallback;
}

static const lam_op_arg *first(const lam_op_sig *s) {
    return s->n_in && s->in[0].is_tensor && s->in[0].position == 0 ? &s->in[0] : NULL;
}

/* Elements that indices along an axis can name; -1: the result is none of indices. */
static int64_t choices(const lam_op_sig *s, int32_t nth) {
    static const char *const pairs[] = {"aten::topk", "aten::sort", NULL}, *const alone[] = {
                                                                               "aten::argsort",
                                                                               "aten::argmax", "aten::argmin",
                                                                               "aten::multinomial", NULL};
    const lam_op_arg *x = first(s);
    bool pair = is_one_of(s->name, pairs), one = is_one_of(s->name, alone);
    if (!x || x->ndim < 1 || !((pair && nth == 1) || one)) return -1;
    bool topk = strcmp(s->name, "aten::topk") == 0, drawn = strcmp(s->name, "aten::multinomial") == 0;
    int64_t axis = drawn ? -1 : whole(s, topk ? 2 : 1, -1);
    if (axis < 0) axis += x->ndim;
    return axis >= 0 && axis < x->ndim ? x->sizes[axis] : -1;
}

/* True if every element of an argument is an index from 0 to `last`. */
static bool names_up_to(const lam_model *m, int32_t op, int32_t in, int64_t last) {
    for (int32_t i = 0; i < FAR; i++) {
        made by = maker_of(m, op, in);
        if (by.op < 0) return false;
        const lam_op_sig *s = m->ops[by.op].sig;
        int64_t n = choices(s, by.nth);
        if (n >= 0) return n - 1 <= last;
        if (!first(s) || !picks(s, by.nth)) return false;
        op = by.op;
        in = 0;
    }
    return false;
}

/* The sum of a histogram: the number of counted elements, -1 if some may lie outside of it. */
static int64_t counted(const lam_model *m, int32_t op) {
    const lam_op_sig *s = m->ops[op].sig;
    const lam_op_arg *x = first(s);
    if (!x) return -1;
    if (strcmp(s->name, "aten::bincount") == 0 && s->n_in > 1 && s->in[1].is_tensor) return -1; /* weights */
    if (strcmp(s->name, "aten::bincount") == 0) return lmi_op_arg_numel(x);
    if (strcmp(s->name, "aten::histc") != 0) return -1;
    int64_t low = whole(s, 2, 0), high = whole(s, 3, 0);
    return low == 0 && names_up_to(m, op, 0, high) ? lmi_op_arg_numel(x) : -1;
}

int64_t lmi_last_end(const lam_model *m, const lam_op *op, int32_t in) {
    if (op < m->ops || op >= m->ops + m->n_ops) return -1; /* it stands for all of its signature */
    bool summed = false;
    int32_t at = (int32_t)(op - m->ops);
    for (int32_t i = 0; i < FAR; i++) {
        made by = maker_of(m, at, in);
        if (by.op < 0) return -1;
        const lam_op_sig *s = m->ops[by.op].sig;
        const lam_op_arg *x = first(s);
        if (!x) return -1;
        if (summed && !copies(s)) return counted(m, by.op);
        bool sums = strcmp(s->name, "aten::cumsum") == 0 && x->ndim == 1;
        if (!sums && !copies(s)) return -1;
        summed = summed || sums;
        at = by.op;
        in = 0;
    }
    return -1;
}
