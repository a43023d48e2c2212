/* SPDX-License-Identifier: Apache-2.0
 *
 * What a device's clock told of calls and of nodes: pushed after the calls, read from a frozen model. */
#include "model/builder.h"

#include <stdlib.h>

enum { MOST_SPANS = 64 << 20, MOST_STREAMS = UINT16_MAX };

void lmi_device_free(lmi_device *d) {
    if (!d) return;
    lmi_vec_free(&d->spans);
    free(d);
}

lam_status lam_build_device_timed(lam_builder *b, lam_error *e) {
    if (!b) return lmi_fail(e, LAM_USAGE, "lam_build_device_timed", "there is no builder; make one first");
    if (b->device) return LAM_OK;
    b->device = calloc(1, sizeof *b->device);
    if (!b->device) return lmi_nomem(e);
    lmi_vec_init(&b->device->spans, sizeof(lam_device_span));
    return LAM_OK;
}

static lam_status check_times(const lam_device_span *s, lam_error *e) {
    if (s->stream < -1 || s->stream >= MOST_STREAMS)
        return lmi_fail(e, LAM_RANGE, "a device's span", "there can't be a stream %d", (int)s->stream);
    if (s->stream >= 0 && (s->t0_ns < 1 || s->t1_ns < s->t0_ns))
        return lmi_fail(e, LAM_RANGE, "a device's span", "it can't go from %lld to %lld", (long long)s->t0_ns,
                        (long long)s->t1_ns);
    return LAM_OK;
}

lam_status lam_build_device_span(lam_builder *b, const lam_device_span *span, lam_error *e) {
    LAM_TRY(lam_build_device_timed(b, e));
    if (!span->node || span->call != -1)
        LAM_TRY(lmi_in_range(&b->events, span->call, "the call that a device's span belongs to", e));
    LAM_TRY(check_times(span, e));
    return lmi_push_sized(b, &b->device->spans, "spans of a device", span, sizeof *span, MOST_SPANS, e);
}

bool lam_model_device_timed(const lam_model *m) { return (m->timed_by ? m->timed_by : m)->device != NULL; }
