/* SPDX-License-Identifier: Apache-2.0
 * inside: one container's inside. levels.c finds the parts of each container and their readings; inside.c
 * makes the inside from them. */
#ifndef LMI_ANALYSE_INSIDE_H
#define LMI_ANALYSE_INSIDE_H

#include "analyse/flow/graph.h"
#include "analyse/flow/levels.h"

/* A unit before lines of operators are joined into one. */
typedef struct lmi_inside_part {
    int32_t level, place, op; /* place -1: an operator */
} lmi_inside_part;
typedef enum lmi_reading_type { LMI_READS_IN, LMI_READS_PART, LMI_READ_OUTSIDE } lmi_reading_type;
typedef struct lmi_reading {
    int32_t level, type;
    int32_t from, to; /* parts; from of LMI_READS_IN: a node of the graph; to of LMI_READ_OUTSIDE: -1 */
} lmi_reading;

typedef struct lmi_insider lmi_insider; /* makes insides; it is in the scratch arena */
/* `most`: the most parts of a container. */
lmi_insider *lmi_insider_new(lmi_insides *out, const lam_graph *g, lmi_arena *scratch, int32_t most);
/* Makes the inside of a container, or finds an equal one. Parts of readings are numbered from 0 here. */
lam_status lmi_insider_add(lmi_insider *w, int32_t place, int32_t n, const lmi_inside_part *part,
                           int32_t n_readings, lmi_reading *reading, lam_error *e);
lam_status lmi_insider_end(lmi_insider *w, lam_status so_far, lam_error *e);

#endif
