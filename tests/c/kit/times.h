/* SPDX-License-Identifier: Apache-2.0
 *
 * The times of a model, for the tests that are linked with src/analyse. */
#ifndef LAMINA_TEST_TIMES_H
#define LAMINA_TEST_TIMES_H

#include "kit/oom.h"

/* For oom_sweep: the times of a model. */
OOM_UNUSED static void take_times(void *arg, bool *ok) {
    lam_times *t = NULL;
    lam_error e = {0};
    *ok = oom_check(lam_times_new(&t, arg, &e), &e);
    lam_times_free(t);
}

#endif
