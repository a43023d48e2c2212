/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes of attention as operators. Where a cache or something fused makes the work another one than the
 * shapes of the arguments give, queries, keys and values are lists of the sizes (sequences, positions, heads,
 * width) that they have inside; the tensors themselves follow after the positions with roles. */
#include "read/onnx/arguments.h"

/* The positions of the signature attend_fused. */
enum {
    Q,
    K,
    V,
    MASK,
    PAD_MASK,
    CAUSAL,
    BEFORE,
    AFTER,
    PAST,
    TURNED,
    CAPPED,
    INPUT,
    WEIGHT,
    BIAS,
    SINK,
    NORM,
    OTHERS
};

/* -- sizes ------------------------------------------------------------------------------------------------
 */

typedef struct heads {
    int64_t at[4]; /* sequences, positions, heads, width */
} heads;

/* (sequences, positions, heads * width), with `n` heads, or (sequences, heads, positions, width). */
static bool heads_of(const lmi_onnx_value *v, int64_t n, heads *to) {
    if (!is_known(v)) return false;
    const int64_t *d = v->sizes;
    if (v->ndim == 4)
        *to = (heads){{d[0], d[2], d[1], d[3]}};
    else if (v->ndim == 3 && n > 0 && d[2] % n == 0)
        *to = (heads){{d[0], d[1], n, d[2] / n}};
    else
        return false;
    return true;
}

/* (sequences, positions, heads, `parts`, width): several in one tensor. */
static bool heads_in(const lmi_onnx_value *v, int64_t parts, heads *to) {
    if (!is_known(v) || v->ndim != 5 || v->sizes[3] != parts) return false;
    *to = (heads){{v->sizes[0], v->sizes[1], v->sizes[2], v->sizes[4]}};
    return true;
}

/* The one whole number of an argument; -1: it is not known. */
static lam_status one(lmi_onnx_op *o, int32_t i, int64_t *to) {
    int64_t all[FEW];
    int32_t n;
    LAM_TRY(lmi_onnx_numbers(o, i, NULL, all, &n));
    *to = n == 1 && all[0] >= 0 ? all[0] : -1;
    return LAM_OK;
}

/* -- what is common to all --------------------------------------------------------------------------------
 */

typedef struct attention {
    bool known; /* the sizes are */
    heads q, k, v;
    int64_t past; /* positions of k and v that are from earlier; -1: unknown */
    int32_t mask, pad_mask, bias, norm, input, weight; /* arguments; -1: none */
    bool causal, by_values;                            /* values say more of which scores count */
    int64_t before, after;                             /* -1: no end */
    int64_t turned;                                    /* elements of a head that are rotated */
    bool capped, sink;
} attention;

static attention new_attention(void) {
    return (attention){.mask = -1,
                       .pad_mask = -1,
                       .bias = -1,
                       .norm = -1,
                       .input = -1,
                       .weight = -1,
                       .before = -1,
                       .after = -1};
}

static lam_status put_sizes(lmi_onnx_op *o, int32_t position, heads h, int64_t more) {
    return lmi_add_over(h.at[1], more, &h.at[1]) ? LAM_OK : lmi_onnx_put_ints(o, position, h.at, 4);
}

static lam_status put_attention(lmi_onnx_op *o, const attention *a) {
    if (a->known && a->past >= 0) {
        LAM_TRY(put_sizes(o, Q, a->q, 0));
        LAM_TRY(put_sizes(o, K, a->k, a->past));
        LAM_TRY(put_sizes(o, V, a->v, a->past));
        LAM_TRY(lmi_onnx_put_int(o, PAST, a->past));
    }
    LAM_TRY(a->by_values ? lmi_onnx_put_value(o, CAUSAL, (lam_value){.type = LAM_NONE})
                         : lmi_onnx_put_flag(o, CAUSAL, a->causal));
    LAM_TRY(a->before >= 0 ? lmi_onnx_put_int(o, BEFORE, a->before) : LAM_OK);
    LAM_TRY(a->after >= 0 ? lmi_onnx_put_int(o, AFTER, a->after) : LAM_OK);
    LAM_TRY(a->turned > 0 ? lmi_onnx_put_int(o, TURNED, a->turned) : LAM_OK);
    LAM_TRY(a->capped ? lmi_onnx_put_flag(o, CAPPED, true) : LAM_OK);
    return a->sink ? lmi_onnx_put_flag(o, SINK, true) : LAM_OK;
}

/* The tensors, each at its role or after all roles. Of caches that are longer than what is kept in them, and
 * of tables of sines, it is not told how much is read unless it is said here. */
static lam_status put_tensors(lmi_onnx_op *o, const attention *a, uint32_t caches, uint32_t tables,
                              int64_t rows) {
    for (int32_t i = 0; i < o->n->n_in; i++) {
        const lmi_onnx_value *v = in(o, i);
        const int32_t position = i == a->mask       ? MASK
                                 : i == a->pad_mask ? PAD_MASK
                                 : i == a->bias     ? BIAS
                                 : i == a->norm     ? NORM
                                 : i == a->input    ? INPUT
                                 : i == a->weight   ? WEIGHT
                                                    : OTHERS + i;
        const bool cache = i < 32 && caches >> i & 1, table = i < 32 && tables >> i & 1;
        if (!v) continue;
        const int32_t axis = v->ndim == 5 ? 3 : 2; /* the positions of a cache */
        if (table && is_known(v) && v->ndim >= 1 && rows >= 0) {
            const int64_t read[] = {rows, v->sizes[v->ndim - 1]};
            LAM_TRY(lmi_onnx_put_shaped(o, i, position, 2, read));
        } else if (cache && is_known(v) && (v->ndim <= axis || v->sizes[axis] != a->past)) {
            LAM_TRY(lmi_onnx_put_shaped(o, i, position, -1, v->sizes));
        } else {
            LAM_TRY(lmi_onnx_put_tensor(o, i, position));
        }
    }
    return LAM_OK;
}

/* -- ai.onnx ----------------------------------------------------------------------------------------------
 */

/* (batch, positions, heads * width) as (batch, heads, positions, width). */
static lam_status of_heads(lmi_onnx_op *o, int32_t i, const char *attribute) {
    const lmi_onnx_value *v = in(o, i);
    const int64_t n = lmi_onnx_int(o->n, attribute, 0);
    if (!is_known(v) || v->ndim != 3) return lmi_onnx_put_tensor(o, i, i);
    if (n < 1 || v->sizes[2] % n != 0) return lmi_onnx_put_shaped(o, i, i, -1, v->sizes);
    const int64_t sizes[] = {v->sizes[0], n, v->sizes[1], v->sizes[2] / n};
    return lmi_onnx_put_shaped(o, i, i, 4, sizes);
}

lam_status lmi_onnx_attention(lmi_onnx_op *o) {
    enum { PAST_KEY = 4, LENGTHS = 6 };
    const lmi_onnx_value *past = in(o, PAST_KEY);
    attention a = new_attention();
    a.before = lmi_onnx_int(o->n, "left_window_size", -1);
    a.after = lmi_onnx_int(o->n, "right_window_size", -1);
    a.causal = lmi_onnx_int(o->n, "is_causal", 0) != 0;
    a.capped = real(o, "softcap", 0) > 0;
    a.by_values = in(o, LENGTHS) != NULL;
    if (!past && !a.by_values && !a.capped && a.before < 0 && a.after < 0) {
        LAM_TRY(of_heads(o, 0, "q_num_heads"));
        LAM_TRY(of_heads(o, 1, "kv_num_heads"));
        LAM_TRY(of_heads(o, 2, "kv_num_heads"));
        LAM_TRY(lmi_onnx_put_tensor(o, 3, 3));
        return lmi_onnx_put_flag(o, 5, a.causal);
    }
    const int64_t n = lmi_onnx_int(o->n, "kv_num_heads", 0);
    a.known = heads_of(in(o, 0), lmi_onnx_int(o->n, "q_num_heads", 0), &a.q) && heads_of(in(o, 1), n, &a.k) &&
              heads_of(in(o, 2), n, &a.v);
    a.past = !past ? 0 : is_known(past) && past->ndim == 4 ? past->sizes[2] : -1;
    a.mask = 3;
    LAM_TRY(lmi_onnx_name_op(o, "cached"));
    LAM_TRY(put_attention(o, &a));
    return put_tensors(o, &a, 0, 0, -1);
}

/* -- com.microsoft ----------------------------------------------------------------------------------------
 */

/* How many positions there are with the new ones; *all is only the most of it where `lengths` are given, or
 * where the cache leaves out old positions. */
static lam_status past_of_groups(lmi_onnx_op *o, attention *a) {
    enum { PAST_KEY = 3, TOTAL = 6, LENGTHS = 16 };
    int64_t all;
    LAM_TRY(one(o, TOTAL, &all));
    if (!in(o, PAST_KEY) && all < 0 && a->known) all = a->k.at[1];
    a->past = all >= 0 && a->known && all >= a->k.at[1] ? all - a->k.at[1] : -1;
    if (in(o, LENGTHS) || lmi_onnx_int(o->n, "sliding_window_cache", 0)) a->past = -1;
    return LAM_OK;
}

/* Query, key and value, the latter two in the query's tensor if there is none of the key. */
static bool heads_of_groups(const lmi_onnx_op *o, attention *a) {
    const lmi_onnx_value *q = in(o, 0);
    const int64_t n = lmi_onnx_int(o->n, "num_heads", 0), few = lmi_onnx_int(o->n, "kv_num_heads", 0);
    if (n < 1 || few < 1 || n > INT32_MAX || few > INT32_MAX) return false;
    if (in(o, 1))
        return heads_of(q, n, &a->q) && heads_of(in(o, 1), few, &a->k) && heads_of(in(o, 2), few, &a->v);
    if (!heads_of(q, n + 2 * few, &a->q)) return false;
    a->k = a->v = a->q;
    a->q.at[2] = n;
    a->k.at[2] = a->v.at[2] = few;
    return true;
}

lam_status lmi_onnx_group_query(lmi_onnx_op *o) {
    enum { SEQLENS = 5, COS = 7, EXTRA = 10, HEAD_SINK = 11, Q_NORM = 14 };
    const lmi_onnx_value *cos = in(o, COS);
    attention a = new_attention();
    a.known = heads_of_groups(o, &a);
    LAM_TRY(past_of_groups(o, &a));
    a.causal = lmi_onnx_int(o->n, "causal", 1) != 0;
    a.by_values = a.known && a.q.at[0] > 1 && in(o, SEQLENS); /* each sequence has its own length */
    const int64_t window = lmi_onnx_int(o->n, "local_window_size", -1);
    a.before = window > 0 ? window - 1 : -1; /* a query's own key is one of them */
    if (lmi_onnx_int(o->n, "do_rotary", 0) && a.known)
        a.turned = is_known(cos) && cos->ndim == 2 ? lmi_times(2, cos->sizes[1]) : a.q.at[3];
    a.capped = real(o, "softcap", 0) > 0;
    a.sink = in(o, HEAD_SINK) || lmi_onnx_int(o->n, "smooth_softmax", 0) > 0;
    a.mask = EXTRA;
    a.norm = Q_NORM;
    LAM_TRY(put_attention(o, &a));
    const int64_t rows = a.known ? lmi_times(a.q.at[0], a.q.at[1]) : -1;
    return put_tensors(o, &a, 1 << 3 | 1 << 4, 1 << COS | 1 << (COS + 1), rows);
}

lam_status lmi_onnx_multi_head(lmi_onnx_op *o) {
    enum { ADDED = 3, PADDING = 4, EXTRA = 5, PAST_KEY = 6, PAST_LENGTH = 8 };
    const lmi_onnx_value *q = in(o, 0), *k = in(o, 1), *past = in(o, PAST_KEY);
    const int64_t n = lmi_onnx_int(o->n, "num_heads", 0);
    attention a = new_attention();
    if (!k) {
        a.known = heads_in(q, 3, &a.q);
        a.k = a.v = a.q;
    } else if (!in(o, 2)) {
        a.known = q && q->ndim == 3 && heads_of(q, n, &a.q) && heads_in(k, 2, &a.k);
        a.v = a.k;
    } else {
        a.known =
            q && q->ndim == 3 && heads_of(q, n, &a.q) && heads_of(k, n, &a.k) && heads_of(in(o, 2), n, &a.v);
    }
    a.past = !past ? 0 : is_known(past) && past->ndim == 4 ? past->sizes[2] : -1;
    if (in(o, PAST_LENGTH)) LAM_TRY(one(o, PAST_LENGTH, &a.past));
    if (past && in(o, 2) && in(o, 2)->ndim == 4) a.past = -1; /* two caches: their sum is unknown */
    a.causal = lmi_onnx_int(o->n, "unidirectional", 0) != 0;
    a.mask = EXTRA;
    a.pad_mask = PADDING;
    a.bias = ADDED;
    LAM_TRY(put_attention(o, &a));
    return put_tensors(o, &a, 1 << 6 | 1 << 7, 0, -1);
}

/* Multiplies its input by the weights of queries, keys and values first. */
lam_status lmi_onnx_packed_attention(lmi_onnx_op *o) {
    const bool integer = strcmp(o->n->op, "QAttention") == 0;
    const int32_t at_past = integer ? 8 : 4, at_length = integer ? INT32_MAX : 6;
    const lmi_onnx_value *x = in(o, 0), *w = in(o, 1), *past = in(o, at_past);
    const int64_t n = lmi_onnx_int(o->n, "num_heads", 0);
    const lmi_onnx_attribute *wide = lmi_onnx_attr(o->n, "qkv_hidden_sizes");
    attention a = new_attention();
    heads *const each[] = {&a.q, &a.k, &a.v};
    a.known = is_known(x) && x->ndim == 3 && is_known(w) && w->ndim == 2 && n > 0 && (!wide || wide->n == 3);
    for (int32_t i = 0; a.known && i < 3; i++) {
        const int64_t size = wide && wide->ints ? wide->ints[i] : w->sizes[1] / 3;
        *each[i] = (heads){{x->sizes[0], x->sizes[1], n, size / n}};
        a.known = size > 0;
    }
    a.past = !past ? 0 : is_known(past) && past->ndim == 5 ? past->sizes[3] : -1;
    if (lmi_onnx_int(o->n, "past_present_share_buffer", 0)) LAM_TRY(one(o, at_length, &a.past));
    a.causal = lmi_onnx_int(o->n, "unidirectional", 0) != 0;
    const int64_t part = lmi_onnx_int(o->n, "rotary_embedding_dim", 0);
    if (lmi_onnx_int(o->n, "do_rotary", 0) && a.known) a.turned = part > 0 ? part : a.q.at[3];
    a.mask = integer ? -1 : 5;
    a.pad_mask = integer ? 5 : 3;
    a.bias = 2;
    a.input = 0;
    a.weight = 1;
    LAM_TRY(put_attention(o, &a));
    return put_tensors(o, &a, 1u << at_past, 0, -1);
}

/* -- rotations --------------------------------------------------------------------------------------------
 */

/* Of ai.onnx: input, cosines, sines, positions; of com.microsoft the positions are the second. */
lam_status lmi_onnx_rotary(lmi_onnx_op *o) {
    const bool ours = *o->n->domain == '\0';
    const int32_t cos = ours ? 1 : 2;
    const lmi_onnx_value *x = in(o, 0), *table = in(o, cos);
    const int64_t n = lmi_onnx_int(o->n, "num_heads", 0),
                  part = lmi_onnx_int(o->n, "rotary_embedding_dim", 0);
    const int64_t half =
        is_known(table) && table->ndim >= 2 ? lmi_times(2, table->sizes[table->ndim - 1]) : -1;
    heads h;
    const int64_t by_table = is_known(x) && x->ndim == 3 && half > 0 ? x->sizes[2] / half : 0;
    if (!heads_of(x, n > 0 ? n : by_table, &h)) return first(o);
    LAM_TRY(lmi_onnx_put_shaped(o, 0, 0, 4, h.at));
    LAM_TRY(lmi_onnx_put_int(o, 1, part > 0 ? part : h.at[3]));
    const int64_t rows = table && table->ndim == 2 ? lmi_times(h.at[0], h.at[1]) : -1;
    for (int32_t i = 1; i < o->n->n_in; i++) {
        const int64_t read[] = {rows, half / 2};
        if ((i == cos || i == cos + 1) && rows >= 0 && half > 0)
            LAM_TRY(in(o, i) ? lmi_onnx_put_shaped(o, i, OTHERS + i, 2, read) : LAM_OK);
        else
            LAM_TRY(lmi_onnx_put_tensor(o, i, OTHERS + i));
    }
    return LAM_OK;
}

/* -- linear attention --------------------------------------------------------------------------------------
 */

/* Queries, keys and values have their heads in the last axis; the state of a head is a key by a value. */
lam_status lmi_onnx_linear_attention(lmi_onnx_op *o) {
    const lmi_onnx_attribute *a = lmi_onnx_attr(o->n, "update_rule");
    const char *rule = a && a->s ? a->s : "gated_delta";
    const bool delta = strcmp(rule, "delta") == 0 || strcmp(rule, "gated_delta") == 0;
    const bool known = delta || strcmp(rule, "linear") == 0 || strcmp(rule, "gated") == 0;
    const lmi_onnx_value *q = in(o, 0), *v = in(o, 2);
    const int64_t asking = lmi_onnx_int(o->n, "q_num_heads", 0), kept = lmi_onnx_int(o->n, "kv_num_heads", 0);
    int64_t products = -1;
    if (known && is_known(q) && is_known(v) && q->ndim == 3 && v->ndim == 3 && asking > 0 && kept > 0) {
        const int64_t state = lmi_times(q->sizes[2] / asking, v->sizes[2] / kept);
        const int64_t made = lmi_times(kept, lmi_times(1 + delta, state));
        products = lmi_plus(made, lmi_times(asking > kept ? asking : kept, state));
    }
    LAM_TRY(first(o));
    if (products >= 0) LAM_TRY(lmi_onnx_put_int(o, 1, products));
    for (int32_t i = 1; i < o->n->n_in; i++) LAM_TRY(lmi_onnx_put_tensor(o, i, 1 + i));
    return LAM_OK;
}
