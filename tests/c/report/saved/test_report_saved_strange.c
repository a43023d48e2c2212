/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that are no report, and reports that a stranger changed or an older lamina wrote. */
#include "kit/oom.h"

#include "kit/full_net.h"
#include "kit/ops_net.h"
#include "kit/outlined.h"

#define FILE_NAME "test_report_saved_strange.json"
#include "kit/saved.h"

static const lmi_outline_options with = {.levels = true, .formulas = true, .course = true, .drawn = true};

static lam_status try_text(const char *text, lam_error *e) {
    lmi_outline o;
    put_file(text, strlen(text));
    lam_status s = lmi_saved_outline(&o, FILE_NAME, &with, e);
    if (s == LAM_OK) {
        assert_true(o.n >= 1);
        for (int32_t i = 1; i < o.n; i++) assert_true(o.at[i].parent >= 0 && o.at[i].parent < i);
    }
    lmi_outline_free(&o);
    return s;
}

static void refused(const char *text, const char *because) {
    lam_error e = {0};
    if (try_text(text, &e) != LAM_FAILED) fail_msg("%.80s: not refused: %s", text, e.text);
    assert_string_equal(e.where, FILE_NAME);
    if (!strstr(e.text, because)) fail_msg("%s: no '%s'", e.text, because);
}

static void taken(const char *text) {
    lam_error e = {0};
    if (try_text(text, &e) != LAM_OK) fail_msg("%.80s: %s", text, e.text);
}

#define REPORT(rest) "{\"schema\": \"lamina.report/1\", " rest "}"
#define BARE(rest)   REPORT("\"rows\": [], " rest)
#define ROWS(rows)   REPORT("\"rows\": [" rows "]")

static void no_report(void **state) {
    (void)state;
    lmi_outline o;
    static const char *const files[] = {"no/such/file.json", ".", "/dev/null"}; /* a pipe may never end */
    for (size_t i = 0; i < 3; i++) {
        lam_error e = {0};
        assert_int_equal(lmi_saved_outline(&o, files[i], &with, &e), LAM_IO);
        assert_non_null(strstr(e.text, i ? "it is not a file" : "it can't be read: "));
        lmi_outline_free(&o);
    }
    refused("", "it is no JSON");
    refused("text", "it is no JSON");
    refused("{\"schema\": \"lamina.report/1\"", "neither a comma nor the end of the object at byte 28");
    refused("{}", "\"schema\"");
    refused("[]", "\"schema\"");
    refused("17", "\"schema\"");
    refused("{\"schema\": \"lamina.report/2\"}", "\"schema\"");
    refused("{\"schema\": 1}", "\"schema\"");
}

static void rows_that_are_none(void **state) {
    (void)state;
    refused(ROWS("{}"), "rows[0] has no path");
    refused(ROWS("17"), "rows[0] has no path");
    refused(ROWS("null"), "rows[0] has no path");
    refused(ROWS("{\"path\": null}"), "rows[0] has no path");
    refused(ROWS("{\"path\": 5}"), "rows[0] has no path");
    refused(ROWS("{\"path\": []}"), "rows[0] has no path");
    taken(ROWS("")); /* the root alone */
    refused(REPORT("\"rows\": 3"), "it has no list of \"rows\"");
    refused(REPORT("\"rows\": {}"), "it has no list of \"rows\"");
    refused(REPORT("\"totals\": {}"), "it has no list of \"rows\"");
#define CALL(call) "{\"path\": \"a\", \"status\": \"called\", \"call\": " call "}"
    taken(ROWS(CALL("0") ", " CALL("1")));
    refused(ROWS(CALL("0") ", " CALL("1") ", " CALL("0")), "is the second row of one call");
    refused(ROWS(CALL("null") ", " CALL("null")), "is the second row of one call");
#undef CALL
    taken(ROWS("{\"path\": \"\"}, {\"path\": \"a\", \"type\": null, \"status\": [], \"inputs\": 4, "
               "\"outputs\": {}}"));
    taken(ROWS("{\"path\": \"a..b\"}, {\"path\": \".\"}, {\"path\": \"a.\"}, {\"path\": \"a.\"}"));
    taken(ROWS("{\"path\": \"a\\u0000b\"}, {\"path\": \"\\ud800\"}, {\"path\": \"\\u202e\"}"));
}

static void numbers_that_are_none(void **state) {
    (void)state;
#define MACS(value) ROWS("{\"path\": \"a\", \"macs\": {\"value\": " value ", \"state\": \"exact\"}}")
    taken(MACS("0"));
    taken(MACS("9223372036854775807"));
    taken(MACS("39614081257132168796771975167"));
    refused(MACS("39614081257132168796771975168"), "is larger than any number");
    refused(MACS("1e300"), "is larger than any number");
    refused(MACS("null"), "rows[0].macs has a value that does not go with its state");
    refused(ROWS("{\"path\": \"a\", \"macs\": {\"value\": 1, \"state\": \"unknown\"}}"), "does not go with");
    taken(ROWS("{\"path\": \"a\", \"macs\": {\"value\": null, \"state\": \"unknown\"}}"));
    refused(MACS("-1"), "is no whole number of at least 0");
    refused(MACS("-9223372036854775808"), "is no whole number of at least 0");
    refused(MACS("1.5"), "is no whole number of at least 0");
    refused(MACS("\"12\""), "is no whole number of at least 0");
    refused(MACS("[1]"), "is no whole number of at least 0");
    refused(MACS("-1e300"), "is no whole number of at least 0");
    refused(ROWS("{\"path\": \"a\", \"macs\": {\"value\": 1, \"state\": \"sure\"}}"), "no known state");
#define TIMED(self)                                                                                          \
    REPORT("\"time\": {\"runs\": 1}, \"rows\": [{\"path\": \"a\", \"status\": \"called\", \"time\": "        \
           "{\"forward\": {\"self\": " self "}}}]")
    taken(TIMED("5"));
    refused(TIMED("-5"), "rows[0].time.forward.self is no whole number of at least 0");
    refused(TIMED("1e300"), "is larger than any number");
    refused(REPORT("\"memory\": {\"peak\": 5}, \"rows\": [{\"path\": \"a\", \"status\": \"called\"}]"),
            "rows[0] has no memory, which was measured");
    refused(BARE("\"memory\": {\"peak\": -1}"), "is no whole number of at least 0");
    taken(ROWS("{\"path\": \"a\", \"time\": 5, \"memory\": [], \"health\": true}"));
    refused(ROWS("{\"path\": \"a\", \"macs\": 3}"), "rows[0].macs is no number with its state");
    refused(BARE("\"notes\": 3"), "notes is no list");
    refused(BARE("\"totals\": []"), "totals is no object");
    refused(BARE("\"memory\": {\"peak\": 5, \"course\": [[0, -1]]}"), "is no whole number of at least 0");
    refused(BARE("\"memory\": {\"peak\": 5, \"course\": [[\"x\", 1]]}"), "is no moment");
    refused(BARE("\"memory\": {\"peak\": 5, \"course\": [7]}"), "is no moment");
    taken(BARE("\"memory\": {\"peak\": 5, \"course\": [[-9, 1], [3, 2], [1, 3]]}"));
    taken(BARE("\"memory\": {\"peak\": 5, \"course\": {}, \"held\": 5, \"places\": 3}"));
}

static void open_text(lmi_outline *o, const char *text) {
    lam_error e = {0};
    put_file(text, strlen(text));
    if (lmi_saved_outline(o, FILE_NAME, &with, &e) != LAM_OK) fail_msg("%s", e.text);
}

/* What a row lacks is not known; what no row of the report has is not counted. */
static void what_rows_lack(void **state) {
    (void)state;
    static const lmi_own_number lacks[] = {LMI_OWN_PARAMS, LMI_OWN_FLOPS, LMI_OWN_READ, LMI_OWN_TIME};
    lmi_outline o;
    open_text(&o, REPORT("\"totals\": {\"bytes_read\": {\"value\": 5, \"state\": \"exact\"}}, \"time\": "
                         "{\"runs\": 1, \"forward\": {\"n\": 1, \"median\": 5}}, "
                         "\"rows\": [{\"path\": "
                         "\"a\", \"status\": \"called\", \"macs\": {\"value\": 3, \"state\": \"exact\"}}]"));
    for (size_t i = 0; i < sizeof lacks / sizeof *lacks; i++) {
        assert_non_null(o.state[lacks[i]]);
        assert_int_equal(o.state[lacks[i]][1], LAM_UNKNOWN);
    }
    assert_null(o.state[LMI_OWN_MACS]);
    assert_null(o.state[LMI_OWN_WRITTEN]);
    assert_null(o.state[LMI_OWN_BACK_MACS]);
    assert_null(o.state[LMI_OWN_BACK_TIME]);
    lmi_outline_free(&o);
}

/* Totals are exact; places have 64 bits, and a number that they cut is a lower bound. */
static void numbers_of_more_than_64_bits(void **state) {
    (void)state;
#define TOTAL(value)                                                                                         \
    REPORT("\"totals\": {\"macs\": {\"value\": " value                                                       \
           ", \"state\": \"exact\"}}, \"rows\": [{\"path\": \"a\", "                                         \
           "\"macs\": {\"value\": " value ", \"state\": \"exact\"}}]")
    lmi_outline o;
    open_text(&o, TOTAL("73786976294838206465"));
    assert_true(lmi_count_wide(o.macs[LAM_FORWARD]) == ((lmi_int128)1 << 66) + 1);
    assert_int_equal(o.macs[LAM_FORWARD].state, LAM_EXACT);
    assert_int_equal(o.own[LMI_OWN_MACS][1], INT64_MAX);
    assert_int_equal(o.state[LMI_OWN_MACS][1], LAM_AT_LEAST);
    lmi_outline_free(&o);
    open_text(&o, TOTAL("9223372036854775807"));
    assert_true(lmi_count_wide(o.macs[LAM_FORWARD]) == INT64_MAX);
    assert_null(o.state[LMI_OWN_MACS]);
    lmi_outline_free(&o);
#undef TOTAL
}

/* Of each type what can be told; of others nothing is. */
static void attributes(void **state) {
    (void)state;
    static const lam_value_type types[] = {LAM_INTS,  LAM_TEXT, LAM_NONE, LAM_BOOL,
                                           LAM_FLOAT, LAM_INT,  LAM_INTS};
    static const char text[] = ROWS(
        "{\"path\": \"a\", \"attributes\": {\"k\": [3, -1], \"s\": \"same\", \"n\": null, \"t\": true, "
        "\"f\": 1e-5, "
        "\"i\": -7, \"none\": [], \"real\": [1.5], \"texts\": [\"x\"], \"deep\": [[1]], \"o\": {\"x\": 1}}}, "
        "{\"path\": \"a\", \"attributes\": {\"k\": 5}}, {\"path\": \"b\"}");
    enum { N = sizeof types / sizeof *types };
    lmi_outline o;
    lam_error e = {0};
    put_file(text, strlen(text));
    if (lmi_saved_outline(&o, FILE_NAME, &with, &e) != LAM_OK) fail_msg("%s", e.text);
    assert_int_equal(o.n, 3);
    assert_int_equal(o.at[1].n_attrs, N);
    assert_int_equal(o.at[2].n_attrs, 0);
    const lam_attr *a = o.at[1].attrs;
    for (int i = 0; i < N; i++) assert_int_equal(a[i].value.type, types[i]);
    assert_string_equal(a[0].name, "k");
    assert_int_equal(a[0].value.n, 2);
    assert_int_equal(a[0].value.ints[0], 3);
    assert_int_equal(a[0].value.ints[1], -1);
    assert_string_equal(a[1].value.text, "same");
    assert_true(a[3].value.i == 1 && a[4].value.f == 1e-5 && a[5].value.i == -7);
    assert_int_equal(a[6].value.n, 0);
    lmi_outline_free(&o);
#define ATTRIBUTES(value) ROWS("{\"path\": \"a\", \"attributes\": " value "}")
    taken(ATTRIBUTES("5"));
    taken(ATTRIBUTES("[1, [2]]"));
    taken(ATTRIBUTES("null"));
    taken(ATTRIBUTES("{\"\": [99999999999999999999], \"\": -99999999999999999999}"));
#undef ATTRIBUTES
}

static void sums_that_are_too_large(void **state) {
    (void)state;
    lmi_outline o;
    lam_error e = {0};
    static const char text[] =
        ROWS("{\"path\": \"a\", \"macs\": {\"value\": 9e18, \"state\": \"exact\"}}, {\"path\": "
             "\"b\", \"macs\": {\"value\": 9223372036854775807, \"state\": \"exact\"}}");
    put_file(text, sizeof text - 1);
    lam_status s = lmi_saved_outline(&o, FILE_NAME, &with, &e);
    assert_int_equal(
        s, LAM_FAILED); /* 9e18 is not written by lamina: it has no fraction, but no digits either */
    lmi_outline_free(&o);
    taken(ROWS(
        "{\"path\": \"a\", \"macs\": {\"value\": 9223372036854775807, \"state\": \"exact\"}}, {\"path\": "
        "\"b\", \"macs\": {\"value\": 9223372036854775807, \"state\": \"exact\"}}"));
}

/* Layers that were never called may share the row of the list that they are in. */
static void memory_of_no_row(void **state) {
    (void)state;
    static const char text[] =
        REPORT("\"rows\": [{\"path\": \"a\"}], \"memory\": {\"peak\": 9, \"places\": [{\"path\": \"a.0.b\", "
               "\"held\": {\"input\": 4}}, {\"path\": \"a.1\", \"held\": {\"input\": 3}}]}");
    lam_error e = {0};
    lmi_outline o;
    put_file(text, sizeof text - 1);
    assert_int_equal(lmi_saved_outline(&o, FILE_NAME, &with, &e), LAM_OK);
    assert_int_equal(o.n, 2); /* the model and `a` */
    assert_int_equal(o.held[1][LAM_HELD_INPUT], 7);
    lmi_outline_free(&o);
    refused(REPORT("\"rows\": [{\"path\": \"a\"}], \"memory\": {\"peak\": 9, \"places\": [{\"held\": "
                   "{\"input\": 4}}]}"),
            "has no path");
    refused(REPORT("\"rows\": [{\"path\": \"a\"}], \"memory\": {\"peak\": 9, \"peak_in\": \"a.b\"}"),
            "is the path of no row");
    refused(REPORT("\"rows\": [], \"memory\": {\"peak\": -9}, \"totals\": {\"macs\": {\"value\": -1, "
                   "\"state\": \"exact\"}}"),
            "is no whole number of at least 0");
    refused(BARE("\"memory\": {\"peak\": 9, \"peak_phase\": \"later\"}"), "a phase that is not");
    refused(
        BARE("\"health\": {\"sentence\": \"NaN\", \"findings\": [{\"text\": \"x\", \"phase\": \"later\"}]}"),
        "a phase that is not");
}

/* Bytes of a category that this version does not know are not lost: they are among the others. */
static void memory_of_an_unknown_category(void **state) {
    (void)state;
    static const char text[] = REPORT(
        "\"rows\": [{\"path\": \"a\"}], \"memory\": {\"peak\": 9, \"course\": [[0, 9]], \"course_held\": "
        "{\"later\": [5], \"input\": [3], \"other\": [1]}, \"held\": {\"later\": 5, \"input\": 3, "
        "\"other\": 1}, \"places\": [{\"path\": \"a\", \"held\": {\"input\": 4, \"later\": 7, \"other\": "
        "2}}]}");
    lam_error e = {0};
    lmi_outline o;
    put_file(text, sizeof text - 1);
    assert_int_equal(lmi_saved_outline(&o, FILE_NAME, &with, &e), LAM_OK);
    assert_int_equal(o.memory->held[LAM_HELD_INPUT], 3);
    assert_int_equal(o.memory->held[LAM_HELD_OTHER], 6);
    assert_int_equal(o.held[1][LAM_HELD_INPUT], 4);
    assert_int_equal(o.held[1][LAM_HELD_OTHER], 9);
    assert_non_null(o.part);
    assert_int_equal(o.part[0][LAM_HELD_OTHER], 6);
    lmi_outline_free(&o);
}

/* -- levels and formulas --------------------------------------------------------------------------------- */

#define MORE(levels, formulas)                                                                               \
    REPORT("\"rows\": [{\"path\": \"\"}, {\"path\": \"a\"}], \"levels\": [" levels                           \
           "], \"formulas\": [" formulas "]")
#define LEVEL(nodes, edges) "{\"paths\": [\"\"], \"nodes\": [" nodes "], \"edges\": [" edges "], \"more\": 0}"
#define IN_NODE             "{\"node\": \"input\", \"name\": \"x\"}"
#define OUT_NODE            "{\"node\": \"output\"}"
#define A_NODE(path, call, calls)                                                                            \
    "{\"node\": \"module\", \"name\": \"a\", \"type\": \"A\", \"path\": " path ", \"call\": " call           \
    ", \"calls\": " calls "}"
#define WORK(rest)                                                                                           \
    "{\"paths\": [\"a\"], \"work\": [{\"phase\": \"forward\", \"name\": \"f\", \"times\": 1" rest "}]}"

static void levels_that_are_none(void **state) {
    (void)state;
    static const char none[] = "is no level that lamina writes";
    taken(MORE("", ""));
    taken(MORE(LEVEL(IN_NODE ", " A_NODE("\"a\"", "0", "1") ", " OUT_NODE, "[0, 1], [0, 2], [1, 2]"), ""));
    taken(MORE(LEVEL(A_NODE("null", "1", "2"), ""), ""));
    taken(MORE(LEVEL("{\"node\": \"operators\", \"operators\": [\"f\"], \"shape\": [2, 3]}", ""), ""));
    refused(MORE(LEVEL("{\"node\": \"operators\", \"operators\": [5]}", ""), ""), "operators[0] is no text");
    taken(MORE(LEVEL("{\"node\": \"input\"}, {\"node\": \"more\"}", "[0, 1]"), ""));
    refused(MORE("5", ""), none);
    refused(MORE("{}", ""), none);
    refused(MORE(LEVEL("", ""), ""), none);
    refused(MORE(LEVEL("7", ""), ""), none);
    refused(MORE(LEVEL("{\"node\": \"thing\"}", ""), ""), none);
    refused(MORE(LEVEL("{\"node\": \"operators\"}", ""), ""), none);
    refused(MORE(LEVEL("{\"node\": \"operators\", \"operators\": []}", ""), ""), none);
    refused(MORE(LEVEL("{\"node\": \"operators\", \"operators\": [\"f\"], \"shape\": [-1]}", ""), ""),
            "is no whole number of at least 0");
    refused(MORE(LEVEL(A_NODE("\"a\"", "0", "0"), ""), ""), none);
    refused(MORE(LEVEL(A_NODE("\"a\"", "2", "2"), ""), ""), none);
    refused(MORE(LEVEL(A_NODE("\"b\"", "0", "1"), ""), ""), "is the path of no row");
    refused(MORE(LEVEL(IN_NODE ", " OUT_NODE, "[0, 2]"), ""), none);
    refused(MORE(LEVEL(IN_NODE ", " OUT_NODE, "[1, 0]"), ""), none);
    refused(MORE(LEVEL(IN_NODE ", " OUT_NODE, "[0, 0]"), ""), none);
    refused(MORE(LEVEL(IN_NODE ", " OUT_NODE, "[-1, 1]"), ""), none);
    refused(MORE(LEVEL(IN_NODE ", " OUT_NODE, "[0, 1], [0, 1]"), ""), none);
    refused(MORE(LEVEL(IN_NODE ", " OUT_NODE, "[0]"), ""), none);
}

static void formulas_that_are_none(void **state) {
    (void)state;
    static const char none[] = "is no formula that lamina writes";
    taken(MORE("", WORK(", \"counts\": []")));
    taken(MORE("", WORK(", \"counts\": [{\"metric\": \"macs\", \"formula\": \"a\", \"value\": null}]")));
    refused(MORE("", "5"), none);
    refused(MORE("", "{\"paths\": [], \"work\": [5]}"), none);
    refused(MORE("", WORK("")), none);
    refused(MORE("", WORK(", \"counts\": [{\"metric\": \"time\"}]")), none);
    refused(MORE("", WORK(", \"counts\": [{\"metric\": \"macs\", \"value\": -3}]")),
            "is no whole number of at least 0");
    refused(MORE("", "{\"paths\": [\"b\"], \"work\": []}"), "is the path of no row");
}

/* An older lamina told of no places at work and of no roof; one that is told is checked. */
static void what_ran_when(void **state) {
    (void)state;
#define AT_WORK(piece)                                                                                       \
    REPORT(                                                                                                  \
        "\"rows\": [{\"path\": \"a\"}], \"memory\": {\"peak\": 5, \"source\": \"s\"}, \"at_work\": [" piece  \
        "]")
    taken(AT_WORK("{\"path\": \"a\", \"phase\": \"backward\", \"span\": [3, 5]}"));
    refused(AT_WORK("{\"path\": \"a\", \"phase\": \"backward\", \"span\": [5, 3]}"), "ends before it begins");
    refused(AT_WORK("{\"path\": \"a\", \"phase\": \"later\", \"span\": [3, 5]}"), "a phase that is not");
    refused(AT_WORK("{\"path\": \"b\", \"phase\": \"forward\", \"span\": [3, 5]}"), "is the path of no row");
    refused(AT_WORK("{\"path\": \"a\", \"phase\": \"forward\", \"span\": [3]}"), "is no moment");
    taken(REPORT("\"rows\": [{\"path\": \"a\"}], \"roof\": {\"flops\": 1, \"bytes\": 2.5}"));
    refused(BARE("\"roof\": {\"flops\": 0, \"bytes\": 2.5}"), "is no number above 0");
    refused(BARE("\"roof\": {\"flops\": 1e999, \"bytes\": 2.5}"), "is no number above 0");
    refused(BARE("\"tree\": [{\"type\": \"A\"}]"), "tree[0] has no path");
}

/* A text of `n` times `piece` between two others. */
static char *repeated(const char *head, const char *piece, size_t n, const char *tail) {
    size_t a = strlen(head), b = strlen(piece), c = strlen(tail);
    char *text = malloc(a + n * b + c + 1);
    assert_non_null(text);
    memcpy(text, head, a);
    for (size_t i = 0; i < n; i++) memcpy(text + a + i * b, piece, b);
    memcpy(text + a + n * b, tail, c + 1);
    return text;
}

static void large_ones(void **state) {
    (void)state;
    char *text = repeated("{\"schema\": \"lamina.report/1\", \"rows\": [{\"path\": \"", "x.", 1999, "x\"}]}");
    taken(text);
    free(text);
    text = repeated("{\"schema\": \"lamina.report/1\", \"rows\": [{\"path\": \"", "x.", 100000, "x\"}]}");
    refused(text, "rows[0] has a path that is deeper than any model");
    free(text);
    text = repeated("{\"schema\": \"lamina.report/1\", \"rows\": [{\"path\": \"", "x", 1 << 20, "\"}]}");
    taken(text);
    free(text);
    text = repeated("{\"schema\": \"lamina.report/1\", \"rows\": ", "[", 5000, "");
    refused(text, "its lists and objects are more than 200 deep at byte 237");
    free(text);
    text = repeated("{\"schema\": \"lamina.report/1\", \"rows\": [{\"path\": \"a\"}", ", {\"path\": \"a\"}",
                    5000, "]}");
    taken(text); /* one place of many calls */
    free(text);
}

/* Every piece of a report left out or replaced, one after the other: it is read, or refused with a sentence.
 */
static void changed_bytes(void **state) {
    (void)state;
    static const char by[] = "\"0-9[]{}x,:";
    outlined x = outline_of(full_step(), "exact");
    save(x.c);
    char *text = malloc(shown_n + 1);
    assert_non_null(text);
    memcpy(text, shown, shown_n + 1);
    for (size_t i = 0, k = 0; i < shown_n; i += 1 + shown_n / (size_t)rounds(400), k++) {
        lam_error e = {0};
        char was = text[i];
        text[i] = by[k % (sizeof by - 1)];
        lam_status s = try_text(text, &e);
        if (s != LAM_OK && (s != LAM_FAILED || !*e.text)) fail_msg("byte %zu: %d %s", i, (int)s, e.text);
        text[i] = was;
    }
    free(text);
    outline_leave(&x);
}

/* The next value that is a number, a text or a word, from `at` on: its length; NULL past the last one. */
static const char *next_value(const char *at, size_t *n) {
    while (*at) {
        if (*at == '"') {
            const char *end = at + 1;
            while (*end != '"') end += *end == '\\' ? 2 : 1;
            *n = (size_t)(end + 1 - at);
            if (at[*n] != ':') return at;
            at = end + 1;
        } else if (strchr("-0123456789tfn", *at)) {
            *n = strcspn(at, ",]}\n");
            return at;
        } else {
            at++;
        }
    }
    return NULL;
}

/* A value in twenty of a report is replaced by another: what is said of it, or how many places and levels
 * there are, as it was before. */
static void changed_values(void **state) {
    (void)state;
    static const char *const by[] = {"-1", "7", "\"x\"", "null"};
    static char text[1 << 17], told[1 << 19];
    size_t n, n_told = 0;
    int nth = 0;
    outlined x = outline_of(full_step(), "exact");
    save(x.c);
    const size_t all = shown_n;
    char *report = repeated(shown, "", 0, "");
    for (const char *at = report; (at = next_value(at, &n)) != NULL; at += n) {
        if (nth++ % 20) continue;
        for (size_t k = 0; k < sizeof by / sizeof *by; k++) {
            lmi_outline o;
            lam_error e = {0};
            const size_t before = (size_t)(at - report);
            assert_true(all + 8 < sizeof text);
            snprintf(text, sizeof text, "%.*s%s%s", (int)before, report, by[k], at + n);
            put_file(text, strlen(text));
            lam_status s = lmi_saved_outline(&o, FILE_NAME, &with, &e);
            n_told += (size_t)snprintf(told + n_told, sizeof told - n_told, "%d %.*s by %s: ", nth - 1,
                                       (int)(n < 30 ? n : 30), at, by[k]);
            if (s == LAM_OK)
                n_told += (size_t)snprintf(told + n_told, sizeof told - n_told, "%d %d %d\n", (int)o.n,
                                           (int)o.n_levels, (int)o.n_formulas);
            else
                n_told += (size_t)snprintf(told + n_told, sizeof told - n_told, "%s\n", e.text);
            lmi_outline_free(&o);
        }
    }
    free(report);
    outline_leave(&x);
    (void)show_sink();
    assert_int_equal(show_put(NULL, told, n_told), LAM_OK);
    show_golden("saved-changed", true);
}

static void read_it(void *arg, bool *ok) {
    lmi_outline o;
    lam_error e = {0};
    *ok = oom_check(lmi_saved_outline(&o, arg, &with, &e), &e);
    lmi_outline_free(&o);
}

static void without_memory(void **state) {
    (void)state;
    outlined x = outline_of(full_step(), "exact");
    char file[sizeof FILE_NAME];
    memcpy(file, FILE_NAME, sizeof file);
    save(x.c);
    oom_sweep(read_it, file);
    outline_leave(&x);
    char *text =
        repeated("{\"schema\": \"lamina.report/1\", \"rows\": [{\"path\": \"a\", \"attributes\": {\"k\": 1",
                 ", \"k\": 1", 4000, "}}]}"); /* as many as need memory of their own */
    put_file(text, strlen(text));
    free(text);
    oom_sweep(read_it, file);
    x = outline_of(net_two_parents(false), "layers"); /* its layers have attributes */
    save(x.c);
    oom_sweep(read_it, file);
    outline_leave(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_report),
        cmocka_unit_test(rows_that_are_none),
        cmocka_unit_test(numbers_that_are_none),
        cmocka_unit_test(what_rows_lack),
        cmocka_unit_test(numbers_of_more_than_64_bits),
        cmocka_unit_test(attributes),
        cmocka_unit_test(sums_that_are_too_large),
        cmocka_unit_test(memory_of_no_row),
        cmocka_unit_test(memory_of_an_unknown_category),
        cmocka_unit_test(levels_that_are_none),
        cmocka_unit_test(formulas_that_are_none),
        cmocka_unit_test(what_ran_when),
        cmocka_unit_test(large_ones),
        cmocka_unit_test(changed_bytes),
        cmocka_unit_test(changed_values),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, remove_file);
}
