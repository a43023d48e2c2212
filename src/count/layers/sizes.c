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

int64_t lmi_numel(lam_shape s) {
    int64_t n;
    return s.ndim >= 0 && lmi_product(s.sizes, s.ndim, &n) ? n : -1;
}

int64_t lmi_spatial(lam_shape s, int64_t rank) {
    int64_t n;
    if (rank < 0 || s.ndim <= rank) return -1;
    return lmi_product(s.sizes + (s.ndim - rank), (int32_t)rank, &n) ? n : -1;
}

int64_t lmi_times(int64_t a, int64_t b) {
    int64_t r;
    return a < 0 || b < 0 || lmi_mul_over(a, b, &r) ? -1 : r;
}

int64_t lmi_stored(int64_t n, int32_t bits) {
    if (bits > 0 && bits % 8 == 0) return lmi_times(n, bits / 8);
    int64_t all = bits > 0 ? lmi_times(n, bits) : -1;
    return all < 0 ? -1 : all / 8 + (all % 8 != 0);
}

int64_t lmi_value_int(const lam_value *v, int64_t fallback) {
    if (v && (v->type == LAM_INT || v->type == LAM_BOOL)) return v->i;
    return v && v->type == LAM_INTS && v->n == 1 ? v->ints[0] : fallback;
}

int64_t lmi_value_axis(const lam_value *v, int32_t i, int64_t fallback) {
    if (v && v->type == LAM_INTS && v->n > 1) return i >= 0 && i < v->n ? v->ints[i] : fallback;
    return lmi_value_int(v, fallback);
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
