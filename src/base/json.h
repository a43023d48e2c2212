/* SPDX-License-Identifier: Apache-2.0
 * json: reads a JSON text into a flat array of values, in the order of the text. It does not recurse, and
 * follows RFC 8259: one value, in UTF-8, nothing behind it. */
#ifndef LMI_BASE_JSON_H
#define LMI_BASE_JSON_H

#include "base/base.h"

typedef enum lmi_json_kind {
    LMI_JSON_MISSING, /* only the value at position 0 */
    LMI_JSON_NULL,
    LMI_JSON_FALSE,
    LMI_JSON_TRUE,
    LMI_JSON_NUMBER,
    LMI_JSON_TEXT,
    LMI_JSON_LIST,
    LMI_JSON_OBJECT,
} lmi_json_kind;

typedef struct lmi_json_value {
    uint32_t kind;
    uint32_t at;   /* the byte of the text where it begins; of a text, the one behind the quote */
    uint32_t n;    /* of a number or a text: bytes; of a list: values; of an object: names */
    uint32_t next; /* the position behind the value and all that is in it */
} lmi_json_value;

/* Position 0 is a value that is missing, so that a search in what was not found finds nothing. Position 1 is
 * the whole text's value. The values of a list follow it; in an object each name precedes its value. */
enum { LMI_JSON_ROOT = 1 };
typedef struct lmi_json {
    const char *text;
    lmi_json_value *v;
    uint32_t n, cap;
} lmi_json;

typedef struct lmi_json_limits {
    uint32_t depth; /* of lists and objects in each other */
    uint32_t size;  /* of the text, in bytes */
    bool infinity;  /* Infinity, -Infinity and NaN are numbers: some writers leave them bare */
} lmi_json_limits;

/* Reads the n bytes at `text`, which must have room for one byte more. Texts are decoded in place, with a NUL
 * behind each; an escaped NUL and half of a surrogate pair become U+FFFD. `text` must outlive the values.
 * `where` names the text in errors, whose `at` is the byte. LAM_SYNTAX: it is no JSON; LAM_LIMIT: it is too
 * large or too deep, or has more values than a million and one for four bytes. On failure there is nothing to
 * free. */
lam_status lmi_json_read(lmi_json *j, char *text, size_t n, const lmi_json_limits *limits, const char *where,
                         lam_error *e);
/* The same, but if the whole is an object, `take` gets each name with its value, and then both are forgotten,
 * so that a long text takes little memory. A status of `take` that is not LAM_OK ends the reading. */
typedef lam_status lmi_json_take(void *of, uint32_t name);
lam_status lmi_json_read_each(lmi_json *j, char *text, size_t n, const lmi_json_limits *limits,
                              lmi_json_take *take, void *of, const char *where, lam_error *e);
void lmi_json_free(lmi_json *j);

static inline lmi_json_kind lmi_json_is(const lmi_json *j, uint32_t at) {
    return (lmi_json_kind)j->v[at].kind;
}
/* The value of the first name of these n bytes in the object at a position; 0 if it has none, or is no
 * object. */
uint32_t lmi_json_getn(const lmi_json *j, uint32_t at, const char *name, size_t n);
/* Inlined where compilers save space too, since the length of a literal is then known (bench/files.py). */
__attribute__((always_inline)) static inline uint32_t
lmi_json_get(const lmi_json *j, uint32_t at, const char *name) {
    return lmi_json_getn(j, at, name, strlen(name));
}
/* The same by several names with dots between them, of objects in each other: "model.type". A name that has a
 * dot itself is not found. */
uint32_t lmi_json_find(const lmi_json *j, uint32_t at, const char *path);
/* Appends how to get from the whole to the value at a position, which is not 0: "rows[3].macs.value". */
void lmi_json_put_path(const lmi_json *j, uint32_t at, lmi_buf *out);
/* The number of values in a list, or of names in an object; 0 for anything else. */
uint32_t lmi_json_size(const lmi_json *j, uint32_t at);
/* The text at a position, which ends in a NUL; NULL if the value is no text. */
const char *lmi_json_as_text(const lmi_json *j, uint32_t at);
bool lmi_json_equals(const lmi_json *j, uint32_t at, const char *text);
/* False, with *out unchanged: the value is no whole number without fraction and exponent, or does not fit. */
bool lmi_json_as_int(const lmi_json *j, uint32_t at, int64_t *out);
/* The same, up to 95 bits (lam_count). */
bool lmi_json_as_wide(const lmi_json *j, uint32_t at, lmi_int128 *out);
/* False: the value is no number, or one of more than 255 characters. One that is too large is infinite. */
bool lmi_json_as_real(const lmi_json *j, uint32_t at, double *out);
/* Maps the names of the object at a position, which must stay, to the positions of their values. LAM_SYNTAX:
 * a name stands twice in it. */
lam_status lmi_json_index(const lmi_json *j, uint32_t at, lmi_map *out, const char *where, lam_error *e);
/* LAM_SYNTAX: a name stands twice in the object at a position. Readers take one or the other of them. */
lam_status lmi_json_unique(const lmi_json *j, uint32_t at, const char *where, lam_error *e);

/* Walks the values of the list at a position, or the names of the object, each followed by its value.
 * Anything else has none. */
#define LMI_JSON_EACH(j, list, i)                                                                            \
    for (uint32_t i = (list) + 1, end_##i = lmi_json_end(j, list, LMI_JSON_LIST); i < end_##i;               \
         i = (j)->v[i].next)
#define LMI_JSON_NAMES(j, object, i)                                                                         \
    for (uint32_t i = (object) + 1, end_##i = lmi_json_end(j, object, LMI_JSON_OBJECT); i < end_##i;         \
         i = (j)->v[i + 1].next)
static inline uint32_t lmi_json_end(const lmi_json *j, uint32_t at, lmi_json_kind kind) {
    return lmi_json_is(j, at) == kind ? j->v[at].next : at + 1;
}

#endif
