/* SPDX-License-Identifier: Apache-2.0
 *
 * How long the thread that writes sleeps, seen where it goes to sleep: the wait of this file takes the place
 * of the system's. */
#include "kit/oom.h"
#include "kit/recorded.h"

#include <errno.h>
#include <pthread.h>

static _Atomic int64_t longest_ns; /* that was asked for */
static _Atomic int sleeps;         /* that came to their end */
static _Atomic bool brief;         /* each ends after a millisecond */

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
    if (ns > longest_ns) longest_ns = ns;
    if (ns <= 0) return ended();
    pthread_mutex_unlock(lock);
    nanosleep(&ms, NULL);
    pthread_mutex_lock(lock);
    return brief ? ended() : 0;
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
    while (number_in(file, seen) == first && sleeps < 1000) nanosleep(&ms, NULL);
    assert_in_range(sleeps, 9, 999);
    assert_true(number_in(file, seen) > first);
    brief = false;
    assert_int_equal(lam_recorder_close(w, NULL), LAM_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_writer_sleeps_between_its_turns),
        cmocka_unit_test(a_run_without_steps_is_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
