/* SPDX-License-Identifier: Apache-2.0
 * Finds the SQLite that recordings must share: that of Python's module sqlite3. */
#include "base/ext.h"

#include <stdio.h>

/* `_sqlite3` has no file if it is built into Python. */
static bool file_of(PyObject *module, char *file, size_t size) {
    PyObject *path = PyObject_GetAttrString(module, "__file__");
    const char *text = path && PyUnicode_Check(path) ? PyUnicode_AsUTF8AndSize(path, NULL) : "";
    const bool fits = text && (size_t)snprintf(file, size, "%s", text) < size;
    Py_XDECREF(path);
    return fits;
}

/* The caller may hold the GIL or not. */
static bool of_python(char *file, size_t size) {
    PyGILState_STATE held = PyGILState_Ensure();
    PyObject *module = PyImport_ImportModule("_sqlite3");
    const bool has = module && file_of(module, file, size);
    Py_XDECREF(module);
    PyErr_Clear();
    PyGILState_Release(held);
    return has;
}

void lmx_share_sqlite(void) { lmi_sqlite_of(of_python); }
