/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums up many steps: which of them count, and the median of each number over them. Layers have a row in each
 * step; their medians are computed from rollups and from the rows of later steps. */
#include "base/sqlite.h"
#include "store/bins.h"

#include <stdlib.h>

enum { MOST_ROWS = 1 << 18 }; /* rows that are in memory at once */

/* See lam_recorded_model. */
static bool does_count(const lmi_root *root, const lmi_step *s) {
    return !(s->number == 0 && root->info.last > 0) && !s->failed;
}

/* -- medians ----------------------------------------------------------------------------------- */

/* A number of a step, and how many steps it represents. */
typedef struct weighed {
    int64_t value, weight;
} weighed;

static int by_value(const void *a, const void *b) {
    const int64_t x = ((const weighed *)a)->value, y = ((const weighed *)b)->value;
    return (x > y) - (x < y);
}

/* The median of a list that has each value as often as its weight. */
static int64_t median_of(weighed *of, size_t n) {
    int64_t total = 0, before = 0, low = 0;
    qsort(of, n, sizeof *of, by_value);
    for (size_t i = 0; i < n; i++) total += of[i].weight;
    for (size_t i = 0; i < n; i++) {
        const int64_t after = before + of[i].weight;
        if (before <= (total - 1) / 2 && (total - 1) / 2 < after) low = of[i].value;
        if (total / 2 < after) return low + (of[i].value - low) / 2;
        before = after;
    }
    return low;
}

/* The median of the known (not negative) values; overwrites `of`. */
static lam_middle middle(weighed *of, size_t n) {
    size_t known = 0;
    for (size_t i = 0; i < n; i++)
        if (of[i].value >= 0) of[known++] = of[i];
    lam_middle m = {0, 0, (int64_t)known};
    if (!known) return m;
    m.median = median_of(of, known);
    for (size_t i = 0; i < known; i++)
        of[i].value = of[i].value < m.median ? m.median - of[i].value : of[i].value - m.median;
    m.deviation = median_of(of, known);
    return m;
}

/* -- a root ------------------------------------------------------------------------------------ */

static void note_steps(lmi_root *root) {
    lam_recorded_model *m = &root->info;
    m->last = -1;
    for (int64_t i = 0; i < root->n_steps; i++) {
        const lmi_step *s = &root->steps[i];
        if (s->number > m->last) m->last = s->number;
        m->failed += s->failed;
        m->warmed_up = m->warmed_up || (s->number == 0 && !s->failed);
    }
    m->warmed_up = m->warmed_up && m->last > 0;
}

/* Nanoseconds per call of that mode, between two recorded steps. */
static int64_t pace(const lmi_step *newer, const lmi_step *older) {
    int64_t calls = newer->number - older->number, ns;
    if (calls <= 0 || lmi_sub_over(newer->t0_ns, older->t0_ns, &ns) || ns < 0) return -1;
    return ns / calls <= LMI_MOST ? ns / calls : -1;
}

/* Nanoseconds from the start of a step to that of the next, if they follow from the time of a call. */
static int64_t of_calls(const lmi_root *root, int64_t call) {
    int64_t step;
    if (!root->uniform || call < 0 || lmi_mul_over(call, root->info.least_calls, &step)) return -1;
    return step <= LMI_MOST ? step : -1;
}

bool lam_recording_step(const lam_recording *r, int32_t model, int64_t i, lam_recorded_step *out) {
    if (!lam_recording_model(r, model) || i < 0 || i >= r->roots[model].n_steps) return false;
    const lmi_root *root = &r->roots[model];
    const lmi_step *s = &root->steps[root->n_steps - 1 - i], *newer = s;
    *out = (lam_recorded_step){.number = s->number,
                               .unix_ns = s->unix_ns,
                               .calls = s->calls,
                               .represents = root->every == LAM_THINNING ? s->weight : root->every,
                               .counts = does_count(root, s),
                               .failed = s->failed != 0,
                               .looked = s->looked != 0,
                               .bad = s->bad,
                               .first_bad = (int32_t)s->first_bad,
                               .forward_ns = s->forward,
                               .backward_ns = s->backward,
                               .peak_bytes = s->peak,
                               .step_ns = -1,
                               .device_forward_ns = s->device_forward,
                               .device_backward_ns = s->device_backward,
                               .device_peak_bytes = s->device_peak,
                               .whole_ns = s->whole,
                               .processor_wait_ns = s->processor_wait,
                               .collectives = s->collectives,
                               .collectives_hash = s->collectives_hash};
    memcpy(out->phase_ns, s->phases, sizeof out->phase_ns);
    if (!out->counts) return true;
    do {
        if (newer == root->steps) return true; /* the newest step is first */
        newer--;
    } while (!does_count(root, newer));
    out->step_ns = of_calls(root, pace(newer, s));
    return true;
}

static void sum_phases(lmi_root *root) {
    lam_recorded_model *m = &root->info;
    double weight = 0, whole = 0, processor = 0, ns[LAM_N_STEP_PHASES] = {0};
    bool knows_processor = true;
    for (int k = 0; k < LAM_N_STEP_PHASES; k++) m->phases.ns[k] = -1;
    for (int64_t i = 0; i < root->n_steps; i++) {
        const lmi_step *s = &root->steps[i];
        if (!does_count(root, s) || s->phases[LAM_STEP_OTHER] < 0) continue;
        m->phases.n++;
        weight += (double)s->weight;
        whole += (double)s->weight * (double)s->whole;
        knows_processor = knows_processor && s->processor_wait >= 0;
        processor += (double)s->weight * (double)s->processor_wait;
        for (int k = 0; k < LAM_N_STEP_PHASES; k++) {
            if (s->phases[k] >= 0) m->phases.ns[k] = 0; /* known, if only of some steps */
            if (s->phases[k] <= 0) continue;
            m->phases.steps[k]++;
            ns[k] += (double)s->weight * (double)s->phases[k];
        }
    }
    m->phases.processor_ns = knows_processor && m->phases.n ? (int64_t)(processor / weight) : -1;
    if (!m->phases.n) return;
    m->phases.whole_ns = (int64_t)(whole / weight);
    int64_t rest = m->phases.whole_ns; /* what the others leave, so that rounded means add up too */
    for (int k = 0; k < LAM_STEP_OTHER; k++)
        if (m->phases.ns[k] == 0) rest -= m->phases.ns[k] = (int64_t)(ns[k] / weight);
    m->phases.ns[LAM_STEP_OTHER] = rest > 0 ? rest : 0;
}

static void sum_health(lmi_root *root) {
    lam_recorded_model *m = &root->info;
    m->nonfinite = m->first_bad = -1;
    m->first_bad_step = -1;
    for (int64_t i = 0; i < root->n_steps; i++) {
        const lmi_step *s = &root->steps[i];
        if (!s->looked) continue;
        if (m->nonfinite < 0) m->nonfinite = 0;
        if (!s->bad) continue;
        m->nonfinite++;
        m->first_bad = (int32_t)s->first_bad; /* newest first: the earliest is set last */
        m->first_bad_step = s->number;
    }
}

static lam_status sum_root(lmi_root *root, lam_error *e) {
    size_t n = (size_t)root->n_steps;
    enum { FORWARD, BACKWARD, STEP, CALL, PEAK, DEVICE_FORWARD, DEVICE_BACKWARD, DEVICE_PEAK, N };
    lam_recorded_model *info = &root->info;
    lam_middle *const to[N] = {&info->forward_ns,
                               &info->backward_ns,
                               &info->step_ns,
                               &info->call_ns,
                               &info->peak_bytes,
                               &info->device_forward_ns,
                               &info->device_backward_ns,
                               &info->device_peak_bytes};
    weighed *values = calloc(n + 1, sizeof *values * N);
    if (!values) return lmi_nomem(e);
    const lmi_step *newer = NULL;
    size_t k = 0;
    note_steps(root);
    for (size_t i = 0; i < n; i++) {
        const lmi_step *s = &root->steps[i];
        if (!does_count(root, s)) continue;
        const int64_t call = newer ? pace(newer, s) : -1;
        const int64_t of_step[N] = {s->forward, s->backward,       of_calls(root, call), call,
                                    s->peak,    s->device_forward, s->device_backward,   s->device_peak};
        for (size_t what = 0; what < N; what++) values[what * n + k] = (weighed){of_step[what], s->weight};
        k++;
        newer = s;
    }
    info->n_steps = (int64_t)k;
    for (size_t what = 0; what < N; what++) *to[what] = middle(values + what * n, k);
    sum_health(root);
    sum_phases(root);
    lmi_sum_cost(root);
    free(values);
    return LAM_OK;
}

/* -- its places -------------------------------------------------------------------------------- */

/* The layers of a root: their rows if there are few, otherwise bins. */
typedef struct layers {
    lmi_vec rows; /* lmi_measure */
    lmi_layer_sums sums;
    bool in_bins;
} layers;

static bool is_read(const lmi_root *root, const lmi_step *s) {
    return does_count(root, s) && !lmi_rolled_up(root, s);
}

/* True if there may be too many rows: each step may have a row of each place. */
static bool are_many(const lmi_root *root) {
    int64_t steps = 0;
    for (int64_t i = 0; i < root->n_steps; i++) steps += is_read(root, &root->steps[i]);
    return root->n_rollups > 0 || steps > MOST_ROWS / (root->info.n_places + 1);
}

static lam_status read_rows(const lmi_db *d, const lmi_root *root, sqlite3_stmt *s, const int32_t *ends,
                            layers *to, lam_error *e) {
    for (int64_t i = 0; i < root->n_steps; i++) {
        if (!is_read(root, &root->steps[i])) continue;
        LAM_TRY(lmi_read_step_rows(d, s, root, &root->steps[i], ends, &to->rows, e));
        if (!to->in_bins) continue;
        LAM_TRY(lmi_sums_add(&to->sums, to->rows.data, to->rows.n, e));
        to->rows.n = 0;
    }
    return LAM_OK;
}

static lam_status read_layers(const lmi_db *d, const lmi_root *root, layers *to, lam_error *e) {
    sqlite3_stmt *s;
    to->in_bins = are_many(root);
    if (to->in_bins) LAM_TRY(lmi_sums_new(&to->sums, root->info.n_places, e));
    const int64_t weight = lmi_weight(root, LMI_MOST);
    for (int64_t i = 0; i < root->n_rollups; i++)
        LAM_TRY(lmi_sums_read(d, &root->rollups[i], weight, &to->sums, e));
    LAM_TRY(lmi_db_prepare(d, &s, lmi_layers(d), e));
    int32_t *ends = lmi_ends(root);
    lam_status status = ends ? read_rows(d, root, s, ends, to, e) : lmi_nomem(e);
    free(ends);
    lmi_db_done(s);
    return status;
}

/* The sum of the medians that are known; -1 if neither is. */
static int64_t both(lam_middle a, lam_middle b) {
    int64_t sum;
    if (!a.n && !b.n) return -1;
    return lmi_add_over(a.n ? a.median : 0, b.n ? b.median : 0, &sum) ? -1 : sum;
}

static lam_middle *told_of(lam_recorded_place *p, int number) {
    return (lam_middle *)((char *)p + lmi_numbers[number].place);
}

static void sum_rows(lam_recorded_place *p, const lmi_measure *rows, size_t n, weighed *room) {
    p->n_steps = (int64_t)n;
    for (int k = 0; k < LMI_N_NUMBERS; k++) {
        const char *first = (const char *)rows + lmi_numbers[k].measure;
        for (size_t i = 0; i < n; i++)
            room[i] = (weighed){*(const int64_t *)(first + i * sizeof *rows), rows[i].weight};
        *told_of(p, k) = middle(room, n);
    }
    for (size_t i = 0; i < n; i++) {
        if (rows[i].nan < 0 && rows[i].inf < 0) continue;
        if (p->nonfinite < 0) p->nonfinite = 0;
        if (rows[i].nan > 0 || rows[i].inf > 0) p->nonfinite++;
    }
}

static void sum_bins(lam_recorded_place *p, const lmi_layer_sum *of) {
    p->n_steps = of->steps;
    for (int k = 0; k < LMI_N_NUMBERS; k++) *told_of(p, k) = lmi_bins_middle(&of->of[k]);
    if (of->looked) p->nonfinite = of->nonfinite;
}

static lam_status sum_layers(lmi_root *root, layers *of, lam_error *e) {
    lmi_measure *all = of->rows.data;
    weighed *room = calloc(of->rows.n + 1, sizeof *room);
    if (!room) return lmi_nomem(e);
    if (of->rows.n) qsort(all, of->rows.n, sizeof *all, lmi_by_place);
    for (size_t i = 0, n; i < of->rows.n; i += n) {
        for (n = 1; i + n < of->rows.n && all[i + n].place == all[i].place;) n++;
        sum_rows(&root->places[all[i].place], &all[i], n, room);
    }
    for (int32_t i = 0; i < of->sums.n; i++)
        if (of->sums.all[i]) sum_bins(&root->places[i], of->sums.all[i]);
    free(room);
    return LAM_OK;
}

static lam_status sum_places(lam_recording *r, lmi_root *root, lam_error *e) {
    const bool device = root->info.device_forward_ns.n > 0;
    layers of = {.in_bins = false};
    lmi_vec_init(&of.rows, sizeof(lmi_measure));
    for (int32_t i = 0; i < root->info.n_places; i++) root->places[i].nonfinite = -1;
    lam_status s = read_layers(&r->db, root, &of, e);
    if (s == LAM_OK) s = sum_layers(root, &of, e);
    for (int32_t i = 0; i < root->info.n_places; i++) {
        lam_recorded_place *p = &root->places[i];
        p->own_ns =
            device ? both(p->device_self_ns, p->device_backward_ns) : both(p->self_ns, p->backward_ns);
    }
    lmi_vec_free(&of.rows);
    lmi_sums_free(&of.sums);
    return s;
}

lam_status lmi_sum_up(lam_recording *r, lam_error *e) {
    for (int32_t i = 0; i < r->run.n_models; i++) {
        LAM_TRY(sum_root(&r->roots[i], e));
        lmi_sum_used(r, &r->roots[i]);
        if (!r->steps_alone) LAM_TRY(sum_places(r, &r->roots[i], e));
    }
    return LAM_OK;
}
