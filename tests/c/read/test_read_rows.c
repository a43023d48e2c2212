/* SPDX-License-Identifier: Apache-2.0
 *
 * The values of packed weights whose numbers lie row by row. Each tensor of a file here has the same byte
 * everywhere, so that all values of a weight are one number. */
#include "kit/damaged.h"

#include "read/weights/weights.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

typedef struct made {
    const char *list;   /* as safetensors_made */
    const char *bytes;  /* of each tensor of the list, two digits */
    const char *config; /* NULL: none */
    const char *sizes;  /* of the values */
    double value;       /* that all of them are */
} made;

/* As numbers: 0x3f everywhere is 1.875 as float8_e4m3fn, 0.74609375 as bfloat16; 0x80 is 2 as an exponent. */
#define BF16            0.74609375
#define LARGE           (0xc04040 / 4194304.0)  /* 0x40 as float32 */
#define SMALL           (0xbf3f3f / 16777216.0) /* 0x3f */
#define MLX(bits, mode) "{\"quantization\":{\"bits\":" bits ",\"group_size\":32" mode "}}"
#define STATE           "l.weight.quant_state.bitsandbytes__nf4 U8 70 70"

static const char known_state[] =
    "{\"blocksize\":64,\"nested_blocksize\":2,\"nested_offset\":1,\"shape\":[4,32]}";

static const made known[] = {
    {"l.weight U32 4,4 64; l.scales BF16 4,1 8; l.biases BF16 4,1 8", "33 3f 3f", MLX("4", ""), "4,32",
     4 * BF16},
    {"l.weight U32 4,6 96; l.scales BF16 4,2 16; l.biases BF16 4,2 16", "ff 3f 3f", MLX("3", ""), "4,64",
     8 * BF16},
    {"l.weight U32 2,8 64; l.scales BF16 2,1 4", "3f 3f", MLX("8", ""), "2,32", 63 * BF16},
    {"l.weight U32 4,4 64; l.scales U8 4,1 4", "33 80", MLX("4", ",\"mode\":\"mxfp4\""), "4,32", 3},
    {"l.weight U32 4,2 32; l.scales U8 4,1 4", "33 3f",
     "{\"quantization\":{\"bits\":4,\"group_size\":16,\"mode\":\"nvfp4\"}}", "4,16", 1.5 * 1.875},
    {"l.weight U32 4,8 128; l.scales U8 4,1 4", "3f 80", MLX("8", ",\"mode\":\"mxfp8\""), "4,32", 3.75},
    {"l.weight_packed I32 8,1 32; l.weight_scale BF16 8,1 16; l.weight_shape I64 2 16", "aa 3f 00",
     "{\"quantization_config\":{\"bits\":4}}", "8,8", 2 * BF16},
    {"l.weight_packed I32 8,2 64; l.weight_scale BF16 8,2 32; l.weight_zero_point I32 1,2 8", "aa 3f 99",
     "{\"quantization_config\":{\"bits\":4}}", "8,16", BF16},
    {"l.weight_packed I32 8,2 64; l.weight_scale BF16 8,4 64", "aa 3f",
     "{\"quantization_config\":{\"bits\":4,\"group_size\":32}}", "8,16", 2 * BF16},
    {"l.weight_packed I32 8,2 64; l.weight_scale BF16 8,2 32; l.weight_zero_point I8 8,2 16", "aa 3f ff",
     "{\"quantization_config\":{\"bits\":4}}", "8,16", 3 * BF16},
    {"l.weight_packed I32 8,2 64; l.weight_scale BF16 8,2 32; l.weight_g_idx I32 16 64", "aa 3f 00",
     "{\"quantization_config\":{\"bits\":4}}", "8,16", 2 * BF16},
    {"l.weight_packed I32 8,2 64; l.weight_scale BF16 8,2 32; l.weight_g_idx I32 16 64", "aa 3f ff",
     "{\"quantization_config\":{\"bits\":4}}", "8,16", 2 * BF16},
    {"l.weight_packed U8 8,8 64; l.weight_scale F8_E4M3 8,1 8; l.weight_global_scale BF16 1 2", "33 3f 3f",
     NULL, "8,16", 1.5 * 1.875 / BF16},
    {"l.weight_packed U8 8,16 128; l.weight_scale U8 8,1 8", "33 80", NULL, "8,32", 3},
    {"l.weight U8 8,8 64; l.weight_scale F8_E4M3 8,1 8; l.weight_scale_2 BF16 - 2; l.input_scale BF16 - 2",
     "33 3f 3f 00", NULL, "8,16", 1.5 * 1.875 * BF16},
    {"l.weight U8 8,16 128; l.weight_scale F8_E8M0 8,1 8", "33 80", NULL, "8,32", 3},
    {"l.weight I8 8,16 128; l.scale F8_E8M0 8,1 8", "33 80", NULL, "8,32", 3},
    {"l.weight F8_E4M3 8,16 128; l.weight_scale BF16 - 2", "3f 3f", NULL, "8,16", 1.875 * BF16},
    {"l.weight F8_E4M3 8,16 128; l.weight_scale BF16 8 16", "3f 3f", NULL, "8,16", 1.875 * BF16},
    {"l.weight F8_E4M3 8,16 128; l.weight_scale BF16 8,1 16", "3f 3f", NULL, "8,16", 1.875 * BF16},
    {"l.weight F8_E4M3 8,16 128; l.weight_scale BF16 1,16 32", "3f 3f", NULL, "8,16", 1.875 * BF16},
    {"l.weight F8_E4M3 130,16 2080; l.weight_scale_inv BF16 2,1 4", "3f 3f", NULL, "130,16", 1.875 * BF16},
    {"l.weight F8_E4M3 8,16 128; l.weight_scale_inv BF16 4,2 16", "3f 3f", NULL, "8,16", 1.875 * BF16},
    {"l.weight F8_E4M3 8,16 128; l.scale F8_E8M0 1,1 1", "3f 80", NULL, "8,16", 3.75},
    {"l.weight F8_E4M3 16 16; l.weight_scale BF16 1 2", "3f 3f", NULL, "16", 1.875 * BF16},
    {"l.weight I8 8,16 128; l.SCB BF16 8 16", "02 3f", NULL, "8,16", 2 * BF16 / 127},
    {"l.weight I8 8,16 128; l.weight_scale BF16 8,1 16; l.weight_zero_point I8 8,1 8", "02 3f 01", NULL,
     "8,16", BF16},
    {"l.weight F8_E4M3 2,8,16 256; l.weight_scale_inv BF16 2,1,1 4", "3f 3f", NULL, "2,8,16", 1.875 * BF16},
    {"l.weight F8_E4M3 2,8,16 256; l.weight_scale_inv BF16 2 4", "3f 3f", NULL, "2,8,16", 1.875 * BF16},
    {"l.weight U8 64,1 64; l.weight.absmax F32 2 8; l.weight.quant_map F32 16 64; " STATE, "33 40 3f -", NULL,
     "4,32", LARGE *SMALL},
    {"l.weight U8 64,1 64; l.weight.absmax U8 2 2; l.weight.quant_map F32 16 64; "
     "l.weight.nested_absmax F32 1 4; l.weight.nested_quant_map F32 256 1024; " STATE,
     "33 40 3f 3f 3f -", NULL, "4,32", SMALL *(SMALL *SMALL + 1)},
};

/* Parts that are missing, of other shapes or types, or that no way to pack has. */
static const made unknown[] = {
    {"l.weight_packed I32 8,2 64; l.weight_scale BF16 4,2 16; l.weight_zero_point I32 1,2 8", "aa 3f 99",
     "{\"quantization_config\":{\"bits\":4}}", "8,16", 0},
    {"l.weight_packed I32 8,2 64; l.weight_scale BF16 8,2 32; l.weight_zero_point I32 2 8", "aa 3f 99",
     "{\"quantization_config\":{\"bits\":4}}", "8,16", 0},
    {"l.weight_packed I32 8,2 64; l.weight_scale BF16 8,2 32; l.weight_zero_point I32 1,1 4", "aa 3f 99",
     "{\"quantization_config\":{\"bits\":4}}", "8,16", 0},
    {"l.weight_packed I32 8,2 64; l.weight_scale BF16 8,2 32; l.weight_g_idx I32 0 0", "aa 3f 00",
     "{\"quantization_config\":{\"bits\":4}}", "8,16", 0},
    {"l.weight U32 4,4 64; l.scales BF16 4,1 8; l.biases BF16 0 0", "33 3f 3f", MLX("4", ""), "8,16", 0},
    {"l.weight_packed U8 8,8 64; l.weight_scale F8_E4M3 8,1 8; l.weight_global_scale BF16 0 0", "33 3f 3f",
     NULL, "8,16", 0},
    {"l.weight_packed U8 8,8 64; l.weight_scale F8_E4M3 8,1 8; l.weight_global_scale I16 1 2", "33 3f 3f",
     NULL, "8,16", 0},
    {"l.weight F8_E4M3 2,8,16 256; l.weight_scale_inv BF16 2,3 12", "3f 3f", NULL, "8,16", 0},
    {"l.weight U8 64,1 64; l.weight.absmax I16 2 4; l.weight.quant_map F32 16 64; " STATE, "33 40 3f -", NULL,
     "8,16", 0},
    {"l.weight U32 4,4 64; l.scales I32 4,1 16", "33 3f", MLX("4", ""), "8,16", 0},
    {"l.weight U32 4,4 64; l.scales BF16 4,1 8; l.biases BF16 4,2 16", "33 3f 3f", MLX("4", ""), "8,16", 0},
    {"l.weight U32 4,4 64; l.scales BF16 4,3 24", "33 3f", "{\"quantization\":{\"bits\":4}}", "8,16", 0},
    {"l.weight U32 4,4 64; l.scales BF16 4,1 8", "33 3f", "{\"quantization\":{\"bits\":16}}", "8,16", 0},
    {"l.weight_packed I32 8,2 64; l.weight_scale BF16 8,2 32; l.weight_zero_point I32 2,2 16", "aa 3f 99",
     "{\"quantization_config\":{\"bits\":4}}", "8,16", 0},
    {"l.weight_packed I32 8,2 64; l.weight_scale BF16 8,2 32; l.weight_g_idx I64 16 128", "aa 3f 00",
     "{\"quantization_config\":{\"bits\":4}}", "8,16", 0},
    {"l.weight_packed I32 8,2 64; l.weight_scale BF16 8,2 32; l.input_scale BF16 1 2; l.weight_g_idx I32 8 "
     "32",
     "aa 3f 3f 00", "{\"quantization_config\":{\"bits\":4}}", "8,16", 0},
    {"l.weight_packed I32 8,2 64; l.weight_scale BF16 8,2 32; l.weight_global_scale BF16 1 2", "aa 3f 3f",
     "{\"quantization_config\":{\"bits\":4}}", "8,16", 0},
    {"l.weight_packed U8 8,8 64; l.weight_scale F8_E4M3 8,1 8; l.weight_global_scale BF16 2 4", "33 3f 3f",
     NULL, "8,16", 0},
    {"l.weight F8_E4M3 8,16 128; l.weight_scale BF16 16 32", "3f 3f", NULL, "8,16", 0},
    {"l.weight F8_E4M3 8,16 128; l.weight_scale BF16 3,1 6", "3f 3f", NULL, "8,16", 0},
    {"l.weight F8_E4M3 8,16 128; l.weight_scale BF16 1,2,4 16", "3f 3f", NULL, "8,16", 0},
    {"l.weight F8_E4M3 8,16 128; l.weight_scale BF16 8,1 16; l.weight_scale_2 BF16 1 2", "3f 3f 3f", NULL,
     "8,16", 0},
    {"l.weight I8 8,16 128; l.weight_scale BF16 8,1 16; l.weight_zero_point I8 8,2 16", "02 3f 01", NULL,
     "8,16", 0},
    {"l.weight F8_E4M3 2,8,16 256; l.weight_scale_inv BF16 3,1,1 6", "3f 3f", NULL, "8,16", 0},
    {"l.weight U8 64,1 64; l.weight.absmax F32 3 12; l.weight.quant_map F32 16 64; " STATE, "33 40 3f -",
     NULL, "8,16", 0},
    {"l.weight U8 64,1 64; l.weight.absmax F32 2 8; l.weight.quant_map F32 8 32; " STATE, "33 40 3f -", NULL,
     "8,16", 0},
    {"l.weight U8 64,1 64; l.weight.absmax U8 2 2; l.weight.quant_map F32 16 64; " STATE, "33 40 3f -", NULL,
     "8,16", 0},
    {"l.weight U8 64,1 64; l.weight.absmax U8 2 2; l.weight.quant_map F32 16 64; "
     "l.weight.nested_absmax F32 2 8; l.weight.nested_quant_map F32 256 1024; " STATE,
     "33 40 3f 3f 3f -", NULL, "8,16", 0},
};

/* Puts each tensor's byte where its data are; that of "-" is the state. */
static void fill(lmi_buf *b, const made *m) {
    char name[128], dtype[32], shape[64], byte[8];
    const char *list = m->list, *bytes = m->bytes;
    size_t n, all = 0, at;
    int used;
    for (; sscanf(list, " %127s %31s %63s %zu%n", name, dtype, shape, &n, &used) == 4;
         list += used, list += strspn(list, "; "))
        all += n;
    at = b->n - all;
    for (list = m->list; sscanf(list, " %127s %31s %63s %zu%n", name, dtype, shape, &n, &used) == 4;
         list += used, list += strspn(list, "; ")) {
        int skip = 0;
        assert_int_equal(sscanf(bytes, " %7s%n", byte, &skip), 1);
        if (*byte == '-') {
            assert_int_equal(n, strlen(known_state));
            memcpy(b->s + at, known_state, n);
        } else {
            memset(b->s + at, (int)strtol(byte, NULL, 16), n);
        }
        at += n;
        bytes += skip;
    }
}

static const char file[] = "rows/model.safetensors";

static void save_packed(const made *m) {
    lmi_buf b = safetensors_made(m->list);
    fill(&b, m);
    save_bytes(file, &b);
    save_words("rows/config.json", m->config ? m->config : "{}");
    lmi_buf_free(&b);
}

/* The difference of the packed weight and a plain one, whose values are all `value`. */
static const lam_tensor_change *compared(lam_weights_diff **d, const made *m, double value) {
    char list[128];
    int64_t n = 1, size;
    int used;
    for (const char *at = m->sizes; sscanf(at, "%" SCNd64 "%n", &size, &used) == 1;
         at += used + (at[used] == ','))
        n *= size;
    snprintf(list, sizeof list, "l.weight F64 %s %d", m->sizes, (int)n * 8);
    lmi_buf b = safetensors_made(list);
    for (int64_t i = 0; i < n; i++) memcpy(b.s + b.n - 8 * (size_t)(i + 1), &value, sizeof value);
    save_bytes("rows.st", &b);
    lmi_buf_free(&b);
    save_packed(m);
    if (lam_weights_diff_new(d, "rows", "rows.st", NULL, &last) != LAM_OK)
        fail_msg("%s: %s", m->list, last.text);
    for (int32_t i = 0; lam_weights_tensor(*d, i); i++)
        if (lam_weights_tensor(*d, i)->name && lam_weights_tensor(*d, i)->was)
            return lam_weights_tensor(*d, i);
    fail_msg("%s: no pair", m->list);
    return NULL;
}

static void values_are_numbers_times_their_scales(void **state) {
    (void)state;
    mkdir("rows", 0777);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        lam_weights_diff *d;
        const made *m = &known[i];
        const lam_tensor_change *c = compared(&d, m, m->value + 1);
        if (!c->compared || fabs(c->largest - 1) > 1e-12 || c->differ != c->elements)
            fail_msg("%s: %s, %g", m->list, c->why ? c->why : "compared", c->largest);
        lam_weights_diff_free(d);
    }
}

static void what_its_parts_do_not_tell_is_not_computed(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        lam_weights_diff *d;
        const lam_tensor_change *c = compared(&d, &unknown[i], 0);
        if (c->compared || c->change != LAM_WEIGHTS_UNKNOWN || !c->why ||
            !strstr(c->why, "can't be computed"))
            fail_msg("%s: %s", unknown[i].list, c->why ? c->why : "compared");
        lam_weights_diff_free(d);
    }
}

/* Blocks of experts have their outputs first, and plain ones their inputs. */
static void blocks_are_compared_with_turned_tensors(void **state) {
    (void)state;
    static const struct {
        const char *plain;
        bool compared;
    } all[] = {{"l F64 2,32,4 2048", true},  {"l F64 2,4,32 2048", true}, {"l F64 2,4,16 1024", false},
               {"l F64 1,32,8 2048", false}, {"l F64 64,4 2048", false},  {"l F64 2,32,2,2 2048", false}};
    static const made blocks = {"l_blocks U8 2,4,1,16 128; l_scales U8 2,4,1 8", "33 80", NULL, "", 3};
    save_packed(&blocks);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        lam_weights_diff *d = NULL;
        save_safetensors("rows.st", all[i].plain);
        assert_int_equal(lam_weights_diff_new(&d, "rows", "rows.st", NULL, &last), LAM_OK);
        const lam_tensor_change *c = lam_weights_tensor(d, 0);
        assert_int_equal(c->change, LAM_WEIGHTS_CHANGED);
        assert_int_equal(c->compared, all[i].compared);
        if (all[i].compared)
            assert_true(c->largest == 3 && c->squares == 9 * 256);
        else
            assert_string_equal(c->why, "its shape is another");
        lam_weights_diff_free(d);
    }
}

static void compare_once(void *unused, bool *ok) {
    (void)unused;
    lam_weights_diff *d = NULL;
    lam_error e = {.at = -1};
    *ok = oom_check(lam_weights_diff_new(&d, "rows", "rows.st", NULL, &e), &e);
    lam_weights_diff_free(d);
}

/* A square has both orders; the closer one counts. */
static void square_blocks_are_compared_in_both_orders(void **state) {
    (void)state;
    static const made blocks = {"l_blocks U8 32,1,16 512; l_scales U8 32,1 32", "33 80", NULL, "", 3};
    for (int turned = 0; turned < 2; turned++) {
        lam_weights_diff *d = NULL;
        lmi_buf b = safetensors_made(blocks.list), plain = safetensors_made("l F64 32,32 8192");
        fill(&b, &blocks);
        memset(b.s + b.n - 32 - 16, 0x11, 16); /* the last output: half of 2 each */
        save_bytes(file, &b);
        for (int i = 0; i < 32 * 32; i++) {
            const int output = turned ? i % 32 : i / 32;
            const double v = (output == 31 ? 1 : 3) + (i == 7 ? 2 : 0);
            memcpy(plain.s + plain.n - 8192 + 8 * i, &v, sizeof v);
        }
        save_bytes("rows.st", &plain);
        lmi_buf_free(&b);
        lmi_buf_free(&plain);
        for (int side = 0; side < 2; side++) {
            const char *const names[] = {"rows", "rows.st"};
            assert_int_equal(lam_weights_diff_new(&d, names[side], names[!side], NULL, &last), LAM_OK);
            const lam_tensor_change *c = lam_weights_tensor(d, 0);
            assert_true(c->compared && c->differ == 1 && c->squares == 4);
            lam_weights_diff_free(d);
        }
        oom_sweep_parts(compare_once, NULL);
    }
}

static const made beyond = {
    "l.weight_packed I32 8,2 64; l.weight_scale BF16 8,2 32; l.weight_g_idx I32 16 64", "aa 3f 02",
    "{\"quantization_config\":{\"bits\":4}}", "8,16", 0};

static void a_column_of_a_group_without_scales_is_refused(void **state) {
    (void)state;
    lam_weights_diff *d = NULL;
    lam_weights_diff_free((compared(&d, &known[9], 0), d));
    save_packed(&beyond);
    assert_int_equal(lam_weights_diff_new(&d, "rows", "rows.st", NULL, &last), LAM_FAILED);
    assert_non_null(strstr(last.text, "is of group 33686018, and there are 2"));
}

/* A state that is no JSON, or has other numbers. */
static void a_state_that_tells_no_blocks_is_not_used(void **state) {
    (void)state;
    static const char *const old[] = {"{", "blocksize\":64", "nested_blocksize", "\"nested_offset\":1"};
    static const char *const new[] = {"[", "blocksize\":-4", "nested_blocksizE", "\"nested_offset\":x"};
    const made *m = &known[sizeof known / sizeof *known - 1];
    for (size_t i = 0; i < sizeof old / sizeof *old; i++) {
        lam_weights_diff *d = NULL;
        lmi_buf b = safetensors_made(m->list);
        fill(&b, m);
        for (size_t at = 0; at + strlen(old[i]) < b.n; at++)
            if (memcmp(b.s + b.n - 1 - at - strlen(old[i]), old[i], strlen(old[i])) == 0) {
                memcpy(b.s + b.n - 1 - at - strlen(old[i]), new[i], strlen(new[i]));
                break;
            }
        save_bytes(file, &b);
        lmi_buf_free(&b);
        assert_int_equal(lam_weights_diff_new(&d, "rows", "rows.st", NULL, &last), LAM_OK);
        assert_false(lam_weights_tensor(d, 0)->compared);
        lam_weights_diff_free(d);
    }
}

static void no_allocation_is_needed(void **state) {
    (void)state;
    static const size_t some[] = {0, 7, 9, 13, sizeof known / sizeof *known - 1};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        lam_weights_diff *d;
        compared(&d, &known[some[i]], 0);
        lam_weights_diff_free(d);
        oom_sweep_parts(compare_once, NULL);
    }
}

static void damaged_parts_are_not_computed(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        lam_weights_diff *d;
        compared(&d, &known[i], 0);
        lam_weights_diff_free(d);
        damaged_weights_are_compared(file, "rows", "rows.st", 7);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_numbers_times_their_scales),
        cmocka_unit_test(what_its_parts_do_not_tell_is_not_computed),
        cmocka_unit_test(blocks_are_compared_with_turned_tensors),
        cmocka_unit_test(square_blocks_are_compared_in_both_orders),
        cmocka_unit_test(a_column_of_a_group_without_scales_is_refused),
        cmocka_unit_test(a_state_that_tells_no_blocks_is_not_used),
        cmocka_unit_test(no_allocation_is_needed),
        cmocka_unit_test(damaged_parts_are_not_computed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
