/* SPDX-License-Identifier: Apache-2.0
 *
 * Completion for bash, zsh and fish, and the manual page. */
#include "cmd/shell/shell.h"

#include <stdbool.h>
#include <string.h>

/* -- text -------------------------------------------------------------------------------------- */

static void say(const lmi_shell *t, const char *text) { t->say(t->to, text, strlen(text)); }

/* A character and its replacement; the last entry has the character 0. */
typedef struct escape {
    char c;
    const char *as;
} escape;

static const escape as_it_is[] = {{0, NULL}};
static const escape in_quotes[] = {{'\'', "'\\''"}, {0, NULL}};
static const escape in_zsh_help[] = {{'\'', "'\\''"}, {'[', "\\["}, {']', "\\]"}, {':', "\\:"}, {0, NULL}};
static const escape in_fish[] = {{'\'', "\\'"}, {'\\', "\\\\"}, {0, NULL}};
static const escape in_roff[] = {{'\\', "\\e"}, {'-', "\\-"}, {'\'', "\\(aq"}, {'`', "\\(ga"}, {0, NULL}};

static void say_as(const lmi_shell *t, const char *text, const escape *escapes) {
    for (const char *s = text; *s; s++) {
        const escape *x = escapes;
        while (x->c && x->c != *s) x++;
        if (x->c)
            say(t, x->as);
        else
            t->say(t->to, s, 1);
    }
}

static void put(const lmi_shell *t, const char *before, const char *text, const escape *escapes,
                const char *after) {
    say(t, before);
    say_as(t, text, escapes);
    say(t, after);
}

/* The words of "a|b", separated by spaces. */
static const escape to_spaces[] = {{'|', " "}, {0, NULL}};

static bool chooses(const char *text) { return text && strchr(text, '|') && !strchr(text, ' '); }

static bool is_path(const char *value) {
    return value && (strncmp(value, "FILE", 4) == 0 || strcmp(value, "DIR") == 0);
}

static bool names_a_verb(const lmi_shell_verb *v) { return strcmp(v->operands, "[SUBCOMMAND]") == 0; }

static void say_verbs(const lmi_shell *t) {
    for (int32_t i = 0; i < t->n_verbs; i++) put(t, i ? " " : "", t->verbs[i].name, as_it_is, "");
}

/* Prints the words that a subcommand's operand can be. */
static void say_operands(const lmi_shell *t, const lmi_shell_verb *v) {
    if (names_a_verb(v))
        say_verbs(t);
    else
        say_as(t, v->operands, to_spaces);
}

/* -- bash -------------------------------------------------------------------------------------- */

static void bash_option(const lmi_shell *t, const lmi_shell_option *o) {
    const char letter[] = {'-', o->letter, '|', '\0'};
    say(t, "        ");
    if (o->letter) say(t, letter);
    put(t, "--", o->name, as_it_is, ")");
    if (chooses(o->value))
        put(t, " words='", o->value, to_spaces, "' ;;\n");
    else
        say(t, is_path(o->value) ? " files=1 ;;\n" : " return ;;\n");
}

static void bash_verb(const lmi_shell *t, const lmi_shell_verb *v) {
    /* The first verb comes last: its case also matches targets. */
    put(t, "    ", v == t->verbs ? "*" : v->name, as_it_is, ")\n        options='--help");
    for (int32_t i = 0; i < v->n_options; i++) put(t, " --", v->options[i].name, as_it_is, "");
    say(t, "'\n");
    if (chooses(v->operands) || names_a_verb(v)) {
        say(t, "        words='");
        say_operands(t, v);
        say(t, "'\n");
    }
    say(t, "        case $before in\n");
    for (int32_t i = 0; i < v->n_options; i++)
        if (v->options[i].value) bash_option(t, &v->options[i]);
    say(t, "        esac ;;\n");
}

void lmi_shell_bash(const lmi_shell *t) {
    say(t, "# Completion of lamina for bash. In ~/.bashrc: source <(lamina completion bash)\n"
           "_lamina() {\n"
           "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
           "    local options='' words='' files=''\n"
           "    COMPREPLY=()\n"
           "    if ((COMP_CWORD == 1)); then\n"
           "        COMPREPLY=($(compgen -W '");
    say_verbs(t);
    say(t, " --help --version' -- \"$word\"))\n"
           "        compopt -o default\n"
           "        return\n"
           "    fi\n"
           "    case ${COMP_WORDS[1]} in\n");
    for (int32_t i = 1; i < t->n_verbs; i++) bash_verb(t, &t->verbs[i]);
    bash_verb(t, t->verbs);
    say(t, "    esac\n"
           "    if [[ $word == -* ]]; then\n"
           "        COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
           "    elif [[ -n $words && -z $files ]]; then\n"
           "        COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
           "    else\n"
           "        compopt -o default\n"
           "    fi\n"
           "}\n"
           "complete -F _lamina lamina\n");
}

/* -- zsh --------------------------------------------------------------------------------------- */

static void zsh_option(const lmi_shell *t, const lmi_shell_option *o) {
    const char letter[] = {'-', o->letter, '\0'};
    say(t, " \\\n            '*'");
    if (o->letter) put(t, "{", letter, as_it_is, ",");
    put(t, "--", o->name, as_it_is, o->letter ? "}" : "");
    put(t, "'[", o->help ? o->help : o->name, in_zsh_help, "]");
    if (chooses(o->value)) {
        put(t, ":", o->name, in_zsh_help, ":(");
        put(t, "", o->value, to_spaces, ")");
    } else if (o->value) {
        put(t, ":", o->value, in_zsh_help, is_path(o->value) ? ":_files" : ": ");
    }
    say(t, "'");
}

static void zsh_verb(const lmi_shell *t, const lmi_shell_verb *v) {
    put(t, "        ", v == t->verbs ? "*" : v->name, as_it_is, ") _arguments -s '(- *)'{-h,--help}'[help]'");
    for (int32_t i = 0; i < v->n_options; i++) zsh_option(t, &v->options[i]);
    say(t, " \\\n            '*:");
    if (names_a_verb(v) || chooses(v->operands)) {
        say(t, "word:(");
        say_operands(t, v);
        say(t, ")");
    } else {
        say(t, "operand:_files");
    }
    say(t, "' ;;\n");
}

void lmi_shell_zsh(const lmi_shell *t) {
    say(t, "#compdef lamina\n"
           "# Completion of lamina for zsh. In ~/.zshrc, after compinit: source <(lamina completion zsh)\n"
           "_lamina() {\n"
           "    local -a verbs\n"
           "    verbs=(");
    for (int32_t i = 0; i < t->n_verbs; i++) {
        put(t, "\n        '", t->verbs[i].name, as_it_is, ":");
        put(t, "", t->verbs[i].summary, in_quotes, "'");
    }
    say(t, ")\n"
           "    if (( CURRENT == 2 )); then\n"
           "        _describe -t verbs subcommand verbs\n"
           "        _files\n"
           "        return\n"
           "    fi\n"
           "    shift words\n"
           "    (( CURRENT-- ))\n"
           "    case $words[1] in\n");
    for (int32_t i = 1; i < t->n_verbs; i++) zsh_verb(t, &t->verbs[i]);
    zsh_verb(t, t->verbs);
    say(t, "    esac\n"
           "}\n"
           "if [[ ${funcstack[1]:-} == _lamina ]]; then _lamina \"$@\"; else compdef _lamina lamina; fi\n");
}

/* -- fish -------------------------------------------------------------------------------------- */

static void fish_option(const lmi_shell *t, const lmi_shell_verb *v, const lmi_shell_option *o) {
    const char letter[] = {o->letter, '\0'};
    put(t, "complete -c lamina -n '__fish_seen_subcommand_from ", v->name, as_it_is, "' -l ");
    say(t, o->name);
    if (o->letter) put(t, " -s ", letter, as_it_is, "");
    if (chooses(o->value))
        put(t, " -x -a '", o->value, to_spaces, "'");
    else if (o->value)
        say(t, is_path(o->value) ? " -r" : " -x");
    put(t, " -d '", o->help ? o->help : o->name, in_fish, "'\n");
}

void lmi_shell_fish(const lmi_shell *t) {
    say(t,
        "# Completion of lamina for fish: lamina completion fish > ~/.config/fish/completions/lamina.fish\n"
        "complete -c lamina -s h -l help -d 'Print help.'\n");
    for (int32_t i = 0; i < t->n_verbs; i++) {
        const lmi_shell_verb *v = &t->verbs[i];
        put(t, "complete -c lamina -n __fish_use_subcommand -a ", v->name, as_it_is, " -d '");
        put(t, "", v->summary, in_fish, "'\n");
        for (int32_t k = 0; k < v->n_options; k++) fish_option(t, v, &v->options[k]);
        if (!names_a_verb(v) && !chooses(v->operands)) continue;
        put(t, "complete -c lamina -n '__fish_seen_subcommand_from ", v->name, as_it_is, "' -x -a '");
        say_operands(t, v);
        say(t, "'\n");
    }
}

/* -- the manual page --------------------------------------------------------------------------- */

static void roff(const lmi_shell *t, const char *before, const char *text, const char *after) {
    put(t, before, text, in_roff, after);
}

static void man_option(const lmi_shell *t, const lmi_shell_option *o) {
    const char letter[] = {'-', o->letter, '\0'};
    if (!o->help) return;
    say(t, ".TP\n");
    if (o->letter) roff(t, "\\fB", letter, "\\fR, ");
    roff(t, "\\fB\\-\\-", o->name, "\\fR");
    if (o->value) roff(t, " \\fI", o->value, "\\fR");
    roff(t, "\n", o->help, "\n");
}

static void man_verb(const lmi_shell *t, const lmi_shell_verb *v) {
    roff(t, ".SS ", v->name, "\n");
    roff(t, "\\fBlamina ", v->name, "\\fR");
    if (v->n_options && v->options_first) say(t, " [options]");
    if (*v->operands) roff(t, " ", v->operands, "");
    say(t, v->n_options && !v->options_first ? " [options]\n.PP\n" : "\n.PP\n");
    roff(t, "", v->summary, "\n");
    if (v->more) roff(t, "", v->more, "\n");
    for (int32_t i = 0; i < v->n_options; i++) man_option(t, &v->options[i]);
}

void lmi_shell_man(const lmi_shell *t) {
    roff(t, ".TH LAMINA 1 \"\" \"lamina ", t->version, "\" \"User Commands\"\n.SH NAME\n");
    roff(t, "", "lamina", " \\- see every layer of a neural network\n.SH SYNOPSIS\n");
    say(t, ".B lamina\n\\fISUBCOMMAND\\fR [options]\n.br\n.B lamina\n\\fITARGET\\fR [options]\n"
           ".SH DESCRIPTION\n");
    roff(t, "",
         "lamina runs a PyTorch model once, counts every operator, and shows it layer by layer. It reads "
         "recordings of training runs too. TARGET is MODULE:NAME, as torchvision.models:resnet18, or "
         "FILE.py:NAME; `lamina TARGET` is the same as `lamina show TARGET`.\n",
         ".SH SUBCOMMANDS\n");
    for (int32_t i = 0; i < t->n_verbs; i++) man_verb(t, &t->verbs[i]);
    say(t, ".SH EXIT STATUS\n");
    roff(t, "",
         "0: fine. 1: a finding. 2: wrong usage. 3: the model or a file failed. 4: an internal error. 130: "
         "interrupted.\n",
         ".SH ENVIRONMENT\n");
    say(t, ".TP\n.B LAMINA_PAGER, PAGER\n");
    roff(t, "", "the pager on a terminal; an empty one: none.\n", ".TP\n.B NO_COLOR\n");
    roff(t, "", "if it is set: no colours, unless --color asks for them.\n", ".TP\n.B LAMINA_CAPTURE\n");
    roff(t, "", "observer, dispatch or calls: how operators are watched.\n", ".SH SEE ALSO\n");
    say(t, ".BR python3 (1)\n");
}
