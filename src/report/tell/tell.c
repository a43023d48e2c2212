/* SPDX-License-Identifier: Apache-2.0
 *
 * Helpers of all walks over results. */
#include "report/tell/tell.h"

void lmi_give(lmi_teller *t, lam_field f) {
    /* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): a teller has a buffer or a receiver */
    if (!t->stopped) t->stopped = !t->to.field(t->to.self, &f);
}

/* -- values ----------------------------------------------------------------------------------------------
 */

void lmi_tell_name(lmi_teller *t, const char *name, size_t n) {
    lmi_buf *b = t->json;
    const size_t most = n + sizeof ", \"\": " - 1;
    if ((b->cap - b->n <= most || b->bad) && !lmi_buf_room(b, most)) return;
    char *to = b->s + b->n;
    if (t->any) {
        memcpy(to, ", ", 2);
        to += 2;
    }
    t->any = true;
    if (name) {
        *to++ = '"';
        memcpy(to, name, n);
        memcpy(to + n, "\": ", 3);
        to += n + 3;
    }
    b->n = (size_t)(to - b->s);
}

void lmi_tell_none(lmi_teller *t, const char *name, size_t n) {
    if (!t->json) {
        lmi_give(t, (lam_field){.name = name, .type = LAM_FIELD_NONE});
        return;
    }
    lmi_tell_name(t, name, n);
    PUT(t->json, "null");
}

void lmi_tell_truth(lmi_teller *t, const char *name, size_t n, bool v) {
    if (!t->json) {
        lmi_give(t, (lam_field){.name = name, .type = LAM_FIELD_TRUTH, .truth = v});
        return;
    }
    lmi_tell_name(t, name, n);
    quick_put(t->json, v ? "true" : "false", v ? 4 : 5);
}

void lmi_tell_int(lmi_teller *t, const char *name, size_t n, int64_t v) {
    if (!t->json) {
        lmi_give(t, (lam_field){.name = name, .type = LAM_FIELD_INTEGER, .integer = v});
        return;
    }
    lmi_tell_name(t, name, n);
    quick_int(t->json, v);
}

void lmi_tell_known(lmi_teller *t, const char *name, size_t n, int64_t v) {
    if (v < 0)
        lmi_tell_none(t, name, n);
    else
        lmi_tell_int(t, name, n, v);
}

void lmi_tell_text(lmi_teller *t, const char *name, size_t n, const char *v) {
    if (!t->json) {
        lmi_give(t, (lam_field){.name = name, .type = v ? LAM_FIELD_TEXT : LAM_FIELD_NONE, .text = v});
        return;
    }
    lmi_tell_name(t, name, n);
    quick_text(t->json, v);
}

void lmi_tell_real(lmi_teller *t, const char *name, size_t n, double v) {
    if (!t->json) {
        lmi_give(t, (lam_field){.name = name, .type = LAM_FIELD_REAL, .real = v});
        return;
    }
    lmi_tell_name(t, name, n);
    if (v - v != 0)
        PUT(t->json, "null");
    else if (v > -1e15 && v < 1e15 && v == (double)(int64_t)v)
        quick_int(t->json, (int64_t)v);
    else
        lmi_put_real(t->json, v);
}

void lmi_tell_known_real(lmi_teller *t, const char *name, size_t n, double v) {
    if (v < 0)
        lmi_tell_none(t, name, n);
    else
        lmi_tell_real(t, name, n, v);
}

void lmi_tell_begin(lmi_teller *t, const char *name, size_t n, lam_field_type type, char bracket) {
    if (!t->json) {
        lmi_give(t, (lam_field){.name = name, .type = type});
        return;
    }
    lmi_tell_name(t, name, n);
    quick_put(t->json, &bracket, 1);
    t->any = false;
}

void lmi_tell_close(lmi_teller *t, char bracket) {
    if (!t->json) {
        lmi_give(t, (lam_field){.type = LAM_FIELD_END});
        return;
    }
    quick_put(t->json, &bracket, 1);
    t->any = true;
}

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
