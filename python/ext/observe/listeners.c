/* SPDX-License-Identifier: Apache-2.0
 * The listeners of a capture, called in the order in which they were added. */
#include "observe/listeners.h"
#include "observe/open_capture.h"

#include <stdlib.h>

void lmx_listen(lmx_capture *c, lmx_listener *l) {
    lmx_listener **at = &c->heard.listeners;
    while (*at) at = &(*at)->next;
    l->next = NULL;
    *at = l;
}

void lmx_listeners_free(lmx_capture *c) {
    lmx_listener *l = c->heard.listeners;
    c->heard.listeners = NULL;
    while (l) {
        lmx_listener *next = l->next;
        if (l->free) l->free(l);
        l = next;
    }
}

bool lmx_want_kernel_clock(const lmx_capture *c) {
    for (const lmx_listener *l = c->heard.listeners; l; l = l->next)
        if (l->kernel_clock) return true;
    return false;
}

bool lmx_want_values(const lmx_capture *c) {
    for (const lmx_listener *l = c->heard.listeners; l; l = l->next)
        if (l->wants_values) return true;
    return false;
}

bool lmx_want_operators(const lmx_capture *c) {
    for (const lmx_listener *l = c->heard.listeners; l; l = l->next)
        if (l->wants_operators) return true;
    return false;
}

bool lmx_tell_opened(lmx_capture *c) {
    for (lmx_listener *l = c->heard.listeners; l; l = l->next)
        if (l->opened && !l->opened(l, c)) return false;
    return true;
}

void lmx_tell_closed(lmx_capture *c) {
    for (lmx_listener *l = c->heard.listeners; l; l = l->next)
        if (l->closed) l->closed(l, c);
}

bool lmx_tell_entered(lmx_capture *c, int32_t call, const lmx_given *given) {
    bool ok = true;
    c->noted.busy = true;
    for (lmx_listener *l = c->heard.listeners; ok && l; l = l->next)
        if (l->entered) ok = l->entered(l, c, call, given);
    c->noted.busy = false;
    return ok;
}

bool lmx_tell_left(lmx_capture *c, int32_t call, const lmx_given *given, PyObject *result) {
    bool ok = true;
    c->noted.busy = true;
    for (lmx_listener *l = c->heard.listeners; ok && l; l = l->next)
        if (l->left) ok = l->left(l, c, call, given, result);
    c->noted.busy = false;
    return ok;
}

void lmx_tell_node(const lmx_capture *c, const lmx_node_run *node, bool began) {
    for (lmx_listener *l = c->heard.listeners; l; l = l->next) {
        void (*notify)(lmx_listener *, const lmx_node_run *) = began ? l->node_began : l->node_ended;
        if (notify) notify(l, node);
    }
}

void lmx_tell_op(const lmx_capture *c, const lmx_op_run *op, bool began) {
    for (lmx_listener *l = c->heard.listeners; l; l = l->next) {
        void (*notify)(lmx_listener *, const lmx_op_run *) = began ? l->op_began : l->op_ended;
        if (l->wants_operators && notify) notify(l, op);
    }
}

lam_status lmx_tell_push(lmx_capture *c, lam_builder *b, lam_error *e) {
    lam_status s = LAM_OK;
    for (lmx_listener *l = c->heard.listeners; s == LAM_OK && l; l = l->next)
        if (l->push) s = l->push(l, c, b, e);
    return s;
}
