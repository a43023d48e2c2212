/* SPDX-License-Identifier: Apache-2.0
 * The memory that one call takes from torch's allocator. An operator of a dry run is run once, on
 * tensors of its sizes, to measure the workspace of its kernel. */
#include "dry/kernel_memory.h"
#include "base/ext.h"
#include "process/allocator.h"
#include "process/blocks.h"
#include "torch/addresses.h"

static lmx_whose anybody(void *self) {
    (void)self;
    return (lmx_whose){-1, LAM_FORWARD, false};
}

/* The peak, and the bytes that are left. Blocks are in the order of their allocation. False if memory
 * ran out. */
static bool sum_up(const lmx_blocks *b, int64_t *most, int64_t *left) {
    lmx_reading r;
    if (lmx_blocks_lost(b) || lmx_blocks_full(b) || !lmx_blocks_read(b, &r)) return false;
    size_t n = 2 * r.n + 1;
    int64_t *change = PyMem_Calloc(n, sizeof *change), now = 0;
    for (size_t i = 0; change && i < r.n; i++) {
        const lmx_block *k = &r.blocks[i];
        if (k->order > 0 && (size_t)k->order < n) change[k->order] += k->bytes;
        if (k->order > 0 && k->freed_order > 0 && (size_t)k->freed_order < n)
            change[k->freed_order] -= k->bytes;
    }
    *most = 0;
    for (size_t i = 0; change && i < n; i++) {
        now += change[i];
        if (now > *most) *most = now;
    }
    *left = now;
    lmx_reading_free(&r);
    PyMem_Free(change);
    return change != NULL;
}

PyObject *lmx_kernel_memory(PyObject *module, PyObject *args) {
    lmx_state *st = lmx_state_of(module);
    PyObject *function, *given, *kwargs, *out = NULL;
    char why[240] = "";
    lmx_allocator f;
    int64_t most = 0, left = 0;
    if (!PyArg_ParseTuple(args, "OO!O!:taken", &function, &PyTuple_Type, &given, &PyDict_Type, &kwargs))
        return NULL;
    lmx_alloc a = {.blocks = lmx_blocks_new(NULL), .whose = anybody, .slot = -1};
    if (!a.blocks) return PyErr_NoMemory();
    if (!lmx_allocator_find(&f, why, sizeof why) || !lmx_alloc_open(&a, f.alloc, f.free, why, sizeof why)) {
        lmx_blocks_free(a.blocks);
        return lmx_fail(st, LAM_UNSUPPORTED, "memory", "it can't be measured: %s", why);
    }
    out = PyObject_Call(function, given, kwargs);
    bool forked = a.forked;
    lmx_alloc_close(&a);
    bool ok = out && !forked && sum_up(a.blocks, &most, &left);
    lmx_blocks_free(a.blocks);
    if (ok) return Py_BuildValue("LLN", (long long)most, (long long)left, out);
    if (out && !PyErr_Occurred()) PyErr_NoMemory();
    Py_XDECREF(out);
    return NULL;
}
