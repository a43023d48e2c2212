/* SPDX-License-Identifier: Apache-2.0
 * draw: an unfinished drawing. ranks.c: the rank of each node, and the spine. lines.c: lines as segments
 * between neighbouring ranks. order.c: the order in each rank. places.c: x. layout.c: the rest. */
#ifndef LMI_DRAW_SKETCH_H
#define LMI_DRAW_SKETCH_H

#include "draw/layout.h"

/* Item i is joined to `to[at[i]]` to `to[at[i + 1] - 1]`. */
typedef struct lmi_lists { int32_t *at, *to; } lmi_lists;

/* A node or a waypoint, at a position in a rank. The items are the nodes, then the waypoints. */
typedef struct lmi_item {
    int32_t rank, pos; /* pos: its index in the rank, from the left */
    int32_t source;    /* of a waypoint; n: the rail that all sources share */
    int32_t w;
    double x;          /* of its centre */
} lmi_item;

typedef struct lmi_sketch {
    lmi_arena arena;       /* temporary data, which the drawing does not need */
    int32_t n, m;
    const lmi_box_size *size;
    lmi_line_ends *line;   /* by source, then by reader; each once */
    lmi_lists readers, sources; /* of nodes */
    int32_t n_ranks, *rank;
    bool *spine;
    bool shared;           /* long lines are one rail */
    int32_t n_items;
    lmi_item *item;
    int32_t n_segments;
    lmi_line_ends *segment;
    lmi_lists above, below; /* of items: neighbours by segments */
    int32_t *row_at, *row; /* the items of rank r, from the left: row[row_at[r]] to row[row_at[r + 1] - 1] */
    int32_t widest;        /* the most items in a rank */
    int64_t crossings;
} lmi_sketch;

/* Lists the other ends of `m` lines for each of `n` items, in the order of the lines. */
lam_status lmi_sketch_lists(lmi_arena *a, lmi_lists *out, int32_t n, int32_t m, const lmi_line_ends *line,
                            bool by_to, lam_error *e);
/* Sorts the lines and finds the ranks and the spine. */
lam_status lmi_sketch_ranks(lmi_sketch *s, int32_t m, const lmi_line_ends *line, lam_error *e);
/* Makes items and segments: trunks, or a rail if `shared`. Sets `shared` if there would be too many
 * waypoints. */
lam_status lmi_sketch_segments(lmi_sketch *s, lam_error *e);
lam_status lmi_sketch_order(lmi_sketch *s, lam_error *e);
lam_status lmi_sketch_places(lmi_sketch *s, lam_error *e);

#endif
