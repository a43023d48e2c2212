/* SPDX-License-Identifier: Apache-2.0
 *
 * Several processes of one run side by side: each, how far apart they are, and the layers that one of them is
 * slow in. Layers of equal paths are the same. */
#include "report/ranks/ranks.h"
#include "report/recorded/recorded.h"

#include <math.h>
#include <stdlib.h>

/* -- names ------------------------------------------------------------------------------------- */

static bool by_rank(const lmi_recorded *w) {
    for (int32_t i = 0; i < w->n; i++)
        for (int32_t k = 0; k < i; k++)
            if (lam_recording_run(w->all[i])->rank == lam_recording_run(w->all[k])->rank) return false;
    return true;
}

static const char *last_part(const char *file) {
    const char *slash = strrchr(file, '/');
    return slash && slash[1] ? slash + 1 : file;
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

lam_status lmi_recorded_names(lmi_recorded *w) {
    w->by_rank = by_rank(w);
    w->names = calloc((uint32_t)w->n, sizeof *w->names);
    if (!w->names) return lmi_nomem(w->e);
    for (int32_t i = 0; i < w->n; i++) w->names[i] = last_part(lam_recording_run(w->all[i])->file);
    qsort(w->names, (size_t)w->n, sizeof *w->names, by_text);
    return LAM_OK;
}

/* The file without its folder, unless another file has that name too. */
static const char *file_of(const lmi_recorded *w, int32_t i) {
    const char *file = lam_recording_run(w->all[i])->file, *name = last_part(file);
    const char **at = bsearch(&name, w->names, (size_t)w->n, sizeof *w->names, by_text);
    if (!at) return file;
    bool before = at > w->names && strcmp(at[-1], name) == 0;
    bool after = at + 1 < w->names + w->n && strcmp(at[1], name) == 0;
    return before || after ? file : name;
}

void lmi_put_which(lmi_buf *b, const lmi_recorded *w, int32_t i) {
    if (w->by_rank)
        lmi_putf(b, "rank %d", (int)lam_recording_run(w->all[i])->rank);
    else
        lmi_put_clean(b, file_of(w, i));
}

/* -- each process ------------------------------------------------------------------------------ */

/* Writes a state that is short enough for a table. */
static void put_state(const lmi_recorded *w, const lam_recorded_run *run, lmi_buf *b) {
    if (run->gone)
        lmi_putf(b, "pid %lld died", (long long)run->pid);
    else
        lmi_put_state(w, run, b);
}

static void integer_cell(lmi_sheet *t, int64_t n) {
    lmi_put_integer(t->cell, n);
    lmi_end_cell(t);
}

static void ns_cell(lmi_sheet *t, lam_middle m) {
    lmi_put_median(t->cell, m);
    lmi_end_cell(t);
}

static void share_cell(lmi_sheet *t, double share, bool at_least) {
    if (at_least && !isnan(share)) lmi_put(t->cell, ">= ");
    lmi_put_share_of_peak(t->cell, share);
    lmi_end_cell(t);
}

/* The share of the peak is known of some process. */
static bool tells_shares(const lmi_recorded *w) {
    for (int32_t i = 0; i < w->n; i++) {
        const lam_recorded_model *m = lmi_recorded_model(w, i);
        if (m && !isnan(m->used.mfu)) return true;
    }
    return false;
}

/* Why it is not, of the first that says so. */
static void put_why_no_shares(lmi_recorded *w) {
    const size_t from = w->out.n;
    const char *why = NULL;
    for (int32_t i = 0; i < w->n && !why; i++) {
        const lam_recorded_model *m = lmi_recorded_model(w, i);
        why = m && m->n_steps ? lmi_used_why(&m->used) : NULL;
    }
    if (why) lmi_putf(&w->out, "MFU ? (%s)\n", why);
    lmi_recorded_wrap(w, from);
}

static lam_status put_each(lmi_recorded *w) {
    static const lmi_head heads[] = {
        {"last step", LMI_RIGHT, 2}, {"step", LMI_RIGHT, 0},   {"forward", LMI_RIGHT, 0},
        {"backward", LMI_RIGHT, 1},  {"params", LMI_RIGHT, 5}, {"local params", LMI_RIGHT, 4},
        {"peak", LMI_RIGHT, 0},      {"state", LMI_RIGHT, 3},  {"MFU", LMI_RIGHT, 3},
        {"HFU", LMI_RIGHT, 6},
    };
    enum { SHARES = 2 }; /* columns, at the end */
    const bool shares = tells_shares(w);
    static const lam_recorded_model none = {.params = -1,
                                            .local_params = -1,
                                            .last = -1,
                                            .used = {.mfu = NAN, .hfu = NAN}};
    lmi_sheet t;
    lmi_recorded_sheet(&t, w, &(lmi_head){w->by_rank ? "rank" : "file", LMI_LEFT, 0}, 1);
    for (size_t k = 0; k < sizeof heads / sizeof *heads - (shares ? 0 : SHARES); k++)
        lmi_sheet_column(&t, &heads[k]);
    for (int32_t i = 0; i < w->n; i++) {
        const lam_recorded_run *run = lam_recording_run(w->all[i]);
        const lam_recorded_model *m = lmi_recorded_model(w, i) ? lmi_recorded_model(w, i) : &none;
        if (w->by_rank)
            lmi_put_integer(t.cell, run->rank);
        else
            lmi_put_which(t.cell, w, i);
        lmi_end_cell(&t);
        integer_cell(&t, m->last);
        ns_cell(&t, m->step_ns);
        ns_cell(&t, m->forward_ns);
        ns_cell(&t, m->backward_ns);
        integer_cell(&t, m->params);
        integer_cell(&t, m->local_params);
        lmi_put_size(t.cell, m->peak_bytes);
        lmi_end_cell(&t);
        put_state(w, run, t.cell);
        lmi_end_cell(&t);
        if (shares) share_cell(&t, m->used.mfu, m->used.at_least);
        if (shares) share_cell(&t, m->used.hfu, m->used.at_least);
    }
    LAM_TRY(lmi_recorded_sheet_end(w, &t));
    if (!shares) put_why_no_shares(w);
    return LAM_OK;
}

/* -- how far apart ----------------------------------------------------------------------------- */

/* One number of a process; n 0: not measured there. */
typedef lam_middle (*number)(const lam_recorded_model *m);
static lam_middle step_of(const lam_recorded_model *m) { return m->step_ns; }
static lam_middle forward_of(const lam_recorded_model *m) { return m->forward_ns; }
static lam_middle backward_of(const lam_recorded_model *m) { return m->backward_ns; }
static lam_middle peak_of(const lam_recorded_model *m) { return m->peak_bytes; }
static lam_middle local_of(const lam_recorded_model *m) {
    return (lam_middle){m->local_params, 0, m->local_params >= 0};
}

static const struct {
    const char *name;
    number of;
} numbers[] = {{"step", step_of},
               {"forward", forward_of},
               {"backward", backward_of},
               {"peak memory", peak_of},
               {"local params", local_of}};

/* Writes "step 1.02x (rank 3 most, rank 0 least)"; false unless at least two processes measured it. */
static bool put_one_spread(lmi_recorded *w, int32_t k, bool first) {
    int32_t most = -1, least = -1, n = 0;
    for (int32_t i = 0; i < w->n; i++) {
        const lam_recorded_model *m = lmi_recorded_model(w, i);
        lam_middle v = m ? numbers[k].of(m) : (lam_middle){0, 0, 0};
        if (!v.n) continue;
        n++;
        if (most < 0 || v.median > numbers[k].of(lmi_recorded_model(w, most)).median) most = i;
        if (least < 0 || v.median < numbers[k].of(lmi_recorded_model(w, least)).median) least = i;
    }
    int64_t low = least < 0 ? 0 : numbers[k].of(lmi_recorded_model(w, least)).median;
    if (n < 2 || low <= 0) return false;
    double ratio = (double)numbers[k].of(lmi_recorded_model(w, most)).median / (double)low;
    lmi_putf(&w->out, "%s%s %.2fx", first ? "most to least: " : ", ", numbers[k].name, ratio);
    if (ratio < 1.005) return true;
    lmi_put(&w->out, " (");
    lmi_put_which(&w->out, w, most);
    lmi_putc(&w->out, ')');
    return true;
}

static void put_spread(lmi_recorded *w) {
    size_t from = w->out.n;
    bool first = true;
    for (int32_t k = 0; k < (int32_t)(sizeof numbers / sizeof *numbers); k++)
        if (put_one_spread(w, k, first)) first = false;
    if (!first) lmi_putc(&w->out, '\n');
    lmi_recorded_wrap(w, from);
}

/* -- stragglers -------------------------------------------------------------------------------- */

/* Returns false if fewer than two processes measured it. */
static bool compare(const lmi_recorded *w, const lam_recorded_place *p, int32_t i, int64_t *room,
                    lmi_straggler *out) {
    size_t n = 0;
    *out = (lmi_straggler){.place = p, .model = lmi_recorded_model(w, 0)->name, .slowest = -1};
    for (int32_t r = 0; r < w->n; r++) {
        const lam_recorded_place *there = lmi_recorded_place_like(w->all[r], lmi_recorded_index(w, r), p, i);
        int64_t own = there ? there->own_ns : -1;
        if (own < 0) continue;
        room[n++] = own;
        if (own <= out->slowest) continue;
        out->slowest = own;
        out->which = r;
    }
    if (n < 2) return false;
    qsort(room, n, sizeof *room, lmi_by_size);
    out->among = room[(n - 1) / 2];
    return true;
}

lam_status lmi_stragglers(const lmi_recorded *w, lmi_straggler out[LMI_STRAGGLERS], int32_t *found) {
    int32_t n = 0;
    const lam_recorded_place *p;
    *found = 0;
    if (!lmi_recorded_model(w, 0)) return LAM_OK;
    int64_t *room = calloc((size_t)w->n, sizeof *room);
    if (!room) return lmi_nomem(w->e);
    for (int32_t i = 0; (p = lam_recording_place(w->all[0], w->model, i)); i++) {
        lmi_straggler s;
        if (!compare(w, p, i, room, &s) || s.slowest <= s.among) continue;
        int32_t at = n < LMI_STRAGGLERS ? n++ : LMI_STRAGGLERS;
        for (; at > 0 && s.slowest - s.among > out[at - 1].slowest - out[at - 1].among; at--)
            if (at < LMI_STRAGGLERS) out[at] = out[at - 1];
        if (at < LMI_STRAGGLERS) out[at] = s;
    }
    free(room);
    *found = n;
    return LAM_OK;
}

static lam_status put_stragglers(lmi_recorded *w) {
    static const lmi_head heads[] = {{"layer", LMI_LEFT, 0},
                                     {"slowest", LMI_RIGHT, 0},
                                     {"its time", LMI_RIGHT, 0},
                                     {"middle", LMI_RIGHT, 1},
                                     {"ratio", LMI_RIGHT, 0}};
    lmi_straggler found[LMI_STRAGGLERS];
    int32_t n;
    LAM_TRY(lmi_stragglers(w, found, &n));
    if (!n) return LAM_OK;
    lmi_sheet t;
    size_t from = w->out.n;
    lmi_recorded_sheet(&t, w, heads, 5);
    lmi_putf(&w->out, "\nlayers by the time that the slowest %s takes longer than the middle one:\n",
             w->by_rank ? "rank" : "run");
    lmi_recorded_wrap(w, from);
    for (int32_t i = 0; i < n; i++) {
        lmi_text_cell(&t, found[i].place->depth ? found[i].place->path : "(the model)");
        lmi_put_which(t.cell, w, found[i].which);
        lmi_end_cell(&t);
        ns_cell(&t, (lam_middle){found[i].slowest, 0, 1});
        ns_cell(&t, (lam_middle){found[i].among, 0, 1});
        if (found[i].among > 0)
            lmi_putf(t.cell, "%.2fx", (double)found[i].slowest / (double)found[i].among);
        else
            lmi_put(t.cell, "?");
        lmi_end_cell(&t);
    }
    return lmi_recorded_sheet_end(w, &t);
}

static void put_name(lmi_recorded *w) {
    const lam_recorded_model *m = lmi_recorded_model(w, 0);
    lmi_put(&w->out, m->name);
    if (m->n_kinds < 2) return;
    lmi_put(&w->out, ", ");
    lmi_put_kind(&w->out, m);
}

static lam_status put_verdict(lmi_recorded *w) {
    const lam_ranks_options o = {.width = (int32_t)w->width, .ascii = w->o->ascii, .color = w->o->color};
    lam_ranks *r;
    LAM_TRY(lmi_recorded_judge(w, &r));
    const lam_status s = r ? lmi_ranks_put(r, &o, &w->out, w->e) : LAM_OK;
    lam_ranks_free(r);
    return s;
}

static lam_status put_all(lmi_recorded *w) {
    const lam_recorded_run *run = lam_recording_run(w->all[0]);
    const lam_recorded_model *m = lmi_recorded_model(w, 0);
    const char *why = lmi_recorded_unlike(w);
    size_t from = 0;
    if (run->world >= w->n && !why)
        lmi_putf(&w->out, "%d processes of %d", (int)w->n, (int)run->world);
    else
        lmi_putf(&w->out, "%d recordings", (int)w->n);
    if (run->command) lmi_putf(&w->out, ": %s", run->command);
    if (m) lmi_put(&w->out, "; ");
    if (m) put_name(w);
    if (w->copies)
        lmi_putf(&w->out, "\n%d file%s a copy of another here, and left out", (int)w->copies,
                 w->copies == 1 ? " is" : "s are each");
    if (w->replaced)
        lmi_putf(&w->out, "\n%d file%s of a rank that another process went on with, and left out",
                 (int)w->replaced, w->replaced == 1 ? " is" : "s are each");
    if (w->n_older)
        lmi_putf(&w->out, "\nwith %d recording%s of earlier starts of the job, in the verdict alone",
                 (int)w->n_older, w->n_older == 1 ? "" : "s");
    if (why) lmi_putf(&w->out, "\nnot of one run: %s; name the files of one", why);
    lmi_putc(&w->out, '\n');
    lmi_recorded_wrap(w, 0);
    LAM_TRY(put_verdict(w));
    lmi_putc(&w->out, '\n');
    from = w->out.n;
    do {
        if (w->model > 0) {
            from = w->out.n;
            lmi_putc(&w->out, '\n');
            put_name(w);
            lmi_put(&w->out, "\n\n");
        }
        lmi_recorded_wrap(w, from);
        LAM_TRY(put_each(w));
        put_spread(w);
        LAM_TRY(put_stragglers(w));
        w->model++;
    } while (lmi_recorded_model(w, 0));
    return LAM_OK;
}

lam_status lmi_recorded_ranks(lmi_recorded *w) {
    lam_status s = lmi_recorded_names(w);
    if (s == LAM_OK) s = put_all(w);
    free(w->names);
    w->names = NULL;
    return s;
}

lam_status lmi_recorded_look(lmi_recorded *w, lam_sink to) {
    const lam_recording_options *o = w->o;
    const lam_ranks_options as = {o->format, (int32_t)w->width, o->ascii, o->color, o->rows};
    const char *why = w->n > 1 ? lmi_recorded_unlike(w) : "there is one recording";
    lam_ranks *r = NULL;
    LAM_TRY(lmi_recorded_judge(w, &r));
    if (!r)
        return lmi_fail(
            w->e, LAM_USAGE, lam_recording_run(w->all[0])->file,
            "a rank, a node or the layers of all are shown beside those of other processes of one run, "
            "and %s",
            why ? why : "each of these is a run of its own");
    const lam_status s = lam_ranks_write(r, &as, to, w->e);
    lam_ranks_free(r);
    return s;
}
