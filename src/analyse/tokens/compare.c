/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the FLOPs of a run of a language model with those that others define, and finds the reasons for
 * each difference. A formula and the run are split into the same parts; what differs in a part is a reason,
 * and what is in no part is not explained. A formula never replaces a count: where the count is not known, no
 * difference is. */
#include "analyse/tokens/formulas.h"

#include <stdlib.h>

static const char ALL[] = "all"; /* in a list of conventions */

typedef struct comparing {
    lam_comparison *c;
    lmi_token_run run;
    lmi_arena scratch;
    lmi_parts parts;
    lmi_names names;
    bool training;
    lmi_int128 times; /* what a formula multiplies a forward by */
    lmi_int128 counted;
    bool known;           /* `counted` is */
    lmi_vec causes;       /* lam_cause, of the row that is being filled */
    lmi_int128 explained; /* their sum */
    lam_error *e;
    lam_status s;
} comparing;

/* -- reasons ----------------------------------------------------------------------------------------- */

static int64_t small(lmi_int128 n) {
    return n > INT64_MAX ? INT64_MAX : n < INT64_MIN ? INT64_MIN : (int64_t)n;
}

/* Adds a reason, of `n` FLOPs of all tokens, or to the reason of that text; the text is kept. */
static void reason(comparing *j, lmi_int128 n, const char *text, const char *note) {
    const lam_cause c = {.text = text, .note = note, .difference = small(n)};
    if (n == 0 || j->s != LAM_OK) return;
    for (size_t i = 0; text && i < j->causes.n; i++) {
        lam_cause *before = lmi_vec_at(&j->causes, i);
        if (strcmp(before->text, text) != 0) continue;
        before->difference = small(before->difference + n);
        j->explained += n;
        return;
    }
    if (!text) j->s = lmi_nomem(j->e);
    if (j->s == LAM_OK) j->s = lmi_vec_put(&j->causes, &c, j->e);
    j->explained += n;
}

static const char *kept(comparing *j, lmi_buf *b) {
    const char *text = lmi_buf_keep(b, &j->c->arena);
    if (!text && j->s == LAM_OK) j->s = lmi_nomem(j->e);
    return text;
}

/* "leaves out routers"; "counts the head as 1.2 M, not 2.4 M" a token. */
static const char *say_part(comparing *j, lmi_part p, lmi_int128 its, lmi_int128 counted) {
    char a[48], b[48];
    lmi_buf text;
    const lmi_int128 tokens = j->parts.tokens;
    lmi_buf_init(&text);
    if (its == 0) {
        lmi_putf(&text, "leaves out %s", lmi_part_what(p));
        return kept(j, &text);
    }
    for (int exact = 0; exact < 2; exact++) {
        lam_text_count(a, sizeof a, lmi_of_wide((its + tokens / 2) / tokens), exact);
        lam_text_count(b, sizeof b, lmi_of_wide((counted + tokens / 2) / tokens), exact);
        if (strcmp(a, b) != 0) break;
    }
    lmi_putf(&text, "counts %s as %s a token, not as %s", lmi_part_what(p), a, b);
    return kept(j, &text);
}

static lmi_int128 forward(const comparing *j, lmi_part p) { return 2 * j->parts.macs[p][LAM_FORWARD]; }

/* What the formula takes of the parameters in each part, in elements. */
typedef struct taken {
    lmi_int128 part[LMI_N_PARTS], tokens, tables, small, unused, experts;
} taken;

static taken take(const comparing *j, int flags) {
    taken t = {{0}, 0, 0, 0, 0, 0};
    for (int32_t i = 0; i < j->parts.n; i++) {
        const lmi_used *u = &j->parts.used[i];
        if (lmi_is_without(u, flags)) continue;
        lmi_int128 *to = u->expert                  ? &t.experts
                         : u->use == LMI_USE_MATRIX ? &t.part[u->part]
                         : u->use == LMI_USE_TOKENS ? &t.tokens
                         : u->use == LMI_USE_TABLE  ? &t.tables
                         : u->use == LMI_USE_SMALL  ? &t.small
                                                    : &t.unused;
        *to += u->numel;
    }
    return t;
}

/* The reasons of a formula that multiplies each token with parameters. */
static void weigh(comparing *j, const lmi_token_formula *f) {
    const lmi_int128 each = 2 * j->times * j->parts.tokens;
    const int64_t experts = lmi_named(&j->names, "num_experts"),
                  routed = lmi_named(&j->names, "num_experts_per_tok");
    taken t = take(j, f->flags);
    lmi_int128 ran = j->times * forward(j, LMI_PART_experts);
    if (f->flags & LMI_WITHOUT_IDLE && experts > 0 && routed >= 0) {
        const lmi_int128 active = t.experts * routed / experts;
        reason(j, each * active - ran,
               each * active > ran ? "counts biases of routed experts as products"
                                   : "counts the routed experts that a token takes, and more of them ran",
               NULL);
    } else {
        reason(j, each * t.experts - ran, "counts all routed experts, of which a token takes some", NULL);
    }
    reason(j, each * t.tokens, "counts the table of tokens as a product; a token looks up one row", NULL);
    reason(j, each * t.tables, "counts other tables, as of positions, as products", NULL);
    reason(j, each * t.small, "counts norms and biases as products", NULL);
    reason(j, each * t.unused, "counts parameters that the run did not use", NULL);
    for (int p = 0; p < LMI_PART_scores; p++) {
        if (p == LMI_PART_experts) continue;
        const lmi_int128 its = each * t.part[p], counted = j->times * forward(j, (lmi_part)p);
        if (p == LMI_PART_head && its == 0)
            reason(j, -counted, "leaves out the head, which is also the table of tokens", NULL);
        else if (its != counted)
            reason(j, its - counted, say_part(j, (lmi_part)p, its, counted),
                   "Each parameter counts once a token; the run multiplies with some of them more often, or "
                   "less.");
    }
}

/* Scores that a causal mask alone leaves, of all scores of sequences of that length. */
static lmi_int128 causal(const comparing *j, lmi_int128 all) {
    const lmi_int128 length = j->parts.length;
    return length > 0 ? all * (length + 1) / (2 * length) : all;
}

/* The reasons of the formula's scores. */
static void attend(comparing *j, const lmi_token_formula *f) {
    const lmi_term *term = &f->part[LMI_PART_scores];
    const lmi_int128 x = j->times, all = 2 * j->parts.dense, ran = forward(j, LMI_PART_scores);
    const bool causes = ran <= causal(j, all) && ran < all;
    const lmi_int128 left = causes ? causal(j, all) : ran;
    if (!term->there) {
        reason(j, -x * ran, "leaves out scores of attention", NULL);
        return;
    }
    if (all == 0) {
        reason(j, x * term->flops, "counts scores of attention, which the run does not have", NULL);
        return;
    }
    if (!j->parts.hides) {
        reason(j, x * (term->flops - all),
               term->note          ? term->note
               : term->flops < all ? "takes fewer scores than those of all queries with all keys"
                                   : "takes other sizes of attention than those that ran",
               NULL);
        return;
    }
    if (f->scores == LMI_SCORES_WINDOWS && lmi_named(&j->names, "layer_windows") > 0) {
        reason(j, x * (term->flops - ran), "counts what the masks of causal attention and windows hide",
               NULL);
        return;
    }
    if (f->scores == LMI_SCORES_HALF) {
        reason(j, x * (all / 2 - left),
               causes ? "takes half of all scores, and not what is on the diagonal too"
                      : "takes half of all scores",
               NULL);
        reason(j, x * (left - ran), "counts scores that a window hides", NULL);
        reason(j, x * (term->flops - all / 2), "takes other sizes of attention than those that ran",
               term->note);
        return;
    }
    reason(j, x * (all - left), "counts scores that the causal mask hides", NULL);
    reason(j, x * (left - ran), "counts scores that a window hides", NULL);
    reason(j, x * (term->flops - all),
           term->note ? term->note : "takes other sizes of attention than those that ran", NULL);
}

/* The reasons of a formula that has a term for each part. Where no name tells projections of attention from
 * other matrices, both are one part. */
static void each_part(comparing *j, const lmi_token_formula *f) {
    const bool apart = forward(j, LMI_PART_projections) > 0;
    for (int p = 0; p < LMI_N_PARTS; p++) {
        const lmi_term *term = &f->part[p];
        if (p == LMI_PART_scores || p == LMI_PART_other || (p == LMI_PART_projections && !apart)) continue;
        const lmi_int128 also = p == LMI_PART_mlp && !apart ? f->part[LMI_PART_projections].flops : 0;
        const lmi_int128 its = j->times * (term->flops + also), counted = j->times * forward(j, (lmi_part)p);
        if (its == counted) continue;
        reason(j, its - counted, term->note ? term->note : say_part(j, (lmi_part)p, its, counted), NULL);
    }
}

/* The reasons of a backward pass that is taken as twice the forward. */
static void go_back(comparing *j) {
    const lmi_parts *p = &j->parts;
    const lmi_int128 scores =
        p->macs[LMI_PART_scores][LAM_BACKWARD] - 2 * p->macs[LMI_PART_scores][LAM_FORWARD];
    lmi_int128 less = scores < 0 ? -scores : 0;
    for (int i = 0; i < LMI_N_PARTS; i++)
        if (i != LMI_PART_scores) less += 2 * p->macs[i][LAM_FORWARD] - p->macs[i][LAM_BACKWARD];
    if (scores > 0)
        reason(j, -2 * scores,
               p->again ? "leaves out scores that attention's backward pass computes again"
                        : "takes attention's backward pass as twice its forward, and more ran",
               NULL);
    reason(j, 2 * less,
           less > 0 ? "takes the backward pass as twice the forward, and less ran, as where layers are frozen"
                    : "takes the backward pass as twice the forward, and more ran",
           NULL);
    reason(j, -2 * lmi_count_wide(p->whole[LAM_RECOMPUTE]),
           "leaves out what is computed again, as with checkpoints", NULL);
}

static int larger(const void *a, const void *b) {
    const lam_cause *x = a, *y = b;
    const lmi_int128 n = x->difference < 0 ? -(lmi_int128)x->difference : x->difference;
    const lmi_int128 k = y->difference < 0 ? -(lmi_int128)y->difference : y->difference;
    return n != k ? (n > k ? -1 : 1) : strcmp(x->text, y->text);
}

/* -- rows -------------------------------------------------------------------------------------------- */

static lmi_int128 total(const lmi_token_formula *f) {
    lmi_int128 n = f->weights.flops;
    for (int p = 0; p < LMI_N_PARTS; p++) n += f->part[p].flops;
    return n;
}

static lam_status find_reasons(comparing *j, const lmi_token_formula *f, lam_compared *row) {
    const lmi_int128 off = j->times * total(f) - j->counted;
    j->explained = 0;
    j->causes.n = 0;
    if (f->flags & LMI_NO_WEIGHTS)
        each_part(j, f);
    else
        weigh(j, f);
    attend(j, f);
    reason(j, -j->times * forward(j, LMI_PART_state) * !(f->flags & LMI_NO_WEIGHTS),
           "leaves out products of no parameter, as of a state", NULL);
    if (j->training) go_back(j);
    if (j->s != LAM_OK) return j->s;
    if (j->causes.n) qsort(j->causes.data, j->causes.n, sizeof(lam_cause), larger);
    const lam_cause rest = {.text = "not explained", .difference = small(off - j->explained)};
    if (rest.difference) LAM_TRY(lmi_vec_put(&j->causes, &rest, j->e));
    row->told = true;
    row->difference = small(off);
    row->n_causes = (int32_t)j->causes.n;
    row->causes = lmi_copy(&j->c->arena, j->causes.data, j->causes.n, sizeof(lam_cause));
    return row->causes ? LAM_OK : lmi_nomem(j->e);
}

static lam_status compare_one(comparing *j, int32_t formula) {
    lam_compared *row = &j->c->rows[j->c->n++];
    lmi_token_formula f;
    lmi_buf lacks;
    lmi_buf_init(&lacks);
    lmi_token_formula_of(formula, &j->names, &f, &lacks);
    const lam_status put = lmi_buf_status(&lacks, j->e);
    if (put != LAM_OK) {
        lmi_buf_free(&lacks);
        return put;
    }
    const lmi_int128 n = j->times * total(&f);
    const bool fits = n <= INT64_MAX && j->counted <= INT64_MAX;
    *row = (lam_compared){.convention = f.name,
                          .macs = lmi_unknown(),
                          .flops = lmi_unknown(),
                          .params = lmi_count_of(lmi_named(&j->names, "parameters")),
                          .formula = f.words,
                          .source = f.source};
    if (*lmi_buf_text(&lacks)) {
        lmi_buf b;
        lmi_buf_init(&b);
        lmi_putf(&b, "it needs %s, %s", lmi_buf_text(&lacks),
                 j->names.config ? "which the model's configuration does not tell"
                                 : "and the model has no configuration");
        lmi_buf_free(&lacks);
        row->gap = kept(j, &b);
        return j->s;
    }
    lmi_buf_free(&lacks);
    row->flops = lmi_of_wide(n);
    return j->known && fits ? find_reasons(j, &f, row) : LAM_OK;
}

/* The row of what was counted. */
static lam_status count(comparing *j) {
    lam_compared *row = &j->c->rows[j->c->n++];
    lam_count macs = j->parts.whole[LAM_FORWARD];
    for (int p = LAM_BACKWARD; j->training && p < LAM_N_PHASES; p++)
        macs = lmi_count_add(macs, j->parts.whole[p]);
    macs = lmi_settled(macs);
    j->counted = 2 * lmi_count_wide(macs);
    j->known = macs.state == LAM_EXACT && j->parts.tokens > 0;
    *row = (lam_compared){.convention = "counted",
                          .macs = macs,
                          .flops = lmi_of_wide(j->counted),
                          .params = lmi_count_of(lmi_named(&j->names, "parameters")),
                          .told = j->known};
    row->flops.state = macs.state;
    if (macs.state == LAM_UNKNOWN) row->flops = lmi_unknown();
    if (j->known) return LAM_OK;
    const char *gap =
        j->training && !j->run.c->ops.back ? "no backward pass ran" : lam_costs_gap(j->run.c, 0);
    row->gap =
        lmi_strdup(&j->c->arena,
                   macs.state != LAM_EXACT && gap ? gap : "how many tokens the model was given is not known");
    return row->gap ? LAM_OK : lmi_nomem(j->e);
}

static int32_t find(const char *name) {
    for (int32_t i = 0; i < lmi_n_token_formulas(); i++)
        if (strcmp(lam_token_convention(i), name) == 0) return i;
    return -1;
}

static lam_status fill(comparing *j, const lam_token_compare *o) {
    bool named = o->n > 0;
    for (int32_t i = 0; i < o->n; i++) named = named && strcmp(o->conventions[i], ALL) != 0;
    j->c->named = o->n > 0;
    LAM_TRY(count(j));
    for (int32_t i = 0; i < (named ? o->n : lmi_n_token_formulas()); i++) {
        const int32_t k = named ? find(o->conventions[i]) : i;
        if (k < 0) return lam_token_convention_known(o->conventions[i], j->e);
        LAM_TRY(compare_one(j, k));
    }
    return LAM_OK;
}

static lam_status read_run(comparing *j, lam_costs *c) {
    lmi_token_run *r = &j->run;
    r->c = c;
    r->m = c->model;
    r->arena = &j->scratch;
    LAM_TRY(lam_costs_settle(c, j->e));
    if (!lmi_by_ops(c) || !c->model->ops_seen)
        return lmi_fail(j->e, LAM_USAGE, "tokens",
                        "tokens need operators to be counted, and layers alone were");
    LAM_TRY(lmi_token_calls(r, "", j->e));
    LAM_TRY(lmi_token_products(r, j->e));
    LAM_TRY(lmi_parts_of(r, &j->parts, j->e));
    const char *config = lam_model_told(r->m, "config");
    if (config && !*config) config = NULL;
    lmi_names_of(&j->parts, config, -1, &j->names);
    const lmi_widths w = {lmi_named(&j->names, "intermediate_size"),
                          lmi_named(&j->names, "moe_intermediate_size"),
                          lmi_named(&j->names, "shared_expert_intermediate_size")};
    const int64_t matrices = lmi_mlp_matrices(r, &j->parts, lmi_named(&j->names, "hidden_size"), &w);
    lmi_names_of(&j->parts, config, matrices, &j->names);
    return LAM_OK;
}

/* What the header tells, copied: the model may be freed before the comparison. */
static lam_status tell_run(comparing *j, const lam_token_compare *o) {
    const lam_model *m = j->run.m;
    const char *dry = lam_model_told(m, "dry");
    lam_comparison *c = j->c;
    c->metric = LAM_FLOPS;
    c->phase = LAM_FORWARD;
    c->tokens = (lmi_token_comparison){.tokens = j->parts.tokens,
                                       .batch = j->parts.batch,
                                       .length = j->parts.length,
                                       .there = true,
                                       .training = o->training,
                                       .hides = j->parts.hides,
                                       .given = o->given_length,
                                       .dry = dry && strcmp(dry, "yes") == 0};
    c->tokens.model = lmi_strdup(&c->arena, m->modules[j->run.module].type);
    return c->tokens.model ? LAM_OK : lmi_nomem(j->e);
}

static lam_status build(comparing *j, lam_costs *c, const lam_token_compare *o) {
    LAM_TRY(read_run(j, c));
    LAM_TRY(tell_run(j, o));
    const int32_t n = o->n > lmi_n_token_formulas() ? o->n : lmi_n_token_formulas();
    j->c->rows = lmi_alloc(&j->c->arena, (uint64_t)n + 1, sizeof *j->c->rows);
    return j->c->rows ? fill(j, o) : lmi_nomem(j->e);
}

lam_status lam_token_convention_known(const char *name, lam_error *e) {
    const char *names[16] = {NULL};
    if (strcmp(name, ALL) == 0 || find(name) >= 0) return LAM_OK;
    for (int32_t i = 0; i < lmi_n_token_formulas() && i < 16; i++) names[i] = lam_token_convention(i);
    return lmi_no_such(e, "convention of a token", name, NULL, names, sizeof *names,
                       (size_t)lmi_n_token_formulas());
}

lam_status lam_compare_tokens(lam_comparison **out, lam_costs *costs, const lam_token_compare *o,
                              lam_error *e) {
    static const lam_token_compare usual = {0};
    if (!out || !costs)
        return lmi_fail(e, LAM_USAGE, "lam_compare_tokens",
                        "there are no costs, or nowhere to put the result");
    *out = NULL;
    if (costs->model->given) return lmi_needs_run(costs->model, "a comparison of conventions", e);
    if (!o) o = &usual;
    lam_comparison *c = calloc(1, sizeof *c);
    if (!c) return lmi_nomem(e);
    comparing j = {.c = c, .training = o->training, .times = o->training ? 3 : 1, .e = e, .s = LAM_OK};
    lmi_arena_init(&c->arena, UINT64_MAX);
    lmi_arena_init(&j.scratch, UINT64_MAX);
    lmi_vec_init(&j.causes, sizeof(lam_cause));
    lmi_vec_init(&j.run.calls, sizeof(lmi_token_call));
    lmi_vec_init(&j.run.wide, sizeof(lam_token_wide));
    lam_status s = build(&j, costs, o);
    lmi_vec_free(&j.run.wide);
    lmi_vec_free(&j.run.calls);
    lmi_vec_free(&j.causes);
    lmi_arena_free(&j.scratch);
    if (s == LAM_OK)
        *out = c;
    else
        lam_compare_free(c);
    return s;
}
