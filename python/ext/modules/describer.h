/* SPDX-License-Identifier: Apache-2.0
 * describer: what makes a model of a capture (describe.c), with the tensors of its modules (owned.c). */
#ifndef LMX_DESCRIBER_H
#define LMX_DESCRIBER_H

#include "modules/classes.h"
#include "modules/tree.h"

typedef struct lmx_describer {
    lmx_state *st;
    lmx_capture *c;
    lam_builder *b;
    lam_error e;
    lmi_vec classes;    /* met */
    lmi_map by_type;    /* type -> class */
    lmi_map by_tensor;  /* tensor object -> tensor index */
    PyObject *held;     /* list: tensors, so that no address is used twice */
    PyObject *stored;   /* dict: the memory inside tensors that was counted, for lmx_weigh */
    PyObject *gathered; /* list: as lmx_gathered; NULL: not asked for */
    lmi_map by_pair;    /* tensor of that list -> its index there */
    PyObject *before;   /* called before user code runs; NULL: not given, or called already */
    int32_t module;     /* the module that is being described */
    bool is_buffer;
    bool names_only; /* describes modules by name only, while the capture is open */
    bool early;      /* the model has not run yet: no user code may run, */
    bool given_up;   /* so if one needs it, all are described after the run */
} lmx_describer;

/* True if the builder took what was pushed; else there is an exception. */
static inline bool lmx_pushed(lmx_describer *t, lam_status status) {
    if (status == LAM_OK) return true;
    lmx_raise(t->st, &t->e);
    return false;
}
/* Call it before user code may run. False with an exception, or without one if none may run yet. */
bool lmx_describer_may_run(lmx_describer *t);

/* Push what a module registers under `kind`, and the weights that one of torch's quantised layers keeps
 * packed for the machine. False with an exception, or as lmx_describer_may_run. (owned.c) */
bool lmx_push_tensors(lmx_describer *t, PyObject *module, PyObject *dict, PyObject *kind, bool is_buffer);
bool lmx_push_packed(lmx_describer *t, PyObject *dict, const lmx_class *k);
/* Finds what FSDP2 has gathered. False with an exception. */
bool lmx_find_gathered(lmx_describer *t);

#endif
