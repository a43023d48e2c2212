/* SPDX-License-Identifier: Apache-2.0
 *
 * Pieces of text: the middle cut out, escaping, numbers that are no counts. */
#include "report/table/report.h"

#include <stdio.h>

void lmi_put_cut(lmi_buf *b, const char *s, size_t columns, bool ascii) {
    const size_t gap = ascii ? 3 : 1;
    lmi_put_middle(b, s, columns, columns > gap ? (columns - gap) / 2 : 0, ascii ? "..." : "\u2026");
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
