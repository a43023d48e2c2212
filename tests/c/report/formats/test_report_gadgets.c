/* SPDX-License-Identifier: Apache-2.0
 *
 * torch_inspector's JSON: what each field is made of, what is not known, and how deep trees are written. */
#include "kit/oom.h"

#include "kit/net.h"
#include "kit/shown.h"

static const int64_t sizes[] = {2, 3}, wide[] = {2, 4};
static const lam_arg in = {.dtype = 15, .ndim = 2, .sizes = sizes}; /* bfloat16 */
static const lam_arg out = {.dtype = NET_FLOAT32, .ndim = 2, .sizes = wide, .position = -1};
static const lam_arg odd = {.dtype = -1, .ndim = -1, .position = -1};

static int32_t call(net *n, int32_t module, int32_t parent, uint32_t flags, int64_t t0, int64_t t1) {
    int32_t index;
    const lam_call_info c = {.module = module,
                             .parent = parent,
                             .flags = flags,
                             .t0_ns = t0,
                             .t1_ns = t1,
                             .n_in = 1,
                             .n_out = 1,
                             .in = &in,
                             .out = &out};
    NET_OK(n, lam_build_call(n->b, &c, &index, &n->e));
    return index;
}

static void weigh(net *n, int32_t module, bool requires_grad) {
    const lam_tensor_info w = {.dtype = NET_FLOAT32,
                               .ndim = 2,
                               .sizes = (const int64_t[]){4, 4},
                               .bytes = -1,
                               .requires_grad = requires_grad};
    int32_t index;
    NET_OK(n, lam_build_tensor(n->b, &w, &index, &n->e));
    NET_OK(n, lam_build_owns(n->b, module, "weight", index, false, &n->e));
}

/* Two runs of a root around a layer with a quote in its name, which is called twice and, in the backward,
 * again; a second layer has its weight, and was never called. */
static lam_model *two_runs(bool looked) {
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), fc = net_module(&n, "Linear", 0), un = net_module(&n, "Odd", 0);
    weigh(&n, fc, true);
    NET_OK(&n, lam_build_owns(n.b, un, "tied", 0, false, &n.e));
    weigh(&n, un, false);
    int32_t top = net_place(&n, -1, "", root);
    net_place(&n, top, "f\"c", fc);
    net_place(&n, top, "unused", un);
    for (int i = 0; i < 2; i++) {
        int64_t t = 1000 + 10000000 * i;
        int32_t outer = call(&n, root, -1, 0, t, t + 2500000);
        call(&n, fc, outer, 0, t + 10, t + 1000010);
        call(&n, fc, outer, 0, t + 2000000, t + 2000001);
    }
    call(&n, fc, -1, LAM_CALL_AGAIN, 30000000, 30000002);
    const lam_op_info node = {.name = "AddmmBackward0",
                              .call = 4,
                              .parent = -1,
                              .phase = LAM_BACKWARD,
                              .flags = LAM_OP_NODE,
                              .t0_ns = 40000000,
                              .t1_ns = 40003000};
    NET_OK(&n, lam_build_op(n.b, &node, NULL, &n.e));
    NET_OK(&n, lam_build_nodes_seen(n.b, &n.e));
    NET_OK(&n, lam_build_timed(n.b, &n.e));
    const lam_checked l = {.gradients = true};
    if (looked) NET_OK(&n, lam_build_checked(n.b, &l, &n.e));
    const lam_grad grads[] = {{.call = 6, .is_input = true, .seen = true, .bad = true},
                              {.call = 4, .seen = true},
                              {.call = 1, .seen = false}};
    for (int i = 0; looked && i < 3; i++) NET_OK(&n, lam_build_grad(n.b, &grads[i], &n.e));
    const lam_bad bad = {.side = LAM_BAD_OUTPUT, .call = 2, .calls = 3, .from = -1, .found = {.nan = 1}};
    if (looked) NET_OK(&n, lam_build_bad(n.b, &bad, &n.e));
    return net_done(&n);
}

static void write_page(const lam_model *m, const lam_gadget_options *o) {
    lam_gadgets *g;
    lam_error e = {0};
    if (lam_gadgets_new(&g, m, &e) != LAM_OK) fail_msg("%s", e.text);
    assert_int_equal(lam_gadgets_write(g, o, show_sink(), &e), LAM_OK);
    lam_gadgets_free(g);
}

static void every_field(void **state) {
    (void)state;
    lam_model *m = two_runs(true);
    write_page(m, NULL);
    show_has("{\n    \"Net\": {\n        \"info\": {\n            \"type\": \"Net\",\n"
             "            \"input_shapes\": [[2, 3]],\n");
    show_has("            \"f\\\"c\": {\n"
             "                \"info\": {\n"
             "                    \"type\": \"Linear\",\n"
             "                    \"input_shapes\": [[2, 3], [2, 3]],\n"
             "                    \"output_shapes\": [[2, 4], [2, 4]],\n"
             "                    \"grad_in_shape\": [[2, 3]],\n"
             "                    \"grad_out_shape\": [[2, 4]],\n"
             "                    \"num_parameters\": 16,\n"
             "                    \"num_learnable_parameters\": 16,\n"
             "                    \"param_memory_usage\": 0.000064,\n"
             "                    \"gradient_memory_usage\": 0.000064,\n"
             "                    \"input_memory_usage\": [0.000012, 0.000012],\n"
             "                    \"output_memory_usage\": [0.000032, 0.000032],\n"
             "                    \"effective_additional_memory_fwd\": null,\n"
             "                    \"effective_additional_memory_bwd\": null,\n"
             "                    \"forward_nan\": true,\n"
             "                    \"grad_in_nan\": true,\n"
             "                    \"grad_out_nan\": null,\n"
             "                    \"total_memory\": 0.000152,\n"
             "                    \"forward_latency\": 2.000002,\n"
             "                    \"backward_latency\": 0.003002,\n"
             "                    \"calls\": 4\n"
             "                },\n"
             "                \"children\": {}\n"
             "            },\n");
    show_has("\"num_parameters\": 32,\n            \"num_learnable_parameters\": 16,\n"); /* the root's */
    show_has("\"forward_latency\": 5.0,\n");
    show_has("\"type\": \"Odd\",\n                    \"input_shapes\": [],\n");
    show_has("\"calls\": 0\n");
    show_golden("gadgets-two-runs", true);
    lam_model_free(m);
}

/* Net has `a` and `list`, which has the same layer once more and one that nobody calls: what came of the
 * calls is told at `a`, and nothing at `list.0`, where it is not known. */
static void a_layer_at_two_places(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), list = net_module(&n, "ModuleList", 0);
    int32_t fc = net_module(&n, "Linear", 0), other = net_module(&n, "Odd", 0);
    int32_t top = net_place(&n, -1, "", root), below;
    weigh(&n, fc, true);
    net_place(&n, top, "a", fc);
    below = net_place(&n, top, "list", list);
    net_place(&n, below, "0", fc);
    net_place(&n, below, "1", other);
    call(&n, fc, call(&n, root, -1, 0, 1, 9), 0, 2, 3);
    NET_OK(&n, lam_build_timed(n.b, &n.e));
    lam_model *m = net_done(&n);
    write_page(m, NULL);
    const char *at = strstr(shown, "\"a\": {"), *again = strstr(shown, "\"0\": {"), *unused;
    assert_non_null(at);
    assert_non_null(again);
    unused = strstr(again, "\"1\": {");
    assert_non_null(unused);
    const char *same = strstr(shown, "\"same_as\": \"a\"\n");
    assert_true(same > again && same < unused); /* and nowhere else: */
    assert_null(strstr(same + 2, "same_as"));
    at = strstr(at, "\"calls\": ");
    again = strstr(again, "\"calls\": ");
    assert_memory_equal(at, "\"calls\": 1\n", 11);
    assert_memory_equal(again, "\"calls\": null,\n", 15);
    assert_non_null(strstr(unused, "\"calls\": 0\n"));
    show_golden("gadgets-two-places", true);
    lam_model_free(m);
}

static void not_asked_or_not_known(void **state) {
    (void)state;
    lam_model *m = two_runs(true);
    write_page(m, &(lam_gadget_options){.max_depth = 0});
    show_has("\"input_shapes\": null,");
    show_has("\"grad_in_shape\": null,");
    show_has("\"forward_latency\": null,");
    show_has("\"children\": {}\n    }\n}\n");
    assert_null(strstr(shown, "Linear"));
    lam_model_free(m);
    m = two_runs(false);
    write_page(m, NULL);
    show_has("\"grad_in_shape\": null,");
    show_has("\"forward_nan\": null,");
    assert_null(strstr(shown, "false"));
    show_golden("gadgets-not-looked-at", true);
    lam_model_free(m);
}

/* What came to a result only is no gradient of an input. */
static void gradients_of_one_side(void **state) {
    (void)state;
    for (int i = 0; i < 6; i++) {
        const int input = i % 3; /* 2: and of a result */
        net n = net_new();
        int32_t fc = net_module(&n, "Linear", 0);
        net_place(&n, -1, "", fc);
        call(&n, fc, -1, i < 3 ? 0 : LAM_CALL_AGAIN, 1, 2);
        NET_OK(&n, lam_build_checked(n.b, &(lam_checked){.gradients = true}, &n.e));
        for (int side = input == 1; side <= (input > 0); side++)
            NET_OK(&n, lam_build_grad(n.b, &(lam_grad){.is_input = side, .seen = true}, &n.e));
        lam_model *m = net_done(&n);
        write_page(m, NULL);
        show_has(input ? "\"grad_in_shape\": [[2, 3]]" : "\"grad_in_shape\": []");
        show_has(input == 1 ? "\"grad_out_shape\": []" : "\"grad_out_shape\": [[2, 4]]");
        lam_model_free(m);
    }
}

/* In what a layer gave, in what could not be checked, or nowhere: of the first call of all too. */
static void values_of_one_side(void **state) {
    (void)state;
    static const struct {
        lam_bad_side side;
        const char *said;
    } all[] = {{LAM_BAD_OUTPUT, "true"}, {LAM_BAD_INPUT, "false"}, {LAM_BAD_UNSEEN, "null"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char said[40];
        net n = net_new();
        int32_t fc = net_module(&n, "Linear", 0);
        net_place(&n, -1, "", fc);
        call(&n, fc, -1, 0, 1, 2);
        const lam_bad bad = {.side = all[i].side, .calls = 1, .from = -1, .found = {.nan = 1}};
        NET_OK(&n, lam_build_checked(n.b, &(lam_checked){.gradients = true}, &n.e));
        NET_OK(&n, lam_build_bad(n.b, &bad, &n.e));
        lam_model *m = net_done(&n);
        write_page(m, NULL);
        snprintf(said, sizeof said, "\"forward_nan\": %s,", all[i].said);
        show_has(said);
        lam_model_free(m);
    }
}

/* Memory is measured on the CPU: where a tensor lies elsewhere, what a call retained is not known. */
static void tensors_elsewhere(void **state) {
    (void)state;
    for (int what = 0; what < 3; what++) { /* on the CPU; what comes in elsewhere; what comes out */
        net n = net_new();
        int32_t root = net_module(&n, "Net", 0), fc = net_leaf(&n, "Mine"), index;
        net_place(&n, net_place(&n, -1, "", root), "fc", fc);
        const lam_arg first = {.dtype = NET_FLOAT32, .device = what == 1, .ndim = 2, .sizes = sizes};
        const lam_arg result = {.dtype = NET_FLOAT32, .device = what == 2, .ndim = 2, .sizes = wide};
        lam_call_info c = {.module = root, .parent = -1, .t0_ns = 1, .t1_ns = 9};
        NET_OK(&n, lam_build_call(n.b, &c, &index, &n.e));
        c = (lam_call_info){
            .module = fc, .parent = index, .n_in = 1, .n_out = 1, .in = &first, .out = &result};
        NET_OK(&n, lam_build_call(n.b, &c, &index, &n.e));
        NET_OK(&n, lam_build_memory(n.b, &(lam_memory_info){"a test", 1000, 3000, 2000, false}, &n.e));
        lam_model *m = net_done(&n);
        write_page(m, NULL);
        const char *root_has = strstr(shown, "effective_additional_memory_fwd\": ");
        assert_non_null(root_has);
        const char *fc_has = strstr(root_has + 1, "effective_additional_memory_fwd\": ");
        assert_non_null(fc_has);
        assert_int_equal(strncmp(strchr(root_has, ':'), ": null", 6) == 0, what != 0);
        assert_int_equal(strncmp(strchr(fc_has, ':'), ": null", 6) == 0, what != 0);
        lam_model_free(m);
    }
}

static void unknown_sizes(void **state) {
    (void)state;
    net n = net_new();
    int32_t lazy = net_module(&n, "LazyLinear", 0), index;
    const lam_tensor_info w = {.dtype = NET_FLOAT32, .ndim = -1, .bytes = -1, .requires_grad = true};
    NET_OK(&n, lam_build_tensor(n.b, &w, &index, &n.e));
    NET_OK(&n, lam_build_owns(n.b, lazy, "weight", index, false, &n.e));
    net_place(&n, -1, "", lazy);
    const lam_call_info c = {.module = lazy, .parent = -1, .n_in = 1, .n_out = 1, .in = &odd, .out = &odd};
    NET_OK(&n, lam_build_call(n.b, &c, &index, &n.e));
    lam_model *m = net_done(&n);
    write_page(m, NULL);
    show_has("\"input_shapes\": [null],");
    show_has("\"num_parameters\": null,");
    show_has("\"input_memory_usage\": [null],");
    show_has("\"total_memory\": null,");
    show_golden("gadgets-unknown", true);
    lam_model_free(m);
}

static lam_status count(void *to, const char *bytes, size_t n) {
    (void)bytes;
    *(size_t *)to += n;
    return LAM_OK;
}

/* Lines of a very deep tree stop moving to the right. */
static void deep(void **state) {
    (void)state;
    enum { LEVELS = 2000, LINES = 26 };
    net n = net_new();
    int32_t mod = net_module(&n, "Deep", 0), at = -1;
    size_t written = 0;
    for (int i = 0; i < LEVELS; i++) at = net_place(&n, at, "x", mod);
    lam_model *m = net_done(&n);
    lam_gadgets *g;
    assert_int_equal(lam_gadgets_new(&g, m, NULL), LAM_OK);
    assert_int_equal(lam_gadgets_write(g, NULL, (lam_sink){count, &written}, NULL), LAM_OK);
    assert_true(written > LEVELS * LINES * 200 && written < LEVELS * LINES * 320);
    assert_int_equal(lam_gadgets_write(g, NULL, show_refusing(), NULL), LAM_IO);
    lam_gadgets_free(g);
    lam_model_free(m);
}

static void draw(void *arg, bool *ok) {
    lam_gadgets *g = NULL;
    lam_error e = {0};
    lam_status s = lam_gadgets_new(&g, arg, &e);
    if (s == LAM_OK) s = lam_gadgets_write(g, NULL, show_sink(), &e);
    lam_gadgets_free(g);
    *ok = oom_check(s, &e);
}

static void memory_may_run_out(void **state) {
    (void)state;
    lam_model *m = two_runs(true);
    oom_sweep(draw, m);
    lam_model_free(m);
}

static void gradients_of_nothing(void **state) {
    (void)state;
    net n = net_new();
    int32_t fc = net_module(&n, "Linear", 0);
    lam_error e = {0};
    net_place(&n, -1, "", fc);
    call(&n, fc, -1, 0, 1, 2);
    assert_int_equal(lam_build_grad(n.b, &(lam_grad){.call = 1}, &e), LAM_RANGE);
    assert_int_equal(lam_build_grad(n.b, &(lam_grad){.index = 1}, NULL), LAM_RANGE);
    assert_int_equal(lam_build_grad(n.b, &(lam_grad){.index = -1, .is_input = true}, NULL), LAM_RANGE);
    assert_int_equal(lam_build_grad(n.b, &(lam_grad){.is_input = false}, NULL), LAM_OK);
    assert_int_equal(lam_build_grad(n.b, &(lam_grad){.is_input = true}, NULL), LAM_OK);
    lam_model *m = net_done(&n);
    assert_true(lam_model_grad(m, 0)->is_input && !lam_model_grad(m, 1)->is_input);
    assert_null(lam_model_grad(m, 2));
    assert_null(lam_model_grad(m, -1));
    assert_int_equal(lam_model_first_grad(m, 0), 0);
    assert_int_equal(lam_model_first_grad(m, 1), 2);
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field),
        cmocka_unit_test(a_layer_at_two_places),
        cmocka_unit_test(not_asked_or_not_known),
        cmocka_unit_test(tensors_elsewhere),
        cmocka_unit_test(gradients_of_one_side),
        cmocka_unit_test(values_of_one_side),
        cmocka_unit_test(unknown_sizes),
        cmocka_unit_test(deep),
        cmocka_unit_test(memory_may_run_out),
        cmocka_unit_test(gradients_of_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
