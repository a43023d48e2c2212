/* SPDX-License-Identifier: Apache-2.0
 *
 * Readings of a device's clock and allocator for calls and nodes: pushed after the calls, read from a frozen
 * model. */
#include "model/builder.h"

#include <stdlib.h>

enum { MOST_SPANS = 64 << 20, MOST_STREAMS = UINT16_MAX };

void lmi_device_free(lmi_device *d) {
    if (!d) return;
    lmi_vec_free(&d->spans);
    lmi_vec_free(&d->bytes);
    lmi_vec_free(&d->uses);
    free(d);
}

static lam_status device_of(lam_builder *b, lmi_device **out, lam_error *e) {
    *out = NULL;
    if (!b) {
        lmi_fail(e, LAM_USAGE, "a device", "there is no builder; make one first");
        return LAM_USAGE;
    }
    if (!b->device) {
        b->device = calloc(1, sizeof *b->device);
        if (!b->device) return lmi_nomem(e);
        lmi_vec_init(&b->device->spans, sizeof(lam_device_span));
        lmi_vec_init(&b->device->bytes, sizeof(lam_device_bytes));
        lmi_vec_init(&b->device->uses, sizeof(lam_span));
    }
    *out = b->device;
    return LAM_OK;
}

lam_status lam_build_device_timed(lam_builder *b, lam_error *e) {
    lmi_device *d;
    LAM_TRY(device_of(b, &d, e));
    d->timed = true;
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

lam_status lam_build_device_bytes(lam_builder *b, const lam_device_bytes *said, lam_error *e) {
    lmi_device *d;
    LAM_TRY(device_of(b, &d, e));
    const lam_device_bytes *before = d->bytes.n ? lmi_vec_at(&d->bytes, d->bytes.n - 1) : NULL;
    if (said->now < 0 || said->peak < said->now || said->allocated < 0 || said->freed < 0)
        return lmi_fail(e, LAM_RANGE, "a device's memory", "it can't be %lld bytes, at most %lld",
                        (long long)said->now, (long long)said->peak);
    if (before && (said->allocated < before->allocated || said->freed < before->freed))
        return lmi_fail(e, LAM_RANGE, "a device's memory", "what was handed out in all can't become less");
    return lmi_push_sized(b, &d->bytes, "moments of a device's memory", said, sizeof *said, MOST_SPANS, e);
}

lam_status lam_build_device_use(lam_builder *b, const lam_span *span, lam_error *e) {
    lmi_device *d;
    LAM_TRY(device_of(b, &d, e));
    if (span->phase >= LAM_N_PHASES)
        return lmi_fail(e, LAM_RANGE, "a device's memory", "the phase %d is not one of lam_phase",
                        (int)span->phase);
    if (span->call != -1)
        LAM_TRY(lmi_in_range(&b->events, span->call, "the call that a device's memory belongs to", e));
    if (span->first < 0 || span->last < span->first || (size_t)span->last >= d->bytes.n)
        return lmi_fail(e, LAM_RANGE, "a device's memory", "a call can't go from moment %lld to %lld of %zu",
                        (long long)span->first, (long long)span->last, d->bytes.n);
    return lmi_push_sized(b, &d->uses, "calls that use a device's memory", span, sizeof *span, MOST_SPANS, e);
}

bool lam_model_device_timed(const lam_model *m) {
    const lmi_device *d = (m->timed_by ? m->timed_by : m)->device;
    return d && d->timed;
}

bool lam_model_device_memory_seen(const lam_model *m) {
    return m->device_given || (m->device && m->device->bytes.n > 0);
}
