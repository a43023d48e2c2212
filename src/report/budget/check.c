/* SPDX-License-Identifier: Apache-2.0
 *
 * Totals held against limits. */
#include "report/budget/budget.h"
#include "report/table/report.h"

#include <stdlib.h>

enum { MOST_NOTES = LMI_N_FIGURES + LMI_N_UNLIKE + 2 };

typedef struct holding {
    lam_check *k;
    const lam_budget *b;
    const lam_costs *c;
    const lam_tokens *t; /* NULL: no language model generated */
    const lmi_outline *now;
    lmi_outline both; /* the difference, if there is a baseline */
    lmi_buf text;
    lam_error *e;
} holding;

static const lmi_outline *was_of(const holding *w) { return w->b->file ? &w->b->baseline : NULL; }

/* -- totals ---------------------------------------------------------------------------------------------- */

/* For each of the tokens, rounded up: of a model that is over its limit by a part of one it is over too. */
static lam_count each(lam_count n, int64_t tokens) {
    if (n.state == LAM_UNKNOWN || tokens < 1) return lmi_unknown();
    lam_count share = lmi_of_wide((lmi_count_wide(n) + tokens - 1) / tokens);
    share.state = n.state;
    return share;
}

/* Returns false if the total was not measured, as of decode steps without one. */
static bool in_tokens(const lam_tokens *t, lmi_figure k, lam_count *out) {
    if (!t) return false;
    const lam_token_stage *s = &t->stage[k == LMI_FIGURE_PREFILL_MACS ? LAM_PREFILL : LAM_DECODE];
    if (k != LMI_FIGURE_CACHE) {
        *out = each(s->cost.macs.executed, s->tokens);
        return s->calls > 0;
    }
    *out = t->n_steps ? t->steps[t->n_steps - 1].cache : lmi_unknown();
    return true;
}

/* Returns false if the total was not measured. The time that is limited is that of the whole run, with its
 * backward if there is one. */
static bool total_of(const lmi_outline *o, lmi_figure k, lam_count *out) {
    bool run = k == LMI_FIGURE_TIME && o->timed;
    *out = run ? lmi_count_of(o->time[LAM_TIME_WHOLE].median) : lmi_figure_whole(o, k);
    return lmi_figure_measured(o, k);
}

/* -- verdicts -------------------------------------------------------------------------------------------- */

static const char *why_not(const lmi_limit_result *h) {
    if (h->now.state == LAM_UNKNOWN) return "it is not known";
    if (h->now.state == LAM_AT_LEAST) return "it is a lower bound";
    if (!h->is_change || h->was.state == LAM_EXACT) return NULL;
    return h->was.state == LAM_UNKNOWN ? "the baseline's is not known" : "the baseline's is a lower bound";
}

void lmi_limit_judge(lam_check *k, const lam_budget *b, lmi_limit_result *h) {
    bool limited = !h->is_change || h->was.state != LAM_UNKNOWN;
    bool over = limited && h->now.state != LAM_UNKNOWN && lmi_count_wide(h->now) > h->most;
    if (!h->why) h->why = why_not(h);
    const bool nothing = !h->is_change && h->now.state == LAM_UNKNOWN; /* no part of it is known */
    h->verdict = over                                          ? LAM_OVER
                 : h->why && (nothing || !b->allow_incomplete) ? LAM_NOT_COMPLETE
                                                               : LAM_WITHIN;
    if (h->verdict > k->verdict) k->verdict = h->verdict;
}

static lam_status unmeasured(const holding *w, const lmi_figure_info *of, const char *where) {
    static const char *const what[] = {[LAM_NEEDS_NOTHING] = "it was not counted",
                                       [LAM_NEEDS_COLUMNS] = "it was not counted",
                                       [LAM_NEEDS_BACKWARD] = "no backward pass ran",
                                       [LAM_NEEDS_TIMES] = "no times were measured",
                                       [LAM_NEEDS_MEMORY] = "memory was not measured",
                                       [LAM_NEEDS_TOKENS] = "no language model generated",
                                       [LAM_NEEDS_RECORDINGS] = "it is of recordings, and here is a model"};
    return lmi_fail(w->e, LAM_USAGE, of->name, "%s%s; leave its limit out, or measure it", what[of->needs],
                    where);
}

static bool is_measured(const holding *w, lmi_figure k, lam_count *out) {
    return lmi_figures[k].needs == LAM_NEEDS_TOKENS ? in_tokens(w->t, k, out) : total_of(w->now, k, out);
}

static lam_status hold_to_most(holding *w, lmi_figure i) {
    lmi_limit_result *h = &w->k->at[w->k->n++];
    *h = (lmi_limit_result){.of = &lmi_figures[i], .most = w->b->most[i]};
    h->text = lmi_strdup(&w->k->arena, w->b->text[i]);
    if (!h->text) return lmi_nomem(w->e);
    if (!is_measured(w, i, &h->now) && w->t)
        return lmi_fail(w->e, LAM_USAGE, h->of->name,
                        "no token is decoded after 1 new one; let it generate 2 or more");
    if (!is_measured(w, i, &h->now)) return unmeasured(w, h->of, "");
    lmi_limit_judge(w->k, w->b, h);
    return h->verdict == LAM_OVER ? lmi_find_parts(w->k, h, w->c, w->now, was_of(w) ? &w->both : NULL, w->e)
                                  : LAM_OK;
}

/* False for a metric that the convention never counts. */
static bool is_counted(const holding *w, const lmi_figure_info *of) {
    return of->metric < 0 || lmi_has_metric(w->c, (lam_metric)of->metric);
}

static lam_status add_note(holding *w) {
    const char **at = &w->k->note[w->k->n_notes++];
    *at = lmi_buf_keep(&w->text, &w->k->arena);
    return *at ? LAM_OK : lmi_nomem(w->e);
}

/* Notes a metric that is not compared because only one of the two measured it. */
static lam_status note_missing(holding *w, const lmi_figure_info *of, bool was) {
    lmi_putf(&w->text, "%s is not compared: %s did not measure it", of->name,
             was ? "this run" : "the baseline");
    return add_note(w);
}

/* Refuses a limit on a whole run, if only one of the two runs had a backward. */
static lam_status no_whole_run(const holding *w, const lmi_figure_info *of, const lmi_setup_change *u) {
    lmi_buf why;
    lmi_buf_init(&why);
    lmi_put_setup_change(&why, u, true);
    lam_status s =
        lmi_fail(w->e, LAM_USAGE, of->name,
                 "it can't be compared (%s); leave its limit out, or measure both alike", lmi_buf_text(&why));
    lmi_buf_free(&why);
    return s;
}

static lam_status hold_to_baseline(holding *w, lmi_figure i) {
    const lmi_figure_info *of = &lmi_figures[i];
    double within = w->b->within_of[i] >= 0 ? w->b->within_of[i] : w->b->within < 0 ? 0 : w->b->within;
    bool asked = w->b->within_of[i] >= 0;
    lam_count now, was;
    if ((!of->always && !asked) || !is_counted(w, of)) return LAM_OK;
    bool is = total_of(w->now, i, &now), had = total_of(was_of(w), i, &was);
    if (asked && !is) return unmeasured(w, of, "");
    if (asked && !had) return unmeasured(w, of, " in the baseline's run");
    if (is != had) return note_missing(w, of, had);
    lmi_setup_change u;
    bool whole_run = of->needs == LAM_NEEDS_TIMES || of->needs == LAM_NEEDS_MEMORY;
    bool apart = whole_run && lmi_is_setup_change(was_of(w), w->now, LMI_UNLIKE_BACKWARD, &u);
    if (apart && asked) return no_whole_run(w, of, &u);
    if (!is || apart) return LAM_OK; /* a note says it */
    lmi_limit_result *h = &w->k->at[w->k->n++];
    *h = (lmi_limit_result){.of = of, .now = now, .was = was, .is_change = true, .within = within};
    lmi_int128 base = lmi_count_wide(was);
    h->most = base + (within > 0 ? (lmi_int128)((double)base * within / 100) : 0);
    lmi_put_real(&w->text, within);
    lmi_put(&w->text, " %");
    h->text = lmi_buf_keep(&w->text, &w->k->arena);
    if (!h->text) return lmi_nomem(w->e);
    lmi_limit_judge(w->k, w->b, h);
    return h->verdict == LAM_OVER ? lmi_find_parts(w->k, h, w->c, w->now, &w->both, w->e) : LAM_OK;
}

/* -- the baseline ---------------------------------------------------------------------------------------- */

/* Notes what else differs than the model's code: then its numbers may well differ. */
static lam_status note_unlike(holding *w) {
    lmi_setup_change u;
    for (int32_t i = 0; lmi_outlines_unlike(was_of(w), w->now, i, &u); i++) {
        lmi_put_setup_change(&w->text, &u, true);
        lmi_put(&w->text, u.so);
        LAM_TRY(add_note(w));
    }
    u = (lmi_setup_change){"The build arguments differ", lmi_outline_provenance(was_of(w), "build"),
                           lmi_outline_provenance(w->now, "build"), NULL};
    if (!u.was || !*u.was || !u.now || !*u.now || strcmp(u.was, u.now) == 0) return LAM_OK;
    lmi_put_setup_change(&w->text, &u, true);
    return add_note(w);
}

static lam_status compare(holding *w) {
    const lmi_outline *was = was_of(w);
    if (!was) return LAM_OK;
    if (strcmp(was->convention, w->now->convention) != 0)
        return lmi_fail(w->e, LAM_USAGE, w->b->file,
                        "it was counted by %.40s and this run by %s, which can't be compared; count by the "
                        "same, or save it anew",
                        was->convention, w->now->convention);
    LAM_TRY(lmi_outline_diff(&w->both, was, w->now, w->e));
    return note_unlike(w);
}

/* -- a check --------------------------------------------------------------------------------------------- */

/* Copies the gaps: the costs may be freed before the check. */
static lam_status keep_gaps(holding *w) {
    lam_check *k = w->k;
    k->gap = lmi_alloc(&k->arena, (uint64_t)w->now->n_gaps, sizeof *k->gap);
    if (!k->gap) return lmi_nomem(w->e);
    for (; k->n_gaps < w->now->n_gaps; k->n_gaps++) {
        k->gap[k->n_gaps] = lmi_strdup(&k->arena, w->now->gap[k->n_gaps]);
        if (!k->gap[k->n_gaps]) return lmi_nomem(w->e);
    }
    return LAM_OK;
}

/* Notes what the numbers in tokens are of. */
static lam_status note_tokens(holding *w) {
    const lam_tokens *t = w->t;
    if (!t) return LAM_OK;
    lmi_put(&w->text, "it generated ");
    lmi_put_grouped(&w->text, lmi_exact(t->fresh));
    lmi_putf(&w->text, " token%s after a prompt of ", t->fresh == 1 ? "" : "s");
    lmi_put_grouped(&w->text, lmi_exact(t->prompt));
    return add_note(w);
}

static lam_status hold(holding *w) {
    lam_check *k = w->k;
    k->at = lmi_alloc(&k->arena, (uint64_t)2 * LMI_N_FIGURES, sizeof *k->at);
    k->note = lmi_alloc(&k->arena, MOST_NOTES, sizeof *k->note);
    k->convention = w->now->convention; /* it is static */
    if (!k->at || !k->note) return lmi_nomem(w->e);
    LAM_TRY(keep_gaps(w));
    LAM_TRY(note_tokens(w));
    LAM_TRY(compare(w));
    lmi_figure f;
    for (int i = 0; (f = lmi_figure_at(LMI_LIMITED, i)) != LMI_FIGURE_NO; i++) {
        if (w->b->limits[f]) LAM_TRY(hold_to_most(w, f));
        if (was_of(w)) LAM_TRY(hold_to_baseline(w, f));
    }
    return LAM_OK;
}

lam_status lmi_check_begin(lam_check **out, const char *name, lam_error *e) {
    lam_check *k = *out = calloc(1, sizeof *k);
    if (!k) return lmi_nomem(e);
    lmi_arena_init(&k->arena, UINT64_MAX);
    k->name = lmi_strdup(&k->arena, name);
    return k->name ? LAM_OK : lmi_nomem(e);
}

lam_status lam_check_new(lam_check **out, const char *name, const lam_costs *c, const lam_budget *b,
                         lam_error *e) {
    return lam_check_tokens(out, name, NULL, c, b, e);
}

lam_status lam_check_tokens(lam_check **out, const char *name, const lam_tokens *t, const lam_costs *c,
                            const lam_budget *b, lam_error *e) {
    lmi_outline now;
    lam_status s = lmi_check_begin(out, name, e);
    if (s == LAM_OK) {
        holding w = {.k = *out, .b = b, .c = c, .t = t, .now = &now, .e = e};
        lmi_buf_init(&w.text);
        s = lmi_outline_new(&now, c, &(lmi_outline_options){0}, e);
        if (s == LAM_OK) s = hold(&w);
        if (w.both.was) lmi_outline_free(&w.both);
        lmi_outline_free(&now);
        lmi_buf_free(&w.text);
    }
    if (s == LAM_OK) return s;
    lam_check_free(*out);
    *out = NULL;
    return s;
}

lam_status lam_check_failed(lam_check **out, const char *name, const lam_error *why, lam_error *e) {
    lmi_buf text;
    lam_status s = lmi_check_begin(out, name, e);
    lmi_buf_init(&text);
    if (s == LAM_OK) {
        lam_check *k = *out;
        lmi_putf(&text, "%s%s%s", why->where, *why->where ? ": " : "",
                 *why->text ? why->text : lam_status_name(why->status));
        k->error = lmi_buf_keep(&text, &k->arena);
        k->verdict = LAM_CHECK_FAILED;
        if (!k->error) s = lmi_nomem(e);
    }
    if (s == LAM_OK) return s;
    lam_check_free(*out);
    *out = NULL;
    return s;
}

void lam_check_free(lam_check *k) {
    if (!k) return;
    lmi_arena_free(&k->arena);
    free(k);
}

lam_verdict lam_check_verdict(const lam_check *k) { return k->verdict; }

const char *lam_verdict_name(lam_verdict v) {
    static const char *const names[] = {"within", "not complete", "over", "failed"};
    return v >= LAM_WITHIN && v <= LAM_CHECK_FAILED ? names[v] : "?";
}
