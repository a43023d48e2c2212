/* SPDX-License-Identifier: Apache-2.0
 *
 * How totals grow with the sizes that a file leaves open, in words: "MACs 1.20 G + 4.10 G x batch". */
#include "report/table/report.h"

/* A number without its sign. */
static lam_count amount(int64_t n) {
    return (lam_count){n == INT64_MIN ? INT64_MAX : n < 0 ? -n : n, 0, LAM_EXACT};
}

static void put_linear(lmi_buf *b, const lam_growth *g, lam_metric m, bool exact) {
    const int64_t each = g->metric[m].each, fixed = g->metric[m].fixed;
    if (fixed > 0) lmi_put_metric(b, amount(fixed), exact);
    if (fixed > 0 || each < 0) lmi_put(b, fixed <= 0 ? "-" : each < 0 ? " - " : " + ");
    lmi_put_metric(b, amount(each), exact);
    lmi_put(b, " x ");
    lmi_put_clean(b, g->size);
    if (fixed >= 0) return;
    lmi_put(b, " - ");
    lmi_put_metric(b, amount(fixed), exact);
}

/* True if it is told how the total grows: it may not depend on the size, or not be known anyway. */
static bool is_told(const lam_costs *c, const lam_growth *g, lam_metric m) {
    const lam_grows how = g->metric[m].how;
    if (!lmi_has_metric(c, m)) return false;
    if (how == LAM_GROWS_LINEAR) return g->metric[m].each != 0;
    return how != LAM_GROWS_UNKNOWN || lmi_total(c, m).state == LAM_EXACT;
}

/* True if neither MACs nor FLOPs are linear, and in the same way: that is then said once, of all metrics. */
static bool is_said_once(const lam_costs *c, const lam_growth *g) {
    return is_told(c, g, LAM_MACS) && is_told(c, g, LAM_FLOPS) &&
           g->metric[LAM_MACS].how != LAM_GROWS_LINEAR && g->metric[LAM_MACS].how == g->metric[LAM_FLOPS].how;
}

bool lmi_put_per(lmi_buf *b, const lam_costs *c, const lam_growth *g, lam_metric m, bool exact) {
    static const char *const names[LAM_N_METRICS] = {[LAM_MACS] = "MACs",
                                                     [LAM_FLOPS] = "FLOPs",
                                                     [LAM_BYTES_READ] = "bytes read",
                                                     [LAM_BYTES_WRITTEN] = "bytes written"};
    const bool once = is_said_once(c, g) && g->metric[m].how == g->metric[LAM_MACS].how;
    if (!names[m] || !is_told(c, g, m) || (once && m != LAM_MACS)) return false;
    if (!once) lmi_putf(b, "%s ", names[m]);
    if (g->metric[m].how == LAM_GROWS_LINEAR) {
        put_linear(b, g, m, exact);
    } else {
        lmi_put(b, g->metric[m].how == LAM_GROWS_OTHERWISE ? "not linear in " : "not known at another ");
        lmi_put_clean(b, g->size);
    }
    return true;
}
