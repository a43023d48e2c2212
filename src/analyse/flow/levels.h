/* SPDX-License-Identifier: Apache-2.0
 * levels: the inside of each container of the tree: its children, its own operators, and the data flow
 * between them. Equal insides are stored once. */
#ifndef LMI_ANALYSE_LEVELS_H
#define LMI_ANALYSE_LEVELS_H

#include "analyse/costs.h"

enum { LMI_INSIDE_UNITS = 200 }; /* the most units of an inside; further ones become one */

typedef enum lmi_unit_type {
    LMI_UNIT_IN,     /* data from outside */
    LMI_UNIT_MODULE, /* a call of a child; of a child that was never called, work in it without a break */
    LMI_UNIT_OPS,    /* own operators: one, or several of which each alone reads the one before it */
    LMI_UNIT_MORE,   /* the last units, beyond the limit, as one */
    LMI_UNIT_OUT     /* data that leave the container */
} lmi_unit_type;
typedef struct lmi_unit {
    uint8_t type;
    const char *name;   /* of a module; for data from outside the name of the input, or of the module beside
                           the container that they come from, or "in"; else NULL */
    int32_t place;      /* of a module; else -1 */
    int32_t nth, times; /* of a module: its number among all units with its place, from 1 */
    int32_t n_ops;      /* of operators, in order */
    const int32_t *ops;
    lam_shape shape;    /* of operators: the shape of the last one's result */
} lmi_unit;
typedef struct lmi_way { int32_t from, to; } lmi_way; /* units; from < to */

typedef struct lmi_inside {
    int32_t place; /* the first container that has it; units are in it */
    int32_t n;     /* units: data from outside, then in order of execution, then data that leave */
    lmi_unit *unit;
    int32_t n_ways;
    lmi_way *way;  /* distinct, sorted by `from` and then by `to` */
    int32_t cut;   /* the number of units that became LMI_UNIT_MORE */
} lmi_inside;

/* The insides of all containers, from the forward alone. The inside of a called container is that of its
 * first call with operators; for one that was never called, all work of its children in the call around
 * it. */
typedef struct lmi_insides {
    lmi_arena arena;
    int32_t n;
    lmi_inside *at;     /* those of outer containers come first */
    int32_t *of_place;  /* per place: its inside; -1: no operator ran in it, or it has no children */
} lmi_insides;
/* Finds the insides. Names are borrowed from the graph, which must outlive them. Free `out` also on
 * failure. */
lam_status lmi_insides_find(lmi_insides *out, const lam_graph *g, lam_error *e);
void lmi_insides_free(lmi_insides *i);
/* The operator that represents operator `op` in the graph: itself, or one around it; -1 none. */
int32_t lmi_inside_op(const lam_graph *g, int32_t op);

#endif
