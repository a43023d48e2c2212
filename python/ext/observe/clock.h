/* SPDX-License-Identifier: Apache-2.0
 * The clock of a capture. Most of what noting an operator's time costs is asking the kernel's function, which
 * waits until all that was loaded before has come. Where the kernel itself goes by the processor's counter,
 * which it does only while that counts evenly on all processors alike, a capture notes the counter, and its
 * stamps become nanoseconds afterwards. */
#ifndef LMX_CLOCK_H
#define LMX_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* Of the monotonic clock. */
int64_t lmx_now_ns(void);

typedef struct lmx_moment {
    int64_t stamp, ns;
} lmx_moment;

typedef struct lmx_clock {
    bool counts;  /* stamps are of the counter; else they are nanoseconds */
    int64_t last; /* of the thread that began */
    lmx_moment began;
    double rate; /* nanoseconds a stamp, between beginning and end */
} lmx_clock;

/* `alone`: its times are compared with none that others measure meanwhile by the kernel's clock. */
void lmx_clock_begin(lmx_clock *k, bool alone);
/* May be said again: stamps until then can be told in nanoseconds. */
void lmx_clock_end(lmx_clock *k);
/* A stamp that was taken between beginning and end, in nanoseconds; 0, which is none, stays. Of two stamps
 * the later one is never told as the earlier. */
int64_t lmx_clock_ns(const lmx_clock *k, int64_t stamp);

/* Now. Stamps of one thread grow; `last` is its last one. */
static inline int64_t lmx_clock_stamp(const lmx_clock *k, int64_t *last) {
#if defined(__x86_64__)
    if (k->counts) {
        const int64_t now = (int64_t)__builtin_ia32_rdtsc();
        return *last = now > *last ? now : *last + 1;
    }
#endif
    (void)k, (void)last;
    return lmx_now_ns();
}

#endif
