/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters and buffers: the row that shows a tensor. */
#include "analyse/cost/work.h"

static void count_into(lam_count *to, lam_count n) { *to = lmi_count_add(*to, n); }

/* A sum with an unknown part is a lower bound. */
static void add_bytes(lam_count *to, int64_t bytes) {
    count_into(to, lmi_count_of(bytes));
    if (to->state == LAM_UNKNOWN && (to->n > 0 || to->over > 0)) to->state = LAM_AT_LEAST;
}

static bool is_running_stat(const char *name) {
    return name && (strcmp(name, "running_mean") == 0 || strcmp(name, "running_var") == 0);
}

static void count_tensor(const lmi_work *w, const lam_owned *o, lam_cost_row *row) {
    const lam_tensor *t = &w->m->tensors[o->tensor];
    lam_count n = lmi_count_of(t->numel), bytes = lmi_count_of(t->bytes);
    if (t->packed) {
        count_into(&row->packed, n);
        count_into(&row->packed_bytes, bytes);
        if (!lmi_counts_packed(w->c)) return;
    } else if (o->is_buffer) {
        count_into(&row->buffers, n);
        count_into(&row->buffer_bytes, bytes);
        if (is_running_stat(o->name)) count_into(&row->running_stats, n);
        return;
    }
    count_into(&row->params, n);
    if (w->m->trainable_unknown) /* which ones are trained is known of a live model alone */
        row->grad_params = row->nograd_params = lmi_unknown();
    else
        count_into(t->requires_grad ? &row->grad_params : &row->nograd_params, n);
    count_into(&row->local_params, lmi_count_of(t->numel < 0 ? -1 : t->numel - t->elsewhere));
    add_bytes(&row->param_bytes, t->bytes);
    add_bytes(&row->logical_bytes, lmi_logical_bytes(t));
    add_bytes(&row->local_bytes, t->local_bytes);
}

/* -- each tensor in one row -------------------------------------------------------------------- */

/* Counts the tensors of module `mod` that no row has counted yet in row number `r`. */
static void claim_own(lmi_work *w, int32_t mod, int32_t r) {
    const lam_module *mo = &w->m->modules[mod];
    lam_cost_row *row = &w->c->rows[r];
    for (int32_t i = 0; i < mo->n_owned; i++) {
        int32_t *claimed = &w->claimed[mo->owned[i].tensor];
        if (*claimed == 0) {
            *claimed = r + 1;
            count_tensor(w, &mo->owned[i], row);
        } else if (*claimed != r + 1) {
            row->shared = true;
        }
    }
}

/* The same for all modules under the row's place, if none of them was called: they have no rows. */
static void claim_below(lmi_work *w, int32_t r) {
    const lmi_tree *t = &w->tree;
    int32_t place = w->c->rows[r].place;
    for (int32_t pos = t->pre[place]; pos < t->pre[place] + t->size[place]; pos++) {
        int32_t mod = w->m->places[t->order[pos]].module;
        if (w->m->modules[mod].n_calls == 0) claim_own(w, mod, r);
    }
}

/* Counts the tensors of leaves and of modules whose inside is not visible, in the order of the rows. */
static void first_seen(lmi_work *w) {
    for (int32_t r = 0; r < w->c->n_rows; r++) {
        const lam_cost_row *row = &w->c->rows[r];
        bool sealed = row->event >= 0 && lmi_is_opaque_call(w->m, &w->m->events[row->event]);
        if (row->leaf || sealed) claim_own(w, row->module, r);
        if (sealed) claim_below(w, r);
    }
}

/* Called modules come first, so that a tensor of a called layer is not shown under one that was never
 * called. */
static void distinct(lmi_work *w) {
    lam_costs *c = w->c;
    for (int32_t r = 0; r < c->n_rows; r++)
        if (c->rows[r].event >= 0) claim_own(w, c->rows[r].module, r);
    for (int32_t r = 0; r < c->n_rows; r++) {
        const lam_cost_row *row = &c->rows[r];
        if (lmi_is_outside(row)) continue; /* the root's tensors are in the root's own row */
        bool whole =
            row->never_called || (row->event == w->tree.first_event[row->place] && lmi_covers(w, row->place));
        if (row->event < 0 && (w->tree.live[row->place] || w->m->described))
            claim_own(w, row->module, r);
        else if (row->event < 0 || whole)
            claim_below(w, r);
    }
}

/* Counts all tensors in a row's module: each once in a row, but again in other rows that hold it. */
static lam_status of_module(lmi_work *w, lam_error *e) {
    const lmi_tree *t = &w->tree;
    int32_t *stamp = lmi_alloc(&w->scratch, (uint64_t)w->m->n_tensors, sizeof *stamp);
    if (!stamp) return lmi_nomem(e);
    for (int32_t r = 0; r < w->c->n_rows; r++) {
        int32_t place = w->c->rows[r].place;
        for (int32_t pos = t->pre[place]; pos < t->pre[place] + t->size[place]; pos++) {
            const lam_module *mod = &w->m->modules[w->m->places[t->order[pos]].module];
            for (int32_t i = 0; i < mod->n_owned; i++) {
                int32_t *seen = &stamp[mod->owned[i].tensor];
                if (*seen == r + 1) continue;
                if (*seen > 0) w->c->rows[r].shared = true;
                *seen = r + 1;
                count_tensor(w, &mod->owned[i], &w->c->rows[r]);
            }
        }
    }
    return LAM_OK;
}

/* -- the whole model --------------------------------------------------------------------------- */

static lam_status whole_model(lmi_work *w, lam_error *e) {
    const lam_model *m = w->m;
    bool *seen = lmi_alloc(&w->scratch, (uint64_t)m->n_tensors, sizeof *seen);
    if (!seen) return lmi_nomem(e);
    lam_cost_row all = {0};
    for (int32_t i = 0; i < m->n_modules; i++) {
        for (int32_t k = 0; k < m->modules[i].n_owned; k++) {
            const lam_owned *o = &m->modules[i].owned[k];
            if (!seen[o->tensor]) count_tensor(w, o, &all);
            seen[o->tensor] = true;
        }
    }
    w->c->params = (lam_param_totals){.params = all.params,
                                      .grad_params = all.grad_params,
                                      .nograd_params = all.nograd_params,
                                      .param_bytes = all.param_bytes,
                                      .logical_bytes = all.logical_bytes,
                                      .buffers = all.buffers,
                                      .buffer_bytes = all.buffer_bytes,
                                      .packed = all.packed,
                                      .packed_bytes = all.packed_bytes,
                                      .local_params = all.local_params,
                                      .local_bytes = all.local_bytes};
    return LAM_OK;
}

/* torch.nn.utils.prune keeps the whole weight as `weight_orig` beside a buffer `weight_mask`. */
static bool any_pruned(const lam_model *m) {
    for (int32_t i = 0; i < m->n_modules; i++)
        for (int32_t k = 0; k < m->modules[i].n_owned; k++) {
            const lam_owned *o = &m->modules[i].owned[k];
            size_t n = strlen(o->name);
            if (!o->is_buffer && n >= 5 && strcmp(o->name + n - 5, "_orig") == 0) return true;
        }
    return false;
}

lam_status lmi_params(lmi_work *w, lam_error *e) {
    lam_costs *c = w->c;
    w->claimed = lmi_alloc(&w->scratch, (uint64_t)w->m->n_tensors, sizeof *w->claimed);
    if (!w->claimed) return lmi_nomem(e);
    if (!c->released || w->cv->params >= LMI_DISTINCT)
        distinct(w);
    else if (w->cv->params == LMI_FIRST_SEEN)
        first_seen(w);
    else
        LAM_TRY(of_module(w, e));
    LAM_TRY(whole_model(w, e));
    for (int32_t r = 0; r < c->n_rows; r++)
        c->params.in_rows = lmi_count_add(c->params.in_rows, c->rows[r].params);
    if (w->cv->params == LMI_TRAINABLE) c->params.in_rows = c->params.grad_params;
    if (w->cv->params == LMI_KEPT && any_pruned(w->m)) c->params.in_rows = lmi_unknown();
    return LAM_OK;
}
