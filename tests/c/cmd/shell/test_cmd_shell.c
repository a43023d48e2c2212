/* SPDX-License-Identifier: Apache-2.0
 *
 * Scripts of completion and the manual page, of a small table of subcommands: whole lines. */
#include "kit/oom.h"

#include "kit/shown.h"

#include "cmd/shell/shell.h"

static const lmi_shell_option options[] = {{"input", 'i', "FILE...", "the input's file"},
                                           {"format", 0, "text|json", "text or json"},
                                           {"dir", 0, "DIR", "a folder"},
                                           {"rows", 'n', "N", "so-many rows"},
                                           {"exact", 0, NULL, NULL}};
static const lmi_shell_verb verbs[] = {{"show", "TARGET...", "Show [each] layer: it's fine.", NULL, options,
                                        5},
                                       {"completion", "bash|zsh", "Print a script.", "More of it.", NULL, 0},
                                       {"help", "[SUBCOMMAND]", "Print help.", NULL, NULL, 0}};

static void put(void *to, const char *text, size_t n) { assert_int_equal(show_put(to, text, n), LAM_OK); }

static void write(void (*script)(const lmi_shell *t)) {
    const lmi_shell t = {.say = put, .version = "1.2-3", .verbs = verbs, .n_verbs = 3};
    (void)show_sink();
    script(&t);
}

static void bash(void **state) {
    (void)state;
    write(lmi_shell_bash);
    show_has("        COMPREPLY=($(compgen -W 'show completion help --help --version' -- \"$word\"))\n");
    show_has("    case ${COMP_WORDS[1]} in\n"
             "    completion)\n"
             "        options='--help'\n"
             "        words='bash zsh'\n"
             "        case $before in\n"
             "        esac ;;\n"
             "    help)\n"
             "        options='--help'\n"
             "        words='show completion help'\n"
             "        case $before in\n"
             "        esac ;;\n"
             "    *)\n"
             "        options='--help --input --format --dir --rows --exact'\n"
             "        case $before in\n"
             "        -i|--input) files=1 ;;\n"
             "        --format) words='text json' ;;\n"
             "        --dir) files=1 ;;\n"
             "        -n|--rows) return ;;\n"
             "        esac ;;\n"
             "    esac\n");
    show_has("complete -F _lamina lamina\n");
}

static void zsh(void **state) {
    (void)state;
    write(lmi_shell_zsh);
    show_has("    verbs=(\n"
             "        'show:Show [each] layer: it'\\''s fine.'\n"
             "        'completion:Print a script.'\n"
             "        'help:Print help.')\n");
    show_has("    case $words[1] in\n"
             "        completion) _arguments -s '(- *)'{-h,--help}'[help]' \\\n"
             "            '*:word:(bash zsh)' ;;\n"
             "        help) _arguments -s '(- *)'{-h,--help}'[help]' \\\n"
             "            '*:word:(show completion help)' ;;\n"
             "        *) _arguments -s '(- *)'{-h,--help}'[help]' \\\n"
             "            '*'{-i,--input}'[the input'\\''s file]:FILE...:_files' \\\n"
             "            '*'--format'[text or json]:format:(text json)' \\\n"
             "            '*'--dir'[a folder]:DIR:_files' \\\n"
             "            '*'{-n,--rows}'[so-many rows]:N: ' \\\n"
             "            '*'--exact'[exact]' \\\n"
             "            '*:operand:_files' ;;\n"
             "    esac\n");
}

#define USE  "complete -c lamina -n __fish_use_subcommand -a "
#define SEEN "complete -c lamina -n '__fish_seen_subcommand_from "

static void fish(void **state) {
    (void)state;
    write(lmi_shell_fish);
    show_has("complete -c lamina -s h -l help -d 'Print help.'\n" USE
             "show -d 'Show [each] layer: it\\'s fine.'\n" SEEN
             "show' -l input -s i -r -d 'the input\\'s file'\n" SEEN
             "show' -l format -x -a 'text json' -d 'text or json'\n" SEEN
             "show' -l dir -r -d 'a folder'\n" SEEN "show' -l rows -s n -x -d 'so-many rows'\n" SEEN
             "show' -l exact -d 'exact'\n" USE "completion -d 'Print a script.'\n" SEEN
             "completion' -x -a 'bash zsh'\n" USE "help -d 'Print help.'\n" SEEN
             "help' -x -a 'show completion help'\n");
    assert_string_equal(strstr(shown, SEEN "help'"), SEEN "help' -x -a 'show completion help'\n");
}

static void manual(void **state) {
    (void)state;
    write(lmi_shell_man);
    show_has(".TH LAMINA 1 \"\" \"lamina 1.2\\-3\" \"User Commands\"\n");
    show_has(".SH SUBCOMMANDS\n"
             ".SS show\n"
             "\\fBlamina show\\fR TARGET... [options]\n"
             ".PP\n"
             "Show [each] layer: it\\(aqs fine.\n"
             ".TP\n"
             "\\fB\\-i\\fR, \\fB\\-\\-input\\fR \\fIFILE...\\fR\n"
             "the input\\(aqs file\n"
             ".TP\n"
             "\\fB\\-\\-format\\fR \\fItext|json\\fR\n"
             "text or json\n"
             ".TP\n"
             "\\fB\\-\\-dir\\fR \\fIDIR\\fR\n"
             "a folder\n"
             ".TP\n"
             "\\fB\\-n\\fR, \\fB\\-\\-rows\\fR \\fIN\\fR\n"
             "so\\-many rows\n" /* nothing of an option without a sentence */
             ".SS completion\n"
             "\\fBlamina completion\\fR bash|zsh\n"
             ".PP\n"
             "Print a script.\n"
             "More of it.\n"
             ".SS help\n"
             "\\fBlamina help\\fR [SUBCOMMAND]\n"
             ".PP\n"
             "Print help.\n"
             ".SH EXIT STATUS\n");
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
