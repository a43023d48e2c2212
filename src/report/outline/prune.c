/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses the places that an outline keeps: all, or the important ones if there are very many. First, runs of
 * equal siblings keep their first place and one that represents the others. Then siblings with a small share
 * of every number of the model become one place `others (N)` of their parent. A place that represents several
 * has their sums, so the sums of all places above do not change. */
#include "analyse/run/health.h"
#include "report/outline/work.h"

#include <math.h>

/* keep[i]: the place that represents i, itself if it is kept; together[i]: it represents several. */
typedef struct fewer {
    int32_t *keep;
    bool *together;
    double *share; /* the largest share of the model's numbers at or below a place */
    int32_t n;     /* number of places that are kept */
    int32_t in_runs, small;
    double least;
} fewer;

static void count_kept(const lmi_filling *w, fewer *f) {
    f->n = 0;
    for (int32_t i = 0; i < w->n; i++) f->n += f->keep[i] == i;
}

/* Parents come first, so everything inside a place that is not kept unchanged follows that place. */
static void fold_runs(const lmi_filling *w, fewer *f) {
    for (int32_t first = 0; first < w->n; first++) {
        int32_t up = w->at[first].parent;
        if (up >= 0 && (f->keep[up] != up || f->together[up])) f->keep[first] = f->keep[up];
        if (f->keep[first] != first || w->at[first].n_run < 3) continue; /* the second of two stays itself */
        int32_t second = w->at[first].end, i = second;
        for (int32_t k = 1; k < w->at[first].n_run; k++, i = w->at[i].end) f->keep[i] = second;
        f->together[second] = true;
        f->in_runs += w->at[first].n_run - 1;
    }
}

/* -- shares ---------------------------------------------------------------------------------------------- */

static lam_status find_shares(lmi_filling *w, fewer *f) {
    double *sum = lmi_alloc(&w->scratch, (uint64_t)w->n, sizeof *sum);
    f->share = lmi_alloc(&w->scratch, (uint64_t)w->n, sizeof *f->share);
    if (!sum || !f->share) return lmi_nomem(w->e);
    for (int k = 0; k < LMI_N_OWN; k++) {
        if (lmi_is_shown_alone(k) || k == LMI_OWN_CALLS) continue;
        for (int32_t i = 0; i < w->n; i++) sum[i] = (double)w->own[k][i];
        for (int32_t i = w->n - 1; i > 0; i--) sum[w->at[i].parent] += sum[i];
        for (int32_t i = 0; i < w->n && sum[0] > 0; i++)
            if (sum[i] / sum[0] > f->share[i]) f->share[i] = sum[i] / sum[0];
    }
    /* Places with findings are kept, and so is everything above them. */
    for (int32_t i = w->n - 1; i > 0; i--) {
        const uint8_t *health = w->at[i].health;
        if (health[0] == LAM_HEALTH_BORN || health[1] == LAM_HEALTH_BORN) f->share[i] = INFINITY;
        if (f->share[i] == INFINITY) f->share[w->at[i].parent] = INFINITY;
    }
    return LAM_OK;
}

/* Combines the children of each place whose share is below `least`, if there are several. */
static void fold_small(const lmi_filling *w, fewer *f, double least) {
    f->small = 0;
    f->least = least;
    for (int32_t up = 0; up < w->n; up++) {
        int32_t last = -1, n = 0;
        if (f->keep[up] != up || f->together[up]) continue;
        for (int32_t i = up + 1; i < w->at[up].end; i = w->at[i].end) {
            if (f->keep[i] != i || f->together[i] || f->share[i] >= least) continue;
            last = i;
            n++;
        }
        if (n < 2) continue;
        for (int32_t i = up + 1; i <= last; i = w->at[i].end) {
            if (f->keep[i] != i || f->together[i] || f->share[i] >= least) continue;
            f->keep[i] = last;
            for (int32_t k = i + 1; k < w->at[i].end; k++) f->keep[k] = last;
            f->small += w->at[i].end - i;
        }
        f->together[last] = true;
    }
}

static lam_status choose(lmi_filling *w, fewer *f) {
    f->keep = lmi_alloc(&w->scratch, (uint64_t)w->n, sizeof *f->keep);
    f->together = lmi_alloc(&w->scratch, (uint64_t)w->n, sizeof *f->together);
    if (!f->keep || !f->together) return lmi_nomem(w->e);
    for (int32_t i = 0; i < w->n; i++) f->keep[i] = i;
    f->n = w->n;
    if (w->n <= LMI_OUTLINE_PLACES) return LAM_OK;
    fold_runs(w, f);
    count_kept(w, f);
    if (f->n <= LMI_OUTLINE_PLACES) return LAM_OK;
    int32_t *keep = lmi_copy(&w->scratch, f->keep, (uint64_t)w->n, sizeof *keep);
    bool *together = lmi_copy(&w->scratch, f->together, (uint64_t)w->n, sizeof *together);
    if (!keep || !together) return lmi_nomem(w->e);
    LAM_TRY(find_shares(w, f));
    for (double least = 1e-5; f->n > LMI_OUTLINE_PLACES && least < 1; least *= 1.1) {
        memcpy(f->keep, keep, (size_t)w->n * sizeof *keep);
        memcpy(f->together, together, (size_t)w->n * sizeof *together);
        fold_small(w, f, least);
        count_kept(w, f);
    }
    return LAM_OK;
}

/* -- places that represent several -------------------------------------------------------------- */

static void add_place(lmi_filling *w, int32_t to, int32_t from) {
    lmi_outline_place *a = &w->at[to], *b = &w->at[from];
    for (int k = 0; k < LMI_N_OWN; k++) {
        const lam_count c = {w->own[k][from], 0, (lam_state)w->state[k][from]};
        if (k != LMI_OWN_PEAK)
            lmi_add_own(w, (lmi_own_number)k, to, c);
        else if (c.n > w->own[k][to])
            w->own[k][to] = c.n;
    }
    for (int h = 0; h < LAM_N_HELD && w->held; h++)
        w->held[to][h] = lmi_add_capped(w->held[to][h], w->held[from][h]);
    for (int p = 0; p < 2; p++) a->health[p] = lmi_worse_health(a->health[p], b->health[p]);
    a->n_attrs = 0; /* attributes belong to one module */
    a->others++;
}

/* A place's total time includes the places below it, so only the outermost ones add theirs. */
static void leave_time(lmi_filling *w, int32_t i) {
    w->own[LMI_OWN_TOTAL_TIME][i] = 0;
    w->state[LMI_OWN_TOTAL_TIME][i] = LAM_EXACT;
}

/* Keeps what is equal for all siblings that it represents. */
static void agree(lmi_outline_place *a, const lmi_outline_place *b) {
    if (a->type != b->type) a->type = "";
    if (a->in != b->in) a->in = "";
    if (a->out != b->out) a->out = "";
    if (a->family != b->family) a->family = LMI_OTHER_FAMILY;
    if (a->state != b->state) a->state = LMI_CALLED;
}

/* `last`: the last of the siblings that it represents. */
static lam_status name_together(lmi_filling *w, int32_t i, const char *last) {
    lmi_outline_place *at = &w->at[i];
    const char *name = at->name;
    lmi_buf_clear(&w->text);
    if (at->run != i && w->at[at->run].n_run > 2)
        lmi_putf(&w->text, "%s\u2026%s (%d equal)", name, last + lmi_stem(last),
                 (int)w->at[at->run].n_run - 1);
    else
        lmi_putf(&w->text, "others (%d)", (int)at->others + 1);
    LAM_TRY(lmi_buf_status(&w->text, w->e));
    at->name = lmi_take_text(w, lmi_buf_text(&w->text));
    return at->name ? LAM_OK : lmi_nomem(w->e);
}

static lam_status put_together(lmi_filling *w, const fewer *f) {
    const char **last = lmi_alloc(&w->scratch, (uint64_t)w->n, sizeof *last);
    if (!last) return lmi_nomem(w->e);
    for (int32_t i = 1; i < w->n; i++) {
        int32_t to = f->keep[i];
        bool sibling = w->at[i].parent == w->at[to].parent;
        if (f->together[to] && sibling) last[to] = w->at[i].name;
        if (to == i) continue;
        if (f->keep[w->at[i].parent] == to) leave_time(w, i);
        add_place(w, to, i);
        if (sibling) agree(&w->at[to], &w->at[i]);
    }
    for (int32_t i = 1; i < w->n; i++)
        if (f->together[i] && f->keep[i] == i) LAM_TRY(name_together(w, i, last[i]));
    return LAM_OK;
}

/* -- into the outline --------------------------------------------------------------------------- */

/* False for a number that is zero and exact everywhere, such as one that the convention does not count: it is
 * left out. */
static bool is_there(const lmi_filling *w, const fewer *f, int k, bool *exact) {
    bool any = false;
    *exact = true;
    for (int32_t i = 0; i < w->n; i++) {
        if (f->keep[i] != i) continue;
        any = any || w->own[k][i] != 0 || w->state[k][i] != LAM_EXACT;
        *exact = *exact && w->state[k][i] == LAM_EXACT;
    }
    return any;
}

static lam_status move_numbers(lmi_filling *w, const fewer *f, const int32_t *to) {
    lmi_outline *o = w->o;
    for (int k = 0; k < LMI_N_OWN; k++) {
        bool exact;
        if (!is_there(w, f, k, &exact)) continue;
        o->own[k] = lmi_alloc(&o->arena, (uint64_t)f->n, sizeof *o->own[k]);
        if (!exact) o->state[k] = lmi_alloc(&o->arena, (uint64_t)f->n, sizeof *o->state[k]);
        if (!o->own[k] || (!exact && !o->state[k])) return lmi_nomem(w->e);
        for (int32_t i = 0; i < w->n; i++) {
            if (f->keep[i] != i) continue;
            o->own[k][to[i]] = w->own[k][i];
            if (!exact) o->state[k][to[i]] = w->state[k][i];
        }
    }
    if (!w->held) return LAM_OK;
    o->held = lmi_alloc(&o->arena, (uint64_t)f->n, sizeof *o->held);
    if (!o->held) return lmi_nomem(w->e);
    for (int32_t i = 0; i < w->n; i++)
        if (f->keep[i] == i) memcpy(o->held[to[i]], w->held[i], sizeof *o->held);
    return LAM_OK;
}

static void move_places(lmi_filling *w, const fewer *f, const int32_t *to) {
    lmi_outline *o = w->o;
    o->n = f->n;
    for (int32_t i = 0; i < w->n; i++) {
        if (f->keep[i] != i) continue;
        lmi_outline_place *at = &o->at[to[i]];
        *at = w->at[i];
        at->parent = i ? to[w->at[i].parent] : -1;
        at->end = to[i] + 1;
        at->n_children = 0;
        if (f->n < w->n) { /* a place that stands for others is not equal to its siblings */
            at->run = to[i];
            at->n_run = 1;
        }
        if (i) o->at[at->parent].n_children++;
    }
    lmi_find_ends(o->at, o->n);
    for (int32_t place = 0; place < w->n_places; place++) {
        int32_t i = lmi_place_for(w->of_place, place), shown = f->keep[i];
        bool itself = w->of_place[place] >= 0 && shown == i && !f->together[i];
        w->of_place[place] = itself ? to[i] : -2 - to[shown];
    }
}

static lam_status tell_fewer(lmi_filling *w, const fewer *f) {
    lmi_buf_clear(&w->text);
    if (f->in_runs)
        lmi_putf(
            &w->text,
            "Of the runs of equal siblings only the first of each is shown by itself; the other %d are added "
            "up beside it.",
            (int)f->in_runs);
    LAM_TRY(lmi_buf_status(&w->text, w->e));
    if (f->in_runs) LAM_TRY(lmi_leave_out(w->o, w->e, lmi_buf_text(&w->text)));
    lmi_buf_clear(&w->text);
    if (f->small)
        lmi_putf(
            &w->text,
            "%d of %d modules, each with less than %.3g %% of every number of the model, are added up as "
            "\"others\" of the modules around them.",
            (int)f->small, (int)w->n, 100 * f->least);
    LAM_TRY(lmi_buf_status(&w->text, w->e));
    return f->small ? lmi_leave_out(w->o, w->e, lmi_buf_text(&w->text)) : LAM_OK;
}

lam_status lmi_keep_places(lmi_filling *w) {
    fewer f = {0};
    if (w->table) { /* it shows all places, and no numbers of the outline */
        w->o->n = w->n;
        w->o->at = w->at;
        return LAM_OK;
    }
    LAM_TRY(choose(w, &f));
    if (f.n < w->n) LAM_TRY(put_together(w, &f));
    int32_t *to = lmi_alloc(&w->scratch, (uint64_t)w->n, sizeof *to), n = 0;
    w->o->at = lmi_alloc(&w->o->arena, (uint64_t)f.n, sizeof *w->o->at);
    if (!to || !w->o->at) return lmi_nomem(w->e);
    for (int32_t i = 0; i < w->n; i++) {
        to[i] = n;
        n += f.keep[i] == i;
    }
    LAM_TRY(move_numbers(w, &f, to));
    move_places(w, &f, to);
    return tell_fewer(w, &f);
}
