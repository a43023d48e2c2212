/* SPDX-License-Identifier: Apache-2.0
 *
 * An outline of a saved report against the one of the model that it was written from; and files that are no
 * report, or one that a stranger changed. */
#include "kit/oom.h"

#include "kit/full_net.h"
#include "kit/level_net.h"
#include "kit/made_net.h"
#include "kit/ops_net.h"
#include "kit/outlined.h"
#include "kit/shown.h"
#include "kit/step_net.h"

#include "report/saved/saved.h"

static const char FILE_NAME[] = "test_report_saved.json";

/* -- reports as they are written ------------------------------------------------------------------------- */

static void put_file(const char *text, size_t n) {
    FILE *f = fopen(FILE_NAME, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    fclose(f);
}

static lam_peak roof_of(const lam_costs *c) {
    return lmi_has_metric(c, LAM_BYTES_READ) ? (lam_peak){1e11, 1e10} : (lam_peak){0};
}

static void save(const lam_costs *c) {
    lam_report_options o;
    lam_error e = {0};
    lam_report_defaults(&o);
    o.format = "json";
    o.peak = roof_of(c);
    o.page = true;
    assert_int_equal(lam_report_write(c, &o, show_sink(), &e), LAM_OK);
    put_file(shown, shown_n);
}

static int64_t number(int64_t *const *all, int k, int32_t i) { return all[k] ? all[k][i] : 0; }

static void same_place(const lmi_outline *a, const lmi_outline *b, int32_t i) {
    const lmi_outlined *p = &a->at[i], *q = &b->at[i];
    assert_string_equal(i ? q->name : "", i ? p->name : "");
    assert_string_equal(q->type, p->type);
    assert_string_equal(q->in, p->in);
    assert_string_equal(q->out, p->out);
    assert_int_equal(q->parent, p->parent);
    assert_int_equal(q->end, p->end);
    assert_int_equal(q->depth, p->depth);
    assert_int_equal(q->n_children, p->n_children);
    assert_int_equal(q->state, p->state);
    assert_int_equal(q->family, p->family);
    assert_int_equal(q->run, p->run);
    assert_int_equal(q->n_run, p->n_run);
    assert_int_equal(q->health[0], p->health[0]);
    assert_int_equal(q->health[1], p->health[1]);
    lam_attr unused[2];
    if (p->state != LMI_CONTAINER_ALONE) assert_int_equal(q->n_attrs, p->n_attrs);
    assert_false(lmi_changed_attr(p, q, 0, unused));
    for (int k = 0; k < LMI_N_OWN; k++) {
        if (number(a->own, k, i) != number(b->own, k, i) || number(a->total, k, i) != number(b->total, k, i))
            fail_msg("%s of place %d '%s': own %lld, was %lld; total %lld, was %lld", lmi_own_names[k],
                     (int)i, p->name, (long long)number(b->own, k, i), (long long)number(a->own, k, i),
                     (long long)number(b->total, k, i), (long long)number(a->total, k, i));
        int was = a->state[k] ? a->state[k][i] : LAM_EXACT, now = b->state[k] ? b->state[k][i] : LAM_EXACT;
        if (was != now) fail_msg("state of %s of '%s': %d, was %d", lmi_own_names[k], p->name, now, was);
    }
    if (a->held) assert_memory_equal(a->held[i], b->held[i], sizeof a->held[i]);
    if (a->held) assert_memory_equal(a->held_total[i], b->held_total[i], sizeof a->held[i]);
}

static void same_count(lam_count a, lam_count b) {
    assert_int_equal(a.state, b.state);
    if (a.state != LAM_UNKNOWN) assert_int_equal(a.n, b.n);
}

static void same_memory(const lmi_outline *a, const lmi_outline *b) {
    assert_int_equal(b->memory != NULL, a->memory != NULL);
    assert_int_equal(b->n_points, a->n_points);
    assert_int_equal(b->n_at_work, a->n_at_work);
    assert_int_equal(b->backward_us, a->backward_us);
    for (int32_t i = 0; i < a->n_points; i++) {
        assert_int_equal(b->point[i].us, a->point[i].us);
        assert_int_equal(b->point[i].bytes, a->point[i].bytes);
    }
    for (int32_t i = 0; i < a->n_at_work; i++) {
        assert_int_equal(b->at_work[i].place, a->at_work[i].place);
        assert_int_equal(b->at_work[i].depth, a->at_work[i].depth);
        assert_int_equal(b->at_work[i].phase, a->at_work[i].phase);
        assert_int_equal(b->at_work[i].us, a->at_work[i].us);
        assert_int_equal(b->at_work[i].length, a->at_work[i].length);
    }
    assert_int_equal(b->part != NULL, a->part != NULL);
    if (a->part) assert_memory_equal(b->part, a->part, (size_t)a->n_points * sizeof *a->part);
    assert_int_equal(b->memory != NULL, a->memory != NULL);
    assert_int_equal(b->peak_place, a->peak_place);
    if (!a->memory) return;
    const lam_memory_totals *p = a->memory, *q = b->memory;
    assert_true(q->peak == p->peak && q->before == p->before && q->peak_allocated == p->peak_allocated);
    assert_true(q->allocated == p->allocated && q->freed == p->freed && q->elsewhere == p->elsewhere);
    assert_true(q->info.rss_open == p->info.rss_open && q->info.rss_peak == p->info.rss_peak);
    assert_int_equal(q->info.rss_close, p->info.rss_close);
    assert_int_equal(q->peak_phase, p->peak_phase);
    assert_memory_equal(q->held, p->held, sizeof p->held);
    assert_string_equal(q->info.source, p->info.source);
}

static void same_texts(const char *const *a, const char *const *b, int32_t n) {
    for (int32_t i = 0; i < n; i++) assert_string_equal(b[i], a[i]);
}

static void same_sentences(const lmi_outline *a, const lmi_outline *b) {
    assert_int_equal(b->n_gaps, a->n_gaps);
    assert_int_equal(b->n_notes, a->n_notes);
    assert_int_equal(b->n_unused, a->n_unused);
    assert_int_equal(b->n_no_gradient, a->n_no_gradient);
    assert_int_equal(b->n_findings, a->n_findings);
    same_texts(a->gap, b->gap, a->n_gaps);
    same_texts(a->note, b->note, a->n_notes);
    for (int32_t i = 0; i < a->n_unused; i++) same_texts(a->unused[i], b->unused[i], 2);
    for (int32_t i = 0; i < a->n_no_gradient; i++) same_texts(a->no_gradient[i], b->no_gradient[i], 2);
    for (int32_t i = 0; i < a->n_findings; i++) {
        assert_string_equal(b->finding[i]->text, a->finding[i]->text);
        assert_int_equal(b->finding[i]->phase, a->finding[i]->phase);
        assert_int_equal(b->finding_place[i], a->finding_place[i]);
    }
    assert_int_equal(b->looked, a->looked);
    assert_int_equal(b->health != NULL, a->health != NULL);
    if (a->health) assert_string_equal(b->health, a->health);
}

static void same(const lmi_outline *a, const lmi_outline *b) {
    assert_int_equal(b->n, a->n);
    for (int32_t i = 0; i < a->n; i++) same_place(a, b, i);
    assert_string_equal(b->name, a->name);
    assert_string_equal(b->convention, a->convention);
    assert_string_equal(b->source, a->source);
    assert_string_equal(b->type_path, a->type_path);
    assert_int_equal(b->modules, a->modules);
    assert_int_equal(b->calls, a->calls);
    for (int p = 0; p < LAM_N_PHASES; p++) {
        same_count(a->macs[p], b->macs[p]);
        same_count(a->flops[p], b->flops[p]);
        same_count(a->bytes[p], b->bytes[p]);
    }
    same_count(a->params.params, b->params.params);
    same_count(a->params.grad_params, b->params.grad_params);
    same_count(a->params.param_bytes, b->params.param_bytes);
    same_count(a->params.buffers, b->params.buffers);
    assert_int_equal(b->ops_ran, a->ops_ran);
    assert_int_equal(b->ops_ruled, a->ops_ruled);
    assert_int_equal(b->timed, a->timed);
    assert_int_equal(b->backward, a->backward);
    for (int p = 0; a->timed && p < LAM_N_TIME_PARTS; p++) {
        const lam_spread *was = &a->time[p], *now = &b->time[p];
        if (was->n <= 0) continue;
        assert_true(now->n == was->n && now->median == was->median && now->deviation == was->deviation);
        assert_true(now->least == was->least && now->most == was->most);
    }
    if (a->timed) assert_true(b->repeats == a->repeats && b->outliers == a->outliers);
    same_memory(a, b);
    same_sentences(a, b);
}

static void same_node(const lmi_level_node *a, const lmi_level_node *b) {
    assert_int_equal(b->type, a->type);
    assert_int_equal(b->look, a->look);
    assert_string_equal(b->label, a->label);
    assert_string_equal(b->note, a->note);
    assert_int_equal(b->place, a->place);
    same_count(a->macs, b->macs);
    same_count(a->flops, b->flops);
    same_count(a->bytes, b->bytes);
}

static void same_drawing(const lmi_drawing *a, const lmi_drawing *b) {
    assert_int_equal(b->n, a->n);
    assert_int_equal(b->n_segments, a->n_segments);
    assert_memory_equal(b->x, a->x, (size_t)a->n * sizeof *a->x);
    assert_memory_equal(b->y, a->y, (size_t)a->n * sizeof *a->y);
    if (a->n_segments)
        assert_memory_equal(b->segment, a->segment, (size_t)a->n_segments * sizeof *a->segment);
}

static void same_levels(const lmi_outline *a, const lmi_outline *b) {
    assert_int_equal(b->n_levels, a->n_levels);
    for (int32_t k = 0; k < a->n_levels; k++) {
        const lmi_level *p = &a->level[k], *q = &b->level[k];
        assert_int_equal(q->n, p->n);
        assert_int_equal(q->n_lines, p->n_lines);
        assert_int_equal(q->cut, p->cut);
        for (int32_t i = 0; i < p->n; i++) same_node(&p->node[i], &q->node[i]);
        if (p->n_lines) assert_memory_equal(q->line, p->line, (size_t)p->n_lines * sizeof *p->line);
        same_drawing(&p->at, &q->at);
    }
    for (int32_t i = 0; i < a->n; i++) assert_int_equal(b->at[i].level, a->at[i].level);
}

static void same_group(const lmi_formula_group *a, const lmi_formula_group *b) {
    assert_int_equal(b->phase, a->phase);
    assert_int_equal(b->n_equal, a->n_equal);
    assert_int_equal(b->n, a->n);
    assert_string_equal(b->name, a->name);
    for (int32_t i = 0; i < a->n; i++) {
        assert_int_equal(b->at[i].metric, a->at[i].metric);
        assert_int_equal(b->at[i].value, a->at[i].value);
        assert_string_equal(b->at[i].formula, a->at[i].formula);
        assert_string_equal(b->at[i].filled, a->at[i].filled);
    }
}

static void same_formulas(const lmi_outline *a, const lmi_outline *b) {
    assert_int_equal(b->n_formulas, a->n_formulas);
    for (int32_t k = 0; k < a->n_formulas; k++) {
        assert_int_equal(b->formulas[k].n, a->formulas[k].n);
        for (int32_t i = 0; i < a->formulas[k].n; i++)
            same_group(&a->formulas[k].at[i], &b->formulas[k].at[i]);
    }
    for (int32_t i = 0; i < a->n; i++) assert_int_equal(b->at[i].formulas, a->at[i].formulas);
}

/* With all that a page shows. */
static void read_again(const lam_costs *c) {
    const lmi_outline_options all = {
        .levels = true, .formulas = true, .course = true, .drawn = true, .roof = roof_of(c)};
    lmi_outline was, o;
    lam_error e = {0};
    save(c);
    if (lmi_outline_new(&was, c, &all, &e) != LAM_OK) fail_msg("%s: %s", e.where, e.text);
    if (lmi_saved_outline(&o, FILE_NAME, &e) != LAM_OK) fail_msg("%s: %s", e.where, e.text);
    same(&was, &o);
    same_levels(&was, &o);
    same_formulas(&was, &o);
    assert_int_equal(o.n_left, was.n_left);
    same_texts(was.left, o.left, was.n_left);
    assert_true(o.roof.flops == was.roof.flops && o.roof.bytes == was.roof.bytes);
    lmi_outline_free(&o);
    lmi_outline_free(&was);
}

static void written_and_read(lam_model *m, const char *convention) {
    lam_costs *c = net_costs(m, convention, false);
    read_again(c);
    lam_costs_free(c);
    lam_model_free(m);
}

static void a_whole_step(void **state) {
    (void)state;
    written_and_read(full_step(), "exact");
}
static void operators(void **state) {
    (void)state;
    written_and_read(net_residual(), "exact");
    written_and_read(net_step(), "exact");
}
static void insides(void **state) {
    (void)state;
    written_and_read(level_blocks(5), "exact");
    written_and_read(level_blocks(5), "layers");
}
static void layers(void **state) {
    (void)state;
    written_and_read(net_two_parents(false), NULL);
    written_and_read(net_two_parents(false), "torchscan");
}

static void made_up_networks(void **state) {
    (void)state;
    static const char *const conventions[] = {"exact", "layers", "torchscan"};
    seed = 5;
    for (int i = 0; i < rounds(60); i++) written_and_read(made_step(), conventions[i % 3]);
}

/* -- files from strangers -------------------------------------------------------------------------------- */

static lam_status try_text(const char *text, lam_error *e) {
    lmi_outline o;
    put_file(text, strlen(text));
    lam_status s = lmi_saved_outline(&o, FILE_NAME, e);
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
#define ROWS(rows)   REPORT("\"rows\": [" rows "]")

static void no_report(void **state) {
    (void)state;
    lam_error e = {0};
    lmi_outline o;
    assert_int_equal(lmi_saved_outline(&o, "no/such/file.json", &e), LAM_IO);
    lmi_outline_free(&o);
    assert_int_equal(lmi_saved_outline(&o, ".", &e), LAM_IO);
    assert_non_null(strstr(e.text, "it can't be read: "));
    lmi_outline_free(&o);
    refused("", "it is no JSON");
    refused("text", "it is no JSON");
    refused("{\"schema\": \"lamina.report/1\"", "it is no JSON");
    refused("{}", "\"schema\"");
    refused("[]", "\"schema\"");
    refused("17", "\"schema\"");
    refused("{\"schema\": \"lamina.report/2\"}", "\"schema\"");
    refused("{\"schema\": 1}", "\"schema\"");
}

static void rows_that_are_none(void **state) {
    (void)state;
    refused(ROWS("{}"), "a row of it has no path");
    refused(ROWS("17"), "a row of it has no path");
    refused(ROWS("null"), "a row of it has no path");
    refused(ROWS("{\"path\": null}"), "a row of it has no path");
    refused(ROWS("{\"path\": 5}"), "a row of it has no path");
    refused(ROWS("{\"path\": []}"), "a row of it has no path");
    taken(ROWS("")); /* the root alone */
    refused(REPORT("\"rows\": 3"), "a row of it has no path");
    taken(REPORT("\"rows\": {}"));
    taken(ROWS(
        "{\"path\": \"\"}, {\"path\": \"a\", \"type\": 3, \"status\": [], \"inputs\": 4, \"outputs\": {}}"));
    taken(ROWS("{\"path\": \"a..b\"}, {\"path\": \".\"}, {\"path\": \"a.\"}, {\"path\": \"a.\"}"));
    taken(ROWS("{\"path\": \"a\\u0000b\"}, {\"path\": \"\\ud800\"}, {\"path\": \"\\u202e\"}"));
}

static void numbers_that_are_none(void **state) {
    (void)state;
#define MACS(value) ROWS("{\"path\": \"a\", \"macs\": {\"value\": " value ", \"state\": \"exact\"}}")
    taken(MACS("0"));
    taken(MACS("9223372036854775807"));
    taken(MACS("123456789012345678901234567890"));
    taken(MACS("null"));
    refused(MACS("-1"), "a number in it");
    refused(MACS("-9223372036854775808"), "a number in it");
    refused(MACS("1.5"), "a number in it");
    refused(MACS("\"12\""), "a number in it");
    refused(MACS("[1]"), "a number in it");
    refused(MACS("-1e300"), "a number in it");
    refused(ROWS("{\"path\": \"a\", \"macs\": {\"value\": 1, \"state\": \"sure\"}}"), "no known state");
    refused(ROWS("{\"path\": \"a\", \"time\": {\"forward\": {\"self\": -5}}}"), "a number in it");
    taken(ROWS("{\"path\": \"a\", \"time\": 5, \"memory\": [], \"macs\": 3, \"health\": true}"));
    refused(REPORT("\"memory\": {\"peak\": 5, \"course\": [[0, -1]]}"), "a number in it");
    refused(REPORT("\"memory\": {\"peak\": 5, \"course\": [[\"x\", 1]]}"), "a moment in it");
    refused(REPORT("\"memory\": {\"peak\": 5, \"course\": [7]}"), "a moment in it");
    taken(REPORT("\"memory\": {\"peak\": 5, \"course\": [[-9, 1], [3, 2], [1, 3]]}"));
    taken(REPORT("\"memory\": {\"peak\": 5, \"course\": {}, \"held\": 5, \"places\": 3}"));
}

/* Counts that no 64 bits hold are the most that they hold. */
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
    if (lmi_saved_outline(&o, FILE_NAME, &e) != LAM_OK) fail_msg("%s", e.text);
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
    lam_status s = lmi_saved_outline(&o, FILE_NAME, &e);
    assert_int_equal(
        s, LAM_FAILED); /* 9e18 is not written by lamina: it has no fraction, but no digits either */
    lmi_outline_free(&o);
    taken(ROWS(
        "{\"path\": \"a\", \"macs\": {\"value\": 9223372036854775807, \"state\": \"exact\"}}, {\"path\": "
        "\"b\", \"macs\": {\"value\": 9223372036854775807, \"state\": \"exact\"}}"));
}

static void memory_of_no_row(void **state) {
    (void)state;
    refused(REPORT("\"rows\": [{\"path\": \"a\"}], \"memory\": {\"peak\": 9, \"places\": [{\"path\": \"b\", "
                   "\"held\": {\"input\": 4}}]}"),
            "its memory names a module that no row has");
    refused(REPORT("\"rows\": [{\"path\": \"a\"}], \"memory\": {\"peak\": 9, \"peak_in\": \"a.b\"}"),
            "its memory names a module that no row has");
    refused(REPORT("\"rows\": [], \"memory\": {\"peak\": -9}, \"totals\": {\"macs\": {\"value\": -1, "
                   "\"state\": \"exact\"}}"),
            "a number in it");
    refused(REPORT("\"memory\": {\"peak\": 9, \"peak_phase\": \"later\"}"), "a phase that is not");
    refused(
        REPORT(
            "\"health\": {\"sentence\": \"NaN\", \"findings\": [{\"text\": \"x\", \"phase\": \"later\"}]}"),
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
    assert_int_equal(lmi_saved_outline(&o, FILE_NAME, &e), LAM_OK);
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
    static const char none[] = "its levels are none that lamina writes";
    taken(MORE("", ""));
    taken(MORE(LEVEL(IN_NODE ", " A_NODE("\"a\"", "0", "1") ", " OUT_NODE, "[0, 1], [0, 2], [1, 2]"), ""));
    taken(MORE(LEVEL(A_NODE("null", "1", "2"), ""), ""));
    taken(MORE(LEVEL("{\"node\": \"operators\", \"operators\": [5], \"shape\": [2, 3]}", ""), ""));
    taken(MORE(LEVEL("{\"node\": \"input\"}, {\"node\": \"more\"}", "[0, 1]"), ""));
    refused(MORE("5", ""), none);
    refused(MORE("{}", ""), none);
    refused(MORE(LEVEL("", ""), ""), none);
    refused(MORE(LEVEL("7", ""), ""), none);
    refused(MORE(LEVEL("{\"node\": \"thing\"}", ""), ""), none);
    refused(MORE(LEVEL("{\"node\": \"operators\"}", ""), ""), none);
    refused(MORE(LEVEL("{\"node\": \"operators\", \"operators\": []}", ""), ""), none);
    refused(MORE(LEVEL("{\"node\": \"operators\", \"operators\": [\"f\"], \"shape\": [-1]}", ""), ""),
            "a number in it");
    refused(MORE(LEVEL(A_NODE("\"a\"", "0", "0"), ""), ""), none);
    refused(MORE(LEVEL(A_NODE("\"a\"", "2", "2"), ""), ""), none);
    refused(MORE(LEVEL(A_NODE("\"b\"", "0", "1"), ""), ""), "its levels name a module that no row has");
    refused(MORE(LEVEL(IN_NODE ", " OUT_NODE, "[0, 2]"), ""), none);
    refused(MORE(LEVEL(IN_NODE ", " OUT_NODE, "[1, 0]"), ""), none);
    refused(MORE(LEVEL(IN_NODE ", " OUT_NODE, "[0, 0]"), ""), none);
    refused(MORE(LEVEL(IN_NODE ", " OUT_NODE, "[-1, 1]"), ""), none);
    refused(MORE(LEVEL(IN_NODE ", " OUT_NODE, "[0, 1], [0, 1]"), ""), none);
    refused(MORE(LEVEL(IN_NODE ", " OUT_NODE, "[0]"), ""), none);
}

static void formulas_that_are_none(void **state) {
    (void)state;
    static const char none[] = "its formulas are none that lamina writes";
    taken(MORE("", WORK(", \"counts\": []")));
    taken(MORE("", WORK(", \"counts\": [{\"metric\": \"macs\", \"formula\": \"a\", \"value\": null}]")));
    refused(MORE("", "5"), none);
    refused(MORE("", "{\"paths\": [], \"work\": [5]}"), none);
    refused(MORE("", WORK("")), none);
    refused(MORE("", WORK(", \"counts\": [{\"metric\": \"time\"}]")), none);
    refused(MORE("", WORK(", \"counts\": [{\"metric\": \"macs\", \"value\": -3}]")), "a number in it");
    refused(MORE("", "{\"paths\": [\"b\"], \"work\": []}"), "its formulas name a module that no row has");
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
    refused(AT_WORK("{\"path\": \"b\", \"phase\": \"forward\", \"span\": [3, 5]}"), "is in no row");
    refused(AT_WORK("{\"path\": \"a\", \"phase\": \"forward\", \"span\": [3]}"), "a moment in it");
    taken(REPORT("\"rows\": [{\"path\": \"a\"}], \"roof\": {\"flops\": 1, \"bytes\": 2.5}"));
    refused(REPORT("\"roof\": {\"flops\": 0, \"bytes\": 2.5}"), "a limit of its roof");
    refused(REPORT("\"roof\": {\"flops\": 1e999, \"bytes\": 2.5}"), "a limit of its roof");
    refused(REPORT("\"tree\": [{\"type\": \"A\"}]"), "a place of its tree has no path");
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
    refused(text, "a path in it is deeper than any model");
    free(text);
    text = repeated("{\"schema\": \"lamina.report/1\", \"rows\": [{\"path\": \"", "x", 1 << 20, "\"}]}");
    taken(text);
    free(text);
    text = repeated("{\"schema\": \"lamina.report/1\", \"rows\": ", "[", 5000, "");
    refused(text, "it is no JSON");
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
    static const char with[] = "\"0-9[]{}x,:";
    outlined x = outline_of(full_step(), "exact");
    save(x.c);
    char *text = malloc(shown_n + 1);
    assert_non_null(text);
    memcpy(text, shown, shown_n + 1);
    for (size_t i = 0, k = 0; i < shown_n; i += 1 + shown_n / (size_t)rounds(400), k++) {
        lam_error e = {0};
        char was = text[i];
        text[i] = with[k % (sizeof with - 1)];
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
            lam_status s = lmi_saved_outline(&o, FILE_NAME, &e);
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
    *ok = oom_check(lmi_saved_outline(&o, arg, &e), &e);
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

static int remove_file(void **state) {
    (void)state;
    remove(FILE_NAME);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_step),
        cmocka_unit_test(operators),
        cmocka_unit_test(insides),
        cmocka_unit_test(made_up_networks),
        cmocka_unit_test(layers),
        cmocka_unit_test(no_report),
        cmocka_unit_test(rows_that_are_none),
        cmocka_unit_test(numbers_that_are_none),
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
