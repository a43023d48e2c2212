/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph of the top level: a box for each module, with the number that is shown, a pill for operators. */
#include "report/picture/svg.h"

#include <math.h>

enum { MARGIN = 16, MOST_TITLES = 40 };

typedef struct graph {
    lmi_svg *s;
    const lmi_outline *o;
    const lmi_picture_options *p;
    const lmi_level *l;
    double dx;   /* from the drawing's x to the picture's */
    bool titles; /* in a page a large graph has none; its script adds them */
} graph;

static lmi_rect box_of(const graph *d, int32_t i) {
    const lmi_box_size *size = &d->l->size[i];
    return (lmi_rect){d->l->at.x[i] - size->w / 2. + d->dx, d->l->at.y[i] + MARGIN, size->w, size->h};
}

/* -- lines --------------------------------------------------------------------------------------------- */

typedef struct end {
    double x, top, bottom; /* of a node, or of the rank that a line passes through */
    int32_t rank;
    bool node;
} end;

static end end_of(const graph *d, int32_t i) {
    const lmi_drawing *at = &d->l->at;
    if (i < at->n) {
        lmi_rect r = box_of(d, i);
        return (end){r.x + r.w / 2, r.y, r.y + r.h, at->rank[i], true};
    }
    const lmi_waypoint *w = &at->waypoint[i - at->n];
    return (end){w->x + d->dx, at->top[w->rank] + MARGIN, at->bottom[w->rank] + MARGIN, w->rank, false};
}

/* A line goes straight down to the end of its rank, as a curve through the gap, and straight down to the
 * node. A waypoint's own rank is crossed by the line that leaves it. */
static void draw_line(const graph *d, const lmi_line_ends *line) {
    end a = end_of(d, line->from), z = end_of(d, line->to);
    double from = d->l->at.bottom[a.rank] + MARGIN, to = d->l->at.top[z.rank] + MARGIN, mid = (from + to) / 2;
    LMI_DRAW(d->s, "M~ ~", a.x, a.node ? a.bottom : a.top);
    if (fabs(a.x - z.x) < .6) {
        LMI_DRAW(d->s, "V~", z.node ? z.top - 1 : to);
        return;
    }
    LMI_DRAW(d->s, "V~C~ ~ ~ ~ ~ ~", from, a.x, mid, z.x, mid, z.x, to);
    if (z.node) LMI_DRAW(d->s, "V~", z.top - 1);
}

static void draw_lines(const graph *d) {
    const lmi_drawing *at = &d->l->at;
    if (at->n_segments == 0) return;
    lmi_svg_put(d->s, "<path class=\"ed\" d=\"");
    for (int32_t i = 0; i < at->n_segments; i++) draw_line(d, &at->segment[i]);
    lmi_svg_put(d->s, "\"/><path class=\"hd2\" d=\"");
    for (int32_t i = 0; i < at->n_segments; i++) {
        end z = end_of(d, at->segment[i].to);
        if (z.node) LMI_DRAW(d->s, "M~ ~h7l-3.5 6z", z.x - 3.5, z.top - 6);
    }
    lmi_svg_put(d->s, "\"/>");
}

/* -- nodes --------------------------------------------------------------------------------------------- */

/* Writes the number that is shown, of an operator's work, if it is known and not 0. */
static void put_work(const graph *d, const lmi_level_node *node) {
    const lam_count *c = d->p->by == LMI_FIGURE_MACS    ? &node->macs
                         : d->p->by == LMI_FIGURE_FLOPS ? &node->flops
                         : d->p->by == LMI_FIGURE_MOVED ? &node->bytes
                                                        : NULL;
    if (!c || c->state == LAM_UNKNOWN || lmi_count_double(*c) <= 0) return;
    lmi_put(&d->s->body, *node->note ? ": " : "");
    if (c->state == LAM_AT_LEAST) lmi_put(&d->s->body, "\u2265" LMI_NARROW);
    lmi_put_shown(&d->s->body, d->p->by, lmi_count_double(*c));
    lmi_putf(&d->s->body, " %s", lmi_part_title(d->p->by));
}

/* Draws operators, or an input or output of the level. */
static void draw_pill(const graph *d, const lmi_level_node *node, lmi_rect r) {
    bool is_end = node->look == LMI_NODE_END;
    int32_t room = is_end ? 24 : (int32_t)((r.w - 14) / LMI_COLUMN);
    lmi_svg_put(d->s, is_end ? "<rect class=\"f-rest\"" : "<rect class=\"f-pool thin\"");
    LMI_DRAW(d->s, " x=\"~\" y=\"~\" width=\"~\" height=\"~\" rx=\"~\">", r.x, r.y, r.w, r.h,
             is_end ? 10 : 12);
    if (d->titles && (*node->note || !is_end)) {
        lmi_svg_put(d->s, "<title>");
        lmi_put_name(&d->s->body, node->note, 300);
        if (!is_end) put_work(d, node);
        lmi_svg_put(d->s, "</title>");
    }
    lmi_svg_put(d->s, is_end ? "</rect><text class=\"s c\"" : "</rect><text class=\"m c\"");
    LMI_DRAW(d->s, " x=\"~\" y=\"~\">", r.x + r.w / 2, r.y + (is_end ? 14 : 16));
    lmi_put_name(&d->s->body, node->label, room);
    lmi_svg_put(d->s, "</text>");
}

/* Writes the name, and as much of the type as fits beside it. */
static void put_names(const graph *d, const lmi_level_node *node, lmi_rect r) {
    const lmi_outline_place *at = &d->o->at[node->place];
    bool opens = !d->s->alone && at->level >= 0; /* the script draws a button beside it */
    int32_t room = (int32_t)((r.w - (opens ? 34 : 16)) / LMI_COLUMN), wide = lmi_name_width(node->label);
    if (room < 4) room = 4;
    LMI_DRAW(d->s, "<text x=\"~\" y=\"~\"><tspan class=\"m b\">", r.x + 9, r.y + 18);
    lmi_put_name(&d->s->body, node->label, room);
    lmi_svg_put(d->s, "</tspan>");
    if (room - wide - 1 > 3) {
        lmi_svg_put(d->s, " <tspan class=\"s d\">");
        lmi_put_name(&d->s->body, at->type, room - wide - 1);
        lmi_svg_put(d->s, "</tspan>");
    }
    lmi_svg_put(d->s, "</text>");
}

static void put_number(const graph *d, const lmi_level_node *node, lmi_rect r) {
    double v = (double)lmi_shown_total(d->o, d->p, node->place), all = (double)lmi_shown_total(d->o, d->p, 0);
    bool shown = v > 0 || lmi_shown_state(d->o, d->p, node->place) != LAM_EXACT;
    LMI_DRAW(d->s, "<text class=\"s\" x=\"~\" y=\"~\">", r.x + 9, r.y + 34);
    if (shown)
        lmi_put_shown_of(&d->s->body, d->o, d->p, node->place);
    else
        lmi_svg_put(d->s, "\u2013");
    lmi_svg_put(d->s, v > 0 || *node->note ? " <tspan class=\"d\">" : "</text>");
    if (v > 0) lmi_put_share(&d->s->body, v, all);
    if (*node->note) {
        lmi_svg_put(d->s, " \u00b7 call ");
        lmi_put_name(&d->s->body, node->note, 12);
    }
    if (v > 0 || *node->note) lmi_svg_put(d->s, "</tspan></text>");
    if (v > 0 && all > 0)
        LMI_DRAW(d->s, "<rect class=\"bar\" x=\"~\" y=\"~\" width=\"~\" height=\"3\" rx=\"1.5\"/>", r.x + 8,
                 r.y + r.h - 7, fmax(1, (r.w - 16) * fmin(1, v / all)));
}

static void draw_module(const graph *d, const lmi_level_node *node, lmi_rect r) {
    const lmi_outline_place *at = &d->o->at[node->place];
    bool gone = d->o->change && d->o->change[node->place] == LMI_REMOVED;
    lmi_svg_put(d->s, gone ? "<rect class=\"o removed f-" : "<rect class=\"o f-");
    lmi_svg_put(d->s, lmi_family_class[at->family]);
    LMI_DRAW(d->s, "\" x=\"~\" y=\"~\" width=\"~\" height=\"~\" rx=\"6\">", r.x, r.y, r.w, r.h);
    if (d->titles) {
        lmi_svg_title(d->s, d->o, node->place);
        lmi_put_shown_of(&d->s->body, d->o, d->p, node->place);
        lmi_putf(&d->s->body, " %s", lmi_part_title(d->p->by));
        if (*at->out) {
            lmi_svg_put(d->s, ", ");
            lmi_put_name(&d->s->body, at->out, 200);
        }
        lmi_svg_put(d->s, "</title>");
    }
    lmi_svg_put(d->s, "</rect>");
    put_names(d, node, r);
    put_number(d, node, r);
}

void lmi_picture_graph(lmi_buf *out, const lmi_outline *o, const lmi_picture_options *p) {
    const char *label = "Graph of the modules, inputs above, outputs below";
    int32_t level = o->n > 0 ? o->at[0].level : -1;
    if (level < 0 || level >= o->n_levels || o->level[level].n == 0 || !lmi_figures[p->by].at[LMI_DRAWN]) {
        lmi_svg_nothing(out, p, label, "There is no graph: no module of the top level ran in a watched run.");
        return;
    }
    lmi_svg s;
    const lmi_level *l = &o->level[level];
    const lmi_drawing *at = &l->at;
    graph d = {.s = &s, .o = o, .p = p, .l = l, .dx = MARGIN - at->left};
    d.titles = p->alone || l->n <= MOST_TITLES;
    lmi_svg_start(&s, out, p->alone, label);
    draw_lines(&d);
    for (int32_t i = 0; i < l->n; i++) {
        const lmi_level_node *node = &l->node[i];
        if (node->look == LMI_NODE_MODULE && node->place >= 0)
            draw_module(&d, node, box_of(&d, i));
        else
            draw_pill(&d, node, box_of(&d, i));
    }
    lmi_rect view = {0, 0, at->right - at->left + 2 * MARGIN, at->height + 2 * MARGIN};
    lmi_svg_end(&s, view, true);
}
