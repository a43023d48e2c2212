/* SPDX-License-Identifier: Apache-2.0
 * Receptive fields on the graph (rfgraph.c), the axes that are shown (rfaxes.c), and the fields' storage
 * (rfstore.c). */
#ifndef LMI_ANALYSE_RFGRAPH_H
#define LMI_ANALYSE_RFGRAPH_H

#include "analyse/field/span.h"

enum { LMI_RF_SLOTS = 12 }; /* axes of inputs that are followed */

typedef struct lmi_rf_slot {
    int32_t input, axis; /* of the outermost call */
    int64_t positions;
    bool windowed; /* some window moved along it */
    bool shown;
    bool batch;    /* some layer used it as the batch */
    bool features; /* a linear layer sums over it */
} lmi_rf_slot;

struct lmi_rf {
    int32_t n_slots;
    lmi_rf_slot slot[LMI_RF_SLOTS];
    bool lost; /* a window moved along an axis that no slot leads to */
    /* per row: one span a slot, then one a slot along the narrowest path; NULL: nothing is known */
    const lmi_span **of_row;
};

/* Sets `batch` and `shown` of the slots, once the fields of all rows are known. */
void lmi_rf_choose(const lam_costs *c, lmi_rf *rf);

/* Fields, of `width` spans each; equal ones are kept once. */
typedef struct lmi_rf_fields {
    lmi_arena *a;
    int32_t width;
    lmi_vec all; /* const lmi_span * */
    lmi_map by_hash;
    lmi_buf searched, other; /* of the field that is searched, and of a candidate */
} lmi_rf_fields;
void lmi_rf_fields_init(lmi_rf_fields *f, lmi_arena *a, int32_t width);
void lmi_rf_fields_free(lmi_rf_fields *f);
/* Copies the field with all that it points to, unless there is an equal one. False: memory ran out. */
bool lmi_rf_keep(lmi_rf_fields *f, const lmi_span *spans, int32_t *index);
const lmi_span *lmi_rf_field(const lmi_rf_fields *f, int32_t i);

#endif
