/* SPDX-License-Identifier: Apache-2.0
 * Counts pieces of compiled code that run, see regions.h. The callback runs at each operator of the thread,
 * so it does nothing but compare a name. */
#include "observe/regions.h"
#include "observe/observe.h"

static _Thread_local struct {
    lmx_regions n;
    uint64_t handle;
    bool counts;
} here;
static const lmx_record_api *api; /* set once, under the GIL, before the first callback */

bool lmx_is_region(const char *name) {
    static const char region[] = "Torch-Compiled Region";
    return name[0] == region[0] && strncmp(name, region, sizeof region - 1) == 0;
}

static void *begins(void **context, const void *record) {
    *context = NULL;
    const char *name = api->name(record);
    if (!lmx_is_region(name)) return context;
    here.n.begun++;
    if (strstr(name, ": !")) here.n.passes++; /* "Torch-Compiled Region: !1/2/0" */
    return context;
}

static void ends(const void *record, void *context) {
    (void)record;
    (void)context;
}

bool lmx_regions_begin(lmx_state *st) {
    static const lmx_callback c = {.start = begins, .end = ends};
    const lmx_record_api *found = lmx_record_api_of(st);
    PyErr_Clear();
    if (!api) api = found;
    if (!here.counts && found) {
        here.handle = lmx_add_callback(found, &c);
        here.counts = true;
    }
    return here.counts;
}

void lmx_regions_end(void) {
    if (here.counts) api->remove(here.handle);
    here.counts = false;
}

lmx_regions lmx_regions_here(void) { return here.n; }
