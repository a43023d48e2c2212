/* SPDX-License-Identifier: Apache-2.0
 *
 * `lamina fit`: the peak of memory of a forward pass and of a training step, before either is run. */
#include "cmd/cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The request for one of the two dry runs. */
static lam_live request(const lmi_cli *c, bool step) {
    lam_live what = lmi_live_request(c, lam_convention_of(NULL));
    what.ops = what.dry = what.follow = true;
    what.backward = step;
    what.mode = step ? "train" : "eval";
    what.optimizer = c->args.no_step ? NULL : what.optimizer ? what.optimizer : "";
    return what;
}

static lam_status follow(lmi_cli *c, bool step, lam_model **m, lam_fit **f, lam_error *e) {
    lam_live what = request(c, step);
    lam_status s = lmi_live_model(c, &what, m, e);
    return s == LAM_OK ? lam_fit_new(f, *m, e) : s;
}

int lmi_run_fit(lmi_cli *c) {
    lam_error e = {0}, of_step = {0}, written = {0};
    lam_model *m[2] = {NULL, NULL};
    lam_fit *f[2] = {NULL, NULL};
    if (c->args.no_step && c->args.live.optimizer) {
        lmi_complain(c, NULL, "--no-step: no optimizer makes a step then; leave it or --optimizer out");
        return LMI_EXIT_USAGE;
    }
    if (c->args.live.optimizer && !*c->args.live.optimizer) {
        lmi_complain(c, NULL, "--optimizer is empty; name one, such as adamw, or FILE.py:FUNCTION");
        return LMI_EXIT_USAGE;
    }
    lam_status s = follow(c, false, &m[0], &f[0], &e), trained = LAM_OK;
    if (s == LAM_OK && !c->args.no_step) trained = follow(c, true, &m[1], &f[1], &of_step);
    bool step = f[1] && f[1]->backward;
    bool text = !c->args.format || lmi_is_format(&c->args, "text");
    int code = LMI_EXIT_OK;
    if (text) lmi_output_narrow(c);
    if (f[0]) {
        lam_status put = lmi_page_head(c, "fit", &written);
        if (put == LAM_OK)
            put = lam_fit_write(f[0], step ? f[1] : NULL, m[step], NULL, c->args.format, c->args.exact,
                                c->out, &written);
        code = lmi_written(c, &written, put, code);
        if (trained == LAM_OK && !step && text && !c->args.no_step)
            lmi_say(c, "\nno training step: no parameter gets a gradient from the output\n");
    }
    for (int i = 0; i < 2; i++) {
        lam_fit_free(f[i]);
        lam_model_free(m[i]);
    }
    if (s != LAM_OK) return lmi_complain_of(c, &e, s);
    return trained == LAM_OK ? code : lmi_complain_of(c, &of_step, trained);
}
