/* SPDX-License-Identifier: Apache-2.0
 * cmd: the command `lamina`, a client of lamina.h: what each subcommand does. The published tables
 * (published_*.def) are data. */
#ifndef LMI_CMD_H
#define LMI_CMD_H

#include "cmd/line/line.h"

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
/* The peak of a language model's device, measured if the command line says so. */
lam_status lmi_tokens_peak(lmi_cli *c, const lam_tokens *t, lam_named_peak *out, lam_error *e);
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

/* -- tokens.c ---------------------------------------------------------------------------------- */

/* A language model that generated. */
typedef struct lmi_generated {
    lam_model *m, *longer; /* longer: prompts of other lengths, by which a cache's growth is known */
    lam_model *followed;   /* a run whose memory was followed; NULL: not wanted, or `unfollowed` says why */
    lam_costs *c, *longer_c, *followed_c;
    lam_error unfollowed;
    lam_tokens *t; /* NULL: there are none */
} lmi_generated;
/* Makes the runs that the options ask for, and reads them; of a model that failed, what ran until then. Free
 * it also after an error. */
lam_status lmi_generate(lmi_cli *c, lmi_generated *g, lam_error *e);
void lmi_generated_free(lmi_generated *g);

/* -- table.c ----------------------------------------------------------------------------------- */

enum { LMI_MOST_PUBLISHED = 64 };
/* Takes one model's costs; `label` is a literal. */
typedef lam_status (*lmi_take_model)(void *self, const char *label, const lam_costs *costs, lam_error *e);
/* Runs the models of the published table that operand `at` names, all or those that later operands name, and
 * counts them under `convention`. Returns an exit code, after an error for each model that could not be
 * run. */
int lmi_published_run(lmi_cli *c, int32_t at, const char *convention, lmi_take_model take, void *self);

/* -- user_rules.c ------------------------------------------------------------------------------------- */

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

/* -- progress.c -------------------------------------------------------------------------------- */

/* Follows long work: after half a second a line on the terminal's error stream shows how far it is, and the
 * host may end it. */
typedef struct lmi_progress {
    lmi_cli *c;
    const char *what;
    int64_t began, last; /* last: when the line was written; 0: never */
} lmi_progress;
lam_watcher lmi_progress_begin(lmi_progress *p, lmi_cli *c, const char *what); /* `what` is a literal */
void lmi_progress_end(const lmi_progress *p);                                  /* takes the line away */

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

/* -- ranks.c ----------------------------------------------------------------------------------- */

int lmi_show_run(lmi_cli *c);   /* `lamina show` of the folder of a run */
int lmi_report_run(lmi_cli *c); /* `lamina report` of it */
int lmi_run_merge(lmi_cli *c);
int lmi_run_sql(lmi_cli *c);
/* `lamina check` of it, and of the recordings that the operands name. */
lam_status lmi_check_run(lmi_cli *c, const char *name, const lam_budget *b, lam_check **out, lam_error *e);
lam_status lmi_check_recorded(lmi_cli *c, const char *name, const lam_budget *b, lam_check **out,
                              lam_error *e); /* recorded.c */

/* -- recorded.c -------------------------------------------------------------------------------- */
/* Returns false, after an error, if the operand is a file or a saved report and an option needs a run. */
bool lmi_file_takes(lmi_cli *c, const char *operand);
/* Returns false, after an error, if a page, which is for a browser, would go to a terminal. `file`: a
 * suggested name. */
bool lmi_page_has_place(lmi_cli *c, const char *file);
int lmi_show_recordings(lmi_cli *c);   /* `lamina show` of recordings */
int lmi_report_recordings(lmi_cli *c); /* `lamina report` of them */

#endif
