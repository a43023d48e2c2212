/* SPDX-License-Identifier: Apache-2.0
 *
 * The share of the device's peak that the steps of a model reach, in words. */
#include "report/recorded/recorded.h"

#include <math.h>

const char *lmi_used_why(const lam_utilization *u) {
    if (u->flops < 0) return u->why;
    return isnan(u->mfu) && u->why_peak ? u->why_peak : u->why;
}

static void put_si(lmi_buf *b, double v, const char *unit) {
    const char *prefix;
    const double scaled = lmi_unit_scale(v, &prefix);
    lmi_put_digits(b, scaled);
    lmi_putf(b, " %s%s", prefix, unit);
}

static void put_share(lmi_buf *b, const char *what, double share, bool at_least) {
    lmi_putf(b, "%s %s", what, at_least ? ">= " : "");
    lmi_put_share_of_peak(b, share);
}

void lmi_put_share_of_peak(lmi_buf *b, double share) {
    if (isnan(share))
        lmi_putc(b, '?');
    else
        lmi_putf(b, "%.3g %%", 100 * share);
}

void lmi_put_used(lmi_buf *b, const lam_utilization *u) {
    const char *why = lmi_used_why(u);
    put_share(b, "MFU", u->mfu, u->at_least && !isnan(u->mfu));
    if (!isnan(u->hfu)) put_share(b, ", HFU", u->hfu, u->at_least);
    if (!isnan(u->mfu)) {
        lmi_put(b, " of ");
        put_si(b, u->peak, "FLOP/s");
        if (u->device) lmi_putf(b, " (%s%s%s)", u->device, u->dtype ? ", " : "", u->dtype ? u->dtype : "");
    }
    if (u->flops >= 0) {
        lmi_putf(b, "; %s", u->at_least ? ">= " : "");
        put_si(b, (double)u->flops, "FLOP a step");
        if (!isnan(u->flops_per_s)) lmi_put(b, u->at_least ? ", >= " : ", ");
        if (!isnan(u->flops_per_s)) put_si(b, u->flops_per_s, "FLOP/s");
    }
    if (why) lmi_putf(b, " (%s)", why);
}
