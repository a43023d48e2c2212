/* SPDX-License-Identifier: Apache-2.0
 *
 * Sinks for what is written: one that keeps it, so that it can be looked at, and one that refuses it. */
#ifndef LAMINA_TEST_SHOWN_H
#define LAMINA_TEST_SHOWN_H

#include "kit/oom.h"

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

#endif
