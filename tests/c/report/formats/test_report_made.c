/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports of made-up networks under several conventions against transcripts: what counts where, and how it is
 * told. Of formats for programs: what must hold of any net. */
#include "kit/oom.h"

#include "base/json.h"
#include "kit/made_net.h"
#include "kit/show.h"

enum { NETS = 3, TEXTS = 20 };

static const char *const conventions[] = {"exact", "layers", "fvcore", "torchscan", "thoplw"};

static lam_report_options everything_as(const char *format, const lam_model *m, const char *convention) {
    lam_report_options o = show_options(NULL, format);
    o.width = 300;
    o.receptive_field = o.page = true;
    o.bytes = strcmp(convention, "exact") == 0;
    o.time = lam_model_timed(m);
    o.memory = lam_model_memory_seen(m);
    if (o.bytes) o.peak = (lam_peak){1e12, 1e10};
    return o;
}

static void write_as(const lam_costs *c, const lam_report_options *o) {
    lam_error e = {0};
    const lam_sink to = {show_put, NULL}; /* after what is there */
    if (lam_report_write(c, o, to, &e) != LAM_OK) fail_msg("%s: %s", e.where, e.text);
}

/* The whole data of each, with the graph and the formulas. */
static void as_data(void **state) {
    (void)state;
    seed = 3;
    (void)show_sink();
    for (int i = 0; i < NETS; i++) {
        lam_model *m = made_step();
        lam_costs *c = net_costs(m, conventions[i % 2], false);
        lam_report_options o = everything_as("json", m, conventions[i % 2]);
        write_as(c, &o);
        lam_costs_free(c);
        lam_model_free(m);
    }
    show_golden("made-json", true);
}

static void as_text(void **state) {
    (void)state;
    seed = 3;
    (void)show_sink();
    for (int i = 0; i < TEXTS; i++) {
        lam_model *m = made_step();
        lam_costs *c = net_costs(m, conventions[i % 5], i % 2);
        lam_report_options o = everything_as(i % 3 == 2 ? "md" : "text", m, conventions[i % 5]);
        o.why = i % 4 == 0;
        o.expand = o.exact = i % 2;
        o.max_depth = i % 5 == 4 ? 1 : -1;
        if (i % 6 == 3) o.sort = "params";
        if (i % 6 == 1) o.rows = 5;
        if (i % 7 == 2) o.width = 80;
        write_as(c, &o);
        lam_costs_free(c);
        lam_model_free(m);
    }
    show_golden("made-text", true);
}

/* -- why, and otherwise ------------------------------------------------------------------------ */

static void show_line(const char *text) { (void)show_put(NULL, text, strlen(text)); }

static void tell_whys(const lam_costs *c, int32_t row) {
    lam_why w;
    char value[48], line[2048];
    const char *name;
    int64_t n;
    for (int32_t i = 0; lam_costs_why(c, row, i, &w, NULL) == LAM_OK; i++) {
        lam_text_count(value, sizeof value, w.value, true);
        snprintf(line, sizeof line, "  %d %d of %d (%d equal): %s = %s; %s; %s; %s;", (int)w.metric,
                 (int)w.phase, (int)w.op, (int)w.n_equal, value, w.substituted, w.formula ? w.formula : "-",
                 w.note ? w.note : "-", w.words ? w.words : "-");
        show_line(line);
        for (int32_t k = 0; k < w.n_facts; k++) {
            snprintf(line, sizeof line, " %s %lld", w.facts[k].name, (long long)w.facts[k].value);
            show_line(line);
        }
        show_line("\n");
    }
    for (int32_t i = 0; lam_costs_fact(c, row, i, &name, &n); i++) {
        snprintf(line, sizeof line, "  %s %lld\n", name, (long long)n);
        show_line(line);
    }
}

static void with_formulas(void **state) {
    (void)state;
    seed = 90;
    (void)show_sink();
    for (int i = 0; i < 4; i++) {
        lam_model *m = made_step();
        lam_costs *c = net_costs(m, conventions[i], false);
        for (int32_t r = 0; r < lam_costs_n_rows(c); r++) {
            show_line(lam_model_place(m, lam_costs_row(c, r)->place)->path);
            show_line(":\n");
            tell_whys(c, r);
        }
        lam_costs_free(c);
        lam_model_free(m);
    }
    show_golden("made-whys", true);
}

static void side_by_side(void **state) {
    (void)state;
    static const char *const all[] = {"all"}, *const formats[] = {"text", "json", "md", "csv"};
    seed = 17;
    (void)show_sink();
    for (int i = 0; i < 16; i++) {
        lam_comparison *c = NULL;
        lam_error e = {0};
        lam_model *m = made_step();
        const lam_compare_options o = {.conventions = all,
                                       .n = i % 2,
                                       .metric = i % 4 < 2 ? LAM_MACS : LAM_FLOPS,
                                       .phase = i % 8 < 6 ? LAM_FORWARD : LAM_BACKWARD};
        if (lam_compare_new(&c, m, &o, &e) != LAM_OK) fail_msg("%s", e.text);
        if (lam_compare_write(c, formats[i / 4], 90, i % 3 == 0, (lam_sink){show_put, NULL}, &e) != LAM_OK)
            fail_msg("%s", e.text);
        lam_compare_free(c);
        lam_model_free(m);
    }
    show_golden("made-compared", true);
}

/* -- whatever the net -------------------------------------------------------------------------- */

enum { RANDOM_NETS = 40, CELLS = 160 };

/* Splits a line of CSV in place; gives how many cells it has. */
static int32_t split(char *line, char *cell[CELLS]) {
    int32_t n = 0;
    for (char *s = line; s; n++) {
        assert_true(n < CELLS);
        char *to = cell[n] = s;
        const bool quoted = *s == '"';
        for (s += quoted; *s && (quoted || *s != ','); s++) {
            if (quoted && *s == '"' && *++s != '"') break;
            *to++ = *s;
        }
        s = *s == ',' ? s + 1 : NULL;
        *to = '\0';
    }
    return n;
}

static int32_t column(char *const *title, int32_t n, const char *name) {
    for (int32_t i = 0; i < n; i++)
        if (strcmp(title[i], name) == 0) return i;
    fail_msg("there is no column %s", name);
    return -1;
}

/* A number and its state are in the two cells from `name` on. */
static void cells_are(char *const *title, int32_t n, char *const *cell, const char *name, lam_count want) {
    char text[48] = "";
    const int32_t at = column(title, n, name);
    if (want.state != LAM_UNKNOWN) snprintf(text, sizeof text, "%lld", (long long)want.n);
    if (want.over != 0 || strcmp(cell[at], text) != 0 ||
        strcmp(cell[at + 1], lam_state_name(want.state)) != 0)
        fail_msg("%s is %s %s, not %s %s", name, cell[at], cell[at + 1], text, lam_state_name(want.state));
}

/* Each line of the CSV has a cell a column, and the numbers of its row. */
static void csv_has_the_rows(const lam_costs *c) {
    char *title[CELLS], *cell[CELLS], *next, *line = strtok_r(shown, "\n", &next);
    const int32_t n = split(line, title);
    for (int32_t i = 0; i < lam_costs_n_rows(c); i++) {
        const lam_cost_row *row = lam_costs_row(c, i);
        line = strtok_r(NULL, "\n", &next);
        assert_non_null(line);
        assert_int_equal(split(line, cell), n);
        assert_string_equal(cell[column(title, n, "path")],
                            lam_model_place(lam_costs_model(c), row->place)->path);
        cells_are(title, n, cell, "params", row->params);
        cells_are(title, n, cell, "macs", row->metric[LAM_MACS]);
        cells_are(title, n, cell, "flops", row->metric[LAM_FLOPS]);
        cells_are(title, n, cell, "bytes_read", row->metric[LAM_BYTES_READ]);
        cells_are(title, n, cell, "subtotal_macs", row->below->total[LAM_MACS]);
        cells_are(title, n, cell, "subtotal_params", row->below->params);
        cells_are(title, n, cell, "backward_macs", row->phases->backward[LAM_MACS]);
        cells_are(title, n, cell, "subtotal_backward_flops", row->phases->total_backward[LAM_FLOPS]);
        cells_are(title, n, cell, "recompute_macs", row->phases->recompute[LAM_MACS]);
    }
    line = strtok_r(NULL, "\n", &next);
    assert_non_null(line);
    assert_int_equal(split(line, cell), n);
    assert_string_equal(cell[column(title, n, "status")], "total");
    cells_are(title, n, cell, "macs", lam_costs_total(c, LAM_MACS));
    assert_null(strtok_r(NULL, "\n", &next));
}

static lmi_json read_shown(void) {
    static const lmi_json_limits limits = {.depth = 64, .size = sizeof shown};
    lmi_json j;
    lam_error e = {0};
    if (lmi_json_read(&j, shown, shown_n, &limits, "shown", &e) != LAM_OK) fail_msg("%s", e.text);
    return j;
}

static int64_t nanoseconds(const lmi_json *j, uint32_t at) {
    double us = 0;
    assert_true(lmi_json_as_real(j, at, &us));
    return (int64_t)(us * 1000 + 0.5);
}

/* Of a trace's slices each lies inside the one around it, and each call of a module is one. */
static void trace_nests(const lam_costs *c) {
    lmi_json j = read_shown();
    int64_t end[256], start = 0;
    int32_t depth = 0, calls = 0;
    LMI_JSON_EACH(&j, lmi_json_get(&j, LMI_JSON_ROOT, "traceEvents"), at) {
        int64_t thread = 0;
        if (!lmi_json_equals(&j, lmi_json_get(&j, at, "ph"), "X")) continue;
        assert_true(lmi_json_as_int(&j, lmi_json_get(&j, at, "tid"), &thread));
        assert_int_equal(thread, 0);
        const int64_t t0 = nanoseconds(&j, lmi_json_get(&j, at, "ts"));
        const int64_t t1 = t0 + nanoseconds(&j, lmi_json_get(&j, at, "dur"));
        assert_true(t0 >= start && depth < 256);
        start = t0;
        while (depth > 0 && end[depth - 1] <= t0) depth--;
        if (depth > 0) assert_true(t1 <= end[depth - 1]);
        end[depth++] = t1;
        calls += strncmp(lmi_json_as_text(&j, lmi_json_get(&j, at, "cat")), "layer,", 6) == 0;
    }
    assert_int_equal(calls, lam_model_n_events(lam_costs_model(c)));
    lmi_json_free(&j);
}

/* Of a profile's frames the one that opened last closes first, and time does not go back. */
static void speedscope_nests(const lam_costs *c) {
    (void)c;
    lmi_json j = read_shown();
    const int64_t frames = lmi_json_size(&j, lmi_json_find(&j, LMI_JSON_ROOT, "shared.frames"));
    LMI_JSON_EACH(&j, lmi_json_get(&j, LMI_JSON_ROOT, "profiles"), profile) {
        int64_t open[256], now = 0;
        int32_t depth = 0;
        LMI_JSON_EACH(&j, lmi_json_get(&j, profile, "events"), at) {
            int64_t t = -1, frame = -1;
            assert_true(lmi_json_as_int(&j, lmi_json_get(&j, at, "at"), &t));
            assert_true(lmi_json_as_int(&j, lmi_json_get(&j, at, "frame"), &frame));
            assert_true(t >= now && frame >= 0 && frame < frames && depth < 256);
            now = t;
            if (lmi_json_equals(&j, lmi_json_get(&j, at, "type"), "O"))
                open[depth++] = frame;
            else
                assert_true(depth > 0 && open[--depth] == frame);
        }
        assert_int_equal(depth, 0);
    }
    lmi_json_free(&j);
}

/* Each line of a graph begins and ends at nodes that were declared before it. */
static void arrows_have_nodes(const lam_model *m, bool by_layer) {
    char *next, from[32], to[32], declared[64];
    static char nodes[1 << 16];
    lam_graph *g = NULL;
    int32_t arrows = 0;
    nodes[0] = '\0';
    assert_int_equal(lam_graph_new(&g, m, NULL), LAM_OK);
    assert_int_equal(lam_graph_dot(g, by_layer, show_sink(), NULL), LAM_OK);
    lam_graph_free(g);
    assert_int_equal(strncmp(shown, "digraph \"", 9), 0);
    assert_string_equal(shown + shown_n - 3, "\n}\n");
    for (char *line = strtok_r(shown, "\n", &next); line; line = strtok_r(NULL, "\n", &next)) {
        if (sscanf(line, "  %31s -> %31s ", from, to) == 2) {
            const char *const ends[] = {from, to};
            for (int k = 0; k < 2; k++) {
                to[strcspn(to, ";")] = '\0';
                snprintf(declared, sizeof declared, " %s ", ends[k]);
                if (!strstr(nodes, declared)) fail_msg("no node %s", ends[k]);
            }
            arrows++;
        } else if (sscanf(line, "  %31s [label=", from) == 1) {
            assert_true(strlen(nodes) + strlen(from) + 4 < sizeof nodes);
            strcat(strcat(strcat(nodes, " "), from), " ");
        }
    }
    assert_true(arrows > 0);
}

static void whatever_the_net(void **state) {
    (void)state;
    seed = 29;
    for (int i = 0; i < rounds(RANDOM_NETS); i++) {
        lam_model *m = made_step();
        lam_costs *c = net_costs(m, "exact", false);
        lam_report_options o = everything_as("csv", m, "exact");
        (void)show(c, &o);
        csv_has_the_rows(c);
        if (lam_model_timed(m)) {
            o.format = "trace";
            (void)show(c, &o);
            trace_nests(c);
            o.format = "speedscope";
            (void)show(c, &o);
            speedscope_nests(c);
        }
        arrows_have_nodes(m, i % 2);
        lam_costs_free(c);
        lam_model_free(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_data),      cmocka_unit_test(as_text),          cmocka_unit_test(with_formulas),
        cmocka_unit_test(side_by_side), cmocka_unit_test(whatever_the_net),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
