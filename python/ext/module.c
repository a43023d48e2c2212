/* SPDX-License-Identifier: Apache-2.0
 * The module lamina._lamina: its state and its types. Importing it imports nothing; torch is looked up when a
 * live model needs it. Py_mod_gil is not declared, so a free-threaded interpreter turns the GIL on for it. */
#include "base/ext.h"
#include "base/tables.h"
#include "modules/classes.h"
#include "observe/observe.h"
#include "results/results.h"
#include "torch/tensor.h"

#include <stdlib.h>

static bool add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **out) {
    *out = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    return *out && PyModule_AddType(module, *out) == 0;
}

static bool intern_names(lmx_state *st) {
#define X(name)                                                                                              \
    if (!(st->n_##name = PyUnicode_InternFromString(#name))) return false;
    LMX_NAMES(X)
#undef X
    return true;
}

static int module_exec(PyObject *module) {
    lmx_state *st = lmx_state_of(module);
    st->torch.offset = -1;
    lmx_share_sqlite();
    if (!lmx_find_vectorcall()) return -1;
    st->layout = calloc(1, sizeof *st->layout);
    st->classes = calloc(1, sizeof *st->classes);
    if (!st->layout || !st->classes) {
        PyErr_NoMemory();
        return -1;
    }
    bool ok = PyModule_AddFunctions(module, lmx_probe_methods) == 0 &&
              PyModule_AddFunctions(module, lmx_own_methods) == 0 &&
              PyModule_AddFunctions(module, lmx_fit_methods) == 0 &&
              PyModule_AddFunctions(module, lmx_tokens_functions) == 0 &&
              PyModule_AddFunctions(module, lmx_page_methods) == 0 &&
              PyModule_AddFunctions(module, lmx_weights_methods) == 0 && intern_names(st) &&
              add_type(module, &lmx_capture_spec, &st->capture_type) &&
              add_type(module, &lmx_model_spec, &st->model_type) &&
              add_type(module, &lmx_costs_spec, &st->costs_type) &&
              add_type(module, &lmx_tokens_spec, &st->tokens_type) &&
              add_type(module, &lmx_ranks_spec, &st->ranks_type) &&
              add_type(module, &lmx_table_spec, &st->table_type) &&
              add_type(module, &lmx_recordings_spec, &st->recordings_type) &&
              add_type(module, &lmx_snapshot_spec, &st->snapshot_type) &&
              add_type(module, &lmx_dry_spec, &st->dry_type) &&
              add_type(module, &lmx_recorder_spec, &st->recorder_type) &&
              add_type(module, &lmx_schedule_spec, &st->schedule_type) &&
              add_type(module, &lmx_root_spec, &st->root_type);
    return ok ? 0 : -1;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg) {
    lmx_state *st = lmx_state_of(module);
    if (!st) return 0;
    Py_VISIT(st->errors);
    Py_VISIT(st->capture_type);
    Py_VISIT(st->model_type);
    Py_VISIT(st->costs_type);
    Py_VISIT(st->tokens_type);
    Py_VISIT(st->ranks_type);
    Py_VISIT(st->table_type);
    Py_VISIT(st->recordings_type);
    Py_VISIT(st->snapshot_type);
    Py_VISIT(st->dry_type);
    Py_VISIT(st->recorder_type);
    Py_VISIT(st->schedule_type);
    Py_VISIT(st->root_type);
    return lmx_torch_visit(&st->torch, visit, arg);
}

static int module_clear(PyObject *module) {
    lmx_state *st = lmx_state_of(module);
    if (!st) return 0;
    Py_CLEAR(st->errors);
    Py_CLEAR(st->capture_type);
    Py_CLEAR(st->model_type);
    Py_CLEAR(st->costs_type);
    Py_CLEAR(st->tokens_type);
    Py_CLEAR(st->ranks_type);
    Py_CLEAR(st->table_type);
    Py_CLEAR(st->recordings_type);
    Py_CLEAR(st->snapshot_type);
    Py_CLEAR(st->dry_type);
    Py_CLEAR(st->recorder_type);
    Py_CLEAR(st->schedule_type);
    Py_CLEAR(st->root_type);
    lmx_torch_clear(&st->torch);
    if (st->classes) lmx_classes_clear(st->classes);
#define X(name) Py_CLEAR(st->n_##name);
    LMX_NAMES(X)
#undef X
    return 0;
}

static void module_free(void *module) {
    module_clear(module);
    lmx_state *st = lmx_state_of(module);
    if (st) free(st->layout);
    if (st) free(st->classes);
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "lamina._lamina",
    .m_doc = "The part of lamina that is C: captures of live models, and the core behind them.",
    .m_size = sizeof(lmx_state),
    .m_methods = lmx_text_methods,
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__lamina(void);
PyMODINIT_FUNC PyInit__lamina(void) { return PyModuleDef_Init(&definition); }
