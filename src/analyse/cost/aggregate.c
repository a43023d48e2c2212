/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows below a depth summed into the row at that depth, as torchscan 0.1.2's aggregate_info does. */
#include "analyse/cost/numbers.h"

static void add(lam_count *to, lam_count n) { *to = lmi_settled(lam_count_add(*to, n)); }

/* `metric`: those of `to`. */
static void add_row(lam_cost_row *to, lam_count *metric, const lam_cost_row *from) {
    for (int i = 0; i < LAM_N_METRICS; i++) add(&metric[i], from->metric[i]);
    add(&to->params, from->params);
    add(&to->grad_params, from->grad_params);
    add(&to->nograd_params, from->nograd_params);
    add(&to->param_bytes, from->param_bytes);
    add(&to->logical_bytes, from->logical_bytes);
    add(&to->local_params, from->local_params);
    add(&to->local_bytes, from->local_bytes);
    add(&to->buffers, from->buffers);
    add(&to->buffer_bytes, from->buffer_bytes);
    add(&to->packed, from->packed);
    add(&to->packed_bytes, from->packed_bytes);
    add(&to->running_stats, from->running_stats);
    if (!to->reason) to->reason = from->reason;
    to->counted = to->counted || from->counted;
}

/* Sums the rows after row `at` that are deeper than it. A container whose children never ran keeps its own
 * numbers. */
static lam_status gather(lam_costs *c, int32_t at, int32_t max_depth, lam_error *e) {
    lam_cost_row *row = &c->rows[at];
    lam_count *metric = lmi_copy(&c->arena, row->metric, LAM_N_METRICS, sizeof *metric);
    if (!metric) return lmi_nomem(e);
    row->metric = metric;
    for (int32_t i = at + 1; i < c->n_rows && c->rows[i].depth > max_depth; i++) {
        const lam_cost_row *below = &c->rows[i];
        add_row(row, metric, below);
        if (c->rf_backwards && i > at + 1) continue;
        row->rf = below->rf;
        row->rf_stride = below->rf_stride;
        row->rf_padding = below->rf_padding;
        row->rf_state = below->rf_state;
    }
    return LAM_OK;
}

static bool has_depth(const lam_costs *c, int32_t depth, int32_t *deepest) {
    bool found = false;
    *deepest = 0;
    for (int32_t i = 0; i < c->n_rows; i++) {
        if (c->rows[i].depth == depth) found = true;
        if (c->rows[i].depth > *deepest) *deepest = c->rows[i].depth;
    }
    return found;
}

lam_status lam_costs_aggregate(lam_costs *c, int32_t max_depth, lam_error *e) {
    int32_t deepest;
    LAM_TRY(lmi_rows_need(c, e));
    if (c->model->given) return lmi_needs_run(c->model, "a sum over deeper rows", e);
    if (c->n_rows == 0)
        return lmi_fail(e, LAM_USAGE, "max_depth", "there is no row to aggregate; no layer was called");
    if (!has_depth(c, max_depth, &deepest)) {
        const char *where = max_depth < 0 ? "above" : "beyond";
        return lmi_fail(e, LAM_USAGE, NULL,
                        "max_depth=%d is %s the tree: the deepest layer has depth %d; pass 0 to %d",
                        (int)max_depth, where, (int)deepest, (int)deepest);
    }
    int32_t kept = 0;
    for (int32_t i = 0; i < c->n_rows; i++) {
        if (c->rows[i].depth > max_depth) continue;
        if (c->rows[i].depth == max_depth && !c->rows[i].leaf) LAM_TRY(gather(c, i, max_depth, e));
        c->rows[kept++] = c->rows[i];
    }
    c->n_rows = kept;
    return LAM_OK;
}
