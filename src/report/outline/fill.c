/* SPDX-License-Identifier: Apache-2.0
 *
 * Helpers for taking an outline: texts that are kept once, sums of numbers, sentences on what is left out. */
#include "report/outline/work.h"

const char *lmi_take_text(lmi_filling *w, const char *text) {
    if (!text || !*text) return "";
    int64_t known = lmi_map_get(&w->texts, text);
    if (known >= 0) return (const char *)(uintptr_t)known;
    const char *kept = lmi_strdup(&w->o->arena, text);
    if (!kept || lmi_map_put(&w->texts, kept, (int64_t)(uintptr_t)kept, w->e) != LAM_OK) return NULL;
    return kept;
}

void lmi_add_own(lmi_filling *w, lmi_own_number k, int32_t place, lam_count c) {
    int64_t *n = &w->own[k][place], sum = 0;
    uint8_t *state = &w->state[k][place];
    bool over = c.over > 0 || lmi_add_over(*n, c.n, &sum);
    *n = over ? INT64_MAX : sum;
    if (c.state > *state) *state = (uint8_t)c.state;
    if (*state == LAM_UNKNOWN && *n > 0) *state = LAM_AT_LEAST;
    if (over && *state == LAM_EXACT) *state = LAM_AT_LEAST;
}

lmi_outline_place lmi_outlined_new(int32_t i, int32_t parent, const char *name, const char *type) {
    return (lmi_outline_place){.parent = parent,
                               .end = i + 1,
                               .name = name,
                               .type = type,
                               .in = "",
                               .out = "",
                               .state = LMI_CONTAINER_ALONE,
                               .family = LMI_CONTAINER,
                               .run = i,
                               .n_run = 1,
                               .level = -1,
                               .formulas = -1};
}

void lmi_find_ends(lmi_outline_place *at, int32_t n) {
    for (int32_t i = n - 1; i > 0; i--) {
        int32_t *end = &at[at[i].parent].end;
        if (*end < at[i].end) *end = at[i].end;
    }
}

lam_status lmi_leave_out(lmi_outline *o, lam_error *e, const char *sentence) {
    const char **more = lmi_alloc(&o->arena, (uint64_t)o->n_left + 1, sizeof *more);
    const char *kept = lmi_strdup(&o->arena, sentence);
    if (!more || !kept) return lmi_nomem(e);
    for (int32_t i = 0; i < o->n_left; i++) more[i] = o->left[i];
    more[o->n_left++] = kept;
    o->left = more;
    return LAM_OK;
}

lam_status lmi_leave_out_device(lmi_outline *o, bool memory, bool times, lam_error *e) {
    if (memory)
        LAM_TRY(lmi_leave_out(o, e, "Memory of the device is in the text and in the JSON of the report."));
    if (!times) return LAM_OK;
    return lmi_leave_out(o, e, "Times of the device are in the text and in the JSON of the report.");
}
