/* SPDX-License-Identifier: Apache-2.0
 * handover: gives what a recorded step showed to the recorder. */
#ifndef LMX_HANDOVER_H
#define LMX_HANDOVER_H

#include "observe/capture.h"

/* What the recorder knows of one root, and room to list calls and nodes in. Zero is empty. */
typedef struct lmx_handover {
    lmi_vec types;      /* PyTypeObject *, strong: of each node of the tree that was handed over last */
    lmi_vec places;     /* lmx_place: its places, names strong */
    lmi_vec call_infos; /* lam_call_info */
    lmi_vec node_infos; /* lam_op_info */
} lmx_handover;
void lmx_handover_clear(lmx_handover *h);

/* Of a closed capture that is brief. False with an exception. */
bool lmx_hand_over(lmx_handover *h, PyObject *recorder, lmx_capture *c, const lam_step_info *about);
/* Of any other, its Model, which is the recorder's then (record.c). False with an exception. */
bool lmx_hand_over_model(lmx_state *st, PyObject *recorder, PyObject *model, const lam_step_info *about);
lam_recorder *lmx_recorder_of(lmx_state *st, PyObject *o); /* NULL with an exception (record.c) */

#endif
