/* SPDX-License-Identifier: Apache-2.0
 *
 * What is built where SQLite is missing. */
#include "report/saved/saved.h"

lam_status lmi_saved_outline(lmi_outline *o, const char *file, lam_error *e) {
    *o = (lmi_outline){.peak_place = -1, .backward_us = -1};
    return lmi_fail(e, LAM_UNSUPPORTED, file,
                    "this lamina was built without SQLite, which reads saved reports; install libsqlite3-dev "
                    "and build it again");
}
