/* SPDX-License-Identifier: Apache-2.0
 *
 * Shares, lists by size and what may be typed next. */
#include "kit/oom.h"

#include "kit/ops_net.h"
#include "kit/show.h"

/* Net(blocks: three of Linear(10 -> out) with work of their own; head: Linear): of macs 200, 200, 200 and
 * 600. */
static lam_model *rows(void) {
    static const char *const names[] = {"0", "1", "2"};
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), list = net_module(&n, "ModuleList", 0), p, r, head;
    p = net_place(&n, -1, "", root);
    int32_t pl = net_place(&n, p, "blocks", list);
    r = net_call(&n, root, -1, SH(1, 10), 0, SH(1, 60), 0);
    for (int i = 0; i < 3; i++) {
        int32_t block = net_module(&n, "Block", 0), fc = net_linear(&n, 10, 10);
        int32_t pb = net_place(&n, pl, names[i], block);
        net_place(&n, pb, "fc", fc);
        int32_t c = net_call(&n, block, r, SH(1, 10), 0, SH(1, 10), 0);
        int32_t f = net_call(&n, fc, c, SH(1, 10), 0, SH(1, 10), 0);
        net_mm(&n, (op_at){f, -1, LAM_FORWARD, 0}, 1, 10, 10);
        net_mm(&n, (op_at){c, -1, LAM_FORWARD, 0}, 1, 10, 10);
    }
    head = net_linear(&n, 10, 60);
    net_place(&n, p, "head", head);
    net_mm(&n, (op_at){net_call(&n, head, r, SH(1, 10), 0, SH(1, 60), 0), -1, LAM_FORWARD, 0}, 1, 10, 60);
    return net_done(&n);
}

static lam_report_options wide(void) {
    lam_report_options o = show_options(NULL, NULL);
    o.width = 120;
    return o;
}

/* Work of a block's own hinders no folding, and a folded line has the numbers of one. */
static void own_work_is_folded(void **state) {
    (void)state;
    lam_model *m = rows();
    lam_costs *c = net_costs(m, NULL, false);
    lam_report_options o = wide();
    show(c, &o);
    show_has("0..2 x3 (Block)   1x10       110     200   16.7     400  each\n");
    show_has("[own work]                  0     100    8.3     200\n");
    show_has("fc (Linear)    1x10       110     100    8.3     200\n");
    show_has("head (Linear)        1x60       660     600   50.0  1.20 K\n");
    lam_costs_free(c);
    lam_model_free(m);
}

static void shares(void **state) {
    (void)state;
    lam_model *m = rows();
    lam_costs *c = net_costs(m, NULL, false);
    lam_report_options o = wide();
    o.by = "params";
    show(c, &o);
    show_has("output  params      %  ");
    show_has("head (Linear)        1x60       660   66.7     600  1.20 K\n");
    o.by = "flops";
    show(c, &o);
    show_has("  FLOPs      %\n");
    o.format = "md";
    show(c, &o);
    show_has("| FLOPs | % |\n");
    show_has("x3 (Block), each | 1x10 |");
    lam_costs_free(c);
    lam_model_free(m);
}

static void lists(void **state) {
    (void)state;
    lam_model *m = rows();
    lam_costs *c = net_costs(m, NULL, false);
    lam_report_options o = wide();
    o.sort = "macs";
    show(c, &o);
    show_has("\nhead (Linear)         1x60       660     600   50.0  1.20 K\n"
             "blocks.0 [own work]                0     100    8.3     200\n"
             "blocks.0.fc (Linear)  1x10       110     100    8.3     200\n"
             "blocks.1 [own work]  ");
    show_lacks("not shown");
    show_lacks("each");
    o.rows = 3;
    show(c, &o);
    show_has("\nblocks.0.fc (Linear)  ");
    show_lacks("blocks.1");
    show_has("\nnot shown  4 smaller lines\n");
    o.max_depth = 2;
    show(c, &o);
    show_has("\nblocks.1 (Block)  ");
    show_has("\nnot shown  1 smaller line\n");
    o = wide();
    o.rows = 1;
    show(c, &o);
    show_has("\nhead (Linear)  ");
    show_has("\nnot shown  6 smaller lines\n");
    o.max_depth = 0; /* there is nothing to list */
    show(c, &o);
    show_has("\nNet  ");
    show_lacks("head");
    o = wide();
    o.sort = "params";
    show(c, &o);
    show_has("output  params      %  "); /* who sorts by a column asks for its share */
    lam_costs_free(c);
    lam_model_free(m);
}

static void refused(const lam_costs *c, const lam_report_options *o, const char *sentence) {
    lam_error e = {0};
    assert_int_equal(lam_report_write(c, o, show_sink(), &e), LAM_USAGE);
    if (!strstr(e.text, sentence)) fail_msg("'%s' is not in '%s'", sentence, e.text);
}

static void what_cannot_be(void **state) {
    (void)state;
    lam_model *m = rows();
    lam_costs *c = net_costs(m, NULL, false);
    lam_report_options o = wide();
    o.sort = "width";
    refused(c, &o,
            "'width' is not a column to sort by or to be the share of; these are: macs, flops, params, ");
    o.sort = "time";
    refused(c, &o, "there is no column 'time' here: time=True measures it");
    o.sort = NULL;
    o.by = "memory";
    refused(c, &o, "memory=True measures it");
    o.by = "bytes";
    refused(c, &o, "bytes=True shows them");
    o.bytes = true;
    show(c, &o);
    show_has("  written      %  ");
    o.by = NULL;
    o.rows = -1;
    refused(c, &o, "-1 rows are not possible");
    o.rows = 2;
    o.format = "csv";
    refused(c, &o, "it is for the table of the lamina layout as text, md or html; leave it out");
    o.rows = 0;
    o.by = "macs";
    o.format = NULL;
    o.layout = "thoplw";
    refused(c, &o, "it is for the table");
    lam_costs_free(c);
    c = net_costs(m, "layers", false);
    o = wide();
    o.sort = "backward_macs";
    refused(c, &o, "the convention counts no backward pass");
    lam_costs_free(c);
    lam_model_free(m);
}

static void what_is_next(void **state) {
    (void)state;
    lam_model *m = rows();
    lam_costs *c = net_costs(m, NULL, false);
    lam_report_options o = wide();
    o.next = "net.py:Net -i 1x10";
    show(c, &o);
    show_has(
        "\nnext       lamina why net.py:Net -i 1x10 head \u00b7 lamina compare net.py:Net -i 1x10 \u00b7 "
        "--memory --time "
        "--backward\n");
    o.next = NULL;
    show(c, &o);
    show_lacks("next");
    lam_costs_free(c);
    lam_model_free(m);
}

static void write_list(void *arg, bool *ok) {
    lam_error e = {0};
    lam_report_options o = wide();
    o.sort = "macs";
    o.rows = 2;
    o.why = true;
    o.next = "m:n";
    *ok = oom_check(lam_report_write(arg, &o, show_sink(), &e), &e);
}

/* Of a model without a layer there is nothing to list. */
static void a_list_of_nothing(void **state) {
    (void)state;
    net n = net_new();
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, NULL, false);
    lam_report_options o = wide();
    o.sort = "macs";
    show(c, &o);
    show_lacks("not shown");
    lam_costs_free(c);
    lam_model_free(m);
}

/* Net(fc: Linear 10 to 10), of which the operator `op` is the forward's own. */
static lam_model *own_of(const char *op) {
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), fc = net_linear(&n, 10, 10), p = net_place(&n, -1, "", root);
    net_place(&n, p, "fc", fc);
    int32_t r = net_call(&n, root, -1, SH(1, 10), 0, SH(1, 10), 0);
    int32_t f = net_call(&n, fc, r, SH(1, 10), 0, SH(1, 10), 0);
    net_mm(&n, (op_at){f, -1, LAM_FORWARD, 0}, 1, 10, 10);
    const lam_op_arg x[] = {T(0, 1, 10)};
    net_op_args(&n, op, (op_at){r, -1, LAM_FORWARD, 0}, x, 1, x, 1);
    return net_done(&n);
}

/* Own work that only moves bytes has a line where bytes are shown, and work that is not known has one. */
static void all_own_work(void **state) {
    (void)state;
    lam_model *m = own_of("aten::clone");
    lam_costs *c = net_costs(m, NULL, false);
    lam_report_options o = wide();
    show(c, &o);
    show_lacks("[own work]");
    o.bytes = true;
    show(c, &o);
    show_has("[own work]                0     0    0.0      0    20   40 B     40 B");
    o.sort = "bytes";
    show(c, &o);
    show_has("\n[own work] ");
    lam_costs_free(c);
    lam_model_free(m);
    m = own_of("my::op");
    o = wide();
    c = net_costs(m, NULL, false);
    show(c, &o);
    show_has("[own work]                0       ?      ?       ?\n");
    lam_costs_free(c);
    c = net_costs(m, "layers", false); /* its footer says that such work is not seen */
    show(c, &o);
    show_lacks("[own work]");
    lam_costs_free(c);
    lam_model_free(m);
}

static void memory_may_run_out(void **state) {
    (void)state;
    lam_model *m = rows();
    lam_costs *c = net_costs(m, NULL, false);
    oom_sweep(write_list, c);
    lam_costs_free(c);
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_work_is_folded),
        cmocka_unit_test(shares),
        cmocka_unit_test(lists),
        cmocka_unit_test(what_cannot_be),
        cmocka_unit_test(what_is_next),
        cmocka_unit_test(a_list_of_nothing),
        cmocka_unit_test(all_own_work),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
