/* SPDX-License-Identifier: Apache-2.0
 * Who does an operator's work: torch's kernels, or what stands before them (a transform, a mode or a class of
 * tensors in Python, several processes), which run other operators instead. This runs inside torch's
 * callbacks: nothing of Python is touched. */
#include "observe.h"

typedef bool is_such(const lmx_record_api *api, const char *value);

static bool is_transformed(const lmx_record_api *api, const char *value) {
    enum { LEVELS = 16 };
    if (lmx_word_at(value, 0) == (uint64_t)(uintptr_t)api->undefined) return false;
    if (api->wrapper(value)) return true;
    for (int64_t level = 1; level <= LEVELS; level++)
        if (api->is_batched(value, level)) return true;
    return false;
}

/* A tensor that stands for others, or for none: it has elements and no memory. */
static bool lacks_data(const lmx_record_api *api, const char *value) {
    void *handle = (void *)(uintptr_t)value, *data = NULL;
    int64_t dims, *sizes;
    if (!api->shim.data || lmx_word_at(value, 0) == (uint64_t)(uintptr_t)api->undefined) return false;
    if (api->shim.data(handle, &data) || data || api->shim.dim(handle, &dims)) return false;
    if (api->shim.sizes(handle, &sizes)) return false;
    for (int64_t i = 0; i < dims; i++)
        if (sizes[i] == 0) return false;
    return true;
}

/* Whether any tensor among the values, or in a list among them, is such. */
static bool any_tensor(const lmx_record_api *api, const lmx_layout *l, lmx_values values, is_such *is,
                       int depth) {
    for (size_t i = 0; i < values.n && i < LMX_MAX_LIST; i++) {
        const char *value = values.at + i * LMX_IVALUE;
        int32_t tag = lmx_tag_of(value);
        if (tag == l->tensor
                ? is(api, value)
                : depth && tag == l->list_tag && any_tensor(api, l, lmx_list_of(l, value), is, 0))
            return true;
    }
    return false;
}

/* An operator on what vmap and its like made of tensors runs operators on the tensors themselves, whose
 * shapes are the real ones. So does one on a tensor that is spread over several processes; there its rules
 * are also tried out on tensors without memory, which is nobody's work. */
bool lmx_runs_others(const lmx_observer *o, lmx_lane *lane, const void *record) {
    const lmx_layout *l = o->layout;
    const lmx_record_api *api = lane->api;
    if (o->spread && any_tensor(api, l, lmx_own_inputs(api, l, record), lacks_data, 1)) return true;
    return lmx_lane_transforming(lane) &&
           any_tensor(api, l, lmx_own_inputs(api, l, record), is_transformed, 1);
}

/* One may answer with anything: a checkpoint's with what was kept, another with two products for one. Those
 * that are torch's own follow shapes or a trace. A dry run has a mode of its own. */
bool lmx_is_answered(const lmx_observer *o, const lmx_record_api *api) {
    return api->modes && api->modes() > o->capture->dry && (!api->own_modes || api->own_modes(true));
}

static const char of_class[] = "PythonSubclass";

bool lmx_is_passage(const char *name) {
    return strcmp(name, "PythonDispatchMode") == 0 || strcmp(name, of_class) == 0;
}

bool lmx_is_of_class(const char *passage) { return strcmp(passage, of_class) == 0; }
