/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of each format that are damaged: each byte another, cut off anywhere, and not readable at all. */
#include "kit/damaged.h"

static void a_damaged_file_is_read_or_refused(void **state) {
    (void)state;
    static const struct {
        const char *name;
        bool whole;
        size_t step;
    } all[] = {
        {"net.safetensors", true, 11}, {"small.gguf", true, 7}, {"tiny.gguf", true, 53},
        {"state.pt", true, 5},         {"model.pt", true, 3},   {"odd.onnx", false, 5},
        {"image.onnx", false, 61},     {"tiny.pte", false, 1},  {"net.pt2", true, 307},
        {"branch.pt2", true, 307},     {"old.pt2", true, 151},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/files/%s", LAMINA_TEST_DATA, all[i].name);
        may_be_damaged(path, all[i].whole, all[i].step);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_damaged_file_is_read_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
