/* SPDX-License-Identifier: Apache-2.0
 * The results of the checks of values, as Python objects. */
#include "base/ext.h"
#include "results/results.h"

PyObject *lmx_scan_values(PyObject *module, PyObject *args) {
    unsigned long long at;
    const char *dtype;
    long long n;
    int repeats = 1, stats = 0;
    if (!PyArg_ParseTuple(args, "KsL|ip:scan_values", &at, &dtype, &n, &repeats, &stats)) return NULL;
    const int64_t sizes[] = {n};
    const lam_values v = {(const void *)(uintptr_t)at, lam_dtype_by_name(dtype), 1, sizes, NULL};
    lam_nonfinite found = {.first = -1};
    lam_error e = {.at = -1};
    lam_status s = LAM_OK;
    lam_stats measured;
    for (int i = 0; s == LAM_OK && i < repeats; i++)
        s = stats ? lam_values_stats(&v, &measured, &e) : lam_values_scan(&v, &found, &e);
    if (s == LAM_OK && stats) found = (lam_nonfinite){.nan = measured.nan, .inf = measured.inf, .first = -1};
    if (s != LAM_OK) return lmx_raise(lmx_state_of(module), &e);
    return Py_BuildValue("LLL", (long long)found.nan, (long long)found.inf, (long long)found.first);
}

static lam_health *health_of(PyObject *self) {
    lam_health *h = NULL;
    lam_error e = {.at = -1};
    const lam_model *m = lmx_model_of(self);
    if (m && lam_health_new(&h, m, &e) != LAM_OK) lmx_raise(((lmx_model *)self)->st, &e);
    return h;
}

PyObject *lmx_health(PyObject *self, PyObject *unused) {
    (void)unused;
    const lam_model *m = lmx_model_of(self);
    if (m && !lam_model_checked(m)) Py_RETURN_NONE;
    lam_health *h = health_of(self);
    lmx_sink t;
    if (!h) return NULL;
    lam_health_tell(h, lmx_sink_begin(&t));
    lam_health_free(h);
    return lmx_sink_end(&t);
}

PyObject *lmx_health_tail(PyObject *self, PyObject *args) {
    int n;
    if (!PyArg_ParseTuple(args, "i:health_tail", &n)) return NULL;
    lam_health *h = health_of(self);
    lmx_text text = {0};
    lam_error e = {.at = -1};
    if (!h) return NULL;
    lam_status s = lam_health_tail(h, n, lmx_text_sink(&text), &e);
    lam_health_free(h);
    return lmx_text_end(&text, ((lmx_model *)self)->st, s, &e);
}
