/* SPDX-License-Identifier: Apache-2.0
 *
 * The data of a row that is shown: its numbers, its shapes, its ties. */
#include "report/table/report.h"

lam_count lmi_sum(lam_count a, lam_count b) {
    lam_count c = lam_count_add(a, b);
    if (c.state == LAM_UNKNOWN && (c.n > 0 || c.over > 0)) c.state = LAM_AT_LEAST;
    return c;
}

bool lmi_has_metric(const lam_costs *c, lam_metric metric) { return c->has[metric]; }

bool lmi_is_spread(const lam_model *m) {
    for (int32_t i = 0; i < lam_model_n_tensors(m); i++)
        if (lam_model_tensor(m, i)->elsewhere > 0) return true;
    return false;
}

bool lmi_has_logical(const lam_param_totals *p) { return !lmi_is_same(p->param_bytes, p->logical_bytes); }

int64_t lmi_add_time(int64_t a, int64_t b) { return a < 0 || b < 0 ? -1 : a + b; }

bool lmi_has_times(const lam_costs *c) { return lam_costs_times(c) != NULL; }

bool lmi_has_backward_times(const lam_costs *c) {
    for (int p = LAM_TIME_BACKWARD; lmi_has_times(c) && p < LAM_TIME_WHOLE; p++)
        if (lam_costs_time_part(c, (lam_time_part)p) > 0) return true;
    return false;
}

bool lmi_has_device_times(const lam_costs *c) { return lam_costs_device_times(c) != NULL; }

bool lmi_has_phase(const lam_costs *c, lam_phase phase) { return c->ops.ran[phase] > 0; }

lam_count lmi_total(const lam_costs *c, lam_metric metric) {
    return lmi_sum(lmi_exact(0), lam_costs_total(c, metric));
}

const char *const lmi_state_names[LMI_CONTAINER_ALONE] = {[LMI_CALLED] = "called",
                                                          [LMI_NEVER_CALLED] = "never called",
                                                          [LMI_CALLED_ELSEWHERE] = "called elsewhere",
                                                          [LMI_NOT_SEEN] = "not seen",
                                                          [LMI_OWN_PARAMETERS] = "own parameters",
                                                          [LMI_OUTSIDE_CALLS] = "outside calls"};

static lmi_place_state state_of(const lam_module *m, bool called, bool never_called, bool outside) {
    if (called) return LMI_CALLED;
    if (!never_called) return outside ? LMI_OUTSIDE_CALLS : LMI_OWN_PARAMETERS;
    return lmi_only_elsewhere(m) ? LMI_CALLED_ELSEWHERE : lmi_is_inside(m) ? LMI_NOT_SEEN : LMI_NEVER_CALLED;
}

lmi_place_state lmi_row_state(const lam_module *m, const lam_cost_row *row) {
    return state_of(m, row->event >= 0, row->never_called, lmi_is_outside(row));
}

const char *lmi_line_status(const lmi_line *l) {
    return lmi_state_names[state_of(l->module, l->event, l->never_called, l->outside)];
}

void lmi_line_of_row(const lmi_job *j, int32_t row, lmi_line *out) {
    const lam_cost_row *r = &j->c->rows[row];
    *out = (lmi_line){.job = j,
                      .row = *r,
                      .phases = *r->phases,
                      .place = lam_model_place(j->m, r->place),
                      .module = lam_model_module(j->m, r->module),
                      .event = lam_model_event(j->m, r->event),
                      .depth = r->depth,
                      .calls = r->event >= 0,
                      .outside = lmi_is_outside(r),
                      .never_called = r->never_called};
    memcpy(out->metric, r->metric, sizeof out->metric);
    lam_time time;
    if (lam_costs_time(j->c, row, &time)) out->time = time;
    if (lam_costs_device_time(j->c, row, &time)) out->device_time = time;
}

static void add_time(lam_time *a, const lam_time *b) {
    for (int p = 0; p < LAM_N_PHASES; p++) {
        a->self[p] = lmi_add_time(a->self[p], b->self[p]);
        a->total[p] = lmi_add_time(a->total[p], b->total[p]);
    }
}

void lmi_line_add_times(lmi_line *a, const lmi_line *b) {
    add_time(&a->time, &b->time);
    add_time(&a->device_time, &b->device_time);
}

/* Most numbers of a line are zero, and a file of weights has very many lines. */
static void add_count(lam_count *to, const lam_count *from) {
    if (!lmi_is_zero(*from)) *to = lmi_sum(*to, *from);
}

void lmi_line_add(lmi_line *a, const lmi_line *b) {
    lam_cost_row *to = &a->row;
    const lam_cost_row *from = &b->row;
    for (int i = 0; i < LAM_N_METRICS; i++) {
        add_count(&a->metric[i], &b->metric[i]);
        add_count(&a->phases.backward[i], &b->phases.backward[i]);
        add_count(&a->phases.recompute[i], &b->phases.recompute[i]);
    }
#define OWNED(member, name, when, otherwise, csv, form) add_count(&to->member, &from->member);
#include "report/numbers/row.def"
    lmi_line_add_times(a, b);
    a->calls += b->calls;
}

/* -- numbers ------------------------------------------------------------------------------------------- */

enum { NUMBER = 96 };

void lmi_put_count(lmi_buf *b, lam_count c, bool exact) {
    char text[NUMBER];
    lam_text_count(text, sizeof text, c, exact);
    lmi_put(b, text);
}

void lmi_put_metric(lmi_buf *b, lam_count c, bool exact) {
    if (c.state == LAM_AT_LEAST && c.n == 0 && c.over == 0) c.state = LAM_UNKNOWN;
    lmi_put_count(b, c, exact);
}

void lmi_put_plain(lmi_buf *b, lam_count c) {
    char text[NUMBER];
    if (c.over == 0) {
        lmi_put_int(b, c.n);
        return;
    }
    c.state = LAM_EXACT;
    lam_text_digits(text, sizeof text, c);
    lmi_put(b, text);
}

void lmi_put_grouped(lmi_buf *b, lam_count c) { lmi_put_count(b, c, true); }

void lmi_put_bytes(lmi_buf *b, lam_count c) {
    char text[NUMBER];
    lam_text_bytes(text, sizeof text, c);
    lmi_put(b, text);
}

void lmi_put_time(lmi_buf *b, int64_t ns) {
    char text[NUMBER];
    lam_text_time(text, sizeof text, ns);
    lmi_put(b, text);
}

/* -- shapes -------------------------------------------------------------------------------------------- */

lam_shape lmi_arg_shape(const lam_arg *a) { return (lam_shape){a->ndim, a->sizes}; }

void lmi_put_shape(lmi_buf *b, lam_shape s) {
    if (s.ndim < 0) lmi_putc(b, '?');
    if (s.ndim == 0) lmi_put(b, "()");
    for (int32_t i = 0; i < s.ndim; i++) {
        if (i) lmi_putc(b, 'x');
        lmi_put_int(b, s.sizes[i]);
    }
}

/* c10's numbers of device types. */
const char *lmi_device_name(int32_t device) {
    static const char *const names[] = {"cpu",  "cuda", "mkldnn", "opengl", "opencl", "ideep", "hip",
                                        "fpga", "maia", "xla",    "vulkan", "metal",  "xpu",   "mps",
                                        "meta", "hpu",  "ve",     "lazy",   "ipu",    "mtia",  "privateuse1"};
    return device >= 0 && device < (int32_t)(sizeof names / sizeof *names) ? names[device] : "?";
}

/* -- ties ---------------------------------------------------------------------------------------------- */

void lmi_put_tensor(lmi_buf *b, const lam_model *m, const lam_module *owner, const char *name) {
    const lam_place *at = owner->n_places > 0 ? lam_model_place(m, owner->places[0]) : NULL;
    if (at && at->path[0]) {
        lmi_put_clean(b, at->path);
        lmi_putc(b, '.');
    }
    lmi_put_clean(b, name);
}

const char *lmi_name_in(const lam_module *owner, int32_t tensor) {
    for (int32_t i = 0; i < owner->n_owned; i++)
        if (owner->owned[i].tensor == tensor) return owner->owned[i].name;
    return "?";
}

void lmi_put_tie(lmi_buf *b, const lam_model *m, const lam_place *p) {
    const lam_module *mod = lam_model_module(m, p->module);
    int32_t here = (int32_t)(p - m->places), ties = 0;
    if (mod->n_places > 1 && mod->places[0] != here) {
        lmi_put(b, "same module as ");
        lmi_put_clean(b, lam_model_place(m, mod->places[0])->path);
        return;
    }
    for (int32_t i = 0; i < mod->n_owned; i++) {
        const lam_tensor *t = lam_model_tensor(m, mod->owned[i].tensor);
        if (t->owner < 0 || t->owner == p->module) continue;
        if (ties++ > 0) continue;
        lmi_put(b, "tied to ");
        const lam_module *owner = lam_model_module(m, t->owner);
        lmi_put_tensor(b, m, owner, lmi_name_in(owner, mod->owned[i].tensor));
    }
    if (ties > 1) lmi_putf(b, " +%d", (int)(ties - 1));
}
