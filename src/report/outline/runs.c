/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs of equal siblings: at least two in a row that have equal types, shapes, counts and insides, and names
 * that count on, such as "layer2" and "layer3". Tables, pictures and the page's script fold these and no
 * others. Each place has a key of its contents, children first, so that nothing is compared twice and nothing
 * recurs. Measured times are not compared: they always differ. Memory and receptive fields are compared where
 * a table shows them, for it shows those of the first. */
#include "report/outline/work.h"

size_t lmi_stem(const char *name) {
    size_t n = strlen(name);
    while (n > 0 && name[n - 1] >= '0' && name[n - 1] <= '9') n--;
    return n;
}

/* True for "layer3" after "layer2". The numbers are compared as text: they may have any length. */
static bool follows(const char *name, const char *after) {
    size_t stem = lmi_stem(after), n = strlen(after);
    char next[64];
    if (n == stem || n >= sizeof next - 1) return false;
    memcpy(next, after, n + 1);
    size_t i = n;
    while (i > stem && next[i - 1] == '9') next[--i] = '0';
    if (i > stem) {
        next[i - 1]++;
    } else {
        memmove(next + stem + 1, next + stem, n - stem + 1);
        next[stem] = '1';
    }
    return strcmp(name, next) == 0;
}

int32_t lmi_run_last(const lmi_outline_place *at, int32_t first) {
    int32_t last = first;
    for (int32_t k = 1; k < at[first].n_run; k++) last = at[last].end;
    return last;
}

int32_t lmi_run_end(const lmi_outline_place *at, int32_t first) { return at[lmi_run_last(at, first)].end; }

static void mark_runs(lmi_outline_place *at, const uint64_t *key, int32_t parent) {
    for (int32_t first = parent + 1; first < at[parent].end;) {
        int32_t n = 1, last = first, next = at[first].end;
        while (next < at[parent].end && key[next] == key[first] && follows(at[next].name, at[last].name)) {
            at[next].run = first;
            last = next;
            next = at[next].end;
            n++;
        }
        at[first].n_run = n;
        first = next;
    }
}

static void find_runs(lmi_outline_place *at, uint64_t *key, int32_t n) {
    for (int32_t i = n - 1; i >= 0; i--) {
        const lmi_outline_place *p = &at[i];
        const uint64_t looks = p->state | p->family << 8 | p->health[0] << 16 | p->health[1] << 20;
        key[i] = lmi_mix_text(lmi_mix_text(lmi_mix_text(lmi_mix(key[i], looks), p->type), p->in), p->out);
        for (int32_t k = i + 1; k < p->end; k = at[k].end)
            key[i] = lmi_mix(lmi_mix_text(key[i], at[k].name), key[k]);
    }
    for (int32_t i = 0; i < n; i++)
        if (at[i].n_children > 1) mark_runs(at, key, i);
}

/* -- of costs -------------------------------------------------------------------------------------------- */

static uint64_t add_count(uint64_t key, lam_count n) {
    return lmi_mix(lmi_mix(key, (uint64_t)n.n), (uint64_t)n.over << 32 | (uint32_t)n.state);
}

/* The metrics of a row before, and their hash: rows without a call share theirs. */
typedef struct known_metrics {
    const lam_count *of;
    uint64_t hash;
} known_metrics;

/* All counts of a row. */
static uint64_t add_row(uint64_t key, const lam_cost_row *r, bool back, known_metrics *known) {
#define OWNED(member, name, when, otherwise, csv, form) key = add_count(key, r->member);
#include "report/numbers/row.def"
    if (r->metric != known->of)
        *known = (known_metrics){r->metric, lmi_hash(r->metric, LAM_N_METRICS * sizeof *r->metric)};
    key = lmi_mix(key, known->hash);
    if (!back) return key; /* they are zero */
    key = lmi_mix(key, lmi_hash(r->phases->backward, sizeof r->phases->backward));
    return lmi_mix(key, lmi_hash(r->phases->recompute, sizeof r->phases->recompute));
}

static uint64_t add_field(uint64_t key, const lam_cost_row *r) {
    const uint64_t state = r->rf_state | r->rf_at_most << 8 | r->rf_whole << 9;
    return lmi_mix(lmi_mix(key, lmi_hash(&r->rf, sizeof r->rf)), state);
}

/* Shared modules and parameters: a place that is tied to another is not equal to one that is not. */
static uint64_t add_ties(uint64_t key, const lam_model *m, int32_t place) {
    const int32_t module = m->places[place].module;
    const lam_module *mod = &m->modules[module];
    if (mod->n_places > 1 && mod->places[0] != place) return lmi_mix(key, (uint64_t)module);
    for (int32_t i = 0; i < mod->n_owned; i++) {
        const int32_t tensor = mod->owned[i].tensor, owner = m->tensors[tensor].owner;
        if (owner >= 0 && owner != module) key = lmi_mix(key, (uint64_t)tensor);
    }
    return key;
}

static uint64_t add_use(uint64_t key, const lam_memory *y, int32_t place) {
    const lam_memory_row *row = y ? lam_memory_place(y, place) : NULL;
    const int64_t *held = y ? lam_memory_held_below(y, place) : NULL;
    for (int p = 0; row && p < LAM_N_PHASES; p++) {
        const int64_t use[] = {row->total[p].allocated, row->total[p].retained, row->total[p].peak};
        key = lmi_mix(key, lmi_hash(use, sizeof use));
    }
    return held ? lmi_mix(key, lmi_hash(held, LAM_N_HELD * sizeof *held)) : key;
}

lam_status lmi_find_runs(lmi_filling *w) {
    const lmi_job *j = w->table;
    known_metrics known = {0};
    uint64_t *key = lmi_alloc(&w->scratch, (uint64_t)w->n, sizeof *key);
    if (!key) return lmi_nomem(w->e);
    for (int32_t r = 0; r < w->c->n_rows; r++) {
        const lam_cost_row *row = &w->c->rows[r];
        const int32_t i = w->of_place[row->place];
        key[i] = add_row(key[i], row, w->c->ops.back, &known);
        if (j && j->o->receptive_field && w->call[i] == lam_model_event(w->m, row->event))
            key[i] = add_field(key[i], row);
    }
    for (int32_t i = 0; i < w->n && w->m->n_places > 0; i++) {
        const char *path = w->m->modules[w->m->places[w->place[i]].module].type_path;
        key[i] = add_ties(lmi_mix_text(key[i], path ? path : ""), w->m, w->place[i]);
        key[i] = lmi_mix(key[i], (uint64_t)w->own[LMI_OWN_CALLS][i]);
        if (j && j->o->memory)
            key[i] = add_use(add_use(key[i], j->memory, w->place[i]), j->device_memory, w->place[i]);
    }
    find_runs(w->at, key, w->n);
    return LAM_OK;
}

/* -- of a difference ------------------------------------------------------------------------------------- */

static bool is_measured(int k) {
    return k == LMI_OWN_TIME || k == LMI_OWN_BACK_TIME || k == LMI_OWN_TOTAL_TIME || k == LMI_OWN_ALLOCATED ||
           k == LMI_OWN_RETAINED || k == LMI_OWN_PEAK || k == LMI_OWN_HELD;
}

static uint64_t add_counts(uint64_t key, const lmi_outline *o, int32_t i) {
    for (int k = 0; k < LMI_N_OWN && i >= 0; k++) {
        if (is_measured(k) || !o->own[k]) continue;
        key = lmi_mix(key, (uint64_t)o->own[k][i]);
        if (o->state[k]) key = lmi_mix(key, o->state[k][i]);
    }
    return lmi_mix(key, i >= 0);
}

lam_status lmi_find_runs_of_both(lmi_outline *o, lam_error *e) {
    uint64_t *key = lmi_alloc(&o->arena, (uint64_t)o->n, sizeof *key);
    if (!key) return lmi_nomem(e);
    for (int32_t i = 0; i < o->n; i++) {
        key[i] = lmi_mix(o->change[i] | o->differs[i] << 8, lmi_outline_moved(o, i));
        key[i] = add_counts(add_counts(key[i], o->was, o->was_at[i]), o, o->now_at[i] < 0 ? -1 : i);
    }
    find_runs(o->at, key, o->n);
    return LAM_OK;
}
