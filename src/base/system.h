/* SPDX-License-Identifier: Apache-2.0
 * Differences between operating systems. The rooms include this and call POSIX functions by their names;
 * those that Windows lacks are in windows.c. Functions that can't be the same everywhere have an lmi_ name.
 * Only this room tests which system it is. */
#ifndef LMI_BASE_SYSTEM_H
#define LMI_BASE_SYSTEM_H

#include "base/base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifdef _WIN32
#include <direct.h>
#define O_CLOEXEC            (_O_NOINHERIT | _O_BINARY) /* line ends are not changed */
#define O_NONBLOCK           0
#define mkdir(folder, mode)  ((void)(mode), _mkdir(folder))
#define lstat(file, out)     stat(file, out)
#define realpath(file, room) _fullpath(room, file, 0)
enum { RTLD_NOW, RTLD_LOCAL = 0, RTLD_NOLOAD = 1 };
typedef struct Dl_info {
    const char *dli_fname;
    char room[1024];
} Dl_info;
void *dlopen(const char *file, int flags);
void *dlsym(void *library, const char *name);
int dlclose(void *library);
int dladdr(const void *at, Dl_info *out);
#else
#include <dlfcn.h>
#endif

/* -- the system ------------------------------------------------------------------------------------------ */

/* The system and processor that this was compiled for, such as "Linux on x86-64". */
const char *lmi_system(void);
/* The features that do not work on this system, as a text that follows lmi_system(); "": all work. */
const char *lmi_system_lacks(void);
/* Why no model can be run on this system; NULL: models can be run. */
const char *lmi_no_models(void);

bool lmi_is_folder(const char *path);

/* -- the process ----------------------------------------------------------------------------------------- */

/* Converts the program's arguments to UTF-8 and prepares its streams. Afterwards writing to a closed pipe is
 * an error and does not end the program. */
void lmi_start(int *argc, char ***argv);
bool lmi_is_terminal_utf8(void);
/* Changes nothing if the output is no terminal. */
void lmi_terminal_size(int32_t *columns, int32_t *rows);
/* True if process `pid` on machine `host` has ended. False if this is unknown: it runs on another machine, or
 * may not be queried. */
bool lmi_is_gone(const char *host, int64_t pid);
/* Runs a shell command with the text as its standard input, and waits for it. False: there is no such
 * program. */
bool lmi_feed_shell(char *line, const char *text, size_t n);
/* The i-th program of this name in PATH, in the order in which a shell looks; a file that has several names
 * is found once. False past the last one, and for paths longer than `room`. */
bool lmi_in_path(const char *name, int i, char *to, size_t room);
/* Runs a program, by its path or found in PATH, with arguments that NULL ends, and copies the first line that
 * it writes within five seconds. False: there is none. */
bool lmi_ask_program(const char *const *argv, char *to, size_t room);

/* Another process, which does one thing with the bytes that this one writes to it: this one, once confined,
 * can't do it itself. */
typedef struct lmi_hand {
    int64_t pid; /* 0: there is none */
    int to;
} lmi_hand;
/* Starts `all[i]`, of the `n` that this process may have: it runs work(of, from), which reads from `from`
 * until the end, and ends with the result, 0 to 255. Call it before there are threads. False: it can't be
 * started. */
bool lmi_hand_start(lmi_hand *all, int n, int i, int (*work)(void *of, int from), void *of);
/* Ends the bytes, waits for it, and returns its result. While it waits, keys that interrupt are for the
 * other. */
int lmi_hand_end(lmi_hand *h);

/* -- confinement (confine.c) ----------------------------------------------------------------------------- */

/* What this process can't do any more once it is confined, bits: open files other than those that are
 * allowed; use the network, start programs, touch other processes, run code that it did not load. */
enum { LMI_NO_OTHER_FILES = 1, LMI_NO_OTHER_CALLS = 2 };
enum { LMI_MAY_READ = 1, LMI_MAY_LIST = 2 }; /* a file; the names in a folder */
typedef struct lmi_confinement {
    int rules; /* -1: files can't be confined */
} lmi_confinement;

unsigned lmi_can_confine(void); /* the bits that this system has */
lmi_confinement lmi_confine_begin(void);
/* Allows one file, or the list of one folder; what is not there can't be allowed. */
void lmi_confine_allow(const lmi_confinement *c, const char *path, unsigned may);
/* Confines this process and its later threads for good. What is open stays open. Returns the bits that hold.
 */
unsigned lmi_confine_end(lmi_confinement *c);

/* -- files ----------------------------------------------------------------------------------------------- */

/* Writes all of it; false, with errno, if that fails. */
bool lmi_write_fd(int fd, const char *bytes, size_t n);
/* As pread: reads up to n bytes from a position, and leaves the file's own position. */
ssize_t lmi_read_at(int fd, void *to, size_t n, uint64_t at);
/* As poll for reading does: 0 if nothing arrived in that time, -1 with errno. */
int lmi_wait_readable(int fd, int ms);
/* As rename: replaces an existing file. */
int lmi_rename(const char *from, const char *to);
/* The bytes that a file occupies on its disk, which may be less than its size; 0: unknown. */
int64_t lmi_disk_size(const char *file);

/* -- time and threads ------------------------------------------------------------------------------------ */

int64_t lmi_unix_now(void); /* in nanoseconds */
/* Starts a thread that receives none of the program's signals. */
bool lmi_thread_start(pthread_t *thread, size_t stack, void *(*run)(void *), void *of);
/* A condition with timeouts by a monotonic clock: lmi_wake_after is the moment `ms` from now by that clock,
 * and lmi_wake_wait waits as pthread_cond_timedwait. */
bool lmi_wake_init(pthread_cond_t *wake);
struct timespec lmi_wake_after(int ms);
int lmi_wake_wait(pthread_cond_t *wake, pthread_mutex_t *lock, const struct timespec *until);

#endif
