/* SPDX-License-Identifier: Apache-2.0
 *
 * Why numbers of two outlines may not be compared: how they were counted and measured, and on what. */
#include "report/outline/outline.h"

#include <string.h>

const char *lmi_outline_provenance(const lmi_outline *o, const char *label) {
    for (int32_t i = 0; i < o->n_provenance; i++)
        if (strcmp(o->provenance[i][0], label) == 0) return o->provenance[i][1];
    return NULL;
}

/* True if both are known and differ. */
static bool differ(const char *a, const char *b) { return a && b && strcmp(a, b) != 0; }

static const char *yes_or_no(bool is) { return is ? "yes" : "no"; }

static bool is_another(const lmi_outline *was, const lmi_outline *now, const char *what,
                       lmi_setup_change *out) {
    out->was = lmi_outline_provenance(was, what);
    out->now = lmi_outline_provenance(now, what);
    out->so = ": times can't be compared";
    return was->timed && now->timed && differ(out->was, out->now);
}

bool lmi_is_setup_change(const lmi_outline *was, const lmi_outline *now, lmi_unlike_reason why,
                         lmi_setup_change *out) {
    switch (why) {
    case LMI_UNLIKE_CONVENTION:
        *out = (lmi_setup_change){"The convention differs", was->convention, now->convention,
                                  ": MACs, FLOPs and bytes can't be compared"};
        break;
    case LMI_UNLIKE_MODE:
        *out = (lmi_setup_change){"The mode differs", was->mode, now->mode,
                                  ": not everything runs in both, so no number may be compared without care"};
        break;
    case LMI_UNLIKE_INPUTS:
        *out = (lmi_setup_change){"The inputs differ", was->at[0].in, now->at[0].in,
                                  ": what depends on their sizes differs for that alone"};
        return *out->was && *out->now && differ(out->was, out->now);
    case LMI_UNLIKE_BACKWARD:
        *out = (lmi_setup_change){"A backward ran", yes_or_no(was->backward), yes_or_no(now->backward),
                                  ": peaks of memory can't be compared"};
        break;
    case LMI_UNLIKE_DRY:
        *out =
            (lmi_setup_change){"A dry run", lmi_outline_provenance(was, "dry"),
                               lmi_outline_provenance(now, "dry"),
                               ": it computes nothing, so what depends on values may differ for that alone"};
        break;
    case LMI_UNLIKE_PROCESSOR: out->what = "Another processor"; return is_another(was, now, "processor", out);
    case LMI_UNLIKE_THREADS:
        out->what = "Another number of threads";
        return is_another(was, now, "threads", out);
    default: out->what = "Another torch"; return is_another(was, now, "torch", out);
    }
    return differ(out->was, out->now);
}

bool lmi_outlines_unlike(const lmi_outline *was, const lmi_outline *now, int32_t i, lmi_setup_change *out) {
    for (int why = 0; why < LMI_N_UNLIKE; why++)
        if (lmi_is_setup_change(was, now, (lmi_unlike_reason)why, out) && i-- == 0) return true;
    return false;
}

void lmi_put_tensors(lmi_buf *b, const char *tensors) {
    for (const char *s = tensors; *s;) {
        uint32_t code;
        size_t n = lmi_utf8(s, &code);
        if (code == 0xd7)
            lmi_putc(b, 'x');
        else
            lmi_putf(b, "%.*s", (int)n, s);
        s += n;
    }
}

void lmi_put_setup_change(lmi_buf *b, const lmi_setup_change *u, bool inside) {
    size_t from = b->n;
    lmi_putc(b, inside ? (char)(u->what[0] | 0x20) : u->what[0]);
    lmi_putf(b, "%s: before ", u->what + 1);
    lmi_put_tensors(b, u->was);
    lmi_put(b, ", now ");
    lmi_put_tensors(b, u->now);
    if (!b->bad) b->n = from + lmi_clean(b->s + from);
}
