/* SPDX-License-Identifier: Apache-2.0
 *
 * `lamina diff`: the difference of two models, saved reports or recordings. */
#include "base/system.h"
#include "cmd/cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_WIDTH = 100, N_SIDES = 2 };

/* -- which options fit ------------------------------------------------------------------------- */

static bool known_metric(lmi_cli *c) {
    const char *by = c->args.by;
    return !by || lmi_is_one_of(c, by, lam_diff_metric, "--by: there is no metric", NULL);
}

static bool starts(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

/* Turns on the measurement that modules are sorted by, for a model that runs. */
static void measure_by(lmi_args *a) {
    const char *by = a->by ? a->by : "";
    lam_needs needs = lam_number_needs(by);
    a->live.time = a->live.time || needs == LAM_NEEDS_TIMES;
    a->live.backward = a->live.backward || starts(by, "backward_");
    a->live.memory = a->live.memory || needs == LAM_NEEDS_MEMORY;
}

static bool options_fit(lmi_cli *c, const lmi_side *sides) {
    lmi_args ran = c->args;
    bool live = false, counted = false, recorded = false;
    for (int i = 0; i < N_SIDES; i++) {
        live = live || lmi_side_runs(&sides[i]);
        counted = counted || sides[i].file;
        recorded = recorded || sides[i].recorded;
    }
    ran.by = NULL; /* these two are for every difference */
    ran.exact = false;
    if (counted) ran.live.health = false; /* weights of files are checked */
    const char *option = live ? NULL : lmi_option_of(&ran, counted ? LMI_OF_A_RUN : LMI_OF_A_MODEL);
    if (option) {
        lmi_complain(c, "what files hold is compared as it was counted and measured",
                     "--%s is for a model that is run, and here is none", option);
        return false;
    }
    if (c->args.run && !recorded) {
        lmi_complain(c, NULL, "--run is for recordings, and %s is none", sides[1].operand);
        return false;
    }
    if (live) measure_by(&c->args);
    return lmi_repeats_fit(c) && (!(live || counted) || lmi_convention_fits(c, c->args.convention));
}

/* -- writing ----------------------------------------------------------------------------------- */

static lam_diff_options options_of(const lmi_cli *c) {
    const lmi_args *a = &c->args;
    int32_t screen = c->host->width > 0 ? c->host->width : DEFAULT_WIDTH;
    return (lam_diff_options){.format = a->format,
                              .by = a->by,
                              .width = lmi_table_width(c, screen),
                              .rows = a->rows,
                              .depth = a->depth,
                              .exact = a->exact,
                              .ascii = lmi_table_ascii(c),
                              .command = true};
}

static int write_summary(lmi_cli *c, const lam_diff *d, lam_diff_options o) {
    lmi_buf md;
    lam_error e = {0};
    if (!c->args.github) return LMI_EXIT_OK;
    lmi_buf_init(&md);
    o.format = "md";
    o.command = false;
    lam_status s = lam_diff_write(d, &o, lmi_buf_sink(&md), &e);
    int code = s == LAM_OK ? lmi_github_summary(c, &md) : lmi_complain_of(c, &e, s);
    lmi_buf_free(&md);
    return code;
}

/* Arguments of both sides make no difference. */
static void say_given(lmi_cli *c, const lmi_side *sides) {
    const char *hint = lmi_given_to_both(c, sides, N_SIDES);
    if (!hint) return;
    lmi_say(c, "\nboth      ");
    for (int i = 0; c->args.live.build[i]; i++) lmi_say(c, " -k %s", c->args.live.build[i]);
    lmi_say(c, "; --old-k and --new-k give one of them its own\n");
}

static int write_diff(lmi_cli *c, const lmi_side *sides) {
    lam_diff_side both[N_SIDES];
    lam_diff_options o = options_of(c);
    lam_diff *d = NULL;
    lam_error e = {0};
    for (int i = 0; i < N_SIDES; i++)
        both[i] = (lam_diff_side){.costs = sides[i].costs,
                                  .file = sides[i].costs ? NULL : sides[i].operand,
                                  .run = sides[i].recorded ? c->args.run : 0,
                                  .name = sides[i].name,
                                  .ran = sides[i].live != LAM_OK ? sides[i].e.text : NULL};
    lam_status s = lam_diff_new(&d, &both[0], &both[1], &e);
    if (s == LAM_OK) s = lam_diff_write(d, &o, c->out, &e);
    int code = lmi_written(c, &e, s, LMI_EXIT_OK);
    if (s == LAM_OK && lmi_is_text(&c->args)) say_given(c, sides);
    if (s == LAM_OK) code = write_summary(c, d, o);
    if (s == LAM_OK && code == LMI_EXIT_OK && c->args.exit_code && lam_diff_modules(d) > 0)
        code = LMI_EXIT_FINDING;
    lam_diff_free(d);
    return code;
}

static int run_both(lmi_cli *c, lmi_side *sides) {
    int code = lmi_rules_wanted(c);
    for (int i = 0; i < N_SIDES && code == LMI_EXIT_OK; i++)
        code = lmi_side_run(c, &sides[i], lmi_given_to_both(c, sides, N_SIDES));
    if (code == LMI_EXIT_OK) code = write_diff(c, sides);
    for (int i = 0; i < N_SIDES; i++)
        if (sides[i].live != LAM_OK && sides[i].m) code = lmi_complain_of(c, &sides[i].e, sides[i].live);
    return code;
}

/* -- weights ----------------------------------------------------------------------------------- */

static int write_weights(lmi_cli *c, const lam_weights_diff *d) {
    lam_diff_options o = options_of(c);
    lam_error e = {0};
    lmi_buf md;
    lam_status s = lam_weights_diff_write(d, &o, c->out, &e);
    int code = lmi_written(c, &e, s, LMI_EXIT_OK);
    if (s == LAM_OK && c->args.github) {
        lmi_buf_init(&md);
        o.format = "md";
        o.command = false;
        s = lam_weights_diff_write(d, &o, lmi_buf_sink(&md), &e);
        code = s == LAM_OK ? lmi_github_summary(c, &md) : lmi_complain_of(c, &e, s);
        lmi_buf_free(&md);
    }
    const bool found = c->args.exit_code && lam_weights_differ(d) > 0;
    return code == LMI_EXIT_OK && found ? LMI_EXIT_FINDING : code;
}

static bool weights_fit(lmi_cli *c) {
    for (int i = 0; i < N_SIDES; i++) {
        if (lmi_is_file(c, c->args.operands[i]) || lmi_is_folder(c->args.operands[i])) continue;
        lmi_complain(c, "give safetensors, GGUF, a checkpoint, an index of them, or a folder with one",
                     "--weights compares two files of weights, and %s is none", c->args.operands[i]);
        return false;
    }
    lmi_args others = c->args;
    others.by = NULL;
    others.exact = false;
    const char *option = lmi_option_of(&others, LMI_OF_A_MODEL);
    if (option || c->args.run)
        lmi_complain(c, "nothing of a file is run", "--%s is not for weights", option ? option : "run");
    else
        return !c->args.by ||
               lmi_is_one_of(c, c->args.by, lam_weights_metric, "--by: there is no metric", NULL);
    return false;
}

static int diff_weights(lmi_cli *c) {
    lmi_progress p;
    lam_weights_diff *d = NULL;
    lam_error e = {0};
    if (!lmi_format_known(c, "a difference") || !weights_fit(c) || !lmi_github_allowed(c))
        return LMI_EXIT_USAGE;
    const lam_watcher watcher = lmi_progress_begin(&p, c, "comparing weights");
    lam_status s = lam_weights_diff_new(&d, c->args.operands[0], c->args.operands[1], &watcher, &e);
    lmi_progress_end(&p);
    int code = s == LAM_OK ? write_weights(c, d) : lmi_complain_of(c, &e, s);
    lam_weights_diff_free(d);
    return code;
}

int lmi_run_diff(lmi_cli *c) {
    if (c->args.weights) return diff_weights(c);
    lmi_side sides[N_SIDES] = {0};
    bool fits = lmi_format_known(c, "a difference") && known_metric(c) && lmi_sides_of(c, sides, N_SIDES) &&
                options_fit(c, sides) && lmi_github_allowed(c);
    int code = fits ? run_both(c, sides) : LMI_EXIT_USAGE;
    for (int i = 0; i < N_SIDES; i++) lmi_side_free(&sides[i]);
    return code;
}
