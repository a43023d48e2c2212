/* SPDX-License-Identifier: Apache-2.0
 * Stamps in the streams of a stand-in for a GPU: what they tell, and that nothing is left behind
 * whatever fails. */
#include "kit/oom.h"

#include "fake_gpu.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DONE = 0, ILLEGAL = 700, THREADS = 4, EACH = 500 };

static lmx_stamps *begin(void) {
    fake_gpu("use", 1);
    lmx_stamps *s = lmx_stamps_new(fake_gpu_streams(), 0);
    assert_non_null(s);
    return s;
}

static int64_t ns_of(const lmx_stamps *s, int32_t i) {
    int32_t stream;
    int64_t ns;
    return lmx_stamps_at(s, i, &stream, &ns) ? ns : -1;
}

static int32_t stream_of(const lmx_stamps *s, int32_t i) {
    int32_t stream;
    int64_t ns;
    return lmx_stamps_at(s, i, &stream, &ns) ? stream : -1;
}

/* Nothing is left: no event, and no error that torch would meet. */
static void end(lmx_stamps *s) {
    lmx_stamps_free(s);
    assert_int_equal(fake_gpu("live", 0), 0);
    assert_int_equal(fake_gpu("errors", 0), 0);
    fake_gpu("use", 0);
    assert_null(fake_gpu_streams());
}

static void has(const lmx_stamps *s, const char *part) {
    const char *why = lmx_stamps_why(s);
    if (!why || !strstr(why, part)) fail_msg("'%s' is not in '%s'", part, why ? why : "nothing");
}

static void the_clock_is_the_work(void **state) {
    (void)state;
    lmx_stamps *s = begin();
    int32_t a = lmx_stamps_put(s);
    fake_gpu("work", 2500);
    int32_t b = lmx_stamps_put(s), c = lmx_stamps_put(s);
    assert_int_equal(ns_of(s, a), -1); /* not before all is over */
    assert_int_equal(fake_gpu("live", 0), 3);
    lmx_stamps_resolve(s);
    assert_int_equal(fake_gpu("live", 0), 0);
    assert_int_equal(ns_of(s, a), 1);
    assert_int_equal(ns_of(s, b), 2501);
    assert_int_equal(ns_of(s, c), 2501);
    assert_int_equal(lmx_stamps_put(s), -1);
    assert_int_equal(ns_of(s, 3), -1);
    assert_int_equal(ns_of(s, -1), -1);
    assert_null(lmx_stamps_why(s));
    end(s);
}

/* Hours of work between two stamps, and microseconds after: what is near is told to the nanosecond still. */
static void a_float_is_not_enough(void **state) {
    (void)state;
    lmx_stamps *s = begin();
    int32_t at[2000];
    for (int i = 0; i < 2000; i++) {
        at[i] = lmx_stamps_put(s);
        fake_gpu("work", i % 100 ? 12345 : INT64_C(1000000000));
    }
    lmx_stamps_resolve(s);
    for (int i = 1; i < 2000; i++) {
        int64_t took = ns_of(s, at[i]) - ns_of(s, at[i - 1]);
        const int64_t truth = (i - 1) % 100 ? 12345 : INT64_C(1000000000), most = (i - 1) % 100 ? 32 : 64;
        if (took < truth - most || took > truth + most) fail_msg("%d: %lld", i, (long long)took);
    }
    end(s);
}

/* One wait for each stream, for its last event. */
static void it_waits_once_a_stream(void **state) {
    (void)state;
    lmx_stamps *s = begin();
    fake_gpu("lazy", 1);
    for (int i = 0; i < 30; i++) {
        fake_gpu("stream", i % 3);
        assert_int_equal(lmx_stamps_put(s), i);
        fake_gpu("work", 10 * (i % 3 + 1));
    }
    assert_int_equal(fake_gpu("syncs", 0), 0);
    lmx_stamps_resolve(s);
    assert_true(fake_gpu("syncs", 0) <= 3 && fake_gpu("syncs", 0) > 0);
    for (int i = 0; i < 30; i++) assert_int_equal(stream_of(s, i), i % 3);
    assert_int_equal(ns_of(s, 27), 1 + 9 * 10);
    assert_int_equal(ns_of(s, 28), 1 + 9 * 20);
    assert_null(lmx_stamps_why(s));
    end(s);
}

/* A stream whose first event lies before the very first of another. */
static void the_least_is_1(void **state) {
    (void)state;
    lmx_stamps *s = begin();
    fake_gpu("work", 5000);
    int32_t late = lmx_stamps_put(s);
    fake_gpu("stream", 2);
    int32_t early = lmx_stamps_put(s);
    lmx_stamps_resolve(s);
    assert_int_equal(ns_of(s, early), 1);
    assert_int_equal(ns_of(s, late), 5001);
    end(s);
}

static void no_more_events(void **state) {
    (void)state;
    lmx_stamps *s = begin();
    fake_gpu("fail_create", 2);
    int32_t a = lmx_stamps_put(s);
    fake_gpu("work", 70);
    int32_t b = lmx_stamps_put(s);
    for (int i = 0; i < 5; i++) assert_int_equal(lmx_stamps_put(s), -1);
    has(s, "no more events: fake error 2 (out of memory)");
    lmx_stamps_resolve(s);
    assert_int_equal(ns_of(s, b) - ns_of(s, a), 70); /* what there is holds */
    end(s);
}

static void errors_are_told(void **state) {
    static const struct {
        const char *what, *says;
    } cases[] = {{"fail_sync", "the device had failed when its clock was to be read: fake error 700 (an "},
                 {"fail_elapsed", "the device's clock could not be read: fake error 700"},
                 {"fail_record", "an event was not taken: fake error 700"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lmx_stamps *s = begin();
        fake_gpu("lazy", 1);
        fake_gpu(cases[i].what, ILLEGAL);
        int32_t a = lmx_stamps_put(s);
        fake_gpu("work", 70);
        int32_t b = lmx_stamps_put(s);
        lmx_stamps_resolve(s);
        assert_int_equal(ns_of(s, a), -1);
        assert_int_equal(ns_of(s, b), -1);
        has(s, cases[i].says);
        end(s);
    }
}

/* Into a graph that is being recorded nothing is put, and reading the clock meanwhile ends no recording. */
static void a_graph_is_not_disturbed(void **state) {
    (void)state;
    lmx_stamps *s = begin();
    int32_t a = lmx_stamps_put(s);
    fake_gpu("work", 10);
    int32_t b = lmx_stamps_put(s);
    fake_gpu("capturing", 1);
    assert_int_equal(lmx_stamps_put(s), -1);
    assert_int_equal(fake_gpu("made", 0), 2);
    has(s, "a graph was being recorded");
    lmx_stamps_resolve(s);
    assert_int_equal(ns_of(s, b) - ns_of(s, a), 10);
    end(s);
}

static void where_nothing_can_be_relaxed(void **state) {
    (void)state;
    fake_gpu("use", 1);
    lmx_streams table = *fake_gpu_streams();
    table.exchange_mode = NULL;
    lmx_stamps *s = lmx_stamps_new(&table, 0);
    int32_t a = lmx_stamps_put(s);
    fake_gpu("capturing", 1);
    lmx_stamps_resolve(s);
    assert_int_equal(ns_of(s, a), -1);
    has(s, "a graph was being recorded when");
    end(s);
}

/* The model is on another device than the one that is current. */
static void on_another_device(void **state) {
    (void)state;
    fake_gpu("use", 1);
    lmx_stamps *s = lmx_stamps_new(fake_gpu_streams(), 1);
    int32_t a = lmx_stamps_put(s);
    fake_gpu("work", 999); /* on the other one */
    fake_gpu("device", 1);
    fake_gpu("work", 40);
    fake_gpu("device", 0);
    int32_t b = lmx_stamps_put(s);
    lmx_stamps_resolve(s);
    assert_int_equal(ns_of(s, b) - ns_of(s, a), 40);
    int now = -1;
    fake_gpu_streams()->get_device(&now);
    assert_int_equal(now, 0);
    lmx_stamps_free(s);
    s = lmx_stamps_new(fake_gpu_streams(), 7);
    assert_int_equal(lmx_stamps_put(s), -1);
    has(s, "the device can't be reached");
    lmx_stamps_resolve(s);
    end(s);
}

static void never_read(void **state) {
    (void)state;
    lmx_stamps *s = begin();
    for (int i = 0; i < 100; i++) lmx_stamps_put(s);
    assert_int_equal(fake_gpu("live", 0), 100);
    end(s);
    s = begin();
    lmx_stamps_resolve(s); /* none */
    assert_int_equal(ns_of(s, 0), -1);
    end(s);
}

static void in_a_child(void **state) {
    (void)state;
    lmx_stamps *s = begin();
    assert_int_equal(lmx_stamps_put(s), 0);
    pid_t child = fork();
    if (child == 0) {
        bool ok = lmx_stamps_put(s) == -1;
        lmx_stamps_resolve(s);
        ok = ok && lmx_stamps_why(s) && strstr(lmx_stamps_why(s), "forked");
        ok = ok && fake_gpu("live", 0) == 1; /* nothing is asked of the device there */
        _exit(ok ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    lmx_stamps_resolve(s);
    assert_int_equal(ns_of(s, 0), 1);
    end(s);
}

static void *put_many(void *at) {
    for (int i = 0; i < EACH; i++) lmx_stamps_put(at);
    return NULL;
}

static void from_threads(void **state) {
    (void)state;
    lmx_stamps *s = begin();
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, put_many, s), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    lmx_stamps_resolve(s);
    assert_int_equal(ns_of(s, THREADS * EACH - 1), 1);
    assert_int_equal(ns_of(s, THREADS * EACH), -1);
    end(s);
}

static void run(void *arg, bool *ok) {
    (void)arg;
    fake_gpu("use", 1);
    lmx_stamps *s = lmx_stamps_new(fake_gpu_streams(), 0);
    for (int i = 0; s && i < 200; i++) {
        fake_gpu("stream", i / 100);
        lmx_stamps_put(s);
    }
    if (s) lmx_stamps_resolve(s);
    *ok = s && !lmx_stamps_why(s);
    lmx_stamps_free(s);
    assert_int_equal(fake_gpu("live", 0), 0);
}

static void memory_may_run_out(void **state) {
    (void)state;
    oom_sweep(run, NULL);
    assert_int_equal(fake_gpu("what is this", 0), -1);
    fake_gpu("use", 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_clock_is_the_work),
        cmocka_unit_test(a_float_is_not_enough),
        cmocka_unit_test(it_waits_once_a_stream),
        cmocka_unit_test(the_least_is_1),
        cmocka_unit_test(no_more_events),
        cmocka_unit_test(errors_are_told),
        cmocka_unit_test(a_graph_is_not_disturbed),
        cmocka_unit_test(where_nothing_can_be_relaxed),
        cmocka_unit_test(on_another_device),
        cmocka_unit_test(never_read),
        cmocka_unit_test(in_a_child),
        cmocka_unit_test(from_threads),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
