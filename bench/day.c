/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the recordings of a node's ranks after a day, as the recorder does: `day FOLDER RANKS LAYERS STEPS`,
 * of so many steps of half a second. The default rule chooses which of them are recorded. */
#include "store/store.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const int64_t epoch_ns = INT64_C(1764547200) * 1000000000; /* 2025-12-01 00:00 UTC */
static const int64_t step_ns = INT64_C(500000000);
static const double shares[LAM_N_STEP_PHASES] = {0.01, 0.005, 0.27, 0.54, 0.04, 0.12, 0.015};
static uint64_t seed = 88172645463325252u;

static int64_t near(double ns) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return (int64_t)(ns * (0.98 + 0.04 * ((double)(seed >> 11) / 9007199254740992.0)));
}

static void must(lam_status s, const lam_error *e) {
    if (s == LAM_OK) return;
    (void)fprintf(stderr, "day: %s: %s\n", e->where, e->text);
    exit(1);
}

static lmi_packet *new_packet(void) {
    lmi_packet *p = calloc(1, sizeof *p);
    if (!p) exit(1);
    lmi_arena_init(&p->arena, INT64_MAX);
    return p;
}

static void put_tree(lmi_rows *w, int32_t layers) {
    lam_error e = {0};
    lmi_packet *p = new_packet();
    lmi_place_row *rows = lmi_alloc(&p->arena, (size_t)layers + 1, sizeof *rows);
    if (!rows) exit(1);
    for (int32_t i = 0; i <= layers; i++) {
        char path[64] = "";
        if (i) (void)snprintf(path, sizeof path, "model.layers.%d.mlp.up_proj", (int)i);
        rows[i] = (lmi_place_row){.parent = i ? 0 : -1, .depth = i > 0, .type = i ? "Linear" : "Net"};
        rows[i].path = lmi_strdup(&p->arena, path);
    }
    p->name = "Net";
    p->places = rows;
    p->n_places = layers + 1;
    must(lmi_rows_put(w, p, &e), &e);
    lmi_packet_free(p);
}

static void put_step(lmi_rows *w, int32_t layers, int64_t number) {
    lam_error e = {0};
    lmi_packet *p = new_packet();
    p->rows = lmi_alloc(&p->arena, (size_t)layers + 1, sizeof *p->rows);
    if (!p->rows) exit(1);
    p->n_rows = layers + 1;
    p->number = number;
    p->unix_ns = epoch_ns + number * step_ns;
    p->t0_ns = 1 + number * step_ns;
    p->training = p->gradients = true;
    p->calls = 1;
    p->peak = p->first_bad = p->device_forward = p->device_backward = p->device_peak = p->processor_wait = -1;
    for (int k = 0; k < LAM_N_STEP_PHASES; k++) p->whole += p->phases[k] = near((double)step_ns * shares[k]);
    p->forward = p->phases[LAM_STEP_FORWARD];
    p->backward = p->phases[LAM_STEP_BACKWARD];
    for (int32_t k = 0; k <= layers; k++) {
        lmi_measure *to = &p->rows[k];
        memset(to, 0xff, sizeof *to); /* -1: unknown */
        to->place = k;
        to->calls = 1;
        to->self = to->forward = near((double)p->forward / (layers + 1));
        to->backward = near((double)p->backward / (layers + 1));
        to->recompute = to->regions = 0;
    }
    must(lmi_rows_put(w, p, &e), &e);
    lmi_packet_free(p);
}

static void record(const char *folder, int32_t rank, int32_t ranks, int32_t layers, int64_t steps) {
    char file[4096];
    (void)snprintf(file, sizeof file, "%s/run.%d.lamina", folder, (int)rank);
    const lam_run_info info = {.host = "n0",
                               .job = "day",
                               .attempt = 1,
                               .rank = rank,
                               .world = ranks,
                               .every = LAM_THINNING,
                               .unix_ns = epoch_ns};
    lam_error e = {0};
    lmi_db db;
    lmi_rows w;
    must(lmi_db_open(&db, file, &e), &e);
    must(lmi_rows_open(&w, &db, &info, &e), &e);
    put_tree(&w, layers);
    must(lmi_db_run(&db, "BEGIN", &e), &e);
    for (int64_t k = 0; k < steps; k += lam_recorded_every(LAM_THINNING, k)) put_step(&w, layers, k);
    const lmi_alive end = {.unix_ns = epoch_ns + steps * step_ns,
                           .calls = steps,
                           .ended = true,
                           .ended_by = "end"};
    must(lmi_rows_seen(&w, &end, &e), &e);
    must(lmi_db_run(&db, "COMMIT", &e), &e);
    lmi_rows_close(&w);
    lmi_db_close(&db);
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    const int32_t ranks = (int32_t)strtol(argv[2], NULL, 10), layers = (int32_t)strtol(argv[3], NULL, 10);
    for (int32_t rank = 0; rank < ranks; rank++) {
        seed = 88172645463325252u + (uint64_t)rank;
        record(argv[1], rank, ranks, layers, strtoll(argv[4], NULL, 10));
    }
    return 0;
}
