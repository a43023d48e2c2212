/* SPDX-License-Identifier: Apache-2.0
 * A model counted under several conventions, as text in one of the core's formats. */
#include "base/ext.h"
#include "results/results.h"

#include <stdlib.h>

static lam_status write_text(const lam_model *m, const lam_compare_options *o, const char *format,
                             int32_t width, bool exact, lam_sink to, lam_error *e) {
    lam_comparison *c = NULL;
    lam_status s = lam_compare_new(&c, m, o, e);
    if (s == LAM_OK) s = lam_compare_write(c, format, width, exact, to, e);
    lam_compare_free(c);
    return s;
}

PyObject *lmx_compared(PyObject *self, PyObject *args) {
    lmx_model *m = (lmx_model *)self;
    if (!lmx_model_of(self)) return NULL;
    PyObject *list, *held;
    const char *format = NULL;
    int width = 0, exact = 0, flops = 0, backward = 0, n;
    if (!PyArg_ParseTuple(args, "O!|zippp:compare", &PyList_Type, &list, &format, &width, &exact, &flops,
                          &backward))
        return NULL;
    held = PyList_GetSlice(list, 0, PyList_Size(list)); /* another thread may change the list */
    const char **names = held ? lmx_words(held, &n) : NULL;
    lmx_text text = {0};
    lam_error e = {.at = -1};
    lam_status s = LAM_NOMEM;
    if (names) {
        lam_compare_options o = {names, n, flops ? LAM_FLOPS : LAM_MACS,
                                 backward ? LAM_BACKWARD : LAM_FORWARD};
        m->borrowers++;
        s = write_text(m->model, &o, format, width, exact != 0, lmx_text_sink(&text), &e);
        m->borrowers--;
    }
    free(names);
    Py_XDECREF(held);
    return lmx_text_end(&text, m->st, s, &e);
}
