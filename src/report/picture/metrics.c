/* SPDX-License-Identifier: Apache-2.0
 *
 * The number of a place that a picture shows, with its unit and state; the speed of a place. */
#include "analyse/cost/numbers.h"
#include "report/picture/picture.h"
#include "report/picture/text.h"

const lam_held lmi_held_order[LAM_N_HELD] = {
    LAM_HELD_PARAMETER,  LAM_HELD_GRADIENT, LAM_HELD_OPTIMIZER, LAM_HELD_BUFFER, LAM_HELD_INPUT,
    LAM_HELD_ACTIVATION, LAM_HELD_BACKWARD, LAM_HELD_WORKSPACE, LAM_HELD_OTHER,
};

enum { PARTS = 4 };

/* The i-th part of a figure: those of the forward, then of its backward; LMI_OWN_NO: none. */
static lmi_own_number part_of(const lmi_picture_options *p, int i) {
    const lmi_figure_info *f = &lmi_figures[p->by];
    if (i < PARTS / 2) return f->part[i];
    return !p->backward || f->back == LMI_FIGURE_NO ? LMI_OWN_NO : lmi_figures[f->back].part[i - PARTS / 2];
}

int64_t lmi_shown_total(const lmi_outline *o, const lmi_picture_options *p, int32_t place) {
    int64_t sum = 0;
    for (int i = 0; i < PARTS; i++) {
        lmi_own_number k = part_of(p, i);
        if (k == LMI_OWN_NO || !o->total[k]) continue;
        sum = lmi_add_capped(sum, o->total[k][place]);
    }
    return sum;
}

int64_t lmi_shown_own(const lmi_outline *o, const lmi_picture_options *p, int32_t place) {
    int64_t sum = 0;
    for (int i = 0; i < PARTS; i++) {
        lmi_own_number k = part_of(p, i);
        if (k == LMI_OWN_NO || !o->own[k]) continue;
        sum = lmi_add_capped(sum, o->own[k][place]);
    }
    return sum;
}

static bool all_exact(const lmi_outline *o, lmi_own_number k, int32_t place) {
    const uint8_t *state = o->state[k];
    for (int32_t i = place; state && i < o->at[place].end; i++)
        if (state[i] != LAM_EXACT) return false;
    return true;
}

lam_state lmi_shown_state(const lmi_outline *o, const lmi_picture_options *p, int32_t place) {
    bool exact = true;
    for (int i = 0; i < PARTS; i++) {
        lmi_own_number k = part_of(p, i);
        exact = exact && (k == LMI_OWN_NO || all_exact(o, k, place));
    }
    return exact ? LAM_EXACT : lmi_shown_total(o, p, place) > 0 ? LAM_AT_LEAST : LAM_UNKNOWN;
}

void lmi_put_shown(lmi_buf *b, lmi_figure by, double v) {
    lmi_put_scaled(b, lmi_figures[by].unit, v, &lmi_typeset);
}

int64_t lmi_shown(const lmi_outline *o, const lmi_picture_options *p, int32_t place) {
    const int64_t *whole = o->own[LMI_OWN_TOTAL_TIME];
    if (p->by == LMI_FIGURE_TIME && !p->backward && whole && whole[place] > 0) return whole[place];
    return lmi_shown_total(o, p, place);
}

void lmi_put_shown_of(lmi_buf *b, const lmi_outline *o, const lmi_picture_options *p, int32_t place) {
    const lam_state state = lmi_shown_state(o, p, place);
    double v = (double)lmi_shown(o, p, place);
    if (state == LAM_UNKNOWN) {
        lmi_put(b, "?");
        return;
    }
    if (state == LAM_AT_LEAST) lmi_put(b, "\u2265" LMI_NARROW);
    if (v > 0)
        lmi_put_shown(b, p->by, v);
    else
        lmi_putc(b, '0');
}

/* -- speed --------------------------------------------------------------------------------------------- */

static lam_count own_of(const lmi_outline *o, lmi_own_number k, int32_t place) {
    if (!o->own[k]) return lmi_exact(0);
    return (lam_count){o->own[k][place], 0, o->state[k] ? (lam_state)o->state[k][place] : LAM_EXACT};
}

bool lmi_place_speed_of(const lmi_outline *o, int32_t place, const lam_peak *roof, lam_speed *out) {
    lam_count time = own_of(o, LMI_OWN_TIME, place), work[LAM_N_METRICS];
    for (int k = 0; k < LAM_N_METRICS; k++) work[k] = lmi_unknown();
    work[LAM_FLOPS] = own_of(o, LMI_OWN_FLOPS, place);
    work[LAM_BYTES_READ] = own_of(o, LMI_OWN_READ, place);
    work[LAM_BYTES_WRITTEN] = own_of(o, LMI_OWN_WRITTEN, place);
    *out = lmi_speed_of(work, time.state == LAM_EXACT ? time.n : 0, roof);
    return out->bound != LAM_BOUND_UNKNOWN && out->flops > 0 && out->bytes > 0;
}

const char *lmi_speed_bound(const lam_speed *s) {
    return s->bound == LAM_BOUND_NEITHER ? "overhead" : lam_bound_name(s->bound);
}
