/* SPDX-License-Identifier: Apache-2.0
 * Handlers call nothing but functions that a handler may call. */
#include "process/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { WHAT = 512, LINE = 2048, STACK = 65536 };

static const struct {
    int number;
    const char *name;
} fatal[] = {{SIGSEGV, "SIGSEGV, a segmentation fault"},
             {SIGBUS, "SIGBUS, a bus error"},
             {SIGFPE, "SIGFPE, an arithmetic error"},
             {SIGILL, "SIGILL, an instruction that this processor lacks"},
             {SIGABRT, "SIGABRT, an abort"}};
enum { N_FATAL = sizeof fatal / sizeof *fatal };

static struct {
    bool on;
    char what[WHAT];
    lmx_place_now place;
    struct sigaction before[N_FATAL];
    void *stack; /* for a handler after the stack overflowed; NULL: there was one */
} last;

/* -- a line, without stdio ----------------------------------------------------------------------------- */

typedef struct text {
    char s[LINE];
    size_t n;
} text;

static void add(text *t, const char *s) {
    size_t n = strlen(s), room = sizeof t->s - t->n;
    if (n > room) n = room;
    memcpy(t->s + t->n, s, n);
    t->n += n;
}

/* Names are not trusted: they must not control a terminal. */
static void clean(char *s, size_t n) {
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f) s[i] = '?';
}

static void say(text *t) {
    for (size_t at = 0; at < t->n;) {
        ssize_t wrote = write(STDERR_FILENO, t->s + at, t->n - at);
        if (wrote <= 0) return;
        at += (size_t)wrote;
    }
}

/* -- fatal signals ------------------------------------------------------------------------------------- */

static void restore(void) {
    for (int i = 0; i < N_FATAL; i++) sigaction(fatal[i].number, &last.before[i], NULL);
    last.on = false;
}

/* The handlers are restored first: a fault in here ends the process as the first one would. Raised again, the
 * signal comes when this returns, also to a handler of faulthandler, which was there before. */
static void on_fatal(int number) {
    text t = {.n = 0};
    restore();
    add(&t, "lamina: error: ");
    add(&t, last.what);
    add(&t, ": it was ended by ");
    for (int i = 0; i < N_FATAL; i++)
        if (fatal[i].number == number) add(&t, fatal[i].name);
    add(&t, ", ");
    size_t begins = t.n;
    size_t n = last.place ? last.place(t.s + t.n, (sizeof t.s - t.n) / 2) : 0;
    clean(t.s + begins, n);
    t.n += n;
    if (!n)
        add(&t, "outside every layer: while the model was built, between its layers, or in a backward pass");
    add(&t, "; PYTHONFAULTHANDLER=1 shows the line of Python\n");
    say(&t);
    raise(number);
}

/* The stack of a recursion may be at its end. */
static void take_stack(void) {
    stack_t there;
    if (last.stack || sigaltstack(NULL, &there) != 0 || !(there.ss_flags & SS_DISABLE)) return;
    last.stack = malloc(STACK);
    const stack_t own = {.ss_sp = last.stack, .ss_size = STACK};
    if (last.stack) sigaltstack(&own, NULL);
}

static void give_stack_back(void) {
    const stack_t none = {.ss_flags = SS_DISABLE};
    if (!last.stack) return;
    sigaltstack(&none, NULL);
    free(last.stack);
    last.stack = NULL;
}

bool lmx_last_words(const char *what, lmx_place_now place) {
    struct sigaction now = {.sa_handler = on_fatal, .sa_flags = SA_ONSTACK};
    if (last.on) lmx_no_last_words();
    size_t n = strlen(what);
    if (n >= WHAT) n = WHAT - 1;
    memcpy(last.what, what, n);
    last.what[n] = '\0';
    clean(last.what, n);
    last.place = place;
    take_stack();
    sigemptyset(&now.sa_mask);
    last.on = true;
    for (int i = 0; i < N_FATAL; i++)
        if (sigaction(fatal[i].number, &now, &last.before[i]) != 0) last.on = false;
    return last.on;
}

void lmx_no_last_words(void) {
    if (!last.on) return;
    restore();
    give_stack_back();
}

/* -- Ctrl-C -------------------------------------------------------------------------------------------- */

static struct {
    bool on;
    int ms;
    volatile sig_atomic_t seen;
    struct sigaction interrupt, alarm; /* those before */
} end;

/* By the signal itself, of which a shell makes exit code 130. */
static void end_now(int unused) {
    static const char said[] = "lamina: error: interrupted\n";
    (void)unused;
    (void)!write(STDERR_FILENO, said, sizeof said - 1);
    signal(SIGINT, SIG_DFL);
    raise(SIGINT);
}

/* Python notes the signal, and raises KeyboardInterrupt when it runs again. */
static void on_interrupt(int number) {
    if (end.seen) end_now(number);
    end.seen = 1;
    const struct itimerval soon = {.it_value = {.tv_sec = end.ms / 1000, .tv_usec = end.ms % 1000 * 1000}};
    setitimer(ITIMER_REAL, &soon, NULL);
    void (*before)(int) = end.interrupt.sa_handler;
    if (before != SIG_DFL && before != SIG_IGN) before(number);
}

bool lmx_end_at_interrupt(int ms) {
    struct sigaction now = {.sa_handler = on_interrupt}, ring = {.sa_handler = end_now};
    if (end.on || sigaction(SIGINT, NULL, &end.interrupt) != 0 || end.interrupt.sa_handler == SIG_IGN)
        return end.on;
    sigemptyset(&now.sa_mask);
    sigemptyset(&ring.sa_mask);
    end.ms = ms;
    end.seen = 0;
    end.on = sigaction(SIGALRM, &ring, &end.alarm) == 0 && sigaction(SIGINT, &now, NULL) == 0;
    return end.on;
}

void lmx_not_at_interrupt(void) {
    static const struct itimerval never;
    if (!end.on) return;
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGINT, &end.interrupt, NULL);
    sigaction(SIGALRM, &end.alarm, NULL);
    end.on = false;
}

/* -- a program that is recorded ------------------------------------------------------------------------ */

/* Those that end a process by default: from a launcher or a scheduler, and faults. */
static const struct {
    int number;
    const char *name;
    bool fault; /* a handler of it ends the process too, as that of faulthandler */
} ending[] = {{SIGTERM, "SIGTERM", false}, {SIGHUP, "SIGHUP", false},   {SIGXCPU, "SIGXCPU", false},
              {SIGUSR1, "SIGUSR1", false}, {SIGUSR2, "SIGUSR2", false}, {SIGSEGV, "SIGSEGV", true},
              {SIGBUS, "SIGBUS", true},    {SIGFPE, "SIGFPE", true},    {SIGILL, "SIGILL", true},
              {SIGABRT, "SIGABRT", true}};
enum { N_ENDING = sizeof ending / sizeof *ending };

static struct {
    volatile lmx_signal_report report; /* NULL: off */
    pid_t process;
    bool set[N_ENDING];
    struct sigaction before[N_ENDING]; /* the default where it was not set */
} tell;

/* The signal comes again when this returns, with what was there before. */
static void on_ending(int number) {
    const int error = errno;
    int i = 0;
    while (i < N_ENDING - 1 && ending[i].number != number) i++;
    const lmx_signal_report report = tell.report;
    if (report && tell.process == getpid()) report(ending[i].name);
    sigaction(number, &tell.before[i], NULL);
    raise(number);
    errno = error;
}

void lmx_tell_signals(lmx_signal_report report) {
    struct sigaction now = {.sa_handler = on_ending, .sa_flags = SA_ONSTACK};
    const bool on = tell.report != NULL; /* in a forked child maybe by its parent */
    tell.process = getpid();
    if (on) return;
    sigemptyset(&now.sa_mask);
    tell.report = report;
    for (int i = 0; i < N_ENDING; i++) {
        struct sigaction before;
        tell.set[i] = false;
        if (sigaction(ending[i].number, NULL, &before) != 0) continue;
        if (before.sa_handler != SIG_DFL && (!ending[i].fault || before.sa_handler == SIG_IGN)) continue;
        tell.before[i] = before;
        tell.set[i] = sigaction(ending[i].number, &now, NULL) == 0;
    }
}

void lmx_tell_no_signals(void) {
    if (!tell.report) return;
    for (int i = 0; i < N_ENDING; i++) {
        struct sigaction now;
        if (!tell.set[i] || sigaction(ending[i].number, NULL, &now) != 0) continue;
        if (now.sa_handler == on_ending) sigaction(ending[i].number, &tell.before[i], NULL);
    }
    tell.report = NULL;
}
