/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of one call alone: its rule, the numbers, and the reason why they are not exact. */
#include "analyse/cost/work.h"

const char *lmi_formula_used(const lmi_rule *rule, lam_metric metric, bool released, const lmi_facts *facts) {
    const char *text = released ? rule->released[metric] : NULL;
    lmi_formula f;
    if (text && lmi_formula_parse(&f, text, NULL) == LAM_OK &&
        lmi_formula_run(&f, facts).state != LAM_UNKNOWN)
        return text;
    return rule->formula[metric];
}

/* -- which calls count ------------------------------------------------------------------------- */

/* True for a kind whose layers do work themselves: all but containers and composites, whose work is that of
 * the layers inside. */
static bool works_itself(const lmi_rule *r) {
    lmi_family family = lmi_kind_family(r->kind);
    if (r->name) return true;
    return family != LMI_F_hold && family != LMI_F_attention;
}

/* True for a layer under torch.nn.utils.parametrize, which adds children to it and replaces its class by a
 * subclass with the same forward: it is no longer a leaf, but still does its layer's work. */
static bool parametrized(const lam_module *mod, const lmi_rule *r) {
    return r && works_itself(r) && !(mod->flags & (LAM_MODULE_EXACT | LAM_MODULE_OWN_FORWARD));
}

/* True if torch ran the layer as one kernel, which the tool would have prevented. */
static bool fused(const lmi_work *w, const lam_event *ev) {
    const lam_module *mod = &w->m->modules[ev->module];
    return lmi_unfused(w->cv) && lmi_word_kind(mod->word) == LMI_K_encoder_layer &&
           !(mod->flags & LAM_MODULE_OWN_FORWARD) && ev->n_children_called == 0 &&
           w->m->places[ev->place].n_children > 0;
}

/* True for calls whose inside the tool counts and this run did not observe. */
static bool closed(const lmi_work *w, const lam_event *ev) {
    return lmi_is_opaque_call(w->m, ev) || fused(w, ev);
}

static bool counts(const lmi_work *w, const lam_event *ev, const lmi_rule *r) {
    const lam_module *mod = &w->m->modules[ev->module];
    if (closed(w, ev)) return true;
    bool alone = ev->n_children_called == 0;
    if (w->cv->which == LMI_CHILDLESS) return w->m->places[ev->place].n_children == 0;
    if (lmi_plain_holder(mod)) return false;
    if (w->cv->which == LMI_LEAF) {
        if (mod->flags & LAM_MODULE_LEAF) return true;
        /* A layer that uses the weights of its children without calling them, as MultiheadAttention does. */
        if (w->c->released) return parametrized(mod, r) || alone;
        return (r && works_itself(r)) || alone;
    }
    return (r && lmi_kind_family(r->kind) != LMI_F_hold) || alone;
}

/* -- numbers ----------------------------------------------------------------------------------- */

static void worsen(lmi_call_cost *p, lam_state state, lmi_cause cause) {
    for (int i = 0; i < LAM_N_METRICS; i++) {
        lam_count *n = &p->metric[i];
        if (n->state < state) *n = lmi_settled((lam_count){n->n, n->over, state});
    }
    p->cause = (uint8_t)cause;
}

/* Makes the numbers lower bounds; an earlier cause stays. */
static void doubt(lmi_call_cost *p, lmi_cause cause) {
    worsen(p, LAM_AT_LEAST, p->cause ? (lmi_cause)p->cause : cause);
}

/* A container's own metrics are 0; work that its forward does besides calling children is not observed. */
static void price_container(const lmi_work *w, const lam_event *ev, lmi_call_cost *p) {
    if (!lmi_plain_holder(&w->m->modules[ev->module]) && w->cv->hidden == LMI_HIDDEN_AT_LEAST)
        worsen(p, LAM_AT_LEAST, LMI_CAUSE_HIDDEN);
    if (ev->flags & LAM_CALL_FAILED) worsen(p, LAM_AT_LEAST, LMI_CAUSE_FAILED);
}

/* Sets the metrics for which the call's rule has a formula; the others stay. */
static lam_status run_rule(lmi_work *w, int32_t event, lmi_call_cost *p, const lmi_rule_code **code,
                           lam_error *e) {
    lmi_facts facts;
    LAM_TRY(lmi_rule_code_of(w->cv, p->rule, code, e));
    lmi_facts_of(w->m, event, &facts);
    lmi_rule_run(*code, w->c->released, &facts, p->metric);
    return LAM_OK;
}

static lam_status price_by_rule(lmi_work *w, int32_t event, lmi_call_cost *p, lam_error *e) {
    const lam_event *ev = &w->m->events[event];
    const lmi_rule_code *code;
    lmi_set_unknown(p->metric);
    LAM_TRY(run_rule(w, event, p, &code, e));
    for (int i = 0; i < LAM_N_METRICS; i++) {
        const bool given = code->formula[i] || (w->c->released && code->released[i]);
        if (given && p->metric[i].state == LAM_UNKNOWN)
            p->cause = ev->flags & LAM_CALL_FAILED ? LMI_CAUSE_FAILED : LMI_CAUSE_FACT;
    }
    bool own = w->m->modules[ev->module].flags & LAM_MODULE_OWN_FORWARD;
    if (own && w->cv->hidden == LMI_HIDDEN_AT_LEAST) doubt(p, LMI_CAUSE_OWN_FORWARD);
    return LAM_OK;
}

/* Adds the count of the layer's hook to those of the functions that were called in it. */
static lam_status price_by_hook(lmi_work *w, int32_t event, lmi_call_cost *p, lam_error *e) {
    lmi_call_cost own = {.rule = lmi_rule_for(w->cv, &w->m->modules[w->m->events[event].module])};
    if (!own.rule) return LAM_OK;
    LAM_TRY(price_by_rule(w, event, &own, e));
    p->places = w->added ? w->added[w->m->events[event].module] : 1;
    for (int32_t k = 0; k < p->places; k++)
        for (int i = 0; i < LAM_N_METRICS; i++)
            p->metric[i] = lmi_settled(lmi_count_add(p->metric[i], own.metric[i]));
    p->rule = own.rule;
    if (!p->places) own.cause = LMI_CAUSE_NONE;
    p->counted = true;
    if (!p->cause) p->cause = own.cause;
    return LAM_OK;
}

/* Applies a user-defined rule: its numbers are complete, even if the layer's class may hide work. */
static lam_status price_own(lmi_work *w, int32_t event, lmi_call_cost *p, lam_error *e) {
    const lam_event *ev = &w->m->events[event];
    const lmi_rule_code *code;
    lmi_ask(w, -1, event, p->rule, p->metric);
    LAM_TRY(run_rule(w, event, p, &code, e));
    for (int i = 0; i < LAM_N_METRICS; i++) {
        p->metric[i] = lmi_op_count(p->metric[i]);
        /* Bytes that the rule does not give are no cause: their columns show `?`. */
        if (p->metric[i].state == LAM_UNKNOWN && w->c->has[i] && i <= LAM_DMAS)
            p->cause = ev->flags & LAM_CALL_FAILED ? LMI_CAUSE_FAILED : LMI_CAUSE_FACT;
    }
    lmi_own_effective(p->metric);
    return LAM_OK;
}

static bool price_custom(const lmi_work *w, int32_t event, lmi_call_cost *p) {
    lam_count out[LAM_N_METRICS];
    bool omit = false;
    lmi_set_unknown(out);
    if (!w->o->custom || !w->o->custom(w->o->custom_self, w->m, event, out, &omit)) return false;
    p->custom = true;
    p->omit = omit;
    p->counted = !omit;
    for (int i = 0; i < LAM_N_METRICS; i++) p->metric[i] = omit ? lmi_exact(0) : out[i];
    lmi_own_effective(p->metric);
    return true;
}

static lam_status price_seen(lmi_work *w, int32_t event, lam_error *e) {
    lmi_call_cost *p = &w->c->prices[event];
    const lam_event *ev = &w->m->events[event];
    const lam_module *mod = &w->m->modules[ev->module];
    if (price_custom(w, event, p)) return LAM_OK;
    if (lmi_by_ops(w->c)) {
        lmi_ops_price(w, event, p);
        p->rule = w->cv->which == LMI_OPS ? lmi_own_layer(w, event) : NULL;
        p->counted = p->counted || p->rule;
        if (p->rule) LAM_TRY(price_own(w, event, p, e));
        if (w->cv->which == LMI_HOOKS) LAM_TRY(price_by_hook(w, event, p, e));
        bool failed = (ev->flags & (LAM_CALL_FAILED | LAM_CALL_AGAIN)) == LAM_CALL_FAILED;
        if (failed) doubt(p, LMI_CAUSE_FAILED);
        return LAM_OK;
    }
    p->rule = lmi_rule_for(w->cv, mod);
    p->counted = counts(w, ev, p->rule);
    p->omit = w->c->released && w->cv->no_rule == LMI_NR_OMIT && (!p->counted || !p->rule) && !closed(w, ev);
    if (p->omit) return LAM_OK;
    if (p->rule && p->rule->name) {
        p->counted = true;
        LAM_TRY(price_own(w, event, p, e));
    } else if (!p->counted) {
        price_container(w, ev, p);
    } else if (mod->flags & LAM_MODULE_OPAQUE) {
        worsen(p, LAM_UNKNOWN, LMI_CAUSE_OPAQUE);
    } else if (fused(w, ev)) {
        worsen(p, LAM_UNKNOWN, LMI_CAUSE_FUSED);
    } else if (!p->rule) {
        worsen(p, LAM_UNKNOWN, LMI_CAUSE_NO_RULE);
    } else {
        LAM_TRY(price_by_rule(w, event, p, e));
    }
    return LAM_OK;
}

static lam_status price_event(lmi_work *w, int32_t event, lam_error *e) {
    lmi_call_cost *p = &w->c->prices[event];
    LAM_TRY(price_seen(w, event, e));
    bool elsewhere = (w->m->events[event].flags & LAM_CALL_ELSEWHERE) && !w->c->released;
    if (elsewhere && !p->custom) doubt(p, LMI_CAUSE_ELSEWHERE);
    bool strangers = (w->m->events[event].flags & LAM_CALL_STRANGERS) && !w->c->released && !lmi_by_ops(w->c);
    if (strangers && !p->custom) doubt(p, LMI_CAUSE_STRANGERS);
    if ((w->m->events[event].flags & LAM_CALL_LATER) && !p->custom) {
        p->omit = false; /* the row must show that its work is unknown */
        worsen(p, LAM_AT_LEAST, LMI_CAUSE_LATER);
    }
    if ((w->m->events[event].flags & LAM_CALL_HIDES) && lmi_by_ops(w->c)) doubt(p, LMI_CAUSE_KERNEL);
    if (w->m->calls_cut && !lmi_by_ops(w->c) && !p->omit) doubt(p, LMI_CAUSE_CUT);
    return LAM_OK;
}

lam_status lmi_price_events(lmi_work *w, lam_error *e) {
    lam_costs *c = w->c;
    c->prices = lmi_alloc(&c->arena, (uint64_t)w->m->n_events, sizeof *c->prices);
    if (!c->prices) return lmi_nomem(e);
    int32_t group;
    LAM_TRY(lmi_added_places(w, e));
    if (w->m->calls_cut && !lmi_by_ops(c)) LAM_TRY(lmi_cut_short(w, &group, e));
    for (int32_t i = 0; i < w->m->n_events; i++) {
        LAM_TRY(price_event(w, i, e));
        lmi_no_opinion(c, c->prices[i].metric);
    }
    return LAM_OK;
}
