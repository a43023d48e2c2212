/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of a saved report. One that lamina would not have written ends reading, with its place in the file.
 */
#include "report/saved/saved.h"

enum { LONGEST = 100 }; /* of a value's path in an error, in bytes */

lam_status lmi_saved_wrong(const lmi_saved *s, uint32_t at, const char *what) {
    lmi_buf where;
    lmi_buf_init(&where);
    if (at) lmi_json_put_path(&s->j, at, &where);
    if (where.n > LONGEST) {
        lmi_buf_clear(&where);
        lmi_putf(&where, "what is at byte %u", s->j.v[at].at);
    }
    lam_status status = lmi_buf_status(&where, s->e);
    if (status == LAM_OK)
        status = lmi_fail(s->e, LAM_FAILED, s->given.file,
                          "it is no report that lamina saved as JSON: %s%s%s; `lamina show TARGET --json -o "
                          "FILE` writes one",
                          lmi_buf_text(&where), where.n ? " " : "", what);
    lmi_buf_free(&where);
    return status;
}

static const char not_whole[] = "is no whole number of at least 0",
                  too_large[] = "is larger than any number that lamina writes";

static lam_status no_number(const lmi_saved *s, uint32_t at, double most) {
    double v;
    return lmi_saved_wrong(s, at, lmi_json_as_real(&s->j, at, &v) && v >= most ? too_large : not_whole);
}

lam_status lmi_saved_int(const lmi_saved *s, uint32_t at, int64_t *out) {
    *out = -1;
    if (!lmi_saved_has(s, at)) return LAM_OK;
    return lmi_json_as_int(&s->j, at, out) && *out >= 0 ? LAM_OK : no_number(s, at, 0x1p63);
}

lam_status lmi_saved_between(const lmi_saved *s, uint32_t at, int64_t least, int64_t most, const char *wrong,
                             int32_t *out) {
    int64_t n = -1;
    if (lmi_saved_has(s, at) && !lmi_json_as_int(&s->j, at, &n)) return lmi_saved_wrong(s, at, wrong);
    *out = (int32_t)n;
    return n >= least && n <= most ? LAM_OK : lmi_saved_wrong(s, at, wrong);
}

lam_status lmi_saved_small(const lmi_saved *s, uint32_t at, int32_t *out) {
    int64_t n;
    LAM_TRY(lmi_saved_int(s, at, &n));
    *out = n < 0 ? 0 : n > INT32_MAX ? INT32_MAX : (int32_t)n;
    return LAM_OK;
}

lam_status lmi_saved_real(const lmi_saved *s, uint32_t at, double otherwise, double *out) {
    *out = otherwise;
    if (!lmi_saved_has(s, at) || lmi_json_as_real(&s->j, at, out)) return LAM_OK;
    return lmi_saved_wrong(s, at, "is no number");
}

lam_status lmi_saved_truth(const lmi_saved *s, uint32_t at, bool *out) {
    *out = lmi_json_is(&s->j, at) == LMI_JSON_TRUE;
    if (lmi_json_is(&s->j, at) <= LMI_JSON_TRUE) return LAM_OK;
    return lmi_saved_wrong(s, at, "is neither true nor false");
}

lam_status lmi_saved_text(const lmi_saved *s, uint32_t at, const char **out) {
    *out = lmi_json_as_text(&s->j, at);
    return *out || !lmi_saved_has(s, at) ? LAM_OK : lmi_saved_wrong(s, at, "is no text");
}

lam_status lmi_saved_word(const lmi_saved *s, uint32_t at, const char **out) {
    LAM_TRY(lmi_saved_text(s, at, out));
    if (!*out) *out = "";
    return LAM_OK;
}

lam_status lmi_saved_count(const lmi_saved *s, uint32_t at, lam_count *out) {
    const lmi_json *j = &s->j;
    uint32_t value = lmi_json_get(j, at, "value"), state = lmi_json_get(j, at, "state");
    lmi_int128 n = 0;
    int i = LAM_EXACT;
    *out = lmi_unknown();
    if (!lmi_saved_has(s, at)) return LAM_OK;
    if (lmi_json_is(j, at) != LMI_JSON_OBJECT) return lmi_saved_wrong(s, at, "is no number with its state");
    bool known = lmi_saved_has(s, value);
    if (known && (!lmi_json_as_wide(j, value, &n) || n < 0)) return no_number(s, value, 0x1p94);
    while (i <= LAM_UNKNOWN && !lmi_json_equals(j, state, lam_state_name((lam_state)i))) i++;
    if (i > LAM_UNKNOWN)
        return lmi_saved_wrong(s, state ? state : at, state ? "is no known state" : "has no state");
    if (known == (i == LAM_UNKNOWN))
        return lmi_saved_wrong(s, at, "has a value that does not go with its state");
    if (!known) return LAM_OK;
    *out = lmi_of_wide(n);
    out->state = (lam_state)i;
    return LAM_OK;
}

lam_status lmi_saved_phase(const lmi_saved *s, uint32_t at, uint8_t *out) {
    for (int p = 0; p < LAM_N_PHASES; p++)
        if (lmi_json_equals(&s->j, at, lam_phase_name((lam_phase)p))) return *out = (uint8_t)p, LAM_OK;
    return lmi_saved_wrong(s, at, at ? "is a phase that is not known" : "a part of it has no phase");
}

lam_held lmi_saved_held_of(const char *name) {
    int h = LAM_N_HELD - 1;
    while (h > LAM_HELD_OTHER && strcmp(name, lam_held_name((lam_held)h)) != 0) h--;
    return (lam_held)h;
}

lam_status lmi_saved_place(const lmi_saved *s, uint32_t at, int32_t *out) {
    const char *path = lmi_json_as_text(&s->j, at);
    LAM_TRY(lmi_model_index(s->m, s->e));
    *out = path ? lam_model_find(s->m, path) : -1;
    if (*out >= 0) return LAM_OK;
    return lmi_saved_wrong(s, at, at ? "is the path of no row" : "a part of it has no path");
}

lam_status lmi_saved_shown(const lmi_saved *s, uint32_t at, int32_t *out) {
    LAM_TRY(lmi_saved_place(s, at, out));
    *out = lmi_place_for(s->w->of_place, *out);
    return LAM_OK;
}

enum { MOST_SIZES = 64 }; /* no tensor of torch's has as many */

lam_status lmi_saved_shape(const lmi_saved *s, uint32_t at, lmi_arena *a, lam_shape *out) {
    const uint32_t n = lmi_json_size(&s->j, at);
    *out = (lam_shape){.ndim = -1};
    if (lmi_json_is(&s->j, at) != LMI_JSON_LIST) return LAM_OK;
    if (n > MOST_SIZES) return lmi_saved_wrong(s, at, "has too many sizes");
    int64_t *sizes = lmi_alloc(a, n, sizeof *sizes);
    if (!sizes) return lmi_nomem(s->e);
    *out = (lam_shape){(int32_t)n, sizes};
    LMI_JSON_EACH(&s->j, at, i) {
        if (!lmi_saved_has(s, i)) return lmi_saved_wrong(s, i, not_whole);
        LAM_TRY(lmi_saved_int(s, i, sizes++));
    }
    return LAM_OK;
}

lam_status lmi_saved_list(const lmi_saved *s, uint32_t list, size_t size, int32_t *n, void *out) {
    void *room = lmi_alloc(&s->w->o->arena, lmi_saved_size(s, list), size);
    if (!room) return lmi_nomem(s->e);
    *n = (int32_t)lmi_saved_size(s, list); /* no text has as many values as 2^31 */
    memcpy(out, &room, sizeof room);
    return LAM_OK;
}
