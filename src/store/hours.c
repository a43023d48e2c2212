/* SPDX-License-Identifier: Apache-2.0
 *
 * The layers of a recording hour by hour: medians over a few steps of each, whose rows are read again. */
#include "base/sqlite.h"
#include "store/read.h"

#include <stdlib.h>

enum { STEPS = 16 }; /* that the medians of an hour are over, at most */
static const int64_t hour_ns = INT64_C(3600) * 1000000000;

typedef struct hours {
    lmi_db db;
    sqlite3_stmt *layers;
    const lmi_root *root;
    const int32_t *ends;
    lmi_vec rows; /* lmi_measure: of the steps of an hour */
    int64_t *room;
    bool device;
    lam_take_hour take;
    void *self;
    lam_error *e;
} hours;

/* The i-th step, the oldest first, if it is one of those that count; else NULL. */
static const lmi_step *step_at(const lmi_root *root, int64_t i) {
    const lmi_step *s = &root->steps[root->n_steps - 1 - i];
    const bool warms_up = s->number == 0 && root->info.last > 0;
    return s->failed || warms_up || s->unix_ns < 0 ? NULL : s;
}

static int64_t median_of(hours *h, const lmi_measure *rows, size_t n, size_t host, size_t device) {
    size_t known = 0;
    for (size_t i = 0; i < n; i++) {
        const int64_t ns =
            *(const int64_t *)(const void *)((const char *)&rows[i] + (h->device ? device : host));
        if (ns >= 0) h->room[known++] = ns;
    }
    return known ? lmi_median(h->room, known) : -1;
}

static lam_status give_hour(hours *h, int64_t hour) {
    lmi_measure *all = h->rows.data;
    free(h->room);
    h->room = calloc(h->rows.n + 1, sizeof *h->room);
    if (!h->room) return lmi_nomem(h->e);
    if (h->rows.n) qsort(all, h->rows.n, sizeof *all, lmi_by_place);
    for (size_t i = 0, n; i < h->rows.n; i += n) {
        for (n = 1; i + n < h->rows.n && all[i + n].place == all[i].place;) n++;
        const lam_recorded_hour out = {.hour = hour,
                                       .place = all[i].place,
                                       .steps = (int64_t)n,
                                       .forward_ns = median_of(h, &all[i], n, offsetof(lmi_measure, self),
                                                               offsetof(lmi_measure, device_self)),
                                       .backward_ns =
                                           median_of(h, &all[i], n, offsetof(lmi_measure, backward),
                                                     offsetof(lmi_measure, device_backward))};
        LAM_TRY(h->take(h->self, &out, h->e));
    }
    return LAM_OK;
}

/* The steps `from` to `end` are of one hour; `n` of them count. */
static lam_status read_hour(hours *h, int64_t hour, int64_t from, int64_t end, int64_t n) {
    int64_t nth = 0, taken = 0;
    h->rows.n = 0;
    for (int64_t i = from; i < end; i++) {
        const lmi_step *s = step_at(h->root, i);
        if (!s || (nth++ * STEPS) / n < taken) continue;
        taken = n > STEPS ? ((nth - 1) * STEPS) / n + 1 : 0;
        LAM_TRY(lmi_read_step_rows(&h->db, h->layers, h->root, s, h->ends, &h->rows, h->e));
    }
    return give_hour(h, hour);
}

static lam_status read_hours(hours *h, int64_t from_unix_ns) {
    const lmi_root *root = h->root;
    for (int64_t from = 0, end; from < root->n_steps; from = end) {
        int64_t hour = -1, n = 0;
        for (end = from; end < root->n_steps; end++) {
            const lmi_step *s = step_at(root, end);
            if (!s) continue;
            if (hour >= 0 && s->unix_ns / hour_ns != hour) break;
            hour = s->unix_ns / hour_ns;
            n++;
        }
        if (n && (hour + 1) > from_unix_ns / hour_ns) LAM_TRY(read_hour(h, hour, from, end, n));
    }
    return LAM_OK;
}

static lam_status open_layers(hours *h, const char *file) {
    LAM_TRY(lmi_db_read(&h->db, file, h->e));
    LAM_TRY(lmi_db_run(&h->db, "BEGIN", h->e));
    return lmi_db_prepare(&h->db, &h->layers, lmi_layers(&h->db), h->e);
}

lam_status lam_recording_hours(const lam_recording *r, int32_t model, int64_t from_unix_ns,
                               lam_take_hour take, void *self, lam_error *e) {
    if (!lam_recording_model(r, model)) return LAM_OK;
    int32_t *ends = lmi_ends(&r->roots[model]);
    hours h = {.root = &r->roots[model],
               .ends = ends,
               .device = r->roots[model].info.device_forward_ns.n > 0,
               .take = take,
               .self = self,
               .e = e};
    if (!ends) return lmi_nomem(e);
    lmi_vec_init(&h.rows, sizeof(lmi_measure));
    lam_status s = open_layers(&h, r->path);
    if (s == LAM_OK) s = read_hours(&h, from_unix_ns);
    lmi_db_done(h.layers);
    lmi_db_close(&h.db);
    lmi_vec_free(&h.rows);
    free(h.room);
    free(ends);
    return s;
}
