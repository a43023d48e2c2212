/* SPDX-License-Identifier: Apache-2.0
 *
 * Sinks for what is written: one that keeps it, so that it can be looked at, and one that refuses it; and
 * transcripts to hold it against. LAMINA_GOLDEN=write in the environment rewrites those of our own; git shows
 * what changed. */
#ifndef LAMINA_TEST_SHOWN_H
#define LAMINA_TEST_SHOWN_H

#include "kit/oom.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What was written since show_sink. The storage is static, so that keeping it allocates nothing. */
static char shown[8 << 20];
static size_t shown_n;

OOM_UNUSED static lam_status show_put(void *to, const char *bytes, size_t n) {
    (void)to;
    if (shown_n + n >= sizeof shown) return LAM_IO;
    memcpy(shown + shown_n, bytes, n);
    shown_n += n;
    shown[shown_n] = '\0';
    return LAM_OK;
}

OOM_UNUSED static lam_sink show_sink(void) {
    shown_n = 0;
    shown[0] = '\0';
    return (lam_sink){show_put, NULL};
}

OOM_UNUSED static lam_status show_refuse(void *to, const char *bytes, size_t n) {
    (void)to, (void)bytes, (void)n;
    return LAM_IO;
}

/* A sink that takes nothing. */
OOM_UNUSED static lam_sink show_refusing(void) { return (lam_sink){show_refuse, NULL}; }

/* Holds what was shown last against a part that it must have. */
OOM_UNUSED static void show_has(const char *part) {
    if (!strstr(shown, part)) fail_msg("no '%s' in\n%s", part, shown);
}

OOM_UNUSED static void show_lacks(const char *part) {
    if (strstr(shown, part)) fail_msg("'%s' is in\n%s", part, shown);
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

OOM_UNUSED static void show_difference(const char *name, const char *is, const char *want) {
    int line = 1;
    const char *g = is, *w = want;
    while (*g && *g == *w) {
        if (*g == '\n') line++;
        g++;
        w++;
    }
    while (g > is && g[-1] != '\n') g--;
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
