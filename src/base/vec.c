/* SPDX-License-Identifier: Apache-2.0
 *
 * A growable array. */
#include "base/base.h"

#include <stdlib.h>

void lmi_vec_init(lmi_vec *v, size_t size) { *v = (lmi_vec){NULL, 0, 0, size}; }

void lmi_vec_free(lmi_vec *v) {
    free(v->data);
    lmi_vec_init(v, v->size);
}

/* Small arrays grow faster: moving them costs more than what they leave unused. */
static bool grow(lmi_vec *v) {
    enum { SMALL = 16 << 10 };
    size_t cap = v->cap ? v->cap : 8, bytes, times = v->cap < SMALL / (v->size | 1) ? 4 : 2;
    if (v->cap && lmi_mul_over(cap, times, &cap)) return false;
    if (lmi_mul_over(cap, v->size, &bytes)) return false;
    void *data = realloc(v->data, bytes);
    if (!data) return false;
    v->data = data;
    v->cap = cap;
    return true;
}

void *lmi_vec_push(lmi_vec *v) {
    if (v->n == v->cap && !grow(v)) return NULL;
    char *p = (char *)v->data + v->n * v->size;
    memset(p, 0, v->size);
    v->n++;
    return p;
}

void lmi_vec_pop(lmi_vec *v) {
    if (v->n > 0) v->n--;
}

void *lmi_vec_at(const lmi_vec *v, size_t i) { return i < v->n ? (char *)v->data + i * v->size : NULL; }
