/* SPDX-License-Identifier: Apache-2.0
 * model: what was seen, no opinions. One tree of places, the distinct modules and tensors behind it, and
 * one list of calls, all in one arena. */
#ifndef LMI_MODEL_H
#define LMI_MODEL_H

#include "vocab/vocab.h"

struct lam_model {
    lmi_arena arena;
    int32_t n_modules, n_places, n_tensors, n_events, n_notes;
    lam_module *modules;
    lam_place *places;
    lam_tensor *tensors;
    lam_event *events;
    const char **notes;
    bool ops_seen;
    int32_t n_ops;
    lam_op *ops;
    void *storage[8];   /* what the arrays live in when they are not in the arena; freed with the model */
    int32_t *by_path;   /* open addressing: places by the hash of their path, -1 empty */
    uint64_t path_mask; /* slots of by_path - 1 */
};

/* Offers the call's tensors, the module's owned tensors and its attributes to the binder, of each kind so
 * many that no real layer has more. Never fails. */
void lmi_model_bind(const lam_model *m, int32_t event, lmi_slots *out);

#endif
