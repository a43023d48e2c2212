/* SPDX-License-Identifier: Apache-2.0
 *
 * The file: its head, its sections, how it was measured. It has no script, and a browser accepts only the
 * style whose hash the head has. */
#include "report/runs/runs.h"

#include <stdlib.h>

enum { MODELS = 16, TEXT = 300 };

/* -- the head -------------------------------------------------------------------------------------------- */

static void put_head(lmi_runs *p) {
    const lam_recorded_model *m = lam_recording_model(p->w.all[0], p->main);
    lmi_buf *b = &p->w.out;
    lmi_page_begin(b, NULL);
    lmi_put_name(b, m ? m->name : "nothing yet", LMI_PAGE_TITLE);
    lmi_page_titled(b, "recording");
    lmi_put(b, "<body><a class=\"skip\" href=\"#prov\">to how it was measured</a>\n<header "
               "class=\"top\"><a class=\"brand\" href=\"#verdict\">lam<i>i</i>na</a><nav "
               "aria-label=\"Sections\"><a href=\"#verdict\">Verdict</a>");
    lmi_many many = lmi_runs_many(p);
    if (p->ranks) lmi_many_nav(&many);
    if (m && m->n_steps)
        lmi_putf(b, "<a href=\"#steps%d\">Steps</a><a href=\"#layers%d\">Layers</a>", (int)p->main,
                 (int)p->main);
    if (m && p->w.n > 1) lmi_put(b, "<a href=\"#ranks\">Side by side</a>");
    lmi_put(b, "<a href=\"#prov\">How it was measured</a></nav></header>\n<div class=\"page\"><main>");
}

/* -- how it was measured --------------------------------------------------------------------------------- */

static void put_text(lmi_runs *p, const char *label, const char *text) {
    lmi_putf(&p->w.out, "<dt>%s</dt><dd>", label);
    lmi_put_bdi(&p->w.out, text ? text : "?", TEXT);
    lmi_put(&p->w.out, "</dd>");
}

static void put_moment(lmi_runs *p, const char *label, int64_t unix_ns) {
    lmi_putf(&p->w.out, "<dt>%s</dt><dd>", label);
    lmi_put_when(&p->w.out, unix_ns);
    lmi_put(&p->w.out, "</dd>");
}

static void put_run(lmi_runs *p, int32_t i) {
    const lam_recorded_run *run = lam_recording_run(p->w.all[i]);
    lmi_buf *b = &p->w.out;
    lmi_put(b, "<div><h3>");
    if (run->world > 1)
        lmi_putf(b, "Rank %d of %d", (int)run->rank, (int)run->world);
    else
        lmi_putf(b, "Run %lld", (long long)run->run);
    lmi_put(b, "</h3><dl>");
    put_text(p, "file", run->file);
    put_text(p, "command", run->command);
    put_text(p, "host", run->host);
    put_text(p, "torch", run->torch);
    put_text(p, "lamina", run->lamina);
    lmi_put(b, "<dt>steps</dt><dd>");
    char rule[LAM_RULE_WORDS];
    lmi_put(b, lam_recorded_rule(run->every, rule));
    lmi_put(b, "</dd>");
    put_moment(p, "began", run->started_unix_ns);
    if (run->ended_unix_ns)
        put_moment(p, "ended", run->ended_unix_ns);
    else
        put_moment(p, run->gone ? "its process died; last written" : "not ended; last written",
                   run->seen_unix_ns);
    lmi_put(b, "</dl></div>\n");
}

/* -- sections -------------------------------------------------------------------------------------------- */

static void begin_section(lmi_runs *p, const char *id, int32_t model, const char *title) {
    const lam_recorded_model *m = lam_recording_model(p->w.all[0], model);
    const int k = (int)model;
    lmi_putf(&p->w.out, "<section id=\"%s%d\" aria-labelledby=\"h-%s%d s-%s%d\">", id, k, id, k, id, k);
    lmi_putf(&p->w.out, "<div class=\"hd\"><h2 id=\"h-%s%d\">%s</h2><span class=\"say\" id=\"s-%s%d\">", id,
             k, title, id, k);
    lmi_put_bdi(&p->w.out, m->name, LMI_RUNS_CELL);
    lmi_put(&p->w.out, ", ");
    lmi_put_kind(&p->w.out, m);
    if (m->warmed_up) lmi_put(&p->w.out, "; the first step, a warm-up, is left out");
    if (m->n_steps < LMI_FEW_STEPS)
        lmi_putf(&p->w.out, "; <b>medians of %lld step%s</b>, from which others may be far",
                 (long long)m->n_steps, m->n_steps == 1 ? "" : "s");
    lmi_put(&p->w.out, "</span></div>");
}

static lam_status put_model(lmi_runs *p, int32_t model) {
    const lam_recorded_model *m = lam_recording_model(p->w.all[0], model);
    if (!m->n_steps) return LAM_OK;
    if (model != p->main) LAM_TRY(lmi_series_take(&p->series, p->w.all[0], model, p->w.e));
    begin_section(p, "steps", model, "Steps over time");
    lmi_runs_steps(p, model);
    lmi_runs_phases(p, model);
    lmi_put(&p->w.out, "</section>\n");
    begin_section(p, "layers", model, "Layers by time");
    LAM_TRY(lmi_runs_layers(p, model));
    lmi_put(&p->w.out, "</section>\n");
    return LAM_OK;
}

/* Writes the main one first: its steps were taken for the verdict. */
static lam_status put_models(lmi_runs *p) {
    int32_t n = lam_recording_run(p->w.all[0])->n_models;
    if (p->main >= 0) LAM_TRY(put_model(p, p->main));
    for (int32_t i = 0, left = MODELS; i < n && left > 0; i++) {
        if (i == p->main) continue;
        LAM_TRY(put_model(p, i));
        LAM_TRY(lmi_buf_flush_much(&p->w.out, p->to, p->w.e));
        left--;
    }
    if (n > MODELS + 1)
        lmi_putf(&p->w.out, "<p class=\"more\">and %d more kinds of steps: <code>lamina show</code></p>",
                 (int)(n - MODELS - 1));
    return LAM_OK;
}

static lam_status put_ranks(lmi_runs *p) {
    if (p->w.n < 2 || p->main < 0) return LAM_OK;
    lmi_put(&p->w.out, "<section id=\"ranks\" aria-labelledby=\"h-ranks\"><div class=\"hd\"><h2 "
                       "id=\"h-ranks\">Side by side</h2><span class=\"say\">Bars are shares of the slowest."
                       "</span></div>");
    LAM_TRY(lmi_runs_ranks(p));
    lmi_put(&p->w.out, "</section>\n");
    return LAM_OK;
}

/* Chooses the model with most steps as the main one; takes its steps, and the names of the recordings. */
static lam_status take_main(lmi_runs *p) {
    const lam_recorded_model *m;
    LAM_TRY(lmi_recorded_names(&p->w));
    for (int32_t i = 0; (m = lam_recording_model(p->w.all[0], i)); i++)
        if (p->main < 0 || m->n_steps > lam_recording_model(p->w.all[0], p->main)->n_steps) p->main = i;
    p->w.model = p->main < 0 ? 0 : p->main;
    return p->main < 0 ? LAM_OK : lmi_series_take(&p->series, p->w.all[0], p->main, p->w.e);
}

static lam_status put_page(lmi_runs *p) {
    lmi_many many = lmi_runs_many(p);
    put_head(p);
    LAM_TRY(lmi_runs_verdict(p));
    if (p->ranks) LAM_TRY(lmi_many_sections(&many));
    LAM_TRY(put_models(p));
    LAM_TRY(put_ranks(p));
    if (p->ranks) lmi_many_origins(&many);
    lmi_put(&p->w.out, "<section id=\"prov\" aria-labelledby=\"h-prov\"><div class=\"hd\"><h2 "
                       "id=\"h-prov\">How it was measured</h2></div><div class=\"prov\">");
    for (int32_t i = 0; i < p->w.n; i++) put_run(p, i);
    lmi_put(&p->w.out, "</div></section>\n<footer>Made by lamina, offline: this file loads nothing and sends "
                       "nothing.</footer></main></div></body></html>\n");
    return LAM_OK;
}

static lam_status put_part(lmi_runs *p) {
    lmi_part_begin(&p->w.out, "recording");
    LAM_TRY(lmi_runs_verdict(p));
    if (p->main >= 0 && lam_recording_model(p->w.all[0], p->main)->n_steps)
        LAM_TRY(lmi_runs_layers(p, p->main));
    lmi_part_end(&p->w.out);
    return LAM_OK;
}

static lam_status write_it(const lam_recording *const *all, int32_t n, bool part, lam_sink to, lam_error *e) {
    static const lam_recording_options options = {.depth = -1};
    if (!all || n < 1) return lmi_fail(e, LAM_USAGE, NULL, "there is no recording to show");
    lmi_runs *p = calloc(1, sizeof *p);
    if (!p) return lmi_nomem(e);
    p->w.o = &options;
    p->w.e = e;
    p->main = -1;
    p->part = part;
    p->to = to;
    lmi_buf_init(&p->w.out);
    lam_status s = lmi_recorded_sort(&p->w, all, n);
    if (s == LAM_OK) s = take_main(p);
    if (s == LAM_OK && !part) s = lmi_recorded_judge(&p->w, &p->ranks);
    if (s == LAM_OK) s = part ? put_part(p) : put_page(p);
    if (s == LAM_OK) s = lmi_buf_flush(&p->w.out, to, e);
    lam_ranks_free(p->ranks);
    lmi_buf_free(&p->w.out);
    free(p->w.names);
    free((void *)p->w.all);
    free(p);
    return s;
}

lam_status lam_recording_page(const lam_recording *const *all, int32_t n, lam_sink to, lam_error *e) {
    return write_it(all, n, false, to, e);
}

lam_status lam_recording_part(const lam_recording *r, lam_sink to, lam_error *e) {
    return write_it(&r, r != NULL, true, to, e);
}
