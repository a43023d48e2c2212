/* SPDX-License-Identifier: Apache-2.0
 * tree: the places in depth-first order, and the parent of each call. */
#ifndef LMI_ANALYSE_TREE_H
#define LMI_ANALYSE_TREE_H

#include "model/model.h"

/* The tree of places in depth-first order. It is built without recursion, since a tree may be as deep as it
 * has places. */
typedef struct lmi_tree {
    int32_t *pre;         /* position of a place in depth-first order: the order of named_modules */
    int32_t *order;       /* the place at a position */
    int32_t *size;        /* places in the subtree, itself included */
    int32_t *first_event; /* first call made at this place, -1 none */
    int32_t *jump;        /* an ancestor far up, for lmi_tree_common */
    bool *live;           /* a module at or below this place was called */
} lmi_tree;

/* Arrays are in the arena. */
lam_status lmi_tree_build(lmi_tree *t, const lam_model *m, lmi_arena *arena, lam_error *e);
/* The deepest place at or above both: the root is above all. */
int32_t lmi_tree_common(const lmi_tree *t, const lam_model *m, int32_t a, int32_t b);
/* Calls `weigh` for parameters, packed ones too, but not for buffers: with +1 for every place that owns the
 * tensor, and with -1 for the deepest place above two neighbouring owners. Summed up the tree, a tensor then
 * counts once in every subtree that contains an owner. */
lam_status lmi_tree_weigh(const lmi_tree *t, const lam_model *m, lmi_arena *scratch,
                          void (*weigh)(void *self, int32_t place, const lam_tensor *tensor, int sign),
                          void *self, lam_error *e);

/* The parent of each call; -1: an outermost one. A call that a backward pass repeats outside every call has
 * the parent of its first run. NULL: out of memory. */
int32_t *lmi_callers(lmi_arena *arena, const lam_model *m);

#endif
