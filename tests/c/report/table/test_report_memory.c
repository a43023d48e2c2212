/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory in reports: the columns and the lines under the table, CSV and JSON; and where there is none. */
#include "kit/oom.h"

#include "kit/net.h"
#include "kit/show.h"

enum { KIB = 1024 };

static void block(net *n, int32_t call, int phase, int64_t bytes, int64_t order, int64_t freed, int held,
                  int32_t tensor) {
    lam_block k = {.bytes = bytes,
                   .order = order,
                   .freed_order = freed,
                   .call = call,
                   .freed_call = -1,
                   .tensor = tensor,
                   .phase = (uint8_t)phase,
                   .held = (uint8_t)held};
    NET_OK(n, lam_build_block(n->b, &k, &n->e));
}

static void span(net *n, int32_t call, int phase, int64_t first, int64_t last) {
    lam_span k = {first, last, call, (uint8_t)phase};
    NET_OK(n, lam_build_span(n->b, &k, &n->e));
}

/* Two equal layers and a third; the first two make 4 KiB each that stay, or (apart) 4 and 8. */
static lam_model *three_of(bool measured, int64_t second, bool forward_only) {
    net n = net_new();
    int32_t root = net_module(&n, "Sequential", 0), p = net_place(&n, -1, "", root), calls[3];
    int32_t top = net_call(&n, root, -1, SH(1, 4), 1, SH(1, 4), 4);
    for (int i = 0; i < 3; i++) {
        char name[2] = {(char)('0' + i), '\0'};
        int32_t m = net_module(&n, i < 2 ? "Tanh" : "Softmax", LAM_MODULE_LEAF);
        net_place(&n, p, name, m);
        calls[i] = net_call(&n, m, top, SH(1, 4), (uint64_t)i + 1, SH(1, 4), (uint64_t)i + 2);
    }
    if (!measured) return net_done(&n);
    block(&n, -1, LAM_FORWARD, 64 * KIB, 0, 0, LAM_HELD_INPUT, -1);
    block(&n, calls[0], LAM_FORWARD, 4 * KIB, 1, 5, LAM_HELD_OTHER, -1);
    block(&n, calls[1], LAM_FORWARD, second, 2, 6, LAM_HELD_OTHER, -1);
    block(&n, calls[2], LAM_FORWARD, 2 * KIB, 3, 4, LAM_HELD_OTHER, -1);
    block(&n, calls[2], LAM_BACKWARD, KIB, 7, 0, LAM_HELD_OTHER, -1);
    for (int i = 0; i < 3; i++) span(&n, calls[i], LAM_FORWARD, i, i == 2 ? 4 : i + 1);
    span(&n, top, LAM_FORWARD, 0, 4);
    span(&n, calls[2], LAM_BACKWARD, 6, 7);
    NET_OK(&n, lam_build_memory(n.b, &(lam_memory_info){"a \"test\"", 100, -1, -1, forward_only}, &n.e));
    return net_done(&n);
}

static lam_model *three(bool measured, int64_t second) { return three_of(measured, second, false); }

static void test_table(void **state) {
    (void)state;
    lam_model *m = three(true, 4 * KIB);
    lam_costs *c = net_costs(m, NULL, false);
    lam_report_options o = show_options(NULL, NULL);
    o.width = 160;
    show(c, &o);
    show_lacks("allocated");
    o.memory = true;
    o.ascii = true;
    show(c, &o);
    show_has("  allocated  retained      peak  bwd allocated   at peak\n");
    show_has("   10.0 KiB  8.00 KiB  10.0 KiB       1.00 KiB  10.0 KiB\n");
    show_has("`- 2 (Softmax)");
    show_has("   2.00 KiB       0 B  2.00 KiB       1.00 KiB  2.00 KiB\n");
    show_has("|- 0..1 x2 (Tanh)"); /* of each one */
    show_has("   4.00 KiB  4.00 KiB  4.00 KiB            0 B  4.00 KiB  each\n");
    show_has("\nmemory     peak 74.0 KiB in 2 (forward) - input 64.0 KiB - activations 8.00 KiB - workspace "
             "2.00 KiB\n");
    show_has("\n           allocated in the run 11.0 KiB, at most 10.0 KiB at a time\n");
    o.exact = true;
    show(c, &o);
    show_has("10,240");
    lam_costs_free(c);
    lam_model_free(m);
}

/* In a list, what a container allocates itself has a line. */
static void test_a_list(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), leaf = net_module(&n, "Tanh", LAM_MODULE_LEAF);
    net_place(&n, net_place(&n, -1, "", root), "act", leaf);
    int32_t top = net_call(&n, root, -1, SH(1, 4), 1, SH(1, 4), 3);
    net_call(&n, leaf, top, SH(1, 4), 1, SH(1, 4), 2);
    block(&n, top, LAM_FORWARD, 4 * KIB, 1, 2, LAM_HELD_OTHER, -1);
    span(&n, top, LAM_FORWARD, 0, 2);
    NET_OK(&n, lam_build_memory(n.b, &(lam_memory_info){"a test", 100, -1, -1, false}, &n.e));
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, NULL, false);
    lam_report_options o = show_options(NULL, NULL);
    o.memory = true;
    o.sort = "memory";
    show(c, &o);
    show_has("\n[own work]  ");
    show_has("\nact (Tanh)  ");
    o.sort = "params";
    o.memory = false;
    show(c, &o);
    show_lacks("[own work]");
    lam_costs_free(c);
    lam_model_free(m);
}

/* A backward that was measured in part, if at all, has no column. */
static void test_forward_only(void **state) {
    (void)state;
    lam_model *m = three_of(true, 4 * KIB, true);
    lam_costs *c = net_costs(m, NULL, false);
    lam_report_options o = show_options(NULL, NULL);
    o.width = 160;
    o.memory = true;
    show(c, &o);
    show_has("  allocated  retained      peak   at peak\n");
    lam_costs_free(c);
    lam_model_free(m);
}

static void test_what_differs_is_not_folded(void **state) {
    (void)state;
    lam_model *m = three(true, 8 * KIB);
    lam_costs *c = net_costs(m, NULL, false);
    lam_report_options o = show_options(NULL, NULL);
    show(c, &o);
    show_has("0..1 x2 (Tanh)");
    o.memory = true;
    show(c, &o);
    show_lacks("x2");
    lam_costs_free(c);
    lam_model_free(m);
}

static void test_data(void **state) {
    (void)state;
    lam_model *m = three(true, 4 * KIB);
    lam_costs *c = net_costs(m, NULL, false);
    lam_report_options o = show_options(NULL, "csv");
    show(c, &o);
    show_has(",memory_allocated,memory_freed,memory_retained,memory_peak,backward_memory_allocated,");
    show_has("\n2,2,Softmax,");
    show_has(",2048,2048,0,2048,1024,0,1024,1024,0,0,0,0\n");
    o.format = "json";
    show(c, &o);
    show_has("\"memory\": {\"source\": \"a \\\"test\\\"\", \"peak\": 75776, \"peak_allocated\": 10240, ");
    show_has("\"before\": 65536, \"elsewhere\": 0, \"peak_in\": \"2\", \"peak_phase\": \"forward\", ");
    show_has("\"rss\": {\"open\": 100, \"peak\": null, \"close\": null}, ");
    show_has("\"held\": {\"input\": 65536, \"activations\": 8192, \"workspace\": 2048}, ");
    show_has("\"unplaced\": {\"input\": 65536}, \"places\": [{\"path\": \"0\", \"held\": {\"activations\": "
             "4096}}, ");
    show_has("\"memory\": {\"own\": {\"forward\": {\"allocated\": 2048, \"freed\": 2048, \"retained\": 0, "
             "\"peak\": 2048}");
    lam_costs_free(c);
    lam_model_free(m);
}

static void test_not_measured(void **state) {
    (void)state;
    lam_model *m = three(false, 0);
    lam_costs *c = net_costs(m, NULL, false);
    lam_report_options o = show_options(NULL, "json");
    lam_error e = {0};
    show(c, &o);
    show_lacks("memory");
    o.format = "csv";
    show(c, &o);
    show_lacks("memory");
    o = show_options(NULL, NULL);
    o.memory = true;
    assert_int_equal(lam_report_write(c, &o, show_sink(), &e), LAM_USAGE);
    assert_non_null(strstr(e.text, "memory=True"));
    lam_costs_free(c);
    lam_model_free(m);
}

static void write_once(void *arg, bool *ok) {
    lam_report_options o = show_options(NULL, "json");
    lam_error e = {0};
    *ok = oom_check(lam_report_write(arg, &o, show_sink(), &e), &e);
}

static void write_text(void *arg, bool *ok) {
    lam_report_options o = show_options(NULL, NULL);
    lam_error e = {0};
    o.memory = true;
    *ok = oom_check(lam_report_write(arg, &o, show_sink(), &e), &e);
}

static void test_oom(void **state) {
    (void)state;
    lam_model *m = three(true, 4 * KIB);
    lam_costs *c = net_costs(m, NULL, false);
    oom_sweep(write_once, c);
    oom_sweep(write_text, c);
    lam_costs_free(c);
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),        cmocka_unit_test(test_a_list),
        cmocka_unit_test(test_forward_only), cmocka_unit_test(test_what_differs_is_not_folded),
        cmocka_unit_test(test_data),         cmocka_unit_test(test_not_measured),
        cmocka_unit_test(test_oom),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
