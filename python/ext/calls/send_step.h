/* SPDX-License-Identifier: Apache-2.0
 * handover: passes the observations of a recorded step to the recorder. */
#ifndef LMX_SEND_STEP_H
#define LMX_SEND_STEP_H

#include "observe/open_capture.h"

typedef struct lmx_known_module {
    PyTypeObject *type; /* strong */
    PyObject *object;   /* only compared: a layer that was replaced need not stay alive */
} lmx_known_module;

/* The tree of a root that the recorder has, and room to list calls and nodes in. All zero is empty. */
typedef struct lmx_handover {
    lmi_vec modules;    /* lmx_known_module: of each node of the tree that was handed over last */
    lmi_vec places;     /* lmx_place: its places, names strong */
    int64_t n_trees;    /* how many were handed over */
    lmi_vec call_infos; /* lam_call_info */
    lmi_vec node_infos; /* lam_op_info */
} lmx_handover;
void lmx_handover_clear(lmx_handover *h);

/* Whether the capture, which may be open, has the tree that was handed over last; `about` gets its number. */
bool lmx_number_tree(lmx_handover *h, const lmx_capture *c, lam_step_info *about);
/* For a closed capture that is brief; `known`: its tree was handed over. False with an exception. */
bool lmx_hand_over(lmx_handover *h, PyObject *recorder, lmx_capture *c, bool known,
                   const lam_step_info *about);
/* For any other: passes its Model, which the recorder then owns (record.c). False with an exception. */
bool lmx_hand_over_model(lmx_state *st, PyObject *recorder, PyObject *model, const lam_step_info *about);
lam_recorder *lmx_recorder_of(lmx_state *st, PyObject *o); /* NULL with an exception (record.c) */
lam_pace *lmx_recorder_pace(PyObject *recorder);           /* where all calls are counted (record.c) */

#endif
