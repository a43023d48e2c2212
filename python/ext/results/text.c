/* SPDX-License-Identifier: Apache-2.0
 * Functions of the module that need no capture: conventions, rules, and numbers as text. */
#include "base/ext.h"
#include "base/tables.h"
#include "calls/calls.h"
#include "calls/compiler.h"
#include "dry/kernel_memory.h"
#include "measure/device.h"
#include "measure/memory.h"
#include "results/results.h"
#include "torch/tensor.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static PyObject *text_version(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    return lmx_str(lam_version());
}

static PyObject *part_data(lam_tables_part part, int32_t i) {
    lmx_sink t;
    lam_tables_tell(part, i, lmx_sink_begin(&t));
    return lmx_sink_end(&t);
}

static PyObject *text_conventions(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    return part_data(LAM_TABLES_CONVENTIONS, 0);
}

static PyObject *text_row_names(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    return part_data(LAM_TABLES_ROW, 0);
}

/* Fails with the core's error for an unknown convention, which lists the known ones. */
static PyObject *no_convention(lmx_state *st, const char *name) {
    lam_builder *b = NULL;
    lam_model *m = NULL;
    lam_costs *c = NULL;
    lam_error e = {.at = -1};
    lam_cost_options o = {.convention = name};
    int32_t module;
    lam_module_info info = {.type = "", .type_path = "", .word = -1};
    bool ok = lam_builder_new(&b, 0, &e) == LAM_OK && lam_build_module(b, &info, &module, &e) == LAM_OK &&
              lam_build_place(b, -1, "", module, NULL, &e) == LAM_OK;
    if (!ok) lam_builder_free(b);
    if (ok && lam_builder_finish(b, &m, &e) == LAM_OK) lam_costs_new(&c, m, &o, &e);
    lam_costs_free(c);
    lam_model_free(m);
    return lmx_raise(st, &e);
}

static PyObject *text_rules(PyObject *module, PyObject *args) {
    const char *name;
    if (!PyArg_ParseTuple(args, "s:rules", &name)) return NULL;
    int32_t convention = lam_convention_find(name);
    if (convention < 0) return no_convention(lmx_state_of(module), name);
    return part_data(LAM_TABLES_RULES, convention);
}

/* == numbers =========================================================================================== */

static PyObject *text_count(PyObject *module, PyObject *args) {
    PyObject *o;
    int exact = 0;
    lam_count c;
    char buf[128];
    if (!PyArg_ParseTuple(args, "O|p:text_count", &o, &exact) || !lmx_count_from(lmx_state_of(module), o, &c))
        return NULL;
    lam_text_count(buf, sizeof buf, c, exact);
    return lmx_str(buf);
}

static PyObject *text_bytes(PyObject *module, PyObject *args) {
    PyObject *o;
    lam_count c;
    char buf[128];
    if (!PyArg_ParseTuple(args, "O:text_bytes", &o) || !lmx_count_from(lmx_state_of(module), o, &c))
        return NULL;
    lam_text_bytes(buf, sizeof buf, c);
    return lmx_str(buf);
}

PyMethodDef lmx_text_methods[] = {
    {"version", text_version, METH_NOARGS,
     PyDoc_STR("version($module, /)\n--\n\nReturns the version of the library.")},
    {"conventions", text_conventions, METH_NOARGS,
     PyDoc_STR("conventions($module, /)\n--\n\nReturns every convention: name, source, whether it is the "
               "default, and whether it counts operators.")},
    {"rules", text_rules, METH_VARARGS,
     PyDoc_STR("rules($module, convention, /)\n--\n\nReturns the rules of a convention.")},
    {"row_names", text_row_names, METH_NOARGS,
     PyDoc_STR("row_names($module, /)\n--\n\nReturns the name of each field of a row, its path in JSON, and "
               "its column in CSV.")},
    {"diff", lmx_diff, METH_VARARGS,
     PyDoc_STR("diff($module, before, ran, after, ran_after, kind, by, width, exact, rows, depth, "
               "/)\n--\n\nReturns the difference of two Costs, or of two files named as bytes. `ran`: why "
               "only a part ran, or None.")},
    {"text_count", text_count, METH_VARARGS,
     PyDoc_STR("text_count($module, count, exact=False, /)\n--\n\nReturns a count as text: '1.81 G', '>= "
               "1.81 G', '?'.")},
    {"text_bytes", text_bytes, METH_VARARGS,
     PyDoc_STR("text_bytes($module, count, /)\n--\n\nReturns bytes as text: '97.7 MiB'.")},
    {"pretend_device", lmx_pretend_device, METH_O,
     PyDoc_STR(
         "pretend_device($module, address, /)\n--\n\nUses a test's table of functions instead of a GPU's.")},
    {"probe_memory", lmx_probe_memory, METH_NOARGS,
     PyDoc_STR("probe_memory($module, /)\n--\n\nReturns why memory can't be measured, or None.")},
    {"taken", lmx_kernel_memory, METH_VARARGS,
     PyDoc_STR("taken($module, function, args, kwargs, /)\n--\n\nCalls `function`. Returns the peak bytes of "
               "torch's CPU allocator during the call, those still allocated at its end, and the result.")},
    {"describe_status", lmx_describe_status, METH_NOARGS,
     PyDoc_STR("describe_status($module, /)\n--\n\nReturns how tensors are described, and why.")},
    {"put_gradient", lmx_put_gradient, METH_VARARGS,
     PyDoc_STR("put_gradient($module, tensor, gradient, /)\n--\n\nSets the tensor's gradient, also one that "
               "torch does not accept, as of another layout. False: it could not.")},
    {"scan_values", lmx_scan_values, METH_VARARGS,
     PyDoc_STR("scan_values($module, address, dtype, n, repeats=1, stats=False, /)\n--\n\nReturns the "
               "numbers of NaN and Inf at an address, and the index of the first.")},
    {"rest", lmx_rest, METH_O,
     PyDoc_STR("rest($module, wanted, /)\n--\n\nKeeps lamina's entry in torch.nn.Module while no capture is "
               "open, from a call with True until as many calls with False.")},
    {"compiling", lmx_compiling, METH_O,
     PyDoc_STR(
         "compiling($module, works, /)\n--\n\nTells that torch's compiler begins to work on this thread, "
         "or has ended. While it works it sees nothing of lamina's, and nothing that it runs is recorded.")},
    {"aside", lmx_aside, METH_O,
     PyDoc_STR("aside($module, works, /)\n--\n\nTells that inspect begins to run a model on this thread, or "
               "has ended. While it runs, no call is a step of a recording.")},
    {"compiler_used", lmx_compiler_was_used, METH_NOARGS,
     PyDoc_STR(
         "compiler_used($module, /)\n--\n\nReturns True if this process gave code to torch's compiler, or "
         "if that can't be known.")},
    {"compiler_reports", lmx_compiler_report_to, METH_O,
     PyDoc_STR("compiler_reports($module, to, /)\n--\n\nTakes torch's list of functions to call before it "
               "compiles. While it is empty, roots ask for it again.")},
    {"last_words", lmx_say_last_words, METH_O,
     PyDoc_STR("last_words($module, what, /)\n--\n\nFrom now on a signal that ends this process writes a "
               "line that begins with `what` and names the layer that runs. None ends that. Returns whether "
               "it is on.")},
    {"end_at_interrupt", lmx_interrupted, METH_O,
     PyDoc_STR("end_at_interrupt($module, milliseconds, /)\n--\n\nFrom now on this process ends so long "
               "after a Ctrl-C, whatever it does, and at a second one. None ends that. Returns whether it is "
               "on.")},
    {"unseen", lmx_unseen, METH_O,
     PyDoc_STR("unseen($module, name, /)\n--\n\nNotes, in each capture that observes this thread, that an "
               "operator of this name is about to run in a way that torch keeps no record of.")},
    {"dispatched", lmx_dispatched, METH_VARARGS,
     PyDoc_STR(
         "dispatched($module, mode, around, flags, entries, name=None, call=-1, phase=0, n=0, /)\n--\n\n"
         "Notes the begin of an operator with `n` arguments inside number `around` (-1: inside none), and "
         "returns its number; -1: it is not noted. Without a name, its end and its results.")},
    {"in_place", lmx_in_place, METH_NOARGS,
     PyDoc_STR("in_place($module, /)\n--\n\nReturns True while calls of modules reach a capture, or would "
               "reach one.")},
    {"find", lmx_find_roots, METH_O,
     PyDoc_STR("find($module, finder, /)\n--\n\nCalls finder(module) for each module that is called outside "
               "any other, while calls reach C and no capture is open. It returns None, or a function to "
               "call instead. find(None) ends this.")},
    {"one_call", lmx_one_call, METH_VARARGS,
     PyDoc_STR("one_call($module, root, inputs, output, /)\n--\n\nReturns a Model that is this module alone, "
               "with this one call.")},
    {"command", lmx_command, METH_VARARGS,
     PyDoc_STR("command($module, argv, host, /)\n--\n\nRuns one command line and returns its exit code.")},
    {NULL, NULL, 0, NULL},
};
