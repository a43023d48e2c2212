/* SPDX-License-Identifier: Apache-2.0
 * cmd/line: the command line and its streams. Subcommands (verbs.def) and options (options.def) are data;
 * text, errors and files go out through the host's sinks, and nothing here exits. */
#ifndef LMI_CMD_LINE_H
#define LMI_CMD_LINE_H

#include "base/base.h"
#include "cmd/shell/shell.h"

enum { LMI_EXIT_OK = 0, LMI_EXIT_FINDING = 1, LMI_EXIT_USAGE = 2, LMI_EXIT_FAILED = 3, LMI_EXIT_BUG = 4 };
enum { LMI_MAX_INPUTS = 64 };

/* What an option is of (options.def), one bit each. */
typedef enum lmi_of {
    LMI_OF_ANY,
    LMI_OF_LIVE = 1,
    LMI_OF_RUN = 2,
    LMI_OF_TABLE = 4,
    LMI_OF_LIMIT = 8,
    LMI_OF_A_RUN = LMI_OF_LIVE | LMI_OF_RUN,      /* a saved report takes none of these */
    LMI_OF_A_MODEL = LMI_OF_A_RUN | LMI_OF_TABLE, /* a recording takes none of these */
} lmi_of;

/* The parsed command line. Fields of options: NULL, false, 0 or, of whole numbers that may be 0, -1: not
 * given. */
#define LMI_FIELD_FLAG(name)    bool name;
#define LMI_FIELD_TEXT(name)    const char *name;
#define LMI_FIELD_CHOICE(name)  const char *name;
#define LMI_FIELD_LIST(name)    const char *name[LMI_MAX_INPUTS + 1]; /* NULL-terminated */
#define LMI_FIELD_INT(name)     int32_t name;
#define LMI_FIELD_COUNT(name)   int32_t name;
#define LMI_FIELD_COLUMNS(name) int32_t name;
typedef struct lmi_args {
    const char **operands; /* as long as the whole command line */
    int32_t n_operands;
    const char *const *rest; /* of a verb that runs another program: its command line */
    int32_t n_rest;
    lam_live live;
#define LIVE(name, letter, type, field, value, help)
#define OPTION(name, letter, type, of, field, value, help) LMI_FIELD_##type(field)
#define HELP(verb, option, help)
#include "cmd/line/options.def"
#undef HELP
#undef OPTION
#undef LIVE
} lmi_args;

typedef struct lmi_cli lmi_cli;

typedef struct lmi_verb {
    const char *name;
    int (*run)(lmi_cli *c);
    int32_t least, most;        /* operands; most -1: all from the first on belong to another program */
    const char *operands;       /* "TARGET LAYER" */
    const char *formats;        /* of its output, separated by spaces, the default first */
    const char *options;        /* long names, separated by spaces */
    const char *summary, *more; /* one line; an example or a remark */
} lmi_verb;

/* What another process writes to, once this one is confined. */
typedef enum lmi_hand_of {
    LMI_TO_OUTPUT, /* the file of -o */
    LMI_TO_PAGER,
    LMI_TO_SUMMARY, /* of a job of GitHub Actions */
    LMI_TO_SAVED,   /* the file of check's --save */
    LMI_TO_JUNIT,
    LMI_HANDS
} lmi_hand_of;

typedef struct lmi_operand_format {
    const char *operand, *format; /* lam_read_format */
} lmi_operand_format;

struct lmi_cli {
    const lam_host *host;
    const lmi_verb *verb;
    lmi_args args;
    lam_sink out; /* standard output or the file of -o */
    int fd;       /* of that file, -1: not open */
    int out_errno;
    lam_status out_status; /* the first failure to write */
    lmi_buf line;          /* lmi_output_narrow: the current line so far */
    bool holds;            /* the output is held back until it is known if it fits on the screen */
    lmi_buf held;
    char *rules_text; /* of the --rules file, NULL: none */
    lam_rules *own;   /* the user's: from that file and from the model's code; NULL: none */
    lam_json *json;   /* the JSON answer that is being built */
    bool confined;    /* no file is opened and no Python started any more, but what lmi_confine allowed */
    struct lmi_hand *hands;        /* LMI_HANDS of them (base/system.h) */
    bool stopped;                  /* the host ended the work, and says so itself */
    lmi_operand_format formats[2]; /* of the operands that were looked at last, see lmi_format */
    int n_formats;
};

/* -- args.c ------------------------------------------------------------------------------------ */

const lmi_verb *lmi_verb_at(int32_t i); /* NULL past the last one */
const lmi_verb *lmi_verb_find(const char *name);
lmi_args lmi_no_args(void);
/* The first given option that is of one of `kinds`, bits of lmi_of; NULL: none. */
const char *lmi_option_of(const lmi_args *a, unsigned kinds);
/* Parses argv[from..] for c->verb. Prints an error and returns false on failure. */
bool lmi_parse(lmi_cli *c, int argc, const char *const *argv, int from);
/* Returns false, after an error, if --format names none of the verb's formats; `of` is "a difference". */
bool lmi_format_known(lmi_cli *c, const char *of);
/* Takes the format from the ending of -o's file, unless a format is given. False, after an error, if the
 * subcommand does not write what the ending names. */
bool lmi_format_by_ending(lmi_cli *c);
/* Prints an error for a surplus operand, with `hint` unless it looks like an input; returns false. */
bool lmi_too_many(lmi_cli *c, const char *word, const char *hint);
/* Prints a sentence wrapped to the terminal. It begins behind the label, "": none, and as its later lines at
 * `indent`, unless the terminal is too narrow for that. */
void lmi_say_words(lmi_cli *c, const char *label, int32_t indent, const char *text);
/* Writes the command line of a verb: "run [options] SCRIPT"; returns `to`. */
const char *lmi_usage(const lmi_verb *v, char *to, size_t room);
/* Prints the usage, options and remarks of a verb, at most 32 lines. */
void lmi_help_verb(lmi_cli *c, const lmi_verb *v);
/* The i-th option of a verb, but --help; false past the last one. */
bool lmi_option_at(const lmi_verb *v, int32_t i, lmi_shell_option *out);
/* Why the subcommand has no --json; NULL: it has. */
const char *lmi_no_json(const lmi_verb *v);
bool lmi_is_format(const lmi_args *a, const char *name); /* false if no format is given */
bool lmi_is_json(const lmi_args *a);                     /* by --json or --format json */
bool lmi_is_text(const lmi_args *a);                     /* also without a format */
/* Returns false, after an error, for --repeats without --time. */
bool lmi_repeats_fit(lmi_cli *c);
/* Finds the candidate nearest to `word`, if one is near; else NULL. Call lmi_near_put for each candidate. */
typedef struct lmi_near {
    const char *word, *best;
    int32_t distance;
    const char *before; /* what the hint writes before the candidate, such as the dashes of an option */
    char hint[320];
} lmi_near;
lmi_near lmi_near_start(const char *word);
void lmi_near_put(lmi_near *n, const char *candidate);
/* The hint to an unknown word: the nearest one, or `otherwise` if none is near. */
const char *lmi_near_hint(lmi_near *n, const char *otherwise);
/* True if `word` is one of the names of a list, of which name() past the last one is NULL. False, after the
 * error "FAULT 'WORD'": its hint is the nearest, or `otherwise`, or if that is NULL all of them. */
bool lmi_is_one_of(lmi_cli *c, const char *word, const char *(*name)(int32_t i), const char *fault,
                   const char *otherwise);

/* -- out.c ------------------------------------------------------------------------------------- */

/* Prints formatted text to the output; control characters except the newline become '?'. */
void lmi_say(lmi_cli *c, const char *fmt, ...) LAM_PRINTF(2, 3);
/* Prints a text and frees it. */
void lmi_say_text(lmi_cli *c, lmi_buf *text);
/* Prints "lamina: error: ..." and, unless NULL, "  hint: ..." to the error stream. */
void lmi_complain(lmi_cli *c, const char *hint, const char *fmt, ...) LAM_PRINTF(3, 4);
/* Prints "lamina: ..." to the error stream: no error. */
void lmi_remark(lmi_cli *c, const char *fmt, ...) LAM_PRINTF(2, 3);
/* The same for a lam_error; returns its exit code. */
int lmi_complain_of(lmi_cli *c, const lam_error *e, lam_status s);
int lmi_exit_code(lam_status s);
/* The exit code after the output was written with status `s`: `code`, or after an error another. A sink that
 * failed is reported at the end. */
int lmi_written(lmi_cli *c, const lam_error *e, lam_status s, int code);
bool lmi_is_to_file(const lmi_cli *c);                     /* by -o */
int32_t lmi_table_width(const lmi_cli *c, int32_t screen); /* columns; `screen`: those of the terminal */
bool lmi_table_ascii(const lmi_cli *c);                    /* without letters beyond ASCII */
/* Returns false, after an error, if no file can be written there: the path is empty, is a folder, or its
 * folder does not exist. Call it before any work. */
bool lmi_may_be_file(lmi_cli *c, const char *path);
/* The same for the file of -o, and false if it exists and -f is not given. */
bool lmi_output_allowed(lmi_cli *c);
/* Sends the output to the file of -o, which is created with the first byte. */
void lmi_output_start(lmi_cli *c);
/* Writes to the file of -o, and closes it; false, with errno, if that fails. */
bool lmi_output_put(lmi_cli *c, const char *bytes, size_t n);
bool lmi_output_close(lmi_cli *c);
/* Gives a text, or none (NULL), to the process that holds its destination; returns what that returned. */
int lmi_hand_text(lmi_cli *c, lmi_hand_of which, const lmi_buf *text);
/* From now on breaks lines wider than the terminal between words; output to a file, and JSON, are
 * unchanged. */
void lmi_output_narrow(lmi_cli *c);
/* From now on holds the output back, if it may go through a pager. An error releases it, so that the error is
 * the last text on the screen. */
void lmi_output_hold(lmi_cli *c);
/* Begins the answer of a subcommand as JSON, version 1 of its schema. Returns LMI_EXIT_OK, or after an error
 * the exit code. lmi_json_end writes the answer, and returns `code`, or after an error another. */
int lmi_json_begin(lmi_cli *c, const char *kind);
int lmi_json_end(lmi_cli *c, int code);
/* A field of the object or list that is open; name NULL: in a list. */
void lmi_json_text(lmi_cli *c, const char *name, const char *text); /* NULL: null */
void lmi_json_int(lmi_cli *c, const char *name, int64_t n);
void lmi_json_truth(lmi_cli *c, const char *name, bool truth);
void lmi_json_open(lmi_cli *c, const char *name, lam_field_type type); /* LAM_FIELD_OBJECT or _LIST */
void lmi_json_close(lmi_cli *c);
/* Closes the output and reports a failure to write; returns `code` if there was none. */
int lmi_output_end(lmi_cli *c, int code);
bool lmi_wants_color(const lmi_cli *c);

/* -- pager.c ----------------------------------------------------------------------------------- */

const char *lmi_pager_named(void); /* from the environment; NULL: not set, "": no pager */
/* True if this command's output goes through a pager when it is higher than the terminal. */
bool lmi_pager_wanted(const lmi_cli *c);
/* True if the text and the prompt after it don't fit; width 0: lines don't wrap. */
bool lmi_is_higher(const lmi_buf *held, int32_t width, int32_t height);
/* Shows what is held, and waits for the pager to end. False: it could not be started and showed nothing. */
bool lmi_page(const lmi_buf *held);

/* -- confine.c --------------------------------------------------------------------------------- */

/* Confines this process to what the command line names, if that is files of models alone, and if the host
 * lets it. Call it before a file is read. False: after an error. */
bool lmi_confine(lmi_cli *c);
/* Replaces a file, or makes it; returns an exit code, after an error if it can't be written. */
int lmi_replace_file(lmi_cli *c, lmi_hand_of which, const char *path, const lmi_buf *text);

/* -- out.c: the summary of a job ---------------------------------------------------------------- */

/* Returns false, after an error, if --github is given but there is no job summary. Call it before any
 * work. */
bool lmi_github_allowed(lmi_cli *c);
/* Appends Markdown to the summary of the job of GitHub Actions ($GITHUB_STEP_SUMMARY), which is cut where it
 * would be larger than GitHub shows. Returns an exit code, after an error if it can't be written. */
int lmi_github_summary(lmi_cli *c, const lmi_buf *markdown);

/* -- operand.c --------------------------------------------------------------------------------- */

/* True for a report that was saved as JSON, by its name. */
bool lmi_is_saved(const char *operand);
/* True for a file of a model, or a folder with one (lam_read): not for a saved report. */
bool lmi_is_file(lmi_cli *c, const char *operand);
/* lam_read_format of an operand, which is read for it once. */
const char *lmi_format(lmi_cli *c, const char *operand);
/* True for the folder of a run of many ranks, which Python reads. */
bool lmi_is_run(const char *operand);
/* Says why an operand is no run's folder. */
void lmi_say_no_run(lmi_cli *c, const char *operand);
/* True, after an error, for a folder that has several models, or pieces of one, or that can't be read. */
bool lmi_is_refused(lmi_cli *c, const char *folder);
/* True, after an error, for a folder that is neither a run's nor a model's. */
bool lmi_is_no_run(lmi_cli *c, const char *operand);
/* Which of --rank, --node and --layers is given; NULL: none. */
const char *lmi_look_option(const lmi_args *a);
/* What they look at; false, after an error, if they are several. */
bool lmi_look_of(lmi_cli *c, lam_ranks_look *out);

#endif
