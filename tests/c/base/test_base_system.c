/* SPDX-License-Identifier: Apache-2.0
 *
 * What differs between operating systems. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* posix_openpt */
#endif
#include "kit/oom.h"

#include "base/system.h"

#include <stdio.h>
#include <sys/ioctl.h>

static char folder[] = P_tmpdir "/lamina-system-XXXXXX";

static const char *in_folder(const char *name) {
    static char paths[4][128];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void put_file(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    assert_true(fd >= 0);
    assert_true(lmi_write_fd(fd, text, strlen(text)));
    assert_int_equal(close(fd), 0);
}

static void says_what_it_is(void **state) {
    (void)state;
    assert_non_null(strstr(lmi_system(), " on "));
    assert_null(strstr(lmi_system(), "not known"));
    assert_int_equal(lmi_no_models() != NULL, strstr(lmi_system(), "Windows") != NULL);
    assert_int_equal(*lmi_system_lacks() != '\0', lmi_no_models() != NULL);
}

/* The first variable that is set to something decides, whatever the later ones are. */
static void the_locale_tells_whether_a_terminal_is_utf8(void **state) {
    (void)state;
    static const struct {
        const char *all, *ctype, *lang;
        bool utf8;
    } cases[] = {{"", "", "", false},
                 {"", "", "C.UTF-8", true},
                 {"", "", "en_US.utf8", true},
                 {"", "", "en_US.ISO-8859-1", false},
                 {"", "", "C", false},
                 {"", "C.UTF-8", "C", true},
                 {"", "C", "C.UTF-8", false},
                 {"de_DE.UTF-8@euro", "C", "C", true},
                 {"C", "C.UTF-8", "C.UTF-8", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int unset = 0; unset < 2; unset++) {
            const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"}, *const values[] = {cases[i].all,
                                                                                           cases[i].ctype,
                                                                                           cases[i].lang};
            for (int k = 0; k < 3; k++)
                if (unset && !*values[k])
                    unsetenv(names[k]);
                else
                    setenv(names[k], values[k], 1);
            if (lmi_is_terminal_utf8() != cases[i].utf8) fail_msg("case %d", (int)i);
        }
}

static void a_terminal_has_a_size(void **state) {
    (void)state;
    int32_t columns = -1, rows = -2;
    const int before = dup(STDOUT_FILENO), file = open("/dev/null", O_WRONLY | O_CLOEXEC);
    const int ours = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(before >= 0 && file >= 0 && dup2(file, STDOUT_FILENO) >= 0);
    lmi_terminal_size(&columns, &rows); /* no terminal: as before */
    const bool kept = columns == -1 && rows == -2;
    const struct winsize wanted = {.ws_col = 93, .ws_row = 41};
    int theirs = -1;
    if (ours >= 0 && grantpt(ours) == 0 && unlockpt(ours) == 0)
        theirs = open(ptsname(ours), O_RDWR | O_NOCTTY);
    const bool set =
        theirs >= 0 && ioctl(theirs, TIOCSWINSZ, &wanted) == 0 && dup2(theirs, STDOUT_FILENO) >= 0;
    if (set) lmi_terminal_size(&columns, &rows);
    dup2(before, STDOUT_FILENO);
    close(before), close(file), close(ours), close(theirs);
    assert_true(kept);
    if (!set) skip(); /* there is no pseudoterminal here */
    assert_int_equal(columns, 93);
    assert_int_equal(rows, 41);
}

static void writing_fails_with_a_reason(void **state) {
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(lmi_wait_readable(ends[0], 0), 0);
    assert_true(lmi_write_fd(ends[1], "abc", 3));
    assert_int_equal(lmi_wait_readable(ends[0], 1000), 1);
    close(ends[0]);
    lmi_start(NULL, NULL); /* else the next line ends this process */
    assert_false(lmi_write_fd(ends[1], "abc", 3));
    assert_int_equal(errno, EPIPE);
    close(ends[1]);
}

static void a_file_is_replaced(void **state) {
    (void)state;
    char text[8] = "";
    const char *from = in_folder("new"), *to = in_folder("old");
    put_file(from, "new");
    put_file(to, "old");
    assert_int_equal(lmi_rename(from, to), 0);
    assert_int_equal(access(from, F_OK), -1);
    int fd = open(to, O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(fd, text, sizeof text), 3);
    close(fd);
    assert_string_equal(text, "new");
    assert_int_equal(lmi_rename(from, to), -1);
    assert_int_equal(errno, ENOENT);
}

/* A file may look larger than it is. */
static void sizes_on_the_disk(void **state) {
    (void)state;
    const char *hole = in_folder("hole"), *full = in_folder("full");
    static char bytes[1 << 16];
    memset(bytes, 'x', sizeof bytes - 1);
    put_file(hole, "");
    assert_int_equal(truncate(hole, 1 << 30), 0);
    put_file(full, bytes);
    assert_true(lmi_disk_size(hole) < 1 << 20);
    int fd = open(full, O_RDONLY | O_CLOEXEC);
    fsync(fd); /* some file systems find a place for it only now */
    close(fd);
    assert_in_range(lmi_disk_size(full), 1, 1 << 20);
    assert_int_equal(lmi_disk_size(in_folder("none")), 0);
}

static void a_process_has_ended_only_where_it_ran(void **state) {
    (void)state;
    char here[256] = "";
    assert_int_equal(gethostname(here, sizeof here - 1), 0);
    assert_false(lmi_is_gone(here, (int64_t)getpid()));
    assert_false(lmi_is_gone(here, 1)); /* which may not be asked, by a user who is not root */
    assert_true(lmi_is_gone(here, INT32_MAX));
    assert_false(lmi_is_gone("another.example", INT32_MAX));
}

static void *wake(void *of) {
    void **both = of;
    pthread_mutex_lock(both[1]);
    pthread_cond_signal(both[0]);
    pthread_mutex_unlock(both[1]);
    return NULL;
}

static void a_wait_ends_by_time_or_by_another_thread(void **state) {
    (void)state;
    pthread_cond_t condition;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_t other;
    void *both[] = {&condition, &lock};
    assert_true(lmi_wake_init(&condition));
    pthread_mutex_lock(&lock);
    const struct timespec now = lmi_wake_after(0);
    int woken = 0;
    while (woken == 0) woken = lmi_wake_wait(&condition, &lock, &now);
    assert_int_equal(woken, ETIMEDOUT);
    const struct timespec far = lmi_wake_after(3600 * 1000);
    assert_true(far.tv_sec - now.tv_sec >= 3600);
    assert_true(far.tv_nsec >= 0 && far.tv_nsec < 1000000000);
    assert_true(lmi_thread_start(&other, 512 << 10, wake, both));
    assert_int_equal(lmi_wake_wait(&condition, &lock, &far), 0);
    pthread_mutex_unlock(&lock);
    pthread_join(other, NULL);
    pthread_cond_destroy(&condition);
    assert_true(lmi_unix_now() > INT64_C(1700000000) * 1000000000);
}

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    static const char *const names[] = {"old", "hole", "full"};
    for (int i = 0; i < 3; i++) unlink(in_folder(names[i]));
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_what_it_is),
        cmocka_unit_test(the_locale_tells_whether_a_terminal_is_utf8),
        cmocka_unit_test(a_terminal_has_a_size),
        cmocka_unit_test(writing_fails_with_a_reason),
        cmocka_unit_test(a_file_is_replaced),
        cmocka_unit_test(sizes_on_the_disk),
        cmocka_unit_test(a_process_has_ended_only_where_it_ran),
        cmocka_unit_test(a_wait_ends_by_time_or_by_another_thread),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
