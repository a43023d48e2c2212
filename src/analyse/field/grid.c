/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of positions over the indices along several axes (grid.h). */
#include "analyse/field/grid.h"
#include "analyse/field/rfreshape.h"

static const lmi_digit ALIKE = {.n = 1, .inner = 1};

static const lmi_reach NOTHING = {1, 0};

static bool nothing(const lmi_reach *r) { return r->hi < r->lo; }

static void widen(lmi_reach *to, const lmi_reach *r) {
    if (nothing(r)) return;
    if (nothing(to)) *to = *r;
    if (r->lo < to->lo) to->lo = r->lo;
    if (r->hi > to->hi) to->hi = r->hi;
}

static int64_t numbers(const lmi_grid *g, int32_t from, int32_t to) {
    int64_t n = 1;
    for (int32_t i = from; i < to; i++) n *= g->of[i].n;
    return n;
}

int64_t lmi_grid_size(const lmi_grid *g) { return numbers(g, 0, LMI_AXES); }

uint8_t lmi_grid_differ(const lmi_grid *g) {
    uint8_t bits = 0;
    for (int32_t i = 0; i < LMI_AXES; i++)
        if (g->of[i].n > 1) bits |= (uint8_t)(1u << i);
    return bits;
}

bool lmi_grid_gaps(const lmi_grid *g) {
    for (int64_t o = 0; o < lmi_grid_size(g); o++)
        if (nothing(&g->at[o])) return true;
    return false;
}

static bool same_digit(const lmi_digit *x, const lmi_digit *y) {
    if (x->n != y->n || !x->each != !y->each) return false;
    if (!x->each) return x->n == 1 || x->inner == y->inner;
    return x->length == y->length &&
           (x->each == y->each || memcmp(x->each, y->each, (size_t)x->length * sizeof *x->each) == 0);
}

bool lmi_grid_equal(const lmi_grid *x, const lmi_grid *y) {
    for (int32_t i = 0; i < LMI_AXES; i++)
        if (!same_digit(&x->of[i], &y->of[i])) return false;
    return memcmp(x->at, y->at, (size_t)lmi_grid_size(x) * sizeof *x->at) == 0;
}

bool lmi_grid_of(lmi_arena *a, const lmi_span *s, int64_t n, lmi_grid *g) {
    *g = (lmi_grid){.at = NULL};
    if (s->grid) *g = *s->grid;
    bool fixed = s->kind == LMI_SPAN_FIXED || s->kind == LMI_SPAN_NONE;
    if (s->grid || (s->kind != LMI_SPAN_TRACK && !fixed) || (!fixed && n > LMI_GRID_MAX)) return true;
    for (int32_t i = 0; i < LMI_AXES; i++) g->of[i] = ALIKE;
    if (!fixed) g->of[s->axis].n = (int32_t)(n > 0 ? n : 1);
    lmi_reach *at = lmi_alloc(a, (uint64_t)lmi_grid_size(g), sizeof *at);
    if (!at) return false;
    for (int64_t o = 0; o < lmi_grid_size(g); o++)
        at[o] = s->kind == LMI_SPAN_NONE ? NOTHING : lmi_span_clipped(s, o);
    g->at = at;
    return true;
}

/* -- one axis ------------------------------------------------------------------------------------ */

/* Each of the n new numbers along an axis stands for several of its old ones: from[begin[i]] and those up to
 * begin[i + 1]. */
typedef struct merger {
    int64_t n;
    int32_t *begin, *from;
} merger;

static bool merger_of(lmi_arena *a, merger *m, int64_t n, int64_t all) {
    *m = (merger){.n = n};
    m->begin = lmi_alloc(a, (uint64_t)n + 1, sizeof *m->begin);
    m->from = lmi_alloc(a, (uint64_t)all + 1, sizeof *m->from);
    return m->begin && m->from;
}

/* Replaces the numbers of axes `axis` .. `end` - 1, taken together, whose digits the caller sets. */
static bool renumber(lmi_arena *a, lmi_grid *g, int32_t axis, int32_t end, const merger *m) {
    int64_t outer = numbers(g, 0, axis), was = numbers(g, axis, end), inner = numbers(g, end, LMI_AXES);
    if (outer * m->n * inner > LMI_GRID_MAX) {
        g->at = NULL;
        return true;
    }
    lmi_reach *at = lmi_alloc(a, (uint64_t)(outer * m->n * inner), sizeof *at), *to = at;
    if (!at) return false;
    for (int64_t x = 0; x < outer; x++)
        for (int64_t i = 0; i < m->n; i++)
            for (int64_t y = 0; y < inner; y++, to++) {
                *to = NOTHING;
                for (int32_t k = m->begin[i]; k < m->begin[i + 1]; k++)
                    widen(to, &g->at[(x * was + m->from[k]) * inner + y]);
            }
    g->at = at;
    return true;
}

/* The indices of an axis of n read the old numbers of_index[], or nothing if that is -1. */
static bool read_numbers(lmi_arena *a, lmi_grid *g, int32_t axis, int64_t n, const int32_t *of_index) {
    int32_t *known = lmi_alloc_none(a, g->of[axis].n + 1),
            *each = lmi_alloc(a, (uint64_t)n + 1, sizeof *each);
    merger m;
    if (!known || !each || !merger_of(a, &m, g->of[axis].n + 1, g->of[axis].n)) return false;
    int32_t next = 0, reads = 0;
    for (int64_t o = 0; o < n; o++) {
        int32_t *new = &known[of_index[o] + 1];
        if (*new < 0) {
            *new = next++;
            if (of_index[o] >= 0) m.from[reads++] = of_index[o];
            m.begin[next] = reads;
        }
        each[o] = *new;
    }
    m.n = next > 0 ? next : 1;
    if (next == 0) m.begin[1] = 0;
    if (!renumber(a, g, axis, axis + 1, &m)) return false;
    g->of[axis] = m.n == 1 ? ALIKE : (lmi_digit){(int32_t)m.n, 1, each, n};
    return true;
}

bool lmi_grid_merge(lmi_arena *a, lmi_grid *g, int32_t axis) {
    merger m;
    if (!g->at || g->of[axis].n == 1) return true;
    if (!merger_of(a, &m, 1, g->of[axis].n)) return false;
    for (int32_t i = 0; i < g->of[axis].n; i++) m.from[i] = i;
    m.begin[1] = g->of[axis].n;
    if (!renumber(a, g, axis, axis + 1, &m)) return false;
    g->of[axis] = ALIKE;
    return true;
}

bool lmi_grid_pick(lmi_arena *a, lmi_grid *g, int32_t axis, int64_t index) {
    if (!g->at) return true;
    int32_t number = index < 0 ? -1 : lmi_digit_at(&g->of[axis], index);
    return read_numbers(a, g, axis, 1, &number);
}

bool lmi_grid_mask(lmi_arena *a, lmi_grid *g, int32_t axis, int64_t n, const bool *in) {
    if (!g->at) return true;
    if (n > LMI_GRID_MAX) g->at = NULL;
    if (n > LMI_GRID_MAX) return true;
    int32_t *of_index = lmi_alloc(a, (uint64_t)n + 1, sizeof *of_index);
    if (!of_index) return false;
    for (int64_t o = 0; o < n; o++) of_index[o] = in[o] ? lmi_digit_at(&g->of[axis], o) : -1;
    return read_numbers(a, g, axis, n, of_index);
}

/* Taps that read at most one element each, or read an axis along which all are alike. */
static bool pick_each(lmi_arena *a, lmi_grid *g, int32_t axis, const lmi_taps *t, int64_t n, int64_t out_n,
                      bool *done) {
    int32_t *of_index = lmi_alloc(a, (uint64_t)out_n + 1, sizeof *of_index);
    if (!of_index) return false;
    *done = true;
    for (int64_t o = 0; o < out_n && *done; o++) {
        lmi_reach r = lmi_taps_at(t, o, n);
        *done = g->of[axis].n == 1 || r.hi < r.lo + t->step;
        of_index[o] = nothing(&r) ? -1 : lmi_digit_at(&g->of[axis], r.lo);
    }
    return !*done || read_numbers(a, g, axis, out_n, of_index);
}

enum { READS_MAX = 1 << 22 }; /* elements that the taps of one axis read */

bool lmi_grid_window(lmi_arena *a, lmi_grid *g, int32_t axis, const lmi_taps *t, int64_t n, int64_t out_n) {
    const lmi_digit *d = &g->of[axis];
    int64_t reads = 0;
    bool done = false;
    merger m;
    if (!g->at) return true;
    for (int64_t o = 0; o < out_n && out_n <= LMI_GRID_MAX && reads <= READS_MAX; o++) {
        lmi_reach r = lmi_taps_at(t, o, n);
        if (!nothing(&r)) reads += (r.hi - r.lo) / t->step + 1;
    }
    if (out_n > LMI_GRID_MAX || reads > READS_MAX) {
        g->at = NULL;
        return true;
    }
    if (!pick_each(a, g, axis, t, n, out_n, &done)) return false;
    if (done) return true;
    if (!merger_of(a, &m, out_n, reads)) return false;
    for (int64_t o = 0; o < out_n; o++) {
        lmi_reach r = lmi_taps_at(t, o, n);
        int32_t at = m.begin[o];
        for (int64_t i = r.lo; i <= r.hi; i += t->step) {
            int32_t number = lmi_digit_at(d, i);
            if (at == m.begin[o] || m.from[at - 1] != number) m.from[at++] = number;
        }
        m.begin[o + 1] = at;
    }
    if (!renumber(a, g, axis, axis + 1, &m)) return false;
    g->of[axis] = (lmi_digit){.n = (int32_t)out_n, .inner = 1};
    return true;
}

void lmi_grid_along(const lmi_grid *g, int32_t axis, int64_t n, lmi_reach *each) {
    int64_t outer = numbers(g, 0, axis), inner = numbers(g, axis + 1, LMI_AXES), own = g->of[axis].n;
    for (int64_t o = 0; o < n; o++) {
        int64_t i = lmi_digit_at(&g->of[axis], o);
        each[o] = NOTHING;
        for (int64_t x = 0; x < outer; x++)
            for (int64_t y = 0; y < inner; y++) widen(&each[o], &g->at[(x * own + i) * inner + y]);
    }
}

/* -- numbers that lead to the same positions ----------------------------------------------------- */

static bool same_slice(const lmi_grid *g, int32_t axis, int64_t i, int64_t k) {
    int64_t outer = numbers(g, 0, axis), inner = numbers(g, axis + 1, LMI_AXES), own = g->of[axis].n;
    for (int64_t x = 0; x < outer; x++)
        if (memcmp(&g->at[(x * own + i) * inner], &g->at[(x * own + k) * inner],
                   (size_t)inner * sizeof *g->at) != 0)
            return false;
    return true;
}

static uint64_t hash_slice(const lmi_grid *g, int32_t axis, int64_t i) {
    int64_t outer = numbers(g, 0, axis), inner = numbers(g, axis + 1, LMI_AXES), own = g->of[axis].n;
    uint64_t hash = 0;
    for (int64_t x = 0; x < outer; x++)
        hash = hash * UINT64_C(0x9e3779b97f4a7c15) +
               lmi_hash(&g->at[(x * own + i) * inner], (size_t)inner * sizeof *g->at);
    return hash;
}

/* Finds for each number the first one that leads to the same; *any: some do. */
static bool find_same(const lmi_grid *g, int32_t axis, int32_t *first, bool *any) {
    lmi_map seen;
    bool ok = true;
    lmi_map_init(&seen);
    *any = false;
    for (int32_t i = 0; ok && i < g->of[axis].n; i++) {
        uint64_t hash = hash_slice(g, axis, i);
        int64_t known;
        for (size_t at = (size_t)hash; (known = lmi_map_next(&seen, hash, &at)) >= 0;)
            if (same_slice(g, axis, known, i)) break;
        first[i] = known >= 0 ? (int32_t)known : i;
        *any = *any || known >= 0;
        if (known < 0) ok = lmi_map_add(&seen, hash, i, NULL) == LAM_OK;
    }
    lmi_map_free(&seen);
    return ok;
}

/* Unites numbers of an axis of `length` indices. */
static bool settle_axis(lmi_arena *a, lmi_grid *g, int32_t axis, int64_t length) {
    lmi_digit was = g->of[axis];
    int32_t *number = lmi_alloc(a, (uint64_t)was.n, sizeof *number), n = 0;
    bool any;
    merger m;
    if (!number || !merger_of(a, &m, was.n, was.n) || !find_same(g, axis, number, &any)) return false;
    if (!any) return true;
    for (int32_t i = 0; i < was.n; i++) { /* number[i]: the first old number like i, then i's new number */
        bool first = number[i] == i;
        if (first) m.from[n] = i;
        number[i] = first ? n++ : number[number[i]];
        m.begin[n] = n;
    }
    m.n = n;
    if (n > 1 && length > LMI_GRID_MAX) return true;
    int32_t *each = lmi_alloc(a, (uint64_t)(n > 1 ? length : 0), sizeof *each);
    if (!each || !renumber(a, g, axis, axis + 1, &m)) return false;
    for (int64_t o = 0; n > 1 && o < length; o++) each[o] = number[lmi_digit_at(&was, o)];
    g->of[axis] = n == 1 ? ALIKE : (lmi_digit){n, 1, each, length};
    return true;
}

bool lmi_grid_settle(lmi_arena *a, lmi_grid *g, lam_shape shape) {
    for (int32_t i = 0; i < shape.ndim && g->at; i++)
        if (g->of[i].n > 1 && !settle_axis(a, g, i, shape.sizes[i])) return false;
    return true;
}

/* -- axes in another order, merged, split -------------------------------------------------------- */

bool lmi_grid_turn(lmi_arena *a, lmi_grid *g, const int8_t *to) {
    lmi_grid out = {.at = NULL};
    int64_t jump[LMI_AXES] = {0},
            size = lmi_grid_size(g); /* from one number of a new axis to the next in at[] */
    if (!g->at) return true;
    lmi_reach *at = lmi_alloc(a, (uint64_t)size, sizeof *at);
    if (!at) return false;
    for (int32_t i = 0; i < LMI_AXES; i++) out.of[i] = ALIKE;
    for (int32_t i = 0; i < LMI_AXES; i++) {
        if (to[i] < 0 || g->of[i].n == 1) continue;
        out.of[to[i]] = g->of[i];
        jump[to[i]] = numbers(g, i + 1, LMI_AXES);
    }
    for (int64_t o = 0; o < size; o++) {
        int64_t rest = o, from = 0;
        for (int32_t i = LMI_AXES - 1; i >= 0; i--) {
            from += rest % out.of[i].n * jump[i];
            rest /= out.of[i].n;
        }
        at[o] = g->at[from];
    }
    out.at = at;
    *g = out;
    return true;
}

/* Adds the digits of an axis of `m` elements, with `after` elements behind each in the group, that hold digit
 * (inner, n) of an element's number in the group, or a part of it. False: its parts are no digits. */
static bool put_digit(lmi_digit *to, int64_t m, int64_t after, int64_t inner, int64_t n, int64_t *found) {
    int64_t low = inner > after ? inner : after, high = inner * n < after * m ? inner * n : after * m;
    if (low >= high) return true;
    if (low % after != 0 || low % inner != 0 || high % low != 0) return false;
    if (inner * n % high != 0 || after * m % high != 0) return false;
    lmi_digit part = {.n = (int32_t)(high / low), .inner = low / after};
    if (to->n > 1 && to->inner != part.inner * part.n) return false;
    *found *= part.n;
    part.n *= to->n;
    *to = part;
    return true;
}

/* Splits the digits of a group's axes among its new axes. False: they need a list of numbers. */
static bool split_digits(const lmi_grid *g, lam_shape in, lam_shape out, const lmi_group *p, lmi_digit *to) {
    for (int32_t k = p->out; k < p->out_end; k++) to[k] = ALIKE;
    for (int32_t i = p->in; i < p->in_end; i++) {
        const lmi_digit *d = &g->of[i];
        int64_t found = 1, inner = d->inner * lmi_axes_product(in, i + 1, p->in_end);
        if (d->n == 1) continue;
        if (d->each) return false;
        for (int32_t k = p->out; k < p->out_end; k++)
            if (!put_digit(&to[k], out.sizes[k], lmi_axes_product(out, k + 1, p->out_end), inner, d->n,
                           &found))
                return false;
        if (found != d->n) return false;
    }
    return true;
}

/* The combined number of each of a group's elements. */
static bool list_numbers(lmi_arena *a, const lmi_grid *g, lam_shape in, const lmi_group *p, int32_t **list) {
    int64_t n = lmi_axes_product(in, p->in, p->in_end);
    *list = lmi_alloc(a, (uint64_t)n + 1, sizeof **list);
    for (int64_t o = 0; *list && o < n; o++) {
        int64_t rest = o, number = 0, by = 1;
        for (int32_t i = p->in_end - 1; i >= p->in; i--) {
            number += lmi_digit_at(&g->of[i], rest % in.sizes[i]) * by;
            rest /= in.sizes[i];
            by *= g->of[i].n;
        }
        (*list)[o] = (int32_t)number;
    }
    return *list != NULL;
}

/* Of a list over outer x m x inner elements: a digit for the axis of m, equal where all its elements have
 * equal numbers, and for each number the first index. */
static bool digit_of_list(lmi_arena *a, const int32_t *list, int64_t outer, int64_t m, int64_t inner,
                          lmi_digit *d, int32_t *first) {
    int32_t *each = lmi_alloc(a, (uint64_t)m + 1, sizeof *each);
    lmi_map seen;
    bool ok = each != NULL;
    lmi_map_init(&seen);
    *d = (lmi_digit){0, 1, each, m};
    for (int64_t o = 0; ok && o < m; o++) {
        uint64_t hash = 0;
        for (int64_t x = 0; x < outer; x++)
            hash = hash * UINT64_C(0x9e3779b97f4a7c15) +
                   lmi_hash(&list[(x * m + o) * inner], (size_t)inner * sizeof *list);
        int64_t known = lmi_map_get_u64(&seen, hash);
        for (int64_t x = 0; x < outer && known >= 0; x++)
            if (memcmp(&list[(x * m + o) * inner], &list[(x * m + first[known]) * inner],
                       (size_t)inner * sizeof *list) != 0)
                known = -1;
        each[o] = known >= 0 ? (int32_t)known : d->n;
        if (known < 0) first[d->n] = (int32_t)o;
        if (known < 0) ok = lmi_map_put_u64(&seen, hash, d->n++, NULL) == LAM_OK;
    }
    lmi_map_free(&seen);
    if (d->n == 1) *d = ALIKE;
    return ok;
}

/* Gives a group's new axes lists of numbers. */
static bool split_list(lmi_arena *a, lmi_grid *g, lam_shape in, lam_shape out, const lmi_group *p,
                       lmi_digit *to) {
    int64_t n = lmi_axes_product(in, p->in, p->in_end), all = 1;
    int32_t *list, *first[LMI_AXES];
    merger m;
    if (n > LMI_GRID_MAX || n == 0) g->at = NULL;
    if (n > LMI_GRID_MAX || n == 0) return true;
    if (!list_numbers(a, g, in, p, &list)) return false;
    for (int32_t k = p->out; k < p->out_end; k++) {
        int64_t inner = lmi_axes_product(out, k + 1, p->out_end);
        first[k] = lmi_alloc(a, (uint64_t)out.sizes[k] + 1, sizeof **first);
        if (!first[k] ||
            !digit_of_list(a, list, n / inner / out.sizes[k], out.sizes[k], inner, &to[k], first[k]))
            return false;
        all *= to[k].n;
    }
    if (!merger_of(a, &m, all, all)) return false;
    for (int64_t i = 0; i < all; i++) {
        int64_t rest = i, at = 0, by = 1;
        for (int32_t k = p->out_end - 1; k >= p->out; k--) {
            at += first[k][rest % to[k].n] * by;
            rest /= to[k].n;
            by *= out.sizes[k];
        }
        m.from[i] = list[at];
        m.begin[i + 1] = (int32_t)i + 1;
    }
    return renumber(a, g, p->in, p->in_end, &m);
}

bool lmi_grid_view(lmi_arena *a, lmi_grid *g, lam_shape in, lam_shape out) {
    lmi_digit to[LMI_AXES];
    lmi_group p = {0, 0, 0, 0};
    for (int32_t i = 0; i < LMI_AXES; i++) to[i] = ALIKE;
    for (int32_t i = 0; i < in.ndim && g->at; i++) {
        if (g->of[i].n == 1) continue;
        if (in.sizes[i] == 0 || !lmi_find_group(in, out, i, &p)) g->at = NULL;
        if (!g->at) break;
        if (!split_digits(g, in, out, &p, to) && !split_list(a, g, in, out, &p, to)) return false;
        for (int32_t k = p.in; k < p.in_end; k++) g->of[k] = ALIKE;
        /* While later groups wait, the whole group's numbers stand at its first axis. */
        int64_t all = 1;
        for (int32_t k = p.out; k < p.out_end; k++) all *= to[k].n;
        g->of[p.in].n = (int32_t)all;
        i = p.in_end - 1;
    }
    memcpy(g->of, to, sizeof to);
    return true;
}

/* -- two grids ----------------------------------------------------------------------------------- */

/* Gives both grids one digit for an axis of n. */
static bool share_digit(lmi_arena *a, lmi_grid *g, lmi_grid *h, int32_t axis, int64_t n) {
    int64_t gn = g->of[axis].n, hn = h->of[axis].n;
    merger of_g, of_h;
    if (n > LMI_GRID_MAX || gn * hn > LMI_GRID_MAX) g->at = NULL;
    if (!g->at) return true;
    int32_t *known = lmi_alloc_none(a, (int32_t)(gn * hn)),
            *each = lmi_alloc(a, (uint64_t)n + 1, sizeof *each);
    if (!known || !each || !merger_of(a, &of_g, n, n) || !merger_of(a, &of_h, n, n)) return false;
    int32_t next = 0;
    for (int64_t o = 0; o < n; o++) {
        int32_t x = lmi_digit_at(&g->of[axis], o), y = lmi_digit_at(&h->of[axis], o);
        int32_t *number = &known[x * hn + y];
        if (*number < 0) {
            of_g.from[next] = x;
            of_h.from[next] = y;
            *number = next++;
            of_g.begin[next] = of_h.begin[next] = next;
        }
        each[o] = *number;
    }
    if (next == 0) next = 1; /* of an axis without elements nothing depends on anything */
    of_g.n = of_h.n = next;
    if (!renumber(a, g, axis, axis + 1, &of_g) || !renumber(a, h, axis, axis + 1, &of_h)) return false;
    g->of[axis] = h->of[axis] = (lmi_digit){next, 1, each, n};
    if (!h->at) g->at = NULL;
    return true;
}

/* Gives both grids, of a tensor of that shape, the same digits. */
static bool share_digits(lmi_arena *a, lmi_grid *g, lmi_grid *h, lam_shape shape) {
    if (!h->at) g->at = NULL;
    for (int32_t i = 0; i < shape.ndim && g->at; i++)
        if (!same_digit(&g->of[i], &h->of[i]) && !share_digit(a, g, h, i, shape.sizes[i])) return false;
    return true;
}

bool lmi_grid_join(lmi_arena *a, lmi_grid *g, const lmi_grid *other, lam_shape shape) {
    lmi_grid h = *other;
    if (!g->at) return true;
    if (!share_digits(a, g, &h, shape)) return false;
    if (!g->at) return true;
    int64_t size = lmi_grid_size(g);
    lmi_reach *at = lmi_copy(a, g->at, (uint64_t)size, sizeof *at);
    for (int64_t o = 0; at && o < size; o++) widen(&at[o], &h.at[o]);
    g->at = at;
    return at != NULL;
}

/* 1 for the indices that are in, else 0, along each axis; (0, 0) leads to nothing unless all are in. */
static bool box_of(lmi_arena *a, lmi_grid *box, lam_shape shape, bool *const *in) {
    *box = (lmi_grid){.at = NULL};
    for (int32_t i = 0; i < LMI_AXES; i++) box->of[i] = ALIKE;
    for (int32_t i = 0; i < shape.ndim; i++) {
        if (!in[i]) continue;
        if (shape.sizes[i] > LMI_GRID_MAX) return true;
        int32_t *each = lmi_alloc(a, (uint64_t)shape.sizes[i] + 1, sizeof *each);
        if (!each) return false;
        for (int64_t o = 0; o < shape.sizes[i]; o++) each[o] = in[i][o];
        box->of[i] = (lmi_digit){2, 1, each, shape.sizes[i]};
    }
    int64_t size = lmi_grid_size(box);
    lmi_reach *at = lmi_alloc(a, (uint64_t)size, sizeof *at);
    for (int64_t o = 0; at && o < size; o++) at[o] = NOTHING;
    if (at) at[size - 1] = (lmi_reach){0, 0};
    box->at = at;
    return at != NULL;
}

/* Elements depend on nothing where the other grid says nothing (`where`), or where it does not. */
static bool cut(lmi_arena *a, lmi_grid *g, lmi_grid *other, lam_shape shape, bool where) {
    if (!share_digits(a, g, other, shape)) return false;
    if (!g->at) return true;
    int64_t size = lmi_grid_size(g);
    lmi_reach *at = lmi_copy(a, g->at, (uint64_t)size, sizeof *at);
    for (int64_t o = 0; at && o < size; o++)
        if (nothing(&other->at[o]) == where) at[o] = NOTHING;
    g->at = at;
    return at != NULL;
}

bool lmi_grid_cut(lmi_arena *a, lmi_grid *g, const lmi_grid *other, lam_shape shape) {
    lmi_grid h = *other;
    return !g->at || cut(a, g, &h, shape, true);
}

bool lmi_grid_box(lmi_arena *a, lmi_grid *g, lam_shape shape, bool *const *in, bool inside) {
    lmi_grid box;
    return !g->at || (box_of(a, &box, shape, in) && cut(a, g, &box, shape, inside));
}
