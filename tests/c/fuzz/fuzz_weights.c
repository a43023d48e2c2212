/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of models from strangers, under libFuzzer: each is read and its table written, or refused with a
 * sentence. The format is that of the first bytes. */
#include "lamina.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static lam_status swallow(void *self, const char *bytes, size_t n) {
    *(size_t *)self += n + (n && bytes[0] == '\n');
    return LAM_OK;
}

static void show(const lam_model *m) {
    lam_costs *c = NULL;
    lam_error e = {.at = -1};
    lam_report_options o;
    size_t out = 0;
    if (lam_costs_new(&c, m, NULL, &e) != LAM_OK) abort();
    lam_report_defaults(&o);
    o.why = true;
    if (lam_report_write(c, &o, (lam_sink){swallow, &out}, &e) != LAM_OK || !out) abort();
    o.format = "json";
    if (lam_report_write(c, &o, (lam_sink){swallow, &out}, &e) != LAM_OK) abort();
    lam_costs_free(c);
}

/* The values of its tensors: they are equal to themselves, or can't be compared. */
static void look(const char *file) {
    const lam_read_options o = {.health = true};
    lam_weights_diff *d = NULL;
    lam_model *m = NULL;
    lam_error e = {.at = -1};
    if (lam_read(&m, file, &o, &e) != LAM_OK && (m || !e.text[0])) abort();
    lam_model_free(m);
    e = (lam_error){.at = -1};
    if (lam_weights_diff_new(&d, file, file, NULL, &e) != LAM_OK && (d || !e.text[0])) abort();
    for (int32_t i = 0; d && lam_weights_tensor(d, i); i++) {
        const lam_weights_change change = lam_weights_tensor(d, i)->change;
        if (change != LAM_WEIGHTS_EQUAL && change != LAM_WEIGHTS_UNKNOWN) abort();
    }
    lam_weights_diff_free(d);
}

static void save(const char *file, const uint8_t *data, size_t n, size_t other) {
    FILE *f = fopen(file, "wb");
    bool ok = f != NULL;
    for (size_t i = 0; ok && i < n; i++) ok = fputc(data[i] ^ (i == other), f) != EOF;
    if (!ok || fclose(f) != 0) abort();
}

/* Of safetensors a second file has another first value, so that those of packed weights are computed. */
static void compare(const char *file, const uint8_t *data, size_t n) {
    char other[64];
    lam_weights_diff *d = NULL;
    lam_error e = {.at = -1};
    uint64_t header = 0;
    for (size_t i = 0; n > 8 && i < 8; i++) header |= (uint64_t)data[i] << 8 * i;
    if (header == 0 || header >= n - 8) return;
    snprintf(other, sizeof other, "fuzz_others_%ld", (long)getpid());
    save(other, data, n, 8 + (size_t)header);
    if (lam_weights_diff_new(&d, file, other, NULL, &e) != LAM_OK && (d || !e.text[0])) abort();
    for (int32_t i = 0; d && lam_weights_tensor(d, i); i++)
        if (lam_weights_tensor(d, i)->squares < 0) abort();
    lam_weights_diff_free(d);
    remove(other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    char file[64];
    lam_error e = {.at = -1};
    lam_model *m = NULL;
    snprintf(file, sizeof file, "fuzz_weights_%ld", (long)getpid());
    save(file, data, n, n);
    if (lam_read(&m, file, NULL, &e) != LAM_OK && (m || !e.text[0])) abort();
    if (m && !lam_model_file(m)) show(m);
    lam_model_free(m);
    look(file);
    compare(file, data, n);
    lam_scan *scan = NULL;
    if (lam_scan_new(&scan, file, &e) != LAM_OK && !e.text[0]) abort();
    lam_scan_free(scan);
    remove(file);
    return 0;
}
