/* SPDX-License-Identifier: Apache-2.0
 * device_api: when a device finished its work, measured without waiting for it; and reading its memory. A
 * table has the functions of the device's runtime: those of CUDA, which torch has loaded (cuda.c), or a
 * test's. A stamp is an event in the current stream; all stamps are read together at the end. Nothing here
 * touches Python. */
#ifndef LMX_DEVICE_API_H
#define LMX_DEVICE_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes: now, the maximum since the last reading, and allocated and freed since the start. */
typedef struct lmx_said {
    int64_t now, peak, allocated, freed;
} lmx_said;

/* A search for numbers with (bits & mask) == want (lam_dtype_nonfinite): `n` numbers of `width` bytes from
 * `at`. */
typedef struct lmx_search {
    const void *at;
    size_t n;
    int32_t width, device;
    uint64_t mask, want;
} lmx_search;

/* Each returns 0 or an error's number. Names and meaning as in CUDA's runtime. */
typedef struct lmx_streams {
    const char *name;    /* "CUDA" */
    int32_t device_type; /* of torch's tensors on it */
    int (*get_device)(int *out);
    int (*set_device)(int device);
    int (*current_stream)(int32_t device, void **out); /* of the calling thread */
    int (*is_capturing)(void *stream, int *out);       /* 0: its work is not recorded for a graph */
    int (*exchange_mode)(int *mode); /* this thread's mode while a graph is captured; NULL: not available */
    int (*create)(void **event, unsigned flags);
    int (*record)(void *event, void *stream);
    int (*query)(void *event);
    int (*synchronize)(void *event);
    int (*elapsed)(float *ms, void *from, void *to);
    int (*destroy)(void *event);
    int (*last_error)(void); /* clears it: else torch would report it as the model's */
    const char *(*error_text)(int error);
    /* Reads the allocator's statistics and resets its peak. NULL: Python reads them. */
    int (*memory)(int32_t device, lmx_said *out);
    int (*copy)(void *to, const void *from, size_t bytes, int kind, void *stream); /* LMX_TO_HOST */
    int (*wait)(void *stream);
    /* Searches memory of the current device, in the stream, and waits for the result. NULL: not available */
    int (*search)(const lmx_search *s, void *stream, bool *found);
} lmx_streams;

enum {
    LMX_NOT_READY = 600,  /* the result of a query for an event that has not happened */
    LMX_MODE_RELAXED = 2, /* every call is allowed and none ends the capture of a graph */
    LMX_TO_HOST = 2,
    LMX_RECORDING = -1,
    LMX_MOST_STAMPS = 1 << 20
};

/* What a visit to a device changed for the calling thread. */
typedef struct lmx_visit {
    int from; /* the device that was current; -1: this one */
    int mode; /* the mode while a graph is captured; -1: unchanged */
} lmx_visit;
/* Makes a device current, since events and searches belong to it, and relaxes the mode: these calls must not
 * disturb a graph capture on another thread. Returns 0, or an error's number with nothing changed. */
int lmx_visit_begin(const lmx_streams *t, int device, lmx_visit *out);
void lmx_visit_end(const lmx_streams *t, const lmx_visit *v);
/* The current stream of this thread. Returns 0; LMX_RECORDING if its work is recorded for a graph, or may be;
 * or an error's number. */
int lmx_stream_of(const lmx_streams *t, int device, void **stream);

typedef struct lmx_stamps lmx_stamps;

/* For work on one device. NULL: memory ran out. */
lmx_stamps *lmx_stamps_new(const lmx_streams *table, int device);
/* Records an event in the device's current stream of this thread; any thread may call it, with any current
 * device. Returns its index; -1: it failed, with the reason in lmx_stamps_why. */
int32_t lmx_stamps_put(lmx_stamps *s);
/* Waits for the last event of each stream, reads all events and destroys them. Once; no stamp after. */
void lmx_stamps_resolve(lmx_stamps *s);
/* Reads the i-th: its stream, from 0, and its nanoseconds by the device's clock, the first 1. False:
 * unknown. */
bool lmx_stamps_at(const lmx_stamps *s, int32_t i, int32_t *stream, int64_t *ns);
/* Why some or all are unknown, a part of a sentence; NULL: all are known. */
const char *lmx_stamps_why(const lmx_stamps *s);
/* Destroys the remaining events and frees `s`. NULL is allowed. */
void lmx_stamps_free(lmx_stamps *s);

#endif
