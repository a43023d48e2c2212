/* SPDX-License-Identifier: Apache-2.0
 *
 * The icicle: a box for each place, as wide as its share, children below their parent in the model's
 * order. */
#include "report/picture/svg.h"

#include <math.h>

enum { ROW = 27, MOST_ROWS = 12, IN_PAGE = 160, IN_FILE = 1500, ENOUGH = 6 };

typedef struct icicle {
    lmi_svg *s;
    const lmi_outline *o;
    const lmi_picture_options *p;
    double least; /* narrower boxes are drawn as one for each parent */
    int32_t boxes, rows;
    double top, whole;
} icicle;

static double total(const icicle *d, int32_t place) { return (double)lmi_shown_total(d->o, d->p, place); }

/* "0…79 ×80 Block": a run of equal siblings is one box, as wide as all of them. */
static void put_text(const icicle *d, lmi_buf *b, int32_t place, int32_t run) {
    const lmi_outline_place *at = d->o->at;
    const char *name = lmi_svg_name(d->o, place);
    const char *last = at[lmi_run_last(at, place)].name;
    lmi_put(b, name);
    if (run == 1) return;
    lmi_putf(b, "\u2026%s", last + lmi_stem(last));
    lmi_putf(b, " \u00d7%d %s", (int)run, at[place].type);
}

/* A label is drawn only if all of it fits, or a beginning that is long enough; its value only beside the
 * whole label. */
static void put_label(const icicle *d, const lmi_buf *text, const lmi_buf *value, double x, double y,
                      double w) {
    int32_t room = (int32_t)floor((w - 9) / LMI_COLUMN), wide = lmi_name_width(lmi_buf_text(text));
    if (room < (wide < ENOUGH ? wide : ENOUGH) || wide == 0) return;
    LMI_DRAW(d->s, "<text class=\"m\" x=\"~\" y=\"~\">", x + 5, y + 17);
    lmi_put_name(&d->s->body, lmi_buf_text(text), room);
    if (room - wide - 1 > (int32_t)lmi_width(lmi_buf_text(value))) {
        lmi_svg_put(d->s, " <tspan class=\"d\">");
        lmi_put(&d->s->body, lmi_buf_text(value));
        lmi_svg_put(d->s, "</tspan>");
    }
    lmi_svg_put(d->s, "</text>");
}

static void put_value(const icicle *d, lmi_buf *b, int32_t place, double v) {
    const lam_state state = lmi_shown_state(d->o, d->p, place);
    if (state != LAM_EXACT) lmi_put(b, "\u2265" LMI_NARROW);
    lmi_put_shown(b, d->p->by, v);
}

static void draw_box(icicle *d, int32_t place, double x, double w, int32_t depth, int32_t run, double times) {
    double y = d->top + depth * (ROW + 1);
    lmi_buf text, value;
    lmi_buf_init(&text);
    lmi_buf_init(&value);
    put_text(d, &text, place, run);
    if (run == 1 && times > 1) lmi_putf(&text, " \u00d7%.0f", times); /* a part of equal modules */
    put_value(d, &value, place, times * total(d, place));
    lmi_svg_put(d->s, "<rect class=\"o thin f-");
    lmi_svg_put(d->s, lmi_family_class[d->o->at[place].family]);
    LMI_DRAW(d->s, "\" x=\"~\" y=\"~\" width=\"~\" height=\"~\" rx=\"2\">", x, y, fmax(w - 1, .6), ROW);
    lmi_svg_title(d->s, d->o, place);
    lmi_put(&d->s->body, lmi_buf_text(&value));
    lmi_svg_put(d->s, ", ");
    lmi_put_share(&d->s->body, times * total(d, place), d->whole);
    if (times > 1) lmi_putf(&d->s->body, ", %.0f equal modules together", times);
    lmi_svg_put(d->s, "</title></rect>");
    put_label(d, &text, &value, x, y, w);
    lmi_buf_used(&text, &d->s->body);
    lmi_buf_used(&value, &d->s->body);
    d->boxes++;
    if (depth >= d->rows) d->rows = depth + 1;
}

static void draw_rest(icicle *d, double x, double w, int32_t depth, int64_t n) {
    LMI_DRAW(d->s, "<rect class=\"f-rest thin\" x=\"~\" y=\"~\" width=\"~\" height=\"~\">", x,
             d->top + depth * (ROW + 1), w - .5, ROW);
    lmi_putf(&d->s->body, "<title>%lld more, too small to draw</title></rect>", (long long)n);
    d->boxes++;
    if (depth >= d->rows) d->rows = depth + 1;
}

/* `times`: how many equal places the box represents, with those around it. */
static void draw_place(icicle *d, int32_t place, double x, double w, int32_t depth, double times) {
    const lmi_outline_place *at = &d->o->at[place];
    int32_t run = place > 0 && at->n_run > 1 ? at->n_run : 1;
    double whole = total(d, place), left = x, rest = 0;
    int64_t n_rest = 0;
    times *= run;
    draw_box(d, place, x, w, depth, run, times);
    if (depth + 1 >= MOST_ROWS || !(whole > 0)) return;
    for (int32_t k = place + 1; k < at->end; k = lmi_run_end(d->o->at, k)) {
        int32_t n = d->o->at[k].n_run > 1 ? d->o->at[k].n_run : 1;
        double wide = w * n * total(d, k) / whole;
        if (wide < d->least) {
            rest += wide;
            n_rest += n + (int64_t)d->o->at[k].others;
            continue;
        }
        draw_place(d, k, left, wide, depth + 1, times);
        left += wide;
    }
    if (rest > 1.5) draw_rest(d, left, rest, depth + 1, n_rest);
}

/* Boxes too narrow to see are drawn as one; more are, until the picture of a large model is small. */
static void draw_all(icicle *d, double w) {
    const int32_t most = d->p->alone ? IN_FILE : IN_PAGE;
    do {
        lmi_buf_clear(&d->s->body);
        d->boxes = d->rows = 0;
        draw_place(d, 0, 0, w, 0, 1);
        d->least *= 2;
    } while (d->boxes > most && d->least < w);
}

void lmi_picture_icicle(lmi_buf *out, const lmi_outline *o, const lmi_picture_options *p) {
    const char *title = lmi_figures[p->by].at[LMI_DRAWN] ? lmi_part_title(p->by) : NULL,
               *label = "Icicle: each box is a module, as wide as its share";
    if (o->n == 0 || !title || lmi_shown_total(o, p, 0) <= 0) {
        lmi_svg_nothing(out, p, label, "There is nothing to draw: the whole is 0, or is not known.");
        return;
    }
    lmi_svg s;
    double w = lmi_svg_width(p) - 2;
    lmi_svg_start(&s, out, p->alone, "Icicle of ");
    lmi_put(&s.label, title);
    lmi_put(&s.label, ": each box is a module, as wide as its share");
    icicle d = {.s = &s, .o = o, .p = p, .least = 1.5, .whole = (double)lmi_shown_total(o, p, 0)};
    draw_all(&d, w);
    lmi_svg_end(&s, (lmi_rect){-1, -1, w + 2, d.rows * (ROW + 1) + 2}, false);
}
