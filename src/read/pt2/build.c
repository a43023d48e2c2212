/* SPDX-License-Identifier: Apache-2.0
 *
 * The model of a program: what a run with its example input would have observed. */
#include "read/pt2/pt2.h"

#include <stdio.h>

/* -- tensors --------------------------------------------------------------------------------------------- */

enum { FIRST_WEIGHT = 1 << 30, NEWEST_SCHEMA = 8 };

/* Pushes the tensor of a weight when the first of its names is met. */
static lam_status push_tensor(lmi_pt2 *p, int32_t i) {
    lmi_pt2_weight *w = lmi_pt2_weight_at(p, i);
    const uint64_t id = (uint64_t)(FIRST_WEIGHT + (int64_t)i + 1) << 4;
    const lam_tensor_info info = {.dtype = w->dtype,
                                  .ndim = w->ndim,
                                  .sizes = w->sizes,
                                  .bytes = -1,
                                  .requires_grad = w->requires_grad,
                                  .storage = id,
                                  .object = id};
    return w->tensor >= 0 ? LAM_OK : lam_build_tensor(p->b, &info, &w->tensor, p->e);
}

static lam_status push_weight(lmi_pt2 *p, int32_t i) {
    const lmi_pt2_weight *w = lmi_pt2_weight_at(p, i);
    const int32_t first = lmi_pt2_first(p, i);
    const char *dot = strrchr(w->name, '.');
    LAM_TRY(push_tensor(p, first));
    return lam_build_owns(p->b, lmi_pt2_module_at(p, w->module)->index, dot ? dot + 1 : w->name,
                          lmi_pt2_weight_at(p, first)->tensor, w->buffer, p->e);
}

/* A weight that no list of values has is one of which the file has none. */
static lam_status push_health(lmi_pt2 *p) {
    const lmi_tensors *t = &p->stored;
    int32_t module, *place = lmi_alloc_none(&p->arena, lmi_tensors_n(t));
    if (!place) return lmi_nomem(p->e);
    for (int32_t i = 0; i < lmi_tensors_n(t); i++) {
        const char *name = lmi_tensors_at(t, i)->name, *dot = strrchr(name, '.');
        if (lmi_map_get(&p->by_weight, name) < 0) continue;
        LAM_TRY(lmi_pt2_module_of(p, name, dot ? (size_t)(dot - name) : 0, &module));
        place[i] = lmi_pt2_module_at(p, module)->index;
    }
    LAM_TRY(lmi_tensors_health(t, place, p->b, p->e));
    return lmi_tensors_tell(t, p->b, p->e);
}

/* -- calls ----------------------------------------------------------------------------------------------- */

static lam_status fill_ends(lmi_pt2 *p, int32_t first, lmi_vec *to) {
    lmi_vec_clear(to);
    for (int32_t i = first; i >= 0; i = ((const lmi_pt2_end *)p->ends.data)[i].next) {
        const lmi_pt2_value *v = lmi_pt2_value_at(p, ((const lmi_pt2_end *)p->ends.data)[i].value);
        const lam_arg a = {.position = (int32_t)to->n,
                           .dtype = v->dtype,
                           .device = v->device,
                           .ndim = v->ndim,
                           .sizes = v->sizes,
                           .storage = v->storage,
                           .memory = v->storage,
                           .object = v->object};
        LAM_TRY(lmi_vec_put(to, &a, p->e));
    }
    return LAM_OK;
}

static lam_status push_calls(lmi_pt2 *p, lmi_vec *in, lmi_vec *out) {
    for (int32_t i = 0; i < (int32_t)p->calls.n; i++) {
        const lmi_pt2_call *c = lmi_pt2_call_at(p, i);
        const lmi_pt2_module *m = lmi_pt2_module_at(p, c->module);
        LAM_TRY(fill_ends(p, c->first_in, in));
        LAM_TRY(fill_ends(p, c->first_out, out));
        const lam_call_info info = {.module = m->index,
                                    .parent = c->parent,
                                    .flags = p->training ? LAM_CALL_TRAINING : 0u,
                                    .n_in = (int32_t)in->n,
                                    .n_out = (int32_t)out->n,
                                    .in = in->data,
                                    .out = out->data};
        LAM_TRY(lam_build_call(p->b, &info, NULL, p->e));
    }
    return LAM_OK;
}

/* -- graphs that values decide on ------------------------------------------------------------------------ */

/* "higher_order::cond runs one of its graphs, as a value says, and none is counted: true_graph_0 (nodes: 2),
 * ..." */
static lam_status note_graphs(lmi_pt2 *p) {
    lmi_buf b;
    const char *between = "";
    lmi_buf_init(&b);
    lmi_putf(&b, "%s %s, and %s counted: ", p->now.op,
             strstr(p->now.op, "::cond") ? "runs one of its graphs, as a value says"
                                         : "runs graphs, as often as values or sizes say",
             p->now.graphs == 1 ? "it is not" : "none is");
    LMI_JSON_EACH(&p->j, lmi_json_get(&p->j, p->now.node, "inputs"), i) {
        const uint32_t graph = lmi_json_find(&p->j, i, "arg.as_graph.graph");
        const char *name = lmi_json_as_text(&p->j, lmi_json_find(&p->j, i, "arg.as_graph.name"));
        if (lmi_json_is(&p->j, graph) != LMI_JSON_OBJECT) continue;
        lmi_putf(&b, "%s%s (nodes: %u)", between, name ? name : "?",
                 lmi_json_size(&p->j, lmi_json_get(&p->j, graph, "nodes")));
        between = ", ";
    }
    lam_status s = lmi_buf_status(&b, p->e);
    if (s == LAM_OK) s = lam_build_note(p->b, b.s, p->e);
    lmi_buf_free(&b);
    return s;
}

/* -- operators ------------------------------------------------------------------------------------------- */

static lam_status push_step(lmi_pt2 *p, const lmi_pt2_step *s) {
    int32_t index;
    p->now = *s;
    const lam_op_info info = {.name = s->op,
                              .call = s->call,
                              .parent = -1,
                              .phase = s->backward ? LAM_BACKWARD : LAM_FORWARD,
                              .n_in = s->n_in,
                              .n_out = s->n_out,
                              .in = lmi_pt2_arg(p, s, 0),
                              .out = lmi_pt2_arg(p, s, s->n_in)};
    if (s->graphs) LAM_TRY(note_graphs(p));
    LAM_TRY(lam_build_op(p->b, &info, &index, p->e));
    LAM_TRY(lmi_pt2_attributes(p, lmi_pt2_call_at(p, s->call)->module, &info));
    return lmi_pt2_inner(p, &info, index);
}

/* -- facts ----------------------------------------------------------------------------------------------- */

static lam_status note_schema(lmi_pt2 *p) {
    char text[96];
    if (p->schema <= NEWEST_SCHEMA) return LAM_OK;
    snprintf(text, sizeof text, "its schema has version %lld, and %d is the newest that is known",
             (long long)p->schema, NEWEST_SCHEMA);
    return lam_build_note(p->b, text, p->e);
}

/* A run may find that a mask hides nothing, or what the kernel's own flag hides; an export has no values. */
static lam_status note_masks(lmi_pt2 *p) {
    char text[128];
    if (!p->masked) return LAM_OK;
    snprintf(text, sizeof text,
             "%d attention%s computed in the program; a run may leave %s out, and some FLOPs", (int)p->masked,
             p->masked == 1 ? " has a mask that is" : "s have masks that are",
             p->masked == 1 ? "it" : "them");
    return lam_build_note(p->b, text, p->e);
}

static lam_status tell(lmi_pt2 *p) {
    const char *torch = lmi_json_as_text(&p->j, lmi_json_get(&p->j, LMI_JSON_ROOT, "torch_version"));
    LAM_TRY(lam_build_provenance(p->b, "format", "torch.export", p->e));
    if (torch) LAM_TRY(lam_build_provenance(p->b, "torch", torch, p->e));
    LAM_TRY(note_schema(p));
    LAM_TRY(note_masks(p));
    if (p->decided)
        LAM_TRY(lam_build_note(p->b, "of higher_order::cond the graphs are counted that run at these sizes",
                               p->e));
    if (!p->stack && p->modules.n > 1)
        return lam_build_note(p->b, "the file does not tell in which module its operators ran", p->e);
    return LAM_OK;
}

static lam_status build(lmi_pt2 *p, lmi_vec *in, lmi_vec *out) {
    LAM_TRY(lmi_pt2_places(p));
    for (size_t i = 0; i < p->weights.n; i++) LAM_TRY(push_weight(p, (int32_t)i));
    if (p->stored.checked) LAM_TRY(push_health(p));
    LAM_TRY(push_calls(p, in, out));
    LAM_TRY(lam_build_ops_seen(p->b, p->e));
    for (size_t i = 0; i < p->steps.n; i++) {
        LAM_TRY(push_step(p, lmi_vec_at(&p->steps, i)));
    }
    return tell(p);
}

lam_status lmi_pt2_build(lmi_pt2 *p, lam_model **out) {
    lmi_vec ins, outs;
    lmi_vec_init(&ins, sizeof(lam_arg));
    lmi_vec_init(&outs, sizeof(lam_arg));
    lam_status s = build(p, &ins, &outs);
    lmi_vec_free(&ins);
    lmi_vec_free(&outs);
    if (s != LAM_OK) return s;
    lam_builder *b = p->b;
    p->b = NULL;
    return lam_builder_finish(b, out, p->e);
}
