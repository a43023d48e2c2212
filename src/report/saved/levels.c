/* SPDX-License-Identifier: Apache-2.0
 *
 * The levels of the graph and the formulas, as report/tell/levels.c writes them. A report of an older lamina
 * has none. */
#include "analyse/flow/levels.h"
#include "report/saved/saved.h"

static const char no_level[] = "is no level that lamina writes",
                  no_formulas[] = "is no formula that lamina writes";

/* -- the nodes of levels --------------------------------------------------------------------------------- */

static lam_status take_module(lmi_saved *s, uint32_t at, lmi_level_node *node) {
    int32_t call;
    uint32_t path = lmi_saved_get(s, at, "path");
    LAM_TRY(lmi_saved_word(s, lmi_saved_get(s, at, "type"), &node->class_name));
    LAM_TRY(lmi_saved_between(s, lmi_saved_get(s, at, "calls"), 1, INT32_MAX, no_level, &node->times));
    LAM_TRY(lmi_saved_between(s, lmi_saved_get(s, at, "call"), 0, (int64_t)node->times - 1, no_level, &call));
    node->nth = call + 1;
    if (!lmi_saved_has(s, path)) return LAM_OK; /* its place is not kept */
    int32_t place;
    LAM_TRY(lmi_saved_place(s, path, &place));
    node->place = s->w->of_place[place] < 0 ? -1 : s->w->of_place[place];
    return LAM_OK;
}

static lam_status take_operators(lmi_saved *s, uint32_t at, lmi_level_node *node) {
    uint32_t list = lmi_saved_get(s, at, "operators");
    int32_t n = 0;
    LAM_TRY(lmi_saved_list(s, list, sizeof *node->op, &node->n_ops, &node->op));
    if (node->n_ops < 1) return lmi_saved_wrong(s, at, no_level);
    LMI_JSON_EACH(&s->j, list, i) LAM_TRY(lmi_saved_word(s, i, &node->op[n++]));
    LAM_TRY(lmi_saved_shape(s, lmi_saved_get(s, at, "shape"), &s->w->o->arena, &node->shape));
    LAM_TRY(lmi_saved_count(s, lmi_saved_get(s, at, "macs"), &node->macs));
    LAM_TRY(lmi_saved_count(s, lmi_saved_get(s, at, "flops"), &node->flops));
    return lmi_saved_count(s, lmi_saved_get(s, at, "bytes"), &node->bytes);
}

static lam_status take_node(lmi_saved *s, uint32_t at, lmi_level_node *node) {
    int type = LMI_UNIT_IN;
    *node = (lmi_level_node){.name = "", .class_name = "", .place = -1};
    while (type <= LMI_UNIT_OUT && !lmi_json_equals(&s->j, lmi_saved_get(s, at, "node"), lmi_node_name[type]))
        type++;
    if (type > LMI_UNIT_OUT) return lmi_saved_wrong(s, at, no_level);
    node->type = (uint8_t)type;
    LAM_TRY(lmi_saved_word(s, lmi_saved_get(s, at, "name"), &node->name));
    if (type == LMI_UNIT_MODULE) return take_module(s, at, node);
    return type == LMI_UNIT_OPS ? take_operators(s, at, node) : LAM_OK;
}

/* Takes a line. Lines go from earlier nodes to later ones, are sorted, and none is repeated. */
static lam_status take_line(const lmi_saved *s, uint32_t at, lmi_level *l) {
    const lmi_line_ends *last = l->n_lines ? &l->line[l->n_lines - 1] : NULL;
    int32_t ends[2] = {-1, -1}, n = 0;
    LMI_JSON_EACH(&s->j, at, i) {
        if (n < 2)
            LAM_TRY(lmi_saved_between(s, i, n ? (int64_t)ends[0] + 1 : 0, l->n - 1, no_level, &ends[n]));
        n++;
    }
    bool sorted = !last || ends[0] > last->from || (ends[0] == last->from && ends[1] > last->to);
    if (n != 2 || !sorted) return lmi_saved_wrong(s, at, no_level);
    l->line[l->n_lines++] = (lmi_line_ends){ends[0], ends[1]};
    return LAM_OK;
}

static lam_status take_level(lmi_saved *s, uint32_t at, lmi_level *l) {
    const lmi_json *j = &s->j;
    uint32_t nodes = lmi_saved_get(s, at, "nodes"), edges = lmi_saved_get(s, at, "edges");
    uint32_t n = lmi_json_size(j, nodes), n_lines = lmi_json_size(j, edges);
    if (n < 1 || n > LMI_INSIDE_UNITS || n_lines > LMI_INSIDE_UNITS * LMI_INSIDE_UNITS / 2)
        return lmi_saved_wrong(s, at, no_level);
    LAM_TRY(lmi_level_new(l, &s->w->o->arena, (int32_t)n, (int32_t)n_lines, s->e));
    LAM_TRY(lmi_saved_between(s, lmi_saved_get(s, at, "more"), 0, INT32_MAX, no_level, &l->cut));
    l->n_lines = 0; /* counted by take_line */
    n = 0;
    LMI_JSON_EACH(j, nodes, i) LAM_TRY(take_node(s, i, &l->node[n++]));
    LMI_JSON_EACH(j, edges, i) LAM_TRY(take_line(s, i, l));
    return lmi_level_name(l, &s->w->o->arena, &s->w->text, s->e);
}

/* -- formulas -------------------------------------------------------------------------------------------- */

static lam_status take_formula(lmi_saved *s, uint32_t at, lmi_outlined_formula *f) {
    int m = 0;
    while (m < LAM_N_METRICS &&
           !lmi_json_equals(&s->j, lmi_saved_get(s, at, "metric"), lam_metric_name((lam_metric)m)))
        m++;
    if (m == LAM_N_METRICS) return lmi_saved_wrong(s, at, no_formulas);
    f->metric = (lam_metric)m;
    LAM_TRY(lmi_saved_word(s, lmi_saved_get(s, at, "formula"), &f->formula));
    LAM_TRY(lmi_saved_word(s, lmi_saved_get(s, at, "substituted"), &f->filled));
    return lmi_saved_int(s, lmi_saved_get(s, at, "value"), &f->value);
}

/* Takes the formulas of an operator. */
static lam_status take_group(lmi_saved *s, uint32_t at, lmi_formula_group *g) {
    uint32_t list = lmi_saved_get(s, at, "counts");
    if (lmi_json_is(&s->j, list) != LMI_JSON_LIST) return lmi_saved_wrong(s, at, no_formulas);
    LAM_TRY(lmi_saved_between(s, lmi_saved_get(s, at, "times"), 0, INT32_MAX, no_formulas, &g->n_equal));
    LAM_TRY(lmi_saved_word(s, lmi_saved_get(s, at, "name"), &g->name));
    LAM_TRY(lmi_saved_phase(s, lmi_saved_get(s, at, "phase"), &g->phase));
    LAM_TRY(lmi_saved_list(s, list, sizeof *g->at, &g->n, &g->at));
    lmi_outlined_formula *f = g->at;
    LMI_JSON_EACH(&s->j, list, i) LAM_TRY(take_formula(s, i, f++));
    return LAM_OK;
}

static lam_status take_formulas(lmi_saved *s, uint32_t at, lmi_formulas *f) {
    uint32_t work = lmi_saved_get(s, at, "work");
    if (lmi_json_is(&s->j, work) != LMI_JSON_LIST) return lmi_saved_wrong(s, at, no_formulas);
    LAM_TRY(lmi_saved_list(s, work, sizeof *f->at, &f->n, &f->at));
    lmi_formula_group *g = f->at;
    LMI_JSON_EACH(&s->j, work, i) LAM_TRY(take_group(s, i, g++));
    return LAM_OK;
}

/* -- all ------------------------------------------------------------------------------------------------- */

/* Gives a level, or formulas, to the places that have it. */
static lam_status give(lmi_saved *s, uint32_t at, bool level, int32_t k) {
    LMI_JSON_EACH(&s->j, lmi_saved_get(s, at, "paths"), i) {
        int32_t place;
        LAM_TRY(lmi_saved_place(s, i, &place));
        place = s->w->of_place[place];
        if (place < 0) continue; /* another place represents it */
        *(level ? &s->w->o->at[place].level : &s->w->o->at[place].formulas) = k;
    }
    return LAM_OK;
}

static lam_status take_levels(lmi_saved *s, uint32_t levels) {
    lmi_outline *o = s->w->o;
    int32_t n = 0;
    LAM_TRY(lmi_saved_list(s, levels, sizeof *o->level, &o->n_levels, &o->level));
    LMI_JSON_EACH(&s->j, levels, i) {
        LAM_TRY(take_level(s, i, &o->level[n]));
        LAM_TRY(give(s, i, true, n++));
    }
    return lmi_outline_draw(o, s->e);
}

static lam_status take_all_formulas(lmi_saved *s, uint32_t formulas) {
    lmi_outline *o = s->w->o;
    int32_t n = 0;
    LAM_TRY(lmi_saved_list(s, formulas, sizeof *o->formulas, &o->n_formulas, &o->formulas));
    LMI_JSON_EACH(&s->j, formulas, i) {
        LAM_TRY(take_formulas(s, i, &o->formulas[n]));
        LAM_TRY(give(s, i, false, n++));
    }
    return LAM_OK;
}

lam_status lmi_saved_levels(lmi_saved *s) {
    uint32_t levels = lmi_saved_top(s, "levels"), formulas = lmi_saved_top(s, "formulas");
    if (lmi_json_is(&s->j, levels) != LMI_JSON_LIST || lmi_json_is(&s->j, formulas) != LMI_JSON_LIST)
        return lmi_leave_out(
            s->w->o, s->e,
            "It was made from a saved report that has no formulas and no graph; `lamina show "
            "TARGET --json` and report.to_json(FILE) save them.");
    LAM_TRY(take_all_formulas(s, formulas));
    LAM_TRY(take_levels(s, levels));
    LMI_JSON_EACH(&s->j, lmi_saved_top(s, "left_out"), i) {
        const char *text;
        LAM_TRY(lmi_saved_word(s, i, &text));
        LAM_TRY(lmi_leave_out(s->w->o, s->e, text));
    }
    return LAM_OK;
}
