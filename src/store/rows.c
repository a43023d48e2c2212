/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes packets as rows of the tables. */
#include "base/sqlite.h"
#include "base/system.h"
#include "store/bins.h"

static int64_t yes(bool b) { return b ? 1 : 0; }

static lam_status begin_run(lmi_rows *w, const lam_run_info *info, lam_error *e) {
    sqlite3_stmt *s;
    LAM_TRY(lmi_db_prepare(w->db, &s,
                           "INSERT INTO runs (started_unix_ns, seen_unix_ns, command, host, torch, lamina,"
                           " pid, rank, world, every, job, attempt) VALUES (?1, ?1, ?2, ?3, ?4, ?5, ?6, ?7,"
                           " ?8, ?9, ?10, CASE WHEN ?10 IS NULL AND ?11 = 0 THEN NULL ELSE max(?11, 1 +"
                           " ifnull((SELECT max(attempt) FROM runs WHERE job = ?10), 0)) END)",
                           e));
    lam_status status =
        lmi_db_put(w->db, s, e, "ittttiiiiti", info->unix_ns, info->command, info->host, info->torch,
                   lam_version(), (int64_t)getpid(), (int64_t)info->rank, (int64_t)info->world,
                   (int64_t)info->every, info->job, (int64_t)info->attempt);
    lmi_db_done(s);
    w->run = sqlite3_last_insert_rowid(w->db->db);
    return status;
}

lam_status lmi_rows_open(lmi_rows *w, lmi_db *db, const lam_run_info *info, lam_error *e) {
    *w = (lmi_rows){.db = db, .every = info->every};
    lmi_vec_init(&w->models, sizeof(lmi_model_rows));
    LAM_TRY(begin_run(w, info, e));
    LAM_TRY(lmi_db_prepare(db, &w->model,
                           "INSERT INTO models (run, root, name, params, local_params, param_bytes,"
                           " local_bytes, logical_bytes, tree) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                           e));
    LAM_TRY(lmi_db_prepare(db, &w->place, "INSERT INTO places VALUES (?, ?, ?, ?, ?, ?, ?, ?)", e));
    LAM_TRY(
        lmi_db_prepare(db, &w->step,
                       "INSERT INTO steps (model, number, training, started_unix_ns, started_ns, calls,"
                       " failed, forward_ns, backward_ns, peak_bytes, looked, first_bad, bad,"
                       " device_forward_ns, device_backward_ns, device_peak_bytes, gradients, compiled,"
                       " whole_ns, input_ns, h2d_ns, own_forward_ns, own_backward_ns, optimizer_ns,"
                       " wait_ns, other_ns, processor_wait_ns, collectives, collectives_hash) VALUES (?, ?,"
                       " ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                       e));
    LAM_TRY(lmi_db_prepare(db, &w->layer,
                           "INSERT INTO layers (step, place, calls, forward_ns, forward_self_ns, backward_ns,"
                           " recompute_ns, allocated_bytes, retained_bytes, peak_bytes, nan, inf,"
                           " device_forward_ns, device_self_ns, device_backward_ns, device_recompute_ns,"
                           " device_retained_bytes, device_peak_bytes, regions)"
                           " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                           e));
    LAM_TRY(lmi_db_prepare(db, &w->work,
                           "INSERT INTO work (step, flops, hardware_flops, at_least, why, device, dtype,"
                           " peak_flops, peak_of, why_peak) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                           e));
    LAM_TRY(lmi_db_prepare(db, &w->pace, "INSERT OR REPLACE INTO pace VALUES (?, ?, ?, ?)", e));
    return lmi_db_prepare(db, &w->seen,
                          "UPDATE runs SET seen_unix_ns = ?, dropped = ?, calls = ?, ended_unix_ns = ?,"
                          " ended_by = ? WHERE id = ?",
                          e);
}

void lmi_rows_close(lmi_rows *w) {
    lmi_db_done(w->model);
    lmi_db_done(w->place);
    lmi_db_done(w->step);
    lmi_db_done(w->layer);
    lmi_db_done(w->work);
    lmi_db_done(w->seen);
    lmi_db_done(w->pace);
    for (size_t i = 0; i < w->models.n; i++) {
        lmi_model_rows *model = lmi_vec_at(&w->models, i);
        for (int k = 0; k < LMI_MODES; k++) lmi_vec_free(&model->of[k].steps);
    }
    lmi_vec_free(&w->models);
}

static lam_status put_tree(lmi_rows *w, const lmi_packet *p, lam_error *e) {
    lmi_model_rows *model = lmi_vec_push(&w->models);
    if (!model) return lmi_nomem(e);
    for (int k = 0; k < LMI_MODES; k++) {
        model->of[k].parts = 0;
        lmi_vec_init(&model->of[k].steps, sizeof(lmi_raw));
    }
    LAM_TRY(lmi_db_put(w->db, w->model, e, "iituuuuuu", w->run, (int64_t)p->root, p->name, p->params,
                       p->local, p->param_bytes, p->local_bytes, p->logical_bytes, p->tree));
    model->id = sqlite3_last_insert_rowid(w->db->db);
    for (int32_t i = 0; i < p->n_places; i++) {
        const lmi_place_row *r = &p->places[i];
        LAM_TRY(lmi_db_put(w->db, w->place, e, "iiuittuu", model->id, (int64_t)i, (int64_t)r->parent,
                           (int64_t)r->depth, r->path, r->type, r->params, r->local));
    }
    return LAM_OK;
}

/* Rolls up the steps of the oldest hour, if newer ones are enough and the hour has passed, or the first of
 * them, if they are many. */
static lam_status roll_up(lmi_rows *w, int64_t model, struct lmi_raws *of, lam_error *e) {
    lmi_raw *raw = of->steps.data;
    const size_t n = of->steps.n, most = n > LMI_RAW ? n - LMI_RAW : 0;
    size_t k = 0;
    if (!most) return LAM_OK;
    const int64_t hour = lmi_hour_of(raw[0].unix_ns), newest = raw[n - 1].unix_ns;
    while (k < most && k < LMI_ROLL_UP && lmi_hour_of(raw[k].unix_ns) == hour) k++;
    const bool whole = lmi_hour_of(raw[k].unix_ns) != hour;
    if (!whole && k < LMI_ROLL_UP) return LAM_OK;
    LAM_TRY(lmi_roll_up(w->db, model, w->every, raw, k, e));
    memmove(raw, raw + k, (n - k) * sizeof *raw);
    of->steps.n = n - k;
    of->parts = of->parts && of->hour == hour ? of->parts + 1 : 1;
    of->hour = hour;
    if (!whole) return LAM_OK;
    if (of->parts > 1) LAM_TRY(lmi_merge_rollups(w->db, model, hour, hour + 1, e));
    return lmi_merge_days(w->db, model, newest, e);
}

static const char *said(const char *text) { return *text ? text : NULL; }

/* A step that raised did a part of its work. */
static lam_status put_work(lmi_rows *w, int64_t step, const lmi_packet *p, lam_error *e) {
    const lam_step_work *k = p->work;
    if (!k || p->failed) return LAM_OK;
    const bool has_peak = k->peak >= 1 && k->peak < (double)INT64_MAX;
    return lmi_db_put(w->db, w->work, e, "iuuitttutt", step, k->flops, k->hardware_flops, yes(k->at_least),
                      said(k->why), said(k->device), said(k->dtype),
                      has_peak ? (int64_t)k->peak : (int64_t)-1, said(k->peak_of), said(k->why_peak));
}

static lam_status put_step(lmi_rows *w, const lmi_packet *p, lam_error *e) {
    lmi_model_rows *model = lmi_vec_at(&w->models, (size_t)p->model);
    if (!model) return lmi_fail(e, LAM_RANGE, NULL, "a step of a model that was not told");
    const int64_t *phase = p->phases;
    LAM_TRY(lmi_db_put(w->db, w->step, e, "iiiiiiiuuuiutuuuiuuuuuuuuuuuu", model->id, p->number,
                       yes(p->training), p->unix_ns, p->t0_ns, p->calls, yes(p->failed), p->forward,
                       p->backward, p->peak, yes(p->looked), (int64_t)p->first_bad, p->bad, p->device_forward,
                       p->device_backward, p->device_peak, yes(p->gradients), (int64_t)p->compiled, p->whole,
                       phase[LAM_STEP_INPUT], phase[LAM_STEP_H2D], phase[LAM_STEP_FORWARD],
                       phase[LAM_STEP_BACKWARD], phase[LAM_STEP_OPTIMIZER], phase[LAM_STEP_COMM],
                       phase[LAM_STEP_OTHER], p->processor_wait, p->collectives, p->collectives_hash));
    const int64_t step = sqlite3_last_insert_rowid(w->db->db);
    struct lmi_raws *raws = &model->of[lmi_mode(p->training, p->gradients)];
    LAM_TRY(lmi_vec_put(&raws->steps, &(lmi_raw){step, p->unix_ns}, e));
    for (int32_t i = 0; i < p->n_rows; i++) {
        const lmi_measure *r = &p->rows[i];
        LAM_TRY(lmi_db_put(w->db, w->layer, e, "iiiuuuuuuuuuuuuuuuu", step, (int64_t)r->place, r->calls,
                           r->forward, r->self, r->backward, r->recompute, r->allocated, r->retained, r->peak,
                           r->nan, r->inf, r->device_forward, r->device_self, r->device_backward,
                           r->device_recompute, r->device_retained, r->device_peak, r->regions));
    }
    LAM_TRY(put_work(w, step, p, e));
    return roll_up(w, model->id, raws, e);
}

lam_status lmi_rows_put(lmi_rows *w, const lmi_packet *p, lam_error *e) {
    return p->n_places ? put_tree(w, p, e) : put_step(w, p, e);
}

lam_status lmi_rows_seen(lmi_rows *w, const lmi_alive *a, lam_error *e) {
    return lmi_db_put(w->db, w->seen, e, a->ended ? "iiuiti" : "iiuuti", a->unix_ns, a->dropped, a->calls,
                      a->ended ? a->unix_ns : (int64_t)-1, a->ended ? a->ended_by : NULL, w->run);
}

lam_status lmi_rows_pace(lmi_rows *w, const lmi_minute *m, lam_error *e) {
    return lmi_db_put(w->db, w->pace, e, "iiii", w->run, m->minute, m->calls, m->slowest_ns);
}
