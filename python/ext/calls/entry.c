/* SPDX-License-Identifier: Apache-2.0
 * Puts lamina's entry into torch.nn.Module and takes it out, see entry.h. */
#include "calls/entry.h"
#include "base/ext.h"
#include "calls/compiler.h"
#include "torch/tensor.h"

enum { SLOTS = 8 };

lmx_slot *lmx_entry;

static struct {
    lmx_slot *unrestored; /* its original could not be restored yet, because memory ran out */
    PyObject *dict;       /* Module.__dict__, kept so that restoring needs no memory */
    PyObject *class_dict; /* the dict behind that proxy, or NULL */
    lmx_detour detour;    /* of the function Module.__call__ */
    lmx_slot detoured;    /* while the detour is in place: its copy and its function */
    lmx_slot slots[SLOTS];
} entry;

static lmx_targets reach;

/* == the method itself ================================================================================= */

#define METHOD(i)                                                                                            \
    static PyObject *call_##i(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names) {        \
        return reach.method(&entry.slots[i], self, args, n, names);                                          \
    }
/* clang-format off */
METHOD(0) METHOD(1) METHOD(2) METHOD(3) METHOD(4) METHOD(5) METHOD(6) METHOD(7)

#define DOC "__call__($self, /, *args, **kwargs)\n--\n\nCalls the module. A lamina capture is open."
#define ENTRY(i) {"__call__", (PyCFunction)(void (*)(void))call_##i, METH_FASTCALL | METH_KEYWORDS, DOC}
static PyMethodDef methods[SLOTS] = {ENTRY(0), ENTRY(1), ENTRY(2), ENTRY(3),
                                     ENTRY(4), ENTRY(5), ENTRY(6), ENTRY(7)};
/* clang-format on */

/* == installing ======================================================================================== */

PyObject *lmx_entry_current(lmx_state *st) {
    if (!entry.dict) entry.dict = PyObject_GetAttr((PyObject *)st->torch.module, st->n___dict__);
    return entry.dict ? PyObject_GetItem(entry.dict, st->n___call__) : NULL;
}

/* The dict behind Module.__dict__; NULL if it can't be reached. */
static PyObject *dict_behind(PyObject *proxy) {
    PyObject *gc = PyImport_ImportModule("gc");
    PyObject *shown = gc ? PyObject_CallMethod(gc, "get_referents", "O", proxy) : NULL;
    PyObject *dict = shown && PyList_Check(shown) ? PyList_GetItem(shown, 0) : NULL;
    if (dict && !PyDict_CheckExact(dict)) dict = NULL;
    Py_XINCREF(dict);
    Py_XDECREF(shown);
    Py_XDECREF(gc);
    PyErr_Clear();
    return dict;
}

/* True if Module, and with it every subclass, has `call` as its __call__ now. */
static bool is_set(lmx_state *st, PyObject *call) {
    PyObject *found = PyObject_GetAttr((PyObject *)st->torch.module, st->n___call__);
    Py_XDECREF(found);
    PyErr_Clear();
    return found == call;
}

/* Setting an attribute called __call__ checks the slots of every subclass that was ever imported: half a
 * millisecond, twice a capture. A Python function and a C method are reached through the same slot, so it
 * is enough to write the entry and to report that the type changed. */
static bool set_quickly(lmx_state *st, PyObject *old, PyObject *call) {
    if (!old || Py_TYPE(old) == &PyWrapperDescr_Type || Py_TYPE(call) == &PyWrapperDescr_Type) return false;
    if (!entry.class_dict && entry.dict) entry.class_dict = dict_behind(entry.dict);
    if (!entry.class_dict || lmx_get(entry.class_dict, st->n___call__) != old) return false;
    if (PyDict_SetItem(entry.class_dict, st->n___call__, call) < 0) PyErr_Clear();
    PyType_Modified(st->torch.module);
    return is_set(st, call);
}

static bool set_call(lmx_state *st, PyObject *old, PyObject *call) {
    return set_quickly(st, old, call) ||
           PyObject_SetAttr((PyObject *)st->torch.module, st->n___call__, call) == 0;
}

/* The slot to install over `current`; NULL if other code still refers to every slot's method. */
static lmx_slot *slot_for(PyObject *current) {
    for (lmx_slot *s = entry.slots; s < entry.slots + SLOTS; s++)
        if (s->method && (s->method == current || s->original == current)) return s;
    for (lmx_slot *s = entry.slots; s < entry.slots + SLOTS; s++)
        if (!s->method || Py_REFCNT(s->method) == 1) return s;
    return NULL;
}

static bool prepare(lmx_state *st, lmx_slot *s, PyObject *current) {
    if (s->method && (s->method == current || s->original == current)) return true;
    PyObject *method = PyDescr_NewMethod(st->torch.module, &methods[s - entry.slots]);
    if (!method) return false;
    PyObject *old_method = s->method, *old_original = s->original;
    Py_INCREF(current);
    s->method = method;
    s->original = current;
    Py_XDECREF(old_method);
    Py_XDECREF(old_original);
    return true;
}

/* `traced`: see lmx_entry_install. A method also gets the calls of the function by its name; a detour does so
 * too, unless the compiler's code expects the function's own code. */
static bool put_detour(PyObject *current, bool traced) {
    const bool compiles = lmx_detour_needs_code() && lmx_compiler_used();
    if (compiles && !traced) return false;
    if (!lmx_detour_prepare(&entry.detour, current, reach.detour, !compiles) ||
        !lmx_detour_install(&entry.detour))
        return false;
    entry.detoured = (lmx_slot){entry.detour.copy, current, true, false};
    lmx_entry = &entry.detoured;
    return true;
}

static bool put_method(lmx_state *st, PyObject *current) {
    lmx_slot *s = slot_for(current);
    bool ok = s && prepare(st, s, current) && (s->method == current || set_call(st, current, s->method));
    if (!s)
        lmx_fail(st, LAM_LIMIT, "torch.nn.Module.__call__",
                 "it was replaced by others during %d captures, and what replaced it still calls lamina; "
                 "undo that first",
                 SLOTS);
    if (ok) lmx_entry = s;
    return ok;
}

static bool take_out_detour(void) {
    bool ended, ours = lmx_detour_remove(&entry.detour, &ended);
    entry.unrestored = ended ? NULL : &entry.detoured;
    return ours;
}

bool lmx_entry_install(lmx_state *st, const lmx_targets *to, bool traced) {
    reach = *to;
    PyObject *current = lmx_entry_current(st);
    if (lmx_entry == &entry.detoured || entry.unrestored == &entry.detoured)
        take_out_detour(); /* __call__ may be another function now */
    lmx_entry = NULL;
    bool detoured = current && entry.unrestored != &entry.detoured && put_detour(current, traced);
    bool ok = current && (detoured || put_method(st, current));
    if (ok && entry.unrestored != &entry.detoured) entry.unrestored = NULL;
    Py_XDECREF(current);
    return ok;
}

bool lmx_entry_remove(lmx_state *st) {
    lmx_slot *s = lmx_entry ? lmx_entry : entry.unrestored;
    lmx_entry = NULL;
    if (!s) return true;
    PyObject *current = lmx_entry_current(st);
    bool ours = !current || current == s->method;
    if (s == &entry.detoured)
        ours = take_out_detour() && ours;
    else
        entry.unrestored = ours && !set_call(st, current, s->original) ? s : NULL;
    Py_XDECREF(current);
    PyErr_Clear();
    return ours;
}

bool lmx_entry_unrestored(void) { return entry.unrestored != NULL; }

bool lmx_entry_is_whole(lmx_state *st) {
    if (!lmx_entry) return false;
    PyObject *current = lmx_entry_current(st);
    Py_XDECREF(current);
    PyErr_Clear();
    return current == lmx_entry->method;
}

bool lmx_entry_shows(void) { return lmx_entry && (lmx_entry != &entry.detoured || entry.detour.detour_code); }
