/* SPDX-License-Identifier: Apache-2.0
 * quick: bytes into a buffer, for formats of much text in small pieces. Nearly always there is room for the
 * next piece, and a literal's length is known where it is written. There is no NUL after what these put. */
#ifndef LMI_QUICK_H
#define LMI_QUICK_H

#include "report/table/report.h"

/* Inlined even where a compiler would rather not: then a literal's length is a number. */
#define QUICK static inline __attribute__((always_inline))

QUICK void quick_put(lmi_buf *b, const char *s, size_t n) {
    if (b->cap - b->n <= n || b->bad) { /* GCOV_EXCL_BR_LINE: counted at each of the 300 places it is put */
        lmi_putn(b, s, n);
        return;
    }
    memcpy(b->s + b->n, s, n);
    b->n += n;
}

#define PUT(b, text) quick_put(b, text, sizeof(text) - 1)

/* `"name": ` */
QUICK void quick_name(lmi_buf *b, const char *name) {
    PUT(b, "\"");
    quick_put(b, name, strlen(name));
    PUT(b, "\": ");
}

/* Text as JSON; mostly there is nothing in it that must be written otherwise. NULL is null. */
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
