/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank or a node beside its peers, or all layers, as a screen. */
#include "report/ranks/ranks.h"

#include <math.h>

typedef lmi_ranks_writer writer;
static const double ALIKE = 0.005; /* own work that differs by less is alike */

static bool is_node(const lmi_look *k) { return k->node >= 0; }

static int32_t most_rows(const writer *w) { return w->o->rows > 0 ? w->o->rows : LMI_RANKS_ROWS; }

static void put_run(const lam_ranks *r, lmi_buf *b) {
    lmi_putf(b, "%d ranks on %d node%s; ", (int)r->n_ranks, (int)r->n_nodes, r->n_nodes == 1 ? "" : "s");
    lmi_put_grouped(b, lmi_exact(r->n_steps));
    lmi_putf(b, " recorded step%s", r->n_steps == 1 ? "" : "s");
}

static void put_head(writer *w) {
    const lmi_look *k = &w->r->look;
    lmi_buf b;
    lmi_buf_init(&b);
    if (!k->n_ranks)
        lmi_put(&b, "The layers of ");
    else if (is_node(k)) {
        lmi_put(&b, "Node ");
        lmi_put_clean(&b, lmi_ranks_node_name(w->r, k->node));
        lmi_putf(&b, " with %d of ", (int)k->n_ranks);
    } else {
        lmi_putf(&b, "Rank %d", (int)k->rank);
        if (k->fact) lmi_put(&b, " on ");
        if (k->fact) lmi_put_clean(&b, lmi_ranks_node_name(w->r, k->fact->node));
        lmi_put(&b, ", of ");
    }
    put_run(w->r, &b);
    lmi_ranks_words(w, NULL, 0, &b);
    lmi_buf_free(&b);
}

/* -- in words ------------------------------------------------------------------------------------------ */

static void put_beside(lmi_buf *b, const lmi_look *k) {
    if (k->n_peers == 1)
        lmi_put(b, "that of the other one");
    else
        lmi_putf(b, "the median of the %d others", (int)k->n_peers);
    lmi_put(b, k->alike ? " with the same layers" : ", whose layers are others");
}

/* "takes 22 % more than the median of the 15 others with the same layers" */
static void put_takes(lmi_buf *b, const lmi_look *k) {
    if (fabs(k->late) < ALIKE) {
        lmi_put(b, "takes as long as ");
    } else {
        lmi_put(b, "takes ");
        lmi_put_percent(b, fabs(k->late), 1, &lmi_plain);
        lmi_putf(b, " %s than ", k->late < 0 ? "less" : "more");
    }
    put_beside(b, k);
}

static void say_since(const writer *w, lmi_buf *b) {
    const lmi_look *k = &w->r->look;
    if (k->when.first == 0)
        lmi_put(b, ", from the first recorded step on");
    else if (k->since_step != LAM_NOT_KNOWN)
        lmi_put_since(b, k->since_step, k->since_us);
    if (k->when.last < w->r->n_wins - 1) {
        lmi_put(b, ", until step ");
        lmi_put_grouped(b, lmi_exact(w->r->wins[k->when.last + 1].first_step));
    }
}

/* How late it is, and since when. */
static void say_late(const writer *w, lmi_buf *b) {
    const lmi_look *k = &w->r->look;
    if (!k->n_peers) {
        lmi_put(b, "There are no others to compare it with.");
        return;
    }
    if (!k->when.n)
        lmi_put(b,
                is_node(k) ? "None of its ranks is late again and again" : "It is not late again and again");
    else if (is_node(k) && k->n_late == k->n_ranks)
        lmi_putf(b,
                 k->n_ranks > 1 ? "All of its %d ranks are late again and again"
                                : "Its rank is late again and again",
                 (int)k->n_ranks);
    else if (is_node(k))
        lmi_putf(b, "%d of its %d ranks %s late again and again", (int)k->n_late, (int)k->n_ranks,
                 k->n_late == 1 ? "is" : "are");
    if (!isnan(k->late)) {
        lmi_put(b, !k->when.n && !is_node(k) ? ": its own work "
                   : is_node(k)              ? "; own work, the median of its ranks, "
                                             : "Its own work ");
        put_takes(b, k);
    }
    if (k->when.n) say_since(w, b);
    lmi_putc(b, '.');
}

static void say_last(const writer *w, lmi_buf *b) {
    const lmi_look *k = &w->r->look;
    if (!w->r->n_last_steps) return;
    lmi_put(b, is_node(k) ? " One of its ranks is the last in " : " It is the last in ");
    lmi_put_percent(b, (double)k->last_in, (double)w->r->n_last_steps, &lmi_plain);
    lmi_put(b, " of the steps.");
}

/* When it was last alive, beside the run, and how it ended. */
static void say_beat(const writer *w, lmi_buf *b) {
    const lmi_look *k = &w->r->look;
    const lmi_fact *f = k->fact;
    if (!f || f->seen == LAM_NOT_KNOWN) {
        lmi_put(b, "When it was last alive is not known");
    } else {
        if (k->apart) lmi_putf(b, "Rank %d was silent first: last", (int)f->rank);
        lmi_put(b, k->apart ? " alive " : "Last alive ");
        lmi_put_moment(b, f->seen);
        lmi_put(b, " UTC");
        if (k->seen > f->seen) {
            lmi_put(b, ", ");
            lmi_put_us(b, (double)(k->seen - f->seen));
            lmi_put(b, " before the last of the run");
        }
    }
    if (f && f->ended_by && *f->ended_by && strcmp(f->ended_by, "end") != 0) {
        lmi_put(b, "; ended by ");
        lmi_put_clean(b, f->ended_by);
    } else if (f) {
        lmi_put(b,
                f->ended == LAM_NOT_KNOWN ? "; it still runs, or ended without a word" : "; ended in order");
    }
    lmi_putc(b, '.');
}

static void put_words(writer *w) {
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_putc(&w->out, '\n');
    say_late(w, &b);
    say_last(w, &b);
    lmi_ranks_words(w, w->r->look.when.n ? "!" : NULL, w->r->look.when.n ? 2 : 0, &b);
    say_beat(w, &b);
    lmi_ranks_words(w, w->r->look.when.n ? " " : NULL, w->r->look.when.n ? 2 : 0, &b);
    lmi_buf_free(&b);
}

/* -- tables -------------------------------------------------------------------------------------------- */

/* Tenths of a per cent are as exact as it is. */
static void share_cell(lmi_sheet *t, double share) {
    if (isnan(share))
        lmi_putc(t->cell, '?');
    else
        lmi_putf(t->cell, "%s%.1f %%", share <= -0.0005 ? "-" : "", fabs(share) * 100);
    lmi_end_cell(t);
}

static double middle_of(const lam_ranks *r, int32_t first, int32_t last, size_t at) {
    size_t n = 0;
    for (int32_t k = first; k < last; k++)
        r->room[n++] = *(const double *)(const void *)((const char *)&r->look.wins[k] + at);
    return lmi_middle(r->room, n);
}

static lam_status put_over_time(writer *w) {
    static const lmi_head heads[] = {{"when", LMI_LEFT, 0},  {"from step", LMI_RIGHT, 3},
                                     {"own", LMI_RIGHT, 0},  {"peers", LMI_RIGHT, 0},
                                     {"late", LMI_RIGHT, 0}, {"waits", LMI_RIGHT, 2}};
    const lam_ranks *r = w->r;
    const int32_t most = most_rows(w), n = r->n_wins < most ? r->n_wins : most;
    lmi_sheet t;
    if (n < 2) return LAM_OK;
    lmi_ranks_sheet(w, &t, heads, sizeof heads / sizeof *heads);
    for (int32_t k = 0; k < n; k++) {
        int32_t first, last;
        lmi_ranks_put_when(&t, r, k, n, &first, &last);
        lmi_us_cell(&t, middle_of(r, first, last, offsetof(lmi_look_win, own)));
        lmi_us_cell(&t, middle_of(r, first, last, offsetof(lmi_look_win, peer)));
        share_cell(&t, middle_of(r, first, last, offsetof(lmi_look_win, late)));
        lmi_us_cell(&t, middle_of(r, first, last, offsetof(lmi_look_win, waits)));
    }
    lmi_sheet_write(&t, 8, 8);
    return lmi_sheet_free(&t);
}

static void layer_row(lmi_sheet *t, const lam_ranks *r, const lmi_look_layer *l) {
    lmi_put_clean(t->cell, l->name);
    lmi_end_cell(t);
    if (!r->look.n_ranks) {
        lmi_putf(t->cell, "rank %d", (int)l->rank);
        lmi_end_cell(t);
    }
    lmi_us_cell(t, l->own);
    lmi_us_cell(t, l->peer);
    if (l->own < l->peer) lmi_putc(t->cell, '-');
    lmi_us_cell(t, fabs(l->own - l->peer));
    if (l->peer > 0 && !isnan(l->own))
        lmi_putf(t->cell, "%.2fx", l->own / l->peer);
    else
        lmi_putc(t->cell, '?');
    lmi_end_cell(t);
}

/* The layers in which it takes longest above its peers; of all, each beside the slowest rank's. */
static lam_status put_layers(writer *w) {
    static const lmi_head heads[] = {{"layer", LMI_LEFT, 0},     {"slowest", LMI_RIGHT, 0},
                                     {"its time", LMI_RIGHT, 0}, {"peers", LMI_RIGHT, 1},
                                     {"longer", LMI_RIGHT, 0},   {"ratio", LMI_RIGHT, 2}};
    const lmi_look *k = &w->r->look;
    const int32_t most = most_rows(w), n = k->n_layers < most ? k->n_layers : most;
    lmi_sheet t;
    if (!k->has_layers) {
        lmi_putc(&w->out, '\n');
        lmi_ranks_remark(w, k->n_ranks ? "Nothing is known of its layers." : "Nothing is known of layers.");
        return LAM_OK;
    }
    lmi_putc(&w->out, '\n');
    lmi_sheet_start(&t, &w->out, w->width, w->o->ascii, w->e);
    t.color = w->o->color;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        if (i != 1 || !k->n_ranks) lmi_sheet_column(&t, &heads[i]);
    for (int32_t i = 0; i < n; i++) layer_row(&t, w->r, &k->layers[i]);
    lmi_sheet_write(&t, 8, 8);
    lmi_ranks_remark(w, "(forward and backward of a step, without the layers inside; the most time above the "
                        "peers' median first)");
    if (n < k->n_layers) {
        lmi_putf(&w->out, "and %d more layers: -n %d shows all\n", (int)(k->n_layers - n), (int)k->n_layers);
    }
    return lmi_sheet_free(&t);
}

lam_status lmi_ranks_put_look(writer *w) {
    const lmi_look *k = &w->r->look;
    put_head(w);
    if (!k->n_ranks) return put_layers(w);
    put_words(w);
    LAM_TRY(lmi_ranks_put_phases(w, k->rows, k->n_rows, "peers"));
    LAM_TRY(put_over_time(w));
    return put_layers(w);
}
