/* SPDX-License-Identifier: Apache-2.0
 *
 * What is the same in the recordings of several processes: the run, a model, a place. */
#include "report/recorded/recorded.h"

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

const lam_recording **lmi_recorded_once(const lam_recording *const *all, int32_t n, int32_t *left) {
    const lam_recording **out = calloc((size_t)n, sizeof *out);
    *left = 0;
    for (int32_t i = 0, k; out && i < n; i++) {
        for (k = 0; k < *left; k++)
            if (is_copy(lam_recording_run(out[k]), lam_recording_run(all[i]))) break;
        if (k == *left) out[(*left)++] = all[i];
    }
    return out;
}

const char *lmi_recorded_unlike(const lmi_recorded *w) {
    const lam_recorded_run *first = lam_recording_run(w->all[0]);
    for (int32_t i = 1; i < w->n; i++) {
        const lam_recorded_run *run = lam_recording_run(w->all[i]);
        if (run->world != first->world) return "they differ in how many processes there were";
        for (int32_t k = 0; k < i && run->world > 1; k++)
            if (lam_recording_run(w->all[k])->rank == run->rank) return "two are of the same rank";
    }
    return NULL;
}
