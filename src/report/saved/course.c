/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory in use over time, and the places at work below it: from their lists, or in an older report from
 * its rows. */
#include "base/sqlite.h"
#include "report/saved/saved.h"

/* A moment before the first call becomes 0, as in an outline of a model. */
static lam_status take_moment(const lmi_saved *s, sqlite3_stmt *q, int column, int64_t *out) {
    if (sqlite3_column_type(q, column) != SQLITE_INTEGER)
        return lmi_saved_wrong(s, "a moment in it is no whole number");
    *out = sqlite3_column_int64(q, column);
    if (*out < 0) *out = 0;
    return LAM_OK;
}

static lam_status take_point(lmi_saved *s, sqlite3_stmt *q, void *to) {
    lmi_vec *points = to;
    const lmi_course_point *last = points->n ? lmi_vec_at(points, points->n - 1) : NULL;
    int64_t least = last ? last->us : 0;
    lmi_course_point *p = lmi_vec_push(points);
    if (!p) return lmi_nomem(s->w.e);
    LAM_TRY(take_moment(s, q, 0, &p->us));
    if (p->us < least) p->us = least;
    LAM_TRY(lmi_saved_int(s, q, 1, &p->bytes));
    return p->bytes >= 0 ? LAM_OK : lmi_saved_wrong(s, "a point of its memory has no bytes");
}

/* Takes the index of a point, a category and its bytes there. */
static lam_status take_part(lmi_saved *s, sqlite3_stmt *q, void *to) {
    lmi_outline *o = s->w.o;
    int64_t i = sqlite3_column_type(q, 0) == SQLITE_INTEGER ? sqlite3_column_int64(q, 0) : -1, n;
    const char *name;
    (void)to;
    LAM_TRY(lmi_saved_text(s, q, 1, &name));
    LAM_TRY(lmi_saved_int(s, q, 2, &n));
    if (i < 0 || i >= o->n_points || n < 0) return lmi_saved_wrong(s, "a part of its memory is at no point");
    int64_t *part = &o->part[i][lmi_saved_held_of(name)];
    *part = lmi_add_capped(*part, n);
    return LAM_OK;
}

/* Takes the parts of all points; they are dropped unless they add up to the whole. */
static lam_status take_parts(lmi_saved *s) {
    lmi_outline *o = s->w.o;
    o->part = lmi_alloc(&o->arena, (uint64_t)o->n_points, sizeof *o->part);
    if (!o->part) return lmi_nomem(s->w.e);
    LAM_TRY(lmi_saved_each(s,
                           "SELECT v.key, h.key, v.value FROM json_each(?1, '$.memory.course_held') h, "
                           "json_each(h.value) v",
                           take_part, NULL));
    bool whole = true;
    for (int32_t i = 0; i < o->n_points; i++) {
        int64_t sum = 0;
        for (int h = 0; h < LAM_N_HELD; h++) sum = lmi_add_capped(sum, o->part[i][h]);
        whole = whole && sum == o->point[i].bytes;
    }
    if (!whole) o->part = NULL;
    return LAM_OK;
}

/* Adds a span from two moments, in the third column and the next. */
static lam_status add_span(lmi_saved *s, sqlite3_stmt *q, lmi_vec *to, int32_t place, uint8_t phase) {
    int64_t end;
    lmi_at_work *at = lmi_vec_push(to);
    if (!at) return lmi_nomem(s->w.e);
    *at = (lmi_at_work){.place = place, .depth = s->w.o->at[place].depth, .phase = phase};
    LAM_TRY(take_moment(s, q, 2, &at->us));
    LAM_TRY(take_moment(s, q, 3, &end));
    if (end < at->us) return lmi_saved_wrong(s, "a layer in it ends before it begins");
    at->length = end - at->us;
    return LAM_OK;
}

/* Takes a span of a place, by its path, and of a phase. */
static lam_status take_at_work(lmi_saved *s, sqlite3_stmt *q, void *to) {
    const char *path, *phase;
    int32_t place;
    uint8_t p;
    LAM_TRY(lmi_saved_text(s, q, 0, &path));
    LAM_TRY(lmi_saved_text(s, q, 1, &phase));
    LAM_TRY(lmi_saved_place(s, path, "a module at work in it is in no row", &place));
    LAM_TRY(lmi_saved_phase_of(s, phase, &p));
    return add_span(s, q, to, lmi_place_for(s->w.of_place, place), p);
}

/* Takes a span of a row, of its forward or backward. */
static lam_status take_span(lmi_saved *s, sqlite3_stmt *q, void *to) {
    const int32_t *place = lmi_vec_at(&s->of_row, (size_t)sqlite3_column_int64(q, 0));
    if (!place) return lmi_saved_wrong(s, "it changed while it was read");
    return add_span(s, q, to, *place, sqlite3_column_int(q, 1) ? LAM_BACKWARD : LAM_FORWARD);
}

/* The spans of rows: phase and moments. Only three levels are shown, and of those the longest spans. */
#define SPANS                                                                                                \
    "(SELECT key AS at, 0 AS phase, json_extract(value, '$.span[0]') AS t0, json_extract(value, "            \
    "'$.span[1]') AS t1, json_extract(value, '$.depth') AS depth FROM json_each(?1, '$.rows') UNION ALL "    \
    "SELECT r.key, 1, json_extract(b.value, '$[0]'), json_extract(b.value, '$[1]'), json_extract(r.value, "  \
    "'$.depth') FROM json_each(?1, '$.rows') r, json_each(r.value, '$.backward_spans') b)"
#define SHOWN                                                                                                \
    " FROM " SPANS " WHERE typeof(t0) = 'integer' AND typeof(t1) = 'integer' AND t1 >= t0 AND depth "        \
    "BETWEEN 1 AND 3"
static const char spans[] = "SELECT at, phase, t0, t1 FROM (SELECT *" SHOWN
                            " ORDER BY t1 - t0 DESC, t0, at LIMIT 4000) ORDER BY t0, depth, t1 - t0 DESC, at";
static const char backward[] =
    "SELECT min(t0) FROM " SPANS " WHERE phase = 1 AND typeof(t0) = 'integer' HAVING min(t0) IS NOT NULL";

static lam_status take_backward(lmi_saved *s, sqlite3_stmt *q, void *to) { return take_moment(s, q, 0, to); }

static lam_status count_spans(lmi_saved *s, sqlite3_stmt *q, void *to) {
    (void)to;
    return lmi_leave_out_spans(s->w.o, sqlite3_column_int64(q, 0), s->w.e);
}

lam_status lmi_saved_course(lmi_saved *s) {
    lmi_outline *o = s->w.o;
    bool told;
    if (!o->memory) return LAM_OK;
    LAM_TRY(lmi_saved_list(s,
                           "SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM "
                           "json_each(?1, '$.memory.course') LIMIT 600",
                           take_point, sizeof *o->point, &o->n_points, &o->point));
    LAM_TRY(take_parts(s));
    LAM_TRY(lmi_saved_truth(s, "SELECT json_type(?1, '$.at_work') = 'array'", &told));
    if (told) {
        LAM_TRY(lmi_saved_list(
            s,
            "SELECT json_extract(value, '$.path'), json_extract(value, '$.phase'), json_extract(value, "
            "'$.span[0]'), json_extract(value, '$.span[1]') FROM json_each(?1, '$.at_work') LIMIT 4000",
            take_at_work, sizeof *o->at_work, &o->n_at_work, &o->at_work));
    } else if (o->n == s->w.n) { /* not if some places were combined */
        LAM_TRY(lmi_saved_each(s, "SELECT count(*)" SHOWN, count_spans, NULL));
        LAM_TRY(lmi_saved_list(s, spans, take_span, sizeof *o->at_work, &o->n_at_work, &o->at_work));
    }
    return lmi_saved_each(s, backward, take_backward, &o->backward_us);
}
