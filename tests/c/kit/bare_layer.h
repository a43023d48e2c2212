/* SPDX-License-Identifier: Apache-2.0
 * A model of one layer, built by hand, and the facts of its one call. */
#ifndef LAMINA_TEST_BARE_LAYER_H
#define LAMINA_TEST_BARE_LAYER_H

#include "count/count.h"
#include "kit/oom.h"

static lam_builder *builder;
static lam_model *model;
static lmi_facts facts;

OOM_UNUSED static int32_t add_place(int32_t parent, const char *name, const char *class_name,
                                    uint32_t flags) {
    lam_module_info info = {.type = class_name,
                            .type_path = class_name,
                            .word = lam_word_module(class_name),
                            .flags = flags};
    int32_t module, place;
    assert_int_equal(lam_build_module(builder, &info, &module, NULL), LAM_OK);
    assert_int_equal(lam_build_place(builder, parent, name, module, &place, NULL), LAM_OK);
    assert_int_equal(place, module);
    return module;
}

OOM_UNUSED static void start(const char *class_name) {
    assert_int_equal(lam_builder_new(&builder, 0, NULL), LAM_OK);
    add_place(-1, "", class_name, 0);
}

OOM_UNUSED static void attr_int(const char *name, int64_t v) {
    lam_value value = {.type = LAM_INT, .i = v};
    assert_int_equal(lam_build_attr(builder, 0, name, &value, NULL), LAM_OK);
}

OOM_UNUSED static void attr_ints(const char *name, int32_t n, const int64_t *v) {
    lam_value value = {.type = LAM_INTS, .n = n, .ints = v};
    assert_int_equal(lam_build_attr(builder, 0, name, &value, NULL), LAM_OK);
}

OOM_UNUSED static void attr_type(const char *name, lam_value_type type, double f, const char *text) {
    lam_value value = {.type = type};
    if (type == LAM_TEXT) value.text = text;
    if (type == LAM_FLOAT) value.f = f;
    if (type == LAM_BOOL || type == LAM_INT) value.i = f != 0;
    assert_int_equal(lam_build_attr(builder, 0, name, &value, NULL), LAM_OK);
}

#define SIZES(...)                                                                                           \
    (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }
#define UNKNOWN_SHAPE -1, NULL

OOM_UNUSED static int32_t new_tensor(int32_t ndim, const int64_t *sizes) {
    lam_tensor_info info = {.dtype = 6, .ndim = ndim, .sizes = sizes, .bytes = -1};
    int32_t tensor;
    assert_int_equal(lam_build_tensor(builder, &info, &tensor, NULL), LAM_OK);
    return tensor;
}

OOM_UNUSED static void own(int32_t module, const char *name, int32_t ndim, const int64_t *sizes) {
    assert_int_equal(lam_build_owns(builder, module, name, new_tensor(ndim, sizes), false, NULL), LAM_OK);
}

OOM_UNUSED static lam_arg arg(int32_t ndim, const int64_t *sizes) {
    return (lam_arg){.position = 0, .dtype = 6, .ndim = ndim, .sizes = sizes};
}

/* Calls the layer and takes its facts. */
OOM_UNUSED static void call(int32_t n_in, const lam_arg *in, int32_t n_out, const lam_arg *out) {
    lam_call_info info = {.parent = -1, .n_in = n_in, .n_out = n_out, .in = in, .out = out};
    int32_t event;
    assert_int_equal(lam_build_call(builder, &info, &event, NULL), LAM_OK);
    assert_int_equal(lam_builder_finish(builder, &model, NULL), LAM_OK);
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
