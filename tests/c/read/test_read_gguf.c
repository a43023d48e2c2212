/* SPDX-License-Identifier: Apache-2.0
 *
 * What GGUF files tell of a model: keys of each type. */
#include "kit/weights.h"

typedef struct number {
    int type, bytes;
    uint64_t bits;
    lam_value_type is;
    int64_t i;
    double f;
} number;

/* Adds the numbers, under names that begin alike, and saves the file. */
static void save_numbers(lmi_buf *b, const char *name, const number *of, size_t n) {
    for (size_t i = 0; i < n; i++) {
        char key[32];
        snprintf(key, sizeof key, "%s%zu", name, i);
        gguf_number(b, key, of[i].type, of[i].bits, of[i].bytes);
    }
    save_bytes("numbers.gguf", b);
    lmi_buf_free(b);
}

/* Numbers of each type under the name of the architecture, and keys that tell nothing of the model. */
static void numbers_of_gguf_have_their_type(void **state) {
    (void)state;
    static const number all[] = {
        {0, 1, 0xff, LAM_INT, 255, 0},
        {1, 1, 0xff, LAM_INT, -1, 0},
        {2, 2, 0xffff, LAM_INT, 65535, 0},
        {3, 2, 0xffff, LAM_INT, -1, 0},
        {4, 4, 0xffffffff, LAM_INT, 0xffffffff, 0},
        {5, 4, 0xffffffff, LAM_INT, -1, 0},
        {6, 4, 0x3fc00000, LAM_FLOAT, 0, 1.5},
        {7, 1, 2, LAM_BOOL, 1, 0},
        {10, 8, 7, LAM_INT, 7, 0},
        {11, 8, UINT64_MAX, LAM_INT, -1, 0},
        {12, 8, 0x3ff8000000000000, LAM_FLOAT, 0, 1.5},
    };
    lmi_buf b;
    gguf_begin(&b, 3, 0, 6 + sizeof all / sizeof *all);
    gguf_number(&b, "general.architecture", 4, 1, 4); /* no text, and none of it is the name */
    gguf_text(&b, "split.no", "one");
    gguf_text(&b, "split.count", "two");
    put_gguf_text(&b, "general.name");
    put_le(&b, 8, 4);
    put_le(&b, 1 << 16, 8);
    lmi_pad(&b, 'x', 1 << 16); /* too long to be told */
    gguf_number(&b, "llamas.k", 4, 1, 4);
    gguf_number(&b, "llama.large", 10, UINT64_MAX, 8); /* does not fit */
    save_numbers(&b, "general.name", all, sizeof all / sizeof *all);
    lam_model *m = opened("numbers.gguf");
    assert_int_equal(lam_model_module(m, 0)->n_attrs, 0);
    lam_model_free(m);
    gguf_begin(&b, 3, 0, 1 + sizeof all / sizeof *all);
    gguf_text(&b, "general.architecture", "llama");
    save_numbers(&b, "llama.k", all, sizeof all / sizeof *all);
    m = opened("numbers.gguf");
    const lam_module *root = lam_model_module(m, 0);
    assert_int_equal(root->n_attrs, sizeof all / sizeof *all);
    for (int32_t i = 0; i < root->n_attrs; i++) {
        const lam_value v = root->attrs[i].value;
        assert_int_equal(v.type, all[i].is);
        assert_true(v.type == LAM_FLOAT ? v.f == all[i].f : v.i == all[i].i);
    }
    lam_model_free(m);
    gguf_begin(&b, 3, 0, 1);
    gguf_text(&b, "general.alignment", "32");
    save_bytes("numbers.gguf", &b);
    lmi_buf_free(&b);
    refused("numbers.gguf", LAM_FAILED, "power of 2");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_of_gguf_have_their_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
