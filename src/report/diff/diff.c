/* SPDX-License-Identifier: Apache-2.0
 *
 * The difference as a whole. */
#include "report/diff/diff.h"

#include <stdlib.h>
#include <string.h>

static lam_status take_both(lam_diff *d, const lam_diff_side *const from[2], lam_error *e) {
    for (int i = 0; i < 2; i++) LAM_TRY(lmi_diff_open(&d->side[i], from[i], e));
    lmi_diff_choose(d->side);
    for (int i = 0; i < 2; i++) LAM_TRY(lmi_diff_take(&d->side[i], from[i], e));
    LAM_TRY(lmi_outline_diff(&d->both, &d->side[0].o, &d->side[1].o, e));
    d->moved = lmi_alloc(&d->arena, (uint64_t)d->both.n, sizeof *d->moved);
    if (!d->moved) return lmi_nomem(e);
    lmi_diff_count(d);
    return lmi_diff_say(d, e);
}

lam_status lam_diff_new(lam_diff **out, const lam_diff_side *before, const lam_diff_side *after,
                        lam_error *e) {
    const lam_diff_side *const from[2] = {before, after};
    lam_diff *d = calloc(1, sizeof *d);
    *out = NULL;
    if (!d) return lmi_nomem(e);
    lmi_arena_init(&d->arena, UINT64_MAX);
    lam_status s = take_both(d, from, e);
    if (s == LAM_OK)
        *out = d;
    else
        lam_diff_free(d);
    return s;
}

void lam_diff_free(lam_diff *d) {
    if (!d) return;
    lmi_outline_free(&d->both);
    for (int i = 0; i < 2; i++) lmi_diff_close(&d->side[i]);
    lmi_arena_free(&d->arena);
    free(d);
}

int32_t lam_diff_modules(const lam_diff *d) {
    return d->n[LMI_ADDED] + d->n[LMI_REMOVED] + d->n[LMI_CHANGED] + d->n[LMI_RENAMED];
}

lam_status lam_diff_write(const lam_diff *d, const lam_diff_options *o, lam_sink to, lam_error *e) {
    static const lam_diff_options defaults = {.rows = -1, .depth = -1};
    if (!o) o = &defaults;
    const char *format = o->format ? o->format : "text";
    static const char *const formats[] = {"text", "md", "json"};
    enum { N_FORMATS = sizeof formats / sizeof *formats };
    int k = 0;
    while (k < N_FORMATS && strcmp(format, formats[k]) != 0) k++;
    if (k == N_FORMATS)
        return lmi_no_such(e, "format", format, "a difference", formats, sizeof *formats, N_FORMATS);
    bool json = strcmp(format, "json") == 0;
    lmi_diff_lines l = {.by = LMI_N_FIGURES};
    lmi_vec_init(&l.at, sizeof(lmi_diff_line));
    lam_status s = lmi_diff_list(&l, d, o->by, o->depth, e);
    if (s == LAM_OK) s = json ? lmi_diff_json(d, &l, to, e) : lmi_diff_text(d, &l, o, to, e);
    lmi_vec_free(&l.at);
    return s;
}
