/* SPDX-License-Identifier: Apache-2.0
 *
 * Recordings as tables by columns: a row for each process, step, or layer and hour. */
#include "report/columns/columns.h"
#include "base/system.h"
#include "report/recorded/work.h"

#include <stdlib.h>

typedef struct tables {
    lmi_recorded w;
    lmi_work work;
    lam_table *to;
    int32_t which, model; /* the process and the model of the row */
} tables;

#define WHOLE(name)                                                                                          \
    { name, LAM_CELL_WHOLE }
#define REAL(name)                                                                                           \
    { name, LAM_CELL_REAL }
#define TEXT(name)                                                                                           \
    { name, LAM_CELL_TEXT }
#define FLAG(name)                                                                                           \
    { name, LAM_CELL_FLAG }

static const lmi_column_name of_ranks[] = {
    TEXT("job"),         WHOLE("attempt"),   WHOLE("rank"),          WHOLE("world"),
    TEXT("node"),        WHOLE("pid"),       TEXT("command"),        TEXT("torch"),
    TEXT("lamina"),      TEXT("rule"),       WHOLE("calls"),         WHOLE("dropped"),
    TEXT("waits"),       WHOLE("tree"),      TEXT("model"),          WHOLE("run"),
    WHOLE("started_us"), WHOLE("seen_us"),   FLAG("running"),        WHOLE("ended_us"),
    TEXT("ended_by"),    REAL("step_flops"), REAL("hardware_flops"), FLAG("flops_at_least"),
    REAL("peak_flops"),  TEXT("peak_of"),    TEXT("device"),         TEXT("dtype"),
    REAL("mfu"),         REAL("hfu"),        TEXT("why_mfu"),
};
static const lmi_column_name of_steps[] = {
    WHOLE("attempt"),
    WHOLE("rank"),
    TEXT("model"),
    FLAG("main"),
    FLAG("training"),
    WHOLE("step"),
    WHOLE("calls"),
    WHOLE("represents"),
    FLAG("counts"),
    FLAG("failed"),
    WHOLE("win"),
    WHOLE("started_us"),
    REAL("step_us"),
    REAL("own_us"),
    REAL("input_us"),
    REAL("h2d_us"),
    REAL("forward_us"),
    REAL("backward_us"),
    REAL("optimizer_us"),
    REAL("comm_us"),
    REAL("other_us"),
    REAL("processor_us"),
    REAL("forward_pass_us"),
    REAL("backward_pass_us"),
    REAL("device_forward_pass_us"),
    REAL("device_backward_pass_us"),
    WHOLE("peak_bytes"),
    WHOLE("device_peak_bytes"),
    FLAG("nonfinite"),
    WHOLE("collectives"),
    WHOLE("collectives_hash"),
};
static const lmi_column_name of_layers[] = {
    WHOLE("attempt"), WHOLE("rank"), TEXT("model"),  FLAG("main"),       FLAG("training"),    WHOLE("hour"),
    TEXT("layer"),    TEXT("type"),  WHOLE("steps"), REAL("forward_us"), REAL("backward_us"),
};
#undef WHOLE
#undef REAL
#undef TEXT
#undef FLAG
enum {
    N_RANKS = sizeof of_ranks / sizeof *of_ranks,
    N_STEPS = sizeof of_steps / sizeof *of_steps,
    N_LAYERS = sizeof of_layers / sizeof *of_layers
};

static const lam_recorded_run *run_of(const tables *x) { return lam_recording_run(x->w.all[x->which]); }
static const lam_recorded_model *model_of(const tables *x) {
    return lam_recording_model(x->w.all[x->which], x->model);
}
static bool is_main(const tables *x) { return x->model == x->work.model[x->which]; }

/* -- ranks --------------------------------------------------------------------------------------------- */

static lam_status add_rank(tables *x) {
    const lam_recorded_run *r = run_of(x);
    x->model = x->work.model[x->which];
    const lam_recorded_model *m = model_of(x);
    static const lam_utilization none = {.mfu = NAN,
                                         .hfu = NAN,
                                         .peak = NAN,
                                         .flops = -1,
                                         .hardware_flops = -1,
                                         .why = "no step was recorded"};
    const lam_utilization *u = m ? &m->used : &none;
    char rule[LAM_RULE_WORDS];
    const lam_cell cells[N_RANKS] = {
        lmi_cell_text(r->job),
        lmi_cell_whole(lmi_recorded_attempt(run_of(x))),
        lmi_cell_whole(r->rank),
        lmi_cell_whole(r->world),
        lmi_cell_text(lmi_recorded_host(x->w.all[x->which])),
        lmi_cell_whole(r->pid),
        lmi_cell_text(r->command),
        lmi_cell_text(r->torch),
        lmi_cell_text(r->lamina),
        lmi_cell_text(lam_recorded_rule(r->every, rule)),
        lmi_cell_whole(r->calls),
        lmi_cell_whole(r->dropped),
        lmi_cell_text(x->work.waits == LAM_WAITS_APART ? "comm" : "inside"),
        lmi_cell_whole(m ? m->tree : -1),
        lmi_cell_text(m ? m->name : NULL),
        lmi_cell_whole(r->run),
        lmi_cell_whole(lmi_recorded_moment(r->started_unix_ns)),
        lmi_cell_whole(lmi_recorded_moment(r->seen_unix_ns)),
        lmi_cell_flag(lmi_recorded_runs(r, lmi_unix_now())),
        lmi_cell_whole(lmi_recorded_moment(r->ended_unix_ns)),
        lmi_cell_text(r->ended_by),
        lmi_cell_real(u->flops < 0 ? NAN : (double)u->flops),
        lmi_cell_real(u->hardware_flops < 0 ? NAN : (double)u->hardware_flops),
        lmi_cell_flag(u->flops < 0 ? -1 : u->at_least),
        lmi_cell_real(u->peak),
        lmi_cell_text(u->peak_of),
        lmi_cell_text(u->device),
        lmi_cell_text(u->dtype),
        lmi_cell_real(u->mfu),
        lmi_cell_real(u->hfu),
        lmi_cell_text(lmi_used_why(u)),
    };
    return lmi_table_add(x->to, cells, x->w.e);
}

/* -- steps --------------------------------------------------------------------------------------------- */

static lam_cell us(int64_t ns) { return lmi_cell_real(lmi_recorded_us(ns)); }

/* A phase of a step whose length is unknown is unknown too. */
static lam_cell phase(const lam_recorded_step *s, lam_step_phase k) {
    return us(s->whole_ns < 0 ? -1 : s->phase_ns[k]);
}

static lam_status add_step(tables *x, const lam_recorded_step *s) {
    const lam_recorded_model *m = model_of(x);
    const lam_cell cells[N_STEPS] = {
        lmi_cell_whole(lmi_recorded_attempt(run_of(x))),
        lmi_cell_whole(run_of(x)->rank),
        lmi_cell_text(m->name),
        lmi_cell_flag(is_main(x)),
        lmi_cell_flag(m->training),
        lmi_cell_whole(s->number),
        lmi_cell_whole(s->calls),
        lmi_cell_whole(s->represents),
        lmi_cell_flag(s->counts),
        lmi_cell_flag(s->failed),
        lmi_cell_whole(lmi_recorded_window(run_of(x)->every, s)),
        lmi_cell_whole(lmi_recorded_moment(s->unix_ns)),
        us(s->whole_ns),
        lmi_cell_real(is_main(x) && s->counts ? lmi_work_own(&x->work, s) : NAN),
        phase(s, LAM_STEP_INPUT),
        phase(s, LAM_STEP_H2D),
        phase(s, LAM_STEP_FORWARD),
        phase(s, LAM_STEP_BACKWARD),
        phase(s, LAM_STEP_OPTIMIZER),
        phase(s, LAM_STEP_COMM),
        phase(s, LAM_STEP_OTHER),
        us(s->processor_wait_ns),
        us(s->forward_ns),
        us(s->backward_ns),
        us(s->device_forward_ns),
        us(s->device_backward_ns),
        lmi_cell_whole(s->peak_bytes),
        lmi_cell_whole(s->device_peak_bytes),
        lmi_cell_flag(s->looked ? s->bad : -1),
        lmi_cell_whole(s->collectives),
        lmi_cell_whole(s->collectives_hash),
    };
    return lmi_table_add(x->to, cells, x->w.e);
}

static lam_status add_steps(tables *x) {
    lam_recorded_step s;
    for (x->model = 0; model_of(x); x->model++)
        for (int64_t i = 0; lam_recording_step(x->w.all[x->which], x->model, i, &s); i++)
            LAM_TRY(add_step(x, &s));
    return LAM_OK;
}

/* -- layers -------------------------------------------------------------------------------------------- */

static lam_status add_hour(void *self, const lam_recorded_hour *h, lam_error *e) {
    tables *x = self;
    const lam_recorded_place *p = lam_recording_place(x->w.all[x->which], x->model, h->place);
    const lam_cell cells[N_LAYERS] = {
        lmi_cell_whole(lmi_recorded_attempt(run_of(x))),
        lmi_cell_whole(run_of(x)->rank),
        lmi_cell_text(model_of(x)->name),
        lmi_cell_flag(is_main(x)),
        lmi_cell_flag(model_of(x)->training),
        lmi_cell_whole(h->hour),
        lmi_cell_text(p->depth ? p->path : "(the model)"),
        lmi_cell_text(p->type),
        lmi_cell_whole(h->steps),
        us(h->forward_ns),
        us(h->backward_ns),
    };
    return lmi_table_add(x->to, cells, e);
}

static lam_status add_layers(tables *x, int64_t from_unix_ns) {
    for (x->model = 0; model_of(x); x->model++)
        LAM_TRY(lam_recording_hours(x->w.all[x->which], x->model, from_unix_ns, add_hour, x, x->w.e));
    return LAM_OK;
}

/* -- all ----------------------------------------------------------------------------------------------- */

lam_status lam_recording_table(const lam_recording *const *all, int32_t n, lam_recorded_table what,
                               int64_t from_unix_ns, lam_table **out, lam_error *e) {
    static const struct {
        const lmi_column_name *names;
        int32_t n;
    } columns[LAM_N_RECORDED_TABLES] = {{of_ranks, N_RANKS}, {of_steps, N_STEPS}, {of_layers, N_LAYERS}};
    static const lam_recording_options options = {.depth = -1};
    tables x = {.w = {.all = all, .n = n, .o = &options, .e = e}};
    *out = NULL;
    if (n < 1 || what < 0 || what >= LAM_N_RECORDED_TABLES)
        return lmi_fail(e, LAM_USAGE, NULL, "a table is of one recording or more: ranks, steps or layers");
    lam_status s = lmi_work_begin(&x.work, &x.w);
    if (s == LAM_OK) s = lmi_table_new(&x.to, columns[what].names, columns[what].n, e);
    for (x.which = 0; s == LAM_OK && x.which < n; x.which++)
        s = what == LAM_RECORDED_RANKS   ? add_rank(&x)
            : what == LAM_RECORDED_STEPS ? add_steps(&x)
                                         : add_layers(&x, from_unix_ns);
    lmi_work_end(&x.work);
    if (s != LAM_OK) lam_table_free(x.to);
    *out = s == LAM_OK ? x.to : NULL;
    return s;
}
