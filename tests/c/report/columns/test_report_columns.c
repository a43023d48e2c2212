/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables by columns: what recordings hold, as streams of Arrow that others read, and back. */
#include "kit/oom.h"

#include "kit/recorded.h"

#include "kit/page_text.h"

#include "lamina_arrow.h"

enum { STEPS = 12 };

static const char TIMES[] =
    "UPDATE steps SET whole_ns = 100000000, input_ns = 1000000, h2d_ns = NULL, own_forward_ns = 28000000,"
    " own_backward_ns = 55000000, optimizer_ns = 4000000, wait_ns = 10000000, other_ns = 2000000;"
    "UPDATE layers SET forward_self_ns = 20000000, backward_ns = NULL WHERE place = 1;";

static lam_recording *recording(void) {
    const char *file = step_file("table.lamina");
    lam_recorder *r = step_recorder(file, 0, 1);
    for (int32_t i = 0; i < STEPS; i++) step_put(r, i, 1, true);
    assert_int_equal(lam_recorder_close(r, NULL), LAM_OK);
    change_recording(file, TIMES);
    lam_recording *held = NULL;
    lam_error e = {.at = -1};
    if (lam_recording_open_steps(&held, file, 0, &e) != LAM_OK) fail_msg("%s: %s", e.where, e.text);
    return held;
}

static lam_table *table_of(const lam_recording *r, lam_recorded_table what) {
    lam_table *t = NULL;
    lam_error e = {.at = -1};
    if (lam_recording_table(&r, 1, what, 0, &t, &e) != LAM_OK) fail_msg("%s: %s", e.where, e.text);
    return t;
}

static lam_cell cell(const lam_table *t, const char *column, int64_t row) {
    lam_cell c = {.known = false};
    int32_t i = 0;
    while (lam_table_column(t, i) && strcmp(lam_table_column(t, i), column) != 0) i++;
    if (!lam_table_cell(t, i, row, &c)) fail_msg("there is no %s in row %d", column, (int)row);
    return c;
}

static void steps_have_phases_and_unknown_ones_are_null(void **state) {
    (void)state;
    lam_recording *r = recording();
    lam_table *t = table_of(r, LAM_RECORDED_STEPS);
    assert_int_equal(lam_table_rows(t), STEPS);
    assert_int_equal(cell(t, "step", 3).whole, 3);
    assert_true(cell(t, "step_us", 3).real == 100000);
    assert_true(cell(t, "own_us", 3).real == 90000);
    assert_true(cell(t, "comm_us", 3).real == 10000);
    assert_false(cell(t, "h2d_us", 3).known);
    assert_false(cell(t, "own_us", 0).known);
    assert_false(cell(t, "counts", 0).flag);
    assert_true(cell(t, "counts", 1).flag && cell(t, "main", 1).flag);
    lam_cell none;
    assert_false(lam_table_cell(t, 0, STEPS, &none) || lam_table_cell(t, 99, 0, &none));
    lam_table_free(t);
    t = table_of(r, LAM_RECORDED_LAYERS);
    assert_int_equal(cell(t, "steps", 1).whole, STEPS - 1);
    assert_true(cell(t, "forward_us", 1).real == 20000);
    assert_false(cell(t, "backward_us", 1).known);
    lam_table_free(t);
    t = table_of(r, LAM_RECORDED_RANKS);
    assert_int_equal(lam_table_rows(t), 1);
    assert_memory_equal(cell(t, "waits", 0).text, "comm", 4);
    lam_table_free(t);
    lam_recording_free(r);
}

static lam_table *through_a_stream(lam_table *t, lam_error *e) {
    struct ArrowArrayStream s;
    lam_table *read = NULL;
    if (lam_table_stream(t, &s, e) != LAM_OK) return NULL;
    return lam_table_read(&read, &s, "rows", e) == LAM_OK ? read : NULL;
}

static void a_stream_has_all_that_the_table_has(void **state) {
    (void)state;
    lam_recording *r = recording();
    for (int k = 0; k < LAM_N_RECORDED_TABLES; k++) {
        lam_error e = {.at = -1};
        lam_table *t = table_of(r, (lam_recorded_table)k), *read = through_a_stream(t, &e);
        assert_non_null(read);
        assert_int_equal(lam_table_rows(read), lam_table_rows(t));
        assert_int_equal(lam_table_columns(read), lam_table_columns(t));
        for (int32_t c = 0; c < lam_table_columns(t); c++)
            for (int64_t row = 0; row < lam_table_rows(t); row++) {
                lam_cell a, b;
                assert_true(lam_table_cell(t, c, row, &a) && lam_table_cell(read, c, row, &b));
                assert_true(a.kind == b.kind && a.known == b.known && a.whole == b.whole &&
                            a.real == b.real && a.flag == b.flag && a.n == b.n);
                if (a.n) assert_memory_equal(a.text, b.text, a.n);
            }
        lam_table_free(t);
        lam_table_free(read);
    }
    lam_recording_free(r);
}

/* A consumer may move a column out of its batch, and keep it longer than all else. */
static void a_column_outlives_its_table(void **state) {
    (void)state;
    lam_recording *r = recording();
    lam_table *t = table_of(r, LAM_RECORDED_STEPS);
    struct ArrowArrayStream s;
    struct ArrowSchema schema;
    struct ArrowArray batch, column, none;
    assert_int_equal(lam_table_stream(t, &s, NULL), LAM_OK);
    lam_table_free(t);
    lam_recording_free(r);
    assert_int_equal(s.get_schema(&s, &schema), 0);
    assert_string_equal(schema.format, "+s");
    int64_t step = 0;
    while (strcmp(schema.children[step]->name, "step") != 0) step++;
    assert_string_equal(schema.children[step]->format, "l");
    assert_int_equal(s.get_next(&s, &batch), 0);
    assert_int_equal(s.get_next(&s, &none), 0);
    assert_null(none.release);
    column = *batch.children[step];
    batch.children[step]->release = NULL;
    batch.release(&batch);
    schema.release(&schema);
    s.release(&s);
    assert_int_equal(column.length, STEPS);
    assert_int_equal(((const int64_t *)column.buffers[1])[5], 5);
    column.release(&column);
}

static void a_table_is_of_recordings(void **state) {
    (void)state;
    lam_recording *r = recording();
    lam_table *read = NULL;
    lam_error e = {.at = -1};
    assert_int_equal(lam_recording_table((const lam_recording *const *)&r, 0, LAM_RECORDED_RANKS, 0, &read,
                                         &e),
                     LAM_USAGE);
    assert_null(read);
    lam_recording_free(r);
}

static void rows_are_written_in_each_format(void **state) {
    (void)state;
    lam_recording *r = recording();
    lam_table *t = table_of(r, LAM_RECORDED_LAYERS);
    lam_error e = {.at = -1};
    lam_table_options o = {.kind = "sql"};
    assert_int_equal(lam_table_write(t, &o, show_sink(), &e), LAM_OK);
    show_has("forward_us");
    show_has("(the model)");
    show_has(" rows\n");
    o.format = "csv";
    assert_int_equal(lam_table_write(t, &o, show_sink(), &e), LAM_OK);
    show_has("attempt,rank,model,main,training,hour,layer,type,steps,forward_us,backward_us\n");
    show_has(",20000,\n");
    o.format = "json";
    assert_int_equal(lam_table_write(t, &o, show_sink(), &e), LAM_OK);
    show_has("{\"schema\": \"lamina.sql/1\", ");
    o.format = "xml";
    assert_int_equal(lam_table_write(t, &o, show_sink(), &e), LAM_USAGE);
    lam_table_free(t);
    lam_recording_free(r);
}

static void try_all(void *self, bool *ok) {
    const lam_recording *r = self;
    lam_error e = {.at = -1};
    lam_status s = LAM_OK;
    for (int k = 0; s == LAM_OK && k < LAM_N_RECORDED_TABLES; k++) {
        lam_table *t = NULL, *read = NULL;
        struct ArrowArrayStream from;
        const lam_table_options o = {.format = k ? "text" : "json", .kind = "sql"};
        s = lam_recording_table(&r, 1, (lam_recorded_table)k, 0, &t, &e);
        if (s == LAM_OK) s = lam_table_stream(t, &from, &e);
        if (s == LAM_OK) s = lam_table_read(&read, &from, "rows", &e);
        if (s == LAM_IO) s = e.status = LAM_NOMEM; /* the stream says it in words */
        if (s == LAM_OK) s = lam_table_write(read, &o, show_sink(), &e);
        lam_table_free(t);
        lam_table_free(read);
    }
    *ok = oom_check(s, &e);
}

static void without_memory(void **state) {
    (void)state;
    lam_recording *r = recording();
    oom_sweep(try_all, r);
    lam_recording_free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_have_phases_and_unknown_ones_are_null),
        cmocka_unit_test(a_stream_has_all_that_the_table_has),
        cmocka_unit_test(a_column_outlives_its_table),
        cmocka_unit_test(a_table_is_of_recordings),
        cmocka_unit_test(rows_are_written_in_each_format),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
