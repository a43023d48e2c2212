/* SPDX-License-Identifier: Apache-2.0
 *
 * The phases of a step, as a table of means. */
#include "report/recorded/recorded.h"

const char *lmi_phase_unknown(lam_step_phase phase) {
    static const char *const why[LAM_N_STEP_PHASES] = {
        [LAM_STEP_INPUT] = "no DataLoader of torch was seen",
        [LAM_STEP_H2D] = "copies to a GPU are not told apart",
        [LAM_STEP_BACKWARD] = "the nodes of backward passes can't be seen",
        [LAM_STEP_OPTIMIZER] = "no torch.optim.Optimizer was seen outside compiled code",
        [LAM_STEP_COMM] = "no collective of torch was seen",
    };
    return why[phase];
}

bool lmi_phase_shown(const lam_recorded_model *m, lam_step_phase phase) {
    return m->phases.n && (m->phases.ns[phase] != 0 || phase == LAM_STEP_OTHER);
}

static void put_share(lmi_buf *b, int64_t ns, int64_t whole) {
    if (ns < 0 || whole <= 0) {
        lmi_putc(b, '?');
        return;
    }
    lmi_put_fixed(b, 100 * (double)ns / (double)whole, 1);
    lmi_putc(b, '%');
}

static void put_row(lmi_sheet *t, const lam_recorded_model *m, const char *name, bool share) {
    lmi_text_cell(t, name);
    for (int k = 0; k <= LAM_N_STEP_PHASES; k++) {
        const bool whole = k == LAM_N_STEP_PHASES;
        if (!whole && !lmi_phase_shown(m, (lam_step_phase)k)) continue;
        const int64_t ns = whole ? m->phases.whole_ns : m->phases.ns[k];
        if (share)
            put_share(t->cell, ns, m->phases.whole_ns);
        else
            lmi_put_time(t->cell, ns);
        lmi_end_cell(t);
    }
}

/* "optimizer in 30 of 120 steps", as where gradients are accumulated. */
static void put_some(lmi_buf *b, const lam_recorded_model *m, lam_step_phase phase) {
    const int64_t n = m->phases.steps[phase];
    if (n <= 0 || n == m->phases.n || phase == LAM_STEP_OTHER) return;
    lmi_putf(b, "%s in ", lam_step_phase_name(phase));
    lmi_put_integer(b, n);
    lmi_put(b, " of ");
    lmi_put_integer(b, m->phases.n);
    lmi_put(b, m->phases.n == 1 ? " step\n" : " steps\n");
}

/* The lines above the table have forward and backward, so these may be left out first. */
static int rank_of(int phase) { return phase == LAM_STEP_FORWARD || phase == LAM_STEP_BACKWARD; }

lam_status lmi_recorded_phases(lmi_recorded *w, const lam_recorded_model *m) {
    if (!m->phases.n) return LAM_OK;
    lmi_sheet t;
    lmi_putc(&w->out, '\n');
    lmi_recorded_sheet(&t, w, &(lmi_head){"a step", LMI_LEFT, 0}, 1);
    for (int k = 0; k < LAM_N_STEP_PHASES; k++)
        if (lmi_phase_shown(m, (lam_step_phase)k))
            lmi_sheet_column(&t, &(lmi_head){lam_step_phase_name((lam_step_phase)k), LMI_RIGHT, rank_of(k)});
    lmi_sheet_column(&t, &(lmi_head){"step", LMI_RIGHT, 0});
    put_row(&t, m, "mean", false);
    put_row(&t, m, "share", true);
    LAM_TRY(lmi_recorded_sheet_end(w, &t));
    const size_t from = w->out.n;
    for (int k = 0; k < LAM_N_STEP_PHASES; k++) {
        if (m->phases.ns[k] < 0)
            lmi_putf(&w->out, "%s unknown, and in other: %s\n", lam_step_phase_name((lam_step_phase)k),
                     lmi_phase_unknown((lam_step_phase)k));
        put_some(&w->out, m, (lam_step_phase)k);
    }
    lmi_recorded_wrap(w, from);
    return LAM_OK;
}
