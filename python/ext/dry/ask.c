/* SPDX-License-Identifier: Apache-2.0
 * Asks torch's kernels what they accept: once for each operator with arguments of new types. Python asks
 * (_dry/kernels.py), which is rare; whether it did is looked up here, at each operator of a dry run. */
#include "base/ext.h"
#include "dry/dry.h"

#include <string.h>

bool lmx_dry_harmless(PyObject *kwargs) {
    static const char *const names[] = {"alpha", "beta", "value", "approximate"};
    PyObject *key, *value;
    Py_ssize_t at = 0;
    if (!kwargs || kwargs == Py_None) return true;
    while (PyDict_Next(kwargs, &at, &key, &value)) {
        const char *name = lmx_utf8(key);
        size_t i = 0;
        while (i < sizeof names / sizeof *names && strcmp(names[i], name) != 0) i++;
        if (i == sizeof names / sizeof *names) return false;
    }
    return true;
}

bool lmx_dry_ask(lmx_dry *d, PyObject *function, PyObject *args, PyObject *kwargs) {
    const uint64_t question = lmx_repeats_question(d, function, args, kwargs);
    if (!question || lmi_map_get_u64(&d->asked, question) >= 0) return true;
    PyObject *result = PyObject_CallFunction(d->ask, "OOOOK", function, args, kwargs ? kwargs : Py_None,
                                             d->elsewhere ? Py_True : Py_False, (unsigned long long)question);
    if (!result) return false;
    Py_DECREF(result);
    if (lmi_map_put_u64(&d->asked, question, 1, NULL) == LAM_OK) return true;
    PyErr_NoMemory();
    return false;
}
