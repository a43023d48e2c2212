/* SPDX-License-Identifier: Apache-2.0
 *
 * Recordings of days: how much a file grows, and that its medians stay those of all steps. */
#include "kit/recorded.h"

#include <math.h>

/* A step of half a second, of which one in a hundred is recorded: 1,728 a day. */
#ifndef WEEK_LAYERS
#define WEEK_LAYERS 100
#define WEEK_DAYS   2
#endif
enum { LAYERS = WEEK_LAYERS, DAYS = WEEK_DAYS, A_DAY = 1728, DENSE = 120 };
static const int64_t apart_ns = INT64_C(50) * 1000000000;

static uint64_t seed = 88172645463325252u;

/* From 0 to 1. */
static double any(void) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return (double)(seed >> 11) / 9007199254740992.0;
}

/* A time that is near `ns`: normally distributed, by `part` of it. */
static int64_t near(double ns, double part) {
    const double normal = sqrt(-2 * log(any() + 1e-300)) * cos(6.283185307179586 * any());
    return (int64_t)(ns * (1 + part * fmax(normal, -3)));
}

static lmi_packet *new_packet(void) {
    lmi_packet *p = calloc(1, sizeof *p);
    assert_non_null(p);
    lmi_arena_init(&p->arena, INT64_MAX);
    return p;
}

static void put_tree(lmi_rows *w) {
    lam_error e = {0};
    lmi_packet *p = new_packet();
    lmi_place_row *rows = lmi_alloc(&p->arena, LAYERS + 1, sizeof *rows);
    for (int32_t i = 0; i <= LAYERS; i++) {
        char path[32] = "";
        if (i) snprintf(path, sizeof path, "blocks.%d.linear", (int)i);
        rows[i] = (lmi_place_row){.parent = i ? 0 : -1, .depth = i > 0, .type = i ? "Linear" : "Net"};
        rows[i].path = lmi_strdup(&p->arena, path);
    }
    p->name = "Net";
    p->places = rows;
    p->n_places = LAYERS + 1;
    assert_int_equal(lmi_rows_put(w, p, &e), LAM_OK);
    lmi_packet_free(p);
}

/* Times of the host and of a device, and memory, as on a GPU. */
static void measure(lmi_measure *to, int32_t place, double hour) {
    const double base = 20000 + 977.0 * place, slow = 1 + 0.02 * sin(hour);
    memset(to, 0xff, sizeof *to); /* -1: unknown */
    to->place = place;
    to->calls = 1;
    to->self = to->forward = near(base * slow, 0.05);
    to->backward = near(2 * base * slow, 0.05);
    to->recompute = to->regions = to->device_recompute = 0;
    to->device_self = to->device_forward = near(10 * base * slow, 0.01);
    to->device_backward = near(20 * base * slow, 0.01);
    to->device_retained = 4096 * place;
    to->device_peak = 8192 * place;
}

static void put_step(lmi_rows *w, int64_t i) {
    lam_error e = {0};
    lmi_packet *p = new_packet();
    p->rows = lmi_alloc(&p->arena, LAYERS + 1, sizeof *p->rows);
    p->n_rows = LAYERS + 1;
    p->number = i < DENSE ? i : 1700 + 100 * (i - DENSE);
    p->unix_ns = INT64_C(1700000000000000000) + i * apart_ns;
    p->t0_ns = 1 + i * apart_ns;
    p->training = p->gradients = true;
    p->calls = 1;
    p->peak = p->first_bad = p->device_forward = p->device_backward = p->device_peak = -1;
    p->forward = near(1e8, 0.05);
    p->backward = near(2e8, 0.05);
    for (int k = 0; k < LAM_N_STEP_PHASES; k++) p->whole += p->phases[k] = near(7e7, 0.1);
    for (int32_t k = 0; k <= LAYERS; k++) measure(&p->rows[k], k, (double)i / 72);
    assert_int_equal(lmi_rows_put(w, p, &e), LAM_OK);
    lmi_packet_free(p);
}

static int64_t size_of(const char *file) {
    struct stat st;
    assert_int_equal(stat(file, &st), 0);
    return (int64_t)st.st_size;
}

/* The size of the file after each day. */
static const char *record_days(int64_t bytes[DAYS]) {
    const char *file = step_file("week.lamina");
    const lam_run_info info = {.world = 1, .every = LAM_THINNING, .unix_ns = 1};
    lam_error e = {0};
    lmi_db db;
    lmi_rows w;
    assert_int_equal(lmi_db_open(&db, file, &e), LAM_OK);
    assert_int_equal(lmi_rows_open(&w, &db, &info, &e), LAM_OK);
    put_tree(&w);
    for (int64_t day = 0, i = 0; day < DAYS; day++) {
        assert_int_equal(lmi_db_run(&db, "BEGIN", &e), LAM_OK);
        for (; i < (day + 1) * A_DAY; i++) put_step(&w, i);
        assert_int_equal(lmi_db_run(&db, "COMMIT; PRAGMA wal_checkpoint(TRUNCATE);", &e), LAM_OK);
        bytes[day] = size_of(file);
    }
    lmi_rows_close(&w);
    lmi_db_close(&db);
    return file;
}

/* 20 MB a week for 300 layers are 2.9 MB a day, of which the first has the steps that have rows. */
static void a_day_adds_little(void **state) {
    (void)state;
    int64_t bytes[DAYS];
    const char *file = record_days(bytes);
    const int64_t most = INT64_C(20000000) / 7 * LAYERS / 300;
#ifdef WEEK_TOLD
    for (int day = 0; day < DAYS; day++) printf("%d days: %lld bytes\n", day + 1, (long long)bytes[day]);
#endif
    if (bytes[DAYS - 1] - bytes[DAYS - 2] > most)
        fail_msg("a day adds %lld bytes", (long long)(bytes[DAYS - 1] - bytes[DAYS - 2]));
    assert_true(number_in(file, "SELECT count(DISTINCT step) FROM layers") <= DENSE + LMI_RAW + 72);
    lam_recording *r = open_recording(file, 0, 0);
    const lam_recorded_place *p = lam_recording_place(r, 0, LAYERS / 2);
    assert_int_equal(p->n_steps, DAYS * A_DAY - 1);
    const double right = 20000 + 977.0 * (LAYERS / 2);
    assert_true(fabs((double)p->forward_ns.median - right) < right / 50);
    assert_true(fabs((double)p->device_backward_ns.median - 20 * right) < 20 * right / 50);
    lam_recording_free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_day_adds_little)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
