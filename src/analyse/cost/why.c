/* SPDX-License-Identifier: Apache-2.0
 *
 * A number with its formula and the substituted values. */
#include "analyse/cost/work.h"

#include <stdlib.h>

static void put_cut(char *to, size_t size, const char *from) {
    size_t n = strlen(from);
    if (n >= size) n = size - 1;
    memcpy(to, from, n);
    to[n] = '\0';
}

/* Puts the facts into `formula`. */
static lam_status substitute(lam_why *out, const lmi_facts *facts, lam_error *e) {
    bool used[LMI_N_FACTS] = {false};
    lmi_buf b;
    if (!out->formula) return LAM_OK;
    lmi_buf_init(&b);
    lmi_formula_show(out->formula, facts, &b, used);
    for (int32_t i = 0; i < LMI_N_FACTS && out->n_facts < LAM_WHY_FACTS; i++) {
        if (!used[i] || !facts->known[i]) continue;
        out->facts[out->n_facts].name = lam_fact_name(i);
        out->facts[out->n_facts].meaning = lam_fact_meaning(i);
        out->facts[out->n_facts++].value = facts->v[i];
    }
    lam_status s = lmi_buf_status(&b, e);
    put_cut(out->substituted, sizeof out->substituted, lmi_buf_text(&b));
    lmi_buf_free(&b);
    return s;
}

/* Describes the rule's kind; NULL for a user-defined rule, whose kind is unknown. */
static const char *words_of(const lmi_rule *rule) {
    return rule && !rule->name ? lmi_kind_doc(rule->kind) : NULL;
}

/* -- facts ----------------------------------------------------------------------------------------------- */

/* True for a fact of general interest, which is shown for every rule. */
static bool is_general(int32_t fact) {
    static const lmi_fact_id general[] = {LMI_FACT_in,     LMI_FACT_out,     LMI_FACT_batch,
                                          LMI_FACT_params, LMI_FACT_buffers, LMI_FACT_training};
    for (size_t i = 0; i < sizeof general / sizeof *general; i++)
        if ((int32_t)general[i] == fact) return true;
    return false;
}

/* True for general facts and those that the rule names; most others serve other conventions' tables. */
static bool is_shown(const lmi_rule *rule, int32_t fact) {
    bool shown = is_general(fact);
    for (int k = 0; rule && !shown && k < LAM_N_METRICS; k++)
        shown = lmi_names_fact(rule->formula[k], fact) || lmi_names_fact(rule->released[k], fact);
    return shown;
}

/* -- conventions that count operators -------------------------------------------------------------------- */

enum {
    MOST_OPS = 32,
    MOST_MET = 128
}; /* most different operators of a row that are explained one by one; most signatures remembered */

/* Operators with equal names, costs and arguments: the first of them, and their number. */
typedef struct alike {
    int32_t op, n;
    lam_count each[LAM_N_METRICS];
} alike;
typedef struct work {
    int32_t n, more; /* more: the number of operators that were left out */
    alike at[MOST_OPS];
} work;

/* The groups of signatures that were already seen, so that an operator with an equal signature is not
 * compared again (a million equal operators: bench row "operators of a report's file"). */
typedef struct met {
    int32_t n;
    const lam_op_sig *sig[MOST_MET];
    int32_t at[MOST_MET]; /* of `work`; -1: among `more` */
} met;

static bool find_met(const met *t, const lam_op_sig *sig, int32_t *at) {
    for (int32_t i = 0; i < t->n; i++)
        if (t->sig[i] == sig) {
            *at = t->at[i];
            return true;
        }
    return false;
}

static bool same_numbers(const lam_count *a, const lam_count *b) {
    for (int k = 0; k < LAM_N_METRICS; k++)
        if (a[k].n != b[k].n || a[k].over != b[k].over || a[k].state != b[k].state) return false;
    return true;
}

/* True if one formula with the same values counts both operators: other differences of their arguments, such
 * as strides, do not matter to a reader. */
static bool same_formula(const lam_costs *c, int32_t a, int32_t b) {
    const int32_t ops[] = {a, b};
    lmi_buf text[2];
    for (int i = 0; i < 2; i++) {
        const lmi_rule *rule = lmi_rule_of_op(c->convention, &c->model->ops[ops[i]]);
        lmi_facts facts;
        lmi_buf_init(&text[i]);
        lmi_facts_of_op(c->model, ops[i], &facts);
        for (int k = LAM_MACS; rule && k <= LAM_FLOPS; k++) {
            if (rule->formula[k]) lmi_formula_show(rule->formula[k], &facts, &text[i], NULL);
            lmi_putc(&text[i], '|');
        }
    }
    bool same = !text[0].bad && !text[1].bad && strcmp(lmi_buf_text(&text[0]), lmi_buf_text(&text[1])) == 0;
    lmi_buf_free(&text[0]);
    lmi_buf_free(&text[1]);
    return same;
}

static bool are_alike(const lam_costs *c, const alike *a, const alike *b) {
    const lam_op_sig *x = c->model->ops[a->op].sig, *y = c->model->ops[b->op].sig;
    if (!same_numbers(a->each, b->each)) return false;
    return x == y || (strcmp(x->name, y->name) == 0 && same_formula(c, a->op, b->op));
}

/* The operators of a phase of a row that cost something. */
static void work_of(const lam_costs *c, const lam_cost_row *r, lam_phase phase, work *out) {
    int32_t at = (r->event >= 0 ? r->event : c->model->n_events) * LAM_N_PHASES + (int32_t)phase;
    met known = {0};
    out->n = out->more = 0;
    for (int32_t i = c->ops.start[at]; i < c->ops.start[at + 1]; i++) {
        alike one = {.op = c->ops.work[i], .n = 1};
        const lam_op_sig *sig = c->model->ops[one.op].sig;
        int32_t k = 0;
        if (!find_met(&known, sig, &k)) {
            lmi_costs_op(c, one.op, one.each);
            while (k < out->n && !are_alike(c, &out->at[k], &one)) k++;
            if (k == MOST_OPS) k = -1;
            /* A user-defined rule may give each operator other numbers. */
            if (known.n < MOST_MET && c->answers.n == 0) {
                known.sig[known.n] = sig;
                known.at[known.n++] = k;
            }
        }
        if (k < 0)
            out->more++;
        else if (k < out->n)
            out->at[k].n++;
        else
            out->at[out->n++] = one;
    }
}

/* Writes the sum as "aten::convolution 1,000 + aten::add x2 24", without operators that add 0. */
static lam_status why_sum(const lam_costs *c, const work *ops, lam_why *out, lam_error *e) {
    lmi_buf b;
    lam_count sum = lmi_exact(0);
    lmi_buf_init(&b);
    for (int32_t k = 0; k < ops->n; k++) {
        lam_count all = lmi_exact(0);
        char value[64];
        for (int32_t i = 0; i < ops->at[k].n; i++) all = lam_count_add(all, ops->at[k].each[out->metric]);
        sum = lam_count_add(sum, all);
        if (lmi_is_zero(all)) continue;
        lam_text_count(value, sizeof value, all, true);
        lmi_put(&b, b.n ? " + " : "");
        lmi_put_clean(&b, c->model->ops[ops->at[k].op].sig->name);
        if (ops->at[k].n > 1) lmi_putf(&b, " x%d", (int)ops->at[k].n);
        lmi_putf(&b, " %s", value);
    }
    if (ops->more) lmi_putf(&b, "%sthose of %d more operators", b.n ? " + " : "", (int)ops->more);
    lam_status s = lmi_buf_status(&b, e);
    if (b.n > 0) out->formula = "the sum of its operators";
    /* An operator around them determined the work without effect, or has a mask with unknown values. */
    bool other = sum.n != out->value.n || sum.over != out->value.over;
    if (lmi_is_effective(out->metric) && !ops->more && other)
        out->formula =
            out->value.state != LAM_EXACT && sum.state == LAM_EXACT
                ? "its operators, less what the mask of an attention leaves out, which is not known"
                : "its operators, less what the causal flag or mask of an attention around them leaves out";
    put_cut(out->substituted, sizeof out->substituted, lmi_buf_text(&b));
    if (b.n >= sizeof out->substituted) memcpy(out->substituted + sizeof out->substituted - 4, "...", 4);
    lmi_buf_free(&b);
    return s;
}

static lam_status why_op(const lam_costs *c, const alike *one, lam_why *out, lam_error *e) {
    int32_t op = one->op;
    const lam_op *o = &c->model->ops[op];
    const lmi_rule *rule = lmi_rule_of_op(c->convention, o);
    lmi_facts facts;
    out->op = op;
    out->n_equal = one->n;
    out->value = one->each[out->metric];
    out->note = o->sig->name;
    out->formula = rule ? rule->formula[out->metric] : NULL;
    out->words = words_of(rule);
    lmi_facts_of_op(c->model, op, &facts);
    return substitute(out, &facts, e);
}

static lam_count of_phase(const lam_cost_row *r, lam_phase phase, lam_metric metric) {
    const lam_count *all[] = {r->metric, r->phases->backward, r->phases->recompute};
    return all[phase][metric];
}

struct lmi_whys {
    const lam_costs *c;
    int32_t row;
    bool gathered[LAM_N_PHASES];
    work ops[LAM_N_PHASES];
};

/* The phase of explanation `*i`, which becomes the number within that phase; LAM_N_PHASES past the last one.
 * Phases other than the forward have explanations only if operators with costs ran in them. */
static int32_t phase_of(lmi_whys *t, const lam_cost_row *r, int32_t *i, int32_t *total) {
    *total = 0;
    for (int32_t phase = 0; phase < LAM_N_PHASES; phase++) {
        const work *ops = &t->ops[phase];
        if (!t->gathered[phase]) work_of(t->c, r, (lam_phase)phase, &t->ops[phase]);
        t->gathered[phase] = true;
        if (ops->n == 0 && phase != LAM_FORWARD) continue;
        int32_t n_lines = (ops->n + 1) * LAM_N_METRICS;
        *total += n_lines;
        if (*i < n_lines) return phase;
        *i -= n_lines;
    }
    return LAM_N_PHASES;
}

/* Each phase: first each metric as a sum, then every metric of each operator, whose name is the note. */
static lam_status why_by_ops(lmi_whys *t, const lam_cost_row *r, int32_t i, lam_why *out, lam_error *e) {
    int32_t total, asked = i, phase = phase_of(t, r, &i, &total);
    if (phase == LAM_N_PHASES)
        return lmi_fail(e, LAM_RANGE, "lam_costs_why", "there is no explanation %d; the row has %d",
                        (int)asked, (int)total);
    const lam_costs *c = t->c;
    const work *ops = &t->ops[phase];
    int32_t k = i / LAM_N_METRICS - 1;
    *out = (lam_why){.metric = (lam_metric)(i % LAM_N_METRICS),
                     .phase = (lam_phase)phase,
                     .op = -1,
                     .n_equal = 1};
    if (k >= 0) return why_op(c, &ops->at[k], out, e);
    out->value = of_phase(r, out->phase, out->metric);
    out->note = r->reason;
    if (!out->note && ops->n == 0) out->note = "its own forward runs no operator that costs anything";
    return why_sum(c, ops, out, e);
}

/* -- conventions that count calls ------------------------------------------------------------------------ */

/* Why a row has no work of its own. */
static const char *why_none(const lam_costs *c, const lam_cost_row *r, const lmi_call_cost *p) {
    if (p) return "it only calls its layers, and their work is theirs";
    if (lmi_only_elsewhere(&c->model->modules[r->module]))
        return "another thread called it, and what ran there is not seen";
    if (c->model->described) return c->model->described;
    if (lmi_is_inside(&c->model->modules[r->module]) && c->model->of_file)
        return "values decide, or the file does not tell, whether it runs";
    if (lmi_is_inside(&c->model->modules[r->module]))
        return "it is inside scripted, traced or compiled code, whose work is counted as a whole";
    return "it was never called";
}

lam_status lmi_whys_new(lmi_whys **out, const lam_costs *c, int32_t row, lam_error *e) {
    *out = calloc(1, sizeof **out);
    if (!*out) return lmi_nomem(e);
    (*out)->c = c;
    (*out)->row = row;
    return LAM_OK;
}

void lmi_whys_free(lmi_whys *t) { free(t); }

lam_status lam_costs_why(const lam_costs *c, int32_t row, int32_t i, lam_why *out, lam_error *e) {
    LAM_TRY(lmi_below_need(c, e)); /* callers read the row too */
    return lmi_whys_at(&(lmi_whys){.c = c, .row = row}, i, out, e);
}

lam_status lmi_whys_at(lmi_whys *t, int32_t i, lam_why *out, lam_error *e) {
    const lam_costs *c = t->c;
    const int32_t row = t->row;
    if (row < 0 || row >= c->n_rows)
        return lmi_fail(e, LAM_RANGE, "lam_costs_why", "there is no row %d; the table has %d", (int)row,
                        (int)c->n_rows);
    if (c->model->given) return lmi_needs_run(c->model, "the reason of a number", e);
    LAM_TRY(lmi_rf_need(c, e));
    const lam_cost_row *r = &c->rows[row];
    const lmi_call_cost *p = r->event >= 0 ? &c->prices[r->event] : NULL;
    bool layer = p && (p->custom || (p->rule && p->rule->name)); /* explained as a whole */
    if (lmi_by_ops(c) && i >= 0 && r->counted && !layer) return why_by_ops(t, r, i, out, e);
    if (i < 0 || i >= LAM_N_METRICS)
        return lmi_fail(e, LAM_RANGE, "lam_costs_why", "there is no explanation %d; a row has %d", (int)i,
                        LAM_N_METRICS);
    *out =
        (lam_why){.metric = (lam_metric)i, .op = -1, .n_equal = 1, .value = r->metric[i], .note = r->reason};
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
    out->words = words_of(p->rule);
    return substitute(out, &facts, e);
}

bool lam_costs_fact(const lam_costs *c, int32_t row, int32_t i, const char **name, int64_t *value) {
    if (row < 0 || row >= c->n_rows || i < 0 || c->rows[row].event < 0) return false;
    const lmi_call_cost *p = &c->prices[c->rows[row].event];
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
