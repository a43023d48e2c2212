/* SPDX-License-Identifier: Apache-2.0
 *
 * Who slows a run of many ranks, as fields and as JSON. */
#include "report/ranks/ranks.h"
#include "report/tell/tell.h"

#include <math.h>

static void tell_number(lmi_teller *t, const char *name, double v) {
    if (isnan(v))
        tell_none(t, name);
    else
        tell_real(t, name, v);
}

static void tell_whole(lmi_teller *t, const char *name, int64_t n) {
    if (n == LAM_NOT_KNOWN)
        tell_none(t, name);
    else
        tell_int(t, name, n);
}

static void tell_rank_list(lmi_teller *t, const char *name, const int32_t *ranks, int32_t n) {
    tell_list(t, name);
    for (int32_t i = 0; i < n; i++) tell_int(t, NULL, ranks[i]);
    tell_list_end(t);
}

static void tell_since(lmi_teller *t, int64_t attempt, int64_t step, int64_t us) {
    if (step == LAM_NOT_KNOWN) {
        tell_none(t, "since");
        return;
    }
    tell_object(t, "since");
    tell_int(t, "attempt", attempt);
    tell_int(t, "step", step);
    tell_whole(t, "unix_us", us);
    tell_end(t);
}

/* In how many steps ranks with the same layers began other collectives, and which in the first of these. */
static void tell_unlike(lmi_teller *t, const lam_ranks *r) {
    const lmi_unlike *u = &r->unlike;
    if (!u->n_steps) {
        tell_none(t, "collectives");
        return;
    }
    tell_object(t, "collectives");
    tell_int(t, "steps", u->n_steps);
    tell_int(t, "unlike", u->n_unlike);
    tell_int(t, "attempt", u->attempt);
    tell_known(t, "step", u->step);
    tell_list(t, "groups");
    for (int32_t i = 0; i < u->n; i++) {
        tell_object(t, NULL);
        tell_int(t, "rank", u->of[i].first_rank);
        tell_int(t, "ranks", u->of[i].ranks);
        tell_int(t, "collectives", u->of[i].n);
        tell_end(t);
    }
    tell_list_end(t);
    tell_end(t);
}

void lmi_ranks_tell_verdict(lmi_teller *t, const lam_ranks *r) {
    const lam_rank_verdict *v = &r->verdict;
    tell_object(t, "verdict");
    tell_text(t, "kind", lam_rank_kind_name(v->kind));
    tell_rank_list(t, "ranks", v->ranks, v->n_ranks);
    lmi_tell_sentences(t, "nodes", v->n_nodes, v->nodes);
    tell_text(t, "phase", v->phase);
    tell_text(t, "layer", v->layer);
    tell_text(t, "ended_by", v->ended_by);
    tell_text(t, "ran_last", v->ran_last);
    tell_number(t, "gain", v->gain);
    tell_since(t, v->since_attempt, v->since_step, v->since_us);
    tell_number(t, "late", v->late);
    tell_number(t, "excess_us", v->excess_us);
    tell_number(t, "step_us", v->step_us);
    tell_number(t, "without_us", v->without_us);
    tell_text(t, "abstains", v->abstains);
    lmi_tell_sentences(t, "notes", v->n_notes, v->notes);
    tell_rank_list(t, "watch", v->watch, v->n_watch);
    tell_unlike(t, r);
    tell_end(t);
}

static void tell_phases(lmi_teller *t, const lam_ranks *r, const lmi_phases *rows, int32_t n) {
    tell_list(t, "phases");
    for (int32_t i = 0; i < n; i++) {
        const lmi_phases *p = &rows[i];
        tell_object(t, NULL);
        tell_known(t, "rank", p->rank);
        tell_text(t, "node", p->node < 0 ? NULL : lmi_ranks_node_name(r, p->node));
        for (int k = 0; k < LMI_N_US; k++) tell_number(t, lmi_us_names[k], p->of[k]);
        tell_end(t);
    }
    tell_list_end(t);
}

static void begin_window(lmi_teller *t, const lmi_win *w) {
    if (t->json) lmi_tell_line(t);
    tell_object(t, NULL);
    tell_int(t, "attempt", w->attempt);
    tell_int(t, "step", w->first_step);
    tell_whole(t, "unix_us", w->started);
}

static void tell_windows(lmi_teller *t, const lam_ranks *r) {
    tell_list(t, "windows");
    for (int32_t i = 0; i < r->n_wins; i++) {
        const lmi_win *w = &r->wins[i];
        begin_window(t, w);
        tell_number(t, "step_us", w->step);
        tell_number(t, "own_us", w->own);
        tell_number(t, "late_us", w->late);
        tell_number(t, "transfer_us", w->transfer);
        tell_end(t);
    }
    tell_list_end(t);
}

static void tell_last(lmi_teller *t, const lam_ranks *r) {
    tell_list(t, "last");
    for (int32_t i = 0; i < r->n_lasts; i++) {
        tell_object(t, NULL);
        tell_int(t, "rank", r->lasts[i].rank);
        tell_int(t, "steps", r->lasts[i].steps);
        tell_end(t);
    }
    tell_list_end(t);
}

static void tell_look_windows(lmi_teller *t, const lam_ranks *r) {
    tell_list(t, "windows");
    for (int32_t i = 0; i < r->n_wins; i++) {
        const lmi_look_win *w = &r->look.wins[i];
        begin_window(t, &r->wins[i]);
        tell_number(t, "own_us", w->own);
        tell_number(t, "peer_us", w->peer);
        tell_number(t, "late", w->late);
        tell_number(t, "comm_us", w->waits);
        tell_end(t);
    }
    tell_list_end(t);
}

/* A rank or a node beside its peers. */
static void tell_look(lmi_teller *t, const lam_ranks *r) {
    const lmi_look *k = &r->look;
    if (!k->n_ranks) {
        tell_none(t, "of");
        return;
    }
    tell_object(t, "of");
    tell_known(t, "rank", k->rank);
    tell_text(t, "node",
              k->node >= 0 ? lmi_ranks_node_name(r, k->node)
              : k->fact    ? lmi_ranks_node_name(r, k->fact->node)
                           : NULL);
    tell_int(t, "ranks", k->n_ranks);
    tell_int(t, "peers", k->n_peers);
    tell_truth(t, "alike", k->alike);
    tell_int(t, "late_ranks", k->n_late);
    tell_number(t, "late", k->late);
    tell_since(t, k->since_attempt, k->since_step, k->since_us);
    tell_int(t, "last", k->last_in);
    tell_whole(t, "seen_us", k->fact ? k->fact->seen : LAM_NOT_KNOWN);
    tell_whole(t, "run_seen_us", k->seen);
    tell_whole(t, "ended_us", k->fact ? k->fact->ended : LAM_NOT_KNOWN);
    tell_text(t, "ended_by", k->fact ? k->fact->ended_by : NULL);
    tell_phases(t, r, k->rows, k->n_rows);
    tell_look_windows(t, r);
    tell_end(t);
}

static void tell_layers(lmi_teller *t, const lam_ranks *r) {
    const lmi_look *k = &r->look;
    if (!k->has_layers) {
        tell_none(t, "layers");
        return;
    }
    tell_list(t, "layers");
    for (int32_t i = 0; i < k->n_layers; i++) {
        if (t->json) lmi_tell_line(t);
        tell_object(t, NULL);
        tell_text(t, "layer", k->layers[i].name);
        tell_known(t, "rank", k->layers[i].rank);
        tell_number(t, "own_us", k->layers[i].own);
        tell_number(t, "peer_us", k->layers[i].peer);
        tell_end(t);
    }
    tell_list_end(t);
}

static void tell_fields(lmi_teller *t, const lam_ranks *r) {
    lmi_ranks_tell_verdict(t, r);
    tell_int(t, "world", r->world);
    tell_int(t, "ranks", r->n_ranks);
    tell_int(t, "nodes", r->n_nodes);
    tell_int(t, "attempts", r->attempts);
    tell_int(t, "steps", r->n_steps);
    tell_number(t, "step_us", r->mean_step);
    tell_number(t, "late_us", r->mean_late);
    tell_number(t, "transfer_us", r->mean_transfer);
    tell_number(t, "mfu", r->mfu);
    tell_number(t, "hfu", r->hfu);
    tell_truth(t, "mfu_at_least", r->mfu_at_least && !isnan(r->mfu));
    tell_text(t, "why_mfu", r->why_mfu);
    tell_phases(t, r, r->phases, r->n_phases);
    tell_last(t, r);
    tell_windows(t, r);
    tell_look(t, r);
    tell_layers(t, r);
}

void lam_ranks_tell(const lam_ranks *r, lam_receiver to) {
    lmi_teller t = lmi_tell_to(to);
    tell_object(&t, "ranks");
    tell_fields(&t, r);
    tell_end(&t);
}

void lmi_ranks_json(const lam_ranks *r, lmi_buf *out) {
    lmi_teller t = lmi_tell_json(out);
    lmi_tell_document(&t, "ranks", 1);
    tell_fields(&t, r);
    tell_end(&t);
    lmi_putc(out, '\n');
}
