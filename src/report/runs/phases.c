/* SPDX-License-Identifier: Apache-2.0
 *
 * The phases of a step: means that add up, as a bar and as a table. */
#include "report/runs/runs.h"

enum { TOP = 4, HEIGHT = 26 };

static const char *const colors[LAM_N_STEP_PHASES] = {
    [LAM_STEP_INPUT] = "k4",    [LAM_STEP_H2D] = "k5",       [LAM_STEP_FORWARD] = "k0",
    [LAM_STEP_BACKWARD] = "k1", [LAM_STEP_OPTIMIZER] = "k2", [LAM_STEP_COMM] = "k3",
    [LAM_STEP_OTHER] = "k8",
};

static void draw(lmi_runs *p, const lam_recorded_model *m) {
    lmi_svg s;
    double x = 0;
    lmi_svg_start(&s, &p->w.out, false, "Phases of a step");
    for (int k = 0; k < LAM_N_STEP_PHASES; k++) {
        const double wide = LMI_PAGE_PICTURE * (double)m->phases.ns[k] / (double)m->phases.whole_ns;
        if (m->phases.ns[k] <= 0) continue;
        lmi_svg_put(&s, "<path class=\"");
        lmi_svg_put(&s, colors[k]);
        LMI_DRAW(&s, "\" d=\"M~ ~h~v~h~z\"/>", x, TOP, wide, HEIGHT - TOP, -wide);
        x += wide;
    }
    lmi_svg_end(&s, (lmi_rect){0, 0, LMI_PAGE_PICTURE, HEIGHT}, false);
}

static void put_row(lmi_runs *p, const char *name, const char *color, int64_t ns, int64_t whole,
                    int64_t steps) {
    lmi_buf *b = &p->w.out;
    lmi_put(b, "<tr><th scope=\"row\">");
    if (color) lmi_putf(b, "<i class=\"g%s\"></i>", color + 1);
    lmi_putf(b, "%s</th><td>", name);
    lmi_put_ns(b, (double)ns);
    lmi_put(b, "</td><td>");
    if (ns >= 0 && whole > 0) {
        lmi_put_fixed(b, 100 * (double)ns / (double)whole, 1);
        lmi_put(b, LMI_NARROW "%");
    } else
        lmi_putc(b, '?');
    lmi_put(b, "</td><td>");
    if (ns >= 0)
        lmi_put_full(b, steps);
    else
        lmi_putc(b, '?');
    lmi_put(b, "</td></tr>\n");
}

void lmi_runs_phases(lmi_runs *p, int32_t model) {
    const lam_recorded_model *m = lam_recording_model(p->w.all[0], model);
    lmi_buf *b = &p->w.out;
    if (!m->phases.n || m->phases.whole_ns <= 0) return;
    lmi_put(b, "<h3>Phases of a step</h3><div class=\"fig\">");
    draw(p, m);
    lmi_put(b, "</div>");
    lmi_runs_scroll(p, "Table of phases", model);
    lmi_put(b,
            "<table><thead><tr><th scope=\"col\"><span>phase</span></th><th scope=\"col\"><span>mean</span>"
            "</th><th scope=\"col\"><span>share</span></th><th scope=\"col\"><span>in steps</span></th></tr>"
            "</thead><tbody>");
    for (int k = 0; k < LAM_N_STEP_PHASES; k++)
        if (lmi_phase_shown(m, (lam_step_phase)k))
            put_row(p, lam_step_phase_name((lam_step_phase)k), colors[k], m->phases.ns[k], m->phases.whole_ns,
                    m->phases.steps[k]);
    put_row(p, "step", NULL, m->phases.whole_ns, m->phases.whole_ns, m->phases.n);
    lmi_put(b, "</tbody></table>");
    lmi_runs_scroll_end(p);
    for (int k = 0; k < LAM_N_STEP_PHASES; k++)
        if (m->phases.ns[k] < 0)
            lmi_putf(b, "<p class=\"crumb\">%s is unknown, and in other: %s.</p>",
                     lam_step_phase_name((lam_step_phase)k), lmi_phase_unknown((lam_step_phase)k));
}
