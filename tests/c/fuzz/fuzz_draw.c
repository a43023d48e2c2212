/* SPDX-License-Identifier: Apache-2.0
 *
 * Drawings of any graph, under libFuzzer: two bytes say how many nodes there are, three each size, and four
 * each line. What is drawn must be consistent; what is no graph must be refused with a sentence. */
#include "draw/layout.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { NODES = 300, LINES = 5000 };

static int32_t two(const uint8_t *at) { return at[0] | at[1] << 8; }

static void holds(const lmi_drawing *d, const lmi_box_size *size, int32_t m, const lmi_line_ends *line) {
    int32_t items = d->n + d->n_waypoints;
    for (int32_t i = 0; i < m; i++)
        if (d->rank[line[i].from] >= d->rank[line[i].to]) abort();
    for (int32_t i = 0; i < d->n_segments; i++)
        if (d->segment[i].from < 0 || d->segment[i].from >= items || d->segment[i].to < 0 ||
            d->segment[i].to >= items)
            abort();
    for (int32_t i = 0; i < d->n_waypoints; i++)
        if (d->waypoint[i].rank < 0 || d->waypoint[i].rank >= d->n_ranks || d->waypoint[i].source > d->n)
            abort();
    for (int32_t v = 0; v < d->n; v++) {
        if (d->spine[v] && d->x[v] != 0) abort();
        if (d->y[v] < 0 || d->y[v] + size[v].h > d->height) abort();
        for (int32_t u = 0; u < v; u++)
            if (d->rank[u] == d->rank[v] && 2 * abs(d->x[u] - d->x[v]) < size[u].w + size[v].w) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static lmi_box_size size[NODES];
    static lmi_line_ends line[LINES];
    if (n < 2) return 0;
    int32_t nodes = two(data) % (NODES + 1), lines = 0;
    size_t at = 2;
    for (int32_t v = 0; v < nodes; v++) { /* the last byte is a shift, so some are huge and some negative */
        bool told = at + 3 <= n;
        size[v] = (lmi_box_size){100, 24};
        if (told) size[v] = (lmi_box_size){(int32_t)((uint32_t)data[at] << data[at + 2] % 32), data[at + 1]};
        at += told ? 3 : 0;
    }
    for (; at + 4 <= n && lines < LINES; at += 4)
        line[lines++] =
            (lmi_line_ends){two(data + at) % (NODES + 2) - 1, two(data + at + 2) % (NODES + 2) - 1};
    lmi_arena a;
    lmi_drawing d;
    lam_error e = {0};
    lmi_arena_init(&a, UINT64_MAX);
    lam_status s = lmi_draw(&d, &a, nodes, size, lines, line, &e);
    if (s == LAM_OK)
        holds(&d, size, lines, line);
    else if (!e.text[0])
        abort();
    lmi_arena_free(&a);
    return 0;
}
