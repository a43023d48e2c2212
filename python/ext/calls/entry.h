/* SPDX-License-Identifier: Apache-2.0
 * entry: what a call of a module reaches first, in torch.nn.Module.
 *
 * The function torch.nn.Module.__call__ gets a detour to C (detour.h), so that no class is changed. If that
 * fails, or if other code put something other than a function there, a C method takes its place. There is one
 * torch.nn.Module in a process, so all this is process-wide, guarded by the GIL. */
#ifndef LMX_ENTRY_H
#define LMX_ENTRY_H

#include "calls/detour.h"

/* A way on which calls come. Other code may replace Module.__call__ while our method is installed, and keep a
 * reference to our method. So our method must work after it was taken out, and must not call the code that
 * calls it. Each method therefore has a slot with its own original; a slot is used again only for the same
 * original, or once no reference to its method is left. */
typedef struct lmx_slot {
    PyObject *original, *method; /* strong; both stay after the entry was taken out */
    bool detoured; /* the original is a detour's copy, and the module lies before its arguments */
    bool own;      /* it is that of a class's own __call__ (own_call.h) */
} lmx_slot;

/* Where calls lead: args without the module, from a method; all arguments, from the detour. */
typedef PyObject *(*lmx_method_target)(lmx_slot *s, PyObject *self, PyObject *const *args, Py_ssize_t n,
                                       PyObject *names);
typedef struct lmx_targets {
    lmx_method_target method;
    lmx_detour_target detour;
} lmx_targets;
extern const lmx_targets lmx_call_targets; /* module_call.c */

extern lmx_slot *lmx_entry; /* the installed one; NULL: none. Only entry.c sets it */
/* Installs it. `traced`: torch's compiler may meet it, so it looks to that like torch's own function, if this
 * interpreter allows it. False with an exception. */
bool lmx_entry_install(lmx_state *st, const lmx_targets *to, bool traced);
/* Takes it out, or what could not be taken out before, because memory ran out. Restores the very same
 * objects. False if other code has replaced ours: its replacement stays. */
bool lmx_entry_remove(lmx_state *st);
bool lmx_entry_unrestored(void); /* true if it was taken out in part */
/* True if it is installed, and other code has not replaced it. */
bool lmx_entry_is_whole(lmx_state *st);
/* True if it is installed and torch's compiler would not take it for torch's own function. */
bool lmx_entry_shows(void);
/* Module.__call__ as it is now, without attribute lookup; a new reference. */
PyObject *lmx_entry_current(lmx_state *st);

#endif
