/* SPDX-License-Identifier: Apache-2.0
 *
 * Recorded steps of which everything was measured, in every format; and scalars that can't be written. */
#include "kit/oom.h"

#include "kit/full_net.h"
#include "kit/recorded.h"
#include "kit/show.h"

#include <signal.h>
#include <sys/resource.h>

static const char *record(const char *name) {
    const char *file = step_file(name);
    lam_recorder *w = step_recorder(file, 0, 1);
    for (int64_t i = 0; i < 3; i++) {
        const lam_step_info info = {.name = "Net",
                                    .number = i,
                                    .training = true,
                                    .gradients = true,
                                    .unix_ns = 5 + 1000 * i,
                                    .t0_ns = 6 + 1000 * i};
        assert_int_equal(lam_recorder_step(w, full_step(), &info, NULL), LAM_OK);
    }
    assert_int_equal(lam_recorder_close(w, NULL), LAM_OK);
    return file;
}

static void write_as(const lam_recording *r, const char *format, int32_t width, int32_t rows) {
    lam_error e = {0};
    const lam_recording_options o = {
        .format = format, .width = width, .rows = rows, .depth = -1, .ascii = true};
    if (lam_recording_write(&r, 1, &o, show_sink(), &e) != LAM_OK) fail_msg("%s: %s", e.where, e.text);
}

static void as_data(void **state) {
    (void)state;
    lam_recording *r = open_recording(record("data.lamina"), 0, 0);
    write_as(r, "json", 0, 0);
    show_has("\"device_forward_ns\": {\"median\": 1000, \"deviation\": 0, \"n\": 2}");
    show_has("\"device_peak_bytes\": {\"median\": 6200, \"deviation\": 0, \"n\": 2}");
    show_has("\"first_bad_step\": 0, \"first_bad_layer\": \"conv\"");
    show_has("{\"path\": \"fc\", \"type\": \"Linear\"");
    show_has("\"stragglers\": []");
    write_as(r, "csv", 0, 0);
    show_has(",device_forward_ns,device_forward_ns_deviation,");
    show_has("\n0,Net,1,1,1,1,1,fc,Linear,1,66,66,2,1,0,100,0,100,0,100,0,100,0,0,0,");
    show_has("\n0,Net,1,1,1,1,1,idle,Linear,1,15,15,0,,,,,"); /* never called: its weight alone is known */
    lam_recording_free(r);
}

static void as_text(void **state) {
    (void)state;
    lam_recording *r = open_recording(record("text.lamina"), 0, 0);
    write_as(r, "text", 200, 0);
    show_has("device  bwd device");
    show_has("dev retained  dev peak  bad steps");
    show_has("conv         Conv1d");
    for (int32_t width = 30; width < 200; width += 5) { /* columns give way, the name last */
        write_as(r, "text", width, 0);
        show_has("conv");
        show_has("share");
        for (const char *s = strstr(shown, "layer"); s && *s; s += strcspn(s, "\n"), s += *s == '\n')
            if (width >= 80) assert_true(strcspn(s, "\n") <= (size_t)width);
    }
    write_as(r, "text", 120, 2);
    show_has("and 1 more\n"); /* of those that were called */
    show_lacks("idle");
    lam_recording_free(r);
}

/* The disk is full after a few bytes, or after some steps: no file stays. */
static void scalars_on_a_full_disk(void **state) {
    (void)state;
    const char *file = record("full.lamina");
    char path[512];
    struct rlimit was, little;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    signal(SIGXFSZ, SIG_IGN);
    const char *folder = step_file("logs");
    for (rlim_t bytes = 0; bytes < 2000; bytes += 500) {
        lam_error e = {0};
        little = (struct rlimit){bytes, was.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
        lam_status s = lam_recording_tensorboard(file, 0, folder, path, sizeof path, &e);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
        assert_int_equal(s, LAM_IO);
        assert_non_null(strstr(e.text, "it can't be written: File too large"));
        assert_int_not_equal(access(path, F_OK), 0);
    }
    assert_int_equal(lam_recording_tensorboard(file, 0, folder, path, sizeof path, NULL), LAM_OK);
    assert_int_equal(access(path, F_OK), 0);
}

typedef struct sweep {
    const char *file, *folder;
} sweep;

static void try_scalars(void *arg, bool *ok) {
    const sweep *w = arg;
    char path[512];
    lam_error e = {0};
    lam_status s = lam_recording_tensorboard(w->file, 0, w->folder, path, sizeof path, &e);
    *ok = s == LAM_OK;
    if (*ok)
        unlink(path);
    else
        assert_int_equal(s, LAM_NOMEM);
}

static void memory_may_run_out(void **state) {
    (void)state;
    sweep w = {record("sweep.lamina"), NULL};
    w.folder = step_file("scalars");
    oom_sweep(try_scalars, &w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_data),
        cmocka_unit_test(as_text),
        cmocka_unit_test(scalars_on_a_full_disk),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
