/* SPDX-License-Identifier: Apache-2.0
 *
 * `lamina graph`: which operator or layer gave what to which, as DOT. */
#include "cmd/cmd.h"

int lmi_run_graph(lmi_cli *c) {
    lam_error e = {0}, drawn = {0};
    lam_model *m;
    lam_live what = lmi_live_request(c, lam_convention_of(NULL));
    what.ops = true;
    lam_status live = lmi_live_model(c, &what, &m, &e);
    int code = LMI_EXIT_OK;
    if (m) {
        lam_graph *g = NULL;
        lam_status s = lam_graph_new(&g, m, &drawn);
        if (s == LAM_OK) s = lam_graph_dot(g, c->args.ops, c->out, &drawn);
        if (s != LAM_OK && c->out_status == LAM_OK) code = lmi_complain_of(c, &drawn, s);
        lam_graph_free(g);
    }
    lam_model_free(m);
    return live == LAM_OK ? code : lmi_complain_of(c, &e, live);
}
