/* SPDX-License-Identifier: Apache-2.0
 *
 * `lamina report`: a model's report as one HTML file, or the difference of two. Each of them is run, or was
 * saved as JSON. */
#include "base/system.h"
#include "cmd/cmd.h"

#include <stdlib.h>

/* -- which options fit -------------------------------------------------------------------------- */

static lmi_side side_of(lmi_cli *c, const char *operand) {
    bool recorded = lam_recording_is(operand), file = !recorded && lmi_is_file(c, operand);
    return (lmi_side){.operand = operand,
                      .name = operand,
                      .recorded = recorded,
                      .file = file,
                      .saved = !recorded && !file && lmi_is_saved(operand)};
}

bool lmi_side_runs(const lmi_side *x) { return !x->saved && !x->recorded && !x->file; }

static void put_given(lmi_buf *b, const char *const *list) {
    for (; *list; list++) {
        lmi_putc(b, ' ');
        lmi_put_clean(b, *list);
    }
}

/* Names the side by what it alone is given, too: "net.py:Net width=64". */
static bool name_side(lmi_cli *c, lmi_side *x) {
    lmi_buf b;
    if (!x->inputs[0] && !x->build[0]) return true;
    lmi_buf_init(&b);
    lmi_put(&b, x->operand);
    put_given(&b, x->build);
    put_given(&b, x->inputs);
    lmi_putc(&b, '\0');
    x->kept = b.bad ? NULL : strdup(b.s);
    lmi_buf_free(&b);
    if (x->kept) x->name = x->kept;
    if (!x->kept) lmi_complain(c, NULL, "memory ran out");
    return x->kept != NULL;
}

bool lmi_sides_of(lmi_cli *c, lmi_side *sides, int32_t n) {
    const lmi_args *a = &c->args;
    if (a->live.inputs[0] && a->old_inputs[0] && a->new_inputs[0]) {
        lmi_complain(c, NULL, "--old-i and --new-i leave no side that takes -i; leave -i out");
        return false;
    }
    const char *const *const inputs[] = {a->old_inputs, a->new_inputs}, *const *const build[] = {
                                                                            a->old_build, a->new_build};
    for (int32_t i = 0; i < n; i++) sides[i] = side_of(c, a->operands[i]);
    for (int32_t i = 0; i < 2; i++) {
        const char *given = inputs[i][0] ? "i" : build[i][0] ? "k" : NULL, *which = i ? "new" : "old";
        if (given && n < 2) {
            lmi_complain(c, NULL, "--%s-%s is for one of two, and %s is alone; write -%s", which, given,
                         sides[0].operand, given);
            return false;
        }
        if (given && !lmi_side_runs(&sides[i])) {
            lmi_complain(c, NULL, "--%s-%s is for a model that is run, and %s is a file%s", which, given,
                         sides[i].operand, sides[i].file ? "" : " of what ran");
            return false;
        }
        if (n < 2) continue;
        sides[i].inputs = inputs[i];
        sides[i].build = build[i];
        if (!name_side(c, &sides[i])) return false;
    }
    return true;
}

const char *lmi_given_to_both(const lmi_cli *c, const lmi_side *sides, int32_t n) {
    if (n < 2 || !c->args.live.build[0] || !lmi_side_runs(&sides[0]) || !lmi_side_runs(&sides[1]))
        return NULL;
    return "-k is given to both; --old-k and --new-k give one of them its own";
}

static bool is_recording(lmi_cli *c, const char *operand) {
    if (!lam_recording_is(operand)) return false;
    lmi_complain(c, "give recordings alone, or models and saved reports; `lamina diff` compares them too",
                 "%s is a recording, and no page has its difference to a model", operand);
    return true;
}

/* Options for running or counting a model have no meaning if none is run. */
static bool is_for_a_run(lmi_cli *c, const lmi_side *sides, int32_t n) {
    bool counted = false; /* a file's model is counted anew */
    for (int32_t i = 0; i < n; i++) {
        if (lmi_side_runs(&sides[i])) return false;
        counted = counted || sides[i].file;
    }
    lmi_args given = c->args;
    if (counted) given.live.health = false; /* weights of files are checked */
    const char *option = lmi_option_of(&given, counted ? LMI_OF_A_RUN : LMI_OF_A_MODEL);
    if (!option) return false;
    lmi_complain(c,
                 counted ? "nothing of a file is run"
                         : "a saved report is shown with what was measured in its run",
                 "--%s is for a model that is run, and here is none", option);
    return true;
}

static bool is_possible(lmi_cli *c, const lmi_side *sides, int32_t n) {
    for (int32_t i = 0; i < n; i++)
        if (is_recording(c, sides[i].operand)) return false;
    if (c->args.run) {
        lmi_complain(c, NULL, "--run is for recordings, and %s is none", c->args.operands[0]);
        return false;
    }
    if (!lmi_page_has_place(c, "report.html")) return false;
    if (is_for_a_run(c, sides, n)) return false;
    c->args.live.time = c->args.live.time || c->args.roof;
    return lmi_repeats_fit(c) && lmi_convention_fits(c, c->args.convention);
}

/* -- the page ----------------------------------------------------------------------------------- */

_Static_assert(2 * LMI_MAX_INPUTS <= LAM_LIVE_WORDS, "what is given to both and to one fits into one list");

static void add_words(const char **to, const char *const *words) {
    while (*to) to++;
    while (*words) *to++ = *words++;
    *to = NULL;
}

int lmi_side_run(lmi_cli *c, lmi_side *x, const char *hint) {
    if (x->saved || x->recorded) return LMI_EXIT_OK;
    lam_live what = lmi_live_request(c, c->args.convention);
    lam_error e = {0};
    what.target = x->operand;
    if (x->inputs && x->inputs[0]) {
        what.given = what.inputs[0] = NULL;
        add_words(what.inputs, x->inputs);
    }
    if (x->build) add_words(what.build, x->build); /* later ones override earlier ones of the same name */
    x->live = lmi_live_model(c, &what, &x->m, &x->e);
    if (!x->m && x->live == LAM_USAGE && hint) {
        lmi_complain(c, hint, "%s%s%s", x->e.where, x->e.where[0] ? ": " : "", x->e.text);
        return LMI_EXIT_USAGE;
    }
    if (!x->m) return lmi_complain_of(c, &x->e, x->live);
    lmi_say_dry(c, x->m);
    lam_cost_options by = lmi_cost_options(c, c->args.convention);
    lam_status s = lam_costs_new(&x->costs, x->m, &by, &e);
    return s == LAM_OK ? LMI_EXIT_OK : lmi_complain_of(c, &e, s);
}

void lmi_side_free(lmi_side *x) {
    lam_costs_free(x->costs);
    lam_model_free(x->m);
    free(x->kept);
}

static lam_status write_page(lmi_cli *c, const lmi_side *sides, int32_t n, lam_page_options *o,
                             lam_error *e) {
    const lmi_side *after = &sides[n - 1], *before = n > 1 ? &sides[0] : NULL;
    o->target = after->name;
    for (int32_t i = 0; i < n; i++)
        if (sides[i].live != LAM_OK) o->ran = sides[i].e.text;
    if (before) {
        o->before = before->name;
        o->costs_before = before->costs;
        o->file_before = before->saved ? before->operand : NULL;
    }
    return after->saved ? lam_page_of(after->operand, o, c->out, e)
                        : lam_page_write(after->costs, o, c->out, e);
}

/* LMI_EXIT_FINDING if a NaN or Inf was found. */
static int check_values(lmi_cli *c, const lmi_side *x) {
    lam_error e = {0};
    int code = LMI_EXIT_OK;
    lam_status s = x->m ? lmi_judge_health(x->m, &code, &e) : LAM_OK;
    return s == LAM_OK ? code : lmi_complain_of(c, &e, s);
}

/* Writes the part of a failed model that ran; the page says so. */
static int write_sides(lmi_cli *c, lmi_side *sides, int32_t n, lam_page_options *o) {
    lam_error e = {0};
    int code = LMI_EXIT_OK;
    for (int32_t i = 0; i < n && code == LMI_EXIT_OK; i++)
        code = lmi_side_run(c, &sides[i], lmi_given_to_both(c, sides, n));
    if (code != LMI_EXIT_OK) return code;
    lam_status s = write_page(c, sides, n, o, &e);
    code = lmi_written(c, &e, s, code);
    for (int32_t i = 0; i < n; i++) {
        int now = sides[i].live != LAM_OK ? lmi_complain_of(c, &sides[i].e, sides[i].live)
                                          : check_values(c, &sides[i]);
        if (now > code) code = now;
    }
    return code;
}

int lmi_run_report(lmi_cli *c) {
    lam_page_options o = {.command = true};
    lam_error e = {0};
    lmi_side sides[2] = {0};
    int32_t n = c->args.n_operands;
    if (lam_recording_is(c->args.operands[0])) return lmi_report_recordings(c);
    if (lmi_is_run(c->args.operands[0])) return lmi_report_run(c);
    if (lmi_is_no_run(c, c->args.operands[0])) return LMI_EXIT_FAILED;
    if (n > 2) {
        lmi_too_many(c, c->args.operands[2], "only recordings are shown side by side");
        return LMI_EXIT_USAGE;
    }
    int code = lmi_sides_of(c, sides, n) && is_possible(c, sides, n) ? lmi_rules_wanted(c) : LMI_EXIT_USAGE;
    if (code == LMI_EXIT_OK) {
        lam_status s = c->args.roof ? lmi_live_roof(c, &o.roof, &e) : LAM_OK;
        code = s == LAM_OK ? write_sides(c, sides, n, &o) : lmi_complain_of(c, &e, s);
    }
    for (int32_t i = 0; i < n; i++) lmi_side_free(&sides[i]);
    return code;
}
