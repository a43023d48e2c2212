/* SPDX-License-Identifier: Apache-2.0
 *
 * `lamina compare`: one run of a model under several conventions, with the reasons for each difference; with
 * --tokens the FLOPs of a token beside those that other formulas give for a language model. */
#include "cmd/cmd.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 32 };

typedef struct names {
    char *text; /* the list, cut at its commas */
    const char *at[MOST];
    int32_t n;
} names;

/* True if a convention of that name can be compared; false after an error. */
static bool may_compare(lmi_cli *c, const char *name) {
    if (strcmp(name, "all") == 0) return true;
    if (c->args.tokens)
        return lmi_is_one_of(c, name, lam_token_convention, "unknown convention of a token", NULL);
    for (int32_t i = 0; i < lam_n_token_conventions(); i++) {
        if (strcmp(lam_token_convention(i), name) != 0) continue;
        lmi_complain(c, "add --tokens", "-c %s: it is a formula for the tokens of a language model", name);
        return false;
    }
    return lmi_convention_known(c, name);
}

/* Splits "torch,fvcore" into names of conventions; prints an error and returns false if one does not
 * exist. */
static bool read_names(lmi_cli *c, const char *list, names *out) {
    *out = (names){.text = strdup(list ? list : "")};
    if (!out->text) {
        lmi_complain(c, NULL, "out of memory");
        return false;
    }
    if (list && !*list) return may_compare(c, list); /* no convention has that name */
    for (char *s = out->text; *s;) {
        if (out->n == MOST) {
            lmi_complain(c, NULL, "-c: it takes %d conventions at most", MOST);
            return false;
        }
        char *comma = s + strcspn(s, ",");
        bool last = !*comma;
        *comma = '\0';
        if (!may_compare(c, s)) return false;
        out->at[out->n++] = s;
        s = last ? comma : comma + 1;
    }
    return true;
}

static lam_status compare_counts(const lmi_cli *c, const lam_model *m, const names *n, lam_comparison **out,
                                 lam_error *e) {
    const lmi_args *a = &c->args;
    const lam_compare_options o = {.conventions = n->at,
                                   .n = n->n,
                                   .metric = a->flops ? LAM_FLOPS : LAM_MACS,
                                   .phase = a->live.backward ? LAM_BACKWARD : LAM_FORWARD};
    return lam_compare_new(out, m, &o, e);
}

static lam_status compare_tokens(const lmi_cli *c, const lam_model *m, const names *n, lam_comparison **out,
                                 lam_error *e) {
    const lmi_args *a = &c->args;
    const lam_token_compare o = {.conventions = n->at,
                                 .n = n->n,
                                 .training = a->live.backward,
                                 .given_length = a->live.prompt || a->live.inputs[0] || a->live.given};
    const lam_cost_options by = {.own = c->own, .ask = c->host->ask, .ask_self = c->host->self};
    lam_costs *costs = NULL;
    lam_status s = lam_costs_new(&costs, m, &by, e);
    if (s == LAM_OK) s = lam_compare_tokens(out, costs, &o, e);
    lam_costs_free(costs);
    return s;
}

static int write_comparison(lmi_cli *c, const lam_model *m, const char *ran, void *self) {
    const lmi_args *a = &c->args;
    const names *n = self;
    lam_error e = {0};
    lam_comparison *compared = NULL;
    (void)ran;
    lmi_say_dry(c, m);
    int32_t width = lmi_table_width(c, c->host->width);
    lam_status s =
        a->tokens ? compare_tokens(c, m, n, &compared, &e) : compare_counts(c, m, n, &compared, &e);
    if (s == LAM_OK) s = lmi_page_head(c, "comparison", &e);
    if (s == LAM_OK) s = lam_compare_write(compared, a->format, width, a->exact, c->out, &e);
    lam_compare_free(compared);
    return lmi_written(c, &e, s, LMI_EXIT_OK);
}

/* Returns false, after an error, if options don't go together. */
static bool options_fit(lmi_cli *c) {
    const lmi_args *a = &c->args;
    const char *input = a->live.inputs[0] ? "-i" : a->live.given ? "--inputs" : NULL;
    if (!a->tokens && a->live.prompt)
        lmi_complain(c, "add --tokens, or give an input by -i",
                     "--prompt: it is the length of a language model's input");
    else if (a->tokens && lmi_is_file(c, a->operands[0]))
        lmi_complain(c, "give the model itself, as FILE.py:NAME",
                     "%s: nothing of a file is run, and --tokens needs the run", a->operands[0]);
    else if (a->tokens && a->flops)
        lmi_complain(c, "leave --flops out", "--flops: with --tokens it is FLOPs that are compared");
    else if (a->live.prompt && input)
        lmi_complain(c, "leave one of them out", "--prompt and %s both give the input", input);
    else
        return true;
    return false;
}

int lmi_run_compare(lmi_cli *c) {
    names n;
    int code = LMI_EXIT_USAGE;
    if (!lmi_format_known(c, "a comparison") || !options_fit(c)) return code;
    if (!lmi_file_takes(c, c->args.operands[0])) return code;
    if (read_names(c, c->args.convention, &n)) {
        lam_live what = lmi_live_request(c, lam_convention_of(NULL));
        what.ops = what.unfused = true;
        if (c->args.tokens) what.tokens = "forward";
        code = lmi_with_model(c, &what, write_comparison, &n);
    }
    free(n.text);
    return code;
}
