/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights of few bits, which several tensors hold: the numbers, and their scales and zero points. Each
 * becomes one tensor with the shape and type of its values and the bytes of all its parts. Which tensors
 * belong together is told by their names; how many values a number of the file holds, by their shapes, by
 * what a tensor of the file tells, or by config.json. */
#include "read/tensors/tensors.h"

#include <stdio.h>

typedef struct joining {
    lmi_tensors *t;
    lmi_stored_tensor *x; /* the numbers */
    int32_t id;
    const char *stem; /* the name of the weight without the part that tells what it holds, and its length */
    size_t n, all;    /* all: of the whole name */
    lmi_buf name;     /* of a part that is looked for */
    int32_t two_of_4; /* torch's type of two 4-bit floats in a byte */
    lam_error *e;
    bool bad; /* memory ran out for it */
} joining;

/* The tensor whose name is the stem and `end`; NULL: there is none. Without a stem, as in the state of one
 * layer alone, there is no dot before. */
static lmi_stored_tensor *part(joining *k, const char *end) {
    lmi_buf_clear(&k->name);
    lmi_putn(&k->name, k->stem, k->n);
    lmi_put(&k->name, k->n == 0 && *end == '.' ? end + 1 : end);
    k->bad = k->bad || k->name.bad;
    const int32_t i = k->name.bad ? -1 : lmi_tensors_find(k->t, k->name.s);
    return i < 0 ? NULL : lmi_tensors_at(k->t, i);
}

/* Gives the weight the bytes of a part, whose own row is then left out. */
static void take(joining *k, lmi_stored_tensor *from) {
    if (!from || from->in >= 0 || from == k->x) return;
    from->in = k->id;
    if (from->bytes < 0 || k->x->bytes < 0 || lmi_add_over(k->x->bytes, from->bytes, &k->x->bytes))
        k->x->bytes = -1;
}

static void take_all(joining *k, const char *const *ends) {
    for (; *ends; ends++) take(k, part(k, *ends));
}

/* The type of the values is that of the scales, if these are wide enough; else what config.json says. */
static int32_t values_of(const joining *k, const lmi_stored_tensor *scales) {
    const bool wide = scales && lam_dtype_is_float(scales->dtype) && lam_dtype_bits(scales->dtype) >= 16;
    return wide ? scales->dtype : k->t->of.dtype;
}

/* Makes the tensor a packed weight of these sizes; *axes with a size below 0 are unknown, and so is all. */
static lam_status become(joining *k, const char *method, int64_t bits, int32_t dtype, int32_t ndim,
                         const int64_t *sizes) {
    char type[64];
    int64_t numel = -1;
    lmi_stored_tensor *x = k->x;
    bool known = ndim >= 0;
    for (int32_t i = 0; i < ndim; i++) known = known && sizes[i] >= 0;
    known = known && lmi_product(sizes, ndim, &numel);
    snprintf(type, sizeof type, bits > 0 ? "%.40s-int%d" : "%.40s", method, (int)bits);
    x->packed = true;
    x->dtype = dtype;
    x->numel = known ? numel : -1;
    x->ndim = known ? ndim : -1;
    x->sizes = lmi_copy(&k->t->arena, sizes, known ? (uint64_t)ndim : 0, sizeof *sizes);
    x->type = lmi_strdup(&k->t->arena, type);
    return x->sizes && x->type ? LAM_OK : lmi_nomem(k->e);
}

/* n * a / b, where that is whole; else -1. */
static int64_t scaled(int64_t n, int64_t a, int64_t b) {
    const lmi_int128 all = (lmi_int128)n * a;
    return n < 0 || b <= 0 || all % b || all / b > INT64_MAX ? -1 : (int64_t)(all / b);
}

/* -- the methods ----------------------------------------------------------------------------------------- */

static const char *const gptq_parts[] = {".qzeros", ".scales", ".g_idx", NULL};

/* AWQ's layout for one token: tensors are the other way round, and scales have columns of no group. */
static lam_status join_gemv(joining *k) {
    const lmi_stored_tensor *x = k->x;
    const int64_t bits = k->t->of.bits;
    const int64_t sizes[] = {x->sizes[0], bits > 0 ? scaled(x->sizes[1], 32, bits) : -1};
    LAM_TRY(become(k, "awq", bits, values_of(k, part(k, ".scales")), 2, sizes));
    take_all(k, gptq_parts);
    return LAM_OK;
}

/* GPTQ packs along the inputs, [in * bits / 32, out], and AWQ along the outputs, [in, out * bits / 32]; both
 * have scales of [groups, out]. */
static lam_status join_qweight(joining *k) {
    const lmi_stored_tensor *scales = part(k, ".scales"), *index = part(k, ".g_idx");
    const lmi_quantised_by *of = &k->t->of;
    const lmi_stored_tensor *x = k->x;
    if (k->bad || !scales || x->ndim != 2 || scales->ndim != 2 || scales->sizes[1] < 1) return LAM_OK;
    if (index && (index->ndim != 1 || index->sizes[0] < 1)) index = NULL; /* where groups follow each other */
    if (of->mode && strncmp(of->mode, "gemv", 4) == 0) return join_gemv(k);
    const int64_t out = scales->sizes[1], rows = x->sizes[0], columns = x->sizes[1];
    const bool awq = columns != out;
    int64_t bits = of->bits, in = rows;
    if (awq) {
        bits = scaled(columns, 32, out);
    } else {
        in = index ? index->sizes[0] : bits ? scaled(rows, 32, bits) : -1;
        bits = index ? scaled(rows, 32, in) : bits;
    }
    const int64_t sizes[] = {out, bits > 0 ? in : -1};
    LAM_TRY(become(k, awq ? "awq" : "gptq", bits, values_of(k, scales), 2, sizes));
    take_all(k, gptq_parts);
    return LAM_OK;
}

static const char *const compressed_parts[] = {".weight_scale",
                                               ".weight_zero_point",
                                               ".weight_shape",
                                               ".weight_g_idx",
                                               ".weight_global_scale",
                                               ".input_global_scale",
                                               NULL};

/* The bits of `columns` values that fill `words` numbers of 32 bits, each of which holds as many whole values
 * as it has room for; `stated` if it is possible; 0: unknown. */
static int64_t bits_of(int64_t columns, int64_t words, int64_t stated) {
    int64_t found = 0;
    for (int64_t bits = 1; bits <= 16; bits++) {
        const int64_t each = 32 / bits;
        if (columns <= 0 || (columns - 1) / each + 1 != words) continue;
        if (bits == stated) return stated;
        found = found ? -1 : bits;
    }
    return found > 0 ? found : 0;
}

/* A scale that is an exponent alone: of groups of 32 values, as MXFP4 has it. */
static bool is_exponent(const lmi_stored_tensor *scales) {
    return scales && (scales->dtype == lam_dtype_by_name("uint8") ||
                      scales->dtype == lam_dtype_by_name("float8_e8m0fnu"));
}

/* compressed-tensors: integers of 32 bits that hold values of `bits`, or bytes of two 4-bit floats. */
static lam_status join_compressed(joining *k) {
    const lmi_stored_tensor *shape = part(k, ".weight_shape"), *scales = part(k, ".weight_scale");
    const lmi_stored_tensor *x = k->x;
    const int64_t wide = lam_dtype_bits(x->dtype);
    const bool stated = shape && shape->shape[0] > 0;
    if (k->bad || x->ndim != 2) return LAM_OK;
    const int64_t bits = wide == 8 ? 4
                         : stated  ? bits_of(shape->shape[1], x->sizes[1], k->t->of.bits)
                                   : k->t->of.bits;
    int64_t sizes[] = {x->sizes[0], bits ? scaled(x->sizes[1], wide, bits) : -1};
    if (stated) memcpy(sizes, shape->shape, sizeof sizes);
    if (wide == 8)
        LAM_TRY(become(k, is_exponent(scales) ? "mxfp4" : "nvfp4", 0, k->t->of.dtype, 2, sizes));
    else
        LAM_TRY(become(k, "compressed", bits, values_of(k, scales), 2, sizes));
    take_all(k, compressed_parts);
    return LAM_OK;
}

static const char *const blocks_parts[] = {"_scales", NULL};

/* MXFP4: [..., groups, 16] bytes, each two values, and a scale for each group of 32. */
static lam_status join_blocks(joining *k) {
    const lmi_stored_tensor *scales = part(k, "_scales"), *x = k->x;
    int64_t sizes[LMI_MOST_AXES];
    if (k->bad || !scales || x->ndim < 2 || x->ndim != scales->ndim + 1 || x->ndim > LMI_MOST_AXES)
        return LAM_OK;
    if (lam_dtype_bits(x->dtype) != 8 || x->sizes[x->ndim - 1] != 16) return LAM_OK;
    memcpy(sizes, x->sizes, (size_t)x->ndim * sizeof *sizes);
    sizes[x->ndim - 2] = scaled(sizes[x->ndim - 2], 32, 1);
    LAM_TRY(become(k, "mxfp4", 0, k->t->of.dtype, x->ndim - 1, sizes));
    take_all(k, blocks_parts);
    return LAM_OK;
}

static const char *const mlx_parts[] = {".scales", ".biases", NULL};

/* The configuration of the layer of the weight, or of all. */
static const lmi_quantised_by *layer_of(joining *k) {
    lmi_buf_clear(&k->name);
    lmi_putn(&k->name, k->stem, k->n);
    k->bad = k->bad || k->name.bad;
    const int64_t i = k->name.bad ? -1 : lmi_map_get(&k->t->by_layer, lmi_buf_text(&k->name));
    return i < 0 ? &k->t->of : (const lmi_quantised_by *)lmi_vec_at(&k->t->layers, (size_t)i);
}

/* MLX: integers of 32 bits, [out, in * bits / 32], and scales of [out, in / group]. */
static lam_status join_mlx(joining *k, const lmi_stored_tensor *scales) {
    const lmi_stored_tensor *x = k->x;
    const lmi_quantised_by *of = layer_of(k);
    int64_t sizes[LMI_MOST_AXES], bits = of->bits;
    const int32_t last = x->ndim - 1;
    const bool floats = of->mode && *of->mode && strcmp(of->mode, "affine") != 0;
    memcpy(sizes, x->sizes, (size_t)x->ndim * sizeof *sizes);
    /* A layer may have other bits than the rest: what its scales tell about a group of the usual size wins.
     */
    if (of->group && scales->ndim == x->ndim) {
        const int64_t in = scaled(scales->sizes[last], of->group, 1);
        const int64_t stated = in > 0 ? scaled(sizes[last], 32, in) : -1;
        if (stated > 0 && stated <= 32) bits = stated;
    }
    sizes[last] = bits > 0 ? scaled(sizes[last], 32, bits) : -1;
    LAM_TRY(become(k, floats ? of->mode : "mlx", floats ? 0 : bits, values_of(k, scales), x->ndim, sizes));
    take_all(k, mlx_parts);
    return LAM_OK;
}

static const char *const bnb4_parts[] = {".weight.absmax",
                                         ".weight.quant_map",
                                         ".weight.nested_absmax",
                                         ".weight.nested_quant_map",
                                         ".weight.quant_state.bitsandbytes__nf4",
                                         ".weight.quant_state.bitsandbytes__fp4",
                                         NULL};

/* bitsandbytes tells the shape in JSON, which is the text of a tensor of bytes. */
static lam_status join_bnb4(joining *k, const lmi_stored_tensor *state, const char *method) {
    int64_t sizes[LMI_MOST_AXES];
    int32_t ndim = -1, dtype = k->t->of.dtype;
    size_t n = state->text ? strlen(state->text) : 0;
    char *text = lmi_strndup(&k->t->arena, state->text ? state->text : "", n + 1);
    lmi_json j;
    const lmi_json_limits limits = {.depth = 8, .size = 1 << 16};
    if (!text) return lmi_nomem(k->e);
    const lam_status read = n ? lmi_json_read(&j, text, n, &limits, k->x->name, NULL) : LAM_SYNTAX;
    if (read == LAM_NOMEM) return lmi_nomem(k->e);
    if (read == LAM_OK) {
        const uint32_t shape = lmi_json_get(&j, LMI_JSON_ROOT, "shape");
        const char *name = lmi_json_as_text(&j, lmi_json_get(&j, LMI_JSON_ROOT, "dtype"));
        if (name) dtype = lam_dtype_by_name(name);
        if (lmi_json_is(&j, shape) == LMI_JSON_LIST && lmi_json_size(&j, shape) <= LMI_MOST_AXES) {
            ndim = 0;
            LMI_JSON_EACH(&j, shape, i) if (!lmi_json_as_int(&j, i, &sizes[ndim++])) sizes[ndim - 1] = -1;
        }
        lmi_json_free(&j);
    }
    LAM_TRY(become(k, method, 0, dtype, ndim, sizes));
    take_all(k, bnb4_parts);
    return LAM_OK;
}

static const char *const scale_parts[] = {".weight_scale",
                                          ".weight_scale_2",
                                          ".weight_scale_inv",
                                          ".scale",
                                          ".SCB",
                                          ".weight_format",
                                          ".input_scale",
                                          ".weight_global_scale",
                                          ".input_global_scale",
                                          ".weight_zero_point",
                                          NULL};
/* of experts, whose weights are one tensor that is not called `weight` */
static const char *const expert_parts[] = {"_scale", "_scale_inv", "_scale_2", "_input_scale", NULL};

/* Bytes with scales beside them: two 4-bit floats in each if a group of scales says so, else one value. */
static lam_status join_bytes(joining *k, const lmi_stored_tensor *scales, const char *method,
                             const char *const *parts) {
    const lmi_stored_tensor *x = k->x;
    int64_t sizes[LMI_MOST_AXES];
    const int32_t last = x->ndim - 1;
    memcpy(sizes, x->sizes, (size_t)x->ndim * sizeof *sizes);
    const bool grouped =
        scales->ndim == x->ndim && scales->sizes[last] > 0 && lam_dtype_bits(scales->dtype) == 8;
    const int64_t group = grouped ? scaled(sizes[last], 2, scales->sizes[last]) : -1;
    const bool halves = (x->dtype == lam_dtype_by_name("uint8") || x->dtype == lam_dtype_by_name("int8")) &&
                        (group == 16 || group == 32);
    if (halves) {
        sizes[last] *= 2;
        method = group == 16 ? "nvfp4" : "mxfp4";
    }
    /* such scales are float32 whatever the values are */
    LAM_TRY(become(k, method, 0, k->t->of.dtype, x->ndim, sizes));
    take_all(k, parts);
    return LAM_OK;
}

static const char *const hqq_parts[] = {".scale",
                                        ".zero",
                                        ".shape",
                                        ".nbits",
                                        ".group_size",
                                        ".axis",
                                        ".packing",
                                        ".view_as_float",
                                        ".unpack_view_dtype",
                                        ".compute_dtype",
                                        ".quant_scale",
                                        ".quant_zero",
                                        ".optimize",
                                        ".round_zero",
                                        ".channel_wise",
                                        ".offload_meta",
                                        ".encoded_state_dict",
                                        ".stores_quant_config",
                                        NULL};

/* HQQ: numbers whose bits and shape are values of other tensors. */
static lam_status join_hqq(joining *k) {
    const lmi_stored_tensor *shape = part(k, ".shape"), *scales = part(k, ".scale");
    const bool stated = shape && shape->shape[0] > 0;
    if (k->bad || !part(k, ".zero")) return LAM_OK;
    LAM_TRY(become(k, "hqq", 0, values_of(k, scales), stated ? 2 : -1, stated ? shape->shape : NULL));
    take_all(k, hqq_parts);
    return LAM_OK;
}

static const char *const quanto_parts[] = {".weight._scale", ".weight._shift", ".input_scale",
                                           ".output_scale", NULL};

/* optimum-quanto: bytes with a scale for each row; of fewer bits in groups, whose size the file does not
 * tell. */
static lam_status join_quanto(joining *k, bool groups) {
    const lmi_stored_tensor *x = k->x, *scales = part(k, ".weight._scale");
    if (k->bad || !scales || lam_dtype_bits(x->dtype) != 8) return LAM_OK;
    LAM_TRY(become(k,
                   groups                         ? "quanto"
                   : lam_dtype_is_float(x->dtype) ? "fp8"
                                                  : "int8",
                   0, values_of(k, scales), groups ? -1 : x->ndim, groups ? NULL : x->sizes));
    take_all(k, quanto_parts);
    return LAM_OK;
}

/* -- which method ---------------------------------------------------------------------------------------- */

/* True if the name ends so: the stem is what is before. */
static bool ends(joining *k, const char *end) {
    const size_t n = strlen(end);
    k->n = k->all < n ? 0 : k->all - n;
    if (k->all < n) return *end == '.' && strcmp(k->stem, end + 1) == 0;
    return memcmp(k->stem + k->n, end, n) == 0;
}

/* Two 4-bit floats in each byte, by torch's type for them. */
static lam_status join_halves(joining *k) {
    int64_t sizes[LMI_MOST_AXES];
    const int32_t n = k->x->ndim;
    memcpy(sizes, k->x->sizes, (size_t)n * sizeof *sizes);
    sizes[n - 1] = scaled(sizes[n - 1], 2, 1);
    LAM_TRY(become(k, "fp4", 0, k->t->of.dtype, n, sizes));
    if (ends(k, ".weight")) take_all(k, scale_parts);
    return LAM_OK;
}

static lam_status join_weight(joining *k) {
    static const char *const scales[] = {".weight_scale", ".weight_scale_inv", ".SCB", ".scale"};
    static const char *const kinds[] = {"nf4", "fp4"};
    char end[64];
    const lmi_stored_tensor *other;
    const int32_t bits = lam_dtype_bits(k->x->dtype);
    if (k->x->dtype >= 0 && lam_dtype_name(k->x->dtype)[0] == 'q') return LAM_OK; /* it has its own scales */
    if (k->x->ndim < 1 || k->x->ndim > LMI_MOST_AXES) return LAM_OK;
    if (bits == 32 && !lam_dtype_is_float(k->x->dtype) && (other = part(k, ".scales")) != NULL)
        return join_mlx(k, other);
    if (bits != 8) return LAM_OK;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        snprintf(end, sizeof end, ".weight.quant_state.bitsandbytes__%s", kinds[i]);
        if ((other = part(k, end)) != NULL) return join_bnb4(k, other, kinds[i]);
    }
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++)
        if ((other = part(k, scales[i])) != NULL)
            return join_bytes(k, other, lam_dtype_is_float(k->x->dtype) ? "fp8" : "int8", scale_parts);
    return LAM_OK;
}

static lam_status join_experts(joining *k) {
    k->n = k->all;
    if (k->x->ndim < 2 || k->x->ndim > LMI_MOST_AXES || lam_dtype_bits(k->x->dtype) != 8) return LAM_OK;
    const lmi_stored_tensor *scales = part(k, "_scale");
    if (!scales) scales = part(k, "_scale_inv");
    if (!scales) return LAM_OK;
    return join_bytes(k, scales, lam_dtype_is_float(k->x->dtype) ? "fp8" : "int8", expert_parts);
}

static lam_status join(joining *k) {
    if (k->x->ndim < 0 || k->x->in >= 0) return LAM_OK;
    if (k->x->dtype == k->two_of_4 && k->x->ndim > 0 && k->x->ndim <= LMI_MOST_AXES) return join_halves(k);
    if (ends(k, ".weight")) return join_weight(k);
    if (ends(k, ".qweight")) return join_qweight(k);
    if (ends(k, ".W_q")) return join_hqq(k);
    if (ends(k, ".weight._data._data")) return join_quanto(k, true);
    if (ends(k, ".weight._data")) return join_quanto(k, false);
    if (ends(k, ".weight_packed")) return join_compressed(k);
    return ends(k, "_blocks") ? join_blocks(k) : join_experts(k);
}

lam_status lmi_tensors_join(lmi_tensors *t, lam_error *e) {
    joining k = {.t = t, .two_of_4 = lam_dtype_by_name("float4_e2m1fn_x2"), .e = e};
    lam_status s = LAM_OK;
    lmi_buf_init(&k.name);
    for (k.id = 0; s == LAM_OK && k.id < lmi_tensors_n(t); k.id++) {
        k.x = lmi_tensors_at(t, k.id);
        k.stem = k.x->name;
        k.all = strlen(k.stem);
        s = join(&k);
        if (s == LAM_OK && k.bad) s = lmi_nomem(e);
    }
    lmi_buf_free(&k.name);
    return s;
}
