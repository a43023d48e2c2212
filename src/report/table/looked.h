/* SPDX-License-Identifier: Apache-2.0
 * looked: columns of data that tell what became of values, where they were looked at. Those of statistics are
 * of the call's first result, and empty where none were asked for. */
#ifndef LMI_LOOKED_H
#define LMI_LOOKED_H

#include "report/table/report.h"

#define LMI_HEALTH_COLUMNS "health backward_health least greatest mean zeros subnormal headroom"

void lmi_cell_health(const lmi_line *l, lmi_buf *out);
void lmi_cell_backward_health(const lmi_line *l, lmi_buf *out);
void lmi_cell_least(const lmi_line *l, lmi_buf *out);
void lmi_cell_greatest(const lmi_line *l, lmi_buf *out);
void lmi_cell_mean(const lmi_line *l, lmi_buf *out);
void lmi_cell_zeros(const lmi_line *l, lmi_buf *out);
void lmi_cell_subnormal(const lmi_line *l, lmi_buf *out);
void lmi_cell_headroom(const lmi_line *l, lmi_buf *out);

#endif
