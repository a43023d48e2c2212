/* SPDX-License-Identifier: Apache-2.0
 *
 * The size of a key-value cache per token. If a forward left one, it was seen to grow. Else: attention with
 * torch's causal flag needs a cache. Attention with a mask that the model gives may need one; more can't be
 * reported, since the values of the mask are unknown here. The same applies to attention that is written as
 * products around a softmax. */
#include "analyse/flow/flow.h"

#include <string.h>

enum { FAR = 16 };

static bool is_kind(const lam_op *o, lmi_kind kind) { return lmi_op_kind(o->sig->word) == kind; }

static bool inside_attention(const lam_model *m, int32_t op) {
    for (int32_t up = m->ops[op].parent; up >= 0; up = m->ops[up].parent)
        if (is_kind(&m->ops[up], LMI_K_attend)) return true;
    return false;
}

static bool repeats(const char *name) {
    static const char *const names[] = {"aten::clone", "aten::repeat", "aten::repeat_interleave"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

/* Elements of the tensor that an argument repeats or views: a key that several queries share is repeated
 * for each of them. */
static int64_t least_elements(const lam_model *m, int32_t op, int32_t in) {
    int64_t least = -1;
    for (int32_t i = 0; i < FAR && op >= 0 && in >= 0; i++) {
        int64_t n = lmi_op_arg_numel(&m->ops[op].sig->in[in]);
        if (n < 0) break;
        if (least < 0 || n < least) least = n;
        op = lam_model_source(m, op, in);
        if (op < 0) break;
        if (!lmi_only_view(&m->ops[op]) && !repeats(m->ops[op].sig->name)) break;
        in = lmi_first_tensor(&m->ops[op]);
    }
    return least;
}

/* Bytes of one token of argument `in`, a key or value with its tokens along `axis`; -1: unknown. */
static int64_t bytes_of(const lam_model *m, int32_t op, int32_t in, int32_t axis) {
    const lam_op_arg *a = in < 0 ? NULL : &m->ops[op].sig->in[in];
    if (!a || a->ndim != 4 || a->sizes[axis] < 1 || a->sizes[0] < 1) return -1;
    int64_t n = least_elements(m, op, in), tokens;
    if (n < 0 || lmi_mul_over(a->sizes[0], a->sizes[axis], &tokens)) return -1;
    return n / tokens * lam_dtype_bits(a->dtype) / 8;
}

static void add(int64_t key, int64_t value, int32_t *layers, int64_t *bytes) {
    if (key < 0 || value < 0 || lmi_add_over(*bytes, key, bytes) || lmi_add_over(*bytes, value, bytes))
        return;
    ++*layers;
}

/* attention as an operator */

static bool is_causal(const lmi_slots *slots) {
    const lmi_slot *causal = &slots->at[LMI_S_causal];
    return causal->present && causal->value && causal->value->type == LAM_BOOL && causal->value->i;
}

/* True if queries and keys have the same positions. */
static bool is_of_itself(const lam_op_arg *q, const lam_op_arg *k, int32_t axis) {
    return q->ndim == 4 && k->ndim == 4 && q->sizes[2] == k->sizes[axis];
}

static void add_operator(const lam_model *m, int32_t op, lam_fit *f) {
    lmi_slots slots;
    const lam_op_sig *sig = m->ops[op].sig;
    int32_t q = lmi_tensor_argument(sig, 0), k = lmi_tensor_argument(sig, 1), v = lmi_tensor_argument(sig, 2);
    if (q < 0 || k < 0 || v < 0) return;
    lmi_bind_op(sig, &slots);
    int64_t key = bytes_of(m, op, k, 2), value = bytes_of(m, op, v, 2);
    const lmi_slot *mask = &slots.at[LMI_S_mask];
    if (is_causal(&slots))
        add(key, value, &f->cached_layers, &f->cache_bytes);
    else if (mask->present && mask->tensor && is_of_itself(&sig->in[q], &sig->in[k], 2))
        add(key, value, &f->masked_layers, &f->masked_bytes);
}

/* attention as several operators */

static bool is_product(const lam_op *o) { return strcmp(o->sig->name, "aten::matmul") == 0; }

/* The argument with the same elements as the result; -1: none. */
static int32_t one_by_one(const lam_op *o) {
    int64_t n = o->sig->n_out > 0 ? lmi_op_arg_numel(&o->sig->out[0]) : -1;
    for (int32_t i = 0; n >= 0 && i < o->sig->n_in; i++)
        if (o->sig->in[i].is_tensor && o->sig->in[i].dtype == o->sig->out[0].dtype &&
            lmi_op_arg_numel(&o->sig->in[i]) == n)
            return i;
    return -1;
}

/* True if there are arguments other than numbers and `own`. */
static bool takes_a_mask(const lam_op *o, int32_t own) {
    for (int32_t i = 0; i < o->sig->n_in; i++)
        if (i != own && o->sig->in[i].is_tensor && o->sig->in[i].ndim >= 2) return true;
    return false;
}

typedef bool wanted(const lam_op *o);

static bool is_softmax(const lam_op *o) { return is_kind(o, LMI_K_softmax); }

/* The operator that argument `in` comes from, through elementwise operators; -1: none. */
static int32_t come_from(const lam_model *m, int32_t op, int32_t in, wanted *is, bool *masked) {
    for (int32_t i = 0; i < FAR && in >= 0; i++) {
        op = lam_model_source(m, op, in);
        if (op < 0 || is(&m->ops[op])) return op;
        if (is_product(&m->ops[op])) return -1;
        in = lmi_only_view(&m->ops[op]) ? lmi_first_tensor(&m->ops[op]) : one_by_one(&m->ops[op]);
        if (in >= 0 && takes_a_mask(&m->ops[op], in)) *masked = true;
    }
    return -1;
}

/* Probabilities times values: scores of queries and keys must precede them. */
static void add_written_out(const lam_model *m, int32_t op, lam_fit *f) {
    bool masked = false, unused = false;
    const lam_op_sig *sig = m->ops[op].sig;
    int32_t p = lmi_tensor_argument(sig, 0), v = lmi_tensor_argument(sig, 1);
    if (p < 0 || v < 0 || sig->in[v].ndim != 4) return;
    int32_t softmax = come_from(m, op, p, is_softmax, &unused);
    if (softmax < 0) return;
    int32_t scores = come_from(m, softmax, lmi_first_tensor(&m->ops[softmax]), is_product, &masked);
    if (scores < 0 || !masked) return;
    const lam_op_sig *of = m->ops[scores].sig;
    int32_t q = lmi_tensor_argument(of, 0), k = lmi_tensor_argument(of, 1);
    if (q < 0 || k < 0 || !is_of_itself(&of->in[q], &of->in[k], 3)) return;
    add(bytes_of(m, scores, k, 3), bytes_of(m, op, v, 2), &f->masked_layers, &f->masked_bytes);
}

/* What the forward left for the next one was seen, and a step of one token more. */
static void add_kept(const lam_model *m, lam_fit *f) {
    f->cache_fixed = 0;
    f->cache_why = m->kept_why;
    int32_t last = -1;
    for (int32_t i = 0; i < m->n_kept; i++) {
        const lam_kept *k = &m->kept[i];
        const int64_t among = k->shared ? 1 : m->kept_batch, grown = k->after - k->before;
        if (grown > 0 && !m->kept_why) {
            f->cache_bytes += grown / among;
            if (k->layer > last) f->cached_layers++;
            if (k->layer > last) last = k->layer;
        } else {
            f->cache_fixed += k->before / among;
        }
    }
    if (m->kept_why) f->cache_bytes = -1;
}

void lmi_find_cache(const lam_model *m, lam_fit *f) {
    f->cache_fixed = -1;
    if (m->n_kept > 0) {
        add_kept(m, f);
        return;
    }
    for (int32_t i = 0; i < m->n_ops; i++) {
        const lam_op *o = &m->ops[i];
        if (o->phase != LAM_FORWARD || inside_attention(m, i)) continue;
        if (is_kind(o, LMI_K_attend))
            add_operator(m, i, f);
        else if (is_product(o))
            add_written_out(m, i, f);
    }
}
