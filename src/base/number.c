/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers as text. All arithmetic is on integers, so neither the locale nor binary fractions affect it. */
#include "base/base.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>

__extension__ typedef unsigned __int128 uwide;

static const char unknown_text[] = "?";

static const char *bound(lam_count c) { return c.state == LAM_AT_LEAST ? ">= " : ""; }

static uwide magnitude(lam_count c, const char **sign) {
    lmi_wide v = lmi_count_wide(c);
    *sign = v < 0 ? "-" : "";
    return v < 0 ? (uwide)0 - (uwide)v : (uwide)v;
}

/* All digits of v, with `separator` between groups of three (0: none). */
static const char *digits(uwide v, char separator, char to[64]) {
    char *p = to + 63;
    *p = '\0';
    int n = 0;
    do {
        if (separator && n > 0 && n % 3 == 0) *--p = separator;
        *--p = (char)('0' + (int)(v % 10));
        v /= 10;
        n++;
    } while (v > 0);
    return p;
}

static int all_digits(char *buf, size_t size, lam_count c, char separator) {
    if (c.state == LAM_UNKNOWN) return snprintf(buf, size, "%s", unknown_text);
    const char *sign;
    char text[64];
    uwide v = magnitude(c, &sign);
    return snprintf(buf, size, "%s%s%s", bound(c), sign, digits(v, separator, text));
}

/* Three significant digits in steps of `base`, rounded half up; a number that rounds to the next step uses
 * that step's unit. */
static int scaled(char *buf, size_t size, lam_count c, unsigned base, const char *const *units, int n_units) {
    static const unsigned tenth[] = {1, 10, 100};
    const char *sign;
    uwide v = magnitude(c, &sign), unit = 1;
    int u = 0;
    while (u + 1 < n_units && v / unit >= base) {
        unit *= base;
        u++;
    }
    if (u == 0) return snprintf(buf, size, "%s%s%u%s", bound(c), sign, (unsigned)v, units[0]);
    for (int decimals = 2; decimals >= 0; decimals--) {
        uwide q = (v * tenth[decimals] + unit / 2) / unit;
        if (q >= (decimals ? 1000 : base)) continue;
        unsigned whole = (unsigned)(q / tenth[decimals]), part = (unsigned)(q % tenth[decimals]);
        if (decimals == 0) return snprintf(buf, size, "%s%s%u%s", bound(c), sign, whole, units[u]);
        return snprintf(buf, size, "%s%s%u.%0*u%s", bound(c), sign, whole, decimals, part, units[u]);
    }
    return snprintf(buf, size, "%s%s1.00%s", bound(c), sign, units[u + 1]);
}

int lam_text_count(char *buf, size_t size, lam_count c, bool exact) {
    static const char *const units[] = {"", " K", " M", " G", " T", " P", " E", " Z", " Y", " R"};
    if (exact || c.state == LAM_UNKNOWN) return all_digits(buf, size, c, ',');
    return scaled(buf, size, c, 1000, units, 10);
}

int lam_text_digits(char *buf, size_t size, lam_count c) { return all_digits(buf, size, c, 0); }

int lam_text_bytes(char *buf, size_t size, lam_count bytes) {
    static const char *const units[] = {" B",   " KiB", " MiB", " GiB", " TiB",
                                        " PiB", " EiB", " ZiB", " YiB", " RiB"};
    if (bytes.state == LAM_UNKNOWN) return snprintf(buf, size, "%s", unknown_text);
    return scaled(buf, size, bytes, 1024, units, 10);
}

int lam_text_time(char *buf, size_t size, int64_t ns) {
    static const char *const units[] = {"ns", "us", "ms", "s"};
    double v = (double)ns;
    int unit = 0;
    if (ns < 0) return snprintf(buf, size, "%s", unknown_text);
    for (; unit < 3 && v >= 999.5; unit++) v /= 1000;
    if (unit == 0) return snprintf(buf, size, "%d ns", (int)ns);
    /* Only whole numbers are printed, so that the locale has no effect. */
    long long cents = (long long)(v * 100 + 0.5);
    if (cents < 1000) return snprintf(buf, size, "%lld.%02lld %s", cents / 100, cents % 100, units[unit]);
    long long tenths = (long long)(v * 10 + 0.5);
    if (tenths < 1000) return snprintf(buf, size, "%lld.%lld %s", tenths / 10, tenths % 10, units[unit]);
    return snprintf(buf, size, "%lld %s", (long long)(v + 0.5), units[unit]);
}

/* Appends to a buffer that may be too small, and adds the full length to *n. */
static void append(char *buf, size_t size, size_t *n, const char *s) {
    size_t length = strlen(s), room = *n + 1 < size ? size - *n - 1 : 0;
    size_t fits = length < room ? length : room;
    if (fits) memcpy(buf + *n, s, fits);
    if (room) buf[*n + fits] = '\0';
    *n += length;
}

int lam_text_shape(char *buf, size_t size, lam_shape s, const char *separator) {
    size_t n = 0;
    if (size) buf[0] = '\0';
    if (s.ndim < 0) append(buf, size, &n, unknown_text);
    if (s.ndim == 0) append(buf, size, &n, "()");
    for (int32_t i = 0; i < s.ndim; i++) {
        char text[24];
        snprintf(text, sizeof text, "%lld", (long long)s.sizes[i]);
        if (i) append(buf, size, &n, separator ? separator : ",");
        append(buf, size, &n, s.sizes[i] < 0 ? unknown_text : text);
    }
    return n > INT_MAX ? INT_MAX : (int)n;
}

double lmi_unit_scale(double value, const char **prefix) {
    static const struct {
        double unit;
        const char *prefix;
    } units[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (!(value >= units[i].unit) || isinf(value)) continue; /* nor NaN */
        *prefix = units[i].prefix;
        return value / units[i].unit;
    }
    *prefix = "";
    return value;
}
