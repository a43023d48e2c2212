/* SPDX-License-Identifier: Apache-2.0
 *
 * What every walk over a result needs. */
#include "report/tell/tell.h"

const char *const lmi_phase_names[LAM_N_PHASES] = {"forward", "backward", "recompute"};

void lmi_give(lmi_teller *t, lam_field f) {
    if (!t->stopped) t->stopped = !t->to.field(t->to.self, &f);
}

const char *lmi_path_of_call(const lam_model *m, int32_t call) {
    const lam_event *ev = lam_model_event(m, call);
    return ev ? lam_model_place(m, ev->place)->path : NULL;
}
