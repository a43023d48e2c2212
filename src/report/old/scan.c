/* SPDX-License-Identifier: Apache-2.0
 *
 * torchscan's table, byte for byte: its cells, its wrapping (a cut marker included: published text depends
 * on it) and its two layouts. Facts: torchscan 0.1.2's and 0.1.1's summaries as recorded in
 * tests/data/torchscan.json. */
#include "report/old/old.h"

#include <limits.h>

enum { N_CELLS = 7, UNCUT_NAME = 100 }; /* a name is wrapped to 100 while widths are found */
#define LAYOUT "torchscan-0.1.2"

static const lmi_scan_style v012 = {.columns = LMI_SCAN_012_COLUMNS,
                                    .cap = {27, 20, 25, 15, 15, 16, 17},
                                    .cut_name = 27,
                                    .gap = {0, 4, 4, 4, 4, 4, 4}};
static const lmi_scan_style v011 = {.columns = LMI_SCAN_COLUMNS,
                                    .fixed = true,
                                    .cap = {27, 20, 25, 15, 15, 16, 17},
                                    .cut_name = 25,
                                    .gap = {0, 2, 2, 1, 1, 1, 1},
                                    .rule = 90,
                                    .rule_rf = 108,
                                    .blank_end = true,
                                    .floats = true};

const lmi_scan_style *lmi_scan_style_named(const char *layout) {
    if (!layout) return NULL;
    if (strcmp(layout, "torchscan-0.1.2") == 0) return &v012;
    return strcmp(layout, "torchscan-0.1.1") == 0 ? &v011 : NULL;
}

/* -- cells --------------------------------------------------------------------------------------------- */

/* Bytes of text[:end] as Python slices: a negative end counts from the right. */
static size_t slice(const char *text, int64_t points, int64_t end) {
    if (end < 0) end += points;
    return end > 0 ? lmi_point_at(text, (size_t)end) : 0;
}

static const char *after_last(const char *text, const char *delimiter) {
    const char *last = text;
    for (const char *p = strstr(text, delimiter); p; p = strstr(p + 1, delimiter))
        last = p + strlen(delimiter);
    return last;
}

lam_status lmi_wrap(lmi_buf *b, const char *text, int64_t max_len, const char *delimiter, const char *wrap,
                    lam_wrap mode, lam_error *e) {
    int64_t points = (int64_t)lmi_points(text), marker = (int64_t)lmi_points(wrap);
    if (points <= max_len || mode == LAM_WRAP_NONE) {
        lmi_put(b, text);
        return LAM_OK;
    }
    if (mode != LAM_WRAP_MID && mode != LAM_WRAP_END)
        return lmi_fail(e, LAM_USAGE, "wrap", "there is no wrap mode %d; use mid, end or none", (int)mode);
    if (mode == LAM_WRAP_MID && !*delimiter)
        return lmi_fail(e, LAM_USAGE, "wrap",
                        "the delimiter is empty; give the text between components, \".\"");
    const char *last = mode == LAM_WRAP_MID ? after_last(text, delimiter) : NULL;
    if (last) marker += 1 + (int64_t)lmi_points(last);
    lmi_putn(b, text, slice(text, points, max_len - marker));
    lmi_put(b, wrap);
    if (!last) return LAM_OK;
    lmi_putc(b, '.');
    lmi_put(b, last);
    return LAM_OK;
}

void lmi_format_s(lmi_buf *b, const char *text, int32_t min_width, int32_t max_width) {
    size_t points = lmi_points(text), keep = points;
    if (max_width >= 0 && keep > (size_t)max_width) keep = (size_t)max_width;
    lmi_putn(b, text, lmi_point_at(text, keep));
    for (; points < (size_t)(min_width < 0 ? 0 : min_width); points++)
        if (max_width < 0 || points < (size_t)max_width) lmi_putc(b, ' ');
}

/* The name alone is wrapped: to a little more than its width, and cut there afterwards. */
static lam_status put_value(lmi_buf *b, const lmi_columns *columns, const lam_scan_row *row, int32_t column,
                            int32_t width, lam_wrap wrap, lam_error *e) {
    lmi_line l = {.scan = row};
    if (row->depth > LAM_SCAN_DEEPEST)
        return lmi_fail(e, LAM_RANGE, row->name, "its depth is %d; no tree is deeper than %d", row->depth,
                        LAM_SCAN_DEEPEST);
    if (column > 0 && column < LMI_COLUMNS_MAX) {
        columns->at[column]->cell(&l, b);
        return LAM_OK;
    }
    lmi_buf name;
    lmi_buf_init(&name);
    columns->at[0]->cell(&l, &name);
    int32_t max_len = width < 0 ? UNCUT_NAME : width > INT32_MAX - 3 ? INT32_MAX : width + 3;
    lam_status s = lmi_buf_status(&name, e);
    if (s == LAM_OK) s = lmi_wrap(b, lmi_buf_text(&name), max_len, ".", "[...]", wrap, e);
    lmi_buf_free(&name);
    return s;
}

/* One cell padded and cut to `width`; negative: as long as it is. */
static lam_status put_cell(lmi_buf *b, const lmi_columns *columns, const lam_scan_row *row, int32_t column,
                           int32_t width, lam_wrap wrap, lam_error *e) {
    lmi_buf text;
    lmi_buf_init(&text);
    lam_status s = put_value(&text, columns, row, column, width, wrap, e);
    if (s == LAM_OK) s = lmi_buf_status(&text, e);
    if (s == LAM_OK) lmi_format_s(b, lmi_buf_text(&text), width, width);
    lmi_buf_free(&text);
    return s;
}

/* -- the table ---------------------------------------------------------------------------------------- */

typedef struct scan_table {
    lmi_job *j;
    const lam_scan_info *info;
    const lmi_scan_style *style;
    lmi_columns columns;
    int32_t widths[N_CELLS];
} scan_table;

static lam_status find_widths(scan_table *t) {
    lmi_buf cell;
    lam_status s = LAM_OK;
    lmi_buf_init(&cell);
    for (int32_t i = 0; i < t->columns.n; i++)
        t->widths[i] = t->style->fixed ? t->style->cap[i] : (int32_t)strlen(t->columns.at[i]->title);
    for (int32_t r = 0; s == LAM_OK && !t->style->fixed && r < t->info->n_rows; r++) {
        for (int32_t i = 0; s == LAM_OK && i < t->columns.n; i++) {
            cell.n = 0;
            lmi_putn(&cell, "", 0);
            s = put_cell(&cell, &t->columns, &t->info->rows[r], i, -1, t->j->o->wrap, t->j->e);
            if (s == LAM_OK) s = lmi_buf_status(&cell, t->j->e);
            if (s != LAM_OK) break;
            size_t points = lmi_points(cell.s), cap = (size_t)t->style->cap[i];
            if (points > (size_t)t->widths[i]) t->widths[i] = (int32_t)(points < cap ? points : cap);
        }
    }
    lmi_buf_free(&cell);
    return s;
}

/* The name is wrapped for its whole column and then cut where the layout cuts it. */
static lam_status put_row(scan_table *t, const lam_scan_row *row) {
    lmi_buf name, *out = &t->j->out;
    int32_t width = t->widths[0], cut = t->style->cut_name < width ? t->style->cut_name : width;
    lmi_buf_init(&name);
    lam_status s = put_cell(&name, &t->columns, row, 0, width, t->j->o->wrap, t->j->e);
    if (s == LAM_OK) s = lmi_buf_status(&name, t->j->e);
    if (s == LAM_OK) lmi_format_s(out, lmi_buf_text(&name), cut, cut);
    lmi_pad(out, ' ', (size_t)(width - cut));
    lmi_buf_free(&name);
    for (int32_t i = 1; s == LAM_OK && i < t->columns.n; i++) {
        lmi_pad(out, ' ', (size_t)t->style->gap[i]);
        s = put_cell(out, &t->columns, row, i, t->widths[i], t->j->o->wrap, t->j->e);
    }
    lmi_putc(out, '\n');
    return s;
}

static void put_rule(lmi_job *j, char c, size_t length) {
    lmi_pad(&j->out, c, length);
    lmi_putc(&j->out, '\n');
}

static void put_header(const scan_table *t) {
    for (int32_t i = 0; i < t->columns.n; i++) {
        const char *title = t->columns.at[i]->title;
        lmi_pad(&t->j->out, ' ', (size_t)t->style->gap[i]);
        lmi_put_aligned(&t->j->out, title, strlen(title), (size_t)t->widths[i], LMI_LEFT);
    }
    lmi_putc(&t->j->out, '\n');
}

static void put_params(lmi_job *j, const char *label, lam_count c) {
    lmi_put(&j->out, label);
    lmi_put_grouped(&j->out, c);
    lmi_putc(&j->out, '\n');
}

static void put_mb(lmi_job *j, const char *label, double mb, lam_state state) {
    lmi_put(&j->out, label);
    if (state == LAM_AT_LEAST) lmi_put(&j->out, ">= ");
    if (state == LAM_UNKNOWN)
        lmi_putc(&j->out, '?');
    else
        lmi_put_fixed(&j->out, mb, 0, 2);
    lmi_put(&j->out, " Mb\n");
}

static void put_metric(lmi_job *j, const lam_scan_info *info, lam_metric metric, const char *label,
                       const char *unit) {
    const char *prefix = "";
    lam_count sum = lmi_exact(0);
    for (int32_t i = 0; i < info->n_rows; i++) sum = lmi_sum(sum, info->rows[i].metric[metric]);
    double v = lam_unit_scale(lmi_count_double(sum), &prefix);
    lmi_put(&j->out, label);
    if (sum.state == LAM_AT_LEAST) lmi_put(&j->out, ">= ");
    if (sum.state == LAM_UNKNOWN)
        lmi_putc(&j->out, '?');
    else
        lmi_put_fixed(&j->out, v, 0, 2);
    lmi_putf(&j->out, " %s%s\n", sum.state == LAM_UNKNOWN ? "" : prefix, unit);
}

static void put_totals(lmi_job *j, const lam_scan_info *info, size_t length) {
    double mb = lmi_count_double(info->bytes) / (1024.0 * 1024.0);
    put_params(j, "Trainable params: ", info->grad_params);
    put_params(j, "Non-trainable params: ", info->nograd_params);
    put_params(j, "Total params: ", lmi_sum(info->grad_params, info->nograd_params));
    put_rule(j, '-', length);
    put_mb(j, "Model size (params + buffers): ", mb, info->bytes.state);
    put_mb(j, "Framework & CUDA overhead: ", j->o->overhead_mb, LAM_EXACT);
    put_mb(j, "Total RAM usage: ", mb + j->o->overhead_mb, info->bytes.state);
    put_rule(j, '-', length);
    put_metric(j, info, LAM_FLOPS, "Floating Point Operations on forward: ", "FLOPs");
    put_metric(j, info, LAM_MACS, "Multiply-Accumulations on forward: ", "MACs");
    put_metric(j, info, LAM_DMAS, "Direct memory accesses on forward: ", "DMAs");
}

lam_status lmi_scan_put(lmi_job *j, const lam_scan_info *info, const lmi_scan_style *style) {
    bool rf = j->o->receptive_field;
    scan_table t = {.j = j, .info = info, .style = style};
    size_t length = (size_t)(rf ? style->rule_rf : style->rule);
    lmi_columns_parse(style->columns, &t.columns);
    int32_t wanted = rf ? (j->o->effective_rf_stats ? N_CELLS : 5) : 4;
    if (t.columns.n > wanted) t.columns.n = wanted;
    LAM_TRY(find_widths(&t));
    for (int32_t i = 0; i < t.columns.n && !style->fixed; i++)
        length += (size_t)(t.widths[i] + style->gap[i]);
    put_rule(j, '_', length);
    put_header(&t);
    put_rule(j, '=', length);
    for (int32_t i = 0; i < info->n_rows; i++) {
        LAM_TRY(put_row(&t, &info->rows[i]));
        LAM_TRY(lmi_job_flush(j));
    }
    put_rule(j, '=', length);
    put_totals(j, info, length);
    put_rule(j, '_', length);
    if (style->blank_end) lmi_putc(&j->out, '\n');
    return LAM_OK;
}

lam_status lam_scan_write(const lam_scan_info *info, const lam_report_options *o, lam_sink to, lam_error *e) {
    const lam_report_options defaults = {.layout = LAYOUT, .max_depth = -1};
    lmi_job j = {.o = o ? o : &defaults, .to = to, .e = e};
    const lmi_scan_style *style = lmi_scan_style_named(j.o->layout);
    if (!style)
        return lmi_fail(e, LAM_USAGE, "layout",
                        "'%.60s' is not a torchscan layout; use torchscan-0.1.2 or torchscan-0.1.1",
                        j.o->layout ? j.o->layout : "");
    lmi_buf_init(&j.out);
    return lmi_job_close(&j, lmi_scan_put(&j, info, style));
}

/* -- pieces for callers -------------------------------------------------------------------------------- */

/* Copies out like snprintf and frees; -1 on failure. */
static int give(lmi_buf *b, lam_status s, char *buf, size_t size) {
    int length = s != LAM_OK || b->bad || b->n > INT_MAX ? -1 : (int)b->n;
    size_t n = b->n < size ? b->n : size ? size - 1 : 0;
    if (length >= 0 && n > 0) memcpy(buf, b->s, n);
    if (size > 0) buf[length < 0 ? 0 : n] = '\0';
    lmi_buf_free(b);
    return length;
}

int lam_wrap_string(char *buf, size_t size, const char *text, int64_t max_len, const char *delimiter,
                    const char *wrap, lam_wrap mode) {
    lmi_buf b;
    lmi_buf_init(&b);
    return give(&b, lmi_wrap(&b, text, max_len, delimiter, wrap, mode, NULL), buf, size);
}

int lam_format_name(char *buf, size_t size, const char *name, int32_t depth) {
    lmi_buf b;
    lmi_buf_init(&b);
    if (depth <= LAM_SCAN_DEEPEST) lmi_format_name(&b, name, depth);
    return give(&b, depth <= LAM_SCAN_DEEPEST ? LAM_OK : LAM_RANGE, buf, size);
}

int lam_format_s(char *buf, size_t size, const char *text, int32_t min_width, int32_t max_width) {
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_format_s(&b, text, min_width, max_width);
    return give(&b, LAM_OK, buf, size);
}

int lam_scan_cell(char *buf, size_t size, const lam_scan_row *row, int32_t column, int32_t width,
                  lam_wrap wrap) {
    lmi_buf b;
    lmi_columns columns;
    lmi_buf_init(&b);
    lmi_columns_parse(v012.columns, &columns);
    bool known = column >= 0 && column < columns.n;
    return give(&b, known ? put_cell(&b, &columns, row, column, width, wrap, NULL) : LAM_RANGE, buf, size);
}
