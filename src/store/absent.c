/* SPDX-License-Identifier: Apache-2.0
 *
 * What is built where SQLite is missing: everything else of lamina works, and a recording says why it does
 * not. */
#include "base/base.h"

static lam_status absent(lam_error *e) {
    return lmi_fail(
        e, LAM_UNSUPPORTED, NULL,
        "this lamina was built without SQLite, so it knows no recordings; install libsqlite3-dev and build "
        "it again");
}

lam_status lam_recorder_new(lam_recorder **out, const char *file, const lam_run_info *info, lam_error *e) {
    (void)file, (void)info;
    *out = NULL;
    return absent(e);
}

lam_status lam_recorder_step(lam_recorder *r, lam_model *m, const lam_step_info *info, lam_error *e) {
    (void)r, (void)info;
    lam_model_free(m);
    return absent(e);
}

lam_status lam_recorder_again(lam_recorder *r, const lam_step_info *info, const lam_call_info *calls,
                              int32_t n_calls, const lam_op_info *nodes, int32_t n_nodes, bool *known,
                              lam_error *e) {
    (void)r, (void)info, (void)calls, (void)n_calls, (void)nodes, (void)n_nodes;
    *known = false;
    return absent(e);
}

int64_t lam_recorder_dropped(const lam_recorder *r) {
    (void)r;
    return 0;
}

int64_t lam_recorder_steps(const lam_recorder *r) {
    (void)r;
    return 0;
}

int64_t lam_recorder_run(const lam_recorder *r) {
    (void)r;
    return 0;
}

lam_status lam_recorder_close(lam_recorder *r, lam_error *e) {
    (void)r, (void)e;
    return LAM_OK;
}

lam_status lam_recording_open(lam_recording **out, const char *file, int64_t run, int32_t last,
                              lam_error *e) {
    (void)file, (void)run, (void)last;
    *out = NULL;
    return absent(e);
}

void lam_recording_free(lam_recording *r) { (void)r; }

const lam_recorded_run *lam_recording_run(const lam_recording *r) {
    (void)r;
    return NULL;
}

const lam_recorded_model *lam_recording_model(const lam_recording *r, int32_t i) {
    (void)r, (void)i;
    return NULL;
}

const lam_recorded_place *lam_recording_place(const lam_recording *r, int32_t model, int32_t place) {
    (void)r, (void)model, (void)place;
    return NULL;
}

bool lam_recording_step(const lam_recording *r, int32_t model, int64_t i, lam_recorded_step *out) {
    (void)r, (void)model, (void)i, (void)out;
    return false;
}

bool lam_recording_is(const char *file) {
    size_t n = file ? strlen(file) : 0;
    return n > 7 && strcmp(file + n - 7, ".lamina") == 0;
}

lam_status lam_recording_tensorboard(const char *file, int64_t run, const char *folder, char *path,
                                     size_t size, lam_error *e) {
    (void)file, (void)run, (void)folder, (void)path, (void)size;
    return absent(e);
}
