/* SPDX-License-Identifier: Apache-2.0
 *
 * `lamina show`: the table of a model. */
#include "cmd/cmd.h"

#include <stdio.h>
#include <string.h>

/* A layout of another tool counts as that tool does, unless an option says otherwise. */
typedef struct layout {
    const char *name, *convention;
    bool released, aggregate, backwards; /* backwards: receptive fields of torchscan 0.1.1 */
} layout;
static const layout layouts[] = {
    {"torchscan-0.1.2", "torchscan", true, true, false},
    {"torchscan-0.1.1", "torchscan", true, true, true},
    {"thoplw", "thoplw", true, false, false},
};

static layout layout_wanted(const lmi_args *a) {
    layout l = {.name = a->layout};
    for (size_t i = 0; a->layout && i < sizeof layouts / sizeof *layouts; i++)
        if (strcmp(layouts[i].name, a->layout) == 0) l = layouts[i];
    if (a->convention) {
        l.released = l.convention && strcmp(l.convention, a->convention) == 0;
        l.convention = a->convention;
    }
    l.released = l.released || a->released;
    return l;
}

static lam_report_options report_options(const lmi_cli *c, const layout *l) {
    const lmi_args *a = &c->args;
    lam_report_options o;
    lam_report_defaults(&o);
    if (a->layout) o.layout = a->layout;
    if (a->format) o.format = a->format;
    o.width = lmi_table_width(c, c->host->width);
    o.max_depth = l->aggregate ? -1 : a->depth;
    o.color = lmi_wants_color(c);
    o.bars = !a->no_bars;
    o.ascii = lmi_table_ascii(c);
    o.exact = a->exact;
    o.expand = a->expand;
    o.receptive_field = a->rf;
    o.bytes = a->bytes;
    o.time = a->live.time;
    o.memory = a->live.memory;
    o.by = a->by;
    o.sort = a->sort;
    o.rows = a->rows > 0 ? a->rows : 0;
    o.why = a->why;
    o.command = o.page = true;
    o.lay_out = c->host->lay_out;
    o.lay_out_self = c->host->self;
    if (a->roof) o.peak = (lam_peak){1, 1}; /* a placeholder until it is measured */
    return o;
}

/* -- the command line again, for a line that suggests the next command ------------------------- */

/* Adds `word`, quoted for a shell; returns false if it does not fit: then the whole line is left out. */
static bool add_word(char *line, size_t size, const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
    bool quoted = word[strspn(word, plain)] != '\0' || *word == '\0';
    size_t n = strlen(line);
    if (strchr(word, '\'')) return false;
    int wrote = snprintf(line + n, size - n, quoted ? "%s'%s'" : "%s%s", n ? " " : "", word);
    return wrote > 0 && (size_t)wrote < size - n;
}

static bool add_option(char *line, size_t size, const char *option, const char *value) {
    return add_word(line, size, option) && add_word(line, size, value);
}

/* Writes the target with its run options; false unless the output is a terminal, where the reader may type
 * it. */
static bool typed(const lmi_cli *c, char *line, size_t size) {
    const lmi_args *a = &c->args;
    bool ok = c->host->out_is_terminal && !lmi_is_to_file(c) && add_word(line, size, a->operands[0]);
    for (int i = 0; ok && a->live.inputs[i]; i++) ok = add_option(line, size, "-i", a->live.inputs[i]);
    for (int i = 0; ok && a->live.build[i]; i++) ok = add_option(line, size, "-k", a->live.build[i]);
    if (ok && a->live.mode) ok = add_option(line, size, "--mode", a->live.mode);
    return ok;
}

/* The options of a report. */
typedef struct making {
    layout l;
    lam_report_options o;
    const lam_page_options *page; /* for --format html, once the model has run */
} making;

/* *strict, unless NULL, is set to the exit code of --strict. */
static lam_status write_report(lmi_cli *cli, const lam_model *m, const making *with, int32_t depth,
                               lam_sink to, int *strict, lam_error *e) {
    const layout *l = &with->l;
    const lam_report_options *o = &with->o;
    lam_cost_options costs = lmi_cost_options(cli, l->convention);
    costs.released = l->released;
    lam_costs *c = NULL;
    lam_status s = lam_costs_new(&c, m, &costs, e);
    if (s == LAM_OK && l->backwards) s = lam_costs_rf_backwards(c, e);
    if (s == LAM_OK && l->aggregate && depth >= 0) s = lam_costs_aggregate(c, depth, e);
    if (s == LAM_OK) s = with->page ? lam_page_write(c, with->page, to, e) : lam_report_write(c, o, to, e);
    if (s == LAM_OK && strict) *strict = lmi_strict(cli, c);
    if (s == LAM_OK && strict && *strict == LMI_EXIT_OK) s = lmi_judge_health(m, strict, e);
    lam_costs_free(c);
    return s;
}

/* -- a rehearsal ------------------------------------------------------------------------------- */

/* Running a model takes long, so errors in the options are found first, by a report on the smallest
 * model. */
static lam_status rehearse(lmi_cli *c, const making *with, lam_error *e) {
    lam_model *m = NULL;
    lam_status s = lmi_smallest_model(&m, e);
    if (s == LAM_OK) s = write_report(c, m, with, -1, lmi_nowhere, NULL, e);
    lam_model_free(m);
    return s;
}

static int write_shown(lmi_cli *c, const lam_model *m, const char *ran, void *self) {
    making *with = self;
    lam_error e = {0};
    int code = LMI_EXIT_OK;
    const lam_page_options page = {.target = c->args.operands[0],
                                   .ran = ran,
                                   .roof = with->o.peak,
                                   .command = true};
    if (strcmp(with->o.format, "html") == 0) with->page = &page;
    lam_status s = write_report(c, m, with, c->args.depth, c->out, &code, &e);
    return lmi_written(c, &e, s, code);
}

static int show(lmi_cli *c, making *with) {
    lam_error e = {0};
    lam_status s = rehearse(c, with, &e);
    if (s == LAM_OK && c->args.roof) s = lmi_live_roof(c, &with->o.peak, &e);
    if (s != LAM_OK) return lmi_complain_of(c, &e, s);
    lam_live what = lmi_live_request(c, with->l.convention);
    return lmi_with_model(c, &what, write_shown, with);
}

/* Returns false, after an error, for several models: only recordings may be several. */
static bool is_one_model(lmi_cli *c) {
    if (c->args.run) {
        lmi_complain(c, NULL, "--run is for recordings, and %s is a model", c->args.operands[0]);
        return false;
    }
    if (lmi_look_option(&c->args)) {
        lmi_complain(c, NULL, "--%s is for a run of many ranks, and %s is a model", lmi_look_option(&c->args),
                     c->args.operands[0]);
        return false;
    }
    if (c->args.n_operands == 1) return true;
    return lmi_too_many(c, c->args.operands[1], "only recordings are shown side by side");
}

/* An option for a column's share or order implies the column. */
static void column_is_measured(lmi_args *a, const char *column) {
    lam_needs needs = column ? lam_number_needs(column) : LAM_NEEDS_NOTHING;
    a->live.time = a->live.time || needs == LAM_NEEDS_TIMES;
    a->live.memory = a->live.memory || needs == LAM_NEEDS_MEMORY;
    a->bytes = a->bytes || needs == LAM_NEEDS_COLUMNS;
    a->live.backward = a->live.backward || needs == LAM_NEEDS_BACKWARD;
}

int lmi_run_show(lmi_cli *c) {
    if (lam_recording_is(c->args.operands[0])) return lmi_show_recordings(c);
    if (lmi_is_run(c->args.operands[0])) return lmi_show_run(c);
    if (lmi_is_no_run(c, c->args.operands[0])) return LMI_EXIT_FAILED;
    if (!is_one_model(c) || !lmi_file_takes(c, c->args.operands[0])) return LMI_EXIT_USAGE;
    making with = {.l = layout_wanted(&c->args)};
    c->args.live.time = c->args.live.time || c->args.roof;
    column_is_measured(&c->args, c->args.by);
    column_is_measured(&c->args, c->args.sort);
    if (!lmi_repeats_fit(c) || !lmi_convention_fits(c, with.l.convention)) return LMI_EXIT_USAGE;
    char line[512] = "";
    with.o = report_options(c, &with.l);
    if (typed(c, line, sizeof line)) with.o.next = line;
    int code = lmi_rules_wanted(c);
    return code == LMI_EXIT_OK ? show(c, &with) : code;
}
