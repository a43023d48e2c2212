/* SPDX-License-Identifier: Apache-2.0
 * What differs between operating systems. The rooms include this and call POSIX's functions by their names;
 * those that Windows lacks are in windows.c. What can't be the same everywhere has a name of ours. Only this
 * room asks which system it is. */
#ifndef LMI_BASE_SYSTEM_H
#define LMI_BASE_SYSTEM_H

#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifdef _WIN32
#include <direct.h>
#define O_CLOEXEC (_O_NOINHERIT | _O_BINARY) /* line ends are not changed */
#define O_NONBLOCK 0
#define mkdir(folder, mode) ((void)(mode), _mkdir(folder))
#define lstat(file, out) stat(file, out)
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

/* For which system and processor this was compiled, as in "Linux on x86-64". */
const char *lmi_system(void);
/* What does not work there, after that name; "" where everything does. */
const char *lmi_system_lacks(void);
/* Why no model can be run there; NULL where one can. */
const char *lmi_no_models(void);

/* -- the process ----------------------------------------------------------------------------------------- */

/* Makes ready the arguments, which become UTF-8, and the streams of a program. A closed pipe is an error of
 * write and ends nothing. */
void lmi_start(int *argc, char ***argv);
bool lmi_is_terminal_utf8(void);
/* Changes nothing if the output is no terminal. */
void lmi_terminal_size(int32_t *columns, int32_t *rows);
/* True if that process of that machine has ended. One that may not be asked, or is elsewhere, has not. */
bool lmi_is_gone(const char *host, int64_t pid);
/* Runs a line of the shell, which reads the text, and waits for it. False: there is no such program. */
bool lmi_feed_shell(char *line, const char *text, size_t n);

/* -- files ----------------------------------------------------------------------------------------------- */

/* Writes all of it; false, with errno, if that fails. */
bool lmi_write_fd(int fd, const char *bytes, size_t n);
/* As poll for reading does: 0 if nothing arrived in that time, -1 with errno. */
int lmi_wait_readable(int fd, int ms);
/* As rename does: it replaces a file that is there. */
int lmi_rename(const char *from, const char *to);
/* The bytes that a file takes on its disk, which may be less than it holds; 0: not known. */
int64_t lmi_disk_size(const char *file);

/* -- time and threads ------------------------------------------------------------------------------------ */

int64_t lmi_unix_now(void); /* in nanoseconds */
/* A thread that gets none of the program's signals. */
bool lmi_thread_start(pthread_t *thread, size_t stack, void *(*run)(void *), void *of);
/* A condition that is waited for by a clock which nobody sets; so long from now, by that clock; the wait, as
 * that of pthread_cond_timedwait. */
bool lmi_wake_init(pthread_cond_t *wake);
struct timespec lmi_wake_after(int ms);
int lmi_wake_wait(pthread_cond_t *wake, pthread_mutex_t *lock, const struct timespec *until);

#endif
