/* SPDX-License-Identifier: Apache-2.0
 * picture: drawings in SVG, made from an outline alone: for the page, which has their style, and as separate
 * files. No style attribute, no id, no script; every name from a model is escaped. */
#ifndef LMI_REPORT_PICTURE_H
#define LMI_REPORT_PICTURE_H

#include "report/outline/outline.h"

typedef struct lmi_picture_options {
    int32_t width;     /* units of the SVG; 0: 1008 */
    bool alone;        /* a separate file: with its style, a background and finer detail */
    lmi_figure by;     /* the number that sets the widths of boxes and that nodes show */
    bool backward;     /* the backward's numbers are added to the forward's */
} lmi_picture_options;

/* Each writes one <svg> element. If the outline lacks the data, it has a sentence instead of a picture. */
void lmi_picture_icicle(lmi_buf *out, const lmi_outline *o, const lmi_picture_options *p);
void lmi_picture_memory(lmi_buf *out, const lmi_outline *o, const lmi_picture_options *p);
void lmi_picture_roofline(lmi_buf *out, const lmi_outline *o, const lmi_picture_options *p);
/* The top level, laid out already; its own width does not depend on `width`. */
void lmi_picture_graph(lmi_buf *out, const lmi_outline *o, const lmi_picture_options *p);
/* MACs against parameters, both above 0 in every point; points of one family are joined. A separate file. */
void lmi_picture_scatter(lmi_buf *out, const char *title, const lam_scatter_point *at, int32_t n);

extern const lam_held lmi_held_order[LAM_N_HELD]; /* from the bottom of a stack, in the colours k0 to k8 */

/* -- what is shown of a place (metrics.c) ---------------------------------------------------------------- */

/* At and below a place; if not all of it is known, the known part. */
int64_t lmi_shown_total(const lmi_outline *o, const lmi_picture_options *p, int32_t place);
/* The same of a place itself. */
int64_t lmi_shown_own(const lmi_outline *o, const lmi_picture_options *p, int32_t place);
/* The number to show: of a container's time the median, which is not the sum of the medians inside. */
int64_t lmi_shown(const lmi_outline *o, const lmi_picture_options *p, int32_t place);
lam_state lmi_shown_state(const lmi_outline *o, const lmi_picture_options *p, int32_t place);
void lmi_put_shown(lmi_buf *b, lmi_figure by, double v); /* with its unit */
/* The same of a place with its state: "≥ 14.5 G", "?". */
void lmi_put_shown_of(lmi_buf *b, const lmi_outline *o, const lmi_picture_options *p, int32_t place);

/* How near a place's own forward work comes to the limits `roof` of a machine. False if its time, FLOPs or
 * bytes are not known or 0, or the roof is not known. */
bool lmi_place_speed_of(const lmi_outline *o, int32_t place, const lam_peak *roof, lam_speed *out);
const char *lmi_speed_bound(const lam_speed *s); /* "compute", "memory"; "overhead": neither is near */

#endif
