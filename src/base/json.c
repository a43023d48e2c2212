/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads JSON. While a list or an object is open, its `next` is the position of the one around it, so that the
 * depth needs no stack; when it closes, `next` becomes the position behind it. A position is a uint32_t: a
 * value takes a byte of the text at least, so a text of less than 4 GiB has no more values than that. */
#include "base/json.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

enum { LEAST_VALUES = 1 << 20 };

typedef struct reader {
    lmi_json *j;
    char *start, *p, *end; /* *end is NUL, which ends every loop over the text */
    uint32_t open, depth;  /* the innermost list or object that is open, 0: none */
    size_t most;           /* values that are kept at once: JSON of models has one for 6 bytes or more */
    const lmi_json_limits *limits;
    lmi_json_take *take; /* NULL: all values are kept */
    void *of;
    const char *where;
    lam_error *e;
} reader;

static lam_status wrong(const reader *r, const char *at, const char *what) {
    return lmi_fail_at(r->e, LAM_SYNTAX, at - r->start, r->where, "it is no JSON: %s at byte %lld", what,
                       (long long)(at - r->start));
}

/* Adds a value that begins at `at`; NULL: memory ran out. */
static lmi_json_value *add(reader *r, lmi_json_kind kind, const char *at) {
    lmi_json *j = r->j;
    if (j->n == j->cap) {
        uint32_t cap = j->cap < UINT32_MAX / 2 ? 2 * j->cap : UINT32_MAX;
        lmi_json_value *v = realloc(j->v, cap * sizeof *v);
        if (!v) return NULL;
        j->v = v;
        j->cap = cap;
    }
    lmi_json_value *v = &j->v[j->n++];
    *v = (lmi_json_value){kind, (uint32_t)(at - r->start), 0, j->n};
    return v;
}

/* -- texts ----------------------------------------------------------------------------------------------- */

enum { AT_ONCE = 16 };

/* The number of bytes before the first that is not 0. */
static int zeros(uint64_t eight) {
    return (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? __builtin_ctzll(eight) : __builtin_clzll(eight)) / 8;
}

/* The number of bytes before the first of AT_ONCE that is a control, a quote, a backslash, or outside ASCII.
 * As signed numbers, bytes outside ASCII are less than a space, as controls are. */
static int plain_bytes(const char *p) {
    typedef signed char bytes __attribute__((vector_size(AT_ONCE)));
    typedef uint64_t halves __attribute__((vector_size(AT_ONCE)));
    bytes b;
    memcpy(&b, p, sizeof b);
    const halves found = (halves)((b < ' ') | (b == '"') | (b == '\\'));
    if (found[0]) return zeros(found[0]);
    return found[1] ? 8 + zeros(found[1]) : AT_ONCE;
}

/* The length of the character at p if it is valid UTF-8 outside ASCII, else 0. The text ends in a NUL. */
static size_t wide_char(const char *p) {
    uint32_t code;
    size_t n = lmi_utf8(p, &code);
    return code == LMI_BAD_UTF8 ? 0 : n;
}

/* The first byte from p on that is a quote, a backslash, a control or no UTF-8. */
static char *skip_plain(const reader *r, char *p) {
    for (;;) {
        for (int n = AT_ONCE; n == AT_ONCE && r->end - p >= AT_ONCE; p += n) n = plain_bytes(p);
        unsigned char c = (unsigned char)*p;
        size_t n = c < 0x80 ? c >= ' ' && c != '"' && c != '\\' : wide_char(p);
        if (!n) return p;
        p += n;
    }
}

/* The number that four hexadecimal digits at p make; -1: they are not. */
static int32_t four_digits(const char *p) {
    int32_t v = 0;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int digit = c >= '0' && c <= '9'                 ? c - '0'
                    : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                         : -1;
        if (digit < 0) return -1;
        v = v * 16 + digit;
    }
    return v;
}

/* Decodes the escape at *from, a backslash, to `to`, and moves *from behind it. NULL: there is no such
 * escape. */
static char *escape(const char **from, char *to) {
    static const char plain[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    const char *p = *from + 1;
    const char *found = *p ? strchr(plain, *p) : NULL;
    if (found) {
        *from = p + 1;
        *to = means[found - plain];
        return to + 1;
    }
    int32_t code = *p == 'u' ? four_digits(p + 1) : -1;
    if (code < 0) return NULL;
    p += 5;
    if (code >= 0xd800 && code < 0xdc00 && p[0] == '\\' && p[1] == 'u') {
        int32_t low = four_digits(p + 2);
        if (low >= 0xdc00 && low < 0xe000) {
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
            p += 6;
        }
    }
    *from = p;
    return to + lmi_utf8_put(to, code ? (uint32_t)code : 0xfffd); /* a NUL would end the text */
}

/* Reads a text whose first quote is at r->p. */
static lam_status read_text(reader *r) {
    char *first = r->p + 1, *to = skip_plain(r, first);
    const char *from = to;
    lmi_json_value *v = add(r, LMI_JSON_TEXT, first);
    if (!v) return lmi_nomem(r->e);
    while (*from == '\\') {
        to = escape(&from, to);
        if (!to) return wrong(r, from, "there is no such escape");
        const char *plain = skip_plain(r, (char *)from);
        memmove(to, from, (size_t)(plain - from));
        to += plain - from;
        from = plain;
    }
    if (from == r->end) return wrong(r, first - 1, "no quote ends the text");
    if (*from != '"') return wrong(r, from, *from & 0x80 ? "no UTF-8" : "a control character in a text");
    *to = '\0';
    v->n = (uint32_t)(to - first);
    r->p += from + 1 - r->p;
    return LAM_OK;
}

/* -- numbers and words ----------------------------------------------------------------------------------- */

static const char *skip_digits(const char *p) {
    while (*p >= '0' && *p <= '9') p++;
    return p;
}

/* Where the number at p ends, if one is there, else p. */
static const char *number_end(const char *p) {
    const char *start = p, *digits = p += *p == '-';
    p = skip_digits(p);
    if (p == digits || (*digits == '0' && p - digits > 1)) return start;
    if (*p == '.') {
        const char *fraction = p + 1;
        p = skip_digits(fraction);
        if (p == fraction) return start;
    }
    if (*p == 'e' || *p == 'E') {
        const char *exponent = p + 1;
        exponent += *exponent == '-' || *exponent == '+';
        p = skip_digits(exponent);
        if (p == exponent) return start;
    }
    return p;
}

static bool is_word(const reader *r, const char *word, size_t n) {
    return (size_t)(r->end - r->p) >= n && memcmp(r->p, word, n) == 0;
}

/* Reads a number or a word. */
static lam_status read_plain(reader *r) {
    static const struct {
        const char *word;
        uint32_t n;
        lmi_json_kind kind;
    } words[] = {{"null", 4, LMI_JSON_NULL},        {"true", 4, LMI_JSON_TRUE},
                 {"false", 5, LMI_JSON_FALSE},      {"Infinity", 8, LMI_JSON_NUMBER},
                 {"-Infinity", 9, LMI_JSON_NUMBER}, {"NaN", 3, LMI_JSON_NUMBER}};
    size_t n = (size_t)(number_end(r->p) - r->p);
    lmi_json_kind kind = LMI_JSON_NUMBER;
    for (int i = 0; n == 0 && i < (r->limits->infinity ? 6 : 3); i++)
        if (is_word(r, words[i].word, words[i].n)) {
            n = words[i].n;
            kind = words[i].kind;
        }
    if (n == 0 && r->p == r->start && strncmp(r->p, "\xef\xbb\xbf", 3) == 0)
        return wrong(r, r->p, "a byte order mark");
    if (n == 0) return wrong(r, r->p, r->p == r->end ? "it ends where a value should be" : "no value");
    lmi_json_value *v = add(r, kind, r->p);
    if (!v) return lmi_nomem(r->e);
    v->n = (uint32_t)n;
    r->p += n;
    return LAM_OK;
}

/* -- lists and objects ----------------------------------------------------------------------------------- */

static void skip_space(reader *r) {
    while (*r->p == ' ' || *r->p == '\n' || *r->p == '\t' || *r->p == '\r') r->p++;
}

/* Reads the name of a value, and the colon. */
static lam_status read_name(reader *r) {
    if (*r->p != '"') return wrong(r, r->p, "no name");
    LAM_TRY(read_text(r));
    skip_space(r);
    if (*r->p != ':') return wrong(r, r->p, "no colon behind a name");
    r->p++;
    skip_space(r);
    return LAM_OK;
}

static bool in_object(const reader *r) { return r->open && r->j->v[r->open].kind == LMI_JSON_OBJECT; }

/* Opens a list or an object. */
static lam_status open_one(reader *r, lmi_json_kind kind) {
    if (r->depth >= r->limits->depth)
        return lmi_fail_at(r->e, LAM_LIMIT, r->p - r->start, r->where,
                           "its lists and objects are more than %u deep at byte %lld", r->limits->depth,
                           (long long)(r->p - r->start));
    lmi_json_value *v = add(r, kind, r->p++);
    if (!v) return lmi_nomem(r->e);
    v->next = r->open;
    r->open = r->j->n - 1;
    r->depth++;
    return LAM_OK;
}

static void close_one(reader *r) {
    lmi_json_value *v = &r->j->v[r->open];
    r->open = v->next;
    v->next = r->j->n;
    r->depth--;
    r->p++;
}

/* Reads from the beginning of a value to its end, or into the first value of a list or an object. */
static lam_status read_value(reader *r, bool *whole) {
    *whole = *r->p != '[' && *r->p != '{';
    if (*r->p == '"') return read_text(r);
    if (*whole) return read_plain(r);
    bool object = *r->p == '{';
    LAM_TRY(open_one(r, object ? LMI_JSON_OBJECT : LMI_JSON_LIST));
    skip_space(r);
    *whole = *r->p == (object ? '}' : ']');
    if (*whole) close_one(r);
    return LAM_OK;
}

/* Reads what is behind a value: ends of lists and objects, and the comma before the next value. */
static lam_status read_behind(reader *r, bool *more) {
    for (*more = false; r->open && !*more;) {
        lmi_json_value *v = &r->j->v[r->open];
        bool object = v->kind == LMI_JSON_OBJECT;
        v->n++;
        skip_space(r);
        if (*r->p == ',') {
            *more = true;
            r->p++;
            skip_space(r);
        } else if (*r->p == (object ? '}' : ']')) {
            close_one(r);
        } else {
            return wrong(r, r->p,
                         object ? "neither a comma nor the end of the object"
                                : "neither a comma nor the end of the list");
        }
    }
    return LAM_OK;
}

/* Gives a value of the whole, with its name, to who takes them, and forgets it. */
static lam_status give(reader *r) {
    const uint32_t name = LMI_JSON_ROOT + 1;
    lmi_json_value *whole = &r->j->v[LMI_JSON_ROOT];
    if (!r->take || r->depth > 1 || r->j->n <= name || whole->kind != LMI_JSON_OBJECT) return LAM_OK;
    whole->next = r->j->n; /* it ends here for `take` */
    LAM_TRY(r->take(r->of, name));
    whole->next = r->open ? 0 : name;
    r->j->n = name;
    return LAM_OK;
}

static lam_status read_all(reader *r) {
    if (!add(r, LMI_JSON_MISSING, r->start)) return lmi_nomem(r->e);
    skip_space(r);
    for (bool more = true; more;) {
        bool whole;
        if (in_object(r)) LAM_TRY(read_name(r));
        LAM_TRY(read_value(r, &whole));
        if (r->j->n > r->most)
            return lmi_fail_at(r->e, LAM_LIMIT, r->p - r->start, r->where,
                               "it has more values than a text of its size should, at byte %lld",
                               (long long)(r->p - r->start));
        if (whole) {
            LAM_TRY(read_behind(r, &more));
            LAM_TRY(give(r));
        }
    }
    skip_space(r);
    return r->p == r->end ? LAM_OK : wrong(r, r->p, "something behind its end");
}

/* What follows is written there: fresh memory costs time (bench/files.py). */
static lam_status drop_room(lmi_json *j, lam_error *e) {
    lmi_json_value *v = realloc(j->v, j->n * sizeof *v);
    if (!v) return lmi_nomem(e);
    j->v = v;
    return LAM_OK;
}

lam_status lmi_json_read_each(lmi_json *j, char *text, size_t n, const lmi_json_limits *limits,
                              lmi_json_take *take, void *of, const char *where, lam_error *e) {
    *j = (lmi_json){.text = text};
    if (n > limits->size)
        return lmi_fail(e, LAM_LIMIT, where, "its JSON has %zu bytes; %u are the most", n, limits->size);
    reader r = {.j = j,
                .start = text,
                .p = text,
                .end = text + n,
                .most = LEAST_VALUES + n / 4,
                .limits = limits,
                .take = take,
                .of = of,
                .where = where,
                .e = e};
    text[n] = '\0';
    j->cap = (take ? 0 : (uint32_t)(n / 16)) + 64; /* what lamina writes has a value every 10 bytes */
    j->v = malloc(j->cap * sizeof *j->v);
    lam_status status = j->v ? read_all(&r) : lmi_nomem(e);
    if (status == LAM_OK) status = drop_room(j, e);
    if (status != LAM_OK) lmi_json_free(j);
    return status;
}

lam_status lmi_json_read(lmi_json *j, char *text, size_t n, const lmi_json_limits *limits, const char *where,
                         lam_error *e) {
    return lmi_json_read_each(j, text, n, limits, NULL, NULL, where, e);
}

void lmi_json_free(lmi_json *j) {
    free(j->v);
    *j = (lmi_json){0};
}

/* -- values ---------------------------------------------------------------------------------------------- */

static bool has_text(const lmi_json *j, uint32_t at, const char *text, size_t n) {
    return j->v[at].n == n && memcmp(j->text + j->v[at].at, text, n) == 0;
}

uint32_t lmi_json_getn(const lmi_json *j, uint32_t at, const char *name, size_t n) {
    LMI_JSON_NAMES(j, at, i) if (has_text(j, i, name, n)) return i + 1;
    return 0;
}

uint32_t lmi_json_find(const lmi_json *j, uint32_t at, const char *path) {
    for (size_t n; at; path += n + 1) {
        n = strcspn(path, ".");
        at = lmi_json_getn(j, at, path, n);
        if (!path[n]) break;
    }
    return at;
}

void lmi_json_put_path(const lmi_json *j, uint32_t at, lmi_buf *out) {
    const size_t from = out->n;
    for (uint32_t in = LMI_JSON_ROOT, inside = 0; in != at; in = inside) {
        uint32_t k = 0;
        LMI_JSON_EACH(j, in, i) {
            if (at < j->v[i].next) {
                inside = i;
                lmi_putf(out, "[%u]", k);
                break;
            }
            k++;
        }
        LMI_JSON_NAMES(j, in, i) {
            if (at >= j->v[i + 1].next) continue;
            inside = i + 1;
            if (out->n > from) lmi_putc(out, '.');
            lmi_put_clean(out, j->text + j->v[i].at);
            if (at == i) return; /* it is the name itself */
            break;
        }
    }
}

uint32_t lmi_json_size(const lmi_json *j, uint32_t at) {
    lmi_json_kind kind = lmi_json_is(j, at);
    return kind == LMI_JSON_LIST || kind == LMI_JSON_OBJECT ? j->v[at].n : 0;
}

const char *lmi_json_as_text(const lmi_json *j, uint32_t at) {
    return lmi_json_is(j, at) == LMI_JSON_TEXT ? j->text + j->v[at].at : NULL;
}

bool lmi_json_equals(const lmi_json *j, uint32_t at, const char *text) {
    return lmi_json_is(j, at) == LMI_JSON_TEXT && has_text(j, at, text, strlen(text));
}

bool lmi_json_as_wide(const lmi_json *j, uint32_t at, lmi_int128 *out) {
    if (lmi_json_is(j, at) != LMI_JSON_NUMBER) return false;
    const char *p = j->text + j->v[at].at, *end = p + j->v[at].n;
    bool negative = *p == '-';
    const lmi_int128 most = ((lmi_int128)UINT32_MAX << 63) + INT64_MAX;
    lmi_int128 v = 0;
    for (p += negative; p < end; p++) {
        if (*p < '0' || *p > '9') return false;
        v = v * 10 + (*p - '0');
        if (v > most) return false;
    }
    *out = negative ? -v : v;
    return true;
}

bool lmi_json_as_int(const lmi_json *j, uint32_t at, int64_t *out) {
    enum { SAFE = 18 }; /* digits that fit: as most numbers of files do, without 128 bits (bench/files.py) */
    lmi_int128 v;
    if (lmi_json_is(j, at) == LMI_JSON_NUMBER && j->v[at].n <= SAFE) {
        const char *p = j->text + j->v[at].at, *end = p + j->v[at].n;
        int64_t n = 0;
        for (; p < end && *p >= '0' && *p <= '9'; p++) n = n * 10 + (*p - '0');
        if (p == end) {
            *out = n;
            return true;
        }
    }
    if (!lmi_json_as_wide(j, at, &v) || v > INT64_MAX || v < INT64_MIN) return false;
    *out = (int64_t)v;
    return true;
}

/* strtod reads the locale's decimal point, and ends at what may be behind a number. */
bool lmi_json_as_real(const lmi_json *j, uint32_t at, double *out) {
    const lmi_json_value *v = &j->v[at];
    const char *digits = j->text + v->at, *of_locale = localeconv()->decimal_point;
    int64_t whole;
    if (lmi_json_as_int(j, at, &whole)) {
        *out = (double)whole;
        return true;
    }
    char copy[512];
    if (v->kind != LMI_JSON_NUMBER || v->n >= sizeof copy / 2) return false;
    if (strcmp(of_locale, ".") == 0) {
        *out = strtod(digits, NULL);
        return true;
    }
    const char *point = memchr(digits, '.', v->n);
    int before = point ? (int)(point - digits) : (int)v->n, behind = (int)v->n - before - (point != NULL);
    snprintf(copy, sizeof copy, "%.*s%.8s%.*s", before, digits, point ? of_locale : "", behind,
             digits + v->n - behind);
    *out = strtod(copy, NULL);
    return true;
}

lam_status lmi_json_index(const lmi_json *j, uint32_t at, lmi_map *out, const char *where, lam_error *e) {
    LMI_JSON_NAMES(j, at, i) {
        const char *name = j->text + j->v[i].at;
        if (lmi_map_get(out, name) >= 0)
            return lmi_fail_at(e, LAM_SYNTAX, j->v[i].at, where,
                               "the name '%.80s' stands twice, again at byte %u", name, j->v[i].at);
        LAM_TRY(lmi_map_put(out, name, i + 1, e));
    }
    return LAM_OK;
}

lam_status lmi_json_unique(const lmi_json *j, uint32_t at, const char *where, lam_error *e) {
    lmi_map names;
    lmi_map_init(&names);
    const lam_status s = lmi_json_index(j, at, &names, where, e);
    lmi_map_free(&names);
    return s;
}
