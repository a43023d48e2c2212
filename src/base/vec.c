/* SPDX-License-Identifier: Apache-2.0
 *
 * A growable array, and the order and the median of an array of numbers. */
#include "base/base.h"

#include <stdlib.h>

void lmi_vec_init(lmi_vec *v, size_t size) { *v = (lmi_vec){NULL, 0, 0, size}; }

void lmi_vec_free(lmi_vec *v) {
    free(v->data);
    lmi_vec_init(v, v->size);
}

void lmi_vec_clear(lmi_vec *v) { v->n = 0; }

/* Small arrays grow faster: moving them costs more than their unused memory. */
void *lmi_vec_grow(lmi_vec *v, size_t more) {
    enum { SMALL = 16 << 10 };
    size_t cap = 8, bytes, need;
    if (lmi_add_over(v->n, more, &need)) return NULL;
    if (v->cap && lmi_mul_over(v->cap, v->cap < SMALL / (v->size | 1) ? 4 : 2, &cap)) return NULL;
    if (cap < need) cap = need;
    if (lmi_mul_over(cap, v->size, &bytes)) return NULL;
    void *data = realloc(v->data, bytes);
    if (!data) return NULL;
    v->data = data;
    v->cap = cap;
    v->n = need;
    return (char *)data + (need - more) * v->size;
}

lam_status lmi_vec_reserve(lmi_vec *v, size_t more, lam_error *e) {
    if (!lmi_vec_add(v, more)) return lmi_nomem(e);
    v->n -= more;
    return LAM_OK;
}

void *lmi_vec_push(lmi_vec *v) {
    void *p = lmi_vec_add(v, 1);
    if (p) memset(p, 0, v->size);
    return p;
}

void lmi_vec_pop(lmi_vec *v) {
    if (v->n > 0) v->n--;
}

void *lmi_vec_at(const lmi_vec *v, size_t i) { return i < v->n ? (char *)v->data + i * v->size : NULL; }

int lmi_by_size(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int64_t lmi_median(int64_t *v, size_t n) {
    qsort(v, n, sizeof *v, lmi_by_size);
    int64_t low = v[(n - 1) / 2], high = v[n / 2];
    return low + (high - low) / 2;
}
