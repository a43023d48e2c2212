/* SPDX-License-Identifier: Apache-2.0
 *
 * The formulas behind the numbers of places, as `lamina why` has them: for each place those of its first
 * call. Equal blocks are kept once. Places with the most MACs come first, until the formulas are too
 * large. */
#include "analyse/cost/numbers.h"
#include "report/outline/work.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_BYTES = 500 * 1000, OF_GROUP = 12, OF_FORMULA = 24 }; /* approximate, as the page writes them */

typedef struct taking {
    lmi_filling *w;
    const lam_costs *c;
    lmi_map blocks, works; /* by the text of a block; by the operators that ran, to explain equal work once */
    lmi_vec all, groups, lines; /* lmi_formulas; for the current block: lmi_formula_group and its formulas */
    lmi_buf key;
    size_t bytes;
    int32_t dropped;
} taking;

typedef struct candidate {
    lam_count macs, flops;
    int32_t place, row;
} candidate;

static const char *keep_text(taking *t, const char *text) {
    size_t known = t->w->texts.n;
    const char *kept = lmi_take_text(t->w, text);
    if (t->w->texts.n > known) t->bytes += strlen(kept) + 3;
    return kept;
}

/* -- one block ------------------------------------------------------------------------------------------- */

static bool is_shown(lam_metric metric) {
    return metric == LAM_MACS || metric == LAM_FLOPS || metric == LAM_BYTES_READ ||
           metric == LAM_BYTES_WRITTEN;
}

/* False for a formula without effect. */
static bool tells(const lam_why *why) {
    return why->formula && strcmp(why->formula, "0") != 0 && !lmi_is_zero(why->value);
}

/* True if the formula is of the same operator as the previous line. */
static bool continues(const lmi_formula_group *g, const lam_why *why, const lam_why *last) {
    return g && last->op == why->op && last->phase == why->phase;
}

static lam_status add_line(taking *t, int32_t row, const lam_why *why, const lam_why *last) {
    lmi_formula_group *g = t->groups.n ? lmi_vec_at(&t->groups, t->groups.n - 1) : NULL;
    const lam_count v = why->value;
    if (!continues(g, why, last)) {
        g = lmi_vec_push(&t->groups);
        if (!g) return lmi_nomem(t->w->e);
        g->phase = (uint8_t)why->phase;
        g->n_equal = why->n_equal;
        const char *name = why->op >= 0 ? why->note : t->c->rows[row].rule_kind;
        g->name = keep_text(t, name ? name : "");
        if (!g->name) return lmi_nomem(t->w->e);
        lmi_putf(&t->key, "|%d %s %d", (int)g->phase, g->name, (int)g->n_equal);
    }
    lmi_outlined_formula *f = lmi_vec_push(&t->lines);
    if (!f) return lmi_nomem(t->w->e);
    g->n++;
    f->metric = why->metric;
    f->formula = keep_text(t, why->formula);
    f->filled = keep_text(t, why->substituted);
    f->value = v.state == LAM_UNKNOWN || v.over ? -1 : v.n;
    if (!f->formula || !f->filled) return lmi_nomem(t->w->e);
    lmi_putf(&t->key, "/%d %s=%s=%lld", (int)f->metric, f->formula, f->filled, (long long)f->value);
    return LAM_OK;
}

/* `lamina why` shows the sums over a row's operators above its formulas; here they are the numbers of its
 * place. */
static bool is_sum(const taking *t, const lam_why *why) {
    return why->op < 0 && lmi_by_ops(t->c) && why->formula && strncmp(why->formula, "the sum", 7) == 0;
}

static lam_status add_lines(taking *t, int32_t row, lmi_whys *whys) {
    lam_why why, last = {0};
    lam_error none = {0};
    t->groups.n = t->lines.n = 0;
    lmi_buf_clear(&t->key);
    for (int32_t i = 0;; i++) {
        if (!is_shown((lam_metric)(i % LAM_N_METRICS))) continue;
        lam_status s = lmi_whys_at(whys, i, &why, &none);
        if (s == LAM_RANGE) break;
        if (s != LAM_OK) return lmi_fail(t->w->e, s, none.where, "%s", none.text);
        if (!tells(&why) || is_sum(t, &why)) continue;
        LAM_TRY(add_line(t, row, &why, &last));
        last = why;
    }
    return lmi_buf_status(&t->key, t->w->e);
}

static lam_status make_block(taking *t, int32_t row) {
    lmi_whys *whys;
    LAM_TRY(lmi_whys_new(&whys, t->c, row, t->w->e));
    lam_status s = add_lines(t, row, whys);
    lmi_whys_free(whys);
    return s;
}

/* Moves the current block into the outline. */
static lam_status keep_block(taking *t) {
    lmi_arena *a = &t->w->o->arena;
    lmi_formulas *block = lmi_vec_push(&t->all);
    if (!block) return lmi_nomem(t->w->e);
    block->n = (int32_t)t->groups.n;
    block->at = lmi_copy(a, t->groups.data, t->groups.n, sizeof *block->at);
    lmi_outlined_formula *lines = lmi_copy(a, t->lines.data, t->lines.n, sizeof *lines);
    const char *key = lmi_strdup(&t->w->scratch, lmi_buf_text(&t->key));
    if (!block->at || !lines || !key) return lmi_nomem(t->w->e);
    for (int32_t i = 0; i < block->n; i++) {
        block->at[i].at = lines;
        lines += block->at[i].n;
    }
    t->bytes += t->groups.n * OF_GROUP + t->lines.n * OF_FORMULA;
    return lmi_map_put(&t->blocks, key, (int64_t)t->all.n - 1, t->w->e);
}

/* -- which places ------------------------------------------------------------------------------- */

/* True if the row is explained by its operators, false if by its layer as a whole. */
static bool by_ops(const taking *t, int32_t row) {
    const lam_cost_row *r = &t->c->rows[row];
    const lmi_call_cost *p = &t->c->prices[r->event];
    return lmi_by_ops(t->c) && r->counted && !p->custom && !(p->rule && p->rule->name);
}

/* Writes the work of a call as text: operators of one signature have one formula. False: nothing ran. */
static bool name_work(taking *t, int32_t event) {
    const lmi_op_costs *ops = &t->c->ops;
    int32_t first = event * LAM_N_PHASES;
    lmi_buf_clear(&t->key);
    for (int32_t p = 0; p < LAM_N_PHASES; p++) {
        lmi_putf(&t->key, "%d:", (int)p);
        for (int32_t i = ops->start[first + p]; i < ops->start[first + p + 1]; i++)
            lmi_putf(&t->key, "%d,", (int)t->c->model->ops[ops->work[i]].sig->index);
    }
    return ops->start[first] < ops->start[first + LAM_N_PHASES];
}

/* The index of the row's block, which is made if there is none yet; -1: the row has none. */
static lam_status find_block(taking *t, int32_t row, int64_t *block) {
    LAM_TRY(make_block(t, row));
    *block = lmi_map_get(&t->blocks, lmi_buf_text(&t->key));
    if (*block >= 0 || t->groups.n == 0) return LAM_OK;
    *block = (int64_t)t->all.n;
    return keep_block(t);
}

static lam_status take_place(taking *t, const candidate *k) {
    bool ops = by_ops(t, k->row), room = t->bytes <= MOST_BYTES;
    const char *work = NULL;
    int64_t block = -1;
    if (ops) {
        if (!name_work(t, t->c->rows[k->row].event)) return lmi_buf_status(&t->key, t->w->e);
        LAM_TRY(lmi_buf_status(&t->key, t->w->e));
        block = lmi_map_get(&t->works, t->key.s);
    }
    if (block < 0 && !room) {
        t->dropped++;
        return LAM_OK;
    }
    if (block < 0 && ops) {
        work = lmi_strdup(&t->w->scratch, t->key.s);
        if (!work) return lmi_nomem(t->w->e);
    }
    if (block < 0) LAM_TRY(find_block(t, k->row, &block));
    if (block >= 0 && work) LAM_TRY(lmi_map_put(&t->works, work, block, t->w->e));
    t->w->o->at[k->place].formulas = (int32_t)block;
    return LAM_OK;
}

static int most_first(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    double d = lmi_count_double(x->macs) - lmi_count_double(y->macs);
    if (d == 0) d = lmi_count_double(x->flops) - lmi_count_double(y->flops);
    if (d != 0) return d > 0 ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

/* The first call of each place that is shown by itself. */
static lam_status find_candidates(taking *t, candidate **out, size_t *n) {
    bool *seen = lmi_alloc(&t->w->scratch, (uint64_t)t->w->o->n, sizeof *seen);
    *out = lmi_alloc(&t->w->scratch, (uint64_t)t->w->o->n, sizeof **out);
    *n = 0;
    if (!seen || !*out) return lmi_nomem(t->w->e);
    for (int32_t r = 0; r < t->c->n_rows; r++) {
        const lam_cost_row *row = &t->c->rows[r];
        int32_t place = t->w->of_place[row->place];
        if (place < 0 || row->event < 0 || seen[place]) continue;
        seen[place] = true;
        if (!row->counted) continue; /* it only calls its layers */
        (*out)[(*n)++] = (candidate){row->metric[LAM_MACS], row->metric[LAM_FLOPS], place, r};
    }
    qsort(*out, *n, sizeof **out, most_first);
    return LAM_OK;
}

static lam_status take_all(taking *t) {
    candidate *all;
    size_t n;
    LAM_TRY(find_candidates(t, &all, &n));
    for (size_t i = 0; i < n; i++) LAM_TRY(take_place(t, &all[i]));
    t->w->o->n_formulas = (int32_t)t->all.n;
    t->w->o->formulas = lmi_copy(&t->w->o->arena, t->all.data, t->all.n, sizeof(lmi_formulas));
    if (!t->w->o->formulas) return lmi_nomem(t->w->e);
    if (!t->dropped) return LAM_OK;
    char text[160];
    snprintf(
        text, sizeof text,
        "Formulas of %d modules are left out, those with the fewest MACs; `lamina why PATH` prints them.",
        (int)t->dropped);
    return lmi_leave_out(t->w->o, t->w->e, text);
}

lam_status lmi_take_formulas(lmi_filling *w) {
    taking t = {.w = w, .c = w->c};
    lmi_map_init(&t.blocks);
    lmi_map_init(&t.works);
    lmi_vec_init(&t.all, sizeof(lmi_formulas));
    lmi_vec_init(&t.groups, sizeof(lmi_formula_group));
    lmi_vec_init(&t.lines, sizeof(lmi_outlined_formula));
    lmi_buf_init(&t.key);
    lam_status s = take_all(&t);
    lmi_map_free(&t.blocks);
    lmi_map_free(&t.works);
    lmi_vec_free(&t.all);
    lmi_vec_free(&t.groups);
    lmi_vec_free(&t.lines);
    lmi_buf_free(&t.key);
    return s;
}
