/* SPDX-License-Identifier: Apache-2.0

 * A model of one layer, and the facts of its one call. */
#ifndef LAMINA_TEST_BARE_LAYER_H
#define LAMINA_TEST_BARE_LAYER_H

#include "count/count.h"
#include "kit/net.h"

static net bare;
static lam_model *model;
static lmi_facts facts;

OOM_UNUSED static int32_t add_place(int32_t parent, const char *name, const char *class_name,
                                    uint32_t flags) {
    const int32_t module = net_module(&bare, class_name, flags);
    assert_int_equal(net_place(&bare, parent, name, module), module);
    return module;
}

OOM_UNUSED static void start(const char *class_name) {
    bare = net_new();
    add_place(-1, "", class_name, 0);
}

OOM_UNUSED static void attr_int(const char *name, int64_t v) { net_int(&bare, 0, name, v); }

OOM_UNUSED static void attr_ints(const char *name, int32_t n, const int64_t *v) {
    net_ints(&bare, 0, name, v, n);
}

OOM_UNUSED static void attr_type(const char *name, lam_value_type type, double f, const char *text) {
    lam_value value = {.type = type};
    if (type == LAM_TEXT) value.text = text;
    if (type == LAM_FLOAT) value.f = f;
    if (type == LAM_BOOL || type == LAM_INT) value.i = f != 0;
    NET_OK(&bare, lam_build_attr(bare.b, 0, name, &value, &bare.e));
}

#define SIZES(...)                                                                                           \
    (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }
#define UNKNOWN_SHAPE -1, NULL

OOM_UNUSED static int32_t new_tensor(int32_t ndim, const int64_t *sizes) {
    return net_tensor(&bare, false, sizes, ndim);
}

OOM_UNUSED static void own(int32_t module, const char *name, int32_t ndim, const int64_t *sizes) {
    net_owns(&bare, module, name, new_tensor(ndim, sizes));
}

OOM_UNUSED static lam_arg arg(int32_t ndim, const int64_t *sizes) {
    return (lam_arg){.position = 0, .dtype = 6, .ndim = ndim, .sizes = sizes};
}

/* Calls the layer and takes its facts. */
OOM_UNUSED static void call(int32_t n_in, const lam_arg *in, int32_t n_out, const lam_arg *out) {
    lam_call_info info = {.parent = -1, .n_in = n_in, .n_out = n_out, .in = in, .out = out};
    int32_t event;
    NET_OK(&bare, lam_build_call(bare.b, &info, &event, &bare.e));
    model = net_done(&bare);
    lmi_facts_of(model, 0, &facts);
}

OOM_UNUSED static void call1(lam_arg in, lam_arg out) { call(1, &in, 1, &out); }

OOM_UNUSED static void is(lmi_fact_id id, int64_t want) {
    if (lmi_fact_get(&facts, id) != want)
        fail_msg("%s is %lld, not %lld", lam_fact_name(id), (long long)lmi_fact_get(&facts, id),
                 (long long)want);
}
#define IS(id, want) is(LMI_FACT_##id, want)
#define UNKNOWN(id)  is(LMI_FACT_##id, -1)

OOM_UNUSED static int done(void **state) {
    (void)state;
    lam_model_free(model);
    model = NULL;
    return 0;
}

#endif
