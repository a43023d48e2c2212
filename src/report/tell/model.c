/* SPDX-License-Identifier: Apache-2.0
 *
 * The observations of a run, part by part. */
#include "report/tell/tell.h"

static void tell_arg(lmi_teller *t, const lam_arg *a) {
    tell_object(t, NULL);
    tell_text(t, "name", a->name);
    tell_int(t, "position", a->position);
    tell_text(t, "dtype", lam_dtype_name(a->dtype));
    tell_int(t, "device", a->device);
    lmi_tell_sizes(t, "shape", a->ndim, a->sizes);
    tell_int(t, "storage", (int64_t)a->storage);
    tell_end(t);
}

static void tell_args(lmi_teller *t, const char *name, const lam_arg *args, int32_t n) {
    tell_tuple(t, name);
    for (int32_t i = 0; i < n; i++) tell_arg(t, &args[i]);
    tell_list_end(t);
}

static void tell_call(lmi_teller *t, const lam_model *m, int32_t i) {
    const lam_event *ev = &m->events[i];
    tell_int(t, "module", ev->module);
    tell_int(t, "place", ev->place);
    tell_int(t, "parent", ev->parent);
    tell_int(t, "ordinal", ev->ordinal);
    tell_int(t, "n_children_called", ev->n_children_called);
    tell_truth(t, "training", ev->flags & LAM_CALL_TRAINING);
    tell_truth(t, "failed", ev->flags & LAM_CALL_FAILED);
    tell_truth(t, "unseen", ev->flags & LAM_CALL_UNSEEN);
    tell_int(t, "t0_ns", ev->t0_ns);
    tell_int(t, "t1_ns", ev->t1_ns);
    tell_args(t, "inputs", ev->in, ev->n_in);
    tell_args(t, "outputs", ev->out, ev->n_out);
    tell_tuple(t, "output_sources");
    for (int32_t k = 0; k < ev->n_out; k++) tell_int(t, NULL, lam_model_call_output_source(m, i, k));
    tell_list_end(t);
}

static void tell_module(lmi_teller *t, const lam_model *m, int32_t i) {
    const lam_module *x = &m->modules[i];
    tell_text(t, "type", x->type);
    tell_text(t, "type_path", x->type_path);
    tell_text(t, "word", lam_word_name(x->word));
    tell_truth(t, "exact", x->flags & LAM_MODULE_EXACT);
    tell_truth(t, "own_forward", x->flags & LAM_MODULE_OWN_FORWARD);
    tell_truth(t, "training", x->flags & LAM_MODULE_TRAINING);
    tell_truth(t, "opaque", x->flags & LAM_MODULE_OPAQUE);
    tell_truth(t, "leaf", x->flags & LAM_MODULE_LEAF);
    tell_int(t, "n_calls", x->n_calls);
    tell_tuple(t, "owned");
    for (int32_t k = 0; k < x->n_owned; k++) {
        tell_record(t, NULL);
        tell_text(t, "name", x->owned[k].name);
        tell_int(t, "tensor", x->owned[k].tensor);
        tell_truth(t, "is_buffer", x->owned[k].is_buffer);
        tell_end(t);
    }
    tell_list_end(t);
    tell_object(t, "attrs");
    for (int32_t k = 0; k < x->n_attrs; k++) lmi_tell_value(t, x->attrs[k].name, &x->attrs[k].value);
    tell_end(t);
}

static void tell_place(lmi_teller *t, const lam_model *m, int32_t i) {
    const lam_place *p = &m->places[i];
    tell_text(t, "name", p->name);
    tell_text(t, "path", p->path);
    tell_int(t, "parent", p->parent);
    tell_int(t, "module", p->module);
    tell_int(t, "depth", p->depth);
    tell_int(t, "n_calls", p->n_calls);
}

static void tell_tensor(lmi_teller *t, const lam_model *m, int32_t i) {
    const lam_tensor *x = lam_model_tensor(m, i);
    tell_text(t, "dtype", lam_dtype_name(x->dtype));
    lmi_tell_sizes(t, "shape", x->shape.ndim, x->shape.sizes);
    tell_int(t, "numel", x->numel);
    tell_int(t, "bytes", x->bytes);
    tell_truth(t, "requires_grad", x->requires_grad);
    tell_int(t, "owner", x->owner);
    tell_int(t, "n_owners", x->n_owners);
}

/* -- operators ------------------------------------------------------------------------------------------- */

static void tell_op_arg(lmi_teller *t, const lam_op_arg *a) {
    tell_record(t, NULL);
    tell_int(t, "position", a->position);
    if (a->is_tensor) {
        tell_object(t, "tensor");
        lmi_tell_sizes(t, "shape", a->ndim, a->sizes);
        tell_text(t, "dtype", lam_dtype_name(a->dtype));
        tell_int(t, "device", a->device);
        tell_end(t);
    } else {
        lmi_tell_value(t, "value", &a->value);
    }
    tell_end(t);
}

static void tell_op_args(lmi_teller *t, const char *name, const lam_op_arg *args, int32_t n) {
    tell_tuple(t, name);
    for (int32_t i = 0; i < n; i++) tell_op_arg(t, &args[i]);
    tell_list_end(t);
}

/* Where the data of each argument comes from; -1 for each kind of source that it does not have. */
static void tell_sources(lmi_teller *t, const lam_model *m, int32_t op, int32_t n) {
    tell_tuple(t, "sources");
    for (int32_t i = 0; i < n; i++) {
        tell_record(t, NULL);
        tell_int(t, "operator", lam_model_source(m, op, i));
        tell_int(t, "tensor", lam_model_source_tensor(m, op, i));
        tell_int(t, "input", lam_model_source_input(m, op, i));
        tell_end(t);
    }
    tell_list_end(t);
}

static void tell_operator(lmi_teller *t, const lam_model *m, int32_t i) {
    const lam_op *op = lam_model_op(m, i);
    tell_text(t, "name", op->sig->name);
    tell_int(t, "call", op->call);
    tell_int(t, "parent", op->parent);
    tell_text(t, "phase", lam_phase_name((lam_phase)op->phase));
    tell_truth(t, "failed", op->flags & LAM_OP_FAILED);
    tell_truth(t, "node", op->flags & LAM_OP_NODE);
    tell_truth(t, "hides", op->flags & LAM_OP_HIDES);
    tell_text(t, "kind", lam_word_op_kind(op->sig->word));
    tell_int(t, "n_children", op->n_children);
    tell_int(t, "t0_ns", op->t0_ns);
    tell_int(t, "t1_ns", op->t1_ns);
    tell_op_args(t, "inputs", op->sig->in, op->sig->n_in);
    tell_sources(t, m, i, op->sig->n_in);
    tell_op_args(t, "outputs", op->sig->out, op->sig->n_out);
}

void lam_op_args_tell(const lam_op_arg *args, int32_t n, lam_receiver to) {
    lmi_teller t = lmi_tell_to(to);
    tell_op_args(&t, NULL, args, n);
}

/* -- lists ----------------------------------------------------------------------------------------------- */

static void tell_each(lmi_teller *t, const lam_model *m, int32_t n,
                      void (*tell)(lmi_teller *t, const lam_model *m, int32_t i)) {
    tell_list(t, NULL);
    for (int32_t i = 0; i < n; i++) {
        tell_object(t, NULL);
        tell(t, m, i);
        tell_end(t);
    }
    tell_list_end(t);
}

static void tell_lifetimes(lmi_teller *t, const lam_model *m) {
    static const char *const names[] = {"tensor",  "seed",  "workspace", "roughly",
                                        "unknown", "state", "gradient"};
    tell_list(t, NULL);
    for (int32_t i = 0; i < lam_model_n_lifetimes(m); i++) {
        const lam_lifetime *l = lam_model_lifetime(m, i);
        tell_record(t, NULL);
        tell_int(t, "bytes", l->bytes);
        tell_int(t, "made", l->made);
        tell_int(t, "freed", l->freed);
        tell_text(t, "what", names[l->what]);
        tell_end(t);
    }
    tell_list_end(t);
}

void lmi_notes_fields(lmi_teller *t, const char *name, const lam_model *m) {
    tell_list(t, name);
    for (int32_t i = 0; i < lam_model_n_notes(m); i++) tell_text(t, NULL, lam_model_note(m, i));
    tell_list_end(t);
}

void lmi_provenance_fields(lmi_teller *t, const char *name, const lam_model *m) {
    tell_object(t, name);
    for (int32_t i = 0; i < lam_model_n_provenance(m); i++) {
        const char *fact, *text = lam_model_provenance(m, i, &fact);
        tell_text(t, fact, text);
    }
    tell_end(t);
}

void lam_model_tell(const lam_model *m, lam_model_part part, lam_receiver to) {
    lmi_teller t = lmi_tell_to(to);
    switch (part) {
    case LAM_MODEL_CALLS: tell_each(&t, m, m->n_events, tell_call); break;
    case LAM_MODEL_MODULES: tell_each(&t, m, m->n_modules, tell_module); break;
    case LAM_MODEL_PLACES: tell_each(&t, m, m->n_places, tell_place); break;
    case LAM_MODEL_TENSORS: tell_each(&t, m, lam_model_n_tensors(m), tell_tensor); break;
    case LAM_MODEL_OPERATORS: tell_each(&t, m, lam_model_n_ops(m), tell_operator); break;
    case LAM_MODEL_LIFETIMES: tell_lifetimes(&t, m); break;
    case LAM_MODEL_NOTES: lmi_notes_fields(&t, NULL, m); break;
    case LAM_MODEL_PROVENANCE: lmi_provenance_fields(&t, NULL, m); break;
    }
}
