/* SPDX-License-Identifier: Apache-2.0
 *
 * A string builder. It remembers that memory ran out, so callers check once, after all puts. */
#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>

void lmi_buf_init(lmi_buf *b) { *b = (lmi_buf){NULL, 0, 0, false}; }

void lmi_buf_free(lmi_buf *b) {
    free(b->s);
    lmi_buf_init(b);
}

void lmi_buf_used(lmi_buf *b, lmi_buf *of) {
    of->bad = of->bad || b->bad;
    lmi_buf_free(b);
}

char *lmi_buf_room(lmi_buf *b, size_t n) {
    size_t need;
    if (b->bad) return NULL;
    if (lmi_add_over(b->n, n, &need) || lmi_add_over(need, (size_t)1, &need)) {
        b->bad = true;
        return NULL;
    }
    if (need > b->cap) {
        size_t cap = b->cap < SIZE_MAX / 2 ? b->cap * 2 : SIZE_MAX;
        if (cap < need) cap = need < 64 ? 64 : need;
        char *s = realloc(b->s, cap);
        if (!s) {
            b->bad = true;
            return NULL;
        }
        b->s = s;
        b->cap = cap;
    }
    return b->s + b->n;
}

void lmi_putn(lmi_buf *b, const char *s, size_t n) {
    char *to = lmi_buf_room(b, n);
    if (!to) return;
    if (n) memcpy(to, s, n);
    b->n += n;
    b->s[b->n] = '\0';
}

void lmi_put(lmi_buf *b, const char *s) {
    if (s) lmi_putn(b, s, strlen(s));
}

void lmi_buf_clear(lmi_buf *b) {
    b->n = 0;
    lmi_putn(b, "", 0);
}

void lmi_putc(lmi_buf *b, char c) { lmi_putn(b, &c, 1); }

void lmi_pad(lmi_buf *b, char c, size_t n) {
    char *to = lmi_buf_room(b, n);
    if (!to) return;
    if (n) memset(to, c, n);
    b->n += n;
    b->s[b->n] = '\0';
}

void lmi_putf(lmi_buf *b, const char *fmt, ...) {
    const size_t free_here = b->bad ? 0 : b->cap - b->n;
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(free_here ? b->s + b->n : NULL, free_here, fmt, args);
    char *to = n < 0 ? NULL : lmi_buf_room(b, (size_t)n);
    if (to) {
        if ((size_t)n >= free_here) vsnprintf(to, (size_t)n + 1, fmt, again);
        b->n += (size_t)n;
    } else {
        if (free_here) b->s[b->n] = '\0';
        b->bad = true;
    }
    va_end(again);
    va_end(args);
}

void lmi_put_clean(lmi_buf *b, const char *s) {
    if (!s) return;
    size_t from = b->n;
    lmi_put(b, s);
    if (!b->bad) b->n = from + lmi_clean(b->s + from);
}

void lmi_put_sizes(lmi_buf *b, int32_t ndim, const int64_t *sizes) {
    if (ndim == 0) lmi_put(b, "scalar");
    for (int32_t i = 0; i < ndim; i++) {
        if (i) lmi_put(b, "\u00d7");
        lmi_put_int(b, sizes[i]);
    }
}

lam_status lmi_buf_status(const lmi_buf *b, lam_error *e) { return b->bad ? lmi_nomem(e) : LAM_OK; }

const char *lmi_buf_text(const lmi_buf *b) { return b->s ? b->s : ""; }

const char *lmi_buf_keep(lmi_buf *b, lmi_arena *a) {
    const char *text = b->bad ? NULL : lmi_strdup(a, lmi_buf_text(b));
    lmi_buf_free(b);
    return text;
}

static lam_status send(lam_sink to, const char *s, size_t n, lam_error *e) {
    lam_status sent = n > 0 ? to.put(to.to, s, n) : LAM_OK;
    if (sent == LAM_OK) return LAM_OK;
    return lmi_fail(e, sent, NULL, "the output could not be written; what was written so far is incomplete");
}

lam_status lmi_buf_flush(lmi_buf *b, lam_sink to, lam_error *e) {
    LAM_TRY(lmi_buf_status(b, e));
    lam_status s = send(to, b->s, b->n, e);
    b->n = 0;
    if (b->s) b->s[0] = '\0';
    return s;
}

lam_status lmi_buf_flush_much(lmi_buf *b, lam_sink to, lam_error *e) {
    enum { MUCH = 64 << 10 };
    return b->n < MUCH && !b->bad ? LAM_OK : lmi_buf_flush(b, to, e);
}

lam_status lmi_sink_text(lam_sink to, const char *s, lam_error *e) { return send(to, s, strlen(s), e); }

static lam_status put_in(void *to, const char *bytes, size_t n) {
    lmi_putn(to, bytes, n);
    return lmi_buf_status(to, NULL);
}

lam_sink lmi_buf_sink(lmi_buf *b) { return (lam_sink){put_in, b}; }
