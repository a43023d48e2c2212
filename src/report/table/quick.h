/* SPDX-License-Identifier: Apache-2.0
 * quick: fast writing of many small pieces into a buffer. Usually the next piece fits, and the length of a
 * literal is known to the compiler. These functions write no final NUL. */
#ifndef LMI_QUICK_H
#define LMI_QUICK_H

#include "report/table/report.h"

/* Always inlined, so that the length of a literal is a constant. */
#define QUICK static inline __attribute__((always_inline))

QUICK void quick_put(lmi_buf *b, const char *s, size_t n) {
    if (b->cap - b->n <= n || b->bad) { /* GCOV_EXCL_BR_LINE: counted at each of the 300 inlined calls */
        lmi_putn(b, s, n);
        return;
    }
    memcpy(b->s + b->n, s, n);
    b->n += n;
}

#define PUT(b, text) quick_put(b, text, sizeof(text) - 1)

/* Text as JSON; usually nothing needs an escape. NULL is null. */
static inline void quick_text(lmi_buf *b, const char *s) {
    size_t n = 0;
    while (s && s[n] >= ' ' && s[n] < 0x7f && s[n] != '"' && s[n] != '\\') n++;
    if (!s || s[n]) {
        lmi_put_json(b, s);
        return;
    }
    PUT(b, "\"");
    quick_put(b, s, n);
    PUT(b, "\"");
}

static inline void quick_int(lmi_buf *b, int64_t v) {
    char digits[24], *at = digits + sizeof digits;
    uint64_t rest = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    if (rest < 10) {
        digits[0] = (char)('0' + rest);
        if (v >= 0) {
            quick_put(b, digits, 1);
            return;
        }
    }
    do *--at = (char)('0' + rest % 10);
    while (rest /= 10);
    if (v < 0) *--at = '-';
    quick_put(b, at, (size_t)(digits + sizeof digits - at));
}

#endif
