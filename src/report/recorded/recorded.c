/* SPDX-License-Identifier: Apache-2.0
 *
 * A recording as text: the run, its models, and a line for each layer. */
#include "report/recorded/recorded.h"

#include <stdio.h>
#include <stdlib.h>

enum { DEFAULT_WIDTH = 100 };

/* -- pieces ------------------------------------------------------------------------------------ */

void lmi_put_when(lmi_buf *b, int64_t unix_ns) {
    const lmi_moment at = lmi_moment_of(unix_ns / 1000000000 - (unix_ns % 1000000000 < 0));
    lmi_putf(b, "%04d-%02d-%02d %02d:%02d:%02d UTC", at.year, at.month, at.day, at.hour, at.minute,
             at.second);
}

static void put_state(const lmi_recorded *w, const lam_recorded_run *run, lmi_buf *b) {
    if (run->ended_unix_ns) {
        int64_t ns = run->ended_unix_ns - run->started_unix_ns;
        lmi_put(b, "ended after ");
        lmi_put_median(b, (lam_middle){ns > 0 ? ns : 0, 0, 1});
        if (!run->ended_by || strcmp(run->ended_by, "end") == 0) return;
        lmi_put(b, ", by ");
        lmi_put_clean(b, run->ended_by);
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

/* -- a model's layers -------------------------------------------------------------------------- */

/* The data of a column: a table has the column only if some layer has the data. */
enum { ALWAYS, BACKWARD, AGAIN, DEVICE, MEMORY, DEVICE_MEMORY, HEALTH, COMPILED, N_NEEDS };

typedef struct table {
    int64_t total; /* own time of all layers */
    bool has[N_NEEDS];
} table;

/* Ranks up to this one are of the host's times: these columns may be left out if there are a device's, and
 * stay if not. */
enum { OF_HOST = 2 };
#define AT(field) offsetof(lam_recorded_place, field)
static const struct column {
    lmi_head head;
    int needs;
    enum { PATH, TYPE, NUMBER, NS, BYTES, SHARE, BAD_STEPS } what;
    size_t field; /* NUMBER, NS, BYTES: the lam_middle of a place that it shows */
} columns[] = {
    {{"layer", LMI_LEFT, 0}, ALWAYS, PATH, 0},
    {{"type", LMI_LEFT, 9}, ALWAYS, TYPE, 0},
    {{"calls", LMI_RIGHT, 10}, ALWAYS, NUMBER, AT(calls)},
    {{"compiled", LMI_RIGHT, 0}, COMPILED, NUMBER, AT(regions)},
    {{"forward", LMI_RIGHT, OF_HOST}, ALWAYS, NS, AT(forward_ns)},
    {{"self", LMI_RIGHT, 8}, ALWAYS, NS, AT(self_ns)},
    {{"backward", LMI_RIGHT, OF_HOST - 1}, BACKWARD, NS, AT(total_backward_ns)},
    {{"again", LMI_RIGHT, 7}, AGAIN, NS, AT(recompute_ns)},
    {{"device", LMI_RIGHT, 0}, DEVICE, NS, AT(device_forward_ns)},
    {{"bwd device", LMI_RIGHT, 0}, DEVICE, NS, AT(device_backward_ns)},
    {{"share", LMI_RIGHT, 0}, ALWAYS, SHARE, 0},
    {{"retained", LMI_RIGHT, 6}, MEMORY, BYTES, AT(retained_bytes)},
    {{"peak", LMI_RIGHT, 5}, MEMORY, BYTES, AT(peak_bytes)},
    {{"dev retained", LMI_RIGHT, 4}, DEVICE_MEMORY, BYTES, AT(device_retained_bytes)},
    {{"dev peak", LMI_RIGHT, 3}, DEVICE_MEMORY, BYTES, AT(device_peak_bytes)},
    {{"bad steps", LMI_RIGHT, 0}, HEALTH, BAD_STEPS, 0},
};
#undef AT
enum { N_COLUMNS = sizeof columns / sizeof *columns };

/* -1: unknown */
static double share_of(int64_t own, int64_t total) {
    return own >= 0 && total > 0 ? (double)own / (double)total : -1;
}

static void put_share(lmi_buf *b, int64_t own, int64_t total) {
    double share = share_of(own, total);
    if (share < 0) {
        lmi_putc(b, '?');
        return;
    }
    lmi_put_fixed(b, 100 * share, 1);
    lmi_putc(b, '%');
}

static void put_cell(lmi_buf *b, const struct column *c, const lam_recorded_place *p, int64_t total) {
    lam_middle m = {0};
    if (c->what == NUMBER || c->what == NS || c->what == BYTES)
        memcpy(&m, (const char *)p + c->field, sizeof m);
    switch (c->what) {
    case PATH: lmi_put(b, p->depth ? p->path : "(the model)"); break;
    case TYPE: lmi_put(b, p->type); break;
    case NUMBER:
        if (m.n) lmi_put_integer(b, m.median);
        break;
    case NS: lmi_put_median(b, m); break;
    case BYTES: lmi_put_size(b, m); break;
    case SHARE: put_share(b, p->own_ns, total); break;
    case BAD_STEPS: lmi_put_integer(b, p->nonfinite); break;
    }
}

static void look(const lmi_recorded *w, int32_t model, table *t) {
    const lam_recorded_place *p;
    *t = (table){.has[ALWAYS] = true};
    for (int32_t i = 0; (p = lam_recording_place(w->all[0], model, i)); i++) {
        if (p->own_ns > 0 && lmi_add_over(t->total, p->own_ns, &t->total)) t->total = INT64_MAX;
        t->has[BACKWARD] |= p->backward_ns.n != 0;
        t->has[AGAIN] |= p->recompute_ns.n && p->recompute_ns.median > 0;
        t->has[MEMORY] |= p->retained_bytes.n || p->peak_bytes.n;
        t->has[DEVICE] |= p->device_forward_ns.n || p->device_backward_ns.n;
        t->has[DEVICE_MEMORY] |= p->device_retained_bytes.n || p->device_peak_bytes.n;
        t->has[HEALTH] |= p->nonfinite >= 0;
        t->has[COMPILED] |= p->regions.n && p->regions.median > 0;
    }
}

int lmi_by_own_time(const void *a, const void *b) {
    const lam_recorded_place *const *x = a, *const *y = b;
    int64_t m = (*x)->own_ns, n = (*y)->own_ns;
    return m != n ? (m < n) - (m > n) : (*x > *y) - (*x < *y);
}

/* Chooses the places that are shown, in their order; `left` is how many are left out. */
static int32_t choose(const lmi_recorded *w, int32_t model, const lam_recorded_place **to, int32_t *left) {
    int32_t n = 0;
    const lam_recorded_place *p;
    *left = 0;
    for (int32_t i = 0; (p = lam_recording_place(w->all[0], model, i)); i++) {
        bool deep = w->o->depth >= 0 && p->depth > w->o->depth;
        if (!deep && (p->n_steps || !w->o->rows)) to[n++] = p;
    }
    if (!w->o->rows) return n;
    qsort((void *)to, (size_t)n, sizeof(lam_recorded_place *), lmi_by_own_time);
    *left = n > w->o->rows ? n - w->o->rows : 0;
    return n - *left;
}

static lam_status put_layers(lmi_recorded *w, int32_t model) {
    table t;
    lmi_sheet sheet;
    int32_t left, n;
    const int32_t all = lam_recording_model(w->all[0], model)->n_places;
    const lam_recorded_place **places = calloc((size_t)all + 1, sizeof *places);
    if (!places) return lmi_nomem(w->e);
    look(w, model, &t);
    lmi_recorded_sheet(&sheet, w, NULL, 0);
    for (int k = 0; k < N_COLUMNS; k++) {
        lmi_head head = columns[k].head;
        if (head.rank <= OF_HOST && !t.has[DEVICE]) head.rank = 0;
        if (!t.has[columns[k].needs]) continue;
        if (w->o->bars && columns[k].what == SHARE) lmi_sheet_bars(&sheet, sheet.n, sheet.n);
        lmi_sheet_column(&sheet, &head);
    }
    n = choose(w, model, places, &left);
    for (int32_t i = 0; i < n; i++) {
        for (int k = 0; k < N_COLUMNS; k++) {
            if (!t.has[columns[k].needs]) continue;
            put_cell(sheet.cell, &columns[k], places[i], t.total);
            lmi_end_cell(&sheet);
        }
        if (sheet.bar_last) lmi_sheet_share(&sheet, share_of(places[i]->own_ns, t.total));
    }
    lmi_putc(&w->out, '\n');
    lam_status s = lmi_recorded_sheet_end(w, &sheet);
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
        lmi_put_median(&w->out, m->device_forward_ns);
    }
    if (m->device_backward_ns.n) {
        lmi_put(&w->out, ", backward ");
        lmi_put_median(&w->out, m->device_backward_ns);
    }
    if (m->device_peak_bytes.n) {
        lmi_put(&w->out, m->device_forward_ns.n ? ", peak " : " peak ");
        lmi_put_size(&w->out, m->device_peak_bytes);
    }
}

/* Writes "a training step of 2 calls"; the usual case is not mentioned. */
void lmi_put_kind(lmi_buf *b, const lam_recorded_model *m) {
    lmi_put(b, m->compiled == 1 ? "a compiled " : "a ");
    lmi_put(b, m->training ? "training step" : "step in eval mode");
    if (m->gradients == (m->training ? 0 : 1))
        lmi_put(b, m->training ? " without gradients" : " with gradients");
    if (m->least_calls < m->most_calls)
        lmi_putf(b, " of %lld to %lld calls", (long long)m->least_calls, (long long)m->most_calls);
    else if (m->most_calls > 1)
        lmi_putf(b, " of %lld calls", (long long)m->most_calls);
    else if (m->call_ns.n && !m->step_ns.n)
        lmi_put(b, " of 1 call"); /* steps of its mode differ */
    if (m->training && m->gradients && !m->went_back && m->n_kinds > 1)
        lmi_put(b, " without a backward pass");
}

static void put_spread(lmi_recorded *w, lam_middle m) {
    lmi_put_median(&w->out, m);
    if (m.n < 2) return; /* a single one has no deviation */
    lmi_put(&w->out, w->o->ascii ? " +- " : " \302\261 ");
    lmi_put_median(&w->out, (lam_middle){m.deviation, 0, 1});
}

/* " every 12 ms +- 1 ms" */
static void put_pace(lmi_recorded *w, lam_middle m) {
    if (!m.n) return;
    lmi_put(&w->out, " every ");
    put_spread(w, m);
}

enum { NAMED = 3 }; /* layers */

static void put_few(lmi_recorded *w, const lam_recorded_model *m) {
    const lam_recorded_run *run = lam_recording_run(w->all[0]);
    if (m->n_steps >= LMI_FEW_STEPS) return;
    lmi_putf(&w->out, "! medians of %lld step%s: other steps may be far from them", (long long)m->n_steps,
             m->n_steps == 1 ? "" : "s");
    if (run->every > 1) lmi_put(&w->out, "; `lamina run --every 1` records each");
    lmi_putc(&w->out, '\n');
}

/* "most of its time in slow 94.2%, last 3.1%, first 1.9%" */
static void put_slowest(lmi_recorded *w, int32_t model, const lam_recorded_model *m) {
    const lam_recorded_place *most[NAMED] = {NULL}, *p;
    int64_t total = 0;
    int n = 0;
    for (int32_t i = 0; i < m->n_places; i++) {
        p = lam_recording_place(w->all[0], model, i);
        if (!p || p->own_ns <= 0) continue;
        if (lmi_add_over(total, p->own_ns, &total)) total = INT64_MAX;
        int at = n < NAMED ? n++ : NAMED - 1;
        if (at == NAMED - 1 && most[at] && most[at]->own_ns >= p->own_ns) continue;
        for (; at > 0 && most[at - 1]->own_ns < p->own_ns; at--) most[at] = most[at - 1];
        most[at] = p;
    }
    if (n < 2) return;
    lmi_put(&w->out, "most time of its own in ");
    for (int i = 0; i < n; i++) {
        lmi_putf(&w->out, "%s%s ", i ? ", " : "", most[i]->depth ? most[i]->path : "the model itself");
        put_share(&w->out, most[i]->own_ns, total);
    }
    lmi_putc(&w->out, '\n');
}

/* "! a recorded step takes 5.2 % longer than those between (612 ms, 582 ms): ..." */
static void put_cost(lmi_recorded *w, const lam_recorded_model *m) {
    lmi_put(&w->out, "! a recorded step takes ");
    lmi_put_fixed(&w->out, 100.0 * (double)m->cost.recorded_ns / (double)m->cost.between_ns - 100, 1);
    lmi_put(&w->out, " % longer than those between (");
    lmi_put_time(&w->out, m->cost.recorded_ns);
    lmi_put(&w->out, ", ");
    lmi_put_time(&w->out, m->cost.between_ns);
    lmi_put(&w->out, "): by so much recording slows it, or leaves less to overlap\n");
}

static void put_times(lmi_recorded *w, const lam_recorded_model *m) {
    lmi_put_kind(&w->out, m);
    put_pace(w, m->step_ns);
    lmi_put(&w->out, ": forward ");
    put_spread(w, m->forward_ns);
    if (m->backward_ns.n) {
        lmi_put(&w->out, ", backward ");
        put_spread(w, m->backward_ns);
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
    if (m->compiled == 1)
        lmi_put(&w->out,
                "compiled code ran in some layers, as one with all that is inside it: layers without "
                "times ran there, or not at all\n");
    put_few(w, m);
    if (lmi_recording_slows(m)) put_cost(w, m);
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
    size_t from = w->out.n;
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
    if (m->n_steps) {
        lmi_put_used(&w->out, &m->used);
        lmi_putc(&w->out, '\n');
    }
    if (m->n_steps && !w->o->rows) put_slowest(w, model, m);
    put_health(w, model, m);
    lmi_recorded_wrap(w, from);
    if (m->n_steps) LAM_TRY(lmi_recorded_phases(w, model));
    return m->n_steps && !(w->o->first_kinds && m->kind) ? put_layers(w, model) : LAM_OK;
}

/* The command without the folders of Python and of its program. */
static void put_command(lmi_buf *b, const char *command) {
    for (int word = 0; *command; word++) {
        size_t n = strcspn(command, " ");
        const char *name = command;
        for (size_t i = 0; i < n && word < 2 && *command == '/'; i++)
            if (command[i] == '/') name = command + i + 1;
        lmi_putf(b, "%.*s%s", (int)(command + n - name), name, command[n] ? " " : "");
        command += n + (command[n] == ' ');
    }
}

static void put_run(lmi_recorded *w, const lam_recorded_run *run) {
    lmi_putf(&w->out, "run %lld", (long long)run->run);
    if (run->command) lmi_put(&w->out, ": ");
    if (run->command) put_command(&w->out, run->command);
    if (run->world > 1) lmi_putf(&w->out, ", rank %d of %d", (int)run->rank, (int)run->world);
    if (run->attempt > 1) lmi_putf(&w->out, ", attempt %lld", (long long)run->attempt);
    if (run->job) {
        lmi_put(&w->out, run->attempt > 1 ? " of job " : ", job ");
        lmi_put_clean(&w->out, run->job);
    }
    lmi_put(&w->out, "; began ");
    lmi_put_when(&w->out, run->started_unix_ns);
    lmi_put(&w->out, ", ");
    lmi_put_state(w, run, &w->out);
    char rule[LAM_RULE_WORDS];
    lmi_putf(&w->out, "; %s", lam_recorded_rule(run->every, rule));
    if (run->dropped) {
        lmi_put(&w->out, "; ");
        lmi_put_integer(&w->out, run->dropped);
        lmi_put(&w->out, " dropped");
    }
    lmi_putc(&w->out, '\n');
}

/* "1,204,331 calls in 412 minutes, 48.7 a second; ..." */
static void put_calls(lmi_recorded *w, const lam_recorded_run *run) {
    if (!run->pace.minutes) return;
    lmi_put_integer(&w->out, run->pace.calls);
    lmi_put(&w->out, " calls in ");
    lmi_put_integer(&w->out, run->pace.minutes);
    lmi_put(&w->out, run->pace.minutes == 1 ? " minute, " : " minutes, ");
    lmi_put_fixed(&w->out, (double)run->pace.calls / (60.0 * (double)run->pace.minutes), 1);
    lmi_put(&w->out, " a second, recorded or not; the longest time from one to the next ");
    lmi_put_time(&w->out, run->pace.slowest_ns);
    lmi_put(&w->out, ", in the minute from ");
    lmi_put_when(&w->out, run->pace.slowest_unix_ns);
    lmi_putc(&w->out, '\n');
    if (!run->pace.stalls) return;
    lmi_put(&w->out, "! in ");
    lmi_put_integer(&w->out, run->pace.stalls);
    lmi_put(&w->out, run->pace.stalls == 1 ? " minute" : " minutes");
    lmi_put(&w->out,
            " a call came ten times as late as usual, or later: a checkpoint, a validation, or a stall\n");
}

static lam_status recorded_text(lmi_recorded *w) {
    const lam_recorded_run *run = lam_recording_run(w->all[0]);
    put_run(w, run);
    put_calls(w, run);
    lmi_recorded_wrap(w, 0);
    if (!run->n_models) lmi_put(&w->out, "no step was recorded yet\n");
    for (int32_t i = 0; i < run->n_models; i++) LAM_TRY(put_model(w, i));
    return LAM_OK;
}

/* -- which writer ------------------------------------------------------------------------------ */

static lam_status write_as(lmi_recorded *w, lam_sink to) {
    static const struct {
        const char *name;
        lam_status (*one)(lmi_recorded *w), (*several)(lmi_recorded *w);
    } formats[] = {{"text", recorded_text, lmi_recorded_ranks},
                   {"csv", lmi_recorded_csv, lmi_recorded_csv},
                   {"json", lmi_recorded_json, lmi_recorded_json}};
    w->width = w->o->width > 0 ? (size_t)w->o->width : DEFAULT_WIDTH;
    if (w->o->look) return lmi_recorded_look(w, to);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (strcmp(formats[i].name, w->o->format ? w->o->format : "text") != 0) continue;
        lmi_buf_init(&w->out);
        lam_status s = (w->n == 1 ? formats[i].one : formats[i].several)(w);
        if (s == LAM_OK) s = lmi_buf_flush(&w->out, to, w->e);
        lmi_buf_free(&w->out);
        return s;
    }
    return lmi_no_such(w->e, "format", w->o->format, "a recording", &formats[0].name, sizeof *formats,
                       sizeof formats / sizeof *formats);
}

lam_status lam_recording_write(const lam_recording *const *all, int32_t n, const lam_recording_options *o,
                               lam_sink to, lam_error *e) {
    static const lam_recording_options defaults = {.depth = -1};
    if (!all || n < 1) return lmi_fail(e, LAM_USAGE, NULL, "there is no recording to show");
    lmi_recorded w = {.o = o ? o : &defaults, .e = e};
    lam_status s = lmi_recorded_sort(&w, all, n);
    if (s == LAM_OK) s = write_as(&w, to);
    free((void *)w.all);
    return s;
}
