/* SPDX-License-Identifier: Apache-2.0
 *
 * The verdict: how many steps, how long one takes, and what to look at. */
#include "report/runs/runs.h"

enum { LOST = 5 }; /* per cent of speed from which it is told first */

static const lam_recorded_model *main_of(const lmi_runs *p) {
    return lam_recording_model(p->w.all[0], p->main);
}

static void put_tile(lmi_runs *p, const char *title) {
    lmi_putf(&p->w.out, "<div class=\"tile\"><span>%s</span><span class=\"v\">", title);
}

static void put_below(lmi_runs *p) { lmi_put(&p->w.out, "</span><span class=\"w\">"); }
static void end_tile(lmi_runs *p) { lmi_put(&p->w.out, "</span></div>"); }

static void put_time(lmi_runs *p, const char *title, lam_middle m) {
    if (!m.n) return;
    put_tile(p, title);
    lmi_put_ns(&p->w.out, (double)m.median);
    put_below(p);
    if (m.n > 1) {
        lmi_put(&p->w.out, "±" LMI_NARROW);
        lmi_put_ns(&p->w.out, (double)m.deviation);
        lmi_put(&p->w.out, ", ");
    }
    lmi_put_full(&p->w.out, m.n);
    lmi_put(&p->w.out, m.n == 1 ? " step" : " steps");
    end_tile(p);
}

static void put_bytes(lmi_runs *p, const char *title, lam_middle m) {
    if (!m.n) return;
    put_tile(p, title);
    lmi_put_iec(&p->w.out, (double)m.median);
    put_below(p);
    lmi_put(&p->w.out, "±" LMI_NARROW);
    lmi_put_iec(&p->w.out, (double)m.deviation);
    lmi_put(&p->w.out, ", median of steps");
    end_tile(p);
}

/* How much longer the last tenth of steps took than the first, in per cent. */
static double lost_of(const lmi_runs *p) {
    const lmi_series *s = &p->series;
    return s->first > 0 ? 100 * ((double)s->last / (double)s->first - 1) : 0;
}

static void put_lost(lmi_runs *p) {
    const lmi_series *s = &p->series;
    put_tile(p, "change of a step's time");
    if (s->first > 0) {
        double lost = lost_of(p);
        lmi_put(&p->w.out, lost < 0 ? "−" : "+");
        lmi_put_digits(&p->w.out, lost < 0 ? -lost : lost);
        lmi_put(&p->w.out, LMI_NARROW "%");
        put_below(p);
        lmi_put(&p->w.out, "last tenth against first");
    } else {
        lmi_put(&p->w.out, "?");
        put_below(p);
        lmi_put(&p->w.out, "too few steps to compare");
    }
    end_tile(p);
}

static void put_tiles(lmi_runs *p, const lam_recorded_model *m) {
    lmi_put(&p->w.out, "<div class=\"tiles\">");
    put_tile(p, "steps recorded");
    lmi_put_full(&p->w.out, m->n_steps);
    put_below(p);
    if (m->last >= 0) {
        lmi_put(&p->w.out, "the newest is step ");
        lmi_put_full(&p->w.out, m->last);
    }
    end_tile(p);
    put_time(p, "median step", m->step_ns);
    put_time(p, "forward", m->forward_ns);
    put_time(p, "backward", m->backward_ns);
    put_bytes(p, "peak memory", m->peak_bytes);
    put_bytes(p, "peak on the device", m->device_peak_bytes);
    put_lost(p);
    lmi_put(&p->w.out, "</div>");
}

/* -- findings -------------------------------------------------------------------------------------------- */

static void begin_finding(lmi_runs *p, const char *kind, const char *mark) {
    lmi_putf(&p->w.out, "<li class=\"%s\"><span class=\"ic\" aria-hidden=\"true\">%s</span><span>", kind,
             mark);
}
static void end_finding(lmi_runs *p) { lmi_put(&p->w.out, "</span></li>"); }

static void put_health(lmi_runs *p, const lam_recorded_model *m) {
    const lam_recorded_place *bad = lam_recording_place(p->w.all[0], p->main, m->first_bad);
    if (m->nonfinite < 0) return;
    if (!m->nonfinite) {
        begin_finding(p, "ok", "✓");
        lmi_put(&p->w.out, "<b>No NaN and no Inf</b> in any step that was checked.");
    } else {
        begin_finding(p, "bad", "!");
        lmi_put(&p->w.out, "<b>NaN or Inf in ");
        lmi_put_full(&p->w.out, m->nonfinite);
        lmi_put(&p->w.out, m->nonfinite == 1 ? " step</b>, in step " : " steps</b>, first in step ");
        lmi_put_full(&p->w.out, m->first_bad_step);
        if (bad) {
            lmi_put(&p->w.out, ", made by <code>");
            lmi_put_bdi(&p->w.out, bad->depth ? bad->path : "the model itself", LMI_RUNS_CELL);
            lmi_put(&p->w.out, "</code>.");
        } else
            lmi_put(&p->w.out, ", by none of its layers: in an input, or outside of it.");
    }
    end_finding(p);
}

static void put_slower(lmi_runs *p) {
    if (lost_of(p) < LOST) return;
    begin_finding(p, "warn", "!");
    lmi_put(&p->w.out, "<b>Steps became slower</b>: ");
    lmi_put_ns(&p->w.out, (double)p->series.first);
    lmi_put(&p->w.out, " in the first tenth of the run, ");
    lmi_put_ns(&p->w.out, (double)p->series.last);
    lmi_put(&p->w.out, " in the last.");
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

void lmi_runs_verdict(lmi_runs *p) {
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
    if (p->w.n > 1) lmi_putf(b, "%d recordings; numbers of the first · ", (int)p->w.n);
    lmi_put(b, "began ");
    lmi_put_when(b, run->started_unix_ns);
    lmi_put(b, "</p>");
    if (m) {
        put_tiles(p, m);
        size_t before = b->n;
        lmi_put(b, "<ul class=\"find\">");
        size_t none = b->n;
        put_health(p, m);
        put_slower(p);
        put_missing(p, m->failed, "raised an exception");
        put_missing(p, run->dropped, "could not be written in time");
        if (b->n == none)
            b->n = before; /* a list without an item is none */
        else
            lmi_put(b, "</ul>");
    }
    if (!p->part) lmi_put(b, "</section>\n");
}
