/* SPDX-License-Identifier: Apache-2.0
 *
 * The native command: lam_command with the process's own streams. Everything that needs no model is done
 * here; a live model needs Python, so the whole command line is passed to `python3 -m lamina`. */
#include "base/system.h"

#include <stdio.h>
#include <stdlib.h>

/* Run by Python in place of `-m lamina`, so that a missing package is one sentence and not a traceback; %s is
 * what needs it. */
static const char START[] =
    "import sys\n"
    "from importlib.util import find_spec\n"
    "if find_spec('lamina') is None:\n"
    "    sys.stderr.write('lamina: error: %s needs the Python package lamina, which '\n"
    "                     + sys.executable + ' does not have\\n'\n"
    "                     '  hint: pip install lamina, or set LAMINA_PYTHON to a Python that has it\\n')\n"
    "    sys.exit(3)\n"
    "import runpy\n"
    "runpy.run_module('lamina', run_name='__main__', alter_sys=True)\n";

typedef struct process {
    int argc;
    char **argv;
} process;

static lam_status put(void *to, const char *bytes, size_t n) {
    return lmi_write_fd(*(const int *)to, bytes, n) ? LAM_OK : LAM_IO;
}

static const char *python(void) {
    const char *p = getenv("LAMINA_PYTHON");
    return p && *p ? p : "python3";
}

static lam_status no_python(const char *what, lam_error *e) {
    return lmi_fail(
        e, LAM_UNSUPPORTED, python(),
        "%s needs Python with the package lamina (pip install lamina), and it could not be started: "
        "%s; LAMINA_PYTHON may name another one",
        what, strerror(errno));
}

/* Replaces the process by Python; returns only if that fails. */
static lam_status become_python(const process *p, const char *what, lam_error *e) {
    char start[sizeof START + 64];
    if (lmi_no_models()) return lmi_fail(e, LAM_UNSUPPORTED, NULL, "%s", lmi_no_models());
    const char **argv = calloc((size_t)p->argc + 3, sizeof *argv);
    snprintf(start, sizeof start, START, what);
    if (argv) {
        argv[0] = python();
        argv[1] = "-c";
        argv[2] = start;
        for (int i = 1; i < p->argc; i++) argv[i + 2] = p->argv[i];
        execvp(argv[0], (char *const *)(void *)argv);
    }
    lam_status s = no_python(what, e);
    free(argv);
    return s;
}

static lam_status live(void *self, const lam_live *what, lam_model **out, lam_error *e) {
    (void)out;
    if (!strchr(what->target, ':'))
        return lmi_fail(
            e, LAM_USAGE, what->target,
            "it is no file that lamina reads, and no model: these are named as MODULE:NAME or FILE.py:NAME");
    return become_python(self, "a live model", e);
}

static lam_status ranks(void *self, const char *folder, const lam_ranks_look *look, lam_ranks **out,
                        lam_error *e) {
    (void)folder, (void)look, (void)out;
    return become_python(self, "the folder of a run", e);
}

static lam_status merge(void *self, int32_t n, const char *const *recordings, const char *folder,
                        lam_merged *out, lam_error *e) {
    (void)n, (void)recordings, (void)folder, (void)out;
    return become_python(self, "`lamina merge`", e);
}

static lam_status sql(void *self, const char *folder, const char *query, lam_table **out, lam_error *e) {
    (void)folder, (void)query, (void)out;
    return become_python(self, "`lamina sql`", e);
}

/* Python reports on both, if it has the package; else what this command can do is still reported. */
static lam_status doctor(void *self, lam_sink to, lam_error *e) {
    static const char has[] = "from importlib.util import find_spec; print(find_spec('lamina') is not None)";
    const char *const argv[] = {python(), "-c", has, NULL};
    char line[8] = "";
    (void)to;
    if (lmi_ask_program(argv, line, sizeof line) && strcmp(line, "False") == 0)
        return lmi_fail(e, LAM_UNSUPPORTED, python(),
                        "it does not have the package lamina, which live models need (pip install lamina); "
                        "LAMINA_PYTHON may name a Python that has it");
    return become_python(self, "a live model", e);
}

static lam_status script(void *self, const lam_script *what, lam_error *e) {
    (void)what;
    return become_python(self, "`lamina run`", e);
}

static lam_status checks(void *self, lam_take_check take, void *to, lam_error *e) {
    (void)take, (void)to;
    return become_python(self, "a check of live models", e);
}

/* A variable takes precedence over the terminal's own size. */
static int32_t size_by(const char *variable, int32_t measured) {
    const char *text = getenv(variable);
    long n = text ? strtol(text, NULL, 10) : 0;
    return n > 0 && n < 10000 ? (int32_t)n : measured;
}

int main(int argc, char **argv) {
    static const int out = STDOUT_FILENO, err = STDERR_FILENO;
    lmi_start(&argc, &argv);
    process p = {argc, argv};
    lam_host host = {.self = &p,
                     .out = {put, (void *)&out},
                     .err = {put, (void *)&err},
                     .live = live,
                     .ranks = ranks,
                     .merge = merge,
                     .sql = sql,
                     .doctor = lmi_no_models() ? NULL : doctor,
                     .script = script,
                     .checks = checks};
#ifndef LAMINA_UNCONFINED /* what sanitizers and counters of coverage do at the end needs files */
    host.may_confine = true;
#endif
    host.out_is_terminal = isatty(STDOUT_FILENO) == 1;
    host.err_is_terminal = isatty(STDERR_FILENO) == 1;
    host.out_is_utf8 = lmi_is_terminal_utf8();
    if (host.out_is_terminal) {
        lmi_terminal_size(&host.width, &host.height);
        host.width = size_by("COLUMNS", host.width);
        host.height = size_by("LINES", host.height);
    }
    return lam_command(argc, (const char *const *)argv, &host);
}
