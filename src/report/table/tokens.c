/* SPDX-License-Identifier: Apache-2.0
 *
 * The words of a language model in tokens. */
#include "report/table/tokens.h"

#include <stdio.h>

enum { NUMBER = 64 };

/* -- numbers ------------------------------------------------------------------------------------------- */

/* "1,024" */
static const char *whole(char to[NUMBER], int64_t n) {
    lmi_buf b;
    lmi_buf_init(&b);
    if (n < 0)
        lmi_putc(&b, '?');
    else
        lmi_put_grouped(&b, lmi_exact(n));
    snprintf(to, NUMBER, "%s", lmi_buf_text(&b));
    lmi_buf_free(&b);
    return to;
}

static const char *count(const lmi_token_words *w, char to[NUMBER], lam_count n) {
    lam_text_count(to, NUMBER, n, w->exact);
    return to;
}

static const char *bytes(const lmi_token_words *w, char to[NUMBER], lam_count n) {
    if (w->exact) {
        lam_text_count(to, NUMBER - 2, n, true);
        if (n.state != LAM_UNKNOWN) strcat(to, " B");
    } else {
        lam_text_bytes(to, NUMBER, n);
    }
    return to;
}

/* -- what generated --- */

const char *lmi_token_type(const lmi_token_words *w) {
    const lam_model *m = lam_costs_model(w->c);
    for (int32_t i = 0; i < w->t->n_steps; i++) {
        const lam_event *ev = lam_model_event(m, w->t->steps[i].event);
        if (ev) return lam_model_module(m, ev->module)->type;
    }
    return "the model";
}

void lmi_token_head(const lmi_token_words *w, lmi_buf *to) {
    const lam_tokens *t = w->t;
    const char *dry = lam_model_told(lam_costs_model(w->c), "dry");
    char n[NUMBER];
    lmi_put_clean(to, lmi_token_type(w));
    if (t->dtype >= 0) lmi_putf(to, ", %s", lam_dtype_name(t->dtype));
    if (t->batch > 0) lmi_putf(to, ", batch %s", whole(n, t->batch));
    lmi_putf(to, ", a prompt of %s tokens%s", whole(n, t->prompt),
             t->asked_prompt || !t->sampled ? "" : " (--prompt)");
    lmi_putf(to, ", %s new%s", whole(n, t->fresh), t->asked_fresh || !t->sampled ? "" : " (--new)");
    if (dry && strcmp(dry, "yes") == 0) lmi_put(to, ", a dry run");
}

/* -- the table of stages --------------------------------------------------------------------------------- */

const char lmi_token_caption[] = "FLOPs a token, 2 for a multiply-accumulate, and bytes read a call";
const char *const lmi_token_columns[LMI_TOKEN_COLUMNS] = {"executed", "effective", "model", "weights read",
                                                          "cache read"};

/* FLOPs of MACs for each token; a part of one is rounded. */
static lam_count each_token(lam_count macs, int64_t tokens) {
    if (macs.state == LAM_UNKNOWN || tokens < 1) return lmi_unknown();
    const lmi_int128 twice = lmi_count_wide(macs) * 2;
    lam_count n = lmi_of_wide((twice + tokens / 2) / tokens);
    n.state = macs.state;
    return n;
}

static lam_count figure(const lam_token_step *s, int i) {
    const lam_count all[] = {s->cost.macs.executed, s->cost.macs.effective, s->cost.macs.model,
                             s->cost.weights, s->cost.cache_read};
    return all[i];
}

static bool less(lam_count a, lam_count b) { return lmi_count_wide(a) < lmi_count_wide(b); }

/* The least and the greatest of a number over the calls of a stage; of MACs, FLOPs for each token. */
static bool range_of(const lmi_token_words *w, lam_stage stage, int i, lam_count *least, lam_count *most) {
    bool any = false;
    *least = *most = lmi_unknown();
    for (int32_t k = 0; k < w->t->n_steps; k++) {
        const lam_token_step *s = &w->t->steps[k];
        if (s->stage != stage) continue;
        int64_t tokens = s->fresh < 0 ? -1 : s->fresh * s->batch - (s->pads > 0 ? s->pads : 0);
        if (stage == LAM_PREFILL && w->t->stage[stage].calls == 1) tokens = w->t->stage[stage].tokens;
        lam_count n = i < 3 ? each_token(figure(s, i), tokens) : figure(s, i);
        if (n.state == LAM_UNKNOWN) {
            *least = *most = n;
            return true;
        }
        if (!any || less(n, *least)) *least = n;
        if (!any || less(*most, n)) *most = n;
        any = true;
    }
    return any;
}

void lmi_token_cell(const lmi_token_words *w, lam_stage stage, int column, lmi_buf *to) {
    char a[NUMBER], b[NUMBER];
    lam_count least, most;
    if (!range_of(w, stage, column, &least, &most)) return;
    if (column < 3) {
        count(w, a, least);
        count(w, b, most);
    } else {
        bytes(w, a, least);
        bytes(w, b, most);
    }
    lmi_put(to, a);
    if (strcmp(a, b) != 0) lmi_putf(to, " to %s", b);
}

/* -- lines ----------------------------------------------------------------------------------------------- */

/* True for a number without a unit: "800", and not "369 M", behind which "FLOPs" follows at once. */
static bool ends_in_digit(const char *number) {
    const size_t n = strlen(number);
    return n && number[n - 1] >= '0' && number[n - 1] <= '9';
}

/* "1 call of 1,024 tokens, 14.6 TFLOPs" */
static void put_calls(const lmi_token_words *w, lmi_buf *to, lam_stage stage) {
    const lam_token_stage *s = &w->t->stage[stage];
    char n[NUMBER], each[NUMBER], all[NUMBER];
    int64_t fresh = -1;
    bool same = true;
    for (int32_t i = 0; i < w->t->n_steps; i++) {
        const lam_token_step *step = &w->t->steps[i];
        if (step->stage != stage) continue;
        same = same && (fresh < 0 || fresh == step->fresh);
        fresh = step->fresh;
    }
    if (stage == LAM_PREFILL && s->calls == 1 && w->t->prompt > 0) fresh = w->t->prompt;
    lmi_putf(to, "%s %s %s%s", lam_stage_name(stage), whole(n, s->calls),
             stage == LAM_PREFILL ? "call" : "step", s->calls == 1 ? "" : "s");
    if (s->calls && same && fresh > 0)
        lmi_putf(to, " of %s token%s", whole(each, fresh), fresh == 1 ? "" : "s");
    const bool effective = s->cost.macs.effective.state == LAM_EXACT;
    lam_count macs = effective ? s->cost.macs.effective : s->cost.macs.executed;
    const char *flops = count(w, all, each_token(macs, 1));
    if (s->calls)
        lmi_putf(to, ", %s%sFLOPs %s", flops, ends_in_digit(flops) ? " " : "",
                 effective ? "effective" : "executed");
}

const char *lmi_cache_kind(const lam_tokens *x) {
    if (x->cacheless) return "none";
    if (!x->cache.seen || (x->cache.gap && !x->cache.n_pieces)) return NULL;
    return x->cache.n_pieces ? "dynamic" : "fixed";
}

static void put_cache(const lmi_token_words *w) {
    const lam_token_cache *c = &w->t->cache;
    char n[NUMBER], k[NUMBER];
    lmi_buf b;
    lmi_buf_init(&b);
    if (w->t->cacheless) {
        lmi_put(&b, "none: each step runs over all tokens so far");
    } else if (!c->seen) {
        lmi_putf(&b, "not seen: %s", c->gap ? c->gap : "no call was given what the one before it gave");
    } else {
        for (int32_t i = 0; i < c->n_pieces; i++) {
            const lam_token_piece *p = &c->pieces[i];
            lmi_putf(&b, "%s%s a token", i ? ", " : "", bytes(w, n, lmi_exact(p->bytes)));
            if (p->cap >= 0) lmi_putf(&b, " up to %s tokens", whole(k, p->cap));
            lmi_putf(&b, " in %d tensor%s", (int)p->tensors, p->tensors == 1 ? "" : "s");
        }
        const char *kind = lmi_cache_kind(w->t); /* NULL: how it grows is not known */
        if (!kind)
            lmi_putf(&b, "how it grows is not known: %s", c->gap);
        else if (c->fixed || !c->n_pieces)
            lmi_putf(&b, "%s%s fixed", c->n_pieces ? ", " : "", bytes(w, n, lmi_exact(c->fixed)));
        const lam_token_step *last = w->t->n_steps ? &w->t->steps[w->t->n_steps - 1] : NULL;
        if (last && last->cache.state == LAM_EXACT && last->keys < 0)
            lmi_putf(&b, "; %s after the last call", bytes(w, n, last->cache));
        else if (last && last->cache.state == LAM_EXACT)
            lmi_putf(&b, "; %s at %s tokens", bytes(w, n, last->cache), whole(k, last->keys));
        if (c->storage.state == LAM_EXACT && last && lmi_count_wide(c->storage) > lmi_count_wide(last->cache))
            lmi_putf(&b, " in memory of %s", bytes(w, n, c->storage));
        if (c->dtype >= 0)
            lmi_putf(&b, "; %s%s%s", kind ? kind : "", kind ? ", " : "", lam_dtype_name(c->dtype));
        if (c->gap && kind)
            lmi_putf(&b, "; %s", c->gap);
        else if (c->n_pieces)
            lmi_putf(&b, "; tried up to %s tokens", whole(k, c->tried));
    }
    w->line(w->to, "cache", &b);
    lmi_buf_free(&b);
}

static void put_parameters(const lmi_token_words *w) {
    const lam_token_params *p = &w->t->params;
    char n[NUMBER], k[NUMBER];
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_putf(&b, "%s, ", count(w, n, p->total));
    if (lmi_is_same(p->total, p->active))
        lmi_put(&b, "all active");
    else if (p->active.state != LAM_UNKNOWN)
        lmi_putf(&b, "%s active", count(w, n, p->active));
    else
        lmi_putf(&b, "? active: %s",
                 w->t->stage[LAM_DECODE].calls > 0 ? "how much one token is multiplied with is not known"
                                                   : "no token was decoded after the prompt");
    if (p->active_matrix.state != LAM_UNKNOWN)
        lmi_putf(&b, "; a token is multiplied with %s", count(w, n, p->active_matrix));
    w->line(w->to, "parameters", &b);
    if (p->experts > 0) {
        int32_t least = -1, most = -1;
        lmi_putf(&b, "%s of %s for a token, in %d layers", whole(n, p->routed), whole(k, p->experts),
                 (int)p->layers);
        for (int32_t i = 0; i < w->t->n_steps; i++) {
            const lam_token_step *s = &w->t->steps[i];
            if (s->stage != LAM_DECODE || s->experts_least < 0) continue;
            if (least < 0 || s->experts_least < least) least = s->experts_least;
            if (s->experts_most > most) most = s->experts_most;
        }
        if (least >= 0) lmi_putf(&b, "; a step reads %s", whole(n, least));
        if (most > least) lmi_putf(&b, " to %s", whole(n, most));
        if (least >= 0) lmi_put(&b, " in a layer");
        w->line(w->to, "experts", &b);
    }
    lmi_buf_free(&b);
}

static void put_wide(const lmi_token_words *w) {
    char n[NUMBER], k[NUMBER];
    lmi_buf b;
    lmi_buf_init(&b);
    for (int32_t i = 0; i < w->t->n_wide; i++) {
        const lam_token_wide *x = &w->t->wide[i];
        const lam_place *p = lam_model_place(lam_costs_model(w->c), x->place);
        lmi_put_clean(&b, p ? p->path : "outside every layer");
        if (x->layers > 1) lmi_putf(&b, " and %d like it", (int)x->layers - 1);
        lmi_putf(&b, ": %s rows for %s token%s", whole(n, x->rows), whole(k, x->tokens),
                 x->tokens == 1 ? "" : "s");
        lmi_putf(&b, ", %s FLOPs of the last step", count(w, n, each_token(x->macs, 1)));
        w->line(w->to, "more rows", &b);
    }
    lmi_buf_free(&b);
}

static void put_reasons(const lmi_token_words *w) {
    const lam_tokens *t = w->t;
    lmi_buf b;
    lmi_buf_init(&b);
    for (int s = 0; s < LAM_N_STAGES; s++) {
        const lam_token_stage *stage = &t->stage[s];
        if (!stage->why_model || !stage->calls) continue;
        lmi_putf(&b, "not known in %s: %s", lam_stage_name((lam_stage)s), stage->why_model);
        w->line(w->to, "model", &b);
    }
    for (int32_t i = 0; lam_costs_gap(w->c, i); i++) {
        lmi_put_clean(&b, lam_costs_gap(w->c, i));
        w->line(w->to, "not exact", &b);
    }
    if (t->logits > 0) {
        char n[NUMBER];
        if (t->logits == 1)
            lmi_put(&b, "of the last position");
        else
            lmi_putf(&b, "of %s positions", whole(n, t->logits));
        w->line(w->to, "logits", &b);
    }
    lmi_buf_free(&b);
}

static const char *most(char to[NUMBER], int64_t n) {
    if (n == INT64_MAX)
        snprintf(to, NUMBER, "any number");
    else
        whole(to, n);
    return to;
}

/* "2.1 KiB in a prefill of 4 tokens, with which 2 tokens or 1 sequence less fit" */
static void put_taken(const lmi_token_words *w, const lam_token_capacity *fits, lam_stage which,
                      lmi_buf *to) {
    const lam_token_stage *s = &w->t->stage[which];
    const int64_t tokens = fits->context_less[which], sequences = fits->batch_less[which];
    char n[NUMBER], k[NUMBER];
    lmi_putf(to, "%s in a %s %s %s token%s", bytes(w, n, s->activations),
             which == LAM_PREFILL ? "prefill" : "step", which == LAM_PREFILL ? "of" : "at",
             whole(k, s->followed_keys), s->followed_keys == 1 ? "" : "s");
    if ((tokens < 0 && sequences < 0) || (fits->context == 0 && fits->batch == 0)) return;
    lmi_put(to, ", with which ");
    if (tokens >= 0) lmi_putf(to, "%s token%s", whole(n, tokens), tokens == 1 ? "" : "s");
    if (tokens >= 0 && sequences >= 0) lmi_put(to, " or ");
    if (sequences >= 0) lmi_putf(to, "%s sequence%s", whole(n, sequences), sequences == 1 ? "" : "s");
    lmi_put(to, " less fit");
}

/* What calls take beside weights and cache, and how much less fits with it. */
static void put_activations(const lmi_token_words *w, const lam_token_capacity *fits) {
    const lam_tokens *t = w->t;
    bool any = false;
    char n[NUMBER];
    lmi_buf b;
    lmi_buf_init(&b);
    for (int s = 0; s < LAM_N_STAGES; s++) {
        if (t->stage[s].activations.state == LAM_UNKNOWN) continue;
        if (any) lmi_put(&b, "; ");
        put_taken(w, fits, (lam_stage)s, &b);
        any = true;
    }
    if (!any) lmi_put(&b, "not known");
    if (any && t->batch > 1) lmi_putf(&b, "; of %s sequences", whole(n, t->batch));
    if (t->why_activations) lmi_put(&b, any ? "; at least, since " : ": ");
    if (t->why_activations) lmi_put_clean(&b, t->why_activations);
    if (t->rough_activations) lmi_put(&b, "; roughly: ");
    if (t->rough_activations) lmi_put_clean(&b, t->rough_activations);
    w->line(w->to, "activations", &b);
    lmi_buf_free(&b);
}

static void put_capacity(const lmi_token_words *w) {
    const lam_tokens *t = w->t;
    char n[NUMBER], k[NUMBER];
    lmi_buf b;
    if (!w->memory) return;
    const lam_token_capacity fits = lam_tokens_capacity(t, w->memory);
    lmi_buf_init(&b);
    lmi_putf(&b, "weights %s", bytes(w, n, lmi_count_of(t->weights)));
    if (t->weights >= 0 && t->weights <= w->memory)
        lmi_putf(&b, ", %s are left", bytes(w, n, lmi_exact(w->memory - t->weights)));
    else if (t->weights > w->memory)
        lmi_put(&b, ", which don't fit");
    if (fits.context < 0)
        lmi_put(&b, "; how much the cache takes is not known");
    else
        lmi_putf(&b, "; batch 1: %s tokens; %s tokens: batch %s", most(n, fits.context),
                 whole(k, fits.tokens), most((char[NUMBER]){0}, fits.batch));
    char label[NUMBER];
    snprintf(label, sizeof label, "in %s", bytes(w, n, lmi_exact(w->memory)));
    w->line(w->to, label, &b);
    lmi_buf_free(&b);
    put_activations(w, &fits);
}

static void put_seconds(lmi_buf *to, double seconds) {
    char text[NUMBER];
    lam_text_time(text, sizeof text, (int64_t)(seconds * 1e9 + 0.5));
    lmi_put(to, text);
}

static void put_limit(const lmi_token_words *w, lam_stage which) {
    const lam_token_limit *x = &w->bound->stage[which];
    lmi_buf b;
    lmi_buf_init(&b);
    if (x->calls == 0) return;
    if (x->least < 0) {
        lmi_put(&b, "how long it takes at least is not known");
    } else {
        lmi_put(&b, "at least ");
        put_seconds(&b, x->least / x->calls);
        lmi_putf(&b, " a %s, bound by ", which == LAM_PREFILL ? "call" : "step");
        if (x->bound == LAM_BOUND_UNKNOWN)
            lmi_put(&b, "compute or memory, which depends on the parameters that are hit");
        else
            lmi_put(&b, lam_bound_name(x->bound));
    }
    if (x->ns >= 0) {
        lmi_put(&b, "; took ");
        put_seconds(&b, (double)x->ns / 1e9 / x->calls);
        if (x->mfu >= 0) lmi_putf(&b, ", MFU %s%.3g %%", x->exact_flops ? "" : ">= ", 100 * x->mfu);
        if (x->mbu >= 0) lmi_putf(&b, ", MBU %s%.3g %%", x->exact_bytes ? "" : ">= ", 100 * x->mbu);
    }
    w->line(w->to, lam_stage_name(which), &b);
    lmi_buf_free(&b);
}

static void put_critical(const lmi_token_words *w) {
    const lam_token_bound *x = w->bound;
    char n[NUMBER], k[NUMBER], most[NUMBER];
    lmi_buf b;
    lmi_buf_init(&b);
    if (x->critical < 0)
        lmi_putf(&b, "from which one a step is bound by compute is not known: %s", x->why);
    else if (x->critical == INT64_MAX)
        lmi_putf(&b, "at %s tokens a step is bound by memory at every batch", whole(k, x->keys));
    else if (x->critical_most != x->critical && x->critical_most < INT64_MAX && w->t->reads.all == 0)
        lmi_putf(&b, "at %s tokens a step is bound by compute from a batch between about %s and %s on",
                 whole(k, x->keys), whole(n, x->critical), whole(most, x->critical_most));
    else if (x->critical_most == INT64_MAX)
        lmi_putf(&b,
                 "at %s tokens a step is bound by compute from about batch %s on at the earliest, if all "
                 "sequences are routed to the same experts",
                 whole(k, x->keys), whole(n, x->critical));
    else if (x->critical_most != x->critical)
        lmi_putf(&b,
                 "at %s tokens a step is bound by compute from about batch %s on if all sequences are routed "
                 "to the same experts, and from %s on at the latest",
                 whole(k, x->keys), whole(n, x->critical), whole(most, x->critical_most));
    else
        lmi_putf(&b, "at %s tokens a step is bound by compute from about batch %s on", whole(k, x->keys),
                 whole(n, x->critical));
    w->line(w->to, "batch", &b);
    lmi_buf_free(&b);
}

static void put_bound(const lmi_token_words *w) {
    const lam_token_bound *x = w->bound;
    lmi_buf b;
    if (!x) return;
    lmi_buf_init(&b);
    lmi_putf(&b, "%s: %.4g TFLOP/s of %s, dense, and %.4g TB/s (%s)", x->peak.name, x->peak.best.flops / 1e12,
             x->peak.dtype, x->peak.best.bytes / 1e12, x->peak.source);
    w->line(w->to, "peak", &b);
    for (int s = 0; s < LAM_N_STAGES; s++) put_limit(w, (lam_stage)s);
    put_critical(w);
}

static void put_padding(const lmi_token_words *w) {
    const lam_token_stage *s = &w->t->stage[LAM_PREFILL];
    char n[NUMBER], k[NUMBER];
    lmi_buf b;
    if (s->pads <= 0) return;
    lmi_buf_init(&b);
    lmi_putf(&b,
             "%s of %s positions of the prefill; executed and effective FLOPs have them, and tokens and the "
             "model's FLOPs do not",
             whole(n, s->pads), whole(k, s->tokens < 0 ? -1 : s->tokens + s->pads));
    w->line(w->to, "padding", &b);
    lmi_buf_free(&b);
}

static void put_sums(const lmi_token_words *w) {
    lmi_buf b;
    lmi_buf_init(&b);
    put_calls(w, &b, LAM_PREFILL);
    lmi_put(&b, "; ");
    put_calls(w, &b, LAM_DECODE);
    w->line(w->to, "in all", &b);
    lmi_buf_free(&b);
}

void lmi_token_lines(const lmi_token_words *w) {
    put_sums(w);
    put_padding(w);
    put_parameters(w);
    put_cache(w);
    put_capacity(w);
    put_bound(w);
    put_wide(w);
    put_reasons(w);
}
