/* SPDX-License-Identifier: Apache-2.0
 *
 * The outline as a whole: the totals as a report prints them, and its parts one after the other. */
#include "report/outline/work.h"

const char *const lmi_family_class[LMI_N_FAMILIES] = {"conv", "lin", "att",  "norm",
                                                      "act",  "emb", "pool", "box"};
const char *const lmi_family_name[LMI_N_FAMILIES] = {"convolution", "linear",    "attention", "normalisation",
                                                     "activation",  "embedding", "other",     "container"};
const char *const lmi_family_title[LMI_N_FAMILIES] = {"convolution",          "linear",
                                                      "attention, recurrent", "normalisation",
                                                      "activation, dropout",  "embedding",
                                                      "pooling, other",       "container"};

/* -- health ---------------------------------------------------------------------------------------------- */

const struct lmi_mark lmi_marks[LMI_N_MARKS] = {{NULL, NULL}, {"NaN", "chg"}, {"NaN first", "del"}};

int lmi_place_mark(const lmi_outline_place *at) {
    const int worst = at->health[0] > at->health[1] ? at->health[0] : at->health[1];
    return worst > LAM_HEALTH_FINE ? worst - LAM_HEALTH_FINE : 0;
}

/* Its places are the model's; lamina's table has judged it before. */
static lam_status take_health(lmi_filling *w) {
    lmi_outline *o = w->o;
    if (lam_model_checked(w->m) && !w->table) LAM_TRY(lam_health_new(&o->looks, w->m, w->e));
    o->health = w->table ? w->table->health : o->looks;
    for (int32_t i = 0; i < w->n && o->health; i++)
        for (int p = 0; p < 2; p++)
            w->at[i].health[p] =
                (uint8_t)lam_health_at(o->health, w->place[i], p ? LAM_BACKWARD : LAM_FORWARD);
    return LAM_OK;
}

static void find_finding(const lmi_filling *w) {
    const lam_finding *first = w->o->health ? lam_health_finding(w->o->health, 0) : NULL;
    if (first && first->place >= 0) w->o->finding_place = lmi_place_for(w->of_place, first->place);
}

/* -- the whole ------------------------------------------------------------------------------------------- */

static void take_totals(lmi_outline *o, const lam_costs *c) {
    o->convention = c->convention->name;
    o->source = c->convention->source;
    o->version = lam_version();
    o->modules = lam_model_n_modules(c->model);
    o->calls = lam_model_n_events(c->model);
    o->params = lam_costs_params(c);
    for (int p = 0; p < LAM_N_PHASES; p++) {
        lam_count metric[LAM_N_METRICS];
        for (int k = 0; k < LAM_N_METRICS; k++)
            metric[k] = p == LAM_FORWARD ? lmi_total(c, (lam_metric)k)
                                         : lam_costs_phase_total(c, (lam_phase)p, (lam_metric)k);
        o->macs[p] = metric[LAM_MACS];
        o->flops[p] = metric[LAM_FLOPS];
        o->bytes[p] = lam_metric_bytes(metric);
    }
    o->backward =
        lmi_has_phase(c, LAM_BACKWARD) || lmi_has_phase(c, LAM_RECOMPUTE) || lmi_has_backward_times(c);
    if (!lmi_by_ops(c)) return;
    o->ops_ran = lam_model_n_ops(c->model);
    for (int p = 0; p < LAM_N_PHASES; p++) o->ops_counted += c->ops.ran[p];
    o->ops_ruled = c->ops.known;
}

static void take_times(lmi_outline *o, const lam_costs *c, lam_peak roof) {
    const lam_times *t = lam_costs_times(c);
    lam_outlier late;
    o->roof = roof;
    o->timed = t != NULL;
    if (!t) return;
    for (int p = 0; p < LAM_N_TIME_PARTS; p++)
        if (!lam_times_part(t, (lam_time_part)p, &o->time[p])) o->time[p] = (lam_spread){.median = -1};
    o->repeats = lam_times_n_runs(t);
    while (lam_times_outlier(t, o->outliers, &late)) o->outliers++;
    if (roof.flops > 0 || roof.bytes > 0) o->roof = lam_costs_peak(c, roof);
}

/* Sums each place's numbers over it and everything below it. Parents come before their children. */
lam_status lmi_outline_sum(lmi_outline *o, lam_error *e) {
    for (int k = 0; k < LMI_N_OWN; k++) {
        if (!o->own[k]) continue;
        o->total[k] = lmi_copy(&o->arena, o->own[k], (uint64_t)o->n, sizeof *o->total[k]);
        if (!o->total[k]) return lmi_nomem(e);
        for (int32_t i = o->n - 1; i > 0 && !lmi_is_shown_alone(k); i--) {
            int64_t *up = &o->total[k][o->at[i].parent];
            *up = lmi_add_capped(*up, o->total[k][i]);
        }
    }
    if (!o->held) return LAM_OK;
    o->held_total = lmi_copy(&o->arena, o->held, (uint64_t)o->n, sizeof *o->held);
    if (!o->held_total) return lmi_nomem(e);
    for (int32_t i = o->n - 1; i > 0; i--)
        for (int h = 0; h < LAM_N_HELD; h++) {
            int64_t *up = &o->held_total[o->at[i].parent][h];
            *up = lmi_add_capped(*up, o->held_total[i][h]);
        }
    return LAM_OK;
}

static lam_status take(lmi_filling *w, const lmi_outline_options *options) {
    lmi_outline *o = w->o;
    if (w->m->n_places > 0) LAM_TRY(lmi_tree_build(&w->tree, w->m, &w->scratch, w->e));
    LAM_TRY(lmi_take_places(w));
    LAM_TRY(lmi_take_numbers(w));
    LAM_TRY(lmi_take_looks(w));
    LAM_TRY(take_health(w));
    if (w->m->given) LAM_TRY(w->m->given->looks(w->m->given, w));
    if (lam_model_memory_seen(w->m) && !w->table) {
        LAM_TRY(lam_memory_new(&o->use, w->m, w->e));
        LAM_TRY(lmi_take_held(w));
    }
    LAM_TRY(lmi_find_runs(w));
    LAM_TRY(lmi_keep_places(w));
    if (w->table) return LAM_OK;
    LAM_TRY(lmi_outline_sum(o, w->e));
    const lam_event *peak = o->memory ? lam_model_event(w->m, o->memory->peak_call) : NULL;
    if (peak) o->peak_place = lmi_place_for(w->of_place, peak->place);
    find_finding(w);
    LAM_TRY(lmi_take_notes(w));
    o->left_before = o->n_left;
    if (w->m->given) return w->m->given->rest(w->m->given, w, options);
    if (options->course) LAM_TRY(lmi_take_course(w));
    if (options->formulas) LAM_TRY(lmi_take_formulas(w));
    if (options->levels) LAM_TRY(lmi_take_levels(w));
    return options->drawn ? lmi_outline_draw(o, w->e) : LAM_OK;
}

lam_status lmi_outline_new(lmi_outline *o, const lam_costs *c, const lmi_outline_options *options,
                           lam_error *e) {
    lmi_filling w = {.o = o, .c = c, .m = c->model, .e = e, .table = options->table};
    *o = (lmi_outline){.peak_place = -1, .finding_place = -1, .backward_us = -1};
    lmi_arena_init(&o->arena, UINT64_MAX);
    lmi_arena_init(&w.scratch, UINT64_MAX);
    lmi_map_init(&w.texts);
    lmi_buf_init(&w.text);
    take_totals(o, c);
    take_times(o, c, options->roof);
    lam_status s = take(&w, options);
    lmi_buf_free(&w.text);
    lmi_map_free(&w.texts);
    lmi_arena_free(&w.scratch);
    return s;
}

void lmi_outline_free(lmi_outline *o) {
    lam_graph_free(o->graph);
    lam_memory_free(o->use);
    lam_health_free(o->looks);
    lam_costs_free(o->costs);
    lam_model_free(o->model);
    lmi_arena_free(&o->arena);
    *o = (lmi_outline){.peak_place = -1, .finding_place = -1, .backward_us = -1};
}

/* Writes the names from the last to the first, into room for all of them. */
void lmi_outline_path(const lmi_outline *o, int32_t place, lmi_buf *out) {
    size_t n = 0;
    for (int32_t i = place; i > 0; i = o->at[i].parent) n += strlen(o->at[i].name) + (o->at[i].parent > 0);
    lmi_pad(out, '.', n);
    if (n == 0 || out->bad) return;
    char *end = out->s + out->n;
    for (int32_t i = place; i > 0; i = o->at[i].parent) {
        size_t k = strlen(o->at[i].name);
        end -= k;
        memcpy(end, o->at[i].name, k);
        end--; /* the dot before it */
    }
}

void lmi_outline_label(const lmi_outline *o, int32_t place, lmi_buf *out) {
    if (place > 0)
        lmi_outline_path(o, place, out);
    else
        lmi_put(out, o->at[0].type);
}
