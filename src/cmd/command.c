/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs one command line, from its first word to its exit code. */
#include "base/system.h"
#include "cmd/cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- small verbs ------------------------------------------------------------------------------- */

int lmi_run_version(lmi_cli *c) {
    if (lmi_is_json(&c->args)) { /* the answer's head has the version */
        int code = lmi_json_begin(c, "version");
        return code == LMI_EXIT_OK ? lmi_json_end(c, code) : code;
    }
    lmi_say(c, "lamina %s\n", lam_version());
    return LMI_EXIT_OK;
}

/* True for subcommands that a sentence below the list describes, since the list would not fit on a screen
 * with them. */
static bool is_told_below(const lmi_verb *v) {
    return v->run == lmi_run_version || v->run == lmi_run_help || v->run == lmi_run_completion ||
           v->run == lmi_run_export || v->run == lmi_run_table || v->run == lmi_run_merge ||
           v->run == lmi_run_sql;
}

static void general_help(lmi_cli *c) {
    lmi_say(c, "lamina %s: see every layer of a neural network.\nusage: lamina SUBCOMMAND [options]\n",
            lam_version());
    lmi_say(c, "       lamina TARGET [options]      the same as lamina show TARGET\n\n");
    const lmi_verb *v;
    char name[32];
    for (int32_t i = 0; (v = lmi_verb_at(i)); i++) {
        if (is_told_below(v)) continue;
        snprintf(name, sizeof name, "  %s", v->name);
        lmi_say_words(c, name, 15, v->summary);
    }
    lmi_say(c, "\n");
    lmi_say_words(
        c, "", 0,
        "TARGET: MODULE:NAME, FILE.py:NAME or a file. Also: `lamina help SUBCOMMAND`, `merge`, `sql`, "
        "`table`, `export`, `version`, `completion`.");
    lmi_say(c, "example: lamina show torchvision.models:resnet18 -i 1x3x224x224 --depth 2\n");
    lmi_say_words(c, "", 0,
                  "exit codes: 0 fine, 1 a finding, 2 usage, 3 model or file failed, 4 internal error, 130 "
                  "interrupted");
}

static lmi_near near_verb(const char *word) {
    lmi_near near = lmi_near_start(word);
    const lmi_verb *v;
    for (int32_t i = 0; (v = lmi_verb_at(i)); i++) lmi_near_put(&near, v->name);
    return near;
}

static int no_such_verb(lmi_cli *c, const char *word) {
    lmi_near near = near_verb(word);
    const char *targets =
        "a model is given as MODULE:NAME or FILE.py:NAME; `lamina help` lists the subcommands";
    lmi_complain(c, lmi_near_hint(&near, targets), "%s: there is no such subcommand", word);
    return LMI_EXIT_USAGE;
}

/* -- texts for other programs -------------------------------------------------------------------- */

static void say_some(void *to, const char *text, size_t n) { lmi_say(to, "%.*s", (int)n, text); }

/* Describes all subcommands to one of the writers of cmd/shell. */
static int describe(lmi_cli *c, void (*write)(const lmi_shell *t)) {
    enum { MOST_VERBS = 64, MOST_OPTIONS = 64 };
    lam_error e = {.status = LAM_NOMEM, .text = "memory ran out"};
    lmi_shell_verb verbs[MOST_VERBS];
    lmi_shell_option *all = calloc((size_t)MOST_VERBS * MOST_OPTIONS, sizeof *all), *at = all;
    if (!all) return lmi_complain_of(c, &e, LAM_NOMEM);
    const lmi_verb *v;
    int32_t n = 0;
    for (; n < MOST_VERBS && (v = lmi_verb_at(n)); n++) {
        int32_t k = 0;
        while (k < MOST_OPTIONS && lmi_option_at(v, k, &at[k])) k++;
        verbs[n] = (lmi_shell_verb){v->name, v->operands, v->summary, v->more, v->most < 0, at, k};
        at += k;
    }
    write(&(lmi_shell){say_some, c, lam_version(), verbs, n});
    free(all);
    return LMI_EXIT_OK;
}

int lmi_run_completion(lmi_cli *c) {
    static const struct {
        const char *name;
        void (*write)(const lmi_shell *t);
    } shells[] = {{"bash", lmi_shell_bash}, {"zsh", lmi_shell_zsh}, {"fish", lmi_shell_fish}};
    const char *name = c->args.operands[0];
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (strcmp(shells[i].name, name) == 0) return describe(c, shells[i].write);
    lmi_complain(c, "it is one of bash, zsh and fish", "%s: there is no completion for this shell", name);
    return LMI_EXIT_USAGE;
}

static void json_of_option(lmi_cli *c, const lmi_shell_option *o) {
    const char letter[] = {o->letter, '\0'};
    lmi_json_open(c, NULL, LAM_FIELD_OBJECT);
    lmi_json_text(c, "name", o->name);
    lmi_json_text(c, "letter", o->letter ? letter : NULL);
    lmi_json_text(c, "value", o->value);
    lmi_json_text(c, "help", o->help);
    lmi_json_close(c);
}

static void json_of_verb(lmi_cli *c, const lmi_verb *v) {
    lmi_shell_option o;
    lmi_json_open(c, NULL, LAM_FIELD_OBJECT);
    lmi_json_text(c, "name", v->name);
    lmi_json_text(c, "operands", v->operands);
    lmi_json_text(c, "summary", v->summary);
    lmi_json_text(c, "remark", v->more);
    lmi_json_text(c, "no_json", lmi_no_json(v));
    lmi_json_open(c, "options", LAM_FIELD_LIST);
    for (int32_t i = 0; lmi_option_at(v, i, &o); i++) json_of_option(c, &o);
    lmi_json_close(c);
    lmi_json_close(c);
}

/* `only` NULL: all subcommands. */
static int json_help(lmi_cli *c, const lmi_verb *only) {
    const lmi_verb *v;
    int code = lmi_json_begin(c, "help");
    if (code != LMI_EXIT_OK) return code;
    lmi_json_open(c, "subcommands", LAM_FIELD_LIST);
    for (int32_t i = 0; (v = lmi_verb_at(i)); i++)
        if (!only || v == only) json_of_verb(c, v);
    lmi_json_close(c);
    return lmi_json_end(c, code);
}

static int help_of(lmi_cli *c, const lmi_verb *v) {
    if (lmi_is_json(&c->args)) return json_help(c, v);
    if (v)
        lmi_help_verb(c, v);
    else
        general_help(c);
    return LMI_EXIT_OK;
}

int lmi_run_help(lmi_cli *c) {
    const char *name = c->args.n_operands ? c->args.operands[0] : NULL;
    const lmi_verb *v = name ? lmi_verb_find(name) : NULL;
    if (c->args.man && lmi_is_json(&c->args)) {
        lmi_complain(c, "leave one of them out", "--man is a page for `man`, and --json is for programs");
        return LMI_EXIT_USAGE;
    }
    if (c->args.man) return describe(c, lmi_shell_man);
    return name && !v ? no_such_verb(c, name) : help_of(c, v);
}

/* pip's command is a script for Python; its first lines name one. */
static const char *made_of(const char *program) {
    char head[512] = "";
    const int fd = open(program, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, head, sizeof head - 1) : 0;
    if (fd >= 0) close(fd);
    const bool script = n > 1 && head[0] == '#' && head[1] == '!';
    return !script ? "native" : strstr(head, "python") ? "Python" : "a script";
}

static void say_program(lmi_cli *c, const char *program) {
    static const char before[] = "lamina ";
    const char *const argv[] = {program, "--version", NULL};
    char line[64];
    lmi_say(c, "%s (%s, ", program, made_of(program));
    if (lmi_ask_program(argv, line, sizeof line) && strncmp(line, before, sizeof before - 1) == 0)
        lmi_say(c, "%s)", line + sizeof before - 1);
    else
        lmi_say(c, "version unknown)");
}

/* Which `lamina` a shell runs, and which others are behind it. */
static void say_programs(lmi_cli *c) {
    char program[4096];
    bool any = lmi_in_path("lamina", 0, program, sizeof program);
    lmi_say(c, "command: %s", any ? "" : "no lamina is in PATH");
    if (any) say_program(c, program);
    for (int i = 1; any && lmi_in_path("lamina", i, program, sizeof program); i++) {
        lmi_say(c, i == 1 ? " runs; behind it in PATH: " : ", ");
        say_program(c, program);
    }
    lmi_say(c, "\n");
}

static void say_confinement(lmi_cli *c) {
    const unsigned can = lmi_can_confine();
    const bool files = can & LMI_NO_OTHER_FILES, calls = can & LMI_NO_OTHER_CALLS;
    lmi_say(c, "confinement: %s\n",
            files && calls
                ? "the native command reads files of models without other files (landlock), network "
                  "and programs (seccomp)"
            : files ? "the native command reads files of models without other files (landlock); this "
                      "system can't keep it from network and programs"
            : calls ? "the native command reads files of models without network and programs (seccomp); "
                      "this system can't keep it from other files (it has no landlock)"
                    : "none: this system has neither landlock nor seccomp");
}

/* Calls the host first: the native command is then replaced by Python, which reports both. */
static lam_status say_abilities(lmi_cli *c, lam_error *e) {
    lam_status s = LAM_OK;
    if (c->host->doctor)
        s = c->host->doctor(c->host->self, c->out, e);
    else
        lmi_say(c, "models: none can be run from here\n");
    lmi_say(c, "lamina: %s\nsystem: %s", lam_version(), lmi_system());
    lmi_say(c, "%s%s\n", *lmi_system_lacks() ? ": " : "", lmi_system_lacks());
    say_programs(c);
    say_confinement(c);
    lmi_say(c, "conventions:");
    for (int32_t i = 0; i < lam_n_conventions(); i++) lmi_say(c, " %s", lam_convention_name(i));
    lmi_say(c, "\nrecordings: ");
    lam_sqlite copy;
    lam_error none = {0};
    if (lam_recording_sqlite(&copy, &none) == LAM_OK)
        lmi_say(c, "by SQLite %s, %s (%s)", copy.version, copy.whose, copy.file);
    else
        lmi_say(c, "not possible: %s%s%s", none.where, none.where[0] ? ": " : "", none.text);
    lmi_say(c, "\noutput: %s in %s", c->host->out_is_terminal ? "a terminal" : "not a terminal",
            c->host->out_is_utf8 ? "UTF-8" : "ASCII");
    if (c->host->width > 0) lmi_say(c, ", %d columns", (int)c->host->width);
    lmi_say(c, "\n");
    return s;
}

/* Each line of `line` is "name: text", but for the later lines of a text. */
static int json_abilities(lmi_cli *c, char *line) {
    int code = lmi_json_begin(c, "doctor");
    if (code != LMI_EXIT_OK) return code;
    lmi_json_open(c, "abilities", LAM_FIELD_LIST);
    for (char *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        char *colon = strstr(line, ": ");
        if (colon) *colon = '\0';
        lmi_json_open(c, NULL, LAM_FIELD_OBJECT);
        lmi_json_text(c, "name", colon ? line : NULL);
        lmi_json_text(c, "text", colon ? colon + 2 : line);
        lmi_json_close(c);
    }
    lmi_json_close(c);
    return lmi_json_end(c, code);
}

int lmi_run_doctor(lmi_cli *c) {
    lam_error e = {0};
    lmi_buf held;
    const lam_sink to = c->out;
    const bool json = lmi_is_json(&c->args);
    lmi_buf_init(&held);
    if (json)
        c->out = lmi_buf_sink(&held);
    else
        lmi_output_narrow(c);
    lam_status s = say_abilities(c, &e);
    int code = LMI_EXIT_OK;
    if (json) {
        c->out = to;
        lam_error none = {.status = LAM_NOMEM, .text = "memory ran out"};
        bool whole = c->out_status == LAM_OK && held.s;
        c->out_status = LAM_OK;
        code = whole ? json_abilities(c, held.s) : lmi_complain_of(c, &none, LAM_NOMEM);
    }
    lmi_buf_free(&held);
    return lmi_written(c, &e, s, code);
}

/* -- the first word ---------------------------------------------------------------------------- */

/* True if inputs are given: then the first word was meant as a model. */
static bool has_inputs(int argc, const char *const *argv) {
    for (int i = 2; i < argc; i++)
        if (strncmp(argv[i], "-i", 2) == 0 || strncmp(argv[i], "--input", 7) == 0) return true;
    return false;
}

static void no_target(lmi_cli *c, const char *word) {
    if (lmi_is_folder(word))
        lmi_complain(
            c, NULL,
            "%s: it is a folder, and a model is given as FILE.py:NAME, with what builds it as NAME; write "
            "%s/FILE.py:NAME",
            word, word);
    else
        lmi_complain(
            c, NULL,
            "%s: a model is given as MODULE:NAME or FILE.py:NAME, with what builds it as NAME; write "
            "%s:NAME or %s.py:NAME",
            word, word, word);
}

/* A subcommand, an option in place of one, or a target. A target names an attribute or a file, so a word with
 * neither a colon nor a path was meant as a subcommand, and so was one before a target. *folder is set to a
 * word that is a target if the folder of this name has a model's file. */
static const lmi_verb *verb_of(lmi_cli *c, int argc, const char *const *argv, int *from,
                               const char **folder) {
    const char *word = argc > 1 ? argv[1] : "help";
    *from = 2;
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) return lmi_verb_find("help");
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) return lmi_verb_find("version");
    const lmi_verb *v = lmi_verb_find(word);
    if (v) return v;
    *from = 1;
    const bool there = *word && access(word, F_OK) == 0;
    if (!there && lmi_is_file(c, word)) return lmi_verb_find("show");
    bool target = strpbrk(word, ":/\\") || strstr(word, ".py") || strstr(word, ".lamina");
    if (there && !target && lmi_is_folder(word)) *folder = word;
    if (word[0] == '-' || target || there) return lmi_verb_find("show");
    const bool before_another = argc > 2 && argv[2][0] != '-';
    if (has_inputs(argc, argv) && !before_another && !near_verb(word).best)
        no_target(c, word);
    else
        no_such_verb(c, word);
    return NULL;
}

static int run(lmi_cli *c, int argc, const char *const *argv) {
    int from;
    const char *folder = NULL;
    lam_error e = {.status = LAM_NOMEM, .text = "memory ran out"};
    c->args.operands = calloc((size_t)argc + 1, sizeof *c->args.operands);
    if (!c->args.operands) return lmi_complain_of(c, &e, LAM_NOMEM);
    c->verb = verb_of(c, argc, argv, &from, &folder);
    if (!c->verb || !lmi_parse(c, argc, argv, from)) return LMI_EXIT_USAGE;
    if (c->args.help) {
        c->args.output = NULL;
        return help_of(c, c->verb);
    }
    if (c->verb->run == lmi_run_merge) return lmi_run_merge(c); /* its -o is a folder */
    if (!lmi_format_by_ending(c) || !lmi_output_allowed(c)) return LMI_EXIT_USAGE;
    lmi_output_hold(c);
    if (!lmi_confine(c)) return LMI_EXIT_FAILED;
    if (folder && !lmi_is_run(folder) && !lmi_is_file(c, folder)) {
        if (lmi_is_refused(c, folder)) return LMI_EXIT_FAILED;
        no_target(c, folder);
        return LMI_EXIT_USAGE;
    }
    return c->verb->run(c);
}

int lam_command(int argc, const char *const *argv, const lam_host *host) {
    lmi_hand hands[LMI_HANDS] = {0};
    lmi_cli c = {.host = host, .args = lmi_no_args(), .hands = hands};
    if (!host || argc < 0 || (argc > 0 && !argv)) return LMI_EXIT_BUG;
    lmi_output_start(&c);
    int code = lmi_output_end(&c, run(&c, argc, argv));
    lmi_rules_free(&c);
    lam_json_free(c.json);
    free(c.args.operands);
    return code;
}
