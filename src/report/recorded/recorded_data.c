/* SPDX-License-Identifier: Apache-2.0
 *
 * Recordings as CSV and JSON: plain integers, nanoseconds and bytes; numbers that were not measured are null
 * or empty. */
#include "report/recorded/recorded.h"
#include "report/tell/tell.h"

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
    lmi_putc(b, '\n');
}

lam_status lmi_recorded_csv(lmi_recorded *w) {
    lmi_put(&w->out, "rank,model,training,gradients,went_back,least_calls,most_calls,path,type,depth,params,"
                     "local_params,steps");
#define X(name, field) lmi_put(&w->out, "," name "," name "_deviation");
    PLACE_NUMBERS(X)
#undef X
    lmi_put(&w->out, ",nonfinite_steps\n");
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

static void json_moment(lmi_buf *b, const char *name, int64_t n, bool known) {
    if (known)
        lmi_putf(b, ", \"%s\": %lld", name, (long long)n);
    else
        lmi_putf(b, ", \"%s\": null", name);
}

static void json_number(lmi_buf *b, const char *name, int64_t n) { json_moment(b, name, n, n >= 0); }

static void json_middle(lmi_buf *b, const char *name, lam_middle m) {
    if (m.n)
        lmi_putf(b, ", \"%s\": {\"median\": %lld, \"deviation\": %lld, \"n\": %lld}", name,
                 (long long)m.median, (long long)m.deviation, (long long)m.n);
    else
        lmi_putf(b, ", \"%s\": null", name);
}

static void json_place(lmi_buf *b, const lam_recorded_place *p) {
    lmi_put(b, "{\"path\": ");
    lmi_put_json(b, p->path);
    lmi_put(b, ", \"type\": ");
    lmi_put_json(b, p->type);
    json_number(b, "depth", p->depth);
    json_number(b, "params", p->params);
    json_number(b, "local_params", p->local_params);
    json_number(b, "steps", p->n_steps);
#define X(name, field) json_middle(b, name, p->field);
    PLACE_NUMBERS(X)
#undef X
    json_number(b, "nonfinite_steps", p->nonfinite);
    lmi_putc(b, '}');
}

static void json_model(lmi_buf *b, const lam_recording *r, int32_t i) {
    const lam_recorded_model *m = lam_recording_model(r, i);
    const lam_recorded_place *p, *bad = lam_recording_place(r, i, m->first_bad);
    lmi_put(b, "{\"name\": ");
    lmi_put_json(b, m->name);
    json_number(b, "kind", m->kind);
    json_number(b, "kinds", m->n_kinds);
    lmi_putf(b, ", \"training\": %s", m->training ? "true" : "false");
    lmi_putf(b, ", \"gradients\": %s", m->gradients < 0 ? "null" : m->gradients ? "true" : "false");
    lmi_putf(b, ", \"went_back\": %s", m->went_back ? "true" : "false");
    json_number(b, "least_calls", m->least_calls);
    json_number(b, "most_calls", m->most_calls);
    json_number(b, "params", m->params);
    json_number(b, "local_params", m->local_params);
    json_number(b, "param_bytes", m->param_bytes);
    json_number(b, "steps", m->n_steps);
    lmi_putf(b, ", \"first_step_left_out\": %s", m->warmed_up ? "true" : "false");
    json_number(b, "last_step", m->last);
    json_number(b, "failed_steps", m->failed);
    json_middle(b, "step_ns", m->step_ns);
    json_middle(b, "call_ns", m->call_ns);
    json_middle(b, "forward_ns", m->forward_ns);
    json_middle(b, "backward_ns", m->backward_ns);
    json_middle(b, "peak_bytes", m->peak_bytes);
    json_middle(b, "device_forward_ns", m->device_forward_ns);
    json_middle(b, "device_backward_ns", m->device_backward_ns);
    json_middle(b, "device_peak_bytes", m->device_peak_bytes);
    json_number(b, "nonfinite_steps", m->nonfinite);
    json_number(b, "first_bad_step", m->first_bad_step);
    lmi_put(b, ", \"first_bad_layer\": ");
    lmi_put_json(b, bad ? bad->path : NULL);
    lmi_put(b, ", \"layers\": [");
    for (int32_t k = 0; (p = lam_recording_place(r, i, k)); k++) {
        lmi_put(b, k ? ",\n" : "\n");
        json_place(b, p);
    }
    lmi_put(b, "\n]}");
}

static void json_run(lmi_buf *b, const lam_recording *r) {
    const lam_recorded_run *run = lam_recording_run(r);
    lmi_putf(b, "{\"run\": %lld, \"file\": ", (long long)run->run);
    lmi_put_json(b, run->file);
    lmi_put(b, ", \"command\": ");
    lmi_put_json(b, run->command);
    lmi_put(b, ", \"host\": ");
    lmi_put_json(b, run->host);
    lmi_put(b, ", \"torch\": ");
    lmi_put_json(b, run->torch);
    lmi_put(b, ", \"lamina\": ");
    lmi_put_json(b, run->lamina);
    json_number(b, "pid", run->pid);
    json_number(b, "rank", run->rank);
    json_number(b, "world", run->world);
    json_number(b, "every", run->every);
    json_moment(b, "started_unix_ns", run->started_unix_ns, true);
    json_moment(b, "seen_unix_ns", run->seen_unix_ns, true);
    json_moment(b, "ended_unix_ns", run->ended_unix_ns, run->ended_unix_ns != 0);
    json_number(b, "dropped", run->dropped);
    lmi_put(b, ", \"models\": [");
    for (int32_t i = 0; i < run->n_models; i++) {
        if (i) lmi_put(b, ",\n");
        json_model(b, r, i);
    }
    lmi_put(b, "]}");
}

static lam_status json_stragglers(lmi_recorded *w) {
    lmi_straggler found[LMI_STRAGGLERS];
    bool any = false;
    lmi_put(&w->out, "\"stragglers\": [");
    for (w->model = 0; w->n > 1 && lam_recording_model(w->all[0], w->model); w->model++) {
        int32_t n;
        LAM_TRY(lmi_stragglers(w, found, &n));
        for (int32_t i = 0; i < n; i++, any = true) {
            const lam_recorded_run *run = lam_recording_run(w->all[found[i].which]);
            lmi_putf(&w->out, "%s{\"rank\": %d, \"model\": ", any ? ",\n" : "\n", (int)run->rank);
            lmi_put_json(&w->out, found[i].model);
            lmi_put(&w->out, ", \"path\": ");
            lmi_put_json(&w->out, found[i].place->path);
            json_number(&w->out, "slowest_ns", found[i].slowest);
            json_number(&w->out, "middle_ns", found[i].among);
            lmi_put(&w->out, ", \"file\": ");
            lmi_put_json(&w->out, run->file);
            lmi_putc(&w->out, '}');
        }
    }
    lmi_put(&w->out, "]");
    return LAM_OK;
}

lam_status lmi_recorded_json(lmi_recorded *w) {
    lmi_putc(&w->out, '{');
    lmi_put_head(&w->out, "recording", 2, ", ");
    lmi_put(&w->out, ", \"runs\": [");
    for (int32_t i = 0; i < w->n; i++) {
        lmi_put(&w->out, i ? ",\n" : "\n");
        json_run(&w->out, w->all[i]);
    }
    lmi_put(&w->out, "\n], ");
    LAM_TRY(json_stragglers(w));
    lmi_put(&w->out, "}\n");
    return LAM_OK;
}
