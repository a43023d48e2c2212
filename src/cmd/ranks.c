/* SPDX-License-Identifier: Apache-2.0
 *
 * The folder of a run of many ranks, which the host reads and writes: `lamina show`, `report`, `check`,
 * `merge` and `sql`. */
#include "base/system.h"
#include "cmd/cmd.h"

static lam_status read_run(const lmi_cli *c, const lam_ranks_look *look, lam_ranks **out, lam_error *e) {
    *out = NULL;
    if (!c->host->ranks)
        return lmi_fail(e, LAM_UNSUPPORTED, c->args.operands[0],
                        "the folder of a run is read by Python with DuckDB, and this command has no Python");
    if (!lmi_look_option(&c->args)) look = NULL;
    return c->host->ranks(c->host->self, c->args.operands[0], look, out, e);
}

/* False, after an error, if there is an option of models, or another operand. */
static bool is_alone(lmi_cli *c) {
    const lmi_args *a = &c->args;
    const char *option = lmi_option_of(a, LMI_OF_A_MODEL);
    if (option) {
        lmi_complain(c, "a run is shown with what was measured in it",
                     "%s is the folder of a run, and --%s is for models", a->operands[0], option);
        return false;
    }
    if (a->n_operands > 1) lmi_too_many(c, a->operands[1], "the folder of a run is shown alone");
    return a->n_operands == 1;
}

/* The exit code. Unless there is no such rank or node, the request was right, so what is wrong is the
 * folder. */
static int unread(lmi_cli *c, const lam_error *e, lam_status s) {
    const int code = lmi_complain_of(c, e, s);
    return code == LMI_EXIT_USAGE && s != LAM_RANGE ? LMI_EXIT_FAILED : code;
}

static int write_page(lmi_cli *c) {
    lam_error e = {.at = -1};
    lam_ranks *r;
    lam_status s = read_run(c, NULL, &r, &e);
    if (s != LAM_OK) return unread(c, &e, s);
    s = lam_ranks_page(r, c->args.operands[0], c->out, &e);
    lam_ranks_free(r);
    return lmi_written(c, &e, s, LMI_EXIT_OK);
}

int lmi_report_run(lmi_cli *c) {
    return is_alone(c) && lmi_page_has_place(c, "run.html") ? write_page(c) : LMI_EXIT_USAGE;
}

/* Returns false, after an error, if a page is wanted of what options look at. */
static bool is_whole(lmi_cli *c) {
    const char *option = lmi_look_option(&c->args);
    if (option)
        lmi_complain(c, "leave it out, or show it as text or JSON",
                     "a page is of the whole run, and --%s of a part", option);
    return !option;
}

lam_status lmi_check_run(lmi_cli *c, const char *name, const lam_budget *b, lam_check **out, lam_error *e) {
    lam_ranks *r;
    lam_status s = read_run(c, NULL, &r, e);
    if (s == LAM_USAGE) s = LAM_FAILED; /* the request was right, so what is wrong is the folder */
    if (s == LAM_OK) s = lam_check_ranks(out, name, r, b, e);
    lam_ranks_free(r);
    return s;
}

int lmi_show_run(lmi_cli *c) {
    const lmi_args *a = &c->args;
    lam_error e = {.at = -1};
    lam_ranks_look look;
    lam_ranks *r;
    if (!is_alone(c)) return LMI_EXIT_USAGE;
    if (!lmi_look_of(c, &look)) return LMI_EXIT_USAGE;
    if (lmi_is_format(a, "html")) return is_whole(c) ? write_page(c) : LMI_EXIT_USAGE;
    const lam_ranks_options o = {.format = a->format,
                                 .width = lmi_table_width(c, c->host->width),
                                 .ascii = lmi_table_ascii(c),
                                 .color = lmi_wants_color(c),
                                 .rows = a->rows > 0 ? a->rows : 0};
    lam_status s = read_run(c, &look, &r, &e);
    if (s != LAM_OK) return unread(c, &e, s);
    s = lam_ranks_write(r, &o, c->out, &e);
    lam_ranks_free(r);
    return lmi_written(c, &e, s, LMI_EXIT_OK);
}

/* What is damaged is a file, and not the request. */
static int failed(lmi_cli *c, const lam_error *e, lam_status s) {
    const int code = lmi_complain_of(c, e, s);
    return s == LAM_SYNTAX && code == LMI_EXIT_USAGE ? LMI_EXIT_FAILED : code;
}

static lam_status no_host(lam_error *e, const char *what) {
    return lmi_fail(e, LAM_UNSUPPORTED, NULL,
                    "`lamina %s` needs Python with DuckDB, and this command has no Python", what);
}

/* -- merge --------------------------------------------------------------------------------------------- */

/* True, after an error, unless the operands are recordings and a folder, or the folder of a run alone. */
static bool is_misused(lmi_cli *c, const char *folder) {
    const lmi_args *a = &c->args;
    for (int32_t i = 0; i < a->n_operands; i++) {
        const bool run = lmi_is_run(a->operands[i]);
        if (run && (folder || a->n_operands > 1)) {
            lmi_complain(c, "a run's folder alone, without -o, is made of fewer files",
                         "%s is the folder of a run, and recordings are merged into one", a->operands[i]);
            return true;
        }
        if (run) return false;
        if (lmi_is_file(c, a->operands[i])) {
            lmi_complain(c, "recordings are what `lamina run` and lamina.watch write",
                         "%s: it is no recording, and these are merged", a->operands[i]);
            return true;
        }
    }
    if (folder && *folder) return false;
    lmi_complain(c, "add -o run/", "no folder is named that the recordings go into");
    return true;
}

int lmi_run_merge(lmi_cli *c) {
    lmi_args *a = &c->args;
    lam_error e = {.at = -1};
    lam_merged done = {0};
    const char *folder = a->output;
    a->output = NULL;
    if (!folder && a->n_operands == 1 && lmi_is_folder(a->operands[0]) && !lmi_is_run(a->operands[0])) {
        lmi_say_no_run(c, a->operands[0]);
        return LMI_EXIT_FAILED;
    }
    if (is_misused(c, folder)) return LMI_EXIT_USAGE;
    const int32_t n = folder ? a->n_operands : 0;
    if (!folder) folder = a->operands[0];
    lam_status s = c->host->merge
                       ? c->host->merge(c->host->self, n, (const char *const *)a->operands, folder, &done, &e)
                       : no_host(&e, "merge");
    if (s != LAM_OK) return failed(c, &e, s);
    if (done.written || done.kept)
        lmi_say(c, "%s: %d file%s written, %d left as %s; lamina show %s has the verdict\n", folder,
                (int)done.written, done.written == 1 ? "" : "s", (int)done.kept,
                done.kept == 1 ? "it was" : "they were", folder);
    else
        lmi_say(c, "%s: no recording was merged\n", folder);
    return done.left_out ? LMI_EXIT_FINDING : LMI_EXIT_OK;
}

/* -- sql ----------------------------------------------------------------------------------------------- */

int lmi_run_sql(lmi_cli *c) {
    const lmi_args *a = &c->args;
    lam_error e = {.at = -1};
    lam_table *t = NULL;
    if (!lmi_is_run(a->operands[0])) {
        lmi_say_no_run(c, a->operands[0]);
        return LMI_EXIT_FAILED;
    }
    lam_status s = c->host->sql ? c->host->sql(c->host->self, a->operands[0], a->operands[1], &t, &e)
                                : no_host(&e, "sql");
    if (s != LAM_OK) return failed(c, &e, s);
    const lam_table_options o = {.format = a->format,
                                 .kind = "sql",
                                 .width = lmi_table_width(c, c->host->width),
                                 .ascii = lmi_table_ascii(c)};
    s = lam_table_write(t, &o, c->out, &e);
    lam_table_free(t);
    return lmi_written(c, &e, s, LMI_EXIT_OK);
}
