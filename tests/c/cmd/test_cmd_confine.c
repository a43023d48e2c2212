/* SPDX-License-Identifier: Apache-2.0
 *
 * The command in a process that it confines: each screen of a file is the one of an unconfined process, and
 * so are the files that it writes. */
#include "kit/oom.h"

#include "base/system.h"
#include "kit/fakehost.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define DATA LAMINA_TEST_DATA "/files/"
enum { NOT_CONFINED = 99 };

/* The host of a process that ends with the command. */
static lam_status no_live(void *self, const lam_live *what, lam_model **out, lam_error *e) {
    (void)self, (void)out;
    return fake_fail(e, what->target, "Python would be started");
}

static lam_host ending_host(bool confine) {
    lam_host h = fake_host();
    h.live = no_live;
    h.may_confine = confine;
    return h;
}

static bool is_confined(void) { return lmi_can_confine() && fork() < 0; }

/* Runs a line in a process of its own, whose output is left in a file. */
static int run_apart(const char *line, bool confine, int height) {
    const int to = open("confine.out", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    int status = 0;
    assert_true(to >= 0);
    const pid_t pid = fork();
    if (pid == 0) {
        lam_host h = ending_host(confine);
        if (height) {
            h.out_is_terminal = true;
            h.height = height;
            h.width = 100;
        }
        const int code = fake_run(&h, line);
        const bool whole = lmi_write_fd(to, fake_out.text, fake_out.n) && lmi_write_fd(to, "--\n", 3) &&
                           lmi_write_fd(to, fake_err.text, fake_err.n);
        _exit(!whole || (confine && lmi_can_confine() == 3 && !is_confined()) ? NOT_CONFINED : code);
    }
    close(to);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static char *text_of(const char *path, char *to, size_t room) {
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    to[fread(to, 1, room - 1, f)] = '\0';
    fclose(f);
    return to;
}

/* Removes what the line may have written, runs it, and returns its output, and in `file` what it wrote. */
static char *said(const char *line, bool confine, const char *written, char *file, size_t room, int *code) {
    static char out[2][1 << 16];
    file[0] = '\0';
    if (written) (void)remove(written);
    *code = run_apart(line, confine, 0);
    if (written && !text_of(written, file, room)) snprintf(file, room, "(no file)");
    char *text = text_of("confine.out", out[confine], sizeof out[0]);
    assert_non_null(text);
    return text;
}

static void every_screen_is_that_of_an_unconfined_process(void **state) {
    (void)state;
    static const struct {
        const char *line, *written;
    } cases[] = {
        {"show " DATA "net.safetensors", NULL},
        {"show " DATA "net.safetensors --json", NULL},
        {DATA "tiny.gguf --color always --why", NULL},
        {DATA "shards", NULL},
        {"show " DATA "shards/model.safetensors.index.json --format csv", NULL},
        {"show " DATA "state.pt --format md", NULL},
        {"show " DATA "model.pt -o confine.html", "confine.html"},
        {"show " DATA "cut.safetensors -o confine.txt", "confine.txt"}, /* no file is left */
        {"show " DATA "net.safetensors --health", NULL},
        {"show " DATA "image.onnx --json", NULL},
        {"show " DATA "net.pt2 --json", NULL},
        {"why " DATA "net.safetensors .", NULL},
        {"report " DATA "tiny.gguf -o confine.html", "confine.html"},
        {"report " DATA "tiny.gguf " DATA "net.safetensors -o confine.html", "confine.html"},
        {"plot icicle " DATA "net.safetensors --by params -o confine.svg", "confine.svg"},
        {"diff " DATA "tiny.gguf " DATA "net.safetensors", NULL},
        {"diff " DATA "net.safetensors " DATA "shards --weights", NULL},
        {"check " DATA "net.safetensors --max params=1 --save confine.json", "confine.json"},
        {"check " DATA "net.safetensors --max params=1G --junit confine.xml", "confine.xml"},
        {"scan " DATA "state.pt " DATA "model.pt", NULL},
        {"scan " DATA "model.pt --json", NULL},
        {"show " DATA "net.safetensors -f -o /dev/full", NULL},
        {"fit " DATA "net.safetensors", NULL},
        {"show " DATA "net.safetensors --rules confine_rules", NULL},
        {"show " DATA "net.safetensors --time", NULL},
    };
    static char files[2][1 << 18];
    FILE *rules = fopen("confine_rules", "w");
    assert_non_null(rules);
    fputs("Linear macs 1\n", rules);
    fclose(rules);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int code[2];
        const char *free_text =
            said(cases[i].line, false, cases[i].written, files[0], sizeof files[0], &code[0]);
        const char *text = said(cases[i].line, true, cases[i].written, files[1], sizeof files[1], &code[1]);
        if (code[0] != code[1] || strcmp(free_text, text) != 0 || strcmp(files[0], files[1]) != 0)
            fail_msg("lamina %s: exit code %d, and %d when confined:\n%s\n%s", cases[i].line, code[0],
                     code[1], free_text, text);
    }
}

static void write_words(const char *path, const char *words) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(words, f);
    fclose(f);
}

/* Files of folders in the one that is named are not read, and the folder with the largest is named. */
static void a_folder_of_folders_names_one_that_may_have_a_model(void **state) {
    (void)state;
    static const char header[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}";
    int code;
    char file[8];
    mkdir("nested", 0777);
    mkdir("nested/config", 0777);
    mkdir("nested/unet", 0777);
    write_words("nested/config/c.json", "{}");
    FILE *f = fopen("nested/unet/m.st", "wb");
    const unsigned char length[8] = {sizeof header - 1};
    assert_non_null(f);
    fwrite(length, 1, sizeof length, f);
    fwrite(header, 1, sizeof header - 1, f);
    fclose(f);
    const char *text = said("show nested", false, NULL, file, sizeof file, &code);
    assert_int_equal(code, 3);
    assert_non_null(strstr(text, "model file that lamina reads, and nested/unet has one; give that"));
    if (lmi_can_confine() != 3) return;
    text = said("show nested", true, NULL, file, sizeof file, &code);
    assert_int_equal(code, 3);
    assert_non_null(strstr(text, "model file that lamina reads; if nested/unet has one, give that"));
}

/* The pager is a program that was chosen before. */
static void a_pager_is_started_before(void **state) {
    (void)state;
    static char paged[1 << 16];
    setenv("LAMINA_PAGER", "cat > confine.paged", 1);
    (void)remove("confine.paged");
    assert_int_equal(run_apart("show " DATA "net.safetensors", true, 4), 0);
    assert_non_null(text_of("confine.paged", paged, sizeof paged));
    assert_non_null(strstr(paged, "parameters"));
    assert_int_equal(run_apart("show " DATA "net.safetensors", true, 100), 0); /* it fits: no pager */
    assert_non_null(strstr(text_of("confine.out", paged, sizeof paged), "parameters"));
    setenv("LAMINA_PAGER", "there-is-no-such-pager", 1);
    assert_int_equal(run_apart("show " DATA "net.safetensors", true, 4), 0);
    assert_non_null(strstr(text_of("confine.out", paged, sizeof paged), "parameters"));
    assert_non_null(strstr(paged, "the pager 'there-is-no-such-pager' could not be started"));
    unsetenv("LAMINA_PAGER");
}

static void the_summary_of_a_job_is_added_to(void **state) {
    (void)state;
    static char text[1 << 16];
    (void)remove("confine.md");
    setenv("GITHUB_STEP_SUMMARY", "confine.md", 1);
    for (int i = 0; i < 2; i++)
        assert_int_equal(run_apart("diff " DATA "tiny.gguf " DATA "net.safetensors --github", true, 0), 0);
    unsetenv("GITHUB_STEP_SUMMARY");
    char *first = strstr(text_of("confine.md", text, sizeof text), "net.safetensors");
    assert_non_null(first);
    assert_non_null(strstr(first + 1, "net.safetensors"));
}

/* What may need Python, or writes beside its file, is left as it is; a file that is no model's gives a
 * reason. */
static void only_files_of_models_are_confined(void **state) {
    (void)state;
    static char text[1 << 16];
    FILE *f = fopen("confine_net.py", "w");
    assert_non_null(f);
    fclose(f);
    if (lmi_can_confine() != 3) skip();
    assert_int_equal(run_apart("show m:two", true, 0), NOT_CONFINED);
    assert_int_equal(run_apart("show confine_net.py", true, 0), NOT_CONFINED);
    assert_int_equal(run_apart("diff confine_net.py:Net " DATA "tiny.gguf", true, 0), NOT_CONFINED);
    assert_int_equal(run_apart("plot table thoplw", true, 0), NOT_CONFINED);
    assert_int_equal(run_apart("doctor", true, 0), NOT_CONFINED);
    assert_int_equal(run_apart("show run.lamina", true, 0), NOT_CONFINED);
    (void)mkdir("confine_run", 0700);
    (void)mkdir("confine_run/ranks", 0700);
    assert_int_equal(run_apart("show confine_run", true, 0), NOT_CONFINED);
    assert_int_equal(run_apart("check confine_run --max straggler=5%", true, 0), NOT_CONFINED);
    (void)rmdir("confine_run/ranks");
    (void)rmdir("confine_run");
    assert_int_equal(run_apart("show confine.out", true, 0), 3);
    assert_non_null(strstr(text_of("confine.out", text, sizeof text), "it is no model file: it is empty"));
    assert_null(strstr(text, "Python would be started"));
}

/* An index may name files of its folder alone, and a file that is not of it can't be read by mistake. */
static void a_link_in_the_folder_of_an_index_is_read(void **state) {
    (void)state;
    static char text[1 << 16];
    static const char index[] = "{\"weight_map\": {\"head.weight\": \"linked.safetensors\"}}";
    mkdir("confine_index", 0777);
    FILE *f = fopen("confine_index/model.safetensors.index.json", "w");
    assert_non_null(f);
    fputs(index, f);
    fclose(f);
    (void)remove("confine_index/linked.safetensors");
    assert_int_equal(symlink(DATA "net.safetensors", "confine_index/linked.safetensors"), 0);
    assert_int_equal(run_apart("show confine_index", true, 0), 0);
    assert_non_null(strstr(text_of("confine.out", text, sizeof text), "head"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_screen_is_that_of_an_unconfined_process),
        cmocka_unit_test(a_folder_of_folders_names_one_that_may_have_a_model),
        cmocka_unit_test(a_pager_is_started_before),
        cmocka_unit_test(the_summary_of_a_job_is_added_to),
        cmocka_unit_test(only_files_of_models_are_confined),
        cmocka_unit_test(a_link_in_the_folder_of_an_index_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
