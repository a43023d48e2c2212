/* SPDX-License-Identifier: Apache-2.0
 *
 * thoplw's table: counted layers, then a total. Facts: docs/seeds of thoplw 2024.1.25's LayersInfo.summary as
 * recorded in tests/data/thoplw.json. */
#include "report/old/old.h"

/* Rows that do work of their own; a container that only calls its children has none. */
static bool listed(const lam_cost_row *r) { return r->event >= 0 ? r->counted : !r->never_called; }

static void number_line(const lmi_job *j, int32_t row, lmi_line *l) {
    lmi_line_of_row(j, row, l);
    if (j->o->old_params) l->row.params = lmi_sum(l->row.params, l->row.running_stats);
}

/* The total: input of the first row, output of the last, and the root's class. */
static void sum_rows(const lmi_job *j, lmi_line *total, lam_event *ends) {
    static const lam_place nowhere = {.name = "", .path = "Total"};
    static const lam_module nothing = {.type = ""};
    const lam_event *first = NULL, *last = NULL;
    const lam_place *root = lam_model_place(j->m, 0);
    *total = (lmi_line){.job = j,
                        .place = &nowhere,
                        .module = root ? lam_model_module(j->m, root->module) : &nothing};
    for (int32_t i = 0; i < lam_costs_n_rows(j->c); i++) {
        lmi_line l;
        if (!listed(lam_costs_row(j->c, i))) continue;
        number_line(j, i, &l);
        lmi_line_add(total, &l);
        if (!l.event) continue;
        first = first ? first : l.event;
        last = l.event;
    }
    if (!first) return;
    *ends = *last;
    ends->n_in = first->n_in;
    ends->in = first->in;
    total->event = ends;
}

static void line_of_log(const lmi_job *j, const lam_thoplw_row *row, lmi_line *l) {
    *l = (lmi_line){.job = j, .log = row, .row.params = row->params};
    l->row.metric[LAM_MACS] = row->macs;
}

static lam_status collect_logs(lmi_job *j, const lmi_columns *columns, lmi_grid *g) {
    const lam_thoplw_info *info = j->logs;
    lam_thoplw_row whole = {.path = "Total", .in_shapes = "", .out_shape = "", .description = info->type};
    lmi_line total, l;
    for (int32_t i = 0; i < info->n_rows; i++) {
        whole.macs = lmi_sum(whole.macs, info->rows[i].macs);
        whole.params = lmi_sum(whole.params, info->rows[i].params);
    }
    if (info->n_rows > 0) {
        whole.in_shapes = info->rows[0].in_shapes;
        whole.out_shape = info->rows[info->n_rows - 1].out_shape;
    }
    line_of_log(j, &whole, &total);
    for (int32_t i = 0; i < info->n_rows; i++) {
        line_of_log(j, &info->rows[i], &l);
        l.total = &total;
        LAM_TRY(lmi_grid_line(g, columns, &l, j->e));
    }
    return lmi_grid_line(g, columns, &total, j->e);
}

static lam_status collect(lmi_job *j, lmi_columns *columns, lmi_grid *g) {
    lmi_line total, l;
    lam_event ends;
    lmi_columns_parse(LMI_THOPLW_COLUMNS, columns);
    lmi_grid_init(g, columns->n);
    for (int32_t i = 0; i < columns->n; i++)
        LAM_TRY(lmi_grid_put(g, NULL, NULL, columns->at[i]->title, j->e));
    if (j->logs) return collect_logs(j, columns, g);
    sum_rows(j, &total, &ends);
    for (int32_t i = 0; i < lam_costs_n_rows(j->c); i++) {
        if (!listed(lam_costs_row(j->c, i))) continue;
        number_line(j, i, &l);
        l.total = &total;
        LAM_TRY(lmi_grid_line(g, columns, &l, j->e));
    }
    return lmi_grid_line(g, columns, &total, j->e);
}

static void put_rule(lmi_job *j, const size_t *widths, int32_t n, const char *ends, char joint) {
    for (int32_t i = 0; i < n; i++) {
        lmi_putc(&j->out, i ? joint : ends[0]);
        if (ends[1]) lmi_putc(&j->out, ends[1]);
        lmi_pad(&j->out, '-', widths[i] + (ends[1] ? 0 : 2));
        if (ends[1]) lmi_putc(&j->out, ends[1]);
    }
    lmi_putc(&j->out, ends[0]);
    lmi_putc(&j->out, '\n');
}

static void put_row(lmi_job *j, const lmi_columns *columns, const lmi_grid *g, const size_t *widths,
                    int32_t row) {
    for (int32_t i = 0; i < columns->n; i++) {
        const char *cell = lmi_grid_cell(g, row, i);
        lmi_put(&j->out, i ? " | " : "| ");
        lmi_put_aligned(&j->out, cell, lmi_points(cell), widths[i], columns->at[i]->align);
    }
    lmi_put(&j->out, " |\n");
}

static lam_status put_table(lmi_job *j, bool md) {
    lmi_columns columns;
    lmi_grid g;
    size_t widths[LMI_COLUMNS_MAX];
    lam_status s = collect(j, &columns, &g);
    int32_t last = s == LAM_OK ? lmi_grid_rows(&g) - 1 : -1;
    for (int32_t i = 0; last >= 0 && i < columns.n; i++) widths[i] = lmi_grid_width(&g, i, lmi_points);
    for (int32_t r = 0; r <= last && s == LAM_OK; r++) {
        if (!md && (r == 1 || (r == last && r > 1))) put_rule(j, widths, columns.n, "+", '+');
        if (md && r == 1) put_rule(j, widths, columns.n, "|:", '|');
        put_row(j, &columns, &g, widths, r);
        s = lmi_job_flush(j);
    }
    lmi_grid_free(&g);
    return s;
}

lam_status lmi_text_thoplw(lmi_job *j) { return put_table(j, false); }
lam_status lmi_md_thoplw(lmi_job *j) { return put_table(j, true); }

/* Cells without the spaces that format them. */
static void put_stripped(lmi_buf *b, const char *cell) {
    lmi_buf text;
    lmi_buf_init(&text);
    lmi_put(&text, cell + strspn(cell, " "));
    while (text.n > 0 && text.s[text.n - 1] == ' ') text.s[--text.n] = '\0';
    lmi_put_csv(b, lmi_buf_text(&text));
    b->bad = b->bad || text.bad;
    lmi_buf_free(&text);
}

lam_status lmi_csv_thoplw(lmi_job *j) {
    lmi_columns columns;
    lmi_grid g;
    lam_status s = collect(j, &columns, &g);
    for (int32_t r = 0; s == LAM_OK && r < lmi_grid_rows(&g); r++) {
        for (int32_t i = 0; i < columns.n; i++) {
            if (i) lmi_putc(&j->out, ',');
            put_stripped(&j->out, lmi_grid_cell(&g, r, i));
        }
        lmi_putc(&j->out, '\n');
        s = lmi_job_flush(j);
    }
    lmi_grid_free(&g);
    return s;
}

lam_status lam_thoplw_write(const lam_thoplw_info *info, const lam_report_options *o, lam_sink to,
                            lam_error *e) {
    const lam_report_options defaults = {.max_depth = -1};
    lmi_job j = {.o = o ? o : &defaults, .to = to, .e = e, .logs = info};
    const char *format = j.o->format ? j.o->format : "text";
    lmi_writer write = strcmp(format, "text") == 0  ? lmi_text_thoplw
                       : strcmp(format, "csv") == 0 ? lmi_csv_thoplw
                       : strcmp(format, "md") == 0  ? lmi_md_thoplw
                                                    : NULL;
    if (!write)
        return lmi_fail(e, LAM_USAGE, "format", "thoplw's table has no format '%.40s'; use text, csv or md",
                        format);
    lmi_buf_init(&j.out);
    return lmi_job_close(&j, write(&j));
}
