/* SPDX-License-Identifier: Apache-2.0
 *
 * Proofs of `layers` for the kinds that move elements: reshapes, shuffles, paddings, fold and unfold. */
#include "kit/oom.h"

#include "kit/layer_build.h"

/* -- reshapes
 * ---------------------------------------------------------------------------------------------------------
 */

static void reshape(void **state) {
    (void)state;
    enum { VIEW, COPY, META, EMPTY };
    for (int i = 0; more(i, 200); i++) {
        reseed((uint64_t)i);
        layer l;
        bool joins = coin();
        int how = (int)pick(VIEW, EMPTY);
        int64_t a = how == EMPTY ? 0 : pick(1, 4), b = pick(1, 4);
        layer_new(&l, joins ? "Flatten" : "Unflatten");
        if (joins) {
            takes(&l, SIZES(a, b));
            gives(&l, SIZES(a * b));
        } else {
            takes(&l, SIZES(a * b));
            gives(&l, SIZES(a, b));
        }
        if (how == VIEW) l.out[0].storage = l.in[0].storage;
        if (how == META) {
            l.in[0].storage = l.out[0].storage = 0;
            l.in[0].device = l.out[0].device = 14;
        }
        if (how == COPY) {
            cells *x = cells_of(a * b), *y = cells_of(a * b);
            for (int64_t k = 0; k < a * b; k++) wr(y, k, rd(x, k));
        }
        proves(&l);
    }
    layer l;
    layer_new(&l, "Flatten"); /* of memory nobody told of */
    takes(&l, SIZES(2, 3));
    gives(&l, SIZES(6));
    l.out[0].storage = 0;
    is_unknown(&l, 1 << LAM_DMAS);
    layer_new(&l, "Flatten");
    takes(&l, SIZES(2, 3));
    is_unknown(&l, 1 << LAM_DMAS);
}

static void shuffles(void **state) {
    (void)state;
    for (int i = 0; more(i, 300); i++) {
        reseed((uint64_t)i);
        layer l;
        int64_t r = pick(1, 3), n = pick(1, 2), c = pick(1, 3), h = pick(1, 3), w = pick(1, 3),
                which = pick(0, 2);
        cells *x = cells_of(n * c * r * r * h * w), *y = cells_of(x->n);
        static const char *const names[] = {"PixelShuffle", "PixelUnshuffle", "ChannelShuffle"};
        layer_new(&l, names[which]);
        const int64_t deep[] = {n, c * r * r, h, w}, wide[] = {n, c, h * r, w * r};
        takes(&l, 4, which == 1 ? wide : deep);
        gives(&l, 4, which == 0 ? wide : deep);
        if (which == 2) has_int(&l, "groups", r);
        for (int64_t k = 0; k < x->n; k++) { /* k: where the element lies in (n, c*r*r, h, w) */
            int64_t at = k, column = at % w, row = (at /= w) % h, channel = (at /= h) % (c * r * r),
                    sample = at / (c * r * r);
            int64_t out = channel / (r * r), dy = channel / r % r, dx = channel % r;
            int64_t other = ((sample * c + out) * h * r + row * r + dy) * w * r + column * r + dx;
            if (which == 2)
                other =
                    ((sample * c * r * r + channel % (c * r) * r + channel / (c * r)) * h + row) * w + column;
            if (which == 1)
                wr(y, k, rd(x, other));
            else
                wr(y, other, rd(x, k));
        }
        proves(&l);
    }
}

/* -- paddings
 * ---------------------------------------------------------------------------------------------------------
 */

typedef struct padding {
    int32_t rank, lead; /* lead: axes before the spatial ones */
    char how;           /* 'c'onstant, 'r'eflect, 'e'dge, 'w'rap */
    int64_t s[LAYER_NDIM], low[3], high[3];
} padding;

/* The input's position for padded position i along one axis; -1 where a constant stands. */
static int64_t source(char how, int64_t i, int64_t n) {
    if (i >= 0 && i < n) return i;
    if (how == 'c') return -1;
    if (how == 'r') return i < 0 ? -i : 2 * (n - 1) - i;
    if (how == 'e') return i < 0 ? 0 : n - 1;
    return (i % n + n) % n;
}

static void pad_walk(const padding *p) {
    int64_t out[LAYER_NDIM], at[LAYER_NDIM] = {0}, to = 0;
    int32_t ndim = p->lead + p->rank;
    memcpy(out, p->s, sizeof out);
    for (int32_t d = 0; d < p->rank; d++) out[p->lead + d] += p->low[d] + p->high[d];
    cells *x = cells_of(elements(ndim, p->s)), *y = cells_of(elements(ndim, out));
    do {
        int64_t from[LAYER_NDIM];
        memcpy(from, at, sizeof from);
        for (int32_t d = 0; d < p->rank; d++)
            from[p->lead + d] = source(p->how, at[p->lead + d] - p->low[d], p->s[p->lead + d]);
        int64_t where = offset_of(ndim, p->s, from);
        wr(y, to++, where < 0 ? 0 : rd(x, where));
    } while (next_at(ndim, out, at));
}

static void pad_layer(layer *l, const padding *p, const char *word) {
    int64_t out[LAYER_NDIM], flat[6];
    int32_t ndim = p->lead + p->rank;
    bool same = true;
    memcpy(out, p->s, sizeof out);
    for (int32_t d = 0; d < p->rank; d++) {
        out[p->lead + d] += p->low[d] + p->high[d];
        flat[2 * (p->rank - 1 - d)] = p->low[d]; /* torch lists the last axis first */
        flat[2 * (p->rank - 1 - d) + 1] = p->high[d];
        same = same && p->low[d] == p->low[0] && p->high[d] == p->low[0];
    }
    layer_new(l, word);
    if (same && coin())
        has_int(l, "padding", p->low[0]);
    else
        has_ints(l, "padding", 2 * p->rank, flat);
    takes(l, ndim, p->s);
    gives(l, ndim, out);
}

static void paddings(void **state) {
    (void)state;
    static const struct {
        const char *word;
        char how;
        int32_t rank;
    } kinds[] = {{"ZeroPad1d", 'c', 1},        {"ZeroPad2d", 'c', 2},        {"ZeroPad3d", 'c', 3},
                 {"ConstantPad1d", 'c', 1},    {"ConstantPad2d", 'c', 2},    {"ConstantPad3d", 'c', 3},
                 {"ReflectionPad1d", 'r', 1},  {"ReflectionPad2d", 'r', 2},  {"ReflectionPad3d", 'r', 3},
                 {"ReplicationPad1d", 'e', 1}, {"ReplicationPad2d", 'e', 2}, {"ReplicationPad3d", 'e', 3},
                 {"CircularPad1d", 'w', 1},    {"CircularPad2d", 'w', 2},    {"CircularPad3d", 'w', 3}};
    for (int i = 0; more(i, 1500); i++) {
        reseed((uint64_t)i);
        layer l;
        size_t which = (size_t)pick(0, 14);
        padding p = {.rank = kinds[which].rank, .lead = (int32_t)pick(1, 2), .how = kinds[which].how};
        for (int32_t d = 0; d < p.lead + p.rank; d++) p.s[d] = pick(1, 4);
        for (int32_t d = 0; d < p.rank; d++) {
            int64_t n = p.s[p.lead + d], most = p.how == 'r' ? n - 1 : p.how == 'w' ? n : 3;
            do { /* constants may crop */
                p.low[d] = pick(p.how == 'c' ? -3 : 0, most);
                p.high[d] = pick(p.how == 'c' ? -3 : 0, most);
            } while (n + p.low[d] + p.high[d] < 1 ||
                     n + (p.low[d] < 0 ? p.low[d] : 0) + (p.high[d] < 0 ? p.high[d] : 0) < 0);
        }
        pad_layer(&l, &p, kinds[which].word);
        pad_walk(&p);
        proves(&l);
    }
    padding crops = {.rank = 1, .lead = 1, .how = 'e', .s = {2, 5}, .low = {-1}, .high = {2}};
    layer l;
    pad_layer(&l, &crops, "ReplicationPad1d");
    is_unknown(&l, 1 << LAM_DMAS);
    layer_new(&l, "ZeroPad2d"); /* padding of a length that fits no such layer */
    has_ints(&l, "padding", SIZES(1, 1));
    takes(&l, SIZES(1, 3, 3));
    gives(&l, SIZES(1, 5, 5));
    is_unknown(&l, 1 << LAM_DMAS);
    for (int side = 0; side < 2; side++) { /* no tensor is cropped by as much as this */
        const int64_t most = -(INT64_C(1) << 40);
        layer_new(&l, "ZeroPad1d");
        has_ints(&l, "padding", SIZES(side ? 1 : most, side ? most : 1));
        takes(&l, SIZES(1, 3));
        gives(&l, SIZES(1, 5));
        is_unknown(&l, 1 << LAM_DMAS);
    }
}

/* -- fold and unfold ----------------------------------------------------------------------------------- */

typedef struct windows {
    bool batched;
    int64_t n, c, size[2], k[2], stride[2], pad[2], dil[2], fit[2];
} windows;

static void random_windows(windows *v) {
    *v = (windows){.batched = coin(), .c = pick(1, 3)};
    v->n = v->batched ? pick(1, 3) : 1;
    for (int d = 0; d < 2; d++) {
        int64_t room;
        do {
            v->size[d] = pick(1, 7);
            v->k[d] = pick(1, 3);
            v->stride[d] = pick(1, 4);
            v->pad[d] = pick(0, 2);
            v->dil[d] = pick(1, 3);
            room = v->size[d] + 2 * v->pad[d] - v->dil[d] * (v->k[d] - 1) - 1;
        } while (room < 0);
        v->fit[d] = room / v->stride[d] + 1;
    }
}

static void windows_layer(layer *l, const windows *v, bool folds) {
    layer_new(l, folds ? "Fold" : "Unfold");
    if (folds) has_ints(l, "output_size", 2, v->size);
    has_ints(l, "kernel_size", 2, v->k);
    has_ints(l, "stride", 2, v->stride);
    has_ints(l, "padding", 2, v->pad);
    has_ints(l, "dilation", 2, v->dil);
    const int64_t image[] = {v->n, v->c, v->size[0], v->size[1]};
    const int64_t columns[] = {v->n, v->c * v->k[0] * v->k[1], v->fit[0] * v->fit[1]};
    int32_t skip = !v->batched;
    if (folds)
        takes(l, 3 - skip, columns + skip);
    else
        takes(l, 4 - skip, image + skip);
    if (folds)
        gives(l, 4 - skip, image + skip);
    else
        gives(l, 3 - skip, columns + skip);
}

static void windows_walk(const windows *v, bool folds) {
    int64_t plane = v->size[0] * v->size[1], taps = v->k[0] * v->k[1], blocks = v->fit[0] * v->fit[1];
    cells *image = cells_of(v->n * v->c * plane), *columns = cells_of(v->n * v->c * taps * blocks);
    const int64_t all[] = {v->n * v->c, v->k[0], v->k[1], v->fit[0], v->fit[1]};
    int64_t at[5] = {0}, column = 0;
    bool *begun = calloc((size_t)image->n + 1, sizeof *begun);
    assert_non_null(begun);
    if (folds) wr_all(image); /* with 0 */
    do {
        const int64_t p[] = {at[3] * v->stride[0] - v->pad[0] + at[1] * v->dil[0],
                             at[4] * v->stride[1] - v->pad[1] + at[2] * v->dil[1]};
        int64_t where = offset_of(2, v->size, p);
        int64_t to = at[0] * plane + where;
        if (!folds) {
            wr(columns, column, where < 0 ? 0 : rd(image, to));
        } else if (where >= 0) {
            double x = rd(columns, column);
            wr(image, to, begun[to] ? add(image->v[to], x) : x);
            begun[to] = true;
        }
        column++;
    } while (next_at(5, all, at));
    free(begun);
}

static void fold_unfold(void **state) {
    (void)state;
    for (int i = 0; more(i, 800); i++) {
        reseed((uint64_t)i);
        windows v;
        layer l;
        bool folds = coin();
        random_windows(&v);
        windows_layer(&l, &v, folds);
        windows_walk(&v, folds);
        proves(&l);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(reshape), cmocka_unit_test(shuffles),
                                       cmocka_unit_test(paddings), cmocka_unit_test(fold_unfold)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
