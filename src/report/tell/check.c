/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of a check: totals, their limits, and the layers that made one exceed its limit. */
#include "report/budget/budget.h"
#include "report/tell/tell.h"

static void tell_part(lmi_teller *t, const lmi_limit_result *h, const lmi_growth *p) {
    tell_object(t, NULL);
    tell_text(t, "path", p->path);
    tell_text(t, "type", p->type);
    tell_text(t, "change", p->change == LMI_ADDED ? "added" : p->change == LMI_CHANGED ? "changed" : NULL);
    if (p->change)
        tell_int(t, "was", p->was);
    else
        tell_none(t, "was");
    tell_int(t, "now", p->now);
    tell_list(t, "operators");
    for (int i = 0; i < p->n_ops; i++) {
        tell_object(t, NULL);
        tell_text(t, "name", p->op[i].name);
        tell_int(t, "runs", p->op[i].n);
        tell_int(t, h->of->name, p->op[i].value);
        tell_end(t);
    }
    tell_list_end(t);
    tell_end(t);
}

static lam_count limit_of(const lmi_limit_result *h) {
    if (h->is_change && h->was.state == LAM_UNKNOWN) return lmi_unknown();
    return lmi_of_wide(h->most);
}

static void tell_limit(lmi_teller *t, const lmi_limit_result *h) {
    static const char *const units[] = {"count", "bytes", "ns", "ppm"};
    tell_object(t, NULL);
    tell_text(t, "metric", h->of->name);
    tell_text(t, "unit", units[h->of->unit]);
    tell_text(t, "verdict", lam_verdict_name(h->verdict));
    lmi_tell_count(t, "now", h->now);
    lmi_tell_count(t, "most", limit_of(h));
    if (h->is_change) {
        lmi_tell_count(t, "was", h->was);
        tell_real(t, "within", h->within);
    } else {
        tell_none(t, "was");
        tell_none(t, "within");
    }
    tell_text(t, "reason", h->why);
    tell_list(t, "layers");
    for (int32_t i = 0; i < h->n_parts; i++) tell_part(t, h, &h->part[i]);
    tell_list_end(t);
    tell_int(t, "more_layers", h->n_more);
    tell_text(t, "said", h->said);
    tell_list(t, "ranks");
    for (int32_t i = 0; i < h->n_ranks; i++) tell_int(t, NULL, h->ranks[i]);
    tell_list_end(t);
    lmi_tell_sentences(t, "nodes", h->n_nodes, h->nodes);
    tell_end(t);
}

void lmi_check_fields(lmi_teller *t, const lam_check *k) {
    tell_object(t, NULL);
    tell_text(t, "target", k->name);
    tell_text(t, "verdict", lam_verdict_name(k->verdict));
    tell_text(t, "error", k->error);
    tell_text(t, "convention", k->convention);
    tell_list(t, "limits");
    for (int32_t i = 0; i < k->n; i++) tell_limit(t, &k->at[i]);
    tell_list_end(t);
    lmi_tell_sentences(t, "gaps", k->n_gaps, k->gap);
    lmi_tell_sentences(t, "notes", k->n_notes, k->note);
    tell_end(t);
}

void lam_check_tell(const lam_check *k, lam_receiver to) {
    lmi_teller t = lmi_tell_to(to);
    lmi_check_fields(&t, k);
}
