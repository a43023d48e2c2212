/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines of a difference of weights: what stands in one, and in which order; and pairs that are packed in
 * different ways. */
#include "kit/weights.h"

#include "read/weights/weights.h"

#include <math.h>

/* Saves tensors, each filled with one number of its type: "a.w F32 2 8" and 1. */
static void save_filled(const char *file, const char *list, const float *of) {
    char name[128], dtype[32], shape[64];
    size_t n, all = 0, at;
    int used;
    lmi_buf b = safetensors_made(list);
    for (const char *l = list; sscanf(l, " %127s %31s %63s %zu%n", name, dtype, shape, &n, &used) == 4;
         l += used, l += strspn(l, "; "))
        all += n;
    at = b.n - all;
    for (const char *l = list; sscanf(l, " %127s %31s %63s %zu%n", name, dtype, shape, &n, &used) == 4;
         l += used, l += strspn(l, "; "), at += n, of++)
        for (size_t i = 0; strcmp(dtype, "F32") == 0 && i < n; i += 4) memcpy(b.s + at + i, of, 4);
    save_bytes(file, &b);
    lmi_buf_free(&b);
}

/* The paths of the lines, by spaces; "+" and "-" before those that are added or removed as a whole. */
static const char *listed(const lam_weights_diff *d, const char *by, int32_t depth) {
    static char text[512];
    lmi_weights_lines l;
    size_t n = 0;
    *text = 0;
    assert_int_equal(lmi_weights_list(&l, d, by, depth, &last), LAM_OK);
    for (size_t i = 0; i < l.at.n; i++) {
        const lmi_weights_line *x = lmi_vec_at(&l.at, i);
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s%s", i ? " " : "",
                              !x->whole                   ? ""
                              : x->n[LAM_WEIGHTS_REMOVED] ? "-"
                                                          : "+",
                              x->path);
    }
    lmi_weights_lines_free(&l);
    return text;
}

static lam_weights_diff *difference(const char *before, const char *after) {
    lam_weights_diff *d = NULL;
    if (lam_weights_diff_new(&d, before, after, NULL, &last) != LAM_OK) fail_msg("%s", last.text);
    return d;
}

static void what_is_alone_in_a_module_is_one_line(void **state) {
    (void)state;
    static const float one[] = {1, 1, 1, 1, 1}, other[] = {2, 1, 3, 1, 1, 1};
    save_filled("before.st", "a.w F32 2 8; b.w F32 2 8; old.x F32 1 4; old.y.z F32 1 4", one);
    save_filled("after.st",
                "a.w F32 2 8; b.w F32 2 8; b.v F32 3 12; top F32 5 20; new.x F32 7 28; end. F32 9 36", other);
    lam_weights_diff *d = difference("before.st", "after.st");
    assert_string_equal(listed(d, "elements", -1), "+new  b a -old");
    assert_string_equal(listed(d, "relative", -1), "a b  +new -old");
    assert_string_equal(listed(d, NULL, 0), "");
    assert_string_equal(listed(d, NULL, 1000), listed(d, NULL, -1));
    lam_weights_diff_free(d);
    d = difference("before.st", "before.st");
    assert_string_equal(listed(d, "norm", -1), "");
    lam_weights_diff_free(d);
}

/* Zeros that change their sign are no change of a value; from zeros to others there is no relative one. */
static void zeros_have_no_relative_change(void **state) {
    (void)state;
    static const float zeros[] = {0, 0}, others[] = {-0.0F, 1};
    save_filled("before.st", "a.w F32 2 8; b.w F32 2 8", zeros);
    save_filled("after.st", "a.w F32 2 8; b.w F32 2 8", others);
    lam_weights_diff *d = difference("before.st", "after.st");
    const lam_tensor_change *a = lam_weights_tensor(d, 0), *b = lam_weights_tensor(d, 1);
    assert_true(lmi_weights_value(a, LMI_WEIGHTS_RELATIVE) == 0 && a->differ == 0);
    assert_true(isinf(lmi_weights_value(b, LMI_WEIGHTS_RELATIVE)));
    assert_true(lmi_weights_value(b, LMI_WEIGHTS_DIFFER) == 1);
    assert_true(lmi_weights_value(b, LMI_WEIGHTS_ELEMENTS) == 2);
    lam_weights_diff_free(d);
}

/* A line of tensors of several types has none. */
static void types_of_a_line_are_those_of_all(void **state) {
    (void)state;
    static const float one[] = {1, 1, 1}, two[] = {2, 2, 2};
    lmi_weights_lines l;
    save_filled("before.st", "a.u F32 2 8; a.v F32 2 8; a.w F16 2 4", one);
    save_filled("after.st", "a.u F32 2 8; a.v F32 2 8; a.w F32 2 8", two);
    lam_weights_diff *d = difference("before.st", "after.st");
    assert_int_equal(lmi_weights_list(&l, d, NULL, -1, &last), LAM_OK);
    const lmi_weights_line *x = lmi_vec_at(&l.at, 0);
    assert_null(x->type[0]);
    assert_int_equal(x->n[LAM_WEIGHTS_CHANGED], 3);
    lmi_weights_lines_free(&l);
    lam_weights_diff_free(d);
    save_filled("after.st", "a.u F32 2 8; a.v F32 2 8; a.w F16 2 4", two);
    d = difference("before.st", "after.st");
    assert_int_equal(lmi_weights_list(&l, d, NULL, -1, &last), LAM_OK);
    assert_string_equal(((const lmi_weights_line *)lmi_vec_at(&l.at, 0))->type[0], "float32");
    lmi_weights_lines_free(&l);
    lam_weights_diff_free(d);
}

/* Each module takes memory, of which the names of few tensors could need much. */
static void modules_of_lines_are_bounded(void **state) {
    (void)state;
    lmi_weights_lines l;
    lmi_buf header;
    lmi_buf_init(&header);
    for (int i = 0; i < 14000; i++) {
        lmi_putf(&header, i ? ",\"%x" : "{\"%x", i);
        for (int k = 0; k < 20; k++) lmi_put(&header, ".a");
        lmi_put(&header, ".w\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}");
    }
    lmi_putc(&header, '}');
    lmi_buf b = safetensors_of(lmi_buf_text(&header), 0);
    save_bytes("deep.st", &b);
    lmi_buf_free(&b);
    lmi_buf_free(&header);
    lam_weights_diff *d = difference("deep.st", "deep.st");
    last = (lam_error){.at = -1};
    assert_int_equal(lmi_weights_list(&l, d, NULL, -1, &last), LAM_LIMIT);
    assert_string_equal(last.where, "deep.st");
    lmi_weights_lines_free(&l);
    assert_int_equal(lmi_weights_list(&l, d, NULL, 2, &last), LAM_OK);
    lmi_weights_lines_free(&l);
    lam_weights_diff_free(d);
}

static void list_once(void *difference, bool *ok) {
    lmi_weights_lines l;
    lam_error e = {.at = -1};
    *ok = oom_check(lmi_weights_list(&l, difference, "norm", -1, &e), &e);
    lmi_weights_lines_free(&l);
}

static void lists_may_run_short_of_memory(void **state) {
    (void)state;
    static const float one[] = {1, 1, 1}, two[] = {2, 2, 2};
    save_filled("before.st", "a.u F32 2 8; b.c.v F32 2 8; old.w F32 2 8", one);
    save_filled("after.st", "a.u F32 2 8; b.c.v F32 2 8; new.w F32 3 12", two);
    lam_weights_diff *d = difference("before.st", "after.st");
    oom_sweep_parts(list_once, d);
    lam_weights_diff_free(d);
}

/* One weight that GPTQ packs before, and compressed-tensors after. */
static void weights_that_are_packed_in_two_ways_are_one(void **state) {
    (void)state;
    save_safetensors("before.st",
                     "l.qweight I32 1,8 32; l.qzeros I32 2,1 8; l.scales F16 2,8 32; l.g_idx I32 8 32");
    save_safetensors("after.st",
                     "l.weight_packed I32 8,1 32; l.weight_scale BF16 8,1 16; l.weight_shape I64 2 16");
    for (int turned = 0; turned < 2; turned++) {
        lam_weights_diff *d =
            difference(turned ? "after.st" : "before.st", turned ? "before.st" : "after.st");
        const lam_tensor_change *c = lam_weights_tensor(d, 0);
        assert_string_equal(turned ? c->name : c->was, "l.qweight");
        assert_string_equal(turned ? c->was : c->name, "l.weight_packed");
        assert_int_equal(c->change, LAM_WEIGHTS_UNKNOWN);
        assert_null(lam_weights_tensor(d, 1)); /* the parts of both are within it */
        lam_weights_diff_free(d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_alone_in_a_module_is_one_line),
        cmocka_unit_test(zeros_have_no_relative_change),
        cmocka_unit_test(types_of_a_line_are_those_of_all),
        cmocka_unit_test(modules_of_lines_are_bounded),
        cmocka_unit_test(lists_may_run_short_of_memory),
        cmocka_unit_test(weights_that_are_packed_in_two_ways_are_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
