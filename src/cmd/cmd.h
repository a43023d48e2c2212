/* SPDX-License-Identifier: Apache-2.0
 * cmd: the command `lamina`, a client of lamina.h. Subcommands (verbs.def), options (options.def) and the
 * published tables (published_*.def) are data. Output goes through the host's sinks; nothing here exits. */
#ifndef LMI_CMD_H
#define LMI_CMD_H

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
/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): one command line, in the order of options.def */
typedef struct lmi_args {
    const char **operands; /* as long as the whole command line */
    int32_t n_operands;
    const char *const *rest; /* of a verb that runs another program: its command line */
    int32_t n_rest;
    lam_live live;
#define LIVE(name, letter, type, field, value, help)
#define OPTION(name, letter, type, of, field, value, help) LMI_FIELD_##type(field)
#define HELP(verb, option, help)
#include "cmd/options.def"
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

/* -- live.c ------------------------------------------------------------------------------------ */

/* Requests a model from the host. `*m` may be set also on failure: the part that ran. */
lam_status lmi_live_model(lmi_cli *c, const lam_live *what, lam_model **m, lam_error *e);
/* Runs a model and hands it to `use`, also the part of one that failed: `ran` says why, else it is NULL.
 * Returns the exit code of `use`, or after an error that of the run. */
typedef int (*lmi_use_model)(lmi_cli *c, const lam_model *m, const char *ran, void *self);
int lmi_with_model(lmi_cli *c, const lam_live *what, lmi_use_model use, void *self);
/* Says why the model was followed in a dry run, if nobody asked for one. */
void lmi_say_dry(lmi_cli *c, const lam_model *m);
/* Sets *code to LMI_EXIT_FINDING if health has a finding: a non-finite value, or a result of a check. */
lam_status lmi_judge_health(const lam_model *m, int *code, lam_error *e);
/* The request to the host for the arguments, to be counted under `convention`; NULL: the model's default. */
lam_live lmi_live_request(const lmi_cli *c, const char *convention);
/* The peak of this machine. Call it before the model is loaded, while nothing else runs. */
lam_status lmi_live_roof(lmi_cli *c, lam_peak *out, lam_error *e);
/* A metric's name in a narrow column: "macs", "read". */
const char *lmi_metric_title(lam_metric metric);
/* True for NULL too; false, after an error that names the nearest, if there is none of that name. */
bool lmi_convention_known(lmi_cli *c, const char *name);
/* The same; false also if the options need numbers that the convention does not count. */
bool lmi_convention_fits(lmi_cli *c, const char *name);
/* Makes a model to rehearse a report on, so that errors in options are found before the real model runs,
 * which takes long. It is timed, with operators and memory. */
lam_status lmi_smallest_model(lam_model **m, lam_error *e);
extern const lam_sink lmi_nowhere; /* discards all bytes */
/* With --format html, writes the head of a page that loads nothing. The end of the file ends the page. */
lam_status lmi_page_head(lmi_cli *c, const char *title, lam_error *e);

/* -- report.c ---------------------------------------------------------------------------------- */

/* A model, saved report or recording that an operand names. */
typedef struct lmi_side {
    const char *operand;
    const char *name;                         /* the operand, with what its side alone is given */
    const char *const *inputs, *const *build; /* what it is given alone, besides --input and --build */
    char *kept;                               /* `name`, unless it is the operand */
    bool saved, recorded, file;               /* file: of a model */
    lam_status live;                          /* how the run ended; a failed one may leave a part */
    lam_error e;
    lam_model *m;
    lam_costs *costs;
} lmi_side;
/* The operands as sides: one, or two. Returns false, after an error, if one is given something and takes
 * nothing, or is no side of two. */
bool lmi_sides_of(lmi_cli *c, lmi_side *sides, int32_t n);
/* Explains arguments that are given to both sides, one of which does not take them; else NULL. */
const char *lmi_given_to_both(const lmi_cli *c, const lmi_side *sides, int32_t n);
/* True if the side is a model that is run. */
bool lmi_side_runs(const lmi_side *x);
/* Runs the model, or reads its file, unless the file is of what ran; and counts it. Returns LMI_EXIT_OK
 * unless nothing can be shown. `hint`: to a model that can't be built or given its inputs; NULL: none. */
int lmi_side_run(lmi_cli *c, lmi_side *side, const char *hint);
void lmi_side_free(lmi_side *side);

/* -- out.c: the summary of a job ---------------------------------------------------------------- */

/* Returns false, after an error, if --github is given but there is no job summary. Call it before any
 * work. */
bool lmi_github_allowed(lmi_cli *c);
/* Appends Markdown to the summary of the job of GitHub Actions ($GITHUB_STEP_SUMMARY), which is cut where it
 * would be larger than GitHub shows. Returns an exit code, after an error if it can't be written. */
int lmi_github_summary(lmi_cli *c, const lmi_buf *markdown);

/* -- table.c ----------------------------------------------------------------------------------- */

enum { LMI_MOST_PUBLISHED = 64 };
/* Takes one model's costs; `label` is a literal. */
typedef lam_status (*lmi_take_model)(void *self, const char *label, const lam_costs *costs, lam_error *e);
/* Runs the models of the published table that operand `at` names, all or those that later operands name, and
 * counts them under `convention`. Returns an exit code, after an error for each model that could not be
 * run. */
int lmi_published_run(lmi_cli *c, int32_t at, const char *convention, lmi_take_model take, void *self);

/* -- own.c ------------------------------------------------------------------------------------- */

/* Reads the --rules file, if there is one. Returns LMI_EXIT_OK, or after an error the exit code. */
int lmi_rules_wanted(lmi_cli *c);
/* Adds the rules that the code of a model registered when it ran. A rule of the file overrides them. */
lam_status lmi_rules_registered(lmi_cli *c, lam_error *e);
void lmi_rules_free(lmi_cli *c);
/* The options to count under `convention`: with the rules of the user, and with --released. */
lam_cost_options lmi_cost_options(const lmi_cli *c, const char *convention);
/* With --strict, returns LMI_EXIT_FINDING after an error that names the work without a rule; else
 * LMI_EXIT_OK. */
int lmi_strict(lmi_cli *c, const lam_costs *costs);

/* -- the verbs --------------------------------------------------------------------------------- */
int lmi_run_show(lmi_cli *c);
int lmi_run_report(lmi_cli *c);
int lmi_run_diff(lmi_cli *c);
int lmi_run_why(lmi_cli *c);
int lmi_run_compare(lmi_cli *c);
int lmi_run_check(lmi_cli *c);
int lmi_run_scan(lmi_cli *c);
int lmi_run_graph(lmi_cli *c);
int lmi_run_plot(lmi_cli *c);
int lmi_run_fit(lmi_cli *c);
int lmi_run_tokens(lmi_cli *c);
int lmi_run_rules(lmi_cli *c);
int lmi_run_conventions(lmi_cli *c);
int lmi_run_table(lmi_cli *c);
int lmi_run_doctor(lmi_cli *c);
int lmi_run_version(lmi_cli *c);
int lmi_run_help(lmi_cli *c);
int lmi_run_completion(lmi_cli *c);
int lmi_run_run(lmi_cli *c);
int lmi_run_live(lmi_cli *c);
int lmi_run_export(lmi_cli *c);

/* -- recorded.c -------------------------------------------------------------------------------- */
/* True for a report that was saved as JSON, by its name. */
bool lmi_is_saved(const char *operand);
/* True for a file of a model, or a folder with one (lam_read): not for a saved report. */
bool lmi_is_file(const char *operand);
/* Returns false, after an error, if the operand is a file or a saved report and an option needs a run. */
bool lmi_file_takes(lmi_cli *c, const char *operand);
/* Returns false, after an error, if a page, which is for a browser, would go to a terminal. `file`: a
 * suggested name. */
bool lmi_page_has_place(lmi_cli *c, const char *file);
int lmi_show_recordings(lmi_cli *c);   /* `lamina show` of recordings */
int lmi_report_recordings(lmi_cli *c); /* `lamina report` of them */

#endif
