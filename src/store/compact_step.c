/* SPDX-License-Identifier: Apache-2.0
 *
 * A step whose modules the writer already knows: the training thread copies only its calls and nodes, and the
 * writer makes the model. */
#include "model/model.h"
#include "store/store.h"

#include <stdlib.h>

size_t lmi_again_size(int32_t n_calls, const lam_op_info *nodes, int32_t n_nodes) {
    size_t bytes = sizeof(lmi_again) + (size_t)n_calls * sizeof(lam_call_info);
    for (int32_t i = 0; i < n_nodes; i++) bytes += sizeof *nodes + strlen(nodes[i].name) + 1;
    return bytes;
}

lmi_again *lmi_again_at(void *room, const lam_call_info *calls, int32_t n_calls, const lam_op_info *nodes,
                        int32_t n_nodes) {
    lmi_again *a = room;
    *a = (lmi_again){n_calls, n_nodes, (lam_call_info *)(a + 1), NULL};
    a->nodes = (lam_op_info *)(a->calls + n_calls);
    for (int32_t i = 0; i < n_calls; i++) {
        const lam_call_info *c = &calls[i];
        a->calls[i] = (lam_call_info){.module = c->module,
                                      .parent = c->parent,
                                      .flags = c->flags,
                                      .regions = c->regions,
                                      .t0_ns = c->t0_ns,
                                      .t1_ns = c->t1_ns,
                                      .thread = c->thread};
    }
    char *to = (char *)(a->nodes + (n_nodes > 0 ? n_nodes : 0));
    for (int32_t i = 0; i < n_nodes; i++) {
        size_t length = strlen(nodes[i].name) + 1;
        a->nodes[i] = nodes[i];
        a->nodes[i].n_in = a->nodes[i].n_out = 0;
        a->nodes[i].in = a->nodes[i].out = NULL;
        a->nodes[i].name = memcpy(to, nodes[i].name, length);
        to += length;
    }
    return a;
}

static lam_status push_tree(lam_builder *b, const lam_model *like, lam_error *e) {
    for (int32_t i = 0; i < lam_model_n_modules(like); i++) {
        const lam_module *m = lam_model_module(like, i);
        lam_module_info info = {m->type, m->type_path, m->extra, m->word, m->flags};
        LAM_TRY(lam_build_module(b, &info, NULL, e));
    }
    for (int32_t i = 0; i < lam_model_n_places(like); i++) {
        const lam_place *p = lam_model_place(like, i);
        LAM_TRY(lam_build_place(b, p->parent, p->name, p->module, NULL, e));
    }
    return LAM_OK;
}

static lam_status push_all(lam_builder *b, const lmi_again *a, const lam_model *like, lam_error *e) {
    LAM_TRY(push_tree(b, like, e));
    LAM_TRY(lam_build_timed(b, e));
    for (int32_t i = 0; i < a->n_calls; i++) LAM_TRY(lam_build_call(b, &a->calls[i], NULL, e));
    if (a->n_nodes >= 0) LAM_TRY(lam_build_nodes_seen(b, e));
    for (int32_t i = 0; i < a->n_nodes; i++) LAM_TRY(lam_build_op(b, &a->nodes[i], NULL, e));
    return LAM_OK;
}

lam_status lmi_again_model(const lmi_again *a, const lam_model *like, lam_model **out, lam_error *e) {
    lam_builder *b;
    *out = NULL;
    LAM_TRY(lam_builder_new(&b, 0, e));
    lam_status s = push_all(b, a, like, e);
    if (s == LAM_OK) return lam_builder_finish(b, out, e);
    lam_builder_free(b);
    return s;
}
