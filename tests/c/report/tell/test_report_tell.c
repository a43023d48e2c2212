/* SPDX-License-Identifier: Apache-2.0
 *
 * Results as fields: what a receiver is given of a step of which everything was seen, that it may stop at any
 * field, and what there is nothing to tell of. */
#include "kit/oom.h"

#include "kit/full_net.h"
#include "kit/shown.h"

#include "lamina_fields.h"

#include <stdio.h>

enum { ROOM = 1 << 20, DEEPEST = 12 };

/* Writes what it is given: objects in {}, records in (), lists in []. */
typedef struct heard {
    char text[ROOM];
    size_t n;
    lam_field_type open[DEEPEST];
    int depth, left; /* left: so many fields are taken; -1: all */
} heard;
static heard h;

static void put(const char *s) {
    size_t n = strlen(s);
    assert_true(h.n + n < ROOM);
    memcpy(h.text + h.n, s, n + 1);
    h.n += n;
}

static void put_value(const lam_field *f) {
    char s[512] = "none";
    if (f->type == LAM_FIELD_TRUTH) snprintf(s, sizeof s, "%s", f->truth ? "true" : "false");
    if (f->type == LAM_FIELD_INTEGER) snprintf(s, sizeof s, "%lld", (long long)f->integer);
    if (f->type == LAM_FIELD_REAL) snprintf(s, sizeof s, "%g", f->real);
    if (f->type == LAM_FIELD_TEXT) snprintf(s, sizeof s, "'%.500s'", f->text);
    if (f->type == LAM_FIELD_COUNT)
        snprintf(s, sizeof s, "%lld %s", (long long)f->count.n, lam_state_name(f->count.state));
    if (f->type == LAM_FIELD_SIZES) snprintf(s, sizeof s, "%d axes", (int)f->shape.ndim);
    put(s);
}

static bool hear(void *self, const lam_field *f) {
    assert_ptr_equal(self, &h);
    assert_int_not_equal(h.left, 0);
    if (f->type == LAM_FIELD_END) {
        assert_true(h.depth > 0);
        lam_field_type was = h.open[--h.depth];
        put(was == LAM_FIELD_OBJECT ? "} " : was == LAM_FIELD_LIST ? "] " : ") ");
    } else {
        lam_field_type in = h.depth ? h.open[h.depth - 1] : LAM_FIELD_LIST;
        if (in == LAM_FIELD_OBJECT) assert_non_null(f->name);
        if (in == LAM_FIELD_LIST) assert_null(f->name);
        if (f->name) put(f->name);
        if (f->name) put("=");
        if (f->type < LAM_FIELD_OBJECT) {
            put_value(f);
            put(" ");
        } else {
            assert_true(h.depth < DEEPEST);
            h.open[h.depth++] = f->type;
            put(f->type == LAM_FIELD_OBJECT ? "{" : f->type == LAM_FIELD_LIST ? "[" : "(");
        }
    }
    return h.left < 0 || --h.left > 0;
}

static lam_receiver hears(int left) {
    h.n = 0;
    h.text[0] = '\0';
    h.depth = 0;
    h.left = left;
    return (lam_receiver){hear, &h};
}

static void has(const char *part) {
    if (!strstr(h.text, part)) print_error("'%s' is not in:\n%.3000s\n", part, h.text);
    assert_non_null(strstr(h.text, part));
}

static void test_memory(void **state) {
    (void)state;
    lam_error e = {0};
    lam_memory *y;
    lam_model *m = full_step();
    assert_int_equal(lam_memory_new(&y, m, &e), LAM_OK);
    lam_memory_tell(y, hears(-1));
    assert_int_equal(h.depth, 0);
    has("{source=");
    has("old_gradients=");
    has("rss={open=");
    has("places=[{path='' type=");
    has("own={forward=(allocated=");
    has("held_below={other=");
    has(" held={other=0 parameters=60 buffers=0 gradients=0 optimizer=0 input=65536 activations=6144 "
        "backward=0 ");
    lam_memory_tell(y, hears(3));
    assert_int_equal(h.left, 0);
    lam_memory_free(y);
    assert_int_equal(lam_device_memory_new(&y, m, &e), LAM_OK);
    lam_memory_tell(y, hears(-1));
    has("peak_phase='");
    has("places=[{path='' type=");
    assert_null(strstr(h.text, "rss="));
    assert_null(strstr(h.text, "held"));
    lam_memory_free(y);
    lam_model_free(m);
}

static void test_costs(void **state) {
    (void)state;
    static const char *const parts[] = {
        [LAM_COSTS_ROWS] = "total_backward_macs=",
        [LAM_COSTS_TOTALS] = "{macs=",
        [LAM_COSTS_PARAMS] = "in_rows=",
        [LAM_COSTS_UNRULED] = "[] ",
        [LAM_COSTS_UNRULED_OPS] = "[",
        [LAM_COSTS_GAPS] = "[",
        [LAM_COSTS_GROWTH] = "[] ",
        [LAM_COSTS_TIMES] = "device={runs=",
        [LAM_COSTS_WHY] = "[{metric='macs' phase='forward' formula=",
        [LAM_COSTS_FACTS] = "{",
        [LAM_COSTS_OPERATOR] = "{counted=",
    };
    lam_error e = {0};
    lam_model *m = full_step();
    lam_costs *c = net_costs(m, "exact", false);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        assert_int_equal(lam_costs_tell(c, (lam_costs_part)i, 0, hears(-1), &e), LAM_OK);
        assert_int_equal(h.depth, 0);
        has(parts[i]);
    }
    assert_int_equal(lam_costs_tell(c, LAM_COSTS_ROWS, 0, hears(-1), &e), LAM_OK);
    static const char *const sums[] = {"",           "total_",          "backward_", "total_backward_",
                                       "recompute_", "total_recompute_"};
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) { /* with every metric */
        for (int k = 0; k < LAM_N_METRICS + 2; k++) {
            const char *metric = k < LAM_N_METRICS    ? lam_metric_name((lam_metric)k)
                                 : k == LAM_N_METRICS ? "bytes"
                                                      : "intensity";
            char name[64];
            snprintf(name, sizeof name, " %s%s=", sums[i], metric);
            has(name);
        }
    }
    assert_int_equal(lam_costs_tell(c, LAM_COSTS_TIMES, 0, hears(-1), &e), LAM_OK);
    has("layers=[{path='' call=0 forward=(n=1 median=400 ");
    has(" backward=(n=1 median=100 deviation=0 least=100 most=100 most_run=0 ) backward_self=(n=1 median=0 ");
    static const lam_costs_part of_one[] = {LAM_COSTS_TOTALS, LAM_COSTS_WHY, LAM_COSTS_FACTS,
                                            LAM_COSTS_OPERATOR};
    for (size_t i = 0; i < sizeof of_one / sizeof *of_one; i++) {
        assert_int_equal(lam_costs_tell(c, of_one[i], -1, hears(0), &e), LAM_RANGE);
        assert_int_equal(lam_costs_tell(c, of_one[i], 1 << 20, hears(0), &e), LAM_RANGE);
        assert_non_null(strstr(e.text, "there is no"));
    }
    lam_speeds_tell(c, (lam_peak){1e9, 1e9}, false, hears(-1));
    has("[(path='");
    has("bound='");
    lam_costs_free(c);
    c = net_costs(m, "layers", false); /* what a convention does not count is told as not known */
    assert_int_equal(lam_costs_tell(c, LAM_COSTS_TOTALS, 0, hears(-1), &e), LAM_OK);
    has(" bytes_read=0 unknown bytes_written=0 unknown ");
    lam_costs_free(c);
    lam_model_free(m);
}

static void test_model(void **state) {
    (void)state;
    static const char *const parts[] = {
        [LAM_MODEL_CALLS] = "output_sources=(",
        [LAM_MODEL_MODULES] = "owned=(",
        [LAM_MODEL_PLACES] = "[{name='' path='' parent=-1 ",
        [LAM_MODEL_TENSORS] = "[",
        [LAM_MODEL_OPERATORS] = "sources=((operator=",
        [LAM_MODEL_LIFETIMES] = "[] ",
        [LAM_MODEL_NOTES] = "[",
    };
    lam_error e = {0};
    lam_graph *g;
    lam_health *health;
    lam_model *m = full_step();
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        lam_model_tell(m, (lam_model_part)i, hears(-1));
        assert_int_equal(h.depth, 0);
        has(parts[i]);
    }
    lam_op_args_tell(lam_model_op(m, 0)->sig->in, lam_model_op(m, 0)->sig->n_in, hears(-1));
    has("((position=");
    assert_int_equal(lam_graph_new(&g, m, &e), LAM_OK);
    lam_graph_tell(g, LAM_GRAPH_DATA, hears(-1));
    has("{nodes=[{id=0 type='");
    has("edges=[");
    lam_graph_tell(g, LAM_GRAPH_FINDINGS, hears(-1));
    has("{unused=[");
    has("no_gradient=[");
    lam_graph_free(g);
    assert_int_equal(lam_health_new(&health, m, &e), LAM_OK);
    lam_health_tell(health, hears(-1));
    has("findings=[");
    has("calls=[{path=''");
    lam_health_free(health);
    lam_model_free(m);
}

static void test_nothing_measured(void **state) {
    (void)state;
    lam_error e = {0};
    net n = net_new();
    net_place(&n, -1, "", net_module(&n, "Tanh", LAM_MODULE_LEAF));
    net_module(&n, "Mine", LAM_MODULE_OPAQUE); /* no class of torch's own */
    lam_model *m = net_done(&n);
    lam_model_tell(m, LAM_MODEL_MODULES, hears(-1));
    has("exact=true own_forward=false training=false opaque=false leaf=true ");
    has("exact=false own_forward=false training=false opaque=true leaf=false ");
    lam_costs *c = net_costs(m, NULL, false);
    assert_int_equal(lam_costs_tell(c, LAM_COSTS_TIMES, 0, hears(-1), &e), LAM_OK);
    assert_string_equal(h.text, "none ");
    assert_int_equal(lam_costs_tell(c, LAM_COSTS_ROWS, 0, hears(-1), &e), LAM_OK);
    has("in_shapes=() ");
    has("rf_axes=none ");
    has("time=none ");
    lam_costs_free(c);
    lam_model_free(m);
}

static void test_tables(void **state) {
    (void)state;
    lam_rules *rules;
    lam_error e = {0};
    lam_tables_tell(LAM_TABLES_CONVENTIONS, 0, hears(-1));
    has("{name='exact' ");
    lam_tables_tell(LAM_TABLES_RULES, lam_convention_find("layers"), hears(-1));
    has("{kind='conv' formula={macs=");
    lam_tables_tell(LAM_TABLES_FACTS, 0, hears(-1));
    has("out='");
    assert_int_equal(lam_rules_new(&rules, &e), LAM_OK);
    assert_int_equal(lam_rules_read(rules, "mine::op  macs = out", "here", &e), LAM_OK);
    lam_rules_tell(rules, hears(-1));
    has("[(kind='mine::op' formula={macs='out' dmas='");
    assert_null(strstr(h.text, "flops")); /* nothing is said of what it has no formula for */
    lam_rules_free(rules);
}

/* -- all of it ------------------------------------------------------------------------------------------- */

/* Adds what was told to what is shown, one object or record a line. */
static void add(const char *what) {
    assert_int_equal(h.depth, 0);
    assert_int_equal(show_put(NULL, "\n== ", 4), LAM_OK);
    assert_int_equal(show_put(NULL, what, strlen(what)), LAM_OK);
    assert_int_equal(show_put(NULL, "\n", 1), LAM_OK);
    for (const char *s = h.text; *s; s++) {
        const bool ends = s > h.text && *s == ' ' && (s[-1] == '}' || s[-1] == ']' || s[-1] == ')');
        assert_int_equal(show_put(NULL, ends ? "\n" : s, 1), LAM_OK);
    }
}

static void add_costs(lam_costs *c) {
    static const char *const names[] = {"rows",   "totals", "params", "unruled", "unruled operators", "gaps",
                                        "growth", "times",  "why",    "facts",   "operator"};
    for (int part = LAM_COSTS_ROWS; part <= LAM_COSTS_OPERATOR; part++)
        for (int32_t i = 0; i < 3; i++) {
            lam_error e = {0};
            const bool one = part != LAM_COSTS_TOTALS && part < LAM_COSTS_WHY;
            if ((one && i) || lam_costs_tell(c, (lam_costs_part)part, i, hears(-1), &e) != LAM_OK) continue;
            add(names[part]);
        }
    for (int inside = 0; inside < 2; inside++) {
        lam_speeds_tell(c, (lam_peak){1e9, 3e9}, inside, hears(-1));
        add(inside ? "speeds inside" : "speeds");
    }
}

static void add_model(lam_model *m) {
    static const char *const names[] = {"calls",     "modules",   "places", "tensors",
                                        "operators", "lifetimes", "notes",  "provenance"};
    lam_graph *g;
    for (int part = LAM_MODEL_CALLS; part <= LAM_MODEL_PROVENANCE; part++) {
        lam_model_tell(m, (lam_model_part)part, hears(-1));
        add(names[part]);
    }
    assert_int_equal(lam_graph_new(&g, m, NULL), LAM_OK);
    lam_graph_tell(g, LAM_GRAPH_DATA, hears(-1));
    add("graph");
    lam_graph_tell(g, LAM_GRAPH_FINDINGS, hears(-1));
    add("findings of the graph");
    lam_graph_free(g);
}

static void add_measured(lam_model *m) {
    lam_memory *y;
    lam_health *health;
    assert_int_equal(lam_memory_new(&y, m, NULL), LAM_OK);
    lam_memory_tell(y, hears(-1));
    add("memory");
    lam_memory_free(y);
    assert_int_equal(lam_device_memory_new(&y, m, NULL), LAM_OK);
    lam_memory_tell(y, hears(-1));
    add("memory of the device");
    lam_memory_free(y);
    assert_int_equal(lam_health_new(&health, m, NULL), LAM_OK);
    lam_health_tell(health, hears(-1));
    add("health");
    lam_health_free(health);
}

static void test_everything_of_models(void **state) {
    (void)state;
    static const char *const names[] = {"tell-full", "tell-step", "tell-residual"};
    static const char *const conventions[] = {"exact", "layers"};
    lam_model *all[] = {full_step(), net_step(), net_residual()};
    for (int i = 0; i < 3; i++) {
        show_sink();
        add_model(all[i]);
        if (i == 0) add_measured(all[i]);
        for (int k = 0; k < 2; k++) {
            lam_costs *c = net_costs(all[i], conventions[k], false);
            add_costs(c);
            lam_costs_free(c);
        }
        show_golden(names[i], true);
        lam_model_free(all[i]);
    }
}

/* Every receiver may stop at every field: nothing more is given to it. */
static void test_stops_everywhere(void **state) {
    (void)state;
    lam_model *m = full_step();
    lam_costs *c = net_costs(m, "exact", false);
    lam_memory *y;
    assert_int_equal(lam_memory_new(&y, m, NULL), LAM_OK);
    for (int left = 1; left < 400; left += 7) {
        lam_memory_tell(y, hears(left));
        for (int part = LAM_MODEL_CALLS; part <= LAM_MODEL_OPERATORS; part++)
            lam_model_tell(m, (lam_model_part)part, hears(left));
        assert_int_equal(lam_costs_tell(c, LAM_COSTS_ROWS, 0, hears(left), NULL), LAM_OK);
        lam_speeds_tell(c, (lam_peak){1e9, 1e9}, false, hears(left));
    }
    lam_memory_free(y);
    lam_costs_free(c);
    lam_model_free(m);
}

static void test_everything_of_a_check(void **state) {
    (void)state;
    static const char *const limits[] = {"macs=100", "params=1M", "bytes=1kB", "time=1s", "peak=1B"};
    lam_model *m = full_step();
    lam_costs *c = net_costs(m, "exact", false);
    lam_budget *b;
    lam_check *k;
    lam_error e = {0};
    assert_int_equal(lam_budget_new(&b, &e), LAM_OK);
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (lam_budget_max(b, limits[i], &e) != LAM_OK) fail_msg("%s", e.text);
    show_sink();
    if (lam_check_new(&k, "net.py:Net", c, b, &e) != LAM_OK) fail_msg("%s", e.text);
    lam_check_tell(k, hears(-1));
    add("a check");
    lam_check_free(k);
    e = (lam_error){.status = LAM_FAILED, .where = "net.py", .text = "it raised"};
    assert_int_equal(lam_check_failed(&k, "net.py:Net", &e, NULL), LAM_OK);
    lam_check_tell(k, hears(-1));
    add("a failure");
    lam_check_free(k);
    show_golden("tell-check", true);
    lam_budget_free(b);
    lam_costs_free(c);
    lam_model_free(m);
}

/* As many as there are, and each as the function that has it tells it. */
static void test_all_of_tables(void **state) {
    (void)state;
    static char wanted[ROOM];
    size_t n = (size_t)snprintf(wanted, ROOM, "[");
    for (int32_t i = 0; i < lam_n_conventions(); i++)
        n += (size_t)snprintf(wanted + n, ROOM - n,
                              "{name='%s' source='%.500s' default=%s counts_ops=%s unfused=%s } ",
                              lam_convention_name(i), lam_convention_source(i),
                              strcmp(lam_convention_name(i), "exact") == 0 ? "true" : "false",
                              lam_convention_counts_ops(i) ? "true" : "false",
                              lam_convention_unfused(i) ? "true" : "false");
    snprintf(wanted + n, ROOM - n, "] ");
    lam_tables_tell(LAM_TABLES_CONVENTIONS, 0, hears(-1));
    assert_string_equal(h.text, wanted);
    n = (size_t)snprintf(wanted, ROOM, "{");
    for (int32_t i = 0; lam_fact_name(i); i++)
        n += (size_t)snprintf(wanted + n, ROOM - n, "%s='%.500s' ", lam_fact_name(i), lam_fact_meaning(i));
    snprintf(wanted + n, ROOM - n, "} ");
    lam_tables_tell(LAM_TABLES_FACTS, 0, hears(-1));
    assert_string_equal(h.text, wanted);
    for (int32_t c = 0; c < lam_n_conventions(); c++) {
        lam_rule r;
        n = (size_t)snprintf(wanted, ROOM, "[");
        for (int32_t i = 0; lam_convention_rule(c, i, &r, NULL) == LAM_OK; i++) {
            n += (size_t)snprintf(wanted + n, ROOM - n, "{kind='%s' ", r.kind);
            for (int released = 0; released < 2; released++) {
                n += (size_t)snprintf(wanted + n, ROOM - n, "%s={", released ? "released" : "formula");
                for (int k = 0; k < LAM_N_METRICS; k++) {
                    const char *text = released ? r.released[k] : r.formula[k];
                    n += (size_t)snprintf(wanted + n, ROOM - n, text ? "%s='%.500s' " : "%s=none ",
                                          lam_metric_name((lam_metric)k), text);
                }
                n += (size_t)snprintf(wanted + n, ROOM - n, "} ");
            }
            n += (size_t)snprintf(wanted + n, ROOM - n, r.note ? "note='%.500s' " : "note=none ", r.note);
            n += (size_t)snprintf(wanted + n, ROOM - n, "of_op=%s ", r.of_op ? "true" : "false");
            n += (size_t)snprintf(wanted + n, ROOM - n, r.only ? "only='%s' } " : "only=none } ", r.only);
        }
        snprintf(wanted + n, ROOM - n, "] ");
        lam_tables_tell(LAM_TABLES_RULES, c, hears(-1));
        assert_string_equal(h.text, wanted);
    }
}

/* -- a document ------------------------------------------------------------------------------------------ */

static lam_status keep(void *to, const char *bytes, size_t n) {
    (void)to;
    assert_true(h.n + n < ROOM);
    memcpy(h.text + h.n, bytes, n);
    h.n += n;
    h.text[h.n] = '\0';
    return LAM_OK;
}

static lam_json *document(void) {
    lam_json *j;
    lam_error e = {0};
    assert_int_equal(lam_json_new(&j, "thing", 3, &e), LAM_OK);
    h.n = 0;
    return j;
}

static bool give(lam_json *j, const char *name, lam_field f) {
    lam_receiver to = lam_json_field(j, name);
    return to.field(to.self, &f);
}

static void test_document(void **state) {
    (void)state;
    static const int64_t sizes[] = {2, 3};
    lam_json *j = document();
    lam_error e = {0};
    give(j, NULL, (lam_field){.name = "own", .type = LAM_FIELD_TRUTH, .truth = true});
    give(j, "list", (lam_field){.name = "own", .type = LAM_FIELD_LIST});
    give(j, NULL, (lam_field){.type = LAM_FIELD_INTEGER, .integer = -5});
    give(j, NULL, (lam_field){.type = LAM_FIELD_REAL, .real = 0.5});
    give(j, NULL, (lam_field){.type = LAM_FIELD_TEXT, .text = "a\"\n"});
    give(j, NULL, (lam_field){.type = LAM_FIELD_COUNT, .count = {7, 0, LAM_AT_LEAST}});
    give(j, NULL, (lam_field){.type = LAM_FIELD_SIZES, .shape = {2, sizes}});
    give(j, NULL, (lam_field){.type = LAM_FIELD_RECORD}); /* without names: a tuple */
    give(j, NULL, (lam_field){.type = LAM_FIELD_NONE});
    give(j, NULL, (lam_field){.type = LAM_FIELD_END});
    give(j, NULL, (lam_field){.type = LAM_FIELD_RECORD}); /* of nothing */
    give(j, NULL, (lam_field){.type = LAM_FIELD_END});
    give(j, NULL, (lam_field){.type = LAM_FIELD_RECORD});
    give(j, NULL, (lam_field){.name = "x", .type = LAM_FIELD_INTEGER, .integer = 1});
    give(j, NULL, (lam_field){.type = LAM_FIELD_END});
    give(j, NULL, (lam_field){.type = LAM_FIELD_END});
    assert_int_equal(lam_json_write(j, (lam_sink){keep, NULL}, &e), LAM_OK);
    assert_string_equal(h.text,
                        "{\"schema\": \"lamina.thing/3\", \"schema_version\": 3, \"version\": \"" LAM_VERSION
                        "\", \"own\": true, \"list\": [-5, 0.5, \"a\\\"\\u000a\", {\"value\": 7, "
                        "\"state\": \"at least\"}, [2, 3], [null], [], {\"x\": 1}]}\n");
    lam_json_free(j);
}

/* Nothing is written of what has not ended, or is deeper than any result. */
static void test_half_a_document(void **state) {
    (void)state;
    lam_error e = {0};
    for (int type = LAM_FIELD_OBJECT; type <= LAM_FIELD_LIST; type++) {
        lam_json *j = document();
        give(j, "open", (lam_field){.type = (lam_field_type)type});
        assert_int_equal(lam_json_write(j, (lam_sink){keep, NULL}, &e), LAM_USAGE);
        lam_json_free(j);
    }
    lam_json *j = document();
    int n = 0;
    while (give(j, "deep", (lam_field){.type = LAM_FIELD_OBJECT})) assert_true(++n < 1000);
    for (int i = 0; i < n; i++) give(j, NULL, (lam_field){.type = LAM_FIELD_END});
    assert_int_equal(lam_json_write(j, (lam_sink){keep, NULL}, &e), LAM_USAGE);
    lam_json_free(j);
    lam_json_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory),
                                       cmocka_unit_test(test_costs),
                                       cmocka_unit_test(test_model),
                                       cmocka_unit_test(test_nothing_measured),
                                       cmocka_unit_test(test_tables),
                                       cmocka_unit_test(test_everything_of_models),
                                       cmocka_unit_test(test_stops_everywhere),
                                       cmocka_unit_test(test_everything_of_a_check),
                                       cmocka_unit_test(test_all_of_tables),
                                       cmocka_unit_test(test_document),
                                       cmocka_unit_test(test_half_a_document)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
