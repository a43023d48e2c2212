/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses the metrics that are compared, and writes sentences on what is not compared, and why. */
#include "report/diff/diff.h"

#include <string.h>

/* -- which metrics --------------------------------------------------------------------------------------- */

static bool is_counted(lmi_figure k) { return lmi_figures[k].metric >= 0; }

/* False if a step has several calls: its time is that of all of them, while a run of a model has one. */
static bool is_one_call(const lmi_diff_side *s) {
    const lam_recorded_model *m = lmi_diff_recorded(s);
    return !m || (m->least_calls == 1 && m->most_calls == 1);
}

bool lmi_diff_is_unlike(const lam_diff *d, lmi_figure k, lmi_setup_change *why) {
    const lmi_diff_side *a = &d->side[0], *b = &d->side[1];
    if (!lmi_diff_has(a, k) || !lmi_diff_has(b, k)) return false;
    if (k == LMI_FIGURE_PEAK) return lmi_is_setup_change(&a->o, &b->o, LMI_UNLIKE_BACKWARD, why);
    return is_counted(k) && lmi_is_setup_change(&a->o, &b->o, LMI_UNLIKE_CONVENTION, why);
}

static bool are_alike(const lam_diff *d) { return !d->side[0].recording == !d->side[1].recording; }

static bool can_compare(const lam_diff *d, lmi_figure k) {
    const lmi_outline *a = &d->side[0].o, *b = &d->side[1].o;
    if (is_counted(k)) return lmi_outlines_agree(a, b, LMI_OWN_MACS);
    if (k == LMI_FIGURE_PEAK) return a->backward == b->backward;
    if (k == LMI_FIGURE_NONFINITE) return are_alike(d);
    bool by_run = k >= LMI_FIGURE_TIME && k <= LMI_FIGURE_CALLS;
    return !by_run || are_alike(d) || (is_one_call(&d->side[0]) && is_one_call(&d->side[1]));
}

static bool can_compare_places(const lam_diff *d, lmi_figure k) {
    const lmi_outline *a = &d->side[0].o, *b = &d->side[1].o;
    if (k == LMI_FIGURE_PARAMS) return lmi_outlines_agree(a, b, LMI_OWN_PARAMS);
    if (k >= LMI_FIGURE_PARAM_BYTES && k <= LMI_FIGURE_LOCAL_BYTES)
        return lmi_outlines_agree(a, b, LMI_OWN_PARAM_BYTES);
    return can_compare(d, k);
}

/* The number that a metric most often repeats; LMI_FIGURE_NO: none. */
static lmi_figure same_as(lmi_figure k) {
    if (k == LMI_FIGURE_TRAINABLE) return LMI_FIGURE_PARAMS;
    return k == LMI_FIGURE_LOGICAL_BYTES || k == LMI_FIGURE_LOCAL_BYTES ? LMI_FIGURE_PARAM_BYTES
                                                                        : LMI_FIGURE_NO;
}

/* True if the metric does not just repeat another on both sides. */
static bool says_more(const lam_diff *d, lmi_figure k) {
    bool more = same_as(k) == LMI_FIGURE_NO;
    for (int i = 0; i < 2 && !more; i++) {
        const lmi_diff_side *s = &d->side[i];
        lam_count n = lmi_diff_whole(s, k);
        more = n.state != LAM_UNKNOWN && !lmi_is_same(n, lmi_diff_whole(s, same_as(k)));
    }
    return more;
}

static void find_metrics(lam_diff *d) {
    const lmi_diff_side *a = &d->side[0], *b = &d->side[1];
    for (int i = 0; i < LMI_N_FIGURES; i++) {
        lmi_figure k = (lmi_figure)i;
        if (!says_more(d, k)) continue;
        d->by_place[i] = lmi_diff_has(a, k) && lmi_diff_has(b, k) && can_compare_places(d, k);
        d->whole[i] = lmi_diff_has_whole(a, k) && lmi_diff_has_whole(b, k) && can_compare(d, k);
    }
}

/* -- sentences ------------------------------------------------------------------------------------------- */

typedef struct saying {
    lam_diff *d;
    lmi_buf text;
    lam_error *e;
} saying;

static lam_status end_sentence(saying *t) {
    lam_diff *d = t->d;
    LAM_TRY(lmi_buf_status(&t->text, t->e));
    if (!t->text.n) return LAM_OK;
    const char **more = lmi_alloc(&d->arena, (uint64_t)d->n_said + 1, sizeof *more);
    const char *kept = lmi_strdup(&d->arena, lmi_buf_text(&t->text));
    if (!more || !kept) return lmi_nomem(t->e);
    for (int32_t i = 0; i < d->n_said; i++) more[i] = d->said[i];
    more[d->n_said++] = kept;
    d->said = more;
    lmi_buf_clear(&t->text);
    return LAM_OK;
}

static lam_status say_unlike(saying *t) {
    lmi_setup_change u;
    const lmi_outline *was = &t->d->side[0].o, *now = &t->d->side[1].o;
    for (int32_t i = 0; lmi_outlines_unlike(was, now, i, &u); i++) {
        lmi_put_setup_change(&t->text, &u, false);
        lmi_putf(&t->text, "%s.", u.so);
        LAM_TRY(end_sentence(t));
    }
    return LAM_OK;
}

static bool lacks(const lmi_diff_side *s, const lmi_diff_side *other, lmi_figure k) {
    bool has = lmi_diff_has(s, k) || lmi_diff_has_whole(s, k);
    return !has && (lmi_diff_has(other, k) || lmi_diff_has_whole(other, k));
}

/* NULL: another metric's name covers it, or only a recording could have it. */
static const char *name_of_lack(const lmi_diff_side *s, const lmi_diff_side *other, lmi_figure k) {
    switch (k) {
    case LMI_FIGURE_STEP: return s->recording ? lmi_figures[k].title : NULL;
    case LMI_FIGURE_ALLOCATED: return "memory";
    case LMI_FIGURE_RETAINED:
    case LMI_FIGURE_TRAINABLE:
    case LMI_FIGURE_LOGICAL_BYTES:
    case LMI_FIGURE_LOCAL_BYTES: return NULL;
    case LMI_FIGURE_PEAK: return lacks(s, other, LMI_FIGURE_ALLOCATED) ? NULL : lmi_figures[k].title;
    case LMI_FIGURE_NONFINITE: return "health";
    default: return lmi_figures[k].title;
    }
}

/* "run.lamina has no MACs, FLOPs and no shapes, so they are not compared." */
static lam_status say_lacks(saying *t, int side) {
    const lmi_diff_side *s = &t->d->side[side], *other = &t->d->side[!side];
    const char *lack[LMI_N_FIGURES + 1];
    int n = 0;
    for (int i = 0; i < LMI_N_FIGURES; i++) {
        lmi_figure k = (lmi_figure)i;
        if (lacks(s, other, k) && name_of_lack(s, other, k)) lack[n++] = name_of_lack(s, other, k);
    }
    if (!lmi_has_shapes(&s->o) && lmi_has_shapes(&other->o)) lack[n++] = "shapes";
    if (n) lmi_put_clean(&t->text, s->name);
    for (int i = 0; i < n; i++)
        lmi_putf(&t->text, "%s%s", i == 0 ? " has no " : i + 1 < n ? ", " : " and no ", lack[i]);
    if (n) lmi_put(&t->text, n > 1 ? ", so they are not compared." : ", so it is not compared.");
    return end_sentence(t);
}

static lam_status say_recorded(saying *t, int side) {
    const lmi_diff_side *s = &t->d->side[side];
    const lam_recorded_model *m = lmi_diff_recorded(s);
    if (!m) return LAM_OK;
    lmi_put_clean(&t->text, s->name);
    lmi_putf(&t->text, ": medians of %lld %s step%s of ", (long long)m->n_steps,
             m->training ? "training" : "evaluation", m->n_steps == 1 ? "" : "s");
    lmi_put_clean(&t->text, m->name);
    int32_t others = lam_recording_run(s->recording)->n_models - 1;
    if (others)
        lmi_putf(&t->text, "; %d other kind%s of steps %s left out", (int)others, others == 1 ? "" : "s",
                 others == 1 ? "is" : "are");
    lmi_putc(&t->text, '.');
    return end_sentence(t);
}

static lam_status say_measured(saying *t) {
    const lmi_diff_side *a = &t->d->side[0], *b = &t->d->side[1];
    bool apart = !are_alike(t->d) && !(is_one_call(a) && is_one_call(b)) && a->o.timed && b->o.timed;
    if (apart)
        lmi_put(&t->text,
                "A recorded step has several calls of the model, and a run has one: times and memory "
                "can't be compared.");
    LAM_TRY(end_sentence(t));
    if (a->device && b->device) lmi_put(&t->text, "Times and memory are a GPU's.");
    LAM_TRY(end_sentence(t));
    bool shares = lmi_outlines_agree(&a->o, &b->o, LMI_OWN_PARAMS);
    if (!shares)
        lmi_put(&t->text, "The conventions give shared parameters to other modules: params are compared "
                          "as a whole alone.");
    return end_sentence(t);
}

static lam_status say_folded(saying *t, int side) {
    const lmi_diff_side *s = &t->d->side[side];
    bool folded = false;
    for (int32_t i = 0; i < s->o.n && !folded; i++) folded = s->o.at[i].others > 0;
    if (folded) {
        lmi_put_clean(&t->text, s->name);
        lmi_put(&t->text, " has very many modules, of which equal and small ones are compared together.");
    }
    return end_sentence(t);
}

static lam_status say_ran(saying *t, int side) {
    const lmi_diff_side *s = &t->d->side[side];
    if (s->ran) {
        lmi_put(&t->text, "Only a part of ");
        lmi_put_clean(&t->text, s->name);
        lmi_put(&t->text, " ran: ");
        lmi_put_clean(&t->text, s->ran);
    }
    return end_sentence(t);
}

static lam_status say_all(saying *t) {
    for (int i = 0; i < 2; i++) LAM_TRY(say_ran(t, i));
    LAM_TRY(say_unlike(t));
    for (int i = 0; i < 2; i++) LAM_TRY(say_recorded(t, i));
    for (int i = 0; i < 2; i++) LAM_TRY(say_lacks(t, i));
    LAM_TRY(say_measured(t));
    for (int i = 0; i < 2; i++) LAM_TRY(say_folded(t, i));
    return LAM_OK;
}

lam_status lmi_diff_say(lam_diff *d, lam_error *e) {
    saying t = {.d = d, .e = e};
    find_metrics(d);
    lmi_buf_init(&t.text);
    lam_status s = say_all(&t);
    if (s == LAM_OK && lmi_diff_folded(d, &t.text)) {
        d->explained = lmi_strdup(&d->arena, lmi_buf_text(&t.text));
        s = d->explained ? lmi_buf_status(&t.text, e) : lmi_nomem(e);
    }
    lmi_buf_free(&t.text);
    return s;
}
