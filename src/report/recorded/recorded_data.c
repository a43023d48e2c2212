/* SPDX-License-Identifier: Apache-2.0
 *
 * Recordings as CSV and JSON: plain integers, nanoseconds and bytes; numbers that were not measured are null
 * or empty. */
#include "report/ranks/ranks.h"
#include "report/recorded/recorded.h"
#include "report/tell/tell.h"

#include <math.h>
#include <stdio.h>

/* -- CSV --------------------------------------------------------------------------------------- */

/* The numbers of a place in both formats, in this order. */
#define PLACE_NUMBERS(X)                                                                                     \
    X("calls", calls)                                                                                        \
    X("forward_ns", forward_ns)                                                                              \
    X("forward_self_ns", self_ns)                                                                            \
    X("backward_ns", backward_ns)                                                                            \
    X("total_backward_ns", total_backward_ns)                                                                \
    X("recompute_ns", recompute_ns)                                                                          \
    X("allocated_bytes", allocated_bytes)                                                                    \
    X("retained_bytes", retained_bytes)                                                                      \
    X("peak_bytes", peak_bytes)                                                                              \
    X("device_forward_ns", device_forward_ns)                                                                \
    X("device_self_ns", device_self_ns)                                                                      \
    X("device_backward_ns", device_backward_ns)                                                              \
    X("device_recompute_ns", device_recompute_ns)                                                            \
    X("device_retained_bytes", device_retained_bytes)                                                        \
    X("device_peak_bytes", device_peak_bytes)

static void csv_number(lmi_buf *b, int64_t n) {
    lmi_putc(b, ',');
    if (n >= 0) lmi_putf(b, "%lld", (long long)n);
}

static void csv_place(lmi_buf *b, const lam_recorded_run *run, const lam_recorded_model *m,
                      const lam_recorded_place *p) {
    lmi_putf(b, "%d,", (int)run->rank);
    lmi_put_csv(b, m->name);
    lmi_putf(b, ",%d", (int)m->training);
    csv_number(b, m->gradients);
    csv_number(b, m->went_back);
    csv_number(b, m->least_calls);
    csv_number(b, m->most_calls);
    lmi_putc(b, ',');
    lmi_put_csv(b, p->path);
    lmi_putc(b, ',');
    lmi_put_csv(b, p->type);
    csv_number(b, p->depth);
    csv_number(b, p->params);
    csv_number(b, p->local_params);
    csv_number(b, p->n_steps);
#define X(name, field)                                                                                       \
    csv_number(b, p->field.n ? p->field.median : -1);                                                        \
    csv_number(b, p->field.n ? p->field.deviation : -1);
    PLACE_NUMBERS(X)
#undef X
    csv_number(b, p->nonfinite);
    csv_number(b, m->compiled);
    csv_number(b, p->regions.n ? p->regions.median : -1);
    csv_number(b, p->regions.n ? p->regions.deviation : -1);
    lmi_putc(b, '\n');
}

lam_status lmi_recorded_csv(lmi_recorded *w) {
    lmi_put(&w->out, "rank,model,training,gradients,went_back,least_calls,most_calls,path,type,depth,params,"
                     "local_params,steps");
#define X(name, field) lmi_put(&w->out, "," name "," name "_deviation");
    PLACE_NUMBERS(X)
#undef X
    lmi_put(&w->out, ",nonfinite_steps,compiled,regions,regions_deviation\n");
    for (int32_t r = 0; r < w->n; r++) {
        const lam_recorded_model *m;
        const lam_recorded_place *p;
        for (int32_t i = 0; (m = lam_recording_model(w->all[r], i)); i++)
            for (int32_t k = 0; (p = lam_recording_place(w->all[r], i, k)); k++)
                csv_place(&w->out, lam_recording_run(w->all[r]), m, p);
    }
    return LAM_OK;
}

/* -- JSON -------------------------------------------------------------------------------------- */

static void tell_middle(lmi_teller *t, const char *name, lam_middle m) {
    if (!m.n) {
        tell_none(t, name);
        return;
    }
    tell_object(t, name);
    tell_int(t, "median", m.median);
    tell_int(t, "deviation", m.deviation);
    tell_int(t, "n", m.n);
    tell_end(t);
}

static void tell_maybe(lmi_teller *t, const char *name, int32_t yes) {
    if (yes < 0)
        tell_none(t, name);
    else
        tell_truth(t, name, yes != 0);
}

static void tell_place(lmi_teller *t, const lam_recorded_place *p) {
    tell_object(t, NULL);
    tell_text(t, "path", p->path);
    tell_text(t, "type", p->type);
    tell_known(t, "depth", p->depth);
    tell_known(t, "params", p->params);
    tell_known(t, "local_params", p->local_params);
    tell_known(t, "steps", p->n_steps);
#define X(name, field) tell_middle(t, name, p->field);
    PLACE_NUMBERS(X)
#undef X
    tell_middle(t, "regions", p->regions);
    tell_known(t, "nonfinite_steps", p->nonfinite);
    tell_end(t);
}

static void tell_phases(lmi_teller *t, const lam_recording *r, int32_t model) {
    const lam_recorded_model *m = lam_recording_model(r, model);
    lmi_standout most;
    if (!m->phases.n) {
        tell_none(t, "phases");
        return;
    }
    tell_object(t, "phases");
    tell_int(t, "steps", m->phases.n);
    tell_int(t, "step_ns", m->phases.whole_ns);
    tell_list(t, "of");
    for (int k = 0; k < LAM_N_STEP_PHASES; k++) {
        const bool known = m->phases.ns[k] >= 0;
        tell_object(t, NULL);
        tell_text(t, "phase", lam_step_phase_name((lam_step_phase)k));
        tell_known(t, "mean_ns", m->phases.ns[k]);
        tell_known(t, "steps", known ? m->phases.steps[k] : -1);
        tell_text(t, "why", known ? NULL : lmi_phase_unknown((lam_step_phase)k));
        tell_end(t);
    }
    tell_list_end(t);
    tell_known(t, "processor_wait_ns", m->phases.processor_ns);
    if (lmi_recorded_standout(r, model, &most, NULL) != LAM_OK) t->json->bad = true; /* memory ran out */
    const bool slower = most.kind && strcmp(most.kind, "slower") == 0;
    tell_text(t, "stands_out", most.kind);
    tell_known(t, "since_step", slower ? most.since : -1);
    tell_known(t, "before_ns", slower ? most.before_ns : -1);
    tell_known(t, "after_ns", slower ? most.after_ns : -1);
    tell_text(t, "slower_phase", most.phase);
    tell_text(t, "next", most.next);
    tell_end(t);
}

static void tell_cost(lmi_teller *t, const lam_recorded_model *m) {
    if (!m->cost.n) {
        tell_none(t, "recording");
        return;
    }
    tell_object(t, "recording");
    tell_int(t, "steps", m->cost.n);
    tell_int(t, "recorded_ns", m->cost.recorded_ns);
    tell_int(t, "between_ns", m->cost.between_ns);
    tell_int(t, "error_ns", m->cost.error_ns);
    tell_truth(t, "slows", lmi_recording_slows(m));
    tell_end(t);
}

static void tell_used(lmi_teller *t, const lam_utilization *u) {
    tell_object(t, "utilization");
    tell_known_real(t, "mfu", isnan(u->mfu) ? -1 : u->mfu);
    tell_known_real(t, "hfu", isnan(u->hfu) ? -1 : u->hfu);
    tell_truth(t, "at_least", u->at_least);
    tell_text(t, "why", lmi_used_why(u));
    tell_known(t, "flops", u->flops);
    tell_known(t, "hardware_flops", u->hardware_flops);
    tell_known_real(t, "flops_per_s", isnan(u->flops_per_s) ? -1 : u->flops_per_s);
    tell_known_real(t, "peak_flops", isnan(u->peak) ? -1 : u->peak);
    tell_text(t, "peak_of", u->peak_of);
    tell_text(t, "device", u->device);
    tell_text(t, "dtype", u->dtype);
    tell_end(t);
}

static void tell_model(lmi_teller *t, const lam_recording *r, int32_t i) {
    const lam_recorded_model *m = lam_recording_model(r, i);
    const lam_recorded_place *p, *bad = lam_recording_place(r, i, m->first_bad);
    tell_object(t, NULL);
    tell_text(t, "name", m->name);
    tell_known(t, "kind", m->kind);
    tell_known(t, "kinds", m->n_kinds);
    tell_truth(t, "training", m->training);
    tell_maybe(t, "gradients", m->gradients);
    tell_maybe(t, "compiled", m->compiled);
    tell_truth(t, "went_back", m->went_back);
    tell_known(t, "least_calls", m->least_calls);
    tell_known(t, "most_calls", m->most_calls);
    tell_known(t, "params", m->params);
    tell_known(t, "local_params", m->local_params);
    tell_known(t, "param_bytes", m->param_bytes);
    tell_known(t, "local_bytes", m->local_bytes);
    tell_known(t, "logical_bytes", m->logical_bytes);
    char tree[17];
    snprintf(tree, sizeof tree, "%016llx", (unsigned long long)m->tree);
    tell_text(t, "tree", m->tree < 0 ? NULL : tree);
    tell_known(t, "steps", m->n_steps);
    tell_truth(t, "first_step_left_out", m->warmed_up);
    tell_known(t, "last_step", m->last);
    tell_known(t, "failed_steps", m->failed);
    tell_middle(t, "step_ns", m->step_ns);
    tell_middle(t, "call_ns", m->call_ns);
    tell_middle(t, "forward_ns", m->forward_ns);
    tell_middle(t, "backward_ns", m->backward_ns);
    tell_phases(t, r, i);
    tell_cost(t, m);
    tell_used(t, &m->used);
    tell_middle(t, "peak_bytes", m->peak_bytes);
    tell_middle(t, "device_forward_ns", m->device_forward_ns);
    tell_middle(t, "device_backward_ns", m->device_backward_ns);
    tell_middle(t, "device_peak_bytes", m->device_peak_bytes);
    tell_known(t, "nonfinite_steps", m->nonfinite);
    tell_known(t, "first_bad_step", m->first_bad_step);
    tell_text(t, "first_bad_layer", bad ? bad->path : NULL);
    tell_list(t, "layers");
    for (int32_t k = 0; (p = lam_recording_place(r, i, k)); k++) {
        lmi_tell_line(t);
        tell_place(t, p);
    }
    lmi_putc(t->json, '\n');
    tell_list_end(t);
    tell_end(t);
}

static void tell_pace(lmi_teller *t, const lam_recorded_run *run) {
    if (!run->pace.minutes) {
        tell_none(t, "pace");
        return;
    }
    tell_object(t, "pace");
    tell_int(t, "minutes", run->pace.minutes);
    tell_int(t, "calls", run->pace.calls);
    tell_int(t, "slowest_ns", run->pace.slowest_ns);
    tell_int(t, "slowest_unix_ns", run->pace.slowest_unix_ns);
    tell_int(t, "stalls", run->pace.stalls);
    tell_end(t);
}

static void tell_run(lmi_teller *t, const lam_recording *r) {
    const lam_recorded_run *run = lam_recording_run(r);
    tell_object(t, NULL);
    tell_int(t, "run", run->run);
    tell_text(t, "file", run->file);
    tell_text(t, "command", run->command);
    tell_text(t, "host", run->host);
    tell_text(t, "torch", run->torch);
    tell_text(t, "lamina", run->lamina);
    tell_known(t, "pid", run->pid);
    tell_known(t, "rank", run->rank);
    tell_known(t, "world", run->world);
    tell_known(t, "every", run->every == LAM_THINNING ? -1 : run->every);
    tell_text(t, "rule", run->every == LAM_THINNING ? "thinning" : "every");
    tell_int(t, "started_unix_ns", run->started_unix_ns);
    tell_int(t, "seen_unix_ns", run->seen_unix_ns);
    if (run->ended_unix_ns)
        tell_int(t, "ended_unix_ns", run->ended_unix_ns);
    else
        tell_none(t, "ended_unix_ns");
    tell_known(t, "dropped", run->dropped);
    tell_text(t, "job", run->job);
    tell_known(t, "attempt", run->attempt);
    tell_known(t, "calls", run->calls);
    tell_pace(t, run);
    tell_text(t, "ended_by", run->ended_by);
    tell_list(t, "models");
    for (int32_t i = 0; i < run->n_models; i++) {
        if (i) lmi_tell_line(t);
        tell_model(t, r, i);
    }
    tell_list_end(t);
    tell_end(t);
}

static lam_status tell_stragglers(lmi_recorded *w, lmi_teller *t) {
    lmi_straggler found[LMI_STRAGGLERS];
    tell_list(t, "stragglers");
    for (w->model = 0; w->n > 1 && lam_recording_model(w->all[0], w->model); w->model++) {
        int32_t n;
        LAM_TRY(lmi_stragglers(w, found, &n));
        for (int32_t i = 0; i < n; i++) {
            const lam_recorded_run *run = lam_recording_run(w->all[found[i].which]);
            lmi_tell_line(t);
            tell_object(t, NULL);
            tell_int(t, "rank", run->rank);
            tell_text(t, "model", found[i].model);
            tell_text(t, "path", found[i].place->path);
            tell_known(t, "slowest_ns", found[i].slowest);
            tell_known(t, "middle_ns", found[i].among);
            tell_text(t, "file", run->file);
            tell_end(t);
        }
    }
    tell_list_end(t);
    return LAM_OK;
}

static lam_status tell_verdict(lmi_recorded *w, lmi_teller *t) {
    lam_ranks *r;
    LAM_TRY(lmi_recorded_judge(w, &r));
    if (r)
        lmi_ranks_tell_verdict(t, r);
    else
        tell_none(t, "verdict");
    lam_ranks_free(r);
    return LAM_OK;
}

lam_status lmi_recorded_json(lmi_recorded *w) {
    lmi_teller t = lmi_tell_json(&w->out);
    lmi_tell_document(&t, "recording", 2);
    tell_list(&t, "runs");
    for (int32_t i = 0; i < w->n; i++) {
        lmi_tell_line(&t);
        tell_run(&t, w->all[i]);
    }
    lmi_putc(&w->out, '\n');
    tell_list_end(&t);
    LAM_TRY(tell_verdict(w, &t));
    LAM_TRY(tell_stragglers(w, &t));
    tell_end(&t);
    lmi_putc(&w->out, '\n');
    return LAM_OK;
}
