/* SPDX-License-Identifier: Apache-2.0
 *
 * The levels of an outline: the insides of containers, with the numbers of their nodes. The outermost are
 * taken first, until they fill the room that a page has for them. */
#include "analyse/flow/levels.h"
#include "report/outline/work.h"

enum { BUDGET = 500000 /* bytes of a page */ };

/* The node that an operator is counted at: its level, from 1 (0: none), and its index there. */
typedef struct counted {
    int32_t level, node;
} counted;

/* -- one level ----------------------------------------------------------------------------------- */

static lam_status take_ops(lmi_filling *w, const lmi_unit *u, lmi_level_node *to) {
    const char **op = lmi_alloc(&w->o->arena, (uint64_t)u->n_ops, sizeof *op);
    if (!op) return lmi_nomem(w->e);
    for (int32_t i = 0; i < u->n_ops; i++) op[i] = w->m->ops[u->ops[i]].sig->name;
    to->n_ops = u->n_ops;
    to->op = op;
    to->shape = u->shape;
    return LAM_OK;
}

static lam_status take_level(lmi_filling *w, const lmi_inside *from, lmi_level *to) {
    LAM_TRY(lmi_level_new(to, &w->o->arena, from->n, from->n_ways, w->e));
    to->cut = from->cut;
    for (int32_t i = 0; i < to->n; i++) {
        const lmi_unit *u = &from->unit[i];
        lmi_level_node *node = &to->node[i];
        *node = (lmi_level_node){.type = u->type, .name = u->name, .place = -1};
        if (u->type == LMI_UNIT_OPS) LAM_TRY(take_ops(w, u, node));
        if (u->type != LMI_UNIT_MODULE) continue;
        node->class_name = w->m->modules[w->m->places[u->place].module].type;
        node->nth = u->nth;
        node->times = u->times;
        if (w->of_place[u->place] >= 0) node->place = w->of_place[u->place];
    }
    for (int32_t i = 0; i < to->n_lines; i++)
        to->line[i] = (lmi_line_ends){from->way[i].from, from->way[i].to};
    return lmi_level_name(to, &w->o->arena, &w->text, w->e);
}

/* The size of a level in a page, roughly: numbers have about four digits, most lines go to the next rank. */
static int64_t bytes_of(const lmi_level *l) {
    enum { NODE = 50, LINE = 20 };
    int64_t bytes = (int64_t)l->n * NODE + (int64_t)l->n_lines * LINE;
    for (int32_t i = 0; i < l->n; i++)
        bytes += (int64_t)strlen(l->node[i].label) + (int64_t)strlen(l->node[i].note);
    return bytes;
}

/* -- numbers ------------------------------------------------------------------------------------- */

static lam_status count_op(lmi_level_node *to, const lam_costs *c, int32_t op, lam_error *e) {
    lam_count n[LAM_N_METRICS];
    bool is_counted;
    LAM_TRY(lam_costs_op(c, op, n, &is_counted, e));
    if (!is_counted) return LAM_OK;
    to->macs = lmi_sum(to->macs, n[LAM_MACS]);
    to->flops = lmi_sum(to->flops, n[LAM_FLOPS]);
    to->bytes = lmi_sum(to->bytes, lam_metric_bytes(n));
    return LAM_OK;
}

static lam_count beginning(const lam_costs *c, lam_metric metric) {
    return lmi_by_ops(c) && lmi_has_metric(c, metric) ? lmi_exact(0) : lmi_unknown();
}

/* Either an operator counts or those inside it: each belongs to the node of the operator that contains it. */
static lam_status count_ops(lmi_filling *w, const lmi_insides *from) {
    counted *of_op = lmi_alloc(&w->scratch, (uint64_t)w->m->n_ops, sizeof *of_op);
    if (!of_op) return lmi_nomem(w->e);
    for (int32_t k = 0; k < w->o->n_levels; k++)
        for (int32_t i = 0; i < from->at[k].n; i++) {
            const lmi_unit *u = &from->at[k].unit[i];
            lmi_level_node *node = &w->o->level[k].node[i];
            if (u->type != LMI_UNIT_OPS) continue;
            node->macs = beginning(w->c, LAM_MACS);
            node->flops = beginning(w->c, LAM_FLOPS);
            node->bytes = beginning(w->c, LAM_BYTES_READ);
            for (int32_t q = 0; q < u->n_ops; q++) of_op[u->ops[q]] = (counted){k + 1, i};
        }
    for (int32_t i = 0; lmi_by_ops(w->c) && i < w->m->n_ops; i++) {
        int32_t op = lmi_inside_op(w->o->graph, i);
        counted at = op < 0 ? (counted){0, 0} : of_op[op];
        if (at.level > 0) LAM_TRY(count_op(&w->o->level[at.level - 1].node[at.node], w->c, i, w->e));
    }
    return LAM_OK;
}

/* -- all levels ---------------------------------------------------------------------------------- */

static lam_status take_levels(lmi_filling *w, const lmi_insides *from) {
    lmi_outline *o = w->o;
    int64_t bytes = 0;
    int32_t found = from->n;
    o->level = lmi_alloc(&o->arena, (uint64_t)found, sizeof *o->level);
    if (!o->level) return lmi_nomem(w->e);
    while (o->n_levels < found && bytes < BUDGET) {
        lmi_level *to = &o->level[o->n_levels];
        LAM_TRY(take_level(w, &from->at[o->n_levels], to));
        bytes += bytes_of(to);
        o->n_levels++;
    }
    for (int32_t p = 0; p < w->m->n_places; p++)
        if (w->of_place[p] >= 0 && from->of_place[p] < o->n_levels)
            o->at[w->of_place[p]].level = from->of_place[p];
    if (o->n_levels < found) {
        lmi_putf(&w->text, "Insides in the graph: of %d different ones the outermost %d are drawn, ",
                 (int)found, (int)o->n_levels);
        lmi_put(&w->text, "the others would make the page too large.");
        LAM_TRY(lmi_buf_status(&w->text, w->e));
        LAM_TRY(lmi_leave_out(o, w->e, lmi_buf_text(&w->text)));
    }
    return count_ops(w, from);
}

/* Makes the graph; *there: it has edges. If not, adds a sentence on why there are no levels. */
static lam_status have_graph(lmi_filling *w, bool *there) {
    lmi_outline *o = w->o;
    lam_error why = {0};
    lam_status s = o->graph ? LAM_OK : lam_graph_new(&o->graph, w->m, &why);
    *there = s == LAM_OK && lam_graph_n_edges(o->graph) > 0;
    if (*there) return LAM_OK;
    if (s != LAM_OK && s != LAM_USAGE && s != LAM_UNSUPPORTED)
        return lmi_fail(w->e, s, why.where, "%s", why.text);
    lmi_putf(&w->text, "There is no graph: %s.",
             s == LAM_OK ? "nothing was seen of where data comes from" : why.text);
    LAM_TRY(lmi_buf_status(&w->text, w->e));
    return lmi_leave_out(o, w->e, lmi_buf_text(&w->text));
}

lam_status lmi_take_levels(lmi_filling *w) {
    bool there;
    lmi_insides from = {0};
    lmi_buf_clear(&w->text);
    LAM_TRY(have_graph(w, &there));
    if (!there) return LAM_OK;
    lam_status s = lmi_insides_find(&from, w->o->graph, w->e);
    if (s == LAM_OK) s = take_levels(w, &from);
    lmi_insides_free(&from);
    return s;
}
