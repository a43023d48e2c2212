/* SPDX-License-Identifier: Apache-2.0
 *
 * Text leaves through the caller's sink in large pieces. */
#include "report/table/report.h"

enum { PIECE = 64 << 10 }; /* bytes, about */

lam_status lmi_job_flush(lmi_job *j) {
    if (j->out.n < PIECE && !j->out.bad) return LAM_OK;
    return lmi_buf_flush(&j->out, j->to, j->e);
}

lam_status lmi_job_close(lmi_job *j, lam_status so_far) {
    if (so_far == LAM_OK) so_far = lmi_buf_flush(&j->out, j->to, j->e);
    lmi_buf_free(&j->out);
    return so_far;
}
