/* SPDX-License-Identifier: Apache-2.0
 *
 * Gaps: a reason for each row that is not exact, one sentence for each cause and class, and the classes that
 * have no rule. */
#include "analyse/cost/work.h"

enum { MAX_NAMES = 3 };

static const char none_called[] = "no layer of the model was called while the capture was open";

static const char *type_of(const lmi_work *w, int32_t module) {
    const char *type = w->m->modules[module].type;
    return type && *type ? type : "?";
}

/* Classes of the same name from different files are different classes. */
static const char *class_key(const lmi_work *w, int32_t module) {
    const char *path = w->m->modules[module].type_path;
    return path && *path ? path : type_of(w, module);
}

static void plural(lmi_buf *b, int32_t n, const char *one) {
    lmi_putf(b, "%d %s%s", (int)n, one, n == 1 ? "" : "s");
}

/* -- groups ------------------------------------------------------------------------------------ */

static lam_status group_of(lmi_work *w, lmi_cause cause, int32_t module, int32_t place, lmi_group **out,
                           lam_error *e) {
    const char *key = class_key(w, module);
    int64_t at = lmi_map_get(&w->by_type[cause], key);
    if (at >= 0) {
        *out = lmi_vec_at(&w->groups, (size_t)at);
        return LAM_OK;
    }
    at = (int64_t)w->groups.n;
    lmi_group *g = lmi_vec_push(&w->groups);
    if (!g) return lmi_nomem(e);
    *g = (lmi_group){.cause = cause, .module = module, .place = place};
    *out = g;
    return lmi_map_put(&w->by_type[cause], key, at, e);
}

static void say_fact(const lmi_work *w, int32_t event, lmi_buf *b) {
    const lmi_call_cost *p = &w->c->prices[event];
    lmi_facts facts;
    lmi_facts_of(w->m, event, &facts);
    lmi_put_missing(b, p->rule, &facts, p->metric, "this call does not tell");
}

static void say_reason(const lmi_work *w, const lmi_group *g, int32_t event, lmi_buf *b) {
    switch (g->cause) {
    case LMI_CAUSE_HIDDEN: lmi_put(b, LMI_HIDDEN_WORK); break;
    case LMI_CAUSE_OWN_FORWARD:
        lmi_putf(b, "its forward is its own, so the rule of %s may miss work",
                 lam_word_name(w->m->modules[g->module].word));
        break;
    case LMI_CAUSE_ELSEWHERE:
        lmi_put(b,
                "another thread called layers of the model during the run, and what ran there is not seen");
        break;
    case LMI_CAUSE_STRANGERS:
        lmi_put(
            b,
            "it called layers that were not the model's when the capture opened, and what they computed is "
            "not counted");
        break;
    case LMI_CAUSE_LATER:
        lmi_put(b, "its forward is a generator or a coroutine: calling it runs nothing of it; iterate over "
                   "what it gives, or await it, in a capture");
        break;
    case LMI_CAUSE_KERNEL:
        lmi_put(b, "its scripted code runs fused kernels that are not operators, and their work is not seen");
        break;
    case LMI_CAUSE_FAILED: lmi_put(b, "it raised, so what it would have computed is not known"); break;
    case LMI_CAUSE_FACT: say_fact(w, event, b); break;
    case LMI_CAUSE_OPAQUE:
        lmi_put(b, "it is scripted, traced or compiled, and its inside is not seen by calls");
        break;
    case LMI_CAUSE_FUSED:
        lmi_putf(b, "it ran as one kernel, and %s makes the layers inside run one by one", w->cv->name);
        break;
    default: lmi_put(b, "no rule for "); lmi_put_clean(b, type_of(w, g->module));
    }
}

/* Sets the reason of the row's first operator with unknown counts. */
static void reason_by_ops(const lmi_work *w, lam_cost_row *row) {
    int32_t unsure = w->by_call[row->event >= 0 ? row->event : w->m->n_events].unsure;
    if (unsure) row->reason = ((const lmi_op_group *)lmi_vec_at(&w->op_groups, (size_t)unsure - 1))->reason;
}

static lam_status reason_of_row(lmi_work *w, lam_cost_row *row, lam_error *e) {
    const lmi_call_cost *p = row->event >= 0 ? &w->c->prices[row->event] : NULL;
    if (lmi_is_outside(row) || (p && p->cause == LMI_CAUSE_OP)) reason_by_ops(w, row);
    if (p && p->cause == LMI_CAUSE_CUT) row->reason = w->m->cut;
    if (p && (p->cause == LMI_CAUSE_OP || p->cause == LMI_CAUSE_CUT)) return LAM_OK;
    if (!p || p->cause == LMI_CAUSE_NONE) return LAM_OK;
    lmi_group *g;
    LAM_TRY(group_of(w, (lmi_cause)p->cause, row->module, row->place, &g, e));
    g->calls++;
    if (!g->reason) {
        lmi_buf b;
        lmi_buf_init(&b);
        say_reason(w, g, row->event, &b);
        g->reason = lmi_buf_keep(&b, &w->c->arena);
        if (!g->reason) return lmi_nomem(e);
    }
    row->reason = g->reason;
    return LAM_OK;
}

/* Notes parameters that no rule has counted, if the convention reports hidden work: those of a container, or
 * of a part that was never called. */
static lam_status unused_of_row(lmi_work *w, const lam_cost_row *row, lam_error *e) {
    if (w->cv->hidden != LMI_HIDDEN_AT_LEAST || w->c->released) return LAM_OK;
    const lam_module *mod = &w->m->modules[row->module];
    bool holds = row->params.n > 0 || row->params.over > 0;
    bool container = row->event >= 0 && !row->counted && !lmi_plain_holder(mod);
    bool never = row->never_called && !lmi_only_elsewhere(mod) && !lmi_is_inside(mod);
    if (!holds || (!never && !container)) return LAM_OK;
    lmi_group *g;
    LAM_TRY(group_of(w, never ? LMI_CAUSE_NEVER : LMI_CAUSE_UNUSED, row->module, row->place, &g, e));
    g->calls++;
    g->params = lam_count_add(g->params, row->params);
    return LAM_OK;
}

/* Notes the outermost modules that only other threads called, also those without a row. */
static lam_status called_elsewhere(lmi_work *w, lam_error *e) {
    const lam_model *m = w->m;
    for (int32_t i = 0; !w->c->released && i < m->n_places; i++) {
        const lam_place *p = &m->places[i];
        if (!lmi_only_elsewhere(&m->modules[p->module])) continue;
        if (p->parent >= 0 && lmi_only_elsewhere(&m->modules[m->places[p->parent].module])) continue;
        lmi_group *g;
        LAM_TRY(group_of(w, LMI_CAUSE_CALLED_ELSEWHERE, p->module, i, &g, e));
        g->calls++;
    }
    return LAM_OK;
}

/* -- sentences --------------------------------------------------------------------------------- */

static void put_names(const lmi_work *w, int32_t module, lmi_buf *b) {
    const lam_module *mod = &w->m->modules[module];
    int32_t n = 0;
    for (int32_t i = 0; i < mod->n_owned; i++) {
        if (mod->owned[i].is_buffer) continue;
        if (n < MAX_NAMES) {
            lmi_put(b, n ? ", `" : "`");
            lmi_put_clean(b, mod->owned[i].name);
            lmi_putc(b, '`');
        }
        n++;
    }
    if (n > MAX_NAMES) lmi_putf(b, " and %d more", (int)(n - MAX_NAMES));
}

static void say_places(const lmi_work *w, const lmi_group *g, lmi_buf *b) {
    lmi_put_clean(b, type_of(w, g->module));
    lmi_put(b, " (");
    plural(b, g->calls, "place");
    lmi_put(b, g->calls == 1 ? ", `" : ", the first `");
    lmi_put_clean(b, w->m->places[g->place].path);
    lmi_put(b, "`) ");
}

static void say_never(const lmi_work *w, const lmi_group *g, lmi_buf *b) {
    char params[48];
    lam_text_digits(params, sizeof params, g->params);
    say_places(w, g, b);
    lmi_putf(b, "was never called: work that uses its %s parameters in another way is not seen", params);
}

/* Names the convention that counts the operators inside a layer, if this one does not. */
static void say_who_counts(const lmi_work *w, const lmi_group *g, lmi_buf *b) {
    bool inside = g->cause == LMI_CAUSE_NO_RULE || g->cause == LMI_CAUSE_OPAQUE;
    if (inside && !lmi_by_ops(w->c)) lmi_putf(b, "; the convention `%s` counts it", lam_convention_of(NULL));
}

static void say_gap(const lmi_work *w, const lmi_group *g, lmi_buf *b) {
    if (g->cause == LMI_CAUSE_NEVER) {
        say_never(w, g, b);
    } else if (g->cause == LMI_CAUSE_CALLED_ELSEWHERE) {
        say_places(w, g, b);
        lmi_put(b, "was called by another thread, and what ran there is not seen");
    } else if (g->cause == LMI_CAUSE_NO_RULE) {
        lmi_putf(b, "%s (", g->reason);
        plural(b, g->calls, "call");
        lmi_putc(b, ')');
    } else if (g->cause == LMI_CAUSE_UNUSED) {
        lmi_put(b, "parameters ");
        put_names(w, g->module, b);
        lmi_put(b, " of ");
        lmi_put_clean(b, type_of(w, g->module));
        lmi_put(b, " (");
        plural(b, g->calls, "call");
        lmi_put(b, ") are used by no layer that was called");
    } else {
        lmi_put_clean(b, type_of(w, g->module));
        lmi_put(b, " (");
        plural(b, g->calls, "call");
        lmi_putf(b, "): %s", g->reason);
    }
}

static lam_status write_gaps(lmi_work *w, lam_error *e) {
    lam_costs *c = w->c;
    c->gaps = lmi_alloc(&c->arena, (uint64_t)w->groups.n + w->op_groups.n + 1, sizeof *c->gaps);
    if (!c->gaps) return lmi_nomem(e);
    if (c->none_called) c->gaps[c->n_gaps++] = w->m->described ? w->m->described : none_called;
    for (size_t i = 0; i < w->groups.n; i++) {
        lmi_buf b;
        lmi_buf_init(&b);
        say_gap(w, lmi_vec_at(&w->groups, i), &b);
        say_who_counts(w, lmi_vec_at(&w->groups, i), &b);
        c->gaps[c->n_gaps] = lmi_buf_keep(&b, &w->c->arena);
        if (!c->gaps[c->n_gaps++]) return lmi_nomem(e);
    }
    return lmi_op_gaps(w, c->n_gaps, e);
}

/* -- classes without a rule -------------------------------------------------------------------- */

static lam_status name_unruled(lmi_work *w, int32_t module, int32_t calls, lmi_map *seen, lam_error *e) {
    lam_costs *c = w->c;
    const char *key = class_key(w, module);
    int64_t at = lmi_map_get(seen, key);
    if (at < 0) {
        at = c->n_unruled;
        LAM_TRY(lmi_map_put(seen, key, at, e));
        c->unruled[at] = type_of(w, module);
        c->unruled_paths[at] = key;
        c->n_unruled++;
    }
    c->unruled_calls[at] += calls;
    return LAM_OK;
}

/* True for a root whose work and parameters are those of the layers in it. */
static bool only_holds(const lam_model *m, const lam_module *mod) {
    const lam_place *p = mod->n_places > 0 ? &m->places[mod->places[0]] : NULL;
    bool owns = false;
    for (int32_t i = 0; i < mod->n_owned; i++) owns = owns || !mod->owned[i].is_buffer;
    return p && p->parent < 0 && p->n_children > 0 && !owns;
}

/* True for a class without a rule. A convention that leaves such layers out names all of them, called or
 * not. */
static bool passed_over(const lmi_work *w, int32_t module) {
    const lam_module *mod = &w->m->modules[module];
    const char *name = lam_word_name(mod->word);
    /* Among the containers only Sequential itself is not named. */
    bool plain = name && strcmp(name, "Sequential") == 0 && (mod->flags & LAM_MODULE_EXACT);
    return !plain && !only_holds(w->m, mod) && !lmi_rule_for(w->cv, mod);
}

static lam_status unruled_omitted(lmi_work *w, lmi_map *seen, lam_error *e) {
    const lam_model *m = w->m;
    bool *custom = lmi_alloc(&w->scratch, (uint64_t)m->n_modules, sizeof *custom);
    if (!custom) return lmi_nomem(e);
    for (int32_t i = 0; i < m->n_events; i++) {
        int32_t mod = m->events[i].module;
        custom[mod] = custom[mod] || w->c->prices[i].custom;
        lmi_cause cause = (lmi_cause)w->c->prices[i].cause;
        bool sealed = cause == LMI_CAUSE_OPAQUE || cause == LMI_CAUSE_FUSED;
        if (!custom[mod] && (sealed || passed_over(w, mod))) LAM_TRY(name_unruled(w, mod, 1, seen, e));
    }
    for (int32_t i = 0; i < m->n_modules; i++)
        if (m->modules[i].n_calls == 0 && passed_over(w, i)) LAM_TRY(name_unruled(w, i, 0, seen, e));
    return LAM_OK;
}

static lam_status unruled_unknown(lmi_work *w, lmi_map *seen, lam_error *e) {
    for (int32_t r = 0; r < w->c->n_rows; r++) {
        const lam_cost_row *row = &w->c->rows[r];
        lmi_cause cause = row->event >= 0 ? (lmi_cause)w->c->prices[row->event].cause : LMI_CAUSE_NONE;
        bool sealed = cause == LMI_CAUSE_OPAQUE || cause == LMI_CAUSE_FUSED;
        if (cause == LMI_CAUSE_NO_RULE || (sealed && w->c->released))
            LAM_TRY(name_unruled(w, row->module, 1, seen, e));
    }
    return LAM_OK;
}

static lam_status list_unruled(lmi_work *w, lam_error *e) {
    lam_costs *c = w->c;
    const bool omits = c->released && w->cv->no_rule == LMI_NR_OMIT;
    const int32_t most = omits || w->m->n_modules < w->m->n_events ? w->m->n_modules : w->m->n_events;
    const uint64_t n = (uint64_t)most; /* else it names modules that were called */
    c->unruled = lmi_alloc(&c->arena, n, sizeof *c->unruled);
    c->unruled_paths = lmi_alloc(&c->arena, n, sizeof *c->unruled_paths);
    c->unruled_calls = lmi_alloc(&c->arena, n, sizeof *c->unruled_calls);
    if (!c->unruled || !c->unruled_paths || !c->unruled_calls) return lmi_nomem(e);
    lmi_map seen;
    lmi_map_init(&seen);
    lam_status s = omits ? unruled_omitted(w, &seen, e) : unruled_unknown(w, &seen, e);
    lmi_map_free(&seen);
    return s;
}

lam_status lmi_gaps(lmi_work *w, lam_error *e) {
    for (int32_t r = 0; r < w->c->n_rows; r++) LAM_TRY(reason_of_row(w, &w->c->rows[r], e));
    LAM_TRY(called_elsewhere(w, e));
    for (int32_t r = 0; r < w->c->n_rows; r++) LAM_TRY(unused_of_row(w, &w->c->rows[r], e));
    LAM_TRY(write_gaps(w, e));
    return list_unruled(w, e);
}
