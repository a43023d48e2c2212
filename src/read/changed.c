/* SPDX-License-Identifier: Apache-2.0
 *
 * The weights of two files against each other. */
#include "read/read.h"
#include "read/weights/weights.h"

#include <stdlib.h>

static lam_status keep_text(lam_weights_diff *d, const char *text, const char **out, lam_error *e) {
    *out = lmi_strdup(&d->arena, text);
    return *out ? LAM_OK : lmi_nomem(e);
}

/* What a reader says of a file, under the file's name. */
static lam_status take_notes(lam_weights_diff *d, const lmi_tensors *t, int side, lam_error *e) {
    for (size_t i = 0; i < t->notes.n; i++) {
        const char *note = *(const char **)lmi_vec_at(&t->notes, i);
        lmi_buf b;
        lmi_buf_init(&b);
        lmi_putf(&b, "%s: %s", d->name[side], note);
        note = lmi_buf_keep(&b, &d->arena);
        if (!note) return lmi_nomem(e);
        LAM_TRY(lmi_vec_put(&d->notes, &note, e));
    }
    return LAM_OK;
}

static lam_status take_side(lam_weights_diff *d, lmi_tensors *t, const char *path, int side, lam_error *e) {
    t->keep = true;
    LAM_TRY(keep_text(d, path, &d->name[side], e));
    LAM_TRY(lmi_read_tensors(t, path, e));
    LAM_TRY(lmi_tensors_join(t, e));
    LAM_TRY(keep_text(d, t->format, &d->format[side], e));
    return take_notes(d, t, side, e);
}

static lam_status compare(lam_weights_diff *d, const char *const path[2], const lam_watcher *o,
                          lam_error *e) {
    lmi_tensors t[2];
    const lmi_tensors *const both[2] = {&t[0], &t[1]};
    lam_status s = LAM_OK;
    for (int i = 0; i < 2; i++) lmi_tensors_init(&t[i], 0);
    for (int i = 0; i < 2 && s == LAM_OK; i++) s = take_side(d, &t[i], path[i], i, e);
    if (s == LAM_OK) s = lmi_weights_match(d, both, o, e);
    for (int i = 0; i < 2; i++) lmi_tensors_free(&t[i]);
    return s;
}

lam_status lam_weights_diff_new(lam_weights_diff **out, const char *before, const char *after,
                                const lam_watcher *o, lam_error *e) {
    const char *const path[2] = {before, after};
    lam_error mine = {.at = -1};
    if (!e) e = &mine;
    if (!out || !before || !after)
        return lmi_fail(e, LAM_USAGE, "lam_weights_diff_new",
                        "it needs two files, and a place for the result");
    *out = NULL;
    lam_weights_diff *d = calloc(1, sizeof *d);
    if (!d) return lmi_nomem(e);
    lmi_arena_init(&d->arena, UINT64_MAX);
    lmi_vec_init(&d->tensors, sizeof(lam_tensor_change));
    lmi_vec_init(&d->notes, sizeof(const char *));
    lam_status s = compare(d, path, o, e);
    if (s == LAM_SYNTAX || s == LAM_RANGE) s = e->status = LAM_FAILED; /* the file is wrong, as in lam_read */
    if (s == LAM_OK)
        *out = d;
    else
        lam_weights_diff_free(d);
    return s;
}

void lam_weights_diff_free(lam_weights_diff *d) {
    if (!d) return;
    lmi_vec_free(&d->tensors);
    lmi_vec_free(&d->notes);
    lmi_arena_free(&d->arena);
    free(d);
}

const lam_tensor_change *lam_weights_tensor(const lam_weights_diff *d, int32_t i) {
    return i < 0 ? NULL : lmi_vec_at(&d->tensors, (size_t)i);
}

int32_t lam_weights_differ(const lam_weights_diff *d) {
    int32_t n = 0;
    for (size_t i = 0; i < d->tensors.n; i++)
        n += ((const lam_tensor_change *)lmi_vec_at(&d->tensors, i))->change != LAM_WEIGHTS_EQUAL;
    return n;
}
