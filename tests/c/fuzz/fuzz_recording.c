/* SPDX-License-Identifier: Apache-2.0
 *
 * Recordings from strangers, under libFuzzer. A good one is made first; three bytes of input change one byte
 * of it: two say which, the third is its value. Whatever comes of that, it is read or refused with a
 * sentence. */
#include "oom.h"
#include "step_net.h"
#include "store/bins.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static unsigned char good[1 << 16], bad[1 << 16];
static size_t n_good;

/* Its steps are few, but they have rollups. */
static const char *rolled_up(const char *file) {
    int64_t steps[] = {1, 2, 3, 4, 5};
    lmi_db db;
    if (lmi_db_open(&db, file, NULL) != LAM_OK || lmi_roll_up(&db, 1, steps, 5, NULL) != LAM_OK) abort();
    lmi_db_close(&db);
    return file;
}

static void make_good(void) {
    FILE *f = fopen(rolled_up(step_recording("good.lamina", 0, 1, 1)), "rb");
    if (f) n_good = fread(good, 1, sizeof good, f);
    if (!n_good) abort();
    fclose(f);
}

static lam_status swallow(void *self, const char *bytes, size_t n) {
    *(size_t *)self += n + (n && bytes[0] == '\n');
    return LAM_OK;
}

static void show(const lam_recording *r) {
    static const char *const formats[] = {"text", "csv", "json"};
    size_t written = 0;
    for (int i = 0; i < 3; i++) {
        lam_recording_options o = {.format = formats[i], .depth = -1};
        lam_error e = {0};
        if (lam_recording_write(&r, 1, &o, (lam_sink){swallow, &written}, &e) != LAM_OK && !e.text[0])
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static const char *file;
    lam_recording *r = NULL;
    lam_error e = {0};
    if (!n_good) make_good();
    if (!file) file = step_file("changed.lamina");
    memcpy(bad, good, n_good);
    for (size_t i = 0; i + 2 < n; i += 3) bad[(data[i] << 8 | data[i + 1]) % n_good] = data[i + 2];
    FILE *f = fopen(file, "wb");
    if (!f || fwrite(bad, 1, n_good, f) != n_good || fclose(f) != 0) abort();
    if (lam_recording_open(&r, file, 0, 0, &e) != LAM_OK && !e.text[0]) abort();
    if (r) show(r);
    lam_recording_free(r);
    return 0;
}
