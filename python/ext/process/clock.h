/* SPDX-License-Identifier: Apache-2.0
 * The clock of a capture. The largest cost of an operator's times is the kernel's function, which waits for
 * all pending loads. The kernel's clock uses the processor's counter only while that counts evenly on all
 * processors; a capture then notes the counter, and converts its stamps to nanoseconds afterwards. */
#ifndef LMX_CLOCK_H
#define LMX_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* The time of the monotonic clock. */
int64_t lmx_now_ns(void);
/* How long this thread has been ready to run without a processor, since it began; -1: the system does not say
 * it. */
int64_t lmx_processor_wait_ns(void);

typedef struct lmx_moment {
    int64_t stamp, ns;
} lmx_moment;

typedef struct lmx_clock {
    bool counts;  /* stamps are of the counter; else they are nanoseconds */
    int64_t last; /* the last stamp of the thread that began */
    lmx_moment began;
    double rate; /* nanoseconds a stamp, between beginning and end */
} lmx_clock;

/* `alone`: its times are not compared with other measurements by the kernel's clock. */
void lmx_clock_begin(lmx_clock *k, bool alone);
/* May be called again: stamps until then can be converted to nanoseconds. */
void lmx_clock_end(lmx_clock *k);
/* Converts a stamp between beginning and end to nanoseconds; 0, no stamp, stays 0. The order of stamps is
 * kept. */
int64_t lmx_clock_ns(const lmx_clock *k, int64_t stamp);

/* The stamp of this moment. Stamps of one thread increase; `last` is its last one. */
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
