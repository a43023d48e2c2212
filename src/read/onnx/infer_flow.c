/* SPDX-License-Identifier: Apache-2.0
 * Inference of nodes with bodies (If, Loop, Scan, SequenceMap), and of sequences and optionals. */
#include "read/onnx/infer.h"

#include <stdlib.h>

/* What is known of a value, apart from it: a body changes the value. */
typedef struct lmi_fact {
    int32_t kind, type, ndim;
    int64_t sizes[LMI_ONNX_MOST_AXES];
    int64_t count;
    const lmi_cell *cells;
    bool torn;
} lmi_fact;

static lmi_fact fact_of(const lmi_infer *c, const lmi_onnx_value *v) {
    lmi_fact f = {.ndim = -1, .count = -1};
    if (!v) return f;
    f.kind = v->kind;
    f.type = v->type;
    f.ndim = v->ndim;
    if (v->ndim > 0) memcpy(f.sizes, v->sizes, (size_t)v->ndim * sizeof *f.sizes);
    f.count = lmi_known_of(c, v)->count;
    f.cells = lmi_known_of(c, v)->cells;
    f.torn = lmi_known_of(c, v)->torn;
    return f;
}

static void put_fact(lmi_infer *c, lmi_onnx_value *v, const lmi_fact *f) {
    if (!v) return;
    lmi_value_known *known = lmi_known_of(c, v);
    v->kind = f->kind;
    if (f->type) v->type = f->type;
    v->ndim = -1;
    if (f->ndim >= 0) lmi_set_sizes(c, v, f->ndim, f->sizes);
    known->count = f->count;
    known->cells = f->cells;
    known->varies = c->loops > 0;
    known->torn = f->torn;
}

/* Keeps what two facts agree on; true if `a` becomes another one. Elements are not compared. */
static bool agree(lmi_fact *a, const lmi_fact *b) {
    lmi_fact before = *a;
    if (a->kind != b->kind) a->kind = LMI_ONNX_OTHER;
    if (a->type != b->type) a->type = LMI_ONNX_NO_TYPE;
    a->torn = a->torn || b->torn || (a->ndim >= 0 && b->ndim >= 0 && a->ndim != b->ndim);
    if (a->ndim != b->ndim || a->kind == LMI_ONNX_OTHER) a->ndim = -1;
    for (int32_t i = 0; i < a->ndim; i++)
        if (a->sizes[i] != b->sizes[i]) a->sizes[i] = -1;
    if (a->count != b->count) a->count = -1;
    bool changed = a->kind != before.kind || a->type != before.type || a->ndim != before.ndim ||
                   a->count != before.count || a->torn != before.torn;
    for (int32_t i = 0; i < a->ndim; i++) changed = changed || a->sizes[i] != before.sizes[i];
    return changed;
}

static const lmi_onnx_graph *body_of(const lmi_node_at *s, const char *name) {
    const lmi_onnx_attribute *a = lmi_onnx_attr(s->n, name);
    return a ? a->graph : NULL;
}

static lmi_onnx_value *body_in(const lmi_node_at *s, const lmi_onnx_graph *g, int32_t i) {
    return i < g->n_inputs ? lmi_onnx_value_at(s->all->m, g->inputs[i]) : NULL;
}

static lmi_fact body_out(const lmi_node_at *s, const lmi_onnx_graph *g, int32_t i) {
    return fact_of(s->all, i < g->n_outputs ? lmi_onnx_value_at(s->all->m, g->outputs[i]) : NULL);
}

/* The truth that a value is known to hold: 1 or 0; -1: unknown. */
static int32_t truth_of(lmi_infer *c, const lmi_onnx_value *v) {
    const lmi_cell *cells = lmi_cells(c, v);
    int64_t n;
    return cells && lmi_few(v, &n) && n == 1 && cells->known ? cells->i != 0 : -1;
}

/* -- If -------------------------------------------------------------------------------------------------- */

void lmi_infer_if(lmi_node_at *s) {
    const lmi_onnx_graph *bodies[2] = {body_of(s, "else_branch"), body_of(s, "then_branch")};
    int32_t taken = s->n->taken = truth_of(s->all, lmi_arg(s, 0));
    for (int32_t b = 1; b >= 0; b--)
        if (bodies[b] && (taken < 0 || taken == b)) s->all->walk(s->all, bodies[b]);
    s->why =
        taken < 0 ? "its branches differ, and which one is taken is known only when the model runs" : NULL;
    for (int32_t k = 0; k < s->n->n_out; k++) {
        lmi_fact f = {.ndim = -1, .count = -1};
        if (taken >= 0 && bodies[taken]) {
            f = body_out(s, bodies[taken], k);
            if (k < bodies[taken]->n_outputs)
                f.cells = lmi_cells(s->all, lmi_onnx_value_at(s->all->m, bodies[taken]->outputs[k]));
        } else if (bodies[0] && bodies[1]) {
            lmi_fact other = body_out(s, bodies[0], k);
            f = body_out(s, bodies[1], k);
            agree(&f, &other);
            f.cells = NULL;
        }
        put_fact(s->all, lmi_onnx_out(s->all->m, s->n, k), &f);
    }
}

/* -- Loop and Scan --------------------------------------------------------------------------------------- */

enum { MOST_CARRIED = 512 }; /* values that a body carries on, or gives, for which it is followed */

/* A body that runs again and again: what it carries on, and what it gives each time. */
typedef struct lmi_rounds {
    lmi_node_at *s;
    const lmi_onnx_graph *body;
    int32_t first;   /* the body's input that is carried first: 2 of a Loop, 0 of a Scan */
    int32_t carried; /* values that are carried on */
    lmi_fact *state; /* of these; `given` is in the same memory */
    lmi_fact *given; /* what the body gives each time: results of the node behind the carried ones */
    int32_t n_given;
    int32_t out; /* the body's output that is carried first: 1 of a Loop, 0 of a Scan */
} lmi_rounds;

static bool start(lmi_rounds *r, lmi_node_at *s, int32_t skipped, int32_t carried) {
    r->s = s;
    r->carried = carried;
    r->n_given = s->n->n_out - carried;
    if (carried < 0 || r->n_given < 0 || !r->body) return false;
    if (carried > MOST_CARRIED || r->n_given > MOST_CARRIED) {
        s->why = "its body carries on more values than are followed";
        return false;
    }
    r->state = calloc((size_t)carried + (size_t)r->n_given + 1, sizeof *r->state);
    if (!r->state) {
        lmi_out_of_memory(s->all);
        return false;
    }
    r->given = r->state + carried;
    for (int32_t i = 0; i < carried; i++) {
        const lmi_onnx_value *v = lmi_onnx_in(s->all->m, s->n, skipped + i);
        const lmi_cell *cells = lmi_cells(s->all, v);
        r->state[i] = fact_of(s->all, v);
        r->state[i].cells = cells;
    }
    return true;
}

/* Gives an input of a body what is known of it; what the file states of it, if nothing is. */
static void put_input(const lmi_node_at *s, const lmi_onnx_graph *body, int32_t i, const lmi_fact *f) {
    lmi_onnx_value *v = body_in(s, body, i);
    put_fact(s->all, v, f);
    if (!v || v->ndim >= 0 || f->torn) return;
    const lmi_value_known *known = lmi_known_of(s->all, v);
    if (v->kind == LMI_ONNX_TENSOR && known->ndim >= 0) lmi_set_sizes(s->all, v, known->ndim, known->sizes);
}

static void round_once(lmi_rounds *r) {
    lmi_charge(r->s->all, r->carried);
    for (int32_t i = 0; i < r->carried; i++) put_input(r->s, r->body, r->first + i, &r->state[i]);
    r->s->all->walk(r->s->all, r->body);
}

/* Runs the body with what is true of all rounds together. `once`: it runs at least once, so that it leaves
 * what rounds give, not what it began with. */
static void settle(lmi_rounds *r, bool once) {
    bool changed = true;
    r->s->all->loops++;
    for (int32_t i = 0; i < r->carried; i++) r->state[i].cells = NULL;
    for (int32_t k = 0; changed && !lmi_enough(r->s->all); k++) {
        changed = false;
        if (k > 8) {
            for (int32_t i = 0; i < r->carried; i++)
                r->state[i] =
                    (lmi_fact){.kind = r->state[i].kind, .ndim = -1, .count = -1, .torn = r->state[i].torn};
        }
        round_once(r);
        for (int32_t i = 0; i < r->carried; i++) {
            lmi_fact out = body_out(r->s, r->body, r->out + i);
            if (agree(&r->state[i], &out)) changed = true;
        }
    }
    r->s->all->loops--;
    for (int32_t i = 0; once && !changed && i < r->carried; i++) {
        r->state[i] = body_out(r->s, r->body, r->out + i);
        r->state[i].cells = NULL;
    }
    for (int32_t i = 0; i < r->n_given; i++) r->given[i] = body_out(r->s, r->body, r->out + r->carried + i);
}

/* Puts what the body gives, `times` of it along an axis. */
static void put_given(lmi_rounds *r, int32_t i, int64_t times, int64_t axis, int32_t lead, int64_t batch) {
    lmi_fact *f = &r->given[i];
    if (f->ndim + 1 + lead > LMI_ONNX_MOST_AXES) f->ndim = -1;
    lmi_fact to = {.kind = LMI_ONNX_TENSOR, .type = f->type, .ndim = -1, .count = -1};
    if (f->ndim >= 0 && lmi_axis_of(&axis, f->ndim + 1)) {
        to.ndim = f->ndim + 1 + lead;
        if (lead) to.sizes[0] = batch;
        for (int32_t d = 0, at = 0; d < f->ndim + 1; d++)
            to.sizes[lead + d] = d == axis ? times : f->sizes[at++];
    }
    put_fact(r->s->all, lmi_onnx_out(r->s->all->m, r->s->n, r->carried + i), &to);
}

static lmi_fact integer(lmi_infer *c, int64_t i, bool is_bool) {
    lmi_fact f = {.kind = LMI_ONNX_TENSOR, .type = is_bool ? LMI_ONNX_BOOL : LMI_ONNX_INT64, .count = -1};
    lmi_cell *cell = i < 0 ? NULL : lmi_cells_new(c, 1);
    if (cell) *cell = (lmi_cell){.i = i, .known = true};
    f.cells = cell;
    return f;
}

/* Follows a loop round by round, for what it adds up to. False: how often it runs is unknown, or too much. */
static bool follow(lmi_rounds *r, int64_t most, int32_t go, int64_t *times) {
    lmi_infer *c = r->s->all;
    int64_t i = 0;
    c->loops++;
    c->following++;
    for (; i < most && go == 1; i++) {
        lmi_fact round = integer(c, i, false), yes = integer(c, 1, true);
        put_fact(c, body_in(r->s, r->body, 0), &round);
        put_fact(c, body_in(r->s, r->body, 1), &yes);
        round_once(r);
        if (i == LMI_MOST_TIMES || lmi_enough(c)) {
            go = -1;
            break;
        }
        go = truth_of(c, r->body->n_outputs ? lmi_onnx_value_at(c->m, r->body->outputs[0]) : NULL);
        for (int32_t k = 0; k < r->carried; k++) {
            const int32_t at = r->out + k;
            r->state[k] = body_out(r->s, r->body, at);
            if (at < r->body->n_outputs)
                r->state[k].cells = lmi_cells(c, lmi_onnx_value_at(c->m, r->body->outputs[at]));
        }
        for (int32_t k = 0; k < r->n_given; k++) {
            lmi_fact one = body_out(r->s, r->body, r->out + r->carried + k);
            if (i == 0)
                r->given[k] = one;
            else
                agree(&r->given[k], &one);
        }
    }
    c->following--;
    c->loops--;
    *times = i;
    return i == most || go == 0;
}

/* What is true of all rounds of a loop, after which how often it runs may be known. */
static void settle_loop(lmi_rounds *r, int64_t most, int32_t go, bool once, int64_t *times) {
    lmi_infer *c = r->s->all;
    lmi_fact any = {.kind = LMI_ONNX_TENSOR, .type = LMI_ONNX_INT64, .count = -1}, yes = integer(c, 1, true);
    c->loops++;
    put_fact(c, body_in(r->s, r->body, 0), &any);
    put_fact(c, body_in(r->s, r->body, 1), &yes);
    c->loops--;
    settle(r, once);
    int32_t on = truth_of(c, r->body->n_outputs ? lmi_onnx_value_at(c->m, r->body->outputs[0]) : NULL);
    *times = go == 1 && on == 1 && most < INT64_MAX ? most : -1;
}

static void run_loop(lmi_node_at *s, lmi_rounds r, lmi_rounds all) {
    lmi_infer *c = s->all;
    const lmi_onnx_value *first = lmi_onnx_in(c->m, s->n, 0), *second = lmi_onnx_in(c->m, s->n, 1);
    int64_t most = INT64_MAX, times;
    int32_t go = second ? truth_of(c, second) : 1;
    bool counted = !first || lmi_one(s, NULL, 0, 0, &most);
    if (most < 0) most = 0;
    bool followed = counted && go >= 0 && follow(&r, go ? most : 0, go, &times);
    if (!followed || times != 1) {
        int64_t settled;
        settle_loop(&all, counted ? most : INT64_MAX, go, counted && most > 0 && go == 1, &settled);
        if (!followed) {
            times = settled;
            r = all;
        } else if (times == 0)
            r.given = all.given;
    }
    s->n->times = times;
    s->why = times < 0 ? "how often its body runs is known only when the model runs" : NULL;
    for (int32_t i = 0; i < r.carried; i++) put_fact(c, lmi_onnx_out(c->m, s->n, i), &r.state[i]);
    for (int32_t i = 0; i < r.n_given; i++) put_given(&r, i, times, 0, 0, -1);
}

void lmi_infer_loop(lmi_node_at *s) {
    lmi_rounds r = {.body = body_of(s, "body"), .first = 2, .out = 1}, all = r;
    const int32_t carried = s->n->n_in > 2 ? s->n->n_in - 2 : 0;
    s->n->times = -1;
    if (start(&r, s, 2, carried) && start(&all, s, 2, carried)) run_loop(s, r, all);
    free(r.state);
    free(all.state);
}

/* One slice of a scanned argument along its axis, without the leading batch of older versions. */
static lmi_fact slice_of(const lmi_infer *c, const lmi_onnx_value *v, int64_t axis, int32_t lead,
                         int64_t *times) {
    lmi_fact f = fact_of(c, v), out = f;
    out.cells = NULL;
    out.ndim = -1;
    if (f.ndim < 1 + lead || !lmi_axis_of(&axis, f.ndim - lead)) return out;
    out.ndim = 0;
    for (int32_t d = 0; d < f.ndim - lead; d++)
        if (d != axis) out.sizes[out.ndim++] = f.sizes[lead + d];
    if (*times < 0) *times = f.sizes[lead + axis];
    return out;
}

void lmi_infer_scan(lmi_node_at *s) {
    lmi_infer *c = s->all;
    int32_t lead = s->n->opset && s->n->opset < 9 ? 1 : 0; /* the first version has lengths and a batch */
    int64_t scanned = lmi_onnx_int(s->n, "num_scan_inputs", 0), times = -1, batch = -1;
    lmi_rounds r = {.body = body_of(s, "body")};
    s->n->times = -1;
    if (scanned < 0 || scanned > s->n->n_in - lead) return;
    if (!start(&r, s, lead, s->n->n_in - lead - (int32_t)scanned)) return;
    for (int32_t i = 0; lead && i < r.carried; i++) {
        lmi_fact *f = &r.state[i];
        if (f->ndim < 1) continue;
        batch = f->sizes[0];
        memmove(f->sizes, f->sizes + 1, (size_t)--f->ndim * sizeof *f->sizes);
    }
    c->loops++;
    for (int32_t i = 0; i < scanned; i++) {
        const lmi_onnx_value *v = lmi_onnx_in(c->m, s->n, lead + r.carried + i);
        lmi_fact f = slice_of(c, v, lmi_nth(s, "scan_input_axes", i, 0), lead, &times);
        if (lead && v && v->ndim > 0 && batch < 0) batch = v->sizes[0];
        put_input(s, r.body, r.carried + i, &f);
    }
    c->loops--;
    settle(&r, times > 0);
    s->n->times = times;
    for (int32_t i = 0; i < r.carried; i++) {
        lmi_fact f = r.state[i];
        if (lead && f.ndim >= 0 && f.ndim < LMI_ONNX_MOST_AXES) {
            memmove(f.sizes + 1, f.sizes, (size_t)f.ndim++ * sizeof *f.sizes);
            f.sizes[0] = batch;
        }
        put_fact(c, lmi_onnx_out(c->m, s->n, i), &f);
    }
    for (int32_t i = 0; i < r.n_given; i++)
        put_given(&r, i, times, lmi_nth(s, "scan_output_axes", i, 0), lead, batch);
    free(r.state);
}

/* -- sequences and optionals ----------------------------------------------------------------------------- */

static void put_sequence(lmi_node_at *s, const lmi_fact *element, int64_t count) {
    lmi_fact f = *element;
    f.kind = LMI_ONNX_SEQUENCE;
    f.count = count;
    f.cells = NULL;
    put_fact(s->all, lmi_onnx_out(s->all->m, s->n, 0), &f);
}

void lmi_infer_sequence_empty(lmi_node_at *s) {
    lmi_fact none = {.ndim = -1, .type = (int32_t)lmi_onnx_int(s->n, "dtype", LMI_ONNX_FLOAT)};
    if (none.type < 0 || none.type >= LMI_ONNX_N_TYPES) none.type = LMI_ONNX_NO_TYPE;
    put_sequence(s, &none, 0);
}

void lmi_infer_sequence_construct(lmi_node_at *s) {
    lmi_fact all = fact_of(s->all, lmi_arg(s, 0));
    for (int32_t i = 1; i < s->n->n_in; i++) {
        lmi_fact one = fact_of(s->all, lmi_arg(s, i));
        agree(&all, &one);
    }
    put_sequence(s, &all, s->n->n_in);
}

void lmi_infer_sequence_insert(lmi_node_at *s) {
    lmi_fact all = fact_of(s->all, lmi_arg(s, 0)), one = fact_of(s->all, lmi_arg(s, 1));
    int64_t count = lmi_plus(all.count, 1);
    if (all.count == 0) all = one;
    all.kind = one.kind;
    agree(&all, &one);
    put_sequence(s, &all, count);
}

void lmi_infer_sequence_erase(lmi_node_at *s) {
    lmi_fact all = fact_of(s->all, lmi_arg(s, 0));
    put_sequence(s, &all, all.count > 0 ? all.count - 1 : -1);
}

/* An element of a sequence, or of an optional; a tensor is its own. */
void lmi_infer_element(lmi_node_at *s) {
    lmi_fact f = fact_of(s->all, lmi_arg(s, 0));
    if (f.kind == LMI_ONNX_OTHER)
        f.ndim = -1;
    else
        f.kind = LMI_ONNX_TENSOR;
    put_fact(s->all, lmi_onnx_out(s->all->m, s->n, 0), &f);
}

void lmi_infer_sequence_length(lmi_node_at *s) {
    lmi_fact f = integer(s->all, fact_of(s->all, lmi_arg(s, 0)).count, false);
    put_fact(s->all, lmi_onnx_out(s->all->m, s->n, 0), &f);
}

void lmi_infer_split_to_sequence(lmi_node_at *s) {
    lmi_fact f = fact_of(s->all, lmi_arg(s, 0));
    int64_t axis = lmi_onnx_int(s->n, "axis", 0), count = -1;
    lmi_ints parts = lmi_list(s, NULL, 1);
    const lmi_onnx_value *split = lmi_arg(s, 1);
    if (f.ndim < 1 || !lmi_axis_of(&axis, f.ndim)) return;
    int64_t size = f.sizes[axis];
    if (!split) {
        count = size;
        f.sizes[axis] = 1;
        if (!lmi_onnx_int(s->n, "keepdims", 1)) {
            f.ndim--;
            memmove(f.sizes + axis, f.sizes + axis + 1, (size_t)(f.ndim - axis) * sizeof *f.sizes);
        }
    } else if (split->ndim == 0) {
        int64_t each = parts.all && parts.n == 1 && parts.at[0] > 0 ? parts.at[0] : -1;
        f.sizes[axis] = each > 0 && size >= 0 && size % each == 0 ? each : -1;
        if (each > 0 && size >= 0) count = size / each + (size % each != 0);
    } else {
        count = parts.n;
        f.sizes[axis] = parts.n > 0 && parts.all ? parts.at[0] : -1;
        for (int32_t i = 1; i < parts.n; i++)
            if (!parts.all || parts.at[i] != parts.at[0]) f.sizes[axis] = -1;
    }
    put_sequence(s, &f, count);
}

void lmi_infer_concat_from_sequence(lmi_node_at *s) {
    lmi_fact f = fact_of(s->all, lmi_arg(s, 0));
    int64_t axis = lmi_onnx_int(s->n, "axis", 0), count = f.count;
    bool added = lmi_onnx_int(s->n, "new_axis", 0) != 0;
    if (f.ndim < 0 || f.ndim + added > LMI_ONNX_MOST_AXES || !lmi_axis_of(&axis, f.ndim + added)) return;
    if (added) {
        memmove(f.sizes + axis + 1, f.sizes + axis, (size_t)(f.ndim - axis) * sizeof *f.sizes);
        f.ndim++;
        f.sizes[axis] = count;
    } else
        f.sizes[axis] = lmi_size_times(f.sizes[axis], count);
    f.kind = LMI_ONNX_TENSOR;
    f.count = -1;
    f.cells = NULL;
    put_fact(s->all, lmi_onnx_out(s->all->m, s->n, 0), &f);
}

void lmi_infer_sequence_map(lmi_node_at *s) {
    lmi_infer *c = s->all;
    const lmi_onnx_graph *body = body_of(s, "body");
    int64_t count = fact_of(c, lmi_arg(s, 0)).count;
    s->n->times = count;
    if (!body) return;
    c->loops++;
    for (int32_t i = 0; i < s->n->n_in; i++) {
        lmi_fact f = fact_of(c, lmi_arg(s, i));
        if (f.kind == LMI_ONNX_SEQUENCE) f.kind = LMI_ONNX_TENSOR;
        put_input(s, body, i, &f);
    }
    c->walk(c, body);
    c->loops--;
    for (int32_t k = 0; k < s->n->n_out; k++) {
        lmi_fact f = body_out(s, body, k);
        f.kind = LMI_ONNX_SEQUENCE;
        f.count = count;
        f.cells = NULL;
        put_fact(c, lmi_onnx_out(c->m, s->n, k), &f);
    }
}

void lmi_infer_optional(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_arg(s, 0);
    lmi_fact f = fact_of(s->all, x);
    f.kind = x && x->kind != LMI_ONNX_TENSOR ? LMI_ONNX_OTHER : LMI_ONNX_OPTIONAL;
    if (f.kind == LMI_ONNX_OTHER) f.ndim = -1;
    f.count = x ? 1 : 0;
    f.cells = NULL;
    put_fact(s->all, lmi_onnx_out(s->all->m, s->n, 0), &f);
}

void lmi_infer_has_element(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_arg(s, 0);
    int64_t has = !x ? 0
                  : x->kind == LMI_ONNX_TENSOR || x->kind == LMI_ONNX_SEQUENCE
                      ? 1
                      : lmi_known_of(s->all, x)->count;
    lmi_fact f = integer(s->all, has, true);
    put_fact(s->all, lmi_onnx_out(s->all->m, s->n, 0), &f);
}
