/* SPDX-License-Identifier: Apache-2.0
 *
 * Receptive fields along a chain of layers. Torchscan's sum over rows is meaningless if the graph branches,
 * so here a field is known only while the calls form a chain: it is exact inside plain Sequentials, a lower
 * bound if the tensors connect but a user-defined forward is between them, and unknown after the first
 * tensors that don't connect. */
#include "analyse/field/field.h"
#include "count/layers/layers.h"

typedef struct chain {
    const lam_costs *c;
    const lam_model *m;
    lmi_convention cv;   /* gives the true fields, independent of the costs' convention */
    bool *inside;        /* per event: inside a layer that counts as one */
    int32_t *last_child; /* per event: the last call made in it, -1 none */
    int32_t *depth;      /* per event */
    lam_rf *at;          /* per event: the field of its output */
    lam_rf now;          /* after the last layer */
    int32_t before;      /* the last layer, -1 none */
    double whole;        /* positions of the chain's input along the followed axis, 0 unknown */
    bool saturated;      /* the field is the whole input */
} chain;

/* True for a call that is one layer: it called no module, or only parametrizations, which make its
 * weights. */
static bool is_layer(const chain *k, int32_t event) {
    const lmi_call_cost *p = &k->c->prices[event];
    const lam_module *mod = &k->m->modules[k->m->events[event].module];
    lmi_kind kind = p->rule ? lmi_rule_kind(p->rule, mod) : LMI_N_KINDS;
    if (k->m->events[event].n_children_called == 0) return true;
    if (lmi_by_ops(k->c)) kind = lmi_word_kind(k->m->modules[k->m->events[event].module].word);
    if (!p->counted || kind >= LMI_N_KINDS) return false;
    lmi_family family = lmi_kind_family(kind);
    return family != LMI_F_attention && family != LMI_F_hold;
}

static bool plain(const chain *k, int32_t event) {
    return lmi_plain_holder(&k->m->modules[k->m->events[event].module]);
}

/* -- do two calls connect? --------------------------------------------------------------------- */

typedef enum link { CONNECTED, CANT_TELL, APART } link;

static link joined(const lam_arg *out, int32_t n_out, const lam_event *to) {
    uint64_t from = n_out > 0 ? out[0].storage : 0;
    link l = from && to->n_in > 0 ? CONNECTED : CANT_TELL;
    for (int32_t i = 0; i < to->n_in; i++) {
        uint64_t in = to->in[i].storage;
        if (in && from && in != from) return APART;
        if (!in) l = CANT_TELL;
    }
    return l;
}

/* True if every call around `a` or `b`, up to the innermost call around both, is a plain holder. Layers are
 * visited in the order of the tree, so all these walks together take each step up and down once. */
static bool only_plain_between(const chain *k, int32_t a, int32_t b) {
    const lam_event *ev = k->m->events;
    bool ok = true;
    a = ev[a].parent;
    b = ev[b].parent;
    while (a != b) {
        int32_t *deeper = b < 0 || (a >= 0 && k->depth[a] >= k->depth[b]) ? &a : &b;
        ok = ok && plain(k, *deeper);
        *deeper = ev[*deeper].parent;
    }
    return ok && a >= 0 && plain(k, a);
}

static int32_t top_of(const chain *k, int32_t event, bool *all_plain) {
    *all_plain = true;
    while (k->m->events[event].parent >= 0) {
        event = k->m->events[event].parent;
        *all_plain = *all_plain && plain(k, event);
    }
    return event;
}

/* How certain it is that layer `event` continues the chain so far. The first layer of a chain must read the
 * input of the outermost call. */
static lam_state continues(const chain *k, int32_t event) {
    const lam_event *to = &k->m->events[event];
    bool sure;
    link l;
    if (k->before >= 0) {
        const lam_event *from = &k->m->events[k->before];
        sure = only_plain_between(k, k->before, event);
        l = joined(from->out, from->n_out, to);
    } else {
        const lam_event *top = &k->m->events[top_of(k, event, &sure)];
        l = top == to ? CONNECTED : joined(top->in, top->n_in, to);
    }
    if (l == APART || (l == CANT_TELL && !sure)) return LAM_UNKNOWN;
    return sure ? LAM_EXACT : LAM_AT_LEAST;
}

/* -- one layer further ------------------------------------------------------------------------- */

/* Positions along the first spatial axis: axis 2 of (batch, channels, ...), found by the layer's rank. */
static double input_positions(const chain *k, int32_t event) {
    const lam_event *ev = &k->m->events[event];
    int32_t word = k->m->modules[ev->module].word, rank = lmi_word_rank(word);
    lam_shape x = ev->n_in ? (lam_shape){ev->in[0].ndim, ev->in[0].sizes} : (lam_shape){-1, NULL};
    lmi_rf_rule rule = lmi_kind_rf(lmi_word_kind(word));
    bool window = rule == LMI_rf_window || rule == LMI_rf_transposed || rule == LMI_rf_adaptive;
    int64_t n = -1;
    if (window)
        n = lmi_axis(x, rank ? -rank : -2);
    else if (lmi_word_kind(word) == LMI_K_flatten && x.ndim > 2)
        n = lmi_axis(x, 2);
    return n > 0 ? (double)n : 0;
}

static void add_layer(chain *k, int32_t event) {
    lam_rf own = lmi_rf_own(k->m, event, &k->cv);
    lmi_kind kind = lmi_word_kind(k->m->modules[k->m->events[event].module].word);
    bool all = kind != LMI_N_KINDS && lmi_kind_rf(kind) == LMI_rf_all && own.size > 1;
    lam_rf *r = &k->now;
    if (k->whole == 0) k->whole = input_positions(k, event);
    if (all && k->whole == 0) k->whole = own.size;
    if (all) k->saturated = true;
    if (k->saturated) {
        r->size = r->stride = k->whole;
        r->padding = 0;
    } else {
        r->size += r->stride * (own.size - 1);
        r->padding += r->stride * own.padding;
        r->stride *= own.stride;
    }
    if (own.state > r->state) r->state = own.state;
}

static void start(chain *k) {
    k->now = (lam_rf){1, 1, 0, LAM_EXACT};
    k->before = -1;
    k->whole = 0;
    k->saturated = false;
}

static void visit(chain *k, int32_t event) {
    int32_t parent = k->m->events[event].parent;
    k->depth[event] = parent < 0 ? 0 : k->depth[parent] + 1;
    k->last_child[event] = -1;
    if (parent < 0)
        start(k);
    else
        k->last_child[parent] = event;
    k->inside[event] = parent >= 0 && (k->inside[parent] || is_layer(k, parent));
    if (k->inside[event] || !is_layer(k, event)) return;
    lam_state sure = k->now.state == LAM_UNKNOWN ? LAM_UNKNOWN : continues(k, event);
    if (sure > k->now.state) k->now.state = sure;
    add_layer(k, event);
    if (k->now.state == LAM_UNKNOWN) k->now = (lam_rf){1, 1, 0, LAM_UNKNOWN};
    k->at[event] = k->now;
    k->before = event;
}

/* -- all of them ------------------------------------------------------------------------------- */

/* The fields of calls around layers: of what is called last in each. */
static void finish(chain *k) {
    for (int32_t i = k->m->n_events - 1; i >= 0; i--) {
        if (k->inside[i])
            k->at[i] = (lam_rf){1, 1, 0, LAM_UNKNOWN};
        else if (!is_layer(k, i))
            k->at[i] = k->at[k->last_child[i]];
    }
}

lam_status lmi_rfchain(const lam_costs *c, lmi_arena *scratch, const lam_rf **of_event, lam_error *e) {
    uint64_t n = (uint64_t)c->model->n_events;
    chain k = {.c = c, .m = c->model, .cv = *c->convention};
    k.cv.rf = LMI_RF_CHAIN;
    k.inside = lmi_alloc(scratch, n, sizeof *k.inside);
    k.last_child = lmi_alloc(scratch, n, sizeof *k.last_child);
    k.depth = lmi_alloc(scratch, n, sizeof *k.depth);
    k.at = lmi_alloc(scratch, n, sizeof *k.at);
    if (!k.inside || !k.last_child || !k.depth || !k.at) return lmi_nomem(e);
    start(&k);
    for (int32_t i = 0; i < c->model->n_events; i++) visit(&k, i);
    finish(&k);
    *of_event = k.at;
    return LAM_OK;
}
