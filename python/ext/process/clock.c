/* SPDX-License-Identifier: Apache-2.0
 * Stamps, and their conversion to nanoseconds. */
#include "process/clock.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int64_t lmx_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Linux counts it for each thread, as the second number of this file, of kernels that most distributions
 * build; a file of zeros is one that does not count. */
int64_t lmx_processor_wait_ns(void) {
    char text[96];
    long long ran = 0, waited = 0;
    const int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    const ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    return sscanf(text, "%lld %lld", &ran, &waited) == 2 && ran + waited > 0 && waited >= 0 ? waited : -1;
}

/* True if the kernel's clock uses the processor's counter: it stops when it finds the counter uneven. */
static bool kernel_counts(void) {
    char source[8] = "";
    FILE *f = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");
    if (!f) return false;
    bool is_read = fgets(source, sizeof source, f) != NULL;
    fclose(f);
    return is_read && strcmp(source, "tsc\n") == 0;
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
