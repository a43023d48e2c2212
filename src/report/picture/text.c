/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers and names as text of a page or a picture. */
#include "report/picture/text.h"

#include "report/table/report.h"

#include <math.h>
#include <stdio.h>

/* -- numbers ------------------------------------------------------------------------------------------- */

static bool is_size(double v) { return v >= 0 && v <= 1e300; }

void lmi_put_digits(lmi_buf *b, double v) {
    if (!is_size(v))
        lmi_put(b, "?");
    else
        lmi_put_fixed(b, v, v >= 99.95 ? 0 : v >= 9.995 ? 1 : 2);
}

/* Writes the number in the first unit in which it is below `base`; 999.5 of one unit is 1.00 of the next. */
static void put_scaled(lmi_buf *b, double v, double base, const char *const *unit, size_t n) {
    size_t i = 0;
    for (; i + 1 < n && v >= base * .9995; i++) v /= base;
    lmi_put_digits(b, v);
    lmi_putf(b, LMI_NARROW "%s", unit[i]);
}

#define UNITS(unit) unit, sizeof(unit) / sizeof *(unit)

void lmi_put_si(lmi_buf *b, double v) {
    static const char *const units[] = {"K", "M", "G", "T", "P", "E", "Z"};
    if (is_size(v) && v < 999.5 && v == floor(v))
        lmi_put_fixed(b, v, 0);
    else if (!is_size(v) || v < 999.5)
        lmi_put_digits(b, v);
    else
        put_scaled(b, v / 1000, 1000, UNITS(units));
}

/* `one`: the unit below `base`, whose numbers are whole. */
static void put_in_units(lmi_buf *b, double v, double base, const char *one, const char *const *unit,
                         size_t n) {
    if (!is_size(v))
        lmi_put(b, "?");
    else if (v >= base - .5)
        put_scaled(b, v / base, base, unit, n);
    else {
        lmi_put_fixed(b, v, 0);
        lmi_putf(b, LMI_NARROW "%s", one);
    }
}

void lmi_put_iec(lmi_buf *b, double bytes) {
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    put_in_units(b, bytes, 1024, "B", UNITS(units));
}

void lmi_put_ns(lmi_buf *b, double ns) {
    static const char *const units[] = {"\u00b5s", "ms", "s"};
    put_in_units(b, ns, 1000, "ns", UNITS(units));
}

void lmi_put_share(lmi_buf *b, double part, double whole) {
    if (!(whole > 0)) return;
    double share = part / whole;
    if (!is_size(share))
        lmi_put(b, "?");
    else
        lmi_put_fixed(b, 100 * share, share >= .0995 ? 0 : 1);
    lmi_put(b, LMI_NARROW "%");
}

void lmi_put_full(lmi_buf *b, int64_t v) {
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%lld", (long long)v), first = *digits == '-';
    for (int i = 0; i < n; i++) {
        if (i > first && (n - i) % 3 == 0) lmi_put(b, LMI_NARROW);
        lmi_putc(b, digits[i]);
    }
}

void lmi_put_power(lmi_buf *b, int32_t exponent) {
    static const char *const units[] = {"", "K", "M", "G", "T", "P", "E"};
    int32_t unit = exponent / 3;
    if (exponent < 0) {
        lmi_put_fixed(b, pow(10, exponent), -exponent);
        return;
    }
    if (unit > 6) unit = 6;
    lmi_putc(b, '1');
    lmi_pad(b, '0', (size_t)(exponent - 3 * unit));
    if (unit > 0) lmi_putf(b, LMI_NARROW "%s", units[unit]);
}

/* -- names --------------------------------------------------------------------------------------------- */

/* True for a character that is invisible, changes the direction of the text beside it, or is not allowed in
 * XML. */
static bool is_unseen(uint32_t c) {
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x200b && c <= 0x200f) ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x2069) || c == 0xfeff || c == 0xfffe ||
           c == 0xffff;
}

static void put_seen(lmi_buf *b, const char *name) {
    uint32_t code;
    for (size_t n; (n = lmi_utf8(name, &code)) != 0; name += n) {
        if (code == LMI_BAD_UTF8)
            lmi_put(b, "\ufffd");
        else if (is_unseen(code))
            lmi_putf(b, "\\u%04x", (unsigned)code);
        else
            lmi_putn(b, name, n);
    }
}

int32_t lmi_name_width(const char *name) {
    const size_t most = INT32_MAX;
    size_t width = 0;
    uint32_t code;
    for (size_t n; (n = lmi_utf8(name, &code)) != 0; name += n) {
        char one[5] = "";
        memcpy(one, name, n);
        width += code != LMI_BAD_UTF8 && is_unseen(code) ? 6 : lmi_width(one);
    }
    return (int32_t)(width < most ? width : most);
}

/* The last bytes of `s` that are at most `columns` wide. A mark that combines with the part cut off is
 * dropped too: it would combine with the dots. */
static const char *ending(const char *s, size_t columns) {
    uint32_t code;
    for (size_t width = lmi_width(s); width > columns || (*s && lmi_fit(s, 0) > 0); width = lmi_width(s)) {
        size_t skip = width > columns ? lmi_fit(s, width - columns) : lmi_fit(s, 0);
        s += skip > 0 ? skip : lmi_utf8(s, &code);
    }
    return s;
}

static void put_cut(lmi_buf *b, char *text, size_t columns) {
    size_t tail = columns * 2 / 5, head = columns - tail - (columns > 0);
    const char *end = ending(text, tail);
    lmi_buf part;
    lmi_buf_init(&part);
    lmi_putn(&part, text, lmi_fit(text, head));
    if (columns > 0) lmi_put(&part, "\u2026");
    lmi_put(&part, end);
    lmi_put_html(b, lmi_buf_text(&part));
    lmi_buf_used(&part, b);
}

void lmi_put_name(lmi_buf *b, const char *name, int32_t columns) {
    lmi_buf text;
    lmi_buf_init(&text);
    put_seen(&text, name);
    size_t most = columns > 0 ? (size_t)columns : 0;
    if (!text.bad && text.s && lmi_width(text.s) > most)
        put_cut(b, text.s, most);
    else
        lmi_put_html(b, lmi_buf_text(&text));
    lmi_buf_used(&text, b);
}
