/* SPDX-License-Identifier: Apache-2.0
 *
 * Recordings held against the limits that are of them. */
#include "report/ranks/ranks.h"
#include "report/recorded/recorded.h"

#include <math.h>
#include <stdlib.h>

/* -- input --------------------------------------------------------------------------------------------- */

/* The main model of each process, by the means that `lamina show` prints. */
static void take_inputs(const lmi_recorded *w, const int32_t *model, double *share, int32_t *ranks,
                        lmi_inputs *in) {
    for (int32_t i = 0; i < w->n; i++) {
        const lam_recorded_model *m = lam_recording_model(w->all[i], model[i]);
        const bool known = m && m->phases.n && m->phases.whole_ns > 0 && m->phases.ns[LAM_STEP_INPUT] >= 0;
        ranks[i] = lam_recording_run(w->all[i])->rank;
        share[i] = known ? (double)m->phases.ns[LAM_STEP_INPUT] / (double)m->phases.whole_ns : NAN;
        if (known) continue;
        in->why = !m            ? "no step was recorded yet"
                  : m->phases.n ? lmi_phase_unknown(LAM_STEP_INPUT)
                                : "its steps were recorded without phases";
    }
    *in = (lmi_inputs){.share = share, .ranks = ranks, .n = w->n, .why = in->why};
    if (w->n == 1 && share[0] > 0) in->next = lmi_standout_next(LAM_STEP_INPUT);
}

/* -- the processes ------------------------------------------------------------------------------------- */

static lam_status no_others(const lmi_recorded *w, lam_error *e) {
    const char *unlike = lmi_recorded_unlike(w);
    if (w->n == 1)
        return lmi_fail(e, LAM_USAGE, "straggler",
                        "it compares ranks, and one recording has no others; name those of all ranks");
    return lmi_fail(e, LAM_USAGE, "straggler", "these recordings are not of the ranks of one run%s%s",
                    unlike ? ": " : "", unlike ? unlike : "");
}

static lam_status hold(const lmi_recorded *w, const lam_budget *b, lam_check *k) {
    const size_t n = (size_t)w->n;
    lam_ranks *r = NULL;
    lmi_inputs in = {.why = NULL};
    double *share = calloc(n, sizeof *share);
    int32_t *model = calloc(2 * n, sizeof *model);
    lam_status s = share && model ? LAM_OK : lmi_nomem(w->e);
    if (s == LAM_OK) {
        lmi_recorded_mains(w, model);
        take_inputs(w, model, share, model + n, &in);
    }
    if (s == LAM_OK && lmi_is_limited(b, LMI_FIGURE_STRAGGLER)) {
        s = lmi_recorded_judge(w, &r);
        if (s == LAM_OK && !r) s = no_others(w, w->e);
    }
    if (s == LAM_OK) s = lmi_ranks_hold(k, b, r, &in, w->e);
    lam_ranks_free(r);
    free(share);
    free(model);
    return s;
}

lam_status lam_check_recordings(lam_check **out, const char *name, const lam_recording *const *all, int32_t n,
                                int64_t now_unix_ns, const lam_budget *b, lam_error *e) {
    const lam_recording_options o = {.depth = -1, .now_unix_ns = now_unix_ns};
    *out = NULL;
    if (!all || n < 1) return lmi_fail(e, LAM_USAGE, NULL, "there is no recording to check");
    lmi_recorded w = {.o = &o, .e = e};
    lam_status s = lmi_check_begin(out, name, e);
    if (s == LAM_OK) s = lmi_recorded_sort(&w, all, n);
    if (s == LAM_OK) s = hold(&w, b, *out);
    free((void *)w.all);
    if (s == LAM_OK) return s;
    lam_check_free(*out);
    *out = NULL;
    return s;
}
