/* SPDX-License-Identifier: Apache-2.0
 *
 * The flow of data: the units among the operators, and the unit that is the source of each tensor. */
#include "analyse/flow/flow.h"

int32_t lmi_first_tensor(const lam_op *o) {
    for (int32_t i = 0; i < o->sig->n_in; i++)
        if (o->sig->in[i].is_tensor) return i;
    return -1;
}

int32_t lmi_tensor_argument(const lam_op_sig *sig, int32_t position) {
    for (int32_t i = 0; i < sig->n_in; i++)
        if (sig->in[i].position == position && sig->in[i].is_tensor) return i;
    return -1;
}

static bool gives_tensor(const lam_op *o) {
    for (int32_t i = 0; i < o->sig->n_out; i++)
        if (o->sig->out[i].is_tensor) return true;
    return false;
}

bool lmi_is_custom(const lam_op *o) {
    const char *name = o->sig->name;
    return !(o->flags & (LAM_OP_FAILED | LAM_OP_NODE)) && o->sig->word < 0 && strstr(name, "::") &&
           !lmi_is_torchs(name) && gives_tensor(o);
}

/* As `exact` counts them (ops.c): it has a word and is no composite, or called nothing. */
bool lmi_flow_counts(void *unused, const lam_op *o) {
    (void)unused;
    if (o->flags & (LAM_OP_FAILED | LAM_OP_NODE)) return false;
    if (o->n_children == 0 || lmi_is_custom(o)) return true;
    return o->sig->word >= 0 && !lam_word_op_wraps(o->sig->word) &&
           lmi_op_kind(o->sig->word) != LMI_K_composite;
}

/* True if the result has an argument's memory, and the operator moves no element. */
bool lmi_only_view(const lam_op *o) {
    const lam_op_sig *s = o->sig;
    lmi_kind kind = lmi_op_kind(s->word);
    if (kind != LMI_K_free && kind != LMI_K_identity) return false;
    if (!gives_tensor(o) || lmi_first_tensor(o) < 0) return false;
    return strncmp(s->name, "aten::new_empty", 15) != 0 && strncmp(s->name, "aten::empty", 11) != 0;
}

lam_status lmi_flow_build(lmi_stream *f, const lam_model *m, lmi_arena *a,
                          bool (*is_unit)(void *self, const lam_op *o), void *self, lam_error *e) {
    LAM_TRY(lam_model_find_sources(m, e));
    f->m = m;
    f->unit = lmi_alloc(a, (uint64_t)m->n_ops, sizeof *f->unit);
    f->last = lmi_alloc(a, (uint64_t)m->n_ops, sizeof *f->last);
    if (!f->unit || !f->last) return lmi_nomem(e);
    for (int32_t i = 0; i < m->n_ops; i++) {
        const lam_op *o = &m->ops[i];
        f->last[i] = -1;
        const int32_t owner = lmi_op_owner(o);
        f->unit[i] = owner >= 0 && f->unit[owner] >= 0 ? f->unit[owner] : is_unit(self, o) ? i : -1;
    }
    for (int32_t i = m->n_ops - 1; i >= 0; i--) {
        int32_t up = lmi_op_owner(&m->ops[i]),
                mine = f->unit[i] == i && gives_tensor(&m->ops[i]) ? i : f->last[i];
        if (up >= 0 && f->unit[up] < 0 && f->last[up] < mine) f->last[up] = mine;
    }
    return LAM_OK;
}

static lmi_source origin(const lmi_stream *f, int32_t op, int32_t tensor, int32_t input) {
    int32_t unit = op >= 0 ? f->unit[op] : -1;
    if (op >= 0 && unit < 0) unit = f->last[op];
    if (unit >= 0) return (lmi_source){LMI_BY_OP, unit};
    if (tensor >= 0) return (lmi_source){LMI_BY_TENSOR, tensor};
    if (input >= 0) return (lmi_source){LMI_BY_INPUT, input};
    return (lmi_source){LMI_BY_NOTHING, -1};
}

static lmi_source from_edge(const lmi_stream *f, const lmi_edge *edge, int32_t op) {
    if (!edge) return origin(f, op, -1, -1);
    return origin(f, op, edge->owner, edge->owner <= -2 ? -2 - edge->owner : -1);
}

lmi_source lmi_flow_from(const lmi_stream *f, int32_t op, int32_t in) {
    const lmi_edge *edge = lmi_model_edge(f->m, op, in);
    return from_edge(f, edge, edge ? edge->op : -1);
}

/* A result without an operator may be an argument of the outermost call, passed through. */
static int32_t handed_through(const lam_model *m, int32_t event, const lam_arg *a) {
    while (m->events[event].parent >= 0) event = m->events[event].parent;
    const lam_event *root = &m->events[event];
    for (int32_t i = 0; i < root->n_in; i++)
        if ((a->object && a->object == root->in[i].object) ||
            (a->storage && a->storage == root->in[i].storage))
            return i;
    return -1;
}

lmi_source lmi_flow_result(const lmi_stream *f, int32_t event, int32_t out) {
    int32_t op = lam_model_call_output_source(f->m, event, out);
    return origin(f, op, -1, op < 0 ? handed_through(f->m, event, &f->m->events[event].out[out]) : -1);
}

/* -- memory written in parts --------------------------------------------------------------------- */

bool lmi_flow_place(const lam_model *m, const lmi_write *w, lmi_place *p) {
    if (w->made < 0 && w->owner == -1) return false;
    return lmi_place_of(m, m->edges, w->made, w->nth, w->ndim, w->sizes, p);
}

static lmi_givers givers(const lmi_stream *f, const lmi_edge *edge, int32_t ndim, const int64_t *sizes,
                         lmi_source one, lmi_source before) {
    lmi_givers g = {.f = f, .edge = edge, .write = -1, .rest = one};
    if (!edge || edge->write < 0) return g;
    const lmi_write *w = &f->m->writes[edge->write];
    if (w->prev < 0 && w->op == edge->made) return g; /* not written since it was made */
    g.placed = (edge->made >= 0 || edge->owner != -1) &&
               lmi_place_of(f->m, f->m->edges, edge->made, edge->nth, ndim, sizes, &g.place);
    if (!g.placed && !edge->through) return g;
    g.write = edge->write;
    g.rest = before;
    return g;
}

lmi_givers lmi_flow_givers(const lmi_stream *f, int32_t op, int32_t in) {
    const lam_op_arg *a = &f->m->ops[op].sig->in[in];
    const lmi_edge *edge = lmi_model_edge(f->m, op, in);
    return givers(f, edge, a->ndim, a->sizes, from_edge(f, edge, edge ? edge->op : -1),
                  from_edge(f, edge, -1));
}

lmi_givers lmi_flow_result_givers(const lmi_stream *f, int32_t event, int32_t out) {
    const lam_arg *a = &f->m->events[event].out[out];
    int32_t input = handed_through(f->m, event, a);
    return givers(f, lmi_model_out_edge(f->m, event, out), a->ndim, a->sizes, lmi_flow_result(f, event, out),
                  origin(f, -1, -1, input));
}

bool lmi_flow_next(lmi_givers *g, lmi_source *s) {
    const lmi_write *all = g->f->m->writes;
    lmi_place at;
    while (g->write >= 0) {
        const lmi_write *w = &all[g->write];
        bool inner = w->prev >= 0 && all[w->prev].op > w->op; /* an inner operator wrote */
        if (g->own && w->op < g->edge->made) return false;
        g->write = w->prev;
        int32_t unit = g->f->unit[w->op];
        if (unit >= 0 ? unit != w->op : inner) continue;
        bool known = lmi_flow_place(g->f->m, w, &at);
        if (known && g->placed && !lmi_places_meet(&at, &g->place)) continue;
        if (known && (g->placed ? lmi_place_holds(&at, &g->place) : lmi_place_is_whole(&at))) {
            g->write = -1;
            g->done = true;
        }
        *s = origin(g->f, w->op, -1, -1);
        if (s->by == LMI_BY_OP) return true;
    }
    if (g->done || g->own) return false;
    g->done = true;
    *s = g->rest;
    return true;
}

bool lmi_flow_roots(const lam_model *m, lmi_arena *a, int32_t **root) {
    *root = lmi_alloc(a, (uint64_t)m->n_events, sizeof **root);
    if (!*root) return false;
    for (int32_t i = 0; i < m->n_events; i++)
        (*root)[i] = m->events[i].parent >= 0 ? (*root)[m->events[i].parent] : i;
    return true;
}
