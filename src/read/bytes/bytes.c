/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads bytes of a file from a position. */
#include "read/bytes/bytes.h"
#include "base/system.h"

#include <stdlib.h>

lam_status lmi_unreadable(const char *file, lam_error *e) {
    return lmi_fail(e, LAM_IO, file, "it can't be read: %s", strerror(errno));
}

/* O_NONBLOCK: the open of a pipe without a writer would wait. */
lam_status lmi_bytes_open(lmi_bytes *out, const char *file, lam_error *e) {
    struct stat st;
    *out = (lmi_bytes){.fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK), .name = file};
    if (out->fd < 0) return lmi_unreadable(file, e);
    lam_status status = fstat(out->fd, &st) != 0 ? lmi_unreadable(file, e)
                        : S_ISDIR(st.st_mode)    ? lmi_fail(e, LAM_IO, file, "it is a folder")
                        : !S_ISREG(st.st_mode)   ? lmi_fail(e, LAM_IO, file, "it is not a file")
                                                 : LAM_OK;
    if (status == LAM_OK)
        out->size = (uint64_t)st.st_size;
    else
        lmi_bytes_close(out);
    return status;
}

void lmi_bytes_close(lmi_bytes *b) {
    if (b->fd >= 0) close(b->fd);
    b->fd = -1;
}

lmi_bytes lmi_bytes_of(const void *memory, size_t n, const char *name) {
    return (lmi_bytes){.fd = -1, .memory = memory, .size = n, .name = name};
}

lam_status lmi_bytes_bad(const lmi_bytes *b, uint64_t at, lam_error *e, const char *what) {
    return lmi_fail_at(e, LAM_SYNTAX, (int64_t)at, b->name, "it is damaged: %s at byte %llu", what,
                       (unsigned long long)at);
}

lam_status lmi_bytes_limit(const lmi_bytes *b, bool full, lam_status s, lam_error *e) {
    if (s != LAM_NOMEM || !full) return s;
    if (e) *e = (lam_error){.at = -1}; /* the first error stays otherwise */
    return lmi_fail(e, LAM_LIMIT, b->name, "what it holds takes more memory than a file of its size may");
}

lam_status lmi_bytes_part(const lmi_bytes *b, uint64_t at, uint64_t n, const char *name, lmi_bytes *out,
                          lam_error *e) {
    if (at > b->size || n > b->size - at)
        return lmi_fail_at(e, LAM_SYNTAX, (int64_t)at, b->name,
                           "it is damaged or cut off: %llu bytes should be at byte %llu, and it has %llu",
                           (unsigned long long)n, (unsigned long long)at, (unsigned long long)b->size);
    *out = *b;
    out->start += at;
    out->size = n;
    if (name) out->name = name;
    return LAM_OK;
}

lam_status lmi_bytes_read(const lmi_bytes *b, uint64_t at, void *to, size_t n, lam_error *e) {
    lmi_bytes part = *b;
    LAM_TRY(lmi_bytes_part(b, at, n, NULL, &part, e));
    if (b->memory) {
        if (n) memcpy(to, b->memory + part.start, n);
        return LAM_OK;
    }
    for (size_t done = 0; done < n;) {
        ssize_t more = lmi_read_at(b->fd, (char *)to + done, n - done, part.start + done);
        if (more < 0 && errno == EINTR) continue;
        if (more < 0) return lmi_unreadable(b->name, e);
        if (more == 0) return lmi_fail(e, LAM_IO, b->name, "it became shorter while it was read");
        done += (size_t)more;
    }
    return LAM_OK;
}

lam_status lmi_bytes_all(const lmi_bytes *b, uint64_t most, char **out, size_t *n, lam_error *e) {
    *out = NULL;
    if (b->size > most || b->size >= SIZE_MAX)
        return lmi_fail(e, LAM_LIMIT, b->name, "it has %llu bytes, and at most %llu are read",
                        (unsigned long long)b->size, (unsigned long long)most);
    *out = malloc((size_t)b->size + 1);
    if (!*out) return lmi_nomem(e);
    *n = (size_t)b->size;
    lam_status status = lmi_bytes_read(b, 0, *out, *n, e);
    if (status == LAM_OK) return LAM_OK;
    free(*out);
    *out = NULL;
    return status;
}

/* -- forward --------------------------------------------------------------------------------------------- */

enum { FIRST_PIECE = 4096 };

lmi_cursor lmi_cursor_of(const lmi_bytes *b, unsigned char piece[LMI_PIECE]) {
    return (lmi_cursor){.of = b, .wanted = FIRST_PIECE, .piece = piece};
}

/* Loads the piece at the cursor, of at least n bytes. */
static lam_status load(lmi_cursor *c, size_t n, lam_error *e) {
    uint64_t left = lmi_cursor_left(c);
    if (n > left || n > LMI_PIECE) {
        lmi_bytes none;
        return n > left ? lmi_bytes_part(c->of, c->at, n, NULL, &none, e)
                        : lmi_bytes_bad(c->of, c->at, e, "a piece that is too long");
    }
    size_t size = c->wanted < n ? n : c->wanted;
    if (size > left) size = (size_t)left;
    c->n = 0;
    LAM_TRY(lmi_bytes_read(c->of, c->at, c->piece, size, e));
    c->loaded = c->at;
    c->n = size;
    c->wanted = size < LMI_PIECE / 2 ? 2 * size : LMI_PIECE;
    if (c->wanted < FIRST_PIECE) c->wanted = FIRST_PIECE;
    return LAM_OK;
}

/* The bytes of the piece from the cursor on. */
static size_t at_hand(const lmi_cursor *c) {
    return c->at >= c->loaded && c->at - c->loaded < c->n ? c->n - (size_t)(c->at - c->loaded) : 0;
}

lam_status lmi_cursor_take(lmi_cursor *c, size_t n, const unsigned char **out, lam_error *e) {
    if (at_hand(c) < n) LAM_TRY(load(c, n, e));
    *out = c->piece + (n ? c->at - c->loaded : 0);
    c->at += n;
    return LAM_OK;
}

lam_status lmi_cursor_peek(lmi_cursor *c, const unsigned char **out, size_t *n, lam_error *e) {
    *out = NULL;
    *n = 0;
    if (lmi_cursor_left(c) == 0) return LAM_OK;
    if (at_hand(c) == 0) LAM_TRY(load(c, 1, e));
    *out = c->piece + (c->at - c->loaded);
    *n = at_hand(c);
    return LAM_OK;
}

lam_status lmi_cursor_skip(lmi_cursor *c, uint64_t n, lam_error *e) {
    lmi_bytes none;
    LAM_TRY(lmi_bytes_part(c->of, c->at, n, NULL, &none, e));
    if (n > at_hand(c)) c->wanted = FIRST_PIECE;
    c->at += n;
    return LAM_OK;
}
