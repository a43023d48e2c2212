/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules of the user's own: the file of --rules, and what --strict finds without a rule. */
#include "cmd/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 24, STEP = 1 << 16 };

/* The whole file, ended by a NUL; NULL with *why set where it can't be had. */
static char *read_all(FILE *f, const char **why) {
    char *text = NULL;
    size_t n = 0, got = 1;
    bool room = true;
    while (got > 0 && n < MOST) {
        char *more = realloc(text, n + STEP + 1);
        room = more != NULL;
        if (!room) break;
        text = more;
        got = fread(text + n, 1, STEP, f);
        n += got;
    }
    *why = ferror(f) ? strerror(errno) : !room ? "memory ran out" : got > 0 ? "it is too large" : NULL;
    if (text) text[n] = '\0';
    if (text && !*why && memchr(text, '\0', n)) *why = "it is not text";
    if (!*why) return text;
    free(text);
    return NULL;
}

int lmi_rules_wanted(lmi_cli *c, lam_rules **out) {
    const char *path = c->args.rules, *why = NULL;
    lam_error e = {.at = -1};
    *out = NULL;
    if (!path) return LMI_EXIT_OK;
    FILE *f = fopen(path, "rb");
    char *text = f ? read_all(f, &why) : NULL;
    if (!f) why = strerror(errno);
    if (f) fclose(f);
    if (!text) {
        lmi_complain(c, NULL, "--rules %s: %s", path, why);
        return LMI_EXIT_USAGE;
    }
    lam_status s = lam_rules_new(out, &e);
    if (s == LAM_OK) s = lam_rules_read(*out, text, path, &e);
    free(text);
    if (s == LAM_OK) return LMI_EXIT_OK;
    lam_rules_free(*out);
    *out = NULL;
    return lmi_complain_of(c, &e, s);
}

int lmi_strict(lmi_cli *c, const lam_costs *costs) {
    const char *name;
    int32_t n, found = 0;
    if (!c->args.strict) return LMI_EXIT_OK;
    for (int32_t i = 0; (name = lam_costs_unruled_op(costs, i, &n)) != NULL; i++, found++)
        lmi_complain(c, NULL, "no rule for the operator %s (%d run%s)", name, (int)n, n == 1 ? "" : "s");
    for (int32_t i = 0; (name = lam_costs_unruled(costs, i, &n)) != NULL; i++, found++)
        lmi_complain(c, NULL, "no rule for the layer %s (%d call%s)", name, (int)n, n == 1 ? "" : "s");
    return found ? LMI_EXIT_FINDING : LMI_EXIT_OK;
}
