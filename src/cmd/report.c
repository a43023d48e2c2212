/* SPDX-License-Identifier: Apache-2.0
 *
 * `lamina report`: a model's report as one HTML file. */
#include "cmd/cmd.h"

#include <string.h>

/* A page is for a browser: on a terminal nobody could read it. */
static bool has_place(const lmi_cli *c) {
    const char *to = c->args.output;
    return to ? strcmp(to, "-") != 0 || !c->host->out_is_terminal : !c->host->out_is_terminal;
}

/* *code is set to 1 if a NaN or Inf was found. */
static lam_status write_page(lmi_cli *c, const lam_model *m, const lam_page_options *o, const lam_rules *own,
                             int *code, lam_error *e) {
    lam_cost_options by = {.convention = c->args.convention, .own = own};
    lam_costs *costs = NULL;
    lam_health *h = NULL;
    lam_status s = lam_costs_new(&costs, m, &by, e);
    if (s == LAM_OK) s = lam_page_write(costs, o, c->out, e);
    if (s == LAM_OK && lam_model_looked(m)) s = lam_health_new(&h, m, e);
    if (s == LAM_OK && h && lam_health_finding(h, 0)) *code = LMI_EXIT_FINDING;
    lam_health_free(h);
    lam_costs_free(costs);
    return s;
}

/* Of a model that failed the part that ran is written, which says so. */
static int write_model(lmi_cli *c, lam_page_options *o, const lam_rules *own) {
    lam_error e = {0}, written = {0};
    lam_model *m;
    lam_live what = lmi_live_request(c, c->args.convention);
    lam_status live = lmi_live_model(c, &what, &m, &e);
    int code = LMI_EXIT_OK;
    if (live != LAM_OK) o->ran = e.text;
    if (m) {
        lam_status s = write_page(c, m, o, own, &code, &written);
        if (s != LAM_OK && c->out_status == LAM_OK) code = lmi_complain_of(c, &written, s);
    }
    lam_model_free(m);
    return live == LAM_OK ? code : lmi_complain_of(c, &e, live);
}

int lmi_run_report(lmi_cli *c) {
    if (lam_recording_is(c->args.operands[0])) return lmi_report_recordings(c);
    lam_page_options o = {.target = c->args.operands[0], .command = true};
    lam_rules *own = NULL;
    lam_error e = {0};
    if (c->args.n_operands > 1) {
        lmi_too_many(c, c->args.operands[1], "only recordings are shown side by side");
        return LMI_EXIT_USAGE;
    }
    if (c->args.run >= 0) {
        lmi_complain(c, NULL, "--run is for recordings, and %s is a model", c->args.operands[0]);
        return LMI_EXIT_USAGE;
    }
    if (!has_place(c)) {
        lmi_complain(c, "add -o report.html",
                     "a report is a page for a browser, and no file is given for it");
        return LMI_EXIT_USAGE;
    }
    c->args.time = c->args.time || c->args.roof;
    if (c->args.repeats && !c->args.time) {
        lmi_complain(c, "add --time", "--repeats %d is of runs that are timed", (int)c->args.repeats);
        return LMI_EXIT_USAGE;
    }
    if (!lmi_convention_fits(c, c->args.convention)) return LMI_EXIT_USAGE;
    int code = lmi_rules_wanted(c, &own);
    if (code != LMI_EXIT_OK) return code;
    lam_status s = c->args.roof ? lmi_live_roof(c, &o.roof, &e) : LAM_OK;
    code = s == LAM_OK ? write_model(c, &o, own) : lmi_complain_of(c, &e, s);
    lam_rules_free(own);
    return code;
}
