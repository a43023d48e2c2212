/* SPDX-License-Identifier: Apache-2.0
 *
 * When the memory of a dry run's tensors would be allocated and freed. */
#include "model/builder.h"

lam_status lam_build_lifetime(lam_builder *b, const lam_lifetime *l, lam_error *e) {
    static const char what[] = "the operator of a lifetime";
    LAM_TRY(lmi_needs(b, "builder", e));
    LAM_TRY(lmi_needs(l, "lifetime", e));
    if (l->what == LAM_TAKEN_STATE && l->tensor != -1)
        LAM_TRY(lmi_in_range(&b->tensors, l->tensor, "the parameter of a lifetime", e));
    if (l->made != -1) LAM_TRY(lmi_in_range(&b->ops, l->made, what, e));
    if (l->freed != -1) LAM_TRY(lmi_in_range(&b->ops, l->freed, what, e));
    if (l->bytes < 0 || (l->freed != -1 && l->freed < l->made))
        return lmi_fail(e, LAM_RANGE, "a lifetime", "it has %lld bytes, from operator %d to %d",
                        (long long)l->bytes, (int)l->made, (int)l->freed);
    return lmi_push_sized(b, &b->lifetimes, "lifetimes", l, sizeof *l, LMI_MOST_OPS, e);
}

int32_t lam_model_n_lifetimes(const lam_model *m) { return m->n_lifetimes; }
const lam_lifetime *lam_model_lifetime(const lam_model *m, int32_t i) {
    return i >= 0 && i < m->n_lifetimes ? &m->lifetimes[i] : NULL;
}

lam_status lam_build_step(lam_builder *b, const char *name, int32_t op, bool decided, lam_error *e) {
    LAM_TRY(lmi_needs(b, "builder", e));
    LAM_TRY(lmi_needs(name, "optimizer", e));
    if (op < 0 || op > (int32_t)b->ops.n)
        return lmi_fail(e, LAM_RANGE, "a step", "it begins with operator %d of %zu", (int)op, b->ops.n);
    b->optimizer = lmi_strdup(&b->arena, name);
    b->step = op;
    b->decided = decided;
    return b->optimizer ? LAM_OK : lmi_nomem(e);
}

lam_status lam_build_more(lam_builder *b, const char *why, lam_error *e) {
    LAM_TRY(lmi_needs(b, "builder", e));
    LAM_TRY(lmi_needs(why, "reason", e));
    b->more = lmi_strdup(&b->arena, why);
    return b->more ? LAM_OK : lmi_nomem(e);
}
