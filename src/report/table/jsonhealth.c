/* SPDX-License-Identifier: Apache-2.0
 *
 * Data: what became of values, where they were looked at, as JSON and in cells. docs/json.md lists the
 * fields. */
#include "report/table/looked.h"
#include "report/table/quick.h"
#include "report/table/report.h"

static void text(lmi_buf *b, const char *name, const char *s) {
    PUT(b, ", ");
    quick_name(b, name);
    quick_text(b, s);
}

static void whole(lmi_buf *b, const char *name, int64_t v) {
    PUT(b, ", ");
    quick_name(b, name);
    quick_int(b, v);
}

static void truth(lmi_buf *b, const char *name, bool v) {
    PUT(b, ", ");
    quick_name(b, name);
    quick_put(b, v ? "true" : "false", v ? 4 : 5);
}

static void sizes(lmi_buf *b, const char *name, int32_t n, const int64_t *v) {
    lmi_putf(b, ", \"%s\": %s", name, n < 0 ? "null" : "[");
    for (int32_t i = 0; i < n; i++) lmi_putf(b, i ? ", %lld" : "%lld", (long long)v[i]);
    if (n >= 0) lmi_putc(b, ']');
}

static const char *path_of(const lam_model *m, int32_t call) {
    const lam_event *ev = lam_model_event(m, call);
    return ev ? lam_model_place(m, ev->place)->path : NULL;
}

static void put_finding(lmi_buf *b, const lam_model *m, const lam_finding *f) {
    static const char *const phases[] = {"forward", "backward", "recompute"};
    const lam_bad *bad = lam_model_bad(m, f->bad);
    const lam_event *ev = lam_model_event(m, f->call);
    int64_t at[LAM_MAX_AXES];
    int32_t n = lam_bad_first(bad, at);
    lmi_put(b, "{\"text\": ");
    lmi_put_json(b, f->text);
    text(b, "phase", phases[f->phase]);
    text(b, "path", path_of(m, f->call));
    text(b, "type", ev ? lam_model_module(m, ev->module)->type : NULL);
    if (ev)
        whole(b, "call", ev->ordinal);
    else
        lmi_put(b, ", \"call\": null");
    text(b, "before", path_of(m, f->before));
    text(b, "after", path_of(m, f->after));
    truth(b, "own", f->own);
    truth(b, "input", f->input);
    text(b, "check", f->check ? bad->name : NULL);
    truth(b, "explained", f->explained);
    text(b, "owned", f->owned);
    text(b, "op", f->op);
    text(b, "value", lam_bad_kind(bad));
    whole(b, "nan", bad->found.nan);
    whole(b, "inf", bad->found.inf);
    sizes(b, "first", n, at);
    sizes(b, "shape", bad->ndim, bad->sizes);
    text(b, "dtype", bad->dtype < 0 ? NULL : lam_dtype_name(bad->dtype));
    whole(b, "times", f->times);
    whole(b, "passed", f->passed);
    lmi_putc(b, '}');
}

void lmi_json_health(lmi_job *j) {
    const lam_looked *l = lam_model_looked(j->m);
    const lam_finding *f;
    lmi_buf *b = &j->out;
    if (!j->health) return;
    lmi_put(b, "\"health\": {\"sentence\": ");
    lmi_put_json(b, lam_health_sentence(j->health));
    whole(b, "tensors", l->tensors);
    whole(b, "bytes", l->bytes);
    whole(b, "unseen", l->unseen);
    truth(b, "gradients", l->gradients);
    truth(b, "operators", l->operators);
    truth(b, "cut", l->cut);
    lmi_put(b, ", \"findings\": [");
    for (int32_t i = 0; (f = lam_health_finding(j->health, i)) != NULL; i++) {
        if (i) lmi_put(b, ", ");
        put_finding(b, j->m, f);
    }
    lmi_put(b, "]},\n");
}

static void real(lmi_buf *b, const char *name, double v) {
    lmi_putf(b, ", \"%s\": ", name);
    if (v - v != 0)
        lmi_put(b, "null");
    else
        lmi_putf(b, "%.9g", v);
}

static void put_stats(lmi_buf *b, const lam_stats *s) {
    lmi_putf(b, "{\"numbers\": %lld", (long long)s->numbers);
    whole(b, "nan", s->nan);
    whole(b, "inf", s->inf);
    whole(b, "zeros", s->zeros);
    whole(b, "subnormal", s->subnormal);
    real(b, "least", s->least);
    real(b, "greatest", s->greatest);
    real(b, "mean", s->mean);
    real(b, "headroom", s->headroom);
    lmi_putc(b, '}');
}

void lmi_json_row_health(const lmi_job *j, lmi_buf *b, const lam_event *event) {
    if (!j->health) return;
    if (!event) {
        lmi_put(b, "\"health\": null, ");
        return;
    }
    int32_t call = (int32_t)(event - lam_model_event(j->m, 0));
    PUT(b, "\"health\": {\"forward\": ");
    quick_text(b, lam_health_name(lam_health_of(j->health, call, LAM_FORWARD)));
    PUT(b, ", \"backward\": ");
    quick_text(b, lam_health_name(lam_health_of(j->health, call, LAM_BACKWARD)));
    PUT(b, ", \"stats\": [");
    for (int32_t i = 0; i < event->n_out; i++) {
        const lam_stats *s = lam_model_stats(j->m, call, i);
        if (i) lmi_put(b, ", ");
        if (s)
            put_stats(b, s);
        else
            lmi_put(b, "null");
    }
    lmi_put(b, "]}, ");
}

/* -- cells --------------------------------------------------------------------------------------------- */

static int32_t call_of(const lmi_line *l) {
    return l->event && l->job->health ? (int32_t)(l->event - lam_model_event(l->job->m, 0)) : -1;
}

static void put_state(const lmi_line *l, lam_phase phase, lmi_buf *out) {
    int32_t call = call_of(l);
    if (call >= 0) lmi_put(out, lam_health_name(lam_health_of(l->job->health, call, phase)));
}

void lmi_cell_health(const lmi_line *l, lmi_buf *out) { put_state(l, LAM_FORWARD, out); }
void lmi_cell_backward_health(const lmi_line *l, lmi_buf *out) { put_state(l, LAM_BACKWARD, out); }

static const lam_stats *stats_of(const lmi_line *l) {
    int32_t call = call_of(l);
    return call >= 0 && l->event->n_out > 0 ? lam_model_stats(l->job->m, call, 0) : NULL;
}

static void put_real(lmi_buf *out, const lam_stats *s, double v) {
    if (s && v - v == 0) lmi_putf(out, "%.9g", v);
}

void lmi_cell_least(const lmi_line *l, lmi_buf *out) {
    const lam_stats *s = stats_of(l);
    put_real(out, s, s ? s->least : 0);
}

void lmi_cell_greatest(const lmi_line *l, lmi_buf *out) {
    const lam_stats *s = stats_of(l);
    put_real(out, s, s ? s->greatest : 0);
}

void lmi_cell_mean(const lmi_line *l, lmi_buf *out) {
    const lam_stats *s = stats_of(l);
    put_real(out, s, s ? s->mean : 0);
}

void lmi_cell_headroom(const lmi_line *l, lmi_buf *out) {
    const lam_stats *s = stats_of(l);
    put_real(out, s, s ? s->headroom : 0);
}

void lmi_cell_zeros(const lmi_line *l, lmi_buf *out) {
    const lam_stats *s = stats_of(l);
    if (s) lmi_putf(out, "%lld", (long long)s->zeros);
}

void lmi_cell_subnormal(const lmi_line *l, lmi_buf *out) {
    const lam_stats *s = stats_of(l);
    if (s) lmi_putf(out, "%lld", (long long)s->subnormal);
}
