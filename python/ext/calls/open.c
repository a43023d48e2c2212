/* SPDX-License-Identifier: Apache-2.0
 * The captures that are open, in all threads. Guarded by the GIL. */
#include "calls/calls.h"

lmx_capture *lmx_first_open;

bool lmx_may_open(lmx_capture *c) {
    int same_thread = 0;
    for (lmx_capture *o = lmx_first_open; o; o = o->next) same_thread += o->owner == c->owner;
    if (same_thread < LMX_NESTED) return true;
    lmx_fail(c->st, LAM_LIMIT, NULL, "%d captures are open in this thread already; close some first",
             LMX_NESTED);
    return false;
}

void lmx_add_open(lmx_capture *c) {
    c->next = lmx_first_open;
    lmx_first_open = c;
}

void lmx_remove_open(lmx_capture *c) {
    lmx_capture **at = &lmx_first_open;
    while (*at && *at != c) at = &(*at)->next;
    if (*at) *at = c->next;
    c->next = NULL;
}
