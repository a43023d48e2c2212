/* SPDX-License-Identifier: Apache-2.0
 * Decides whether torch's kernels do an operator's work, or whether something before them (a transform, or a
 * mode or class of tensors in Python) answers: it runs other operators instead. Runs inside torch's
 * callbacks, without Python. */
#include "native/lane.h"

/* functionalize() replaces an operator by others on the same shapes, after it ran once on tensors without
 * values; so there the operator itself counts. */
bool lmx_is_passed_on(const lmx_observer *o, const lmx_lane *lane) {
    const lmx_layout *l = o->layout;
    return lane->keys & l->wrapped || (lane->state[0] & l->transforms && !(lane->keys & l->replayed));
}

bool lmx_is_classed(const lmx_observer *o, const lmx_lane *lane) {
    return !*o->dry && lane->keys >> o->layout->python & 1;
}

uint64_t lmx_first_tensor(const lmx_record_api *api, const lmx_layout *l, const void *record) {
    lmx_values all = lmx_own_inputs(api, l, record);
    if (all.n && lmx_tag_of(all.at) == l->list_tag) all = lmx_list_of(l, all.at);
    return all.n && lmx_tag_of(all.at) == l->tensor ? lmx_word_at(all.at, 0) : 0;
}

bool lmx_has_modes(const lmx_observer *o, const lmx_record_api *api) {
    return api->modes && api->modes() > *o->dry;
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
    return lmx_is_of_class(passage) ? !*o->dry : asks_mode(o, api);
}

/* True if such an answer is about to begin, for torch 2.4. */
bool lmx_asks_python(const lmx_observer *o, const lmx_record_api *api, bool classed) {
    const int32_t key = o->layout->asks;
    if (key < 0 || !api->excluded || api->excluded((uint16_t)key)) return false;
    return asks_mode(o, api) || (classed && api->modes && api->modes() == 0);
}
