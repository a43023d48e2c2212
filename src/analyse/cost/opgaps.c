/* SPDX-License-Identifier: Apache-2.0
 *
 * Reasons why a rule gave no number, and the names of operators with unknown counts: those without a rule,
 * and those whose rule gave no number. */
#include "analyse/cost/work.h"

bool lmi_names_fact(const char *formula, int32_t fact) {
    static const char inside[] = "abcdefghijklmnopqrstuvwxyz_0123456789";
    const char *name = lam_fact_name(fact);
    size_t n = strlen(name);
    for (const char *s = formula ? strstr(formula, name) : NULL; s; s = strstr(s + 1, name))
        if ((s == formula || !strchr(inside, s[-1])) && (!s[n] || !strchr(inside, s[n]))) return true;
    return false;
}

/* The first unknown fact that the formula names; NULL if every fact in it is known. */
static const char *missing_fact(const char *formula, const lmi_facts *facts) {
    for (int32_t i = 0; i < LMI_N_FACTS; i++)
        if (!facts->known[i] && lmi_names_fact(formula, i)) return lam_fact_name(i);
    return NULL;
}

void lmi_put_missing(lmi_buf *b, const lmi_rule *rule, const lmi_facts *facts,
                     const lam_count n[LAM_N_METRICS], const char *teller) {
    const char *formula = NULL, *kind = lmi_rule_name(rule);
    int missing = 0;
    bool least = false; /* a number is a lower bound: it is known not to be complete */
    for (int i = LAM_N_METRICS - 1; i >= 0; i--)
        if (n[i].state != LAM_EXACT && (rule->formula[i] || rule->name)) {
            missing = i;
            least = n[i].state == LAM_AT_LEAST;
        }
    formula = rule->formula[missing];
    const char *fact = formula ? missing_fact(formula, facts) : NULL;
    if (fact && rule->kind == LMI_K_grouped_mm)
        lmi_put(b, n[LAM_MACS].state == LAM_EXACT
                       ? "which of its groups are empty, and so what it reads, was not seen"
                       : "where its groups end are values that were not read");
    else if (fact)
        lmi_putf(b, "the formula of %s needs `%s`, which %s", kind, fact, teller);
    else if (formula && lmi_kind_family(rule->kind) == LMI_F_op && (least || strcmp(formula, "unknown") == 0))
        lmi_put(b, lmi_kind_doc(rule->kind)); /* the kind's description gives the reason */
    else if (rule->name && !formula && !least)
        lmi_putf(b, "your rule for %s gives no %s here", kind, lam_metric_name((lam_metric)missing));
    else if (least)
        lmi_putf(b, "the rule of %s is a lower bound", kind);
    else if (formula && strstr(formula, "unknown"))
        lmi_putf(b, "the rule of %s gives no number for this case", kind);
    else
        lmi_putf(b, "the formula of %s gives too large a number or divides by 0", kind);
}

static const char *reason_for(lmi_work *w, const lmi_op_group *g, const lmi_facts *facts,
                              const lam_count n[LAM_N_METRICS]) {
    lmi_buf b;
    lmi_buf_init(&b);
    if (g->unseen == LMI_UNSEEN_FUSED && strstr(g->name, "::")) {
        lmi_putf(&b,
                 "the operator %s ran by redispatch(), which torch keeps no record of: what it did is not "
                 "seen; call the operator itself",
                 g->name);
        return lmi_buf_keep(&b, &w->c->arena);
    }
    if (g->unseen == LMI_UNSEEN_FUSED) {
        lmi_put(&b, "compiled code (");
        lmi_put_clean(&b, g->name);
        lmi_put(&b, "): what the compiler fused into kernels of its own is not seen");
        return lmi_buf_keep(&b, &w->c->arena);
    }
    if (g->unseen == LMI_UNSEEN_OUTSIDE) {
        lmi_put(&b, "data went out to numpy or the like and came back: what was computed there is not seen");
        return lmi_buf_keep(&b, &w->c->arena);
    }
    if (g->unseen == LMI_UNSEEN_VALUES) {
        lmi_put_clean(&b, g->name);
        lmi_put(&b, ": a real run goes another way through it than a dry one, which has no values");
        return lmi_buf_keep(&b, &w->c->arena);
    }
    if (g->unseen == LMI_UNSEEN_ORDER) {
        lmi_put_clean(&b, g->name);
        lmi_put(&b,
                ": this torch selects the values in a kernel that is no operator: what that did is not seen");
        return lmi_buf_keep(&b, &w->c->arena);
    }
    if (g->unseen == LMI_UNSEEN_TANGENT) {
        lmi_putf(
            &b,
            "the operator %s: forward-mode AD computed a tangent inside it, of a view whose base got one "
            "later; what that took is not seen",
            g->name);
        return lmi_buf_keep(&b, &w->c->arena);
    }
    bool nothing = !g->rule && w->cv->no_rule == LMI_NR_NOTHING;
    if (!g->rule) lmi_put(&b, "no rule for ");
    lmi_put(&b, "the operator ");
    lmi_put_clean(&b, g->name);
    if (nothing) lmi_put(&b, ", which the tool takes for 0");
    if (g->rule) {
        lmi_put(&b, ": ");
        lmi_put_missing(&b, g->rule, facts, n, "its arguments do not tell");
    }
    return lmi_buf_keep(&b, &w->c->arena);
}

/* Equal names are one text in the model, so its address identifies a name; the last bit is the cause. */
static uint64_t key_of(const char *name, const lmi_rule *rule) {
    return ((uint64_t)(uintptr_t)name << 1) | (rule != NULL);
}

/* The name that a reason uses: for operators that values decide, that of the node around them, if any. */
static const char *name_of(const lam_model *m, int32_t op, lmi_unseen unseen) {
    const lam_op *o = &m->ops[op];
    bool by_node = unseen == LMI_UNSEEN_VALUES && o->parent >= 0 && m->ops[o->parent].flags & LAM_OP_NODE;
    return by_node ? m->ops[o->parent].sig->name : o->sig->name;
}

lam_status lmi_op_unsure(lmi_work *w, int32_t op, const lmi_rule *rule, const lmi_facts *facts,
                         const lam_count n[LAM_N_METRICS], lmi_unseen unseen, int32_t *group, lam_error *e) {
    const char *name = name_of(w->m, op, unseen);
    int64_t at = lmi_map_get_u64(&w->op_by_name, key_of(name, rule));
    if (at < 0) {
        lmi_op_group fresh = {.name = name, .rule = rule, .unseen = unseen};
        at = (int64_t)w->op_groups.n;
        fresh.reason = reason_for(w, &fresh, facts, n);
        if (!fresh.reason) return lmi_nomem(e);
        LAM_TRY(lmi_vec_put(&w->op_groups, &fresh, e));
        LAM_TRY(lmi_map_put_u64(&w->op_by_name, key_of(name, rule), at, e));
    }
    lmi_op_group *g = lmi_vec_at(&w->op_groups, (size_t)at);
    int64_t most = facts && n && n[LAM_MACS].state != LAM_EXACT ? lmi_fact_get(facts, LMI_FACT_most) : -1;
    if (most >= 0) g->most = lam_count_add(g->most, lmi_exact(most));
    g->runs++;
    *group = (int32_t)at;
    return LAM_OK;
}

lam_status lmi_cut_short(lmi_work *w, int32_t *group, lam_error *e) {
    const lmi_op_group g = {.name = w->m->cut, .unseen = LMI_UNSEEN_CUT, .runs = 1, .reason = w->m->cut};
    *group = (int32_t)w->op_groups.n;
    return lmi_vec_put(&w->op_groups, &g, e);
}

static const char *gap_of(lmi_work *w, const lmi_op_group *g) {
    if (g->unseen == LMI_UNSEEN_CUT) return g->reason;
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_putf(&b, "%s (%d run%s", g->reason, (int)g->runs, g->runs == 1 ? "" : "s");
    if (!lmi_is_zero(g->most)) {
        char most[48];
        lam_text_digits(most, sizeof most, g->most);
        lmi_putf(&b, ", at most %s MACs", most);
    }
    lmi_putc(&b, ')');
    return lmi_buf_keep(&b, &w->c->arena);
}

static bool lacks_rule(const lmi_op_group *g) { return !g->rule && !g->unseen; }

lam_status lmi_op_gaps(lmi_work *w, int32_t from, lam_error *e) {
    lam_costs *c = w->c;
    lmi_op_costs *o = &c->ops;
    o->unruled = lmi_alloc(&c->arena, w->op_groups.n, sizeof *o->unruled);
    o->unruled_runs = lmi_alloc(&c->arena, w->op_groups.n, sizeof *o->unruled_runs);
    if (!o->unruled || !o->unruled_runs) return lmi_nomem(e);
    /* Names without a rule come last: a table shows them on one line, and each other reason on its own. */
    for (int unruled = 0; unruled < 2; unruled++) {
        for (size_t i = 0; i < w->op_groups.n; i++) {
            const lmi_op_group *g = lmi_vec_at(&w->op_groups, i);
            if (lacks_rule(g) != (bool)unruled) continue;
            c->gaps[from] = gap_of(w, g);
            if (!c->gaps[from++]) return lmi_nomem(e);
            c->n_gaps++;
            if (!unruled) continue;
            o->unruled[o->n_unruled] = g->name;
            o->unruled_runs[o->n_unruled++] = g->runs;
        }
    }
    return LAM_OK;
}
