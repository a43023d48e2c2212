/* SPDX-License-Identifier: Apache-2.0
 * What the extension needs of torch, determined once: its types, its data types, and whether tensors can be
 * described through libtorch's exported C functions. These need the offset of the at::Tensor inside its
 * Python object, which no header promises: it is verified with a tensor whose handle torch itself returns.
 * Nothing is imported here. */
#include "base/ext.h"
#include "torch/tensor.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

PyObject *lmx_imported(const char *name) {
    PyObject *key = PyUnicode_FromString(name);
    PyObject *module = key ? PyImport_GetModule(key) : NULL;
    Py_XDECREF(key);
    if (!module) PyErr_Clear();
    return module;
}

/* module.path.to.attribute, a new reference; NULL without an exception. */
static PyObject *dig(PyObject *from, const char *first, const char *second) {
    PyObject *o = from ? PyObject_GetAttrString(from, first) : NULL;
    PyObject *inner = o && second ? PyObject_GetAttrString(o, second) : NULL;
    if (second) {
        Py_XDECREF(o);
        o = inner;
    }
    if (!o) PyErr_Clear();
    return o;
}

static PyTypeObject *as_type(PyObject *o) {
    if (o && !PyType_Check(o)) Py_CLEAR(o);
    return (PyTypeObject *)o;
}

/* == the C functions =================================================================================== */

static void *library_beside(PyObject *torch, const char *name) {
    PyObject *file = dig(torch, "__file__", NULL);
    char path[4096] = "";
    if (file) snprintf(path, sizeof path - 64, "%s", lmx_utf8(file));
    Py_XDECREF(file);
    char *slash = strrchr(path, '/');
    if (!slash) return NULL;
    snprintf(slash + 1, sizeof path - (size_t)(slash + 1 - path), "lib/%s", name);
    return dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
}

void *lmx_torch_library(void) {
    static const char *const names[] = {"libtorch_cpu.so", "libtorch_cpu.dylib", "libtorch.so"};
    PyObject *torch = lmx_imported("torch");
    void *handle = NULL;
    for (size_t i = 0; torch && !handle && i < sizeof names / sizeof *names; i++) {
        handle = library_beside(torch, names[i]);
        if (!handle) handle = dlopen(names[i], RTLD_NOLOAD | RTLD_LAZY);
    }
    Py_XDECREF(torch);
    return handle;
}

/* Copies, as POSIX recommends for making a function pointer of an object pointer. */
void lmx_shim_load(lmx_shim *s, void *library) {
    lmx_symbol(library, "aoti_torch_get_dim", &s->dim);
    lmx_symbol(library, "aoti_torch_get_sizes", &s->sizes);
    lmx_symbol(library, "aoti_torch_get_dtype", &s->dtype);
    lmx_symbol(library, "aoti_torch_get_device_type", &s->device);
    lmx_symbol(library, "aoti_torch_get_device_index", &s->device_index);
    lmx_symbol(library, "aoti_torch_get_data_ptr", &s->data);
    lmx_symbol(library, "aoti_torch_get_storage_offset", &s->offset);
    lmx_symbol(library, "aoti_torch_is_contiguous", &s->dense);
    lmx_symbol(library, "aoti_torch_get_strides", &s->strides);
    lmx_symbol(library, "aoti_torch_get_storage_size", &s->storage);
    lmx_symbol(library, "torch_get_const_data_ptr", &s->peek);
    lmx_symbol(library, "aoti_torch__reinterpret_tensor", &s->again);
    lmx_symbol(library, "_ZN2at6native6is_negERKNS_6TensorE", &s->negated);
    lmx_symbol(library, "_ZN3c1019UndefinedTensorImpl10_singletonE", &s->undefined);
    lmx_sparse_load(s, library);
}

static bool load_shim(lmx_torch *t) {
    void *library = lmx_torch_library();
    if (!library) {
        snprintf(t->why, sizeof t->why, "libtorch_cpu was not found among the loaded libraries");
        return false;
    }
    lmx_shim_load(&t->shim, library);
    const bool all = lmx_shim_tells(&t->shim) && t->shim.data && t->shim.release;
    lmx_load_grads(t, library);
    if (!all)
        snprintf(t->why, sizeof t->why,
                 "this torch does not export the aoti_torch_* functions that are needed");
    dlclose(library); /* torch keeps it loaded */
    return all;
}

/* == the proof ========================================================================================= */

/* The C++ object behind a handle that torch allocates for `tensor`; NULL if torch makes none. */
static void *impl_of(lmx_torch *t, PyObject *alloc, PyObject *tensor) {
    PyObject *capsule = PyObject_CallFunctionObjArgs(alloc, tensor, NULL);
    void *handle = NULL, *impl = NULL;
    if (capsule && PyCapsule_CheckExact(capsule))
        handle = PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule));
    else if (capsule && PyLong_Check(capsule))
        handle = PyLong_AsVoidPtr(capsule);
    if (handle) {
        memcpy(&impl, handle, sizeof impl);
        t->shim.release(handle);
    }
    Py_XDECREF(capsule);
    PyErr_Clear();
    return impl;
}

static int32_t offset_of(PyObject *tensor, const void *impl) {
    for (size_t at = sizeof(PyObject); at <= sizeof(PyObject) + 16; at += sizeof(void *)) {
        void *word;
        memcpy(&word, (char *)tensor + at, sizeof word);
        if (word == impl) return (int32_t)at;
    }
    return -1;
}

static bool same(const lmx_tensor *a, const lmx_tensor *b) {
    if (a->ndim != b->ndim || a->dtype != b->dtype || a->device != b->device || a->storage != b->storage)
        return false;
    return a->ndim < 0 || memcmp(a->sizes, b->sizes, sizeof *a->sizes * (size_t)a->ndim) == 0;
}

/* True if both ways describe the probe alike, including the address of its data. */
static bool agrees(lmx_state *st, PyObject *probe, int32_t offset) {
    lmx_tensor by_shim, by_attributes;
    st->torch.offset = offset;
    bool ok = lmx_describe(st, probe, LMX_PLAIN, &by_shim);
    st->torch.offset = -1;
    ok = ok && lmx_describe(st, probe, LMX_PLAIN, &by_attributes);
    return ok && by_attributes.ndim == 3 && same(&by_shim, &by_attributes);
}

/* A tensor on the CPU, regardless of the default device; NULL if a mode turned it into something else. */
static PyObject *probe_tensor(lmx_state *st, PyObject *torch, const char *dtype) {
    PyObject *make = dig(torch, "empty", NULL), *type = dig(torch, dtype, NULL);
    PyObject *args = Py_BuildValue("((iii))", 3, 5, 7),
             *kwargs = Py_BuildValue("{s:s,s:O}", "device", "cpu", "dtype", type);
    PyObject *probe = make && type && args && kwargs ? PyObject_Call(make, args, kwargs) : NULL;
    Py_XDECREF(make);
    Py_XDECREF(type);
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    if (probe && Py_TYPE(probe) != st->torch.tensor) Py_CLEAR(probe);
    PyErr_Clear();
    return probe;
}

static bool prove(lmx_state *st, PyObject *torch, PyObject *alloc) {
    static const char *const dtypes[] = {"float32", "int64"};
    int32_t offset = -1;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        PyObject *probe = probe_tensor(st, torch, dtypes[i]);
        void *impl = probe ? impl_of(&st->torch, alloc, probe) : NULL;
        int32_t found = impl ? offset_of(probe, impl) : -1;
        bool fits = found >= 0 && (i == 0 || found == offset) && agrees(st, probe, found);
        if (fits && i == 0) {
            st->torch.offset = found;
            lmx_prove_hold(st, probe);
            lmx_prove_grads(st, probe);
            st->torch.offset = -1;
        }
        Py_XDECREF(probe);
        if (!fits) return false;
        offset = found;
    }
    st->torch.offset = offset;
    return true;
}

static void try_shim(lmx_state *st, PyObject *torch) {
    lmx_torch *t = &st->torch;
    PyObject *low = dig(torch, "_C", "_aoti");
    PyObject *alloc = dig(low, "unsafe_alloc_void_ptr_from_tensor", NULL);
    Py_XDECREF(low);
    if (!alloc) {
        snprintf(t->why, sizeof t->why,
                 "this torch hands out no tensor handle to prove where tensors keep theirs");
    } else if (load_shim(t)) {
        if (prove(st, torch, alloc))
            snprintf(t->why, sizeof t->why,
                     "the handle lies at byte %d of a tensor: proved with two tensors of torch's own",
                     t->offset);
        else
            snprintf(t->why, sizeof t->why, "the place of a tensor's handle could not be proved");
    }
    Py_XDECREF(alloc);
}

static void probe_ways(lmx_state *st, PyObject *torch) {
    lmx_torch *t = &st->torch;
    const char *forced = getenv("LAMINA_TENSORS");
    if (forced && strcmp(forced, "attributes") == 0) {
        snprintf(t->why, sizeof t->why, "LAMINA_TENSORS=attributes asks for it");
        return;
    }
    try_shim(st, torch);
    size_t used = strlen(t->why);
    if (forced && *forced && strcmp(forced, "shim") != 0)
        snprintf(t->why + used, sizeof t->why - used,
                 "; LAMINA_TENSORS is neither 'shim' nor 'attributes' and is ignored");
}

/* == types and data types ============================================================================== */

static void add_dtype(lmx_torch *t, PyObject *o) {
    for (int32_t i = 0; i < t->n_dtypes; i++)
        if (t->dtypes[i] == o) return;
    PyObject *name = t->n_dtypes < LMX_DTYPES ? PyObject_Str(o) : NULL;
    int32_t number = name ? lam_dtype_by_name(lmx_utf8(name)) : -1;
    Py_XDECREF(name);
    PyErr_Clear();
    if (number < 0) return;
    Py_INCREF(o);
    t->dtypes[t->n_dtypes] = o;
    t->dtype_numbers[t->n_dtypes++] = number;
}

static void list_dtypes(lmx_torch *t, PyObject *torch) {
    PyObject *dict = dig(torch, "__dict__", NULL), *type = dig(torch, "dtype", NULL), *key, *value;
    Py_ssize_t at = 0;
    while (dict && type && PyDict_Check(dict) && PyDict_Next(dict, &at, &key, &value))
        if ((PyObject *)Py_TYPE(value) == type) add_dtype(t, value);
    Py_XDECREF(dict);
    Py_XDECREF(type);
}

/* Finds the types of torch's modules that may be imported later than torch itself. */
static void late_types(lmx_torch *t) {
    PyObject *jit = t->script ? NULL : lmx_imported("torch.jit");
    if (jit) t->script = as_type(dig(jit, "ScriptModule", NULL));
    Py_XDECREF(jit);
    PyObject *dynamo = t->compiled ? NULL : lmx_imported("torch._dynamo.eval_frame");
    if (dynamo) t->compiled = as_type(dig(dynamo, "OptimizedModule", NULL));
    Py_XDECREF(dynamo);
}

static bool first_look(lmx_state *st, PyObject *torch) {
    lmx_torch *t = &st->torch;
    PyObject *nn = lmx_imported("torch.nn");
    t->module = as_type(dig(nn, "Module", NULL));
    t->parameter = as_type(dig(nn, "Parameter", NULL));
    t->tensor = as_type(dig(torch, "Tensor", NULL));
    Py_XDECREF(nn);
    if (!t->module || !t->parameter || !t->tensor) return false;
    PyObject *tensor = (PyObject *)t->tensor;
    t->dispatch = dig(tensor, "__torch_dispatch__", NULL);
    t->shape = dig(tensor, "shape", NULL);
    t->dtype = dig(tensor, "dtype", NULL);
    t->device = dig(tensor, "device", NULL);
    list_dtypes(t, torch);
    return t->shape && t->dtype && t->device;
}

/* True if torch is no older than the oldest supported version; else false with an exception. */
static bool is_new_enough(lmx_state *st, PyObject *torch) {
    enum { MAJOR = 2, MINOR = 4 };
    PyObject *version = dig(torch, "__version__", NULL);
    const char *text = version && PyUnicode_Check(version) ? PyUnicode_AsUTF8AndSize(version, NULL) : NULL;
    int major, minor;
    PyErr_Clear();
    bool old = text && sscanf(text, "%d.%d", &major, &minor) == 2 &&
               (major < MAJOR || (major == MAJOR && minor < MINOR));
    if (old)
        lmx_fail(st, LAM_UNSUPPORTED, NULL,
                 "lamina " LAM_VERSION " needs PyTorch %d.%d or later, and this is %s: upgrade PyTorch, or "
                 "install lamina 0.1, the last version for older ones",
                 MAJOR, MINOR, text);
    Py_XDECREF(version);
    return !old;
}

bool lmx_torch_ready(lmx_state *st) {
    lmx_torch *t = &st->torch;
    PyObject *torch = t->ready && t->probed ? NULL : lmx_imported("torch");
    if (!t->ready) {
        if (torch && !is_new_enough(st, torch)) {
            Py_DECREF(torch);
            return false;
        }
        t->ready = torch && first_look(st, torch);
        if (!t->ready) {
            lmx_torch_clear(t);
            Py_XDECREF(torch);
            lmx_fail(st, LAM_USAGE, NULL,
                     "torch is not imported, so there is no torch.nn.Module to look at: import torch first");
            return false;
        }
    }
    late_types(t);
    if (!t->probed) {
        t->probed = true;
        lmx_keep_memory();
        probe_ways(st, torch);
    }
    Py_XDECREF(torch);
    return true;
}

void lmx_torch_forget_types(lmx_torch *t) {
    if (!t->knows_types) return;
    t->knows_types = false;
    for (int i = 0; i < LMX_TYPES; i++) Py_CLEAR(t->types[i]);
}

void lmx_torch_clear(lmx_torch *t) {
    lmx_torch_forget_types(t);
    for (int32_t i = 0; i < t->n_dtypes; i++) Py_CLEAR(t->dtypes[i]);
    t->n_dtypes = 0;
    Py_CLEAR(t->module);
    Py_CLEAR(t->tensor);
    Py_CLEAR(t->parameter);
    Py_CLEAR(t->script);
    Py_CLEAR(t->compiled);
    Py_CLEAR(t->fake);
    Py_CLEAR(t->dispatch);
    Py_CLEAR(t->shape);
    Py_CLEAR(t->dtype);
    Py_CLEAR(t->device);
    t->ready = t->probed = false;
    t->offset = -1;
}

int lmx_torch_visit(lmx_torch *t, visitproc visit, void *arg) {
    for (int i = 0; i < LMX_TYPES; i++) Py_VISIT(t->types[i]);
    for (int32_t i = 0; i < t->n_dtypes; i++) Py_VISIT(t->dtypes[i]);
    Py_VISIT(t->module);
    Py_VISIT(t->tensor);
    Py_VISIT(t->parameter);
    Py_VISIT(t->script);
    Py_VISIT(t->compiled);
    Py_VISIT(t->fake);
    Py_VISIT(t->dispatch);
    Py_VISIT(t->shape);
    Py_VISIT(t->dtype);
    Py_VISIT(t->device);
    return 0;
}

PyObject *lmx_describe_status(PyObject *module, PyObject *unused) {
    (void)unused;
    lmx_state *st = lmx_state_of(module);
    if (!st || !lmx_torch_ready(st)) {
        if (!st || PyErr_ExceptionMatches(PyExc_MemoryError)) return NULL;
        PyErr_Clear();
        return Py_BuildValue("{s:s,s:s,s:i}", "tensors", "unknown", "why", "torch is not imported", "offset",
                             -1);
    }
    const char *way = st->torch.offset >= 0 ? "shim" : "attributes";
    return Py_BuildValue("{s:s,s:s,s:i}", "tensors", way, "why", st->torch.why, "offset",
                         (int)st->torch.offset);
}
