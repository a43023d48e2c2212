/* SPDX-License-Identifier: Apache-2.0
 *
 * Two tensors of equal sizes: first by their bytes, then, if those differ, by their values. Both are read in
 * pieces of the same elements. */
#include "read/weights/weights.h"

#include <math.h>
#include <stdlib.h>

enum { AT_ONCE = 4096, LANES = 8 };
_Static_assert(LMI_PIECE_ELEMENTS % AT_ONCE == 0 && AT_ONCE % LMI_BLOCK_MOST == 0, "pieces are whole blocks");

lam_status lmi_watched(lmi_watching *w, uint64_t bytes, lam_error *e) {
    w->done += bytes;
    if (!w->o || !w->o->watch) return LAM_OK;
    lam_status s = w->o->watch(w->o->self, w->done < w->all ? w->done : w->all, w->all);
    return s == LAM_OK ? LAM_OK : lmi_fail(e, s, NULL, "it was stopped");
}

/* -- values ---------------------------------------------------------------------------------------------- */

typedef struct pair {
    lmi_piece side[2];
    int64_t n;      /* elements */
    int64_t unlike; /* the first piece whose bytes differ; the watcher has counted those before */
    lam_tensor_change *out;
    lmi_watching *w;
    double values[2][AT_ONCE];
} pair;

static bool is_finite(double v) { return v - v == 0; }

/* Values of which some are not finite. */
static void add_each(const double *a, const double *b, int64_t n, lam_tensor_change *to) {
    for (int64_t i = 0; i < n; i++) {
        const bool known = is_finite(a[i]), now = is_finite(b[i]);
        to->nonfinite[0] += !known;
        to->nonfinite[1] += !now;
        to->differ +=
            a[i] != b[i] && (a[i] == a[i] || b[i] == b[i]); /* a NaN that stays one does not differ */
        if (!known || !now) continue;
        const double d = fabs(b[i] - a[i]);
        to->before += a[i] * a[i];
        to->squares += d * d;
        if (d > to->largest) to->largest = d;
    }
}

/* In lanes, which a compiler makes a vector of. */
static void add_lanes(const double *a, const double *b, int64_t n, lam_tensor_change *to) {
    double before[LANES] = {0}, squares[LANES] = {0}, largest[LANES] = {0};
    int64_t differ[LANES] = {0};
    for (int64_t i = 0; i + LANES <= n; i += LANES) {
        for (int k = 0; k < LANES; k++) {
            const double d = fabs(b[i + k] - a[i + k]);
            before[k] += a[i + k] * a[i + k];
            squares[k] += d * d;
            differ[k] += d != 0;
            largest[k] = d > largest[k] ? d : largest[k];
        }
    }
    for (int k = 0; k < LANES; k++) {
        to->before += before[k];
        to->squares += squares[k];
        to->differ += differ[k];
        if (largest[k] > to->largest) to->largest = largest[k];
    }
    add_each(a + n / LANES * LANES, b + n / LANES * LANES, n % LANES, to);
}

/* A sum with a value that is not finite is none; nor may squares of large values be. */
static void add(const double *a, const double *b, int64_t n, lam_tensor_change *to) {
    const lam_tensor_change kept = *to;
    add_lanes(a, b, n, to);
    if (is_finite(to->before) && is_finite(to->squares) && is_finite(to->largest)) return;
    *to = kept;
    add_each(a, b, n, to);
}

/* Whole numbers of 64 bits, which a double does not always tell apart. */
static void add_wide(const unsigned char *a, const unsigned char *b, int64_t n, bool is_signed,
                     lam_tensor_change *to) {
    for (int64_t i = 0; i < n; i++) {
        const uint64_t was = lmi_le64(a + 8 * i), now = lmi_le64(b + 8 * i);
        const lmi_int128 from = is_signed ? (lmi_int128)(int64_t)was : (lmi_int128)was,
                         by = (is_signed ? (lmi_int128)(int64_t)now : (lmi_int128)now) - from;
        const double d = fabs((double)by);
        to->before += (double)from * (double)from;
        to->squares += d * d;
        to->differ += by != 0;
        if (d > to->largest) to->largest = d;
    }
}

/* The values of a piece that both have read. */
static void add_piece(pair *p, int64_t n) {
    const lmi_stored_type *type[2] = {&p->side[0].type, &p->side[1].type};
    if (lmi_is_wide(type[0]) && type[0]->dtype == type[1]->dtype) {
        add_wide(p->side[0].bytes, p->side[1].bytes, n, *type[0]->name == 'i', p->out);
        return;
    }
    for (int64_t from = 0; from < n; from += AT_ONCE) {
        const int64_t some = n - from < AT_ONCE ? n - from : AT_ONCE;
        for (int i = 0; i < 2; i++)
            lmi_stored_numbers(type[i], p->side[i].bytes + lmi_piece_bytes(&p->side[i], from), some,
                               p->values[i]);
        add(p->values[0], p->values[1], some, p->out);
    }
}

/* -- pieces ---------------------------------------------------------------------------------------------- */

/* The bytes of the file that n elements take. */
static uint64_t read_for(const lmi_piece *p, int64_t n) {
    return p->unpack ? (uint64_t)((double)p->x->raw.bytes * (double)n / (double)p->n) : lmi_piece_bytes(p, n);
}

static lam_status read_both(pair *p, int64_t from, int64_t *n, lam_error *e) {
    *n = p->n - from < LMI_PIECE_ELEMENTS ? p->n - from : LMI_PIECE_ELEMENTS;
    for (int i = 0; i < 2; i++) LAM_TRY(lmi_piece_read(&p->side[i], from, *n, e));
    const bool again = from <= p->unlike;
    return lmi_watched(p->w, again ? 0 : read_for(&p->side[0], *n) + read_for(&p->side[1], *n), e);
}

/* Finds the first piece whose bytes differ; -1: there is none. */
static lam_status first_unlike(pair *p, lam_error *e) {
    int64_t n, found = -1;
    for (int64_t from = 0; from < p->n && found < 0; from += n) {
        LAM_TRY(read_both(p, from, &n, e));
        if (memcmp(p->side[0].bytes, p->side[1].bytes, lmi_piece_bytes(&p->side[0], n)) != 0) found = from;
    }
    p->unlike = found;
    return LAM_OK;
}

static lam_status compare(pair *p, lam_error *e) {
    const lmi_stored_type *a = &p->side[0].type, *b = &p->side[1].type;
    const bool alike = strcmp(a->name, b->name) == 0 && a->bytes == b->bytes && a->opaque == b->opaque;
    int64_t n;
    p->n = p->side[0].n;
    p->unlike = -1;
    if (alike) {
        LAM_TRY(first_unlike(p, e));
        p->out->change = p->unlike < 0 ? LAM_WEIGHTS_EQUAL : LAM_WEIGHTS_CHANGED;
        p->out->compared = p->unlike < 0;
        if (p->unlike < 0) return LAM_OK;
    }
    p->out->change = LAM_WEIGHTS_CHANGED;
    if (!lmi_is_number(a) || !lmi_is_number(b)) {
        p->out->why = "values of its type are not read";
        if (!alike) p->out->change = LAM_WEIGHTS_UNKNOWN;
        return LAM_OK;
    }
    p->out->compared = true;
    for (int64_t from = 0; from < p->n; from += n) {
        LAM_TRY(read_both(p, from, &n, e));
        add_piece(p, n);
    }
    return LAM_OK;
}

lam_status lmi_weights_compare(const lmi_tensors *const t[2], const lmi_stored_tensor *const x[2],
                               bool values, lam_tensor_change *out, lmi_watching *w, lam_error *e) {
    pair *p = calloc(1, sizeof *p);
    if (!p) return lmi_nomem(e);
    p->out = out;
    p->w = w;
    lam_status s = LAM_OK;
    for (int i = 0; i < 2 && s == LAM_OK; i++)
        s = (values && x[i]->packed ? lmi_piece_open_values : lmi_piece_open)(&p->side[i], t[i], x[i], e);
    if (s == LAM_OK) s = compare(p, e);
    for (int i = 0; i < 2; i++) lmi_piece_free(&p->side[i]);
    free(p);
    return s;
}

/* -- a hash ---------------------------------------------------------------------------------------------- */

static uint64_t mixed(uint64_t h, uint64_t word) {
    h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

/* Four words at once, since each waits for the product before it. */
static void hash_bytes(uint64_t h[4], const unsigned char *p, size_t n) {
    for (; n >= 32; p += 32, n -= 32)
        for (int k = 0; k < 4; k++) h[k] = mixed(h[k], lmi_le64(p + 8 * k));
    for (size_t i = 0; i < n; i++) h[i % 4] = mixed(h[i % 4], p[i]);
}

lam_status lmi_weights_hash(const lmi_tensors *t, const lmi_stored_tensor *x, uint64_t *out, lmi_watching *w,
                            lam_error *e) {
    uint64_t h[4] = {1, 2, 3, 4};
    lmi_piece p;
    lam_status s = lmi_piece_open(&p, t, x, e);
    for (int64_t from = 0; s == LAM_OK && from < p.n; from += LMI_PIECE_ELEMENTS) {
        const int64_t n = p.n - from < LMI_PIECE_ELEMENTS ? p.n - from : LMI_PIECE_ELEMENTS;
        s = lmi_piece_read(&p, from, n, e);
        if (s == LAM_OK) hash_bytes(h, p.bytes, lmi_piece_bytes(&p, n));
        if (s == LAM_OK) s = lmi_watched(w, lmi_piece_bytes(&p, n), e);
    }
    lmi_piece_free(&p);
    *out = mixed(mixed(mixed(h[0], h[1]), h[2]), h[3]);
    return s;
}
