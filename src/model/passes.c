/* SPDX-License-Identifier: Apache-2.0
 *
 * Backward passes: which of them belong to the model, and in which one something raised. While a capture of
 * one model is open, backward passes of others may run, such as a discriminator's between two calls of its
 * generator. */
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

bool lmi_went_back(const lam_model *m) {
    for (int32_t i = 0; i < m->n_ops; i++)
        if (m->ops[i].phase != LAM_FORWARD) return true;
    for (int32_t i = 0; i < m->n_events; i++)
        if (lmi_call_phase(&m->events[i]) != LAM_FORWARD) return true;
    return false;
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

/* -- a pass that raised ---------------------------------------------------------------------------------- */

static void put_layer(lmi_buf *b, const lam_model *m, int32_t call) {
    const char *path = m->places[m->events[call].place].path;
    lmi_put(b, " of ");
    lmi_put_clean(b, *path ? path : "the model itself");
    lmi_put(b, " (");
    lmi_put_clean(b, m->modules[m->events[call].module].type);
    lmi_putc(b, ')');
}

static const char *raised_sentence(lam_model *m) {
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_put(&b, "the backward pass raised");
    if (m->failed_node >= 0) {
        const lam_op *node = &m->ops[m->failed_node];
        lmi_putf(&b, " in %s", node->sig->name);
        if (node->call >= 0) put_layer(&b, m, node->call);
    }
    lmi_put(&b, ", and what was left of it to run is not counted");
    return lmi_buf_keep(&b, &m->arena);
}

lam_status lmi_note_raised(lam_model *m, bool raised, lam_error *e) {
    m->failed_node = -1;
    for (int32_t i = 0; i < m->n_ops; i++) {
        const lam_op *o = &m->ops[i];
        /* In a recomputation an operator that a mode answers has the flag too, and a checkpoint stops in it.
         */
        if (o->phase == LAM_BACKWARD && (~o->flags & (LAM_OP_NODE | LAM_OP_FAILED)) == 0) m->failed_node = i;
    }
    m->backward_raised = raised || m->failed_node >= 0;
    if (!m->backward_raised) return LAM_OK;
    if (m->cut) return LAM_OK;   /* the same numbers are lower bounds already */
    m->arena.limit = UINT64_MAX; /* a sentence is small, and the limit may have been reached */
    m->cut = raised_sentence(m);
    m->cut_ns = INT64_MAX;
    return m->cut ? LAM_OK : lmi_nomem(e);
}

/* True if an operator shows that the program went on: of another backward pass, or of a forward. */
static bool goes_on(const lam_model *m, int32_t op) {
    const lam_op *o = &m->ops[op], *failed = &m->ops[m->failed_node];
    if (o->phase == LAM_FORWARD) return o->call >= 0;
    return (o->flags & LAM_OP_NODE) && o->parent < 0 && o->pass != failed->pass;
}

int32_t lam_model_failed_node(const lam_model *m) {
    for (int32_t i = m->failed_node + 1; m->failed_node >= 0 && i < m->n_ops; i++)
        if (m->ops[i].thread == m->ops[m->failed_node].thread && goes_on(m, i)) return -1;
    return m->failed_node;
}
