/* SPDX-License-Identifier: Apache-2.0
 *
 * Views of views: the part of the memory that each is said to be is held against the elements that it shows,
 * counted one by one with the steps that torch would give it. */
#include "kit/ops_net.h"

#include "kit/draw.h"

#include "model/view.h"

enum { AXES = 5, CELLS = 4000, VIEWS = 7, PARTS = 4, MEMORY = 100 };

/* A tensor as torch has it: element (i, j, ...) is cell first + i * step[0] + j * step[1] + ... */
typedef struct tensor {
    int32_t n;
    int64_t first, size[AXES], step[AXES];
    uint64_t object;
    int32_t op, nth; /* whose result it is; -1: it was there before */
    bool told;       /* its part of the memory can be told */
} tensor;

/* What is asked of an operator besides its first argument: whole numbers at positions 1, 2, ... */
typedef struct asked {
    int32_t n;
    lam_op_arg a[5];
} asked;

static void ask(asked *q, int32_t position, int64_t i) {
    q->a[q->n++] = (lam_op_arg){
        .position = position, .dtype = -1, .device = -1, .ndim = -1, .value = {.type = LAM_INT, .i = i}};
}

static lam_op_arg argument(const tensor *t) {
    lam_op_arg a = net_op_tensor(0, t->size, t->n);
    a.storage = MEMORY;
    a.object = t->object;
    return a;
}

static uint64_t objects;

/* Pushes the operator that makes `n` views of `of`. */
static void push(net *n, const char *name, const tensor *of, const asked *q, tensor *views, int32_t n_views) {
    lam_op_arg in[6] = {argument(of)}, out[PARTS];
    for (int32_t i = 0; i < q->n; i++) in[1 + i] = q->a[i];
    for (int32_t i = 0; i < n_views; i++) {
        views[i].object = objects += 2;
        views[i].nth = i;
        out[i] = argument(&views[i]);
    }
    int32_t op = net_op_args(n, name, (op_at){-1, -1, LAM_FORWARD, 0}, in, 1 + q->n, out, n_views);
    if (n_views == 1 && draw(0, 3) == 0) /* as under autocast, where operators inside others are seen */
        op = net_op_args(n, "aten::as_strided", (op_at){-1, op, LAM_FORWARD, 0}, in, 1, out, 1);
    for (int32_t i = 0; i < n_views; i++) views[i].op = op;
}

static void remove_axis(tensor *t, int32_t axis) {
    for (int32_t i = axis; i + 1 < t->n; i++) {
        t->size[i] = t->size[i + 1];
        t->step[i] = t->step[i + 1];
    }
    t->n--;
}

static void insert_axis(tensor *t, int32_t axis, int64_t size) {
    for (int32_t i = t->n++; i > axis; i--) {
        t->size[i] = t->size[i - 1];
        t->step[i] = t->step[i - 1];
    }
    t->size[axis] = size;
    t->step[axis] = 0;
}

/* A position as it is given: from the front or from the back. */
static int64_t either(int64_t at, int64_t n) { return draw(0, 1) ? at : at - n; }

static void cut(tensor *v, int32_t axis, int64_t from, int64_t step, int64_t size) {
    if (v->step[axis] == 0 && v->size[axis] != size) v->told = false; /* which copies is not kept */
    v->first += from * v->step[axis];
    v->step[axis] *= step;
    v->size[axis] = size;
}

/* -- one view, drawn --------------------------------------------------------------------------- */

static int32_t sliced(net *n, const tensor *t, tensor *v) {
    int32_t axis = (int32_t)draw(0, t->n - 1);
    int64_t size = t->size[axis], from = draw(0, size - 1), step = draw(1, 3), to = draw(from + 1, size);
    asked q = {0};
    ask(&q, 1, either(axis, t->n));
    ask(&q, 2, from == 0 && draw(0, 1) ? -size - 1 : either(from, size)); /* too far back is the first */
    ask(&q, 3, to == size ? INT64_MAX : to);
    ask(&q, 4, step);
    cut(v, axis, from, step, (to - from + step - 1) / step);
    push(n, "aten::slice", t, &q, v, 1);
    return 1;
}

static int32_t selected(net *n, const tensor *t, tensor *v) {
    int32_t axis = (int32_t)draw(0, t->n - 1);
    int64_t at = draw(0, t->size[axis] - 1);
    asked q = {0};
    ask(&q, 1, either(axis, t->n));
    ask(&q, 2, either(at, t->size[axis]));
    v->first += at * t->step[axis];
    remove_axis(v, axis);
    push(n, "aten::select", t, &q, v, 1);
    return 1;
}

static int32_t unbound(net *n, const tensor *t, tensor *v) {
    int32_t axis = (int32_t)draw(0, t->n - 1);
    asked q = {0};
    if (t->size[axis] > PARTS) return 0;
    if (axis || draw(0, 1)) ask(&q, 1, either(axis, t->n));
    for (int32_t i = 0; i < t->size[axis]; i++) {
        v[i] = *t;
        v[i].first += i * t->step[axis];
        remove_axis(&v[i], axis);
    }
    push(n, "aten::unbind", t, &q, v, (int32_t)t->size[axis]);
    return (int32_t)t->size[axis];
}

static int32_t parted(net *n, const tensor *t, tensor *v) {
    static const char *const names[] = {"aten::split",
                                        "aten::split_with_sizes",
                                        "aten::chunk",
                                        "aten::tensor_split",
                                        "aten::unsafe_split",
                                        "aten::unsafe_chunk",
                                        "aten::unsafe_split_with_sizes"};
    int32_t axis = (int32_t)draw(0, t->n - 1), parts = 0;
    asked q = {0};
    ask(&q, 1, 1);
    if (axis || draw(0, 1)) ask(&q, 2, either(axis, t->n));
    for (int64_t at = 0, size; at < t->size[axis]; at += size) {
        size = parts == PARTS - 1 ? t->size[axis] - at : draw(1, t->size[axis] - at);
        v[parts] = *t;
        cut(&v[parts++], axis, at, 1, size);
        if (t->step[axis] == 0) v[parts - 1].told = t->told; /* each has a copy of all that there is */
    }
    push(n, names[draw(0, 6)], t, &q, v, parts);
    return parts;
}

static int32_t permuted(net *n, const tensor *t, tensor *v) {
    int64_t order[AXES];
    for (int32_t i = 0; i < t->n; i++) order[i] = i;
    for (int32_t i = t->n - 1; i > 0; i--) {
        int32_t with = (int32_t)draw(0, i);
        int64_t was = order[i];
        order[i] = order[with];
        order[with] = was;
    }
    for (int32_t i = 0; i < t->n; i++) {
        v->size[i] = t->size[order[i]];
        v->step[i] = t->step[order[i]];
        order[i] = either(order[i], t->n);
    }
    asked q = {1, {{.position = 1, .value = {.type = LAM_INTS, .n = t->n, .ints = order}}}};
    push(n, "aten::permute", t, &q, v, 1);
    return 1;
}

static int32_t transposed(net *n, const tensor *t, tensor *v) {
    int32_t x = (int32_t)draw(0, t->n - 1), y = (int32_t)draw(0, t->n - 1);
    bool short_name = t->n < 3 && draw(0, 1);
    asked q = {0};
    if (short_name) {
        x = 0;
        y = t->n - 1;
    } else {
        ask(&q, 1, either(x, t->n));
        ask(&q, 2, either(y, t->n));
    }
    v->size[x] = t->size[y];
    v->step[x] = t->step[y];
    v->size[y] = t->size[x];
    v->step[y] = t->step[x];
    push(n, short_name ? "aten::t" : "aten::transpose", t, &q, v, 1);
    return 1;
}

static int32_t expanded(net *n, const tensor *t, tensor *v) {
    asked q = {0};
    if (v->n < AXES && draw(0, 1)) insert_axis(v, 0, draw(1, 3));
    for (int32_t i = 0; i < v->n; i++)
        if (v->size[i] == 1 && draw(0, 1)) {
            v->size[i] = 2;
            v->step[i] = 0;
        }
    push(n, "aten::expand", t, &q, v, 1);
    return 1;
}

/* Axes of one element come and go. */
static int32_t reshaped(net *n, const tensor *t, tensor *v) {
    static const char *const names[] = {"aten::view",      "aten::_unsafe_view", "aten::reshape",
                                        "aten::unsqueeze", "aten::squeeze",      "aten::_reshape_alias",
                                        "aten::flatten",   "aten::unflatten"};
    asked q = {0};
    for (int32_t i = v->n - 1; i >= 0; i--)
        if (v->size[i] == 1 && draw(0, 1)) remove_axis(v, i);
    while (v->n < AXES && draw(0, 1)) insert_axis(v, (int32_t)draw(0, v->n), 1);
    push(n, names[draw(0, 7)], t, &q, v, 1);
    return 1;
}

/* Two axes become one, which no part of the memory's axes is. */
static int32_t merged(net *n, const tensor *t, tensor *v) {
    asked q = {0};
    if (t->n < 2 || t->size[0] < 2 || t->size[1] < 2 || t->step[0] != t->step[1] * t->size[1]) return 0;
    remove_axis(v, 0);
    v->size[0] = t->size[0] * t->size[1];
    v->told = false;
    push(n, draw(0, 1) ? "aten::flatten" : "aten::view", t, &q, v, 1);
    return 1;
}

static int32_t same(net *n, const tensor *t, tensor *v) {
    static const char *const names[] = {"aten::detach", "aten::alias",   "aten::positive",
                                        "aten::to",     "aten::view_as", "aten::contiguous",
                                        "my::view",     "aten::diagonal"};
    int64_t which = draw(0, 7);
    asked q = {0};
    if (which > 5) v->told = false; /* of a view that is not followed nothing is told */
    push(n, names[which], t, &q, v, 1);
    return 1;
}

/* -- what it is held against ------------------------------------------------------------------- */

/* The next element of those sizes, the last axis counting fastest. */
static bool next(int64_t *at, const int64_t *size, int32_t n) {
    for (int32_t i = n - 1; i >= 0; i--) {
        if (++at[i] < size[i]) return true;
        at[i] = 0;
    }
    return false;
}

static void mark_tensor(const tensor *t, bool *cells) {
    int64_t at[AXES] = {0};
    memset(cells, 0, CELLS * sizeof *cells);
    do {
        int64_t cell = t->first;
        for (int32_t i = 0; i < t->n; i++) cell += at[i] * t->step[i];
        cells[cell] = true;
    } while (next(at, t->size, t->n));
}

static void mark_place(const lmi_place *p, bool *cells) {
    int64_t at[AXES] = {0};
    memset(cells, 0, CELLS * sizeof *cells);
    do {
        int64_t cell = 0;
        for (int32_t i = 0; i < p->n_base; i++) cell = cell * p->size[i] + p->start[i] + at[i] * p->step[i];
        cells[cell] = true;
    } while (next(at, p->count, p->n_base));
}

/* The axes of the view go along those of the memory that it has the steps of. */
static void assert_axes(const tensor *t, const lmi_place *p) {
    assert_int_equal(p->n, t->n);
    for (int32_t i = 0; i < t->n; i++) {
        if (t->size[i] == 1) continue;
        int64_t step = p->of[i] < 0 ? 0 : p->step[p->of[i]];
        for (int32_t k = p->of[i] + 1; step && k < p->n_base; k++) step *= p->size[k];
        assert_int_equal(step, t->step[i]);
        if (p->of[i] >= 0) assert_int_equal(p->count[p->of[i]], t->size[i]);
    }
}

static bool steps_alike(const lmi_place *x, const lmi_place *y) {
    for (int32_t i = 0; i < x->n_base; i++)
        if (x->step[i] != y->step[i]) return false;
    return true;
}

/* Two parts share an element, or one holds the other, exactly where their cells do. */
static void assert_pair(const lmi_place *x, const bool *in_x, const lmi_place *y, const bool *in_y) {
    bool meet = false, holds = true;
    for (int32_t i = 0; i < CELLS; i++) {
        meet = meet || (in_x[i] && in_y[i]);
        holds = holds && (in_x[i] || !in_y[i]);
    }
    assert_true(lmi_places_comparable(x, y));
    assert_int_equal(lmi_place_holds(x, y), holds);
    if (meet || steps_alike(x, y)) assert_int_equal(lmi_places_meet(x, y), meet);
}

/* Whose the memory is that views are taken of: an operator made it, a parameter's, and nobody's that was
 * seen, of which nothing is told. */
enum { MADE, OWNED, UNSEEN };

static tensor memory_of(net *n, int64_t whose) {
    tensor t = {.n = (int32_t)draw(1, 3), .op = -1, .told = whose != UNSEEN};
    int64_t step = 1;
    objects = 1000;
    for (int32_t i = t.n - 1; i >= 0; i--) {
        t.size[i] = draw(1, 5);
        t.step[i] = step;
        step *= t.size[i];
    }
    t.object = objects;
    const lam_op_arg in = net_op_tensor(0, t.size, t.n), out = argument(&t);
    if (whose == MADE) t.op = net_op_args(n, "aten::relu", (op_at){-1, -1, LAM_FORWARD, 0}, &in, 1, &out, 1);
    lam_tensor_info w = {.dtype = NET_FLOAT32,
                         .ndim = t.n,
                         .sizes = t.size,
                         .bytes = -1,
                         .storage = whose == OWNED ? MEMORY : 8,
                         .object = whose == OWNED ? t.object : 10};
    NET_OK(n, lam_build_tensor(n->b, &w, NULL, &n->e));
    return t;
}

typedef int32_t (*maker)(net *, const tensor *, tensor *);

static void parts_are_the_cells_that_are_shown(void **state) {
    static const maker makers[] = {sliced,     selected, unbound,  parted, permuted,
                                   transposed, expanded, reshaped, merged, same};
    static bool cells[VIEWS * PARTS + 1][CELLS], found[CELLS];
    (void)state;
    for (uint32_t round = 0; round < 400; round++) {
        tensor all[VIEWS * PARTS + 1];
        lmi_place places[VIEWS * PARTS + 1];
        seed = round * 7919 + 3;
        net n = net_new();
        all[0] = memory_of(&n, round % 8 ? round % 2 : UNSEEN);
        int32_t made = 1, told = 0;
        for (int32_t i = 0; i < VIEWS; i++) {
            const tensor *of = &all[draw(draw(0, 1) ? made - 1 : 0, made - 1)];
            for (int32_t k = 0; k < PARTS; k++) all[made + k] = *of;
            if (of->n > 0) made += makers[draw(0, 9)](&n, of, &all[made]);
        }
        lam_model *m = net_done(&n);
        NET_OK(&n, lam_model_find_sources(m, &n.e));
        for (int32_t i = 1; i < made; i++) {
            lmi_place p;
            bool can = lmi_place_of(m, m->edges, all[i].op, all[i].nth, all[i].n, all[i].size, &p);
            assert_int_equal(can, all[i].told);
            if (!can) continue;
            int64_t shown = 0, whole = 1;
            mark_tensor(&all[i], cells[told]);
            for (int32_t k = 0; k < CELLS; k++) shown += cells[told][k];
            for (int32_t k = 0; k < all[0].n; k++) whole *= all[0].size[k];
            assert_int_equal(lmi_place_is_whole(&p), shown == whole);
            mark_place(&p, found);
            assert_memory_equal(found, cells[told], sizeof found);
            assert_axes(&all[i], &p);
            places[told++] = p;
        }
        for (int32_t i = 0; i < told; i++)
            for (int32_t k = 0; k < told; k++) assert_pair(&places[i], cells[i], &places[k], cells[k]);
        lam_model_free(m);
    }
}

/* -- one view, by hand ------------------------------------------------------------------------- */

#define W(at, number) ((lam_op_arg){.position = at, .ndim = -1, .value = {.type = LAM_INT, .i = number}})
#define WS(at, count, ...)                                                                                   \
    ((lam_op_arg){.position = at,                                                                            \
                  .ndim = -1,                                                                                \
                  .value = {.type = LAM_INTS, .n = count, .ints = (const int64_t[]){__VA_ARGS__}}})

typedef struct one_view {
    const char *name;
    int32_t n_of, n; /* axes of what it is taken of, and its own */
    int64_t of[9], size[9];
    int32_t n_asked;
    lam_op_arg asked[4];
} one_view;

/* Whether the place of `times` views, each of the one before, is told. */
static bool is_told(const one_view *v, int32_t times, bool unseen, lmi_place *p) {
    net n = net_new();
    lam_op_arg x = net_op_tensor(0, v->of, v->n_of), y = net_op_tensor(0, v->size, v->n), in[5];
    x.storage = y.storage = MEMORY;
    x.object = 1000;
    int32_t op = net_op_args(&n, "aten::relu", (op_at){-1, -1, LAM_FORWARD, 0}, NULL, 0, &x, 1);
    for (int32_t i = 0; i < times; i++) {
        y.object = x.object + 2;
        in[v->n_asked] = x; /* arguments are known by their position, not by their order */
        if (unseen) in[v->n_asked] = (lam_op_arg){.is_tensor = true, .dtype = x.dtype, .ndim = -1};
        in[v->n_asked].storage = MEMORY;
        in[v->n_asked].object = x.object;
        for (int32_t k = 0; k < v->n_asked; k++) in[k] = v->asked[k];
        op = net_op_args(&n, v->name, (op_at){-1, -1, LAM_FORWARD, 0}, in, v->n_asked + 1, &y, 1);
        x = y;
    }
    lam_model *m = net_done(&n);
    NET_OK(&n, lam_model_find_sources(m, &n.e));
    bool told = lmi_place_of(m, m->edges, op, 0, v->n, v->size, p);
    lam_model_free(m);
    return told;
}

static void what_is_left_out_or_odd(void **state) {
    /* Where it starts, its step, and how many: of the memory's first axis. */
    const struct {
        one_view v;
        int64_t start, step, count;
    } told[] = {
        {{"aten::slice", 1, 1, {6}, {4}, 0, {{0}}}, 0, 1, 4},
        {{"aten::slice", 1, 1, {6}, {2}, 1, {W(2, -2)}}, 4, 1, 2},
        {{"aten::slice", 1, 1, {6}, {2}, 2, {W(4, 3), W(2, 1)}}, 1, 3, 2},
        {{"aten::slice", 1, 1, {6}, {0}, 1, {W(2, 6)}}, 6, 1, 0},
        {{"aten::select", 2, 1, {6, 2}, {6}, 2, {WS(1, 1, 1), W(2, 1)}}, 0, 1, 6},
        {{"aten::select", 2, 1, {6, 2}, {2}, 2, {WS(1, 2, 1, 1), W(2, 3)}}, 3, 1, 1},
        {{"aten::t", 1, 1, {6}, {6}, 0, {{0}}}, 0, 1, 6},
        {{"aten::transpose", 1, 1, {6}, {6}, 2, {W(1, 0), W(2, -1)}}, 0, 1, 6},
        {{"aten::view", 3, 2, {6, 1, 1}, {1, 6}, 0, {{0}}}, 0, 1, 6},
        {{"aten::view", 1, 8, {6}, {1, 1, 1, 1, 1, 1, 1, 6}, 0, {{0}}},
         0,
         1,
         6}, /* as many as there may be */
        {{"aten::expand", 1, 8, {6}, {1, 1, 1, 1, 1, 1, 1, 6}, 0, {{0}}}, 0, 1, 6},
    };
    const one_view untold[] = {
        {"aten::slice", 1, 1, {6}, {3}, 1, {W(4, 3)}}, /* there are only two */
        {"aten::slice", 1, 1, {6}, {3}, 1, {W(2, 4)}},
        {"aten::slice", 1, 1, {6}, {3}, 1, {W(4, 0)}},
        {"aten::slice", 2, 2, {6, 6}, {3, 6}, 1, {W(1, 2)}},
        {"aten::slice", 2, 2, {6, 6}, {3, 6}, 1, {W(1, -3)}},
        {"aten::slice", 2, 1, {6, 6}, {3}, 0, {{0}}},
        {"aten::select", 2, 1, {6, 6}, {6}, 1, {W(2, 6)}},
        {"aten::select", 2, 1, {6, 6}, {6}, 1, {W(2, -7)}},
        {"aten::select", 2, 1, {6, 6}, {6}, 1, {W(1, 2)}},
        {"aten::split", 2, 2, {6, 6}, {3, 6}, 1, {W(2, 2)}},
        {"aten::split", 2, 1, {6, 6}, {3}, 0, {{0}}},
        {"aten::split", 1, 1, {6}, {7}, 0, {{0}}},
        {"aten::permute", 2, 2, {2, 3}, {3, 2}, 0, {{0}}},
        {"aten::permute", 2, 2, {2, 3}, {3, 2}, 1, {W(1, 1)}},
        {"aten::permute", 2, 2, {2, 3}, {3, 2}, 1, {WS(1, 1, 1)}},
        {"aten::permute", 2, 2, {2, 3}, {3, 2}, 1, {WS(1, 2, 2, 0)}},
        {"aten::permute", 2, 2, {2, 3}, {3, 2}, 1, {WS(1, 2, 1, -3)}},
        {"aten::permute", 2, 2, {2, 3}, {3, 2}, 1, {WS(1, 3, 1, 0, 0)}},
        {"aten::transpose", 2, 2, {2, 3}, {3, 2}, 2, {W(1, 0), W(2, 2)}},
        {"aten::transpose", 2, 2, {2, 3}, {3, 2}, 2, {W(1, -3), W(2, 1)}},
        {"aten::view", 2, 2, {2, 3}, {3, 2}, 0, {{0}}},
        {"aten::view", 2, 1, {2, 3}, {2}, 0, {{0}}},
        {"aten::view", 1, 2, {2}, {2, 3}, 0, {{0}}},
        {"aten::view", 1, 9, {2}, {2, 1, 1, 1, 1, 1, 1, 1, 1}, 0, {{0}}},
        {"aten::expand", 1, 9, {2}, {1, 1, 1, 1, 1, 1, 1, 1, 2}, 0, {{0}}},
        {"aten::expand", 2, 1, {1, 2}, {2}, 0, {{0}}},
        {"aten::detach", 2, 1, {1, 2}, {2}, 0, {{0}}},
        {"aten::detach", 9, 9, {1, 1, 1, 1, 1, 1, 1, 1, 2}, {1, 1, 1, 1, 1, 1, 1, 1, 2}, 0, {{0}}},
        {"aten::detach", 1, -1, {6}, {0}, 0, {{0}}},
    };
    (void)state;
    lmi_place p;
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        assert_true(is_told(&told[i].v, 1, false, &p));
        assert_int_equal(p.start[0], told[i].start);
        assert_int_equal(p.step[0], told[i].step);
        assert_int_equal(p.count[0], told[i].count);
        assert_false(is_told(&told[i].v, 1, true, &p)); /* of an argument whose shape nobody saw */
    }
    for (size_t i = 0; i < sizeof untold / sizeof *untold; i++)
        if (is_told(&untold[i], 1, false, &p)) fail_msg("%s, row %zu, is told", untold[i].name, i);
}

/* Views of views are followed so deep, and no deeper. */
static void a_long_chain(void **state) {
    static const one_view same = {"aten::detach", 1, 1, {6}, {6}, 0, {{0}}};
    lmi_place p;
    (void)state;
    assert_true(is_told(&same, 63, false, &p));
    assert_true(lmi_place_is_whole(&p));
    assert_false(is_told(&same, 64, false, &p));
}

/* Parts of memory that was given another shape may share anything. */
static void parts_of_unlike_shapes(void **state) {
    lmi_place x, more, fewer, part;
    (void)state;
    assert_true(lmi_place_whole(&x, 2, (const int64_t[]){2, 3}));
    assert_true(lmi_place_whole(&more, 2, (const int64_t[]){2, 4}));
    assert_true(lmi_place_whole(&fewer, 1, (const int64_t[]){2}));
    assert_false(lmi_place_whole(&part, -1, NULL));
    const lmi_place *others[] = {&more, &fewer};
    for (int i = 0; i < 2; i++) {
        assert_false(lmi_places_comparable(&x, others[i]));
        assert_false(lmi_places_comparable(others[i], &x));
        assert_true(lmi_places_meet(&x, others[i]));
        assert_false(lmi_place_holds(others[i], &x));
    }
    part = x;
    part.count[1] = 0;
    assert_false(lmi_places_meet(&x, &part));
    assert_false(lmi_places_meet(&part, &x));
    assert_true(lmi_place_holds(&x, &part));
    assert_false(lmi_place_holds(&part, &x));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_the_cells_that_are_shown),
        cmocka_unit_test(what_is_left_out_or_odd),
        cmocka_unit_test(a_long_chain),
        cmocka_unit_test(parts_of_unlike_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
