/* SPDX-License-Identifier: Apache-2.0
 *
 * Building, freezing and reading a model: what goes in comes out, and what can't be is refused with a
 * sentence. */
#include "kit/oom.h"

#include "model/builder.h"

#include <stdio.h>

static lam_builder *fresh(void) {
    lam_builder *b = NULL;
    assert_int_equal(lam_builder_new(&b, 0, NULL), LAM_OK);
    return b;
}

static int32_t add_module(lam_builder *b, const char *type) {
    int32_t i = -1;
    lam_module_info info = {.type = type, .word = lam_word_module(type), .flags = LAM_MODULE_EXACT};
    assert_int_equal(lam_build_module(b, &info, &i, NULL), LAM_OK);
    return i;
}

static int32_t add_place(lam_builder *b, int32_t parent, const char *name, int32_t module) {
    int32_t i = -1;
    assert_int_equal(lam_build_place(b, parent, name, module, &i, NULL), LAM_OK);
    return i;
}

static lam_model *finished(lam_builder *b) {
    lam_model *m = NULL;
    lam_error e = {0};
    assert_int_equal(lam_builder_finish(b, &m, &e), LAM_OK);
    assert_non_null(m);
    assert_int_equal(e.status, LAM_OK);
    return m;
}

/* A root with a convolution that owns a weight and a bias, and a linear layer tied to the weight. */
static lam_status build_small(lam_builder *b, lam_error *e) {
    int64_t four[] = {8, 3, 3, 3}, one[] = {8}, pair[] = {3, 3}, x[] = {1, 3, 32, 32}, y[] = {1, 8, 30, 30};
    int32_t root, conv, linear, w, bias, call;
    lam_module_info r = {"Net", "pkg.Net", "extra", -1, LAM_MODULE_OWN_FORWARD};
    lam_module_info c = {"Conv2d", NULL, NULL, lam_word_module("Conv2d"), LAM_MODULE_EXACT | LAM_MODULE_LEAF};
    lam_module_info l = {"Linear", NULL, NULL, lam_word_module("Linear"), LAM_MODULE_EXACT | LAM_MODULE_LEAF};
    LAM_TRY(lam_build_module(b, &r, &root, e));
    LAM_TRY(lam_build_module(b, &c, &conv, e));
    LAM_TRY(lam_build_module(b, &l, &linear, e));
    LAM_TRY(lam_build_attr(b, conv, "kernel_size", &(lam_value){.type = LAM_INTS, .n = 2, .ints = pair}, e));
    LAM_TRY(lam_build_attr(b, conv, "groups", &(lam_value){.type = LAM_INT, .i = 1}, e));
    LAM_TRY(lam_build_attr(b, conv, "padding_mode", &(lam_value){.type = LAM_TEXT, .text = "zeros"}, e));
    LAM_TRY(lam_build_place(b, -1, "", root, NULL, e));
    LAM_TRY(lam_build_place(b, 0, "conv", conv, NULL, e));
    LAM_TRY(lam_build_place(b, 0, "head", linear, NULL, e));
    LAM_TRY(lam_build_tensor(b, &(lam_tensor_info){6, 4, four, -1, true, 0, 0, 0}, &w, e));
    LAM_TRY(lam_build_tensor(b, &(lam_tensor_info){6, 1, one, 32, false, 0, 0, 0}, &bias, e));
    LAM_TRY(lam_build_owns(b, conv, "weight", w, false, e));
    LAM_TRY(lam_build_owns(b, conv, "bias", bias, false, e));
    LAM_TRY(lam_build_owns(b, linear, "weight", w, false, e));
    LAM_TRY(lam_build_note(b, "a note", e));
    LAM_TRY(lam_build_input_origin(b, "rand", e));
    LAM_TRY(lam_build_provenance(b, "torch", "2.12.0", e));
    LAM_TRY(lam_build_provenance(b, "threads", "2", e));
    LAM_TRY(lam_build_provenance(b, "torch", "2.13.0", e));
    lam_arg in = {NULL, 0, 6, 0, 4, x, 1, 0, 0}, out = {NULL, 0, 6, 0, 4, y, 2, 0, 0},
            key = {"input", -1, 6, 0, 4, x, 1, 0, 0};
    lam_call_info outer = {root, -1, LAM_CALL_TRAINING, 10, 90, 1, 1, &in, &out, 0, 0};
    LAM_TRY(lam_build_call(b, &outer, &call, e));
    lam_call_info inner = {conv, call, 0, 20, 80, 1, 1, &key, &out, 0, 0};
    return lam_build_call(b, &inner, NULL, e);
}

static lam_model *small(void) {
    lam_builder *b = fresh();
    assert_int_equal(build_small(b, NULL), LAM_OK);
    return finished(b);
}

static void modules_come_back(void **state) {
    (void)state;
    lam_model *m = small();
    assert_int_equal(lam_model_n_modules(m), 3);
    const lam_module *root = lam_model_module(m, 0), *conv = lam_model_module(m, 1);
    assert_string_equal(root->type, "Net");
    assert_string_equal(root->type_path, "pkg.Net");
    assert_string_equal(root->extra, "extra");
    assert_int_equal(root->word, -1);
    assert_int_equal(root->n_owned, 0);
    assert_string_equal(conv->type_path, "Conv2d");
    assert_null(conv->extra);
    assert_int_equal(conv->flags, LAM_MODULE_EXACT | LAM_MODULE_LEAF);
    assert_int_equal(conv->n_calls, 1);
    assert_int_equal(conv->n_places, 1);
    assert_int_equal(conv->places[0], 1);
    assert_int_equal(conv->n_owned, 2);
    assert_string_equal(conv->owned[1].name, "bias");
    assert_int_equal(conv->owned[1].tensor, 1);
    assert_int_equal(conv->n_attrs, 3);
    assert_string_equal(conv->attrs[0].name, "kernel_size");
    assert_int_equal(conv->attrs[0].value.ints[1], 3);
    assert_string_equal(lam_model_attr(m, 1, "padding_mode")->text, "zeros");
    assert_null(lam_model_attr(m, 1, "stride"));
    assert_null(lam_model_attr(m, 1, NULL));
    assert_null(lam_model_attr(m, 9, "stride"));
    assert_null(lam_model_module(m, 3));
    assert_null(lam_model_module(m, -1));
    lam_model_free(m);
}

static void places_come_back(void **state) {
    (void)state;
    lam_model *m = small();
    assert_int_equal(lam_model_n_places(m), 3);
    const lam_place *root = lam_model_place(m, 0), *head = lam_model_place(m, 2);
    assert_string_equal(root->path, "");
    assert_int_equal(root->parent, -1);
    assert_int_equal(root->n_children, 2);
    assert_int_equal(root->children[0], 1);
    assert_int_equal(root->children[1], 2);
    assert_string_equal(head->name, "head");
    assert_int_equal(head->depth, 1);
    assert_int_equal(head->n_calls, 0);
    assert_int_equal(lam_model_find(m, "head"), 2);
    assert_int_equal(lam_model_find(m, ""), 0);
    assert_int_equal(lam_model_find(m, "foot"), -1);
    assert_int_equal(lam_model_find(m, NULL), -1);
    assert_null(lam_model_place(m, 3));
    assert_null(lam_model_place(m, -1));
    lam_model_free(m);
}

static void tensors_come_back(void **state) {
    (void)state;
    lam_model *m = small();
    assert_int_equal(lam_model_n_tensors(m), 2);
    const lam_tensor *w = lam_model_tensor(m, 0), *bias = lam_model_tensor(m, 1);
    assert_int_equal(w->numel, 216);
    assert_int_equal(w->bytes, 864);
    assert_int_equal(w->shape.sizes[0], 8);
    assert_true(w->requires_grad);
    assert_int_equal(w->owner, 1);
    assert_int_equal(w->n_owners, 2);
    assert_int_equal(bias->n_owners, 1);
    assert_int_equal(bias->bytes, 32);
    assert_null(lam_model_tensor(m, 2));
    assert_null(lam_model_tensor(m, -1));
    lam_model_free(m);
}

static void events_come_back(void **state) {
    (void)state;
    lam_model *m = small();
    assert_int_equal(lam_model_n_events(m), 2);
    const lam_event *outer = lam_model_event(m, 0), *inner = lam_model_event(m, 1);
    assert_int_equal(outer->flags, LAM_CALL_TRAINING);
    assert_int_equal(outer->n_children_called, 1);
    assert_int_equal(outer->t1_ns, 90);
    assert_int_equal(inner->parent, 0);
    assert_int_equal(inner->place, 1);
    assert_int_equal(inner->ordinal, 0);
    assert_string_equal(inner->in[0].name, "input");
    assert_int_equal(inner->in[0].sizes[2], 32);
    assert_int_equal(inner->out[0].sizes[1], 8);
    assert_int_equal(inner->out[0].storage, 2);
    assert_null(lam_model_event(m, 2));
    assert_null(lam_model_event(m, -1));
    assert_int_equal(lam_model_n_notes(m), 1);
    assert_string_equal(lam_model_note(m, 0), "a note");
    assert_null(lam_model_note(m, 1));
    assert_null(lam_model_note(m, -1));
    assert_string_equal(lam_model_input_origin(m, 0), "rand");
    assert_null(lam_model_input_origin(m, 1));
    assert_null(lam_model_input_origin(m, -1));
    lam_model_free(m);
}

static void provenance_is_told_in_the_order_of_its_names(void **state) {
    (void)state;
    lam_model *m = small();
    const char *name;
    assert_int_equal(lam_model_n_provenance(m), 2);
    assert_string_equal(lam_model_provenance(m, 0, &name), "2.13.0"); /* given later than "2.12.0" */
    assert_string_equal(name, "torch");
    assert_string_equal(lam_model_provenance(m, 1, &name), "2");
    assert_string_equal(name, "threads");
    assert_string_equal(lam_model_provenance(m, 1, NULL), "2");
    assert_null(lam_model_provenance(m, 2, &name));
    assert_null(name);
    assert_null(lam_model_provenance(m, -1, &name));
    assert_null(name);
    lam_model_free(m);
}

static void what_is_pushed_is_copied(void **state) {
    (void)state;
    lam_builder *b = fresh();
    char name[] = "Conv2d";
    int64_t sizes[] = {2, 3};
    int32_t i = add_module(b, name), t;
    lam_tensor_info info = {6, 2, sizes, -1, false, 0, 0, 0};
    assert_int_equal(lam_build_tensor(b, &info, &t, NULL), LAM_OK);
    lam_value v = {.type = LAM_INTS, .n = 2, .ints = sizes};
    assert_int_equal(lam_build_attr(b, i, name, &v, NULL), LAM_OK);
    name[0] = 'X';
    sizes[0] = 99;
    add_module(b, name);
    assert_int_equal(lam_build_tensor(b, &info, &t, NULL), LAM_OK);
    lam_model *m = finished(b);
    assert_string_equal(lam_model_module(m, 0)->type, "Conv2d");
    assert_string_equal(lam_model_module(m, 1)->type, "Xonv2d");
    assert_int_equal(lam_model_tensor(m, 0)->shape.sizes[0], 2);
    assert_int_equal(lam_model_tensor(m, 1)->shape.sizes[0], 99);
    assert_int_equal(lam_model_attr(m, 0, "Conv2d")->ints[0], 2);
    lam_model_free(m);
}

static void every_value_type_comes_back(void **state) {
    (void)state;
    lam_builder *b = fresh();
    int32_t i = add_module(b, "X");
    static const char *const names[] = {"none", "bool", "int", "float", "text", "ints"};
    lam_value values[] = {{.type = LAM_NONE},
                          {.type = LAM_BOOL, .i = 7},
                          {.type = LAM_INT, .i = -4},
                          {.type = LAM_FLOAT, .f = 0.5},
                          {.type = LAM_TEXT, .text = ""},
                          {.type = LAM_INTS}};
    for (int k = 0; k < 6; k++) assert_int_equal(lam_build_attr(b, i, names[k], &values[k], NULL), LAM_OK);
    lam_model *m = finished(b);
    for (int k = 0; k < 6; k++) assert_int_equal(lam_model_attr(m, 0, names[k])->type, values[k].type);
    assert_int_equal(lam_model_attr(m, 0, "bool")->i, 1);
    assert_int_equal(lam_model_attr(m, 0, "int")->i, -4);
    assert_true(lam_model_attr(m, 0, "float")->f == 0.5);
    assert_string_equal(lam_model_attr(m, 0, "text")->text, "");
    assert_int_equal(lam_model_attr(m, 0, "ints")->n, 0);
    assert_non_null(lam_model_attr(m, 0, "ints")->ints);
    lam_model_free(m);
}

static void scattered_pushes_are_grouped(void **state) {
    (void)state;
    lam_builder *b = fresh();
    add_module(b, "A");
    add_module(b, "B");
    int32_t t;
    assert_int_equal(lam_build_tensor(b, &(lam_tensor_info){.ndim = -1, .bytes = -1}, &t, NULL), LAM_OK);
    static const char *const names[] = {"p", "q", "r", "s"};
    for (int k = 0; k < 4; k++) {
        lam_value v = {.type = LAM_INT, .i = k};
        assert_int_equal(lam_build_attr(b, 1 - k % 2, names[k], &v, NULL), LAM_OK);
        assert_int_equal(lam_build_owns(b, 1 - k % 2, names[k], t, k > 1, NULL), LAM_OK);
    }
    lam_model *m = finished(b);
    const lam_module *first = lam_model_module(m, 0), *second = lam_model_module(m, 1);
    assert_int_equal(first->n_attrs, 2);
    assert_string_equal(first->attrs[0].name, "q");
    assert_int_equal(first->attrs[1].value.i, 3);
    assert_string_equal(second->attrs[1].name, "r");
    assert_string_equal(second->owned[0].name, "p");
    assert_false(second->owned[0].is_buffer);
    assert_true(second->owned[1].is_buffer);
    assert_int_equal(lam_model_tensor(m, 0)->n_owners, 2); /* under two names each */
    assert_int_equal(lam_model_tensor(m, 0)->owner, 0);
    lam_model_free(m);
}

static void an_empty_model_is_a_model(void **state) {
    (void)state;
    lam_model *m = finished(fresh());
    assert_int_equal(lam_model_n_places(m), 0);
    assert_int_equal(lam_model_find(m, ""), -1);
    lam_model_free(m);
    lam_model_free(NULL);
    lam_builder_free(NULL);
    lam_builder_free(fresh());
}

static void bytes_follow_from_the_data_type(void **state) {
    (void)state;
    int64_t three[] = {3}, huge[] = {INT64_MAX / 2}, over[] = {INT64_MAX, 2}, none[] = {0, INT64_MAX, 4};
    struct {
        lam_tensor_info info;
        int64_t numel, bytes;
    } all[] = {
        {{6, 1, three, -1, false, 0, 0, 0}, 3, 12},   {{16, 1, three, -1, false, 0, 0, 0}, 3, 2},
        {{-1, 1, three, -1, false, 0, 0, 0}, 3, -1},  {{6, 0, NULL, -1, false, 0, 0, 0}, 1, 4},
        {{6, -1, NULL, -1, false, 0, 0, 0}, -1, -1},  {{6, 1, huge, -1, false, 0, 0, 0}, INT64_MAX / 2, -1},
        {{6, 2, over, -1, false, 0, 0, 0}, -1, -1},   {{6, 3, none, -1, false, 0, 0, 0}, 0, 0},
        {{6, 1, three, 100, false, 0, 0, 0}, 3, 100}, {{99, -1, NULL, 5, false, 0, 0, 0}, -1, 5}};
    lam_builder *b = fresh();
    int32_t n = (int32_t)(sizeof all / sizeof *all);
    for (int32_t i = 0; i < n; i++) assert_int_equal(lam_build_tensor(b, &all[i].info, NULL, NULL), LAM_OK);
    lam_model *m = finished(b);
    for (int32_t i = 0; i < n; i++) {
        assert_int_equal(lam_model_tensor(m, i)->numel, all[i].numel);
        assert_int_equal(lam_model_tensor(m, i)->bytes, all[i].bytes);
        assert_int_equal(lam_model_tensor(m, i)->owner, -1);
        assert_int_equal(lam_model_tensor(m, i)->n_owners, 0);
    }
    lam_model_free(m);
}

/* -- what is refused ------------------------------------------------------------------------------------- */

static lam_error last;

#define REFUSED(expected, call)                                                                              \
    do {                                                                                                     \
        last = (lam_error){0};                                                                               \
        assert_int_equal(call, expected);                                                                    \
        assert_int_equal(last.status, expected);                                                             \
        assert_true(last.text[0] != '\0');                                                                   \
    } while (0)

static void bad_indices_are_refused(void **state) {
    (void)state;
    lam_builder *b = fresh();
    lam_value v = {.type = LAM_NONE};
    lam_call_info orphan = {.module = 0, .parent = 0}, nobody = {.module = 1, .parent = -1};
    REFUSED(LAM_RANGE, lam_build_attr(b, 0, "x", &v, &last));
    REFUSED(LAM_RANGE, lam_build_place(b, -1, "", 0, NULL, &last));
    add_module(b, "Net");
    REFUSED(LAM_RANGE, lam_build_module(b, &(lam_module_info){.type = "X", .word = -2}, NULL, &last));
    REFUSED(LAM_RANGE, lam_build_module(b, &(lam_module_info){.type = "X", .word = 9999}, NULL, &last));
    REFUSED(LAM_RANGE, lam_build_attr(b, -1, "x", &v, &last));
    REFUSED(LAM_RANGE, lam_build_attr(b, 1, "x", &v, &last));
    REFUSED(LAM_RANGE, lam_build_owns(b, 0, "x", 0, false, &last));
    REFUSED(LAM_RANGE, lam_build_owns(b, 3, "x", 0, false, &last));
    REFUSED(LAM_RANGE, lam_build_place(b, 0, "", 0, NULL, &last)); /* the root has no parent */
    add_place(b, -1, "", 0);
    REFUSED(LAM_RANGE, lam_build_place(b, -1, "second", 0, NULL, &last)); /* and there is one */
    REFUSED(LAM_RANGE, lam_build_place(b, 1, "self", 0, NULL, &last));
    REFUSED(LAM_RANGE, lam_build_place(b, 0, "x", 1, NULL, &last));
    REFUSED(LAM_RANGE, lam_build_call(b, &orphan, NULL, &last));
    orphan.parent = -2;
    REFUSED(LAM_RANGE, lam_build_call(b, &orphan, NULL, &last));
    REFUSED(LAM_RANGE, lam_build_call(b, &nobody, NULL, &last));
    REFUSED(LAM_RANGE, lam_build_wraps(b, 0, 1, 1, &last));
    REFUSED(LAM_RANGE, lam_build_alias(b, 0, 1, 1, &last));
    assert_int_equal(lam_build_tensor(b, &(lam_tensor_info){.ndim = -1, .bytes = -1}, NULL, NULL), LAM_OK);
    REFUSED(LAM_RANGE, lam_build_wraps(b, 0, -2, 1, &last));
    REFUSED(LAM_RANGE, lam_build_wraps(b, 0, 1, -2, &last));
    assert_int_equal(lam_build_wraps(b, 0, 9, -1, NULL), LAM_OK);
    assert_int_equal(lam_build_alias(b, 0, 7, 8, NULL), LAM_OK);
    lam_builder_free(b);
}

static void missing_texts_are_refused(void **state) {
    (void)state;
    lam_builder *b = fresh();
    lam_value text = {.type = LAM_TEXT}, ints = {.type = LAM_INTS, .n = 1};
    REFUSED(LAM_USAGE, lam_build_module(b, &(lam_module_info){.word = -1}, NULL, &last));
    add_module(b, "Net");
    REFUSED(LAM_USAGE, lam_build_attr(b, 0, NULL, &ints, &last));
    REFUSED(LAM_USAGE, lam_build_attr(b, 0, "x", &text, &last));
    REFUSED(LAM_USAGE, lam_build_attr(b, 0, "x", &ints, &last));
    REFUSED(LAM_USAGE, lam_build_place(b, -1, NULL, 0, NULL, &last));
    REFUSED(LAM_USAGE, lam_build_note(b, NULL, &last));
    REFUSED(LAM_USAGE, lam_build_input_origin(b, NULL, &last));
    REFUSED(LAM_USAGE, lam_build_provenance(b, NULL, "2.13.0", &last));
    REFUSED(LAM_USAGE, lam_build_provenance(b, "torch", NULL, &last));
    REFUSED(LAM_USAGE, lam_build_provenance(b, "", "2.13.0", &last));
    REFUSED(LAM_USAGE, lam_build_provenance(b, "a \"name\"", "2.13.0", &last));
    assert_int_equal(lam_build_tensor(b, &(lam_tensor_info){.ndim = -1}, NULL, NULL), LAM_OK);
    REFUSED(LAM_USAGE, lam_build_owns(b, 0, NULL, 0, false, &last));
    ints.n = -1;
    REFUSED(LAM_RANGE, lam_build_attr(b, 0, "x", &ints, &last));
    ints.type = (lam_value_type)77;
    REFUSED(LAM_RANGE, lam_build_attr(b, 0, "x", &ints, &last));
    lam_builder_free(b);
}

static void impossible_shapes_are_refused(void **state) {
    (void)state;
    lam_builder *b = fresh();
    int64_t bad[65] = {-1};
    add_module(b, "Net");
    REFUSED(LAM_RANGE, lam_build_tensor(b, &(lam_tensor_info){6, -2, bad, -1, false, 0, 0, 0}, NULL, &last));
    REFUSED(LAM_RANGE, lam_build_tensor(b, &(lam_tensor_info){6, 1, bad, -1, false, 0, 0, 0}, NULL, &last));
    REFUSED(LAM_LIMIT, lam_build_tensor(b, &(lam_tensor_info){6, 65, bad, -1, false, 0, 0, 0}, NULL, &last));
    REFUSED(LAM_USAGE, lam_build_tensor(b, &(lam_tensor_info){6, 1, NULL, -1, false, 0, 0, 0}, NULL, &last));
    REFUSED(LAM_RANGE, lam_build_tensor(b, &(lam_tensor_info){6, 0, NULL, -2, false, 0, 0, 0}, NULL, &last));
    lam_arg arg = {.ndim = 1, .sizes = bad};
    lam_call_info in = {.parent = -1, .n_in = 1, .in = &arg}, out = {.parent = -1, .n_out = 1, .out = &arg};
    REFUSED(LAM_RANGE, lam_build_call(b, &in, NULL, &last));
    REFUSED(LAM_RANGE, lam_build_call(b, &out, NULL, &last));
    in.in = NULL;
    REFUSED(LAM_USAGE, lam_build_call(b, &in, NULL, &last));
    in.n_in = -1;
    REFUSED(LAM_RANGE, lam_build_call(b, &in, NULL, &last));
    bad[0] = 1;
    assert_int_equal(lam_build_tensor(b, &(lam_tensor_info){6, 64, bad, -1, false, 0, 0, 0}, NULL, NULL),
                     LAM_OK);
    lam_builder_free(b);
}

static void a_65th_fact_of_the_provenance_is_refused(void **state) {
    (void)state;
    lam_builder *b = fresh();
    char name[] = "a0";
    for (int i = 0; i < 64; i++, name[1] = (char)('0' + i % 8), name[0] = (char)('a' + i / 8))
        assert_int_equal(lam_build_provenance(b, name, "known", &last), LAM_OK);
    REFUSED(LAM_LIMIT, lam_build_provenance(b, name, "one more", &last));
    assert_int_equal(lam_build_provenance(b, "a0", "known better", &last), LAM_OK);
    lam_model *m = finished(b);
    assert_int_equal(lam_model_n_provenance(m), 64);
    assert_string_equal(lam_model_provenance(m, 0, NULL), "known better");
    lam_model_free(m);
}

static void notes_past_the_64th_are_dropped(void **state) {
    (void)state;
    lam_builder *b = fresh();
    for (int i = 0; i < 70; i++) assert_int_equal(lam_build_note(b, "again", NULL), LAM_OK);
    lam_model *m = finished(b);
    assert_int_equal(lam_model_n_notes(m), 64);
    assert_int_equal(lam_model_add_note(m, NULL, NULL), LAM_USAGE);
    assert_int_equal(lam_model_add_note(m, "later", NULL), LAM_OK); /* a finished model takes any number */
    assert_int_equal(lam_model_n_notes(m), 65);
    assert_string_equal(lam_model_note(m, 64), "later");
    lam_model_free(m);
}

/* 16 million modules in earnest would take a minute under a sanitizer; the count alone is what is looked
 * at. */
static void too_many_are_refused(void **state) {
    (void)state;
    lam_builder *b = fresh();
    add_module(b, "Net");
    size_t n = b->modules.n;
    b->modules.n = 16 << 20;
    REFUSED(LAM_LIMIT, lam_build_module(b, &(lam_module_info){.type = "X", .word = -1}, NULL, &last));
    b->modules.n = n;
    lam_value none = {.type = LAM_NONE};
    b->attrs.modules.n = 16 << 20;
    REFUSED(LAM_LIMIT, lam_build_attr(b, 0, "x", &none, &last));
    b->attrs.modules.n = 0;
    assert_int_equal(b->attrs.items.n, 0);
    lam_builder_free(b);
}

static void the_memory_limit_holds(void **state) {
    (void)state;
    bool built = false;
    for (uint64_t limit = 16; !built; limit += 16) {
        lam_builder *b;
        lam_model *m = NULL;
        lam_error e = {0};
        assert_int_equal(lam_builder_new(&b, limit, NULL), LAM_OK);
        if (build_small(b, &e) != LAM_OK) {
            lam_builder_free(b);
        } else {
            built = lam_builder_finish(b, &m, &e) == LAM_OK;
        }
        assert_int_equal(e.status, built ? LAM_OK : LAM_NOMEM);
        assert_true(built == (m != NULL));
        lam_model_free(m);
        assert_true(limit < 1 << 20);
    }
}

static void sweep(void *arg, bool *ok) {
    (void)arg;
    lam_builder *b;
    lam_model *m = NULL;
    lam_error e = {0};
    if (lam_builder_new(&b, 0, &e) == LAM_OK) {
        if (build_small(b, &e) != LAM_OK) {
            lam_builder_free(b);
        } else {
            *ok = lam_builder_finish(b, &m, &e) == LAM_OK;
        }
    }
    assert_int_equal(e.status, *ok ? LAM_OK : LAM_NOMEM);
    lam_model_free(m);
}

/* Where the limit ended a capture there is room left to say so, and to finish what there is. */
static void a_capture_that_was_too_large_says_so(void **state) {
    (void)state;
    lam_builder *b;
    lam_model *m = NULL;
    const lam_module_info mod = {.type = "Layer", .word = -1};
    lam_status s = LAM_OK;
    assert_int_equal(lam_builder_new(&b, 1 << 12, NULL), LAM_OK);
    assert_int_equal(lam_build_module(b, &mod, NULL, NULL), LAM_OK);
    assert_int_equal(lam_build_place(b, -1, "", 0, NULL, NULL), LAM_OK);
    for (int i = 0; s == LAM_OK; i++) {
        char type[16];
        snprintf(type, sizeof type, "Layer%d", i);
        s = lam_build_module(b, &(lam_module_info){.type = type, .word = -1}, NULL, NULL);
    }
    assert_int_equal(s, LAM_NOMEM);
    char filler[2048];
    for (size_t n = sizeof filler - 1, i = 0; n >= 8 && i < 60; n /= 2) { /* until not even a word has room */
        memset(filler, 'a' + (int)i++ % 26, n);
        filler[n] = '\0';
        s = lam_build_note(b, filler, NULL);
        if (s == LAM_OK) n *= 2;
    }
    assert_int_equal(s, LAM_NOMEM);
    assert_int_equal(lam_build_cut(b, "it took more memory than it may", true, 0, NULL), LAM_OK);
    assert_int_equal(lam_builder_finish(b, &m, NULL), LAM_OK);
    assert_non_null(m);
    lam_model_free(m);
}

static void lack_of_memory_is_survived(void **state) {
    (void)state;
    oom_sweep(sweep, NULL);
}

/* -- offers ---------------------------------------------------------------------------------------------- */

static void a_call_is_bound(void **state) {
    (void)state;
    lam_model *m = small();
    lmi_slots s;
    lmi_model_bind(m, 1, &s);
    assert_int_equal(s.at[LMI_S_x].shape.sizes[1], 3);
    assert_int_equal(s.at[LMI_S_w].shape.ndim, 4);
    assert_int_equal(s.at[LMI_S_b].shape.sizes[0], 8);
    assert_int_equal(s.at[LMI_S_kernel].value->n, 2);
    assert_int_equal(s.at[LMI_S_groups].value->i, 1);
    lmi_model_bind(m, 0, &s); /* no word, no roles */
    assert_false(s.at[LMI_S_x].present);
    lmi_model_bind(m, 7, &s);
    assert_false(s.at[LMI_S_x].present);
    lam_model_free(m);
}

static void many_offers_leave_the_important_ones(void **state) {
    (void)state;
    lam_builder *b = fresh();
    int32_t lstm = add_module(b, "LSTM"), t;
    add_place(b, -1, "", lstm);
    int64_t sizes[] = {4};
    char name[32];
    lam_arg in[40];
    for (int i = 0; i < 40; i++) in[i] = (lam_arg){.position = i, .ndim = 1, .sizes = sizes};
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "unheard_of%d", i);
        lam_value v = {.type = LAM_INT, .i = i};
        assert_int_equal(lam_build_attr(b, lstm, i ? name : "hidden_size", &v, NULL), LAM_OK);
        snprintf(name, sizeof name, "weight_ih_l%d", i);
        assert_int_equal(lam_build_tensor(b, &(lam_tensor_info){6, 1, sizes, -1, true, 0, 0, 0}, &t, NULL),
                         LAM_OK);
        assert_int_equal(lam_build_owns(b, lstm, name, t, false, NULL), LAM_OK);
    }
    lam_call_info call = {.module = lstm, .parent = -1, .n_in = 40, .in = in};
    assert_int_equal(lam_build_call(b, &call, NULL, NULL), LAM_OK);
    lam_model *m = finished(b);
    lmi_slots s;
    lmi_model_bind(m, 0, &s);
    assert_true(s.at[LMI_S_x].present && s.at[LMI_S_h].present && s.at[LMI_S_w].present);
    assert_int_equal(s.at[LMI_S_hidden].value->i, 0);
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modules_come_back),
        cmocka_unit_test(places_come_back),
        cmocka_unit_test(tensors_come_back),
        cmocka_unit_test(events_come_back),
        cmocka_unit_test(provenance_is_told_in_the_order_of_its_names),
        cmocka_unit_test(what_is_pushed_is_copied),
        cmocka_unit_test(every_value_type_comes_back),
        cmocka_unit_test(scattered_pushes_are_grouped),
        cmocka_unit_test(an_empty_model_is_a_model),
        cmocka_unit_test(bytes_follow_from_the_data_type),
        cmocka_unit_test(bad_indices_are_refused),
        cmocka_unit_test(missing_texts_are_refused),
        cmocka_unit_test(impossible_shapes_are_refused),
        cmocka_unit_test(notes_past_the_64th_are_dropped),
        cmocka_unit_test(a_65th_fact_of_the_provenance_is_refused),
        cmocka_unit_test(too_many_are_refused),
        cmocka_unit_test(the_memory_limit_holds),
        cmocka_unit_test(a_capture_that_was_too_large_says_so),
        cmocka_unit_test(lack_of_memory_is_survived),
        cmocka_unit_test(a_call_is_bound),
        cmocka_unit_test(many_offers_leave_the_important_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
