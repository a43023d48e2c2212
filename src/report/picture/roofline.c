/* SPDX-License-Identifier: Apache-2.0
 *
 * The roofline: both limits of the machine, and below them a circle for each place, at the intensity and
 * speed of its own forward work; a circle's area is its time. Of a difference the circles before are hollow,
 * each joined to the one after. */
#include "report/picture/svg.h"

#include <math.h>
#include <stdlib.h>

enum { LEFT = 66, TOP = 22, IN_PAGE = 400, IN_FILE = 2000, IN_THE_WAY = 60, NARROW = 600, LABEL = 15 };

/* A difference shows circles before that took at least this share of the time, before or after, and that are
 * farther than this from the circle after: others would be drawn on top of it. */
static const double LEAST_SHARE = .005, LEAST_MOVE = 6;

typedef struct circle {
    int32_t place;
    lam_speed speed;
} circle;

typedef struct circles {
    circle *at; /* the longest first */
    int32_t n;
    double sum; /* of all times */
} circles;

typedef struct chart {
    lmi_svg *s;
    const lmi_outline *o;
    circles now, was; /* was: of a difference, by the places of both together */
    double w, h, right, below;
    double x0, x1, y0, y1; /* powers of ten at the ends of the axes */
} chart;

static double x_of(const chart *d, double v) {
    return LEFT + (d->right - LEFT) * (log10(v) - d->x0) / (d->x1 - d->x0);
}

static double y_of(const chart *d, double v) {
    return d->below - (d->below - TOP) * (fmax(log10(v), d->y0) - d->y0) / (d->y1 - d->y0);
}

static int longest_first(const void *a, const void *b) {
    const circle *x = a, *y = b;
    if (x->speed.ns != y->speed.ns) return x->speed.ns > y->speed.ns ? -1 : 1;
    return x->place < y->place ? -1 : 1;
}

/* `was`: those before. Returns false if memory ran out. */
static bool find_circles(const lmi_outline *o, bool was, circles *c) {
    const lmi_outline *of = was ? o->was : o;
    c->at = calloc((size_t)o->n + 1, sizeof *c->at);
    if (!c->at) return false;
    for (int32_t i = 0; i < o->n && of; i++) {
        int32_t place = was ? o->was_at[i] : i;
        circle *to = &c->at[c->n];
        if (place < 0 || !lmi_place_speed_of(of, place, &o->roof, &to->speed)) continue;
        to->place = i;
        c->sum += (double)to->speed.ns;
        c->n++;
    }
    qsort(c->at, (size_t)c->n, sizeof *c->at, longest_first);
    return true;
}

static void find_axes(chart *d) {
    const lam_peak *roof = &d->o->roof;
    const double ridge = roof->flops / roof->bytes; /* with room for its labels on both sides */
    double x0 = fmin(.2, ridge / 4), x1 = ridge * 4, y0 = roof->flops, y1 = 0;
    for (int32_t i = 0; i < d->now.n + d->was.n; i++) {
        const lam_speed *s = i < d->now.n ? &d->now.at[i].speed : &d->was.at[i - d->now.n].speed;
        x0 = fmin(x0, s->intensity);
        x1 = fmax(x1, s->intensity);
        y0 = fmin(y0, s->flops);
        y1 = fmax(y1, s->flops);
    }
    d->x0 = floor(log10(x0));
    d->x1 = ceil(log10(x1));
    d->y1 = fmax(log10(roof->flops) + .55, log10(y1) + .15);
    d->y0 = fmax(floor(log10(y0)), d->y1 - 5.5);
}

static void draw_axes(chart *d) {
    for (int e = (int)d->x0; e <= d->x1; e++) {
        double x = x_of(d, pow(10, e));
        LMI_DRAW(d->s, "<path class=\"ax\" d=\"M~ ~V~\"/>", x, TOP, d->below);
        LMI_DRAW(d->s, "<text class=\"s d c\" x=\"~\" y=\"~\">", x, d->below + 16);
        lmi_put_power(&d->s->body, e);
        lmi_svg_put(d->s, "</text>");
    }
    for (int e = (int)ceil(d->y0); e <= d->y1; e++) {
        double y = y_of(d, pow(10, e));
        LMI_DRAW(d->s, "<path class=\"ax\" d=\"M~ ~H~\"/>", LEFT, y, d->right);
        LMI_DRAW(d->s, "<text class=\"s d r\" x=\"~\" y=\"~\">", LEFT - 8, y + 4);
        lmi_put_power(&d->s->body, e);
        lmi_svg_put(d->s, "</text>");
    }
    LMI_DRAW(d->s, "<text class=\"s d c\" x=\"~\" y=\"~\">arithmetic intensity, FLOP a byte</text>",
             (LEFT + d->right) / 2, d->h - 6);
    lmi_svg_put(d->s, "<text class=\"s d\" x=\"4\" y=\"12\">FLOP/s</text>");
}

/* Draws the zone below a tenth of each roof. */
static void draw_zone(chart *d) {
    const lam_peak *roof = &d->o->roof;
    double ridge = roof->flops / roof->bytes, tenth = y_of(d, roof->flops * .1);
    LMI_DRAW(d->s, "<path class=\"zone\" d=\"M~ ~L~ ~H~V~H~Z\"/>", LEFT,
             fmin(d->below, y_of(d, roof->bytes * pow(10, d->x0) * .1)), x_of(d, ridge), tenth, d->right,
             d->below, LEFT);
    LMI_DRAW(d->s, "<text class=\"s d r\" x=\"~\" y=\"~\">", d->right - 8, tenth + 16);
    lmi_svg_put(d->s, d->w < NARROW ? "overhead</text>" : "below a tenth of both roofs: overhead</text>");
}

static void draw_roofs(chart *d) {
    const lam_peak *roof = &d->o->roof;
    const bool narrow = d->w < NARROW;
    double ridge = roof->flops / roof->bytes, x = x_of(d, ridge), y = y_of(d, roof->flops);
    double start = fmin(roof->flops, roof->bytes * pow(10, d->x0));
    LMI_DRAW(d->s, "<path class=\"roof\" d=\"M~ ~L~ ~H~\"/>", LEFT, y_of(d, start), x, y, d->right);
    LMI_DRAW(d->s, "<text class=\"s b\" x=\"~\" y=\"~\">", x + 8, y - 7);
    lmi_svg_put(d->s, narrow ? "" : "compute roof ");
    lmi_put_si(&d->s->body, roof->flops);
    LMI_DRAW(d->s, "FLOP/s</text><text class=\"s b r\" x=\"~\" y=\"~\">", x - 14, y - 7);
    lmi_svg_put(d->s, narrow ? "" : "memory roof ");
    lmi_put_iec(&d->s->body, roof->bytes);
    LMI_DRAW(d->s, "/s</text><path class=\"ax2\" d=\"M~ ~V~\" stroke-dasharray=\"2 4\"/>", x, y, d->below);
    LMI_DRAW(d->s, "<text class=\"s d\" x=\"~\" y=\"~\">ridge ", x + 5, d->below - 6);
    lmi_put_digits(&d->s->body, ridge);
    lmi_svg_put(d->s, " FLOP/byte</text>");
}

static double radius_of(const chart *d, const circle *c) {
    return fmax(3, sqrt((double)c->speed.ns / d->now.sum) * 46);
}

/* Writes the end of a circle's title: "1.20 ms, 34.0 GFLOP/s, 5.12 FLOP/byte, memory, 45 %". */
static void end_title(chart *d, const lam_speed *s) {
    lmi_buf *b = &d->s->body;
    lmi_put_ns(b, (double)s->ns);
    lmi_put(b, ", ");
    lmi_put_si(b, s->flops);
    lmi_put(b, "FLOP/s, ");
    lmi_put_digits(b, s->intensity);
    lmi_putf(b, " FLOP/byte, %s, ", lmi_speed_bound(s));
    lmi_put_share(b, s->share, 1);
    lmi_put(b, "</title></circle>");
}

static void draw_circle(chart *d, const circle *c) {
    lmi_svg_begin_place(d->s, c->place);
    lmi_svg_put(d->s, "<circle class=\"o f-");
    lmi_svg_put(d->s, lmi_family_class[d->o->at[c->place].family]);
    LMI_DRAW(d->s, "\" fill-opacity=\".75\" cx=\"~\" cy=\"~\" r=\"~\">", x_of(d, c->speed.intensity),
             y_of(d, c->speed.flops), radius_of(d, c));
    lmi_svg_title(d->s, d->o, c->place);
    end_title(d, &c->speed);
    lmi_svg_end_place(d->s);
}

static const circle *circle_after(const chart *d, int32_t place) {
    for (int32_t i = 0; i < d->now.n; i++)
        if (d->now.at[i].place == place) return &d->now.at[i];
    return NULL;
}

static void draw_circle_before(chart *d, const circle *was) {
    const circle *now = circle_after(d, was->place);
    double x = x_of(d, was->speed.intensity), y = y_of(d, was->speed.flops);
    double to = now ? x_of(d, now->speed.intensity) : 0, down = now ? y_of(d, now->speed.flops) : 0;
    bool long_ = (double)was->speed.ns >= LEAST_SHARE * d->was.sum ||
                 (now && (double)now->speed.ns >= LEAST_SHARE * d->now.sum);
    if (!long_ || (now && hypot(x - to, y - down) < LEAST_MOVE)) return;
    lmi_svg_begin_place(d->s, was->place);
    if (now) LMI_DRAW(d->s, "<path class=\"was\" d=\"M~ ~L~ ~\"/>", x, y, to, down);
    LMI_DRAW(d->s, "<circle class=\"was\" pointer-events=\"all\" cx=\"~\" cy=\"~\" r=\"3.5\">", x, y);
    lmi_svg_title(d->s, d->o, was->place);
    lmi_svg_put(d->s, "before: ");
    end_title(d, &was->speed);
    lmi_svg_end_place(d->s);
}

/* Labels the longest circles that have room beside, above or below them. */
static void draw_labels(chart *d, lmi_room *room) {
    lmi_buf path;
    lmi_buf_init(&path);
    for (int32_t i = 0, left = d->w < NARROW ? 3 : 9; i < d->now.n && left > 0; i++) {
        const circle *c = &d->now.at[i];
        double r = radius_of(d, c), x = x_of(d, c->speed.intensity), y = y_of(d, c->speed.flops);
        const lmi_label corner[] = {{r + 4, 4, 's'}, {-r - 4, 4, 'e'}, {0, -r - 5, 'm'}, {0, r + 13, 'm'}};
        lmi_buf_clear(&path);
        lmi_outline_label(d->o, c->place, &path);
        int32_t wide = lmi_name_width(lmi_buf_text(&path));
        int32_t at = lmi_room_find(room, x, y, (wide < 26 ? wide : 26) * LMI_COLUMN, corner, 4);
        if (at < 0) continue;
        lmi_svg_label(d->s, "s m halo", x, y, &corner[at], lmi_buf_text(&path), 26);
        left--;
    }
    lmi_buf_used(&path, &d->s->body);
}

static void draw_circles(chart *d) {
    const int32_t most = d->s->alone ? IN_FILE : IN_PAGE, n = d->now.n < most ? d->now.n : most;
    lmi_room room = {.inside = {LEFT, TOP, d->right - LEFT, d->below - TOP}};
    double ridge = x_of(d, d->o->roof.flops / d->o->roof.bytes), roof = y_of(d, d->o->roof.flops);
    lmi_vec_init(&room.taken, sizeof(lmi_rect));
    lmi_room_take(&room, (lmi_rect){ridge - 170, roof - 20, 360, 15});
    const double tenth = y_of(d, d->o->roof.flops * .1); /* the zone's text is below it */
    lmi_room_take(&room, (lmi_rect){d->right - 220, tenth + 5, 212, LABEL});
    for (int32_t i = 0; i < d->was.n && i < most; i++) draw_circle_before(d, &d->was.at[i]);
    for (int32_t i = 0; i < n; i++) {
        const circle *c = &d->now.at[i];
        double r = radius_of(d, c);
        draw_circle(d, c);
        if (i < IN_THE_WAY)
            lmi_room_take(&room, (lmi_rect){x_of(d, c->speed.intensity) - r, y_of(d, c->speed.flops) - r,
                                            2 * r, 2 * r});
    }
    draw_labels(d, &room);
    d->s->body.bad = d->s->body.bad || room.bad;
    lmi_vec_free(&room.taken);
    if (n == d->now.n) return;
    LMI_DRAW(d->s, "<text class=\"s d r\" x=\"~\" y=\"12\">", d->right);
    lmi_putf(&d->s->body, "the %d longest of %d</text>", (int)n, (int)d->now.n);
}

static void draw_chart(chart *d, lmi_buf *out, const lmi_picture_options *p) {
    lmi_svg s;
    lmi_svg_start(&s, out, p->alone,
                  "Roofline: each circle is a module's own forward work, as large as its time");
    d->s = &s;
    d->w = lmi_svg_width(p);
    d->h = d->w < NARROW ? 340 : 420;
    d->right = d->w - 16;
    d->below = d->h - 40;
    find_axes(d);
    draw_zone(d);
    draw_axes(d);
    draw_roofs(d);
    draw_circles(d);
    lmi_svg_end(&s, (lmi_rect){0, 0, d->w, d->h}, false);
    d->s = NULL;
}

void lmi_picture_roofline(lmi_buf *out, const lmi_outline *o, const lmi_picture_options *p) {
    chart d = {.o = o};
    if (!find_circles(o, false, &d.now) || !find_circles(o, true, &d.was))
        out->bad = true;
    else if (d.now.n > 0)
        draw_chart(&d, out, p);
    else
        lmi_svg_nothing(
            out, p, "Roofline",
            "Of no module time, FLOPs and bytes are known, or the limits of the machine are not.");
    free(d.now.at);
    free(d.was.at);
}
