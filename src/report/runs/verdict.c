/* SPDX-License-Identifier: Apache-2.0
 *
 * The verdict: how many steps, how long one takes, and what needs attention. */
#include "report/runs/runs.h"

#include <math.h>
#include <stdlib.h>

enum { LOST = 5 }; /* lost speed, in per cent, that is a finding */

/* The recording that is worst in something, of several. */
typedef struct worst {
    int32_t which;
    lam_middle of;
} worst;

static const lam_recorded_model *main_of(const lmi_runs *p) {
    return lam_recording_model(p->w.all[0], p->main);
}

static lam_middle step_of(const lam_recorded_model *m) { return m->step_ns; }
static lam_middle forward_of(const lam_recorded_model *m) { return m->forward_ns; }
static lam_middle backward_of(const lam_recorded_model *m) { return m->backward_ns; }
static lam_middle peak_of(const lam_recorded_model *m) { return m->peak_bytes; }
static lam_middle device_of(const lam_recorded_model *m) { return m->device_peak_bytes; }

static worst worst_of(const lmi_runs *p, lam_middle (*of)(const lam_recorded_model *m)) {
    worst w = {0};
    for (int32_t i = 0; i < p->w.n; i++) {
        const lam_recorded_model *m = lmi_recorded_model(&p->w, i);
        lam_middle at = m ? of(m) : (lam_middle){0};
        if (at.n && (!w.of.n || at.median > w.of.median)) w = (worst){i, at};
    }
    return w;
}

/* Writes which of several recordings a number is of; nothing if there is one. */
static void put_worst(lmi_runs *p, const char *what, int32_t which) {
    if (p->w.n < 2) return;
    lmi_putf(&p->w.out, "%s of %d: ", what, (int)p->w.n);
    lmi_runs_which(p, which);
    lmi_put(&p->w.out, ", ");
}

static void put_tile(lmi_runs *p, const char *title) {
    lmi_putf(&p->w.out, "<div class=\"tile\"><span>%s</span><span class=\"v\">", title);
}

static void put_below(lmi_runs *p) { lmi_put(&p->w.out, "</span><span class=\"w\">"); }
static void end_tile(lmi_runs *p) { lmi_put(&p->w.out, "</span></div>"); }

static void put_time(lmi_runs *p, const char *title, lam_middle (*of)(const lam_recorded_model *m)) {
    worst w = worst_of(p, of);
    if (!w.of.n) return;
    put_tile(p, title);
    lmi_put_ns(&p->w.out, (double)w.of.median);
    put_below(p);
    put_worst(p, "slowest", w.which);
    if (w.of.n > 1) {
        lmi_put(&p->w.out, "±" LMI_NARROW);
        lmi_put_ns(&p->w.out, (double)w.of.deviation);
        lmi_put(&p->w.out, ", ");
    }
    lmi_put_full(&p->w.out, w.of.n);
    lmi_put(&p->w.out, w.of.n == 1 ? " step" : " steps");
    end_tile(p);
}

static void put_bytes(lmi_runs *p, const char *title, lam_middle (*of)(const lam_recorded_model *m)) {
    worst w = worst_of(p, of);
    if (!w.of.n) return;
    put_tile(p, title);
    lmi_put_iec(&p->w.out, (double)w.of.median);
    put_below(p);
    put_worst(p, "most", w.which);
    lmi_put(&p->w.out, "±" LMI_NARROW);
    lmi_put_iec(&p->w.out, (double)w.of.deviation);
    lmi_put(&p->w.out, ", median of steps");
    end_tile(p);
}

/* -- steps that became slower ---------------------------------------------------------------------------- */

/* The recording whose last tenth of steps took longest, compared with its first. */
typedef struct lost {
    int32_t which;
    int64_t first, last; /* -1: too few steps to compare, in all of them */
    double share;        /* per cent */
} lost;

static void note_lost(lost *l, int32_t which, const lmi_series *s) {
    double share = s->first > 0 ? 100 * ((double)s->last / (double)s->first - 1) : 0;
    if (s->first > 0 && (l->first < 0 || share > l->share)) *l = (lost){which, s->first, s->last, share};
}

static int32_t index_of(const lam_recording *r, const lam_recorded_model *m) {
    int32_t i = 0;
    while (lam_recording_model(r, i) != m) i++;
    return i;
}

static lam_status find_lost(const lmi_runs *p, lost *l) {
    lam_status s = LAM_OK;
    *l = (lost){0, -1, -1, 0};
    note_lost(l, 0, &p->series);
    lmi_series *other = malloc(sizeof *other);
    if (!other) return lmi_nomem(p->w.e);
    for (int32_t i = 1; i < p->w.n && s == LAM_OK; i++) {
        const lam_recorded_model *m = lmi_recorded_model(&p->w, i);
        if (!m || !m->n_steps) continue;
        s = lmi_series_take(other, p->w.all[i], index_of(p->w.all[i], m), p->w.e);
        if (s == LAM_OK) note_lost(l, i, other);
    }
    free(other);
    return s;
}

static void put_lost(lmi_runs *p, const lost *l) {
    put_tile(p, "change of a step's time");
    if (l->first > 0) {
        lmi_put(&p->w.out, l->share < 0 ? "−" : "+");
        lmi_put_digits(&p->w.out, l->share < 0 ? -l->share : l->share);
        lmi_put(&p->w.out, LMI_NARROW "%");
        put_below(p);
        put_worst(p, "most", l->which);
        lmi_put(&p->w.out, "last tenth against first");
    } else {
        lmi_put(&p->w.out, "?");
        put_below(p);
        lmi_put(&p->w.out, "too few steps to compare");
    }
    end_tile(p);
}

/* -- all together ---------------------------------------------------------------------------------------- */

typedef struct together {
    int64_t steps, newest, failed, dropped;
    int64_t checked, nonfinite; /* recordings whose values were checked; steps with NaN or Inf */
    int32_t first_bad;          /* the recording with the first of those */
} together;

static together add_up(const lmi_runs *p) {
    together t = {.newest = -1};
    for (int32_t i = 0; i < p->w.n; i++) {
        const lam_recorded_model *m = lmi_recorded_model(&p->w, i);
        t.dropped += lam_recording_run(p->w.all[i])->dropped;
        if (!m) continue;
        t.steps += m->n_steps + m->warmed_up;
        t.failed += m->failed;
        if (m->last > t.newest) t.newest = m->last;
        if (m->nonfinite < 0) continue;
        t.checked++;
        if (m->nonfinite == 0) continue;
        const lam_recorded_model *bad = t.nonfinite ? lmi_recorded_model(&p->w, t.first_bad) : NULL;
        if (!bad || m->first_bad_step < bad->first_bad_step) t.first_bad = i;
        t.nonfinite += m->nonfinite;
    }
    return t;
}

/* Of one recording; of the processes of a run the verdict has it. */
static void put_used(lmi_runs *p) {
    const lam_recorded_model *m = main_of(p);
    const char *why = m ? lmi_used_why(&m->used) : NULL;
    if (p->w.n > 1 || !m || !m->n_steps) return;
    put_tile(p, "MFU");
    if (m->used.at_least && !isnan(m->used.mfu)) lmi_put(&p->w.out, "≥" LMI_NARROW);
    if (isnan(m->used.mfu))
        lmi_putc(&p->w.out, '?');
    else
        lmi_putf(&p->w.out, "%.3g" LMI_NARROW "%%", 100 * m->used.mfu);
    put_below(p);
    if (!isnan(m->used.hfu)) lmi_putf(&p->w.out, "HFU %.3g" LMI_NARROW "%%", 100 * m->used.hfu);
    if (!isnan(m->used.mfu)) {
        lmi_put(&p->w.out, ", of ");
        lmi_put_si(&p->w.out, m->used.peak);
        lmi_put(&p->w.out, "FLOP/s");
    }
    if (why) lmi_put(&p->w.out, isnan(m->used.mfu) ? "" : ": ");
    if (why) lmi_put_html(&p->w.out, why);
    end_tile(p);
}

static void put_tiles(lmi_runs *p, const together *t, const lost *l) {
    lmi_put(&p->w.out, "<div class=\"tiles\">");
    put_tile(p, "steps recorded");
    lmi_put_full(&p->w.out, t->steps);
    put_below(p);
    if (t->newest >= 0) {
        lmi_put(&p->w.out, "the newest is step ");
        lmi_put_full(&p->w.out, t->newest);
    }
    end_tile(p);
    put_time(p, "median step", step_of);
    put_time(p, "forward", forward_of);
    put_time(p, "backward", backward_of);
    put_used(p);
    put_bytes(p, "peak memory", peak_of);
    put_bytes(p, "peak on the device", device_of);
    put_lost(p, l);
    lmi_put(&p->w.out, "</div>");
}

/* -- findings -------------------------------------------------------------------------------------------- */

static void begin_finding(lmi_runs *p, const char *kind, const char *mark) {
    lmi_putf(&p->w.out, "<li class=\"%s\"><span class=\"ic\" aria-hidden=\"true\">%s</span><span>", kind,
             mark);
}
static void end_finding(lmi_runs *p) { lmi_put(&p->w.out, "</span></li>"); }

static void put_health(lmi_runs *p, const together *t) {
    if (!t->checked) return;
    if (!t->nonfinite) {
        begin_finding(p, "ok", "✓");
        lmi_put(&p->w.out, "<b>No NaN and no Inf</b> in any step that was checked.");
        end_finding(p);
        return;
    }
    const lam_recording *r = p->w.all[t->first_bad];
    const lam_recorded_model *m = lmi_recorded_model(&p->w, t->first_bad);
    const lam_recorded_place *bad = lam_recording_place(r, index_of(r, m), m->first_bad);
    begin_finding(p, "bad", "!");
    lmi_put(&p->w.out, "<b>NaN or Inf in ");
    lmi_put_full(&p->w.out, t->nonfinite);
    lmi_put(&p->w.out, t->nonfinite == 1 ? " step</b>, in step " : " steps</b>, first in step ");
    lmi_put_full(&p->w.out, m->first_bad_step);
    if (p->w.n > 1) {
        lmi_put(&p->w.out, " of ");
        lmi_runs_which(p, t->first_bad);
    }
    if (bad) {
        lmi_put(&p->w.out, ", made by <code>");
        lmi_put_bdi(&p->w.out, bad->depth ? bad->path : "the model itself", LMI_RUNS_CELL);
        lmi_put(&p->w.out, "</code>.");
    } else
        lmi_put(&p->w.out, ", by none of its layers: in an input, or outside of it.");
    end_finding(p);
}

static void put_slower(lmi_runs *p, const lost *l, const lmi_standout *most) {
    const bool said = most->kind && strcmp(most->kind, "slower") == 0;
    if (l->share < LOST || said) return;
    begin_finding(p, "warn", "!");
    lmi_put(&p->w.out, "<b>Steps became slower</b>");
    if (p->w.n > 1) {
        lmi_put(&p->w.out, ", most in ");
        lmi_runs_which(p, l->which);
    }
    lmi_put(&p->w.out, ": ");
    lmi_put_ns(&p->w.out, (double)l->first);
    lmi_put(&p->w.out, " in the first tenth of the run, ");
    lmi_put_ns(&p->w.out, (double)l->last);
    lmi_put(&p->w.out, " in the last.");
    end_finding(p);
}

static void put_standout(lmi_runs *p, const lmi_standout *most) {
    lmi_buf *b = &p->w.out;
    if (!most->next) return;
    begin_finding(p, "warn", "!");
    if (strcmp(most->kind, "slower") == 0) {
        lmi_put(b, "<b>Steps became ");
        lmi_put_fixed(b, most->percent, 1);
        lmi_put(b, LMI_NARROW "% slower</b>");
        lmi_buf text;
        lmi_buf_init(&text);
        lmi_put_slower(&text, most);
        lmi_put_html(b, lmi_buf_text(&text));
        lmi_buf_used(&text, b);
    } else {
        lmi_putf(b, "<b>%s takes ", lmi_standout_what(most));
        lmi_put_fixed(b, most->percent, 1);
        lmi_putf(b, LMI_NARROW "%% of a step</b>: %s. %s", most->reason, most->next);
    }
    end_finding(p);
}

static void put_missing(lmi_runs *p, int64_t n, const char *what) {
    if (n <= 0) return;
    begin_finding(p, "warn", "!");
    lmi_put(&p->w.out, "<b>");
    lmi_put_full(&p->w.out, n);
    lmi_putf(&p->w.out, n == 1 ? " step</b> %s." : " steps</b> %s.", what);
    end_finding(p);
}

static void put_findings(lmi_runs *p, const together *t, const lost *l, const lmi_standout *most) {
    lmi_buf *b = &p->w.out;
    size_t before = b->n;
    lmi_put(b, "<ul class=\"find\">");
    size_t none = b->n;
    lmi_many many = lmi_runs_many(p);
    if (p->ranks) lmi_many_findings(&many);
    put_health(p, t);
    put_slower(p, l, most);
    put_standout(p, most);
    put_missing(p, t->failed, "raised an exception");
    put_missing(p, t->dropped, "could not be written in time");
    if (b->n == none)
        b->n = before; /* no empty list */
    else
        lmi_put(b, "</ul>");
}

lam_status lmi_runs_verdict(lmi_runs *p) {
    const lam_recorded_run *run = lam_recording_run(p->w.all[0]);
    const lam_recorded_model *m = main_of(p);
    lmi_buf *b = &p->w.out;
    lmi_put(b, p->part ? "<p class=\"h1\">"
                       : "<section id=\"verdict\" aria-labelledby=\"h-verdict\"><h1 id=\"h-verdict\">");
    lmi_put_bdi(&p->w.out, m ? m->name : "Nothing was recorded yet", LMI_PAGE_LONG);
    lmi_put(b, p->part ? "</p><p class=\"sub\">" : "</h1><p class=\"sub\">");
    if (run->command) {
        lmi_put(b, "<code>");
        lmi_put_bdi(&p->w.out, run->command, LMI_PAGE_LONG);
        lmi_put(b, "</code> · ");
    }
    if (m) lmi_put_kind(b, m);
    if (m) lmi_put(b, " · ");
    if (p->w.n > 1)
        lmi_putf(b, "%d recordings: counts are of all, times and memory of the worst · ", (int)p->w.n);
    lmi_put(b, "began ");
    lmi_put_when(b, run->started_unix_ns);
    lmi_put(b, "</p>");
    if (m) {
        lost l;
        together t = add_up(p);
        lmi_standout most = {.kind = NULL}; /* of several the verdict on ranks says it */
        LAM_TRY(find_lost(p, &l));
        if (p->w.n == 1 && m->n_steps) LAM_TRY(lmi_recorded_standout(p->w.all[0], p->main, &most, p->w.e));
        put_tiles(p, &t, &l);
        put_findings(p, &t, &l, &most);
    }
    if (!p->part) lmi_put(b, "</section>\n");
    return LAM_OK;
}
