/* SPDX-License-Identifier: Apache-2.0
 *
 * Peaks of devices as their makers publish them: dense products alone, without structured sparsity, which
 * makers often print first and which is twice as much. */
#include "analyse/tokens/tokens.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_TYPES = 8, MOST_NAMES = 4 };

/* TFLOP/s by type of numbers, of products that add up in float32; and TB/s of memory. */
static const struct {
    const char *name;
    const char *drivers[MOST_NAMES]; /* what a driver calls the device */
    double terabytes;
    const char *source;
    struct {
        const char *dtype;
        double teraflops;
    } of[MOST_TYPES];
} peaks[] = {
    {"a100-40gb",
     {"NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB", "NVIDIA A100-PCIE-40GB", "A100-PCIE-40GB"},
     1.555,
     "NVIDIA A100 datasheet",
     {{"bfloat16", 312}, {"float16", 312}, {"float32", 19.5}}},
    {"a100-80gb-pcie",
     {"NVIDIA A100 80GB PCIe", "NVIDIA A100-PCIE-80GB"},
     1.935,
     "NVIDIA A100 80GB datasheet",
     {{"bfloat16", 312}, {"float16", 312}, {"float32", 19.5}}},
    {"a100-80gb-sxm",
     {"NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"},
     2.039,
     "NVIDIA A100 80GB datasheet",
     {{"bfloat16", 312}, {"float16", 312}, {"float32", 19.5}}},
    {"h100-sxm",
     {"NVIDIA H100 80GB HBM3"},
     3.35,
     "NVIDIA H100 datasheet, figures with sparsity halved",
     {{"bfloat16", 989}, {"float16", 989}, {"float8_e4m3fn", 1979}, {"float32", 67}}},
    {"h200-sxm",
     {"NVIDIA H200"},
     4.8,
     "NVIDIA H200 datasheet, figures with sparsity halved",
     {{"bfloat16", 989}, {"float16", 989}, {"float8_e4m3fn", 1979}, {"float32", 67}}},
    {"l4",
     {"NVIDIA L4"},
     0.3,
     "NVIDIA L4 datasheet, figures with sparsity halved",
     {{"bfloat16", 121}, {"float16", 121}, {"float32", 30.3}}},
    {"mi300x",
     {"AMD Instinct MI300X", "AMD Instinct MI300X OAM"},
     5.3,
     "AMD Instinct MI300X data sheet",
     {{"bfloat16", 1307.4}, {"float16", 1307.4}, {"float32", 163.4}}},
    {"t4", {"Tesla T4", "NVIDIA T4"}, 0.32, "NVIDIA T4 datasheet", {{"float16", 65}, {"float32", 8.1}}},
    {"v100-sxm2",
     {"Tesla V100-SXM2-16GB", "Tesla V100-SXM2-32GB", "Tesla V100-SXM2-32GB-LS"},
     0.9,
     "NVIDIA V100 datasheet",
     {{"float16", 125}, {"float32", 15.7}}},
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

bool lam_peak_of_device(const char *device, const char *dtype, lam_named_peak *out) {
    for (int k = 0; k < N_PEAKS; k++)
        for (int i = 0; i < MOST_NAMES && peaks[k].drivers[i]; i++)
            if (strcmp(peaks[k].drivers[i], device) == 0) return of_type(k, dtype, out, NULL) == LAM_OK;
    return false;
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

lam_status lam_peak_flops(const char *text, const char *dtype, lam_named_peak *out, lam_error *e) {
    char *end;
    const double flops = strtod(text, &end);
    if (end != text && !*end) {
        *out = (lam_named_peak){.name = "given", .best = {flops, 0}};
        if (isfinite(flops) && flops >= 1) return LAM_OK;
        return lmi_fail(e, LAM_USAGE, "peak",
                        "'%.40s' is no peak; it is FLOP/s, as 9.9e14, or a device, as h100-sxm", text);
    }
    LAM_TRY(lam_peak_named(text, dtype, out, e));
    if (out->best.flops > 0) return LAM_OK;
    return lmi_fail(
        e, LAM_USAGE, "peak",
        "it can't be measured in a program that is being recorded; give what lamina.roof(...).flops "
        "measures, as 1.2e12");
}
