/* SPDX-License-Identifier: Apache-2.0
 * Tensors whose storage differs from their shape: sparse ones, which store indices and values, and
 * weights that a quantised layer keeps packed for the machine, in an object that is not a tensor. The
 * layer's state has them unpacked. */
#include "base/ext.h"
#include "native/layout.h"
#include "torch/tensor.h"

#include <dlfcn.h>
#include <string.h>

/* -- sparse -------------------------------------------------------------------------------------------- */

/* The methods, and the functions of libtorch, that return the tensors of each layout, values last. */
#define CSR(name) "_ZN2at6native" name "_sparse_csrERKNS_6TensorE"
static const struct {
    const char *layout, *number, *parts[LMX_PARTS], *functions[LMX_PARTS];
} layouts[LMX_FORMS] = {
    {"torch.sparse_coo",
     "aoti_torch_layout_sparse_coo",
     {"_indices", "_values", NULL},
     {"_ZN2at6native15_indices_sparseERKNS_6TensorE", "_ZN2at6native14_values_sparseERKNS_6TensorE", NULL}},
    {"torch.sparse_csr",
     "aoti_torch_layout_sparse_csr",
     {"crow_indices", "col_indices", "values"},
     {CSR("23crow_indices"), CSR("22col_indices"), CSR("17values")}},
    {"torch.sparse_bsr",
     "aoti_torch_layout_sparse_bsr",
     {"crow_indices", "col_indices", "values"},
     {CSR("23crow_indices"), CSR("22col_indices"), CSR("17values")}},
    {"torch.sparse_csc",
     "aoti_torch_layout_sparse_csc",
     {"ccol_indices", "row_indices", "values"},
     {CSR("23ccol_indices"), CSR("22row_indices"), CSR("17values")}},
    {"torch.sparse_bsc",
     "aoti_torch_layout_sparse_bsc",
     {"ccol_indices", "row_indices", "values"},
     {CSR("23ccol_indices"), CSR("22row_indices"), CSR("17values")}},
};
#undef CSR

/* The number that a method without arguments returns; -1 with an exception. */
static int64_t ask(PyObject *tensor, const char *method) {
    PyObject *n = PyObject_CallMethod(tensor, method, NULL);
    int64_t value = n ? PyLong_AsLongLong(n) : -1;
    Py_XDECREF(n);
    return value;
}

static void read_part(PyObject *tensor, const char *name, lmx_sparse *out) {
    PyObject *part = PyObject_CallMethod(tensor, name, NULL);
    int64_t n = part ? ask(part, "numel") : -1, item = n >= 0 ? ask(part, "element_size") : -1;
    Py_XDECREF(part);
    lmx_sparse_add(out, n, item);
}

static int layout_of(PyObject *tensor) {
    PyObject *layout = PyObject_GetAttrString(tensor, "layout"), *text = layout ? PyObject_Str(layout) : NULL;
    const char *name = text ? lmx_utf8(text) : "";
    int i = 0;
    while (i < LMX_FORMS && strcmp(layouts[i].layout, name) != 0) i++;
    Py_XDECREF(layout);
    Py_XDECREF(text);
    return i;
}

bool lmx_sparse_read(PyObject *tensor, lmx_sparse *out, bool *sparse) {
    int layout = layout_of(tensor);
    *sparse = layout < LMX_FORMS;
    *out = *sparse ? (lmx_sparse){0} : (lmx_sparse){-1, -1, -1};
    for (int i = 0; *sparse && i < LMX_PARTS && layouts[layout].parts[i] && out->bytes >= 0; i++)
        read_part(tensor, layouts[layout].parts[i], out);
    return lmx_forgive();
}

PyObject *lmx_sparse_parts(PyObject *tensor) {
    int layout = layout_of(tensor);
    PyObject *parts = layout < LMX_FORMS ? PyList_New(0) : NULL;
    for (int i = 0; parts && i < LMX_PARTS && layouts[layout].parts[i]; i++) {
        PyObject *part = PyObject_CallMethod(tensor, layouts[layout].parts[i], NULL);
        if (!part || PyList_Append(parts, part) < 0) Py_CLEAR(parts);
        Py_XDECREF(part);
    }
    return lmx_forgive() ? parts : NULL;
}

/* The calling convention for C++ objects is known for this machine only. */
#if defined(__x86_64__) && defined(__linux__)
enum { RETURNS = 1 };
#else
enum { RETURNS = 0 };
#endif

/* Objects of a class point past the two words with which its table of functions begins. */
static void find_class(void *library, const char *name, const void **table) {
    const char *at;
    *table = lmx_symbol(library, name, &at) ? at + 2 * sizeof(void *) : NULL;
}

void lmx_sparse_load(lmx_shim *s, void *library) {
    bool all = RETURNS;
    for (int i = 0; i < LMX_FORMS; i++) {
        int32_t (*number)(void);
        s->forms[i].layout = lmx_symbol(library, layouts[i].number, &number) ? number() : -1;
        find_class(library, i ? "_ZTVN2at19SparseCsrTensorImplE" : "_ZTVN2at16SparseTensorImplE",
                   &s->forms[i].table);
        for (int k = 0; k < LMX_PARTS && layouts[i].functions[k]; k++)
            all = lmx_symbol(library, layouts[i].functions[k], &s->forms[i].parts[k]) && all;
    }
    lmx_symbol(library, "_ZN2at6native13values_nestedERKNS_6TensorE", &s->nested.parts[0]);
    find_class(library, "_ZTVN2at6native16NestedTensorImplE", &s->nested.table);
    lmx_symbol(library, "aoti_torch_get_layout", &s->layout);
    lmx_symbol(library, "aoti_torch_delete_tensor_object", &s->release);
    /* `release` frees with the process's operator delete, which the program or a preloaded library may
     * have replaced. */
    const bool made = lmx_symbol(RTLD_DEFAULT, "_Znwm", &s->room) || lmx_symbol(library, "_Znwm", &s->room);
    if (!all || !s->release || !made) s->room = NULL;
}

/* -- packed -------------------------------------------------------------------------------------------- */

enum { DEEPEST = 12 }; /* nesting, as of a packed layer in a packed recurrence, in a list */

static bool is_packed(PyObject *o) {
    PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE(o), "__name__");
    bool yes = name && strcmp(lmx_utf8(name), "ScriptObject") == 0;
    Py_XDECREF(name);
    PyErr_Clear();
    return yes;
}

/* The unpacked form of a packed weight. Its kernel writes to memory from torch, which a mode (a dry
 * run's or a user's) would replace by tensors without memory. */
static PyObject *unpack(PyObject *packed) {
    PyObject *low = PyImport_ImportModule("torch._C");
    PyObject *below = low ? PyObject_GetAttrString(low, "_DisableTorchDispatch") : NULL;
    PyObject *guard = below ? PyObject_CallFunctionObjArgs(below, NULL) : NULL;
    PyObject *in = guard ? PyObject_CallMethod(guard, "__enter__", NULL) : NULL;
    PyErr_Clear(); /* in an old torch the guard is active from its creation to its deletion */
    PyObject *state = PyObject_CallMethod(packed, "__getstate__", NULL);
    if (in) {
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        PyObject *out = PyObject_CallMethod(guard, "__exit__", "OOO", Py_None, Py_None, Py_None);
        if (!out) PyErr_Clear();
        Py_XDECREF(out);
        PyErr_Restore(type, value, trace);
    }
    Py_XDECREF(in);
    Py_XDECREF(guard);
    Py_XDECREF(below);
    Py_XDECREF(low);
    return state;
}

static bool collect(lmx_state *st, PyObject *o, int depth, PyObject *into, bool *complete) {
    if (lmx_is_tensor(st, o)) return PyList_Append(into, o) == 0;
    if (depth == DEEPEST) return true;
    bool ok = true;
    if (PyTuple_Check(o) || PyList_Check(o)) {
        Py_ssize_t n = PySequence_Size(o);
        for (Py_ssize_t i = 0; ok && i < n; i++) {
            PyObject *item = PySequence_GetItem(o, i);
            ok = item && collect(st, item, depth + 1, into, complete);
            Py_XDECREF(item);
        }
    } else if (is_packed(o)) {
        PyObject *state = unpack(o);
        if (!state) *complete = false;
        ok = state ? collect(st, state, depth + 1, into, complete) : lmx_forgive();
        Py_XDECREF(state);
    }
    return ok;
}

PyObject *lmx_unpacked(lmx_state *st, PyObject *value, bool *complete) {
    PyObject *tensors = is_packed(value) ? PyList_New(0) : NULL;
    *complete = true;
    if (tensors && !collect(st, value, 0, tensors, complete)) Py_CLEAR(tensors);
    return tensors;
}
