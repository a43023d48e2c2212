/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps over time: the time of a step by its phases, and its peak of memory. */
#include "report/runs/runs.h"

#include <math.h>
#include <stdlib.h>

enum { LEFT = 66, TOP = 26, BELOW = 220, HEIGHT = 246, RIGHT = 10, EDGE = 4 };

typedef struct chart {
    lmi_svg s;
    const lmi_series *of;
    lmi_scale grid;
    double first, last; /* numbers of steps */
} chart;

static int64_t whole_of(const lam_recorded_step *s) { return s->step_ns; }
static int64_t forward_of(const lam_recorded_step *s) { return s->forward_ns; }
static int64_t bytes_of(const lam_recorded_step *s) { return s->peak_bytes; }
static int64_t both_of(const lam_recorded_step *s) {
    if (s->backward_ns < 0 || s->forward_ns < 0) return -1;
    return (int64_t)((uint64_t)s->forward_ns + (uint64_t)s->backward_ns);
}

typedef int64_t (*value)(const lam_recorded_step *s);

static double x_of(const chart *c, double number) {
    double part = c->last > c->first ? (number - c->first) / (c->last - c->first) : .5;
    return LEFT + (c->grid.right - LEFT) * fmin(fmax(part, 0), 1);
}

static double y_of(const chart *c, double v) { return fmax(lmi_scale_y(&c->grid, v), TOP); }

/* Makes the chart as high as all points but the highest twentieth, and half as much again: with a few slow
 * steps in full, all others would look like nothing. */
static void note_most(chart *c, value of) {
    int64_t seen[LMI_RUNS_POINTS];
    size_t n = 0;
    for (int32_t i = 0; i < c->of->n; i++)
        if (of(&c->of->at[i]) >= 0) seen[n++] = of(&c->of->at[i]);
    if (!n) return;
    qsort(seen, n, sizeof *seen, lmi_by_size);
    c->grid.most =
        fmax(c->grid.most, fmin((double)seen[n - 1] * 1.05, (double)seen[(n - 1) * 19 / 20] * 1.5));
}

/* Lines at 1, 2 or 5 times a power of ten, or at round numbers of bytes. */
static void choose_lines(chart *c, bool bytes) {
    double least = fmax(c->grid.most, 4) / 4;
    c->grid.bytes = bytes;
    c->grid.step = bytes ? lmi_byte_step(least) : lmi_time_step(least);
    c->grid.most = c->grid.step * ceil(fmax(c->grid.most, 1) / c->grid.step);
}

/* Unknown values have no point; a single point is as wide as can be seen. */
static void draw_area(chart *c, value of, const char *classes) {
    double first = -1, x = 0, y = 0;
    for (int32_t i = 0; i < c->of->n; i++) {
        int64_t v = of(&c->of->at[i]);
        if (v < 0) continue;
        x = x_of(c, (double)c->of->at[i].number), y = y_of(c, (double)v);
        if (first < 0) {
            first = x;
            lmi_svg_put(&c->s, "<path class=\"");
            lmi_svg_put(&c->s, classes);
            LMI_DRAW(&c->s, "\" d=\"M~ ~L~ ~", x, BELOW, x, y);
        } else
            LMI_DRAW(&c->s, " ~ ~", x, y);
    }
    if (first < 0) return;
    if (x - first < EDGE) LMI_DRAW(&c->s, " ~ ~", x += EDGE, y);
    LMI_DRAW(&c->s, " ~ ~Z\"/>", x, BELOW);
}

static void draw_grid(chart *c, bool bytes) {
    choose_lines(c, bytes);
    lmi_svg_grid(&c->s, &c->grid);
    LMI_DRAW(&c->s, "<text class=\"s d\" x=\"~\" y=\"~\">step ", LEFT, BELOW + 18);
    lmi_put_full(&c->s.body, (int64_t)c->first);
    LMI_DRAW(&c->s, "</text><text class=\"s d r\" x=\"~\" y=\"~\">step ", c->grid.right, BELOW + 18);
    lmi_put_full(&c->s.body, (int64_t)c->last);
    lmi_svg_put(&c->s, "</text>");
}

static void draw_bad(chart *c, const lam_recorded_model *m) {
    if (m->nonfinite <= 0) return;
    double x = x_of(c, (double)m->first_bad_step);
    bool left = x > (LEFT + c->grid.right) / 2;
    LMI_DRAW(&c->s, "<path class=\"pk\" d=\"M~ ~V~\"/>", x, TOP - 10, BELOW);
    lmi_svg_put(&c->s, left ? "<text class=\"b halo r\"" : "<text class=\"b halo\"");
    LMI_DRAW(&c->s, " x=\"~\" y=\"~\">first NaN or Inf: step ", x + (left ? -6 : 6), TOP - 6);
    lmi_put_full(&c->s.body, m->first_bad_step);
    lmi_svg_put(&c->s, "</text>");
}

static void start(chart *c, lmi_runs *p, const char *label) {
    const lmi_series *of = &p->series;
    *c = (chart){.of = of,
                 .grid = {.left = LEFT, .right = LMI_PAGE_PICTURE - RIGHT, .below = BELOW, .top = TOP}};
    c->first = (double)of->at[0].number;
    c->last = (double)of->at[of->n - 1].number;
    lmi_svg_start(&c->s, &p->w.out, false, label);
}

/* A mark at the top for each point that is cut off. */
static void draw_above(chart *c, value of) {
    bool any = false;
    for (int32_t i = 0; i < c->of->n; i++) {
        double x = x_of(c, (double)c->of->at[i].number);
        if ((double)of(&c->of->at[i]) <= c->grid.most) continue;
        if (!any) lmi_svg_put(&c->s, "<path class=\"bd\" d=\"");
        LMI_DRAW(&c->s, "M~ ~h6l-3-6z", x - 3, TOP);
        any = true;
    }
    if (any) lmi_svg_put(&c->s, "\"/>");
}

/* Says how many points are cut off. */
static void put_above(const chart *c, value of, lmi_buf *to) {
    int32_t n = 0;
    int64_t most = 0;
    for (int32_t i = 0; i < c->of->n; i++) {
        int64_t v = of(&c->of->at[i]);
        n += (double)v > c->grid.most;
        if (v > most) most = v;
    }
    if (!n) return;
    lmi_putf(to, n == 1 ? "<p class=\"crumb\">%d point is" : "<p class=\"crumb\">%d points are", (int)n);
    lmi_put(to, " cut off above, marked at the top, the highest at ");
    if (c->grid.bytes)
        lmi_put_iec(to, (double)most);
    else
        lmi_put_ns(to, (double)most);
    lmi_put(to, ".</p>");
}

static void draw_times(lmi_runs *p, const lam_recorded_model *m, lmi_buf *above) {
    chart c;
    start(&c, p, "Time of steps, by phase");
    note_most(&c, whole_of);
    note_most(&c, both_of);
    note_most(&c, forward_of);
    draw_grid(&c, false);
    draw_area(&c, whole_of, "k8");
    draw_area(&c, both_of, "k1");
    draw_area(&c, forward_of, "k0");
    draw_above(&c, lmi_series_time);
    draw_bad(&c, m);
    put_above(&c, lmi_series_time, above);
    lmi_svg_end(&c.s, (lmi_rect){0, 0, LMI_PAGE_PICTURE, HEIGHT}, false);
}

static void draw_memory(lmi_runs *p, const lam_recorded_model *m, lmi_buf *above) {
    chart c;
    start(&c, p, "Peak of memory of steps");
    note_most(&c, bytes_of);
    draw_grid(&c, true);
    draw_area(&c, bytes_of, "area");
    draw_above(&c, bytes_of);
    draw_bad(&c, m);
    put_above(&c, bytes_of, above);
    lmi_svg_end(&c.s, (lmi_rect){0, 0, LMI_PAGE_PICTURE, HEIGHT}, false);
}

static void put_ns_cell(lmi_runs *p, int64_t ns) {
    lmi_put(&p->w.out, "<td>");
    lmi_put_ns(&p->w.out, (double)ns);
    lmi_put(&p->w.out, "</td>");
}

static void put_table(lmi_runs *p, int32_t model, bool memory) {
    lmi_buf *b = &p->w.out;
    lmi_put(b, "<details><summary>As a table</summary>");
    lmi_runs_scroll(p, "Table of steps", model);
    lmi_put(b,
            "<table><thead><tr><th scope=\"col\"><span>step</span></th><th scope=\"col\"><span>whole</span>"
            "</th><th scope=\"col\"><span>forward</span></th><th scope=\"col\"><span>backward</span></th>");
    if (memory) lmi_put(b, "<th scope=\"col\"><span>peak memory</span></th>");
    lmi_put(b, "</tr></thead><tbody>");
    for (int32_t i = 0; i < p->series.n; i++) {
        const lam_recorded_step *s = &p->series.at[i];
        lmi_put(b, "<tr><th scope=\"row\">");
        lmi_put_full(b, s->number);
        lmi_put(b, "</th>");
        put_ns_cell(p, s->step_ns);
        put_ns_cell(p, s->forward_ns);
        put_ns_cell(p, s->backward_ns);
        if (memory) {
            lmi_put(b, "<td>");
            lmi_put_iec(b, (double)s->peak_bytes);
            lmi_put(b, "</td>");
        }
        lmi_put(b, "</tr>\n");
    }
    lmi_put(b, "</tbody></table>");
    lmi_runs_scroll_end(p);
    lmi_put(b, "</details>");
}

/* Moves the text about a picture below it. */
static void move_text(lmi_buf *b, lmi_buf *from) {
    lmi_put(b, lmi_buf_text(from));
    lmi_buf_used(from, b);
}

void lmi_runs_steps(lmi_runs *p, int32_t model) {
    const lam_recorded_model *m = lam_recording_model(p->w.all[0], model);
    lmi_buf *b = &p->w.out;
    if (p->series.all > p->series.n) {
        lmi_put(b, "<p class=\"crumb\">");
        lmi_put_full(b, p->series.all);
        lmi_putf(b, " steps in %d pieces: of each the step of median time, and its most memory.</p>",
                 (int)p->series.n);
    }
    lmi_put(b, "<div class=\"fig\">");
    lmi_buf above;
    lmi_buf_init(&above);
    draw_times(p, m, &above);
    lmi_put(b, "</div>");
    move_text(b, &above);
    lmi_put(b, "<div class=\"leg\"><span><i class=\"g0\"></i>forward</span>");
    if (m->backward_ns.n) lmi_put(b, "<span><i class=\"g1\"></i>backward</span>");
    if (m->step_ns.n) lmi_put(b, "<span><i class=\"g8\"></i>the rest until the next step</span>");
    lmi_put(b, "</div>");
    if (m->peak_bytes.n) {
        lmi_put(b, "<h3>Peak of memory</h3><div class=\"fig\">");
        draw_memory(p, m, &above);
        lmi_put(b, "</div>");
        move_text(b, &above);
    }
    put_table(p, model, m->peak_bytes.n > 0);
}
