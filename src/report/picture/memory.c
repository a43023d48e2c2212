/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory over time: the area of what was in use, its peak, and below it lanes of the places at work. */
#include "analyse/run/memory.h"
#include "report/picture/svg.h"

#include <math.h>
#include <stdlib.h>

enum {
    LEFT = 66,   /* of the area; the bytes are before it */
    BELOW = 230, /* the y of 0 bytes */
    HEIGHT = 320,
    LANE = 20,    /* from one lane to the next */
    LANES = 3,    /* in a page two, which its script draws again */
    IN_PAGE = 70, /* places at work, at most */
    IN_FILE = 700,
    NARROW = 600
};

typedef struct course {
    lmi_svg *s;
    const lmi_outline *o;
    double w, wide, us; /* widths of the picture and of its area; the time that the area covers */
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

/* Coordinates are whole units, since finer ones are not seen on a screen; the total of a picture in its own
 * file has half units. A point that equals the one before it is not written, and a level stretch is written
 * as its end alone. `of`: the category, -1: all. */
static void draw_area(course *d, const char *classes, const int64_t *bytes, int of) {
    double unit = d->s->alone && of < 0 ? .5 : 1, x = LEFT, y = BELOW, level = LEFT;
    lmi_svg_put(d->s, "<path class=\"");
    lmi_svg_put(d->s, classes);
    LMI_DRAW(d->s, "\" d=\"M~ ~", x, y);
    for (int32_t i = 0; i < d->o->n_points; i++) {
        double nx = round(x_of(d, (double)d->o->point[i].us));
        double ny = is_hidden(d, i, of) ? BELOW : round(y_of(d, (double)bytes[i]) / unit) * unit;
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
    LMI_DRAW(d->s, "L~ ~Z\"/>", LEFT + d->wide, BELOW);
}

/* Draws the categories as a stack: each area is drawn from 0 on, in front of the one above it. If the parts
 * are unknown, the whole is one area. */
static void draw_areas(course *d) {
    int32_t n = d->o->n_points;
    int64_t *sum = malloc((size_t)n * sizeof *sum);
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
    LMI_DRAW(d->s, "<path class=\"ax2\" d=\"M~ 20V~\"/>", x, BELOW);
    LMI_DRAW(d->s, "<text class=\"s d r\" x=\"~\" y=\"16\">forward</text>", x - 6);
    LMI_DRAW(d->s, "<text class=\"s d\" x=\"~\" y=\"16\">backward</text>", x + 6);
}

static void draw_work(course *d, const lmi_at_work *w, double x, double wide) {
    double y = BELOW + 8 + (w->depth - 1) * LANE;
    const char *name = lmi_svg_name(d->o, w->place);
    int32_t room = (int32_t)floor((wide - 5) / LMI_COLUMN), whole = lmi_name_width(name);
    lmi_svg_put(d->s, "<rect class=\"o thin f-");
    lmi_svg_put(d->s, lmi_family_class[d->o->at[w->place].family]);
    LMI_DRAW(d->s, "\" x=\"~\" y=\"~\" width=\"~\" height=\"18\" rx=\"1.5\">", x, y, fmax(wide - .5, .7));
    lmi_svg_title(d->s, d->o, w->place);
    lmi_putf(&d->s->body, "%s, ", phase_name(w->phase));
    lmi_put_ns(&d->s->body, (double)w->length * 1000);
    lmi_svg_put(d->s, "</title></rect>");
    if (whole == 0 || room < (whole < 6 ? whole : 6)) return;
    LMI_DRAW(d->s, "<text class=\"m\" x=\"~\" y=\"~\">", x + 3, y + 13);
    lmi_put_name(&d->s->body, name, room);
    lmi_svg_put(d->s, "</text>");
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

/* Draws the spans that are wide enough to see, the longest `most` of them. */
static void draw_lanes(course *d, int32_t lanes, int32_t most) {
    int32_t n = 0, all = d->o->n_at_work;
    span *seen = malloc(((size_t)all + 1) * sizeof *seen);
    if (!seen) {
        d->s->body.bad = true;
        return;
    }
    for (int32_t i = 0; i < all; i++) {
        const lmi_at_work *w = &d->o->at_work[i];
        if (w->depth <= lanes && d->wide * (double)w->length / d->us >= .8) seen[n++] = (span){w->length, i};
    }
    if (n > most) qsort(seen, (size_t)n, sizeof *seen, longest_first);
    for (int32_t i = 0; i < n && i < most; i++) {
        const lmi_at_work *w = &d->o->at_work[seen[i].i];
        draw_work(d, w, x_of(d, (double)w->us), d->wide * (double)w->length / d->us);
    }
    free(seen);
}

static void draw_ends(course *d) {
    LMI_DRAW(d->s, "<text class=\"s d\" x=\"~\" y=\"~\">0</text>", LEFT, BELOW + 84);
    LMI_DRAW(d->s, "<text class=\"s d r\" x=\"~\" y=\"~\">", d->w - 10, BELOW + 84);
    lmi_put_ns(&d->s->body, d->us * 1000);
    lmi_svg_put(d->s, d->w < NARROW ? "</text>" : " of the run that was watched</text>");
}

void lmi_picture_memory(lmi_buf *out, const lmi_outline *o, const lmi_picture_options *p) {
    if (!o->memory || o->n_points < 2 || o->memory->peak <= 0) {
        lmi_svg_nothing(out, p, "Memory over time", "Memory was not measured.");
        return;
    }
    lmi_svg s;
    lmi_svg_start(&s, out, p->alone, "Memory over time: peak ");
    lmi_put_iec(&s.label, (double)o->memory->peak);
    int64_t us = o->point[o->n_points - 1].us;
    course d = {.s = &s, .o = o, .w = lmi_svg_width(p), .us = us > 0 ? (double)us : 1};
    d.wide = d.w - LEFT - 10;
    d.grid = (lmi_scale){LEFT, d.w - 10, BELOW, 26, (double)o->memory->peak * 1.1, 1, true};
    d.grid.step = lmi_byte_step(d.grid.most / 4);
    lmi_svg_grid(&s, &d.grid);
    draw_areas(&d);
    draw_before(&d);
    draw_peak(&d);
    draw_phases(&d);
    draw_lanes(&d, p->alone ? LANES : LANES - 1, p->alone ? IN_FILE : IN_PAGE);
    draw_ends(&d);
    double below = o->part ? lmi_svg_legend(&s, LEFT, d.w - 10, HEIGHT + 4, d.shown) : HEIGHT;
    lmi_svg_end(&s, (lmi_rect){0, 0, d.w, below}, false);
}
