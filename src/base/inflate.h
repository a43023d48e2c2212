/* SPDX-License-Identifier: Apache-2.0
 * inflate: decompresses what zip files hold, by zlib, which is looked for when it is first needed. */
#ifndef LMI_BASE_INFLATE_H
#define LMI_BASE_INFLATE_H

#include "base/base.h"

/* Looks for zlib, unless it was found before. Any thread may call it. LAM_UNSUPPORTED: there is none. A
 * program that gives up the right to open files calls this first. */
lam_status lmi_find_zlib(lam_error *e);
/* Decompresses n bytes of a raw deflate stream into exactly `size` bytes. LAM_SYNTAX: the stream is damaged,
 * or has another size; LAM_UNSUPPORTED as above. `where` names the stream in errors. */
lam_status lmi_inflate(const void *from, size_t n, void *to, size_t size, const char *where, lam_error *e);

#endif
