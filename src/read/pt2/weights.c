/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters and buffers. The program's signature lists those that come into the graph, tied ones under one
 * name; beside it is the list of all: JSON that names a file for each, or a checkpoint in the archive. */
#include "read/pt2/pt2.h"
#include "read/torch/checkpoint.h"

#include <stdlib.h>

enum { DEEPEST_CONFIG = 32, LEAST_CONFIG = 16 << 20 };

/* -- the list -------------------------------------------------------------------------------------------- */

int32_t lmi_pt2_first(const lmi_pt2 *p, int32_t weight) {
    while (weight >= 0 && lmi_pt2_weight_at(p, weight)->same >= 0)
        weight = lmi_pt2_weight_at(p, weight)->same;
    return weight;
}

/* The weight of this name, which is added if it is new. */
static lam_status weight_of(lmi_pt2 *p, const char *name, lmi_pt2_weight **out) {
    const int64_t known = lmi_map_get(&p->by_weight, name);
    if (known >= 0) {
        *out = lmi_pt2_weight_at(p, (int32_t)known);
        return LAM_OK;
    }
    lmi_pt2_weight w = {
        .name = lmi_strdup(&p->arena, name), .dtype = -1, .ndim = -1, .same = -1, .tensor = -1};
    if (!w.name) return lmi_nomem(p->e);
    LAM_TRY(lmi_map_put(&p->by_weight, w.name, (int64_t)p->weights.n, p->e));
    LAM_TRY(lmi_vec_put(&p->weights, &w, p->e));
    *out = lmi_pt2_weight_at(p, (int32_t)p->weights.n - 1);
    return LAM_OK;
}

/* -- the signature --------------------------------------------------------------------------------------- */

static lam_status add_spec(lmi_pt2 *p, uint32_t spec, const char *name, bool buffer) {
    const lmi_json *j = &p->j;
    const char *told = lmi_json_as_text(j, lmi_json_get(j, spec, name));
    const char *input = lmi_json_as_text(j, lmi_json_find(j, spec, "arg.name"));
    lmi_pt2_weight *w;
    lmi_pt2_value v;
    if (!told || !input) return lmi_pt2_bad(p, spec, "a parameter or buffer without its name");
    LAM_TRY(weight_of(p, told, &w));
    LAM_TRY(lmi_map_put(&p->placeholders, input, lmi_map_get(&p->by_weight, told), p->e));
    const int64_t at = lmi_map_get(&p->inputs, input);
    if (at < 0) return LAM_OK;
    LAM_TRY(lmi_pt2_tensor(p, (uint32_t)at, &v));
    w->dtype = v.dtype;
    w->ndim = v.ndim;
    w->sizes = v.sizes;
    w->buffer = buffer;
    /* Before schema 7 the types of inputs were told without their gradients. */
    const uint32_t grad = lmi_json_get(j, (uint32_t)at, "requires_grad");
    w->requires_grad = !buffer && (p->schema < 7 || lmi_json_is(j, grad) == LMI_JSON_TRUE);
    return LAM_OK;
}

static lam_status read_signature(lmi_pt2 *p) {
    const lmi_json *j = &p->j;
    const uint32_t values = lmi_json_get(j, p->graph, "tensor_values");
    if (lmi_json_is(j, values) != LMI_JSON_OBJECT)
        return lmi_pt2_bad(p, p->graph, "a graph without its tensors");
    LAM_TRY(lmi_pt2_index(p, values, &p->inputs));
    LMI_JSON_EACH(j, lmi_json_get(j, p->signature, "input_specs"), i) {
        const char *kind;
        const uint32_t spec = lmi_pt2_union(p, i, &kind);
        if (spec && strcmp(kind, "parameter") == 0) LAM_TRY(add_spec(p, spec, "parameter_name", false));
        if (spec && strcmp(kind, "buffer") == 0) LAM_TRY(add_spec(p, spec, "buffer_name", true));
    }
    return LAM_OK;
}

/* -- JSON beside the weights (PyTorch 2.9 and later) ----------------------------------------------------- */

/* Names of one file are one tensor. */
static lam_status note_store(lmi_pt2 *p, lmi_pt2_weight *w, const char *folder, const char *file) {
    lmi_buf key;
    lmi_buf_init(&key);
    lmi_putf(&key, "%s/%s", folder, file);
    const char *kept = lmi_buf_keep(&key, &p->arena);
    if (!kept) return lmi_nomem(p->e);
    const int64_t first = lmi_map_get(&p->by_store, kept);
    if (first < 0) return lmi_map_put(&p->by_store, kept, lmi_map_get(&p->by_weight, w->name), p->e);
    if (lmi_pt2_weight_at(p, lmi_pt2_first(p, (int32_t)first)) != w) w->same = (int32_t)first;
    return LAM_OK;
}

/* An entry of the list of constants is a buffer if the signature says so, else a tensor that the code has. */
static lam_status add_stored(lmi_pt2 *p, const char *folder, const char *name, uint32_t at, bool constants) {
    const lmi_json *j = &p->j;
    const char *file = lmi_json_as_text(j, lmi_json_get(j, at, "path_name"));
    const uint32_t meta = lmi_json_get(j, at, "tensor_meta");
    lmi_pt2_weight *w;
    lmi_pt2_value v;
    if (constants && lmi_map_get(&p->by_weight, name) < 0) return LAM_OK;
    LAM_TRY(weight_of(p, name, &w));
    if (!constants) w->buffer = lmi_json_is(j, lmi_json_get(j, at, "is_param")) != LMI_JSON_TRUE;
    if (lmi_json_is(j, meta) == LMI_JSON_OBJECT) {
        LAM_TRY(lmi_pt2_tensor(p, meta, &v));
        w->dtype = v.dtype;
        w->ndim = v.ndim;
        w->sizes = v.sizes;
        w->requires_grad =
            !w->buffer && lmi_json_is(j, lmi_json_get(j, meta, "requires_grad")) == LMI_JSON_TRUE;
    }
    return file ? note_store(p, w, folder, file) : LAM_OK;
}

static lam_status add_config(lmi_pt2 *p, const char *folder, bool constants) {
    const lmi_json *j = &p->j;
    const uint32_t config = lmi_json_get(j, LMI_JSON_ROOT, "config");
    LMI_JSON_NAMES(j, config, i) LAM_TRY(add_stored(p, folder, lmi_json_as_text(j, i), i + 1, constants));
    return LAM_OK;
}

/* Reads an entry as JSON in place of the program, so that errors name the place in it. */
static lam_status read_config(lmi_pt2 *p, const lmi_zip_entry *entry, const char *folder, bool constants) {
    const lmi_json_limits limits = {DEEPEST_CONFIG, UINT32_MAX, true};
    const lmi_json program = p->j;
    const char *name = p->program_name;
    char *text = NULL;
    size_t n;
    LAM_TRY(lmi_zip_all(&p->zip, entry, LEAST_CONFIG + 2 * p->of->size, &text, &n, p->e));
    p->j = (lmi_json){0};
    p->program_name = entry->name;
    lam_status s = lmi_pt2_json(p, &p->j, text, n, &limits);
    if (s == LAM_OK) s = add_config(p, folder, constants);
    lmi_json_free(&p->j);
    free(text);
    p->j = program;
    p->program_name = name;
    return s;
}

/* -- a checkpoint in the archive (until PyTorch 2.8) ----------------------------------------------------- */

static lam_status add_saved(lmi_pt2 *p, const lmi_tensors *t, int32_t i) {
    const lmi_stored_tensor *x = lmi_tensors_at(t, i);
    lmi_pt2_weight *w;
    LAM_TRY(weight_of(p, x->name, &w));
    w->dtype = x->dtype;
    w->ndim = x->ndim;
    w->sizes = lmi_copy(&p->arena, x->sizes, x->ndim > 0 ? (uint64_t)x->ndim : 0, sizeof *x->sizes);
    w->buffer = lmi_is_buffer(x);
    w->requires_grad = !w->buffer;
    if (!w->sizes) return lmi_nomem(p->e);
    if (x->same >= 0) w->same = (int32_t)lmi_map_get(&p->by_weight, lmi_tensors_at(t, x->same)->name);
    return LAM_OK;
}

static lam_status read_saved(lmi_pt2 *p, const lmi_zip_entry *entry) {
    lmi_bytes part;
    lmi_tensors t;
    LAM_TRY(lmi_zip_part(&p->zip, entry, &part, p->e));
    lmi_tensors_init(&t, part.size);
    lam_status s = lmi_checkpoint_read(&t, &part, LMI_TORCH_ZIP, p->e);
    for (int32_t i = 0; s == LAM_OK && i < lmi_tensors_n(&t); i++) s = add_saved(p, &t, i);
    lmi_tensors_free(&t);
    return s;
}

/* -- all of them ----------------------------------------------------------------------------------------- */

/* The entry that belongs to the program: "models/NAME.json" has "data/weights/NAME.pt". */
static lam_status beside(lmi_pt2 *p, const char *folder, const char *end, const lmi_zip_entry **out) {
    const char *slash = strrchr(p->root_name, '/'), *dot = strrchr(p->root_name, '.');
    lmi_buf name;
    *out = NULL;
    if (!slash || dot < slash) return LAM_OK;
    lmi_buf_init(&name);
    lmi_putf(&name, "data/%s/", folder);
    lmi_putn(&name, slash + 1, (size_t)(dot - slash - 1));
    lmi_put(&name, end);
    lam_status s = lmi_buf_status(&name, p->e);
    if (s == LAM_OK) s = lmi_pt2_entry(p, name.s, out);
    lmi_buf_free(&name);
    return s;
}

static lam_status read_folder(lmi_pt2 *p, const char *folder, bool constants) {
    const lmi_zip_entry *config, *saved;
    LAM_TRY(beside(p, folder, constants ? "_constants_config.json" : "_weights_config.json", &config));
    if (config) return read_config(p, config, folder, constants);
    if (constants) return LAM_OK;
    LAM_TRY(beside(p, folder, ".pt", &saved));
    return saved ? read_saved(p, saved) : LAM_OK;
}

static lam_status read_stored(lmi_pt2 *p) {
    static const char *const old[] = {"serialized_state_dict.pt", "serialized_state_dict.json"};
    for (size_t i = 0; i < sizeof old / sizeof *old; i++) {
        const lmi_zip_entry *saved;
        LAM_TRY(lmi_pt2_entry(p, old[i], &saved));
        if (saved) return read_saved(p, saved);
    }
    return read_folder(p, "weights", false);
}

/* What is stored comes first, as it is in the order in which the model registered it. */
lam_status lmi_pt2_weights(lmi_pt2 *p) {
    LAM_TRY(read_stored(p));
    LAM_TRY(read_signature(p));
    return read_folder(p, "constants", true);
}
