/* SPDX-License-Identifier: Apache-2.0
 *
 * The receptive fields of rows. From the graph: size, jump and padding for the columns, and exact fractions
 * for all axes for lam_costs_rf_axis. Accumulated over the rows: as torchscan did. */
#include "analyse/field/field.h"
#include "analyse/field/grid.h"
#include "analyse/field/rfgraph.h"

static void reduce(int64_t f[2]) {
    int64_t common = lmi_gcd(f[0], f[1]);
    f[0] /= common;
    f[1] /= common;
}

/* Element o depends on no position before start + o * jump or after end + o * jump, and these are the closest
 * bounds of that form. */
static void fractions(const lmi_span *s, lam_rf_axis *x) {
    int64_t start = INT64_MAX, end = INT64_MIN;
    bool periodic = lmi_span_periodic(s);
    for (int64_t i = 0; i < (periodic ? s->period : s->n_each); i++) {
        const lmi_reach *r = periodic ? &s->at[i] : &s->each[i];
        if (r->hi < r->lo) continue;
        int64_t lo = r->lo * s->period - i * s->shift, hi = r->hi * s->period - i * s->shift;
        if (lo < start) start = lo;
        if (hi > end) end = hi;
    }
    if (start > end) start = end = 0;
    int64_t out[3] = {s->shift, start, end};
    int64_t(*to[3])[2] = {&x->jump, &x->start, &x->end};
    for (int i = 0; i < 3; i++) {
        (*to[i])[0] = out[i];
        (*to[i])[1] = s->period;
        reduce(*to[i]);
    }
}

static void fill_fixed(const lmi_span *s, lam_rf_axis *x) {
    bool whole = s->at[0].lo <= 0 && s->at[0].hi >= x->positions - 1;
    x->reach = whole ? LAM_REACH_WHOLE : LAM_REACH_PART;
    x->start[0] = s->at[0].lo;
    x->end[0] = s->at[0].hi;
}

/* Axes of the tensor that spans of shown slots follow, one bit each. */
static uint32_t distinct_axes(const lmi_rf *rf, const lmi_span *all) {
    uint32_t bits = 0;
    for (int32_t k = 0; k < rf->n_slots; k++)
        if (rf->slot[k].shown && all[k].kind == LMI_SPAN_TRACK) bits |= 1u << all[k].axis;
    return bits;
}

/* For each number along `axis`: what the span says of its indices, all together. NULL: memory ran out. */
static lmi_reach *say(lmi_arena *a, const lmi_span *s, const lmi_digit *d) {
    int64_t n = d->each ? d->length : d->inner * d->n;
    lmi_reach *of = lmi_alloc(a, (uint64_t)d->n, sizeof *of);
    for (int32_t i = 0; of && i < d->n; i++) of[i] = (lmi_reach){1, 0};
    for (int64_t o = 0; of && o < n; o++) {
        lmi_reach r = lmi_span_clipped(s, o), *to = &of[lmi_digit_at(d, o)];
        if (r.hi >= r.lo)
            *to = to->hi < to->lo ? r
                                  : (lmi_reach){r.lo < to->lo ? r.lo : to->lo, r.hi > to->hi ? r.hi : to->hi};
    }
    return of;
}

/* For each axis, what the span of some slot that is shown and follows it says of each number: first of slot
 * i, then of others; NULL: no slot follows it. */
static bool say_all(lmi_arena *a, const lmi_rf *rf, int32_t i, const lmi_span *all, const lmi_grid *g,
                    lmi_reach *said[LMI_AXES]) {
    const lmi_span *s = &all[i];
    for (int32_t k = 0; k < rf->n_slots; k++) {
        bool other = rf->slot[k].shown && all[k].kind == LMI_SPAN_TRACK && all[k].axis != s->axis;
        if ((!other && k != i) || said[all[k].axis]) continue;
        if (!(said[all[k].axis] = say(a, &all[k], &g->of[all[k].axis]))) return false;
    }
    return true;
}

/* True if elements with the same index along the span's axis depend on different positions where the axes
 * of others tell them apart. That an element depends on nothing may also be told by the span of another. */
static bool grid_unites(const lmi_span *s, const lmi_grid *g, lmi_reach *const said[LMI_AXES]) {
    for (int64_t o = 0; o < lmi_grid_size(g); o++) {
        lmi_reach own = {1, 0}, one = g->at[o];
        bool blind = false;
        int64_t rest = o;
        for (int32_t i = LMI_AXES - 1; i >= 0; i--) {
            int64_t number = rest % g->of[i].n;
            rest /= g->of[i].n;
            if (i == s->axis) own = said[i][number];
            blind = blind || (said[i] && said[i][number].hi < said[i][number].lo);
        }
        if (one.hi < one.lo ? !blind : one.lo != own.lo || one.hi != own.hi) return true;
    }
    return false;
}

/* True if, along some axis, every index has elements that depend on all that any element does. */
static bool every_index_sees_all(const lmi_span *s, const lmi_grid *g) {
    for (int32_t p = 0; p < LMI_AXES; p++) {
        int64_t size = lmi_grid_size(g), inner = 1, found = 0;
        for (int32_t i = p + 1; i < LMI_AXES; i++) inner *= g->of[i].n;
        for (int64_t number = 0; number < g->of[p].n; number++) {
            int64_t o = 0;
            for (; o < size; o++)
                if (o / inner % g->of[p].n == number && g->at[o].lo == s->at[0].lo &&
                    g->at[o].hi == s->at[0].hi)
                    break;
            found += o < size;
        }
        if (g->of[p].n > 1 && found == g->of[p].n) return true;
    }
    return false;
}

/* Sets *unites if elements that the axes of shown spans tell apart depend on less than the span says. */
static lam_status check_grid(const lmi_rf *rf, int32_t i, const lmi_span *all, bool *unites, lam_error *e) {
    const lmi_span *s = &all[i];
    uint32_t bits = s->varies | (s->grid ? lmi_grid_differ(s->grid) : 0u), distinct = distinct_axes(rf, all);
    *unites = bits != 0;
    if (s->kind == LMI_SPAN_FIXED && s->grid && !(bits & distinct))
        *unites = !every_index_sees_all(s, s->grid);
    if (s->kind != LMI_SPAN_TRACK || !bits) return LAM_OK;
    *unites = bits & distinct & ~(1u << s->axis);
    if (!*unites || !s->grid) return LAM_OK;
    lmi_arena a;
    lmi_grid g = *s->grid;
    lmi_arena_init(&a, UINT64_MAX);
    lam_status status = LAM_OK;
    for (int32_t k = 0; k < LMI_AXES && status == LAM_OK; k++)
        if (!((distinct | 1u << s->axis) >> k & 1) && !lmi_grid_merge(&a, &g, k)) status = lmi_nomem(e);
    lmi_reach *said[LMI_AXES] = {NULL};
    if (status == LAM_OK && !say_all(&a, rf, i, all, &g, said)) status = lmi_nomem(e);
    if (status == LAM_OK) *unites = grid_unites(s, &g, said);
    lmi_arena_free(&a);
    return status;
}

static lam_status fill(const lmi_rf *rf, int32_t i, const lmi_span *all, lam_rf_axis *x, lam_error *e) {
    const lmi_rf_slot *slot = &rf->slot[i];
    const lmi_span *s = &all[i];
    bool unites;
    LAM_TRY(check_grid(rf, i, all, &unites, e));
    *x = (lam_rf_axis){.input = slot->input,
                       .axis = slot->axis,
                       .out_axis = -1,
                       .positions = slot->positions,
                       .jump = {0, 1},
                       .start = {0, 1},
                       .end = {0, 1},
                       .shown = slot->shown,
                       .paths = s->paths,
                       .at_most = s->loose || unites,
                       .state = s->least ? LAM_AT_LEAST : LAM_EXACT,
                       .why = s->why};
    if (s->kind == LMI_SPAN_NONE) return LAM_OK;
    if (s->kind == LMI_SPAN_UNKNOWN) {
        x->reach = LAM_REACH_UNKNOWN;
        x->state = LAM_UNKNOWN;
        return LAM_OK;
    }
    x->size = lmi_span_size(s);
    x->narrow = lmi_span_size(&all[rf->n_slots + i]);
    if (s->kind == LMI_SPAN_TRACK) {
        x->reach = LAM_REACH_WINDOW;
        x->out_axis = s->axis;
        fractions(s, x);
        return LAM_OK;
    }
    fill_fixed(s, x);
    return LAM_OK;
}

/* The row's spans, one for each followed axis; NULL: it has none. */
static lam_status spans_of(const lam_costs *c, int32_t row, const lmi_span **out, lam_error *e) {
    LAM_TRY(lmi_rf_need(c, e));
    *out = c->rf && row >= 0 && row < c->n_rows ? c->rf->of_row[row] : NULL;
    return LAM_OK;
}

lam_status lam_costs_rf_axis(const lam_costs *c, int32_t row, int32_t i, lam_rf_axis *out, lam_error *e) {
    const lmi_span *s;
    LAM_TRY(spans_of(c, row, &s, e));
    if (!s || i < 0 || i >= c->rf->n_slots)
        return lmi_fail(e, LAM_RANGE, "lam_costs_rf_axis", "row %d has no axis %d that was followed",
                        (int)row, (int)i);
    return fill(c->rf, i, s, out, e);
}

/* The number of elements of the row's first output along the followed axis; INT64_MAX: unknown. */
static int64_t elements_along(const lam_costs *c, int32_t row, const lmi_span *s) {
    const lam_event *ev = lam_model_event(c->model, c->rows[row].event);
    if (s->kind != LMI_SPAN_TRACK || !ev || ev->n_out == 0 || s->axis >= ev->out[0].ndim) return INT64_MAX;
    return ev->out[0].sizes[s->axis];
}

lam_status lam_costs_rf_seen(const lam_costs *c, int32_t row, int32_t i, int64_t element, int64_t *first,
                             int64_t *last, lam_error *e) {
    const lmi_span *s;
    LAM_TRY(spans_of(c, row, &s, e));
    if (!s || i < 0 || i >= c->rf->n_slots || s[i].kind == LMI_SPAN_UNKNOWN)
        return lmi_fail(e, LAM_RANGE, "lam_costs_rf_seen", "row %d has no axis %d that is known", (int)row,
                        (int)i);
    int64_t n = elements_along(c, row, &s[i]);
    if (element < 0)
        return lmi_fail(e, LAM_RANGE, "lam_costs_rf_seen", "an axis has no element %lld", (long long)element);
    if (element >= n)
        return lmi_fail(e, LAM_RANGE, "lam_costs_rf_seen", "axis %d has no element %lld; it has %lld",
                        (int)s[i].axis, (long long)element, (long long)n);
    lmi_reach r = {1, 0};
    if (s[i].kind != LMI_SPAN_NONE) r = lmi_span_clipped(&s[i], element);
    *first = r.lo;
    *last = r.hi;
    return LAM_OK;
}

/* -- the columns --------------------------------------------------------------------------------- */

/* The shown axis with the largest field; an axis with an unknown field comes first. Its input is -1 if there
 * is none. */
static lam_status main_axis(const lam_costs *c, int32_t row, lam_rf_axis *out, lam_error *e) {
    *out = (lam_rf_axis){.input = -1};
    for (int32_t k = 0; k < c->rf->n_slots; k++) {
        lam_rf_axis x;
        if (!c->rf->slot[k].shown) continue;
        LAM_TRY(lam_costs_rf_axis(c, row, k, &x, e));
        bool more = x.state == LAM_UNKNOWN ? out->state != LAM_UNKNOWN
                                           : out->state != LAM_UNKNOWN && x.size > out->size;
        if (out->input < 0 || more) *out = x;
    }
    return LAM_OK;
}

static void put_axis(const lam_costs *c, int32_t r, const lam_rf_axis *x) {
    lam_cost_row *row = &c->rows[r];
    bool window = x->reach == LAM_REACH_WINDOW;
    row->rf = (double)x->size;
    row->rf_stride = window ? (double)x->jump[0] / (double)x->jump[1] : (double)x->positions;
    row->rf_padding = 0;
    row->rf_state = x->state;
    row->rf_at_most = x->at_most;
    row->rf_whole = x->reach == LAM_REACH_WHOLE;
    for (int32_t k = 0; window && k < c->rf->n_slots; k++) {
        const lmi_span *s = &c->rf->of_row[r][k];
        if (c->rf->slot[k].input != x->input || c->rf->slot[k].axis != x->axis) continue;
        row->rf_padding = (double)-lmi_span_at(s, 0).lo;
    }
}

/* By the graph where it shows an axis; by the chain of layers, which is followed once a row needs it,
 * elsewhere. */
static lam_status fill_row(lam_costs *c, int32_t r, lmi_arena *scratch, const lam_rf **chain, lam_error *e) {
    lam_rf_axis x = {.input = -1};
    const int32_t event = c->rows[r].event;
    if (c->rf && c->rf->of_row[r]) LAM_TRY(main_axis(c, r, &x, e));
    if (x.input < 0 && event >= 0 && !*chain) LAM_TRY(lmi_rfchain(c, scratch, chain, e));
    if (x.input >= 0)
        put_axis(c, r, &x);
    else
        lmi_rf_set(&c->rows[r], event < 0 ? (lam_rf){1, 1, 0, LAM_UNKNOWN} : (*chain)[event]);
    return LAM_OK;
}

static lam_status fill_columns(lam_costs *c, lam_error *e) {
    const lam_rf *chain = NULL;
    lam_status s = LAM_OK;
    lmi_arena scratch;
    lmi_arena_init(&scratch, UINT64_MAX);
    for (int32_t r = 0; r < c->n_rows && s == LAM_OK; r++) s = fill_row(c, r, &scratch, &chain, e);
    lmi_arena_free(&scratch);
    return s;
}

/* -- over the rows ------------------------------------------------------------------------------- */

/* A row with an unknown field counts as (1, 1, 0), and the fields of later rows are then lower bounds. */
static lam_rf row_rf(const lam_costs *c, const lam_cost_row *row) {
    return row->event < 0 ? (lam_rf){1, 1, 0, LAM_EXACT} : lmi_rf_own(c->model, row->event, c->convention);
}

static void forward(lam_costs *c) {
    lam_rf sum = {1, 1, 0, LAM_EXACT};
    for (int32_t i = 0; i < c->n_rows; i++) {
        lam_rf own = row_rf(c, &c->rows[i]);
        sum.size += sum.stride * (own.size - 1);
        sum.padding += sum.stride * own.padding;
        sum.stride *= own.stride;
        if (own.state != LAM_EXACT) sum.state = LAM_AT_LEAST;
        lmi_rf_set(&c->rows[i], sum);
    }
}

lam_status lam_costs_rf_backwards(lam_costs *c, lam_error *e) {
    if (!c) return lmi_fail(e, LAM_USAGE, "lam_costs_rf_backwards", "there are no costs to work on");
    lam_rf sum = {1, 1, 0, LAM_EXACT};
    LAM_TRY(lmi_rf_need(c, e));
    if (c->model->given) return lmi_needs_run(c->model, "another order of receptive fields", e);
    for (int32_t i = c->n_rows - 1; i >= 0; i--) {
        lam_rf own = row_rf(c, &c->rows[i]);
        sum.size = own.stride * (sum.size - 1) + own.size;
        sum.padding = own.stride * sum.padding + own.padding;
        sum.stride *= own.stride;
        if (own.state != LAM_EXACT) sum.state = LAM_AT_LEAST;
        lmi_rf_set(&c->rows[i], sum);
    }
    c->rf_backwards = true;
    return LAM_OK;
}

static lam_status fill_rows(lam_costs *c, lam_error *e) {
    if (c->released && c->convention->rf == LMI_RF_FORWARD) {
        forward(c);
        return LAM_OK;
    }
    if (c->convention->rf == LMI_RF_GRAPH) LAM_TRY(lmi_rfgraph_fill(c, e));
    return fill_columns(c, e);
}

lam_status lmi_rf_need(const lam_costs *c, lam_error *e) {
    if (!c || !c->rf_pending) return LAM_OK;
    lam_costs *mine = (lam_costs *)(uintptr_t)c; /* computed on first use; the costs look constant */
    mine->rf_pending = false;                    /* the functions that fill them read rows too */
    lam_status s = fill_rows(mine, e);
    mine->rf_pending = s != LAM_OK;
    for (int32_t i = 0; s != LAM_OK && i < c->n_rows; i++) mine->rows[i].rf_state = LAM_UNKNOWN;
    return s;
}
