/* SPDX-License-Identifier: Apache-2.0
 * facts_op_attend: attention as operators. A flag or a window leaves a band of the scores: query i sees the
 * keys from i + low to i + high. A mask leaves the scores that lam_values_mask counted. */
#include "count/ops/facts_op.h"

/* -- bands ----------------------------------------------------------------------------------------------- */

typedef struct band {
    int64_t low, high;
    bool known;
} band;

/* Products of larger numbers would not fit into 64 bits. */
enum { MOST = INT32_MAX };

/* Pairs of a query i and a key j with j < i + more: each query has one key more than the previous one, until
 * it has all. */
static int64_t below(int64_t queries, int64_t keys, int64_t more) {
    int64_t first = more < 0 ? -more : 0, full = keys - more; /* the first with any key; with all of them */
    if (first > queries) first = queries;
    if (full < first) full = first;
    if (full > queries) full = queries;
    int64_t n = full - first, sum = n * (first + more) + n * (n - 1) / 2;
    return sum + (queries - full) * keys;
}

/* Queries that see at least one key. */
static int64_t seeing(int64_t queries, int64_t keys, band b) {
    int64_t first = b.high < 0 ? -b.high : 0, last = keys - 1 - b.low;
    if (last > queries - 1) last = queries - 1;
    return keys > 0 && last >= first ? last - first + 1 : 0;
}

/* Queries, keys and band of one head; the number of sequences times heads. */
typedef struct frame {
    int64_t seqs, queries, keys;
    band band;
} frame;

static bool is_whole(const frame *a) {
    return a->band.known && a->band.low <= -a->queries && a->band.high >= a->keys;
}

static void set_band(const frame *a, lmi_facts *f) {
    const int64_t queries = a->queries, keys = a->keys;
    int64_t scores = -1, scored = -1;
    if (a->band.known && queries < MOST && keys < MOST) {
        scores = below(queries, keys, a->band.high + 1) - below(queries, keys, a->band.low);
        scored = seeing(queries, keys, a->band);
    }
    lmi_fact_set(f, LMI_FACT_scores, lmi_times(a->seqs, is_whole(a) ? lmi_times(queries, keys) : scores));
    lmi_fact_set(f, LMI_FACT_scored, lmi_times(a->seqs, is_whole(a) ? (keys ? queries : 0) : scored));
}

/* -- bands by an operator's arguments -------------------------------------------------------------------- */

/* Reads a number that may be None; false if the value is another one, such as a tensor of another
 * overload. */
static bool number(const lmi_slots *s, lmi_slot_id id, int64_t none, int64_t *out) {
    const lam_value *v = s->at[id].value;
    *out = v && v->type == LAM_INT ? v->i : none;
    return !s->at[id].present || (v && (v->type == LAM_INT || v->type == LAM_NONE));
}

/* With the causal flag query i sees keys 0 to i, for any number of keys. A missing flag is off, the
 * default. */
static band by_flag(const lmi_slots *s, int64_t queries, int64_t keys) {
    bool causal = false, known = lmi_op_bool(s, LMI_S_causal, &causal) || !s->at[LMI_S_causal].present;
    return (band){-queries, causal ? 0 : keys, known};
}

/* Bands of flash attention end at the last key if its schema has windows; a window of -1 has no end. Older
 * schemas differ if there are more keys than queries. */
static band by_window(const lmi_slots *s, int64_t queries, int64_t keys) {
    int64_t left = -1, right = -1, shift = keys - queries;
    bool known = number(s, LMI_S_before, -1, &left) && number(s, LMI_S_after, -1, &right), causal = false;
    if (!lmi_op_bool(s, LMI_S_causal, &causal)) known = false;
    if (causal && !s->at[LMI_S_before].present && shift != 0) known = false;
    if (causal) right = 0;
    if (left > MOST) left = MOST;
    if (right > MOST) right = MOST;
    return (band){left < 0 ? -queries : shift - left, right < 0 ? keys : shift + right, known};
}

/* The mask types of efficient attention: 1 begins at the first key, 2 ends at the last one. */
static band by_type(const lmi_slots *s, int64_t queries, int64_t keys) {
    int64_t type, window;
    bool known = number(s, LMI_S_mask_type, -1, &type) && number(s, LMI_S_before, 0, &window);
    known = known && type >= 0 && type <= 2 && window <= 0;
    return (band){-queries, type == 1 ? 0 : type == 2 ? keys - queries : keys, known};
}

/* -- facts ----------------------------------------------------------------------------------------------- */

/* True for sequences of different lengths that are stored one after the other, or in pages. */
static bool is_packed(const lmi_slots *s) {
    return lmi_op_tensor(s, LMI_S_starts) || lmi_op_tensor(s, LMI_S_used) || lmi_op_tensor(s, LMI_S_pages);
}

/* The size of an axis of the scores, counted from the last one, 0: keys, queries, heads and sequences. */
static int64_t scores_axis(const frame *a, lam_shape q, bool rows, int32_t i) {
    if (i < 2) return i == 0 ? a->keys : a->queries;
    return lmi_axis(q, rows ? (i == 2 ? 2 : 0) : -1 - i);
}

/* Sets the counts of a mask. An axis of one element is broadcast over the scores. The counts are unknown if
 * the values were not read, or if a band excludes scores too. */
static void set_mask(const frame *a, const lmi_slots *s, lam_shape q, bool rows, lmi_facts *f) {
    const lam_op_arg *mask = s->at[LMI_S_mask].tensor;
    if (!is_whole(a) || !mask || !mask->masks || mask->ndim < 0 || mask->ndim > q.ndim) return;
    int64_t scores = mask->open, scored = mask->open_rows;
    for (int32_t i = 0; i < q.ndim; i++) {
        int64_t size = i < mask->ndim ? mask->sizes[mask->ndim - 1 - i] : 1;
        int64_t all = scores_axis(a, q, rows, i);
        if (size == all) continue;
        if (size != 1) return;
        scores = lmi_times(scores, all);
        if (i > 0) scored = lmi_times(scored, all);
    }
    lmi_fact_set(f, LMI_FACT_scores, scores);
    lmi_fact_set(f, LMI_FACT_scored, scores ? scored : 0);
}

static void heads(lmi_kind kind, const lmi_slots *s, lmi_facts *f) {
    lam_shape q = s->at[LMI_S_q].shape, k = s->at[LMI_S_k].shape, v = s->at[LMI_S_v].shape;
    bool rows =
        kind != LMI_K_attend && kind != LMI_K_attend_backward; /* (sequences, positions, heads, width) */
    bool windows = kind == LMI_K_attend_flash || kind == LMI_K_attend_flash_backward;
    if (is_packed(s) || (rows && q.ndim != 4)) return;
    frame a = {rows         ? lmi_times(lmi_axis(q, 0), lmi_axis(q, 2))
               : q.ndim < 2 ? 1
                            : lmi_axes(q, 0, -2),
               lmi_axis(q, rows ? 1 : -2),
               lmi_axis(k, rows ? 1 : -2),
               {0}};
    lmi_fact_set(f, LMI_FACT_seqs, a.seqs);
    lmi_fact_set(f, LMI_FACT_queries, a.queries);
    lmi_fact_set(f, LMI_FACT_keys, a.keys);
    lmi_fact_set(f, LMI_FACT_embed, lmi_axis(q, -1));
    lmi_fact_set(f, LMI_FACT_vdim, lmi_axis(v, -1));
    /* A slope for each head takes one more product and sum a score in some kernels: unknown. */
    lmi_fact_set(f, LMI_FACT_masks, lmi_op_tensor(s, LMI_S_bends) ? -1 : lmi_op_tensor(s, LMI_S_mask));
    if (a.queries < 0 || a.keys < 0) return;
    a.band = windows ? by_window(s, a.queries, a.keys)
             : rows  ? by_type(s, a.queries, a.keys)
                     : by_flag(s, a.queries, a.keys);
    if (lmi_op_tensor(s, LMI_S_mask))
        set_mask(&a, s, q, rows, f);
    else
        set_band(&a, f);
}

/* -- what is fused ----------------------------------------------------------------------------------------
 */

/* The shape of a role's tensor, or the list of sizes of one that is only inside the operator. */
static lam_shape shape_of(const lmi_slots *s, lmi_slot_id id) {
    const lam_value *v = s->at[id].value;
    return v && v->type == LAM_INTS ? (lam_shape){v->n, v->ints} : s->at[id].shape;
}

/* Elements of queries, keys or values at `positions`, of a shape (sequences, positions, heads, width). */
static int64_t at_positions(lam_shape x, int64_t positions) {
    return lmi_times(lmi_times(lmi_axis(x, 0), positions), lmi_axes(x, 2, 4));
}

/* Biases of what is not projected here, norms of queries and keys, and sinks. */
static int64_t added(const frame *a, const lmi_slots *s, int64_t queries, int64_t keys, int64_t values,
                     int64_t width) {
    int64_t n = 0, both = lmi_plus(queries, keys);
    if (lmi_op_tensor(s, LMI_S_b) && !lmi_op_tensor(s, LMI_S_w)) n = lmi_plus(both, values);
    if (lmi_op_tensor(s, LMI_S_w2))
        n = lmi_plus(n, width > 0 ? lmi_plus(lmi_times(4, both), lmi_times(2, both / width)) : -1);
    if (s->at[LMI_S_sink].present) n = lmi_plus(n, lmi_times(2, lmi_times(a->seqs, a->queries)));
    return n;
}

/* The first query follows the earlier positions; -1 of a window has no end. */
static band behind(const lmi_slots *s, int64_t past, int64_t queries, int64_t keys) {
    int64_t left = -1, right = -1;
    bool causal = false, known = number(s, LMI_S_before, -1, &left) && number(s, LMI_S_after, -1, &right);
    if (!lmi_op_bool(s, LMI_S_causal, &causal) || past > MOST) known = false;
    if (causal) right = 0;
    if (left > MOST) left = MOST;
    if (right > MOST) right = MOST;
    return (band){left < 0 ? -queries : past - left, right < 0 ? keys : past + right, known};
}

static void attention(const lmi_slots *s, lmi_facts *f) {
    const lam_shape q = shape_of(s, LMI_S_q), k = shape_of(s, LMI_S_k), v = shape_of(s, LMI_S_v);
    int64_t past = 0, turned = 0;
    if (q.ndim != 4 || k.ndim != 4 || v.ndim != 4) return;
    frame a = {lmi_times(lmi_axis(q, 0), lmi_axis(q, 2)), lmi_axis(q, 1), lmi_axis(k, 1), {0}};
    const int64_t width = lmi_axis(q, 3),
                  masks = lmi_op_tensor(s, LMI_S_mask) + lmi_op_tensor(s, LMI_S_pad_mask);
    if (a.queries < 0 || a.keys < 0 || !number(s, LMI_S_past, 0, &past) || past < 0 || past > a.keys) return;
    const int64_t mine = at_positions(q, a.queries), keys = at_positions(k, a.keys - past);
    lmi_fact_set(f, LMI_FACT_seqs, a.seqs);
    lmi_fact_set(f, LMI_FACT_queries, a.queries);
    lmi_fact_set(f, LMI_FACT_keys, a.keys);
    lmi_fact_set(f, LMI_FACT_embed, width);
    lmi_fact_set(f, LMI_FACT_vdim, lmi_axis(v, 3));
    lmi_fact_set(f, LMI_FACT_masks, masks + (s->at[LMI_S_capped].present ? 3 : 0));
    lmi_fact_set(f, LMI_FACT_projected,
                 lmi_op_tensor(s, LMI_S_w)
                     ? lmi_times(lmi_op_numel(s, LMI_S_x), lmi_axis(s->at[LMI_S_w].shape, -1))
                     : 0);
    const bool turns = number(s, LMI_S_turned, 0, &turned) && turned >= 0 && (turned == 0 || width > 0);
    const int64_t pairs = lmi_plus(mine, keys);
    lmi_fact_set(f, LMI_FACT_turned,
                 !turns        ? -1
                 : turned == 0 ? 0
                               : lmi_times(pairs < 0 ? -1 : pairs / width, turned));
    lmi_fact_set(f, LMI_FACT_added, added(&a, s, mine, keys, at_positions(v, a.keys - past), width));
    a.band = behind(s, past, a.queries, a.keys);
    if (!masks) set_band(&a, f);
}

static void rotation(const lmi_slots *s, lmi_facts *f) {
    const int64_t n = lmi_op_numel(s, LMI_S_x), width = lmi_axis(s->at[LMI_S_x].shape, -1);
    int64_t turned = -1;
    const bool known = number(s, LMI_S_turned, -1, &turned) && turned >= 0 && n >= 0 && width > 0;
    lmi_fact_set(f, LMI_FACT_turned, known ? lmi_times(n / width, turned) : -1);
}

static void experts(const lmi_slots *s, lmi_facts *f) {
    const int64_t n = lmi_op_numel(s, LMI_S_x), width = lmi_axis(s->at[LMI_S_x].shape, -1);
    const lam_value *parts = s->at[LMI_S_parts].value;
    int64_t chosen = -1, all = 0;
    for (int32_t i = 0; parts && parts->type == LAM_INTS && i < parts->n; i++)
        all = lmi_plus(all, parts->ints[i]);
    lmi_fact_set(f, LMI_FACT_rows, n >= 0 && width > 0 ? n / width : -1);
    lmi_fact_set(f, LMI_FACT_chosen, number(s, LMI_S_chosen, -1, &chosen) ? chosen : -1);
    lmi_fact_set(f, LMI_FACT_of_expert, parts && parts->type == LAM_INTS ? all : -1);
}

static void linear(const lmi_slots *s, lmi_facts *f) {
    const int64_t n = lmi_op_numel(s, LMI_S_x), width = lmi_axis(s->at[LMI_S_x].shape, -1);
    int64_t products = -1;
    lmi_fact_set(f, LMI_FACT_rows, n >= 0 && width > 0 ? n / width : -1);
    lmi_fact_set(f, LMI_FACT_of_state, number(s, LMI_S_of_state, -1, &products) ? products : -1);
}

void lmi_op_fused(const lam_model *m, const lam_op *op, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    (void)m, (void)op;
    if (k == LMI_K_rotate)
        rotation(s, f);
    else if (k == LMI_K_experts)
        experts(s, f);
    else if (k == LMI_K_attend_linear)
        linear(s, f);
    else
        attention(s, f);
}

/* -- whole layers -----------------------------------------------------------------------------------------
 */

static void encoder(const lmi_slots *s, lmi_facts *f) {
    lam_shape x = s->at[LMI_S_x].shape;
    int64_t seqs = lmi_axis(x, 0), queries = x.ndim == 3 ? lmi_axis(x, 1) : -1;
    bool masks = lmi_op_tensor(s, LMI_S_mask);
    lmi_fact_set(f, LMI_FACT_seqs, seqs);
    lmi_fact_set(f, LMI_FACT_queries, queries);
    lmi_fact_set(f, LMI_FACT_masks, masks);
    lmi_fact_set(f, LMI_FACT_scores, masks ? -1 : lmi_times(seqs, lmi_times(queries, queries)));
    lmi_fact_set(f, LMI_FACT_embed, lmi_axis(x, -1));
    lmi_fact_set(f, LMI_FACT_ff, lmi_axis(s->at[LMI_S_w2].shape, 0));
}

void lmi_op_attention(const lam_model *m, const lam_op *op, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    (void)m, (void)op;
    if (k == LMI_K_fused_encoder)
        encoder(s, f);
    else
        heads(k == LMI_K_fused_mha ? LMI_K_attend : k, s, f);
}
