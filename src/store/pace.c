/* SPDX-License-Identifier: Apache-2.0
 *
 * All calls of a run by the minute, recorded or not; and recorded steps beside those between them, which tell
 * what recording costs. */
#include "base/sqlite.h"
#include "store/read.h"

#include <math.h>

/* A step that came so many times as late as usual is a stall, if it took a second or more. */
enum { LATE = 10 };
static const int64_t minute_ns = INT64_C(60) * 1000000000, least_stall_ns = 1000000000;

static lam_status read_minute(lam_recording *r, sqlite3_stmt *s, void *self, const lmi_vec *rows, void *row,
                              lam_error *e) {
    lmi_minute *to = row;
    (void)self, (void)rows;
    LAM_TRY(lmi_db_int(&r->db, s, 0, false, INT64_MAX / 2 / minute_ns, "a minute of a run", &to->minute, e));
    LAM_TRY(lmi_db_int(&r->db, s, 1, false, LMI_MOST, "the calls of a minute", &to->calls, e));
    return lmi_db_int(&r->db, s, 2, false, LMI_MOST, "the slowest call of a minute", &to->slowest_ns, e);
}

/* The first and the last minute are no whole ones. Minutes without calls have no row, and count. */
static void sum_minutes(const lmi_minute *all, int64_t n, lam_recorded_run *run) {
    int64_t calls = 0;
    for (int64_t i = 0; i < n; i++) {
        if (i && i < n - 1 && lmi_add_over(calls, all[i].calls, &calls)) return;
        if (all[i].slowest_ns < run->pace.slowest_ns) continue;
        run->pace.slowest_ns = all[i].slowest_ns;
        run->pace.slowest_unix_ns = all[i].minute * minute_ns;
    }
    if (n < 3 || !calls) return;
    run->pace.minutes = all[n - 1].minute - all[0].minute - 1;
    run->pace.calls = calls;
    const double usual = (double)run->pace.minutes * (double)minute_ns / (double)calls;
    for (int64_t i = 0; i < n; i++)
        run->pace.stalls += all[i].slowest_ns >= least_stall_ns && (double)all[i].slowest_ns >= LATE * usual;
}

lam_status lmi_read_pace(lam_recording *r, lam_error *e) {
    sqlite3_stmt *s;
    lmi_taken got;
    if (r->db.version < 7) return LAM_OK;
    LAM_TRY(lmi_db_prepare(&r->db, &s,
                           "SELECT minute, calls, slowest_ns FROM pace WHERE run = ? ORDER BY minute", e));
    sqlite3_bind_int64(s, 1, r->run.run);
    LAM_TRY(lmi_take_rows(r, s, read_minute, NULL, sizeof(lmi_minute), &got, e));
    sum_minutes(got.rows, got.n, &r->run);
    return LAM_OK;
}

/* == what recording costs ============================================================================== */

/* At least so many calls for each of a recorded step lie between it and the next; and the time of these is
 * not so many times the usual one, as with a validation among them. */
enum { FAR = 10, PAUSE = 2 };

typedef struct both {
    double recorded, between, calls; /* nanoseconds of a step */
} both;

/* A recorded step, and the mean of those until the next one that is recorded. */
static bool compare(const lmi_root *root, const lmi_step *newer, const lmi_step *older, both *out) {
    int64_t ns;
    const int64_t calls = newer->number - older->number, own = older->calls;
    if (older->whole < 0 || own < 1 || calls < FAR * own) return false;
    if (lmi_sub_over(newer->t0_ns, older->t0_ns, &ns) || ns <= older->whole) return false;
    if (ns / calls > PAUSE * root->info.call_ns.median) return false;
    *out = (both){(double)older->whole, (double)(ns - older->whole) / (double)(calls - own) * (double)own,
                  (double)calls};
    return true;
}

/* The sum of squares, each by its weight, of what is not the mean. */
static double spread(const lmi_root *root, double mean) {
    const lmi_step *newer = NULL;
    double sum = 0;
    both b;
    for (int64_t i = 0; i < root->n_steps; i++) {
        const lmi_step *s = &root->steps[i];
        if (!lmi_speaks(s)) continue;
        if (newer && compare(root, newer, s, &b)) sum += pow(b.calls * (b.recorded - mean), 2);
        newer = s;
    }
    return sum;
}

void lmi_sum_cost(lmi_root *root) {
    lam_recorded_model *m = &root->info;
    const lmi_step *newer = NULL;
    double recorded = 0, between = 0, calls = 0;
    both b;
    for (int64_t i = 0; root->uniform && i < root->n_steps; i++) {
        const lmi_step *s = &root->steps[i]; /* the newest is first */
        if (!lmi_speaks(s)) continue;
        if (newer && compare(root, newer, s, &b)) {
            m->cost.n++;
            recorded += b.calls * b.recorded;
            between += b.calls * b.between;
            calls += b.calls;
        }
        newer = s;
    }
    if (!m->cost.n) return;
    m->cost.recorded_ns = (int64_t)(recorded / calls);
    m->cost.between_ns = (int64_t)(between / calls);
    m->cost.error_ns = (int64_t)(sqrt(spread(root, recorded / calls)) / calls);
}
