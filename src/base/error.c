/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors: the caller's struct, filled once with the first cause. */
#include "base/base.h"

#include <stdio.h>

const char *lam_version(void) { return LAM_VERSION; }

const char *lam_status_name(lam_status status) {
    static const char *const names[] = {"OK",    "NOMEM", "IO",    "SYNTAX", "UNSUPPORTED",
                                        "LIMIT", "RANGE", "USAGE", "FAILED"};
    int i = -(int)status;
    return i >= 0 && i < (int)(sizeof names / sizeof *names) ? names[i] : "?";
}

/* vsnprintf may cut inside a character, but the text must be valid UTF-8. lmi_clean turns the bytes of a cut
 * character into question marks, and never makes a text longer. */
static void set_text(char *to, size_t size, const char *fmt, va_list args) {
    if (vsnprintf(to, size, fmt, args) < 0) to[0] = '\0';
    lmi_clean(to);
}

static void set_where(lam_error *e, const char *where) {
    size_t n = where ? strlen(where) : 0;
    if (n >= sizeof e->where) n = sizeof e->where - 1;
    if (n) memcpy(e->where, where, n);
    e->where[n] = '\0';
    lmi_clean(e->where);
}

static lam_status fail(lam_error *e, lam_status status, int64_t at, const char *where, const char *fmt,
                       va_list args) {
    if (!e || e->status != LAM_OK) return status;
    set_text(e->text, sizeof e->text, fmt, args);
    set_where(e, where);
    e->status = status;
    e->at = at;
    return status;
}

lam_status lmi_fail(lam_error *e, lam_status status, const char *where, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    fail(e, status, -1, where, fmt, args);
    va_end(args);
    return status;
}

lam_status lmi_fail_at(lam_error *e, lam_status status, int64_t at, const char *where, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    fail(e, status, at, where, fmt, args);
    va_end(args);
    return status;
}

lam_status lmi_no_such(lam_error *e, const char *what, const char *name, const char *of,
                       const char *const *first, size_t size, size_t n) {
    char list[256] = "";
    for (size_t i = 0, used = 0; i < n && used < sizeof list; i++) {
        const char *const *at = (const void *)((const char *)first + i * size);
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", *at);
    }
    return lmi_fail(e, LAM_USAGE, what, "there is no %s '%.60s'%s%s; there are: %s", what, name,
                    of ? " for " : "", of ? of : "", list);
}
