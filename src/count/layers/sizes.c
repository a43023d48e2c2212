/* SPDX-License-Identifier: Apache-2.0
 * sizes: helpers for facts of calls: sizes of shapes, values of attributes, products that may not fit. */
#include "count/layers/layers.h"

void lmi_fact_set(lmi_facts *f, lmi_fact_id id, int64_t v) {
    f->known[id] = v >= 0;
    f->v[id] = v >= 0 ? v : 0;
}

int64_t lmi_fact_get(const lmi_facts *f, lmi_fact_id id) { return f->known[id] ? f->v[id] : -1; }

int64_t lmi_axis(lam_shape s, int32_t axis) {
    if (axis < 0) axis += s.ndim > 0 ? s.ndim : 0;
    return axis < 0 || axis >= s.ndim ? -1 : s.sizes[axis];
}

int64_t lmi_axes(lam_shape s, int32_t from, int32_t to) {
    int64_t n;
    if (from < 0) from += s.ndim;
    if (to < 0) to += s.ndim;
    if (s.ndim < 0 || from < 0 || to < from || to > s.ndim) return -1;
    return lmi_product(s.sizes + from, to - from, &n) ? n : -1;
}

int64_t lmi_spatial(lam_shape s, int64_t rank) {
    return rank < 0 || s.ndim <= rank ? -1 : lmi_axes(s, s.ndim - (int32_t)rank, s.ndim);
}

int64_t lmi_value_int(const lam_value *v, int64_t fallback) {
    if (v && (v->type == LAM_INT || v->type == LAM_BOOL)) return v->i;
    return v && v->type == LAM_INTS && v->n == 1 ? v->ints[0] : fallback;
}

double lmi_value_number(const lam_value *v, double fallback) {
    if (v && v->type == LAM_FLOAT) return v->f;
    return v && (v->type == LAM_INT || v->type == LAM_BOOL) ? (double)v->i : fallback;
}

void lmi_facts_drops(const lam_value *p, lmi_facts *f) {
    double n = p && p->type == LAM_FLOAT ? p->f : (double)lmi_value_int(p, 0);
    lmi_fact_set(f, LMI_FACT_drops, n > 0);
    lmi_fact_set(f, LMI_FACT_drops_all, n >= 1);
}

int64_t lmi_value_axis(const lam_value *v, int32_t i, int64_t fallback) {
    if (v && v->type == LAM_INTS && v->n > 1) return i >= 0 && i < v->n ? v->ints[i] : fallback;
    return lmi_value_int(v, fallback);
}

int64_t lmi_window(const lam_value *kernel, int64_t rank) {
    int64_t n = 1;
    for (int32_t i = 0; i < rank && n >= 0; i++) n = lmi_times(n, lmi_value_axis(kernel, i, -1));
    return n;
}

bool lmi_filled(const lmi_slots *s, lmi_slot_id id) {
    const lmi_slot *slot = &s->at[id];
    return slot->present && (!slot->value || slot->value->type != LAM_NONE);
}

lam_shape lmi_input(const lam_model *m, int32_t event, const lmi_slots *s) {
    static const lmi_slot_id order[] = {LMI_S_x, LMI_S_q, LMI_S_tgt};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if (s->at[order[i]].present && !s->at[order[i]].value) return s->at[order[i]].shape;
    const lam_event *ev = lam_model_event(m, event);
    return ev->n_in > 0 ? (lam_shape){ev->in[0].ndim, ev->in[0].sizes} : (lam_shape){-1, NULL};
}

lam_shape lmi_output(const lam_model *m, int32_t event) {
    const lam_event *ev = lam_model_event(m, event);
    return ev->n_out > 0 ? (lam_shape){ev->out[0].ndim, ev->out[0].sizes} : (lam_shape){-1, NULL};
}

bool lmi_named_before(const lam_module *mod, int32_t i) {
    for (int32_t k = 0; k < i; k++)
        if (mod->owned[k].tensor == mod->owned[i].tensor) return true;
    return false;
}

int32_t lmi_child(const lam_model *m, int32_t place, const char *name) {
    const lam_place *p = lam_model_place(m, place);
    for (int32_t i = 0; p && i < p->n_children; i++)
        if (!strcmp(lam_model_place(m, p->children[i])->name, name)) return p->children[i];
    return -1;
}

static bool owns(const lam_module *mod, const char *name, const char *suffix) {
    size_t n = strlen(name);
    for (int32_t i = 0; i < mod->n_owned; i++)
        if (!strncmp(mod->owned[i].name, name, n) && !strcmp(mod->owned[i].name + n, suffix)) return true;
    return false;
}

bool lmi_reparametrized(const lam_model *m, int32_t event, const char *name) {
    const lam_event *ev = lam_model_event(m, event);
    const lam_module *mod = lam_model_module(m, ev->module);
    if (owns(mod, name, "_orig") || owns(mod, name, "_g")) return true;
    int32_t keeper = lmi_child(m, ev->place, "parametrizations");
    return lmi_child(m, keeper, name) >= 0;
}
