/* SPDX-License-Identifier: Apache-2.0
 *
 * Recordings as they are written: what stands in them, what a kill, a fork and a full disk leave. */
#include "kit/oom.h"
#include "kit/recorded.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static void steps_come_back(void **state) {
    (void)state;
    lam_recording *r = open_recording(step_recording("whole.lamina", 0, 1, 1), 0, 0);
    const lam_recorded_run *run = lam_recording_run(r);
    const lam_recorded_model *m = lam_recording_model(r, 0);
    assert_string_equal(run->command, "python train.py");
    assert_string_equal(run->lamina, lam_version());
    assert_int_equal(run->every, 100);
    assert_true(run->ended_unix_ns > run->started_unix_ns);
    assert_int_equal(run->n_models, 2); /* one, of two kinds of steps */
    assert_true(m->kind == 0 && m->n_kinds == 2);
    assert_true(m->training && m->gradients == 1 && m->went_back);
    assert_true(m->least_calls == 1 && m->most_calls == 1);
    assert_string_equal(m->name, "Net");
    assert_int_equal(m->params, 30);
    assert_int_equal(m->param_bytes, 120);
    assert_int_equal(m->n_steps, 5); /* the first warms up */
    assert_int_equal(m->last, 500);
    assert_int_equal(m->forward_ns.median, STEP_ROOT_SELF + STEP_FIRST + STEP_SECOND);
    assert_int_equal(m->backward_ns.median, STEP_BACK_FIRST + STEP_BACK_SECOND + 5);
    assert_int_equal(m->step_ns.median, 5000000);
    assert_int_equal(m->step_ns.n, 4);
    assert_int_equal(m->peak_bytes.n, 0);
    assert_int_equal(m->nonfinite, -1);
    const lam_recorded_place *root = lam_recording_place(r, 0, 0), *first = lam_recording_place(r, 0, 1);
    assert_int_equal(root->self_ns.median, STEP_ROOT_SELF);
    assert_string_equal(first->path, "first");
    assert_string_equal(first->type, "Linear");
    assert_int_equal(first->params, 20);
    assert_int_equal(first->forward_ns.median, STEP_FIRST);
    assert_int_equal(first->forward_ns.deviation, 0);
    assert_int_equal(first->backward_ns.median, STEP_BACK_FIRST);
    assert_int_equal(first->retained_bytes.n, 0);
    assert_int_equal(lam_recording_place(r, 0, 2)->backward_ns.median, STEP_BACK_SECOND);
    assert_null(lam_recording_place(r, 0, 3));
    m = lam_recording_model(r, 1);
    assert_true(m->kind == 1 && !m->training && m->gradients == 0 && !m->went_back);
    assert_true(m->n_steps == 1 && m->last == 0 && !m->warmed_up);
    assert_int_equal(lam_recording_place(r, 1, 1)->forward_ns.median, STEP_FIRST);
    assert_null(lam_recording_model(r, 2));
    lam_recording_free(r);
}

static void only_the_newest(void **state) {
    (void)state;
    const char *file = step_file("newest.lamina");
    lam_recorder *w = step_recorder(file, 0, 1);
    for (int64_t i = 0; i < 10; i++) step_put(w, i, i < 8 ? 50 : 2, true);
    assert_int_equal(lam_recorder_close(w, NULL), LAM_OK);
    lam_recording *r = open_recording(file, 0, 2);
    assert_int_equal(lam_recording_model(r, 0)->n_steps, 2);
    assert_int_equal(lam_recording_place(r, 0, 1)->forward_ns.median, 2 * STEP_FIRST);
    lam_recording_free(r);
}

/* The forward times of steps that were so slow; the first step warms up. */
static lam_middle middle_of(const char *name, const int64_t *slow, int64_t n) {
    const char *file = step_file(name);
    lam_recorder *w = step_recorder(file, 0, 1);
    for (int64_t i = 0; i < n; i++) step_put(w, i, slow[i], true);
    assert_int_equal(lam_recorder_close(w, NULL), LAM_OK);
    lam_recording *r = open_recording(file, 0, 0);
    const lam_middle ns = lam_recording_place(r, 0, 1)->forward_ns;
    lam_recording_free(r);
    return ns;
}

/* Times come in any order, and the one in the middle is told. */
static void the_middle_of_times_in_any_order(void **state) {
    (void)state;
    static const int64_t slow[] = {90, 5, 1, 7, 2, 3};
    const lam_middle ns = middle_of("middle.lamina", slow, 6);
    assert_int_equal(ns.n, 5);
    assert_int_equal(ns.median, 3 * STEP_FIRST);
    assert_int_equal(ns.deviation, 2 * STEP_FIRST); /* of 2, 2, 4, 1, 0 */
}

/* Of an even number of times the middle is halfway between two. */
static void the_middle_of_two_times(void **state) {
    (void)state;
    static const int64_t slow[] = {90, 9, 1, 4, 2};
    const lam_middle ns = middle_of("halfway.lamina", slow, 5);
    assert_int_equal(ns.n, 4);
    assert_int_equal(ns.median, 3 * STEP_FIRST);        /* 2 and 4 */
    assert_int_equal(ns.deviation, 3 * STEP_FIRST / 2); /* 1 and 2 of 1, 1, 2, 6 */
}

/* 300 steps of which 81 are recorded, 1,600 of which 118. */
static void fewer_steps_are_recorded_later(void **state) {
    (void)state;
    static const struct {
        int64_t k;
        int32_t every;
    } of[] = {{0, 1},    {1, 1},    {32, 1},   {33, 2},   {64, 2},    {65, 5},     {160, 5},        {161, 10},
              {320, 10}, {321, 20}, {640, 20}, {641, 50}, {1600, 50}, {1601, 100}, {INT64_MAX, 100}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        assert_int_equal(lam_recorded_every(LAM_THINNING, of[i].k), of[i].every);
        assert_int_equal(lam_recorded_every(7, of[i].k), 7);
    }
    char rule[LAM_RULE_WORDS];
    assert_string_equal(lam_recorded_rule(1, rule), "every step");
    assert_string_equal(lam_recorded_rule(INT32_MAX, rule), "one in 2147483647 steps");
    assert_string_equal(lam_recorded_rule(LAM_THINNING, rule),
                        "every step at first, then fewer, one in 100 from step 1,600 on");
}

/* Seven quick steps at first, and then two slow ones that represent 100 each. */
static void a_step_counts_as_often_as_it_represents(void **state) {
    (void)state;
    const char *file = step_file("weights.lamina");
    const lam_run_info info = {.world = 1, .every = LAM_THINNING, .unix_ns = 1};
    lam_recorder *w = NULL;
    lam_recorded_step step;
    assert_int_equal(lam_recorder_new(&w, file, &info, NULL), LAM_OK);
    for (int64_t i = 0; i < 8; i++) step_put(w, i, 1, true);
    for (int64_t i = 0; i < 2; i++) step_put(w, 1700 + 100 * i, 3, true);
    assert_int_equal(lam_recorder_close(w, NULL), LAM_OK);
    lam_recording *r = open_recording(file, 0, 0);
    const lam_recorded_model *m = lam_recording_model(r, 0);
    assert_int_equal(lam_recording_run(r)->every, LAM_THINNING);
    assert_int_equal(m->forward_ns.n, 9);
    assert_int_equal(m->forward_ns.median, STEP_ROOT_SELF + 3 * STEP_FIRST + STEP_SECOND);
    assert_int_equal(m->forward_ns.deviation, 0);
    assert_int_equal(lam_recording_place(r, 0, 1)->forward_ns.median, 3 * STEP_FIRST);
    assert_int_equal(lam_recording_place(r, 0, 1)->forward_ns.n, 9);
    assert_true(lam_recording_step(r, 0, 7, &step) && step.number == 7 && step.represents == 1);
    assert_true(lam_recording_step(r, 0, 8, &step) && step.number == 1700 && step.represents == 100);
    lam_recording_free(r);
}

static void runs_follow_each_other(void **state) {
    (void)state;
    lam_error e = {0};
    const char *file = step_recording("twice.lamina", 0, 1, 1);
    lam_recorder *w = step_recorder(file, 0, 1);
    step_put(w, 0, 3, true);
    assert_int_equal(lam_recorder_close(w, NULL), LAM_OK);
    lam_recording *r = open_recording(file, 0, 0);
    assert_int_equal(lam_recording_run(r)->run, 2);
    assert_int_equal(lam_recording_place(r, 0, 1)->forward_ns.median, 3 * STEP_FIRST);
    lam_recording_free(r);
    r = open_recording(file, 1, 0);
    assert_int_equal(lam_recording_model(r, 0)->n_steps, 5);
    lam_recording_free(r);
    assert_int_equal(lam_recording_open(&r, file, 7, 0, &e), LAM_USAGE);
    assert_null(r);
}

/* A tree that changed is another model of the same root, also if a layer's parameters alone differ, but not
 * if its number says that it is the same. */
static void a_changed_tree_is_told_again(void **state) {
    (void)state;
    const char *file = step_file("changed.lamina");
    lam_recorder *w = step_recorder(file, 0, 1);
    step_put(w, 0, 1, true);
    for (int64_t i = 1; i <= 3; i++) {
        net n = net_new();
        net_place(&n, -1, "", net_module(&n, "Net", LAM_MODULE_LEAF));
        net_param(&n, 0, "weight", SH(3 * i));
        step_call(&n, 0, -1, 1000, 3000, 0);
        lam_model *m = net_done(&n);
        lam_step_info info = {.name = "Net", .tree = i < 3 ? i : 2, .number = i, .unix_ns = 1, .t0_ns = 1};
        assert_int_equal(lam_recorder_step(w, m, &info, NULL), LAM_OK);
    }
    assert_int_equal(lam_recorder_close(w, NULL), LAM_OK);
    lam_recording *r = open_recording(file, 0, 0);
    assert_int_equal(lam_recording_run(r)->n_models, 3);
    assert_int_equal(lam_recording_model(r, 1)->n_places, 1);
    assert_int_equal(lam_recording_model(r, 1)->params, 3);
    assert_int_equal(lam_recording_model(r, 2)->params, 6);
    lam_recording_free(r);
}

static void a_step_without_its_tree(void **state) {
    (void)state;
    const char *file = step_file("again.lamina"), *same = step_recording("same.lamina", 0, 1, 1);
    lam_recorder *w = step_recorder(file, 0, 1);
    assert_false(put_again(w, 0, 0, 1, true)); /* no tree is known yet */
    step_put(w, 0, 10, true);
    for (int64_t i = 1; i <= 5; i++) assert_true(put_again(w, 0, 100 * i, 1, true));
    assert_true(put_again(w, 0, 0, 1, false));
    assert_false(put_again(w, 1, 0, 1, true)); /* another root's */
    assert_int_equal(lam_recorder_close(w, NULL), LAM_OK);
    lam_recording *a = open_recording(file, 0, 0), *b = open_recording(same, 0, 0);
    assert_int_equal(lam_recording_run(a)->n_models, 2);
    const lam_recorded_model *m = lam_recording_model(a, 0), *other = lam_recording_model(b, 0);
    assert_int_equal(m->n_steps, other->n_steps);
    assert_int_equal(m->n_kinds, other->n_kinds);
    assert_memory_equal(&m->forward_ns, &other->forward_ns, sizeof m->forward_ns);
    assert_memory_equal(&m->backward_ns, &other->backward_ns, sizeof m->backward_ns);
    for (int32_t i = 0; i < 3; i++) {
        const lam_recorded_place *x = lam_recording_place(a, 0, i), *y = lam_recording_place(b, 0, i);
        assert_string_equal(x->path, y->path);
        assert_memory_equal(&x->self_ns, &y->self_ns, sizeof x->self_ns);
        assert_memory_equal(&x->forward_ns, &y->forward_ns, sizeof x->forward_ns);
        assert_memory_equal(&x->backward_ns, &y->backward_ns, sizeof x->backward_ns);
    }
    lam_recording_free(a);
    lam_recording_free(b);
}

static void put_root(lam_recorder *w, int32_t root, int64_t number) {
    const lam_step_info info = {
        .root = root, .name = "Net", .number = number, .training = true, .gradients = true};
    assert_int_equal(lam_recorder_step(w, step_model(1, true), &info, NULL), LAM_OK);
}

/* Of models that come and go, only some are kept, and those last seen. */
static void many_roots(void **state) {
    (void)state;
    enum { ROOTS = 300, KEPT = 64 };
    const char *file = step_file("roots.lamina");
    lam_recorder *w = step_recorder(file, 0, 1);
    for (int32_t i = 0; i < ROOTS; i++) put_root(w, i, 0);
    assert_int_equal(lam_recorder_dropped(w), 0);
    int kept = 0;
    for (int32_t i = 0; i < ROOTS; i++) kept += put_again(w, i, 1, 2 + i % 2, true);
    assert_int_equal(kept, KEPT);
    assert_false(put_again(w, 0, 2, 1, true));
    put_root(w, 0, 2); /* it comes back, and takes the place of another */
    assert_true(put_again(w, 0, 3, 3, true));
    assert_false(put_again(w, ROOTS - KEPT, 2, 1, true));
    assert_true(put_again(w, ROOTS - 1, 2, 3, true));
    assert_int_equal(lam_recorder_close(w, NULL), LAM_OK);
    lam_recording *r = open_recording(file, 0, 0);
    assert_int_equal(lam_recording_run(r)->n_models, ROOTS);
    assert_int_equal(lam_recording_model(r, ROOTS - KEPT)->n_steps, 1);
    assert_int_equal(lam_recording_place(r, ROOTS - KEPT, 1)->forward_ns.median, 2 * STEP_FIRST);
    assert_int_equal(lam_recording_place(r, ROOTS - KEPT + 1, 1)->forward_ns.median, 3 * STEP_FIRST);
    assert_int_equal(lam_recording_model(r, ROOTS - 1)->n_steps, 2);
    assert_int_equal(lam_recording_model(r, 0)->last, 3);
    for (int32_t i = 0; i < ROOTS; i++) { /* kinds are counted for each model by itself */
        assert_int_equal(lam_recording_model(r, i)->kind, 0);
        assert_int_equal(lam_recording_model(r, i)->n_kinds, 1);
    }
    lam_recording_free(r);
}

static void other_files_stay(void **state) {
    (void)state;
    lam_error e = {0};
    lam_recorder *r;
    lam_run_info info = {.every = 1, .unix_ns = 1};
    const char *text = step_file("notes.txt");
    FILE *f = fopen(text, "w");
    for (int i = 0; i < 200; i++) assert_true(fprintf(f, "not a database %d\n", i) > 0);
    assert_int_equal(fclose(f), 0);
    struct stat before, after;
    assert_int_equal(stat(text, &before), 0);
    assert_int_equal(lam_recorder_new(&r, text, &info, &e), LAM_IO);
    assert_null(r);
    assert_true(*e.text && strcmp(e.where, text) == 0);
    assert_int_equal(stat(text, &after), 0);
    assert_int_equal(before.st_size, after.st_size);
    assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);

    const char *other = step_file("other.db");
    change_recording(other, "CREATE TABLE mine (x)");
    e = (lam_error){0};
    assert_int_equal(lam_recorder_new(&r, other, &info, &e), LAM_IO);
    assert_non_null(strstr(e.text, "not a recording"));

    e = (lam_error){0};
    assert_int_equal(lam_recorder_new(&r, "/nowhere/at/all/run.lamina", &info, &e), LAM_IO);
    assert_true(*e.text);
}

/* -- endings ----------------------------------------------------------------------------------- */

/* The writer wakes between any two of them, and each is there. */
static void steps_that_come_one_at_a_time(void **state) {
    (void)state;
    const char *file = step_file("slowly.lamina");
    lam_recorder *w = step_recorder(file, 0, 1);
    for (int64_t i = 0; i < 5; i++) {
        step_put(w, i + 1, 1, true);
        wait_ms(250);
    }
    assert_int_equal(lam_recorder_close(w, NULL), LAM_OK);
    lam_recording *r = open_recording(file, 0, 0);
    assert_int_equal(lam_recording_model(r, 0)->n_steps, 5);
    lam_recording_free(r);
}

/* Records steps until it is killed, and tells how many there were. */
static void record_until_killed(const char *file, _Atomic int64_t *made) {
    lam_recorder *w = step_recorder(file, 0, 1);
    for (int64_t i = 0;; i++) {
        step_put(w, i, 1, true);
        *made = i + 1;
        wait_ms(5);
    }
}

/* How long a step waits to be written is in test_store_record_sleep.c. */
static void a_kill_loses_nothing_that_was_written(void **state) {
    (void)state;
    int64_t seen = 0;
    _Atomic int64_t *made =
        mmap(NULL, sizeof *made, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(made != MAP_FAILED);
    for (int64_t enough = 1; enough <= 200; enough += 90) {
        const char *file = step_file("killed.lamina");
        *made = 0;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) record_until_killed(file, made);
        while (*made == 0) wait_ms(1); /* until there is a file */
        wait_for_steps(file, enough);
        seen = number_in(file, "SELECT max(number) FROM steps");
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, NULL, 0), child);
        lam_recording *r = open_recording(file, 0, 0);
        const lam_recorded_model *m = lam_recording_model(r, 0);
        assert_int_equal(lam_recording_run(r)->ended_unix_ns, 0);
        assert_non_null(m);
        assert_in_range(m->last, seen, *made - 1);
        assert_true(m->n_steps > 0);
        lam_recording_free(r);
    }
    assert_int_equal(munmap(made, sizeof *made), 0);
}

/* Ends a forked child as another program. What it has of its parent's is not its to free, and would be
 * reported as lost under valgrind. */
_Noreturn static void leave(int code) {
    char text[32];
    snprintf(text, sizeof text, "exit %d", code);
    execl("/bin/sh", "sh", "-c", text, (char *)NULL);
    _exit(127);
}

/* A process that may write no more than this into a file behaves as one on a full disk. */
static void record_into_little(const char *file) {
    lam_error e = {0};
    struct rlimit little = {64 << 10, 64 << 10};
    lam_recorder *w = step_recorder(file, 0, 1);
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &little) != 0) leave(2);
    lam_status s = LAM_OK;
    for (int64_t i = 0; i < LONGEST_MS && s == LAM_OK; i++) {
        lam_model *m = step_model(1, true);
        lam_step_info info = {.name = "Net", .number = i, .training = true, .unix_ns = i, .t0_ns = i};
        s = lam_recorder_step(w, m, &info, &e);
        wait_ms(1);
    }
    if (s != LAM_IO || !*e.text) leave(3);
    e = (lam_error){0};
    leave(lam_recorder_close(w, &e) == LAM_IO && *e.text ? 0 : 4);
}

static void a_full_disk_ends_the_recording(void **state) {
    (void)state;
    int status = 0;
    const char *file = step_file("full.lamina");
    pid_t child = fork();
    if (child == 0) record_into_little(file);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    lam_recording *r = open_recording(file, 0, 0);
    assert_int_equal(lam_recording_run(r)->run, 1);
    lam_recording_free(r);
}

/* In a child that is nobody, for the administrator may write anywhere. Exits with 0 where it was refused. */
_Noreturn static void record_as_nobody(const char *file) {
    enum { NOBODY = 65534 };
    const lam_run_info info = {.every = 1, .unix_ns = 1};
    lam_recorder *w = NULL;
    lam_error e = {0};
    if (geteuid() == 0 && (setgid(NOBODY) || setuid(NOBODY))) leave(0); /* it can't be tried here */
    lam_status s = lam_recorder_new(&w, file, &info, &e);
    leave(s == LAM_IO && strstr(e.text, strerror(EACCES)) ? 0 : 1);
}

static void a_folder_that_may_not_be_written_to_is_named_so(void **state) {
    (void)state;
    char folder[] = P_tmpdir "/lamina_closed_XXXXXX", file[sizeof folder + 16];
    int status = 0;
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/run.lamina", folder);
    assert_int_equal(chmod(folder, 0555), 0);
    pid_t child = fork();
    if (child == 0) record_as_nobody(file);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(rmdir(folder), 0); /* nothing is in it */
}

/* A worker that loads data has a copy of the recorder, and must not write with it. */
static void a_forked_child_writes_nothing(void **state) {
    (void)state;
    int status = 0;
    const char *file = step_file("forked.lamina");
    lam_recorder *w = step_recorder(file, 0, 1);
    step_put(w, 0, 1, true);
    pid_t child = fork();
    if (child == 0) {
        step_put(w, 1, 1, true);
        leave(lam_recorder_close(w, NULL) == LAM_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    step_put(w, 2, 1, true);
    assert_int_equal(lam_recorder_close(w, NULL), LAM_OK);
    lam_recording *r = open_recording(file, 0, 0);
    assert_int_equal(lam_recording_model(r, 0)->last, 2);
    assert_int_equal(lam_recording_model(r, 0)->n_steps, 1); /* not 2: the child's is not there */
    lam_recording_free(r);
}

/* -- the ring ---------------------------------------------------------------------------------- */

static lmi_handed *numbered(int64_t n) {
    lmi_handed *p = calloc(1, sizeof *p);
    if (p) p->info.number = n;
    return p;
}

static void a_step_of_nothing_is_refused(void **state) {
    (void)state;
    const lam_step_info info = {.name = "Net"};
    lam_error e = {0};
    assert_int_equal(lam_recorder_step(NULL, step_model(1, true), &info, &e), LAM_USAGE);
    assert_string_equal(e.text, "a step needs a recorder and a model");
    lam_recorder *w = step_recorder(step_file("nothing.lamina"), 0, 1);
    assert_int_equal(lam_recorder_step(w, NULL, &info, NULL), LAM_USAGE);
    assert_int_equal(lam_recorder_step(w, step_model(1, true), NULL, NULL), LAM_USAGE);
    assert_int_equal(lam_recorder_close(w, NULL), LAM_OK);
}

static void a_full_ring_refuses(void **state) {
    (void)state;
    lmi_ring *ring = calloc(1, sizeof *ring);
    assert_null(lmi_ring_pop(ring));
    for (int64_t i = 0; i < LMI_RING; i++) assert_true(lmi_ring_push(ring, numbered(i)));
    lmi_handed *one_more = numbered(LMI_RING);
    assert_false(lmi_ring_push(ring, one_more));
    for (int64_t i = 0; i < LMI_RING; i++) {
        lmi_handed *p = lmi_ring_pop(ring);
        assert_int_equal(p->info.number, i);
        free(p);
    }
    assert_true(lmi_ring_push(ring, one_more));
    one_more->bytes = (uint64_t)LMI_RING_BYTES + 1; /* alone it may be of any size */
    assert_ptr_equal(lmi_ring_pop(ring), one_more);
    ring->bytes = 0;
    assert_true(lmi_ring_push(ring, one_more));
    lmi_handed *next = numbered(1);
    assert_false(lmi_ring_push(ring, next));
    free(next);
    free(lmi_ring_pop(ring));
    free(ring);
}

enum { PASSED_ON = 200000 };

static void *push_all(void *arg) {
    lmi_handed **handed = calloc(LMI_RING * 2, sizeof *handed);
    for (int i = 0; i < LMI_RING * 2; i++) handed[i] = numbered(i);
    for (int64_t i = 0; i < PASSED_ON; i++) {
        lmi_handed *p = handed[i % (LMI_RING * 2)];
        p->info.number = i;
        while (!lmi_ring_push(arg, p)) sched_yield();
    }
    return handed; /* they may be read still */
}

static void two_threads_share_a_ring(void **state) {
    (void)state;
    pthread_t thread;
    lmi_ring *ring = calloc(1, sizeof *ring);
    assert_int_equal(pthread_create(&thread, NULL, push_all, ring), 0);
    for (int64_t i = 0; i < PASSED_ON;) {
        lmi_handed *p = lmi_ring_pop(ring);
        if (!p) sched_yield();
        if (!p) continue;
        if (p->info.number != i)
            fail_msg("step %lld came as number %lld", (long long)p->info.number, (long long)i);
        i++;
    }
    void *handed = NULL;
    pthread_join(thread, &handed);
    for (int i = 0; i < LMI_RING * 2; i++) free(((lmi_handed **)handed)[i]);
    free(handed);
    free(ring);
}

/* -- memory ------------------------------------------------------------------------------------ */

static void try_packets(void *arg, bool *ok) {
    lam_step_info info = {.name = "Net", .number = 1};
    lmi_packet *tree = lmi_packet_tree(arg, &info), *step = lmi_packet_step(arg, &info);
    *ok = tree && step;
    lmi_packet_free(tree);
    lmi_packet_free(step);
}

static void packets_without_memory(void **state) {
    (void)state;
    lam_model *m = step_model(1, true);
    oom_sweep(try_packets, m);
    lam_model_free(m);
}

/* What is given back is taken for a step that has room in it, and names and sizes are the new step's. */
static void pieces_of_memory_are_used_again(void **state) {
    (void)state;
    lmi_spares spares = {0};
    const lam_step_info one = {.name = "a name of some length", .number = 1}, two = {.number = 2};
    char *more;
    lmi_handed *first = lmi_handed_new(&spares, &one, 100, (void **)&more);
    assert_non_null(first);
    assert_string_equal(first->info.name, one.name);
    assert_true((uintptr_t)more % _Alignof(max_align_t) == 0);
    memset(more, 1, 100);
    assert_true(more + 100 <= (char *)first + first->room);
    const size_t room = first->room;
    lmi_handed_give_back(&spares, first);
    lmi_handed *again = lmi_handed_new(&spares, &two, 8, (void **)&more);
    assert_ptr_equal(again, first);
    assert_int_equal(again->room, room);
    assert_string_equal(again->info.name, "model");
    assert_null(again->again);
    lmi_handed_give_back(&spares, again);
    lmi_handed *wide = lmi_handed_new(&spares, &one, LMI_SPARE_BYTES, (void **)&more);
    assert_true(wide->room > room);
    for (int i = 0; i < LMI_SPARES; i++) assert_null(atomic_load(&spares.at[i])); /* it was too small */
    lmi_handed_give_back(&spares, wide);
    for (int i = 0; i < LMI_SPARES; i++) assert_null(atomic_load(&spares.at[i])); /* too much to keep */
    lmi_handed *many[LMI_SPARES + 1];
    for (int i = 0; i <= LMI_SPARES; i++) many[i] = lmi_handed_new(&spares, &one, 1, (void **)&more);
    for (int i = 0; i <= LMI_SPARES; i++) lmi_handed_give_back(&spares, many[i]);
    for (int i = 0; i < LMI_SPARES; i++) assert_ptr_equal(atomic_load(&spares.at[i]), many[i]);
    lmi_spares_free(&spares);
}

static void try_again(void *arg, bool *ok) {
    lam_call_info calls[STEP_CALLS];
    lam_op_info nodes[STEP_NODES];
    lam_error e = {0};
    lam_model *m = NULL;
    step_parts(1, calls, nodes);
    void *room = malloc(lmi_again_size(STEP_CALLS, nodes, STEP_NODES));
    lmi_again *a = room ? lmi_again_at(room, calls, STEP_CALLS, nodes, STEP_NODES) : NULL;
    *ok = a && lmi_again_model(a, arg, &m, &e) == LAM_OK;
    if (a && !*ok) assert_int_equal(e.status, LAM_NOMEM);
    lam_model_free(m);
    free(room);
}

static void a_tree_without_memory(void **state) {
    (void)state;
    lam_model *m = step_model(1, true);
    oom_sweep(try_again, m);
    lam_model_free(m);
}

static void try_open(void *arg, bool *ok) {
    lam_error e = {0};
    lam_recording *r;
    lam_status s = lam_recording_open(&r, arg, 0, 0, &e);
    *ok = oom_check(s, &e);
    lam_recording_free(r);
}

/* Of few steps, and of so many that they need memory of their own. */
static void reading_without_memory(void **state) {
    (void)state;
    oom_sweep(try_open, (void *)(uintptr_t)step_recording("memory.lamina", 0, 1, 1));
    const char *file = step_file("many.lamina");
    lam_recorder *w = step_recorder(file, 0, 1);
    for (int64_t i = 0; i < 300; i++) step_put(w, i, 1, true);
    assert_int_equal(lam_recorder_close(w, NULL), LAM_OK);
    oom_sweep(try_open, (void *)(uintptr_t)file);
}

/* Models are made before anything is refused: they are what is handed over. */
static lam_model *given_model(void) {
    const int64_t at = oom_fail_at;
    oom_disarm();
    lam_model *m = step_model(1, true);
    oom_seen = 0;
    oom_fail_at = at;
    return m;
}

/* A run with a step that is whole and one without its tree. Where that one's tree was not kept, nothing was
 * lost: the next step is to come whole. */
static void try_recording(void *arg, bool *ok) {
    const lam_run_info run = {.command = "x", .every = 1, .unix_ns = 1};
    const lam_step_info info = {.name = "Net", .number = 1, .training = true, .unix_ns = 1, .t0_ns = 1};
    lam_call_info calls[STEP_CALLS];
    lam_op_info nodes[STEP_NODES];
    lam_error e = {0};
    lam_model *m = given_model();
    lam_recorder *w = NULL;
    bool known = false;
    step_parts(1, calls, nodes);
    lam_status s = lam_recorder_new(&w, arg, &run, &e);
    assert_int_equal(w != NULL, s == LAM_OK);
    if (!w) lam_model_free(m);
    if (w) s = lam_recorder_step(w, m, &info, &e);
    if (s == LAM_OK) s = lam_recorder_again(w, &info, calls, STEP_CALLS, nodes, STEP_NODES, &known, &e);
    const int64_t taken = w ? lam_recorder_steps(w) : 0;
    lam_status closed = lam_recorder_close(w, s == LAM_OK ? &e : NULL);
    if (s == LAM_OK) s = closed;
    *ok = s == LAM_OK && known;
    if (*ok) assert_int_equal(taken, 2);
    if (s != LAM_OK && (s != LAM_NOMEM || e.status != s || !*e.text)) fail_msg("%s", lam_status_name(s));
}

/* What a run without memory leaves can be read, and has whole steps only. */
static void recording_without_memory(void **state) {
    (void)state;
    const char *file = step_file("scarce.lamina");
    oom_sweep(try_recording, (void *)(uintptr_t)file);
    lam_recording *r = open_recording(file, 0, 0);
    const int64_t runs = lam_recording_run(r)->run;
    assert_int_equal(lam_recording_model(r, 0)->n_steps, 2);
    lam_recording_free(r);
    for (int64_t i = 1; i <= runs; i++) {
        r = open_recording(file, i, 0);
        const lam_recorded_model *m = lam_recording_model(r, 0);
        for (int32_t k = 0; m && m->n_steps && k < 3; k++)
            assert_int_equal(lam_recording_place(r, 0, k)->n_steps, m->n_steps);
        lam_recording_free(r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_come_back),
        cmocka_unit_test(only_the_newest),
        cmocka_unit_test(the_middle_of_times_in_any_order),
        cmocka_unit_test(the_middle_of_two_times),
        cmocka_unit_test(steps_that_come_one_at_a_time),
        cmocka_unit_test(fewer_steps_are_recorded_later),
        cmocka_unit_test(a_step_counts_as_often_as_it_represents),
        cmocka_unit_test(runs_follow_each_other),
        cmocka_unit_test(a_changed_tree_is_told_again),
        cmocka_unit_test(a_step_without_its_tree),
        cmocka_unit_test(many_roots),
        cmocka_unit_test(other_files_stay),
        cmocka_unit_test(a_kill_loses_nothing_that_was_written),
        cmocka_unit_test(a_full_disk_ends_the_recording),
        cmocka_unit_test(a_folder_that_may_not_be_written_to_is_named_so),
        cmocka_unit_test(a_forked_child_writes_nothing),
        cmocka_unit_test(a_step_of_nothing_is_refused),
        cmocka_unit_test(a_full_ring_refuses),
        cmocka_unit_test(two_threads_share_a_ring),
        cmocka_unit_test(packets_without_memory),
        cmocka_unit_test(pieces_of_memory_are_used_again),
        cmocka_unit_test(a_tree_without_memory),
        cmocka_unit_test(reading_without_memory),
        cmocka_unit_test(recording_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
