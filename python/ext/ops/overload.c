/* SPDX-License-Identifier: Apache-2.0
 * What torch hands to a dispatch mode: an OpOverload, whose schema is looked at once, and its arguments and
 * results as Python values, which are packed as observe.c packs the C++ ones. */
#include "base/base.h"
#include "observe/observe.h"
#include "ops/dispatch.h"
#include "torch/looks.h"
#include "torch/tensor.h"

#include <stdlib.h>

enum { MAX_INTS = 32 };

/* == overloads ========================================================================================= */

static PyObject *attr(PyObject *o, const char *name) {
    PyObject *value = o ? PyObject_GetAttrString(o, name) : NULL;
    if (!value) PyErr_Clear();
    return value;
}

static bool truth(PyObject *value) {
    bool yes = value && PyObject_IsTrue(value) > 0;
    PyErr_Clear();
    return yes;
}

static bool is_tensor_type(PyObject *argument) {
    PyObject *type = attr(argument, "type"), *text = type ? PyObject_Str(type) : NULL;
    const char *name = text ? lmx_utf8(text) : "";
    bool yes = strcmp(name, "Tensor") == 0 || strcmp(name, "Optional[Tensor]") == 0;
    Py_XDECREF(text);
    Py_XDECREF(type);
    PyErr_Clear();
    return yes;
}

static void read_argument(lmx_overload *o, PyObject *argument) {
    PyObject *name = attr(argument, "name"), *has = NULL;
    if (name && PyUnicode_Check(name)) {
        PyUnicode_InternInPlace(&name);
        has = PyObject_CallMethod(argument, "has_default_value", NULL);
        PyErr_Clear();
        if (truth(has)) o->defaults[o->n_args] = attr(argument, "default_value");
        o->tensors[o->n_args] = is_tensor_type(argument);
        o->args[o->n_args++] = name;
        name = NULL;
    }
    Py_XDECREF(has);
    Py_XDECREF(name);
}

static bool read_schema(lmx_overload *o) {
    PyObject *schema = attr(o->func, "_schema"), *arguments = attr(schema, "arguments"),
             *returns = attr(schema, "returns");
    bool ok = arguments && PyList_Check(arguments) && returns && PyList_Check(returns);
    Py_ssize_t n = ok ? PyList_Size(arguments) : 0;
    for (Py_ssize_t i = 0; i < n && i < LMX_OVERLOAD_ARGS; i++)
        read_argument(o, PyList_GetItem(arguments, i));
    o->many = ok && PyList_Size(returns) > 1;
    Py_XDECREF(returns);
    Py_XDECREF(arguments);
    Py_XDECREF(schema);
    return ok;
}

/* "aten::add" of "aten::add.Tensor". */
static PyObject *name_of(PyObject *func) {
    PyObject *whole = PyObject_CallMethod(func, "name", NULL);
    const char *text = whole ? lmx_utf8(whole) : "";
    const char *colon = strstr(text, "::"), *dot = colon ? strchr(colon, '.') : NULL;
    PyErr_Clear();
    PyObject *name = colon ? PyUnicode_FromStringAndSize(text, dot ? dot - text : (Py_ssize_t)strlen(text))
                           : PyUnicode_FromFormat("higher_order::%s", *text ? text : "?");
    Py_XDECREF(whole);
    return name;
}

/* Questions to a tensor, and marks for a profiler: no work. */
static bool is_unseen(const char *name) {
    static const char *const spaces[] = {"prim::", "profiler::"};
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (strncmp(name, spaces[i], strlen(spaces[i])) == 0) return true;
    return false;
}

static void free_overload(lmx_overload *o) {
    if (!o) return;
    for (int32_t i = 0; i < o->n_args; i++) {
        Py_XDECREF(o->args[i]);
        Py_XDECREF(o->defaults[i]);
    }
    Py_XDECREF(o->func);
    Py_XDECREF(o->call);
    Py_XDECREF(o->name);
    free(o);
}

static lmx_overload *new_overload(lmx_state *st, PyObject *func) {
    lmx_overload *o = calloc(1, sizeof *o);
    if (!o || !(o->name = name_of(func))) {
        free(o);
        if (!PyErr_Occurred()) PyErr_NoMemory();
        return NULL;
    }
    Py_INCREF(func);
    o->func = func;
    o->higher = !read_schema(o);
    /* The OpOverload's own __call__ is a Python function around this. */
    o->call = o->higher ? NULL : attr(func, "_op");
    if (!o->call) {
        Py_INCREF(func);
        o->call = func;
    }
    o->word = lam_word_op(lmx_utf8(o->name));
    o->wraps = o->word < 0 || lam_word_op_wraps(o->word);
    o->mask = lam_word_op_mask(o->word);
    const char *name = lmx_utf8(o->name);
    size_t n = strlen(name);
    o->unseen = is_unseen(name);
    o->copies = strcmp(name, "aten::clone") == 0;
    o->writes = n > 2 && name[n - 1] == '_' && name[n - 2] != '_';
    o->implicit = !o->higher && lmx_modes_implicit(st, func);
    return o;
}

const lmx_overload *lmx_overload_of(lmx_state *st, PyObject *func) {
    lmx_modes *m = st->modes;
    int32_t at = lmx_map_get(&m->by_func, func);
    if (at >= 0) return ((lmx_overload **)m->overloads.data)[at];
    lmx_overload *o = new_overload(st, func), **to;
    if (!o) return NULL;
    to = lmx_vec_push(&m->overloads, sizeof *to, 1);
    if (!to || !lmx_map_put(&m->by_func, func, (int32_t)m->overloads.n - 1)) {
        if (to) m->overloads.n--;
        free_overload(o);
        PyErr_NoMemory();
        return NULL;
    }
    return *to = o;
}

void lmx_overloads_free(lmx_modes *m) {
    for (size_t i = 0; i < m->overloads.n; i++) free_overload(((lmx_overload **)m->overloads.data)[i]);
    lmx_vec_free(&m->overloads);
    lmx_map_free(&m->by_func);
}

PyObject *lmx_overload_argument(const lmx_overload *o, Py_ssize_t i, PyObject *args, PyObject *kwargs) {
    if (i < PyTuple_Size(args)) return PyTuple_GetItem(args, i);
    PyObject *value = i < o->n_args ? lmx_get(kwargs, o->args[i]) : NULL;
    return value || i >= o->n_args ? value : o->defaults[i];
}

/* == packing =========================================================================================== */

/* A value that is being packed into a lane, at a position of the schema. */
typedef struct packer {
    lmx_state *st;
    lmx_lane *lane;
    int32_t position, n;
    bool masks; /* what it leaves of scores is told too */
} packer;

/* In a dry run tensors are as good as any but for their values, and those of the real ones may be old. */
static bool read_mask(const packer *p, PyObject *tensor, lmx_kind kind, const lmx_tensor *t, lam_mask *out) {
    const lmx_torch *torch = &p->st->torch;
    if (!p->masks || !p->lane->reads || kind != LMX_PLAIN || t->ndim < 0 || !t->storage) return false;
    if (torch->fake && PyType_IsSubtype(Py_TYPE(tensor), torch->fake)) return false;
    return lmx_mask_at(&torch->shim, (char *)tensor + torch->offset, out);
}

static bool pack_tensor(packer *p, PyObject *tensor, lmx_kind kind) {
    lmx_tensor t;
    if (!lmx_describe(p->st, tensor, kind, &t)) return false;
    lmx_sparse kept;
    bool sparse = false;
    if (!t.memory && !t.storage && !lmx_sparse_read(tensor, &kept, &sparse)) return false;
    lam_mask left;
    if (sparse)
        p->n += lmx_lane_sparse(p->lane, p->position, &t, &kept);
    else if (read_mask(p, tensor, kind, &t, &left))
        p->n += lmx_lane_mask(p->lane, p->position, &t, &left);
    else
        p->n += lmx_lane_tensor(p->lane, p->position, &t);
    return true;
}

static bool pack_word(packer *p, lmx_arg_kind kind, int64_t word) {
    p->n += lmx_lane_value(p->lane, p->position, kind, &word, kind == LMX_ARG_NONE ? 0 : 1);
    return true;
}

static bool pack_real(packer *p, PyObject *value) {
    double real = PyFloat_AsDouble(value);
    int64_t word;
    memcpy(&word, &real, sizeof word);
    return pack_word(p, LMX_ARG_REAL, word);
}

/* An int that is too large for torch's own is none of torch's. */
static bool pack_int(packer *p, PyObject *value) {
    int overflow;
    int64_t word = PyLong_AsLongLongAndOverflow(value, &overflow);
    return overflow ? true : pack_word(p, LMX_ARG_INT, word);
}

/* torch takes types of data as numbers. Anything else (a device, a layout, a generator) counts nothing. */
static bool pack_other(packer *p, PyObject *value) {
    const lmx_torch *t = &p->st->torch;
    for (int32_t i = 0; i < t->n_dtypes; i++)
        if (t->dtypes[i] == value) return pack_word(p, LMX_ARG_INT, t->dtype_numbers[i]);
    return true;
}

static bool pack_text(packer *p, PyObject *value) {
    const char *text = lmx_utf8(value);
    p->n += lmx_lane_text(p->lane, p->position, text, strlen(text));
    return true;
}

static bool pack_one(packer *p, PyObject *value) {
    if (value == Py_None) return pack_word(p, LMX_ARG_NONE, 0);
    if (PyBool_Check(value)) return pack_word(p, LMX_ARG_BOOL, value == Py_True);
    if (PyLong_CheckExact(value)) return pack_int(p, value);
    if (PyFloat_CheckExact(value)) return pack_real(p, value);
    if (PyUnicode_Check(value)) return pack_text(p, value);
    lmx_kind kind = lmx_kind_of(p->st, value);
    return kind == LMX_PLAIN || kind == LMX_ODD ? pack_tensor(p, value, kind) : pack_other(p, value);
}

static PyObject *item(PyObject *list, Py_ssize_t i) {
    return PyList_Check(list) ? PyList_GetItem(list, i) : PyTuple_GetItem(list, i);
}

static void pack_ints(packer *p, PyObject *list, Py_ssize_t n) {
    int64_t ints[MAX_INTS];
    if (n > MAX_INTS) return;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *value = item(list, i);
        int overflow;
        if (!PyLong_Check(value)) return; /* a bool is one too */
        ints[i] = PyLong_AsLongLongAndOverflow(value, &overflow);
        if (overflow) return;
    }
    p->n += lmx_lane_value(p->lane, p->position, LMX_ARG_INTS, ints, (int32_t)n);
}

/* The tensors of a list, or else its integers. */
static bool pack_list(packer *p, PyObject *list) {
    Py_ssize_t n = PyList_Check(list) ? PyList_Size(list) : PyTuple_Size(list);
    int32_t before = p->n;
    if (n > LMX_MAX_LIST) return true;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *value = item(list, i);
        lmx_kind kind = PyLong_CheckExact(value) ? LMX_IGNORE : lmx_kind_of(p->st, value);
        if ((kind == LMX_PLAIN || kind == LMX_ODD) && !pack_tensor(p, value, kind)) return false;
    }
    if (p->n == before && n) pack_ints(p, list, n);
    return true;
}

static bool pack(packer *p, PyObject *value) {
    return PyList_Check(value) || PyTuple_Check(value) ? pack_list(p, value) : pack_one(p, value);
}

/* torch makes a tensor without dimensions of a number, and hands out the number again. */
static bool pack_operand(packer *p, PyObject *value) {
    enum { INT64 = 4, FLOAT64 = 7, COMPLEX128 = 10, BOOL = 11 };
    lmx_tensor t = {.device = LMX_CPU};
    if (PyBool_Check(value))
        t.dtype = BOOL;
    else if (PyLong_CheckExact(value))
        t.dtype = INT64;
    else if (PyFloat_CheckExact(value))
        t.dtype = FLOAT64;
    else if (PyComplex_CheckExact(value))
        t.dtype = COMPLEX128;
    else
        return pack(p, value);
    t.sizes = t.own;
    p->n += lmx_lane_tensor(p->lane, p->position, &t);
    return true;
}

bool lmx_pack_arguments(lmx_state *st, lmx_lane *lane, const lmx_overload *o, PyObject *args,
                        PyObject *kwargs, int32_t *n) {
    packer p = {.st = st, .lane = lane};
    Py_ssize_t given = PyTuple_Size(args), all = o->n_args > given ? o->n_args : given;
    bool ok = true;
    for (Py_ssize_t i = 0; ok && i < all; i++) {
        PyObject *value = lmx_overload_argument(o, i, args, kwargs);
        p.position = (int32_t)i;
        p.masks = i == o->mask;
        if (value) ok = i < o->n_args && o->tensors[i] ? pack_operand(&p, value) : pack(&p, value);
    }
    *n = p.n;
    return ok;
}

bool lmx_pack_result(lmx_state *st, lmx_lane *lane, const lmx_overload *o, PyObject *result, int32_t *n) {
    packer p = {.st = st, .lane = lane};
    bool ok = true;
    if (!o->many || !PyTuple_Check(result)) {
        ok = (result == Py_None && !o->many) || pack(&p, result);
    } else {
        for (Py_ssize_t i = 0; ok && i < PyTuple_Size(result); i++) {
            p.position = (int32_t)i;
            ok = pack(&p, PyTuple_GetItem(result, i));
        }
    }
    *n = p.n;
    return ok;
}
