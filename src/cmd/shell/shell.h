/* SPDX-License-Identifier: Apache-2.0
 * cmd/shell: completion for shells, and the manual page, written from the command's tables of subcommands and
 * options. */
#ifndef LMI_SHELL_H
#define LMI_SHELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lmi_shell_option {
    const char *name;
    char letter;
    const char *value; /* NULL: a flag; "a|b": one of these; "FILE..." or "DIR": a path */
    const char *help;  /* NULL: another option's sentence describes it */
} lmi_shell_option;

typedef struct lmi_shell_verb {
    const char *name, *operands, *summary, *more; /* operands "a|b": one of these; more may be NULL */
    bool options_first;                           /* before the operands */
    const lmi_shell_option *options;
    int32_t n_options;
} lmi_shell_verb;

/* The command, and where the text goes; `say` keeps errors. A line that begins with an operand belongs to the
 * first verb. */
typedef struct lmi_shell {
    void (*say)(void *to, const char *text, size_t n);
    void *to;
    const char *version;
    const lmi_shell_verb *verbs;
    int32_t n_verbs;
} lmi_shell;

/* Scripts that complete the command's words, to be read by the shell of that name. */
void lmi_shell_bash(const lmi_shell *t);
void lmi_shell_zsh(const lmi_shell *t);
void lmi_shell_fish(const lmi_shell *t);
/* The manual page lamina(1), as roff. */
void lmi_shell_man(const lmi_shell *t);

#endif
