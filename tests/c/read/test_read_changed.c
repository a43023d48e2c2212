/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of models with bytes changed, cut out, or cut off: each is read or refused with a sentence, and is as
 * large a model as its file may be. */
#include "kit/draw.h"

#include "base/base.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

static const char *const files[] = {"net.safetensors", "tiny.gguf",  "state.pt",         "model.pt",
                                    "image.onnx",      "odd.onnx",   "net.pt2",          "old.pt2",
                                    "branch.pt2",      "small.gguf", "tuned.safetensors"};
#define FILES  LAMINA_TEST_DATA "/files"
#define CORPUS LAMINA_TEST_DATA "/../c/fuzz/corpus/fuzz_weights"
enum { MOST = 1 << 20, CHANGES = 200, CHANGES_OF_CORPUS = 20 };

static size_t whole(const char *folder, const char *name, char *bytes) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t n = fread(bytes, 1, MOST, f);
    fclose(f);
    return n;
}

/* Its costs have a row for each of its places, unless it has calls. */
static void counts(const lam_model *m) {
    lam_costs *c = NULL;
    lam_error e = {.at = -1};
    assert_int_equal(lam_costs_new(&c, m, NULL, &e), LAM_OK);
    if (lam_model_n_events(m) == 0) assert_int_equal(lam_costs_n_rows(c), lam_model_n_places(m));
    lam_costs_free(c);
}

/* With the file that was changed, or NULL: with itself. A change of one byte of a value is no failure, and
 * any other is that of lam_read. */
static void compares(const char *name, lam_status read) {
    char path[512];
    const lam_read_options o = {.health = true};
    lam_weights_diff *d = NULL;
    lam_model *m = NULL;
    lam_error e = {.at = -1};
    snprintf(path, sizeof path, FILES "/%s", name ? name : "");
    const lam_status compared = lam_weights_diff_new(&d, name ? path : "changed", "changed", NULL, &e);
    assert_true(compared == LAM_OK ? d != NULL : e.text[0] && !d);
    if (read == LAM_OK && compared != LAM_OK)
        assert_int_equal(compared, LAM_UNSUPPORTED); /* a saved report */
    for (int32_t i = 0; d && lam_weights_tensor(d, i); i++)
        assert_true(lam_weights_tensor(d, i)->change < LAM_N_WEIGHTS_CHANGES);
    lam_weights_diff_free(d);
    e = (lam_error){.at = -1};
    const lam_status checked = lam_read(&m, "changed", &o, &e);
    assert_true(checked == read || checked == LAM_UNSUPPORTED); /* formats whose weights are not read */
    lam_model_free(m);
}

static void reads(const char *name, const char *bytes, size_t n) {
    FILE *f = fopen("changed", "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
    lam_model *m = NULL;
    lam_scan *s = NULL;
    lam_error e = {.at = -1};
    const lam_status status = lam_read(&m, "changed", NULL, &e);
    assert_true(status == LAM_OK ? m != NULL : e.text[0] && !m);
    assert_true(status != LAM_SYNTAX && status != LAM_NOMEM && status != LAM_RANGE);
    if (m && !lam_model_file(m)) counts(m);
    lam_model_free(m);
    compares(name, status);
    assert_int_equal(lam_scan_new(&s, "changed", &e), LAM_OK);
    lam_scan_free(s);
}

/* Most changes are where the format is: a header, or what a zip file has at its end. */
static size_t place(size_t n) {
    const size_t near = n < 600 ? n : 600;
    return (size_t)draw(0, 3) ? (size_t)draw(0, (int64_t)near - 1)
                              : n - 1 - (size_t)draw(0, (int64_t)near - 1);
}

/* One to four bytes of the first n are others; the length may be less. */
static size_t change(const char *from, char *to, size_t n) {
    static const unsigned char odd[] = {0, 1, 0x7f, 0x80, 0xff, '{', '(', 'R', '.', 0x93};
    size_t m = n;
    memcpy(to, from, n);
    for (int64_t c = draw(1, 4); c > 0; c--) {
        const size_t at = place(m);
        if (draw(0, 9) == 0)
            m = at + 1;
        else
            to[at] = (char)(draw(0, 1) ? odd[draw(0, sizeof odd - 1)] : (unsigned char)draw(0, 255));
    }
    return m;
}

static void changed_files_are_read_or_refused(void **state) {
    (void)state;
    static char from[MOST], to[MOST];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const size_t n = whole(FILES, files[i], from);
        seed = 7 + (uint32_t)i;
        for (int k = 0; k < rounds(CHANGES); k++) reads(files[i], to, change(from, to, n));
    }
}

/* The corpus of the fuzzers has a file of every format and kind. */
static void changed_files_of_the_corpus_are_read_or_refused(void **state) {
    (void)state;
    static char from[MOST], to[MOST];
    int n_files = 0;
    DIR *dir = opendir(CORPUS);
    assert_non_null(dir);
    for (struct dirent *at; (at = readdir(dir)) != NULL;) {
        const size_t n = at->d_name[0] == '.' ? 0 : whole(CORPUS, at->d_name, from);
        if (!n) continue;
        n_files++;
        seed = 11; /* the same changes, in whichever order the files come */
        reads(NULL, from, n);
        for (int k = 0; k < CHANGES_OF_CORPUS; k++) reads(NULL, to, change(from, to, n));
    }
    closedir(dir);
    assert_true(n_files > 10);
}

/* Every prefix of a header, and every end that is missing. */
static void files_that_are_cut_off_are_refused(void **state) {
    (void)state;
    static char from[MOST];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const size_t n = whole(FILES, files[i], from), step = 1 + n / 100;
        for (size_t m = 0; m < n; m += step) reads(files[i], from, m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changed_files_are_read_or_refused),
        cmocka_unit_test(changed_files_of_the_corpus_are_read_or_refused),
        cmocka_unit_test(files_that_are_cut_off_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
