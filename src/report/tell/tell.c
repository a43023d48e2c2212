/* SPDX-License-Identifier: Apache-2.0
 *
 * Helpers of all walks over results. */
#include "report/tell/tell.h"

void lmi_tell_sizes(lmi_teller *t, const char *name, int32_t ndim, const int64_t *sizes) {
    if (ndim < 0) {
        tell_none(t, name);
    } else if (!t->json) {
        lmi_give(t, (lam_field){.name = name, .type = LAM_FIELD_SIZES, .shape = {ndim, sizes}});
    } else {
        tell_list(t, name);
        for (int32_t i = 0; i < ndim; i++) tell_int(t, NULL, sizes[i]);
        tell_list_end(t);
    }
}

void lmi_tell_value(lmi_teller *t, const char *name, const lam_value *v) {
    switch (v->type) {
    case LAM_BOOL: tell_truth(t, name, v->i != 0); break;
    case LAM_INT: tell_int(t, name, v->i); break;
    case LAM_INTS: lmi_tell_sizes(t, name, v->n, v->ints); break;
    case LAM_FLOAT: lmi_tell_digits(t, name, v->f); break;
    case LAM_TEXT: tell_text(t, name, v->text); break;
    default: tell_none(t, name);
    }
}

void lmi_tell_digits(lmi_teller *t, const char *name, double v) {
    if (!t->json || v - v != 0) {
        tell_real(t, name, v);
        return;
    }
    tell_name(t, name);
    lmi_put_nine(t->json, v);
}

void lmi_tell_count(lmi_teller *t, const char *name, lam_count c) {
    if (!t->json) {
        lmi_give(t, (lam_field){.name = name, .type = LAM_FIELD_COUNT, .count = c});
        return;
    }
    tell_name(t, name);
    PUT(t->json, "{\"value\": ");
    if (c.state == LAM_EXACT && c.over == 0) { /* most are exact (bench row "JSON") */
        quick_int(t->json, c.n);
        PUT(t->json, ", \"state\": \"exact\"}");
        return;
    }
    if (c.state == LAM_UNKNOWN)
        PUT(t->json, "null");
    else
        lmi_put_plain(t->json, c);
    PUT(t->json, ", \"state\": ");
    quick_text(t->json, lam_state_name(c.state));
    PUT(t->json, "}");
}

void lmi_tell_line(lmi_teller *t) {
    lmi_put(t->json, t->any ? ",\n" : "\n");
    t->any = false;
}

void lmi_tell_pair(lmi_teller *t, const char *name, int64_t a, int64_t b) {
    tell_tuple(t, name);
    tell_int(t, NULL, a);
    tell_int(t, NULL, b);
    tell_list_end(t);
}

void lmi_tell_sentences(lmi_teller *t, const char *name, int32_t n, const char *const *at) {
    tell_list(t, name);
    for (int32_t i = 0; i < n; i++) tell_text(t, NULL, at[i]);
    tell_list_end(t);
}

const char *lmi_path_of_call(const lam_model *m, int32_t call) {
    const lam_event *ev = lam_model_event(m, call);
    return ev ? lam_model_place(m, ev->place)->path : NULL;
}
