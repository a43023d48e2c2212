/* SPDX-License-Identifier: Apache-2.0
 *
 * What a language model keeps inside itself from one call to the next, without giving it to the caller:
 * buffers of which its calls write parts, as a cache of a fixed size, and other tensors that one call makes
 * and the next one reads. */
#include "analyse/tokens/tokens.h"

/* False for positions, masks and counters. */
static bool may_cache(int32_t dtype) {
    enum { INT16 = 2, INT64 = 4, BOOL = 11 };
    return dtype >= 0 && dtype != BOOL && (dtype < INT16 || dtype > INT64);
}

/* The parameter or buffer of which an operator writes a part; -1: it writes none, or all of it. */
static int32_t written(const lam_model *m, int32_t op) {
    const lam_op *o = &m->ops[op];
    const size_t n = strlen(o->sig->name);
    const int32_t first = lmi_first_tensor(o);
    if (n < 2 || o->sig->name[n - 1] != '_' || o->sig->name[n - 2] == '_' || first < 0) return -1;
    const int32_t tensor = lam_model_source_tensor(m, op, first);
    const bool by_index = strstr(o->sig->name, "index_") || strstr(o->sig->name, "scatter_");
    const bool part = tensor >= 0 && lmi_op_arg_numel(&o->sig->in[first]) < m->tensors[tensor].numel;
    return by_index || part ? tensor : -1;
}

lam_status lmi_token_stores(lmi_token_run *r, lam_error *e) {
    const lam_model *m = r->m;
    bool *buffer = lmi_alloc(r->arena, (uint64_t)m->n_tensors, sizeof *buffer);
    r->stored = lmi_alloc(r->arena, (uint64_t)m->n_tensors, sizeof *r->stored);
    if (!buffer || !r->stored) return lmi_nomem(e);
    for (int32_t i = 0; i < m->n_modules; i++)
        for (int32_t k = 0; k < m->modules[i].n_owned; k++)
            if (m->modules[i].owned[k].is_buffer) buffer[m->modules[i].owned[k].tensor] = true;
    for (int32_t k = 0; k < (int32_t)r->calls.n; k++)
        for (int32_t i = r->ops.start[k]; i < r->ops.start[k + 1]; i++) {
            const int32_t to = written(m, r->ops.order[i]);
            if (to < 0 || !buffer[to] || !may_cache(m->tensors[to].dtype)) continue;
            r->stored[to] = lmi_token_at(r, k)->stores = true;
        }
    return LAM_OK;
}

bool lmi_token_carries(const lmi_token_run *r, int32_t k) {
    const lam_model *m = r->m;
    for (int32_t i = r->ops.start[k]; k > 0 && i < r->ops.start[k + 1]; i++) {
        const int32_t op = r->ops.order[i];
        for (int32_t in = 0; in < m->ops[op].sig->n_in; in++) {
            const lam_op_arg *a = &m->ops[op].sig->in[in];
            const int32_t from = a->is_tensor && may_cache(a->dtype) ? lam_model_source(m, op, in) : -1;
            if (from >= 0 && m->ops[from].call >= 0 && r->call_of[m->ops[from].call] == k - 1) return true;
        }
    }
    return false;
}
