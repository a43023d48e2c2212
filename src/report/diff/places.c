/* SPDX-License-Identifier: Apache-2.0
 *
 * A place of both, before and after: its path, its type, its tensors. */
#include "report/diff/diff.h"

int32_t lmi_diff_at(const lam_diff *d, int side, int32_t place) {
    return side ? d->both.now_at[place] : d->both.was_at[place];
}

const lmi_outline_place *lmi_diff_outlined(const lam_diff *d, int side, int32_t place) {
    int32_t at = lmi_diff_at(d, side, place);
    return at < 0 ? NULL : &d->side[side].o.at[at];
}

void lmi_diff_path(const lam_diff *d, int side, int32_t place, lmi_buf *out) {
    lmi_outline_path(&d->side[side].o, lmi_diff_at(d, side, place), out);
}
