/* SPDX-License-Identifier: Apache-2.0
 * Random number generators that modules hold: their states are read and set in the documented ways. The
 * generators that the whole process shares are in generators.py. */
#include "base/ext.h"
#include "modules/snapshot.h"

/* A type of module `in`, if that is imported. `of`, if not NULL: the attribute of the object that has the
 * state. `set` NULL: `get` is an attribute, which is read and set. */
typedef struct lmx_generator_kind {
    const char *in, *type, *of, *get, *set;
} lmx_generator_kind;

static const lmx_generator_kind drawers[] = {
    {"torch", "Generator", NULL, "get_state", "set_state"},
    {"random", "Random", NULL, "getstate", "setstate"},
    {"numpy.random", "Generator", "bit_generator", "state", NULL},
    {"numpy.random", "RandomState", NULL, "get_state", "set_state"},
    {"numpy.random", "BitGenerator", NULL, "state", NULL},
};

static bool is_of(const lmx_generator_kind *d, PyObject *value) {
    PyObject *modules = PyImport_GetModuleDict(); /* borrowed */
    PyObject *module = modules ? PyDict_GetItemString(modules, d->in) : NULL;
    PyObject *type = module ? PyObject_GetAttrString(module, d->type) : NULL;
    const bool yes = type && PyType_Check(type) && PyObject_TypeCheck(value, (PyTypeObject *)type);
    Py_XDECREF(type);
    PyErr_Clear();
    return yes;
}

static PyObject *holder_of(const lmx_generator_kind *d, PyObject *object) {
    if (d->of) return PyObject_GetAttrString(object, d->of);
    Py_INCREF(object);
    return object;
}

static PyObject *state_of(const lmx_generator_kind *d, PyObject *object) {
    PyObject *holder = holder_of(d, object), *state = NULL;
    if (holder)
        state = d->set ? PyObject_CallMethod(holder, d->get, NULL) : PyObject_GetAttrString(holder, d->get);
    Py_XDECREF(holder);
    return state;
}

static bool keep(lmx_snapshot *s, int32_t node, PyObject *name, PyObject *value,
                 const lmx_generator_kind *how) {
    PyObject *state = state_of(how, value);
    if (!state) return lmx_forgive(); /* random.SystemRandom has none */
    lmx_generator *to = lmx_vec_push(&s->draws, sizeof *to, 1);
    if (!to) {
        Py_DECREF(state);
        PyErr_NoMemory();
        return false;
    }
    Py_INCREF(value);
    Py_INCREF(name);
    *to = (lmx_generator){value, name, state, node, how};
    return true;
}

bool lmx_generator_keep(lmx_snapshot *s, int32_t node, PyObject *name, PyObject *value) {
    PyTypeObject *type = Py_TYPE(value);
    if (lmx_is_settled(value) || type == s->no_draw || !PyUnicode_Check(name)) return true;
    for (size_t i = 0; i < sizeof drawers / sizeof *drawers; i++)
        if (is_of(&drawers[i], value)) return keep(s, node, name, value, &drawers[i]);
    s->no_draw = type;
    return true;
}

bool lmx_generator_restore(lmx_snapshot *s, const lmx_generator *draw) {
    const lmx_generator_kind *d = draw->how;
    PyObject *holder = holder_of(d, draw->object), *done = NULL;
    bool ok = holder != NULL;
    if (ok && d->set) {
        done = PyObject_CallMethod(holder, d->set, "(O)", draw->state);
        ok = done != NULL;
    } else if (ok) {
        ok = PyObject_SetAttrString(holder, d->get, draw->state) == 0;
    }
    Py_XDECREF(done);
    Py_XDECREF(holder);
    return ok || lmx_problem(s, draw->node, draw->name, "could not be restored to the state that it had");
}
