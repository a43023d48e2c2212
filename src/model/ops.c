/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators: pushed like everything else, and read from a frozen model. A training step runs tens of
 * thousands, so each costs two copies of fixed size and no search: a name that was seen is found by its
 * address, and its word is looked up once. */
#include "model/builder.h"

/* The same text may lie at many addresses, and an address may hold another text later: the bytes decide. */
static lam_status name_of(lam_builder *b, const char *name, lmi_op_name *out, lam_error *e) {
    LAM_TRY(lmi_needs(name, "an operator's name", e));
    int32_t *slot = &b->op_at_address[((uintptr_t)name ^ (uintptr_t)name >> 8) % LMI_RECENT];
    if (*slot) {
        const lmi_op_name *last = lmi_vec_at(&b->op_names, (size_t)*slot - 1);
        *out = *last;
        if (strcmp(last->name, name) == 0) return LAM_OK;
    }
    int64_t at = lmi_map_get(&b->op_by_name, name);
    if (at < 0) {
        lmi_op_name fresh = {lmi_strdup(&b->arena, name), lam_word_op(name)};
        if (!fresh.name) return lmi_nomem(e);
        at = (int64_t)b->op_names.n;
        LAM_TRY(lmi_push(b, &b->op_names, "operators' names", &fresh, e));
        LAM_TRY(lmi_map_put(&b->op_by_name, fresh.name, at, e));
    }
    *out = *(const lmi_op_name *)lmi_vec_at(&b->op_names, (size_t)at);
    *slot = (int32_t)at + 1;
    return LAM_OK;
}

static lam_status check_args(const lam_op_arg *from, int32_t n, const char *name, lam_error *e) {
    if (n < 0) return lmi_fail(e, LAM_RANGE, name, "there can't be %d arguments or results", n);
    if (n > 0) LAM_TRY(lmi_needs(from, name, e));
    for (int32_t i = 0; i < n; i++) {
        if (from[i].position < 0)
            return lmi_fail(e, LAM_RANGE, name, "an argument can't have position %d; count from 0",
                            from[i].position);
        if (from[i].is_tensor) LAM_TRY(lmi_check_sizes(from[i].ndim, from[i].sizes, name, e));
    }
    return LAM_OK;
}

static lam_status copy_arg(lam_builder *b, const lam_op_arg *from, const char *name, lam_op_arg *to,
                           lam_error *e) {
    if (!from->is_tensor) {
        *to = (lam_op_arg){.position = from->position, .dtype = -1, .device = -1, .ndim = -1};
        return lmi_copy_value(b, &from->value, name, &to->value, e);
    }
    *to = *from;
    to->value = (lam_value){0};
    return lmi_copy_ints(b, from->sizes, from->ndim > 0 ? from->ndim : 0, &to->sizes, e);
}

/* Arguments and results in one piece of the arena. */
static lam_status copy_args(lam_builder *b, const lam_op_info *info, lam_op *o, lam_error *e) {
    LAM_TRY(check_args(info->in, info->n_in, o->name, e));
    LAM_TRY(check_args(info->out, info->n_out, o->name, e));
    lam_op_arg *args = lmi_alloc(&b->arena, (uint64_t)info->n_in + (uint64_t)info->n_out, sizeof *args);
    if (!args) return lmi_nomem(e);
    for (int32_t i = 0; i < info->n_in; i++) LAM_TRY(copy_arg(b, &info->in[i], o->name, &args[i], e));
    o->in = args;
    args += info->n_in;
    for (int32_t i = 0; i < info->n_out; i++) LAM_TRY(copy_arg(b, &info->out[i], o->name, &args[i], e));
    o->out = args;
    return LAM_OK;
}

lam_status lam_build_op(lam_builder *b, const lam_op_info *info, int32_t *index, lam_error *e) {
    lmi_op_name name;
    LAM_TRY(name_of(b, info->name, &name, e));
    if (info->call != -1) LAM_TRY(lmi_in_range(&b->events, info->call, "the call of an operator", e));
    if (info->parent != -1)
        LAM_TRY(lmi_in_range(&b->ops, info->parent, "the operator around an operator", e));
    if ((unsigned)info->phase >= LAM_N_PHASES)
        return lmi_fail(e, LAM_RANGE, name.name, "its phase %d is none of lam_phase", (int)info->phase);
    lam_op o = {.name = name.name,
                .word = name.word,
                .call = info->call,
                .parent = info->parent,
                .phase = info->phase,
                .flags = info->flags,
                .t0_ns = info->t0_ns,
                .t1_ns = info->t1_ns,
                .n_in = info->n_in,
                .n_out = info->n_out};
    LAM_TRY(copy_args(b, info, &o, e));
    LAM_TRY(lmi_push(b, &b->ops, "operators", &o, e));
    if (o.parent >= 0) ((lam_op *)b->ops.data)[o.parent].n_children++;
    b->ops_seen = true;
    if (index) *index = (int32_t)b->ops.n - 1;
    return LAM_OK;
}

lam_status lam_build_ops_seen(lam_builder *b, lam_error *e) {
    if (!b) return lmi_fail(e, LAM_USAGE, "lam_build_ops_seen", "there is no builder; make one first");
    b->ops_seen = true;
    return LAM_OK;
}

bool lam_model_ops_seen(const lam_model *m) { return m->ops_seen; }
int32_t lam_model_n_ops(const lam_model *m) { return m->n_ops; }
const lam_op *lam_model_op(const lam_model *m, int32_t i) {
    return i >= 0 && i < m->n_ops ? &m->ops[i] : NULL;
}
