/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of the costs as rows of torchscan's table. */
#include "report/old/old.h"

/* Text that rows point to: names, class names and shapes, cleaned, in one arena. */
typedef struct texts {
    lmi_arena arena;
    lmi_buf scratch;
} texts;

static const char *keep(texts *t) {
    const char *s = t->scratch.bad ? NULL : lmi_strndup(&t->arena, lmi_buf_text(&t->scratch), t->scratch.n);
    t->scratch.n = 0;
    return s;
}

static const char *keep_clean(texts *t, const char *s) {
    lmi_put_clean(&t->scratch, s);
    return keep(t);
}

/* The root has no name of its own: torchscan calls it by its class in lower case. */
static const char *keep_name(texts *t, const lmi_line *l) {
    if (l->own) return "[own parameters]";
    if (l->place->parent >= 0) return keep_clean(t, l->place->name);
    lmi_put_clean(&t->scratch, l->module->type);
    for (size_t i = 0; i < t->scratch.n && !t->scratch.bad; i++) {
        char *c = &t->scratch.s[i];
        if (*c >= 'A' && *c <= 'Z') *c = (char)(*c - 'A' + 'a');
    }
    return keep(t);
}

static const char *keep_shape(texts *t, const lmi_line *l) {
    if (!l->event || l->event->n_out == 0) return "?";
    lmi_put_tuple(&t->scratch, lmi_arg_shape(&l->event->out[0]));
    return keep(t);
}

static lam_status fill(const lmi_job *j, texts *t, int32_t row, lam_scan_row *out) {
    lmi_line l;
    lmi_line_of_row(j, row, &l);
    *out = (lam_scan_row){.name = keep_name(t, &l),
                          .type = keep_clean(t, l.module->type),
                          .output_shape = keep_shape(t, &l),
                          .depth = l.depth + l.own,
                          .params = lmi_sum(l.row.params, l.row.buffers),
                          .rf = l.row.rf,
                          .rf_stride = l.row.rf_stride,
                          .rf_padding = l.row.rf_padding,
                          .rf_state = l.row.rf_state};
    memcpy(out->metric, l.row.metric, sizeof out->metric);
    return out->name && out->type && out->output_shape ? LAM_OK : lmi_nomem(j->e);
}

/* torchscan 0.1.1 goes from the last row to the first and prints what Python holds by then: a float once
 * it has met the stride 1/s of a transposed convolution. */
static void mark_floats(const lmi_job *j, lam_scan_row *rows, int32_t n) {
    bool is_float = false;
    for (int32_t i = n - 1; i >= 0; i--) {
        const lam_module *mod = lam_model_module(j->m, lam_costs_row(j->c, i)->module);
        is_float = is_float || lmi_word_kind(mod->word) == LMI_K_conv_transpose;
        rows[i].rf_is_float = is_float;
    }
}

static lam_status check_depth(const lmi_job *j) {
    for (int32_t i = 0; j->o->max_depth >= 0 && i < lam_costs_n_rows(j->c); i++)
        if (lam_costs_row(j->c, i)->depth > j->o->max_depth)
            return lmi_fail(
                j->e, LAM_USAGE, "max_depth",
                "rows deeper than %d are there; this layout sums them with lam_costs_aggregate first",
                (int)j->o->max_depth);
    return LAM_OK;
}

static lam_status write_rows(lmi_job *j, texts *t) {
    int32_t n = lam_costs_n_rows(j->c);
    lam_param_totals p = lam_costs_params(j->c);
    lam_scan_row *rows = lmi_alloc(&t->arena, (uint64_t)n, sizeof *rows);
    if (!rows) return lmi_nomem(j->e);
    for (int32_t i = 0; i < n; i++) LAM_TRY(fill(j, t, i, &rows[i]));
    const lmi_scan_style *style = lmi_scan_style_named(j->layout->name);
    if (style->floats) mark_floats(j, rows, n);
    lam_scan_info info = {n, rows, p.grad_params, p.nograd_params, lmi_sum(p.param_bytes, p.buffer_bytes)};
    return lmi_scan_put(j, &info, style);
}

lam_status lmi_text_scan(lmi_job *j) {
    texts t;
    lmi_arena_init(&t.arena, UINT64_MAX);
    lmi_buf_init(&t.scratch);
    lam_status s = check_depth(j);
    if (s == LAM_OK) s = write_rows(j, &t);
    lmi_buf_free(&t.scratch);
    lmi_arena_free(&t.arena);
    return s;
}
