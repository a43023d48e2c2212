/* SPDX-License-Identifier: Apache-2.0
 *
 * What a page shows in addition to the rows: the tree; the places at work over time; the levels of the graph
 * and the formulas behind the numbers, each with the paths of the places that have it. Equal ones are written
 * once, and no more of them than a page holds. */
#include "analyse/flow/levels.h"
#include "report/outline/outline.h"
#include "report/tell/tell.h"

/* Places in the order of registration. Rows are in the order of execution, and a ModuleList has none. */
void lmi_tree_fields(lmi_teller *t, const lmi_outline *o, const lam_model *m) {
    tell_list(t, "tree");
    for (int32_t i = 0; i < o->n_shown; i++) {
        const lam_place *p = &m->places[o->shown[i].place];
        lmi_tell_line(t);
        tell_object(t, NULL);
        tell_text(t, "path", p->path);
        tell_text(t, "type", m->modules[p->module].type);
        tell_text(t, "family", lmi_family_name[o->shown[i].family]);
        tell_end(t);
    }
    tell_list_end(t);
}

/* -- the places of levels and formulas ------------------------------------------------------------------- */

/* Places by the level or block of formulas that they have. */
typedef struct having {
    const lmi_outline *o;
    lmi_arena arena;
    int32_t *first, *next; /* first: by level or block. -1: none */
    lmi_buf path;
} having;

static int32_t index_of(const lmi_outline_place *at, bool levels) {
    return levels ? at->level : at->formulas;
}

static lam_status have(having *h, const lmi_outline *o, bool levels, lam_error *e) {
    int32_t n = levels ? o->n_levels : o->n_formulas;
    h->o = o;
    lmi_arena_init(&h->arena, UINT64_MAX);
    lmi_buf_init(&h->path);
    h->first = lmi_alloc_none(&h->arena, n);
    h->next = lmi_alloc(&h->arena, (uint64_t)o->n, sizeof *h->next);
    if (!h->first || !h->next) return lmi_nomem(e);
    for (int32_t i = o->n - 1; i >= 0; i--) {
        int32_t k = index_of(&o->at[i], levels);
        if (k < 0) continue;
        h->next[i] = h->first[k];
        h->first[k] = i;
    }
    return LAM_OK;
}

static lam_status have_done(having *h, lam_status so_far, lam_error *e) {
    if (so_far == LAM_OK) so_far = lmi_buf_status(&h->path, e);
    lmi_buf_free(&h->path);
    lmi_arena_free(&h->arena);
    return so_far;
}

static void tell_path(lmi_teller *t, const char *name, having *h, int32_t place) {
    lmi_buf_clear(&h->path);
    if (place >= 0) lmi_outline_path(h->o, place, &h->path);
    tell_text(t, name, place >= 0 ? lmi_buf_text(&h->path) : NULL);
}

static void tell_paths(lmi_teller *t, having *h, int32_t k) {
    tell_list(t, "paths");
    for (int32_t i = h->first[k]; i >= 0; i = h->next[i]) tell_path(t, NULL, h, i);
    tell_list_end(t);
}

/* -- levels ---------------------------------------------------------------------------------------------- */

static void tell_module(lmi_teller *t, having *h, const lmi_level_node *node) {
    tell_text(t, "type", node->class_name);
    tell_path(t, "path", h, node->place);
    tell_int(t, "call", node->nth - 1);
    tell_int(t, "calls", node->times);
}

/* Leaves out numbers that the convention does not count. */
static void tell_operators(lmi_teller *t, const lmi_level_node *node) {
    const struct {
        const char *name;
        lam_count n;
    } counts[] = {{"macs", node->macs}, {"flops", node->flops}, {"bytes", node->bytes}};
    tell_list(t, "operators");
    for (int32_t i = 0; i < node->n_ops; i++) tell_text(t, NULL, node->op[i]);
    tell_list_end(t);
    lmi_tell_sizes(t, "shape", node->shape.ndim, node->shape.sizes);
    for (int i = 0; i < 3; i++)
        if (counts[i].n.state != LAM_UNKNOWN) lmi_tell_count(t, counts[i].name, counts[i].n);
}

static void tell_node(lmi_teller *t, having *h, const lmi_level_node *node) {
    tell_object(t, NULL);
    tell_text(t, "node", lmi_node_name[node->type]);
    if (node->name) tell_text(t, "name", node->name);
    if (node->type == LMI_UNIT_MODULE) tell_module(t, h, node);
    if (node->type == LMI_UNIT_OPS) tell_operators(t, node);
    tell_end(t);
}

static void tell_level(lmi_teller *t, having *h, int32_t k) {
    const lmi_level *l = &h->o->level[k];
    lmi_tell_line(t);
    tell_object(t, NULL);
    tell_paths(t, h, k);
    tell_list(t, "nodes");
    for (int32_t i = 0; i < l->n; i++) tell_node(t, h, &l->node[i]);
    tell_list_end(t);
    tell_list(t, "edges");
    for (int32_t i = 0; i < l->n_lines; i++) lmi_tell_pair(t, NULL, l->line[i].from, l->line[i].to);
    tell_list_end(t);
    tell_int(t, "more", l->cut);
    tell_end(t);
}

lam_status lmi_levels_fields(lmi_teller *t, const lmi_outline *o, lam_error *e) {
    having h;
    lam_status s = have(&h, o, true, e);
    tell_list(t, "levels");
    for (int32_t k = 0; s == LAM_OK && k < o->n_levels; k++) tell_level(t, &h, k);
    tell_list_end(t);
    return have_done(&h, s, e);
}

/* -- formulas -------------------------------------------------------------------------------------------- */

static void tell_group(lmi_teller *t, const lmi_formula_group *g) {
    tell_object(t, NULL);
    tell_text(t, "phase", lam_phase_name((lam_phase)g->phase));
    tell_text(t, "name", g->name);
    tell_int(t, "times", g->n_equal);
    tell_list(t, "counts");
    for (int32_t i = 0; i < g->n; i++) {
        const lmi_outlined_formula *f = &g->at[i];
        tell_object(t, NULL);
        tell_text(t, "metric", lam_metric_name(f->metric));
        tell_text(t, "formula", f->formula);
        tell_text(t, "substituted", f->filled);
        tell_known(t, "value", f->value);
        tell_end(t);
    }
    tell_list_end(t);
    tell_end(t);
}

lam_status lmi_formulas_fields(lmi_teller *t, const lmi_outline *o, lam_error *e) {
    having h;
    lam_status s = have(&h, o, false, e);
    tell_list(t, "formulas");
    for (int32_t k = 0; s == LAM_OK && k < o->n_formulas; k++) {
        lmi_tell_line(t);
        tell_object(t, NULL);
        tell_paths(t, &h, k);
        tell_list(t, "work");
        for (int32_t i = 0; i < o->formulas[k].n; i++) tell_group(t, &o->formulas[k].at[i]);
        tell_list_end(t);
        tell_end(t);
    }
    tell_list_end(t);
    return have_done(&h, s, e);
}

/* -- places at work -------------------------------------------------------------------------------------- */

lam_status lmi_at_work_fields(lmi_teller *t, const lmi_outline *o, lam_error *e) {
    lmi_buf path;
    lmi_buf_init(&path);
    tell_list(t, "at_work");
    for (int32_t i = 0; i < o->n_at_work; i++) {
        const lmi_active *at = &o->at_work[i];
        lmi_buf_clear(&path);
        lmi_outline_path(o, at->place, &path);
        tell_object(t, NULL);
        tell_text(t, "path", lmi_buf_text(&path));
        tell_text(t, "phase", lam_phase_name((lam_phase)at->phase));
        lmi_tell_pair(t, "span", at->us, at->us + at->length);
        tell_end(t);
    }
    tell_list_end(t);
    lam_status s = lmi_buf_status(&path, e);
    lmi_buf_free(&path);
    return s;
}

void lmi_left_out_fields(lmi_teller *t, const lmi_outline *o) {
    int32_t n = o->n_left - o->left_before;
    lmi_tell_sentences(t, "left_out", n, n > 0 ? o->left + o->left_before : NULL);
}
