/* SPDX-License-Identifier: Apache-2.0
 *
 * Proofs of `exact` for normalisations, softmax and losses of margins, forward and backward. */
#include "kit/oom.h"

#include "kit/op_build.h"

/* The elements of a tensor, dealt to rows that share one mean: element i belongs to row `row[i]` and has
 * scale number `scale[i]`. */
typedef struct deal {
    int64_t n, rows, scales;
    int64_t row[256], scale[256], in_row[256];
} deal;

/* (batch, channels, more) a channel a row; the last axes a row; or groups of channels. */
static void deal_batch(deal *d, int64_t batch, int64_t chan, int64_t more) {
    *d = (deal){.n = batch * chan * more, .rows = chan, .scales = chan};
    for (int64_t i = 0; i < d->n; i++) d->row[i] = d->scale[i] = i / more % chan;
}
static void deal_rows(deal *d, int64_t rows, int64_t per) {
    *d = (deal){.n = rows * per, .rows = rows, .scales = per};
    for (int64_t i = 0; i < d->n; i++) {
        d->row[i] = i / per;
        d->scale[i] = i % per;
    }
}
static void deal_groups(deal *d, int64_t batch, int64_t chan, int64_t more, int64_t groups) {
    *d = (deal){.n = batch * chan * more, .rows = batch * groups, .scales = chan};
    for (int64_t i = 0; i < d->n; i++) {
        d->scale[i] = i / more % chan;
        d->row[i] = i / (more * chan) * groups + d->scale[i] / (chan / groups);
    }
}

/* Adds the terms of each of n groups up: one addition fewer than terms. */
static void sums(const deal *d, const int64_t *of, int64_t n) {
    bool begun[256] = {false};
    assert_true(n <= 256);
    for (int64_t i = 0; i < d->n; i++) {
        if (begun[of[i]]) (void)add(1, 1);
        begun[of[i]] = true;
    }
}

static void each(int64_t n, int64_t ops) {
    for (int64_t i = 0; i < n * ops; i++) (void)mul(1, 1);
}

/* Mean and variance of each row, a root, and (x - mean) / root an element. */
static void normalise(const deal *d) {
    sums(d, d->row, d->rows);
    each(d->rows, 1);
    each(d->n, 2);
    sums(d, d->row, d->rows);
    each(d->rows, 1);
    each(d->rows, 2);
    each(d->n, 2);
}

/* x / sqrt(eps + mean(x^2)) */
static void by_root(const deal *d) {
    each(d->n, 1);
    sums(d, d->row, d->rows);
    each(d->rows, 3);
    each(d->n, 1);
}

static void affine(const deal *d, bool scales, bool shifts) { each(d->n, (int64_t)scales + shifts); }

static void reads(int64_t n) {
    if (n > 0) rd_all(cells_of(n));
}
static void writes(int64_t n) {
    if (n > 0) wr_all(cells_of(n));
}

/* -- forward ------------------------------------------------------------------------------------------- */

static void batch_norm(void **state) {
    (void)state;
    for (int i = 0; more(i, 3000); i++) {
        reseed((uint64_t)i);
        int64_t batch = pick(1, 4), chan = pick(1, 4), more = pick(1, 4);
        bool scales = coin(), shifts = coin(), tracked = coin(), training = coin() || !tracked, told = coin();
        deal d;
        deal_batch(&d, batch, chan, more);
        op_new(coin() ? "aten::native_batch_norm" : "aten::_native_batch_norm_legit");
        in_tensor(0, SIZES(batch, chan, more));
        scales ? in_tensor(1, SIZES(chan)) : in_none(1);
        shifts ? in_tensor(2, SIZES(chan)) : in_none(2);
        for (int32_t k = 3; k < 5; k++) tracked ? in_tensor(k, SIZES(chan)) : in_none(k);
        if (told) in_bool(5, training);
        out_tensor(0, SIZES(batch, chan, more));
        for (int32_t k = 1; k < 3; k++) out_tensor(k, SIZES(training ? chan : 0));
        if (training)
            normalise(&d);
        else
            each(d.rows, 2), each(d.n, 2);
        affine(&d, scales, shifts);
        if (training && tracked) each(chan, 7); /* 3 for the mean, 4 for the unbiased variance */
        reads(d.n), reads(chan * (scales + shifts + 2 * tracked));
        writes(d.n), writes(training ? 2 * chan : 0), writes(training && tracked ? 2 * chan : 0);
        op_proves();
    }
}

static void rows_norm(void **state) {
    (void)state;
    for (int i = 0; more(i, 4000); i++) {
        reseed((uint64_t)i);
        bool grouped = coin(), rms = !grouped && coin(), scales = coin(), shifts = !rms && coin();
        int64_t batch = pick(1, 3), groups = pick(1, 2), chan = groups * pick(1, 3), more = pick(1, 3);
        deal d;
        if (grouped)
            deal_groups(&d, batch, chan, more, groups);
        else
            deal_rows(&d, batch * chan, more);
        op_new(grouped ? "aten::native_group_norm"
               : rms   ? "aten::_fused_rms_norm"
                       : "aten::native_layer_norm");
        int32_t w = grouped ? 1 : 2;
        in_tensor(0, SIZES(batch, chan, more));
        if (!grouped) in_ints(1, SIZES(more));
        scales ? in_tensor(w, SIZES(d.scales)) : in_none(w);
        if (!rms) shifts ? in_tensor(w + 1, SIZES(d.scales)) : in_none(w + 1);
        out_tensor(0, SIZES(batch, chan, more));
        for (int32_t k = 1; k < 3 - rms; k++) out_tensor(k, SIZES(d.rows));
        rms ? by_root(&d) : normalise(&d);
        affine(&d, scales, shifts);
        reads(d.n), reads(d.scales * (scales + shifts));
        writes(d.n), writes(d.rows * (2 - rms));
        op_proves();
    }
}

/* Tensors that are added before. */
static void skip_norm(void **state) {
    (void)state;
    for (int i = 0; more(i, 10000); i++) {
        reseed((uint64_t)i);
        const bool rms = coin(), shifts = !rms && coin(), added = coin(), means = coin();
        const int64_t batch = pick(1, 3), chan = pick(1, 4), n = batch * chan;
        deal d;
        deal_rows(&d, batch, chan);
        op_new(rms ? "com.microsoft::SkipSimplifiedLayerNormalization"
                   : "com.microsoft::SkipLayerNormalization");
        in_tensor(0, SIZES(batch, chan));
        in_tensor(1, SIZES(batch, chan));
        in_tensor(2, SIZES(chan));
        if (shifts) in_tensor(3, SIZES(chan));
        if (added) in_tensor(rms ? 3 : 4, SIZES(chan));
        out_tensor(0, SIZES(batch, chan));
        if (means) out_tensor(1, SIZES(batch, 1));
        each(n, 1 + added);
        rms ? by_root(&d) : normalise(&d);
        affine(&d, true, shifts);
        reads(2 * n), reads(chan * (1 + shifts + added));
        writes(n), writes(means ? batch : 0);
        op_proves();
    }
}

/* -- backward ------------------------------------------------------------------------------------------ */

static void outputs(const bool *want, int32_t n, int64_t a, int64_t b, int64_t c, int64_t scales) {
    for (int32_t k = 0; k < n; k++) {
        if (!want[k])
            out_none(k);
        else if (k == 0)
            out_tensor(0, SIZES(a, b, c));
        else
            out_tensor(k, SIZES(scales));
        if (want[k]) writes(k ? scales : a * b * c);
    }
}

/* gw = sum g*x^ and gb = sum g over each channel; gx = (g - gb/n - x^*gw/n) * (gamma/std). */
static void batch_norm_backward(void **state) {
    (void)state;
    for (int i = 0; more(i, 3000); i++) {
        reseed((uint64_t)i);
        int64_t batch = pick(1, 4), chan = pick(1, 4), more = pick(1, 4);
        bool scales = coin(), training = coin(), want[3] = {coin(), coin(), coin()};
        deal d;
        deal_batch(&d, batch, chan, more);
        op_new("aten::native_batch_norm_backward");
        in_tensor(0, SIZES(batch, chan, more));
        in_tensor(1, SIZES(batch, chan, more));
        scales ? in_tensor(2, SIZES(chan)) : in_none(2);
        in_bool(7, training);
        bool told = coin(), beyond = told && !want[0] && coin(); /* returned in any case, without memory */
        if (told) in_ints(9, SIZES(want[0], want[1], want[2]));
        reads(2 * d.n), reads(scales ? chan : 0);
        outputs(want, 3, batch, chan, more, chan);
        if (beyond) out_tensor(0, SIZES(batch, chan, more));
        bool x = want[0], w = want[1], b = want[2];
        if (!training && (x || w)) each(chan, 2); /* the root of the running variance */
        if (w || (x && training)) {
            each(d.n, 2); /* x^ */
            each(d.n, 1);
            sums(&d, d.row, d.rows);
        }
        if (b || (x && training)) sums(&d, d.row, d.rows);
        if (x && training) each(chan, 2 + scales), each(d.n, 4);
        if (x && !training) each(chan, 1), each(d.n, 1);
        op_proves();
    }
    op_new("aten::native_batch_norm_backward"); /* the mode was not told */
    in_tensor(0, SIZES(2, 3));
    in_tensor(1, SIZES(2, 3));
    in_none(7);
    out_tensor(0, SIZES(2, 3));
    op_says(0, -1, 18);
}

/* h = g*gamma; gx = (h - mean h - x^ * mean(h*x^)) / std, and gradients of gamma and beta over all rows. */
static void row_norm_backward(void **state) {
    (void)state;
    for (int i = 0; more(i, 4000); i++) {
        reseed((uint64_t)i);
        bool grouped = coin(), rms = !grouped && coin(), scales = coin(), want[3] = {coin(), coin(), coin()};
        int64_t batch = pick(1, 3), groups = pick(1, 2), chan = groups * pick(1, 3), more = pick(1, 3);
        deal d;
        if (grouped)
            deal_groups(&d, batch, chan, more, groups);
        else
            deal_rows(&d, batch * chan, more);
        op_new(grouped ? "aten::native_group_norm_backward"
               : rms   ? "aten::_fused_rms_norm_backward"
                       : "aten::native_layer_norm_backward");
        int32_t mean = grouped ? 2 : 3, w = grouped ? 4 : rms ? 4 : 5;
        in_tensor(0, SIZES(batch, chan, more));
        in_tensor(1, SIZES(batch, chan, more));
        in_tensor(mean, SIZES(d.rows));
        scales ? in_tensor(w, SIZES(d.scales)) : in_none(w);
        reads(2 * d.n + d.rows), reads(scales ? d.scales : 0);
        bool gx = want[0], gw = want[1], gb = !rms && want[2];
        outputs(want, rms ? 2 : 3, batch, chan, more, d.scales);
        if (gx || gw) each(d.n, rms ? 1 : 2); /* x^ */
        if (gx) {
            if (scales) each(d.n, 1);
            if (!rms) sums(&d, d.row, d.rows), each(d.rows, 1);
            each(d.n, 1), sums(&d, d.row, d.rows), each(d.rows, 1);
            each(d.n, rms ? 3 : 4);
        }
        if (gw) each(d.n, 1), sums(&d, d.scale, d.scales);
        if (gb) sums(&d, d.scale, d.scales);
        op_proves();
    }
}

/* v * (g / |v|) and its gradients, a row a scale. */
static void weight_norm(void **state) {
    (void)state;
    for (int i = 0; more(i, 1000); i++) {
        reseed((uint64_t)i);
        int64_t rows = pick(1, 5), per = pick(1, 6);
        bool back = coin();
        deal d;
        deal_rows(&d, rows, per);
        op_new(back ? "aten::_weight_norm_interface_backward" : "aten::_weight_norm_interface");
        in_tensor(0, SIZES(rows, per));
        if (back) in_tensor(1, SIZES(rows, per));
        in_tensor(2, SIZES(rows, 1));
        out_tensor(0, SIZES(rows, per));
        out_tensor(1, SIZES(rows, 1));
        reads(d.n * (1 + back) + rows), writes(d.n + rows);
        each(d.n, 1), sums(&d, d.row, rows); /* squares, or d*v */
        each(rows, back ? 4 : 2);            /* s/|v|, g/|v|, |v|^2, s/|v|^2, or a root and g/|v| */
        each(d.n, back ? 3 : 1);
        op_proves();
    }
}

/* -- softmax ------------------------------------------------------------------------------------------- */

static void softmax(void **state) {
    (void)state;
    static const char *const names[] = {"aten::_softmax", "aten::_log_softmax",
                                        "aten::_softmax_backward_data", "aten::_log_softmax_backward_data"};
    for (int i = 0; more(i, 4000); i++) {
        reseed((uint64_t)i);
        int64_t s[4];
        int32_t ndim = random_shape(0, 4, s), dim = ndim ? (int32_t)pick(-ndim, ndim - 1) : 0;
        int which = (int)pick(0, 3);
        int64_t n = elements(ndim, s), len = ndim ? s[dim < 0 ? dim + ndim : dim] : 1;
        op_new(names[which]);
        in_tensor(0, ndim, s);
        if (which > 1) in_tensor(1, ndim, s);
        in_int(which > 1 ? 2 : 1, dim);
        out_tensor(0, ndim, s);
        reads(n * (1 + (which > 1))), writes(n);
        for (int64_t r = 0; len && r < n / len; r++) {
            for (int64_t k = 0; k < len; k++) {
                if (which != 3) (void)exp1(1); /* backward of softmax: g*y */
                if (k) (void)add(1, 1);
            }
            each(len, which == 0 ? 1 : which == 1 ? 2 : which == 2 ? 2 : 3);
        }
        op_proves();
    }
    op_new("aten::_softmax"); /* the axis was not told, or is none */
    in_tensor(0, SIZES(2, 3));
    out_tensor(0, SIZES(2, 3));
    op_says(0, -1, 12);
    in_int(1, 2);
    op_says(0, -1, 12);
}

/* -- margins --------------------------------------------------------------------------------------------- */

enum { NONE, MEAN };

/* The distance between the target's element and each other one, with a margin: what is more than that is
 * lost. */
static void margins(int64_t rows, int64_t classes, bool squares, bool weighted) {
    for (int64_t r = 0; r < rows; r++) {
        bool begun = false;
        for (int64_t i = 0; i < classes; i++) {
            if (i == classes / 2) continue; /* the target */
            double z = max2(0, add(sub(1, 2), 3));
            if (squares) z = mul(z, z);
            if (weighted) z = mul(z, 2);
            if (begun) (void)add(z, 1);
            begun = true;
        }
        (void)dvd(1, 2);
    }
}

static void margins_backward(int64_t rows, int64_t classes, bool squares, bool weighted) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < classes; i++) {
            double g = 0.5;
            if (i != classes / 2) {
                double z = max2(0, add(sub(1, 2), 3));
                if (squares) g = mul(g, z);
                if (weighted) g = mul(g, 2);
                (void)sub(1, g);
            }
            (void)mul(g, 2);
        }
}

static void multi_margin(void **state) {
    (void)state;
    for (int i = 0; more(i, 4000); i++) {
        reseed((uint64_t)i);
        bool alone = pick(0, 4) == 0, back = coin(), squares = coin(), weighted = coin();
        int64_t rows = alone ? 1 : pick(0, 4), classes = pick(1, 5), reduction = pick(0, 2);
        int64_t x[] = {rows, classes}, *shape = alone ? x + 1 : x;
        int32_t n = alone ? 1 : 2, at = back;
        op_new(back ? "aten::multi_margin_loss_backward" : "aten::multi_margin_loss");
        bool many = reduction == NONE;
        if (back) {
            in_tensor(0, many && !alone, x);
            reads(many ? rows : 1);
        }
        in_tensor(at, n, shape);
        in_tensor(at + 1, n - 1, x);
        in_int(at + 2, squares ? 2 : 1), in_float(at + 3, 0.5);
        if (weighted) in_tensor(at + 4, SIZES(classes));
        if (!weighted) in_none(at + 4);
        in_int(at + 5, reduction);
        out_tensor(0, back ? n : many && !alone, back ? shape : x);
        reads(rows * classes), reads(rows);
        if (weighted) reads(rows); /* a class's weight for each target */
        writes(back ? rows * classes : many ? rows : 1);
        if (back) {
            margins_backward(rows, classes, squares, weighted);
        } else {
            margins(rows, classes, squares, weighted);
            for (int64_t r = 1; reduction != NONE && r < rows; r++) (void)add(1, 2);
            if (reduction == MEAN) (void)dvd(1, 2);
        }
        op_proves();
    }
    op_new("aten::multi_margin_loss"); /* no power of torch's, and a reduction that was not told */
    in_tensor(0, SIZES(2, 3));
    in_tensor(1, SIZES(2));
    in_int(2, 3);
    in_int(5, 0);
    out_tensor(0, SIZES(2));
    op_says(0, -1, 6 + 2 + 2);
}

/* Of several targets values tell how many there are: with none, or with all, nothing is compared. */
static void multilabel_margin(void **state) {
    (void)state;
    for (int i = 0; more(i, 4000); i++) {
        reseed((uint64_t)i);
        bool back = coin();
        int64_t rows = pick(1, 4), classes = pick(1, 5), reduction = pick(0, 2), s[] = {rows, classes};
        int32_t many = reduction == NONE;
        op_new(back ? "aten::multilabel_margin_loss_backward" : "aten::multilabel_margin_loss_forward");
        if (back) {
            in_tensor(0, many, s);
            reads(many ? rows : 1);
        }
        in_tensor(back, 2, s);
        in_tensor(back + 1, 2, s);
        in_int(back + 2, reduction);
        if (back) in_tensor(4, 2, s);
        for (int t = 0; t < 2 + back; t++) reads(rows * classes);
        out_tensor(0, back ? 2 : many, s);
        if (!back) out_tensor(1, 2, s);
        writes(back ? rows * classes : many ? rows : 1);
        if (!back) writes(rows * classes);
        for (int64_t k = 0; back && k < rows * classes; k++) (void)mul(1, 2);
        for (int64_t r = 0; !back && r < rows; r++) {
            if (many) (void)dvd(1, 2);
            if (!many && r) (void)add(1, 2);
        }
        if (!back && !many) (void)dvd(1, 2);
        if (!back && reduction == MEAN) (void)dvd(1, 2);
        op_proves_least(1 << LAM_FLOPS);
    }
}

/* -- what is longer than a norm -------------------------------------------------------------------------- */

static void renorm(void **state) {
    (void)state;
    for (int i = 0; more(i, 4000); i++) {
        reseed((uint64_t)i);
        int64_t s[4];
        int32_t ndim = random_shape(2, 4, s), dim = (int32_t)pick(-ndim, ndim - 1);
        int power = (int)pick(0, 3);
        int64_t n = elements(ndim, s), rows = s[dim < 0 ? dim + ndim : dim];
        op_new("aten::renorm");
        in_tensor(0, ndim, s);
        if (power == 0) in_float(1, HUGE_VAL);
        if (power != 0) in_int(1, power);
        in_int(2, dim), in_float(3, 1.5);
        out_tensor(0, ndim, s);
        reads(n), writes(n);
        for (int64_t r = 0; r < rows; r++) {
            for (int64_t k = 0; k < n / rows; k++) {
                double x = power == 2 ? mul(3, 3) : abs1(-3);
                if (power == 3) x = pow1(x, 3);
                if (k) (void)(power ? add(1, x) : max2(1, x));
            }
            if (power > 1) (void)pow1(2, 1.0 / power);
            if (less(1.5, 2)) (void)dvd(1.5, add(2, 1e-7));
            for (int64_t k = 0; k < n / rows; k++) (void)mul(3, 0.75);
        }
        op_proves();
    }
    op_new("aten::renorm"); /* the axis was not told */
    in_tensor(0, SIZES(2, 3));
    in_int(1, 2);
    out_tensor(0, SIZES(2, 3));
    op_says(0, -1, 12);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batch_norm),        cmocka_unit_test(rows_norm),
        cmocka_unit_test(skip_norm),         cmocka_unit_test(batch_norm_backward),
        cmocka_unit_test(row_norm_backward), cmocka_unit_test(weight_norm),
        cmocka_unit_test(softmax),           cmocka_unit_test(multi_margin),
        cmocka_unit_test(multilabel_margin), cmocka_unit_test(renorm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
