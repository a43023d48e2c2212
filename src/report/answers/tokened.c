/* SPDX-License-Identifier: Apache-2.0
 *
 * A language model in tokens, as text and JSON. */
#include "report/table/report.h"
#include "report/tell/tell.h"

#include <stdio.h>

enum { DEFAULT_WIDTH = 100, NUMBER = 64, LABEL = 12 };

typedef struct writer {
    const lam_tokens *t;
    const lam_costs *c;
    const lam_model *m;
    int64_t memory;
    const lam_token_bound *bound; /* NULL: no peak was named */
    lmi_buf out;
    size_t width;
    bool exact;
    lam_error *e;
} writer;

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

static const char *count(const writer *w, char to[NUMBER], lam_count n) {
    lam_text_count(to, NUMBER, n, w->exact);
    return to;
}

static const char *bytes(const writer *w, char to[NUMBER], lam_count n) {
    if (w->exact) {
        lam_text_count(to, NUMBER - 2, n, true);
        if (n.state != LAM_UNKNOWN) strcat(to, " B");
    } else {
        lam_text_bytes(to, NUMBER, n);
    }
    return to;
}

/* FLOPs of MACs for each token; a part of one is rounded. */
static lam_count each_token(lam_count macs, int64_t tokens) {
    if (macs.state == LAM_UNKNOWN || tokens < 1) return lmi_unknown();
    const lmi_wide twice = lmi_count_wide(macs) * 2;
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
static bool range_of(const writer *w, lam_stage stage, int i, lam_count *least, lam_count *most) {
    bool any = false;
    *least = *most = lmi_unknown();
    for (int32_t k = 0; k < w->t->n_steps; k++) {
        const lam_token_step *s = &w->t->steps[k];
        if (s->stage != stage) continue;
        int64_t tokens = s->fresh < 0 ? -1 : s->fresh * s->batch;
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

/* "15.5 G", or "15.5 G to 15.6 G" where they differ. */
static void put_range(writer *w, lmi_sheet *t, lam_stage stage, int i) {
    char a[NUMBER], b[NUMBER];
    lam_count least, most;
    if (!range_of(w, stage, i, &least, &most)) {
        lmi_text_cell(t, "");
        return;
    }
    if (i < 3) {
        count(w, a, least);
        count(w, b, most);
    } else {
        bytes(w, a, least);
        bytes(w, b, most);
    }
    lmi_put(t->cell, a);
    if (strcmp(a, b) != 0) lmi_putf(t->cell, " to %s", b);
    lmi_end_cell(t);
}

/* -- the table ----------------------------------------------------------------------------------------- */

/* "1 call of 1,024 tokens, 14.6 TFLOPs" */
static void put_calls(writer *w, lmi_buf *to, lam_stage stage) {
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
    if (s->calls)
        lmi_putf(to, ", %s%sFLOPs %s", count(w, all, each_token(macs, 1)), w->exact ? " " : "",
                 effective ? "effective" : "executed");
}

static void put_table(writer *w) {
    static const lmi_head heads[] = {
        {"", LMI_LEFT, 0},       {"executed", LMI_RIGHT, 2},     {"effective", LMI_RIGHT, 0},
        {"model", LMI_RIGHT, 1}, {"weights read", LMI_RIGHT, 3}, {"cache read", LMI_RIGHT, 4}};
    lmi_sheet t;
    lmi_put(&w->out, "\nFLOPs a token, 2 for a multiply-accumulate, and bytes read a call\n");
    lmi_sheet_start(&t, &w->out, w->width, false, w->e);
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) lmi_sheet_column(&t, &heads[i]);
    for (int s = 0; s < LAM_N_STAGES; s++) {
        lmi_text_cell(&t, lam_stage_name((lam_stage)s));
        for (int i = 0; i < 5; i++) put_range(w, &t, (lam_stage)s, i);
    }
    lmi_sheet_write(&t, 8, 8);
    lmi_sheet_free(&t);
}

/* -- lines ------------------------------------------------------------------------------------------------
 */

static void line(writer *w, const char *label, lmi_buf *text) {
    lmi_flow f;
    lmi_flow_start(&f, &w->out, w->width, LABEL);
    lmi_flow_label(&f, NULL, label, 0);
    lmi_flow_words(&f, NULL, lmi_buf_text(text));
    lmi_flow_end(&f);
    lmi_buf_used(text, &w->out);
    lmi_buf_init(text);
}

static const char *type_of(const writer *w) {
    for (int32_t i = 0; i < w->t->n_steps; i++) {
        const lam_event *ev = lam_model_event(w->m, w->t->steps[i].event);
        if (ev) return lam_model_module(w->m, ev->module)->type;
    }
    return "the model";
}

static void put_head(writer *w) {
    const lam_tokens *t = w->t;
    const char *dry = lam_model_told(w->m, "dry");
    char n[NUMBER];
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_put_clean(&b, type_of(w));
    if (t->dtype >= 0) lmi_putf(&b, ", %s", lam_dtype_name(t->dtype));
    if (t->batch > 0) lmi_putf(&b, ", batch %s", whole(n, t->batch));
    lmi_putf(&b, ", a prompt of %s tokens%s", whole(n, t->prompt),
             t->asked_prompt || !t->sampled ? "" : " (--prompt)");
    lmi_putf(&b, ", %s new%s", whole(n, t->fresh), t->asked_fresh || !t->sampled ? "" : " (--new)");
    if (dry && strcmp(dry, "yes") == 0) lmi_put(&b, ", a dry run");
    lmi_flow f;
    lmi_flow_start(&f, &w->out, w->width, 0);
    lmi_flow_words(&f, NULL, lmi_buf_text(&b));
    lmi_flow_end(&f);
    lmi_buf_used(&b, &w->out);
}

static void put_cache(writer *w) {
    const lam_token_cache *c = &w->t->cache;
    char n[NUMBER], k[NUMBER];
    lmi_buf b;
    lmi_buf_init(&b);
    if (w->t->cacheless) {
        lmi_put(&b, "none: each step runs over all tokens so far");
    } else if (!c->seen) {
        lmi_put(&b, "not seen: no call was given what the one before it gave");
    } else {
        for (int32_t i = 0; i < c->n_pieces; i++) {
            const lam_token_piece *p = &c->pieces[i];
            lmi_putf(&b, "%s%s a token", i ? ", " : "", bytes(w, n, lmi_exact(p->bytes)));
            if (p->cap >= 0) lmi_putf(&b, " up to %s tokens", whole(k, p->cap));
            lmi_putf(&b, " in %d tensors", (int)p->tensors);
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
        if (c->dtype >= 0)
            lmi_putf(&b, "; %s%s%s", kind ? kind : "", kind ? ", " : "", lam_dtype_name(c->dtype));
        if (c->gap && kind)
            lmi_putf(&b, "; %s", c->gap);
        else if (c->n_pieces)
            lmi_putf(&b, "; tried up to %s tokens", whole(k, c->tried));
    }
    line(w, "cache", &b);
    lmi_buf_free(&b);
}

static void put_parameters(writer *w) {
    const lam_token_params *p = &w->t->params;
    char n[NUMBER], k[NUMBER];
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_putf(&b, "%s, ", count(w, n, p->total));
    if (lmi_is_same(p->total, p->active))
        lmi_put(&b, "all active");
    else
        lmi_putf(&b, "%s active", count(w, n, p->active));
    lmi_putf(&b, "; a token is multiplied with %s", count(w, n, p->active_matrix));
    line(w, "parameters", &b);
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
        line(w, "experts", &b);
    }
    lmi_buf_free(&b);
}

static void put_wide(writer *w) {
    char n[NUMBER], k[NUMBER];
    lmi_buf b;
    lmi_buf_init(&b);
    for (int32_t i = 0; i < w->t->n_wide; i++) {
        const lam_token_wide *x = &w->t->wide[i];
        const lam_place *p = lam_model_place(w->m, x->place);
        lmi_put_clean(&b, p ? p->path : "outside every layer");
        if (x->layers > 1) lmi_putf(&b, " and %d like it", (int)x->layers - 1);
        lmi_putf(&b, ": %s rows for %s token%s", whole(n, x->rows), whole(k, x->tokens),
                 x->tokens == 1 ? "" : "s");
        lmi_putf(&b, ", %s FLOPs of the last step", count(w, n, each_token(x->macs, 1)));
        line(w, "more rows", &b);
    }
    lmi_buf_free(&b);
}

static void put_reasons(writer *w) {
    const lam_tokens *t = w->t;
    lmi_buf b;
    lmi_buf_init(&b);
    for (int s = 0; s < LAM_N_STAGES; s++) {
        const lam_token_stage *stage = &t->stage[s];
        if (!stage->why_model || !stage->calls) continue;
        lmi_putf(&b, "not known in %s: %s", lam_stage_name((lam_stage)s), stage->why_model);
        line(w, "model", &b);
    }
    for (int32_t i = 0; lam_costs_gap(w->c, i); i++) {
        lmi_put_clean(&b, lam_costs_gap(w->c, i));
        line(w, "not exact", &b);
    }
    if (t->logits > 0) {
        char n[NUMBER];
        if (t->logits == 1)
            lmi_put(&b, "of the last position");
        else
            lmi_putf(&b, "of %s positions", whole(n, t->logits));
        line(w, "logits", &b);
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

static void put_capacity(writer *w) {
    const lam_tokens *t = w->t;
    char n[NUMBER], k[NUMBER];
    lmi_buf b;
    if (!w->memory) return;
    lmi_buf_init(&b);
    lmi_putf(&b, "weights %s", bytes(w, n, lmi_count_of(t->weights)));
    const int64_t context = lam_tokens_context(t, w->memory, 1);
    const int64_t keys = t->prompt > 0 && t->fresh > 0 ? t->prompt + t->fresh - 1 : t->cache.tried;
    if (t->weights >= 0 && t->weights <= w->memory)
        lmi_putf(&b, ", %s are left", bytes(w, n, lmi_exact(w->memory - t->weights)));
    else if (t->weights > w->memory)
        lmi_put(&b, ", which don't fit");
    if (context < 0)
        lmi_put(&b, "; how much the cache takes is not known");
    else
        lmi_putf(&b, "; batch 1: %s tokens; %s tokens: batch %s", most(n, context), whole(k, keys),
                 most((char[NUMBER]){0}, lam_tokens_batch(t, w->memory, keys)));
    lmi_put(&b, "; activations are not in it");
    char label[NUMBER];
    snprintf(label, sizeof label, "in %s", bytes(w, n, lmi_exact(w->memory)));
    line(w, label, &b);
    lmi_buf_free(&b);
}

static void put_seconds(lmi_buf *to, double seconds) {
    char text[NUMBER];
    lam_text_time(text, sizeof text, (int64_t)(seconds * 1e9 + 0.5));
    lmi_put(to, text);
}

static void put_limit(writer *w, lam_stage which) {
    const lam_token_limit *x = &w->bound->stage[which];
    lmi_buf b;
    lmi_buf_init(&b);
    if (x->calls == 0) return;
    if (x->least < 0) {
        lmi_put(&b, "how long it takes at least is not known");
    } else {
        lmi_put(&b, "at least ");
        put_seconds(&b, x->least / x->calls);
        lmi_putf(&b, " a %s, bound by %s", which == LAM_PREFILL ? "call" : "step", lam_bound_name(x->bound));
    }
    if (x->ns >= 0) {
        lmi_put(&b, "; took ");
        put_seconds(&b, (double)x->ns / 1e9 / x->calls);
        if (x->mfu >= 0) lmi_putf(&b, ", MFU %s%.3g %%", x->exact_flops ? "" : ">= ", 100 * x->mfu);
        if (x->mbu >= 0) lmi_putf(&b, ", MBU %s%.3g %%", x->exact_bytes ? "" : ">= ", 100 * x->mbu);
    }
    line(w, lam_stage_name(which), &b);
    lmi_buf_free(&b);
}

static void put_bound(writer *w) {
    const lam_token_bound *x = w->bound;
    char n[NUMBER], k[NUMBER];
    lmi_buf b;
    if (!x) return;
    lmi_buf_init(&b);
    lmi_putf(&b, "%s: %.4g TFLOP/s of %s, dense, and %.4g TB/s (%s)", x->peak.name, x->peak.best.flops / 1e12,
             x->peak.dtype, x->peak.best.bytes / 1e12, x->peak.source);
    line(w, "peak", &b);
    for (int s = 0; s < LAM_N_STAGES; s++) put_limit(w, (lam_stage)s);
    if (x->critical == INT64_MAX)
        lmi_putf(&b, "at %s tokens a step is bound by memory at every batch", whole(k, x->keys));
    else if (x->critical >= 0)
        lmi_putf(&b, "at %s tokens a step is bound by compute from about batch %s on", whole(k, x->keys),
                 whole(n, x->critical));
    if (x->critical >= 0) line(w, "batch", &b);
    lmi_buf_free(&b);
}

static void put_sums(writer *w) {
    lmi_buf b;
    lmi_buf_init(&b);
    put_calls(w, &b, LAM_PREFILL);
    lmi_put(&b, "; ");
    put_calls(w, &b, LAM_DECODE);
    line(w, "in all", &b);
    lmi_buf_free(&b);
}

static void put_text(writer *w) {
    put_head(w);
    put_table(w);
    lmi_putc(&w->out, '\n');
    put_sums(w);
    put_parameters(w);
    put_cache(w);
    put_capacity(w);
    put_bound(w);
    put_wide(w);
    put_reasons(w);
}

/* -- JSON
 * ---------------------------------------------------------------------------------------------------- */

static void tell_most(lmi_teller *t, const char *name, int64_t n) {
    tell_known(t, name, n == INT64_MAX ? -1 : n);
}

static void put_json(writer *w) {
    lmi_teller t = lmi_tell_json(&w->out);
    lmi_tell_document(&t, "tokens", 1);
    tell_text(&t, "model", type_of(w));
    lmi_tokens_fields(&t, w->t, w->c);
    if (w->memory) {
        const int64_t keys = w->t->prompt > 0 ? w->t->prompt + w->t->fresh - 1 : w->t->cache.tried;
        tell_object(&t, "device_memory");
        tell_int(&t, "bytes", w->memory);
        tell_most(&t, "context", lam_tokens_context(w->t, w->memory, 1));
        tell_known(&t, "tokens", keys);
        tell_most(&t, "batch", lam_tokens_batch(w->t, w->memory, keys));
        tell_end(&t);
    }
    if (w->bound) {
        tell_object(&t, "bound");
        lmi_bound_fields(&t, w->bound);
        tell_end(&t);
    }
    tell_end(&t);
    lmi_putc(&w->out, '\n');
}

lam_status lam_tokens_write(const lam_tokens *t, const lam_costs *c, int64_t memory, const char *peak,
                            const char *format, int32_t width, bool exact, lam_sink to, lam_error *e) {
    static const struct {
        const char *name;
        void (*put)(writer *w);
    } formats[] = {{"text", put_text}, {"json", put_json}};
    enum { N_FORMATS = sizeof formats / sizeof *formats };
    int k = 0;
    if (!t || !c) return lmi_fail(e, LAM_USAGE, "lam_tokens_write", "there is nothing to write");
    while (format && k < N_FORMATS && strcmp(format, formats[k].name) != 0) k++;
    if (k == N_FORMATS)
        return lmi_no_such(e, "format", format, "tokens", &formats[0].name, sizeof *formats, N_FORMATS);
    lam_token_bound bound;
    if (peak) LAM_TRY(lam_tokens_bound(t, c, peak, &bound, e));
    writer w = {.t = t,
                .bound = peak ? &bound : NULL,
                .c = c,
                .m = lam_costs_model(c),
                .memory = memory,
                .width = width > 0 ? (size_t)width : DEFAULT_WIDTH,
                .exact = exact,
                .e = e};
    lmi_buf_init(&w.out);
    formats[k].put(&w);
    lam_status s = lmi_buf_flush(&w.out, to, e);
    lmi_buf_free(&w.out);
    return s;
}
