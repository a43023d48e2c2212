/* SPDX-License-Identifier: Apache-2.0
 *
 * Pieces of text: the middle cut out, escaping, numbers that are no counts. */
#include "report/table/report.h"

#include <stdio.h>

void lmi_put_middle(lmi_buf *b, const char *s, size_t columns, bool ascii) {
    const char *dots = ascii ? "..." : "\u2026";
    size_t gap = lmi_width(dots), width = lmi_width(s);
    if (width <= columns) {
        lmi_put(b, s);
        return;
    }
    if (columns <= gap) {
        lmi_putn(b, s, lmi_fit(s, columns));
        return;
    }
    size_t head = (columns - gap + 1) / 2, tail = columns - gap - head;
    lmi_putn(b, s, lmi_fit(s, head));
    lmi_put(b, dots);
    /* A wide character may be at the cut: then the tail starts after it and is a column shorter. */
    const char *rest = s + lmi_fit(s, width - tail);
    while (lmi_width(rest) > tail) {
        uint32_t code;
        rest += lmi_utf8(rest, &code);
    }
    lmi_put(b, rest);
}

void lmi_put_escaped(lmi_buf *b, const char *s, const char *of, const char *before) {
    for (; *s; s++) {
        if (strchr(of, *s)) lmi_put(b, before);
        lmi_putc(b, *s);
    }
}

void lmi_put_md(lmi_buf *b, const char *s) { lmi_put_escaped(b, s, "\\|`*_<>[]&#~", "\\"); }

void lmi_put_html(lmi_buf *b, const char *s) {
    for (; *s; s++) {
        switch (*s) {
        case '&': lmi_put(b, "&amp;"); break;
        case '<': lmi_put(b, "&lt;"); break;
        case '>': lmi_put(b, "&gt;"); break;
        case '"': lmi_put(b, "&quot;"); break;
        case '\'': lmi_put(b, "&#39;"); break;
        default: lmi_putc(b, *s);
        }
    }
}

/* Characters that drive a terminal are escaped, and bytes that are not UTF-8 become the replacement
 * character: the result is valid JSON. */
static void put_json(lmi_buf *b, const char *s, bool in_html) {
    if (!s) {
        lmi_put(b, "null");
        return;
    }
    lmi_putc(b, '"');
    uint32_t code;
    for (size_t n; (n = lmi_utf8(s, &code)) != 0; s += n) {
        if (code == LMI_BAD_UTF8)
            lmi_put(b, "\\ufffd");
        else if (lmi_drives_terminal(code) || (in_html && code == '<'))
            lmi_putf(b, "\\u%04x", (unsigned)code);
        else if (code == '"' || code == '\\')
            lmi_putf(b, "\\%c", (char)code);
        else
            lmi_putn(b, s, n);
    }
    lmi_putc(b, '"');
}

void lmi_put_json(lmi_buf *b, const char *s) { put_json(b, s, false); }
void lmi_put_json_in_html(lmi_buf *b, const char *s) { put_json(b, s, true); }

void lmi_put_csv(lmi_buf *b, const char *s) {
    if (!strpbrk(s, ",\"\r\n")) {
        lmi_put(b, s);
        return;
    }
    lmi_putc(b, '"');
    lmi_put_escaped(b, s, "\"", "\"");
    lmi_putc(b, '"');
}

void lmi_paint(lmi_job *j, const char *style, const char *text, size_t n) {
    lmi_put_painted(&j->out, j->o->color, style, text, n);
}

/* -- numbers that are no counts ------------------------------------------------------------------------ */

void lmi_put_fixed(lmi_buf *b, double v, int decimals) {
    char text[400], *p = text;
    if (!(v - v == 0)) { /* infinite or NaN */
        lmi_put(b, "?");
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

void lmi_put_real(lmi_buf *b, double v) {
    if (v > -1e15 && v < 1e15 && v == (double)(int64_t)v) {
        lmi_put_fixed(b, v, 0);
        return;
    }
    size_t from = b->n;
    lmi_put_fixed(b, v, 6);
    if (b->bad || !strchr(b->s + from, '.')) return;
    while (b->s[b->n - 1] == '0') b->s[--b->n] = '\0';
}

void lmi_put_nine(lmi_buf *b, double v) {
    size_t from = b->n;
    lmi_putf(b, "%.9g", v);
    for (size_t i = from; i < b->n && !b->bad; i++)
        if (b->s[i] == ',') b->s[i] = '.'; /* independent of the host's locale */
}
