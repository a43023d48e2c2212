/* SPDX-License-Identifier: Apache-2.0
 *
 * What holds for text on a page of any width: no line is wider, none ends in spaces, no word is lost. */
#ifndef LAMINA_TEST_PAGES_H
#define LAMINA_TEST_PAGES_H

#include "kit/oom.h"

#include "base/base.h"

#include <string.h>

/* Holds each line against the width. `whole`: a word that is wider may stand alone in its line, or behind the
 * label in its left half. */
OOM_UNUSED static void page_fits(const char *text, size_t width, bool whole) {
    for (const char *s = text; *s; s += strcspn(s, "\n"), s += *s == '\n') {
        const size_t n = strcspn(s, "\n");
        size_t last = n;
        while (last > 0 && s[last - 1] != ' ') last--;
        const bool alone = whole && lmi_width_of(s, last) <= width / 2 + 1;
        if (n && s[n - 1] == ' ') fail_msg("spaces end '%.*s'", (int)n, s);
        if (lmi_width_of(s, n) > width && !alone)
            fail_msg("%d columns are %d: '%.*s'", (int)width, (int)lmi_width_of(s, n), (int)n, s);
    }
}

/* The same words in the same order. `whole`: no word goes on in the next line. */
OOM_UNUSED static void page_same_words(const char *a, const char *b, bool whole) {
    const char *from_a = a, *from_b = b;
    while (*a || *b) {
        const size_t blank_a = strspn(a, " \n"), blank_b = strspn(b, " \n");
        a += blank_a;
        b += blank_b;
        const bool apart = whole && a - blank_a != from_a && b - blank_b != from_b && *a && *b;
        if (*a != *b || (apart && !blank_a != !blank_b)) fail_msg("'%.30s' is '%.30s'", a, b);
        if (*a) a++, b++;
    }
}

#endif
