/* SPDX-License-Identifier: Apache-2.0
 * levels: what the inside of each container of the tree looks like: its children, its own operators, and
 * which gave data to which. Equal insides are one. */
#ifndef LMI_ANALYSE_LEVELS_H
#define LMI_ANALYSE_LEVELS_H

#include "analyse/costs.h"

enum { LMI_INSIDE_UNITS = 200 }; /* what is more is one unit */

typedef enum lmi_unit_type {
    LMI_UNIT_IN,     /* what comes from outside */
    LMI_UNIT_MODULE, /* a call of a child; of one that was never called, what ran in it without a break */
    LMI_UNIT_OPS,    /* own operators: one, or several of which each alone reads the one before it */
    LMI_UNIT_MORE,   /* the last ones, which are too many */
    LMI_UNIT_OUT     /* what leaves */
} lmi_unit_type;
typedef struct lmi_unit {
    uint8_t type;
    const char *name;   /* of a module; of what comes in: the input's name, that of the module beside the
                           container from which it comes, or "in"; else NULL */
    int32_t place;      /* of a module; else -1 */
    int32_t nth, times; /* of a module: which one of all with its place, from 1 */
    int32_t n_ops;      /* of operators, in order */
    const int32_t *ops;
    lam_shape shape;    /* of operators: what the last one gives */
} lmi_unit;
typedef struct lmi_way { int32_t from, to; } lmi_way; /* units; from < to */

typedef struct lmi_inside {
    int32_t place; /* the first container that has it; units are in it */
    int32_t n;     /* units: what comes in, then in order of execution, then what leaves */
    lmi_unit *unit;
    int32_t n_ways;
    lmi_way *way;  /* each once, by `from` and then by `to` */
    int32_t cut;   /* how many units are more */
} lmi_inside;

/* Of a container that was called, of its first call with operators; of one that was not, of all that its
 * children did in the call around it. Forward alone. */
typedef struct lmi_insides {
    lmi_arena arena;
    int32_t n;
    lmi_inside *at;     /* those of outer containers come first */
    int32_t *of_place;  /* which one; -1: no operator ran in it, or it has no children */
} lmi_insides;
/* Finds them. Names are borrowed from the graph, which must outlive them. Free it also on failure. */
lam_status lmi_insides_find(lmi_insides *out, const lam_graph *g, lam_error *e);
void lmi_insides_free(lmi_insides *i);
/* The operator that stands for operator `op` in the graph: itself, or one around it; -1 none. */
int32_t lmi_inside_op(const lam_graph *g, int32_t op);

#endif
