/* SPDX-License-Identifier: Apache-2.0
 * Checks the arguments and results of operators and nodes of backward passes, on the threads that run
 * them, without Python. */
#include "measure/first_failure.h"
#include "measure/gradients.h"
#include "measure/health.h"
#include "native/storages.h"
#include "observe/listeners.h"
#include "observe/observe.h"
#include "torch/values.h"

#include <string.h>

enum { DEEP = 64, UNWRITTEN = 64, TAKEN = 8 };

/* An operator or node that a thread is in. */
typedef struct opened {
    const void *record;
    bool is_node, fed, gave, fine;
    bool wraps;     /* in a backward pass: only calls others, which are checked instead of it */
    bool blind;     /* torch shows no arguments; of a node: of its operators */
    bool masked;    /* an argument had -Inf as its only bad value */
    bool cancels;   /* several arguments had that */
    bool number;    /* a constant of the program was an argument, and it is bad */
    bool minus_inf; /* -Inf is among its arguments as a number */
    bool unread;    /* an argument could not be checked */
    bool handed;    /* the kernel of the operator around it made its bad argument, of fine ones */
    int32_t index;
    int32_t from, from_mask; /* the origins of its bad arguments, and of the masks among them; 0: unknown */
    int32_t pass;            /* of a node */
    uint32_t trails;         /* their number when it began */
    int32_t n_taken;
    uint64_t taken[TAKEN];      /* storages of its bad arguments */
    uint64_t first;             /* memory of its first argument */
    char name[LMX_HEALTH_NAME]; /* of a node */
    lmx_look look, mask;        /* its first bad argument, and the first mask */
} opened;
static _Thread_local struct {
    uint64_t generation;
    int32_t n, skipped; /* skipped: nested too deeply to be kept */
    opened open[DEEP];
    bool ran;          /* a node has run */
    opened last;       /* the last node, and */
    int32_t last_call; /* its call; -1: none */
    /* The last node that may have results that no operator made, and its call. */
    char before[LMX_HEALTH_NAME];
    int32_t before_call;
    uint64_t unwritten[UNWRITTEN]; /* memory that an operator allocated without writing to it */
    uint32_t next_unwritten;
} mine;

static void enter_thread(const lmx_checkup *h) {
    if (mine.generation == h->generation) return;
    memset(&mine, 0, sizeof mine);
    mine.generation = h->generation;
    mine.before_call = mine.last_call = -1;
}

void lmx_health_call_begins(const lmx_checkup *h) {
    enter_thread(h);
    if (mine.n) return;
    mine.ran = false;
    mine.before[0] = '\0';
    mine.before_call = mine.last_call = -1;
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

/* An undefined tensor has no type that could be read. */
static bool look_at_value(lmx_checkup *h, const char *value, lmx_look *look, lmx_seen *seen) {
    *seen = lmx_look_at(&h->looker, value, false, look);
    if (*seen == LMX_SEEN) lmx_health_count(h, look, *seen);
    return *seen == LMX_SEEN && lmx_look_bad(look);
}

/* What stands for the storage of a tensor whose values can't be read: its C++ object. */
static uint64_t unread_at(const char *value) { return lmx_word_at(value, 0) | 1; }

/* == origins of values ================================================================================= */

static bool trail_at(lmx_checkup *h, uint64_t storage, bool back, lmx_storage *out) {
    *out = (lmx_storage){0};
    if (!h->trails.n) return false;
    pthread_mutex_lock(&h->lock);
    bool found = lmx_storage_at(&h->trails, storage, out) && out->back == back;
    if (found && back && lmx_storage_gone(&h->trails, out->origin)) found = false;
    pthread_mutex_unlock(&h->lock);
    if (!found) *out = (lmx_storage){0};
    return found;
}

static void put_trail(lmx_checkup *h, uint64_t storage, lmx_storage trail) {
    pthread_mutex_lock(&h->lock);
    lmx_storage_put(&h->trails, storage, trail);
    pthread_mutex_unlock(&h->lock);
}

/* The earliest origin is taken as the cause. */
static void comes_from(int32_t *from, int32_t origin) {
    if (origin > 0 && (*from == 0 || origin < *from)) *from = origin;
}

static bool is_taken(const opened *o, uint64_t storage) {
    for (int32_t i = 0; i < o->n_taken; i++)
        if (o->taken[i] == storage) return true;
    return false;
}

static void take(opened *o, uint64_t storage) {
    if (storage && o->n_taken < TAKEN && !is_taken(o, storage)) o->taken[o->n_taken++] = storage;
}

/* True for a constant of the program: it arrives as a tensor without axes that no operator made. */
static bool is_written_number(lmx_checkup *h, const lmx_look *look) {
    lmx_storage trail;
    return look->ndim == 0 && !trail_at(h, look->storage, false, &trail);
}

/* An argument that can't be read is taken to be bad if an operator made it of bad values. */
static bool trace_unread(lmx_checkup *h, opened *o, const char *value) {
    lmx_storage trail;
    const bool found = trail_at(h, unread_at(value), false, &trail) && trail.origin;
    if (found) comes_from(&o->from, trail.origin);
    if (found) take(o, unread_at(value));
    o->fed = o->fed || found;
    o->unread = o->unread || !found;
    return found;
}

static bool look_at_fed(lmx_checkup *h, void *self, const char *value, int32_t index) {
    opened *o = self;
    lmx_look look;
    lmx_seen seen;
    lmx_storage trail;
    const bool bad = look_at_value(h, value, &look, &seen);
    if (seen == LMX_NOT_TO_READ) return trace_unread(h, o, value);
    if (!bad) return false;
    const bool mask = lmx_look_masks(&look);
    if (!mask && is_written_number(h, &look)) {
        o->number = true;
        return false;
    }
    if (is_unwritten(look.data)) return false;
    trail_at(h, look.storage, false, &trail);
    comes_from(mask ? &o->from_mask : &o->from, trail.origin);
    take(o, look.storage);
    if (mask && !o->masked) o->mask = look;
    o->cancels = o->cancels || (mask && o->masked);
    if (mask) o->masked = true;
    if (mask || o->fed) return false;
    o->fed = true;
    o->index = index;
    o->look = look;
    return true;
}

/* In a backward pass, only values that earlier operators of the pass made count: gradients are no masks. */
static bool trace_fed(lmx_checkup *h, void *self, const char *value, int32_t index) {
    opened *o = self;
    lmx_storage trail;
    const uint64_t storage = lmx_look_storage(&h->looker, value);
    (void)index;
    if (!trail_at(h, storage, true, &trail)) return false;
    comes_from(&o->from, trail.origin);
    take(o, storage);
    o->fed = true;
    return true;
}

/* == nodes =============================================================================================== */

typedef struct giving {
    opened *o;
    int64_t sequence;
} giving;

/* Checks one gradient that a node received. An undefined one has no type, and is skipped. */
static bool look_at_gradient(lmx_checkup *h, void *self, const char *value, int32_t index) {
    giving *g = self;
    lmx_look look;
    lmx_seen seen = lmx_look_at(&h->looker, value, false, &look);
    bool bad = seen == LMX_SEEN && lmx_look_bad(&look);
    if (seen == LMX_NEVER_BAD && look.dtype < 0) return false;
    if (seen == LMX_SEEN) lmx_health_count(h, &look, seen);
    lmx_gradients_given(&h->came, g->sequence, index, seen != LMX_NOT_TO_READ, bad);
    if (!bad) return false;
    lmx_storage trail;
    const bool found = trail_at(h, look.storage, true, &trail) && !trail.taken;
    /* Sums of gradients can't be observed, so memory without an origin may be reused. */
    if (found) comes_from(&g->o->from, trail.origin);
    take(g->o, look.storage);
    if (g->o->fed) return false;
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

/* Removes the one that ends and those above it, whose ends were not seen. */
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

/* torch's own nodes return results of their operators. The names of those generated from formulas end in
 * a digit. */
static bool gives_what_operators_gave(const char *name) {
    static const char own[] = "torch::autograd::", others[] = "torch::autograd::CppNode";
    size_t n = strlen(name);
    if (strncmp(name, own, sizeof own - 1) == 0) return strncmp(name, others, sizeof others - 1) != 0;
    return n && name[n - 1] >= '0' && name[n - 1] <= '9';
}

/* Names the source of a bad gradient that no operator in a node made: the previous node, if it is not
 * one of torch's, or a hook or a sum of gradients on the way. */
static void name_giver(lmx_bad_record *r, int32_t call) {
    bool on_the_way = mine.ran && !*mine.before;
    r->bad.from = on_the_way ? call : mine.before_call;
    lmx_health_name(r->inside, on_the_way ? "a hook or a sum of gradients" : mine.before);
}

static int32_t keep_node(lmx_checkup *h, const opened *o, lmx_bad_record *r, int32_t index,
                         const lmx_look *look) {
    r->bad.index = index;
    r->bad.pass = o->pass;
    lmx_health_name(r->name, o->name);
    const int32_t id = lmx_health_keep(h, r, look, NULL);
    lmx_first_failure_call(&h->broke);
    return id;
}

/* Bad values of unknown origin have this node as their origin from now on. */
static void keep_fed(lmx_checkup *h, opened *o, const lmx_node_run *node) {
    lmx_bad_record r = lmx_health_record(LAM_BAD_NODE, LAM_BACKWARD, node->where.call, o->index);
    r.bad.fed = true;
    r.bad.origin = o->from ? o->from : LMX_ITSELF;
    r.sequence = (int64_t)lmx_word_at(node->record, (size_t)node->layout->sequence);
    name_giver(&r, node->where.call);
    const int32_t id = keep_node(h, o, &r, o->index, &o->look);
    for (int32_t i = 0; !o->from && i < o->n_taken; i++)
        put_trail(h, o->taken[i], (lmx_storage){.origin = id, .back = true});
}

void lmx_health_node_began(lmx_listener *l, const lmx_node_run *node) {
    lmx_checkup *h = of(l);
    opened *o = push_open(h, node->record, true);
    if (!o) return;
    atomic_store_explicit(&h->gradients, true, memory_order_relaxed);
    lmx_health_name(o->name, node->name);
    o->pass = node->pass;
    if (strcmp(node->name, "torch::autograd::CopySlices") == 0) atomic_store(&h->came.rewritten, true);
    lmx_values in = lmx_inputs_of(node->layout, node->record);
    giving g = {o, (int64_t)lmx_word_at(node->record, (size_t)node->layout->sequence)};
    each_value(h, node->layout, in, look_at_gradient, &g, 0, false);
    if (o->fed) keep_fed(h, o, node);
}

/* Ends a trail: a node's results are taken for those of its last operator, as their readers aren't seen. */
static void end_trail(lmx_checkup *h, int32_t origin) {
    pthread_mutex_lock(&h->lock);
    lmx_storage_end(&h->trails, origin);
    pthread_mutex_unlock(&h->lock);
}

void lmx_health_node_ended(lmx_listener *l, const lmx_node_run *node) {
    lmx_checkup *h = of(l);
    opened o;
    if (!pop_open(h, node->record, &o)) return;
    if (o.blind && o.fine && !o.fed && o.from) end_trail(h, o.from);
    if (strstr(node->name, "AccumulateGrad")) return; /* it only stores the gradient */
    mine.ran = true;
    mine.last = o;
    mine.last_call = node->where.call;
    if (gives_what_operators_gave(node->name)) return;
    lmx_health_name(mine.before, node->name);
    mine.before_call = node->where.call;
}

/* == operators =========================================================================================== */

/* The memory of an operator's first argument; arguments are there only when an operator begins. */
static uint64_t first_memory(const lmx_checkup *h, const lmx_op_run *op) {
    const lmx_values in = {op->values, op->n_values};
    uint64_t data = 0;
    bool tensor = in.n && lmx_tag_of(in.at) == op->layout->tensor && lmx_has_memory(op->layout, in.at);
    return tensor && lmx_data_of(h->looker.shim, in.at, &data) ? data : 0;
}

static bool ends_in_place(const char *name) {
    const size_t n = strlen(name);
    return n && name[n - 1] == '_';
}

/* -Inf that was given as a number is intended. */
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
    const bool back = op->where.phase == LAM_BACKWARD;
    enter_thread(h);
    const opened *around = mine.n ? &mine.open[mine.n - 1] : NULL;
    if (back && !(around && around->wraps) && (!op->direct || (around && !around->is_node))) return;
    opened *o = push_open(h, op->record, false);
    if (!o) return;
    o->wraps = back && lmx_moves_nothing(op->name);
    o->first = first_memory(h, op);
    o->trails = h->trails.n;
    const lmx_values in = {op->values, op->n_values};
    o->blind = in.n == 0;
    if (back) {
        if (o->trails) each_value(h, op->layout, in, trace_fed, o, 0, true);
        return;
    }
    o->minus_inf = given_as_number(op);
    each_value(h, op->layout, in, look_at_fed, o, 0, true);
    if (!o->fed || o->from || !around || around->is_node) return;
    o->from = around->from;
    o->handed = !around->fed && !around->masked;
}

typedef struct results {
    const lmx_op_run *op;
    opened *o;
    bool unwritten;
    int32_t origin; /* of its first bad result; 0: unknown */
} results;

/* Operators that use -Inf as a mask: a position that counts for nothing. */
static bool takes_masks(const char *name) {
    static const char *const all[] = {"softmax", "log_softmax", "softmin", "attend", "fused_mha"};
    const int32_t word = lam_word_op(name);
    const char *kind = word < 0 ? "" : lam_word_op_kind(word);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strncmp(kind, all[i], strlen(all[i])) == 0) return true;
    return false;
}

/* True if an elementwise operator made bad values where its argument had no -Inf: before the first -Inf,
 * or more of them than there are. Also if it combined -Inf with -Inf, as a softmax written by hand does. */
static bool is_its_own(const opened *o, const lmx_op_run *op, const lmx_look *look) {
    const lmx_look *mask = &o->mask;
    const int32_t word = lam_word_op(op->name);
    if (word < 0 || strcmp(lam_word_op_kind(word), "map") != 0) return false;
    if (o->cancels) return true;
    if (mask->ndim != look->ndim || look->ndim < 0) return false;
    for (int32_t i = 0; i < look->ndim; i++)
        if (mask->sizes[i] != look->sizes[i]) return false;
    const lam_nonfinite *f = &look->found;
    if (f->first >= 0 && f->first < mask->found.first) return true;
    return f->nan + f->inf - f->negative > mask->found.negative;
}

/* Makes a record of the operator if it made the bad values: no argument was bad, or only an intended
 * mask. */
static void came_of(lmx_checkup *h, results *r, const lmx_look *look, int32_t index) {
    opened *o = r->o;
    const bool mask = lmx_look_masks(look);
    bool fed = o->fed;
    r->origin = o->from;
    if (!fed && o->masked &&
        (mask || (o->from_mask && !takes_masks(r->op->name) && !is_its_own(o, r->op, look)))) {
        fed = true;
        r->origin = o->from_mask;
    }
    if (mask && !o->fed && o->minus_inf) {
        r->origin = 0;
        return;
    }
    if (mask && fed && !r->origin) return;
    lmx_bad_record bad = lmx_health_record(LAM_BAD_OP, r->op->where.phase, r->op->where.call, index);
    bad.bad.fed = fed;
    bad.bad.doubt = !fed && o->unread;
    bad.bad.origin = fed ? r->origin : LMX_ITSELF;
    lmx_health_name(bad.name, r->op->name);
    const int32_t id = lmx_health_keep(h, &bad, look, NULL);
    if (!fed) r->origin = id;
    if (!fed) h->broke.seen = true; /* reported when the layer's call ends */
}

static bool is_gone(lmx_checkup *h, int32_t origin) {
    pthread_mutex_lock(&h->lock);
    const bool gone = lmx_storage_gone(&h->trails, origin);
    pthread_mutex_unlock(&h->lock);
    return gone;
}

/* The node that runs. After a node torch converts its results to the types of what they are gradients of: an
 * operator inside a conversion, while no node runs, is the work of the last node. */
static opened *node_around(const lmx_op_run *op) {
    int32_t n = mine.n;
    while (n && !mine.open[n - 1].is_node) n--;
    if (n) return &mine.open[n - 1];
    return mine.n && mine.last_call >= 0 && mine.last_call == op->where.call ? &mine.last : NULL;
}

/* As came_of, for an operator in a node. A node that received bad values is no finding. */
static void came_of_node(lmx_checkup *h, results *r, const lmx_look *look, int32_t index) {
    opened *node = node_around(r->op);
    r->origin = r->o->from;
    if (r->o->fed || !node || node->fed) return;
    r->origin = node->from;
    if (r->origin && !is_gone(h, r->origin)) return;
    lmx_bad_record bad = lmx_health_record(LAM_BAD_NODE, LAM_BACKWARD, r->op->where.call, index);
    bad.bad.gave = true;
    bad.bad.origin = LMX_ITSELF;
    lmx_health_name(bad.inside, r->op->name);
    r->origin = keep_node(h, node, &bad, index, look);
    node->from = r->origin;
}

/* True if an operator inside it has already made a record of this result. */
static bool is_recorded(lmx_checkup *h, const opened *o, uint64_t storage) {
    if (h->trails.n == o->trails) return false;
    pthread_mutex_lock(&h->lock);
    bool found = lmx_storage_since(&h->trails, storage, o->trails);
    pthread_mutex_unlock(&h->lock);
    return found;
}

static void gave_bad(lmx_checkup *h, results *r, const lmx_look *look, int32_t index) {
    const bool back = r->op->where.phase == LAM_BACKWARD, first = !r->o->gave;
    r->o->gave = true;
    if (r->o->handed || is_recorded(h, r->o, look->storage)) return;
    if (first && back) came_of_node(h, r, look, index);
    if (first && !back) came_of(h, r, look, index);
    if (back && !r->origin) return;
    put_trail(h, look->storage,
              (lmx_storage){.origin = r->origin, .mask = !back && lmx_look_masks(look), .back = back});
}

/* New memory, and memory that is overwritten as a whole, keeps no earlier bad values. */
static void gave_fine(lmx_checkup *h, results *r, const lmx_look *look) {
    if (look->dtype < 0 || !look->storage) return;
    r->o->fine = r->o->fine || look->bytes > 0;
    if (!h->trails.n) return;
    const bool given = is_taken(r->o, look->storage);
    if (given && !(look->whole && ends_in_place(r->op->name))) return;
    pthread_mutex_lock(&h->lock);
    if (given) lmx_storage_taken(&h->trails, look->storage);
    lmx_storage_drop(&h->trails, look->storage);
    pthread_mutex_unlock(&h->lock);
}

/* A result that can't be read: of bad values it is taken to be bad. */
static void gave_unread(lmx_checkup *h, results *r, const char *value) {
    if (r->op->where.phase == LAM_BACKWARD) return;
    if (r->o->fed && r->o->from) {
        put_trail(h, unread_at(value), (lmx_storage){.origin = r->o->from});
    } else if (h->trails.n) {
        pthread_mutex_lock(&h->lock);
        lmx_storage_drop(&h->trails, unread_at(value));
        pthread_mutex_unlock(&h->lock);
    }
}

static bool look_at_given(lmx_checkup *h, void *self, const char *value, int32_t index) {
    results *r = self;
    lmx_look look;
    lmx_seen seen;
    bool bad = look_at_value(h, value, &look, &seen);
    if (seen == LMX_NOT_TO_READ) gave_unread(h, r, value);
    if (r->unwritten) {
        if (look.data) mine.unwritten[mine.next_unwritten++ % UNWRITTEN] = look.data;
        gave_fine(h, r, &look);
        r->o->fine = false;
        return false;
    }
    if (is_unwritten(look.data)) {
        if (!ends_in_place(r->op->name) && look.data == r->o->first) return false;
        written(look.data);
    }
    if (lmx_moves_nothing(r->op->name)) return false;
    if (bad && look.ndim == 0 && r->o->number && lmx_only_copies(r->op->name)) return false;
    if (bad)
        gave_bad(h, r, &look, index);
    else
        gave_fine(h, r, &look);
    return bad;
}

static bool reads_nothing(const char *name) {
    const int32_t word = lam_word_op(name);
    return lmx_moves_nothing(name) || (word >= 0 && strcmp(lam_word_op_kind(word), "fill") == 0);
}

/* Ends the trails of its arguments, except those that an operator inside it has written to. */
static void take_all(lmx_checkup *h, const opened *o) {
    if (!o->n_taken) return;
    pthread_mutex_lock(&h->lock);
    for (int32_t i = 0; i < o->n_taken; i++)
        if (!lmx_storage_since(&h->trails, o->taken[i], o->trails))
            lmx_storage_taken(&h->trails, o->taken[i]);
    pthread_mutex_unlock(&h->lock);
}

void lmx_health_op_ended(lmx_listener *l, const lmx_op_run *op) {
    lmx_checkup *h = of(l);
    opened o;
    if (!pop_open(h, op->record, &o) || op->failed) return;
    results r = {op, &o, lmx_gives_unwritten(op->name), 0};
    const lmx_values out = {op->values, op->n_values};
    each_value(h, op->layout, out, look_at_given, &r, 0, true);
    const bool within = mine.n && (mine.open[mine.n - 1].is_node || mine.open[mine.n - 1].wraps);
    opened *node = within ? node_around(op) : NULL;
    if (node && (o.gave || o.fine)) node->fine = !o.gave;
    if (node) node->blind = o.blind;
    if (!reads_nothing(op->name) && (o.gave || o.fine)) take_all(h, &o);
}
