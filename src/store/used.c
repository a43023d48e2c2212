/* SPDX-License-Identifier: Apache-2.0
 *
 * What steps compute, and the share of a device's peak that they reach. Two steps of each kind were counted
 * while the program ran. If they compute the same, others of their kind are taken to do so too. */
#include "base/sqlite.h"
#include "store/read.h"

#include <math.h>

struct lmi_counted {
    int64_t training, gradients, calls, went_back; /* of the step that was counted */
    lam_utilization used;                          /* without shares and rates */
};

static lam_status take_counted(lam_recording *r, sqlite3_stmt *s, void *self, const lmi_vec *rows, void *row,
                               lam_error *e) {
    static const char flops[] = "the operations of a step";
    lmi_counted *to = row;
    lam_utilization *u = &to->used;
    const lmi_db *d = &r->db;
    int64_t at_least, peak;
    (void)self, (void)rows;
    LAM_TRY(lmi_db_int(d, s, 0, true, INT64_MAX, flops, &u->flops, e));
    LAM_TRY(lmi_db_int(d, s, 1, true, INT64_MAX, flops, &u->hardware_flops, e));
    LAM_TRY(lmi_db_int(d, s, 2, false, 1, flops, &at_least, e));
    LAM_TRY(lmi_db_int(d, s, 3, true, INT64_MAX, "the peak of a device", &peak, e));
    const char **const texts[] = {&u->why, &u->why_peak, &u->device, &u->dtype, &u->peak_of};
    for (int i = 0; i < (int)(sizeof texts / sizeof *texts); i++)
        LAM_TRY(lmi_db_text(d, s, 4 + i, &r->arena, texts[i], e));
    int64_t *const like[] = {&to->training, &to->gradients, &to->calls, &to->went_back};
    for (int i = 0; i < (int)(sizeof like / sizeof *like); i++)
        LAM_TRY(lmi_db_int(d, s, 9 + i, true, LMI_MOST, "a step that was counted", like[i], e));
    u->at_least = at_least == 1;
    u->peak = peak > 0 ? (double)peak : NAN;
    return LAM_OK;
}

static bool counts_work(const lam_recording *r) { return r->db.version >= 8; }

/* One row at most: whether the statement has any. */
static lam_status has_row(const lmi_db *d, const char *sql, bool *has, lam_error *e) {
    sqlite3_stmt *s;
    LAM_TRY(lmi_db_prepare(d, &s, sql, e));
    lam_status status = lmi_db_next(d, s, has, e);
    lmi_db_done(s);
    return status;
}

lam_status lmi_read_counted(lam_recording *r, lam_error *e) {
    static const char lost[] = "SELECT 1 FROM work WHERE step NOT IN (SELECT id FROM steps) LIMIT 1";
    bool odd = false;
    if (!counts_work(r)) return LAM_OK;
    LAM_TRY(has_row(&r->db, lost, &odd, e));
    if (odd)
        return lmi_fail(e, LAM_IO, r->db.file, "it is damaged: what was counted names no step that is there");
    for (int32_t i = 0; i < r->run.n_models; i++) {
        sqlite3_stmt *s;
        lmi_taken got;
        LAM_TRY(
            lmi_db_prepare(&r->db, &s,
                           "SELECT w.flops, w.hardware_flops, w.at_least, w.peak_flops, w.why, w.why_peak,"
                           " w.device, w.dtype, w.peak_of, s.training, s.gradients, s.calls,"
                           " s.backward_ns IS NOT NULL FROM work w JOIN steps s ON s.id = w.step"
                           " WHERE s.model = ? ORDER BY w.step",
                           e));
        sqlite3_bind_int64(s, 1, r->roots[i].id);
        LAM_TRY(lmi_take_rows(r, s, take_counted, NULL, sizeof(lmi_counted), &got, e));
        r->roots[i].counted = got.rows;
        r->roots[i].n_counted = got.n;
    }
    return LAM_OK;
}

/* The next step from index `from` on that is of the root's kind. */
static const lmi_counted *counted_like(const lmi_root *root, int64_t from) {
    const lam_recorded_model *m = &root->info;
    for (int64_t i = from; i < root->n_counted; i++) {
        const lmi_counted *c = &root->counted[i];
        if (c->training == (m->training ? 1 : 0) && c->gradients == m->gradients &&
            c->went_back == (m->went_back ? 1 : 0) && c->calls == m->least_calls)
            return c;
    }
    return NULL;
}

/* False if another step of the kind computed something else, by more than a hundredth. */
static bool is_usual(const lmi_root *root, const lmi_counted *c) {
    const int64_t flops = c->used.flops;
    for (const lmi_counted *o = c; (o = counted_like(root, o - root->counted + 1));)
        if (o->used.flops >= 0 && flops >= 0 &&
            fabs((double)o->used.flops - (double)flops) > (double)flops / 100)
            return false;
    return true;
}

void lmi_sum_used(const lam_recording *r, lmi_root *root) {
    lam_recorded_model *m = &root->info;
    lam_utilization *u = &m->used;
    const bool differ = m->least_calls < m->most_calls;
    const lmi_counted *c = differ ? NULL : counted_like(root, 0);
    const bool usual = !c || is_usual(root, c);
    *u = (lam_utilization){.flops = -1, .hardware_flops = -1, .peak = NAN};
    if (c && usual)
        *u = c->used;
    else
        u->why = !counts_work(r) ? "the recording is of an older version, which did not count operations"
                 : differ        ? "these steps differ in their calls"
                 : !usual        ? "these steps differ in what they compute, as with batches of unequal sizes"
                                 : "no step of this kind was counted";
    u->mfu = u->hfu = u->flops_per_s = NAN;
    const int64_t ns = m->phases.n ? m->phases.whole_ns : m->step_ns.n ? m->step_ns.median : -1;
    if (u->flops < 0) return;
    if (ns <= 0) {
        u->why = "how long a step takes is not known";
        return;
    }
    u->flops_per_s = (double)u->flops / ((double)ns / 1e9);
    u->mfu = u->flops_per_s / u->peak;
    if (u->hardware_flops >= 0) u->hfu = (double)u->hardware_flops / ((double)ns / 1e9) / u->peak;
}
