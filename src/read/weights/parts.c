/* SPDX-License-Identifier: Apache-2.0
 *
 * The tensors that hold a packed weight, and whether the values of a tensor can be read. */
#include "read/weights/unpack.h"

#include <stdio.h>
#include <stdlib.h>

const char *lmi_unread(const lmi_stored_tensor *x) {
    if (x->raw.numel == 0) return NULL;
    if (x->unread) return x->unread;
    return x->file < 0 || x->raw.numel < 0 || x->raw.bytes < 0 ? "its values are in no file that is read"
                                                               : NULL;
}

const lmi_stored_tensor *lmi_part(const lmi_tensors *t, const lmi_stored_tensor *x, const char *tail,
                                  const char *end) {
    char name[1024];
    const size_t n = strlen(x->name), less = strlen(tail);
    if (n < less || strcmp(x->name + n - less, tail) != 0) return NULL;
    const int all = snprintf(name, sizeof name, "%.*s%s", (int)(n - less), x->name, end);
    const int32_t i = (size_t)all < sizeof name ? lmi_tensors_find(t, name) : -1;
    return i < 0 ? NULL : lmi_tensors_at(t, i);
}

bool lmi_part_is_plain(const lmi_stored_tensor *x) {
    return x && !lmi_unread(x) && !x->strides && x->raw.ndim >= 0 && x->raw.numel > 0;
}

lam_status lmi_part_read(const lmi_tensors *t, const lmi_stored_tensor *x, uint64_t at, void *to, size_t n,
                         lam_error *e) {
    const lmi_bytes *file = lmi_vec_at(&t->files, (size_t)x->file);
    return lmi_bytes_read(file, x->at + at, to, n, e);
}

lam_status lmi_part_take(const lmi_tensors *t, const lmi_stored_tensor *x, unsigned char **to, lam_error *e) {
    const size_t n = (size_t)x->raw.numel * (size_t)lmi_stored_type_of(x).bytes;
    *to = malloc(n);
    return *to ? lmi_part_read(t, x, 0, *to, n, e) : lmi_nomem(e);
}

lam_status lmi_part_groups(const lmi_tensors *t, const lmi_stored_tensor *index, const unsigned char *bytes,
                           int64_t groups, lam_error *e) {
    for (int64_t i = 0; i < index->raw.numel; i++) {
        const uint32_t group = lmi_le32(bytes + 4 * i);
        const lmi_bytes *file = lmi_vec_at(&t->files, (size_t)index->file);
        const uint64_t at = index->at + 4 * (uint64_t)i;
        if (group >= groups)
            return lmi_fail_at(e, LAM_SYNTAX, (int64_t)at, file->name,
                               "it is damaged: in %.200s input %lld is of group %d, and there are %lld, at "
                               "byte %llu of the file",
                               index->name, (long long)i, (int)group, (long long)groups,
                               (unsigned long long)at);
    }
    return LAM_OK;
}
