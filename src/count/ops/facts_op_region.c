/* SPDX-License-Identifier: Apache-2.0
 * facts_op_region: regions of images that are sampled into bins, and convolutions of samples. */
#include "count/ops/facts_op.h"

/* Samples a bin: an argument gives the number along both axes; without it, the number depends on the region's
 * size: unknown. */
static int64_t samples(const lmi_slots *s) {
    int64_t along = lmi_value_int(s->at[LMI_S_samples].value, -1);
    return along > 0 ? lmi_times(along, along) : -1;
}

static void regions(const lam_op *op, const lmi_slots *s, lmi_facts *f) {
    bool aligned;
    lam_shape bins = lmi_op_tensor(s, LMI_S_grad) ? s->at[LMI_S_grad].shape : lmi_op_out(op, 0);
    lmi_fact_set(f, LMI_FACT_samples, samples(s));
    lmi_fact_set(f, LMI_FACT_regions, lmi_axis(s->at[LMI_S_x2].shape, 0));
    lmi_fact_set(f, LMI_FACT_bins, bins.ndim == 4 ? lmi_axes(bins, 2, 4) : -1);
    if (lmi_op_bool(s, LMI_S_align, &aligned)) lmi_fact_set(f, LMI_FACT_aligned, aligned);
}

/* There are two offsets for each position, which the channels of a group share, and one sample for each input
 * channel, tap of the window and output position. */
static void deformed(const lam_op *op, const lmi_slots *s, lmi_facts *f) {
    lam_shape x = s->at[LMI_S_x].shape, w = s->at[LMI_S_w].shape;
    lam_shape y = lmi_op_tensor(s, LMI_S_grad) ? s->at[LMI_S_grad].shape : lmi_op_out(op, 0);
    int64_t offsets = lmi_op_numel(s, LMI_S_offsets);
    bool masked = false;
    lmi_fact_set(f, LMI_FACT_red, w.ndim == 4 ? lmi_axes(w, 1, 4) : -1);
    lmi_fact_set(f, LMI_FACT_points, offsets < 0 ? -1 : offsets / 2);
    if (x.ndim == 4 && w.ndim == 4 && y.ndim == 4)
        lmi_fact_set(f, LMI_FACT_columns,
                     lmi_times(lmi_times(x.sizes[0], x.sizes[1]),
                               lmi_times(lmi_axes(w, 2, 4), lmi_axes(y, 2, 4))));
    if (lmi_op_bool(s, LMI_S_masked, &masked)) lmi_fact_set(f, LMI_FACT_masks, masked);
}

void lmi_op_region(const lam_model *m, const lam_op *op, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    (void)m;
    if (k == LMI_K_deform_conv || k == LMI_K_deform_conv_backward)
        deformed(op, s, f);
    else
        regions(op, s, f);
}
