/* SPDX-License-Identifier: Apache-2.0
 * facts_attention: multi-head attention and the transformer layers around it. A transformer layer's own work
 * is the work that no child does. torch's fused path calls no child, so the work of the children is computed
 * here from their attributes. */
#include "count/layers/layers.h"

/* -- children ------------------------------------------------------------------------------------------ */

/* The place of a child of the called module; -1: it has none of that name. */
static int32_t child(const lam_model *m, int32_t event, const char *name) {
    return lmi_child(m, lam_model_event(m, event)->place, name);
}

/* Binds attributes and owned tensors of a child, which may not have been called. False: there is none. */
static bool bind_child(const lam_model *m, int32_t event, const char *name, lmi_slots *to) {
    int32_t place = child(m, event, name);
    if (place >= 0) lmi_module_bind(m, lam_model_place(m, place)->module, to);
    return place >= 0;
}

/* -- attention ----------------------------------------------------------------------------------------- */

static void set_widths(const lmi_slots *layer, lmi_facts *f) {
    int64_t embed = lmi_value_int(layer->at[LMI_S_embed].value, -1);
    lmi_fact_set(f, LMI_FACT_embed, embed);
    lmi_fact_set(f, LMI_FACT_heads, lmi_value_int(layer->at[LMI_S_heads].value, -1));
    lmi_fact_set(f, LMI_FACT_kdim, lmi_value_int(layer->at[LMI_S_kdim].value, embed));
    lmi_fact_set(f, LMI_FACT_vdim, lmi_value_int(layer->at[LMI_S_vdim].value, embed));
    lmi_facts_drops(layer->at[LMI_S_dropout].value, f);
}

/* Sequences are (positions, batch, width), (batch, positions, width) with batch_first, or (positions, width).
 */
static void set_sequences(const lmi_slots *layer, lam_shape q, lam_shape k, lmi_facts *f) {
    if ((q.ndim != 2 && q.ndim != 3) || k.ndim != q.ndim) return;
    int32_t position = q.ndim == 3 && lmi_value_int(layer->at[LMI_S_batch_first].value, 0) != 0;
    int64_t keys = lmi_axis(k, position);
    int64_t added =
        lmi_filled(layer, LMI_S_bias_k) + (lmi_value_int(layer->at[LMI_S_zero_attn].value, 0) != 0);
    lmi_fact_set(f, LMI_FACT_seqs, q.ndim == 2 ? 1 : lmi_axis(q, 1 - position));
    lmi_fact_set(f, LMI_FACT_queries, lmi_axis(q, position));
    lmi_fact_set(f, LMI_FACT_keys, keys);
    lmi_fact_set(f, LMI_FACT_keys_all, lmi_plus(keys, added));
}

static void set_masks(const lmi_slots *s, lmi_facts *f) {
    lmi_fact_set(f, LMI_FACT_masks, lmi_filled(s, LMI_S_mask) + lmi_filled(s, LMI_S_pad_mask));
}

/* 1 if attention weights are returned as their mean: weights returned for each head have one axis more. */
static int64_t averages(const lam_event *ev, lam_shape q) {
    if (ev->n_out < 2) return 0;
    return ev->out[1].ndim < 0 || q.ndim < 0 ? -1 : ev->out[1].ndim == q.ndim;
}

static void multihead(const lam_model *m, int32_t event, const lmi_slots *s, lmi_facts *f) {
    lam_shape q = lmi_input(m, event, s);
    set_widths(s, f);
    lmi_fact_set(f, LMI_FACT_bias, lmi_filled(s, LMI_S_b));
    set_sequences(s, q, s->at[LMI_S_k].shape, f);
    set_masks(s, f);
    lmi_fact_set(f, LMI_FACT_averages, averages(lam_model_event(m, event), q));
}

/* -- transformer layers -------------------------------------------------------------------------------- */

/* The operations an element of an activation, a function or a module, found by its name; as in the rule of
 * the module. */
static int64_t cost_of(const lam_value *v) {
    static const struct {
        const char *function, *module;
        int64_t ops;
    } known[] = {{"relu", "ReLU", 1},           {"gelu", "GELU", 5},       {"silu", "SiLU", 5},
                 {"tanh", "Tanh", 1},           {"sigmoid", "Sigmoid", 4}, {"mish", "Mish", 5},
                 {"leaky_relu", "LeakyReLU", 2}};
    if (!v || v->type != LAM_TEXT) return -1;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(v->text, known[i].function) || !strcmp(v->text, known[i].module)) return known[i].ops;
    return -1;
}

static void set_feed_forward(const lam_model *m, int32_t event, const lmi_slots *s, lmi_facts *f) {
    lmi_slots linear;
    bool called = lmi_fact_get(f, LMI_FACT_opened) == 1 && child(m, event, "activation") >= 0;
    lmi_fact_set(f, LMI_FACT_acts, !called);
    lmi_fact_set(f, LMI_FACT_act_ops, called ? 0 : cost_of(s->at[LMI_S_nonlinearity].value));
    if (bind_child(m, event, "linear1", &linear)) {
        int64_t width = lmi_value_int(linear.at[LMI_S_out_features].value, -1);
        lmi_fact_set(f, LMI_FACT_ff, width >= 0 ? width : lmi_axis(linear.at[LMI_S_w].shape, 0));
    }
}

static void set_norms(const lam_model *m, int32_t event, lmi_facts *f) {
    static const char *const names[] = {"norm1", "norm2"};
    int64_t n = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        lmi_slots norm;
        if (!bind_child(m, event, names[i], &norm)) return;
        n += lmi_filled(&norm, LMI_S_w) + lmi_filled(&norm, LMI_S_b);
    }
    lmi_fact_set(f, LMI_FACT_norm_affine, n);
}

static void encoder_layer(const lam_model *m, int32_t event, const lmi_slots *s, lmi_facts *f) {
    lam_shape x = lmi_input(m, event, s);
    lmi_slots attention;
    lmi_fact_set(f, LMI_FACT_rows, lmi_axes(x, 0, -1)); /* the positions of all sequences */
    set_feed_forward(m, event, s, f);
    set_norms(m, event, f);
    set_masks(s, f);
    if (!bind_child(m, event, "self_attn", &attention)) return;
    set_widths(&attention, f);
    set_sequences(&attention, x, x, f);
}

static void decoder_layer(const lam_model *m, int32_t event, const lmi_slots *s, lmi_facts *f) {
    lam_shape x = s->at[LMI_S_tgt].present ? s->at[LMI_S_tgt].shape : lmi_input(m, event, s);
    lmi_fact_set(f, LMI_FACT_in, lmi_numel(x));
    lmi_fact_set(f, LMI_FACT_rows, lmi_axes(x, 0, -1)); /* the positions of all sequences */
    set_feed_forward(m, event, s, f);
}

void lmi_facts_attention(const lam_model *m, int32_t event, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    switch (k) {
    case LMI_K_timm_attention: {
        int64_t heads = lmi_value_int(s->at[LMI_S_heads].value, -1);
        lmi_fact_set(f, LMI_FACT_heads, heads);
        lmi_fact_set(f, LMI_FACT_embed, lmi_times(heads, lmi_value_int(s->at[LMI_S_embed].value, -1)));
        break;
    }
    case LMI_K_multihead_attention: multihead(m, event, s, f); break;
    case LMI_K_encoder_layer: encoder_layer(m, event, s, f); break;
    case LMI_K_decoder_layer: decoder_layer(m, event, s, f); break;
    default: break; /* stacks only call their layers */
    }
}
