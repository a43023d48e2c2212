/* SPDX-License-Identifier: Apache-2.0
 * The type Snapshot: the state of a model before a forward. Every module's __dict__ is remembered, with the
 * dicts, lists and sets inside; tensors.c keeps the values of tensors, generators.c the states of random
 * number generators. */
#include "modules/snapshot.h"
#include "base/ext.h"
#include "base/tables.h"
#include "modules/tree.h"
#include "observe/open_capture.h"
#include "torch/tensor.h"

#include <stdlib.h>

static lmx_snapshot *self_of(PyObject *self) { return (lmx_snapshot *)self; }

/* == taking ============================================================================================ */

typedef struct taker {
    lmx_snapshot *s;
    int32_t node;
    bool registered, clone; /* as lmx_tensor_keep takes them */
} taker;

static bool take_tensor(void *self, PyObject *name, PyObject *tensor) {
    taker *t = self;
    if (!lmx_is_tensor(t->s->st, tensor) || !PyUnicode_Check(name)) return true;
    return lmx_tensor_keep(t->s, t->node, name, tensor, t->registered, t->clone);
}

/* An embedding with a max_norm scales its weight in place at every call. */
static bool renormalises(lmx_state *st, PyObject *dict) {
    PyObject *max_norm = lmx_get(dict, st->n_max_norm);
    return max_norm && max_norm != Py_None;
}

static bool take_registered(taker *t, PyObject *dict, PyObject *kind, bool clone) {
    t->registered = true;
    t->clone = clone;
    PyObject *registered = lmx_get(dict, kind);
    Py_XINCREF(registered);
    bool ok = lmx_each(t->s->st, registered, take_tensor, t);
    Py_XDECREF(registered);
    return ok;
}

enum { DEEPEST = 16, MOST_BOXES = 1 << 16 };

static bool is_kept(lmx_snapshot *s, PyObject *o) { return lmx_map_get(&s->within, o) >= 0; }

static bool keep_within(taker *t, PyObject *o, lmx_container_type type) {
    if (!lmx_map_put(&t->s->within, o, 0)) return lmx_nomem();
    return lmx_container_keep(t->s, t->node, o, type);
}

static bool add_object(lmx_snapshot *s, int32_t node, PyObject *name, PyObject *o) {
    lmx_object *at = lmx_vec_push(&s->objects, sizeof *at, 1);
    if (!at) return lmx_nomem();
    Py_INCREF(o);
    Py_XINCREF(name);
    *at = (lmx_object){o, name, node};
    return true;
}

/* Notes an object of a class written in Python, for objects(). What is in it is not kept here. */
static bool take_object(taker *t, PyObject *name, PyObject *o) {
    lmx_snapshot *s = t->s;
    if (!(PyType_GetFlags(Py_TYPE(o)) & Py_TPFLAGS_HEAPTYPE) || PyType_Check(o)) return true;
    if (PyType_IsSubtype(Py_TYPE(o), s->st->torch.module) || is_kept(s, o)) return true;
    return lmx_map_put(&s->within, o, 0) ? add_object(s, t->node, name, o) : lmx_nomem();
}

static bool take_items(taker *t, PyObject *name, size_t box, int depth);

/* Keeps a tensor, a generator, or what a container holds that is not in a module's own dict. */
static bool take_value(taker *t, PyObject *name, PyObject *value, int depth) {
    lmx_snapshot *s = t->s;
    if (lmx_is_settled(value)) return true;
    if (lmx_is_tensor(s->st, value)) return take_tensor(t, name, value);
    const lmx_container_type type = lmx_container_type_of(value);
    const bool tuple = PyTuple_Check(value);
    if ((type || tuple) && (depth == DEEPEST || s->boxes.n >= MOST_BOXES)) return true;
    for (Py_ssize_t i = 0; tuple && i < PyTuple_Size(value); i++)
        if (!take_value(t, name, PyTuple_GetItem(value, i), depth + 1)) return false;
    if (tuple || (type && is_kept(s, value))) return true;
    const size_t box = s->boxes.n;
    if (type) return keep_within(t, value, type) && take_items(t, name, box, depth + 1);
    if (!lmx_generator_keep(s, t->node, name, value)) return false;
    return Py_TYPE(value) != s->no_draw || take_object(t, name, value);
}

/* Keeps what is in a container that the module has under this name. */
static bool take_items(taker *t, PyObject *name, size_t box, int depth) {
    lmx_snapshot *s = t->s;
    const lmx_container *b = (lmx_container *)s->boxes.data + box;
    const size_t at = b->at, step = b->type == LMX_BOX_DICT ? 2 : 1, n = b->n * step;
    for (size_t i = step - 1; i < n; i += step)
        if (!take_value(t, name, lmx_ref(((PyObject **)s->refs.data)[at + i]), depth)) return false;
    return true;
}

/* True for the dicts of parameters, buffers and modules, which are kept separately. */
static bool is_registry(const lmx_state *st, PyObject *name) {
    return name == st->n__parameters || name == st->n__buffers || name == st->n__modules;
}

/* Keeps the rest of a module's dict: containers, tensors that are neither parameter nor buffer, generators
 * and objects. */
static bool take_values(taker *t) {
    lmx_snapshot *s = t->s;
    const lmx_container *box = (lmx_container *)s->boxes.data + s->boxes.n - 1;
    size_t at = box->at, n = box->n;
    t->registered = false;
    t->clone = false;
    for (size_t i = 0; i < n; i++) {
        PyObject *key = ((PyObject **)s->refs.data)[at + 2 * i],
                 *value = ((PyObject **)s->refs.data)[at + 2 * i + 1];
        if (lmx_is_settled(value)) continue;
        lmx_container_type type = lmx_container_type_of(value);
        if (type && !lmx_container_size(value, type)) {
            ((PyObject **)s->refs.data)[at + 2 * i + 1] = lmx_mark_empty(value);
            continue;
        }
        const size_t inner = s->boxes.n;
        if (type && !lmx_container_keep(s, t->node, value, type)) return false;
        if (!PyUnicode_Check(key) || (type && is_registry(s->st, key))) continue;
        if (!(type ? take_items(t, key, inner, 1) : take_value(t, key, value, 1))) return false;
    }
    return true;
}

/* The flag of a scripted module lives in C++; every other one's is in the dict. */
static bool take_training(lmx_snapshot *s, PyObject *module, PyObject *dict) {
    PyObject **at = lmx_vec_push(&s->training, sizeof *at, 1);
    if (!at) return lmx_nomem();
    bool in_dict = lmx_get(dict, s->st->n_training) != NULL;
    *at = NULL;
    PyObject *flag = in_dict ? NULL : PyObject_GetAttr(module, s->st->n_training);
    if (!lmx_forgive()) return false;
    ((PyObject **)s->training.data)[s->training.n - 1] = flag;
    return true;
}

/* Notes a module for objects() if its class has slots: values in slots are not in its dict. */
static bool take_slots(lmx_snapshot *s, int32_t node, PyObject *module) {
    if (!s->plain) s->plain = lmx_instance_size(s->st->torch.module);
    if (lmx_instance_size(Py_TYPE(module)) > s->plain) return add_object(s, node, NULL, module);
    return lmx_forgive();
}

static bool take_node(lmx_snapshot *s, int32_t node) {
    PyObject *module = lmx_node_at(&s->tree, node)->object;
    PyTypeObject **type = lmx_vec_push(&s->types, sizeof *type, 1);
    if (!type) return lmx_nomem();
    *type = Py_TYPE(module);
    Py_INCREF((PyObject *)*type);
    if (!take_slots(s, node, module)) return false;
    PyObject *dict = lmx_dict_of(module);
    if (!dict || !PyDict_Check(dict)) {
        Py_XDECREF(dict);
        return take_training(s, module, NULL);
    }
    taker t = {.s = s, .node = node};
    bool renormalised = renormalises(s->st, dict);
    bool ok = take_training(s, module, dict) &&
              take_registered(&t, dict, s->st->n__parameters, renormalised) &&
              take_registered(&t, dict, s->st->n__buffers, true) &&
              lmx_container_keep(s, node, dict, LMX_BOX_DICT) && take_values(&t);
    Py_DECREF(dict);
    return ok;
}

static lmx_snapshot *blank(lmx_state *st, PyTypeObject *type) {
    lmx_snapshot *s = (lmx_snapshot *)PyType_GenericAlloc(type, 0);
    if (!s) return NULL;
    s->st = st;
    lmi_arena_init(&s->values, UINT64_MAX);
    return s;
}

/* Room for what most modules hold, so that little is moved while it grows. */
static bool have_room(lmx_snapshot *s) {
    enum { REFS = 32, TENSORS = 2, MOST = 1024 };
    const size_t n = s->tree.nodes.n < MOST ? s->tree.nodes.n : MOST;
    if (!lmx_vec_push(&s->refs, sizeof(PyObject *), REFS * n)) return lmx_nomem();
    if (!lmx_vec_push(&s->kept, sizeof(lmx_kept), TENSORS * n)) return lmx_nomem();
    s->refs.n = s->kept.n = 0;
    return true;
}

static PyObject *snapshot_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"root", NULL};
    PyObject *root;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:Snapshot", names, &root)) return NULL;
    lmx_state *st = PyType_GetModuleState(type);
    if (!st || !lmx_torch_ready(st)) return NULL;
    lmx_snapshot *s = blank(st, type);
    bool ok = s && (root == Py_None || lmx_walk(st, &s->tree, root)) && lmx_reshard(st, &s->tree);
    ok = ok && have_room(s);
    for (size_t i = 0; ok && i < s->tree.nodes.n; i++) ok = take_node(s, (int32_t)i);
    if (!ok) Py_CLEAR(s);
    return (PyObject *)s;
}

/* Describes each module right after it is kept, while its data is in the processor's caches. */
PyObject *lmx_snapshot_for(lmx_capture *c) {
    lmx_snapshot *s = blank(c->st, c->st->snapshot_type);
    bool ok = s && lmx_walk(c->st, &s->tree, c->root) && lmx_tree_copy(&c->tree, &s->tree);
    ok = ok && lmx_reshard(c->st, &s->tree) && have_room(s) && lmx_early_begin(c);
    for (size_t i = 0; ok && i < s->tree.nodes.n; i++)
        ok = take_node(s, (int32_t)i) && lmx_early_module(c, (int32_t)i);
    if (!ok) Py_CLEAR(s);
    return (PyObject *)s;
}

/* == replacing ========================================================================================= */

typedef struct replacer {
    lmx_instead *instead;
    void *self;
} replacer;

/* The replacement of a value; NULL with an exception, or without one if it needs none. */
static PyObject *replaced(const replacer *r, PyObject *value, int depth) {
    if (!PyTuple_CheckExact(value) || depth == DEEPEST) return r->instead(r->self, value);
    PyObject *list = NULL;
    for (Py_ssize_t i = 0; i < PyTuple_Size(value); i++) {
        PyObject *item = replaced(r, PyTuple_GetItem(value, i), depth + 1);
        if (item && !list) list = PySequence_List(value);
        if ((!item && PyErr_Occurred()) || (item && (!list || PyList_SetItem(list, i, item) != 0))) {
            Py_XDECREF(list);
            return NULL;
        }
    }
    PyObject *tuple = list ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return tuple;
}

static bool put(PyObject *object, lmx_container_type type, PyObject *key, Py_ssize_t at, PyObject *value) {
    if (type == LMX_BOX_LIST) {
        Py_INCREF(value);
        return PyList_SetItem(object, at, value) == 0;
    }
    return (PyDict_CheckExact(object) ? PyDict_SetItem(object, key, value)
                                      : PyObject_SetItem(object, key, value)) == 0;
}

/* Replaces keys that are tensors, or tuples with tensors: fills the dict anew, in its order. */
static bool replace_keys(const replacer *r, PyObject *dict) {
    PyObject *items = PyDict_Items(dict);
    bool ok = items != NULL, any = false;
    for (Py_ssize_t i = 0; ok && i < PyList_Size(items); i++) {
        PyObject *item = PyList_GetItem(items, i), *key = PyTuple_GetItem(item, 0);
        PyObject *in = PyUnicode_CheckExact(key) ? NULL : replaced(r, key, 0);
        if (in) {
            PyObject *pair = PyTuple_Pack(2, in, PyTuple_GetItem(item, 1));
            ok = any = pair && PyList_SetItem(items, i, pair) == 0;
        }
        ok = ok && !PyErr_Occurred();
        Py_XDECREF(in);
    }
    if (ok && any) {
        PyDict_Clear(dict);
        ok = PyDict_MergeFromSeq2(dict, items, 1) == 0;
    }
    Py_XDECREF(items);
    return ok;
}

static bool has_other_keys(PyObject **refs, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!lmx_is_settled(refs[2 * i])) return true;
    return false;
}

static bool replace_in(const replacer *r, lmx_snapshot *s, const lmx_container *box) {
    PyObject **refs = (PyObject **)s->refs.data + box->at;
    size_t step = box->type == LMX_BOX_DICT ? 2 : 1;
    if (box->type != LMX_BOX_DICT && box->type != LMX_BOX_LIST) return true;
    for (size_t i = 0; i < box->n; i++) {
        PyObject *value = lmx_ref(refs[step * i + step - 1]), *in = replaced(r, value, 0);
        bool ok = in ? put(box->object, box->type, refs[step * i], (Py_ssize_t)i, in) : !PyErr_Occurred();
        Py_XDECREF(in);
        if (!ok) return false;
    }
    const bool keys = PyDict_CheckExact(box->object) && has_other_keys(refs, box->n);
    return !keys || replace_keys(r, box->object);
}

bool lmx_snapshot_replace(lmx_snapshot *s, lmx_instead *instead, void *self) {
    const replacer r = {instead, self};
    for (size_t i = 0; i < s->boxes.n; i++)
        if (!replace_in(&r, s, (lmx_container *)s->boxes.data + i)) return false;
    return true;
}

static PyObject *mapped(void *mapping, PyObject *value) {
    PyObject *key = PyLong_FromVoidPtr(value), *other = key ? PyDict_GetItemWithError(mapping, key) : NULL;
    Py_XDECREF(key);
    Py_XINCREF(other);
    return other;
}

static PyObject *snapshot_replace(PyObject *self, PyObject *mapping) {
    if (!PyDict_Check(mapping)) return PyErr_Format(PyExc_TypeError, "replace takes a dict, not %R", mapping);
    if (!lmx_snapshot_replace(self_of(self), mapped, mapping)) return NULL;
    Py_RETURN_NONE;
}

/* == comparing ========================================================================================= */

/* `box` and `kept`: the indices of the module's first box and tensor; they are set to its end. */
static bool node_is_same(lmx_snapshot *s, int32_t node, size_t *box, size_t *kept) {
    const lmx_container *boxes = s->boxes.data;
    const lmx_kept *tensors = s->kept.data;
    if (Py_TYPE(lmx_node_at(&s->tree, node)->object) != ((PyTypeObject **)s->types.data)[node]) return false;
    for (; *box < s->boxes.n && boxes[*box].node == node; ++*box)
        if (!lmx_container_is_same(s, &boxes[*box])) return false;
    for (; *kept < s->kept.n && tensors[*kept].node == node; ++*kept)
        if (!lmx_tensor_is_same(s, &tensors[*kept], &s->untouched)) return false;
    return !((PyObject **)s->training.data)[node]; /* a scripted module's flag is not read here */
}

bool lmx_snapshot_holds(PyObject *snapshot) {
    lmx_snapshot *s = self_of(snapshot);
    bool same = s->untouched = true;
    if (s->draws.n) s->untouched = false; /* their states are not compared */
    size_t box = 0, kept = 0;
    for (size_t i = 0; same && i < s->tree.nodes.n; i++) same = node_is_same(s, (int32_t)i, &box, &kept);
    if (PyErr_Occurred()) same = lmx_forgive() && false; /* the restore reports what can't be compared */
    s->untouched = s->untouched && same;
    return same;
}

void lmx_snapshot_doubt(PyObject *snapshot) {
    if (snapshot) self_of(snapshot)->untouched = false;
}

/* == restoring ========================================================================================= */

static bool restore_type(lmx_snapshot *s, int32_t node) {
    PyObject *module = lmx_node_at(&s->tree, node)->object;
    PyTypeObject *type = ((PyTypeObject **)s->types.data)[node];
    if (Py_TYPE(module) == type || PyObject_SetAttr(module, s->st->n___class__, (PyObject *)type) == 0)
        return true;
    return lmx_problem(s, node, s->st->n___class__, "was changed and could not be restored");
}

static bool restore_training(lmx_snapshot *s, int32_t node) {
    PyObject *flag = ((PyObject **)s->training.data)[node], *module = lmx_node_at(&s->tree, node)->object;
    if (!flag) return true;
    PyObject *now = PyObject_GetAttr(module, s->st->n_training);
    bool same = now == flag;
    Py_XDECREF(now);
    if (now && (same || PyObject_SetAttr(module, s->st->n_training, flag) == 0)) return true;
    return lmx_problem(s, node, s->st->n_training, "was changed and could not be restored");
}

static void restore_kept(lmx_snapshot *s, PyObject *raised[3]) {
    for (size_t i = 0; i < s->tree.nodes.n; i++) lmx_keep_first(raised, restore_type(s, (int32_t)i));
    for (size_t i = 0; i < s->boxes.n; i++)
        lmx_keep_first(raised, lmx_container_restore(s, (lmx_container *)s->boxes.data + i));
    for (size_t i = 0; i < s->tree.nodes.n; i++) lmx_keep_first(raised, restore_training(s, (int32_t)i));
    for (size_t i = 0; i < s->kept.n; i++)
        lmx_keep_first(raised, lmx_tensor_restore(s, (lmx_kept *)s->kept.data + i));
    for (size_t i = 0; i < s->draws.n; i++)
        lmx_keep_first(raised, lmx_generator_restore(s, (lmx_generator *)s->draws.data + i));
}

static bool restore(lmx_snapshot *s) {
    PyObject *raised[3] = {NULL, NULL, NULL};
    lmx_keep_first(raised, lmx_reshard(s->st, &s->tree));
    if (!s->untouched) restore_kept(s, raised);
    if (raised[0]) PyErr_Restore(raised[0], raised[1], raised[2]);
    return !raised[0];
}

static PyObject *snapshot_restore(PyObject *self, PyObject *unused) {
    (void)unused;
    lmx_snapshot *s = self_of(self);
    if (s->problems) return lmx_fail(s->st, LAM_USAGE, NULL, "the snapshot is being restored already");
    s->problems = PyList_New(0);
    bool ok = s->problems && restore(s);
    s->untouched = false;
    PyObject *problems = s->problems;
    s->problems = NULL;
    if (!ok) Py_CLEAR(problems);
    return problems;
}

static PyObject *snapshot_wrote(PyObject *self, PyObject *memory) {
    lmx_snapshot *s = self_of(self);
    if (!PySet_Check(memory)) return PyErr_Format(PyExc_TypeError, "wrote takes a set, not %R", memory);
    for (size_t i = 0; i < s->kept.n; i++) {
        lmx_kept *k = (lmx_kept *)s->kept.data + i;
        if (k->sampled && !lmx_tensor_was_written(k, memory)) return NULL;
        if (k->written) s->untouched = false;
    }
    Py_RETURN_NONE;
}

/* == the type ========================================================================================== */

static void drop_all(lmi_vec *v) {
    for (size_t i = 0; i < v->n; i++) Py_XDECREF(lmx_ref(((PyObject **)v->data)[i]));
    lmi_vec_free(v);
}

static int visit_all(const lmi_vec *v, visitproc visit, void *arg) {
    for (size_t i = 0; i < v->n; i++) {
        PyObject *o = lmx_ref(((PyObject **)v->data)[i]);
        Py_VISIT(o);
    }
    return 0;
}

static int snapshot_traverse(PyObject *self, visitproc visit, void *arg) {
    lmx_snapshot *s = self_of(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(s->problems);
    for (size_t i = 0; i < s->boxes.n; i++) Py_VISIT(((lmx_container *)s->boxes.data)[i].object);
    for (size_t i = 0; i < s->kept.n; i++) {
        lmx_kept *k = (lmx_kept *)s->kept.data + i;
        Py_VISIT(k->tensor);
        Py_VISIT(k->clone);
        Py_VISIT(k->grad);
        Py_VISIT(k->hooks[0]);
        Py_VISIT(k->hooks[1]);
        Py_VISIT(k->data);
        Py_VISIT(k->type);
    }
    for (size_t i = 0; i < s->objects.n; i++) Py_VISIT(((lmx_object *)s->objects.data)[i].object);
    for (size_t i = 0; i < s->draws.n; i++) {
        Py_VISIT(((lmx_generator *)s->draws.data)[i].object);
        Py_VISIT(((lmx_generator *)s->draws.data)[i].state);
    }
    int done = visit_all(&s->refs, visit, arg);
    if (!done) done = visit_all(&s->types, visit, arg);
    return done ? done : lmx_tree_visit(&s->tree, visit, arg);
}

static int snapshot_clear(PyObject *self) {
    lmx_snapshot *s = self_of(self), old = *s;
    s->types = s->training = s->boxes = s->refs = s->kept = s->draws = s->objects = (lmi_vec){0};
    lmi_arena_init(&s->values, UINT64_MAX);
    s->seen = s->within = (lmi_map){0};
    s->problems = NULL;
    lmx_tree_free(&s->tree);
    for (size_t i = 0; i < old.boxes.n; i++) Py_DECREF(((lmx_container *)old.boxes.data)[i].object);
    for (size_t i = 0; i < old.objects.n; i++) {
        Py_DECREF(((lmx_object *)old.objects.data)[i].object);
        Py_XDECREF(((lmx_object *)old.objects.data)[i].name);
    }
    for (size_t i = 0; i < old.kept.n; i++) lmx_kept_free((lmx_kept *)old.kept.data + i, &s->st->torch);
    for (size_t i = 0; i < old.draws.n; i++) {
        Py_DECREF(((lmx_generator *)old.draws.data)[i].object);
        Py_DECREF(((lmx_generator *)old.draws.data)[i].name);
        Py_DECREF(((lmx_generator *)old.draws.data)[i].state);
    }
    drop_all(&old.types);
    drop_all(&old.training);
    drop_all(&old.refs);
    Py_XDECREF(old.problems);
    lmi_vec_free(&old.boxes);
    lmi_vec_free(&old.kept);
    lmi_arena_free(&old.values);
    lmi_vec_free(&old.draws);
    lmi_vec_free(&old.objects);
    lmi_map_free(&old.seen);
    lmi_map_free(&old.within);
    return 0;
}

static void snapshot_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    snapshot_clear(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyMethodDef snapshot_methods[] = {
    {"keep", lmx_given_keep, METH_VARARGS,
     PyDoc_STR(
         "keep($self, name, value, parted=False, /)\n--\n\nKeeps a tensor or a random number generator too, "
         "and returns True; False for any other value. Values of tensors of more than a MiB are kept by "
         "save(); `parted`: not those of a tensor that is made of others.")},
    {"memory", lmx_given_memory, METH_NOARGS,
     PyDoc_STR("memory($self, /)\n--\n\nReturns the addresses by which Capture.guard() knows the tensors "
               "whose values were not copied when they were kept.")},
    {"save", lmx_given_save, METH_O,
     PyDoc_STR(
         "save($self, address, /)\n--\n\nCopies the values of what is at one of these addresses, unless "
         "they were copied before.")},
    {"objects", lmx_objects, METH_NOARGS,
     PyDoc_STR("objects($self, /)\n--\n\nReturns (name, object) for each object of a class written in Python "
               "that the modules hold. restore() leaves these alone.")},
    {"graphs", lmx_graphs, METH_NOARGS,
     PyDoc_STR(
         "graphs($self, /)\n--\n\nReturns (name, tensor) for each tensor of the modules that is the result "
         "of a graph of autograd.")},
    {"replace", snapshot_replace, METH_O,
     PyDoc_STR("replace($self, mapping, /)\n--\n\nReplaces tensors in the modules by id, until restore().")},
    {"wrote", snapshot_wrote, METH_O,
     PyDoc_STR("wrote($self, memory, /)\n--\n\nTakes the result of Capture.written(). Large tensors in that "
               "memory were changed, even if torch did not count it.")},
    {"restore", snapshot_restore, METH_NOARGS,
     PyDoc_STR("restore($self, /)\n--\n\nRestores everything, and returns a sentence for each thing that "
               "could not be restored.")},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot snapshot_slots[] = {
    {Py_tp_doc, "Snapshot(root)\n--\n\nThe modules under `root` as they are now: dicts, modes, tensors, "
                "gradients, generators. None: no modules, but what keep() is given."},
    {Py_tp_new, snapshot_new},
    {Py_tp_dealloc, snapshot_dealloc},
    {Py_tp_traverse, snapshot_traverse},
    {Py_tp_clear, snapshot_clear},
    {Py_tp_methods, snapshot_methods},
    {0, NULL},
};

PyType_Spec lmx_snapshot_spec = {
    "lamina._lamina.Snapshot",
    sizeof(lmx_snapshot),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    snapshot_slots,
};
