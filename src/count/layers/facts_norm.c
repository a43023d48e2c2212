/* SPDX-License-Identifier: Apache-2.0
 * facts_norm: elements normalised together (rows of per_row elements), learned elements, kept statistics. */
#include "count/layers/layers.h"

static int64_t numel_or(const lmi_slots *s, lmi_slot_id id, int64_t absent) {
    return lmi_filled(s, id) ? lmi_numel(s->at[id].shape) : absent;
}

/* Elements of a learned tensor: owned, kept in another place by a parametrization or pruning, or 0. */
static int64_t learned(const lam_model *m, int32_t event, const lmi_slots *s, lmi_slot_id id,
                       const char *name, int64_t chan) {
    return numel_or(s, id, lmi_reparametrized(m, event, name) ? chan : 0);
}

/* Splits the input into `rows` groups of equal size. */
static void set_rows(lmi_facts *f, int64_t rows) {
    lmi_fact_set(f, LMI_FACT_rows, rows);
    lmi_fact_set(f, LMI_FACT_per_row, rows > 0 && f->known[LMI_FACT_in] ? f->v[LMI_FACT_in] / rows : -1);
}

static void set_rows_of(lmi_facts *f, int64_t per_row) {
    lmi_fact_set(f, LMI_FACT_per_row, per_row);
    lmi_fact_set(f, LMI_FACT_rows, per_row > 0 && f->known[LMI_FACT_in] ? f->v[LMI_FACT_in] / per_row : -1);
}

static void set_statistics(const lmi_slots *s, lmi_facts *f) {
    const lam_value *momentum = s->at[LMI_S_momentum].value;
    int64_t stats = numel_or(s, LMI_S_mean, 0);
    lmi_fact_set(f, LMI_FACT_stats, stats);
    lmi_fact_set(f, LMI_FACT_tracked, lmi_value_int(s->at[LMI_S_track].value, stats > 0) != 0);
    if (!momentum) return;
    bool zero = momentum->type == LAM_FLOAT ? momentum->f == 0.0 : lmi_value_int(momentum, 0) == 0;
    lmi_fact_set(f, LMI_FACT_momentum, !zero);
    lmi_fact_set(f, LMI_FACT_cumulative, momentum->type == LAM_NONE);
}

/* Channels: by the layer's attribute, else by its scale, else by its input. */
static int64_t channels(const lmi_slots *s, bool batched, const lmi_facts *f) {
    int64_t n = lmi_value_int(s->at[LMI_S_features].value, -1);
    if (n <= 0) n = numel_or(s, LMI_S_w, -1);
    return n > 0 ? n : lmi_fact_get(f, batched ? LMI_FACT_x1 : LMI_FACT_x0);
}

/* Elements of the normalised shape, which an attribute holds as a tuple of sizes. */
static int64_t normalized(const lmi_slots *s) {
    const lam_value *shape = s->at[LMI_S_shape].value;
    int64_t n;
    if (shape && shape->type == LAM_INTS) return lmi_product(shape->ints, shape->n, &n) ? n : -1;
    return lmi_value_int(shape, numel_or(s, LMI_S_w, -1));
}

static int64_t set_groups(lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    int64_t rank = lmi_fact_get(f, LMI_FACT_rank);
    bool is_batch_norm = k == LMI_K_batch_norm || k == LMI_K_sync_batch_norm;
    /* Batch normalisation has no unbatched form: (8, 4) is 8 samples of 4 channels, for any rank. */
    if (is_batch_norm) lmi_fact_set(f, LMI_FACT_batch, lmi_fact_get(f, LMI_FACT_x0));
    bool unbatched = k == LMI_K_instance_norm && lmi_fact_get(f, LMI_FACT_dims) == rank + 1;
    int64_t chan = channels(s, !unbatched, f), batch = lmi_fact_get(f, LMI_FACT_batch);
    int64_t groups = lmi_value_int(s->at[LMI_S_groups].value, -1);
    if (k == LMI_K_group_norm) lmi_fact_set(f, LMI_FACT_groups, groups);
    set_rows(f, is_batch_norm ? chan : lmi_times(batch, k == LMI_K_group_norm ? groups : chan));
    return chan;
}

void lmi_facts_norm(const lam_model *m, int32_t event, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    int64_t chan;
    if (k == LMI_K_local_response_norm) {
        lmi_fact_set(f, LMI_FACT_size, lmi_value_int(s->at[LMI_S_size].value, -1));
        return;
    }
    if (k == LMI_K_layer_norm || k == LMI_K_rms_norm)
        set_rows_of(f, chan = normalized(s));
    else
        chan = set_groups(k, s, f);
    int64_t scales = learned(m, event, s, LMI_S_w, "weight", chan);
    lmi_fact_set(f, LMI_FACT_chan, chan);
    lmi_fact_set(f, LMI_FACT_scales, scales);
    lmi_fact_set(f, LMI_FACT_shifts, learned(m, event, s, LMI_S_b, "bias", chan));
    lmi_fact_set(f, LMI_FACT_affine, lmi_value_int(s->at[LMI_S_affine].value, scales != 0) != 0);
    set_statistics(s, f);
}
