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

/* Takes what the file says of a weight's tensor. */
static void describe(lmi_pt2_weight *w, const lmi_pt2_value *by) {
    w->dtype = by->dtype;
    w->ndim = by->ndim;
    w->sizes = by->sizes;
    w->requires_grad = !w->buffer && by->requires_grad;
}

static lam_status add_spec(lmi_pt2 *p, uint32_t spec, const char *name, bool buffer) {
    const lmi_json *j = &p->j;
    const char *named = lmi_json_as_text(j, lmi_json_get(j, spec, name));
    const char *input = lmi_json_as_text(j, lmi_json_find(j, spec, "arg.name"));
    lmi_pt2_weight *w;
    if (!named || !input) return lmi_pt2_bad(p, spec, "a parameter or buffer without its name");
    LAM_TRY(weight_of(p, named, &w));
    const int32_t value = lmi_pt2_named(p, 0, input);
    if (value < 0) return LAM_OK;
    lmi_pt2_value *v = lmi_pt2_value_at(p, value);
    v->weight = (int32_t)(w - lmi_pt2_weight_at(p, 0));
    w->buffer = buffer;
    describe(w, v);
    /* Before schema 7 the types of inputs were told without their gradients. */
    w->requires_grad = w->requires_grad || (!buffer && p->schema < 7);
    return LAM_OK;
}

static lam_status read_signature(lmi_pt2 *p) {
    const lmi_json *j = &p->j;
    const uint32_t values = lmi_json_get(j, p->graph, "tensor_values");
    int32_t scope;
    if (lmi_json_is(j, values) != LMI_JSON_OBJECT)
        return lmi_pt2_bad(p, p->graph, "a graph without its tensors");
    LAM_TRY(lmi_pt2_scope_of(p, p->graph, &scope));
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
    lmi_buf_clear(&p->path);
    lmi_put(&p->path, folder);
    lmi_putc(&p->path, '/');
    lmi_put(&p->path, file);
    LAM_TRY(lmi_buf_status(&p->path, p->e));
    const int64_t first = lmi_map_get(&p->by_store, p->path.s);
    if (first >= 0) {
        if (lmi_pt2_weight_at(p, lmi_pt2_first(p, (int32_t)first)) != w) w->same = (int32_t)first;
        return LAM_OK;
    }
    const char *kept = lmi_strndup(&p->arena, p->path.s, p->path.n);
    return kept ? lmi_map_put(&p->by_store, kept, w - lmi_pt2_weight_at(p, 0), p->e) : lmi_nomem(p->e);
}

/* The byte of the archive that a tensor's storage begins at; else why its values can't be read. */
static lam_status find_values(lmi_pt2 *p, const char *folder, uint32_t at, lmi_stored_tensor *x,
                              uint64_t *size, uint64_t *begin) {
    const char *file = lmi_json_as_text(&p->j, lmi_json_get(&p->j, at, "path_name"));
    const lmi_zip_entry *entry = NULL;
    bool found;
    lmi_buf name;
    lmi_buf_init(&name);
    lmi_putf(&name, "data/%s/%s", folder, file ? file : "");
    lam_status s = lmi_buf_status(&name, p->e);
    if (s == LAM_OK) s = lmi_pt2_entry(p, name.s, &entry);
    lmi_buf_free(&name);
    if (s == LAM_OK && !entry) x->unread = "the file does not have them";
    if (lmi_json_is(&p->j, lmi_json_get(&p->j, at, "use_pickle")) == LMI_JSON_TRUE)
        x->unread = "they are in a separate pickle";
    if (s != LAM_OK || x->unread) return s;
    LAM_TRY(lmi_zip_place(&p->zip, entry, begin, &found, p->e));
    if (!found) x->unread = LMI_PACKED_STORAGE;
    *size = entry->size;
    return LAM_OK;
}

/* Adds a weight to those whose values are checked. A file of values is the storage that the tensor is a view
 * of. */
static lam_status add_values(lmi_pt2 *p, const lmi_pt2_weight *w, const char *folder, uint32_t at) {
    const uint32_t meta = lmi_json_get(&p->j, at, "tensor_meta"), list = lmi_json_get(&p->j, meta, "strides"),
                   start = lmi_json_get(&p->j, meta, "storage_offset");
    int64_t strides[LMI_MOST_AXES], offset = 0, step = 1, numel;
    uint64_t size = 0, begin = 0;
    int32_t k = 0;
    lmi_stored_tensor x = {.name = w->name,
                           .dtype = w->dtype,
                           .ndim = w->ndim,
                           .sizes = w->sizes,
                           .bytes = -1,
                           .role_known = true,
                           .buffer = w->buffer};
    const int32_t bits = lam_dtype_bits(w->dtype);
    if (w->ndim < 0 || !lmi_product(w->sizes, w->ndim, &numel)) return LAM_OK;
    if (!lmi_mul_over(numel, bits, &x.bytes)) x.bytes = bits ? (x.bytes + 7) / 8 : -1;
    LAM_TRY(find_values(p, folder, at, &x, &size, &begin));
    for (int32_t i = w->ndim - 1; i >= 0; i--) {
        strides[i] = step;
        if (lmi_mul_over(step, w->sizes[i] ? w->sizes[i] : 1, &step)) return LAM_OK;
    }
    if (lmi_json_size(&p->j, list) == (uint32_t)w->ndim)
        LMI_JSON_EACH(&p->j, list, i) LAM_TRY(lmi_pt2_size(p, i, &strides[k++]));
    if (start) LAM_TRY(lmi_pt2_size(p, start, &offset));
    const int64_t span = lmi_view_span(w->sizes, strides, w->ndim, offset);
    if (!x.unread && (span < 0 || (lmi_int128)span * bits > (lmi_int128)size * 8))
        x.unread = "its storage is shorter than its shape says";
    if (p->turned && !x.unread) x.unread = "its numbers are in the other byte order";
    if (!x.unread) LAM_TRY(lmi_tensors_view(&p->stored, &x, begin, strides, offset, p->e));
    return lmi_tensors_add(&p->stored, &x, p->of, begin, p->e);
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
        describe(w, &v);
    }
    if (file) LAM_TRY(note_store(p, w, folder, file));
    return p->stored.keep && w->same < 0 ? add_values(p, w, folder, at) : LAM_OK;
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

static lam_status add_saved(lmi_pt2 *p, int32_t i) {
    const lmi_tensors *t = &p->stored;
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
    LAM_TRY(lmi_zip_part(&p->zip, entry, &part, p->e));
    LAM_TRY(lmi_tensors_in(&p->stored, &part, p->e));
    LAM_TRY(lmi_checkpoint_read(&p->stored, &part, LMI_TORCH_ZIP, p->e));
    for (int32_t i = 0; i < lmi_tensors_n(&p->stored); i++) LAM_TRY(add_saved(p, i));
    return LAM_OK;
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
    if (config && !p->stored.files.n) LAM_TRY(lmi_tensors_in(&p->stored, p->of, p->e));
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

/* Those whose values were not found are not checked. */
static lam_status add_others(lmi_pt2 *p) {
    for (int32_t i = 0; i < (int32_t)p->weights.n; i++) {
        const lmi_pt2_weight *w = lmi_pt2_weight_at(p, i);
        const lmi_stored_tensor x = {.name = w->name,
                                     .dtype = w->dtype,
                                     .ndim = w->ndim,
                                     .sizes = w->sizes,
                                     .bytes = -1,
                                     .unread = "the file does not have them"};
        if (w->same < 0 && lmi_tensors_find(&p->stored, w->name) < 0)
            LAM_TRY(lmi_tensors_add(&p->stored, &x, p->of, 0, p->e));
    }
    return LAM_OK;
}

static lam_status find_order(lmi_pt2 *p) {
    const lmi_zip_entry *entry;
    LAM_TRY(lmi_pt2_entry(p, "byteorder", &entry));
    return lmi_torch_order(&p->zip, entry, &p->turned, p->e);
}

/* What is stored comes first, as it is in the order in which the model registered it. */
lam_status lmi_pt2_weights(lmi_pt2 *p) {
    if (p->stored.keep) LAM_TRY(find_order(p));
    LAM_TRY(read_stored(p));
    LAM_TRY(read_signature(p));
    LAM_TRY(read_folder(p, "constants", true));
    lmi_pt2_identify(p);
    return p->stored.keep ? add_others(p) : LAM_OK;
}
