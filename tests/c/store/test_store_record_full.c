/* SPDX-License-Identifier: Apache-2.0
 *
 * A step of which everything was measured, as rows, in a file and back, and as scalars; and a file that
 * refuses some of it. */
#include "kit/oom.h"

#include "kit/full_net.h"
#include "kit/recorded.h"
#include "store/store.h"

static const lam_step_info info = {
    .name = "Net", .number = 7, .training = true, .gradients = true, .unix_ns = 5, .t0_ns = 6};

static const lmi_measure *row_of(const lmi_packet *p, int32_t place) {
    for (int32_t i = 0; i < p->n_rows; i++)
        if (p->rows[i].place == place) return &p->rows[i];
    fail_msg("place %d has no row", (int)place);
    return NULL;
}

static void everything_that_was_measured(void **state) {
    (void)state;
    lam_model *m = full_step();
    lmi_packet *p = lmi_packet_step(m, &info);
    assert_non_null(p);
    assert_int_equal(p->n_rows, 3); /* the layer that was not called has none */
    assert_true(p->calls == 1 && p->forward == 400 && p->backward == 100 && !p->failed && p->looked);
    assert_true(p->device_forward == 1000 && p->device_backward == 500 && p->device_peak == 6200);
    assert_int_equal(p->peak, 70 * FULL_KIB + 60); /* with a packed weight */
    assert_int_equal(p->first_bad, 1);
    assert_string_equal(p->bad, "NaN");
    const lmi_measure *root = row_of(p, 0), *conv = row_of(p, 1), *fc = row_of(p, 2);
    assert_true(root->calls == 1 && root->forward == 400 && root->self == 200 && root->backward == 0);
    assert_true(conv->forward == 100 && conv->self == 100 && conv->recompute == 0);
    assert_true(conv->nan == 1 && conv->inf == 2 && root->nan == 0 && fc->inf == 0);
    assert_true(fc->backward == 100 && fc->device_forward == 600 && fc->device_self == 600);
    assert_true(fc->device_backward == 500 && root->device_self == 100 && root->device_recompute == 0);
    assert_true(conv->allocated == 4 * FULL_KIB && conv->retained == 4 * FULL_KIB);
    assert_true(fc->allocated == 3 * FULL_KIB && fc->peak == 2 * FULL_KIB);
    assert_true(conv->device_retained == 5030 && conv->device_peak == 6080);
    lmi_packet_free(p);
    lam_model_free(m);
}

/* Net(a) with a in it again: its time is counted once, and its own time is what is not in a call. */
static void calls_within_themselves(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), a = net_linear(&n, 2, 2), p = net_place(&n, -1, "", root);
    net_place(&n, p, "a", a);
    int32_t r = step_call(&n, root, -1, 1000, 2000, 0);
    int32_t outer = step_call(&n, a, r, 1100, 1500, 0);
    step_call(&n, a, outer, 1200, 1300, 0);
    int32_t again = step_call(&n, a, -1, 3000, 3050, LAM_CALL_AGAIN);
    step_call(&n, a, again, 3010, 3020, LAM_CALL_AGAIN);
    step_call(&n, root, -1, 4000, 4100, LAM_CALL_FAILED);
    lam_model *m = net_done(&n);
    lmi_packet *step = lmi_packet_step(m, &info);
    const lmi_measure *net_row = row_of(step, 0), *row = row_of(step, 1);
    assert_true(step->calls == 2 && step->failed && step->forward == 1100);
    assert_true(net_row->calls == 2 && net_row->forward == 1100 && net_row->self == 700);
    assert_true(row->calls == 2 && row->forward == 400 && row->self == 400 && row->recompute == 50);
    assert_true(row->backward == -1 && row->nan == -1 && row->device_peak == -1 && step->peak == -1);
    assert_false(step->looked);
    lmi_packet_free(step);
    lam_model_free(m);
}

/* Two calls are enough for one of them to be within the other. */
static void one_call_within_another(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), a = net_linear(&n, 2, 2), p = net_place(&n, -1, "", root);
    net_place(&n, p, "a", a);
    int32_t outer = step_call(&n, a, step_call(&n, root, -1, 1000, 2000, 0), 1100, 1500, 0);
    step_call(&n, a, outer, 1200, 1300, 0);
    lam_model *m = net_done(&n);
    lmi_packet *step = lmi_packet_step(m, &info);
    assert_true(row_of(step, 1)->calls == 2 && row_of(step, 1)->forward == 400);
    lmi_packet_free(step);
    lam_model_free(m);
}

/* A module at two places is one module: its parameters and their bytes count once, at the first. */
static void a_module_at_two_places(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), a = net_linear(&n, 4, 4), p = net_place(&n, -1, "", root);
    net_place(&n, p, "a", a);
    net_place(&n, p, "b", a);
    lam_model *m = net_done(&n);
    lmi_packet *tree = lmi_packet_tree(m, &info);
    assert_true(tree->n_places == 3 && tree->places[1].params == 20 && tree->places[2].params == 0);
    assert_int_equal(tree->params, 20);
    assert_int_equal(tree->param_bytes, 80);
    lmi_packet_free(tree);
    lam_model_free(m);
}

/* A clock may stand still during a call: that is a time, of 0 ns. */
static void a_call_that_took_no_time(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), a = net_linear(&n, 2, 2), p = net_place(&n, -1, "", root);
    net_place(&n, p, "a", a);
    int32_t r = step_call(&n, root, -1, 1000, 2000, 0);
    step_call(&n, a, r, 1100, 1100, 0);
    lam_model *m = net_done(&n);
    lmi_packet *step = lmi_packet_step(m, &info);
    assert_true(row_of(step, 0)->forward == 1000 && row_of(step, 0)->self == 1000);
    assert_true(row_of(step, 1)->forward == 0 && row_of(step, 1)->self == 0);
    lmi_packet_free(step);
    lam_model_free(m);
}

/* A call that never ended has no time, nor has what it was made in time of its own. */
static void unknown_is_not_zero(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), a = net_linear(&n, 2, 2), p = net_place(&n, -1, "", root);
    net_place(&n, p, "a", a);
    int32_t r = step_call(&n, root, -1, 1000, 2000, 0);
    step_call(&n, a, r, 1100, 0, 0);
    step_call(&n, a, r, 1200, 1250, 0);
    lam_tensor_info unknown = {.dtype = -1, .ndim = -1, .bytes = -1};
    int32_t t;
    NET_OK(&n, lam_build_tensor(n.b, &unknown, &t, &n.e));
    net_owns(&n, root, "unknown", t);
    const lam_bad unseen = {.side = LAM_BAD_UNSEEN, .call = r, .calls = 1, .from = -1, .ndim = -1};
    const lam_bad outside = {
        .side = LAM_BAD_OUTPUT, .call = -1, .calls = 1, .from = -1, .ndim = -1, .found = {.nan = 4}};
    const lam_bad inside = {
        .side = LAM_BAD_OP, .call = r, .calls = 1, .from = -1, .ndim = -1, .found = {.nan = 4}};
    NET_OK(&n, lam_build_bad(n.b, &unseen, &n.e));
    NET_OK(&n, lam_build_bad(n.b, &outside, &n.e));
    NET_OK(&n, lam_build_bad(n.b, &inside, &n.e));
    NET_OK(&n, lam_build_checked(n.b, &(lam_checked){.tensors = 1}, &n.e));
    lam_model *m = net_done(&n);
    lmi_packet *tree = lmi_packet_tree(m, &info), *step = lmi_packet_step(m, &info);
    assert_true(tree->params == -1 && tree->places[0].params == -1 && tree->places[1].params == 6);
    assert_int_equal(tree->param_bytes, -1);
    assert_int_equal(row_of(step, 1)->forward, -1);
    assert_int_equal(row_of(step, 0)->self, -1);
    assert_int_equal(row_of(step, 0)->nan, -1);
    assert_int_equal(row_of(step, 1)->nan, 0);
    lmi_packet_free(tree);
    lmi_packet_free(step);
    lam_model_free(m);
}

/* -- in a file --------------------------------------------------------------------------------- */

static const char *record(const char *name) {
    const char *file = step_file(name);
    lam_recorder *w = step_recorder(file, 0, 1);
    for (int64_t i = 0; i < 3; i++) {
        lam_step_info each = info;
        each.number = i;
        assert_int_equal(lam_recorder_step(w, full_step(), &each, NULL), LAM_OK);
    }
    assert_int_equal(lam_recorder_close(w, NULL), LAM_OK);
    return file;
}

static void all_of_it_comes_back(void **state) {
    (void)state;
    lam_recording *r = open_recording(record("full.lamina"), 0, 0);
    const lam_recorded_model *m = lam_recording_model(r, 0);
    const lam_recorded_place *fc = lam_recording_place(r, 0, 2);
    assert_true(m->n_steps == 2 && m->warmed_up && m->training && m->nonfinite == 3 && m->first_bad == 1);
    assert_true(m->device_forward_ns.median == 1000 && m->device_backward_ns.median == 500);
    assert_true(m->device_peak_bytes.median == 6200 && m->peak_bytes.median == 70 * FULL_KIB + 60);
    assert_int_equal(m->params, 129);       /* 15 are packed */
    assert_int_equal(m->local_params, 105); /* 24 lie elsewhere */
    assert_int_equal(m->param_bytes, 4 * 129);
    assert_int_equal(m->local_bytes, 4 * 105);
    assert_int_equal(m->logical_bytes, 4 * 129);
    assert_true(fc->device_forward_ns.median == 600 && fc->device_self_ns.median == 600);
    assert_true(fc->device_backward_ns.median == 500 && fc->device_recompute_ns.median == 0);
    assert_int_equal(fc->own_ns, 1100); /* by the device's clock */
    assert_int_equal(lam_recording_place(r, 0, 1)->nonfinite, 2);
    assert_int_equal(lam_recording_place(r, 0, 3)->n_steps, 0);
    lam_recording_free(r);
}

static bool file_has(const char *path, const char *tag) {
    static char text[1 << 16];
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text, f), size = strlen(tag);
    fclose(f);
    for (size_t i = 0; i + size <= n; i++)
        if (memcmp(text + i, tag, size) == 0) return true;
    return false;
}

/* The next number of a protocol buffer, 7 bits a byte. */
static size_t varint(const unsigned char **at) {
    size_t n = 0;
    for (int shift = 0;; shift += 7) {
        n |= (size_t)(**at & 0x7f) << shift;
        if (*(*at)++ < 0x80) return n;
    }
}

/* The content of a message that is the last thing before `end`. */
static const unsigned char *inside(const unsigned char *at, unsigned char key, const unsigned char *end) {
    assert_int_equal(*at++, key);
    size_t n = varint(&at);
    assert_ptr_equal(at + n, end);
    return at;
}

/* Of an event of a scalar: seconds, step, and a summary of one value, which has a tag and a number. */
static void check_scalar(const unsigned char *at, const unsigned char *end) {
    at += 9;
    if (*at == 0x10) {
        at++;
        varint(&at);
    }
    at = inside(inside(at, 0x2a, end), 0x0a, end);
    assert_int_equal(*at++, 0x0a);
    size_t n = varint(&at);
    assert_memory_equal(at, "Net/", 4);
    assert_int_equal(at[n], 0x15);
    assert_ptr_equal(at + n + 5, end);
}

/* Its length is before each event, and a checksum of the length; a checksum of the event is behind it. */
static void check_events(const char *path) {
    static unsigned char bytes[1 << 16];
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    uint64_t size;
    for (const unsigned char *at = bytes; at < bytes + n; at += 12 + size + 4) {
        memcpy(&size, at, sizeof size);
        if (at > bytes) check_scalar(at + 12, at + 12 + size); /* the first tells the version */
    }
}

static void all_of_it_as_scalars(void **state) {
    (void)state;
    static const char *const tags[] = {"Net/device_forward_ms",
                                       "Net/device_backward_ms",
                                       "Net/device_peak_bytes",
                                       "Net/(the model)/self_ms",
                                       "Net/fc/device_self_ms",
                                       "Net/fc/device_backward_ms",
                                       "Net/conv/nan",
                                       "Net/conv/inf",
                                       "Net/conv/device_retained_bytes",
                                       "Net/conv/peak_bytes"};
    lam_error e = {0};
    char path[512];
    const char *file = record("scalars.lamina");
    assert_int_equal(lam_recording_tensorboard(file, 0, step_file("logs"), path, sizeof path, &e), LAM_OK);
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        if (!file_has(path, tags[i])) fail_msg("no %s", tags[i]);
    assert_false(file_has(path, "Net/idle/"));
    check_events(path);
}

/* -- what goes wrong --------------------------------------------------------------------------- */

static void run(lmi_db *d, const char *sql) {
    lam_error e = {0};
    if (lmi_db_run(d, sql, &e) != LAM_OK) fail_msg("%s: %s", sql, e.text);
}

static void a_table_that_is_missing(void **state) {
    (void)state;
    static const char *const drop[] = {"DROP TABLE runs", "DROP TABLE models", "DROP TABLE places",
                                       "DROP VIEW timeline; DROP TABLE steps", "DROP TABLE layers"};
    const lam_run_info run_info = {.world = 1, .every = 1};
    for (size_t i = 0; i < sizeof drop / sizeof *drop; i++) {
        lmi_db d;
        lmi_rows w;
        lam_error e = {0};
        assert_int_equal(lmi_db_open(&d, step_file("lacks.lamina"), &e), LAM_OK);
        run(&d, drop[i]);
        assert_int_equal(lmi_rows_open(&w, &d, &run_info, &e), LAM_IO);
        assert_non_null(strstr(e.text, "it is not a recording that this lamina can read: no such table"));
        lmi_rows_close(&w);
        lmi_db_close(&d);
    }
}

static lam_status put_both(lmi_rows *w, const lam_model *m, lam_error *e) {
    lmi_packet *tree = lmi_packet_tree(m, &info), *step = lmi_packet_step(m, &info);
    assert_true(tree && step);
    lam_status s = lmi_rows_put(w, tree, e);
    if (s == LAM_OK) s = lmi_rows_put(w, step, e);
    lmi_packet_free(tree);
    lmi_packet_free(step);
    return s;
}

static void a_row_that_is_refused(void **state) {
    (void)state;
    static const char *const tables[] = {"models", "places", "steps", "layers"};
    const lam_run_info run_info = {.world = 1, .every = 1};
    lam_model *m = full_step();
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        lmi_db d;
        lmi_rows w;
        lam_error e = {0};
        char sql[160];
        assert_int_equal(lmi_db_open(&d, step_file("refuses.lamina"), &e), LAM_OK);
        snprintf(sql, sizeof sql,
                 "CREATE TRIGGER no BEFORE INSERT ON %s BEGIN SELECT RAISE(ABORT, 'not today'); END",
                 tables[i]);
        run(&d, sql);
        assert_int_equal(lmi_rows_open(&w, &d, &run_info, &e), LAM_OK);
        assert_int_equal(put_both(&w, m, &e), LAM_IO);
        assert_string_equal(e.text, "it can't be written: not today");
        lmi_rows_close(&w);
        lmi_db_close(&d);
    }
    lam_model_free(m);
}

static void a_step_without_its_model(void **state) {
    (void)state;
    const lam_run_info run_info = {.world = 1, .every = 1};
    lam_model *m = full_step();
    lmi_db d;
    lmi_rows w;
    lam_error e = {0};
    lmi_packet *step = lmi_packet_step(m, &info);
    assert_int_equal(lmi_db_open(&d, step_file("strange.lamina"), &e), LAM_OK);
    assert_int_equal(lmi_rows_open(&w, &d, &run_info, &e), LAM_OK);
    assert_int_equal(lmi_rows_put(&w, step, &e), LAM_RANGE);
    assert_int_equal(lmi_rows_seen(&w, &(lmi_alive){.unix_ns = 9, .ended = true}, &e), LAM_OK);
    lmi_packet_free(step);
    lmi_rows_close(&w);
    lmi_db_close(&d);
    lam_model_free(m);
}

static void try_packets(void *arg, bool *ok) {
    lmi_packet *tree = lmi_packet_tree(arg, &info), *step = lmi_packet_step(arg, &info);
    *ok = tree && step;
    lmi_packet_free(tree);
    lmi_packet_free(step);
}

static void memory_may_run_out(void **state) {
    (void)state;
    lam_model *m = full_step();
    assert_int_equal(lam_model_find_sources(m, NULL), LAM_OK);
    oom_sweep(try_packets, m);
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_that_was_measured), cmocka_unit_test(calls_within_themselves),
        cmocka_unit_test(unknown_is_not_zero),          cmocka_unit_test(all_of_it_comes_back),
        cmocka_unit_test(all_of_it_as_scalars),         cmocka_unit_test(a_table_that_is_missing),
        cmocka_unit_test(a_row_that_is_refused),        cmocka_unit_test(a_step_without_its_model),
        cmocka_unit_test(memory_may_run_out),           cmocka_unit_test(a_module_at_two_places),
        cmocka_unit_test(a_call_that_took_no_time),     cmocka_unit_test(one_call_within_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
