/* SPDX-License-Identifier: Apache-2.0
 * streams: when a device was done with what a host gave it, without waiting for it. What a device's runtime
 * can do for that is a table of functions: that of CUDA, which torch has loaded (cuda.c), or a test's. A
 * stamp is an event that is put into the stream that is current; all of them are read in one go when
 * everything is over. Nothing of Python is touched here. */
#ifndef LMX_STREAMS_H
#define LMX_STREAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes: now, the most since this was last asked, and what was handed out and taken back since it began. */
typedef struct lmx_said {
    int64_t now, peak, allocated, freed;
} lmx_said;

/* Each gives 0, or an error's number. Names and meaning as in CUDA's runtime. */
typedef struct lmx_streams {
    const char *name;    /* "CUDA" */
    int32_t device_type; /* of torch's tensors that are there */
    int (*get_device)(int *out);
    int (*set_device)(int device);
    int (*current_stream)(int32_t device, void **out); /* of the calling thread */
    int (*is_capturing)(void *stream, int *out);       /* 0: its work is not recorded for a graph */
    int (*exchange_mode)(int *mode); /* what this thread may do while a graph is recorded; NULL: not there */
    int (*create)(void **event, unsigned flags);
    int (*record)(void *event, void *stream);
    int (*query)(void *event);
    int (*synchronize)(void *event);
    int (*elapsed)(float *ms, void *from, void *to);
    int (*destroy)(void *event);
    int (*last_error)(void); /* forgets it: else torch would meet it and blame the model */
    const char *(*error_text)(int error);
    /* What the allocator says; its `peak` begins anew. NULL: Python is asked. */
    int (*memory)(int32_t device, lmx_said *out);
} lmx_streams;

enum {
    LMX_NOT_READY = 600,  /* what a query says of an event that is to come */
    LMX_MODE_RELAXED = 2, /* nothing is forbidden, and nothing that is done ends a recording */
    LMX_MOST_STAMPS = 1 << 20
};

typedef struct lmx_stamps lmx_stamps;

/* For work on one device. NULL: memory ran out. */
lmx_stamps *lmx_stamps_new(const lmx_streams *table, int device);
/* Puts an event into the device's stream that is current in this thread, any thread; which is the device's
 * current one does not matter. Its index; -1: none could be, which lmx_stamps_why tells. */
int32_t lmx_stamps_put(lmx_stamps *s);
/* Waits for the last event of each stream, reads all, and gives all back. Once; no stamp after that. */
void lmx_stamps_resolve(lmx_stamps *s);
/* The i-th: its stream, from 0, and nanoseconds of the device's clock, the least of all stamps 1. False where
 * it is not known. */
bool lmx_stamps_at(const lmx_stamps *s, int32_t i, int32_t *stream, int64_t *ns);
/* Why some, or all, are not known, a sentence's part; NULL: all are. */
const char *lmx_stamps_why(const lmx_stamps *s);
/* Gives back what was not. NULL is allowed. */
void lmx_stamps_free(lmx_stamps *s);

#endif
