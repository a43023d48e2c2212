/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts the scores of an attention that a mask in memory leaves, at the speed of memory: plain loops over
 * integers, which compilers vectorise. No number is interpreted: as integers, the bits of -Inf and of the
 * lowest finite number of a type are neighbours, so one comparison finds both. Also reads where groups end.
 */
#include "model/values.h"

typedef int64_t counter(const char *p, int64_t n, int64_t step, uint64_t lowest);

/* Elements of a block: their number fits into each of the types, and they fill whole vectors. */
enum { BLOCK = 224 };

#define COUNT(name, T, more)                                                                                 \
    static int64_t name(const char *p, int64_t n, int64_t step, uint64_t lowest) {                           \
        const T low = (T)lowest;                                                                             \
        int64_t open = 0;                                                                                    \
        if (step == (int64_t)sizeof(T)) {                                                                    \
            for (; n >= BLOCK; n -= BLOCK, p += BLOCK * sizeof(T)) {                                         \
                T some = 0;                                                                                  \
                for (size_t i = 0; i < BLOCK; i++) {                                                         \
                    T v;                                                                                     \
                    memcpy(&v, p + i * sizeof(T), sizeof v);                                                 \
                    some = (T)(some + ((T)(v - low) > (more)));                                              \
                }                                                                                            \
                open += (int64_t)some;                                                                       \
            }                                                                                                \
        }                                                                                                    \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            T v;                                                                                             \
            memcpy(&v, p + i * step, sizeof v);                                                              \
            open += (T)(v - low) > (more);                                                                   \
        }                                                                                                    \
        return open;                                                                                         \
    }
COUNT(of_bools, uint8_t, 0)
COUNT(of_halves, uint16_t, 1)
COUNT(of_singles, uint32_t, 1)
COUNT(of_doubles, uint64_t, 1)

/* Masking elements are `lowest` and, in types of numbers, the next one. */
static const struct form {
    int32_t dtype, bytes;
    uint64_t lowest;
    counter *count;
} forms[] = {
    {11, 1, 0, of_bools},                    /* bool */
    {5, 2, 0xFBFF, of_halves},               /* float16 */
    {15, 2, 0xFF7F, of_halves},              /* bfloat16 */
    {6, 4, 0xFF7FFFFF, of_singles},          /* float32 */
    {7, 8, 0xFFEFFFFFFFFFFFFFu, of_doubles}, /* float64 */
};

static const struct form *form_of(int32_t dtype) {
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (forms[i].dtype == dtype) return &forms[i];
    return NULL;
}

/* The axes that are walked before the last one, and how often all elements are repeated. */
typedef struct walk {
    int32_t n;
    int64_t size[LMI_MAX_AXES], step[LMI_MAX_AXES]; /* steps in bytes */
    int64_t times, wide, wide_step;                 /* wide, wide_step: of a row */
} walk;

static lam_status walk_of(const lam_values *v, int32_t bytes, walk *w, const char *where, lam_error *e) {
    int64_t step = bytes, all;
    *w = (walk){.times = 1, .wide = 1, .wide_step = bytes};
    if (v->ndim < 0 || v->ndim >= LMI_MAX_AXES)
        return lmi_fail(e, LAM_RANGE, where, "%d axes; there may be 0 to %d", v->ndim, LMI_MAX_AXES - 1);
    if (!lmi_product(v->sizes, v->ndim, &all) || lmi_mul_over(all, bytes, &all))
        return lmi_fail(e, LAM_RANGE, where, "the sizes are negative or too large");
    for (int32_t i = v->ndim - 1; i >= 0; i--) {
        int64_t size = v->sizes[i], own = step;
        if (v->strides && (v->strides[i] < 0 || lmi_mul_over(v->strides[i], bytes, &own)))
            return lmi_fail(e, LAM_RANGE, where, "a step is negative or too large");
        if (i == v->ndim - 1) {
            w->wide = size;
            w->wide_step = own;
        } else if (size == 0 || own == 0) {
            w->times *= size;
        } else if (size > 1) {
            w->size[w->n] = size;
            w->step[w->n++] = own;
        }
        step *= size ? size : 1;
    }
    if (w->times && w->wide && !v->data)
        return lmi_fail(e, LAM_USAGE, where, "there is no memory to look at");
    return LAM_OK;
}

static void count_row(const walk *w, const struct form *f, const char *p, lam_mask *out) {
    const bool same = w->wide_step == 0; /* one element, repeated */
    int64_t open = f->count(p, same ? 1 : w->wide, w->wide_step, f->lowest);
    out->open += same ? open * w->wide : open;
    out->rows += open > 0;
}

lam_status lam_values_mask(const lam_values *v, lam_mask *out, lam_error *e) {
    walk w;
    int64_t at[LMI_MAX_AXES] = {0};
    *out = (lam_mask){0};
    const struct form *f = form_of(v->dtype);
    if (!f)
        return lmi_fail(e, LAM_UNSUPPORTED, "lam_values_mask", "no mask has scalar type %d", (int)v->dtype);
    LAM_TRY(walk_of(v, f->bytes, &w, "lam_values_mask", e));
    if (w.times == 0 || w.wide == 0) return LAM_OK;
    for (const char *p = v->data;;) {
        count_row(&w, f, p, out);
        int32_t i = 0; /* begins with the axis next to the last one */
        for (; i < w.n; i++) {
            p += w.step[i];
            if (++at[i] < w.size[i]) break;
            p -= at[i] * w.step[i];
            at[i] = 0;
        }
        if (i == w.n) break;
    }
    out->open *= w.times;
    out->rows *= w.times;
    return LAM_OK;
}

/* -- ends of groups -------------------------------------------------------------------------------- */

static int64_t end_at(const char *p, int32_t bytes) {
    int32_t few;
    int64_t many;
    memcpy(&few, p, sizeof few);
    if (bytes == sizeof few) return few;
    memcpy(&many, p, sizeof many);
    return many;
}

lam_status lam_values_ends(const lam_values *v, lam_mask *out, lam_error *e) {
    enum { INT32 = 3, INT64 = 4 };
    const int32_t bytes = v->dtype == INT32 ? 4 : 8;
    walk w = {0};
    *out = (lam_mask){0};
    bool ends = (v->dtype == INT32 || v->dtype == INT64) && v->ndim == 1;
    if (ends) LAM_TRY(walk_of(v, bytes, &w, "lam_values_ends", e));
    for (int64_t i = 0; ends && i < w.wide; i++) {
        int64_t end = end_at((const char *)v->data + i * w.wide_step, bytes);
        out->rows += end > out->open;
        ends = end >= out->open;
        out->open = end;
    }
    if (ends) return LAM_OK;
    *out = (lam_mask){0};
    return lmi_fail(e, LAM_UNSUPPORTED, "lam_values_ends", "these values are no ends of groups");
}
