/* SPDX-License-Identifier: Apache-2.0
 * Finds torch's C functions in its library. */
#include "native/shim.h"

#include <dlfcn.h>

bool lmx_symbol(void *library, const char *name, void *function) {
    void *at = dlsym(library, name);
    memcpy(function, &at, sizeof at);
    return at != NULL;
}

bool lmx_shim_tells(const lmx_shim *s) { return s->dim && s->sizes && s->dtype && s->device; }
