/* SPDX-License-Identifier: Apache-2.0
 *
 * Differences of numbers, and their certainty: of two lower bounds it is the difference of the known
 * parts. */
#include "report/diff/diff.h"

enum { NUMBER = 96 };

const char *const lmi_certainty_name[] = {"exact", "at least", "at most", "roughly", "unknown"};

lmi_delta lmi_delta_of(lam_count was, lam_count now) {
    bool bound = was.state != LAM_EXACT, bounded = now.state != LAM_EXACT;
    if (was.state == LAM_UNKNOWN || now.state == LAM_UNKNOWN) return (lmi_delta){0, LMI_DELTA_UNKNOWN};
    return (lmi_delta){lmi_count_wide(now) - lmi_count_wide(was), bound && bounded ? LMI_DELTA_ROUGHLY
                                                                  : bound          ? LMI_DELTA_AT_MOST
                                                                  : bounded        ? LMI_DELTA_AT_LEAST
                                                                                   : LMI_DELTA_EXACT};
}

double lmi_delta_size(lmi_delta d) { return d.n < 0 ? -(double)d.n : (double)d.n; }

bool lmi_delta_percent(lam_count was, lam_count now, double *out) {
    double a = lmi_count_double(was), b = lmi_count_double(now);
    if (was.state != LAM_EXACT || now.state != LAM_EXACT || a <= 0) return false;
    *out = 100 * (b - a) / a;
    return true;
}

/* -- as text --------------------------------------------------------------------------------------------- */

void lmi_put_number(lmi_buf *b, lmi_figure k, lam_count c, bool exact) {
    lmi_number_unit unit = lmi_figures[k].unit;
    char text[NUMBER];
    if (!exact) {
        lmi_put_quantity(b, unit, c);
        return;
    }
    lam_text_count(text, sizeof text, c, true);
    lmi_put(b, text);
    if (c.state != LAM_UNKNOWN && unit != LMI_COUNTS) lmi_put(b, unit == LMI_BYTES ? " B" : " ns");
}

void lmi_put_delta(lmi_buf *b, lmi_figure k, lmi_delta d, bool exact) {
    static const char *const before[] = {"", ">= ", "<= ", "~ ", ""};
    if (d.how == LMI_DELTA_UNKNOWN) {
        lmi_putc(b, '?');
        return;
    }
    lmi_put(b, before[d.how]);
    if (d.n == 0) {
        lmi_putc(b, '0');
        return;
    }
    lmi_int128 size = d.n < 0 ? -d.n : d.n;
    lmi_putc(b, d.n < 0 ? '-' : '+');
    lmi_put_number(b, k, lmi_of_wide(size), exact);
}

void lmi_put_relative(lmi_buf *b, lam_count was, lam_count now) {
    double percent;
    bool known = was.state == LAM_EXACT && now.state == LAM_EXACT;
    if (!known || lmi_is_same(was, now)) return;
    if (!lmi_delta_percent(was, now, &percent))
        lmi_put(b, "new");
    else if (lmi_is_zero(now))
        lmi_put(b, "gone");
    else
        lmi_put_growth(b, percent, &lmi_tight);
}
