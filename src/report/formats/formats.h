/* SPDX-License-Identifier: Apache-2.0
 * formats: writers of whole reports. */
#ifndef LMI_REPORT_FORMATS_H
#define LMI_REPORT_FORMATS_H

#include "report/table/report.h"

lam_status lmi_csv_rows(lmi_job *j);
lam_status lmi_text_own(lmi_job *j);
lam_status lmi_md_own(lmi_job *j);
lam_status lmi_json(lmi_job *j);
lam_status lmi_trace(lmi_job *j);
lam_status lmi_speedscope(lmi_job *j);

#endif
