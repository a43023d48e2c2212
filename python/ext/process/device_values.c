/* SPDX-License-Identifier: Apache-2.0
 * Values in a device's memory, see device_values.h. */
#include "process/device_values.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef LMX_PIECE
#define LMX_PIECE (64 << 20) /* bytes that are copied at once; a test has a smaller one */
#endif

enum { AXES = 64 };

typedef struct reader {
    const lmx_streams *t;
    int device;
    void *stream;
    lam_nonfinite_bits bits;
    bool wants_stats;
    bool failed; /* a function of the device returned an error */
} reader;

typedef struct answer {
    lam_nonfinite found;
    lam_stats stats;
} answer;

static size_t item_bytes(const lam_values *v) { return (size_t)lam_dtype_bits(v->dtype) / 8; }

/* The bytes from the first element to the end of the last. */
static size_t reach_of(const lam_values *v) {
    int64_t last = 0;
    for (int32_t i = 0; i < v->ndim; i++) last += (v->sizes[i] - 1) * v->strides[i];
    return (size_t)(last + 1) * item_bytes(v);
}

/* The axis along which the elements are spread the widest; -1: there is one element. */
static int32_t widest(const lam_values *v) {
    int32_t axis = -1;
    int64_t most = 0;
    for (int32_t i = 0; i < v->ndim; i++) {
        const int64_t reach = (v->sizes[i] - 1) * v->strides[i];
        if (reach <= most) continue;
        most = reach;
        axis = i;
    }
    return axis;
}

/* Bytes between the elements are searched too, so a search that found something proves nothing. */
static bool is_finite(const reader *r, const lam_values *v, size_t reach) {
    bool found = true;
    const size_t width = (size_t)r->bits.bytes;
    const lmx_search s = {v->data, reach / width, r->bits.bytes, r->device, r->bits.mask, r->bits.want};
    return r->t->search && !r->t->search(&s, r->stream, &found) && !found;
}

static bool went_well(reader *r, int error) {
    r->failed = r->failed || error;
    return !error;
}

static bool read_copy(reader *r, const lam_values *v, size_t reach, answer *out) {
    void *here = malloc(reach);
    if (!here) return false;
    bool ok = went_well(r, r->t->copy(here, v->data, reach, LMX_TO_HOST, r->stream)) &&
              went_well(r, r->t->wait(r->stream));
    lam_values copied = *v;
    copied.data = here;
    ok = ok && lam_values_scan(&copied, &out->found, NULL) == LAM_OK;
    if (ok && r->wants_stats) ok = lam_values_stats(&copied, &out->stats, NULL) == LAM_OK;
    free(here);
    return ok;
}

/* == halves ============================================================================================== */

/* The index in the whole array, in row-major order, of an element of a part that begins at `from` of an
 * axis. */
static int64_t index_in(const lam_values *whole, const lam_values *part, int32_t axis, int64_t from,
                        int64_t index) {
    int64_t at = 0, step = 1;
    for (int32_t i = whole->ndim - 1; i >= 0; i--) {
        const int64_t along = index % part->sizes[i] + (i == axis ? from : 0);
        index /= part->sizes[i];
        at += along * step;
        step *= whole->sizes[i];
    }
    return at;
}

static void add_found(lam_nonfinite *to, const lam_nonfinite *half, int64_t first) {
    to->nan += half->nan;
    to->inf += half->inf;
    to->negative += half->negative;
    if (half->first >= 0 && (to->first < 0 || first < to->first)) to->first = first;
}

static void add_stats(lam_stats *to, const lam_stats *half) {
    const double mine = (double)(to->numbers - to->nan - to->inf);
    const double theirs = (double)(half->numbers - half->nan - half->inf);
    if (mine > 0 && theirs > 0) to->mean += (half->mean - to->mean) * (theirs / (mine + theirs));
    if (mine <= 0) to->mean = half->mean;
    to->least = fmin(to->least, half->least);
    to->greatest = fmax(to->greatest, half->greatest);
    to->headroom = fmin(to->headroom, half->headroom);
    to->numbers += half->numbers;
    to->nan += half->nan;
    to->inf += half->inf;
    to->zeros += half->zeros;
    to->subnormal += half->subnormal;
}

static bool read_part(reader *r, const lam_values *v, answer *out);

static bool read_halves(reader *r, const lam_values *v, int32_t axis, answer *out) {
    int64_t sizes[AXES];
    const int64_t half = v->sizes[axis] / 2;
    lam_values part = *v;
    answer second;
    memcpy(sizes, v->sizes, (size_t)v->ndim * sizeof *sizes);
    part.sizes = sizes;
    sizes[axis] = half;
    if (!read_part(r, &part, out)) return false;
    if (out->found.first >= 0) out->found.first = index_in(v, &part, axis, 0, out->found.first);
    part.data = (const char *)v->data + (size_t)(half * v->strides[axis]) * item_bytes(v);
    sizes[axis] = v->sizes[axis] - half;
    if (!read_part(r, &part, &second)) return false;
    const int64_t first = second.found.first;
    add_found(&out->found, &second.found, first >= 0 ? index_in(v, &part, axis, half, first) : -1);
    if (r->wants_stats) add_stats(&out->stats, &second.stats);
    return true;
}

static bool read_part(reader *r, const lam_values *v, answer *out) {
    const size_t reach = reach_of(v);
    const int32_t axis = reach > LMX_PIECE ? widest(v) : -1;
    *out = (answer){.found.first = -1};
    if (!r->wants_stats && is_finite(r, v, reach)) return true;
    return axis >= 0 ? read_halves(r, v, axis, out) : read_copy(r, v, reach, out);
}

/* == one array =========================================================================================== */

/* False while the stream's work is recorded for a graph: nothing that it would write is there. */
static bool find_stream(reader *r) {
    const int error = lmx_stream_of(r->t, r->device, &r->stream);
    return went_well(r, error == LMX_RECORDING ? 0 : error) && !error;
}

/* A forked child can't use a device that its parent used. */
static bool is_at_home(void) {
    static _Atomic pid_t home;
    pid_t none = 0;
    const pid_t here = getpid();
    return atomic_compare_exchange_strong(&home, &none, here) || none == here;
}

bool lmx_device_values(const lmx_streams *t, int device, const lam_values *v, lam_nonfinite *found,
                       lam_stats *stats) {
    reader r = {.t = t, .device = device, .wants_stats = stats};
    lmx_visit visit;
    answer out;
    if (!t->copy || !t->wait || v->ndim > AXES || !lam_dtype_nonfinite(v->dtype, &r.bits) || !is_at_home())
        return false;
    bool ok = went_well(&r, lmx_visit_begin(t, device, &visit));
    if (ok) {
        ok = find_stream(&r) && read_part(&r, v, &out);
        lmx_visit_end(t, &visit);
    }
    if (r.failed) t->last_error(); /* torch would report it as the model's */
    if (!ok) return false;
    *found = out.found;
    if (stats) *stats = out.stats;
    return true;
}
