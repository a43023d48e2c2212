/* SPDX-License-Identifier: Apache-2.0
 *
 * `lamina fit`: the peak of memory of a forward pass and of a training step, before either is run. `lamina
 * tokens`: what a prompt and each new token of a language model cost. The model generates once; steps that a
 * dry run leaves out are on the line through those that it makes, or every step is run. */
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

/* == tokens ============================================================================================ */

typedef struct run {
    lam_model *m;
    lam_costs *c;
} run;

static void end(run *r) {
    lam_costs_free(r->c);
    lam_model_free(r->m);
    *r = (run){NULL, NULL};
}

static lam_live generating(const lmi_cli *c, const char *tokens) {
    lam_live what = lmi_live_request(c, lam_convention_of(NULL));
    what.ops = true;
    what.or_layers = false;
    what.tokens = tokens;
    what.time = strcmp(tokens, "every") == 0 && what.time;
    if (!what.time) what.repeats = 0;
    return what;
}

/* Generates; `r` has what ran also if the model failed. */
static lam_status generate(lmi_cli *c, const lam_live *what, run *r, lam_error *e) {
    lam_status s = lmi_live_model(c, what, &r->m, e);
    lam_cost_options o = {.own = c->own, .ask = c->host->ask, .ask_self = c->host->self};
    if (!r->m) return s;
    lam_error of_costs = {.at = -1};
    lam_status counted = lam_costs_new(&r->c, r->m, &o, s == LAM_OK ? e : &of_costs);
    return s == LAM_OK ? counted : s;
}

/* The sizes that the host generated with, which the run tells. */
static int64_t told(const lam_model *m, const char *name) {
    const char *text = lam_model_told(m, name);
    return text ? strtoll(text, NULL, 10) : 0;
}

static lam_status read(const lmi_cli *c, const run *r, const run *lengths, lam_tokens **t, lam_error *e) {
    const lam_token_options o = {.path = lam_model_told(r->m, "tokens_of"),
                                 .prompt = told(r->m, "tokens_prompt"),
                                 .fresh = told(r->m, "tokens_new"),
                                 .batch = told(r->m, "tokens_batch"),
                                 .given_prompt = c->args.live.prompt > 0,
                                 .given_fresh = c->args.live.fresh > 0,
                                 .sampled = true,
                                 .lengths = lengths->c};
    return lam_tokens_new(t, r->c, &o, e);
}

static int write(lmi_cli *c, const lam_tokens *t, const run *r, int64_t memory) {
    lam_error e = {0};
    lmi_say_dry(c, r->m);
    lam_status s = lam_tokens_write(t, r->c, memory, c->args.peak, c->args.format,
                                    lmi_table_width(c, c->host->width), c->args.exact, c->out, &e);
    return lmi_written(c, &e, s, LMI_EXIT_OK);
}

int lmi_run_tokens(lmi_cli *c) {
    lam_error e = {0}, unused = {.at = -1};
    run main = {NULL, NULL}, lengths = {NULL, NULL};
    lam_tokens *t = NULL;
    int64_t memory = 0;
    int code = LMI_EXIT_OK;
    if (!lmi_format_known(c, "a table of tokens")) return LMI_EXIT_USAGE;
    if (c->args.device_memory && lam_budget_bytes(c->args.device_memory, &memory, &e) != LAM_OK)
        return lmi_complain_of(c, &e, LAM_USAGE);
    lam_named_peak unread;
    if (c->args.peak && lam_peak_named(c->args.peak, "float32", &unread, &e) != LAM_OK)
        return lmi_complain_of(c, &e, LAM_USAGE);
    if (c->args.live.time && !c->args.peak) {
        lmi_complain(c, NULL, "--time: what is timed is compared with a device's peak; give --peak NAME too");
        return LMI_EXIT_USAGE;
    }
    lam_live what = generating(c, c->args.live.dry && !c->args.live.time ? "sample" : "every");
    lam_status s = generate(c, &what, &main, &e);
    if (s == LAM_OK) {
        lam_live longer = generating(c, "lengths");
        longer.dry = true;
        generate(c, &longer, &lengths, &unused); /* a model that can't be followed shows what it shows */
    }
    if (main.c) {
        lam_status made = read(c, &main, &lengths, &t, s == LAM_OK ? &e : &unused);
        if (s == LAM_OK) s = made;
    }
    if (s == LAM_OK && t->bent) {
        lam_tokens_free(t);
        t = NULL;
        end(&main);
        what.tokens = "every";
        s = generate(c, &what, &main, &e);
        if (s == LAM_OK) s = read(c, &main, &lengths, &t, &e);
    }
    if (t) code = write(c, t, &main, memory);
    lam_tokens_free(t);
    end(&main);
    end(&lengths);
    return s == LAM_OK ? code : lmi_complain_of(c, &e, s);
}
