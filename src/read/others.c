/* SPDX-License-Identifier: Apache-2.0
 *
 * A file that leaves sizes open, read again with other values of each: how totals grow is found by counting,
 * so that nothing behind the readers knows of symbols. */
#include "model/model.h"
#include "read/onnx/onnx.h"
#include "read/pt2/pt2.h"
#include "read/read.h"

enum {
    MOST_SIZES = 4,     /* that are read with other values */
    MOST_OPS = 100000,  /* of all these models together */
    WITHOUT_A_VALUE = 2 /* where the values begin of a size that has none */
};

static bool is_new(const lmi_open_size *s, int64_t value) {
    bool found = value == s->value;
    for (int32_t k = 0; k < s->n_others; k++) found = found || s->other[k] == value;
    return !found;
}

/* Chooses other values: one beside its own and one far from it, or three if it has none. Smaller ones come
 * first, since a file may have constants that bound a size and not say so; but sizes of 0 and 1 are treated
 * in another way by some operators. */
static void choose(lmi_open_size *s) {
    const int64_t v = s->value < 0 ? WITHOUT_A_VALUE : s->value;
    const int64_t tries[] = {v < 4 ? v + 1 : v - 1, v < 4 ? 2 * v + 2 : v / 2, v + 1, v + 2, v - 1, v - 2};
    const int32_t wanted = s->value < 0 ? LMI_OTHER_SIZES : LMI_OTHER_SIZES - 1;
    if (v >= INT64_MAX / 4) return;
    if (s->value < 0 && v >= s->least && v <= s->most) s->other[s->n_others++] = v;
    for (size_t i = 0; i < sizeof tries / sizeof *tries && s->n_others < wanted; i++)
        if (tries[i] > 0 && tries[i] >= s->least && tries[i] <= s->most && is_new(s, tries[i]))
            s->other[s->n_others++] = tries[i];
    if (s->n_others < wanted) s->n_others = 0;
}

/* Reads the model with the k-th other value. A model that the file does not make at that value is none. */
static lam_status read_other(lmi_open_size *s, int32_t k, const lmi_bytes *of, lmi_format format,
                             const lam_read_options *o, lam_error *e) {
    const lam_read_size other = {s->name, s->other[k]};
    lam_error mine = {.at = -1};
    lam_status status = format == LMI_ONNX ? lmi_onnx_model_of(&s->at[k], of, o, &other, &mine)
                                           : lmi_pt2_read(of, NULL, o, &other, &s->at[k], &mine);
    if (status == LAM_OK) return LAM_OK;
    s->at[k] = NULL;
    if (status == LAM_NOMEM) return lmi_nomem(e);
    return status == LAM_IO ? lmi_fail(e, status, mine.where, "%s", mine.text) : LAM_OK;
}

lam_status lmi_read_others(lam_model *m, const lmi_bytes *of, lmi_format format, const lam_read_options *o,
                           lam_error *e) {
    const int32_t n = (int32_t)m->open_sizes.n;
    int32_t unknown = 0, read = 0;
    int64_t ops = 0;
    if (format != LMI_ONNX && format != LMI_PT2) return LAM_OK;
    for (int32_t i = 0; i < n; i++) unknown += lmi_open_size_at(m, (size_t)i)->value < 0;
    for (int32_t i = 0; i < n && read < MOST_SIZES; i++) {
        lmi_open_size *s = lmi_open_size_at(m, (size_t)i);
        /* A total depends on every size, so that it is not known while another one has no value. */
        if (unknown > (s->value < 0)) continue;
        choose(s);
        ops += (int64_t)s->n_others * (m->n_ops + m->n_events + m->n_modules);
        if (ops > MOST_OPS) s->n_others = 0;
        for (int32_t k = 0; k < s->n_others; k++) LAM_TRY(read_other(s, k, of, format, o, e));
        read++;
    }
    return LAM_OK;
}
