/* SPDX-License-Identifier: Apache-2.0
 * bytes: the bytes of a file that anybody may have written. They are read when they are needed, never mapped:
 * a file that becomes shorter gives an error and no signal. */
#ifndef LMI_READ_BYTES_H
#define LMI_READ_BYTES_H

#include "base/base.h"

/* A file, a part of one, or memory. Copies are cheap: nothing is owned but the descriptor, by who opened it.
 */
typedef struct lmi_bytes {
    int fd;
    const unsigned char *memory; /* instead of a file; NULL: none */
    uint64_t start, size;        /* where the part begins in the file, and its bytes */
    const char *name;            /* in errors: the file, or an entry of it */
} lmi_bytes;

/* Refuses a file or a folder by the error of the system (errno). LAM_IO. */
lam_status lmi_unreadable(const char *file, lam_error *e);
/* Opens a regular file; others (folders, pipes, devices) are refused. LAM_IO: it can't be read. */
lam_status lmi_bytes_open(lmi_bytes *out, const char *file, lam_error *e);
void lmi_bytes_close(lmi_bytes *b); /* nothing for parts and memory that were never opened */
lmi_bytes lmi_bytes_of(const void *memory, size_t n, const char *name);

/* Reads exactly n bytes from position `at`. LAM_SYNTAX: the file ends before; LAM_IO: it can't be read, or
 * became shorter since it was opened. */
lam_status lmi_bytes_read(const lmi_bytes *b, uint64_t at, void *to, size_t n, lam_error *e);
/* The n bytes from position `at`; LAM_SYNTAX if they are not all there. `name` may be NULL: that of `b`. */
lam_status lmi_bytes_part(const lmi_bytes *b, uint64_t at, uint64_t n, const char *name, lmi_bytes *out,
                          lam_error *e);
/* Reads all into memory of malloc, with a byte more than there are. LAM_LIMIT: it has more than `most` bytes.
 */
lam_status lmi_bytes_all(const lmi_bytes *b, uint64_t most, char **out, size_t *n, lam_error *e);
/* The status of a reader: LAM_LIMIT, with a sentence, where its memory is `full`, which is the limit for a
 * file of its size, and not all memory. */
lam_status lmi_bytes_limit(const lmi_bytes *b, bool full, lam_status s, lam_error *e);
/* The modules, or calls of them, that a program in a file of this size may have. Each takes some 2 KiB of
 * memory in the end, so that 64 MiB and four times the size are enough for all. */
static inline uint64_t lmi_bytes_modules(const lmi_bytes *b) { return (3 << 13) + b->size / 512; }
/* True if an operator has more arguments and results than are read: each of both may be the other. */
static inline bool lmi_too_many_pairs(size_t arguments, size_t results) {
    return arguments > 0 && results > (1 << 20) / arguments;
}
/* "it is damaged: WHAT at byte AT; ...", LAM_SYNTAX. */
lam_status lmi_bytes_bad(const lmi_bytes *b, uint64_t at, lam_error *e, const char *what);

/* Numbers in the byte order of all formats that are read. */
static inline uint16_t lmi_le16(const void *p) {
    const unsigned char *b = p;
    return (uint16_t)(b[0] | b[1] << 8);
}
static inline uint32_t lmi_le32(const void *p) {
    return lmi_le16(p) | (uint32_t)lmi_le16((const char *)p + 2) << 16;
}
static inline uint64_t lmi_le64(const void *p) {
    return lmi_le32(p) | (uint64_t)lmi_le32((const char *)p + 4) << 32;
}

/* Reads forward, in pieces, and passes over bytes without reading them. */
typedef struct lmi_cursor {
    const lmi_bytes *of;
    uint64_t at;     /* of the next byte */
    uint64_t loaded; /* the position of `piece` */
    size_t n;        /* bytes in `piece` */
    size_t wanted;   /* to load next: it grows while all is read, and falls when something is passed over */
    unsigned char *piece; /* LMI_PIECE bytes, of the caller */
} lmi_cursor;
enum { LMI_PIECE = 1 << 16 };
lmi_cursor lmi_cursor_of(const lmi_bytes *b, unsigned char piece[LMI_PIECE]);
/* The next n bytes, at most LMI_PIECE, in place until the next call. LAM_SYNTAX: there are fewer. */
lam_status lmi_cursor_take(lmi_cursor *c, size_t n, const unsigned char **out, lam_error *e);
/* The bytes that are there without reading more, at least 1; NULL at the end, or on failure. */
lam_status lmi_cursor_peek(lmi_cursor *c, const unsigned char **out, size_t *n, lam_error *e);
lam_status lmi_cursor_skip(lmi_cursor *c, uint64_t n, lam_error *e);
static inline uint64_t lmi_cursor_left(const lmi_cursor *c) { return c->of->size - c->at; }

#endif
