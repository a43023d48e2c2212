/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of a saved report about the whole run: totals, times, memory, findings and sentences. */
#include "base/sqlite.h"
#include "report/saved/saved.h"

#include <math.h>
#include <stdio.h>

/* -- the model and its totals ---------------------------------------------------------------------------- */

static int32_t capped(int64_t n) { return n < 0 ? 0 : n > INT32_MAX ? INT32_MAX : (int32_t)n; }

static lam_status take_head(lmi_saved *s, sqlite3_stmt *q, void *to) {
    lmi_outline *o = to;
    int64_t n[5];
    LAM_TRY(lmi_saved_text(s, q, 0, &o->convention));
    LAM_TRY(lmi_saved_text(s, q, 1, &o->source));
    LAM_TRY(lmi_saved_text(s, q, 2, &o->version));
    LAM_TRY(lmi_saved_text(s, q, 3, &o->name));
    for (int i = 0; i < 5; i++) LAM_TRY(lmi_saved_int(s, q, 4 + i, &n[i]));
    if (sqlite3_column_type(q, 9) == SQLITE_TEXT) LAM_TRY(lmi_saved_text(s, q, 9, &o->type_path));
    if (sqlite3_column_type(q, 10) == SQLITE_TEXT) LAM_TRY(lmi_saved_text(s, q, 10, &o->mode));
    o->modules = capped(n[0]);
    o->calls = capped(n[1]);
    o->ops_ran = n[2] < 0 ? 0 : n[2];
    o->ops_counted = n[3] < 0 ? 0 : n[3];
    o->ops_ruled = n[4] < 0 ? 0 : n[4];
    return LAM_OK;
}

static const char head[] =
    "SELECT json_extract(?1, '$.convention'), json_extract(?1, '$.source'), json_extract(?1, '$.version'), "
    "json_extract(?1, '$.model.type'), json_extract(?1, '$.model.modules'), "
    "json_extract(?1, '$.model.calls'), json_extract(?1, '$.operators.ran'), "
    "json_extract(?1, '$.operators.counted'), json_extract(?1, '$.operators.known'), "
    "json_extract(?1, '$.model.type_path'), json_extract(?1, '$.provenance.mode')";

static lam_status take_count(lmi_saved *s, sqlite3_stmt *q, void *to) { return lmi_saved_count(s, q, 0, to); }

static lam_status take_total(lmi_saved *s, const char *phase, const char *name, lam_count *to) {
    char sql[160];
    snprintf(sql, sizeof sql, "SELECT " LMI_SAVED_COUNT("?1", "totals.%s%s"), phase, name, phase, name);
    return lmi_saved_each(s, sql, take_count, to);
}

/* A total that a report has only if it differs from another. */
static lam_status take_total_or(lmi_saved *s, const char *name, lam_count otherwise, lam_count *to) {
    char sql[96];
    bool has = false;
    snprintf(sql, sizeof sql, "SELECT json_type(?1, '$.totals.%s') = 'object'", name);
    LAM_TRY(lmi_saved_truth(s, sql, &has));
    *to = otherwise;
    return has ? take_total(s, "", name, to) : LAM_OK;
}

static lam_status take_rarer(lmi_saved *s) {
    lam_param_totals *p = &s->w.o->params;
    LAM_TRY(take_total_or(s, "logical_bytes", p->param_bytes, &p->logical_bytes));
    LAM_TRY(take_total_or(s, "local_params", p->params, &p->local_params));
    LAM_TRY(take_total_or(s, "local_bytes", p->param_bytes, &p->local_bytes));
    LAM_TRY(take_total_or(s, "packed", lmi_exact(0), &p->packed));
    return take_total_or(s, "packed_bytes", lmi_exact(0), &p->packed_bytes);
}

/* A backward ran if its operators cost something, or an unknown amount. */
static const char ran_back[] =
    "SELECT count(*) > 0 FROM (SELECT * FROM json_each(?1, '$.totals.backward') UNION ALL SELECT * FROM "
    "json_each(?1, '$.totals.recompute')) WHERE type = 'object' AND (json_extract(value, '$.state') <> "
    "'exact' OR json_extract(value, '$.value') > 0)";

static lam_status take_totals(lmi_saved *s) {
    static const char *const phases[LAM_N_PHASES] = {
        [LAM_FORWARD] = "", [LAM_BACKWARD] = "backward.", [LAM_RECOMPUTE] = "recompute."};
    lmi_outline *o = s->w.o;
    const struct {
        const char *name;
        lam_count *to;
    } params[] = {{"params", &o->params.params},         {"trainable", &o->params.grad_params},
                  {"frozen", &o->params.nograd_params},  {"param_bytes", &o->params.param_bytes},
                  {"buffers", &o->params.buffers},       {"buffer_bytes", &o->params.buffer_bytes},
                  {"params_in_rows", &o->params.in_rows}};
    for (int p = 0; p < LAM_N_PHASES; p++) {
        LAM_TRY(take_total(s, phases[p], "macs", &o->macs[p]));
        LAM_TRY(take_total(s, phases[p], "flops", &o->flops[p]));
        LAM_TRY(take_total(s, phases[p], "bytes", &o->bytes[p]));
    }
    for (size_t i = 0; i < sizeof params / sizeof *params; i++)
        LAM_TRY(take_total(s, "", params[i].name, params[i].to));
    LAM_TRY(take_rarer(s));
    return lmi_saved_truth(s, ran_back, &o->backward);
}

/* -- times ----------------------------------------------------------------------------------------------- */

static lam_status take_spread(lmi_saved *s, sqlite3_stmt *q, void *to) {
    lam_spread *spread = to;
    int64_t n, *fields[] = {&spread->median, &spread->deviation, &spread->least, &spread->most};
    LAM_TRY(lmi_saved_int(s, q, 0, &n));
    spread->n = capped(n);
    for (int i = 0; i < 4; i++) LAM_TRY(lmi_saved_int(s, q, 1 + i, fields[i]));
    return LAM_OK;
}

static lam_status take_runs(lmi_saved *s, sqlite3_stmt *q, void *to) {
    lmi_outline *o = to;
    int64_t runs, late;
    LAM_TRY(lmi_saved_int(s, q, 0, &runs));
    LAM_TRY(lmi_saved_int(s, q, 1, &late));
    o->timed = runs >= 0;
    o->repeats = capped(runs);
    o->outliers = capped(late);
    return LAM_OK;
}

static lam_status take_roof(lmi_saved *s, sqlite3_stmt *q, void *to) {
    lmi_outline *o = to;
    lam_peak roof = {sqlite3_column_double(q, 0), sqlite3_column_double(q, 1)};
    if (sqlite3_column_type(q, 0) == SQLITE_NULL && sqlite3_column_type(q, 1) == SQLITE_NULL) return LAM_OK;
    if (!isfinite(roof.flops) || !isfinite(roof.bytes) || !(roof.flops > 0) || !(roof.bytes > 0))
        return lmi_saved_wrong(s, "a limit of its roof is no number above 0");
    o->roof = roof;
    return LAM_OK;
}

static lam_status take_times(lmi_saved *s) {
    static const char *const parts[LAM_N_TIME_PARTS] = {
        [LAM_TIME_FORWARD] = "forward", [LAM_TIME_BACKWARD] = "backward", [LAM_TIME_RECOMPUTE] = "recompute",
        [LAM_TIME_ENGINE] = "engine",   [LAM_TIME_OUTSIDE] = "outside",   [LAM_TIME_WHOLE] = "whole"};
    lmi_outline *o = s->w.o;
    char sql[512];
    for (int p = 0; p < LAM_N_TIME_PARTS; p++) {
        snprintf(
            sql, sizeof sql,
            "SELECT json_extract(v, '$.n'), json_extract(v, '$.median'), json_extract(v, '$.deviation'), "
            "json_extract(v, '$.least'), json_extract(v, '$.most') FROM "
            "(SELECT json_extract(?1, '$.time.%s') AS v)",
            parts[p]);
        LAM_TRY(lmi_saved_each(s, sql, take_spread, &o->time[p]));
        if (p != LAM_TIME_FORWARD && p != LAM_TIME_WHOLE) o->backward = o->backward || o->time[p].most > 0;
    }
    LAM_TRY(lmi_saved_each(s, "SELECT json_extract(?1, '$.roof.flops'), json_extract(?1, '$.roof.bytes')",
                           take_roof, o));
    return lmi_saved_each(s,
                          "SELECT json_extract(?1, '$.time.runs'), json_array_length(?1, '$.time.outliers')",
                          take_runs, o);
}

/* -- memory ---------------------------------------------------------------------------------------------- */

/* Takes a category and its bytes. */
static lam_status take_held(lmi_saved *s, sqlite3_stmt *q, void *to) {
    int64_t n, *held = to;
    const char *name;
    LAM_TRY(lmi_saved_text(s, q, 0, &name));
    LAM_TRY(lmi_saved_int(s, q, 1, &n));
    held += lmi_saved_held_of(name);
    if (n > 0) *held = lmi_add_capped(*held, n);
    return LAM_OK;
}

static const char nowhere[] = "its memory names a module that no row has";

/* Takes a place's path, a category and its bytes. Rows of one path follow one another. */
static lam_status take_place_held(lmi_saved *s, sqlite3_stmt *q, void *to) {
    lmi_taking *w = &s->w;
    struct {
        const char *path;
        int32_t place;
    } *last = to;
    const char *path, *name;
    int64_t n;
    LAM_TRY(lmi_saved_text(s, q, 0, &path));
    LAM_TRY(lmi_saved_text(s, q, 1, &name));
    LAM_TRY(lmi_saved_int(s, q, 2, &n));
    if (path != last->path)
        LAM_TRY(lmi_saved_place(s, path, nowhere, &last->place)); /* equal texts have one address */
    last->path = path;
    if (n <= 0) return LAM_OK;
    int64_t *held = &w->held[last->place][lmi_saved_held_of(name)];
    *held = lmi_add_capped(*held, n);
    lmi_add_own(w, LMI_OWN_HELD, last->place, lmi_exact(n));
    return LAM_OK;
}

lam_status lmi_saved_held(lmi_saved *s) {
    struct {
        const char *path;
        int32_t place;
    } last = {NULL, 0};
    s->w.held = lmi_alloc(&s->w.scratch, (uint64_t)s->w.n, sizeof *s->w.held);
    if (!s->w.held) return lmi_nomem(s->w.e);
    return lmi_saved_each(s,
                          "SELECT json_extract(p.value, '$.path'), h.key, h.value FROM "
                          "json_each(?1, '$.memory.places') p, json_each(p.value, '$.held') h",
                          take_place_held, &last);
}

static lam_status take_memory_row(lmi_saved *s, sqlite3_stmt *q, void *to) {
    lam_memory_totals *y = to;
    int64_t *fields[] = {&y->peak,      &y->before,        &y->peak_allocated, &y->allocated,     &y->freed,
                         &y->elsewhere, &y->info.rss_open, &y->info.rss_peak,  &y->info.rss_close};
    const char *phase, *path;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        LAM_TRY(lmi_saved_int(s, q, (int)i, fields[i]));
    s->w.o->memory = y;
    LAM_TRY(lmi_saved_text(s, q, 9, &y->info.source));
    LAM_TRY(lmi_saved_text(s, q, 10, &phase));
    y->peak_order = *phase != '\0'; /* the peak came after the beginning, in a known phase */
    if (*phase) LAM_TRY(lmi_saved_phase_of(s, phase, &y->peak_phase));
    if (sqlite3_column_type(q, 11) == SQLITE_NULL) return LAM_OK;
    LAM_TRY(lmi_saved_text(s, q, 11, &path));
    int32_t i;
    LAM_TRY(lmi_saved_place(s, path, nowhere, &i));
    s->w.o->peak_place = lmi_place_for(s->w.of_place, i);
    return LAM_OK;
}

static lam_status take_memory(lmi_saved *s) {
    lmi_outline *o = s->w.o;
    lam_memory_totals *y = lmi_alloc(&o->arena, 1, sizeof *y);
    if (!y) return lmi_nomem(s->w.e);
    y->peak_call = -1;
    LAM_TRY(lmi_saved_each(
        s,
        "SELECT json_extract(v, '$.peak'), json_extract(v, '$.before'), json_extract(v, "
        "'$.peak_allocated'), json_extract(v, '$.allocated'), json_extract(v, '$.freed'), "
        "json_extract(v, '$.elsewhere'), json_extract(v, '$.rss.open'), json_extract(v, '$.rss.peak'), "
        "json_extract(v, '$.rss.close'), json_extract(v, '$.source'), json_extract(v, '$.peak_phase'), "
        "json_extract(v, '$.peak_in') FROM (SELECT json_extract(?1, '$.memory') AS v) WHERE "
        "json_extract(v, '$.peak') IS NOT NULL",
        take_memory_row, y));
    if (!o->memory) return LAM_OK; /* it was not measured */
    return lmi_saved_each(s, "SELECT key, value FROM json_each(?1, '$.memory.held')", take_held, y->held);
}

/* -- sentences ------------------------------------------------------------------------------------------- */

/* Takes as many texts as an element has room for. */
static lam_status take_line(lmi_saved *s, sqlite3_stmt *q, void *to) {
    lmi_vec *lines = to;
    const char **at = lmi_vec_push(lines);
    if (!at) return lmi_nomem(s->w.e);
    for (size_t i = 0; i < lines->size / sizeof *at; i++) LAM_TRY(lmi_saved_text(s, q, (int)i, &at[i]));
    return LAM_OK;
}

static lam_status take_health(lmi_saved *s, sqlite3_stmt *q, void *to) {
    lmi_outline *o = to;
    LAM_TRY(lmi_saved_int(s, q, 1, &o->looked));
    return lmi_saved_text(s, q, 0, &o->health);
}

static lam_status take_findings(lmi_saved *s) {
    lmi_outline *o = s->w.o;
    const char **text;
    int32_t n, place;
    LAM_TRY(lmi_saved_each(
        s,
        "SELECT json_extract(?1, '$.health.sentence'), json_extract(?1, '$.health.tensors') WHERE "
        "json_extract(?1, '$.health.sentence') IS NOT NULL",
        take_health, o));
    if (!o->health) return LAM_OK;
    LAM_TRY(lmi_saved_list(
        s,
        "SELECT json_extract(value, '$.text'), json_extract(value, '$.path'), json_type(value, "
        "'$.path'), json_extract(value, '$.phase') FROM json_each(?1, '$.health.findings')",
        take_line, 4 * sizeof *text, &n, &text));
    o->finding = lmi_alloc(&o->arena, (uint64_t)n, sizeof *o->finding);
    o->finding_place = lmi_alloc(&o->arena, (uint64_t)n, sizeof *o->finding_place);
    lam_finding *made = lmi_alloc(&o->arena, (uint64_t)n, sizeof *made);
    if (!o->finding || !o->finding_place || !made) return lmi_nomem(s->w.e);
    for (int32_t i = 0; i < n; i++) {
        made[i] = (lam_finding){.call = -1, .place = -1, .before = -1, .after = -1, .text = text[4 * i]};
        uint8_t phase = LAM_FORWARD;
        if (*text[4 * i + 3]) LAM_TRY(lmi_saved_phase_of(s, text[4 * i + 3], &phase));
        made[i].phase = (lam_phase)phase;
        o->finding[i] = &made[i];
        o->finding_place[i] = -1;
        if (strcmp(text[4 * i + 2], "text") != 0) continue;
        LAM_TRY(lmi_saved_place(s, text[4 * i + 1], "its health names a module that no row has", &place));
        o->finding_place[i] = lmi_place_for(s->w.of_place, place);
    }
    o->n_findings = n;
    return LAM_OK;
}

static lam_status take_device(lmi_saved *s, sqlite3_stmt *q, void *to) {
    (void)to;
    return lmi_leave_out_device(s->w.o, sqlite3_column_int(q, 0) != 0, sqlite3_column_int(q, 1) != 0, s->w.e);
}

lam_status lmi_saved_whole(lmi_saved *s) {
    lmi_outline *o = s->w.o;
    LAM_TRY(lmi_saved_each(s, head, take_head, o));
    LAM_TRY(take_totals(s));
    LAM_TRY(take_times(s));
    LAM_TRY(take_memory(s));
    LAM_TRY(take_findings(s));
    LAM_TRY(lmi_saved_list(s,
                           "SELECT json_extract(value, '$.path'), json_extract(value, '$.reason') FROM "
                           "json_each(?1, '$.unused')",
                           take_line, sizeof *o->unused, &o->n_unused, &o->unused));
    LAM_TRY(lmi_saved_list(s,
                           "SELECT json_extract(value, '$.path'), json_extract(value, '$.reason') FROM "
                           "json_each(?1, '$.no_gradient')",
                           take_line, sizeof *o->no_gradient, &o->n_no_gradient, &o->no_gradient));
    LAM_TRY(lmi_saved_list(s, "SELECT value FROM json_each(?1, '$.gaps')", take_line, sizeof *o->gap,
                           &o->n_gaps, &o->gap));
    LAM_TRY(lmi_saved_list(s, "SELECT value FROM json_each(?1, '$.notes')", take_line, sizeof *o->note,
                           &o->n_notes, &o->note));
    LAM_TRY(lmi_saved_each(s,
                           "SELECT json_type(?1, '$.device_memory') = 'object', json_type(?1, "
                           "'$.time.device') = 'object'",
                           take_device, NULL));
    LAM_TRY(lmi_saved_course(s));
    return lmi_saved_list(s, "SELECT key, value FROM json_each(?1, '$.provenance')", take_line,
                          sizeof *o->provenance, &o->n_provenance, &o->provenance);
}
