/* SPDX-License-Identifier: Apache-2.0
 * base: common helpers for all rooms and for the extension's base, independent of networks. */
#ifndef LMI_BASE_H
#define LMI_BASE_H

#include "lamina.h"

#include <stdarg.h>
#include <string.h>

/* In a function for qsort: returns how two numbers of rows compare, unless they are equal. */
#define LMI_ORDER(a, b)                                                                                      \
    if ((a) != (b)) return (a) < (b) ? -1 : 1

#define LAM_TRY(call)                                                                                        \
    do {                                                                                                     \
        lam_status s_ = (call);                                                                              \
        if (s_ != LAM_OK) return s_;                                                                         \
    } while (0)

/* -- errors ---------------------------------------------------------------------------------------------- */

/* Records the first failure in `e` (NULL allowed) and returns `status`. `where` may be NULL. Both texts are
 * cut to fit, and control characters are replaced, so that untrusted names can't control a terminal. */
lam_status lmi_fail(lam_error *e, lam_status status, const char *where, const char *fmt, ...)
    LAM_PRINTF(4, 5);
lam_status lmi_fail_at(lam_error *e, lam_status status, int64_t at, const char *where, const char *fmt, ...)
    LAM_PRINTF(5, 6);
/* "there is no WHAT 'NAME' for OF; there are: ...", LAM_USAGE. `of` may be NULL. The n known names
 * begin at `first`, one every `size` bytes. */
lam_status lmi_no_such(lam_error *e, const char *what, const char *name, const char *of,
                       const char *const *first, size_t size, size_t n);
/* Records that memory ran out, and returns LAM_NOMEM. Inline, so that readers and static checkers see that it
 * never returns LAM_OK. */
static inline lam_status lmi_nomem(lam_error *e) {
    lmi_fail(e, LAM_NOMEM, NULL, "memory ran out; free some or raise the memory limit");
    return LAM_NOMEM;
}

/* -- SQLite (its functions are in base/sqlite.h) --------------------------------------------------------- */

/* Names the file that contains the host's SQLite, or that is linked with it; "" is the program itself. False:
 * the host has none. lmi_sqlite calls it, in its caller's thread. */
typedef bool (*lmi_sqlite_host)(char *file, size_t size);
void lmi_sqlite_of(lmi_sqlite_host host);

/* -- arena ----------------------------------------------------------------------------------------------- */

/* Memory that is freed as a whole. `limit`: the most bytes that can be allocated. */
typedef struct lmi_arena {
    struct lmi_chunk *head;
    uint64_t used, limit;
    bool full; /* the limit, and not the system, refused an allocation */
} lmi_arena;
void lmi_arena_init(lmi_arena *a, uint64_t limit);
void lmi_arena_free(lmi_arena *a);
/* Allocates n * size bytes, zeroed, 16-aligned; the product is checked. NULL: the limit was reached, or
 * memory ran out. If n * size is 0, the pointer is valid. */
void *lmi_alloc(lmi_arena *a, uint64_t n, uint64_t size);
/* The same, not zeroed: for what is written before it is read, as in large arrays. */
void *lmi_alloc_unset(lmi_arena *a, uint64_t n, uint64_t size);
void *lmi_copy(lmi_arena *a, const void *from, uint64_t n, uint64_t size);
/* Allocates n indices, which are all -1: none. */
int32_t *lmi_alloc_none(lmi_arena *a, int32_t n);
/* Items grouped by key: group g is order[start[g]] .. order[start[g + 1] - 1], in the items' order. */
typedef struct lmi_groups {
    int32_t *start, *order;
} lmi_groups;
/* Groups 0 .. n-1 by keys[item] in 0 .. n_groups-1; an item with key -1 is in no group. False: memory ran
 * out. */
bool lmi_group_by(lmi_arena *a, const int32_t *keys, int32_t n, int32_t n_groups, lmi_groups *out);
/* A NULL argument gives NULL, as does a failure; callers distinguish them by the argument. */
char *lmi_strdup(lmi_arena *a, const char *s);
char *lmi_strndup(lmi_arena *a, const char *s, size_t n);

/* -- growable array, in memory of malloc ----------------------------------------------------------------- */

typedef struct lmi_vec {
    void *data;
    size_t n, cap, size; /* size: bytes an element */
} lmi_vec;
void lmi_vec_init(lmi_vec *v, size_t size);
void lmi_vec_free(lmi_vec *v);
void lmi_vec_clear(lmi_vec *v); /* its memory is kept */
void *lmi_vec_grow(lmi_vec *v, size_t more);
/* Adds `more` elements and returns the first, not zeroed; NULL: memory ran out. Pointers into the array
 * become invalid. Inlined, since recording an operator does little else (bench/operators.py). */
static inline void *lmi_vec_add(lmi_vec *v, size_t more) {
    if (!v->data || v->cap - v->n < more) return lmi_vec_grow(v, more);
    void *at = (char *)v->data + v->n * v->size;
    v->n += more;
    return at;
}
/* Makes room for `more` elements, so that adding them moves none. */
lam_status lmi_vec_reserve(lmi_vec *v, size_t more, lam_error *e);
void *lmi_vec_push(lmi_vec *v); /* adds one element, zeroed; NULL: memory ran out */
/* Adds a copy of `item`. */
static inline lam_status lmi_vec_put(lmi_vec *v, const void *item, lam_error *e) {
    void *to = lmi_vec_add(v, 1);
    if (!to) return lmi_nomem(e);
    memcpy(to, item, v->size);
    return LAM_OK;
}
void lmi_vec_pop(lmi_vec *v);                 /* removes the last element, if there is one */
void *lmi_vec_at(const lmi_vec *v, size_t i); /* NULL past the end */

/* For qsort: int64_t in ascending order. */
int lmi_by_size(const void *a, const void *b);
/* The median of n >= 1 numbers, which this sorts: the mean of the middle two if n is even. */
int64_t lmi_median(int64_t *v, size_t n);

/* -- string builder -------------------------------------------------------------------------------------- */

typedef struct lmi_buf {
    char *s; /* NUL-terminated after the first put */
    size_t n, cap;
    bool bad; /* memory ran out: later puts are ignored, and lmi_buf_status returns LAM_NOMEM */
} lmi_buf;
void lmi_buf_init(lmi_buf *b);
void lmi_buf_free(lmi_buf *b);
void lmi_buf_clear(lmi_buf *b); /* makes the text empty; keeps the memory */
/* Frees a text that a part of `of` was made from: if memory ran out for it, `of` is incomplete. */
void lmi_buf_used(lmi_buf *b, lmi_buf *of);
/* Room for n more bytes and a NUL behind the text; NULL: memory ran out. */
char *lmi_buf_room(lmi_buf *b, size_t n);
void lmi_put(lmi_buf *b, const char *s);
void lmi_putn(lmi_buf *b, const char *s, size_t n);
void lmi_putc(lmi_buf *b, char c);
void lmi_pad(lmi_buf *b, char c, size_t n); /* puts c n times */
void lmi_putf(lmi_buf *b, const char *fmt, ...) LAM_PRINTF(2, 3);
/* Puts an untrusted text (names, class names): control characters, escape sequences included, become '?'. */
void lmi_put_clean(lmi_buf *b, const char *s);
/* "8×64×56"; "scalar" without axes; nothing if `ndim` is negative. */
void lmi_put_sizes(lmi_buf *b, int32_t ndim, const int64_t *sizes);
lam_status lmi_buf_status(const lmi_buf *b, lam_error *e);
const char *lmi_buf_text(const lmi_buf *b); /* "" if nothing was put */
/* Copies the text to the arena, and frees the builder. NULL: memory ran out. */
const char *lmi_buf_keep(lmi_buf *b, lmi_arena *a);
/* Sends the text to the sink and empties the builder. */
lam_status lmi_buf_flush(lmi_buf *b, lam_sink to, lam_error *e);
/* Flushes only if the text is long. */
lam_status lmi_buf_flush_much(lmi_buf *b, lam_sink to, lam_error *e);
lam_status lmi_sink_text(lam_sink to, const char *s, lam_error *e);
lam_sink lmi_buf_sink(lmi_buf *b); /* a sink that adds to `b` */

/* Reads the code point at the start of `s`, and returns its length in bytes; 0 at the end. A byte that is not
 * valid UTF-8 is one LMI_BAD_UTF8. */
#define LMI_BAD_UTF8 UINT32_C(0xffffffff)
size_t lmi_utf8(const char *s, uint32_t *code);
/* Writes a code point, and returns how many bytes it takes, at most 4; one that is none becomes U+FFFD. */
size_t lmi_utf8_put(char *to, uint32_t code);
/* True for controls (C0, DEL, C1), line separators and marks that change the direction of writing: they can
 * make a terminal show another text than the real one. */
bool lmi_drives_terminal(uint32_t code);
/* Replaces, in place, characters that can control a terminal (controls, marks of direction) and invalid UTF-8
 * by '?'. Returns the new length, which is never greater. */
size_t lmi_clean(char *s);
/* The columns of a UTF-8 text on a terminal: one a code point, none for combining marks, two for wide East
 * Asian ones. */
size_t lmi_width(const char *s);
size_t lmi_width_of(const char *s, size_t bytes); /* of its first bytes */
/* Byte length of the longest prefix of `s`, or of its first bytes, that is at most `columns` wide. */
size_t lmi_fit(const char *s, size_t columns);
size_t lmi_fit_in(const char *s, size_t bytes, size_t columns);
/* Puts a text in at most `columns`: dots replace the middle of a wider one, whose end gets `end` columns;
 * without room for anything beside them, its beginning is put. A mark that would combine with the dots is
 * left out. */
void lmi_put_middle(lmi_buf *b, const char *s, size_t columns, size_t end, const char *dots);

/* Words that flow (flow.c): one after another, and on a new line where the page ends. Set `color` and `whole`
 * after the start. */
typedef struct lmi_flow {
    lmi_buf *out;
    size_t width, indent; /* of the page; where a further line begins */
    size_t column, owed;  /* where the line has come to; the spaces that are wanted before its next word */
    bool fresh;           /* the line has no text yet, except its label */
    bool color;
    bool whole; /* a word wider than a line, such as a command, stays whole to be copied; else it is cut */
} lmi_flow;
/* width 0: no limit. An indent that leaves no room is none. */
void lmi_flow_start(lmi_flow *f, lmi_buf *out, size_t width, size_t indent);
/* Begins a line with its label; "": none. The text after it is `gap` spaces away; 0: at the indent, or behind
 * a label that is longer. */
void lmi_flow_label(lmi_flow *f, const char *style, const char *label, size_t gap);
/* Writes words. Those on one line keep one space between them. */
void lmi_flow_words(lmi_flow *f, const char *style, const char *text);
/* Writes an item, which begins a new line if it does not fit as a whole. Items on one line have `between`
 * between them, and a line that an item follows ends in what is before the first space of `between`. */
void lmi_flow_item(lmi_flow *f, const char *style, const char *text, const char *between);
void lmi_flow_end(lmi_flow *f); /* ends the line, if it has text */
/* Writes a line that is laid out already, without its newline. One that is too wide flows: further lines
 * begin below its last column, or if there is none in the left half `further` columns after its first. Words
 * stay whole. */
void lmi_flow_line(lmi_buf *out, size_t width, const char *line, size_t further);
/* Text in an ANSI style; `style` NULL, or without colours: the text alone. */
void lmi_put_painted(lmi_buf *b, bool color, const char *style, const char *text, size_t n);

/* True if `word` is in `list`, whose words are separated by one space; false for an empty word. */
bool lmi_listed(const char *list, const char *word);

static inline bool lmi_ends_in(const char *name, const char *end) {
    const size_t n = strlen(name), k = strlen(end);
    return n >= k && strcmp(name + n - k, end) == 0;
}

/* -- map from text, a 64-bit number or any key to an index ----------------------------------------------- */

/* A hash of n bytes, another one in each process: a file whose names all had one would make maps slow. */
uint64_t lmi_hash(const void *bytes, size_t n);
static inline uint64_t lmi_hash_text(const char *text) { return lmi_hash(text, strlen(text)); }

/* A hash of a text to be kept: the same in every process. */
uint64_t lmi_hash_kept(const char *text);

/* The hash of a number: another number has another one. */
static inline uint64_t lmi_hash_u64(uint64_t x) {
    x *= UINT64_C(0x9e3779b97f4a7c15); /* 2^64 over the golden ratio */
    return x ^ x >> 32;
}

/* One map for all: it holds values, which are not negative, by a hash. All its keys are texts, or numbers, or
 * things of the caller's, who then compares them (lmi_map_next). Nothing is ever removed. */
typedef struct lmi_map_slot {
    uint64_t hash;
    int64_t value; /* 1 + the value; 0: the slot is free */
} lmi_map_slot;
typedef struct lmi_map {
    lmi_map_slot *slots;
    const char **texts; /* of each slot its key, if keys are texts; else NULL */
    size_t n, cap;
} lmi_map;
void lmi_map_init(lmi_map *m);
void lmi_map_free(lmi_map *m);
void lmi_map_clear(lmi_map *m); /* forgets all; keeps the memory */
/* Makes room for n values by hashes or numbers, n below 2^31, so that adding them moves none. */
lam_status lmi_map_reserve(lmi_map *m, size_t n, lam_error *e);
/* The next value with the hash, or -1. The first call has *at = hash. Inlined, since recording and storing an
 * operator look up its arguments (bench/operators.py). */
static inline int64_t lmi_map_next(const lmi_map *m, uint64_t hash, size_t *at) {
    if (!m->cap) return -1;
    for (size_t i = *at;;) {
        const lmi_map_slot *s = &m->slots[i++ & (m->cap - 1)];
        if (s->value && s->hash != hash) continue;
        *at = i;
        return s->value - 1;
    }
}
/* The value with the hash whose text this is, or -1. The caller has the texts: that of value 0 is at `first`,
 * each further one `size` bytes behind. */
int64_t lmi_map_find(const lmi_map *m, uint64_t hash, const char *text, const char *const *first,
                     size_t size);
/* Adds a value, also if there are others with its hash. */
lam_status lmi_map_add(lmi_map *m, uint64_t hash, int64_t value, lam_error *e);
/* The stored value, or -1. Text keys are compared by content and are borrowed: they must outlive the map. */
int64_t lmi_map_get(const lmi_map *m, const char *key);
lam_status lmi_map_put(lmi_map *m, const char *key, int64_t value, lam_error *e); /* replaces */
static inline int64_t lmi_map_get_u64(const lmi_map *m, uint64_t key) {
    size_t at = lmi_hash_u64(key);
    return lmi_map_next(m, at, &at);
}
lam_status lmi_map_put_u64(lmi_map *m, uint64_t key, int64_t value, lam_error *e);
lam_status lmi_map_copy(lmi_map *to, const lmi_map *from, lam_error *e);

/* The number of insertions, deletions, changes and exchanges of neighbours between two words of at most 32
 * bytes; INT_MAX if one is longer. */
int32_t lmi_distance(const char *a, const char *b);

/* -- checked arithmetic: true on overflow, like the compiler's builtins ---------------------------------- */

#define lmi_add_over(a, b, r) __builtin_add_overflow((a), (b), (r))
#define lmi_sub_over(a, b, r) __builtin_sub_overflow((a), (b), (r))
#define lmi_mul_over(a, b, r) __builtin_mul_overflow((a), (b), (r))
/* a + b and a * b of sizes; -1: one of them is negative (unknown), or the result does not fit. */
int64_t lmi_plus(int64_t a, int64_t b);
int64_t lmi_times(int64_t a, int64_t b);
/* a + b, or the number nearest to it where it does not fit. */
static inline int64_t lmi_add_capped(int64_t a, int64_t b) {
    int64_t sum;
    return lmi_add_over(a, b, &sum) ? (a < 0 ? INT64_MIN : INT64_MAX) : sum;
}
/* The product of `n` sizes; false if one is negative or the product does not fit. An empty product is 1. */
bool lmi_product(const int64_t *v, int32_t n, int64_t *out);
/* Of n items of `size` bytes, sorted by the int32_t that each begins with: the first that is not below `key`;
 * n: there is none. */
size_t lmi_lower_bound(const void *items, size_t n, size_t size, int32_t key);
/* The greatest common divisor; never 0, so that it can be divided by: 1 for two zeros. */
int64_t lmi_gcd(int64_t a, int64_t b);

/* -- counts (lam_count, see lamina_count.h) -------------------------------------------------------------- */

__extension__ typedef __int128 lmi_int128;
__extension__ typedef unsigned __int128 lmi_uint128;
/* >=1e12 T, 1e9 G, 1e6 M, 1e3 k, else ""; negative numbers never scale. */
double lmi_unit_scale(double value, const char **prefix);
lam_count lmi_exact(int64_t n);
lam_count lmi_unknown(void);
lam_count lmi_at_least(int64_t n);
/* Exact, or unknown if it is negative. */
static inline lam_count lmi_count_of(int64_t n) {
    return (lam_count){.n = n < 0 ? 0 : n, .state = n < 0 ? LAM_UNKNOWN : LAM_EXACT};
}
lam_count lmi_of_wide(lmi_int128 n); /* the exact count of a number that is not negative */
/* True if it is exactly 0. */
static inline bool lmi_is_zero(lam_count c) { return !((uint64_t)c.n | c.over | (uint32_t)c.state); }
bool lmi_is_same(lam_count a, lam_count b); /* in state and known part */
double lmi_count_double(lam_count c);
/* A fast lam_count_add: exact numbers that are not negative and whose sum fits are added inline. */
static inline lam_count lmi_count_add(lam_count a, lam_count b) {
    lam_count sum = {.n = (int64_t)((uint64_t)a.n + (uint64_t)b.n)};
    bool simple = !(a.over | b.over | (uint32_t)a.state | (uint32_t)b.state) && (a.n | b.n | sum.n) >= 0;
    return simple ? sum : lam_count_add(a, b);
}
/* The value, over * 2^63 + n; always fits. */
lmi_int128 lmi_count_wide(lam_count c);

/* -- numbers as text: half is rounded up, and no locale has an effect ------------------------------------ */

#define LMI_NARROW "\u202f" /* a no-break space between a number and its unit, between groups of digits */

/* LMI_TIMES: in ns; LMI_SHARES: in millionths of a whole */
typedef enum lmi_number_unit { LMI_COUNTS, LMI_BYTES, LMI_TIMES, LMI_SHARES } lmi_number_unit;
/* How a number is set: the space before its unit, microseconds, minus. */
typedef struct lmi_setting {
    const char *space, *micro, *minus;
} lmi_setting;
extern const lmi_setting lmi_plain, lmi_tight, lmi_typeset; /* "1.5 us", "1.5us", "1.5 µs" */

/* Three significant digits and the unit: ">= 1.13 K", "12.0 MiB", "4.50 us", "?"; of a share as
 * lmi_put_percent. */
void lmi_put_quantity(lmi_buf *b, lmi_number_unit unit, lam_count c);
/* The same of a double, rounded to a whole number first; "?" if it is negative, above 2^95 or NaN. */
void lmi_put_scaled(lmi_buf *b, lmi_number_unit unit, double v, const lmi_setting *how);
void lmi_put_digits(lmi_buf *b, double v); /* three significant digits, no unit: "0.08", "12.3", "410" */
/* A moment of UTC from seconds since 1970. */
typedef struct lmi_moment {
    int year, month, day, hour, minute, second; /* month and day from 1 */
} lmi_moment;
lmi_moment lmi_moment_of(int64_t unix_seconds);
void lmi_put_fixed(lmi_buf *b, double v, int decimals); /* "?" if infinite or NaN */
/* For JSON and CSV, rounded as printf does: the shortest form with at most 6 decimals; nine digits. */
void lmi_put_int(lmi_buf *b, int64_t v);
void lmi_put_real(lmi_buf *b, double v);
void lmi_put_nine(lmi_buf *b, double v);
/* "25 %", "6.5 %", "0.04 %", "0.0 %"; nothing if the whole is 0, "? %" if the part is negative or NaN. */
void lmi_put_percent(lmi_buf *b, double part, double whole, const lmi_setting *how);
void lmi_put_growth(lmi_buf *b, double percent, const lmi_setting *how); /* the same: "+25 %", "-6.5 %" */

#endif
