/* SPDX-License-Identifier: Apache-2.0
 *
 * The peak of a forward pass and of a training step side by side, as text or JSON. */
#include "report/report.h"

#include <stdio.h>

enum { N_RUNS = 2, MOST_ROWS = 8, LABEL = 24, CELL = 22, NUMBER = 48, LONG = 112 };

typedef struct writer {
    const lam_fit *fit[N_RUNS];
    const lam_model *m;
    int64_t measured[N_RUNS];
    lmi_buf out;
    bool exact;
} writer;

static lam_count count_of(int64_t n) {
    return (lam_count){n < 0 ? 0 : n, 0, n < 0 ? LAM_UNKNOWN : LAM_EXACT};
}

static const char *bytes_text(const writer *w, char to[NUMBER], lam_count n) {
    if (w->exact)
        lam_text_digits(to, NUMBER, n);
    else
        lam_text_bytes(to, NUMBER, n);
    return to;
}

static const char *path_of(const writer *w, int32_t place) {
    const lam_place *p = lam_model_place(w->m, place);
    return !p ? "outside every layer" : *p->path ? p->path : "(the model itself)";
}

static const char *type_of(const writer *w, int32_t place) {
    const lam_place *p = lam_model_place(w->m, place);
    const lam_module *mod = p ? lam_model_module(w->m, p->module) : NULL;
    return mod ? mod->type : "";
}

/* Per cent that the prediction is off. */
static bool error_of(const writer *w, int32_t run, double *out) {
    const lam_fit *f = w->fit[run];
    if (!f || w->measured[run] <= 0) return false;
    *out = 100 * ((double)f->peak.n / (double)w->measured[run] - 1);
    return true;
}

/* As a person would say it. */
static const char *label_of(int k) {
    return k == LAM_HELD_BACKWARD ? "gradients of results" : lam_held_name((lam_held)k);
}

/* == text ============================================================================================== */

static void put_label(writer *w, const char *label) {
    lmi_put(&w->out, label);
    lmi_pad(&w->out, ' ', strlen(label) < LABEL ? LABEL - strlen(label) : 1);
}

static void put_cell(writer *w, const char *text, bool last) {
    lmi_put_clean(&w->out, text);
    if (!last) lmi_pad(&w->out, ' ', strlen(text) < CELL ? CELL - strlen(text) : 2);
}

/* One cell of each run that there is. */
static void put_cells(writer *w, const char *label, const char *const cell[N_RUNS]) {
    put_label(w, label);
    for (int32_t i = 0; i < N_RUNS; i++)
        if (w->fit[i]) put_cell(w, cell[i], i == N_RUNS - 1 || !w->fit[N_RUNS - 1]);
    lmi_putc(&w->out, '\n');
}

static void put_head(writer *w) {
    char step[NUMBER];
    const lam_fit *f = w->fit[1];
    snprintf(step, sizeof step, "training step%s%s", f && f->optimizer ? ", " : "",
             f && f->optimizer ? f->optimizer : "");
    const char *const cell[N_RUNS] = {"forward pass", step};
    put_cells(w, "", cell);
}

static void put_part(writer *w, const char *label, int part) {
    char text[N_RUNS][NUMBER] = {"", ""};
    bool any = part < 0;
    for (int32_t i = 0; i < N_RUNS; i++) {
        if (!w->fit[i]) continue;
        lam_count n = part < 0 ? w->fit[i]->peak : w->fit[i]->part[part];
        any = any || n.n > 0;
        bytes_text(w, text[i], n);
    }
    const char *const cell[N_RUNS] = {text[0], text[1]};
    if (any) put_cells(w, label, cell);
}

static void put_when(writer *w) {
    char text[N_RUNS][LONG] = {"", ""};
    for (int32_t i = 0; i < N_RUNS; i++) {
        const lam_fit *f = w->fit[i];
        if (f) snprintf(text[i], LONG, "%s", f->at);
    }
    const char *const cell[N_RUNS] = {text[0], text[1]};
    put_cells(w, "reached in", cell);
}

static void put_measured(writer *w) {
    char text[N_RUNS][NUMBER] = {"", ""}, off[N_RUNS][NUMBER] = {"", ""};
    bool any = false;
    for (int32_t i = 0; i < N_RUNS; i++) {
        double error;
        if (!error_of(w, i, &error)) continue;
        any = true;
        bytes_text(w, text[i], count_of(w->measured[i]));
        snprintf(off[i], NUMBER, "%+.2f %%", error);
    }
    const char *const cell[N_RUNS] = {text[0], text[1]}, *const errors[N_RUNS] = {off[0], off[1]};
    if (!any) return;
    put_cells(w, "measured", cell);
    put_cells(w, "off by", errors);
}

static void put_row(writer *w, const lam_fit_row *row) {
    char text[NUMBER];
    bool first = true;
    lmi_put(&w->out, "  ");
    bytes_text(w, text, count_of(row->bytes));
    lmi_pad(&w->out, ' ', strlen(text) < 10 ? 10 - strlen(text) : 0);
    lmi_putf(&w->out, "%s  ", text);
    lmi_put_clean(&w->out, path_of(w, row->place));
    if (row->place >= 0) lmi_putc(&w->out, ' ');
    lmi_put_clean(&w->out, type_of(w, row->place));
    lmi_put(&w->out, ": ");
    for (int k = 0; k < LAM_N_HELD; k++) {
        if (row->part[k] == 0) continue;
        lmi_putf(&w->out, "%s%s %s", first ? "" : ", ", label_of(k),
                 bytes_text(w, text, count_of(row->part[k])));
        first = false;
    }
    lmi_putc(&w->out, '\n');
}

static void put_rows(writer *w) {
    const lam_fit *f = w->fit[1] ? w->fit[1] : w->fit[0];
    int32_t n = f->n_rows < MOST_ROWS ? f->n_rows : MOST_ROWS;
    lmi_putf(&w->out, "\nheld at the peak of the %s by\n", w->fit[1] ? "training step" : "forward pass");
    for (int32_t i = 0; i < n; i++) put_row(w, &f->rows[i]);
    if (f->n_rows > n)
        lmi_putf(&w->out, "  and %d other layer%s\n", (int)(f->n_rows - n), f->n_rows - n == 1 ? "" : "s");
}

/* That of the forward pass, else that of the step. */
static void put_reason(writer *w, const char *what, const char *forward, const char *step) {
    if (!forward && !step) return;
    lmi_putf(&w->out, "\n%s: ", what);
    lmi_put_clean(&w->out, forward ? forward : step);
    lmi_putc(&w->out, '\n');
}

static void put_notes(writer *w) {
    char text[NUMBER];
    const lam_fit *f = w->fit[0] ? w->fit[0] : w->fit[1];
    if (f->cached_layers > 0)
        lmi_putf(&w->out, "\na key-value cache would take %s a token, in %d layer%s with causal attention\n",
                 bytes_text(w, text, count_of(f->cache_bytes)), (int)f->cached_layers,
                 f->cached_layers == 1 ? "" : "s");
    if (f->masked_layers > 0)
        lmi_putf(&w->out,
                 "\na key-value cache would take %s a token, in %d layer%s with a mask of the model's own, "
                 "if that "
                 "is causal\n",
                 bytes_text(w, text, count_of(f->masked_bytes)), (int)f->masked_layers,
                 f->masked_layers == 1 ? "" : "s");
    put_reason(w, "it may be more", w->fit[0] ? w->fit[0]->gap : NULL, w->fit[1] ? w->fit[1]->gap : NULL);
    put_reason(w, "it may be somewhat less or more", w->fit[0] ? w->fit[0]->rough : NULL,
               w->fit[1] ? w->fit[1]->rough : NULL);
}

static void put_text(writer *w) {
    char label[LABEL];
    put_head(w);
    put_part(w, "peak", -1);
    for (int k = 0; k < LAM_N_HELD; k++) {
        snprintf(label, sizeof label, "  %s", label_of(k));
        put_part(w, label, k);
    }
    put_measured(w);
    put_when(w);
    put_rows(w);
    put_notes(w);
}

/* == JSON ============================================================================================== */

static void put_parts(writer *w, const lam_fit *f) {
    for (int k = LAM_HELD_PARAMETER; k < LAM_N_HELD; k++)
        lmi_putf(&w->out, "%s\"%s\":%lld", k > LAM_HELD_PARAMETER ? "," : "", lam_held_name((lam_held)k),
                 (long long)f->part[k].n);
}

static void put_json_row(writer *w, const lam_fit_row *row) {
    lmi_put(&w->out, "{\"path\":");
    if (row->place < 0)
        lmi_put(&w->out, "null");
    else
        lmi_put_json(&w->out, lam_model_place(w->m, row->place)->path);
    lmi_putf(&w->out, ",\"bytes\":%lld", (long long)row->bytes);
    for (int k = 0; k < LAM_N_HELD; k++)
        if (row->part[k])
            lmi_putf(&w->out, ",\"%s\":%lld", lam_held_name((lam_held)k), (long long)row->part[k]);
    lmi_putc(&w->out, '}');
}

static void put_run(writer *w, int32_t run) {
    const lam_fit *f = w->fit[run];
    double error;
    lmi_putf(&w->out, "\"%s\":", run ? "step" : "forward");
    if (!f) {
        lmi_put(&w->out, "null");
        return;
    }
    lmi_putf(&w->out, "{\"peak\":%lld,\"state\":\"%s\",\"parts\":{", (long long)f->peak.n,
             f->gap ? lam_state_name(f->peak.state) : "predicted");
    put_parts(w, f);
    lmi_put(&w->out, "},\"at\":");
    lmi_put_json(&w->out, f->at);
    lmi_put(&w->out, ",\"optimizer\":");
    lmi_put_json(&w->out, f->optimizer);
    lmi_put(&w->out, ",\"gap\":");
    lmi_put_json(&w->out, f->gap);
    lmi_put(&w->out, ",\"rough\":");
    lmi_put_json(&w->out, f->rough);
    lmi_putf(&w->out, ",\"cached_layers\":%d,\"cache_bytes\":%lld", (int)f->cached_layers,
             (long long)f->cache_bytes);
    lmi_putf(&w->out, ",\"masked_layers\":%d,\"masked_bytes\":%lld", (int)f->masked_layers,
             (long long)f->masked_bytes);
    if (error_of(w, run, &error))
        lmi_putf(&w->out, ",\"measured\":%lld,\"off\":%.4f", (long long)w->measured[run], error);
    lmi_put(&w->out, ",\"rows\":[");
    for (int32_t i = 0; i < f->n_rows; i++) {
        if (i) lmi_putc(&w->out, ',');
        put_json_row(w, &f->rows[i]);
    }
    lmi_put(&w->out, "]}");
}

static void put_all_json(writer *w) {
    lmi_put(&w->out, "{\"schema\":1,");
    put_run(w, 0);
    lmi_putc(&w->out, ',');
    put_run(w, 1);
    lmi_put(&w->out, "}\n");
}

lam_status lam_fit_write(const lam_fit *forward, const lam_fit *step, const lam_model *m,
                         const int64_t measured[2], const char *format, bool exact, lam_sink to,
                         lam_error *e) {
    writer w = {.fit = {forward, step}, .m = m, .exact = exact};
    bool json = format && strcmp(format, "json") == 0;
    if (!m || (!forward && !step))
        return lmi_fail(e, LAM_USAGE, "lam_fit_write", "there is nothing to write");
    if (format && !json && strcmp(format, "text") != 0)
        return lmi_fail(e, LAM_USAGE, format, "there is no such format; there are text and json");
    for (int32_t i = 0; i < N_RUNS; i++) w.measured[i] = measured ? measured[i] : -1;
    lmi_buf_init(&w.out);
    if (json)
        put_all_json(&w);
    else
        put_text(&w);
    lam_status s = lmi_buf_flush(&w.out, to, e);
    lmi_buf_free(&w.out);
    return s;
}
