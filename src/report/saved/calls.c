/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls of a saved report, and what it tells of the run as a whole. */
#include "report/saved/saved.h"

#include <math.h>

/* -- calls ----------------------------------------------------------------------------------------------- */

static int32_t device_of(const lmi_saved *s, uint32_t at) {
    if (!lmi_saved_has(s, at)) return -1;
    for (int32_t i = 0; strcmp(lmi_device_name(i), "?") != 0; i++)
        if (lmi_json_equals(&s->j, at, lmi_device_name(i))) return i;
    return -1;
}

static lam_status take_arg(const lmi_saved *s, uint32_t at, lmi_arena *a, lam_arg *out) {
    lam_shape shape;
    const char *dtype;
    int64_t position;
    LAM_TRY(lmi_saved_shape(s, lmi_saved_get(s, at, "shape"), a, &shape));
    LAM_TRY(lmi_saved_text(s, lmi_saved_get(s, at, "dtype"), &dtype));
    LAM_TRY(lmi_saved_int(s, lmi_saved_get(s, at, "position"), &position));
    *out = (lam_arg){.position = position > INT32_MAX ? -1 : (int32_t)position,
                     .dtype = lam_dtype_by_name(dtype),
                     .device = device_of(s, lmi_saved_get(s, at, "device")),
                     .ndim = shape.ndim,
                     .sizes = shape.sizes};
    return lmi_saved_text(s, lmi_saved_get(s, at, "name"), &out->name);
}

static lam_status take_args(const lmi_saved *s, uint32_t list, lmi_arena *a, int32_t *n,
                            const lam_arg **out) {
    lam_arg *args = lmi_alloc(a, lmi_saved_size(s, list), sizeof *args);
    if (!args) return lmi_nomem(s->e);
    *n = 0;
    *out = args;
    LMI_JSON_EACH(&s->j, list, i) LAM_TRY(take_arg(s, i, a, &args[(*n)++]));
    return LAM_OK;
}

static lam_status add_call(const lmi_saved *s, lam_builder *b, uint32_t row, int32_t place, bool training,
                           lmi_arena *a) {
    lam_call_info call = {.module = place, .parent = -1, .flags = training ? LAM_CALL_TRAINING : 0};
    LAM_TRY(take_args(s, lmi_saved_get(s, row, "inputs"), a, &call.n_in, &call.in));
    LAM_TRY(take_args(s, lmi_saved_get(s, row, "outputs"), a, &call.n_out, &call.out));
    return lam_build_call(b, &call, NULL, s->e);
}

/* Whether the model was in train() mode is known of its root. */
lam_status lmi_saved_calls(lmi_saved *s, lam_builder *b) {
    const bool training = lmi_json_equals(&s->j, lmi_saved_top(s, "provenance.mode"), "train");
    const int32_t *place = s->row_place;
    lam_status status = LAM_OK;
    lmi_arena arena;
    lmi_arena_init(&arena, UINT64_MAX);
    LMI_JSON_EACH(&s->j, s->rows, row) {
        if (status == LAM_OK && lmi_json_equals(&s->j, lmi_saved_get(s, row, "status"), "called"))
            status = add_call(s, b, row, *place, training, &arena);
        place++;
    }
    lmi_arena_free(&arena);
    return status;
}

/* -- the run --------------------------------------------------------------------------------------------- */

static lam_status add_texts(const lmi_saved *s, lam_builder *b, uint32_t list,
                            lam_status (*add)(lam_builder *b, const char *text, lam_error *e)) {
    LMI_JSON_EACH(&s->j, list, i) {
        const char *text;
        LAM_TRY(lmi_saved_word(s, i, &text));
        LAM_TRY(add(b, text, s->e));
    }
    return LAM_OK;
}

static lam_status add_provenance(const lmi_saved *s, lam_builder *b) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
    LMI_JSON_NAMES(&s->j, lmi_saved_top(s, "provenance"), i) {
        const char *name = lmi_json_as_text(&s->j, i), *text;
        LAM_TRY(lmi_saved_word(s, i + 1, &text));
        if (!*name || name[strspn(name, plain)])
            return lmi_saved_wrong(s, i + 1, "has a name that lamina does not write");
        LAM_TRY(lam_build_provenance(b, name, text, s->e));
    }
    return LAM_OK;
}

static lam_status add_memory(const lmi_saved *s, lam_builder *b) {
    const uint32_t at = lmi_saved_top(s, "memory");
    lam_memory_info info = {.rss_open = -1};
    if (!lmi_saved_has(s, lmi_saved_get(s, at, "peak"))) return LAM_OK; /* it was not measured */
    LAM_TRY(lmi_saved_word(s, lmi_saved_get(s, at, "source"), &info.source));
    LAM_TRY(lmi_saved_int(s, lmi_saved_top(s, "memory.rss.open"), &info.rss_open));
    LAM_TRY(lmi_saved_int(s, lmi_saved_top(s, "memory.rss.peak"), &info.rss_peak));
    LAM_TRY(lmi_saved_int(s, lmi_saved_top(s, "memory.rss.close"), &info.rss_close));
    return lam_build_memory(b, &info, s->e);
}

static lam_status add_stats(const lmi_saved *s, lam_builder *b, uint32_t at, int32_t call, int32_t out) {
    lam_stats x;
    int64_t *const whole[] = {&x.numbers, &x.nan, &x.inf, &x.zeros, &x.subnormal};
    static const char *const names[] = {"numbers", "nan", "inf", "zeros", "subnormal"};
    if (!lmi_saved_has(s, at)) return LAM_OK;
    for (int i = 0; i < 5; i++) LAM_TRY(lmi_saved_int(s, lmi_saved_get(s, at, names[i]), whole[i]));
    LAM_TRY(lmi_saved_real(s, lmi_saved_get(s, at, "least"), NAN, &x.least));
    LAM_TRY(lmi_saved_real(s, lmi_saved_get(s, at, "greatest"), NAN, &x.greatest));
    LAM_TRY(lmi_saved_real(s, lmi_saved_get(s, at, "mean"), NAN, &x.mean));
    LAM_TRY(lmi_saved_real(s, lmi_saved_get(s, at, "headroom"), NAN, &x.headroom));
    return lam_build_stats(b, call, out, &x, s->e);
}

/* Adds how many values were checked, and the statistics of each call's results. */
static lam_status add_looked(const lmi_saved *s, lam_builder *b) {
    const uint32_t at = lmi_saved_top(s, "health");
    lam_checked l = {0};
    if (!lmi_saved_has(s, lmi_saved_get(s, at, "sentence"))) return LAM_OK;
    LAM_TRY(lmi_saved_int(s, lmi_saved_get(s, at, "tensors"), &l.tensors));
    LAM_TRY(lmi_saved_int(s, lmi_saved_get(s, at, "bytes"), &l.bytes));
    LAM_TRY(lmi_saved_int(s, lmi_saved_get(s, at, "unseen"), &l.unseen));
    LAM_TRY(lmi_saved_truth(s, lmi_saved_get(s, at, "gradients"), &l.gradients));
    LAM_TRY(lmi_saved_truth(s, lmi_saved_get(s, at, "operators"), &l.operators));
    LAM_TRY(lmi_saved_truth(s, lmi_saved_get(s, at, "cut"), &l.cut));
    LAM_TRY(lam_build_checked(b, &l, s->e));
    LMI_SAVED_EACH_CALL(s, row, call) {
        uint32_t list = lmi_json_find(&s->j, row, "health.stats");
        int32_t n = 0, outputs = (int32_t)lmi_saved_size(s, lmi_saved_get(s, row, "outputs"));
        LMI_JSON_EACH(&s->j, list, i) {
            if (n >= outputs) break;
            LAM_TRY(add_stats(s, b, i, call, n++));
        }
    }
    return LAM_OK;
}

lam_status lmi_saved_run(lmi_saved *s, lam_builder *b) {
    LAM_TRY(add_texts(s, b, lmi_saved_top(s, "notes"), lam_build_note));
    LAM_TRY(add_texts(s, b, lmi_saved_top(s, "made_up"), lam_build_input_origin));
    LAM_TRY(add_provenance(s, b));
    if (lmi_json_equals(&s->j, lmi_saved_top(s, "provenance.backward"), "yes") &&
        !lmi_saved_has(s, lmi_saved_top(s, "totals.backward")))
        LAM_TRY(lam_build_no_backward(b, s->e));
    LAM_TRY(add_memory(s, b));
    LAM_TRY(add_looked(s, b));
    return LAM_OK;
}
