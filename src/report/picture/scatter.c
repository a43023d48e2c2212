/* SPDX-License-Identifier: Apache-2.0
 *
 * MACs against parameters of several models: a circle each, a colour and a thin line for each family. */
#include "report/picture/svg.h"

#include "report/table/report.h"

#include <math.h>
#include <stdlib.h>

enum { W = 960, H = 560, LEFT = 64, RIGHT = 944, TOP = 28, BELOW = 510, NEAR = 4, COLUMNS = 40 };

/* Twins, as a model with and without batch normalisation, are one point with both names. */
typedef struct spot {
    const lam_scatter_point *of;
    double x, y;
    int32_t twin_of; /* -1: it is drawn itself */
    int32_t family;  /* the first spot of its family */
    int32_t n_family;
} spot;

typedef struct scatter {
    lmi_svg *s;
    spot *at; /* those with the most MACs first */
    int32_t n;
    double x0, x1, y0, y1; /* powers of ten at the ends of the axes */
} scatter;

static const char *const colour[] = {"conv", "lin", "att", "norm", "act", "emb"};
enum { N_COLOURS = sizeof colour / sizeof *colour };

static int most_macs_first(const void *a, const void *b) {
    const lam_scatter_point *x = ((const spot *)a)->of, *y = ((const spot *)b)->of;
    if (x->macs != y->macs) return x->macs > y->macs ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Leaves a little room around the points. */
static void find_axes(scatter *d) {
    d->x0 = d->y0 = 20;
    d->x1 = d->y1 = 0;
    for (int32_t i = 0; i < d->n; i++) {
        double x = log10((double)d->at[i].of->params), y = log10((double)d->at[i].of->macs);
        d->x0 = fmin(d->x0, x - .4), d->x1 = fmax(d->x1, x + .4);
        d->y0 = fmin(d->y0, y - .2), d->y1 = fmax(d->y1, y + .3);
    }
}

static double x_of(const scatter *d, double log) {
    return LEFT + (RIGHT - LEFT) * (log - d->x0) / (d->x1 - d->x0);
}

static double y_of(const scatter *d, double log) {
    return BELOW - (BELOW - TOP) * (log - d->y0) / (d->y1 - d->y0);
}

static void place_spots(scatter *d) {
    for (int32_t i = 0; i < d->n; i++) {
        spot *a = &d->at[i];
        a->x = x_of(d, log10((double)a->of->params));
        a->y = y_of(d, log10((double)a->of->macs));
        a->twin_of = -1;
        a->family = i;
        for (int32_t k = 0; k < i && a->family == i; k++)
            if (strcmp(d->at[k].of->family, a->of->family) == 0) a->family = d->at[k].family;
        d->at[a->family].n_family++;
        for (int32_t k = 0; k < i && a->twin_of < 0; k++) {
            const spot *b = &d->at[k];
            if (b->twin_of < 0 && b->family == a->family && hypot(a->x - b->x, a->y - b->y) <= NEAR)
                a->twin_of = k;
        }
    }
}

/* Families of one model share a colour: there is nothing to join. */
static const char *colour_of(const scatter *d, const spot *a) {
    int32_t i = 0;
    if (d->at[a->family].n_family < 2) return "pool";
    for (int32_t k = 0; k < a->family; k++) i += d->at[k].family == k && d->at[k].n_family > 1;
    return colour[i % N_COLOURS];
}

static void draw_axes(scatter *d) {
    for (int e = (int)ceil(d->x0); e <= d->x1; e++) {
        double x = x_of(d, e);
        LMI_DRAW(d->s, "<path class=\"ax\" d=\"M~ ~V~\"/>", x, TOP, BELOW);
        LMI_DRAW(d->s, "<text class=\"s d c\" x=\"~\" y=\"~\">", x, BELOW + 17);
        lmi_put_power(&d->s->body, e);
        lmi_svg_put(d->s, "</text>");
    }
    for (int e = (int)ceil(d->y0); e <= d->y1; e++) {
        double y = y_of(d, e);
        LMI_DRAW(d->s, "<path class=\"ax\" d=\"M~ ~H~\"/>", LEFT, y, RIGHT);
        LMI_DRAW(d->s, "<text class=\"s d r\" x=\"~\" y=\"~\">", LEFT - 8, y + 4);
        lmi_put_power(&d->s->body, e);
        lmi_svg_put(d->s, "</text>");
    }
    LMI_DRAW(d->s, "<path class=\"ax2\" d=\"M~ ~V~H~\"/>", LEFT, TOP, BELOW, RIGHT);
    LMI_DRAW(d->s, "<text class=\"s d r\" x=\"~\" y=\"~\">parameters</text>", RIGHT, H - 14);
    lmi_svg_put(d->s, "<text class=\"s d\" x=\"8\" y=\"16\">MACs of one input, forward</text>");
}

static void draw_families(scatter *d) {
    for (int32_t i = 0; i < d->n; i++) {
        if (d->at[i].family != i || d->at[i].n_family < 2) continue;
        lmi_svg_put(d->s, "<path class=\"l-");
        lmi_svg_put(d->s, colour_of(d, &d->at[i]));
        LMI_DRAW(d->s, "\" d=\"M~ ~", d->at[i].x, d->at[i].y);
        for (int32_t k = i + 1; k < d->n; k++)
            if (d->at[k].family == i && d->at[k].twin_of < 0) LMI_DRAW(d->s, " ~ ~", d->at[k].x, d->at[k].y);
        lmi_svg_put(d->s, "\"/>");
    }
}

static void put_model(lmi_buf *b, const lam_scatter_point *p) {
    lmi_put_name(b, p->name, COLUMNS);
    lmi_put(b, ": ");
    lmi_put_full(b, p->params);
    lmi_put(b, " parameters, ");
    lmi_put_full(b, p->macs);
    lmi_put(b, " MACs");
}

static void draw_spot(scatter *d, int32_t i) {
    const spot *a = &d->at[i];
    lmi_svg_put(d->s, "<circle class=\"f-");
    lmi_svg_put(d->s, colour_of(d, a));
    LMI_DRAW(d->s, "\" cx=\"~\" cy=\"~\" r=\"5\"><title>", a->x, a->y);
    put_model(&d->s->body, a->of);
    for (int32_t k = i + 1; k < d->n; k++) {
        if (d->at[k].twin_of != i) continue;
        lmi_svg_put(d->s, "\n");
        put_model(&d->s->body, d->at[k].of);
    }
    lmi_svg_put(d->s, "</title></circle>");
}

/* Shortens "vgg16_bn, vgg16" to "vgg16, _bn". */
static void put_twins(const scatter *d, int32_t i, lmi_buf *text) {
    int32_t shortest = i;
    for (int32_t k = i + 1; k < d->n; k++)
        if (d->at[k].twin_of == i && strlen(d->at[k].of->name) < strlen(d->at[shortest].of->name))
            shortest = k;
    const char *name = d->at[shortest].of->name;
    lmi_put(text, name);
    for (int32_t k = i; k < d->n; k++) {
        const char *other = d->at[k].of->name;
        size_t n = strlen(name);
        if (k == shortest || (k != i && d->at[k].twin_of != i)) continue;
        lmi_putf(text, ", %s", strncmp(other, name, n) == 0 ? other + n : other);
    }
}

static void draw_labels(scatter *d, lmi_room *room) {
    static const lmi_label corner[] = {{9, 4, 's'},   {-9, 4, 'e'},  {0, -10, 'm'}, {0, 18, 'm'},
                                       {8, -8, 's'},  {8, 15, 's'},  {-8, -8, 'e'}, {-8, 15, 'e'},
                                       {9, -18, 's'}, {-9, 26, 'e'}, {10, 26, 's'}, {-9, -20, 'e'}};
    lmi_buf text;
    lmi_buf_init(&text);
    for (int32_t i = 0; i < d->n; i++) {
        const spot *a = &d->at[i];
        if (a->twin_of >= 0) continue;
        lmi_buf_clear(&text);
        put_twins(d, i, &text);
        int32_t wide = lmi_name_width(lmi_buf_text(&text));
        int32_t at = lmi_room_find(room, a->x, a->y, (wide < COLUMNS ? wide : COLUMNS) * 6.1, corner, 12);
        if (at >= 0) lmi_svg_label(d->s, "s halo", a->x, a->y, &corner[at], lmi_buf_text(&text), COLUMNS);
    }
    lmi_buf_used(&text, &d->s->body);
}

static void draw_scatter(scatter *d) {
    lmi_room room = {.inside = {LEFT, TOP - 14, RIGHT - LEFT, BELOW - TOP + 14}};
    lmi_vec_init(&room.taken, sizeof(lmi_rect));
    find_axes(d);
    place_spots(d);
    draw_axes(d);
    draw_families(d);
    for (int32_t i = 0; i < d->n; i++) {
        if (d->at[i].twin_of >= 0) continue;
        lmi_room_take(&room, (lmi_rect){d->at[i].x - 6, d->at[i].y - 6, 12, 12});
        draw_spot(d, i);
    }
    draw_labels(d, &room);
    d->s->body.bad = d->s->body.bad || room.bad;
    lmi_vec_free(&room.taken);
}

void lmi_picture_scatter(lmi_buf *out, const char *title, const lam_scatter_point *at, int32_t n) {
    static const lmi_picture_options alone = {.width = W, .alone = true};
    lmi_svg s;
    scatter d = {.s = &s, .n = n};
    if (n <= 0) {
        lmi_svg_nothing(out, &alone, "MACs against parameters", "There is no model to show.");
        return;
    }
    d.at = calloc((size_t)n, sizeof *d.at);
    if (!d.at) {
        out->bad = true;
        return;
    }
    for (int32_t i = 0; i < n; i++) d.at[i].of = &at[i];
    qsort(d.at, (size_t)n, sizeof *d.at, most_macs_first);
    lmi_svg_start(&s, out, true, "");
    lmi_put_name(&s.label, title, 200);
    draw_scatter(&d);
    lmi_svg_end(&s, (lmi_rect){0, 0, W, H}, false);
    free(d.at);
}
