/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of tensors that describe others. How many bits a weight takes, and which share of the weights is of
 * which type. */
#include "read/tensors/tensors.h"

#include <stdlib.h>

enum { TYPES_SHOWN = 6, MOST_TOLD = 1 << 14, TWO_WIDE = 16, TWO_NARROW = 8 };

/* -- values ---------------------------------------------------------------------------------------------- */

bool lmi_may_tell(const lmi_stored_tensor *x) {
    if (x->bytes < 0 || x->bytes > MOST_TOLD) return false;
    const char *type = lam_dtype_name(x->dtype);
    return (x->bytes == TWO_WIDE && strcmp(type, "int64") == 0) ||
           (x->bytes == TWO_NARROW && strcmp(type, "int32") == 0) || strcmp(type, "uint8") == 0;
}

lam_status lmi_tensors_values(lmi_tensors *t, lmi_stored_tensor *x, const lmi_bytes *of, lam_error *e) {
    if (!x->placed || x->strides || !lmi_may_tell(x)) return LAM_OK;
    if (strcmp(lam_dtype_name(x->dtype), "uint8") == 0) {
        if (!strstr(x->name, ".weight.quant_state.")) return LAM_OK;
        char *text = lmi_alloc(&t->arena, (uint64_t)x->bytes + 1, 1);
        if (!text) return lmi_nomem(e);
        x->text = text;
        return lmi_bytes_read(of, x->at, text, (size_t)x->bytes, e);
    }
    unsigned char two[TWO_WIDE];
    const bool wide = x->bytes == TWO_WIDE;
    if (!lmi_ends_in(x->name, ".weight_shape") && !lmi_ends_in(x->name, ".shape")) return LAM_OK;
    LAM_TRY(lmi_bytes_read(of, x->at, two, (size_t)x->bytes, e));
    for (int i = 0; i < 2; i++)
        x->shape[i] = wide ? (int64_t)lmi_le64(two + 8 * i) : (int64_t)(int32_t)lmi_le32(two + 4 * i);
    return LAM_OK;
}

/* -- sentences ------------------------------------------------------------------------------------------- */

typedef struct share {
    const char *type;
    lmi_int128 numel, bytes;
} share;

static int by_numel(const void *a, const void *b) {
    const share *x = a, *y = b;
    return (y->numel > x->numel) - (y->numel < x->numel);
}

/* `last`: the share of the tensor before, whose type most have too. */
static bool add(lmi_vec *all, lmi_map *known, const lmi_stored_tensor *x, int64_t *last) {
    const share *before = lmi_vec_at(all, (size_t)*last);
    int64_t i = before && before->type == x->type ? *last : lmi_map_get(known, x->type);
    if (i < 0) {
        const share fresh = {.type = x->type};
        i = (int64_t)all->n;
        if (lmi_vec_put(all, &fresh, NULL) != LAM_OK || lmi_map_put(known, x->type, i, NULL) != LAM_OK)
            return false;
    }
    share *s = lmi_vec_at(all, (size_t)(*last = i));
    s->numel += x->numel;
    s->bytes += x->bytes;
    return true;
}

static void put(lmi_buf *b, share *all, size_t n) {
    share sum = {0};
    qsort(all, n, sizeof *all, by_numel);
    for (size_t i = 0; i < n; i++) {
        sum.numel += all[i].numel;
        sum.bytes += all[i].bytes;
    }
    if (sum.numel == 0) return;
    lmi_put_digits(b, 8 * (double)sum.bytes / (double)sum.numel);
    lmi_put(b, " bits a weight: ");
    if (n == 1) {
        lmi_putf(b, "all %s", all->type);
        return;
    }
    for (size_t i = 0; i < n && i < TYPES_SHOWN; i++) {
        lmi_putf(b, "%s%s ", i ? ", " : "", all[i].type);
        lmi_put_percent(b, (double)all[i].numel, (double)sum.numel, &lmi_plain);
    }
    if (n > TYPES_SHOWN) lmi_putf(b, " and %zu more types", n - TYPES_SHOWN);
}

const char *lmi_tensors_mix(lmi_tensors *t) {
    lmi_vec all;
    lmi_map known;
    lmi_buf text;
    bool ok = true, whole = true;
    int64_t last = 0;
    lmi_vec_init(&all, sizeof(share));
    lmi_map_init(&known);
    lmi_buf_init(&text);
    for (int32_t i = 0; ok && whole && i < lmi_tensors_n(t); i++) {
        const lmi_stored_tensor *x = lmi_tensors_at(t, i);
        if (x->in >= 0 || x->same >= 0 || lmi_is_buffer(x)) continue;
        whole = x->numel >= 0; /* of an unknown number of weights no share is known */
        if (x->numel > 0 && x->bytes >= 0) ok = add(&all, &known, x, &last);
    }
    if (ok && whole && all.n) put(&text, all.data, all.n);
    const char *out = ok ? lmi_buf_keep(&text, &t->arena) : NULL;
    if (!ok) lmi_buf_free(&text);
    lmi_vec_free(&all);
    lmi_map_free(&known);
    return out;
}
