/* SPDX-License-Identifier: Apache-2.0
 * picture: drawings in SVG, of an outline alone: for the page, which has their style, and as files of their
 * own. No style attribute, no id, no script; every name from a model is escaped. */
#ifndef LMI_REPORT_PICTURE_H
#define LMI_REPORT_PICTURE_H

#include "report/outline/outline.h"

typedef struct lmi_picture_options {
    int32_t width;     /* units of the SVG; 0: 1008 */
    bool alone;        /* a file of its own: with its style, a background and finer detail */
    lmi_own_number by; /* what boxes are wide by, and what nodes tell */
    bool backward;     /* the backward's numbers are added to the forward's */
} lmi_picture_options;

/* Each puts one <svg> element. Where the outline lacks what a picture shows it holds a sentence instead. */
void lmi_picture_icicle(lmi_buf *out, const lmi_outline *o, const lmi_picture_options *p);
void lmi_picture_memory(lmi_buf *out, const lmi_outline *o, const lmi_picture_options *p);
void lmi_picture_roofline(lmi_buf *out, const lmi_outline *o, const lmi_picture_options *p);
/* The top level, laid out already; it is as wide as it is, whatever `width` says. */
void lmi_picture_graph(lmi_buf *out, const lmi_outline *o, const lmi_picture_options *p);
/* MACs against parameters, both above 0 in every point; one family is joined. A file of its own. */
void lmi_picture_scatter(lmi_buf *out, const char *title, const lam_scatter_point *at, int32_t n);

extern const lam_held lmi_held_order[LAM_N_HELD]; /* as they are stacked, in the colours k0 to k8 */

/* -- what is shown of a place (shown.c) ---------------------------------------------------------------- */

/* "macs", "bytes": read and written, "peak": what is held at the peak; false: there is none of that name. */
bool lmi_shown_find(const char *name, lmi_own_number *by);
const char *lmi_shown_title(lmi_own_number by); /* "MACs", "bytes moved"; NULL: no picture is by it */
/* At and below a place; where not all of it is known, of what is. */
int64_t lmi_shown_total(const lmi_outline *o, const lmi_picture_options *p, int32_t place);
lam_state lmi_shown_state(const lmi_outline *o, const lmi_picture_options *p, int32_t place);
void lmi_put_shown(lmi_buf *b, lmi_own_number by, double v); /* with its unit */
/* The same of a place with its state: "≥ 14.5 G", "?". */
void lmi_put_shown_of(lmi_buf *b, const lmi_outline *o, const lmi_picture_options *p, int32_t place);

/* How near the forward work of a place itself comes to the machine's limits. */
typedef enum lmi_place_bound { LMI_BY_COMPUTE, LMI_BY_MEMORY, LMI_OVERHEAD } lmi_place_bound;
typedef struct lmi_place_speed {
    double flops, intensity, share; /* FLOP/s; FLOP a byte; of the nearer roof */
    int64_t ns;
    lmi_place_bound bound; /* LMI_OVERHEAD: below a tenth of both roofs */
} lmi_place_speed;
extern const char *const lmi_place_bound_name[3]; /* "compute", "memory", "overhead" */
/* False if its time, FLOPs or bytes are not known or 0, or the roof is not known. */
bool lmi_place_speed_of(const lmi_outline *o, int32_t place, lmi_place_speed *out);

#endif
