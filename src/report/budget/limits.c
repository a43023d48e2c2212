/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits from texts: "macs=2G", "peak=200MiB", "5%". */
#include "report/budget/budget.h"
#include "report/saved/saved.h"

#include <stdio.h>
#include <stdlib.h>

/* Units as the tables print them; after the one without a name, others that are understood. */
static const struct {
    const char *name;
    int64_t size;
} units[][12] = {
    [LMI_COUNTS] =
        {{"K", 1000}, {"M", 1000000}, {"G", 1000000000}, {"T", 1000000000000}, {"", 1}, {"k", 1000}},
    [LMI_BYTES] = {{"B", 1},
                   {"KiB", INT64_C(1) << 10},
                   {"MiB", INT64_C(1) << 20},
                   {"GiB", INT64_C(1) << 30},
                   {"TiB", INT64_C(1) << 40},
                   {"kB", 1000},
                   {"MB", 1000000},
                   {"GB", 1000000000},
                   {"TB", 1000000000000},
                   {"", 1},
                   {"KB", 1000}},
    [LMI_TIMES] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}},
    [LMI_SHARES] = {{"%", 10000}},
};

lam_status lam_budget_new(lam_budget **out, lam_error *e) {
    lam_budget *b = *out = calloc(1, sizeof *b);
    if (!b) return lmi_nomem(e);
    b->within = -1;
    for (int i = 0; i < LMI_N_FIGURES; i++) b->within_of[i] = -1;
    return LAM_OK;
}

void lam_budget_free(lam_budget *b) {
    if (!b) return;
    if (b->file) lmi_outline_free(&b->baseline);
    free(b->file);
    free(b);
}

void lam_budget_allow_incomplete(lam_budget *b) { b->allow_incomplete = true; }

/* -- a metric and a number ------------------------------------------------------------------------------- */

/* The metric of the n bytes before the equals sign. */
static lam_status find_metric(const char *text, size_t n, lmi_figure *out, lam_error *e) {
    const char *names[LMI_N_FIGURES];
    char name[61];
    size_t known = 0;
    *out = lmi_figure_find(LMI_LIMITED, text, n);
    if (*out != LMI_FIGURE_NO) return LAM_OK;
    snprintf(name, sizeof name, "%.*s", n > 40 ? 40 : (int)n, text);
    for (lmi_figure k; (k = lmi_figure_at(LMI_LIMITED, (int)known)) != LMI_FIGURE_NO;)
        names[known++] = lmi_figures[k].name;
    return lmi_no_such(e, "metric", name, NULL, names, sizeof *names, known);
}

static lam_status no_unit(const char *text, const lmi_figure_info *of, const char *unit, lam_error *e) {
    lmi_buf list;
    lmi_buf_init(&list);
    for (int i = 0; units[of->unit][i].name && *units[of->unit][i].name; i++)
        lmi_putf(&list, "%s%s", i ? ", " : "", units[of->unit][i].name);
    lam_status s = lmi_buf_status(&list, e);
    if (s == LAM_OK && *unit)
        s = lmi_fail(e, LAM_USAGE, text, "'%.20s' is no unit of %s; there are: %s", unit, of->name,
                     lmi_buf_text(&list));
    else if (s == LAM_OK)
        s = lmi_fail(e, LAM_USAGE, text, "%s needs a unit; there are: %s", of->name, lmi_buf_text(&list));
    lmi_buf_free(&list);
    return s;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Reads digits with at most one point, as a whole number and the power of ten that it was multiplied with.
 * Returns the text after them; NULL: there are none, or more than fit. */
static const char *read_digits(const char *s, int64_t *n, int64_t *tenth) {
    int digits = 0;
    bool point = false;
    *n = 0;
    *tenth = 1;
    for (; is_digit(*s) || (*s == '.' && !point); s++) {
        if (*s == '.') {
            point = true;
            continue;
        }
        if (++digits > 18) return NULL;
        *n = *n * 10 + (*s - '0');
        if (point) *tenth *= 10;
    }
    return digits ? s : NULL;
}

/* Reads a number in whole units of the metric, rounded down. */
static lam_status read_number(const char *text, const lmi_figure_info *of, const char *s, int64_t *out,
                              lam_error *e) {
    int64_t n, tenth;
    s = read_digits(s, &n, &tenth);
    if (!s)
        return lmi_fail(e, LAM_USAGE, text, "a limit is a metric and a number, as macs=2G or peak=200MiB");
    s += strspn(s, " ");
    for (int i = 0; units[of->unit][i].name; i++) {
        if (strcmp(units[of->unit][i].name, s) != 0) continue;
        lmi_int128 value = (lmi_int128)n * units[of->unit][i].size / tenth;
        if (value > INT64_MAX)
            return lmi_fail(e, LAM_USAGE, text, "the limit is larger than any number here");
        *out = (int64_t)value;
        return LAM_OK;
    }
    return no_unit(text, of, s, e);
}

lam_status lam_budget_bytes(const char *text, int64_t *out, lam_error *e) {
    const char *s = text + strspn(text, " ");
    if (!is_digit(*s) && *s != '.')
        return lmi_fail(e, LAM_USAGE, text, "it is no number of bytes, as 80GB or 200MiB");
    return read_number(text, &lmi_figures[LMI_FIGURE_PEAK], s, out, e);
}

lam_status lam_budget_max(lam_budget *b, const char *limit, lam_error *e) {
    const char *equals = strchr(limit, '=');
    lmi_figure i = LMI_FIGURE_MACS;
    if (!equals || equals == limit)
        return lmi_fail(e, LAM_USAGE, limit, "a limit is a metric and a number, as macs=2G or peak=200MiB");
    LAM_TRY(find_metric(limit, (size_t)(equals - limit), &i, e));
    if (b->limits[i]) return lmi_fail(e, LAM_USAGE, limit, "%s has a limit already", lmi_figures[i].name);
    const char *number = equals + 1 + strspn(equals + 1, " ");
    LAM_TRY(read_number(limit, &lmi_figures[i], number, &b->most[i], e));
    b->limits[i] = true;
    lmi_buf text = {.s = NULL};
    lmi_put_clean(&text, number);
    size_t n = lmi_fit(lmi_buf_text(&text), sizeof b->text[i] - 1);
    memcpy(b->text[i], lmi_buf_text(&text), n);
    lam_status s = lmi_buf_status(&text, e);
    lmi_buf_free(&text);
    return s;
}

lam_status lam_budget_within(lam_budget *b, const char *text, lam_error *e) {
    const char *equals = strchr(text, '='), *s = equals ? equals + 1 : text;
    int64_t n, tenth;
    lmi_figure i = LMI_FIGURE_MACS;
    if (equals) LAM_TRY(find_metric(text, (size_t)(equals - text), &i, e));
    s = read_digits(s + strspn(s, " "), &n, &tenth);
    if (s) s += strspn(s, " ");
    if (!s || strcmp(s, "%") != 0)
        return lmi_fail(e, LAM_USAGE, text,
                        "how much a number may grow is a share of it, as 5%% or macs=0.5%%");
    double percent = (double)n / (double)tenth;
    if (equals)
        b->within_of[i] = percent;
    else
        b->within = percent;
    return LAM_OK;
}

lam_status lam_budget_baseline(lam_budget *b, const char *file, lam_error *e) {
    if (b->file) return lmi_fail(e, LAM_USAGE, file, "there is a baseline already, %s", b->file);
    lam_status s = lmi_saved_outline(&b->baseline, file, &(lmi_outline_options){0}, e);
    size_t n = strlen(file) + 1;
    char *kept = s == LAM_OK ? malloc(n) : NULL;
    if (s == LAM_OK && !kept) s = lmi_nomem(e);
    if (s != LAM_OK) {
        lmi_outline_free(&b->baseline);
        return s;
    }
    memcpy(kept, file, n);
    b->file = kept;
    return LAM_OK;
}

/* -- what a run must measure ----------------------------------------------------------------------------- */

static bool is_asked(const lam_budget *b, int i) { return b->limits[i] || (b->file && b->within_of[i] >= 0); }

lam_budget_needs lam_budget_wants(const lam_budget *b) {
    lam_budget_needs needs = {.any = b->file != NULL};
    for (int i = 0; i < LMI_N_FIGURES; i++) {
        if (!is_asked(b, i)) continue;
        needs.any = true;
        needs.backward = needs.backward || lmi_figures[i].needs == LAM_NEEDS_BACKWARD;
        needs.time = needs.time || lmi_figures[i].needs == LAM_NEEDS_TIMES;
        needs.memory = needs.memory || lmi_figures[i].needs == LAM_NEEDS_MEMORY;
        needs.tokens = needs.tokens || lmi_figures[i].needs == LAM_NEEDS_TOKENS;
        needs.recordings = needs.recordings || lmi_figures[i].needs == LAM_NEEDS_RECORDINGS;
    }
    return needs;
}

/* What a limit is of, as the end of a sentence. */
static const char *source_of(lam_needs needs) {
    return needs == LAM_NEEDS_TOKENS       ? "a model that generates"
           : needs == LAM_NEEDS_RECORDINGS ? "recordings"
                                           : "one run";
}

/* Refuses limits of different sources: in tokens, of recordings, and all others, which are of one run. */
static lam_status are_of_one_source(const lam_budget *b, lam_error *e) {
    const char *first = b->file ? "a baseline" : NULL, *source = source_of(LAM_NEEDS_NOTHING);
    for (int i = 0; i < LMI_N_FIGURES; i++) {
        const lmi_figure_info *of = &lmi_figures[i];
        if (!is_asked(b, i)) continue;
        const char *its = source_of(of->needs);
        if (first && strcmp(its, source) != 0)
            return lmi_fail(e, LAM_USAGE, of->name, "it is of %s, and %s of %s; make two checks of them", its,
                            first, source);
        first = of->name;
        source = its;
    }
    return LAM_OK;
}

lam_status lam_budget_fits(const lam_budget *b, const char *convention, lam_error *e) {
    int32_t by = lam_convention_find(convention ? convention : lam_convention_of(NULL));
    if (by < 0) return lmi_fail(e, LAM_USAGE, convention, "there is no such convention");
    for (int i = 0; i < LMI_N_FIGURES; i++) {
        const lmi_figure_info *of = &lmi_figures[i];
        if (!is_asked(b, i) || of->metric < 0) continue;
        if (!lam_convention_counts(by, (lam_metric)of->metric))
            return lmi_fail(e, LAM_USAGE, of->name, "the convention %s does not count it; %s does",
                            lam_convention_name(by), lam_convention_of(NULL));
    }
    return are_of_one_source(b, e);
}
