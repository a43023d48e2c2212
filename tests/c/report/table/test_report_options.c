/* SPDX-License-Identifier: Apache-2.0
 *
 * Our own table under every option, held whole against transcripts. */
#include "kit/oom.h"

#include "kit/chains.h"
#include "kit/full_net.h"
#include "kit/ops_net.h"
#include "kit/pages.h"
#include "kit/show.h"

/* Adds a report to what is shown, below what it is of; what can't be written, why. */
static void add(const lam_costs *c, const char *what, lam_report_options o) {
    lam_error e = {0};
    assert_int_equal(show_put(NULL, "\n== ", 4), LAM_OK);
    assert_int_equal(show_put(NULL, what, strlen(what)), LAM_OK);
    assert_int_equal(show_put(NULL, "\n", 1), LAM_OK);
    if (lam_report_write(c, &o, (lam_sink){show_put, NULL}, &e) != LAM_OK)
        assert_int_equal(show_put(NULL, e.text, strlen(e.text)), LAM_OK);
}

static lam_report_options measured(void) {
    lam_report_options o = show_options(NULL, NULL);
    o.width = 250;
    o.time = o.memory = o.bytes = o.receptive_field = true;
    return o;
}

/* Each option alone, upon everything that is measured, and upon nothing. */
static void each_option(void **state) {
    (void)state;
    static const char *const names[] = {"nothing", "color", "ascii",   "exact", "expand",  "color, bars",
                                        "why",     "roof",  "command", "next",  "depth 0", "depth 1"};
    lam_model *all[] = {full_step(), net_step()};
    show_sink();
    for (int i = 0; i < 2; i++) {
        lam_costs *c = net_costs(all[i], "exact", false);
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            lam_report_options o = i == 0 ? measured() : show_options(NULL, NULL);
            o.color = k == 1 || k == 5;
            o.ascii = k == 2;
            o.exact = k == 3;
            o.expand = k == 4;
            o.bars = k == 5;
            o.why = k == 6;
            if (k == 7) o.peak = (lam_peak){1e9, 1e8};
            o.command = k >= 8 && k < 10;
            if (k == 9) o.next = "net.py:Net -i 1x4x8";
            if (k >= 10) o.max_depth = (int32_t)k - 10;
            add(c, names[k], o);
        }
        lam_costs_free(c);
        lam_model_free(all[i]);
    }
    show_golden("table-options", true);
}

/* By each column, and as lists of each length. */
static void shares_and_lists(void **state) {
    (void)state;
    static const char *const columns[] = {"macs",          "flops",          "params", "dmas",  "bytes",
                                          "backward_macs", "backward_flops", "time",   "memory"};
    lam_model *m = full_step(), *step = net_step();
    lam_costs *c = net_costs(m, "exact", false), *s = net_costs(step, "exact", false);
    show_sink();
    for (size_t k = 0; k < sizeof columns / sizeof *columns; k++) {
        lam_report_options o = measured();
        o.by = columns[k];
        add(c, columns[k], o);
        o.by = NULL;
        o.sort = columns[k];
        o.rows = (int32_t)k % 4;
        add(c, "sorted", o);
        o.time = o.memory = o.bytes = false; /* what was not asked for is no column */
        add(s, "sorted by what may not be there", o);
    }
    lam_report_options o = show_options(NULL, NULL);
    for (o.rows = 1; o.rows < 7; o.rows++) add(s, "a list", o);
    o.rows = -1;
    add(s, "no list", o);
    o.rows = 0;
    o.by = "colour";
    add(s, "no column", o);
    show_golden("table-lists", true);
    lam_costs_free(c);
    lam_costs_free(s);
    lam_model_free(m);
    lam_model_free(step);
}

/* The titles of a table's columns, each between two blanks or more. */
static size_t titles_of(char *head, const char *title[64]) {
    size_t n = 0;
    for (char *s = head, *end; n < 64 && *(s += strspn(s, " ")); s = end) {
        end = strstr(s, "  ");
        if (!end) end = s + strlen(s);
        title[n++] = s;
        if (*end) *end++ = '\0';
    }
    return n;
}

/* The line that has the titles, which the first empty line is before. */
static const char *head_of_table(void) {
    const char *s = strstr(shown, "\n\n");
    assert_non_null(s);
    return s + 2;
}

/* Adds a text without its blanks: words that are cut at the page's end are put together again. */
static void put_solid(lmi_buf *b, const char *s, size_t n) {
    for (; n > 0 && *s; s++, n--)
        if (!strchr(" \n", *s)) lmi_putc(b, *s);
}

/* No line is wider than the page, and each column is there or is named below the table. */
static void fit_each_width(const lam_costs *c, lam_report_options o) {
    static char head[1024];
    const char *title[64];
    lam_error e;
    lmi_buf told, one;
    lmi_buf_init(&told);
    lmi_buf_init(&one);
    o.width = 1000;
    assert_int_equal(lam_report_write(c, &o, show_sink(), &e), LAM_OK);
    snprintf(head, sizeof head, "%.*s", (int)strcspn(head_of_table(), "\n"), head_of_table());
    const size_t n = titles_of(head, title);
    assert_true(n > 2);
    for (o.width = 8; o.width < 260; o.width += o.width < 60 ? 1 : 7) {
        o.ascii = o.width % 2;
        assert_int_equal(lam_report_write(c, &o, show_sink(), &e), LAM_OK);
        page_fits(shown, (size_t)o.width, false);
        const char *s = head_of_table();
        lmi_buf_clear(&told);
        put_solid(&told, s, strcspn(s, "\n"));
        const size_t at = told.n;
        put_solid(&told, s + strcspn(s, "\n"), SIZE_MAX);
        char *below = strstr(told.s + at, "notshown");
        memset(told.s + at, '|', (below ? (size_t)(below - told.s) : told.n) - at);
        for (size_t k = 1; k < n; k++) {
            lmi_buf_clear(&one);
            put_solid(&one, title[k], SIZE_MAX);
            if (!strstr(told.s, one.s)) fail_msg("%d: no '%s' in\n%s", (int)o.width, one.s, shown);
        }
    }
    lmi_buf_free(&told);
    lmi_buf_free(&one);
}

static void every_width(void **state) {
    (void)state;
    lam_model *m = full_step(), *blocks = level_blocks(5);
    lam_costs *c = net_costs(m, "exact", false), *b = net_costs(blocks, "exact", false);
    fit_each_width(c, measured());
    fit_each_width(b, (lam_report_options){.max_depth = -1});
    lam_costs_free(c);
    lam_costs_free(b);
    lam_model_free(m);
    lam_model_free(blocks);
}

/* Net(a, b): Linear(4, 4) each, one after the other; `deaf` parameters more that nothing reads. */
static lam_model *twins(int deaf) {
    net n = net_new();
    int32_t root = level_place(&n, -1, "", "Net");
    for (int i = 0; i < 2; i++) {
        int32_t fc = level_place(&n, root, i ? "b" : "a", "Linear");
        net_numbered(&n, fc, "weight", 100 + (uint64_t)i, true, SH(3, 3));
    }
    for (int i = 0; i < deaf; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%d", i);
        net_numbered(&n, root, name, 200 + (uint64_t)i, true, SH(2));
    }
    int32_t r = level_call(&n, root, -1, 1, 3);
    for (int32_t i = 0; i < 2; i++) {
        const uint64_t from = 1 + (uint64_t)i;
        int32_t c = level_call(&n, 1 + i, r, from, from + 1);
        net_op_args(&n, "aten::mm", (op_at){c, -1, LAM_FORWARD, 0},
                    IN(level_tensor(0, from), D(1, 100 + (uint64_t)i, 3, 3)), OUT(level_tensor(0, from + 1)));
    }
    return net_done(&n);
}

/* What is proposed next is of the layer with most MACs, the first of equal ones; "." where none has any. */
static void what_else_there_is(void **state) {
    (void)state;
    show_sink();
    for (int i = 0; i < 4; i++) {
        lam_model *m = i == 3 ? level_blocks(2) : twins(i);
        lam_costs *c = net_costs(m, "exact", false);
        lam_report_options o = show_options(NULL, NULL);
        o.command = true;
        o.next = "net.py:Net -i 2x3";
        add(c, i == 3 ? "without MACs" : "equal MACs", o);
        o.why = true;
        add(c, "why", o);
        lam_costs_free(c);
        lam_model_free(m);
    }
    show_golden("table-next", true);
}

static void other_models(void **state) {
    (void)state;
    static const char *const conventions[] = {"exact", "layers", "torchscan", "thoplw"};
    lam_model *all[] = {full_step(), net_step(), net_residual(), chain_nested()};
    show_sink();
    for (int i = 0; i < 4; i++) {
        for (int k = i == 3; k < 4; k++) {
            lam_costs *c = net_costs(all[i], conventions[k], false);
            lam_report_options o = i % 2 ? show_options(NULL, NULL) : measured();
            o.why = k % 2;
            add(c, conventions[k], o);
            o.format = k % 2 ? "md" : "csv";
            add(c, o.format, o);
            lam_costs_free(c);
        }
        lam_model_free(all[i]);
    }
    show_golden("table-models", true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_option),  cmocka_unit_test(shares_and_lists),   cmocka_unit_test(every_width),
        cmocka_unit_test(other_models), cmocka_unit_test(what_else_there_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
