/* SPDX-License-Identifier: Apache-2.0
 * Makes a model of a closed capture: every module's class, attributes and tensors are read now, so that lazy
 * layers are concrete, and pushed together with the places and calls. Nothing here runs a parametrization or
 * a property of torch's: attributes come from the instance's dict. */
#include "base/ext.h"
#include "modules/classes.h"
#include "modules/describer.h"
#include "modules/snapshot.h"
#include "observe/listeners.h"
#include "observe/observe.h"
#include "observe/open_capture.h"
#include "process/clock.h"
#include "torch/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t MEMORY = UINT64_C(8) << 30; /* the most bytes that a model may have: as many as a
                                                   * capture may hold */

/* A class of modules, and what was found of it: user code may give it another forward later. */
typedef struct met {
    PyTypeObject *type;
    const lmx_class *class;
    uint32_t flags;
} met;

typedef lmx_describer describer;

bool lmx_describer_may_run(lmx_describer *t) {
    if (t->early) {
        t->given_up = true;
        return false;
    }
    PyObject *before = t->before;
    t->before = NULL;
    PyObject *done = before ? PyObject_CallNoArgs(before) : NULL;
    Py_XDECREF(done);
    return !before || done;
}

static bool may_ask(describer *t, PyObject *value) {
    return lmx_asks_nobody(value, t->early) || lmx_describer_may_run(t);
}

/* == classes =========================================================================================== */

/* The class, added if it is new; NULL with an exception. The pointer is valid until the next call. */
static const met *class_of(describer *t, PyTypeObject *type) {
    int32_t i = lmx_map_get(&t->by_type, type);
    if (i >= 0) return (met *)t->classes.data + i;
    i = (int32_t)t->classes.n;
    met now = {.type = type, .class = lmx_class_of(t->st, type)};
    if (!now.class || !lmx_class_flags(t->st, now.class, type, &now.flags)) return NULL;
    met *at = lmx_vec_push(&t->classes, sizeof *at, 1);
    if (at) *at = now;
    if (at) Py_INCREF((PyObject *)type);
    if (!at || !lmx_map_put(&t->by_type, type, i)) {
        PyErr_NoMemory();
        return NULL;
    }
    return at;
}

static void describer_free(describer *t) {
    if (!t) return;
    t->st->classes->asked--;
    lam_builder_free(t->b);
    met *all = t->classes.data;
    for (size_t i = 0; i < t->classes.n; i++) Py_DECREF(all[i].type);
    lmi_vec_free(&t->classes);
    lmi_map_free(&t->by_type);
    lmi_map_free(&t->by_tensor);
    Py_XDECREF(t->held);
    Py_XDECREF(t->stored);
    Py_XDECREF(t->gathered);
    lmi_map_free(&t->by_pair);
    PyMem_Free(t);
}

/* == values ============================================================================================ */

static bool push_attr(describer *t, PyObject *name, PyObject *o) {
    int64_t ints[LMX_MAX_INTS];
    PyObject *text = NULL;
    lam_value v;
    Py_INCREF(o); /* user code may take it out of the dict that holds it */
    bool ok = may_ask(t, o), known = ok && lmx_value_of(t->st, o, ints, &text, &v);
    ok = ok && !lmx_must_raise();
    if (ok && known) ok = lmx_pushed(t, lam_build_attr(t->b, t->module, lmx_utf8(name), &v, &t->e));
    Py_XDECREF(text);
    Py_DECREF(o);
    return ok;
}

/* == one module ======================================================================================== */

/* Pushes, as an attribute with the value True, a tensor that is neither parameter nor buffer but serves as
 * one: old weight_norm, pruning and parametrizations make it from others. */
static bool push_present(describer *t, PyObject *dict, PyObject *name) {
    PyObject *value = lmx_get(dict, name);
    return !value || !lmx_is_tensor(t->st, value) || push_attr(t, name, value);
}

static bool push_parametrized(void *self, PyObject *name, PyObject *unused) {
    (void)unused;
    return push_attr(self, name, Py_True);
}

typedef struct stems {
    describer *t;
    PyObject *dict;
} stems;

/* The parameters "weight_hh_l0_v" and "gain_orig" are there in place of "weight_hh_l0" and "gain". */
static bool push_stem(void *self, PyObject *name, PyObject *unused) {
    (void)unused;
    static const char *const suffixes[] = {"_v", "_orig"};
    const stems *at = self;
    if (name == at->t->st->n_weight || name == at->t->st->n_bias) return true; /* most names */
    const char *text = lmx_utf8(name);
    size_t n = strlen(text);
    for (size_t i = 0; i < 2; i++) {
        size_t tail = strlen(suffixes[i]);
        if (n <= tail || strcmp(text + n - tail, suffixes[i]) != 0) continue;
        PyObject *stem = PyUnicode_FromStringAndSize(text, (Py_ssize_t)(n - tail));
        if (!stem) return false;
        bool usual = PyUnicode_Compare(stem, at->t->st->n_weight) == 0 ||
                     PyUnicode_Compare(stem, at->t->st->n_bias) == 0;
        bool ok = usual || push_present(at->t, at->dict, stem);
        Py_DECREF(stem);
        return ok;
    }
    return true;
}

static bool push_made_tensors(describer *t, PyObject *dict, const lmx_node *node) {
    if (node->parametrized) {
        PyObject *made = lmx_get(lmx_get(dict, t->st->n__modules), t->st->n_parametrizations);
        PyObject *inner = made ? lmx_dict_of(made) : NULL;
        bool ok = lmx_each(t->st, lmx_get(inner, t->st->n__modules), push_parametrized, t);
        Py_XDECREF(inner);
        if (!ok) return false;
    }
    if (!push_present(t, dict, t->st->n_weight) || !push_present(t, dict, t->st->n_bias)) return false;
    stems at = {t, dict};
    PyObject *parameters = lmx_get(dict, t->st->n__parameters);
    return !parameters || !PyDict_Check(parameters) || lmx_each(t->st, parameters, push_stem, &at);
}

/* Attributes of the class, and properties of a subclass, count too if the instance has none of that name. */
static bool push_word_attr(describer *t, PyObject *module, PyObject *dict, PyObject *name) {
    PyObject *value = lmx_get(dict, name);
    if (value) return push_attr(t, name, value);
    PyObject *of_class = PyObject_GetAttr((PyObject *)Py_TYPE(module), name);
    if (!of_class) return !lmx_must_raise();
    bool plain = of_class == Py_None || PyLong_Check(of_class) || PyUnicode_Check(of_class);
    Py_DECREF(of_class);
    if ((t->early || !plain) && !lmx_describer_may_run(t))
        return false; /* values of classes are not in the snapshot */
    value = PyObject_GetAttr(module, name);
    bool ok = value ? push_attr(t, name, value) : !lmx_must_raise();
    Py_XDECREF(value);
    return ok;
}

static bool push_attrs(describer *t, PyObject *module, PyObject *dict, const lmx_class *k,
                       const lmx_node *node) {
    if (k->word < 0) return true;
    for (int32_t i = 0; i < k->n_attrs; i++)
        if (!push_word_attr(t, module, dict, k->attrs[i])) return false;
    return push_made_tensors(t, dict, node);
}

static bool is_training(describer *t, PyObject *module, PyObject *dict) {
    PyObject *training = lmx_get(dict, t->st->n_training);
    if (training) return training == Py_True;
    training = PyObject_GetAttr(module, t->st->n_training); /* a scripted module keeps it in C++ */
    if (!training) PyErr_Clear();
    Py_XDECREF(training);
    return training == Py_True;
}

/* The flags that the module's dict determines. */
static uint32_t own_flags(describer *t, const lmx_node *node, const lmx_class *k, PyObject *dict) {
    uint32_t flags = is_training(t, node->object, dict) ? LAM_MODULE_TRAINING : 0;
    bool other = k->word >= 0 && !node->compiled && lmx_get(dict, t->st->n_forward);
    return other ? flags | LAM_MODULE_OWN_FORWARD : flags;
}

static uint32_t flags_of(const lmx_node *node, const met *now, uint32_t own) {
    uint32_t flags = now->flags | own;
    /* Parametrizations make a layer's weights; they don't make it a container. */
    if (node->n_children == (node->parametrized ? 1 : 0)) flags |= LAM_MODULE_LEAF;
    if (now->class->script || node->opaque) flags |= LAM_MODULE_OPAQUE;
    return flags;
}

/* Begins the module `t->module`. */
static bool begin_module(describer *t, const lmx_node *node, const met *now, uint32_t own, PyObject *type) {
    const lmx_class *k = now->class;
    lam_module_info info = {
        .type = lmx_utf8(type),
        .type_path = lmx_utf8(k->path),
        .word = k->word,
        .flags = flags_of(node, now, own),
    };
    return lmx_pushed(t, lam_build_module(t->b, &info, &t->module, &t->e));
}

static bool push_parts(describer *t, const lmx_node *node, const lmx_class *k, PyObject *dict) {
    PyObject *module = node->object;
    return lmx_push_tensors(t, module, dict, t->st->n__parameters, false) && lmx_push_packed(t, dict, k) &&
           (t->c->noted.brief || (lmx_push_tensors(t, module, dict, t->st->n__buffers, true) &&
                                  push_attrs(t, module, dict, k, node)));
}

/* Describes a module from its dict. */
static bool look_through(describer *t, lmx_node *node, const met *now, PyObject *dict) {
    const lmx_class *k = now->class;
    if (t->early && (k->script || node->compiled || node->opaque)) {
        t->given_up = true; /* what it hides is known only after the run */
        return false;
    }
    node->scripted = k->script;
    PyObject *scripted = k->script ? PyObject_GetAttr(node->object, t->st->n_original_name) : NULL;
    PyErr_Clear();
    const uint32_t own = own_flags(t, node, k, dict);
    PyObject *type = scripted && PyUnicode_Check(scripted) ? scripted : k->name;
    bool ok = begin_module(t, node, now, own, type) && (t->names_only || push_parts(t, node, k, dict));
    Py_XDECREF(scripted);
    return ok;
}

static bool push_module(describer *t, lmx_node *node) {
    const met *now = class_of(t, Py_TYPE(node->object));
    if (!now) return false;
    PyObject *dict = lmx_dict_of(node->object);
    bool ok = look_through(t, node, now, dict);
    Py_XDECREF(dict);
    return ok;
}

static bool push_modules(describer *t) {
    for (size_t i = 0; i < t->c->tree.nodes.n; i++)
        if (!push_module(t, lmx_node_at(&t->c->tree, (int32_t)i))) return false;
    return true;
}

static bool push_places(describer *t) {
    const lmx_tree *tree = &t->c->tree;
    for (size_t i = 0; i < tree->places.n; i++) {
        const lmx_place *p = lmx_place_at(tree, (int32_t)i);
        if (!lmx_pushed(t, lam_build_place(t->b, p->parent, lmx_utf8(p->name), p->node, NULL, &t->e)))
            return false;
    }
    return true;
}

/* == calls ============================================================================================= */

/* Decodes `n` tensors from the record's words. */
static void decode(const lmx_capture *c, size_t at, int32_t n, lam_arg *out) {
    const int64_t *words = (const int64_t *)c->noted.words.data + at;
    for (int32_t i = 0; i < n; i++) {
        lmx_found f;
        memcpy(&f, words, sizeof f);
        words += sizeof f / sizeof *words;
        const char *name = f.name >= 0 ? lmx_utf8(((PyObject **)c->noted.names.data)[f.name]) : NULL;
        out[i] = (lam_arg){name, f.position, f.dtype, f.device, f.ndim, words, f.storage, f.memory, f.object};
        if (f.ndim > 0) words += f.ndim;
    }
}

/* Finds out once, of a scripted module that was called, if it hides kernels; no, if torch can't tell. */
static bool ask_for_kernels(describer *t, lmx_node *node) {
    if (!node->scripted || node->hides || !t->c->watched.ops) return true;
    PyObject *kit = PyImport_ImportModule("lamina._observe.scripted");
    PyObject *yes = kit ? PyObject_CallMethod(kit, "hides", "O", node->object) : NULL;
    node->hides = yes == Py_True ? 1 : -1;
    Py_XDECREF(yes);
    Py_XDECREF(kit);
    return lmx_forgive();
}

static bool push_call(describer *t, size_t i, lmi_vec *args) {
    const lmi_vec *calls = &t->c->noted.calls;
    lmx_node *node = lmx_node_at(&t->c->tree, ((const lmx_call *)calls->data)[i].module);
    if (!ask_for_kernels(t, node)) return false;
    const lmx_call *call = (const lmx_call *)calls->data + i; /* ask_for_kernels may have moved it */
    size_t n = (size_t)call->n_in + (size_t)call->n_out;
    args->n = 0;
    lam_arg *all = n ? lmx_vec_push(args, sizeof *all, n) : NULL;
    if (n && !all) return lmx_nomem();
    lam_arg *out = all ? all + call->n_in : NULL;
    if (call->n_in) decode(t->c, call->in_at, call->n_in, all);
    if (call->n_out) decode(t->c, call->out_at, call->n_out, out);
    lam_call_info info = {.module = call->module,
                          .parent = call->parent,
                          .flags = call->flags,
                          .regions = call->regions,
                          .n_in = call->n_in,
                          .n_out = call->n_out,
                          .in = all,
                          .out = out,
                          .thread = call->thread};
    if (node->hides > 0) info.flags |= LAM_CALL_HIDES;
    if (!t->c->dry.modes && call->ended) { /* the call has ended */
        info.t0_ns = lmx_clock_ns(&t->c->clock, call->began);
        info.t1_ns = lmx_clock_ns(&t->c->clock, call->ended);
    }
    return lmx_pushed(t, lam_build_call(t->b, &info, NULL, &t->e));
}

static bool push_calls(describer *t) {
    lmi_vec args = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < t->c->noted.calls.n; i++) ok = push_call(t, i, &args);
    lmi_vec_free(&args);
    return ok;
}

/* Marks compiled modules in which no call was seen. One that was compiled in place is marked already; of a
 * wrapper its inner module is marked. */
static void mark_opaque(describer *t) {
    const lmx_call *calls = t->c->noted.calls.data;
    lmx_tree *tree = &t->c->tree;
    for (size_t i = 0; i < tree->nodes.n; i++) {
        const lmx_node *node = lmx_node_at(tree, (int32_t)i);
        if (node->inner >= 0) lmx_node_at(tree, node->inner)->opaque = true;
    }
    for (size_t i = 0; i < tree->nodes.n; i++)
        if (!lmx_node_at(tree, (int32_t)i)->n_children) lmx_node_at(tree, (int32_t)i)->opaque = false;
    for (size_t i = 0; i < t->c->noted.calls.n; i++)
        if (calls[i].parent >= 0) lmx_node_at(tree, calls[calls[i].parent].module)->opaque = false;
}

/* == notes ============================================================================================= */

static bool push_note(describer *t, PyObject *text) {
    bool ok = text && lmx_pushed(t, lam_build_note(t->b, lmx_utf8(text), &t->e));
    Py_XDECREF(text);
    return ok;
}

static bool push_twin(describer *t, const lmx_twin *twin) {
    const lmx_tree *tree = &t->c->tree;
    PyObject *again = lmx_path(tree, twin->place, twin->name), *first = NULL;
    for (size_t i = (size_t)twin->place + 1; !first && i < tree->places.n; i++) {
        const lmx_place *p = lmx_place_at(tree, (int32_t)i);
        if (p->parent == twin->place && p->node == twin->node) first = lmx_path(tree, p->parent, p->name);
    }
    PyObject *text =
        first && again ? PyUnicode_FromFormat("%U is also registered as %U", first, again) : NULL;
    Py_XDECREF(first);
    Py_XDECREF(again);
    return push_note(t, text);
}

static bool push_added(describer *t) {
    PyObject *text = lmx_added_layers(t->c);
    return text ? push_note(t, text) : !PyErr_Occurred();
}

static bool push_notes(describer *t) {
    for (Py_ssize_t i = 0; t->c->remarks.notes && i < PyList_Size(t->c->remarks.notes); i++) {
        PyObject *text = PyList_GetItem(t->c->remarks.notes, i);
        Py_INCREF(text);
        if (!push_note(t, text)) return false;
    }
    for (size_t i = 0; i < t->c->tree.twins.n; i++)
        if (!push_twin(t, (lmx_twin *)t->c->tree.twins.data + i)) return false;
    if (t->c->threads.strangers &&
        !push_note(t,
                   PyUnicode_FromString("another thread called layers of this model too: a capture sees the "
                                        "calls of the thread that opened it")))
        return false;
    if (!push_added(t)) return false;
    if (t->c->replaced &&
        !push_note(t, PyUnicode_FromString("torch.nn.Module.__call__ was replaced by other code "
                                           "during the capture; theirs was left in place")))
        return false;
    if (t->c->remarks.why_mode &&
        !push_note(t, PyUnicode_FromFormat("operators were watched through torch's dispatch mode, because %U",
                                           t->c->remarks.why_mode)))
        return false;
    if (t->c->dry.modes &&
        !push_note(t, PyUnicode_FromString("a dry run: shapes were followed, nothing was computed "
                                           "and no time was measured")))
        return false;
    return !t->c->noted.cut ||
           push_note(t, PyUnicode_FromFormat("some arguments held more than %d values or %d levels; "
                                             "tensors beyond that were not seen",
                                             LMX_BUDGET, LMX_DEPTH));
}

static bool push_ops(describer *t) {
    if (t->c->timed && !lmx_pushed(t, lam_build_timed(t->b, &t->e))) return false;
    if (t->c->backward.absent && !lmx_pushed(t, lam_build_no_backward(t->b, &t->e))) return false;
    if (t->c->backward.raised && !lmx_pushed(t, lam_build_backward_raised(t->b, &t->e))) return false;
    t->c->heard.tensors = &t->by_tensor;
    lam_status s = t->c->watched.observer ? lmx_push_operators(t->c->watched.observer, t->b, &t->e) : LAM_OK;
    if (s == LAM_OK) s = lmx_tell_push(t->c, t->b, &t->e);
    t->c->heard.tensors = NULL;
    return lmx_pushed(t, s);
}

/* Reports that records could not be kept. */
static bool push_cut(describer *t) {
    const lmx_capture *c = t->c;
    int64_t since = 0;
    bool ops = lmx_observer_lost(c->watched.observer, &since);
    char why[160];
    if (!ops && !c->noted.lost) return true;
    snprintf(why, sizeof why, "%s after %zu %s, and what ran then was not seen; capture fewer iterations",
             c->noted.full || lmx_observer_full(c->watched.observer) ? "the capture was full"
                                                                     : "memory ran out",
             c->noted.lost ? c->noted.calls.n : lmx_observer_n(c->watched.observer),
             c->noted.lost ? "calls" : "operators");
    return lmx_pushed(t, lam_build_cut(t->b, why, c->noted.lost, since, &t->e));
}

static bool build(describer *t, lam_model **out) {
    lam_builder *b = t->b;
    t->b = NULL;
    return lmx_pushed(t, lam_builder_finish(b, out, &t->e));
}

/* Pushes how each input was generated. */
static lam_status push_made(const lmx_capture *c, lam_builder *b, lam_error *e) {
    lam_status s = LAM_OK;
    for (Py_ssize_t i = 0; s == LAM_OK && c->remarks.made && i < PyList_Size(c->remarks.made); i++)
        s = lam_build_input_origin(b, lmx_utf8(PyList_GetItem(c->remarks.made, i)), e);
    return s;
}

/* "train", "eval" or "mixed": the mode of the modules that were called; NULL: none was called. */
static const char *mode_of(const lmx_capture *c) {
    size_t n = c->noted.calls.n, training = 0;
    for (size_t i = 0; i < n; i++)
        training += (((lmx_call *)c->noted.calls.data)[i].flags & LAM_CALL_TRAINING) != 0;
    if (n == 0) return NULL;
    return training == n ? "train" : training == 0 ? "eval" : "mixed";
}

static lam_status push_provenance(const lmx_capture *c, lam_builder *b, lam_error *e) {
    PyObject *name, *text;
    Py_ssize_t at = 0;
    if (!c->remarks.provenance) return LAM_OK;
    const char *mode = mode_of(c);
    while (PyDict_Next(c->remarks.provenance, &at, &name, &text))
        LAM_TRY(lam_build_provenance(b, lmx_utf8(name), lmx_utf8(text), e));
    return mode ? lam_build_provenance(b, "mode", mode, e) : LAM_OK;
}

/* Pushes which modules other threads called during the capture. */
static lam_status push_elsewhere(const lmx_capture *c, lam_builder *b, lam_error *e) {
    lam_status s = LAM_OK;
    for (size_t i = 0; s == LAM_OK && c->threads.elsewhere && i < c->tree.nodes.n; i++)
        if (c->threads.elsewhere[i]) s = lam_build_called_elsewhere(b, (int32_t)i, e);
    return s;
}

static bool tell_the_rest(describer *t, lam_model **out) {
    return push_places(t) && push_calls(t) && push_cut(t) && lmx_pushed(t, push_made(t->c, t->b, &t->e)) &&
           lmx_pushed(t, push_provenance(t->c, t->b, &t->e)) &&
           lmx_pushed(t, push_elsewhere(t->c, t->b, &t->e)) && push_ops(t) && push_notes(t) && build(t, out);
}

static describer *describer_new(lmx_capture *c) {
    describer *t = PyMem_Calloc(1, sizeof *t);
    if (!t) {
        PyErr_NoMemory();
        return NULL;
    }
    *t = (describer){.st = c->st, .c = c, .e = {.at = -1}};
    if (c->phase == LMX_OPEN) lmx_clock_end(&c->clock); /* to convert its stamps so far */
    lmx_classes_ask(c->st->classes);
    t->held = PyList_New(0);
    t->stored = PyDict_New();
    if (t->held && t->stored && lmx_pushed(t, lam_builder_new(&t->b, MEMORY, &t->e))) return t;
    describer_free(t);
    return NULL;
}

/* == before the run ==================================================================================== */

bool lmx_early_begin(lmx_capture *c) {
    c->ahead.early = describer_new(c);
    if (c->ahead.early) c->ahead.early->early = true;
    return c->ahead.early != NULL;
}

bool lmx_early_module(lmx_capture *c, int32_t node) {
    if (!c->ahead.early || push_module(c->ahead.early, lmx_node_at(&c->tree, node))) return true;
    bool given_up = c->ahead.early->given_up && !PyErr_Occurred();
    lmx_early_drop(c);
    return given_up;
}

void lmx_early_drop(lmx_capture *c) {
    describer *t = c->ahead.early;
    c->ahead.early = NULL;
    describer_free(t);
}

int lmx_early_visit(const lmx_capture *c, visitproc visit, void *arg) {
    const describer *t = c->ahead.early;
    if (!t) return 0;
    Py_VISIT(t->held);
    for (size_t i = 0; i < t->classes.n; i++) Py_VISIT(((const met *)t->classes.data)[i].type);
    return 0;
}

static bool classes_are_same(describer *t, bool *same) {
    const met *all = t->classes.data;
    for (size_t i = 0; *same && i < t->classes.n; i++) {
        uint32_t flags;
        const lmx_class *k = lmx_class_of(t->st, all[i].type);
        if (!k || !lmx_class_flags(t->st, k, all[i].type, &flags)) return false;
        *same = k == all[i].class && flags == all[i].flags;
    }
    return true;
}

/* The descriptions from before the run if they are still valid; else NULL, with or without an exception. */
static describer *still_true(lmx_capture *c) {
    describer *t = c->ahead.early;
    c->ahead.early = NULL;
    bool same = t && !c->backward.gradients;
    if (same && classes_are_same(t, &same) && same && lmx_snapshot_holds(c->ahead.snapshot)) {
        t->early = false;
        return t;
    }
    describer_free(t);
    return NULL;
}

/* == all of it ========================================================================================= */

bool lmx_describe_model(lmx_capture *c, PyObject *before, lam_model **out) {
    if (lmx_observer_pushed(c->watched.observer)) PyErr_NoMemory();
    if (PyErr_Occurred()) return false;
    describer *t = still_true(c);
    const bool fresh = !t && !PyErr_Occurred() && (t = describer_new(c));
    if (!t) return false;
    t->before = before;
    if (fresh) lmx_snapshot_doubt(c->ahead.snapshot);
    if (fresh) mark_opaque(t);
    bool ok = (!fresh || (lmx_find_gathered(t) && push_modules(t))) && tell_the_rest(t, out);
    describer_free(t);
    lmx_torch_forget_types(&c->st->torch);
    return ok;
}

bool lmx_describe_so_far(lmx_capture *c, lam_status (*push)(void *self, lam_builder *b, lam_error *e),
                         void *self, lam_model **out) {
    describer *t = describer_new(c);
    if (!t) return false;
    t->names_only = true;
    lmx_capture_hold(c);
    bool ok = push_modules(t) && push_places(t) && push_calls(t) && lmx_pushed(t, push(self, t->b, &t->e)) &&
              build(t, out);
    lmx_capture_let_go(c);
    describer_free(t);
    return ok;
}
