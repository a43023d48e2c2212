/* SPDX-License-Identifier: Apache-2.0
 * Numbers and names as text of a page or a picture: three significant digits and a narrow no-break space
 * before the unit; names escaped for HTML and XML. */
#ifndef LMI_REPORT_PICTURE_TEXT_H
#define LMI_REPORT_PICTURE_TEXT_H

#include "base/base.h"

/* A value below 0, or NaN, is written as "?". */
void lmi_put_si(lmi_buf *b, double v);      /* "512", "14.5 G" */
void lmi_put_iec(lmi_buf *b, double bytes); /* "512 B", "592 MiB" */
void lmi_put_ns(lmi_buf *b, double ns);     /* "85 ns", "410 µs", "12.3 ms", "5.00 s" */
void lmi_put_share(lmi_buf *b, double part, double whole); /* "25 %", "6.5 %"; "" if the whole is 0 */
void lmi_put_full(lmi_buf *b, int64_t v);                  /* every digit, in groups: "14 512 586 752" */
void lmi_put_power(lmi_buf *b, int32_t exponent); /* a power of ten for an axis: "0.01", "100 M", "1 G" */

/* Writes an untrusted name: a character that is invisible or changes the direction of writing as `\u202e`,
 * one that means something to HTML or XML as an entity. A name wider than `columns` is cut in its middle;
 * three fifths of the rest are its beginning. */
void lmi_put_name(lmi_buf *b, const char *name, int32_t columns);
/* The columns of a name that is not cut: two for a wide character, six for an escaped one. */
int32_t lmi_name_width(const char *name);

#endif
