/* SPDX-License-Identifier: Apache-2.0
 * The type Costs: a model counted under one convention, its totals and its tables as text. */
#include "base/ext.h"
#include "base/tables.h"
#include "results/results.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct lmx_costs {
    PyObject_HEAD lmx_state *st;
    lmx_model *model; /* strong: the costs read it */
    lam_costs *costs;
} lmx_costs;

static lmx_costs *self_of(PyObject *self) { return (lmx_costs *)self; }

/* == the user's own counts ============================================================================= */

typedef struct custom {
    lmx_state *st;
    PyObject *function;
    bool failed; /* its exception is pending; it is not called again */
} custom;

bool lmx_counts_from_dict(lmx_state *st, PyObject *dict, lam_count out[LAM_N_METRICS]) {
    for (int i = 0; i < LAM_N_METRICS; i++) {
        PyObject *key = PyUnicode_FromString(lam_metric_name((lam_metric)i));
        PyObject *value = key ? PyDict_GetItemWithError(dict, key) : NULL;
        Py_XDECREF(key);
        out[i] = (lam_count){0, 0, LAM_UNKNOWN};
        if (PyErr_Occurred() || (value && !lmx_count_from(st, value, &out[i]))) return false;
    }
    return true;
}

static bool counts_from_tuple(lmx_state *st, PyObject *tuple, lam_count out[LAM_N_METRICS]) {
    Py_ssize_t n = PyTuple_Size(tuple);
    for (int i = 0; i < LAM_N_METRICS; i++) {
        out[i] = (lam_count){0, 0, LAM_UNKNOWN};
        if (i < n && !lmx_count_from(st, PyTuple_GetItem(tuple, i), &out[i])) return false;
    }
    return true;
}

/* True when `answer` overrides the rule. */
static bool take_counts(custom *c, PyObject *answer, lam_count out[LAM_N_METRICS], bool *omit) {
    if (answer == Py_None) return false;
    bool ok = true;
    if (PyUnicode_Check(answer) && strcmp(lmx_utf8(answer), "omit") == 0)
        *omit = true;
    else if (PyDict_Check(answer))
        ok = lmx_counts_from_dict(c->st, answer, out);
    else if (PyTuple_Check(answer))
        ok = counts_from_tuple(c->st, answer, out);
    else {
        lmx_fail(c->st, LAM_USAGE, NULL,
                 "a custom count is None, 'omit', a dict, or a tuple (macs, flops, dmas)");
        ok = false;
    }
    c->failed = !ok;
    return ok;
}

static bool ask_custom(void *self, const lam_model *m, int32_t event, lam_count out[LAM_N_METRICS],
                       bool *omit) {
    (void)m;
    custom *c = self;
    if (c->failed || PyErr_Occurred()) return false;
    PyObject *answer = PyObject_CallFunction(c->function, "i", (int)event);
    if (!answer) {
        c->failed = true;
        return false;
    }
    bool overrides = take_counts(c, answer, out, omit);
    Py_DECREF(answer);
    return overrides;
}

/* == making one ======================================================================================== */

static lam_costs *count(lmx_model *m, const char *convention, bool released, PyObject *function,
                        lmx_own *own) {
    custom c = {m->st, function, false};
    lam_cost_options o = {.convention = convention, .released = released, .totals_only = true};
    if (function != Py_None) {
        o.custom = ask_custom;
        o.custom_self = &c;
    }
    o.own = own->rules;
    o.ask = own->ask ? lmx_own_ask : NULL;
    o.ask_self = own;
    lam_error e = {.at = -1};
    lam_costs *costs = NULL;
    m->borrowers++; /* the user's function must not release the model */
    lam_status s = lam_costs_new(&costs, m->model, &o, &e);
    m->borrowers--;
    if (s == LAM_OK && !c.failed && !own->failed) return costs;
    if (s == LAM_OK) lam_costs_free(costs);
    lmx_raise(m->st, &e);
    return NULL;
}

PyObject *lmx_costs_new(PyObject *model, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"convention", "released", "custom", "own", "ask", NULL};
    lmx_model *m = (lmx_model *)model;
    if (!lmx_model_of(model)) return NULL;
    const char *convention = NULL;
    int released = 0;
    PyObject *function = Py_None, *rules = Py_None, *ask = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|zpOOO:costs", names, &convention, &released, &function,
                                     &rules, &ask))
        return NULL;
    if (function != Py_None && !PyCallable_Check(function))
        return lmx_fail(m->st, LAM_USAGE, NULL, "custom is a function of the number of a call");
    lmx_own own;
    bool taken = lmx_own_take(&own, m->st, rules, ask);
    lam_costs *costs = taken ? count(m, convention, released, function, &own) : NULL;
    lmx_own_release(&own);
    if (!costs) return NULL;
    lmx_costs *self = (lmx_costs *)PyType_GenericAlloc(m->st->costs_type, 0);
    if (!self) {
        lam_costs_free(costs);
        return NULL;
    }
    Py_INCREF(model);
    m->borrowers++;
    self->st = m->st;
    self->model = m;
    self->costs = costs;
    return (PyObject *)self;
}

static void costs_dealloc(PyObject *self) {
    lmx_costs *c = self_of(self);
    PyTypeObject *type = Py_TYPE(self);
    lam_costs_free(c->costs);
    if (c->model) c->model->borrowers--;
    Py_XDECREF((PyObject *)c->model);
    PyObject_Free(self);
    Py_DECREF(type);
}

lam_costs *lmx_costs_settled(PyObject *self) {
    lam_error e = {.at = -1};
    if (lam_costs_settle(self_of(self)->costs, &e) == LAM_OK) return self_of(self)->costs;
    lmx_raise(self_of(self)->st, &e);
    return NULL;
}

static PyObject *part_data(PyObject *self, lam_costs_part part, int32_t i) {
    lmx_sink t;
    lam_error e = {.at = -1};
    lam_status s = lam_costs_tell(self_of(self)->costs, part, i, lmx_sink_begin(&t), &e);
    PyObject *all = lmx_sink_end(&t);
    return s == LAM_OK ? all : lmx_raise(self_of(self)->st, &e);
}

#define PART(name, part)                                                                                     \
    static PyObject *costs_##name(PyObject *self, PyObject *unused) {                                        \
        (void)unused;                                                                                        \
        return part_data(self, part, 0);                                                                     \
    }
#define PART_OF(name, part)                                                                                  \
    static PyObject *costs_##name(PyObject *self, PyObject *args) {                                          \
        int i;                                                                                               \
        return PyArg_ParseTuple(args, "i:" #name, &i) ? part_data(self, part, i) : NULL;                     \
    }
PART(rows, LAM_COSTS_ROWS)
PART(times, LAM_COSTS_TIMES)
PART(params, LAM_COSTS_PARAMS)
PART(unruled, LAM_COSTS_UNRULED)
PART(unruled_ops, LAM_COSTS_UNRULED_OPS)
PART(growth, LAM_COSTS_GROWTH)
PART(gaps, LAM_COSTS_GAPS)
PART_OF(operator, LAM_COSTS_OPERATOR)
PART_OF(why, LAM_COSTS_WHY)

/* == totals ============================================================================================ */

static PyObject *costs_totals(PyObject *self, PyObject *args) {
    const char *name = lam_phase_name(LAM_FORWARD);
    int phase = 0;
    if (!PyArg_ParseTuple(args, "|s:totals", &name)) return NULL;
    while (phase < LAM_N_PHASES && strcmp(lam_phase_name((lam_phase)phase), name) != 0) phase++;
    if (phase < LAM_N_PHASES) return part_data(self, LAM_COSTS_TOTALS, phase);
    return lmx_fail(self_of(self)->st, LAM_USAGE, NULL,
                    "there is no phase '%.40s'; it is forward, backward or recompute", name);
}

/* One of the numbers of `totals`, without the work for all of them. */
static PyObject *costs_total(PyObject *self, PyObject *name) {
    lam_count n[LAM_N_METRICS];
    if (!PyUnicode_Check(name))
        return lmx_fail(self_of(self)->st, LAM_USAGE, NULL, "a metric's name is a str, such as 'macs'");
    for (int i = 0; i < LAM_N_METRICS; i++) {
        n[i] = lam_costs_total(self_of(self)->costs, (lam_metric)i);
        if (PyUnicode_CompareWithASCIIString(name, lam_metric_name((lam_metric)i)) == 0)
            return lmx_count(n[i]);
    }
    if (PyUnicode_CompareWithASCIIString(name, "bytes") == 0) return lmx_count(lam_metric_bytes(n));
    return lmx_fail(self_of(self)->st, LAM_USAGE, NULL, "unknown metric");
}

static PyObject *costs_speeds(PyObject *self, PyObject *args) {
    lam_peak peak;
    lmx_sink t;
    int inside = 0;
    if (!PyArg_ParseTuple(args, "dd|p:speeds", &peak.flops, &peak.bytes, &inside)) return NULL;
    const lam_costs *c = lmx_costs_settled(self);
    if (!c) return NULL;
    lam_speeds_tell(c, peak, inside, lmx_sink_begin(&t));
    return lmx_sink_end(&t);
}

static PyObject *costs_convention(PyObject *self, void *unused) {
    (void)unused;
    return lmx_str(lam_convention_name(lam_costs_convention(self_of(self)->costs)));
}

/* == changing them =========================================================================== */

static PyObject *costs_aggregate(PyObject *self, PyObject *args) {
    int depth;
    lam_error e = {.at = -1};
    if (!PyArg_ParseTuple(args, "i:aggregate", &depth)) return NULL;
    lam_costs *c = lmx_costs_settled(self);
    if (!c) return NULL;
    if (lam_costs_aggregate(c, depth, &e) != LAM_OK) return lmx_raise(self_of(self)->st, &e);
    Py_RETURN_NONE;
}

static PyObject *costs_rf_backwards(PyObject *self, PyObject *unused) {
    (void)unused;
    lam_error e = {.at = -1};
    lam_costs *c = lmx_costs_settled(self);
    if (!c) return NULL;
    if (lam_costs_rf_backwards(c, &e) != LAM_OK) return lmx_raise(self_of(self)->st, &e);
    Py_RETURN_NONE;
}

static PyObject *costs_rf_seen(PyObject *self, PyObject *args) {
    int row, axis;
    long long element;
    int64_t first, last;
    lam_error e = {.at = -1};
    if (!PyArg_ParseTuple(args, "iiL:rf_seen", &row, &axis, &element)) return NULL;
    const lam_costs *c = lmx_costs_settled(self);
    if (!c) return NULL;
    lam_rf_axis x;
    int shown = -1, i = 0;
    for (; lam_costs_rf_axis(c, row, i, &x, NULL) == LAM_OK; i++)
        if (x.shown && ++shown == axis) break;
    if (lam_costs_rf_seen(c, row, i, element, &first, &last, &e) != LAM_OK)
        return lmx_raise(self_of(self)->st, &e);
    return Py_BuildValue("(LL)", (long long)first, (long long)last);
}

static PyObject *costs_model_macs(PyObject *self, PyObject *repeated) {
    const lam_costs *c = lmx_costs_settled(self);
    return c ? lmx_count(lam_costs_model_macs(c, PyObject_IsTrue(repeated) > 0)) : NULL;
}

static int64_t flops_of(lam_count macs) {
    int64_t flops;
    const bool known = macs.state != LAM_UNKNOWN && !macs.over && !lmi_mul_over(macs.n, 2, &flops);
    return known && (flops > 0 || macs.state == LAM_EXACT) ? flops : -1;
}

static PyObject *costs_step_work(PyObject *self, PyObject *unused) {
    (void)unused;
    const lam_costs *c = lmx_costs_settled(self);
    if (!c) return NULL;
    const lam_count model = lam_costs_model_macs(c, false), all = lam_costs_model_macs(c, true);
    const bool exact = model.state == LAM_EXACT && all.state == LAM_EXACT;
    const char *gap = lam_costs_gap(c, 0);
    const int32_t dtype = lam_costs_macs_dtype(c);
    return Py_BuildValue("(LLOzz)", (long long)flops_of(model), (long long)flops_of(all),
                         exact ? Py_False : Py_True,
                         exact ? NULL
                         : gap ? gap
                               : "not all operators of the step were seen",
                         dtype < 0 ? NULL : lam_dtype_name(dtype));
}

/* == the layer that raised ============================================================================= */

static bool is_at_or_above(const lam_model *m, int32_t above, int32_t below) {
    while (below >= 0 && below != above) below = lam_model_event(m, below)->parent;
    return below == above;
}

/* The innermost failed call under the last call of the root; -1 if that one did not fail. Of siblings the
 * last one counts, because the exception of an earlier one was caught. */
static int32_t failed_call(const lam_model *m) {
    int32_t at = -1;
    for (int32_t i = 0; i < lam_model_n_events(m); i++) {
        const lam_event *ev = lam_model_event(m, i);
        bool failed = ev->flags & LAM_CALL_FAILED;
        if (ev->parent < 0)
            at = failed ? i : -1;
        else if (failed && at >= 0 && is_at_or_above(m, ev->parent, at))
            at = i;
    }
    return at;
}

static PyObject *shapes_text(const lam_event *ev) {
    PyObject *parts = PyList_New(0), *comma = PyUnicode_FromString(", "), *text = NULL;
    for (int32_t i = 0; parts && i < ev->n_in; i++) {
        PyObject *shape = lmx_shape((lam_shape){ev->in[i].ndim, ev->in[i].sizes});
        PyObject *part = shape ? PyUnicode_FromFormat("%s %S", lam_dtype_name(ev->in[i].dtype), shape) : NULL;
        if (!part || PyList_Append(parts, part) < 0) Py_CLEAR(parts);
        Py_XDECREF(part);
        Py_XDECREF(shape);
    }
    if (parts && comma) text = ev->n_in ? PyUnicode_Join(comma, parts) : PyUnicode_FromString("no tensors");
    Py_XDECREF(parts);
    Py_XDECREF(comma);
    return text;
}

/* "layer1.0 (Block)"; a very long path is cut in the middle. */
static PyObject *layer_text(const lam_model *m, const lam_event *ev) {
    enum { LONG = 120, END = 20 };
    const char *path = lam_model_place(m, ev->place)->path, *type = lam_model_module(m, ev->module)->type;
    size_t n = strlen(path);
    if (n > LONG) return PyUnicode_FromFormat("%.20s[...]%s (%s)", path, path + n - END, type);
    return PyUnicode_FromFormat("%s (%s)", n ? path : "the model itself", type);
}

static PyObject *costs_failed_layer(PyObject *self, PyObject *unused) {
    (void)unused;
    const lam_model *m = lam_costs_model(self_of(self)->costs);
    int32_t i = failed_call(m);
    if (i < 0) Py_RETURN_NONE;
    return layer_text(m, lam_model_event(m, i));
}

/* The node of a backward pass that raised, and the layer whose forward made it. */
static PyObject *failed_backward(const lam_model *m) {
    int32_t i = lam_model_failed_node(m);
    if (i < 0) Py_RETURN_NONE;
    const lam_op *node = lam_model_op(m, i);
    const lam_event *ev = lam_model_event(m, node->call);
    if (!ev) return PyUnicode_FromFormat("raised in the backward pass, in %s", node->sig->name);
    PyObject *layer = layer_text(m, ev), *got = layer ? shapes_text(ev) : NULL, *text = NULL;
    if (got)
        text = PyUnicode_FromFormat("raised in the backward of %U, in %s; its forward was given %U", layer,
                                    node->sig->name, got);
    Py_XDECREF(layer);
    Py_XDECREF(got);
    return text;
}

static PyObject *costs_failure(PyObject *self, PyObject *unused) {
    (void)unused;
    const lam_model *m = lam_costs_model(self_of(self)->costs);
    int32_t i = failed_call(m);
    if (i < 0) return failed_backward(m);
    const lam_event *ev = lam_model_event(m, i);
    PyObject *layer = layer_text(m, ev), *got = layer ? shapes_text(ev) : NULL;
    PyObject *text = got ? PyUnicode_FromFormat("raised in %U, which was given %U", layer, got) : NULL;
    Py_XDECREF(layer);
    Py_XDECREF(got);
    return text;
}

/* == tables ============================================================================================ */

static const struct option {
    const char *name;
    enum { NAME, NUMBER, SWITCH, PEAK } type;
    size_t at;
} options[] = {
#define OPTION(member, type)                                                                                 \
    { #member, type, offsetof(lam_report_options, member) }
    OPTION(layout, NAME),      OPTION(format, NAME),   OPTION(width, NUMBER),
    OPTION(max_depth, NUMBER), OPTION(color, SWITCH),  OPTION(ascii, SWITCH),
    OPTION(exact, SWITCH),     OPTION(expand, SWITCH), OPTION(receptive_field, SWITCH),
    OPTION(bytes, SWITCH),     OPTION(why, SWITCH),    OPTION(by, NAME),
    OPTION(sort, NAME),        OPTION(rows, NUMBER),   OPTION(time, SWITCH),
    OPTION(peak, PEAK),        OPTION(memory, SWITCH), OPTION(bars, SWITCH),
    OPTION(page, SWITCH),
#undef OPTION
};
enum { N_OPTIONS = sizeof options / sizeof *options };

static bool set_name(const struct option *o, PyObject *value, const char **to) {
    if (value == Py_None) return true;
    if (!PyUnicode_Check(value)) {
        PyErr_Format(PyExc_TypeError, "%s is a text, not %R", o->name, value);
        return false;
    }
    *to = PyUnicode_AsUTF8AndSize(value, NULL);
    return *to != NULL;
}

static bool set_number(const struct option *o, PyObject *value, int32_t *to) {
    long n = PyLong_AsLong(value);
    if (PyErr_Occurred()) return false;
    if (n < INT32_MIN || n > INT32_MAX) {
        PyErr_Format(PyExc_OverflowError, "%s can't be %ld: that is too large", o->name, n);
        return false;
    }
    *to = (int32_t)n;
    return true;
}

static bool set_peak(PyObject *value, lam_peak *to) {
    if (!PyTuple_Check(value) || PyTuple_Size(value) < 2) {
        PyErr_Format(PyExc_TypeError, "roof is what lamina.roof() gives, not %R", value);
        return false;
    }
    to->flops = PyFloat_AsDouble(PyTuple_GetItem(value, 0));
    to->bytes = PyFloat_AsDouble(PyTuple_GetItem(value, 1));
    if (PyErr_Occurred()) return false;
    if (to->flops > 0 && to->bytes > 0) return true; /* not NaN either */
    PyErr_Format(PyExc_ValueError, "a roof has more than 0 FLOPs and bytes a second, and this is %R", value);
    return false;
}

static bool set_option(const struct option *o, PyObject *value, lam_report_options *to) {
    void *at = (char *)to + o->at;
    switch (o->type) {
    case NAME: return set_name(o, value, at);
    case NUMBER: return set_number(o, value, at);
    case SWITCH: *(bool *)at = PyObject_IsTrue(value) > 0; break;
    case PEAK: return set_peak(value, at);
    }
    return !PyErr_Occurred();
}

static bool set_named(lmx_state *st, PyObject *key, PyObject *value, lam_report_options *to) {
    const char *name = lmx_utf8(key);
    for (int i = 0; i < N_OPTIONS; i++)
        if (strcmp(options[i].name, name) == 0) return set_option(&options[i], value, to);
    lmx_fail(st, LAM_USAGE, NULL, "a report has no option '%.40s'", name);
    return false;
}

static PyObject *costs_write(PyObject *self, PyObject *args) {
    PyObject *dict = NULL, *old = NULL, *key, *value;
    if (!PyArg_ParseTuple(args, "|O!O!:write", &PyDict_Type, &dict, &PyDict_Type, &old)) return NULL;
    lmx_state *st = self_of(self)->st;
    lam_report_options o;
    lam_report_defaults(&o);
    o.lay_out = lmx_write_old;
    o.lay_out_self = old;
    Py_ssize_t at = 0;
    while (dict && PyDict_Next(dict, &at, &key, &value))
        if (!set_named(st, key, value, &o)) return NULL;
    lmx_text text = {0};
    lam_error e = {.at = -1};
    const lam_costs *c = lmx_costs_settled(self);
    if (!c) return NULL;
    lam_status s = lam_report_write(c, &o, lmx_text_sink(&text), &e);
    return lmx_text_end(&text, st, s, &e);
}

static PyObject *costs_plot(PyObject *self, PyObject *args) {
    lam_plot_options o = {0};
    int backward = 0;
    if (!PyArg_ParseTuple(args, "sizpdd:plot", &o.kind, &o.width, &o.by, &backward, &o.roof.flops,
                          &o.roof.bytes))
        return NULL;
    o.backward = backward != 0;
    lmx_text text = {0};
    lam_error e = {.at = -1};
    const lam_costs *c = lmx_costs_settled(self);
    if (!c) return NULL;
    lam_status s = lam_plot_write(c, &o, lmx_text_sink(&text), &e);
    return lmx_text_end(&text, self_of(self)->st, s, &e);
}

static PyObject *costs_why_text(PyObject *self, PyObject *row) {
    const long at = PyLong_AsLong(row);
    if (at == -1 && PyErr_Occurred()) return NULL;
    lmx_text text = {0};
    lam_error e = {.at = -1};
    const lam_costs *c = lmx_costs_settled(self);
    if (!c) return NULL;
    const int32_t known = at < 0 || at >= lam_costs_n_rows(c) ? -1 : (int32_t)at;
    lam_status s = lam_why_write(c, known, false, false, lmx_text_sink(&text), &e);
    return lmx_text_end(&text, self_of(self)->st, s, &e);
}

/* -- budgets ------------------------------------------------------------------------------------------- */

/* Calls `put` with each text of a list. */
static lam_status put_each(lam_budget *b, PyObject *list,
                           lam_status (*put)(lam_budget *b, const char *text, lam_error *e), lam_error *e) {
    int n = 0;
    const char **words = lmx_words(list, &n);
    lam_status status = words ? LAM_OK : LAM_FAILED;
    for (int i = 0; status == LAM_OK && i < n; i++) status = put(b, words[i], e);
    free(words);
    return status;
}

static lam_status check_of(const lam_costs *c, const char *name, lam_budget *b, lmx_text *text,
                           const char **verdict, lam_error *e) {
    lam_check *k = NULL;
    lam_status status = lam_check_new(&k, name, c, b, e);
    if (status == LAM_OK)
        status = lam_checks_write((const lam_check *const[]){k}, 1, "text", lmx_text_sink(text), e);
    if (status == LAM_OK) *verdict = lam_verdict_name(lam_check_verdict(k));
    lam_check_free(k);
    return status;
}

static PyObject *costs_check(PyObject *self, PyObject *args) {
    const char *name, *baseline, *verdict = NULL;
    PyObject *most, *within;
    int incomplete;
    if (!PyArg_ParseTuple(args, "sO!O!zp:check", &name, &PyList_Type, &most, &PyList_Type, &within, &baseline,
                          &incomplete))
        return NULL;
    const lam_costs *c = lmx_costs_settled(self);
    lam_budget *b = NULL;
    lmx_text text = {0};
    lam_error e = {.at = -1};
    if (!c) return NULL;
    lam_status status = lam_budget_new(&b, &e);
    if (status == LAM_OK) status = put_each(b, most, lam_budget_max, &e);
    if (status == LAM_OK) status = put_each(b, within, lam_budget_within, &e);
    if (status == LAM_OK && baseline) status = lam_budget_baseline(b, baseline, &e);
    if (status == LAM_OK && incomplete) lam_budget_allow_incomplete(b);
    if (status == LAM_OK) status = check_of(c, name, b, &text, &verdict, &e);
    lam_budget_free(b);
    PyObject *written = lmx_text_end(&text, self_of(self)->st, status, &e);
    return written ? Py_BuildValue("sN", verdict, written) : NULL;
}

/* == the type ========================================================================================== */

static PyMethodDef costs_methods[] = {
    {"rows", costs_rows, METH_NOARGS,
     PyDoc_STR("rows($self, /)\n--\n\nReturns every row as a dict. Counts are (value, state).")},
    {"totals", costs_totals, METH_VARARGS,
     PyDoc_STR("totals($self, phase='forward', /)\n--\n\nReturns every metric of all that ran, by name.")},
    {"total", costs_total, METH_O,
     PyDoc_STR("total($self, metric, /)\n--\n\nReturns one metric of all that ran: (value, state).")},
    {"model_macs", costs_model_macs, METH_O,
     PyDoc_STR("model_macs($self, repeated, /)\n--\n\nReturns the MACs of the model's forward and backward, "
               "effective where known, `repeated` with those that the backward repeats: (value, state).")},
    {"step_work", costs_step_work, METH_NOARGS,
     PyDoc_STR(
         "step_work($self, /)\n--\n\nReturns two FLOPs for each of the MACs of model_macs, and with those "
         "that the backward repeats, -1 unknown; whether they are lower bounds, and why; and the type of "
         "the numbers of most MACs.")},
    {"operator", costs_operator, METH_VARARGS,
     PyDoc_STR("operator($self, op, /)\n--\n\nReturns every metric of one operator alone, and whether it is "
               "counted itself.")},
    {"unruled_ops", costs_unruled_ops, METH_NOARGS,
     PyDoc_STR("unruled_ops($self, /)\n--\n\nReturns operators without a rule: name and number of runs.")},
    {"rf_seen", costs_rf_seen, METH_VARARGS,
     PyDoc_STR("rf_seen($self, row, axis, element, /)\n--\n\nReturns the first and last position, on an axis "
               "of the row, on which an element depends.")},
    {"params", costs_params, METH_NOARGS,
     PyDoc_STR("params($self, /)\n--\n\nReturns the parameters and buffers of the whole model.")},
    {"growth", costs_growth, METH_NOARGS,
     PyDoc_STR("growth($self, /)\n--\n\nReturns how totals grow with each size that a file leaves open: "
               "its name and value, and of each metric whether it is linear, the part for each and the fixed "
               "part.")},
    {"unruled", costs_unruled, METH_NOARGS,
     PyDoc_STR("unruled($self, /)\n--\n\nReturns types without a rule: name, number of calls, dotted path.")},
    {"gaps", costs_gaps, METH_NOARGS,
     PyDoc_STR("gaps($self, /)\n--\n\nReturns the reasons why a total is not exact, a sentence each.")},
    {"aggregate", costs_aggregate, METH_VARARGS,
     PyDoc_STR("aggregate($self, max_depth, /)\n--\n\nAdds each row below this depth to its ancestor at this "
               "depth, in place.")},
    {"rf_backwards", costs_rf_backwards, METH_NOARGS,
     PyDoc_STR(
         "rf_backwards($self, /)\n--\n\nReplaces receptive fields by those of torchscan 0.1.1, in place.")},
    {"why", costs_why, METH_VARARGS,
     PyDoc_STR("why($self, row, /)\n--\n\nReturns each number of a row with its formula.")},
    {"why_text", costs_why_text, METH_O,
     PyDoc_STR("why_text($self, row, /)\n--\n\nReturns the same as text, as `lamina why` prints it.")},
    {"times", costs_times, METH_NOARGS,
     PyDoc_STR("times($self, /)\n--\n\nReturns the times of the run, or None.")},
    {"speeds", costs_speeds, METH_VARARGS,
     PyDoc_STR("speeds($self, flops, moved, inside=False, /)\n--\n\nReturns the speed of rows, and their "
               "shares of the peaks `flops` and `moved` per second. `inside`: with everything inside.")},
    {"failed_layer", costs_failed_layer, METH_NOARGS,
     PyDoc_STR(
         "failed_layer($self, /)\n--\n\nReturns the layer that raised, \"features.0 (Conv2d)\", or None.")},
    {"failure", costs_failure, METH_NOARGS,
     PyDoc_STR("failure($self, /)\n--\n\nReturns the layer that raised and its arguments, or None.")},
    {"write", costs_write, METH_VARARGS,
     PyDoc_STR("write($self, options={}, old={}, /)\n--\n\nReturns the report as text. `old`: further "
               "arguments for lamina._old.")},
    {"plot", costs_plot, METH_VARARGS,
     PyDoc_STR("plot($self, kind, width, by, backward, flops, moved, /)\n--\n\nReturns a picture as SVG. "
               "`flops` and `moved`: the machine's peaks per second.")},
    {"check", costs_check, METH_VARARGS,
     PyDoc_STR("check($self, name, most, within, baseline, incomplete, /)\n--\n\nHolds the totals against "
               "limits, as `lamina check` does. Returns the verdict and its text.")},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef costs_getset[] = {
    {"convention", costs_convention, NULL, "The convention's name.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot costs_slots[] = {
    {Py_tp_doc, "A model counted under one convention."},
    {Py_tp_dealloc, costs_dealloc},
    {Py_tp_methods, costs_methods},
    {Py_tp_getset, costs_getset},
    {0, NULL},
};

PyType_Spec lmx_costs_spec = {
    "lamina._lamina.Costs",
    sizeof(lmx_costs),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    costs_slots,
};
