/* SPDX-License-Identifier: Apache-2.0
 * data: what the block of data is written with (json.c): JSON that is safe inside a page, and texts once. */
#ifndef LMI_REPORT_PAGE_DATA_H
#define LMI_REPORT_PAGE_DATA_H

#include "report/page/page.h"

typedef struct lmi_block {
    lmi_buf *out;
    const lmi_outline *o;
    lmi_map index; /* of each text in `texts` */
    lmi_vec texts; /* const char * */
    lmi_arena arena;
} lmi_block;

/* lmi_data_..._field writes a name and its value, the others one value, each after a comma where it must
 * be. A count is [value, state]; lmi_data_text_at gives the index of a text in `texts`. */
void lmi_data_text(lmi_buf *b, const char *s);
void lmi_data_next(lmi_buf *b);
void lmi_data_key(lmi_buf *b, const char *name);
void lmi_data_int(lmi_buf *b, int64_t v);
void lmi_data_index(lmi_buf *b, int32_t i);
void lmi_data_text_field(lmi_buf *b, const char *name, const char *text);
void lmi_data_int_field(lmi_buf *b, const char *name, int64_t v);
void lmi_data_truth_field(lmi_buf *b, const char *name, bool v);
void lmi_data_ints(lmi_buf *b, const char *name, const int32_t *v, int32_t n);
int64_t lmi_data_text_at(lmi_block *k, const char *text);
void lmi_data_count(lmi_buf *b, const char *name, lam_count c);

#endif
