/* SPDX-License-Identifier: Apache-2.0
 *
 * Pieces of text: padding, wrapping, escaping, colours. */
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

void lmi_put_painted(lmi_buf *b, bool color, const char *style, const char *text, size_t n) {
    bool paint = color && style && n > 0;
    if (paint) lmi_putf(b, "\x1b[%sm", style);
    lmi_putn(b, text, n);
    if (paint) lmi_put(b, "\x1b[0m");
}

void lmi_paint(lmi_job *j, const char *style, const char *text, size_t n) {
    lmi_put_painted(&j->out, j->o->color, style, text, n);
}

/* -- flowing text -------------------------------------------------------------------------------------- */

enum { LABEL = 11 }; /* columns of the labels, "incomplete" and a space */

void lmi_flow_start(lmi_flow *f, lmi_job *j, size_t width) {
    *f = (lmi_flow){.j = j, .width = width, .fresh = true};
    f->indent = width > 4 * LABEL ? LABEL : width > 20 ? 2 : 0;
}

static void flow_break(lmi_flow *f) {
    lmi_putc(&f->j->out, '\n');
    lmi_pad(&f->j->out, ' ', f->indent);
    f->column = f->indent;
    f->fresh = true;
}

/* Writes one word; a word wider than the page is cut where the page ends. */
static void flow_word(lmi_flow *f, const char *style, const char *word) {
    for (const char *s = word; *s;) {
        size_t room = f->width - f->column, wide = lmi_width(s), fits = lmi_fit(s, room);
        if (wide > room && !f->fresh) {
            flow_break(f);
            continue;
        }
        uint32_t code;
        if (fits == 0) fits = lmi_utf8(s, &code); /* a page of one column can't hold a wide character */
        lmi_paint(f->j, style, s, fits);
        f->column += wide > room ? room : wide;
        f->fresh = false;
        s += fits;
    }
}

/* Words on the same line keep one space between them. */
static void flow_words(lmi_flow *f, const char *style, char *words) {
    char *next = NULL;
    for (char *w = words; w; w = next) {
        next = strchr(w, ' ');
        if (next) *next++ = '\0';
        if (!*w) continue;
        if (w > words && !f->fresh) {
            if (f->column + 1 + lmi_width(w) <= f->width) {
                lmi_paint(f->j, style, " ", 1);
                f->column++;
            } else {
                flow_break(f);
            }
        }
        flow_word(f, style, w);
    }
}

void lmi_flow_label(lmi_flow *f, const char *style, const char *label, size_t gap) {
    lmi_flow_end(f);
    lmi_flow_item(f, style, label);
    f->owed = gap > 0 ? gap : f->column < f->indent ? f->indent - f->column : f->column > 0;
    f->fresh = true;
}

void lmi_flow_item(lmi_flow *f, const char *style, const char *text) {
    const char *dot = f->j->o->ascii ? " - " : " \u00b7 ";
    lmi_buf words;
    lmi_buf_init(&words);
    lmi_put(&words, text);
    /* The space between a label and its text is written with the text, so no line ends in spaces. */
    if (f->owed && f->column + f->owed < f->width) {
        lmi_pad(&f->j->out, ' ', f->owed);
        f->column += f->owed;
    } else if (f->owed) {
        flow_break(f);
    }
    f->owed = 0;
    if (!f->fresh) {
        if (f->column + 3 + lmi_width(text) <= f->width) {
            lmi_put(&f->j->out, dot);
            f->column += 3;
        } else {
            flow_break(f);
        }
    }
    /* Right after the dot the first word needs no further space, and it fits. */
    if (words.s && !words.bad) flow_words(f, style, words.s);
    lmi_buf_used(&words, &f->j->out);
}

void lmi_flow_end(lmi_flow *f) {
    if (f->column > 0) lmi_putc(&f->j->out, '\n');
    f->column = f->owed = 0;
    f->fresh = true;
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
