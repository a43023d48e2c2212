/* SPDX-License-Identifier: Apache-2.0
 *
 * Who is late, over time: a row for each node, or for each rank where there are few, darker the later its
 * latest rank is. Of very many nodes a row is several. */
#include "report/runs/many.h"

#include <math.h>
#include <stdlib.h>

enum {
    LEFT = 120,
    RIGHT = 8,
    TOP = 4,
    BELOW = 22,
    MOST_RANKS = 64,
    MOST_ROWS = 1536,
    MOST_COLS = 96,
    TABLE_ROWS = 200,
    LABEL = 15,
    LABEL_HIGH = 12,
    UNKNOWN = -1
};
static const double levels[] = {0.02, 0.05, 0.1}; /* a share of the peers' own work */
static const char *const classes[] = {"k6", "k1", "bd"};

typedef struct heat {
    lmi_many *p;
    bool nodes; /* a row is of nodes, else of ranks */
    int32_t n_things, n_rows, n_cols;
    int32_t *thing; /* of each rank: the place of its node, or its own; UNKNOWN */
    int32_t *first; /* of each thing: a rank of it */
    int32_t *size;  /* its ranks */
    float *late;    /* [thing * n_cols + col]: the latest of its ranks; NaN */
} heat;

/* A thing for the table, the latest first. */
typedef struct latest {
    int32_t thing, hot, since; /* columns at the middle level or above, and the first of them */
    float most;
} latest;

static int32_t row_of(const heat *h, int32_t thing) {
    return (int32_t)((int64_t)thing * h->n_rows / h->n_things);
}

static int32_t col_of(const heat *h, int32_t win) {
    return (int32_t)((int64_t)win * h->n_cols / h->p->r->n_wins);
}

static void name_things(heat *h, int32_t *place) {
    const lam_ranks *r = h->p->r;
    for (int32_t i = 0; i < r->n_ranks; i++) {
        const int32_t node = r->ranks[i].node;
        h->thing[i] = UNKNOWN;
        if (h->nodes && node < 0) continue;
        if (h->nodes && place[node] < 0) place[node] = h->n_things++;
        h->thing[i] = h->nodes ? place[node] : h->n_things++;
        if (!h->size[h->thing[i]]++) h->first[h->thing[i]] = i;
    }
    h->n_rows = h->n_things < MOST_ROWS ? h->n_things : MOST_ROWS;
    h->n_cols = r->n_wins < MOST_COLS ? r->n_wins : MOST_COLS;
}

static void fill(heat *h) {
    const lam_ranks *r = h->p->r;
    for (size_t i = 0; i < (size_t)h->n_things * (size_t)h->n_cols; i++) h->late[i] = NAN;
    for (int32_t w = 0; w < r->n_wins; w++)
        for (int32_t i = 0; i < r->n_ranks; i++) {
            const float late = r->late[(size_t)w * (size_t)r->n_ranks + (size_t)i];
            if (h->thing[i] < 0 || isnan(late)) continue;
            float *at = &h->late[(size_t)h->thing[i] * (size_t)h->n_cols + (size_t)col_of(h, w)];
            if (!(*at >= late)) *at = late;
        }
}

static int level_of(float late) {
    int k = UNKNOWN;
    if (isnan(late)) return k;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (late >= levels[i]) k = (int)i;
    return k < 0 ? (int)(sizeof levels / sizeof *levels) : k; /* the last: below all levels */
}

/* -- the picture --------------------------------------------------------------------------------------- */

static double height_of(const heat *h) { return h->n_rows <= 64 ? 14 : h->n_rows <= 256 ? 8 : 4; }

/* The latest of a row's things in a column. */
static float late_at(const heat *h, int32_t row, int32_t col) {
    float most = NAN;
    for (int32_t t = (int32_t)(((int64_t)row * h->n_things + h->n_rows - 1) / h->n_rows);
         t < h->n_things && row_of(h, t) == row; t++) {
        const float v = h->late[(size_t)t * (size_t)h->n_cols + (size_t)col];
        if (!(most >= v) && !isnan(v)) most = v;
    }
    return most;
}

static void put_thing(const heat *h, lmi_buf *b, int32_t thing, int32_t columns) {
    const lmi_ranked_rank *of = &h->p->r->ranks[h->first[thing]];
    if (h->nodes) {
        lmi_put_name(b, lmi_ranks_node_name(h->p->r, of->node), columns);
        return;
    }
    lmi_putf(b, "rank %d", (int)of->rank);
    if (of->node < 0) return;
    lmi_put(b, " ");
    lmi_put_name(b, lmi_ranks_node_name(h->p->r, of->node), columns > 12 ? columns - 10 : 4);
}

/* Cells of one level beside each other are one rectangle, and all of a row one path. */
static bool draw_level(const heat *h, lmi_svg *s, int32_t row, int level, const char *class) {
    const double wide = (LMI_PAGE_PICTURE - LEFT - RIGHT) / (double)h->n_cols, high = height_of(h);
    const double gap = high > 6 ? 1 : 0.5;
    bool any = false;
    for (int32_t c = 0, end; c < h->n_cols; c = end) {
        end = c + 1;
        if (level_of(late_at(h, row, c)) != level) continue;
        while (end < h->n_cols && level_of(late_at(h, row, end)) == level) end++;
        if (!any) lmi_putf(&s->body, "<path class=\"%s\" d=\"", class);
        any = true;
        const double w = wide * (end - c);
        LMI_DRAW(s, "M~ ~h~v~h~z", LEFT + wide * c, TOP + high * row, w, high - gap, -w);
    }
    if (any) lmi_svg_put(s, "\"/>");
    return any;
}

static void draw_row(const heat *h, lmi_svg *s, int32_t row) {
    const int32_t each = (int32_t)ceil(LABEL_HIGH / height_of(h));
    const int32_t thing = (int32_t)(((int64_t)row * h->n_things + h->n_rows - 1) / h->n_rows);
    if (row % each == 0) {
        LMI_DRAW(s, "<text class=\"s r\" x=\"~\" y=\"~\">", LEFT - 8, TOP + height_of(h) * row + 10);
        put_thing(h, &s->body, thing, LABEL);
        lmi_svg_put(s, "</text>");
    }
    const size_t before = s->body.n;
    lmi_svg_put(s, "<g><title>");
    put_thing(h, &s->body, thing, LMI_PAGE_CELL);
    lmi_svg_put(s, "</title>");
    bool any = draw_level(h, s, row, UNKNOWN, "k8");
    for (int k = 0; k < (int)(sizeof levels / sizeof *levels); k++)
        any = draw_level(h, s, row, k, classes[k]) || any;
    lmi_svg_put(s, "</g>");
    if (!any && !s->body.bad) s->body.n = before;
}

static void draw(const heat *h) {
    const lam_ranks *r = h->p->r;
    const double high = height_of(h) * h->n_rows;
    lmi_svg s;
    lmi_svg_start(&s, h->p->b, false,
                  h->nodes ? "Nodes over time, by how late they are"
                           : "Ranks over time, by how late they are");
    LMI_DRAW(&s, "<rect class=\"f-rest\" x=\"~\" y=\"~\" width=\"~\" height=\"~\"/>", LEFT, TOP,
             LMI_PAGE_PICTURE - LEFT - RIGHT, high);
    for (int32_t row = 0; row < h->n_rows; row++) draw_row(h, &s, row);
    LMI_DRAW(&s, "<text class=\"s d\" x=\"~\" y=\"~\">", LEFT, TOP + high + 14);
    lmi_put_moment(&s.body, r->wins[0].started);
    lmi_svg_put(&s, ", step ");
    lmi_put_full(&s.body, r->wins[0].first_step);
    LMI_DRAW(&s, "</text><text class=\"s d r\" x=\"~\" y=\"~\">", LMI_PAGE_PICTURE - RIGHT, TOP + high + 14);
    lmi_put_moment(&s.body, r->wins[r->n_wins - 1].started);
    lmi_svg_put(&s, ", step ");
    lmi_put_full(&s.body, r->wins[r->n_wins - 1].first_step);
    lmi_svg_put(&s, "</text>");
    lmi_svg_end(&s, (lmi_rect){0, 0, LMI_PAGE_PICTURE, TOP + high + BELOW}, false);
}

static void put_legend(const heat *h) {
    lmi_put(
        h->p->b,
        "<div class=\"leg\"><span><i class=\"g9\"></i>less than 2 % late</span><span><i class=\"g6\"></i>2 "
        "to "
        "5 %</span><span><i class=\"g1\"></i>5 to 10 %</span><span><i class=\"gb\"></i>10 % and more</span>"
        "<span><i class=\"g8\"></i>unknown</span></div>");
    lmi_putf(h->p->b, "<p class=\"crumb\">A row is %s%s; a cell is %s.</p>",
             h->n_rows < h->n_things ? "some nodes, in the order of their ranks"
             : h->nodes              ? "a node"
                                     : "a rank",
             h->nodes ? ", by its latest rank" : "",
             h->n_cols < h->p->r->n_wins ? "some windows, by the latest" : "a window of recorded steps");
}

/* -- the table ----------------------------------------------------------------------------------------- */

static int by_late(const void *a, const void *b) {
    const latest *x = a, *y = b;
    if (x->most != y->most) return x->most > y->most ? -1 : 1;
    return x->thing - y->thing;
}

static lam_status put_table(const heat *h) {
    lmi_many *p = h->p;
    latest *all = calloc((size_t)h->n_things + 1, sizeof *all);
    if (!all) return lmi_nomem(p->e);
    for (int32_t t = 0; t < h->n_things; t++) {
        all[t] = (latest){t, 0, -1, -INFINITY};
        for (int32_t c = 0; c < h->n_cols; c++) {
            const float v = h->late[(size_t)t * (size_t)h->n_cols + (size_t)c];
            if (v > all[t].most) all[t].most = v;
            if (!(v >= levels[1])) continue;
            all[t].hot++;
            if (all[t].since < 0) all[t].since = c;
        }
    }
    qsort(all, (size_t)h->n_things, sizeof *all, by_late);
    lmi_many_table(p, "Table of who is late", true);
    lmi_many_head(p, h->nodes ? "node" : "rank", LMI_N_ORIGINS);
    lmi_many_head(p, "ranks", LMI_FROM_RANKS);
    lmi_many_head(p, "most late", LMI_FROM_NODES);
    lmi_many_head(p, "cells at 5 % or more", LMI_FROM_NODES);
    lmi_many_head(p, "first at step", LMI_FROM_NODES);
    lmi_put(p->b, "</tr></thead><tbody>");
    for (int32_t i = 0; i < h->n_things && i < TABLE_ROWS; i++) {
        int32_t w = 0;
        lmi_put(p->b, "<tr><th scope=\"row\"><bdi>");
        put_thing(h, p->b, all[i].thing, LMI_PAGE_CELL);
        lmi_putf(p->b, "</bdi></th><td>%d</td><td>", (int)h->size[all[i].thing]);
        if (isinf(all[i].most))
            lmi_putc(p->b, '?');
        else {
            lmi_put_fixed(p->b, 100 * (double)all[i].most, 1);
            lmi_put(p->b, LMI_NARROW "%");
        }
        lmi_putf(p->b, "</td><td>%d</td><td>", (int)all[i].hot);
        while (all[i].since >= 0 && col_of(h, w) < all[i].since) w++;
        if (all[i].since >= 0) lmi_put_full(p->b, p->r->wins[w].first_step);
        lmi_put(p->b, "</td></tr>\n");
    }
    lmi_put(p->b, "</tbody></table>");
    if (h->n_things > TABLE_ROWS)
        lmi_putf(p->b, "<p class=\"more\">and %d that are less late</p>", (int)(h->n_things - TABLE_ROWS));
    lmi_put(p->b, "</div></details>");
    free(all);
    return LAM_OK;
}

lam_status lmi_many_heat(lmi_many *p) {
    const lam_ranks *r = p->r;
    lmi_arena room;
    heat h = {.p = p, .nodes = r->n_nodes > 1 && r->n_ranks > MOST_RANKS};
    if (!r->n_wins) return LAM_OK;
    lmi_arena_init(&room, UINT64_MAX);
    int32_t *place = lmi_alloc_none(&room, (int32_t)r->nodes.n);
    h.thing = lmi_alloc(&room, (uint64_t)r->n_ranks, sizeof *h.thing);
    h.first = lmi_alloc(&room, (uint64_t)r->n_ranks, sizeof *h.first);
    h.size = lmi_alloc(&room, (uint64_t)r->n_ranks, sizeof *h.size);
    lam_status s = place && h.thing && h.first && h.size ? LAM_OK : lmi_nomem(p->e);
    if (s == LAM_OK) name_things(&h, place);
    if (s == LAM_OK) h.late = lmi_alloc(&room, (uint64_t)h.n_things * (uint64_t)h.n_cols, sizeof *h.late);
    if (s == LAM_OK && !h.late) s = lmi_nomem(p->e);
    if (s == LAM_OK && h.n_things) {
        fill(&h);
        lmi_putf(p->b, "<div class=\"fig%s\" tabindex=\"0\" role=\"group\" aria-label=\"Who is late\">",
                 height_of(&h) * h.n_rows > 700 ? " tall" : "");
        draw(&h);
        lmi_put(p->b, "</div>");
        put_legend(&h);
        s = put_table(&h);
    }
    lmi_arena_free(&room);
    return s;
}
