/* SPDX-License-Identifier: Apache-2.0
 *
 * Which constants of an ONNX file are parameters and which are buffers, and what types of values it states.
 */
#include "kit/onnx.h"

/* -- constants ------------------------------------------------------------------------------------------- */

/* A graph of one node with attributes "K=64 N=10" and x as input, and constants "name type sizes bytes; ...",
 * by a producer. */
static void save_constants_of(const char *file, const char *node, const char *attributes,
                              const char *constants, const char *producer) {
    lmi_buf g = begun(), y = begun(), made = node_of(node);
    char one[128];
    int used;
    for (; sscanf(attributes, " %127s%n", one, &used) == 1; attributes += used) {
        lmi_buf a = begun();
        put_bytes(&a, 1, one, strcspn(one, "="));
        put_number(&a, 3, (uint64_t)strtoll(strchr(one, '=') + 1, NULL, 10));
        put_message(&made, 5, &a);
    }
    put_message(&g, 1, &made);
    for (const char *at = constants; *at;) {
        const size_t n = strcspn(at, ";");
        snprintf(one, sizeof one, "%.*s", (int)n, at);
        put_tensor(&g, 5, one);
        at += n + (at[n] == ';');
    }
    put_stated(&g, 11, "x 2,4");
    put_word(&y, 1, "y");
    put_message(&g, 12, &y);
    lmi_buf b = model_of(&g);
    if (producer) put_word(&b, 2, producer);
    save_bytes(file, &b);
    lmi_buf_free(&b);
}

static void save_constants(const char *file, const char *node, const char *constants, const char *producer) {
    save_constants_of(file, node, "", constants, producer);
}

static void constants_are_parameters_buffers_or_neither(void **state) {
    (void)state;
    static const struct {
        const char *node, *constants, *producer;
        int64_t params, buffers;
    } all[] = {
        {"MatMul x,w y -", "w 1 4,4 64", NULL, 16, 0},
        {"MatMul x,w y -", "w 10 4,4 32", NULL, 16, 0},
        {"MatMul x,w y -", "w 11 4,4 128", NULL, 16, 0},
        {"MatMul x,w y -", "w 16 4,4 32", NULL, 16, 0},
        {"MatMul x,w y -", "w 14 4,4 128", NULL, 16, 0},
        {"MatMul x,w y -", "w 15 4,4 256", NULL, 16, 0},
        {"MatMulInteger x,w y -", "w 3 4,4 16", NULL, 16, 0},
        {"Where w,x,x y -", "w 9 4 4", NULL, 0, 0}, /* truth values */
        /* what no node reads */
        {"Relu x y -", "w 1 4 16", NULL, 4, 0},
        {"Relu x y -", "w 7 4 32", NULL, 0, 0},
        /* numbers of one element are factors, unless a module has them */
        {"Mul x,w y -", "w 1 1 4", NULL, 0, 0},
        {"Mul x,w y -", "w 1 - 4", NULL, 0, 0},
        {"Mul x,a.scale y -", "a.scale 1 1 4", NULL, 1, 0},
        {"Mul x,a.w_scale y -", "a.w_scale 1 1 4", NULL, 1, 0},
        {"Mul x,a.w_scale y -", "a.w_scale 1 1 4;a.w_quantized 3 2 2", NULL, 2, 0}, /* of that one */
        {"Mul x,a.w_zero_point y -", "a.w_zero_point 1 1 4;a.w_quantized 3 2 2", NULL, 2, 0},
        /* whole numbers are buffers if a module has them */
        {"Add x,w y -", "w 7 4 32", NULL, 0, 0},
        {"Add x,a.w y -", "a.w 7 4 32", NULL, 0, 4},
        {"DequantizeLinear w,s y -", "w 6 4 16;s 1 1 4", NULL, 4, 0},
        {"DequantizeLinear x,s,z y -", "z 6 4 16;s 1 4 16", NULL, 0, 0},
        {"QLinearConv x,s,s,w,s,s,s,s,b y -", "w 3 4,4,1,1 16;s 1 1 4;b 6 4 16", NULL, 16 + 4, 0},
        {"BatchNormalization x,a,b,m,v y -", "a 1 4 16;b 1 4 16;m 1 4 16;v 1 4 16", NULL, 8, 8},
        /* repeated: a token has a name, a state of zeros has none */
        {"Expand w,s y -", "w 1 1,4 16;s 7 2 16", NULL, 0, 0},
        {"Expand cls.w,s y -", "cls.w 1 1,4 16;s 7 2 16", NULL, 4, 0},
        {"Tile w,s y -", "w 1 1,4 16;s 7 2 16", "pytorch", 4, 0},
        {"Tile w_7,s y -", "w_7 1 1,4 16;s 7 2 16", "pytorch", 0, 0},
        {"Tile w,s y -", "w 1 1,4 16;s 7 2 16", "other", 0, 0},
        /* settings */
        {"Reshape x,s y -", "s 7 2 16", NULL, 0, 0},
        {"Clip x,s y -", "s 1 2 8", NULL, 0, 0},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        save_constants("constants.onnx", all[i].node, all[i].constants, all[i].producer);
        lam_model *m = opened("constants.onnx");
        lam_costs *c = costs_of(m);
        const lam_param_totals p = lam_costs_params(c);
        if (p.params.n != all[i].params || p.buffers.n != all[i].buffers)
            fail_msg("%s (%s): %lld parameters, %lld in buffers", all[i].node, all[i].constants,
                     (long long)p.params.n, (long long)p.buffers.n);
        lam_costs_free(c);
        lam_model_free(m);
    }
}

/* The numbers of packed weights, and the bytes of all that holds them: int8 is type 3, uint8 2, int4 22. */
static void packed_weights_have_the_shape_of_their_numbers(void **state) {
    (void)state;
    static const struct {
        const char *node, *attributes, *constants;
        int64_t params, bytes;
        int32_t dtype;
    } all[] = {
        {"ms.MatMulNBits x,w,s,z y -", "K=64 N=10 bits=4 block_size=32",
         "w 2 10,2,16 320;s 1 20 80;z 2 10 10", 640, 410, 6},
        {"ms.MatMulNBits x,w,s y -", "K=64 N=10 bits=2 block_size=32", "w 2 10,2,8 160;s 10 20 40", 640, 200,
         5},
        {"ms.MatMulNBits x,w,s y -", "bits=4", "w 2 10,2,16 320;s 1 20 80", 320, 320, 0},
        {"ms.MatMulBnb4 x,w,s y -", "K=64 N=10", "w 2 320 320;s 1 10 40", 640, 360, 6},
        {"ms.GatherBlockQuantized w,x,s y -", "", "w 2 9,8 72;s 1 9 36", 144, 108, 6},
        {"ms.GatherBlockQuantized w,x,s y -", "bits=8", "w 2 9,8 72;s 1 9 36", 72, 108, 6},
        {"ms.GatherBlockQuantized w,x,s y -", "bits=0", "w 2 9,8 72;s 1 9 36", 72, 72, 0},
        {"ms.GatherBlockQuantized w,x,s y -", "", "w 22 9,8 36;s 1 9 36", 72, 36, 40},
        {"ms.QMoE x,x,w,s,-,v,t,-,-,-,-,z y -", "k=2",
         "w 2 3,8,2 48;s 1 3,8 96;v 2 3,4,4 48;t 1 3,4 48;z 2 3,4 12", 96 + 96, 48 + 96 + 12 + 48 + 48, 6},
        {"ms.QMoE x,x,w,s,-,v,t y -", "expert_weight_bits=8 fc2_expert_weight_bits=4",
         "w 2 3,8,2 48;s 1 3,8 96;v 2 3,4,4 48;t 1 3,4 48", 48 + 96, 48 + 96 + 48 + 48, 6},
        {"MatMulNBits x,w,s y -", "K=64 N=10", "w 2 10,2,16 320;s 1 20 80", 340, 400,
         0}, /* of another domain */
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        save_constants_of("packed.onnx", all[i].node, all[i].attributes, all[i].constants, NULL);
        lam_model *m = opened("packed.onnx");
        lam_costs *c = costs_of(m);
        const lam_param_totals p = lam_costs_params(c);
        if (p.params.n != all[i].params || p.param_bytes.n != all[i].bytes ||
            lam_model_tensor(m, 0)->dtype != all[i].dtype)
            fail_msg("%s (%s): %lld parameters in %lld bytes, type %d", all[i].node, all[i].constants,
                     (long long)p.params.n, (long long)p.param_bytes.n, (int)lam_model_tensor(m, 0)->dtype);
        lam_costs_free(c);
        lam_model_free(m);
    }
    oom_sweep_parts(read_once, "packed.onnx");
}

/* -- types ----------------------------------------------------------------------------------------------- */

/* The TypeProto of a tensor of float32, 2 by 3, inside `depth` fields of these numbers. */
static lmi_buf type_within(const int *fields, int depth) {
    lmi_buf type = begun(), tensor = begun(), sizes = begun();
    for (int i = 2; i <= 3; i++) {
        lmi_buf axis = begun();
        put_number(&axis, 1, (uint64_t)i);
        put_message(&sizes, 1, &axis);
    }
    put_number(&tensor, 1, 1);
    put_message(&tensor, 2, &sizes);
    put_message(&type, 1, &tensor);
    for (int i = depth - 1; i >= 0; i--) {
        lmi_buf inner = begun(), outer = begun();
        put_message(&inner, 1, &type);
        put_message(&outer, (uint64_t)fields[i], &inner);
        type = outer;
    }
    return type;
}

/* The FLOPs of Relu tell whether the shape of what it reads is known. */
static void types_of_values_are_read(void **state) {
    (void)state;
    enum { SEQUENCE = 4, MAP, OPAQUE = 7, SPARSE, OPTIONAL, NEW };
    static const struct {
        const char *node;
        int fields[2], depth;
        bool known;
    } all[] = {
        {"Identity x t -", {0}, 0, true},
        {"SequenceAt x,i t -", {SEQUENCE}, 1, false}, /* elements may have other shapes than is stated */
        {"OptionalGetElement x t -", {OPTIONAL}, 1, true},
        {"Identity x t -", {SEQUENCE}, 1, false},
        {"Identity x t -", {MAP}, 1, false},
        {"Identity x t -", {OPAQUE}, 1, false},
        {"Identity x t -", {SPARSE}, 1, false},
        {"Identity x t -", {NEW}, 1, false},
        {"SequenceAt x,i t -", {SEQUENCE, SEQUENCE}, 2, false},
        {"SequenceAt x,i t -", {SEQUENCE, OPTIONAL}, 2, false},
        {"OptionalGetElement x t -", {OPTIONAL, SEQUENCE}, 2, false},
        {"OptionalGetElement x t -", {OPTIONAL, MAP}, 2, false},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        lmi_buf g = begun(), x = begun(), y = begun(), type = type_within(all[i].fields, all[i].depth);
        put_node(&g, all[i].node);
        put_node(&g, "Relu t y -");
        put_constant(&g, "i", "=0");
        put_word(&x, 1, "x");
        put_message(&x, 2, &type);
        put_message(&g, 11, &x);
        put_word(&y, 1, "y");
        put_message(&g, 12, &y);
        save_graph("types.onnx", &g);
        lam_model *m = opened("types.onnx");
        lam_costs *c = costs_of(m);
        const lam_count flops = lam_costs_total(c, LAM_FLOPS);
        if ((flops.state == LAM_EXACT) != all[i].known || (all[i].known && flops.n != 6))
            fail_msg("%s of a type %d in %d: %lld FLOPs, state %d", all[i].node, all[i].fields[1],
                     all[i].fields[0], (long long)flops.n, flops.state);
        lam_costs_free(c);
        lam_model_free(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constants_are_parameters_buffers_or_neither),
        cmocka_unit_test(packed_weights_have_the_shape_of_their_numbers),
        cmocka_unit_test(types_of_values_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
