/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers for made-up inputs, the same in each run. */
#ifndef LAMINA_TEST_DRAW_H
#define LAMINA_TEST_DRAW_H

#include "kit/oom.h"

static uint32_t seed; /* where they begin: a test sets it */

/* A number from `low` to `high`. */
OOM_UNUSED static int64_t draw(int64_t low, int64_t high) {
    seed = seed * 1664525u + 1013904223u;
    return low + (int64_t)(seed >> 8) % (high - low + 1);
}

#endif
