/* SPDX-License-Identifier: Apache-2.0
 *
 * Which rank died first. The others end too, since their collectives break or since the launcher ends them;
 * so the first is one that ended by an exception of its own code; else one that ended without a word while
 * others report that; else the one that was last seen well before the others. */
#include "analyse/ranks/ranks.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>

typedef enum end { CLEAN, OWN_CODE, COLLECTIVE, SIGNAL, SILENT } end;

static bool has_word(const char *text, const char *word) {
    for (; *text; text++) {
        size_t i = 0;
        while (word[i] && tolower((unsigned char)text[i]) == word[i]) i++;
        if (!word[i]) return true;
    }
    return false;
}

/* Exceptions that a collective that broke raises: torch.distributed's own, RuntimeErrors of a backend that
 * say so, and Python's of connections. The same words in others are of the program, as in those of a loader.
 */
static bool is_of_collective(const char *by) {
    static const char *const types[] = {"RuntimeError",           "TimeoutError",
                                        "ConnectionError",        "ConnectionResetError",
                                        "ConnectionAbortedError", "BrokenPipeError",
                                        "ConnectionRefusedError", "Timeout"};
    static const char *const broke[] = {"connection", "timed out",      "timeout",    "nccl",
                                        "gloo",       "broken pipe",    "brokenpipe", "socket",
                                        "heartbeat",  "closed by peer", "collective", "process group",
                                        "distributed"};
    const char *type = by, *after = by + strcspn(by, ": ");
    for (const char *c = by; c < after; c++)
        if (*c == '.') type = c + 1;
    const size_t n = (size_t)(after - type);
    if (strncmp(type, "Dist", 4) == 0) return true;
    bool may = !(isupper((unsigned char)type[0]) && (*after == ':' || !*after)); /* no exception's name */
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        may = may || (strlen(types[i]) == n && strncmp(type, types[i], n) == 0);
    for (size_t i = 0; may && i < sizeof broke / sizeof *broke; i++)
        if (has_word(by, broke[i])) return !has_word(by, "dataloader");
    return false;
}

static end end_of(const lmi_fact *f) {
    const char *by = f->ended_by;
    if (!by || !*by) return f->ended == LAM_NOT_KNOWN ? SILENT : CLEAN;
    if (strcmp(by, "end") == 0 || strcmp(by, "SystemExit") == 0) return CLEAN;
    if (strncmp(by, "SIG", 3) == 0 || strncmp(by, "KeyboardInterrupt", 17) == 0) return SIGNAL;
    return is_of_collective(by) ? COLLECTIVE : OWN_CODE;
}

typedef struct ends {
    lam_ranks *r;
    int32_t n, few; /* ranks with a fact of the last attempt; more than `few` did not all die first */
    end *how;       /* of each rank */
    bool *there;
    double *seen; /* when it was last alive, by the clocks' middle; NaN */
} ends;

/* How far the clock of each node is from the middle: all ranks begin a step together. */
static lam_status skews(ends *x, double *skew, lam_error *e) {
    lam_ranks *r = x->r;
    const lmi_meet *at = r->meets.data;
    lmi_groups by_step, by_node;
    lmi_arena room;
    lmi_arena_init(&room, UINT64_MAX);
    const int32_t n = (int32_t)r->meets.n, last = r->attempts - 1;
    int32_t *steps = lmi_alloc(&room, (uint64_t)n, sizeof *steps);
    int32_t *nodes = lmi_alloc(&room, (uint64_t)n, sizeof *nodes);
    double *off = lmi_alloc(&room, (uint64_t)n, sizeof *off), *v = lmi_alloc(&room, (uint64_t)n, sizeof *v);
    bool ok = steps && nodes && off && v;
    for (int32_t i = 0; ok && i < n; i++) {
        const bool known = at[i].started != LAM_NOT_KNOWN && r->steps[at[i].step].attempt == last;
        steps[i] = known ? at[i].step : -1;
        nodes[i] = known ? at[i].node : -1;
    }
    ok = ok && lmi_group_by(&room, steps, n, r->n_steps, &by_step) &&
         lmi_group_by(&room, nodes, n, (int32_t)r->nodes.n, &by_node);
    for (int32_t s = 0; ok && s < r->n_steps; s++) {
        const int32_t from = by_step.start[s], to = by_step.start[s + 1];
        /* Relative to the step's first start, so that a double has every microsecond. */
        for (int32_t i = from; i < to; i++)
            v[i - from] = (double)(at[by_step.order[i]].started - r->steps[s].started);
        const double middle = lmi_middle(v, (size_t)(to - from));
        for (int32_t i = from; i < to; i++)
            off[by_step.order[i]] = (double)(at[by_step.order[i]].started - r->steps[s].started) - middle;
    }
    for (size_t k = 0; ok && k < r->nodes.n; k++) {
        const int32_t from = by_node.start[k], to = by_node.start[k + 1];
        for (int32_t i = from; i < to; i++) v[i - from] = off[by_node.order[i]];
        skew[k] = to > from ? lmi_middle(v, (size_t)(to - from)) : 0;
    }
    lmi_arena_free(&room);
    return ok ? LAM_OK : lmi_nomem(e);
}

static int32_t mark(const ends *x, end how, bool *dead) {
    int32_t n = 0;
    for (int32_t i = 0; i < x->r->n_ranks; i++) {
        dead[i] = x->there[i] && x->how[i] == how;
        n += dead[i];
    }
    return n;
}

static int32_t count(const ends *x, end how) {
    int32_t n = 0;
    for (int32_t i = 0; i < x->r->n_ranks; i++) n += x->there[i] && x->how[i] == how;
    return n;
}

/* Ranks that ended by a signal after the last beat of those that ended without a word. */
static bool were_ended_later(const ends *x) {
    double silent = -INFINITY, signal = INFINITY;
    for (int32_t i = 0; i < x->r->n_ranks; i++) {
        if (!x->there[i] || isnan(x->seen[i])) continue;
        if (x->how[i] == SILENT && x->seen[i] > silent) silent = x->seen[i];
        if (x->how[i] == SIGNAL && x->seen[i] < signal) signal = x->seen[i];
    }
    return isfinite(silent) && isfinite(signal) && signal > silent;
}

/* Those that were last seen well before the median of all that were not closed. */
static lam_status first_unseen(const ends *x, bool *dead, bool *any, lam_error *e) {
    lam_ranks *r = x->r;
    size_t n = 0;
    int32_t unclean = 0, early = 0;
    double first = INFINITY;
    for (int32_t i = 0; i < r->n_ranks; i++) {
        if (!x->there[i] || x->how[i] == CLEAN) continue;
        unclean++;
        r->room[n++] = x->seen[i];
    }
    const double rest = lmi_middle(r->room, n);
    for (int32_t i = 0; i < r->n_ranks; i++) {
        const bool there = x->there[i] && x->how[i] != CLEAN;
        dead[i] = there && x->seen[i] < rest - lmi_ranking.margin_us;
        early += dead[i];
        if (dead[i] && x->seen[i] < first) first = x->seen[i];
    }
    *any = early && early <= x->few;
    for (int32_t i = 0; i < r->n_ranks; i++)
        dead[i] = *any && dead[i] && x->seen[i] <= first + lmi_ranking.margin_us;
    if (early || unclean < x->n || !x->n || isnan(rest)) return LAM_OK;
    return lmi_ranks_note(r, e, "all ranks stopped within five seconds: who stopped first can't be told");
}

static bool are_few(const ends *x, int32_t n) { return n > 0 && n <= x->few && n < x->n; }

/* *sure: not only by who was seen last. */
static lam_status decide(ends *x, bool *dead, bool *any, bool *sure, lam_error *e) {
    const int32_t silent = count(x, SILENT), clean = count(x, CLEAN);
    *any = *sure = false;
    if (clean == x->n) return LAM_OK;
    if (are_few(x, mark(x, OWN_CODE, dead))) {
        *any = *sure = true;
        return LAM_OK;
    }
    const bool others_broke = count(x, COLLECTIVE) > 0 || were_ended_later(x) || clean > 0;
    if (others_broke && are_few(x, silent)) {
        mark(x, SILENT, dead);
        *any = *sure = true;
        return LAM_OK;
    }
    return first_unseen(x, dead, any, e);
}

lam_status lmi_ranks_ended(lam_ranks *r, bool *dead, bool *any, bool *sure, lam_error *e) {
    lmi_arena room;
    lmi_arena_init(&room, UINT64_MAX);
    ends x = {.r = r};
    x.how = lmi_alloc(&room, (uint64_t)r->n_ranks, sizeof *x.how);
    x.there = lmi_alloc(&room, (uint64_t)r->n_ranks, sizeof *x.there);
    x.seen = lmi_alloc(&room, (uint64_t)r->n_ranks, sizeof *x.seen);
    double *skew = lmi_alloc(&room, r->nodes.n, sizeof *skew);
    lam_status s = x.how && x.there && x.seen && skew ? skews(&x, skew, e) : lmi_nomem(e);
    for (int32_t i = 0; s == LAM_OK && i < r->n_ranks; i++) {
        const lmi_fact *f = r->ranks[i].fact;
        x.there[i] = f && f->attempt == r->attempts - 1;
        if (!x.there[i]) continue;
        x.n++;
        x.how[i] = end_of(f);
        x.seen[i] = f->seen == LAM_NOT_KNOWN ? NAN : (double)f->seen - skew[f->node];
    }
    x.few = x.n / 10 > 1 ? x.n / 10 : 1;
    if (s == LAM_OK) s = lmi_ranks_clocks(r, skew, e);
    if (s == LAM_OK) s = decide(&x, dead, any, sure, e);
    lmi_arena_free(&room);
    return s;
}
