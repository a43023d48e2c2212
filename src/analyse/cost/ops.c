/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators: which of them count, and their sums by call. An operator with a rule counts everything that ran
 * inside it; one that only calls others leaves the count to them. Parents come before the operators inside
 * them, so one pass forward decides all, at any depth. */
#include "analyse/cost/work.h"
#include "analyse/flow/graph.h"

/* -- formulas, parsed once ------------------------------------------------------------------------ */

static lam_status own_code_of(lmi_work *w, const lmi_rule *r, const lmi_rule_code **out, lam_error *e) {
    int64_t at = lmi_map_get_u64(&w->own_by_rule, (uint64_t)(uintptr_t)r);
    if (at < 0) {
        at = (int64_t)w->own_code.n;
        lmi_rule_code **to = lmi_vec_push(&w->own_code);
        if (!to) return lmi_nomem(e);
        LAM_TRY(lmi_rule_code_new(to, r, e));
        LAM_TRY(lmi_map_put_u64(&w->own_by_rule, (uint64_t)(uintptr_t)r, at, e));
    }
    *out = *(lmi_rule_code **)lmi_vec_at(&w->own_code, (size_t)at);
    return LAM_OK;
}

static lam_status code_of(lmi_work *w, const lmi_rule *r, const lmi_rule_code **out, lam_error *e) {
    return r->name ? own_code_of(w, r, out, e) : lmi_rule_code_of(w->cv, r, out, e);
}

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

/* True if adding `n` changes nothing. */
static bool is_nothing(lam_count n) { return n.n == 0 && n.over == 0 && n.state == LAM_EXACT; }

static bool costs_some(const lam_costs *c, int metric, lam_count n) {
    return c->has[metric] && !is_nothing(n);
}

/* -- sums by call -------------------------------------------------------------------------------- */

/* The effective counts that an operator around others gives for them. */
enum { TOLD_NOTHING, TOLD_WHOLE /* they are the dense ones */, TOLD_SUM /* those of all inside it */ };

/* Notes on each operator during the pass. */
typedef struct tally {
    bool *costs;    /* one of its numbers is not 0 */
    bool *computes; /* the same without elements and bytes moved; also for the operators inside it */
    uint8_t *told;
} tally;

static lmi_op_sum *sum_of(const lmi_work *w, int32_t op) {
    int32_t call = w->m->ops[op].call;
    return &w->by_call[call >= 0 ? call : w->m->n_events];
}

static void add(lmi_work *w, tally *t, int32_t op, const lam_count of[LAM_N_METRICS], bool known) {
    const lam_op *o = &w->m->ops[op];
    lmi_op_sum *sum = sum_of(w, op);
    lam_count n[LAM_N_METRICS];
    memcpy(n, of, sizeof n);
    lmi_flex_effective(w->m, op, n);
    for (int i = 0; i < LAM_N_METRICS; i++) {
        if (is_nothing(n[i])) continue;
        if (!lmi_is_effective(i) || t->told[op] != TOLD_SUM)
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
    lmi_op_sum *sum = sum_of(w, op);
    if (sum->unsure == 0) sum->unsure = group + 1;
    return LAM_OK;
}

/* True for dense work that counts 0 because the tool overlooks it; it leaves out other work on purpose. */
static bool missed(const lmi_work *w, int32_t op, const lmi_rule *rule) {
    const lam_op *o = &w->m->ops[op];
    bool works = lmi_kind_multiplies(lmi_op_kind(o->sig->word)) || (rule && rule->whole);
    if (w->cv->no_rule != LMI_NR_NOTHING || !works ||
        (!rule && lmi_op_composite(o->sig->word) && !o->n_children))
        return false;
    for (int i = 0; rule && i < LAM_N_METRICS; i++)
        if (rule->formula[i] && strcmp(rule->formula[i], "0") != 0) return false;
    return true;
}

void lmi_ask(const lmi_work *w, int32_t op, int32_t event, const lmi_rule *rule,
             lam_count out[LAM_N_METRICS]) {
    bool told = rule->asks && w->o->ask && w->o->ask(w->o->ask_self, w->m, op, event, rule->name, out);
    for (int i = 0; i < LAM_N_METRICS && !told; i++) out[i] = lmi_unknown();
}

const lmi_rule *lmi_own_layer(const lmi_work *w, int32_t event) {
    return event < 0 ? NULL : lmi_own_of_module(w->cv, &w->m->modules[w->m->events[event].module]);
}

/* Keeps the numbers that the caller's function gave for an operator, so that it is called once only. */
static lam_status keep_told(lmi_work *w, int32_t op, const lam_count n[LAM_N_METRICS], lam_error *e) {
    lmi_told told = {.op = op};
    memcpy(told.n, n, sizeof told.n);
    return lmi_vec_put(&w->c->told, &told, e);
}

/* Counts by a user-defined rule. A metric that the convention counts and the rule does not give is
 * unknown. */
static lam_status count_own(lmi_work *w, tally *t, int32_t op, const lmi_rule *rule, lam_error *e) {
    lam_count n[LAM_N_METRICS];
    const lmi_rule_code *code;
    lmi_facts facts;
    bool known = true;
    LAM_TRY(code_of(w, rule, &code, e));
    lmi_facts_of_op(w->m, op, &facts);
    lmi_ask(w, op, -1, rule, n);
    for (int i = 0; i < LAM_N_METRICS; i++) {
        if (code->formula[i]) n[i] = lmi_formula_run(code->formula[i], &facts);
        n[i] = lmi_op_count(n[i]);
    }
    lmi_own_effective(n);
    for (int i = 0; i < LAM_EFFECTIVE_MACS; i++)
        known = known && (n[i].state == LAM_EXACT || !(code->formula[i] || w->c->has[i]));
    if (rule->asks) LAM_TRY(keep_told(w, op, n, e));
    add(w, t, op, n, known);
    return known ? LAM_OK : unsure(w, op, rule, &facts, n, LMI_UNSEEN_NONE, e);
}

/* The results of a rule's formulas. */
typedef struct outcome {
    lmi_facts facts;
    lam_count n[LAM_N_METRICS];
    bool known; /* all formulas gave a number, effective counts aside */
    bool all;   /* the effective counts are numbers too */
} outcome;

static void evaluate(const lmi_rule_code *code, outcome *out) {
    lam_count *n = out->n;
    out->known = out->all = true;
    for (int i = 0; i < LAM_N_METRICS; i++) {
        int like = lmi_is_effective(i) ? i - LAM_EFFECTIVE_MACS : i; /* mostly has the same formula */
        if (like != i && code->formula[i] == code->formula[like])
            n[i] = n[like];
        else
            n[i] = code->formula[i] ? lmi_op_count(lmi_formula_run(code->formula[i], &out->facts))
                                    : lmi_unknown();
        bool missing = n[i].state != LAM_EXACT && code->formula[i];
        out->known = out->known && (!missing || lmi_is_effective(i));
        out->all = out->all && !missing;
    }
}

/* Counts an operator by its arguments and the layer that runs it. */
static lam_status of_op(lmi_work *w, int32_t op, const lmi_rule *rule, outcome *out, lam_error *e) {
    const lmi_rule_code *code;
    LAM_TRY(code_of(w, rule, &code, e));
    lmi_facts_of_op(w->m, op, &out->facts);
    evaluate(code, out);
    return LAM_OK;
}

/* Counts the operators of a signature, as far as their counts don't depend on a layer. */
static lam_status of_sig(lmi_work *w, const lam_op_sig *sig, const lmi_rule *rule, outcome *out,
                         lam_error *e) {
    const lmi_rule_code *code;
    LAM_TRY(code_of(w, rule, &code, e));
    lmi_facts_of_sig(w->m, sig, &out->facts);
    evaluate(code, out);
    return LAM_OK;
}

/* Counts of an earlier operator with the same signature are reused. The layer around an operator is read only
 * if the operator's own arguments are not enough. */
static lam_status count_op(lmi_work *w, tally *t, int32_t op, const lmi_rule *rule, lam_error *e) {
    const lam_op_sig *sig = w->m->ops[op].sig;
    lmi_sig_cost *kept = &w->by_sig[sig->index];
    outcome got;
    if (rule->name) return count_own(w, t, op, rule, e);
    if (kept->state == LMI_SIG_NEW) {
        LAM_TRY(of_sig(w, sig, rule, &got, e));
        memcpy(kept->n, got.n, sizeof kept->n);
        kept->state = got.all ? LMI_SIG_KNOWN : LMI_SIG_OF_LAYER;
        kept->missed = missed(w, op, rule);
    }
    if (kept->state == LMI_SIG_KNOWN) {
        add(w, t, op, kept->n, true);
        return kept->missed ? unsure(w, op, NULL, NULL, kept->n, LMI_UNSEEN_NONE, e) : LAM_OK;
    }
    LAM_TRY(of_op(w, op, rule, &got, e));
    add(w, t, op, got.n, got.known);
    if (got.known && missed(w, op, rule)) return unsure(w, op, NULL, NULL, got.n, LMI_UNSEEN_NONE, e);
    return got.known ? LAM_OK : unsure(w, op, rule, &got.facts, got.n, LMI_UNSEEN_NONE, e);
}

/* Counts 0, as the tool does for an operator without a formula. */
static lam_status count_nothing(lmi_work *w, tally *t, int32_t op, lam_error *e) {
    lam_count n[LAM_N_METRICS];
    for (int i = 0; i < LAM_N_METRICS; i++) n[i] = w->c->has[i] ? lmi_exact(0) : lmi_unknown();
    add(w, t, op, n, false);
    return missed(w, op, NULL) ? unsure(w, op, NULL, NULL, n, LMI_UNSEEN_NONE, e) : LAM_OK;
}

static lam_status count_unknown(lmi_work *w, tally *t, int32_t op, lam_error *e) {
    lam_count n[LAM_N_METRICS];
    for (int i = 0; i < LAM_N_METRICS; i++) n[i] = lmi_unknown();
    w->c->ops.role[op] = LMI_ROLE_NO_RULE;
    add(w, t, op, n, false);
    return unsure(w, op, NULL, NULL, n, LMI_UNSEEN_NONE, e);
}

/* Makes the sums lower bounds, since not all work was observed. */
static lam_status count_hidden(lmi_work *w, int32_t op, lmi_unseen unseen, lam_error *e) {
    const lam_op *o = &w->m->ops[op];
    lmi_op_sum *sum = sum_of(w, op);
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

/* True if the numbers say that some of the work has no effect. */
static bool tells_less(const lam_count n[LAM_N_METRICS]) {
    return n[LAM_EFFECTIVE_MACS].state == LAM_EXACT && n[LAM_EFFECTIVE_MACS].n < n[LAM_MACS].n;
}

/* Finds the effective counts that the signature alone determines, for any layer that runs it. */
static lam_status learn_effective(lmi_work *w, const lam_op_sig *sig, lam_error *e) {
    lmi_sig_cost *kept = &w->by_sig[sig->index];
    const lmi_rule *rule = lmi_rule_for_op(w->cv, sig->word, sig->name);
    outcome got;
    kept->tells = LMI_TELLS_NOTHING;
    if (!rule || rule->formula[LAM_EFFECTIVE_MACS] == rule->formula[LAM_MACS]) return LAM_OK;
    LAM_TRY(of_sig(w, sig, rule, &got, e));
    kept->tells = got.all ? LMI_TELLS_WHOLE : LMI_TELLS_OF_LAYER;
    if (!got.all || !tells_less(got.n)) return LAM_OK;
    kept->told = lmi_copy(&w->scratch, got.n, LAM_N_METRICS, sizeof *got.n);
    kept->tells = LMI_TELLS_SELF;
    return kept->told ? LAM_OK : lmi_nomem(e);
}

/* True if the operator called one fused kernel, which has arguments for its effective counts itself, in the
 * forward and the backward. */
static bool runs_fused(const lam_model *m, int32_t op) {
    for (int32_t i = op + 1; i < m->n_ops && m->ops[i].parent >= op; i++) {
        int32_t word = m->ops[i].sig->word;
        lmi_kind k = lmi_op_kind(word);
        bool attends = k == LMI_K_attend || k == LMI_K_attend_flash || k == LMI_K_attend_efficient;
        if (attends && !lam_word_op_wraps(word)) return true;
    }
    return false;
}

/* An operator that leaves the count to the operators inside it may have a flag or a mask by which some of
 * their work has no effect: an attention that runs as matrix products. Its effective counts replace theirs,
 * also if unknown. In the backward pass it is unknown which products belong to it. */
static lam_status tell_effective(lmi_work *w, tally *t, int32_t op, lam_error *e) {
    const lam_op *o = &w->m->ops[op];
    lmi_sig_cost *kept = &w->by_sig[o->sig->index];
    if (o->flags & (LAM_OP_FAILED | LAM_OP_NODE)) return LAM_OK;
    if (kept->tells == LMI_TELLS_NEW) LAM_TRY(learn_effective(w, o->sig, e));
    if (kept->tells == LMI_TELLS_WHOLE) t->told[op] = TOLD_WHOLE;
    if (kept->tells == LMI_TELLS_NOTHING || kept->tells == LMI_TELLS_WHOLE) return LAM_OK;
    const lam_count *told = kept->told;
    bool fused = runs_fused(w->m, op);
    outcome got;
    if (kept->tells == LMI_TELLS_OF_LAYER) {
        LAM_TRY(of_op(w, op, lmi_rule_for_op(w->cv, o->sig->word, o->sig->name), &got, e));
        told = got.n;
        bool known = told[LAM_EFFECTIVE_MACS].state == LAM_EXACT;
        if (known && !tells_less(told)) t->told[op] = TOLD_WHOLE;
        if (known && !tells_less(told)) return LAM_OK;
        int64_t masks = lmi_fact_get(&got.facts, LMI_FACT_masks);
        if (!known && (fused || (told[LAM_MACS].state != LAM_EXACT && masks != 1))) return LAM_OK;
    }
    lmi_op_sum *sum = sum_of(w, op);
    for (int i = LAM_EFFECTIVE_MACS; i < LAM_N_METRICS; i++)
        sum->n[o->phase][i] = lmi_count_add(sum->n[o->phase][i], told[i]);
    if (!fused) sum->masked |= 1u << LAM_BACKWARD;
    t->told[op] = TOLD_SUM;
    return LAM_OK;
}

/* -- masks without an operator around them ------------------------------------------------------- */

static lmi_weighs weighs(const lmi_work *w, int32_t op) {
    const lam_op_sig *sig = w->m->ops[op].sig;
    lmi_weighs *kept = &w->by_sig[sig->index].weighs;
    if (*kept != LMI_WEIGHS_NEW) return *kept;
    bool any = strcmp(sig->name, "aten::softmax") == 0 || strcmp(sig->name, "aten::_softmax") == 0;
    bool safely = strcmp(sig->name, "aten::_safe_softmax") == 0;
    return *kept = any ? LMI_WEIGHS_ANY : safely ? LMI_WEIGHS_SAFELY : LMI_WEIGHS_NONE;
}

/* The operator that ran directly before, in the same parent; NULL: none. */
static const lam_op *op_before(const lam_model *m, int32_t op) {
    const lam_op *o = &m->ops[op];
    int32_t at = op - 1;
    while (at >= 0 && m->ops[at].parent != o->parent) at = m->ops[at].parent;
    const lam_op *last = at >= 0 ? &m->ops[at] : NULL;
    return last && last->call == o->call && last->thread == o->thread && last->phase == o->phase ? last
                                                                                                 : NULL;
}

/* True for baddbmm with beta 0, which adds nothing, as bmm. */
static bool adds_nothing(const lam_op_sig *sig) {
    enum { BETA = 3 };
    const lam_value *v = lmi_sig_value(sig, BETA);
    return v && (v->type == LAM_FLOAT ? v->f == 0 : v->type == LAM_INT && v->i == 0);
}

/* True for the softmax of an attention that torch runs as separate operators, if a mask is added right before
 * it. torch does so under a dispatch mode, in an nn.MultiheadAttention that returns its weights too, and in
 * flex_attention in inference mode. */
static bool adds_mask(const lmi_work *w, int32_t op) {
    lmi_weighs how = weighs(w, op);
    const lam_op *last = how == LMI_WEIGHS_NONE ? NULL : op_before(w->m, op);
    if (!last) return false;
    const char *name = last->sig->name;
    /* flex_attention finds the greatest score before, or in an older torch the rows without any. */
    bool flex = strcmp(name, "aten::max") == 0 || strcmp(name, "aten::where") == 0;
    if (how == LMI_WEIGHS_SAFELY && flex) return !lmi_in_flex(w->m, op);
    if (how == LMI_WEIGHS_SAFELY) return strcmp(name, "aten::add") == 0 || strcmp(name, "aten::add_") == 0;
    return strcmp(name, "aten::baddbmm") == 0 && !adds_nothing(last->sig);
}

static void note_mask(lmi_work *w, const tally *t, int32_t op) {
    const lam_op *o = &w->m->ops[op];
    if (t->told[op] == TOLD_NOTHING && !(o->flags & LAM_OP_FAILED) && adds_mask(w, op))
        sum_of(w, op)->masked |= (uint8_t)(1u << o->phase | 1u << LAM_BACKWARD);
}

/* Makes effective counts unknown in the calls in which such an attention ran, since it is unknown which of
 * their products belong to it. */
static void forget_effective(lmi_work *w) {
    for (int32_t k = 0; k <= w->m->n_events; k++) {
        lmi_op_sum *sum = &w->by_call[k];
        for (int p = 0; sum->masked && p < LAM_N_PHASES; p++) {
            bool works = !is_nothing(sum->n[p][LAM_MACS]) || !is_nothing(sum->n[p][LAM_FLOPS]);
            for (int i = LAM_EFFECTIVE_MACS; works && sum->masked >> p & 1 && i < LAM_N_METRICS; i++)
                sum->n[p][i] = lmi_unknown();
        }
    }
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
static lam_status count_itself(lmi_work *w, tally *t, int32_t op, lam_error *e) {
    const lam_op *o = &w->m->ops[op];
    const lmi_rule *rule = o->flags & (LAM_OP_FAILED | LAM_OP_NODE) || !lmi_op_composite(o->sig->word)
                               ? NULL
                               : lmi_rule_for_op(w->cv, o->sig->word, o->sig->name);
    if (!rule || !rule->formula[LAM_FLOPS] || strcmp(rule->formula[LAM_FLOPS], "0") == 0) return LAM_OK;
    outcome got;
    LAM_TRY(of_op(w, op, rule, &got, e));
    if (!got.known || got.n[LAM_FLOPS].state != LAM_EXACT || got.n[LAM_FLOPS].n == 0) return LAM_OK;
    w->c->ops.role[op] = LMI_ROLE_COUNTED;
    add(w, t, op, got.n, true);
    return LAM_OK;
}

/* True if a mode or a tensor subclass ran other operators for it, or knew the result: then no operator around
 * it did this work. */
static bool is_answered(const lam_op *o) { return o->flags & LAM_OP_NODE && o->sig->word >= 0; }

/* True if a user-defined rule counts the layer that runs the operator. */
static bool layer_tells(const lmi_work *w, const lam_op *o) {
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

static lam_status count_all(lmi_work *w, tally *t, lam_error *e) {
    round_trip r = {-1, -1, false};
    uint8_t *role = w->c->ops.role;
    for (int32_t i = 0; i < w->m->n_ops; i++) {
        const lmi_rule *rule;
        const int32_t owner = lmi_op_owner(&w->m->ops[i]);
        t->told[i] = owner >= 0 ? t->told[owner] : TOLD_NOTHING;
        role[i] = LMI_ROLE_INSIDE;
        w->c->ops.back = w->c->ops.back || w->m->ops[i].phase != LAM_FORWARD;
        if (layer_tells(w, &w->m->ops[i]) || (w->untraced && w->untraced[i])) continue;
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
        if (role[i] == LMI_ROLE_THROUGH && !t->told[i]) LAM_TRY(tell_effective(w, t, i, e));
        if (w->c->has[LAM_EFFECTIVE_MACS]) note_mask(w, t, i);
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
static lam_status list_work(lmi_work *w, const tally *t, lam_error *e) {
    const lam_model *m = w->m;
    int32_t *list = lmi_alloc_none(&w->scratch, m->n_ops), lists = (m->n_events + 1) * LAM_N_PHASES;
    lmi_groups g;
    for (int32_t i = 0; list && i < m->n_ops; i++)
        if (t->costs[i]) list[i] = (int32_t)(sum_of(w, i) - w->by_call) * LAM_N_PHASES + m->ops[i].phase;
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
    tally t = {lmi_alloc(&w->scratch, n, sizeof(bool)), lmi_alloc(&w->scratch, n, sizeof(bool)),
               lmi_alloc(&w->scratch, n, sizeof(uint8_t))};
    w->c->ops.role = lmi_alloc(&w->c->arena, n, sizeof *w->c->ops.role);
    w->by_sig = lmi_alloc(&w->scratch, (uint64_t)w->m->n_op_sigs, sizeof *w->by_sig);
    w->by_call = lmi_alloc(&w->scratch, (uint64_t)w->m->n_events + 1, sizeof *w->by_call);
    if (!t.costs || !t.computes || !t.told || !w->c->ops.role || !w->by_call || !w->by_sig)
        return lmi_nomem(e);
    if (w->cv->sees == LMI_SEES_TRACED) LAM_TRY(lmi_untraced(w->m, &w->scratch, &w->untraced, e));
    LAM_TRY(count_all(w, &t, e));
    forget_effective(w);
    LAM_TRY(count_cut(w, e));
    return list_work(w, &t, e);
}

void lmi_ops_price(lmi_work *w, int32_t event, lmi_price *p) {
    const lam_event *ev = &w->m->events[event];
    const lmi_op_sum *sum = &w->by_call[event];
    for (int i = 0; i < LAM_N_METRICS; i++) p->metric[i] = lmi_settled(sum->n[LAM_FORWARD][i]);
    p->counted = sum->any || (ev->n_children_called == 0 && !lmi_plain_holder(&w->m->modules[ev->module]));
    p->cause = sum->unsure ? LMI_CAUSE_OP : LMI_CAUSE_NONE;
}

/* -- the other phases of the rows ---------------------------------------------------------------- */

/* Fills the row's backward and recomputed numbers. */
static void fill_phases(const lam_costs *c, lam_cost_row *row, const lmi_op_sum *own,
                        const lmi_op_sum *whole) {
    for (int i = 0; i < LAM_N_METRICS; i++) {
        row->backward[i] = lmi_settled(own->n[LAM_BACKWARD][i]);
        row->recompute[i] = lmi_settled(own->n[LAM_RECOMPUTE][i]);
        row->total_backward[i] = lmi_settled(whole->n[LAM_BACKWARD][i]);
        row->total_recompute[i] = lmi_settled(whole->n[LAM_RECOMPUTE][i]);
    }
    lmi_no_opinion(c, row->backward);
    lmi_no_opinion(c, row->recompute);
    lmi_no_opinion(c, row->total_backward);
    lmi_no_opinion(c, row->total_recompute);
}

static void unknown_phases(lam_cost_row *row) {
    for (int i = 0; i < LAM_N_METRICS; i++)
        row->backward[i] = row->recompute[i] = row->total_backward[i] = row->total_recompute[i] =
            lmi_unknown();
}

static void add_sum(lmi_op_sum *to, const lmi_op_sum *from) {
    for (int p = LAM_BACKWARD; p < LAM_N_PHASES; p++)
        for (int i = 0; i < LAM_N_METRICS; i++) to->n[p][i] = lmi_count_add(to->n[p][i], from->n[p][i]);
}

static void sum_phase(lmi_work *w, lam_phase p) {
    lam_count *total = w->c->ops.total[p];
    for (int32_t k = 0; k <= w->m->n_events; k++)
        for (int i = 0; i < LAM_N_METRICS; i++) total[i] = lmi_count_add(total[i], w->by_call[k].n[p][i]);
    for (int i = 0; i < LAM_N_METRICS; i++) total[i] = lmi_settled(total[i]);
    lmi_no_opinion(w->c, total);
}

/* True for a phase whose cost is known: a backward pass that did not run has none, and calls alone show none.
 */
static bool tells(const lmi_work *w, int phase) {
    return lmi_by_ops(w->c) && (phase == LAM_FORWARD || w->c->ops.back);
}

void lmi_ops_totals(lmi_work *w) {
    for (int p = 0; p < LAM_N_PHASES; p++) {
        if (tells(w, p)) sum_phase(w, (lam_phase)p);
        for (int i = 0; !tells(w, p) && p != LAM_FORWARD && i < LAM_N_METRICS; i++)
            w->c->ops.total[p][i] = lmi_unknown();
    }
}

/* Calls are numbered in the order in which they began, so a backward loop visits children before parents. */
static lam_status subtotals(lmi_work *w, lam_error *e) {
    const lam_model *m = w->m;
    lmi_op_sum *whole = lmi_copy(&w->scratch, w->by_call, (uint64_t)m->n_events + 1, sizeof *whole);
    lmi_op_sum none = {0};
    if (!whole) return lmi_nomem(e);
    for (int32_t i = m->n_events - 1; i >= 0; i--)
        if (m->events[i].parent >= 0) add_sum(&whole[m->events[i].parent], &whole[i]);
    for (int32_t r = 0; r < w->c->n_rows; r++) {
        lam_cost_row *row = &w->c->rows[r];
        int32_t at = row->event >= 0 ? row->event : m->n_events;
        bool ran = row->event >= 0 || lmi_is_outside(row);
        fill_phases(w->c, row, ran ? &w->by_call[at] : &none, ran ? &whole[at] : &none);
        const lam_module *mod = &m->modules[row->module];
        bool unseen = lmi_only_elsewhere(mod) || (row->never_called && lmi_is_inside(mod));
        if (!ran && unseen) unknown_phases(row);
    }
    return LAM_OK;
}

lam_status lmi_ops_rows(lmi_work *w, lam_error *e) {
    if (tells(w, LAM_BACKWARD)) return subtotals(w, e);
    for (int32_t r = 0; r < w->c->n_rows; r++) unknown_phases(&w->c->rows[r]);
    return LAM_OK;
}

void lmi_costs_op(const lam_costs *c, int32_t op, lam_count out[LAM_N_METRICS]) {
    const lmi_told *at = lmi_vec_at(&c->told, lmi_lower_bound(c->told.data, c->told.n, sizeof *at, op));
    if (at && at->op == op)
        memcpy(out, at->n, sizeof at->n);
    else
        lmi_count_op(c->convention, c->model, op, out);
    lmi_flex_effective(c->model, op, out);
}

/* -- public functions ---------------------------------------------------------------------------- */

lam_count lam_costs_phase_total(const lam_costs *c, lam_phase phase, lam_metric metric) {
    if ((unsigned)phase >= LAM_N_PHASES || (unsigned)metric >= LAM_N_METRICS) return lmi_unknown();
    return phase == LAM_FORWARD ? c->total[metric] : c->ops.total[phase][metric];
}

lam_status lam_costs_op(const lam_costs *c, int32_t op, lam_count out[LAM_N_METRICS], bool *counted,
                        lam_error *e) {
    const lam_op *o = lam_model_op(c->model, op);
    if (!o)
        return lmi_fail(e, LAM_RANGE, "lam_costs_op", "there is no operator %d; the model has %d", (int)op,
                        (int)c->model->n_ops);
    lmi_role role = lmi_by_ops(c) ? (lmi_role)c->ops.role[op] : LMI_ROLE_THROUGH;
    bool nothing = lmi_by_ops(c) && (o->flags & (LAM_OP_FAILED | LAM_OP_NODE | LAM_OP_VALUES));
    const lam_state state = o->flags & (LAM_OP_HIDES | LAM_OP_VALUES) ? LAM_UNKNOWN : LAM_EXACT;
    lmi_costs_op(c, op, out);
    for (int i = 0; nothing && i < LAM_N_METRICS; i++) out[i] = (lam_count){.state = state};
    if (counted) *counted = role == LMI_ROLE_COUNTED || role == LMI_ROLE_NO_RULE;
    return LAM_OK;
}

const char *lam_costs_unruled_op(const lam_costs *c, int32_t i, int32_t *n) {
    if (i < 0 || i >= c->ops.n_unruled) return NULL;
    if (n) *n = c->ops.unruled_runs[i];
    return c->ops.unruled[i];
}
