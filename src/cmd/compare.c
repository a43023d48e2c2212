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

static int write_comparison(lmi_cli *c, const lam_model *m, const char *ran, void *self) {
    const lmi_args *a = &c->args;
    const names *n = self;
    lam_error e = {0};
    lam_comparison *compared = NULL;
    (void)ran;
    lmi_say_dry(c, m);
    lam_compare_options o = {.conventions = n->at,
                             .n = n->n,
                             .metric = a->flops ? LAM_FLOPS : LAM_MACS,
                             .phase = a->live.backward ? LAM_BACKWARD : LAM_FORWARD};
    int32_t width = lmi_table_width(c, c->host->width);
    lam_status s = lam_compare_new(&compared, m, &o, &e);
    if (s == LAM_OK) s = lmi_page_head(c, "comparison", &e);
    if (s == LAM_OK) s = lam_compare_write(compared, a->format, width, a->exact, c->out, &e);
    lam_compare_free(compared);
    return lmi_written(c, &e, s, LMI_EXIT_OK);
}

int lmi_run_compare(lmi_cli *c) {
    names n;
    int code = LMI_EXIT_USAGE;
    if (!lmi_format_known(c, "a comparison")) return code;
    if (read_names(c, c->args.convention, &n)) {
        lam_live what = lmi_live_request(c, lam_convention_of(NULL));
        what.ops = what.unfused = true;
        code = lmi_with_model(c, &what, write_comparison, &n);
    }
    free(n.text);
    return code;
}
