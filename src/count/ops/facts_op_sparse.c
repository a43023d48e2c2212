/* SPDX-License-Identifier: Apache-2.0
 * facts_op_sparse: operators on sparse tensors. A matrix product counts as if they were dense, and its
 * effective count by the stored elements. The work of other operators depends on their kernels. */
#include "count/ops/facts_op.h"

static const lam_op_arg *sparse_one(const lam_op_arg *args, int32_t n) {
    for (int32_t i = 0; i < n; i++)
        if (args[i].is_tensor && args[i].sparse) return &args[i];
    return NULL;
}

bool lmi_op_is_sparse(const lam_op *op) {
    return sparse_one(op->sig->in, op->sig->n_in) || sparse_one(op->sig->out, op->sig->n_out);
}

static bool reduces(lmi_kind k) { return k == LMI_K_sparse_reduce || k == LMI_K_sparse_reduce_backward; }

static bool multiplies(lmi_kind k) {
    return reduces(k) || k == LMI_K_product || k == LMI_K_product_act || k == LMI_K_linear ||
           k == LMI_K_sparse_product;
}

/* Rows of the result that depend on one element of the second factor. */
static int64_t rows_of(lam_shape y, const lam_op_arg *second) {
    int64_t last = lmi_axis(y, -1), all = lmi_numel(y);
    if (second->ndim > 2) return lmi_axis(y, -2);
    return last > 0 && all >= 0 ? all / last : all;
}

/* Computed products: each stored element of a sparse factor is multiplied by a row or column of the other. If
 * both are sparse, their positions decide. Of a sparse result of dense factors only stored elements are
 * computed. */
static int64_t products(const lam_op *op, const lmi_slots *s, const lmi_facts *f) {
    const lam_op_arg *x = s->at[LMI_S_x].tensor, *w = s->at[LMI_S_x2].tensor, *out = op->sig->out;
    lam_shape y = lmi_op_out(op, -1);
    if (!w) w = s->at[LMI_S_w].tensor;
    if (!x || !w || op->sig->n_out != 1 || !out->is_tensor || x->ndim < 1 || w->ndim < 1) return -1;
    if (x->sparse && w->sparse) return -1;
    if (out->sparse && !x->sparse && !w->sparse) return lmi_times(out->values, lmi_fact_get(f, LMI_FACT_red));
    if (out->sparse) return -1;
    if (x->sparse) return lmi_times(x->values, w->ndim == 1 ? 1 : lmi_axis(y, -1));
    return w->sparse ? lmi_times(w->values, rows_of(y, w)) : -1;
}

/* True for facts that count no elements, or only stored ones. */
static bool stays(int id) {
    static const lmi_fact_id kept[] = {
        LMI_FACT_ins,     LMI_FACT_outs,  LMI_FACT_ins_bytes, LMI_FACT_outs_bytes, LMI_FACT_dims,
        LMI_FACT_x0,      LMI_FACT_x1,    LMI_FACT_x2,        LMI_FACT_x3,         LMI_FACT_x_last,
        LMI_FACT_y0,      LMI_FACT_y1,    LMI_FACT_y2,        LMI_FACT_y3,         LMI_FACT_y_last,
        LMI_FACT_z0,      LMI_FACT_z1,    LMI_FACT_z2,        LMI_FACT_z3,         LMI_FACT_z_last,
        LMI_FACT_arg0,    LMI_FACT_arg1,  LMI_FACT_arg2,      LMI_FACT_arg3,       LMI_FACT_arg4,
        LMI_FACT_arg5,    LMI_FACT_arg6,  LMI_FACT_arg7,      LMI_FACT_each,       LMI_FACT_last,
        LMI_FACT_complex, LMI_FACT_sparse};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if ((int)kept[i] == id) return true;
    return false;
}

/* Sums and means of products, or the largest or smallest of them. */
static void reduction(const lmi_slots *s, lmi_facts *f) {
    const lam_value *mode = s->at[LMI_S_mode].value;
    const lam_op_arg *x = s->at[LMI_S_x].tensor, *w = s->at[LMI_S_x2].tensor;
    lmi_fact_set(f, LMI_FACT_products, -1);
    if (!mode || mode->type != LAM_TEXT || !x || !w || !x->sparse || w->sparse) return;
    bool largest = !strcmp(mode->text, "amax") || !strcmp(mode->text, "amin"),
         mean = !strcmp(mode->text, "mean");
    if (!largest && !mean && strcmp(mode->text, "sum") != 0) return;
    lmi_fact_set(f, LMI_FACT_largest, largest);
    lmi_fact_set(f, LMI_FACT_divides, mean);
    lmi_fact_set(f, LMI_FACT_products, lmi_times(x->values, lmi_axis((lam_shape){w->ndim, w->sizes}, -1)));
    lmi_fact_set(f, LMI_FACT_kept, x->values);
}

/* Stored elements of the result, which are scaled. */
static void kept(const lam_op *op, lmi_facts *f) {
    if (op->sig->n_out == 1 && op->sig->out->sparse) lmi_fact_set(f, LMI_FACT_kept, op->sig->out->values);
}

void lmi_op_sparse(const lam_op *op, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    if (multiplies(k)) {
        if (reduces(k)) {
            reduction(s, f);
        } else {
            lmi_fact_set(f, LMI_FACT_products, products(op, s, f));
            kept(op, f);
        }
        return;
    }
    for (int i = 0; i < LMI_N_FACTS; i++) f->known[i] = f->known[i] && stays(i);
}
