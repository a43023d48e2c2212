/* SPDX-License-Identifier: Apache-2.0
 *
 * What each call of a language model multiplies and reads. An operator that counts reads its arguments; one
 * of them may lie in a parameter: all of it, rows that are looked up, a matrix of a stack, or the matrices of
 * the groups that are not empty. */
#include "analyse/tokens/tokens.h"
#include "count/layers/layers.h"
#include "count/ops/facts_op.h"

enum { FAR = 24 };

typedef struct looking {
    lmi_token_run *r;
    int32_t k; /* the call */
    lmi_token_work *work;
    int64_t tokens; /* new ones of the whole batch; -1 unknown */
    lam_stage stage;
    bool tells;     /* parameters are told by calls of its stage */
    bool last;      /* no such call comes after it */
    int32_t table;  /* that of the tokens; -1: none */
    int32_t routes; /* the size of the axis that a router chose from; 0: none did */
    bool dealt;     /* experts are stacks of matrices that a product takes some, or all, of */
    lmi_map parts;  /* parts of stacks that were read in this call */
    bool *scores;   /* per operator: its product is one of an attention */
} looking;

bool lmi_token_counts(const lam_costs *c, int32_t op) {
    return c->ops.role[op] == LMI_ROLE_COUNTED || c->ops.role[op] == LMI_ROLE_NO_RULE;
}

static lmi_kind kind_of(const lam_model *m, int32_t op) { return lmi_op_kind(m->ops[op].sig->word); }

static bool is_attention(lmi_kind k) { return lmi_token_attends(k); }

/* -- products of an attention that is written out ----------------------------------------------------- */

static bool is_softmax(const lam_model *m, int32_t op) { return kind_of(m, op) == LMI_K_softmax; }
static bool is_product(const lam_model *m, int32_t op) { return kind_of(m, op) == LMI_K_product; }

/* The argument with the elements of the result, in views, copies and elementwise operators; -1 none. */
static int32_t goes_on(const lam_op *o) {
    int64_t n = o->sig->n_out > 0 ? lmi_op_arg_numel(&o->sig->out[0]) : -1;
    if (lmi_only_view(o)) return lmi_first_tensor(o);
    for (int32_t i = 0; n >= 0 && i < o->sig->n_in; i++)
        if (o->sig->in[i].is_tensor && lmi_op_arg_numel(&o->sig->in[i]) >= n) return i;
    return -1;
}

/* The operator of that kind that an argument comes from; -1: none is near. A join, as of scores with sinks,
 * is passed by its largest part. */
static int32_t comes_from(const lam_model *m, int32_t op, int32_t in,
                          bool (*is)(const lam_model *m, int32_t op)) {
    for (int32_t i = 0; i < FAR && in >= 0; i++) {
        op = lam_model_source(m, op, in);
        if (op < 0 || is(m, op)) return op;
        if (kind_of(m, op) == LMI_K_product || kind_of(m, op) == LMI_K_softmax) return -1;
        in = goes_on(&m->ops[op]);
        if (in < 0 && kind_of(m, op) == LMI_K_join) in = lmi_first_tensor(&m->ops[op]);
    }
    return -1;
}

/* True for an operator that an attention calls. */
static bool in_attention(const lam_model *m, int32_t op) {
    for (int32_t up = m->ops[op].parent; up >= 0; up = m->ops[up].parent)
        if (is_attention(kind_of(m, up))) return true;
    return false;
}

/* Marks the products before each softmax, and those that take its weights. */
static void mark_scores(looking *l) {
    const lam_model *m = l->r->m;
    for (int32_t i = l->r->ops.start[l->k]; i < l->r->ops.start[l->k + 1]; i++) {
        const int32_t op = l->r->ops.order[i];
        if (is_softmax(m, op)) {
            int32_t from = comes_from(m, op, lmi_first_tensor(&m->ops[op]), is_product);
            if (from >= 0) l->scores[from] = true;
        }
        if (!is_product(m, op)) continue;
        if (in_attention(m, op)) l->scores[op] = true;
        for (int32_t in = 0; in < m->ops[op].sig->n_in; in++)
            if (m->ops[op].sig->in[in].is_tensor && comes_from(m, op, in, is_softmax) >= 0)
                l->scores[op] = true;
    }
    /* A product that calls another is the same product. */
    for (int32_t i = l->r->ops.start[l->k]; i < l->r->ops.start[l->k + 1]; i++) {
        const int32_t op = l->r->ops.order[i], up = m->ops[op].parent;
        if (up >= 0 && l->scores[up]) l->scores[op] = true;
    }
}

/* -- reads -------------------------------------------------------------------------------------------- */

static int64_t width_of(const lam_tensor *t) {
    return t->shape.ndim > 0 && t->shape.sizes[0] > 0 ? t->numel / t->shape.sizes[0] : t->numel;
}

static lmi_token_use *used(looking *l, int32_t tensor) {
    lmi_token_use *u = &l->r->use[tensor];
    u->touched[l->stage] = true;
    if (u->stamp != l->k + 1) {
        u->stamp = l->k + 1;
        u->read = 0;
    }
    return u;
}

/* Notes `n` more elements read of a parameter, which are never more than it has. */
static void read_more(const looking *l, int32_t tensor, lmi_token_use *u, int64_t n) {
    const int64_t all = l->r->m->tensors[tensor].numel;
    u->read = n < 0 || n > all - u->read ? all : u->read + n;
}

/* True if the part of a parameter that the argument covers was not read in this call before. */
static bool is_new_part(looking *l, int32_t op, int32_t in, int32_t tensor) {
    const lmi_edge *edge = lmi_model_edge(l->r->m, op, in);
    const lam_op_arg *a = &l->r->m->ops[op].sig->in[in];
    lmi_place place;
    struct {
        int64_t tensor, start[LMI_PLACE_AXES], count[LMI_PLACE_AXES];
    } key = {.tensor = tensor};
    if (!edge || !lmi_place_of(l->r->m, l->r->m->edges, edge->made, edge->nth, a->ndim, a->sizes, &place))
        return true;
    memcpy(key.start, place.start, (size_t)place.n_base * sizeof *key.start);
    memcpy(key.count, place.count, (size_t)place.n_base * sizeof *key.count);
    uint64_t hash = lmi_hash(&key, sizeof key);
    if (lmi_map_get_u64(&l->parts, hash) >= 0) return false;
    return lmi_map_put_u64(&l->parts, hash, 0, NULL) == LAM_OK;
}

/* The rows that an operator looks up by one index; -1 unknown. */
static int64_t rows_of(const lam_op_sig *sig, int32_t in) {
    int64_t rows = -1;
    for (int32_t i = 0; i < sig->n_in; i++) {
        const lam_op_arg *a = &sig->in[i];
        if (i == in || !a->is_tensor || (a->dtype != 3 && a->dtype != 4)) continue; /* no whole numbers */
        rows = rows == -1 ? lmi_op_arg_numel(a) : -2; /* several indices give one element each, not a row */
    }
    return rows < 0 ? -1 : rows;
}

/* True if the index of a lookup is an input of the run that may be tokens. */
static bool by_tokens(const lam_model *m, int32_t op) {
    const lam_op *o = &m->ops[op];
    lmi_slots slots;
    lmi_bind_op(o->sig, &slots);
    const lam_op_arg *index = slots.at[LMI_S_index].tensor;
    const int32_t in = index ? lam_model_source_input(m, op, (int32_t)(index - o->sig->in)) : LAM_SOURCE_NONE;
    int32_t event = o->call;
    while (event >= 0 && m->events[event].parent >= 0) event = m->events[event].parent;
    return in >= 0 && event >= 0 && in < m->events[event].n_in &&
           lmi_token_rank(&m->events[event].in[in]) > 0;
}

/* True if the layer of a table is given the tokens of the call of the model, or a view of them. */
static bool is_given_tokens(const looking *l, int32_t op, int32_t table) {
    const lam_model *m = l->r->m;
    const int32_t event = m->ops[op].call;
    const lam_module *layer = event < 0 ? NULL : &m->modules[m->events[event].module];
    const uint64_t ids = lmi_token_at(l->r, l->k)->ids;
    bool owns = false, given = false;
    for (int32_t i = 0; layer && i < layer->n_owned; i++) owns = owns || layer->owned[i].tensor == table;
    for (int32_t i = 0; owns && ids && i < m->events[event].n_in; i++)
        given = given || lmi_token_memory(&m->events[event].in[i]) == ids;
    return given;
}

/* The table of the tokens: of those that the tokens are looked up in, or else of all, the one with the most
 * rows, the first of equals; -1. */
static int32_t token_table(const looking *l) {
    const lam_model *m = l->r->m;
    int32_t found = -1;
    int64_t most = 0;
    bool sure = false;
    for (int32_t i = l->r->ops.start[l->k]; i < l->r->ops.start[l->k + 1]; i++) {
        const int32_t op = l->r->ops.order[i], in = lmi_first_tensor(&m->ops[op]);
        if (kind_of(m, op) != LMI_K_embedding || in < 0) continue;
        const int32_t tensor = lam_model_source_tensor(m, op, in);
        const lam_shape shape = tensor >= 0 ? m->tensors[tensor].shape : (lam_shape){0, NULL};
        const bool given = by_tokens(m, op) || is_given_tokens(l, op, tensor);
        if (shape.ndim < 1 || (sure && !given) || (shape.sizes[0] <= most && sure == given)) continue;
        found = tensor;
        most = shape.sizes[0];
        sure = given;
    }
    return found;
}

/* The stack of matrices with one row of the table for each, as experts with biases; NULL: there is none. */
static const lmi_token_use *stack_of(const looking *l, int32_t tensor, int64_t size) {
    const lam_model *m = l->r->m;
    const int32_t owner = m->tensors[tensor].owner;
    for (int32_t k = 0; owner >= 0 && k < m->modules[owner].n_owned; k++) {
        const lmi_token_use *u = &l->r->use[m->modules[owner].owned[k].tensor];
        if (u->groups == size && u->stamp == l->k + 1 && u->most > 0) return u;
    }
    return NULL;
}

/* Rows of a table: those of tokens are looked up for each, those of positions once for the batch, whose
 * indices may be given once too. Other indices may repeat a row, as those of a table with fewer rows than
 * positions. */
static void read_rows(looking *l, int32_t tensor, lmi_token_use *u, int64_t rows) {
    const lam_tensor *t = &l->r->m->tensors[tensor];
    const int64_t width = width_of(t), size = width > 0 ? t->numel / width : 0;
    const int64_t batch = lmi_token_at(l->r, l->k)->batch;
    const bool tokens = tensor == l->table && rows == l->tokens;
    const int64_t positions = batch > 0 ? l->tokens / batch : 0;
    if (rows > 0 && (tokens || ((rows == l->tokens || rows == positions) && positions <= size))) {
        read_more(l, tensor, u, (tokens ? rows : positions) * width);
        return;
    }
    const lmi_token_use *stack = stack_of(l, tensor, size);
    const int64_t most = stack ? stack->most : rows < 0 || rows > size ? size : rows;
    const int64_t least = stack ? stack->least : most > 0;
    read_more(l, tensor, u, least * width);
    l->work->weights_most += (most - least) * width * lam_dtype_bits(t->dtype) / 8;
}

static bool looks_up(lmi_kind k) {
    return k == LMI_K_embedding || k == LMI_K_embedding_bag || k == LMI_K_pick || k == LMI_K_pick_list;
}

static void note_hit(looking *l, int32_t least, int32_t most) {
    lmi_token_work *w = l->work;
    if (w->experts_least < 0 || least < w->experts_least) w->experts_least = least;
    if (most > w->experts_most) w->experts_most = most;
}

/* Reads of a stack of matrices by groups: of those that are not empty, or where the ends were not read of as
 * many as there may be. */
static void read_groups(looking *l, const lam_op *o, int32_t tensor, lmi_token_use *u, int64_t macs) {
    const lam_tensor *t = &l->r->m->tensors[tensor];
    const int64_t stack = t->shape.ndim > 2 ? t->shape.sizes[0] : 1, one = stack > 0 ? t->numel / stack : 0;
    lmi_slots slots;
    lmi_bind_op(o->sig, &slots);
    const lam_op_arg *ends = slots.at[LMI_S_ends].tensor;
    const int64_t rows = macs >= 0 && one > 0 ? macs / one : -1;
    int64_t least = rows != 0, most = rows >= 0 && rows < stack ? rows : stack;
    if (l->tokens > 0 && rows >= l->tokens) least = rows / l->tokens;
    if (ends && ends->masks) least = most = ends->open_rows;
    u->groups = stack < INT32_MAX ? (int32_t)stack : 0;
    u->least = least;
    u->most = most;
    read_more(l, tensor, u, least * one);
    l->work->weights_most += (most - least) * one * lam_dtype_bits(t->dtype) / 8;
    l->work->dealt_most += (most - least) * one * lam_dtype_bits(t->dtype) / 8;
    note_hit(l, (int32_t)least, (int32_t)most);
}

/* Reads of argument `in` of an operator, which lies in a parameter. `macs`: of the operator; -1 unknown. */
static void read_argument(looking *l, int32_t op, int32_t in, int32_t tensor, int64_t macs) {
    const lam_model *m = l->r->m;
    const lam_op *o = &m->ops[op];
    const lam_tensor *t = &m->tensors[tensor];
    lmi_token_use *u = used(l, tensor);
    const int64_t n = lmi_op_arg_numel(&o->sig->in[in]);
    const lmi_kind k = kind_of(m, op);
    if (k == LMI_K_grouped_mm && t->shape.ndim == 3) {
        read_groups(l, o, tensor, u, macs);
    } else if (looks_up(k) && in == lmi_first_tensor(o)) {
        read_rows(l, tensor, u, rows_of(o->sig, in));
    } else if (n >= t->numel || n < 0) {
        u->read = t->numel;
    } else if (is_new_part(l, op, in, tensor)) {
        read_more(l, tensor, u, n);
    }
}

/* -- what is multiplied ---------------------------------------------------------------------------------- */

static void why_model(looking *l, const char *why) {
    if (!l->work->why_model) l->work->why_model = why;
}

/* Layers that multiply more rows than there are new tokens, those of equal names and sizes as one. */
static lam_status note_wide(looking *l, int32_t op, int64_t rows, lam_count macs, lam_error *e) {
    const lam_model *m = l->r->m;
    const int32_t call = m->ops[op].call, place = call < 0 ? -1 : m->events[call].place;
    why_model(l, "layers multiply more rows than there are new tokens");
    if (!l->last) return LAM_OK;
    for (size_t i = 0; i < l->r->wide.n; i++) {
        lam_token_wide *w = lmi_vec_at(&l->r->wide, i);
        bool like = place >= 0 && w->place >= 0 && w->rows == rows &&
                    strcmp(m->places[place].name, m->places[w->place].name) == 0;
        if (!like) continue;
        w->layers++;
        w->macs = lam_count_add(w->macs, macs);
        return LAM_OK;
    }
    const lam_token_wide wide = {place, 1, rows, l->tokens, macs};
    return lmi_vec_put(&l->r->wide, &wide, e);
}

/* The product of a parameter, or of a part of it, with rows: how much of it one token is multiplied with, and
 * whether there are more rows than tokens. */
static lam_status multiply(looking *l, int32_t op, int32_t in, int32_t tensor, lam_count macs, lam_error *e) {
    const lam_model *m = l->r->m;
    const lam_tensor *t = &m->tensors[tensor];
    const int64_t n = lmi_op_arg_numel(&m->ops[op].sig->in[in]), stack = t->shape.sizes[0];
    lmi_token_use *u = &l->r->use[tensor];
    const bool grouped = kind_of(m, op) == LMI_K_grouped_mm, all = n == t->numel && !grouped;
    const bool dealt = all && t->shape.ndim == 3 && stack == l->routes && stack > 1;
    l->dealt = l->dealt || dealt || grouped || (!all && t->shape.ndim == 3);
    if (dealt) why_model(l, "every expert is multiplied with every token, and a router chooses some of them");
    if (!l->tells) return LAM_OK;
    u->unclear = u->unclear || macs.state != LAM_EXACT || macs.over || n <= 0 || l->tokens <= 0;
    if (u->unclear) return LAM_OK;
    if (!all) {
        if (t->shape.ndim == 3 && !u->groups) u->groups = stack < INT32_MAX ? (int32_t)stack : 0;
        if (l->last) u->part += macs.n / l->tokens;
        return LAM_OK;
    }
    u->whole = true;
    if (dealt) return note_wide(l, op, macs.n / (t->numel / stack), macs, e);
    const int64_t rows = macs.n / n;
    return l->stage == LAM_DECODE && rows > l->tokens ? note_wide(l, op, rows, macs, e) : LAM_OK;
}

bool lmi_token_convolves(lmi_kind k) {
    return k == LMI_K_conv || k == LMI_K_conv_either || k == LMI_K_conv_packed || k == LMI_K_conv_fused;
}

/* Why the architecture may need less, or more, than an operator multiplied; NULL: it needs that. */
static const char *unlike_model(const looking *l, int32_t op, int32_t tensor, const lmi_facts *f) {
    const lmi_kind k = kind_of(l->r->m, op);
    if (is_attention(k) || l->scores[op]) return NULL;
    if (lmi_token_convolves(k) && tensor >= 0) {
        const lam_tensor *t = &l->r->m->tensors[tensor];
        int64_t window = 1, out = lmi_fact_get(f, LMI_FACT_out), in = lmi_fact_get(f, LMI_FACT_ins);
        for (int32_t i = 2; i < t->shape.ndim; i++) window *= t->shape.sizes[i];
        (void)out, (void)in;
        return window > 1 && t->shape.ndim == 3 ? "a convolution also multiplies the padding" : NULL;
    }
    return tensor < 0 && lmi_fact_get(f, LMI_FACT_red) != 1
               ? "products that are of no parameter and no attention update or read a state"
               : NULL;
}

/* The size of the last axis of an operator's first result; -1: it has none. */
static int64_t last_axis(const lam_op *o) {
    const lam_op_arg *out = o->sig->n_out > 0 ? &o->sig->out[0] : NULL;
    return out && out->is_tensor && out->ndim > 0 ? out->sizes[out->ndim - 1] : -1;
}

/* Notes what a product multiplies for padding: its part of the rows, if all positions have rows. Scores of
 * padding are hidden. */
static void leave_out(looking *l, int32_t op, lam_count macs) {
    const lam_op *o = &l->r->m->ops[op];
    const int64_t pads = lmi_token_at(l->r, l->k)->pads, width = last_axis(o);
    if (pads <= 0 || is_attention(kind_of(l->r->m, op)) || l->scores[op]) return;
    const int64_t rows = width > 0 ? lmi_op_arg_numel(&o->sig->out[0]) / width : -1;
    if (rows < 0 || macs.state != LAM_EXACT || macs.over || l->tokens <= 0)
        why_model(l, "what padding is multiplied with is not known");
    else if (rows % l->tokens == 0)
        l->work->padded += macs.n / l->tokens * pads;
}

/* One operator that counts. */
static lam_status look(looking *l, int32_t op, lam_error *e) {
    const lam_model *m = l->r->m;
    const lam_op *o = &m->ops[op];
    lam_count n[LAM_N_METRICS] = {{0}};
    const bool multiplies = lmi_kind_multiplies(kind_of(m, op));
    int32_t owner = -1;
    lmi_facts facts;
    if (!lmi_token_counts(l->r->c, op)) return LAM_OK;
    if (multiplies) lmi_costs_op(l->r->c, op, n);
    for (int32_t i = 0; i < o->sig->n_in; i++) {
        if (!o->sig->in[i].is_tensor) continue;
        int32_t tensor = lam_model_source_tensor(m, op, i);
        if (tensor < 0 || !l->r->parameter[tensor] || lmi_only_view(o)) continue;
        read_argument(l, op, i, tensor, n[LAM_MACS].state == LAM_EXACT ? n[LAM_MACS].n : -1);
        bool matrix = multiplies && m->tensors[tensor].shape.ndim >= 2 && o->sig->in[i].ndim >= 2;
        if (matrix && owner < 0 && !is_attention(kind_of(m, op))) {
            owner = tensor;
            LAM_TRY(multiply(l, op, i, tensor, n[LAM_MACS], e));
        }
    }
    if (!multiplies || lmi_is_zero(n[LAM_MACS])) return LAM_OK;
    leave_out(l, op, n[LAM_MACS]);
    lmi_facts_of_op(m, op, &facts);
    const char *why = unlike_model(l, op, owner, &facts);
    if (why) why_model(l, why);
    return LAM_OK;
}

/* The size of the axis of which the largest are chosen, as a router does with its experts. */
static int32_t routes(const looking *l) {
    for (int32_t i = l->r->ops.start[l->k]; i < l->r->ops.start[l->k + 1]; i++) {
        const lam_op *o = &l->r->m->ops[l->r->ops.order[i]];
        const int32_t first = lmi_first_tensor(o);
        if (strcmp(o->sig->name, "aten::topk") != 0 || first < 0) continue;
        const lam_op_arg *a = &o->sig->in[first];
        if (a->ndim == 2 && a->sizes[1] < INT32_MAX) return (int32_t)a->sizes[1];
    }
    return 0;
}

/* -- one call
 * ------------------------------------------------------------------------------------------------ */

/* Adds up the numbers of each call. */
static void sum_up(lmi_token_run *r) {
    for (size_t k = 0; k < r->calls.n; k++) {
        r->work[k] = (lmi_token_work){.experts_least = -1, .experts_most = -1};
        for (int i = 0; i < LAM_N_METRICS; i++) r->work[k].metric[i] = lmi_exact(0);
    }
    for (int32_t k = 0; k < r->m->n_events; k++) {
        lmi_token_work *to = r->call_of[k] < 0 ? NULL : &r->work[r->call_of[k]];
        for (int i = 0; to && i < LAM_N_METRICS; i++)
            to->metric[i] = lmi_count_add(to->metric[i], r->c->prices[k].metric[i]);
    }
    for (size_t k = 0; k < r->calls.n; k++)
        for (int i = 0; i < LAM_N_METRICS; i++) r->work[k].metric[i] = lmi_settled(r->work[k].metric[i]);
}

static void sum_reads(looking *l) {
    const lam_model *m = l->r->m;
    int64_t bits = 0, dealt = 0;
    for (int32_t i = 0; i < m->n_tensors; i++) {
        const lmi_token_use *u = &l->r->use[i];
        if (u->stamp != l->k + 1) continue;
        bits += u->read * lam_dtype_bits(m->tensors[i].dtype);
        if (u->groups > 1 && !u->whole) dealt += u->read * lam_dtype_bits(m->tensors[i].dtype);
    }
    l->work->weights = bits / 8;
    l->work->dealt = dealt / 8;
    l->work->dealt_most += dealt / 8;
    l->work->weights_most += bits / 8;
}

static lam_status look_at_call(lmi_token_run *r, int32_t k, int32_t last, bool *scores, lam_error *e) {
    const lmi_token_call *call = lmi_token_at(r, k);
    looking l = {.r = r, .k = k, .work = &r->work[k], .scores = scores, .last = k == last};
    lam_status s = LAM_OK;
    l.tokens = call->fresh < 0 || lmi_mul_over(call->batch, call->fresh, &l.tokens) ? -1 : l.tokens;
    l.stage = lmi_token_prefills(r, k) ? LAM_PREFILL : LAM_DECODE;
    l.tells = l.stage == (lmi_token_prefills(r, last) ? LAM_PREFILL : LAM_DECODE);
    l.routes = routes(&l);
    l.table = token_table(&l);
    if (l.table >= 0) r->table = l.table;
    lmi_map_init(&l.parts);
    mark_scores(&l);
    for (int32_t i = r->ops.start[k]; s == LAM_OK && i < r->ops.start[k + 1]; i++)
        s = look(&l, r->ops.order[i], e);
    sum_reads(&l);
    if (l.last) r->chooses = l.routes > 0 && !l.dealt;
    lmi_map_free(&l.parts);
    return s;
}

static bool find_parameters(lmi_token_run *r) {
    const lam_model *m = r->m;
    r->parameter = lmi_alloc(r->arena, (uint64_t)m->n_tensors, sizeof *r->parameter);
    r->use = lmi_alloc(r->arena, (uint64_t)m->n_tensors, sizeof *r->use);
    r->work = lmi_alloc(r->arena, r->calls.n, sizeof *r->work);
    if (!r->parameter || !r->use || !r->work) return false;
    for (int32_t i = 0; i < m->n_modules; i++)
        for (int32_t k = 0; k < m->modules[i].n_owned; k++)
            if (!m->modules[i].owned[k].is_buffer || m->tensors[m->modules[i].owned[k].tensor].packed)
                r->parameter[m->modules[i].owned[k].tensor] = true;
    return true;
}

lam_status lmi_token_products(lmi_token_run *r, lam_error *e) {
    bool *scores = r->scores = lmi_alloc(r->arena, (uint64_t)r->m->n_ops, sizeof *scores);
    int32_t step = -1;
    r->table = -1;
    if (!scores || !find_parameters(r)) return lmi_nomem(e);
    LAM_TRY(lam_model_find_sources(r->m, e));
    sum_up(r);
    for (int32_t k = 0; k < (int32_t)r->calls.n; k++)
        if (!lmi_token_prefills(r, k)) step = k;
    const int32_t last = step >= 0 ? step : (int32_t)r->calls.n - 1;
    for (int32_t k = 0; k < (int32_t)r->calls.n; k++) LAM_TRY(look_at_call(r, k, last, scores, e));
    return LAM_OK;
}
