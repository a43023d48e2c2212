/* SPDX-License-Identifier: Apache-2.0
 *
 * What explains a difference: batch normalisations that an ONNX file has in the convolutions before them. It
 * is said only if the numbers of these modules are the whole difference. */
#include "report/diff/diff.h"

#include <string.h>

typedef struct folded {
    const lam_diff *d;
    int live, file;   /* the sides */
    const char *type; /* of all of them; NULL: there are several types */
    int32_t n, biases;
    int64_t params, bias,
        flops; /* of the normalisations; of biases in their place; the FLOPs that are left */
    bool flops_known;
} folded;

/* The number of a place of a side; false: it is not exact. */
static bool own(const lmi_outline *o, lmi_own_number k, int32_t i, int64_t *out) {
    *out = o->own[k] ? o->own[k][i] : 0;
    return !o->state[k] || o->state[k][i] == LAM_EXACT;
}

/* The place of the union that shows place `at` of a side; -1: none. */
static int32_t in_both(const folded *f, int side, int32_t at) {
    for (int32_t i = 0; i < f->d->both.n; i++)
        if (lmi_diff_at(f->d, side, i) == at) return i;
    return -1;
}

/* The convolution that a normalisation follows: the last one before it, of a result of its argument's shape;
 * -1: there is none. */
static int32_t convolution_before(const lmi_outline *o, int32_t norm) {
    enum { FAR = 64 };
    for (int32_t i = norm - 1; i >= 0 && i >= norm - FAR; i--) {
        if (o->at[i].family != LMI_CONVOLUTION || o->at[i].n_children) continue;
        return *o->at[i].out && strcmp(o->at[i].out, o->at[norm].in) == 0 ? i : -1;
    }
    return -1;
}

/* Adds a normalisation that the file lacks; false: its convolution did not change as folding changes it. */
static bool add(folded *f, int32_t norm) {
    const lmi_outline *live = &f->d->side[f->live].o, *file = &f->d->side[f->file].o;
    const int32_t conv = convolution_before(live, norm);
    const int32_t shown = conv < 0 ? -1 : in_both(f, f->live, conv);
    const int32_t now = shown < 0 ? -1 : lmi_diff_at(f->d, f->file, shown);
    int64_t params, was, is, flops, flops_was, flops_is;
    if (now < 0 || !own(live, LMI_OWN_PARAMS, norm, &params)) return false;
    if (!own(live, LMI_OWN_PARAMS, conv, &was) || !own(file, LMI_OWN_PARAMS, now, &is)) return false;
    if (is != was && (is - was) * 2 != params) return false; /* a bias has half as many: weight and bias */
    f->flops_known = f->flops_known && own(live, LMI_OWN_FLOPS, norm, &flops) &&
                     own(live, LMI_OWN_FLOPS, conv, &flops_was) && own(file, LMI_OWN_FLOPS, now, &flops_is);
    if (f->flops_known) f->flops += flops_is - flops_was - flops;
    if (f->n && f->type && strcmp(f->type, live->at[norm].type) != 0) f->type = NULL;
    if (!f->n) f->type = live->at[norm].type;
    f->n++;
    f->biases += is != was;
    f->params += params;
    f->bias += is - was;
    return true;
}

/* The difference of a total, as seen from the live model; false: it is not exact. */
static bool whole(const folded *f, lmi_figure k, int64_t *out) {
    const lam_count was = lmi_diff_whole(&f->d->side[f->live], k),
                    is = lmi_diff_whole(&f->d->side[f->file], k);
    if (!f->d->whole[k] || was.state != LAM_EXACT || is.state != LAM_EXACT || was.over || is.over)
        return false;
    *out = is.n - was.n;
    return true;
}

static void put_sentence(const folded *f, lmi_buf *b) {
    int64_t flops;
    lmi_put_clean(b, f->d->side[f->file].name);
    lmi_putf(b, " has %d %s%s folded into %s: ", (int)f->n, f->type ? f->type : "batch normalisation",
             f->type || f->n == 1 ? "" : "s", f->n == 1 ? "the convolution before it" : "their convolutions");
    lmi_put_grouped(b, (lam_count){f->params, 0, LAM_EXACT});
    lmi_put(b, " parameters less");
    if (f->biases) {
        lmi_put(b, ", ");
        lmi_put_grouped(b, (lam_count){f->bias, 0, LAM_EXACT});
        lmi_putf(b, " more in %d bias%s in their place", (int)f->biases, f->biases == 1 ? "" : "es");
    }
    if (f->flops_known && f->flops < 0 && whole(f, LMI_FIGURE_FLOPS, &flops) && flops == f->flops) {
        lmi_put(b, "; ");
        lmi_put_grouped(b, (lam_count){-flops, 0, LAM_EXACT});
        lmi_put(b, " FLOPs less");
    }
    lmi_putc(b, '.');
}

static bool is_norm(const lmi_outline_place *p) {
    return strncmp(p->type, "BatchNorm", 9) == 0 && !p->n_children;
}

bool lmi_diff_folded(const lam_diff *d, lmi_buf *out) {
    for (int file = 0; file < 2; file++) {
        folded f = {.d = d, .live = !file, .file = file, .flops_known = true};
        const char *format = lmi_outline_provenance(&d->side[file].o, "format");
        bool fits = format && strncmp(format, "ONNX", 4) == 0;
        int64_t params;
        for (int32_t i = 0; i < d->both.n && fits; i++) {
            const int32_t at = lmi_diff_at(d, f.live, i);
            if (at < 0 || lmi_diff_at(d, file, i) >= 0 || !is_norm(&d->side[f.live].o.at[at])) continue;
            fits = add(&f, at);
        }
        if (!fits || !f.n || !whole(&f, LMI_FIGURE_PARAMS, &params) || params != f.bias - f.params) continue;
        put_sentence(&f, out);
        return true;
    }
    return false;
}
