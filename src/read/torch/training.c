/* SPDX-License-Identifier: Apache-2.0
 *
 * What the checkpoint of a training has beside the tensors of one model: shapes of weights that are in other
 * files, as DeepSpeed saves a model that is split over processes, and the model a second time, as an average.
 */
#include "read/torch/checkpoint.h"

#include <stdio.h>

enum { MOST_PARTS = 8 };

/* -- weights in other files ------------------------------------------------------------------------------ */

/* Gives an empty tensor the shape that the file has for it; *taken is true if it did. */
static lam_status take_shape(lmi_tensors *t, const lmi_pickle *p, int32_t id, int32_t shape, bool *taken,
                             lam_error *e) {
    lmi_stored_tensor *x = id < 0 ? NULL : lmi_tensors_at(t, id);
    int64_t sizes[LMI_MOST_AXES], numel = 0;
    int32_t n = 0;
    *taken = x && x->numel == 0 && lam_dtype_bits(x->dtype) > 0 && lmi_torch_sizes(p, shape, sizes, &n) &&
             lmi_product(sizes, n, &numel) && numel > 0 && numel <= INT64_MAX / lam_dtype_bits(x->dtype);
    if (!*taken) return LAM_OK;
    x->sizes = lmi_copy(&t->arena, sizes, (uint64_t)n, sizeof *sizes);
    if (!x->sizes) return lmi_nomem(e);
    x->ndim = n;
    x->numel = numel;
    x->bytes = (numel * lam_dtype_bits(x->dtype) + 7) / 8;
    x->same = x->file = -1; /* of the empty tensors themselves nothing is left */
    x->unread = "its values are in another file";
    x->raw = (lmi_raw){x->type, x->dtype, x->ndim, x->sizes, x->numel, x->bytes};
    return LAM_OK;
}

static lam_status take_shapes(lmi_tensors *t, const lmi_pickle *p, int32_t dict, int32_t *taken,
                              lam_error *e) {
    lmi_buf name;
    lam_status s = LAM_OK;
    const lmi_pickled kind = lmi_pickled_at(p, dict)->kind;
    if (kind != LMI_PICKLED_DICT && kind != LMI_PICKLED_CALL) return LAM_OK;
    lmi_buf_init(&name);
    for (int32_t c = lmi_pickled_items_of(p, dict).first; s == LAM_OK && c >= 0;) {
        const lmi_pickled_cell *key = lmi_pickled_cell_at(p, c);
        const char *text = lmi_pickled_text(p, key->value);
        bool one = false;
        if (key->next < 0) break;
        lmi_buf_clear(&name);
        lmi_putf(&name, "module.%s", text ? text : "");
        s = lmi_buf_status(&name, e);
        if (s == LAM_OK && text)
            s = take_shape(t, p, lmi_tensors_find(t, name.s), lmi_pickled_cell_at(p, key->next)->value, &one,
                           e);
        *taken += one;
        c = lmi_pickled_cell_at(p, key->next)->next;
    }
    lmi_buf_free(&name);
    return s;
}

lam_status lmi_torch_split(lmi_tensors *t, const lmi_pickle *p, lam_error *e) {
    const int32_t groups = lmi_pickled_get(p, p->root, "param_shapes");
    int32_t taken = 0;
    if (groups < 0 || lmi_pickled_at(p, groups)->kind != LMI_PICKLED_LIST) return LAM_OK;
    for (int32_t c = lmi_pickled_items_of(p, groups).first; c >= 0; c = lmi_pickled_cell_at(p, c)->next)
        LAM_TRY(take_shapes(t, p, lmi_pickled_cell_at(p, c)->value, &taken, e));
    if (!taken) return LAM_OK;
    return lmi_tensors_note(t, e, "the values of %d tensor%s are in other files: %s here", (int)taken,
                            taken == 1 ? "" : "s", taken == 1 ? "its shape is" : "their shapes are");
}

/* -- the same model twice -------------------------------------------------------------------------------- */

/* The tensors of a part, and how many bytes of their names are before the names in the model. */
typedef struct range {
    int32_t from, n;
    size_t stem;
} range;

/* Torch's AveragedModel counts its updates in a tensor and has the model under "module", as DataParallel
 * does. */
static range range_of(const lmi_tensors *t, const lmi_torch_part *part, int32_t end) {
    static const char counter[] = ".n_averaged", wrapped[] = ".module.";
    range r = {part->from, end - part->from, strlen(part->name)};
    bool all = true;
    for (int32_t i = r.from; i < end; i++) /* the name of an only part is taken from those of its tensors */
        if (strncmp(lmi_tensors_at(t, i)->name, part->name, r.stem) != 0) return (range){0};
    if (r.n > 1 && strcmp(lmi_tensors_at(t, r.from)->name + r.stem, counter) == 0) {
        r.from++;
        r.n--;
    }
    for (int32_t i = r.from; all && i < end; i++)
        all = strncmp(lmi_tensors_at(t, i)->name + r.stem, wrapped, sizeof wrapped - 1) == 0;
    if (all) r.stem += sizeof wrapped - 2;
    return r;
}

/* True if two ranges of tensors have the same names behind those of their parts, and the same shapes. */
static bool are_alike(const lmi_tensors *t, range a, range b) {
    for (int32_t i = 0; i < a.n; i++) {
        const lmi_stored_tensor *x = lmi_tensors_at(t, a.from + i), *y = lmi_tensors_at(t, b.from + i);
        if (y->same >= 0 || x->ndim != y->ndim || x->ndim < 0) return false;
        if (strcmp(x->name + a.stem, y->name + b.stem) != 0) return false;
        if (x->ndim && memcmp(x->sizes, y->sizes, (size_t)x->ndim * sizeof *x->sizes) != 0) return false;
    }
    return a.n > 1;
}

lam_status lmi_torch_twice(lmi_tensors *t, const lmi_vec *parts, lam_error *e) {
    const lmi_torch_part *at = parts->data;
    range of[MOST_PARTS];
    if (parts->n > MOST_PARTS) return LAM_OK;
    for (size_t k = 0; k < parts->n; k++) {
        if (!at[k].name) continue;
        of[k] = range_of(t, &at[k], k + 1 < parts->n ? at[k + 1].from : lmi_tensors_n(t));
        for (size_t i = 0; i < k; i++) {
            if (!at[i].name || of[i].n != of[k].n || !are_alike(t, of[i], of[k])) continue;
            LAM_TRY(lmi_tensors_note(t, e,
                                     "the tensors under '%.100s' have the names and shapes of those under "
                                     "'%.100s', and both count",
                                     at[k].name, at[i].name));
            break;
        }
    }
    return LAM_OK;
}
