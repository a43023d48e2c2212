/* SPDX-License-Identifier: Apache-2.0
 *
 * The contents of a cell. Names and class names are not trusted and are cleaned here. */
#include "analyse/cost/numbers.h"
#include "analyse/run/times.h"
#include "report/table/report.h"

/* -- lamina's table ------------------------------------------------------------------------------------ */

static void cell_name(const lmi_line *l, lmi_buf *out) { lmi_put(out, l->label); }

static void cell_output(const lmi_line *l, lmi_buf *out) {
    if (!l->event || l->own) return;
    if (l->event->n_out == 0) {
        lmi_putc(out, '?');
        return;
    }
    lmi_put_shape(out, lmi_arg_shape(&l->event->out[0]));
    if (l->event->n_out > 1) lmi_putf(out, " +%d", (int)l->event->n_out - 1);
}

static void cell_own_params(const lmi_line *l, lmi_buf *out) {
    lmi_put_count(out, l->row.params, l->job->o->exact);
}

static void cell_own_stored(const lmi_line *l, lmi_buf *out) {
    const lam_count n = l->row.param_bytes;
    if (n.state == LAM_UNKNOWN || l->job->o->exact)
        lmi_put_count(out, n, true);
    else
        lmi_put_bytes(out, n);
}

static void cell_own_types(const lmi_line *l, lmi_buf *out) {
    const lam_value *v = l->place ? lam_model_attr(l->job->m, l->place->module, "dtype") : NULL;
    if (v && v->type == LAM_TEXT) lmi_put_clean(out, v->text);
}

static void put_own_count(const lmi_line *l, lam_count c, lmi_buf *out) {
    if (l->never_called)
        lmi_putc(out, '-');
    else
        lmi_put_metric(out, c, l->job->o->exact);
}

static void own_bytes(const lmi_line *l, lam_metric metric, lmi_buf *out) {
    lam_count c = l->metric[metric];
    bool nothing = c.state == LAM_UNKNOWN || (c.state == LAM_AT_LEAST && c.n == 0 && c.over == 0);
    if (l->never_called || nothing || l->job->o->exact)
        put_own_count(l, c, out);
    else
        lmi_put_bytes(out, c);
}

static void cell_own_read(const lmi_line *l, lmi_buf *out) { own_bytes(l, LAM_BYTES_READ, out); }
static void cell_own_written(const lmi_line *l, lmi_buf *out) { own_bytes(l, LAM_BYTES_WRITTEN, out); }

/* If no byte moves there is no ratio. */
static void cell_own_intensity(const lmi_line *l, lmi_buf *out) {
    lam_count bytes = lam_metric_bytes(l->metric);
    double v = lam_metric_intensity(l->metric);
    if (l->never_called || lmi_is_zero(bytes))
        lmi_putc(out, '-');
    else if (v < 0)
        lmi_putc(out, '?');
    else
        lmi_put_digits(out, v);
}

/* -- health ---------------------------------------------------------------------------------------------- */

static const char *health_word(lam_health_state s, const char *fine) {
    switch (s) {
    case LAM_HEALTH_BORN: return "born here";
    case LAM_HEALTH_PASSED: return "passed on";
    case LAM_HEALTH_UNKNOWN: return "?";
    default: return fine;
    }
}

/* True if a value was born in what the place does itself, between its layers. */
static bool born_in_own(const lmi_line *l, lam_phase phase) {
    const lam_finding *f;
    for (int32_t i = 0; (f = lam_health_finding(l->job->health, i)) != NULL; i++) {
        if (f->own && f->phase == phase && lam_model_place(l->job->m, f->place) == l->place) return true;
    }
    return false;
}

static void put_own_health(const lmi_line *l, lmi_buf *out) {
    bool forward = born_in_own(l, LAM_FORWARD), back = born_in_own(l, LAM_BACKWARD);
    lmi_put(out, forward ? "born here" : back ? "" : "-");
    if (back) lmi_put(out, forward ? ", born here backward" : "born here backward");
}

static void cell_own_health(const lmi_line *l, lmi_buf *out) {
    if (l->own && l->place) {
        put_own_health(l, out);
        return;
    }
    const bool weights = lmi_of_weights(l->job->m) && l->place;
    if (!l->event && !weights) {
        lmi_putc(out, '-');
        return;
    }
    int32_t place = weights ? (int32_t)(l->place - l->job->m->places) : l->event->place;
    lam_health_state forward = lam_health_at(l->job->health, place, LAM_FORWARD);
    lam_health_state back = lam_health_at(l->job->health, place, LAM_BACKWARD);
    if (weights && forward == LAM_HEALTH_PASSED) {
        lmi_put(out, "in it");
        return;
    }
    lmi_put(out, health_word(forward, back > LAM_HEALTH_FINE ? "" : "ok"));
    if (back <= LAM_HEALTH_FINE) return;
    if (forward != LAM_HEALTH_FINE) lmi_put(out, ", ");
    lmi_putf(out, "%s backward", health_word(back, ""));
}

/* -- times ----------------------------------------------------------------------------------------------- */

static void put_own_time(const lmi_line *l, int64_t ns, lmi_buf *out) {
    if (l->never_called || !l->place)
        lmi_putc(out, '-');
    else
        lmi_put_time(out, ns);
}

static int64_t back_of(const int64_t ns[LAM_N_PHASES]) {
    return lmi_add_time(ns[LAM_BACKWARD], ns[LAM_RECOMPUTE]);
}

/* If the nodes of a backward were not watched, it is the time of the forward alone. */
static int64_t self_of(const lmi_line *l, const lam_time *t) {
    bool back = lmi_has_backward_times(l->job->c);
    return back ? lmi_add_time(t->self[LAM_FORWARD], back_of(t->self)) : t->self[LAM_FORWARD];
}

int64_t lmi_self_time(const lmi_line *l) { return self_of(l, &l->time); }

/* A container's self time is on its own line, and is not repeated on the line split off below it. */
static void cell_own_self(const lmi_line *l, lmi_buf *out) {
    if (!l->split) put_own_time(l, self_of(l, &l->time), out);
}

static void cell_device_self(const lmi_line *l, lmi_buf *out) {
    if (!l->split) put_own_time(l, self_of(l, &l->device_time), out);
}

static lam_speed speed_of(const lmi_line *l) {
    const lam_time *t = lmi_has_device_times(l->job->c) ? &l->device_time : &l->time;
    return lmi_speed_of(l->metric, t->total[LAM_FORWARD], &l->job->peak);
}

/* A negative speed is unknown; no work has no speed. */
static void put_speed(const lmi_line *l, double speed, lmi_buf *out) {
    const char *prefix;
    if (l->never_called || speed == 0) {
        lmi_putc(out, '-');
    } else if (speed < 0) {
        lmi_putc(out, '?');
    } else {
        double v = lmi_unit_scale(speed, &prefix);
        lmi_put_digits(out, v);
        lmi_putf(out, " %s", prefix);
    }
}

static void cell_own_speed(const lmi_line *l, lmi_buf *out) { put_speed(l, speed_of(l).flops, out); }

static void cell_own_moved(const lmi_line *l, lmi_buf *out) { put_speed(l, speed_of(l).bytes, out); }

static void cell_own_bound(const lmi_line *l, lmi_buf *out) {
    lam_speed s = speed_of(l);
    if (l->never_called || (s.flops == 0 && s.bytes == 0))
        lmi_putc(out, '-');
    else if (s.bound == LAM_BOUND_UNKNOWN)
        lmi_putc(out, '?');
    else if (s.bound == LAM_BOUND_NEITHER)
        lmi_putf(out, "neither (reaches %s%.0f %% of peak)", s.share < 0.01 ? "<" : "",
                 s.share < 0.01 ? 1 : 100 * s.share);
    else
        lmi_putf(out, "%s (%.0f %% of peak)", lam_bound_name(s.bound), 100 * s.share);
}

static void cell_rf(const lmi_line *l, lmi_buf *out) {
    if (!l->event || l->own) return;
    if (l->row.rf_state == LAM_UNKNOWN) {
        lmi_putc(out, '?');
        return;
    }
    if (l->row.rf_state == LAM_AT_LEAST) lmi_put(out, ">= ");
    if (l->row.rf_at_most && l->row.rf_state == LAM_EXACT) lmi_put(out, "<= ");
    lmi_put_real(out, l->row.rf);
    if (l->row.rf_whole) lmi_put(out, " (all)");
}

#define OWN(id, title, align, rank, when, cell, meaning)
#define OWN_COUNT(id, title, rank, when, count, meaning)                                                     \
    static void cell_##id(const lmi_line *l, lmi_buf *out) { put_own_count(l, count, out); }
#define OWN_TIME(id, title, rank, when, ns, meaning)                                                         \
    static void cell_##id(const lmi_line *l, lmi_buf *out) { put_own_time(l, ns, out); }
#define OWN_USE(id, title, rank, when, memory_, phase, which, meaning)                                       \
    static void cell_##id(const lmi_line *l, lmi_buf *out) {                                                 \
        lmi_put_use(l, l->job->memory_, phase, offsetof(lam_memory_use, which), out);                        \
    }
#include "report/table/columns.def"

/* -- the table ----------------------------------------------------------------------------------------- */

/* Whether a report has a column: options decide. */
static bool when_always(const lmi_job *j) { return j != NULL; }
static bool when_never(const lmi_job *j) { return j == NULL; }
static bool when_described(const lmi_job *j) { return j->m->described != NULL; }
static bool when_ran(const lmi_job *j) { return !j->m->described; }
static bool when_macs(const lmi_job *j) { return lmi_has_metric(j->c, LAM_MACS); }
static bool when_flops(const lmi_job *j) { return lmi_has_metric(j->c, LAM_FLOPS); }
/* What nothing computed is unknown in every line: it is said once, below the table. */
static bool when_own_macs(const lmi_job *j) { return when_ran(j) && when_macs(j); }
static bool when_own_flops(const lmi_job *j) { return when_ran(j) && when_flops(j); }
static bool when_dmas(const lmi_job *j) { return j->o->bytes && lmi_has_metric(j->c, LAM_DMAS); }
static bool when_bytes(const lmi_job *j) { return j->o->bytes && lmi_has_metric(j->c, LAM_BYTES_READ); }
static bool when_speed(const lmi_job *j) { return j->peak.flops > 0 && lmi_has_metric(j->c, LAM_BYTES_READ); }
static bool when_intensity(const lmi_job *j) { return when_speed(j) || when_bytes(j); }
static bool when_backward(const lmi_job *j) { return lmi_has_phase(j->c, LAM_BACKWARD); }
static bool when_time(const lmi_job *j) { return j->o->time; }
static bool when_backward_time(const lmi_job *j) { return j->o->time && lmi_has_backward_times(j->c); }
static bool when_device_time(const lmi_job *j) { return j->o->time && lmi_has_device_times(j->c); }
static bool when_device_backward_time(const lmi_job *j) {
    return when_device_time(j) && lmi_has_backward_times(j->c);
}
static bool when_health(const lmi_job *j) { return j->health != NULL; }
static bool when_memory(const lmi_job *j) { return j->o->memory; }
static bool when_backward_memory(const lmi_job *j) {
    return j->o->memory && lmi_has_backward_memory(j->memory);
}
static bool when_device_memory(const lmi_job *j) { return j->o->memory && j->device_memory; }
static bool when_device_backward_memory(const lmi_job *j) {
    return j->o->memory && lmi_has_backward_memory(j->device_memory);
}
static bool when_receptive_field(const lmi_job *j) { return j->o->receptive_field; }

static const lmi_column columns[] = {
#define OWN(id, title, align, rank, when, cell, doc) {#id, title, LMI_##align, rank, when_##when, cell, doc},
#include "report/table/columns.def"
};

void lmi_columns_of(const lmi_job *j, lmi_columns *out) {
    out->n = 0;
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        if (columns[i].when(j)) out->at[out->n++] = &columns[i];
}

const lmi_column *lmi_column_find(const char *id) {
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        if (strcmp(columns[i].id, id) == 0) return &columns[i];
    return NULL;
}
