/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages as transcripts (shown.h): one element a line, without what changes for reasons of its own, which is
 * their style, their script, the sums of both, lamina's version and the folder of a test. */
#ifndef LAMINA_TEST_PAGE_TEXT_H
#define LAMINA_TEST_PAGE_TEXT_H

#include "kit/shown.h"

#include "lamina.h"

/* What stands between `from` and `to` at the place p of a text is left out; NULL: no `from` is there. */
OOM_UNUSED static const char *page_left_out(const char *p, const char *from, const char *to) {
    if (strncmp(p, from, strlen(from)) != 0) return NULL;
    const char *end = strstr(p + strlen(from), to);
    if (!end) fail_msg("no '%s' after '%s'", to, from);
    return end;
}

/* Makes of what was shown last a text that a transcript can be held against. `whole`: nothing is left out. */
OOM_UNUSED static void page_as_lines(bool whole) {
    static const char *const out[][3] = {{"<style>", "</style>", "<style>"},
                                         {"<script>", "</script>", "<script>"},
                                         {"'sha256-", "'", "'sha256-"},
                                         {P_tmpdir "/lamina_test_", "/", "FOLDER"}};
    char *from = malloc(shown_n + 1), *to = shown;
    assert_non_null(from);
    memcpy(from, shown, shown_n + 1);
    for (const char *p = from; *p;) {
        const char *next = NULL;
        size_t version = strlen(lam_version());
        for (size_t i = 0; i < sizeof out / sizeof *out && !next && !whole; i++) {
            next = page_left_out(p, out[i][0], out[i][1]);
            if (next) to += sprintf(to, "%s", out[i][2]);
        }
        const bool begins = p == from || !strchr("0123456789.", p[-1]);
        if (!next && begins && strncmp(p, lam_version(), version) == 0) {
            to += sprintf(to, "VERSION");
            next = p + version;
        }
        if (next) {
            p = next;
            continue;
        }
        *to++ = *p++;
        const bool element = p[-1] == '>' && *p == '<' && p[1] != '/';
        const bool value = p > from + 1 && (p[-2] == ']' || p[-2] == '}') && p[-1] == ',' && *p == '"';
        if (element || value) *to++ = '\n';
        assert_true(to < shown + sizeof shown - 64);
    }
    *to = '\0';
    shown_n = (size_t)(to - shown);
    free(from);
}

OOM_UNUSED static void page_golden(const char *name) {
    page_as_lines(false);
    show_golden(name, true);
}

#endif
