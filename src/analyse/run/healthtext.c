/* SPDX-License-Identifier: Apache-2.0
 *
 * The findings as sentences: "NaN first in layer2.1.bn2 (BatchNorm2d), forward call 3: 12 of 4096
 * elements, first at [0, 3, 1, 1]; 14 later layers pass it on". */
#include "analyse/run/health.h"

#include "model/values.h"

#include <math.h>

static void put_place(lmi_buf *b, const lam_model *m, int32_t place) {
    const char *path = m->places[place].path;
    lmi_put_clean(b, *path ? path : "the model");
    lmi_put(b, " (");
    lmi_put_clean(b, m->modules[m->places[place].module].type);
    lmi_putc(b, ')');
}

static void put_call(lmi_buf *b, const lam_model *m, int32_t call) { put_place(b, m, m->events[call].place); }

static const char *kind_of(const lam_bad *bad) {
    const char *kind = lam_bad_kind(bad);
    return kind ? kind : "something";
}

/* "first at [0, 3, 1, 1]" */
static void put_first(lmi_buf *b, const lam_bad *bad) {
    int64_t at[LAM_MAX_AXES];
    int32_t n = lam_bad_first(bad, at);
    if (n <= 0) return;
    lmi_put(b, ", first at [");
    for (int32_t i = 0; i < n; i++) lmi_putf(b, i ? ", %lld" : "%lld", (long long)at[i]);
    lmi_putc(b, ']');
}

static void put_amount(lmi_buf *b, const lam_model *m, const lam_bad *bad, const char *of) {
    const lam_nonfinite *f = &bad->found;
    const int64_t elements = lmi_numel((lam_shape){bad->ndim, bad->sizes});
    const lmi_form *form = lmi_form_of(bad->dtype);
    const int32_t parts = form ? form->parts : 1;
    const int64_t n = elements > INT64_MAX / 2 ? -1 : elements * parts;
    lmi_put(b, ": ");
    if (f->nan && f->inf)
        lmi_putf(b, "%lld NaN and %lld Inf", (long long)f->nan, (long long)f->inf);
    else
        lmi_putf(b, "%lld", (long long)f->nan + (long long)f->inf);
    if (n >= 0)
        lmi_putf(b, " of %lld %s%s", (long long)n, parts > 1 ? "real and imaginary parts" : "elements", of);
    const lam_event *ev = bad->side == LAM_BAD_OUTPUT ? &m->events[bad->call] : NULL;
    if (ev && ev->n_out > 1) lmi_putf(b, " of result number %d", (int)bad->index);
    put_first(b, bad);
}

static void put_between(lmi_buf *b, const lam_model *m, const lam_finding *f) {
    lmi_put(b, "what ");
    put_call(b, m, f->call);
    lmi_put(b, " does itself");
    if (f->before >= 0) lmi_put(b, f->after >= 0 ? " between " : " after ");
    if (f->before >= 0) put_call(b, m, f->before);
    if (f->after >= 0) lmi_put(b, f->before >= 0 ? " and " : " before ");
    if (f->after >= 0) put_call(b, m, f->after);
}

/* "aten::div in ", the operator of a node that made the value, if it was observed. */
static void put_inside(lmi_buf *b, const lam_bad *bad) {
    if (bad->side != LAM_BAD_NODE || bad->fed || !bad->inside || !bad->name) return;
    lmi_put_clean(b, bad->inside);
    lmi_put(b, " in ");
}

/* The place of the work. */
static void put_where(lmi_buf *b, const lam_model *m, const lam_finding *f) {
    bool back = f->phase == LAM_BACKWARD;
    if (back) lmi_put(b, "the backward of ");
    if (lmi_of_weights(m))
        put_place(b, m, f->place);
    else if (f->call < 0)
        lmi_put(b, back ? "what ran outside of every layer" : "outside of every layer");
    else if (f->own)
        put_between(b, m, f);
    else
        put_call(b, m, f->call);
    if (f->op) lmi_put(b, " by ");
    put_inside(b, lam_model_bad(m, f->bad));
    if (f->op) lmi_put_clean(b, f->op);
    if (f->owned) lmi_put(b, ", which has it in its ");
    if (f->owned) lmi_put_clean(b, f->owned);
    if (f->call >= 0)
        lmi_putf(b, back ? " of call %d" : ", forward call %d", (int)m->events[f->call].ordinal + 1);
}

static void put_entry(lmi_buf *b, const lam_model *m, const lam_finding *f, const lam_bad *bad) {
    const lam_event *ev = f->call >= 0 ? &m->events[f->call] : NULL;
    if (f->phase == LAM_BACKWARD) {
        lmi_put(b, "the gradient that the backward pass began with");
        return;
    }
    lmi_put(b, "an input of ");
    if (ev) put_call(b, m, f->call);
    const lam_arg *a = ev && bad->index >= 0 && bad->index < ev->n_in ? &ev->in[bad->index] : NULL;
    if (a && a->name) lmi_put(b, ", ");
    if (a && a->name) lmi_put_clean(b, a->name);
    if (a && !a->name && a->position >= 0) lmi_putf(b, ", number %d", (int)a->position);
    if (ev) lmi_putf(b, ", forward call %d", (int)ev->ordinal + 1);
}

static void put_check(lmi_buf *b, const lam_model *m, const lam_finding *f, const lam_bad *bad) {
    put_call(b, m, f->call);
    lmi_putf(b, ", call %d, ", (int)m->events[f->call].ordinal + 1);
    lmi_put_clean(b, bad->name ? bad->name : "a check");
    lmi_put(b, ": ");
    lmi_put_clean(b, bad->text ? bad->text : "failed");
}

static void put_finding(lmi_buf *b, const lam_model *m, const lam_finding *f, bool first) {
    const lam_bad *bad = lam_model_bad(m, f->bad);
    if (f->check) {
        put_check(b, m, f, bad);
    } else if (f->input) {
        lmi_putf(b, "%s came in with ", kind_of(bad));
        put_entry(b, m, f, bad);
        put_amount(b, m, bad, "");
    } else {
        lmi_putf(b, "%s %s %s", kind_of(bad), first ? "first" : "also",
                 f->call < 0 && f->phase != LAM_BACKWARD && !lmi_of_weights(m) ? "" : "in ");
        put_where(b, m, f);
        put_amount(b, m, bad, f->phase == LAM_BACKWARD ? " of a gradient" : "");
    }
    if (f->passed)
        lmi_putf(b, "; %d later layer%s", (int)f->passed, f->passed == 1 ? " passes it on" : "s pass it on");
    if (f->times > 1) lmi_putf(b, "; %d times", (int)f->times);
    if (bad->doubt) lmi_put(b, "; it may be older: an input there could not be checked");
    if (f->explained) lmi_put(b, "; what was found before may be the cause");
}

static lam_status keep(lam_health *h, lmi_buf *b, const char **to, lam_error *e) {
    *to = lmi_buf_keep(b, &h->arena);
    return *to ? LAM_OK : lmi_nomem(e);
}

static void put_none(lmi_buf *b, const lam_health *h) {
    const lam_checked *l = h->checked;
    if (l->tensors)
        lmi_putf(b, "no NaN or Inf in %lld tensor%s", (long long)l->tensors, l->tensors == 1 ? "" : "s");
    else
        lmi_put(b, "there was no value to check");
    if (l->unseen) lmi_putf(b, "; %lld could not be checked", (long long)l->unseen);
    if (!l->gradients && !lmi_of_weights(h->m)) lmi_put(b, "; no gradient was checked");
}

static lam_status tell(lam_health *h, lmi_buf *b, lam_error *e) {
    lam_finding *all = h->findings.data;
    bool first = true;
    for (size_t i = 0; i < h->findings.n; i++) {
        put_finding(b, h->m, &all[i], first && !all[i].check);
        first = first && all[i].check;
        LAM_TRY(keep(h, b, &all[i].text, e));
    }
    if (h->findings.n) {
        h->sentence = all[0].text;
        return LAM_OK;
    }
    put_none(b, h);
    return keep(h, b, &h->sentence, e);
}

lam_status lmi_health_tell(lam_health *h, lam_error *e) {
    lmi_buf b;
    lmi_buf_init(&b);
    lam_status s = tell(h, &b, e);
    lmi_buf_free(&b);
    return s;
}

/* -- the last calls ------------------------------------------------------------------------------------ */

static void put_shapes(lmi_buf *b, const lam_arg *args, int32_t n) {
    if (n == 0) lmi_putc(b, '?');
    for (int32_t k = 0; k < n; k++) {
        if (k) lmi_put(b, ", ");
        for (int32_t i = 0; i < args[k].ndim; i++)
            lmi_putf(b, i ? "x%lld" : "%lld", (long long)args[k].sizes[i]);
        if (args[k].ndim <= 0) lmi_put(b, args[k].ndim < 0 ? "?" : "()");
    }
}

static void put_stats(lmi_buf *b, const lam_stats *s) {
    if (!s || isnan(s->mean)) return;
    lmi_putf(b, "  %.4g to %.4g, mean %.4g", s->least, s->greatest, s->mean);
}

static const char *what_became(const lam_health *h, int32_t call) {
    static const char *const words[] = {"not looked at", "fine", "passed on", "born here"};
    const lam_event *ev = &h->m->events[call];
    if (ev->flags & LAM_CALL_FAILED) return "raised";
    return ev->flags & LAM_CALL_UNSEEN && !ev->t1_ns ? "not over" : words[h->forward[call]];
}

static void put_line(lmi_buf *b, const lam_health *h, int32_t call) {
    const lam_event *ev = &h->m->events[call];
    put_call(b, h->m, call);
    lmi_putf(b, " call %d: ", (int)ev->ordinal + 1);
    put_shapes(b, ev->in, ev->n_in);
    lmi_put(b, " -> ");
    put_shapes(b, ev->out, ev->n_out);
    put_stats(b, lam_model_stats(h->m, call, 0));
    lmi_putf(b, "  %s\n", what_became(h, call));
}

lam_status lam_health_tail(const lam_health *h, int32_t n, lam_sink to, lam_error *e) {
    const lam_finding *first = lam_health_finding(h, 0);
    int32_t end = first ? lam_model_bad(h->m, first->bad)->calls : h->m->n_events;
    lmi_buf b;
    lmi_buf_init(&b);
    for (int32_t i = end > n ? end - n : 0; i < end; i++) put_line(&b, h, i);
    lam_status s = lmi_buf_flush(&b, to, e);
    lmi_buf_free(&b);
    return s;
}
