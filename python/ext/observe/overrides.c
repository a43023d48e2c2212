/* SPDX-License-Identifier: Apache-2.0
 * Decides whether torch's kernels do an operator's work, or whether something before them (a transform, or a
 * mode or class of tensors in Python) answers: it runs other operators instead. Runs inside torch's
 * callbacks, without Python. */
#include "observe/observe.h"

typedef bool is_such(const lmx_record_api *api, const lmx_layout *l, const char *value);

static bool is_transformed(const lmx_record_api *api, const lmx_layout *l, const char *value) {
    enum { LEVELS = 16 };
    (void)l;
    if (lmx_is_undefined(&api->shim, value)) return false;
    if (api->wrapper(value)) return true;
    for (int64_t level = 1; level <= LEVELS; level++)
        if (api->is_batched(value, level)) return true;
    return false;
}

/* True for a tensor that has elements and no memory, as one that wraps others. */
static bool lacks_data(const lmx_record_api *api, const lmx_layout *l, const char *value) {
    void *handle = (void *)(uintptr_t)value, *data = NULL;
    int64_t dims, *sizes;
    if (!api->shim.data || lmx_is_undefined(&api->shim, value)) return false;
    if (!lmx_has_memory(l, value) || !lmx_has_sizes(l, value)) return false;
    if (api->shim.data(handle, &data) || data || api->shim.dim(handle, &dims)) return false;
    if (api->shim.sizes(handle, &sizes)) return false;
    for (int64_t i = 0; i < dims; i++)
        if (sizes[i] == 0) return false;
    return true;
}

/* True if `is` holds for any tensor among the values or in a list among them. */
static bool any_tensor(const lmx_record_api *api, const lmx_layout *l, lmx_values values, is_such *is,
                       int depth) {
    for (size_t i = 0; i < values.n && i < LMX_MAX_LIST; i++) {
        const char *value = values.at + i * LMX_IVALUE;
        int32_t tag = lmx_tag_of(value);
        if (tag == l->tensor
                ? is(api, l, value)
                : depth && tag == l->list_tag && any_tensor(api, l, lmx_list_of(l, value), is, 0))
            return true;
    }
    return false;
}

bool lmx_runs_others(const lmx_observer *o, lmx_lane *lane, const void *record) {
    const lmx_record_api *api = lane->api;
    return lmx_lane_transforming(lane) &&
           any_tensor(api, o->layout, lmx_own_inputs(api, o->layout, record), is_transformed, 1);
}

bool lmx_is_classed(const lmx_observer *o, const lmx_lane *lane, const void *record) {
    const lmx_layout *l = o->layout;
    if (o->capture->dry) return false;
    if (lane->classed || l->python >= 0) return lane->classed;
    return any_tensor(lane->api, l, lmx_own_inputs(lane->api, l, record), lacks_data, 1);
}

uint64_t lmx_first_tensor(const lmx_record_api *api, const lmx_layout *l, const void *record) {
    lmx_values all = lmx_own_inputs(api, l, record);
    if (all.n && lmx_tag_of(all.at) == l->list_tag) all = lmx_list_of(l, all.at);
    return all.n && lmx_tag_of(all.at) == l->tensor ? lmx_word_at(all.at, 0) : 0;
}

bool lmx_has_modes(const lmx_observer *o, const lmx_record_api *api) {
    return api->modes && api->modes() > o->capture->dry;
}

bool lmx_has_torchs_modes(const lmx_record_api *api, int64_t more_than) {
    return api->modes && api->modes() > more_than && !(api->own_modes && api->own_modes(true));
}

static const char of_class[] = "PythonSubclass", of_mode[] = "PythonDispatchMode";

bool lmx_is_passage(const char *name) { return strcmp(name, of_mode) == 0 || strcmp(name, of_class) == 0; }

bool lmx_is_of_class(const char *passage) { return strcmp(passage, of_class) == 0; }

/* True if a mode may answer: it may run any operators, two products for one, or none. torch's own modes only
 * follow shapes or a trace. */
static bool asks_mode(const lmx_observer *o, const lmx_record_api *api) {
    return lmx_has_modes(o, api) && api->own_modes && api->own_modes(true);
}

/* True if this is the answer of a class, other than a dry run's, or of a mode that may run others. */
bool lmx_passes_to_others(const lmx_observer *o, const lmx_record_api *api, const char *passage) {
    return lmx_is_of_class(passage) ? !o->capture->dry : asks_mode(o, api);
}

/* True if such an answer is about to begin, for torch 2.4. */
bool lmx_asks_python(const lmx_observer *o, const lmx_record_api *api, bool classed) {
    const int32_t key = o->layout->asks;
    if (key < 0 || !api->excluded || api->excluded((uint16_t)key)) return false;
    return asks_mode(o, api) || (classed && api->modes && api->modes() == 0);
}
