/* SPDX-License-Identifier: Apache-2.0
 * compiler: torch's compiler, which works while steps are recorded as it does otherwise. It traces Python's
 * functions and checks at each call that what it traced is as it was, so it must meet none of lamina's. */
#ifndef LMX_COMPILER_H
#define LMX_COMPILER_H

#include "base/ext.h"

/* True if this process gave code to torch's compiler, or if that can't be known. */
bool lmx_compiler_used(void);
bool lmx_compiler_compiled(void); /* true if it compiled something, as far as it tells */
PyObject *lmx_compiler_was_used(PyObject *module, PyObject *unused); /* the same for Python */
/* torch.compile's class of wrappers; NULL: the compiler was not imported yet. Only compiler.c sets it. */
extern PyTypeObject *lmx_compiler_wrapper;
PyObject *lmx_compiler_unwrapped(lmx_state *st, PyObject *wrapper);
/* The module inside torch.compile's wrapper of it, or the module itself. Borrowed; never fails. */
static inline PyObject *lmx_compiler_inside(lmx_state *st, PyObject *module) {
    return Py_TYPE(module) == lmx_compiler_wrapper ? lmx_compiler_unwrapped(st, module) : module;
}
/* compiler_reports(to): torch's list of functions to call before it compiles; None: it is not known. */
PyObject *lmx_compiler_report_to(PyObject *module, PyObject *list);
/* False if other code has emptied that list. */
bool lmx_compiler_reports(void);
/* While the program runs compiled code, the compiler looks at each frame of Python that begins. Between these
 * two calls it looks at none. The second takes the first one's result, and keeps a pending exception. */
PyObject *lmx_compiler_off(void);
void lmx_compiler_on(PyObject *before);

#endif
