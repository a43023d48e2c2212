/* SPDX-License-Identifier: Apache-2.0
 *
 * `lamina compare`: one run of a model under several conventions, with the reasons for each difference. */
#include "cmd/cmd.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 32 };

typedef struct names {
    char *text; /* the list, cut at its commas */
    const char *at[MOST];
    int32_t n;
} names;

/* Splits "torch,fvcore" into names of conventions; prints an error and returns false if one does not
 * exist. */
static bool read_names(lmi_cli *c, const char *list, names *out) {
    *out = (names){.text = strdup(list ? list : "")};
    if (!out->text) {
        lmi_complain(c, NULL, "out of memory");
        return false;
    }
    for (char *s = out->text; *s;) {
        if (out->n == MOST) {
            lmi_complain(c, NULL, "-c: it takes %d conventions at most", MOST);
            return false;
        }
        char *comma = s + strcspn(s, ",");
        bool last = !*comma;
        *comma = '\0';
        if (strcmp(s, "all") != 0 && !lmi_convention_known(c, s)) return false;
        out->at[out->n++] = s;
        s = last ? comma : comma + 1;
    }
    return true;
}

static lam_status write(lmi_cli *c, const lam_model *m, const names *n, lam_error *e) {
    const lmi_args *a = &c->args;
    bool file = a->output && strcmp(a->output, "-") != 0;
    int32_t width = a->width >= 0 ? a->width : file ? 0 : c->host->width;
    lam_comparison *compared = NULL;
    lam_compare_options o = {.conventions = n->at,
                             .n = n->n,
                             .metric = a->flops ? LAM_FLOPS : LAM_MACS,
                             .phase = a->backward ? LAM_BACKWARD : LAM_FORWARD};
    lam_status s = lam_compare_new(&compared, m, &o, e);
    if (s == LAM_OK && a->format && strcmp(a->format, "html") == 0)
        s = lmi_page_head(c->out, "comparison", e);
    if (s == LAM_OK) s = lam_compare_write(compared, a->format, width, a->exact, c->out, e);
    lam_compare_free(compared);
    return s;
}

int lmi_run_compare(lmi_cli *c) {
    names n;
    lam_error e = {0}, shown = {0};
    lam_model *m = NULL;
    int code = LMI_EXIT_USAGE;
    static const char *const formats[] = {"text", "md", "json", "csv", "html", NULL};
    if (!lmi_format_known(c, formats, "a comparison")) return code;
    if (read_names(c, c->args.convention, &n)) {
        lam_live what = lmi_live_request(c, lam_convention_of(NULL));
        what.ops = what.unfused = true;
        lam_status live = lmi_live_model(c, &what, &m, &e);
        lam_status s = m ? write(c, m, &n, &shown) : LAM_OK;
        code = live != LAM_OK                           ? lmi_complain_of(c, &e, live)
               : s != LAM_OK && c->out_status == LAM_OK ? lmi_complain_of(c, &shown, s)
                                                        : LMI_EXIT_OK;
        lam_model_free(m);
    }
    free(n.text);
    return code;
}
