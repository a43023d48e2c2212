/* SPDX-License-Identifier: Apache-2.0
 *
 * A zip file with one entry that is not compressed. */
#ifndef LAMINA_TEST_ARCHIVE_H
#define LAMINA_TEST_ARCHIVE_H

#include "kit/weights.h"

OOM_UNUSED static void put_header(lmi_buf *b, const char *name, size_t n, bool directory) {
    put_le(b, directory ? 0x02014b50 : 0x04034b50, 4);
    if (directory) put_le(b, 20, 2);
    put_le(b, 20, 2);
    put_le(b, 0, 2 + 2 + 2 + 2 + 4); /* flags, method, time, date, checksum */
    put_le(b, n, 4);
    put_le(b, n, 4);
    put_le(b, strlen(name), 2);
    put_le(b, 0, directory ? 2 + 2 + 2 + 2 + 4 + 4 : 2);
    lmi_put(b, name);
}

OOM_UNUSED static void save_archive(const char *file, const char *name, const char *text) {
    lmi_buf b;
    const size_t n = strlen(text);
    lmi_buf_init(&b);
    put_header(&b, name, n, false);
    lmi_put(&b, text);
    const size_t at = b.n;
    put_header(&b, name, n, true);
    const size_t size = b.n - at;
    put_le(&b, 0x06054b50, 4);
    put_le(&b, 0, 4);
    put_le(&b, 1, 2);
    put_le(&b, 1, 2);
    put_le(&b, size, 4);
    put_le(&b, at, 4);
    put_le(&b, 0, 2);
    save_bytes(file, &b);
    lmi_buf_free(&b);
}

#endif
