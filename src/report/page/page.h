/* SPDX-License-Identifier: Apache-2.0
 * page: the report as one HTML file. data.c: the block of data that its script reads. */
#ifndef LMI_REPORT_PAGE_H
#define LMI_REPORT_PAGE_H

#include "report/outline/outline.h"

void lmi_page_data(lmi_buf *out, const lmi_outline *o); /* a JSON object that fits into an element */

#endif
