/* SPDX-License-Identifier: Apache-2.0
 *
 * The nodes in the order in which they run, and the calls of modules around them. A node names the modules
 * that it ran in, from the outside in. A call goes on as long as nodes that follow each other name it; what
 * they read from outside of it is its input, and what others read of it is its output. */
#include "read/pt2/pt2.h"

enum {
    DEEPEST_STACK = 256,
    DEEPEST_GRAPH = 48,
    MOST_REPEATED = 1 << 16, /* nodes and tensors that graphs which run more than once may add */
    UNIQUE_KEYS = 8,
    OUTSIDE = -2,
    LEAST_ENDS = 1 << 19,
    BYTES_AN_END = 32,
    BYTES_AN_ARG = 300 /* in most programs, with the trace of their nodes */
};

/* -- stacks of modules ----------------------------------------------------------------------------------- */

/* A piece of a text. */
typedef struct piece {
    const char *at;
    size_t n;
} piece;

/* A module that a node ran in: "L__self__conv@1,conv,torch.nn.modules.conv.Conv2d". */
typedef struct entry {
    piece key, path, type;
} entry;

/* The next part up to a separator that is in no brackets. `brackets` false: the text has none. */
static piece next_part(const char **at, const char *end, char separator, bool brackets) {
    const char *from = *at, *to = brackets ? from : memchr(from, separator, (size_t)(end - from));
    for (int depth = 0; brackets && to < end && (depth > 0 || *to != separator); to++)
        depth += (*to == '[' || *to == '(') - (depth > 0 && (*to == ']' || *to == ')'));
    if (!to) to = end;
    *at = to < end ? to + 1 : end;
    return (piece){from, (size_t)(to - from)};
}

static bool starts(const char *at, const char *end, const char *with) {
    const size_t n = strlen(with);
    return (size_t)(end - at) >= n && memcmp(at, with, n) == 0;
}

/* Puts the path of a module as state_dict has it. Until PyTorch 2.7 it is an expression:
 * "L['self'].conv", "getattr(L['self'].layers, '0').conv", "L['self']._modules['a']". */
static void put_path(lmi_buf *b, piece path) {
    const char *at = path.at, *end = at + path.n;
    while (starts(at, end, "getattr(")) at += 8;
    if (!starts(at, end, "L['")) {
        lmi_putn(b, path.at, path.n);
        return;
    }
    while (at < end && *at != ']') at++;
    at += at < end;
    while (at < end) {
        if (starts(at, end, "._modules['") || starts(at, end, "['") || starts(at, end, ", '")) {
            at = memchr(at, '\'', (size_t)(end - at));
            at++;
            const char *to = memchr(at, '\'', (size_t)(end - at));
            if (b->n) lmi_putc(b, '.');
            lmi_putn(b, at, (size_t)((to ? to : end) - at));
            at = to ? to + 1 : end;
            at += at < end && (*at == ']' || *at == ')');
        } else if (*at == '.') {
            at += 1;
            if (b->n) lmi_putc(b, '.');
        } else {
            lmi_putc(b, *at++);
        }
    }
}

/* The class of "<class 'a.B'>" too. */
static piece plain_type(piece type) {
    if (starts(type.at, type.at + type.n, "<class '") && type.n > 10)
        return (piece){type.at + 8, type.n - 10};
    return type;
}

/* The entries of a node's stack, the root's first. */
static lam_status read_stack(lmi_pt2 *p, uint32_t at, lmi_vec *out) {
    const char *text = lmi_json_as_text(&p->j, at), *end = text + p->j.v[at].n;
    const bool brackets = strpbrk(text, "[(") != NULL; /* until PyTorch 2.7 */
    lmi_vec_clear(out);
    while (text < end) {
        const piece one = next_part(&text, end, ';', brackets);
        const char *from = one.at, *to = one.at + one.n;
        entry x;
        x.key = next_part(&from, to, ',', brackets);
        if (from >= to) return lmi_pt2_bad(p, at, "a stack of modules without the path of one");
        x.path = next_part(&from, to, ',', brackets);
        x.type = plain_type((piece){from, (size_t)(to - from)});
        if (out->n >= DEEPEST_STACK) return lmi_pt2_bad(p, at, "more than 256 modules in each other");
        LAM_TRY(lmi_vec_put(out, &x, p->e));
    }
    return LAM_OK;
}

/* -- calls ----------------------------------------------------------------------------------------------- */

static int32_t top(const lmi_pt2 *p) { return *(int32_t *)lmi_vec_at(&p->open, p->open.n - 1); }

static lam_status open_call(lmi_pt2 *p, int32_t call, const char *key) {
    LAM_TRY(lmi_vec_put(&p->open, &call, p->e));
    return lmi_vec_put(&p->keys, &key, p->e);
}

static lam_status new_call(lmi_pt2 *p, int32_t module, const char *key) {
    const int32_t parent = p->open.n ? top(p) : -1, index = (int32_t)p->calls.n;
    const lmi_pt2_call c = {.module = module,
                            .parent = parent,
                            .depth = (int32_t)p->open.n,
                            .first_in = -1,
                            .last_in = -1,
                            .first_out = -1,
                            .last_out = -1,
                            .last = -1};
    LAM_TRY(lmi_pt2_check_modules(p));
    LAM_TRY(lmi_vec_put(&p->calls, &c, p->e));
    LAM_TRY(lmi_map_put(&p->calls_by_key, key, index, p->e));
    return open_call(p, index, key);
}

static lam_status tell_type(lmi_pt2 *p, int32_t module, piece type) {
    lmi_pt2_module *m = lmi_pt2_module_at(p, module);
    if (m->type_path || !type.n) return LAM_OK;
    m->type_path = lmi_strndup(&p->arena, type.at, type.n);
    return m->type_path ? LAM_OK : lmi_nomem(p->e);
}

/* Opens the call of an entry in the innermost one: again, where keys are of one call each. */
static lam_status open_entry(lmi_pt2 *p, const entry *x) {
    const char *key = lmi_strndup(&p->arena, x->key.at, x->key.n);
    int32_t module;
    if (!key) return lmi_nomem(p->e);
    lmi_buf_clear(&p->path);
    put_path(&p->path, x->path);
    LAM_TRY(lmi_buf_status(&p->path, p->e));
    LAM_TRY(lmi_pt2_module_of(p, lmi_buf_text(&p->path), p->path.n, &module));
    LAM_TRY(tell_type(p, module, x->type));
    const int64_t before = p->schema >= UNIQUE_KEYS ? lmi_map_get(&p->calls_by_key, key) : -1;
    if (before >= 0 && lmi_pt2_call_at(p, (int32_t)before)->parent == top(p) &&
        lmi_pt2_call_at(p, (int32_t)before)->module == module)
        return open_call(p, (int32_t)before, key);
    return new_call(p, module, key);
}

static bool is_open(const lmi_pt2 *p, size_t level, const entry *x) {
    if (level >= p->open.n) return false;
    const char *key = *(const char **)lmi_vec_at(&p->keys, level);
    return strlen(key) == x->key.n && memcmp(key, x->key.at, x->key.n) == 0;
}

/* Ends the calls that a node is not in, and begins those that it is in. */
static lam_status enter(lmi_pt2 *p, const lmi_vec *stack) {
    const entry *all = stack->data;
    size_t i = 0, level = 1;
    if (stack->n && all[0].path.n == 0) LAM_TRY(tell_type(p, 0, all[i++].type));
    for (; i < stack->n && is_open(p, level, &all[i]); i++) level++;
    while (p->open.n > level) {
        lmi_vec_pop(&p->open);
        lmi_vec_pop(&p->keys);
    }
    for (; i < stack->n; i++) LAM_TRY(open_entry(p, &all[i]));
    return LAM_OK;
}

/* Enters the calls of a node's stack. Most nodes have that of the node before them. */
static lam_status enter_named(lmi_pt2 *p, uint32_t stack_at, lmi_vec *stack) {
    const lmi_json_value *before = &p->j.v[p->stack], *v = &p->j.v[stack_at];
    if (p->stack && before->n == v->n && memcmp(p->j.text + before->at, p->j.text + v->at, v->n) == 0)
        return LAM_OK;
    LAM_TRY(read_stack(p, stack_at, stack));
    p->stack = stack_at;
    return enter(p, stack);
}

/* -- what goes into calls and comes out ------------------------------------------------------------------ */

static lam_status add_end(lmi_pt2 *p, int32_t call, int32_t value, bool out) {
    const uint64_t key = (uint64_t)(uint32_t)call << 32 | (uint64_t)(uint32_t)value << 1 | out;
    const int32_t index = (int32_t)p->ends.n;
    const lmi_pt2_end end = {value, -1};
    lmi_pt2_call *c = lmi_pt2_call_at(p, call);
    if (lmi_map_get_u64(&p->known_ends, key) >= 0) return LAM_OK;
    if (p->ends.n > LEAST_ENDS + p->of->size / BYTES_AN_END)
        return lmi_fail(p->e, LAM_LIMIT, p->of->name,
                        "its program passes more tensors between modules than a file of its size should");
    LAM_TRY(lmi_map_put_u64(&p->known_ends, key, 0, p->e));
    LAM_TRY(lmi_vec_put(&p->ends, &end, p->e));
    int32_t *first = out ? &c->first_out : &c->first_in, *last = out ? &c->last_out : &c->last_in;
    if (*last >= 0)
        ((lmi_pt2_end *)p->ends.data)[*last].next = index;
    else
        *first = index;
    *last = index;
    ++*(out ? &c->n_out : &c->n_in);
    return LAM_OK;
}

static int32_t depth_of(const lmi_pt2 *p, int32_t call) {
    return call < 0 ? -1 : lmi_pt2_call_at(p, call)->depth;
}
static int32_t above(const lmi_pt2 *p, int32_t call) { return lmi_pt2_call_at(p, call)->parent; }

/* A tensor is read in a call; OUTSIDE: it is a result of the whole. */
static lam_status use(lmi_pt2 *p, int32_t value, int32_t call) {
    const lmi_pt2_value *v = lmi_pt2_value_at(p, value);
    int32_t from = v->call, to = call == OUTSIDE ? -1 : call;
    if (v->weight >= 0) return LAM_OK;
    if (call == OUTSIDE && from < 0) from = 0; /* an input that is returned as it is */
    while (from != to) {
        if (depth_of(p, to) >= depth_of(p, from)) {
            LAM_TRY(add_end(p, to, value, false));
            to = above(p, to);
        } else {
            LAM_TRY(add_end(p, from, value, true));
            from = above(p, from);
        }
    }
    return LAM_OK;
}

/* A call whose results no operator reads returns those of its last operator. */
static lam_status end_unread(lmi_pt2 *p) {
    const int32_t calls = (int32_t)p->calls.n, steps = (int32_t)p->steps.n;
    int32_t *last = lmi_alloc(&p->arena, (uint64_t)calls, sizeof *last);
    lmi_groups by;
    if (!last) return lmi_nomem(p->e);
    for (int32_t i = 0; i < calls; i++)
        last[i] = lmi_pt2_call_at(p, i)->n_out ? -1 : lmi_pt2_call_at(p, i)->last;
    if (!lmi_group_by(&p->arena, last, calls, steps, &by)) return lmi_nomem(p->e);
    for (int32_t k = 0; k < steps; k++) {
        const lmi_pt2_step *s = lmi_vec_at(&p->steps, (size_t)k);
        if (by.start[k] == by.start[k + 1]) continue;
        for (int32_t i = by.start[k]; i < by.start[k + 1]; i++)
            for (int32_t out = 0; out < s->n_out; out++)
                LAM_TRY(add_end(p, by.order[i], lmi_pt2_arg_value(p, s, s->n_in + out), true));
    }
    return LAM_OK;
}

/* -- graphs ---------------------------------------------------------------------------------------------- */

static lam_status walk(lmi_pt2 *p, int32_t scope, int32_t depth);

/* In training the layers that are told apart by it say so; a model is in one mode as a whole. */
static void note_mode(lmi_pt2 *p) {
    const char *op = p->now.op;
    const bool norm = strstr(op, "batch_norm") != NULL, drop = strncmp(op, "aten::dropout", 13) == 0;
    for (int32_t i = 0; (norm || drop) && i < p->now.n_in; i++) {
        const lam_op_arg *a = lmi_pt2_arg(p, &p->now, i);
        p->training = p->training || (a->position == (norm ? 5 : 2) && !a->is_tensor &&
                                      a->value.type == LAM_BOOL && a->value.i);
    }
}

/* Adds the node as a step, and notes who made its results, and which call reads its arguments. */
static lam_status note(lmi_pt2 *p) {
    lmi_pt2_step *s = &p->now;
    const int32_t call = s->call = top(p), step = (int32_t)p->steps.n;
    LAM_TRY(lmi_vec_put(&p->steps, s, p->e));
    for (int32_t i = 0; i < s->n_in; i++) {
        const int32_t v = lmi_pt2_arg_value(p, s, i);
        if (v >= 0) LAM_TRY(use(p, v, call));
    }
    for (int32_t i = 0; i < s->n_out; i++) {
        lmi_pt2_value *v = lmi_pt2_value_at(p, lmi_pt2_arg_value(p, s, s->n_in + i));
        v->call = call;
        v->step = step;
    }
    for (int32_t c = call; c >= 0; c = above(p, c)) lmi_pt2_call_at(p, c)->last = step;
    return LAM_OK;
}

/* Notes that a value is the tensor `from` under another name. */
static void is_also(lmi_pt2_value *to, const lmi_pt2_value *from) {
    to->storage = from->storage;
    to->object = from->object;
    to->call = from->call;
    to->step = from->step;
}

/* A graph's input is the tensor that the node around it passes or, with `apart`, a part of it, which is taken
 * in the call of the node. */
static lam_status pass_in(lmi_pt2 *p, int32_t scope, const lmi_vec *operands, bool apart) {
    const lmi_pt2_scope *s = lmi_vec_at(&p->scopes, (size_t)scope);
    size_t k = 0;
    LMI_JSON_EACH(&p->j, lmi_json_get(&p->j, s->graph, "inputs"), i) {
        const char *name = lmi_json_as_text(&p->j, lmi_json_find(&p->j, i, "as_tensor.name"));
        const int32_t inner = lmi_pt2_named(p, scope, name);
        if (inner < 0) continue;
        while (k < operands->n && ((const int32_t *)operands->data)[k] < 0) k++;
        if (k >= operands->n) return lmi_pt2_bad(p, i, "a graph with more inputs than it gets");
        const lmi_pt2_value *from = lmi_pt2_value_at(p, ((const int32_t *)operands->data)[k++]);
        lmi_pt2_value *to = lmi_pt2_value_at(p, inner);
        const uint64_t own = to->object;
        is_also(to, from);
        to->weight = from->weight;
        if (apart) to->call = top(p);
        if (to->ndim != from->ndim) to->object = own;
    }
    return LAM_OK;
}

/* The results of a graph are those of the node around it; of one that runs more than once they are put
 * together. */
static lam_status pass_out(lmi_pt2 *p, int32_t scope, const lmi_vec *results, bool together) {
    const lmi_pt2_scope *s = lmi_vec_at(&p->scopes, (size_t)scope);
    size_t k = 0;
    LMI_JSON_EACH(&p->j, lmi_json_get(&p->j, s->graph, "outputs"), i) {
        const char *name = lmi_json_as_text(&p->j, lmi_json_find(&p->j, i, "as_tensor.name"));
        const int32_t inner = lmi_pt2_named(p, scope, name);
        if (inner < 0 || k >= results->n) continue;
        const lmi_pt2_value *from = lmi_pt2_value_at(p, inner);
        lmi_pt2_value *to = lmi_pt2_value_at(p, ((const int32_t *)results->data)[k++]);
        const lmi_pt2_value own = *to;
        is_also(to, from);
        if (together) to->storage = own.storage, to->object = own.object;
    }
    return LAM_OK;
}

/* The nth graph among a node's arguments; 0: it has none. */
static uint32_t graph_of(const lmi_pt2 *p, uint32_t node, int nth) {
    LMI_JSON_EACH(&p->j, lmi_json_get(&p->j, node, "inputs"), i) {
        const uint32_t graph = lmi_json_find(&p->j, i, "arg.as_graph.graph");
        if (graph && lmi_json_is(&p->j, graph) == LMI_JSON_OBJECT && nth-- == 0) return graph;
    }
    return 0;
}

/* True for an operator that runs its graph once, and does nothing else. */
static bool runs_once(const char *op) {
    static const char *const all[] = {"higher_order::wrap_with_set_grad_enabled",
                                      "higher_order::wrap_with_autocast", "higher_order::wrap",
                                      "higher_order::tag_activation_checkpoint",
                                      "higher_order::invoke_subgraph"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(op, all[i]) == 0) return true;
    return false;
}

/* True for an operator that runs its graph for each entry of a list of tensors. */
static bool repeats(const char *op) {
    return strcmp(op, "higher_order::map_impl") == 0 || strcmp(op, "higher_order::scan") == 0;
}

/* The size of the first axis of what such an operator goes through, which begins at argument `list`; -1: it
 * is not known. Early versions of scan have an axis behind it. */
static int64_t entries_of(lmi_pt2 *p, int32_t list) {
    int64_t n = -1;
    for (int32_t i = 0; i < p->now.n_in; i++) {
        const lam_op_arg *a = lmi_pt2_arg(p, &p->now, i);
        if (a->is_tensor && a->position == list && n < 0) n = a->ndim > 0 ? a->sizes[0] : -1;
        if (!a->is_tensor && a->position == list + 1 && a->value.type == LAM_INT && a->value.i != 0)
            return -1;
    }
    return n;
}

/* How often an operator runs its graph. -1: it is not known, or more than is followed. */
static int64_t times_of(lmi_pt2 *p, uint32_t graph) {
    int64_t times = 1, all;
    if (strcmp(p->now.op, "higher_order::map_impl") == 0)
        times = entries_of(p, 1);
    else if (strcmp(p->now.op, "higher_order::scan") == 0)
        times = entries_of(p, 2);
    else if (!p->again)
        return 1;
    const int64_t each = 1 + lmi_json_size(&p->j, lmi_json_get(&p->j, graph, "nodes")) +
                         lmi_json_size(&p->j, lmi_json_get(&p->j, graph, "tensor_values"));
    if (times < 0 || lmi_mul_over(times, each, &all) || all > MOST_REPEATED - p->repeated) return -1;
    p->repeated += all;
    return times;
}

static lam_status walk_inner(lmi_pt2 *p, uint32_t graph, int32_t depth, int64_t times) {
    lmi_vec operands, results;
    int32_t scope = -1;
    lmi_vec_init(&operands, sizeof(int32_t));
    lmi_vec_init(&results, sizeof(int32_t));
    lam_status s = LAM_OK;
    for (int32_t i = 0; s == LAM_OK && i < p->now.n_in + p->now.n_out; i++) {
        const int32_t v = lmi_pt2_arg_value(p, &p->now, i);
        s = lmi_vec_put(i < p->now.n_in ? &operands : &results, &v, p->e);
    }
    const bool apart = repeats(p->now.op); /* the graph gets parts of the tensors */
    const bool again = p->again;
    p->again = again || times > 1;
    lmi_pt2_drop(p);
    for (size_t i = 0; s == LAM_OK && apart && i < operands.n; i++)
        if (((const int32_t *)operands.data)[i] >= 0) s = use(p, ((const int32_t *)operands.data)[i], top(p));
    for (int64_t i = 0; s == LAM_OK && i < times; i++) {
        s = lmi_pt2_scope_of(p, graph, &scope);
        if (s == LAM_OK) s = pass_in(p, scope, &operands, apart);
        if (s == LAM_OK) s = walk(p, scope, depth + 1);
    }
    p->again = again;
    if (s == LAM_OK && times > 0) s = pass_out(p, scope, &results, times > 1);
    lmi_vec_free(&operands);
    lmi_vec_free(&results);
    return s;
}

/* The graph that a node runs, and nothing else; 0: there is none, or it is not known which. */
static uint32_t graph_that_runs(lmi_pt2 *p, uint32_t node, int32_t scope) {
    if (!p->now.graphs || !p->now.op) return 0;
    if (runs_once(p->now.op) || repeats(p->now.op)) return graph_of(p, node, 0);
    if (strcmp(p->now.op, "higher_order::cond") != 0) return 0;
    const uint32_t inputs = lmi_json_get(&p->j, node, "inputs");
    LMI_JSON_EACH(&p->j, inputs, i) {
        const int truth = lmi_pt2_truth(p, scope, lmi_json_get(&p->j, i, "arg"));
        if (truth < 0) return 0;
        const uint32_t graph = graph_of(p, node, !truth);
        p->decided += graph != 0;
        return graph;
    }
    return 0;
}

static lam_status walk_node(lmi_pt2 *p, uint32_t node, int32_t scope, int32_t depth, lmi_vec *stack) {
    const uint32_t stack_at = lmi_json_find(&p->j, node, "metadata.nn_module_stack");
    if (lmi_json_as_text(&p->j, stack_at) && p->j.v[stack_at].n) {
        LAM_TRY(enter_named(p, stack_at, stack));
    }
    LAM_TRY(lmi_pt2_node(p, node, scope));
    uint32_t graph = graph_that_runs(p, node, scope);
    const int64_t times = graph ? times_of(p, graph) : 0;
    if (times < 0) graph = 0;
    p->hides = p->hides || (p->now.graphs && (!graph || p->decided));
    if (graph) return walk_inner(p, graph, depth, times);
    if (p->now.op) {
        if (lmi_too_many_pairs((size_t)p->now.n_in, (size_t)p->now.n_out))
            return lmi_pt2_bad(p, node, "a node with more arguments and results than are read");
        note_mode(p);
        return note(p);
    }
    lmi_pt2_drop(p);
    return LAM_OK;
}

static lam_status walk(lmi_pt2 *p, int32_t scope, int32_t depth) {
    const uint32_t graph = ((lmi_pt2_scope *)lmi_vec_at(&p->scopes, (size_t)scope))->graph;
    const uint32_t nodes = lmi_json_get(&p->j, graph, "nodes");
    lmi_vec stack;
    lam_status s = LAM_OK;
    if (lmi_json_is(&p->j, nodes) != LMI_JSON_LIST) return lmi_pt2_bad(p, graph, "a graph without nodes");
    if (depth > DEEPEST_GRAPH) return lmi_pt2_bad(p, graph, "more than 48 graphs in each other");
    lmi_vec_init(&stack, sizeof(entry));
    LMI_JSON_EACH(&p->j, nodes, i) {
        s = walk_node(p, i, scope, depth, &stack);
        if (s != LAM_OK) break;
    }
    lmi_vec_free(&stack);
    return s;
}

/* -- the backward pass ----------------------------------------------------------------------------------- */

/* What a result of the whole is: "user_output", "loss_output", "gradient_to_parameter"; its tensor in *name.
 */
static const char *result_kind(const lmi_pt2 *p, uint32_t spec, const char **name) {
    const char *kind;
    const uint32_t at = lmi_pt2_union(p, spec, &kind), arg = lmi_json_get(&p->j, at, "arg");
    *name = lmi_json_as_text(&p->j, lmi_json_get(&p->j, arg, "name"));
    if (!*name) *name = lmi_json_as_text(&p->j, lmi_json_find(&p->j, arg, "as_tensor.name"));
    return kind;
}

static bool is_gradient(const char *kind) { return strncmp(kind, "gradient_to", 11) == 0; }

/* A program with gradients among its results has no mark where its backward begins: it is all that the other
 * results do not need. */
static lam_status find_backward(lmi_pt2 *p, uint32_t specs) {
    bool *needed = lmi_alloc(&p->arena, p->values.n, sizeof *needed);
    const char *name;
    if (!needed) return lmi_nomem(p->e);
    LMI_JSON_EACH(&p->j, specs, i) {
        const bool gradient = is_gradient(result_kind(p, i, &name));
        const int32_t v = lmi_pt2_named(p, 0, name);
        if (!gradient && v >= 0) needed[v] = true;
    }
    for (size_t i = p->steps.n; i-- > 0;) {
        lmi_pt2_step *s = lmi_vec_at(&p->steps, i);
        bool any = false;
        for (int32_t k = 0; k < s->n_out; k++) any = any || needed[lmi_pt2_arg_value(p, s, s->n_in + k)];
        s->backward = !any;
        for (int32_t k = 0; any && k < s->n_in; k++) {
            const int32_t v = lmi_pt2_arg_value(p, s, k);
            if (v >= 0) needed[v] = true;
        }
    }
    return LAM_OK;
}

/* -- all of it ------------------------------------------------------------------------------------------- */

static lam_status use_results(lmi_pt2 *p, uint32_t specs) {
    const char *name;
    LMI_JSON_EACH(&p->j, specs, i) {
        const char *kind = result_kind(p, i, &name);
        const int32_t v = lmi_pt2_named(p, 0, name);
        const bool result = strcmp(kind, "user_output") == 0 || strcmp(kind, "loss_output") == 0;
        p->joint = p->joint || is_gradient(kind);
        if (result && v >= 0) LAM_TRY(use(p, v, OUTSIDE));
    }
    return LAM_OK;
}

lam_status lmi_pt2_walk(lmi_pt2 *p) {
    const uint32_t specs = lmi_json_get(&p->j, p->signature, "output_specs");
    LAM_TRY(lmi_vec_reserve(&p->args, p->n_text / BYTES_AN_ARG, p->e));
    LAM_TRY(new_call(p, 0, ""));
    LAM_TRY(walk(p, 0, 0));
    LAM_TRY(use_results(p, specs));
    LAM_TRY(end_unread(p));
    return p->joint ? find_backward(p, specs) : LAM_OK;
}
