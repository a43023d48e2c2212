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

/* Every `step`-th change of a byte, and every `step`-th length. `whole`: a part of it is no model. */
OOM_UNUSED static void may_be_damaged(const char *path, bool whole, size_t step) {
    enum { WAYS = 5 };
    lmi_buf b = bytes_of(path);
    const size_t n = b.n;
    ask_all_of(path);
    lam_model_free(opened(path));
    for (size_t i = 0; i < WAYS * n; i += step) {
        char *at = &b.s[i / WAYS], before = *at;
        const char ways[WAYS] = {0, -1, (char)(before ^ 1), (char)(before ^ 0x80), (char)(before + 1)};
        *at = ways[i % WAYS];
        save_bytes("damaged", &b);
        *at = before;
        read_or_refused("damaged");
    }
    for (b.n = 1; b.n < n; b.n += step) {
        save_bytes("damaged", &b);
        if (read_or_refused("damaged") && whole) fail_msg("%s is read of %zu of %zu bytes", path, b.n, n);
    }
    b.n = n;
    lmi_buf_free(&b);
    oom_sweep_reads(read_searching, (void *)(uintptr_t)path);
}

#endif
