/* SPDX-License-Identifier: Apache-2.0
 *
 * A file of a model that is cut off anywhere, in which a byte is another, and that can't be read. */
#ifndef LAMINA_TEST_DAMAGED_H
#define LAMINA_TEST_DAMAGED_H

#include "kit/weights.h"

/* What is asked of a file: all that its format has. */
static lam_read_options all_of_it;

OOM_UNUSED static void ask_all_of(const char *path) {
    const char *format = lam_read_format(path);
    const bool graph = format && (strcmp(format, "ONNX") == 0 || strcmp(format, "pt2") == 0);
    all_of_it = (lam_read_options){.growth = true, .health = !graph};
}

/* A file is read, searched and scanned, or refused by a sentence. Returns whether it is read. */
OOM_UNUSED static bool read_or_refused(const char *path) {
    lam_model *m = NULL;
    lam_scan *found = NULL;
    lam_error e = {.at = -1}, of_scan = {.at = -1};
    const lam_status s = lam_read(&m, path, &all_of_it, &e), scanned = lam_scan_new(&found, path, &of_scan);
    assert_true((s == LAM_OK) == (m != NULL));
    assert_true((scanned == LAM_OK) == (found != NULL));
    if (s != LAM_OK && ((s != LAM_FAILED && s != LAM_LIMIT && s != LAM_UNSUPPORTED) || !*e.text))
        fail_msg("status %d: '%s'", (int)s, e.text);
    if (scanned != LAM_OK && !*of_scan.text) fail_msg("status %d of a scan without a sentence", (int)scanned);
    if (m) lam_costs_free(costs_of(m));
    lam_model_free(m);
    lam_scan_free(found);
    return s == LAM_OK;
}

OOM_UNUSED static void read_searching(void *path, bool *ok) {
    lam_model *m = NULL;
    lam_error e = {.at = -1};
    *ok = oom_check(lam_read(&m, path, &all_of_it, &e), &e);
    lam_model_free(m);
}

OOM_UNUSED static lmi_buf bytes_of(const char *path) {
    lmi_buf b;
    char piece[4096];
    size_t n;
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    lmi_buf_init(&b);
    while ((n = fread(piece, 1, sizeof piece, f)) > 0) lmi_putn(&b, piece, n);
    fclose(f);
    return b;
}

/* The weights of two files are compared, or refused by a sentence; what is told of a tensor goes together. */
OOM_UNUSED static void compared_or_refused(const char *before, const char *after) {
    lam_weights_diff *d = NULL;
    lam_error e = {.at = -1};
    const lam_status s = lam_weights_diff_new(&d, before, after, NULL, &e);
    assert_true((s == LAM_OK) == (d != NULL));
    if (s != LAM_OK && ((s != LAM_FAILED && s != LAM_LIMIT && s != LAM_UNSUPPORTED) || !*e.text))
        fail_msg("status %d: '%s'", (int)s, e.text);
    for (int32_t i = 0; d && lam_weights_tensor(d, i); i++) {
        const lam_tensor_change *c = lam_weights_tensor(d, i);
        assert_true(c->was || c->name);
        if (c->compared && (c->why || c->elements < 0 || c->differ < 0 || c->differ > c->elements))
            fail_msg("%s: %lld of %lld differ", c->name, (long long)c->differ, (long long)c->elements);
        if (c->compared && c->change == LAM_WEIGHTS_EQUAL) assert_int_equal(c->differ, 0);
    }
    lam_weights_diff_free(d);
}

/* Every `step`-th change of a byte of a safetensors file, which is compared under the name `as`. */
OOM_UNUSED static void damaged_weights_are_compared(const char *file, const char *as, const char *other,
                                                    size_t step) {
    static const char ways[] = {'0', '1', '9', 'q', '.', '"'};
    lmi_buf b = bytes_of(file);
    for (size_t i = 0; i < sizeof ways * b.n; i += step) {
        char *at = &b.s[i / sizeof ways], before = *at;
        *at = ways[i % sizeof ways];
        save_bytes(file, &b);
        *at = before;
        compared_or_refused(as, other);
        compared_or_refused(other, as);
    }
    save_bytes(file, &b);
    lmi_buf_free(&b);
}

/* Every `step`-th change of a byte, and every `step`-th length. `whole`: a part of it is no model. */
OOM_UNUSED static void may_be_damaged(const char *path, bool whole, size_t step) {
    enum { WAYS = 5 };
    char damaged[64]; /* a name of its own, since tests run beside each other */
    const char *slash = strrchr(path, '/');
    lmi_buf b = bytes_of(path);
    snprintf(damaged, sizeof damaged, "damaged-%s", slash ? slash + 1 : path);
    const size_t n = b.n;
    ask_all_of(path);
    lam_model_free(opened(path));
    for (size_t i = 0; i < WAYS * n; i += step) {
        char *at = &b.s[i / WAYS], before = *at;
        const char ways[WAYS] = {0, -1, (char)(before ^ 1), (char)(before ^ 0x80), (char)(before + 1)};
        *at = ways[i % WAYS];
        save_bytes(damaged, &b);
        *at = before;
        read_or_refused(damaged);
    }
    for (b.n = 1; b.n < n; b.n += step) {
        save_bytes(damaged, &b);
        if (read_or_refused(damaged) && whole) fail_msg("%s is read of %zu of %zu bytes", path, b.n, n);
    }
    b.n = n;
    lmi_buf_free(&b);
    oom_sweep_reads(read_searching, (void *)(uintptr_t)path);
    oom_sweep_takes(read_searching, (void *)(uintptr_t)path, (int64_t)step);
}

#endif
