/* SPDX-License-Identifier: Apache-2.0
 *
 * A comparison of conventions as text, Markdown, JSON, CSV or HTML. */
#include "analyse/cost/compare.h"
#include "report/page/page.h"
#include "report/table/report.h"
#include "report/tell/tell.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>

enum {
    DEFAULT_WIDTH = 100,
    NUMBER = 48,
    MOST = 3,  /* causes shown of a tool that was not named */
    ROOM = 30, /* columns that a sentence needs; with fewer it begins on a new line */
    INDENT = 4,
    GAP = 2,
    TOOL = 13 /* where the formula of a convention begins */
};

#define LEAST_SHARE .0005 /* a smaller one would be printed as 0.0 % */

typedef struct writer {
    const lam_comparison *c;
    lmi_buf out;
    size_t width, margin; /* of the page; where reasons begin */
    bool exact;
    const char *name; /* the tool whose causes are being written */
} writer;

/* -- numbers ----------------------------------------------------------------------------------- */

/* `n` of all tokens for one of them, rounded; or as it is, of a comparison that is not in tokens. */
static lmi_int128 a_token(const writer *w, lmi_int128 n) {
    const lmi_int128 tokens = w->c->tokens.tokens;
    if (!w->c->tokens.there || tokens < 1) return n;
    return n < 0 ? -((-n + tokens / 2) / tokens) : (n + tokens / 2) / tokens;
}

static const char *each_token(const writer *w, char *to, lam_count n) {
    const lam_state state = w->c->tokens.tokens < 1 ? LAM_UNKNOWN : n.state;
    n = state == LAM_UNKNOWN ? n : lmi_of_wide(a_token(w, lmi_count_wide(n)));
    n.state = state;
    lam_text_count(to, NUMBER, n, w->exact);
    return to;
}

/* A metric that the tool does not count is a dash, an unknown number a question mark. */
static const char *number(const writer *w, char *to, lam_count n, const char *convention, lam_metric metric) {
    if (w->c->tokens.there)
        lam_text_count(to, NUMBER, n, w->exact);
    else if (!lmi_compare_tells(lmi_convention_named(convention, NULL), metric, w->c->phase))
        snprintf(to, NUMBER, "-");
    else
        lam_text_count(to, NUMBER, n, w->exact);
    return to;
}

static const char *signed_number(const writer *w, char *to, int64_t n) {
    const lmi_int128 each = a_token(w, n);
    to[0] = each < 0 ? '-' : '+';
    lam_text_count(to + 1, NUMBER - 1, lmi_of_wide(each < 0 ? -each : each), w->exact);
    if (each == 0) snprintf(to, NUMBER, "0");
    return to;
}

static const char *difference(const writer *w, char *to, const lam_compared *row, int32_t i) {
    if (i == 0)
        to[0] = '\0';
    else if (row->told)
        signed_number(w, to, row->difference);
    else if (w->c->tokens.there)
        lam_text_count(to, NUMBER, lmi_unknown(), w->exact);
    else
        number(w, to, (lam_count){.state = LAM_UNKNOWN}, row->convention, w->c->metric);
    return to;
}

static const char *phase_word(const writer *w) { return w->c->phase == LAM_FORWARD ? "" : "bwd "; }

/* -- sentences --------------------------------------------------------------------------------- */

/* A note as the end of a sentence: its first letter is lowered unless the word is a name, and only the
 * first of several sentences is shown unless the tool was named. */
static void put_note(const writer *w, const char *note, lmi_buf *b) {
    const char *stop = w->c->named ? NULL : strstr(note, ". ");
    size_t n = stop ? (size_t)(stop - note) : strlen(note), word = 1;
    if (n && !stop && note[n - 1] == '.') n--;
    while (word < n && !isspace((unsigned char)note[word]) && !isupper((unsigned char)note[word])) word++;
    bool name = word < n && isupper((unsigned char)note[word]);
    if (n)
        lmi_putc(b, name || strncmp(note, w->name, strlen(w->name)) == 0
                        ? note[0]
                        : (char)tolower((unsigned char)note[0]));
    if (n) lmi_putn(b, note + 1, n - 1);
}

/* False if an earlier cause has the same note, which is shown once. */
static bool is_news(const lam_compared *row, int32_t i) {
    for (int32_t k = 0; k < i; k++)
        if (row->causes[k].note == row->causes[i].note) return false;
    return true;
}

static void put_cause(const writer *w, const lam_compared *row, int32_t i, lmi_buf *b) {
    const lam_cause *cause = &row->causes[i];
    lmi_put(b, cause->text);
    if (cause->calls) lmi_putf(b, " (%d call%s)", (int)cause->calls, cause->calls == 1 ? "" : "s");
    if (!cause->note || !is_news(row, i)) return;
    lmi_put(b, ": ");
    put_note(w, cause->note, b);
}

/* The same of a comparison in tokens. */
static bool put_token_remark(const writer *w, int32_t i, lmi_buf *b) {
    const lam_compared *row = &w->c->rows[i], *ref = &w->c->rows[0];
    if (row->gap)
        lmi_putf(b, "%s%s",
                 i == 0 && ref->flops.state == LAM_AT_LEAST ? "at least: " : "not known: ", row->gap);
    else if (i == 0)
        lmi_put(b, w->c->tokens.hides
                       ? "2 for each multiply-accumulate, without scores that a mask hides"
                       : "2 for each multiply-accumulate, those of all scores: which of them a "
                         "mask hides is not known");
    else if (row->n_causes)
        return false;
    else
        lmi_put(b, row->told ? "the same"
                   : ref->flops.state == LAM_EXACT
                       ? "the difference does not fit into 63 bits"
                       : "how far it is off is not known, as the count is not exact");
    return true;
}

/* Writes the remark on row `i` besides its causes; false if there is none. */
static bool put_remark(const writer *w, int32_t i, lmi_buf *b) {
    if (w->c->tokens.there) return put_token_remark(w, i, b);
    const lam_compared *row = &w->c->rows[i], *ref = &w->c->rows[0];
    const lmi_convention *cv = lmi_convention_named(row->convention, NULL);
    const bool macs = w->c->metric == LAM_MACS;
    lam_count its = macs ? row->macs : row->flops, whole = macs ? ref->macs : ref->flops;
    bool again = i > 0 && row->gap && ref->gap && strcmp(row->gap, ref->gap) == 0;
    if (!lmi_compare_tells(cv, LAM_MACS, w->c->phase))
        lmi_put(b, "does not count a backward pass");
    else if (!lmi_compare_tells(cv, w->c->metric, w->c->phase))
        lmi_put(b, "counts no FLOPs");
    else if (row->gap && !again)
        lmi_putf(b, "%s: %s", its.state == LAM_UNKNOWN ? "not known" : "at least", row->gap);
    else if (i == 0)
        lmi_put(b, "counts every operator that ran");
    else if (!row->n_causes)
        lmi_put(b, row->told                  ? "the same"
                   : whole.state == LAM_EXACT ? "not known"
                                              : "not known, as exact is not");
    else
        return false;
    return true;
}

/* -- text -------------------------------------------------------------------------------------- */

/* Writes a reason next to the row's numbers, which the flow is behind, or below the reason before. `part`:
 * the width of a cause's part of the difference, 0: not shown. */
static void put_reason(const writer *w, lmi_flow *f, size_t part, const char *number, const char *text) {
    const size_t wide = part ? part + GAP : 0;
    const bool narrow = w->margin + wide + ROOM > w->width;
    const size_t column = narrow ? INDENT : w->margin;
    if (narrow) lmi_flow_end(f);
    f->indent = column + wide;
    if (f->column == 0) f->owed = column;
    if (part) {
        f->owed += part - strlen(number);
        lmi_flow_words(f, NULL, number);
        f->owed = GAP;
        f->fresh = true;
    }
    lmi_flow_words(f, NULL, text);
    lmi_flow_end(f);
}

static int32_t shown_causes(const writer *w, const lam_compared *row) {
    return w->c->named || row->n_causes <= MOST + 1 ? row->n_causes : MOST;
}

/* Each cause is preceded by its part of the difference, if there are several. */
static size_t part_width(const writer *w, const lam_compared *row, int32_t shown, int64_t rest) {
    char n[NUMBER];
    size_t wide = 0;
    for (int32_t i = 0; i <= shown && row->n_causes > 1; i++) {
        if (i == shown && !rest) break;
        size_t columns = strlen(signed_number(w, n, i < shown ? row->causes[i].difference : rest));
        if (columns > wide) wide = columns;
    }
    return wide;
}

static void put_reasons(writer *w, int32_t i, lmi_flow *f) {
    const lam_compared *row = &w->c->rows[i];
    int32_t shown = shown_causes(w, row);
    int64_t rest = 0;
    char n[NUMBER];
    lmi_buf b;
    lmi_buf_init(&b);
    w->name = row->convention;
    for (int32_t k = shown; k < row->n_causes; k++) rest += row->causes[k].difference;
    const size_t part = part_width(w, row, shown, rest);
    for (int32_t k = 0; k < shown; k++) {
        lmi_buf_clear(&b);
        put_cause(w, row, k, &b);
        put_reason(w, f, part, signed_number(w, n, row->causes[k].difference), lmi_buf_text(&b));
    }
    if (shown < row->n_causes) {
        lmi_buf_clear(&b);
        lmi_putf(&b, "%d smaller differences", (int)(row->n_causes - shown));
        put_reason(w, f, part, signed_number(w, n, rest), lmi_buf_text(&b));
    }
    lmi_buf_clear(&b);
    if (put_remark(w, i, &b)) put_reason(w, f, 0, "", lmi_buf_text(&b));
    if (w->c->named && row->limits) put_reason(w, f, 0, "", row->limits);
    lmi_buf_used(&b, &w->out);
}

/* "Llama, batch 2, 1,024 tokens (--prompt), a training step, a dry run" */
static void put_token_head(writer *w) {
    const lmi_token_comparison *t = &w->c->tokens;
    if (!t->there) return;
    lmi_put_clean(&w->out, t->model);
    if (t->batch > 0) lmi_putf(&w->out, ", batch %lld", (long long)t->batch);
    if (t->length > 0) {
        lmi_put(&w->out, ", ");
        lmi_put_grouped(&w->out, lmi_exact(t->length));
        lmi_putf(&w->out, " tokens%s", t->given ? "" : " (--prompt)");
    }
    lmi_putf(&w->out, ", a %s%s\n\n", t->training ? "training step" : "forward", t->dry ? ", a dry run" : "");
}

/* The formulas of the conventions that were named, each with its source. */
static void put_token_formulas(writer *w) {
    lmi_flow f;
    lmi_buf b;
    lmi_buf_init(&b);
    if (w->c->named) lmi_putc(&w->out, '\n');
    for (int32_t i = 1; w->c->named && i < w->c->n; i++) {
        const lam_compared *row = &w->c->rows[i];
        lmi_buf_clear(&b);
        lmi_putf(&b, "%s; %s", row->formula, row->source);
        lmi_flow_start(&f, &w->out, w->width, TOOL);
        lmi_flow_label(&f, NULL, row->convention, 0);
        lmi_flow_words(&f, NULL, lmi_buf_text(&b));
        lmi_flow_end(&f);
    }
    lmi_buf_used(&b, &w->out);
}

static void put_line(writer *w, const char *line) {
    lmi_flow f;
    lmi_flow_start(&f, &w->out, w->width, 0);
    f.whole = true;
    lmi_putc(&w->out, '\n');
    lmi_flow_words(&f, NULL, line);
    lmi_flow_end(&f);
}

/* Says which tools are left out, and where the other causes are, unless the caller named the tools. */
static void put_rest(writer *w) {
    char line[256];
    const bool all = w->c->all || w->c->tokens.there;
    if (w->c->tokens.there) put_token_formulas(w);
    if (w->c->named) return;
    if (w->c->left_out) {
        snprintf(line, sizeof line, "left out: %s count operators of torch, and an ONNX file has others",
                 w->c->left_out);
        put_line(w, line);
    }
    snprintf(line, sizeof line, "%s-c NAME shows every difference of one tool; in Python conventions=\"%s\"",
             all ? "" : "-c all shows every tool, ", all ? "NAME" : "all");
    put_line(w, line);
}

static void fill(const writer *w, lmi_sheet *t) {
    static const char *const titles[][2] = {{"MACs", "bwd MACs"}, {"FLOPs", "bwd FLOPs"}};
    const lam_metric m = w->c->metric;
    char n[NUMBER];
    lmi_sheet_column(t, &(lmi_head){"tool", LMI_LEFT, 0});
    const char *title =
        w->c->tokens.there ? "FLOPs a token" : titles[m != LAM_MACS][w->c->phase != LAM_FORWARD];
    lmi_sheet_column(t, &(lmi_head){title, LMI_RIGHT, 0});
    lmi_sheet_column(t, &(lmi_head){"off by", LMI_RIGHT, 0});
    for (int32_t i = 0; i < w->c->n; i++) {
        const lam_compared *row = &w->c->rows[i];
        lmi_text_cell(t, row->convention);
        lmi_text_cell(t, w->c->tokens.there
                             ? each_token(w, n, row->flops)
                             : number(w, n, m == LAM_MACS ? row->macs : row->flops, row->convention, m));
        lmi_text_cell(t, difference(w, n, row, i));
    }
}

static void write_text(writer *w) {
    enum { LEAST_NAME = 4 };
    lmi_sheet t;
    lmi_flow f;
    put_token_head(w);
    lmi_sheet_start(&t, &w->out, w->width, false, NULL);
    lmi_flow_start(&f, &w->out, w->width, INDENT);
    f.whole = true;
    fill(w, &t);
    lmi_sheet_fit(&t, w->width, LEAST_NAME);
    w->margin = lmi_sheet_columns(&t) + GAP;
    for (int32_t i = -1; t.s == LAM_OK && !t.cell->bad && i < w->c->n; i++) {
        const size_t owed = lmi_sheet_cells(&t, i + 1, 0, 0) + GAP;
        f.column = w->margin - owed;
        f.owed = owed;
        f.fresh = false;
        if (i < 0) {
            lmi_flow_words(&f, NULL, "because");
            lmi_flow_end(&f);
        } else
            put_reasons(w, i, &f);
    }
    if (lmi_sheet_free(&t) != LAM_OK) w->out.bad = true;
    put_rest(w);
}

/* -- Markdown, HTML: every number and every cause ---------------------------------------------- */

enum { MACS = 1, FLOPS, PARAMS, AGAINST, N_COLUMNS };
typedef struct columns {
    char at[N_COLUMNS][NUMBER]; /* the tool, then the numbers */
} columns;

static void all_titles(const writer *w, columns *to) {
    const char *phase = phase_word(w);
    *to = (columns){{"tool", "", "", "params", "off by"}};
    snprintf(to->at[MACS], NUMBER, "%sMACs", phase);
    snprintf(to->at[FLOPS], NUMBER, "%sFLOPs", phase);
    if (w->c->metric == LAM_FLOPS) snprintf(to->at[AGAINST], NUMBER, "FLOPs off by");
    if (!w->c->tokens.there) return;
    snprintf(to->at[MACS], NUMBER, "FLOPs a token");
    snprintf(to->at[AGAINST], NUMBER, "off by");
}

static void all_cells(const writer *w, int32_t i, columns *to) {
    const lam_compared *row = &w->c->rows[i];
    snprintf(to->at[0], NUMBER, "%s", row->convention);
    if (w->c->tokens.there)
        each_token(w, to->at[MACS], row->flops);
    else
        number(w, to->at[MACS], row->macs, row->convention, LAM_MACS);
    number(w, to->at[FLOPS], row->flops, row->convention, LAM_FLOPS);
    lam_text_count(to->at[PARAMS], NUMBER, row->params, w->exact);
    difference(w, to->at[AGAINST], row, i);
}

static void put_marked(writer *w, const char *text, bool html) {
    if (html)
        lmi_put_html(&w->out, text);
    else
        lmi_put_md(&w->out, text);
}

/* Writes the causes and the remark of one row into one cell, a line each. */
static void put_all_reasons(writer *w, int32_t i, bool html) {
    const lam_compared *row = &w->c->rows[i];
    char n[NUMBER];
    w->name = row->convention;
    for (int32_t k = 0; k <= row->n_causes; k++) {
        lmi_buf b;
        lmi_buf_init(&b);
        bool more = k < row->n_causes;
        if (more)
            put_cause(w, row, k, &b);
        else
            more = put_remark(w, i, &b);
        if (more && k) lmi_put(&w->out, "<br>");
        if (k < row->n_causes && row->n_causes > 1)
            lmi_putf(&w->out, "%s ", signed_number(w, n, row->causes[k].difference));
        if (more) put_marked(w, lmi_buf_text(&b), html);
        lmi_buf_used(&b, &w->out);
    }
    if (row->limits) lmi_put(&w->out, "<br>");
    if (row->limits) put_marked(w, row->limits, html);
}

static void write_md(writer *w) {
    columns at;
    all_titles(w, &at);
    for (int k = 0; k < N_COLUMNS; k++) lmi_putf(&w->out, "| %s ", at.at[k]);
    lmi_put(&w->out, "| because |\n|:---|---:|---:|---:|---:|:---|\n");
    for (int32_t i = 0; i < w->c->n; i++) {
        all_cells(w, i, &at);
        for (int k = 0; k < N_COLUMNS; k++) lmi_putf(&w->out, "| %s ", at.at[k]);
        lmi_put(&w->out, "| ");
        put_all_reasons(w, i, false);
        lmi_put(&w->out, " |\n");
    }
}

/* Writes the count of the reference, and how many others differ from it. */
static void put_verdict(writer *w) {
    const lam_compared *ref = &w->c->rows[0], *worst = NULL;
    const bool macs = w->c->metric == LAM_MACS;
    const lam_count whole = macs ? ref->macs : ref->flops;
    double off = 0;
    int32_t n = 0;
    char text[NUMBER];
    for (int32_t i = 1; i < w->c->n; i++) {
        const lam_compared *row = &w->c->rows[i];
        double by = row->told ? fabs((double)row->difference) : 0;
        n += by > 0;
        if (by > off) off = by, worst = row;
    }
    lmi_putf(&w->out, "<p class=\"h1\">%s: ", ref->convention);
    lmi_put_html(&w->out, w->c->tokens.there ? each_token(w, text, whole)
                                             : number(w, text, whole, ref->convention, w->c->metric));
    lmi_putf(&w->out, " %s%s%s</p>\n<p class=\"sub\">", phase_word(w), macs ? "MACs" : "FLOPs",
             w->c->tokens.there ? " a token" : "");
    if (!worst)
        lmi_put(&w->out, "No other number is known to differ.");
    else {
        lmi_putf(&w->out, "%d of %d others differ. Furthest off is %s, by %s", (int)n, (int)w->c->n - 1,
                 worst->convention, signed_number(w, text, worst->difference));
        if (whole.state == LAM_EXACT && off >= LEAST_SHARE * lmi_count_double(whole)) {
            lmi_put(&w->out, ", ");
            lmi_put_share(&w->out, off, lmi_count_double(whole));
        }
        lmi_putc(&w->out, '.');
    }
    lmi_put(&w->out, "</p>\n");
}

static void write_html(writer *w) {
    columns at;
    all_titles(w, &at);
    lmi_part_begin(&w->out, "comparison");
    put_verdict(w);
    lmi_put(&w->out, "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Table of "
                     "conventions\"><table aria-label=\"Conventions\"><thead><tr>");
    for (int k = 0; k < N_COLUMNS; k++) lmi_putf(&w->out, "<th scope=\"col\"><span>%s</span></th>", at.at[k]);
    lmi_put(&w->out, "<th scope=\"col\" class=\"l\"><span>because</span></th></tr></thead><tbody>\n");
    for (int32_t i = 0; i < w->c->n; i++) {
        all_cells(w, i, &at);
        for (int k = 0; k < N_COLUMNS; k++) {
            lmi_put(&w->out, k ? "<td>" : "<tr><th scope=\"row\">");
            lmi_put_html(&w->out, at.at[k]);
            lmi_put(&w->out, k ? "</td>" : "</th>");
        }
        lmi_put(&w->out, "<td class=\"l wr\">");
        put_all_reasons(w, i, true);
        lmi_put(&w->out, "</td></tr>\n");
    }
    lmi_put(&w->out, "</tbody></table></div>\n");
    lmi_part_end(&w->out);
}

/* -- JSON, CSV --------------------------------------------------------------------------------- */

/* An integer and its state; null if it is unknown, all digits beyond 63 bits. */
static void tell_count(lmi_teller *t, const char *name, const char *state, lam_count n) {
    tell_name(t, name);
    if (n.state == LAM_UNKNOWN)
        PUT(t->json, "null");
    else
        lmi_put_plain(t->json, n);
    tell_text(t, state, lam_state_name(n.state));
}

static void tell_row(const writer *w, lmi_teller *t, const lam_compared *row) {
    tell_object(t, NULL);
    tell_text(t, "convention", row->convention);
    tell_count(t, "macs", "macs_state", row->macs);
    tell_count(t, "flops", "flops_state", row->flops);
    tell_count(t, "params", "params_state", row->params);
    if (row->told)
        tell_int(t, "difference", row->difference);
    else
        tell_none(t, "difference");
    tell_text(t, "gap", row->gap);
    tell_text(t, "limits", row->limits);
    if (w->c->tokens.there) {
        const bool known = row->flops.state != LAM_UNKNOWN && w->c->tokens.tokens > 0;
        tell_known_real(t, "a_token",
                        known ? lmi_count_double(row->flops) / (double)w->c->tokens.tokens : -1);
        tell_text(t, "formula", row->formula);
        tell_text(t, "source", row->source);
    }
    tell_list(t, "causes");
    for (int32_t k = 0; k < row->n_causes; k++) {
        tell_object(t, NULL);
        tell_int(t, "difference", row->causes[k].difference);
        tell_int(t, "calls", row->causes[k].calls);
        tell_text(t, "text", row->causes[k].text);
        tell_text(t, "note", row->causes[k].note);
        tell_end(t);
    }
    tell_list_end(t);
    tell_end(t);
}

static void tell_tokens(lmi_teller *t, const lmi_token_comparison *x) {
    tell_object(t, "tokens");
    tell_text(t, "model", x->model);
    tell_known(t, "batch", x->batch > 0 ? x->batch : -1);
    tell_known(t, "length", x->length);
    tell_known(t, "tokens", x->tokens);
    tell_truth(t, "length_given", x->given);
    tell_truth(t, "hidden_left_out", x->hides);
    tell_truth(t, "dry", x->dry);
    tell_end(t);
}

static void write_json(writer *w) {
    lmi_teller t = lmi_tell_json(&w->out);
    lmi_tell_document(&t, "compare", 1);
    tell_text(&t, "reference", w->c->rows[0].convention);
    tell_text(&t, "metric", lam_metric_name(w->c->metric));
    tell_text(&t, "phase", w->c->tokens.training ? "training" : lam_phase_name(w->c->phase));
    if (w->c->tokens.there) tell_tokens(&t, &w->c->tokens);
    tell_list(&t, "conventions");
    for (int32_t i = 0; i < w->c->n; i++) {
        lmi_tell_line(&t);
        tell_row(w, &t, &w->c->rows[i]);
    }
    lmi_putc(&w->out, '\n');
    tell_list_end(&t);
    tell_end(&t);
    lmi_putc(&w->out, '\n');
}

static void put_csv_count(writer *w, lam_count n) {
    char digits[NUMBER];
    lam_text_digits(digits, sizeof digits, (lam_count){n.n, n.over, LAM_EXACT});
    lmi_putf(&w->out, ",%s,%s", n.state == LAM_UNKNOWN ? "" : digits, lam_state_name(n.state));
}

/* One line for each convention, and one for each cause with its part of the difference. */
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
} formats[] = {
    {"text", write_text}, {"md", write_md}, {"json", write_json}, {"csv", write_csv}, {"html", write_html}};

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
    return lmi_no_such(e, "format", format, "a comparison", &formats[0].name, sizeof *formats,
                       sizeof formats / sizeof *formats);
}
