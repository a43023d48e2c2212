/* SPDX-License-Identifier: Apache-2.0
 *
 * What a file is by its content, and what a call that reads one lacks. */
#include "kit/weights.h"

static void what_a_call_lacks_is_said(void **state) {
    (void)state;
    lam_model *m = NULL;
    save_safetensors("one.safetensors", "a.w F32 2 8");
    last = (lam_error){.at = -1};
    assert_int_equal(lam_read(NULL, "one.safetensors", NULL, &last), LAM_USAGE);
    assert_string_equal(last.text, "there is nowhere to put the model");
    last = (lam_error){.at = -1};
    assert_int_equal(lam_read(&m, NULL, NULL, &last), LAM_USAGE);
    assert_string_equal(last.text, "there is no file to read");
    assert_int_equal(lam_read(&m, "no.safetensors", NULL, NULL), LAM_IO);
    assert_null(m);
    assert_null(lam_read_format(NULL));
    assert_null(lam_read_format("no.safetensors"));
    assert_int_equal(lam_read(&m, "one.safetensors", NULL, NULL), LAM_OK);
    lam_model_free(m);
}

/* JSON may have a mark of its encoding in front. */
static void texts_are_told_apart(void **state) {
    (void)state;
    save_words("marked.json", "\xef\xbb\xbf{\"weight_map\":{}}");
    assert_string_equal(lam_read_format("marked.json"), "index");
    save_words("marked.json", "{\"weight_map\":{},\"schema\":\"lamina.report/1\"}");
    assert_string_equal(lam_read_format("marked.json"), "report");
    save_words("marked.json", "\xef\xbb\xbe{}");
    assert_null(lam_read_format("marked.json"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_call_lacks_is_said),
        cmocka_unit_test(texts_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
