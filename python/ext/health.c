/* SPDX-License-Identifier: Apache-2.0
 * Looks at the values of what goes through a capture: arguments and results of calls, gradients that nodes of
 * a backward pass are given, and what the operators in them give. It notes what is not finite in the order in
 * which it is met, and nothing else: what that means is lam_health_new's to say.
 *
 * Calls are told under the GIL; nodes and operators on any thread, where nothing of Python is touched. */
#include "broke.h"
#include "came.h"
#include "here.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 56, MOST_BAD = 1 << 16, DEEP = 64, UNWRITTEN = 64 };

/* lam_bad with the texts and sizes that it points to. */
typedef struct record {
    lam_bad bad;
    char name[NAME], inside[NAME];
    char *text; /* its own; NULL */
    int64_t sizes[LAM_MAX_AXES];
    int64_t sequence; /* a node's number; -1 */
    uint64_t thread;
} record;

typedef struct statistics {
    int32_t call, out;
    lam_stats s;
} statistics;

typedef struct health {
    lmx_listener base;
    lmx_capture *capture;
    lmx_looker looker;
    uint64_t generation;
    pthread_mutex_t lock; /* of the records: held for moments, never while Python or torch runs */
    lmx_vec records;      /* record */
    bool cut, lost;
    lmx_vec stats; /* statistics */
    lmx_came came;
    lmx_broke broke;
    lmx_vec fed;                     /* uint8_t per call: something bad went in */
    uint8_t *marks;                  /* per module: ALLOWED, ASKED */
    PyObject *allowed, *asked, *ask; /* lists of modules; what to call for each of `asked`; or NULL */
    _Atomic int64_t tensors, bytes, unseen;
    atomic_bool gradients;
} health;

enum { ALLOWED = 1, ASKED = 2 };

/* What a thread is in. */
typedef struct opened {
    const void *record;
    bool is_node, fed, gave;
    bool number;    /* a number that was written in the program went in, and it is bad */
    bool minus_inf; /* -Inf is among its arguments as a number */
    int32_t index;
    uint64_t first; /* memory of its first argument */
    char inside[NAME];
    lmx_look look;
} opened;
static _Thread_local struct {
    uint64_t generation;
    int32_t n, skipped; /* skipped: opened deeper than is followed */
    opened open[DEEP];
    char before[NAME]; /* the node that ran last, and whose it is */
    int32_t before_call;
    uint64_t unwritten[UNWRITTEN]; /* memory that an operator gave without writing to it */
    int32_t next_unwritten;
    uint64_t numbers[UNWRITTEN]; /* memory of bad tensors without axes that operators gave */
    int32_t next_number;
} mine;

static void enter_thread(const health *h) {
    if (mine.generation == h->generation) return;
    memset(&mine, 0, sizeof mine);
    mine.generation = h->generation;
    mine.before_call = -1;
}

/* == records ==============================================================================================
 */

static void copy_name(char *to, const char *from) {
    size_t n = from ? strnlen(from, NAME - 1) : 0;
    memcpy(to, from ? from : "", n);
    to[n] = '\0';
}

static int32_t calls_of(const health *h) { return (int32_t)h->capture->calls.n; }

static void keep(health *h, record *r, const lmx_look *look, const char *text) {
    if (look) {
        r->bad.found = look->found;
        r->bad.dtype = look->dtype;
        r->bad.ndim = look->ndim;
        memcpy(r->sizes, look->sizes, sizeof r->sizes);
    } else {
        r->bad.dtype = r->bad.ndim = -1;
        r->bad.found.first = -1;
    }
    r->bad.calls = calls_of(h);
    pthread_mutex_lock(&h->lock);
    bool full = h->records.n >= MOST_BAD;
    record *to = full ? NULL : lmx_vec_push(&h->records, sizeof *to, 1);
    if (to) {
        *to = *r;
        to->text = text ? strdup(text) : NULL;
    }
    h->cut = h->cut || full;
    h->lost = h->lost || (!full && !to);
    pthread_mutex_unlock(&h->lock);
}

static record new_record(lam_bad_side side, uint8_t phase, int32_t call, int32_t index) {
    return (
        record){.bad = {.side = side, .phase = (lam_phase)phase, .call = call, .index = index, .from = -1},
                .sequence = -1};
}

static void count(health *h, const lmx_look *look, lmx_seen seen) {
    if (seen == LMX_SEEN) {
        atomic_fetch_add_explicit(&h->tensors, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&h->bytes, look->bytes, memory_order_relaxed);
    } else if (seen == LMX_NOT_TO_READ) {
        atomic_fetch_add_explicit(&h->unseen, 1, memory_order_relaxed);
    }
}

/* == calls ================================================================================================
 */

/* One walk through arguments or a result. */
typedef struct visit {
    health *h;
    lam_bad_side side;
    int32_t call, index;
    uint8_t phase, marks;
    bool bad, unseen;
    PyObject *module;
} visit;

static health *of(lmx_listener *l) { return (health *)l; }

static uint8_t phase_of(const lmx_capture *c, int32_t call) {
    return ((const lmx_call *)c->calls.data)[call].flags & LAM_CALL_AGAIN ? LAM_RECOMPUTE : LAM_FORWARD;
}

static uint8_t *fed_at(health *h, int32_t call) {
    while (h->fed.n <= (size_t)call) {
        uint8_t *to = lmx_vec_push(&h->fed, 1, 1);
        if (!to) return NULL;
        *to = 0;
    }
    return (uint8_t *)h->fed.data + call;
}

static bool look_at_owned(void *self, PyObject *key, PyObject *tensor) {
    visit *v = self;
    lmx_look look;
    lmx_seen seen;
    lmx_kind kind = lmx_kind_of(v->h->capture->st, tensor);
    if (tensor == Py_None || v->bad || kind != LMX_PLAIN) return true;
    if (!lmx_look_into(&v->h->looker, tensor, kind, &look, &seen)) return false;
    bool buffer = v->index > 0;
    if (seen != LMX_SEEN || !lmx_look_bad(&look) || (buffer && lmx_look_masks(&look))) return true;
    v->bad = true;
    record r = new_record(LAM_BAD_OWNED, v->phase, v->call, -1);
    copy_name(r.name, lmx_utf8(key));
    keep(v->h, &r, &look, NULL);
    return true;
}

/* Statistics that a layer keeps follow from what went through it while it trains, and are not read. */
static bool look_at_module(visit *around) {
    lmx_state *st = around->h->capture->st;
    visit v = *around;
    PyObject *dict = lmx_dict_of(v.module);
    PyObject *training = lmx_get(dict, st->n_training);
    bool ok = true;
    for (int i = 0; ok && i < (training == Py_True ? 1 : 2); i++) {
        PyObject *owned = lmx_registered(st, v.module, dict, i ? st->n__buffers : st->n__parameters);
        v.bad = false;
        v.index = i;
        if (owned && owned != Py_None) ok = lmx_each(st, owned, look_at_owned, &v);
        Py_XDECREF(owned);
    }
    Py_XDECREF(dict);
    return ok;
}

static void note_stats(visit *v, const lmx_look *look) {
    statistics *to = lmx_vec_push(&v->h->stats, sizeof *to, 1);
    if (to) *to = (statistics){v->call, v->index, look->stats};
}

/* Not what merely passes through. */
static bool may_be_new(const visit *v, bool fed) {
    const lmx_call *call = (const lmx_call *)v->h->capture->calls.data + v->call;
    return v->side == LAM_BAD_INPUT ? call->parent < 0 : !fed;
}

static bool note_bad(visit *v, PyObject *tensor, const lmx_look *look) {
    if (v->marks & ALLOWED) {
        if (v->side == LAM_BAD_OUTPUT) lmx_look_allow(&v->h->looker, tensor, look);
        return true;
    }
    uint8_t *fed = fed_at(v->h, v->call);
    bool worse = !lmx_look_masks(look);
    if (v->side == LAM_BAD_INPUT && fed && worse) *fed = 1;
    if (v->side == LAM_BAD_OUTPUT && !v->bad && worse && fed && !*fed && !look_at_module(v)) return false;
    v->bad = v->bad || worse;
    record r = new_record(v->side, v->phase, v->call, v->index);
    keep(v->h, &r, look, NULL);
    if (worse && may_be_new(v, fed && *fed)) v->h->broke.seen = true;
    return true;
}

static bool visit_tensor(lmx_finder *f, PyObject *tensor, lmx_kind kind) {
    visit *v = f->self;
    health *h = v->h;
    lmx_look look;
    lmx_seen seen;
    f->n++;
    if (!lmx_look_into(&h->looker, tensor, kind, &look, &seen)) return false;
    count(h, &look, seen);
    if (seen == LMX_NOT_TO_READ) v->unseen = true;
    if (seen == LMX_SEEN && h->looker.wants_stats && v->side == LAM_BAD_OUTPUT) note_stats(v, &look);
    if (h->base.wants_values && kind == LMX_PLAIN && (seen != LMX_NEVER_BAD || look.dtype >= 0))
        lmx_came_note(&h->came, tensor, v->call, v->index, v->side == LAM_BAD_INPUT);
    bool ok = seen != LMX_SEEN || !lmx_look_bad(&look) || note_bad(v, tensor, &look);
    v->index++;
    return ok;
}

static visit visit_of(health *h, lmx_capture *c, int32_t call, lam_bad_side side) {
    int32_t module = ((const lmx_call *)c->calls.data)[call].module;
    return (visit){.h = h,
                   .side = side,
                   .call = call,
                   .phase = phase_of(c, call),
                   .marks = h->marks[module],
                   .module = lmx_node_at(&c->tree, module)->object};
}

static lmx_finder finder_of(lmx_capture *c, visit *v) {
    return (lmx_finder){.st = c->st, .budget = LMX_BUDGET, .name = -1, .each = visit_tensor, .self = v};
}

static bool entered(lmx_listener *l, lmx_capture *c, int32_t call, PyObject *const *args, Py_ssize_t n,
                    PyObject *names) {
    health *h = of(l);
    visit v = visit_of(h, c, call, LAM_BAD_INPUT);
    lmx_finder f = finder_of(c, &v);
    enter_thread(h);
    if (!mine.n) mine.before[0] = '\0';
    if (!mine.n) mine.before_call = -1;
    n += names ? PyTuple_Size(names) : 0;
    bool ok = true;
    for (Py_ssize_t i = 0; ok && i < n; i++) ok = lmx_find(&f, args[i], 0);
    if (ok) lmx_broke_tell(&h->broke, NULL);
    return ok;
}

/* == the user's own checks =================================================================================
 */

static void keep_check(health *h, const visit *v, PyObject *said) {
    PyObject *name = PyTuple_Check(said) ? PyTuple_GetItem(said, 0) : NULL;
    PyObject *text = name ? PyTuple_GetItem(said, 1) : NULL;
    PyErr_Clear();
    if (!text) return;
    record r = new_record(LAM_BAD_CHECK, v->phase, v->call, 0);
    copy_name(r.name, lmx_utf8(name));
    keep(h, &r, NULL, lmx_utf8(text));
    h->broke.seen = true;
}

static bool ask_user(health *h, const visit *v, PyObject *result) {
    PyObject *said = PyObject_CallFunctionObjArgs(h->ask, v->module, result, NULL);
    if (!said) return false;
    for (Py_ssize_t i = 0; PyList_Check(said) && i < PyList_Size(said); i++)
        keep_check(h, v, PyList_GetItem(said, i));
    Py_DECREF(said);
    return true;
}

/* A layer around it may know what to do about it; where there is none, the forward broke. One that is done
 * again by a checkpoint is ended this way once it has made what was wanted of it. */
static void left_by_raising(health *h, const lmx_capture *c, int32_t call) {
    const lmx_call *at = (const lmx_call *)c->calls.data + call;
    if (at->parent < 0 && phase_of(c, call) == LAM_FORWARD && c->raised) lmx_broke_tell(&h->broke, c->raised);
}

static bool left(lmx_listener *l, lmx_capture *c, int32_t call, PyObject *result) {
    health *h = of(l);
    if (!result) {
        left_by_raising(h, c, call);
        return true;
    }
    visit v = visit_of(h, c, call, LAM_BAD_OUTPUT);
    lmx_finder f = finder_of(c, &v);
    if (!lmx_find(&f, result, 0)) return false;
    if (v.unseen) {
        record r = new_record(LAM_BAD_UNSEEN, v.phase, call, -1);
        keep(h, &r, NULL, NULL);
    }
    bool ok = !(v.marks & ASKED) || ask_user(h, &v, result);
    if (ok) lmx_broke_tell(&h->broke, NULL);
    return ok;
}

/* == operators and nodes ===================================================================================
 */

static bool is_unwritten(uint64_t data) {
    for (int i = 0; data && i < UNWRITTEN; i++)
        if (mine.unwritten[i] == data) return true;
    return false;
}

static void written(uint64_t data) {
    for (int i = 0; i < UNWRITTEN; i++)
        if (mine.unwritten[i] == data) mine.unwritten[i] = 0;
}

typedef bool each_tensor(health *h, void *self, const char *value, int32_t index);

static int32_t each_value(health *h, const lmx_layout *l, lmx_values values, each_tensor *each, void *self,
                          int32_t index, bool lists) {
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
static bool look_at_value(health *h, const char *value, lmx_look *look) {
    lmx_seen seen = lmx_look_at(&h->looker, value, false, look);
    if (seen == LMX_SEEN) count(h, look, seen);
    return seen == LMX_SEEN && lmx_look_bad(look);
}

/* A number that was written in the program comes as a tensor without axes that no operator gave. */
static bool is_written_number(const lmx_look *look) {
    if (look->ndim != 0) return false;
    for (int i = 0; i < UNWRITTEN; i++)
        if (mine.numbers[i] == look->data) return false;
    return true;
}

static bool look_at_fed(health *h, void *self, const char *value, int32_t index) {
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
static bool look_at_gradient(health *h, void *self, const char *value, int32_t index) {
    giving *g = self;
    lmx_look look;
    lmx_seen seen = lmx_look_at(&h->looker, value, false, &look);
    bool bad = seen == LMX_SEEN && lmx_look_bad(&look);
    if (seen == LMX_NEVER_BAD && look.dtype < 0) return false;
    if (seen == LMX_SEEN) count(h, &look, seen);
    lmx_came_given(&h->came, g->sequence, index, seen != LMX_NOT_TO_READ, bad);
    if (!bad || g->o->fed) return false;
    g->o->fed = true;
    g->o->index = index;
    g->o->look = look;
    return true;
}

static opened *push_open(health *h, const void *what, bool is_node) {
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
static bool pop_open(health *h, const void *what, opened *out) {
    enter_thread(h);
    for (int32_t n = mine.n; n-- > 0;) {
        if (mine.open[n].record != what) continue;
        *out = mine.open[n];
        mine.n = n;
        return true;
    }
    return false;
}

static void keep_node(health *h, const opened *o, const lmx_node_run *node) {
    record r = new_record(LAM_BAD_NODE, LAM_BACKWARD, node->where.call, o->index);
    r.bad.fed = o->fed;
    r.bad.gave = o->gave;
    r.bad.from = o->fed ? mine.before_call : -1;
    r.bad.pass = node->pass;
    r.sequence = (int64_t)lmx_word_at(node->record, (size_t)node->layout->sequence);
    copy_name(r.name, node->name);
    copy_name(r.inside, o->fed ? mine.before : o->inside);
    keep(h, &r, &o->look, NULL);
    lmx_broke_call(&h->broke);
}

static void node_began(lmx_listener *l, const lmx_node_run *node) {
    health *h = of(l);
    opened *o = push_open(h, node->record, true);
    if (!o) return;
    atomic_store_explicit(&h->gradients, true, memory_order_relaxed);
    lmx_values in = lmx_inputs_of(node->layout, node->record);
    giving g = {o, (int64_t)lmx_word_at(node->record, (size_t)node->layout->sequence)};
    each_value(h, node->layout, in, look_at_gradient, &g, 0, false);
    if (o->fed) keep_node(h, o, node);
}

static void node_ended(lmx_listener *l, const lmx_node_run *node) {
    health *h = of(l);
    opened o;
    if (!pop_open(h, node->record, &o)) return;
    if (!o.fed && o.gave) keep_node(h, &o, node);
    if (strstr(node->name, "AccumulateGrad")) return; /* it only keeps what it was given */
    copy_name(mine.before, node->name);
    mine.before_call = node->where.call;
}

/* Arguments are there only when an operator begins. */
static uint64_t first_memory(const health *h, const lmx_op_run *op) {
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

/* Operators in the forward are looked at where they are watched: they are told only then. */
static void op_began(lmx_listener *l, const lmx_op_run *op) {
    health *h = of(l);
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

static bool look_at_given(health *h, void *self, const char *value, int32_t index) {
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

static void op_ended(lmx_listener *l, const lmx_op_run *op) {
    health *h = of(l);
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
        copy_name(node->inside, op->name);
        return;
    }
    if (lmx_look_masks(&o.look) && o.minus_inf) return;
    record bad = new_record(LAM_BAD_OP, op->where.phase, op->where.call, o.index);
    bad.bad.fed = o.fed;
    copy_name(bad.name, op->name);
    keep(h, &bad, &o.look, NULL);
    if (!o.fed) h->broke.seen = true; /* told when the layer's call ends */
}

/* == opening, closing, telling =============================================================================
 */

static void mark(health *h, const lmx_capture *c, PyObject *modules, uint8_t as) {
    for (Py_ssize_t i = 0; modules && i < PyList_Size(modules); i++) {
        int32_t module = lmx_map_get(&c->tree.index, PyList_GetItem(modules, i));
        if (module >= 0) h->marks[module] |= as;
    }
}

static bool open_health(lmx_listener *l, lmx_capture *c) {
    static uint64_t generation;
    health *h = of(l);
    h->capture = c;
    h->generation = ++generation;
    h->marks = calloc(c->tree.nodes.n + 1, 1);
    if (!h->marks) PyErr_NoMemory();
    if (!h->marks || !lmx_came_open(&h->came, c, &h->looker)) return false;
    mark(h, c, h->allowed, ALLOWED);
    mark(h, c, h->asked, ASKED);
    if (!lmx_looker_open(&h->looker, c->st)) return false;
    if (!h->looker.by_shim) h->base.wants_values = h->base.wants_operators = false;
    if (!h->looker.by_shim) h->base.node_began = h->base.node_ended = NULL;
    lmx_broke_open(&h->broke, c);
    return true;
}

static void close_health(lmx_listener *l, lmx_capture *c) {
    (void)c;
    lmx_broke_close(&of(l)->broke);
    if (of(l)->looker.n_version) lmx_came_close(&of(l)->came);
    lmx_looker_close(&of(l)->looker);
}

static void free_health(lmx_listener *l) {
    health *h = of(l);
    lmx_broke_close(&h->broke);
    Py_XDECREF(h->broke.tell);
    for (size_t i = 0; i < h->records.n; i++) free(((record *)h->records.data)[i].text);
    lmx_looker_close(&h->looker);
    lmx_vec_free(&h->records);
    lmx_vec_free(&h->stats);
    lmx_came_free(&h->came);
    lmx_vec_free(&h->fed);
    free(h->marks);
    Py_XDECREF(h->allowed);
    Py_XDECREF(h->asked);
    Py_XDECREF(h->ask);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

/* The arguments and results of calls that a node's gradient is of, each as a record of its own. */
static lam_status push_gradients(const health *h, const record *r, const lam_bad *bad, lam_builder *b,
                                 lam_error *e) {
    const lmx_grad_note *notes = h->came.notes.data;
    if (bad->side != LAM_BAD_NODE || !bad->fed || r->sequence < 0) return LAM_OK;
    size_t i = lmx_came_first(&h->came, r->sequence);
    for (; i < h->came.notes.n && notes[i].sequence == r->sequence; i++) {
        if (notes[i].entry != bad->index) continue;
        lam_bad of_call = *bad;
        of_call.side = notes[i].is_input ? LAM_BAD_GRAD_INPUT : LAM_BAD_GRAD_OUTPUT;
        of_call.call = notes[i].call;
        of_call.index = notes[i].index;
        of_call.from = -1;
        of_call.name = of_call.inside = NULL;
        lam_status s = lam_build_bad(b, &of_call, e);
        if (s != LAM_OK) return s;
    }
    return LAM_OK;
}

static lam_status push_record(const health *h, const record *r, lam_builder *b, lam_error *e) {
    lam_bad bad = r->bad;
    bad.sizes = r->sizes;
    bad.name = *r->name ? r->name : NULL;
    bad.inside = *r->inside ? r->inside : NULL;
    bad.text = r->text;
    lam_status s = lam_build_bad(b, &bad, e);
    return s == LAM_OK ? push_gradients(h, r, &bad, b, e) : s;
}

static lam_looked looked_of(const health *h, const lmx_capture *c) {
    return (lam_looked){.tensors = h->tensors,
                        .bytes = h->bytes,
                        .unseen = h->unseen,
                        .gradients = h->gradients,
                        .operators = h->base.wants_operators && c->wants_ops && !c->dispatcher,
                        .cut = h->cut || h->lost || h->came.lost};
}

static lam_status push_found(health *h, const lmx_capture *c, lam_builder *b, lam_error *e) {
    const record *all = h->records.data;
    const statistics *stats = h->stats.data;
    const lam_looked looked = looked_of(h, c);
    lmx_came_sort(&h->came);
    lam_status s = lam_build_looked(b, &looked, e);
    for (size_t i = 0; s == LAM_OK && i < h->records.n; i++) s = push_record(h, &all[i], b, e);
    for (size_t i = 0; s == LAM_OK && i < h->stats.n; i++)
        s = lam_build_stats(b, stats[i].call, stats[i].out, &stats[i].s, e);
    return s;
}

static lam_status push(lmx_listener *l, lmx_capture *c, lam_builder *b, lam_error *e) {
    lam_status s = push_found(of(l), c, b, e);
    return s == LAM_OK ? lmx_came_push(&of(l)->came, b, e) : s;
}

/* While the capture is open: other threads may be at their nodes. */
static lam_status push_so_far(void *self, lam_builder *b, lam_error *e) {
    health *h = self;
    pthread_mutex_lock(&h->lock);
    lam_status s = push_found(h, h->capture, b, e);
    pthread_mutex_unlock(&h->lock);
    return s;
}

PyObject *lmx_watch_health(PyObject *self, PyObject *args) {
    lmx_capture *c = (lmx_capture *)self;
    PyObject *allowed, *asked, *ask, *broke = Py_None;
    int stats, gradients;
    if (!PyArg_ParseTuple(args, "ppO!O!O|O:watch_health", &stats, &gradients, &PyList_Type, &allowed,
                          &PyList_Type, &asked, &ask, &broke))
        return NULL;
    if (c->phase != LMX_NEW) return lmx_fail(c->st, LAM_USAGE, NULL, "values are looked at from the start");
    health *h = calloc(1, sizeof *h);
    if (!h) return PyErr_NoMemory();
    h->base = (lmx_listener){.wants_values = gradients,
                             .wants_operators = gradients,
                             .entered = entered,
                             .left = left,
                             .node_began = node_began,
                             .node_ended = node_ended,
                             .op_began = op_began,
                             .op_ended = op_ended,
                             .opened = open_health,
                             .closed = close_health,
                             .push = push,
                             .free = free_health};
    pthread_mutex_init(&h->lock, NULL);
    lmx_came_init(&h->came);
    h->looker.wants_stats = stats;
    Py_INCREF(allowed);
    Py_INCREF(asked);
    Py_INCREF(ask);
    h->allowed = allowed;
    h->asked = asked;
    h->ask = ask;
    h->broke = (lmx_broke){.push = push_so_far, .self = h, .tell = broke == Py_None ? NULL : broke};
    Py_XINCREF(h->broke.tell);
    if (gradients) c->wants_nodes = true;
    lmx_listen(c, &h->base);
    Py_RETURN_NONE;
}
