/* SPDX-License-Identifier: Apache-2.0
 * The data-flow graph of a model: as data, and as DOT. */
#include "base/ext.h"
#include "results/results.h"

/* The graph of the model behind the handle; NULL with an exception. */
static lam_graph *graph_of(PyObject *self) {
    const lam_model *m = lmx_model_of(self);
    lam_error e = {.at = -1};
    lam_graph *g = NULL;
    if (!m) return NULL;
    if (lam_graph_new(&g, m, &e) != LAM_OK) lmx_raise(((lmx_model *)self)->st, &e);
    return g;
}

static PyObject *part_data(PyObject *self, lam_graph_part part) {
    lam_graph *g = graph_of(self);
    lmx_sink t;
    if (!g) return NULL;
    lam_graph_tell(g, part, lmx_sink_begin(&t));
    lam_graph_free(g);
    return lmx_sink_end(&t);
}

PyObject *lmx_graph(PyObject *self, PyObject *unused) {
    (void)unused;
    return part_data(self, LAM_GRAPH_DATA);
}

PyObject *lmx_graph_findings(PyObject *self, PyObject *unused) {
    (void)unused;
    return part_data(self, LAM_GRAPH_FINDINGS);
}

PyObject *lmx_graph_dot(PyObject *self, PyObject *args) {
    int ops = 0;
    if (!PyArg_ParseTuple(args, "|p:graph_dot", &ops)) return NULL;
    lam_graph *g = graph_of(self);
    if (!g) return NULL;
    lmx_text text = {0};
    lam_error e = {.at = -1};
    lam_status s = lam_graph_dot(g, ops, lmx_text_sink(&text), &e);
    lam_graph_free(g);
    return lmx_text_end(&text, ((lmx_model *)self)->st, s, &e);
}
