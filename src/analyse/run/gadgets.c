/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of torch_inspector for every layer, from one pass over the calls, one over the non-finite
 * values, and one up the tree of places. */
#include "analyse/run/gadgets.h"

#include "analyse/tree/tree.h"

#include <stdlib.h>

static const uint64_t ARENA_LIMIT = UINT64_C(4) << 30;

static bool is_again(const lam_event *ev) { return ev->flags & LAM_CALL_AGAIN; }

/* -- parameters ------------------------------------------------------------------------------------------ */

typedef struct weight {
    int64_t all, wanted, bytes, wanted_bytes;
    int64_t unknown; /* tensors of unknown size */
} weight;

static void weigh(void *sums, int32_t place, const lam_tensor *t, int sign) {
    weight *w = (weight *)sums + place;
    int64_t bytes = lmi_logical_bytes(t);
    if (t->packed) return;
    if (t->numel < 0 || bytes < 0) {
        w->unknown += sign;
        return;
    }
    w->all += sign * t->numel;
    w->bytes += sign * bytes;
    w->wanted += t->requires_grad ? sign * t->numel : 0;
    w->wanted_bytes += t->requires_grad ? sign * bytes : 0;
}

static void add_weight(weight *to, const weight *w) {
    to->all += w->all;
    to->wanted += w->wanted;
    to->bytes += w->bytes;
    to->wanted_bytes += w->wanted_bytes;
    to->unknown += w->unknown;
}

static lam_status weigh_all(lam_gadgets *g, lmi_arena *scratch, lam_error *e) {
    const lam_model *m = g->m;
    lmi_tree tree;
    LAM_TRY(lmi_tree_build(&tree, m, scratch, e));
    weight *sum = lmi_alloc(scratch, (uint64_t)m->n_places, sizeof *sum);
    if (!sum) return lmi_nomem(e);
    LAM_TRY(lmi_tree_weigh(&tree, m, scratch, weigh, sum, e));
    for (int32_t i = m->n_places - 1; i >= 0; i--) {
        bool known = sum[i].unknown == 0;
        if (m->places[i].parent >= 0) add_weight(&sum[m->places[i].parent], &sum[i]);
        g->at[i].params = known ? sum[i].all : -1;
        g->at[i].trainable = known ? sum[i].wanted : -1;
        g->at[i].param_bytes = known ? sum[i].bytes : -1;
        g->at[i].gradient_bytes = known ? sum[i].wanted_bytes : -1;
    }
    return LAM_OK;
}

/* -- calls ----------------------------------------------------------------------------------------------- */

/* The calls of a place within the last outermost call that called it. Calls repeated in a backward pass
 * have the shapes of the first ones. */
static lam_status choose_calls(lam_gadgets *g, lmi_arena *scratch, lam_error *e) {
    const lam_model *m = g->m;
    int32_t *top = lmi_alloc(scratch, (uint64_t)m->n_events, sizeof *top);
    g->next = lmi_alloc(&g->arena, (uint64_t)m->n_events, sizeof *g->next);
    if (!top || !g->next) return lmi_nomem(e);
    for (int32_t i = 0; i < m->n_events; i++) {
        const lam_event *ev = &m->events[i];
        top[i] = ev->parent < 0 ? i : top[ev->parent];
        g->at[ev->place].calls += !is_again(ev);
    }
    for (int32_t i = m->n_events - 1; i >= 0; i--) {
        lmi_gadget *x = &g->at[m->events[i].place];
        bool again = is_again(&m->events[i]);
        if (x->first >= 0 && (again || top[x->first] != top[i])) continue;
        int32_t *to = again ? &x->first_again : &x->first;
        g->next[i] = *to;
        *to = i;
    }
    return LAM_OK;
}

static lam_status add_times(lam_gadgets *g, lam_error *e) {
    lam_times *t = NULL;
    lam_time x;
    if (lam_model_timed(g->m)) LAM_TRY(lam_times_new(&t, g->m, e));
    for (int32_t i = 0; i < g->m->n_places; i++)
        if (!t) g->at[i].forward_ns = g->at[i].backward_ns = -1;
    for (int32_t i = 0; t && i < g->m->n_events; i++) {
        lmi_gadget *to = &g->at[g->m->events[i].place];
        if (!lam_times_event(t, i, &x)) continue;
        to->forward_ns = lmi_plus(to->forward_ns, x.total[LAM_FORWARD]);
        to->backward_ns = lmi_plus(to->backward_ns, lmi_plus(x.total[LAM_BACKWARD], x.total[LAM_RECOMPUTE]));
    }
    lam_times_free(t);
    return LAM_OK;
}

/* Memory is measured on the CPU: the retained memory of tensors elsewhere is unknown. */
static void find_elsewhere(const lam_model *m, bool *elsewhere) {
    for (int32_t i = 0; i < m->n_events; i++) {
        const lam_event *ev = &m->events[i];
        for (int32_t k = 0; k < ev->n_in + ev->n_out; k++) {
            const lam_arg *a = k < ev->n_in ? &ev->in[k] : &ev->out[k - ev->n_in];
            if (a->device > 0) elsewhere[ev->place] = true;
        }
    }
    for (int32_t i = m->n_places - 1; i > 0; i--)
        if (elsewhere[i] && m->places[i].parent >= 0) elsewhere[m->places[i].parent] = true;
}

static lam_status add_memory(lam_gadgets *g, lmi_arena *scratch, lam_error *e) {
    lam_memory *y = NULL;
    bool *elsewhere = lmi_alloc(scratch, (uint64_t)g->m->n_places, sizeof *elsewhere);
    if (!elsewhere) return lmi_nomem(e);
    find_elsewhere(g->m, elsewhere);
    if (lam_model_memory_seen(g->m)) LAM_TRY(lam_memory_new(&y, g->m, e));
    for (int32_t i = 0; i < g->m->n_places; i++) {
        const lam_memory_row *r = y && !elsewhere[i] ? lam_memory_place(y, i) : NULL;
        bool back = r && lam_model_nodes_seen(g->m);
        g->at[i].forward_bytes = r ? r->total[LAM_FORWARD].retained : -1;
        g->at[i].backward_bytes = back ? r->total[LAM_BACKWARD].retained : -1;
    }
    lam_memory_free(y);
    return LAM_OK;
}

/* -- values ---------------------------------------------------------------------------------------------- */

static void not_known(lmi_truth *t) {
    if (*t == LMI_NO) *t = LMI_NOT_KNOWN;
}

static bool any_node(const lam_model *m) {
    for (int32_t i = 0; i < m->n_ops; i++)
        if (m->ops[i].flags & LAM_OP_NODE) return true;
    return false;
}

static void look_at_gradient(lam_gadgets *g, const lam_grad *grad) {
    lmi_gadget *x = &g->at[g->m->events[grad->call].place];
    lmi_truth *t = grad->is_input ? &x->grad_in_nan : &x->grad_out_nan;
    if (grad->bad)
        *t = LMI_YES;
    else if (!grad->seen)
        not_known(t);
}

static void all_unknown(lam_gadgets *g, bool forward, bool backward) {
    for (int32_t i = 0; i < g->m->n_places; i++) {
        if (forward) not_known(&g->at[i].forward_nan);
        if (backward) not_known(&g->at[i].grad_in_nan);
        if (backward) not_known(&g->at[i].grad_out_nan);
    }
}

static void add_values(lam_gadgets *g) {
    const lam_model *m = g->m;
    const lam_checked *looked = lam_model_checked(m);
    g->gradients = looked && (looked->gradients || (lam_model_nodes_seen(m) && !any_node(m)));
    for (int32_t i = 0; i < lam_model_n_bad(m); i++) {
        const lam_bad *bad = lam_model_bad(m, i);
        if (bad->call < 0) continue;
        lmi_truth *t = &g->at[m->events[bad->call].place].forward_nan;
        if (bad->side == LAM_BAD_OUTPUT) *t = LMI_YES;
        if (bad->side == LAM_BAD_UNSEEN) not_known(t);
    }
    for (int32_t i = 0; i < m->n_events; i++) {
        const lam_event *ev = &m->events[i];
        bool seen = !(ev->flags & (LAM_CALL_UNSEEN | LAM_CALL_FAILED));
        if (!seen && !is_again(ev)) not_known(&g->at[ev->place].forward_nan);
    }
    const lam_grad *grad;
    for (int32_t i = 0; (grad = lam_model_grad(m, i)) != NULL; i++) look_at_gradient(g, grad);
    bool none = !looked || looked->cut;
    all_unknown(g, none, none || !g->gradients);
}

/* all fields */

static void find_hidden(lam_gadgets *g) {
    const lam_model *m = g->m;
    for (int32_t i = 0; i < m->n_places; i++) {
        const int32_t parent = m->places[i].parent;
        if (g->at[i].calls) continue;
        g->at[i].hidden = (m->modules[m->places[i].module].flags & LAM_MODULE_ELSEWHERE) ||
                          (parent >= 0 && (g->at[parent].hidden ||
                                           (m->modules[m->places[parent].module].flags & LAM_MODULE_OPAQUE)));
    }
}

/* A layer at several places: a call does not show the name that reached it, so all its calls are at one
 * place, unless others above it were called too. */
static void find_same(lam_gadgets *g) {
    const lam_model *m = g->m;
    for (int32_t i = 0; i < m->n_places; i++) {
        const lam_module *mod = &m->modules[m->places[i].module];
        const bool called = g->at[i].first >= 0 || g->at[i].first_again >= 0;
        for (int32_t k = 0; !called && g->at[i].same < 0 && k < mod->n_places; k++) {
            const lmi_gadget *other = &g->at[mod->places[k]];
            if (other->first >= 0 || other->first_again >= 0) g->at[i].same = mod->places[k];
        }
        if (g->at[i].same >= 0) g->at[i].hidden = true;
    }
}

static lam_status find(lam_gadgets *g, lmi_arena *scratch, lam_error *e) {
    const lam_model *m = g->m;
    g->at = lmi_alloc(&g->arena, (uint64_t)m->n_places, sizeof *g->at);
    if (!g->at) return lmi_nomem(e);
    for (int32_t i = 0; i < m->n_places; i++) g->at[i].first = g->at[i].first_again = g->at[i].same = -1;
    LAM_TRY(weigh_all(g, scratch, e));
    LAM_TRY(choose_calls(g, scratch, e));
    find_hidden(g);
    find_same(g);
    LAM_TRY(add_times(g, e));
    LAM_TRY(add_memory(g, scratch, e));
    add_values(g);
    return LAM_OK;
}

lam_status lam_gadgets_new(lam_gadgets **out, const lam_model *m, lam_error *e) {
    *out = NULL;
    if (!m || m->n_places == 0) return lmi_fail(e, LAM_USAGE, NULL, "there is no model to report on");
    lam_gadgets *g = calloc(1, sizeof *g);
    if (!g) return lmi_nomem(e);
    lmi_arena scratch;
    g->m = m;
    lmi_arena_init(&g->arena, ARENA_LIMIT);
    lmi_arena_init(&scratch, ARENA_LIMIT);
    lam_status s = find(g, &scratch, e);
    lmi_arena_free(&scratch);
    if (s == LAM_OK)
        *out = g;
    else
        lam_gadgets_free(g);
    return s;
}

void lam_gadgets_free(lam_gadgets *g) {
    if (!g) return;
    lmi_arena_free(&g->arena);
    free(g);
}

int64_t lmi_gadget_memory(const lam_gadgets *g, int32_t place) {
    const lmi_gadget *x = &g->at[place];
    int64_t sum = lmi_plus(x->param_bytes, x->gradient_bytes);
    for (int32_t i = x->first; i >= 0; i = g->next[i])
        for (int32_t k = 0; k < g->m->events[i].n_in; k++)
            sum = lmi_plus(sum, lmi_arg_bytes(&g->m->events[i].in[k]));
    return sum;
}
