/* SPDX-License-Identifier: Apache-2.0
 * The type Ranks: tables of a run of many ranks, and the verdict on who slows it. Tables come as Arrow's C
 * streams (include/lamina_arrow.h), batch by batch and column by column. */
#include "base/ext.h"
#include "base/tables.h"
#include "results/results.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct lmx_ranks {
    PyObject_HEAD lmx_state *st;
    lam_ranks *ranks;
} lmx_ranks;

static lmx_ranks *self_of(PyObject *self) { return (lmx_ranks *)self; }

/* -- tables ------------------------------------------------------------------------------------------- */

typedef enum kind { WHOLE, REAL, TEXT } kind; /* int64_t, double, const char * */
typedef struct column {
    const char *name;
    kind kind;
    size_t at; /* of its field in the row */
} column;

typedef union row {
    lam_rank_fact fact;
    lam_rank_window window;
    lam_rank_meet meet;
    lam_rank_order order;
    lam_rank_layer layer;
} row;

#define W(type, field)                                                                                       \
    { #field, WHOLE, offsetof(type, field) }
#define R(type, field)                                                                                       \
    { #field, REAL, offsetof(type, field) }
#define T(type, field)                                                                                       \
    { #field, TEXT, offsetof(type, field) }
static const column fact_columns[] = {
    W(lam_rank_fact, attempt),        W(lam_rank_fact, rank),
    W(lam_rank_fact, world),          W(lam_rank_fact, tree),
    W(lam_rank_fact, comm_group),     W(lam_rank_fact, seen_us),
    W(lam_rank_fact, ended_us),       R(lam_rank_fact, step_flops),
    R(lam_rank_fact, peak_flops),     T(lam_rank_fact, node),
    T(lam_rank_fact, ended_by),       T(lam_rank_fact, ran_last),
    R(lam_rank_fact, hardware_flops), W(lam_rank_fact, flops_at_least),
    T(lam_rank_fact, why_mfu),        {NULL, WHOLE, 0},
};
static const column window_columns[] = {
    W(lam_rank_window, attempt),
    W(lam_rank_window, win),
    W(lam_rank_window, rank),
    W(lam_rank_window, first_step),
    W(lam_rank_window, started_us),
    W(lam_rank_window, steps),
    R(lam_rank_window, own_us),
    R(lam_rank_window, step_us),
    R(lam_rank_window, input_us),
    R(lam_rank_window, h2d_us),
    R(lam_rank_window, forward_us),
    R(lam_rank_window, backward_us),
    R(lam_rank_window, optimizer_us),
    R(lam_rank_window, other_us),
    R(lam_rank_window, comm_us),
    R(lam_rank_window, processor_us),
    {NULL, WHOLE, 0},
};
static const column meet_columns[] = {
    W(lam_rank_meet, attempt),     W(lam_rank_meet, step),
    W(lam_rank_meet, comm_group),  W(lam_rank_meet, ranks),
    W(lam_rank_meet, last_rank),   W(lam_rank_meet, second_rank),
    W(lam_rank_meet, started_us),  R(lam_rank_meet, last_us),
    R(lam_rank_meet, second_us),   R(lam_rank_meet, own_us),
    R(lam_rank_meet, transfer_us), R(lam_rank_meet, group_transfer_us),
    R(lam_rank_meet, step_us),     W(lam_rank_meet, represents),
    T(lam_rank_meet, node),        {NULL, WHOLE, 0},
};
static const column order_columns[] = {
    W(lam_rank_order, attempt),
    W(lam_rank_order, step),
    W(lam_rank_order, tree),
    W(lam_rank_order, ranks),
    W(lam_rank_order, first_rank),
    W(lam_rank_order, collectives),
    W(lam_rank_order, collectives_hash),
    {NULL, WHOLE, 0},
};
static const column layer_columns[] = {
    W(lam_rank_layer, rank),  R(lam_rank_layer, own_us), R(lam_rank_layer, peer_us),
    T(lam_rank_layer, layer), {NULL, WHOLE, 0},
};
#undef W
#undef R
#undef T

static lam_status add_fact(lam_ranks *r, row *w, lam_error *e) { return lam_ranks_add_fact(r, &w->fact, e); }
static lam_status add_window(lam_ranks *r, row *w, lam_error *e) {
    return lam_ranks_add_window(r, &w->window, e);
}
static lam_status add_meet(lam_ranks *r, row *w, lam_error *e) { return lam_ranks_add_meet(r, &w->meet, e); }
static lam_status add_order(lam_ranks *r, row *w, lam_error *e) {
    return lam_ranks_add_order(r, &w->order, e);
}
static lam_status add_layer(lam_ranks *r, row *w, lam_error *e) {
    return lam_ranks_add_layer(r, &w->layer, e);
}

enum { MOST_COLUMNS = 24 };
typedef struct table {
    const char *name;
    const column *columns;
    lam_status (*add)(lam_ranks *r, row *w, lam_error *e);
} table;
static const table tables[] = {{"ranks", fact_columns, add_fact},
                               {"windows", window_columns, add_window},
                               {"meets", meet_columns, add_meet},
                               {"orders", order_columns, add_order},
                               {"layers", layer_columns, add_layer}};

/* -- a stream ----------------------------------------------------------------------------------------- */

typedef struct reader {
    const table *of;
    struct ArrowArrayStream *from;
    struct ArrowSchema schema;
    int at[MOST_COLUMNS]; /* the child that has each column */
    char *texts[MOST_COLUMNS];
    size_t room[MOST_COLUMNS];
    int waits; /* of `ranks`: the child of the column `waits`, -1 elsewhere */
    lam_error *e;
} reader;

static lam_status broken(const reader *x, const char *what) {
    const char *why = x->from->get_last_error ? x->from->get_last_error(x->from) : NULL;
    if (x->e && !x->e->text[0]) {
        *x->e = (lam_error){.status = LAM_IO, .at = -1};
        snprintf(x->e->where, sizeof x->e->where, "%s", x->of->name);
        snprintf(x->e->text, sizeof x->e->text, "%s: %s", what, why ? why : "no reason is given");
    }
    return LAM_IO;
}

static lam_status unlike(const reader *x, const char *column, const char *what) {
    if (x->e && !x->e->text[0]) {
        *x->e = (lam_error){.status = LAM_SYNTAX, .at = -1};
        snprintf(x->e->where, sizeof x->e->where, "%s", x->of->name);
        snprintf(x->e->text, sizeof x->e->text, "the column %s %s", column, what);
    }
    return LAM_SYNTAX;
}

static int child_named(const struct ArrowSchema *s, const char *name) {
    for (int64_t i = 0; i < s->n_children && i < INT32_MAX; i++)
        if (s->children[i]->name && strcmp(s->children[i]->name, name) == 0) return (int)i;
    return -1;
}

static lam_status find_columns(reader *x) {
    static const char formats[] = {[WHOLE] = 'l', [REAL] = 'g', [TEXT] = 'u'};
    for (int i = 0; x->of->columns[i].name; i++) {
        const column *c = &x->of->columns[i];
        x->at[i] = child_named(&x->schema, c->name);
        if (x->at[i] < 0) return unlike(x, c->name, "is missing");
        const char *format = x->schema.children[x->at[i]]->format;
        if (format[0] != formats[c->kind] || format[1] || x->schema.children[x->at[i]]->dictionary)
            return unlike(x, c->name, "has another type than it should");
    }
    x->waits = x->of->columns == fact_columns ? child_named(&x->schema, "waits") : -1;
    if (x->waits >= 0 && strcmp(x->schema.children[x->waits]->format, "l") != 0)
        return unlike(x, "waits", "has another type than it should");
    return LAM_OK;
}

static bool is_null(const struct ArrowArray *a, int64_t i) {
    const uint8_t *bits = a->buffers[0];
    i += a->offset;
    return bits && a->null_count != 0 && !(bits[i / 8] >> (i % 8) & 1);
}

/* The text of a row, with a zero behind it; NULL: memory ran out. */
static const char *text_at(reader *x, int k, const struct ArrowArray *a, int64_t i) {
    const int32_t *offsets = (const int32_t *)a->buffers[1] + a->offset;
    const size_t n = (size_t)(offsets[i + 1] - offsets[i]);
    if (x->room[k] < n + 1) {
        char *more = realloc(x->texts[k], n + 64);
        if (!more) return NULL;
        x->texts[k] = more;
        x->room[k] = n + 64;
    }
    if (n) memcpy(x->texts[k], (const char *)a->buffers[2] + offsets[i], n);
    x->texts[k][n] = '\0';
    return x->texts[k];
}

static lam_status read_row(reader *x, const struct ArrowArray *batch, int64_t i, row *out) {
    for (int k = 0; x->of->columns[k].name; k++) {
        const column *c = &x->of->columns[k];
        const struct ArrowArray *a = batch->children[x->at[k]];
        char *to = (char *)out + c->at;
        const bool none = is_null(a, i + batch->offset);
        const int64_t j = i + batch->offset + a->offset;
        if (c->kind == WHOLE)
            *(int64_t *)(void *)to = none ? LAM_NOT_KNOWN : ((const int64_t *)a->buffers[1])[j];
        else if (c->kind == REAL)
            *(double *)(void *)to = none ? NAN : ((const double *)a->buffers[1])[j];
        else if (!(*(const char **)(void *)to = none ? NULL : text_at(x, k, a, i + batch->offset)) && !none)
            return LAM_NOMEM;
    }
    if (x->waits < 0) return LAM_OK;
    const struct ArrowArray *a = batch->children[x->waits];
    const bool none = is_null(a, i + batch->offset);
    const int64_t waits = none ? -1 : ((const int64_t *)a->buffers[1])[i + batch->offset + a->offset];
    out->fact.waits = waits == 0 ? LAM_WAITS_APART : waits == 1 ? LAM_WAITS_OTHER : LAM_WAITS_INSIDE;
    return LAM_OK;
}

static lam_status read_batches(reader *x, lam_ranks *to) {
    for (;;) {
        struct ArrowArray batch = {0};
        row w = {0};
        if (x->from->get_next(x->from, &batch) != 0) return broken(x, "it can't be read");
        if (!batch.release) return LAM_OK;
        lam_status s = LAM_OK;
        for (int64_t i = 0; s == LAM_OK && i < batch.length; i++) {
            s = read_row(x, &batch, i, &w);
            if (s == LAM_OK) s = x->of->add(to, &w, x->e);
        }
        batch.release(&batch);
        if (s != LAM_OK) return s;
    }
}

static lam_status read_stream(const table *of, struct ArrowArrayStream *from, lam_ranks *to, lam_error *e) {
    reader x = {.of = of, .from = from, .e = e};
    if (from->get_schema(from, &x.schema) != 0) return broken(&x, "its columns can't be read");
    lam_status s = find_columns(&x);
    if (s == LAM_OK) s = read_batches(&x, to);
    for (int k = 0; k < MOST_COLUMNS; k++) free(x.texts[k]);
    if (x.schema.release) x.schema.release(&x.schema);
    return s;
}

static lam_status add_capsule(lmx_ranks *self, const char *name, PyObject *capsule, lam_error *e) {
    struct ArrowArrayStream *from = PyCapsule_GetPointer(capsule, "arrow_array_stream");
    if (!from) return lmx_error_from_exception(self->st, e);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (strcmp(tables[i].name, name) == 0) {
            lam_status s = read_stream(&tables[i], from, self->ranks, e);
            if (s == LAM_NOMEM && e->status == LAM_OK) e->status = LAM_NOMEM;
            return s;
        }
    *e = (lam_error){.status = LAM_USAGE, .at = -1};
    snprintf(e->text, sizeof e->text, "there is no table of that name");
    return LAM_USAGE;
}

/* -- the type ------------------------------------------------------------------------------------------ */

static PyObject *ranks_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    lmx_state *st = lmx_state_of_type(type);
    lam_error e = {.at = -1};
    (void)kwargs;
    if (!PyArg_ParseTuple(args, ":Ranks")) return NULL;
    lmx_ranks *self = (lmx_ranks *)PyType_GenericAlloc(type, 0);
    if (!self) return NULL;
    self->st = st;
    if (lam_ranks_new(&self->ranks, &e) == LAM_OK) return (PyObject *)self;
    Py_DECREF(self);
    return lmx_raise(st, &e);
}

static void ranks_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    lam_ranks_free(self_of(self)->ranks);
    PyObject_Free(self);
    Py_DECREF(type);
}

lam_ranks *lmx_ranks_release(lmx_state *st, PyObject *object) {
    if (Py_TYPE(object) != st->ranks_type || !self_of(object)->ranks) {
        PyErr_SetString(PyExc_TypeError, "a Ranks is wanted, and it is used once");
        return NULL;
    }
    lam_ranks *r = self_of(object)->ranks;
    self_of(object)->ranks = NULL;
    return r;
}

static bool is_there(PyObject *self) {
    if (!self_of(self)->ranks) PyErr_SetString(PyExc_ValueError, "these Ranks were passed on");
    return self_of(self)->ranks != NULL;
}

static PyObject *ranks_add(PyObject *self, PyObject *args) {
    const char *name;
    PyObject *of;
    lam_error e = {.at = -1};
    if (!PyArg_ParseTuple(args, "sO:add", &name, &of) || !is_there(self)) return NULL;
    PyObject *capsule = PyObject_CallMethod(of, "__arrow_c_stream__", NULL);
    if (!capsule) return NULL;
    lam_status s = add_capsule(self_of(self), name, capsule, &e);
    Py_DECREF(capsule);
    if (s != LAM_OK) return lmx_raise(self_of(self)->st, &e);
    Py_RETURN_NONE;
}

typedef struct giver {
    lmx_ranks *self;
    PyObject *layers;
} giver;

static PyObject *list_of(const int32_t *at, int32_t n) {
    PyObject *list = PyList_New(n);
    for (int32_t i = 0; list && i < n; i++) {
        PyObject *each = PyLong_FromLong(at[i]);
        if (!each || PyList_SetItem(list, i, each) < 0) Py_CLEAR(list);
    }
    return list;
}

/* Asks layers(ranks, peers, first_hour, last_hour) for a stream; None: nothing is known of layers. */
static lam_status give_layers(void *self, const lam_layers_wanted *w, lam_ranks *to, lam_error *e) {
    giver *g = self;
    lam_error own = {.at = -1};
    lam_status s = LAM_OK;
    PyObject *ranks = list_of(w->ranks, w->n_ranks), *peers = list_of(w->peers, w->n_peers), *of = NULL;
    if (ranks && peers)
        of = PyObject_CallFunction(g->layers, "OOLL", ranks, peers, (long long)w->first_hour,
                                   (long long)w->last_hour);
    Py_XDECREF(ranks);
    Py_XDECREF(peers);
    if (!of) return lmx_error_from_exception(g->self->st, e);
    PyObject *capsule = of == Py_None ? NULL : PyObject_CallMethod(of, "__arrow_c_stream__", NULL);
    if (of != Py_None && !capsule) s = lmx_error_from_exception(g->self->st, e);
    (void)to;
    if (capsule) s = add_capsule(g->self, "layers", capsule, &own);
    if (s != LAM_OK && e && !e->text[0]) *e = own;
    Py_XDECREF(capsule);
    Py_DECREF(of);
    return s;
}

static PyObject *ranks_judge(PyObject *self, PyObject *layers) {
    giver g = {self_of(self), layers};
    lam_error e = {.at = -1};
    if (!is_there(self)) return NULL;
    if (lam_ranks_judge(g.self->ranks, layers == Py_None ? NULL : give_layers, &g, &e) != LAM_OK)
        return lmx_raise(g.self->st, &e);
    Py_RETURN_NONE;
}

static PyObject *ranks_look(PyObject *self, PyObject *args) {
    giver g = {self_of(self), NULL};
    lam_error e = {.at = -1};
    PyObject *rank, *node;
    int layers;
    lam_ranks_look what = {.rank = LAM_NOT_KNOWN};
    if (!PyArg_ParseTuple(args, "OOpO:look", &rank, &node, &layers, &g.layers) || !is_there(self))
        return NULL;
    if (rank != Py_None) what.rank = PyLong_AsLongLong(rank);
    if (rank != Py_None && what.rank == -1 && PyErr_Occurred()) return NULL;
    PyObject *name = node == Py_None ? NULL : PyUnicode_AsUTF8String(node);
    if (node != Py_None && !name) return NULL;
    what.node = name ? PyBytes_AsString(name) : NULL;
    what.layers = layers != 0;
    const lam_status s =
        lam_ranks_look_at(g.self->ranks, &what, g.layers == Py_None ? NULL : give_layers, &g, &e);
    Py_XDECREF(name);
    if (s != LAM_OK) return lmx_raise(g.self->st, &e);
    Py_RETURN_NONE;
}

static PyObject *ranks_as_dict(PyObject *self, PyObject *unused) {
    lmx_sink t;
    (void)unused;
    if (!is_there(self)) return NULL;
    if (!lam_ranks_verdict(self_of(self)->ranks))
        return lmx_fail(self_of(self)->st, LAM_USAGE, NULL, "the verdict was not reached yet: call judge");
    lam_ranks_tell(self_of(self)->ranks, lmx_sink_begin(&t));
    return lmx_sink_end(&t);
}

static PyMethodDef ranks_methods[] = {
    {"add", ranks_add, METH_VARARGS,
     PyDoc_STR(
         "add($self, table, rows, /)\n--\n\nAdds rows to ranks, windows, meets, orders or layers. `rows` has "
         "__arrow_c_stream__, and columns named as the fields of include/lamina_ranks.h: int64, "
         "float64 and string.")},
    {"judge", ranks_judge, METH_O,
     PyDoc_STR(
         "judge($self, layers, /)\n--\n\nReaches the verdict. `layers` is None, or a function of ranks, "
         "peers, first hour and last hour that returns rows, or None.")},
    {"look", ranks_look, METH_VARARGS,
     PyDoc_STR("look($self, rank, node, all_layers, layers, /)\n--\n\nLooks at a rank, a node or all layers "
               "beside their peers; two of the first three are None or False. `layers`: as in judge, without "
               "ranks of all layers the slowest rank of each.")},
    {"as_dict", ranks_as_dict, METH_NOARGS,
     PyDoc_STR("as_dict($self, /)\n--\n\nReturns the verdict and what it is based on, as a dict.")},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot ranks_slots[] = {
    {Py_tp_new, ranks_new},
    {Py_tp_dealloc, ranks_dealloc},
    {Py_tp_methods, ranks_methods},
    {Py_tp_doc, "Ranks()\n--\n\nTables of a run of many ranks, and the verdict on who slows it."},
    {0, NULL},
};

PyType_Spec lmx_ranks_spec = {
    .name = "lamina._lamina.Ranks",
    .basicsize = sizeof(lmx_ranks),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = ranks_slots,
};
