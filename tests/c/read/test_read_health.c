/* SPDX-License-Identifier: Apache-2.0
 *
 * NaN and Inf in the weights of files, in every format and type; weights that can't be looked at are unknown.
 */
#include "kit/weights.h"

#include <math.h>

/* A safetensors file of these tensors with these bytes behind its header. */
static void save(const char *file, const char *list, const void *data, size_t n) {
    lmi_buf b = safetensors_made(list);
    assert_true(b.n >= n);
    memcpy(b.s + b.n - n, data, n);
    save_bytes(file, &b);
    lmi_buf_free(&b);
}

static lam_model *checked(const char *path) {
    static const lam_read_options o = {.health = true};
    lam_model *m = NULL;
    last = (lam_error){.at = -1};
    if (lam_read(&m, path, &o, &last) != LAM_OK) fail_msg("%s: %s", last.where, last.text);
    return m;
}

static lam_health *health_of(const lam_model *m) {
    lam_health *h = NULL;
    if (lam_health_new(&h, m, &last) != LAM_OK) fail_msg("%s", last.text);
    return h;
}

static lam_health_state at(const lam_health *h, const lam_model *m, const char *path) {
    for (int32_t i = 0; i < lam_model_n_places(m); i++)
        if (strcmp(lam_model_place(m, i)->path, path) == 0) return lam_health_at(h, i, LAM_FORWARD);
    fail_msg("there is no place %s", path);
    return LAM_HEALTH_UNKNOWN;
}

static void says(const lam_health *h, int32_t i, const char *text) {
    const lam_finding *f = lam_health_finding(h, i);
    if (!f || strcmp(f->text, text) != 0) fail_msg("'%s' is not '%s'", f ? f->text : "nothing", text);
}

static void what_is_not_finite_is_found_where_it_is(void **state) {
    (void)state;
    const float w[] = {1, 2, 3, NAN, 5, INFINITY}, b[] = {-INFINITY, 1}, fine[] = {1, 2};
    float data[10];
    memcpy(data, w, sizeof w);
    memcpy(data + 6, b, sizeof b);
    memcpy(data + 8, fine, sizeof fine);
    save("net.st", "a.up.weight F32 2,3 24; a.up.bias F32 2 8; b.weight F32 2 8", data, sizeof data);
    lam_model *m = checked("net.st");
    lam_health *h = health_of(m);
    says(h, 0,
         "NaN first in a.up (?), which has it in its weight: 1 NaN and 1 Inf of 6 elements, first at [1, 0]");
    says(h, 1, "-Inf also in a.up (?), which has it in its bias: 1 of 2 elements, first at [0]");
    assert_null(lam_health_finding(h, 2));
    assert_int_equal(at(h, m, "a.up"), LAM_HEALTH_BORN);
    assert_int_equal(at(h, m, "a"), LAM_HEALTH_PASSED); /* it has it in a module */
    assert_int_equal(at(h, m, "b"), LAM_HEALTH_FINE);
    const lam_checked *looked = lam_model_checked(m);
    assert_int_equal(looked->tensors, 3);
    assert_int_equal(looked->bytes, 40);
    assert_int_equal(looked->unseen, 0);
    lam_health_free(h);
    lam_model_free(m);
}

static void a_file_without_any_is_fine(void **state) {
    (void)state;
    save_safetensors("net.st", "a.weight F32 2 8; a.ids I64 2 16; a.e F8_E4M3 2 2");
    lam_model *m = checked("net.st");
    lam_health *h = health_of(m);
    assert_null(lam_health_finding(h, 0));
    assert_string_equal(lam_health_sentence(h), "no NaN or Inf in 3 tensors");
    lam_health_free(h);
    lam_model_free(m);
    m = opened("net.st"); /* not asked for */
    assert_null(lam_model_checked(m));
    assert_int_equal(lam_health_new(&h, m, &last), LAM_USAGE);
    lam_model_free(m);
}

/* A causal mask that a layer registers is -Inf where nothing is seen. */
static void masks_are_no_finding(void **state) {
    (void)state;
    const float mask[] = {0, -INFINITY};
    save("net.st", "a.running_mean F32 2 8", mask, sizeof mask);
    lam_model *m = checked("net.st");
    lam_health *h = health_of(m);
    assert_null(lam_health_finding(h, 0));
    lam_health_free(h);
    lam_model_free(m);
}

static void large_tensors_are_searched_in_pieces(void **state) {
    (void)state;
    enum { N = 700000 };
    uint16_t *v = calloc(N, sizeof *v);
    char list[64];
    assert_non_null(v);
    snprintf(list, sizeof list, "w F16 700,1000 %d", 2 * N);
    v[654321] = 0x7e00;
    v[699999] = 0xfc00;
    save("net.st", list, v, N * sizeof *v);
    lam_model *m = checked("net.st");
    lam_health *h = health_of(m);
    says(h, 0,
         "NaN first in the model (?), which has it in its w: 1 NaN and 1 Inf of 700000 elements, first at "
         "[654, 321]");
    lam_health_free(h);
    lam_model_free(m);
    free(v);
}

/* A scale of a block is all its values. */
static void scales_of_blocks_are_looked_at(void **state) {
    (void)state;
    lmi_buf b;
    gguf_begin(&b, 3, 2, 0);
    gguf_tensor(&b, "blk.0.up.weight", 32, 2, 8, 0);    /* q8_0: 34 bytes a row */
    gguf_tensor(&b, "blk.1.up.weight", 256, 0, 16, 96); /* iq2_xxs */
    gguf_data(&b, 32, 96 + 66);
    const size_t data = b.n - 96 - 66;
    b.s[data + 34] = 0x00;
    b.s[data + 35] = 0x7e;
    save_bytes("q.gguf", &b);
    lmi_buf_free(&b);
    lam_model *m = checked("q.gguf");
    lam_health *h = health_of(m);
    says(h, 0, "NaN first in blk.0.up (?), which has it in its weight: 32 of 64 elements, first at [1, 0]");
    assert_null(lam_health_finding(h, 1));
    assert_int_equal(at(h, m, "blk.1.up"), LAM_HEALTH_UNKNOWN);
    assert_int_equal(lam_model_checked(m)->unseen, 1);
    bool named = false;
    for (int32_t i = 0; lam_model_note(m, i); i++)
        named = named ||
                strcmp(lam_model_note(m, i), "values of blk.1.up.weight (iq2_xxs) are not checked: values of "
                                             "its type are not read") == 0;
    assert_true(named);
    lam_health_free(h);
    lam_model_free(m);
}

/* A scale that is not finite makes NaN of a number that is 0, and Inf of the others. */
static void scales_that_are_infinite_are_counted_by_their_values(void **state) {
    (void)state;
    lmi_buf b;
    gguf_begin(&b, 3, 1, 0);
    gguf_tensor(&b, "blk.0.up.weight", 32, 2, 8, 0);
    gguf_data(&b, 32, 68);
    char *row = b.s + b.n - 34;
    row[1] = 0x7c;
    row[2] = 1;
    row[3] = -1;
    row[4] = -2;
    save_bytes("q.gguf", &b);
    lmi_buf_free(&b);
    lam_model *m = checked("q.gguf");
    lam_health *h = health_of(m);
    says(h, 0,
         "NaN first in blk.0.up (?), which has it in its weight: 29 NaN and 3 Inf of 64 elements, first at "
         "[1, 0]");
    lam_health_free(h);
    lam_model_free(m);
}

/* The scales of a packed weight are a part of it. */
static void parts_of_packed_weights_are_looked_at(void **state) {
    (void)state;
    unsigned char data[1408] = {0};
    data[1024] = 0x00; /* the first scale */
    data[1025] = 0x7c;
    save("q.st", "m.up.qweight I32 8,32 1024; m.up.scales F16 2,32 128; m.up.g_idx I32 64 256", data,
         sizeof data);
    lam_model *m = checked("q.st");
    lam_health *h = health_of(m);
    says(h, 0, "Inf first in m.up (?), which has it in its scales: 1 of 64 elements, first at [0, 0]");
    lam_health_free(h);
    lam_model_free(m);
}

static void many_that_are_not_looked_at_are_named_up_to_a_length(void **state) {
    (void)state;
    lmi_buf list;
    lmi_buf_init(&list);
    for (int i = 0; i < 12; i++) lmi_putf(&list, "l.%d.w F4 2 1; ", i);
    save_safetensors("f4.st", list.s);
    lmi_buf_free(&list);
    lam_model *m = checked("f4.st");
    bool rest = false;
    for (int32_t i = 0; lam_model_note(m, i); i++)
        rest = rest || strcmp(lam_model_note(m, i), "values of 4 more tensors are not checked") == 0;
    assert_true(rest);
    lam_model_free(m);
}

static lam_status stop(void *self, uint64_t done, uint64_t all) {
    assert_true(done <= all);
    *(bool *)self = true;
    return LAM_FAILED;
}

static void work_can_be_stopped(void **state) {
    (void)state;
    bool asked = false;
    const lam_watcher watcher = {stop, &asked};
    const lam_read_options o = {.health = true, .watcher = &watcher};
    lam_model *m = NULL;
    save_safetensors("net.st", "a.weight F32 2 8");
    last = (lam_error){.at = -1};
    assert_int_equal(lam_read(&m, "net.st", &o, &last), LAM_FAILED);
    assert_true(asked);
    assert_null(m);
}

static void no_allocation_is_needed(void **state) {
    (void)state;
    const float bad[] = {NAN, 1};
    save("net.st", "x.w F4 2 1; a.weight F32 2 8", bad, sizeof bad);
    oom_sweep_parts(check_once, (void *)"net.st");
    oom_sweep_parts(check_once, (void *)LAMINA_TEST_DATA "/files/image.onnx");
    oom_sweep_parts(check_once, (void *)LAMINA_TEST_DATA "/files/net.pt2");
    oom_sweep_parts(check_once, (void *)LAMINA_TEST_DATA "/files/old.pt2");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_finite_is_found_where_it_is),
        cmocka_unit_test(a_file_without_any_is_fine),
        cmocka_unit_test(masks_are_no_finding),
        cmocka_unit_test(large_tensors_are_searched_in_pieces),
        cmocka_unit_test(scales_of_blocks_are_looked_at),
        cmocka_unit_test(scales_that_are_infinite_are_counted_by_their_values),
        cmocka_unit_test(parts_of_packed_weights_are_looked_at),
        cmocka_unit_test(many_that_are_not_looked_at_are_named_up_to_a_length),
        cmocka_unit_test(work_can_be_stopped),
        cmocka_unit_test(no_allocation_is_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
