/* SPDX-License-Identifier: Apache-2.0
 *
 * Saved reports from strangers, under libFuzzer: each is read and its page written, or refused with a
 * sentence. */
#include "lamina.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static lam_status swallow(void *self, const char *bytes, size_t n) {
    *(size_t *)self += n + (n && bytes[0] == '\n');
    return LAM_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    char file[64];
    size_t out = 0;
    lam_error e = {0};
    snprintf(file, sizeof file, "fuzz_saved_%ld.json", (long)getpid());
    FILE *f = fopen(file, "wb");
    if (!f || fwrite(data, 1, n, f) != n || fclose(f) != 0) abort();
    lam_page_options o = {.file_before = file, .before = file, .target = file};
    lam_status s = lam_page_of(file, &o, (lam_sink){swallow, &out}, &e);
    if (s == LAM_OK ? out == 0 : !e.text[0]) abort();
    remove(file);
    return 0;
}
