/* SPDX-License-Identifier: Apache-2.0
 * Stamps, and their conversion to nanoseconds. */
#include "process/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

int64_t lmx_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* True if the kernel's clock uses the processor's counter: it stops when it finds the counter uneven. */
static bool kernel_counts(void) {
    char source[8] = "";
    FILE *f = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");
    if (!f) return false;
    bool told = fgets(source, sizeof source, f) != NULL;
    fclose(f);
    return told && strcmp(source, "tsc\n") == 0;
}

/* Both clocks at one moment: of some tries the one in which least time passed between the readings. */
static lmx_moment moment(const lmx_clock *k) {
    enum { TRIES = 3 };
    if (!k->counts) return (lmx_moment){0, lmx_now_ns()};
    lmx_moment best = {0, 0};
    int64_t least = INT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        int64_t last = 0, before = lmx_clock_stamp(k, &last), ns = lmx_now_ns(),
                took = lmx_clock_stamp(k, &last) - before;
        if (took < least) best = (lmx_moment){before + took / 2, ns};
        least = took < least ? took : least;
    }
    return best;
}

void lmx_clock_begin(lmx_clock *k, bool alone) {
    static int counting = -1; /* not determined yet */
    if (counting < 0) counting = kernel_counts();
    *k = (lmx_clock){.counts = alone && counting};
    k->began = moment(k);
}

void lmx_clock_end(lmx_clock *k) {
    const lmx_moment now = moment(k), *a = &k->began;
    k->rate = now.stamp > a->stamp ? (double)(now.ns - a->ns) / (double)(now.stamp - a->stamp) : 0;
}

int64_t lmx_clock_ns(const lmx_clock *k, int64_t stamp) {
    if (!k->counts || stamp == 0) return stamp;
    return k->began.ns + (int64_t)(k->rate * (double)(stamp - k->began.stamp));
}
