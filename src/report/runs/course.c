/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps of a run of many ranks over time: own work, until the last rank is there, and the transfer. */
#include "report/runs/many.h"

#include <math.h>

enum { LEFT = 66, TOP = 26, BELOW = 220, HEIGHT = 246, RIGHT = 10, MOST = 300, EDGE = 4 };

/* Some windows as one. */
typedef struct point {
    int32_t first, last; /* last: behind it */
    double own, late, transfer, step;
} point;

static double middle_of(const lam_ranks *r, const point *of, size_t at) {
    size_t n = 0;
    for (int32_t k = of->first; k < of->last; k++)
        r->room[n++] = *(const double *)(const void *)((const char *)&r->wins[k] + at);
    return lmi_middle(r->room, n);
}

static point point_of(const lam_ranks *r, int32_t k, int32_t n) {
    point of = {
        (int32_t)((int64_t)k * r->n_wins / n), (int32_t)((int64_t)(k + 1) * r->n_wins / n), 0, 0, 0, 0};
    of.own = middle_of(r, &of, offsetof(lmi_win, own));
    of.late = middle_of(r, &of, offsetof(lmi_win, late));
    of.transfer = middle_of(r, &of, offsetof(lmi_win, transfer));
    of.step = middle_of(r, &of, offsetof(lmi_win, step));
    return of;
}

/* The top of the k-th area: 0 own work, 1 with the waiting for the last, 2 with the transfer, 3 a step. */
static double top_of(const point *of, int k) {
    if (k == 3) return of->step;
    return of->own + (k > 0 ? of->late : 0) + (k > 1 ? of->transfer : 0);
}

static void draw_area(lmi_svg *s, const lam_ranks *r, int32_t n, const lmi_scale *grid, int k,
                      const char *classes) {
    double first = -1, x = 0, y = 0;
    for (int32_t i = 0; i < n; i++) {
        const point of = point_of(r, i, n);
        const double us = top_of(&of, k);
        if (isnan(us)) continue;
        x = grid->left + (grid->right - grid->left) * (n > 1 ? i / (double)(n - 1) : .5);
        y = lmi_scale_y(grid, us * 1000);
        if (first < 0) {
            first = x;
            lmi_putf(&s->body, "<path class=\"%s\" d=\"", classes);
            LMI_DRAW(s, "M~ ~L~ ~", x, BELOW, x, y);
        } else
            LMI_DRAW(s, " ~ ~", x, y);
    }
    if (first < 0) return;
    if (x - first < EDGE) LMI_DRAW(s, " ~ ~", x += EDGE, y);
    LMI_DRAW(s, " ~ ~Z\"/>", x, BELOW);
}

static void draw_since(lmi_svg *s, const lam_ranks *r, int32_t n, const lmi_scale *grid) {
    if (!r->period.n || r->period.first < 1 || r->n_wins < 2) return;
    const double at = (double)r->period.first / (double)(r->n_wins - 1);
    const double x = grid->left + (grid->right - grid->left) * fmin(at, 1);
    const bool left = at > .5;
    (void)n;
    LMI_DRAW(s, "<path class=\"pk\" d=\"M~ ~V~\"/>", x, TOP - 10, BELOW);
    lmi_svg_put(s, left ? "<text class=\"b halo r\"" : "<text class=\"b halo\"");
    LMI_DRAW(s, " x=\"~\" y=\"~\">since step ", x + (left ? -6 : 6), TOP - 6);
    lmi_put_full(&s->body, r->verdict.since_step == LAM_NOT_KNOWN ? r->wins[r->period.first].first_step
                                                                  : r->verdict.since_step);
    lmi_svg_put(s, "</text>");
}

static void draw(lmi_many *p, int32_t n, bool parts) {
    const lam_ranks *r = p->r;
    lmi_scale grid = {.left = LEFT, .right = LMI_PAGE_PICTURE - RIGHT, .below = BELOW, .top = TOP, .most = 1};
    lmi_svg s;
    for (int32_t i = 0; i < n; i++) {
        const point of = point_of(r, i, n);
        for (int k = 0; k < 4; k++) grid.most = fmax(grid.most, fmax(top_of(&of, k), 0) * 1000);
    }
    grid.step = lmi_time_step(fmax(grid.most, 4) / 4);
    grid.most = grid.step * ceil(grid.most / grid.step);
    lmi_svg_start(&s, p->b, false, "Steps over time, by what they consist of");
    lmi_svg_grid(&s, &grid);
    draw_area(&s, r, n, &grid, 3, "k8");
    if (parts) {
        draw_area(&s, r, n, &grid, 2, "k3");
        draw_area(&s, r, n, &grid, 1, "k1");
        draw_area(&s, r, n, &grid, 0, "k0");
    }
    LMI_DRAW(&s, "<text class=\"s d\" x=\"~\" y=\"~\">step ", LEFT, BELOW + 18);
    lmi_put_full(&s.body, r->wins[0].first_step);
    LMI_DRAW(&s, "</text><text class=\"s d r\" x=\"~\" y=\"~\">step ", grid.right, BELOW + 18);
    lmi_put_full(&s.body, r->wins[r->n_wins - 1].first_step);
    lmi_svg_put(&s, "</text>");
    draw_since(&s, r, n, &grid);
    lmi_svg_end(&s, (lmi_rect){0, 0, LMI_PAGE_PICTURE, HEIGHT}, false);
}

static void put_table(lmi_many *p, int32_t n) {
    static const char *const heads[] = {"step", "own", "late", "transfer"};
    lmi_many_table(p, "Table of windows", true);
    lmi_many_head(p, "when", LMI_N_ORIGINS);
    lmi_many_head(p, "from step", LMI_FROM_WINDOWS);
    for (int k = 0; k < 4; k++) lmi_many_head(p, heads[k], LMI_FROM_STEPS);
    lmi_put(p->b, "</tr></thead><tbody>");
    for (int32_t i = 0; i < n; i++) {
        const point of = point_of(p->r, i, n);
        lmi_put(p->b, "<tr><th scope=\"row\">");
        lmi_put_moment(p->b, p->r->wins[of.first].started);
        lmi_put(p->b, "</th><td>");
        lmi_put_full(p->b, p->r->wins[of.first].first_step);
        lmi_put(p->b, "</td>");
        lmi_many_us(p, of.step);
        lmi_many_us(p, of.own);
        lmi_many_us(p, of.late);
        lmi_many_us(p, of.transfer);
        lmi_put(p->b, "</tr>\n");
    }
    lmi_many_table_end(p, true);
}

void lmi_many_course(lmi_many *p) {
    const int32_t n = p->r->n_wins < MOST ? p->r->n_wins : MOST;
    bool parts = false;
    for (int32_t i = 0; i < p->r->n_wins; i++) parts = parts || !isnan(p->r->wins[i].own);
    lmi_put(p->b, "<div class=\"fig\">");
    draw(p, n, parts);
    lmi_put(p->b, "</div><div class=\"leg\">");
    if (parts)
        lmi_put(
            p->b,
            "<span><i class=\"g0\"></i>own work, the mean of all</span><span><i class=\"g1\"></i>until the "
            "last rank is there</span><span><i class=\"g3\"></i>transfer</span>");
    lmi_put(p->b, "<span><i class=\"g8\"></i>the rest of the longest step</span></div>");
    put_table(p, n);
}
