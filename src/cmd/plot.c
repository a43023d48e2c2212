/* SPDX-License-Identifier: Apache-2.0
 *
 * `lamina plot`: a model, or the models of a published table, as a picture. */
#include "cmd/cmd.h"

#include <stdio.h>
#include <string.h>

/* -- one model --------------------------------------------------------------------------------- */

static lam_status write_plot(const lmi_cli *cli, const lam_model *m, const lam_plot_options *o, lam_sink to,
                             lam_error *e) {
    lam_cost_options counted = lmi_cost_options(cli, cli->args.convention);
    lam_costs *c = NULL;
    lam_status s = lam_costs_new(&c, m, &counted, e);
    if (s == LAM_OK) s = lam_plot_write(c, o, to, e);
    lam_costs_free(c);
    return s;
}

static lam_status rehearse(const lmi_cli *c, lam_plot_options o, lam_error *e) {
    lam_model *m = NULL;
    o.roof = (lam_peak){1, 1}; /* a placeholder */
    lam_status s = lmi_smallest_model(&m, e);
    if (s == LAM_OK) s = write_plot(c, m, &o, lmi_nowhere, e);
    lam_model_free(m);
    return s;
}

static bool is(const char *a, const char *b) { return a && strcmp(a, b) == 0; }

/* Turns on the measurements that a picture needs. */
static void measure(lmi_args *a, const lam_plot_options *o) {
    lam_needs needs = o->by ? lam_number_needs(o->by) : LAM_NEEDS_NOTHING;
    a->live.time = is(o->kind, "roofline") || needs == LAM_NEEDS_TIMES;
    a->live.memory = is(o->kind, "memory") || needs == LAM_NEEDS_MEMORY;
}

static int write_drawn(lmi_cli *c, const lam_model *m, const char *ran, void *self) {
    lam_error e = {0};
    (void)ran;
    lmi_say_dry(c, m);
    return lmi_written(c, &e, write_plot(c, m, self, c->out, &e), LMI_EXIT_OK);
}

static int plot_model(lmi_cli *c) {
    lmi_args *a = &c->args;
    lam_error e = {0};
    lam_plot_options o = {.kind = a->operands[0],
                          .width = a->width > 0 ? a->width : 0,
                          .by = a->by,
                          .backward = a->live.backward};
    if (a->n_operands > 2) return lmi_too_many(c, a->operands[2], NULL), LMI_EXIT_USAGE;
    if (!lmi_file_takes(c, a->operands[1])) return LMI_EXIT_USAGE;
    measure(a, &o);
    if (!lmi_convention_fits(c, a->convention)) return LMI_EXIT_USAGE;
    lam_status s = rehearse(c, o, &e);
    if (s == LAM_OK && is(o.kind, "roofline") && !lmi_is_saved(a->operands[1]) &&
        !lmi_is_file(c, a->operands[1]))
        s = lmi_live_roof(c, &o.roof, &e);
    if (s != LAM_OK) return lmi_complain_of(c, &e, s);
    lam_live what = lmi_live_request(c, a->convention);
    what.target = a->operands[1];
    what.ops = what.ops || is(o.kind, "graph");
    return lmi_with_model(c, &what, write_drawn, &o);
}

/* -- a published table ------------------------------------------------------------------------- */

typedef struct gathering {
    lam_scatter_point at[LMI_MOST_PUBLISHED];
    char family[LMI_MOST_PUBLISHED][32];
    int32_t n;
} gathering;

/* The name up to its first digit: "resnet" of resnet18, "wide_resnet" of wide_resnet50_2. */
static void put_family(char *to, size_t room, const char *name) {
    snprintf(to, room, "%.*s", (int)strcspn(name, "0123456789"), name);
}

static lam_status take_model(void *self, const char *label, const lam_costs *costs, lam_error *e) {
    gathering *g = self;
    lam_count macs = lam_costs_total(costs, LAM_MACS), params = lam_costs_params(costs).params;
    if (macs.n <= 0 || params.n <= 0)
        return lmi_fail(e, LAM_RANGE, label, "no MACs or no parameters are known: it is left out");
    put_family(g->family[g->n], sizeof g->family[g->n], label);
    g->at[g->n] = (lam_scatter_point){label, g->family[g->n], params.n, macs.n};
    g->n++;
    return LAM_OK;
}

static int plot_table(lmi_cli *c) {
    gathering g = {.n = 0};
    lam_error e = {0};
    const lmi_args *a = &c->args;
    char title[96];
    if (a->live.inputs[0] || a->by || a->live.mode || a->live.build[0] || a->live.given) {
        lmi_complain(c, "leave them out", "-i, -k, --inputs, --mode and --by are of one model");
        return LMI_EXIT_USAGE;
    }
    if (!lmi_convention_known(c, a->convention)) return LMI_EXIT_USAGE;
    int code =
        lmi_published_run(c, 1, a->convention ? a->convention : lam_convention_of(NULL), take_model, &g);
    if (g.n == 0) return code;
    snprintf(title, sizeof title, "MACs against parameters of %d torchvision models", (int)g.n);
    lam_status s = lam_scatter_write(title, g.at, g.n, c->out, &e);
    return lmi_written(c, &e, s, code);
}

int lmi_run_plot(lmi_cli *c) { return is(c->args.operands[0], "table") ? plot_table(c) : plot_model(c); }
