/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a frozen model, and offers its tensors and attributes to the binder. */
#include "model/model.h"

int32_t lam_model_n_modules(const lam_model *m) { return m->n_modules; }
int32_t lam_model_n_places(const lam_model *m) { return m->n_places; }
int32_t lam_model_n_tensors(const lam_model *m) { return m->n_tensors; }
int32_t lam_model_n_events(const lam_model *m) { return m->n_events; }
int32_t lam_model_n_notes(const lam_model *m) { return (int32_t)m->notes.n; }

const lam_module *lam_model_module(const lam_model *m, int32_t i) {
    return i >= 0 && i < m->n_modules ? &m->modules[i] : NULL;
}
const lam_place *lam_model_place(const lam_model *m, int32_t i) {
    return i >= 0 && i < m->n_places ? &m->places[i] : NULL;
}
const lam_tensor *lam_model_tensor(const lam_model *m, int32_t i) {
    return i >= 0 && i < m->n_tensors ? &m->tensors[i] : NULL;
}
const lam_event *lam_model_event(const lam_model *m, int32_t i) {
    return i >= 0 && i < m->n_events ? &m->events[i] : NULL;
}
const char *lam_model_note(const lam_model *m, int32_t i) {
    return i >= 0 && (size_t)i < m->notes.n ? ((const char **)m->notes.data)[i] : NULL;
}

int32_t lam_model_n_provenance(const lam_model *m) { return m->n_provenance; }

const char *lam_model_provenance(const lam_model *m, int32_t i, const char **name) {
    static const lmi_named_text none;
    const lmi_named_text *t = i >= 0 && i < m->n_provenance ? &m->provenance[i] : &none;
    if (name) *name = t->name;
    return t->text;
}

const char *lam_model_told(const lam_model *m, const char *name) {
    for (int32_t i = 0; i < m->n_provenance; i++)
        if (strcmp(m->provenance[i].name, name) == 0) return m->provenance[i].text;
    return NULL;
}

const char *lam_model_input_origin(const lam_model *m, int32_t i) {
    return i >= 0 && i < m->n_made ? m->made[i] : NULL;
}

bool lam_model_nodes_seen(const lam_model *m) { return m->nodes_seen; }
bool lam_model_timed(const lam_model *m) { return m->timed; }
bool lam_model_ops_seen(const lam_model *m) { return m->ops_seen; }
bool lam_model_traced(const lam_model *m) { return m->traced; }
int32_t lam_model_n_ops(const lam_model *m) { return m->n_ops; }
int32_t lam_model_n_op_sigs(const lam_model *m) { return m->n_op_sigs; }
const lam_op *lam_model_op(const lam_model *m, int32_t i) {
    return i >= 0 && i < m->n_ops ? &m->ops[i] : NULL;
}

/* Places are added in their order, and all have room, so that the first of a path is found first. */
lam_status lmi_model_index(const lam_model *m, lam_error *e) {
    lmi_map *to = &((lam_model *)(uintptr_t)m)->by_path; /* done at the first use; the model looks constant */
    if (to->cap) return LAM_OK;
    LAM_TRY(lmi_map_reserve(to, (size_t)m->n_places, e));
    for (int32_t i = 0; i < m->n_places; i++)
        LAM_TRY(lmi_map_add(to, lmi_hash_text(m->places[i].path), i, e));
    return LAM_OK;
}

int32_t lam_model_find(const lam_model *m, const char *path) {
    if (!path || !m->n_places) return -1;
    if (lmi_model_index(m, NULL) == LAM_OK)
        return (int32_t)lmi_map_find(&m->by_path, lmi_hash_text(path), path, &m->places->path,
                                     sizeof *m->places);
    /* Memory ran out for the index. -1 would mean that no place has this path, so all are compared. */
    for (int32_t i = 0; i < m->n_places; i++)
        if (strcmp(m->places[i].path, path) == 0) return i;
    return -1;
}

const lam_value *lam_model_attr(const lam_model *m, int32_t module, const char *name) {
    const lam_module *mod = lam_model_module(m, module);
    for (int32_t i = 0; mod && name && i < mod->n_attrs; i++) {
        if (strcmp(mod->attrs[i].name, name) == 0) return &mod->attrs[i].value;
    }
    return NULL;
}

/* -- calls ----------------------------------------------------------------------------------------------- */

bool lmi_inside_itself(const lam_model *m, const lam_event *call) {
    if (m->places[call->place].n_calls < 2) return false;
    for (int32_t i = call->parent; i >= 0; i = m->events[i].parent)
        if (m->events[i].place == call->place) return true;
    return false;
}

/* -- sizes and arguments --------------------------------------------------------------------------------- */

int64_t lmi_numel(lam_shape s) {
    int64_t n;
    return s.ndim >= 0 && lmi_product(s.sizes, s.ndim, &n) ? n : -1;
}

int64_t lmi_stored(int64_t n, int32_t bits) {
    const bool whole = bits % 8 == 0;
    int64_t all;
    if (n < 0 || bits <= 0 || lmi_mul_over(n, whole ? bits / 8 : bits, &all)) return -1;
    return whole ? all : all / 8 + (all % 8 != 0);
}

int64_t lmi_arg_bytes(const lam_arg *a) {
    return lmi_stored(lmi_numel((lam_shape){a->ndim, a->sizes}), lam_dtype_bits(a->dtype));
}

const lam_value *lmi_sig_value(const lam_op_sig *s, int32_t position) {
    for (int32_t i = 0; i < s->n_in; i++)
        if (s->in[i].position == position && !s->in[i].is_tensor) return &s->in[i].value;
    return NULL;
}

lam_shape lmi_result_shape(const lam_op_sig *s) {
    for (int32_t i = 0; i < s->n_out; i++)
        if (s->out[i].is_tensor) return (lam_shape){s->out[i].ndim, s->out[i].sizes};
    return (lam_shape){-1, NULL};
}

/* -- attributes ------------------------------------------------------------------------------------------ */

static bool owns(const lam_module *mod, const char *name) {
    for (int32_t i = 0; i < mod->n_owned; i++)
        if (strcmp(mod->owned[i].name, name) == 0) return true;
    return false;
}

bool lmi_module_attr(const lam_model *m, int32_t module, int32_t i, lam_attr *out) {
    static const char name[] = "bias";
    const lam_module *mod = &m->modules[module];
    if (i < mod->n_attrs) {
        *out = mod->attrs[i];
        lam_value *v = &out->value;
        if (v->type != LAM_FLOAT || v->f - v->f == 0) return true;
        *v = (lam_value){.type = LAM_TEXT, .text = v->f > 0 ? "inf" : v->f < 0 ? "-inf" : "nan"};
        return true;
    }
    const char *bias = lmi_word_owned(mod->word, LMI_S_b);
    if (i > mod->n_attrs || !bias || lam_model_attr(m, module, name)) return false;
    *out = (lam_attr){name, {.type = LAM_BOOL, .i = owns(mod, bias) || lam_model_attr(m, module, bias)}};
    return true;
}

/* -- offers ---------------------------------------------------------------------------------------------- */

/* Signatures have at most eight arguments and eleven attributes; the owned tensors that have a role come
 * first. */
enum { MOST_ARGS = 24, MOST_ATTRS = 24, MOST_OFFERS = 64 };

static int32_t at_most(int32_t n, int32_t most) { return n < most ? n : most; }

static int32_t offer_args(const lam_event *c, lmi_offer *to) {
    int32_t n = at_most(c->n_in, MOST_ARGS);
    for (int32_t i = 0; i < n; i++) {
        const lam_arg *a = &c->in[i];
        to[i] = (lmi_offer){a->name, a->position, {a->ndim, a->sizes}, NULL, LMI_FROM_CALL};
    }
    return n;
}

static int32_t offer_attrs(const lam_module *mod, lmi_offer *to) {
    int32_t n = at_most(mod->n_attrs, MOST_ATTRS);
    for (int32_t i = 0; i < n; i++) {
        to[i] = (lmi_offer){mod->attrs[i].name, -1, {-1, NULL}, &mod->attrs[i].value, LMI_FROM_ATTR};
    }
    return n;
}

static int32_t offer_owned(const lam_model *m, const lam_module *mod, lmi_offer *to, int32_t room) {
    int32_t n = at_most(mod->n_owned, room);
    for (int32_t i = 0; i < n; i++) {
        to[i] =
            (lmi_offer){mod->owned[i].name, -1, m->tensors[mod->owned[i].tensor].shape, NULL, LMI_FROM_OWNED};
    }
    return n;
}

/* `c` NULL: the module without a call. */
static void bind(const lam_model *m, const lam_module *mod, const lam_event *c, lmi_slots *out) {
    lmi_offer offers[MOST_OFFERS];
    int32_t n = c ? offer_args(c, offers) : 0;
    n += offer_attrs(mod, offers + n);
    n += offer_owned(m, mod, offers + n, MOST_OFFERS - n);
    lmi_bind(mod->word, offers, n, out);
}

void lmi_module_bind(const lam_model *m, int32_t module, lmi_slots *out) {
    bind(m, &m->modules[module], NULL, out);
}

void lmi_model_bind(const lam_model *m, int32_t event, lmi_slots *out) {
    const lam_event *c = lam_model_event(m, event);
    *out = lmi_no_slots;
    if (c) bind(m, &m->modules[c->module], c, out);
}
