/* SPDX-License-Identifier: Apache-2.0
 *
 * Packed weights whose parts or configuration are odd: their sizes are known, or unknown, and never those of
 * the bytes that hold them. */
#include "kit/weights.h"

#include <sys/stat.h>

typedef struct odd {
    const char *list, *config;
    int64_t params;      /* -1: unknown */
    const char *weights; /* as the model tells them; NULL: it does not */
} odd;

#define GPTQ         "l.qweight I32 8,32 1024; l.qzeros I32 2,4 32; l.scales F16 2,32 128"
#define COMPRESSED   "l.weight_packed I32 32,8 1024; l.weight_scale BF16 32,2 128"
#define MLX          "l.weight U32 32,8 1024; l.scales BF16 32,1 64"
#define QUANTISED(x) "{\"quantization_config\":{" x "}}"
#define GROUPS(x)    "{\"quantization_config\":{\"config_groups\":{" x "}}}"

static void are_told(const odd *all, size_t n) {
    mkdir("oddly", 0777);
    for (size_t i = 0; i < n; i++) {
        save_safetensors("oddly/model.safetensors", all[i].list);
        save_words("oddly/config.json", all[i].config);
        lam_model *m = opened("oddly");
        lam_costs *c = costs_of(m);
        const lam_count p = lam_costs_params(c).params;
        const int64_t params = p.state == LAM_EXACT ? p.n : -1;
        const char *weights = lam_model_told(m, "weights");
        if (params != all[i].params ||
            strcmp(weights ? weights : "", all[i].weights ? all[i].weights : "") != 0)
            fail_msg("%zu: %s, %s: %lld, %s", i, all[i].list, all[i].config, (long long)params,
                     weights ? weights : "nothing");
        lam_costs_free(c);
        lam_model_free(m);
    }
}

/* Bits and groups that can't be are none, and the rest of a configuration counts. */
static void configurations_may_be_odd(void **state) {
    (void)state;
    static const odd all[] = {
        {GPTQ, QUANTISED("\"bits\":0"), -1, NULL},
        {GPTQ, QUANTISED("\"bits\":65"), -1, NULL},
        {GPTQ, QUANTISED("\"bits\":\"four\""), -1, NULL},
        {GPTQ, QUANTISED("\"w_bit\":4,\"group_size\":-1"), 2048, "4.63 bits a weight: all gptq-int4"},
        {COMPRESSED, GROUPS("\"a\":{\"weights\":{\"num_bits\":4}},\"b\":{\"weights\":{\"num_bits\":4}}"),
         2048, "4.50 bits a weight: all compressed-int4"},
        {COMPRESSED,
         GROUPS("\"a\":{\"weights\":{\"num_bits\":4,\"group_size\":32}},"
                "\"b\":{\"weights\":{\"num_bits\":4,\"group_size\":64}}"),
         -1, NULL},
        {COMPRESSED,
         GROUPS("\"a\":{\"weights\":{\"num_bits\":4}},\"b\":{\"weights\":{\"num_bits\":8}},"
                "\"c\":{\"weights\":{\"num_bits\":8}}"),
         -1, NULL},
        {COMPRESSED, "{\"architectures\":[7,\"\",\"Net\"],\"quantization_config\":{\"bits\":4}}", 2048,
         "4.50 bits a weight: all compressed-int4"},
        {MLX, "{\"quantization\":{\"group_size\":64,\"bits\":4,\"mode\":\"affine\"}}", 2048,
         "4.25 bits a weight: all mlx-int4"},
        {MLX, "{\"quantization\":{\"group_size\":64,\"bits\":4,\"mode\":\"\",\"l\":{\"bits\":4}}}", 2048,
         "4.25 bits a weight: all mlx-int4"},
        {MLX, "{\"quantization\":{\"bits\":4},\"quantization_config\":{\"bits\":4,\"quant_method\":\"mlx\"}}",
         2048, "4.25 bits a weight: all mlx-int4"},
        {MLX, "{}", -1, NULL}, /* bits are told nowhere */
    };
    are_told(all, sizeof all / sizeof *all);
}

static void the_class_of_a_whole_is_told(void **state) {
    (void)state;
    static const struct {
        const char *config, *type;
    } all[] = {
        {"{\"_class_name\":\"UNet2DConditionModel\"}", "UNet2DConditionModel"}, /* of diffusers */
        {"{\"_class_name\":\"A\",\"architectures\":[\"Net\"]}", "Net"},
        {"{\"_class_name\":7}", "?"},
    };
    mkdir("oddly", 0777);
    save_safetensors("oddly/model.safetensors", "l.weight F32 2 8");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        save_words("oddly/config.json", all[i].config);
        lam_model *m = opened("oddly");
        assert_string_equal(lam_model_module(m, 0)->type, all[i].type);
        lam_model_free(m);
    }
}

/* Parts of no size, of other axes, or of two weights. */
static void parts_may_be_odd(void **state) {
    (void)state;
    static const char four[] = QUANTISED("\"bits\":4");
    static const odd all[] = {
        {"l.qweight I32 32,8 1024; l.scales F16 32,8 512", QUANTISED("\"version\":\"gemv\""), -1, NULL},
        {"l.qweight I32 8,32 1024; l.scales F16 2,0 0", four, 0, NULL},
        {"l.qweight I32 8,32 1024; l.scales F16 32 64", four, 32, "16.0 bits a weight: all float16"},
        {"l.qweight I32 1024 4096; l.scales F16 2,32 128", four, 64, "16.0 bits a weight: all float16"},
        {"l.qweight I32 8,32 1024; l.weight U32 32,8 1024; l.scales F16 2,32 128", four, 4096,
         "4.25 bits a weight: gptq-int4 50 %, mlx-int4 50 %"},
        {"l_blocks U8 16 16; l_scales U8 - 1", "{}", 0, NULL},
        {"l_blocks I16 2,16 64; l_scales U8 2 2", "{}", 0, NULL},
        {"l_blocks U8 2,15 30; l_scales U8 2 2", "{}", 0, NULL},
        {"l_blocks U8 2,16 32; l_scales U8 2,1 2", "{}", 0, NULL},
        {"l.weight U32 32,8 1024; l.scales BF16 32,0 0", "{\"quantization\":{\"group_size\":64,\"bits\":4}}",
         2048, "4.00 bits a weight: all mlx-int4"},
        {"l.weight U32 4,8 128; l.scales BF16 4,1 8", "{\"quantization\":{\"group_size\":1,\"bits\":4}}", 256,
         "4.25 bits a weight: all mlx-int4"},
        {"l.weight U32 4,8 128; l.scales BF16 4 8", "{\"quantization\":{\"group_size\":1,\"bits\":4}}", 256,
         "4.25 bits a weight: all mlx-int4"},
        {"l.weight U8 - 1; l.weight_scale F32 - 4", "{}", 1, "32.0 bits a weight: all float32"},
        {"l.weight U8 32,32 1024; l.weight_scale F8_E4M3 32,0 0", "{}", 1024, "8.00 bits a weight: all int8"},
        {"l.up U8 4 4; l.up_scale F32 - 4", "{}", 1, "32.0 bits a weight: all float32"},
        {"l.up I16 4,4 32; l.up_scale F32 - 4", "{}", 1, "32.0 bits a weight: all float32"},
        {"l.weight_packed I32 32 128; l.weight_scale BF16 32,2 128", four, 64,
         "16.0 bits a weight: all bfloat16"},
    };
    are_told(all, sizeof all / sizeof *all);
}

/* Of HQQ the shape is a value, and of optimum-quanto's bits a group's size is not told. A layer alone has
 * names without a stem. */
static void layers_may_be_alone_or_tell_their_sizes_elsewhere(void **state) {
    (void)state;
    static const odd all[] = {
        {"0.weight._data I8 8,16 128; 0.weight._scale F32 8,1 32; 0.input_scale F32 - 4; 0.bias F32 8 32",
         "{}", 136, "11.5 bits a weight: int8 94 %, float32 5.9 %"},
        {"0.weight._data F8_E4M3 8,16 128; 0.weight._scale F32 8,1 32", "{}", 128,
         "10.0 bits a weight: all fp8"},
        {"0.weight._data._data U8 8,16 128; 0.weight._scale F32 8,1 32; 0.weight._shift F32 8,1 32; 0.bias "
         "F32 8 32",
         "{}", -1, NULL},
        {"0.weight._data I8 8,16 128; 0.bias F32 8 32", "{}", 8, "32.0 bits a weight: all float32"},
        {"0.weight._data I16 8,16 256; 0.weight._scale F32 8,1 32", "{}", 8,
         "32.0 bits a weight: all float32"},
        {"W_q U8 8,16 128; scale F16 8,1 16; zero F16 8,1 16; nbits I32 - 4; bias F16 8 16", "{}", -1, NULL},
        {"W_q U8 8,16 128; scale F16 8,1 16", "{}", 8, "16.0 bits a weight: all float16"},
        {"weight I8 32,32 1024; SCB F32 32 128", "{}", 1024, "9.00 bits a weight: all int8"},
        {"qweight I32 8,32 1024; qzeros I32 2,4 32; scales F16 2,32 128", QUANTISED("\"bits\":4"), 2048,
         "4.63 bits a weight: all gptq-int4"},
    };
    are_told(all, sizeof all / sizeof *all);
    lmi_buf b = safetensors_made("l.W_q U8 4,16 64; l.scale F16 2,1 4; l.zero F16 2,1 4; l.shape I64 2 16");
    b.s[b.n - 16] = 8;
    b.s[b.n - 8] = 16;
    save_bytes("hqq.safetensors", &b);
    lmi_buf_free(&b);
    lam_model *m = opened("hqq.safetensors");
    lam_costs *c = costs_of(m);
    is_exactly(lam_costs_params(c).params, 128);
    lam_costs_free(c);
    lam_model_free(m);
}

/* A shape that could be of two widths is that of the stated one. */
static void a_told_shape_may_be_of_the_stated_bits(void **state) {
    (void)state;
    static const int64_t bits[] = {3, 4, 5};
    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
        lmi_buf b = safetensors_made(
            "l.weight_packed I32 8,2 64; l.weight_scale BF16 8,1 16; l.weight_shape I64 2 16");
        char config[64];
        b.s[b.n - 16] = 8;
        b.s[b.n - 8] = 16; /* two numbers hold 16 values of 3 or 4 bits, and at most 12 of 5 */
        mkdir("told", 0777);
        save_bytes("told/model.safetensors", &b);
        lmi_buf_free(&b);
        snprintf(config, sizeof config, QUANTISED("\"bits\":%d"), (int)bits[i]);
        save_words("told/config.json", config);
        lam_model *m = opened("told");
        lam_costs *c = costs_of(m);
        is_exactly(lam_costs_params(c).params, 128);
        const char *weights = lam_model_told(m, "weights");
        const char *end = bits[i] == 3 ? "compressed-int3" : bits[i] == 4 ? "compressed-int4" : "compressed";
        if (!weights || strcmp(weights + strlen(weights) - strlen(end), end) != 0)
            fail_msg("%d: %s", (int)bits[i], weights ? weights : "nothing");
        lam_costs_free(c);
        lam_model_free(m);
    }
}

/* bitsandbytes' state: a shape of too many axes, or not of numbers, is none. */
static void a_state_may_be_odd(void **state) {
    (void)state;
    static const char *const states[] = {
        "{\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
        "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}",
        "{\"shape\":[\"four\",32]}", "{\"shape\":\"4,32\"}", "{\"shape\":[-4,32]}"};
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        char list[256];
        const size_t n = strlen(states[i]);
        snprintf(list, sizeof list,
                 "l.weight U8 64,1 64; l.weight.absmax F32 2 8; l.weight.quant_map F32 16 64; "
                 "l.weight.quant_state.bitsandbytes__nf4 U8 %zu %zu",
                 n, n);
        lmi_buf b = safetensors_made(list);
        memcpy(b.s + b.n - n, states[i], n);
        save_bytes("state.safetensors", &b);
        lmi_buf_free(&b);
        lam_model *m = opened("state.safetensors");
        lam_costs *c = costs_of(m);
        assert_int_equal(lam_costs_params(c).params.state, LAM_UNKNOWN);
        lam_costs_free(c);
        lam_model_free(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(configurations_may_be_odd),
        cmocka_unit_test(parts_may_be_odd),
        cmocka_unit_test(layers_may_be_alone_or_tell_their_sizes_elsewhere),
        cmocka_unit_test(a_told_shape_may_be_of_the_stated_bits),
        cmocka_unit_test(a_state_may_be_odd),
        cmocka_unit_test(the_class_of_a_whole_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
