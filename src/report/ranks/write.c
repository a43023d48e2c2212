/* SPDX-License-Identifier: Apache-2.0
 *
 * The screen of a run of many ranks: the verdict first, then where a step's time goes, over time, and who was
 * last. */
#include "report/ranks/ranks.h"

#include <math.h>

enum { DEFAULT_WIDTH = 100, MOST_MARKS = 64, MARKS_LEAST = 80 };
typedef lmi_ranks_writer writer;

/* -- lines --------------------------------------------------------------------------------------------- */

void lmi_ranks_words(writer *w, const char *label, size_t indent, lmi_buf *text) {
    lmi_flow f;
    lmi_flow_start(&f, &w->out, w->width, indent);
    f.color = w->o->color;
    if (label) lmi_flow_label(&f, NULL, label, 0);
    lmi_flow_words(&f, NULL, lmi_buf_text(text));
    lmi_flow_end(&f);
    lmi_buf_used(text, &w->out);
    lmi_buf_init(text);
}

void lmi_ranks_remark(writer *w, const char *text) {
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_put(&b, text);
    lmi_ranks_words(w, NULL, 0, &b);
    lmi_buf_free(&b);
}

/* "; 41.2 % MFU, 52 % HFU" */
static void put_used(const lam_ranks *r, lmi_buf *b) {
    const char *bound = r->mfu_at_least ? ">= " : "";
    if (isnan(r->mfu) && r->why_mfu) lmi_put(b, "; ? MFU");
    if (!isnan(r->mfu)) lmi_putf(b, "; %s%.3g %% MFU", bound, 100 * r->mfu);
    if (!isnan(r->hfu)) lmi_putf(b, ", %s%.3g %% HFU", bound, 100 * r->hfu);
    if (!r->why_mfu) return;
    lmi_put(b, " (");
    lmi_put_clean(b, r->why_mfu);
    lmi_putc(b, ')');
}

static void put_head(writer *w) {
    const lam_ranks *r = w->r;
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_putf(&b, "%d of %d ranks on %d node%s", (int)r->n_ranks, (int)r->world, (int)r->n_nodes,
             r->n_nodes == 1 ? "" : "s");
    if (r->attempts > 1) lmi_putf(&b, "; %d attempts", (int)r->attempts);
    lmi_put(&b, "; ");
    lmi_put_grouped(&b, lmi_exact(r->n_steps));
    lmi_putf(&b, " recorded step%s", r->n_steps == 1 ? "" : "s");
    if (r->mean_step > 0) {
        lmi_put(&b, " of ");
        lmi_put_us(&b, r->mean_step);
    }
    put_used(r, &b);
    lmi_ranks_words(w, NULL, 0, &b);
    lmi_buf_free(&b);
}

static void put_verdict(writer *w) {
    const lam_rank_verdict *v = &w->r->verdict;
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_putc(&w->out, '\n');
    lmi_ranks_say(w->r, &b);
    lmi_ranks_words(w, v->kind == LAM_RANKS_NONE ? NULL : "!", v->kind == LAM_RANKS_NONE ? 0 : 2, &b);
    lmi_ranks_say_next(w->r, &b);
    if (b.n || b.bad) lmi_ranks_words(w, "  Next:", 8, &b);
    for (int32_t i = 0; i < v->n_notes; i++) {
        if (v->abstains && strcmp(v->notes[i], v->abstains) == 0) continue;
        lmi_put_clean(&b, v->notes[i]);
        lmi_ranks_words(w, "  also", 8, &b);
    }
    lmi_buf_free(&b);
}

/* Candidates that are not named cost nothing, or too little. */
static void put_watch(writer *w) {
    const lam_ranks *r = w->r;
    enum { MOST = 8 };
    lmi_buf b;
    int32_t n = 0;
    if (r->verdict.kind == LAM_RANKS_UNEVEN) return;
    lmi_buf_init(&b);
    for (int32_t i = 0; i < r->verdict.n_watch; i++) {
        const int32_t col = lmi_ranks_col(r, r->verdict.watch[i]);
        if (col < 0 || r->named[col] || ++n > MOST) continue;
        lmi_putf(&b, n > 1 ? ", %d" : "late again and again, but little would be gained without: rank %d",
                 (int)r->verdict.watch[i]);
    }
    if (n > MOST) lmi_putf(&b, " and %d more", (int)(n - MOST));
    if (n) lmi_ranks_words(w, "  also", 8, &b);
    lmi_buf_free(&b);
}

/* -- tables -------------------------------------------------------------------------------------------- */

void lmi_us_cell(lmi_sheet *t, double us) {
    lmi_put_us(t->cell, us);
    lmi_end_cell(t);
}

void lmi_ranks_sheet(writer *w, lmi_sheet *t, const lmi_head *heads, size_t n) {
    lmi_putc(&w->out, '\n');
    lmi_sheet_start(t, &w->out, w->width, w->o->ascii, w->e);
    t->color = w->o->color;
    for (size_t i = 0; i < n; i++) lmi_sheet_column(t, &heads[i]);
}

lam_status lmi_ranks_put_phases(writer *w, const lmi_phases *rows, int32_t n, const char *others) {
    static const lmi_head heads[] = {{"a step", LMI_LEFT, 0},    {"input", LMI_RIGHT, 3},
                                     {"h2d", LMI_RIGHT, 6},      {"forward", LMI_RIGHT, 0},
                                     {"backward", LMI_RIGHT, 0}, {"optimizer", LMI_RIGHT, 5},
                                     {"waits", LMI_RIGHT, 2},    {"other", LMI_RIGHT, 4},
                                     {"step", LMI_RIGHT, 0}};
    static const lmi_us order[] = {LMI_US_INPUT,     LMI_US_H2D,  LMI_US_FORWARD, LMI_US_BACKWARD,
                                   LMI_US_OPTIMIZER, LMI_US_COMM, LMI_US_OTHER,   LMI_US_STEP};
    const lam_ranks *r = w->r;
    lmi_sheet t;
    if (!n) return LAM_OK;
    lmi_ranks_sheet(w, &t, heads, sizeof heads / sizeof *heads);
    for (int32_t i = 0; i < n; i++) {
        const lmi_phases *p = &rows[i];
        if (p->rank >= 0)
            lmi_putf(t.cell, "rank %d", (int)p->rank);
        else if (p->node >= 0)
            lmi_put_clean(t.cell, lmi_ranks_node_name(r, p->node));
        else
            lmi_put(t.cell, others);
        lmi_end_cell(&t);
        for (size_t k = 0; k < sizeof order / sizeof *order; k++) lmi_us_cell(&t, p->of[order[k]]);
    }
    lmi_sheet_write(&t, 8, 8);
    lmi_ranks_remark(
        w, r->waits == LAM_WAITS_APART
               ? "(medians over ranks of their means; waits: for other ranks and the transfer)"
               : "(medians over ranks of their means; waits for other ranks are not measured apart)");
    return lmi_sheet_free(&t);
}

static lam_status put_phases(writer *w) {
    return lmi_ranks_put_phases(w, w->r->phases, w->r->n_phases, w->r->n_phases > 1 ? "others" : "all");
}

/* A node beside the others in some windows, or several nodes of one mark: how late the latest is. */
static char mark_of(const lam_ranks *r, int32_t first, int32_t last, int32_t from, int32_t to,
                    const int32_t *place) {
    double most = NAN;
    for (int32_t k = first; k < last; k++)
        for (int32_t i = 0; i < r->n_ranks; i++) {
            const float late = r->late[(size_t)k * (size_t)r->n_ranks + (size_t)i];
            if (r->ranks[i].node < 0 || isnan(late)) continue;
            const int32_t at = place[r->ranks[i].node];
            if (at >= from && at < to && !(most >= late)) most = late;
        }
    return isnan(most) ? '?' : most < 0.02 ? '.' : most < 0.05 ? ':' : '#';
}

static void put_marks(const writer *w, lmi_buf *b, int32_t first, int32_t last, const int32_t *place) {
    const int32_t n = w->r->n_nodes, marks = n < MOST_MARKS ? n : MOST_MARKS;
    for (int32_t k = 0; k < marks; k++)
        lmi_putc(b, mark_of(w->r, first, last, (int32_t)((int64_t)k * n / marks),
                            (int32_t)((int64_t)(k + 1) * n / marks), place));
}

/* The median of a number of some windows. */
static double middle_of(const lam_ranks *r, int32_t first, int32_t last, size_t at) {
    size_t n = 0;
    for (int32_t k = first; k < last; k++)
        r->room[n++] = *(const double *)(const void *)((const char *)&r->wins[k] + at);
    return lmi_middle(r->room, n);
}

/* The place of each node among those that have ranks, in the order of its ranks; NULL: memory ran out. */
static int32_t *places(const lam_ranks *r, lmi_arena *a) {
    int32_t n = 0, *place = lmi_alloc_none(a, (int32_t)r->nodes.n);
    for (int32_t i = 0; place && i < r->n_ranks; i++)
        if (r->ranks[i].node >= 0 && place[r->ranks[i].node] < 0) place[r->ranks[i].node] = n++;
    return place;
}

void lmi_ranks_put_when(lmi_sheet *t, const lam_ranks *r, int32_t k, int32_t n, int32_t *first,
                        int32_t *last) {
    *first = (int32_t)((int64_t)k * r->n_wins / n);
    *last = (int32_t)((int64_t)(k + 1) * r->n_wins / n);
    lmi_put_moment(t->cell, r->wins[*first].started);
    lmi_end_cell(t);
    lmi_put_grouped(t->cell, lmi_exact(r->wins[*first].first_step));
    lmi_end_cell(t);
}

static lam_status put_over_time(writer *w, const int32_t *place) {
    static const lmi_head heads[] = {{"when", LMI_LEFT, 0},
                                     {"from step", LMI_RIGHT, 4},
                                     {"step", LMI_RIGHT, 0},
                                     {"own", LMI_RIGHT, 3},
                                     {"late", LMI_RIGHT, 0},
                                     {"transfer", LMI_RIGHT, 2},
                                     {"nodes by own work", LMI_LEFT, 0}};
    const lam_ranks *r = w->r;
    const int32_t most = w->o->rows > 0 ? w->o->rows : LMI_RANKS_ROWS,
                  n = r->n_wins < most ? r->n_wins : most;
    const bool marks = r->n_nodes > 1 && r->late && w->width >= MARKS_LEAST;
    lmi_sheet t;
    if (n < 2) return LAM_OK;
    lmi_ranks_sheet(w, &t, heads, sizeof heads / sizeof *heads - !marks);
    for (int32_t k = 0; k < n; k++) {
        int32_t first, last;
        lmi_ranks_put_when(&t, r, k, n, &first, &last);
        lmi_us_cell(&t, middle_of(r, first, last, offsetof(lmi_win, step)));
        lmi_us_cell(&t, middle_of(r, first, last, offsetof(lmi_win, own)));
        lmi_us_cell(&t, middle_of(r, first, last, offsetof(lmi_win, late)));
        lmi_us_cell(&t, middle_of(r, first, last, offsetof(lmi_win, transfer)));
        if (!marks) continue;
        put_marks(w, t.cell, first, last, place);
        lmi_end_cell(&t);
    }
    lmi_sheet_write(&t, 8, 8);
    if (marks)
        lmi_ranks_remark(
            w, r->n_nodes > MOST_MARKS
                   ? "(a mark is some nodes: the latest of their ranks . < 2 % : < 5 % # more ? unknown)"
                   : "(a mark is a node: the latest of its ranks . < 2 % : < 5 % # more ? unknown)");
    return lmi_sheet_free(&t);
}

static void put_last(writer *w) {
    const lam_ranks *r = w->r;
    lmi_buf b;
    int64_t rest = r->n_last_steps;
    if (!r->n_lasts || r->n_ranks < 2) return;
    lmi_buf_init(&b);
    for (int32_t i = 0; i < r->n_lasts; i++) {
        lmi_putf(&b, "%srank %d ", i ? ", " : "", (int)r->lasts[i].rank);
        lmi_put_percent(&b, (double)r->lasts[i].steps, (double)r->n_last_steps, &lmi_plain);
        rest -= r->lasts[i].steps;
    }
    if (r->n_others) {
        lmi_putf(&b, ", %d other%s ", (int)r->n_others, r->n_others == 1 ? "" : "s");
        lmi_put_percent(&b, (double)rest, (double)r->n_last_steps, &lmi_plain);
    }
    lmi_put(&b, " of the steps");
    lmi_putc(&w->out, '\n');
    lmi_ranks_words(w, "who is last", 13, &b);
    lmi_buf_free(&b);
}

static lam_status put_text(writer *w) {
    lmi_arena room;
    put_head(w);
    put_verdict(w);
    put_watch(w);
    lmi_arena_init(&room, UINT64_MAX);
    const int32_t *place = places(w->r, &room);
    lam_status s = place ? put_phases(w) : lmi_nomem(w->e);
    if (s == LAM_OK) s = put_over_time(w, place);
    lmi_arena_free(&room);
    put_last(w);
    return s;
}

lam_status lmi_ranks_put(const lam_ranks *r, const lam_ranks_options *o, lmi_buf *out, lam_error *e) {
    writer w = {.r = r, .o = o, .width = o->width > 0 ? (size_t)o->width : DEFAULT_WIDTH, .e = e};
    lmi_buf_init(&w.out);
    put_verdict(&w);
    put_watch(&w);
    const lam_status s = put_phases(&w);
    lmi_put(out, lmi_buf_text(&w.out));
    lmi_buf_used(&w.out, out);
    return s;
}

lam_status lam_ranks_write(const lam_ranks *r, const lam_ranks_options *o, lam_sink to, lam_error *e) {
    static const char *const formats[] = {"text", "json"};
    const char *format = o->format ? o->format : "text";
    if (!r || !r->judged) return lmi_fail(e, LAM_USAGE, "lam_ranks_write", "the verdict was not reached yet");
    if (strcmp(format, "text") != 0 && strcmp(format, "json") != 0)
        return lmi_no_such(e, "format", format, "a run's folder", formats, sizeof *formats, 2);
    writer w = {.r = r, .o = o, .width = o->width > 0 ? (size_t)o->width : DEFAULT_WIDTH, .e = e};
    lmi_buf_init(&w.out);
    lam_status s = LAM_OK;
    if (strcmp(format, "json") == 0)
        lmi_ranks_json(r, &w.out);
    else
        s = r->look.there ? lmi_ranks_put_look(&w) : put_text(&w);
    if (s == LAM_OK) s = lmi_buf_flush(&w.out, to, e);
    lmi_buf_free(&w.out);
    return s;
}
