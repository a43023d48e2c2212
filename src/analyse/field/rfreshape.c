/* SPDX-License-Identifier: Apache-2.0
 *
 * Views that split and merge axes: finds the axes of two shapes that hold the same elements. */
#include "analyse/field/rfreshape.h"

bool lmi_find_group(lam_shape in, lam_shape out, int32_t axis, lmi_group *g) {
    *g = (lmi_group){0, 0, 0, 0};
    while (g->in_end <= axis) {
        int64_t x = 1, y = 1;
        g->in = g->in_end;
        g->out = g->out_end;
        do {
            bool more_in = g->in_end < in.ndim && (x <= y || g->out_end >= out.ndim);
            if (more_in)
                x *= in.sizes[g->in_end++];
            else if (g->out_end < out.ndim)
                y *= out.sizes[g->out_end++];
            else
                return false;
        } while (x != y || g->in_end == g->in);
    }
    return true;
}

int64_t lmi_axes_product(lam_shape s, int32_t from, int32_t to) {
    int64_t n = 1;
    for (int32_t i = from; i < to; i++) n *= s.sizes[i];
    return n;
}

int32_t lmi_first_real(lam_shape s, int32_t from, int32_t to) {
    for (int32_t i = from; i < to; i++)
        if (s.sizes[i] != 1) return i;
    return from;
}

bool lmi_refined(lam_shape in, lam_shape out, int64_t *sizes, lam_shape *mid) {
    int64_t x = 1, y = 1, done = 1;
    int32_t i = 0, k = 0, n = 0;
    while (i < in.ndim || k < out.ndim) {
        int64_t to_x = i < in.ndim ? x * in.sizes[i] : INT64_MAX,
                to_y = k < out.ndim ? y * out.sizes[k] : INT64_MAX;
        int64_t next = to_x < to_y ? to_x : to_y;
        if (next == 0 || next % done != 0 || n == LMI_AXES) return false;
        sizes[n++] = next / done;
        done = next;
        if (to_x == next) x = next, i++;
        if (to_y == next) y = next, k++;
    }
    *mid = (lam_shape){n, sizes};
    return true;
}
