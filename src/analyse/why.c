/* SPDX-License-Identifier: Apache-2.0
 *
 * A number with its formula and the values that were put in. */
#include "analyse/work.h"

static void put_cut(char *to, size_t size, const char *from) {
    size_t n = strlen(from);
    if (n >= size) n = size - 1;
    memcpy(to, from, n);
    to[n] = '\0';
}

/* Puts the facts into `formula`. */
static lam_status substitute(lam_why *out, const lmi_facts *facts, lam_error *e) {
    lmi_buf b;
    if (!out->formula) return LAM_OK;
    lmi_buf_init(&b);
    lmi_formula_show(out->formula, facts, &b);
    lam_status s = lmi_buf_status(&b, e);
    put_cut(out->substituted, sizeof out->substituted, lmi_buf_text(&b));
    lmi_buf_free(&b);
    return s;
}

/* -- facts ----------------------------------------------------------------------------------------------- */

bool lmi_names_fact(const char *formula, int32_t fact) {
    static const char inside[] = "abcdefghijklmnopqrstuvwxyz_0123456789";
    const char *name = lam_fact_name(fact);
    size_t n = strlen(name);
    for (const char *s = formula ? strstr(formula, name) : NULL; s; s = strstr(s + 1, name))
        if ((s == formula || !strchr(inside, s[-1])) && (!s[n] || !strchr(inside, s[n]))) return true;
    return false;
}

/* What a reader wants to know of any call, whatever its rule asks. */
static bool is_general(int32_t fact) {
    static const lmi_fact_id general[] = {LMI_FACT_in,     LMI_FACT_out,     LMI_FACT_batch,
                                          LMI_FACT_params, LMI_FACT_buffers, LMI_FACT_training};
    for (size_t i = 0; i < sizeof general / sizeof *general; i++)
        if ((int32_t)general[i] == fact) return true;
    return false;
}

/* Most facts serve the tables of other conventions. */
static bool is_shown(const lmi_rule *rule, int32_t fact) {
    bool shown = is_general(fact);
    for (int k = 0; rule && !shown && k < LAM_N_METRICS; k++)
        shown = lmi_names_fact(rule->formula[k], fact) || lmi_names_fact(rule->released[k], fact);
    return shown;
}

/* -- where operators are counted ------------------------------------------------------------------------- */

enum { MOST_OPS = 32 }; /* of one row that are told one by one */

/* The operators of a phase of a row that cost something. */
static const int32_t *work_of(const lam_costs *c, const lam_cost_row *r, lam_phase phase, int32_t *n) {
    int32_t at = (r->event >= 0 ? r->event : c->model->n_events) * LAM_N_PHASES + (int32_t)phase;
    *n = c->ops.start[at + 1] - c->ops.start[at];
    return c->ops.work + c->ops.start[at];
}

/* "aten::convolution 1000 + aten::add 24": those that have a part in this metric. */
static lam_status why_sum(const lam_costs *c, const int32_t *ops, int32_t n, lam_why *out, lam_error *e) {
    lmi_buf b;
    lam_count sum = lmi_exact(0);
    lmi_buf_init(&b);
    for (int32_t k = 0; k < n && k < MOST_OPS; k++) {
        lam_count each[LAM_N_METRICS];
        char value[64];
        lmi_costs_op(c, ops[k], each);
        const lam_count *v = &each[out->metric];
        sum = lam_count_add(sum, *v);
        if (v->state == LAM_EXACT && v->n == 0 && v->over == 0) continue;
        lam_text_digits(value, sizeof value, *v);
        lmi_put(&b, b.n ? " + " : "");
        lmi_put_clean(&b, c->model->ops[ops[k]].sig->name);
        lmi_putf(&b, " %s", value);
    }
    if (n > MOST_OPS) lmi_putf(&b, "%sthose of %d more operators", b.n ? " + " : "", (int)(n - MOST_OPS));
    lam_status s = lmi_buf_status(&b, e);
    if (b.n > 0) out->formula = "the sum of its operators";
    /* An operator around them knew what has no effect, or knew of a mask and not what it leaves. */
    bool other = sum.n != out->value.n || sum.over != out->value.over;
    if (lmi_is_effective(out->metric) && n <= MOST_OPS && other)
        out->formula =
            out->value.state != LAM_EXACT && sum.state == LAM_EXACT
                ? "its operators, less what the mask of an attention leaves out, which is not known"
                : "its operators, less what the causal flag or mask of an attention around them leaves out";
    put_cut(out->substituted, sizeof out->substituted, lmi_buf_text(&b));
    if (b.n >= sizeof out->substituted) memcpy(out->substituted + sizeof out->substituted - 4, "...", 4);
    lmi_buf_free(&b);
    return s;
}

static lam_status why_op(const lam_costs *c, int32_t op, lam_why *out, lam_error *e) {
    const lam_op *o = &c->model->ops[op];
    const lmi_rule *rule = lmi_rule_of_op(c->convention, o);
    lam_count n[LAM_N_METRICS];
    lmi_facts facts;
    lmi_costs_op(c, op, n);
    out->value = n[out->metric];
    out->note = o->sig->name;
    out->formula = rule ? rule->formula[out->metric] : NULL;
    lmi_facts_of_op(c->model, op, &facts);
    return substitute(out, &facts, e);
}

static lam_count of_phase(const lam_cost_row *r, lam_phase phase, lam_metric metric) {
    const lam_count *all[] = {r->metric, r->backward, r->recompute};
    return all[phase][metric];
}

/* The phase that explanation `*i` belongs to, and its number there; LAM_N_PHASES past the last one. A phase
 * in which nothing that costs ran is told of the forward alone. */
static int32_t phase_of(const lam_costs *c, const lam_cost_row *r, int32_t *i, int32_t *total) {
    int32_t at = -1;
    *total = 0;
    for (int32_t phase = 0; phase < LAM_N_PHASES; phase++) {
        int32_t n;
        work_of(c, r, (lam_phase)phase, &n);
        if (n == 0 && phase != LAM_FORWARD) continue;
        int32_t told = ((n < MOST_OPS ? n : MOST_OPS) + 1) * LAM_N_METRICS;
        if (at < 0 && *i < *total + told) {
            at = phase;
            *i -= *total;
        }
        *total += told;
    }
    return at < 0 ? LAM_N_PHASES : at;
}

/* Each phase: first each metric as a sum, then every metric of each operator, whose name is the note. */
static lam_status why_by_ops(const lam_costs *c, const lam_cost_row *r, int32_t i, lam_why *out,
                             lam_error *e) {
    int32_t n, total, asked = i, phase = phase_of(c, r, &i, &total);
    if (phase == LAM_N_PHASES)
        return lmi_fail(e, LAM_RANGE, "lam_costs_why", "there is no explanation %d; the row has %d",
                        (int)asked, (int)total);
    const int32_t *ops = work_of(c, r, (lam_phase)phase, &n);
    int32_t k = i / LAM_N_METRICS - 1;
    *out = (lam_why){.metric = (lam_metric)(i % LAM_N_METRICS), .phase = (lam_phase)phase, .op = -1};
    if (k >= 0) {
        out->op = ops[k];
        return why_op(c, ops[k], out, e);
    }
    out->value = of_phase(r, out->phase, out->metric);
    out->note = r->reason;
    if (!out->note && n == 0) out->note = "no operator that costs anything ran in its forward";
    return why_sum(c, ops, n, out, e);
}

/* -- where calls are counted ----------------------------------------------------------------------------- */

/* Why a row has no work of its own. */
static const char *why_none(const lam_costs *c, const lam_cost_row *r, const lmi_price *p) {
    if (p) return "it only calls its layers, and their work is theirs";
    if (lmi_only_elsewhere(&c->model->modules[r->module]))
        return "another thread called it, and what ran there is not seen";
    return "it was never called";
}

lam_status lam_costs_why(const lam_costs *c, int32_t row, int32_t i, lam_why *out, lam_error *e) {
    if (row < 0 || row >= c->n_rows)
        return lmi_fail(e, LAM_RANGE, "lam_costs_why", "there is no row %d; the table has %d", (int)row,
                        (int)c->n_rows);
    LAM_TRY(lmi_rf_need(c, e));
    const lam_cost_row *r = &c->rows[row];
    const lmi_price *p = r->event >= 0 ? &c->prices[r->event] : NULL;
    bool layer = p && (p->custom || (p->rule && p->rule->name)); /* told as a whole */
    if (lmi_by_ops(c) && i >= 0 && r->counted && !layer) return why_by_ops(c, r, i, out, e);
    if (i < 0 || i >= LAM_N_METRICS)
        return lmi_fail(e, LAM_RANGE, "lam_costs_why", "there is no explanation %d; a row has %d", (int)i,
                        LAM_N_METRICS);
    *out = (lam_why){.metric = (lam_metric)i, .op = -1, .value = r->metric[i], .note = r->reason};
    if (!p || !p->counted) {
        if (!out->note) out->note = why_none(c, r, p);
        return LAM_OK;
    }
    if (p->custom) out->note = "counted by a function of the caller's own";
    if (p->custom || !p->rule) return LAM_OK;
    lmi_facts facts;
    lmi_facts_of(c->model, r->event, &facts);
    out->formula = lmi_formula_used(p->rule, out->metric, c->released, &facts);
    if (!out->note) out->note = p->rule->note;
    return substitute(out, &facts, e);
}

bool lam_costs_fact(const lam_costs *c, int32_t row, int32_t i, const char **name, int64_t *value) {
    if (row < 0 || row >= c->n_rows || i < 0 || c->rows[row].event < 0) return false;
    const lmi_price *p = &c->prices[c->rows[row].event];
    lmi_facts facts;
    lmi_facts_of(c->model, c->rows[row].event, &facts);
    for (int32_t f = 0; f < LMI_N_FACTS; f++) {
        if (!facts.known[f] || !is_shown(p->custom ? NULL : p->rule, f) || i-- > 0) continue;
        *name = lam_fact_name(f);
        *value = facts.v[f];
        return true;
    }
    return false;
}
