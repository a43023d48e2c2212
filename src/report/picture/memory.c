/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory over time: the area of what was in use, its peak, and below it lanes of the places at work. Of a
 * difference the use before is a dashed line in front of the area, on the same scale. */
#include "analyse/run/memory.h"
#include "report/picture/svg.h"

#include <math.h>
#include <stdlib.h>

enum {
    LEFT = 66,   /* of the area; the bytes are before it */
    BELOW = 230, /* the y of 0 bytes */
    HEIGHT = 320,
    TOP = 20,  /* of the lines across the whole area */
    LANE = 20, /* from one lane to the next */
    LANES = 3,
    MOST = 700, /* places at work */
    NARROW = 600
};

typedef struct course {
    lmi_svg *s;
    const lmi_outline *o, *was; /* was: before, NULL: nothing to show */
    double w, wide, us;         /* widths of the picture and of its area; the time that the area covers */
    lmi_scale grid;
    bool shown[LAM_N_HELD]; /* by colour */
} course;

static double x_of(const course *d, double us) { return LEFT + d->wide * us / d->us; }
static double y_of(const course *d, double bytes) { return lmi_scale_y(&d->grid, bytes); }

/* True if a category is empty at point i and at its neighbours: its area is not drawn there. */
static bool is_hidden(const course *d, int32_t i, int of) {
    if (of < 0) return false;
    for (int32_t k = i - 1; k <= i + 1; k++)
        if (k >= 0 && k < d->o->n_points && d->o->part[k][of] > 0) return false;
    return true;
}

static double end_of(const lmi_outline *o) { return fmax((double)o->point[o->n_points - 1].us, 1); }

/* Writes the points of a line that begins at LEFT and y. Coordinates are whole units, since finer ones are
 * not seen on a screen; the total of a picture in its own file has half units. A point that equals the one
 * before it is not written, and a level stretch is written as its end alone. `bytes`: of each point of `o`;
 * NULL: all that was in use. `of`: the category, -1: all. */
static void draw_points(course *d, const lmi_outline *o, const int64_t *bytes, double y, int of) {
    double unit = d->s->alone && of < 0 ? .5 : 1, x = LEFT, level = LEFT;
    LMI_DRAW(d->s, "M~ ~", x, y);
    for (int32_t i = 0; i < o->n_points; i++) {
        double nx = round(x_of(d, (double)o->point[i].us)),
               v = (double)(bytes ? bytes[i] : o->point[i].bytes);
        double ny = is_hidden(d, i, of) ? BELOW : round(y_of(d, v) / unit) * unit;
        if (nx == x && ny == y) continue;
        if (ny == y) {
            x = nx;
            continue;
        }
        if (x != level) LMI_DRAW(d->s, " ~ ~", x, y);
        LMI_DRAW(d->s, " ~ ~", nx, ny);
        x = level = nx, y = ny;
    }
    if (x != level) LMI_DRAW(d->s, " ~ ~", x, y);
}

static void draw_area(course *d, const char *classes, const int64_t *bytes, int of) {
    lmi_svg_put(d->s, "<path class=\"");
    lmi_svg_put(d->s, classes);
    lmi_svg_put(d->s, "\" d=\"");
    draw_points(d, d->o, bytes, BELOW, of);
    LMI_DRAW(d->s, "L~ ~Z\"/>", x_of(d, end_of(d->o)), BELOW);
}

/* Draws the categories as a stack: each area is drawn from 0 on, in front of the one above it. If the parts
 * are unknown, the whole is one area. */
static void draw_areas(course *d) {
    int32_t n = d->o->n_points;
    int64_t *sum = calloc((size_t)n, sizeof *sum);
    if (!sum) {
        d->s->body.bad = true;
        return;
    }
    for (int32_t i = 0; i < n; i++) sum[i] = d->o->point[i].bytes;
    if (!d->o->part) draw_area(d, "area", sum, -1);
    for (int k = LAM_N_HELD - 1; k >= 0 && d->o->part; k--) {
        lam_held of = lmi_held_order[k];
        char colour[] = {'k', (char)('0' + k), '\0'};
        for (int32_t i = 0; i < n; i++) d->shown[k] = d->shown[k] || d->o->part[i][of] > 0;
        if (!d->shown[k]) continue;
        draw_area(d, colour, sum, (int)of);
        for (int32_t i = 0; i < n; i++) sum[i] -= d->o->part[i][of];
    }
    free(sum);
}

static void draw_before(course *d) {
    double before = (double)d->o->memory->before, y = y_of(d, before);
    if (!(before > 0)) return;
    LMI_DRAW(d->s, "<path class=\"roof2\" d=\"M~ ~H~\"/>", LEFT, y, d->w - 10);
    LMI_DRAW(d->s, "<text class=\"s d r halo\" x=\"~\" y=\"~\">", d->w - 12, y - 5);
    lmi_svg_put(d->s, d->w < NARROW ? "before " : "there before the run ");
    lmi_put_iec(&d->s->body, before);
    lmi_svg_put(d->s, "</text>");
}

/* Draws what was in use before, with its peak named below. */
static void draw_was(course *d) {
    const lmi_outline *was = d->was;
    lmi_buf path;
    if (!was) return;
    lmi_svg_put(d->s, "<path class=\"was\" d=\"");
    draw_points(d, was, NULL, round(y_of(d, (double)was->point[0].bytes)), -1);
    LMI_DRAW(d->s, "\"/><text class=\"s d c\" x=\"~\" y=\"~\">dashed: before, peak ", LEFT + d->wide / 2,
             BELOW + 84);
    lmi_put_iec(&d->s->body, (double)was->memory->peak);
    if (was->peak_place >= 0 && d->w >= NARROW) {
        lmi_buf_init(&path);
        lmi_outline_label(was, was->peak_place, &path);
        lmi_svg_put(d->s, " in ");
        lmi_put_name(&d->s->body, lmi_buf_text(&path), 34);
        lmi_buf_used(&path, &d->s->body);
    }
    lmi_svg_put(d->s, "</text>");
}

static const char *phase_name(uint8_t phase) {
    return phase == LAM_FORWARD ? "forward" : phase == LAM_BACKWARD ? "backward" : "recomputation";
}

static void put_peak_place(course *d) {
    lmi_buf path;
    lmi_buf_init(&path);
    if (d->o->peak_place >= 0) lmi_outline_label(d->o, d->o->peak_place, &path);
    bool known = lmi_peak_phase(d->o->memory) != NULL;
    lmi_putf(&d->s->body, ", %s of ", known ? phase_name(d->o->memory->peak_phase) : "run");
    lmi_put_name(&d->s->body, path.n ? path.s : "no layer", 34);
    lmi_buf_used(&path, &d->s->body);
}

static void draw_peak(course *d) {
    double peak = (double)d->o->memory->peak;
    int32_t most = 0;
    for (int32_t i = 1; i < d->o->n_points; i++)
        if (d->o->point[i].bytes > d->o->point[most].bytes) most = i;
    double x = x_of(d, (double)d->o->point[most].us), y = y_of(d, peak);
    bool left = x > d->w * .6;
    LMI_DRAW(d->s, "<path class=\"pk\" d=\"M~ ~V~\"/>", x, y, BELOW + 66);
    LMI_DRAW(d->s, "<circle class=\"bd\" cx=\"~\" cy=\"~\" r=\"4\"/>", x, y);
    lmi_svg_put(d->s, left ? "<text class=\"b halo r\"" : "<text class=\"b halo\"");
    LMI_DRAW(d->s, " x=\"~\" y=\"~\">peak ", x + (left ? -8 : 8), y - 6);
    lmi_put_iec(&d->s->body, peak);
    if (d->w >= NARROW) put_peak_place(d);
    lmi_svg_put(d->s, "</text>");
}

static void draw_phases(course *d) {
    double x = x_of(d, (double)d->o->backward_us);
    if (d->o->backward_us < 0 || (double)d->o->backward_us >= d->us) return;
    LMI_DRAW(d->s, "<path class=\"ax2\" d=\"M~ ~V~\"/>", x, TOP, BELOW);
    LMI_DRAW(d->s, "<text class=\"s d r\" x=\"~\" y=\"16\">forward</text>", x - 6);
    LMI_DRAW(d->s, "<text class=\"s d\" x=\"~\" y=\"16\">backward</text>", x + 6);
}

static void draw_work(course *d, const lmi_active *w, double x, double wide) {
    double y = BELOW + 8 + (w->depth - 1) * LANE;
    const char *name = lmi_svg_name(d->o, w->place);
    int32_t room = (int32_t)floor((wide - 5) / LMI_COLUMN), whole = lmi_name_width(name);
    lmi_svg_begin_place(d->s, w->place);
    lmi_svg_put(d->s, "<rect class=\"o thin f-");
    lmi_svg_put(d->s, lmi_family_class[d->o->at[w->place].family]);
    LMI_DRAW(d->s, "\" x=\"~\" y=\"~\" width=\"~\" height=\"18\" rx=\"1.5\">", x, y, fmax(wide - .5, .7));
    lmi_svg_title(d->s, d->o, w->place);
    lmi_putf(&d->s->body, "%s, ", phase_name(w->phase));
    lmi_put_ns(&d->s->body, (double)w->length * 1000);
    lmi_svg_put(d->s, "</title></rect>");
    if (whole > 0 && room >= (whole < 6 ? whole : 6)) {
        LMI_DRAW(d->s, "<text class=\"m\" x=\"~\" y=\"~\">", x + 3, y + 13);
        lmi_put_name(&d->s->body, name, room);
        lmi_svg_put(d->s, "</text>");
    }
    lmi_svg_end_place(d->s);
}

typedef struct span {
    int64_t length;
    int32_t i;
} span;

static int longest_first(const void *a, const void *b) {
    const span *x = a, *y = b;
    if (x->length != y->length) return x->length > y->length ? -1 : 1;
    return x->i < y->i ? -1 : 1;
}

/* Draws the spans that are wide enough to see, the longest if there are many. */
static void draw_lanes(course *d) {
    int32_t n = 0, all = d->o->n_at_work;
    span *seen = malloc(((size_t)all + 1) * sizeof *seen);
    if (!seen) {
        d->s->body.bad = true;
        return;
    }
    for (int32_t i = 0; i < all; i++) {
        const lmi_active *w = &d->o->at_work[i];
        if (w->depth <= LANES && d->wide * (double)w->length / d->us >= .8) seen[n++] = (span){w->length, i};
    }
    if (n > MOST) qsort(seen, (size_t)n, sizeof *seen, longest_first);
    for (int32_t i = 0; i < n && i < MOST; i++) {
        const lmi_active *w = &d->o->at_work[seen[i].i];
        draw_work(d, w, x_of(d, (double)w->us), d->wide * (double)w->length / d->us);
    }
    free(seen);
}

static void draw_ends(course *d) {
    LMI_DRAW(d->s, "<text class=\"s d\" x=\"~\" y=\"~\">0</text>", LEFT, BELOW + 84);
    LMI_DRAW(d->s, "<text class=\"s d r\" x=\"~\" y=\"~\">", d->w - 10, BELOW + 84);
    lmi_put_ns(&d->s->body, d->us * 1000);
    lmi_svg_put(d->s, d->w < NARROW || d->was ? "</text>" : " of the run that was watched</text>");
}

static bool has_course(const lmi_outline *o) {
    return o && o->memory && o->n_points > 1 && o->memory->peak > 0;
}

static void find_scale(course *d, const lmi_picture_options *p) {
    const lmi_outline *was = has_course(d->o->was) ? d->o->was : NULL;
    double peak = (double)d->o->memory->peak;
    d->was = was;
    d->us = was ? fmax(end_of(d->o), end_of(was)) : end_of(d->o);
    if (was) peak = fmax(peak, (double)was->memory->peak);
    d->w = lmi_svg_width(p);
    d->wide = d->w - LEFT - 10;
    d->grid = (lmi_scale){LEFT, d->w - 10, BELOW, 26, peak * 1.1, 1, true};
    d->grid.step = lmi_byte_step(d->grid.most / 4);
}

/* In a page, where the pointer asks for a point of time, of the microseconds that the width stands for. */
static void draw_frame(course *d) {
    if (d->s->alone) return;
    lmi_putf(&d->s->body, "<rect data-us=\"%.0f\"", d->us);
    LMI_DRAW(d->s, " x=\"~\" y=\"~\" width=\"~\" height=\"~\" fill=\"none\"/>", LEFT, TOP, d->wide,
             BELOW - TOP);
}

void lmi_picture_memory(lmi_buf *out, const lmi_outline *o, const lmi_picture_options *p) {
    if (!has_course(o)) {
        lmi_svg_nothing(out, p, "Memory over time", "Memory was not measured.");
        return;
    }
    lmi_svg s;
    lmi_svg_start(&s, out, p->alone, "Memory over time: peak ");
    lmi_put_iec(&s.label, (double)o->memory->peak);
    course d = {.s = &s, .o = o};
    find_scale(&d, p);
    lmi_svg_grid(&s, &d.grid);
    draw_areas(&d);
    draw_was(&d);
    draw_before(&d);
    draw_peak(&d);
    draw_phases(&d);
    draw_lanes(&d);
    draw_ends(&d);
    draw_frame(&d);
    double below = o->part ? lmi_svg_legend(&s, LEFT, d.w - 10, HEIGHT + 4, d.shown) : HEIGHT;
    lmi_svg_end(&s, (lmi_rect){0, 0, d.w, below}, false);
}
