/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that are nearly the same on each system. */
#include "base/system.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { NS = 1000000000 };

bool lmi_is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* -- the system -------------------------------------------------------------------------------- */

#if defined(_WIN32)
#define SYSTEM "Windows"
#elif defined(__APPLE__)
#define SYSTEM "macOS"
#elif defined(__linux__)
#define SYSTEM "Linux"
#else
#define SYSTEM "a system that is not known"
#endif

#if defined(__x86_64__)
#define PROCESSOR "x86-64"
#elif defined(__aarch64__)
#define PROCESSOR "AArch64"
#else
#define PROCESSOR "a processor that is not known"
#endif

const char *lmi_system(void) { return SYSTEM " on " PROCESSOR; }

const char *lmi_system_lacks(void) {
#ifdef _WIN32
    return "recordings and saved reports are read here; no model can be run, and there is no pager";
#else
    return "";
#endif
}

const char *lmi_no_models(void) {
#ifdef _WIN32
    return "no model can be run on Windows; record one or save its report on Linux or macOS, and read that "
           "file here";
#else
    return NULL;
#endif
}

/* -- programs ---------------------------------------------------------------------------------- */

#ifdef _WIN32
#define BETWEEN ";"
#define ENDING  ".exe"
#define MAY_RUN F_OK
#else
#define BETWEEN ":"
#define ENDING  ""
#define MAY_RUN X_OK
#endif

enum { MOST_FOLDERS = 256 };
typedef struct identity {
    dev_t device;
    ino_t file;
} identity;

/* A folder of PATH that is empty is the current one. */
static bool is_program(const char *folder, size_t n, const char *name, char *to, size_t room,
                       struct stat *st) {
    const int wrote = snprintf(to, room, "%.*s/%s" ENDING, n ? (int)n : 1, n ? folder : ".", name);
    return wrote > 0 && (size_t)wrote < room && stat(to, st) == 0 && S_ISREG(st->st_mode) &&
           access(to, MAY_RUN) == 0;
}

/* Windows gives files no numbers (0): there each is another one. */
static bool is_among(const identity *seen, int n, const struct stat *st) {
    for (int i = 0; i < n; i++)
        if (st->st_ino && seen[i].file == st->st_ino && seen[i].device == st->st_dev) return true;
    return false;
}

bool lmi_in_path(const char *name, int i, char *to, size_t room) {
    identity seen[MOST_FOLDERS];
    struct stat st;
    const char *at = getenv("PATH");
    for (int n = 0; at && n <= i && n < MOST_FOLDERS;) {
        const size_t length = strcspn(at, BETWEEN);
        if (is_program(at, length, name, to, room, &st) && !is_among(seen, n, &st)) {
            if (n == i) return true;
            seen[n++] = (identity){st.st_dev, st.st_ino};
        }
        at = at[length] ? at + length + 1 : NULL;
    }
    return false;
}

/* -- files ------------------------------------------------------------------------------------- */

bool lmi_write_fd(int fd, const char *bytes, size_t n) {
    while (n > 0) {
        ssize_t done = write(fd, bytes, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        bytes += done;
        n -= (size_t)done;
    }
    return true;
}

/* -- time and threads -------------------------------------------------------------------------- */

int64_t lmi_unix_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * NS + t.tv_nsec;
}

bool lmi_thread_start(pthread_t *thread, size_t stack, void *(*run)(void *), void *of) {
    pthread_attr_t attr;
    if (pthread_attr_init(&attr) != 0) return false;
    (void)pthread_attr_setstacksize(&attr, stack);
#ifndef _WIN32
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
#endif
    bool started = pthread_create(thread, &attr, run, of) == 0;
#ifndef _WIN32
    pthread_sigmask(SIG_SETMASK, &before, NULL);
#endif
    pthread_attr_destroy(&attr);
    return started;
}

struct timespec lmi_wake_after(int ms) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += ms % 1000 * 1000000L;
    t.tv_sec += t.tv_nsec / NS;
    t.tv_nsec %= NS;
    return t;
}

#if defined(__APPLE__) || defined(_WIN32)

/* macOS can't choose the clock of a condition, but it can wait for a duration. */
bool lmi_wake_init(pthread_cond_t *wake) { return pthread_cond_init(wake, NULL) == 0; }

int lmi_wake_wait(pthread_cond_t *wake, pthread_mutex_t *lock, const struct timespec *until) {
    const struct timespec now = lmi_wake_after(0);
    struct timespec left = {until->tv_sec - now.tv_sec, until->tv_nsec - now.tv_nsec};
    if (left.tv_nsec < 0) {
        left.tv_sec--;
        left.tv_nsec += NS;
    }
    return left.tv_sec < 0 ? ETIMEDOUT : pthread_cond_timedwait_relative_np(wake, lock, &left);
}

#else

bool lmi_wake_init(pthread_cond_t *wake) {
    pthread_condattr_t attr;
    if (pthread_condattr_init(&attr) != 0) return false;
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    bool ok = pthread_cond_init(wake, &attr) == 0;
    pthread_condattr_destroy(&attr);
    return ok;
}

int lmi_wake_wait(pthread_cond_t *wake, pthread_mutex_t *lock, const struct timespec *until) {
    return pthread_cond_timedwait(wake, lock, until);
}

#endif
