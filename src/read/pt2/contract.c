/* SPDX-License-Identifier: Apache-2.0
 *
 * einsum: products of two operands after the other, from the left, as torch makes them: axes that only one
 * operand has and the rest does not need are summed first; then one batched product, or, without an axis to
 * sum over, products of elements. */
#include "read/pt2/inner.h"
#include "vocab/vocab.h"

/* Sizes by label; 0: the operand lacks it. */
typedef struct operand {
    int64_t size[LMI_EINSUM_LABELS];
} operand;

/* False: a tensor does not fit its term. */
static bool read_operand(const lmi_einsum_term *t, const lam_op_arg *a, operand *out) {
    uint8_t labels[LMI_EINSUM_AXES];
    *out = (operand){{0}};
    if (!a->is_tensor || !lmi_einsum_label(t, a->ndim, labels)) return false;
    for (int32_t i = 0; i < a->ndim; i++) {
        int64_t *size = &out->size[labels[i]];
        *size = a->sizes[i] > *size ? a->sizes[i] : *size;
    }
    return true;
}

/* The labels of the result. */
static void read_result(const lmi_einsum_term *t, bool *keep) {
    for (int32_t i = 0; i < LMI_EINSUM_LABELS; i++) keep[i] = i >= LMI_EINSUM_LETTERS && t->dots >= 0;
    for (int32_t i = 0; i < t->n; i++) keep[t->letter[i]] = true;
}

static bool product_over(int64_t *n, int64_t by) { return lmi_mul_over(*n, by, n); }

/* An equation that is followed. */
typedef struct contraction {
    lmi_pt2 *p;
    const lam_op_info *op;
    int32_t index;
    bool over; /* it has sizes beyond 64 bits, and is not followed further */
} contraction;

/* What is not followed is the operator itself, whose cost is unknown. */
static lam_status give_up(contraction *c) {
    c->over = true;
    lmi_inner_begin(c->p);
    for (int32_t i = 0; i < c->op->n_in; i++)
        LAM_TRY(lmi_inner_give(c->p, &c->op->in[i], c->op->in[i].position));
    for (int32_t i = 0; i < c->op->n_out; i++) LAM_TRY(lmi_inner_result(c->p, &c->op->out[i]));
    return lmi_inner_push(c->p, c->op, c->index, c->op->name, NULL);
}

/* Pushes the product of what was made so far and the next operand, whose labels become those of the result.
 */
static lam_status multiply(contraction *c, lam_op_arg *made, const lam_op_arg *with, operand *a,
                           const operand *b, const bool *needed) {
    int64_t batch = 1, left = 1, right = 1, inner = 1;
    lmi_pt2 *p = c->p;
    bool over = false, sums = false;
    for (int32_t i = 0; i < LMI_EINSUM_LABELS; i++) {
        const int64_t n = a->size[i], m = b->size[i], both = n > m ? n : m;
        if (!n && !m) continue;
        const bool shared = n > 0 && m > 0;
        if (shared && !needed[i]) {
            over = product_over(&inner, both) || over;
            sums = true;
        } else if (shared) {
            over = product_over(n > 1 && m > 1 ? &batch : m > 1 ? &right : &left, both) || over;
        } else if (needed[i]) {
            over = product_over(n ? &left : &right, both) || over;
        }
        a->size[i] = needed[i] ? both : 0;
    }
    if (over) return give_up(c);
    const int64_t first[3] = {batch, left, inner}, second[3] = {batch, inner, right},
                  out[3] = {batch, left, right};
    lam_op_arg x, y, z;
    LAM_TRY(lmi_inner_made(p, made, first, 3, &x));
    LAM_TRY(lmi_inner_made(p, made, second, 3, &y));
    LAM_TRY(lmi_inner_made(p, made, out, 3, &z));
    LAM_TRY(lmi_inner_place(p, c->op, c->index, made, &x));
    LAM_TRY(lmi_inner_place(p, c->op, c->index, with, &y));
    *made = z;
    lmi_inner_begin(p);
    LAM_TRY(lmi_inner_give(p, &x, 0));
    LAM_TRY(lmi_inner_give(p, &y, 1));
    LAM_TRY(lmi_inner_result(p, &z));
    return lmi_inner_push(p, c->op, c->index, sums ? "aten::bmm" : "aten::mul", NULL);
}

/* Pushes the sum over axes that one operand alone has and nothing else needs. */
static lam_status sum_alone(contraction *c, lam_op_arg *made, operand *a, const bool *needed,
                            const operand *other) {
    lmi_pt2 *p = c->p;
    int64_t before = 1, after = 1;
    bool any = false, over = false;
    for (int32_t i = 0; i < LMI_EINSUM_LABELS; i++) {
        if (!a->size[i]) continue;
        const bool alone = !needed[i] && !(other && other->size[i]);
        over = product_over(&before, a->size[i]) || over;
        if (!alone) over = product_over(&after, a->size[i]) || over;
        any = any || alone;
        if (alone) a->size[i] = 0;
    }
    lam_op_arg x, y;
    if (c->over || !any) return LAM_OK;
    if (over) return give_up(c);
    LAM_TRY(lmi_inner_made(p, made, &before, 1, &x));
    LAM_TRY(lmi_inner_made(p, made, &after, 1, &y));
    LAM_TRY(lmi_inner_place(p, c->op, c->index, made, &x));
    *made = y;
    lmi_inner_begin(p);
    LAM_TRY(lmi_inner_give(p, &x, 0));
    LAM_TRY(lmi_inner_result(p, &y));
    return lmi_inner_push(p, c->op, c->index, "aten::sum", NULL);
}

/* False: the equation is not understood. */
static bool read_all(const lam_op_info *op, const lmi_einsum *e, operand *all) {
    for (int32_t i = 0; i < e->n; i++) {
        const lam_op_arg *a = lmi_inner_at(op, 1, i);
        if (!a || !read_operand(&e->term[i], a, &all[i])) return false;
    }
    return !lmi_inner_at(op, 1, e->n);
}

static lam_status contract(lmi_pt2 *p, const lam_op_info *op, int32_t index, operand *all,
                           const lmi_einsum *e) {
    const int32_t n = e->n;
    bool keep[LMI_EINSUM_LABELS], needed[LMI_EINSUM_LABELS];
    contraction c = {.p = p, .op = op, .index = index};
    if (!read_all(op, e, all)) return LAM_OK;
    read_result(&e->result, keep);
    lam_op_arg made = *lmi_inner_at(op, 1, 0), with;
    for (int32_t k = 0; k < n && !c.over; k++) {
        memcpy(needed, keep, sizeof needed);
        for (int32_t later = k + 1; later < n; later++)
            for (int32_t i = 0; i < LMI_EINSUM_LABELS; i++) needed[i] = needed[i] || all[later].size[i];
        with = *lmi_inner_at(op, 1, k);
        if (k > 0) LAM_TRY(sum_alone(&c, &with, &all[k], needed, &all[0]));
        if (k > 0 && !c.over) LAM_TRY(multiply(&c, &made, &with, &all[0], &all[k], needed));
        if (n == 1 || k + 1 < n) LAM_TRY(sum_alone(&c, &made, &all[0], needed, NULL));
    }
    return op->n_out && !c.over ? lmi_inner_place(p, op, index, &made, &op->out[0]) : LAM_OK;
}

lam_status lmi_inner_contract(lmi_pt2 *p, const lam_op_info *op, int32_t index) {
    const char *equation = lmi_inner_text(op, 0);
    lmi_einsum e;
    if (!equation || !lmi_einsum_read(equation, &e)) return LAM_OK;
    operand *all = lmi_alloc(&p->arena, (uint64_t)e.n, sizeof *all);
    return all ? contract(p, op, index, all, &e) : lmi_nomem(p->e);
}
