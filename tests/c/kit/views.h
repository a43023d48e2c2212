/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers that are drawn the same in each run, and views of a cube in memory with random axes and steps. */
#ifndef LAMINA_TEST_VIEWS_H
#define LAMINA_TEST_VIEWS_H

#include <stdint.h>

/* 31 bits. */
static uint64_t draw(void) {
    static uint64_t s = 7;
    s = s * 6364136223846793005u + 1442695040888963407u;
    return s >> 33;
}

enum { VIEW_SIDE = 12, VIEW_CELLS = VIEW_SIDE * VIEW_SIDE * VIEW_SIDE };

typedef struct view {
    int32_t ndim;
    int64_t sizes[4], steps[4]; /* some sizes are 0; steps, in elements, may be 0 and overlap */
    int64_t n;                  /* elements that it shows */
} view;

/* One of up to four axes that stays inside the cube. */
static view view_of(int32_t ndim) {
    static const int64_t some[] = {
        0, 1, 2, VIEW_SIDE, VIEW_SIDE * 2, VIEW_SIDE * VIEW_SIDE, 1, VIEW_SIDE,
    };
    view v = {.ndim = ndim, .n = 1};
    int64_t reach = 0;
    for (int32_t i = 0; i < ndim; i++) {
        v.steps[i] = some[draw() % 8];
        v.sizes[i] = draw() % 20 == 0 ? 0 : 1 + (int64_t)(draw() % 6);
        if (reach + v.steps[i] * (v.sizes[i] ? v.sizes[i] - 1 : 0) >= VIEW_CELLS) v.sizes[i] = 1;
        reach += v.steps[i] * (v.sizes[i] ? v.sizes[i] - 1 : 0);
        v.n *= v.sizes[i];
    }
    return v;
}

/* Which of the cube's cells its element number `k` is, the last axis counting fastest. */
static int64_t view_at(const view *v, int64_t k) {
    int64_t at = 0;
    for (int32_t i = v->ndim - 1; i >= 0; i--) {
        at += k % v->sizes[i] * v->steps[i];
        k /= v->sizes[i];
    }
    return at;
}

#endif
