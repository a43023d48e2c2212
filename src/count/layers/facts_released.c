/* SPDX-License-Identifier: Apache-2.0
 * facts_released: facts that only the released forms of other tools' rules use. */
#include "count/layers/layers.h"

/* The index of an interpolation's name, or -1. */
static int64_t interpolation(const lam_value *mode) {
    static const char *const names[] = {"nearest", "linear",        "bilinear", "trilinear",
                                        "bicubic", "nearest-exact", "area"};
    for (int32_t i = 0; mode && mode->type == LAM_TEXT && i < (int32_t)(sizeof names / sizeof *names); i++)
        if (!strcmp(mode->text, names[i])) return i;
    return -1;
}

static int64_t attribute(const lam_model *m, int32_t place, const char *name) {
    return place < 0 ? -1 : lmi_value_int(lam_model_attr(m, lam_model_place(m, place)->module, name), -1);
}

static int64_t n_children(const lam_model *m, int32_t place) {
    return place < 0 ? -1 : lam_model_place(m, place)->n_children;
}

static bool drops(const lam_model *m, int32_t dropout) {
    const lam_value *p = dropout < 0 ? NULL : lam_model_attr(m, lam_model_place(m, dropout)->module, "p");
    return p && (p->type == LAM_FLOAT ? p->f > 0 : lmi_value_int(p, 0) > 0);
}

static bool owns_bias(const lam_model *m, int32_t place) {
    const lam_module *mod = lam_model_module(m, lam_model_place(m, place)->module);
    for (int32_t i = 0; i < mod->n_owned; i++)
        if (!strcmp(mod->owned[i].name, "bias")) return true;
    return false;
}

/* torchscan uses the first encoder layer for all. It counts an activation that is a module by its class; here
 * that is unknown. */
static void first_layer(const lam_model *m, int32_t layer, lmi_facts *f) {
    int32_t wide = lmi_child(m, layer, "linear1");
    if (wide < 0 || lmi_child(m, layer, "activation") >= 0) return;
    lmi_fact_set(f, LMI_FACT_ff, attribute(m, wide, "out_features"));
    lmi_fact_set(f, LMI_FACT_bias, owns_bias(m, wide));
    lmi_fact_set(f, LMI_FACT_drops, drops(m, lmi_child(m, layer, "dropout1")));
}

static void transformer(const lam_model *m, int32_t event, const lmi_slots *s, lmi_facts *f) {
    int32_t at = lam_model_event(m, event)->place;
    int32_t encoder = lmi_child(m, at, "encoder"), decoder = lmi_child(m, at, "decoder");
    int32_t layers = lmi_child(m, encoder, "layers");
    int32_t norms = (lmi_child(m, encoder, "norm") >= 0) + (lmi_child(m, decoder, "norm") >= 0);
    lmi_fact_set(f, LMI_FACT_enc_layers, n_children(m, layers));
    lmi_fact_set(f, LMI_FACT_dec_layers, n_children(m, lmi_child(m, decoder, "layers")));
    lmi_fact_set(f, LMI_FACT_final_norms, norms);
    lmi_fact_set(f, LMI_FACT_tgt_len, lmi_axis(s->at[LMI_S_tgt].shape, 0));
    lmi_fact_set(f, LMI_FACT_embed, lmi_value_int(s->at[LMI_S_embed].value, -1));
    lmi_fact_set(f, LMI_FACT_heads, lmi_value_int(s->at[LMI_S_heads].value, -1));
    first_layer(m, lmi_child(m, layers, "0"), f);
}

void lmi_facts_released(const lam_model *m, int32_t event, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    if (k == LMI_K_upsample) lmi_fact_set(f, LMI_FACT_interp, interpolation(s->at[LMI_S_mode].value));
    if (k == LMI_K_transformer) transformer(m, event, s, f);
}
