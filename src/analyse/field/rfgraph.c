/* SPDX-License-Identifier: Apache-2.0
 *
 * Receptive fields on the graph of the data. The field of an operator's result says, for each axis of each
 * input tensor of the model, on which positions along it an element depends (span.h). It is computed from the
 * fields of the arguments, mapped through the operator (route.h) and joined. Operators come after the ones
 * they read, so one pass forward computes all. */
#include "analyse/field/rfgraph.h"
#include "analyse/field/field.h"
#include "analyse/field/rfplace.h"
#include "analyse/field/rfview.h"
#include "analyse/field/route.h"
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
enum { SPANS = 2 * LMI_RF_SLOTS };
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

static bool unknown(tracer *t, lmi_span *s, const char *op) {
    char text[160];
    snprintf(text, sizeof text, "%s does something unknown to positions", op);
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

/* For a result that has another shape than the first, it is unknown which positions an element reads: each
 * may read all. */
static bool check_shape(tracer *t, lmi_span *spans, const lam_op *from, const lam_op_arg *a) {
    lam_shape first = lmi_result_shape(from->sig);
    bool ok = true;
    if (same_shape(a, first)) return true;
    for (int32_t k = 0; ok && k < width(t); k++) {
        lmi_span *s = &spans[k];
        bool mixed = s->kind == LMI_SPAN_FOLDED;
        s->stays = 0;
        if (way_of(t, from) == lmi_way_rnn && first.ndim == 3)
            ok = to_states(t, from, first, s);
        else if (s->kind == LMI_SPAN_TRACK && s->axis < first.ndim)
            ok = lmi_span_all(&t->work, s, first.sizes[s->axis]) && (s->loose = true);
        else if (mixed)
            ok = lmi_span_all(&t->work, s, 1) && (s->loose = true);
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
    if (s->kind == LMI_SPAN_TRACK || s->kind == LMI_SPAN_FOLDED || s->kind == LMI_SPAN_FIXED) s->loose = true;
    s->stays = 0;
    return lmi_span_all(&t->work, s, n);
}

static bool put_write(tracer *t, const lmi_write *w, const lmi_place *mine, lmi_span *spans) {
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
    if (placed) return lmi_rf_overlay(&t->work, n, spans, fresh, &at, mine);
    for (int32_t k = 0; k < n; k++)
        if (!blur(t, &spans[k], (lam_shape){w->ndim, w->sizes}) ||
            !lmi_span_join(&t->work, &spans[k], &fresh[k], 1, 1))
            return false;
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
        if (!put_write(t, found[--n], to, spans)) return false;
    return true;
}

/* -- the fields of an argument ------------------------------------------------------------------- */

static bool lead(tracer *t, lam_shape x, lam_shape out, const lmi_route *r, lmi_span *s, bool *windowed);

/* The result of a splitting operator that the tensor is; -1: unknown. An operator inside it may have made the
 * tensor: the result then has the same shape and place. */
static int32_t which_part(const tracer *t, const lmi_edge *edge, int32_t op, const lam_op_arg *a) {
    const lam_model *m = t->m;
    const lam_op_sig *sig = m->ops[op].sig;
    int32_t found = -1;
    lmi_place mine, at;
    if (edge->made == op && edge->nth < sig->n_out) return edge->nth;
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
    bool windowed = false;
    if (in < 0 || sig->n_out == 0) return true;
    if (!lmi_route_part(&t->work, sig, in, which_part(t, edge, op, a), &r)) return false;
    lam_shape x = {sig->in[in].ndim, sig->in[in].sizes}, out = {a->ndim, a->sizes};
    for (int32_t k = 0; k < width(t); k++)
        if (!lead(t, x, out, &r, &spans[k], &windowed)) return false;
    return true;
}

static bool parts(const tracer *t, int32_t op) {
    lmi_way way = way_of(t, &t->m->ops[op]);
    return way == lmi_way_split || way == lmi_way_unbind;
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

/* -- views --------------------------------------------------------------------------------------- */

/* Marks the span's axis of n elements as folded into an axis of outer x n x inner elements. */
static bool fold(tracer *t, lmi_span *s, int64_t outer, int64_t n, int64_t inner, int32_t to) {
    lmi_span *was = lmi_copy(&t->work, s, 1, sizeof *s);
    if (!was || !lmi_span_all(&t->work, s, n)) return false;
    if (s->kind != LMI_SPAN_FIXED) return true;
    s->kind = LMI_SPAN_FOLDED;
    s->axis = (int8_t)to;
    s->was = was;
    s->outer = outer;
    s->n = n;
    s->inner = inner;
    return true;
}

/* Repeats each of the span's elements `inner` times: element o becomes that of o / inner. */
static bool stretch(tracer *t, lmi_span *s, int64_t n, int64_t inner, int32_t to) {
    if (inner > LMI_PERIOD_MAX) return fold(t, s, 1, n, inner, to);
    int64_t *zeros = lmi_alloc(&t->work, (uint64_t)inner, sizeof *zeros);
    if (!zeros) return false;
    lmi_taps taps = {(int32_t)inner, 1, 1, zeros, zeros, NULL};
    s->axis = (int8_t)to;
    return lmi_span_window(&t->work, s, &taps, n, n * inner);
}

/* Moves the span to the major axis of a split: its elements depend on all elements of the minor axes. */
static bool split(tracer *t, lmi_span *s, lam_shape out, int32_t major, int64_t inner, int64_t n) {
    int64_t lo = 0, hi = inner - 1;
    if (major >= LMI_AXES) return lmi_span_all(&t->work, s, n);
    lmi_taps taps = {1, inner, 1, &lo, &hi, NULL};
    bool exact = s->kind == LMI_SPAN_TRACK && s->period % inner == 0;
    s->axis = (int8_t)major;
    if (!lmi_span_window(&t->work, s, &taps, n, out.sizes[major])) return false;
    s->loose = s->loose || (inner > 1 && !exact);
    return true;
}

/* Restores the span of a folded axis that is split into the same axes as before. */
static bool unfold(lmi_span *s, lam_shape out, const lmi_group *g) {
    int64_t before = 1;
    for (int32_t i = g->out; i < g->out_end && i < LMI_AXES; i++) {
        if (before == s->outer && out.sizes[i] == s->n) {
            bool least = s->least;
            *s = *s->was;
            s->axis = (int8_t)i;
            s->least = s->least || least;
            return true;
        }
        before *= out.sizes[i];
    }
    return false;
}

static bool follows(const lmi_span *s) { return s->kind == LMI_SPAN_TRACK || s->kind == LMI_SPAN_FOLDED; }

static bool view_span(tracer *t, lmi_span *s, lam_shape in, lam_shape out) {
    lmi_group g;
    int64_t n = in.sizes[s->axis];
    if (n == 0 || !lmi_find_group(in, out, s->axis, &g))
        return lmi_span_all(&t->work, s, n) && (s->loose = true);
    int64_t outer = lmi_axes_product(in, g.in, s->axis), inner = lmi_axes_product(in, s->axis + 1, g.in_end);
    int32_t to = lmi_first_real(out, g.out, g.out_end);
    bool one = to < g.out_end && to < LMI_AXES && lmi_axes_product(out, to, to + 1) == outer * n * inner;
    if (n == 1 && outer * inner > 1) return lmi_span_all(&t->work, s, n);
    if (g.out == g.out_end) return lmi_span_all(&t->work, s, n);
    if (s->kind == LMI_SPAN_FOLDED) {
        if (outer * inner == 1 && unfold(s, out, &g)) return true;
        if (one && outer * inner == 1) {
            s->axis = (int8_t)to;
            return true;
        }
        s->loose = true;
        return lmi_span_all(&t->work, s, n);
    }
    int64_t major = to < g.out_end ? out.sizes[to] : 0;
    if (outer == 1 && major > 0 && major % n == 0) return stretch(t, s, n, major / n, to);
    if (one) return fold(t, s, outer, n, inner, to);
    if (outer == 1 && major > 0 && n % major == 0) return split(t, s, out, to, n / major, n);
    lam_shape mid;
    int64_t sizes[LMI_AXES];
    if (lmi_refined(in, out, sizes, &mid) && mid.ndim != in.ndim && mid.ndim != out.ndim)
        return view_span(t, s, in, mid) && (!follows(s) || view_span(t, s, mid, out));
    s->loose = true;
    return lmi_span_all(&t->work, s, n);
}

/* -- one operator -------------------------------------------------------------------------------- */

/* Makes every element depend on the positions of element `one`. */
static bool pick_one(tracer *t, lmi_span *s, int64_t one) {
    lmi_reach *at = lmi_alloc(&t->work, 1, sizeof *at);
    if (!at) return false;
    *at = lmi_span_clipped(s, one);
    s->kind = at->hi < at->lo ? LMI_SPAN_NONE : LMI_SPAN_FIXED;
    s->period = 1;
    s->at = at;
    return true;
}

/* Lists for each of the n elements of a folded axis the positions that it depends on. */
static bool spell_out(tracer *t, lmi_span *s, int64_t n) {
    const lmi_span *was = s->was;
    int64_t period = s->n * s->inner;
    if (period > LMI_PERIOD_MAX || was->kind != LMI_SPAN_TRACK) {
        s->loose = true;
        return lmi_span_all(&t->work, s, n);
    }
    lmi_reach *at = lmi_alloc(&t->work, (uint64_t)period, sizeof *at);
    if (!at) return false;
    for (int64_t o = 0; o < period; o++) at[o] = lmi_span_clipped(was, o / s->inner);
    s->kind = LMI_SPAN_TRACK;
    s->at = at;
    s->period = (int32_t)period;
    s->shift = 0;
    return true;
}

/* Maps a fixed span: its positions stay the same, but the axis that still holds them may move, and a window
 * may move along it. */
static void stay(lam_shape x, lam_shape out, const lmi_route *r, lmi_span *s, bool *windowed) {
    int32_t axis = s->stays - 1, to = axis;
    lmi_group g;
    if (axis < 0 || axis >= x.ndim) {
        s->stays = 0;
    } else if (r->view) {
        bool alone = x.sizes[axis] > 0 && lmi_find_group(x, out, axis, &g) &&
                     x.sizes[axis] == lmi_axes_product(x, g.in, g.in_end);
        int32_t real = alone ? lmi_first_real(out, g.out, g.out_end) : out.ndim;
        s->stays = (int8_t)(real < out.ndim && out.sizes[real] == x.sizes[axis] ? real + 1 : 0);
    } else {
        if (r->to[axis] != LMI_TO_ALL) to = r->to[axis];
        bool there = to >= 0 && to < out.ndim && (r->taps[axis] || out.sizes[to] == x.sizes[axis]);
        *windowed = *windowed || (there && r->taps[axis] && r->spatial);
        s->stays = (int8_t)(there ? to + 1 : 0);
    }
}

/* Maps a span through the operator along the route. */
static bool lead(tracer *t, lam_shape x, lam_shape out, const lmi_route *r, lmi_span *s, bool *windowed) {
    s->loose = s->loose || (r->some && (follows(s) || s->kind == LMI_SPAN_FIXED));
    if (!follows(s)) {
        if (s->kind == LMI_SPAN_FIXED) stay(x, out, r, s, windowed);
        return true;
    }
    int32_t axis = s->axis, to = r->to[axis];
    int64_t n = axis < x.ndim ? x.sizes[axis] : 1;
    if (r->view) return view_span(t, s, x, out);
    if (to == LMI_TO_ONE && s->kind == LMI_SPAN_TRACK) return pick_one(t, s, r->one);
    if (to < 0 || to >= out.ndim) {
        s->loose = s->loose || r->loose || to == LMI_TO_ONE;
        bool same = to == LMI_TO_ALL && axis < out.ndim && x.ndim == out.ndim && out.sizes[axis] == n;
        s->stays = (int8_t)(same ? axis + 1 : 0);
        return lmi_span_all(&t->work, s, n);
    }
    bool spread = !r->taps[axis] && n != out.sizes[to];
    s->loose = s->loose || (spread && n != 1);
    if (spread) return lmi_span_all(&t->work, s, n);
    s->axis = (int8_t)to;
    if (!r->taps[axis]) return true;
    if (s->kind == LMI_SPAN_FOLDED && !spell_out(t, s, n)) return false;
    if (s->kind != LMI_SPAN_TRACK) return true;
    *windowed = *windowed || (r->spatial && s->shift != 0);
    s->loose = s->loose || r->loose;
    return lmi_span_window(&t->work, s, r->taps[axis], n, out.sizes[to]);
}

/* Restricts the span of one concatenated argument to its part: elements of the others do not depend on it. */
static bool part(tracer *t, lmi_span *s, const lmi_route *r, lam_shape out) {
    if (r->among < 0 || r->among >= out.ndim || r->n_among == out.sizes[r->among]) return true;
    int64_t n = out.sizes[r->among];
    bool follows = s->kind == LMI_SPAN_TRACK && s->axis == r->among;
    if (n > LMI_EACH_MAX && (follows || s->kind == LMI_SPAN_FIXED)) s->loose = true;
    if (n > LMI_EACH_MAX) return !follows || lmi_span_all(&t->work, s, n);
    if (s->kind != LMI_SPAN_FIXED) return true;
    bool *in = lmi_alloc(&t->work, (uint64_t)n, sizeof *in);
    for (int64_t o = 0; in && o < n; o++) in[o] = o >= r->before && o < r->before + r->n_among;
    return in && lmi_span_mask(&t->work, s, r->among, n, in);
}

/* Marks slots along whose axis a product of matrices, as in a linear layer, sums the rows of its argument. */
static void note_features(const tracer *t, const lam_op *o, lam_shape x, const lmi_route *r,
                          const lmi_span *spans) {
    lmi_way way = way_of(t, o);
    if (way != lmi_way_linear && way != lmi_way_addmm && way != lmi_way_matmul) return;
    for (int32_t k = 0; k < t->rf->n_slots; k++) {
        int32_t axis = follows(&spans[k]) ? spans[k].axis : spans[k].stays - 1;
        t->rf->slot[k].features |= axis >= 0 && axis == x.ndim - 1 && r->to[axis] == LMI_TO_ALL;
    }
}

static bool join_in(tracer *t, const lam_op *o, int32_t in, const lmi_route *r, bool several, lmi_span *spans,
                    lmi_span *sum) {
    const lam_op_sig *sig = o->sig;
    lam_shape x = {sig->in[in].ndim, sig->in[in].sizes}, out = lmi_result_shape(sig);
    int32_t n = t->rf->n_slots;
    note_features(t, o, x, r, spans);
    for (int32_t k = 0; k < width(t); k++)
        if (!lead(t, x, out, r, &spans[k], &t->rf->slot[k % n].windowed)) return false;
    if (several) lmi_rf_gaps(n, spans, sum, out, r->among < 0 ? 0 : UINT32_C(1) << r->among);
    for (int32_t k = 0; k < width(t); k++) {
        lmi_span *s = &spans[k];
        if (k >= n)
            lmi_rf_narrower(&sum[k], s);
        else if (!part(t, s, r, out) ||
                 !lmi_span_join(&t->work, &sum[k], s, lmi_rf_elements(&sum[k], out), lmi_rf_elements(s, out)))
            return false;
    }
    return true;
}

/* If concatenated arguments have different fields along another axis, elements that differ along the
 * concatenated axis have different fields too. */
static void mix_in(const tracer *t, const lmi_route *r, const lmi_span *first, const lmi_span *spans,
                   lmi_span *sum) {
    int32_t n = t->rf->n_slots;
    uint32_t bits = r->among < 0 ? 0 : lmi_rf_along(sum, n, r->among) | lmi_rf_along(spans, n, r->among);
    for (int32_t k = 0; bits && k < n; k++) {
        bool alike = first[k].kind == spans[k].kind &&
                     (first[k].kind == LMI_SPAN_NONE || lmi_span_equal(&first[k], &spans[k]));
        if (!alike && !(sum[k].kind == LMI_SPAN_TRACK && sum[k].axis == r->among)) sum[k].mixed |= bits;
    }
}

static bool all_unknown(tracer *t, const lam_op *o, lmi_span *spans, lmi_span *sum) {
    for (int32_t k = 0; k < width(t); k++) {
        bool known = spans[k].kind != LMI_SPAN_NONE && spans[k].kind != LMI_SPAN_UNKNOWN;
        if (known && !unknown(t, &spans[k], o->sig->name)) return false;
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
    lmi_way way = way_of(t, o);
    lmi_span sum[SPANS] = {{0}}, spans[SPANS], first[SPANS];
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
        if (any) mix_in(t, &r, first, spans, sum);
        if (!any) memcpy(first, spans, sizeof first);
        any = true;
    }
    for (int32_t k = 0; any && k < t->rf->n_slots; k++) lmi_span_even(&sum[k]);
    return keep(t, sum, &t->of[op]) ? LAM_OK : lmi_nomem(e);
}

/* True for an operator with its own line in reach.def: it represents the operators inside it. An operator
 * whose only inside is another overload of it (which fills in defaults) is transparent. */
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
    if (!spans_of(t, lmi_model_out_edge(t->m, event, 0), s, &a, t->root[event], spans) ||
        !keep(t, spans, &index))
        return lmi_nomem(e);
    t->rf->of_row[row] = lmi_rf_field(&t->fields, index);
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
    for (int32_t i = 0; i < m->n_ops; i++)
        if (t->flow.unit[i] == i && m->ops[i].phase == LAM_FORWARD) LAM_TRY(trace_op(t, i, e));
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
