/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of weights in folders and indexes of them, and headers of safetensors in another order than writers
 * leave them. */
#include "kit/weights.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static void an_index_names_its_shards(void **state) {
    (void)state;
    static const char index[] = "shards/index.json";
    static const char *const bad[][2] = {
        {"{\"weight_map\":{\"a\":\"\"}}", "no name of a file in the folder"},
        {"{\"weight_map\":{\"a\":\".\"}}", "no name of a file in the folder"},
        {"{\"x\":{\"weight_map\":{}}}", "is no \"weight_map\""},
    };
    mkdir("shards", 0777);
    save_safetensors("shards/one.st", "a.w F32 2 8; b.w F32 1 4");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        save_words(index, bad[i][0]);
        refused(index, LAM_FAILED, bad[i][1]);
    }
    save_words(index,
               "{\"metadata\":{\"total_size\":99},\"weight_map\":{\"a.w\":\"one.st\",\"b.w\":\"one.st\"}}");
    lam_model *m = opened(index);
    assert_string_equal(lam_model_note(m, 0),
                        "the index says that its tensors take 99 bytes, and they take 12");
    lam_model_free(m);
    oom_sweep_parts(read_once, (void *)(uintptr_t)index);
    oom_sweep_reads(read_once, (void *)(uintptr_t)index);
}

static void noted(const char *modules, const char *note) {
    save_words("parts/modules.json", modules);
    lam_model *m = opened("parts");
    const char *said = lam_model_note(m, 0);
    if (note)
        assert_string_equal(said, note);
    else if (said && strstr(said, "modules.json"))
        fail_msg("%s", said);
    lam_model_free(m);
}

/* Those of sentence-transformers are folders beside the file, which are told and not read. */
static void parts_in_other_folders_are_told(void **state) {
    (void)state;
    mkdir("parts", 0777);
    mkdir("parts/1_Pooling", 0777);
    mkdir("parts/2_Dense", 0777);
    mkdir("parts/3_Dense", 0777);
    mkdir("parts/3_Dense/in", 0777);
    save_safetensors("parts/model.safetensors", "a.w F32 2 8");
    save_words("parts/1_Pooling/config.json", "{}");
    save_words("parts/2_Dense/model.safetensors", "not read");
    save_words("parts/3_Dense/pytorch_model.bin", "not read");
    save_words("parts/3_Dense/in/model.safetensors", "not read");
    noted("[{\"idx\":0,\"path\":\"\"},{\"idx\":1,\"path\":\"1_Pooling\"},{\"path\":\"2_Dense\"},"
          "{\"path\":\"3_Dense\"},{\"path\":\"2_Dense\"}]",
          "modules.json names folders whose weights are not in the table: 2_Dense, 3_Dense");
    noted("[{\"path\":\"1_Pooling\"}]", NULL);
    /* no folder beside the file, and nothing that names one */
    noted("[{\"path\":\"2_Dense/../2_Dense\"},{\"path\":\"/tmp\"},{\"path\":\"..\"},{\"path\":\".\"},"
          "{\"path\":\"../parts/2_Dense\"},{\"path\":\"3_Dense/in\"},{\"path\":3},{},7,\"2_Dense\"]",
          NULL);
    noted("{\"path\":\"2_Dense\"}", NULL);
    noted("[",
          "modules.json beside it is not used: it is no JSON: it ends where a value should be at byte 1");
    save_words("parts/modules.json", "[{\"path\":\"2_Dense\"},{\"path\":\"3_Dense\"}]");
    oom_sweep_parts(read_once, (void *)(uintptr_t) "parts");
}

/* What can't be opened is no model, nor are pickles by themselves and files that are not the model's. */
static void a_folder_has_other_files_too(void **state) {
    (void)state;
    mkdir("mixed", 0777);
    unlink("mixed/nowhere");
    assert_int_equal(symlink("no-such-file", "mixed/nowhere"), 0);
    save_words("mixed/.hidden", "{\"weight_map\":{}}");
    save_words("mixed/plain.pkl", "\x80\x02N.");
    save_words("mixed/report.json", "{\"a\":1}");
    unlink("mixed/one.st");
    refused("mixed", LAM_IO, "it can't be read: No such file or directory");
    unlink("mixed/nowhere");
    refused("mixed", LAM_FAILED, "the folder has no model file that lamina reads");
    assert_int_equal(symlink("no-such-file", "mixed/nowhere"), 0);
    save_safetensors("mixed/one.st", "a.w F32 2 8");
    lam_model_free(opened("mixed"));
}

/* A folder that can't be read says why. */
static void a_folder_that_cannot_be_read_says_so(void **state) {
    (void)state;
    struct rlimit before, none;
    lam_model *m = NULL;
    mkdir("mixed", 0777);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    last = (lam_error){.at = -1};
    const lam_status s = lam_read(&m, "mixed", NULL, &last);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_null(m);
    assert_int_equal(s, LAM_IO);
    assert_int_equal(strncmp(last.text, "it can't be read: ", 18), 0);
}

static void tensors_may_be_in_any_order(void **state) {
    (void)state;
    lmi_buf b = safetensors_of("{\"__metadata__\":{\"format\":\"pt\"},"
                               "\"b.w\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[4,6],\"note\":1},"
                               "\"a.w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
                               6);
    save_bytes("order.st", &b);
    lmi_buf_free(&b);
    lam_model *m = opened("order.st");
    lam_costs *c = costs_of(m);
    is_exactly(row_of(c, "a")->params, 1);
    is_exactly(row_of(c, "b")->params, 1);
    lam_costs_free(c);
    lam_model_free(m);
    static const char *const bad[] = {
        "{\"a.w\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", /* a byte and a half */
        "{\"a.w\":{\"dtype\":\"F64\",\"shape\":[4611686018427387904],\"data_offsets\":[0,2]}}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        b = safetensors_of(bad[i], 2);
        save_bytes("order.st", &b);
        lmi_buf_free(&b);
        refused("order.st", LAM_FAILED, "has other bytes than its shape and type take");
    }
}

/* Tensors that tell of others are read with the header: a shape, and a text. */
static void what_tensors_tell_may_be_unreadable(void **state) {
    (void)state;
    save_safetensors("tell.st",
                     "l.weight_shape I64 2 16; l.weight_packed I32 2,4 32; l.weight_scale F16 2,1 4;"
                     "m.weight.quant_state.bitsandbytes__nf4 U8 4 4;"
                     "n.weight.quant_state.bitsandbytes__nf4 U8 70000 70000");
    lam_model_free(opened("tell.st"));
    oom_sweep_reads(read_once, "tell.st");
    oom_sweep_parts(read_once, "tell.st");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_index_names_its_shards),
        cmocka_unit_test(parts_in_other_folders_are_told),
        cmocka_unit_test(a_folder_has_other_files_too),
        cmocka_unit_test(a_folder_that_cannot_be_read_says_so),
        cmocka_unit_test(tensors_may_be_in_any_order),
        cmocka_unit_test(what_tensors_tell_may_be_unreadable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
