/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers and texts of a pickle of protocol 0, which are lines, as CPython reads them. */
#include "read/torch/line.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

bool lmi_line_number(char *line, int base, int64_t *out, bool *fits) {
    static const char spaces[] = " \t\r\f\v";
    char *first = line + strspn(line, spaces), *to = first, *end;
    size_t n = strlen(first);
    while (n && strchr(spaces, first[n - 1])) n--;
    for (size_t i = 0; i < n; i++)
        if (first[i] != '_' || i == 0) *to++ = first[i];
    *to = '\0';
    char *digits = first + (*first == '+' || *first == '-');
    const char *prefix = base == 0 && digits[0] == '0' && digits[1] ? strchr("bBoO", digits[1]) : NULL;
    if (prefix) { /* which strtoll does not know */
        base = *prefix == 'b' || *prefix == 'B' ? 2 : 8;
        memmove(digits, digits + 2, strlen(digits + 2) + 1);
    }
    if (!isxdigit((unsigned char)*digits)) return false;
    errno = 0;
    *out = strtoll(first, &end, base);
    *fits = errno != ERANGE;
    return end > digits && !*end;
}

/* The number that up to `most` digits of a base make; *n: how many there are. */
static uint32_t take_digits(const char *s, size_t left, size_t most, uint32_t base, size_t *n) {
    uint32_t value = 0;
    for (*n = 0; *n < left && *n < most; ++*n) {
        const char c = s[*n];
        const uint32_t digit = c >= '0' && c <= '9'                 ? (uint32_t)(c - '0')
                               : (c | 32) >= 'a' && (c | 32) <= 'f' ? (uint32_t)((c | 32) - 'a' + 10)
                                                                    : base;
        if (digit >= base) break;
        value = value * base + digit;
    }
    return value;
}

static void put_code(lmi_buf *b, uint32_t code) {
    char utf8[4];
    lmi_putn(b, utf8, lmi_utf8_put(utf8, code));
}

/* Puts what the escape behind a backslash means. Returns its length, 0 if it is none. */
static size_t put_escape(lmi_buf *b, const char *s, size_t left, bool quoted) {
    static const char plain[] = "\\'\"abfnrtv", means[] = "\\'\"\a\b\f\n\r\t\v";
    const char *found = quoted && *s ? strchr(plain, *s) : NULL;
    const size_t wanted = quoted ? (*s == 'x' ? 2 : 0) : *s == 'u' ? 4 : *s == 'U' ? 8 : 0;
    size_t n;
    uint32_t code;
    if (found) return lmi_putc(b, means[found - plain]), 1;
    code = take_digits(s + 1, left - 1, wanted, 16, &n);
    if (wanted && n == wanted) return quoted ? lmi_putc(b, (char)code) : put_code(b, code), n + 1;
    code = take_digits(s, left, quoted ? 3 : 0, 8, &n);
    if (n) lmi_putc(b, (char)code);
    return n;
}

void lmi_put_line(lmi_buf *b, const char *line, size_t n, bool quoted) {
    for (size_t i = 0; i < n;) {
        const char c = line[i++];
        const size_t escape = c == '\\' && i < n ? put_escape(b, line + i, n - i, quoted) : 0;
        i += escape;
        if (escape) continue;
        quoted ? lmi_putc(b, c) : put_code(b, (unsigned char)c);
        if (c == '\\' && i < n) quoted ? lmi_putc(b, line[i]) : put_code(b, (unsigned char)line[i]), i++;
    }
}
