/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports as data: whatever the names are, JSON is JSON, every CSV record and Markdown row has all its
 * cells, HTML closes what it opens and fetches nothing. And what is asked for but does not exist. */
#include "kit/oom.h"

#include "kit/chains.h"
#include "kit/json_text.h"
#include "kit/show.h"

static const char *const names[] = {
    "plain",       "comma,quote\"", "new\nline\r",        "\x1b[31mred\x1b[0m",
    "|pipe|`tick", "<b>&\"'</b>",   "broken\xff\xc3\x28", "back\\slash\\",
    "\u5c42*_",    "=1+1",          "\x7f\xc2\x9b\u202e", "</span></div>"};
enum { N_NAMES = sizeof names / sizeof *names };

static lam_model *hostile(void) {
    net n = net_new();
    int32_t root = net_module(&n, names[5], 0), p = net_place(&n, -1, "", root), c;
    lam_arg none = {"key,<word>", -1, -1, -1, -1, NULL, 0, 0, 0},
            ones[] = {{NULL, 0, 6, 1, 0, NULL, 0, 0, 0}, {NULL, 1, 6, 99, -1, NULL, 0, 0, 0}};
    lam_call_info call = {.module = root, .parent = -1, .n_in = 1, .in = &none, .n_out = 2, .out = ones};
    NET_OK(&n, lam_build_call(n.b, &call, &c, &n.e));
    for (int i = 0; i < N_NAMES; i++) {
        int32_t m = net_module(&n, names[(i + 5) % N_NAMES], LAM_MODULE_LEAF);
        net_place(&n, p, names[i], m);
        if (i % 3) net_call(&n, m, c, SH(1, 4), 0, SH(2, 3, 4), 0);
    }
    NET_OK(&n, lam_build_note(n.b, "a \"note\"\nof <two> lines", &n.e));
    return net_done(&n);
}

/* -- JSON ---------------------------------------------------------------------------------------------- */

static void json_is_json(void **state) {
    (void)state;
    static const char *const conventions[] = {"layers", "torchscan", "thoplw"};
    lam_model *models[] = {hostile(), chain_nested(), chain_encdec(), net_two_parents(true)};
    lam_report_options o = show_options(NULL, "json");
    for (size_t k = 0; k < 4; k++) {
        for (size_t i = 0; i < 6; i++) {
            lam_costs *c = net_costs(models[k], conventions[i / 2], i % 2);
            const char *end = json_value(show(c, &o));
            assert_string_equal(end, "\n");
            assert_true(strncmp(shown, "{\n\"schema\": \"lamina.report/1\",\n\"schema_version\": 1,\n", 50) ==
                        0);
            lam_costs_free(c);
        }
        lam_model_free(models[k]);
    }
}

static bool has(const char *text) { return strstr(shown, text) != NULL; }

static void json_fields(void **state) {
    (void)state;
    lam_model *m = hostile();
    lam_costs *c = net_costs(m, NULL, false);
    lam_report_options o = show_options(NULL, "json");
    show(c, &o);
    assert_true(has("\"name\": \"comma,quote\\\"\""));
    assert_true(has("\"name\": \"new\\u000aline\\u000d\""));
    assert_true(has("\"name\": \"\\u007f\\u009b\\u202e\""));
    assert_true(has("\"name\": \"broken\\ufffd\\ufffd(\""));
    assert_true(has(
        "\"name\": \"key,<word>\", \"position\": null, \"dtype\": null, \"device\": null, \"shape\": null}"));
    assert_true(has("\"dtype\": \"float32\", \"device\": \"cuda\", \"shape\": []}"));
    assert_true(has("\"device\": \"?\", \"shape\": null}"));
    assert_true(has("\"macs\": {\"value\": null, \"state\": \"unknown\"}"));
    assert_true(has("\"notes\": [\"a \\\"note\\\""));
    assert_true(has("\"status\": \"never called\", \"call\": null"));
    lam_costs_free(c);
    lam_model_free(m);
}

/* Numbers beyond 63 bits are still plain digits. */
static void json_large_numbers(void **state) {
    (void)state;
    net n = net_new();
    int32_t fc = net_linear(&n, 1, 1);
    net_place(&n, -1, "", fc);
    for (int i = 0; i < 3; i++) net_call(&n, fc, -1, SH(INT64_MAX / 4, 1), 0, SH(INT64_MAX / 4, 1), 0);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, NULL, false);
    lam_report_options o = show_options(NULL, "json");
    show(c, &o);
    assert_string_equal(json_value(shown), "\n");
    assert_true(has("\"macs\": {\"value\": 6917529027641081853, \"state\": \"exact\"}"));
    assert_true(has("\"flops\": {\"value\": 13835058055282163706, \"state\": \"exact\"}"));
    lam_costs_free(c);
    lam_model_free(m);
}

/* -- CSV ----------------------------------------------------------------------------------------------- */

/* Reads one record as RFC 4180 has it; the number of its cells. */
static int csv_record(const char **s) {
    int cells = 1;
    for (;; cells++) {
        if (**s == '"') {
            for ((*s)++; **s != '"' || (*s)[1] == '"'; (*s)++) {
                if (**s == '"') (*s)++;
                assert_int_not_equal(**s, '\0');
            }
            (*s)++;
        } else {
            *s += strcspn(*s, ",\"\r\n");
        }
        if (**s != ',') break;
        (*s)++;
    }
    assert_int_equal(**s, '\n');
    (*s)++;
    return cells;
}

static int csv_records(int cells) {
    int records = 0;
    for (const char *s = shown; *s; records++) assert_int_equal(csv_record(&s), cells);
    return records;
}

/* A field may be half a position more than a whole number of them. */
static void json_halves(void **state) {
    (void)state;
    net n = net_new();
    int32_t up = net_conv(&n, "ConvTranspose2d", 2, 3, 8, 2, 2, 0);
    net_place(&n, -1, "", up);
    net_call(&n, up, -1, SH(1, 3, 4, 4), 1, SH(1, 8, 8, 8), 2);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "torchscan", true);
    lam_report_options o = show_options(NULL, "json");
    show(c, &o);
    bool half = false;
    for (int32_t i = 0; i < lam_costs_n_rows(c); i++) {
        const lam_cost_row *row = lam_costs_row(c, i);
        char text[64];
        if (row->rf_state == LAM_UNKNOWN || row->rf_stride == (double)(int64_t)row->rf_stride) continue;
        snprintf(text, sizeof text, "\"rf_stride\": %g,", row->rf_stride);
        assert_true(has(text));
        half = true;
    }
    assert_true(half);
    lam_costs_free(c);
    lam_model_free(m);
}

static void csv_keeps_its_cells(void **state) {
    (void)state;
    lam_model *m = hostile();
    lam_costs *c = net_costs(m, NULL, false);
    lam_report_options o = show_options(NULL, "csv");
    show(c, &o);
    assert_int_equal(csv_records(34), lam_costs_n_rows(c) + 2);
    assert_true(has(",\"comma,quote\"\"\","));
    assert_true(has(",new?line?,"));
    lam_costs_free(c);
    lam_model_free(m);
}

/* -- Markdown and HTML --------------------------------------------------------------------------------- */

static void md_rows(void **state) {
    (void)state;
    lam_model *m = hostile();
    lam_costs *c = net_costs(m, NULL, false);
    lam_report_options o = show_options(NULL, "md");
    int rows = 0;
    show(c, &o);
    for (const char *s = strstr(shown, "\n|"); s && s[1] == '|'; s = strchr(s + 1, '\n'), rows++) {
        int pipes = 0;
        for (const char *p = s + 1; *p != '\n'; p++) {
            if (*p == '\\')
                p++;
            else
                pipes += *p == '|';
        }
        assert_int_equal(pipes, 7);
    }
    assert_int_equal(rows, 2 + 1 + N_NAMES);
    lam_costs_free(c);
    lam_model_free(m);
}

/* Every tag that is opened is closed in order, and names make no tags. */
static void check_tags(const char *s) {
    char stack[512][16];
    int depth = 0;
    while ((s = strchr(s, '<')) != NULL) {
        bool close = s[1] == '/';
        char tag[16] = "";
        size_t n = strspn(s + 1 + close, "abcdefghijklmnopqrstuvwxyz");
        assert_true(n > 0 && n < sizeof tag);
        memcpy(tag, s + 1 + close, n);
        if (close) {
            assert_true(depth > 0);
            assert_string_equal(stack[--depth], tag);
        } else if (s[strcspn(s, ">") - 1] != '/') {
            assert_true(depth < 512);
            memcpy(stack[depth++], tag, sizeof tag);
        }
        s++;
    }
    assert_int_equal(depth, 0);
}

static void show_part(const lam_costs *c) {
    lam_error e = {0};
    assert_int_equal(lam_page_write(c, &(lam_page_options){.part = true}, show_sink(), &e), LAM_OK);
}

/* What a notebook shows is one element, with nothing that acts or that may be there once only. */
static void html_is_closed(void **state) {
    (void)state;
    lam_model *models[] = {hostile(), chain_nested(), chain_long_names(), net_two_parents(false)};
    static const char *const never[] = {"<script", "http", "url(", "@import", "src=", " id=",
                                        "href=",   "<h1",  "<h2",  " style=", "<a ",  "onclick"};
    for (size_t i = 0; i < 4; i++) {
        lam_costs *c = net_costs(models[i], NULL, false);
        show_part(c);
        check_tags(shown);
        show_has("<div class=\"lamina\" role=\"group\" aria-label=\"lamina: report\"><style>");
        for (size_t k = 0; k < sizeof never / sizeof *never; k++) show_lacks(never[k]);
        lam_costs_free(c);
        lam_model_free(models[i]);
    }
}

static void html_is_small(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_module(&n, "Sequential", 0), p = net_place(&n, -1, "", root);
    int32_t r = net_call(&n, root, -1, SH(1, 3, 224, 224), 0, SH(1, 3, 224, 224), 0);
    for (int i = 0; i < 1000; i++) {
        char name[32];
        int32_t m = net_conv(&n, "Conv2d", 2, 3 + i % 7, 64, 3, 1, 1);
        snprintf(name, sizeof name, "some_layer_%d", i);
        net_place(&n, p, name, m);
        net_call(&n, m, r, SH(1, 3, 224, 224), 0, SH(1, 64, 224, 224), 0);
    }
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, NULL, false);
    show_part(c);
    show_has("851 more rows"); /* of 1001, 150 are shown */
    assert_true(shown_n > 50 << 10 && shown_n < 150 << 10);
    lam_costs_free(c);
    lam_model_free(m);
}

/* The format is the page. */
static void html_is_the_page(void **state) {
    (void)state;
    static char page[sizeof shown];
    lam_model *m = chain_nested();
    lam_costs *c = net_costs(m, NULL, false);
    lam_report_options o = show_options(NULL, "html");
    lam_error e = {0};
    show(c, &o);
    memcpy(page, shown, shown_n + 1);
    assert_int_equal(lam_page_write(c, NULL, show_sink(), &e), LAM_OK);
    assert_string_equal(page, shown);
    o.command = true;
    show(c, &o);
    memcpy(page, shown, shown_n + 1);
    assert_int_equal(lam_page_write(c, &(lam_page_options){.command = true}, show_sink(), &e), LAM_OK);
    assert_string_equal(page, shown);
    show_has("--memory");
    lam_costs_free(c);
    lam_model_free(m);
}

/* -- what does not exist ------------------------------------------------------------------------------- */

static void refused(const lam_costs *c, lam_report_options o, const char *where, const char *says) {
    lam_error e = {0};
    assert_int_equal(lam_report_write(c, &o, show_sink(), &e), LAM_USAGE);
    assert_string_equal(e.where, where);
    if (!strstr(e.text, says)) fail_msg("'%s' does not say '%s'", e.text, says);
    assert_int_equal(shown_n, 0);
}

static void usage(void **state) {
    (void)state;
    lam_model *m = chain_leaf_root();
    lam_costs *c = net_costs(m, NULL, false);
    refused(c, show_options("nice", NULL), "layout",
            "there are: lamina, torchscan-0.1.2, torchscan-0.1.1, thoplw");
    refused(c, show_options(NULL, "pdf"), "format",
            "there are: text, csv, md, json, html, trace, speedscope");
    refused(c, show_options("torchscan-0.1.2", "csv"), "format", "layouts that have one: lamina, thoplw");
    refused(c, show_options("torchscan-0.1.1", "md"), "format", "layouts that have one: lamina, thoplw");
    lam_report_options o = show_options(NULL, NULL);
    o.width = -1;
    refused(c, o, "width", "give 0 or more");
    o = show_options(NULL, NULL);
    o.max_depth = -2;
    refused(c, o, "max_depth", "-1 for no limit");
    o = (lam_report_options){.max_depth = -1}; /* no names: the defaults */
    show(c, &o);
    assert_true(has("Conv2d    input"));
    lam_costs_free(c);
    lam_model_free(m);
}

/* Lays out what it is asked for; says no, in words of its own, where `self` is a sentence. */
static lam_status lay_out(void *self, const lam_costs *c, const lam_report_options *o, lam_sink to,
                          lam_error *e) {
    char text[128];
    int n = snprintf(text, sizeof text, "%s %s %d rows%s\n", o->layout, o->format, (int)lam_costs_n_rows(c),
                     o->receptive_field ? " rf" : "");
    if (!self) return to.put(to.to, text, (size_t)n);
    *e = (lam_error){.status = LAM_LIMIT};
    snprintf(e->text, sizeof e->text, "%s", (const char *)self);
    return e->status;
}

/* The tables of other tools are the host's; without one they are not there. */
static void old_layouts(void **state) {
    (void)state;
    lam_error e = {0};
    lam_model *m = chain_leaf_root();
    lam_costs *c = net_costs(m, "torchscan", false);
    lam_report_options o = show_options("torchscan-0.1.2", "text");
    assert_int_equal(lam_report_write(c, &o, show_sink(), &e), LAM_UNSUPPORTED);
    assert_non_null(strstr(e.text, "torchscan-0.1.2 is a layout of lamina's Python package"));
    assert_int_equal(shown_n, 0);
    o.lay_out = lay_out;
    assert_string_equal(show(c, &o), "torchscan-0.1.2 text 1 rows\n");
    o.receptive_field = true;
    o.layout = "torchscan-0.1.1";
    assert_string_equal(show(c, &o), "torchscan-0.1.1 text 1 rows rf\n");
    o.layout = "thoplw";
    o.format = "csv";
    assert_string_equal(show(c, &o), "thoplw csv 1 rows rf\n");
    o.format = "md";
    assert_string_equal(show(c, &o), "thoplw md 1 rows rf\n");
    o.lay_out_self = "the host has no paper";
    assert_int_equal(lam_report_write(c, &o, show_sink(), &e), LAM_LIMIT);
    assert_string_equal(e.text, "the host has no paper");
    o.format = "json"; /* which is the same for every layout */
    assert_int_equal(show(c, &o)[0], '{');
    lam_costs_free(c);
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_is_json),        cmocka_unit_test(json_fields),
        cmocka_unit_test(json_halves),         cmocka_unit_test(json_large_numbers),
        cmocka_unit_test(csv_keeps_its_cells), cmocka_unit_test(md_rows),
        cmocka_unit_test(html_is_closed),      cmocka_unit_test(html_is_small),
        cmocka_unit_test(html_is_the_page),    cmocka_unit_test(usage),
        cmocka_unit_test(old_layouts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
