/* SPDX-License-Identifier: Apache-2.0
 *
 * The values of packed weights, by the way in which they are packed. */
#include "read/weights/unpack.h"

static lam_status find_way(lmi_unpack **out, const lmi_tensors *t, const lmi_stored_tensor *x, lam_error *e) {
    *out = NULL;
    if (!x->packed || x->ndim < 1 || x->numel < 1) return LAM_OK;
    LAM_TRY(lmi_unpack_columns(out, t, x, e));
    return *out ? LAM_OK : lmi_unpack_rows(out, t, x, e);
}

lam_status lmi_can_unpack(const lmi_tensors *t, const lmi_stored_tensor *x, bool *can, lam_error *e) {
    lmi_unpack *u;
    lam_status s = find_way(&u, t, x, e);
    *can = s == LAM_OK && u;
    lmi_unpack_free(u);
    return s;
}

lam_status lmi_unpack_open(lmi_unpack **out, const lmi_tensors *t, const lmi_stored_tensor *x, lam_error *e) {
    LAM_TRY(find_way(out, t, x, e));
    if (!*out) return lmi_fail(e, LAM_UNSUPPORTED, x->name, "its values can't be computed");
    return (*out)->prepare(*out, e);
}

lam_status lmi_unpack_read(lmi_unpack *u, int64_t from, int64_t n, double *to, lam_error *e) {
    return u->read(u, from, n, to, e);
}

void lmi_unpack_free(lmi_unpack *u) {
    if (u) u->free(u);
}
