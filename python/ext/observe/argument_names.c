/* SPDX-License-Identifier: Apache-2.0
 * Names of arguments: of keywords, and of the entries of dicts. */
#include "observe/open_capture.h"

enum { MAX_KEYWORDS = 1024 };

/* The index of a keyword among those of this capture; -1 when there are too many. Equal texts share an
 * index, so keywords made up at run time don't accumulate. */
int32_t lmx_keyword(lmx_capture *c, PyObject *name) {
    PyObject **known = c->noted.names.data;
    for (size_t i = 0; i < c->noted.names.n; i++)
        if (known[i] == name) return (int32_t)i;
    for (size_t i = 0; i < c->noted.names.n; i++)
        if (PyUnicode_Compare(known[i], name) == 0) return (int32_t)i;
    PyObject **at = c->noted.names.n < MAX_KEYWORDS ? lmx_vec_push(&c->noted.names, sizeof *at, 1) : NULL;
    if (!at) return -1;
    Py_INCREF(name);
    *at = name;
    return (int32_t)c->noted.names.n - 1;
}

/* "batch.ids": the entry `ids` of the dict `batch`. A lone dict that was given by position has no name. */
int32_t lmx_entry_name(lmx_finder *f, PyObject *key) {
    lmx_capture *c = f->names;
    PyObject **known = c->noted.names.data;
    PyObject *name = f->name < 0 ? Py_NewRef(key) : PyUnicode_FromFormat("%U.%U", known[f->name], key);
    int32_t index = name ? lmx_keyword(c, name) : f->name;
    if (!name) PyErr_Clear();
    Py_XDECREF(name);
    return index;
}
