/* SPDX-License-Identifier: Apache-2.0
 * facts_window: the windows of pooling layers, including their parts out of bounds; facts_extra.c has the
 * parts in bounds. */
#include "count/layers/layers.h"

/* torchscan uses one size for every window of an adaptive pool: in / out if that is whole, else in mod
 * out + 1. */
static int64_t torchscan_axis(int64_t in, int64_t out) {
    if (in < 0 || out < 1) return -1;
    return in % out == 0 ? in / out : in % out + 1;
}

static void adaptive(lam_shape x, lam_shape y, int32_t rank, lmi_facts *f) {
    int64_t awin = 1, awin_x2 = x.ndim > 2 ? 1 : -1;
    for (int32_t i = -rank; i < 0; i++)
        awin = lmi_times(awin, torchscan_axis(lmi_axis(x, i), lmi_axis(y, i)));
    for (int32_t i = 2; i < x.ndim; i++)
        awin_x2 = lmi_times(awin_x2, torchscan_axis(lmi_axis(x, i), lmi_axis(y, i)));
    lmi_fact_set(f, LMI_FACT_awin, awin);
    lmi_fact_set(f, LMI_FACT_awin_x2, awin_x2);
}

static void set_windows(const lam_value *kernel, int32_t dims, int32_t rank, lmi_facts *f) {
    int64_t written;
    bool listed = kernel && kernel->type == LAM_INTS;
    if (!listed)
        written = lmi_value_int(kernel, -1);
    else if (!lmi_product(kernel->ints, kernel->n, &written))
        written = -1;
    lmi_fact_set(f, LMI_FACT_win, lmi_window(kernel, rank));
    lmi_fact_set(f, LMI_FACT_win_as_written, written);
    lmi_fact_set(f, LMI_FACT_win_x2, listed ? written : dims > 2 ? lmi_window(kernel, dims - 2) : -1);
}

void lmi_facts_window(const lam_model *m, int32_t event, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    lam_shape x = lmi_input(m, event, s), y = lmi_output(m, event);
    int32_t rank = (int32_t)lmi_fact_get(f, LMI_FACT_rank); /* 1 to 3, as their names say */
    lmi_fact_set(f, LMI_FACT_isp, lmi_spatial(x, rank));
    lmi_fact_set(f, LMI_FACT_osp, lmi_spatial(y, rank));
    if (k == LMI_K_adaptive_max_pool || k == LMI_K_adaptive_avg_pool) {
        adaptive(x, y, rank, f);
        return;
    }
    set_windows(s->at[LMI_S_kernel].value, x.ndim, rank, f);
    /* Fractional windows are always in bounds. */
    if (k == LMI_K_fractional_max_pool)
        lmi_fact_set(f, LMI_FACT_covered, lmi_times(lmi_numel(y), lmi_fact_get(f, LMI_FACT_win)));
}
