/* SPDX-License-Identifier: Apache-2.0
 * facts_op_resample: operators that read an image on another grid: blends of a fixed number of neighbours,
 * blends of as many neighbours as the step is wide, and samples at the positions in a tensor. */
#include "count/ops/facts_op.h"

#include <math.h>

/* -- a fixed number of neighbours ------------------------------------------------------------------------ */

static void blends(const lam_op *op, lmi_facts *f) {
    int64_t taps = lmi_op_each(op->sig->word), sum = 0, power = 1;
    for (int32_t i = 0; i < lmi_op_rank(op->sig->word); i++, power *= taps) sum += power;
    lmi_fact_set(f, LMI_FACT_taps, taps);
    lmi_fact_set(f, LMI_FACT_blends, sum);
    lmi_fact_set(f, LMI_FACT_grads, lmi_numel(lmi_op_in(op, &lmi_no_slots))); /* a backward's first tensor */
}

/* -- neighbours within a step ---------------------------------------------------------------------------- */

enum { MAX_STEPS = 1 << 24 };

typedef struct axis { /* of an image that is resized with antialiasing */
    int64_t in, out;
    double taps;    /* of the mode, if the step is no wider than 1 */
    double scale;   /* input positions an output step */
    bool in_double; /* positions are computed in double: elements are float64 or integers */
} axis;

static double rounded(const axis *a, double x) { return a->in_double ? x : (double)(float)x; }

/* The sum over the axis of the input elements that each output element reads. Source: ATen/native/cpu/
 * UpSampleKernel.cpp, whose positions have the elements' type, or double if a constant makes them so. */
static int64_t neighbours(const axis *a) {
    if (a->in < 1 || a->out < 0 || a->out > MAX_STEPS || a->in > MAX_STEPS) return -1;
    double reach = rounded(a, a->taps * 0.5 * (a->scale >= 1 ? a->scale : 1));
    int64_t all = 0, most = (int64_t)ceil(reach) * 2 + 1;
    for (int64_t i = 0; i < a->out; i++) {
        double middle = rounded(a, a->scale * ((double)i + 0.5));
        int64_t low = (int64_t)(rounded(a, middle - reach) + 0.5),
                high = (int64_t)(rounded(a, middle + reach) + 0.5);
        if (low < 0) low = 0;
        int64_t n = (high < a->in ? high : a->in) - low;
        all += n < 0 ? 0 : n < most ? n : most;
    }
    return all;
}

static const lam_op_arg *argument(const lam_op *op, int32_t position) {
    for (int32_t i = 0; i < op->sig->n_in; i++)
        if (op->sig->in[i].position == position) return &op->sig->in[i];
    return NULL;
}

/* Reads the factor of an argument, 0 if it is None; false: unknown. */
static bool factor_of(const lam_op *op, int32_t position, double *out) {
    const lam_op_arg *a = argument(op, position);
    *out = a && a->value.type == LAM_FLOAT ? a->value.f
           : a && a->value.type == LAM_INT ? (double)a->value.i
                                           : 0;
    return !a || a->value.type == LAM_FLOAT || a->value.type == LAM_INT || a->value.type == LAM_NONE;
}

/* Reads the last three arguments: the flag for aligned corners, the factors of rows and columns. */
static bool axes_of(const lam_op *op, int32_t align, lam_shape x, lam_shape y, axis out[2]) {
    enum { FLOAT64 = 7, HALF = 5 };
    const lam_op_arg *flag = argument(op, align);
    int32_t dtype = op->sig->n_in > 0 ? op->sig->in[0].dtype : -1;
    if (x.ndim != 4 || y.ndim != 4 || !flag || flag->value.type != LAM_BOOL || dtype < 0) return false;
    for (int32_t i = 0; i < 2; i++) {
        axis *a = &out[i];
        double factor;
        if (!factor_of(op, align + 1 + i, &factor)) return false;
        *a = (axis){.in = x.sizes[i + 2],
                    .out = y.sizes[i + 2],
                    .taps = (double)lmi_op_each(op->sig->word),
                    .in_double = dtype == FLOAT64 || dtype < HALF};
        double step = factor > 0 ? 1 / factor : rounded(a, (double)a->in) / rounded(a, (double)a->out);
        if (flag->value.i)
            step = a->out > 1 ? rounded(a, (double)(a->in - 1)) / rounded(a, (double)(a->out - 1)) : 0;
        a->scale = rounded(a, step);
        if (!(a->scale <= MAX_STEPS)) return false;
    }
    return true;
}

/* Columns are resized first, then rows; an axis that keeps its size is skipped. */
static void smoothed(const lam_op *op, lmi_facts *f) {
    lam_shape x = lmi_op_in(op, &lmi_no_slots), y = lmi_op_out(op, 0);
    axis a[2];
    if (!axes_of(op, 2, x, y, a)) return;
    int64_t planes = lmi_times(x.sizes[0], x.sizes[1]), read = 0, made = 0, lines[2];
    lines[1] = lmi_times(planes, a[0].in);
    lines[0] = lmi_times(planes, a[1].out);
    for (int32_t i = 0; i < 2; i++) {
        if (a[i].in == a[i].out) continue;
        int64_t n = lmi_times(lines[i], neighbours(&a[i])), all = lmi_times(lines[i], a[i].out);
        if (n < 0 || all < 0 || lmi_add_over(read, n, &read) || lmi_add_over(made, all, &made)) return;
    }
    lmi_fact_set(f, LMI_FACT_covered, read);
    lmi_fact_set(f, LMI_FACT_windows, made);
}

static void smoothed_backward(const lam_op *op, lmi_facts *f) {
    lam_shape y = lmi_op_in(op, &lmi_no_slots), x = lmi_op_out(op, 0);
    axis a[2];
    if (!axes_of(op, 3, x, y, a)) return;
    int64_t planes = lmi_times(x.sizes[0], x.sizes[1]);
    lmi_fact_set(f, LMI_FACT_covered, lmi_times(planes, lmi_times(neighbours(&a[0]), neighbours(&a[1]))));
}

/* -- positions in a tensor ------------------------------------------------------------------------------- */

enum { BILINEAR, NEAREST, BICUBIC };

/* Operations of the gradients. For an element of the image: its weight (bicubic: two) times the gradient, and
 * the sum. For a coordinate: the element's value times the gradient, times the factors of the weight's slope
 * along that axis, and the sum. At the end each coordinate is scaled; bicubic has four slopes an axis: 4
 * differences, and polynomials of 4 and 3 operations, two each. */
static void gradients(int64_t mode, int64_t rank, lmi_facts *f) {
    int64_t near = mode == BICUBIC ? 16 : rank == 3 ? 8 : 4, parts = mode == BICUBIC ? 2 : rank - 1;
    bool flat = mode == NEAREST;
    lmi_fact_set(f, LMI_FACT_to_image, flat ? 1 : near * (mode == BICUBIC ? 3 : 2));
    lmi_fact_set(f, LMI_FACT_to_grid, flat ? 0 : rank * near * (2 + parts));
    lmi_fact_set(f, LMI_FACT_slopes_of, flat ? 0 : rank + (mode == BICUBIC ? 2 * 18 : 0));
}

/* For a position: 4 operations a coordinate, 3 if corners are aligned, and a rounding. Bilinear also computes
 * its distances to both sides, and a weight for each of 2, 4 or 8 neighbours, with one product less than
 * axes. Bicubic: two distances, and 25 an axis for four weights: 3 more distances, and polynomials of 5 and 6
 * operations, two each. For an element: a product for each neighbour and their sum, in bicubic axis by
 * axis. */
static void grid(const lam_op *op, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    bool aligned;
    int64_t positions = lmi_op_numel(s, LMI_S_x2), rank = lmi_op_rank(op->sig->word),
            near = rank == 3 ? 8 : 4;
    double mode = lmi_op_number(s, LMI_S_mode, -1);
    if (rank == 0) rank = 2; /* the one of cuDNN, which has no mode */
    lmi_fact_set(f, LMI_FACT_points, positions < 0 ? -1 : positions / rank);
    bool known =
        lmi_op_bool(s, LMI_S_align, &aligned) && mode >= BILINEAR && mode <= (rank == 2 ? BICUBIC : NEAREST);
    if (!known) {
        lmi_fact_set(f, LMI_FACT_each, -1);
        return;
    }
    int64_t besides = mode == NEAREST ? 0 : mode == BICUBIC ? 2 + 2 * 25 : 2 * rank + near * (rank - 1);
    lmi_fact_set(f, LMI_FACT_each, rank * (aligned ? 4 : 5) + besides);
    lmi_fact_set(f, LMI_FACT_last, mode == NEAREST ? 0 : mode == BICUBIC ? 5 * 7 : 2 * near - 1);
    if (k == LMI_K_grid_sample_backward) gradients((int64_t)mode, rank, f);
}

void lmi_op_resample(const lam_model *m, const lam_op *op, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    switch (k) {
    case LMI_K_grid_sample:
    case LMI_K_grid_sample_backward: grid(op, k, s, f); break;
    case LMI_K_interpolate_smooth: smoothed(op, f); break;
    case LMI_K_interpolate_smooth_backward: smoothed_backward(op, f); break;
    default:
        blends(op, f);
        lmi_op_sized(m, op, k, s, f);
        break;
    }
}

/* For the tables of other counters: the requested size. */
void lmi_op_sized(const lam_model *m, const lam_op *op, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    (void)m, (void)k, (void)s;
    int64_t n = 0;
    const lam_value *v = lmi_sig_value(op->sig, 1);
    if (v && v->type == LAM_INTS && !lmi_product(v->ints, v->n, &n)) n = -1;
    lmi_fact_set(f, LMI_FACT_sized, n);
}
