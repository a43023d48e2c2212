/* SPDX-License-Identifier: Apache-2.0
 *
 * Made-up networks and one training step of each: containers in containers, layers that stand at two places,
 * are called again or never, tied and frozen weights; operators with nodes, and by chance times, memory and
 * values. `seed` (draw.h) decides. */
#ifndef LAMINA_TEST_MADE_NET_H
#define LAMINA_TEST_MADE_NET_H

#include "kit/draw.h"
#include "kit/ops_net.h"

enum { MADE_MOST = 40, MADE_CHILDREN = 4, MADE_DEEPEST = 3, MADE_BLOCKS = 120 };

typedef enum made_kind {
    MADE_SEQUENTIAL,
    MADE_NET,
    MADE_LIST,
    MADE_CONV,
    MADE_LINEAR,
    MADE_NORM,
    MADE_RELU,
    MADE_POOL,
    MADE_DROPOUT,
    MADE_MINE,
    MADE_SOFTMAX,
    MADE_KINDS
} made_kind;

typedef struct made_part {
    made_kind kind;
    int32_t module, n_children, children[MADE_CHILDREN];
    bool idle, trains; /* it is never called; it is in train mode */
} made_part;

/* A call whose operators have a backward. */
typedef struct made_done {
    int32_t call, part;
    uint64_t in, out;
} made_done;

typedef struct made_net {
    net n;
    made_part part[MADE_MOST];
    int32_t n_parts;
    made_done done[4 * MADE_MOST];
    int32_t n_done, n_calls;
    lam_block block[MADE_BLOCKS];
    lam_span span[MADE_BLOCKS];
    int32_t n_blocks, n_spans;
    int64_t clock, order;
    uint64_t data; /* the number of the last tensor */
} made_net;

/* The part that is another kind of layer than was drawn, and the one that has another name; -1: none. */
static int32_t made_other = -1, made_renamed = -1;

static const int64_t made_sizes[] = {2, 4, 6, 6};

static lam_op_arg made_tensor(int32_t position, uint64_t number) {
    return data_of(position, number, number, made_sizes, 4);
}

static lam_op_arg made_flag(int32_t position, bool on) {
    return (lam_op_arg){
        .position = position, .dtype = -1, .device = -1, .ndim = -1, .value = {.type = LAM_BOOL, .i = on}};
}

static uint64_t made_weight(const made_part *p, int32_t k) {
    return 1000 + 10 * (uint64_t)p->module + (uint64_t)k;
}

/* -- modules --------------------------------------------------------------------------------------------- */

static bool made_holds(made_kind kind) { return kind <= MADE_LIST; }

static int32_t made_module(made_net *d, made_kind kind, bool trains) {
    static const char *const types[] = {"Sequential", "Block",       "ModuleList", "Conv2d",
                                        "Linear",     "BatchNorm2d", "ReLU",       "MaxPool2d",
                                        "Dropout",    "Mine",        "Softmax"};
    net *n = &d->n;
    const bool frozen = draw(0, 4) == 0;
    const int32_t module =
        net_module(n, types[kind],
                   (made_holds(kind) ? 0 : LAM_MODULE_LEAF) | (trains ? LAM_MODULE_TRAINING : 0));
    const uint64_t weight = made_weight(&(made_part){.module = module}, 0);
    if (kind == MADE_CONV) {
        net_ints(n, module, "kernel_size", SH(3, 3));
        net_ints(n, module, "stride", SH(1, 1));
        net_ints(n, module, "padding", SH(1, 1));
        net_ints(n, module, "dilation", SH(1, 1));
        net_int(n, module, "groups", 1);
        net_int(n, module, "in_channels", 4);
        net_int(n, module, "out_channels", 4);
        net_numbered(n, module, "weight", weight, !frozen, SH(4, 4, 3, 3));
        if (draw(0, 1)) net_numbered(n, module, "bias", weight + 1, !frozen, SH(4));
    } else if (kind == MADE_LINEAR) {
        net_int(n, module, "in_features", 6);
        net_int(n, module, "out_features", 6);
        net_numbered(n, module, "weight", weight, !frozen, SH(6, 6));
        net_numbered(n, module, "bias", weight + 1, true, SH(6));
    } else if (kind == MADE_NORM) {
        net_int(n, module, "num_features", 4);
        net_numbered(n, module, "weight", weight, !frozen, SH(4));
        net_numbered(n, module, "bias", weight + 1, !frozen, SH(4));
        net_buffer(n, module, "running_mean", SH(4));
        net_buffer(n, module, "running_var", SH(4));
    } else if (kind == MADE_POOL) {
        net_int(n, module, "kernel_size", 3);
        net_int(n, module, "stride", 1);
        net_int(n, module, "padding", 1);
        net_int(n, module, "dilation", 1);
    } else if (kind == MADE_MINE) {
        net_numbered(n, module, "scale", weight, !frozen, SH(6));
    } else if (kind == MADE_RELU) {
        net_bool(n, module, "inplace", draw(0, 1));
    } else if (kind == MADE_SOFTMAX) {
        net_int(n, module, "dim", 1);
    }
    return module;
}

static int32_t made_grow(made_net *d, int32_t place, int32_t depth) {
    const int32_t me = d->n_parts++;
    made_part *p = &d->part[me];
    const bool holds = depth == 0 || (depth < MADE_DEEPEST && draw(0, 2) == 0);
    made_kind kind = (made_kind)(holds ? draw(MADE_SEQUENTIAL, depth ? MADE_LIST : MADE_NET)
                                       : draw(MADE_CONV, MADE_SOFTMAX));
    char name[16] = "";
    if (me == made_other && !holds) kind = kind == MADE_SOFTMAX ? MADE_CONV : (made_kind)(kind + 1);
    *p = (made_part){.kind = kind, .trains = draw(0, 2) == 0};
    p->idle = depth > 0 && draw(0, 9) == 0;
    p->module = made_module(d, kind, p->trains);
    if (depth) snprintf(name, sizeof name, draw(0, 1) ? "%d" : "l%d", (int)me);
    if (me == made_renamed) snprintf(name, sizeof name, "renamed");
    const int32_t at = net_place(&d->n, place, name, p->module);
    for (int64_t k = holds ? draw(2, MADE_CHILDREN) : 0; k > 0 && d->n_parts < MADE_MOST; k--) {
        const int32_t twin = (int32_t)draw(1, 12 * d->n_parts);
        int32_t child = twin;
        if (twin < d->n_parts && !made_holds(d->part[twin].kind)) { /* the same layer once more */
            snprintf(name, sizeof name, "again%d", (int)k);
            net_place(&d->n, at, name, d->part[twin].module);
        } else {
            child = made_grow(d, at, depth + 1);
            if (d->part[child].kind == MADE_LINEAR && draw(0, 4) == 0)
                net_numbered(&d->n, d->part[child].module, "tied", made_weight(&d->part[child], 0), true,
                             SH(6, 6));
        }
        p->children[p->n_children++] = child;
    }
    return me;
}

/* -- the forward ----------------------------------------------------------------------------------------- */

static int32_t made_op(made_net *d, const char *name, op_at at, const lam_op_arg *in, int32_t n_in,
                       lam_op_arg out) {
    int32_t index = -1;
    const int64_t t0 = d->clock += draw(1, 20);
    const lam_op_info o = {.name = name,
                           .call = at.call,
                           .parent = at.parent,
                           .phase = at.phase,
                           .flags = at.flags,
                           .t0_ns = t0,
                           .t1_ns = t0 + draw(0, 5),
                           .pass = at.phase == LAM_BACKWARD,
                           .n_in = n_in,
                           .n_out = 1,
                           .in = in,
                           .out = &out};
    NET_OK(&d->n, lam_build_op(d->n.b, &o, &index, &d->n.e));
    return index;
}
#define MADE_OP(d, name, at, out, ...) made_op(d, "aten::" name, at, IN(__VA_ARGS__), out)

static void made_layer_ops(made_net *d, const made_part *p, op_at at, uint64_t in, uint64_t out) {
    const lam_op_arg x = made_tensor(0, in), y = made_tensor(0, out);
    const lam_op_arg no = made_flag(6, false);
    const uint64_t w = made_weight(p, 0);
    int32_t outer;
    switch (p->kind) {
    case MADE_CONV:
        outer = MADE_OP(d, "conv2d", at, y, x, D(1, w, 4, 4, 3, 3));
        at.parent = outer;
        if (draw(0, 7)) /* else it is not known */
            MADE_OP(d, "convolution", at, y, x, D(1, w, 4, 4, 3, 3), I(3, 1, 1), I(4, 1, 1), I(5, 1, 1), no,
                    N(8, 1));
        else
            MADE_OP(d, "convolution", at, y, x, D(1, w, 4, 4, 3, 3));
        break;
    case MADE_LINEAR: MADE_OP(d, "linear", at, y, x, D(1, w, 6, 6), D(2, w + 1, 6)); break;
    case MADE_NORM:
        MADE_OP(d, "native_batch_norm", at, y, x, D(1, w, 4), D(2, w + 1, 4), D(3, w + 2, 4), D(4, w + 3, 4),
                made_flag(5, p->trains));
        break;
    case MADE_RELU: MADE_OP(d, "relu", at, y, x); break;
    case MADE_POOL: MADE_OP(d, "max_pool2d", at, y, x, I(1, 3, 3), I(2, 1, 1), I(3, 1, 1)); break;
    case MADE_DROPOUT: MADE_OP(d, "native_dropout", at, y, x); break;
    case MADE_SOFTMAX: MADE_OP(d, "_softmax", at, y, x, N(1, 1)); break;
    default:
        MADE_OP(d, "mul", at, made_tensor(0, out + 500), x, D(1, w, 6));
        made_op(d, draw(0, 5) ? "aten::exp" : "my::op", at, IN(made_tensor(0, out + 500)), y);
        break;
    }
}

static void made_block(made_net *d, int32_t call, lam_phase phase, int64_t bytes, bool stays) {
    if (d->n_blocks == MADE_BLOCKS) return;
    lam_block *k = &d->block[d->n_blocks++];
    const int64_t order = ++d->order;
    *k = (lam_block){.bytes = bytes,
                     .order = order,
                     .t0_ns = d->clock,
                     .call = call,
                     .freed_call = -1,
                     .tensor = -1,
                     .phase = (uint8_t)phase};
    if (stays) return;
    k->freed_order = ++d->order;
    k->t1_ns = d->clock + 1;
}

static void made_span(made_net *d, int32_t call, lam_phase phase, int64_t first) {
    if (d->n_spans < MADE_BLOCKS) d->span[d->n_spans++] = (lam_span){first, d->order, call, (uint8_t)phase};
}

/* A call is told when it is over, and its operators need its number: so what a call gives and how long it
 * takes is settled before it is made. */
static void made_call(made_net *d, int32_t part, int32_t parent, uint64_t out, uint32_t flags) {
    made_part *p = &d->part[part];
    const uint64_t in = d->data;
    const int64_t first = d->order, t0 = d->clock += draw(1, 9);
    const lam_phase phase = flags & LAM_CALL_AGAIN ? LAM_RECOMPUTE : LAM_FORWARD;
    const lam_arg x = {NULL, 0, NET_FLOAT32, 0, 4, made_sizes, in, in, in};
    const lam_arg y = {NULL, 0, NET_FLOAT32, 0, 4, made_sizes, out, out, out};
    const lam_call_info c = {.module = p->module,
                             .parent = parent,
                             .flags = flags | (p->trains ? LAM_CALL_TRAINING : 0),
                             .t0_ns = t0,
                             .t1_ns = t0 + 1000 * (made_holds(p->kind) ? MADE_MOST : 1),
                             .n_in = 1,
                             .in = &x,
                             .n_out = 1,
                             .out = &y};
    int32_t call = -1;
    NET_OK(&d->n, lam_build_call(d->n.b, &c, &call, &d->n.e));
    d->n_calls++;
    if (!made_holds(p->kind)) {
        made_layer_ops(d, p, (op_at){call, -1, phase, 0}, in, out);
        made_block(d, call, phase, 1152, true);
        if (draw(0, 1)) made_block(d, call, phase, draw(1, 3000), false);
        if (phase == LAM_FORWARD && d->n_done < 4 * MADE_MOST)
            d->done[d->n_done++] = (made_done){call, part, in, out};
    } else {
        const bool own = p->kind == MADE_NET;
        for (int32_t i = 0; i < p->n_children; i++) {
            const bool last = i + 1 == p->n_children && !own;
            if (d->part[p->children[i]].idle) continue;
            made_call(d, p->children[i], call, last ? out : 3 + 2 * (uint64_t)d->n_calls, flags);
            if (draw(0, 9) == 0) made_call(d, p->children[i], call, 3 + 2 * (uint64_t)d->n_calls, flags);
        }
        if (own) {
            const op_at at = {call, -1, phase, 0};
            MADE_OP(d, "add", at, made_tensor(0, out), made_tensor(0, in), made_tensor(1, d->data));
            made_block(d, call, phase, 1152, true);
        }
    }
    made_span(d, call, phase, first);
    d->clock = c.t1_ns;
    d->data = out;
}

/* -- the backward ---------------------------------------------------------------------------------------- */

static void made_back(made_net *d, const made_done *of) {
    const made_part *p = &d->part[of->part];
    static const char *const names[] = {
        "ConvolutionBackward0", "AddmmBackward0",   "NativeBatchNormBackward0",
        "ReluBackward0",        "MaxPoolBackward0", "NativeDropoutBackward0",
        "MulBackward0",         "SoftmaxBackward0"};
    const lam_op_arg g = made_tensor(0, 2000 + of->out), y = made_tensor(0, 2000 + of->in);
    const int64_t t0 = d->clock += 5, first = d->order;
    int32_t node = -1;
    const lam_op_info o = {.name = names[p->kind - MADE_CONV],
                           .call = of->call,
                           .parent = -1,
                           .phase = LAM_BACKWARD,
                           .flags = LAM_OP_NODE,
                           .t0_ns = t0,
                           .t1_ns = t0 + 900,
                           .pass = 1};
    NET_OK(&d->n, lam_build_op(d->n.b, &o, &node, &d->n.e));
    const op_at at = {of->call, node, LAM_BACKWARD, 0};
    if (p->kind == MADE_CONV) {
        const lam_op_arg x = made_tensor(1, of->in), w = D(2, made_weight(p, 0), 4, 4, 3, 3);
        MADE_OP(d, "convolution_backward", at, y, g, x, w, I(4, 1, 1), I(5, 1, 1), I(6, 1, 1),
                made_flag(7, false), N(9, 1));
    } else if (p->kind == MADE_LINEAR) {
        MADE_OP(d, "mm", at, D(0, 2000 + of->in, 48, 6), D(0, 2000 + of->out, 48, 6),
                D(1, made_weight(p, 0), 6, 6));
    } else {
        MADE_OP(d, "mul", at, y, g, made_tensor(1, of->in));
    }
    made_block(d, of->call, LAM_BACKWARD, 288, draw(0, 1));
    made_span(d, of->call, LAM_BACKWARD, first);
    d->clock = t0 + 900;
}

/* -- all of it ------------------------------------------------------------------------------------------- */

static void made_values(made_net *d) {
    for (int64_t k = draw(0, 3); k > 0; k--) {
        lam_bad bad = {
            .side = LAM_BAD_OUTPUT, .from = -1, .dtype = NET_FLOAT32, .ndim = 4, .sizes = made_sizes};
        bad.call = (int32_t)draw(0, d->n_calls - 1);
        bad.calls = bad.call + 1;
        bad.found.nan = draw(0, 2);
        bad.found.inf = draw(0, 2);
        bad.found.first = draw(0, 7);
        NET_OK(&d->n, lam_build_bad(d->n.b, &bad, &d->n.e));
    }
    lam_checked looked = {.tensors = d->n_calls, .bytes = 288 * d->n_calls};
    looked.gradients = draw(0, 1);
    NET_OK(&d->n, lam_build_checked(d->n.b, &looked, &d->n.e));
}

OOM_UNUSED static lam_model *made_step(void) {
    static made_net d;
    d = (made_net){.n = net_new(), .clock = 1000, .data = 1};
    made_grow(&d, -1, 0);
    made_call(&d, 0, -1, 2, 0);
    const bool back = draw(0, 2) > 0;
    for (int32_t i = d.n_done - 1; back && i >= 0; i--) {
        if (draw(0, 9) == 0) { /* what a checkpoint did not keep */
            d.data = d.done[i].in;
            made_call(&d, d.done[i].part, -1, 3000 + d.done[i].out, LAM_CALL_AGAIN);
        }
        made_back(&d, &d.done[i]);
    }
    if (back) NET_OK(&d.n, lam_build_nodes_seen(d.n.b, &d.n.e));
    if (draw(0, 1)) NET_OK(&d.n, lam_build_timed(d.n.b, &d.n.e));
    if (draw(0, 1)) {
        NET_OK(&d.n, lam_build_memory(d.n.b, &(lam_memory_info){"a test", 1000, 3000, 2000, !back}, &d.n.e));
        for (int32_t i = 0; i < d.n_blocks; i++) NET_OK(&d.n, lam_build_block(d.n.b, &d.block[i], &d.n.e));
        for (int32_t i = 0; i < d.n_spans; i++) NET_OK(&d.n, lam_build_span(d.n.b, &d.span[i], &d.n.e));
    }
    if (draw(0, 2) == 0) made_values(&d);
    NET_OK(&d.n, lam_build_ops_seen(d.n.b, &d.n.e));
    return net_done(&d.n);
}

#endif
