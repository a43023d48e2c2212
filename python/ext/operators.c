/* SPDX-License-Identifier: Apache-2.0
 * From what the lanes recorded to the model's operators. */
#include "observe.h"

#include <stdlib.h>

typedef struct pusher {
    const lmx_lane *lane;
    lam_builder *b;
    lam_error *e;
    lmx_vec args;   /* lam_op_arg */
    int32_t *index; /* of the lane's operators in the model */
    PyObject *open; /* set of names of compiled code that hides nothing; or NULL */
} pusher;

static lam_op_arg unpack_one(const int64_t **words) {
    lmx_packed head;
    memcpy(&head, *words, sizeof head);
    const int64_t *rest = ++*words;
    lam_op_arg a = {.position = head.position, .dtype = -1, .device = -1, .ndim = -1};
    size_t n = head.n;
    switch ((lmx_arg_kind)head.kind) {
    case LMX_ARG_TENSOR:
        a.is_tensor = true;
        a.dtype = head.dtype;
        a.device = head.device;
        a.ndim = head.n == LMX_NO_SHAPE ? -1 : head.n;
        a.storage = (uint64_t)rest[0];
        a.object = (uint64_t)rest[1];
        a.sizes = rest + 2;
        n = head.n == LMX_NO_SHAPE ? 2 : n + 2;
        break;
    case LMX_ARG_NONE: break;
    case LMX_ARG_BOOL: a.value = (lam_value){.type = LAM_BOOL, .i = *rest != 0}; break;
    case LMX_ARG_INT: a.value = (lam_value){.type = LAM_INT, .i = *rest}; break;
    case LMX_ARG_REAL:
        a.value.type = LAM_FLOAT;
        memcpy(&a.value.f, rest, sizeof a.value.f);
        break;
    case LMX_ARG_INTS: a.value = (lam_value){.type = LAM_INTS, .n = head.n, .ints = rest}; break;
    }
    *words = rest + n;
    return a;
}

static void unpack(const lmx_lane *lane, size_t at, int32_t n, lam_op_arg *out) {
    const int64_t *words = n ? (const int64_t *)lane->words.data + at : NULL;
    for (int32_t i = 0; i < n; i++) out[i] = unpack_one(&words);
}

/* What torch calls the running of compiled code, and the node of its backward. */
static bool is_compiled(const char *name) {
    static const char region[] = "Torch-Compiled Region", node[] = "CompiledFunctionBackward";
    return strncmp(name, region, sizeof region - 1) == 0 || strcmp(name, node) == 0;
}

/* Compiled code runs what was fused without an operator, unless it is known not to. */
static bool hides(const pusher *p, const lmx_op *op) {
    const char *name = lmx_op_name(p->lane, op);
    if (!(op->flags & LAM_OP_NODE) || !is_compiled(name)) return false;
    PyObject *text = p->open ? PyUnicode_FromString(name) : NULL;
    bool open = text && PySet_Contains(p->open, text) == 1;
    Py_XDECREF(text);
    PyErr_Clear();
    return !open;
}

static lam_status push_one(pusher *p, const lmx_op *op, int32_t *index) {
    size_t n = (size_t)op->n_in + (size_t)op->n_out;
    p->args.n = 0;
    lam_op_arg *in = n ? lmx_vec_push(&p->args, sizeof *in, n) : NULL;
    if (n && !in) return LAM_NOMEM;
    lam_op_arg *out = in ? in + op->n_in : NULL;
    unpack(p->lane, op->in_at, op->n_in, in);
    unpack(p->lane, op->out_at, op->n_out, out);
    lam_op_info info = {
        .name = lmx_op_name(p->lane, op),
        .call = op->call,
        .parent = op->parent < 0 ? -1 : p->index[op->parent],
        .phase = (lam_phase)op->phase,
        .flags = op->flags | (hides(p, op) ? LAM_OP_HIDES : 0),
        .t0_ns = op->t0_ns,
        .t1_ns = op->t1_ns,
        .n_in = op->n_in,
        .n_out = op->n_out,
        .in = in,
        .out = out,
    };
    return lam_build_op(p->b, &info, index, p->e);
}

static lam_status push_lane(const lmx_lane *lane, PyObject *open, lam_builder *b, lam_error *e) {
    pusher p = {
        .lane = lane, .b = b, .e = e, .open = open, .index = malloc((lane->ops.n + 1) * sizeof *p.index)};
    lam_status s = p.index ? LAM_OK : LAM_NOMEM;
    const lmx_op *ops = lane->ops.data;
    for (size_t i = 0; s == LAM_OK && i < lane->ops.n; i++) s = push_one(&p, &ops[i], &p.index[i]);
    lmx_vec_free(&p.args);
    free(p.index);
    if (s != LAM_OK && e->status == LAM_OK) e->status = s;
    return s;
}

lam_status lmx_push_operators(const lmx_observer *o, lam_builder *b, lam_error *e) {
    lam_status s = lam_build_ops_seen(b, e);
    for (const lmx_lane *lane = o->lanes; s == LAM_OK && lane; lane = lane->next)
        s = push_lane(lane, o->capture->open_regions, b, e);
    return s;
}
