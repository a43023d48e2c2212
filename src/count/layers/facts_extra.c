/* SPDX-License-Identifier: Apache-2.0
 * facts_extra: further facts for lamina's own rules of dense, window and attention kinds: the elements that
 * are really read. */
#include "count/layers/sweep.h"

/* Padding that copies values of the input may read elements that no window reaches, so if windows leave out
 * some elements, the fact `touched` is unknown. */
static bool copies_padding(const lmi_slots *s) {
    const lam_value *v = s->at[LMI_S_pad_mode].value;
    return v && v->type == LAM_TEXT && strcmp(v->text, "zeros") != 0;
}

static void windows(lam_shape x, lam_shape y, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    bool adaptive = k == LMI_K_adaptive_max_pool || k == LMI_K_adaptive_avg_pool;
    int32_t rank = (int32_t)lmi_fact_get(f, LMI_FACT_rank);
    lmi_swept all;
    if (!lmi_sweep_axes(adaptive, s, x, y, rank, &all)) return;
    int64_t n = lmi_axes(x, 0, x.ndim - rank); /* batch and channels, if present */
    lmi_fact_set(f, LMI_FACT_covered, lmi_times(n, all.covered));
    lmi_fact_set(f, LMI_FACT_windows, lmi_times(n, all.windows));
    int64_t touched = lmi_times(n, all.touched);
    if (!copies_padding(s) || touched == lmi_numel(x)) lmi_fact_set(f, LMI_FACT_touched, touched);
}

static void spread(lmi_facts *f) {
    int64_t channels = lmi_fact_get(f, LMI_FACT_out_channels), groups = lmi_fact_get(f, LMI_FACT_groups);
    if (groups > 0 && channels >= 0)
        lmi_fact_set(f, LMI_FACT_spread, lmi_times(channels / groups, lmi_fact_get(f, LMI_FACT_win)));
}

/* True if an earlier input has the same memory and sizes, and so is the same tensor: x attends to x and x. */
static bool given_before(const lam_event *ev, int32_t i) {
    const lam_arg *a = &ev->in[i];
    for (int32_t j = 0; j < i; j++) {
        const lam_arg *b = &ev->in[j];
        if (a->storage && a->storage == b->storage && a->ndim == b->ndim &&
            !memcmp(a->sizes, b->sizes, (size_t)a->ndim * sizeof *a->sizes))
            return true;
    }
    return false;
}

static int64_t once(const lam_event *ev) {
    enum { MANY = 32 }; /* more inputs than any layer has; comparing them all would take too long */
    int64_t sum = ev->n_in > MANY ? -1 : 0;
    for (int32_t i = 0; i < ev->n_in && sum >= 0; i++) {
        int64_t n = lmi_numel((lam_shape){ev->in[i].ndim, ev->in[i].sizes});
        if (n < 0 || !given_before(ev, i)) sum = lmi_plus(sum, n);
    }
    return sum;
}

void lmi_facts_extra(const lam_model *m, int32_t event, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    bool slides =
        lmi_kind_family(k) == LMI_F_window && k != LMI_K_max_unpool && k != LMI_K_fractional_max_pool;
    lmi_fact_set(f, LMI_FACT_in_once, once(lam_model_event(m, event)));
    if (k == LMI_K_conv_transpose) spread(f);
    if (k == LMI_K_conv || slides) windows(lmi_input(m, event, s), lmi_output(m, event), k, s, f);
}
