/* SPDX-License-Identifier: Apache-2.0
 *
 * What a confined process can't do, and what it still can; each is tried in a process of its own, which is
 * confined for good. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* environ */
#endif
#include "kit/oom.h"

#include "base/system.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

static const char MINE[] = "confined_mine", OTHER[] = "confined_other", FOLDER[] = "confined_folder";
static int open_before = -1; /* a file that was opened for writing before */
static pid_t sleeper;        /* another process of this user */

static void put_file(const char *path) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("text", f);
    assert_int_equal(fclose(f), 0);
}

static int make_files(void **state) {
    (void)state;
    put_file(MINE);
    put_file(OTHER);
    mkdir(FOLDER, 0777);
    put_file("confined_folder/file");
    open_before = open("confined_written", O_RDWR | O_CREAT | O_TRUNC, 0666);
    return open_before < 0;
}

/* True if open fails because it may not. */
static bool is_refused(const char *path, int flags) {
    const int fd = open(path, flags, 0666);
    if (fd >= 0) close(fd);
    return fd < 0 && errno == EACCES;
}

/* -- each of these runs in a confined process, and returns whether it went as it should -------------------
 */

static bool reads_what_is_allowed(void) {
    char text[8];
    const int fd = open(MINE, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && pread(fd, text, sizeof text, 0) == 4 && memcmp(text, "text", 4) == 0;
}

static bool writes_to_what_is_open(void) {
    return write(open_before, "more", 4) == 4 && ftruncate(open_before, 0) == 0;
}

static bool lists_what_is_allowed(void) {
    DIR *dir = opendir(FOLDER);
    return dir && readdir(dir);
}

static bool opens_no_other_file(void) {
    return is_refused(OTHER, O_RDONLY) && is_refused("/etc/passwd", O_RDONLY) &&
           is_refused("confined_folder/file", O_RDONLY) && is_refused("/proc/self/maps", O_RDONLY) &&
           is_refused(".", O_RDONLY | O_DIRECTORY);
}

static bool writes_no_file(void) {
    return is_refused(MINE, O_WRONLY) && is_refused(OTHER, O_WRONLY) && is_refused(MINE, O_RDWR) &&
           is_refused("confined_new", O_WRONLY | O_CREAT) && unlink(OTHER) != 0 && rename(OTHER, MINE) != 0 &&
           mkdir("confined_made", 0777) != 0 && link(OTHER, "confined_link") != 0;
}

static bool has_no_network(void) {
    int pair[2];
    return socket(AF_INET, SOCK_STREAM, 0) < 0 && errno == EPERM && socket(AF_INET6, SOCK_DGRAM, 0) < 0 &&
           socket(AF_UNIX, SOCK_STREAM, 0) < 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0;
}

static bool starts_no_program(void) {
    char *argv[] = {(char *)"true", NULL};
    execv("/bin/true", argv);
    return errno == EPERM || errno == EACCES;
}

static bool makes_no_process(void) { return fork() < 0 && errno == EPERM; }

static bool touches_no_process(void) {
    return kill(sleeper, SIGTERM) < 0 && kill(sleeper, 0) < 0 && chmod(OTHER, 0600) < 0;
}

static bool runs_no_memory(void) {
    void *plain = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return plain != MAP_FAILED && mprotect(plain, 4096, PROT_READ) == 0 &&
           mprotect(plain, 4096, PROT_READ | PROT_EXEC) != 0 &&
           mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
}

static void *work(void *of) {
    char *large = malloc(1 << 22);
    if (large) memset(large, 1, 1 << 22);
    *(bool *)of = large != NULL;
    free(large);
    return NULL;
}

static bool has_memory_threads_and_time(void) {
    pthread_t thread;
    bool done = false;
    struct timespec moment = {0, 1000};
    if (!lmi_thread_start(&thread, 1 << 20, work, &done) || pthread_join(thread, NULL) != 0) return false;
    return done && lmi_unix_now() > 0 && nanosleep(&moment, NULL) == 0 && getpid() > 0;
}

static void *look(void *of) {
    *(bool *)of = opens_no_other_file();
    return NULL;
}

static bool stays_confined_in_a_later_thread(void) {
    pthread_t thread;
    bool refused = false;
    return pthread_create(&thread, NULL, look, &refused) == 0 && pthread_join(thread, NULL) == 0 && refused;
}

/* -- the processes ----------------------------------------------------------------------------------------
 */

enum { WENT_WELL = 10, WENT_ILL, NOT_CONFINED };

/* Runs one of them; the exit code or, of a signal, its negative number. */
static int confined(bool (*what)(void), unsigned wanted) {
    const pid_t pid = fork();
    int status = 0;
    if (pid == 0) {
        lmi_confinement c = lmi_confine_begin();
        lmi_confine_allow(&c, MINE, LMI_MAY_READ);
        lmi_confine_allow(&c, FOLDER, LMI_MAY_LIST);
        lmi_confine_allow(&c, FOLDER, LMI_MAY_READ); /* of a folder nothing is read but its list */
        lmi_confine_allow(&c, "confined_nowhere", LMI_MAY_READ);
        const unsigned holds = lmi_confine_end(&c);
        _exit((holds & wanted) != wanted ? NOT_CONFINED : what() ? WENT_WELL : WENT_ILL);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void what_is_needed_still_works(void **state) {
    (void)state;
    const unsigned all = lmi_can_confine();
    assert_int_equal(confined(reads_what_is_allowed, all), WENT_WELL);
    assert_int_equal(confined(writes_to_what_is_open, all), WENT_WELL);
    assert_int_equal(confined(lists_what_is_allowed, all), WENT_WELL);
    assert_int_equal(confined(has_memory_threads_and_time, all), WENT_WELL);
}

static void other_files_can_not_be_opened(void **state) {
    (void)state;
    if (!(lmi_can_confine() & LMI_NO_OTHER_FILES)) skip();
    assert_int_equal(confined(opens_no_other_file, LMI_NO_OTHER_FILES), WENT_WELL);
    assert_int_equal(confined(writes_no_file, LMI_NO_OTHER_FILES), WENT_WELL);
    assert_int_equal(confined(stays_confined_in_a_later_thread, LMI_NO_OTHER_FILES), WENT_WELL);
}

static void network_programs_and_processes_are_out_of_reach(void **state) {
    (void)state;
    if (!(lmi_can_confine() & LMI_NO_OTHER_CALLS)) skip();
    sleeper = fork();
    if (sleeper == 0) {
        pause();
        _exit(0);
    }
    assert_true(sleeper > 0);
    assert_int_equal(confined(has_no_network, LMI_NO_OTHER_CALLS), WENT_WELL);
    assert_int_equal(confined(starts_no_program, LMI_NO_OTHER_CALLS), WENT_WELL);
    assert_int_equal(confined(makes_no_process, LMI_NO_OTHER_CALLS), WENT_WELL);
    assert_int_equal(confined(touches_no_process, LMI_NO_OTHER_CALLS), WENT_WELL);
    assert_int_equal(confined(runs_no_memory, LMI_NO_OTHER_CALLS), WENT_WELL);
    assert_int_equal(kill(sleeper, SIGKILL), 0);
    assert_int_equal(waitpid(sleeper, NULL, 0), sleeper);
}

static bool aborts(void) {
    abort();
    return false;
}

static void a_confined_process_can_end_by_a_signal(void **state) {
    (void)state;
    assert_int_equal(confined(aborts, 0), -SIGABRT);
}

/* -- other processes that hold what is written to ----------------------------------------------------------
 */

static int count_bytes(void *of, int from) {
    char piece[100];
    ssize_t n, all = *(int *)of;
    while ((n = read(from, piece, sizeof piece)) > 0) all += n;
    return (int)all;
}

static void a_hand_gets_bytes_and_gives_a_result(void **state) {
    (void)state;
    lmi_hand hands[3] = {0};
    int start = 40;
    for (int i = 0; i < 3; i++) assert_true(lmi_hand_start(hands, 3, i, count_bytes, &start));
    assert_true(lmi_write_fd(hands[0].to, "one", 3));
    assert_true(lmi_write_fd(hands[2].to, "seven", 5));
    for (int i = 0; i < 3; i++) /* each ends when its own bytes end, whichever was started later */
        assert_int_equal(lmi_hand_end(&hands[i]), i == 0 ? 43 : i == 1 ? 40 : 45);
    for (int i = 0; i < 3; i++) assert_int_equal(hands[i].pid, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_needed_still_works),
        cmocka_unit_test(other_files_can_not_be_opened),
        cmocka_unit_test(network_programs_and_processes_are_out_of_reach),
        cmocka_unit_test(a_confined_process_can_end_by_a_signal),
        cmocka_unit_test(a_hand_gets_bytes_and_gives_a_result),
    };
    return cmocka_run_group_tests(tests, make_files, NULL);
}
