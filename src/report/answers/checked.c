/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks as text, Markdown, JSON, JUnit's XML or GitHub's workflow commands. */
#include "report/budget/budget.h"
#include "report/tell/tell.h"

#include <stdio.h>

enum { MOST_GAPS = 8 };

typedef struct writer {
    const lam_check *const *k;
    int32_t n;
    lmi_buf out, line;
} writer;

/* -- sentences ------------------------------------------------------------------------------------------- */

static void put_signed(lmi_buf *b, const lmi_figure_info *of, int64_t n) {
    lmi_putc(b, n < 0 ? '-' : '+');
    lmi_put_quantity(b, of->unit, lmi_exact(n < 0 ? -n : n));
}

/* "28.3 M, was 27.1 M: +1.2 M (+4.4 %), within 5 %". */
static void put_change(lmi_buf *b, const lmi_limit_result *h) {
    lmi_int128 now = lmi_count_wide(h->now), was = lmi_count_wide(h->was);
    lmi_put(b, ", was ");
    lmi_put_quantity(b, h->of->unit, h->was);
    if (h->now.state == LAM_EXACT && h->was.state == LAM_EXACT && now != was) {
        lmi_put(b, now > was ? ": +" : ": -");
        lmi_put_quantity(b, h->of->unit, lmi_of_wide(now > was ? now - was : was - now));
        lmi_put(b, " (");
        if (was > 0)
            lmi_put_growth(b, 100 * (double)(now - was) / (double)was, &lmi_plain);
        else
            lmi_put(b, "new");
        lmi_putc(b, ')');
    }
    if (h->verdict == LAM_OVER && h->within > 0)
        lmi_putf(b, ", over the %s allowed", h->text);
    else if (h->verdict == LAM_OVER)
        lmi_put(b, ", over the baseline");
    else if (h->verdict == LAM_WITHIN && h->within > 0)
        lmi_putf(b, ", within %s", h->text);
}

/* "28.3 M, over 2M by 26.3 M (+1315 %)". */
static void put_most(lmi_buf *b, const lmi_limit_result *h) {
    lmi_int128 over = lmi_count_wide(h->now) - h->most;
    lmi_putf(b, ", %s %s",
             h->verdict == LAM_OVER     ? "over"
             : h->verdict == LAM_WITHIN ? "within"
                                        : "limit",
             h->text);
    if (h->verdict != LAM_OVER || h->of->unit == LMI_SHARES) return; /* a share of a share is unclear */
    lmi_put(b, " by ");
    lmi_put_quantity(b, h->of->unit, lmi_of_wide(over));
    if (h->most <= 0) return;
    lmi_put(b, " (");
    lmi_put_growth(b, 100 * (double)over / (double)h->most, &lmi_plain);
    lmi_putc(b, ')');
}

static void put_limit(lmi_buf *b, const lmi_limit_result *h) {
    lmi_put_quantity(b, h->of->unit, h->now);
    if (h->of->unit == LMI_SHARES && h->now.state != LAM_UNKNOWN) lmi_put(b, " of a step");
    if (h->is_change)
        put_change(b, h);
    else
        put_most(b, h);
    if (h->why) lmi_putf(b, ", not complete: %s", h->why);
}

/* "extra (Conv2d): +116 M, new", "the model itself (Net): +3 M, its own work: aten::conv2d 3 M". */
static void put_part(lmi_buf *b, const lmi_limit_result *h, const lmi_growth *p) {
    lmi_put_clean(b, *p->path ? p->path : "the model itself");
    lmi_put(b, " (");
    lmi_put_clean(b, p->type);
    lmi_put(b, "): ");
    if (p->change)
        put_signed(b, h->of, p->now - p->was);
    else
        lmi_put_quantity(b, h->of->unit, lmi_exact(p->now));
    if (p->change == LMI_ADDED) lmi_put(b, ", new");
    if (!p->change && h->now.state == LAM_EXACT) {
        lmi_put(b, ", ");
        lmi_put_percent(b, (double)p->now, lmi_count_double(h->now), &lmi_plain);
    }
    for (int i = 0; i < p->n_ops; i++) {
        lmi_put(b, i ? ", " : ", by its own ");
        lmi_put_clean(b, p->op[i].name);
        if (p->op[i].n > 1) lmi_putf(b, " x%d", (int)p->op[i].n);
        lmi_putc(b, ' ');
        lmi_put_quantity(b, h->of->unit, lmi_exact(p->op[i].value));
    }
}

static void put_more(lmi_buf *b, const lmi_limit_result *h) {
    lmi_putf(b, "%d more layer%s", (int)h->n_more, h->n_more == 1 ? "" : "s");
}

/* True if a limit's total is not complete: then the gaps are listed. */
static bool is_incomplete(const lam_check *k) {
    for (int32_t i = 0; i < k->n; i++)
        if (k->at[i].why) return true;
    return false;
}

static int32_t shown_gaps(const lam_check *k) {
    return !is_incomplete(k) ? 0 : k->n_gaps < MOST_GAPS ? k->n_gaps : MOST_GAPS;
}

static const char *verdict_text(const lam_check *k) {
    static const char *const texts[] = {"within budget", "not complete", "over budget", "failed"};
    return texts[k->verdict];
}

/* Writes everything below a limit, each on a line after `before`. */
static void put_below(lmi_buf *b, const lmi_limit_result *h, const char *before) {
    if (h->said) {
        lmi_put(b, before);
        lmi_put_clean(b, h->said);
    }
    for (int32_t i = 0; i < h->n_parts; i++) {
        lmi_put(b, before);
        put_part(b, h, &h->part[i]);
    }
    if (!h->n_more) return;
    lmi_put(b, before);
    put_more(b, h);
}

static void put_gaps(lmi_buf *b, const lam_check *k, const char *before) {
    int32_t n = shown_gaps(k);
    for (int32_t i = 0; i < n; i++) {
        lmi_putf(b, "%snot complete: ", before);
        lmi_put_clean(b, k->gap[i]);
    }
    if (n && n < k->n_gaps) lmi_putf(b, "%s%d more reasons", before, (int)(k->n_gaps - n));
    for (int32_t i = 0; i < k->n_notes; i++) {
        lmi_putf(b, "%snote: ", before);
        lmi_put_clean(b, k->note[i]);
    }
}

/* -- text, Markdown, JSON -------------------------------------------------------------------------------- */

/* A line for each limit, and below it the layers that are over it. */
static void put_limits(writer *w, const lam_check *k) {
    enum { MARGIN = 2 };
    lmi_sheet t;
    lmi_sheet_start(&t, &w->out, 0, false, NULL);
    for (int i = 0; i < 2; i++) lmi_sheet_column(&t, &(lmi_head){"", LMI_LEFT, 0});
    for (int32_t i = 0; i < k->n; i++) {
        lmi_text_cell(&t, k->at[i].of->name);
        put_limit(t.cell, &k->at[i]);
        lmi_end_cell(&t);
    }
    lmi_sheet_fit(&t, 0, 0);
    for (int32_t i = 0; t.s == LAM_OK && !t.cell->bad && i < k->n; i++) {
        lmi_sheet_cells(&t, i + 1, 0, MARGIN);
        put_below(&w->out, &k->at[i], "\n      ");
        lmi_putc(&w->out, '\n');
    }
    if (lmi_sheet_free(&t) != LAM_OK) w->out.bad = true;
}

static void write_text(writer *w) {
    int n_bad = 0;
    for (int32_t i = 0; i < w->n; i++) {
        const lam_check *k = w->k[i];
        if (!k->n && !k->error && !k->n_notes) continue; /* nothing is limited */
        n_bad += k->verdict != LAM_WITHIN;
        lmi_put_clean(&w->out, k->name);
        lmi_putf(&w->out, ": %s\n", verdict_text(k));
        if (k->error) {
            lmi_put(&w->out, "  ");
            lmi_put_clean(&w->out, k->error);
            lmi_putc(&w->out, '\n');
        }
        put_limits(w, k);
        lmi_buf_clear(&w->line);
        put_gaps(&w->line, k, "\n  ");
        if (w->line.n) lmi_putf(&w->out, "%s\n", lmi_buf_text(&w->line) + 1);
    }
    if (w->n > 1) lmi_putf(&w->out, "%d of %d targets within budget\n", (int)w->n - n_bad, (int)w->n);
}

/* Writes the gathered text as one cell or line of Markdown. */
static void put_md(writer *w) { lmi_put_escaped(&w->out, lmi_buf_text(&w->line), "\\`*_<>|[]", "\\"); }

/* Writes the gathered text as an item of the list below the table; `any`: it is not the first. */
static void put_md_below(writer *w, const lmi_limit_result *h, bool *any) {
    lmi_putf(&w->out, "%s- %s: ", *any ? "" : "\n", h->of->name);
    put_md(w);
    lmi_putc(&w->out, '\n');
    *any = true;
}

static void write_md(writer *w) {
    lmi_put(&w->out, "| target | metric | result |\n|---|---|---|\n");
    for (int32_t i = 0; i < w->n; i++) {
        const lam_check *k = w->k[i];
        for (int32_t j = 0; j < k->n || (j == 0 && k->n == 0); j++) {
            lmi_put(&w->out, "| ");
            lmi_buf_clear(&w->line);
            lmi_put_clean(&w->line, k->name);
            put_md(w);
            lmi_buf_clear(&w->line);
            if (j < k->n) put_limit(&w->line, &k->at[j]);
            if (j >= k->n) lmi_put_clean(&w->line, k->error ? k->error : verdict_text(k));
            lmi_putf(&w->out, " | %s | %s", j < k->n ? k->at[j].of->name : "",
                     (j < k->n ? k->at[j].verdict : k->verdict) == LAM_WITHIN ? "" : "**failed**: ");
            put_md(w);
            lmi_put(&w->out, " |\n");
        }
    }
    bool any = false;
    for (int32_t i = 0; i < w->n; i++)
        for (int32_t j = 0; j < w->k[i]->n; j++) {
            const lmi_limit_result *h = &w->k[i]->at[j];
            if (h->said) {
                lmi_buf_clear(&w->line);
                lmi_put_clean(&w->line, h->said);
                put_md_below(w, h, &any);
            }
            for (int32_t l = 0; l < h->n_parts; l++) {
                lmi_buf_clear(&w->line);
                put_part(&w->line, h, &h->part[l]);
                put_md_below(w, h, &any);
            }
        }
}

static void write_json(writer *w) {
    lmi_teller json = lmi_tell_json(&w->out), *t = &json;
    bool within = true;
    for (int32_t i = 0; i < w->n; i++) within = within && w->k[i]->verdict == LAM_WITHIN;
    lmi_tell_document(t, "check", 1);
    tell_truth(t, "within", within);
    tell_list(t, "checks");
    for (int32_t i = 0; i < w->n; i++) lmi_check_fields(t, w->k[i]);
    tell_list_end(t);
    tell_end(t);
    lmi_putc(&w->out, '\n');
}

/* -- JUnit ----------------------------------------------------------------------------------------------- */

/* Writes the gathered text and clears it. Names in it are clean already. */
static void put_line(writer *w) {
    lmi_put_html(&w->out, lmi_buf_text(&w->line));
    lmi_buf_clear(&w->line);
}

static void put_name(writer *w, const lam_check *k) {
    lmi_put_clean(&w->line, k->name);
    put_line(w);
}

/* Writes <failure> or <error> with a sentence, and the parts below it. */
static void put_bad(writer *w, const lam_check *k, const lmi_limit_result *h) {
    const char *tag = h ? "failure" : "error";
    lmi_putf(&w->out, "<%s message=\"", tag);
    if (h) {
        lmi_putf(&w->line, "%s ", h->of->name);
        put_limit(&w->line, h);
    } else {
        lmi_put_clean(&w->line, k->error);
    }
    put_line(w);
    lmi_put(&w->out, "\">");
    if (h) {
        put_below(&w->line, h, "\n");
        put_gaps(&w->line, k, "\n");
        put_line(w);
    }
    lmi_putf(&w->out, "</%s>", tag);
}

static void put_case(writer *w, const lam_check *k, const lmi_limit_result *h) {
    lmi_put(&w->out, "    <testcase classname=\"");
    put_name(w, k);
    lmi_put(&w->out, "\" name=\"");
    if (h) {
        lmi_putf(&w->line, h->is_change ? "%s beside the baseline" : "%s at most %s", h->of->name, h->text);
        put_line(w);
    } else {
        lmi_put(&w->out, "run");
    }
    lmi_put(&w->out, "\">");
    if (!h || h->verdict != LAM_WITHIN) put_bad(w, k, h);
    lmi_put(&w->out, "</testcase>\n");
}

typedef struct tally {
    int tests, failures, errors;
} tally;

static tally tally_of(const lam_check *k) {
    tally t = {.tests = k->n + (k->error != NULL), .errors = k->error != NULL};
    for (int32_t i = 0; i < k->n; i++) t.failures += k->at[i].verdict != LAM_WITHIN;
    return t;
}

static void put_tally(lmi_buf *b, tally t) {
    lmi_putf(b, "\" tests=\"%d\" failures=\"%d\" errors=\"%d\">\n", t.tests, t.failures, t.errors);
}

static void write_junit(writer *w) {
    tally all = {0};
    for (int32_t i = 0; i < w->n; i++) {
        tally t = tally_of(w->k[i]);
        all = (tally){all.tests + t.tests, all.failures + t.failures, all.errors + t.errors};
    }
    lmi_put(&w->out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"lamina check");
    put_tally(&w->out, all);
    for (int32_t i = 0; i < w->n; i++) {
        const lam_check *k = w->k[i];
        lmi_put(&w->out, "  <testsuite name=\"");
        put_name(w, k);
        put_tally(&w->out, tally_of(k));
        for (int32_t j = 0; j < k->n; j++) put_case(w, k, &k->at[j]);
        if (k->error) put_case(w, k, NULL);
        lmi_put(&w->out, "  </testsuite>\n");
    }
    lmi_put(&w->out, "</testsuites>\n");
}

/* -- GitHub ---------------------------------------------------------------------------------------------- */

/* Writes the gathered text, escaped for GitHub's runner; in a property colons and commas too. */
static void put_command(writer *w, bool property) {
    for (const char *s = lmi_buf_text(&w->line); *s; s++) {
        bool escaped = *s == '%' || *s == '\n' || *s == '\r' || (property && (*s == ':' || *s == ','));
        if (escaped)
            lmi_putf(&w->out, "%%%02X", (unsigned)*s);
        else
            lmi_putc(&w->out, *s);
    }
    lmi_buf_clear(&w->line);
}

/* "::error file=net.py,title=...::...": with a file if the target names one. */
static void put_annotation(writer *w, const lam_check *k, const lmi_limit_result *h) {
    const char *colon = strrchr(k->name, ':');
    size_t n = colon ? (size_t)(colon - k->name) : 0;
    lmi_put(&w->out, "::error ");
    if (n > 3 && strncmp(colon - 3, ".py", 3) == 0) {
        lmi_putn(&w->line, k->name, n);
        if (!w->line.bad) w->line.n = lmi_clean(w->line.s);
        lmi_put(&w->out, "file=");
        put_command(w, true);
        lmi_putc(&w->out, ',');
    }
    lmi_putf(&w->line, "lamina: %s%s", h ? h->of->name : "the check failed",
             !h                       ? ""
             : h->verdict == LAM_OVER ? " over budget"
                                      : " not complete");
    lmi_put(&w->out, "title=");
    put_command(w, true);
    lmi_put(&w->out, "::");
    lmi_put_clean(&w->line, k->name);
    lmi_put(&w->line, ": ");
    if (h) {
        lmi_putf(&w->line, "%s ", h->of->name);
        put_limit(&w->line, h);
        put_below(&w->line, h, "\n");
        put_gaps(&w->line, k, "\n");
    } else {
        lmi_put_clean(&w->line, k->error);
    }
    put_command(w, false);
    lmi_putc(&w->out, '\n');
}

static void write_github(writer *w) {
    for (int32_t i = 0; i < w->n; i++) {
        for (int32_t j = 0; j < w->k[i]->n; j++)
            if (w->k[i]->at[j].verdict != LAM_WITHIN) put_annotation(w, w->k[i], &w->k[i]->at[j]);
        if (w->k[i]->error) put_annotation(w, w->k[i], NULL);
    }
}

/* -- all ------------------------------------------------------------------------------------------------- */

lam_status lam_checks_write(const lam_check *const *checks, int32_t n, const char *format, lam_sink to,
                            lam_error *e) {
    static const struct {
        const char *name;
        void (*write)(writer *w);
    } formats[] = {{"text", write_text},
                   {"json", write_json},
                   {"md", write_md},
                   {"junit", write_junit},
                   {"github", write_github}};
    writer w = {.k = checks, .n = n};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (format && strcmp(formats[i].name, format) != 0) continue;
        formats[i].write(&w);
        lam_status s = lmi_buf_status(&w.line, e);
        if (s == LAM_OK) s = lmi_buf_flush(&w.out, to, e);
        lmi_buf_free(&w.out);
        lmi_buf_free(&w.line);
        return s;
    }
    return lmi_no_such(e, "format", format, "a check", &formats[0].name, sizeof *formats,
                       sizeof formats / sizeof *formats);
}
