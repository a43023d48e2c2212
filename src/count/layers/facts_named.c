/* SPDX-License-Identifier: Apache-2.0
 * facts_named: facts for tables without types of layers: names of parameters and of classes, and the model's
 * own input. */
#include "count/layers/layers.h"

static bool is(const char *name, const char *one, const char *other) {
    return strcmp(name, one) == 0 || strcmp(name, other) == 0;
}

static bool has(const char *name, const char *part, const char *other) {
    return strstr(name, part) || strstr(name, other);
}

/* A tensor with two names counts under the first. Both sums are unknown if weights are pruned: the tool then
 * counts their values. */
static void params(const lam_model *m, const lam_module *mod, lmi_facts *f) {
    enum { MOST = 1024 }; /* comparing more with each other would take long */
    int64_t plain = 0, odd = 0;
    for (int32_t i = 0; i < mod->n_owned && plain >= 0 && odd >= 0; i++) {
        const char *name = mod->owned[i].name;
        int64_t n = lam_model_tensor(m, mod->owned[i].tensor)->numel;
        if (mod->owned[i].is_buffer || lmi_named_before(mod, i)) continue;
        int64_t *sum = is(name, "weight", "bias") ? &plain : has(name, "weight", "bias") ? &odd : NULL;
        if (lmi_ends_in(name, "_orig") || (sum && (n < 0 || lmi_add_over(*sum, n, sum)))) plain = odd = -1;
    }
    lmi_fact_set(f, LMI_FACT_plain_params, mod->n_owned > MOST ? -1 : plain);
    lmi_fact_set(f, LMI_FACT_odd_params, mod->n_owned > MOST ? -1 : odd);
}

static int64_t per_image(const lam_model *m) {
    const lam_event *root = lam_model_event(m, 0);
    for (int32_t i = 0; root && i < root->n_in; i++)
        if (root->in[i].position == 0) return lmi_axis((lam_shape){root->in[i].ndim, root->in[i].sizes}, 0);
    return 1;
}

void lmi_facts_named(const lam_model *m, int32_t event, lmi_facts *f) {
    const lam_module *mod = lam_model_module(m, lam_model_event(m, event)->module);
    lmi_fact_set(f, LMI_FACT_per_image, per_image(m));
    if (!(mod->flags & LAM_MODULE_LEAF)) return;
    lmi_fact_set(f, LMI_FACT_conv_class, mod->type && strstr(mod->type, "Conv"));
    params(m, mod, f);
}
