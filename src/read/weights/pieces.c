/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of a tensor, row by row. Most lie in the file in this order. Of one with strides, runs of
 * elements are gathered from a window of the file, which has all of it unless it is large. */
#include "read/weights/weights.h"

#include <stdlib.h>

enum { WINDOW = 64 << 20, SLIDE = 4096 };

lam_status lmi_piece_open(lmi_piece *p, const lmi_tensors *t, const lmi_stored_tensor *x, lam_error *e) {
    *p = (lmi_piece){.t = t, .x = x, .type = lmi_stored_type_of(x)};
    p->n = p->type.opaque ? x->raw.bytes : x->raw.numel;
    const int64_t most = p->n < LMI_PIECE_ELEMENTS ? p->n : LMI_PIECE_ELEMENTS;
    p->bytes = malloc(lmi_piece_bytes(p, most) + 1);
    return p->bytes ? LAM_OK : lmi_nomem(e);
}

lam_status lmi_piece_open_values(lmi_piece *p, const lmi_tensors *t, const lmi_stored_tensor *x,
                                 lam_error *e) {
    *p = (lmi_piece){.t = t, .x = x, .n = x->numel};
    p->type = (lmi_stored_type){.name = x->type, .elements = 1, .bytes = sizeof(double)};
    p->type.dtype = lam_dtype_by_name("float64");
    LAM_TRY(lmi_unpack_open(&p->unpack, t, x, e));
    p->bytes = malloc(lmi_piece_bytes(p, p->n < LMI_PIECE_ELEMENTS ? p->n : LMI_PIECE_ELEMENTS));
    return p->bytes ? LAM_OK : lmi_nomem(e);
}

void lmi_piece_free(lmi_piece *p) {
    lmi_unpack_free(p->unpack);
    p->unpack = NULL;
    free(p->bytes);
    free(p->window);
    p->bytes = p->window = NULL;
}

/* -- strides --------------------------------------------------------------------------------------------- */

/* The bytes from the first element to behind the last one. */
static uint64_t span_of(const lmi_piece *p) {
    uint64_t last = 0;
    for (int32_t i = 0; i < p->x->raw.ndim; i++)
        if (p->x->raw.sizes[i] > 1) last += (uint64_t)(p->x->raw.sizes[i] - 1) * (uint64_t)p->x->strides[i];
    return (last + 1) * (uint64_t)p->type.bytes;
}

/* Copies n bytes at a position behind the first element's. */
static lam_status fetch(lmi_piece *p, uint64_t at, unsigned char *to, size_t n, lam_error *e) {
    const lmi_bytes *file = lmi_vec_at(&p->t->files, (size_t)p->x->file);
    const uint64_t span = span_of(p);
    if (!p->window) {
        p->window_room = span < WINDOW ? (size_t)span : SLIDE;
        p->window = malloc(p->window_room);
        if (!p->window) return lmi_nomem(e);
    }
    if (n > p->window_room) return lmi_bytes_read(file, p->x->at + at, to, n, e);
    if (at < p->window_at || at + n > p->window_at + p->window_n) {
        p->window_at = span <= p->window_room ? 0 : at;
        p->window_n = span - p->window_at < p->window_room ? (size_t)(span - p->window_at) : p->window_room;
        LAM_TRY(lmi_bytes_read(file, p->x->at + p->window_at, p->window, p->window_n, e));
    }
    memcpy(to, p->window + (at - p->window_at), n);
    return LAM_OK;
}

/* The axes from the last one on whose elements follow each other in the file; *run is their number. */
static int32_t run_of(const lmi_stored_tensor *x, int64_t *run) {
    int32_t i = x->raw.ndim;
    *run = 1;
    for (; i > 0 && (x->raw.sizes[i - 1] == 1 || x->strides[i - 1] == *run); i--) *run *= x->raw.sizes[i - 1];
    return i;
}

static lam_status gather(lmi_piece *p, int64_t from, int64_t n, lam_error *e) {
    const lmi_stored_tensor *x = p->x;
    const size_t size = (size_t)p->type.bytes;
    int64_t run;
    const int32_t outer = run_of(x, &run);
    for (int64_t done = 0; done < n;) {
        const int64_t inside = (from + done) % run, left = run - inside < n - done ? run - inside : n - done;
        int64_t rest = (from + done) / run;
        uint64_t at = (uint64_t)inside;
        for (int32_t i = outer - 1; i >= 0; i--) {
            at += (uint64_t)(rest % x->raw.sizes[i]) * (uint64_t)x->strides[i];
            rest /= x->raw.sizes[i];
        }
        LAM_TRY(fetch(p, at * size, p->bytes + (size_t)done * size, (size_t)left * size, e));
        done += left;
    }
    return LAM_OK;
}

lam_status lmi_piece_read(lmi_piece *p, int64_t from, int64_t n, lam_error *e) {
    if (n == 0) return LAM_OK;
    if (p->unpack) return lmi_unpack_read(p->unpack, from, n, (double *)(void *)p->bytes, e);
    if (p->x->strides) return gather(p, from, n, e);
    const lmi_bytes *file = lmi_vec_at(&p->t->files, (size_t)p->x->file);
    return lmi_bytes_read(file, p->x->at + lmi_piece_bytes(p, from), p->bytes, lmi_piece_bytes(p, n), e);
}
