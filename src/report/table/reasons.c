/* SPDX-License-Identifier: Apache-2.0
 *
 * Below lamina's table: whether everything was counted, on one line. Each reason, ties, unused work and notes
 * follow if the options request them; else one line has their numbers. */
#include "report/table/report.h"

#include "analyse/flow/graph.h"

enum { NAMES = 3 }; /* names of operators or layers without a rule that are listed; the others are counted */

/* -- is it complete? ----------------------------------------------------------------------------------- */

/* An option by its name on the command line, or in Python. */
static const char *to_do(const lmi_job *j, const char *command, const char *python) {
    return j->o->command ? command : python;
}

static const char *by_exact(const lmi_job *j) { return to_do(j, "-c exact", "convention=\"exact\""); }

/* Layers are calls that do work themselves, in contrast to containers, which only call their children. */
typedef struct tally {
    int64_t known, all, never, elsewhere, inside;
    bool hidden; /* a forward may have done work that counting by layers does not see */
} tally;

static tally count_layers(const lam_costs *c) {
    tally t = {0};
    for (int32_t i = 0; i < lam_costs_n_rows(c); i++) {
        const lam_cost_row *r = &c->rows[i];
        const lam_module *mod = lam_model_module(c->model, r->module);
        bool there = r->never_called && lmi_only_elsewhere(mod);
        bool inside = r->never_called && !there && lmi_is_inside(mod);
        t.elsewhere += there;
        t.inside += inside;
        t.never += r->never_called && !there && !inside;
        if (r->event < 0) continue;
        t.hidden = t.hidden || c->prices[r->event].cause == LMI_CAUSE_HIDDEN;
        if (!r->counted) continue;
        bool known = true;
        for (int m = 0; m < LAM_EFFECTIVE_MACS; m++)
            known = known && (r->metric[m].state != LAM_UNKNOWN || !lmi_has_metric(c, (lam_metric)m));
        t.all++;
        t.known += known;
    }
    return t;
}

static tally count(const lam_costs *c) {
    tally t = count_layers(c);
    if (!lmi_by_ops(c)) return t;
    t.known = c->ops.known;
    t.all = (int64_t)c->ops.ran[LAM_FORWARD] + c->ops.ran[LAM_BACKWARD] + c->ops.ran[LAM_RECOMPUTE];
    return t;
}

/* Writes "3 of 44 operators have no rule: mylib::scale_mm (2), mylib::attn (1)"; returns how many names there
 * are. */
static int32_t put_unruled(lmi_items *s, const tally *t) {
    const lam_costs *c = s->j->c;
    bool ops = lmi_by_ops(c);
    int64_t sum = 0;
    int32_t runs, names = 0;
    for (; ops ? lam_costs_unruled_op(c, names, &runs) : lam_costs_unruled(c, names, &runs); names++)
        sum += runs;
    if (!names) return 0;
    lmi_putf(&s->text, "%lld of %lld %ss %s no rule: ", (long long)sum, (long long)t->all,
             ops ? "operator" : "layer", sum == 1 ? "has" : "have");
    for (int32_t i = 0; i < names && i < NAMES; i++) {
        const char *name = ops ? lam_costs_unruled_op(c, i, &runs) : lam_costs_unruled(c, i, &runs);
        if (i) lmi_put(&s->text, ", ");
        lmi_put_clean(&s->text, name);
        lmi_putf(&s->text, " (%d)", (int)runs);
    }
    if (names > NAMES) lmi_putf(&s->text, " and %d more", (int)names - NAMES);
    return names;
}

static int32_t n_gaps(const lam_costs *c) {
    int32_t n = 0;
    while (lam_costs_gap(c, n)) n++;
    return n;
}

/* The first reason of another kind: what has no rule is listed by name. */
static const char *first_other(const lam_costs *c) {
    const char *gap;
    for (int32_t i = 0; (gap = lam_costs_gap(c, i)) != NULL; i++)
        if (strncmp(gap, "no rule for ", strlen("no rule for ")) != 0) return gap;
    return NULL;
}

static void tell_where(lmi_items *s, bool unruled, int32_t left) {
    bool more = left > 0 && !s->j->o->why;
    if (!unruled && !more) return;
    if (unruled) lmi_put(&s->text, "docs/your-own-rules.md shows how to give one");
    if (unruled && more) lmi_put(&s->text, "; ");
    if (more) lmi_putf(&s->text, "%s lists every reason", to_do(s->j, "--why", "why=True"));
    lmi_items_send(s, LMI_DIM, "");
}

/* Returns how many reasons it did not list. */
static int32_t tell_incomplete(lmi_items *s, const tally *t, bool *unruled) {
    const lam_costs *c = s->j->c;
    int32_t names = put_unruled(s, t), left = n_gaps(c) - names;
    bool said = names > 0;
    if (c->model->cut) {
        lmi_put(&s->text, said ? "; " : "");
        lmi_put_clean(&s->text, c->model->cut);
        said = true;
    }
    if (t->hidden) {
        lmi_putf(&s->text, "%swork outside layers is not seen; %s counts it", said ? "; " : "",
                 by_exact(s->j));
        said = true;
    } else if (names > 0 && !lmi_by_ops(c)) {
        lmi_putf(&s->text, "; %s counts by operators", by_exact(s->j));
    }
    if (!said) {
        const char *gap = first_other(c);
        lmi_put_clean(&s->text, gap ? gap : "some numbers are not known");
        left--;
    }
    lmi_items_send(s, LMI_WARN, "incomplete");
    *unruled = names > 0;
    return left > names - NAMES ? left : names - NAMES;
}

/* A tool that counts work without a rule as 0 is never complete, but its numbers are never uncertain. */
static int32_t tell_taken_for_nothing(lmi_items *s, const tally *t) {
    int32_t names = put_unruled(s, t);
    lmi_putf(&s->text, "%s%s takes what it has no rule for as 0", names ? "; " : "",
             s->j->c->convention->name);
    lmi_items_send(s, NULL, "counted");
    return n_gaps(s->j->c) - (names < NAMES ? names : NAMES);
}

static void tell_idle(lmi_items *s, int64_t n, const char *one, const char *more, bool warn) {
    if (n == 0) return;
    lmi_putf(&s->text, "%lld layer%s", (long long)n, n == 1 ? one : more);
    lmi_items_send(s, warn ? LMI_WARN : NULL, NULL);
}

void lmi_items_complete(lmi_items *s) {
    const lam_costs *c = s->j->c;
    tally t = count(c);
    bool gaps = lam_costs_gap(c, 0) != NULL, unruled = false;
    const bool file = c->model->of_file; /* nothing ran */
    int32_t left = 0;
    if (c->none_called) {
        lmi_put(&s->text, lam_costs_gap(c, 0));
        lmi_items_send(s, LMI_WARN, "incomplete");
        return;
    }
    if (c->convention->no_rule == LMI_NR_NOTHING && (gaps || t.known < t.all)) {
        left = tell_taken_for_nothing(s, &t);
    } else if (gaps || t.known < t.all) {
        left = tell_incomplete(s, &t, &unruled);
    } else if (lmi_by_ops(c)) {
        lmi_putf(&s->text, "every operator %s is counted (%lld of %lld)", file ? "of the graph" : "that ran",
                 (long long)t.known, (long long)t.all);
        lmi_items_send(s, NULL, "complete");
    } else {
        bool all = c->convention->hidden == LMI_HIDDEN_AT_LEAST;
        lmi_putf(&s->text, "every layer that %s is counted (%lld of %lld)", file ? "the graph calls" : "ran",
                 (long long)t.known, (long long)t.all);
        if (!all) lmi_putf(&s->text, "; work outside layers is not seen, %s counts it", by_exact(s->j));
        lmi_items_send(s, NULL, all ? "complete" : "counted");
    }
    tell_idle(s, t.never, file ? " is never called" : " was never called",
              file ? "s are never called" : "s were never called", true);
    tell_idle(s, t.elsewhere, " was called by other threads alone", "s were called by other threads alone",
              true);
    tell_idle(s, t.inside,
              file ? " is not seen: values decide, or the file does not tell, whether it runs"
                   : " is inside scripted, traced or compiled code, which shows no calls",
              file ? "s are not seen: values decide, or the file does not tell, whether they run"
                   : "s are inside scripted, traced or compiled code, which shows no calls",
              false);
    tell_where(s, unruled, left);
}

/* -- with `why`: each reason --------------------------------------------------------------------------- */

static void tell_ties(lmi_items *s) {
    const lam_model *m = s->j->m;
    bool any = false;
    bool once = s->j->c->convention->params != LMI_OF_MODULE;
    for (int32_t i = 0; i < lam_model_n_modules(m); i++) {
        const lam_module *mod = lam_model_module(m, i);
        for (int32_t k = 0; k < mod->n_owned; k++) {
            const lam_tensor *t = lam_model_tensor(m, mod->owned[k].tensor);
            if (t->owner < 0 || t->owner == i) continue;
            const lam_module *owner = lam_model_module(m, t->owner);
            lmi_put_tensor(&s->text, m, mod, mod->owned[k].name);
            lmi_put(&s->text, " is ");
            lmi_put_tensor(&s->text, m, owner, lmi_name_in(owner, mod->owned[k].tensor));
            lmi_put(&s->text, once ? ", counted once" : ", counted in each layer");
            lmi_items_send(s, NULL, any ? "" : "tied");
            any = true;
        }
    }
}

static void tell_gaps(lmi_items *s) {
    const char *gap;
    for (int32_t i = 0; (gap = lam_costs_gap(s->j->c, i)) != NULL; i++) {
        lmi_put_clean(&s->text, gap);
        lmi_items_send(s, LMI_WARN, i ? "" : "why");
    }
}

/* Adds the findings of the data-flow graph: layers whose results were not used, and parameters that require a
 * gradient and get none, except those that were never called or are frozen, which are shown elsewhere. `why`:
 * lists each; else only counts them. */
static lam_status tell_graph(lmi_items *s, int64_t *vain, int64_t *deaf) {
    lam_graph *g = NULL;
    const char *path, *reason;
    bool why = s->j->o->why;
    if (!lam_model_ops_seen(s->j->m) || !lam_model_traced(s->j->m) || s->j->m->described) return LAM_OK;
    LAM_TRY(lmi_graph_found(&g, s->j->m, s->j->e));
    for (int32_t i = 0; (path = lam_graph_unused(g, i, &reason)) != NULL; i++) {
        if (strcmp(reason, LMI_WHY_NEVER_CALLED) == 0) continue;
        ++*vain;
        if (!why) continue;
        lmi_put_clean(&s->text, *path ? path : "the model itself");
        lmi_put(&s->text, ": ");
        lmi_put_clean(&s->text, reason);
        lmi_items_send(s, LMI_WARN, *vain > 1 ? "" : "unused");
    }
    for (int32_t i = 0; (path = lam_graph_no_gradient(g, i, &reason)) != NULL; i++) {
        if (strcmp(reason, LMI_WHY_FROZEN) == 0 || strcmp(reason, LMI_WHY_OF_NEVER_CALLED) == 0) continue;
        ++*deaf;
        if (!why) continue;
        lmi_put_clean(&s->text, path);
        lmi_put(&s->text, " gets no gradient: ");
        lmi_put_clean(&s->text, reason);
        lmi_items_send(s, LMI_WARN, *vain + *deaf > 1 ? "" : "unused");
    }
    lam_graph_free(g);
    return LAM_OK;
}

static void tell_notes(lmi_items *s) {
    static const char untraced[] =
        "not known: which outputs are unused, and which parameters get no gradient: this "
        "torch does not tell whose memory a tensor has";
    bool any = lam_model_n_notes(s->j->m) > 0;
    for (int32_t i = 0; i < lam_model_n_notes(s->j->m); i++) {
        lmi_put_clean(&s->text, lam_model_note(s->j->m, i));
        lmi_items_send(s, NULL, i ? "" : "notes");
    }
    if (!lam_model_ops_seen(s->j->m) || lam_model_traced(s->j->m)) return;
    lmi_put(&s->text, untraced);
    lmi_items_send(s, NULL, any ? "" : "notes");
}

static void put_number_of(lmi_buf *b, int64_t n, const char *one, const char *several) {
    if (n == 0) return;
    lmi_putf(b, "%s%lld %s", b->n ? ", " : "", (long long)n, n == 1 ? one : several);
}

/* Adds the numbers of other findings and notes; a single note is shown itself, as it takes no more room. */
static void tell_numbers(lmi_items *s, int64_t vain, int64_t deaf) {
    lmi_buf *b = &s->text;
    if (!vain && !deaf && lam_model_n_notes(s->j->m) == 1) {
        tell_notes(s);
        return;
    }
    put_number_of(b, vain, "layer with an unused output", "layers with unused outputs");
    put_number_of(b, deaf, "parameter gets no gradient", "parameters get no gradient");
    put_number_of(b, lam_model_n_notes(s->j->m), "note", "notes");
    if (!b->n) return;
    lmi_putf(b, ": %s shows them", to_do(s->j, "--why", "why=True"));
    lmi_items_send(s, vain || deaf ? LMI_WARN : LMI_DIM, "notes");
}

lam_status lmi_items_reasons(lmi_items *s) {
    int64_t vain = 0, deaf = 0;
    bool why = s->j->o->why;
    if (why) tell_ties(s);
    if (why) tell_gaps(s);
    LAM_TRY(tell_graph(s, &vain, &deaf));
    if (why)
        tell_notes(s);
    else
        tell_numbers(s, vain, deaf);
    return LAM_OK;
}
