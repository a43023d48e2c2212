/* SPDX-License-Identifier: Apache-2.0
 *
 * A language model in tokens, as fields. */
#include "report/table/tokens.h"
#include "report/tell/tell.h"

/* For each token: unknown unless the number and the tokens are known. */
static void tell_each(lmi_teller *t, const char *name, lam_count n, int64_t tokens) {
    tell_known_real(t, name,
                    n.state == LAM_UNKNOWN || tokens < 1 ? -1 : lmi_count_double(n) / (double)tokens);
}

static void tell_cost(lmi_teller *t, const lam_token_cost *s) {
    lmi_tell_count(t, "macs", s->macs.executed);
    lmi_tell_count(t, "effective_macs", s->macs.effective);
    lmi_tell_count(t, "model_macs", s->macs.model);
    lmi_tell_count(t, "flops", s->flops);
    lmi_tell_count(t, "weights", s->weights);
    lmi_tell_count(t, "weights_most", s->weights_most);
    lmi_tell_count(t, "cache", s->cache_read);
}

static void tell_stage(lmi_teller *t, const lam_tokens *x, lam_stage which) {
    const lam_token_stage *s = &x->stage[which];
    tell_object(t, lam_stage_name(which));
    tell_int(t, "calls", s->calls);
    tell_known(t, "tokens", s->tokens);
    tell_known(t, "pads", s->pads);
    tell_cost(t, &s->cost);
    tell_text(t, "why_model", s->why_model);
    tell_object(t, "a_token");
    tell_each(t, "macs", s->cost.macs.executed, s->tokens);
    tell_each(t, "effective_macs", s->cost.macs.effective, s->tokens);
    tell_each(t, "model_macs", s->cost.macs.model, s->tokens);
    tell_each(t, "flops", s->cost.flops, s->tokens);
    tell_each(t, "weights", s->cost.weights, s->tokens);
    tell_each(t, "cache", s->cost.cache_read, s->tokens);
    tell_end(t);
    tell_end(t);
}

static void tell_step(lmi_teller *t, const lam_token_step *s) {
    tell_object(t, NULL);
    tell_text(t, "stage", lam_stage_name(s->stage));
    tell_int(t, "step", s->step);
    tell_known(t, "call", s->event);
    tell_known(t, "batch", s->batch);
    tell_known(t, "new", s->fresh);
    tell_known(t, "keys", s->keys);
    tell_known(t, "pads", s->pads);
    tell_cost(t, &s->cost);
    lmi_tell_count(t, "held", s->cache);
    tell_known(t, "experts_least", s->experts_least);
    tell_known(t, "experts_most", s->experts_most);
    tell_end(t);
}

static void tell_params(lmi_teller *t, const lam_token_params *p) {
    tell_object(t, "params");
    lmi_tell_count(t, "total", p->total);
    lmi_tell_count(t, "active", p->active);
    lmi_tell_count(t, "active_matrix", p->active_matrix);
    tell_int(t, "experts", p->experts);
    tell_int(t, "routed", p->routed);
    tell_int(t, "layers", p->layers);
    tell_end(t);
}

static lam_count held_last(const lam_tokens *x) {
    for (int32_t i = x->n_steps - 1; i >= 0; i--)
        if (x->steps[i].cache.state == LAM_EXACT) return x->steps[i].cache;
    return lmi_unknown();
}

static void tell_cache(lmi_teller *t, const lam_tokens *x) {
    const lam_token_cache *c = &x->cache;
    tell_object(t, "cache");
    tell_text(t, "kind", lmi_cache_kind(x));
    tell_text(t, "dtype", c->dtype >= 0 ? lam_dtype_name(c->dtype) : NULL);
    const bool known = (c->seen && (!c->gap || c->n_pieces)) || x->cacheless;
    tell_known(t, "fixed", known ? c->fixed : -1);
    tell_known(t, "shared", known ? c->shared : -1);
    tell_list(t, "pieces");
    for (int32_t i = 0; i < c->n_pieces; i++) {
        tell_object(t, NULL);
        tell_int(t, "bytes_a_token", c->pieces[i].bytes);
        tell_known(t, "until", c->pieces[i].cap);
        tell_int(t, "tensors", c->pieces[i].tensors);
        tell_end(t);
    }
    tell_list_end(t);
    lmi_tell_count(t, "held", held_last(x));
    lmi_tell_count(t, "storage", x->cacheless ? lmi_exact(0) : c->storage);
    tell_known(t, "tried", c->seen ? c->tried : -1);
    tell_text(t, "gap", c->gap);
    tell_end(t);
}

static void tell_wide(lmi_teller *t, const lam_tokens *x, const lam_model *m) {
    tell_list(t, "wide");
    for (int32_t i = 0; i < x->n_wide; i++) {
        const lam_token_wide *w = &x->wide[i];
        const lam_place *p = lam_model_place(m, w->place);
        tell_object(t, NULL);
        tell_text(t, "path", p ? p->path : NULL);
        tell_int(t, "layers", w->layers);
        tell_int(t, "rows", w->rows);
        tell_int(t, "tokens", w->tokens);
        lmi_tell_count(t, "macs", w->macs);
        tell_end(t);
    }
    tell_list_end(t);
}

void lmi_tokens_fields(lmi_teller *t, const lam_tokens *x, const lam_costs *c) {
    tell_known(t, "prompt", x->prompt);
    tell_truth(t, "prompt_given", x->asked_prompt);
    tell_known(t, "new", x->fresh);
    tell_truth(t, "new_given", x->asked_fresh);
    tell_known(t, "batch", x->batch);
    tell_text(t, "dtype", x->dtype >= 0 ? lam_dtype_name(x->dtype) : NULL);
    tell_known(t, "logits", x->logits);
    tell_truth(t, "sampled", x->sampled);
    tell_stage(t, x, LAM_PREFILL);
    tell_stage(t, x, LAM_DECODE);
    tell_params(t, &x->params);
    tell_cache(t, x);
    tell_known(t, "weights", x->weights);
    tell_wide(t, x, lam_costs_model(c));
    lmi_gaps_fields(t, "gaps", c);
    tell_list(t, "steps");
    for (int32_t i = 0; i < x->n_steps; i++) {
        if (t->json) lmi_tell_line(t);
        tell_step(t, &x->steps[i]);
    }
    tell_list_end(t);
}

void lam_tokens_tell(const lam_tokens *x, const lam_costs *c, lam_receiver to) {
    lmi_teller t = lmi_tell_to(to);
    tell_object(&t, NULL);
    lmi_tokens_fields(&t, x, c);
    tell_end(&t);
}

void lam_tokens_run_tell(const lam_token_run *r, lam_receiver to) {
    static const char *const purposes[] = {"steps", "lengths", "memory"};
    lmi_teller t = lmi_tell_to(to);
    tell_object(&t, NULL);
    tell_text(&t, "purpose", purposes[r->purpose]);
    tell_text(&t, "which", r->which);
    tell_truth(&t, "dry", r->dry);
    tell_truth(&t, "time", r->time);
    tell_truth(&t, "follow", r->follow);
    tell_truth(&t, "tells", r->tells);
    tell_end(&t);
}

static void tell_limit(lmi_teller *t, lam_stage which, const lam_token_limit *x) {
    tell_object(t, lam_stage_name(which));
    tell_int(t, "calls", x->calls);
    tell_known_real(t, "compute", x->compute * 1e9);
    tell_known_real(t, "memory", x->memory * 1e9);
    tell_known_real(t, "memory_most", x->memory_most * 1e9);
    tell_known_real(t, "least", x->least * 1e9);
    tell_text(t, "bound", lam_bound_name(x->bound));
    tell_known(t, "time", x->ns);
    tell_known_real(t, "mfu", x->mfu);
    tell_known_real(t, "mbu", x->mbu);
    tell_truth(t, "exact_flops", x->exact_flops);
    tell_truth(t, "exact_bytes", x->exact_bytes);
    tell_end(t);
}

void lmi_bound_fields(lmi_teller *t, const lam_token_bound *b) {
    tell_text(t, "peak", b->peak.name);
    tell_text(t, "dtype", b->peak.dtype);
    tell_text(t, "source", b->peak.source);
    tell_known_real(t, "flops", b->peak.best.flops);
    tell_known_real(t, "bytes", b->peak.best.bytes);
    for (int s = 0; s < LAM_N_STAGES; s++) tell_limit(t, (lam_stage)s, &b->stage[s]);
    tell_known(t, "critical_batch", b->critical == INT64_MAX ? -1 : b->critical);
    tell_known(t, "critical_batch_most", b->critical_most == INT64_MAX ? -1 : b->critical_most);
    tell_text(t, "why_critical", b->why);
    tell_truth(t, "always_memory", b->critical == INT64_MAX);
    tell_known(t, "keys", b->keys);
}

/* A number that may be without end, which is not told. */
static void tell_most(lmi_teller *t, const char *name, int64_t n) {
    tell_known(t, name, n == INT64_MAX ? -1 : n);
}

void lmi_capacity_fields(lmi_teller *t, const lam_tokens *x, const lam_token_capacity *c) {
    tell_int(t, "bytes", c->memory);
    tell_most(t, "context", c->context);
    tell_known(t, "tokens", c->tokens);
    tell_most(t, "batch", c->batch);
    tell_object(t, "activations");
    for (int s = 0; s < LAM_N_STAGES; s++) {
        tell_object(t, lam_stage_name((lam_stage)s));
        lmi_tell_count(t, "bytes", x->stage[s].activations);
        tell_known(t, "keys", x->stage[s].followed_keys);
        tell_known(t, "context_less", c->context_less[s]);
        tell_known(t, "batch_less", c->batch_less[s]);
        tell_end(t);
    }
    tell_text(t, "why", x->why_activations);
    tell_text(t, "rough", x->rough_activations);
    tell_end(t);
}

void lam_tokens_capacity_tell(const lam_tokens *x, const lam_token_capacity *c, lam_receiver to) {
    lmi_teller t = lmi_tell_to(to);
    tell_object(&t, NULL);
    lmi_capacity_fields(&t, x, c);
    tell_end(&t);
}

void lam_tokens_bound_tell(const lam_token_bound *b, lam_receiver to) {
    lmi_teller t = lmi_tell_to(to);
    tell_object(&t, NULL);
    lmi_bound_fields(&t, b);
    tell_end(&t);
}
