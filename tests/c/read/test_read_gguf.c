/* SPDX-License-Identifier: Apache-2.0
 *
 * What GGUF files tell of a model: keys of each type. */
#include "kit/weights.h"

#include <unistd.h>

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

static void put_list(lmi_buf *b, int kind, uint64_t n) {
    put_le(b, (uint64_t)kind, 4);
    put_le(b, n, 8);
}

/* Lists tell nothing of a model, and are passed over, also in each other; what can't be passed over is
 * refused. */
static void lists_are_passed_over(void **state) {
    (void)state;
    lmi_buf b;
    gguf_begin(&b, 3, 0, 6);
    gguf_text(&b, "general.architecture", "llama");
    put_gguf_text(&b, "a");
    put_le(&b, 9, 4);
    put_list(&b, 4, 3); /* three numbers of four bytes */
    lmi_pad(&b, '\0', 12);
    put_gguf_text(&b, "b");
    put_le(&b, 9, 4);
    put_list(&b, 9, 0); /* no lists */
    put_gguf_text(&b, "c");
    put_le(&b, 9, 4);
    put_list(&b, 9, 2); /* a list of no lists, and one of two texts */
    put_list(&b, 9, 0);
    put_list(&b, 8, 2);
    put_gguf_text(&b, "one");
    put_gguf_text(&b, "two");
    put_gguf_text(&b, "d");
    put_le(&b, 9, 4);
    put_list(&b, 8, 0);
    gguf_number(&b, "llama.k", 4, 7, 4);
    save_bytes("lists.gguf", &b);
    lam_model *m = opened("lists.gguf");
    assert_int_equal(lam_model_module(m, 0)->n_attrs, 1);
    assert_int_equal(lam_model_module(m, 0)->attrs[0].value.i, 7);
    lam_model_free(m);
    oom_sweep_parts(read_once, "lists.gguf");
    oom_sweep_takes(read_once, "lists.gguf", 1);
    lmi_buf_free(&b);
    gguf_begin(&b, 3, 0, 1);
    put_gguf_text(&b, "a");
    put_le(&b, 9, 4);
    put_list(&b, 13, 0);
    save_bytes("lists.gguf", &b);
    refused("lists.gguf", LAM_FAILED, "a list of a type that is not known");
    lmi_buf_free(&b);
}

/* Of the numbers under the name of the architecture 64 are told. */
static void keys_that_are_too_many_are_left_out(void **state) {
    (void)state;
    char key[32];
    lmi_buf b;
    gguf_begin(&b, 3, 0, 102);
    gguf_text(&b, "general.architecture", "llama");
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "llama.k%d", i);
        gguf_number(&b, key, 4, (uint64_t)i, 4);
    }
    gguf_number(&b, "general.alignment", 4, 64, 4);
    save_bytes("keys.gguf", &b);
    lmi_buf_free(&b);
    lam_model *m = opened("keys.gguf");
    assert_int_equal(lam_model_module(m, 0)->n_attrs, 64);
    assert_string_equal(lam_model_module(m, 0)->type, "llama");
    lam_model_free(m);
    gguf_begin(&b, 3, 0, 1);
    gguf_number(&b, "general.alignment", 4, 48, 4);
    save_bytes("keys.gguf", &b);
    lmi_buf_free(&b);
    refused("keys.gguf", LAM_FAILED, "an alignment that is no power of 2");
}

/* The first of several files, whose name does not say so, or is a part of what would. */
static void parts_are_found_by_the_name_of_the_first(void **state) {
    (void)state;
    static const char *const names[] = {"x-00001-of-00003.gguf", "x-00002-of-00002.gguf", "x.gguf"};
    lmi_buf b;
    gguf_begin(&b, 3, 0, 2);
    gguf_number(&b, "split.no", 2, 0, 2);
    gguf_number(&b, "split.count", 2, 2, 2);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        save_bytes(names[i], &b);
        refused(names[i], LAM_FAILED, "its name does not end in -00001-of-00002.gguf");
        unlink(names[i]);
    }
    lmi_buf_free(&b);
    for (int part = 0; part < 2; part++) { /* the architecture is that of the first one */
        gguf_begin(&b, 3, 0, 3);
        gguf_number(&b, "split.no", 2, (uint64_t)part, 2);
        gguf_number(&b, "split.count", 2, 2, 2);
        gguf_text(&b, "general.architecture", part ? "other" : "llama");
        save_bytes(part ? "x-00002-of-00002.gguf" : "x-00001-of-00002.gguf", &b);
        lmi_buf_free(&b);
    }
    lam_model *m = opened("x-00001-of-00002.gguf");
    assert_string_equal(lam_model_module(m, 0)->type, "llama");
    lam_model_free(m);
    oom_sweep_parts(read_once, "x-00001-of-00002.gguf");
    oom_sweep_takes(read_once, "x-00001-of-00002.gguf", 1);
    unlink("x-00001-of-00002.gguf");
    unlink("x-00002-of-00002.gguf");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_of_gguf_have_their_type),
        cmocka_unit_test(lists_are_passed_over),
        cmocka_unit_test(keys_that_are_too_many_are_left_out),
        cmocka_unit_test(parts_are_found_by_the_name_of_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
