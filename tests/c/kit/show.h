/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports as text (shown.h), and transcripts to hold them against. LAMINA_GOLDEN=write in the environment
 * rewrites those of our own table; git shows what changed. */
#ifndef LAMINA_TEST_SHOW_H
#define LAMINA_TEST_SHOW_H

#include "kit/shown.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

OOM_UNUSED static lam_report_options show_options(const char *layout, const char *format) {
    lam_report_options o;
    lam_report_defaults(&o);
    if (layout) o.layout = layout;
    if (format) o.format = format;
    return o;
}

OOM_UNUSED static const char *show(const lam_costs *c, const lam_report_options *o) {
    lam_error e = {0};
    lam_status s = lam_report_write(c, o, show_sink(), &e);
    if (s != LAM_OK) fail_msg("lam_report_write: %s: %s", e.where, e.text);
    return shown;
}

/* The file's text; the caller frees. NULL where there is none. */
OOM_UNUSED static char *show_read(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    char *text = calloc(1, sizeof shown);
    assert_non_null(text);
    size_t n = fread(text, 1, sizeof shown - 1, f);
    text[n] = '\0';
    fclose(f);
    return text;
}

OOM_UNUSED static void show_difference(const char *name, const char *got, const char *want) {
    int line = 1;
    const char *g = got, *w = want;
    while (*g && *g == *w) {
        if (*g == '\n') line++;
        g++;
        w++;
    }
    while (g > got && g[-1] != '\n') g--;
    while (w > want && w[-1] != '\n') w--;
    fail_msg("%s differs at line %d:\n got '%.*s'\nwant '%.*s'", name, line, (int)strcspn(g, "\n"), g,
             (int)strcspn(w, "\n"), w);
}

/* Holds what was shown last against tests/data/report/<name>.txt. `ours`: may be rewritten on request. */
OOM_UNUSED static void show_golden(const char *name, bool ours) {
    char path[512];
    snprintf(path, sizeof path, "%s/report/%s.txt", LAMINA_TEST_DATA, name);
    const char *rewrite = getenv("LAMINA_GOLDEN");
    if (ours && rewrite && strcmp(rewrite, "write") == 0) {
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        assert_int_equal(fwrite(shown, 1, shown_n, f), shown_n);
        assert_int_equal(fclose(f), 0);
        return;
    }
    char *want = show_read(path);
    if (!want) fail_msg("there is no %s", path);
    if (strcmp(shown, want) != 0) show_difference(name, shown, want);
    free(want);
}

#endif
