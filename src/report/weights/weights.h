/* SPDX-License-Identifier: Apache-2.0
 * report/weights: the difference of the weights of two files. write.c: text and Markdown. tell.c: JSON. */
#ifndef LMI_REPORT_WEIGHTS_H
#define LMI_REPORT_WEIGHTS_H

#include "read/weights/weights.h"

lam_status lmi_weights_text(const lam_weights_diff *d, const lmi_weights_lines *l, const lam_diff_options *o,
                            lam_sink to, lam_error *e);
lam_status lmi_weights_json(const lam_weights_diff *d, const lmi_weights_lines *l, const lam_diff_options *o,
                            lam_sink to, lam_error *e);

#endif
