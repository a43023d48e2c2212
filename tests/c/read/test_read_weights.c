/* SPDX-License-Identifier: Apache-2.0
 *
 * Models from files of weights: safetensors and GGUF, whole ones, damaged ones, and such that lie. */
#include "kit/weights.h"

#include <sys/stat.h>
#include <unistd.h>

static void refused_bytes(lmi_buf b, lam_status how, const char *part) {
    save_bytes("bad.weights", &b);
    lmi_buf_free(&b);
    refused("bad.weights", how, part);
}

/* -- safetensors ----------------------------------------------------------------------------------------- */

static void the_names_of_tensors_are_a_tree(void **state) {
    (void)state;
    save_safetensors(
        "net.safetensors",
        "layers.10.up.weight F32 2,3 24; layers.2.up.weight BF16 2,3 12; layers.2.up.bias BF16 2 4; "
        "norm.running_mean F32 4 16; norm.num_batches_tracked I64 - 8; scale F16 1 2");
    assert_string_equal(lam_read_format("net.safetensors"), "safetensors");
    lam_model *m = opened("net.safetensors");
    static const char *const paths[] = {"",          "layers",       "layers.2", "layers.2.up",
                                        "layers.10", "layers.10.up", "norm"};
    assert_int_equal(lam_model_n_places(m), 7);
    lam_costs *c = costs_of(m);
    assert_int_equal(lam_costs_n_rows(c), 7);
    for (int i = 0; i < 7; i++) { /* numbers are in their order, and every place has a row */
        const lam_cost_row *r = lam_costs_row(c, i);
        assert_string_equal(lam_model_place(m, r->place)->path, paths[i]);
        assert_string_equal(lam_model_module(m, r->module)->type, "?");
        assert_int_equal(r->metric[LAM_MACS].state, LAM_UNKNOWN);
        if (r->params.n) assert_int_equal(r->grad_params.state, LAM_UNKNOWN);
    }
    lam_param_totals p = lam_costs_params(c);
    is_exactly(p.params, 6 + 6 + 2 + 1);
    is_exactly(p.param_bytes, 24 + 12 + 4 + 2);
    is_exactly(p.logical_bytes, 24 + 12 + 4 + 2);
    is_exactly(p.buffers, 5);
    assert_int_equal(p.grad_params.state, LAM_UNKNOWN);
    assert_int_equal(lam_costs_total(c, LAM_MACS).state, LAM_UNKNOWN);
    assert_non_null(strstr(lam_costs_gap(c, 0), "no graph"));
    is_exactly(row_of(c, "layers.2.up")->params, 8);
    is_exactly(row_of(c, "layers")->below->params, 14);
    assert_string_equal(lam_model_told(m, "format"), "safetensors");
    assert_string_equal(lam_model_told(m, "weights"),
                        "22.4 bits a weight: bfloat16 53 %, float32 40 %, float16 6.7 %");
    lam_costs_free(c);
    lam_model_free(m);
}

/* A name begins as the one before it, or as an earlier one; only whole parts count. */
static void names_share_their_beginnings(void **state) {
    (void)state;
    save_safetensors(
        "shared.safetensors",
        "a.b.c.w U8 1 1; a.b.c. U8 1 1; a.b. U8 1 1; a.bc.w U8 1 1; a.b.c.v U8 1 1; a.b U8 1 1; "
        "b.b.c.w U8 1 1; a.b.d.w U8 1 1; a.b.c.e.w U8 1 1; w U8 1 1; a.1.w U8 1 1; a.0.w U8 1 1");
    static const char *const paths[] = {"",     "a",   "a.b", "a.b.c", "a.b.c.e", "a.b.d",
                                        "a.bc", "a.0", "a.1", "b",     "b.b",     "b.b.c"};
    static const int owned[] = {1, 2, 1, 2, 1, 1, 1, 1, 1, 0, 0, 1};
    lam_model *m = opened("shared.safetensors");
    assert_int_equal(lam_model_n_places(m), 12);
    lam_costs *c = costs_of(m);
    for (int i = 0; i < 12; i++) {
        const lam_cost_row *r = lam_costs_row(c, i);
        assert_string_equal(lam_model_place(m, r->place)->path, paths[i]);
        assert_int_equal(lam_model_module(m, r->module)->n_owned, owned[i]);
    }
    lam_costs_free(c);
    lam_model_free(m);
}

static void every_type_of_safetensors_has_its_bytes(void **state) {
    (void)state;
    save_safetensors(
        "types.safetensors",
        "a.a F64 2 16; a.b C64 2 16; a.c F8_E4M3 3 3; a.d F8_E5M2 3 3; a.e F8_E8M0 1 1; a.f F4 4 2; "
        "a.g F6_E2M3 4 3; a.h FUTURE 5 7; a.i U16 1 2; a.j U64 1 8; a.k BOOL 1 1; a.l F16 0,7 0");
    lam_model *m = opened("types.safetensors");
    lam_costs *c = costs_of(m);
    lam_param_totals p = lam_costs_params(c);
    is_exactly(p.param_bytes, 16 + 16 + 3 + 3 + 1 + 2 + 3 + 7);
    is_exactly(p.params, 2 + 2 + 3 + 3 + 1 + 4 + 4 + 5);
    assert_int_equal(p.logical_bytes.state, LAM_AT_LEAST); /* of types that torch lacks they are unknown */
    is_exactly(p.buffer_bytes, 2 + 8 + 1);
    lam_costs_free(c);
    lam_model_free(m);
}

static void damaged_safetensors_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *header;
        size_t data;
        const char *says;
    } bad[] = {
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 7, "behind the end of the file"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 9, "belong to none"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}", 12, "leaves a gap"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8, "other bytes than its shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8, "no whole number"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}}", 0,
         "other bytes"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8, "data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,9]}}", 8, "too many numbers"},
        {"{\"a\":{\"dtype\":7,\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "no text \"dtype\""},
        {"{\"a\":[1]}", 8, "is no object"},
        {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8, "no list of numbers"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8],\"dtype\":\"I8\"}}", 8,
         "'dtype' stands twice"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
         3, "overlaps"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
         "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
         2, "two tensors 'a'"},
        {"{\"a\":{{", 0, "byte"},
        {"{\"a\":[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]}", 0, "deep"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refused_bytes(safetensors_of(bad[i].header, bad[i].data),
                      strstr(bad[i].says, "deep") ? LAM_LIMIT : LAM_FAILED, bad[i].says);
    lmi_buf b;
    lmi_buf_init(&b);
    put_le(&b, 1000, 8);
    lmi_put(&b, "{\"a\":1}");
    refused_bytes(b, LAM_FAILED, "no model file"); /* its header would be longer than it is */
}

/* -- weights of few bits --------------------------------------------------------------------------------- */

/* A type of as many bits; the same one where there is no other. */
static const char *other_type(const char *type) {
    static const char *const all[][2] = {{"I32", "F32"},  {"U32", "F32"}, {"F32", "I32"},    {"F16", "BF16"},
                                         {"BF16", "I16"}, {"U8", "BOOL"}, {"F8_E4M3", "I8"}, {"I64", "F64"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i][0], type) == 0) return all[i][1];
    return type;
}

/* The list with one tensor left out, of another type, of one axis more, or with its axes the other way round.
 * False: there are not so many tensors. */
static bool put_other(lmi_buf *b, const char *list, int which, int how) {
    char name[128], type[32], shape[64], more;
    int used, a = 0, c = 0, k = 0;
    size_t bytes;
    for (; sscanf(list, " %127s %31s %63s %zu%n", name, type, shape, &bytes, &used) == 4; k++) {
        list += used;
        list += strspn(list, "; ");
        if (k == which && how == 0) continue;
        if (k == which && how == 1) snprintf(type, sizeof type, "%s", other_type(type));
        if (k == which && how == 2) {
            memmove(shape + 2, shape, strlen(shape) + 1);
            memcpy(shape, "1,", 2);
            if (shape[2] == '-') shape[1] = '\0';
        }
        if (k == which && how == 3 && sscanf(shape, "%d,%d%c", &a, &c, &more) == 2)
            snprintf(shape, sizeof shape, "%d,%d", c, a);
        lmi_putf(b, "%s%s %s %s %zu", b->n ? "; " : "", name, type, shape, bytes);
    }
    return which < k;
}

/* Where a part is missing or another, the rest is read as it stands. Memory may run out at any place. */
static void parts_may_be_others(const char *list) {
    oom_sweep_parts(read_once, (void *)(uintptr_t) "packed");
    for (int how = 0; how < 4; how++) {
        for (int which = 0;; which++) {
            lmi_buf b;
            lmi_buf_init(&b);
            const bool there = put_other(&b, list, which, how);
            if (there) save_safetensors("packed/model.safetensors", lmi_buf_text(&b));
            lmi_buf_free(&b);
            if (!there) break;
            lam_model *m = opened("packed");
            lam_costs_free(costs_of(m));
            lam_model_free(m);
        }
    }
}

/* The parameters, their stored and their logical bytes of one layer, and the text of its weights. */
static void holds(const char *list, const char *config, int64_t params, int64_t stored, int64_t logical,
                  const char *weights) {
    mkdir("packed", 0777);
    save_safetensors("packed/model.safetensors", list);
    save_words("packed/config.json", config);
    assert_string_equal(lam_read_format("packed"), "folder");
    lam_model *m = opened("packed");
    lam_costs *c = costs_of(m);
    lam_param_totals p = lam_costs_params(c);
    if (params >= 0)
        is_exactly(p.params, params);
    else
        assert_int_equal(p.params.state, LAM_UNKNOWN);
    is_exactly(p.param_bytes, stored);
    if (logical >= 0)
        is_exactly(p.logical_bytes, logical);
    else
        assert_int_equal(p.logical_bytes.state, LAM_UNKNOWN);
    if (weights) assert_string_equal(lam_model_told(m, "weights"), weights);
    lam_costs_free(c);
    lam_model_free(m);
    parts_may_be_others(list);
}

static void packed_weights_have_the_shape_of_their_values(void **state) {
    (void)state;
    static const char bf16[] = "{\"architectures\":[\"Net\"],\"torch_dtype\":\"bfloat16\"}";
    /* 64 inputs, 32 outputs, groups of 32 */
    holds("l.qweight I32 8,32 1024; l.qzeros I32 2,4 32; l.scales F16 2,32 128; l.g_idx I32 64 256", "{}",
          2048, 1024 + 32 + 128 + 256, 4096, "5.63 bits a weight: all gptq-int4");
    holds("l.qweight I32 8,32 1024; l.qzeros I32 2,4 32; l.scales F16 2,32 128",
          "{\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4}}", 2048, 1024 + 32 + 128, 4096,
          NULL);
    holds("l.qweight I32 6,32 768; l.qzeros I32 2,3 24; l.scales F16 2,32 128; l.g_idx I32 64 256", "{}",
          2048, 768 + 24 + 128 + 256, 4096, "4.59 bits a weight: all gptq-int3");
    holds("l.qweight I32 8,32 1024; l.scales F16 2,32 128", "{}", -1, 1024 + 128, -1,
          NULL); /* bits are not told */
    holds("l.qweight I32 64,4 1024; l.qzeros I32 2,4 32; l.scales F16 2,32 128", "{}", 2048, 1024 + 32 + 128,
          4096, "4.63 bits a weight: all awq-int4");
    holds("l.qweight I32 32,8 1024; l.qzeros I32 32,1 128; l.scales F16 32,8 512",
          "{\"quantization_config\":{\"quant_method\":\"awq\",\"bits\":4,\"version\":\"gemv\"}}", 2048,
          1024 + 128 + 512, 4096, "6.50 bits a weight: all awq-int4");
    holds("l.weight_packed I32 32,8 1024; l.weight_scale BF16 32,2 128; l.weight_shape I64 2 16",
          "{\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"bits\":4}}", 2048,
          1024 + 128 + 16, 4096, "4.56 bits a weight: all compressed-int4");
    holds("l.weight_packed U8 32,32 1024; l.weight_scale F8_E4M3 32,4 128; l.weight_global_scale F32 1 4",
          bf16, 2048, 1024 + 128 + 4, 4096, "4.52 bits a weight: all nvfp4");
    holds("l.weight U32 32,8 1024; l.scales BF16 32,1 64; l.biases BF16 32,1 64",
          "{\"quantization\":{\"group_size\":64,\"bits\":4}}", 2048, 1024 + 128, 4096,
          "4.50 bits a weight: all mlx-int4");
    holds("l.weight U32 32,16 2048; l.scales BF16 32,1 64; l.biases BF16 32,1 64",
          "{\"quantization\":{\"group_size\":64,\"bits\":4}}", 2048, 2048 + 128, 4096,
          "8.50 bits a weight: all mlx-int8");
    holds("e.up_blocks U8 4,32,2,16 4096; e.up_scales U8 4,32,2 256", bf16, 8192, 4096 + 256, 16384,
          "4.25 bits a weight: all mxfp4");
    holds("l.weight U8 32,32 1024; l.weight_scale F8_E4M3 32,4 128; l.weight_scale_2 F32 - 4; l.input_scale "
          "F32 - 4",
          bf16, 2048, 1024 + 128 + 8, 4096, "4.53 bits a weight: all nvfp4");
    holds("l.weight I8 32,32 1024; l.scale F8_E8M0 32,2 64", bf16, 2048, 1024 + 64, 4096,
          "4.25 bits a weight: all mxfp4");
    holds("l.weight F8_E4M3 32,64 2048; l.weight_scale_inv F32 1,1 4", bf16, 2048, 2052, 4096,
          "8.02 bits a weight: all fp8");
    holds("l.weight I8 32,64 2048; l.SCB F32 32 128", bf16, 2048, 2048 + 128, 4096,
          "8.50 bits a weight: all int8");
    holds("l.qweight I32 16,32 2048; l.qzeros I32 2,8 64; l.scales F16 2,32 128; l.g_idx I32 64 256", "{}",
          2048, 2048 + 64 + 128 + 256, 4096, "9.75 bits a weight: all gptq-int8");
    holds("l.weight_packed U8 32,32 1024; l.weight_scale U8 32,2 64", bf16, 2048, 1024 + 64, 4096,
          "4.25 bits a weight: all mxfp4");
    holds("l.weight F16 32,64 4096", "{ broken", 2048, 4096, 4096, "16.0 bits a weight: all float16");
}

/* What config.json says of all layers, of groups of them, or of a single one. */
static void bits_are_told_in_several_ways(void **state) {
    (void)state;
    static const char packed[] = "l.weight_packed I32 32,8 1024; l.weight_scale BF16 32,2 128";
    holds(packed,
          "{\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"config_groups\":{\"group_0\":"
          "{\"weights\":{\"num_bits\":4,\"group_size\":32}}}}}",
          2048, 1024 + 128, 4096, "4.50 bits a weight: all compressed-int4");
    holds(packed, /* which of them the layer is in is not told */
          "{\"quantization_config\":{\"config_groups\":{\"a\":{\"weights\":{\"num_bits\":4}},"
          "\"b\":{\"weights\":{\"num_bits\":8}}}}}",
          -1, 1024 + 128, -1, NULL);
    holds("l.qweight I32 8,32 1024; l.qzeros I32 2,4 32; l.scales F16 2,32 128",
          "{\"text_config\":{\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4}}}", 2048,
          1024 + 32 + 128, 4096, NULL);
    holds("l.a.weight U32 32,8 1024; l.a.scales BF16 32,1 64; l.a.biases BF16 32,1 64; "
          "l.b.weight U32 32,16 2048; l.b.scales BF16 32,2 128; l.b.biases BF16 32,2 128",
          "{\"quantization\":{\"group_size\":64,\"bits\":4,\"l.b\":{\"group_size\":32,\"bits\":8}}}", 4096,
          1024 + 128 + 2048 + 256, 8192, "6.75 bits a weight: mlx-int4 50 %, mlx-int8 50 %");
    holds("l.weight U32 32,8 1024; l.scales U8 32,2 64",
          "{\"dtype\":\"bfloat16\",\"quantization\":{\"group_size\":32,\"bits\":4,\"mode\":\"mxfp4\"}}", 2048,
          1024 + 64, 4096, "4.25 bits a weight: all mxfp4");
}

/* Experts of a layer are one tensor, with its scales under its name. */
static void experts_have_their_scales(void **state) {
    (void)state;
    static const char bf16[] = "{\"text_config\":{\"dtype\":\"bfloat16\"}}";
    holds("e.gate_up_proj F8_E4M3 4,64,32 8192; e.gate_up_proj_scale_inv F32 4,1,1 16", bf16, 8192, 8192 + 16,
          16384, "8.02 bits a weight: all fp8");
    holds("e.down_proj U8 4,32,32 4096; e.down_proj_scale F8_E8M0 4,32,2 256", bf16, 8192, 4096 + 256, 16384,
          "4.25 bits a weight: all mxfp4");
    holds("e.down_proj U8 4,32,32 4096; e.down_proj_scale F8_E4M3 4,32,4 512; e.down_proj_scale_2 F32 4 16",
          bf16, 8192, 4096 + 512 + 16, 16384, "4.52 bits a weight: all nvfp4");
}

/* bitsandbytes tells the shape in the bytes of a tensor, and compressed-tensors in another. */
static void tensors_that_tell_a_shape_are_read(void **state) {
    (void)state;
    static const char nf4[] = "{\"dtype\":\"bfloat16\",\"shape\":[32,64],\"quant_type\":\"nf4\"}";
    char list[512];
    snprintf(list, sizeof list,
             "l.weight U8 1024,1 1024; l.weight.absmax F32 32 128; l.weight.quant_map F32 16 64; "
             "l.weight.quant_state.bitsandbytes__nf4 U8 %zu %zu",
             strlen(nf4), strlen(nf4));
    lmi_buf b = safetensors_made(list);
    memcpy(b.s + b.n - strlen(nf4), nf4, strlen(nf4));
    save_bytes("nf4.safetensors", &b);
    lmi_buf_free(&b);
    lam_model *m = opened("nf4.safetensors");
    lam_costs *c = costs_of(m);
    is_exactly(lam_costs_params(c).params, 2048);
    is_exactly(lam_costs_params(c).logical_bytes, 4096);
    is_exactly(lam_costs_params(c).param_bytes, 1024 + 128 + 64 + (int64_t)strlen(nf4));
    lam_costs_free(c);
    lam_model_free(m);
    b = safetensors_made(
        "l.weight_packed I32 32,9 1152; l.weight_scale F16 32,2 128; l.weight_shape I64 2 16");
    b.s[b.n - 16] = 32; /* 9 numbers of 8 values each hold rows of 65 to 72 */
    b.s[b.n - 8] = 65;
    save_bytes("shape.safetensors", &b);
    lmi_buf_free(&b);
    m = opened("shape.safetensors");
    c = costs_of(m);
    is_exactly(lam_costs_params(c).params, 32 * 65);
    assert_string_equal(lam_model_told(m, "weights"), "4.98 bits a weight: all compressed-int4");
    lam_costs_free(c);
    lam_model_free(m);
}

/* The same as two numbers of 32 bits. */
static void a_shape_may_be_of_32_bits(void **state) {
    (void)state;
    lmi_buf b =
        safetensors_made("l.weight_packed I32 32,7 896; l.weight_scale F16 32,2 128; l.weight_shape I32 2 8");
    b.s[b.n - 8] = 32;
    b.s[b.n - 4] = 65; /* 10 values of 3 bits each */
    save_bytes("shape.safetensors", &b);
    lmi_buf_free(&b);
    lam_model *m = opened("shape.safetensors");
    lam_costs *c = costs_of(m);
    is_exactly(lam_costs_params(c).params, 32 * 65);
    assert_string_equal(lam_model_told(m, "weights"), "3.97 bits a weight: all compressed-int3");
    lam_costs_free(c);
    lam_model_free(m);
}

/* -- an index of shards, and folders --------------------------------------------------------------------- */

static void an_index_joins_its_shards(void **state) {
    (void)state;
    mkdir("whole", 0777);
    save_safetensors("whole/one.safetensors", "a.weight F32 2,2 16");
    save_safetensors("whole/two.safetensors", "b.weight F32 3 12; c.weight F32 1 4");
    static const char index[] = "whole/model.safetensors.index.json";
    save_words(index, "{\"metadata\":{\"total_size\":28},\"weight_map\":{\"a.weight\":\"one.safetensors\","
                      "\"b.weight\":\"two.safetensors\"}}");
    save_words("whole/config.json", "{\"architectures\":[\"LlamaForCausalLM\"]}");
    assert_string_equal(lam_read_format(index), "index");
    for (int i = 0; i < 2; i++) {
        lam_model *m = opened(i ? "whole" : index);
        lam_costs *c = costs_of(m);
        is_exactly(lam_costs_params(c).params, 8);
        assert_string_equal(lam_model_module(m, 0)->type, "LlamaForCausalLM");
        assert_string_equal(lam_model_told(m, "format"), "safetensors, 2 files");
        assert_string_equal(lam_model_note(m, 0), "1 tensor of the shards is not in the index");
        lam_costs_free(c);
        lam_model_free(m);
    }
    save_words(index, "{\"metadata\":{\"total_size\":99},\"weight_map\":{\"a.weight\":\"one.safetensors\"}}");
    lam_model *lies = opened(index);
    assert_string_equal(lam_model_note(lies, 0),
                        "the index says that its tensors take 99 bytes, and they take 16");
    lam_model_free(lies);
    static const char *const bad[][2] = {
        {"{\"weight_map\":{\"a\":\"../whole/one.safetensors\"}}", "no name of a file in the folder"},
        {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "no name of a file in the folder"},
        {"{\"weight_map\":{\"a\":\"..\"}}", "no name of a file in the folder"},
        {"{\"weight_map\":{\"a\":7}}", "no name of a file in the folder"},
        {"{\"weight_map\":{\"a\":\"config.json\"}}", "no file of weights"},
        {"{\"weight_map\":{\"zzz\":\"one.safetensors\"}}", "weight_map.zzz does not have the tensor"},
        {"{\"weight_map\":[]}", "no \"weight_map\""},
        {"{\"weight_map\":{},\"weight_map\":{}}", "'weight_map' stands twice"},
        {"{\"weight_map\":{\"a\":\"one.safetensors\",\"a\":\"two.safetensors\"}}", "'a' stands twice"},
        {"{\"weight_map\":{", "byte"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        save_words(index, bad[i][0]);
        refused(index, LAM_FAILED, bad[i][1]);
    }
    save_words(index, "{\"weight_map\":{\"a\":\"no.safetensors\"}}");
    refused(index, LAM_IO, "No such file");
}

static void copy_sample(const char *name, const char *to) {
    char path[512], bytes[1 << 14];
    lmi_buf b;
    snprintf(path, sizeof path, "%s/files/%s", LAMINA_TEST_DATA, name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    lmi_buf_init(&b);
    lmi_putn(&b, bytes, fread(bytes, 1, sizeof bytes, f));
    fclose(f);
    save_bytes(to, &b);
    lmi_buf_free(&b);
}

/* Of every format, one with a graph too. */
static void a_folder_may_have_a_model_of_any_format(void **state) {
    (void)state;
    static const char *const samples[] = {"net.safetensors", "tiny.gguf",  "state.pt",
                                          "model.pt",        "image.onnx", "net.pt2"};
    mkdir("single", 0777);
    save_words("single/notes.txt", "Dear Sir or Madam");
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        copy_sample(samples[i], "single/model");
        assert_string_equal(lam_read_format("single"), "folder");
        lam_model *m = opened("single");
        assert_true(lam_model_n_places(m) > 0);
        lam_model_free(m);
    }
    oom_sweep_parts(read_once, (void *)(uintptr_t) "single");
}

static void a_folder_is_its_one_model(void **state) {
    (void)state;
    mkdir("several", 0777);
    unlink("several/a.st"); /* of an earlier run */
    unlink("several/b.st");
    assert_null(lam_read_format("several"));
    refused("several", LAM_FAILED, "no model file");
    save_safetensors("several/b.st", "a.weight F32 1 4");
    save_safetensors("several/a.st", "a.weight F32 1 4");
    refused("several", LAM_UNSUPPORTED, "2 model files");
    assert_non_null(strstr(last.text, "several/a.st"));
    mkdir("closed", 0777);
    mkdir("closed/folder", 0777);
    unlink("closed/b"); /* of an earlier run */
    unlink("closed/a");
    assert_int_equal(symlink("b", "closed/b"), 0);
    assert_int_equal(symlink("a", "closed/a"), 0);
    save_words("closed/notes.txt", "Dear Sir or Madam");
    assert_null(lam_read_format("closed"));
    refused("closed", LAM_IO, "it can't be read: ");
    assert_string_equal(last.where, "closed/a");
    save_safetensors("closed/c.st", "a.weight F32 1 4");
    lam_model_free(opened("closed"));
    unlink("closed/c.st");
    refused("no/such/file", LAM_IO, "No such file");
    assert_int_equal(mkfifo("pipe", 0600), 0);
    refused("pipe", LAM_IO, "not a file");
    unlink("pipe");
    save_words("letter", "Dear Sir or Madam");
    assert_null(lam_read_format("letter"));
    refused("letter", LAM_FAILED, "no model file");
    save_words("empty", "");
    refused("empty", LAM_FAILED, "no model file");
    save_words("other.json", "{\"a\": 1}");
    assert_string_equal(lam_read_format("other.json"), "report");
    refused("other.json", LAM_FAILED, "no report");
}

/* -- GGUF ------------------------------------------------------------------------------------------------ */

static void gguf_has_its_types_as_they_are_mixed(void **state) {
    (void)state;
    for (int version = 2; version <= 3; version++) {
        lmi_buf b = gguf_made(version);
        save_bytes("tiny.gguf", &b);
        lmi_buf_free(&b);
        lam_model *m = opened("tiny.gguf");
        lam_costs *c = costs_of(m);
        lam_param_totals p = lam_costs_params(c);
        is_exactly(p.params, 4 * 256 + 2 * 8 * 256 + 256);
        is_exactly(p.param_bytes, 840 + 2 * 1152 + 1024);
        assert_string_equal(lam_model_module(m, 0)->type, "llama");
        assert_string_equal(lam_model_told(m, "format"), version == 2 ? "GGUF 2" : "GGUF 3");
        assert_string_equal(lam_model_told(m, "weights"),
                            "6.20 bits a weight: q4_K 76 %, q6_K 19 %, float32 4.8 %");
        is_exactly(row_of(c, "blk.1.attn_q")->params, 2048);
        is_exactly(row_of(c, "blk")->below->param_bytes, 2 * 1152 + 1024);
        const lam_module *root = lam_model_module(m, 0);
        assert_int_equal(root->n_attrs, 3);
        assert_string_equal(root->attrs[0].value.text, "Tiny");
        assert_string_equal(root->attrs[1].name, "block_count");
        assert_int_equal(root->attrs[1].value.i, 2);
        assert_true(root->attrs[2].value.f == 10000.0);
        lam_costs_free(c);
        lam_model_free(m);
    }
}

/* A file without tensors ends where its data would begin, and is a vocabulary. */
static void gguf_of_a_vocabulary_has_no_parameters(void **state) {
    (void)state;
    lmi_buf b;
    gguf_begin(&b, 3, 0, 1);
    gguf_text(&b, "general.architecture", "bert");
    save_bytes("vocab.gguf", &b);
    lmi_buf_free(&b);
    lam_model *m = opened("vocab.gguf");
    lam_costs *c = costs_of(m);
    is_exactly(lam_costs_params(c).params, 0);
    lam_costs_free(c);
    lam_model_free(m);
}

static lmi_buf one_tensor(uint64_t size, int type, uint64_t offset, size_t data) {
    lmi_buf b;
    gguf_begin(&b, 3, 1, 0);
    gguf_tensor(&b, "a.weight", size, 0, type, offset);
    gguf_data(&b, 32, data);
    return b;
}

static void damaged_gguf_is_refused(void **state) {
    (void)state;
    lmi_buf b;
    refused_bytes(one_tensor(256, 12, 0, 143), LAM_FAILED, "reaches behind the end");
    refused_bytes(one_tensor(256, 12, 16, 200), LAM_FAILED, "alignment");
    refused_bytes(one_tensor(255, 12, 0, 200), LAM_FAILED, "whole blocks");
    refused_bytes(one_tensor(256, 4, 0, 200), LAM_UNSUPPORTED, "type 4");
    refused_bytes(one_tensor(UINT64_MAX, 0, 0, 0), LAM_FAILED, "63 bits");
    refused_bytes(one_tensor((uint64_t)INT64_MAX, 0, 0, 0), LAM_FAILED, "more bytes");
    refused_bytes(one_tensor(1, 0, UINT64_MAX - 31, 32), LAM_FAILED, "reaches behind the end");
    gguf_begin(&b, 3, 2, 0);
    gguf_tensor(&b, "a", 16, 0, 0, 0);
    gguf_tensor(&b, "b", 16, 0, 0, 32);
    gguf_data(&b, 32, 128);
    refused_bytes(b, LAM_FAILED, "overlaps");
    gguf_begin(&b, 3, 2, 0);
    gguf_tensor(&b, "a", 8, 0, 0, 0);
    gguf_tensor(&b, "a", 8, 0, 0, 32);
    gguf_data(&b, 32, 64);
    refused_bytes(b, LAM_FAILED, "two tensors 'a'");
    gguf_begin(&b, 3, 1, 0);
    put_gguf_text(&b, "a");
    put_le(&b, 3, 4);
    for (int i = 0; i < 3; i++) put_le(&b, (uint64_t)1 << 40, 8);
    put_le(&b, 0, 4);
    put_le(&b, 0, 8);
    refused_bytes(b, LAM_FAILED, "more elements");
    gguf_begin(&b, 3, 1, 0);
    put_gguf_text(&b, "a");
    put_le(&b, 5, 4);
    lmi_pad(&b, '\0', 60);
    refused_bytes(b, LAM_FAILED, "4 axes");
    static const uint64_t counts[][2] = {{UINT64_MAX, 0}, {0, UINT64_MAX}, {1, 1}};
    for (int i = 0; i < 3; i++) {
        gguf_begin(&b, 3, counts[i][0], counts[i][1]);
        refused_bytes(b, LAM_FAILED, i == 1 ? "more keys" : "more tensors");
    }
    gguf_begin(&b, 1, 0, 0);
    refused_bytes(b, LAM_UNSUPPORTED, "version 1");
    gguf_begin(&b, 0x03000000, 0, 0);
    refused_bytes(b, LAM_UNSUPPORTED, "other byte order");
}

static lmi_buf one_key(const char *key, int type) {
    lmi_buf b;
    gguf_begin(&b, 3, 0, 1);
    put_gguf_text(&b, key);
    put_le(&b, (uint64_t)type, 4);
    return b;
}

static void damaged_keys_of_gguf_are_refused(void **state) {
    (void)state;
    static const uint64_t alignments[] = {0, 3, 33, UINT32_MAX};
    lmi_buf b;
    for (int i = 0; i < 4; i++) {
        gguf_begin(&b, 3, 0, 1);
        gguf_number(&b, "general.alignment", 4, alignments[i], 4);
        refused_bytes(b, LAM_FAILED, "power of 2");
    }
    gguf_begin(&b, 3, 0, 2);
    gguf_number(&b, "k", 4, 1, 4);
    gguf_number(&b, "k", 4, 1, 4);
    refused_bytes(b, LAM_FAILED, "twice");
    b = one_key("k", 99);
    refused_bytes(b, LAM_FAILED, "type that is not known");
    b = one_key("k", 8);
    put_le(&b, UINT64_MAX, 8);
    refused_bytes(b, LAM_FAILED, "longer than the file");
    b = one_key("k", 8);
    put_le(&b, 2, 8);
    lmi_putn(&b, "\0a", 2);
    refused_bytes(b, LAM_FAILED, "NUL");
    b = one_key("k", 9);
    put_le(&b, 10, 4);
    put_le(&b, UINT64_MAX / 8, 8);
    refused_bytes(b, LAM_FAILED, "longer than the file");
    b = one_key("k", 9);
    for (int i = 0; i < 10; i++) {
        put_le(&b, 9, 4);
        put_le(&b, 1, 8);
    }
    refused_bytes(b, LAM_FAILED, "too deep");
    b = one_key("k", 9); /* two lists in a list, one of them empty */
    put_le(&b, 9, 4);
    put_le(&b, 2, 8);
    put_le(&b, 4, 4);
    put_le(&b, 2, 8);
    put_le(&b, 77, 8);
    put_le(&b, 8, 4);
    put_le(&b, 0, 8);
    save_bytes("lists.gguf", &b);
    lmi_buf_free(&b);
    lam_model_free(opened("lists.gguf"));
}

/* A part of two, with one tensor. */
static void save_part(const char *file, const char *tensor, uint64_t part, uint64_t parts) {
    lmi_buf b;
    gguf_begin(&b, 3, 1, 2);
    gguf_number(&b, "split.no", 2, part, 2);
    gguf_number(&b, "split.count", 2, parts, 2);
    gguf_tensor(&b, tensor, 8, 0, 0, 0);
    gguf_data(&b, 32, 32);
    save_bytes(file, &b);
    lmi_buf_free(&b);
}

static void gguf_in_parts_is_read_from_the_first(void **state) {
    (void)state;
    save_part("m-00001-of-00002.gguf", "a.weight", 0, 2);
    save_part("m-00002-of-00002.gguf", "b.weight", 1, 2);
    lam_model *m = opened("m-00001-of-00002.gguf");
    lam_costs *c = costs_of(m);
    is_exactly(lam_costs_params(c).params, 16);
    assert_string_equal(lam_model_told(m, "format"), "GGUF 3, 2 files");
    lam_costs_free(c);
    lam_model_free(m);
    refused("m-00002-of-00002.gguf", LAM_FAILED, "give the first part");
    mkdir("halves", 0777);
    unlink("halves/other.gguf"); /* of an earlier run */
    save_part("halves/m-00001-of-00002.gguf", "a.weight", 0, 2);
    save_part("halves/m-00002-of-00002.gguf", "b.weight", 1, 2);
    lam_model_free(opened("halves"));
    save_part("halves/other.gguf", "a.weight", 0, 1);
    refused("halves", LAM_UNSUPPORTED, "3 model files");
    save_part("m-00002-of-00002.gguf", "b.weight", 0, 2);
    refused("m-00001-of-00002.gguf", LAM_FAILED, "it says that it is part 1 of 2");
    unlink("m-00002-of-00002.gguf");
    refused("m-00001-of-00002.gguf", LAM_IO, "No such file");
    save_part("alone.gguf", "a.weight", 0, 2);
    refused("alone.gguf", LAM_FAILED, "-00001-of-00002.gguf");
}

static void no_allocation_is_needed(void **state) {
    (void)state;
    lmi_buf b = gguf_made(3);
    save_bytes("oom.gguf", &b);
    lmi_buf_free(&b);
    oom_sweep_parts(read_once, (void *)"oom.gguf");
    mkdir("sweep", 0777);
    save_safetensors("sweep/one.st",
                     "l.qweight I32 8,32 1024; l.scales F16 2,32 128; l.g_idx I32 64 256; n.w F32 1 4");
    save_words("sweep/index.json", "{\"weight_map\":{\"l.qweight\":\"one.st\"}}");
    oom_sweep_parts(read_once, (void *)"sweep/index.json");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_names_of_tensors_are_a_tree),
        cmocka_unit_test(names_share_their_beginnings),
        cmocka_unit_test(every_type_of_safetensors_has_its_bytes),
        cmocka_unit_test(damaged_safetensors_are_refused),
        cmocka_unit_test(packed_weights_have_the_shape_of_their_values),
        cmocka_unit_test(bits_are_told_in_several_ways),
        cmocka_unit_test(experts_have_their_scales),
        cmocka_unit_test(tensors_that_tell_a_shape_are_read),
        cmocka_unit_test(a_shape_may_be_of_32_bits),
        cmocka_unit_test(an_index_joins_its_shards),
        cmocka_unit_test(a_folder_may_have_a_model_of_any_format),
        cmocka_unit_test(a_folder_is_its_one_model),
        cmocka_unit_test(gguf_has_its_types_as_they_are_mixed),
        cmocka_unit_test(gguf_of_a_vocabulary_has_no_parameters),
        cmocka_unit_test(damaged_gguf_is_refused),
        cmocka_unit_test(damaged_keys_of_gguf_are_refused),
        cmocka_unit_test(gguf_in_parts_is_read_from_the_first),
        cmocka_unit_test(no_allocation_is_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
