/* SPDX-License-Identifier: Apache-2.0
 *
 * NaN and Inf in the weights of a file, by the search that values of a run have. Numbers of a type without
 * them are not read. */
#include "model/values.h"
#include "read/weights/weights.h"

#include <math.h>
#include <stdio.h>

enum { AT_ONCE = 4096, MOST_NAMED = 8, LEAST_BYTES = 64 << 20, MOST_TIMES = 4 };

typedef struct checking {
    lmi_tensors *t;
    lmi_watching w;
    uint64_t used, most; /* bytes that may be read: tensors of a file may share its bytes */
    lam_error *e;
} checking;

/* Values of blocks that hold a scale that is not finite. */
static void check_blocks(const lmi_piece *p, int64_t n, lam_nonfinite *out) {
    double values[AT_ONCE];
    for (int64_t from = 0; from < n; from += AT_ONCE) {
        const int64_t some = n - from < AT_ONCE ? n - from : AT_ONCE;
        lmi_stored_numbers(&p->type, p->bytes + lmi_piece_bytes(p, from), some, values);
        for (int64_t i = 0; i < some; i++) {
            if (values[i] - values[i] == 0) continue;
            if (out->first < 0) out->first = from + i;
            out->nan += isnan(values[i]) != 0;
            out->inf += isinf(values[i]) != 0;
            out->negative += isinf(values[i]) && values[i] < 0;
        }
    }
}

static lam_status check_piece(const lmi_piece *p, int64_t n, lam_nonfinite *out, lam_error *e) {
    const lam_values v = {.data = p->bytes, .dtype = p->type.dtype, .ndim = 1, .sizes = &n};
    *out = (lam_nonfinite){.first = -1};
    if (p->type.dtype >= 0) return lam_values_scan(&v, out, e);
    check_blocks(p, n, out);
    return LAM_OK;
}

static lam_status check_all(checking *k, const lmi_stored_tensor *x, lam_nonfinite *out) {
    lmi_piece p;
    lam_nonfinite one;
    lam_status s = lmi_piece_open(&p, k->t, x, k->e);
    for (int64_t from = 0; s == LAM_OK && from < p.n; from += LMI_PIECE_ELEMENTS) {
        const int64_t n = p.n - from < LMI_PIECE_ELEMENTS ? p.n - from : LMI_PIECE_ELEMENTS;
        s = lmi_piece_read(&p, from, n, k->e);
        if (s == LAM_OK) s = check_piece(&p, n, &one, k->e);
        if (s == LAM_OK) s = lmi_watched(&k->w, lmi_piece_bytes(&p, n), k->e);
        if (s != LAM_OK) break;
        if (out->first < 0 && one.first >= 0) out->first = from + one.first;
        out->nan += one.nan;
        out->inf += one.inf;
        out->negative += one.negative;
    }
    lmi_piece_free(&p);
    return s;
}

/* Why a tensor's values can't be checked; NULL: they can. *all: they are finite, as of whole numbers. */
static const char *why_not(checking *k, const lmi_stored_tensor *x, bool *all) {
    const lmi_stored_type type = lmi_stored_type_of(x);
    const char *why = lmi_unread(x);
    *all = type.dtype >= 0 && !lmi_form_of(type.dtype);
    if (*all || x->raw.numel == 0) return NULL;
    if (why) return why;
    if (type.dtype < 0 && !type.values) return "values of its type are not read";
    k->used += (uint64_t)x->raw.bytes;
    return k->used > k->most ? "it shares its bytes with too many others" : NULL;
}

static lam_status check(checking *k, lmi_stored_tensor *x) {
    bool finite;
    x->found = (lam_nonfinite){.first = -1};
    x->unseen = why_not(k, x, &finite);
    if (x->unseen || finite || x->raw.numel == 0) return LAM_OK;
    return check_all(k, x, &x->found);
}

/* The names of what was not checked, each with the reason. */
static lam_status note_unseen(checking *k) {
    const lmi_tensors *t = k->t;
    int32_t n = 0;
    for (int32_t i = 0; i < lmi_tensors_n(t); i++) {
        const lmi_stored_tensor *x = lmi_tensors_at(t, i);
        if (!x->unseen || x->same >= 0 || n++ >= MOST_NAMED) continue;
        LAM_TRY(lmi_tensors_note(k->t, k->e, "values of %.200s (%.40s) are not checked: %s", x->name,
                                 x->raw.type, x->unseen));
    }
    if (n <= MOST_NAMED) return LAM_OK;
    return lmi_tensors_note(k->t, k->e, "values of %d more tensors are not checked", (int)(n - MOST_NAMED));
}

lam_status lmi_weights_check(lmi_tensors *t, const lam_watcher *watcher, lam_error *e) {
    checking k = {.t = t, .w = {.o = watcher}, .most = LEAST_BYTES + MOST_TIMES * t->size, .e = e};
    for (int32_t i = 0; i < lmi_tensors_n(t); i++)
        if (lmi_tensors_at(t, i)->raw.bytes > 0) k.w.all += (uint64_t)lmi_tensors_at(t, i)->raw.bytes;
    for (int32_t i = 0; i < lmi_tensors_n(t); i++) {
        lmi_stored_tensor *x = lmi_tensors_at(t, i);
        if (x->same < 0) LAM_TRY(check(&k, x));
    }
    t->checked = true;
    return note_unseen(&k);
}
