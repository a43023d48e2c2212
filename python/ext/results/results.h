/* SPDX-License-Identifier: Apache-2.0
 * results: results as Python objects. */
#ifndef LMX_RESULTS_H
#define LMX_RESULTS_H

#include "modules/tree.h"

/* -- the fields of a result as Python's own values (sink.c) ----------------------------------------------*/

enum { LMX_SINK_DEPTH = 12, LMX_SINK_KEYS = 256 };
typedef struct lmx_sink_part { /* an object, a list or a record that has begun */
    const char *name;
    lam_field_type type;
    PyObject *made; /* NULL: a record */
    size_t first;   /* of its items */
} lmx_sink_part;
typedef struct lmx_sink {
    PyObject *whole;
    int depth;
    lmx_sink_part open[LMX_SINK_DEPTH];
    lmi_vec items; /* of all records that have begun */
    struct {
        const char *name;
        PyObject *key;
    } keys[LMX_SINK_KEYS];
    PyObject *states[LAM_UNKNOWN + 1], *zeros[LAM_UNKNOWN + 1];
} lmx_sink;
/* The receiver for a lam_..._tell; and then the value that it made, or NULL with an exception. */
lam_receiver lmx_sink_begin(lmx_sink *t);
PyObject *lmx_sink_end(lmx_sink *t);

/* The costs of a Costs, with their rows, which totals alone do not need. NULL with an exception. */
lam_costs *lmx_costs_settled(PyObject *self);
/* diff(before, ran, after, ran, kind, by, width, exact, rows, depth) */
PyObject *lmx_diff(PyObject *module, PyObject *args);
/* Hears signals while files are read without the lock of the interpreter: `*state` is that of the thread. */
lam_watcher lmx_hear(PyThreadState **state);
/* scan_values(address, dtype, n, repeats=1, stats=False): (nan, inf, index of the first) of n numbers at an
 * address; with `stats` from their statistics, which have no first. For the bench. */
PyObject *lmx_scan_values(PyObject *module, PyObject *args);
/* Counts by metric's name; one that is missing or None is unknown. */
bool lmx_counts_from_dict(lmx_state *st, PyObject *dict, lam_count out[LAM_N_METRICS]);

/* The tables and the verdict of a Ranks, which is empty then; NULL with an exception. The caller frees
 * them. */
lam_ranks *lmx_ranks_release(lmx_state *st, PyObject *object);

/* -- user-defined rules (rules.c) ------------------------------------------------------------------------ */

typedef struct lmx_own {
    lmx_state *st;
    lam_rules *rules; /* NULL: none */
    PyObject *ask;    /* borrowed; NULL: none */
    bool failed;      /* its exception is pending; `ask` is not called again */
} lmx_own;
/* Fills `o` from a list of (name, {metric: formula}, asks) and the function for unknown numbers. Release it
 * also after a failure. */
bool lmx_own_take(lmx_own *o, lmx_state *st, PyObject *rules, PyObject *ask);
/* Adds a list of rules to o->rules. */
bool lmx_own_add(lmx_own *o, PyObject *rules);
void lmx_own_release(lmx_own *o);
/* lam_cost_options.ask of an lmx_own. */
bool lmx_own_ask(void *self, const lam_model *m, int32_t op, int32_t event, const char *name,
                 lam_count out[LAM_N_METRICS]);
extern PyMethodDef lmx_own_methods[];

/* lam_report_options.lay_out (old.c): the tables of torchscan and thoplw by Python's lamina._old.
 * `options`: a dict of further options for Python, or NULL. On failure an exception is set. */
lam_status lmx_write_old(void *options, const lam_costs *c, const lam_report_options *o, lam_sink to,
                         lam_error *e);

/* -- methods of a Model (model.c) ------------------------------------------------------------------------ */

PyObject *lmx_costs_new(PyObject *model, PyObject *args, PyObject *kwargs);
PyObject *lmx_compared(PyObject *self, PyObject *args);
PyObject *lmx_gadgets(PyObject *self, PyObject *args);
PyObject *lmx_graph(PyObject *self, PyObject *unused);
PyObject *lmx_graph_dot(PyObject *self, PyObject *args);
PyObject *lmx_graph_findings(PyObject *self, PyObject *unused);
PyObject *lmx_health(PyObject *self, PyObject *unused);
PyObject *lmx_health_tail(PyObject *self, PyObject *args);
PyObject *lmx_time_by(PyObject *self, PyObject *other); /* takes `other` over */
PyObject *lmx_memory_measured(PyObject *self, PyObject *unused); /* a bool */
/* Totals, and one dict a place; an error if it was not measured. */
PyObject *lmx_memory_data(PyObject *self, PyObject *unused);
/* The same of a device's allocator; None if it was not read. */
PyObject *lmx_device_memory_data(PyObject *self, PyObject *unused);
/* memory_course(points): [(nanoseconds, bytes), ...] */
PyObject *lmx_memory_course(PyObject *self, PyObject *args);

/* -- for text.c ------------------------------------------------------------------------------------------ */

PyObject *lmx_command(PyObject *module, PyObject *args); /* command.c */

/* The texts, or bytes, of a list, borrowed from it, and NULL behind the last; free() the array. NULL: an
 * exception. */
const char **lmx_words(PyObject *list, int *argc);

#endif
