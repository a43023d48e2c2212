/* SPDX-License-Identifier: Apache-2.0
 *
 * Fields as one JSON document. */
#include "report/tell/tell.h"

#include <stdlib.h>

enum { DEEPEST = 32 }; /* levels of nesting; the deepest walk has six */

struct lam_json {
    lmi_buf out;
    lmi_teller t;
    const char *name; /* replaces the name of the next field */
    bool begun;       /* a record has begun: whether its fields have names decides on its bracket */
    int depth;        /* of nesting in the document; -1: deeper than DEEPEST */
    char end[DEEPEST];
};

void lmi_put_head(lmi_buf *b, const char *kind, int version, const char *between) {
    lmi_putf(b, "\"schema\": \"lamina.%s/%d\"%s\"schema_version\": %d%s\"version\": \"%s\"", kind, version,
             between, version, between, lam_version());
}

lam_status lam_json_new(lam_json **out, const char *kind, int32_t version, lam_error *e) {
    lam_json *j = calloc(1, sizeof *j);
    *out = j;
    if (!j) return lmi_nomem(e);
    lmi_buf_init(&j->out);
    j->t = lmi_tell_json(&j->out);
    lmi_tell_document(&j->t, kind, (int)version);
    return LAM_OK;
}

void lam_json_free(lam_json *j) {
    if (j) lmi_buf_free(&j->out);
    free(j);
}

static void open(lam_json *j, char bracket, char end) {
    lmi_putc(&j->out, bracket);
    j->t.any = false;
    if (j->depth == DEEPEST) j->depth = -1;
    if (j->depth >= 0) j->end[j->depth++] = end;
}

static void begin(lam_json *j, const lam_field *f, const char *name) {
    tell_name(&j->t, name);
    j->begun = f->type == LAM_FIELD_RECORD;
    if (f->type == LAM_FIELD_OBJECT) open(j, '{', '}');
    if (f->type == LAM_FIELD_LIST) open(j, '[', ']');
}

static void end(lam_json *j) {
    if (j->begun) open(j, '[', ']');
    j->begun = false;
    if (j->depth > 0) lmi_putc(&j->out, j->end[--j->depth]);
    j->t.any = true;
}

static bool put(void *self, const lam_field *f) {
    lam_json *j = self;
    const char *name = j->name ? j->name : f->name;
    j->name = NULL;
    if (j->begun && f->type != LAM_FIELD_END) {
        open(j, name ? '{' : '[', name ? '}' : ']');
        j->begun = false;
    }
    switch (f->type) {
    case LAM_FIELD_NONE: tell_none(&j->t, name); break;
    case LAM_FIELD_TRUTH: tell_truth(&j->t, name, f->truth); break;
    case LAM_FIELD_INTEGER: tell_int(&j->t, name, f->integer); break;
    case LAM_FIELD_REAL: tell_real(&j->t, name, f->real); break;
    case LAM_FIELD_TEXT: tell_text(&j->t, name, f->text); break;
    case LAM_FIELD_COUNT: lmi_tell_count(&j->t, name, f->count); break;
    case LAM_FIELD_SIZES: lmi_tell_sizes(&j->t, name, f->shape.ndim, f->shape.sizes); break;
    case LAM_FIELD_END: end(j); break;
    default: begin(j, f, name);
    }
    return !j->out.bad && j->depth >= 0;
}

lam_receiver lam_json_field(lam_json *j, const char *name) {
    j->name = name;
    return (lam_receiver){put, j};
}

lam_status lam_json_write(lam_json *j, lam_sink to, lam_error *e) {
    LAM_TRY(lmi_buf_status(&j->out, e));
    if (j->depth != 0 || j->begun)
        return lmi_fail(e, LAM_USAGE, "lam_json_write", "something in it is still open");
    tell_end(&j->t);
    lmi_putc(&j->out, '\n');
    return lmi_buf_flush(&j->out, to, e);
}
