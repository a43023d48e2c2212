/* SPDX-License-Identifier: Apache-2.0
 * Checks the arguments and results of calls, keeps the records of these checks and of health_ops.c, and
 * pushes them. */
#include "measure/health.h"
#include "base/ext.h"
#include "measure/device.h"
#include "measure/first_failure.h"
#include "measure/gradients.h"
#include "modules/tree.h"
#include "native/storages.h"
#include "observe/listeners.h"
#include "observe/observe.h"
#include "observe/open_capture.h"
#include "process/import_table.h"
#include "torch/tensor.h"
#include "torch/values.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BAD = 1 << 16 };

typedef struct statistics {
    int32_t call, out;
    lam_stats s;
} statistics;

enum { ALLOWED = 1, ASKED = 2 };

/* == records ============================================================================================= */

void lmx_health_name(char *to, const char *from) {
    size_t n = from ? strnlen(from, LMX_HEALTH_NAME - 1) : 0;
    memcpy(to, from ? from : "", n);
    to[n] = '\0';
}

static int32_t calls_of(const lmx_checkup *h) { return (int32_t)h->capture->noted.calls.n; }

int32_t lmx_health_keep(lmx_checkup *h, lmx_bad_record *r, const lmx_look *look, const char *text) {
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
    lmx_bad_record *to = h->records.n < MOST_BAD ? lmx_vec_push(&h->records, sizeof *to, 1) : NULL;
    const int32_t id = to ? (int32_t)h->records.n : 0;
    if (to) {
        *to = *r;
        to->text = text ? strdup(text) : NULL;
        if (r->bad.origin == LMX_ITSELF) to->bad.origin = id;
    }
    h->cut = h->cut || !to;
    pthread_mutex_unlock(&h->lock);
    return id;
}

/* The origin of a bad argument or result of a call, as lam_bad.origin. */
static int32_t origin_of(lmx_checkup *h, const lmx_look *look) {
    lmx_storage trail = {0};
    pthread_mutex_lock(&h->lock);
    const bool found = lmx_storage_at(&h->trails, look->storage, &trail) && !trail.back;
    pthread_mutex_unlock(&h->lock);
    return found ? trail.origin : 0;
}

/* Clears the origin of these values: they are intended. */
static void clear_origin(lmx_checkup *h, const lmx_look *look) {
    pthread_mutex_lock(&h->lock);
    lmx_storage_taken(&h->trails, look->storage);
    lmx_storage_drop(&h->trails, look->storage);
    pthread_mutex_unlock(&h->lock);
}

lmx_bad_record lmx_health_record(lam_bad_side side, uint8_t phase, int32_t call, int32_t index) {
    return (lmx_bad_record){
        .bad = {.side = side, .phase = (lam_phase)phase, .call = call, .index = index, .from = -1},
        .sequence = -1};
}

void lmx_health_count(lmx_checkup *h, const lmx_look *look, lmx_seen seen) {
    if (seen == LMX_SEEN) {
        atomic_fetch_add_explicit(&h->tensors, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&h->bytes, look->bytes, memory_order_relaxed);
    } else if (seen == LMX_NOT_TO_READ) {
        atomic_fetch_add_explicit(&h->unseen, 1, memory_order_relaxed);
    }
}

/* == calls =============================================================================================== */

/* One walk through arguments or a result. */
typedef struct visit {
    lmx_checkup *h;
    lam_bad_side side;
    int32_t call, index;
    uint8_t phase, marks;
    bool bad, unseen;
    PyObject *module;
    size_t entry; /* of written arguments: the first entry of the call */
} visit;

static lmx_checkup *of(lmx_listener *l) { return (lmx_checkup *)l; }

static uint8_t phase_of(const lmx_capture *c, int32_t call) {
    return ((const lmx_call *)c->noted.calls.data)[call].flags & LAM_CALL_AGAIN ? LAM_RECOMPUTE : LAM_FORWARD;
}

enum { FED = 1, UNREAD = 2 }; /* an argument of the call was bad; could not be checked */

static uint8_t *fed_at(lmx_checkup *h, int32_t call) {
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
    uint8_t *fed = seen == LMX_NOT_TO_READ ? fed_at(v->h, v->call) : NULL;
    if (fed) *fed |= UNREAD;
    bool buffer = v->index > 0;
    if (seen != LMX_SEEN || !lmx_look_bad(&look) || (buffer && lmx_look_masks(&look))) return true;
    v->bad = true;
    lmx_bad_record r = lmx_health_record(LAM_BAD_OWNED, v->phase, v->call, -1);
    lmx_health_name(r.name, lmx_utf8(key));
    lmx_health_keep(v->h, &r, &look, NULL);
    return true;
}

/* Checks a layer's parameters and, in eval mode, buffers: in train mode these follow from its inputs. */
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

/* False for a value that the call only passes on. */
static bool may_be_new(const visit *v, bool fed) {
    const lmx_call *call = (const lmx_call *)v->h->capture->noted.calls.data + v->call;
    return v->side == LAM_BAD_INPUT ? call->parent < 0 : !fed;
}

/* A caller that passes -Inf alone to a model does so on purpose. */
static bool is_given_mask(const visit *v, const lmx_look *look) {
    const lmx_call *call = (const lmx_call *)v->h->capture->noted.calls.data + v->call;
    return v->side == LAM_BAD_INPUT && call->parent < 0 && lmx_look_masks(look);
}

static bool note_bad(visit *v, PyObject *tensor, const lmx_look *look) {
    if (v->marks & ALLOWED) {
        if (v->side != LAM_BAD_INPUT) lmx_look_allow(&v->h->looker, tensor, look);
        if (v->side != LAM_BAD_INPUT) clear_origin(v->h, look);
        return true;
    }
    if (is_given_mask(v, look)) clear_origin(v->h, look);
    uint8_t *fed = fed_at(v->h, v->call);
    bool worse = !lmx_look_masks(look);
    if (v->side == LAM_BAD_INPUT && fed && worse) *fed |= FED;
    const bool passes = fed && *fed & FED;
    if (v->side != LAM_BAD_INPUT && !v->bad && worse && fed && !passes && !look_at_module(v)) return false;
    v->bad = v->bad || worse;
    lmx_bad_record r = lmx_health_record(v->side, v->phase, v->call, v->index);
    r.bad.origin = origin_of(v->h, look);
    r.bad.doubt = v->side != LAM_BAD_INPUT && fed && *fed == UNREAD;
    lmx_health_keep(v->h, &r, look, NULL);
    if (worse && may_be_new(v, passes)) v->h->broke.seen = true;
    return true;
}

static void keep_entry(visit *v, PyObject *tensor, bool fine) {
    const int64_t version = fine ? lmx_look_version(&v->h->looker, tensor) : -1;
    lmx_entry *to = lmx_vec_push(&v->h->entries, sizeof *to, 1);
    if (to) *to = (lmx_entry){tensor, version, v->call};
}

static bool visit_tensor(lmx_finder *f, PyObject *tensor, lmx_kind kind) {
    visit *v = f->self;
    lmx_checkup *h = v->h;
    lmx_look look;
    lmx_seen seen;
    f->n++;
    if (!lmx_look_into(&h->looker, tensor, kind, &look, &seen)) return false;
    lmx_health_count(h, &look, seen);
    if (seen == LMX_NOT_TO_READ) v->unseen = true;
    if (seen == LMX_SEEN && h->looker.wants_stats && v->side == LAM_BAD_OUTPUT) note_stats(v, &look);
    if (h->base.wants_values && kind == LMX_PLAIN && (seen != LMX_NEVER_BAD || look.dtype >= 0))
        lmx_gradients_note(&h->came, tensor, v->call, v->index, v->side == LAM_BAD_INPUT);
    const bool bad = seen == LMX_SEEN && lmx_look_bad(&look);
    if (v->side == LAM_BAD_INPUT) keep_entry(v, tensor, seen == LMX_SEEN && !bad);
    bool ok = !bad || note_bad(v, tensor, &look);
    v->index++;
    return ok;
}

static visit visit_of(lmx_checkup *h, lmx_capture *c, int32_t call, lam_bad_side side) {
    int32_t module = ((const lmx_call *)c->noted.calls.data)[call].module;
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

static bool find_given(lmx_finder *f, const lmx_given *given) {
    Py_ssize_t n = lmx_n_given(given);
    bool ok = true;
    for (Py_ssize_t i = 0; ok && i < n; i++) ok = lmx_find(f, given->args[i], 0);
    return ok;
}

static bool entered(lmx_listener *l, lmx_capture *c, int32_t call, const lmx_given *given) {
    lmx_checkup *h = of(l);
    visit v = visit_of(h, c, call, LAM_BAD_INPUT);
    lmx_finder f = finder_of(c, &v);
    lmx_health_call_begins(h);
    bool ok = find_given(&f, given);
    uint8_t *fed = v.unseen ? fed_at(h, call) : NULL;
    if (fed) *fed |= UNREAD;
    if (ok) lmx_first_failure_tell(&h->broke, NULL);
    return ok;
}

/* == arguments that a call writes to =================================================================== */

static bool visit_written(lmx_finder *f, PyObject *tensor, lmx_kind kind) {
    visit *v = f->self;
    lmx_checkup *h = v->h;
    const lmx_entry *e = (const lmx_entry *)h->entries.data + v->entry;
    const size_t n = h->entries.n - v->entry;
    lmx_look look;
    lmx_seen seen;
    f->n++;
    for (v->index = 0; (size_t)v->index < n && e->tensor != tensor; v->index++) e++;
    bool written =
        (size_t)v->index < n && e->version >= 0 && lmx_look_version(&h->looker, tensor) != e->version;
    bool ok = !written || lmx_look_into(&h->looker, tensor, kind, &look, &seen);
    if (written && ok) lmx_health_count(h, &look, seen);
    if (written && ok && seen == LMX_SEEN && lmx_look_bad(&look)) ok = note_bad(v, tensor, &look);
    return ok;
}

/* Checks the arguments again that were finite at the start and that the call wrote to: they are results
 * of the call too. Calls inside it that never returned may have left entries here. */
static bool look_at_written(lmx_checkup *h, lmx_capture *c, int32_t call, const lmx_given *given, bool fine) {
    const lmx_entry *all = h->entries.data;
    size_t n = h->entries.n;
    while (n && all[n - 1].call > call) n--;
    h->entries.n = n;
    while (n && all[n - 1].call == call) n--;
    visit v = visit_of(h, c, call, LAM_BAD_WRITTEN);
    v.entry = n;
    lmx_finder f = finder_of(c, &v);
    f.each = visit_written;
    bool ok = !fine || n == h->entries.n || find_given(&f, given);
    h->entries.n = n;
    return ok;
}

/* == user-defined checks ================================================================================ */

static void keep_check(lmx_checkup *h, const visit *v, PyObject *said) {
    PyObject *name = PyTuple_Check(said) ? PyTuple_GetItem(said, 0) : NULL;
    PyObject *text = name ? PyTuple_GetItem(said, 1) : NULL;
    PyErr_Clear();
    if (!text) return;
    lmx_bad_record r = lmx_health_record(LAM_BAD_CHECK, v->phase, v->call, 0);
    lmx_health_name(r.name, lmx_utf8(name));
    lmx_health_keep(h, &r, NULL, lmx_utf8(text));
    h->broke.seen = true;
}

static bool ask_user(lmx_checkup *h, const visit *v, PyObject *result) {
    PyObject *said = PyObject_CallFunctionObjArgs(h->ask, v->module, result, NULL);
    if (!said) return false;
    for (Py_ssize_t i = 0; PyList_Check(said) && i < PyList_Size(said); i++)
        keep_check(h, v, PyList_GetItem(said, i));
    Py_DECREF(said);
    return true;
}

/* A layer around the call may handle the exception; without one the forward failed. A forward that a
 * checkpoint repeats ends with an exception once it has the values that it needs. */
static void left_by_raising(lmx_checkup *h, const lmx_capture *c, int32_t call) {
    const lmx_call *at = (const lmx_call *)c->noted.calls.data + call;
    if (at->parent < 0 && phase_of(c, call) == LAM_FORWARD && c->raised)
        lmx_first_failure_tell(&h->broke, c->raised);
}

static bool left(lmx_listener *l, lmx_capture *c, int32_t call, const lmx_given *given, PyObject *result) {
    lmx_checkup *h = of(l);
    if (!result) {
        left_by_raising(h, c, call);
        return look_at_written(h, c, call, given, false);
    }
    visit v = visit_of(h, c, call, LAM_BAD_OUTPUT);
    lmx_finder f = finder_of(c, &v);
    bool found = lmx_find(&f, result, 0);
    if (!look_at_written(h, c, call, given, found && !v.bad) || !found) return false;
    if (v.unseen) {
        lmx_bad_record r = lmx_health_record(LAM_BAD_UNSEEN, v.phase, call, -1);
        lmx_health_keep(h, &r, NULL, NULL);
    }
    bool ok = !(v.marks & ASKED) || ask_user(h, &v, result);
    if (ok) lmx_first_failure_tell(&h->broke, NULL);
    return ok;
}

/* == opening, closing, pushing ========================================================================== */

static void mark(lmx_checkup *h, const lmx_capture *c, PyObject *modules, uint8_t as) {
    for (Py_ssize_t i = 0; modules && i < PyList_Size(modules); i++) {
        int32_t module = lmx_map_get(&c->tree.index, PyList_GetItem(modules, i));
        if (module >= 0) h->marks[module] |= as;
    }
}

static bool open_health(lmx_listener *l, lmx_capture *c) {
    static uint64_t generation;
    lmx_checkup *h = of(l);
    h->capture = c;
    h->generation = ++generation;
    h->marks = calloc(c->tree.nodes.n + 1, 1);
    if (!h->marks) PyErr_NoMemory();
    if (!h->marks || !lmx_gradients_open(&h->came, c, &h->looker)) return false;
    mark(h, c, h->allowed, ALLOWED);
    mark(h, c, h->asked, ASKED);
    if (!lmx_looker_open(&h->looker, c->st)) return false;
    h->looker.gpu = lmx_device_reads();
    if (!h->looker.by_shim) h->base.wants_values = h->base.wants_operators = false;
    if (!h->looker.by_shim) h->base.node_began = h->base.node_ended = NULL;
    lmx_first_failure_open(&h->broke, c);
    return true;
}

static void close_health(lmx_listener *l, lmx_capture *c) {
    (void)c;
    lmx_first_failure_close(&of(l)->broke);
    if (of(l)->looker.n_version) lmx_gradients_close(&of(l)->came);
    lmx_looker_forget(&of(l)->looker); /* another thread may be reading a tensor now */
}

static void free_health(lmx_listener *l) {
    lmx_checkup *h = of(l);
    lmx_first_failure_close(&h->broke);
    Py_XDECREF(h->broke.tell);
    for (size_t i = 0; i < h->records.n; i++) free(((lmx_bad_record *)h->records.data)[i].text);
    lmx_looker_close(&h->looker);
    lmi_vec_free(&h->records);
    lmi_vec_free(&h->entries);
    lmi_vec_free(&h->stats);
    lmx_storages_free(&h->trails);
    lmx_gradients_free(&h->came);
    lmi_vec_free(&h->fed);
    free(h->marks);
    Py_XDECREF(h->allowed);
    Py_XDECREF(h->asked);
    Py_XDECREF(h->ask);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

/* A node's gradient may belong to several arguments and results of calls; each gets a separate record. */
static lam_status push_gradients(const lmx_checkup *h, const lmx_bad_record *r, const lam_bad *bad,
                                 lam_builder *b, lam_error *e) {
    const lmx_grad_note *notes = h->came.notes.data;
    if (bad->side != LAM_BAD_NODE || !bad->fed || r->sequence < 0) return LAM_OK;
    size_t i = lmx_gradients_first(&h->came, r->sequence);
    for (; i < h->came.notes.n && notes[i].sequence == r->sequence; i++) {
        if (notes[i].entry != bad->index) continue;
        lam_bad of_call = *bad;
        of_call.side = notes[i].is_input ? LAM_BAD_GRAD_INPUT : LAM_BAD_GRAD_OUTPUT;
        of_call.call = notes[i].call;
        of_call.index = notes[i].index;
        of_call.from = -1;
        of_call.name = of_call.inside = NULL;
        of_call.gone = false;
        lam_status s = lam_build_bad(b, &of_call, e);
        if (s != LAM_OK) return s;
    }
    return LAM_OK;
}

static lam_status push_record(const lmx_checkup *h, const lmx_bad_record *r, lam_builder *b, lam_error *e) {
    lam_bad bad = r->bad;
    bad.gone = !bad.fed && lmx_storage_gone(&h->trails, bad.origin);
    bad.sizes = r->sizes;
    bad.name = *r->name ? r->name : NULL;
    bad.inside = *r->inside ? r->inside : NULL;
    bad.text = r->text;
    lam_status s = lam_build_bad(b, &bad, e);
    return s == LAM_OK ? push_gradients(h, r, &bad, b, e) : s;
}

static lam_checked looked_of(const lmx_checkup *h, const lmx_capture *c) {
    return (lam_checked){.tensors = h->tensors,
                         .bytes = h->bytes,
                         .unseen = h->unseen,
                         .gradients = h->gradients && !lmx_observer_strange(c->watched.observer),
                         .operators = h->base.wants_operators && c->watched.ops && !c->watched.mode,
                         .cut = h->cut || h->came.lost};
}

static lam_status push_found(lmx_checkup *h, const lmx_capture *c, lam_builder *b, lam_error *e) {
    const lmx_bad_record *all = h->records.data;
    const statistics *stats = h->stats.data;
    const lam_checked looked = looked_of(h, c);
    lmx_gradients_sort(&h->came);
    lam_status s = lam_build_checked(b, &looked, e);
    for (size_t i = 0; s == LAM_OK && i < h->records.n; i++) s = push_record(h, &all[i], b, e);
    for (size_t i = 0; s == LAM_OK && i < h->stats.n; i++)
        s = lam_build_stats(b, stats[i].call, stats[i].out, &stats[i].s, e);
    return s;
}

static lam_status push(lmx_listener *l, lmx_capture *c, lam_builder *b, lam_error *e) {
    lam_status s = push_found(of(l), c, b, e);
    return s == LAM_OK ? lmx_gradients_push(&of(l)->came, b, e) : s;
}

/* While the capture is open, other threads may run nodes. */
static lam_status push_so_far(void *self, lam_builder *b, lam_error *e) {
    lmx_checkup *h = self;
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
    lmx_checkup *h = calloc(1, sizeof *h);
    if (!h) return PyErr_NoMemory();
    h->base = (lmx_listener){.wants_values = gradients,
                             .wants_operators = gradients,
                             .entered = entered,
                             .left = left,
                             .node_began = lmx_health_node_began,
                             .node_ended = lmx_health_node_ended,
                             .op_began = lmx_health_op_began,
                             .op_ended = lmx_health_op_ended,
                             .opened = open_health,
                             .closed = close_health,
                             .push = push,
                             .free = free_health};
    pthread_mutex_init(&h->lock, NULL);
    lmx_gradients_init(&h->came);
    h->looker.wants_stats = stats;
    Py_INCREF(allowed);
    Py_INCREF(asked);
    Py_INCREF(ask);
    h->allowed = allowed;
    h->asked = asked;
    h->ask = ask;
    h->broke = (lmx_first_failure){.push = push_so_far, .self = h, .tell = broke == Py_None ? NULL : broke};
    Py_XINCREF(h->broke.tell);
    if (gradients) c->watched.nodes = true;
    lmx_listen(c, &h->base);
    Py_RETURN_NONE;
}
