/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes, terminals and files of Linux and macOS. */
#include "base/system.h"

#ifndef _WIN32

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>

extern char **environ;

/* -- the process ------------------------------------------------------------------------------- */

/* Fresh pages cost more than what is computed in them, so memory is used again that is freed: what reading
 * took serves the numbers and the table. Longer pieces go back to the system, as they would leave gaps. The
 * beginning of the heap is taken in huge pages, each of which is one fault of the processor instead of 512:
 * a quarter of the time for a safetensors header of 1 MB (bench/files.py). The heap begins one page before
 * the first of them, which takes what malloc writes before madvise is called: a page in use would keep that
 * one from being huge, and further pages are a fault each, a tenth of the time of resnet50 as .pt2. */
static void keep_memory(void) {
#ifdef __GLIBC__
    enum { LONG = 8 << 20, PIECES = 65536 };
    mallopt(M_MMAP_THRESHOLD, LONG);
    mallopt(M_TRIM_THRESHOLD, INT32_MAX);
#ifdef MADV_HUGEPAGE
    const uintptr_t huge = 2 << 20, heap = 128 << 20, page = 4096;
    (void)sbrk((intptr_t)(-((uintptr_t)sbrk(0) + page) & (huge - 1)));
    mallopt(M_MMAP_MAX, 0);
    void *all = malloc(heap); /* nothing is written there, so it is not in use yet */
    mallopt(M_MMAP_MAX, PIECES);
    const uintptr_t from = ((uintptr_t)all + huge - 1) & ~(huge - 1);
    if (all) (void)madvise((void *)from, heap - huge, MADV_HUGEPAGE);
    free(all);
#endif
#endif
}

void lmi_start(int *argc, char ***argv) {
    (void)argc, (void)argv;
    keep_memory();
    signal(SIGPIPE, SIG_IGN);
}

/* The first of these variables that is set and not empty is the locale of characters. */
bool lmi_is_terminal_utf8(void) {
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (int i = 0; i < 3; i++) {
        const char *v = getenv(names[i]), *dot = v ? strchr(v, '.') : NULL;
        if (v && *v) return dot && (!strncasecmp(dot + 1, "utf-8", 5) || !strncasecmp(dot + 1, "utf8", 4));
    }
    return false;
}

void lmi_terminal_size(int32_t *columns, int32_t *rows) {
    struct winsize w;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) != 0) return;
    *columns = w.ws_col;
    *rows = w.ws_row;
}

bool lmi_is_gone(const char *host, int64_t pid) {
    char here[256] = ""; /* host names are not longer */
    if (gethostname(here, sizeof here - 1) != 0 || strcmp(here, host) != 0) return false;
    return kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

/* -- a line of the shell ----------------------------------------------------------------------- */

/* Signals of the terminal's keys, and of a program that stops reading: this process ignores them while it
 * waits for the program. */
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

/* Resets these signals for the program: a signal that is ignored here would stay ignored in it. */
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

/* The exit code of a process, once it has ended; 0: a signal ended it. */
static int result_of(pid_t pid) {
    int status = 0;
    pid_t done;
    do {
        done = waitpid(pid, &status, 0);
    } while (done < 0 && errno == EINTR);
    return done == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

/* False if the shell says that there is no such program. */
static bool ended_well(pid_t pid) {
    const int code = result_of(pid);
    return code != 126 && code != 127;
}

bool lmi_feed_shell(char *line, const char *text, size_t n) {
    struct sigaction before[N_SIGNALS];
    int ends[2];
    pid_t pid = 0;
    if (pipe(ends) != 0) return false;
    ignore_signals(before);
    bool ok = spawn(line, ends, before, &pid);
    close(ends[0]);
    if (ok) (void)lmi_write_fd(ends[1], text, n); /* the program may stop reading early */
    close(ends[1]);
    ok = ok && ended_well(pid);
    restore_signals(before);
    return ok;
}

/* -- a question to a program -------------------------------------------------------------------- */

/* Starts it with nothing to read, and with the pipe's end to write to. */
static bool start_program(const char *const *argv, const int ends[2], pid_t *pid) {
    posix_spawn_file_actions_t files;
    if (posix_spawn_file_actions_init(&files) != 0) return false;
    bool ok = posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO) == 0 &&
              posix_spawn_file_actions_addclose(&files, ends[0]) == 0 &&
              posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0) == 0 &&
              posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0) == 0 &&
              posix_spawnp(pid, argv[0], &files, NULL, (char *const *)(void *)argv, environ) == 0;
    posix_spawn_file_actions_destroy(&files);
    return ok;
}

bool lmi_ask_program(const char *const *argv, char *to, size_t room) {
    enum { LONGEST_MS = 5000 };
    int ends[2];
    pid_t pid;
    size_t n = 0;
    if (pipe(ends) != 0) return false;
    const bool started = start_program(argv, ends, &pid);
    close(ends[1]);
    for (bool more = started; more && n + 1 < room;) {
        more = lmi_wait_readable(ends[0], LONGEST_MS) > 0 && read(ends[0], to + n, 1) == 1 && to[n] != '\n';
        n += more;
    }
    to[n] = '\0';
    close(ends[0]);
    if (started) {
        (void)kill(pid, SIGKILL); /* one that has ended is only waited for */
        (void)result_of(pid);
    }
    return n > 0;
}

/* -- another process --------------------------------------------------------------------------- */

bool lmi_hand_start(lmi_hand *all, int n, int i, int (*work)(void *of, int from), void *of) {
    int ends[2];
    if (pipe(ends) != 0) return false;
    const pid_t pid = fork();
    if (pid == 0) {
        for (int k = 0; k < n; k++) /* else the others would not see the end of their bytes */
            if (all[k].pid) close(all[k].to);
        close(ends[1]);
        _exit(work(of, ends[0])); /* what is to be done at the end of the program is this process's */
    }
    close(ends[0]);
    if (pid > 0)
        all[i] = (lmi_hand){pid, ends[1]};
    else
        close(ends[1]);
    return pid > 0;
}

int lmi_hand_end(lmi_hand *h) {
    struct sigaction before[N_SIGNALS];
    ignore_signals(before);
    close(h->to);
    const int result = result_of((pid_t)h->pid);
    restore_signals(before);
    *h = (lmi_hand){0, -1};
    return result;
}

/* -- files ------------------------------------------------------------------------------------- */

ssize_t lmi_read_at(int fd, void *to, size_t n, uint64_t at) { return pread(fd, to, n, (off_t)at); }

int lmi_wait_readable(int fd, int ms) {
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    return poll(&ready, 1, ms);
}

int lmi_rename(const char *from, const char *to) { return rename(from, to); }

int64_t lmi_disk_size(const char *file) {
    struct stat st;
    return stat(file, &st) == 0 ? (int64_t)st.st_blocks * 512 : 0;
}

#endif
