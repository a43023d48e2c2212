/* SPDX-License-Identifier: Apache-2.0
 * field: the receptive fields of rows. */
#ifndef LMI_ANALYSE_FIELD_H
#define LMI_ANALYSE_FIELD_H

#include "analyse/costs.h"

/* Fills the rows' rf, rf_stride, rf_padding and rf_state under the convention's policy. */
lam_status lmi_rfield_fill(lam_costs *c, lam_error *e);
/* The same, once, for whoever is about to read them: sums need none, and they take as long as all else.
 * LAM_NOMEM: they are unknown until it is tried again. */
lam_status lmi_rf_need(const lam_costs *c, lam_error *e);

/* The same where only a chain of layers has a receptive field (rfchain.c). */
lam_status lmi_rfchain_fill(lam_costs *c, lam_error *e);

/* The same on the graph of the data, for the rows of which it tells something; the others stay as they are
 * (rfgraph.c). */
lam_status lmi_rfgraph_fill(lam_costs *c, lam_error *e);

/* Size, stride and padding of one call alone: torchscan's triple where the policy is LMI_RF_FORWARD, else
 * the true one. A layer without a word, or without a rule where the policy asks for one, is (1, 1, 0) and
 * LAM_UNKNOWN. */
lam_rf lmi_rf_own(const lam_model *m, int32_t event, const lmi_convention *cv);

#endif
