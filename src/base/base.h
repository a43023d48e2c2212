/* SPDX-License-Identifier: Apache-2.0
 * base: what every room stands on, and the extension's base too. Knows nothing of networks. */
#ifndef LMI_BASE_H
#define LMI_BASE_H

#include "lamina.h"

#include <stdarg.h>
#include <string.h>

#define LAM_TRY(call)                                                                                        \
    do {                                                                                                     \
        lam_status s_ = (call);                                                                              \
        if (s_ != LAM_OK) return s_;                                                                         \
    } while (0)

/* -- errors ---------------------------------------------------------------------------------------------- */

/* Records the first failure in `e` (NULL allowed) and returns `status`. `where` may be NULL. Both texts
 * are cut to fit and control characters are replaced, so names from strangers can't drive a terminal. */
lam_status lmi_fail(lam_error *e, lam_status status, const char *where, const char *fmt, ...)
    LAM_PRINTF(4, 5);
lam_status lmi_fail_at(lam_error *e, lam_status status, int64_t at, const char *where, const char *fmt, ...)
    LAM_PRINTF(5, 6);
/* The one sentence for memory that ran out; returns LAM_NOMEM. Inline, so that readers of code and machines
 * that check it see that it never returns LAM_OK. */
static inline lam_status lmi_nomem(lam_error *e) {
    lmi_fail(e, LAM_NOMEM, NULL, "memory ran out; free some or raise the memory limit");
    return LAM_NOMEM;
}

/* -- SQLite, of which base/sqlite.h has the functions ---------------------------------------------------- */

/* How a host names the file that its own SQLite is in, or that depends on it; "" is the program itself.
 * False: it has none. It is asked by lmi_sqlite, in its caller's thread. */
typedef bool (*lmi_sqlite_host)(char *file, size_t size);
void lmi_sqlite_of(lmi_sqlite_host host);

/* -- arena ----------------------------------------------------------------------------------------------- */

/* Memory that is freed all at once. `limit` in bytes bounds what is handed out. */
typedef struct lmi_arena {
    struct lmi_chunk *head;
    uint64_t used, limit;
} lmi_arena;
void lmi_arena_init(lmi_arena *a, uint64_t limit);
void lmi_arena_free(lmi_arena *a);
/* n * size bytes, zeroed, 16-aligned; the product is checked. NULL past the limit or when memory ran out.
 * n * size == 0 gives a valid pointer. */
void *lmi_alloc(lmi_arena *a, uint64_t n, uint64_t size);
void *lmi_copy(lmi_arena *a, const void *from, uint64_t n, uint64_t size);
/* NULL in gives NULL out, which callers tell apart by their input */
char *lmi_strdup(lmi_arena *a, const char *s);
char *lmi_strndup(lmi_arena *a, const char *s, size_t n);

/* -- growable array: elements live in malloc'ed storage of their own ------------------------------------- */

typedef struct lmi_vec {
    void *data;
    size_t n, cap, size; /* size: bytes an element */
} lmi_vec;
void lmi_vec_init(lmi_vec *v, size_t size);
void lmi_vec_free(lmi_vec *v);
void *lmi_vec_grow(lmi_vec *v, size_t more);
/* Adds `more` elements and returns the first, not zeroed; NULL when memory ran out. Pointers into the array
 * are invalid after it. Inlined, since noting an operator is little else (bench/operators.py). */
static inline void *lmi_vec_add(lmi_vec *v, size_t more) {
    if (!v->data || v->cap - v->n < more) return lmi_vec_grow(v, more);
    void *at = (char *)v->data + v->n * v->size;
    v->n += more;
    return at;
}
void *lmi_vec_push(lmi_vec *v); /* the same of one, zeroed */
void lmi_vec_pop(lmi_vec *v); /* takes the last element away, if there is one */
void *lmi_vec_at(const lmi_vec *v, size_t i); /* NULL past the end */

/* -- string builder -------------------------------------------------------------------------------------- */

typedef struct lmi_buf {
    char *s; /* NUL-terminated once something was put */
    size_t n, cap;
    bool bad; /* memory ran out; everything after is ignored and lmi_buf_status tells */
} lmi_buf;
void lmi_buf_init(lmi_buf *b);
void lmi_buf_free(lmi_buf *b);
void lmi_buf_clear(lmi_buf *b); /* "" from here on; the memory is kept */
void lmi_put(lmi_buf *b, const char *s);
void lmi_putn(lmi_buf *b, const char *s, size_t n);
void lmi_putc(lmi_buf *b, char c);
void lmi_pad(lmi_buf *b, char c, size_t n); /* n times c */
void lmi_putf(lmi_buf *b, const char *fmt, ...) LAM_PRINTF(2, 3);
/* Text from a stranger (names, class names): control characters, escape sequences included, become '?'. */
void lmi_put_clean(lmi_buf *b, const char *s);
/* "8×64×56"; "scalar" without axes; nothing if `ndim` is negative. */
void lmi_put_sizes(lmi_buf *b, int32_t ndim, const int64_t *sizes);
lam_status lmi_buf_status(const lmi_buf *b, lam_error *e);
const char *lmi_buf_text(const lmi_buf *b); /* "" when nothing was put */
/* Sends the text to the sink and empties the builder. */
lam_status lmi_buf_flush(lmi_buf *b, lam_sink to, lam_error *e);
/* The same once much text has gathered; else nothing. */
lam_status lmi_buf_flush_much(lmi_buf *b, lam_sink to, lam_error *e);
lam_status lmi_sink_text(lam_sink to, const char *s, lam_error *e);

/* The code point at the start of `s` and its length in bytes; 0 at the end. A byte that is no UTF-8 counts
 * alone, as LMI_BAD_UTF8. */
#define LMI_BAD_UTF8 UINT32_C(0xffffffff)
size_t lmi_utf8(const char *s, uint32_t *code);
/* Replaces, in place, what could drive a terminal (controls, marks of direction) and what is no UTF-8 by
 * '?'. Returns the new length, which is never greater. */
size_t lmi_clean(char *s);
/* Columns a UTF-8 text takes on a terminal: one a code point, none for combining marks, two for wide East
 * Asian. */
size_t lmi_width(const char *s);
/* Byte length of the longest prefix of `s` that is at most `columns` wide. */
size_t lmi_fit(const char *s, size_t columns);
/* Is `word` one of the words in `list`, which are separated by one space each? An empty word is not. */
bool lmi_listed(const char *list, const char *word);

/* -- map from text or from a 64-bit number to an index --------------------------------------------------- */

/* A hash of n bytes; the same on every run. */
uint64_t lmi_hash(const void *bytes, size_t n);

typedef struct lmi_map {
    struct lmi_slot_ *slots;
    size_t n, cap;
} lmi_map;
void lmi_map_init(lmi_map *m);
void lmi_map_free(lmi_map *m);
/* The stored index, or -1. Text keys are compared by content and are borrowed: they must outlive the map. */
int64_t lmi_map_get(const lmi_map *m, const char *key);
lam_status lmi_map_put(lmi_map *m, const char *key, int64_t value, lam_error *e); /* replaces */
/* Makes room for n keys in all, so that the next puts up to there can't fail. */
lam_status lmi_map_reserve(lmi_map *m, size_t n, lam_error *e);
int64_t lmi_map_get_u64(const lmi_map *m, uint64_t key);
lam_status lmi_map_put_u64(lmi_map *m, uint64_t key, int64_t value, lam_error *e);
lam_status lmi_map_copy(lmi_map *to, const lmi_map *from, lam_error *e);

/* -- checked arithmetic: true on overflow, like the compiler's builtins ---------------------------------- */

#define lmi_add_over(a, b, r) __builtin_add_overflow((a), (b), (r))
#define lmi_sub_over(a, b, r) __builtin_sub_overflow((a), (b), (r))
#define lmi_mul_over(a, b, r) __builtin_mul_overflow((a), (b), (r))
/* Product of `n` sizes; false when one is negative or the product does not fit. An empty product is 1. */
bool lmi_product(const int64_t *v, int32_t n, int64_t *out);
/* The greatest common divisor, above 0 also of two zeros: it is there to be divided by. */
int64_t lmi_gcd(int64_t a, int64_t b);

/* -- counts (lam_count, see lamina.h section 5) ---------------------------------------------------------- */

/* >=1e12 T, 1e9 G, 1e6 M, 1e3 k, else ""; negative numbers never scale. */
double lmi_unit_scale(double value, const char **prefix);
lam_count lmi_exact(int64_t n);
lam_count lmi_unknown(void);
lam_count lmi_at_least(int64_t n);
double lmi_count_double(lam_count c);
/* lam_count_add where sums are many: what is exact, not below 0 and fits is added here. */
static inline lam_count lmi_count_add(lam_count a, lam_count b) {
    lam_count sum = {.n = (int64_t)((uint64_t)a.n + (uint64_t)b.n)};
    bool simple = !(a.over | b.over | (uint32_t)a.state | (uint32_t)b.state) && (a.n | b.n | sum.n) >= 0;
    return simple ? sum : lam_count_add(a, b);
}
/* The value, over * 2^63 + n; always fits. */
__extension__ typedef __int128 lmi_wide;
lmi_wide lmi_count_wide(lam_count c);

#endif
