/* SPDX-License-Identifier: Apache-2.0
 *
 * Which place a call is attributed to, when its module is registered in several. */
#include "kit/oom.h"

#include "model/builder.h"

#include <stdio.h>

typedef struct made {
    lam_builder *b;
    lam_status status;
    lam_error e;
} made;

static made make(void) {
    made t = {0};
    t.status = lam_builder_new(&t.b, 0, &t.e);
    return t;
}

static int32_t module(made *t, const char *type) {
    int32_t i = 0;
    lam_module_info info = {.type = type, .word = -1};
    if (t->status == LAM_OK) t->status = lam_build_module(t->b, &info, &i, &t->e);
    return i;
}

static int32_t place(made *t, int32_t parent, const char *name, int32_t mod) {
    int32_t i = 0;
    if (t->status == LAM_OK) t->status = lam_build_place(t->b, parent, name, mod, &i, &t->e);
    return i;
}

static int32_t call(made *t, int32_t mod, int32_t parent) {
    int32_t i = 0;
    lam_call_info info = {.module = mod, .parent = parent};
    if (t->status == LAM_OK) t->status = lam_build_call(t->b, &info, &i, &t->e);
    return i;
}

static lam_model *finish(made *t) {
    lam_model *m = NULL;
    if (t->status == LAM_OK) {
        t->status = lam_builder_finish(t->b, &m, &t->e);
    } else {
        lam_builder_free(t->b);
    }
    return m;
}

static void assert_at(const lam_model *m, int32_t event, const char *path) {
    assert_non_null(m);
    assert_string_equal(lam_model_place(m, lam_model_event(m, event)->place)->path, path);
}

static void the_only_place(void **state) {
    (void)state;
    made t = make();
    int32_t net = module(&t, "Net"), list = module(&t, "ModuleList"), layer = module(&t, "Linear");
    int32_t root = place(&t, -1, "", net);
    place(&t, place(&t, root, "layers", list), "0", layer);
    int32_t top = call(&t, net, -1);
    call(&t, layer, top); /* through a list that is not called itself */
    call(&t, layer, top);
    call(&t, layer, -1); /* alone, without the model around it */
    lam_model *m = finish(&t);
    assert_at(m, 0, "");
    for (int32_t i = 1; i < 4; i++) {
        assert_at(m, i, "layers.0");
        assert_int_equal(lam_model_event(m, i)->ordinal, i - 1);
    }
    assert_int_equal(lam_model_event(m, 0)->n_children_called, 2);
    assert_int_equal(lam_model_place(m, 2)->n_calls, 3);
    assert_int_equal(lam_model_module(m, layer)->n_calls, 3);
    lam_model_free(m);
}

/* One activation registered in each of two blocks: each block's call is at its own place. */
static void a_child_of_the_caller(void **state) {
    (void)state;
    made t = make();
    int32_t net = module(&t, "Net"), a = module(&t, "Block"), b = module(&t, "Block"),
            act = module(&t, "ReLU");
    int32_t root = place(&t, -1, "", net);
    place(&t, place(&t, root, "a", a), "act", act);
    place(&t, place(&t, root, "b", b), "act", act);
    int32_t top = call(&t, net, -1);
    call(&t, act, call(&t, b, top));
    call(&t, act, call(&t, a, top));
    call(&t, act, top); /* the root holds neither: the first below it */
    call(&t, act, -1);
    lam_model *m = finish(&t);
    assert_at(m, 2, "b.act");
    assert_at(m, 4, "a.act");
    assert_at(m, 5, "a.act");
    assert_at(m, 6, "a.act");
    assert_int_equal(lam_model_event(m, 6)->ordinal, 3);
    assert_int_equal(lam_model_module(m, act)->n_places, 2);
    lam_model_free(m);
}

/* Sequential(fc, act, fc, act): the k-th call from one call is at the k-th of them. */
static lam_model *twins(made *t) {
    int32_t net = module(t, "Sequential"), fc = module(t, "Linear"), act = module(t, "ReLU");
    int32_t root = place(t, -1, "", net);
    static const char *const names[] = {"0", "1", "2", "3"};
    for (int i = 0; i < 4; i++) place(t, root, names[i], i % 2 ? act : fc);
    for (int pass = 0; pass < 2; pass++) {
        int32_t top = call(t, net, -1);
        for (int i = 0; i < 4; i++) call(t, i % 2 ? act : fc, top);
        call(t, act, top); /* once more than it has places */
        call(t, act, top);
    }
    return finish(t);
}

static void the_kth_of_several_children(void **state) {
    (void)state;
    made t = make();
    lam_model *m = twins(&t);
    static const char *const expected[] = {"", "0", "1", "2", "3", "3", "3"};
    for (int32_t i = 0; i < 14; i++) assert_at(m, i, expected[i % 7]);
    assert_int_equal(lam_model_place(m, lam_model_find(m, "3"))->n_calls, 6);
    lam_model_free(m);
}

static void the_nearest_ancestor_decides(void **state) {
    (void)state;
    made t = make();
    int32_t net = module(&t, "Net"), list = module(&t, "ModuleList"), block = module(&t, "Block");
    int32_t shared = module(&t, "Dropout"), helper = module(&t, "Helper");
    int32_t root = place(&t, -1, "", net);
    int32_t left = place(&t, root, "left", block), right = place(&t, root, "right", list);
    /* Pushed in breadth, not in depth: the order of the tree is what counts. */
    place(&t, right, "drop", shared);
    int32_t inner = place(&t, right, "helper", helper);
    place(&t, left, "drop", shared);
    place(&t, place(&t, inner, "deep", list), "drop", shared);
    int32_t top = call(&t, net, -1);
    int32_t in_helper = call(&t, helper, top);
    call(&t, shared, in_helper); /* below the helper itself */
    call(&t, shared, call(&t, block, top));
    call(&t, shared, top);
    lam_model *m = finish(&t);
    assert_at(m, 2, "right.helper.deep.drop");
    assert_at(m, 4, "left.drop");
    assert_at(m, 5, "left.drop");
    lam_model_free(m);
}

/* A module that calls itself, and one called from a place that has it nowhere above or below. */
static void odd_callers(void **state) {
    (void)state;
    made t = make();
    int32_t net = module(&t, "Net"), loop = module(&t, "Loop"), other = module(&t, "Other");
    int32_t root = place(&t, -1, "", net);
    place(&t, root, "one", loop);
    place(&t, root, "two", loop);
    place(&t, root, "other", other);
    int32_t top = call(&t, net, -1);
    call(&t, loop, top);
    int32_t second = call(&t, loop, top);
    call(&t, loop, second); /* recursion stays where it is */
    call(&t, loop, call(&t, other, top));
    lam_model *m = finish(&t);
    assert_at(m, 2, "two");
    assert_at(m, 3, "two");
    assert_at(m, 5, "one");
    lam_model_free(m);
}

static void a_called_module_needs_a_place(void **state) {
    (void)state;
    made t = make();
    int32_t net = module(&t, "Net"), lost = module(&t, "Lost");
    place(&t, -1, "", net);
    call(&t, lost, call(&t, net, -1));
    assert_null(finish(&t));
    assert_int_equal(t.status, LAM_RANGE);
    assert_string_equal(t.e.where, "Lost");
    assert_true(t.e.text[0] != '\0');
}

static void paths_are_found(void **state) {
    (void)state;
    made t = make();
    int32_t net = module(&t, "Net");
    int32_t root = place(&t, -1, "ignored", net);
    char name[16];
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "m%d", i);
        place(&t, place(&t, root, name, net), "x", net);
    }
    place(&t, root, "m7", net); /* a path given twice: the first stays */
    lam_model *m = finish(&t);
    assert_string_equal(lam_model_place(m, 0)->name, "");
    oom_arm(0, true); /* without memory for their index they are compared one by one */
    assert_int_equal(lam_model_find(m, "m299.x"), 600);
    assert_int_equal(lam_model_find(m, "m7"), 15);
    assert_int_equal(lam_model_find(m, "m7.y"), -1);
    assert_true(oom_injected);
    oom_disarm();
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "m%d.x", i);
        assert_int_equal(lam_model_find(m, name), 2 + 2 * i);
        assert_string_equal(lam_model_place(m, 2 + 2 * i)->name, "x");
        assert_int_equal(lam_model_place(m, 2 + 2 * i)->depth, 2);
    }
    assert_int_equal(lam_model_find(m, "m7"), 15);
    assert_int_equal(lam_model_find(m, "m7.y"), -1);
    lam_model_free(m);
}

/* A tree as deep as a stack is not: nothing here may recurse. */
static void depth_costs_no_stack(void **state) {
    (void)state;
    made t = make();
    int32_t mods[2] = {module(&t, "Even"), module(&t, "Odd")};
    int32_t at = place(&t, -1, "", mods[0]), event = call(&t, mods[0], -1);
    for (int i = 1; i < 3000; i++) {
        at = place(&t, at, "n", mods[i % 2]);
        event = call(&t, mods[i % 2], event);
    }
    lam_model *m = finish(&t);
    assert_non_null(m);
    for (int32_t i = 0; i < 3000; i++) assert_int_equal(lam_model_event(m, i)->place, i);
    assert_int_equal(lam_model_place(m, 2999)->depth, 2999);
    lam_model_free(m);
}

static void sweep(void *arg, bool *ok) {
    (void)arg;
    made t = make();
    lam_model *m = twins(&t);
    *ok = t.status == LAM_OK;
    if (!*ok) assert_int_equal(t.e.status, LAM_NOMEM);
    assert_true(*ok == (m != NULL));
    lam_model_free(m);
}

/* Large enough that each array of the freezing needs memory of its own; attributes come in no order. */
static lam_model *large(made *t, uint64_t limit) {
    t->status = lam_builder_new(&t->b, limit, &t->e);
    if (t->status != LAM_OK) return NULL;
    int32_t net = module(t, "Net"), shared = module(t, "Dropout"), own = 0;
    int32_t root = place(t, -1, "", net), top = call(t, net, -1);
    lam_value none = {.type = LAM_NONE};
    lam_tensor_info scalar = {.dtype = 6, .bytes = -1};
    for (int i = 0; i < 3000 && t->status == LAM_OK; i++) {
        if (i % 2) own = module(t, "Linear");
        place(t, root, "x", i % 2 ? own : shared);
        if (i % 2) call(t, shared, call(t, own, top));
        if (t->status == LAM_OK) t->status = lam_build_attr(t->b, i % 2 ? shared : own, "y", &none, &t->e);
        if (t->status == LAM_OK) t->status = lam_build_tensor(t->b, &scalar, NULL, &t->e);
        if (t->status == LAM_OK) t->status = lam_build_owns(t->b, own, "w", i, false, &t->e);
    }
    return finish(t);
}

static void sweep_large(void *arg, bool *ok) {
    (void)arg;
    made t = {0};
    lam_model *m = large(&t, 0);
    *ok = t.status == LAM_OK;
    if (!*ok) assert_int_equal(t.e.status, LAM_NOMEM);
    assert_true(*ok == (m != NULL));
    lam_model_free(m);
}

static void lack_of_memory_is_survived(void **state) {
    (void)state;
    oom_sweep(sweep, NULL);
    oom_sweep(sweep_large, NULL);
}

static void the_memory_limit_holds(void **state) {
    (void)state;
    bool built = false;
    for (uint64_t limit = 4096; !built; limit += 4096) {
        made t = {0};
        lam_model *m = large(&t, limit);
        built = m != NULL;
        assert_int_equal(t.status, built ? LAM_OK : LAM_NOMEM);
        lam_model_free(m);
        assert_true(limit < 1 << 24);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_only_place),
        cmocka_unit_test(a_child_of_the_caller),
        cmocka_unit_test(the_kth_of_several_children),
        cmocka_unit_test(the_nearest_ancestor_decides),
        cmocka_unit_test(odd_callers),
        cmocka_unit_test(a_called_module_needs_a_place),
        cmocka_unit_test(paths_are_found),
        cmocka_unit_test(depth_costs_no_stack),
        cmocka_unit_test(lack_of_memory_is_survived),
        cmocka_unit_test(the_memory_limit_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
