/* SPDX-License-Identifier: Apache-2.0
 * looked: data columns for the health of values, if they were checked. Statistics are of the call's first
 * result, and empty if they were not requested. */
#ifndef LMI_LOOKED_H
#define LMI_LOOKED_H

#include "report/table/report.h"

void lmi_cell_health(const lmi_line *l, lmi_buf *out);
void lmi_cell_backward_health(const lmi_line *l, lmi_buf *out);
void lmi_cell_least(const lmi_line *l, lmi_buf *out);
void lmi_cell_greatest(const lmi_line *l, lmi_buf *out);
void lmi_cell_mean(const lmi_line *l, lmi_buf *out);
void lmi_cell_zeros(const lmi_line *l, lmi_buf *out);
void lmi_cell_subnormal(const lmi_line *l, lmi_buf *out);
void lmi_cell_headroom(const lmi_line *l, lmi_buf *out);

#endif
