/* SPDX-License-Identifier: Apache-2.0
 * line: numbers and texts of a pickle of protocol 0, which are lines, as CPython reads them. */
#ifndef LMI_READ_LINE_H
#define LMI_READ_LINE_H

#include "base/base.h"

/* Reads a whole number as Python's int() takes it: with spaces around it, underscores and, of base 0, the
 * prefixes 0x, 0o and 0b. Changes the line. *fits: it has 64 bits. False: it is no number. */
bool lmi_line_number(char *line, int base, int64_t *out, bool *fits);
/* Puts the text of a line as UTF-8. Of a quoted one, given without its quotes, all escapes of Python's
 * literals count; of another \uXXXX and \UXXXXXXXX alone, and its bytes are Latin-1. Other
 * backslashes stay. */
void lmi_put_line(lmi_buf *b, const char *line, size_t n, bool quoted);

#endif
