/* SPDX-License-Identifier: Apache-2.0
 *
 * Times in nanoseconds: of rows and runs, and the speeds of rows. */
#include "analyse/run/times.h"

#include "report/tell/tell.h"

static void tell_phases(lmi_teller *t, const lam_time *x) {
    for (int p = 0; p < LAM_N_PHASES; p++) {
        tell_record(t, lam_phase_name((lam_phase)p));
        tell_known(t, "total", x->total[p]);
        tell_known(t, "self", x->self[p]);
        tell_end(t);
    }
}

void lmi_time_fields(lmi_teller *t, const lam_costs *c, int32_t row) {
    lam_time x;
    if (!lam_costs_time(c, row, &x)) {
        tell_none(t, "time");
        return;
    }
    tell_record(t, "time");
    tell_phases(t, &x);
    if (lam_costs_device_time(c, row, &x)) {
        tell_record(t, "device");
        tell_phases(t, &x);
        tell_end(t);
    } else {
        tell_absent(t, "device");
    }
    tell_end(t);
}

static void tell_spread(lmi_teller *t, const char *name, bool known, const lam_spread *s) {
    if (!known) {
        tell_none(t, name);
        return;
    }
    tell_record(t, name);
    tell_int(t, "n", s->n);
    tell_int(t, "median", s->median);
    tell_int(t, "deviation", s->deviation);
    tell_int(t, "least", s->least);
    tell_int(t, "most", s->most);
    tell_int(t, "most_run", s->most_run);
    tell_end(t);
}

/* -- parts that a report has in its rows, or not at all -------------------------------------------------- */

/* Writes the k-th call at a place; returns false if no run has it. */
static bool tell_layer(lmi_teller *t, const lam_times *x, int32_t place, int32_t k) {
    static const char *const names[2 * LAM_N_PHASES] = {"forward",       "forward_self", "backward",
                                                        "backward_self", "recompute",    "recompute_self"};
    lam_spread s[2 * LAM_N_PHASES];
    bool known[2 * LAM_N_PHASES], any = false;
    for (int i = 0; i < 2 * LAM_N_PHASES; i++) {
        known[i] = lam_times_place(x, place, k, (lam_phase)(i / 2), i % 2 == 0, &s[i]);
        any = any || known[i];
    }
    if (!any) return false;
    tell_object(t, NULL);
    tell_text(t, "path", lam_model_place(x->m, place)->path);
    tell_int(t, "call", k);
    for (int i = 0; i < 2 * LAM_N_PHASES; i++) tell_spread(t, names[i], known[i], &s[i]);
    tell_end(t);
    return true;
}

static void tell_layers(lmi_teller *t, const lam_times *x) {
    tell_list(t, "layers");
    for (int32_t place = 0; place < x->m->n_places; place++)
        for (int32_t k = 0; tell_layer(t, x, place, k);) k++;
    tell_list_end(t);
}

static void tell_operators(lmi_teller *t, const lam_times *x) {
    lam_op_time o;
    tell_list(t, "operators");
    for (int32_t i = 0; lam_times_op(x, i, &o); i++) {
        tell_record(t, NULL);
        tell_text(t, "name", o.name);
        tell_text(t, "phase", lam_phase_name(o.phase));
        tell_truth(t, "node", o.node);
        tell_int(t, "n", o.n);
        tell_int(t, "total", o.total);
        tell_int(t, "self", o.self);
        tell_end(t);
    }
    tell_list_end(t);
}

/* -- all runs -------------------------------------------------------------------------------------------- */

static void tell_outliers(lmi_teller *t, const lam_times *x) {
    lam_outlier o;
    tell_list(t, "outliers");
    for (int32_t i = 0; lam_times_outlier(x, i, &o); i++) {
        tell_object(t, NULL);
        tell_int(t, "run", o.run);
        tell_known(t, "whole", o.whole);
        tell_known(t, "median", o.median);
        tell_known(t, "late", o.late);
        tell_text(t, "path", o.place < 0 ? NULL : lam_model_place(x->m, o.place)->path);
        tell_end(t);
    }
    tell_list_end(t);
}

/* The times that rows show: of one run, or of all runs together. */
static void tell_shown(lmi_teller *t, const lam_costs *c, const lam_times *x) {
    if (lmi_times_are_medians(c)) return;
    tell_object(t, "shown");
    tell_known(t, "run", lmi_shown_run(c));
    for (int p = 0; p < LAM_N_TIME_PARTS; p++)
        tell_known(t, lmi_time_part_name((lam_time_part)p), lmi_time_part(c, x, (lam_time_part)p));
    tell_end(t);
}

static void tell_runs(lmi_teller *t, const lam_costs *c, const lam_times *x) {
    lam_spread s;
    for (int p = 0; p < LAM_N_TIME_PARTS; p++)
        tell_spread(t, lmi_time_part_name((lam_time_part)p), lam_times_part(x, (lam_time_part)p, &s), &s);
    tell_outliers(t, x);
    if (t->brief) {
        tell_shown(t, c, x);
        return;
    }
    tell_layers(t, x);
    tell_operators(t, x);
}

void lmi_times_fields(lmi_teller *t, const char *name, const lam_costs *c) {
    const lam_times *host = lam_costs_times(c), *device = lam_costs_device_times(c);
    if (!host) {
        tell_absent(t, name);
        return;
    }
    tell_object(t, name);
    tell_int(t, "runs", lam_times_n_runs(host));
    if (t->brief) tell_truth(t, "same_run", !c->model->timed_by);
    tell_runs(t, c, host);
    if (device) {
        tell_object(t, "device");
        if (!t->brief) tell_int(t, "runs", lam_times_n_runs(device));
        tell_runs(t, c, device);
        tell_end(t);
    } else {
        tell_absent(t, "device");
    }
    tell_end(t);
}

/* -- speeds ---------------------------------------------------------------------------------------------- */

void lam_speeds_tell(const lam_costs *c, lam_peak peak, bool inside, lam_receiver to) {
    lmi_teller t = lmi_tell_to(to);
    lam_speed s;
    peak = lam_costs_peak(c, peak);
    tell_list(&t, NULL);
    for (int32_t i = 0; i < lam_costs_n_rows(c) * LAM_N_PHASES; i++) {
        int32_t row = i / LAM_N_PHASES;
        lam_phase phase = (lam_phase)(i % LAM_N_PHASES);
        if (!(inside ? lam_costs_speed_inside : lam_costs_speed)(c, row, phase, &peak, &s)) continue;
        tell_record(&t, NULL);
        tell_text(&t, "path", lam_model_place(c->model, lam_costs_row(c, row)->place)->path);
        tell_text(&t, "phase", lam_phase_name(phase));
        tell_int(&t, "ns", s.ns);
        tell_known_real(&t, "flops", s.flops);
        tell_known_real(&t, "bytes", s.bytes);
        tell_known_real(&t, "intensity", s.intensity);
        tell_text(&t, "bound", lam_bound_name(s.bound));
        tell_known_real(&t, "share", s.share);
        tell_end(&t);
    }
    tell_list_end(&t);
}
