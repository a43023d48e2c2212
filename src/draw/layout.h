/* SPDX-License-Identifier: Apache-2.0
 * draw: the positions of nodes and lines in a drawing of a graph, independent of networks. */
#ifndef LMI_DRAW_LAYOUT_H
#define LMI_DRAW_LAYOUT_H

#include "base/base.h"

/* Lengths are in units of an SVG; y grows downwards. Nodes are in an order in which every edge goes from a
 * lower to a higher number. */
typedef struct lmi_box_size { int32_t w, h; } lmi_box_size;
typedef struct lmi_line_ends { int32_t from, to; } lmi_line_ends;
/* A long line passes the ranks between its ends at waypoints, which all long lines of one source share. On
 * the rail of a `shared` drawing the source is n. */
typedef struct lmi_waypoint { int32_t x, rank, source; } lmi_waypoint;

typedef struct lmi_drawing {
    int32_t n;         /* nodes */
    int32_t *x, *y;    /* x of a node's centre, y of its top */
    int32_t *rank;
    bool *spine;       /* on the straight line through x = 0 */
    int32_t n_ranks;
    int32_t *top, *bottom; /* of each rank */
    int32_t n_waypoints;
    lmi_waypoint *waypoint;
    int32_t n_segments;
    lmi_line_ends *segment; /* between neighbouring ranks; n + i is waypoint i */
    bool shared; /* all long lines share one rail; only the caller's lines show which node reads which */
    int64_t crossings;
    int32_t left, right, height; /* the extent, without a margin */
} lmi_drawing;

/* Places `n` nodes of the given sizes with `m` lines, as docs/decisions.md describes. The result is
 * deterministic and does not depend on the order of the lines. Everything is in the arena. LAM_USAGE: a line
 * does not go from a lower to a higher number. */
lam_status lmi_draw(lmi_drawing *out, lmi_arena *arena, int32_t n, const lmi_box_size *size, int32_t m,
                       const lmi_line_ends *line, lam_error *e);

#endif
