/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators: which of them count, and their sums by call. An operator with a rule counts everything that ran
 * inside it; one that only calls others leaves the count to them. Parents come before the operators inside
 * them, so one pass forward decides all, at any depth. */
#include "analyse/cost/tally.h"
#include "analyse/flow/graph.h"

/* -- which operators count ----------------------------------------------------------------------- */

static lmi_role role_of(const lmi_work *w, const lam_op *o, const lmi_rule **rule) {
    const uint8_t *role = w->c->ops.role;
    const int32_t owner = lmi_op_owner(o);
    *rule = NULL;
    if (owner >= 0 && (role[owner] == LMI_ROLE_COUNTED || role[owner] == LMI_ROLE_INSIDE))
        return LMI_ROLE_INSIDE;
    if (o->flags & LAM_OP_VALUES) return LMI_ROLE_INSIDE;
    if (o->flags & (LAM_OP_FAILED | LAM_OP_NODE)) return LMI_ROLE_THROUGH;
    lmi_sig_cost *kept = &w->by_sig[o->sig->index];
    if (!kept->ruled) kept->rule = lmi_rule_of_op(w->cv, o);
    kept->ruled = true;
    *rule = kept->rule;
    if (*rule && (*rule)->name) return LMI_ROLE_COUNTED;
    if (*rule && o->flags & LAM_OP_WHOLE) return LMI_ROLE_COUNTED;
    if (lmi_op_opens(w->cv, o, *rule)) return LMI_ROLE_THROUGH;
    return *rule || w->cv->no_rule == LMI_NR_NOTHING ? LMI_ROLE_COUNTED : LMI_ROLE_NO_RULE;
}

static bool costs_some(const lam_costs *c, int metric, lam_count n) {
    return c->has[metric] && !lmi_is_nothing(n);
}

/* -- sums by call -------------------------------------------------------------------------------- */

static void add(lmi_work *w, lmi_tally *t, int32_t op, const lam_count of[LAM_N_METRICS], bool known) {
    const lam_op *o = &w->m->ops[op];
    lmi_op_sum *sum = lmi_sum_of(w, op);
    lam_count n[LAM_N_METRICS];
    memcpy(n, of, sizeof n);
    lmi_flex_effective(w->m, op, n);
    lmi_left_effective(w->c, op, n);
    for (int i = 0; i < LAM_N_METRICS; i++) {
        if (lmi_is_nothing(n[i])) continue;
        if (!lmi_is_effective(i) || t->attributed[op] != LMI_ATTRIBUTED_SUM)
            sum->n[o->phase][i] = lmi_count_add(sum->n[o->phase][i], n[i]);
        t->costs[op] = t->costs[op] || w->c->has[i];
    }
    t->computes[op] = costs_some(w->c, LAM_MACS, n[LAM_MACS]) || costs_some(w->c, LAM_FLOPS, n[LAM_FLOPS]);
    sum->any = true;
    w->c->ops.ran[o->phase]++;
    w->c->ops.known += known;
}

static lam_status unsure(lmi_work *w, int32_t op, const lmi_rule *rule, const lmi_facts *facts,
                         const lam_count n[LAM_N_METRICS], lmi_unseen unseen, lam_error *e) {
    int32_t group;
    LAM_TRY(lmi_op_unsure(w, op, rule, facts, n, unseen, &group, e));
    lmi_op_sum *sum = lmi_sum_of(w, op);
    if (sum->unsure == 0) sum->unsure = group + 1;
    return LAM_OK;
}

/* True for dense work that counts 0 because the tool overlooks it; it leaves out other work on purpose. */
static bool missed(const lmi_work *w, int32_t op, const lmi_rule *rule) {
    const lam_op *o = &w->m->ops[op];
    bool works = lmi_kind_multiplies(lmi_op_kind(o->sig->word)) || (rule && rule->whole);
    if (w->cv->no_rule != LMI_NR_NOTHING || !works ||
        (!rule && lam_word_op_wraps(o->sig->word) && !o->n_children))
        return false;
    for (int i = 0; rule && i < LAM_N_METRICS; i++)
        if (rule->formula[i] && strcmp(rule->formula[i], "0") != 0) return false;
    return true;
}

void lmi_ask(const lmi_work *w, int32_t op, int32_t event, const lmi_rule *rule,
             lam_count out[LAM_N_METRICS]) {
    bool answered = rule->asks && w->o->ask && w->o->ask(w->o->ask_self, w->m, op, event, rule->name, out);
    if (!answered) lmi_set_unknown(out);
}

const lmi_rule *lmi_own_layer(const lmi_work *w, int32_t event) {
    return event < 0 ? NULL : lmi_own_of_module(w->cv, &w->m->modules[w->m->events[event].module]);
}

/* -- the numbers of an operator ------------------------------------------------------------------ */

static lam_status run_rule(const lmi_work *w, const lmi_rule *rule, lmi_outcome *out, lam_error *e) {
    const lmi_rule_code *code;
    LAM_TRY(lmi_rule_code_of(w->cv, rule, &code, e));
    lmi_set_unknown(out->n);
    lmi_rule_run(code, false, &out->facts, out->n);
    out->known = out->all = true;
    for (int i = 0; i < LAM_N_METRICS; i++) {
        out->n[i] = lmi_op_count(out->n[i]);
        const bool missing = out->n[i].state != LAM_EXACT && code->formula[i];
        out->known = out->known && (!missing || lmi_is_effective(i));
        out->all = out->all && !missing;
    }
    return LAM_OK;
}

lam_status lmi_outcome_of_op(lmi_work *w, int32_t op, const lmi_rule *rule, lmi_outcome *out, lam_error *e) {
    lmi_facts_of_op(w->m, op, &out->facts);
    return run_rule(w, rule, out, e);
}

lam_status lmi_outcome_of_sig(lmi_work *w, const lam_op_sig *sig, const lmi_rule *rule, lmi_outcome *out,
                              lam_error *e) {
    lmi_facts_of_sig(w->m, sig, &out->facts);
    return run_rule(w, rule, out, e);
}

/* Keeps the numbers that the caller's function gave for an operator, so that it is called once only. */
static lam_status keep_answer(lmi_work *w, int32_t op, const lam_count n[LAM_N_METRICS], lam_error *e) {
    lmi_answer answer = {.op = op};
    memcpy(answer.n, n, sizeof answer.n);
    return lmi_vec_put(&w->c->answers, &answer, e);
}

/* Counts by a user-defined rule. A metric that the convention counts and the rule does not give is
 * unknown. */
static lam_status count_own(lmi_work *w, lmi_tally *t, int32_t op, const lmi_rule *rule, lam_error *e) {
    lam_count n[LAM_N_METRICS];
    const lmi_rule_code *code;
    lmi_facts facts;
    bool known = true;
    LAM_TRY(lmi_rule_code_of(w->cv, rule, &code, e));
    lmi_facts_of_op(w->m, op, &facts);
    lmi_ask(w, op, -1, rule, n);
    lmi_rule_run(code, false, &facts, n);
    for (int i = 0; i < LAM_N_METRICS; i++) n[i] = lmi_op_count(n[i]);
    lmi_own_effective(n);
    for (int i = 0; i < LAM_EFFECTIVE_MACS; i++)
        known = known && (n[i].state == LAM_EXACT || !(code->formula[i] || w->c->has[i]));
    if (rule->asks) LAM_TRY(keep_answer(w, op, n, e));
    add(w, t, op, n, known);
    return known ? LAM_OK : unsure(w, op, rule, &facts, n, LMI_UNSEEN_NONE, e);
}

/* Counts of an earlier operator with the same signature are reused. The layer around an operator is read only
 * if the operator's own arguments are not enough. */
static lam_status count_op(lmi_work *w, lmi_tally *t, int32_t op, const lmi_rule *rule, lam_error *e) {
    const lam_op_sig *sig = w->m->ops[op].sig;
    lmi_sig_cost *kept = &w->by_sig[sig->index];
    lmi_outcome got;
    if (rule->name) return count_own(w, t, op, rule, e);
    if (kept->state == LMI_SIG_NEW) {
        LAM_TRY(lmi_outcome_of_sig(w, sig, rule, &got, e));
        memcpy(kept->n, got.n, sizeof kept->n);
        kept->state = got.all ? LMI_SIG_KNOWN : LMI_SIG_OF_LAYER;
        kept->missed = missed(w, op, rule);
    }
    if (kept->state == LMI_SIG_KNOWN) {
        add(w, t, op, kept->n, true);
        return kept->missed ? unsure(w, op, NULL, NULL, kept->n, LMI_UNSEEN_NONE, e) : LAM_OK;
    }
    LAM_TRY(lmi_outcome_of_op(w, op, rule, &got, e));
    add(w, t, op, got.n, got.known);
    if (got.known && missed(w, op, rule)) return unsure(w, op, NULL, NULL, got.n, LMI_UNSEEN_NONE, e);
    return got.known ? LAM_OK : unsure(w, op, rule, &got.facts, got.n, LMI_UNSEEN_NONE, e);
}

/* Counts 0, as the tool does for an operator without a formula. */
static lam_status count_nothing(lmi_work *w, lmi_tally *t, int32_t op, lam_error *e) {
    lam_count n[LAM_N_METRICS];
    for (int i = 0; i < LAM_N_METRICS; i++) n[i] = w->c->has[i] ? lmi_exact(0) : lmi_unknown();
    add(w, t, op, n, false);
    return missed(w, op, NULL) ? unsure(w, op, NULL, NULL, n, LMI_UNSEEN_NONE, e) : LAM_OK;
}

static lam_status count_unknown(lmi_work *w, lmi_tally *t, int32_t op, lam_error *e) {
    lam_count n[LAM_N_METRICS];
    lmi_set_unknown(n);
    w->c->ops.role[op] = LMI_ROLE_NO_RULE;
    add(w, t, op, n, false);
    return unsure(w, op, NULL, NULL, n, LMI_UNSEEN_NONE, e);
}

/* Makes the sums lower bounds, since not all work was observed. */
static lam_status count_hidden(lmi_work *w, int32_t op, lmi_unseen unseen, lam_error *e) {
    const lam_op *o = &w->m->ops[op];
    lmi_op_sum *sum = lmi_sum_of(w, op);
    const lam_count least = {.state = LAM_AT_LEAST};
    for (int i = 0; i < LAM_N_METRICS; i++)
        if ((unseen != LMI_UNSEEN_VALUES && unseen != LMI_UNSEEN_ORDER) ||
            (i != LAM_MACS && i != LAM_EFFECTIVE_MACS))
            sum->n[o->phase][i] = lmi_count_add(sum->n[o->phase][i], least);
    sum->any = true;
    w->c->ops.ran[o->phase]++;
    return unsure(w, op, NULL, NULL, NULL, unseen, e);
}

/* True if values decide the operator's work, no operator around it counts that work, and the tool does not
 * count it as 0. */
static bool values_decide(const lmi_work *w, int32_t op) {
    const lam_op *o = &w->m->ops[op];
    const int32_t owner = lmi_op_owner(o);
    bool within = owner >= 0 && w->c->ops.role[owner] != LMI_ROLE_THROUGH;
    return o->flags & LAM_OP_VALUES && !within && w->cv->no_rule != LMI_NR_NOTHING;
}

/* The operators that ran directly before, in the same parent. Their order shows work in numpy, for which
 * there is no operator. */
typedef struct round_trip {
    int32_t last, before; /* -1: none */
    bool left;            /* data was passed to numpy or Python */
} round_trip;

/* The trip of an operator, by its name, which its signature determines. */
static lmi_trip trip_of(const lmi_work *w, int32_t op) {
    static const char *const names[] = {
        [LMI_TRIP_ITEM] = "aten::item",       [LMI_TRIP_CONJ] = "aten::resolve_conj",
        [LMI_TRIP_NEG] = "aten::resolve_neg", [LMI_TRIP_TO] = "aten::to",
        [LMI_TRIP_EMPTY] = "aten::empty",     [LMI_TRIP_LIFT] = "aten::lift_fresh"};
    if (op < 0) return LMI_TRIP_NONE;
    const lam_op_sig *sig = w->m->ops[op].sig;
    lmi_trip *kept = &w->by_sig[sig->index].trip;
    if (*kept == LMI_TRIP_NEW) {
        *kept = LMI_TRIP_NONE;
        for (size_t i = LMI_TRIP_ITEM; i < sizeof names / sizeof *names; i++)
            if (strcmp(sig->name, names[i]) == 0) *kept = (lmi_trip)i;
    }
    return *kept;
}

static bool gives_number(const lam_op *o) { return o->sig->n_out > 0 && o->sig->out[0].ndim == 0; }

/* Tensor.numpy and Tensor.tolist end with resolve_conj and resolve_neg, in this order. A tensor made from
 * numpy's data is only lifted. One that torch makes from Python's numbers is allocated and converted first,
 * or is a single number that is written into another tensor (x[0] = 1). */
static lam_status look_outside(lmi_work *w, round_trip *r, int32_t op, lam_error *e) {
    const lam_model *m = w->m;
    const lam_op *o = &m->ops[op];
    if (r->last >= 0 && o->parent >= r->last) return LAM_OK; /* inside it */
    lmi_trip now = trip_of(w, op), last = trip_of(w, r->last);
    if (now == LMI_TRIP_ITEM) return LAM_OK; /* making a tensor of numbers may read them from other tensors */
    lam_status s = LAM_OK;
    if (now == LMI_TRIP_NEG && last == LMI_TRIP_CONJ && o->parent == m->ops[r->last].parent) r->left = true;
    bool made = last == LMI_TRIP_TO && trip_of(w, r->before) == LMI_TRIP_EMPTY;
    if (r->left && !made && now == LMI_TRIP_LIFT && !gives_number(o))
        s = count_hidden(w, op, LMI_UNSEEN_OUTSIDE, e);
    r->before = r->last;
    r->last = op;
    return s;
}

/* Counts an operator that usually only calls others, but whose kernel did the work itself here: the operators
 * inside it computed nothing, and its rule gives the count (max_pool1d when no gradient is needed). */
static lam_status count_itself(lmi_work *w, lmi_tally *t, int32_t op, lam_error *e) {
    const lam_op *o = &w->m->ops[op];
    const lmi_rule *rule = o->flags & (LAM_OP_FAILED | LAM_OP_NODE) || !lam_word_op_wraps(o->sig->word)
                               ? NULL
                               : lmi_rule_for_op(w->cv, o->sig->word, o->sig->name);
    if (!rule || !rule->formula[LAM_FLOPS] || strcmp(rule->formula[LAM_FLOPS], "0") == 0) return LAM_OK;
    lmi_outcome got;
    LAM_TRY(lmi_outcome_of_op(w, op, rule, &got, e));
    if (!got.known || got.n[LAM_FLOPS].state != LAM_EXACT || got.n[LAM_FLOPS].n == 0) return LAM_OK;
    w->c->ops.role[op] = LMI_ROLE_COUNTED;
    add(w, t, op, got.n, true);
    return LAM_OK;
}

/* True if a mode or a tensor subclass ran other operators for it, or knew the result: then no operator around
 * it did this work. */
static bool is_answered(const lam_op *o) { return o->flags & LAM_OP_NODE && o->sig->word >= 0; }

/* True if a user-defined rule counts the layer that runs the operator. */
static bool layer_has_rule(const lmi_work *w, const lam_op *o) {
    return o->phase == LAM_FORWARD && lmi_own_layer(w, o->call) != NULL;
}

/* True for a quantile without an operator inside that sorts: from PyTorch 2.14 on, a kernel that is no
 * operator selects the values on the CPU. */
static bool selects_unseen(const lam_model *m, int32_t op) {
    const lam_op *o = &m->ops[op];
    if (strcmp(o->sig->name, "aten::quantile") != 0 && strcmp(o->sig->name, "aten::nanquantile") != 0)
        return false;
    int32_t i = op + 1;
    for (; i < m->n_ops && m->ops[i].parent >= op; i++) {
        lmi_kind k = lmi_op_kind(m->ops[i].sig->word);
        if (k == LMI_K_sort || k == LMI_K_choose) return false;
    }
    return i > op + 1 && !(o->flags & LAM_OP_FAILED);
}

static lam_status count_all(lmi_work *w, lmi_tally *t, lam_error *e) {
    round_trip r = {-1, -1, false};
    uint8_t *role = w->c->ops.role;
    for (int32_t i = 0; i < w->m->n_ops; i++) {
        const lmi_rule *rule;
        const int32_t owner = lmi_op_owner(&w->m->ops[i]);
        t->attributed[i] = owner >= 0 ? t->attributed[owner] : LMI_ATTRIBUTED_NOTHING;
        role[i] = LMI_ROLE_INSIDE;
        w->c->ops.back = w->c->ops.back || w->m->ops[i].phase != LAM_FORWARD;
        if (layer_has_rule(w, &w->m->ops[i]) || (w->untraced && w->untraced[i])) continue;
        role[i] = (uint8_t)role_of(w, &w->m->ops[i], &rule);
        if (role[i] == LMI_ROLE_COUNTED)
            LAM_TRY(rule ? count_op(w, t, i, rule, e) : count_nothing(w, t, i, e));
        if (role[i] == LMI_ROLE_NO_RULE) LAM_TRY(count_unknown(w, t, i, e));
        if (w->m->ops[i].flags & LAM_OP_HIDES) LAM_TRY(count_hidden(w, i, LMI_UNSEEN_FUSED, e));
        if (w->m->ops[i].flags & LAM_OP_DERIVED) LAM_TRY(count_hidden(w, i, LMI_UNSEEN_TANGENT, e));
        if (values_decide(w, i)) LAM_TRY(count_hidden(w, i, LMI_UNSEEN_VALUES, e));
        LAM_TRY(look_outside(w, &r, i, e));
        if (role[i] == LMI_ROLE_THROUGH && selects_unseen(w->m, i))
            LAM_TRY(count_hidden(w, i, LMI_UNSEEN_ORDER, e));
        if (role[i] == LMI_ROLE_THROUGH && !t->attributed[i]) LAM_TRY(lmi_attribute_effective(w, t, i, e));
        if (w->c->has[LAM_EFFECTIVE_MACS]) lmi_note_mask(w, t, i);
    }
    for (int32_t i = w->m->n_ops - 1; i >= 0; i--) {
        const lam_op *o = &w->m->ops[i];
        if (is_answered(o)) t->computes[i] = true;
        /* If no operator inside a custom one computes, its kernel does the work unobserved: operators inside
         * that only allocate or make views say nothing about this work. */
        if (role[i] == LMI_ROLE_THROUGH && !t->computes[i] && w->cv->no_rule != LMI_NR_NOTHING)
            LAM_TRY(lmi_is_custom(o) ? count_unknown(w, t, i, e) : count_itself(w, t, i, e));
        const int32_t owner = lmi_op_owner(o);
        if (owner >= 0 && t->computes[i]) t->computes[owner] = true;
    }
    return LAM_OK;
}

/* Makes the sums of an incomplete model lower bounds. The forward of a call that ended before the cut is
 * complete; its backward may not be. */
static lam_status count_cut(lmi_work *w, lam_error *e) {
    const lam_count least = {.state = LAM_AT_LEAST};
    const lam_model *m = w->m;
    int32_t group;
    if (!m->cut) return LAM_OK;
    w->c->ops.back = true;
    LAM_TRY(lmi_cut_short(w, &group, e));
    for (int32_t i = 0; i <= m->n_events; i++) {
        lmi_op_sum *sum = &w->by_call[i];
        int64_t end = i < m->n_events && !m->calls_cut ? m->events[i].t1_ns : 0;
        bool whole = (end > 0 && end <= m->cut_ns) || (m->cut_ns == INT64_MAX && !m->calls_cut);
        for (int p = whole ? LAM_BACKWARD : LAM_FORWARD; p < LAM_N_PHASES; p++)
            for (int k = 0; k < LAM_N_METRICS; k++) sum->n[p][k] = lmi_count_add(sum->n[p][k], least);
        if (!whole && !sum->unsure) sum->unsure = group + 1;
    }
    return LAM_OK;
}

/* Lists the operators of each call's phases that cost something, in the order in which they ran. */
static lam_status list_work(lmi_work *w, const lmi_tally *t, lam_error *e) {
    const lam_model *m = w->m;
    int32_t *list = lmi_alloc_none(&w->scratch, m->n_ops), lists = (m->n_events + 1) * LAM_N_PHASES;
    lmi_groups g;
    for (int32_t i = 0; list && i < m->n_ops; i++)
        if (t->costs[i]) list[i] = (int32_t)(lmi_sum_of(w, i) - w->by_call) * LAM_N_PHASES + m->ops[i].phase;
    if (!list || !lmi_group_by(&w->c->arena, list, m->n_ops, lists, &g)) return lmi_nomem(e);
    w->c->ops.start = g.start;
    w->c->ops.work = g.order;
    return LAM_OK;
}

lam_status lmi_ops_sum(lmi_work *w, lam_error *e) {
    uint64_t n = (uint64_t)w->m->n_ops;
    if (!lmi_by_ops(w->c)) return LAM_OK;
    if (!w->m->ops_seen)
        return lmi_fail(e, LAM_USAGE, w->cv->name,
                        "the convention counts operators and none were watched; capture with ops=True");
    lmi_tally t = {lmi_alloc(&w->scratch, n, sizeof(bool)), lmi_alloc(&w->scratch, n, sizeof(bool)),
                   lmi_alloc(&w->scratch, n, sizeof(uint8_t))};
    w->c->ops.role = lmi_alloc(&w->c->arena, n, sizeof *w->c->ops.role);
    w->by_sig = lmi_alloc(&w->scratch, (uint64_t)w->m->n_op_sigs, sizeof *w->by_sig);
    w->by_call = lmi_alloc(&w->scratch, (uint64_t)w->m->n_events + 1, sizeof *w->by_call);
    if (!t.costs || !t.computes || !t.attributed || !w->c->ops.role || !w->by_call || !w->by_sig)
        return lmi_nomem(e);
    if (w->cv->sees == LMI_SEES_TRACED) LAM_TRY(lmi_untraced(w->m, &w->scratch, &w->untraced, e));
    LAM_TRY(lmi_find_left(w, e));
    LAM_TRY(count_all(w, &t, e));
    lmi_forget_effective(w);
    LAM_TRY(count_cut(w, e));
    return list_work(w, &t, e);
}

void lmi_ops_price(lmi_work *w, int32_t event, lmi_call_cost *p) {
    const lam_event *ev = &w->m->events[event];
    const lmi_op_sum *sum = &w->by_call[event];
    for (int i = 0; i < LAM_N_METRICS; i++) p->metric[i] = lmi_settled(sum->n[LAM_FORWARD][i]);
    p->counted = sum->any || (ev->n_children_called == 0 && !lmi_plain_holder(&w->m->modules[ev->module]));
    p->cause = sum->unsure ? LMI_CAUSE_OP : LMI_CAUSE_NONE;
}
