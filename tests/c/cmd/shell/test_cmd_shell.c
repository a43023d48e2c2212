/* SPDX-License-Identifier: Apache-2.0
 *
 * Scripts of completion and the manual page, of a small table of subcommands, held against transcripts. */
#include "kit/oom.h"

#include "kit/shown.h"

#include "cmd/shell/shell.h"

static const lmi_shell_option options[] = {{"input", 'i', "FILE...", "the input's file: [a] \\ `b`"},
                                           {"format", 0, "text|json", "text or json"},
                                           {"dir", 0, "DIR", "a folder"},
                                           {"rows", 'n', "N", "so-many rows"},
                                           {"color", 'c', "always|never or so", "a value with spaces"},
                                           {"file", 0, "FILENAME", NULL},
                                           {"exact", 0, NULL, NULL}};
static const lmi_shell_verb verbs[] = {{"show", "TARGET...", "Show [each] layer: it's fine.", NULL, false,
                                        options, 7},
                                       {"completion", "bash|zsh", "Print a script.", "More of it.", false,
                                        NULL, 0},
                                       {"help", "[SUBCOMMAND]", "Print help.", NULL, false, NULL, 0}};

static void put(void *to, const char *text, size_t n) { assert_int_equal(show_put(to, text, n), LAM_OK); }

static void write(void (*script)(const lmi_shell *t)) {
    const lmi_shell t = {.say = put, .version = "1.2-3", .verbs = verbs, .n_verbs = 3};
    (void)show_sink();
    script(&t);
}

static void bash(void **state) {
    (void)state;
    write(lmi_shell_bash);
    show_golden("shell-bash", true);
}

static void zsh(void **state) {
    (void)state;
    write(lmi_shell_zsh);
    show_golden("shell-zsh", true);
}

static void fish(void **state) {
    (void)state;
    write(lmi_shell_fish);
    show_golden("shell-fish", true);
}

static void manual(void **state) {
    (void)state;
    write(lmi_shell_man);
    show_golden("shell-man", true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bash),
        cmocka_unit_test(zsh),
        cmocka_unit_test(fish),
        cmocka_unit_test(manual),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
