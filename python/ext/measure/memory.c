/* SPDX-License-Identifier: Apache-2.0
 * A capture's memory: the allocations and frees of torch's allocator (allocator.h), the calls and nodes that
 * made them (listeners.h), and which blocks hold parameters, gradients, inputs and optimizer state,
 * identified by their addresses. */
#include "measure/memory.h"
#include "base/ext.h"
#include "measure/device.h"
#include "modules/tree.h"
#include "native/ledger.h"
#include "observe/listeners.h"
#include "observe/observe.h"
#include "observe/open_capture.h"
#include "process/allocator.h"
#include "process/blocks.h"
#include "process/clock.h"
#include "torch/addresses.h"
#include "torch/tensor.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* An open call, and the call inside it that began with it. */
typedef struct open_span {
    int32_t call, inner; /* inner: -1: none */
    uint8_t phase;
    int64_t first;
    const void *record; /* of a node: torch's; NULL */
} open_span;

/* A parameter or buffer of the model. */
typedef struct owned {
    PyObject *tensor;
    lam_held held;
    bool has_grad;
} owned;

typedef struct memory {
    lmx_listener listener; /* first: a listener is cast to this */
    lmx_state *st;
    lmx_capture *capture;
    lmx_allocator torch;
    lmx_alloc alloc;
    PyObject *tensors;    /* list: parameters and buffers, whose addresses identify blocks */
    lmi_vec owned;        /* owned: the same */
    lmi_vec open;         /* open_span: calls */
    pthread_mutex_t lock; /* of the next two, which nodes on any thread change */
    lmi_vec spans;        /* lam_span */
    lmi_vec nodes;        /* open_span: running nodes */
    int64_t rss_open, rss_close, rss_most_open, rss_most_close;
    bool lost, other_devices;
    PyObject *unnamed; /* a class that does not name the tensors that it wraps; NULL: there is none */
    int64_t opened_ns, closed_ns;
    bool afterwards;  /* blocks are reported after the run, with their times */
    PyObject *source; /* str */
} memory;

static memory *memory_of(lmx_listener *l) { return (memory *)l; }

/* == what memory holds ============================================================================== */

/* Marks the block at this address as `held`, for the parameter or buffer `of` (NULL: none). A block from
 * before the capture is added. */
static void tell_place(memory *y, const lmx_address_of *p, lam_held held, const void *of) {
    y->other_devices = y->other_devices || p->elsewhere;
    if (!p->address || p->bytes <= 0) return;
    lmx_blocks_tell(y->alloc.blocks, p->address, p->bytes, (uint8_t)held, (uint64_t)(uintptr_t)of);
}

typedef struct part_of {
    memory *y;
    lam_held held;
    const void *of;
} part_of;

static bool tell_part(void *self, PyObject *part) {
    const part_of *w = self;
    lmx_address_of p;
    if (!lmx_locate(w->y->st, &w->y->torch, part, &p)) return false;
    if (!p.address && !p.elsewhere) lmx_locate_storage(w->y->st, part, &p); /* an empty shard may be padded */
    tell_place(w->y, &p, w->held, w->of);
    return true;
}

/* Naming its parts may run code of the tensor's class, which is not the model's work. */
static bool tell_parts(memory *y, PyObject *tensor, part_of *w) {
    lmx_part_visitor v = {.each = tell_part, .self = w};
    bool was = y->capture->watched.paused;
    y->capture->watched.paused = true;
    bool ok = lmx_each_part(y->st, tensor, &v);
    y->capture->watched.paused = was;
    if (v.unknown && !y->unnamed) {
        y->unnamed = (PyObject *)Py_TYPE(tensor);
        Py_INCREF(y->unnamed);
    }
    return ok;
}

/* A tensor without a memory of its own may be sparse. */
static bool tell_plain(memory *y, PyObject *tensor, part_of *w) {
    lmx_address_of p;
    if (!lmx_locate(y->st, &y->torch, tensor, &p)) return false;
    tell_place(y, &p, w->held, w->of);
    PyObject *parts = p.address || p.elsewhere ? NULL : lmx_sparse_parts(tensor);
    bool ok = parts || !PyErr_Occurred();
    for (Py_ssize_t i = 0; ok && parts && i < PyList_Size(parts); i++)
        ok = tell_part(w, PyList_GetItem(parts, i));
    Py_XDECREF(parts);
    return ok;
}

static bool tell(memory *y, PyObject *tensor, lam_held held, const void *of) {
    part_of w = {y, held, of};
    if (lmx_kind_of(y->st, tensor) == LMX_PLAIN) return tell_plain(y, tensor, &w);
    return !lmx_is_tensor(y->st, tensor) || tell_parts(y, tensor, &w);
}

typedef struct owned_walk {
    memory *y;
    lam_held held;
} owned_walk;

/* A parameter of another class than torch's is marked as one. Other tensors may warn when their gradient is
 * read. */
static bool is_parameter(lmx_state *st, PyObject *tensor) {
    if (PyType_IsSubtype(Py_TYPE(tensor), st->torch.parameter)) return true;
    if (!lmx_is_tensor(st, tensor) || lmx_kind_of(st, tensor) == LMX_PLAIN) return false;
    PyObject *marked = PyObject_GetAttr(tensor, st->n__is_param);
    bool yes = marked == Py_True;
    Py_XDECREF(marked);
    PyErr_Clear();
    return yes;
}

static bool keep_owned(void *self, PyObject *name, PyObject *tensor) {
    const owned_walk *w = self;
    (void)name;
    if (tensor == Py_None) return true;
    bool has_grad = is_parameter(w->y->st, tensor);
    owned *o = lmx_vec_push(&w->y->owned, sizeof *o, 1);
    if (!o) return PyErr_NoMemory() != NULL;
    *o = (owned){tensor, w->held, has_grad};
    return PyList_Append(w->y->tensors, tensor) == 0;
}

/* The parameters and buffers of every module. A tied one is marked twice, which changes nothing. */
static bool find_owned(memory *y, lmx_capture *c) {
    owned_walk w = {y, LAM_HELD_PARAMETER};
    if (!lmx_each_owned(c->st, &c->tree, c->st->n__parameters, keep_owned, &w)) return false;
    w.held = LAM_HELD_BUFFER;
    return lmx_each_owned(c->st, &c->tree, c->st->n__buffers, keep_owned, &w);
}

/* After a step of a model that is larger than the processor's cache, torch's data about a tensor is not
 * in it, and this function would mostly wait for memory. So it prefetches some tensors ahead. */
static void fetch_ahead(const memory *y, size_t i) {
    enum { OBJECT = 12, BEHIND = 6, LINE = 64 };
    const owned *all = y->owned.data;
    ptrdiff_t offset = y->st->torch.offset;
    if (i + OBJECT < y->owned.n) __builtin_prefetch(all[i + OBJECT].tensor);
    if (i + BEHIND >= y->owned.n || offset < 0 || !lmx_is_tensor(y->st, all[i + BEHIND].tensor)) return;
    const char *behind;
    memcpy(&behind, (const char *)all[i + BEHIND].tensor + offset, sizeof behind);
    __builtin_prefetch(behind);
    __builtin_prefetch(behind + LINE);
    __builtin_prefetch(behind + 2 * (ptrdiff_t)LINE);
}

/* The shards of what FSDP2 has gathered, which its modules do not register meanwhile. */
static bool find_shards(memory *y, lmx_capture *c) {
    PyObject *pairs = lmx_gathered(c->st, &c->tree);
    bool ok = pairs != NULL;
    for (Py_ssize_t i = 1; ok && i < PyList_Size(pairs); i += 2) {
        owned_walk w = {y, LAM_HELD_PARAMETER};
        ok = keep_owned(&w, NULL, PyList_GetItem(pairs, i));
    }
    Py_XDECREF(pairs);
    return ok;
}

static bool tell_model(memory *y, lmx_capture *c) {
    bool ok = find_owned(y, c) && find_shards(y, c);
    for (size_t i = 0; ok && i < y->owned.n; i++) {
        const owned *o = (const owned *)y->owned.data + i;
        fetch_ahead(y, i);
        ok = tell(y, o->tensor, o->held, o->tensor);
    }
    return ok;
}

/* == gradients ========================================================================================= */

/* Marks a tensor's gradient; false if it must be read through Python. */
static bool tell_gradient(memory *y, PyObject *tensor) {
    lmx_address_of p;
    if (!lmx_gradient_locate(y->st, &y->torch, tensor, &p)) return false;
    tell_place(y, &p, LAM_HELD_GRADIENT, tensor);
    return true;
}

/* Marks the current gradients. */
static bool tell_gradients(memory *y) {
    bool ok = true;
    for (size_t i = 0; ok && i < y->owned.n; i++) {
        const owned *o = (const owned *)y->owned.data + i;
        fetch_ahead(y, i);
        if (!o->has_grad || tell_gradient(y, o->tensor)) continue;
        PyObject *grad = PyObject_GetAttr(o->tensor, y->st->n_grad);
        if (!grad)
            ok = lmx_forgive();
        else if (grad != Py_None)
            ok = tell(y, grad, LAM_HELD_GRADIENT, o->tensor);
        Py_XDECREF(grad);
    }
    return ok;
}

/* == the owner of a block ============================================================================== */

static lmx_whose whose(void *self) {
    const lmx_capture *c = ((memory *)self)->capture;
    lmx_where at = lmx_here_or_engine(c);
    bool elsewhere =
        at.call < 0 && at.phase == LAM_FORWARD && (unsigned long)pthread_self() != c->threads.owner;
    return (lmx_whose){at.call, at.phase, elsewhere};
}

/* The caller holds the lock. */
static void put_span(memory *y, const open_span *o, int32_t call) {
    const lam_span span = {o->first, lmx_blocks_now(y->alloc.blocks), call, o->phase};
    lmx_vec_keep(&y->spans, sizeof span, &span, &y->lost);
}

static void push_span(memory *y, const open_span *o, int32_t call) {
    pthread_mutex_lock(&y->lock);
    put_span(y, o, call);
    pthread_mutex_unlock(&y->lock);
}

static bool tell_input(lmx_finder *f, PyObject *tensor, lmx_kind kind) {
    (void)kind;
    return tell(f->self, tensor, LAM_HELD_INPUT, NULL);
}

static bool entered(lmx_listener *l, lmx_capture *c, int32_t call, const lmx_given *given) {
    memory *y = memory_of(l);
    int32_t inner = c->noted.open != call ? c->noted.open : -1;
    bool outermost = ((const lmx_call *)c->noted.calls.data)[call].parent < 0;
    if (y->afterwards) outermost = false; /* other blocks may have their addresses by then */
    Py_ssize_t n_args = outermost ? lmx_n_given(given) : 0;
    lmx_finder f = {.st = y->st, .budget = LMX_BUDGET, .name = -1, .each = tell_input, .self = y};
    for (Py_ssize_t i = 0; i < n_args; i++) /* inputs may be anywhere in them, as in a cache */
        if (!lmx_find(&f, given->args[i], 0)) return false;
    if (y->afterwards) return true;
    const open_span o = {call, inner, lmx_here(c).phase, lmx_blocks_now(y->alloc.blocks), NULL};
    lmx_vec_keep(&y->open, sizeof o, &o, &y->lost);
    return true;
}

static bool left(lmx_listener *l, lmx_capture *c, int32_t call, const lmx_given *given, PyObject *result) {
    memory *y = memory_of(l);
    (void)c;
    (void)given;
    (void)result;
    while (y->open.n) {
        const open_span o = ((const open_span *)y->open.data)[--y->open.n];
        push_span(y, &o, o.call);
        if (o.inner >= 0) push_span(y, &o, o.inner);
        if (o.call == call) break;
    }
    return true;
}

/* Nodes may run on several threads at a time; on one thread they are nested. */
static void node_began(lmx_listener *l, const lmx_node_run *node) {
    memory *y = memory_of(l);
    if (node->where.call < 0 || y->alloc.forked) return;
    pthread_mutex_lock(&y->lock);
    const open_span o = {node->where.call, -1, LAM_BACKWARD, lmx_blocks_now(y->alloc.blocks), node->record};
    lmx_vec_keep(&y->nodes, sizeof o, &o, &y->lost);
    pthread_mutex_unlock(&y->lock);
}

static void node_ended(lmx_listener *l, const lmx_node_run *node) {
    memory *y = memory_of(l);
    open_span ended;
    if (node->where.call < 0 || y->alloc.forked) return;
    pthread_mutex_lock(&y->lock);
    if (lmx_vec_take(&y->nodes, sizeof ended, offsetof(open_span, record), node->record, &ended))
        put_span(y, &ended, ended.call);
    pthread_mutex_unlock(&y->lock);
}

/* == opening and closing =============================================================================== */

static bool opened(lmx_listener *l, lmx_capture *c) {
    memory *y = memory_of(l);
    char why[240] = "";
    y->capture = c;
    y->opened_ns = lmx_now_ns();
    y->alloc.whose = whose;
    y->alloc.self = y;
    y->alloc.blocks = lmx_blocks_new(&c->clock);
    if (!y->alloc.blocks) {
        PyErr_NoMemory();
        return false;
    }
    lmx_resident(&y->rss_open, &y->rss_most_open);
    bool found = lmx_allocator_find(&y->torch, why, sizeof why);
    if (y->afterwards) return tell_model(y, c) && tell_gradients(y);
    if (found && (!tell_model(y, c) || !tell_gradients(y))) return false;
    if (found && lmx_alloc_open(&y->alloc, y->torch.alloc, y->torch.free, why, sizeof why)) return true;
    lmx_fail(y->st, LAM_UNSUPPORTED, "memory", "it can't be measured: %s", why);
    return false;
}

static void closed(lmx_listener *l, lmx_capture *c) {
    memory *y = memory_of(l);
    (void)c;
    if (y->alloc.slot < 0 && !y->afterwards) return;
    lmx_alloc_close(&y->alloc);
    y->closed_ns = lmx_now_ns();
    lmx_resident(&y->rss_close, &y->rss_most_close);
    while (y->open.n) left(l, c, -1, NULL, NULL); /* calls that an exception left */
}

static void free_memory(lmx_listener *l) {
    memory *y = memory_of(l);
    lmx_alloc_close(&y->alloc);
    lmx_blocks_free(y->alloc.blocks);
    lmi_vec_free(&y->owned);
    lmi_vec_free(&y->spans);
    lmi_vec_free(&y->open);
    lmi_vec_free(&y->nodes);
    pthread_mutex_destroy(&y->lock);
    Py_XDECREF(y->tensors);
    Py_XDECREF(y->source);
    Py_XDECREF(y->unnamed);
    PyMem_Free(y);
}

static lam_status push_unnamed(const memory *y, lam_builder *b, lam_error *e) {
    PyObject *name = y->unnamed ? PyObject_GetAttr(y->unnamed, y->st->n___name__) : NULL;
    char text[320];
    if (!name) return PyErr_Clear(), LAM_OK;
    snprintf(
        text, sizeof text,
        "what tensors of the class %.100s hold is not known, and memory from before the capture lacks it: "
        "the class does not name the tensors inside (__tensor_flatten__)",
        lmx_utf8(name));
    Py_DECREF(name);
    return lam_build_note(b, text, e);
}

/* == building the model ================================================================================ */

static int32_t tensor_of(const lmx_capture *c, uint64_t of) {
    const void *key = (const void *)(uintptr_t)of; /* NOLINT: it was a pointer before */
    return of && c->heard.tensors ? lmx_map_get(c->heard.tensors, key) : -1;
}

static lam_status push_blocks(const lmx_reading *r, const lmx_capture *c, lam_builder *b, lam_error *e) {
    lam_status s = LAM_OK;
    for (size_t i = 0; s == LAM_OK && i < r->n; i++) {
        const lmx_block *k = &r->blocks[i];
        const lam_block block = {.bytes = k->bytes,
                                 .order = k->order,
                                 .freed_order = k->freed_order,
                                 .t0_ns = k->t0_ns,
                                 .t1_ns = k->t1_ns,
                                 .call = k->by.call,
                                 .freed_call = k->freed_by.call,
                                 .tensor = tensor_of(c, k->of),
                                 .phase = k->by.phase,
                                 .freed_phase = k->freed_by.phase,
                                 .held = k->held,
                                 .flags = k->by.elsewhere ? LAM_BLOCK_ELSEWHERE : 0};
        s = lam_build_block(b, &block, e);
    }
    return s;
}

/* Spans are kept by moments, and pushed by the orders of these moments. */
static lam_status push_spans(const memory *y, const lmx_reading *r, lam_builder *b, lam_error *e) {
    const lam_span *spans = y->spans.data;
    lam_status s = LAM_OK;
    for (size_t i = 0; s == LAM_OK && i < y->spans.n; i++) {
        lam_span span = spans[i];
        span.first = r->orders[span.first];
        span.last = r->orders[span.last];
        s = lam_build_span(b, &span, e);
    }
    return s;
}

static lam_status push_memory(memory *y, lam_builder *b, lam_error *e) {
    const bool no_nodes = !y->capture->watched.nodes || lmx_observer_strange(y->capture->watched.observer);
    bool rose = y->rss_most_open >= 0 && y->rss_most_close > y->rss_most_open;
    const lam_memory_info info = {.source = lmx_utf8(y->source),
                                  .rss_open = y->rss_open,
                                  .rss_close = y->rss_close,
                                  .rss_peak = rose ? y->rss_most_close : -1,
                                  .forward_only = y->afterwards || no_nodes};
    lam_status s = lam_build_memory(b, &info, e);
    if (s == LAM_OK && y->other_devices && !lmx_device_sized(y->capture))
        s = lam_build_note(b, "memory was measured of the CPU alone; some tensors are on another device", e);
    return s == LAM_OK ? push_unnamed(y, b, e) : s;
}

static lam_status push(lmx_listener *l, lmx_capture *c, lam_builder *b, lam_error *e) {
    memory *y = memory_of(l);
    if (y->alloc.forked)
        return lam_build_note(b, "this process was forked while memory was measured, so it is not told", e);
    if (y->lost || lmx_blocks_lost(y->alloc.blocks) || lmx_blocks_full(y->alloc.blocks))
        return lam_build_note(b, "there were more blocks of memory than a capture keeps, so it is not told",
                              e);
    lmx_reading r;
    if (!lmx_blocks_read(y->alloc.blocks, &r)) return LAM_NOMEM;
    lam_status s = push_memory(y, b, e);
    if (s == LAM_OK) s = push_blocks(&r, c, b, e);
    if (s == LAM_OK) s = push_spans(y, &r, b, e);
    lmx_reading_free(&r);
    return s;
}

/* == called from Python ================================================================================ */

static memory *find(const lmx_capture *c) {
    for (lmx_listener *l = c->heard.listeners; l; l = l->next)
        if (l->free == free_memory) return memory_of(l);
    return NULL;
}

PyObject *lmx_measure_memory(PyObject *self, PyObject *args) {
    lmx_capture *c = (lmx_capture *)self;
    PyObject *source;
    int afterwards = 0;
    if (!PyArg_ParseTuple(args, "U|p:measure_memory", &source, &afterwards)) return NULL;
    lmx_gradient_prove(c->st);
    if (c->phase != LMX_NEW || find(c))
        return lmx_fail(c->st, LAM_USAGE, "memory", "ask for it once, before the capture is started");
    memory *y = PyMem_Calloc(1, sizeof *y);
    if (!y) return PyErr_NoMemory();
    y->listener = (lmx_listener){.kernel_clock = afterwards, /* the profiler's events use this clock */
                                 .entered = entered,
                                 .left = left,
                                 .node_began = node_began,
                                 .node_ended = node_ended,
                                 .opened = opened,
                                 .closed = closed,
                                 .push = push,
                                 .free = free_memory};
    y->st = c->st;
    y->afterwards = afterwards;
    y->alloc.slot = -1;
    y->rss_open = y->rss_close = y->rss_most_open = y->rss_most_close = -1;
    pthread_mutex_init(&y->lock, NULL);
    y->tensors = PyList_New(0);
    Py_INCREF(source);
    y->source = source;
    if (!y->tensors) {
        free_memory(&y->listener);
        return NULL;
    }
    lmx_listen(c, &y->listener);
    Py_RETURN_NONE;
}

/* The measurement, also after the capture was closed; NULL: none that can still mark blocks. */
static memory *telling(const lmx_capture *c) {
    memory *y = find(c);
    return y && y->alloc.blocks && !y->alloc.forked ? y : NULL;
}

PyObject *lmx_memory_gradients(PyObject *self, PyObject *unused) {
    (void)unused;
    lmx_capture *c = (lmx_capture *)self;
    if (c->dry.ledger) lmx_ledger_over(c->dry.ledger);
    memory *y = telling(c);
    if (y && !tell_gradients(y)) return NULL;
    Py_RETURN_NONE;
}

PyObject *lmx_memory_state(PyObject *self, PyObject *args) {
    PyObject *tensor, *parameter;
    memory *y = telling((lmx_capture *)self);
    if (!PyArg_ParseTuple(args, "OO:memory_state", &tensor, &parameter)) return NULL;
    const void *of = parameter == Py_None ? NULL : parameter;
    if (y && !tell(y, tensor, LAM_HELD_OPTIMIZER, of)) return NULL;
    Py_RETURN_NONE;
}

/* == reported after the run ============================================================================ */

/* The calls that are open at a moving moment. */
typedef struct moment {
    const lmx_capture *c;
    memory *y;
    size_t next; /* the first call that has not begun */
} moment;

static const lmx_call *call_of(const lmx_capture *c, int32_t i) {
    return (const lmx_call *)c->noted.calls.data + i;
}

/* Opens and closes calls up to a moment. Their stamps are nanoseconds while there is a listener. */
static void go_to(moment *m, int64_t ns) {
    memory *y = m->y;
    for (;;) {
        const open_span *top = y->open.n ? (const open_span *)y->open.data + y->open.n - 1 : NULL;
        const lmx_call *next = m->next < m->c->noted.calls.n ? call_of(m->c, (int32_t)m->next) : NULL;
        bool begins = next && next->began <= ns;
        int64_t end = top ? call_of(m->c, top->call)->ended : 0;
        if (top && end && end <= ns && (!begins || end <= next->began)) {
            push_span(y, top, top->call);
            y->open.n--;
        } else if (begins) {
            uint8_t phase = next->flags & LAM_CALL_AGAIN ? LAM_RECOMPUTE : LAM_FORWARD;
            open_span *o = lmx_vec_push(&y->open, sizeof *o, 1);
            if (o) *o = (open_span){(int32_t)m->next, -1, phase, lmx_blocks_now(y->alloc.blocks), NULL};
            if (!o) y->lost = true;
            m->next++;
        } else {
            return;
        }
    }
}

PyObject *lmx_memory_events(PyObject *self, PyObject *list) {
    lmx_capture *c = (lmx_capture *)self;
    memory *y = telling(c);
    moment m = {c, y, 0};
    if (!y || !y->afterwards || !PyList_Check(list))
        return lmx_fail(c->st, LAM_USAGE, "memory",
                        "its events are a list, told after a capture that asked for it");
    for (Py_ssize_t i = 0; i < PyList_Size(list); i++) {
        unsigned long long address;
        long long bytes, ns;
        if (!PyArg_ParseTuple(PyList_GetItem(list, i), "KLL", &address, &bytes, &ns)) return NULL;
        if (ns < y->opened_ns || ns > y->closed_ns) continue;
        go_to(&m, ns);
        const open_span *top = y->open.n ? (const open_span *)y->open.data + y->open.n - 1 : NULL;
        const lmx_whose by = {top ? top->call : -1, top ? top->phase : LAM_FORWARD, false};
        lmx_blocks_moment(y->alloc.blocks, ns);
        if (bytes > 0)
            lmx_blocks_add(y->alloc.blocks, address, bytes, by);
        else
            lmx_blocks_drop(y->alloc.blocks, address, by);
    }
    go_to(&m, INT64_MAX);
    Py_RETURN_NONE;
}

/* == the test ========================================================================================== */

static lmx_whose by_thread(void *self) {
    return (lmx_whose){-1, LAM_FORWARD, pthread_self() != *(const pthread_t *)self};
}

/* The only block of this thread; false if there are more or none. */
static bool only_one(const lmx_blocks *b, lmx_block *out) {
    lmx_reading r;
    int found = 0;
    if (!lmx_blocks_read(b, &r)) return false;
    for (size_t i = 0; i < r.n; i++) {
        if (r.blocks[i].by.elsewhere) continue;
        *out = r.blocks[i];
        found++;
    }
    lmx_reading_free(&r);
    return found == 1;
}

/* The allocation and free of a test tensor must be seen, with its size at its address. */
static bool prove(lmx_alloc *a, PyObject *torch) {
    enum { ELEMENTS = 12345 };
    lmx_block k;
    PyObject *tensor = lmx_new_tensor(torch, ELEMENTS);
    if (!tensor) return false;
    uint64_t address = (uint64_t)lmx_ask(tensor, "data_ptr");
    int64_t bytes = ELEMENTS * lmx_ask(tensor, "element_size");
    bool ok = only_one(a->blocks, &k) && k.address == address && k.bytes == bytes && !k.freed_order;
    Py_DECREF(tensor);
    return ok && only_one(a->blocks, &k) && k.freed_order;
}

PyObject *lmx_probe_memory(PyObject *module, PyObject *unused) {
    char why[240] = "";
    pthread_t self = pthread_self();
    lmx_allocator f;
    lmx_state *st = lmx_state_of(module);
    (void)unused;
    if (lmx_torch_ready(st)) lmx_gradient_prove(st); /* captures of memory read it too */
    PyErr_Clear();
    lmx_alloc a = {.blocks = lmx_blocks_new(NULL), .whose = by_thread, .self = &self, .slot = -1};
    if (!a.blocks) return PyErr_NoMemory();
    PyObject *torch = PyImport_ImportModule("torch");
    bool ok = torch && lmx_allocator_find(&f, why, sizeof why) &&
              lmx_alloc_open(&a, f.alloc, f.free, why, sizeof why);
    if (ok && !prove(&a, torch)) {
        snprintf(why, sizeof why, "a tensor of known size was not seen to come and go");
        ok = false;
    }
    lmx_alloc_close(&a);
    lmx_blocks_free(a.blocks);
    Py_XDECREF(torch);
    if (lmx_must_raise()) return NULL;
    return lmx_str(ok ? NULL : why);
}
