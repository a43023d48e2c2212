/* SPDX-License-Identifier: Apache-2.0
 *
 * einsum: products of two operands after the other, from the left, as torch makes them: axes that only one
 * operand has and the rest does not need are summed first; then one batched product, or, without an axis to
 * sum over, products of elements. */
#include "read/pt2/inner.h"

enum { MOST_LABELS = 52 + 32, MOST_OPERANDS = 64, MOST_AXES = 32 };

/* Sizes by label; 0: the operand lacks it. Labels are letters, then axes of "...", the last one first. */
typedef struct operand {
    int64_t size[MOST_LABELS];
} operand;

static int32_t label_of(char c) {
    if (c >= 'a' && c <= 'z') return c - 'a';
    return c >= 'A' && c <= 'Z' ? 26 + c - 'A' : -1;
}

/* Reads one operand's part of the equation. False: it does not fit its axes. */
static bool read_operand(const char *at, size_t n, const lam_op_arg *a, operand *out) {
    int32_t letters = 0, axis = 0;
    *out = (operand){{0}};
    for (size_t i = 0; i < n; i++) letters += label_of(at[i]) >= 0;
    if (!a->is_tensor || a->ndim < letters) return false;
    const int32_t others = a->ndim - letters;
    for (size_t i = 0; i < n; i++) {
        const int32_t label = label_of(at[i]);
        if (label >= 0) {
            if (axis >= a->ndim) return false;
            out->size[label] = a->sizes[axis] > out->size[label] ? a->sizes[axis] : out->size[label];
            axis++;
        } else if (at[i] == '.' && i + 2 < n && at[i + 1] == '.' && at[i + 2] == '.') {
            if (others > a->ndim - axis) return false; /* a second "..." */
            for (int32_t k = 0; k < others; k++, axis++) out->size[52 + others - 1 - k] = a->sizes[axis];
            i += 2;
        } else if (at[i] != ' ') {
            return false;
        }
    }
    return axis == a->ndim;
}

/* The labels of the result: given, or all that occur once in the whole equation. */
static void read_result(const char *equation, const char *arrow, bool *keep) {
    int32_t seen[MOST_LABELS] = {0};
    const char *at = arrow ? arrow + 2 : equation;
    for (; *at; at++)
        if (label_of(*at) >= 0) seen[label_of(*at)]++;
    for (int32_t i = 0; i < 52; i++) keep[i] = arrow ? seen[i] > 0 : seen[i] == 1;
    for (int32_t i = 52; i < MOST_LABELS; i++) keep[i] = !arrow || strstr(arrow, "...") != NULL;
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
    for (int32_t i = 0; i < MOST_LABELS; i++) {
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
    for (int32_t i = 0; i < MOST_LABELS; i++) {
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

/* Reads all operands; 0: the equation is not understood. */
static int32_t read_all(const lam_op_info *op, const char *equation, const char *arrow, operand *all) {
    const char *at = equation, *end = arrow ? arrow : equation + strlen(equation);
    int32_t n = 0;
    for (; at <= end && n < MOST_OPERANDS; n++) {
        const char *comma = memchr(at, ',', (size_t)(end - at)), *to = comma ? comma : end;
        const lam_op_arg *a = lmi_inner_at(op, 1, n);
        if (!a || a->ndim > MOST_AXES || !read_operand(at, (size_t)(to - at), a, &all[n])) return 0;
        at = to + 1;
    }
    return lmi_inner_at(op, 1, n) ? 0 : n;
}

static lam_status contract(lmi_pt2 *p, const lam_op_info *op, int32_t index, operand *all,
                           const char *equation) {
    const char *arrow = strstr(equation, "->");
    const int32_t n = read_all(op, equation, arrow, all);
    bool keep[MOST_LABELS], needed[MOST_LABELS];
    contraction c = {.p = p, .op = op, .index = index};
    if (n == 0) return LAM_OK;
    read_result(equation, arrow, keep);
    lam_op_arg made = *lmi_inner_at(op, 1, 0), with;
    for (int32_t k = 0; k < n && !c.over; k++) {
        memcpy(needed, keep, sizeof needed);
        for (int32_t later = k + 1; later < n; later++)
            for (int32_t i = 0; i < MOST_LABELS; i++) needed[i] = needed[i] || all[later].size[i];
        with = *lmi_inner_at(op, 1, k);
        if (k > 0) LAM_TRY(sum_alone(&c, &with, &all[k], needed, &all[0]));
        if (k > 0 && !c.over) LAM_TRY(multiply(&c, &made, &with, &all[0], &all[k], needed));
        if (n == 1 || k + 1 < n) LAM_TRY(sum_alone(&c, &made, &all[0], needed, NULL));
    }
    return op->n_out && !c.over ? lmi_inner_place(p, op, index, &made, &op->out[0]) : LAM_OK;
}

lam_status lmi_inner_contract(lmi_pt2 *p, const lam_op_info *op, int32_t index) {
    const char *equation = lmi_inner_text(op, 0);
    operand *all = equation ? lmi_alloc(&p->arena, MOST_OPERANDS, sizeof *all) : NULL;
    if (!equation) return LAM_OK;
    return all ? contract(p, op, index, all, equation) : lmi_nomem(p->e);
}
