/* SPDX-License-Identifier: Apache-2.0
 * The model while it is pushed. Texts and shapes go to the arena at once, the same ones mostly once; what
 * still grows lives in arrays that the finished model takes over. Fresh memory costs more than anything
 * else here, so nothing is stored twice without need. */
#ifndef LMI_BUILDER_H
#define LMI_BUILDER_H

#include "model/model.h"

/* Things that belong to modules, and to which: two arrays of one length. */
typedef struct lmi_pushed {
    lmi_vec items, modules; /* modules: int32_t */
} lmi_pushed;

/* What was copied lately: a hash chooses the slot, and the bytes decide. */
enum { LMI_RECENT = 256 };
typedef struct lmi_recent {
    const void *bytes;
    size_t n;
} lmi_recent;

struct lam_builder {
    lmi_arena arena;
    lmi_vec modules; /* lam_module */
    lmi_pushed attrs; /* lam_attr */
    lmi_vec places;  /* lam_place */
    lmi_vec tensors; /* lam_tensor */
    lmi_pushed owned; /* lam_owned */
    lmi_vec events;  /* lam_event */
    lmi_vec notes;   /* const char * */
    lmi_recent recent[LMI_RECENT];
    const char *at_address[LMI_RECENT]; /* the copy of the text that was last at such an address */
};

/* Items grouped by key: group g is order[start[g]] .. order[start[g + 1] - 1], in the items' order. */
typedef struct lmi_groups {
    int32_t *start, *order;
} lmi_groups;
/* Groups 0 .. n-1 by keys[item] in 0 .. n_groups-1; an item with key -1 is in no group. False: memory ran
 * out. */
bool lmi_group(lmi_arena *a, const int32_t *keys, int32_t n, int32_t n_groups, lmi_groups *out);

/* Fills place and ordinal of every event, and the calls counted by modules and places. Needs places with
 * children and modules with places; `scratch` is for what is needed meanwhile. LAM_RANGE when a called
 * module has no place. */
lam_status lmi_place_calls(lam_model *m, lmi_arena *scratch, lam_error *e);

#endif
