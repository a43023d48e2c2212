/* SPDX-License-Identifier: Apache-2.0
 *
 * Many steps summed up: which of them count, and the median of each number over them. */
#include "store/read.h"

#include <sqlite3.h>
#include <stdlib.h>

enum { MOST_ROWS = 4000000 }; /* that are held at once: newer steps win */

bool lmi_counts(const lmi_root *root, const lmi_step *s) {
    return !(s->number == 0 && root->told.last > 0) && !s->failed;
}

/* -- medians ----------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t median(int64_t *of, size_t n) {
    qsort(of, n, sizeof *of, by_size);
    int64_t low = of[(n - 1) / 2], high = of[n / 2];
    return low + (high - low) / 2;
}

/* Of the values that are known (not negative); `of` is used up. */
static lam_middle middle(int64_t *of, size_t n) {
    size_t known = 0;
    for (size_t i = 0; i < n; i++)
        if (of[i] >= 0) of[known++] = of[i];
    lam_middle m = {0, 0, (int64_t)known};
    if (!known) return m;
    m.median = median(of, known);
    for (size_t i = 0; i < known; i++) of[i] = of[i] < m.median ? m.median - of[i] : of[i] - m.median;
    m.deviation = median(of, known);
    return m;
}

/* -- a root ------------------------------------------------------------------------------------ */

static void note_steps(lmi_root *root) {
    lam_recorded_model *m = &root->told;
    m->last = -1;
    for (int64_t i = 0; i < root->n_steps; i++) {
        const lmi_step *s = &root->steps[i];
        if (s->number > m->last) m->last = s->number;
        m->failed += s->failed;
        m->warmed_up = m->warmed_up || (s->number == 0 && !s->failed);
    }
    m->warmed_up = m->warmed_up && m->last > 0;
}

/* Nanoseconds from one call of that mode to the next, between two steps that were seen. */
static int64_t pace(const lmi_step *newer, const lmi_step *older) {
    int64_t calls = newer->number - older->number, ns;
    if (calls <= 0 || lmi_sub_over(newer->t0_ns, older->t0_ns, &ns) || ns < 0) return -1;
    return ns / calls <= LMI_MOST ? ns / calls : -1;
}

/* From the start of a step to that of the next, where that can be told from what lies between calls. */
static int64_t of_calls(const lmi_root *root, int64_t call) {
    int64_t step;
    if (!root->uniform || call < 0 || lmi_mul_over(call, root->told.least_calls, &step)) return -1;
    return step <= LMI_MOST ? step : -1;
}

static void sum_health(lmi_root *root) {
    lam_recorded_model *m = &root->told;
    m->nonfinite = m->first_bad = -1;
    m->first_bad_step = -1;
    for (int64_t i = 0; i < root->n_steps; i++) {
        const lmi_step *s = &root->steps[i];
        if (!s->looked) continue;
        if (m->nonfinite < 0) m->nonfinite = 0;
        if (!s->bad) continue;
        m->nonfinite++;
        m->first_bad = (int32_t)s->first_bad; /* they come newest first */
        m->first_bad_step = s->number;
    }
}

static lam_status sum_root(lmi_root *root, lam_error *e) {
    size_t n = (size_t)root->n_steps;
    enum { FORWARD, BACKWARD, STEP, CALL, PEAK, DEVICE_FORWARD, DEVICE_BACKWARD, DEVICE_PEAK, N };
    lam_recorded_model *told = &root->told;
    lam_middle *const to[N] = {&told->forward_ns,
                               &told->backward_ns,
                               &told->step_ns,
                               &told->call_ns,
                               &told->peak_bytes,
                               &told->device_forward_ns,
                               &told->device_backward_ns,
                               &told->device_peak_bytes};
    int64_t *values = calloc(n + 1, sizeof *values * N);
    if (!values) return lmi_nomem(e);
    const lmi_step *newer = NULL;
    size_t k = 0;
    note_steps(root);
    for (size_t i = 0; i < n; i++) {
        const lmi_step *s = &root->steps[i];
        if (!lmi_counts(root, s)) continue;
        const int64_t call = newer ? pace(newer, s) : -1;
        const int64_t of_step[N] = {s->forward, s->backward,       of_calls(root, call), call,
                                    s->peak,    s->device_forward, s->device_backward,   s->device_peak};
        for (size_t what = 0; what < N; what++) values[what * n + k] = of_step[what];
        k++;
        newer = s;
    }
    told->n_steps = (int64_t)k;
    for (size_t what = 0; what < N; what++) *to[what] = middle(values + what * n, k);
    sum_health(root);
    free(values);
    return LAM_OK;
}

/* -- its places -------------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b) {
    int32_t x = ((const lmi_measure *)a)->place, y = ((const lmi_measure *)b)->place;
    return (x > y) - (x < y);
}

/* Places below another one follow it: the first that does not, of each. */
static int32_t *ends_of(const lmi_root *root) {
    const int32_t n = root->told.n_places;
    int32_t *end = calloc((size_t)n + 1, sizeof *end);
    for (int32_t i = n - 1; end && i >= 0; i--) {
        const int32_t parent = root->places[i].parent;
        if (end[i] <= i) end[i] = i + 1;
        if (parent >= 0 && end[parent] < end[i]) end[parent] = end[i];
    }
    return end;
}

/* What came before some row of a step: sums may go beyond what is a number, and come back. */
typedef struct before {
    uint64_t ns;
    size_t known;
} before;

/* The rows of one step: what is known of a place is also that of those around it. */
static lam_status add_backward(const int32_t *end, lmi_measure *rows, size_t n, lam_error *e) {
    before *sums = calloc(n + 1, sizeof *sums);
    if (!sums) return lmi_nomem(e);
    qsort(rows, n, sizeof *rows, by_place);
    for (size_t i = 0; i < n; i++) {
        const bool known = rows[i].backward >= 0;
        sums[i + 1] = (before){sums[i].ns + (known ? (uint64_t)rows[i].backward : 0), sums[i].known + known};
    }
    for (size_t i = 0; i < n; i++) {
        size_t from = i, to = n; /* the first row that is not below it lies there */
        while (from < to) {
            const size_t middle = from + (to - from) / 2;
            if (rows[middle].place < end[rows[i].place])
                from = middle + 1;
            else
                to = middle;
        }
        const uint64_t ns = sums[from].ns - sums[i].ns;
        const bool known = sums[from].known > sums[i].known && ns <= LMI_MOST;
        rows[i].total_backward = known ? (int64_t)ns : -1;
    }
    free(sums);
    return LAM_OK;
}

static lam_status read_rows(const lam_recording *r, const lmi_root *root, sqlite3_stmt *s, lmi_vec *rows,
                            const int32_t *end, lam_error *e) {
    lam_status status = LAM_OK;
    for (int64_t i = 0; status == LAM_OK && i < root->n_steps && rows->n < MOST_ROWS; i++) {
        if (!lmi_counts(root, &root->steps[i])) continue;
        const size_t first = rows->n;
        bool more = true;
        sqlite3_bind_int64(s, 1, root->steps[i].id);
        while (status == LAM_OK && more) {
            lmi_measure *to = lmi_vec_push(rows);
            status = to ? lmi_read_layer(r, s, root, &more, to, e) : lmi_nomem(e);
        }
        lmi_vec_pop(rows);
        sqlite3_reset(s);
        if (status == LAM_OK)
            status = add_backward(end, (lmi_measure *)rows->data + first, rows->n - first, e);
    }
    return status;
}

static lam_status read_layers(const lam_recording *r, const lmi_root *root, lmi_vec *rows, lam_error *e) {
    sqlite3_stmt *s;
    LAM_TRY(lmi_db_prepare(&r->db, &s, lmi_layers(&r->db), e));
    int32_t *end = ends_of(root);
    lam_status status = end ? read_rows(r, root, s, rows, end, e) : lmi_nomem(e);
    free(end);
    lmi_db_done(s);
    return status;
}

static lam_middle middle_of(const lmi_measure *rows, size_t n, size_t at, int64_t *room) {
    for (size_t i = 0; i < n; i++) room[i] = *(const int64_t *)((const char *)&rows[i] + at);
    return middle(room, n);
}

/* What is known of it, of the two; -1: nothing. */
static int64_t both(lam_middle a, lam_middle b) {
    int64_t sum;
    if (!a.n && !b.n) return -1;
    return lmi_add_over(a.n ? a.median : 0, b.n ? b.median : 0, &sum) ? -1 : sum;
}

static void sum_place(lam_recorded_place *p, const lmi_measure *rows, size_t n, bool device, int64_t *room) {
#define MIDDLE(field) middle_of(rows, n, offsetof(lmi_measure, field), room)
    p->n_steps = (int64_t)n;
    p->calls = MIDDLE(calls);
    p->forward_ns = MIDDLE(forward);
    p->self_ns = MIDDLE(self);
    p->backward_ns = MIDDLE(backward);
    p->total_backward_ns = MIDDLE(total_backward);
    p->recompute_ns = MIDDLE(recompute);
    p->allocated_bytes = MIDDLE(allocated);
    p->retained_bytes = MIDDLE(retained);
    p->peak_bytes = MIDDLE(peak);
    p->device_forward_ns = MIDDLE(device_forward);
    p->device_self_ns = MIDDLE(device_self);
    p->device_backward_ns = MIDDLE(device_backward);
    p->device_recompute_ns = MIDDLE(device_recompute);
    p->device_retained_bytes = MIDDLE(device_retained);
    p->device_peak_bytes = MIDDLE(device_peak);
#undef MIDDLE
    p->own_ns = device ? both(p->device_self_ns, p->device_backward_ns) : both(p->self_ns, p->backward_ns);
    for (size_t i = 0; i < n; i++) {
        if (rows[i].nan < 0 && rows[i].inf < 0) continue;
        if (p->nonfinite < 0) p->nonfinite = 0;
        if (rows[i].nan > 0 || rows[i].inf > 0) p->nonfinite++;
    }
}

static lam_status sum_places(lam_recording *r, lmi_root *root, lam_error *e) {
    lmi_vec rows;
    const bool device = root->told.device_forward_ns.n > 0;
    lmi_vec_init(&rows, sizeof(lmi_measure));
    lam_status s = read_layers(r, root, &rows, e);
    int64_t *room = s == LAM_OK ? calloc(rows.n + 1, sizeof *room) : NULL;
    if (s == LAM_OK && !room) s = lmi_nomem(e);
    for (int32_t i = 0; i < root->told.n_places; i++) root->places[i].nonfinite = root->places[i].own_ns = -1;
    const lmi_measure *all = rows.data;
    if (s == LAM_OK && rows.n) qsort(rows.data, rows.n, sizeof(lmi_measure), by_place);
    for (size_t i = 0, n; s == LAM_OK && i < rows.n; i += n) {
        for (n = 1; i + n < rows.n && all[i + n].place == all[i].place;) n++;
        sum_place(&root->places[all[i].place], &all[i], n, device, room);
    }
    free(room);
    lmi_vec_free(&rows);
    return s;
}

lam_status lmi_sum_up(lam_recording *r, lam_error *e) {
    for (int32_t i = 0; i < r->run.n_models; i++) {
        LAM_TRY(sum_root(&r->roots[i], e));
        LAM_TRY(sum_places(r, &r->roots[i], e));
    }
    return LAM_OK;
}
