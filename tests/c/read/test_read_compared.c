/* SPDX-License-Identifier: Apache-2.0
 *
 * The weights of two files against each other: what each type means as numbers, and what became of each
 * tensor. */
#include "kit/weights.h"

#include "read/weights/weights.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

/* -- types ----------------------------------------------------------------------------------------------- */

/* Blocks of made-up bytes whose scales are 0.5 and 0.25: two of the values, their sum, and the sum of each
 * times its position, as gguf-py 0.19 has them (gguf.quants.dequantize). */
static const struct known_block {
    const char *type;
    int bytes, scale[2], elements;
    double second, last_but_one, sum, by_position;
} known[] = {
    {"q4_0", 18, {0, -1}, 32, -2.0, 2.5, -6.5, -36.0},
    {"q4_1", 20, {0, 2}, 32, 7.25, 5.25, 137.5, 2125.5},
    {"q5_0", 22, {0, -1}, 32, -1.0, 1.5, -27.5, -219.5},
    {"q5_1", 24, {0, 2}, 32, 1.75, 0.75, 237.0, 3766.5},
    {"q8_0", 34, {0, -1}, 32, -38.0, 42.5, -97.5, 1215.0},
    {"q2_K", 84, {80, 82}, 256, 17.25, 12.75, 1279.5, 149140.0},
    {"q3_K", 110, {108, -1}, 256, 3.5, -13.5, 428.5, 87115.5},
    {"q4_K", 144, {0, 2}, 256, 17.0, 250.25, 22047.5, 3590969.0},
    {"q5_K", 176, {0, 2}, 256, 185.0, 207.25, 47105.5, 7539378.5},
    {"q6_K", 210, {208, -1}, 256, 41.0, 512.0, -25880.5, -2902771.0},
    {"iq4_nl", 18, {0, -1}, 32, -24.5, 34.5, -81.5, -281.0},
    {"iq4_xs", 136, {0, -1}, 256, 130.0, 452.0, -2376.0, -844858.5},
    {"mxfp4", 17, {-1, -1}, 32, 0.5, -6.0, -5.0, -136.5},
    {"tq1_0", 54, {52, -1}, 256, 0.0, 0.5, 5.0, 1253.0},
    {"tq2_0", 66, {64, -1}, 256, 0.5, -0.5, 62.5, 8620.0},
};

static void make_block(const struct known_block *k, unsigned char *b) {
    static const unsigned char halves[2][2] = {{0x00, 0x38}, {0x00, 0x34}};
    uint32_t x = 1;
    for (int i = 0; i < k->bytes; i++) {
        x = x * 1664525u + 1013904223u;
        b[i] = (unsigned char)(x >> 24);
    }
    for (int i = 0; i < 2; i++)
        if (k->scale[i] >= 0) memcpy(b + k->scale[i], halves[i], 2);
    if (strcmp(k->type, "mxfp4") == 0) b[0] = 127;
}

static void blocks_have_the_values_of_llama_cpp(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const struct known_block *k = &known[i];
        unsigned char b[256];
        double y[256], sum = 0, by_position = 0;
        make_block(k, b);
        assert_non_null(lmi_block_of(k->type));
        lmi_block_of(k->type)(b, y);
        for (int e = 0; e < k->elements; e++) {
            sum += y[e];
            by_position += e * y[e];
        }
        if (y[1] != k->second || y[k->elements - 2] != k->last_but_one || sum != k->sum ||
            by_position != k->by_position)
            fail_msg("%s: %g %g, in all %g %g", k->type, y[1], y[k->elements - 2], sum, by_position);
    }
    assert_null(lmi_block_of("iq2_xxs"));
    assert_null(lmi_block_of("float32"));
}

/* Two types that are in no files of theirs: blocks of whole numbers, with their sum beside them. */
static void blocks_of_whole_numbers_have_their_scale(void **state) {
    (void)state;
    unsigned char b[292] = {0x00, 0x3e, 0, 0}; /* 1.5 */
    double y[256];
    b[4] = 2;
    b[5] = 0xff;
    lmi_block_of("q8_1")(b, y);
    assert_true(y[0] == 3 && y[1] == -1.5 && y[31] == 0);
    const float scale = 0.125f;
    memcpy(b, &scale, sizeof scale);
    b[4 + 255] = 0x80;
    lmi_block_of("q8_K")(b, y);
    assert_true(y[0] == 0.25 && y[1] == -0.125 && y[255] == -16);
    b[0] = 0; /* a scale that is not finite gives no number */
    b[1] = 0x7c;
    b[2] = 1;
    lmi_block_of("q8_0")(b, y);
    assert_true(isinf(y[0]));
    b[1] = 0x7e;
    lmi_block_of("q8_0")(b, y);
    assert_true(isnan(y[0]));
    b[1] = 0xfc;
    lmi_block_of("q4_1")(b, y);
    assert_true(!isfinite(y[0]));
}

/* The values of a tensor of a type, two of which are given. */
static void means(const char *dtype, uint64_t first, uint64_t second, double one, double two) {
    const int32_t number = lam_dtype_by_name(dtype);
    const lmi_stored_tensor x = {.raw = {.type = dtype, .dtype = number}};
    const lmi_stored_type type = lmi_stored_type_of(&x);
    unsigned char b[16];
    double y[2];
    for (int i = 0; i < 8; i++) b[i] = (unsigned char)(first >> 8 * i);
    for (int i = 0; i < 8; i++) b[type.bytes + i] = (unsigned char)(second >> 8 * i);
    assert_true(lmi_is_number(&type));
    lmi_stored_numbers(&type, b, 2, y);
    const bool right = (isnan(one) ? isnan(y[0]) : y[0] == one) && (isnan(two) ? isnan(y[1]) : y[1] == two);
    if (!right) fail_msg("%s: %g %g", dtype, y[0], y[1]);
}

static void every_type_has_its_values(void **state) {
    (void)state;
    means("float64", 0x3ff8000000000000u, 0xfff0000000000000u, 1.5, -INFINITY);
    means("float32", 0x40490fdbu, 0x7fc00000u, 3.14159274101257324, NAN);
    means("float16", 0x3c01u, 0xfc00u, 1 + 0x1p-10, -INFINITY);
    means("float16", 0x0001u, 0x83ffu, 0x1p-24, -1023 * 0x1p-24); /* subnormal */
    means("float16", 0x7bffu, 0x7c01u, 65504, NAN);
    means("bfloat16", 0xc049u, 0x7f80u, -3.140625, INFINITY);
    means("float8_e4m3fn", 0x7eu, 0x7fu, 448, NAN);
    means("float8_e4m3fn", 0x01u, 0xb8u, 0x1p-9, -1);
    means("float8_e5m2", 0x7bu, 0xfcu, 57344, -INFINITY);
    means("float8_e4m3fnuz", 0x80u, 0x40u, NAN, 1);
    means("float8_e8m0fnu", 0x80u, 0xffu, 2, NAN);
    means("int8", 0x80u, 0x7fu, -128, 127);
    means("int16", 0x8000u, 1, -32768, 1);
    means("int32", 0xffffffffu, 7, -1, 7);
    means("int64", UINT64_MAX, 9, -1, 9);
    means("uint8", 0x80u, 0x7fu, 128, 127);
    means("uint16", 0x8000u, 1, 32768, 1);
    means("uint32", 0xffffffffu, 7, 4294967295.0, 7);
    means("uint64", 0x8000000000000000u, 9, 0x1p63, 9);
    means("bool", 1, 0, 1, 0);
    static const char *const none[] = {"complex64", "F4", "iq1_s"};
    for (int i = 0; i < 3; i++) {
        const lmi_stored_tensor x = {.raw = {.type = none[i], .dtype = lam_dtype_by_name(none[i])}};
        const lmi_stored_type type = lmi_stored_type_of(&x);
        assert_false(lmi_is_number(&type));
        assert_int_equal(type.opaque, i == 1);
    }
}

/* -- two files ------------------------------------------------------------------------------------------- */

/* A safetensors file of these tensors with these bytes behind its header. */
static void save(const char *file, const char *list, const void *data, size_t n) {
    lmi_buf b = safetensors_made(list);
    assert_true(b.n >= n);
    memcpy(b.s + b.n - n, data, n);
    save_bytes(file, &b);
    lmi_buf_free(&b);
}

static lam_weights_diff *compared(const char *before, const char *after) {
    lam_weights_diff *d = NULL;
    last = (lam_error){.at = -1};
    if (lam_weights_diff_new(&d, before, after, NULL, &last) != LAM_OK)
        fail_msg("%s: %s", last.where, last.text);
    return d;
}

/* The tensor of this name after, or of a removed one before. */
static const lam_tensor_change *change_of(const lam_weights_diff *d, const char *name) {
    const lam_tensor_change *c;
    for (int32_t i = 0; (c = lam_weights_tensor(d, i)); i++)
        if (strcmp(c->name ? c->name : c->was, name) == 0) return c;
    fail_msg("there is no tensor %s", name);
    return NULL;
}

static void near(double is, double should) {
    if (fabs(is - should) > 1e-12 * fabs(should)) fail_msg("%.17g is not %.17g", is, should);
}

static void what_changed_has_its_norms(void **state) {
    (void)state;
    const float before[] = {3, 4, 0, 12, /* same */ 1, 2, /* gone */ 5, 5, /* moved */ 7, 8};
    const float after[] = {7, 8, /* same */ 1, 2, /* up */ 3, 4, 3, 8, /* fresh */ 9, 9};
    save("a.st", "up.weight F32 2,2 16; same.weight F32 2 8; gone.weight F32 2 8; moved.weight F32 1,2 8",
         before, sizeof before);
    save("b.st", "other.weight F32 1,2 8; same.weight F32 2 8; up.weight F32 2,2 16; fresh.weight F32 2 8",
         after, sizeof after);
    lam_weights_diff *d = compared("a.st", "b.st");
    const lam_tensor_change *c = change_of(d, "up.weight");
    assert_int_equal(c->change, LAM_WEIGHTS_CHANGED);
    assert_true(c->compared);
    assert_int_equal(c->elements, 4);
    assert_int_equal(c->differ, 2); /* 0 -> 3, 12 -> 8 */
    near(c->squares, 25);
    near(c->before, 169);
    near(c->largest, 4);
    near(lmi_weights_value(c, LMI_WEIGHTS_RELATIVE), 5.0 / 13);
    near(lmi_weights_value(c, LMI_WEIGHTS_DIFFER), 0.5);
    c = change_of(d, "same.weight");
    assert_int_equal(c->change, LAM_WEIGHTS_EQUAL);
    assert_true(c->compared && c->squares == 0);
    assert_int_equal(change_of(d, "gone.weight")->change, LAM_WEIGHTS_REMOVED);
    assert_int_equal(change_of(d, "fresh.weight")->change, LAM_WEIGHTS_ADDED);
    assert_null(change_of(d, "fresh.weight")->was);
    c = change_of(d, "other.weight");
    assert_int_equal(c->change, LAM_WEIGHTS_RENAMED);
    assert_string_equal(c->was, "moved.weight");
    assert_int_equal(lam_weights_differ(d), 4);
    assert_null(lam_weights_tensor(d, 5));
    assert_null(lam_weights_tensor(d, -1));
    lam_weights_diff_free(d);
    lam_weights_diff_free(NULL);
}

/* Pieces and lanes end anywhere; what differs is in the last elements. */
static void large_tensors_are_compared_in_pieces(void **state) {
    (void)state;
    enum { N = 2 * LMI_PIECE_ELEMENTS + 4099 };
    float *v = calloc(N, sizeof *v);
    char list[64];
    assert_non_null(v);
    snprintf(list, sizeof list, "w F32 %d %d", N, 4 * N);
    for (int i = 0; i < N; i++) v[i] = (float)(i % 3);
    save("a.st", list, v, N * sizeof *v);
    v[N - 1] += 3;
    v[N - 2] -= 4;
    save("b.st", list, v, N * sizeof *v);
    lam_weights_diff *d = compared("a.st", "b.st");
    const lam_tensor_change *c = lam_weights_tensor(d, 0);
    assert_int_equal(c->differ, 2);
    near(c->squares, 25);
    double before = 0;
    for (int i = 0; i < N; i++) before += (i % 3) * (i % 3);
    near(c->before, before);
    near(c->largest, 4);
    lam_weights_diff_free(d);
    free(v);
}

static void values_that_are_not_finite_are_named_and_in_no_norm(void **state) {
    (void)state;
    const float before[] = {1, NAN, INFINITY, 4, 5, NAN, 7, 8, 9};
    const float after[] = {1, NAN, 3, INFINITY, 5, 6, 7, 8, 11};
    save("a.st", "w F32 9 36", before, sizeof before);
    save("b.st", "w F32 9 36", after, sizeof after);
    lam_weights_diff *d = compared("a.st", "b.st");
    const lam_tensor_change *c = lam_weights_tensor(d, 0);
    assert_int_equal(c->nonfinite[0], 3);
    assert_int_equal(c->nonfinite[1], 2);
    assert_int_equal(c->differ, 4); /* a NaN that stays one does not differ */
    near(c->squares, 4);
    near(c->before, 1 + 25 + 49 + 64 + 81);
    lam_weights_diff_free(d);
}

/* Doubles have 53 bits. */
static void whole_numbers_of_64_bits_are_told_apart(void **state) {
    (void)state;
    const uint64_t before[] = {UINT64_C(1) << 62, 3}, after[] = {(UINT64_C(1) << 62) + 1, 3};
    for (int i = 0; i < 2; i++) {
        save("a.st", i ? "w U64 2 16" : "w I64 2 16", before, sizeof before);
        save("b.st", i ? "w U64 2 16" : "w I64 2 16", after, sizeof after);
        lam_weights_diff *d = compared("a.st", "b.st");
        assert_int_equal(lam_weights_tensor(d, 0)->differ, 1);
        near(lam_weights_tensor(d, 0)->squares, 1);
        lam_weights_diff_free(d);
    }
}

static void types_and_shapes_that_differ_are_said(void **state) {
    (void)state;
    const float before[] = {1.5, -2, 3, 4, 5, 6};
    const uint16_t after[] = {0x3e00, 0xc000, 0, 0, 0, 0, 0, 0};
    save("a.st", "t F32 2 8; s F32 2,2 16", before, sizeof before);
    save("b.st", "t F16 2 4; s F16 4 8; odd C64 0 0", after, 12);
    lam_weights_diff *d = compared("a.st", "b.st");
    const lam_tensor_change *c = change_of(d, "t");
    assert_int_equal(c->change, LAM_WEIGHTS_CHANGED); /* the type; no value differs */
    assert_int_equal(c->differ, 0);
    assert_string_equal(c->type[0], "float32");
    assert_string_equal(c->type[1], "float16");
    c = change_of(d, "s");
    assert_int_equal(c->change, LAM_WEIGHTS_CHANGED);
    assert_false(c->compared);
    assert_string_equal(c->why, "its shape is another");
    lam_weights_diff_free(d);
    /* types that are not read: equal, or not, by their bytes; how much is unknown */
    const unsigned char bits[] = {1, 2, 3, 4}, others[] = {1, 2, 3, 5};
    save("a.st", "x F4 4 2; y F4 4 2", bits, sizeof bits);
    save("b.st", "x F4 4 2; y F4 4 2", others, sizeof others);
    d = compared("a.st", "b.st");
    assert_int_equal(change_of(d, "x")->change, LAM_WEIGHTS_EQUAL);
    c = change_of(d, "y");
    assert_int_equal(c->change, LAM_WEIGHTS_CHANGED);
    assert_true(lmi_weights_value(c, LMI_WEIGHTS_NORM) < 0);
    assert_string_equal(c->why, "values of F4 are not read");
    lam_weights_diff_free(d);
    save("a.st", "x F32 4 16", before, 16);
    save("b.st", "x F4 4 2", bits, 2);
    d = compared("a.st", "b.st");
    c = change_of(d, "x");
    assert_int_equal(c->change, LAM_WEIGHTS_UNKNOWN);
    assert_string_equal(c->why, "values of F4 are not read");
    lam_weights_diff_free(d);
}

/* -- against a quantised version ---------------------------------------------------------------------------
 */

/* A GGUF file of one tensor, q8_0, rows of 32 values; each row is a scale and its numbers. `type`: of its
 * architecture, NULL none; of its numbers of heads, 4 whole numbers, 6 reals. */
static void save_q8_of(const char *file, const char *architecture, const char *name, int rows, int type,
                       int heads, const signed char *value) {
    lmi_buf b;
    gguf_begin(&b, 3, 1, architecture ? 3 : 2);
    if (architecture) gguf_text(&b, "general.architecture", architecture);
    gguf_number(&b, "llama.attention.head_count", type, (uint64_t)heads, 4);
    gguf_number(&b, "llama.attention.head_count_kv", type, (uint64_t)heads, 4);
    gguf_tensor(&b, name, 32, (uint64_t)rows, 8, 0);
    gguf_data(&b, 32, 0);
    for (int r = 0; r < rows; r++) {
        put_le(&b, 0x3c00, 2); /* 1.0 */
        for (int i = 0; i < 32; i++) lmi_putc(&b, (char)value[r]);
    }
    save_bytes(file, &b);
    lmi_buf_free(&b);
}

static void save_q8(const char *file, const char *name, int rows, int heads, const signed char *value) {
    save_q8_of(file, "llama", name, rows, 4, heads, value);
}

static void save_rows(const char *file, const char *name, int rows, const float *value) {
    float v[8 * 32];
    char list[128];
    for (int i = 0; i < rows * 32; i++) v[i] = value[i / 32];
    snprintf(list, sizeof list, "%s F32 %d,32 %d", name, rows, rows * 128);
    save(file, list, v, (size_t)rows * 128);
}

static void a_quantised_version_has_its_error(void **state) {
    (void)state;
    static const signed char now[] = {3, -4};
    static const float was[] = {3.5, -4};
    save_q8("q.gguf", "blk.7.ffn_up.weight", 2, 0, now);
    save_rows("f.st", "model.layers.7.mlp.up_proj.weight", 2, was);
    lam_weights_diff *d = compared("f.st", "q.gguf");
    const lam_tensor_change *c = lam_weights_tensor(d, 0);
    assert_string_equal(c->was, "model.layers.7.mlp.up_proj.weight");
    assert_string_equal(c->name, "blk.7.ffn_up.weight");
    near(c->squares, 32 * 0.25);
    near(c->before, 32 * (3.5 * 3.5 + 16));
    assert_int_equal(c->differ, 32);
    assert_null(lam_weights_tensor(d, 1));
    lam_weights_diff_free(d);
}

/* Rows of the queries of a head: in GGUF those of its two halves in turn. */
static void rows_of_heads_are_compared_in_their_order(void **state) {
    (void)state;
    static const signed char turned[] = {1, 3, 2, 4, 5, 7, 6, 8};
    static const float plain[] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const char *const names[][2] = {{"blk.0.attn_q.weight", "layers.0.self_attn.q_proj.weight"},
                                           {"blk.0.attn_k.weight",
                                            "language_model.model.layers.0.self_attn.k_proj.weight"}};
    for (int i = 0; i < 2; i++) {
        save_q8("q.gguf", names[i][0], 8, 2, turned);
        save_rows("f.st", names[i][1], 8, plain);
        for (int side = 0; side < 2; side++) {
            lam_weights_diff *d = side ? compared("q.gguf", "f.st") : compared("f.st", "q.gguf");
            assert_true(lam_weights_tensor(d, 0)->compared);
            near(lam_weights_tensor(d, 0)->squares, 0);
            assert_int_equal(lam_weights_tensor(d, 0)->elements, 256);
            lam_weights_diff_free(d);
        }
    }
}

/* Where there are no such heads, rows are compared as they stand. */
static void rows_without_heads_are_compared_as_they_stand(void **state) {
    (void)state;
    static const signed char turned[] = {1, 3, 2, 4, 5, 7, 6, 8};
    static const float plain[] = {1, 2, 3, 4, 5, 6, 7, 8}, same[] = {1, 3, 2, 4, 5, 7, 6, 8};
    static const struct {
        const char *name, *other;
        int type, heads;
    } all[] = {{"blk.0.attn_q.weight", "layers.0.self_attn.q_proj.weight", 4, 3},
               {"blk.0.attn_q.weight", "layers.0.self_attn.q_proj.weight", 4, 0},
               {"blk.0.attn_q.weight", "layers.0.self_attn.q_proj.weight", 6, 2},
               {"blk.0.attn_v.weight", "layers.0.self_attn.v_proj.weight", 4, 2}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        save_q8_of("q.gguf", "llama", all[i].name, 8, all[i].type, all[i].heads, turned);
        save_rows("f.st", all[i].other, 8, plain);
        lam_weights_diff *d = compared("f.st", "q.gguf");
        near(lam_weights_tensor(d, 0)->squares, 4 * 32);
        lam_weights_diff_free(d);
    }
    /* the order of the file is closer, and files of one kind have one order */
    save_q8("q.gguf", "blk.0.attn_q.weight", 8, 2, turned);
    save_rows("f.st", "layers.0.self_attn.q_proj.weight", 8, same);
    lam_weights_diff *d = compared("f.st", "q.gguf");
    near(lam_weights_tensor(d, 0)->squares, 0);
    lam_weights_diff_free(d);
    static const signed char others[] = {1, 2, 3, 4, 5, 6, 7, 8};
    save_q8("r.gguf", "blk.0.attn_q.weight", 8, 2, others);
    d = compared("q.gguf", "r.gguf");
    near(lam_weights_tensor(d, 0)->squares, 4 * 32);
    lam_weights_diff_free(d);
}

/* Gemma's norms are other values in GGUF. */
static void names_of_gguf_are_those_of_transformers(void **state) {
    (void)state;
    static const signed char now[] = {1, 1};
    static const float was[] = {2, 2};
    static const struct {
        const char *architecture, *name, *other;
        bool joined;
    } all[] = {
        {"gemma2", "blk.0.attn_norm.weight", "layers.0.input_layernorm.weight", false},
        {"gemma2", "blk.0.ffn_up.weight", "model.language_model.layers.0.mlp.up_proj.weight", true},
        {"llama", "blk.0.attn_norm.weight", "model.layers.0.input_layernorm.weight", true},
        {NULL, "blk.0.attn_norm.weight", "layers.0.input_layernorm.weight", true},
        {"llama", "blk.0.ffn_up.weight", "layers.1.mlp.up_proj.weight", false},
        {"llama", "blk.0.ffn_up.weight", "blk.0.ffn_up.weight", true},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        save_q8_of("q.gguf", all[i].architecture, all[i].name, 2, 4, 0, now);
        save_rows("f.st", all[i].other, 2, was);
        lam_weights_diff *d = compared("q.gguf", "f.st");
        assert_int_equal(!lam_weights_tensor(d, 1), all[i].joined);
        lam_weights_diff_free(d);
    }
}

/* Of tensors with the same bytes each has one of its own form. */
static void tensors_with_the_same_bytes_are_joined_by_their_forms(void **state) {
    (void)state;
    static const int32_t bytes[] = {1, 2, 1, 2, 1, 2, 1, 2};
    static const char *const were[] = {"b", "a", "d", "c"};
    save("a.st", "a F32 2 8; b I32 2 8; c F32 2 8; d F32 1,2 8", bytes, sizeof bytes);
    save("b.st", "w I32 2 8; x F32 2 8; y F32 1,2 8; z F32 2 8", bytes, sizeof bytes);
    lam_weights_diff *d = compared("a.st", "b.st");
    for (int32_t i = 0; i < 4; i++) {
        assert_int_equal(lam_weights_tensor(d, i)->change, LAM_WEIGHTS_RENAMED);
        assert_string_equal(lam_weights_tensor(d, i)->was, were[i]);
    }
    lam_weights_diff_free(d);
}

/* A packed weight whose name is longer than any is not looked for. */
static void a_name_that_is_too_long_has_no_mate(void **state) {
    (void)state;
    char name[1100], header[2600];
    memset(name, 'n', sizeof name);
    for (int packed = 0; packed < 2; packed++) {
        snprintf(header, sizeof header,
                 packed ? "{\"%.1050s.qweight\":{\"dtype\":\"I32\",\"shape\":[1,8],\"data_offsets\":[0,32]},"
                          "\"%.1050s.scales\":{\"dtype\":\"F16\",\"shape\":[1,8],\"data_offsets\":[32,48]}}"
                        : "{\"%.1050s.weight\":{\"dtype\":\"F32\",\"shape\":[8,8],\"data_offsets\":[0,256]}}",
                 name, name);
        lmi_buf b = safetensors_of(header, packed ? 48 : 256);
        save_bytes(packed ? "b.st" : "a.st", &b);
        lmi_buf_free(&b);
    }
    lam_weights_diff *d = compared("a.st", "b.st");
    for (int32_t i = 0; lam_weights_tensor(d, i); i++)
        assert_false(lam_weights_tensor(d, i)->was && lam_weights_tensor(d, i)->name);
    lam_weights_diff_free(d);
}

static void names_of_other_parts_are_not_guessed(void **state) {
    (void)state;
    char room[128];
    assert_string_equal(lmi_weights_word("blk.12.attn_output.bias", room, sizeof room),
                        "layers.12.self_attn.o_proj.bias");
    assert_string_equal(lmi_weights_word("token_embd.weight", room, sizeof room), "embed_tokens.weight");
    assert_string_equal(lmi_weights_word("output.weight", room, sizeof room), "lm_head.weight");
    static const char *const none[] = {"rope_freqs.weight",
                                       "blk.x.attn_q.weight",
                                       "blk.0.ssm_in.weight",
                                       "attn_q.weight",
                                       "blk.0.output.weight",
                                       "output",
                                       "blk.0"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_null(lmi_weights_word(none[i], room, sizeof room));
    assert_null(lmi_weights_word("blk.12.attn_output.bias", room, 8));
    static const signed char now[] = {1, 1};
    static const float was[] = {2, 2};
    save_q8("q.gguf", "blk.0.ssm_in.weight", 2, 0, now);
    save_rows("f.st", "layers.0.ssm.weight", 2, was);
    lam_weights_diff *d = compared("f.st", "q.gguf");
    assert_int_equal(change_of(d, "blk.0.ssm_in.weight")->change, LAM_WEIGHTS_ADDED);
    assert_int_equal(change_of(d, "layers.0.ssm.weight")->change, LAM_WEIGHTS_REMOVED);
    lam_weights_diff_free(d);
}

static void packed_weights_are_equal_or_not_by_their_bytes(void **state) {
    (void)state;
    static const char list[] = "l.qweight I32 8,32 1024; l.scales F16 2,32 128; l.g_idx I32 64 256";
    unsigned char data[1408] = {0};
    save("a.st", list, data, sizeof data);
    save("b.st", list, data, sizeof data);
    lam_weights_diff *d = compared("a.st", "b.st");
    assert_int_equal(lam_weights_differ(d), 0);
    lam_weights_diff_free(d);
    data[0] = 1;
    save("b.st", list, data, sizeof data);
    d = compared("a.st", "b.st");
    const lam_tensor_change *c = change_of(d, "l.qweight");
    assert_int_equal(c->change, LAM_WEIGHTS_CHANGED);
    assert_false(c->compared);
    assert_int_equal(c->elements, 2048);
    assert_non_null(strstr(c->why, "packed"));
    assert_int_equal(lam_weights_differ(d), 1);
    lam_weights_diff_free(d);
    float plain[2048] = {0};
    save("f.st", "l.weight F32 32,64 8192", plain, sizeof plain);
    d = compared("f.st", "a.st");
    c = change_of(d, "l.qweight");
    assert_int_equal(c->change, LAM_WEIGHTS_UNKNOWN);
    assert_string_equal(c->was, "l.weight");
    assert_int_equal(lam_weights_differ(d), 1); /* its scales are a part of it */
    lam_weights_diff_free(d);
}

/* -- failures -------------------------------------------------------------------------------------------- */

static lam_status stop_at_once(void *self, uint64_t done, uint64_t all) {
    assert_true(done <= all);
    ++*(int *)self;
    return LAM_FAILED;
}

static lam_status shorten(void *self, uint64_t done, uint64_t all) {
    (void)done, (void)all;
    return truncate(self, 200) == 0 ? LAM_OK : LAM_IO;
}

static void work_can_be_stopped_and_files_may_shrink(void **state) {
    (void)state;
    enum { N = 2 * LMI_PIECE_ELEMENTS };
    unsigned char *data = calloc(N, 1);
    char list[64];
    int calls = 0;
    lam_weights_diff *d = NULL;
    assert_non_null(data);
    snprintf(list, sizeof list, "w U8 %d %d", N, N);
    save("a.st", list, data, N);
    save("b.st", list, data, N);
    const lam_watcher stop = {stop_at_once, &calls}, cut = {shorten, (void *)"b.st"};
    last = (lam_error){.at = -1};
    assert_int_equal(lam_weights_diff_new(&d, "a.st", "b.st", &stop, &last), LAM_FAILED);
    assert_null(d);
    assert_int_equal(calls, 1);
    last = (lam_error){.at = -1};
    assert_int_equal(lam_weights_diff_new(&d, "a.st", "b.st", &cut, &last), LAM_IO);
    assert_non_null(strstr(last.text, "became shorter"));
    assert_string_equal(last.where, "b.st");
    free(data);
}

static void other_files_are_refused(void **state) {
    (void)state;
    lam_weights_diff *d = NULL;
    save("a.st", "w U8 1 1", "x", 1);
    save_words("text", "Dear Sir or Madam");
    save_words("report.json", "{\"schema\": \"lamina.report/1\"}");
    static const struct {
        const char *file;
        lam_status how;
    } bad[] = {{"text", LAM_FAILED}, {"report.json", LAM_UNSUPPORTED}, {"no.st", LAM_IO}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        last = (lam_error){.at = -1};
        assert_int_equal(lam_weights_diff_new(&d, "a.st", bad[i].file, NULL, &last), bad[i].how);
        assert_int_equal(lam_weights_diff_new(&d, bad[i].file, "a.st", NULL, NULL), bad[i].how);
        assert_string_equal(last.where, bad[i].file);
    }
    assert_int_equal(lam_weights_diff_new(&d, "a.st", NULL, NULL, &last), LAM_USAGE);
    lmi_buf b = safetensors_of("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 7);
    save_bytes("cut.st", &b);
    lmi_buf_free(&b);
    assert_int_equal(lam_weights_diff_new(&d, "a.st", "cut.st", NULL, &last), LAM_FAILED);
}

static void compare_once(void *after, bool *ok) {
    lam_weights_diff *d = NULL;
    lam_error e = {.at = -1};
    *ok = oom_check(lam_weights_diff_new(&d, "sweep/index.json", after, NULL, &e), &e);
    lam_weights_diff_free(d);
}

static void no_allocation_is_needed(void **state) {
    (void)state;
    static const signed char now[] = {1, 3, 2, 4, 5, 7, 6, 8};
    mkdir("sweep", 0777);
    save_safetensors("sweep/one.st",
                     "l.qweight I32 8,32 1024; l.scales F16 2,32 128; l.g_idx I32 64 256; n.w F32 1 4; "
                     "layers.0.self_attn.q_proj.weight F32 8,32 1024; f.x F4 4 2; p.qweight I32 8,32 1024; "
                     "p.scales F16 2,32 128; p.g_idx I32 64 256");
    save_words("sweep/index.json", "{\"weight_map\":{\"l.qweight\":\"one.st\"}}");
    save_safetensors(
        "sweep.st",
        "l.weight F32 32,64 8192; m.w F32 1 4; n.x F4 4 2; f.x F32 4 16; p.qweight I32 8,32 1024; "
        "p.scales F16 2,32 128; p.g_idx I32 64 256; q.qweight I32 8,32 1024; q.scales F16 2,32 128");
    save_q8("sweep.gguf", "blk.0.attn_q.weight", 8, 2, now);
    oom_sweep_parts(compare_once, (void *)"sweep.st");
    oom_sweep_parts(compare_once, (void *)"sweep.gguf");
    oom_sweep_reads(compare_once, (void *)"sweep.st");
    oom_sweep_reads(compare_once, (void *)"sweep.gguf");
}

/* -- types of GGUF by their numbers ------------------------------------------------------------------------
 */

/* Of ggml.h: number, elements and bytes of a block, and whether values are read. */
static const struct numbered {
    int number, elements, bytes;
    const char *type;
    bool read;
} numbered[] = {
    {0, 1, 4, "float32", true},        {1, 1, 2, "float16", true},        {2, 32, 18, "q4_0", true},
    {3, 32, 20, "q4_1", true},         {6, 32, 22, "q5_0", true},         {7, 32, 24, "q5_1", true},
    {8, 32, 34, "q8_0", true},         {9, 32, 36, "q8_1", true},         {10, 256, 84, "q2_K", true},
    {11, 256, 110, "q3_K", true},      {12, 256, 144, "q4_K", true},      {13, 256, 176, "q5_K", true},
    {14, 256, 210, "q6_K", true},      {15, 256, 292, "q8_K", true},      {16, 256, 66, "iq2_xxs", false},
    {17, 256, 74, "iq2_xs", false},    {18, 256, 98, "iq3_xxs", false},   {19, 256, 50, "iq1_s", false},
    {20, 32, 18, "iq4_nl", true},      {21, 256, 110, "iq3_s", false},    {22, 256, 82, "iq2_s", false},
    {23, 256, 136, "iq4_xs", true},    {24, 1, 1, "int8", true},          {25, 1, 2, "int16", true},
    {26, 1, 4, "int32", true},         {27, 1, 8, "int64", true},         {28, 1, 8, "float64", true},
    {29, 256, 56, "iq1_m", false},     {30, 1, 2, "bfloat16", true},      {31, 32, 18, "q4_0_4_4", false},
    {32, 32, 18, "q4_0_4_8", false},   {33, 32, 18, "q4_0_8_8", false},   {34, 256, 54, "tq1_0", true},
    {35, 256, 66, "tq2_0", true},      {36, 32, 18, "iq4_nl_4_4", false}, {37, 32, 18, "iq4_nl_4_8", false},
    {38, 32, 18, "iq4_nl_8_8", false}, {39, 32, 17, "mxfp4", true},       {40, 64, 36, "nvfp4", false},
    {41, 128, 18, "q1_0", false}};

static void each_type_of_gguf_has_its_blocks(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof numbered / sizeof *numbered; i++) {
        const struct numbered *k = &numbered[i];
        lam_weights_diff *d = NULL;
        for (int other = 0; other < 2; other++) {
            lmi_buf b;
            gguf_begin(&b, 3, 1, 0);
            gguf_tensor(&b, "w", (uint64_t)k->elements * 3, 0, k->number, 0);
            gguf_data(&b, 32, (size_t)k->bytes * 3);
            b.s[b.n - 1] = (char)other;
            save_bytes(other ? "numbered.b" : "numbered.a", &b);
            lmi_buf_free(&b);
        }
        lam_model *m = opened("numbered.a");
        lam_costs *c = costs_of(m);
        const bool buffer = strncmp(k->type, "int", 3) == 0; /* whole numbers are no parameters */
        const lam_param_totals all = lam_costs_params(c);
        is_exactly(buffer ? all.buffers : all.params, k->elements * 3);
        is_exactly(buffer ? all.buffer_bytes : all.param_bytes, k->bytes * 3);
        lam_costs_free(c);
        lam_model_free(m);
        assert_int_equal(lam_weights_diff_new(&d, "numbered.a", "numbered.b", NULL, &last), LAM_OK);
        const lam_tensor_change *t = lam_weights_tensor(d, 0);
        assert_int_equal(t->change, LAM_WEIGHTS_CHANGED);
        assert_string_equal(t->type[0], k->type);
        if (t->compared != k->read || !t->why == !k->read) fail_msg("%s", k->type);
        lam_weights_diff_free(d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_have_the_values_of_llama_cpp),
        cmocka_unit_test(blocks_of_whole_numbers_have_their_scale),
        cmocka_unit_test(every_type_has_its_values),
        cmocka_unit_test(what_changed_has_its_norms),
        cmocka_unit_test(large_tensors_are_compared_in_pieces),
        cmocka_unit_test(values_that_are_not_finite_are_named_and_in_no_norm),
        cmocka_unit_test(whole_numbers_of_64_bits_are_told_apart),
        cmocka_unit_test(types_and_shapes_that_differ_are_said),
        cmocka_unit_test(a_quantised_version_has_its_error),
        cmocka_unit_test(rows_of_heads_are_compared_in_their_order),
        cmocka_unit_test(rows_without_heads_are_compared_as_they_stand),
        cmocka_unit_test(names_of_gguf_are_those_of_transformers),
        cmocka_unit_test(tensors_with_the_same_bytes_are_joined_by_their_forms),
        cmocka_unit_test(a_name_that_is_too_long_has_no_mate),
        cmocka_unit_test(names_of_other_parts_are_not_guessed),
        cmocka_unit_test(packed_weights_are_equal_or_not_by_their_bytes),
        cmocka_unit_test(each_type_of_gguf_has_its_blocks),
        cmocka_unit_test(work_can_be_stopped_and_files_may_shrink),
        cmocka_unit_test(other_files_are_refused),
        cmocka_unit_test(no_allocation_is_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
