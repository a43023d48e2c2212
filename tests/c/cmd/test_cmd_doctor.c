/* SPDX-License-Identifier: Apache-2.0
 *
 * `lamina doctor`: what this installation can do, and which command a shell runs. */
#include "kit/oom.h"

#include "kit/fakehost.h"

#include <sys/stat.h>
#include <unistd.h>

static lam_status well(void *self, lam_sink to, lam_error *e) {
    (void)self, (void)e;
    return to.put(to.to, "torch: here\n", 12);
}

static lam_status ill(void *self, lam_sink to, lam_error *e) {
    (void)self, (void)to;
    return fake_fail(e, "torch", "it can't be imported");
}

static void doctor(void **state) {
    (void)state;
    lam_host h = fake_host();
    assert_int_equal(fake_run(&h, "doctor"), 0);
    OUT_HAS("models: none can be run from here\n");
    OUT_HAS("lamina: " LAM_VERSION "\nsystem: ");
    OUT_HAS("\nrecordings: by SQLite 3.");
    OUT_HAS("\noutput: not a terminal in UTF-8\n"); /* its width is not known, and not 0 */
    OUT_HAS("conventions: exact layers torchscan thoplw torch fvcore ptflops deepspeed torchinfo\n");
    h = fake_host();
    h.doctor = well;
    h.width = 72;
    assert_int_equal(fake_run(&h, "doctor"), 0);
    OUT_HAS("torch: here\n");
    OUT_HAS(", 72 columns\n");
    h = fake_host();
    h.doctor = ill;
    assert_int_equal(fake_run(&h, "doctor"), 3);
    ERR_HAS("torch: it can't be imported");
    OUT_HAS("conventions: ");
}

static void put_program(const char *folder, const char *text) {
    char path[128];
    mkdir(folder, 0777);
    snprintf(path, sizeof path, "%s/lamina", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, 0755), 0);
}

static int doctor_with_path(const char *path) {
    char before[8192] = "";
    const char *was = getenv("PATH");
    lam_host h = fake_host();
    snprintf(before, sizeof before, "%s", was ? was : "");
    setenv("PATH", path, 1);
    const int code = fake_run(&h, "doctor");
    setenv("PATH", before, 1);
    return code;
}

/* The first in PATH is the one that a shell runs; a program that says nothing has no version. */
static void doctor_says_which_command_runs(void **state) {
    (void)state;
    put_program("path_a", "#!/bin/sh\n# python\necho lamina 1.2.3\n");
    put_program("path_b", "#!/bin/sh\necho lamina 4.5.6; echo more\n");
    put_program("path_c", "#!/bin/sh\nexit 3\n");
    put_program("path_d", "no script\n");
    put_program("path_e", "");
    assert_int_equal(chmod("path_e/lamina", 0644), 0); /* no program */
    assert_int_equal(doctor_with_path("path_e:nowhere:path_b"), 0);
    OUT_HAS("\ncommand: path_b/lamina (a script, 4.5.6)\n");
    assert_int_equal(doctor_with_path("path_a:path_b:path_a:path_c:path_d"), 0);
    OUT_HAS("\ncommand: path_a/lamina (Python, 1.2.3) runs; behind it in PATH: path_b/lamina (a script, "
            "4.5.6), path_c/lamina (a script, version unknown), path_d/lamina (native, version unknown)\n");
    assert_int_equal(doctor_with_path("nowhere:path_e"), 0);
    OUT_HAS("\ncommand: no lamina is in PATH\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(doctor),
        cmocka_unit_test(doctor_says_which_command_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
