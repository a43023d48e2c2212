/* SPDX-License-Identifier: Apache-2.0
 *
 * The costs of a model under a convention: sums, rows and the reasons for their numbers. */
#include "analyse/cost/numbers.h"
#include "report/tell/tell.h"

/* -- rows ---------------------------------------------------------------------------------------------- */

static lam_status tell_rows(lmi_teller *t, const lam_costs *c, lam_error *e) {
    lmi_rows rows;
    lmi_flat *flat;
    LAM_TRY(lmi_flat_new(&flat, LMI_IN_PYTHON, e));
    lmi_rows_of(&rows, c);
    tell_list(t, NULL);
    for (int32_t i = 0; i < lam_costs_n_rows(c) && !t->stopped; i++) {
        lmi_teller row = lmi_tell_to(lmi_flat_row(flat));
        lmi_row_fields(&row, &rows, i);
        lmi_flat_fields(t, flat);
    }
    tell_list_end(t);
    lam_status s = lmi_flat_status(flat, e);
    lmi_flat_free(flat);
    return s;
}

/* -- sums, and why they are not complete ----------------------------------------------------------------- */

static void tell_totals(lmi_teller *t, const lam_costs *c, lam_phase phase) {
    lam_count n[LAM_N_METRICS];
    for (int i = 0; i < LAM_N_METRICS; i++) n[i] = lam_costs_phase_total(c, phase, (lam_metric)i);
    tell_object(t, NULL);
    lmi_metric_fields(t, c, n);
    tell_end(t);
}

static void tell_params(lmi_teller *t, const lam_costs *c) {
    lam_param_totals p = lam_costs_params(c);
    tell_object(t, NULL);
#define OWNED(member, name, when, otherwise, csv, form) lmi_tell_count(t, #member, p.member);
#include "report/numbers/row.def"
    lmi_tell_count(t, "in_rows", p.in_rows);
    tell_end(t);
}

void lmi_unruled_fields(lmi_teller *t, const char *name, const lam_costs *c) {
    const char *type;
    int32_t calls;
    tell_list(t, name);
    for (int32_t i = 0; (type = lam_costs_unruled(c, i, &calls)) != NULL; i++) {
        tell_record(t, NULL);
        tell_text(t, "type", type);
        tell_int(t, "calls", calls);
        if (!t->brief) tell_text(t, "path", lam_costs_unruled_path(c, i));
        tell_end(t);
    }
    tell_list_end(t);
}

void lmi_unruled_ops_fields(lmi_teller *t, const char *name, const lam_costs *c) {
    const char *op;
    int32_t runs;
    tell_list(t, name);
    for (int32_t i = 0; (op = lam_costs_unruled_op(c, i, &runs)) != NULL; i++) {
        tell_record(t, NULL);
        tell_text(t, "name", op);
        tell_int(t, "runs", runs);
        tell_end(t);
    }
    tell_list_end(t);
}

void lmi_growth_fields(lmi_teller *t, const char *name, const lam_costs *c) {
    const lam_growth *g;
    tell_list(t, name);
    for (int32_t i = 0; (g = lam_costs_growth(c, i)) != NULL; i++) {
        tell_object(t, NULL);
        tell_text(t, "size", g->size);
        tell_known(t, "value", g->value);
        for (int m = 0; m < LAM_N_METRICS; m++) {
            const bool linear = g->metric[m].how == LAM_GROWS_LINEAR;
            if (!lmi_has_metric(c, (lam_metric)m)) continue;
            tell_object(t, lam_metric_name((lam_metric)m));
            tell_text(t, "grows", lam_grows_name(g->metric[m].how));
            if (linear)
                tell_int(t, "each", g->metric[m].each);
            else
                tell_none(t, "each");
            if (linear)
                tell_int(t, "fixed", g->metric[m].fixed);
            else
                tell_none(t, "fixed");
            tell_end(t);
        }
        tell_end(t);
    }
    tell_list_end(t);
}

void lmi_gaps_fields(lmi_teller *t, const char *name, const lam_costs *c) {
    const char *gap;
    tell_list(t, name);
    for (int32_t i = 0; (gap = lam_costs_gap(c, i)) != NULL; i++) tell_text(t, NULL, gap);
    tell_list_end(t);
}

/* -- why ------------------------------------------------------------------------------------------------- */

static void tell_why(lmi_teller *t, const lam_costs *c, int32_t row) {
    lam_why w;
    tell_list(t, NULL);
    for (int32_t i = 0; lam_costs_why(c, row, i, &w, NULL) == LAM_OK; i++) {
        tell_object(t, NULL);
        tell_text(t, "metric", lam_metric_name(w.metric));
        tell_text(t, "phase", lam_phase_name(w.phase));
        tell_text(t, "formula", w.formula);
        tell_text(t, "substituted", w.substituted);
        lmi_tell_count(t, "value", w.value);
        tell_text(t, "note", w.note);
        tell_text(t, "words", w.words);
        tell_text(t, "operator", w.op < 0 ? NULL : w.note);
        tell_int(t, "times", w.n_equal);
        tell_list(t, "facts");
        for (int32_t k = 0; k < w.n_facts; k++) {
            tell_record(t, NULL);
            tell_text(t, "name", w.facts[k].name);
            tell_int(t, "value", w.facts[k].value);
            tell_text(t, "meaning", w.facts[k].meaning);
            tell_end(t);
        }
        tell_list_end(t);
        tell_end(t);
    }
    tell_list_end(t);
}

static void tell_facts(lmi_teller *t, const lam_costs *c, int32_t row) {
    const char *name;
    int64_t value;
    tell_object(t, NULL);
    for (int32_t i = 0; lam_costs_fact(c, row, i, &name, &value); i++) tell_int(t, name, value);
    tell_end(t);
}

static lam_status tell_operator(lmi_teller *t, const lam_costs *c, int32_t op, lam_error *e) {
    lam_count n[LAM_N_METRICS];
    bool counted;
    LAM_TRY(lam_costs_op(c, op, n, &counted, e));
    tell_object(t, NULL);
    tell_truth(t, "counted", counted);
    lmi_metric_fields(t, c, n);
    tell_end(t);
    return LAM_OK;
}

/* -- all ------------------------------------------------------------------------------------------------- */

static lam_status check(const lam_costs *c, lam_costs_part part, int32_t i, lam_error *e) {
    int32_t n = lam_costs_n_rows(c);
    if (part == LAM_COSTS_TOTALS && (i < 0 || i >= LAM_N_PHASES))
        return lmi_fail(e, LAM_RANGE, NULL, "there is no phase %d; there are %d", (int)i, LAM_N_PHASES);
    if ((part == LAM_COSTS_WHY || part == LAM_COSTS_FACTS) && (i < 0 || i >= n))
        return lmi_fail(e, LAM_RANGE, NULL, "there is no row %d; there are %d", (int)i, (int)n);
    return part == LAM_COSTS_ROWS ? lmi_rows_need(c, e) : LAM_OK;
}

lam_status lam_costs_tell(lam_costs *c, lam_costs_part part, int32_t i, lam_receiver to, lam_error *e) {
    lmi_teller t = lmi_tell_to(to);
    if (part != LAM_COSTS_TOTALS && part != LAM_COSTS_OPERATOR && part != LAM_COSTS_GROWTH)
        LAM_TRY(lam_costs_settle(c, e));
    LAM_TRY(check(c, part, i, e));
    switch (part) {
    case LAM_COSTS_ROWS: return tell_rows(&t, c, e);
    case LAM_COSTS_TOTALS: tell_totals(&t, c, (lam_phase)i); break;
    case LAM_COSTS_PARAMS: tell_params(&t, c); break;
    case LAM_COSTS_UNRULED: lmi_unruled_fields(&t, NULL, c); break;
    case LAM_COSTS_UNRULED_OPS: lmi_unruled_ops_fields(&t, NULL, c); break;
    case LAM_COSTS_GAPS: lmi_gaps_fields(&t, NULL, c); break;
    case LAM_COSTS_GROWTH: lmi_growth_fields(&t, NULL, c); break;
    case LAM_COSTS_TIMES: lmi_times_fields(&t, NULL, c); break;
    case LAM_COSTS_WHY: tell_why(&t, c, i); break;
    case LAM_COSTS_FACTS: tell_facts(&t, c, i); break;
    case LAM_COSTS_OPERATOR: return tell_operator(&t, c, i, e);
    }
    return LAM_OK;
}
