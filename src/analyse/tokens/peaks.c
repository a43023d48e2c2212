/* SPDX-License-Identifier: Apache-2.0
 *
 * Peaks of devices as their makers publish them: dense products alone, without structured sparsity, which
 * makers often print first and which is twice as much. */
#include "analyse/tokens/tokens.h"

#include <stdio.h>

enum { MOST_TYPES = 8 };

/* TFLOP/s by type of numbers, of products that add up in float32; and TB/s of memory. */
static const struct {
    const char *name;
    double terabytes;
    const char *source;
    struct {
        const char *dtype;
        double teraflops;
    } of[MOST_TYPES];
} peaks[] = {
    {"a100-40gb", 1.555, "NVIDIA A100 datasheet", {{"bfloat16", 312}, {"float16", 312}, {"float32", 19.5}}},
    {"a100-80gb-pcie",
     1.935,
     "NVIDIA A100 80GB datasheet",
     {{"bfloat16", 312}, {"float16", 312}, {"float32", 19.5}}},
    {"a100-80gb-sxm",
     2.039,
     "NVIDIA A100 80GB datasheet",
     {{"bfloat16", 312}, {"float16", 312}, {"float32", 19.5}}},
    {"h100-sxm",
     3.35,
     "NVIDIA H100 datasheet, figures with sparsity halved",
     {{"bfloat16", 989}, {"float16", 989}, {"float8_e4m3fn", 1979}, {"float32", 67}}},
    {"h200-sxm",
     4.8,
     "NVIDIA H200 datasheet, figures with sparsity halved",
     {{"bfloat16", 989}, {"float16", 989}, {"float8_e4m3fn", 1979}, {"float32", 67}}},
    {"l4",
     0.3,
     "NVIDIA L4 datasheet, figures with sparsity halved",
     {{"bfloat16", 121}, {"float16", 121}, {"float32", 30.3}}},
    {"mi300x",
     5.3,
     "AMD Instinct MI300X data sheet",
     {{"bfloat16", 1307.4}, {"float16", 1307.4}, {"float32", 163.4}}},
    {"t4", 0.32, "NVIDIA T4 datasheet", {{"float16", 65}, {"float32", 8.1}}},
    {"v100-sxm2", 0.9, "NVIDIA V100 datasheet", {{"float16", 125}, {"float32", 15.7}}},
};
enum { N_PEAKS = sizeof peaks / sizeof *peaks };

static lam_status of_type(int k, const char *dtype, lam_named_peak *out, lam_error *e) {
    char known[96] = "";
    size_t n = 0;
    for (int i = 0; i < MOST_TYPES && peaks[k].of[i].dtype; i++) {
        if (dtype && strcmp(dtype, peaks[k].of[i].dtype) == 0) {
            *out = (lam_named_peak){.name = peaks[k].name,
                                    .dtype = peaks[k].of[i].dtype,
                                    .source = peaks[k].source,
                                    .best = {peaks[k].of[i].teraflops * 1e12, peaks[k].terabytes * 1e12}};
            return LAM_OK;
        }
        if (n < sizeof known)
            n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", i ? ", " : "", peaks[k].of[i].dtype);
    }
    if (!dtype)
        return lmi_fail(e, LAM_USAGE, "peak", "%s has one peak for each type; name it, as in %s:%s",
                        peaks[k].name, peaks[k].name, peaks[k].of[0].dtype);
    return lmi_fail(e, LAM_USAGE, "peak", "no peak of %s is known for %s; known are those for %s",
                    peaks[k].name, dtype, known);
}

static const char MEASURED[] = "measured";
static const char HERE[] = "torch.mm and a copy, on this machine's processor",
                  THERE[] = "torch.mm and a copy, on the model's device";

static bool is_measured(const char *name, size_t n) {
    return n == sizeof MEASURED - 1 && strncmp(name, MEASURED, n) == 0;
}

/* What is to be measured, for a type of numbers that is spelled as torch does. */
static lam_status to_measure(const char *dtype, lam_named_peak *out, lam_error *e) {
    *out = (lam_named_peak){.name = MEASURED, .source = HERE};
    if (!dtype)
        return lmi_fail(e, LAM_USAGE, "peak", "%s is for one type of numbers; name it, as in %s:float32",
                        MEASURED, MEASURED);
    for (int32_t i = 0; i < 128 && !out->dtype; i++) {
        const char *name = lam_dtype_name(i);
        if (name && lam_dtype_is_float(i) && strcmp(name, dtype) == 0) out->dtype = name;
    }
    if (out->dtype) return LAM_OK;
    return lmi_fail(e, LAM_USAGE, "peak", "%s: '%.40s' is no floating-point type, as float32 or bfloat16",
                    MEASURED, dtype);
}

lam_status lam_tokens_peak(const lam_tokens *t, const char *text, lam_named_peak *out, lam_error *e) {
    enum { PROCESSOR = 0, META = 14 };
    LAM_TRY(lam_peak_named(text, t->dtype >= 0 ? lam_dtype_name(t->dtype) : NULL, out, e));
    if (out->source == HERE && t->device > PROCESSOR && t->device != META) out->source = THERE;
    return LAM_OK;
}

lam_status lam_peak_named(const char *text, const char *dtype, lam_named_peak *out, lam_error *e) {
    const char *colon = strchr(text, ':');
    const size_t n = colon ? (size_t)(colon - text) : strlen(text);
    if (is_measured(text, n)) return to_measure(colon ? colon + 1 : dtype, out, e);
    for (int k = 0; k < N_PEAKS; k++)
        if (strlen(peaks[k].name) == n && strncmp(peaks[k].name, text, n) == 0)
            return of_type(k, colon ? colon + 1 : dtype, out, e);
    const char *names[N_PEAKS + 1] = {[N_PEAKS] = MEASURED};
    for (int k = 0; k < N_PEAKS; k++) names[k] = peaks[k].name;
    return lmi_no_such(e, "peak", text, NULL, names, sizeof *names, N_PEAKS + 1);
}
