/* SPDX-License-Identifier: Apache-2.0
 *
 * Prompts of several lengths in one batch are filled up on the left. The mask of an attention hides such a
 * position from every other one, and hides all keys from it: its row of scores is closed as a whole, and that
 * of a token never is, since a token sees itself. */
#include "analyse/tokens/tokens.h"

/* The rows of scores that a mask leaves open, a sequence and query each; -1: it is no mask of these. The axes
 * are the batch, the heads (or 1), the queries and the keys. */
static int64_t open_rows(const lam_op_arg *a, const lmi_token_call *call) {
    enum { HEADS = 1, QUERIES = 2, AXES = 4, INT32 = 3, INT64 = 4 };
    if (!a->is_tensor || !a->masks || a->ndim != AXES || a->dtype == INT32 || a->dtype == INT64) return -1;
    if (a->sizes[0] != call->batch || a->sizes[QUERIES] != call->fresh || a->sizes[HEADS] < 1) return -1;
    return a->open_rows % a->sizes[HEADS] == 0 ? a->open_rows / a->sizes[HEADS] : -1;
}

/* True for a call that is given a mask of positions, one row a sequence. */
static bool is_masked(const lmi_token_run *r, const lmi_token_call *call) {
    const lam_event *ev = &r->m->events[call->event];
    for (int32_t i = 0; i < ev->n_in; i++)
        if (ev->in[i].name && strstr(ev->in[i].name, "mask") && ev->in[i].ndim == 2 &&
            ev->in[i].sizes[0] == call->batch)
            return true;
    return false;
}

/* The mask that hides least decides: others may have a window, or be of a part of the layers. An attention
 * without one hides nothing but what comes later; a model without attention does not show what it hides. */
static int64_t pads_of(const lmi_token_run *r, int32_t k) {
    const lmi_token_call *call = lmi_token_at(r, k);
    int64_t most = -1, rows;
    bool attends = false;
    if (call->batch < 1 || call->fresh < 2 || lmi_mul_over(call->batch, call->fresh, &rows)) return 0;
    for (int32_t i = r->ops.start[k]; i < r->ops.start[k + 1]; i++) {
        const lam_op_sig *sig = r->m->ops[r->ops.order[i]].sig;
        const lmi_kind kind = lmi_op_kind(sig->word);
        attends = attends || lmi_token_attends(kind) || kind == LMI_K_softmax;
        for (int32_t in = 0; in < sig->n_in && !lmi_is_masked_fill(sig->name); in++) {
            const int64_t open = open_rows(&sig->in[in], call);
            if (open > most) most = open;
        }
    }
    if (!attends && call->batch > 1 && is_masked(r, call)) return -1;
    return most < 0 || most > rows ? 0 : rows - most;
}

void lmi_token_padding(lmi_token_run *r) {
    for (int32_t k = 0; k < (int32_t)r->calls.n; k++) lmi_token_at(r, k)->pads = pads_of(r, k);
}
