/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a file as JSON many times, warm, and prints the median of microseconds: json_reader FILE TIMES. */
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int main(int argc, char **argv) {
    static char text[1 << 24], copy[1 << 24];
    static int64_t took[10000];
    const lmi_json_limits limits = {.depth = 200, .size = sizeof text};
    const int times = argc > 2 ? atoi(argv[2]) : 0;
    FILE *f = argc > 1 ? fopen(argv[1], "rb") : NULL;
    const size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (n == 0 || times < 1 || times > 10000) return 1;
    for (int i = 0; i < times; i++) {
        lmi_json j;
        memcpy(copy, text, n); /* texts are decoded in place */
        const int64_t began = now_ns();
        if (lmi_json_read(&j, copy, n, &limits, argv[1], NULL) != LAM_OK) return 1;
        lmi_json_free(&j);
        took[i] = now_ns() - began;
    }
    printf("%.1f\n", (double)lmi_median(took, (size_t)times) / 1000);
    return 0;
}
