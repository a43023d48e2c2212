/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers of recordings held against limits. */
#include "report/budget/budget.h"

enum { MOST_NOTES = 64 };

bool lmi_is_limited(const lam_budget *b, lmi_figure of) { return b->limits[of]; }

static bool keep_names(lam_check *k, lmi_limit_result *h, const lmi_held *held) {
    int32_t *ranks = lmi_alloc(&k->arena, (uint64_t)held->n_ranks, sizeof *ranks);
    h->nodes = lmi_alloc(&k->arena, (uint64_t)held->n_nodes, sizeof *h->nodes);
    if (!ranks || !h->nodes) return false;
    for (int32_t i = 0; i < held->n_ranks; i++) ranks[h->n_ranks++] = held->ranks[i];
    h->ranks = ranks;
    for (int32_t i = 0; i < held->n_nodes; i++) {
        h->nodes[i] = lmi_strdup(&k->arena, held->nodes[i]);
        if (!h->nodes[i]) return false;
        h->n_nodes++;
    }
    return true;
}

static bool keep_text(lam_check *k, const char *text, const char **to) {
    if (text) *to = lmi_strdup(&k->arena, text);
    return !text || *to;
}

lam_status lmi_check_hold(lam_check *k, const lam_budget *b, lmi_figure of, const lmi_held *held,
                          lam_error *e) {
    if (!k->at) k->at = lmi_alloc(&k->arena, LMI_N_FIGURES, sizeof *k->at);
    if (!k->at) return lmi_nomem(e);
    lmi_limit_result *h = &k->at[k->n];
    *h = (lmi_limit_result){.of = &lmi_figures[of], .now = held->now, .most = b->most[of]};
    h->text = lmi_strdup(&k->arena, b->text[of]);
    if (!h->text || !keep_text(k, held->why, &h->why) || !keep_text(k, held->said, &h->said) ||
        !keep_names(k, h, held))
        return lmi_nomem(e);
    k->n++;
    lmi_limit_judge(k, b, h);
    if (h->verdict == LAM_WITHIN) h->said = NULL; /* `lamina show` has it */
    return LAM_OK;
}

lam_status lmi_check_note(lam_check *k, const char *sentence, lam_error *e) {
    if (!k->note) k->note = lmi_alloc(&k->arena, MOST_NOTES, sizeof *k->note);
    const char *kept = k->note ? lmi_strdup(&k->arena, sentence) : NULL;
    if (!kept) return lmi_nomem(e);
    if (k->n_notes < MOST_NOTES) k->note[k->n_notes++] = kept;
    return LAM_OK;
}
