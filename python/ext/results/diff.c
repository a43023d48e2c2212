/* SPDX-License-Identifier: Apache-2.0
 * The difference of two reports, or of a report and a file, as text in one of the core's formats. */
#include "base/ext.h"
#include "results/results.h"

/* Costs, or the name of a file as bytes. */
static bool take_side(lmx_state *st, PyObject *from, lam_diff_side *to) {
    if (Py_TYPE(from) == st->costs_type) return (to->costs = lmx_costs_settled(from)) != NULL;
    to->file = PyBytes_AsString(from);
    return to->file != NULL;
}

static lam_status write_text(const lam_diff_side side[2], const lam_diff_options *o, lam_sink to,
                             lam_error *e) {
    lam_diff *d = NULL;
    lam_status s = lam_diff_new(&d, &side[0], &side[1], e);
    if (s == LAM_OK) s = lam_diff_write(d, o, to, e);
    lam_diff_free(d);
    return s;
}

PyObject *lmx_diff(PyObject *module, PyObject *args) {
    PyObject *from[2];
    lam_diff_side side[2] = {{0}};
    lam_diff_options o = {0};
    int exact;
    if (!PyArg_ParseTuple(args, "OzOzszipii:diff", &from[0], &side[0].ran, &from[1], &side[1].ran, &o.format,
                          &o.by, &o.width, &exact, &o.rows, &o.depth))
        return NULL;
    o.exact = exact != 0;
    lmx_state *st = lmx_state_of(module);
    for (int i = 0; i < 2; i++)
        if (!take_side(st, from[i], &side[i])) return NULL;
    lmx_text text = {0};
    lam_error e = {.at = -1};
    lam_status s = write_text(side, &o, lmx_text_sink(&text), &e);
    return lmx_text_end(&text, st, s, &e);
}
