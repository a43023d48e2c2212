/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory in use over time, and the places at work below it. */
#include "base/sqlite.h"
#include "report/saved/saved.h"

/* What began before the first call is at its beginning, as in an outline of a model. */
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

/* A row, a phase, and two moments. */
static lam_status take_span(lmi_saved *s, sqlite3_stmt *q, void *to) {
    const int32_t *place = lmi_vec_at(&s->of_row, (size_t)sqlite3_column_int64(q, 0));
    int64_t end;
    lmi_at_work *at = place ? lmi_vec_push(to) : NULL;
    if (!place) return lmi_saved_wrong(s, "it changed while it was read");
    if (!at) return lmi_nomem(s->w.e);
    *at = (lmi_at_work){.place = *place, .depth = s->w.o->at[*place].depth};
    at->phase = sqlite3_column_int(q, 1) ? LAM_BACKWARD : LAM_FORWARD;
    LAM_TRY(take_moment(s, q, 2, &at->us));
    LAM_TRY(take_moment(s, q, 3, &end));
    at->length = end - at->us;
    return LAM_OK;
}

/* The phase of a row's spans, and their moments. Only three levels are shown, and of those the longest. */
#define SPANS                                                                                                \
    "(SELECT key AS at, 0 AS phase, json_extract(value, '$.span[0]') AS t0, json_extract(value, "            \
    "'$.span[1]') AS t1, json_extract(value, '$.depth') AS depth FROM json_each(?1, '$.rows') UNION ALL "    \
    "SELECT r.key, 1, json_extract(b.value, '$[0]'), json_extract(b.value, '$[1]'), json_extract(r.value, "  \
    "'$.depth') FROM json_each(?1, '$.rows') r, json_each(r.value, '$.backward_spans') b)"
static const char spans[] =
    "SELECT at, phase, t0, t1 FROM (SELECT * FROM " SPANS
    " WHERE typeof(t0) = 'integer' AND typeof(t1) = 'integer' AND t1 >= t0 AND depth BETWEEN 1 AND 3 "
    "ORDER BY t1 - t0 DESC, t0, at LIMIT 4000) ORDER BY t0, depth, t1 - t0 DESC, at";
static const char backward[] =
    "SELECT min(t0) FROM " SPANS " WHERE phase = 1 AND typeof(t0) = 'integer' HAVING min(t0) IS NOT NULL";

static lam_status take_backward(lmi_saved *s, sqlite3_stmt *q, void *to) { return take_moment(s, q, 0, to); }

static lam_status keep(lmi_saved *s, const lmi_vec *v, int32_t *n, void *out) {
    const void *kept = lmi_copy(&s->w.o->arena, v->data, v->n, v->size);
    if (!kept) return lmi_nomem(s->w.e);
    *n = (int32_t)v->n;
    memcpy(out, &kept, sizeof kept);
    return LAM_OK;
}

lam_status lmi_saved_course(lmi_saved *s) {
    lmi_outline *o = s->w.o;
    lmi_vec points, at_work;
    lmi_vec_init(&points, sizeof(lmi_course_point));
    lmi_vec_init(&at_work, sizeof(lmi_at_work));
    lam_status status = lmi_saved_each(s,
                                       "SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM "
                                       "json_each(?1, '$.memory.course') LIMIT 600",
                                       take_point, &points);
    if (status == LAM_OK) status = keep(s, &points, &o->n_points, &o->point);
    if (status == LAM_OK && o->n == s->w.n) /* of very many places not all are kept */
        status = lmi_saved_each(s, spans, take_span, &at_work);
    if (status == LAM_OK) status = keep(s, &at_work, &o->n_at_work, &o->at_work);
    if (status == LAM_OK) status = lmi_saved_each(s, backward, take_backward, &o->backward_us);
    lmi_vec_free(&points);
    lmi_vec_free(&at_work);
    return status;
}
