/* SPDX-License-Identifier: Apache-2.0
 *
 * Words that flow: one after another, and on a new line where the page ends. Every sentence that is fitted to
 * a width is fitted here. No line is wider than the page but for a word that has to stay whole, none ends in
 * spaces, and no word is lost: one that is cut goes on in the next line. */
#include "base/base.h"

void lmi_put_painted(lmi_buf *b, bool color, const char *style, const char *text, size_t n) {
    bool paint = color && style && n > 0;
    if (paint) lmi_putf(b, "\x1b[%sm", style);
    lmi_putn(b, text, n);
    if (paint) lmi_put(b, "\x1b[0m");
}

void lmi_flow_start(lmi_flow *f, lmi_buf *out, size_t width, size_t indent) {
    *f = (lmi_flow){.out = out, .width = width ? width : SIZE_MAX, .indent = indent, .fresh = true};
}

static void paint(lmi_flow *f, const char *style, const char *text, size_t n) {
    lmi_put_painted(f->out, f->color, style, text, n);
}

static void start_line(lmi_flow *f) {
    f->column = f->indent < f->width ? f->indent : 0;
    lmi_putc(f->out, '\n');
    lmi_pad(f->out, ' ', f->column);
    f->owed = 0;
    f->fresh = true;
}

static size_t room_of(const lmi_flow *f) { return f->width > f->column ? f->width - f->column : 0; }

/* The spaces that are owed are written with the text that follows them, if it begins on this line. The text
 * of a label always does. */
static void pay(lmi_flow *f, size_t columns) {
    if (!f->owed) return;
    size_t room = room_of(f);
    if (f->owed >= room || (!f->fresh && columns > room - f->owed)) {
        start_line(f);
        return;
    }
    lmi_pad(f->out, ' ', f->owed);
    f->column += f->owed;
    f->owed = 0;
}

static void put_word(lmi_flow *f, const char *style, const char *word, size_t n) {
    for (const char *s = word, *end = word + n; s < end;) {
        size_t room = room_of(f), left = (size_t)(end - s), fits = lmi_fit_in(s, left, room);
        const bool longer = fits < left;
        if (longer && !f->fresh) {
            start_line(f);
            continue;
        }
        size_t columns = longer ? room : lmi_width_of(s, left); /* never behind the page's end */
        if (!longer || f->whole) fits = left;
        uint32_t code;
        if (fits == 0) fits = lmi_utf8(s, &code); /* a page of one column can't hold a wide character */
        paint(f, style, s, fits);
        f->column += columns;
        f->fresh = false;
        s += fits;
    }
}

void lmi_flow_words(lmi_flow *f, const char *style, const char *text) {
    bool spaced = false; /* a space is wanted before the next word */
    for (const char *s = text; *s;) {
        size_t n = strcspn(s, " ");
        if (n) pay(f, lmi_width_of(s, n));
        if (n && spaced && !f->fresh) {
            if (lmi_width_of(s, n) < room_of(f)) {
                paint(f, style, " ", 1);
                f->column++;
            } else {
                start_line(f);
            }
        }
        put_word(f, style, s, n);
        s += n;
        spaced = spaced || *s == ' ' || n;
        s += strspn(s, " ");
    }
}

void lmi_flow_label(lmi_flow *f, const char *style, const char *label, size_t gap) {
    lmi_flow_end(f);
    f->owed = strspn(label, " ");
    lmi_flow_words(f, style, label);
    f->owed = gap > 0 ? gap : f->column < f->indent ? f->indent - f->column : f->column > 0;
    f->fresh = true;
}

/* What is before the first space of `between` ends a line. */
void lmi_flow_item(lmi_flow *f, const char *style, const char *text, const char *between) {
    size_t end = strcspn(between, " "), all = lmi_width(between);
    pay(f, 0);
    if (!f->fresh) {
        bool fits = f->column + all + lmi_width(text) + end <= f->width;
        lmi_putn(f->out, between, fits ? strlen(between) : end);
        if (fits)
            f->column += all;
        else
            start_line(f);
    }
    /* Right after `between` the first word needs no further space, and it fits. */
    lmi_flow_words(f, style, text);
}

void lmi_flow_end(lmi_flow *f) {
    if (f->column > 0) lmi_putc(f->out, '\n');
    f->column = f->owed = 0;
    f->fresh = true;
}

/* Where a line's last column begins: after two blanks. 0 if that is in the right half, where text next to it
 * has no room. */
static size_t last_column(const char *line, size_t width) {
    size_t column = strspn(line, " "), half = lmi_fit(line, width / 2);
    if (column > half) return 0;
    for (size_t i = column; i <= half && line[i]; i++)
        if (i > 1 && line[i - 1] == ' ' && line[i - 2] == ' ' && line[i] != ' ') column = i;
    return column;
}

void lmi_flow_line(lmi_buf *out, size_t width, const char *line, size_t further) {
    size_t columns = lmi_width(line);
    if (!width || columns <= width) {
        lmi_put(out, line);
        return;
    }
    lmi_flow f;
    size_t at = last_column(line, width), begun = columns - lmi_width(line + at), column = begun;
    if (!at || at == strspn(line, " ")) column = at + further <= width / 2 ? at + further : 0;
    lmi_flow_start(&f, out, width, column);
    f.whole = true;
    lmi_putn(out, line, at);
    f.column = begun;
    lmi_flow_words(&f, NULL, line + at);
}

/* -- a name that is cut -------------------------------------------------------------------------------- */

/* The last bytes of `s` that are at most `columns` wide, and do not begin with a mark that combines. */
static const char *ending(const char *s, size_t columns) {
    size_t width = lmi_width(s);
    uint32_t code;
    for (size_t n; (n = lmi_utf8(s, &code)) != 0 && (width > columns || !lmi_width_of(s, n)); s += n)
        width -= lmi_width_of(s, n);
    return s;
}

void lmi_put_middle(lmi_buf *b, const char *s, size_t columns, size_t end, const char *dots) {
    if (lmi_width(s) <= columns) {
        lmi_put(b, s);
        return;
    }
    const size_t gap = lmi_width(dots);
    if (columns <= gap)
        lmi_putn(b, s, lmi_fit(s, columns));
    else {
        lmi_putn(b, s, lmi_fit(s, columns - gap - end));
        lmi_put(b, dots);
        lmi_put(b, ending(s, end));
    }
}
