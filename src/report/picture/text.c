/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers and names as text of a page or a picture. */
#include "report/picture/text.h"

#include "report/table/report.h"

#include <math.h>
#include <stdio.h>

/* -- numbers ------------------------------------------------------------------------------------------- */

void lmi_put_si(lmi_buf *b, double v) { lmi_put_scaled(b, LMI_COUNTS, v, &lmi_typeset); }
void lmi_put_iec(lmi_buf *b, double bytes) { lmi_put_scaled(b, LMI_BYTES, bytes, &lmi_typeset); }
void lmi_put_ns(lmi_buf *b, double ns) { lmi_put_scaled(b, LMI_TIMES, ns, &lmi_typeset); }

void lmi_put_share(lmi_buf *b, double part, double whole) { lmi_put_percent(b, part, whole, &lmi_typeset); }

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

void lmi_put_name(lmi_buf *b, const char *name, int32_t columns) {
    lmi_buf text, part;
    lmi_buf_init(&text);
    lmi_buf_init(&part);
    put_seen(&text, name);
    size_t room = columns > 0 ? (size_t)columns : 0;
    lmi_put_middle(&part, lmi_buf_text(&text), room, room * 2 / 5, "\u2026");
    lmi_put_html(b, lmi_buf_text(&part));
    lmi_buf_used(&text, b);
    lmi_buf_used(&part, b);
}
