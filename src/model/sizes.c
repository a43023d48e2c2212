/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes that the source of a model leaves open. */
#include "model/model.h"

lam_status lmi_model_open_size(lam_model *m, const char *name, int64_t value, int64_t least, int64_t most,
                               lam_error *e) {
    const lmi_open_size size = {.name = lmi_strdup(&m->arena, name),
                                .value = value,
                                .least = least,
                                .most = most};
    if (!size.name) return lmi_nomem(e);
    if (!m->open_sizes.size) lmi_vec_init(&m->open_sizes, sizeof size);
    return lmi_vec_put(&m->open_sizes, &size, e);
}
