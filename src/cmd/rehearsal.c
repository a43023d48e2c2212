/* SPDX-License-Identifier: Apache-2.0
 *
 * What several verbs write with: a model to rehearse a report on, a sink for it, the head of a page. */
#include "cmd/cmd.h"

#include <string.h>

static lam_status put_nowhere(void *to, const char *bytes, size_t n) {
    (void)to, (void)bytes, (void)n;
    return LAM_OK;
}

const lam_sink lmi_nowhere = {put_nowhere, NULL};

/* One layer, called once. */
lam_status lmi_smallest_model(lam_model **m, lam_error *e) {
    static const int64_t sizes[] = {1, 1};
    const lam_arg x = {.position = 0, .dtype = -1, .device = -1, .ndim = 2, .sizes = sizes};
    const lam_module_info mod = {.type = "Identity",
                                 .type_path = "torch.nn.Identity",
                                 .flags = LAM_MODULE_LEAF,
                                 .word = lam_word_module("Identity")};
    const lam_call_info call = {
        .parent = -1, .t0_ns = 1, .t1_ns = 2, .n_in = 1, .n_out = 1, .in = &x, .out = &x};
    int32_t i;
    lam_builder *b;
    lam_status s = lam_builder_new(&b, 0, e);
    if (s != LAM_OK) return s;
    s = lam_build_module(b, &mod, &i, e);
    if (s == LAM_OK) s = lam_build_place(b, -1, "", 0, &i, e);
    if (s == LAM_OK) s = lam_build_call(b, &call, &i, e);
    if (s == LAM_OK) s = lam_build_ops_seen(b, e);
    if (s == LAM_OK) s = lam_build_timed(b, e);
    if (s == LAM_OK) s = lam_build_memory(b, &(lam_memory_info){"", -1, -1, -1, false}, e);
    if (s == LAM_OK) return lam_builder_finish(b, m, e);
    lam_builder_free(b);
    return s;
}

static lam_status put(lam_sink to, const char *text, lam_error *e) {
    lam_status s = to.put(to.to, text, strlen(text));
    if (s != LAM_OK && e->status == LAM_OK) e->status = s;
    return s;
}

/* A comparison or a picture is a part of a page; a file needs the rest, or a browser guesses its encoding. */
lam_status lmi_page_head(lam_sink to, const char *title, lam_error *e) {
    static const char head[] = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
                               "<meta name=\"color-scheme\" content=\"light dark\">\n"
                               "<meta http-equiv=\"Content-Security-Policy\" "
                               "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
                               "<title>";
    lam_status s = put(to, head, e);
    if (s == LAM_OK) s = put(to, title, e);
    return s == LAM_OK ? put(to, "</title>\n", e) : s;
}
