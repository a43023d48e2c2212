/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers as text. All arithmetic is on integers, so neither the locale nor binary fractions affect it. */
#include "base/base.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>

static const char unknown_text[] = "?";

static const char *bound(lam_count c) { return c.state == LAM_AT_LEAST ? ">= " : ""; }

static lmi_uint128 magnitude(lam_count c, const char **sign) {
    lmi_int128 v = lmi_count_wide(c);
    *sign = v < 0 ? "-" : "";
    return v < 0 ? (lmi_uint128)0 - (lmi_uint128)v : (lmi_uint128)v;
}

/* All digits of v, with `separator` between groups of three (0: none). */
static char *digits(lmi_uint128 v, char separator, char to[64]) {
    char *p = to + 63;
    *p = '\0';
    int n = 0;
    do {
        if (separator && n > 0 && n % 3 == 0) *--p = separator;
        const bool small = v <= UINT64_MAX; /* a division of 128 bits takes ten times as long */
        *--p = (char)('0' + (int)(small ? (uint64_t)v % 10 : v % 10));
        v = small ? (uint64_t)v / 10 : v / 10;
        n++;
    } while (v > 0);
    return p;
}

/* Appends to a buffer that may be too small, and adds the full length to *n. */
static void append(char *buf, size_t size, size_t *n, const char *s) {
    size_t length = strlen(s), room = *n + 1 < size ? size - *n - 1 : 0;
    size_t fits = length < room ? length : room;
    if (fits) memcpy(buf + *n, s, fits);
    if (room) buf[*n + fits] = '\0';
    *n += length;
}

/* Without printf, which is slow in a process where a library has added conversions to it. */
static int all_digits(char *buf, size_t size, lam_count c, char separator) {
    size_t n = 0;
    const char *sign = "";
    char text[64];
    if (size) buf[0] = '\0';
    if (c.state == LAM_UNKNOWN) {
        append(buf, size, &n, unknown_text);
        return (int)n;
    }
    lmi_uint128 v = magnitude(c, &sign);
    append(buf, size, &n, bound(c));
    append(buf, size, &n, sign);
    append(buf, size, &n, digits(v, separator, text));
    return (int)n;
}

void lmi_put_int(lmi_buf *b, int64_t v) {
    char text[64];
    const char *first = digits(v < 0 ? 0 - (uint64_t)v : (uint64_t)v, 0, text);
    if (v < 0) lmi_putc(b, '-');
    lmi_putn(b, first, (size_t)(text + sizeof text - 1 - first));
}

/* -- three significant digits and a unit ----------------------------------------------------------------- */

const lmi_setting lmi_plain = {" ", "us", "-"};
const lmi_setting lmi_tight = {"", "us", "-"};
const lmi_setting lmi_typeset = {LMI_NARROW, "\u00b5s", "\u2212"};

typedef struct scale {
    unsigned base;
    int n;
    const char *unit[10];
} scale;
static const scale scales[] = {
    [LMI_COUNTS] = {1000, 10, {"", "K", "M", "G", "T", "P", "E", "Z", "Y", "R"}},
    [LMI_BYTES] = {1024, 10, {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB", "RiB"}},
    [LMI_TIMES] = {1000, 4, {"ns", "us", "ms", "s"}},
};

typedef struct digits_of {
    lmi_uint128 n;
    int decimals, unit;
} digits_of;

/* The first three digits of a number, rounded half up, in the unit where fewer than `base` are left; a number
 * that rounds to the next unit has that unit. Units below the first are not divided, and the last has no
 * next. */
static digits_of three_digits(const scale *s, lmi_uint128 v) {
    static const unsigned tenth[] = {1, 10, 100};
    lmi_uint128 unit = 1;
    int u = 0;
    while (u + 1 < s->n && v / unit >= s->base) {
        unit *= s->base;
        u++;
    }
    if (u == 0) return (digits_of){v, 0, 0};
    for (int decimals = 2; decimals > 0; decimals--) {
        lmi_uint128 n = (v / unit) * tenth[decimals] + (v % unit * tenth[decimals] + unit / 2) / unit;
        if (n < 1000) return (digits_of){n, decimals, u};
    }
    lmi_uint128 n = v / unit + (v % unit + unit / 2) / unit;
    return n < s->base || u + 1 == s->n ? (digits_of){n, 0, u} : (digits_of){100, 2, u + 1};
}

static int scaled(char *buf, size_t size, lam_count c, lmi_number_unit in, const lmi_setting *how) {
    const scale *s = &scales[in];
    const char *sign, *name;
    char text[64];
    size_t n = 0;
    digits_of d = three_digits(s, magnitude(c, &sign));
    char *all = digits(d.n, 0, text);
    if (d.decimals) { /* there is a digit before the point: the first of three is not 0 */
        const size_t whole = strlen(all) - (size_t)d.decimals;
        memmove(all - 1, all, whole);
        (--all)[whole] = '.';
    }
    name = *s->unit[d.unit] == 'u' ? how->micro : s->unit[d.unit];
    if (size) buf[0] = '\0';
    append(buf, size, &n, bound(c));
    append(buf, size, &n, sign);
    append(buf, size, &n, all);
    append(buf, size, &n, *name ? how->space : "");
    append(buf, size, &n, name);
    return (int)n;
}

int lam_text_count(char *buf, size_t size, lam_count c, bool exact) {
    if (exact || c.state == LAM_UNKNOWN) return all_digits(buf, size, c, ',');
    return scaled(buf, size, c, LMI_COUNTS, &lmi_plain);
}

int lam_text_digits(char *buf, size_t size, lam_count c) { return all_digits(buf, size, c, 0); }

int lam_text_bytes(char *buf, size_t size, lam_count bytes) {
    if (bytes.state == LAM_UNKNOWN) return snprintf(buf, size, "%s", unknown_text);
    return scaled(buf, size, bytes, LMI_BYTES, &lmi_plain);
}

int lam_text_time(char *buf, size_t size, int64_t ns) {
    if (ns < 0) return snprintf(buf, size, "%s", unknown_text);
    return scaled(buf, size, lmi_exact(ns), LMI_TIMES, &lmi_plain);
}

void lmi_put_quantity(lmi_buf *b, lmi_number_unit unit, lam_count c) {
    char text[96];
    if (unit == LMI_SHARES && c.state != LAM_UNKNOWN) {
        lmi_put(b, bound(c));
        lmi_put_percent(b, lmi_count_double(c), 1e6, &lmi_plain);
        return;
    }
    if (c.state != LAM_UNKNOWN) scaled(text, sizeof text, c, unit, &lmi_plain);
    lmi_put(b, c.state == LAM_UNKNOWN ? unknown_text : text);
}

void lmi_put_scaled(lmi_buf *b, lmi_number_unit unit, double v, const lmi_setting *how) {
    char text[96];
    if (!(v >= 0 && v < 0x1p95)) {
        lmi_put(b, unknown_text);
        return;
    }
    lmi_int128 whole = (lmi_int128)v;
    if (v - (double)whole >= .5) whole++;
    scaled(text, sizeof text, lmi_of_wide(whole), unit, how);
    lmi_put(b, text);
}

/* -- numbers that are no counts -------------------------------------------------------------------------- */

/* The next double away from 0 if v is exactly halfway between two numbers of that many decimals: printf would
 * choose the even one. Only sums of a few halves are halfway, and their products here are exact. */
static double above_half(double v, int decimals) {
    double tens = 1, halves = 2;
    for (int i = 0; i < decimals; i++) tens *= 10, halves *= 2;
    bool few = fabs(v) < 1e9 && v * halves == floor(v * halves);
    return few && fabs(v) * tens - floor(fabs(v) * tens) == .5 ? nextafter(v, v < 0 ? -INFINITY : INFINITY)
                                                               : v;
}

/* As printf: halfway is rounded to even. */
static void put_printed(lmi_buf *b, double v, int decimals) {
    char text[400], *p = text;
    if (!isfinite(v)) {
        lmi_put(b, unknown_text);
        return;
    }
    snprintf(text, sizeof text, "%.*f", decimals, v);
    /* The locale's decimal point, which may be several bytes long, becomes a point. */
    for (bool point = false; *p; p++) {
        if (strchr("+-0123456789", *p))
            lmi_putc(b, *p);
        else if (!point) {
            lmi_putc(b, '.');
            point = true;
        }
    }
}

void lmi_put_fixed(lmi_buf *b, double v, int decimals) { put_printed(b, above_half(v, decimals), decimals); }

void lmi_put_digits(lmi_buf *b, double v) { lmi_put_fixed(b, v, v < 9.995 ? 2 : v < 99.95 ? 1 : 0); }

void lmi_put_real(lmi_buf *b, double v) {
    if (v > -1e15 && v < 1e15 && v == (double)(int64_t)v) {
        if (v == 0 && signbit(v)) lmi_putc(b, '-');
        lmi_put_int(b, (int64_t)v);
        return;
    }
    if (v > -1e-4 && v < 1e-4) { /* six decimals would say little, or nothing */
        lmi_put_nine(b, v);
        return;
    }
    size_t from = b->n;
    put_printed(b, v, 6);
    if (b->bad || !strchr(b->s + from, '.')) return;
    while (b->s[b->n - 1] == '0') b->s[--b->n] = '\0';
    if (b->s[b->n - 1] == '.') b->s[--b->n] = '\0';
}

void lmi_put_nine(lmi_buf *b, double v) {
    size_t from = b->n;
    lmi_putf(b, "%.9g", v);
    for (size_t i = from; i < b->n && !b->bad; i++)
        if (b->s[i] == ',') b->s[i] = '.'; /* independent of the host's locale */
}

/* -- per cents ------------------------------------------------------------------------------------------- */

static void put_digits(lmi_buf *b, double percent, const lmi_setting *how) {
    lmi_put_fixed(b, percent, percent >= 9.95 ? 0 : percent >= .0995 || percent == 0 ? 1 : 2);
    lmi_putf(b, "%s%%", how->space);
}

void lmi_put_percent(lmi_buf *b, double part, double whole, const lmi_setting *how) {
    if (!(whole > 0)) return;
    double percent = 100 * part / whole;
    put_digits(b, percent >= 0 && percent <= 1e300 ? percent : NAN, how);
}

void lmi_put_growth(lmi_buf *b, double percent, const lmi_setting *how) {
    lmi_put(b, percent < 0 ? how->minus : "+");
    put_digits(b, fabs(percent), how);
}

/* -- shapes, and units of rates -------------------------------------------------------------------------- */

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

/* Civil date from days since 1970 (Howard Hinnant, "chrono-compatible low-level date algorithms"). */
lmi_moment lmi_moment_of(int64_t unix_seconds) {
    const int64_t days = unix_seconds / 86400 - (unix_seconds % 86400 < 0),
                  rest = unix_seconds - days * 86400;
    const int64_t z = days + 719468, era = z / 146097, of_era = z % 146097;
    const int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    const int64_t day = of_era - (365 * year + year / 4 - year / 100), m = (5 * day + 2) / 153;
    const int month = (int)(m < 10 ? m + 3 : m - 9);
    return (lmi_moment){.year = (int)(year + era * 400 + (month <= 2)),
                        .month = month,
                        .day = (int)(day - (153 * m + 2) / 5 + 1),
                        .hour = (int)(rest / 3600),
                        .minute = (int)(rest / 60 % 60),
                        .second = (int)(rest % 60)};
}
