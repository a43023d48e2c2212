/* SPDX-License-Identifier: Apache-2.0
 *
 * Receptive fields on the graph: intervals against a search for every position that is read, and the rows of
 * small models. */
#include "kit/oom.h"

#include "kit/draw.h"
#include "kit/ops_net.h"

#include "analyse/field/rfmemory.h"
#include "analyse/field/rfreshape.h"
#include "analyse/field/span.h"

#include <stdlib.h>

/* -- windows against a search ------------------------------------------------------------------ */

enum { LAYERS = 4, MOST = 64 };

typedef struct layer { /* element o reads i with i * up = o * step + tap, tap in lo, lo + dil, ..., hi */
    int64_t up, step, lo, hi, dil;
} layer;

static uint32_t seed = 1;

static layer draw_layer(void) {
    int64_t dil = draw(1, 3), taps = draw(1, 4), pad = draw(0, 3);
    bool transposed = draw(0, 3) == 0;
    return (layer){transposed ? draw(1, 4) : 1, transposed ? 1 : draw(1, 3), -pad, dil * (taps - 1) - pad,
                   dil};
}

/* First and last position that element o of layer k depends on, by trying every tap. */
static void search(const layer *l, int k, int64_t o, int64_t *first, int64_t *last) {
    if (k < 0) {
        *first = o < *first ? o : *first;
        *last = o > *last ? o : *last;
        return;
    }
    for (int64_t t = l[k].lo; t <= l[k].hi; t += l[k].dil) {
        int64_t at = o * l[k].step + t, i = lmi_floor_div(at, l[k].up);
        if (i * l[k].up == at) search(l, k - 1, i, first, last);
    }
}

static bool apply(lmi_arena *a, lmi_span *s, const layer *l) {
    int64_t lo[MOST], hi[MOST];
    lmi_taps t = {(int32_t)l->up, l->step, l->up == 1 ? l->dil : 1, lo, hi, NULL, false};
    for (int64_t o = 0; o < l->up; o++) {
        lo[o] = INT64_MAX;
        hi[o] = INT64_MIN;
        for (int64_t tap = l->lo; tap <= l->hi; tap += l->dil) {
            int64_t at = o * l->step + tap, i = lmi_floor_div(at, l->up);
            if (i * l->up != at) continue;
            lo[o] = i < lo[o] ? i : lo[o];
            hi[o] = i > hi[o] ? i : hi[o];
        }
        if (lo[o] > hi[o]) {
            lo[o] = 1;
            hi[o] = 0;
        }
    }
    return lmi_span_window(a, s, &t, 1 << 20, 1 << 20);
}

static void intervals_are_those_that_a_search_finds(void **state) {
    (void)state;
    for (int round = 0; round < rounds(600); round++) {
        lmi_arena a;
        lmi_arena_init(&a, UINT64_MAX);
        layer l[LAYERS];
        lmi_span s;
        assert_true(lmi_span_input(&a, &s, 0, 1 << 30));
        int n = (int)draw(1, LAYERS);
        for (int k = 0; k < n; k++) {
            l[k] = draw_layer();
            if (l[k].up > 1) l[k].dil = 1; /* with dilation a tap between two may read nothing */
            l[k].hi = l[k].hi < l[k].lo ? l[k].lo : l[k].hi;
            assert_true(apply(&a, &s, &l[k]));
        }
        for (int64_t o = 50; o < 75; o++) {
            int64_t first = INT64_MAX, last = INT64_MIN;
            search(l, n - 1, o, &first, &last);
            lmi_reach r = lmi_span_at(&s, o);
            if (first > last) {
                assert_true(r.hi < r.lo);
            } else if (r.lo != first || r.hi != last) {
                fail_msg("round %d, element %d: %d to %d, a search finds %d to %d", round, (int)o, (int)r.lo,
                         (int)r.hi, (int)first, (int)last);
            }
        }
        lmi_arena_free(&a);
    }
}

static void paths_meet_in_the_hull(void **state) {
    (void)state;
    lmi_arena a;
    lmi_arena_init(&a, UINT64_MAX);
    lmi_span x, y, z;
    assert_true(lmi_span_input(&a, &x, 2, 100));
    y = z = x;
    assert_true(apply(&a, &y, &(layer){1, 1, -2, 2, 1}));
    assert_true(lmi_span_join(&a, &y, &x, 100, 100));
    lmi_reach r = lmi_span_at(&y, 10);
    assert_true(y.paths && r.lo == 8 && r.hi == 12);
    /* Jumps of 2 and of 1 over 10 elements: what each of them sees. */
    assert_true(apply(&a, &z, &(layer){1, 2, 0, 0, 1}));
    assert_true(lmi_span_join(&a, &z, &x, 10, 10));
    for (int64_t o = 0; o < 10; o++)
        assert_true(lmi_span_clipped(&z, o).lo == o && lmi_span_clipped(&z, o).hi == 2 * o);
    assert_false(z.loose);
    /* Along different axes: everything that either sees. */
    z = x;
    z.axis = 3;
    assert_true(lmi_span_join(&a, &z, &x, 100, 100));
    assert_true(z.kind == LMI_SPAN_FIXED && z.at[0].lo == 0 && z.at[0].hi == 99);
    lmi_arena_free(&a);
}

/* Paths differ where one end does. */
static void paths_that_differ_at_one_end(void **state) {
    (void)state;
    static const layer to_the_right = {1, 1, 0, 2, 1}, to_the_left = {1, 1, -2, 0, 1};
    lmi_arena a;
    lmi_arena_init(&a, UINT64_MAX);
    for (int left = 0; left < 2; left++)
        for (int long_axis = 0; long_axis < 2; long_axis++) {
            const int64_t n = long_axis ? LMI_EACH_MAX + 1 : 100;
            lmi_span x, y;
            assert_true(lmi_span_input(&a, &x, 2, n));
            y = x;
            assert_true(apply(&a, &y, left ? &to_the_left : &to_the_right));
            assert_true(lmi_span_join(&a, &x, &y, n, n));
            assert_true(x.paths);
            lmi_reach r = lmi_span_at(&x, 10);
            assert_true(r.lo == (left ? 8 : 10) && r.hi == (left ? 10 : 12));
            y = x;
            y.paths = false;
            assert_true(lmi_span_join(&a, &y, &x, n, n)); /* the same as itself */
            lmi_arena_free(&a);
        }
}

/* Along an axis too long to look at each element the first's intervals hold what the second sees as well;
 * along one that is longer still, every element is said to see all. */
static void unlike_jumps_along_a_long_axis(void **state) {
    (void)state;
    lmi_arena a;
    lmi_arena_init(&a, UINT64_MAX);
    lmi_span x, y, whole;
    int64_t n = LMI_EACH_MAX + 4;
    assert_true(lmi_span_input(&a, &x, 2, INT64_C(1) << 24));
    y = x;
    assert_true(apply(&a, &y, &(layer){1, 2, 0, 0, 1})); /* every second position */
    whole = x;
    assert_true(lmi_span_join(&a, &x, &y, n, n));
    assert_true(x.kind == LMI_SPAN_TRACK && x.loose && x.paths);
    for (int64_t o = 0; o < n; o += 37) {
        lmi_reach r = lmi_span_at(&x, o);
        assert_true(r.lo <= o && r.hi >= 2 * o);
    }
    n = INT64_C(1) << 23;
    assert_true(lmi_span_join(&a, &whole, &y, n, n));
    assert_true(whole.kind == LMI_SPAN_FIXED && whole.loose && whole.paths);
    assert_true(whole.at[0].lo == 0 && whole.at[0].hi == n - 1);
    lmi_arena_free(&a);
}

/* Two paths together reach the input as far as either does. */
static void paths_reach_as_far_as_either(void **state) {
    (void)state;
    lmi_arena a;
    lmi_arena_init(&a, UINT64_MAX);
    const int64_t n = LMI_EACH_MAX + 1;
    for (int end = 0; end < 2; end++) {
        lmi_span x, y;
        assert_true(lmi_span_input(&a, &x, 2, n));
        y = x;
        x.first = end ? 0 : n - 10;
        x.last = end ? 10 : n - 1;
        assert_true(lmi_span_join(&a, &x, &y, n, n));
        for (int64_t o = 0; o < n; o += n - 1) {
            lmi_reach r = lmi_span_clipped(&x, o);
            assert_true(r.lo == o && r.hi == o);
        }
    }
    lmi_arena_free(&a);
}

static void fields_that_are_given_up(void **state) {
    (void)state;
    lmi_arena a;
    lmi_arena_init(&a, UINT64_MAX);
    lmi_span x;
    const int64_t none = 0, wide = INT64_C(1) << 23, far = INT64_C(1) << 49, n = LMI_EACH_MAX + 1;
    assert_true(lmi_span_input(&a, &x, 2, n));
    assert_true(lmi_span_window(&a, &x, &(lmi_taps){1, 1, 1, &none, &wide, NULL, false}, n, n));
    assert_int_equal(x.kind, LMI_SPAN_UNKNOWN);
    assert_string_equal(x.why, "a window too large to follow");
    assert_true(lmi_span_input(&a, &x, 2, n));
    assert_true(lmi_span_window(&a, &x, &(lmi_taps){1, 1, 1, &far, &far, NULL, false}, n, n));
    assert_int_equal(x.kind, LMI_SPAN_UNKNOWN);
    assert_string_equal(x.why, "a field larger than any input");
    lmi_arena_free(&a);
}

static void scan(lmi_arena *a, lmi_span *s, int64_t n) {
    const int64_t from = 1 - n, to = 0;
    assert_true(lmi_span_window(a, s, &(lmi_taps){1, 1, 1, &from, &to, NULL, true}, n, n));
}

/* What depends on all positions up to its own does so again after another scan, in either direction. */
static void a_scan_of_a_scan_sees_no_more(void **state) {
    (void)state;
    lmi_arena a;
    lmi_arena_init(&a, UINT64_MAX);
    for (int64_t n = 1; n < 12; n++)
        for (int64_t wide = 0; wide < 3; wide++)
            for (int turned = 0; turned < 2; turned++) {
                lmi_span x;
                const int64_t before = -wide, last = n - 1, *lo = turned ? &last : &before,
                              *hi = turned ? &last : &wide;
                assert_true(lmi_span_input(&a, &x, 2, n));
                assert_true(
                    lmi_span_window(&a, &x, &(lmi_taps){1, turned ? -1 : 1, 1, lo, hi, NULL, false}, n, n));
                for (int times = 0; times < 3; times++) {
                    scan(&a, &x, n);
                    if (n == 1) continue;
                    assert_int_equal(lmi_span_size(&x), n + (turned ? 0 : wide));
                    for (int64_t o = 0; o < n; o++) {
                        const lmi_reach r = lmi_span_clipped(&x, o);
                        assert_int_equal(r.lo, turned ? n - 1 - o : 0);
                        assert_int_equal(r.hi, turned ? n - 1 : o + wide < n ? o + wide : n - 1);
                    }
                }
            }
    lmi_arena_free(&a);
}

/* A name that is no operator's word would be passed over in silence. */
static void every_name_is_a_word(void **state) {
    (void)state;
    static const char *const named[] = {
#define REACH_KIND(kind, how)
#define REACH(spelling, how) spelling,
#include "analyse/field/rf_operators.def"
#undef REACH_KIND
#undef REACH
    };
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (lam_word_op(named[i]) < 0) fail_msg("%s has no word", named[i]);
}

/* -- rows -------------------------------------------------------------------------------------- */

static const lam_cost_row *row_at(const lam_costs *c, const char *path) {
    const lam_model *m = lam_costs_model(c);
    for (int32_t i = 0; i < lam_costs_n_rows(c); i++)
        if (strcmp(lam_model_place(m, lam_costs_row(c, i)->place)->path, path) == 0)
            return lam_costs_row(c, i);
    fail_msg("no row %s", path);
    return NULL;
}

static void rows_tell_size_jump_and_padding(void **state) {
    (void)state;
    lam_model *m = net_residual();
    lam_costs *c = net_costs(m, "layers", false);
    const lam_cost_row *conv = row_at(c, "conv"), *fc = row_at(c, "fc");
    assert_true(conv->rf == 3 && conv->rf_stride == 1 && conv->rf_padding == 1 &&
                conv->rf_state == LAM_EXACT);
    assert_true(fc->rf == 8 && fc->rf_whole && !fc->rf_at_most && fc->rf_state == LAM_EXACT);
    lam_rf_axis x;
    int64_t first, last;
    assert_int_equal(lam_costs_rf_axis(c, 1, 1, &x, NULL), LAM_OK);
    assert_true(x.axis == 2 && x.out_axis == 2 && x.shown && x.reach == LAM_REACH_WINDOW && x.start[0] == -1);
    assert_int_equal(lam_costs_rf_seen(c, 1, 1, 0, &first, &last, NULL), LAM_OK);
    assert_true(first == 0 && last == 1);
    assert_int_equal(lam_costs_rf_seen(c, 1, 1, x.positions - 1, &first, &last, NULL), LAM_OK);
    assert_int_equal(lam_costs_rf_seen(c, 1, 1, x.positions, &first, &last, NULL), LAM_RANGE);
    assert_int_equal(lam_costs_rf_seen(c, 1, 1, -1, &first, &last, NULL), LAM_RANGE);
    assert_int_equal(lam_costs_rf_axis(c, 1, 0, &x, NULL), LAM_OK); /* channels: mixed, and not shown */
    assert_true(x.axis == 1 && x.reach == LAM_REACH_WHOLE && !x.shown);
    assert_int_equal(lam_costs_rf_axis(c, 1, 2, &x, NULL), LAM_OK); /* the batch: last, and not shown */
    assert_true(x.axis == 0 && !x.shown);
    assert_int_equal(lam_costs_rf_axis(c, 1, 3, &x, NULL), LAM_RANGE);
    assert_int_equal(lam_costs_rf_seen(c, 99, 0, 0, &first, &last, NULL), LAM_RANGE);
    lam_costs_free(c);
    lam_model_free(m);
}

/* One operator on a tensor of 1 x 4 x 8; the model's only call gives its result. */
static lam_costs *one(lam_model **m, const char *name, lam_op_arg second, lam_op_arg y) {
    net n = net_new();
    int32_t root = net_module(&n, "Mine", LAM_MODULE_LEAF);
    net_place(&n, -1, "", root);
    const lam_op_arg x = D(0, 1, 1, 4, 8);
    int32_t r = net_step_of(&n, root, -1, &x, &y);
    net_op_args(&n, name, (op_at){r, -1, LAM_FORWARD, 0}, IN(x, second), OUT(y));
    *m = net_done(&n);
    return net_costs(*m, "exact", false);
}

typedef struct want {
    double rf, stride;
    lam_state state;
    bool whole, at_most;
} want;

static void expect(const char *name, lam_op_arg second, lam_op_arg y, want w) {
    lam_model *m;
    lam_costs *c = one(&m, name, second, y);
    lam_rf_axis x;
    assert_int_equal(lam_costs_rf_axis(c, 0, 1, &x, NULL), LAM_OK);
    if (x.state != w.state || (w.state != LAM_UNKNOWN && (x.size != (int64_t)w.rf || x.at_most != w.at_most)))
        fail_msg("%s: %d positions %s, at most %d", name, (int)x.size, lam_state_name(x.state), x.at_most);
    assert_int_equal(x.reach == LAM_REACH_WHOLE, w.whole);
    if (w.state == LAM_UNKNOWN) assert_non_null(strstr(x.why, name));
    lam_costs_free(c);
    lam_model_free(m);
}

static void operators_do_what_they_do(void **state) {
    (void)state;
    const want same = {1, 1, LAM_EXACT, false, false}, whole = {8, 8, LAM_EXACT, true, false},
               bound = {8, 8, LAM_EXACT, true, true}, unknown = {0, 0, LAM_UNKNOWN, false, false};
    expect("aten::relu", N(1, 0), D(0, 9, 1, 4, 8), same);
    expect("aten::contiguous", N(1, 0), D(0, 9, 1, 4, 8), same);
    expect("aten::softmax_of_mine", N(1, -1), D(0, 9, 1, 4, 8), unknown);
    expect("aten::_softmax", N(1, -1), D(0, 9, 1, 4, 8), whole);
    expect("aten::cumsum", N(1, -1), D(0, 9, 1, 4, 8), (want){8, 1, LAM_EXACT, false, false});
    expect("aten::mean", I(1, 2), D(0, 9, 1, 4), whole);
    expect("aten::mean", I(1, 1), D(0, 9, 1, 8), same);
    expect("aten::slice", N(1, 2), D(0, 9, 1, 4, 8), same);
    expect("aten::permute", I(1, 0, 2, 1), D(0, 9, 1, 8, 4), same);
    expect("aten::view", I(1, 1, 32), D(0, 9, 1, 32), same);
    expect("aten::view", I(1, 1, 4, 2, 4), D(0, 9, 1, 4, 2, 4), (want){4, 4, LAM_EXACT, false, false});
    expect("aten::index_select", N(1, 2), D(0, 9, 1, 4, 8), bound);
    expect("aten::zeros_like", N(1, 0), D(0, 9, 1, 4, 8), (want){0, 0, LAM_EXACT, false, false});
    expect("aten::avg_pool1d", I(1, 2), D(0, 9, 1, 4, 4), (want){2, 2, LAM_EXACT, false, false});
    expect("aten::adaptive_avg_pool1d", I(1, 3), D(0, 9, 1, 4, 3), (want){4, 3, LAM_EXACT, false, false});
    expect("aten::upsample_linear1d", I(1, 16), D(0, 9, 1, 4, 16), (want){2, 0.5, LAM_EXACT, false, false});
    expect("aten::constant_pad_nd", I(1, 2, 3), D(0, 9, 1, 4, 13), same);
    expect("aten::as_strided", N(1, 2), D(0, 9, 1, 4, 8), unknown);
    expect("aten::scatter", N(1, 2), D(0, 9, 1, 4, 8), (want){1, 1, LAM_EXACT, false, true});
}

/* What calls its own name with more arguments is understood by these: a pool that is not told its window has
 * another field. */
static void an_overload_inside_itself(void **state) {
    (void)state;
    for (int inside = 0; inside < 2; inside++) {
        net n = net_new();
        int32_t root = net_module(&n, "Mine", LAM_MODULE_LEAF);
        net_place(&n, -1, "", root);
        const lam_op_arg x = D(0, 1, 1, 4, 8), y = D(0, 9, 1, 4, 4);
        int32_t r = net_step_of(&n, root, -1, &x, &y);
        int32_t outer = net_op_args(&n, "aten::avg_pool1d", (op_at){r, -1, LAM_FORWARD, 0}, IN(x), OUT(y));
        if (inside)
            net_op_args(&n, "aten::avg_pool1d", (op_at){r, outer, LAM_FORWARD, 0}, IN(x, I(1, 2)), OUT(y));
        lam_model *m = net_done(&n);
        lam_costs *c = net_costs(m, "exact", false);
        lam_rf_axis axis;
        assert_int_equal(lam_costs_rf_axis(c, 0, 1, &axis, NULL), LAM_OK);
        if (inside) assert_int_equal(axis.state, LAM_EXACT);
        assert_int_equal(axis.size == 2, inside);
        lam_costs_free(c);
        lam_model_free(m);
    }
}

/* The two parts of a chunk have one shape, and operators inside it make them. The second is known by its
 * place, or by its turn; if only one operator was seen inside, and the place is unknown, a part may see the
 * whole axis. */
static void parts_of_one_shape(void **state) {
    (void)state;
    enum { UNKNOWN, PLACE, TURN };
    for (int how = UNKNOWN; how <= TURN; how++) {
        const bool placed = how != UNKNOWN;
        net n = net_new();
        int32_t root = net_module(&n, "Mine", LAM_MODULE_LEAF);
        net_place(&n, -1, "", root);
        const lam_op_arg x = D(0, 1, 1, 4, 8), y = D(0, 9, 1, 4, 4),
                         parts[] = {V(0, 2, 1, 1, 4, 4), V(0, 3, 1, 1, 4, 4)};
        int32_t r = net_step_of(&n, root, -1, &x, &y);
        const op_at where = {r, -1, LAM_FORWARD, 0};
        const op_at inside = {r, net_op_args(&n, "aten::chunk", where, IN(x, N(1, 2), N(2, 2)), parts, 2),
                              LAM_FORWARD, 0};
        for (int64_t i = how == UNKNOWN; i < 2; i++)
            net_op_args(&n, how == PLACE ? "aten::slice" : "aten::as_strided", inside,
                        IN(x, N(1, 2), N(2, 4 * i), N(3, 4 * i + 4), N(4, 1)), OUT(parts[i]));
        net_op_args(&n, "aten::relu", where, IN(parts[1]), OUT(y));
        lam_model *m = net_done(&n);
        lam_costs *c = net_costs(m, "exact", false);
        lam_rf_axis axis;
        int64_t first, last;
        assert_int_equal(lam_costs_rf_axis(c, 0, 1, &axis, NULL), LAM_OK);
        assert_int_equal(axis.at_most, !placed);
        assert_int_equal(lam_costs_rf_seen(c, 0, 1, 0, &first, &last, NULL), LAM_OK);
        assert_int_equal(first, placed ? 4 : 0);
        assert_int_equal(last, placed ? 4 : 7);
        lam_costs_free(c);
        lam_model_free(m);
    }
}

/* Without windows the row has the axis along which something moves, also if it is not the usual one. */
static void the_axis_along_which_something_moves(void **state) {
    (void)state;
    for (int64_t axis = 0; axis < 3; axis++) {
        lam_model *m;
        lam_costs *c = one(&m, "aten::_softmax", N(1, axis), D(0, 9, 1, 4, 8));
        assert_true(lam_costs_row(c, 0)->rf == (axis == 2 ? 8 : axis == 1 ? 4 : 1));
        assert_int_equal(lam_costs_row(c, 0)->rf_whole, axis > 0);
        lam_costs_free(c);
        lam_model_free(m);
    }
}

static void a_tensor_of_unseen_origin_leaves_a_bound(void **state) {
    (void)state;
    lam_model *m;
    lam_costs *c = one(&m, "aten::add", D(1, 77, 1, 4, 8), D(0, 9, 1, 4, 8));
    assert_int_equal(lam_costs_row(c, 0)->rf_state, LAM_AT_LEAST);
    assert_true(lam_costs_row(c, 0)->rf == 1);
    lam_costs_free(c);
    lam_model_free(m);
}

/* So it does where it was added to axes that were merged and are split again. */
static void a_bound_outlives_a_view(void **state) {
    (void)state;
    for (int unseen = 0; unseen < 2; unseen++) {
        net n = net_new();
        int32_t root = net_module(&n, "Mine", LAM_MODULE_LEAF);
        net_place(&n, -1, "", root);
        const lam_op_arg x = D(0, 1, 1, 4, 8), y = V(0, 4, 3, 1, 4, 8), flat = V(0, 2, 1, 1, 32),
                         sum = D(0, 3, 1, 32);
        const op_at where = {net_step_of(&n, root, -1, &x, &y), -1, LAM_FORWARD, 0};
        net_op_args(&n, "aten::view", where, IN(x, I(1, 1, 32)), OUT(flat));
        net_op_args(&n, "aten::add", where, IN(flat, unseen ? D(1, 77, 1, 32) : V(1, 2, 1, 1, 32)), OUT(sum));
        net_op_args(&n, "aten::view", where, IN(sum, I(1, 1, 4, 8)), OUT(y));
        lam_model *m = net_done(&n);
        lam_costs *c = net_costs(m, "exact", false);
        lam_rf_axis of;
        int32_t axis = 0;
        for (; lam_costs_rf_axis(c, 0, axis, &of, NULL) == LAM_OK; axis++)
            if (of.size != 1 || of.state != (unseen ? LAM_AT_LEAST : LAM_EXACT))
                fail_msg("axis %d: %lld, state %d", (int)axis, (long long)of.size, (int)of.state);
        assert_int_equal(axis, 3);
        lam_costs_free(c);
        lam_model_free(m);
    }
}

/* Part of a memory that nobody was seen to make is cleared, and all of it, or what was cleared, goes into the
 * sum. */
static void a_part_of_unseen_memory_is_written(void **state) {
    (void)state;
    for (int whole = 0; whole < 2; whole++) {
        net n = net_new();
        int32_t root = net_module(&n, "Mine", LAM_MODULE_LEAF);
        net_place(&n, -1, "", root);
        const lam_op_arg x = D(0, 1, 2, 4, 8), y = D(0, 2, 2, 4, 8), part = V(0, 51, 50, 2, 4, 1);
        const op_at where = {net_step_of(&n, root, -1, &x, &y), -1, LAM_FORWARD, 0};
        net_op_args(&n, "aten::slice", where, IN(D(0, 50, 2, 4, 8), N(1, 2), N(2, 7), N(3, 8), N(4, 1)),
                    OUT(part));
        net_op_args(&n, "aten::zero_", where, IN(part), OUT(part));
        net_op_args(&n, "aten::add", where, IN(x, whole ? D(1, 50, 2, 4, 8) : V(1, 51, 50, 2, 4, 1)), OUT(y));
        lam_model *m = net_done(&n);
        lam_costs *c = net_costs(m, "exact", false);
        lam_rf_axis of;
        int32_t axis = 0;
        for (; lam_costs_rf_axis(c, 0, axis, &of, NULL) == LAM_OK; axis++)
            if (of.size != 1 || of.state != (whole ? LAM_AT_LEAST : LAM_EXACT))
                fail_msg("axis %d: %lld, state %d", (int)axis, (long long)of.size, (int)of.state);
        assert_int_equal(axis, 3);
        lam_costs_free(c);
        lam_model_free(m);
    }
}

/* y = relu(x), whose last position is cleared through a view; the model gives y. */
static lam_model *cleared(void) {
    net n = net_new();
    int32_t root = net_module(&n, "Mine", LAM_MODULE_LEAF);
    net_place(&n, -1, "", root);
    const lam_op_arg x = D(0, 1, 1, 4, 8), y = D(0, 2, 1, 4, 8), part = V(0, 3, 2, 1, 4, 1);
    const op_at where = {net_step_of(&n, root, -1, &x, &y), -1, LAM_FORWARD, 0};
    net_op_args(&n, "aten::relu", where, IN(x), OUT(y));
    net_op_args(&n, "aten::slice", where, IN(y, N(1, 2), N(2, 7), N(3, 8), N(4, 1)), OUT(part));
    net_op_args(&n, "aten::zero_", where, IN(part), OUT(part));
    return net_done(&n);
}

static void what_is_written_in_a_part_leaves_the_rest(void **state) {
    (void)state;
    lam_model *m = cleared();
    lam_costs *c = net_costs(m, "exact", false);
    int64_t first, last;
    lam_rf_axis x;
    assert_int_equal(lam_costs_rf_axis(c, 0, 1, &x, NULL), LAM_OK);
    assert_true(x.size == 1 && x.state == LAM_EXACT && !x.at_most);
    assert_int_equal(lam_costs_rf_seen(c, 0, 1, 6, &first, &last, NULL), LAM_OK);
    assert_true(first == 6 && last == 6);
    assert_int_equal(lam_costs_rf_seen(c, 0, 1, 7, &first, &last, NULL), LAM_OK);
    assert_true(last < first);
    lam_costs_free(c);
    lam_model_free(m);
}

/* A view of fewer axes, of which it is not known what it shows, is cleared. */
static void what_is_written_may_be_anywhere(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_module(&n, "Mine", LAM_MODULE_LEAF);
    net_place(&n, -1, "", root);
    const lam_op_arg x = D(0, 1, 1, 4, 8), y = D(0, 2, 1, 4, 8), part = V(0, 3, 2, 1, 4);
    const op_at where = {net_step_of(&n, root, -1, &x, &y), -1, LAM_FORWARD, 0};
    net_op_args(&n, "aten::relu", where, IN(x), OUT(y));
    net_op_args(&n, "aten::as_strided", where, IN(y), OUT(part));
    net_op_args(&n, "aten::zero_", where, IN(part), OUT(part));
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "exact", false);
    for (int32_t axis = 0; axis < 2; axis++) {
        lam_rf_axis of;
        assert_int_equal(lam_costs_rf_axis(c, 0, axis, &of, NULL), LAM_OK);
        assert_int_equal(of.size, x.sizes[1 + axis]);
        assert_true(of.at_most && of.state == LAM_EXACT);
    }
    lam_costs_free(c);
    lam_model_free(m);
}

static void field(void *arg, bool *ok) {
    lam_costs *c = NULL;
    lam_error e = {0};
    lam_rf_axis x;
    lam_cost_options o = {.convention = "exact"};
    *ok = oom_check(lam_costs_new(&c, arg, &o, &e), &e) && oom_check(lam_costs_rf_axis(c, 0, 1, &x, &e), &e);
    lam_costs_free(c);
}

static void memory_may_run_out(void **state) {
    (void)state;
    lam_model *m = net_residual();
    oom_sweep(net_try_costs, &(net_costing){m, "exact", false});
    lam_model_free(m);
    m = cleared();
    oom_sweep(field, m);
    lam_model_free(m);
}

/* -- from one view of memory to another --------------------------------------------------------- */

enum { ROWS = 12 };

/* Rows start, start + step, ... of a memory of ROWS rows, or one of them without its axis. */
static lmi_place rows_of(bool one) {
    lmi_place p;
    assert_true(lmi_place_whole(&p, 2, (const int64_t[]){ROWS, 3}));
    p.start[0] = draw(0, ROWS - 1);
    p.step[0] = draw(1, 3);
    p.count[0] = one ? 1 : draw(1, (ROWS - 1 - p.start[0]) / p.step[0] + 1);
    if (one) {
        p.of[0] = 1;
        p.n = 1;
    }
    return p;
}

/* Each row that both views show depends on what it depended on before, any other on nothing. */
static void what_is_written_is_read_through_another_view(void **state) {
    (void)state;
    for (int round = 0; round < 2000; round++) {
        lmi_arena a;
        lmi_span s;
        lmi_arena_init(&a, UINT64_MAX);
        bool one = draw(0, 2) == 0;
        lmi_place from = rows_of(false), to = rows_of(one);
        assert_true(lmi_span_input(&a, &s, 0, from.count[0]));
        assert_true(lmi_rf_move(&a, &s, &from, &to));
        for (int64_t o = 0; o < to.count[0]; o++) {
            int64_t row = to.start[0] + o * to.step[0] - from.start[0], at = row / from.step[0];
            bool shared = row >= 0 && row % from.step[0] == 0 && at < from.count[0];
            lmi_reach r = s.kind == LMI_SPAN_NONE ? (lmi_reach){1, 0} : lmi_span_clipped(&s, o);
            if (one) assert_int_equal(s.kind, shared ? LMI_SPAN_FIXED : LMI_SPAN_NONE);
            assert_false(s.loose);
            if (shared)
                assert_true(r.lo == at && r.hi == at);
            else
                assert_true(r.hi < r.lo);
        }
        lmi_arena_free(&a);
    }
}

/* Shapes of the same elements: both are made of the refined one by merging its axes, and no coarser one would
 * do. */
static void shapes_have_a_common_refinement(void **state) {
    (void)state;
    for (int round = 0; round < 3000; round++) {
        int64_t parts[6], x[6], y[6], sizes[LMI_AXES];
        int32_t n = (int32_t)draw(1, 6), nx = 0, ny = 0;
        lam_shape mid;
        bool ends_x[6], ends_y[6];
        for (int32_t i = 0; i < n; i++) {
            parts[i] = draw(2, 4);
            ends_x[i] = i + 1 == n || draw(0, 1);
            ends_y[i] = i + 1 == n || draw(0, 1) || !ends_x[i]; /* a part ends in one of them at least */
        }
        for (int32_t i = 0, fresh_x = 1, fresh_y = 1; i < n; i++) {
            x[nx] = fresh_x ? parts[i] : x[nx] * parts[i];
            y[ny] = fresh_y ? parts[i] : y[ny] * parts[i];
            fresh_x = ends_x[i];
            fresh_y = ends_y[i];
            nx += ends_x[i];
            ny += ends_y[i];
        }
        assert_true(lmi_refined((lam_shape){nx, x}, (lam_shape){ny, y}, sizes, &mid));
        assert_int_equal(mid.ndim, n);
        assert_memory_equal(mid.sizes, parts, (size_t)n * sizeof *parts);
    }
    lam_shape mid;
    int64_t sizes[LMI_AXES];
    const lam_shape a = {2, (const int64_t[]){2, 3}}, b = {2, (const int64_t[]){3, 2}},
                    none = {2, (const int64_t[]){2, 0}};
    assert_false(lmi_refined(a, b, sizes, &mid));
    assert_false(lmi_refined(none, none, sizes, &mid));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_is_a_word),
        cmocka_unit_test(intervals_are_those_that_a_search_finds),
        cmocka_unit_test(paths_meet_in_the_hull),
        cmocka_unit_test(paths_that_differ_at_one_end),
        cmocka_unit_test(unlike_jumps_along_a_long_axis),
        cmocka_unit_test(paths_reach_as_far_as_either),
        cmocka_unit_test(fields_that_are_given_up),
        cmocka_unit_test(a_scan_of_a_scan_sees_no_more),
        cmocka_unit_test(an_overload_inside_itself),
        cmocka_unit_test(rows_tell_size_jump_and_padding),
        cmocka_unit_test(operators_do_what_they_do),
        cmocka_unit_test(parts_of_one_shape),
        cmocka_unit_test(the_axis_along_which_something_moves),
        cmocka_unit_test(a_tensor_of_unseen_origin_leaves_a_bound),
        cmocka_unit_test(a_bound_outlives_a_view),
        cmocka_unit_test(a_part_of_unseen_memory_is_written),
        cmocka_unit_test(what_is_written_in_a_part_leaves_the_rest),
        cmocka_unit_test(what_is_written_may_be_anywhere),
        cmocka_unit_test(what_is_written_is_read_through_another_view),
        cmocka_unit_test(shapes_have_a_common_refinement),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
