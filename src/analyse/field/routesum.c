/* SPDX-License-Identifier: Apache-2.0
 *
 * How einsum maps positions: an axis leads to the axis of the result that has its letter, and is summed over
 * where there is none. */
#include "analyse/field/routearg.h"
#include "vocab/vocab.h"

/* einsum(equation, tensors) */
bool lmi_way_einsum(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    const lam_value *v = lmi_sig_value(s, 0);
    const lam_shape out = lmi_result_shape(s);
    const int32_t nth = nth_tensor(s, in), n = s->in[in].ndim;
    uint8_t own[LMI_EINSUM_AXES], result[LMI_EINSUM_AXES];
    lmi_einsum e;
    if (!v || v->type != LAM_TEXT || n > LMI_AXES || out.ndim > LMI_AXES || !lmi_einsum_read(v->text, &e) ||
        nth >= e.n || !lmi_einsum_label(&e.term[nth], n, own) ||
        !lmi_einsum_label(&e.result, out.ndim, result))
        return lmi_way_spread(a, s, in, r);
    to_all(r);
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; k < out.ndim; k++)
            if (own[i] == result[k]) r->to[i] = (int8_t)k;
    return true;
}
