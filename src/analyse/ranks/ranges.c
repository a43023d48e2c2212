/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of ranks, told as ranges. */
#include "analyse/ranks/ranks.h"

enum { MOST_RANGES = 6 };

void lmi_put_ranges(lmi_buf *b, const int32_t *v, int32_t n) {
    int32_t n_listed = 0;
    for (int32_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && v[end] == v[end - 1] + 1; end++) continue;
        if (n_listed++ == MOST_RANGES) {
            lmi_putf(b, " and %d more", (int)(n - i));
            return;
        }
        lmi_putf(b, i ? ", %d" : "%d", (int)v[i]);
        if (end - i > 1) lmi_putf(b, "..%d", (int)v[end - 1]);
    }
}
