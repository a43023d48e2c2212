/* SPDX-License-Identifier: Apache-2.0
 *
 * What goes through a pager, which one, and what happens if it is quit or is not there. */
#include "kit/oom.h"

#include "kit/fakehost.h"

#include "cmd/cmd.h"

#include <signal.h>
#include <unistd.h>

static char file[128], pager[256], paged[sizeof fake_out.text];

/* A pager that keeps what it is given in `file`. */
static void setup(const char *variable) {
    static const char *const others[] = {"LAMINA_PAGER", "PAGER", "LESS", "LV", "TERM"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) unsetenv(others[i]);
    snprintf(file, sizeof file, "%s/lamina_pager_%d", P_tmpdir, (int)getpid());
    snprintf(pager, sizeof pager, "cat >%s", file);
    setenv(variable, pager, 1);
    (void)remove(file);
}

/* What the pager was given; NULL: it was not started. */
static const char *given(void) {
    FILE *f = fopen(file, "rb");
    if (!f) return NULL;
    size_t n = fread(paged, 1, sizeof paged - 1, f);
    paged[n] = '\0';
    fclose(f);
    assert_int_equal(remove(file), 0);
    return paged;
}

static lam_host terminal(int32_t height) {
    lam_host h = fake_host();
    h.out_is_terminal = true;
    h.width = 100;
    h.height = height;
    return h;
}

static int on_terminal(int32_t height, const char *line) {
    lam_host h = terminal(height);
    return fake_run(&h, line);
}

static void what_is_higher_is_paged(void **state) {
    (void)state;
    static char whole[sizeof fake_out.text];
    setup("LAMINA_PAGER");
    assert_int_equal(on_terminal(5, "m:two --no-pager"), 0);
    assert_null(given());
    memcpy(whole, fake_out.text, sizeof whole);
    assert_non_null(strstr(whole, "act (ReLU)"));
    assert_int_equal(on_terminal(5, "m:two"), 0);
    OUT_IS_EMPTY();
    assert_string_equal(given(), whole);
    assert_int_equal(on_terminal(5, "m:two -o -"), 0);
    assert_string_equal(given(), whole);
    int32_t lines = 0;
    for (const char *s = whole; *s; s++) lines += *s == '\n';
    assert_int_equal(on_terminal(lines, "m:two"), 0); /* the prompt would push the first line out */
    assert_string_equal(given(), whole);
    assert_int_equal(on_terminal(lines + 1, "m:two"), 0);
    assert_null(given());
    assert_string_equal(fake_out.text, whole);
    ERR_IS_EMPTY();
}

static void which_commands_are_paged(void **state) {
    (void)state;
    static const char *const lines[] = {"why m:step .", "compare m:step", "graph m:step", "rules",
                                        "conventions"};
    setup("PAGER");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        assert_int_equal(on_terminal(2, lines[i]), 0);
        OUT_IS_EMPTY();
        assert_non_null(given());
    }
    assert_int_equal(on_terminal(2, "help show"), 0);
    OUT_HAS("usage");
    assert_int_equal(on_terminal(2, "show --help"), 0);
    OUT_HAS("usage");
    assert_int_equal(on_terminal(2, "version --no-pager"), 2);
    assert_null(given());
}

static void what_switches_it_off(void **state) {
    (void)state;
    setup("PAGER");
    setenv("LAMINA_PAGER", "", 1);
    assert_int_equal(on_terminal(2, "m:two"), 0);
    OUT_HAS("act (ReLU)");
    setenv("LAMINA_PAGER", "cat", 1);
    assert_int_equal(on_terminal(2, "m:two"), 0);
    OUT_HAS("act (ReLU)");
    unsetenv("LAMINA_PAGER");
    setenv("TERM", "dumb", 1);
    assert_int_equal(on_terminal(2, "m:two"), 0);
    OUT_HAS("act (ReLU)");
    unsetenv("TERM");
    assert_int_equal(on_terminal(0, "m:two"), 0);
    OUT_HAS("act (ReLU)");
    lam_host h = terminal(2);
    h.out_is_terminal = false;
    assert_int_equal(fake_run(&h, "m:two"), 0);
    OUT_HAS("act (ReLU)");
    assert_null(given());
    ERR_IS_EMPTY();
}

/* The first variable wins; options of less are those of its user, where there are any. */
static void the_pager_is_chosen(void **state) {
    (void)state;
    setup("LAMINA_PAGER");
    setenv("PAGER", "exit 1", 1);
    assert_int_equal(on_terminal(2, "m:two"), 0);
    assert_non_null(given());
    snprintf(pager, sizeof pager, "printf '%%s %%s' \"$LESS\" \"$LV\" >%s", file);
    setenv("LAMINA_PAGER", pager, 1);
    assert_int_equal(on_terminal(2, "m:two"), 0);
    assert_string_equal(given(), "FRX -c");
    setenv("LESS", "-i", 1);
    assert_int_equal(on_terminal(2, "m:two"), 0);
    assert_string_equal(given(), "-i -c");
    unsetenv("LESS");
}

static void a_pager_that_is_not_there(void **state) {
    (void)state;
    static const char *const absent[] = {"nosuchpager", "nosuchpager -R", "/no/such/pager"};
    setup("PAGER");
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
        char says[128];
        snprintf(says, sizeof says,
                 "lamina: the pager '%s' could not be started; --no-pager does without one\n", absent[i]);
        setenv("PAGER", absent[i], 1);
        assert_int_equal(on_terminal(2, "m:two"), 0);
        OUT_HAS("act (ReLU)");
        assert_string_equal(fake_err.text, says);
    }
    unsetenv("PAGER"); /* nor is less, which nobody asked for */
    char *path = strdup(getenv("PATH"));
    setenv("PATH", "/no/such/folder", 1);
    assert_int_equal(on_terminal(2, "m:two"), 0);
    setenv("PATH", path, 1);
    free(path);
    OUT_HAS("act (ReLU)");
    ERR_IS_EMPTY();
}

/* The error is below what ran, in sight. The exit code is the command's own, whatever the pager's is. */
static void codes_and_errors_stay(void **state) {
    (void)state;
    setup("PAGER");
    assert_int_equal(on_terminal(2, "m:partial"), 3);
    OUT_HAS("(Linear)");
    ERR_HAS("mat1 and mat2");
    assert_null(given());
    setenv("PAGER", "cat >/dev/null; exit 5", 1);
    assert_int_equal(on_terminal(2, "m:two"), 0);
    setenv("PAGER", "kill -9 $$", 1);
    assert_int_equal(on_terminal(2, "m:two"), 0);
    OUT_IS_EMPTY();
    ERR_IS_EMPTY();
}

/* More than a pipe takes, and a pager that reads little of it. */
static void a_pager_is_quit(void **state) {
    (void)state;
    enum { SIZE = 1 << 20 };
    char *text = malloc(SIZE);
    struct sigaction before, after;
    assert_non_null(text);
    memset(text, 'a', SIZE);
    setup("PAGER");
    snprintf(pager, sizeof pager, "head -c 10 >%s", file);
    setenv("PAGER", pager, 1);
    sigaction(SIGPIPE, NULL, &before);
    assert_true(before.sa_handler == SIG_DFL);
    assert_true(lmi_page(&(lmi_buf){.s = text, .n = SIZE}));
    assert_string_equal(given(), "aaaaaaaaaa");
    for (int i = 0; i < 2; i++) {
        sigaction(i ? SIGINT : SIGPIPE, NULL, &after);
        assert_true(after.sa_handler == SIG_DFL);
    }
    free(text);
}

/* An interrupt at the terminal reaches both: the pager gets it, and this process does not end. */
static void an_interrupt_is_the_pagers(void **state) {
    (void)state;
    static char text[] = "one\n";
    setup("PAGER");
    snprintf(pager, sizeof pager, "trap 'echo heard >%s; exit' INT; kill -INT %d; kill -INT $$; sleep 5",
             file, (int)getpid());
    setenv("PAGER", pager, 1);
    assert_true(lmi_page(&(lmi_buf){.s = text, .n = 4}));
    assert_string_equal(given(), "heard\n");
}

static bool is_higher(const char *text, int32_t width, int32_t height) {
    char copy[128];
    snprintf(copy, sizeof copy, "%s", text);
    return lmi_is_higher(&(lmi_buf){.s = copy, .n = strlen(copy)}, width, height);
}

static void lines_of_a_screen(void **state) {
    (void)state;
    assert_true(is_higher("a\nb\n", 10, 2));
    assert_false(is_higher("a\nb\n", 10, 3));
    assert_false(is_higher("", 10, 1));
    assert_true(is_higher("0123456789012345678901234\n", 10, 3)); /* 25 columns are 3 lines of 10 */
    assert_false(is_higher("0123456789012345678901234\n", 10, 4));
    assert_false(is_higher("0123456789012345678901234\n", 0, 2)); /* nothing is known of a width */
    assert_false(is_higher("0123456789\n", 10, 2));
    assert_false(is_higher("\x1b[1m0123456789\x1b[0m\n", 10, 2)); /* a colour takes no room */
    assert_false(is_higher("\u251c\u2500 3456789\n", 10, 2));
    assert_true(is_higher("\n\x1b[3", 10, 1));    /* an escape that is cut */
    assert_true(is_higher("a[own]\nb\n", 10, 2)); /* a bracket alone is text */
}

/* What can't be held is written at once, and none of it is lost. */
static void without_memory(void **state) {
    (void)state;
    static char whole[sizeof fake_out.text];
    setup("PAGER");
    assert_int_equal(on_terminal(5, "m:two --no-pager"), 0);
    memcpy(whole, fake_out.text, sizeof whole);
    int direct = 0;
    bool injected = true;
    for (int i = 0; injected; i++) {
        oom_arm(i, false);
        int code = on_terminal(5, "m:two");
        injected = oom_injected;
        oom_disarm();
        const char *text = given();
        if (code == 0)
            assert_string_equal(text ? text : fake_out.text, whole);
        else
            ERR_HAS("memory");
        direct += code == 0 && !text;
    }
    assert_int_equal(direct, 2); /* the text that is held, and the pager's line */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_higher_is_paged),   cmocka_unit_test(which_commands_are_paged),
        cmocka_unit_test(what_switches_it_off),      cmocka_unit_test(the_pager_is_chosen),
        cmocka_unit_test(a_pager_that_is_not_there), cmocka_unit_test(codes_and_errors_stay),
        cmocka_unit_test(a_pager_is_quit),           cmocka_unit_test(an_interrupt_is_the_pagers),
        cmocka_unit_test(lines_of_a_screen),         cmocka_unit_test(without_memory),
    };
    signal(SIGINT, SIG_DFL); /* a shell starts jobs in the background with it ignored */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
