/* SPDX-License-Identifier: Apache-2.0
 *
 * `lamina check`: holds models against budgets and baselines, and recordings against limits, one from the
 * command line or all of a project's file. */
#include "base/system.h"
#include "cmd/cmd.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct session {
    lmi_cli *c;
    const lmi_args *own; /* the options of the command line */
    lmi_vec checks;      /* lam_check * */
    int code;            /* the worst so far */
    bool is_printed;     /* the file of the checks has been printed */
} session;

static void worsen(session *s, int code) {
    if (code > s->code) s->code = code;
}

/* -- files that are replaced ------------------------------------------------------------------- */

/* Returns true for a new file, with -f, or if the file begins like its replacement. */
static bool may_replace(lmi_cli *c, const char *path, const char *begins) {
    char head[64] = "";
    struct stat st;
    if (!lmi_may_be_file(c, path)) return false;
    if (c->args.force || stat(path, &st) != 0) return true;
    FILE *f = S_ISREG(st.st_mode) ? fopen(path, "rb") : NULL;
    size_t n = f ? fread(head, 1, sizeof head - 1, f) : 0;
    if (f) fclose(f);
    if (f && (n == 0 || strncmp(head, begins, strlen(begins)) == 0)) return true;
    lmi_complain(c, "pass -f to overwrite it, or name another file", "%s: it exists and is something else",
                 path);
    return false;
}

static const char report_begins[] = "{\n\"schema\": \"lamina.report/", xml_begins[] = "<?xml";

/* -- one target -------------------------------------------------------------------------------- */

/* Keeps the check, or reports that memory ran out. */
static void keep(session *s, lam_check *k) {
    lam_check **at = lmi_vec_push(&s->checks);
    if (at) {
        *at = k;
        return;
    }
    lam_check_free(k);
    lmi_complain(s->c, NULL, "memory ran out");
    worsen(s, LMI_EXIT_BUG);
}

static void fail(session *s, const char *name, const lam_error *why, int code) {
    lam_check *k = NULL;
    lam_error e = {0};
    lam_status made = lam_check_failed(&k, name, why, &e);
    if (made == LAM_OK)
        keep(s, k);
    else
        code = lmi_complain_of(s->c, &e, made);
    worsen(s, code);
}

/* The file that this run's report is saved as; NULL: none. */
static const char *saved_to(const session *s) {
    const lmi_args *a = &s->c->args;
    return a->save ? a->save : s->own->renew ? a->baseline : NULL;
}

static lam_status read_budget(const session *s, lam_budget *b, lam_error *e) {
    const lmi_args *a = &s->c->args;
    lam_status status = LAM_OK;
    for (int i = 0; a->max[i] && status == LAM_OK; i++) status = lam_budget_max(b, a->max[i], e);
    for (int i = 0; a->within[i] && status == LAM_OK; i++) status = lam_budget_within(b, a->within[i], e);
    if (a->allow_incomplete) lam_budget_allow_incomplete(b);
    if (a->baseline && !s->own->renew && status == LAM_OK) status = lam_budget_baseline(b, a->baseline, e);
    return status == LAM_OK ? lam_budget_fits(b, a->convention, e) : status;
}

static int save(session *s, const lam_costs *costs, const char *path) {
    lam_report_options o;
    lmi_buf text;
    lam_error e = {0};
    lmi_buf_init(&text);
    lam_report_defaults(&o);
    o.format = "json";
    o.time = s->c->args.live.time;
    o.memory = s->c->args.live.memory;
    lam_status status = lam_report_write(costs, &o, lmi_buf_sink(&text), &e);
    int code = status == LAM_OK ? lmi_replace_file(s->c, LMI_TO_SAVED, path, &text)
                                : lmi_complain_of(s->c, &e, status);
    lmi_buf_free(&text);
    return code;
}

/* Keeps a check of limits that were compared. */
static void judged(session *s, lam_check *k) {
    worsen(s, lam_check_verdict(k) == LAM_WITHIN ? LMI_EXIT_OK : LMI_EXIT_FINDING);
    keep(s, k);
}

static lam_status run_tokens(session *s, const char *name, const lam_budget *b, lam_error *e) {
    lmi_generated g = {0};
    lam_check *k = NULL;
    lam_status status = lmi_generate(s->c, &g, e);
    if (status == LAM_OK) lmi_say_dry(s->c, g.m);
    if (status == LAM_OK) status = lam_check_tokens(&k, name, g.t, g.c, b, e);
    if (status == LAM_OK) judged(s, k);
    lmi_generated_free(&g);
    return status;
}

static lam_status run_model(session *s, const char *name, const lam_budget *b, lam_error *e) {
    lam_model *m = NULL;
    lam_costs *costs = NULL;
    lam_check *k = NULL;
    const char *path = saved_to(s);
    lam_live what = lmi_live_request(s->c, s->c->args.convention);
    lam_status status = lmi_live_model(s->c, &what, &m, e);
    if (status == LAM_OK) lmi_say_dry(s->c, m);
    lam_cost_options by = lmi_cost_options(s->c, s->c->args.convention);
    if (status == LAM_OK) status = lam_costs_new(&costs, m, &by, e);
    if (status == LAM_OK) status = lam_check_new(&k, name, costs, b, e);
    if (status == LAM_OK && path) {
        const int code = save(s, costs, path);
        if (code == LMI_EXIT_OK && lmi_is_text(s->own)) lmi_say(s->c, "%s: saved as %s\n", name, path);
        worsen(s, code);
    }
    if (status == LAM_OK) judged(s, k);
    lam_costs_free(costs);
    lam_model_free(m);
    return status;
}

/* Sets the error of an option that is wrong; the function that read it has printed why. */
static lam_status printed_above(lam_error *e, bool *printed) {
    *printed = true;
    return lmi_fail(e, LAM_USAGE, NULL, "its options are wrong; the error stream says how");
}

/* The first option that a model which generates does not take; NULL: none is given. */
static const char *of_one_run(const lmi_args *a) {
    const struct {
        bool given;
        const char *name;
    } all[] = {{a->live.inputs[0], "input"},   {a->live.mode, "mode"},
               {a->live.backward, "backward"}, {a->live.time, "time"},
               {a->live.repeats, "repeats"},   {a->live.memory, "memory"},
               {a->convention, "convention"},  {a->baseline, "baseline"},
               {a->within[0], "within"},       {a->save, "save"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].given) return all[i].name;
    return NULL;
}

/* Checks that limits in tokens and the options fit together. */
static lam_status fits_tokens(const lmi_args *a, bool in_tokens, lam_error *e) {
    const char *other = in_tokens ? of_one_run(a) : NULL, *own = a->live.prompt ? "prompt" : "new";
    if (other)
        return lmi_fail(e, LAM_USAGE, NULL,
                        "--%s is of one run, and limits in tokens are of a model that generates after random "
                        "token ids; make two checks of them",
                        other);
    if (in_tokens || (!a->live.prompt && !a->live.fresh)) return LAM_OK;
    return lmi_fail(e, LAM_USAGE, NULL,
                    "--%s is for limits in tokens, and there is none; give --max decode_macs_a_token=16G, "
                    "prefill_macs_a_token=15G or cache=20GiB",
                    own);
}

/* -- recordings -------------------------------------------------------------------------------- */

/* What the operands are: recordings, the folder of a run, or a model. */
typedef enum source { OF_MODEL, OF_RECORDINGS, OF_RUN } source;

static source source_of(const lmi_args *a) {
    return lam_recording_is(a->operands[0]) ? OF_RECORDINGS : lmi_is_run(a->operands[0]) ? OF_RUN : OF_MODEL;
}

/* Returns false, after an error, for several operands that are not all recordings. */
static bool are_together(lmi_cli *c, source of) {
    const lmi_args *a = &c->args;
    if (a->n_operands > 1 && of != OF_RECORDINGS)
        return lmi_too_many(c, a->operands[1], "only recordings of one run are checked together");
    for (int32_t i = 1; i < a->n_operands; i++) {
        if (lam_recording_is(a->operands[i])) continue;
        lmi_complain(c, "only recordings of one run are checked together", "%s is no recording",
                     a->operands[i]);
        return false;
    }
    return true;
}

/* Reads the limits of recordings. */
static lam_status prepare_recorded(const session *s, source of, lam_budget *b, lam_error *e) {
    const lmi_args *a = &s->c->args;
    const char *option = lmi_option_of(a, LMI_OF_A_MODEL);
    const char *what = of == OF_RUN ? "the folder of a run" : "a recording";
    if (!option) option = saved_to(s) ? "save" : a->baseline ? "baseline" : a->within[0] ? "within" : NULL;
    if (option)
        return lmi_fail(e, LAM_USAGE, a->operands[0],
                        "it is %s, and --%s is for models; a recording has the limits straggler and input",
                        what, option);
    LAM_TRY(read_budget(s, b, e));
    if (!lam_budget_wants(b).any)
        return lmi_fail(e, LAM_USAGE, NULL,
                        "there is nothing to hold it against; give --max straggler=5%% or --max input=10%%");
    if (!lam_budget_wants(b).recordings)
        return lmi_fail(e, LAM_USAGE, a->max[0],
                        "it is a limit of a model, and %s is %s, which has the limits straggler and input",
                        a->operands[0], what);
    return LAM_OK;
}

static lam_status run_recorded(session *s, source of, const char *name, const lam_budget *b, lam_error *e) {
    lam_check *k = NULL;
    LAM_TRY((of == OF_RUN ? lmi_check_run : lmi_check_recorded)(s->c, name, b, &k, e));
    judged(s, k);
    return LAM_OK;
}

/* -- limits ------------------------------------------------------------------------------------ */

/* Reads the limits, and turns on the measurements that they need. */
static lam_status prepare(session *s, lam_budget *b, bool *printed, lam_error *e) {
    lmi_args *a = &s->c->args;
    if (lmi_is_no_run(s->c, a->operands[0]) || !lmi_file_takes(s->c, a->operands[0]))
        return printed_above(e, printed);
    if (saved_to(s) && !may_replace(s->c, saved_to(s), report_begins)) return printed_above(e, printed);
    lam_status status = read_budget(s, b, e);
    if (status != LAM_OK) return status;
    lam_budget_needs needs = lam_budget_wants(b);
    if (needs.recordings)
        return lmi_fail(e, LAM_USAGE, a->max[0],
                        "it is a limit of recordings (run.*.lamina) and of a run's folder, and %s is neither",
                        a->operands[0]);
    if (!needs.any && !saved_to(s))
        return lmi_fail(e, LAM_USAGE, NULL,
                        "there is nothing to hold it against; give --max macs=2G, --baseline FILE, or --save "
                        "FILE, which makes one");
    LAM_TRY(fits_tokens(a, needs.tokens, e));
    if (needs.tokens) return lmi_rules_wanted(s->c) == LMI_EXIT_OK ? LAM_OK : printed_above(e, printed);
    a->live.backward = a->live.backward || needs.backward;
    a->live.time = a->live.time || needs.time || a->live.repeats;
    a->live.memory = a->live.memory || needs.memory;
    bool fits = lmi_convention_fits(s->c, a->convention) && lmi_rules_wanted(s->c) == LMI_EXIT_OK;
    return fits ? LAM_OK : printed_above(e, printed);
}

static lam_status check_source(session *s, const char *name, lam_budget *b, bool *printed, lam_error *e) {
    const source of = source_of(&s->c->args);
    if (!are_together(s->c, of)) return printed_above(e, printed);
    if (of != OF_MODEL) {
        LAM_TRY(prepare_recorded(s, of, b, e));
        return run_recorded(s, of, name, b, e);
    }
    LAM_TRY(prepare(s, b, printed, e));
    return (lam_budget_wants(b).tokens ? run_tokens : run_model)(s, name, b, e);
}

static void check_target(session *s, bool alone) {
    const lmi_args *a = &s->c->args;
    char several[512];
    const char *name = a->operands[0];
    lam_budget *b = NULL;
    lam_error e = {.at = -1};
    bool printed = false;
    if (a->n_operands > 1) {
        snprintf(several, sizeof several, "%s and %d more", name, (int)a->n_operands - 1);
        name = several;
    }
    lam_status status = lam_budget_new(&b, &e);
    if (status == LAM_OK) status = check_source(s, name, b, &printed, &e);
    if (status != LAM_OK) {
        if (alone && !printed) lmi_complain_of(s->c, &e, status);
        fail(s, name, &e, lmi_exit_code(status));
    }
    lam_budget_free(b);
}

/* -- the checks of a file ---------------------------------------------------------------------- */

static lam_status take_check(void *to, const char *file, int argc, const char *const *argv) {
    session *s = to;
    lmi_cli *c = s->c;
    lam_error e = {0};
    bool printed;
    c->args = lmi_no_args();
    c->args.force = s->own->force;
    c->args.output = s->own->output;
    if (lmi_is_text(s->own) && !s->is_printed) lmi_say(c, "checks of %s\n", file);
    s->is_printed = true;
    c->args.operands = calloc((size_t)argc + 1, sizeof *c->args.operands);
    bool parsed = c->args.operands && lmi_parse(c, argc, argv, 0) && c->args.n_operands > 0;
    if (parsed) {
        check_target(s, false);
    } else {
        printed_above(&e, &printed);
        fail(s, file, &e, LMI_EXIT_USAGE);
    }
    free(c->args.operands);
    c->args = *s->own;
    return LAM_OK;
}

static int check_all(session *s) {
    const lmi_args *a = s->own;
    lmi_cli *c = s->c;
    lam_error e = {.at = -1};
    const char *option = lmi_option_of(a, LMI_OF_A_MODEL | LMI_OF_LIMIT);
    if (option) {
        lmi_complain(c, "name the TARGET, or write it into the file",
                     "--%s is for one target, and without one the checks of a file are run", option);
        return LMI_EXIT_USAGE;
    }
    lam_status status = LAM_UNSUPPORTED;
    if (c->host->checks)
        status = c->host->checks(c->host->self, take_check, s, &e);
    else
        lmi_fail(&e, status, NULL,
                 "there is nothing here that can read lamina.toml; use the Python package's `lamina`");
    return status == LAM_OK ? s->code : lmi_complain_of(c, &e, status);
}

/* -- output ------------------------------------------------------------------------------------ */

static lam_status write_as(const session *s, const char *format, lam_sink to, lam_error *e) {
    return lam_checks_write(s->checks.data, (int32_t)s->checks.n, format, to, e);
}

static void write_github(session *s) {
    lmi_buf md;
    lam_error e = {0};
    lmi_buf_init(&md);
    lam_status status = write_as(s, "github", s->c->host->err, &e);
    if (status == LAM_OK) status = write_as(s, "md", lmi_buf_sink(&md), &e);
    worsen(s, status == LAM_OK ? lmi_github_summary(s->c, &md) : lmi_complain_of(s->c, &e, status));
    lmi_buf_free(&md);
}

static void write_junit(session *s) {
    lmi_buf xml;
    lam_error e = {0};
    lmi_buf_init(&xml);
    lam_status status = write_as(s, "junit", lmi_buf_sink(&xml), &e);
    worsen(s, status == LAM_OK ? lmi_replace_file(s->c, LMI_TO_JUNIT, s->own->junit, &xml)
                               : lmi_complain_of(s->c, &e, status));
    lmi_buf_free(&xml);
}

/* The error of a single target that failed is already printed. */
static void write_all(session *s) {
    lmi_cli *c = s->c;
    lam_check *const *first = s->checks.data;
    const lmi_args *a = s->own;
    lam_error e = {0};
    bool printed = a->n_operands && lmi_is_text(a) && lam_check_verdict(*first) == LAM_CHECK_FAILED;
    if (!printed) worsen(s, lmi_written(c, &e, write_as(s, a->format, c->out, &e), LMI_EXIT_OK));
    if (a->github) write_github(s);
    if (a->junit) write_junit(s);
}

static bool is_possible(lmi_cli *c) {
    const lmi_args *a = &c->args;
    if (!lmi_format_known(c, "a check") || (a->junit && !may_replace(c, a->junit, xml_begins))) return false;
    if (!a->renew || !a->n_operands || a->baseline) return true;
    lmi_complain(c, "give --save FILE", "--renew saves a baseline anew, and --baseline names none");
    return false;
}

int lmi_run_check(lmi_cli *c) {
    const lmi_args own = c->args;
    session s = {.c = c, .own = &own};
    lmi_vec_init(&s.checks, sizeof(lam_check *));
    if (!is_possible(c)) return LMI_EXIT_USAGE;
    if (lmi_is_text(&own)) lmi_output_narrow(c);
    if (own.n_operands)
        check_target(&s, true);
    else
        worsen(&s, check_all(&s));
    c->args = own;
    if (s.checks.n) write_all(&s);
    for (size_t i = 0; i < s.checks.n; i++) lam_check_free(*(lam_check **)lmi_vec_at(&s.checks, i));
    lmi_vec_free(&s.checks);
    return s.code;
}
