/* SPDX-License-Identifier: Apache-2.0
 *
 * A number with its formula and the values that were put in. */
#include "analyse/analyse.h"

static void put_cut(char *to, size_t size, const char *from) {
    size_t n = strlen(from);
    if (n >= size) n = size - 1;
    memcpy(to, from, n);
    to[n] = '\0';
}

lam_status lam_costs_why(const lam_costs *c, int32_t row, int32_t i, lam_why *out, lam_error *e) {
    if (row < 0 || row >= c->n_rows)
        return lmi_fail(e, LAM_RANGE, "lam_costs_why", "there is no row %d; the table has %d", (int)row,
                        (int)c->n_rows);
    if (i < 0 || i >= LAM_N_METRICS)
        return lmi_fail(e, LAM_RANGE, "lam_costs_why", "there is no explanation %d; a row has %d", (int)i,
                        LAM_N_METRICS);
    const lam_cost_row *r = &c->rows[row];
    const lmi_price *p = r->event >= 0 ? &c->prices[r->event] : NULL;
    *out = (lam_why){.metric = (lam_metric)i, .value = r->metric[i], .note = r->reason};
    if (!p || !p->counted) {
        if (!out->note)
            out->note = p ? "it only calls its layers, and their work is theirs" : "it was never called";
        return LAM_OK;
    }
    if (p->custom) out->note = "counted by a function of the caller's own";
    if (p->custom || !p->rule) return LAM_OK;
    lmi_facts facts;
    lmi_facts_of(c->model, r->event, &facts);
    out->formula = lmi_formula_used(p->rule, out->metric, c->released, &facts);
    if (!out->note) out->note = p->rule->note;
    if (!out->formula) return LAM_OK;
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_formula_show(out->formula, &facts, &b);
    lam_status s = lmi_buf_status(&b, e);
    put_cut(out->substituted, sizeof out->substituted, lmi_buf_text(&b));
    lmi_buf_free(&b);
    return s;
}

bool lam_costs_fact(const lam_costs *c, int32_t row, int32_t i, const char **name, int64_t *value) {
    if (row < 0 || row >= c->n_rows || i < 0 || c->rows[row].event < 0) return false;
    lmi_facts facts;
    lmi_facts_of(c->model, c->rows[row].event, &facts);
    for (int32_t f = 0; f < LMI_N_FACTS; f++) {
        if (!facts.known[f] || i-- > 0) continue;
        *name = lam_fact_name(f);
        *value = facts.v[f];
        return true;
    }
    return false;
}
