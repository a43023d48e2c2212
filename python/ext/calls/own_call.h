/* SPDX-License-Identifier: Apache-2.0
 * own_call: a class of modules may have a __call__ of its own, which may do work before it calls that of
 * torch.nn.Module, or never call it. The calls of a root begin there. */
#ifndef LMX_OWN_CALL_H
#define LMX_OWN_CALL_H

#include "calls/detour.h"
#include "calls/root.h"

/* Redirects the own __call__ of the classes of these roots, if it is a Python function, and of no others.
 * False with an exception. */
bool lmx_own_calls(const lmx_root *roots, lmx_detour_target to);

#endif
