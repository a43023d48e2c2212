/* SPDX-License-Identifier: Apache-2.0
 *
 * Selects the writer of a layout and format. */
#include "analyse/cost/numbers.h"
#include "report/formats/formats.h"

/* Writes another tool's layout by the host; only users of the Python package have these. */
static lam_status lay_out(lmi_job *j) {
    if (j->o->lay_out) {
        lam_status s = j->o->lay_out(j->o->lay_out_self, j->c, j->o, lmi_buf_sink(&j->out), j->e);
        return j->out.bad ? lmi_nomem(j->e) : s; /* a sink can't say why it failed */
    }
    return lmi_fail(j->e, LAM_UNSUPPORTED, "layout",
                    "%s is a layout of lamina's Python package; this program has none to ask",
                    j->layout->name);
}

#define NONE NULL
static const lmi_layout layouts[] = {
#define LAYOUT(name, text, csv, md, doc) {name, text, csv, md, doc},
#include "report/layouts.def"
#undef LAYOUT
};
#undef NONE
enum { N_LAYOUTS = sizeof layouts / sizeof *layouts };

typedef enum form {
    FORM_TEXT,
    FORM_CSV,
    FORM_MD,
    FORM_JSON,
    FORM_HTML,
    FORM_TRACE,
    FORM_SPEEDSCOPE,
    N_FORMS
} form;
static const char *const form_names[N_FORMS] = {"text", "csv", "md", "json", "html", "trace", "speedscope"};

/* The JSON of a saved report is the file itself; a timeline needs the moments of the run. */
static lam_status needs_run(const lam_model *m, lmi_writer write, lam_error *e) {
    if (!m->given) return LAM_OK;
    if (write == lmi_json) return lmi_fail(e, LAM_USAGE, m->given->file, "it is JSON already; copy the file");
    return write == lmi_trace || write == lmi_speedscope ? lmi_needs_run(m, "a timeline", e) : LAM_OK;
}

/* A saved report is shown with everything that was measured. */
static lam_report_options with_measured(const lam_costs *c, const lam_report_options *o) {
    lam_report_options all = *o;
    if (!c->model->given) return all;
    all.time = lmi_has_times(c);
    all.memory = lam_model_memory_seen(c->model);
    all.peak = all.time && lmi_has_metric(c, LAM_BYTES_READ) ? c->model->given->roof : (lam_peak){0};
    return all;
}

/* Writes a page with all that is known; it uses few options of a table, such as the roof. */
static lam_status write_page(lmi_job *j) {
    const lam_page_options o = {.roof = j->o->peak, .command = j->o->command};
    return lam_page_write(j->c, &o, j->to, j->e);
}

static lmi_writer writer_of(const lmi_layout *l, form f) {
    switch (f) {
    case FORM_TEXT: return l->text;
    case FORM_CSV: return l->csv;
    case FORM_MD: return l->md;
    case FORM_JSON: return lmi_json;
    case FORM_TRACE: return lmi_trace;
    case FORM_SPEEDSCOPE: return lmi_speedscope;
    default: return write_page;
    }
}

/* The default for a NULL name; returns NULL if there is none. */
static const lmi_layout *find_layout(const char *name) {
    if (!name) return &layouts[0];
    for (int i = 0; i < N_LAYOUTS; i++)
        if (strcmp(layouts[i].name, name) == 0) return &layouts[i];
    return NULL;
}

void lam_report_defaults(lam_report_options *o) {
    *o = (lam_report_options){.layout = layouts[0].name, .format = form_names[0], .max_depth = -1};
}

static lam_status no_form(const lmi_layout *l, form f, lam_error *e) {
    lmi_buf list;
    lmi_buf_init(&list);
    for (int i = 0; i < N_LAYOUTS; i++)
        if (writer_of(&layouts[i], f)) lmi_putf(&list, "%s%s", list.n ? ", " : "", layouts[i].name);
    lam_status s = lmi_buf_status(&list, e);
    if (s == LAM_OK)
        s = lmi_fail(e, LAM_USAGE, "format", "layout %s has no %s form; layouts that have one: %s", l->name,
                     form_names[f], lmi_buf_text(&list));
    lmi_buf_free(&list);
    return s;
}

static lam_status find_writer(const lam_report_options *o, const lmi_layout **layout, lmi_writer *out,
                              lam_error *e) {
    const char *format = o->format ? o->format : form_names[0];
    int f = 0;
    *layout = find_layout(o->layout);
    if (!*layout)
        return lmi_no_such(e, "layout", o->layout, NULL, &layouts[0].name, sizeof *layouts, N_LAYOUTS);
    while (f < N_FORMS && strcmp(form_names[f], format) != 0) f++;
    if (f == N_FORMS) return lmi_no_such(e, "format", format, NULL, form_names, sizeof *form_names, N_FORMS);
    *out = writer_of(*layout, (form)f);
    return *out ? LAM_OK : no_form(*layout, (form)f, e);
}

static lam_status no_bytes(const lam_costs *c, lam_error *e) {
    const char *counts = NULL;
    for (int32_t i = 0; i < lam_n_conventions() && !counts; i++)
        if (lam_convention_counts(i, LAM_BYTES_READ)) counts = lam_convention_name(i);
    return lmi_fail(e, LAM_USAGE, "bytes", "the convention %s does not count bytes; ask for %s",
                    c->convention->name, counts);
}

static bool moves(const lam_costs *c) {
    return lmi_has_metric(c, LAM_DMAS) || lmi_has_metric(c, LAM_BYTES_READ);
}

/* Refuses options of the default table for another one. */
static lam_status check_table(const lmi_job *j, bool own, lam_error *e) {
    const char *name = j->o->sort ? "sort" : j->o->rows ? "rows" : j->o->by ? "by" : NULL;
    if (name && !own)
        return lmi_fail(e, LAM_USAGE, name,
                        "it is for the table of the lamina layout as text, md or html; leave it out");
    return lmi_figures_check(j, e);
}

static lam_status check(const lam_costs *c, const lam_report_options *o, lam_error *e) {
    bool counted = o->peak.bytes > 0 ? lmi_has_metric(c, LAM_BYTES_READ) : !o->bytes || moves(c);
    if (!counted) return no_bytes(c, e);
    if (o->time && !lmi_has_times(c)) return lmi_no_times(c->model, "time", e);
    if (o->memory && !lam_model_memory_seen(c->model)) return lmi_no_memory(c->model, e);
    if (o->width < 0)
        return lmi_fail(e, LAM_USAGE, "width", "a width of %d is not possible; give 0 or more", o->width);
    if (o->max_depth < -1)
        return lmi_fail(e, LAM_USAGE, "max_depth",
                        "a depth of %d is not possible; give 0 or more, or -1 for no limit", o->max_depth);
    return LAM_OK;
}

/* Fields take a walk through the graph of operators. Tables of lamina's own layout have them in one column.
 */
static bool has_fields(const lmi_job *j, lmi_writer write) {
    return j->o->receptive_field || (write != lmi_text_own && write != lmi_md_own);
}

lam_status lam_report_write(const lam_costs *c, const lam_report_options *o, lam_sink to, lam_error *e) {
    lam_report_options defaults;
    lmi_writer write = NULL;
    lam_report_defaults(&defaults);
    lmi_job j = {.c = c, .m = c->model, .o = o ? o : &defaults, .to = to, .e = e};
    lam_report_options measured = with_measured(c, j.o);
    if (j.m->given) j.o = &measured;
    LAM_TRY(check(c, j.o, e));
    lam_status found = find_writer(j.o, &j.layout, &write, e);
    if (found != LAM_OK || !write) return found;
    if (has_fields(&j, write)) LAM_TRY(lmi_rows_need(c, e));
    LAM_TRY(needs_run(j.m, write, e));
    LAM_TRY(check_table(&j, write == lmi_text_own || write == lmi_md_own || write == write_page, e));
    bool whole = write == lmi_json || write == lmi_csv_rows; /* these write all data */
    lam_status s = lam_model_checked(j.m) ? lam_health_new(&j.health, j.m, e) : LAM_OK;
    if (s == LAM_OK && lam_model_memory_seen(j.m) && (j.o->memory || whole))
        s = lam_memory_new(&j.memory, j.m, e);
    if (s == LAM_OK && lam_model_device_memory_seen(j.m) && (j.o->memory || whole))
        s = lam_device_memory_new(&j.device_memory, j.m, e);
    if (j.o->time) j.peak = lam_costs_peak(c, j.o->peak);
    lmi_buf_init(&j.out);
    if (s == LAM_OK) s = lmi_job_close(&j, write(&j));
    lam_health_free(j.health);
    lam_memory_free(j.memory);
    lam_memory_free(j.device_memory);
    return s;
}
