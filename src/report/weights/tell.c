/* SPDX-License-Identifier: Apache-2.0
 *
 * A difference of weights as JSON (docs/json.md); this file names its fields. */
#include "report/tell/tell.h"
#include "report/weights/weights.h"

static const char *const changes[LAM_N_WEIGHTS_CHANGES] = {"equal",   "changed", "added",
                                                           "removed", "renamed", "not compared"};

static void tell_value(lmi_teller *t, const char *name, double v) {
    if (v < 0 || v - v != 0)
        tell_none(t, name);
    else
        lmi_tell_digits(t, name, v);
}

/* The numbers of values that were compared; else they are null. */
static void tell_numbers(lmi_teller *t, const lam_tensor_change *c) {
    for (int by = 0; by < LMI_WEIGHTS_ELEMENTS; by++)
        tell_value(t, lam_weights_metric(by), lmi_weights_value(c, (lmi_weights_by)by));
    tell_known(t, "elements_differ", c->compared ? c->differ : -1);
    tell_known(t, "before_nonfinite", c->compared ? c->nonfinite[0] : -1);
    tell_known(t, "nonfinite", c->compared ? c->nonfinite[1] : -1);
}

static void tell_tensor(lmi_teller *t, const lam_tensor_change *c) {
    static const char *const names[2][3] = {{"before_name", "before_type", "before_shape"},
                                            {"name", "type", "shape"}};
    const char *const name[2] = {c->was, c->name};
    lmi_tell_line(t);
    tell_object(t, NULL);
    tell_text(t, "change", changes[c->change]);
    for (int side = 1; side >= 0; side--) {
        tell_text(t, names[side][0], name[side]);
        tell_text(t, names[side][1], c->type[side]);
        if (name[side])
            lmi_tell_sizes(t, names[side][2], c->ndim[side], c->sizes[side]);
        else
            tell_none(t, names[side][2]);
    }
    tell_known(t, "elements", c->elements);
    tell_numbers(t, c);
    tell_text(t, "why", c->why);
    tell_end(t);
}

static void tell_counts(lmi_teller *t, const lmi_weights_line *l) {
    static const char *const names[LAM_N_WEIGHTS_CHANGES] = {"equal",   "changed", "added",
                                                             "removed", "renamed", "not_compared"};
    for (int i = 0; i < LAM_N_WEIGHTS_CHANGES; i++) tell_int(t, names[i], l->n[i]);
}

static void tell_line(lmi_teller *t, const lmi_weights_line *l) {
    lmi_tell_line(t);
    tell_object(t, NULL);
    tell_text(t, "path", l->path);
    tell_truth(t, "whole", l->whole);
    tell_counts(t, l);
    tell_int(t, "elements", l->sum.elements);
    tell_numbers(t, &l->sum);
    tell_end(t);
}

lam_status lmi_weights_json(const lam_weights_diff *d, const lmi_weights_lines *l, const lam_diff_options *o,
                            lam_sink to, lam_error *e) {
    static const char *const names[] = {"before", "after"};
    const lam_tensor_change *c;
    lmi_buf out;
    lmi_buf_init(&out);
    lmi_teller t = lmi_tell_json(&out);
    lmi_tell_document(&t, "weights", 1);
    for (int i = 0; i < 2; i++) {
        tell_object(&t, names[i]);
        tell_text(&t, "name", d->name[i]);
        tell_text(&t, "format", d->format[i]);
        tell_end(&t);
    }
    lmi_tell_sentences(&t, "notes", (int32_t)d->notes.n, d->notes.data);
    tell_object(&t, "total");
    tell_counts(&t, &l->all);
    tell_int(&t, "elements", l->all.sum.elements);
    tell_numbers(&t, &l->all.sum);
    tell_end(&t);
    tell_text(&t, "by", o->by ? o->by : lam_weights_metric(0));
    tell_list(&t, "modules");
    for (size_t i = 0; i < l->at.n; i++) tell_line(&t, lmi_vec_at(&l->at, i));
    tell_list_end(&t);
    tell_list(&t, "tensors");
    for (int32_t i = 0; (c = lam_weights_tensor(d, i)); i++)
        if (c->change != LAM_WEIGHTS_EQUAL) tell_tensor(&t, c);
    tell_list_end(&t);
    tell_end(&t);
    lmi_putc(&out, '\n');
    lam_status s = lmi_buf_flush(&out, to, e);
    lmi_buf_free(&out);
    return s;
}

lam_status lam_weights_diff_write(const lam_weights_diff *d, const lam_diff_options *o, lam_sink to,
                                  lam_error *e) {
    static const lam_diff_options defaults = {.rows = -1, .depth = -1};
    lmi_weights_lines l;
    if (!o) o = &defaults;
    const char *format = o->format ? o->format : "text";
    const bool json = strcmp(format, "json") == 0,
               text = strcmp(format, "text") == 0 || strcmp(format, "md") == 0;
    if (!json && !text)
        return lmi_fail(e, LAM_USAGE, "format", "there is no format '%.60s'; there are: text, md, json",
                        format);
    lam_status s = lmi_weights_list(&l, d, o->by, o->depth, e);
    if (s == LAM_OK) s = (json ? lmi_weights_json : lmi_weights_text)(d, &l, o, to, e);
    lmi_weights_lines_free(&l);
    return s;
}
