/* SPDX-License-Identifier: Apache-2.0
 *
 * User-defined rules: the file of --rules and the rules that a model's code registered; and the work that
 * --strict finds without a rule. */
#include "base/system.h"
#include "cmd/cmd.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST = 1 << 24, STEP = 1 << 16, WAIT_MS = 5000 };

/* Reads the next bytes; returns -1 with *why. A writer into a pipe may be slow, or may never write. */
static ssize_t read_some(int fd, char *to, size_t n, const char **why) {
    ssize_t got = -1;
    do {
        const int found = lmi_wait_readable(fd, WAIT_MS);
        if (found == 0)
            *why = "no program wrote into it for five seconds; name a file, or start the program that writes "
                   "first";
        if (found > 0) got = read(fd, to, n);
    } while (got < 0 && !*why && (errno == EINTR || errno == EAGAIN));
    if (got < 0 && !*why) *why = strerror(errno);
    return got;
}

/* The whole file, ended by a NUL; NULL with *why if it can't be read. */
static char *read_all(int fd, const char **why) {
    char *text = NULL;
    size_t n = 0;
    for (ssize_t got = 1; got > 0 && n < MOST;) {
        char *more = realloc(text, n + STEP + 1);
        if (!more) *why = "memory ran out";
        if (!more) break;
        text = more;
        got = read_some(fd, text + n, STEP, why);
        if (got > 0) n += (size_t)got;
    }
    if (!*why && n >= MOST) *why = "it is too large";
    if (text) text[n] = '\0';
    if (text && !*why && memchr(text, '\0', n)) *why = "it is not text";
    if (!*why) return text;
    free(text);
    return NULL;
}

void lmi_rules_free(lmi_cli *c) {
    lam_rules_free(c->own);
    free(c->rules_text);
    c->own = NULL;
    c->rules_text = NULL;
}

/* A rule of the file replaces a registered one. */
static lam_status count_by(lmi_cli *c, bool registered, lam_error *e) {
    lam_rules_free(c->own);
    c->own = NULL;
    lam_status s = lam_rules_new(&c->own, e);
    if (s == LAM_OK && registered) s = c->host->rules(c->host->self, c->own, e);
    if (s == LAM_OK && c->rules_text) s = lam_rules_read(c->own, c->rules_text, c->args.rules, e);
    return s;
}

int lmi_rules_wanted(lmi_cli *c) {
    const char *path = c->args.rules, *why = NULL;
    lam_error e = {.at = -1};
    lmi_rules_free(c);
    if (!path) return LMI_EXIT_OK;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* does not wait for a pipe's writer */
    if (fd < 0) why = strerror(errno);
    char *text = fd >= 0 ? read_all(fd, &why) : NULL;
    if (fd >= 0) close(fd);
    if (!text) {
        lmi_complain(c, NULL, "--rules %s: %s", path, why);
        return LMI_EXIT_USAGE;
    }
    c->rules_text = text;
    if (count_by(c, false, &e) != LAM_OK) return lmi_complain_of(c, &e, e.status);
    lam_rule first;
    if (lam_rules_at(c->own, 0, &first)) return LMI_EXIT_OK;
    lmi_complain(c, NULL, "--rules %s: it has no rules; `lamina rules torchscan` prints some", path);
    return LMI_EXIT_USAGE;
}

lam_status lmi_rules_registered(lmi_cli *c, lam_error *e) {
    return c->host->rules ? count_by(c, true, e) : LAM_OK;
}

lam_cost_options lmi_cost_options(const lmi_cli *c, const char *convention) {
    return (lam_cost_options){.convention = convention,
                              .released = c->args.released,
                              .own = c->own,
                              .ask = c->host->ask,
                              .ask_self = c->host->self};
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
