/* SPDX-License-Identifier: Apache-2.0
 * User-defined rules: from Python to the core, and the core's calls of Python's function. */
#include "base/ext.h"
#include "results/results.h"

#include <stdlib.h>
#include <string.h>

/* == to the core ======================================================================================= */

/* The formulas of a dict by metric; a missing one is NULL. The texts are borrowed from the dict. */
static bool formulas_of(lmx_own *o, PyObject *dict, const char *formula[LAM_N_METRICS]) {
    for (int i = 0; i < LAM_N_METRICS; i++) {
        PyObject *key = PyUnicode_FromString(lam_metric_name((lam_metric)i));
        PyObject *text = key ? PyDict_GetItemWithError(dict, key) : NULL;
        Py_XDECREF(key);
        formula[i] = NULL;
        if (PyErr_Occurred()) return false;
        if (!text || text == Py_None) continue;
        formula[i] = PyUnicode_Check(text) ? lmx_utf8(text) : NULL;
        if (formula[i]) continue;
        lmx_fail(o->st, LAM_USAGE, NULL, "a formula is a text");
        return false;
    }
    return true;
}

static bool add_rule(lmx_own *o, PyObject *rule) {
    const char *name, *formula[LAM_N_METRICS];
    PyObject *dict;
    int ask;
    lam_error e = {.at = -1};
    if (!PyTuple_Check(rule)) return lmx_fail(o->st, LAM_USAGE, NULL, "a rule is a tuple") != NULL;
    if (!PyArg_ParseTuple(rule, "sO!p:rule", &name, &PyDict_Type, &dict, &ask)) return false;
    if (!formulas_of(o, dict, formula)) return false;
    if (lam_rules_add(o->rules, name, formula, ask, &e) == LAM_OK) return true;
    lmx_raise(o->st, &e);
    return false;
}

bool lmx_own_add(lmx_own *o, PyObject *rules) {
    if (!PyList_Check(rules)) return lmx_fail(o->st, LAM_USAGE, NULL, "own rules are a list") != NULL;
    for (Py_ssize_t i = 0; i < PyList_Size(rules); i++)
        if (!add_rule(o, PyList_GetItem(rules, i))) return false;
    return true;
}

bool lmx_own_take(lmx_own *o, lmx_state *st, PyObject *rules, PyObject *ask) {
    lam_error e = {.at = -1};
    *o = (lmx_own){.st = st, .ask = ask == Py_None ? NULL : ask};
    if (rules == Py_None) return true;
    if (lam_rules_new(&o->rules, &e) != LAM_OK) return lmx_raise(st, &e) != NULL;
    return lmx_own_add(o, rules);
}

void lmx_own_release(lmx_own *o) { lam_rules_free(o->rules); }

/* == and back ========================================================================================== */

static PyObject *op_args(const lam_op_arg *args, int32_t n) {
    lmx_sink t;
    lam_op_args_tell(args, n, lmx_sink_begin(&t));
    return lmx_sink_end(&t);
}

/* Gives the tensors of a call in the form of an operator's. */
static PyObject *call_args(const lam_arg *args, int32_t n) {
    lam_op_arg *all = calloc((size_t)n + 1, sizeof *all);
    if (!all) return PyErr_NoMemory();
    for (int32_t i = 0; i < n; i++)
        all[i] = (lam_op_arg){.position = args[i].position,
                              .is_tensor = true,
                              .dtype = args[i].dtype,
                              .device = args[i].device,
                              .ndim = args[i].ndim,
                              .sizes = args[i].sizes};
    PyObject *answer = op_args(all, n);
    free(all);
    return answer;
}

static PyObject *question(const lmx_own *o, const lam_model *m, int32_t op, int32_t event, const char *name) {
    const lam_op *asked = op >= 0 ? lam_model_op(m, op) : NULL;
    const lam_event *ev = asked ? NULL : lam_model_event(m, event);
    PyObject *in = asked ? op_args(asked->sig->in, asked->sig->n_in) : call_args(ev->in, ev->n_in);
    PyObject *out = asked ? op_args(asked->sig->out, asked->sig->n_out) : call_args(ev->out, ev->n_out);
    PyObject *answer = in && out ? PyObject_CallFunction(o->ask, "sOO", name, in, out) : NULL;
    Py_XDECREF(in);
    Py_XDECREF(out);
    return answer;
}

/* Calls the user's function, which returns a dict of numbers by metric; None is unknown. */
bool lmx_own_ask(void *self, const lam_model *m, int32_t op, int32_t event, const char *name,
                 lam_count out[LAM_N_METRICS]) {
    lmx_own *o = self;
    if (o->failed || !o->ask || PyErr_Occurred()) return false;
    PyObject *answer = question(o, m, op, event, name);
    o->failed = !answer;
    if (answer && !PyDict_Check(answer)) {
        lmx_fail(o->st, LAM_USAGE, name, "the function of its numbers gave no dict");
        o->failed = true;
    }
    if (!o->failed) o->failed = !lmx_counts_from_dict(o->st, answer, out);
    Py_XDECREF(answer);
    return !o->failed;
}

/* == functions of the module =========================================================================== */

static PyObject *own_read(PyObject *module, PyObject *args) {
    const char *text, *from;
    lam_rules *rules = NULL;
    lam_error e = {.at = -1};
    lmx_sink t;
    if (!PyArg_ParseTuple(args, "ss:read_rules", &text, &from)) return NULL;
    if (lam_rules_new(&rules, &e) != LAM_OK || lam_rules_read(rules, text, from, &e) != LAM_OK) {
        lam_rules_free(rules);
        return lmx_raise(lmx_state_of(module), &e);
    }
    lam_rules_tell(rules, lmx_sink_begin(&t));
    lam_rules_free(rules);
    return lmx_sink_end(&t);
}

/* Checks that the core takes the rule; returns its plain name. */
static PyObject *own_check(PyObject *module, PyObject *rule) {
    lmx_own o;
    lam_rule r;
    PyObject *list = PyList_New(1);
    if (!list) return NULL;
    Py_INCREF(rule);
    PyList_SetItem(list, 0, rule);
    bool ok = lmx_own_take(&o, lmx_state_of(module), list, Py_None);
    Py_DECREF(list);
    PyObject *name = ok && lam_rules_at(o.rules, 0, &r) ? lmx_str(r.kind) : NULL;
    lmx_own_release(&o);
    return name;
}

static PyObject *own_op_kind(PyObject *module, PyObject *args) {
    const char *name;
    (void)module;
    if (!PyArg_ParseTuple(args, "s:op_kind", &name)) return NULL;
    return lmx_str(lam_word_op_kind(lam_word_op(name)));
}

static PyObject *own_op_wraps(PyObject *module, PyObject *name) {
    (void)module;
    return PyBool_FromLong(lam_word_op_wraps(lam_word_op(lmx_utf8(name))));
}

PyMethodDef lmx_own_methods[] = {
    {"read_rules", own_read, METH_VARARGS,
     PyDoc_STR("read_rules($module, text, origin, /)\n--\n\nReads the rules in a text. Returns names, and "
               "formulas by metric.")},
    {"check_rule", own_check, METH_O,
     PyDoc_STR(
         "check_rule($module, rule, /)\n--\n\nReturns the name that a rule (name, formulas, asks) is for.")},
    {"op_kind", own_op_kind, METH_VARARGS,
     PyDoc_STR("op_kind($module, name, /)\n--\n\nReturns the kind of an operator, or None if its name is not "
               "known.")},
    {"op_wraps", own_op_wraps, METH_O,
     PyDoc_STR("op_wraps($module, name, /)\n--\n\nReturns True if the operator's work is done by the "
               "operators that it calls.")},
    {NULL, NULL, 0, NULL},
};
