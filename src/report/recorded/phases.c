/* SPDX-License-Identifier: Apache-2.0
 *
 * The phases of a step: which one stands out, and all as a table of means. */
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

/* -- what stands out ------------------------------------------------------------------------------------- */

enum { LEAST_STEPS = 20, WAITS_PERCENT = 10 };

/* A phase that should take little of a step, and from which share of it on it stands out. */
static const struct expected {
    lam_step_phase phase;
    double percent;
    const char *reason, *next;
} EXPECTED[] = {
    {LAM_STEP_INPUT, 10, "the loop waits for its DataLoader",
     "Give the DataLoader more num_workers, do less for each sample, or read from faster storage."},
    {LAM_STEP_OPTIMIZER, 30, "it is long beside the forward and the backward",
     "Try fused=True of torch's optimizers, or a larger batch."},
};

const char *lmi_standout_next(lam_step_phase phase) {
    size_t i = 0;
    while (EXPECTED[i].phase != phase) i++; /* there is one for it */
    return EXPECTED[i].next;
}

lmi_standout lmi_standout_of(const lam_recorded_model *m) {
    lmi_standout most = {.kind = NULL};
    if (m->phases.n < LEAST_STEPS || m->phases.whole_ns <= 0) return most;
    bool known = true;
    for (size_t i = 0; i < sizeof EXPECTED / sizeof *EXPECTED; i++) {
        const struct expected *x = &EXPECTED[i];
        const int64_t ns = m->phases.ns[x->phase];
        const double percent = 100 * (double)ns / (double)m->phases.whole_ns;
        if (ns < 0) known = false;
        if (ns >= 0 && percent >= x->percent && percent > most.percent)
            most = (lmi_standout){.kind = lam_step_phase_name(x->phase),
                                  .percent = percent,
                                  .reason = x->reason,
                                  .next = x->next};
    }
    const double waits = 100 * (double)m->phases.processor_ns / (double)m->phases.whole_ns;
    if (waits >= WAITS_PERCENT && waits > most.percent)
        most =
            (lmi_standout){.kind = "processor",
                           .percent = waits,
                           .reason = "other threads or programs use them",
                           .next = "Run fewer threads (OMP_NUM_THREADS), DataLoader workers or programs than "
                                   "there are processors; a container's limit is in cpu.max."};
    if (!most.kind && known) most.kind = "nothing";
    return most;
}

const char *lmi_standout_what(const lmi_standout *x) {
    return strcmp(x->kind, "processor") == 0 ? "waiting for a processor" : x->kind;
}

static void put_standout(lmi_buf *b, const lmi_standout *most) {
    if (!most->kind) return;
    if (!most->next) {
        lmi_put(b, "no phase of a step stands out\n");
        return;
    }
    const bool slower = strcmp(most->kind, "slower") == 0;
    lmi_putf(b, "! %s ", slower ? "steps became" : lmi_standout_what(most));
    lmi_put(b, slower ? "" : "takes ");
    lmi_put_fixed(b, most->percent, 1);
    lmi_put(b, slower ? "% slower" : "% of a step: ");
    if (slower)
        lmi_put_slower(b, most);
    else
        lmi_putf(b, "%s. %s", most->reason, most->next);
    lmi_putc(b, '\n');
}

/* -- the table ------------------------------------------------------------------------------------------- */

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

lam_status lmi_recorded_phases(lmi_recorded *w, int32_t model) {
    const lam_recorded_model *m = lam_recording_model(w->all[0], model);
    lmi_standout most;
    if (!m->phases.n) return LAM_OK;
    LAM_TRY(lmi_recorded_standout(w->all[0], model, &most, w->e));
    lmi_sheet t;
    const size_t before = w->out.n;
    put_standout(&w->out, &most);
    lmi_recorded_wrap(w, before);
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
