/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of a graph; equal ones are stored once, since most operators have the field of a neighbour. */
#include "analyse/field/grid.h"
#include "analyse/field/rfgraph.h"

void lmi_rf_fields_init(lmi_rf_fields *f, lmi_arena *a, int32_t width) {
    *f = (lmi_rf_fields){.a = a, .width = width};
    lmi_vec_init(&f->all, sizeof(const lmi_span *));
    lmi_map_init(&f->by_hash);
    lmi_buf_init(&f->searched);
    lmi_buf_init(&f->other);
}

void lmi_rf_fields_free(lmi_rf_fields *f) {
    lmi_vec_free(&f->all);
    lmi_map_free(&f->by_hash);
    lmi_buf_free(&f->searched);
    lmi_buf_free(&f->other);
}

const lmi_span *lmi_rf_field(const lmi_rf_fields *f, int32_t i) {
    return *(const lmi_span *const *)lmi_vec_at(&f->all, (size_t)i);
}

/* The number of intervals in at[]. */
static int64_t n_at(const lmi_span *s) {
    if (s->kind == LMI_SPAN_TRACK) return s->period;
    return s->kind == LMI_SPAN_FIXED;
}

/* Resets the members that the span's kind does not use. */
static lmi_span tidy(lmi_span s) {
    if (s.kind != LMI_SPAN_TRACK) {
        s.period = 1;
        s.shift = 0;
        s.each = NULL;
    }
    if (!s.each) s.n_each = 0;
    if (n_at(&s) == 0) s.at = NULL;
    if (n_at(&s) == 0) s.grid = NULL;
    return s;
}

static void put_reaches(lmi_buf *b, const lmi_reach *r, int64_t n) {
    if (n > 0) lmi_putn(b, (const char *)r, (size_t)n * sizeof *r);
}

/* Writes a span as bytes, which are equal for equal spans. */
static void put_grid(lmi_buf *b, const lmi_grid *g) {
    for (int32_t i = 0; i < LMI_AXES; i++) {
        const lmi_digit *d = &g->of[i];
        const int64_t words[] = {d->n, d->inner, d->each ? d->length : 0};
        lmi_putn(b, (const char *)words, sizeof words);
        if (d->each) lmi_putn(b, (const char *)d->each, (size_t)d->length * sizeof *d->each);
    }
    put_reaches(b, g->at, lmi_grid_size(g));
}

static void put_span(lmi_buf *b, const lmi_span *span) {
    const lmi_span s = tidy(*span);
    const int64_t words[] = {s.kind,  s.axis,   s.stays, s.loose, s.least, s.paths, s.period,
                             s.shift, s.n_each, s.first, s.last,  !s.grid, s.varies};
    lmi_putn(b, (const char *)words, sizeof words);
    put_reaches(b, s.at, n_at(&s));
    put_reaches(b, s.each, s.n_each);
    if (s.grid) put_grid(b, s.grid);
    lmi_put(b, s.why ? s.why : "");
    lmi_putc(b, '\0');
}

static void put_field(lmi_buf *b, const lmi_span *spans, int32_t width) {
    b->n = 0;
    for (int32_t k = 0; k < width; k++) put_span(b, &spans[k]);
}

static const lmi_grid *copy_grid(lmi_arena *a, const lmi_grid *from) {
    lmi_grid *g = lmi_copy(a, from, 1, sizeof *from);
    if (!g || !(g->at = lmi_copy(a, from->at, (uint64_t)lmi_grid_size(from), sizeof *from->at))) return NULL;
    for (int32_t i = 0; i < LMI_AXES; i++) {
        const lmi_digit *d = &from->of[i];
        if (d->each && !(g->of[i].each = lmi_copy(a, d->each, (uint64_t)d->length, sizeof *d->each)))
            return NULL;
    }
    return g;
}

static bool copy_span(lmi_arena *a, lmi_span *s) {
    const lmi_span from = tidy(*s);
    *s = from;
    s->why = lmi_strdup(a, from.why);
    if (from.at) s->at = lmi_copy(a, from.at, (uint64_t)n_at(&from), sizeof *from.at);
    if (from.each) s->each = lmi_copy(a, from.each, (uint64_t)from.n_each, sizeof *from.each);
    if (from.grid) s->grid = copy_grid(a, from.grid);
    return !s->why == !from.why && !s->at == !from.at && !s->each == !from.each && !s->grid == !from.grid;
}

static const lmi_span *copy_field(lmi_arena *a, const lmi_span *spans, int32_t width) {
    lmi_span *mine = lmi_copy(a, spans, (uint64_t)width, sizeof *spans);
    for (int32_t k = 0; mine && k < width; k++)
        if (!copy_span(a, &mine[k])) return NULL;
    return mine;
}

bool lmi_rf_keep(lmi_rf_fields *f, const lmi_span *spans, int32_t *index) {
    put_field(&f->searched, spans, f->width);
    if (f->searched.bad) return false;
    const uint64_t hash = lmi_hash(f->searched.s, f->searched.n);
    int64_t known;
    for (size_t at = (size_t)hash; (known = lmi_map_next(&f->by_hash, hash, &at)) >= 0;) {
        put_field(&f->other, lmi_rf_field(f, (int32_t)known), f->width);
        if (f->other.bad) return false;
        *index = (int32_t)known;
        if (f->searched.n == f->other.n && memcmp(f->searched.s, f->other.s, f->searched.n) == 0) return true;
    }
    const lmi_span **to = lmi_vec_push(&f->all);
    if (!to || !(*to = copy_field(f->a, spans, f->width))) return false;
    *index = (int32_t)f->all.n - 1;
    return lmi_map_add(&f->by_hash, hash, *index, NULL) == LAM_OK;
}
