/* SPDX-License-Identifier: Apache-2.0
 *
 * The block of data of a page: that it is JSON whatever texts there are, that nothing in it can end the
 * element that it stands in, and that its numbers are the outline's. */
#include "kit/oom.h"

#include "kit/full_net.h"
#include "kit/json_text.h"
#include "kit/outlined.h"
#include "report/page/page.h"

static const lam_page_options none = {0};
static lmi_page page;

static const char *written(const lmi_outline *o) {
    lmi_buf_free(&page.out);
    lmi_page_start(&page, o, &none, (lam_sink){0}, NULL);
    lmi_page_data(&page);
    assert_false(page.out.bad);
    assert_int_equal(strlen(page.out.s), page.out.n);
    assert_string_equal(json_value(page.out.s), "");
    return page.out.s;
}

static void lacks(const char *text, const char *part) {
    if (strstr(text, part)) fail_msg("'%s' is in\n%s", part, text);
}

static void has(const char *text, const char *part) {
    if (!strstr(text, part)) fail_msg("no '%s' in\n%s", part, text);
}

/* An outline of one place whose name this is. */
static lmi_outline named(lmi_outline_place *at, const char *name) {
    *at = (lmi_outline_place){.parent = -1,
                              .end = 1,
                              .name = "",
                              .type = name,
                              .in = "",
                              .out = "",
                              .n_run = 1,
                              .level = -1,
                              .formulas = -1};
    return (lmi_outline){.name = name, .n = 1, .at = at, .peak_place = -1, .backward_us = -1};
}

/* -- texts ----------------------------------------------------------------------------------------------- */

/* "name":"..." as it is in the block. */
static void shown_as(const char *name, const char *text) {
    lmi_outline_place at;
    lmi_outline o = named(&at, name);
    char part[256];
    snprintf(part, sizeof part, "\"name\":\"%s\",", text);
    has(written(&o), part);
}

static void test_every_byte(void **unused) {
    (void)unused;
    for (int c = 1; c < 256; c++) {
        const char name[] = {'a', (char)c, 'b', '\0'};
        char text[32];
        if (c < 0x20 || c == 0x7f || c == '<')
            snprintf(text, sizeof text, "a\\u%04xb", (unsigned)c);
        else if (c == '"' || c == '\\')
            snprintf(text, sizeof text, "a\\%cb", c);
        else if (c >= 0x80)
            snprintf(text, sizeof text, "a\\ufffdb"); /* no byte above is a character alone */
        else
            snprintf(text, sizeof text, "a%cb", c);
        shown_as(name, text);
    }
}

static void test_odd_characters(void **unused) {
    (void)unused;
    shown_as("\xed\xa0\x80", "\\ufffd\\ufffd\\ufffd"); /* half of a surrogate pair, U+D800 */
    shown_as("\xed\xbf\xbfz", "\\ufffd\\ufffd\\ufffdz");
    shown_as("\xc0\x80", "\\ufffd\\ufffd");                       /* NUL in two bytes */
    shown_as("\xf4\x90\x80\x80", "\\ufffd\\ufffd\\ufffd\\ufffd"); /* past U+10FFFF */
    shown_as("cut \xe2\x82", "cut \\ufffd\\ufffd");
    shown_as("\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa",
             "\\u2028\\u2029\\u202a"); /* lines and paragraphs end, the direction changes */
    shown_as("\xf0\x9f\x94\xa5 \xd7\xa9", "\xf0\x9f\x94\xa5 \xd7\xa9");
    shown_as("</script><!--", "\\u003c/script>\\u003c!--");
    shown_as("", "");
}

static void test_long_names(void **unused) {
    (void)unused;
    enum { LONG = 1 << 20 };
    static char name[LONG + 1];
    lmi_outline_place at;
    memset(name, '<', LONG);
    lmi_outline o = named(&at, name);
    const char *text = written(&o);
    assert_true(strlen(text) > 2 * (size_t)LONG * 6); /* name and texts */
    assert_null(strchr(text, '<'));
}

/* -- a whole --------------------------------------------------------------------------------------------- */

static void test_numbers_of_a_step(void **unused) {
    (void)unused;
    outlined x = outline_of(full_step(), NULL);
    const char *text = written(&x.o);
    has(text, "{\"version\":2,\"name\":\"Net\",\"places\":4,\"parent\":[-1,0,0,0],\"names\":[0,1,2,3],");
    has(text, "\"status\":{\"3\":");
    has(text, "\"calls\":{},\"families\":[\"conv\",");
    has(text,
        "{\"name\":\"time\",\"title\":\"time\",\"unit\":\"times\",\"forward\":{\"label\":\"time, forward\","
        "\"total\":[400,100,100,0],\"state\":{},\"own\":{\"0\":200},\"shown\":{}},"
        "\"step\":{\"label\":\"time, forward + backward\",\"total\":[500,100,200,0],");
    has(text,
        "{\"name\":\"peak\",\"title\":\"at peak\",\"unit\":\"bytes\",\"forward\":{\"label\":\"at peak\","
        "\"total\":[6204,4096,2048,60],");
    has(text,
        "\"categories\":[\"parameters\",\"gradients\",\"optimizer\",\"buffers\",\"input\",\"activations\","
        "\"backward\",\"workspace\",\"other\"]");
    has(text, "\"held\":{\"1\":[0,0,0,0,0,4096,0,0,0],\"2\":[0,0,0,0,0,2048,0,0,0],\"3\":[60,");
    has(text, "\"marks\":[[\"NaN\",\"chg\"],[\"NaN first\",\"del\"]]");
    has(text, "\"health\":[0,2,");
    has(text, "\"speeds\":{},\"drawings\":[],\"drawing_of\":{}");
    has(text, "\"before\":null,\"texts\":[\"\",\"conv\",\"fc\",\"idle\",\"Net\",\"Conv1d\",\"Linear\",");
    outline_leave(&x);
}

static void test_states_and_totals(void **unused) {
    (void)unused;
    outlined x = outline_of(net_step(), NULL);
    const char *text = written(&x.o);
    has(text, "\"label\":\"MACs, forward\",\"total\":[70,24,0,40,0],\"state\":{\"0\":1,\"3\":1},");
    has(text, "\"label\":\"MACs, forward + backward\",\"total\":[142,96,0,40,0],");
    has(text, "\"title\":\"params\",\"unit\":\"counts\",\"forward\":{\"label\":\"params\",\"total\":[41,");
    has(text, "\"memory\":null");
    lacks(text, "\"marks\"");
    lacks(text, "\"name\":\"time\"");
    outline_leave(&x);
}

/* A page always has a number to be viewed by; one beyond 63 bits is at least that. */
static void test_no_number_and_a_large_one(void **unused) {
    (void)unused;
    lmi_outline_place at;
    lmi_outline o = named(&at, "Net");
    int64_t large = INT64_MAX;
    has(written(&o), "\"numbers\":[{\"name\":\"params\",\"title\":\"params\",\"unit\":\"counts\",\"forward\":"
                     "{\"label\":\"params\",\"total\":[0],\"state\":{},\"own\":{},\"shown\":{}}}],");
    o.own[LMI_OWN_TIME] = o.total[LMI_OWN_TIME] = &large;
    has(written(&o), "\"total\":[9223372036854775807],\"state\":{\"0\":1},");
}

/* Formulas name texts by their numbers, operators that ran several times with how often. */
static void test_formulas(void **unused) {
    (void)unused;
    lmi_outline_place at;
    lmi_outline o = named(&at, "Net");
    lmi_outlined_formula lines[] = {{LAM_MACS, "a*b", "2 x 3", 6}, {LAM_FLOPS, "?", "?", -1}};
    lmi_formula_group group = {LAM_BACKWARD, "aten::mm", 3, 2, lines};
    lmi_formulas all = {1, &group};
    at.formulas = 0;
    o.n_formulas = 1;
    o.formulas = &all;
    const char *text = written(&o);
    has(text, "\"formulas\":[[[1,2,[[0,3,4,6],[1,5,5,null]]]]],\"formulas_of\":{\"0\":0}");
    has(text, "\"texts\":[\"\",\"Net\",\"aten::mm \u00d73\",\"a*b\",\"2 x 3\",\"?\"]}");
}

static void test_drawings(void **unused) {
    (void)unused;
    lmi_outline_place at;
    lmi_outline o = named(&at, "Net");
    lmi_level_node nodes[] = {{.look = LMI_NODE_END, .label = "in", .note = "", .place = -1},
                              {.look = LMI_NODE_MODULE, .label = "fc", .note = "1/2", .place = 1}};
    lmi_box_size size[] = {{40, 20}, {132, 46}};
    lmi_line_ends line[] = {{0, 1}};
    lmi_waypoint point[] = {{7, 1, 0}};
    lmi_level level = {.n = 2, .node = nodes, .size = size, .n_lines = 1, .line = line, .cut = 5};
    level.at = (lmi_drawing){.n = 2,
                             .x = (int32_t[]){0, -3},
                             .y = (int32_t[]){0, 42},
                             .rank = (int32_t[]){0, 1},
                             .spine = (bool[]){true, false},
                             .n_ranks = 2,
                             .top = (int32_t[]){0, 42},
                             .bottom = (int32_t[]){20, 88},
                             .n_waypoints = 1,
                             .waypoint = point,
                             .n_segments = 1,
                             .segment = line};
    at.level = 0;
    o.n_levels = 1;
    o.level = &level;
    has(written(&o), "\"drawings\":[{\"nodes\":[[2,2,0],[0,3,4]],\"widths\":[40,132],\"heights\":[20,46],"
                     "\"x\":[0,-3],\"y\":[0,42],\"rank\":[0,1],\"tops\":[0,42],\"bottoms\":[20,88],"
                     "\"waypoints\":[[7,1,0]],\"segments\":[[0,1]]}],\"drawing_of\":{\"0\":0}");
    level.at.shared = true;
    has(written(&o), "\"rail\":[[0,1]]");
}

/* What runs on a machine of 10^9 FLOP/s and 10^8 bytes/s. */
static void test_speeds(void **unused) {
    (void)unused;
    lmi_outline_place at;
    lmi_outline o = named(&at, "Net");
    int64_t ns = 1000, flops = 500, moved = 10;
    o.own[LMI_OWN_TIME] = &ns, o.own[LMI_OWN_FLOPS] = &flops, o.own[LMI_OWN_READ] = &moved;
    has(written(&o), "\"speeds\":{}");
    o.roof = (lam_peak){1e9, 1e8};
    has(written(&o), "\"speeds\":{\"0\":[\"50.0 FLOP/byte\",\"500\u202fMFLOP/s\",\"compute, 50\u202f%\"]}");
}

/* The innermost place at work, of several the first. */
static void test_the_course_of_memory(void **unused) {
    (void)unused;
    lmi_outline_place at;
    lmi_outline o = named(&at, "Net");
    lam_memory_totals use = {.peak = 9};
    lmi_course_point point[] = {{0, 1}, {10, 9}, {20, 5}, {40, 2}};
    lmi_active work[] = {{3, 1, 0, 5, 20}, {4, 2, 0, 10, 5}, {5, 2, 0, 10, 10}, {6, 1, 0, 20, 1}};
    o.memory = &use, o.point = point, o.n_points = 4;
    o.at_work = work, o.n_at_work = 4;
    has(written(&o), "\"memory\":{\"times\":[0,10,20,40],\"bytes\":[1,9,5,2],\"at_work\":[-1,4,5,-1]}");
}

/* A model is called by its target beside another. */
static void test_its_name(void **unused) {
    (void)unused;
    lmi_outline_place at;
    lmi_outline o = named(&at, "Net");
    const char *facts[][2] = {{"target", "resnet18"}};
    has(written(&o), "\"name\":\"Net\",\"places\":1,");
    o.n_provenance = 1;
    o.provenance = facts;
    has(written(&o), "\"name\":\"resnet18\",\"places\":1,");
}

/* -- memory that runs out -------------------------------------------------------------------------------- */

static void try_block(void *outline, bool *ok) {
    lmi_page p;
    lmi_page_start(&p, outline, &none, (lam_sink){0}, NULL);
    lmi_page_data(&p);
    *ok = !p.out.bad;
    lmi_buf_free(&p.out);
}

static void test_no_memory(void **unused) {
    (void)unused;
    outlined x = outline_of(full_step(), NULL);
    oom_sweep(try_block, &x.o);
    outline_leave(&x);
}

static int free_block(void **unused) {
    (void)unused;
    lmi_buf_free(&page.out);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_byte),
        cmocka_unit_test(test_odd_characters),
        cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_numbers_of_a_step),
        cmocka_unit_test(test_states_and_totals),
        cmocka_unit_test(test_no_number_and_a_large_one),
        cmocka_unit_test(test_formulas),
        cmocka_unit_test(test_drawings),
        cmocka_unit_test(test_speeds),
        cmocka_unit_test(test_the_course_of_memory),
        cmocka_unit_test(test_its_name),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, free_block);
}
