/* SPDX-License-Identifier: Apache-2.0
 *
 * A comparison of conventions as text, Markdown, JSON or CSV. */
#include "analyse/compare.h"
#include "report/report.h"

#include <stdio.h>

enum { DEFAULT_WIDTH = 100, NAME = 12, NUMBER = 48 };

typedef struct writer {
    const lam_comparison *c;
    lmi_buf out;
    size_t width;
    bool exact;
} writer;

/* -- numbers ----------------------------------------------------------------------------------- */

/* What the tool does not count at all is a dash, what is not known a question mark. */
static const char *number(const writer *w, char *to, lam_count n, const char *convention, lam_metric metric) {
    if (!lmi_compare_tells(lmi_convention_named(convention, NULL), metric, w->c->phase))
        snprintf(to, NUMBER, "-");
    else
        lam_text_count(to, NUMBER, n, w->exact);
    return to;
}

static const char *signed_number(const writer *w, char *to, int64_t n) {
    to[0] = n < 0 ? '-' : '+';
    uint64_t size = n < 0 ? (uint64_t)0 - (uint64_t)n : (uint64_t)n;
    lam_text_count(to + 1, NUMBER - 1, (lam_count){(int64_t)(size & INT64_MAX), size >> 63, LAM_EXACT},
                   w->exact);
    if (n == 0) snprintf(to, NUMBER, "same");
    return to;
}

static const char *difference(const writer *w, char *to, const lam_compared *row, int32_t i) {
    if (i == 0)
        to[0] = '\0';
    else if (row->told)
        signed_number(w, to, row->difference);
    else
        number(w, to, (lam_count){.state = LAM_UNKNOWN}, row->convention, w->c->metric);
    return to;
}

static const char *metric_word(const writer *w) { return w->c->metric == LAM_MACS ? "MACs" : "FLOPs"; }
static const char *phase_word(const writer *w) { return w->c->phase == LAM_FORWARD ? "" : "bwd "; }

/* "MACs", "bwd FLOPs", and the difference by itself where it is that of the forward's MACs. */
static void title(const writer *w, char *to, int cell) {
    static const char *const words[] = {"MACs", "FLOPs", "params"};
    if (cell < 2)
        snprintf(to, NUMBER, "%s%s", phase_word(w), words[cell]);
    else if (cell == 2)
        snprintf(to, NUMBER, "%s", words[cell]);
    else
        snprintf(to, NUMBER, "%sagainst", w->c->metric == LAM_MACS ? "" : "FLOPs ");
}

typedef struct cells {
    char at[4][NUMBER];
} cells; /* MACs, FLOPs, params, difference */
enum { N_CELLS = 4 };

static void fill(const writer *w, int32_t i, cells *to) {
    const lam_compared *row = &w->c->rows[i];
    number(w, to->at[0], row->macs, row->convention, LAM_MACS);
    number(w, to->at[1], row->flops, row->convention, LAM_FLOPS);
    lam_text_count(to->at[2], NUMBER, row->params, w->exact);
    difference(w, to->at[3], row, i);
}

/* -- text -------------------------------------------------------------------------------------- */

/* Words between two margins; the line has `used` columns already. */
static void put_wrapped(writer *w, const char *text, size_t margin, size_t used) {
    bool first = true;
    for (const char *s = text + strspn(text, " "); *s; s += strspn(s, " ")) {
        char word[256];
        size_t n = strcspn(s, " "), cut = n < sizeof word ? n : sizeof word - 1;
        memcpy(word, s, cut);
        word[cut] = '\0';
        size_t columns = lmi_width(word);
        if (!first && used + 1 + columns > w->width) {
            lmi_putc(&w->out, '\n');
            lmi_pad(&w->out, ' ', margin);
            used = margin;
            first = true;
        }
        lmi_putf(&w->out, "%s%s", first ? "" : " ", word);
        used += columns + !first;
        first = false;
        s += n;
    }
    lmi_putc(&w->out, '\n');
}

static void put_cause(const lam_cause *cause, bool note, lmi_buf *b) {
    lmi_put(b, cause->text);
    if (cause->calls) lmi_putf(b, " (%d call%s)", (int)cause->calls, cause->calls == 1 ? "" : "s");
    if (note && cause->note) lmi_putf(b, ". %s", cause->note);
}

/* What the table says of several causes is said once. */
static bool is_news(const lam_compared *row, int32_t i) {
    for (int32_t k = 0; k < i; k++)
        if (row->causes[k].note == row->causes[i].note) return false;
    return true;
}

static void put_reasons(writer *w, const lam_compared *row) {
    char n[NUMBER];
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_putf(&w->out, "\n%s", row->convention);
    if (row->n_causes)
        lmi_putf(&w->out, ": %s %s%s", signed_number(w, n, row->difference), phase_word(w), metric_word(w));
    lmi_putc(&w->out, '\n');
    for (int32_t i = 0; i < row->n_causes; i++) {
        signed_number(w, n, row->causes[i].difference);
        size_t margin = 2 + (w->exact ? 22 : 9) + 2;
        lmi_putf(&w->out, "  %*s  ", (int)margin - 4, n);
        b.n = 0;
        lmi_putn(&b, "", 0);
        put_cause(&row->causes[i], is_news(row, i), &b);
        put_wrapped(w, lmi_buf_text(&b), margin, margin);
    }
    if (row->gap) {
        lmi_put(&w->out, row->told ? "  a lower bound: " : "  not known: ");
        put_wrapped(w, row->gap, 4, 17);
    }
    w->out.bad = w->out.bad || b.bad;
    lmi_buf_free(&b);
}

static void write_text(writer *w) {
    size_t wide[N_CELLS];
    cells row, titles = {0};
    for (int k = 0; k < N_CELLS; k++) {
        title(w, titles.at[k], k);
        wide[k] = strlen(titles.at[k]);
    }
    for (int32_t i = 0; i < w->c->n; i++) {
        fill(w, i, &row);
        for (int k = 0; k < N_CELLS; k++)
            if (strlen(row.at[k]) > wide[k]) wide[k] = strlen(row.at[k]);
    }
    lmi_putf(&w->out, "%-*s", NAME, "convention");
    for (int k = 0; k < N_CELLS; k++) lmi_putf(&w->out, "  %*s", (int)wide[k], titles.at[k]);
    lmi_putf(&w->out, " %s\n", w->c->rows[0].convention);
    for (int32_t i = 0; i < w->c->n; i++) {
        fill(w, i, &row);
        lmi_putf(&w->out, "%-*s", NAME, w->c->rows[i].convention);
        for (int k = 0; k < (i ? N_CELLS : N_CELLS - 1); k++)
            lmi_putf(&w->out, "  %*s", (int)wide[k], row.at[k]);
        lmi_putc(&w->out, '\n');
    }
    for (int32_t i = 0; i < w->c->n; i++)
        if (w->c->rows[i].gap || w->c->rows[i].n_causes) put_reasons(w, &w->c->rows[i]);
}

/* -- Markdown, JSON, CSV ----------------------------------------------------------------------- */

#define MD_SPECIAL "\\|`*_<>[]&#~"

static void write_md(writer *w) {
    cells titles = {0};
    for (int k = 0; k < N_CELLS; k++) title(w, titles.at[k], k);
    lmi_putf(&w->out, "| convention | %s | %s | %s | %s %s | why |\n|:---|---:|---:|---:|---:|:---|\n",
             titles.at[0], titles.at[1], titles.at[2], titles.at[3], w->c->rows[0].convention);
    for (int32_t i = 0; i < w->c->n; i++) {
        const lam_compared *row = &w->c->rows[i];
        cells at = {0};
        fill(w, i, &at);
        lmi_putf(&w->out, "| %s | %s | %s | %s | %s | ", row->convention, at.at[0], at.at[1], at.at[2],
                 at.at[3]);
        for (int32_t k = 0; k < row->n_causes; k++) {
            char n[NUMBER];
            lmi_buf b;
            lmi_buf_init(&b);
            put_cause(&row->causes[k], is_news(row, k), &b);
            lmi_putf(&w->out, "%s%s ", k ? "<br>" : "", signed_number(w, n, row->causes[k].difference));
            lmi_put_escaped(&w->out, lmi_buf_text(&b), MD_SPECIAL, "\\");
            w->out.bad = w->out.bad || b.bad;
            lmi_buf_free(&b);
        }
        if (row->gap) {
            lmi_putf(&w->out, "%s%s: ", row->n_causes ? "<br>" : "",
                     row->told ? "a lower bound" : "not known");
            lmi_put_escaped(&w->out, row->gap, MD_SPECIAL, "\\");
        }
        lmi_put(&w->out, " |\n");
    }
}

/* A plain integer with its state, null where it is not known; beyond 63 bits its digits. */
static void put_count(writer *w, const char *name, lam_count n) {
    char digits[NUMBER];
    lam_text_digits(digits, sizeof digits, (lam_count){n.n, n.over, LAM_EXACT});
    lmi_putf(&w->out, "\"%s\": %s, \"%s_state\": \"%s\", ", name, n.state == LAM_UNKNOWN ? "null" : digits,
             name, lam_state_name(n.state));
}

static void write_json(writer *w) {
    lmi_put(&w->out, "{\"schema_version\": 1, \"reference\": ");
    lmi_put_json(&w->out, w->c->rows[0].convention);
    lmi_putf(&w->out, ", \"metric\": \"%s\", \"phase\": \"%s\"", lam_metric_name(w->c->metric),
             w->c->phase == LAM_FORWARD ? "forward" : "backward");
    lmi_put(&w->out, ", \"conventions\": [");
    for (int32_t i = 0; i < w->c->n; i++) {
        const lam_compared *row = &w->c->rows[i];
        lmi_putf(&w->out, "%s\n{\"convention\": \"%s\", ", i ? "," : "", row->convention);
        put_count(w, "macs", row->macs);
        put_count(w, "flops", row->flops);
        put_count(w, "params", row->params);
        lmi_put(&w->out, "\"difference\": ");
        if (row->told)
            lmi_putf(&w->out, "%lld", (long long)row->difference);
        else
            lmi_put(&w->out, "null");
        lmi_put(&w->out, ", \"gap\": ");
        lmi_put_json(&w->out, row->gap);
        lmi_put(&w->out, ", \"causes\": [");
        for (int32_t k = 0; k < row->n_causes; k++) {
            const lam_cause *cause = &row->causes[k];
            lmi_putf(&w->out, "%s{\"difference\": %lld, \"calls\": %d, \"text\": ", k ? ", " : "",
                     (long long)cause->difference, (int)cause->calls);
            lmi_put_json(&w->out, cause->text);
            lmi_put(&w->out, ", \"note\": ");
            lmi_put_json(&w->out, cause->note);
            lmi_putc(&w->out, '}');
        }
        lmi_put(&w->out, "]}");
    }
    lmi_put(&w->out, "\n]}\n");
}

static void put_csv_count(writer *w, lam_count n) {
    char digits[NUMBER];
    lam_text_digits(digits, sizeof digits, (lam_count){n.n, n.over, LAM_EXACT});
    lmi_putf(&w->out, ",%s,%s", n.state == LAM_UNKNOWN ? "" : digits, lam_state_name(n.state));
}

/* One line a convention, and one a cause with its part of the difference. */
static void write_csv(writer *w) {
    lmi_put(&w->out,
            "convention,cause,calls,macs,macs_state,flops,flops_state,params,params_state,difference\n");
    for (int32_t i = 0; i < w->c->n; i++) {
        const lam_compared *row = &w->c->rows[i];
        lmi_putf(&w->out, "%s,,", row->convention);
        put_csv_count(w, row->macs);
        put_csv_count(w, row->flops);
        put_csv_count(w, row->params);
        lmi_putc(&w->out, ',');
        if (row->told) lmi_putf(&w->out, "%lld", (long long)row->difference);
        lmi_putc(&w->out, '\n');
        for (int32_t k = 0; k < row->n_causes; k++) {
            lmi_putf(&w->out, "%s,", row->convention);
            lmi_put_csv(&w->out, row->causes[k].text);
            lmi_putf(&w->out, ",%d,,,,,,,%lld\n", (int)row->causes[k].calls,
                     (long long)row->causes[k].difference);
        }
    }
}

static const struct {
    const char *name;
    void (*write)(writer *w);
} formats[] = {{"text", write_text}, {"md", write_md}, {"json", write_json}, {"csv", write_csv}};

lam_status lam_compare_write(const lam_comparison *c, const char *format, int32_t width, bool exact,
                             lam_sink to, lam_error *e) {
    writer w = {.c = c, .width = width > 0 ? (size_t)width : DEFAULT_WIDTH, .exact = exact};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (strcmp(formats[i].name, format ? format : "text") != 0) continue;
        lmi_buf_init(&w.out);
        formats[i].write(&w);
        lam_status s = lmi_buf_flush(&w.out, to, e);
        lmi_buf_free(&w.out);
        return s;
    }
    return lmi_fail(e, LAM_USAGE, "format",
                    "there is no format '%s' for a comparison; there are: text, md, json, csv", format);
}
