/* SPDX-License-Identifier: Apache-2.0
 *
 * A recording as text: the run, its models, and a line a layer. */
#include "report/recorded/recorded.h"

#include <stdio.h>
#include <stdlib.h>

enum { DEFAULT_WIDTH = 100, CELL = 48, MOST_COLUMNS = 16 };

/* -- pieces ------------------------------------------------------------------------------------ */

void lmi_put_ns(lmi_buf *b, lam_middle m) {
    static const struct {
        int64_t unit;
        const char *name;
    } units[] = {{1000000000, "s"}, {1000000, "ms"}, {1000, "us"}, {1, "ns"}};
    if (m.n == 0) {
        lmi_put(b, "?");
        return;
    }
    for (int i = 0; i < 4; i++) {
        int64_t unit = units[i].unit;
        if (m.median < unit && unit > 1) continue;
        int decimals = unit == 1 ? 0 : m.median < 10 * unit ? 2 : m.median < 100 * unit ? 1 : 0;
        lmi_putf(b, "%.*f %s", decimals, (double)m.median / (double)unit, units[i].name);
        return;
    }
}

void lmi_put_size(lmi_buf *b, lam_middle bytes) {
    char text[CELL];
    lam_text_bytes(text, sizeof text, bytes.n ? lmi_exact(bytes.median) : lmi_unknown());
    lmi_put(b, text);
}

void lmi_put_integer(lmi_buf *b, int64_t n) {
    char text[CELL];
    lam_text_count(text, sizeof text, n < 0 ? lmi_unknown() : lmi_exact(n), true);
    lmi_put(b, text);
}

/* Civil date from days since 1970 (Howard Hinnant, "chrono-compatible low-level date algorithms"). */
void lmi_put_when(lmi_buf *b, int64_t unix_ns) {
    int64_t seconds = unix_ns / 1000000000 - (unix_ns % 1000000000 < 0);
    int64_t days = seconds / 86400 - (seconds % 86400 < 0), rest = seconds - days * 86400;
    int64_t z = days + 719468, era = z / 146097, of_era = z % 146097;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t day = of_era - (365 * year + year / 4 - year / 100), m = (5 * day + 2) / 153;
    int64_t month = m < 10 ? m + 3 : m - 9;
    lmi_putf(b, "%04d-%02d-%02d %02d:%02d:%02d UTC", (int)(year + era * 400 + (month <= 2)), (int)month,
             (int)(day - (153 * m + 2) / 5 + 1), (int)(rest / 3600), (int)(rest / 60 % 60), (int)(rest % 60));
}

static void put_state(const lmi_recorded *w, const lam_recorded_run *run, lmi_buf *b) {
    if (run->ended_unix_ns) {
        int64_t ns = run->ended_unix_ns - run->started_unix_ns;
        lmi_put(b, "ended after ");
        lmi_put_ns(b, (lam_middle){ns > 0 ? ns : 0, 0, 1});
        return;
    }
    if (run->gone) {
        lmi_putf(b, "the process that wrote it (pid %lld) has ended without closing it; last written ",
                 (long long)run->pid);
        lmi_put_when(b, run->seen_unix_ns);
        return;
    }
    int64_t ago = w->o->now_unix_ns - run->seen_unix_ns;
    if (w->o->now_unix_ns && ago < INT64_C(10) * 1000000000) {
        lmi_put(b, "not ended yet");
        return;
    }
    lmi_put(b, "never ended: last written ");
    lmi_put_when(b, run->seen_unix_ns);
}

void lmi_put_state(const lmi_recorded *w, const lam_recorded_run *run, lmi_buf *b) {
    put_state(w, run, b);
    if (run->cut) lmi_put(b, "; its -wal file is not beside it, so its newest steps may be missing");
}

/* Columns that give way where the table is wider than it may be, before the name gets shorter than this. */
enum { NAME = 24, LEAST_NAME = 12 };

static size_t width_of(const size_t *wide, int32_t n) {
    size_t all = 0;
    for (int32_t k = 0; k < n; k++) all += wide[k] ? wide[k] + 2 : 0;
    return all > 2 ? all - 2 : 0;
}

static void fit(const lmi_recorded *w, size_t *wide, int32_t n, const char *spare) {
    size_t name = wide[0] < NAME ? wide[0] : NAME;
    for (; *spare && width_of(wide, n) - wide[0] + name > w->width; spare++)
        if (*spare - 'a' < n) wide[*spare - 'a'] = 0;
    size_t all = width_of(wide, n), over = all > w->width ? all - w->width : 0;
    if (over) wide[0] = wide[0] > over + LEAST_NAME ? wide[0] - over : name < LEAST_NAME ? name : LEAST_NAME;
}

void lmi_put_grid(lmi_recorded *w, const lmi_grid *g, int32_t left, const char *spare) {
    size_t wide[MOST_COLUMNS + 1] = {0};
    int32_t n = g->n_columns <= MOST_COLUMNS ? g->n_columns : MOST_COLUMNS + 1;
    for (int32_t k = 0; k < n; k++) wide[k] = lmi_grid_width(g, k, lmi_width);
    if (left > 0) fit(w, wide, n, spare);
    for (int32_t r = 0; r < lmi_grid_rows(g); r++) {
        size_t before = w->out.n;
        for (int32_t k = 0; k < n; k++) {
            const char *cell = lmi_grid_cell(g, r, k);
            size_t columns = lmi_width(cell), pad = wide[k] > columns ? wide[k] - columns : 0;
            if (!wide[k]) continue;
            if (k) lmi_put(&w->out, "  ");
            if (k >= left) lmi_pad(&w->out, ' ', pad);
            lmi_put_middle(&w->out, cell, wide[k], w->o->ascii);
            if (k < left) lmi_pad(&w->out, ' ', pad);
        }
        while (w->out.n > before && w->out.s[w->out.n - 1] == ' ') w->out.s[--w->out.n] = '\0';
        lmi_putc(&w->out, '\n');
    }
}

/* -- cells of a grid --------------------------------------------------------------------------- */

void lmi_sheet_start(lmi_sheet *t, int32_t columns, lam_error *e) {
    *t = (lmi_sheet){.e = e};
    lmi_grid_init(&t->grid, columns);
    lmi_buf_init(&t->cell);
}

lam_status lmi_sheet_end(lmi_sheet *t, lmi_recorded *w, int32_t left, const char *spare) {
    lam_status s = t->s == LAM_OK ? lmi_buf_status(&t->cell, t->e) : t->s;
    if (s == LAM_OK) lmi_put_grid(w, &t->grid, left, spare);
    lmi_grid_free(&t->grid);
    lmi_buf_free(&t->cell);
    return s;
}

void lmi_end_cell(lmi_sheet *t) {
    if (t->s == LAM_OK) t->s = lmi_grid_put(&t->grid, NULL, NULL, lmi_buf_text(&t->cell), t->e);
    t->cell.n = 0;
    lmi_putn(&t->cell, "", 0);
}

void lmi_text_cell(lmi_sheet *t, const char *text) {
    lmi_put(&t->cell, text);
    lmi_end_cell(t);
}

void lmi_integer_cell(lmi_sheet *t, int64_t n) {
    lmi_put_integer(&t->cell, n);
    lmi_end_cell(t);
}

void lmi_ns_cell(lmi_sheet *t, lam_middle m) {
    lmi_put_ns(&t->cell, m);
    lmi_end_cell(t);
}

void lmi_size_cell(lmi_sheet *t, lam_middle m) {
    lmi_put_size(&t->cell, m);
    lmi_end_cell(t);
}

/* -- a model's layers -------------------------------------------------------------------------- */

typedef struct table {
    const lam_recorded_model *m;
    int64_t total;                                     /* own time of all layers */
    bool backward, recompute, memory, health, forward; /* measured for some layer */
    bool device, device_memory;
    lmi_sheet sheet;
} table;

static void look(const lmi_recorded *w, int32_t model, table *t) {
    for (int32_t i = 0; i < t->m->n_places; i++) {
        const lam_recorded_place *p = lam_recording_place(w->all[0], model, i);
        int64_t own = p->own_ns;
        if (own > 0 && lmi_add_over(t->total, own, &t->total)) t->total = INT64_MAX;
        t->forward = t->forward || p->forward_ns.n;
        t->backward = t->backward || p->backward_ns.n;
        t->recompute = t->recompute || (p->recompute_ns.n && p->recompute_ns.median > 0);
        t->memory = t->memory || p->retained_bytes.n || p->peak_bytes.n;
        t->device = t->device || p->device_forward_ns.n || p->device_backward_ns.n;
        t->device_memory = t->device_memory || p->device_retained_bytes.n || p->device_peak_bytes.n;
        t->health = t->health || p->nonfinite >= 0;
    }
}

static void head(table *t) {
    lmi_text_cell(&t->sheet, "layer");
    lmi_text_cell(&t->sheet, "type");
    lmi_text_cell(&t->sheet, "calls");
    lmi_text_cell(&t->sheet, "forward");
    lmi_text_cell(&t->sheet, "self");
    if (t->backward) lmi_text_cell(&t->sheet, "backward");
    if (t->recompute) lmi_text_cell(&t->sheet, "again");
    if (t->device) lmi_text_cell(&t->sheet, "device");
    if (t->device) lmi_text_cell(&t->sheet, "bwd device");
    lmi_text_cell(&t->sheet, "share");
    if (t->memory) lmi_text_cell(&t->sheet, "retained");
    if (t->memory) lmi_text_cell(&t->sheet, "peak");
    if (t->device_memory) lmi_text_cell(&t->sheet, "dev retained");
    if (t->device_memory) lmi_text_cell(&t->sheet, "dev peak");
    if (t->health) lmi_text_cell(&t->sheet, "bad steps");
}

static void line(table *t, const lam_recorded_place *p) {
    int64_t own = p->own_ns;
    lmi_text_cell(&t->sheet, p->depth ? p->path : "(the model)");
    lmi_text_cell(&t->sheet, p->type);
    if (p->calls.n) lmi_put_integer(&t->sheet.cell, p->calls.median);
    lmi_end_cell(&t->sheet);
    lmi_ns_cell(&t->sheet, p->forward_ns);
    lmi_ns_cell(&t->sheet, p->self_ns);
    if (t->backward) lmi_ns_cell(&t->sheet, p->total_backward_ns);
    if (t->recompute) lmi_ns_cell(&t->sheet, p->recompute_ns);
    if (t->device) lmi_ns_cell(&t->sheet, p->device_forward_ns);
    if (t->device) lmi_ns_cell(&t->sheet, p->device_backward_ns);
    if (own >= 0 && t->total > 0)
        lmi_putf(&t->sheet.cell, "%.1f%%", 100.0 * (double)own / (double)t->total);
    else
        lmi_put(&t->sheet.cell, "?");
    lmi_end_cell(&t->sheet);
    if (t->memory) lmi_size_cell(&t->sheet, p->retained_bytes);
    if (t->memory) lmi_size_cell(&t->sheet, p->peak_bytes);
    if (t->device_memory) lmi_size_cell(&t->sheet, p->device_retained_bytes);
    if (t->device_memory) lmi_size_cell(&t->sheet, p->device_peak_bytes);
    if (t->health) lmi_put_integer(&t->sheet.cell, p->nonfinite);
    if (t->health) lmi_end_cell(&t->sheet);
}

static int by_own_time(const void *a, const void *b) {
    const lam_recorded_place *const *x = a, *const *y = b;
    int64_t m = (*x)->own_ns, n = (*y)->own_ns;
    return m != n ? (m < n) - (m > n) : (*x > *y) - (*x < *y);
}

/* The places that are shown, in the order in which they are; `left` says how many were not. */
static int32_t choose(const lmi_recorded *w, int32_t model, const lam_recorded_place **to, int32_t *left) {
    int32_t n = 0;
    const lam_recorded_place *p;
    *left = 0;
    for (int32_t i = 0; (p = lam_recording_place(w->all[0], model, i)); i++) {
        bool deep = w->o->depth >= 0 && p->depth > w->o->depth;
        if (!deep && (p->n_steps || !w->o->rows)) to[n++] = p;
    }
    if (!w->o->rows) return n;
    qsort((void *)to, (size_t)n, sizeof(lam_recorded_place *), by_own_time);
    *left = n > w->o->rows ? n - w->o->rows : 0;
    return n - *left;
}

static lam_status put_layers(lmi_recorded *w, int32_t model) {
    table t = {.m = lam_recording_model(w->all[0], model)};
    int32_t left, n;
    const lam_recorded_place **places = calloc((size_t)t.m->n_places + 1, sizeof *places);
    if (!places) return lmi_nomem(w->e);
    look(w, model, &t);
    int32_t columns =
        6 + t.backward + t.recompute + 2 * t.device + 2 * t.memory + 2 * t.device_memory + t.health;
    lmi_sheet_start(&t.sheet, columns, w->e);
    head(&t);
    n = choose(w, model, places, &left);
    for (int32_t i = 0; i < n; i++) line(&t, places[i]);
    lmi_putc(&w->out, '\n');
    const int again = 'f' + t.backward, retained = again + t.recompute + 2 * t.device + 1;
    char spare[MOST_COLUMNS] = "cbe"; /* calls, type, self; then what only some recordings have */
    size_t at = strlen(spare);
    if (t.recompute) spare[at++] = (char)again;
    for (int i = 0; i < 2 * t.memory + 2 * t.device_memory; i++) spare[at++] = (char)(retained + i);
    if (t.device) spare[at++] = 'd'; /* the host's times */
    if (t.device && t.backward) spare[at++] = 'f';
    lam_status s = lmi_sheet_end(&t.sheet, w, 2, spare);
    if (left) lmi_putf(&w->out, "and %d more\n", (int)left);
    free((void *)places);
    return s;
}

/* -- a model ----------------------------------------------------------------------------------- */

static void put_device(lmi_recorded *w, const lam_recorded_model *m) {
    if (!m->device_forward_ns.n && !m->device_peak_bytes.n) return;
    lmi_put(&w->out, "; on the device");
    if (m->device_forward_ns.n) {
        lmi_put(&w->out, " forward ");
        lmi_put_ns(&w->out, m->device_forward_ns);
    }
    if (m->device_backward_ns.n) {
        lmi_put(&w->out, ", backward ");
        lmi_put_ns(&w->out, m->device_backward_ns);
    }
    if (m->device_peak_bytes.n) {
        lmi_put(&w->out, m->device_forward_ns.n ? ", peak " : " peak ");
        lmi_put_size(&w->out, m->device_peak_bytes);
    }
}

/* "a training step of 2 calls": what is usual is not said. */
void lmi_put_kind(lmi_buf *b, const lam_recorded_model *m) {
    lmi_put(b, m->training ? "a training step" : "a step in eval mode");
    if (m->gradients == (m->training ? 0 : 1))
        lmi_put(b, m->training ? " without gradients" : " with gradients");
    if (m->least_calls < m->most_calls)
        lmi_putf(b, " of %lld to %lld calls", (long long)m->least_calls, (long long)m->most_calls);
    else if (m->most_calls > 1)
        lmi_putf(b, " of %lld calls", (long long)m->most_calls);
    else if (m->call_ns.n && !m->step_ns.n)
        lmi_put(b, " of 1 call"); /* and others of its mode are not */
    if (m->training && m->gradients && !m->went_back && m->n_kinds > 1)
        lmi_put(b, " without a backward pass");
}

/* " every 12 ms +- 1 ms" */
static void put_pace(lmi_recorded *w, lam_middle m) {
    if (!m.n) return;
    lmi_put(&w->out, " every ");
    lmi_put_ns(&w->out, m);
    if (m.n < 2) return; /* one alone deviates from nothing */
    lmi_put(&w->out, w->o->ascii ? " +- " : " \302\261 ");
    lmi_put_ns(&w->out, (lam_middle){m.deviation, 0, 1});
}

static void put_times(lmi_recorded *w, const lam_recorded_model *m) {
    lmi_put_kind(&w->out, m);
    put_pace(w, m->step_ns);
    lmi_put(&w->out, ": forward ");
    lmi_put_ns(&w->out, m->forward_ns);
    if (m->backward_ns.n) {
        lmi_put(&w->out, ", backward ");
        lmi_put_ns(&w->out, m->backward_ns);
    }
    if (m->peak_bytes.n) {
        lmi_put(&w->out, ", peak ");
        lmi_put_size(&w->out, m->peak_bytes);
    }
    put_device(w, m);
    if (!m->step_ns.n && m->call_ns.n) {
        lmi_put(&w->out, "; a call");
        put_pace(w, m->call_ns);
    }
    lmi_putc(&w->out, '\n');
    if (m->least_calls < m->most_calls)
        lmi_put(&w->out, "! these steps differ in their calls, so medians are of unlike steps\n");
}

static void put_health(lmi_recorded *w, int32_t model, const lam_recorded_model *m) {
    const lam_recorded_place *bad = lam_recording_place(w->all[0], model, m->first_bad);
    if (m->nonfinite < 0) return;
    if (m->nonfinite == 0) {
        lmi_put(&w->out, "no NaN and no Inf in any step that was seen\n");
        return;
    }
    lmi_put(&w->out, "! NaN or Inf in ");
    lmi_put_integer(&w->out, m->nonfinite);
    lmi_put(&w->out, m->nonfinite == 1 ? " step" : " steps");
    lmi_put(&w->out, ", first in step ");
    lmi_put_integer(&w->out, m->first_bad_step);
    if (bad)
        lmi_putf(&w->out, ", by %s", bad->depth ? bad->path : "the model itself");
    else
        lmi_put(&w->out, ", by none of its layers: in an input, or outside of it");
    lmi_putc(&w->out, '\n');
}

static void put_steps(lmi_recorded *w, const lam_recorded_model *m) {
    lmi_put(&w->out, "; ");
    if (m->n_steps)
        lmi_put_integer(&w->out, m->n_steps);
    else
        lmi_put(&w->out, "no");
    lmi_put(&w->out, m->n_steps > 1 ? " steps" : m->n_steps ? " step" : " whole step");
    if (m->last < 0) return;
    lmi_put(&w->out, " seen up to step ");
    lmi_put_integer(&w->out, m->last);
    if (m->warmed_up) lmi_put(&w->out, ", the first left out");
}

static lam_status put_model(lmi_recorded *w, int32_t model) {
    const lam_recorded_model *m = lam_recording_model(w->all[0], model);
    lmi_putf(&w->out, "\n%s", m->name);
    if (m->n_kinds > 1) lmi_putf(&w->out, ", steps of kind %d of %d", (int)m->kind + 1, (int)m->n_kinds);
    lmi_put(&w->out, ": ");
    lmi_put_integer(&w->out, m->params);
    lmi_put(&w->out, " params");
    if (m->local_params != m->params) {
        lmi_put(&w->out, ", ");
        lmi_put_integer(&w->out, m->local_params);
        lmi_put(&w->out, " of them in this process");
    }
    put_steps(w, m);
    if (m->failed) {
        lmi_put(&w->out, "; ");
        lmi_put_integer(&w->out, m->failed);
        lmi_put(&w->out, " raised");
    }
    lmi_putc(&w->out, '\n');
    if (m->n_steps) put_times(w, m);
    put_health(w, model, m);
    return m->n_steps && !(w->o->first_kinds && m->kind) ? put_layers(w, model) : LAM_OK;
}

static void put_run(lmi_recorded *w, const lam_recorded_run *run) {
    lmi_putf(&w->out, "run %lld", (long long)run->run);
    if (run->command) lmi_putf(&w->out, ": %s", run->command);
    if (run->world > 1) lmi_putf(&w->out, ", rank %d of %d", (int)run->rank, (int)run->world);
    lmi_put(&w->out, "; began ");
    lmi_put_when(&w->out, run->started_unix_ns);
    lmi_put(&w->out, ", ");
    lmi_put_state(w, run, &w->out);
    if (run->every > 1)
        lmi_putf(&w->out, "; one in %d steps", (int)run->every);
    else
        lmi_put(&w->out, "; every step");
    if (run->dropped) {
        lmi_put(&w->out, "; ");
        lmi_put_integer(&w->out, run->dropped);
        lmi_put(&w->out, " dropped");
    }
    lmi_putc(&w->out, '\n');
}

lam_status lmi_recorded_text(lmi_recorded *w) {
    const lam_recorded_run *run = lam_recording_run(w->all[0]);
    put_run(w, run);
    if (!run->n_models) lmi_put(&w->out, "no step was recorded yet\n");
    for (int32_t i = 0; i < run->n_models; i++) LAM_TRY(put_model(w, i));
    return LAM_OK;
}

/* -- which writer ------------------------------------------------------------------------------ */

lam_status lam_recording_write(const lam_recording *const *all, int32_t n, const lam_recording_options *o,
                               lam_sink to, lam_error *e) {
    static const lam_recording_options defaults = {.depth = -1};
    static const struct {
        const char *name;
        lam_status (*one)(lmi_recorded *w), (*several)(lmi_recorded *w);
    } formats[] = {{"text", lmi_recorded_text, lmi_recorded_ranks},
                   {"csv", lmi_recorded_csv, lmi_recorded_csv},
                   {"json", lmi_recorded_json, lmi_recorded_json}};
    if (!all || n < 1) return lmi_fail(e, LAM_USAGE, NULL, "there is no recording to show");
    lmi_recorded w = {.all = all, .n = n, .o = o ? o : &defaults, .e = e};
    w.width = w.o->width > 0 ? (size_t)w.o->width : DEFAULT_WIDTH;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (strcmp(formats[i].name, w.o->format ? w.o->format : "text") != 0) continue;
        lmi_buf_init(&w.out);
        lam_status s = (n == 1 ? formats[i].one : formats[i].several)(&w);
        if (s == LAM_OK) s = lmi_buf_flush(&w.out, to, e);
        lmi_buf_free(&w.out);
        return s;
    }
    return lmi_fail(e, LAM_USAGE, "format",
                    "there is no format '%s' for a recording; there are: text, csv, json", w.o->format);
}
