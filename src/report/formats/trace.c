/* SPDX-License-Identifier: Apache-2.0
 *
 * The run as timelines, one per thread: as trace events, which Chrome (chrome://tracing) and Perfetto
 * read, in microseconds, and for speedscope. Both need inner spans to end before outer ones. Formats:
 * "Trace Event Format" by the Chromium project; https://www.speedscope.app/file-format-schema.json. */
#include "analyse/run/times.h"
#include "report/formats/formats.h"

typedef struct timeline {
    lmi_job *j;
    const lam_model *m; /* with times */
    lmi_vec spans;      /* lmi_span */
    lmi_vec open;       /* lmi_span: those that contain the current one */
    lmi_map frames;     /* speedscope: addresses of operators' names */
    int64_t begin, end;
} timeline;

static bool any_op(const lam_model *m, const lam_op *op) {
    (void)m, (void)op;
    return true;
}

static const lmi_span *span_at(const timeline *t, size_t i) { return (const lmi_span *)t->spans.data + i; }

static lam_status start(timeline *t, lmi_job *j) {
    *t = (timeline){.j = j, .m = j->m->timed_by ? j->m->timed_by : j->m};
    lmi_vec_init(&t->spans, sizeof(lmi_span));
    lmi_vec_init(&t->open, sizeof(lmi_span));
    lmi_map_init(&t->frames);
    LAM_TRY(lmi_spans_find(t->m, any_op, &t->spans, j->e));
    bool called = t->m->n_events == 0; /* the calls of a dry run have no times */
    for (size_t i = 0; i < t->spans.n && !called; i++) called = !span_at(t, i)->is_op;
    if (t->spans.n == 0 || !called)
        return lmi_fail(j->e, LAM_USAGE, "format", "nothing that ran has a time, so there is no timeline");
    t->begin = span_at(t, 0)->t0;
    for (size_t i = 0; i < t->spans.n; i++) {
        if (span_at(t, i)->t0 < t->begin) t->begin = span_at(t, i)->t0;
        if (span_at(t, i)->t1 > t->end) t->end = span_at(t, i)->t1;
    }
    return LAM_OK;
}

static void finish(timeline *t) {
    lmi_vec_free(&t->spans);
    lmi_vec_free(&t->open);
    lmi_map_free(&t->frames);
}

static const lmi_span *innermost(const timeline *t) {
    return t->open.n ? (const lmi_span *)t->open.data + t->open.n - 1 : NULL;
}

/* Opens a span, and returns it as it is shown: if clocks make it seem to end after the outer one, it ends
 * with that. */
static lam_status enter(timeline *t, lmi_span s, lmi_span *out) {
    if (innermost(t) && s.t1 > innermost(t)->t1) s.t1 = innermost(t)->t1;
    *out = s;
    return lmi_vec_put(&t->open, &s, t->j->e);
}

/* True if the innermost open span has ended before `s` begins, or if `s` is NULL, at the end. */
static bool has_ended(const timeline *t, const lmi_span *s) {
    const lmi_span *in = innermost(t);
    return in && (!s || in->thread != s->thread || in->t1 <= s->t0);
}

static const lam_place *place_of(const timeline *t, int32_t event) {
    return lam_model_place(t->m, t->m->events[event].place);
}

static void put_layer(const timeline *t, const lam_place *p, lmi_buf *b) {
    lmi_buf name;
    lmi_buf_init(&name);
    lmi_put(&name, *p->path ? p->path : lam_model_module(t->m, p->module)->type);
    lmi_put_json(b, lmi_buf_text(&name));
    lmi_buf_used(&name, b);
}

/* -- trace events ---------------------------------------------------------------------------------------- */

static void put_us(lmi_buf *b, const char *name, int64_t ns) {
    lmi_putf(b, "\"%s\": %lld.%03d, ", name, (long long)(ns / 1000), (int)(ns % 1000));
}

static void put_thread(lmi_buf *b, int32_t thread) {
    lmi_putf(b,
             ",\n{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": 1, \"tid\": %d, \"args\": {\"name\": ",
             (int)thread);
    if (thread)
        lmi_putf(b, "\"thread %d\"}}", (int)thread);
    else
        lmi_put(b, "\"calls\"}}");
}

static void put_call_args(const timeline *t, const lam_event *ev, lmi_buf *b) {
    lmi_put(b, "\"type\": ");
    lmi_put_json(b, lam_model_module(t->m, ev->module)->type);
    lmi_putf(b, ", \"call\": %d", (int)ev->ordinal);
    for (int i = 0; i < 2; i++) {
        const lam_arg *args = i ? ev->out : ev->in;
        lmi_put(b, i ? ", \"outputs\": \"" : ", \"inputs\": \"");
        for (int32_t k = 0; k < (i ? ev->n_out : ev->n_in); k++) {
            if (k) lmi_put(b, "; ");
            lmi_put_shape(b, lmi_arg_shape(&args[k]));
        }
        lmi_putc(b, '"');
    }
}

static void put_event(const timeline *t, const lmi_span *s, lmi_buf *b) {
    const lam_op *op = s->is_op ? &t->m->ops[s->index] : NULL;
    const lam_event *ev = op ? NULL : &t->m->events[s->index];
    const lam_phase phase = op ? op->phase : lmi_call_phase(ev);
    lmi_put(b, ",\n{\"name\": ");
    if (op)
        lmi_put_json(b, op->sig->name);
    else
        put_layer(t, place_of(t, s->index), b);
    lmi_putf(b, ", \"cat\": \"%s,%s\", \"ph\": \"X\", \"pid\": 1, \"tid\": %d, ", op ? "operator" : "layer",
             lam_phase_name(phase), (int)s->thread);
    put_us(b, "ts", s->t0 - t->begin);
    put_us(b, "dur", s->t1 - s->t0);
    lmi_put(b, "\"args\": {");
    if (ev) {
        put_call_args(t, ev, b);
    } else if (op->call >= 0) {
        lmi_put(b, "\"layer\": ");
        put_layer(t, place_of(t, op->call), b);
    }
    lmi_put(b, "}}");
}

static lam_status put_events(timeline *t) {
    lmi_buf *b = &t->j->out;
    lmi_span shown;
    for (size_t i = 0; i < t->spans.n; i++) {
        const lmi_span *s = span_at(t, i);
        while (has_ended(t, s)) lmi_vec_pop(&t->open);
        if (i == 0 || s->thread != span_at(t, i - 1)->thread) put_thread(b, s->thread);
        LAM_TRY(enter(t, *s, &shown));
        put_event(t, &shown, b);
        LAM_TRY(lmi_job_flush(t->j));
    }
    return LAM_OK;
}

static const char *model_name(const timeline *t) {
    const lam_place *root = lam_model_place(t->m, 0);
    return root ? lam_model_module(t->m, root->module)->type : "model";
}

lam_status lmi_trace(lmi_job *j) {
    timeline t;
    lam_status s = start(&t, j);
    if (s == LAM_OK) {
        lmi_put(&j->out,
                "{\"displayTimeUnit\": \"ns\", \"otherData\": {\"program\": \"lamina\", \"version\": ");
        lmi_put_json(&j->out, lam_version());
        lmi_put(&j->out,
                "}, \"traceEvents\": [\n"
                "{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": 1, \"tid\": 0, \"args\": {\"name\": ");
        lmi_put_json(&j->out, model_name(&t));
        lmi_put(&j->out, "}}");
        s = put_events(&t);
    }
    if (s == LAM_OK) lmi_put(&j->out, "\n]}\n");
    finish(&t);
    return s;
}

/* -- speedscope ------------------------------------------------------------------------------------------ */

/* Frames are the places, then the operators' names. */
static lam_status put_frames(timeline *t) {
    lmi_buf *b = &t->j->out;
    int64_t n = 0;
    lmi_put(b, "\"shared\": {\"frames\": [");
    for (int32_t i = 0; i < t->m->n_places; i++, n++) {
        lmi_put(b, n ? ",\n{\"name\": " : "\n{\"name\": ");
        put_layer(t, &t->m->places[i], b);
        lmi_putc(b, '}');
    }
    for (int32_t i = 0; i < t->m->n_ops; i++) {
        uint64_t key = (uint64_t)(uintptr_t)t->m->ops[i].sig->name;
        if (lmi_map_get_u64(&t->frames, key) >= 0) continue;
        LAM_TRY(lmi_map_put_u64(&t->frames, key, n, t->j->e));
        lmi_put(b, n++ ? ",\n{\"name\": " : "\n{\"name\": ");
        lmi_put_json(b, t->m->ops[i].sig->name);
        lmi_putc(b, '}');
    }
    lmi_put(b, "]},\n");
    return LAM_OK;
}

static void put_edge(const timeline *t, const lmi_span *s, bool opens, bool first) {
    int64_t frame = s->is_op ? lmi_map_get_u64(&t->frames, (uint64_t)(uintptr_t)t->m->ops[s->index].sig->name)
                             : t->m->events[s->index].place;
    lmi_putf(&t->j->out, "%s{\"type\": \"%c\", \"frame\": %lld, \"at\": %lld}", first ? "\n" : ",\n",
             opens ? 'O' : 'C', (long long)frame, (long long)((opens ? s->t0 : s->t1) - t->begin));
}

static void close_ended(timeline *t, const lmi_span *before) {
    while (has_ended(t, before)) {
        put_edge(t, innermost(t), false, false);
        lmi_vec_pop(&t->open);
    }
}

static void put_profile(const timeline *t, int32_t thread, bool first) {
    lmi_putf(&t->j->out,
             "%s{\"type\": \"evented\", \"name\": \"%s%d\", \"unit\": \"nanoseconds\", \"startValue\": 0, "
             "\"endValue\": %lld, \"events\": [",
             first ? "\n" : ",\n", thread ? "thread " : "calls, thread ", (int)thread,
             (long long)(t->end - t->begin));
}

static lam_status put_profiles(timeline *t) {
    lmi_span shown;
    lmi_put(&t->j->out, "\"profiles\": [");
    for (size_t i = 0; i < t->spans.n; i++) {
        const lmi_span *s = span_at(t, i);
        close_ended(t, s);
        bool begins = i == 0 || s->thread != span_at(t, i - 1)->thread;
        if (begins && i) lmi_put(&t->j->out, "]}");
        if (begins) put_profile(t, s->thread, i == 0);
        LAM_TRY(enter(t, *s, &shown));
        put_edge(t, &shown, true, begins);
        LAM_TRY(lmi_job_flush(t->j));
    }
    close_ended(t, NULL);
    lmi_put(&t->j->out, "]}\n],\n");
    return LAM_OK;
}

lam_status lmi_speedscope(lmi_job *j) {
    timeline t;
    lam_status s = start(&t, j);
    if (s == LAM_OK) {
        lmi_put(&j->out, "{\"$schema\": \"https://www.speedscope.app/file-format-schema.json\",\n");
        s = put_frames(&t);
    }
    if (s == LAM_OK) s = put_profiles(&t);
    if (s == LAM_OK) {
        lmi_put(&j->out, "\"name\": ");
        lmi_put_json(&j->out, model_name(&t));
        lmi_putf(&j->out, ",\n\"activeProfileIndex\": 0,\n\"exporter\": \"lamina@%s\"}\n", lam_version());
    }
    finish(&t);
    return s;
}
