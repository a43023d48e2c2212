/* SPDX-License-Identifier: Apache-2.0
 *
 * The values of weights that GPTQ and AWQ pack, against plain ones. */
#include "kit/damaged.h"

#include "read/weights/weights.h"

#include <math.h>
#include <sys/stat.h>

enum { IN = 8, OUT = 8, GROUPS = 2, BITS = 4 };

static const float scale_of[GROUPS] = {0.5F, 2};
static const uint16_t stored_scale[GROUPS] = {0x3800, 0x4000};
static int number(int in, int out) { return (3 * in + 5 * out) % 16; }
static int zero(int group, int out) { return (7 * group + out) % 16; }
static double value(int in, int out, int group) {
    return (number(in, out) - zero(group, out)) * (double)scale_of[group];
}

/* Where AWQ has the value of an output among eight. */
static int place(int out) { return out / 2 + out % 2 * 4; }

static void put_scales(lmi_buf *b) {
    for (int g = 0; g < GROUPS; g++)
        for (int o = 0; o < OUT; o++) put_le(b, stored_scale[g], 2);
}

static void put_index(lmi_buf *b, const int *group) {
    for (int i = 0; i < IN; i++) put_le(b, (uint64_t)group[i], 4);
}

/* Numbers that hold eight inputs each, for every output. */
static lmi_buf gptq_made(const int *group) {
    lmi_buf b;
    lmi_buf_init(&b);
    for (int o = 0; o < OUT; o++) {
        uint64_t word = 0;
        for (int i = 0; i < IN; i++) word |= (uint64_t)number(i, o) << BITS * i;
        put_le(&b, word, 4);
    }
    for (int g = 0; g < GROUPS; g++) {
        uint64_t word = 0;
        for (int o = 0; o < OUT; o++) word |= (uint64_t)((zero(g, o) + 15) % 16) << BITS * o;
        put_le(&b, word, 4);
    }
    put_scales(&b);
    put_index(&b, group);
    return b;
}

static lmi_buf awq_made(void) {
    lmi_buf b;
    lmi_buf_init(&b);
    for (int i = 0; i < IN; i++) {
        uint64_t word = 0;
        for (int o = 0; o < OUT; o++) word |= (uint64_t)number(i, o) << BITS * place(o);
        put_le(&b, word, 4);
    }
    for (int g = 0; g < GROUPS; g++) {
        uint64_t word = 0;
        for (int o = 0; o < OUT; o++) word |= (uint64_t)zero(g, o) << BITS * place(o);
        put_le(&b, word, 4);
    }
    put_scales(&b);
    return b;
}

/* A safetensors file of these tensors, whose data end in these bytes. */
static void save(const char *file, const char *list, const lmi_buf *data) {
    lmi_buf b = safetensors_made(list);
    assert_true(data->n <= b.n);
    if (data->n) memcpy(b.s + b.n - data->n, data->s, data->n);
    save_bytes(file, &b);
    lmi_buf_free(&b);
}

static const char gptq_list[] =
    "l.qweight I32 1,8 32; l.qzeros I32 2,1 8; l.scales F16 2,8 32; l.g_idx I32 8 32";
static const char awq_list[] = "l.qweight I32 8,1 32; l.qzeros I32 2,1 8; l.scales F16 2,8 32";

/* A plain weight whose values are those of the packed one, but for two. */
static void save_plain(const char *file, const int *group) {
    lmi_buf b;
    lmi_buf_init(&b);
    for (int o = 0; o < OUT; o++) {
        for (int i = 0; i < IN; i++) {
            float v = (float)value(i, o, group[i]) + (o == 1 && i == 2 ? 3 : o == 7 && i == 7 ? -4 : 0);
            lmi_putn(&b, (const char *)&v, sizeof v);
        }
    }
    save(file, "l.weight F32 8,8 256", &b);
    lmi_buf_free(&b);
}

static const int halves[IN] = {0, 0, 0, 0, 1, 1, 1, 1}, mixed[IN] = {1, 0, 1, 1, 0, 0, 1, 0};

static void save_gptq(const char *file, const int *group) {
    lmi_buf b = gptq_made(group);
    save(file, gptq_list, &b);
    lmi_buf_free(&b);
}

static void save_awq(const char *file) {
    lmi_buf b = awq_made();
    save(file, awq_list, &b);
    lmi_buf_free(&b);
}

static const lam_tensor_change *only(lam_weights_diff **d, const char *before, const char *after) {
    if (lam_weights_diff_new(d, before, after, NULL, &last) != LAM_OK) fail_msg("%s", last.text);
    const lam_tensor_change *found = NULL;
    for (int32_t i = 0; lam_weights_tensor(*d, i); i++)
        if (strstr(lam_weights_tensor(*d, i)->was, "weight")) found = lam_weights_tensor(*d, i);
    assert_non_null(found);
    return found;
}

/* The two values differ by 3 and by 4, whichever of the files is the first. */
static void differs_by_five(const char *packed, const int *group) {
    double before = 0;
    save_plain("plain.st", group);
    for (int o = 0; o < OUT; o++)
        for (int i = 0; i < IN; i++) before += pow(value(i, o, group[i]), 2);
    for (int turned = 0; turned < 2; turned++) {
        lam_weights_diff *d;
        const lam_tensor_change *c = only(&d, turned ? "plain.st" : packed, turned ? packed : "plain.st");
        assert_int_equal(c->change, LAM_WEIGHTS_CHANGED);
        assert_true(c->compared);
        assert_null(c->why);
        assert_int_equal(c->differ, 2);
        assert_true(c->squares == 25 && c->largest == 4);
        if (!turned) assert_true(c->before == before);
        lam_weights_diff_free(d);
    }
}

static void gptq_has_a_zero_point_less_one_and_a_scale_for_each_group(void **state) {
    (void)state;
    save_gptq("gptq.st", halves);
    differs_by_five("gptq.st", halves);
    save_gptq("gptq.st", mixed);
    differs_by_five("gptq.st", mixed);
}

static void awq_has_eight_outputs_in_a_number(void **state) {
    (void)state;
    save_awq("awq.st");
    differs_by_five("awq.st", halves);
}

static void the_two_are_compared_with_each_other(void **state) {
    (void)state;
    lam_weights_diff *d;
    save_gptq("gptq.st", halves);
    save_awq("awq.st");
    const lam_tensor_change *c = only(&d, "gptq.st", "awq.st");
    assert_true(c->compared);
    assert_int_equal(c->differ, 0);
    assert_string_equal(c->type[0], "gptq-int4");
    assert_string_equal(c->type[1], "awq-int4");
    lam_weights_diff_free(d);
}

/* What is not as these methods write it, or is told nowhere, is not computed. */
static void what_is_not_known_is_not_computed(void **state) {
    (void)state;
    static const char *const lists[] = {
        "l.qweight I32 1,8 32; l.scales F16 2,8 32; l.g_idx I32 8 32",                       /* no zeros */
        "l.qweight I32 1,8 32; l.qzeros I32 1,2 8; l.scales F16 2,8 32; l.g_idx I32 8 32",   /* their shape */
        "l.qweight I32 1,8 32; l.qzeros F32 2,1 8; l.scales F16 2,8 32; l.g_idx I32 8 32",   /* their type */
        "l.qweight F32 1,8 32; l.qzeros I32 2,1 8; l.scales F16 2,8 32; l.g_idx I32 8 32",   /* numbers */
        "l.qweight I32 1,8 32; l.qzeros I32 2,1 8; l.scales C64 2,8 128; l.g_idx I32 8 32",  /* scales */
        "l.qweight I32 1,8 32; l.qzeros I32 2,1 8; l.scales F16 2,8 32; l.g_idx I64 8 64",   /* the index */
        "l.qweight I32 1,8 32; l.qzeros I32 2,1 8; l.scales F16 2,8 32; l.g_idx I32 8,1 32", /* its axes */
        "l.qweight I32 1,8 32; l.qzeros I32 3,1 12; l.scales F16 3,8 48; l.g_idx I32 8 32",  /* groups */
        "l.qweight I32 8,2 64; l.qzeros I32 2,2 16; l.scales F16 2,8 32",                    /* AWQ, 8 bits */
        "l.qweight I32 1,8 32; l.qzeros I32 2,1 8; l.scales F16 2,8 32",                     /* no bits */
        "l.qweight I32 1,8 32; l.qzeros I32 2 8; l.scales F16 2,8 32; l.g_idx I32 8 32",     /* zeros' axes */
        "l.qweight I32 1,8 32; l.qzeros I32 1,2 8; l.scales F16 1,8 16; l.g_idx I32 8 32",   /* too many */
    };
    const lmi_buf none = {0};
    save_plain("plain.st", halves);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        lam_weights_diff *d;
        save("odd.st", lists[i], &none);
        const lam_tensor_change *c = only(&d, "odd.st", "plain.st");
        if (c->change != LAM_WEIGHTS_UNKNOWN || c->compared || !c->why) fail_msg("%s", lists[i]);
        lam_weights_diff_free(d);
    }
    lam_weights_diff *d;
    save_gptq("gptq.st", halves);
    save("other.st", "l.weight F32 4,16 256", &none);
    assert_string_equal(only(&d, "gptq.st", "other.st")->why, "its shape is another");
    lam_weights_diff_free(d);
    save("other.st", "l.weight F4 8,8 32", &none);
    assert_string_equal(only(&d, "gptq.st", "other.st")->why, "values of F4 are not read");
    lam_weights_diff_free(d);
}

/* A folder whose configuration tells how the numbers are packed: every value is (4 - zero point) * 0.5. */
static void configurations_tell_groups_and_zero_points(void **state) {
    (void)state;
    static const struct {
        const char *list, *config, *plain;
        double value; /* NAN: it can't be computed */
        size_t zeros; /* bytes */
    } all[] = {
        /* stored zero points 1: less one, or as they are */
        {"l.qweight I32 1,8 32; l.qzeros I32 2,1 8; l.scales F16 2,8 32",
         "\"bits\":4,\"checkpoint_format\":\"gptq\"", "8,8", 1, 8},
        {"l.qweight I32 1,8 32; l.qzeros I32 2,1 8; l.scales F16 2,8 32",
         "\"bits\":4,\"checkpoint_format\":\"gptq_v2\"", "8,8", 1.5, 8},
        /* the last of three groups is shorter, and as long as all only by what is told */
        {"l.qweight I32 1,8 32; l.qzeros I32 3,1 12; l.scales F16 3,8 48", "\"bits\":4,\"group_size\":3",
         "8,8", 1, 12},
        {"l.qweight I32 1,8 32; l.qzeros I32 3,1 12; l.scales F16 3,8 48", "\"bits\":4,\"group_size\":4",
         "8,8", NAN, 12},
        {"l.qweight I32 1,8 32; l.qzeros I32 2,1 8; l.scales F16 2,8 32; l.g_idx I32 0 0", "\"bits\":4",
         "8,8", 1, 8},
        {"l.qweight I32 1,8 32; l.qzeros I32 1,8 32; l.scales F16 1,7 14", "\"bits\":4", "8,8", NAN, 32},
        {"l.qweight I32 1,8 32; l.qzeros I32 0,1 0; l.scales F16 0,8 0", "\"bits\":4", "8,8", NAN, 0},
        {"l.qweight I32 1,8 32; l.qzeros I32 2,1 8; l.scales F16 2,8 32", "\"bits\":1", "8,32", NAN, 8},
        {"l.qweight I32 1,8 32; l.qzeros I32 2,1 8; l.scales F16 2,8 32", "\"bits\":16", "8,2", NAN, 8},
    };
    mkdir("columns", 0777);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        lmi_buf b = safetensors_made(all[i].list), plain;
        char config[256], list[64];
        const size_t header = 8 + lmi_le64(b.s);
        memset(b.s + header, 0x44, 32);                /* numbers: 4 */
        memset(b.s + header + 32, 0x11, all[i].zeros); /* zero points: 1 */
        for (size_t at = header + 32 + all[i].zeros; at + 2 <= b.n; at += 2)
            memcpy(b.s + at, "\0\x38", 2); /* scales: 0.5 */
        save_bytes("columns/model.safetensors", &b);
        lmi_buf_free(&b);
        snprintf(config, sizeof config, "{\"quantization_config\":{\"quant_method\":\"gptq\",%s}}",
                 all[i].config);
        save_words("columns/config.json", config);
        long long rows, columns;
        assert_int_equal(sscanf(all[i].plain, "%lld,%lld", &rows, &columns), 2);
        snprintf(list, sizeof list, "l.weight F64 %s %lld", all[i].plain, 8 * rows * columns);
        plain = safetensors_made(list);
        for (size_t at = plain.n - 8 * (size_t)(rows * columns); at < plain.n; at += 8)
            memcpy(plain.s + at, &all[i].value, 8);
        save_bytes("plain.st", &plain);
        lmi_buf_free(&plain);
        lam_weights_diff *d;
        const lam_tensor_change *c = only(&d, "columns", "plain.st");
        if (isnan(all[i].value) ? c->compared || !c->why : !c->compared || c->differ)
            fail_msg("%s with %s: %s, %lld differ by up to %g", all[i].list, all[i].config,
                     c->why ? c->why : "compared", (long long)c->differ, c->largest);
        lam_weights_diff_free(d);
    }
}

/* Of more numbers than are held at once a strip of columns is read. */
static void wide_weights_are_read_in_strips(void **state) {
    (void)state;
    enum { ROWS = 1 << 15, COLUMNS = 40 };
    lmi_buf b = safetensors_made(
                "l.qweight I32 32768,40 5242880; l.qzeros I32 1,40 160; l.scales F16 1,320 640"),
            plain = safetensors_made("l.weight I8 320,32768 10485760");
    char *numbers = b.s + b.n - 640 - 160 - 4 * ROWS * COLUMNS,
         *values = plain.s + plain.n - 8 * COLUMNS * ROWS;
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++)
            for (int o = 0; o < 8; o++) {
                const int n = (r + 3 * c + o) % 16, at = place(o);
                numbers[4 * (r * COLUMNS + c) + at / 2] |= (char)(n << at % 2 * 4);
                values[(size_t)(8 * c + o) * ROWS + (size_t)r] = (char)n;
            }
    for (size_t at = b.n; at > b.n - 640; at -= 2) memcpy(b.s + at - 2, "\0\x3c", 2); /* 1.0 */
    values[8 * COLUMNS * ROWS - 1]++;
    save_bytes("wide.st", &b);
    save_bytes("plain.st", &plain);
    lmi_buf_free(&b);
    lmi_buf_free(&plain);
    lam_weights_diff *d;
    const lam_tensor_change *c = only(&d, "wide.st", "plain.st");
    assert_true(c->compared && c->differ == 1 && c->largest == 1);
    lam_weights_diff_free(d);
}

static void a_group_that_has_no_scales_is_refused_at_its_place(void **state) {
    (void)state;
    static const int beyond[2][IN] = {{0, 0, 0, 2}, {0, -1}};
    lam_weights_diff *d = NULL;
    save_plain("plain.st", halves);
    for (int i = 0; i < 2; i++) {
        save_gptq("gptq.st", beyond[i]);
        last = (lam_error){.at = -1};
        assert_int_equal(lam_weights_diff_new(&d, "gptq.st", "plain.st", NULL, &last), LAM_FAILED);
        assert_null(d);
        assert_true(last.at > 0);
        assert_non_null(strstr(last.text, i ? "input 1 is of group -1, and there are 2"
                                            : "input 3 is of group 2, and there are 2"));
    }
}

static void compare_once(void *packed, bool *ok) {
    lam_weights_diff *d = NULL;
    lam_error e = {.at = -1};
    *ok = oom_check(lam_weights_diff_new(&d, packed, "plain.st", NULL, &e), &e);
    lam_weights_diff_free(d);
}

static void no_allocation_is_needed(void **state) {
    (void)state;
    save_plain("plain.st", halves);
    save_gptq("gptq.st", mixed);
    save_awq("awq.st");
    oom_sweep_parts(compare_once, (void *)"gptq.st");
    oom_sweep_parts(compare_once, (void *)"awq.st");
    oom_sweep_reads(compare_once, (void *)"gptq.st");
    oom_sweep_reads(compare_once, (void *)"awq.st");
    damaged_weights_are_compared("gptq.st", "gptq.st", "plain.st", 5);
    damaged_weights_are_compared("awq.st", "awq.st", "plain.st", 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gptq_has_a_zero_point_less_one_and_a_scale_for_each_group),
        cmocka_unit_test(awq_has_eight_outputs_in_a_number),
        cmocka_unit_test(the_two_are_compared_with_each_other),
        cmocka_unit_test(what_is_not_known_is_not_computed),
        cmocka_unit_test(configurations_tell_groups_and_zero_points),
        cmocka_unit_test(wide_weights_are_read_in_strips),
        cmocka_unit_test(a_group_that_has_no_scales_is_refused_at_its_place),
        cmocka_unit_test(no_allocation_is_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
