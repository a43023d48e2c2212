/* SPDX-License-Identifier: Apache-2.0
 *
 * Outlines written by hand, and what was drawn of them: pieces counted, and read as XML. */
#ifndef LAMINA_TEST_LITTLE_OUTLINE_H
#define LAMINA_TEST_LITTLE_OUTLINE_H

#include "kit/oom.h"

#include "report/picture/picture.h"

#include <stdio.h>
#include <string.h>

enum { LITTLE = 4096 };

/* An outline of at most LITTLE places with one number, whose totals are summed here. */
typedef struct little {
    lmi_outline o;
    lmi_outline_place at[LITTLE];
    int64_t macs[LITTLE], all[LITTLE];
    uint8_t state[LITTLE];
} little;

OOM_UNUSED static little *little_new(void) {
    little *l = calloc(1, sizeof *l);
    assert_non_null(l);
    l->o.at = l->at;
    l->o.name = "Net";
    l->o.peak_place = -1;
    l->o.backward_us = -1;
    l->o.own[LMI_OWN_MACS] = l->macs;
    l->o.total[LMI_OWN_MACS] = l->all;
    l->o.state[LMI_OWN_MACS] = l->state;
    return l;
}

/* The next place in depth-first order, of the type Block if others come below it. */
OOM_UNUSED static int32_t little_place(little *l, int32_t parent, const char *name, int64_t macs) {
    int32_t i = l->o.n++;
    assert_true(i < LITTLE);
    l->at[i] = (lmi_outline_place){.parent = parent, .end = i + 1, .name = name, .type = i ? "Block" : "Net",
                              .in = "", .out = "", .family = LMI_CONVOLUTION, .run = i, .n_run = 1,
                              .level = -1, .formulas = -1};
    l->at[i].depth = parent < 0 ? 0 : l->at[parent].depth + 1;
    l->macs[i] = macs;
    for (int32_t k = i; k >= 0; k = l->at[k].parent) {
        l->all[k] += macs;
        l->at[k].end = i + 1;
    }
    return i;
}

OOM_UNUSED static int count_of(const char *text, const char *part) {
    int n = 0;
    for (const char *p = text; (p = strstr(p, part)) != NULL; p += strlen(part)) n++;
    return n;
}

/* The number after the i-th `before`: an attribute of the i-th element. */
OOM_UNUSED static double number_after(const char *text, const char *before, int i) {
    for (; (text = strstr(text, before)) != NULL; text += strlen(before))
        if (i-- == 0) return strtod(text + strlen(before), NULL);
    fail_msg("not so many '%s'", before);
    return 0;
}

OOM_UNUSED static void has(const char *text, const char *part) {
    if (!strstr(text, part)) fail_msg("no '%s' in\n%s", part, text);
}

OOM_UNUSED static void lacks(const char *text, const char *part) {
    if (strstr(text, part)) fail_msg("'%s' is in\n%s", part, text);
}

/* Elements close in turn, attributes are quoted and hold no `<`; no script, no id, no style attribute. */
OOM_UNUSED static void is_well_formed(const char *text) {
    char open[16][16] = {{0}};
    int depth = 0;
    for (const char *p = text; (p = strchr(p, '<')) != NULL;) {
        bool closes = p[1] == '/';
        size_t n = strspn(p + 1 + closes, "abcdefghijklmnopqrstuvwxyz");
        if (n == 0 || n > 15) fail_msg("a '<' that opens nothing: %.60s", p);
        char name[16] = "";
        memcpy(name, p + 1 + closes, n);
        p += 1 + closes + n;
        while (*p == ' ') {
            p += 1 + strcspn(p + 1, "=> ");
            if (p[0] != '=' || p[1] != '"') fail_msg("an attribute without quotes: %.60s", p);
            p += 2 + strcspn(p + 2, "\"<");
            if (*p != '"') fail_msg("an attribute that does not end: %.60s", p);
            p++;
        }
        if (closes && (depth == 0 || strcmp(open[--depth], name) != 0)) fail_msg("</%s> closes none", name);
        if (!closes && *p == '>') memcpy(open[depth++], name, sizeof name);
        assert_true(depth < 16);
        p += *p == '/';
        if (*p != '>') fail_msg("an element that does not end: %.60s", p);
    }
    assert_int_equal(depth, 0);
    lacks(text, "<script");
    lacks(text, " style=");
    lacks(text, " id=");
}

typedef void (*little_draw)(lmi_buf *out, const lmi_outline *o, const lmi_picture_options *p);

/* What is drawn; good until the next. */
OOM_UNUSED static const char *drawn(little_draw draw, const lmi_outline *o, lmi_picture_options p) {
    static lmi_buf b;
    if (!b.s) lmi_buf_init(&b);
    lmi_buf_clear(&b);
    draw(&b, o, &p);
    assert_false(b.bad);
    is_well_formed(b.s);
    return b.s;
}

#endif
