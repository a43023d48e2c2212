/* SPDX-License-Identifier: Apache-2.0
 * The type Tokens: a run of a language model in tokens, with what fits into a memory. */
#include "base/ext.h"
#include "base/tables.h"
#include "results/results.h"

typedef struct lmx_tokens {
    PyObject_HEAD lmx_state *st;
    PyObject *costs, *lengths, *followed; /* strong: the tokens read them; NULL: none */
    lam_tokens *tokens;
} lmx_tokens;

static lmx_tokens *self_of(PyObject *self) { return (lmx_tokens *)self; }

static PyObject *tokens_of(PyObject *module, PyObject *args) {
    lmx_state *st = lmx_state_of(module);
    PyObject *costs, *lengths, *followed;
    long long prompt, fresh, batch;
    int given_prompt, given_fresh, sampled;
    lam_token_options o = {0};
    lam_error e = {.at = -1};
    if (!PyArg_ParseTuple(args, "OOOs(LLL)(ppp):tokens", &costs, &lengths, &followed, &o.path, &prompt,
                          &fresh, &batch, &given_prompt, &given_fresh, &sampled))
        return NULL;
    const bool is_text = PyUnicode_Check(followed);
    if (Py_TYPE(costs) != st->costs_type || (lengths != Py_None && Py_TYPE(lengths) != st->costs_type) ||
        (followed != Py_None && !is_text && Py_TYPE(followed) != st->costs_type))
        return lmx_fail(st, LAM_USAGE, NULL, "tokens are read from Costs");
    lam_costs *c = lmx_costs_settled(costs);
    if (c && lengths != Py_None && !(o.lengths = lmx_costs_settled(lengths))) c = NULL;
    if (c && is_text && !(o.not_followed = PyUnicode_AsUTF8AndSize(followed, NULL))) c = NULL;
    if (c && !is_text && followed != Py_None && !(o.followed = lmx_costs_settled(followed))) c = NULL;
    lmx_tokens *self = c ? (lmx_tokens *)PyType_GenericAlloc(st->tokens_type, 0) : NULL;
    if (!self) return NULL;
    Py_INCREF(costs);
    Py_INCREF(lengths);
    Py_INCREF(followed);
    self->st = st;
    self->costs = costs;
    self->lengths = lengths;
    self->followed = followed;
    o.prompt = prompt;
    o.fresh = fresh;
    o.batch = batch;
    o.given_prompt = given_prompt;
    o.given_fresh = given_fresh;
    o.sampled = sampled;
    if (lam_tokens_new(&self->tokens, c, &o, &e) == LAM_OK) return (PyObject *)self;
    Py_DECREF(self);
    return lmx_raise(st, &e);
}

static void tokens_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    lam_tokens_free(self_of(self)->tokens);
    Py_XDECREF(self_of(self)->costs);
    Py_XDECREF(self_of(self)->lengths);
    Py_XDECREF(self_of(self)->followed);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *tokens_as_dict(PyObject *self, PyObject *unused) {
    (void)unused;
    lmx_sink t;
    lam_costs *c = lmx_costs_settled(self_of(self)->costs);
    if (!c) return NULL;
    lam_tokens_tell(self_of(self)->tokens, c, lmx_sink_begin(&t));
    return lmx_sink_end(&t);
}

static PyObject *tokens_bound(PyObject *self, PyObject *args) {
    const char *name;
    PyObject *measure;
    lam_token_bound bound;
    lam_named_peak peak;
    lam_error e = {.at = -1};
    lmx_sink t;
    if (!PyArg_ParseTuple(args, "sO:bound", &name, &measure)) return NULL;
    const lam_tokens *tokens = self_of(self)->tokens;
    lam_costs *c = lmx_costs_settled(self_of(self)->costs);
    if (!c) return NULL;
    if (lam_tokens_peak(tokens, name, &peak, &e) != LAM_OK) return lmx_raise(self_of(self)->st, &e);
    if (peak.best.flops <= 0) {
        PyObject *best = PyObject_CallFunction(measure, "si", peak.dtype, (int)tokens->device);
        const bool ok = best && PyArg_ParseTuple(best, "dd", &peak.best.flops, &peak.best.bytes);
        Py_XDECREF(best);
        if (!ok) return NULL;
    }
    lam_tokens_bound(tokens, c, &peak, &bound);
    lam_tokens_bound_tell(&bound, lmx_sink_begin(&t));
    return lmx_sink_end(&t);
}

static PyObject *tokens_next(PyObject *module, PyObject *args) {
    lmx_state *st = lmx_state_of(module);
    PyObject *so_far;
    int made, dry, time, memory;
    lam_token_run next;
    lmx_sink sink;
    if (!PyArg_ParseTuple(args, "iO(ppp):tokens_next", &made, &so_far, &dry, &time, &memory)) return NULL;
    const lam_tokens *t = Py_TYPE(so_far) == st->tokens_type ? self_of(so_far)->tokens : NULL;
    const lam_token_plan plan = {dry != 0, time != 0, memory != 0};
    if (!lam_tokens_next(&next, made, t, &plan)) Py_RETURN_NONE;
    lam_tokens_run_tell(&next, lmx_sink_begin(&sink));
    return lmx_sink_end(&sink);
}

/* tokens_longest(costs, path): the most tokens of a prompt that shows how a cache grows; 0: as ever. */
static PyObject *tokens_longest(PyObject *module, PyObject *args) {
    PyObject *of;
    const char *path;
    if (!PyArg_ParseTuple(args, "O!s:tokens_longest", lmx_state_of(module)->costs_type, &of, &path))
        return NULL;
    lam_costs *c = lmx_costs_settled(of);
    return c ? PyLong_FromLongLong(lam_tokens_longest(c, path)) : NULL;
}

static PyObject *token_sequences(PyObject *module, PyObject *args) {
    (void)module;
    const char *which;
    long long prompt, fresh, table, own, longest;
    int encoder;
    lam_token_sequence all[LAM_TOKEN_SEQUENCES];
    if (!PyArg_ParseTuple(args, "sLL(pLLL):token_sequences", &which, &prompt, &fresh, &encoder, &table, &own,
                          &longest))
        return NULL;
    const lam_token_limits limits = {encoder != 0, table, own, longest};
    const int32_t n = lam_tokens_sequences(all, which, prompt, fresh, &limits);
    PyObject *out = PyTuple_New(n);
    for (int32_t i = 0; out && i < n; i++) {
        PyObject *each = Py_BuildValue("(LLL)", (long long)all[i].prompt, (long long)all[i].fresh,
                                       (long long)all[i].decoder);
        if (!each || PyTuple_SetItem(out, i, each) < 0) Py_CLEAR(out);
    }
    return out;
}

/* peak(text): FLOPs and bytes a second of a device, of which the text names the type of numbers. */
static PyObject *peak_named(PyObject *module, PyObject *text) {
    lam_named_peak peak;
    lam_error e = {.at = -1};
    const char *name = PyUnicode_AsUTF8AndSize(text, NULL);
    if (!name) return NULL;
    if (lam_peak_named(name, NULL, &peak, &e) != LAM_OK) return lmx_raise(lmx_state_of(module), &e);
    return Py_BuildValue("(dd)", peak.best.flops, peak.best.bytes);
}

/* peak_flops(text, dtype): FLOP/s that are given, or those of a device for numbers of that type; and what of.
 */
static PyObject *peak_flops(PyObject *module, PyObject *args) {
    lam_named_peak peak;
    lam_error e = {.at = -1};
    const char *text, *dtype;
    if (!PyArg_ParseTuple(args, "sz:peak_flops", &text, &dtype)) return NULL;
    if (lam_peak_flops(text, dtype, &peak, &e) != LAM_OK) return lmx_raise(lmx_state_of(module), &e);
    return Py_BuildValue("(dsz)", peak.best.flops, peak.name, peak.dtype);
}

/* peak_of_device(name, dtype): the same of a device by the name that its driver tells; None: not known. */
static PyObject *peak_of_device(PyObject *module, PyObject *args) {
    lam_named_peak peak;
    const char *name, *dtype;
    (void)module;
    if (!PyArg_ParseTuple(args, "ss:peak_of_device", &name, &dtype)) return NULL;
    if (!lam_peak_of_device(name, dtype, &peak)) Py_RETURN_NONE;
    return Py_BuildValue("(dsz)", peak.best.flops, peak.name, peak.dtype);
}

/* token_convention(name): raises unless a convention of a token has that name. */
static PyObject *token_convention(PyObject *module, PyObject *text) {
    lam_error e = {.at = -1};
    const char *name = PyUnicode_AsUTF8AndSize(text, NULL);
    if (!name) return NULL;
    if (lam_token_convention_known(name, &e) != LAM_OK) return lmx_raise(lmx_state_of(module), &e);
    Py_RETURN_NONE;
}

static PyObject *tokens_cache_at(PyObject *self, PyObject *args) {
    long long tokens, batch;
    if (!PyArg_ParseTuple(args, "LL:cache_at", &tokens, &batch)) return NULL;
    lam_count n = lam_tokens_cache_at(self_of(self)->tokens, tokens, batch);
    return lmx_count(n);
}

static PyObject *tokens_capacity(PyObject *self, PyObject *args) {
    long long memory;
    lmx_sink t;
    if (!PyArg_ParseTuple(args, "L:capacity", &memory)) return NULL;
    const lam_tokens *tokens = self_of(self)->tokens;
    const lam_token_capacity all = lam_tokens_capacity(tokens, memory);
    lam_tokens_capacity_tell(tokens, &all, lmx_sink_begin(&t));
    return lmx_sink_end(&t);
}

static PyObject *fits(PyObject *self, PyObject *args, const char *format,
                      int64_t (*most)(const lam_tokens *t, int64_t memory, int64_t other)) {
    long long memory, other;
    if (!PyArg_ParseTuple(args, format, &memory, &other)) return NULL;
    return PyLong_FromLongLong(most(self_of(self)->tokens, memory, other));
}

static PyObject *tokens_context(PyObject *self, PyObject *args) {
    return fits(self, args, "LL:context", lam_tokens_context);
}

static PyObject *tokens_batch(PyObject *self, PyObject *args) {
    return fits(self, args, "LL:batch", lam_tokens_batch);
}

static PyObject *tokens_write(PyObject *self, PyObject *args) {
    const char *format = NULL;
    long long memory;
    int exact, width;
    lmx_text text = {0};
    lam_error e = {.at = -1};
    if (!PyArg_ParseTuple(args, "zLip:write", &format, &memory, &width, &exact)) return NULL;
    lam_costs *c = lmx_costs_settled(self_of(self)->costs);
    if (!c) return NULL;
    lam_status s = lam_tokens_write(self_of(self)->tokens, c, memory, NULL, format, width, exact != 0,
                                    lmx_text_sink(&text), &e);
    return lmx_text_end(&text, self_of(self)->st, s, &e);
}

PyMethodDef lmx_tokens_functions[] = {
    {"tokens", tokens_of, METH_VARARGS,
     PyDoc_STR(
         "tokens($module, costs, lengths, followed, path, sizes, given, /)\n--\n\nReturns the Tokens of "
         "a run. `lengths`: Costs of the same model on prompts of other lengths, or None; `followed`: "
         "Costs of a run whose memory was followed, or why there are none, or None; `path`: of the "
         "language model; `sizes`: prompt, new tokens and batch as asked for, 0 if they were not; "
         "`given`: whether the first two were named, and whether the run has only some of the steps.")},
    {"tokens_next", tokens_next, METH_VARARGS,
     PyDoc_STR(
         "tokens_next($module, made, so_far, plan, /)\n--\n\nReturns the run to make after `made` "
         "others, a dict: its purpose, which sequences, if it is dry, is timed, is followed, and if the "
         "tokens can be read then; None if no further one is needed. `so_far`: the Tokens that were read "
         "last, or None; `plan`: whether to run dry, to time, and to tell activations.")},
    {"token_sequences", token_sequences, METH_VARARGS,
     PyDoc_STR("token_sequences($module, which, prompt, new, limits, /)\n--\n\nReturns the sequences of a "
               "run: of each the tokens of its prompt, the new ones, and those that a decoder behind an "
               "encoder begins with, 0 as ever. `limits`: whether there is an encoder, positions of a table, "
               "tokens that the model says it takes, and the longest prompt, each 0 if there is none.")},
    {"tokens_longest", tokens_longest, METH_VARARGS,
     PyDoc_STR("tokens_longest($module, costs, path, /)\n--\n\nReturns the tokens of the longest prompt that "
               "is to show how a cache grows, by the Costs of the first run; 0: the same as for any model.")},
    {"peak", peak_named, METH_O,
     PyDoc_STR("peak($module, text, /)\n--\n\nReturns the FLOPs and bytes a second of a device, as "
               "\"h100-sxm:bfloat16\".")},
    {"peak_flops", peak_flops, METH_VARARGS,
     PyDoc_STR(
         "peak_flops($module, text, dtype, /)\n--\n\nReturns FLOP/s that are given as a number, or of a "
         "device, as \"h100-sxm\", for numbers of a type; what gives them; and the type.")},
    {"peak_of_device", peak_of_device, METH_VARARGS,
     PyDoc_STR("peak_of_device($module, name, dtype, /)\n--\n\nReturns the same of a device by the name that "
               "its driver tells; None if it is not in the table.")},
    {"token_convention", token_convention, METH_O,
     PyDoc_STR("token_convention($module, name, /)\n--\n\nRaises ValueError unless it names a convention of "
               "a token, as \"titan\", or all.")},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef tokens_methods[] = {
    {"as_dict", tokens_as_dict, METH_NOARGS,
     PyDoc_STR("as_dict($self, /)\n--\n\nReturns all numbers as a dict.")},
    {"bound", tokens_bound, METH_VARARGS,
     PyDoc_STR("bound($self, peak, measure, /)\n--\n\nReturns what the peak of a device allows, as a dict. "
               "`measure`, given a type of numbers and a device's type number, returns the FLOPs and bytes a "
               "second of a peak that is to be measured.")},
    {"cache_at", tokens_cache_at, METH_VARARGS,
     PyDoc_STR("cache_at($self, tokens, batch, /)\n--\n\nReturns bytes of the caches: (value, state).")},
    {"capacity", tokens_capacity, METH_VARARGS,
     PyDoc_STR("capacity($self, memory, /)\n--\n\nReturns what fits into a memory, as a dict.")},
    {"context", tokens_context, METH_VARARGS,
     PyDoc_STR("context($self, memory, batch, /)\n--\n\nReturns the most tokens a sequence that fit; -1 if "
               "that is not known.")},
    {"batch", tokens_batch, METH_VARARGS,
     PyDoc_STR("batch($self, memory, tokens, /)\n--\n\nReturns the most sequences that fit; -1 if that is "
               "not known.")},
    {"write", tokens_write, METH_VARARGS,
     PyDoc_STR("write($self, format, memory, width, exact, /)\n--\n\nReturns it as text or JSON.")},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot tokens_slots[] = {
    {Py_tp_doc, "A run of a language model in tokens."},
    {Py_tp_dealloc, tokens_dealloc},
    {Py_tp_methods, tokens_methods},
    {0, NULL},
};

PyType_Spec lmx_tokens_spec = {
    "lamina._lamina.Tokens",
    sizeof(lmx_tokens),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    tokens_slots,
};
