/* SPDX-License-Identifier: Apache-2.0
 *
 * The stages of a run: its calls as prefill and decode steps, the steps between those that ran, and their
 * sums. */
#include "analyse/tokens/tokens.h"

#include <stdlib.h>

typedef struct whole {
    lam_tokens t; /* first: the public part */
    lmi_arena arena;
    lmi_vec steps; /* lam_token_step */
    lmi_token_run run, lengths, followed;
    const lam_token_options *o;
} whole;

/* == what each call is =================================================================================== */

/* Tokens of a sequence after its prompt, which ends with the first step; -1 unknown. */
static int64_t prompt_of(const lmi_token_run *r, int32_t k) {
    const int32_t sequence = lmi_token_at(r, k)->sequence;
    int64_t keys = -1;
    while (k > 0 && lmi_token_at(r, k - 1)->sequence == sequence) k--;
    for (; k < (int32_t)r->calls.n && lmi_token_at(r, k)->sequence == sequence; k++)
        if (lmi_token_prefills(r, k))
            keys = lmi_token_at(r, k)->keys;
        else if (keys >= 0)
            break;
    return keys;
}

/* The step that a call stands for, 0: of prefill, -1: none, it only made a cache of that length. Without a
 * cache, each step is a call over all tokens so far. */
static int32_t step_of(const whole *w, int32_t k) {
    const lmi_token_run *r = &w->run;
    const lmi_token_call *call = lmi_token_at(r, k), *first = lmi_token_at(r, 0);
    const int64_t from = w->o->sampled ? prompt_of(r, 0) : prompt_of(r, k);
    if (w->t.cacheless && call->keys > first->keys) return (int32_t)(call->keys - first->keys);
    if (lmi_token_prefills(r, k)) return !w->o->sampled || call->sequence == 0 ? 0 : -1;
    const int64_t step = call->keys - from;
    if (call->keys >= 0 && from >= 0) return step < 1 || step > INT32_MAX ? 1 : (int32_t)step;
    int32_t nth = 1; /* of the decode steps of the sequence */
    for (int32_t i = k - 1; i >= 0 && lmi_token_at(r, i)->sequence == call->sequence; i--)
        nth += !lmi_token_prefills(r, i);
    return nth;
}

/* The need of the architecture: padding is multiplied with nothing. */
static lam_count model_macs(const lmi_token_work *w, lam_count effective) {
    if (w->why_model) return lmi_unknown();
    if (w->padded == 0 || effective.state != LAM_EXACT) return effective;
    return lmi_of_wide(lmi_count_wide(effective) - w->padded);
}

static lam_token_cost cost_of(const lmi_token_work *w, lam_count cache_read) {
    const lam_count effective = w->metric[LAM_EFFECTIVE_MACS];
    return (lam_token_cost){
        {w->metric[LAM_MACS], effective, model_macs(w, effective)},
        w->metric[LAM_FLOPS],
        w->weights < w->weights_most ? lmi_at_least(w->weights) : lmi_exact(w->weights),
        lmi_exact(w->weights_most),
        cache_read,
    };
}

static lam_count kept(const whole *w, int32_t k) {
    const lmi_token_run *r = &w->run;
    const lmi_token_held *held = lmi_vec_at(&r->held, (size_t)k);
    int64_t bytes = 0;
    if (!held || held->n <= 0) return w->t.cacheless ? lmi_exact(0) : lmi_unknown();
    for (int32_t i = 0; i < held->n; i++) {
        const lmi_token_entry *entry = lmi_vec_at(&r->entries, (size_t)(held->first + i));
        int64_t n = lmi_stored(entry->numel, lam_dtype_bits(entry->dtype));
        bytes += entry->shared || held->batch < 1 ? n : n / held->batch;
    }
    return lmi_exact(bytes);
}

/* The memory in which the cache lies after the last step that ran. */
static lam_count lies_in(const whole *w) {
    for (size_t i = w->steps.n; i-- > 0;) {
        const lam_token_step *step = lmi_vec_at(&w->steps, i);
        if (step->event < 0 || step->cache.state != LAM_EXACT) continue;
        for (int32_t k = 0; k < (int32_t)w->run.calls.n; k++) {
            const lmi_token_held *held = lmi_vec_at(&w->run.held, (size_t)k);
            if (lmi_token_at(&w->run, k)->event != step->event) continue;
            return held->n > 0 && held->storage >= 0 ? lmi_exact(held->storage) : lmi_unknown();
        }
    }
    return lmi_unknown();
}

/* What a step attends to: its window is one token wider than what a window keeps. */
static lam_count attended(const whole *w, const lmi_token_call *call) {
    const lam_token_cache *c = &w->t.cache;
    lmi_int128 sum = c->fixed;
    if (!call->given && (call->said != LAM_DECODE || call->again > 0)) return lmi_exact(0);
    if (!c->seen || (c->gap && c->gap != lmi_token_no_longer) || call->keys < 0 || call->batch < 1)
        return lmi_unknown();
    for (int32_t i = 0; i < c->n_pieces; i++) {
        const lam_token_piece *p = &c->pieces[i];
        sum += (lmi_int128)p->bytes * (p->cap >= 0 && call->keys > p->cap ? p->cap + 1 : call->keys);
    }
    return lmi_of_wide(sum * call->batch + c->shared);
}

static int64_t fresh_of(const lmi_token_call *call) {
    return call->fresh < 0 || call->again < 0 ? -1 : call->fresh - call->again;
}

static lam_status add_call(whole *w, int32_t k, lam_error *e) {
    const lmi_token_call *call = lmi_token_at(&w->run, k);
    const lmi_token_work *work = &w->run.work[k];
    const int32_t step = step_of(w, k);
    if (step < 0) return LAM_OK;
    const lam_token_step s = {.event = call->event,
                              .stage = step ? LAM_DECODE : LAM_PREFILL,
                              .step = step,
                              .batch = call->batch,
                              .fresh = w->t.cacheless && step ? 1 : fresh_of(call),
                              .keys = call->keys,
                              .pads = call->pads,
                              .cost = cost_of(work, attended(w, call)),
                              .cache = kept(w, k),
                              .experts_least = work->experts_least,
                              .experts_most = work->experts_most};
    if (work->why_model && !w->t.stage[s.stage].why_model) w->t.stage[s.stage].why_model = work->why_model;
    return lmi_vec_put(&w->steps, &s, e);
}

static int by_step(const void *a, const void *b) {
    const lam_token_step *x = a, *y = b;
    if (x->step != y->step) return x->step < y->step ? -1 : 1;
    return x->event < y->event ? -1 : x->event > y->event;
}

/* == steps between =========================================================================================
 */

/* The numbers of a cost, and NULL. */
static lam_count *part_of(lam_token_cost *c, int i) {
    lam_count *all[] = {&c->macs.executed, &c->macs.effective, &c->macs.model, &c->flops,
                        &c->weights,       &c->weights_most,   &c->cache_read};
    return i < (int)(sizeof all / sizeof *all) ? all[i] : NULL;
}

/* The numbers of a step that are filled in, and NULL. */
static lam_count *figure(lam_token_step *s, int i) { return i == 0 ? &s->cache : part_of(&s->cost, i - 1); }

/* The number on the line through those of two steps, at another one; false: it is no whole number. */
static bool on_line(lam_count a, lam_count b, int32_t from, int32_t to, int32_t at, lam_count *out) {
    const lmi_int128 x = lmi_count_wide(a), y = lmi_count_wide(b), rise = (y - x) * (at - from);
    out->state = a.state > b.state ? a.state : b.state;
    if (rise % (to - from) != 0 || x + rise / (to - from) < 0) return false;
    const lam_state state = out->state;
    *out = lmi_of_wide(x + rise / (to - from));
    out->state = state;
    return true;
}

/* True if number `i` of all steps that ran is on the line through the first two. A cache is bytes that its
 * own analysis tells; the weights that are read may differ by what is routed. */
static bool is_straight(const lmi_vec *ran, int i) {
    lam_token_step *a = lmi_vec_at(ran, 0), *b = lmi_vec_at(ran, 1);
    for (size_t k = 2; b && k < ran->n; k++) {
        lam_token_step *s = lmi_vec_at(ran, k);
        lam_count expected;
        if (!on_line(*figure(a, i), *figure(b, i), a->step, b->step, s->step, &expected) ||
            !lmi_is_same(expected, *figure(s, i)))
            return false;
    }
    return true;
}

static lam_status between(whole *w, const lam_token_step *a, const lam_token_step *b, const bool *straight,
                          lam_error *e) {
    for (int32_t step = a->step + 1; step < b->step; step++) {
        lam_token_step x = *a, from = *a, to = *b;
        x.event = -1;
        x.step = step;
        x.keys = a->keys < 0 ? -1 : a->keys + (step - a->step) * a->fresh;
        for (int i = 0; figure(&x, i); i++)
            if (!straight[i] ||
                !on_line(*figure(&from, i), *figure(&to, i), a->step, b->step, step, figure(&x, i)))
                *figure(&x, i) = lmi_unknown();
        LAM_TRY(lmi_vec_put(&w->steps, &x, e));
    }
    return LAM_OK;
}

/* A step that ran in two sequences counts once. */
static void drop_repeated(whole *w) {
    lam_token_step *at = w->steps.data;
    size_t n = 0;
    for (size_t i = 0; i < w->steps.n; i++)
        if (n == 0 || at[i].step == 0 || at[i].step != at[n - 1].step) at[n++] = at[i];
    w->steps.n = n;
}

/* Fills in the steps between those that ran. */
static lam_status fill_in(whole *w, lam_error *e) {
    lmi_vec ran;
    bool straight[16] = {false};
    lam_status s = LAM_OK;
    lmi_vec_init(&ran, sizeof(lam_token_step));
    for (size_t i = 0; s == LAM_OK && i < w->steps.n; i++) {
        const lam_token_step *step = lmi_vec_at(&w->steps, i);
        if (step->stage == LAM_DECODE) s = lmi_vec_put(&ran, step, e);
    }
    lam_token_step unused = {0};
    for (int i = 0; figure(&unused, i); i++) straight[i] = is_straight(&ran, i);
    /* What is multiplied and computed: the four behind the cache. */
    w->t.bent = !straight[1] || !straight[2] || !straight[3] || !straight[4];
    for (size_t i = 1; s == LAM_OK && i < ran.n; i++)
        s = between(w, lmi_vec_at(&ran, i - 1), lmi_vec_at(&ran, i), straight, e);
    lmi_vec_free(&ran);
    if (w->steps.n) qsort(w->steps.data, w->steps.n, sizeof(lam_token_step), by_step);
    return s;
}

/* == sums ================================================================================================ */

static void sum_stages(whole *w) {
    lam_tokens *t = &w->t;
    for (int i = 0; i < LAM_N_STAGES; i++) {
        lam_token_stage *s = &t->stage[i];
        for (int p = 0; part_of(&s->cost, p); p++) *part_of(&s->cost, p) = lmi_exact(0);
        for (size_t k = 0; k < w->steps.n; k++) {
            lam_token_step *step = lmi_vec_at(&w->steps, k);
            if (step->stage != (lam_stage)i) continue;
            s->calls++;
            for (int p = 0; part_of(&s->cost, p); p++)
                *part_of(&s->cost, p) = lmi_count_add(*part_of(&s->cost, p), *part_of(&step->cost, p));
            s->pads = step->pads < 0 || s->pads < 0 ? -1 : s->pads + step->pads;
            if (step->fresh < 0 || s->tokens < 0)
                s->tokens = -1;
            else
                s->tokens += step->fresh * step->batch - (step->pads > 0 ? step->pads : 0);
        }
        lam_token_macs *macs = &s->cost.macs;
        macs->executed = lmi_settled(macs->executed);
        macs->effective = lmi_settled(macs->effective);
        s->cost.flops = lmi_settled(s->cost.flops);
        if (macs->model.state == LAM_EXACT) continue;
        macs->model = lmi_unknown();
        if (!s->why_model) s->why_model = "which scores a mask hides is not known";
    }
}

/* == parameters ========================================================================================== */

static bool owned_with(const lmi_token_run *r, int32_t a, int32_t b) {
    return r->m->tensors[a].owner >= 0 && r->m->tensors[a].owner == r->m->tensors[b].owner;
}

/* Elements of a parameter that are used for one token. Beside a stack of matrices, of which a token takes
 * some, what has a row for each of them is used as they are. */
static int64_t active_of(const lmi_token_run *r, int32_t i, lam_stage stage, int64_t *matrix) {
    const lam_model *m = r->m;
    const lmi_token_use *u = &r->use[i];
    const lam_tensor *t = &m->tensors[i];
    *matrix = u->whole ? t->numel : u->part < t->numel ? u->part : t->numel;
    if (!u->touched[stage]) return 0;
    if (u->groups && !u->whole) return *matrix;
    for (int32_t k = 0; k < m->n_tensors; k++) {
        const lmi_token_use *stack = &r->use[k];
        if (k == i || stack->groups < 2 || stack->whole || !owned_with(r, i, k)) continue;
        if (t->shape.ndim < 1 || t->shape.sizes[0] != stack->groups) continue;
        return t->numel / stack->groups * (stack->part / (m->tensors[k].numel / stack->groups));
    }
    return t->numel;
}

static void count_parameters(whole *w) {
    const lmi_token_run *r = &w->run;
    const lam_model *m = r->m;
    int64_t total = 0, active = 0, matrix = 0, part;
    const bool steps = w->t.stage[LAM_DECODE].calls > 0;
    bool clear = steps;
    const lam_stage stage = steps && !w->t.cacheless ? LAM_DECODE : LAM_PREFILL;
    lam_token_params *p = &w->t.params;
    for (int32_t i = 0; i < m->n_tensors; i++) {
        const lmi_token_use *u = &r->use[i];
        if (!r->parameter[i] || m->tensors[i].numel < 0) continue;
        total += m->tensors[i].numel;
        clear = clear && !u->unclear;
        active += active_of(r, i, stage, &part);
        matrix += part;
        if (u->groups < 2 || u->whole || m->tensors[i].numel < u->groups) continue;
        p->experts = u->groups;
        p->routed = (int32_t)(u->part / (m->tensors[i].numel / u->groups));
    }
    for (int32_t i = 0; i < m->n_modules && p->experts; i++) {
        bool any = false;
        for (int32_t k = 0; k < m->modules[i].n_owned; k++) {
            const lmi_token_use *u = &r->use[m->modules[i].owned[k].tensor];
            any = any || (u->groups == p->experts && !u->whole);
        }
        p->layers += any;
    }
    p->total = lmi_exact(total);
    /* Of a prefill alone it is not known what is an encoder's. */
    p->active = clear ? lmi_exact(active) : lmi_unknown();
    p->active_matrix = clear ? lmi_exact(matrix) : lmi_unknown();
}

/* What the last step reads, by its batch: its experts are those that a token multiplies with. */
static void count_reads(whole *w) {
    const lmi_token_run *r = &w->run;
    lam_token_reads *to = &w->t.reads;
    int32_t last = -1;
    for (int32_t k = 0; k < (int32_t)r->calls.n; k++)
        if (!lmi_token_prefills(r, k) || w->t.cacheless) last = k;
    for (int32_t i = 0; i < r->m->n_tensors; i++) {
        const lmi_token_use *u = &r->use[i];
        const lam_tensor *t = &r->m->tensors[i];
        if (!r->parameter[i] || u->groups < 2 || u->whole || t->numel < 0) continue;
        to->all += t->numel * lam_dtype_bits(t->dtype) / 8;
        to->routed += (u->part < t->numel ? u->part : t->numel) * lam_dtype_bits(t->dtype) / 8;
    }
    if (last < 0 || r->work[last].weights < 0)
        to->why = "what a step reads of the parameters is not known";
    else if (r->chooses)
        to->why = "a router chooses among parameters that are read one by one, so how many a larger batch "
                  "reads is not known";
    if (to->why) return;
    to->fixed = r->work[last].weights - r->work[last].dealt;
    to->fixed_most = r->work[last].weights_most - r->work[last].dealt_most;
}

/* Bytes of everything that the model holds, and the type of most of its parameters. */
static void weigh(whole *w) {
    const lam_model *m = w->run.m;
    int64_t of[128] = {0}, most = 0;
    w->t.dtype = -1;
    for (int32_t i = 0; i < m->n_tensors; i++) {
        const lam_tensor *t = &m->tensors[i];
        if (!w->run.parameter[i]) continue;
        if (t->bytes < 0 || w->t.weights < 0)
            w->t.weights = -1;
        else
            w->t.weights += t->bytes;
        if (t->dtype >= 0 && t->dtype < 128 && t->numel > 0) of[t->dtype] += t->numel;
    }
    for (int32_t i = 0; i < 128; i++)
        if (of[i] > most) {
            most = of[i];
            w->t.dtype = i;
        }
}

/* == all ===================================================================================================
 */

static void find_cacheless(whole *w) {
    const int32_t n = (int32_t)w->run.calls.n;
    bool given = false, longer = false;
    for (int32_t k = 0; k < n; k++) {
        given = given || lmi_token_at(&w->run, k)->given;
        longer = longer || lmi_token_at(&w->run, k)->keys > lmi_token_at(&w->run, 0)->keys;
    }
    w->t.cacheless = w->o->sampled && !given && longer;
}

static void head(whole *w) {
    const lmi_token_call *first = lmi_token_at(&w->run, 0);
    const lam_event *ev = &w->run.m->events[first->event];
    lam_tokens *t = &w->t;
    t->prompt = w->o->prompt > 0 ? w->o->prompt : first->source >= 0 ? first->source : prompt_of(&w->run, 0);
    t->batch = w->o->batch > 0 ? w->o->batch : first->batch;
    t->asked_prompt = w->o->given_prompt;
    t->asked_fresh = w->o->given_fresh;
    t->sampled = w->o->sampled;
    t->device = -1;
    for (int32_t i = 0; i < ev->n_in && t->device < 0; i++)
        if (lmi_token_rank(&ev->in[i])) t->device = ev->in[i].device;
    t->logits = -1;
    for (int32_t i = 0; i < ev->n_out && t->logits < 0; i++)
        if (ev->out[i].ndim == 3 && ev->out[i].position >= 0 && !(w->run.holders >> ev->out[i].position & 1))
            t->logits = ev->out[i].sizes[1];
    if (t->cacheless && t->logits < 0) t->logits = first->fresh;
}

static lam_status fill_run(lmi_token_run *r, const lam_costs *c, lmi_arena *a, const char *path,
                           lam_error *e) {
    r->c = c;
    r->m = c->model;
    r->arena = a;
    LAM_TRY(lam_costs_settle((lam_costs *)(uintptr_t)c, e)); /* it changes no number */
    if (!lmi_by_ops(c) || !c->model->ops_seen)
        return lmi_fail(e, LAM_USAGE, "tokens", "tokens need operators to be counted, and layers alone were");
    return lmi_token_calls(r, path, e);
}

/* A run of other lengths may have calls of the prefill alone, which don't show which results are kept. */
static lam_status find_cache(whole *w, lam_error *e) {
    const bool other = w->o->lengths != NULL;
    if (other) LAM_TRY(fill_run(&w->lengths, w->o->lengths, &w->arena, w->o->path, e));
    LAM_TRY(lmi_token_kept(&w->run, e));
    w->lengths.holders = w->run.holders;
    if (other) LAM_TRY(lmi_token_kept(&w->lengths, e));
    return lmi_token_growth(&w->run, other ? &w->lengths : NULL, &w->arena, &w->t.cache, e);
}

/* What calls take beside weights and cache. */
static lam_status follow(whole *w, lam_error *e) {
    for (int s = 0; s < LAM_N_STAGES; s++) {
        w->t.stage[s].activations = lmi_unknown();
        w->t.stage[s].followed_keys = -1;
    }
    if (w->o->not_followed) {
        w->t.why_activations = lmi_strdup(&w->arena, w->o->not_followed);
        if (!w->t.why_activations) return lmi_nomem(e);
    }
    if (!w->o->followed) return LAM_OK;
    LAM_TRY(fill_run(&w->followed, w->o->followed, &w->arena, w->o->path, e));
    w->followed.holders = w->run.holders;
    LAM_TRY(lmi_token_kept(&w->followed, e));
    return lmi_token_space(&w->followed, &w->t, &w->arena, e);
}

static lam_status build(whole *w, const lam_costs *c, lam_error *e) {
    LAM_TRY(fill_run(&w->run, c, &w->arena, w->o->path, e));
    lmi_token_padding(&w->run);
    LAM_TRY(lmi_token_products(&w->run, e));
    LAM_TRY(find_cache(w, e));
    find_cacheless(w);
    LAM_TRY(follow(w, e));
    for (int32_t k = 0; k < (int32_t)w->run.calls.n; k++) LAM_TRY(add_call(w, k, e));
    if (w->steps.n) qsort(w->steps.data, w->steps.n, sizeof(lam_token_step), by_step);
    if (w->o->sampled) {
        drop_repeated(w);
        LAM_TRY(fill_in(w, e));
    }
    w->t.cache.storage = lies_in(w);
    head(w);
    sum_stages(w);
    if (w->o->prompt > 0 && w->t.stage[LAM_PREFILL].tokens >= 0)
        w->t.stage[LAM_PREFILL].tokens =
            w->o->prompt * w->t.batch - (w->t.stage[LAM_PREFILL].pads > 0 ? w->t.stage[LAM_PREFILL].pads : 0);
    w->t.fresh =
        w->o->fresh > 0 ? w->o->fresh : (w->t.stage[LAM_PREFILL].calls > 0) + w->t.stage[LAM_DECODE].calls;
    count_parameters(w);
    count_reads(w);
    weigh(w);
    w->t.steps = w->steps.data;
    w->t.n_steps = (int32_t)w->steps.n;
    w->t.wide = w->run.wide.data;
    w->t.n_wide = (int32_t)w->run.wide.n;
    return LAM_OK;
}

static void begin(lmi_token_run *r) {
    lmi_vec_init(&r->calls, sizeof(lmi_token_call));
    lmi_vec_init(&r->wide, sizeof(lam_token_wide));
    lmi_vec_init(&r->entries, sizeof(lmi_token_entry));
    lmi_vec_init(&r->held, sizeof(lmi_token_held));
}

static void end(lmi_token_run *r) {
    lmi_vec_free(&r->calls);
    lmi_vec_free(&r->wide);
    lmi_vec_free(&r->entries);
    lmi_vec_free(&r->held);
}

lam_status lam_tokens_new(lam_tokens **out, const lam_costs *c, const lam_token_options *o, lam_error *e) {
    static const lam_token_options as_it_ran = {0};
    if (!out || !c)
        return lmi_fail(e, LAM_USAGE, "lam_tokens_new", "there are no costs, or nowhere to put the result");
    *out = NULL;
    if (c->model->given) return lmi_needs_run(c->model, "a table of tokens", e);
    whole *w = calloc(1, sizeof *w);
    if (!w) return lmi_nomem(e);
    w->o = o ? o : &as_it_ran;
    lmi_arena_init(&w->arena, UINT64_MAX);
    lmi_vec_init(&w->steps, sizeof(lam_token_step));
    begin(&w->run);
    begin(&w->lengths);
    begin(&w->followed);
    lam_status s = build(w, c, e);
    w->o = NULL;
    if (s == LAM_OK)
        *out = &w->t;
    else
        lam_tokens_free(&w->t);
    return s;
}

void lam_tokens_free(lam_tokens *t) {
    if (!t) return;
    whole *w = (whole *)(void *)t;
    end(&w->run);
    end(&w->lengths);
    end(&w->followed);
    lmi_vec_free(&w->steps);
    lmi_arena_free(&w->arena);
    free(w);
}
