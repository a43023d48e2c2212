/* SPDX-License-Identifier: Apache-2.0
 *
 * Untrusted UTF-8: a decoder, and cleaning and measuring by it. Also words in a list. */
#include "base/base.h"

#include <limits.h>

typedef struct range {
    uint32_t first, last;
} range;

static const range wide[] = {
#define WIDE(first, last) {first, last},
#include "base/widths.def"
#undef WIDE
};
static const range zero[] = {
#define ZERO(first, last) {first, last},
#include "base/widths.def"
#undef ZERO
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static bool within(const range *r, size_t n, uint32_t code) {
    size_t low = 0, high = n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (code > r[mid].last) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low < n && code >= r[low].first;
}

/* The smallest code point that needs so many bytes: a lower one is an overlong form, which is invalid. */
static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};

size_t lmi_utf8(const char *s, uint32_t *code) {
    const unsigned char *p = (const unsigned char *)s;
    *code = p[0];
    if (p[0] < 0x80) return p[0] != 0;
    size_t n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    uint32_t c = p[0] & (0x7fu >> n);
    *code = LMI_BAD_UTF8;
    if (p[0] < 0xc2 || p[0] > 0xf4) return 1;
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) return 1; /* also at the final NUL */
        c = c << 6 | (p[i] & 0x3f);
    }
    if (c < smallest[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) return 1;
    *code = c;
    return n;
}

size_t lmi_utf8_put(char *to, uint32_t code) {
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) code = 0xfffd;
    if (code < 0x80) return *to = (char)code, 1;
    const size_t more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    *to = (char)((more == 1 ? 0xc0 : more == 2 ? 0xe0 : 0xf0) | code >> (6 * more));
    for (size_t i = 1; i <= more; i++) to[i] = (char)(0x80 | (code >> (6 * (more - i)) & 0x3f));
    return more + 1;
}

bool lmi_drives_terminal(uint32_t c) {
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 ||
           (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == LMI_BAD_UTF8;
}

size_t lmi_clean(char *s) {
    char *to = s;
    const char *from = s;
    uint32_t code;
    for (size_t n; (n = lmi_utf8(from, &code)) != 0; from += n) {
        if (lmi_drives_terminal(code)) {
            *to++ = '?';
        } else {
            memmove(to, from, n);
            to += n;
        }
    }
    *to = '\0';
    return (size_t)(to - s);
}

static size_t columns_of(uint32_t code) {
    if (code < 0x300 || code == LMI_BAD_UTF8) return 1;
    if (within(zero, COUNT(zero), code)) return 0;
    return within(wide, COUNT(wide), code) ? 2 : 1;
}

size_t lmi_width_of(const char *s, size_t bytes) {
    size_t ascii = 0; /* the characters before the first other one */
    while (ascii < bytes && (signed char)s[ascii] > 0) ascii++;
    size_t columns = ascii;
    uint32_t code;
    for (size_t n, at = ascii; at < bytes && (n = lmi_utf8(s + at, &code)) != 0; at += n)
        columns += columns_of(code);
    return columns;
}

size_t lmi_width(const char *s) { return lmi_width_of(s, SIZE_MAX); }

size_t lmi_fit_in(const char *s, size_t bytes, size_t columns) {
    size_t at = 0, used = 0;
    uint32_t code;
    for (size_t n; at < bytes && (n = lmi_utf8(s + at, &code)) != 0; at += n) {
        used += columns_of(code);
        if (used > columns) break;
    }
    return at;
}

size_t lmi_fit(const char *s, size_t columns) { return lmi_fit_in(s, SIZE_MAX, columns); }

bool lmi_listed(const char *list, const char *word) {
    size_t n = strlen(word);
    for (const char *p = list; n > 0 && (p = strstr(p, word)) != NULL; p++)
        if ((p == list || p[-1] == ' ') && (p[n] == ' ' || !p[n])) return true;
    return false;
}

/* -- words that are near each other --------------------------------------------------------------------- */

enum { LONGEST = 32 };

/* Optimal string alignment. */
int32_t lmi_distance(const char *a, const char *b) {
    size_t n = strlen(a), m = strlen(b);
    int32_t d[LONGEST + 1][LONGEST + 1];
    if (n > LONGEST || m > LONGEST) return INT_MAX;
    for (size_t i = 0; i <= n; i++) d[i][0] = (int32_t)i;
    for (size_t k = 0; k <= m; k++) d[0][k] = (int32_t)k;
    for (size_t i = 1; i <= n; i++) {
        for (size_t k = 1; k <= m; k++) {
            int32_t best = d[i - 1][k - 1] + (a[i - 1] != b[k - 1]);
            if (d[i - 1][k] + 1 < best) best = d[i - 1][k] + 1;
            if (d[i][k - 1] + 1 < best) best = d[i][k - 1] + 1;
            bool swapped = i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1];
            if (swapped && d[i - 2][k - 2] + 1 < best) best = d[i - 2][k - 2] + 1;
            d[i][k] = best;
        }
    }
    return d[n][m];
}
