/* SPDX-License-Identifier: Apache-2.0
 *
 * The health of the values that were checked. docs/health.md lists the fields. */
#include "analyse/run/health.h"

#include "report/tell/tell.h"

/* Calls count from 0, as in a report's rows, and from 1 in texts for people. */
static void tell_ordinal(lmi_teller *t, const lam_event *ev) {
    tell_known(t, "call", !ev ? -1 : t->brief ? ev->ordinal : ev->ordinal + 1);
}

static void tell_layer(lmi_teller *t, const lam_model *m, int32_t call) {
    const lam_event *ev = lam_model_event(m, call);
    tell_text(t, "path", lmi_path_of_call(m, call));
    tell_text(t, "type", ev ? lam_model_module(m, ev->module)->type : NULL);
    tell_ordinal(t, ev);
}

/* The layer of a finding; of a file's weights it has a place and no call. */
static void tell_found(lmi_teller *t, const lam_model *m, const lam_finding *f) {
    const lam_place *p = lmi_of_weights(m) ? lam_model_place(m, f->place) : NULL;
    if (!p) {
        tell_layer(t, m, f->call);
        return;
    }
    tell_text(t, "path", p->path);
    tell_text(t, "type", lam_model_module(m, p->module)->type);
    tell_ordinal(t, NULL);
}

static void tell_finding(lmi_teller *t, const lam_model *m, const lam_finding *f) {
    const lam_bad *bad = lam_model_bad(m, f->bad);
    int64_t at[LAM_MAX_AXES];
    int32_t n = lam_bad_first(bad, at);
    tell_object(t, NULL);
    tell_text(t, "text", f->text);
    tell_text(t, "phase", lam_phase_name(f->phase));
    tell_found(t, m, f);
    tell_text(t, "before", lmi_path_of_call(m, f->before));
    tell_text(t, "after", lmi_path_of_call(m, f->after));
    tell_truth(t, "own", f->own);
    tell_truth(t, "input", f->input);
    tell_text(t, "check", f->check ? bad->name : NULL);
    tell_truth(t, "explained", f->explained);
    tell_text(t, "owned", f->owned);
    tell_text(t, "op", f->op);
    tell_text(t, "value", lam_bad_kind(bad));
    tell_int(t, "nan", bad->found.nan);
    tell_int(t, "inf", bad->found.inf);
    lmi_tell_sizes(t, "first", n, at);
    lmi_tell_sizes(t, "shape", bad->ndim, bad->sizes);
    tell_text(t, "dtype", bad->dtype < 0 ? NULL : lam_dtype_name(bad->dtype));
    tell_int(t, "times", f->times);
    tell_int(t, "passed", f->passed);
    tell_end(t);
}

static void tell_stats(lmi_teller *t, const lam_stats *s) {
    if (!s) {
        tell_none(t, NULL);
        return;
    }
    tell_object(t, NULL);
    tell_int(t, "numbers", s->numbers);
    tell_int(t, "nan", s->nan);
    tell_int(t, "inf", s->inf);
    tell_int(t, "zeros", s->zeros);
    tell_int(t, "subnormal", s->subnormal);
    lmi_tell_digits(t, "least", s->least);
    lmi_tell_digits(t, "greatest", s->greatest);
    lmi_tell_digits(t, "mean", s->mean);
    lmi_tell_digits(t, "headroom", s->headroom);
    tell_end(t);
}

void lmi_health_place_fields(lmi_teller *t, const lam_health *h, int32_t place) {
    tell_text(t, "forward", lam_health_name(lam_health_at(h, place, LAM_FORWARD)));
    tell_text(t, "backward", lam_health_name(lam_health_at(h, place, LAM_BACKWARD)));
    tell_list(t, "stats");
    tell_list_end(t);
}

void lmi_health_call_fields(lmi_teller *t, const lam_health *h, int32_t call) {
    tell_text(t, "forward", lam_health_name(lam_health_of(h, call, LAM_FORWARD)));
    tell_text(t, "backward", lam_health_name(lam_health_of(h, call, LAM_BACKWARD)));
    tell_list(t, "stats");
    for (int32_t i = 0; i < h->m->events[call].n_out; i++) tell_stats(t, lam_model_stats(h->m, call, i));
    tell_list_end(t);
}

static void tell_calls(lmi_teller *t, const lam_health *h) {
    tell_list(t, "calls");
    for (int32_t i = 0; i < h->m->n_events; i++) {
        tell_object(t, NULL);
        tell_layer(t, h->m, i);
        lmi_health_call_fields(t, h, i);
        tell_end(t);
    }
    tell_list_end(t);
}

void lmi_health_fields(lmi_teller *t, const char *name, const lam_health *h) {
    const lam_checked *l = h->checked;
    const lam_finding *f;
    tell_object(t, name);
    tell_text(t, "sentence", h->sentence);
    tell_int(t, "tensors", l->tensors);
    tell_int(t, "bytes", l->bytes);
    tell_int(t, "unseen", l->unseen);
    tell_truth(t, "gradients", l->gradients);
    tell_truth(t, "operators", l->operators);
    tell_truth(t, "cut", l->cut);
    tell_list(t, "findings");
    for (int32_t i = 0; (f = lam_health_finding(h, i)) != NULL; i++) tell_finding(t, h->m, f);
    tell_list_end(t);
    if (!t->brief) tell_calls(t, h);
    tell_end(t);
}

void lam_health_tell(const lam_health *h, lam_receiver to) {
    lmi_teller t = lmi_tell_to(to);
    lmi_health_fields(&t, NULL, h);
}
