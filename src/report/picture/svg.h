/* SPDX-License-Identifier: Apache-2.0
 * picture: one <svg> element: its parts are drawn first, and its head, with the style that they use, is
 * written when its size is known. */
#ifndef LMI_REPORT_PICTURE_SVG_H
#define LMI_REPORT_PICTURE_SVG_H

#include "report/picture/picture.h"
#include "report/picture/text.h"

#define LMI_COLUMN 6.9 /* width of a character of class "m" */

typedef struct lmi_svg {
    lmi_buf *out, body, label;
    bool alone;
} lmi_svg;
typedef struct lmi_rect { double x, y, w, h; } lmi_rect;

/* `label`: what the picture is, for readers who do not see it; more may be put into s->label. */
void lmi_svg_start(lmi_svg *s, lmi_buf *out, bool alone, const char *label);
/* `fixed`: the picture is never scaled to the page. */
void lmi_svg_end(lmi_svg *s, lmi_rect view, bool fixed);
/* Puts `text` with each ~ replaced by the next number, of one decimal at most. */
#define LMI_DRAW(s, text, ...)                                                                               \
    lmi_svg_draw(s, text, (const double[]){__VA_ARGS__},                                                     \
                 sizeof((const double[]){__VA_ARGS__}) / sizeof(double))
void lmi_svg_draw(lmi_svg *s, const char *text, const double *at, size_t n);
void lmi_svg_put(lmi_svg *s, const char *text);
/* Writes a sentence in the place of a picture that has nothing to show. */
void lmi_svg_nothing(lmi_buf *out, const lmi_picture_options *p, const char *label, const char *why);
/* In a page, what is drawn between these is selected with a place, and selects it. */
void lmi_svg_begin_place(lmi_svg *s, int32_t place);
void lmi_svg_end_place(lmi_svg *s);
/* Begins the <title> of a place: "layer1 (Sequential): ". The caller ends it. */
void lmi_svg_title(lmi_svg *s, const lmi_outline *o, int32_t place);
const char *lmi_svg_name(const lmi_outline *o, int32_t place); /* of the root: its type */
double lmi_svg_width(const lmi_picture_options *p);

/* Labels that do not cover each other: each is at the first of the given corners that has room. */
typedef struct lmi_label { double dx, dy; char anchor; } lmi_label; /* 's', 'm', 'e' */
typedef struct lmi_room {
    lmi_rect inside; /* where labels may be */
    lmi_vec taken;   /* lmi_rect */
    bool bad;        /* memory ran out */
} lmi_room;
void lmi_room_take(lmi_room *room, lmi_rect r);
/* Returns the corner, or -1. `x`, `y`: the labelled point; `w`: the label's width. */
int32_t lmi_room_find(lmi_room *room, double x, double y, double w, const lmi_label *corner, int32_t n);
void lmi_svg_label(lmi_svg *s, const char *classes, double x, double y, const lmi_label *at, const char *text,
                   int32_t columns);

/* -- a chart over time (grid.c) ------------------------------------------------------------------------ */

/* Lines across from 0 up to `most`, `step` from one to the next, with bytes or nanoseconds before each. */
typedef struct lmi_scale {
    double left, right, below, top; /* of the area: 0 is below, `most` is at the top */
    double most, step;
    bool bytes;
} lmi_scale;
double lmi_scale_y(const lmi_scale *g, double v);
void lmi_svg_grid(lmi_svg *s, const lmi_scale *g);
double lmi_byte_step(double least); /* a round number of bytes, at least `least` */
double lmi_time_step(double least); /* 1, 2 or 5 times a power of ten nanoseconds, at least `least` */
/* Draws the legend of the shown colours k0 to k8; returns where it ends. */
double lmi_svg_legend(lmi_svg *s, double left, double right, double y, const bool shown[LAM_N_HELD]);

#endif
