/* SPDX-License-Identifier: Apache-2.0
 *
 * Unused parts: modules that were never called, results that reach no output, and parameters that no
 * gradient can reach. The graph is followed backwards from the outputs, once along all reads and once
 * along the flow of gradients. Only the forward is read, with backward passes inside it, and the
 * parameters that received a gradient in a backward pass from all outputs. */
#include "analyse/flow/graph.h"

#include <stdio.h>

/* What ends every gradient that goes from an output to a result: the first such operator after it. */
typedef enum cut_way {
    CUT_UNKNOWN,
    CUT_BY_OP,   /* the operator passes none on */
    CUT_AS_DATA, /* it reads the memory through a tensor that no operator made (Tensor.data) */
    CUT_LEAVES   /* its own result leaves torch (Tensor.numpy) */
} cut_way;
typedef struct cut {
    int32_t op;
    cut_way way;
} cut;

typedef struct search {
    lam_graph *g;
    const lam_model *m;
    lmi_arena scratch;
    bool traced;       /* searches as a tracer does: a number that the program read is a constant */
    bool known;        /* every output of the model has a known source */
    bool *live;        /* per unit: an output depends on it */
    bool *passes;      /* per unit: its result receives a gradient */
    cut *cut;          /* per operator that is live and has no gradient */
    int32_t *function; /* per operator that has one: the torch.autograd.Function that it or the next one is
                          in, -1 */
    bool *inside;      /* per operator: of a forward, also of a backward pass that runs in one */
    bool derives;      /* there is such a pass: results that nothing reads may be differentiated */
    bool tells;        /* an output required gradients; if no output shows this, none did */
    uint8_t *read;     /* per tensor: how it is read */
    bool *handed;      /* per unit: it made a result of some call */
    bool *taken;       /* per unit: an operator reads its result */
    int32_t stranger;  /* the last operator that reads elements of unseen origin, -1 */
    bool *in_vain;     /* per call: its results reach no output */
    bool masks;        /* flex_attention ran: it reads masks of blocks, whole numbers, without an operator */
    bool *attends;     /* per call: flex_attention ran in inference mode, without a Function around it */
} search;

/* The node of a Function has the flag in any case. */
enum { SAYS = LAM_OP_GRAD | LAM_OP_NODE };
enum { READ = 1, READ_LIVE = 2, READ_PASSES = 4, READ_WITHIN = 8 /* by an operator of a call */ };

static bool is_float(int32_t dtype) {
    const char *name = lam_dtype_name(dtype);
    return strncmp(name, "float", 5) == 0 || strncmp(name, "bfloat", 6) == 0 ||
           strncmp(name, "complex", 7) == 0;
}

static lam_status find(search *s, lmi_vec *to, const char *path, const char *reason, lam_error *e) {
    const lmi_finding f = {path, lmi_strdup(&s->g->arena, reason)};
    return f.reason ? lmi_vec_put(to, &f, e) : lmi_nomem(e);
}

/* -- operators ----------------------------------------------------------------------------------- */

static bool is_unit(const search *s, int32_t op) { return s->g->flow.unit[op] == op && s->inside[op]; }

/* True if the size of the result depends on values: the program may read it (len(x[x > 0])). */
static bool tells_size(const lam_op_sig *sig) {
    static const char *const names[] = {"aten::nonzero", "aten::masked_select", "aten::_unique2",
                                        "aten::unique_dim", "aten::unique_consecutive"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(sig->name, names[i])) return true;
    if (strcmp(sig->name, "aten::index") != 0) return false;
    for (int32_t i = 1; i < sig->n_in; i++)
        if (sig->in[i].is_tensor && !strcmp(lam_dtype_name(sig->in[i].dtype), "bool")) return true;
    return false;
}

static bool on_cpu(const lam_op_sig *sig) {
    for (int32_t i = 0; i < sig->n_out; i++)
        if (sig->out[i].is_tensor && sig->out[i].device <= 0) return true;
    return false;
}

/* True if the operator returns a value to the program, or writes to memory from before the forward: it
 * matters even if no output depends on it. So may a result that no operator reads, if elements of unknown
 * origin appear later: Tensor.numpy() is no operator. */
static bool matters(const search *s, int32_t op) {
    const lam_op_sig *sig = s->m->ops[op].sig;
    if (lmi_op_kind(sig->word) == LMI_K_read) return !s->traced;
    if (tells_size(sig)) return true;
    if (op < s->stranger && !s->taken[op] && on_cpu(sig)) return true;
    if (lmi_only_view(&s->m->ops[op])) return false;
    for (int32_t i = 0; i < sig->n_out; i++) {
        int32_t k = sig->out[i].is_tensor ? sig->out[i].shares : -1;
        if (k >= 0 && lmi_graph_from(s->g, op, k).by != LMI_BY_OP) return true;
    }
    return false;
}

static bool writes_to(const lam_op_sig *sig, int32_t in) {
    for (int32_t i = 0; i < sig->n_out; i++)
        if (sig->out[i].is_tensor && sig->out[i].shares == in) return true;
    return false;
}

/* True if the values of an argument are not in the result. An operator in place may overwrite only a
 * part, so there they may be. */
static bool overwrites(const lam_op_sig *sig, int32_t in) {
    return lmi_op_kind(sig->word) == LMI_K_fill && !writes_to(sig, in);
}

/* Code inside an opaque module may read all its tensors. */
static bool is_opaque(const search *s, const lam_module *mod) {
    for (int32_t i = 0; i < mod->n_places; i++)
        for (int32_t p = mod->places[i]; p >= 0; p = s->m->places[p].parent)
            if (s->m->modules[s->m->places[p].module].flags & LAM_MODULE_OPAQUE) return true;
    return false;
}

/* False in a block without gradients. Scripted code may run in one and have a single node for
 * everything. */
static bool wants_gradient(const search *s, int32_t op) {
    for (int32_t i = op; i >= 0; i = s->m->ops[i].parent)
        if (s->m->ops[i].flags & LAM_OP_GRAD) return true;
    int32_t call = s->m->ops[op].call;
    return !s->tells || (call >= 0 && is_opaque(s, &s->m->modules[s->m->events[call].module]));
}

/* True if the gradient of the result flows to the argument. A tensor that is written to without
 * gradients keeps its own. */
static bool passes_on(const search *s, int32_t op, int32_t in) {
    const lam_op_sig *sig = s->m->ops[op].sig;
    const char *word = lam_word_op_name(sig->word);
    bool any = false;
    for (int32_t i = 0; i < sig->n_out && !any; i++)
        any = sig->out[i].is_tensor && is_float(sig->out[i].dtype);
    if (!any || overwrites(sig, in) || !is_float(sig->in[in].dtype)) return false;
    if (word && strcmp(word, "aten::detach") == 0) return false;
    return wants_gradient(s, op) || (writes_to(sig, in) && !lmi_only_view(&s->m->ops[op]));
}

static void mark(search *s, lmi_source from, bool passes, cut c) {
    if (from.by != LMI_BY_OP) return;
    s->live[from.index] = true;
    s->passes[from.index] = s->passes[from.index] || passes;
    if (!passes && c.way != CUT_UNKNOWN) s->cut[from.index] = c;
}

static cut cut_by(int32_t op) { return (cut){op, CUT_BY_OP}; }
static const cut no_cut = {-1, CUT_UNKNOWN};

/* Why no gradient of an operator's result reaches what made its argument. Whole numbers have none, so the
 * operator that made them is the reason. */
static cut cut_of(const search *s, int32_t op, int32_t in, bool on, lmi_source from) {
    if (on) return s->cut[op];
    bool number = !is_float(s->m->ops[op].sig->in[in].dtype);
    return cut_by(number && from.by == LMI_BY_OP ? from.index : op);
}

/* The torch.autograd.Function that an operator is in, -1: none. */
static int32_t function_around(const lam_model *m, int32_t op) {
    for (int32_t i = op; i >= 0; i = m->ops[i].parent)
        if (m->ops[i].flags & LAM_OP_NODE && m->ops[i].phase == LAM_FORWARD &&
            !strstr(m->ops[i].sig->name, "::"))
            return i;
    return -1;
}

/* Of a path of gradients: the Function that is nearest to a result on its way to the outputs. */
static void lead_through(search *s, lmi_source from, int32_t op) {
    if (from.by != LMI_BY_OP || s->function[from.index] >= 0) return;
    int32_t own = function_around(s->m, from.index);
    s->function[from.index] = own >= 0 ? own : s->function[op];
}

/* The parameter or buffer that an argument is; negative: it is none. Its memory may be made or written in the
 * forward, as in a lazy layer's first one, and the operator that did so is then the source of its values. */
static int32_t tensor_of(const search *s, int32_t op, int32_t in) {
    const lmi_edge *edge = lmi_model_edge(s->m, op, in);
    lmi_source from = lmi_flow_from(&s->g->flow, op, in);
    if (from.by == LMI_BY_TENSOR) return from.index;
    return edge && edge->made < 0 && edge->write >= 0 ? edge->owner : -1;
}

/* A read of a view is a read of the tensors that the view's operator read. */
static void note_read(search *s, int32_t op, int32_t in) {
    int32_t t = tensor_of(s, op, in);
    if (t < 0) return;
    s->read[t] |= READ;
    if (s->m->ops[op].call >= 0) s->read[t] |= READ_WITHIN;
    if (s->live[op]) s->read[t] |= READ_LIVE;
    if (s->passes[op] && passes_on(s, op, in)) s->read[t] |= READ_PASSES;
}

/* A transparent operator may pass a tensor to a kernel without an operator, so it needs all its
 * arguments if any operator inside it is needed. */
static void lift(search *s, int32_t op) {
    int32_t up = s->m->ops[op].parent;
    if (up < 0 || s->g->flow.unit[up] >= 0) return;
    s->live[up] = s->live[up] || s->live[op];
    s->passes[up] = s->passes[up] || s->passes[op];
    if (s->cut[up].way == CUT_UNKNOWN) s->cut[up] = s->cut[op];
    if (s->function[up] < 0) s->function[up] = s->function[op];
}

/* Tensor.data returns another tensor on the same memory, without an operator. */
static lmi_source maybe_from(const search *s, int32_t op, int32_t in) {
    const lmi_edge *edge = lmi_model_edge(s->m, op, in);
    int32_t unit = edge && edge->maybe >= 0 ? s->g->flow.unit[edge->maybe] : -1;
    if (edge && edge->maybe >= 0 && unit < 0) unit = s->g->flow.last[edge->maybe];
    return (lmi_source){unit < 0 ? LMI_BY_NOTHING : LMI_BY_OP, unit};
}

static void find_strangers(search *s) {
    s->stranger = -1;
    for (int32_t i = 0; i < s->m->n_ops; i++) {
        const lam_op_sig *sig = s->m->ops[i].sig;
        for (int32_t k = 0; k < sig->n_in; k++) {
            if (!sig->in[k].is_tensor) continue;
            lmi_source from = lmi_flow_from(&s->g->flow, i, k);
            if (from.by == LMI_BY_OP) s->taken[from.index] = true;
            bool many = lmi_op_arg_numel(&sig->in[k]) > 1;
            if (from.by == LMI_BY_NOTHING && many && s->inside[i] && s->m->ops[i].call >= 0 &&
                maybe_from(s, i, k).by == LMI_BY_NOTHING)
                s->stranger = i;
        }
    }
}

static void follow_one(search *s, int32_t op, int32_t in) {
    lmi_source from = lmi_flow_from(&s->g->flow, op, in), data = maybe_from(s, op, in);
    bool on = passes_on(s, op, in), passes = s->passes[op] && on;
    mark(s, from, passes, cut_of(s, op, in, on, from));
    mark(s, data, false, (cut){op, CUT_AS_DATA});
    if (passes) lead_through(s, from, op);
    lmi_givers parts = lmi_flow_givers(&s->g->flow, op, in);
    parts.own = true;
    while (lmi_flow_next(&parts, &from)) {
        mark(s, from, passes, cut_of(s, op, in, on, from));
        if (passes) lead_through(s, from, op);
    }
}

/* An operator comes after its arguments, so one pass backwards is enough. */
static void follow(search *s) {
    for (int32_t i = s->m->n_ops - 1; i >= 0; i--) {
        const lam_op_sig *sig = s->m->ops[i].sig;
        if (!s->inside[i]) continue;
        bool unit = is_unit(s, i), around = s->g->flow.unit[i] < 0;
        if (unit && !s->live[i] && matters(s, i)) {
            bool reads = lmi_op_kind(sig->word) == LMI_K_read || tells_size(sig);
            s->live[i] = true;
            s->cut[i] = (cut){i, reads ? CUT_BY_OP : CUT_LEAVES};
        }
        lift(s, i);
        for (int32_t k = 0; k < sig->n_in; k++) {
            if (!sig->in[k].is_tensor) continue;
            note_read(s, i, k);
            if ((unit || around) && s->live[i] && !overwrites(sig, k)) follow_one(s, i, k);
        }
    }
}

/* A backward pass is inside a forward if operators of that forward come before and after it. */
static bool find_inside(search *s) {
    const lam_model *m = s->m;
    int32_t *root, open = -1, *last = lmi_alloc(&s->scratch, (uint64_t)m->n_events, sizeof *last);
    if (!last || !lmi_flow_roots(m, &s->scratch, &root)) return false;
    for (int32_t i = 0; i < m->n_ops; i++)
        if (m->ops[i].phase == LAM_FORWARD && m->ops[i].call >= 0) last[root[m->ops[i].call]] = i;
    for (int32_t i = 0; i < m->n_events; i++) /* a forward may end in one, and return its results */
        for (int32_t k = 0; m->events[i].parent < 0 && k < m->events[i].n_out; k++) {
            int32_t op = lam_model_call_output_source(m, i, k);
            if (op > last[i]) last[i] = op;
        }
    for (int32_t i = 0; i < m->n_ops; i++) {
        bool forward = m->ops[i].phase == LAM_FORWARD;
        if (forward) open = m->ops[i].call >= 0 ? root[m->ops[i].call] : -1;
        s->inside[i] = forward || (open >= 0 && i <= last[open]);
        s->derives = s->derives || (s->inside[i] && !forward);
    }
    return true;
}

/* -- outputs ------------------------------------------------------------------------------------- */

static bool says_gradient(const search *s, int32_t op) {
    for (int32_t i = op; i >= 0; i = s->m->ops[i].parent)
        if ((s->m->ops[i].flags & SAYS) == LAM_OP_GRAD) return true;
    return false;
}

static void start(search *s) {
    const lam_model *m = s->m;
    s->known = m->n_events > 0;
    for (int32_t i = 0; i < m->n_events; i++) {
        const lam_event *ev = &m->events[i];
        if (ev->flags & LAM_CALL_HIDES || (ev->parent < 0 && ev->flags & LAM_CALL_VALUES)) s->known = false;
        if (ev->parent >= 0 || ev->flags & LAM_CALL_AGAIN) continue;
        if (ev->flags & (LAM_CALL_FAILED | LAM_CALL_UNSEEN) || ev->n_out == 0) s->known = false;
        for (int32_t k = 0; k < ev->n_out; k++) {
            lmi_source from = lmi_flow_result(&s->g->flow, i, k);
            if (from.by == LMI_BY_NOTHING) s->known = false;
            s->tells = s->tells || (from.by == LMI_BY_OP && says_gradient(s, from.index));
            bool passes = is_float(ev->out[k].dtype);
            mark(s, from, passes, cut_by(from.index));
            lmi_givers parts = lmi_flow_result_givers(&s->g->flow, i, k);
            parts.own = true;
            while (lmi_flow_next(&parts, &from)) mark(s, from, passes, cut_by(from.index));
        }
    }
}

/* -- modules ------------------------------------------------------------------------------------- */

/* True if nothing at or below a place was called, or read without a call. */
static bool idle(const search *s, int32_t place, const bool *busy) {
    return !busy[place] && s->m->modules[s->m->places[place].module].n_calls == 0;
}

/* True for a tensor that was gathered from its shards, at most, and not used. */
static bool only_moved(const search *s, int32_t tensor) {
    return s->m->tensors[tensor].wraps && !(s->read[tensor] & READ_LIVE);
}

static bool is_read(const search *s, const lam_module *mod) {
    for (int32_t k = 0; k < mod->n_owned; k++) {
        int32_t t = mod->owned[k].tensor;
        if (s->read[t] & READ && !only_moved(s, t)) return true;
    }
    return false;
}

static lam_status never_called(search *s, lam_error *e) {
    const lam_model *m = s->m;
    bool *busy = lmi_alloc(&s->scratch, (uint64_t)m->n_places, sizeof *busy);
    if (!busy) return lmi_nomem(e);
    for (int32_t i = m->n_places - 1; i >= 0; i--) {
        const lam_module *mod = &m->modules[m->places[i].module];
        busy[i] = busy[i] || mod->n_calls > 0 || is_read(s, mod) || lmi_only_elsewhere(mod) ||
                  lmi_is_inside(mod) || (lmi_plain_holder(mod) && m->places[i].n_children == 0);
        if (busy[i] && m->places[i].parent >= 0) busy[m->places[i].parent] = true;
    }
    for (int32_t i = 1; i < m->n_places; i++)
        if (idle(s, i, busy) && !idle(s, m->places[i].parent, busy))
            LAM_TRY(find(s, &s->g->unused, m->places[i].path, LMI_WHY_NEVER_CALLED, e));
    return LAM_OK;
}

static bool is_inside(const search *s, int32_t call, int32_t around) {
    while (call > around) call = s->m->events[call].parent;
    return call == around;
}

/* A transparent operator may have several results, made by any operators inside it. */
static void hand_out(search *s, int32_t op, int32_t unit) {
    const lam_op *ops = s->m->ops;
    s->handed[unit] = true;
    for (int32_t i = op + 1; s->g->flow.unit[op] < 0 && i < s->m->n_ops && ops[i].parent >= op; i++)
        s->handed[i] = true;
}

/* True if every result of a call was made in it and reaches no output; notes the operators that made
 * them. */
static bool gave_in_vain(search *s, int32_t call) {
    const lam_event *ev = &s->m->events[call];
    if (ev->parent < 0 || ev->n_out == 0 || ev->flags & (LAM_CALL_FAILED | LAM_CALL_UNSEEN | LAM_CALL_AGAIN))
        return false;
    bool vain = true;
    for (int32_t k = 0; k < ev->n_out; k++) {
        lmi_source from = lmi_flow_result(&s->g->flow, call, k);
        int32_t op = lam_model_call_output_source(s->m, call, k);
        if (from.by == LMI_BY_OP) hand_out(s, op, from.index);
        vain = vain && from.by == LMI_BY_OP && !s->live[from.index] && !s->live[op] &&
               is_inside(s, s->m->ops[from.index].call, call);
    }
    return vain;
}

static lam_status unused_calls(search *s, lam_error *e) {
    const lam_model *m = s->m;
    int32_t *times = lmi_alloc(&s->scratch, (uint64_t)m->n_places, sizeof *times);
    if (!times) return lmi_nomem(e);
    for (int32_t i = 0; i < m->n_events; i++) {
        int32_t parent = m->events[i].parent;
        s->in_vain[i] = (parent >= 0 && s->in_vain[parent]) || gave_in_vain(s, i);
        if (s->in_vain[i] && !s->in_vain[parent]) times[m->events[i].place]++;
    }
    for (int32_t i = 0; i < m->n_places; i++) {
        char text[128];
        if (!times[i]) continue;
        if (times[i] == m->places[i].n_calls)
            snprintf(text, sizeof text, "its output reaches no output of the model");
        else
            snprintf(text, sizeof text, "the output of %d of its %d calls reaches no output of the model",
                     (int)times[i], (int)m->places[i].n_calls);
        LAM_TRY(find(s, &s->g->unused, m->places[i].path, text, e));
    }
    return LAM_OK;
}

/* A result that torch makes inside a used operator and then ignores is not reported. */
static bool is_torchs_own(const search *s, int32_t op) {
    for (int32_t i = s->m->ops[op].parent; i >= 0; i = s->m->ops[i].parent)
        if (s->live[i] && !(s->m->ops[i].flags & LAM_OP_NODE)) return true;
    return false;
}

/* True for an operator of a call's own work with an unused result. A result that the caller ignores is
 * not reported. */
static bool ran_in_vain(const search *s, int32_t op) {
    const lam_op *o = &s->m->ops[op];
    lmi_kind kind = lmi_op_kind(o->sig->word);
    if (!is_unit(s, op) || s->live[op] || s->handed[op] || s->g->of_op[op] < 0 || kind == LMI_K_fill ||
        o->call < 0 || is_torchs_own(s, op))
        return false;
    bool gives = false, used = function_around(s->m, op) >= 0 || s->attends[o->call]; /* by its backward */
    for (int32_t i = 0; i < o->sig->n_out; i++) {
        if (!o->sig->out[i].is_tensor) continue;
        if (used || (s->masks && !is_float(o->sig->out[i].dtype))) return false;
        if (o->sig->out[i].shares >= 0) return false; /* another tensor of this memory may be read */
        gives = true;
    }
    return gives && !s->in_vain[o->call];
}

static void find_flex(search *s) {
    for (const lam_op *o = s->m->ops; o < s->m->ops + s->m->n_ops; o++) {
        const bool alone = o->call >= 0 && o->parent < 0 && !strcmp(o->sig->name, "aten::_safe_softmax");
        s->masks = s->masks || alone || lmi_is_flex(o->sig->name);
        if (alone) s->attends[o->call] = true;
    }
}

/* One sentence per place: the number of its operators, and the name of the first. */
static lam_status unused_work(search *s, lam_error *e) {
    const lam_model *m = s->m;
    int32_t *times = lmi_alloc(&s->scratch, (uint64_t)m->n_places, sizeof *times);
    int32_t *first = lmi_alloc(&s->scratch, (uint64_t)m->n_places, sizeof *first);
    s->attends = lmi_alloc(&s->scratch, (uint64_t)m->n_events, sizeof *s->attends);
    if (!times || !first || !s->attends) return lmi_nomem(e);
    if (m->n_ops > 0) find_flex(s);
    for (int32_t i = 0; i < m->n_ops; i++) {
        if (!ran_in_vain(s, i)) continue;
        int32_t place = m->events[m->ops[i].call].place;
        if (times[place]++ == 0) first[place] = i;
    }
    for (int32_t i = 0; i < m->n_places; i++) {
        char text[160];
        if (!times[i]) continue;
        const char *name = m->ops[first[i]].sig->name;
        if (times[i] == 1)
            snprintf(text, sizeof text, "what %.80s gives in it reaches no output of the model", name);
        else
            snprintf(text, sizeof text,
                     "what %d of its operators give reaches no output of the model, %.80s first",
                     (int)times[i], name);
        LAM_TRY(find(s, &s->g->unused, m->places[i].path, text, e));
    }
    return LAM_OK;
}

/* -- parameters ---------------------------------------------------------------------------------- */

static const char *place_of_op(const search *s, int32_t op) {
    const int32_t call = s->m->ops[op].call, place = call >= 0 ? s->m->events[call].place : 0;
    return place > 0 ? s->m->places[place].path : "the model's own work";
}

/* A number that the program reads is read by an operator inside the one that it calls. */
static int32_t as_called(const search *s, int32_t op) {
    const lam_op *ops = s->m->ops;
    bool reads = lmi_op_kind(ops[op].sig->word) == LMI_K_read;
    while (reads && ops[op].parent >= 0 && lmi_is_torchs(ops[ops[op].parent].sig->name)) op = ops[op].parent;
    return op;
}

/* The outermost call around an operator whose inside may be only partly visible, -1: none. */
static int32_t opaque_call(const search *s, int32_t op) {
    int32_t found = -1;
    for (int32_t c = s->m->ops[op].call; c >= 0; c = s->m->events[c].parent)
        if (s->m->modules[s->m->events[c].module].flags & LAM_MODULE_OPAQUE) found = c;
    return found;
}

/* Scripted code detaches what it differentiates itself. If its results have no gradient, the reason comes
 * after it. */
static cut after_scripted(const search *s, cut c) {
    int32_t call = c.op >= 0 ? opaque_call(s, c.op) : -1;
    for (int32_t k = 0; call >= 0 && k < s->m->events[call].n_out; k++) {
        lmi_source from = lmi_flow_result(&s->g->flow, call, k);
        if (from.by != LMI_BY_OP || s->passes[from.index]) return c;
        cut later = s->cut[from.index];
        if (later.way != CUT_UNKNOWN && opaque_call(s, later.op) != call) return later;
    }
    return c;
}

/* What ends every gradient of a tensor: an operator that reads it, or one after these. */
static cut cut_of_tensor(const search *s, int32_t tensor) {
    cut found = no_cut;
    for (int32_t i = 0; i < s->m->n_ops && found.way == CUT_UNKNOWN; i++) {
        const lam_op_sig *sig = s->m->ops[i].sig;
        for (int32_t k = 0; is_unit(s, i) && s->live[i] && k < sig->n_in; k++)
            if (sig->in[k].is_tensor && found.way == CUT_UNKNOWN && tensor_of(s, i, k) == tensor)
                found = passes_on(s, i, k) ? s->cut[i] : cut_by(i);
    }
    return after_scripted(s, found);
}

/* The operator that reads a tensor as data, if none reads the tensor itself; -1. */
static int32_t data_reader(const search *s, int32_t tensor) {
    int32_t found = -1;
    for (int32_t i = 0; i < s->m->n_ops; i++) {
        const lam_op_sig *sig = s->m->ops[i].sig;
        for (int32_t k = 0; s->inside[i] && k < sig->n_in; k++) {
            const lmi_edge *edge = lmi_model_edge(s->m, i, k);
            if (!edge || edge->owner != tensor) continue;
            if (!edge->as_data && edge->made < 0) return -1;
            if (edge->as_data && found < 0) found = i;
        }
    }
    return found;
}

/* The torch.autograd.Function that every gradient of a tensor comes through, as far as is known; -1 none. */
static int32_t function_of_tensor(const search *s, int32_t tensor) {
    for (int32_t i = 0; i < s->m->n_ops; i++) {
        const lam_op_sig *sig = s->m->ops[i].sig;
        for (int32_t k = 0; is_unit(s, i) && s->passes[i] && k < sig->n_in; k++) {
            if (!sig->in[k].is_tensor || tensor_of(s, i, k) != tensor || !passes_on(s, i, k)) continue;
            int32_t own = function_around(s->m, i);
            return own >= 0 ? own : s->function[i];
        }
    }
    return -1;
}

enum { STOPS_MAX = 1000 }; /* parameters whose operator is searched: each takes a pass */

/* "aten::detach in layer1 passes no gradient on". */
static void say_cut(const search *s, cut c, char *text, size_t size) {
    static const char *const says[] = {
        [CUT_BY_OP] = "passes no gradient on",
        [CUT_AS_DATA] = "reads it as data (Tensor.data), which passes no gradient on",
        [CUT_LEAVES] =
            "gives what goes on without an operator (numpy, Tensor.data), and without its gradient"};
    const char *what = says[c.way];
    int32_t op = as_called(s, c.op);
    if (c.way == CUT_LEAVES && s->g->behind[op].by == LMI_BY_OP) op = s->g->behind[op].index;
    if (c.way == CUT_BY_OP && !wants_gradient(s, c.op)) {
        bool back = s->m->ops[op].phase == LAM_BACKWARD;
        while (back && s->m->ops[op].parent >= 0 && !(s->m->ops[op].flags & LAM_OP_NODE))
            op = s->m->ops[op].parent;
        what = back ? "ran in a backward pass inside the forward, without create_graph=True"
                    : "ran without gradients (no_grad)";
    }
    snprintf(text, size, "%.80s in %.100s %s", s->m->ops[op].sig->name, place_of_op(s, op), what);
}

/* True if what ends its gradients was found. */
static bool why_not(search *s, int32_t tensor, bool called, int32_t *looked, char *text, size_t size) {
    cut c = no_cut;
    uint8_t read = s->read[tensor];
    if (!(read & READ) || (!called && only_moved(s, tensor)))
        snprintf(text, size, called ? "no operator of the forward reads it" : LMI_WHY_OF_NEVER_CALLED);
    else if (!(read & READ_LIVE))
        snprintf(text, size, "what is computed from it reaches no output of the model");
    else if ((*looked)++ < STOPS_MAX && (c = cut_of_tensor(s, tensor)).way != CUT_UNKNOWN)
        say_cut(s, c, text, size);
    else
        snprintf(text, size, "no gradient of an output of the model leads to it");
    return c.way != CUT_UNKNOWN;
}

/* A backward pass was run, and by the graph it should have brought a gradient. */
static void none_came(search *s, int32_t tensor, int32_t *looked, char *text, size_t size) {
    bool look = (*looked)++ < STOPS_MAX;
    int32_t f = look && s->known ? function_of_tensor(s, tensor) : -1,
            data = look ? data_reader(s, tensor) : -1;
    if (data >= 0)
        say_cut(s, (cut){data, CUT_AS_DATA}, text, size);
    else if (f < 0)
        snprintf(text, size, "the backward pass brought it none");
    else
        snprintf(text, size, "the backward pass brought it none: %.80s in %.100s gave none",
                 s->m->ops[f].sig->name, place_of_op(s, f));
}

typedef struct owners {
    bool parameter, called, opaque;
} owners;

static void find_owners(const search *s, owners *all) {
    for (int32_t i = 0; i < s->m->n_modules; i++) {
        const lam_module *mod = &s->m->modules[i];
        for (int32_t k = 0; k < mod->n_owned; k++) {
            owners *o = &all[mod->owned[k].tensor];
            o->parameter = o->parameter || !mod->owned[k].is_buffer;
            o->called = o->called || mod->n_calls > 0;
            o->opaque = o->opaque || is_opaque(s, mod) || lmi_only_elsewhere(mod);
        }
    }
}

/* A backward pass is stronger evidence than the graph: a Function with its own backward may return no
 * gradient. */
static bool gets_one(const search *s, int32_t t) {
    int8_t shown = s->m->tensors[t].gradient;
    return s->m->tensors[t].requires_grad && (shown > 0 || (shown == 0 && s->read[t] & READ_PASSES));
}

static lam_status no_gradient(search *s, lam_error *e) {
    const lam_model *m = s->m;
    owners *all = lmi_alloc(&s->scratch, (uint64_t)m->n_tensors, sizeof *all);
    int32_t looked = 0;
    bool any = false;
    if (!all) return lmi_nomem(e);
    find_owners(s, all);
    for (int32_t t = 0; t < m->n_tensors; t++) any = any || s->read[t];
    for (int32_t t = 0; t < m->n_tensors; t++) {
        char text[256] = LMI_WHY_FROZEN;
        if (!all[t].parameter || gets_one(s, t)) continue;
        if (m->tensors[t].requires_grad) {
            /* What a tensor wraps may have been read in its place, or passed on without an operator. */
            bool wraps = m->tensors[t].wraps, unseen = wraps && !(s->read[t] & READ_WITHIN);
            bool hidden = all[t].opaque && !(m->tensors[t].gradient < 0 && s->read[t] & READ_LIVE);
            bool explained = s->known && any && !hidden && !unseen && !(s->read[t] & READ_PASSES);
            bool ended = explained && why_not(s, t, all[t].called, &looked, text, sizeof text);
            if (!(wraps ? ended : explained) && m->tensors[t].gradient == 0) continue;
            if (!explained) none_came(s, t, &looked, text, sizeof text);
        }
        LAM_TRY(find(s, &s->g->no_gradient, s->g->tensor_name[t], text, e));
    }
    return LAM_OK;
}

/* all findings */

static lam_status prepare(search *s, lam_error *e) {
    const lam_model *m = s->m;
    s->live = lmi_alloc(&s->scratch, (uint64_t)m->n_ops, sizeof *s->live);
    s->passes = lmi_alloc(&s->scratch, (uint64_t)m->n_ops, sizeof *s->passes);
    s->cut = lmi_alloc(&s->scratch, (uint64_t)m->n_ops, sizeof *s->cut);
    s->function = lmi_alloc_none(&s->scratch, m->n_ops);
    s->read = lmi_alloc(&s->scratch, (uint64_t)m->n_tensors, sizeof *s->read);
    s->handed = lmi_alloc(&s->scratch, (uint64_t)m->n_ops, sizeof *s->handed);
    s->in_vain = lmi_alloc(&s->scratch, (uint64_t)m->n_events, sizeof *s->in_vain);
    if (!s->live || !s->passes || !s->cut || !s->function || !s->read || !s->handed || !s->in_vain)
        return lmi_nomem(e);
    s->inside = lmi_alloc(&s->scratch, (uint64_t)m->n_ops, sizeof *s->inside);
    if (!s->inside || !find_inside(s)) return lmi_nomem(e);
    s->taken = lmi_alloc(&s->scratch, (uint64_t)m->n_ops, sizeof *s->taken);
    if (!s->taken) return lmi_nomem(e);
    find_strangers(s);
    start(s);
    follow(s);
    return LAM_OK;
}

static lam_status look(search *s, lam_error *e) {
    LAM_TRY(prepare(s, e));
    LAM_TRY(never_called(s, e));
    if (s->known && !s->derives) LAM_TRY(unused_calls(s, e));
    if (s->known && !s->derives) LAM_TRY(unused_work(s, e));
    return no_gradient(s, e);
}

lam_status lmi_graph_findings(lam_graph *g, lam_error *e) {
    search s = {.g = g, .m = g->m};
    lmi_arena_init(&s.scratch, UINT64_MAX);
    lam_status status = look(&s, e);
    lmi_arena_free(&s.scratch);
    return status;
}

lam_status lmi_live_ops(const lam_model *m, bool *live, bool *known, lam_error *e) {
    search s = {.m = m, .traced = true};
    *known = false;
    LAM_TRY(lmi_graph_found(&s.g, m, e));
    lmi_arena_init(&s.scratch, UINT64_MAX);
    lam_status status = prepare(&s, e);
    if (status == LAM_OK && m->n_ops) memcpy(live, s.live, (size_t)m->n_ops * sizeof *live);
    *known = status == LAM_OK && s.known && !s.derives;
    lmi_arena_free(&s.scratch);
    lam_graph_free(s.g);
    return status;
}

static const char *finding(const lmi_vec *v, int32_t i, const char **reason) {
    const lmi_finding *f = i >= 0 ? lmi_vec_at(v, (size_t)i) : NULL;
    if (f && reason) *reason = f->reason;
    return f ? f->path : NULL;
}

const char *lam_graph_unused(const lam_graph *g, int32_t i, const char **reason) {
    return finding(&g->unused, i, reason);
}
const char *lam_graph_no_gradient(const lam_graph *g, int32_t i, const char **reason) {
    return finding(&g->no_gradient, i, reason);
}
