/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends text to the caller's sink in large pieces. */
#include "report/table/report.h"

lam_status lmi_job_flush(lmi_job *j) { return lmi_buf_flush_much(&j->out, j->to, j->e); }

lam_status lmi_job_close(lmi_job *j, lam_status so_far) {
    if (so_far == LAM_OK) so_far = lmi_buf_flush(&j->out, j->to, j->e);
    lmi_buf_free(&j->out);
    return so_far;
}
