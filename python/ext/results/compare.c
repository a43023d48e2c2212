/* SPDX-License-Identifier: Apache-2.0
 * A model counted under several conventions, as text in one of the core's formats. */
#include "base/ext.h"
#include "results/results.h"

#include <stdlib.h>

/* What is compared: counts of operators and layers, or the FLOPs of a language model's tokens. */
typedef struct request {
    lam_compare_options counts;
    lam_token_compare tokens;
    bool in_tokens;
} request;

static lam_status compare(lam_comparison **out, const lam_model *m, const request *r, lam_error *e) {
    lam_costs *costs = NULL;
    if (!r->in_tokens) return lam_compare_new(out, m, &r->counts, e);
    lam_status s = lam_costs_new(&costs, m, NULL, e);
    if (s == LAM_OK) s = lam_compare_tokens(out, costs, &r->tokens, e);
    lam_costs_free(costs);
    return s;
}

static lam_status write_text(const lam_model *m, const request *r, const char *format, int32_t width,
                             bool exact, lam_sink to, lam_error *e) {
    lam_comparison *c = NULL;
    lam_status s = compare(&c, m, r, e);
    if (s == LAM_OK) s = lam_compare_write(c, format, width, exact, to, e);
    lam_compare_free(c);
    return s;
}

PyObject *lmx_compared(PyObject *self, PyObject *args) {
    lmx_model *m = (lmx_model *)self;
    if (!lmx_model_of(self)) return NULL;
    PyObject *list, *held;
    const char *format = NULL;
    int width = 0, exact = 0, flops = 0, backward = 0, tokens = 0, given = 0, n;
    if (!PyArg_ParseTuple(args, "O!|zippppp:compare", &PyList_Type, &list, &format, &width, &exact, &flops,
                          &backward, &tokens, &given))
        return NULL;
    held = PyList_GetSlice(list, 0, PyList_Size(list)); /* another thread may change the list */
    const char **names = held ? lmx_words(held, &n) : NULL;
    lmx_text text = {0};
    lam_error e = {.at = -1};
    lam_status s = LAM_NOMEM;
    if (names) {
        const request r = {{names, n, flops ? LAM_FLOPS : LAM_MACS, backward ? LAM_BACKWARD : LAM_FORWARD},
                           {names, n, backward != 0, given != 0},
                           tokens != 0};
        m->borrowers++;
        s = write_text(m->model, &r, format, width, exact != 0, lmx_text_sink(&text), &e);
        m->borrowers--;
    }
    free(names);
    Py_XDECREF(held);
    return lmx_text_end(&text, m->st, s, &e);
}
