/* SPDX-License-Identifier: Apache-2.0
 *
 * Receptive fields on the graph of the data. The field of an operator's result says, for each axis of each
 * input tensor of the model, on which positions along it an element depends (span.h). It is computed from the
 * fields of the arguments, mapped through the operator (route.h) and joined. Operators come after the ones
 * they read, so one pass forward computes all. */
#include "analyse/field/rfgraph.h"
#include "analyse/field/field.h"
#include "analyse/field/rfempty.h"
#include "analyse/field/rflead.h"
#include "analyse/field/rfmemory.h"
#include "analyse/flow/flow.h"

#include <stdio.h>

typedef struct tracer {
    lam_costs *c;
    const lam_model *m;
    lmi_arena scratch;
    lmi_arena work; /* temporary data of one field */
    lmi_stream flow;
    lmi_ways ways;
    lmi_rf *rf;
    int32_t *of;          /* per operator: the field of its first result */
    int32_t *root;        /* per call: the outermost around it */
    lmi_rf_fields fields; /* of width() spans each */
    int32_t *inputs;      /* the fields of arguments of outermost calls */
    int32_t *of_input;    /* per call: the index in `inputs` of its first argument */
} tracer;

/* Spans of a field: one a slot, then one a slot along the narrowest path. */
enum { SPANS = 2 * LMI_RF_SLOTS, MOST_ARGUMENTS = 1024 };
static int32_t width(const tracer *t) { return 2 * t->rf->n_slots; }

/* Stores a copy of a finished field, and frees the temporary data. */
static bool keep(tracer *t, const lmi_span *spans, int32_t *index) {
    bool ok = lmi_rf_keep(&t->fields, spans, index);
    lmi_arena_free(&t->work);
    return ok;
}

/* -- inputs -------------------------------------------------------------------------------------- */

static void add_slot(lmi_rf *rf, const lam_arg *in, int32_t i, int32_t axis) {
    if (axis < in->ndim && axis < LMI_AXES && rf->n_slots < LMI_RF_SLOTS && in->sizes[axis] > 0)
        rf->slot[rf->n_slots++] = (lmi_rf_slot){.input = i, .axis = axis, .positions = in->sizes[axis]};
}

/* Lists the axes of the arguments of the first outermost call. The first axis, usually the batch, comes last:
 * it is shown only if a sequence is along it. */
static void find_slots(tracer *t) {
    const lam_event *ev = &t->m->events[0];
    for (int32_t i = 0; i < ev->n_in; i++)
        for (int32_t x = ev->in[i].ndim > 1; x < ev->in[i].ndim; x++) add_slot(t->rf, &ev->in[i], i, x);
    for (int32_t i = 0; i < ev->n_in; i++)
        if (ev->in[i].ndim == 2 || ev->in[i].ndim == 3) add_slot(t->rf, &ev->in[i], i, 0);
}

static lam_status input_field(tracer *t, const lam_event *root, int32_t input, int32_t *index, lam_error *e) {
    lmi_span spans[SPANS] = {{0}};
    const lam_arg *in = &root->in[input];
    for (int32_t k = 0; k < width(t); k++) {
        const lmi_rf_slot *slot = &t->rf->slot[k % t->rf->n_slots];
        if (slot->input != input || slot->axis >= in->ndim) continue;
        if (!lmi_span_input(&t->work, &spans[k], slot->axis, in->sizes[slot->axis])) return lmi_nomem(e);
    }
    return keep(t, spans, index) ? LAM_OK : lmi_nomem(e);
}

/* The fields of every outermost call's arguments. */
static lam_status input_fields(tracer *t, lam_error *e) {
    int32_t n = 0;
    for (int32_t i = 0; i < t->m->n_events; i++)
        if (t->m->events[i].parent < 0) n += t->m->events[i].n_in;
    t->of_input = lmi_alloc(&t->scratch, (uint64_t)t->m->n_events, sizeof *t->of_input);
    t->inputs = lmi_alloc(&t->scratch, (uint64_t)n, sizeof *t->inputs);
    if (!t->of_input || !t->inputs) return lmi_nomem(e);
    n = 0;
    for (int32_t i = 0; i < t->m->n_events; i++) {
        const lam_event *ev = &t->m->events[i];
        t->of_input[i] = n;
        for (int32_t k = 0; ev->parent < 0 && k < ev->n_in; k++)
            LAM_TRY(input_field(t, ev, k, &t->inputs[n++], e));
    }
    return LAM_OK;
}

/* -- the source of a tensor ---------------------------------------------------------------------- */

static bool unknown(tracer *t, lmi_span *s, const char *op, bool many) {
    char text[160];
    snprintf(text, sizeof text, "%s %s", op,
             many ? "has more arguments than are followed" : "does something unknown to positions");
    *s = (lmi_span){.kind = LMI_SPAN_UNKNOWN, .why = lmi_strdup(&t->work, text), .least = s->least};
    return s->why;
}

static bool same_shape(const lam_op_arg *a, lam_shape s) {
    return a->ndim == s.ndim &&
           (s.ndim <= 0 || memcmp(a->sizes, s.sizes, (size_t)s.ndim * sizeof *s.sizes) == 0);
}

static lmi_way way_of(const tracer *t, const lam_op *o) {
    return o->sig->word >= 0 && o->sig->word < t->ways.n ? t->ways.by_word[o->sig->word] : NULL;
}

/* The states after a recurrence's last step: (layers, batch, width). */
static bool to_states(tracer *t, const lam_op *from, lam_shape first, lmi_span *s) {
    bool batch = s->kind == LMI_SPAN_TRACK && s->axis == (lmi_sequence_axis(from->sig) ? 0 : 1);
    if (batch) s->axis = 1;
    return batch || s->kind != LMI_SPAN_TRACK || lmi_span_all(&t->work, s, first.sizes[s->axis]);
}

/* If a result's shape differs from that of the first result, each of its elements is taken to read
 * everything. */
static bool check_shape(tracer *t, lmi_span *spans, const lam_op *from, const lam_op_arg *a) {
    lam_shape first = lmi_result_shape(from->sig);
    bool ok = true;
    if (same_shape(a, first)) return true;
    for (int32_t k = 0; ok && k < width(t); k++) {
        lmi_span *s = &spans[k];
        s->stays = 0;
        if (s->grid) s->loose = true;
        if (s->grid && !lmi_span_all(&t->work, s, s->kind == LMI_SPAN_TRACK ? first.sizes[s->axis] : 1))
            return false;
        if (way_of(t, from) == lmi_way_rnn && first.ndim == 3)
            ok = to_states(t, from, first, s);
        else if (s->kind == LMI_SPAN_TRACK && s->axis < first.ndim)
            ok = lmi_span_all(&t->work, s, first.sizes[s->axis]) && (s->loose = true);
    }
    return ok;
}

static void load(const tracer *t, int32_t index, lmi_span *spans) {
    memcpy(spans, lmi_rf_field(&t->fields, index), (size_t)width(t) * sizeof *spans);
}

/* -- memory written in parts --------------------------------------------------------------------- */

/* Loads the field of the memory before its first observed write. */
static void load_before(const tracer *t, const lmi_edge *edge, int32_t root, lmi_span *spans) {
    bool input = edge->owner <= -2 && root >= 0 && -2 - edge->owner < t->m->events[root].n_in;
    load(t, input ? t->inputs[t->of_input[root] - 2 - edge->owner] : 0, spans);
    for (int32_t k = 0; edge->owner == -1 && k < width(t); k++) spans[k].least = true;
}

/* True if the field of a write is known: its operator is a unit. */
static bool is_written(const tracer *t, const lmi_write *w) { return t->flow.unit[w->op] == w->op; }

/* Makes every element that is read depend on everything that was written. */
static bool blur(tracer *t, lmi_span *s, lam_shape shape) {
    int64_t n = s->kind == LMI_SPAN_TRACK && s->axis < shape.ndim ? shape.sizes[s->axis] : 1;
    if (s->kind == LMI_SPAN_TRACK || s->kind == LMI_SPAN_FIXED) s->loose = true;
    s->stays = 0;
    return lmi_span_all(&t->work, s, n);
}

/* Puts a write over `spans`, those of a tensor of that shape. */
static bool put_write(tracer *t, const lmi_write *w, const lmi_place *mine, lam_shape shape,
                      lmi_span *spans) {
    lmi_span fresh[SPANS];
    lmi_place at;
    int32_t n = t->rf->n_slots;
    bool placed = mine && lmi_flow_place(t->m, w, &at) && lmi_places_comparable(&at, mine);
    load(t, t->of[w->op], fresh);
    for (int32_t k = 0; k < 2 * n; k++)
        if (!(placed ? lmi_rf_move(&t->work, &fresh[k], &at, mine)
                     : blur(t, &fresh[k], (lam_shape){w->ndim, w->sizes})))
            return false;
    for (int32_t k = n; k < 2 * n; k++) lmi_rf_narrower(&spans[k], &fresh[k]);
    if (placed) return lmi_rf_overlay(&t->work, t->rf, spans, fresh, &at, mine);
    for (int32_t k = 0; k < n; k++)
        if (!blur(t, &spans[k], shape) || !lmi_span_join(&t->work, &spans[k], &fresh[k], 1, 1)) return false;
    return true;
}

/* True for an operator that made or wrote an argument of the outermost call before it began. */
static bool is_before(const tracer *t, const lmi_edge *edge, int32_t op, int32_t root) {
    int32_t call = op >= 0 ? t->m->ops[op].call : -1;
    return op >= 0 && root >= 0 && edge->owner <= -2 && (call < 0 || t->root[call] != root);
}

enum { WRITES_MAX = 4096 }; /* writes into one memory that are examined for one reader */

/* The field of a tensor whose memory was written through other views: merges all writes since the last one
 * that covers it. */
static bool read_written(tracer *t, const lmi_edge *edge, lam_shape shape, int32_t root, lmi_span *spans) {
    const lmi_write *found[WRITES_MAX], *w;
    int32_t n = 0;
    bool ends = false;
    lmi_place mine, at, *to = &mine;
    if ((edge->made < 0 && edge->owner == -1) ||
        !lmi_place_of(t->m, t->m->edges, edge->made, edge->nth, shape.ndim, shape.sizes, to))
        to = NULL;
    for (int32_t i = edge->write; i >= 0 && !ends; i = w->prev) {
        w = &t->m->writes[i];
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a model with edges has its writes */
        if (is_before(t, edge, w->op, root)) break;
        if (!is_written(t, w)) continue;
        bool known = to && lmi_flow_place(t->m, w, &at);
        if (known && !lmi_places_meet(&at, to)) continue;
        if (n == WRITES_MAX) {
            to = NULL;
            break;
        }
        found[n++] = w;
        ends =
            to ? known && lmi_place_holds(&at, to) : lmi_flow_place(t->m, w, &at) && lmi_place_is_whole(&at);
    }
    if (ends)
        load(t, 0, spans);
    else
        load_before(t, edge, root, spans);
    for (int32_t k = 0; !ends && !to && k < width(t); k++)
        if (!blur(t, &spans[k], shape)) return false;
    while (n > 0)
        if (!put_write(t, found[--n], to, shape, spans)) return false;
    return lmi_rf_empty(&t->work, t->rf, spans, shape, false);
}

/* -- the fields of an argument ------------------------------------------------------------------- */

static bool parts(const tracer *t, int32_t op) {
    lmi_way way = way_of(t, &t->m->ops[op]);
    return way == lmi_way_split || way == lmi_way_unbind;
}

/* Among the operators right inside `op`, or inside one of them that splits too, the number of the one that
 * made a tensor, if there is one for each part; else -1. */
static int32_t inside_in_order(const tracer *t, int32_t op, int32_t made) {
    const lam_op *ops = t->m->ops;
    int32_t at = made, before = 0, all = 0;
    while (at >= 0 && ops[at].parent != op && (ops[at].parent < 0 || !parts(t, ops[at].parent)))
        at = ops[at].parent;
    int32_t in = at < 0 ? -1 : ops[at].parent, above = in;
    while (above > op) above = ops[above].parent;
    if (above != op) return -1;
    for (int32_t i = in + 1; i < t->m->n_ops && ops[i].parent >= in; i++) {
        all += ops[i].parent == in;
        before += i < at && ops[i].parent == in;
    }
    return all == ops[op].sig->n_out ? before : -1;
}

/* The result of a splitting operator that the tensor is; -1: unknown. An operator inside it may have made the
 * tensor: its turn, or the place of the tensor, tells which part it is. */
static int32_t which_part(const tracer *t, const lmi_edge *edge, int32_t op, const lam_op_arg *a) {
    const lam_model *m = t->m;
    const lam_op_sig *sig = m->ops[op].sig;
    int32_t found = -1, turn = edge->made > op ? inside_in_order(t, op, edge->made) : -1;
    lmi_place mine, at;
    if (edge->made == op && edge->nth < sig->n_out) return edge->nth;
    if (turn >= 0 && same_shape(a, (lam_shape){sig->out[turn].ndim, sig->out[turn].sizes})) return turn;
    bool placed =
        edge->made >= 0 && lmi_place_of(m, m->edges, edge->made, edge->nth, a->ndim, a->sizes, &mine);
    for (int32_t i = 0; i < sig->n_out; i++) {
        const lam_op_arg *o = &sig->out[i];
        if (!same_shape(a, (lam_shape){o->ndim, o->sizes})) continue;
        if (placed && lmi_place_of(m, m->edges, op, i, o->ndim, o->sizes, &at) &&
            !lmi_places_meet(&mine, &at))
            continue;
        if (found >= 0) return -1;
        found = i;
    }
    return found;
}

/* The field of one part of a tensor that an operator split: maps the split tensor's field to this part. */
static bool take_part(tracer *t, const lmi_edge *edge, int32_t op, const lam_op_arg *a, lmi_span *spans) {
    const lam_op_sig *sig = t->m->ops[op].sig;
    int32_t in = lmi_first_tensor(&t->m->ops[op]);
    lmi_route r = {.among = -1};
    bool windowed[LMI_RF_SLOTS] = {false};
    if (in < 0 || sig->n_out == 0) return true;
    if (!lmi_route_part(&t->work, sig, in, which_part(t, edge, op, a), &r)) return false;
    lam_shape x = {sig->in[in].ndim, sig->in[in].sizes}, out = {a->ndim, a->sizes};
    return lmi_rf_lead(&t->work, t->rf, x, out, &r, spans, windowed) &&
           lmi_rf_empty(&t->work, t->rf, spans, out, false);
}

/* The spans of a tensor that comes from `s`. */
static bool spans_of(tracer *t, const lmi_edge *edge, lmi_source s, const lam_op_arg *a, int32_t root,
                     lmi_span *spans) {
    static const lmi_edge none = {.op = -1, .owner = -1, .made = -1, .write = -1, .maybe = -1};
    if (!edge) edge = &none;
    if (is_before(t, edge, edge->op, root)) s = (lmi_source){LMI_BY_INPUT, -2 - edge->owner};
    bool inside = s.by == LMI_BY_OP && edge->op >= 0 &&
                  t->flow.unit[edge->op] < 0; /* it returned the result of an operator inside it */
    const lmi_write *w = edge->write >= 0 ? &t->m->writes[edge->write] : NULL;
    while (w && inside && !is_written(t, w) && w->prev >= 0) w = &t->m->writes[w->prev];
    bool writes = (edge->through && s.by != LMI_BY_INPUT) ||
                  (inside && w && is_written(t, w) && w->prev >= 0 && s.index <= w->op);
    if (writes && edge->write >= 0) return read_written(t, edge, (lam_shape){a->ndim, a->sizes}, root, spans);
    int32_t index = 0;
    if (s.by == LMI_BY_OP) index = t->of[s.index];
    if (s.by == LMI_BY_INPUT && root >= 0 && s.index < t->m->events[root].n_in)
        index = t->inputs[t->of_input[root] + s.index];
    load(t, index, spans);
    if (s.by == LMI_BY_OP && parts(t, s.index)) return take_part(t, edge, s.index, a, spans);
    if (s.by == LMI_BY_OP && !check_shape(t, spans, &t->m->ops[s.index], a)) return false;
    for (int32_t k = 0; s.by == LMI_BY_NOTHING && lmi_op_arg_numel(a) > 1 && k < width(t); k++)
        spans[k].least = true;
    return true;
}

/* The spans of entry `in` of an operator's arguments. */
static bool spans_in(tracer *t, int32_t op, int32_t in, lmi_span *spans) {
    const lam_op *o = &t->m->ops[op];
    int32_t root = o->call >= 0 ? t->root[o->call] : -1;
    return spans_of(t, lmi_model_edge(t->m, op, in), lmi_flow_from(&t->flow, op, in), &o->sig->in[in], root,
                    spans);
}

/* -- one operator -------------------------------------------------------------------------------- */

/* Marks slots along whose axis a product of matrices, as in a linear layer, sums the rows of its argument,
 * and that which ONNX's recurrences have as their batch. */
static void note_features(const tracer *t, const lam_op *o, lam_shape x, const lmi_route *r,
                          const lmi_span *spans) {
    const lmi_way way = way_of(t, o);
    const bool steps = way == lmi_way_steps && x.ndim == 3;
    if (way != lmi_way_linear && way != lmi_way_addmm && way != lmi_way_matmul && !steps) return;
    for (int32_t k = 0; k < t->rf->n_slots; k++) {
        const bool tracks = spans[k].kind == LMI_SPAN_TRACK;
        const int32_t axis = tracks ? spans[k].axis : spans[k].stays - 1;
        t->rf->slot[k].features |= axis >= 0 && axis == x.ndim - 1 && r->to[axis] == LMI_TO_ALL;
        t->rf->slot[k].batch |= steps && tracks && axis == 1 && lmi_sequence_axis(o->sig) == 0;
    }
}

/* A window of values of the input may move along an axis that is followed from none of it. */
static void note_lost(lmi_rf *rf, const lmi_route *r, const lmi_span *spans, const bool *windowed) {
    bool reads = false, followed = !r->spatial;
    for (int32_t k = 0; k < rf->n_slots; k++) {
        reads = reads || spans[k].kind != LMI_SPAN_NONE;
        followed = followed || windowed[k];
    }
    rf->lost = rf->lost || (reads && !followed);
}

static bool join_in(tracer *t, const lam_op *o, int32_t in, const lmi_route *r, bool several, lmi_span *spans,
                    lmi_span *sum) {
    const lam_op_sig *sig = o->sig;
    lam_shape x = {sig->in[in].ndim, sig->in[in].sizes}, out = lmi_result_shape(sig);
    int32_t n = t->rf->n_slots;
    note_features(t, o, x, r, spans);
    bool windowed[LMI_RF_SLOTS] = {false};
    if (!lmi_rf_lead(&t->work, t->rf, x, out, r, spans, windowed)) return false;
    note_lost(t->rf, r, spans, windowed);
    for (int32_t k = 0; k < n; k++) {
        t->rf->slot[k].windowed |= windowed[k];
        if (!lmi_rf_part(&t->work, &spans[k], r, out)) return false;
    }
    if (!lmi_rf_empty(&t->work, t->rf, spans, out, r->among >= 0)) return false;
    if (several && r->among < 0 && !lmi_rf_apart(&t->work, t->rf, spans, sum, out)) return false;
    for (int32_t k = 0; k < width(t); k++) {
        lmi_span *s = &spans[k];
        if (k >= n)
            lmi_rf_narrower(&sum[k], s);
        else if (!lmi_rf_join(&t->work, &sum[k], s, out))
            return false;
    }
    return true;
}

/* True for an operator with more arguments than are followed: each of a cat is held against all others. */
static bool too_many(const lam_op_sig *s) { return s->n_in > MOST_ARGUMENTS; }

static bool all_unknown(tracer *t, const lam_op *o, lmi_span *spans, lmi_span *sum) {
    for (int32_t k = 0; k < width(t); k++) {
        bool known = spans[k].kind != LMI_SPAN_NONE && spans[k].kind != LMI_SPAN_UNKNOWN;
        if (known && !unknown(t, &spans[k], o->sig->name, too_many(o->sig))) return false;
        if (!lmi_span_join(&t->work, &sum[k], &spans[k], 1, 1)) return false;
    }
    return true;
}

static bool too_many_axes(const lam_op_sig *s, int32_t in) {
    lam_shape out = lmi_result_shape(s);
    return s->in[in].ndim < 0 || s->in[in].ndim > LMI_AXES || out.ndim < 0 || out.ndim > LMI_AXES;
}

static lam_status trace_op(tracer *t, int32_t op, lam_error *e) {
    const lam_op *o = &t->m->ops[op];
    lmi_way way = too_many(o->sig) ? NULL : way_of(t, o);
    lmi_span sum[SPANS] = {{0}}, spans[SPANS];
    bool any = false;
    for (int32_t i = 0; i < o->sig->n_in; i++) {
        if (!o->sig->in[i].is_tensor) continue;
        lmi_route r = {.among = -1};
        if (way && !way(&t->work, o->sig, i, &r)) return lmi_nomem(e);
        if (r.unread) continue;
        if (!spans_in(t, op, i, spans)) return lmi_nomem(e);
        if (parts(t, op)) return keep(t, spans, &t->of[op]) ? LAM_OK : lmi_nomem(e);
        bool odd = !way || too_many_axes(o->sig, i);
        if (!(odd ? all_unknown(t, o, spans, sum) : join_in(t, o, i, &r, any, spans, sum)))
            return lmi_nomem(e);
        any = true;
    }
    for (int32_t k = 0; any && k < t->rf->n_slots; k++) lmi_span_even(&sum[k]);
    return keep(t, sum, &t->of[op]) ? LAM_OK : lmi_nomem(e);
}

/* True for an operator with its own line in rf_operators.def: it represents the operators inside it. An
 * operator whose only inside is another overload of it (which fills in defaults) is transparent. */
static bool is_unit(void *self, const lam_op *o) {
    const tracer *t = self;
    const lam_op *next = o + 1;
    if (o->flags & (LAM_OP_FAILED | LAM_OP_NODE)) return false;
    bool again =
        next < t->m->ops + t->m->n_ops && next->parent == o - t->m->ops && next->sig->word == o->sig->word;
    if (o->n_children > 0 && again) return false;
    return (o->sig->word >= 0 && t->ways.named[o->sig->word]) || lmi_flow_counts(NULL, o);
}

/* -- the rows ------------------------------------------------------------------------------------ */

/* Stores the field of a call's first result; none if its source is unknown. */
static lam_status fill_row(tracer *t, int32_t row, lam_error *e) {
    int32_t event = t->c->rows[row].event, index;
    lmi_span spans[SPANS];
    if (event < 0 || t->m->events[event].n_out == 0) return LAM_OK;
    const lam_arg *out = &t->m->events[event].out[0];
    lam_op_arg a = {.ndim = out->ndim, .sizes = out->sizes};
    lmi_source s = lmi_flow_result(&t->flow, event, 0);
    if (s.by != LMI_BY_OP && s.by != LMI_BY_INPUT) return LAM_OK;
    if (s.by == LMI_BY_OP && t->m->ops[s.index].phase != LAM_FORWARD)
        return LAM_OK; /* a layer that runs again */
    if (!spans_of(t, lmi_model_out_edge(t->m, event, 0), s, &a, t->root[event], spans) ||
        !keep(t, spans, &index))
        return lmi_nomem(e);
    t->rf->of_row[row] = lmi_rf_field(&t->fields, index);
    return LAM_OK;
}

/* The number behind the last operator of each outermost call's forward; NULL: memory ran out. */
static int32_t *forward_ends(tracer *t) {
    const lam_model *m = t->m;
    int32_t *ends = lmi_alloc(&t->scratch, (uint64_t)m->n_events, sizeof *ends);
    for (int32_t i = 0; ends && i < m->n_ops; i++)
        if (m->ops[i].phase == LAM_FORWARD && m->ops[i].call >= 0) ends[t->root[m->ops[i].call]] = i + 1;
    return ends;
}

/* Finds the fields of all operators. Those of a backward pass read what autograd saved, which is not
 * followed: a forward that computes a gradient, and goes on with it, may depend on anything by that. */
static lam_status trace_ops(tracer *t, lam_error *e) {
    const lam_model *m = t->m;
    int32_t index, root = -1, *ends = forward_ends(t);
    lmi_span spans[SPANS] = {{0}};
    for (int32_t k = 0; k < width(t); k++)
        if (!unknown(t, &spans[k], "a backward pass", false)) return lmi_nomem(e);
    if (!ends || !keep(t, spans, &index)) return lmi_nomem(e);
    for (int32_t i = 0; i < m->n_ops; i++) {
        const lam_op *o = &m->ops[i];
        const bool forward = o->phase == LAM_FORWARD;
        if (forward && o->call >= 0) root = t->root[o->call];
        if (t->flow.unit[i] != i) continue;
        if (forward)
            LAM_TRY(trace_op(t, i, e));
        else if (root >= 0 && i < ends[root])
            t->of[i] = index;
    }
    return LAM_OK;
}

static lam_status trace(tracer *t, lam_error *e) {
    const lam_model *m = t->m;
    int32_t index;
    lmi_span none[SPANS] = {{0}};
    t->of = lmi_alloc(&t->scratch, (uint64_t)m->n_ops, sizeof *t->of);
    if (!t->of || !lmi_flow_roots(m, &t->scratch, &t->root) || !keep(t, none, &index)) return lmi_nomem(e);
    if (!lmi_ways_build(&t->ways, &t->scratch)) return lmi_nomem(e);
    LAM_TRY(lmi_flow_build(&t->flow, m, &t->scratch, is_unit, t, e));
    LAM_TRY(input_fields(t, e));
    LAM_TRY(trace_ops(t, e));
    t->rf->of_row = lmi_alloc(&t->c->arena, (uint64_t)t->c->n_rows, sizeof *t->rf->of_row);
    if (!t->rf->of_row) return lmi_nomem(e);
    for (int32_t r = 0; r < t->c->n_rows; r++) LAM_TRY(fill_row(t, r, e));
    return LAM_OK;
}

lam_status lmi_rfgraph_fill(lam_costs *c, lam_error *e) {
    if (!c->model->ops_seen || c->model->n_events == 0) return LAM_OK;
    tracer t = {.c = c, .m = c->model};
    lmi_arena_init(&t.scratch, UINT64_MAX);
    lmi_arena_init(&t.work, UINT64_MAX);
    t.rf = lmi_alloc(&c->arena, 1, sizeof *t.rf);
    lam_status s = LAM_OK;
    if (t.rf) {
        find_slots(&t);
        lmi_rf_fields_init(&t.fields, &c->arena, width(&t));
        if (t.rf->n_slots > 0) s = trace(&t, e);
    } else {
        s = lmi_nomem(e);
    }
    if (s == LAM_OK && t.rf->of_row) {
        lmi_rf_choose(c, t.rf);
        c->rf = t.rf;
    }
    lmi_rf_fields_free(&t.fields);
    lmi_arena_free(&t.scratch);
    lmi_arena_free(&t.work);
    return s;
}
