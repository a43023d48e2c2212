/* SPDX-License-Identifier: Apache-2.0
 * field: the receptive fields of rows. */
#ifndef LMI_ANALYSE_FIELD_H
#define LMI_ANALYSE_FIELD_H

#include "analyse/costs.h"

/* Fills the rows' rf, rf_stride, rf_padding and rf_state under the convention's policy. This is done once,
 * before they are first read: sums do not need them, and they take as long as all other numbers. LAM_NOMEM:
 * they are unknown until the next try. */
lam_status lmi_rf_need(const lam_costs *c, lam_error *e);

/* The field of each call if only a chain of layers has one (rfchain.c). It is in `scratch`. */
lam_status lmi_rfchain(const lam_costs *c, lmi_arena *scratch, const lam_rf **of_event, lam_error *e);

/* Finds the fields on the data-flow graph, of the rows that it covers (rfgraph.c). */
lam_status lmi_rfgraph_fill(lam_costs *c, lam_error *e);

static inline void lmi_rf_set(lam_cost_row *row, lam_rf r) {
    row->rf = r.size;
    row->rf_stride = r.stride;
    row->rf_padding = r.padding;
    row->rf_state = r.state;
}

/* Size, stride and padding of one call alone: torchscan's numbers if the policy is LMI_RF_FORWARD, else the
 * true ones. A layer without a word, or without a rule that is needed, is (1, 1, 0) and LAM_UNKNOWN. */
lam_rf lmi_rf_own(const lam_model *m, int32_t event, const lmi_convention *cv);

#endif
