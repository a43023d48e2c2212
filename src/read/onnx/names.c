/* SPDX-License-Identifier: Apache-2.0
 *
 * Values by their names, and what is wrong with a file. */
#include "read/onnx/reader.h"

#include <stdio.h>

lam_status lmi_onnx_bad(const lmi_onnx_reader *r, uint64_t at, lam_error *e, const char *fmt, ...) {
    char text[240];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return lmi_fail(e, LAM_SYNTAX, r->m->file->name, "it is damaged: %s (at byte %llu)", text,
                    (unsigned long long)at);
}

/* Values and nodes are larger than what a file needs to name them: the memory that they take is bounded too.
 */
lam_status lmi_onnx_room(const lmi_onnx_reader *r, lam_error *e) {
    const lmi_onnx_model *m = r->m;
    const uint64_t used =
        m->values.n * (sizeof(lmi_onnx_value) + sizeof(lmi_onnx_naming)) + m->nodes.n * sizeof(lmi_onnx_node);
    if (used < m->arena.limit) return LAM_OK;
    return lmi_fail(e, LAM_LIMIT, m->file->name,
                    "it has more nodes and names than a file of its size is read for");
}

lam_status lmi_onnx_new_value(lmi_onnx_reader *r, const char *name, int32_t *out, lam_error *e) {
    const lmi_onnx_value fresh = {.name = name, .ndim = -1, .producer = -1};
    const lmi_onnx_naming plain = {.same = -1};
    *out = (int32_t)r->m->values.n;
    LAM_TRY(lmi_onnx_room(r, e));
    LAM_TRY(lmi_vec_put(&r->m->values, &fresh, e));
    return lmi_vec_put(&r->namings, &plain, e);
}

lam_status lmi_onnx_name(lmi_onnx_reader *r, lmi_onnx_scope *s, const char *name, int32_t *out,
                         lam_error *e) {
    const int64_t known = *name ? lmi_map_get(&s->names, name) : -1;
    *out = (int32_t)known;
    if (known >= 0 || !*name) return LAM_OK;
    LAM_TRY(lmi_onnx_new_value(r, name, out, e));
    return lmi_map_put(&s->names, name, *out, e);
}
