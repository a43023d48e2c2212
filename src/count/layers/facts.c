/* SPDX-License-Identifier: Apache-2.0
 * facts: exact whole numbers of one call. This file sets the facts that every kind has, and calls the family
 * that adds its own. */
#include "count/layers/layers.h"

/* -- sums of tensors ------------------------------------------------------------------------------------- */

/* A sum that counts a tensor of several modules once. It remembers at most MAX_TIED tied tensors; with more,
 * or with a module of more than MAX_OWNED tensors, which would take long to compare, the sum is unknown. */
enum { MAX_TIED = 256, MAX_OWNED = 1024 };
typedef struct tensor_sum {
    int64_t n; /* -1: unknown */
    int32_t n_tied, tied[MAX_TIED];
} tensor_sum;

static bool seen_before(tensor_sum *sum, int32_t tensor) {
    for (int32_t i = 0; i < sum->n_tied; i++)
        if (sum->tied[i] == tensor) return true;
    if (sum->n_tied == MAX_TIED)
        sum->n = -1;
    else
        sum->tied[sum->n_tied++] = tensor;
    return false;
}

static void add_tensors(const lam_model *m, const lam_module *mod, bool buffers, bool alone,
                        tensor_sum *sum) {
    if (mod->n_owned > MAX_OWNED) sum->n = -1;
    for (int32_t i = 0; i < mod->n_owned && sum->n >= 0; i++) {
        const lam_tensor *t = lam_model_tensor(m, mod->owned[i].tensor);
        bool tied = !alone && (t->n_owners > 1 || mod->n_places > 1);
        if (mod->owned[i].is_buffer != buffers || t->packed || lmi_named_before(mod, i)) continue;
        if (tied && seen_before(sum, mod->owned[i].tensor)) continue;
        if (sum->n < 0 || t->numel < 0 || lmi_add_over(sum->n, t->numel, &sum->n)) sum->n = -1;
    }
}

static int64_t own_tensors(const lam_model *m, const lam_module *mod, bool buffers) {
    tensor_sum sum;
    sum.n = sum.n_tied = 0;
    add_tensors(m, mod, buffers, true, &sum);
    return sum.n;
}

/* The place after `p` in a walk over the tree below `root`, parents first; -1 at the end. No recursion: a
 * tree may be very deep. */
static int32_t next_place(const lam_model *m, int32_t root, int32_t p) {
    const lam_place *at = lam_model_place(m, p);
    if (at->n_children) return at->children[0];
    for (; p != root; p = at->parent, at = lam_model_place(m, p)) {
        const lam_place *up = lam_model_place(m, at->parent);
        size_t n = (size_t)up->n_children; /* they are in the order of their indices */
        size_t next = lmi_lower_bound(up->children, n, sizeof p, p) + 1;
        if (next < n) return up->children[next];
    }
    return -1;
}

/* Parameters of the place and everything below it, each tensor once. This is only called for layers that hold
 * layers, which are small. */
static int64_t all_params(const lam_model *m, int32_t place) {
    tensor_sum sum;
    sum.n = sum.n_tied = 0; /* the rest needs no clearing */
    for (int32_t p = place; p >= 0 && sum.n >= 0; p = next_place(m, place, p))
        add_tensors(m, lam_model_module(m, lam_model_place(m, p)->module), false, false, &sum);
    return sum.n;
}

static bool add_packed(const lam_model *m, const lam_module *mod, lmi_packed *sum) {
    for (int32_t i = 0; i < mod->n_owned; i++) {
        const lam_tensor *t = lam_model_tensor(m, mod->owned[i].tensor);
        if (!t->packed) continue;
        if (t->numel < 0 || t->bytes < 0) return false;
        if (sum->all < 0) *sum = (lmi_packed){0, 0, 0};
        int64_t matrix = t->shape.ndim > 1 ? t->numel : 0;
        if (lmi_add_over(sum->all, t->numel, &sum->all) || lmi_add_over(sum->bytes, t->bytes, &sum->bytes) ||
            lmi_add_over(sum->matrices, matrix, &sum->matrices))
            return false;
    }
    return true;
}

lmi_packed lmi_packed_under(const lam_model *m, int32_t place) {
    lmi_packed sum = {-1, -1, -1};
    for (int32_t p = place; p >= 0; p = next_place(m, place, p))
        if (!add_packed(m, lam_model_module(m, lam_model_place(m, p)->module), &sum))
            return (lmi_packed){-1, -1, -1};
    return sum;
}

/* -- facts of every kind --------------------------------------------------------------------------------- */

static lam_shape shape_of(const lam_arg *a) { return (lam_shape){a->ndim, a->sizes}; }

/* The elements of arguments, or their bytes by the type of each tensor. */
static int64_t sum_of(const lam_arg *args, int32_t n, bool bytes) {
    int64_t sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum = lmi_plus(sum, bytes ? lmi_arg_bytes(&args[i]) : lmi_numel(shape_of(&args[i])));
    return sum;
}

static int64_t own_bytes(const lam_model *m, const lam_module *mod) {
    int64_t sum = mod->n_owned > MAX_OWNED ? -1 : 0;
    for (int32_t i = 0; i < mod->n_owned && sum >= 0; i++) {
        const lam_tensor *t = lam_model_tensor(m, mod->owned[i].tensor);
        if (mod->owned[i].is_buffer || t->packed || lmi_named_before(mod, i)) continue;
        sum = lmi_plus(sum, t->bytes);
    }
    return sum;
}

/* Sets the facts in bytes, which only user-defined rules use for layers; the tables count elements. */
static void set_bytes(const lam_model *m, const lam_event *ev, const lam_module *mod, lmi_facts *f) {
    lmi_fact_set(f, LMI_FACT_ins_bytes, sum_of(ev->in, ev->n_in, true));
    lmi_fact_set(f, LMI_FACT_outs_bytes, ev->n_out > 0 ? sum_of(ev->out, ev->n_out, true) : -1);
    lmi_fact_set(f, LMI_FACT_params_bytes, own_bytes(m, mod));
}

/* The number of spatial axes: in the class name (Conv2d, BatchNorm3d, ...), else by the input's shape. */
static int64_t spatial_axes(int32_t word, lam_shape x) {
    const char *name = lam_word_name(word);
    size_t n = name ? strlen(name) : 0;
    if (n > 2 && name[n - 1] == 'd' && name[n - 2] >= '1' && name[n - 2] <= '3') return name[n - 2] - '0';
    return x.ndim >= 2 ? x.ndim - 2 : -1;
}

void lmi_facts_axes(lam_shape x, lam_shape z, lam_shape y, lmi_facts *f) {
    static const lmi_fact_id xs[] = {LMI_FACT_x0, LMI_FACT_x1, LMI_FACT_x2, LMI_FACT_x3};
    static const lmi_fact_id zs[] = {LMI_FACT_z0, LMI_FACT_z1, LMI_FACT_z2, LMI_FACT_z3};
    static const lmi_fact_id ys[] = {LMI_FACT_y0, LMI_FACT_y1, LMI_FACT_y2, LMI_FACT_y3};
    for (int32_t i = 0; i < 4; i++) {
        lmi_fact_set(f, xs[i], lmi_axis(x, i));
        lmi_fact_set(f, zs[i], lmi_axis(z, i));
        lmi_fact_set(f, ys[i], lmi_axis(y, i));
    }
    lmi_fact_set(f, LMI_FACT_in_z, lmi_numel(z));
    lmi_fact_set(f, LMI_FACT_x_last, lmi_axis(x, -1));
    lmi_fact_set(f, LMI_FACT_z_last, lmi_axis(z, -1));
    lmi_fact_set(f, LMI_FACT_y_last, lmi_axis(y, -1));
}

static void set_shapes(lam_shape x, lam_shape y, int64_t rank, lmi_facts *f) {
    lmi_fact_set(f, LMI_FACT_in, lmi_numel(x));
    lmi_fact_set(f, LMI_FACT_out, lmi_numel(y));
    lmi_fact_set(f, LMI_FACT_rank, rank);
    lmi_fact_set(f, LMI_FACT_dims, x.ndim);
    bool unbatched = x.ndim >= 0 && (x.ndim <= 1 || x.ndim == rank + 1);
    lmi_fact_set(f, LMI_FACT_batch, unbatched ? 1 : lmi_axis(x, 0));
}

static void set_frame(const lam_model *m, int32_t event, const lmi_slots *s, lmi_facts *f) {
    const lam_event *ev = lam_model_event(m, event);
    const lam_module *mod = lam_model_module(m, ev->module);
    lam_shape x = lmi_input(m, event, s);
    lam_shape y = lmi_output(m, event), z = ev->n_in > 1 ? shape_of(&ev->in[1]) : (lam_shape){-1, NULL};
    set_shapes(x, y, spatial_axes(mod->word, x), f);
    lmi_facts_axes(x, z, y, f);
    lmi_fact_set(f, LMI_FACT_ins, sum_of(ev->in, ev->n_in, false));
    lmi_fact_set(f, LMI_FACT_outs, ev->n_out > 0 ? sum_of(ev->out, ev->n_out, false) : -1);
    set_bytes(m, ev, mod, f);
    lmi_fact_set(f, LMI_FACT_params, own_tensors(m, mod, false));
    lmi_fact_set(f, LMI_FACT_buffers, own_tensors(m, mod, true));
    lmi_fact_set(f, LMI_FACT_training, (ev->flags & LAM_CALL_TRAINING) != 0);
    lmi_fact_set(f, LMI_FACT_inplace, lmi_value_int(s->at[LMI_S_inplace].value, 0) != 0);
    lmi_fact_set(f, LMI_FACT_opened, ev->n_children_called > 0);
}

typedef void family(const lam_model *m, int32_t event, lmi_kind k, const lmi_slots *s, lmi_facts *f);
static family *const families[] = {
    [LMI_F_hold] = NULL,
    [LMI_F_point] = lmi_facts_point,
    [LMI_F_layout] = lmi_facts_layout,
    [LMI_F_dense] = lmi_facts_dense,
    [LMI_F_norm] = lmi_facts_norm,
    [LMI_F_window] = lmi_facts_window,
    [LMI_F_resample] = lmi_facts_resample,
    [LMI_F_lookup] = lmi_facts_lookup,
    [LMI_F_recurrent] = lmi_facts_recurrent,
    [LMI_F_attention] = lmi_facts_attention,
    [LMI_F_pair] = lmi_facts_pair,
    [LMI_F_op] = NULL,
};

void lmi_facts_of(const lam_model *m, int32_t event, lmi_facts *out) {
    memset(out, 0, sizeof *out);
    const lam_event *ev = lam_model_event(m, event);
    if (!ev) return;
    lmi_slots slots;
    lmi_model_bind(m, event, &slots);
    set_frame(m, event, &slots, out);
    lmi_facts_named(m, event, out);
    lmi_kind kind = lmi_word_kind(lam_model_module(m, ev->module)->word);
    family *add = kind < LMI_N_KINDS ? families[lmi_kind_family(kind)] : NULL;
    /* Not for kinds without a family: a root that holds the whole network would sum its parameters at every
     * call. */
    if (add) {
        lmi_fact_set(out, LMI_FACT_all_params, all_params(m, ev->place));
        add(m, event, kind, &slots, out);
        lmi_facts_extra(m, event, kind, &slots, out);
        lmi_facts_released(m, event, kind, &slots, out);
    }
}
