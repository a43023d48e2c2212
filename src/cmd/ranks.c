/* SPDX-License-Identifier: Apache-2.0
 *
 * `lamina show` of the folder of a run of many ranks, which the host reads. */
#include "base/system.h"
#include "cmd/cmd.h"

#include <stdio.h>

static bool is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool lmi_is_run(const char *operand) {
    char path[4096];
    const int n = snprintf(path, sizeof path, "%s/ranks", operand);
    return n > 0 && (size_t)n < sizeof path && is_folder(operand) && is_folder(path);
}

bool lmi_is_no_run(lmi_cli *c, const char *operand) {
    if (!is_folder(operand) || lmi_is_file(c, operand)) return false;
    lmi_complain(c, "a run's folder has ranks/, a model's a file that `lamina help show` names",
                 "%s: this folder is neither a run's nor a model's", operand);
    return true;
}

static lam_status read_run(const lmi_cli *c, lam_ranks **out, lam_error *e) {
    *out = NULL;
    if (!c->host->ranks)
        return lmi_fail(e, LAM_UNSUPPORTED, c->args.operands[0],
                        "the folder of a run is read by Python with DuckDB, and this command has no Python");
    return c->host->ranks(c->host->self, c->args.operands[0], out, e);
}

int lmi_show_run(lmi_cli *c) {
    const lmi_args *a = &c->args;
    const char *option = lmi_option_of(a, LMI_OF_A_MODEL);
    lam_error e = {.at = -1};
    lam_ranks *r;
    if (option) {
        lmi_complain(c, "a run is shown with what was measured in it",
                     "%s is the folder of a run, and --%s is for models", a->operands[0], option);
        return LMI_EXIT_USAGE;
    }
    if (a->n_operands > 1) {
        lmi_too_many(c, a->operands[1], "the folder of a run is shown alone");
        return LMI_EXIT_USAGE;
    }
    const lam_ranks_options o = {.format = a->format,
                                 .width = lmi_table_width(c, c->host->width),
                                 .ascii = lmi_table_ascii(c),
                                 .color = lmi_wants_color(c),
                                 .rows = a->rows > 0 ? a->rows : 0};
    lam_status s = read_run(c, &r, &e);
    if (s != LAM_OK) { /* the request was right, so what is wrong is the folder */
        const int code = lmi_complain_of(c, &e, s);
        return code == LMI_EXIT_USAGE ? LMI_EXIT_FAILED : code;
    }
    s = lam_ranks_write(r, &o, c->out, &e);
    lam_ranks_free(r);
    return lmi_written(c, &e, s, LMI_EXIT_OK);
}
