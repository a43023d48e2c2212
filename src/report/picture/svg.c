/* SPDX-License-Identifier: Apache-2.0
 *
 * One <svg> element: numbers, its style, labels that do not cover each other. */
#include "report/picture/svg.h"

#include "report/table/report.h"

#include <math.h>

/* -- numbers and parts --------------------------------------------------------------------------------- */

/* Writes tenths of a unit, which is finer than a screen shows, without the locale's decimal point. */
static void put_number(lmi_buf *b, double v) {
    if (!(fabs(v) < 1e8)) v = 0; /* nothing is so far away; NaN becomes 0 too */
    int64_t tenths = (int64_t)round(fabs(v) * 10);
    if (v < 0 && tenths > 0) lmi_putc(b, '-');
    lmi_putf(b, "%lld", (long long)(tenths / 10));
    if (tenths % 10) lmi_putf(b, ".%d", (int)(tenths % 10));
}

void lmi_svg_draw(lmi_svg *s, const char *text, const double *at, size_t n) {
    for (const char *next; (next = strchr(text, '~')) != NULL && n > 0; text = next + 1, n--) {
        lmi_putn(&s->body, text, (size_t)(next - text));
        put_number(&s->body, *at++);
    }
    lmi_put(&s->body, text);
}

void lmi_svg_put(lmi_svg *s, const char *text) { lmi_put(&s->body, text); }

double lmi_svg_width(const lmi_picture_options *p) {
    return p->width <= 0 ? 1008 : p->width < 350 ? 350 : p->width > 4000 ? 4000 : p->width;
}

/* -- style --------------------------------------------------------------------------------------------- */

typedef struct rule {
    const char *name, *text;
} rule;
typedef struct colour {
    const char *name, *light, *dark;
} colour;

static const rule rules[] = {
#define CLASS(name, text) {#name, text},
#include "report/picture/style.def"
#undef CLASS
};
static const colour colours[] = {
#define COLOUR(name, light, dark) {"var(--" #name ")", light, dark},
#include "report/picture/style.def"
#undef COLOUR
};
enum { N_RULES = sizeof rules / sizeof *rules, N_COLOURS = sizeof colours / sizeof *colours };

static void mark(bool *used, const char *word, size_t n) {
    for (int i = 0; i < N_RULES; i++)
        if (strlen(rules[i].name) == n && memcmp(rules[i].name, word, n) == 0) used[i] = true;
}

/* Quotes in names are entities, so no name looks like an attribute. */
static void mark_used(bool *used, const char *body) {
    static const char attribute[] = " class=\"";
    for (const char *p = body; (p = strstr(p, attribute)) != NULL;) {
        p += sizeof attribute - 1;
        for (size_t n; *p && *p != '"'; p += n + (p[n] == ' ')) mark(used, p, n = strcspn(p, " \""));
    }
}

static void put_colours(lmi_buf *b, const char *of, bool dark) {
    lmi_put(b, ".lam{");
    for (int i = 0; i < N_COLOURS; i++)
        if (strstr(of, colours[i].name))
            lmi_putf(b, "%.*s:%s;", (int)strlen(colours[i].name) - 5, colours[i].name + 4,
                     dark ? colours[i].dark : colours[i].light);
    lmi_put(b, "}");
}

/* Every rule applies only inside the picture, so that it may be put into another page. */
static void put_style(lmi_svg *s) {
    bool used[N_RULES] = {false};
    lmi_buf text;
    lmi_buf_init(&text);
    mark_used(used, lmi_buf_text(&s->body));
    lmi_put(&text, ".lam .bg{fill:var(--bg)}.lam text{font:12px system-ui,-apple-system,\"Segoe UI\",Roboto,"
                   "\"Noto Sans\",sans-serif;fill:var(--txt)}");
    for (int i = 0; i < N_RULES; i++) {
        if (!used[i]) continue;
        lmi_putf(&text, ".lam .%s", rules[i].name);
        lmi_put(&text, rules[i].text);
    }
    lmi_put(s->out, "<style>");
    put_colours(s->out, lmi_buf_text(&text), false);
    lmi_put(s->out, "@media(prefers-color-scheme:dark){");
    put_colours(s->out, lmi_buf_text(&text), true);
    lmi_put(s->out, "}");
    lmi_put(s->out, lmi_buf_text(&text));
    lmi_put(s->out, "</style>");
    lmi_buf_used(&text, s->out);
}

/* -- the element --------------------------------------------------------------------------------------- */

void lmi_svg_start(lmi_svg *s, lmi_buf *out, bool alone, const char *label) {
    *s = (lmi_svg){.out = out, .alone = alone};
    lmi_buf_init(&s->body);
    lmi_buf_init(&s->label);
    lmi_put(&s->label, label);
}

void lmi_svg_end(lmi_svg *s, lmi_rect v, bool fixed) {
    lmi_svg head = {.out = s->out};
    lmi_buf_init(&head.body);
    lmi_svg_put(&head, s->alone ? "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"lam\"" : "<svg");
    if (s->alone || fixed) LMI_DRAW(&head, " width=\"~\" height=\"~\"", v.w, v.h);
    LMI_DRAW(&head, " viewBox=\"~ ~ ~ ~\" role=\"img\" aria-label=\"", v.x, v.y, v.w, v.h);
    lmi_put(s->out, lmi_buf_text(&head.body));
    lmi_put(s->out, lmi_buf_text(&s->label));
    lmi_put(s->out, "\">");
    if (s->alone) {
        put_style(s);
        lmi_buf_clear(&head.body);
        LMI_DRAW(&head, "<rect class=\"bg\" x=\"~\" y=\"~\" width=\"~\" height=\"~\"/>", v.x, v.y, v.w, v.h);
        lmi_put(s->out, lmi_buf_text(&head.body));
    }
    lmi_put(s->out, lmi_buf_text(&s->body));
    lmi_put(s->out, "</svg>");
    lmi_buf_used(&head.body, s->out);
    lmi_buf_used(&s->body, s->out);
    lmi_buf_used(&s->label, s->out);
}

void lmi_svg_nothing(lmi_buf *out, const lmi_picture_options *p, const char *label, const char *why) {
    lmi_svg s;
    lmi_svg_start(&s, out, p->alone, label);
    lmi_svg_put(&s, "<text class=\"d\" x=\"8\" y=\"20\">");
    lmi_put_html(&s.body, why);
    lmi_svg_put(&s, "</text>");
    lmi_svg_end(&s, (lmi_rect){0, 0, lmi_svg_width(p), 30}, false);
}

const char *lmi_svg_name(const lmi_outline *o, int32_t place) {
    return place > 0 ? o->at[place].name : o->at[0].type;
}

void lmi_svg_begin_place(lmi_svg *s, int32_t place) {
    if (!s->alone) lmi_putf(&s->body, "<g class=\"cl\" data-i=\"%d\">", (int)place);
}

void lmi_svg_end_place(lmi_svg *s) {
    if (!s->alone) lmi_svg_put(s, "</g>");
}

void lmi_svg_title(lmi_svg *s, const lmi_outline *o, int32_t place) {
    lmi_buf path;
    lmi_buf_init(&path);
    lmi_outline_label(o, place, &path);
    lmi_svg_put(s, "<title>");
    lmi_put_name(&s->body, lmi_buf_text(&path), 200);
    if (place > 0) {
        lmi_svg_put(s, " (");
        lmi_put_name(&s->body, o->at[place].type, 60);
        lmi_svg_put(s, ")");
    }
    lmi_svg_put(s, ": ");
    lmi_buf_used(&path, &s->body);
}

/* -- labels -------------------------------------------------------------------------------------------- */

enum { LABEL_H = 13 };

static bool overlap(const lmi_rect *a, const lmi_rect *b) {
    return a->x < b->x + b->w && a->x + a->w > b->x && a->y < b->y + b->h && a->y + a->h > b->y;
}

void lmi_room_take(lmi_room *room, lmi_rect r) {
    lmi_rect *at = lmi_vec_push(&room->taken);
    if (at)
        *at = r;
    else
        room->bad = true;
}

int32_t lmi_room_find(lmi_room *room, double x, double y, double w, const lmi_label *corner, int32_t n) {
    for (int32_t i = 0; i < n; i++) {
        double left = corner[i].anchor == 's' ? 0 : corner[i].anchor == 'e' ? w : w / 2;
        lmi_rect at = {x + corner[i].dx - left, y + corner[i].dy - 10, w, LABEL_H}, in = room->inside;
        bool free_ = at.x >= in.x && at.x + w <= in.x + in.w && at.y >= in.y && at.y + LABEL_H <= in.y + in.h;
        const lmi_rect *taken = room->taken.data;
        for (size_t k = 0; free_ && k < room->taken.n; k++) free_ = !overlap(&at, &taken[k]);
        if (!free_) continue;
        lmi_room_take(room, at);
        return i;
    }
    return -1;
}

void lmi_svg_label(lmi_svg *s, const char *classes, double x, double y, const lmi_label *at, const char *text,
                   int32_t columns) {
    lmi_svg_put(s, "<text class=\"");
    lmi_svg_put(s, classes);
    lmi_svg_put(s, at->anchor == 'e' ? " r" : at->anchor == 'm' ? " c" : "");
    LMI_DRAW(s, "\" x=\"~\" y=\"~\">", x + at->dx, y + at->dy);
    lmi_put_name(&s->body, text, columns);
    lmi_svg_put(s, "</text>");
}
