/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the values of an exported program's weights are: in entries of their own, which may be compressed, of
 * another order of bytes, too short, or not there. */
#include "kit/pickled.h"
#include "kit/program.h"

typedef struct stored {
    const char *path, *sizes, *strides, *offset; /* of fc.weight, float32; NULL: not told */
    bool pickle, deflated;
    size_t bytes;      /* of its entry; 0: there is none */
    const char *order; /* the file's order of bytes; NULL: not told */
    const char *why;   /* its values are not checked; NULL: they are */
} stored;

static void put_list_of(lmi_buf *b, const char *name, const char *numbers) {
    if (!numbers) return;
    lmi_putf(b, ",\"%s\":[", name);
    for (const char *at = numbers; *at; at += strspn(at, ",")) {
        const size_t n = strcspn(at, ",");
        lmi_putf(b, "%s{\"as_int\":%.*s}", at == numbers ? "" : ",", (int)n, at);
        at += n;
    }
    lmi_putc(b, ']');
}

static void save_stored(const char *file, const stored *s) {
    static const program p = {.nodes = "linear x w -> y",
                              .tensors = "x 3,4 w 4,4 y 3,4",
                              .in = "parameter:w=fc.weight user_input:x"};
    static const char zeros[256];
    lmi_buf text = program_made(&p), config;
    zipped z = zip_begin();
    zip_add(&z, "m/models/model.json", lmi_buf_text(&text), text.n);
    lmi_buf_init(&config);
    lmi_put(&config, "{\"config\":{\"fc.weight\":{\"is_param\":true");
    if (s->path) lmi_putf(&config, ",\"path_name\":\"%s\"", s->path);
    if (s->pickle) lmi_put(&config, ",\"use_pickle\":true");
    lmi_put(&config, ",\"tensor_meta\":{\"dtype\":7,\"requires_grad\":true");
    put_list_of(&config, "sizes", s->sizes);
    put_list_of(&config, "strides", s->strides);
    if (s->offset) lmi_putf(&config, ",\"storage_offset\":{\"as_int\":%s}", s->offset);
    lmi_put(&config, "}}}}");
    zip_add(&z, "m/data/weights/model_weights_config.json", lmi_buf_text(&config), config.n);
    if (s->bytes) (s->deflated ? zip_deflate : zip_add)(&z, "m/data/weights/weight_0", zeros, s->bytes);
    if (s->order) zip_add(&z, "m/byteorder", s->order, strlen(s->order));
    zip_save(file, &z);
    lmi_buf_free(&text);
    lmi_buf_free(&config);
}

static const stored plain = {
    .path = "weight_0", .sizes = "4,4", .strides = "4,1", .offset = "0", .bytes = 64};

static lam_model *checked(const char *file) {
    static const lam_read_options o = {.health = true};
    lam_model *m = NULL;
    last = (lam_error){.at = -1};
    if (lam_read(&m, file, &o, &last) != LAM_OK) fail_msg("%s", last.text);
    return m;
}

static void values_are_checked_where_they_are(void **state) {
    (void)state;
    const stored all[] = {
        plain,
        {.path = "weight_0", .sizes = "4,4", .bytes = 64}, /* row by row from the start */
        {.path = "weight_0", .sizes = "4,4", .strides = "1,4", .offset = "8", .bytes = 96, .order = "little"},
        {.path = "weight_0",
         .sizes = "4,4",
         .bytes = 64,
         .pickle = true,
         .why = "they are in a separate pickle"},
        {.path = "weight_0", .sizes = "4,4", .bytes = 64, .deflated = true, .why = "compress"},
        {.path = "weight_0", .sizes = "4,4", .why = "the file does not have them"},
        {.path = NULL, .sizes = "4,4", .bytes = 64, .why = "the file does not have them"},
        {.path = "weight_0",
         .sizes = "4,4",
         .bytes = 60,
         .why = "its storage is shorter than its shape says"},
        {.path = "weight_0",
         .sizes = "4,4",
         .strides = "4,1",
         .offset = "4",
         .bytes = 64,
         .why = "its storage is shorter than its shape says"},
        {.path = "weight_0",
         .sizes = "4,4",
         .bytes = 64,
         .order = "big",
         .why = "its numbers are in the other byte order"},
        {.path = "weight_0", .sizes = "4,4", .bytes = 64, .order = "odd"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        save_stored("stored.pt2", &all[i]);
        lam_model *m = checked("stored.pt2");
        const char *note = NULL;
        for (int32_t k = 0; lam_model_note(m, k); k++)
            if (strstr(lam_model_note(m, k), "are not checked")) note = lam_model_note(m, k);
        const lam_checked *looked = lam_model_checked(m);
        if (all[i].why ? !note || !strstr(note, all[i].why) || looked->unseen != 1
                       : note || looked->tensors != 1 || looked->bytes != 64)
            fail_msg("case %zu: %s", i, note ? note : "nothing is told");
        lam_model_free(m);
    }
}

/* Sizes whose product no number holds are read, and nothing of them is checked. */
static void sizes_may_be_too_large_for_memory(void **state) {
    (void)state;
    static const char *const sizes[] = {"4611686018427387904,4", "4611686018427387904,0",
                                        "1152921504606846976,1"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const stored large = {.path = "weight_0", .sizes = sizes[i], .bytes = 64};
        save_stored("large.pt2", &large);
        lam_model_free(checked("large.pt2"));
    }
}

static void no_allocation_and_no_reading_is_needed(void **state) {
    (void)state;
    stored s = plain;
    s.order = "little";
    save_stored("short.pt2", &s);
    oom_sweep_parts(check_once, "short.pt2");
    oom_sweep_reads(check_once, "short.pt2");
    s.bytes = 0;
    save_stored("short.pt2", &s);
    oom_sweep_parts(check_once, "short.pt2");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_checked_where_they_are),
        cmocka_unit_test(sizes_may_be_too_large_for_memory),
        cmocka_unit_test(no_allocation_and_no_reading_is_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
