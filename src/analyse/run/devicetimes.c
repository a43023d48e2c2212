/* SPDX-License-Identifier: Apache-2.0
 *
 * Times by a device's clock. Work of one stream runs in the order of its launch, so calls and nodes are
 * nested in a stream as they are in a thread, and the same walk applies. Streams run side by side: the
 * own work of a call while another stream worked for an inner call is not a difference of spans. */
#include "analyse/run/times.h"

#include <stdlib.h>

static const lam_device_span *at(const lam_times *t, size_t i) { return lmi_vec_at(t->device, i); }

lam_status lmi_device_begin(lam_times *t, lam_error *e) {
    t->of_call = lmi_alloc(&t->arena, (uint64_t)t->m->n_events, sizeof *t->of_call);
    if (!t->of_call) return lmi_nomem(e);
    for (size_t i = 0; i < t->device->n; i++) {
        if (!at(t, i)->node) t->of_call[at(t, i)->call] = at(t, i);
        t->back = t->back || (at(t, i)->node && t->m->nodes_seen);
    }
    return LAM_OK;
}

int64_t lmi_device_total(const lam_times *t, int32_t event) {
    const lam_device_span *s = t->of_call[event];
    return s && s->stream >= 0 ? s->t1_ns - s->t0_ns : -1;
}

/* Spans that begin at the same moment are in the order of their launch, which alone shows the nesting. */
static int by_stream(const void *a, const void *b) {
    const lmi_span *x = a, *y = b;
    if (x->thread != y->thread) return x->thread < y->thread ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

lam_status lmi_device_spans(const lam_times *t, lmi_vec *out, lam_error *e) {
    for (size_t i = 0; i < t->device->n; i++) {
        const lam_device_span *s = at(t, i);
        if (s->stream < 0) continue;
        const lmi_span span = {s->t0_ns, s->t1_ns, (int32_t)i, (uint16_t)s->stream, s->node};
        LAM_TRY(lmi_vec_put(out, &span, e));
    }
    if (out->n) qsort(out->data, out->n, sizeof(lmi_span), by_stream);
    return LAM_OK;
}

/* Makes a call's own time unknown if the time of an inner call is unknown, or in another stream. */
static void forget_around(lam_times *t, int32_t event) {
    const int32_t parent = t->m->events[event].parent;
    const lam_device_span *s = t->of_call[event], *around = parent >= 0 ? t->of_call[parent] : NULL;
    if (!around || (s && s->stream >= 0 && s->stream == around->stream)) return;
    t->of_event[parent].self[lmi_call_phase(&t->m->events[parent])] = -1;
}

static void forget_node(lam_times *t, const lam_device_span *node) {
    if (node->call >= 0)
        t->of_event[node->call].self[LAM_BACKWARD] = -1;
    else
        t->parts[LAM_TIME_OUTSIDE][lmi_run_at(&t->slots, node->host_ns)] = -1;
}

void lmi_device_unknown(lam_times *t) {
    for (int32_t i = 0; i < t->m->n_events; i++) forget_around(t, i);
    for (size_t i = 0; i < t->device->n; i++)
        if (at(t, i)->node && at(t, i)->stream < 0) forget_node(t, at(t, i));
}
