/* SPDX-License-Identifier: Apache-2.0
 *
 * The peak of a training step and of a forward pass, as text, JSON or a part of a page. */
#include "report/page/page.h"
#include "report/table/report.h"
#include "report/tell/tell.h"

#include <stdio.h>
#include <stdlib.h>

enum { N_RUNS = 2, MOST_ROWS = 8, LABEL = 14, NUMBER = 48, BARS = 50 };

typedef struct writer {
    const lam_fit *fit[N_RUNS];
    const lam_model *m;
    int64_t measured[N_RUNS];
    lmi_buf out;
    bool exact;
} writer;

static const char *bytes_text(const writer *w, char to[NUMBER], lam_count n) {
    if (w->exact) {
        lam_text_count(to, NUMBER, n, true);
        strcat(to, " B");
    } else {
        lam_text_bytes(to, NUMBER, n);
    }
    return to;
}

static const char *path_of(const writer *w, int32_t place) {
    const lam_place *p = lam_model_place(w->m, place);
    return !p ? "outside every layer" : *p->path ? p->path : "the model itself";
}

static const char *type_of(const writer *w, int32_t place) {
    const lam_place *p = lam_model_place(w->m, place);
    const lam_module *mod = p ? lam_model_module(w->m, p->module) : NULL;
    return mod ? mod->type : "";
}

/* The error of the prediction, in per cent. */
static bool error_of(const writer *w, int32_t run, double *out) {
    const lam_fit *f = w->fit[run];
    if (!f || w->measured[run] <= 0) return false;
    *out = 100 * ((double)f->peak.n / (double)w->measured[run] - 1);
    return true;
}

/* A label in plain words. */
static const char *label_of(int k) {
    return k == LAM_HELD_BACKWARD ? "gradients of results" : lam_held_name((lam_held)k);
}

static const char *run_name(int32_t run) { return run ? "training step" : "forward pass"; }

/* == text ============================================================================================== */

static void put_label(writer *w, const char *label) { lmi_putf(&w->out, "%-*s ", LABEL, label); }

typedef struct held {
    int part;
    int64_t bytes;
} held;

static int more_bytes(const void *a, const void *b) {
    const held *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes ? 1 : -1) : x->part - y->part;
}

/* Writes "activations 631 MiB, parameters 44.6 MiB", the largest first. */
static void put_held(writer *w, const int64_t part[LAM_N_HELD]) {
    char text[NUMBER];
    held all[LAM_N_HELD];
    for (int k = 0; k < LAM_N_HELD; k++) all[k] = (held){k, part[k]};
    qsort(all, LAM_N_HELD, sizeof *all, more_bytes);
    for (int k = 0; k < LAM_N_HELD && all[k].bytes > 0; k++)
        lmi_putf(&w->out, "%s%s %s", k ? ", " : "", label_of(all[k].part),
                 bytes_text(w, text, lmi_count_of(all[k].bytes)));
}

/* Writes what runs at the peak, and in which layer: known for the run whose model is given. */
static void put_when(writer *w, int32_t run) {
    const lam_fit *f = w->fit[run];
    if (!f) return;
    const lam_op *op = run == (w->fit[1] != NULL) && f->op >= 0 ? lam_model_op(w->m, f->op) : NULL;
    const lam_event *call = op && op->call >= 0 ? lam_model_event(w->m, op->call) : NULL;
    lmi_put(&w->out, f->op >= 0 ? "while " : strncmp(f->at, "before", 6) == 0 ? "" : "in ");
    lmi_put_clean(&w->out, f->at);
    lmi_put(&w->out, f->op >= 0 ? " runs" : "");
    if (call) {
        lmi_put(&w->out, ", in ");
        lmi_put_clean(&w->out, path_of(w, call->place));
        lmi_put(&w->out, " (");
        lmi_put_clean(&w->out, type_of(w, call->place));
        lmi_putc(&w->out, ')');
    }
}

/* "at least 592 MiB", "roughly" */
static void put_total(writer *w, const lam_fit *f) {
    char text[NUMBER];
    lmi_putf(&w->out, "%s%s",
             f->gap     ? "at least "
             : f->rough ? "roughly "
                        : "",
             bytes_text(w, text, lmi_count_of(f->peak.n)));
}

/* Writes the peak and its parts. */
static void put_peak(writer *w, int32_t run) {
    const lam_fit *f = w->fit[run];
    char text[NUMBER];
    int64_t part[LAM_N_HELD];
    double error;
    if (!f) return;
    for (int k = 0; k < LAM_N_HELD; k++) part[k] = f->part[k].n;
    put_label(w, run_name(run));
    put_total(w, f);
    if (f->optimizer) lmi_putf(&w->out, ", with %s", f->optimizer);
    lmi_putc(&w->out, '\n');
    put_label(w, "  of it");
    put_held(w, part);
    lmi_putc(&w->out, '\n');
    put_label(w, "  largest");
    put_when(w, run);
    lmi_putc(&w->out, '\n');
    if (!error_of(w, run, &error)) return;
    put_label(w, "  measured");
    lmi_putf(&w->out, "%s, the prediction is off by %+.2f %%\n",
             bytes_text(w, text, lmi_count_of(w->measured[run])), error);
}

/* -- layers, equal ones as one ----------------------------------------------------------------- */

/* Rows that hold the same and whose paths differ in one number, as "encoder.layer.3". */
typedef struct equals {
    const lam_fit_row *row; /* the first */
    size_t before, after;   /* in its path: where the number begins and ends; after SIZE_MAX: one row */
    long low, high;
    int32_t n;
} equals;

/* The number that is a whole component of `path`, at `at`; -1: there is none. */
static long number_at(const char *path, size_t at, size_t *n) {
    *n = strspn(path + at, "0123456789");
    bool starts = at == 0 || path[at - 1] == '.', ends = !path[at + *n] || path[at + *n] == '.';
    return starts && ends && *n > 0 && *n < 9 ? strtol(path + at, NULL, 10) : -1;
}

/* True if `path` is that of the group but for one number, which is stored in `*number`. */
static bool is_like(const equals *g, const char *first, const char *path, size_t *at, long *number) {
    size_t i = 0, n, other;
    while (first[i] && first[i] == path[i]) i++;
    while (i > 0 && first[i - 1] != '.') i--;
    *number = number_at(path, i, &n);
    if (*number < 0 || number_at(first, i, &other) < 0 || strcmp(path + i + n, first + i + other) != 0)
        return false;
    *at = i;
    return g->n == 1 || g->before == i;
}

static bool join(const writer *w, equals *g, const lam_fit_row *row) {
    size_t at, n;
    long number;
    if (row->place < 0 || g->row->place < 0 || row->bytes != g->row->bytes ||
        memcmp(row->part, g->row->part, sizeof row->part) != 0 ||
        strcmp(type_of(w, row->place), type_of(w, g->row->place)) != 0)
        return false;
    const char *first = path_of(w, g->row->place);
    if (!is_like(g, first, path_of(w, row->place), &at, &number)) return false;
    if (g->n == 1) g->low = g->high = number_at(first, at, &n);
    number_at(first, at, &n);
    g->before = at;
    g->after = at + n;
    if (number < g->low) g->low = number;
    if (number > g->high) g->high = number;
    g->n++;
    return true;
}

static void put_name(writer *w, const equals *g) {
    const lam_fit_row *row = g->row;
    const char *path = path_of(w, row->place);
    lmi_buf b;
    lmi_buf_init(&b);
    if (g->n > 1) {
        lmi_putn(&b, path, g->before);
        lmi_putf(&b, "%ld..%ld%s x%d", g->low, g->high, path + g->after, (int)g->n);
    } else {
        lmi_put(&b, path);
    }
    lmi_put_clean(&w->out, lmi_buf_text(&b));
    lmi_buf_used(&b, &w->out);
    if (row->place >= 0) {
        lmi_put(&w->out, " (");
        lmi_put_clean(&w->out, type_of(w, row->place));
        lmi_putc(&w->out, ')');
    }
}

/* Finds the largest groups; `*left` is the number of layers in none of them. */
static int32_t find_groups(const writer *w, equals group[MOST_ROWS], int32_t *left) {
    const lam_fit *f = w->fit[1] ? w->fit[1] : w->fit[0];
    int32_t n = 0;
    *left = 0;
    for (int32_t i = 0; i < f->n_rows; i++) {
        int32_t k = 0;
        while (k < n && !join(w, &group[k], &f->rows[i])) k++;
        if (k < n) continue;
        if (n < MOST_ROWS)
            group[n++] = (equals){.row = &f->rows[i], .n = 1};
        else
            ++*left;
    }
    return n;
}

static void put_rows(writer *w) {
    equals group[MOST_ROWS];
    char text[NUMBER];
    int32_t left, n = find_groups(w, group, &left);
    lmi_putf(&w->out, "\nheld by, at the peak of the %s\n", run_name(w->fit[1] != NULL));
    for (int32_t i = 0; i < n; i++) {
        lmi_putf(&w->out, "  %10s%s  ", bytes_text(w, text, lmi_count_of(group[i].row->bytes)),
                 group[i].n > 1 ? " each" : "");
        put_name(w, &group[i]);
        lmi_put(&w->out, ": ");
        put_held(w, group[i].row->part);
        lmi_putc(&w->out, '\n');
    }
    if (left) lmi_putf(&w->out, "  and %d other layer%s\n", (int)left, left == 1 ? "" : "s");
}

/* Writes the reason of the forward pass, else that of the step. */
static void put_reason(writer *w, const char *what, const char *forward, const char *step) {
    if (!forward && !step) return;
    lmi_putf(&w->out, "\n%s: ", what);
    lmi_put_clean(&w->out, forward ? forward : step);
    lmi_putc(&w->out, '\n');
}

/* The cache that the forward left. */
static void put_cache(writer *w, const lam_fit *f) {
    char text[NUMBER];
    if (f->cache_fixed < 0) return;
    lmi_put(&w->out, "\nthe cache ");
    if (f->cache_bytes > 0)
        lmi_putf(&w->out, "grows by %s a token of a sequence, in %d layer%s",
                 bytes_text(w, text, lmi_count_of(f->cache_bytes)), (int)f->cached_layers,
                 f->cached_layers == 1 ? "" : "s");
    if (f->cache_bytes > 0 && f->cache_fixed > 0) lmi_put(&w->out, "; ");
    if (f->cache_fixed > 0 || f->cache_bytes == 0)
        lmi_putf(&w->out, "%s a sequence %s", bytes_text(w, text, lmi_count_of(f->cache_fixed)),
                 f->cache_why ? "after this forward" : "do not grow");
    if (f->cache_why) {
        lmi_put(&w->out, "; how it grows is not known: ");
        lmi_put_clean(&w->out, f->cache_why);
    }
    lmi_putc(&w->out, '\n');
}

static void put_notes(writer *w) {
    char text[NUMBER];
    const lam_fit *f = w->fit[0] ? w->fit[0] : w->fit[1];
    put_cache(w, f);
    if (f->cached_layers > 0 && f->cache_fixed < 0)
        lmi_putf(&w->out, "\na key-value cache would take %s a token, in %d layer%s with causal attention\n",
                 bytes_text(w, text, lmi_count_of(f->cache_bytes)), (int)f->cached_layers,
                 f->cached_layers == 1 ? "" : "s");
    if (f->masked_layers > 0)
        lmi_putf(&w->out,
                 "\na key-value cache would take %s a token, in %d layer%s with a mask of the model's own, "
                 "if that "
                 "is causal\n",
                 bytes_text(w, text, lmi_count_of(f->masked_bytes)), (int)f->masked_layers,
                 f->masked_layers == 1 ? "" : "s");
    put_reason(w, "it may be more", w->fit[0] ? w->fit[0]->gap : NULL, w->fit[1] ? w->fit[1]->gap : NULL);
    put_reason(w, "it may be somewhat less or more", w->fit[0] ? w->fit[0]->rough : NULL,
               w->fit[1] ? w->fit[1]->rough : NULL);
}

static void put_remarks(writer *w) {
    put_notes(w);
    lmi_put(&w->out, "\ncounts what torch's CPU allocator hands out; a GPU's differs\n");
}

static void put_text(writer *w) {
    put_peak(w, 1);
    put_peak(w, 0);
    put_rows(w);
    put_remarks(w);
}

/* == a part of a page ================================================================================== */

/* Text that is written between these two becomes HTML; names are cut to `columns`, 0: not cut. */
static lmi_buf begin_text(writer *w) {
    lmi_buf page = w->out;
    lmi_buf_init(&w->out);
    return page;
}

static void end_text(writer *w, lmi_buf page, int32_t columns) {
    lmi_buf text = w->out;
    const char *s = lmi_buf_text(&text);
    w->out = page;
    if (columns)
        lmi_put_bdi(&w->out, s, columns);
    else
        lmi_put_html(&w->out, s + strspn(s, "\n"));
    lmi_buf_used(&text, &w->out);
}

static void put_tile(writer *w, int32_t run) {
    const lam_fit *f = w->fit[run];
    char text[NUMBER];
    double error;
    if (!f) return;
    lmi_putf(&w->out, "<div class=\"tile\"><span>%s%s%s</span><span class=\"v\">", run_name(run),
             f->optimizer ? ", with " : "", f->optimizer ? f->optimizer : "");
    put_total(w, f);
    lmi_put(&w->out, "</span><span class=\"w\">");
    if (error_of(w, run, &error))
        lmi_putf(&w->out, "measured %s, off by %+.2f" LMI_NARROW "%%",
                 bytes_text(w, text, lmi_count_of(w->measured[run])), error);
    else
        lmi_put(&w->out, "predicted");
    lmi_put(&w->out, "</span></div>");
}

/* Writes a number with a bar of its share of the peak. */
static void put_bar(writer *w, int64_t bytes, const lam_fit *f, const char *after) {
    char text[NUMBER];
    double share = f->peak.n > 0 ? (double)bytes / (double)f->peak.n : 0;
    int bar = (int)(BARS * (share < 1 ? share : 1) + .5);
    lmi_put(&w->out, "<td class=\"n");
    if (bar > 0) lmi_putf(&w->out, " w%d", bar);
    lmi_putf(&w->out, "\">%s%s</td>", bytes ? bytes_text(w, text, lmi_count_of(bytes)) : "0", after);
}

static void begin_table(writer *w, const char *what, const char *caption) {
    lmi_putf(&w->out,
             "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Table of %s\"><table>"
             "<caption>%s</caption><thead><tr><th scope=\"col\"><span>%s</span></th>",
             what, caption, what);
}

static void put_parts_table(writer *w) {
    begin_table(w, "what is held", "What the peak is made of");
    for (int32_t run = N_RUNS - 1; run >= 0; run--)
        if (w->fit[run]) lmi_putf(&w->out, "<th scope=\"col\"><span>%s</span></th>", run_name(run));
    lmi_put(&w->out, "</tr></thead><tbody>\n");
    for (int k = 0; k < LAM_N_HELD; k++) {
        bool any = false;
        for (int32_t run = 0; run < N_RUNS; run++) any = any || (w->fit[run] && w->fit[run]->part[k].n > 0);
        if (!any) continue;
        lmi_putf(&w->out, "<tr><th scope=\"row\">%s</th>", label_of(k));
        for (int32_t run = N_RUNS - 1; run >= 0; run--)
            if (w->fit[run]) put_bar(w, w->fit[run]->part[k].n, w->fit[run], "");
        lmi_put(&w->out, "</tr>\n");
    }
    lmi_put(&w->out, "</tbody></table></div>\n");
}

static void put_rows_table(writer *w) {
    equals group[MOST_ROWS];
    int32_t left, n = find_groups(w, group, &left);
    char caption[NUMBER + 24];
    snprintf(caption, sizeof caption, "Held by, at the peak of the %s", run_name(w->fit[1] != NULL));
    begin_table(w, "layers", caption);
    lmi_put(&w->out, "<th scope=\"col\" class=\"l\"><span>made of</span></th><th "
                     "scope=\"col\"><span>held</span></th></tr></thead><tbody>\n");
    for (int32_t i = 0; i < n; i++) {
        lmi_put(&w->out, "<tr><th scope=\"row\"><code>");
        lmi_buf page = begin_text(w);
        put_name(w, &group[i]);
        end_text(w, page, LMI_PAGE_LINK);
        lmi_put(&w->out, "</code></th><td class=\"l wr\">");
        put_held(w, group[i].row->part);
        lmi_put(&w->out, "</td>");
        put_bar(w, group[i].row->bytes, w->fit[w->fit[1] != NULL], group[i].n > 1 ? " each" : "");
        lmi_put(&w->out, "</tr>\n");
    }
    lmi_put(&w->out, "</tbody></table>");
    if (left)
        lmi_putf(&w->out, "<div class=\"more\">and %d other layer%s</div>", (int)left, left == 1 ? "" : "s");
    lmi_put(&w->out, "</div>\n");
}

static void put_html(writer *w) {
    lmi_part_begin(&w->out, "predicted memory");
    lmi_put(&w->out, "<p class=\"h1\">");
    lmi_put_bdi(&w->out, type_of(w, 0), LMI_PAGE_LINK);
    lmi_put(&w->out, ": predicted peak of memory</p>\n<div class=\"tiles\">");
    for (int32_t run = N_RUNS - 1; run >= 0; run--) put_tile(w, run);
    lmi_put(&w->out, "</div>\n");
    for (int32_t run = N_RUNS - 1; run >= 0; run--) {
        if (!w->fit[run]) continue;
        lmi_putf(&w->out, "<p class=\"sub\">The peak of the %s is ", run_name(run));
        lmi_buf page = begin_text(w);
        put_when(w, run);
        end_text(w, page, LMI_PAGE_LONG);
        lmi_put(&w->out, ".</p>\n");
    }
    put_parts_table(w);
    put_rows_table(w);
    lmi_put(&w->out, "<div class=\"exact ln\">");
    lmi_buf page = begin_text(w);
    put_remarks(w);
    end_text(w, page, 0);
    lmi_put(&w->out, "</div>\n");
    lmi_part_end(&w->out);
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

/* -1 is not known. */
static void put_bytes_or_null(writer *w, const char *name, int64_t bytes) {
    lmi_putf(&w->out, ",\"%s\":", name);
    if (bytes < 0)
        lmi_put(&w->out, "null");
    else
        lmi_putf(&w->out, "%lld", (long long)bytes);
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
    lmi_putf(&w->out, ",\"cached_layers\":%d", (int)f->cached_layers);
    put_bytes_or_null(w, "cache_bytes", f->cache_bytes);
    put_bytes_or_null(w, "cache_fixed", f->cache_fixed);
    lmi_put(&w->out, ",\"cache_why\":");
    lmi_put_json(&w->out, f->cache_why);
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
    lmi_putc(&w->out, '{');
    lmi_put_head(&w->out, "fit", 1, ",");
    lmi_putc(&w->out, ',');
    put_run(w, 0);
    lmi_putc(&w->out, ',');
    put_run(w, 1);
    lmi_put(&w->out, "}\n");
}

lam_status lam_fit_write(const lam_fit *forward, const lam_fit *step, const lam_model *m,
                         const int64_t measured[2], const char *format, bool exact, lam_sink to,
                         lam_error *e) {
    writer w = {.fit = {forward, step}, .m = m, .exact = exact};
    static const struct {
        const char *name;
        void (*put)(writer *w);
    } formats[] = {{"text", put_text}, {"json", put_all_json}, {"html", put_html}};
    enum { N_FORMATS = sizeof formats / sizeof *formats };
    int k = 0;
    if (!m || (!forward && !step))
        return lmi_fail(e, LAM_USAGE, "lam_fit_write", "there is nothing to write");
    while (format && k < N_FORMATS && strcmp(format, formats[k].name) != 0) k++;
    if (k == N_FORMATS)
        return lmi_no_such(e, "format", format, "fit", &formats[0].name, sizeof *formats, N_FORMATS);
    for (int32_t i = 0; i < N_RUNS; i++) w.measured[i] = measured ? measured[i] : -1;
    lmi_buf_init(&w.out);
    formats[k].put(&w);
    lam_status s = lmi_buf_flush(&w.out, to, e);
    lmi_buf_free(&w.out);
    return s;
}
