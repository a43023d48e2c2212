/* SPDX-License-Identifier: Apache-2.0
 *
 * The pager: output that is higher than the terminal is held back and shown a screen at a time, by the
 * program that LAMINA_PAGER or PAGER names, else by less. As git does it, a shell runs the program's line. */
#include "cmd/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static const char by_default[] = "less";

/* -- whether ----------------------------------------------------------------------------------- */

const char *lmi_pager_named(void) {
    const char *own = getenv("LAMINA_PAGER");
    return own ? own : getenv("PAGER");
}

bool lmi_pager_wanted(const lmi_cli *c) {
    const char *named = lmi_pager_named(), *term = getenv("TERM");
    bool able = c->host->out_is_terminal && c->host->height > 0 && !(term && strcmp(term, "dumb") == 0);
    bool off = c->args.no_pager || (named && (!*named || strcmp(named, "cat") == 0));
    bool file = c->args.output && strcmp(c->args.output, "-") != 0;
    return able && !off && !file && strstr(c->verb->options, "no-pager");
}

/* -- what is held ------------------------------------------------------------------------------ */

bool lmi_hold(lmi_held *h, const char *bytes, size_t n) {
    if (n > h->room - h->n) {
        size_t room = h->room ? h->room : 4096;
        while (room - h->n < n && room <= SIZE_MAX / 2) room *= 2;
        char *text = room - h->n < n ? NULL : realloc(h->text, room);
        if (!text) return false;
        h->text = text;
        h->room = room;
    }
    memcpy(h->text + h->n, bytes, n);
    h->n += n;
    return true;
}

/* The number of bytes of a colour's code, 0 for any other text. */
static size_t code_at(const char *s, const char *end) {
    const char *p = s;
    if (end - p < 2 || p[0] != '\x1b' || p[1] != '[') return 0;
    for (p += 2; p < end && *p != 'm'; p++) continue;
    return (size_t)(p - s) + (p < end);
}

static lam_status put_held(void *to, const char *bytes, size_t n) {
    return lmi_hold(to, bytes, n) ? LAM_OK : LAM_NOMEM;
}

lam_sink lmi_held_sink(lmi_held *h) { return (lam_sink){put_held, h}; }

bool lmi_is_higher(const lmi_held *h, int32_t width, int32_t height) {
    const char *s = h->text, *end = s + h->n;
    int64_t lines = 0, column = 0;
    while (s < end) {
        size_t code = code_at(s, end);
        if (code) {
            s += code;
            continue;
        }
        if (*s == '\n') lines += width > 0 && column > width ? (column + width - 1) / width : 1;
        column = *s == '\n' ? 0 : column + ((*s & 0xc0) != 0x80);
        s++;
    }
    return lines >= height; /* the prompt that follows takes a line */
}

/* -- the program ------------------------------------------------------------------------------- */

/* The line for a shell. The program's own options stay if the user has set them. A first word that is plain
 * is looked for, so that it is we who say that it is not there. NULL: memory ran out. */
static char *line_of(const char *named) {
    static const char form[] = "LESS=${LESS-FRX} LV=${LV--c}; export LESS LV; %s%.*s%s%s";
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+./";
    size_t word = strspn(named, plain);
    bool look = word > 0 && (named[word] == '\0' || named[word] == ' ');
    const char *before = look ? "command -v " : "", *after = look ? " >/dev/null 2>&1 || exit 127; " : "";
    int shown = look && word < 4096 ? (int)word : 0;
    int n = snprintf(NULL, 0, form, before, shown, named, after, named);
    char *line = n < 0 ? NULL : malloc((size_t)n + 1);
    if (line) snprintf(line, (size_t)n + 1, form, before, shown, named, after, named);
    return line;
}

/* What a Ctrl-C or a pager that is quit would do to this process, which waits for the pager. */
enum { N_SIGNALS = 3 };
static const int signals[N_SIGNALS] = {SIGINT, SIGQUIT, SIGPIPE};

static void ignore_signals(struct sigaction before[N_SIGNALS]) {
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigemptyset(&ignore.sa_mask);
    for (int i = 0; i < N_SIGNALS; i++) sigaction(signals[i], &ignore, &before[i]);
}

static void restore_signals(const struct sigaction before[N_SIGNALS]) {
    for (int i = 0; i < N_SIGNALS; i++) sigaction(signals[i], &before[i], NULL);
}

/* The pager itself gets them: what is ignored here would stay so in it. */
static int set_signals(posix_spawnattr_t *how, const struct sigaction before[N_SIGNALS]) {
    sigset_t set;
    sigemptyset(&set);
    for (int i = 0; i < N_SIGNALS; i++)
        if (signals[i] == SIGPIPE || before[i].sa_handler != SIG_IGN) sigaddset(&set, signals[i]);
    int failed = posix_spawnattr_setsigdefault(how, &set);
    return failed ? failed : posix_spawnattr_setflags(how, POSIX_SPAWN_SETSIGDEF);
}

/* Starts a shell whose standard input is the pipe's end; false if it can't be. */
static bool spawn(char *line, const int ends[2], const struct sigaction before[N_SIGNALS], pid_t *pid) {
    char *argv[] = {(char *)"sh", (char *)"-c", line, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    if (posix_spawn_file_actions_init(&files) != 0) return false;
    bool ok = posix_spawnattr_init(&how) == 0;
    if (ok) {
        ok = set_signals(&how, before) == 0 &&
             posix_spawn_file_actions_adddup2(&files, ends[0], STDIN_FILENO) == 0 &&
             posix_spawn_file_actions_addclose(&files, ends[1]) == 0 &&
             posix_spawn(pid, "/bin/sh", &files, &how, argv, environ) == 0;
        posix_spawnattr_destroy(&how);
    }
    posix_spawn_file_actions_destroy(&files);
    return ok;
}

/* False if the shell says that there is no such program. */
static bool ended_well(pid_t pid) {
    int status = 0;
    pid_t done;
    do {
        done = waitpid(pid, &status, 0);
    } while (done < 0 && errno == EINTR);
    int code = done == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    return code != 126 && code != 127;
}

bool lmi_page(const lmi_held *h) {
    const char *named = lmi_pager_named();
    struct sigaction before[N_SIGNALS];
    int ends[2];
    pid_t pid = 0;
    char *line = line_of(named ? named : by_default);
    if (!line || pipe(ends) != 0) {
        free(line);
        return false;
    }
    ignore_signals(before);
    bool ok = spawn(line, ends, before, &pid);
    close(ends[0]);
    if (ok) (void)lmi_write_fd(ends[1], h->text, h->n); /* who quits the pager early has seen enough */
    close(ends[1]);
    ok = ok && ended_well(pid);
    restore_signals(before);
    free(line);
    return ok;
}
