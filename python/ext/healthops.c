/* SPDX-License-Identifier: Apache-2.0
 * What operators and nodes of backward passes were given and gave, looked at on whatever thread runs them.
 * Nothing of Python is touched. */
#include "health.h"

#include <string.h>

enum { DEEP = 64, UNWRITTEN = 64 };

/* What a thread is in. */
typedef struct opened {
    const void *record;
    bool is_node, fed, gave;
    bool number;    /* a number that was written in the program went in, and it is bad */
    bool minus_inf; /* -Inf is among its arguments as a number */
    int32_t index;
    uint64_t first; /* memory of its first argument */
    char inside[LMX_HEALTH_NAME];
    lmx_look look;
} opened;
static _Thread_local struct {
    uint64_t generation;
    int32_t n, skipped; /* skipped: opened deeper than is followed */
    opened open[DEEP];
    bool ran;                     /* some node has */
    char before[LMX_HEALTH_NAME]; /* the last one that may have given what no operator did, and whose it is */
    int32_t before_call;
    uint64_t unwritten[UNWRITTEN]; /* memory that an operator gave without writing to it */
    uint32_t next_unwritten;
    uint64_t numbers[UNWRITTEN]; /* memory of bad tensors without axes that operators gave */
    uint32_t next_number;
} mine;

static void enter_thread(const lmx_checkup *h) {
    if (mine.generation == h->generation) return;
    memset(&mine, 0, sizeof mine);
    mine.generation = h->generation;
    mine.before_call = -1;
}

void lmx_health_call_begins(const lmx_checkup *h) {
    enter_thread(h);
    if (mine.n) return;
    mine.ran = false;
    mine.before[0] = '\0';
    mine.before_call = -1;
}

static lmx_checkup *of(lmx_listener *l) { return (lmx_checkup *)l; }

static bool is_unwritten(uint64_t data) {
    for (int i = 0; data && i < UNWRITTEN; i++)
        if (mine.unwritten[i] == data) return true;
    return false;
}

static void written(uint64_t data) {
    for (int i = 0; i < UNWRITTEN; i++)
        if (mine.unwritten[i] == data) mine.unwritten[i] = 0;
}

typedef bool each_tensor(lmx_checkup *h, void *self, const char *value, int32_t index);

static int32_t each_value(lmx_checkup *h, const lmx_layout *l, lmx_values values, each_tensor *each,
                          void *self, int32_t index, bool lists) {
    for (size_t i = 0; i < values.n && i < LMX_MAX_LIST; i++) {
        const char *value = values.at + i * LMX_IVALUE;
        int32_t tag = lmx_tag_of(value);
        if (tag == l->tensor)
            each(h, self, value, index++);
        else if (lists && tag == l->list_tag && l->list >= 0)
            index = each_value(h, l, lmx_list_of(l, value), each, self, index, false);
    }
    return index;
}

/* What an undefined tensor is can't be asked: it has no type. */
static bool look_at_value(lmx_checkup *h, const char *value, lmx_look *look) {
    lmx_seen seen = lmx_look_at(&h->looker, value, false, look);
    if (seen == LMX_SEEN) lmx_health_count(h, look, seen);
    return seen == LMX_SEEN && lmx_look_bad(look);
}

/* A number that was written in the program comes as a tensor without axes that no operator gave. */
static bool is_written_number(const lmx_look *look) {
    if (look->ndim != 0) return false;
    for (int i = 0; i < UNWRITTEN; i++)
        if (mine.numbers[i] == look->data) return false;
    return true;
}

static bool look_at_fed(lmx_checkup *h, void *self, const char *value, int32_t index) {
    opened *o = self;
    lmx_look look;
    if (o->fed || !look_at_value(h, value, &look) || lmx_look_masks(&look)) return false;
    if (is_written_number(&look)) {
        o->number = true;
        return false;
    }
    if (is_unwritten(look.data)) return false;
    o->fed = true;
    o->index = index;
    o->look = look;
    return true;
}

typedef struct giving {
    opened *o;
    int64_t sequence;
} giving;

/* One gradient that a node was given. What is undefined has no type, and is none. */
static bool look_at_gradient(lmx_checkup *h, void *self, const char *value, int32_t index) {
    giving *g = self;
    lmx_look look;
    lmx_seen seen = lmx_look_at(&h->looker, value, false, &look);
    bool bad = seen == LMX_SEEN && lmx_look_bad(&look);
    if (seen == LMX_NEVER_BAD && look.dtype < 0) return false;
    if (seen == LMX_SEEN) lmx_health_count(h, &look, seen);
    lmx_came_given(&h->came, g->sequence, index, seen != LMX_NOT_TO_READ, bad);
    if (!bad || g->o->fed) return false;
    g->o->fed = true;
    g->o->index = index;
    g->o->look = look;
    return true;
}

static opened *push_open(lmx_checkup *h, const void *what, bool is_node) {
    enter_thread(h);
    if (mine.n == DEEP) {
        mine.skipped++;
        return NULL;
    }
    opened *o = &mine.open[mine.n++];
    *o = (opened){.record = what, .is_node = is_node};
    return o;
}

/* The one that ends; what lies above it was lost. */
static bool pop_open(lmx_checkup *h, const void *what, opened *out) {
    enter_thread(h);
    for (int32_t n = mine.n; n-- > 0;) {
        if (mine.open[n].record != what) continue;
        *out = mine.open[n];
        mine.n = n;
        return true;
    }
    return false;
}

/* torch's own nodes give what their operators gave. Those that it makes from formulas end in a number. */
static bool gives_what_operators_gave(const char *name) {
    static const char own[] = "torch::autograd::", others[] = "torch::autograd::CppNode";
    size_t n = strlen(name);
    if (strncmp(name, own, sizeof own - 1) == 0) return strncmp(name, others, sizeof others - 1) != 0;
    return n && name[n - 1] >= '0' && name[n - 1] <= '9';
}

/* What a node was given and no operator in a node gave: a node that is not torch's own did, or it came about
 * on the way to the node, where hooks run and gradients are added up. */
static void name_giver(lmx_bad_record *r, int32_t call) {
    bool on_the_way = mine.ran && !*mine.before;
    r->bad.from = on_the_way ? call : mine.before_call;
    lmx_health_name(r->inside, on_the_way ? "a hook or a sum of gradients" : mine.before);
}

static void keep_node(lmx_checkup *h, const opened *o, const lmx_node_run *node) {
    lmx_bad_record r = lmx_health_record(LAM_BAD_NODE, LAM_BACKWARD, node->where.call, o->index);
    r.bad.fed = o->fed;
    r.bad.gave = o->gave;
    r.bad.pass = node->pass;
    r.sequence = (int64_t)lmx_word_at(node->record, (size_t)node->layout->sequence);
    lmx_health_name(r.name, node->name);
    if (o->fed)
        name_giver(&r, node->where.call);
    else
        lmx_health_name(r.inside, o->inside);
    lmx_health_keep(h, &r, &o->look, NULL);
    lmx_broke_call(&h->broke);
}

void lmx_health_node_began(lmx_listener *l, const lmx_node_run *node) {
    lmx_checkup *h = of(l);
    opened *o = push_open(h, node->record, true);
    if (!o) return;
    atomic_store_explicit(&h->gradients, true, memory_order_relaxed);
    lmx_values in = lmx_inputs_of(node->layout, node->record);
    giving g = {o, (int64_t)lmx_word_at(node->record, (size_t)node->layout->sequence)};
    each_value(h, node->layout, in, look_at_gradient, &g, 0, false);
    if (o->fed) keep_node(h, o, node);
}

void lmx_health_node_ended(lmx_listener *l, const lmx_node_run *node) {
    lmx_checkup *h = of(l);
    opened o;
    if (!pop_open(h, node->record, &o)) return;
    if (!o.fed && o.gave) keep_node(h, &o, node);
    if (strstr(node->name, "AccumulateGrad")) return; /* it only keeps what it was given */
    mine.ran = true;
    if (gives_what_operators_gave(node->name)) return;
    lmx_health_name(mine.before, node->name);
    mine.before_call = node->where.call;
}

/* Arguments are there only when an operator begins. */
static uint64_t first_memory(const lmx_checkup *h, const lmx_op_run *op) {
    const lmx_values in = {op->values, op->n_values};
    void *data = NULL;
    bool tensor = in.n && lmx_tag_of(in.at) == op->layout->tensor;
    return tensor && !h->looker.shim->data((void *)(uintptr_t)in.at, &data) ? (uint64_t)(uintptr_t)data : 0;
}

/* -Inf that was given as a number is wanted. */
static bool given_as_number(const lmx_op_run *op) {
    const lmx_values in = {op->values, op->n_values};
    for (size_t i = 0; i < in.n; i++) {
        double v;
        uint64_t word = lmx_word_at(in.at + i * LMX_IVALUE, 0);
        memcpy(&v, &word, sizeof v);
        if (lmx_tag_of(in.at + i * LMX_IVALUE) == op->layout->real && v == -__builtin_inf()) return true;
    }
    return false;
}

void lmx_health_op_began(lmx_listener *l, const lmx_op_run *op) {
    lmx_checkup *h = of(l);
    bool inside = mine.generation == h->generation && mine.n && mine.open[mine.n - 1].is_node;
    if (op->where.phase == LAM_BACKWARD && !(op->direct && inside)) return;
    opened *o = push_open(h, op->record, false);
    if (!o) return;
    o->first = first_memory(h, op);
    o->minus_inf = given_as_number(op);
    if (op->where.phase == LAM_BACKWARD) return;
    const lmx_values in = {op->values, op->n_values};
    each_value(h, op->layout, in, look_at_fed, o, 0, true);
}

typedef struct results {
    const lmx_op_run *op;
    opened *o;
    bool unwritten;
} results;

static bool look_at_given(lmx_checkup *h, void *self, const char *value, int32_t index) {
    results *r = self;
    lmx_look look;
    size_t n = strlen(r->op->name);
    bool in_place = n && r->op->name[n - 1] == '_';
    bool bad = look_at_value(h, value, &look);
    if (r->unwritten) {
        if (look.data) mine.unwritten[mine.next_unwritten++ % UNWRITTEN] = look.data;
        return false;
    }
    if (is_unwritten(look.data)) {
        if (!in_place && look.data == r->o->first) return false;
        written(look.data);
    }
    if (bad && look.ndim == 0 && r->o->number && lmx_only_copies(r->op->name)) return false;
    if (bad && look.ndim == 0) mine.numbers[mine.next_number++ % UNWRITTEN] = look.data;
    if (!bad || r->o->gave || lmx_moves_nothing(r->op->name)) return false;
    r->o->gave = true;
    r->o->index = index;
    r->o->look = look;
    return true;
}

void lmx_health_op_ended(lmx_listener *l, const lmx_op_run *op) {
    lmx_checkup *h = of(l);
    opened o;
    if (!pop_open(h, op->record, &o) || op->failed) return;
    results r = {op, &o, lmx_gives_unwritten(op->name)};
    const lmx_values out = {op->values, op->n_values};
    each_value(h, op->layout, out, look_at_given, &r, 0, true);
    if (!o.gave) return;
    if (op->where.phase == LAM_BACKWARD) {
        opened *node = mine.n ? &mine.open[mine.n - 1] : NULL;
        if (!node || !node->is_node || node->gave || node->fed) return;
        node->gave = true;
        node->index = o.index;
        node->look = o.look;
        lmx_health_name(node->inside, op->name);
        return;
    }
    if (lmx_look_masks(&o.look) && o.minus_inf) return;
    lmx_bad_record bad = lmx_health_record(LAM_BAD_OP, op->where.phase, op->where.call, o.index);
    bad.bad.fed = o.fed;
    lmx_health_name(bad.name, op->name);
    lmx_health_keep(h, &bad, &o.look, NULL);
    if (!o.fed) h->broke.seen = true; /* told when the layer's call ends */
}
