/* SPDX-License-Identifier: Apache-2.0
 * The type Dry: answers operators on fake tensors. A rule of the core (vocab/shapes.def) or, for views,
 * torch's own view of the same address answers here. All others go to the Python function that Dry was
 * given: torch's shape functions, which take a hundred times as long. */
#include "dry/dry.h"
#include "base/ext.h"
#include "base/tables.h"
#include "modules/snapshot.h"
#include "native/ledger.h"
#include "observe/observe.h"
#include "observe/open_capture.h"
#include "torch/tensor.h"
#include "torch/values.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static lmx_dry *self_of(PyObject *self) { return (lmx_dry *)self; }

typedef enum way { BY_RULE, BY_VIEW, BY_OTHERS } way;

typedef struct entry {
    int32_t rule, workspace;
    way way;
    bool adds, writes; /* aten::add; it writes to its first argument */
    bool unsafe;       /* a view that autograd does not treat as one */
    bool asks;         /* torch's kernel is asked what it accepts */
    lmx_repeats repeats;
    const char *elsewhere; /* callers with another path in a real run, between spaces; or NULL */
} entry;

enum { MAX_ARGS = 64, MAX_INTS = 64 };

/* The arguments of one operator, read. */
typedef struct reading {
    lmx_dry *d;
    lam_op_arg in[MAX_ARGS];
    const int64_t *strides[MAX_ARGS];
    PyObject *object[MAX_ARGS]; /* borrowed */
    int64_t ints[MAX_INTS];
    int32_t n, n_ints, n_fake, n_known;
} reading;

/* == operators ========================================================================================= */

static bool writes(const char *name) {
    size_t n = strlen(name);
    return n > 2 && name[n - 1] == '_' && name[n - 2] != '_';
}

static bool learn(lmx_dry *d, PyObject *function, entry *out) {
    PyObject *result = PyObject_CallFunctionObjArgs(d->about, function, NULL);
    PyObject *callers;
    const char *name;
    int answer, repeats, asks;
    bool ok = result && PyTuple_Check(result) &&
              PyArg_ParseTuple(result, "siOip", &name, &answer, &callers, &repeats, &asks);
    if (ok)
        *out = (entry){answer == BY_RULE ? lam_shape_rule(name) : -1,
                       lam_workspace_rule(name),
                       (enum way)answer,
                       strcmp(name, "aten::add") == 0,
                       writes(name),
                       strstr(name, "unsafe_") != NULL,
                       asks != 0,
                       (enum lmx_repeats)repeats,
                       NULL};
    /* The text lives as long as the entry. */
    if (ok && callers != Py_None)
        ok = PyList_Append(d->held, callers) == 0 && (out->elsewhere = lmx_utf8(callers)) != NULL;
    Py_XDECREF(result);
    return ok;
}

static bool entry_of(lmx_dry *d, PyObject *function, entry *out) {
    int32_t at = lmx_map_get(&d->functions, function);
    if (at >= 0) {
        *out = ((entry *)d->entries.data)[at];
        return true;
    }
    if (!learn(d, function, out)) return false;
    entry *to = lmx_vec_push(&d->entries, sizeof *to, 1);
    bool ok = to && PyList_Append(d->held, function) == 0;
    if (ok) *to = *out;
    if (ok && lmx_map_put(&d->functions, function, (int32_t)d->entries.n - 1)) return true;
    if (!PyErr_Occurred()) PyErr_NoMemory();
    return false;
}

/* == arguments ========================================================================================= */

static lam_op_arg *push(reading *r, int32_t position, PyObject *object) {
    if (r->n == MAX_ARGS) return NULL;
    r->object[r->n] = object;
    r->in[r->n] = (lam_op_arg){.position = position, .dtype = -1, .device = -1, .ndim = -1};
    return &r->in[r->n++];
}

static bool push_tensor(reading *r, int32_t position, PyObject *o) {
    lam_op_arg *a = push(r, position, o);
    lmx_plain p;
    if (!a || !lmx_plain_of(r->d, o, &p)) return false;
    a->is_tensor = true;
    a->dtype = p.dtype;
    a->ndim = p.ndim;
    a->sizes = p.sizes;
    r->strides[r->n - 1] = p.strides;
    if (Py_TYPE(o) == r->d->known)
        r->n_known++;
    else
        r->n_fake++;
    return true;
}

static bool whole(PyObject *o, int64_t *out) {
    if (!PyLong_Check(o)) return false;
    *out = PyLong_AsLongLong(o);
    if (!PyErr_Occurred()) return true;
    PyErr_Clear();
    return false;
}

static bool push_list(reading *r, int32_t position, PyObject *list) {
    Py_ssize_t n = PySequence_Size(list);
    bool is_list = PyList_Check(list);
    int64_t *ints = r->ints + r->n_ints;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = is_list ? PyList_GetItem(list, i) : PyTuple_GetItem(list, i);
        if (lmx_dry_is(r->d, item)) {
            if (r->n_ints != ints - r->ints || !push_tensor(r, position, item)) return false;
        } else if (r->n_ints == MAX_INTS || !whole(item, &r->ints[r->n_ints++])) {
            return false;
        }
    }
    int32_t n_ints = r->n_ints - (int32_t)(ints - r->ints);
    if (n_ints != n && n_ints != 0) return false;
    if (n_ints == 0 && n > 0) return true;
    lam_op_arg *a = push(r, position, list);
    if (a) a->value = (lam_value){.type = LAM_INTS, .n = n_ints, .ints = ints};
    return a != NULL;
}

/* False for values that no rule reads: a real tensor, a type, a text. */
static bool push_one(reading *r, int32_t position, PyObject *o) {
    if (lmx_dry_is(r->d, o)) return push_tensor(r, position, o);
    if (PyList_Check(o) || PyTuple_Check(o)) return push_list(r, position, o);
    lam_op_arg *a = push(r, position, o);
    if (!a) return false;
    if (o == Py_None) return true;
    if (PyFloat_Check(o)) {
        a->value = (lam_value){.type = LAM_FLOAT, .f = PyFloat_AsDouble(o)};
        return true;
    }
    a->value.type = PyBool_Check(o) ? LAM_BOOL : LAM_INT;
    return whole(o, &a->value.i);
}

static bool read_positional(reading *r, lmx_dry *d, PyObject *args) {
    Py_ssize_t n = PyTuple_Check(args) ? PyTuple_Size(args) : -1;
    r->d = d;
    r->n = r->n_ints = r->n_fake = r->n_known = 0;
    if (n < 0 || n > MAX_ARGS) return false;
    for (Py_ssize_t i = 0; i < n; i++)
        if (!push_one(r, (int32_t)i, PyTuple_GetItem(args, i))) return false;
    return r->n_fake > 0;
}

/* == answers =========================================================================================== */

static PyObject *one_result(const reading *r, lam_order order, const lam_result *out) {
    if (out->in >= 0) {
        PyObject *same = r->object[out->in];
        Py_INCREF(same);
        return same;
    }
    int64_t strides[LAM_MAX_AXES];
    const lmx_operands operands = {r->n, r->in, r->strides};
    if (!lmx_lay_out(&operands, order, out, strides)) return NULL;
    const lmx_plain p = {out->dtype, out->ndim, out->sizes, strides};
    return lmx_fake(r->d, r->d->fake, &p, false);
}

static PyObject *pack(const reading *r, lam_order order, const lam_result *out, int32_t n) {
    PyObject *first = one_result(r, order, out);
    if (!first || n == 1) return first;
    PyObject *all = PyTuple_New(n);
    if (!all || PyTuple_SetItem(all, 0, first) < 0) {
        Py_XDECREF(all);
        return NULL;
    }
    for (int32_t i = 1; all && i < n; i++) {
        PyObject *next = one_result(r, order, &out[i]);
        if (!next || PyTuple_SetItem(all, i, next) < 0) Py_CLEAR(all);
    }
    return all;
}

/* NULL without an exception if no rule applies. */
static PyObject *by_rule(lmx_dry *d, int32_t rule, PyObject *args, PyObject *kwargs) {
    lam_result out[LAM_MAX_RESULTS];
    reading r;
    if (rule < 0 || !lmx_dry_harmless(kwargs) || !read_positional(&r, d, args)) return NULL;
    int32_t n = lam_shape_run(rule, r.in, r.n, out);
    if (n == 0) return NULL;
    /* Known values become unknown when something unknown is written to them. */
    if (out->in >= 0 && Py_TYPE(r.object[out->in]) == d->known) return NULL;
    return pack(&r, lam_shape_order(rule), out, n);
}

static PyObject *each_as_subclass(lmx_dry *d, PyObject *type, PyObject *o) {
    if (lmx_dry_is(d, o)) {
        Py_INCREF(o);
        return o;
    }
    if (PyType_IsSubtype(Py_TYPE(o), d->st->torch.tensor))
        return PyObject_CallFunctionObjArgs(d->subclass, type, o, Py_False, NULL);
    Py_ssize_t n = PyList_Check(o) || PyTuple_Check(o) ? PySequence_Size(o) : -1;
    PyObject *list = n >= 0 ? PySequence_List(o) : NULL;
    for (Py_ssize_t i = 0; list && i < n; i++) {
        PyObject *item = each_as_subclass(d, type, PyList_GetItem(list, i));
        if (!item || PyList_SetItem(list, i, item) < 0) Py_CLEAR(list);
    }
    return list;
}

static PyObject *first_of(PyObject *args) {
    return PyTuple_Check(args) && PyTuple_Size(args) > 0 ? PyTuple_GetItem(args, 0) : NULL;
}

/* torch's own kernel makes the view. It touches no data: it makes another tensor at the address. */
static PyObject *by_view(lmx_dry *d, PyObject *function, PyObject *args, PyObject *kwargs) {
    PyObject *first = first_of(args);
    if (!first || !lmx_dry_is(d, first)) return NULL;
    PyObject *guard = lmx_dry_below(d), *made = NULL, *out = NULL;
    if (guard) made = PyObject_Call(function, args, kwargs == Py_None ? NULL : kwargs);
    if (made) out = each_as_subclass(d, (PyObject *)lmx_class_of_views(d, first), made);
    Py_XDECREF(made);
    return lmx_dry_above(d, guard, out);
}

static PyObject *by_others(lmx_dry *d, PyObject *function, PyObject *args, PyObject *kwargs) {
    return PyObject_CallFunctionObjArgs(d->slow, function, args, kwargs ? kwargs : Py_None, NULL);
}

/* Asks for the operator's workspace: measured, or predicted by a rule, or unknown. */
static bool ask_workspace(lmx_dry *d, const entry *e, PyObject *function, PyObject *args, PyObject *kwargs,
                          PyObject *out, lmx_noted *noted) {
    reading r;
    bool read = e->workspace >= 0 && read_positional(&r, d, args);
    bool rough = !read || lam_workspace_rough(e->workspace, r.in, r.n);
    PyObject *result = PyObject_CallFunctionObjArgs(d->taken, function, args, kwargs ? kwargs : Py_None, out,
                                                    rough ? Py_False : Py_True, NULL);
    if (!result) return false;
    *noted = (lmx_noted){LAM_TAKEN_UNKNOWN, 0, -1};
    if (PyTuple_Check(result) && PyTuple_Size(result) == 3 &&
        whole(PyTuple_GetItem(result, 0), &noted->bytes) && whole(PyTuple_GetItem(result, 1), &noted->left))
        noted->what = PyTuple_GetItem(result, 2) == Py_True ? LAM_TAKEN_WORKSPACE : LAM_TAKEN_ROUGHLY;
    if (noted->what == LAM_TAKEN_UNKNOWN && read) {
        noted->what = rough ? LAM_TAKEN_ROUGHLY : LAM_TAKEN_WORKSPACE;
        noted->bytes = lam_workspace(e->workspace, r.in, r.strides, r.n, d->cpu);
    }
    Py_DECREF(result);
    return true;
}

static void note_workspace(lmx_ledger *ledger, const lmx_noted *noted) {
    if (noted->left >= 0) lmx_ledger_left(ledger, noted->left);
    lmx_ledger_note(ledger, noted->bytes, noted->what);
}

/* True if the answered operator's memory is followed, and no operator was answered inside it. */
static lmx_ledger *ledger_of(const lmx_dry *d) {
    lmx_ledger *ledger = lmx_ledger_of(d);
    return ledger && lmx_ledger_turn(ledger) == d->turn ? ledger : NULL;
}

/* Completes an answer that was not given before: asks for its workspace, and keeps it under `key`, if any.
 * `to_first`: the sum was written to the first operand. False with an exception. */
static bool complete(lmx_dry *d, const entry *e, PyObject *key, PyObject *function, PyObject *args,
                     PyObject *kwargs, PyObject *out, bool to_first) {
    lmx_noted noted = {LAM_TAKEN_UNKNOWN, 0, -1};
    lmx_ledger *ledger = e->way == BY_VIEW ? NULL : ledger_of(d);
    if (ledger && !ask_workspace(d, e, function, args, kwargs, out, &noted)) return false;
    if (ledger) note_workspace(ledger, &noted);
    bool whole = ledger || e->way == BY_VIEW || !lmx_ledger_of(d);
    if (!key || to_first || d->special || !whole) return true;
    return lmx_repeats_keep(d, key, args, out, e->repeats, &noted);
}

static PyObject *answer(lmx_dry *d, PyObject *function, PyObject *args, PyObject *kwargs) {
    entry e;
    if (!entry_of(d, function, &e) || !lmx_dry_look_back(d)) return NULL;
    PyObject *first = first_of(args);
    if (e.writes && first && lmx_dry_is(d, first) && !lmx_dry_wrote(d, first)) return NULL;
    bool elsewhere = lmx_dry_elsewhere(d, e.elsewhere);
    PyObject *out = NULL;
    if (!elsewhere && e.adds && lmx_ledger_of(d)) out = lmx_added_in_place(d, args);
    if (!out && PyErr_Occurred()) return NULL;
    bool to_first = out != NULL;
    PyObject *key = elsewhere ? NULL : lmx_repeats_key(d, e.repeats, function, args, kwargs);
    lmx_noted noted;
    bool given = key && lmx_repeats_given(d, key, args, &out, &noted);
    bool refused = !given && e.asks && !lmx_dry_ask(d, function, args, kwargs);
    if (refused) Py_CLEAR(out);
    if (given && out && e.way != BY_VIEW && lmx_ledger_of(d)) note_workspace(lmx_ledger_of(d), &noted);
    if (!given && !elsewhere && !out && !refused && e.way == BY_RULE) out = by_rule(d, e.rule, args, kwargs);
    if (!given && !elsewhere && e.way == BY_VIEW) out = by_view(d, function, args, kwargs);
    /* A kernel for other kinds of tensors: Python refuses it. */
    if (!out && e.way == BY_VIEW && PyErr_ExceptionMatches(PyExc_NotImplementedError)) PyErr_Clear();
    if (e.way == BY_VIEW && !e.unsafe && out && !lmx_dry_viewed(d, first, out)) Py_CLEAR(out);
    if (!out && !PyErr_Occurred()) out = by_others(d, function, args, kwargs);
    if (out && !given && !complete(d, &e, key, function, args, kwargs, out, to_first)) Py_CLEAR(out);
    Py_XDECREF(key);
    return out && d->suppose && e.way == BY_RULE && !e.writes ? lmx_supposed(d, function, out) : out;
}

/* __torch_dispatch__(function, types, args=(), kwargs=None), as of a mode */
static PyObject *dry_dispatch(PyObject *self, PyObject *const *v, Py_ssize_t n) {
    lmx_dry *d = self_of(self);
    if (PyErr_CheckSignals()) return NULL; /* backward passes may run no Python */
    if (n < 2 || n > 4)
        return PyErr_Format(PyExc_TypeError, "__torch_dispatch__ takes 2 to 4 arguments, not %zd", n);
    PyObject *args = n > 2 ? v[2] : NULL, *none = args ? NULL : PyTuple_New(0);
    if (!args && !none) return NULL;
    lmx_capture *c = (lmx_capture *)d->capture;
    bool paused = c && c->watched.paused, before = d->paused, special = d->special;
    d->paused = paused;
    d->special = false;
    int32_t op = d->op;
    int64_t turn = d->turn;
    if (c && c->dry.ledger) {
        d->op = (int32_t)lmx_observer_own(c->watched.observer) - 1;
        lmx_ledger_at(c->dry.ledger, d->op, paused && !before);
        d->turn = lmx_ledger_turn(c->dry.ledger);
    }
    if (c) c->watched.paused = true;
    PyObject *given = args ? args : none, *kwargs = n > 3 ? v[3] : NULL;
    PyObject *out = d->real ? PyObject_Call(v[0], given, kwargs == Py_None ? NULL : kwargs)
                            : answer(d, v[0], given, kwargs);
    if (c) c->watched.paused = paused;
    d->paused = before;
    d->special = special;
    d->op = op;
    d->turn = turn;
    Py_XDECREF(none);
    return out;
}

/* == the type ========================================================================================== */

static PyObject *attribute(PyObject *from, const char *name) {
    PyObject *o = from ? PyObject_GetAttrString(from, name) : NULL;
    if (!o) PyErr_Clear();
    return o;
}

/* Loads torch's functions; false with an exception if this torch lacks one. */
static bool load(lmx_dry *d) {
    lmx_state *st = d->st;
    PyObject *low = lmx_imported("torch._C"), *aoti = attribute(low, "_aoti");
    void *library = lmx_torch_library();
    d->subclass = attribute((PyObject *)st->torch.tensor, "_make_subclass");
    d->steal = attribute(aoti, "alloc_tensors_by_stealing_from_void_ptrs");
    d->below = attribute(low, "_DisableTorchDispatch");
    static const char *const plain[LMX_N_PLAIN] = {"device", "dtype", "layout", "memory_format"};
    PyObject *torch = lmx_imported("torch");
    for (int i = 0; i < LMX_N_PLAIN; i++) d->plain[i] = attribute(torch, plain[i]);
    Py_XDECREF(torch);
    bool ok = library && st->torch.offset >= 0 && d->subclass && d->steal && d->below &&
              lmx_symbol(library, "aoti_torch_create_tensor_from_blob", &d->api.make) &&
              lmx_symbol(library, "aoti_torch_get_strides", &d->api.strides);
    if (ok) lmx_symbol(library, "torch_from_blob", &d->api.owned);
    Py_XDECREF(aoti);
    Py_XDECREF(low);
    if (library) dlclose(library); /* torch keeps it loaded */
    if (!ok)
        lmx_fail(st, LAM_UNSUPPORTED, NULL,
                 "this torch does not offer what a dry run needs: tensors without memory, made by its "
                 "C functions; leave dry=True out to run the model");
    return ok;
}

static PyObject *dry_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"fake", "known", "slow", "about", "ask", NULL};
    PyObject *fake, *known, *slow, *about, *ask;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!OOO:Dry", names, &PyType_Type, &fake, &PyType_Type,
                                     &known, &slow, &about, &ask))
        return NULL;
    lmx_state *st = lmx_state_of_type(type);
    if (!st || !lmx_torch_ready(st)) return NULL;
    lmx_dry *d = (lmx_dry *)PyType_GenericAlloc(type, 0);
    if (!d) return NULL;
    d->st = st;
    Py_INCREF(fake);
    Py_INCREF(known);
    Py_INCREF(slow);
    Py_INCREF(about);
    Py_INCREF(ask);
    d->fake = (PyTypeObject *)fake;
    d->known = (PyTypeObject *)known;
    d->slow = slow;
    d->about = about;
    d->ask = ask;
    d->dtype = -1;
    d->held = PyList_New(0);
    d->leaves = PyList_New(0);
    d->others = PyList_New(0);
    d->repeats = PyDict_New();
    if (!d->held || !d->leaves || !d->others || !d->repeats || !load(d)) Py_CLEAR(d);
    if (d && !st->torch.fake) {
        Py_INCREF(fake);
        st->torch.fake = (PyTypeObject *)fake;
        lmx_torch_forget_types(&st->torch);
    }
    return (PyObject *)d;
}

static PyObject *dry_swap(PyObject *self, PyObject *snapshot) {
    lmx_dry *d = self_of(self);
    if (Py_TYPE(snapshot) != d->st->snapshot_type)
        return PyErr_Format(PyExc_TypeError, "swap takes a Snapshot, not %R", snapshot);
    if (!lmx_swap(d, (lmx_snapshot *)snapshot)) return NULL;
    Py_RETURN_NONE;
}

/* Operators that `function` runs count as the model's, as if it ran on the CPU. */
static PyObject *dry_opened(PyObject *self, PyObject *args) {
    lmx_dry *d = self_of(self);
    lmx_capture *c = (lmx_capture *)d->capture;
    PyObject *function, *given, *kwargs;
    if (!PyArg_ParseTuple(args, "OO!O!:opened", &function, &PyTuple_Type, &given, &PyDict_Type, &kwargs))
        return NULL;
    d->special = true;
    if (c) c->watched.paused = d->paused;
    PyObject *out = c && c->watched.mode
                        ? PyObject_CallMethod(c->watched.mode, "inside", "OOO", function, given, kwargs)
                        : PyObject_Call(function, given, kwargs);
    if (c) c->watched.paused = true;
    return out;
}

static PyObject *dry_serves(PyObject *self, PyObject *capture) {
    lmx_dry *d = self_of(self);
    if (Py_TYPE(capture) != d->st->capture_type)
        return PyErr_Format(PyExc_TypeError, "serves takes a Capture, not %R", capture);
    Py_INCREF(capture);
    Py_XDECREF(d->capture);
    d->capture = capture;
    const lmx_record_api *api = lmx_record_api_of(d->st);
    lmx_capture *c = (lmx_capture *)capture;
    c->dry.modes = 1 + (api && api->modes ? (int32_t)api->modes() : 0);
    c->dry.nowhere = lmx_dry_address;
    lmx_reads_values(d->st); /* before the run, in which torch makes fake tensors only */
    Py_RETURN_NONE;
}

static PyObject *dry_real(PyObject *self, PyObject *real) {
    lmx_dry *d = self_of(self);
    PyObject *was = PyBool_FromLong(d->real);
    d->real = PyObject_IsTrue(real) > 0;
    return was;
}

/* From now on lifetimes of memory are noted, for the model of the current capture. */
static PyObject *dry_follow(PyObject *self, PyObject *args) {
    lmx_dry *d = self_of(self);
    long n;
    PyObject *lone, *taken;
    if (!PyArg_ParseTuple(args, "lOO:follow", &n, &lone, &taken)) return NULL;
    lmx_capture *c = (lmx_capture *)d->capture;
    if (!c || !c->watched.ops || c->dry.ledger)
        return lmx_fail(d->st, LAM_USAGE, NULL, "memory is followed once in a capture of operators");
    if (!d->api.owned)
        return lmx_fail(d->st, LAM_UNSUPPORTED, NULL,
                        "this torch does not report when memory is freed (its library exports no "
                        "torch_from_blob, which 2.11 and later do)");
    Py_INCREF(lone);
    Py_XDECREF(d->lone);
    d->lone = lone;
    Py_INCREF(taken);
    Py_XDECREF(d->taken);
    d->taken = taken;
    d->cpu = lam_cpu_here(n > 0 && n < INT32_MAX ? (int32_t)n : 1);
    c->dry.ledger = lmx_ledger_new();
    if (!c->dry.ledger) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

/* Floating-point tensors from before the run are taken as ones of this type. */
static PyObject *dry_cast(PyObject *self, PyObject *name) {
    lmx_dry *d = self_of(self);
    int32_t dtype = lam_dtype_by_name(lmx_utf8(name));
    if (dtype < 0) return lmx_fail(d->st, LAM_USAGE, NULL, "there is no type %s", lmx_utf8(name));
    d->dtype = dtype;
    Py_RETURN_NONE;
}

static PyObject *dry_suppose(PyObject *self, PyObject *suppose) {
    lmx_dry *d = self_of(self);
    Py_CLEAR(d->suppose);
    if (suppose != Py_None) {
        Py_INCREF(suppose);
        d->suppose = suppose;
    }
    Py_RETURN_NONE;
}

static PyObject *dry_with(PyObject *self, PyObject *tensor) {
    lmx_dry *d = self_of(self);
    if (!PyObject_TypeCheck(tensor, d->st->torch.tensor))
        return PyErr_Format(PyExc_TypeError, "known takes a tensor, not %R", tensor);
    return lmx_fake_with(d, tensor);
}

static int dry_traverse(PyObject *self, visitproc visit, void *arg) {
    lmx_dry *d = self_of(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(d->fake);
    Py_VISIT(d->known);
    Py_VISIT(d->slow);
    Py_VISIT(d->about);
    Py_VISIT(d->ask);
    Py_VISIT(d->lone);
    Py_VISIT(d->taken);
    Py_VISIT(d->subclass);
    Py_VISIT(d->steal);
    Py_VISIT(d->below);
    Py_VISIT(d->capture);
    Py_VISIT(d->held);
    Py_VISIT(d->leaves);
    Py_VISIT(d->others);
    Py_VISIT(d->written);
    Py_VISIT(d->seen_last);
    Py_VISIT(d->chain);
    Py_VISIT(d->rebuilt);
    Py_VISIT(d->repeats);
    Py_VISIT(d->suppose);
    Py_VISIT(d->inference);
    Py_VISIT(d->class_of);
    for (int i = 0; i < LMX_N_PLAIN; i++) Py_VISIT(d->plain[i]);
    return 0;
}

static int dry_clear(PyObject *self) {
    lmx_dry *d = self_of(self);
    lmi_map_free(&d->functions);
    lmi_map_free(&d->asked);
    lmi_map_free(&d->swapped);
    lmi_map_free(&d->wholes);
    lmi_map_free(&d->classed);
    lmi_vec_free(&d->entries);
    Py_CLEAR(d->fake);
    Py_CLEAR(d->known);
    Py_CLEAR(d->slow);
    Py_CLEAR(d->about);
    Py_CLEAR(d->ask);
    Py_CLEAR(d->lone);
    Py_CLEAR(d->taken);
    Py_CLEAR(d->subclass);
    Py_CLEAR(d->steal);
    Py_CLEAR(d->below);
    Py_CLEAR(d->capture);
    Py_CLEAR(d->held);
    Py_CLEAR(d->leaves);
    Py_CLEAR(d->others);
    Py_CLEAR(d->written);
    Py_CLEAR(d->seen_last);
    Py_CLEAR(d->chain);
    Py_CLEAR(d->rebuilt);
    Py_CLEAR(d->repeats);
    Py_CLEAR(d->suppose);
    Py_CLEAR(d->inference);
    Py_CLEAR(d->class_of);
    for (int i = 0; i < LMX_N_PLAIN; i++) Py_CLEAR(d->plain[i]);
    lmi_vec_free(&d->words);
    return 0;
}

static void dry_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    dry_clear(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyMethodDef dry_methods[] = {
    {"__torch_dispatch__", (PyCFunction)(void (*)(void))dry_dispatch, METH_FASTCALL,
     PyDoc_STR("__torch_dispatch__($self, function, types, args=(), kwargs=None, /)\n--\n\nComputes the "
               "result of one operator on fake tensors.")},
    {"swap", dry_swap, METH_O,
     PyDoc_STR("swap($self, snapshot, /)\n--\n\nReplaces the model's tensors by fake ones; "
               "snapshot.restore() undoes it.")},
    {"serves", dry_serves, METH_O,
     PyDoc_STR("serves($self, capture, /)\n--\n\nNames the capture of this dry run. Operators that run to "
               "compute an answer are not the model's, and times mean nothing.")},
    {"opened", dry_opened, METH_VARARGS,
     PyDoc_STR("opened($self, function, args, kwargs, /)\n--\n\nCalls `function`. The operators that it runs "
               "are the model's.")},
    {"owns", lmx_dry_owns, METH_O | METH_STATIC,
     PyDoc_STR("owns(address, /)\n--\n\nReturns True for an address of a fake tensor.")},
    {"real", dry_real, METH_O,
     PyDoc_STR("real($self, real, /)\n--\n\nWhile `real` is True, operators run as in a real run. Returns "
               "what it was before.")},
    {"caller", lmx_dry_caller, METH_O,
     PyDoc_STR("caller($self, level, /)\n--\n\nReturns the name of the operator `level` levels above the "
               "current one; None if it is not known.")},
    {"casts", lmx_dry_casts, METH_O,
     PyDoc_STR("casts($self, device, /)\n--\n\nReturns whether autocast for the device of this dispatch key "
               "converts the arguments of the operators inside the current one.")},
    {"here", lmx_dry_here, METH_NOARGS,
     PyDoc_STR("here($self, /)\n--\n\nReturns the number of the current operator if operators are observed "
               "by torch's dispatch mode, else -1.")},
    {"aside", lmx_dry_aside, METH_VARARGS,
     PyDoc_STR("aside($self, at=-1, /)\n--\n\nExcludes the current operator, or operator `at`, from the "
               "counts: a real run does not have it.")},
    {"whole", lmx_dry_whole, METH_O,
     PyDoc_STR("whole($self, level, /)\n--\n\nMarks the operator `level` levels above: in a real run it does "
               "itself what other operators do here.")},
    {"decided", lmx_dry_decided, METH_O,
     PyDoc_STR("decided($self, level, /)\n--\n\nMarks the operator `level` levels above: values decide which "
               "operators a real run has instead.")},
    {"before", lmx_dry_before, METH_O,
     PyDoc_STR("before($self, what, /)\n--\n\nTakes new memory for what is there before the run: `what` is "
               "\"state\", of an optimizer, or \"gradient\"; None: no longer.")},
    {"belongs", lmx_dry_belongs, METH_VARARGS,
     PyDoc_STR("belongs($self, tensor, parameter, /)\n--\n\nNotes that an optimizer keeps `tensor` for "
               "`parameter`; None: for no single parameter. False if its memory is not followed.")},
    {"step", lmx_dry_step, METH_VARARGS,
     PyDoc_STR(
         "step($self, name, op, decided, /)\n--\n\nNotes that the operators from number `op` on are the "
         "step of the optimizer `name`. `decided`: made-up values may decide which ones these are.")},
    {"done", lmx_dry_done, METH_NOARGS,
     PyDoc_STR("done($self, /)\n--\n\nReturns the number of operators so far.")},
    {"more", lmx_dry_more, METH_O,
     PyDoc_STR("more($self, why, /)\n--\n\nNotes why more memory may be taken than is followed.")},
    {"suppose", dry_suppose, METH_O,
     PyDoc_STR("suppose($self, suppose, /)\n--\n\nReplaces an operator's results, if there may be an unknown "
               "one of one element, by `suppose(function, results)`; None: no longer.")},
    {"fake_of", lmx_dry_fake_of, METH_O,
     PyDoc_STR(
         "fake_of($self, tensor, /)\n--\n\nReturns the fake tensor of a real one, the same each time.")},
    {"in_class", lmx_dry_in_class, METH_VARARGS,
     PyDoc_STR(
         "in_class($self, fake, cls, /)\n--\n\nGives a fake tensor another class until over() is called.")},
    {"over", lmx_dry_over, METH_NOARGS,
     PyDoc_STR("over($self, /)\n--\n\nThe run is over: all fake tensors have their own class again.")},
    {"leaves", lmx_dry_leaves, METH_NOARGS,
     PyDoc_STR("leaves($self, /)\n--\n\nReturns a pair for each leaf that wants a gradient and was replaced: "
               "the real tensor and the fake one.")},
    {"follow", dry_follow, METH_VARARGS,
     PyDoc_STR("follow($self, threads, lone, taken, /)\n--\n\nNotes when memory would be allocated and freed "
               "if torch uses `threads` threads. `lone(tensor)`: whether only the autograd engine holds it. "
               "`taken(function, args, kwargs, out, ruled)` returns (bytes that an operator allocates beside "
               "its results, bytes of the results or -1, whether this is sure), or None if it was not "
               "measured. `ruled`: the core has a rule for it too.")},
    {"alike", lmx_dry_alike, METH_VARARGS,
     PyDoc_STR(
         "alike($self, inference, class_of, /)\n--\n\nFake tensors of tensors from an inference mode are "
         "from one, made under `inference`, torch's guard of that mode; None: they are not. "
         "`class_of(cls)`: the class for those of tensors of a program's class.")},
    {"cast", dry_cast, METH_O,
     PyDoc_STR("cast($self, dtype, /)\n--\n\nTreats floating-point tensors that existed before as of this "
               "dtype, given by its name in torch.")},
    {"known", dry_with, METH_O,
     PyDoc_STR(
         "known($self, tensor, /)\n--\n\nReturns a fake tensor that knows the values of this real one.")},
    {"beside", lmx_dry_beside, METH_O,
     PyDoc_STR("beside($self, tensor, /)\n--\n\nReturns a new fake tensor with the layout of this one, whose "
               "memory no operator takes.")},
    {"like", lmx_dry_like, METH_O,
     PyDoc_STR("like($self, tensor, /)\n--\n\nReturns a new fake tensor with the layout of this one.")},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot dry_slots[] = {
    {Py_tp_doc,
     "Dry(fake, known, slow, about, ask)\n--\n\nAnswers operators on tensors of the class `fake` (`known` is "
     "its subclass with values) with more of them, without computing. `ask(function, args, kwargs, "
     "elsewhere, number)` raises if the kernel refuses such arguments; `number`: their hash."},
    {Py_tp_new, dry_new},
    {Py_tp_dealloc, dry_dealloc},
    {Py_tp_traverse, dry_traverse},
    {Py_tp_clear, dry_clear},
    {Py_tp_methods, dry_methods},
    {0, NULL},
};

PyType_Spec lmx_dry_spec = {
    "lamina._lamina.Dry",
    sizeof(lmx_dry),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    dry_slots,
};
