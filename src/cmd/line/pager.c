/* SPDX-License-Identifier: Apache-2.0
 *
 * The pager: output that is higher than the terminal is held back and shown a screen at a time, by the
 * program that LAMINA_PAGER or PAGER names, else by less. As git does it, a shell runs the program's line. */
#include "base/system.h"
#include "cmd/line/line.h"

#include <stdio.h>
#include <stdlib.h>

static const char by_default[] = "less";

/* -- whether to page --------------------------------------------------------------------------- */

const char *lmi_pager_named(void) {
    const char *own = getenv("LAMINA_PAGER");
    return own ? own : getenv("PAGER");
}

bool lmi_pager_wanted(const lmi_cli *c) {
    const char *named = lmi_pager_named(), *term = getenv("TERM");
    bool able = c->host->out_is_terminal && c->host->height > 0 && !(term && strcmp(term, "dumb") == 0);
    bool off = c->args.no_pager || (named && (!*named || strcmp(named, "cat") == 0));
    return able && !off && !lmi_is_to_file(c) && strstr(c->verb->options, "no-pager");
}

/* -- held output ------------------------------------------------------------------------------- */

/* The number of bytes of a colour's code, 0 for any other text. */
static size_t code_at(const char *s, const char *end) {
    const char *p = s;
    if (end - p < 2 || p[0] != '\x1b' || p[1] != '[') return 0;
    for (p += 2; p < end && *p != 'm'; p++) continue;
    return (size_t)(p - s) + (p < end);
}

bool lmi_is_higher(const lmi_buf *held, int32_t width, int32_t height) {
    const char *s = lmi_buf_text(held), *end = s + held->n;
    int64_t lines = 0, column = 0;
    while (s < end) {
        size_t code = code_at(s, end);
        if (code) {
            s += code;
            continue;
        }
        if (*s == '\n') lines += width > 0 && column > width ? (column + width - 1) / width : 1;
        column = *s == '\n' ? 0 : column + ((*s & 0xc0) != 0x80);
        s++;
    }
    return lines >= height; /* the prompt that follows takes a line */
}

/* -- the program ------------------------------------------------------------------------------- */

/* The line for a shell. It keeps the pager's own options if the user has set them. It looks a plain first
 * word up before running it, so that lamina can report a missing program. */
static void put_line(lmi_buf *line, const char *named) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+./";
    size_t word = strspn(named, plain);
    bool look = word > 0 && (named[word] == '\0' || named[word] == ' ');
    const char *before = look ? "command -v " : "", *after = look ? " >/dev/null 2>&1 || exit 127; " : "";
    int shown = look && word < 4096 ? (int)word : 0;
    lmi_putf(line, "LESS=${LESS-FRX} LV=${LV--c}; export LESS LV; %s%.*s%s%s", before, shown, named, after,
             named);
}

bool lmi_page(const lmi_buf *held) {
    const char *named = lmi_pager_named();
    lmi_buf line;
    lmi_buf_init(&line);
    put_line(&line, named ? named : by_default);
    bool ok = !line.bad && lmi_feed_shell(line.s, lmi_buf_text(held), held->n);
    lmi_buf_free(&line);
    return ok;
}
