/* SPDX-License-Identifier: Apache-2.0
 *
 * The model that a backward pass belongs to. While a capture of one model is open, backward passes of others
 * may run, such as a discriminator's between two calls of its generator. */
#include "model/model.h"

static bool fits(int32_t pass) { return pass > 0 && pass < LMI_PASSES; }

bool lmi_is_pass(const lmi_passes *p, int32_t pass) {
    return fits(pass) && (p->has[pass / 64] >> pass % 64 & 1);
}

static void set(lmi_passes *p, int32_t pass, bool to) {
    const uint64_t bit = UINT64_C(1) << pass % 64;
    p->has[pass / 64] = to ? p->has[pass / 64] | bit : p->has[pass / 64] & ~bit;
}

static bool is_node(const lam_op *op) {
    return op->phase == LAM_BACKWARD && (op->flags & LAM_OP_NODE) && fits(op->pass);
}

/* The nodes of these passes lose their times, so no sum of times includes them. */
void lmi_leave_out_passes(lam_model *m) {
    lmi_passes others = {{0}};
    for (int32_t i = 0; i < m->n_ops; i++)
        if (is_node(&m->ops[i])) set(&others, m->ops[i].pass, true);
    for (int32_t i = 0; i < m->n_ops; i++)
        if (is_node(&m->ops[i]) && m->ops[i].call >= 0) set(&others, m->ops[i].pass, false);
    for (int32_t i = 0; i < m->n_ops; i++)
        if (is_node(&m->ops[i]) && lmi_is_pass(&others, m->ops[i].pass))
            m->ops[i].t0_ns = m->ops[i].t1_ns = 0;
    lmi_seen_leave_out(m->seen, &others);
}
