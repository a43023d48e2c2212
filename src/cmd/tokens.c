/* SPDX-License-Identifier: Apache-2.0
 *
 * `lamina tokens`: the cost of a prompt and of each new token of a language model. The model generates, in
 * the runs that lam_tokens_next() lists. */
#include "cmd/cmd.h"

#include <stdlib.h>
#include <string.h>

typedef struct run {
    lam_model *m;
    lam_costs *c;
} run;

static void end(run *r) {
    lam_costs_free(r->c);
    lam_model_free(r->m);
    *r = (run){NULL, NULL};
}

/* Generates; `r` has what ran also if the model failed. */
static lam_status generate(lmi_cli *c, const lam_token_run *how, run *r, lam_error *e) {
    lam_live what = lmi_live_request(c, lam_convention_of(NULL));
    what.ops = true;
    what.or_layers = false;
    what.tokens = how->which;
    what.dry = how->dry;
    what.time = how->time;
    if (!what.time) what.repeats = 0;
    end(r);
    lam_status s = lmi_live_model(c, &what, &r->m, e);
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

/* Makes the runs and reads them; of a model that failed, what ran until then. */
static lam_status count(lmi_cli *c, run *main, run *lengths, lam_tokens **t, lam_error *e) {
    const lam_live *asked = &c->args.live;
    lam_token_run next;
    lam_error unused = {.at = -1};
    lam_status s = LAM_OK;
    for (int32_t made = 0; s == LAM_OK && lam_tokens_next(&next, made, *t, asked->dry, asked->time); made++) {
        lam_tokens_free(*t); /* it reads the costs of the run before */
        *t = NULL;
        if (next.may_fail)
            (void)generate(c, &next, lengths, &unused);
        else
            s = generate(c, &next, main, e);
        if (s == LAM_OK && next.tells) s = read(c, main, lengths, t, e);
    }
    if (s != LAM_OK && main->c && !*t) (void)read(c, main, lengths, t, &unused);
    return s;
}

static int write(lmi_cli *c, const lam_tokens *t, const run *r, int64_t memory) {
    lam_error e = {0};
    lmi_say_dry(c, r->m);
    lam_status s = lam_tokens_write(t, r->c, memory, c->args.peak, c->args.format,
                                    lmi_table_width(c, c->host->width), c->args.exact, c->out, &e);
    return lmi_written(c, &e, s, LMI_EXIT_OK);
}

int lmi_run_tokens(lmi_cli *c) {
    lam_error e = {0};
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
    lam_status s = count(c, &main, &lengths, &t, &e);
    if (t) code = write(c, t, &main, memory);
    lam_tokens_free(t);
    end(&main);
    end(&lengths);
    return s == LAM_OK ? code : lmi_complain_of(c, &e, s);
}
