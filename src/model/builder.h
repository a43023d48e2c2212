/* SPDX-License-Identifier: Apache-2.0
 * The model while it is pushed. Texts and shapes are copied to the arena at once, equal ones mostly once;
 * lists that still grow are arrays, which the finished model takes over. Fresh memory is the largest cost
 * here, so nothing is stored twice without need. */
#ifndef LMI_BUILDER_H
#define LMI_BUILDER_H

#include "model/model.h"

/* Items that belong to modules, and the module of each: two arrays of equal length. */
typedef struct lmi_pushed {
    lmi_vec items, modules; /* modules: int32_t */
} lmi_pushed;

/* Recent copies: a hash chooses the slot, and the bytes are compared. */
enum { LMI_RECENT = 256 };
typedef struct lmi_recent {
    const void *bytes;
    size_t n;
} lmi_recent;

/* An operator's name, stored once for all operators with it, and its word. */
typedef struct lmi_op_name {
    const char *name;
    int32_t word;
} lmi_op_name;

struct lam_builder {
    lmi_arena arena;
    lmi_memory *memory; /* NULL: it was not measured */
    lmi_device *device; /* NULL: no device was measured */
    lmi_vec modules; /* lam_module */
    lmi_pushed attrs; /* lam_attr */
    lmi_vec places;  /* lam_place */
    lmi_vec tensors; /* lam_tensor */
    lmi_pushed owned; /* lam_owned */
    lmi_vec events;  /* lam_event */
    lmi_vec notes;   /* const char * */
    lmi_vec made;    /* const char * */
    lmi_vec provenance; /* lmi_named_text */
    const char *cut;
    const char *described; /* as in lam_model */
    bool trainable_unknown;
    bool calls_cut;
    int64_t cut_ns;
    lmi_vec ops;     /* lam_op */
    lmi_vec lifetimes; /* lam_lifetime */
    const char *optimizer, *more; /* as in lam_model */
    int32_t step;
    bool decided;
    bool ops_seen, nodes_seen, timed, no_backward, backward_raised;
    lmi_vec op_names; /* lmi_op_name */
    lmi_map op_by_name; /* index into op_names */
    lmi_vec sigs;       /* lam_op_sig *, in the arena */
    lmi_map by_sig;     /* indices into sigs, by a hash of what is compared */
    lmi_vec shares;     /* int32_t, of the results of the operator that is being pushed */
    lmi_vec again;      /* lam_op_arg: its arguments and results, if it was pushed by `like` alone */
    lmi_seen *seen;     /* of values; NULL: they were not checked */
    lmi_vec ties, identities; /* lmi_tie, lmi_identity */
    bool identified;          /* at least one result had an address */
    lmi_recent recent[LMI_RECENT];
    const char *at_address[LMI_RECENT]; /* the copy of the last text at an address of this slot */
    int32_t op_at_address[LMI_RECENT];  /* the same for operators' names: 1 + index into op_names */
};

/* The checks of every push (build.c). The texts are for the error's `where`. */
lam_status lmi_in_range(const lmi_vec *v, int32_t i, const char *what, lam_error *e);
lam_status lmi_needs(const void *p, const char *what, lam_error *e);
lam_status lmi_check_sizes(int32_t ndim, const int64_t *sizes, const char *what, lam_error *e);
/* Copies, which are shared with recent equal ones. */
lam_status lmi_copy_text(lam_builder *b, const char *s, const char *what, const char **out, lam_error *e);
lam_status lmi_copy_ints(lam_builder *b, const int64_t *from, int32_t n, const int64_t **out, lam_error *e);
lam_status lmi_check_value(const lam_value *v, const char *name, lam_error *e);
/* Copies a value that was checked. */
lam_status lmi_copy_value(lam_builder *b, const lam_value *from, const char *name, lam_value *to,
                          lam_error *e);

enum { LMI_MOST = 16 << 20, LMI_MOST_OPS = 64 << 20 }; /* the most items of a list; the most operators */

/* Appends `item` to `v`. The arena's limit applies to each array too. Inlined, so that copies have a size
 * known to the compiler: a capture does this most often. */
__attribute__((always_inline)) static inline lam_status
lmi_push_sized(lam_builder *b, lmi_vec *v, const char *what, const void *item, size_t size, size_t most,
               lam_error *e) {
    if (v->n >= most)
        return lmi_fail(e, LAM_LIMIT, what, "there are more than %zu; capture a part of the model", most);
    if ((v->n + 1) * size > b->arena.limit - b->arena.used) {
        b->arena.full = true;
        return lmi_nomem(e);
    }
    void *to = v->n < v->cap ? (char *)v->data + v->n++ * size : lmi_vec_push(v);
    if (!to) return lmi_nomem(e);
    memcpy(to, item, size);
    return LAM_OK;
}

#define lmi_push(b, v, what, item, e) lmi_push_sized(b, v, what, item, sizeof *(item), LMI_MOST, e)

/* -- sources of data (data.c) ---------------------------------------------------------------------------- */

/* Keep the addresses of a parameter or buffer, and of an operator's tensors, to find sources later. */
lam_status lmi_keep_identity(lam_builder *b, uint64_t storage, uint64_t object, int32_t tensor, lam_error *e);
lam_status lmi_keep_ties(lam_builder *b, const lam_op_info *o, const lam_op_sig *sig, uint32_t *at,
                         lam_error *e);

/* Adds packed weights to the memory, if that was measured: they exist, and no allocator is seen to hold them.
 * (memory.c) */
lam_status lmi_hold_packed(lam_builder *b, lam_error *e);

/* Fills the place and ordinal of every event, and the numbers of calls of modules and places. Children of
 * places and places of modules must be known; `scratch` has temporary data. LAM_RANGE if a called module has
 * no place. */
lam_status lmi_place_calls(lam_model *m, lmi_arena *scratch, lam_error *e);

#endif
