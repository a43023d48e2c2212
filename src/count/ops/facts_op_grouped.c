/* SPDX-License-Identifier: Apache-2.0
 * facts_op_grouped: products of groups of rows, each with a matrix of its own. Groups lie one after the other
 * and may leave rows at the end, as padding does, which are not multiplied; a matrix whose group is empty is
 * not read. */
#include "count/ops/facts_op.h"

/* The parts of the factors and the result for `rows` rows in `used` groups that are not empty; -1 unknown. */
typedef struct parts {
    int64_t products, x, z, out;
} parts;

/* Rows of a matrix, each group with a matrix of a stack; columns of a matrix, each group with a matrix of a
 * stack; the inner axis of two matrices, which gives a stack of results; or two stacks, which have no ends.
 */
static parts parts_of(lam_shape x, lam_shape z, lam_shape out, int64_t rows, int64_t used) {
    int64_t high = lmi_axis(x, -2), inner = lmi_axis(x, -1), wide = lmi_axis(z, -1);
    if (x.ndim == 2 && z.ndim == 3)
        return (parts){lmi_times(lmi_times(rows, inner), wide), lmi_times(rows, inner),
                       lmi_times(used, lmi_times(inner, wide)), lmi_times(rows, wide)};
    if (x.ndim == 3 && z.ndim == 2)
        return (parts){lmi_times(lmi_times(high, inner), rows), lmi_times(used, lmi_times(high, inner)),
                       lmi_times(inner, rows), lmi_times(high, rows)};
    if (x.ndim == 2 && z.ndim == 2)
        return (parts){lmi_times(lmi_times(high, rows), wide), lmi_times(high, rows), lmi_times(rows, wide),
                       lmi_numel(out)};
    if (x.ndim == 3 && z.ndim == 3)
        return (parts){lmi_times(lmi_numel(out), inner), lmi_numel(x), lmi_numel(z), lmi_numel(out)};
    return (parts){-1, -1, -1, -1};
}

/* The size of the axis whose elements are in groups. */
static int64_t grouped_axis(lam_shape x, lam_shape z) {
    return x.ndim == 2 ? lmi_axis(x, z.ndim == 3 ? 0 : 1) : lmi_axis(z, 1);
}

/* What is left of the inputs without the two factors: ends, scales and a bias, read in full. */
static int64_t others(int64_t all, int64_t x, int64_t z) {
    return all < 0 || x < 0 || z < 0 ? -1 : all - x - z;
}

static void set_moved(const lam_op *op, const lmi_slots *s, const parts *p, lmi_facts *f) {
    int32_t x = s->at[LMI_S_x].bits, z = s->at[LMI_S_x2].bits;
    int64_t more = others(lmi_fact_get(f, LMI_FACT_ins), lmi_op_numel(s, LMI_S_x), lmi_op_numel(s, LMI_S_x2));
    int64_t bytes =
        others(lmi_fact_get(f, LMI_FACT_ins_bytes), lmi_op_bytes(s, LMI_S_x), lmi_op_bytes(s, LMI_S_x2));
    int32_t out = op->sig->n_out ? lam_dtype_bits(op->sig->out[0].dtype) : 0;
    lmi_fact_set(f, LMI_FACT_taken, lmi_plus(lmi_plus(p->x, p->z), more));
    lmi_fact_set(f, LMI_FACT_taken_bytes,
                 lmi_plus(lmi_plus(lmi_stored(p->x, x), lmi_stored(p->z, z)), bytes));
    lmi_fact_set(f, LMI_FACT_given, p->out);
    lmi_fact_set(f, LMI_FACT_given_bytes, lmi_stored(p->out, out));
}

void lmi_op_grouped(const lam_model *m, const lam_op *op, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    (void)k;
    lam_shape x = s->at[LMI_S_x].shape, z = s->at[LMI_S_x2].shape, out = lmi_op_out(op, -1);
    const lam_op_arg *ends = s->at[LMI_S_ends].tensor;
    const int64_t all = grouped_axis(x, z);
    int64_t rows = all, used = lmi_axis(x.ndim == 3 ? x : z, 0); /* without ends: every row is in a group */
    if (ends) {
        rows = ends->masks ? ends->open : lmi_last_end(m, op, (int32_t)(ends - op->sig->in));
        used = ends->masks ? ends->open_rows : rows == 0 ? 0 : -1;
    }
    if (rows > all) rows = used = -1; /* torch refuses them */
    const parts most = parts_of(x, z, out, all, -1), p = parts_of(x, z, out, rows, used);
    lmi_fact_set(f, LMI_FACT_red, lmi_axis(x, -1));
    lmi_fact_set(f, LMI_FACT_most, most.products);
    lmi_fact_set(f, LMI_FACT_dealt, p.products);
    set_moved(op, s, &p, f);
}
