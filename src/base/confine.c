/* SPDX-License-Identifier: Apache-2.0
 *
 * A process that gives up, for good, what reading a file does not need: Linux' landlock keeps it from other
 * files, and a filter of system calls from the network, from other programs and from other processes. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* O_PATH, CLONE_THREAD */
#endif
#include "base/system.h"

#if defined(__linux__) && defined(__has_include)
#if __has_include(<linux/landlock.h>) && __has_include(<linux/seccomp.h>)
#define HAS_LANDLOCK
#endif
#endif

#ifdef HAS_LANDLOCK
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* -- files: landlock ------------------------------------------------------------------------------------- */

/* The numbers of these calls are the same on every processor. */
enum { CREATE_RULESET = 444, ADD_RULE = 445, RESTRICT_SELF = 446 };

/* As struct landlock_ruleset_attr, which older headers have without its later fields. */
typedef struct ruleset {
    uint64_t files, network, scoped;
} ruleset;

/* What each version of landlock added can be forbidden: on files all, TCP, signals and abstract sockets. */
enum { TO_VERSION_1 = 13, TCP = 3, SCOPED = 3 };

static int version(void) {
    const long v = syscall(CREATE_RULESET, NULL, (size_t)0, (uint32_t)LANDLOCK_CREATE_RULESET_VERSION);
    return v > 0 ? (int)v : 0;
}

static int new_rules(void) {
    const int v = version();
    const int kinds = TO_VERSION_1 + (v >= 2) + (v >= 3) + (v >= 5);
    const ruleset all = {(UINT64_C(1) << kinds) - 1, v >= 4 ? TCP : 0, v >= 6 ? SCOPED : 0};
    const size_t size = v >= 6 ? sizeof all : v >= 4 ? 2 * sizeof all.files : sizeof all.files;
    return v ? (int)syscall(CREATE_RULESET, &all, size, (uint32_t)0) : -1;
}

/* -- everything else: a filter of system calls ----------------------------------------------------------- */

#if defined(__x86_64__)
#define PROCESSOR AUDIT_ARCH_X86_64
#elif defined(__aarch64__) && !defined(__AARCH64EB__)
#define PROCESSOR AUDIT_ARCH_AARCH64
#endif
#endif

#ifdef PROCESSOR
/* What it takes to read files, to write to what is open, and to have memory, threads and time. */
static const uint32_t allowed[] = {
    SYS_pread64,
    SYS_read,
    SYS_write,
    SYS_openat,
    SYS_close,
    SYS_fstat,
    SYS_newfstatat,
    SYS_munmap,
    SYS_brk,
    SYS_futex,
    SYS_lseek,
    SYS_mremap,
    SYS_madvise,
    SYS_readv,
    SYS_writev,
    SYS_preadv,
    SYS_pwrite64,
    SYS_ftruncate,
    SYS_fsync,
    SYS_fdatasync,
    SYS_fadvise64,
    SYS_readahead,
    SYS_getdents64,
    SYS_faccessat,
    SYS_readlinkat,
    SYS_getcwd,
    SYS_dup,
    SYS_statx,
    SYS_ppoll,
    SYS_pselect6,
    SYS_wait4,
    SYS_waitid,
    SYS_exit,
    SYS_exit_group,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_rt_sigpending,
    SYS_rt_sigtimedwait,
    SYS_rt_sigsuspend,
    SYS_sigaltstack,
    SYS_restart_syscall,
    SYS_set_tid_address,
    SYS_set_robust_list,
    SYS_get_robust_list,
    SYS_sched_yield,
    SYS_sched_getaffinity,
    SYS_getcpu,
    SYS_membarrier,
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_clock_nanosleep,
    SYS_nanosleep,
    SYS_gettimeofday,
    SYS_getrandom,
    SYS_getrusage,
    SYS_times,
    SYS_sysinfo,
    SYS_uname,
    SYS_getpid,
    SYS_getppid,
    SYS_gettid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_mincore,
    439, /* faccessat2 */
    449, /* futex_waitv */
#ifdef __x86_64__
    SYS_open,
    SYS_stat,
    SYS_lstat,
    SYS_access,
    SYS_readlink,
    SYS_poll,
    SYS_select,
    SYS_time,
    SYS_arch_prctl,
    SYS_getrlimit,
    334, /* rseq */
#else
    293, /* rseq */
#endif
};

/* Calls that depend on one argument. */
typedef enum test { IS, HAS, LACKS } test; /* the argument is the value; has, or lacks, a bit of it */
typedef struct conditional {
    uint32_t call, argument, value;
    test test;
} conditional;
#define TERMINAL_2  0x802c542aU /* TCGETS2, which newer C libraries have in isatty */
#define NAME_MEMORY 0x53564d41U /* PR_SET_VMA */
static const conditional conditionals[] = {
    {SYS_mmap, 2, PROT_EXEC, LACKS},   {SYS_mprotect, 2, PROT_EXEC, LACKS},
    {SYS_clone, 0, CLONE_THREAD, HAS}, /* no process */
    {SYS_prlimit64, 0, 0, IS},         /* of this process */
    {SYS_ioctl, 1, TCGETS, IS},        {SYS_ioctl, 1, TERMINAL_2, IS},
    {SYS_ioctl, 1, TIOCGWINSZ, IS},    {SYS_fcntl, 1, F_DUPFD_CLOEXEC, IS},
    {SYS_fcntl, 1, F_GETFD, IS},       {SYS_fcntl, 1, F_SETFD, IS},
    {SYS_fcntl, 1, F_GETFL, IS},       {SYS_fcntl, 1, F_SETFL, IS},
    {SYS_prctl, 0, PR_SET_NAME, IS},   {SYS_prctl, 0, NAME_MEMORY, IS},
};

enum {
    N_ALLOWED = sizeof allowed / sizeof *allowed,
    N_CONDITIONAL = sizeof conditionals / sizeof *conditionals + 1,
    MOST_CODE = 10 + N_ALLOWED + 5 * N_CONDITIONAL,
    CLONE3 = 435, /* its flags are in memory, where no filter sees them; libc then calls clone */
    NUMBER = offsetof(struct seccomp_data, nr)
};

_Static_assert(N_ALLOWED <= UINT8_MAX, "a jump passes over all of them");

typedef struct program {
    struct sock_filter code[MOST_CODE];
    unsigned short n;
} program;

static void put(program *p, uint16_t code, uint32_t k, uint8_t yes, uint8_t no) {
    p->code[p->n++] = (struct sock_filter){code, yes, no, k};
}

static void answer(program *p, uint32_t with) { put(p, BPF_RET | BPF_K, with, 0, 0); }
static void load(program *p, size_t at) { put(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)at, 0, 0); }
/* Passes over the next `n` instructions unless what is loaded is `value`. */
static void unless_equal(program *p, uint32_t value, uint8_t n) {
    put(p, BPF_JMP | BPF_JEQ | BPF_K, value, 0, n);
}

static void put_conditional(program *p, const conditional *c) {
    const size_t low_half = offsetof(struct seccomp_data, args) + sizeof(uint64_t) * c->argument;
    unless_equal(p, c->call, 4);
    load(p, low_half);
    if (c->test == IS)
        unless_equal(p, c->value, 1);
    else
        put(p, BPF_JMP | BPF_JSET | BPF_K, c->value, c->test == LACKS, c->test == HAS);
    answer(p, SECCOMP_RET_ALLOW);
    load(p, NUMBER);
}

static bool filter_calls(void) {
    enum { ALL_THREADS = 1, NO_SLOWER = 4 }; /* SECCOMP_FILTER_FLAG_TSYNC, _SPEC_ALLOW */
    program p = {.n = 0};
    const conditional own = {SYS_tgkill, 0, (uint32_t)getpid(), IS}; /* abort() */
    load(&p, offsetof(struct seccomp_data, arch));
    unless_equal(&p, PROCESSOR, 1);
    put(&p, BPF_JMP | BPF_JA, 1, 0, 0);
    answer(&p, SECCOMP_RET_ERRNO | EPERM);
    load(&p, NUMBER);
    for (size_t i = 0; i < N_ALLOWED; i++) /* one answer for all: the kernel compiles each instruction */
        put(&p, BPF_JMP | BPF_JEQ | BPF_K, allowed[i], (uint8_t)(N_ALLOWED - i), 0);
    put(&p, BPF_JMP | BPF_JA, 1, 0, 0);
    answer(&p, SECCOMP_RET_ALLOW);
    for (size_t i = 0; i < sizeof conditionals / sizeof *conditionals; i++)
        put_conditional(&p, &conditionals[i]);
    put_conditional(&p, &own);
    unless_equal(&p, CLONE3, 1);
    answer(&p, SECCOMP_RET_ERRNO | ENOSYS);
    answer(&p, SECCOMP_RET_ERRNO | EPERM);
    const struct sock_fprog all = {p.n, p.code};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, ALL_THREADS | NO_SLOWER, &all) == 0;
}

static bool can_filter(void) {
    const uint32_t action = SECCOMP_RET_ERRNO;
    return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}
#endif

/* -- both ------------------------------------------------------------------------------------------------ */

#ifdef HAS_LANDLOCK
#ifndef PROCESSOR
static bool can_filter(void) { return false; }
static bool filter_calls(void) { return false; }
#endif

unsigned lmi_can_confine(void) {
    return (version() ? LMI_NO_OTHER_FILES : 0u) | (can_filter() ? LMI_NO_OTHER_CALLS : 0u);
}

lmi_confinement lmi_confine_begin(void) { return (lmi_confinement){new_rules()}; }

void lmi_confine_allow(const lmi_confinement *c, const char *path, unsigned may) {
    struct stat st;
    const int at = c->rules >= 0 ? open(path, O_PATH | O_CLOEXEC) : -1;
    if (at < 0) return;
    const struct landlock_path_beneath_attr rule = {
        .allowed_access = ((may & LMI_MAY_READ) ? (uint64_t)LANDLOCK_ACCESS_FS_READ_FILE : 0) |
                          ((may & LMI_MAY_LIST) ? (uint64_t)LANDLOCK_ACCESS_FS_READ_DIR : 0),
        .parent_fd = at};
    /* A rule for a folder would hold for all that is below it: it is for its list alone. */
    if (fstat(at, &st) == 0 && (S_ISDIR(st.st_mode) != 0) == (may == LMI_MAY_LIST))
        (void)syscall(ADD_RULE, c->rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
    close(at);
}

unsigned lmi_confine_end(lmi_confinement *c) {
    unsigned holds = 0;
    const bool able = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0; /* both want it */
    if (able && c->rules >= 0 && syscall(RESTRICT_SELF, c->rules, 0) == 0) holds |= LMI_NO_OTHER_FILES;
    if (c->rules >= 0) close(c->rules);
    c->rules = -1;
    if (able && can_filter() && filter_calls()) holds |= LMI_NO_OTHER_CALLS;
    return holds;
}
#else
unsigned lmi_can_confine(void) { return 0; }
lmi_confinement lmi_confine_begin(void) { return (lmi_confinement){-1}; }
void lmi_confine_allow(const lmi_confinement *c, const char *path, unsigned may) {
    (void)c, (void)path, (void)may;
}
unsigned lmi_confine_end(lmi_confinement *c) { return (void)c, 0; }
#endif
