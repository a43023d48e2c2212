/* SPDX-License-Identifier: Apache-2.0
 * The peak of a forward pass and of a training step, as text in one of the core's formats. */
#include "base/ext.h"
#include "base/tables.h"
#include "results/results.h"

/* The model of an argument that may be None; false with an exception. */
static bool model_of(lmx_state *st, PyObject *o, const lam_model **out) {
    *out = o == Py_None ? NULL : lmx_model_get(st, o);
    return o == Py_None || *out;
}

static lam_status write_both(const lam_model *forward, const lam_model *step, const int64_t measured[2],
                             const char *format, bool exact, lam_sink to, lam_error *e) {
    lam_fit *f = NULL, *s = NULL;
    lam_status status = forward ? lam_fit_new(&f, forward, e) : LAM_OK;
    if (status == LAM_OK && step) status = lam_fit_new(&s, step, e);
    if (status == LAM_OK) status = lam_fit_write(f, s, step ? step : forward, measured, format, exact, to, e);
    lam_fit_free(f);
    lam_fit_free(s);
    return status;
}

static PyObject *fitted(PyObject *module, PyObject *args) {
    PyObject *forward, *step;
    const char *format = NULL;
    long long a = -1, b = -1;
    int exact = 0;
    if (!PyArg_ParseTuple(args, "OO(LL)zp:fitted", &forward, &step, &a, &b, &format, &exact)) return NULL;
    lmx_state *st = lmx_state_of(module);
    const lam_model *first, *second;
    if (!model_of(st, forward, &first) || !model_of(st, step, &second)) return NULL;
    const int64_t measured[2] = {a, b};
    lmx_text text = {0};
    lam_error e = {.at = -1};
    lam_status s = write_both(first, second, measured, format, exact != 0, lmx_text_sink(&text), &e);
    return lmx_text_end(&text, st, s, &e);
}

static PyObject *recurrent_kept(PyObject *module, PyObject *args) {
    (void)module;
    enum { FLOAT32 = 6 };
    long long steps, examples, wide, hidden;
    if (!PyArg_ParseTuple(args, "LLLL:recurrent_kept", &steps, &examples, &wide, &hidden)) return NULL;
    const int64_t gates = hidden < 1 << 28 ? 4 * hidden : -1;
    const int64_t sizes[][3] = {{steps, examples, wide}, {gates, wide}, {gates, hidden}};
    lam_op_arg in[3];
    for (int32_t i = 0; i < 3; i++)
        in[i] = (lam_op_arg){.position = i,
                             .is_tensor = true,
                             .dtype = FLOAT32,
                             .device = -1,
                             .ndim = i ? 2 : 3,
                             .sizes = sizes[i]};
    const int64_t *strides[3] = {NULL, NULL, NULL};
    int32_t rule = lam_workspace_rule("aten::mkldnn_rnn_layer(workspace)");
    return PyLong_FromLongLong(lam_workspace(rule, in, strides, 3, lam_cpu_here(1)));
}

static PyObject *lacks(PyObject *module, PyObject *name) {
    (void)module;
    return PyBool_FromLong(lam_cpu_lacks(lam_dtype_by_name(lmx_utf8(name))));
}

PyMethodDef lmx_fit_methods[] = {
    {"fitted", fitted, METH_VARARGS,
     PyDoc_STR("fitted($module, forward, step, measured, format, exact, /)\n--\n\nReturns the "
               "predicted peak memory of dry runs whose memory was followed. One of the runs may be None. "
               "`measured`: bytes of both, -1 if unknown.")},
    {"recurrent_kept", recurrent_kept, METH_VARARGS,
     PyDoc_STR("recurrent_kept($module, steps, examples, wide, hidden, /)\n--\n\nReturns the bytes that one "
               "direction of one layer of oneDNN's LSTM of float32 keeps for its backward.")},
    {"lacks", lacks, METH_O,
     PyDoc_STR(
         "lacks($module, dtype, /)\n--\n\nReturns True if this CPU is known to have no instructions for "
         "products in this type of 16 bits.")},
    {NULL, NULL, 0, NULL},
};
