/* SPDX-License-Identifier: Apache-2.0
 *
 * A difference as JSON (docs/json.md); this file names its fields. */
#include "report/diff/diff.h"

#include "report/tell/tell.h"

typedef struct telling {
    const lam_diff *d;
    lmi_teller t;
    lmi_buf text;
} telling;

static void tell_tensors(telling *w, const char *name, const char *tensors) {
    lmi_buf_clear(&w->text);
    if (tensors) lmi_put_tensors(&w->text, tensors);
    tell_text(&w->t, name, tensors && *tensors ? lmi_buf_text(&w->text) : NULL);
}

static void tell_side(telling *w, const char *name, const lmi_diff_side *s) {
    const lam_recorded_model *m = lmi_diff_recorded(s);
    tell_object(&w->t, name);
    tell_text(&w->t, "name", s->name);
    tell_text(&w->t, "kind", s->kind);
    tell_text(&w->t, "type", s->o.name);
    tell_text(&w->t, "convention", s->o.convention);
    tell_text(&w->t, "mode", s->o.mode);
    tell_tensors(w, "inputs", s->o.at[0].in);
    tell_int(&w->t, "modules", s->o.n);
    if (m) tell_int(&w->t, "steps", m->n_steps);
    tell_end(&w->t);
}

/* -- numbers --------------------------------------------------------------------------------------------- */

static void tell_delta(telling *w, lmi_delta d) {
    lmi_teller *t = &w->t;
    lmi_int128 size = d.n < 0 ? -d.n : d.n;
    tell_object(t, "difference");
    if (d.how == LMI_DELTA_UNKNOWN)
        tell_none(t, "value");
    else {
        tell_name(t, "value");
        if (d.n < 0) lmi_putc(t->json, '-');
        lmi_put_plain(t->json, lmi_of_wide(size));
    }
    tell_text(t, "state", lmi_certainty_name[d.how]);
    tell_end(t);
}

static void tell_number(telling *w, const char *name, lam_count was, lam_count now) {
    double percent;
    tell_object(&w->t, name);
    lmi_tell_count(&w->t, "before", was);
    lmi_tell_count(&w->t, "after", now);
    tell_delta(w, lmi_delta_of(was, now));
    if (lmi_delta_percent(was, now, &percent))
        lmi_tell_digits(&w->t, "percent", percent);
    else
        tell_none(&w->t, "percent");
}

static void tell_spread(telling *w, const char *name, int side, lmi_figure k) {
    int64_t spread = lmi_diff_whole_spread(&w->d->side[side], k);
    if (spread >= 0) tell_int(&w->t, name, spread);
}

static void tell_totals(telling *w) {
    tell_object(&w->t, "totals");
    for (int i = 0; i < LMI_N_FIGURES; i++) {
        lmi_figure k = (lmi_figure)i;
        if (!w->d->whole[i]) continue;
        tell_number(w, lmi_figures[k].name, lmi_diff_whole(&w->d->side[0], k),
                    lmi_diff_whole(&w->d->side[1], k));
        tell_spread(w, "before_deviation", 0, k);
        tell_spread(w, "after_deviation", 1, k);
        tell_end(&w->t);
    }
    tell_end(&w->t);
}

/* The mean phases of a step, if both have them. */
static void tell_phases(telling *w) {
    const lam_recorded_model *was = lmi_diff_recorded(&w->d->side[0]),
                             *now = lmi_diff_recorded(&w->d->side[1]);
    if (!was || !now || !was->phases.n || !now->phases.n) return;
    tell_object(&w->t, "phases");
    for (int k = 0; k <= LAM_N_STEP_PHASES; k++) {
        const bool whole = k == LAM_N_STEP_PHASES;
        tell_number(w, whole ? "step" : lam_step_phase_name((lam_step_phase)k),
                    lmi_count_of(whole ? was->phases.whole_ns : was->phases.ns[k]),
                    lmi_count_of(whole ? now->phases.whole_ns : now->phases.ns[k]));
        tell_end(&w->t);
    }
    tell_end(&w->t);
}

/* -- modules --------------------------------------------------------------------------------------------- */

static void tell_path(telling *w, const char *name, int side, int32_t place) {
    lmi_buf_clear(&w->text);
    bool there = lmi_diff_at(w->d, side, place) >= 0;
    if (there) lmi_diff_path(w->d, side, place, &w->text);
    tell_text(&w->t, name, there ? lmi_buf_text(&w->text) : NULL);
}

/* Writes the attributes of the module itself that both sides have and that differ. */
static void tell_attributes(telling *w, int32_t place) {
    const lmi_outline_place *was = lmi_diff_outlined(w->d, 0, place),
                            *now = lmi_diff_outlined(w->d, 1, place);
    lam_attr changed[2];
    tell_object(&w->t, "attributes");
    for (int32_t i = 0; was && now && lmi_changed_attr(was, now, i, changed); i++) {
        tell_object(&w->t, changed[1].name);
        lmi_tell_value(&w->t, "before", &changed[0].value);
        lmi_tell_value(&w->t, "after", &changed[1].value);
        tell_end(&w->t);
    }
    tell_end(&w->t);
}

static void tell_module(telling *w, const lmi_diff_line *l) {
    static const char *const names[2][4] = {{"before_path", "before_type", "before_inputs", "before_outputs"},
                                            {"path", "type", "inputs", "outputs"}};
    lmi_putc(w->t.json, '\n');
    tell_object(&w->t, NULL);
    for (int side = 1; side >= 0; side--) {
        const lmi_outline_place *p = lmi_diff_outlined(w->d, side, l->place);
        tell_path(w, names[side][0], side, l->place);
        tell_text(&w->t, names[side][1], p ? p->type : NULL);
        tell_tensors(w, names[side][2], p ? p->in : NULL);
        tell_tensors(w, names[side][3], p ? p->out : NULL);
    }
    tell_attributes(w, l->place);
    tell_int(&w->t, "modules", l->modules);
    tell_truth(&w->t, "whole", l->whole);
    tell_object(&w->t, "numbers");
    for (int k = 0; k < LMI_N_FIGURES; k++) {
        if (!w->d->by_place[k]) continue;
        tell_number(w, lmi_figures[k].name, l->was[k], l->now[k]);
        tell_end(&w->t);
    }
    tell_end(&w->t);
    tell_end(&w->t);
}

static void tell_modules(telling *w, const char *name, const lmi_diff_lines *l, lmi_change change) {
    tell_list(&w->t, name);
    for (size_t i = 0; i < l->at.n; i++) {
        const lmi_diff_line *line = lmi_vec_at(&l->at, i);
        if (line->change == change) tell_module(w, line);
    }
    tell_list_end(&w->t);
}

lam_status lmi_diff_json(const lam_diff *d, const lmi_diff_lines *l, lam_sink to, lam_error *e) {
    lmi_buf out;
    lmi_buf_init(&out);
    telling w = {.d = d, .t = lmi_tell_json(&out)};
    lmi_buf_init(&w.text);
    lmi_tell_document(&w.t, "diff", 1);
    tell_side(&w, "before", &d->side[0]);
    tell_side(&w, "after", &d->side[1]);
    lmi_tell_sentences(&w.t, "not_compared", d->n_said, d->said);
    lmi_tell_sentences(&w.t, "explained", d->explained != NULL, &d->explained);
    tell_totals(&w);
    tell_phases(&w);
    tell_text(&w.t, "by", l->by == LMI_N_FIGURES ? NULL : lmi_figures[l->by].name);
    tell_modules(&w, "added", l, LMI_ADDED);
    tell_modules(&w, "removed", l, LMI_REMOVED);
    tell_modules(&w, "changed", l, LMI_CHANGED);
    tell_modules(&w, "renamed", l, LMI_RENAMED);
    tell_int(&w.t, "equal", d->n[LMI_SAME]);
    tell_end(&w.t);
    lmi_putc(&out, '\n');
    lam_status s = lmi_buf_status(&w.text, e);
    if (s == LAM_OK) s = lmi_buf_flush(&out, to, e);
    lmi_buf_free(&w.text);
    lmi_buf_free(&out);
    return s;
}
