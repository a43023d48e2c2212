/* SPDX-License-Identifier: Apache-2.0
 * The graph of the data: as lists of dicts, and as DOT. */
#include "base/base.h"
#include "results/results.h"

static const char *const types[] = {"input", "parameter", "operator", "output"};
static const char *const phases[LAM_N_PHASES] = {"forward", "backward", "recompute"};

/* The graph of the model behind the handle; NULL with an exception. */
static lam_graph *graph_of(lmx_model *self) {
    const lam_model *m = lmx_model_get(self->st, (PyObject *)self);
    lam_error e = {.at = -1};
    lam_graph *g = NULL;
    if (!m) return NULL;
    if (lam_graph_new(&g, m, &e) != LAM_OK) lmx_raise(self->st, &e);
    return g;
}

static bool is_buffer(const lam_model *m, int32_t tensor) {
    for (int32_t i = 0; i < lam_model_n_modules(m); i++) {
        const lam_module *mod = lam_model_module(m, i);
        for (int32_t k = 0; k < mod->n_owned; k++)
            if (mod->owned[k].tensor == tensor) return mod->owned[k].is_buffer;
    }
    return false;
}

static const char *type_of(const lam_model *m, const lam_node *n) {
    return n->type == LAM_NODE_TENSOR && is_buffer(m, n->index) ? "buffer" : types[n->type];
}

static PyObject *shapes_of(const lam_op_arg *args, int32_t n) {
    PyObject *list = PyList_New(0);
    for (int32_t i = 0; list && i < n; i++) {
        if (!args[i].is_tensor) continue;
        PyObject *shape = lmx_shape((lam_shape){args[i].ndim, args[i].sizes});
        if (!shape || PyList_Append(list, shape) < 0) Py_CLEAR(list);
        Py_XDECREF(shape);
    }
    PyObject *tuple = list ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return tuple;
}

static PyObject *path_of(const lam_model *m, int32_t call) {
    const lam_event *ev = call >= 0 ? lam_model_event(m, call) : NULL;
    return lmx_str(ev ? lam_model_place(m, ev->place)->path : NULL);
}

static bool put_op(PyObject *d, const lam_model *m, const lam_node *n) {
    const lam_op *o = n->type == LAM_NODE_OP ? lam_model_op(m, n->index) : NULL;
    if (!o) return true;
    return lmx_put(d, "kind", lmx_str(lam_word_op_kind(o->sig->word))) &&
           lmx_put(d, "in_shapes", shapes_of(o->sig->in, o->sig->n_in)) &&
           lmx_put(d, "out_shapes", shapes_of(o->sig->out, o->sig->n_out));
}

static PyObject *node_at(const lam_graph *g, const lam_model *m, int32_t i) {
    const lam_node *n = lam_graph_node(g, i);
    PyObject *d = PyDict_New();
    bool ok = d && lmx_put(d, "id", PyLong_FromLong(i)) && lmx_put(d, "type", lmx_str(type_of(m, n))) &&
              lmx_put(d, "name", lmx_str(n->name)) && lmx_put(d, "index", PyLong_FromLong(n->index)) &&
              lmx_put(d, "path", path_of(m, n->call)) && lmx_put(d, "call", PyLong_FromLong(n->call)) &&
              lmx_put(d, "phase", lmx_str(phases[n->phase])) && lmx_put(d, "shape", lmx_shape(n->shape)) &&
              put_op(d, m, n);
    if (!ok) Py_CLEAR(d);
    return d;
}

static PyObject *edge_at(const lam_graph *g, const lam_model *m, int32_t i) {
    const lam_edge *e = lam_graph_edge(g, i);
    (void)m;
    PyObject *d = PyDict_New();
    bool ok = d && lmx_put(d, "from", PyLong_FromLong(e->from)) && lmx_put(d, "to", PyLong_FromLong(e->to)) &&
              lmx_put(d, "arg", PyLong_FromLong(e->arg)) && lmx_put(d, "shape", lmx_shape(e->shape));
    if (!ok) Py_CLEAR(d);
    return d;
}

static PyObject *list_of(const lam_graph *g, const lam_model *m, int32_t n,
                         PyObject *(*at)(const lam_graph *, const lam_model *, int32_t)) {
    PyObject *list = PyList_New(0);
    for (int32_t i = 0; list && i < n; i++) {
        PyObject *item = at(g, m, i);
        if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

PyObject *lmx_graph(lmx_model *self) {
    lam_graph *g = graph_of(self);
    if (!g) return NULL;
    PyObject *d = PyDict_New();
    bool ok = d && lmx_put(d, "nodes", list_of(g, self->model, lam_graph_n_nodes(g), node_at)) &&
              lmx_put(d, "edges", list_of(g, self->model, lam_graph_n_edges(g), edge_at));
    if (!ok) Py_CLEAR(d);
    lam_graph_free(g);
    return d;
}

static PyObject *findings(const lam_graph *g, const char *(*at)(const lam_graph *, int32_t, const char **)) {
    const char *path, *reason;
    PyObject *list = PyList_New(0);
    for (int32_t i = 0; list && (path = at(g, i, &reason)); i++) {
        PyObject *item = Py_BuildValue("(NN)", lmx_str(path), lmx_str(reason));
        if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

PyObject *lmx_graph_findings(lmx_model *self) {
    lam_graph *g = graph_of(self);
    if (!g) return NULL;
    PyObject *d = PyDict_New();
    bool ok = d && lmx_put(d, "unused", findings(g, lam_graph_unused)) &&
              lmx_put(d, "no_gradient", findings(g, lam_graph_no_gradient));
    if (!ok) Py_CLEAR(d);
    lam_graph_free(g);
    return d;
}

PyObject *lmx_graph_dot(lmx_model *self, PyObject *args) {
    int ops = 0;
    if (!PyArg_ParseTuple(args, "|p:graph_dot", &ops)) return NULL;
    lam_graph *g = graph_of(self);
    if (!g) return NULL;
    lmx_text text = {0};
    lam_error e = {.at = -1};
    lam_status s = lam_graph_dot(g, ops, lmx_text_sink(&text), &e);
    lam_graph_free(g);
    if (s == LAM_OK) return lmx_text_take(&text);
    lmx_vec_free(&text.bytes);
    return lmx_raise(self->st, &e);
}
