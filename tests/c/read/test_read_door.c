/* SPDX-License-Identifier: Apache-2.0
 *
 * What a file is by its content, and what a call that reads one lacks. */
#include "kit/weights.h"

#include <sys/stat.h>
#include <unistd.h>

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

static void refuse_once(void *path, bool *ok) {
    lam_model *m = NULL;
    lam_error e = {.at = -1};
    *ok = lam_read(&m, path, NULL, &e) == LAM_UNSUPPORTED;
    assert_null(m);
}

static void files_that_are_not_read_are_called_what_they_are(void **state) {
    (void)state;
    static const struct {
        const char *begins, *says;
    } all[] = {
        {"version https://git-lfs.github.com/spec/v1\noid",
         "a pointer of Git LFS, and not the file; `git lfs pull`"},
        {"SQLite format 3", "a database of SQLite, as recordings are, and no model; `lamina show`"},
        {"<!DOCTYPE html>", "a page of HTML"},
        {"<HTML>", "download the file again"},
        {"\x89HDF\r\n\x1a\n", "a file of HDF5"},
        {"<?xml version=\"1.0\"?>\n<net name=\"n\"", "a file of XML, as OpenVINO writes"},
        {"abcdTFL3", "a model of TensorFlow Lite"},
        {"abcdORTM", "a model in ONNX Runtime's own format"},
        {"abcdFT01", "give the program, its .pte file"},
        {"ftrt", "an engine of TensorRT"},
        {"ptrt", "an engine of TensorRT"},
        {"\x93NUMPY", "an array of NumPy"},
        {"\x1f\x8b", "packed by gzip"},
        {"lmgg", "older than GGUF"},
        {"fmgg", "older than GGUF"},
        {"tjgg", "convert it to GGUF"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        save_words("other.file", all[i].begins);
        assert_null(lam_read_format("other.file"));
        refused("other.file", LAM_UNSUPPORTED, all[i].says);
    }
    static const char *const none[] = {"abcTFL3", "TFL3", "ftr", "<!doc", "version https://git-lf"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        save_words("other.file", none[i]);
        refused("other.file", LAM_FAILED, "it is no model file that lamina reads: by its first bytes");
    }
    save_words("other.file", "");
    refused("other.file", LAM_FAILED, "it is no model file: it is empty");
}

static void a_shard_that_was_not_fetched_is_called_so(void **state) {
    (void)state;
    save_words("fetch.json", "{\"weight_map\": {\"a\": \"fetch.st\"}}");
    save_words("fetch.st", "version https://git-lfs.github.com/spec/v1\n");
    refused("fetch.json", LAM_UNSUPPORTED, "`git lfs pull` fetches that");
    assert_string_equal(last.where, "fetch.st");
}

/* As of a pipeline of diffusers: each part is in a folder of its name. */
static void a_folder_of_folders_names_one_with_a_model(void **state) {
    (void)state;
    mkdir("parts", 0777);
    mkdir("parts/vae", 0777);
    mkdir("parts/unet", 0777);
    mkdir("parts/text", 0777);
    save_words("parts/model_index.json", "{}");
    save_words("parts/text/notes.txt", "Dear Sir or Madam");
    unlink("parts/vae/m.st"); /* of an earlier run */
    unlink("parts/unet/m.st");
    refused("parts", LAM_FAILED, "the folder has no model file that lamina reads");
    save_safetensors("parts/vae/m.st", "a.weight F32 1 4");
    refused("parts", LAM_UNSUPPORTED, "and parts/vae has one; give that");
    save_safetensors("parts/unet/m.st", "a.weight F32 1 4");
    refused("parts", LAM_UNSUPPORTED, "and parts/unet has one; give that");
    assert_null(lam_read_format("parts"));
    oom_sweep_parts(refuse_once, (void *)(uintptr_t) "parts");
}

static void a_file_without_tensors_says_so(void **state) {
    (void)state;
    save_safetensors("none.st", "");
    lam_model *m = opened("none.st");
    lam_costs *c = costs_of(m);
    assert_string_equal(lam_costs_gap(c, 0),
                        "the file has no tensors, so it is no model, or one without weights");
    lam_costs_free(c);
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_call_lacks_is_said),
        cmocka_unit_test(texts_are_told_apart),
        cmocka_unit_test(files_that_are_not_read_are_called_what_they_are),
        cmocka_unit_test(a_shard_that_was_not_fetched_is_called_so),
        cmocka_unit_test(a_folder_of_folders_names_one_with_a_model),
        cmocka_unit_test(a_file_without_tensors_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
