/* SPDX-License-Identifier: Apache-2.0
 * Errors as exceptions, exceptions as errors, and counts, shapes and texts as Python values. */
#include "base/ext.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    lam_status status;
    const char *name; /* in lamina._base.errors */
} classes[] = {
    /* The first that fits an exception names its status, so a class comes before its bases. */
    {LAM_UNSUPPORTED, "UnsupportedError"},
    {LAM_USAGE, "UsageError"},
    {LAM_SYNTAX, "FormatError"},
    {LAM_LIMIT, "LimitError"},
    {LAM_RANGE, "RangeError"},
    {LAM_FAILED, "LaminaError"},
};
enum { N_CLASSES = sizeof classes / sizeof *classes };

static PyObject *error_class(lmx_state *st, const char *name) {
    if (!st->errors) st->errors = PyImport_ImportModule("lamina._base.errors");
    return st->errors ? PyObject_GetAttrString(st->errors, name) : NULL;
}

static const char *class_name(lam_status status) {
    for (int i = 0; i < N_CLASSES; i++)
        if (classes[i].status == status) return classes[i].name;
    return "InternalError";
}

/* Details are attributes, so that a program need not read the sentence. */
static void set_detail(PyObject *exc, const char *name, PyObject *value) {
    if (!value || PyObject_SetAttrString(exc, name, value) < 0) PyErr_Clear();
    Py_XDECREF(value);
}

/* The exception class for an error, a new reference. */
static PyObject *class_of(lmx_state *st, const lam_error *e) {
    if (e->status != LAM_IO) return error_class(st, class_name(e->status));
    Py_INCREF(PyExc_OSError);
    return PyExc_OSError;
}

PyObject *lmx_raise(lmx_state *st, const lam_error *e) {
    if (PyErr_Occurred()) return NULL;
    if (e->status == LAM_NOMEM) return PyErr_NoMemory();
    char text[sizeof e->where + sizeof e->text + 4];
    const char *what = e->text[0] ? e->text : "an error without a sentence; please report it";
    snprintf(text, sizeof text, "%s%s%s", e->where, e->where[0] ? ": " : "", what);
    PyObject *message = lmx_str(text);
    PyObject *type = message ? class_of(st, e) : NULL;
    PyObject *exc = type ? PyObject_CallFunctionObjArgs(type, message, NULL) : NULL;
    if (exc) {
        set_detail(exc, "status", lmx_str(lam_status_name(e->status)));
        set_detail(exc, "where", lmx_str(e->where));
        set_detail(exc, "at", PyLong_FromLongLong(e->at));
        PyErr_SetObject(type, exc);
    }
    Py_XDECREF(exc);
    Py_XDECREF(type);
    Py_XDECREF(message);
    return NULL;
}

PyObject *lmx_fail(lmx_state *st, lam_status status, const char *where, const char *format, ...) {
    lam_error e = {.status = status, .at = -1};
    if (where) snprintf(e.where, sizeof e.where, "%s", where);
    va_list args;
    va_start(args, format);
    vsnprintf(e.text, sizeof e.text, format, args);
    va_end(args);
    return lmx_raise(st, &e);
}

static lam_status status_of(lmx_state *st, PyObject *type) {
    if (PyErr_GivenExceptionMatches(type, PyExc_MemoryError)) return LAM_NOMEM;
    if (PyErr_GivenExceptionMatches(type, PyExc_OSError)) return LAM_IO;
    for (int i = 0; i < N_CLASSES; i++) {
        PyObject *ours = error_class(st, classes[i].name);
        if (!ours) PyErr_Clear();
        bool fits = ours && PyErr_GivenExceptionMatches(type, ours);
        Py_XDECREF(ours);
        if (fits) return classes[i].status;
    }
    return LAM_FAILED;
}

/* "ValueError: no such thing"; the first line only, because an error is one sentence. The name of a class
 * is left out if it begins with an underscore: it is internal to lamina. */
static void sentence(PyObject *type, PyObject *value, bool named, char *out, size_t size) {
    PyObject *name = PyObject_GetAttrString(type, "__name__");
    PyObject *text = value ? PyObject_Str(value) : NULL;
    PyObject *bytes = text ? PyUnicode_AsEncodedString(text, "utf-8", "replace") : NULL; /* names of files */
    if (!name || !bytes) PyErr_Clear();
    const char *what = bytes ? PyBytes_AsString(bytes) : "";
    named = named && name && lmx_utf8(name)[0] != '_';
    snprintf(out, size, "%s%s%s", named ? lmx_utf8(name) : "", named && *what ? ": " : "", what);
    out[strcspn(out, "\r\n")] = 0;
    Py_XDECREF(name);
    Py_XDECREF(text);
    Py_XDECREF(bytes);
}

lam_status lmx_error_from_exception(lmx_state *st, lam_error *e) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    lam_status status = type ? status_of(st, type) : LAM_FAILED;
    *e = (lam_error){.status = status, .at = -1};
    if (type) sentence(type, value, status == LAM_FAILED || status == LAM_IO, e->text, sizeof e->text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return status;
}

/* over * 2^63 + n, for the rare sums that need more than 64 bits. */
static PyObject *wide(lam_count c) {
    PyObject *over = PyLong_FromUnsignedLong(c.over), *bits = PyLong_FromLong(63),
             *n = PyLong_FromLongLong(c.n);
    PyObject *high = over && bits ? PyNumber_Lshift(over, bits) : NULL;
    PyObject *sum = high && n ? PyNumber_Add(high, n) : NULL;
    Py_XDECREF(over);
    Py_XDECREF(bits);
    Py_XDECREF(n);
    Py_XDECREF(high);
    return sum;
}

PyObject *lmx_count(lam_count c) {
    PyObject *value = c.over ? wide(c) : PyLong_FromLongLong(c.n);
    if (!value) return NULL;
    return Py_BuildValue("(Ns)", value, lam_state_name(c.state));
}

static bool state_from(lmx_state *st, PyObject *o, lam_state *out) {
    const char *name = PyUnicode_Check(o) ? lmx_utf8(o) : "?";
    for (int i = LAM_EXACT; i <= LAM_UNKNOWN; i++) {
        if (strcmp(name, lam_state_name((lam_state)i)) != 0) continue;
        *out = (lam_state)i;
        return true;
    }
    lmx_fail(st, LAM_USAGE, NULL, "the state of a count is 'exact', 'at least' or 'unknown', not '%.40s'",
             name);
    return false;
}

static bool number_from(lmx_state *st, PyObject *o, lam_count *out) {
    PyObject *whole = PyNumber_Index(o), *bits = PyLong_FromLong(63);
    PyObject *high = whole && bits ? PyNumber_Rshift(whole, bits) : NULL;
    PyObject *top = high ? PyNumber_Lshift(high, bits) : NULL;
    PyObject *low = top ? PyNumber_Subtract(whole, top) : NULL;
    int overflow = 0;
    long long over = high ? PyLong_AsLongLongAndOverflow(high, &overflow) : -1;
    out->n = low ? PyLong_AsLongLong(low) : 0;
    Py_XDECREF(whole);
    Py_XDECREF(bits);
    Py_XDECREF(high);
    Py_XDECREF(top);
    Py_XDECREF(low);
    if (PyErr_Occurred()) return false;
    if (overflow || over < 0 || over > UINT32_MAX) {
        lmx_fail(st, LAM_RANGE, NULL, "a count is at least 0 and below 2^95");
        return false;
    }
    out->over = (uint32_t)over;
    return true;
}

bool lmx_count_from(lmx_state *st, PyObject *o, lam_count *out) {
    *out = (lam_count){0, 0, LAM_UNKNOWN};
    if (o == Py_None) return true;
    if (!PyTuple_Check(o)) {
        out->state = LAM_EXACT;
        return number_from(st, o, out);
    }
    if (PyTuple_Size(o) != 2) {
        lmx_fail(st, LAM_USAGE, NULL, "a count is an int, None or a pair (value, state)");
        return false;
    }
    if (!state_from(st, PyTuple_GetItem(o, 1), &out->state)) return false;
    PyObject *value = PyTuple_GetItem(o, 0);
    return value == Py_None || number_from(st, value, out);
}

PyObject *lmx_shape(lam_shape s) {
    if (s.ndim < 0) return Py_BuildValue("");
    PyObject *t = PyTuple_New(s.ndim);
    for (int32_t i = 0; t && i < s.ndim; i++) {
        PyObject *size = PyLong_FromLongLong(s.sizes[i]);
        if (!size || PyTuple_SetItem(t, i, size) < 0) Py_CLEAR(t);
    }
    return t;
}

PyObject *lmx_str(const char *s) {
    if (!s) return Py_BuildValue("");
    return PyUnicode_DecodeUTF8(s, (Py_ssize_t)strlen(s), "replace");
}
