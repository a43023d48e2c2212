/* SPDX-License-Identifier: Apache-2.0
 * Receptive fields on the graph (rfgraph.c), and what of them a row shows (rfrows.c). */
#ifndef LMI_ANALYSE_RFGRAPH_H
#define LMI_ANALYSE_RFGRAPH_H

#include "analyse/span.h"

enum { LMI_RF_SLOTS = 12 }; /* axes of inputs that are followed */

typedef struct lmi_rf_slot {
    int32_t input, axis; /* of the outermost call */
    int64_t positions;
    bool windowed; /* some window went along it */
    bool shown;
    bool batch; /* some layer took it for the batch */
} lmi_rf_slot;

struct lmi_rf {
    int32_t n_slots;
    lmi_rf_slot slot[LMI_RF_SLOTS];
    /* per row: one span a slot, then one a slot along the path that sees least; NULL where nothing is known
     */
    const lmi_span **of_row;
};

/* The rows' columns from what was found. */
void lmi_rf_rows(lam_costs *c);

#endif
