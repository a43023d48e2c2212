/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of weights with more tensors and modules than their size allows, or a pickle that becomes more. */
#include "kit/pickled.h"

static void refused_bytes(lmi_buf b, const char *part) {
    save_bytes("many.weights", &b);
    lmi_buf_free(&b);
    refused("many.weights", LAM_LIMIT, part);
}

/* Names may tell no more modules than the file has room for. */
static void names_of_many_parts_are_bounded(void **state) {
    (void)state;
    lmi_buf header;
    lmi_buf_init(&header);
    lmi_putc(&header, '{');
    for (int i = 0; i < 6000; i++) {
        lmi_putf(&header, "%s\"", i ? "," : "");
        for (int k = 0; k < 40; k++) lmi_putf(&header, "%x.", i + k);
        lmi_put(&header, "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}");
    }
    lmi_putc(&header, '}');
    lmi_buf b = safetensors_of(header.s, 0);
    lmi_buf_free(&header);
    refused_bytes(b, "modules in their names");
}

/* A header of n tensors without elements, which have `each` a module. */
static lmi_buf many_tensors(int n, int each) {
    lmi_buf header, b;
    lmi_buf_init(&header);
    for (int i = 0; i < n; i++) {
        lmi_putf(&header, i ? ",\"%d.%d" : "{\"%d.%d", i / each, i % each);
        lmi_put(&header, "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}");
    }
    lmi_putc(&header, '}');
    b = safetensors_of(lmi_buf_text(&header), 0);
    lmi_buf_free(&header);
    return b;
}

/* Each takes memory, of which no more is used than a file of its size should need. */
static void more_tensors_than_a_file_should_have_are_refused(void **state) {
    (void)state;
    refused_bytes(many_tensors(110000, 1), "modules in their names");
    refused_bytes(many_tensors(300000, 300000), "more tensors than a file of its size should, at byte ");
    lmi_buf b = many_tensors(110000, 4);
    save_bytes("many.safetensors", &b);
    lmi_buf_free(&b);
    lam_model *m = opened("many.safetensors");
    assert_int_equal(lam_model_n_places(m), 27501);
    lam_model_free(m);
}

static void what_a_compressed_pickle_becomes_is_bounded(void **state) {
    (void)state;
    static const char noise[70000] = {7};
    zipped z = zip_begin();
    zip_put(&z, "net/data.pkl", noise, sizeof noise, 20000000, 8);
    zip_save("packed.pt", &z);
    refused("packed.pt", LAM_LIMIT, "has 20000000 bytes, and at most ");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_many_parts_are_bounded),
        cmocka_unit_test(more_tensors_than_a_file_should_have_are_refused),
        cmocka_unit_test(what_a_compressed_pickle_becomes_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
