/* SPDX-License-Identifier: Apache-2.0
 *
 * How long the thread that writes sleeps and what a turn of it writes, seen where it goes to sleep: the wait
 * of this file takes the place of the system's. */
#include "kit/oom.h"
#include "kit/recorded.h"

#include <errno.h>
#include <pthread.h>

static _Atomic int64_t longest_ns; /* that was asked for */
static _Atomic int sleeps;         /* that came to their end */
static _Atomic int begun;          /* waits within them */
static _Atomic bool brief;         /* each ends after a millisecond */
static _Atomic bool endless;       /* none ends before the recording does */

static int64_t ns_until(const struct timespec *until) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (until->tv_sec - now.tv_sec) * 1000000000 + until->tv_nsec - now.tv_nsec;
}

static int ended(void) {
    sleeps++;
    return ETIMEDOUT;
}

/* Wakes each millisecond, which a wait may: who waits looks again. */
int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock, const struct timespec *until) {
    const struct timespec ms = {0, 1000000};
    const int64_t ns = ns_until(until);
    (void)cond;
    begun++;
    if (ns > longest_ns) longest_ns = ns;
    if (ns <= 0 && !endless) return ended();
    pthread_mutex_unlock(lock);
    nanosleep(&ms, NULL);
    pthread_mutex_lock(lock);
    return brief && !endless ? ended() : 0;
}

/* A few times a second: a program that trains must not notice it, and a kill may lose a second at most. */
static void the_writer_sleeps_between_its_turns(void **state) {
    (void)state;
    const struct timespec ms = {0, 1000000};
    const char *file = step_file("asleep.lamina");
    lam_recorder *w = step_recorder(file, 0, 1);
    while (sleeps < 3) nanosleep(&ms, NULL);
    step_put(w, 1, 1, true);
    assert_int_equal(lam_recorder_close(w, NULL), LAM_OK);
    assert_in_range(longest_ns, 100000000, 500000000);
    lam_recording *r = open_recording(file, 0, 0);
    assert_int_equal(lam_recording_model(r, 0)->n_steps, 1);
    lam_recording_free(r);
}

/* A run without steps is seen to be alive, and not in each turn. */
static void a_run_without_steps_is_alive(void **state) {
    (void)state;
    const struct timespec ms = {0, 1000000};
    const char *file = step_file("alive.lamina"), *seen = "SELECT seen_unix_ns FROM runs";
    brief = true;
    sleeps = 0;
    lam_recorder *w = step_recorder(file, 0, 1);
    const int64_t first = number_in(file, seen);
    for (int i = 0; number_in(file, seen) == first && i < LONGEST_MS; i++) nanosleep(&ms, NULL);
    assert_true(sleeps >= 9);
    assert_true(number_in(file, seen) > first);
    brief = false;
    assert_int_equal(lam_recorder_close(w, NULL), LAM_OK);
}

/* So a kill loses what was handed over since the last turn began. */
static void each_turn_writes_all_that_was_handed_over(void **state) {
    (void)state;
    const char *file = step_file("turns.lamina");
    brief = true;
    lam_recorder *w = step_recorder(file, 0, 1);
    for (int64_t i = 0; i < 30; i++) {
        for (int k = 0; k < 3; k++) step_put(w, 3 * i + k, 1, true);
        const int turn = sleeps;
        while (sleeps < turn + 2) wait_ms(1); /* the end of one sleep, a turn, and another sleep */
        assert_int_equal(number_in(file, "SELECT count(*) FROM steps"), 3 * i + 3);
    }
    brief = false;
    assert_int_equal(lam_recorder_close(w, NULL), LAM_OK);
}

/* Where the writer falls behind, what was dropped may have had another tree. */
static void a_dropped_tree_is_not_known(void **state) {
    (void)state;
    const char *file = step_file("behind.lamina");
    lam_recorder *w = step_recorder(file, 0, 1);
    endless = true;
    for (int asleep = begun; begun == asleep;) wait_ms(1);
    step_put(w, 0, 1, true);
    for (int i = 1; i < LMI_RING; i++) assert_true(put_again(w, 0, i, 1, true));
    assert_int_equal(lam_recorder_dropped(w), 0);
    step_put(w, 0, 1, true);
    assert_int_equal(lam_recorder_dropped(w), 1);
    assert_false(put_again(w, 0, 1, 1, true));
    endless = false;
    assert_int_equal(lam_recorder_close(w, NULL), LAM_OK);
    assert_int_equal(number_in(file, "SELECT count(*) FROM steps"), LMI_RING);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_writer_sleeps_between_its_turns),
        cmocka_unit_test(a_run_without_steps_is_alive),
        cmocka_unit_test(each_turn_writes_all_that_was_handed_over),
        cmocka_unit_test(a_dropped_tree_is_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
