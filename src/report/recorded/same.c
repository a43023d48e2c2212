/* SPDX-License-Identifier: Apache-2.0
 *
 * What is the same in the recordings of several processes: the run, a model, a place. */
#include "report/recorded/work.h"

#include <stdlib.h>

/* A model that was not seen yet may be of any kind. */
static bool is_same_kind(const lam_recorded_model *a, const lam_recorded_model *b) {
    if (a->last < 0) return true;
    bool calls = a->most_calls == b->most_calls || (a->least_calls < a->most_calls && b->most_calls > 1);
    return a->training == b->training && a->gradients == b->gradients && a->compiled == b->compiled &&
           a->went_back == b->went_back && calls;
}

/* Processes may have called their models in another order. Of several of one name the first is taken. */
int32_t lmi_recorded_index(const lmi_recorded *w, int32_t i) {
    const lam_recorded_model *m, *wanted = lam_recording_model(w->all[0], w->model);
    if (i == 0 || !wanted) return w->model;
    for (int32_t k = 0; (m = lam_recording_model(w->all[i], k)); k++)
        if (strcmp(m->name, wanted->name) == 0 && is_same_kind(wanted, m)) return k;
    return -1;
}

const lam_recorded_model *lmi_recorded_model(const lmi_recorded *w, int32_t i) {
    return lam_recording_model(w->all[i], lmi_recorded_index(w, i));
}

const lam_recorded_place *lmi_recorded_place_like(const lam_recording *r, int32_t model,
                                                  const lam_recorded_place *p, int32_t i) {
    const lam_recorded_place *there = lam_recording_place(r, model, i);
    if (there && strcmp(there->path, p->path) == 0) return there;
    for (i = 0; (there = lam_recording_place(r, model, i)); i++)
        if (strcmp(there->path, p->path) == 0) return there;
    return NULL;
}

/* One process of several, and not two runs that may be compared. */
static bool is_copy(const lam_recorded_run *a, const lam_recorded_run *b) {
    const bool hosts = a->host && b->host && strcmp(a->host, b->host) == 0;
    return hosts && a->world > 1 && a->world == b->world && a->rank == b->rank && a->pid == b->pid &&
           a->run == b->run && a->started_unix_ns == b->started_unix_ns && a->seen_unix_ns == b->seen_unix_ns;
}

/* All are of one job, which has a name, and of several ranks: starts of one rank alone are compared. */
static bool are_of_one_job(const lam_recording *const *all, int32_t n) {
    const char *job = n ? lam_recording_run(all[0])->job : NULL;
    bool several = false;
    for (int32_t i = 0; i < n; i++) {
        const lam_recorded_run *run = lam_recording_run(all[i]);
        if (!job || run->world < 2 || !run->job || strcmp(run->job, job) != 0) return false;
        several = several || run->rank != lam_recording_run(all[0])->rank;
    }
    return several;
}

/* Whether another recording of the same rank comes before the i-th: of a later start; or of the same one, and
 * seen later. */
static bool has_before(const lam_recording *const *all, int32_t n, int32_t i, bool later) {
    const lam_recorded_run *a = lam_recording_run(all[i]);
    for (int32_t k = 0; k < n; k++) {
        const lam_recorded_run *b = lam_recording_run(all[k]);
        const int64_t more = lmi_recorded_attempt(b) - lmi_recorded_attempt(a);
        const int64_t newer = b->seen_unix_ns - a->seen_unix_ns;
        if (k == i || a->rank != b->rank) continue;
        if (later ? more > 0 : more == 0 && (newer > 0 || (newer == 0 && k < i))) return true;
    }
    return false;
}

/* Leaves out those that another one took over, and puts the newest start of each rank first. A start with
 * another number of ranks than the newest has is an earlier one, too. */
static lam_status sort_job(lmi_recorded *w, const lam_recording **all, int32_t n) {
    const lam_recording **out = calloc((size_t)n, sizeof *out);
    bool *older = calloc((size_t)n, sizeof *older);
    const lam_recorded_run *newest = lam_recording_run(all[0]);
    int32_t kept = 0;
    if (!out || !older) {
        free((void *)out);
        free(older);
        return lmi_nomem(w->e);
    }
    for (int32_t i = 1; i < n; i++)
        if (lmi_recorded_attempt(lam_recording_run(all[i])) > lmi_recorded_attempt(newest))
            newest = lam_recording_run(all[i]);
    for (int32_t i = 0; i < n; i++)
        older[i] = has_before(all, n, i, true) || lam_recording_run(all[i])->world != newest->world;
    for (int part = 0; part < 2; part++)
        for (int32_t i = 0; i < n; i++) {
            if (older[i] != (part == 1)) continue;
            if (has_before(all, n, i, false))
                w->replaced++;
            else
                out[kept++] = all[i];
        }
    w->n = 0;
    for (int32_t i = 0; i < n; i++) w->n += !older[i] && !has_before(all, n, i, false);
    w->n_older = kept - w->n;
    memcpy((void *)all, (const void *)out, (size_t)kept * sizeof *out);
    free((void *)out);
    free(older);
    return LAM_OK;
}

lam_status lmi_recorded_sort(lmi_recorded *w, const lam_recording *const *all, int32_t n) {
    const lam_recording **out = calloc((size_t)n, sizeof *out);
    if (!out) return lmi_nomem(w->e);
    w->n = 0;
    for (int32_t i = 0, k; i < n; i++) {
        for (k = 0; k < w->n; k++)
            if (is_copy(lam_recording_run(out[k]), lam_recording_run(all[i]))) break;
        if (k == w->n) out[w->n++] = all[i];
    }
    w->copies = n - w->n;
    w->all = out;
    w->of_one_job = are_of_one_job(out, w->n);
    return w->of_one_job ? sort_job(w, out, w->n) : LAM_OK;
}

const char *lmi_recorded_unlike(const lmi_recorded *w) {
    const lam_recorded_run *first = lam_recording_run(w->all[0]);
    for (int32_t i = 1; i < w->n; i++) {
        const lam_recorded_run *run = lam_recording_run(w->all[i]);
        if (run->world != first->world) return "they differ in how many processes there were";
        if (run->world > 1 && run->job && first->job && strcmp(run->job, first->job) != 0)
            return "they are of several jobs";
        for (int32_t k = 0; k < i && run->world > 1; k++)
            if (lam_recording_run(w->all[k])->rank == run->rank) return "two are of the same rank";
    }
    return NULL;
}
