/* SPDX-License-Identifier: Apache-2.0
 * The command line from Python: the host's sinks, its live models and its part of `doctor` are the
 * methods of a Python object; an exception in one of them becomes the core's error, and
 * KeyboardInterrupt ends the command. */
#include "base/ext.h"
#include "base/tables.h"
#include "results/results.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct outlet {
    struct host *host;
    PyObject *write; /* bound method */
    char tail[4];    /* the start of a UTF-8 sequence that was cut between two calls */
    size_t n_tail;
} outlet;

typedef struct host {
    lmx_state *st;
    PyObject *self;
    outlet out, err;
    PyObject *raised[3]; /* the exception to raise when the command has ended */
    lmx_own own;         /* rules that the model's code registered; owns `ask` */
    bool broken;         /* the exception came from a sink: nothing more is written */
} host;

static void keep_exception(host *h) {
    PyObject **raised = h->raised;
    lmx_keep_first(raised, false);
    PyErr_NormalizeException(&raised[0], &raised[1], &raised[2]);
}

/* == sinks ============================================================================================= */

static PyObject *decode(outlet *o, const char *bytes, size_t n) {
    char *all = malloc(o->n_tail + n + 1);
    if (!all) return PyErr_NoMemory();
    memcpy(all, o->tail, o->n_tail);
    memcpy(all + o->n_tail, bytes, n);
    n += o->n_tail;
    o->n_tail = 0;
    /* Python before 3.11.5 does not set `used` if all bytes are ASCII (gh-99612). */
    Py_ssize_t used = (Py_ssize_t)n;
    PyObject *text = PyUnicode_DecodeUTF8Stateful(all, (Py_ssize_t)n, "replace", &used);
    if (text && n - (size_t)used < sizeof o->tail) {
        o->n_tail = n - (size_t)used;
        memcpy(o->tail, all + used, o->n_tail);
    }
    free(all);
    return text;
}

static lam_status put(void *to, const char *bytes, size_t n) {
    outlet *o = to;
    if (o->host->broken) return LAM_IO;
    PyObject *text = decode(o, bytes, n);
    PyObject *done = text ? PyObject_CallFunctionObjArgs(o->write, text, NULL) : NULL;
    Py_XDECREF(text);
    Py_XDECREF(done);
    if (done) return LAM_OK;
    o->host->broken = true;
    keep_exception(o->host);
    return LAM_IO;
}

/* == live models ======================================================================================= */

/* A word of the command line as in sys.argv, or None for NULL: bytes that are not UTF-8 are surrogates, so
 * that Python opens a file of such a name. */
static PyObject *word(const char *s) {
    return s ? PyUnicode_DecodeUTF8(s, (Py_ssize_t)strlen(s), "surrogateescape") : lmx_str(NULL);
}

static PyObject *texts(const char *const *items, int32_t n) {
    PyObject *list = PyList_New(0);
    for (int32_t i = 0; list && items && (n < 0 ? items[i] != NULL : i < n); i++) {
        PyObject *item = word(items[i]);
        if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

/* Takes the model of what ran before the exception, if that carries one. */
static void partial_model(host *h, PyObject *exception, lam_model **out) {
    PyObject *model = exception ? PyObject_GetAttr(exception, h->st->n_lamina_model) : NULL;
    if (model && Py_TYPE(model) == h->st->model_type) *out = lmx_model_release(h->st, model);
    Py_XDECREF(model);
    PyErr_Clear();
}

static lam_status failed(host *h, lam_model **out, lam_error *e) {
    if (!PyErr_ExceptionMatches(PyExc_Exception)) {
        keep_exception(h);
        partial_model(h, h->raised[1], out);
        if (e && !e->text[0]) {
            *e = (lam_error){.status = LAM_FAILED, .at = -1};
            snprintf(e->text, sizeof e->text, "interrupted");
        }
        return LAM_FAILED;
    }
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    partial_model(h, value, out);
    PyErr_Restore(type, value, trace);
    lam_status status = lmx_error_from_exception(h->st, e);
    return *out ? LAM_FAILED : status;
}

static bool add(PyObject *dict, const char *name, PyObject *value) {
    const bool ok = value && PyDict_SetItemString(dict, name, value) == 0;
    Py_XDECREF(value);
    return ok;
}

/* The fields of the request by their names. */
static PyObject *asked(const lam_live *what) {
    PyObject *all = PyDict_New();
    bool ok = all != NULL;
#define FLAG(name)  ok = ok && add(all, #name, PyBool_FromLong(what->name));
#define WORD(name)  ok = ok && add(all, #name, word(what->name));
#define WORDS(name) ok = ok && add(all, #name, texts(what->name, -1));
#define COUNT(name) ok = ok && add(all, #name, PyLong_FromLong(what->name));
    LAM_LIVE(FLAG, WORD, WORDS, COUNT)
#undef COUNT
#undef WORDS
#undef WORD
#undef FLAG
    if (!ok) Py_CLEAR(all);
    return all;
}

static PyObject *ask_live(host *h, const lam_live *what) {
    PyObject *request = asked(what), *model = NULL;
    if (request) model = PyObject_CallMethodObjArgs(h->self, h->st->n_live, request, NULL);
    Py_XDECREF(request);
    return model;
}

static lam_status live(void *self, const lam_live *what, lam_model **out, lam_error *e) {
    host *h = self;
    *out = NULL;
    PyObject *model = ask_live(h, what);
    if (model) *out = lmx_model_release(h->st, model);
    lam_status status = *out ? LAM_OK : failed(h, out, e);
    Py_XDECREF(model);
    return status;
}

static lam_status ranks_of(void *self, const char *folder, const lam_ranks_look *look, lam_ranks **out,
                           lam_error *e) {
    host *h = self;
    lam_model *none = NULL;
    PyObject *path = word(folder), *found = NULL, *node = word(look ? look->node : NULL);
    PyObject *rank =
        look && look->rank != LAM_NOT_KNOWN ? PyLong_FromLongLong((long long)look->rank) : Py_NewRef(Py_None);
    PyObject *layers = PyBool_FromLong(look && look->layers);
    if (path && node && rank && layers)
        found = PyObject_CallMethod(h->self, "ranks", "OOOO", path, rank, node, layers);
    Py_XDECREF(path);
    Py_XDECREF(node);
    Py_XDECREF(rank);
    Py_XDECREF(layers);
    *out = found ? lmx_ranks_release(h->st, found) : NULL;
    Py_XDECREF(found);
    return *out ? LAM_OK : failed(h, &none, e);
}

static lam_status merge(void *self, int32_t n, const char *const *recordings, const char *folder,
                        lam_merged *out, lam_error *e) {
    host *h = self;
    lam_model *none = NULL;
    PyObject *files = texts(recordings, n), *path = word(folder), *result = NULL;
    if (files && path) result = PyObject_CallMethod(h->self, "merge", "OO", files, path);
    Py_XDECREF(files);
    Py_XDECREF(path);
    int written = 0, kept = 0, left_out = 0;
    const bool ok = result && PyArg_ParseTuple(result, "iii:merge", &written, &kept, &left_out);
    Py_XDECREF(result);
    *out = (lam_merged){written, kept, left_out};
    return ok ? LAM_OK : failed(h, &none, e);
}

static lam_status sql(void *self, const char *folder, const char *query, lam_table **out, lam_error *e) {
    host *h = self;
    lam_model *none = NULL;
    PyObject *path = word(folder), *text = word(query), *rows = NULL, *capsule = NULL;
    if (path && text) rows = PyObject_CallMethod(h->self, "sql", "OO", path, text);
    Py_XDECREF(path);
    Py_XDECREF(text);
    if (rows) capsule = PyObject_CallMethod(rows, "__arrow_c_stream__", NULL);
    Py_XDECREF(rows);
    struct ArrowArrayStream *s = capsule ? PyCapsule_GetPointer(capsule, "arrow_array_stream") : NULL;
    lam_status status = s ? lam_table_read(out, s, NULL, e) : LAM_FAILED;
    Py_XDECREF(capsule);
    return PyErr_Occurred() ? failed(h, &none, e) : status;
}

static lam_status doctor(void *self, lam_sink to, lam_error *e) {
    host *h = self;
    lam_model *none = NULL;
    PyObject *text = PyObject_CallMethodObjArgs(h->self, h->st->n_doctor, NULL);
    if (!text) return failed(h, &none, e);
    PyObject *bytes = PyUnicode_AsEncodedString(text, "utf-8", "replace");
    Py_DECREF(text);
    if (!bytes) return failed(h, &none, e);
    char *at;
    Py_ssize_t n;
    PyBytes_AsStringAndSize(bytes, &at, &n);
    lam_status status = to.put(to.to, at, (size_t)n);
    Py_DECREF(bytes);
    return status;
}

/* Python runs the program once the command has ended, so that no C code of lamina lies under it. */
static lam_status script(void *self, const lam_script *what, lam_error *e) {
    host *h = self;
    lam_model *none = NULL;
    PyObject *method = PyObject_GetAttr(h->self, h->st->n_script);
    PyObject *program = Py_BuildValue("(NNNlNNNN)", word(what->module), texts(what->argv, what->n_argv),
                                      word(what->file), (long)what->every, PyBool_FromLong(what->memory),
                                      PyBool_FromLong(what->health), word(what->job), word(what->peak));
    PyObject *done = method && program ? PyObject_CallObject(method, program) : NULL;
    Py_XDECREF(method);
    Py_XDECREF(program);
    if (!done) return failed(h, &none, e);
    Py_DECREF(done);
    return LAM_OK;
}

/* Waits in Python, which handles a Ctrl-C. */
static lam_status wait_for(void *self, int32_t milliseconds) {
    host *h = self;
    if (h->raised[0]) return LAM_FAILED; /* as by a Ctrl-C in a run that may fail */
    PyObject *done = PyObject_CallMethod(h->self, "wait", "i", (int)milliseconds);
    Py_XDECREF(done);
    if (done) return LAM_OK;
    keep_exception(h);
    return LAM_FAILED;
}

static lam_status roof(void *self, const char *dtype, int32_t device, lam_peak *out, lam_error *e) {
    host *h = self;
    lam_model *none = NULL;
    PyObject *best = PyObject_CallMethod(h->self, "roof", "zi", dtype, (int)device);
    bool ok = best && PyArg_ParseTuple(best, "dd", &out->flops, &out->bytes);
    Py_XDECREF(best);
    return ok ? LAM_OK : failed(h, &none, e);
}

static lam_status lay_out(void *self, const lam_costs *c, const lam_report_options *o, lam_sink to,
                          lam_error *e) {
    lam_model *none = NULL;
    lam_status status = lmx_write_old(NULL, c, o, to, e);
    return status != LAM_OK && PyErr_Occurred() ? failed(self, &none, e) : status;
}

/* == rules that a model's code registered ============================================================== */

static lam_status rules(void *self, lam_rules *to, lam_error *e) {
    host *h = self;
    lam_model *none = NULL;
    PyObject *list, *ask, *result = PyObject_CallMethod(h->self, "rules", NULL);
    bool ok = result && PyArg_ParseTuple(result, "OO:rules", &list, &ask);
    if (ok && list != Py_None) {
        Py_XDECREF(h->own.ask);
        Py_INCREF(ask);
        h->own = (lmx_own){.st = h->st, .rules = to, .ask = ask};
        ok = lmx_own_add(&h->own, list);
    }
    Py_XDECREF(result);
    return ok ? LAM_OK : failed(h, &none, e);
}

/* If the function raises, the other numbers are still shown; then its exception ends the command. */
static bool ask(void *self, const lam_model *m, int32_t op, int32_t event, const char *name,
                lam_count out[LAM_N_METRICS]) {
    host *h = self;
    bool given = h->own.ask && lmx_own_ask(&h->own, m, op, event, name, out);
    if (!given && PyErr_Occurred()) keep_exception(h);
    return given;
}

/* == checks of a project ================================================================================= */

const char **lmx_words(PyObject *list, int *argc) {
    Py_ssize_t n = PyList_Size(list);
    const char **argv = n < INT32_MAX ? calloc((size_t)n + 1, sizeof *argv) : NULL;
    if (!argv) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PyList_GetItem(list, i);
        argv[i] = PyBytes_Check(item) ? PyBytes_AsString(item) : PyUnicode_AsUTF8AndSize(item, NULL);
        if (!argv[i]) {
            free(argv);
            return NULL;
        }
    }
    *argc = (int)n;
    return argv;
}

/* Passes on each check of the project's file as words; stops after an exception that ends the command. */
static lam_status checks(void *self, lam_take_check take, void *to, lam_error *e) {
    host *h = self;
    lam_model *none = NULL;
    PyObject *result = PyObject_CallMethod(h->self, "checks", NULL), *list = NULL;
    const char *file;
    bool ok = result && PyArg_ParseTuple(result, "sO!:checks", &file, &PyList_Type, &list);
    lam_status status = LAM_OK;
    for (Py_ssize_t i = 0; ok && status == LAM_OK && !h->raised[0] && i < PyList_Size(list); i++) {
        int argc = 0;
        const char **argv = lmx_words(PyList_GetItem(list, i), &argc);
        ok = argv != NULL;
        if (ok) status = take(to, file, argc, argv);
        free(argv);
    }
    if (!ok) status = failed(h, &none, e);
    Py_XDECREF(result);
    return status;
}

/* == the call ========================================================================================== */

static bool flag(PyObject *self, const char *name) {
    PyObject *o = PyObject_GetAttrString(self, name);
    bool yes = o && PyObject_IsTrue(o) > 0;
    Py_XDECREF(o);
    PyErr_Clear();
    return yes;
}

static int32_t size_of(PyObject *self, const char *name) {
    PyObject *o = PyObject_GetAttrString(self, name);
    long size = o ? PyLong_AsLong(o) : 0;
    Py_XDECREF(o);
    PyErr_Clear();
    return size > 0 && size < INT32_MAX ? (int32_t)size : 0;
}

static bool open_outlet(host *h, outlet *o, PyObject *name) {
    PyObject *stream = PyObject_GetAttr(h->self, name);
    o->host = h;
    o->write = stream ? PyObject_GetAttr(stream, h->st->n_write) : NULL;
    Py_XDECREF(stream);
    return o->write != NULL;
}

static int run(host *h, int argc, const char **argv) {
    lam_host given = {
        .self = h,
        .out = {put, &h->out},
        .err = {put, &h->err},
        .out_is_terminal = flag(h->self, "is_terminal"),
        .out_is_utf8 = flag(h->self, "is_utf8"),
        .err_is_terminal = flag(h->self, "err_is_terminal"),
        .width = size_of(h->self, "width"),
        .height = size_of(h->self, "height"),
        .live = live,
        .doctor = doctor,
        .ranks = PyObject_HasAttrString(h->self, "ranks") ? ranks_of : NULL,
        .merge = PyObject_HasAttrString(h->self, "merge") ? merge : NULL,
        .sql = PyObject_HasAttrString(h->self, "sql") ? sql : NULL,
        .script = script,
        .wait = wait_for,
        .roof = roof,
        .lay_out = lay_out,
        .rules = PyObject_HasAttrString(h->self, "rules") ? rules : NULL,
        .ask = ask,
        .checks = checks,
    };
    return lam_command(argc, argv, &given);
}

PyObject *lmx_command(PyObject *module, PyObject *args) {
    PyObject *list;
    host h = {.st = lmx_state_of(module)};
    if (!PyArg_ParseTuple(args, "O!O:command", &PyList_Type, &list, &h.self)) return NULL;
    int argc = 0, code = 0;
    PyObject *held =
        PyList_GetSlice(list, 0, PyList_Size(list)); /* the host's code can't change what argv points to */
    const char **argv = held ? lmx_words(held, &argc) : NULL;
    bool ok = argv && open_outlet(&h, &h.out, h.st->n_out) && open_outlet(&h, &h.err, h.st->n_err);
    if (ok) code = run(&h, argc, argv);
    free(argv);
    Py_XDECREF(held);
    Py_XDECREF(h.own.ask);
    Py_XDECREF(h.out.write);
    Py_XDECREF(h.err.write);
    if (h.raised[0]) {
        PyErr_Restore(h.raised[0], h.raised[1], h.raised[2]);
        ok = false;
    }
    return ok ? PyLong_FromLong(code) : NULL;
}
