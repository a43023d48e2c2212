/* SPDX-License-Identifier: Apache-2.0
 *
 * Recordings in Prometheus' text format, as node_exporter's textfile collector reads it: base units, a series
 * for each number of a rank, and none by layer, of which there would be too many. Source of the format:
 * prometheus.io/docs/instrumenting/exposition_formats. */
#include "report/recorded/recorded.h"

#include <math.h>
#include <stdlib.h>

typedef struct source {
    const lam_recorded_run *run;
    const lam_recorded_model *m; /* its main model; NULL: no step was recorded yet */
} source;

/* -- numbers; false: not known, and so not written ------------------------------------------------------- */

static bool put_whole(lmi_buf *b, int64_t n) {
    if (n >= 0) lmi_put_int(b, n);
    return n >= 0;
}

static bool put_calls(const source *s, lmi_buf *b) { return put_whole(b, s->run->calls); }

static bool put_steps(const source *s, lmi_buf *b) {
    return s->m && put_whole(b, s->m->n_steps + s->m->warmed_up);
}

static bool put_failed(const source *s, lmi_buf *b) { return s->m && put_whole(b, s->m->failed); }
static bool put_nonfinite(const source *s, lmi_buf *b) { return s->m && put_whole(b, s->m->nonfinite); }

static bool put_seen(const source *s, lmi_buf *b) {
    lmi_put_fixed(b, (double)s->run->seen_unix_ns / 1e9, 3);
    return true;
}

static bool put_peak(const source *s, lmi_buf *b) {
    if (!s->m) return false;
    const lam_middle peak = s->m->device_peak_bytes.n ? s->m->device_peak_bytes : s->m->peak_bytes;
    return put_whole(b, peak.n ? peak.median : -1);
}

static bool put_used(lmi_buf *b, const source *s, double share, bool at_least) {
    const bool known = s->m && !isnan(share) && s->m->used.at_least == at_least;
    if (known) lmi_put_nine(b, share);
    return known;
}

static double mfu_of(const source *s) { return s->m ? s->m->used.mfu : NAN; }
static double hfu_of(const source *s) { return s->m ? s->m->used.hfu : NAN; }
static bool put_mfu(const source *s, lmi_buf *b) { return put_used(b, s, mfu_of(s), false); }
static bool put_least_mfu(const source *s, lmi_buf *b) { return put_used(b, s, mfu_of(s), true); }
static bool put_hfu(const source *s, lmi_buf *b) { return put_used(b, s, hfu_of(s), false); }
static bool put_least_hfu(const source *s, lmi_buf *b) { return put_used(b, s, hfu_of(s), true); }

static const struct metric {
    const char *name, *type, *help;
    bool (*put)(const source *s, lmi_buf *b);
} metrics[] = {
    {"lamina_calls_total", "counter", "Calls of the models of the process, recorded or not.", put_calls},
    {"lamina_recorded_steps_total", "counter", "Steps that were recorded.", put_steps},
    {"lamina_failed_steps_total", "counter", "Recorded steps that raised an exception.", put_failed},
    {"lamina_nonfinite_total", "counter", "Recorded steps with a NaN or Inf.", put_nonfinite},
    {"lamina_peak_bytes", "gauge", "Median peak of memory in a step, of the GPU if there is one.", put_peak},
    {"lamina_mfu", "gauge", "Model FLOPs utilization, from 0 to 1.", put_mfu},
    {"lamina_mfu_at_least", "gauge", "The same, where it is a lower bound.", put_least_mfu},
    {"lamina_hfu", "gauge", "Hardware FLOPs utilization: with work that the backward repeats.", put_hfu},
    {"lamina_hfu_at_least", "gauge", "The same, where it is a lower bound.", put_least_hfu},
    {"lamina_seen_timestamp_seconds", "gauge", "When the process last wrote to its recording.", put_seen},
};

/* -- series ---------------------------------------------------------------------------------------------- */

static void put_head(lmi_buf *b, const char *name, const char *type, const char *help) {
    lmi_putf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* In a value a backslash, a quote and a new line are escaped. */
static void put_labels(lmi_buf *b, const source *s, const char *phase) {
    lmi_putf(b, "{rank=\"%d\",model=\"", (int)s->run->rank);
    for (const char *at = s->m ? s->m->name : ""; *at; at++) {
        if (*at == '\\' || *at == '"' || *at == '\n') lmi_putc(b, '\\');
        lmi_putc(b, *at == '\n' ? 'n' : *at);
    }
    lmi_putc(b, '"');
    if (phase) lmi_putf(b, ",phase=\"%s\"", phase);
    lmi_put(b, "} ");
}

/* Means of the phases, which add up to the step; one that is unknown is a part of `other`. */
static void put_phases(lmi_buf *b, const source *all, int32_t n) {
    static const char name[] = "lamina_step_seconds";
    put_head(b, name, "gauge", "Mean time of a step by phase; the phases of a rank add up to its step.");
    for (int32_t i = 0; i < n; i++)
        for (int k = 0; all[i].m && all[i].m->phases.n && k < LAM_N_STEP_PHASES; k++) {
            if (all[i].m->phases.ns[k] < 0) continue;
            lmi_put(b, name);
            put_labels(b, &all[i], lam_step_phase_name((lam_step_phase)k));
            lmi_put_nine(b, (double)all[i].m->phases.ns[k] / 1e9);
            lmi_putc(b, '\n');
        }
}

static void put_metric(lmi_buf *b, const struct metric *of, const source *all, int32_t n) {
    put_head(b, of->name, of->type, of->help);
    for (int32_t i = 0; i < n; i++) {
        const size_t before = b->n;
        lmi_put(b, of->name);
        put_labels(b, &all[i], NULL);
        if (of->put(&all[i], b))
            lmi_putc(b, '\n');
        else if (!b->bad)
            b->n = before;
    }
}

static lam_status write_all(const lmi_recorded *w, const source *all, lam_sink to) {
    lmi_buf b;
    lmi_buf_init(&b);
    put_phases(&b, all, w->n);
    for (size_t k = 0; k < sizeof metrics / sizeof *metrics; k++) put_metric(&b, &metrics[k], all, w->n);
    const lam_status s = lmi_buf_flush(&b, to, w->e);
    lmi_buf_free(&b);
    return s;
}

lam_status lam_recording_prometheus(const lam_recording *const *all, int32_t n, lam_sink to, lam_error *e) {
    static const lam_recording_options o = {.depth = -1};
    if (!all || n < 1) return lmi_fail(e, LAM_USAGE, NULL, "there is no recording to export");
    const lmi_recorded w = {.all = all, .n = n, .o = &o, .e = e};
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; k < i; k++)
            if (lam_recording_run(all[i])->rank == lam_recording_run(all[k])->rank)
                return lmi_fail(e, LAM_USAGE, lam_recording_run(all[i])->file,
                                "it is of rank %d, as is %s; name one recording of each rank",
                                (int)lam_recording_run(all[i])->rank, lam_recording_run(all[k])->file);
    int32_t *model = calloc((size_t)n, sizeof *model);
    source *of = calloc((size_t)n, sizeof *of);
    lam_status s = model && of ? LAM_OK : lmi_nomem(e);
    if (s == LAM_OK) lmi_recorded_mains(&w, model);
    for (int32_t i = 0; s == LAM_OK && i < n; i++)
        of[i] = (source){lam_recording_run(all[i]), lam_recording_model(all[i], model[i])};
    if (s == LAM_OK) s = write_all(&w, of, to);
    free(model);
    free(of);
    return s;
}
