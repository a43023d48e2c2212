/* SPDX-License-Identifier: Apache-2.0
 *
 * What config.json beside a model says of its weights. A model of several parts has a separate object for its
 * language model. Numbers that are impossible are left out: names and shapes of tensors may have them. */
#include "read/tensors/tensors.h"

static lam_status copy(lmi_tensors *t, const char *text, const char **out, lam_error *e) {
    *out = lmi_strdup(&t->arena, text);
    return *out ? LAM_OK : lmi_nomem(e);
}

/* The first of some names of the object at a position that is there. */
static uint32_t either(const lmi_json *j, uint32_t at, const char *a, const char *b) {
    uint32_t found = lmi_json_get(j, at, a);
    return found ? found : lmi_json_get(j, at, b);
}

/* The value of the whole, or of its language model. */
static uint32_t of_model(const lmi_json *j, const char *name) {
    static const char *const parts[] = {"text_config", "llm_config", "language_config"};
    uint32_t found = lmi_json_get(j, LMI_JSON_ROOT, name);
    for (size_t i = 0; !found && i < sizeof parts / sizeof *parts; i++)
        found = lmi_json_get(j, lmi_json_get(j, LMI_JSON_ROOT, parts[i]), name);
    return found;
}

static void take_bits(lmi_quantised_by *of, const lmi_json *j, uint32_t at) {
    int64_t bits = 0, group = 0;
    uint32_t stated = either(j, at, "bits", "w_bit");
    if (!stated) stated = lmi_json_get(j, at, "num_bits");
    if (lmi_json_as_int(j, stated, &bits) && bits > 0 && bits <= 64) of->bits = bits;
    if (lmi_json_as_int(j, either(j, at, "group_size", "q_group_size"), &group) && group > 0)
        of->group = group;
}

/* compressed-tensors has groups of layers; bits that are not those of all groups are unknown here. */
static void take_groups(lmi_quantised_by *of, const lmi_json *j, uint32_t groups) {
    bool first = true, alike = true;
    lmi_quantised_by all = {0};
    LMI_JSON_NAMES(j, groups, name) {
        lmi_quantised_by one = {0};
        take_bits(&one, j, lmi_json_get(j, name + 1, "weights"));
        alike = alike && (first || (one.bits == all.bits && one.group == all.group));
        all = one;
        first = false;
    }
    if (first || !alike) return;
    of->bits = all.bits;
    of->group = all.group;
}

/* MLX tells the layers that differ from the rest, by their paths. */
static lam_status take_layers(lmi_tensors *t, const lmi_json *j, uint32_t at, lam_error *e) {
    const char *mode = lmi_json_as_text(j, lmi_json_get(j, at, "mode"));
    LAM_TRY(copy(t, mode ? mode : "", &t->of.mode, e));
    LMI_JSON_NAMES(j, at, name) {
        const char *path;
        lmi_quantised_by layer = {.method = "mlx", .dtype = -1};
        if (lmi_json_is(j, name + 1) != LMI_JSON_OBJECT) continue;
        mode = lmi_json_as_text(j, lmi_json_get(j, name + 1, "mode"));
        take_bits(&layer, j, name + 1);
        LAM_TRY(copy(t, mode ? mode : t->of.mode, &layer.mode, e));
        LAM_TRY(copy(t, lmi_json_as_text(j, name), &path, e));
        LAM_TRY(lmi_map_put(&t->by_layer, path, (int64_t)t->layers.n, e));
        LAM_TRY(lmi_vec_put(&t->layers, &layer, e));
    }
    return LAM_OK;
}

lam_status lmi_tensors_config(lmi_tensors *t, const lmi_json *j, lam_error *e) {
    const uint32_t classes = lmi_json_get(j, LMI_JSON_ROOT, "architectures");
    const uint32_t packed = of_model(j, "quantization_config");
    const uint32_t mlx = lmi_json_get(j, LMI_JSON_ROOT, "quantization");
    const char *type = NULL, *method = lmi_json_as_text(j, either(j, packed, "quant_method", "quant_algo"));
    uint32_t values = of_model(j, "dtype");
    if (!values) values = of_model(j, "torch_dtype");
    const char *dtype = lmi_json_as_text(j, values);
    LMI_JSON_EACH(j, classes, i) if (!type) type = lmi_json_as_text(j, i);
    if (!type) type = lmi_json_as_text(j, lmi_json_get(j, LMI_JSON_ROOT, "_class_name")); /* of diffusers */
    if (type && *type) LAM_TRY(copy(t, type, &t->of.type, e));
    if (dtype) t->of.dtype = lam_dtype_by_name(dtype);
    if (mlx && !method) method = "mlx"; /* it also writes the same as a quantization_config */
    if (method) LAM_TRY(copy(t, method, &t->of.method, e));
    const char *mode = lmi_json_as_text(j, either(j, packed, "checkpoint_format", "version"));
    if (mode) LAM_TRY(copy(t, mode, &t->of.mode, e));
    take_bits(&t->of, j, packed ? packed : mlx);
    take_groups(&t->of, j, lmi_json_get(j, packed, "config_groups"));
    return mlx ? take_layers(t, j, mlx, e) : LAM_OK;
}
