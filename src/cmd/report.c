/* SPDX-License-Identifier: Apache-2.0
 *
 * `lamina report`: a model's report as one HTML file, or the difference of two. Each of them is run, or was
 * saved as JSON. */
#include "base/system.h"
#include "cmd/cmd.h"

/* -- which options fit -------------------------------------------------------------------------- */

/* If a name with a colon is no file, the colon separates a module and an attribute of it, as in
 * net:made.json. */
static bool is_saved(const char *operand) {
    static const char end[] = ".json";
    const size_t n = strlen(operand), tail = sizeof end - 1;
    struct stat st;
    if (n < tail || strcmp(operand + n - tail, end) != 0) return false;
    return stat(operand, &st) == 0 || !strchr(operand, ':');
}

lmi_side lmi_side_of(const char *operand) {
    bool recorded = lam_recording_is(operand);
    return (lmi_side){.operand = operand, .recorded = recorded, .saved = !recorded && is_saved(operand)};
}

static bool is_recording(lmi_cli *c, const char *operand) {
    if (!lam_recording_is(operand)) return false;
    lmi_complain(c, "give recordings alone, or models and saved reports; `lamina diff` compares them too",
                 "%s is a recording, and no page has its difference to a model", operand);
    return true;
}

/* Options for running or counting a model have no meaning if none is run. */
static bool is_for_a_run(lmi_cli *c, const lmi_side *sides, int32_t n) {
    for (int32_t i = 0; i < n; i++)
        if (!sides[i].saved) return false;
    const char *option = lmi_option_of_a_run(&c->args);
    if (!option) return false;
    lmi_complain(c, "a saved report is shown with what was measured in its run",
                 "--%s is for a model that is run, and here is none", option);
    return true;
}

static bool is_possible(lmi_cli *c, const lmi_side *sides, int32_t n) {
    for (int32_t i = 0; i < n; i++)
        if (is_recording(c, sides[i].operand)) return false;
    if (c->args.run >= 0) {
        lmi_complain(c, NULL, "--run is for recordings, and %s is none", c->args.operands[0]);
        return false;
    }
    if (!lmi_page_has_place(c, "report.html")) return false;
    if (is_for_a_run(c, sides, n)) return false;
    c->args.time = c->args.time || c->args.roof;
    return lmi_repeats_fit(c) && lmi_convention_fits(c, c->args.convention);
}

/* -- the page ----------------------------------------------------------------------------------- */

int lmi_side_run(lmi_cli *c, lmi_side *x) {
    if (x->saved || x->recorded) return LMI_EXIT_OK;
    lam_live what = lmi_live_request(c, c->args.convention);
    lam_error e = {0};
    what.target = x->operand;
    x->live = lmi_live_model(c, &what, &x->m, &x->e);
    if (!x->m) return lmi_complain_of(c, &x->e, x->live);
    lam_cost_options by = lmi_cost_options(c, c->args.convention);
    lam_status s = lam_costs_new(&x->costs, x->m, &by, &e);
    return s == LAM_OK ? LMI_EXIT_OK : lmi_complain_of(c, &e, s);
}

void lmi_side_free(lmi_side *x) {
    lam_costs_free(x->costs);
    lam_model_free(x->m);
}

static lam_status write_page(lmi_cli *c, const lmi_side *sides, int32_t n, lam_page_options *o,
                             lam_error *e) {
    const lmi_side *after = &sides[n - 1], *before = n > 1 ? &sides[0] : NULL;
    o->target = after->operand;
    for (int32_t i = 0; i < n; i++)
        if (sides[i].live != LAM_OK) o->ran = sides[i].e.text;
    if (before) {
        o->before = before->operand;
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
    for (int32_t i = 0; i < n && code == LMI_EXIT_OK; i++) code = lmi_side_run(c, &sides[i]);
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
    if (n > 2) {
        lmi_too_many(c, c->args.operands[2], "only recordings are shown side by side");
        return LMI_EXIT_USAGE;
    }
    for (int32_t i = 0; i < n; i++) sides[i] = lmi_side_of(c->args.operands[i]);
    if (!is_possible(c, sides, n)) return LMI_EXIT_USAGE;
    int code = lmi_rules_wanted(c);
    if (code != LMI_EXIT_OK) return code;
    lam_status s = c->args.roof ? lmi_live_roof(c, &o.roof, &e) : LAM_OK;
    code = s == LAM_OK ? write_sides(c, sides, n, &o) : lmi_complain_of(c, &e, s);
    for (int32_t i = 0; i < n; i++) lmi_side_free(&sides[i]);
    return code;
}
