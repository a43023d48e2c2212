/* SPDX-License-Identifier: Apache-2.0
 *
 * Archives of torch.export in whose JSON one value is another: each is read, or refused with a sentence that
 * names the place. */
#include "kit/archive.h"

#include "base/json.h"

/* -- archives -------------------------------------------------------------------------------------------- */

enum { MOST = 1 << 16, ENTRIES = 8 };

typedef struct entry {
    char name[128];
    const char *data;
    size_t n;
} entry;

/* The entries of a zip file in which nothing is compressed; returns how many. */
static int entries_of(const char *bytes, size_t n, entry *out) {
    int found = 0;
    for (size_t at = 0; at + 30 < n && memcmp(bytes + at, "PK\3\4", 4) == 0 && found < ENTRIES; found++) {
        const unsigned char *h = (const unsigned char *)bytes + at;
        const size_t size = h[18] | h[19] << 8 | h[20] << 16, name = h[26] | h[27] << 8,
                     more = h[28] | h[29] << 8;
        snprintf(out[found].name, sizeof out[found].name, "%.*s", (int)name, bytes + at + 30);
        out[found].data = bytes + at + 30 + name + more;
        out[found].n = size;
        at += 30 + name + more + size;
    }
    return found;
}

/* Saves entries, one of which has another text. */
static void save_entries(const char *file, const entry *all, int n, int which, const lmi_buf *text) {
    lmi_buf b;
    size_t at[ENTRIES];
    lmi_buf_init(&b);
    for (int i = 0; i < n; i++) {
        const size_t size = i == which ? text->n : all[i].n;
        at[i] = b.n;
        put_header(&b, all[i].name, size, false);
        lmi_putn(&b, i == which ? text->s : all[i].data, size);
    }
    const size_t directory = b.n;
    for (int i = 0; i < n; i++) {
        put_header(&b, all[i].name, i == which ? text->n : all[i].n, true);
        for (int k = 0; k < 4; k++) b.s[b.n - strlen(all[i].name) - 4 + k] = (char)(at[i] >> 8 * k);
    }
    const size_t size = b.n - directory;
    put_le(&b, 0x06054b50, 4);
    put_le(&b, 0, 4);
    put_le(&b, (uint64_t)n, 2);
    put_le(&b, (uint64_t)n, 2);
    put_le(&b, size, 4);
    put_le(&b, directory, 4);
    put_le(&b, 0, 2);
    save_bytes(file, &b);
    lmi_buf_free(&b);
}

/* -- changes --------------------------------------------------------------------------------------------- */

/* What takes the place of a value; NULL: it is left out. */
static const char *const others[] = {"null", "-1", "99999999999999999999", "\"x\"", "[]", "{}", NULL};
enum { N_OTHERS = sizeof others / sizeof *others, STEP = 5 };

/* Puts the JSON of a value, in which the value at `target` is another. */
static void put_value(lmi_buf *b, const lmi_json *j, uint32_t i, uint32_t target, const char *other) {
    const char *between = "";
    if (i == target) {
        lmi_put(b, other);
        return;
    }
    switch (lmi_json_is(j, i)) {
    case LMI_JSON_LIST:
        lmi_putc(b, '[');
        LMI_JSON_EACH(j, i, k) {
            if (k == target && !other) continue;
            lmi_put(b, between);
            put_value(b, j, k, target, other);
            between = ",";
        }
        lmi_putc(b, ']');
        return;
    case LMI_JSON_OBJECT:
        lmi_putc(b, '{');
        LMI_JSON_NAMES(j, i, k) {
            if (k + 1 == target && !other) continue;
            lmi_putf(b, "%s\"%s\":", between, lmi_json_as_text(j, k));
            put_value(b, j, k + 1, target, other);
            between = ",";
        }
        lmi_putc(b, '}');
        return;
    case LMI_JSON_TEXT:
        lmi_putc(b, '"');
        for (const char *p = lmi_json_as_text(j, i); *p; p++) {
            if (*p == '"' || *p == '\\') lmi_putc(b, '\\');
            if (*p == '\n')
                lmi_put(b, "\\n");
            else
                lmi_putc(b, *p);
        }
        lmi_putc(b, '"');
        return;
    default: lmi_putn(b, j->text + j->v[i].at, j->v[i].n);
    }
}

/* A refusal says which value is wrong. Returns whether there is one. */
static bool is_refused(const char *file) {
    const lam_read_options o = {.growth = true};
    lam_model *m = NULL;
    last = (lam_error){.at = -1};
    const lam_status s = lam_read(&m, file, &o, &last);
    assert_true(s == LAM_OK ? m != NULL : !m);
    lam_model_free(m);
    if (s == LAM_OK) return false;
    if (s != LAM_FAILED && s != LAM_LIMIT && s != LAM_UNSUPPORTED)
        fail_msg("status %d: %s", (int)s, last.text);
    if (!last.text[0]) fail_msg("no sentence");
    return true;
}

static char *whole(const char *name, size_t *n) {
    char path[512];
    char *bytes = malloc(MOST);
    assert_non_null(bytes);
    snprintf(path, sizeof path, "%s/files/%s", LAMINA_TEST_DATA, name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    *n = fread(bytes, 1, MOST, f);
    fclose(f);
    return bytes;
}

/* Every value of the JSON of an entry is some other thing. Returns the number of refusals. */
static int each_value(const char *sample, const char *ending) {
    static const lmi_json_limits limits = {.depth = 64, .size = MOST};
    entry all[ENTRIES];
    lmi_json j;
    size_t n;
    char *bytes = whole(sample, &n), *text = malloc(MOST);
    const int found = entries_of(bytes, n, all);
    int which = 0, refusals = 0;
    while (which < found && !strstr(all[which].name, ending)) which++;
    assert_true(which < found);
    memcpy(text, all[which].data, all[which].n);
    assert_int_equal(lmi_json_read(&j, text, all[which].n, &limits, sample, &last), LAM_OK);
    for (uint32_t at = 0; at < j.n * N_OTHERS; at += STEP) {
        const uint32_t i = 1 + at / N_OTHERS;
        const char *other = others[at % N_OTHERS];
        lmi_buf b;
        if (i >= j.n || (i == LMI_JSON_ROOT && !other)) continue;
        lmi_buf_init(&b);
        put_value(&b, &j, LMI_JSON_ROOT, i, other);
        save_entries("values.pt2", all, found, which, &b);
        refusals += is_refused("values.pt2");
        lmi_buf_free(&b);
    }
    lmi_json_free(&j);
    free(text);
    free(bytes);
    return refusals;
}

static void a_program_with_another_value_is_read_or_refused(void **state) {
    (void)state;
    assert_true(each_value("net.pt2", "models/model.json") > 50);
    assert_true(each_value("branch.pt2", "models/model.json") > 50);
    assert_true(each_value("old.pt2", "serialized_exported_program.json") > 50);
}

static void what_tells_the_weights_may_have_another_value(void **state) {
    (void)state;
    assert_true(each_value("net.pt2", "model_weights_config.json") > 5);
}

/* Of several programs that of "model.json" is read, or the first one. */
static void an_archive_may_have_several_programs(void **state) {
    (void)state;
    static const struct {
        const char *names[ENTRIES], *read;
    } all[] = {
        {{"m/models/other.json", "m/models/model.json", "m/models/third.json"}, "m/models/model.json"},
        {{"m/models/other.json", "m/models/third.json"}, "m/models/other.json"},
        {{"models/other.json"}, "models/other.json"},
        {{"serialized_exported_program.json"}, "serialized_exported_program.json"},
        {{"readme", "m/serialized_exported_program.json", "m/data/a.json", "m/models/a.txt",
          "m/models/in/a.json", "m/models/b.json"},
         "m/models/b.json"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        entry entries[ENTRIES];
        char text[ENTRIES][256];
        int n = 0;
        for (; n < ENTRIES && all[i].names[n]; n++) {
            snprintf(
                text[n], sizeof *text,
                "{\"schema_version\":8,\"torch_version\":\"of %s\",\"graph_module\":{\"graph\":{\"nodes\":["
                "],\"tensor_values\":{}},\"signature\":{}}}",
                all[i].names[n]);
            snprintf(entries[n].name, sizeof entries[n].name, "%s", all[i].names[n]);
            entries[n].data = text[n];
            entries[n].n = strlen(text[n]);
        }
        save_entries("several.pt2", entries, n, -1, NULL);
        lam_model *m = opened("several.pt2");
        assert_string_equal(lam_model_told(m, "torch") + strlen("of "), all[i].read);
        lam_model_free(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_archive_may_have_several_programs),
        cmocka_unit_test(a_program_with_another_value_is_read_or_refused),
        cmocka_unit_test(what_tells_the_weights_may_have_another_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
