/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers by their time, and processes side by side. */
#include "report/runs/runs.h"

#include <stdlib.h>

enum { ROWS = 200, BARS = 50, TYPE = 30 };

static void put_heads(lmi_runs *p, const char *const *head, int n) {
    lmi_put(&p->w.out, "<table><thead><tr>");
    for (int i = 0; i < n; i++)
        if (head[i]) lmi_putf(&p->w.out, "<th scope=\"col\"><span>%s</span></th>", head[i]);
    lmi_put(&p->w.out, "</tr></thead><tbody>");
}

/* Begins a cell whose bar is as wide as its part of `most`, the largest value. */
static void begin_bar(lmi_runs *p, double v, double most, bool hot) {
    int bar = v > 0 ? (int)(BARS * (v / most) + .5) : 0;
    lmi_put(&p->w.out, hot ? "<td class=\"n hot" : "<td class=\"n");
    if (bar > 0) lmi_putf(&p->w.out, " w%d", bar < BARS ? bar : BARS);
    lmi_put(&p->w.out, "\">");
}

static void put_time(lmi_runs *p, lam_middle m, double most) {
    begin_bar(p, m.n ? (double)m.median : 0, most, false);
    lmi_put_ns(&p->w.out, m.n ? (double)m.median : -1);
    lmi_put(&p->w.out, "</td>");
}

static void put_name(lmi_runs *p, const lam_recorded_place *at, const char *root) {
    lmi_put(&p->w.out, "<tr><th scope=\"row\"><code>");
    lmi_put_bdi(&p->w.out, at->depth ? at->path : root, LMI_RUNS_CELL);
    lmi_put(&p->w.out, "</code><span class=\"ty\">");
    lmi_put_bdi(&p->w.out, at->type, TYPE);
    if (at->regions.n && at->regions.median > 0) lmi_put(&p->w.out, ", compiled");
    lmi_put(&p->w.out, "</span></th>");
}

typedef struct sums {
    double own, forward, backward;
    bool memory, health;
} sums;

static void put_layer(lmi_runs *p, const lam_recorded_place *at, const char *root, const sums *of) {
    lmi_buf *b = &p->w.out;
    put_name(p, at, root);
    put_time(p, at->forward_ns, of->forward);
    put_time(p, at->total_backward_ns, of->backward);
    begin_bar(p, (double)at->own_ns, of->own, true);
    if (at->own_ns < 0)
        lmi_put(b, "?");
    else
        lmi_put_share(b, (double)at->own_ns, of->own);
    lmi_put(b, "</td>");
    if (of->memory) {
        lmi_put(b, "<td>");
        lmi_put_iec(b, at->peak_bytes.n ? (double)at->peak_bytes.median : -1);
        lmi_put(b, "</td>");
    }
    if (of->health) {
        lmi_put(b, at->nonfinite > 0 ? "<td class=\"bad\">" : "<td>");
        lmi_put_integer(b, at->nonfinite);
        lmi_put(b, "</td>");
    }
    lmi_put(b, "</tr>\n");
}

lam_status lmi_runs_layers(lmi_runs *p, int32_t model) {
    const lam_recorded_model *m = lam_recording_model(p->w.all[0], model);
    const lam_recorded_place *at, **all = calloc((size_t)m->n_places + 1, sizeof *all);
    sums of = {0};
    int32_t n = 0;
    if (!all) return lmi_nomem(p->w.e);
    for (int32_t i = 0; (at = lam_recording_place(p->w.all[0], model, i)); i++) {
        if (!at->n_steps) continue;
        all[n++] = at;
        if (at->own_ns > 0) of.own += (double)at->own_ns;
        if (at->forward_ns.n && (double)at->forward_ns.median > of.forward)
            of.forward = (double)at->forward_ns.median;
        if (at->total_backward_ns.n && (double)at->total_backward_ns.median > of.backward)
            of.backward = (double)at->total_backward_ns.median;
        of.memory = of.memory || at->peak_bytes.n;
        of.health = of.health || at->nonfinite >= 0;
    }
    qsort((void *)all, (size_t)n, sizeof *all, lmi_by_own_time);
    const char *heads[] = {"layer",
                           "forward",
                           "backward",
                           "own share",
                           of.memory ? "peak memory" : NULL,
                           of.health ? "bad steps" : NULL};
    lmi_runs_scroll(p, "Table of layers", model);
    put_heads(p, heads, sizeof heads / sizeof *heads);
    for (int32_t i = 0; i < n && i < ROWS; i++) put_layer(p, all[i], m->name, &of);
    lmi_put(&p->w.out, "</tbody></table>");
    if (n > ROWS)
        lmi_putf(&p->w.out, "<p class=\"more\">and %d layers that take less time</p>", (int)(n - ROWS));
    if (m->compiled == 1)
        lmi_put(&p->w.out,
                "<p class=\"more\">Compiled code runs as one with all that is inside it: layers that "
                "are not listed ran there, or not at all.</p>");
    lmi_runs_scroll_end(p);
    free((void *)all);
    return LAM_OK;
}

/* -- side by side ---------------------------------------------------------------------------------------- */

static void put_process(lmi_runs *p, int32_t i, const double *most) {
    static const lam_recorded_model none = {0};
    const lam_recorded_model *m = lmi_recorded_model(&p->w, i);
    if (!m) m = &none;
    lmi_put(&p->w.out, "<tr><th scope=\"row\">");
    lmi_runs_which(p, i);
    lmi_put(&p->w.out, "</th><td>");
    lmi_put_integer(&p->w.out, m->n_steps);
    lmi_put(&p->w.out, "</td>");
    put_time(p, m->step_ns, most[0]);
    put_time(p, m->forward_ns, most[1]);
    put_time(p, m->backward_ns, most[2]);
    lmi_put(&p->w.out, "<td>");
    lmi_put_iec(&p->w.out, m->peak_bytes.n ? (double)m->peak_bytes.median : -1);
    lmi_put(&p->w.out, "</td></tr>\n");
}

static void put_processes(lmi_runs *p) {
    static const char *const heads[] = {"process", "steps", "step", "forward", "backward", "peak memory"};
    double most[3] = {0};
    for (int32_t i = 0; i < p->w.n; i++) {
        const lam_recorded_model *m = lmi_recorded_model(&p->w, i);
        if (!m) continue;
        const lam_middle of[3] = {m->step_ns, m->forward_ns, m->backward_ns};
        for (int k = 0; k < 3; k++)
            if (of[k].n && (double)of[k].median > most[k]) most[k] = (double)of[k].median;
    }
    lmi_runs_scroll(p, "Table of processes", 0);
    put_heads(p, heads, sizeof heads / sizeof *heads);
    for (int32_t i = 0; i < p->w.n; i++) put_process(p, i, most);
    lmi_put(&p->w.out, "</tbody></table>");
    lmi_runs_scroll_end(p);
}

static void put_straggler(lmi_runs *p, const lmi_straggler *s, double most) {
    put_name(p, s->place, s->model);
    lmi_put(&p->w.out, "<td>");
    lmi_runs_which(p, s->which);
    lmi_put(&p->w.out, "</td>");
    put_time(p, (lam_middle){s->slowest, 0, 1}, 0);
    put_time(p, (lam_middle){s->among, 0, 1}, 0);
    put_time(p, (lam_middle){s->slowest - s->among, 0, 1}, most);
    lmi_put(&p->w.out, "</tr>\n");
}

lam_status lmi_runs_ranks(lmi_runs *p) {
    static const char *const heads[] = {"layer", "slowest", "its time", "middle", "waited for"};
    lmi_straggler found[LMI_STRAGGLERS];
    int32_t n = 0;
    put_processes(p);
    LAM_TRY(lmi_stragglers(&p->w, found, &n));
    if (!n) return LAM_OK;
    lmi_put(&p->w.out, "<h3>Layers that are slow in one of them</h3>");
    lmi_runs_scroll(p, "Table of slow layers", 0);
    put_heads(p, heads, sizeof heads / sizeof *heads);
    for (int32_t i = 0; i < n; i++) put_straggler(p, &found[i], (double)(found[0].slowest - found[0].among));
    lmi_put(&p->w.out, "</tbody></table>");
    lmi_runs_scroll_end(p);
    return LAM_OK;
}
