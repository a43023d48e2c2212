/* SPDX-License-Identifier: Apache-2.0
 *
 * `lamina tokens`: the cost of a prompt and of each new token of a language model. The model generates, in
 * the runs that lam_tokens_next() lists. */
#include "cmd/cmd.h"

#include <stdlib.h>
#include <string.h>

static void end(lam_model **m, lam_costs **costs) {
    lam_costs_free(*costs);
    lam_model_free(*m);
    *costs = NULL;
    *m = NULL;
}

void lmi_generated_free(lmi_generated *g) {
    lam_tokens_free(g->t); /* they read the costs */
    g->t = NULL;
    end(&g->m, &g->c);
    end(&g->longer, &g->longer_c);
    end(&g->followed, &g->followed_c);
}

/* Generates once; there is what ran also if the model failed. */
static lam_status run(lmi_cli *c, const lam_token_run *how, int64_t longest, lam_model **m, lam_costs **costs,
                      lam_error *e) {
    lam_live what = lmi_live_request(c, lam_convention_of(NULL));
    what.ops = true;
    what.or_layers = false;
    what.tokens = how->which;
    what.longest = longest < INT32_MAX ? (int32_t)longest : 0;
    what.dry = how->dry;
    what.time = how->time;
    what.follow = how->follow;
    if (!what.time) what.repeats = 0;
    end(m, costs);
    lam_status s = lmi_live_model(c, &what, m, e);
    lam_cost_options o = {.own = c->own, .ask = c->host->ask, .ask_self = c->host->self};
    if (!*m) return s;
    lam_error of_costs = {.at = -1};
    lam_status counted = lam_costs_new(costs, *m, &o, s == LAM_OK ? e : &of_costs);
    return s == LAM_OK ? counted : s;
}

/* The sizes that the host generated with, which the run tells. */
static int64_t asked_for(const lam_model *m, const char *name) {
    const char *text = lam_model_told(m, name);
    return text ? strtoll(text, NULL, 10) : 0;
}

static lam_status read(const lmi_cli *c, lmi_generated *g, lam_error *e) {
    const lam_token_options o = {.path = lam_model_told(g->m, "tokens_of"),
                                 .prompt = asked_for(g->m, "tokens_prompt"),
                                 .fresh = asked_for(g->m, "tokens_new"),
                                 .batch = asked_for(g->m, "tokens_batch"),
                                 .given_prompt = c->args.live.prompt > 0,
                                 .given_fresh = c->args.live.fresh > 0,
                                 .sampled = true,
                                 .lengths = g->longer_c,
                                 .followed = g->followed_c,
                                 .not_followed = g->unfollowed.text[0] ? g->unfollowed.text : NULL};
    return lam_tokens_new(&g->t, g->c, &o, e);
}

/* A run whose memory is followed, or why it can't be. */
static void follow(lmi_cli *c, const lam_token_run *how, lmi_generated *g) {
    g->unfollowed = (lam_error){.at = -1};
    if (run(c, how, 0, &g->followed, &g->followed_c, &g->unfollowed) != LAM_OK)
        end(&g->followed, &g->followed_c);
}

/* Prompts of other lengths; a model that can't be followed shows what it shows. */
static void lengths(lmi_cli *c, const lam_token_run *how, lmi_generated *g) {
    const int64_t longest = lam_tokens_longest(g->c, lam_model_told(g->m, "tokens_of"));
    lam_error unused = {.at = -1};
    (void)run(c, how, longest, &g->longer, &g->longer_c, &unused);
}

lam_status lmi_generate(lmi_cli *c, lmi_generated *g, lam_error *e) {
    const lam_token_plan plan = {c->args.live.dry, c->args.live.time, c->args.device_memory != NULL};
    lam_token_run next;
    lam_error unused = {.at = -1};
    lam_status s = LAM_OK;
    for (int32_t made = 0; s == LAM_OK && lam_tokens_next(&next, made, g->t, &plan); made++) {
        lam_tokens_free(g->t);
        g->t = NULL;
        switch (next.purpose) {
        case LAM_RUN_LENGTHS: lengths(c, &next, g); break;
        case LAM_RUN_MEMORY: follow(c, &next, g); break;
        default: s = run(c, &next, 0, &g->m, &g->c, e); break;
        }
        if (s == LAM_OK && c->host->wait && c->host->wait(c->host->self, 0) != LAM_OK)
            return lmi_fail(e, LAM_FAILED, NULL, "interrupted");
        if (s == LAM_OK && next.tells) s = read(c, g, e);
    }
    if (s != LAM_OK && g->c && !g->t) (void)read(c, g, &unused);
    return s;
}

static int write(lmi_cli *c, const lmi_generated *g, int64_t memory) {
    lam_error e = {0};
    lam_named_peak peak;
    const char *named = c->args.peak;
    if (named && lmi_tokens_peak(c, g->t, &peak, &e) != LAM_OK) return lmi_complain_of(c, &e, LAM_USAGE);
    lmi_say_dry(c, g->m);
    lam_status s = lam_tokens_write(g->t, g->c, memory, named ? &peak : NULL, c->args.format,
                                    lmi_table_width(c, c->host->width), c->args.exact, c->out, &e);
    return lmi_written(c, &e, s, LMI_EXIT_OK);
}

int lmi_run_tokens(lmi_cli *c) {
    lam_error e = {0};
    lmi_generated g = {0};
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
    lam_status s = lmi_generate(c, &g, &e);
    if (g.t) code = write(c, &g, memory);
    lmi_generated_free(&g);
    return s == LAM_OK ? code : lmi_complain_of(c, &e, s);
}
