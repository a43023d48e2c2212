/* SPDX-License-Identifier: Apache-2.0
 * Finds the fields of torch's records. A known operation is run and its arguments are searched for in its
 * record; Python then checks the result with other operations (lamina._observe.support). The search follows
 * words that may not be pointers, through the kernel, which reports where there is no memory, and runs in a
 * separate process. This process only uses the layout. */
#include "base/ext.h"
#include "observe/observe.h"
#include "torch/tensor.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

/* This relies on the calling convention of x86-64 on Linux: how a class is returned and passed. */
#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__)
enum { OFFERED = 1 };
#else
enum { OFFERED = 0 };
#endif

/* at::RecordFunctionCallback, in every torch since 2.4. */
typedef struct cxx_callback {
    void *(*start)(void **, const void *);
    void (*end)(const void *, void *);
    double probability;
    uint8_t scopes[10], inputs, outputs, ids;
} cxx_callback;

enum { SCOPE_FUNCTION = 0, SCOPE_BACKWARD = 1, SCOPE_USER = 7 };

static lmx_record_api the_api;

uint64_t lmx_add_callback(const lmx_record_api *api, const lmx_callback *c) {
    uint64_t (*add)(cxx_callback) = (uint64_t(*)(cxx_callback))(c->all ? api->add_for_all : api->add);
    cxx_callback cxx = {.start = c->start, .end = c->end, .probability = 1.0};
    cxx.scopes[c->user ? SCOPE_USER : c->nodes ? SCOPE_BACKWARD : SCOPE_FUNCTION] = 1;
    cxx.inputs = c->values;
    cxx.outputs = c->values || c->results;
    return add(cxx);
}

/* A thread's variable: the same name leads to another address on each thread. */
const uint64_t *lmx_keys_here(const lmx_record_api *api) {
    return dlsym(api->library, "_ZN3c104impl26raw_local_dispatch_key_setE");
}

static bool load_api(lmx_record_api *api, void *library) {
    lmx_shim_load(&api->shim, library);
    const bool all =
        lmx_symbol(library, "_ZN2at22addThreadLocalCallbackENS_22RecordFunctionCallbackE", &api->add) &&
        lmx_symbol(library, "_ZN2at14removeCallbackEm", &api->remove) &&
        lmx_symbol(library, "_ZNK2at14RecordFunction4nameEv", &api->name) &&
        lmx_symbol(library, "_ZN2at14RecordFunction15currentThreadIdEv", &api->thread) &&
        lmx_shim_tells(&api->shim);
    lmx_symbol(library, "_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE", &api->add_for_all);
    lmx_symbol(library, "_ZNK2at14RecordFunction10num_inputsEv", &api->n_inputs);
    lmx_symbol(library, "_ZNK2at14RecordFunction11num_outputsEv", &api->n_outputs);
    lmx_symbol(library, "_ZN3c108GradMode10is_enabledEv", &api->grad_enabled);
    lmx_symbol(library, "_ZN2at15sequence_number4peekEv", &api->sequence);
    lmx_symbol(library, "_ZN5torch8autograd25get_current_graph_task_idEv", &api->task);
    lmx_symbol(library, "_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv", &api->modes);
    lmx_symbol(library, "_ZN3c104impl20TorchDispatchModeTLS13any_modes_setEb", &api->own_modes);
    lmx_symbol(library, "_ZN3c104impl28tls_is_dispatch_key_excludedENS_11DispatchKeyE", &api->excluded);
    lmx_symbol(library, "_ZSt19uncaught_exceptionsv", &api->unwinding);
    lmx_symbol(library, "_ZN2at24get_record_function_tls_Ev", &api->kept);
    lmx_symbol(library, "_ZN2at23SavedTensorDefaultHooks13get_tls_stateEv", &api->hooks);
    api->library = library;
    return all && lmx_keys_here(api);
}

LMX_OFTEN const lmx_record_api *lmx_record_api_of(lmx_state *st) {
    if (!OFFERED || the_api.loaded) return the_api.loaded ? &the_api : NULL;
    void *library = lmx_torch_ready(st) ? lmx_torch_library() : NULL;
    PyErr_Clear();
    if (!library) return NULL;
    the_api.loaded = load_api(&the_api, library);
    if (!the_api.loaded) dlclose(library);
    return the_api.loaded ? &the_api : NULL;
}

/* The reason why operators can't be observed here, whatever the layout; NULL: none. */
static const char *refused(lmx_state *st) {
    if (!OFFERED) return "lamina observes operators on x86-64 Linux with glibc only";
    if (!lmx_record_api_of(st)) return "this torch does not export what observers need";
    return NULL;
}

static PyObject *why_refused(PyObject *module, PyObject *unused) {
    (void)unused;
    lmx_state *st = lmx_state_of(module);
    return lmx_torch_ready(st) ? lmx_str(refused(st)) : NULL;
}

static PyObject *has_group(PyObject *module, PyObject *unused) {
    (void)unused;
    return PyBool_FromLong(lmx_has_group(lmx_state_of(module)));
}

/* The caller guarantees that each address has that many bytes. */
static PyObject *read_memory(PyObject *module, PyObject *places) {
    (void)module;
    lmi_vec bytes = {0};
    bool ok = PyTuple_Check(places) || PyErr_Format(PyExc_TypeError, "places are a tuple, not %R", places);
    for (Py_ssize_t i = 0; ok && i < PyTuple_Size(places); i++) {
        unsigned long long at;
        Py_ssize_t n;
        ok = PyArg_ParseTuple(PyTuple_GetItem(places, i), "Kn:read_memory", &at, &n) && n > 0;
        void *to = ok ? lmx_vec_push(&bytes, 1, (size_t)n) : NULL;
        if (to) memcpy(to, (const void *)(uintptr_t)at, (size_t)n);
        if (ok && !to) PyErr_NoMemory();
        ok = to != NULL;
    }
    PyObject *result = ok ? PyBytes_FromStringAndSize(bytes.data, (Py_ssize_t)bytes.n) : NULL;
    lmi_vec_free(&bytes);
    if (!result && !PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a place has at least one byte");
    return result;
}

static PyObject *way_asked(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    const char *text = getenv("LAMINA_CAPTURE"); /* os.environ sets it too, and is slow to read */
    return PyUnicode_DecodeFSDefault(text ? text : "");
}

/* == searching ========================================================================================= */

/* Bytes of a record that are searched, from FIRST on; the most arguments and places. */
enum { RECORD = 384, FIRST = 64, MAX_ARGS = 16, MAX_PLACES = 16 };

typedef struct trial {
    const char *name;
    size_t n;
    uint64_t objects[MAX_ARGS]; /* of tensors: the C++ object; of others 0 */
    uint64_t ints[MAX_ARGS][2]; /* of a list of two integers */
    bool is_list[MAX_ARGS], begun, ended;
    const void *record;
    int32_t inputs, outputs, list, text;
    const lmx_callback *look;
    int32_t callbacks[MAX_PLACES], n_callbacks, quiet, inside; /* records that began inside the operation's */
    const char *texts[MAX_ARGS];
    int32_t tags[MAX_ARGS];
    uint64_t words[MAX_ARGS];
    unsigned char begin[RECORD], end[RECORD];
    int pipe[2]; /* to read words through */
} trial;

static trial *current;

static bool may_point(uint64_t word) { return word > 4096 && word < (uint64_t)1 << 47 && word % 8 == 0; }

/* Reads the word at an address that may be invalid: unwritten parts of a record hold earlier contents of the
 * stack. False if there is no memory. */
static bool peek(const trial *t, uint64_t at, uint64_t *word) {
    ssize_t written = write(t->pipe[1], (const void *)(uintptr_t)at, sizeof *word); /* NOLINT */
    return written > 0 && read(t->pipe[0], word, (size_t)written) == written &&
           written == (ssize_t)sizeof *word;
}

static bool holds(const trial *t, uint64_t at, uint64_t wanted) {
    uint64_t word;
    return peek(t, at, &word) && word == wanted;
}

static bool holds_arguments(const trial *t, uint64_t at) {
    bool any = false;
    for (size_t i = 0; i < t->n; i++) {
        if (!t->objects[i]) continue;
        any = true;
        if (!holds(t, at + i * LMX_IVALUE, t->objects[i])) return false;
    }
    return any;
}

static void find_list(trial *t, size_t i) {
    uint64_t list = t->words[i], from;
    for (int32_t at = 8; t->list < 0 && may_point(list) && at <= 32; at += 8) {
        if (!peek(t, list + (uint64_t)at, &from) || !may_point(from)) continue;
        if (!holds(t, list + (uint64_t)at + 8, from + 2 * LMX_IVALUE)) continue;
        if (holds(t, from, t->ints[i][0]) && holds(t, from + LMX_IVALUE, t->ints[i][1])) t->list = at;
    }
}

/* A std::string begins with the address of its NUL-terminated bytes. */
static void find_text(trial *t, size_t i) {
    uint64_t object = t->words[i], from, first;
    size_t n = strlen(t->texts[i]);
    for (int32_t at = 8; t->text < 0 && may_point(object) && at <= 32; at += 8) {
        if (!peek(t, object + (uint64_t)at, &from) || !may_point(from)) continue;
        if (n >= sizeof first || !peek(t, from, &first)) continue;
        if (memcmp(&first, t->texts[i], n + 1) == 0) t->text = at;
    }
}

static void find_inputs(trial *t, const void *record) {
    for (int32_t at = FIRST; t->inputs < 0 && at < RECORD - 8; at += 8) {
        uint64_t word = lmx_word_at(record, (size_t)at);
        if (lmx_word_at(record, (size_t)at + 8) != t->n || !may_point(word)) continue;
        if (!holds_arguments(t, word)) continue;
        t->inputs = at;
        for (size_t i = 0; i < t->n; i++) {
            const char *value = (const char *)(uintptr_t)word + i * LMX_IVALUE;
            t->tags[i] = lmx_tag_of(value);
            t->words[i] = lmx_word_at(value, 0);
            if (t->is_list[i]) find_list(t, i);
            if (t->texts[i]) find_text(t, i);
        }
    }
}

/* The operation returns its first argument. */
static void find_outputs(trial *t, const void *record) {
    for (int32_t at = t->inputs + 16; t->inputs >= 0 && at < RECORD - 8; at += 8) {
        uint64_t from = lmx_word_at(record, (size_t)at), to = lmx_word_at(record, (size_t)at + 8);
        if (t->outputs >= 0 || !may_point(from) || to - from != LMX_IVALUE) continue;
        if (holds(t, from, t->objects[0])) t->outputs = at;
    }
}

static lmx_active *active_at(int32_t at) { return (lmx_active *)(void *)((char *)the_api.kept() + at); }

/* Finds torch's list of this thread's callbacks, which contains the probe's. It lies a little behind the list
 * of registered callbacks, from which torch makes it. */
static void find_callbacks(trial *t) {
    enum { NEAR = 1024 };
    for (int32_t at = 0; the_api.kept && t->n_callbacks < MAX_PLACES && at < NEAR; at += 8)
        if (lmx_is_active(active_at(at), t->look) && active_at(at)->n == 1)
            t->callbacks[t->n_callbacks++] = at;
    for (int32_t i = 0; i < t->n_callbacks; i++)
        if (t->callbacks[i] == t->quiet) active_at(t->quiet)->n = 0;
}

static void find_no_callbacks(const trial *t) {
    if (t->quiet >= 0 && t->n_callbacks && lmx_is_active(active_at(t->quiet), t->look))
        active_at(t->quiet)->n = 1;
}

static void *look_at_start(void **context, const void *record) {
    trial *t = current;
    *context = NULL;
    if (t && t->begun && !t->ended) t->inside++;
    if (!t || t->begun || strcmp(the_api.name(record), t->name) != 0) return context;
    t->begun = true;
    t->record = record;
    memcpy(t->begin, record, RECORD);
    find_inputs(t, record);
    find_callbacks(t);
    return context;
}

static void look_at_end(const void *record, void *context) {
    trial *t = current;
    (void)context;
    if (!t || !t->begun || t->ended || t->record != record) return;
    t->ended = true;
    find_no_callbacks(t);
    memcpy(t->end, record, RECORD);
    find_outputs(t, record);
}

/* The expected form of an argument in the record. */
static bool expect(lmx_state *st, trial *t, PyObject *arg) {
    size_t i = t->n++;
    if (lmx_is_tensor(st, arg)) {
        t->objects[i] = lmx_word_at(arg, (size_t)st->torch.offset);
    } else if (PyUnicode_Check(arg)) {
        t->texts[i] = lmx_utf8(arg);
    } else if (PyList_Check(arg) && PyList_Size(arg) == 2) {
        t->is_list[i] = true;
        for (Py_ssize_t k = 0; k < 2; k++) t->ints[i][k] = PyLong_AsUnsignedLongLong(PyList_GetItem(arg, k));
    }
    return !PyErr_Occurred();
}

static PyObject *ints_of(const int32_t *tags, const uint64_t *words, size_t n) {
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *item = tags ? PyLong_FromLong(tags[i]) : PyLong_FromUnsignedLongLong(words[i]);
        if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *found(const trial *t) {
    return Py_BuildValue("{s:K,s:i,s:i,s:i,s:i,s:i,s:N,s:N,s:N,s:y#,s:y#}", "thread",
                         (unsigned long long)the_api.thread(), "inputs", (int)t->inputs, "outputs",
                         (int)t->outputs, "list", (int)t->list, "text", (int)t->text, "inside",
                         (int)t->inside, "callbacks", ints_of(t->callbacks, NULL, (size_t)t->n_callbacks),
                         "tags", ints_of(t->tags, NULL, t->n), "words", ints_of(NULL, t->words, t->n),
                         "begin", t->begin, (Py_ssize_t)RECORD, "end", t->end, (Py_ssize_t)RECORD);
}

static PyObject *probe_record(PyObject *module, PyObject *args) {
    lmx_state *st = lmx_state_of(module);
    PyObject *call, *expected;
    int nodes = 0;
    trial t = {.inputs = -1, .outputs = -1, .list = -1, .text = -1, .quiet = -1};
    if (!PyArg_ParseTuple(args, "sOO!|pi:probe_record", &t.name, &call, &PyTuple_Type, &expected, &nodes,
                          &t.quiet))
        return NULL;
    if (!lmx_torch_ready(st)) return NULL;
    const char *why = refused(st);
    if (why || st->torch.offset < 0)
        return lmx_fail(st, LAM_UNSUPPORTED, NULL, "%s", why ? why : st->torch.why);
    const lmx_record_api *api = lmx_record_api_of(st);
    for (Py_ssize_t i = 0; i < PyTuple_Size(expected) && i < MAX_ARGS; i++)
        if (!expect(st, &t, PyTuple_GetItem(expected, i))) return NULL;
    lmx_callback look = {.start = look_at_start, .end = look_at_end, .nodes = nodes != 0, .values = !nodes};
    if (pipe(t.pipe)) return PyErr_SetFromErrno(PyExc_OSError);
    t.look = &look;
    current = &t;
    uint64_t handle = lmx_add_callback(api, &look);
    PyObject *result = PyObject_CallFunctionObjArgs(call, NULL);
    api->remove(handle);
    current = NULL;
    close(t.pipe[0]);
    close(t.pipe[1]);
    if (!result) return NULL;
    Py_DECREF(result);
    if (!t.begun) Py_RETURN_NONE;
    return found(&t);
}

/* The C++ object behind a tensor, by torch.offset; NULL with an exception. */
static const void *object_of(lmx_state *st, PyObject *tensor) {
    if (!lmx_torch_ready(st)) return NULL;
    if (st->torch.offset < 0 || !lmx_is_tensor(st, tensor)) {
        lmx_fail(st, LAM_UNSUPPORTED, NULL, "this is not a tensor whose object can be read");
        return NULL;
    }
    return (const void *)(uintptr_t)lmx_word_at(tensor, (size_t)st->torch.offset);
}

/* A tensor's object is smaller than this in some versions of torch (176 bytes in 2.13), so the kernel copies
 * the words; those past its end are arbitrary. */
static PyObject *probe_tensor(PyObject *module, PyObject *tensor) {
    uint64_t words[24] = {0};
    trial t = {0};
    const void *object = object_of(lmx_state_of(module), tensor);
    if (!object) return NULL;
    if (pipe(t.pipe)) return PyErr_SetFromErrno(PyExc_OSError);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        peek(&t, (uintptr_t)object + i * sizeof *words, &words[i]);
    close(t.pipe[0]);
    close(t.pipe[1]);
    return PyBytes_FromStringAndSize((const char *)words, sizeof words);
}

static PyObject *probe_thread(PyObject *module, PyObject *unused) {
    enum { HOOKS = 128 };
    lmx_state *st = lmx_state_of(module);
    (void)unused;
    if (!lmx_torch_ready(st)) return NULL;
    const char *why = refused(st);
    if (why) return lmx_fail(st, LAM_UNSUPPORTED, NULL, "%s", why);
    const uint64_t *keys = lmx_keys_here(&the_api);
    uint64_t words[HOOKS / sizeof(uint64_t)] = {0};
    trial t = {0};
    if (pipe(t.pipe)) return PyErr_SetFromErrno(PyExc_OSError);
    const char *hooks = the_api.hooks ? the_api.hooks() : NULL;
    for (size_t i = 0; hooks && i < sizeof words / sizeof *words; i++)
        peek(&t, (uintptr_t)hooks + i * sizeof *words, &words[i]);
    close(t.pipe[0]);
    close(t.pipe[1]);
    return Py_BuildValue("KKy#", (unsigned long long)keys[0], (unsigned long long)keys[1], (char *)words,
                         (Py_ssize_t)sizeof words);
}

static PyObject *identity(PyObject *module, PyObject *tensor) {
    lmx_state *st = lmx_state_of(module);
    lmx_tensor t;
    if (!lmx_torch_ready(st)) return NULL;
    if (!lmx_is_tensor(st, tensor)) return lmx_fail(st, LAM_USAGE, NULL, "this is not a tensor");
    if (!lmx_describe(st, tensor, lmx_kind_of(st, tensor), &t)) return NULL;
    return Py_BuildValue("(KK)", (unsigned long long)t.memory, (unsigned long long)t.object);
}

/* == using ============================================================================================= */

static bool read_keys(PyObject *dict, lmx_layout *l) {
    static const struct {
        const char *name;
        size_t at;
    } sets[] = {
#define X(name) {#name, offsetof(lmx_layout, name)},
        LMX_KEYS(X)
#undef X
    };
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        PyObject *value = PyDict_GetItemString(dict, sets[i].name);
        const uint64_t bits = value && PyLong_Check(value) ? PyLong_AsUnsignedLongLong(value) : 0;
        if (PyErr_Occurred()) return false;
        memcpy((char *)l + sets[i].at, &bits, sizeof bits);
    }
    return l->keys >= 0 && l->python >= 0 && l->below && l->gradients;
}

static bool read_layout(lmx_state *st, PyObject *dict, lmx_layout *l) {
    static const struct {
        const char *name;
        size_t at;
    } fields[] = {
#define X(name) {#name, offsetof(lmx_layout, name)},
        LMX_LAYOUT(X)
#undef X
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        PyObject *value = PyDict_GetItemString(dict, fields[i].name);
        long number = value && PyLong_Check(value) ? PyLong_AsLong(value) : INT32_MAX;
        if (number < -1 || number > 4096) {
            lmx_fail(st, LAM_USAGE, NULL, "a layout has a small number '%s'", fields[i].name);
            return false;
        }
        int32_t narrow = (int32_t)number;
        memcpy((char *)l + fields[i].at, &narrow, sizeof narrow);
    }
    return l->inputs >= 0 && l->outputs >= 0 && l->sequence >= 0 && l->tensor >= 0 && read_keys(dict, l);
}

/* Sets the layout with which operators are watched from now on; None: they are not watched. */
static PyObject *use_layout(PyObject *module, PyObject *dict) {
    lmx_state *st = lmx_state_of(module);
    lmx_layout l;
    if (dict != Py_None && (!PyDict_Check(dict) || !read_layout(st, dict, &l))) {
        if (!PyErr_Occurred()) lmx_fail(st, LAM_USAGE, NULL, "a layout is a dict, with every place known");
        return NULL;
    }
    if (dict == Py_None) {
        st->watches_ops = false;
        Py_RETURN_NONE;
    }
    if (!lmx_torch_ready(st)) return NULL;
    const char *why = refused(st);
    if (why) return lmx_fail(st, LAM_UNSUPPORTED, NULL, "%s", why);
    *st->layout = l;
    st->watches_ops = true;
    Py_RETURN_NONE;
}

PyMethodDef lmx_probe_methods[] = {
    {"probe_record", probe_record, METH_VARARGS,
     PyDoc_STR("probe_record($module, name, call, args, nodes=False, quiet=-1, /)\n--\n\nSearches the record "
               "of the operation `name` for its arguments while `call` runs. It may crash. The callbacks at "
               "`quiet` are removed while it runs.")},
    {"probe_tensor", probe_tensor, METH_O,
     PyDoc_STR("probe_tensor($module, tensor, /)\n--\n\nReturns the first bytes of the C++ object of a "
               "tensor, followed by zeros.")},
    {"probe_thread", probe_thread, METH_NOARGS,
     PyDoc_STR("probe_thread($module, /)\n--\n\nReturns the words of the dispatch keys that this thread "
               "includes and excludes, and the first bytes of its hooks for saved tensors.")},
    {"identity", identity, METH_O,
     PyDoc_STR("identity($module, tensor, /)\n--\n\nReturns what identifies a tensor's memory, which its "
               "views share, and the tensor itself; 0: not known.")},
    {"way_asked", way_asked, METH_NOARGS,
     PyDoc_STR("way_asked($module, /)\n--\n\nReturns the value of LAMINA_CAPTURE; empty if it is not set.")},
    {"read_memory", read_memory, METH_O,
     PyDoc_STR("read_memory($module, places, /)\n--\n\nReturns the bytes at each place, joined. A place is "
               "an address and a number of bytes; both must be valid.")},
    {"has_group", has_group, METH_NOARGS,
     PyDoc_STR("has_group($module, /)\n--\n\nReturns whether torch has a process group.")},
    {"why_refused", why_refused, METH_NOARGS,
     PyDoc_STR(
         "why_refused($module, /)\n--\n\nReturns why operators can't be observed with this torch, or None.")},
    {"use_layout", use_layout, METH_O,
     PyDoc_STR("use_layout($module, layout, /)\n--\n\nObserves operators by this layout; None: not at all.")},
    {NULL, NULL, 0, NULL},
};
