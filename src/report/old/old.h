/* SPDX-License-Identifier: Apache-2.0
 * old: the tables of torchscan and thoplw. */
#ifndef LMI_REPORT_OLD_H
#define LMI_REPORT_OLD_H

#include "report/table/report.h"

#define LMI_SCAN_COLUMNS "scan_name scan_type scan_shape scan_params scan_rf"
#define LMI_THOPLW_COLUMNS "thoplw_name thoplw_in thoplw_out thoplw_macs thoplw_params thoplw_what"
#define LMI_SCAN_012_COLUMNS LMI_SCAN_COLUMNS " scan_stride scan_padding"

lam_status lmi_text_scan(lmi_job *j);
lam_status lmi_text_thoplw(lmi_job *j);
lam_status lmi_csv_thoplw(lmi_job *j);
lam_status lmi_md_thoplw(lmi_job *j);
/* The two tables of torchscan: widths are columns as wide as their longest cell up to a cap, or fixed. */
typedef struct lmi_scan_style {
    const char *columns; /* ids */
    bool fixed;
    int32_t cap[7], cut_name; /* cut_name: the width of the name inside its column */
    int32_t gap[7];           /* spaces before each column */
    int32_t rule, rule_rf;    /* length of the rules; 0: as long as a row */
    bool blank_end;
    bool floats; /* prints a receptive field as the int or float that Python held */
} lmi_scan_style;
const lmi_scan_style *lmi_scan_style_named(const char *layout); /* NULL: not a torchscan layout */
lam_status lmi_scan_put(lmi_job *j, const lam_scan_info *info, const lmi_scan_style *style);
lam_status lmi_wrap(lmi_buf *b, const char *text, int64_t max_len, const char *delimiter, const char *wrap,
                    lam_wrap mode, lam_error *e);
void lmi_format_s(lmi_buf *b, const char *text, int32_t min_width, int32_t max_width);

#endif
