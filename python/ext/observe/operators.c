/* SPDX-License-Identifier: Apache-2.0
 * Makes the model's operators from the lanes' records. */
#include "base/ext.h"
#include "native/ledger.h"
#include "observe/observe.h"
#include "observe/open_capture.h"
#include "observe/regions.h"
#include "process/clock.h"
#include "torch/tensor.h"
#include "torch/values.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

/* The last operator that was pushed with this name and these parts. */
typedef struct known {
    int32_t name, in, out, op; /* op: 1 + index in the model, 0 none */
    int32_t ids[2];            /* the numbers of arguments and results that are tensors */
    bool writes;               /* to its first argument */
} known;
enum { FEW_BITS = 10, MOST_BITS = 11 }; /* bits of an index into them: of a short lane, of others */

typedef struct pusher {
    lmx_lane *lane;
    lam_builder *b;
    lam_error *e;
    lmi_vec args; /* lam_op_arg */
    lmi_vec ids;  /* lam_identity */
    int32_t base; /* index of the lane's first operator in the model */
    known *known;
    int shift;        /* of a hash of 32 bits to a place in it */
    PyObject *open;   /* set of names of compiled code that hides nothing; or NULL */
    bool dry;         /* nothing was computed */
    lmi_vec *written; /* lmx_capture.written */
} pusher;

static bool writes_in_place(const char *name) {
    const size_t n = strlen(name);
    return n > 1 && name[n - 1] == '_' && name[n - 2] != '_' && !lmx_moves_nothing(name);
}

/* If memory runs out, only the search for written tensors misses this one. */
static void note_written(pusher *p, const lmx_op *op) {
    const uint64_t memory = lmx_id_memory((const lmx_id *)p->lane->ids.data + op->in.ids_at);
    const uint64_t *last = p->written->n ? (uint64_t *)p->written->data + p->written->n - 1 : NULL;
    if (last && *last == memory) return;
    uint64_t *to = lmx_vec_push(p->written, sizeof *to, 1);
    if (to) *to = memory;
}

static void take_sparse(lam_op_arg *a, const int64_t **words) {
    lmx_sparse kept;
    memcpy(&kept, *words, sizeof kept);
    a->sparse = true;
    a->values = kept.values;
    a->stored = kept.stored;
    a->stored_bytes = kept.bytes;
    *words += sizeof kept / sizeof **words;
}

static void take_mask(lam_op_arg *a, const int64_t **words) {
    lam_mask left;
    memcpy(&left, *words, sizeof left);
    a->masks = true;
    a->open = left.open;
    a->open_rows = left.rows;
    *words += sizeof left / sizeof **words;
}

/* Writes one argument in place, because a copy takes as long as all the rest. Returns the words after
 * it. */
static const int64_t *unpack_one(const int64_t *words, lam_op_arg *a) {
    lmx_packed head;
    memcpy(&head, words, sizeof head);
    const int64_t *rest = words + 1;
    size_t n = head.n;
    *a = (lam_op_arg){.position = head.position, .dtype = -1, .device = -1, .ndim = -1};
    switch ((lmx_arg_kind)head.kind) {
    case LMX_ARG_MASK:
    case LMX_ARG_SPARSE:
    case LMX_ARG_TENSOR:
        if (head.kind == LMX_ARG_MASK) take_mask(a, &rest);
        if (head.kind == LMX_ARG_SPARSE) take_sparse(a, &rest);
        a->is_tensor = true;
        a->dtype = head.dtype;
        a->device = head.device;
        a->ndim = head.n == LMX_NO_SHAPE ? -1 : head.n;
        a->sizes = rest;
        n = head.n == LMX_NO_SHAPE ? 0 : n;
        break;
    case LMX_ARG_NONE: break;
    case LMX_ARG_BOOL: a->value = (lam_value){.type = LAM_BOOL, .i = *rest != 0}; break;
    case LMX_ARG_INT: a->value = (lam_value){.type = LAM_INT, .i = *rest}; break;
    case LMX_ARG_REAL:
        a->value.type = LAM_FLOAT;
        memcpy(&a->value.f, rest, sizeof a->value.f);
        break;
    case LMX_ARG_INTS: a->value = (lam_value){.type = LAM_INTS, .n = head.n, .ints = rest}; break;
    case LMX_ARG_TEXT: a->value = (lam_value){.type = LAM_TEXT, .text = (const char *)rest}; break;
    }
    return rest + n;
}

static const lmx_part *part_at(const lmx_lane *lane, int32_t i) {
    return i < 0 ? NULL : (const lmx_part *)lane->parts.data + i;
}

static int32_t args_of(const lmx_lane *lane, lmx_args a) { return a.part < 0 ? 0 : part_at(lane, a.part)->n; }

static void unpack(const lmx_lane *lane, lmx_args a, int32_t n, lam_op_arg *out) {
    const lmx_id *id = (const lmx_id *)lane->ids.data + a.ids_at;
    const int64_t *words = n ? (const int64_t *)lane->words.data + part_at(lane, a.part)->at : NULL;
    for (int32_t i = 0; i < n; i++) {
        words = unpack_one(words, &out[i]);
        if (!out[i].is_tensor) continue;
        out[i].storage = lmx_id_memory(id);
        out[i].object = lmx_id_object(id++);
    }
}

static void unpack_ids(const lmx_lane *lane, lmx_args a, int32_t n, lam_identity *out) {
    const lmx_id *id = (const lmx_id *)lane->ids.data + a.ids_at;
    for (int32_t i = 0; i < n; i++) out[i] = (lam_identity){lmx_id_memory(&id[i]), lmx_id_object(&id[i])};
}

/* torch's name for running compiled code, and of the node of its backward. */
static bool is_compiled(const char *name) {
    static const char node[] = "CompiledFunctionBackward";
    return lmx_is_region(name) || (name[0] == node[0] && strcmp(name, node) == 0);
}

/* Compiled code runs fused work without an operator, unless it is known not to. */
static bool hides(const pusher *p, const lmx_op *op) {
    if (!(op->flags & LAM_OP_NODE)) return false;
    const char *name = lmx_op_name(p->lane, op);
    if (!is_compiled(name)) return false;
    PyObject *text = p->open ? PyUnicode_FromString(name) : NULL;
    bool open = text && PySet_Contains(p->open, text) == 1;
    Py_XDECREF(text);
    PyErr_Clear();
    return !open;
}

/* True if the operator was running when records could no longer be kept: its results are unknown. */
static bool never_ended(const pusher *p, const lmx_op *op) { return p->lane->lost && op->ended == 0; }

/* Nodes whose gradients torch computes in one of two ways, by values (the number of factors that are 0),
 * and in a third way for tensor subclasses. None of the three has a matrix product. */
static const char *const by_values[] = {"ProdBackward", "CumprodBackward"};

static bool values_decide(const char *node) {
    for (size_t i = 0; i < sizeof by_values / sizeof *by_values; i++) {
        size_t n = strlen(by_values[i]);
        if (strncmp(node, by_values[i], n) == 0 && node[n] >= '0' && node[n] <= '9') return true;
    }
    return false;
}

/* A node of a dry run whose work depends on values. */
static bool decided(const pusher *p, const lmx_op *op) {
    return p->dry && op->flags & LAM_OP_NODE && values_decide(lmx_op_name(p->lane, op));
}

static known *known_of(pusher *p, const lmx_op *op) {
    uint32_t h = (uint32_t)op->name * 0x9E3779B1u ^ (uint32_t)op->in.part * 0x85EBCA77u ^
                 (uint32_t)op->out.part * 0xC2B2AE3Du;
    known *k = &p->known[h >> p->shift];
    if (k->op && (k->name != op->name || k->in != op->in.part || k->out != op->out.part)) k->op = 0;
    return k;
}

/* The number of tensors among some arguments. */
static int32_t tensors_of(const lam_op_arg *a, int32_t n) {
    int32_t tensors = 0;
    for (int32_t i = 0; i < n; i++) tensors += a[i].is_tensor;
    return tensors;
}

/* For an operator that is like an earlier one only the identities are pushed: reading the rest again
 * would take as long as everything else. */
static lam_status tell_like(pusher *p, const lmx_op *op, const known *k, lam_op_info *info) {
    size_t n = (size_t)k->ids[0] + (size_t)k->ids[1];
    p->ids.n = 0;
    lam_identity *ids = lmx_vec_push(&p->ids, sizeof *ids, n + 1); /* one more, so that it is never NULL */
    if (!ids) return LAM_NOMEM;
    unpack_ids(p->lane, op->in, k->ids[0], ids);
    unpack_ids(p->lane, op->out, k->ids[1], ids + k->ids[0]);
    info->like = k->op;
    info->n_tensors = (int32_t)n;
    info->tensors = ids;
    return LAM_OK;
}

static lam_status tell_all(pusher *p, const lmx_op *op, known *k, lam_op_info *info) {
    int32_t n_in = args_of(p->lane, op->in), n_out = args_of(p->lane, op->out);
    size_t n = (size_t)n_in + (size_t)n_out;
    p->args.n = 0;
    lam_op_arg *in = n ? lmx_vec_push(&p->args, sizeof *in, n) : NULL;
    if (n && !in) return LAM_NOMEM;
    lam_op_arg *out = in ? in + n_in : NULL;
    unpack(p->lane, op->in, n_in, in);
    unpack(p->lane, op->out, n_out, out);
    info->n_in = n_in;
    info->n_out = n_out;
    info->in = in;
    info->out = out;
    k->ids[0] = tensors_of(in, n_in);
    k->writes = n_in && in->is_tensor && writes_in_place(info->name);
    k->ids[1] = tensors_of(out, n_out);
    return LAM_OK;
}

static lam_status push_one(pusher *p, const lmx_op *op) {
    int32_t index;
    known *k = known_of(p, op);
    lam_op_info info = {
        .name = lmx_op_name(p->lane, op),
        .call = op->call,
        .parent = op->parent < 0 ? -1 : p->base + op->parent,
        .thread = p->lane->number,
        .pass = op->pass,
        .phase = (lam_phase)op->phase,
        .flags = op->flags | (hides(p, op) ? LAM_OP_HIDES : 0) | (never_ended(p, op) ? LAM_OP_NODE : 0) |
                 (decided(p, op) ? LAM_OP_VALUES : 0),
        .t0_ns = lmx_clock_ns(p->lane->clock, op->began),
        .t1_ns = lmx_clock_ns(p->lane->clock, op->ended),
    };
    lam_status s = k->op ? tell_like(p, op, k, &info) : tell_all(p, op, k, &info);
    if (s == LAM_OK) s = lam_build_op(p->b, &info, &index, p->e);
    if (s != LAM_OK) return s;
    if (k->writes) note_written(p, op);
    k->name = op->name;
    k->in = op->in.part;
    k->out = op->out.part;
    k->op = index + 1;
    return LAM_OK;
}

/* Returns the pages of pushed records to the system, since the model grows. */
static void give_back(const lmi_vec *v, size_t size, size_t from, size_t to) {
    const uintptr_t page = 4096, data = (uintptr_t)v->data;
    uintptr_t at = (data + from * size + page - 1) / page * page, end = (data + to * size) / page * page;
    if (end > at) madvise((void *)at, end - at, MADV_DONTNEED);
}

static void forget(lmx_lane *lane, size_t from, size_t to) {
    const lmx_op *ops = lane->ops.data;
    give_back(&lane->ids, sizeof(lmx_id), ops[from].in.ids_at, ops[to].in.ids_at);
    give_back(&lane->ops, sizeof(lmx_op), from, to);
    lane->pushed = true;
}

static lam_status push_lane(lmx_lane *lane, int32_t base, size_t *done, lmx_capture *c, lam_builder *b,
                            lam_error *e) {
    enum { AT_ONCE = 1 << 16, FEW = 512 };
    int bits = lane->ops.n < FEW ? FEW_BITS : MOST_BITS;
    pusher p = {.lane = lane,
                .b = b,
                .e = e,
                .open = c->compiled.opened,
                .dry = c->dry.modes,
                .written = &c->noted.written,
                .base = base,
                .known = calloc((size_t)1 << bits, sizeof *p.known),
                .shift = 32 - bits};
    lam_status s = p.known ? LAM_OK : LAM_NOMEM;
    const lmx_op *ops = lane->ops.data;
    for (*done = 0; s == LAM_OK && *done < lane->ops.n; *done += s == LAM_OK) {
        if (*done && *done % AT_ONCE == 0) forget(lane, *done - AT_ONCE, *done);
        s = push_one(&p, &ops[*done]);
    }
    lmi_vec_free(&p.args);
    lmi_vec_free(&p.ids);
    free(p.known);
    if (s != LAM_OK && e->status == LAM_OK) e->status = s;
    return s;
}

/* Reports that the operators from `at` on are missing. With other threads they may be of any time. */
static lam_status cut_short(const lmx_lane *lane, size_t at, size_t n, bool alone, lam_builder *b,
                            lam_error *e) {
    const lmx_op *ops = lane->ops.data;
    char why[160];
    snprintf(why, sizeof why,
             "there was no memory for more than %zu operators, and what ran then is not told; capture fewer "
             "iterations",
             n);
    *e = (lam_error){.at = -1};
    return lam_build_cut(b, why, false,
                         alone && at < lane->ops.n ? lmx_clock_ns(lane->clock, ops[at].began) - 1 : 0, e);
}

/* Reports that the observations of backward passes are incomplete. */
static lam_status push_strange(const lmx_observer *o, lam_builder *b, lam_error *e) {
    static const char why[] = "a backward pass of this model ran on another thread, and what it did is not "
                              "known: a capture sees the thread that opened it";
    lam_status s = lam_build_note(b, why, e);
    return s == LAM_OK && !o->nodes_only ? lam_build_cut(b, why, false, INT64_MAX, e) : s;
}

lam_status lmx_push_operators(const lmx_observer *o, lam_builder *b, lam_error *e) {
    const bool strange = lmx_observer_strange(o);
    lam_status s = o->nodes_only ? LAM_OK : lam_build_ops_seen(b, e);
    const int32_t others = atomic_load(&o->others);
    size_t n = 0, done;
    if (s == LAM_OK && strange) s = push_strange(o, b, e);
    if (s == LAM_OK && !o->capture->watched.mode && !strange) s = lam_build_nodes_seen(b, e);
    for (int32_t i = 0; s == LAM_OK && i <= others; i++) { /* the capture's own thread first */
        lmx_lane *lane = lmx_observer_lane(o, i);
        if (!lane) continue;
        s = push_lane(lane, (int32_t)n, &done, o->capture, b, e);
        n += done;
        if (s == LAM_NOMEM || s == LAM_LIMIT) return cut_short(lane, done, n, !others, b, e);
    }
    if (s == LAM_OK && o->capture->dry.ledger)
        s = lmx_ledger_push(o->capture->dry.ledger, o->capture->heard.tensors, b, e);
    return s;
}
